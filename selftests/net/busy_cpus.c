// SPDX-License-Identifier: GPL-2.0
/*
 * Many small operations beside processes that use up the CPUs. The ranks have a real-time
 * priority, so they run whenever they are woken. A wake-up that is forgotten, or a chunk that
 * is not sent until a timer runs, shows as a long operation. A sleeper, a process of higher
 * priority that sleeps for a millisecond at a time, notes how late it is: so it sees when the
 * whole machine stood still.
 *
 * busy_cpus [-N PREFIX] [-n RANKS] [-o OPS] [-c HOGS] [-m MS] [-u]
 *	The test fails if an operation takes more than MS, unless a retransmission or a
 *	machine that stood still explains it.
 *	-u: ranks without priority, to see how long they wait for the CPUs. For each of the
 *	longest operations prints the time until the last rank had sent.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"

#define MAX_RANKS	8
#define COUNT		1024		/* elements: 4 KiB */
#define PULSES		65536		/* remembered */
#define LATE_US		4000		/* a sleeper this late: the machine stood still */
#define POSTS		256		/* operations whose times of sending are kept */
#define SHOWN		10

static struct {
	const char *netns;
	uint32_t ranks, ops, hogs, ms;
	bool unfair;
} opt = { .ranks = 4, .ops = 10000, .hogs = 2, .ms = 100 };

/* A time in which a sleeper was not woken. */
struct gap {
	uint64_t from_us, us;
};

struct load {
	struct rar_barrier barrier;
	_Atomic uint32_t unexplained, late, lost;
	uint64_t worst_us[MAX_RANKS], total_us[MAX_RANKS];
	uint64_t posted_us[POSTS][MAX_RANKS];
	_Atomic uint32_t ngaps;
	struct gap gap[PULSES];
};

static void set_priority(int priority)
{
	struct sched_param p = { .sched_priority = priority };

	if (!opt.unfair && sched_setscheduler(0, SCHED_FIFO, &p))
		rar_log("no real-time priority: %s", strerror(errno));
}

/* The time at which the last rank sent an operation, us. */
static uint64_t last_posted_us(const struct load *s, uint64_t op)
{
	uint64_t last = 0;

	for (uint32_t r = 0; r < opt.ranks; r++)
		if (s->posted_us[op % POSTS][r] > last)
			last = s->posted_us[op % POSTS][r];
	return last;
}

/* How long the sleeper did not run between two times, us. */
static uint64_t late_us(const struct load *s, uint64_t from, uint64_t to)
{
	uint32_t n = s->ngaps < PULSES ? s->ngaps : PULSES;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t a = s->gap[i].from_us, b = a + s->gap[i].us;

		a = a > from ? a : from;
		b = b < to ? b : to;
		sum += b > a ? b - a : 0;
	}
	return sum;
}

static int sleeper_main(uint32_t rank, void *arg)
{
	uint64_t last = rar_now_us(), now;
	struct load *s = arg;

	set_priority(20 + rank);
	for (;; last = now) {
		uint32_t i;

		usleep(1000);
		now = rar_now_us();
		if (now - last < LATE_US)
			continue;
		i = s->ngaps;
		if (i < PULSES)
			s->gap[i] = (struct gap){ last, now - last };
		s->ngaps = i + 1;
	}
	return 0;
}

static int hog_main(uint32_t rank, void *arg)
{
	(void)arg;
	for (volatile uint64_t i = 0;; i++)
		;
	return rank;
}

/* Finds and prints the reason why an operation took long. */
static void explain(struct load *s, uint32_t rank, uint64_t op, uint64_t from, uint64_t us,
		    uint64_t again)
{
	uint64_t late = late_us(s, from, from + us), last = last_posted_us(s, op);
	const char *why = "UNEXPLAINED";
	uint32_t n;

	if (again) {
		why = "sent again";
		n = s->lost++;
	} else if (late > us / 2) {
		why = "the machine stood still";
		n = s->late++;
	} else {
		n = s->unexplained++;
	}
	if (n < SHOWN)
		rar_log("rank %u op %llu at %llu: %llu us, %llu since all had sent, the machine stood still for %llu, chunks sent again %llu: %s",
			rank, (unsigned long long)op, (unsigned long long)from,
			(unsigned long long)us, (unsigned long long)(from + us - last),
			(unsigned long long)late, (unsigned long long)again, why);
}

