// SPDX-License-Identifier: GPL-2.0
/*
 * jobs NETNS BOX JOBS GROUP POLICY MEM SLOT_NS SEED: training jobs that share one box. For
 * jobs.py.
 *
 * Each job is a group of RANKS ranks. Rank r of job j is a process in the namespace
 * NETNS<j * RANKS + r>. The box, at the IPv4 address BOX, is in NETNSbox, where POLICY and MEM
 * become net.rar.box_policy and net.rar.box_mem. SLOT_NS is the time of SLOT bytes on a rank's
 * link.
 *
 * In an iteration a rank computes the backward pass layer by layer and sends each gradient when it
 * is there. recv() returns the sums in the order of send(), so when the front layer's has come,
 * all have, and the forward pass goes through without a wait. A rank sleeps while it computes, as
 * that would not be the work of this processor. It compares every element of a sum.
 *
 * Prints the mean of the jobs' times (from the start of a job to the end of its last rank) in ns,
 * the chunks summed by the box and by the ring, the packets that the box gave back, and how many
 * of 1000 parts of the time the processor was not idle.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../selftests/lib/rar_util.h"
#include "bench.h"

/* Fixed before anything was measured. */
#define RANKS		4
#define LAYERS		8
#define ITERATIONS	6
#define SLOT		4096		/* bytes */
#define START_SLOTS	200		/* in whose time all jobs start */
#define JITTER		0.1		/* of the time of a backward pass, lognormal */

#define OPEN_S		20		/* for all jobs to join, and enter at the box */
#define LIMIT_S		60		/* for everything */

/*
 * struct kind - a kind of job
 * @slots:	slots of each layer, in the order of the backward pass
 * @compute:	time of both passes, in slots
 */
struct kind {
	uint32_t slots[LAYERS];
	uint32_t compute;
};

static const struct kind kinds[] = {
	/* communication / computing 2; the layers at the back have most parameters, as in VGG */
	{ { 56, 56, 8, 8, 8, 8, 8, 8 }, 80 },
	/* 0.5 */
	{ { 10, 10, 10, 10, 10, 10, 10, 10 }, 160 },
};

/*
 * struct report - of a rank
 * @end_ns:	when it had done the last iteration
 * @box:	chunks whose sum came from the box
 * @ring:	chunks whose sum was made by the ring
 */
struct report {
	uint64_t end_ns;
	uint64_t box;
	uint64_t ring;
};

static struct shared {
	struct bench_barrier barrier;
	uint64_t begin_ns;
	uint32_t busy;			/* of 1000 */
	struct report report[BENCH_RANKS];
} *shared;

static struct {
	const char *netns;
	const char *box;
	uint32_t jobs;
	uint64_t group;
	double slot_ns;
	uint64_t seed;
} opt;

struct rank {
	int fd;
	uint32_t job;
	uint32_t rank;
	const struct kind *kind;
	uint64_t random;
	uint32_t *data[LAYERS];
};

/* ------------------------------------------------------------ random numbers, time */

/* Above 0, up to 1. */
static double uniform(uint64_t *state)
{
	return ((rar_random(state) >> 11) + 1) * 0x1p-53;
}

static double gauss(uint64_t *state)
{
	double radius = sqrt(-2 * log(uniform(state)));

	return radius * cos(2 * M_PI * uniform(state));
}

/* A generator of its own for each rank, and with RANKS for the job. */
static uint64_t random_of(uint32_t job, uint32_t rank)
{
	uint64_t state = opt.seed << 32 | job << 16 | rank;

	return rar_random(&state);
}

