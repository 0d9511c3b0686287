// SPDX-License-Identifier: GPL-2.0
/*
 * Keyed reduction: every key length, type and reduction; results are compared with a table that
 * C makes. More keys than the root has room for, a root that reads late or posts late, ranks
 * that wait or die.
 *
 * keyed [-N NETNS] [short]: all ranks on 127.0.0.1 of a namespace of their own, or rank r in the
 * namespace NETNSr. short: for links that lose packets.
 */
#include <getopt.h>
#include <poll.h>
#include <signal.h>

#include "keyed.h"

/* ------------------------------------------------------------ tests */

/* Every key length, type and reduction, every root, few and many records. */
static int every_kind(uint32_t rank, void *arg)
{
	static const uint8_t keys[] = { 8, 16, 32 }, redops[] = {
		RAR_SUM, RAR_MIN, RAR_MAX, RAR_BOR,
	}, dtypes[] = { RAR_I32, RAR_I64, RAR_U32, RAR_U64 };
	static const uint32_t counts[] = { 0, 1, 50, 700, 3000 };
	int fd = open_rank(rank), err = 0;
	bool partial;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	for (uint32_t i = 0; i < 3 * 4 * 4 * 5 && !err; i++) {
		struct job j = {
			.key = keys[i % 3], .dtype = dtypes[i / 3 % 4], .redop = redops[i / 12 % 4],
			.root = i % ring.size, .count = counts[i / 48], .keys = 331, .slots = 1000,
			.piece = 1 + i * 7 % 400, .id = i + 1,
		};

		err = do_job(fd, &j, rank, &partial);
		if (!err && partial)
			err = 1;
	}
	close(fd);
	return err;
}

/* More records than several windows, and more keys than a cache holds. */
static int many_records(uint32_t rank, void *arg)
{
	struct job j = {
		.key = 16, .dtype = RAR_U64, .redop = RAR_SUM, .root = ring.size - 1,
		.count = *(uint32_t *)arg, .keys = 60000, .slots = 100000, .piece = 3000, .id = 1,
	};
	int fd = open_rank(rank), err;
	bool partial = true;

	RAR_CHECK(fd >= 0, "no group");
	err = do_job(fd, &j, rank, &partial);
	RAR_CHECK(!err && !partial, "%d", err);
	close(fd);
	return 0;
}

/* Not all keys have room. The root reads while the others send. */
static int too_many_keys(uint32_t rank, void *arg)
{
	struct job j = {
		.key = 8, .dtype = RAR_I64, .redop = RAR_SUM, .count = *(uint32_t *)arg,
		.keys = 5000, .slots = 1000, .piece = 500, .id = 1,
	};
	int fd = open_rank(rank), err;
	bool partial = false;

	RAR_CHECK(fd >= 0, "no group");
	if (rank == j.root) {
		/* The root has no records itself. */
		struct rar_op op = op_of(&j);
		struct table got = table_of(&j), want = table_of(&j);
		uint8_t none[RECORD_MAX];
		struct rar_done done;
		int bad = 0;

		err = send_all(fd, none, 0, 0, &op);
		RAR_CHECK(!err, "send: %s", strerrorname_np(-err));
		usleep(300000);
		err = recv_records(fd, &j, &got, 37, &done);
		RAR_CHECK(!err && done.flags == RAR_DONE_PARTIAL, "recv: %d", err);
		for (uint32_t r = 1; r < ring.size; r++) {
			uint64_t state = state_of(&j, r);

			for (uint32_t i = 0; i < j.count; i++) {
				next_record(&j, &state, none);
				table_add(&j, &want, none);
			}
		}
		for (uint32_t k = 0; k < j.keys; k++)
			bad += got.value[k] != want.value[k];
		RAR_CHECK(!bad, "%d keys are wrong", bad);
		table_free(&got);
		table_free(&want);
	} else {
		err = do_job(fd, &j, rank, &partial);
		RAR_CHECK(!err, "%d", err);
	}
	close(fd);
	return 0;
}

