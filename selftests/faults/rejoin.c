// SPDX-License-Identifier: GPL-2.0
/*
 * Starting again after a failure. A seat is a namespace PREFIX0 .. PREFIX3 whose process has
 * a rank in one ring after the other. All reduce, several operations deep, until one is
 * killed. The others start again in one of four ways. They agree on the first operation that
 * any of them lacks, and repeat from there. Every result must be the sum of the ring in which
 * it was received.
 *
 * rejoin -N PREFIX [-r RUNS]
 *	bind    the same socket binds and connects, as a ring of three
 *	join    the same socket calls RAR_JOIN, as a ring of three
 *	new     each opens a new socket, some with the old socket still open
 *	connect the same socket connects: a ring of four, with a replacement
 *	The runs use these ways in turn. Rings of three are then aborted, and start again in
 *	the same way with the replacement. Some get another group id, for which no process
 *	remembers an epoch.
 * rejoin -N PREFIX -p COMMAND -q COMMAND [-l]
 *	The first COMMAND parts seats 0, 1 from 2, 3, and each half becomes a ring of two of
 *	the same group. Then the second COMMAND brings them together; with -l before the
 *	second half has noticed anything.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define SEATS		4
#define RINGS		3		/* rings of a run at most, one after the other */
#define MAX_DEPTH	4
#define LAST_OPS	12		/* operations of the last ring */
#define GROUP		0x4e301

static uint32_t dead_ms = 1000;

static struct {
	const char *netns, *part, *unite;
	uint32_t runs;
	bool late;
} opt = { .runs = 4 };

enum how { BY_BIND, BY_JOIN, BY_NEW, BY_CONNECT, HOWS };

static const char * const how_names[] = { "bind", "join", "new", "connect" };

/* One ring of a run, and the seats of its ranks. */
struct circle {
	struct rar_ring ring;
	uint32_t place[SEATS];		/* seat of each rank */
};

/* Results of a seat in a ring. */
struct seen {
	uint64_t epoch, resume_epoch, resume_op;
	uint64_t first;			/* number of its operation 0 */
	uint64_t received;
	bool was;
};

struct run {
	uint32_t number;
	enum how how;
	uint32_t victim;		/* seat */
	uint32_t depth;
	uint32_t rings;
	struct circle circle[RINGS];
	struct circle half[2];		/* the rings of a partition */
	struct seen seen[SEATS][RINGS];
	struct rar_barrier joined;
	_Atomic bool vacant;		/* the ring before the last is over */
	_Atomic bool stop;
	_Atomic uint64_t end[2];	/* by half: operations after which it stops */
};

/* A process. */
struct rank {
	struct run *run;
	uint32_t seat, ring;
	const struct circle *circle;
	uint32_t me;
	int fd;
	uint64_t posted, done;		/* in this ring */
	uint64_t salt;			/* makes the data of the halves differ */
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ rar_seed) * 0x9e3779b97f4a7c15ull;
	return x ^ x >> 32;
}

/* The data of an operation; the same in each ring that repeats it. */
static struct rar_data data_of(const struct rank *r, uint64_t op)
{
	uint64_t number = r->run->seen[r->seat][r->ring].first + op;
	uint64_t rnd = mix(r->run->number * 100000ull + number);

	return (struct rar_data){
		.id = number + 1 + r->salt, .size = r->circle->ring.size,
		.dtype = RAR_F32,
		.count = rnd % 3 ? rnd / 3 % 4000 : rnd / 3 % 60000,
	};
}

static uint32_t rank_of(const struct circle *c, uint32_t seat)
{
	for (uint32_t r = 0; r < c->ring.size; r++)
		if (c->place[r] == seat)
			return r;
	return c->ring.size;
}

/* ------------------------------------------------------------ in a ring */

static int collect(struct rank *r)
{
	struct rar_data d = data_of(r, r->done);
	int err = rar_collect(r->fd, &d, r->me);

	if (!err) {
		r->done++;
		r->run->seen[r->seat][r->ring].received++;
	}
	return err;
}

static int post(struct rank *r)
{
	struct rar_data d = data_of(r, r->posted);
	int err = rar_post(r->fd, &d, r->me);

	r->posted += !err;
	return err;
}