static uint64_t start_ns(uint32_t job)
{
	uint64_t random = random_of(job, RANKS);

	return shared->begin_ns + START_SLOTS * uniform(&random) * opt.slot_ns;
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* ------------------------------------------------------------ an operation */

static size_t words(const struct rank *r, uint32_t layer)
{
	return r->kind->slots[layer] * SLOT / sizeof(uint32_t);
}

/* What the elements of a rank's gradient have in common. */
static uint32_t key(const struct rank *r, uint32_t rank, uint32_t iteration, uint32_t layer)
{
	return ((r->job * ITERATIONS + iteration) * LAYERS + layer) * RANKS + rank;
}

static void fill(const struct rank *r, uint32_t iteration, uint32_t layer)
{
	uint32_t k = key(r, r->rank, iteration, layer) * 40503u;
	uint32_t n = words(r, layer);

	for (uint32_t i = 0; i < n; i++)
		r->data[layer][i] = i * 2654435761u + k;
}

static int verify(const struct rank *r, uint32_t iteration, uint32_t layer)
{
	uint32_t n = words(r, layer), wrong = 0, k = 0;

	for (uint32_t rank = 0; rank < RANKS; rank++)
		k += key(r, rank, iteration, layer) * 40503u;
	for (uint32_t i = 0; i < n; i++)
		wrong += r->data[layer][i] != RANKS * (i * 2654435761u) + k;
	if (wrong)
		fprintf(stderr, "job %u, rank %u, iteration %u, layer %u: %u wrong elements\n",
			r->job, r->rank, iteration, layer, wrong);
	return wrong ? -EBADE : 0;
}

/* More for a job that communicates much, and for layers that the forward pass needs first. */
static uint32_t priority(const struct kind *kind, uint32_t layer)
{
	double value, slots = 0;

	for (uint32_t i = 0; i < LAYERS; i++)
		slots += kind->slots[i];
	value = 128 + 16 * log2(slots / kind->compute) + 16.0 * (layer + 1) / LAYERS;
	return fmin(fmax(value, 1), 255);
}

static int post(const struct rank *r, uint32_t layer)
{
	struct rar_op op = rar_op_of(RAR_I32, 0, 0);
	uint32_t value = priority(r->kind, layer);

	if (setsockopt(r->fd, SOL_RAR, RAR_PRIORITY, &value, sizeof(value)) < 0) {
		fprintf(stderr, "RAR_PRIORITY: %s\n", strerror(errno));
		return -errno;
	}
	return rar_send(r->fd, r->data[layer], words(r, layer) * sizeof(uint32_t), MSG_ZEROCOPY,
			&op);
}

/* When an empty record comes, the sum is in its place. */
static int collect(const struct rank *r, uint32_t iteration, uint32_t layer)
{
	struct rar_done done;
	char none;
	ssize_t n = rar_recv_all(r->fd, &none, sizeof(none), &done);

	if (n < 0)
		return n;
	return n || done.status ? -EIO : verify(r, iteration, layer);
}

static int iterate(struct rank *r, uint32_t iteration)
{
	double compute = r->kind->compute * opt.slot_ns, now = bench_now_ns();
	double step = compute * 2 / 3 / LAYERS * exp(JITTER * gauss(&r->random));
	uint32_t layer;
	int err = 0;

	for (layer = 0; layer < LAYERS && !err; layer++) {
		fill(r, iteration, layer);
		sleep_until(now + (layer + 1) * step);
		err = post(r, layer);
	}
	for (layer = 0; layer < LAYERS && !err; layer++)
		err = collect(r, iteration, layer);
	if (!err)
		sleep_until(bench_now_ns() + compute / 3);
	return err;
}

/* ------------------------------------------------------------ a rank */

static int join(struct rank *r)
{
	uint32_t place[RANKS];
	struct rar_ring ring = { .group = opt.group + r->job, .size = RANKS,
				 .where = RAR_ON_IPV4, .netns = "", .place = place };
	struct sockaddr_rar box = { .srar_family = AF_RAR, .srar_af = AF_INET };

	for (uint32_t i = 0; i < RANKS; i++)
		place[i] = r->job * RANKS + i;
	inet_pton(AF_INET, opt.box, box.srar_addr);
	r->fd = rar_socket();
	if (r->fd < 0)
		return r->fd;
	if (setsockopt(r->fd, SOL_RAR, RAR_BOX, &box, sizeof(box)) < 0)
		return -errno;
	return rar_join(r->fd, &ring, r->rank);
}

static int await_box(const struct rank *r)
{
	uint64_t until = bench_now_ns() + OPEN_S * 1000000000ull;
	struct rar_info info;
	int err;

	do {
		err = rar_info(r->fd, &info);
		if (err || info.box_state == RAR_BOX_OPEN)
			return err;
		rar_sleep_ms(10);
	} while (bench_now_ns() < until);
	return -ETIMEDOUT;
}

/* Time in which the processors were idle, and all time, in ticks. */
static void read_idle(uint64_t *idle, uint64_t *all)
{
	unsigned long long t[8] = {};
	FILE *f = fopen("/proc/stat", "re");

	*idle = *all = 0;
	if (!f)
		return;
	if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", t, t + 1, t + 2, t + 3, t + 4,
		   t + 5, t + 6, t + 7) == 8)
		*idle = t[3] + t[4];
	for (int i = 0; i < 8; i++)
		*all += t[i];
	fclose(f);
}

static int train(struct rank *r)
{
	int err = 0;

	sleep_until(start_ns(r->job));
	for (uint32_t i = 0; i < ITERATIONS && !err; i++)
		err = iterate(r, i);
	return err;
}

