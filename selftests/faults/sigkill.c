// SPDX-License-Identifier: GPL-2.0
/*
 * A rank is killed at a random moment while all ranks reduce, several operations deep. In
 * every second run a forked child still holds its descriptor. Each survivor receives right
 * results up to some operation, then within dead_ms + 1 s an error that names the victim.
 * Then the survivors start again in the same group, without the victim. In the end no member,
 * memory or socket is left.
 *
 * sigkill [-n RANKS] [-r RUNS]
 *	On 127.0.0.1; the victims are rank 0, 1, ... in turn.
 * sigkill -N PREFIX -l RANK [-n RANKS]
 *	With the ranks in namespaces PREFIX0 ...: RANK is killed when it has received a result
 *	that its successor, at the end of a slow link, still waits for.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define GROUP		0x6b111ed
#define MAX_RANKS	16
#define MAX_DEPTH	4
#define AGAIN		3		/* operations after starting again */
#define LAST_OP		3		/* operation that RANK of -l has received */

static uint32_t dead_ms = 1000;

static struct {
	uint32_t size, runs;
	const char *netns;
	int last;			/* rank, or -1 */
} opt = { .size = 4, .runs = 8, .last = -1 };

/* One run, shared by its processes. */
struct run {
	struct rar_ring ring, again;
	uint32_t place[MAX_RANKS];	/* rank in the second ring */
	uint32_t number;
	uint32_t victim;
	uint32_t depth;
	bool child;			/* a child holds the descriptor */
	struct rar_barrier joined, level, noticed;
	atomic_uint received[MAX_RANKS];
	_Atomic uint64_t killed_us;
	_Atomic bool ahead;		/* -l: the victim's successor still waited */
	_Atomic bool over;
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ rar_seed) * 0x9e3779b97f4a7c15ull;
	return x ^ x >> 32;
}

/* Operations, known to all ranks: most are small, some have a megabyte. */
static struct rar_data data_of(const struct run *run, uint64_t number,
			       uint32_t size)
{
	uint64_t r = mix(run->number * 100000ull + number);
	uint64_t count = r % 4 ? r / 4 % 5000 : r / 4 % 262144;

	if (opt.last >= 0)
		count = 20000;
	return (struct rar_data){
		.id = number + 1, .count = count, .size = size,
		.dtype = RAR_F32,
	};
}

/* ------------------------------------------------------------ a rank */

/* The rank dies; its successor should lack a result that the rank has. */
static void die_ahead(struct run *run, uint32_t rank)
{
	run->ahead = run->received[rar_next(&run->ring, rank)] <
		     run->received[rank];
	run->killed_us = rar_now_us();
	raise(SIGKILL);
}

/* Does operations until one fails. Returns its errno. */
static int work(struct run *run, uint32_t rank, int fd)
{
	uint64_t posted = 0, done = 0;
	struct rar_data d;
	int err = 0;

	while (!err) {
		if (posted - done < run->depth) {
			/* -l: the slow rank must have caught up before the last operation */
			if (opt.last >= 0 && posted == LAST_OP - 1)
				rar_barrier(&run->level, run->ring.size, 20);
			d = data_of(run, posted++, run->ring.size);
			err = rar_post(fd, &d, rank);
			continue;
		}
		d = data_of(run, done++, run->ring.size);
		err = rar_collect(fd, &d, rank);
		run->received[rank] += !err;
		if (opt.last == (int)rank && done == LAST_OP)
			die_ahead(run, rank);
	}
	/* earlier complete results can still be read */
	for (; err == -ECONNRESET && done < posted; done++) {
		d = data_of(run, done, run->ring.size);
		err = rar_collect(fd, &d, rank) ?: -ECONNRESET;
	}
	return err;
}

static int check_error(struct run *run, uint32_t rank, int fd)
{
	struct rar_error e;

	RAR_CHECK(!rar_error(fd, &e), "RAR_ERROR");
	if (e.err == ECONNRESET && e.reason == RAR_R_DIED &&
	    e.rank == run->victim)
		return 0;
	rar_log("rank %u: err %d reason %s rank %u other %u silent %u ms", rank,
		e.err, rar_reason_name(e.reason), e.rank, e.other, e.silent_ms);
	return 1;
}

