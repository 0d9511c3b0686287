// SPDX-License-Identifier: GPL-2.0
/*
 * Keyed reductions: ranks that disagree, calls that are refused, groups that have none. All ranks
 * on 127.0.0.1 of a namespace of their own.
 */
#include "keyed.h"
#include "page.h"

static const struct disagreement {
	const char *what;
	struct rar_op odd;		/* what one rank passes; 0: as the others */
	uint32_t reason;
} disagreements[] = {
	{ "key", { .key = 16 }, RAR_R_FLAGS },
	{ "type", { .dtype = RAR_I64 }, RAR_R_DTYPE },
	{ "reduction", { .redop = RAR_MAX }, RAR_R_REDOP },
	{ "root", { .root = 1 }, RAR_R_ROOT },
	{ "room", { .bytes = 32000 }, RAR_R_COUNT },
	{ "collective", { .collective = RAR_ALLREDUCE }, RAR_R_COLLECTIVE },
};

static int disagree(uint32_t rank, void *arg)
{
	const struct disagreement *d = arg;
	struct job j = {
		.key = 8, .dtype = RAR_U64, .redop = RAR_SUM, .count = 100, .keys = 777,
		.slots = 1000, .piece = 100, .id = 1,
	};
	static uint8_t records[4800];
	struct rar_op op = op_of(&j);
	struct rar_error e;
	int fd = open_rank(rank);
	ssize_t n;

	RAR_CHECK(fd >= 0 && !sync_ranks(), "no group");
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	if (rank == 2) {
		op.key = d->odd.key ?: op.key;
		op.dtype = d->odd.dtype ?: op.dtype;
		op.redop = d->odd.redop ?: op.redop;
		op.root = d->odd.root ?: op.root;
		op.bytes = d->odd.bytes ?: op.bytes;
		op.collective = d->odd.collective ?: op.collective;
		if (d->odd.key)
			op.bytes = 24000;
		if (d->odd.collective) {
			op.key = 0;
			op.bytes = sizeof(records);
		}
	}
	n = send_all(fd, records, sizeof(records), 0, &op);
	while (n >= 0)
		n = rar_recv(fd, records, sizeof(records), 0, NULL, NULL);
	RAR_CHECK(n == -EBADMSG, "%s", strerrorname_np(-n));
	RAR_CHECK(!rar_error(fd, &e) && e.reason == d->reason, "reason %s",
		  rar_reason_name(e.reason));
	RAR_CHECK(e.rank != e.other && (e.rank == 2 || e.other == 2), "ranks %u and %u", e.rank,
		  e.other);
	close(fd);
	return 0;
}

#define SOME 1600
/* Rows of the manual, and calls that they are about. */
static const struct refused {
	const char *page;
	int err;
	size_t len;
	int flags;
	struct rar_op op;
} refused[] = {
	{ "a key that has not 8, 16 or 32 bytes|EINVAL", EINVAL, 0, 0,
	  { .dtype = RAR_I64, .bytes = SOME } },
	{ "a key that has not 8, 16 or 32 bytes|EINVAL", EINVAL, 0, 0,
	  { .dtype = RAR_I64, .key = 7, .bytes = SOME } },
	{ "a key that has not 8, 16 or 32 bytes|EINVAL", EINVAL, 0, 0,
	  { .dtype = RAR_I64, .key = 64, .bytes = SOME } },
	{ "no bytes, or not whole records|EINVAL", EINVAL, 0, 0,
	  { .dtype = RAR_I64, .key = 8 } },
	{ "no bytes, or not whole records|EINVAL", EINVAL, 0, 0,
	  { .dtype = RAR_I64, .key = 8, .bytes = SOME + 8 } },
	{ "no bytes, or not whole records|EINVAL", EINVAL, 8, 0,
	  { .dtype = RAR_I64, .key = 8, .bytes = SOME } },
	{ "no bytes, or not whole records|EINVAL", EINVAL, 24, MSG_MORE,
	  { .dtype = RAR_I64, .key = 8, .bytes = SOME } },
	{ "a root that does not exist|EINVAL", EINVAL, 0, 0,
	  { .dtype = RAR_I64, .key = 8, .bytes = SOME, .root = 3 } },
	{ "a flag that is not known|EINVAL", EINVAL, 0, 0,
	  { .dtype = RAR_I64, .key = 8, .bytes = SOME, .flags = 1 } },
	{ "a flag that is known|EOPNOTSUPP", EOPNOTSUPP, 0, 0,
	  { .dtype = RAR_I64, .key = 8, .bytes = SOME, .flags = RAR_OPF_IN_ORDER } },
	{ "a flag that is known|EOPNOTSUPP", EOPNOTSUPP, 0, 0,
	  { .dtype = RAR_I64, .key = 8, .bytes = SOME, .flags = RAR_OPF_EXACT } },
	{ "another type|EOPNOTSUPP", EOPNOTSUPP, 0, 0,
	  { .dtype = RAR_F64, .key = 8, .bytes = SOME } },
	{ "another type|EOPNOTSUPP", EOPNOTSUPP, 0, 0,
	  { .dtype = RAR_U8, .key = 8, .bytes = SOME } },
	{ "another reduction|EOPNOTSUPP", EOPNOTSUPP, 0, 0,
	  { .dtype = RAR_I64, .redop = RAR_PROD, .key = 8, .bytes = SOME } },
	{ "another reduction|EOPNOTSUPP", EOPNOTSUPP, 0, 0,
	  { .dtype = RAR_I64, .redop = RAR_AVG, .key = 8, .bytes = SOME } },
	{ "MSG_ZEROCOPY or splice(2)|EOPNOTSUPP", EOPNOTSUPP, SOME, MSG_ZEROCOPY,
	  { .dtype = RAR_I64, .key = 8, .bytes = SOME } },
	{ "more records than 4294967295, or than the host has memory for|EMSGSIZE", EMSGSIZE, 0, 0,
	  { .dtype = RAR_I64, .key = 8, .bytes = 1ULL << 39, .root = 0 } },
	{ "more records than 4294967295, or than the host has memory for|EMSGSIZE", EMSGSIZE, 0, 0,
	  { .dtype = RAR_I64, .key = 8, .bytes = 1ULL << 44 } },
};

