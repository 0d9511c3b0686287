// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a list of operations on one group of N ranks, and checks every bit against the
 * ring-order reference. A tool for the shell tests: exit status 0, 1, 4 (skip),
 * and one last line for scripts:
 *
 *	ring: n=4 ops=28 payload=1408 ... ingress=900 encap=0 us=1234 ... hash=...
 *
 * us: time of the fastest repeat, from the common start until the last rank has
 * received its last result; total_us: time of all repeats. bytes: size of all
 * operations. retrans: chunks sent again, by all ranks; rto: the longest
 * retransmission timeout of a rank, in us. hash: hash of all results. ingress, encap:
 * packets received by each path between joining and leaving, if all ranks are in one
 * namespace.
 *
 * Small results are compared whole on every rank. Of a large result each rank compares
 * its own 1/N and hashes all of it. If the hashes are equal, every rank has the bits that
 * one of the ranks has compared. Data pass in pieces (MSG_MORE, short receive buffers), so
 * that memory in user space does not grow with the operation. An exception are ranks
 * that work in place or out of place (-z). In the end every operation must be released
 * on every rank.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"
#include "rar_util.h"

#define MAX_OPS		32768
#define WHOLE		(256u << 10)	/* bytes; results up to this size are compared whole */
#define BARRIER_S	300
#define RELEASE_S	20

struct report {
	struct rar_info info;
	uint64_t start, end;
};

/* Memory that the ranks share; hash[rank * MAX_OPS + op]. */
struct shared {
	struct rar_barrier barrier;
	struct report report[RAR_PROCS];
	uint32_t nops, rounds;
	uint64_t bytes, best_us, total_us, deadline;
	bool stop;
	int64_t ingress, encap;
	uint64_t hash[];
};

static struct {
	struct rar_ring ring;
	bool threads, mixed, lines, hasty, box, key, cast, reduce, together;
	const char *types, *counts, *sysctl, *modes, *end;
	uint32_t inflight, repeats, seconds, limit_s, priority;
	uint32_t first[RAR_PROCS], joint[RAR_PROCS], joints;
	uint64_t piece;
} opt = {
	.ring = { .size = 4, .netns = "rar" },
	.types = "i32,f32", .counts = "std", .modes = "c",
	.inflight = 8, .repeats = 1, .limit_s = 120, .piece = 1 << 20,
};

static struct shared *shared;

/* Memory of an operation that is not copied; in place @sums is @data. At any alignment. */
struct memory {
	void *room;
	char *data, *sums;
};

/* One rank: its socket, its operations, a buffer of one piece. */
struct rank {
	int fd;
	uint32_t rank;
	uint32_t nops;
	uint64_t list_random;	/* equal on all ranks: decides the list */
	uint64_t turn_random;	/* the rank's own: decides when to send and when to receive */
	uint32_t direct, doubled, halved;	/* as in struct rar_data */
	struct rar_data op[MAX_OPS];
	char *buf;
	uint64_t filled;	/* id of the operation whose data is made, or 0 */
	struct memory memory[RAR_MAX_OPS];	/* of the operations in flight, by id */
};

/* ------------------------------------------------------------ the list */

static int add_op(struct rank *r, uint32_t dtype, uint64_t count)
{
	struct rar_data *d = &r->op[r->nops];

	if (r->nops == MAX_OPS)
		return -E2BIG;
	d->id = ++r->nops;
	d->dtype = dtype;
	d->count = count;
	d->size = opt.ring.size;
	d->hosts = opt.ring.schedule == RAR_BY_HOSTS ? opt.joints ?: opt.ring.hosts : 0;
	d->first = opt.joints ? opt.joint : opt.first;
	d->direct = r->direct;
	d->doubled = r->doubled;
	d->halved = r->halved;
	d->root = opt.cast || opt.reduce ? 1 + d->id % d->size : 0;
	d->reduce = opt.reduce;
	return 0;
}

/* Operations of border sizes: nothing, fewer elements than ranks, primes, one chunk
 * +-1 as the whole operation and as one block of it.
 */
