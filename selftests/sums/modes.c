// SPDX-License-Identifier: GPL-2.0
/*
 * The flags of an operation (RAR_OPF_*), in groups of 1 to 5 ranks. An operation sums any part
 * of a long row of numbers. Parts begin and end anywhere, and are copied in one or several
 * calls, in place or out of place, with packets of several lengths. Every result is compared
 * with what the manual says about the numbers themselves.
 *
 * modes [-N NETNS]: all ranks on 127.0.0.1 of a namespace of their own, or rank r in the
 * namespace NETNSr.
 */
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "begin.h"
#include "oracle.h"
#include "rar_util.h"

#define ROW		60000u		/* numbers that operations take parts of */
#define SHORT		61u		/* elements: one block, which ends inside a register */
#define LONG		9011u		/* elements: several blocks, even with one byte each */
#define FLIGHT		6u		/* operations in flight */
#define GUARD		0x5a
#define SYNC_S		60

static struct rar_ring ring = { .where = RAR_ON_LO4 };

struct shared {
	struct rar_barrier barrier;
};

static struct shared *shared;

/* How a rank passes its contribution. */
enum how { COPIED, PIECES, IN_PLACE, OUT_OF_PLACE, HOWS };

/* An operation on the numbers @first to @first + @n of the row. */
struct job {
	uint64_t id;
	struct kind k;
	uint32_t flags;
	enum how how;
	uint32_t first;
	uint32_t n;
};

static const struct {
	const char *name;
	u8 size;
} types[RAR_DTYPE_NR] = {
	[RAR_F32] = { "f32", 4 },  [RAR_F64] = { "f64", 8 },
	[RAR_I32] = { "i32", 4 },  [RAR_I64] = { "i64", 8 },
	[RAR_I8]  = { "i8", 1 },   [RAR_U8]  = { "u8", 1 },
	[RAR_I16] = { "i16", 2 },  [RAR_U16] = { "u16", 2 },
	[RAR_U32] = { "u32", 4 },  [RAR_U64] = { "u64", 8 },
	[RAR_F16] = { "f16", 2 },  [RAR_BF16] = { "bf16", 2 },
};

static struct kind kind_of(u8 dtype, u8 redop)
{
	return (struct kind){
		.name = types[dtype].name, .redop = redop, .dtype = dtype,
		.size = types[dtype].size, .frac = FRAC(dtype), .is_signed = SIGNED(dtype),
	};
}

static int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

static size_t bytes_of(const struct job *j)
{
	return (size_t)j->n * j->k.size;
}

/* ------------------------------------------------------------ what the manual says */

/* Number @i of @rank: any bits; floats are mostly near 1, so that sums are rounded. */
static u64 number(const struct kind *k, uint32_t rank, uint32_t i)
{
	uint64_t state = rar_seed + rank * 1000003ull + i * 17ull + k->redop * 7919 + k->dtype;
	u64 x = rar_random(&state);

	if (k->redop >= RAR_LAND && x >> 62 == 0)
		return 0;
	if (k->frac && x >> 58)
		x = (x & ~inf_of(k)) | (bias_of(k) - (x >> 60 & 3)) << k->frac;
	return trim(k, x);
}

/* The ranks from @start on reduce number @i in turn. */
static u64 in_turn(const struct kind *k, uint32_t start, uint32_t i)
{
	u64 x = number(k, start, i);

	for (uint32_t r = 1; r < ring.size; r++)
		x = expect(k, x, number(k, (start + r) % ring.size, i));
	return k->redop == RAR_AVG && ring.size > 1 ? expect_average(k, x, ring.size) : x;
}

/* The rank with which number @at of a job begins without RAR_OPF_IN_ORDER. */
static uint32_t starts_at(const struct job *j, uint32_t at)
{
	uint32_t blocks = ring.hosts ?: ring.size, block;
	size_t bytes = bytes_of(j), share = (bytes + blocks - 1) / blocks;

	if (j->flags & RAR_OPF_IN_ORDER || bytes <= 8192)
		return 0;
	block = at * (size_t)j->k.size / ((share + 63) / 64 * 64);
	return ring.hosts ? ring.first[block] : block;
}

