// SPDX-License-Identifier: GPL-2.0
/*
 * A member fails in the middle of a large operation. Within dead_ms + 1 s every survivor
 * learns which member failed and why, and reads the results that were complete before. The
 * group id can be used again at once: all cases here use the same id.
 *
 * failure
 *	Four ranks on 127.0.0.1; at every rank close, exit and SIGKILL, also between two
 *	operations and while a forked child holds the descriptor. One rank never posts the
 *	operation, so that it is surely unfinished. In the last cases all ranks post one
 *	operation after the other until a rank is killed.
 * failure --netns PREFIX --victim R --reason NAME[,NAME] [--errno NAME]
 *	[--kill] [--link] [--pair A:B[,C:D]] [--self NAME] [--within MS]
 *	[--late] --cut COMMAND
 *	One case with the ranks in namespaces PREFIX0 ...: COMMAND cuts rank R off. --kill:
 *	R's process is killed after the command. --link: R can still be heard, so the error
 *	may name the other ends of its links. --pair: the error names A, and B as the rank
 *	that reports it or as the other end of the link. --self: rank R must name itself for
 *	this reason, too. --within: limit instead of dead_ms + 1 s. --late: the rank that holds
 *	the operation up posts it after the command.
 * failure --netns PREFIX --victim R --unharmed --cut COMMAND
 *	COMMAND must do no harm, however long it takes; $VICTIM is R's process.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define SIZE		4
#define GROUP		0xfa11ed
#define BIG		(4u << 20)	/* bytes */

/* Longer on debug kernels, which may be silent for a while on one CPU. */
static uint32_t dead_ms = 1500;

enum how {
	BY_CLOSE, BY_EXIT, BY_KILL, BY_KILL_IDLE, BY_KILL_CHILD_HOLDS,
	BY_KILL_BUSY, BY_CUT
};

#define REASON(name) (1ull << RAR_R_##name)

static const struct {
	const char *name;
	uint64_t reasons;
} hows[] = {
	[BY_CLOSE] = { "close", REASON(CLOSED) },
	[BY_EXIT] = { "exit", REASON(DIED) },
	[BY_KILL] = { "SIGKILL", REASON(DIED) },
	/* no contribution of it is missing, but it did not say that it leaves */
	[BY_KILL_IDLE] = { "SIGKILL between operations", REASON(DIED) },
	[BY_KILL_CHILD_HOLDS] = { "SIGKILL, a child holds the descriptor",
				  REASON(DIED) },
	/* even if all its operations were complete */
	[BY_KILL_BUSY] = { "SIGKILL among many operations", REASON(DIED) },
};

/* Shared by all processes of a case. */
struct plan {
	struct rar_ring ring;
	enum how how;
	uint32_t victim;
	uint32_t lazy;			/* rank that does not post operation 1; SIZE: none */
	uint64_t reasons;		/* bit mask of allowed reasons */
	uint64_t self;			/* bit mask of reasons that the victim may see */
	int err;
	bool link;			/* a link failed: either end may be named */
	uint32_t pairs;			/* pairs that may be named, bit mask of pair_bit() */
	uint64_t within_us;
	struct rar_barrier armed;	/* operation 0 is complete at all ranks */
	_Atomic bool moving;		/* operation 1 is on its way */
	_Atomic uint64_t failed_us;	/* when the victim failed */
	bool unharmed;
	bool late;			/* rank lazy posts after the command */
	_Atomic bool done;		/* the command has ended */
	_Atomic bool over;
};

static struct rar_data first_op(void)
{
	return (struct rar_data){
		.id = 1, .count = 1000, .size = SIZE, .dtype = RAR_F32,
	};
}

static int ops_complete(int fd)
{
	struct rar_info info;

	return rar_info(fd, &info) ? -1 : (int)info.ops_complete;
}

/* Posts an operation of zeros. Returns 0 or -errno. */
static int post_big(int fd)
{
	char *big = calloc(1, BIG);
	int err = rar_send(fd, big, BIG, 0, NULL);

	free(big);
	return err;
}

/* Joins and completes operation 0, without reading it. */
static int prepare(struct plan *p, uint32_t rank)
{
	struct rar_data d = first_op();
	char ms[16];
	int fd, err;

	snprintf(ms, sizeof(ms), "%u", dead_ms);
	fd = rar_socket();
	err = rar_write("/proc/sys/net/rar/dead_ms", ms) ?:
	      rar_join(fd, &p->ring, rank) ?: rar_post(fd, &d, rank);
	if (err) {
		rar_log("rank %u: join: %s", rank, strerrorname_np(-err));
		exit(1);
	}
	for (int i = 0; i < 1000 && ops_complete(fd) < 1; i++)
		rar_sleep_ms(5);
	rar_barrier(&p->armed, SIZE, 20);
	return fd;
}