static int add_std(struct rank *r, uint32_t dtype, uint32_t payload)
{
	uint64_t n = opt.ring.size, chunk = payload / rar_element(dtype);
	uint64_t counts[] = {
		0, 1, n - 1, n, n + 1, 2, 3, 17, 97, 1009, 10007,
		chunk - 1, chunk, chunk + 1,
		n * chunk - 1, n * chunk, n * chunk + 1, 3 * n * chunk + 13,
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(counts) && !err; i++)
		err = add_op(r, dtype, counts[i]);
	return err;
}

/* Elements, or bytes with a suffix: 1000, 256k, 64M, 2G; -1: neither */
static int64_t parse_count(const char *word, uint32_t dtype)
{
	char *end;
	uint64_t count = strtoull(word, &end, 0);

	switch (*end) {
	case '\0': return count;
	case 'k': return (count << 10) / rar_element(dtype);
	case 'M': return (count << 20) / rar_element(dtype);
	case 'G': return (count << 30) / rar_element(dtype);
	}
	return -1;
}

/* "std", a count, or TIMESxCOUNT: TIMES operations of random size up to COUNT */
static int add_counts(struct rank *r, uint32_t dtype, uint32_t payload, const char *word)
{
	const char *x = strchr(word, 'x');
	int64_t count = parse_count(x ? x + 1 : word, dtype);
	int err = 0;

	if (!strcmp(word, "std"))
		return add_std(r, dtype, payload);
	if (count < 0)
		return -EINVAL;
	if (!x)
		return add_op(r, dtype, count);
	for (int times = atoi(word); times > 0 && !err; times--)
		err = add_op(r, dtype, rar_random(&r->list_random) % (count + 1));
	return err;
}

static int add_type(struct rank *r, const char *type, uint32_t payload)
{
	char *counts = strdup(opt.counts), *save, *word;
	uint32_t dtype = rar_dtype_parse(type);
	int err = dtype ? 0 : -EINVAL;

	for (word = strtok_r(counts, ",", &save); word && !err;
	     word = strtok_r(NULL, ",", &save))
		err = add_counts(r, dtype, payload, word);
	free(counts);
	return err;
}

static void shuffle(struct rank *r)
{
	for (uint32_t i = r->nops; i > 1; i--) {
		struct rar_data *a = &r->op[i - 1];
		struct rar_data *b = &r->op[rar_random(&r->list_random) % i];
		struct rar_data was = *a;

		a->dtype = b->dtype;
		a->count = b->count;
		b->dtype = was.dtype;
		b->count = was.count;
	}
}

static int make_list(struct rank *r, uint32_t payload)
{
	char *types = strdup(opt.types), *save, *word;
	int err = 0;

	r->list_random = rar_seed;
	r->turn_random = rar_seed + 1 + r->rank;
	for (word = strtok_r(types, ",", &save); word && !err;
	     word = strtok_r(NULL, ",", &save))
		err = add_type(r, word, payload);
	free(types);
	if (opt.mixed)
		shuffle(r);
	return err;
}

/* ------------------------------------------------------------ one operation */

static uint64_t piece_elements(const struct rar_data *d, uint64_t done)
{
	uint64_t n = opt.piece / rar_element(d->dtype);

	return d->count - done < n ? d->count - done : n;
}

/* The mode of a rank: c(opied), i(n place), o(ut of place); r(andom): by operation, too. */
static char mode_of(const struct rank *r, const struct rar_data *d)
{
	char mode = opt.modes[r->rank % strlen(opt.modes)];
	uint64_t random = rar_seed + d->id * opt.ring.size + r->rank;

	mode = mode == 'r' ? "cio"[rar_random(&random) % 3] : mode;
	return mode == 'o' && d->reduce ? 'i' : mode;
}

/* The memory of an operation; NULL if it is copied. */
static struct memory *memory_of(struct rank *r, const struct rar_data *d)
{
	return mode_of(r, d) == 'c' ? NULL : &r->memory[d->id % RAR_MAX_OPS];
}