static void want(const struct job *j, char *to)
{
	for (uint32_t i = 0; i < j->n; i++)
		put(&j->k, to, i, in_turn(&j->k, starts_at(j, i), j->first + i));
}

/* ------------------------------------------------------------ one operation */

static struct rar_op op_of(const struct job *j)
{
	struct rar_op op = rar_op_of(j->k.dtype, bytes_of(j), j->id);

	op.redop = j->k.redop;
	op.flags = j->flags;
	return op;
}

/* Send a contribution in calls that cut elements in two. */
static int send_pieces(int fd, const struct rar_op *op, const char *x, size_t len)
{
	size_t piece = len / 3 + 1, at = 0;
	int err = 0;

	for (; len - at > piece && !err; at += piece)
		err = rar_send(fd, x + at, piece, MSG_MORE, at ? NULL : op);
	return err ?: rar_send(fd, x + at, len - at, 0, at ? NULL : op);
}

/* @x: memory with the contribution; with OUT_OF_PLACE the result comes after it. */
static int post(int fd, const struct job *j, char *x)
{
	struct rar_op op = op_of(j);

	if (j->how == PIECES)
		return send_pieces(fd, &op, x, bytes_of(j));
	if (j->how == OUT_OF_PLACE)
		op.dst = (uintptr_t)(x + bytes_of(j));
	return rar_send(fd, x, bytes_of(j), j->how == COPIED ? 0 : MSG_ZEROCOPY, &op);
}

static int receive(int fd, const struct job *j, char *x)
{
	ssize_t len = j->how > PIECES ? 0 : bytes_of(j), n;
	struct rar_done done = {};

	n = rar_recv_all(fd, x, len, &done);
	RAR_CHECK(n == len, "op %llu: received %zd, not %zd", (unsigned long long)j->id, n, len);
	RAR_CHECK(done.cookie == j->id && !done.status && done.contributors == ring.size,
		  "cookie %llu", (unsigned long long)done.cookie);
	return 0;
}

static int verify(const struct job *j, const char *got)
{
	char *wanted = malloc(bytes_of(j) + 1);
	uint32_t i = 0;

	want(j, wanted);
	while (i < j->n && get(&j->k, got, i) == get(&j->k, wanted, i))
		i++;
	if (i < j->n)
		rar_log("op %llu: %s, redop %u, flags %x, mode %u: %u of %u + %u is %llx, not %llx",
			(unsigned long long)j->id, j->k.name, j->k.redop, j->flags, j->how, i,
			j->first, j->n, (unsigned long long)get(&j->k, got, i),
			(unsigned long long)get(&j->k, wanted, i));
	free(wanted);
	return i < j->n;
}

/* Memory for a contribution and another tensor, filled, and a guard byte after both. */
static char *memory_of(const struct job *j, uint32_t rank)
{
	char *x = malloc(2 * bytes_of(j) + 1);

	for (uint32_t i = 0; i < j->n; i++)
		put(&j->k, x, i, number(&j->k, rank, j->first + i));
	memset(x + bytes_of(j), GUARD, bytes_of(j) + 1);
	return x;
}

static int collect(int fd, const struct job *j, char *x)
{
	bool apart = j->how == OUT_OF_PLACE;

	if (receive(fd, j, x) || verify(j, x + (apart ? bytes_of(j) : 0)))
		return 1;
	RAR_CHECK(x[2 * bytes_of(j)] == GUARD && (apart || !j->n || x[bytes_of(j)] == GUARD),
		  "op %llu wrote too much", (unsigned long long)j->id);
	return 0;
}

/* Run jobs, FLIGHT of them at a time. */
static int run_jobs(int fd, uint32_t rank, const struct job *jobs, uint32_t n)
{
	char *x[FLIGHT];
	int err = 0;

	for (uint32_t i = 0; i < n + FLIGHT && !err; i++) {
		if (i >= FLIGHT) {
			err = collect(fd, &jobs[i - FLIGHT], x[i % FLIGHT]);
			free(x[i % FLIGHT]);
		}
		if (i < n && !err) {
			x[i % FLIGHT] = memory_of(&jobs[i], rank);
			err = post(fd, &jobs[i], x[i % FLIGHT]);
			RAR_CHECK(!err, "rank %u: op %u: %s", rank, i, strerrorname_np(-err));
		}
	}
	return err;
}

