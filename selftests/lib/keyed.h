/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keyed reductions for tests: random records, the table that C makes of them, sending, receiving
 * and comparing. In a header, because the counters of kselftest.h are static.
 *
 * Functions return 0 or a negative errno, or 1 after they have logged why.
 */
#ifndef RAR_KEYED_H
#define RAR_KEYED_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"

#define SYNC_S		100
#define RECORD_MAX	40u

static struct rar_ring ring = { .where = RAR_ON_LO4, .schedule = RAR_DIRECT };
static struct rar_barrier *barrier;

/* What each rank sends: @count records with keys 0 .. @keys - 1. */
struct job {
	uint8_t key;
	uint8_t dtype;
	uint8_t redop;
	uint32_t root;
	uint32_t count;
	uint32_t keys;
	uint32_t slots;		/* records that the root has room for */
	uint32_t piece;		/* records of a call */
	uint64_t id;
};

static inline uint32_t value_size(const struct job *j)
{
	return j->dtype == RAR_I64 || j->dtype == RAR_U64 ? 8 : 4;
}

static inline uint32_t record_size(const struct job *j)
{
	return j->key + value_size(j);
}

static inline int sync_ranks(void)
{
	return rar_barrier(barrier, ring.size, SYNC_S);
}

/* ------------------------------------------------------------ records */

/* The bytes of a key: the number, then bytes that follow from it. */
static inline void put_key(const struct job *j, uint8_t *record, uint64_t number)
{
	uint64_t words[4] = { number, ~number, number * 3, 7 };

	memcpy(record, words, j->key);
}

/* The number of a key, or -1 if it is none of ours. */
static inline int64_t get_key(const struct job *j, const uint8_t *record)
{
	uint8_t right[RECORD_MAX];
	uint64_t number;

	memcpy(&number, record, 8);
	put_key(j, right, number);
	return memcmp(right, record, j->key) || number >= j->keys ? -1 : (int64_t)number;
}

static inline void put_value(const struct job *j, uint8_t *record, uint64_t value)
{
	memcpy(record + j->key, &value, value_size(j));
}

static inline uint64_t get_value(const struct job *j, const uint8_t *record)
{
	uint64_t wide = 0;
	uint32_t narrow;

	if (value_size(j) == 8) {
		memcpy(&wide, record + j->key, 8);
		return wide;
	}
	memcpy(&narrow, record + j->key, 4);
	return j->dtype == RAR_I32 ? (uint64_t)(int64_t)(int32_t)narrow : narrow;
}

static inline uint64_t state_of(const struct job *j, uint32_t rank)
{
	return rar_seed + j->id * 1000 + rank + 1;
}

/* The next record of a rank. */
static inline void next_record(const struct job *j, uint64_t *state, uint8_t *record)
{
	put_key(j, record, rar_random(state) % j->keys);
	put_value(j, record, rar_random(state));
}

static inline bool less(const struct job *j, uint64_t a, uint64_t b)
{
	return j->dtype == RAR_I32 || j->dtype == RAR_I64 ? (int64_t)a < (int64_t)b : a < b;
}

static inline uint64_t reduced(const struct job *j, uint64_t a, uint64_t b)
{
	uint64_t sum = a + b;

	switch (j->redop) {
	case RAR_MIN:
		return less(j, a, b) ? a : b;
	case RAR_MAX:
		return less(j, a, b) ? b : a;
	case RAR_BOR:
		return a | b;
	}
	if (j->dtype == RAR_I32)
		return (int64_t)(int32_t)sum;
	return j->dtype == RAR_U32 ? (uint32_t)sum : sum;
}

struct table {
	uint64_t *value;
	uint8_t *times;		/* records of the key, up to 255 */
};

static inline struct table table_of(const struct job *j)
{
	return (struct table){ calloc(j->keys, 8), calloc(j->keys, 1) };
}

static inline void table_free(struct table *t)
{
	free(t->value);
	free(t->times);
}

static inline int table_add(const struct job *j, struct table *t, const uint8_t *record)
{
	int64_t key = get_key(j, record);

	RAR_CHECK(key >= 0, "a key that nobody sent");
	t->value[key] = t->times[key] ? reduced(j, t->value[key], get_value(j, record)) :
					get_value(j, record);
	t->times[key] += t->times[key] < 255;
	return 0;
}

/* What all ranks send together. */
static inline int expect(const struct job *j, struct table *t)
{
	uint8_t record[RECORD_MAX];
	uint64_t state;

	for (uint32_t r = 0; r < ring.size; r++) {
		state = state_of(j, r);
		for (uint32_t i = 0; i < j->count; i++) {
			next_record(j, &state, record);
			if (table_add(j, t, record))
				return 1;
		}
	}
	return 0;
}

/* ------------------------------------------------------------ operations */

static inline struct rar_op op_of(const struct job *j)
{
	return (struct rar_op){
		.size = sizeof(struct rar_op), .collective = RAR_REDUCE_BY_KEY, .key = j->key,
		.dtype = j->dtype, .redop = j->redop, .root = j->root, .cookie = j->id,
		.bytes = (uint64_t)j->slots * record_size(j),
	};
}