static int get_memory(struct memory *m, const struct rar_data *d, char mode)
{
	uint64_t room = rar_bytes(d) + 4096;

	m->room = malloc(mode == 'o' ? 2 * room : room);
	if (!m->room)
		return -ENOMEM;
	m->data = (char *)m->room + d->id * 61 % 4096;
	m->sums = m->data;
	if (mode == 'o')
		m->sums = (char *)m->room + room + d->id * 43 % 4096;
	return 0;
}

/* Makes the data of a piece of an operation: in its memory, or in the buffer. */
static void fill_piece(struct rank *r, const struct rar_data *d, struct memory *m, uint64_t done)
{
	uint64_t n = piece_elements(d, done);
	size_t size = rar_element(d->dtype);

	rar_fill(d, r->rank, done, n, r->buf);
	if (m)
		memcpy(m->data + done * size, r->buf, n * size);
}

static int post(struct rank *r, const struct rar_data *d)
{
	struct rar_op op = rar_op_of(d->dtype, rar_bytes(d), d->id);
	struct memory *m = memory_of(r, d);
	size_t size = rar_element(d->dtype);
	uint64_t done = 0, n, count = d->count;
	bool filled = r->filled == d->id;
	const char *from;
	int flags, err;

	r->filled = 0;
	err = m && !filled ? get_memory(m, d, mode_of(r, d)) : 0;
	if (err)
		return err;
	if (m && m->sums != m->data)
		op.dst = (uintptr_t)m->sums;
	op.collective = !d->root ? 0 : d->reduce ? RAR_REDUCE : RAR_BROADCAST;
	op.root = d->root ? d->root - 1 : 0;
	if (d->root && !d->reduce && op.root != r->rank && (!m || op.dst))
		count = 0;
	do {
		n = count ? piece_elements(d, done) : 0;
		from = m ? m->data + done * size : r->buf;
		if (n && !filled)
			fill_piece(r, d, m, done);
		flags = (m ? MSG_ZEROCOPY : 0) | (done + n < count ? MSG_MORE : 0);
		err = rar_send(r->fd, from, n * size, flags, done ? NULL : &op);
		if (err)
			return err;
		done += n;
	} while (done < count);
	return 0;
}

/* Compares the part that this rank checks: the whole result, or its share if all ranks have it. */
static int verify(struct rank *r, const struct rar_data *d, uint64_t first, uint64_t n)
{
	uint64_t lo = 0, hi = d->count, share = d->count / d->size;

	if (rar_bytes(d) > WHOLE && !d->reduce) {
		lo = r->rank * share;
		hi = r->rank + 1 < d->size ? lo + share : d->count;
	}
	if (lo < first)
		lo = first;
	if (hi > first + n)
		hi = first + n;
	if (lo >= hi)
		return 0;
	return rar_verify(d, lo, hi - lo,
			  r->buf + (lo - first) * rar_element(d->dtype)) < 0 ?
	       0 : -EBADE;
}

static int check_done(const struct rar_data *d, const struct rar_done *done, bool eor, bool last)
{
	if (eor != last)
		return -EPROTO;
	if (last && (done->cookie != d->id || done->status ||
		     done->contributors != (d->root && !d->reduce ? 1 : d->size)))
		return -EBADMSG;
	return 0;
}

/* Receives exactly one piece, which may come in several recv() calls. */
static int receive(struct rank *r, const struct rar_data *d, uint64_t len, bool last)
{
	struct rar_done done;
	uint64_t have = 0;
	bool eor = false;
	ssize_t n;

	do {
		n = rar_recv(r->fd, r->buf + have, len - have, 0, &eor, &done);
		if (n < 0)
			return n;
		have += n;
	} while (have < len && n && !eor);
	return have < len ? -EMSGSIZE : check_done(d, &done, eor, last);
}

