// SPDX-License-Identifier: GPL-2.0
/*
 * The results of operations with flags (RAR_OPF_*), in groups of 1 to 5 ranks. Parts of a row
 * of numbers begin and end anywhere, in packets of several lengths.
 *
 * modes [-N NETNS] [NAME], see lib/modes.h
 */
#include <net/if.h>
#include <sys/ioctl.h>

#include "modes.h"

/* ------------------------------------------------------------ in order */

static bool exists(const struct kind *k)
{
	return k->redop <= RAR_MAX || k->redop == RAR_AVG || !k->frac;
}

/* Every type and reduction, in one block and in what would be several. */
static int every_kind(uint32_t rank, void *arg)
{
	struct job j = { .flags = RAR_OPF_IN_ORDER };
	int fd = open_rank(rank), err = fd < 0;

	(void)arg;
	for (u8 redop = RAR_SUM; redop < RAR_REDOP_NR; redop++)
		for (u8 dtype = RAR_F32; dtype < RAR_DTYPE_NR; dtype++) {
			j.k = kind_of(dtype, redop);
			j.n = j.id % 2 ? LONG : SHORT;
			j.how = j.id / 2 % 2 ? IN_PLACE : COPIED;
			if (exists(&j.k) && !err)
				err = run_jobs(fd, rank, &j, 1);
			j.id++;
		}
	return err;
}

/* Parts of a row that begin, end and overlap anywhere: a number has its sum in all of them. */
static int any_part(uint32_t rank, void *arg)
{
	uint64_t state = rar_seed + ring.size;
	int fd = open_rank(rank);
	struct job jobs[60];

	(void)arg;
	for (uint32_t i = 0; i < 60; i++) {
		struct job *j = &jobs[i];

		*j = (struct job){
			.id = i + 1, .k = kind_of(RAR_F32, RAR_SUM), .how = i % HOWS,
			.flags = i % 6 == 5 ? 0 : RAR_OPF_IN_ORDER,
			.n = rar_random(&state) % (i % 3 ? 9000 : 40000),
		};
		j->first = rar_random(&state) % (ROW - j->n);
	}
	return fd < 0 || run_jobs(fd, rank, jobs, 60);
}

/* ------------------------------------------------------------ wide */

static const u8 wide_redops[] = { RAR_SUM, RAR_PROD, RAR_AVG };

/* Both types and all reductions; short and long records, in several calls, in steps. */
static int wide(uint32_t rank, void *arg)
{
	uint64_t state = rar_seed + ring.size;
	struct job jobs[36];
	int fd;

	if (arg) {
		RAR_CHECK(!rar_write("/proc/sys/net/rar/copy_step", arg), "copy_step");
		RAR_CHECK(!sync_ranks(), "too late");
	}
	fd = open_rank(rank);
	for (uint32_t i = 0; i < 36; i++) {
		struct job *j = &jobs[i];

		*j = (struct job){
			.id = i + 1, .how = i % 3 ? COPIED : PIECES,
			.k = kind_of(i & 1 ? RAR_F16 : RAR_BF16, wide_redops[i / 2 % 3]),
			.flags = RAR_OPF_WIDE | (i % 7 ? 0 : RAR_OPF_IN_ORDER),
			.n = rar_random(&state) % (i % 4 ? 5000 : 50000),
		};
		j->first = rar_random(&state) % (ROW - j->n);
	}
	jobs[35].n = 0;
	return fd < 0 || run_jobs(fd, rank, jobs, 36);
}

/* ------------------------------------------------------------ in any order */

/*
 * The bits of samples/exact.c or of lib/quant.h, whichever rank has which numbers, and with ranks
 * that contribute zeros. Among other operations, which wait for these before them.
 */
static int any_order(uint32_t rank, void *arg)
{
	uint64_t state = rar_seed + ring.size;
	struct job jobs[48];
	int fd = open_rank(rank);

	for (uint32_t i = 0; i < 48; i++) {
		struct job *j = &jobs[i];

		*j = (struct job){
			.id = i + 1, .how = i % 3 ? COPIED : PIECES,
			.k = kind_of(RAR_F32, i % 5 ? RAR_SUM : RAR_AVG),
			.flags = *(const uint32_t *)arg,
			.n = rar_random(&state) % (i % 4 ? 3000 : 30000),
			.turn = rar_random(&state) % ring.size,
		};
		j->idle = j->k.redop == RAR_SUM ? rar_random(&state) % ring.size : 0;
		j->first = rar_random(&state) % (ROW - j->n);
		if (i % 8 == 3)
			*j = (struct job){ .id = i + 1, .k = kind_of(RAR_I32, RAR_SUM),
					   .n = j->n, .how = i % HOWS };
		if (i % 8 == 6)
			*j = (struct job){ .id = i + 1, .k = kind_of(RAR_BF16, RAR_SUM),
					   .n = j->n, .flags = RAR_OPF_WIDE };
	}
	jobs[17].n = 0;
	return fd < 0 || run_jobs(fd, rank, jobs, 48);
}