/* A root that is not there yet, or does not read: others wait, or are told that they would. */
static int backpressure(uint32_t rank, void *arg)
{
	struct job j = {
		.key = 8, .dtype = RAR_I64, .redop = RAR_MAX, .count = 60000, .keys = 60000,
		.slots = 500, .piece = 100, .id = 1,
	};
	uint64_t state = state_of(&j, rank);
	int fd = open_rank(rank), err = 0;
	struct rar_op op = op_of(&j);
	uint8_t record[RECORD_MAX];
	bool partial;
	uint32_t n;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	if (rank == j.root) {
		struct table got = table_of(&j);
		struct rar_done done;

		usleep(500000);		/* posts late */
		err = send_all(fd, record, 0, 0, &op);
		RAR_CHECK(!err && !sync_ranks(), "send: %d", err);
		err = recv_records(fd, &j, &got, 1000, &done);
		table_free(&got);
		RAR_CHECK(!err, "recv: %d", err);
		close(fd);
		return 0;
	}
	rar_nonblock(fd, true);
	for (n = 0; n < j.count && !err; n++) {
		next_record(&j, &state, record);
		err = send_all(fd, record, 16, MSG_MORE, n ? NULL : &op);
	}
	RAR_CHECK(err == -EAGAIN && n < j.count, "%u records: %s", n, strerrorname_np(-err));
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	RAR_CHECK(!poll(&p, 1, 0), "writable: %x", p.revents);
	RAR_CHECK(!sync_ranks(), "too late");
	RAR_CHECK(poll(&p, 1, 10000) == 1 && p.revents == POLLOUT, "not writable: %x", p.revents);
	rar_nonblock(fd, false);
	for (uint32_t i = n - 1; i < j.count; i++) {
		err = send_all(fd, record, 16, i + 1 < j.count ? MSG_MORE : 0, NULL);
		RAR_CHECK(!err, "send: %s", strerrorname_np(-err));
		next_record(&j, &state, record);
	}
	err = check_result(fd, &j, rank, 1, &partial);
	close(fd);
	return err;
}

/* Several at a time, between all-reduces; every rank posts before it reads. */
static int mixed(uint32_t rank, void *arg)
{
	struct rar_data d = { .id = 1, .count = 3000, .size = ring.size, .dtype = RAR_F32 };
	int fd = open_rank(rank), err = 0;
	struct job jobs[12];
	struct rar_info info;
	bool partial;

	(void)arg;
	RAR_CHECK(fd >= 0 && !rar_info(fd, &info), "no group");
	d.direct = info.direct_bytes == RAR_NO_BYTES ? 0 : info.direct_bytes;
	d.doubled = info.doubling_bytes == RAR_NO_BYTES ? 0 : info.doubling_bytes;
	d.halved = info.halving_bytes == RAR_NO_BYTES ? 0 : info.halving_bytes;
	for (uint32_t round = 0; round < 5 && !err; round++) {
		for (uint32_t i = 0; i < 12 && !err; i++) {
			jobs[i] = (struct job){
				.key = 8 << i % 3, .dtype = RAR_U32, .redop = RAR_SUM,
				.root = (i + round) % ring.size, .count = i * 211, .keys = 100,
				.slots = 200, .piece = 50, .id = 100 * round + i + 1,
			};
			err = send_records(fd, &jobs[i], rank) ?: rar_post(fd, &d, rank);
		}
		for (uint32_t i = 0; i < 12 && !err; i++)
			err = check_result(fd, &jobs[i], rank, 1000, &partial) ?:
			      rar_collect(fd, &d, rank);
	}
	RAR_CHECK(!err, "%d", err);
	close(fd);
	return 0;
}

static uint32_t late_ms = 300;	/* the root begins so much later */

/* A rank that closes after its last record, without the result: the root gets all. */
static int closes(uint32_t rank, void *arg)
{
	struct job j = {
		.key = 8, .dtype = RAR_U64, .redop = RAR_SUM, .count = 20000, .keys = 777,
		.slots = 1000, .piece = 1000, .id = 1,
	};
	int fd = open_rank(rank), err;
	bool partial;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	if (rank == j.root)
		usleep(1000 * late_ms);
	err = send_records(fd, &j, rank);
	if (!err && rank == j.root)
		err = check_result(fd, &j, rank, 100, &partial);
	close(fd);
	return err;
}

/* Ranks that close, and a root that begins only after net.rar.dead_ms: they still serve it. */
static int closes_early(uint32_t rank, void *arg)
{
	int err;

	RAR_CHECK(!rar_write("/proc/sys/net/rar/dead_ms", "1000"), "dead_ms");
	RAR_CHECK(!sync_ranks(), "too late");
	late_ms = 3500;
	err = closes(rank, arg);
	RAR_CHECK(!sync_ranks(), "too late");
	rar_write("/proc/sys/net/rar/dead_ms", "5000");
	return err;
}