static int collect(struct rank *r, const struct rar_data *d)
{
	struct memory *m = memory_of(r, d);
	uint64_t done = 0, n, len, hash = 1;
	bool gets = !d->reduce || r->rank == d->root - 1, some = gets;
	int err = 0;

	r->filled = 0;
	if (m || !gets) {
		err = receive(r, d, 0, true);
		shared->report[r->rank].end = rar_now_us();
		if (!err && opt.together)
			err = rar_barrier(&shared->barrier, opt.ring.size, BARRIER_S);
	}
	for (; some && !err; some = done < d->count) {
		n = piece_elements(d, done);
		len = n * rar_element(d->dtype);
		if (m) {
			memcpy(r->buf, m->sums + done * rar_element(d->dtype), len);
		} else {
			err = receive(r, d, len, done + n == d->count);
			shared->report[r->rank].end = rar_now_us();
		}
		if (!err)
			err = verify(r, d, done, n);
		if (err)
			return err;
		hash = rar_hash(hash, r->buf, len);
		done += n;
	}
	if (m)
		free(m->room);
	shared->hash[r->rank * MAX_OPS + d->id - 1] = hash;
	return err;
}

/* ------------------------------------------------------------ one rank */

static int fail(struct rank *r, const struct rar_data *d, const char *what, int err)
{
	char text[100];

	snprintf(text, sizeof(text), "rank %u: %s %s count %llu", r->rank, what,
		 rar_dtype_name(d->dtype), (unsigned long long)d->count);
	rar_log_error(r->fd, text, err);
	return err;
}

/* The number of operations that may be in flight now; each rank chooses its own. */
static uint32_t depth(struct rank *r)
{
	if (!opt.mixed)
		return opt.inflight;
	return 1 + rar_random(&r->turn_random) % opt.inflight;
}

/* Runs all operations once, up to opt.inflight of them at a time. */
static int run_list(struct rank *r)
{
	uint32_t posted = 0, collected = 0, inflight = depth(r);
	int err;

	while (collected < r->nops) {
		if (posted < r->nops && posted - collected < inflight) {
			err = post(r, &r->op[posted]);
			if (err)
				return fail(r, &r->op[posted], "send", err);
			posted++;
			continue;
		}
		err = collect(r, &r->op[collected]);
		if (err)
			return fail(r, &r->op[collected], "recv", err);
		collected++;
		inflight = depth(r);
	}
	return 0;
}

/*
 * Makes the first operation's data before the common start: in its memory, or in the buffer if one
 * piece is all.
 */
static int prefill(struct rank *r)
{
	const struct rar_data *d = &r->op[0];
	struct memory *m = r->nops ? memory_of(r, d) : NULL;
	int err = m ? get_memory(m, d, mode_of(r, d)) : 0;

	if (err || !r->nops || (!m && rar_bytes(d) > opt.piece))
		return err;
	for (uint64_t done = 0; done < d->count; done += piece_elements(d, done))
		fill_piece(r, d, m, done);
	r->filled = d->id;
	return 0;
}

static void note_time(void)
{
	uint64_t start = UINT64_MAX, end = 0, us;

	for (uint32_t i = 0; i < opt.ring.size; i++) {
		if (shared->report[i].start < start)
			start = shared->report[i].start;
		if (shared->report[i].end > end)
			end = shared->report[i].end;
	}
	us = end - start;
	if (opt.lines)
		printf("repeat: i=%u us=%llu\n", shared->rounds,
		       (unsigned long long)us);
	if (!shared->best_us || us < shared->best_us)
		shared->best_us = us;
	shared->total_us += us;
	shared->rounds++;
}

/* Called by rank 0 before the barrier after which all ranks look. */
static void note_stop(void)
{
	uint64_t now = rar_now_us();

	if (!shared->deadline)
		shared->deadline = shared->report[0].start + opt.seconds * 1000000ull;
	shared->stop = now >= shared->deadline || (opt.end && !access(opt.end, F_OK));
	/* In User-Mode Linux a busy second takes long, while idle time passes at once. */
	usleep(opt.seconds ? 200 : 0);
}

static int repeat(struct rank *r)
{
	int err;

	err = prefill(r) ?: rar_barrier(&shared->barrier, opt.ring.size, BARRIER_S);
	if (err)
		return err;
	shared->report[r->rank].start = rar_now_us();
	err = run_list(r);
	if (err || opt.hasty)
		return err;
	if (!r->rank)
		note_stop();
	err = rar_barrier(&shared->barrier, opt.ring.size, BARRIER_S);
	if (!err && !r->rank)
		note_time();
	return err;
}