/* Enter the namespace of a rank's host, which rar_run() does not know. */
static int enter_host(uint32_t rank)
{
	char netns[32];

	snprintf(netns, sizeof(netns), "%s%u", ring.netns, rar_host(&ring, rank));
	return ring.hosts ? rar_enter(netns) : 0;
}

static int open_rank(uint32_t rank)
{
	int fd = enter_host(rank) ?: rar_open(&ring, rank);

	if (fd < 0)
		rar_log("rank %u: join: %s", rank, strerrorname_np(-fd));
	return fd;
}

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
		differ += get(&j.k, x, i) != in_turn(&j.k, 0, i);
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

/* ------------------------------------------------------------ what is refused */

#define ALL		48u		/* bytes: whole elements for each of three ranks */

/* A call of the manual's table, and the errno that it gets. */
static const struct refused {
	const char *page;		/* the row of the table */
	int err;
	int flags;
	struct rar_op op;
} refused[] = {
	{ "a flag that is not in this list|EINVAL", EINVAL, 0, { .flags = 1 } },
	{ "RAR_OPF_IN_ORDER, not an all-reduce or barrier|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_IN_ORDER, .collective = RAR_REDUCE_SCATTER } },
	{ "RAR_OPF_IN_ORDER, not an all-reduce or barrier|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_IN_ORDER, .collective = RAR_REDUCE } },
	{ "RAR_OPF_IN_ORDER, not an all-reduce or barrier|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_IN_ORDER, .collective = RAR_BROADCAST } },
	{ "RAR_OPF_IN_ORDER, not an all-reduce or barrier|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_IN_ORDER, .collective = RAR_ALLGATHER } },
};

/* The manual where the build has put it, or in the tree; NULL if it is not there. */
static FILE *open_page(void)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/rar.7", getenv("RAR_BIN") ?: ".");
	f = fopen(path, "r");
	f = f ?: fopen("../Documentation/rar.7", "r");
	return f ?: fopen("Documentation/rar.7", "r");
}

static bool in_refused(const char *row)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (!strcmp(refused[i].page, row))
			return true;
	return false;
}

/* The table of the manual and the table here have the same rows. */
static int check_page(FILE *f)
{
	bool inside = false, found[sizeof(refused) / sizeof(refused[0])] = {};
	char line[256];

	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		inside = strcmp(line, ".TE") && (inside || !strcmp(line, "operation|error"));
		if (!inside || !strchr(line, '|') || !strcmp(line, "operation|error"))
			continue;
		RAR_CHECK(in_refused(line), "not tested: %s", line);
		for (size_t i = 0; i < sizeof(found); i++)
			found[i] |= !strcmp(refused[i].page, line);
	}
	for (size_t i = 0; i < sizeof(found); i++)
		RAR_CHECK(found[i], "not in rar.7: %s", refused[i].page);
	return 0;
}

/* No refused call has an effect: after all of them the group works. */
static int refusals(uint32_t rank, void *arg)
{
	struct job j = { .id = 1, .k = kind_of(RAR_F32, RAR_SUM), .n = 12,
			 .flags = RAR_OPF_IN_ORDER };
	FILE *page = rank ? NULL : open_page();
	int fd = open_rank(rank), bad = 0;
	struct rar_info info;
	char x[ALL] = {};

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const struct refused *r = &refused[i];
		struct rar_op op = r->op;
		size_t len = ALL;
		int err;

		op.size = sizeof(op);
		op.bytes = ALL;
		if (op.collective == RAR_ALLGATHER)
			len = ALL / ring.size;
		if (op.collective == RAR_BROADCAST && rank)
			len = 0;
		err = rar_send(fd, x, len, r->flags, &op);
		if (err != -r->err) {
			rar_log("%s: %s", r->page, strerrorname_np(-err));
			bad = 1;
		}
	}
	RAR_CHECK(!bad && !rar_info(fd, &info) && !info.ops_posted, "something was sent");
	bad = page && check_page(page);
	return bad || sync_ranks() || run_jobs(fd, rank, &j, 1);
}