/*
 * The root has no room for a rank that has closed, for so long that the successor of that rank,
 * which the root has heard out, is gone without a trace.
 */
static int closes_alone(uint32_t rank, void *arg)
{
	struct job j = {
		.key = 8, .dtype = RAR_U64, .redop = RAR_SUM, .keys = 100000, .slots = 64,
		.piece = 100, .id = 1,
		.count = rank == 1 ? 3000 : 1,
	};
	struct rar_op op = op_of(&j);
	struct table t = table_of(&j);
	struct rar_done done;
	uint64_t sum = 0, want = 0;
	uint8_t record[RECORD_MAX];
	int fd, err;

	RAR_CHECK(!rar_write("/proc/sys/net/rar/dead_ms", "1000"), "dead_ms");
	RAR_CHECK(!sync_ranks(), "too late");
	fd = open_rank(rank);
	RAR_CHECK(fd >= 0, "no group");
	if (rank == j.root) {
		err = send_all(fd, "", 0, 0, &op);
		usleep(4000000);
		err = err ?: recv_records(fd, &j, &t, 100, &done);
		if (err < 0)
			rar_log_error(fd, "alone", err);
		for (uint32_t k = 0; k < j.keys; k++)
			sum += t.value[k];
		for (uint32_t r = 1; r < 3; r++) {
			uint64_t state = state_of(&j, r);

			for (uint32_t i = 0; i < (r == 1 ? 3000 : 1); i++) {
				next_record(&j, &state, record);
				want += get_value(&j, record);
			}
		}
		RAR_CHECK(!err && sum == want, "%d, the sum is %s", err,
			  sum == want ? "right" : "wrong");
	} else {
		err = send_records(fd, &j, rank);
		RAR_CHECK(!err, "send: %d", err);
		/* Sometimes the other rank's notice is first, and then there is no other. */
		if (rank == 2)
			usleep(*(const uint32_t *)arg);
	}
	close(fd);
	table_free(&t);
	RAR_CHECK(!sync_ranks(), "too late");
	rar_write("/proc/sys/net/rar/dead_ms", "5000");
	return 0;
}

/* A rank that has nothing to send for longer than net.rar.dead_ms is not silent. */
static int idles(uint32_t rank, void *arg)
{
	struct job j = {
		.key = 8, .dtype = RAR_U64, .redop = RAR_SUM, .count = 10, .keys = 7,
		.slots = 100, .piece = 1000, .id = 1,
	};
	struct rar_op op = op_of(&j);
	int fd, err;
	bool partial;

	(void)arg;
	RAR_CHECK(!rar_write("/proc/sys/net/rar/dead_ms", "1000"), "dead_ms");
	RAR_CHECK(!sync_ranks(), "too late");
	fd = open_rank(rank);
	RAR_CHECK(fd >= 0, "no group");
	if (rank == 1) {
		uint64_t state = state_of(&j, rank);
		uint8_t records[10 * 16];

		for (uint32_t i = 0; i < 10; i++)
			next_record(&j, &state, records + 16 * i);
		err = send_all(fd, records, 5 * 16, MSG_MORE, &op);
		usleep(3000000);
		err = err ?: send_all(fd, records + 5 * 16, 5 * 16, 0, NULL);
	} else {
		err = send_records(fd, &j, rank);
	}
	err = err ?: check_result(fd, &j, rank, 100, &partial);
	if (err < 0)
		rar_log_error(fd, "idle", err);
	close(fd);
	RAR_CHECK(!sync_ranks(), "too late");
	rar_write("/proc/sys/net/rar/dead_ms", "5000");
	return err;
}