static int start_again(struct run *run, uint32_t rank)
{
	uint32_t me = rank - (rank > run->victim);
	struct rar_data d;
	int fd, err;

	fd = rar_open(&run->again, me);
	RAR_CHECK(fd >= 0, "rank %u: %s", rank, strerrorname_np(-fd));
	for (int i = 0; i < AGAIN; i++) {
		d = data_of(run, 50000 + i, run->again.size);
		err = rar_allreduce(fd, &d, me);
		RAR_CHECK(!err, "rank %u: %s", rank, strerrorname_np(-err));
	}
	return 0;
}

static int survive(struct run *run, uint32_t rank, int fd)
{
	uint64_t limit_us = (dead_ms + 1000) * 1000ull, us;
	char buf[8] = "";
	int err = work(run, rank, fd);

	us = rar_now_us() - run->killed_us;
	RAR_CHECK(err == -ECONNRESET, "rank %u: %s", rank, strerrorname_np(-err));
	RAR_CHECK(run->killed_us, "rank %u: before the kill", rank);
	RAR_CHECK(us < limit_us, "rank %u: after %llu ms", rank,
		  (unsigned long long)us / 1000);
	err = rar_send(fd, buf, 8, 0, NULL);
	RAR_CHECK(err == -ECONNRESET, "rank %u: send: %d", rank, err);
	if (check_error(run, rank, fd))
		return 1;
	/* a name exists once in a namespace, so all must have failed before */
	err = rar_barrier(&run->noticed, run->ring.size - 1, 20);
	RAR_CHECK(!err, "rank %u: the others have not noticed", rank);
	return start_again(run, rank);
}

static void hold(struct run *run)
{
	if (fork())
		return;
	while (!run->over)
		rar_sleep_ms(2);
	_exit(0);
}

static int rank_main(uint32_t rank, void *arg)
{
	struct run *run = arg;
	char ms[16];
	int fd, err;

	snprintf(ms, sizeof(ms), "%u", dead_ms);
	err = rar_write("/proc/sys/net/rar/dead_ms", ms);
	RAR_CHECK(!err, "dead_ms: %s", strerrorname_np(-err));
	fd = rar_open(&run->ring, rank);
	RAR_CHECK(fd >= 0, "rank %u: %s", rank, strerrorname_np(-fd));
	if (rank == run->victim && run->child)
		hold(run);
	rar_barrier(&run->joined, run->ring.size, 20);
	if (rank != run->victim)
		return survive(run, rank, fd);
	work(run, rank, fd);
	rar_sleep_ms(20000);	/* the kill comes meanwhile */
	return 1;
}

/* ------------------------------------------------------------ a run */

static struct run *new_run(uint32_t number)
{
	struct run *run = rar_shared(sizeof(*run));

	run->number = number;
	run->victim = opt.last >= 0 ? (uint32_t)opt.last : number % opt.size;
	run->child = number / opt.size % 2;
	run->depth = opt.last >= 0 ? 1 : 1 + mix(number) % MAX_DEPTH;
	run->ring = (struct rar_ring){
		.group = GROUP, .size = opt.size, .netns = opt.netns,
		.where = opt.netns ? RAR_ON_IPV4 : RAR_ON_LO4,
	};
	run->again = run->ring;
	run->again.size--;
	run->again.place = run->place;
	for (uint32_t r = 0; r < run->again.size; r++)
		run->place[r] = r + (r >= run->victim);
	return run;
}

static void wait_joined(struct run *run)
{
	for (int i = 0; i < 20000 && !run->joined.round; i++)
		rar_sleep_ms(1);
}

/* Kills the victim at a random time from the start on. */
static void kill_victim(struct run *run, pid_t pid)
{
	wait_joined(run);
	if (opt.last >= 0)
		return;
	usleep(mix(~(uint64_t)run->number) % 150000);
	run->killed_us = rar_now_us();
	kill(pid, SIGKILL);
}