/*
 * Called by rank 0 after the join and before any rank leaves. A JOIN that comes while
 * its destination binds goes to the socket.
 */
static void count_packets(int sign)
{
	if (opt.ring.netns)
		return;
	shared->ingress += sign * rar_counter("RarRxIngress");
	shared->encap += sign * rar_counter("RarRxEncap");
}

static void note_list(const struct rank *r)
{
	shared->nops = r->nops;
	for (uint32_t i = 0; i < r->nops; i++)
		shared->bytes += rar_bytes(&r->op[i]);
}

/* Set the options of a socket before it joins. */
static int set_options(int fd)
{
	if (opt.priority && setsockopt(fd, SOL_RAR, RAR_PRIORITY, &opt.priority,
				       sizeof(opt.priority)))
		return -errno;
	if (opt.key && setsockopt(fd, SOL_RAR, RAR_KEY, "0123456789abcdef", RAR_KEY_LEN))
		return -errno;
	return 0;
}

static int enter_group(struct rank *r)
{
	struct rar_info *info = &shared->report[r->rank].info;
	int err;

	err = opt.sysctl ? rar_set_sysctls(opt.sysctl) : 0;
	if (err)
		return err;
	r->fd = rar_socket();
	if (r->fd < 0)
		return r->fd;
	err = set_options(r->fd);
	if (err)
		return err;
	err = rar_join(r->fd, &opt.ring, r->rank);
	if (err) {
		rar_log_error(r->fd, "join", err);
		return err;
	}
	if (!r->rank)
		count_packets(-1);
	err = rar_info(r->fd, info);
	r->direct = info->direct_bytes == RAR_NO_BYTES ? 0 : info->direct_bytes;
	r->doubled = info->doubling_bytes == RAR_NO_BYTES ? 0 : info->doubling_bytes;
	r->halved = info->halving_bytes == RAR_NO_BYTES ? 0 : info->halving_bytes;
	if (!err)
		err = make_list(r, info->payload);
	if (!r->rank)
		note_list(r);
	return err;
}

/*
 * Called when all ranks have all results. Then no rank needs any buffer of any
 * operation, once the last acknowledgments have come.
 */
static int wait_released(struct rank *r)
{
	uint64_t deadline = rar_now_us() + RELEASE_S * 1000000ull;
	struct rar_info info;
	int err;

	for (;;) {
		err = rar_info(r->fd, &info);
		if (err || info.ops_released == info.ops_posted)
			return err;
		if (rar_now_us() > deadline)
			break;
		rar_sleep_ms(1);
	}
	rar_log("rank %u: %llu of %llu operations released", r->rank,
		(unsigned long long)info.ops_released,
		(unsigned long long)info.ops_posted);
	return -ETIMEDOUT;
}

/* Waits until this rank's legs to all boxes are open. */
static int wait_box(struct rank *r)
{
	uint64_t deadline = rar_now_us() + RELEASE_S * 1000000ull;
	struct rar_info info;
	int err;

	do {
		err = rar_info(r->fd, &info);
		if (err || rar_boxes_open(&info))
			return err;
		rar_sleep_ms(1);
	} while (rar_now_us() < deadline);
	rar_log("rank %u: the box does not open", r->rank);
	return -ETIMEDOUT;
}

static bool more(uint32_t done)
{
	return opt.seconds ? !shared->stop : done < opt.repeats;
}

/* Enters the namespace of a rank's host, which rar_run() does not know. */
static int enter_host(uint32_t rank)
{
	char netns[32];

	if (!opt.ring.hosts)
		return 0;
	snprintf(netns, sizeof(netns), "%s%u", opt.ring.netns,
		 rar_host(&opt.ring, rank));
	return rar_enter(netns);
}