static int tell(const struct rank *r, struct report *report)
{
	struct rar_info info;
	int err = rar_info(r->fd, &info);

	report->end_ns = bench_now_ns();
	report->box = info.box_sums;
	report->ring = info.ring_sums;
	return err;
}

/* All legs are open before the time begins, and no rank leaves before it ends. */
static int run(struct rank *r, uint32_t place)
{
	uint64_t idle[2], all[2];
	uint32_t n = opt.jobs * RANKS;
	int err = join(r) ?: await_box(r);

	if (err)
		return err;
	bench_meet(&shared->barrier, n, BENCH_NEVER);
	if (place == 0) {
		shared->begin_ns = bench_now_ns();
		read_idle(&idle[0], &all[0]);
	}
	bench_meet(&shared->barrier, n, BENCH_NEVER);
	err = train(r) ?: tell(r, &shared->report[place]);
	if (err)
		return err;
	bench_meet(&shared->barrier, n, BENCH_NEVER);
	if (place == 0) {
		read_idle(&idle[1], &all[1]);
		shared->busy = 1000 - 1000 * (idle[1] - idle[0]) / (all[1] - all[0]);
	}
	return 0;
}

static int rank_main(uint32_t place, void *arg)
{
	struct rank r = { .job = place / RANKS, .rank = place % RANKS };
	int err;

	(void)arg;
	r.kind = &kinds[r.job % 2];
	r.random = random_of(r.job, r.rank);
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		if (posix_memalign((void **)&r.data[layer], SLOT,
				   words(&r, layer) * sizeof(uint32_t)))
			return 1;
	err = run(&r, place);
	if (err)
		fprintf(stderr, "job %u, rank %u: %s\n", r.job, r.rank, strerror(-err));
	return err != 0;
}

/* ------------------------------------------------------------ all */

static int set_box(const char *policy, const char *mem)
{
	const char *setting[][2] = {
		{ "box_policy", policy }, { "box_share", "0" }, { "box_trust", "1" },
		{ "box_mem", mem },
	};
	char path[64];
	int err;

	for (size_t i = 0; i < sizeof(setting) / sizeof(setting[0]); i++) {
		snprintf(path, sizeof(path), "/proc/sys/net/rar/%s", setting[i][0]);
		err = rar_write(path, setting[i][1]);
		if (err) {
			fprintf(stderr, "net.rar.%s=%s: %s\n", setting[i][0], setting[i][1],
				strerror(-err));
			return err;
		}
	}
	return 0;
}

/* Ends at the first rank that fails; the others end with this process. */
static int run_all(void)
{
	char netns[64];
	int status;

	alarm(LIMIT_S);
	for (uint32_t i = 0; i < opt.jobs * RANKS; i++) {
		snprintf(netns, sizeof(netns), "%s%u", opt.netns, i);
		if (rar_spawn(netns, rank_main, i, NULL) < 0)
			return -1;
	}
	while (wait(&status) > 0)
		if (status)
			return -1;
	return 0;
}

static void print(int64_t returned)
{
	uint64_t box = 0, ring = 0, end;
	double sum = 0;

	for (uint32_t job = 0; job < opt.jobs; job++) {
		end = 0;
		for (uint32_t rank = 0; rank < RANKS; rank++) {
			const struct report *report = &shared->report[job * RANKS + rank];

			end = report->end_ns > end ? report->end_ns : end;
			box += report->box;
			ring += report->ring;
		}
		sum += end - start_ns(job);
	}
	printf("%.0f %llu %llu %lld %u\n", sum / opt.jobs, (unsigned long long)box,
	       (unsigned long long)ring, (long long)returned, shared->busy);
}

int main(int argc, char **argv)
{
	int64_t returned;
	char netns[64];

	opt.jobs = argc == 9 ? atoi(argv[3]) : 0;
	if (!opt.jobs || opt.jobs * RANKS > BENCH_RANKS) {
		fprintf(stderr, "usage: jobs NETNS BOX JOBS GROUP POLICY MEM SLOT_NS SEED\n");
		return 2;
	}
	opt.netns = argv[1];
	opt.box = argv[2];
	opt.group = strtoull(argv[4], NULL, 0);
	opt.slot_ns = strtod(argv[7], NULL);
	opt.seed = strtoull(argv[8], NULL, 0);
	shared = rar_shared(sizeof(*shared));
	snprintf(netns, sizeof(netns), "%sbox", opt.netns);
	if (!shared || rar_enter(netns)) {
		perror(netns);
		return 1;
	}
	if (set_box(argv[5], argv[6]))
		return 1;
	returned = rar_counter("RarBoxGaveUp");
	if (run_all())
		return 1;
	print(rar_counter("RarBoxGaveUp") - returned);
	return 0;
}