static int rank_main(uint32_t rank, void *arg)
{
	struct rar_ring ring = { .group = 0x50a8, .size = opt.ranks, .netns = opt.netns,
				 .where = opt.netns ? RAR_ON_IPV4 : RAR_ON_LO4 };
	struct rar_data d = { .count = COUNT, .size = opt.ranks, .dtype = RAR_F32 };
	struct rar_info info = {}, before;
	struct load *s = arg;
	int fd, err = 0;

	fd = rar_open(&ring, rank);
	RAR_CHECK(fd >= 0, "rank %u: %s", rank, strerrorname_np(-fd));
	rar_timeout(fd, SO_RCVTIMEO, 60000);
	set_priority(10);
	for (uint64_t op = 0; op < opt.ops && !err; op++) {
		uint64_t us, from = rar_now_us();

		before = info;
		d.id = op + 1;
		s->posted_us[op % POSTS][rank] = from;
		err = rar_allreduce(fd, &d, rank);
		us = rar_now_us() - from;
		s->total_us[rank] += us;
		if (us > s->worst_us[rank])
			s->worst_us[rank] = us;
		if (us <= opt.ms * 1000ull)
			continue;
		rar_sleep_ms(50);	/* until the sleeper has noticed, too */
		rar_info(fd, &info);
		explain(s, rank, op, from, us, info.retransmits - before.retransmits);
	}
	if (err)
		rar_log_error(fd, "an operation", err);
	rar_barrier(&s->barrier, opt.ranks, 60);
	close(fd);
	return err != 0;
}

static void run(void)
{
	struct load *s = rar_shared(sizeof(*s));
	uint64_t worst = 0, total = 0;
	pid_t hog[17];
	int bad;

	hog[0] = rar_spawn(NULL, sleeper_main, 0, s);
	for (uint32_t i = 1; i <= opt.hogs; i++)
		hog[i] = rar_spawn(NULL, hog_main, i, NULL);
	bad = rar_run(opt.ranks, opt.netns, 550, rank_main, s);
	for (uint32_t i = 0; i <= opt.hogs; i++)
		rar_kill(hog[i]);
	for (uint32_t r = 0; r < opt.ranks; r++) {
		worst = s->worst_us[r] > worst ? s->worst_us[r] : worst;
		total += s->total_us[r];
	}
	rar_log("%u operations, mean %llu us, longest %llu us; over %u ms: machine stood still %u, sent again %u, unexplained %u; it stood still %u times",
		opt.ops, (unsigned long long)(total / opt.ranks / opt.ops),
		(unsigned long long)worst, opt.ms, s->late, s->lost, s->unexplained,
		s->ngaps);
	ksft_set_plan(2);
	ksft_test_result(!bad, "%u operations beside %u processes that compute\n", opt.ops,
			 opt.hogs);
	ksft_test_result(!s->unexplained || opt.unfair, "no operation waits without a reason\n");
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "N:n:o:c:m:u")) != -1) {
		switch (c) {
		case 'N': opt.netns = optarg; break;
		case 'n': opt.ranks = atoi(optarg) % (MAX_RANKS + 1); break;
		case 'o': opt.ops = atoi(optarg); break;
		case 'c': opt.hogs = atoi(optarg) % 17; break;
		case 'm': opt.ms = atoi(optarg); break;
		case 'u': opt.unfair = true; break;
		default: return KSFT_FAIL;
		}
	}
	rar_begin();
	run();
	ksft_finished();
}