/* The sum of a REDUCE and of a REDUCE_SCATTER begins with the rank after its destination. */
static int wide_collectives(uint32_t rank, void *arg)
{
	struct job j = { .id = 1, .k = kind_of(RAR_BF16, RAR_SUM), .n = 300 * ring.size };
	int fd = open_rank(rank), err = 0;
	char *x = memory_of(&j, rank);
	struct rar_op op = op_of(&j);
	ssize_t n;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	op.flags = RAR_OPF_WIDE;
	op.collective = RAR_REDUCE_SCATTER;
	err = rar_send(fd, x, bytes_of(&j), 0, &op);
	RAR_CHECK(!err, "%d", err);
	op.collective = RAR_REDUCE;
	op.root = 1;
	err = rar_send(fd, x, bytes_of(&j), 0, &op);
	RAR_CHECK(!err, "%d", err);
	n = rar_recv_all(fd, x, bytes_of(&j), NULL);
	RAR_CHECK(n == 600, "%zd", n);
	for (uint32_t i = 0; i < 300; i++)
		RAR_CHECK(get(&j.k, x, i) == in_turn(&j.k, true, (rank + 1) % ring.size,
						     300 * rank + i), "element %u", i);
	n = rar_recv_all(fd, x, bytes_of(&j), NULL);
	RAR_CHECK(n == (rank == 1 ? (ssize_t)bytes_of(&j) : 0), "%zd", n);
	for (uint32_t i = 0; i < n / 2; i++)
		RAR_CHECK(get(&j.k, x, i) == in_turn(&j.k, true, 2 % ring.size, i), "%u", i);
	free(x);
	return 0;
}

/* Without the flag the bits of some sums differ: so the other tests can fail. */
static int plain_differs(uint32_t rank, void *arg)
{
	struct job j = { .id = 1, .k = kind_of(RAR_F32, RAR_SUM), .n = 40000 };
	int fd = open_rank(rank), err;
	uint32_t differ = 0;
	char *x;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	x = memory_of(&j, rank);
	err = post(fd, &j, x) ?: receive(fd, &j, x);
	RAR_CHECK(!err, "%d", err);
	for (uint32_t i = 0; i < j.n; i++)
		differ += get(&j.k, x, i) != in_turn(&j.k, false, 0, i);
	RAR_CHECK(differ > j.n / 100, "%u of %u sums differ", differ, j.n);
	free(x);
	return 0;
}

static int set_mtu(int mtu)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_mtu = mtu };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err = ioctl(fd, SIOCSIFMTU, &ifr);

	close(fd);
	return err;
}

/* Copied in and out in steps, with packets of a length. */
static int steps(uint32_t rank, void *arg)
{
	RAR_CHECK(!rar_write("/proc/sys/net/rar/copy_step", "4096"), "copy_step");
	RAR_CHECK(ring.netns || !set_mtu(*(const int *)arg), "MTU");
	RAR_CHECK(!sync_ranks(), "too late");
	return any_part(rank, NULL);
}

/* ------------------------------------------------------------ all tests */

static const int mtus[] = { 1500, 9000, 65536 };
static const uint32_t exact = RAR_OPF_EXACT, quant = RAR_OPF_QUANT;

static const struct test tests[] = {
	TEST("in order: every type and reduction", 3, every_kind),
	TEST("in order: any part of a row", 1, any_part),
	TEST("in order: any part of a row", 2, any_part),
	TEST("in order: any part of a row", 5, any_part),
	TEST("in order: any part of a row, by hosts", 5, any_part, .hosts = 2),
	TEST("in order: in steps, MTU 1500", 4, steps, .arg = &mtus[0]),
	TEST("in order: in steps, MTU 9000", 3, steps, .arg = &mtus[1]),
	TEST("in order: in steps, MTU 65536", 4, steps, .arg = &mtus[2]),
	TEST("not in order", 3, plain_differs),
	TEST("wide", 1, wide),
	TEST("wide", 2, wide),
	TEST("wide", 5, wide),
	TEST("wide, by hosts", 5, wide, .hosts = 2),
	TEST("wide, in steps", 3, wide, .arg = "4096"),
	TEST("wide: reduce_scatter and reduce", 3, wide_collectives),
	TEST("exact", 1, any_order, .arg = &exact),
	TEST("exact", 2, any_order, .arg = &exact),
	TEST("exact", 5, any_order, .arg = &exact),
	TEST("exact, by hosts", 5, any_order, .arg = &exact, .hosts = 2),
	TEST("quantised", 1, any_order, .arg = &quant),
	TEST("quantised", 2, any_order, .arg = &quant),
	TEST("quantised", 5, any_order, .arg = &quant),
	TEST("quantised, by hosts", 5, any_order, .arg = &quant, .hosts = 2),
};

int main(int argc, char **argv)
{
	run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