/* A rank dies before its last record: the others are told which. */
static int dies(uint32_t rank, void *arg)
{
	struct job j = {
		.key = 8, .dtype = RAR_U64, .redop = RAR_SUM, .count = 5000, .keys = 777,
		.root = 0, .slots = 1000, .piece = 100, .id = 1,
	};
	uint32_t victim = *(uint32_t *)arg;
	struct rar_op op = op_of(&j);
	uint8_t records[8000] = {};
	struct rar_error e;
	struct table t = table_of(&j);
	int fd = open_rank(rank), err;

	RAR_CHECK(fd >= 0 && !sync_ranks(), "no group");
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	rar_timeout(fd, SO_SNDTIMEO, 10000);
	err = send_all(fd, records, sizeof(records), MSG_MORE, &op);
	if (rank == victim && !err) {
		usleep(100000);
		raise(SIGKILL);
	}
	for (uint32_t i = 0; i < 300 && !err; i++) {
		err = send_all(fd, records, 16, MSG_MORE, NULL);
		usleep(10000);
	}
	RAR_CHECK(rank != victim, "the victim lives: %s", strerrorname_np(-err));
	RAR_CHECK(err == -ECONNRESET, "send: %s", strerrorname_np(-err));
	err = recv_records(fd, &j, &t, 100, NULL);
	table_free(&t);
	RAR_CHECK(err == -ECONNRESET, "recv: %d", err);
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_DIED && e.rank == victim,
		  "reason %s rank %u", rar_reason_name(e.reason), e.rank);
	close(fd);
	return 0;
}

/* A rank dies while the root reads records that had no room. */
static int dies_while_read(uint32_t rank, void *arg)
{
	struct job j = {
		.key = 8, .dtype = RAR_U64, .redop = RAR_SUM, .count = 2000, .keys = 100000,
		.root = 0, .slots = 64, .piece = 100, .id = 1 + *(uint32_t *)arg,
	};
	struct rar_op op = op_of(&j);
	struct table t = table_of(&j);
	uint64_t state = state_of(&j, rank);
	uint8_t record[RECORD_MAX];
	int fd = open_rank(rank), err;

	RAR_CHECK(fd >= 0 && !sync_ranks(), "no group");
	rar_timeout(fd, SO_RCVTIMEO, 60000);
	rar_timeout(fd, SO_SNDTIMEO, 60000);
	if (rank == j.root) {
		err = send_all(fd, record, 0, 0, &op) ?: recv_records(fd, &j, &t, 3, NULL);
	} else {
		err = send_all(fd, record, 0, MSG_MORE, &op);
		for (uint32_t i = 0; !err; i++) {
			if (rank == 1 && i == j.count * (1 + *(uint32_t *)arg))
				raise(SIGKILL);
			next_record(&j, &state, record);
			err = send_all(fd, record, 16, MSG_MORE, NULL);
		}
	}
	RAR_CHECK(rank != 1, "the victim lives: %d", err);
	RAR_CHECK(err == -ECONNRESET, "%d", err);
	table_free(&t);
	close(fd);
	return 0;
}

static const struct job short_job = {
	.key = 8, .dtype = RAR_U64, .redop = RAR_SUM, .count = 100, .keys = 777, .slots = 1000,
	.piece = 100, .id = 1,
};

/* Receive until the group fails. Returns its error. */
static int await_error(int fd, const struct job *j, uint32_t rank)
{
	struct table t = table_of(j);
	char byte;
	int err = 0;

	while (!err)
		err = rank == j->root ? recv_records(fd, j, &t, 100, NULL) :
		      rar_recv(fd, &byte, 1, 0, NULL, NULL);
	table_free(&t);
	return err;
}

/* close() without a last record ends the group, which names the rank. */
static int leaves_open(uint32_t rank, void *arg)
{
	struct job j = short_job;
	struct rar_op op = op_of(&j);
	uint8_t records[1600] = {};
	struct rar_error e;
	int fd = open_rank(rank), err, val = 0;

	(void)arg;
	RAR_CHECK(fd >= 0 && !sync_ranks(), "no group");
	if (rank == 1) {
		err = send_all(fd, records, 1600, MSG_MORE, &op);
		RAR_CHECK(!err, "send: %s", strerrorname_np(-err));
		RAR_CHECK(setsockopt(fd, SOL_RAR, RAR_CANCEL, &val, sizeof(val)) < 0 &&
			  errno == EBUSY, "RAR_CANCEL");
		close(fd);
		return 0;
	}
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	err = send_records(fd, &j, rank);
	err = err ?: await_error(fd, &j, rank);
	RAR_CHECK(err == -ECONNRESET, "%d", err);
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_CLOSED && e.rank == 1,
		  "reason %s rank %u", rar_reason_name(e.reason), e.rank);
	close(fd);
	return 0;
}

