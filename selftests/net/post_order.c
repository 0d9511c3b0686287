// SPDX-License-Identifier: GPL-2.0
/*
 * Ranks post in every order: three members post two or three operations, in all orders of
 * their calls. A member that is ahead needs credit for its packets at a member that still
 * waits in an earlier operation, and packets of that earlier operation must pass the member
 * ahead. Nothing may stall: once all have posted the results come, without probes. Every bit
 * must be right, with the smallest credit and with the usual credit. The operations are
 * all-reduces; or half of them are other collectives, with each rank as the root.
 *
 * post_order [full]
 *	A sample of the 90 orders of two operations and of the 1680 orders of three (full: all
 *	orders). All members are sockets of this process, first on 127.0.0.1 of a namespace
 *	of its own, then in the namespaces rar0 .. rar2 of selftests/lib/lib.sh
 *	(lib/in_topo.sh 3 post_order).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"
#include "job.h"

#define SIZE		3
#define MAX_OPS		3
#define MAX_STEPS	(SIZE * MAX_OPS)
#define ORDERS_2	90
#define ORDERS_3	1680
#define SAMPLE		25	/* orders that are tested, of two and of three operations each */
#define STALL_MS	10000	/* for hangs, not for slow machines */

/* Elements of the operations in turn: one packet, many, more than any credit. */
static const uint32_t counts[] = { 7, 24000, 1000, 110000, 3 };

struct order {
	uint32_t ops;
	uint8_t rank[MAX_STEPS];	/* rank that posts at each step */
};

/* A ring whose operations go on from order to order. */
struct live {
	const struct rar_ring *ring;
	bool mixed;		/* half of the operations are other collectives */
	int fd[SIZE];
	uint64_t next_id;
	struct rar_job_memory memory[MAX_OPS][SIZE];
	uint32_t worst_ms;
	uint64_t total_us;
	uint64_t probes;	/* probes sent although all had posted */
	uint32_t orders;
	uint32_t crossed;	/* orders in which packets were held early */
};

/* Operation @id. The seed decides its collective, its root and how ranks pass the tensor. */
static struct rar_job job_of(const struct live *l, uint64_t id)
{
	uint32_t count = counts[id % ARRAY_SIZE(counts)];
	struct rar_job j = {
		.ring = l->ring, .id = id, .collective = RAR_ALLREDUCE, .dtype = RAR_F32,
		.count = count,
	};
	uint64_t state = rar_seed + id;

	if (!l->mixed)
		return j;
	if (rar_random(&state) % 2)
		j.collective = RAR_BROADCAST + rar_random(&state) % 5;
	j.root = rar_random(&state) % SIZE;
	j.mode = rar_random(&state) % RAR_MODES;
	j.count = rar_job_count(l->ring, j.collective, count);
	return j;
}

/* ------------------------------------------------------------ orders */

static uint64_t orders_left(const uint32_t *left)
{
	uint64_t n = 1;
	uint32_t sum = 0;

	/* sum! / (left[0]! left[1]! left[2]!), as a product of binomials */
	for (uint32_t r = 0; r < SIZE; r++)
		for (uint32_t k = 1; k <= left[r]; k++)
			n = n * ++sum / k;
	return n;
}

/* Order number @nr of the orders in which each rank posts @ops operations. */
static struct order order_of(uint32_t ops, uint64_t nr)
{
	uint32_t left[SIZE] = { ops, ops, ops };
	struct order o = { .ops = ops };
	uint64_t n;

	for (uint32_t step = 0; step < SIZE * ops; step++) {
		for (uint32_t r = 0; r < SIZE; r++) {
			if (!left[r])
				continue;
			left[r]--;
			n = orders_left(left);
			o.rank[step] = r;
			if (nr < n)
				break;
			nr -= n;
			left[r]++;
		}
	}
	return o;
}