/* No call has an effect: after all of them the group works. A key is for this collective only. */
static int refusals(uint32_t rank, void *arg)
{
	struct job j = {
		.key = 32, .dtype = RAR_I32, .redop = RAR_SUM, .count = 100, .keys = 50,
		.slots = 64, .piece = 100, .id = 1,
	};
	FILE *page = rank ? NULL : page_open();
	struct rar_op sum = { .size = sizeof(sum), .key = 8, .dtype = RAR_I64 };
	int fd = open_rank(rank), bad = 0, err;
	static char x[2 * SOME];
	struct rar_info info;
	bool partial;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	if (page)
		RAR_CHECK(!PAGE_CHECK(page, "keyed reduction|error", refused), "rar.7");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const struct refused *r = &refused[i];
		struct rar_op op = r->op;

		op.size = sizeof(op);
		op.collective = RAR_REDUCE_BY_KEY;
		/* Only the root needs the memory. */
		if (r->err == EMSGSIZE && rank && r->op.bytes < 1ULL << 44)
			continue;
		err = rar_send(fd, x, r->len, r->flags, &op);
		if (err != -r->err) {
			rar_log("%s: %s", r->page, strerrorname_np(-err));
			bad = 1;
		}
	}
	err = rar_send(fd, x, SOME, 0, &sum);
	RAR_CHECK(err == -EINVAL, "a sum with a key: %s", strerrorname_np(-err));
	RAR_CHECK(!bad && !rar_info(fd, &info) && !info.ops_posted, "something was sent");
	RAR_CHECK(!sync_ranks(), "too late");
	err = do_job(fd, &j, rank, &partial);
	close(fd);
	return err;
}

/* A group by the ring has no direct links. */
static int by_the_ring(uint32_t rank, void *arg)
{
	struct rar_op op = {
		.size = sizeof(op), .collective = RAR_REDUCE_BY_KEY, .key = 8, .dtype = RAR_I64,
		.bytes = SOME,
	};
	struct rar_ring plain = ring;
	int fd, err;

	(void)arg;
	plain.schedule = RAR_BY_RANKS;
	fd = rar_open(&plain, rank);
	RAR_CHECK(fd >= 0, "no group");
	err = rar_send(fd, "", 0, 0, &op);
	RAR_CHECK(err == (ring.size == 1 ? 0 : -EOPNOTSUPP), "%s", strerrorname_np(-err));
	RAR_CHECK(!sync_ranks(), "too late");
	close(fd);
	return 0;
}

/* ------------------------------------------------------------ all tests */

int main(void)
{
	uint32_t n = sizeof(disagreements) / sizeof(disagreements[0]);

	rar_begin_private();
	barrier = rar_shared(sizeof(*barrier));
	ksft_set_plan(3 + n);
	run("refused", "", 3, refusals, NULL);
	run("not without direct links", "", 3, by_the_ring, NULL);
	run("one rank needs none", "", 1, by_the_ring, NULL);
	for (uint32_t i = 0; i < n; i++)
		run("disagree: ", disagreements[i].what, 3, disagree, &disagreements[i]);
	ksft_finished();
}