static uint32_t pair_bit(uint32_t rank, uint32_t other)
{
	return 1u << (rank % SIZE * SIZE + other % SIZE);
}

static bool names_right(const struct plan *p, const struct rar_error *e)
{
	if (p->pairs)
		return p->pairs & pair_bit(e->rank, e->other);
	return e->rank == p->victim || (p->link && e->other == p->victim);
}

static int check_error(struct plan *p, int fd, uint32_t rank)
{
	uint64_t reasons = p->self && rank == p->victim ? p->self : p->reasons;
	struct rar_error e;

	RAR_CHECK(!rar_error(fd, &e), "RAR_ERROR");
	if (e.err == p->err && reasons >> e.reason & 1 && names_right(p, &e))
		return 0;
	rar_log("rank %u: %s reason %s rank %u other %u silent %u ms", rank,
		strerrorname_np(e.err), rar_reason_name(e.reason), e.rank,
		e.other, e.silent_ms);
	return 1;
}

/* Takes part in further operations until one fails. Returns its errno. */
static ssize_t work(int fd)
{
	char *big = malloc(BIG);
	ssize_t n;

	do {
		n = post_big(fd) ?: rar_recv_all(fd, big, BIG, NULL);
	} while (n == BIG);
	free(big);
	return n;
}

static void wait_done(struct plan *p)
{
	for (int i = 0; i < 4000 && !p->done; i++)
		rar_sleep_ms(5);
}

static int survive(struct plan *p, uint32_t rank, int fd)
{
	struct pollfd pfd = { .fd = fd };
	struct rar_data d = first_op();
	uint64_t us;
	char buf[8];
	ssize_t err;

	/* send() may fail already if the failure came very early */
	if (rank == p->lazy && p->late)
		wait_done(p);
	err = rank == p->lazy && !p->late ? 0 : post_big(fd);
	RAR_CHECK(!err || err == -p->err, "rank %u: send: %zd", rank, err);

	err = poll(&pfd, 1, 15000);
	us = rar_now_us() - p->failed_us;
	RAR_CHECK(err == 1, "rank %u: nothing in 15 s", rank);
	if (p->how == BY_CUT)
		rar_log("rank %u: after %llu ms", rank, (unsigned long long)us / 1000);
	RAR_CHECK(p->failed_us, "rank %u: failed before the victim did", rank);
	RAR_CHECK(us < p->within_us, "rank %u: after %llu ms",
		  rank, (unsigned long long)us / 1000);
	err = rar_collect(fd, &d, rank);
	RAR_CHECK(!err, "rank %u: the result before: %s", rank,
		  strerrorname_np(-err));
	err = rar_recv(fd, buf, 8, 0, NULL, NULL);
	RAR_CHECK(err == -p->err, "rank %u: recv: %zd", rank, err);
	err = rar_send(fd, buf, 8, 0, NULL);
	RAR_CHECK(err == -p->err, "rank %u: send: %zd", rank, err);
	return check_error(p, fd, rank);
}

/* Does one operation after the other until the group fails, and checks the error. */
static int survive_busy(struct plan *p, uint32_t rank, int fd)
{
	struct rar_data d = first_op();
	ssize_t err = rar_collect(fd, &d, rank);
	uint64_t us;

	RAR_CHECK(!err, "rank %u: %s", rank, strerrorname_np(-err));
	err = work(fd);
	us = rar_now_us() - p->failed_us;
	RAR_CHECK(err == -ECONNRESET, "rank %u: %zd", rank, err);
	RAR_CHECK(p->failed_us, "rank %u: failed before the victim did", rank);
	RAR_CHECK(us < p->within_us, "rank %u: after %llu ms",
		  rank, (unsigned long long)us / 1000);
	return check_error(p, fd, rank);
}

static struct plan *dying;

static void die(int sig)
{
	(void)sig;
	dying->failed_us = rar_now_us();
	raise(SIGKILL);
}

/* The victim is killed somewhere between its sends and receives. */
static int fail_busy(struct plan *p, int fd)
{
	struct itimerval soon = {
		.it_value.tv_usec = 20000 + rar_seed % 50000,
	};

	struct rar_data d = first_op();

	RAR_CHECK(!rar_collect(fd, &d, p->victim), "the first operation");
	dying = p;
	signal(SIGALRM, die);
	setitimer(ITIMER_REAL, &soon, NULL);
	work(fd);
	return 1;
}

static void hold(struct plan *p)
{
	if (fork())
		return;
	while (!p->over)
		rar_sleep_ms(5);
	_exit(0);
}

/* Waits until some of the operation was sent. */
static int wait_moving(int fd)
{
	struct rar_info info;

	for (int i = 0; i < 5000; i++) {
		if (rar_info(fd, &info) || info.ops_complete > 1)
			return -1;
		if (info.bytes_tx > 20000)
			return 0;
		rar_sleep_ms(1);
	}
	return -1;
}

