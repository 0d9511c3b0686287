// SPDX-License-Identifier: GPL-2.0
/*
 * The calls of operations with flags (RAR_OPF_*): short buffers, limits of memory, ranks that
 * are late, die or disagree, and what is refused.
 *
 * modes_calls [-N NETNS] [NAME], see lib/modes.h
 */
#include <signal.h>

#include "modes.h"
#include "page.h"

/* ------------------------------------------------------------ buffers and memory */

/* A result is read in buffers that cut numbers in two. */
static int short_buffers(uint32_t rank, void *arg)
{
	struct job j = { .id = 1, .k = kind_of(RAR_BF16, RAR_SUM), .n = 9001,
			 .flags = *(const uint32_t *)arg };
	int fd = open_rank(rank), err;
	size_t at = 0, room = 1;
	bool eor = false;
	ssize_t n;
	char *x;

	RAR_CHECK(fd >= 0, "no group");
	if (j.flags & OF_ANY_ORDER)
		j.k = kind_of(RAR_F32, RAR_SUM);
	x = memory_of(&j, rank);
	err = post(fd, &j, x);
	RAR_CHECK(!err, "%d", err);
	for (; !eor; at += n, room = room * 3 % 1501 + 1) {
		n = rar_recv(fd, x + at, room, 0, &eor, NULL);
		RAR_CHECK(n > 0 && (size_t)n <= room, "%zd", n);
		RAR_CHECK(eor == (at + n == bytes_of(&j)), "MSG_EOR %d at %zu", eor, at + n);
	}
	err = verify(&j, x);
	free(x);
	return err;
}

#define LITTLE		"262144"	/* bytes, net.rar.mem */

/* Memory is charged for the numbers as they travel: twice the user's. */
static int memory(uint32_t rank, void *arg)
{
	struct job j = { .id = 1, .k = kind_of(RAR_BF16, RAR_SUM), .n = 60000,
			 .flags = *(const uint32_t *)arg };
	int fd, err;
	char *x;

	RAR_CHECK(!rar_write("/proc/sys/net/rar/mem", LITTLE), "net.rar.mem");
	RAR_CHECK(!sync_ranks(), "too late");
	if (j.flags & OF_ANY_ORDER)
		j.k = kind_of(RAR_F32, RAR_SUM), j.n /= 2;
	fd = open_rank(rank);
	RAR_CHECK(fd >= 0 && !run_jobs(fd, rank, &j, 1), "240000 bytes");
	j.n += j.n / 6;
	x = memory_of(&j, rank);
	err = post(fd, &j, x);
	RAR_CHECK(err == -EMSGSIZE, "280000 bytes: %s", strerrorname_np(-err));
	free(x);
	j.n -= 100;
	j.flags = 0;
	return run_jobs(fd, rank, &j, 1);
}

/* ------------------------------------------------------------ ranks that are late, or end */

/* One rank comes late. The others have posted operations of all kinds behind an exact one. */
static int late(uint32_t rank, void *arg)
{
	static const uint32_t flags[] = { RAR_OPF_EXACT, 0, RAR_OPF_EXACT, RAR_OPF_EXACT,
					  RAR_OPF_IN_ORDER, RAR_OPF_WIDE };
	int fd = open_rank(rank), err;
	struct job jobs[FLIGHT] = {};
	struct rar_info info;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	for (uint32_t i = 0; i < FLIGHT; i++)
		jobs[i] = (struct job){
			.id = i + 1, .flags = flags[i], .n = 20000, .how = COPIED,
			.k = kind_of(flags[i] & RAR_OPF_WIDE ? RAR_F16 : RAR_F32, RAR_SUM),
		};
	RAR_CHECK(!sync_ranks(), "too late");
	if (rank == 1)
		rar_sleep_ms(400);
	err = run_jobs(fd, rank, jobs, FLIGHT);
	RAR_CHECK(!rar_info(fd, &info) && info.slow_rank == 1 && info.slow_ms >= 200,
		  "straggler %u, %u ms", info.slow_rank, info.slow_ms);
	return err;
}

/* A rank that does not send an exact operation is the one that RAR_OP_TIMEOUT names. */
static int timeout(uint32_t rank, void *arg)
{
	struct job j = { .id = 1, .flags = RAR_OPF_EXACT, .n = 5000,
			 .k = kind_of(RAR_F32, RAR_SUM) };
	uint32_t limit = 400;
	int fd = open_rank(rank);
	struct rar_error e;
	ssize_t n;
	char *x;

	(void)arg;
	RAR_CHECK(fd >= 0 && !run_jobs(fd, rank, &j, 1), "first");
	x = memory_of(&j, rank);
	setsockopt(fd, SOL_RAR, RAR_OP_TIMEOUT, &limit, sizeof(limit));
	if (rank != 1)
		RAR_CHECK(!post(fd, &j, x), "second");
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	n = rar_recv_all(fd, x, bytes_of(&j), NULL);
	free(x);
	RAR_CHECK(n == -ETIMEDOUT, "%zd", n);
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_TIMEOUT && e.rank == 1 && e.op_seq == 1,
		  "reason %s rank %u op %llu", rar_reason_name(e.reason), e.rank,
		  (unsigned long long)e.op_seq);
	return 0;
}

