// SPDX-License-Identifier: GPL-2.0
/*
 * A ring works without a pause while its links fail for a while, again and again. No rank
 * gets an error and all bits are right. Soon after each outage operations take no longer
 * than before it.
 *
 * outage -n RANKS -c COUNT -p INFLIGHT -g GRACE_MS -k COMMAND LENGTH_MS...
 *	Ranks are in rar0 ...; COMMAND LENGTH_MS makes an outage and returns after it. The
 *	speed should be back GRACE_MS after it. The last line for each outage is:
 *
 *	outage: ms=600 before=1234 after=1300 back=20 cwnd=100
 *
 * before, after: median time of INFLIGHT operations, us. back: time from the end of the
 * outage until they took at most a quarter longer than before, ms. Exit status 1 after an
 * error; the caller judges the speed. -w MS: warm-up.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "rar_util.h"

#define MAX_TURNS	(1u << 20)
#define MAX_OUTAGES	16
#define LEAST_US	800000u		/* shortest time over which a median is taken, */
#define LEAST_TURNS	3u		/* and fewest turns */
#define SILENT_MS	20000u		/* an operation that takes longer hangs */

struct shared {
	struct rar_barrier barrier;
	atomic_uint last;		/* number of operations, once it is known */
	atomic_uint posted;		/* operations that rank 0 posted */
	atomic_uint done;		/* operations that rank 0 completed */
	atomic_uint ended;		/* ranks that ended */
	_Atomic uint32_t cwnd;
	uint64_t at[MAX_TURNS];		/* when rank 0 completed each, us */
};

static struct {
	struct rar_ring ring;
	uint32_t inflight, grace_ms, warm_ms;
	uint64_t count;
	const char *command;
} opt = {
	.ring = { .size = 2, .netns = "rar", .group = 0x0a7a9e },
	.inflight = 4, .grace_ms = 1000, .warm_ms = 1500, .count = 65536,
};

static struct shared *shared;

/* ------------------------------------------------------------ a rank */

/* Collects a result. The first is compared with the reference, later ones with the first. */
static int collect(int fd, uint32_t rank, uint32_t i, char *first, char *buf)
{
	struct rar_data d = { .id = 1, .count = opt.count, .size = opt.ring.size,
			      .dtype = RAR_F32 };
	char *to = i ? buf : first;
	ssize_t n = rar_recv_all(fd, to, rar_bytes(&d), NULL);

	if (n != (ssize_t)rar_bytes(&d)) {
		rar_log_error(fd, "recv", n < 0 ? n : -EBADMSG);
		return -EIO;
	}
	if (i ? memcmp(buf, first, n) : rar_verify(&d, 0, d.count, first) != -1) {
		rar_log("rank %u: operation %u: wrong bits", rank, i);
		return -EBADE;
	}
	return 0;
}

static void note_done(int fd, uint32_t i)
{
	struct rar_info info;

	if (!rar_info(fd, &info))
		shared->cwnd = info.cwnd;
	shared->at[i] = rar_now_us();
	shared->done = i + 1;
}

static int work(int fd, uint32_t rank, char *data, char *first, char *buf)
{
	struct rar_op op = rar_op_of(RAR_F32, 0, 1);
	uint32_t posted = 0, i, err;

	for (i = 0; i < shared->last; i++) {
		for (; posted < shared->last && posted < i + opt.inflight; posted++) {
			err = rar_send(fd, data, 4 * opt.count, 0, &op);
			if (err) {
				rar_log_error(fd, "send", err);
				return 1;
			}
			if (!rank)
				shared->posted = posted + 1;
		}
		if (collect(fd, rank, i, first, buf))
			return 1;
		if (!rank)
			note_done(fd, i);
	}
	return 0;
}

static int rank_main(uint32_t rank, void *arg)
{
	struct rar_data d = { .id = 1, .count = opt.count, .size = opt.ring.size,
			      .dtype = RAR_F32 };
	char *data = malloc(rar_bytes(&d)), *first = malloc(rar_bytes(&d));
	char *buf = malloc(rar_bytes(&d));
	int fd, ret;

	(void)arg;
	rar_fill(&d, rank, 0, d.count, data);
	fd = rar_open(&opt.ring, rank);
	RAR_CHECK(fd >= 0, "join: %s", strerror(-fd));
	rar_timeout(fd, SO_RCVTIMEO, SILENT_MS);
	rar_timeout(fd, SO_SNDTIMEO, SILENT_MS);
	ret = rar_barrier(&shared->barrier, opt.ring.size + 1, 60) ?:
	      work(fd, rank, data, first, buf);
	shared->ended++;
	/* Wait, so that the others see the error and not that this rank is gone. */
	rar_barrier(&shared->barrier, opt.ring.size, 30);
	close(fd);
	return !!ret;
}