/* Does @ops operations, 0: until one fails. Complete results may remain unread. */
static int work(struct rank *r, uint64_t ops)
{
	uint32_t zero = 0;
	int err = 0;

	while (!err && (!ops || r->done < ops)) {
		/* each seat pauses at random */
		if (!(mix(r->run->number + r->seat * 7919 + r->done) % 4))
			usleep(mix(r->done) % 3000);
		if (r->posted - r->done < r->run->depth &&
		    (!ops || r->posted < ops))
			err = post(r);
		else
			err = collect(r);
		/* rank 0 aborts a ring of three */
		if (!ops && r->ring && !r->me && r->done == 9)
			setsockopt(r->fd, SOL_RAR, RAR_ABORT, &zero, sizeof(zero));
	}
	return err;
}

/* Reads all results up to the error. Returns their number, or a negative errno. */
static int drain(struct rank *r)
{
	int n = 0, err;

	do {
		err = collect(r);
		n += !err;
	} while (!err);
	if (err != -ECONNRESET)
		rar_log_error(r->fd, "after the last result", err);
	return err == -ECONNRESET ? n : err;
}

/* Notes the new ring: its operation numbers go on from the last ring's. */
static int note_ring(struct rank *r)
{
	struct seen *seen = &r->run->seen[r->seat][r->ring];
	struct rar_info info;
	int err = rar_info(r->fd, &info);

	if (err)
		return err;
	seen->epoch = info.epoch;
	seen->resume_epoch = info.resume_epoch;
	seen->resume_op = info.resume_op;
	if (r->ring) {
		/* a replacement takes the numbers from another seat */
		bool was = r->run->seen[r->seat][r->ring - 1].was;
		uint32_t from = was ? r->seat : r->circle->place[r->me ? 0 : 1];

		seen->first = r->run->seen[from][r->ring - 1].first +
			      info.resume_op;
	}
	seen->was = true;
	r->posted = 0;
	r->done = 0;
	return 0;
}

static int set_circle(struct rank *r, uint32_t ring)
{
	r->ring = ring;
	r->circle = &r->run->circle[ring];
	r->me = rank_of(r->circle, r->seat);
	return r->me < r->circle->ring.size ? 0 : -EINVAL;
}

/* ------------------------------------------------------------ starting again */

/* The first call of a way to start again. */
static int begin(struct rank *r, const struct circle *next, uint32_t me)
{
	switch (r->run->how) {
	case BY_BIND: return rar_bind(r->fd, &next->ring, me);
	case BY_JOIN: return rar_join_start(r->fd, &next->ring, me);
	default: return rar_connect(r->fd, &next->ring, me);
	}
}

/* The second call of a way to start again. */
static int go_on(struct rank *r, const struct circle *next, uint32_t me)
{
	switch (r->run->how) {
	case BY_BIND: return rar_connect(r->fd, &next->ring, me);
	case BY_JOIN: return rar_join_wait(r->fd, 30000);
	default: return 0;
	}
}

/* Starts again with the same socket. Complete results have to be read first. */
static int same_socket(struct rank *r, const struct circle *next, uint32_t me)
{
	int err = begin(r, next, me), n;

	if (err == -EBUSY) {
		n = drain(r);
		RAR_CHECK(n > 0, "seat %u: EBUSY and %d results", r->seat, n);
		err = begin(r, next, me);
	}
	err = err ?: go_on(r, next, me);
	RAR_CHECK(!err, "seat %u: %s", r->seat, strerrorname_np(-err));
	return 0;
}

static int new_socket(struct rank *r, const struct circle *next, uint32_t me)
{
	int n = drain(r);

	RAR_CHECK(n >= 0, "seat %u: drain: %d", r->seat, n);
	if (r->seat & 1)
		close(r->fd);
	r->fd = rar_open(&next->ring, me);
	RAR_CHECK(r->fd >= 0, "seat %u: %s", r->seat, strerrorname_np(-r->fd));
	return 0;
}

static int start_again(struct rank *r)
{
	const struct circle *next = &r->run->circle[r->ring + 1];
	uint32_t me = rank_of(next, r->seat);
	int err;

	if (r->run->how == BY_NEW)
		err = new_socket(r, next, me);
	else
		err = same_socket(r, next, me);
	if (err)
		return err;
	set_circle(r, r->ring + 1);
	return note_ring(r);
}