/* A rank without the flag is the odd one: all are told so. */
static int disagree(uint32_t rank, void *arg)
{
	struct job j = { .k = kind_of(RAR_F32, RAR_SUM), .n = 4000 };
	int fd = open_rank(rank), err;
	struct rar_error e;
	char *x;

	j.flags = rank == 1 ? 0 : *(const uint32_t *)arg;
	if (fd == -EBADMSG)	/* the other ranks have failed already */
		return 0;
	RAR_CHECK(fd >= 0, "no group");
	x = memory_of(&j, rank);
	err = post(fd, &j, x) ?: rar_recv_all(fd, x, bytes_of(&j), NULL);
	free(x);
	RAR_CHECK(err == -EBADMSG, "%d", err);
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_FLAGS, "reason %s",
		  rar_reason_name(e.reason));
	return 0;
}

static int caps(uint32_t rank, void *arg)
{
	socklen_t len = sizeof(struct rar_caps);
	int fd = open_rank(rank);
	struct rar_caps caps;
	uint32_t all = RAR_OPF_IN_ORDER;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	RAR_CHECK(!getsockopt(fd, SOL_RAR, RAR_CAPS, &caps, &len) &&
		  (caps.dtypes[0] & all) == all, "flags %x", caps.dtypes[0]);
	return 0;
}

/* ------------------------------------------------------------ all tests */

static const int mtus[] = { 1500, 9000, 65536 };
static const uint32_t in_order = RAR_OPF_IN_ORDER;
static const uint32_t two_hosts[] = { 0, 2 };

static const struct test {
	const char *name;
	uint32_t ranks;
	rar_rank_fn fn;
	const void *arg;
	uint32_t hosts;
} tests[] = {
	{ "in order: every type and reduction", 3, every_kind },
	{ "in order: any part of a row", 1, any_part },
	{ "in order: any part of a row", 2, any_part },
	{ "in order: any part of a row", 5, any_part },
	{ "in order: any part of a row, by hosts", 5, any_part, .hosts = 2 },
	{ "in order: in steps, MTU 1500", 4, steps, &mtus[0] },
	{ "in order: in steps, MTU 9000", 3, steps, &mtus[1] },
	{ "in order: in steps, MTU 65536", 4, steps, &mtus[2] },
	{ "not in order", 3, plain_differs },
	{ "refused", 3, refusals },
	{ "disagree: in order", 3, disagree, &in_order },
	{ "caps", 3, caps },
};

static void run(const struct test *t, uint32_t n)
{
	uint64_t start = rar_now_us();

	/* Hosts have an address each. */
	if (t->hosts && !ring.netns) {
		ksft_test_result_skip("%s\n", t->name);
		return;
	}
	ring.group = n + 1;
	ring.size = t->ranks;
	ring.hosts = t->hosts;
	ring.first = t->hosts ? two_hosts : NULL;
	ring.by_hosts = t->hosts;
	memset(&shared->barrier, 0, sizeof(shared->barrier));
	ksft_test_result(!rar_run(ring.size, t->hosts ? NULL : ring.netns, 120, t->fn,
				  (void *)t->arg), "%s, %u ranks\n", t->name, t->ranks);
	rar_log("%llu ms", (unsigned long long)(rar_now_us() - start) / 1000);
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "N:")) != -1)
		ring.netns = c == 'N' ? optarg : ring.netns;
	ring.where = ring.netns ? RAR_ON_IPV4 : RAR_ON_LO4;
	rar_begin();
	if (!ring.netns && rar_private_net())
		ksft_exit_skip("needs root\n");
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(sizeof(tests) / sizeof(tests[0]));
	for (uint32_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (!argv[optind] || strstr(tests[i].name, argv[optind]))
			run(&tests[i], i);
		else
			ksft_test_result_skip("%s\n", tests[i].name);
	ksft_finished();
}