/* The victim fails in the middle of operation 1, or before it. */
static int fail(struct plan *p, int fd)
{
	RAR_CHECK(p->how == BY_KILL_IDLE || (!post_big(fd) && !wait_moving(fd)),
		  "nothing moves");
	if (p->how == BY_KILL_CHILD_HOLDS)
		hold(p);
	p->failed_us = rar_now_us();
	if (p->how == BY_CLOSE)
		close(fd);
	else if (p->how != BY_EXIT)
		raise(SIGKILL);
	return 0;	/* the process exits with the descriptor open */
}

static int cut_off(struct plan *p, int fd)
{
	struct pollfd pfd = { .fd = fd };

	RAR_CHECK(!post_big(fd) && !wait_moving(fd), "nothing moves");
	p->moving = true;
	/* the rank that is cut off must get an error, too, and not hang */
	RAR_CHECK(poll(&pfd, 1, 15000) == 1, "the cut off rank saw nothing");
	return p->self || p->pairs ? check_error(p, fd, p->victim) : 0;
}

/* The lazy rank posts after the command; then all results must be right. */
static int no_harm(struct plan *p, uint32_t rank, int fd)
{
	struct rar_data d = first_op();
	char *big = malloc(BIG);
	ssize_t n;

	if (rank != p->lazy)
		RAR_CHECK(!post_big(fd), "rank %u: send", rank);
	if (rank == p->victim) {
		RAR_CHECK(!wait_moving(fd), "nothing moves");
		p->moving = true;
	}
	wait_done(p);
	if (rank == p->lazy)
		RAR_CHECK(!post_big(fd), "rank %u: send", rank);
	n = rar_collect(fd, &d, rank);
	if (!n)
		n = rar_recv_all(fd, big, BIG, NULL);
	if (n == BIG)
		n = rar_allreduce(fd, &d, rank);
	if (n)
		rar_log_error(fd, "harmed", n);
	free(big);
	return n != 0;
}

static int rank_main(uint32_t rank, void *arg)
{
	struct plan *p = arg;
	bool busy = p->how == BY_KILL_BUSY;
	int fd = prepare(p, rank);

	if (p->unharmed)
		return no_harm(p, rank, fd);
	if (rank != p->victim)
		return busy ? survive_busy(p, rank, fd) : survive(p, rank, fd);
	if (busy)
		return fail_busy(p, fd);
	return p->how == BY_CUT ? cut_off(p, fd) : fail(p, fd);
}

/* ------------------------------------------------------------ the cases */

static struct plan *new_plan(enum how how, uint32_t victim)
{
	struct plan *p = rar_shared(sizeof(*p));

	p->ring = (struct rar_ring){
		.group = GROUP, .size = SIZE, .where = RAR_ON_LO4,
	};
	p->how = how;
	p->victim = victim;
	p->err = ECONNRESET;
	/* dead_ms of silence, a quarter more if a notice is lost, and time to run */
	p->within_us = how == BY_CUT ? dead_ms * 1250ull + 300000 :
				       (dead_ms + 1000) * 1000ull;
	p->lazy = how == BY_KILL_BUSY ? SIZE : (victim + 2) % SIZE;
	if (how != BY_CUT)
		p->reasons = hows[how].reasons;
	return p;
}

static void start(struct plan *p, pid_t *pid)
{
	char netns[32];

	for (uint32_t r = 0; r < SIZE; r++) {
		snprintf(netns, sizeof(netns), "%s%u", p->ring.netns ?: "", r);
		pid[r] = rar_spawn(p->ring.netns ? netns : NULL, rank_main, r, p);
	}
}

/* Waits for all ranks. Returns how many did not see what they should. */
static int finish(struct plan *p, pid_t *pid, bool victim_killed)
{
	uint64_t deadline = rar_now_us() + 40000000;
	int bad = 0;

	for (uint32_t r = 0; r < SIZE; r++) {
		int want = r == p->victim && victim_killed ? 128 + SIGKILL : 0;
		int status = rar_reap(pid[r], deadline);

		if (status == want)
			continue;
		rar_log("rank %u%s: status %d", r,
			r == p->victim ? " (the victim)" : "", status);
		bad++;
	}
	p->over = true;
	/* as a subreaper, reap children that held a descriptor */
	while (waitpid(-1, NULL, 0) > 0)
		;
	return bad;
}

static int one_case(enum how how, uint32_t victim)
{
	struct plan *p = new_plan(how, victim);
	pid_t pid[SIZE];
	int bad;

	start(p, pid);
	bad = finish(p, pid, how >= BY_KILL);
	if (bad)
		rar_log("^ %s of rank %u", hows[how].name, victim);
	return bad;
}