/* ------------------------------------------------------------ a seat's life */

static int check_error(struct rank *r, int err)
{
	bool aborted = r->ring > 0;
	uint32_t rank = aborted ? 0 : rank_of(r->circle, r->run->victim);
	struct rar_error e = {};

	rar_error(r->fd, &e);
	if (err == -ECONNRESET && e.err == ECONNRESET && e.rank == rank &&
	    (e.reason == RAR_R_ABORTED) == aborted)
		return 0;
	rar_log("seat %u, ring %u: %s, err %d reason %s rank %u other %u",
		r->seat, r->ring, strerrorname_np(-err), e.err,
		rar_reason_name(e.reason), e.rank, e.other);
	return 1;
}

static int set_dead_ms(uint32_t ms)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", ms);
	return rar_write("/proc/sys/net/rar/dead_ms", text);
}

/* Goes from ring to ring; nothing disturbs the last ring. */
static int live(struct rank *r)
{
	int err;

	while (r->ring + 1 < r->run->rings) {
		err = work(r, 0);
		r->run->vacant |= r->ring + 2 == r->run->rings;
		if (check_error(r, err) || start_again(r))
			return 1;
	}
	err = work(r, LAST_OPS);
	if (err)
		rar_log_error(r->fd, "the last ring", err);
	return err != 0;
}

static int seat_main(uint32_t seat, void *arg)
{
	struct rank r = { .run = arg, .seat = seat };
	int err;

	err = set_dead_ms(dead_ms) ?: set_circle(&r, 0);
	RAR_CHECK(!err, "seat %u: %d", seat, err);
	r.fd = rar_open(&r.circle->ring, r.me);
	RAR_CHECK(r.fd >= 0, "seat %u: %s", seat, strerrorname_np(-r.fd));
	err = note_ring(&r);
	RAR_CHECK(!err, "seat %u: RAR_INFO", seat);
	rar_barrier(&r.run->joined, SEATS, 20);
	return live(&r);
}

/* A new process that takes the victim's seat in the last ring. */
static int replacement_main(uint32_t seat, void *arg)
{
	struct rank r = { .run = arg, .seat = seat };

	for (int i = 0; i < 30000 && !r.run->vacant; i++)
		rar_sleep_ms(1);
	RAR_CHECK(!set_circle(&r, r.run->rings - 1), "seat %u", seat);
	r.fd = rar_open(&r.circle->ring, r.me);
	RAR_CHECK(r.fd >= 0, "seat %u: %s", seat, strerrorname_np(-r.fd));
	RAR_CHECK(!note_ring(&r), "seat %u: RAR_INFO", seat);
	return live(&r);
}

/* ------------------------------------------------------------ the verdict */

/*
 * The lowest number of results of a seat that was in both rings. Sets @differ if the seats had
 * different numbers.
 */
static uint64_t behind(const struct run *run, const struct circle *c,
		       uint32_t ring, bool *differ)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (uint32_t i = 0; i < c->ring.size; i++) {
		const struct seen *was = &run->seen[c->place[i]][ring - 1];

		if (!was->was || c->place[i] == run->victim)
			continue;
		low = was->received < low ? was->received : low;
		high = was->received > high ? was->received : high;
	}
	*differ |= low != high;
	return low;
}

/* Do all members of a ring agree on its epoch, the failed epoch and where to resume? */
static int judge_ring(const struct run *run, const struct circle *c,
		      uint32_t ring, bool *differ)
{
	uint32_t survivor = c->place[c->place[0] == run->victim];
	uint64_t before = run->seen[survivor][ring - 1].epoch, epoch = 0;
	bool same = c->ring.group == run->circle[ring - 1].ring.group;
	uint64_t resume = same ? before : 0;
	uint64_t want = same ? behind(run, c, ring, differ) : 0;
	int bad = 0;

	for (uint32_t i = 0; i < c->ring.size; i++) {
		const struct seen *s = &run->seen[c->place[i]][ring];

		epoch = epoch ?: s->epoch;
		if (s->epoch == epoch && epoch != before &&
		    s->resume_epoch == resume && s->resume_op == want)
			continue;
		rar_log("ring %u seat %u: epoch %llx resumes %llx at %llu, not %llx at %llu",
			ring, c->place[i], (unsigned long long)s->epoch,
			(unsigned long long)s->resume_epoch,
			(unsigned long long)s->resume_op,
			(unsigned long long)resume, (unsigned long long)want);
		bad++;
	}
	return bad;
}