/* RAR_OP_TIMEOUT names the rank whose stream has not ended; a rank that still sends is in time. */
static int timeout(uint32_t rank, void *arg)
{
	struct job j = short_job;
	struct rar_op op = op_of(&j);
	uint8_t records[1600] = {};
	struct rar_error e;
	int fd = open_rank(rank), err;
	uint32_t ms = 500;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	setsockopt(fd, SOL_RAR, RAR_OP_TIMEOUT, &ms, sizeof(ms));
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	if (rank == 2)
		err = send_all(fd, records, 1600, MSG_MORE, &op);
	else
		err = send_records(fd, &j, rank);
	RAR_CHECK(!err, "send: %s", strerrorname_np(-err));
	err = err ?: await_error(fd, &j, rank);
	RAR_CHECK(err == -ETIMEDOUT, "%d", err);
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_TIMEOUT && e.rank == 2,
		  "reason %s rank %u", rar_reason_name(e.reason), e.rank);
	close(fd);
	return 0;
}

/*
 * In the middle of its work the path from rank 2 to the root, which is not its neighbour, begins to
 * carry short packets only.
 */
static int narrow(uint32_t rank, void *arg)
{
	struct job j = short_job;
	int fd = open_rank(rank), err = 0;
	struct rar_error e;
	bool partial;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	rar_timeout(fd, SO_SNDTIMEO, 30000);
	rar_timeout(fd, SO_RCVTIMEO, 30000);
	for (j.count = 1000; !err; j.id++)
		err = do_job(fd, &j, rank, &partial);
	RAR_CHECK(err == -EMSGSIZE, "%d", err);
	RAR_CHECK(!rar_error(fd, &e) && e.reason == RAR_R_MTU && e.rank == 2 && e.other == 0,
		  "reason %s rank %u other %u", rar_reason_name(e.reason), e.rank, e.other);
	close(fd);
	return 0;
}

/* ------------------------------------------------------------ all tests */

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = { 1, 2, 3, 5, 9 }, victims[] = { 0, 2 };
	static const uint32_t many = 200000, some = 20000;
	uint32_t nsizes, wait_us;
	bool brief;
	int c;

	while ((c = getopt(argc, argv, "AN:")) != -1) {
		ring.schedule = c == 'A' ? RAR_AUTO : ring.schedule;
		ring.netns = c == 'N' ? optarg : ring.netns;
	}
	brief = argv[optind] && !strcmp(argv[optind], "short");
	wait_us = brief ? 0 : 500000;
	nsizes = brief ? 3 : 4 + !ring.netns;
	ring.where = ring.netns ? RAR_ON_IPV4 : RAR_ON_LO4;
	rar_begin();
	if (!ring.netns && rar_private_net())
		ksft_exit_skip("needs root\n");
	barrier = rar_shared(sizeof(*barrier));
	if (argv[optind] && !strcmp(argv[optind], "narrow")) {
		ksft_set_plan(1);
		run("a narrow path to the root", "", 4, narrow, NULL);
		ksft_finished();
	}
	ksft_set_plan(nsizes + 8 + (brief ? 0 : 9));
	for (size_t i = 0; i < nsizes; i++)
		run("every key, type, reduction and root", "", sizes[i], every_kind, NULL);
	run("many records", "", 3, many_records, brief ? &some : &many);
	run("too many keys", "", 3, too_many_keys, &some);
	run("a late root", "", 2, backpressure, NULL);
	run("several at a time", "", 3, mixed, NULL);
	run("ranks that close", "", 4, closes, NULL);
	run("ranks that close, and a root that begins late", "", 4, closes_early, NULL);
	run("a rank that closes, alone", "", 3, closes_alone, &wait_us);
	run("a rank that idles", "", 3, idles, NULL);
	if (brief)
		ksft_finished();
	run_killed("a rank dies", "", 4, dies, &victims[1], 1);
	run_killed("the root dies", "", 4, dies, &victims[0], 1);
	for (uint32_t i = 0; i < 5; i++)
		run_killed("a rank dies while the root reads", "", 3, dies_while_read, &i, 1);
	run("a rank that closes too early", "", 3, leaves_open, NULL);
	run("a rank that is late", "", 3, timeout, NULL);
	ksft_finished();
}