static int rank_main(uint32_t rank, void *arg)
{
	struct rank *r = calloc(1, sizeof(*r));
	int err;

	(void)arg;
	r->rank = rank;
	r->buf = malloc(opt.piece);
	err = enter_host(rank) ?: enter_group(r);
	if (!err && opt.box)
		err = wait_box(r) ?: rar_barrier(&shared->barrier, opt.ring.size, BARRIER_S);
	for (uint32_t i = 0; !err && more(i); i++)
		err = repeat(r);
	if (!rank)
		count_packets(1);
	if (!err && !opt.hasty)
		err = wait_released(r) ?:
		      rar_barrier(&shared->barrier, opt.ring.size, BARRIER_S);
	if (!err)
		err = rar_info(r->fd, &shared->report[rank].info);
	if (err)
		rar_log("rank %u: %s", rank, strerror(-err));
	close(r->fd);
	free(r->buf);
	free(r);
	return err != 0;
}

/* ------------------------------------------------------------ all ranks */

static int compare_hashes(void)
{
	int bad = 0;

	for (uint32_t op = 0; op < shared->nops && !opt.reduce; op++)
		for (uint32_t r = 1; r < opt.ring.size; r++)
			if (shared->hash[r * MAX_OPS + op] != shared->hash[op]) {
				rar_log("op %u: rank %u and rank 0 differ", op, r);
				bad++;
			}
	return bad;
}

static void print_report(void)
{
	const struct rar_info *info = &shared->report[0].info;
	uint32_t rounds = shared->rounds ?: opt.repeats, rto = 0;
	uint64_t retrans = 0;

	for (uint32_t r = 0; r < opt.ring.size; r++) {
		retrans += shared->report[r].info.retransmits;
		if (shared->report[r].info.rto_us > rto)
			rto = shared->report[r].info.rto_us;
	}
	rar_print_boxes(info);
	printf("ring: n=%u ops=%u payload=%u mtu=%u mtu_rank=%u path=%u ingress=%lld encap=%lld us=%llu total_us=%llu bytes=%llu retrans=%llu rto=%u hosts=%u direct=%d doubling=%d halving=%d gather=%d scatter=%d rails=%u hash=%016llx\n",
	       opt.ring.size, shared->nops * rounds, info->payload, info->mtu, info->mtu_rank,
	       info->rx_path, (long long)shared->ingress, (long long)shared->encap,
	       (unsigned long long)shared->best_us, (unsigned long long)shared->total_us,
	       (unsigned long long)shared->bytes * rounds, (unsigned long long)retrans, rto,
	       info->hosts, (int)info->direct_bytes, (int)info->doubling_bytes,
	       (int)info->halving_bytes, (int)info->gather_bytes, (int)info->scatter_bytes, info->rails,
	       (unsigned long long)rar_hash(1, shared->hash, shared->nops * sizeof(uint64_t)));
}

static void usage(void)
{
	fprintf(stderr,
		"ring [-n ranks] [-m netns|same|threads] [-N netns-prefix]\n"
		"     [-a 4|6|ll6|lo4|lo6] [-t i32,f32,...|all]\n"
		"     [-c std|elements|bytes with k,M,G|TIMESxUPTO ,...]\n"
		"     [-p inflight] [-r repeats | -d seconds [-e file whose existence ends it]]\n"
		"     [-P piece-bytes] [-D device] (SO_BINDTODEVICE)\n"
		"     [-H ranks,ranks,...]  on host 0, 1, ..., each of them a namespace\n"
		"     [-J ranks,ranks,...]  should be on one host, whatever their namespaces\n"
		"     [-B|-A|-E|-2]  RAR_BY_HOSTS, RAR_AUTO, RAR_DIRECT, RAR_DOUBLING\n"
		"     [-s sysctl=value,...] [-T time limit in seconds]\n"
		"     [-k]  all ranks have the same key\n"
		"     [-y priority]  of all operations, at a box\n"
		"     [-z modes]  c(opied), i(n place), o(ut of place) or r(andom), of rank 0, 1,\n"
		"                 ...; a rank that has no letter begins with the first one again\n"
		"     [-x]  in random order, each rank sends and receives in turns of its own\n"
		"     [-b|-R]  broadcasts or reductions, by turns of each root  [-v]  more lines\n"
		"     [-w]  wait for the box before the first operation\n"
		"     [-q]  no rank waits for another one between repeats or before it closes\n"
		"     [-W]  no rank looks at sums, which are not copied, before all have them\n");
	exit(1);
}