static const char *order_name(const struct order *o)
{
	static char text[MAX_STEPS + 1];

	memset(text, 0, sizeof(text));
	for (uint32_t step = 0; step < SIZE * o->ops; step++)
		text[step] = '0' + o->rank[step];
	return text;
}

/* ------------------------------------------------------------ namespaces */

static int home = -1;	/* namespace of the tests that need only one */

static int enter_home(void)
{
	return setns(home, CLONE_NEWNET) ? -errno : 0;
}

static int enter_rank(const char *netns, uint32_t rank)
{
	char name[16];

	if (!netns)
		return enter_home();
	snprintf(name, sizeof(name), "%s%u", netns, rank);
	return rar_enter(name);
}

/* Probes that the links sent in all namespaces. */
static uint64_t probes(const char *netns)
{
	uint64_t n = 0;

	for (uint32_t r = 0; r < (netns ? SIZE : 1); r++) {
		if (enter_rank(netns, r))
			abort();
		n += rar_counter("RarTxCtl");
	}
	return n;
}

/* ------------------------------------------------------------ running one */

static bool holds_early(const struct live *l)
{
	struct rar_info info;

	for (uint32_t r = 0; r < SIZE; r++)
		if (!rar_info(l->fd[r], &info) && info.early_bytes)
			return true;
	return false;
}

/* Calls send() in this order, with time for the packets in between. */
static int post_in_order(struct live *l, const struct order *o)
{
	uint32_t posted[SIZE] = {};
	bool held = false;
	int err = 0;

	for (uint32_t step = 0; step < SIZE * o->ops && !err; step++) {
		uint32_t r = o->rank[step], i = posted[r]++;
		struct rar_job j = job_of(l, l->next_id + i);

		l->memory[i][r] = rar_job_memory(&j, r);
		err = rar_job_post(l->fd[r], &j, r, &l->memory[i][r]);
		rar_sleep_ms(1);
		held |= holds_early(l);
	}
	l->crossed += held;
	return err;
}

/* Operation number @i of an order at a rank. */
static int collect_one(struct live *l, uint32_t i, uint32_t rank, uint64_t deadline_us)
{
	struct pollfd p = { .fd = l->fd[rank], .events = POLLIN };
	struct rar_job j = job_of(l, l->next_id + i);
	uint64_t now = rar_now_us();
	int ms = now < deadline_us ? (deadline_us - now) / 1000 : 0;
	int err = poll(&p, 1, ms) == 1 ? 0 : -ETIMEDOUT;

	err = err ?: rar_job_collect(p.fd, &j, rank, &l->memory[i][rank]);
	rar_job_free(&j, &l->memory[i][rank]);
	if (err)
		rar_log("rank %u: operation %llu, %s, root %u, %s: %d", rank,
			(unsigned long long)j.id, rar_collective_name(j.collective), j.root,
			rar_mode_name(j.mode), err);
	return err;
}

/* After the last post, collects all results and measures how long they take. */
static int collect_all(struct live *l, uint32_t ops)
{
	uint64_t before = probes(l->ring->netns), start = rar_now_us(), us;
	int err = 0;

	for (uint32_t i = 0; i < ops && !err; i++)
		for (uint32_t r = 0; r < SIZE && !err; r++)
			err = collect_one(l, i, r, start + STALL_MS * 1000ull);
	us = rar_now_us() - start;
	if (us / 1000 > l->worst_ms)
		l->worst_ms = us / 1000;
	l->total_us += us;
	l->probes += probes(l->ring->netns) - before;
	return err;
}

static int run_order(struct live *l, uint32_t ops, uint64_t nr)
{
	struct order o = order_of(ops, nr);
	int err;

	err = post_in_order(l, &o) ?: collect_all(l, ops);
	l->next_id += ops;
	l->orders++;
	if (err)
		rar_log("order %s from operation %llu on: %d", order_name(&o),
			(unsigned long long)(l->next_id - ops), err);
	return err;
}