/* A rank closes while it waits for the others, or is killed in the middle: all are told. */
static int ends(uint32_t rank, void *arg)
{
	bool killed = *(const bool *)arg;
	struct job j = { .flags = RAR_OPF_EXACT, .k = kind_of(RAR_F32, RAR_SUM), .n = 50000 };
	int fd = open_rank(rank);
	struct rar_error e;
	ssize_t n = 0;
	char *x;

	RAR_CHECK(fd >= 0, "no group");
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	for (j.id = 1; n >= 0; j.id++) {
		x = memory_of(&j, rank);
		/* All have the results before. The others send it after rank 1 has closed. */
		if (j.id == 3 && !killed)
			RAR_CHECK(!sync_ranks(), "too late");
		if (j.id == 3 && rank != 1 && !killed)
			RAR_CHECK(!sync_ranks(), "too late");
		n = post(fd, &j, x);
		if (!n && rank == 1 && j.id == 3 && killed)
			raise(SIGKILL);
		if (!n && rank == 1 && j.id == 3)
			return close(fd) || sync_ranks();
		if (!n)
			n = rar_recv_all(fd, x, bytes_of(&j), NULL);
		free(x);
	}
	RAR_CHECK(n == -ECONNRESET, "%s", strerrorname_np(-n));
	RAR_CHECK(!rar_error(fd, &e) && e.rank == 1 &&
		  e.reason == (killed ? RAR_R_DIED : RAR_R_CLOSED),
		  "reason %s rank %u", rar_reason_name(e.reason), e.rank);
	return 0;
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
	{ "RAR_OPF_WIDE, not a type of 16-bit floats|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_WIDE } },
	{ "RAR_OPF_WIDE, not a type of 16-bit floats|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_WIDE, .dtype = RAR_I16 } },
	{ "RAR_OPF_WIDE, RAR_MIN or RAR_MAX|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_WIDE, .dtype = RAR_F16, .redop = RAR_MIN } },
	{ "RAR_OPF_WIDE, RAR_MIN or RAR_MAX|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_WIDE, .dtype = RAR_BF16, .redop = RAR_MAX } },
	{ "RAR_OPF_WIDE, a collective that adds nothing|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_WIDE, .dtype = RAR_BF16, .collective = RAR_BROADCAST } },
	{ "RAR_OPF_WIDE, a collective that adds nothing|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_WIDE, .dtype = RAR_BF16, .collective = RAR_ALLGATHER } },
	{ "RAR_OPF_WIDE, MSG_ZEROCOPY|EOPNOTSUPP", EOPNOTSUPP, MSG_ZEROCOPY,
	  { .flags = RAR_OPF_WIDE, .dtype = RAR_BF16 } },
	{ "RAR_OPF_EXACT, not RAR_F32|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_EXACT, .dtype = RAR_F64 } },
	{ "RAR_OPF_EXACT, not RAR_F32|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_EXACT, .dtype = RAR_I32 } },
	{ "RAR_OPF_EXACT, not RAR_SUM or RAR_AVG|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_EXACT, .redop = RAR_PROD } },
	{ "RAR_OPF_EXACT, not RAR_SUM or RAR_AVG|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_EXACT, .redop = RAR_MAX } },
	{ "RAR_OPF_EXACT and another flag|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_EXACT | RAR_OPF_IN_ORDER } },
	{ "RAR_OPF_EXACT and another flag|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_EXACT | RAR_OPF_WIDE, .dtype = RAR_F16 } },
	{ "RAR_OPF_EXACT, not an all-reduce|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_EXACT, .collective = RAR_REDUCE } },
	{ "RAR_OPF_EXACT, not an all-reduce|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_EXACT, .collective = RAR_BROADCAST } },
	{ "RAR_OPF_EXACT, MSG_ZEROCOPY|EOPNOTSUPP", EOPNOTSUPP, MSG_ZEROCOPY,
	  { .flags = RAR_OPF_EXACT } },
	{ "RAR_OPF_QUANT, not RAR_F32|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_QUANT, .dtype = RAR_F64 } },
	{ "RAR_OPF_QUANT, not RAR_F32|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_QUANT, .dtype = RAR_I32 } },
	{ "RAR_OPF_QUANT, not RAR_SUM or RAR_AVG|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_QUANT, .redop = RAR_PROD } },
	{ "RAR_OPF_QUANT, not RAR_SUM or RAR_AVG|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_QUANT, .redop = RAR_MAX } },
	{ "RAR_OPF_QUANT and another flag|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_QUANT | RAR_OPF_IN_ORDER } },
	{ "RAR_OPF_QUANT and another flag|EINVAL", EINVAL, 0,
	  { .flags = RAR_OPF_QUANT | RAR_OPF_EXACT } },
	{ "RAR_OPF_QUANT, not an all-reduce|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_QUANT, .collective = RAR_REDUCE } },
	{ "RAR_OPF_QUANT, not an all-reduce|EOPNOTSUPP", EOPNOTSUPP, 0,
	  { .flags = RAR_OPF_QUANT, .collective = RAR_BROADCAST } },
	{ "RAR_OPF_QUANT, MSG_ZEROCOPY|EOPNOTSUPP", EOPNOTSUPP, MSG_ZEROCOPY,
	  { .flags = RAR_OPF_QUANT } },
};

/* No refused call has an effect: after all of them the group works. */
static int refusals(uint32_t rank, void *arg)
{
	struct job j = { .id = 1, .k = kind_of(RAR_F32, RAR_SUM), .n = 12,
			 .flags = RAR_OPF_IN_ORDER };
	FILE *page = rank ? NULL : page_open();
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
	bad = page && PAGE_CHECK(page, "operation|error", refused);
	return bad || sync_ranks() || run_jobs(fd, rank, &j, 1);
}

/* ------------------------------------------------------------ ranks that disagree */

/* The combinations of flags that a type allows. */
struct combinations {
	uint8_t dtype;
	uint32_t n;
	uint32_t flags[4];
};

static const struct combinations of_f32 = {
	RAR_F32, 4, { 0, RAR_OPF_IN_ORDER, RAR_OPF_EXACT, RAR_OPF_QUANT }
};

static const struct combinations of_f16 = {
	RAR_F16, 4, { 0, RAR_OPF_IN_ORDER, RAR_OPF_WIDE, RAR_OPF_WIDE | RAR_OPF_IN_ORDER }
};

/* One rank has other flags than the others. All are told which ranks disagree about the flags. */
static int disagree_once(uint32_t rank, const struct job *j, uint32_t odd)
{
	int fd = open_rank(rank);
	struct rar_error e;
	char *x;
	int err;

	RAR_CHECK(fd >= 0 && !sync_ranks(), "no group");
	x = memory_of(j, rank);
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	err = post(fd, j, x) ?: rar_recv_all(fd, x, bytes_of(j), NULL);
	free(x);
	RAR_CHECK(err == -EBADMSG, "rank %u: %d", rank, err);
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_FLAGS && !e.op_seq &&
		  e.rank != e.other && e.rank < ring.size && e.other < ring.size &&
		  (e.rank == odd || e.other == odd), "reason %s ranks %u and %u",
		  rar_reason_name(e.reason), e.rank, e.other);
	RAR_CHECK(!sync_ranks(), "too late");
	close(fd);
	return 0;
}

/* Every pair of combinations, at each rank in turn. */
static int disagree(uint32_t rank, void *arg)
{
	const struct combinations *c = arg;
	struct job j = { .k = kind_of(c->dtype, RAR_SUM), .n = 4000 };

	for (uint32_t i = 0; i < c->n * c->n * ring.size; i++) {
		uint32_t odd = i % ring.size, pair = i / ring.size;
		uint32_t usual_flags = c->flags[pair % c->n], odd_flags = c->flags[pair / c->n];

		if (usual_flags == odd_flags)
			continue;
		ring.group += 1000;
		j.flags = rank == odd ? odd_flags : usual_flags;
		RAR_CHECK(!disagree_once(rank, &j, odd), "^ flags %x, at rank %u %x", usual_flags,
			  odd, odd_flags);
	}
	return 0;
}

static int caps(uint32_t rank, void *arg)
{
	socklen_t len = sizeof(struct rar_caps);
	int fd = open_rank(rank);
	struct rar_caps caps;
	uint32_t all = RAR_OPF_IN_ORDER | RAR_OPF_WIDE | RAR_OPF_EXACT | RAR_OPF_QUANT;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	RAR_CHECK(!getsockopt(fd, SOL_RAR, RAR_CAPS, &caps, &len) &&
		  (caps.dtypes[0] & all) == all, "flags %x", caps.dtypes[0]);
	return 0;
}

/* ------------------------------------------------------------ all tests */

static const uint32_t in_f32 = RAR_OPF_WIDE;
static const uint32_t as_set = RAR_OPF_EXACT;
static const bool killed = true, closed;

static const struct test tests[] = {
	TEST("wide: short buffers", 3, short_buffers, .arg = &in_f32),
	TEST("exact: short buffers", 3, short_buffers, .arg = &as_set),
	TEST("exact: a rank is late", 3, late),
	TEST("exact: RAR_OP_TIMEOUT", 3, timeout),
	TEST("exact: a rank closes", 3, ends, .arg = &closed),
	TEST("exact: a rank is killed", 3, ends, .arg = &killed, .lost = 1),
	TEST("refused", 3, refusals),
	TEST("disagree: flags of f32", 3, disagree, .arg = &of_f32),
	TEST("disagree: flags of f16", 3, disagree, .arg = &of_f16),
	TEST("caps", 3, caps),
	TEST("wide: memory", 2, memory, .arg = &in_f32),
	TEST("exact: memory", 2, memory, .arg = &as_set),
};

int main(int argc, char **argv)
{
	run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