/* ------------------------------------------------------------ what they took */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The first operation that was complete at @us or later. */
static uint32_t op_after(uint64_t us)
{
	uint32_t i = shared->done;

	while (i && shared->at[i - 1] >= us)
		i--;
	return i;
}

static uint64_t turn(uint32_t i)
{
	return shared->at[i + opt.inflight] - shared->at[i];
}

/* The median of the turns between two times, 0 if there are too few. */
static uint64_t median(uint64_t from, uint64_t to)
{
	uint32_t i = op_after(from), end = op_after(to), n = 0;
	uint64_t *us, median;

	if (end < i + LEAST_TURNS * opt.inflight)
		return 0;
	us = calloc(end - i, sizeof(*us));
	for (; i + opt.inflight < end; i++)
		us[n++] = turn(i);
	qsort(us, n, sizeof(*us), compare);
	median = us[n / 2];
	free(us);
	return median;
}

/* Waits for enough turns after @from. Returns their median, 0 after an error. */
static uint64_t watch(uint64_t from)
{
	uint64_t us, start = from;

	while (!shared->ended) {
		rar_sleep_ms(20);
		us = rar_now_us() < start + LEAST_US ? 0 : median(start, rar_now_us());
		if (us)
			return us;
	}
	return 0;
}

/* Time from @end until a turn is short enough, ms; -1: never. */
static int back_ms(uint64_t end, uint64_t before)
{
	uint32_t i;

	for (i = op_after(end); i + opt.inflight < shared->done; i++)
		if (4 * turn(i) <= 5 * before)
			return (shared->at[i + opt.inflight] - end) / 1000;
	return -1;
}

/* Runs the command, which may be a function exported by bash. */
static int run(const char *ms)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid) {
		execlp("bash", "bash", "-c", "$0 $1", opt.command, ms, NULL);
		_exit(127);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

static int outage(const char *ms)
{
	uint64_t before, after, end;

	before = watch(rar_now_us());
	if (!before || run(ms))
		return -EIO;
	end = rar_now_us();
	while (!shared->ended && rar_now_us() < end + 1000ull * opt.grace_ms)
		rar_sleep_ms(10);
	after = watch(end + 1000ull * opt.grace_ms);
	if (!after) {
		rar_log("an error %llu ms after an outage of %s ms",
			(unsigned long long)(rar_now_us() - end) / 1000, ms);
		return -EIO;
	}
	printf("outage: ms=%s before=%llu after=%llu back=%d cwnd=%u\n", ms,
	       (unsigned long long)before, (unsigned long long)after,
	       back_ms(end, before), shared->cwnd);
	return 0;
}

static int outages(char **ms)
{
	int err = rar_barrier(&shared->barrier, opt.ring.size + 1, 60);

	rar_sleep_ms(opt.warm_ms);
	for (; *ms && !err; ms++)
		err = outage(*ms);
	/* No rank is further ahead of rank 0 than the operations in flight. */
	shared->last = shared->posted + 4 * opt.inflight;
	return err;
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:c:p:g:w:k:")) != -1) {
		switch (c) {
		case 'n': opt.ring.size = atoi(optarg); break;
		case 'c': opt.count = atoi(optarg); break;
		case 'p': opt.inflight = atoi(optarg); break;
		case 'g': opt.grace_ms = atoi(optarg); break;
		case 'w': opt.warm_ms = atoi(optarg); break;
		case 'k': opt.command = optarg; break;
		}
	}
	if (!opt.command || !opt.ring.size || opt.ring.size > RAR_PROCS || !opt.count ||
	    !opt.inflight || opt.inflight > RAR_MAX_OPS || optind == argc)
		ksft_exit_fail_msg("see the top of outage.c\n");
}

int main(int argc, char **argv)
{
	pid_t pid[RAR_PROCS];
	char netns[32];
	uint32_t r;
	int err;

	parse(argc, argv);
	rar_init();
	shared = rar_shared(sizeof(*shared));
	shared->last = MAX_TURNS;
	for (r = 0; r < opt.ring.size; r++) {
		snprintf(netns, sizeof(netns), "%s%u", opt.ring.netns, r);
		pid[r] = rar_spawn(netns, rank_main, r, NULL);
	}
	err = outages(argv + optind);
	for (r = 0; r < opt.ring.size; r++)
		if (rar_reap(pid[r], rar_now_us() + SILENT_MS * 3000ull))
			err = err ?: -EIO;
	return err ? KSFT_FAIL : KSFT_PASS;
}