static void set_mode(const char *mode)
{
	opt.threads = !strcmp(mode, "threads");
	if (!strcmp(mode, "same") || opt.threads)
		opt.ring.netns = NULL;
	else if (strcmp(mode, "netns"))
		usage();
}

static void set_where(const char *name)
{
	int where = rar_where_parse(name);

	if (where < 0)
		usage();
	opt.ring.where = where;
}

/* Parses the number of ranks on each host. Returns their sum, the size of the group. */
static uint32_t set_hosts(char *list, uint32_t *first, uint32_t *hosts)
{
	char *save, *word;
	uint32_t size = 0;

	for (word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (atoi(word) < 1 || *hosts == RAR_PROCS)
			usage();
		first[(*hosts)++] = size;
		size += atoi(word);
	}
	return size;
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:m:N:a:t:c:p:r:d:e:D:H:J:BGAE2P:s:T:y:z:kxbRvwqW")) != -1) {
		switch (c) {
		case 'n': opt.ring.size = atoi(optarg); break;
		case 'm': set_mode(optarg); break;
		case 'N': opt.ring.netns = optarg; break;
		case 'a': set_where(optarg); break;
		case 't': opt.types = strcmp(optarg, "all") ? optarg :
				      "i32,f32,i64,f64"; break;
		case 'c': opt.counts = optarg; break;
		case 'p': opt.inflight = atoi(optarg); break;
		case 'r': opt.repeats = atoi(optarg); break;
		case 'd': opt.seconds = atoi(optarg); break;
		case 'e': opt.end = optarg; break;
		case 'D': opt.ring.device = optarg; break;
		case 'H':
			opt.ring.first = opt.first;
			opt.ring.size = set_hosts(optarg, opt.first, &opt.ring.hosts);
			break;
		case 'J': set_hosts(optarg, opt.joint, &opt.joints); break;
		case 'B': opt.ring.schedule = RAR_BY_HOSTS; break;
		case 'A': opt.ring.schedule = RAR_AUTO; break;
		case 'E': opt.ring.schedule = RAR_DIRECT; break;
		case '2': opt.ring.schedule = RAR_DOUBLING; break;
		case 'P': opt.piece = strtoull(optarg, NULL, 0); break;
		case 's': opt.sysctl = optarg; break;
		case 'T': opt.limit_s = atoi(optarg); break;
		case 'y': opt.priority = atoi(optarg); break;
		case 'z': opt.modes = optarg; break;
		case 'k': opt.key = true; break;
		case 'x': opt.mixed = true; break;
		case 'R': opt.reduce = true; break;
		case 'b': opt.cast = true; break;
		case 'v': opt.lines = true; break;
		case 'w': opt.box = true; break;
		case 'q': opt.hasty = true; break;
		case 'W': opt.together = true; break;
		default: usage();
		}
	}
	if (opt.ring.schedule == RAR_BY_HOSTS && !opt.ring.hosts)
		usage();
	if (optind < argc || !opt.ring.size || opt.ring.size > RAR_PROCS ||
	    !*opt.modes || opt.modes[strspn(opt.modes, "cior")] ||
	    opt.inflight > RAR_MAX_OPS || (opt.hasty && opt.seconds))
		usage();
}

int main(int argc, char **argv)
{
	const char *why;
	int failed;

	parse(argc, argv);
	rar_init();
	why = rar_missing();
	if (why) {
		rar_log("SKIP %s", why);
		return KSFT_SKIP;
	}
	opt.ring.group = (uint64_t)getpid() << 32 | rar_seed % 0xffffffff;
	shared = rar_shared(sizeof(*shared) + sizeof(uint64_t) * MAX_OPS *
			    opt.ring.size);
	failed = (opt.threads ? rar_run_threads : rar_run)(opt.ring.size,
			opt.ring.hosts ? NULL : opt.ring.netns, opt.limit_s,
			rank_main, NULL);
	if (!failed)
		failed = compare_hashes();
	if (!failed)
		print_report();
	return failed ? KSFT_FAIL : KSFT_PASS;
}