/* Send records until all are taken. */
static inline int send_all(int fd, const void *buf, size_t len, int flags, const struct rar_op *op)
{
	const char *at = buf;
	ssize_t n;

	do {
		struct iovec iov = { (void *)at, len };
		char control[CMSG_SPACE(sizeof(*op))] = {};
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

		if (op) {
			struct cmsghdr *cmsg = (struct cmsghdr *)control;

			msg.msg_control = control;
			msg.msg_controllen = sizeof(control);
			cmsg->cmsg_level = SOL_RAR;
			cmsg->cmsg_type = RAR_OP;
			cmsg->cmsg_len = CMSG_LEN(sizeof(*op));
			memcpy(CMSG_DATA(cmsg), op, sizeof(*op));
		}
		n = sendmsg(fd, &msg, flags | MSG_NOSIGNAL);
		if (n < 0)
			return -errno;
		op = NULL;
		at += n;
		len -= n;
	} while (len);
	return 0;
}

/* Send what a rank sends, in calls of @piece records. */
static inline int send_records(int fd, const struct job *j, uint32_t rank)
{
	uint64_t state = state_of(j, rank);
	uint32_t len = record_size(j), piece = j->piece ?: 1, n;
	uint8_t *buf = malloc((size_t)piece * len);
	struct rar_op op = op_of(j);
	int err = 0;

	for (uint32_t i = 0; !err && i <= j->count; i += n) {
		n = piece < j->count - i ? piece : j->count - i;
		for (uint32_t k = 0; k < n; k++)
			next_record(j, &state, buf + k * len);
		err = send_all(fd, buf, n * len, i + n < j->count ? MSG_MORE : 0, i ? NULL : &op);
		if (i + n == j->count)
			break;
	}
	free(buf);
	return err;
}

/* Receive the records of the root, @room of them in a call. */
static inline int recv_records(int fd, const struct job *j, struct table *t, uint32_t room,
			struct rar_done *done)
{
	uint32_t len = record_size(j);
	uint8_t *buf = malloc((size_t)room * len + 1);
	bool eor = false;
	ssize_t n;
	int err = 0;

	while (!eor && !err) {
		n = rar_recv(fd, buf, (size_t)room * len + 1, 0, &eor, done);
		err = n < 0 ? n : 0;
		if (n > 0 && n % len) {
			rar_log("recv() of %zd bytes", n);
			err = 1;
		}
		for (ssize_t at = 0; at < n && !err; at += len)
			err = table_add(j, t, buf + at);
	}
	free(buf);
	return err;
}

/* Receive the result, and check it. Sets @partial if keys had no room. */
static inline int check_result(int fd, const struct job *j, uint32_t rank, uint32_t room, bool *partial)
{
	struct table got, want;
	struct rar_done done = {};
	uint32_t twice = 0, wrong = 0;
	char byte;
	ssize_t n;
	int err;

	*partial = false;
	if (rank != j->root) {
		n = rar_recv(fd, &byte, 1, 0, NULL, &done);
		RAR_CHECK(!n, "recv: %zd", n);
		RAR_CHECK(done.cookie == j->id && done.contributors == ring.size && !done.flags,
			  "RAR_DONE");
		return 0;
	}
	got = table_of(j);
	want = table_of(j);
	err = recv_records(fd, j, &got, room, &done) ?: expect(j, &want);
	if (!err && (done.cookie != j->id || done.contributors != ring.size)) {
		rar_log("RAR_DONE: %llu, %u", (unsigned long long)done.cookie, done.contributors);
		err = 1;
	}
	for (uint32_t k = 0; k < j->keys && !err; k++) {
		wrong += got.value[k] != want.value[k] || !got.times[k] != !want.times[k];
		twice += got.times[k] > 1;
	}
	*partial = done.flags & RAR_DONE_PARTIAL;
	if (wrong || (twice && !*partial)) {
		rar_log("key %u, type %u, reduction %u: %u of %u keys are wrong, %u come twice",
			j->key, j->dtype, j->redop, wrong, j->keys, twice);
		err = 1;
	}
	table_free(&got);
	table_free(&want);
	return err;
}

static inline int open_rank(uint32_t rank)
{
	int fd = rar_open(&ring, rank);

	if (fd < 0)
		rar_log("rank %u: join: %s", rank, strerrorname_np(-fd));
	return fd;
}

static inline int do_job(int fd, const struct job *j, uint32_t rank, bool *partial)
{
	int err = send_records(fd, j, rank);

	if (err)
		rar_log_error(fd, "send", err);
	err = err ?: check_result(fd, j, rank, 100, partial);
	if (err < 0)
		rar_log_error(fd, "recv", err);
	return err;
}

/* ------------------------------------------------------------ running */

static uint64_t group;

/* @killed: ranks that end by a signal. */
static inline void run_killed(const char *what, const char *name, uint32_t n, rar_rank_fn fn,
		       const void *arg, int killed)
{
	uint64_t start = rar_now_us();
	int failed;

	ring.group = ++group;
	ring.size = n;
	memset(barrier, 0, sizeof(*barrier));
	failed = rar_run(n, ring.netns, 180, fn, (void *)arg);
	rar_log("%llu ms", (unsigned long long)(rar_now_us() - start) / 1000);
	ksft_test_result(failed == killed, "%s%s, %u ranks\n", what, name, n);
}

static inline void run(const char *what, const char *name, uint32_t n, rar_rank_fn fn, const void *arg)
{
	run_killed(what, name, n, fn, arg, 0);
}

#endif /* RAR_KEYED_H */