/* After all these failures a group with this id works. */
static int healthy(uint32_t rank, void *arg)
{
	struct rar_ring ring = {
		.group = GROUP, .size = SIZE, .where = RAR_ON_LO4,
	};
	struct rar_data d = first_op();
	int fd = rar_open(&ring, rank), err;

	(void)arg;
	RAR_CHECK(fd >= 0, "rank %u: %s", rank, strerrorname_np(-fd));
	err = rar_allreduce(fd, &d, rank);
	RAR_CHECK(!err, "rank %u: %s", rank, strerrorname_np(-err));
	return 0;
}

static void all_cases(void)
{
	if (rar_private_net())
		ksft_exit_fail_msg("no network namespace\n");
	ksft_set_plan(BY_CUT * SIZE + 1);
	for (int how = BY_CLOSE; how < BY_CUT; how++)
		for (uint32_t victim = 0; victim < SIZE; victim++)
			ksft_test_result(!one_case(how, victim),
					 "%s, rank %u\n", hows[how].name,
					 victim);
	ksft_test_result(!rar_run(SIZE, NULL, 20, healthy, NULL),
			 "the group id works again\n");
	ksft_finished();
}

/* ------------------------------------------------------------ cut off */

static uint64_t parse_reasons(char *list)
{
	uint64_t mask = 0;

	for (char *name = strtok(list, ","); name; name = strtok(NULL, ","))
		for (uint32_t i = 0; i < RAR_R_NR; i++)
			if (!strcmp(name, rar_reason_name(i)))
				mask |= 1ull << i;
	return mask;
}

static uint32_t parse_pairs(char *list)
{
	unsigned int a, b;
	uint32_t mask = 0;

	for (char *pair = strtok(list, ","); pair; pair = strtok(NULL, ","))
		if (sscanf(pair, "%u:%u", &a, &b) == 2)
			mask |= pair_bit(a, b);
	return mask;
}

static int parse_errno(const char *name)
{
	for (int err = 1; err < 200; err++)
		if (strerrorname_np(err) && !strcmp(name, strerrorname_np(err)))
			return err;
	return 0;
}

/* Runs the command in bash, as sh would drop exported functions. */
static int run_command(const char *command, pid_t victim)
{
	pid_t pid = fork();
	char text[16];

	if (pid)
		return rar_reap(pid, rar_now_us() + 20000000);
	snprintf(text, sizeof(text), "%d", victim);
	setenv("VICTIM", text, 1);
	execlp("bash", "bash", "-c", command, NULL);
	_exit(127);
}

static int cut_case(struct plan *p, const char *command, bool kill_too)
{
	pid_t pid[SIZE];
	int status;

	start(p, pid);
	for (int i = 0; i < 4000 && !p->moving; i++)
		rar_sleep_ms(5);
	p->failed_us = rar_now_us();
	status = run_command(command, pid[p->victim]);
	p->failed_us = rar_now_us();	/* the command itself may be slow */
	p->done = true;
	if (status)
		rar_log("%s: status %d", command, status);
	if (kill_too)
		kill(pid[p->victim], SIGKILL);
	return finish(p, pid, kill_too) || status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "netns", 1, NULL, 'n' }, { "victim", 1, NULL, 'v' },
		{ "reason", 1, NULL, 'r' }, { "cut", 1, NULL, 'c' },
		{ "kill", 0, NULL, 'k' }, { "link", 0, NULL, 'l' },
		{ "errno", 1, NULL, 'e' }, { "pair", 1, NULL, 'p' },
		{ "self", 1, NULL, 's' }, { "within", 1, NULL, 'w' },
		{ "unharmed", 0, NULL, 'u' }, { "late", 0, NULL, 'L' }, { 0 },
	};
	const char *cut = NULL;
	bool kill_too = false;
	struct plan *p;
	int c;

	if (rar_checked_kernel())
		dead_ms = 6000;
	p = new_plan(BY_CUT, 0);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			p->ring.netns = optarg;
			p->ring.where = RAR_ON_IPV4;
			break;
		case 'v':
			p->victim = atoi(optarg);
			p->lazy = (p->victim + 2) % SIZE;
			break;
		case 'r': p->reasons = parse_reasons(optarg); break;
		case 'c': cut = optarg; break;
		case 'k': kill_too = true; break;
		case 'l': p->link = true; break;
		case 'e': p->err = parse_errno(optarg); break;
		case 'p': p->pairs = parse_pairs(optarg); break;
		case 's': p->self = parse_reasons(optarg); break;
		case 'w': p->within_us = atoi(optarg) * 1000ull; break;
		case 'u': p->unharmed = true; break;
		case 'L': p->late = true; break;
		default: return 2;
		}
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (cut) {
		rar_init();
		return cut_case(p, cut, kill_too);
	}
	rar_begin();
	all_cases();
}