/* ------------------------------------------------------------ a run */

/* Make a ring of all seats except @without; RAR_PROCS: of all seats. */
static void make_circle(struct circle *c, uint64_t group, uint32_t without)
{
	uint32_t n = 0;

	for (uint32_t s = 0; s < SEATS; s++)
		if (s != without)
			c->place[n++] = s;
	c->ring = (struct rar_ring){
		.group = group, .size = n, .where = RAR_ON_IPV4,
		.netns = opt.netns, .place = c->place,
	};
}

static struct run *new_run(uint32_t number)
{
	struct run *run = rar_shared(sizeof(*run));
	uint64_t group = GROUP;

	run->number = number;
	run->how = number % HOWS;
	run->victim = mix(number) % SEATS;
	run->depth = 1 + mix(~(uint64_t)number) % MAX_DEPTH;
	make_circle(&run->circle[0], group, RAR_PROCS);
	run->rings = run->how == BY_CONNECT ? 2 : 3;
	if (run->rings == 3)
		group += number / HOWS % 2;
	if (run->rings == 3)
		make_circle(&run->circle[1], group, run->victim);
	make_circle(&run->circle[run->rings - 1], group, RAR_PROCS);
	return run;
}

static void start(struct run *run, rar_rank_fn fn, pid_t *pid)
{
	char netns[32];

	for (uint32_t s = 0; s < SEATS; s++) {
		snprintf(netns, sizeof(netns), "%s%u", opt.netns, s);
		pid[s] = rar_spawn(netns, fn, s, run);
	}
	for (int i = 0; i < 20000 && !run->joined.round; i++)
		rar_sleep_ms(1);
}

static int finish(pid_t *pid)
{
	uint64_t deadline = rar_now_us() + 60000000;
	int bad = 0;

	for (uint32_t s = 0; s < SEATS; s++) {
		int status = rar_reap(pid[s], deadline);

		if (status)
			rar_log("seat %u: status %d", s, status);
		bad += status != 0;
	}
	return bad;
}

static int one_run(struct run *run, bool *differ)
{
	pid_t pid[SEATS];
	char netns[32];
	int bad;

	start(run, seat_main, pid);
	usleep(20000 + mix(run->number + 77) % 150000);
	rar_kill(pid[run->victim]);
	snprintf(netns, sizeof(netns), "%s%u", opt.netns, run->victim);
	pid[run->victim] = rar_spawn(netns, replacement_main, run->victim, run);
	bad = finish(pid);
	for (uint32_t ring = 1; ring < run->rings && !bad; ring++)
		bad = judge_ring(run, &run->circle[ring], ring, differ);
	if (bad)
		rar_log("^ run %u: by %s, victim %u, depth %u", run->number,
			how_names[run->how], run->victim, run->depth);
	return bad;
}

static void all_runs(void)
{
	int bad[HOWS] = {}, n[HOWS] = {};
	bool differ = false;

	ksft_set_plan(HOWS + 1);
	/* When a rank dies is random: more runs if all seats always had the same results. */
	for (uint32_t i = 0; i < opt.runs || (!differ && i < 5 * opt.runs); i++) {
		bad[i % HOWS] += one_run(new_run(i), &differ);
		n[i % HOWS]++;
	}
	for (int how = 0; how < HOWS; how++)
		ksft_test_result(!bad[how], "%d runs, again by %s\n", n[how],
				 how_names[how]);
	ksft_test_result(differ, "in some run survivors had different numbers of results\n");
}

/* ------------------------------------------------------------ a partition */

/*
 * A half works in lock step until both halves have run for a while after they came together.
 * Its second rank can be one operation ahead of the first rank, which decides the end.
 */
static int work_on(struct rank *r)
{
	_Atomic uint64_t *end = &r->run->end[r->seat / 2];
	int err = 0;

	while (!err && (!*end || r->done < *end)) {
		if (!r->me && r->run->stop && !*end)
			*end = r->posted + 2;
		err = post(r) ?: collect(r);
	}
	return err;
}