/* Runs the ranks. Returns how many did not see what they should. */
static int one_run(struct run *run)
{
	uint64_t deadline = rar_now_us() + 60000000;
	pid_t pid[MAX_RANKS];
	char netns[32];
	int bad = 0;

	for (uint32_t r = 0; r < opt.size; r++) {
		snprintf(netns, sizeof(netns), "%s%u", opt.netns ?: "", r);
		pid[r] = rar_spawn(opt.netns ? netns : NULL, rank_main, r, run);
	}
	kill_victim(run, pid[run->victim]);
	for (uint32_t r = 0; r < opt.size; r++) {
		int want = r == run->victim ? 128 + SIGKILL : 0;
		int status = rar_reap(pid[r], deadline);

		if (status == want)
			continue;
		rar_log("rank %u: status %d, not %d", r, status, want);
		bad++;
	}
	run->over = true;
	/* as a subreaper, reap children that held a descriptor */
	while (waitpid(-1, NULL, 0) > 0)
		;
	if (bad)
		rar_log("^ run %u: rank %u of %u, depth %u%s", run->number,
			run->victim, opt.size, run->depth,
			run->child ? ", a child holds the descriptor" : "");
	return bad;
}

/* ------------------------------------------------------------ what is left */

/* Read the members and the memory in /proc/net/rar. */
static int left_over(long *members, long long *mem)
{
	FILE *f = fopen("/proc/thread-self/net/rar", "re");
	char line[512];

	if (!f)
		return -errno;
	*members = -2;		/* two lines of headings */
	while (fgets(line, sizeof(line), f)) {
		if (*members == -2 &&
		    sscanf(line, "%*s %*d %*s %*d %*s %*d %*s %lld", mem) != 1)
			break;
		++*members;
	}
	fclose(f);
	return *members < 0 ? -EPROTO : 0;
}

/* Open sockets in all namespaces. */
static long open_sockets(void)
{
	FILE *f = fopen("/proc/net/protocols", "re");
	char line[512];
	long n = -1;

	while (f && n < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "RAR %*s %ld", &n) != 1)
			n = -1;
	if (f)
		fclose(f);
	return n;
}

/* Wait until nothing is left: tombstones last 2 x dead_ms, orphans linger_ms. */
static bool nothing_left(void)
{
	uint64_t deadline = rar_now_us() + (2 * dead_ms + 20000) * 1000ull;
	long members = 0, sockets = 0;
	long long mem = 0;

	while (rar_now_us() < deadline) {
		if (left_over(&members, &mem))
			break;
		sockets = open_sockets();
		if (!members && !mem && !sockets)
			return true;
		rar_sleep_ms(50);
	}
	rar_log("left: %ld members, %lld bytes, %ld sockets", members, mem,
		sockets);
	return false;
}

/* ------------------------------------------------------------ */

static void random_kills(void)
{
	int bad[MAX_RANKS] = {};

	if (rar_private_net())
		ksft_exit_fail_msg("no network namespace\n");
	ksft_set_plan(opt.size + 1);
	for (uint32_t i = 0; i < opt.runs; i++)
		bad[i % opt.size] += one_run(new_run(i));
	for (uint32_t r = 0; r < opt.size; r++)
		ksft_test_result(!bad[r], "rank %u of %u killed\n", r, opt.size);
	ksft_test_result(nothing_left(), "nothing is left after %u kills\n",
			 opt.runs);
}

static void last_delivery(void)
{
	struct run *run = new_run(0);

	ksft_set_plan(1);
	ksft_test_result(!one_run(run) && run->ahead,
			 "rank %d killed with a result that rank %d waits for\n",
			 opt.last, (opt.last + 1) % (int)opt.size);
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:r:N:l:")) != -1) {
		switch (c) {
		case 'n': opt.size = atoi(optarg); break;
		case 'r': opt.runs = atoi(optarg); break;
		case 'N': opt.netns = optarg; break;
		case 'l': opt.last = atoi(optarg); break;
		default: return KSFT_FAIL;
		}
	}
	if (opt.size < 2 || opt.size > MAX_RANKS)
		return KSFT_FAIL;
	if (rar_checked_kernel())
		dead_ms = 6000;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	rar_begin();
	if (opt.last >= 0)
		last_delivery();
	else
		random_kills();
	ksft_finished();
}