/* ------------------------------------------------------------ rings */

static int ring_up(struct live *l, const struct rar_ring *ring,
		   const char *early_bytes, const char *local)
{
	int err = 0;

	for (uint32_t r = 0; r < SIZE && !err; r++) {
		err = enter_rank(ring->netns, r) ?:
		      rar_write("/proc/sys/net/rar/early_bytes", early_bytes) ?:
		      rar_write("/proc/sys/net/rar/local", local);
		if (err)
			break;
		l->fd[r] = rar_socket();
		err = rar_join_start(l->fd[r], ring, r);
	}
	for (uint32_t r = 0; r < SIZE && !err; r++)
		err = rar_join_wait(l->fd[r], 20000);
	return err;
}

/* Run all orders, or a sample, of @ops operations. */
static int some_orders(struct live *l, uint32_t ops, uint64_t orders, bool full)
{
	int err = 0;

	for (uint64_t i = 0; i < (full ? orders : SAMPLE) && !err; i++)
		err = run_order(l, ops, full ? i : rar_hash(rar_seed, &i, sizeof(i)) % orders);
	return err;
}

static bool test(const struct rar_ring *ring, const char *early_bytes,
		 const char *local, bool mixed, bool full)
{
	struct live l = { .fd = { -1, -1, -1 }, .ring = ring, .mixed = mixed };
	int err;

	err = ring_up(&l, ring, early_bytes, local);
	if (err)
		rar_log("join: %s", strerror(-err));
	err = err ?: some_orders(&l, 2, ORDERS_2, full) ?:
	      some_orders(&l, 3, ORDERS_3, full);
	rar_log("post_order early_bytes=%s orders=%u held=%u mean=%lluus worst=%ums probes=%llu",
		early_bytes, l.orders, l.crossed,
		(unsigned long long)l.total_us / (l.orders ?: 1), l.worst_ms,
		(unsigned long long)l.probes);
	for (uint32_t r = 0; r < SIZE; r++)
		close(l.fd[r]);
	/* In memory nothing comes early: chunks wait at their sender. */
	return !err && (*local == '1' ? !l.crossed : l.crossed > l.orders / 4) &&
	       l.probes <= l.orders / 4;
}

static const struct {
	const char *name;
	const char *netns;
	enum rar_where where;
	const char *early_bytes;
	const char *local;
	bool mixed;
} tests[] = {
	{ "127.0.0.1, smallest credit", NULL, RAR_ON_LO4, "4096", "0", false },
	{ "127.0.0.1, usual credit", NULL, RAR_ON_LO4, "262144", "0", false },
	{ "127.0.0.1, in memory", NULL, RAR_ON_LO4, "262144", "1", false },
	{ "namespaces, smallest credit", "rar", RAR_ON_IPV4, "4096", "0", false },
	{ "namespaces, usual credit", "rar", RAR_ON_IPV4, "262144", "0", false },
	{ "127.0.0.1, smallest credit, mixed", NULL, RAR_ON_LO4, "4096", "0", true },
	{ "127.0.0.1, in memory, mixed", NULL, RAR_ON_LO4, "262144", "1", true },
	{ "namespaces, usual credit, mixed", "rar", RAR_ON_IPV4, "262144", "0", true },
};

int main(int argc, char **argv)
{
	bool full = argc > 1 && !strcmp(argv[1], "full");
	struct rar_ring ring = { .size = SIZE };

	rar_begin_in_topo(3, "post_order");
	if (rar_private_net())
		ksft_exit_fail_msg("no network namespace\n");
	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	ksft_set_plan(ARRAY_SIZE(tests));
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		ring.group = 0xc055ed + i;
		ring.netns = tests[i].netns;
		ring.where = tests[i].where;
		ksft_test_result(test(&ring, tests[i].early_bytes,
				      tests[i].local, tests[i].mixed, full), "%s\n",
				 tests[i].name);
	}
	ksft_finished();
}