static int half_main(uint32_t seat, void *arg)
{
	struct rank r = { .run = arg, .seat = seat };
	struct rar_error e;
	int err;

	/* -l: the second half does not notice the partition by itself */
	err = set_dead_ms(opt.late && seat / 2 ? 20 * dead_ms : dead_ms) ?:
	      set_circle(&r, 0);
	RAR_CHECK(!err, "seat %u: %d", seat, err);
	r.fd = rar_open(&r.circle->ring, r.me);
	RAR_CHECK(r.fd >= 0, "seat %u: %s", seat, strerrorname_np(-r.fd));
	err = note_ring(&r);
	RAR_CHECK(!err, "seat %u: RAR_INFO", seat);
	rar_barrier(&r.run->joined, SEATS, 20);
	err = work(&r, 0);
	if (rar_error(r.fd, &e) || err != -ECONNRESET ||
	    e.reason != (opt.late && seat / 2 ? RAR_R_RESET : RAR_R_SILENT)) {
		rar_log_error(r.fd, "the whole ring", err);
		return 1;
	}
	RAR_CHECK(drain(&r) >= 0, "seat %u", seat);

	r.ring = 1;
	r.salt = seat / 2 * 1000000;
	r.circle = &r.run->half[seat / 2];
	r.me = rank_of(r.circle, seat);
	err = rar_join(r.fd, &r.circle->ring, r.me);
	RAR_CHECK(!err, "seat %u: %s", seat, strerrorname_np(-err));
	err = note_ring(&r);
	RAR_CHECK(!err, "seat %u: RAR_INFO", seat);
	err = work_on(&r);
	RAR_CHECK(!err, "seat %u: %s", seat, strerrorname_np(-err));
	return 0;
}

/* Runs the command in bash, as sh would drop exported functions. */
static int run_command(const char *command)
{
	pid_t pid = fork();

	if (pid)
		return rar_reap(pid, rar_now_us() + 20000000);
	execlp("bash", "bash", "-c", command, NULL);
	_exit(127);
}

static void wait_halves(const struct run *run, uint32_t seats)
{
	for (uint32_t s = 0; s < seats; s++)
		for (int i = 0; i < 30000 && !run->seen[s][1].was; i++)
			rar_sleep_ms(1);
}

static int part_and_unite(struct run *run, pid_t *pid)
{
	int err;

	start(run, half_main, pid);
	rar_sleep_ms(200);
	err = run_command(opt.part);
	wait_halves(run, opt.late ? SEATS / 2 : SEATS);
	/* until no tombstone answers for the old epoch; the other half still runs in it */
	if (opt.late)
		rar_sleep_ms(3 * dead_ms);
	err = err ?: run_command(opt.unite);
	wait_halves(run, SEATS);
	rar_sleep_ms(2 * dead_ms);
	run->stop = true;
	return finish(pid) ?: err;
}

static void partition(void)
{
	struct run *run = new_run(0);
	bool differ = false;
	pid_t pid[SEATS];
	int bad;

	ksft_set_plan(1);
	run->victim = RAR_PROCS;
	for (uint32_t i = 0; i < 2; i++) {
		make_circle(&run->half[i], GROUP, RAR_PROCS);
		run->half[i].ring.size = 2;
		run->half[i].place[0] = 2 * i;
		run->half[i].place[1] = 2 * i + 1;
	}
	bad = part_and_unite(run, pid);
	for (uint32_t i = 0; i < 2 && !bad; i++)
		bad = judge_ring(run, &run->half[i], 1, &differ);
	if (run->seen[0][1].epoch == run->seen[2][1].epoch)
		bad++;
	ksft_test_result(!bad, "two halves of a group never mix\n");
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "N:r:p:q:l")) != -1) {
		switch (c) {
		case 'N': opt.netns = optarg; break;
		case 'r': opt.runs = atoi(optarg); break;
		case 'p': opt.part = optarg; break;
		case 'q': opt.unite = optarg; break;
		case 'l': opt.late = true; break;
		default: return KSFT_FAIL;
		}
	}
	if (!opt.netns || !opt.part != !opt.unite)
		return KSFT_FAIL;
	if (rar_checked_kernel())
		dead_ms = 6000;
	rar_begin();
	if (opt.part)
		partition();
	else
		all_runs();
	ksft_finished();
}
