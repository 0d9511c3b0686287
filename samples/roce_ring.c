// SPDX-License-Identifier: GPL-2.0
/*
 * roce_ring [options] RANK SIZE SELF NEXT: sums vectors over SIZE processes with RDMA.
 *
 * Each rank has a reliable connection (RC) to the next rank, and sends its own vector on it in
 * messages. A host on the way that has net.rar.box_roce puts the sums into them. A message that
 * comes without sums is repeated, and then the vector goes round the ring, where each rank adds.
 * All sums are compared with what they must be, bit for bit.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/rar.h>
#include <linux/rar_roce.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_WINDOW	RAR_ROCE_WINDOW

/* A rank's end of a connection, as its neighbour is told. */
struct endpoint {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t psn;
	uint32_t mtu;		/* enum ibv_mtu */
	uint32_t __pad;
	uint64_t job;		/* drawn by rank 0 */
};

static int rank, size;
static const char *self, *next;
static const char *device;
static int port = 18515, rounds = 10, window = 1, packets = 32, tries = 3, pause_ms;
static int ack_timeout = 16;	/* 4.096 us << this */
static size_t count = 100000;
static bool floats, plain;
static bool keep;		/* never go round the ring: report what is raw */

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp_next, *qp_prev;	/* to the next rank, from the rank before */
static struct ibv_mr *mr;
static int fd_next, fd_prev;			/* TCP, for what is agreed */

static uint64_t job;
static size_t mtu;		/* bytes of a packet's payload */
static size_t msg_bytes;
static char *out, *in;		/* window messages to send, 2 * window messages to receive */
static uint64_t sent, acked, got, taken;	/* messages: sent, acknowledged, come, used */
static uint32_t lengths[2 * MAX_WINDOW];	/* of messages that have come */
static uint32_t msgs;		/* numbers of messages for the box */
static unsigned long n_summed, n_raw, n_ringed;

/* ------------------------------------------------------------------ the data */

static uint32_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x >> 32;
}

/* Element @i of rank @r: floats of different sizes, so that the order of additions matters. */
static uint32_t value(int round, int r, size_t i)
{
	uint32_t x = mix(((uint64_t)round << 40) + ((uint64_t)r << 32) + i);

	if (!floats)
		return x;
	return (x & 0x807fffff) | (120 + (x >> 23) % 16) << 23;
}

static uint32_t add(uint32_t a, uint32_t b)
{
	float x, y;

	if (!floats)
		return a + b;
	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	x += y;
	memcpy(&a, &x, sizeof(x));
	return a;
}

/* The sum over all ranks, added in their order from @first on. */
static uint32_t expected(int round, int first, size_t i)
{
	uint32_t sum = value(round, first, i);
	int k;

	for (k = 1; k < size; k++)
		sum = add(sum, value(round, (first + k) % size, i));
	return sum;
}

/* ------------------------------------------------------------------ TCP */

static void all(ssize_t (*fn)(int, void *, size_t), int fd, void *buf, size_t len)
{
	ssize_t n;

	for (; len; buf = (char *)buf + n, len -= n) {
		n = fn(fd, buf, len);
		if (n < 0)
			err(1, "TCP to a neighbour");
		if (!n)
			errx(1, "a neighbour has ended");
	}
}

static ssize_t put(int fd, void *buf, size_t len) { return send(fd, buf, len, MSG_NOSIGNAL); }
static ssize_t get(int fd, void *buf, size_t len) { return recv(fd, buf, len, 0); }

static int tcp_listen(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port + rank) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (inet_pton(AF_INET, self, &a.sin_addr) != 1)
		errx(2, "SELF is an IPv4 address");
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1))
		err(1, "listen at %s, port %d", self, port + rank);
	return fd;
}

static int tcp_connect(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port + (rank + 1) % size) };
	int fd, i;

	if (inet_pton(AF_INET, next, &a.sin_addr) != 1)
		errx(2, "NEXT is an IPv4 address");
	for (i = 0; i < 300; i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0)
			err(1, "socket");
		if (!connect(fd, (struct sockaddr *)&a, sizeof(a)))
			return fd;
		close(fd);
		usleep(100000);
	}
	err(1, "connect to %s", next);
}

static void tcp_open(void)
{
	int fd = tcp_listen(), one = 1;

	fd_next = tcp_connect();
	fd_prev = accept(fd, NULL, NULL);
	if (fd_prev < 0)
		err(1, "accept");
	close(fd);
	setsockopt(fd_next, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Let @x become the bitwise OR over all ranks. */
static void agree(uint8_t *x, size_t len)
{
	uint8_t *buf = malloc(2 * len), *theirs = buf + len;
	size_t i;
	int k;

	if (!buf)
		err(1, "malloc");
	memcpy(buf, x, len);
	for (k = 1; k < size; k++) {
		all(put, fd_next, buf, len);
		all(get, fd_prev, theirs, len);
		for (i = 0; i < len; i++)
			x[i] |= theirs[i];
		memcpy(buf, theirs, len);
	}
	free(buf);
}

static void barrier(void)
{
	uint8_t nothing = 0;

	agree(&nothing, 1);
}

/* ------------------------------------------------------------------ connections */

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!device || !strcmp(device, ibv_get_device_name(list[i])))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		errx(1, "there is no RDMA device%s%s", device ? " " : "", device ?: "");
	ibv_free_device_list(list);
}

/* The index of the RoCEv2 GID for SELF. */
static int find_gid(union ibv_gid *gid)
{
	struct ibv_gid_entry entry;
	uint8_t want[16] = { [10] = 0xff, [11] = 0xff };
	int i;

	inet_pton(AF_INET, self, want + 12);
	for (i = 0; i < 256; i++) {
		if (ibv_query_gid_ex(ctx, 1, i, &entry, 0))
			continue;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&entry.gid, want, 16)) {
			*gid = entry.gid;
			return i;
		}
	}
	errx(1, "the RDMA device has no address %s for RoCEv2", self);
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 2 * MAX_WINDOW, .max_recv_wr = 2 * MAX_WINDOW,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS))
		err(1, "a queue pair");
	return qp;
}

static void connect_qp(struct ibv_qp *qp, int gid, const struct endpoint *me,
		       const struct endpoint *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = me->mtu < peer->mtu ? me->mtu : peer->mtu,
		.dest_qp_num = peer->qpn, .rq_psn = peer->psn, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = peer->gid, .sgid_index = gid, .hop_limit = 64 } },
	};

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			  IBV_QP_MIN_RNR_TIMER))
		err(1, "a queue pair: ready to receive");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = ack_timeout;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.sq_psn = me->psn;
	attr.max_rd_atomic = 1;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		err(1, "a queue pair: ready to send");
}

/* The smallest MTU of all ranks, and rank 0's number for the job. */
static void settle(struct endpoint *me)
{
	struct endpoint theirs;
	int k;

	for (k = 1; k < size; k++) {
		all(put, fd_next, me, sizeof(*me));
		all(get, fd_prev, &theirs, sizeof(theirs));
		if (theirs.mtu < me->mtu)
			me->mtu = theirs.mtu;
		if (rank)
			me->job = theirs.job;
	}
	job = me->job;
	mtu = 128 << me->mtu;
}

static void post_recv(uint64_t i)
{
	struct ibv_sge sge = { (uintptr_t)in + i % (2 * window) * msg_bytes, msg_bytes, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(qp_prev, &wr, &bad))
		err(1, "ibv_post_recv");
}

static void open_buffers(void)
{
	int i;

	msg_bytes = packets * mtu;
	out = aligned_alloc(4096, 3 * window * msg_bytes);
	if (!out)
		err(1, "malloc");
	in = out + window * msg_bytes;
	mr = ibv_reg_mr(pd, out, 3 * window * msg_bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		err(1, "ibv_reg_mr");
	for (i = 0; i < 2 * window; i++)
		post_recv(i);
}

/* A queue pair to the next rank and one from the rank before. */
static void open_connections(void)
{
	struct endpoint to = { .qpn = 0 }, from, peer;
	struct ibv_port_attr attr;
	int gid;

	open_device();
	gid = find_gid(&to.gid);
	pd = ibv_alloc_pd(ctx);
	channel = ibv_create_comp_channel(ctx);
	cq = channel ? ibv_create_cq(ctx, 8 * MAX_WINDOW, NULL, channel, 0) : NULL;
	if (!pd || !cq || ibv_query_port(ctx, 1, &attr))
		err(1, "the RDMA device");
	to.mtu = attr.active_mtu;
	if (getentropy(&to.job, sizeof(to.job)) || getentropy(&to.psn, sizeof(to.psn)))
		err(1, "getentropy");
	to.psn &= 0xffffff;
	settle(&to);
	from = to;
	qp_next = make_qp();
	qp_prev = make_qp();
	to.qpn = qp_next->qp_num;
	from.qpn = qp_prev->qp_num;
	all(put, fd_next, &to, sizeof(to));
	all(get, fd_prev, &peer, sizeof(peer));
	open_buffers();
	connect_qp(qp_prev, gid, &from, &peer);
	all(put, fd_prev, &from, sizeof(from));
	all(get, fd_next, &peer, sizeof(peer));
	connect_qp(qp_next, gid, &to, &peer);
	barrier();
}

/* ------------------------------------------------------------------ messages */

static void post_send(size_t len)
{
	struct ibv_sge sge = { (uintptr_t)out + sent % window * msg_bytes, len, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	if (ibv_post_send(qp_next, &wr, &bad))
		err(1, "ibv_post_send");
	sent++;
}

/* Sleep until there may be a completion. */
static void sleep_for_completion(void)
{
	struct ibv_cq *which;
	void *context;

	if (ibv_get_cq_event(channel, &which, &context))
		err(1, "ibv_get_cq_event");
	ibv_ack_cq_events(which, 1);
}

/* Wait for a message to come, or one that was sent to be acknowledged. */
static void completion(void)
{
	bool asked = false;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc))) {
		if (asked)
			sleep_for_completion();
		else if (ibv_req_notify_cq(cq, 0))
			err(1, "ibv_req_notify_cq");
		asked = !asked;
	}
	if (n < 0 || wc.status)
		errx(1, "rank %d: a queue pair failed: %s", rank,
		     n < 0 ? "poll" : ibv_wc_status_str(wc.status));
	if (wc.opcode & IBV_WC_RECV)
		lengths[got++ % (2 * window)] = wc.byte_len;
	else
		acked++;
}

/* The oldest message that is not used yet. */
static char *message(void) { return in + taken % (2 * window) * msg_bytes; }
static size_t message_len(void) { return lengths[taken % (2 * window)]; }

/* It is used: another may come in its place. */
static void message_done(void) { post_recv(taken++); }

/* ------------------------------------------------------------------ sums by a box */

static size_t head(size_t packet) { return packet ? 0 : sizeof(struct rar_roce_hdr); }

/* Elements in a full message. */
static size_t piece_count(void)
{
	return (msg_bytes - sizeof(struct rar_roce_hdr) -
		packets * sizeof(struct rar_roce_mark)) / sizeof(uint32_t);
}

/* The bytes of elements that packet @packet has, of @left. */
static size_t share(size_t packet, size_t left)
{
	size_t room = mtu - head(packet) - sizeof(struct rar_roce_mark);

	return left < room ? left : room;
}

/* Lay out @n elements as a message at @p. Return: its bytes. */
static size_t pack(char *p, const uint32_t *x, size_t n)
{
	struct rar_roce_hdr *hdr = (void *)p;
	struct rar_roce_mark mark = { .msg = htobe32(msgs), .count = htobe16(1) };
	const char *from = (const char *)x, *end = from + n * sizeof(*x);
	char *to = p + sizeof(*hdr);
	size_t packet, bytes;

	for (packet = 0; from < end; packet++) {
		bytes = share(packet, end - from);
		memcpy(to, from, bytes);
		mark.index = htobe16(packet);
		memcpy(to + bytes, &mark, sizeof(mark));
		from += bytes;
		to += bytes + sizeof(mark);
	}
	*hdr = (struct rar_roce_hdr) {
		.magic = htobe32(RAR_ROCE_MAGIC), .dtype = floats ? RAR_F32 : RAR_I32,
		.redop = RAR_SUM, .window = window, .job = htobe64(job), .rank = htobe16(rank),
		.size = htobe16(size), .msg = htobe32(msgs), .bytes = htobe32(to - p),
	};
	return to - p;
}

/* Take @n elements out of a message. Return: are they all sums? */
static bool unpack(uint32_t *x, size_t n, const char *p, uint32_t msg)
{
	char *to = (char *)x, *end = to + n * sizeof(*x);
	struct rar_roce_mark mark;
	bool summed = true;
	size_t packet, bytes;

	p += sizeof(struct rar_roce_hdr);
	for (packet = 0; to < end; packet++) {
		bytes = share(packet, end - to);
		memcpy(to, p, bytes);
		memcpy(&mark, p + bytes, sizeof(mark));
		if (be32toh(mark.msg) != msg || be16toh(mark.index) != packet)
			errx(1, "rank %d: message %u: a mark is wrong", rank, msg);
		summed &= be16toh(mark.count) == size;
		to += bytes;
		p += bytes + sizeof(mark);
	}
	return summed;
}

/*
 * Send the pieces of @x that @todo has, each as a message, and take the sums into @sum. Leave in
 * @todo the pieces of which some rank has no sum. Return: how many.
 */
static size_t attempt(const uint32_t *x, uint32_t *sum, uint8_t *todo, size_t pieces)
{
	size_t full = piece_count(), s = 0, g = 0, left = 0, i;
	uint32_t first = msgs;
	uint64_t base = taken;

#define ELEMENTS(i)	((i) + 1 < pieces ? full : count - (i) * full)
	for (;;) {
		while (s < pieces && !todo[s])
			s++;
		while (g < pieces && !todo[g])
			g++;
		if (s == pieces && g == pieces)
			break;
		if (s < pieces && sent < acked + window && msgs - first < taken - base + window) {
			i = s++;
			post_send(pack(out + sent % window * msg_bytes, x + i * full, ELEMENTS(i)));
			msgs++;
		} else if (taken < got) {
			i = g++;
			todo[i] = unpack(sum + i * full, ELEMENTS(i), message(),
					 first + (taken - base)) ? 0 : 2;
			message_done();
		} else {
			completion();
		}
	}
#undef ELEMENTS
	agree(todo, pieces);
	for (i = 0; i < pieces; i++)
		left += !!todo[i];
	return left;
}

/* ------------------------------------------------------------------ sums by the ranks */

static size_t block_start(int block) { return count * block / size; }
static size_t block_count(int block) { return block_start(block + 1) - block_start(block); }

/* Send a block, receive another, and add it to the own one, or store it. */
static void exchange(uint32_t *x, int give, int take, bool adds)
{
	size_t room = msg_bytes / sizeof(*x), s = 0, g = 0, n, i;
	uint32_t *from = x + block_start(give), *to = x + block_start(take);
	const uint32_t *theirs;

	while (s < block_count(give) || g < block_count(take)) {
		if (s < block_count(give) && sent < acked + window) {
			n = block_count(give) - s < room ? block_count(give) - s : room;
			memcpy(out + sent % window * msg_bytes, from + s, n * sizeof(*x));
			post_send(n * sizeof(*x));
			s += n;
		} else if (taken < got && g < block_count(take)) {
			theirs = (uint32_t *)message();
			n = message_len() / sizeof(*x);
			for (i = 0; i < n; i++)
				to[g + i] = adds ? add(theirs[i], to[g + i]) : theirs[i];
			g += n;
			message_done();
		} else {
			completion();
		}
	}
}

/* The ordinary ring: reduce-scatter, then all-gather. */
static void ring(uint32_t *x)
{
	int k;

#define BLOCK(k) ((((k) % size) + size) % size)
	for (k = 0; k < size - 1; k++)
		exchange(x, BLOCK(rank - k), BLOCK(rank - k - 1), true);
	for (k = 0; k < size - 1; k++)
		exchange(x, BLOCK(rank + 1 - k), BLOCK(rank - k), false);
#undef BLOCK
}

/* ------------------------------------------------------------------ rounds */

/* Compare sums with what they must be. A ring adds each block in an order of its own. */
static void verify(int round, const uint32_t *sum, bool ringed)
{
	int block = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		while (ringed && i >= block_start(block + 1))
			block++;
		if (sum[i] != expected(round, ringed ? block : 0, i))
			errx(1, "rank %d: round %d: element %zu is %08x, not %08x", rank, round, i,
			     sum[i], expected(round, ringed ? block : 0, i));
	}
}

/* Sum a vector. Return: 0 = a box did, 1 = the ranks did, -1 = nobody did. */
static int allreduce(const uint32_t *x, uint32_t *sum)
{
	size_t pieces = (count + piece_count() - 1) / piece_count(), left = pieces, was;
	uint8_t *todo = malloc(pieces);
	int i;

	if (!todo)
		err(1, "malloc");
	memset(todo, 1, pieces);
	for (i = 0; i < tries && left && !plain; i++) {
		was = left;
		left = attempt(x, sum, todo, pieces);
		n_summed += was - left;
		n_raw += left;
	}
	free(todo);
	if (!left)
		return 0;
	if (keep)
		return -1;
	memcpy(sum, x, count * sizeof(*x));
	ring(sum);
	n_ringed++;
	return 1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void run(void)
{
	uint32_t *x = malloc(count * sizeof(*x)), *sum = malloc(count * sizeof(*sum));
	double ms = 0, start;
	int round, how;
	size_t i;

	if (!x || !sum)
		err(1, "malloc");
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < count; i++)
			x[i] = value(round, rank, i);
		usleep(pause_ms * 1000);
		start = now();
		how = allreduce(x, sum);
		ms += now() - start;
		if (how >= 0)
			verify(round, sum, how);
		if (!round) {
			printf("rank=%d running\n", rank);
			fflush(stdout);
		}
	}
	while (acked < sent)
		completion();
	barrier();
	printf("done rank=%d size=%d type=%s count=%zu rounds=%d mtu=%zu ms=%.1f ", rank, size,
	       floats ? "f32" : "i32", count, rounds, mtu, ms);
	printf("summed=%lu raw=%lu ringed=%lu\n", n_summed, n_raw, n_ringed);
	if (n_raw && !n_summed)
		printf("raw: not summed: no box is on the way, or it does not serve this host\n");
	free(x);
	free(sum);
}

static _Noreturn void usage(void)
{
	fprintf(stderr,
		"usage: roce_ring [options] RANK SIZE SELF NEXT\n"
		"  -d DEVICE   RDMA device, the first\n"
		"  -p PORT     TCP port of rank 0, %d; rank R uses PORT + R\n"
		"  -t TYPE     i32 or f32\n"
		"  -n COUNT    elements of the vector, %zu\n"
		"  -i ROUNDS   vectors that are summed, %d\n"
		"  -m PACKETS  packets of a message, %d\n"
		"  -w WINDOW   messages at once, %d\n"
		"  -a TIMEOUT  of an acknowledgment, as verbs have it, %d\n"
		"  -q TRIES    messages without a sum are repeated so often, %d in all\n"
		"  -z MS       pause before each vector\n"
		"  -k          report what has no sum, do not go round the ring\n"
		"  -r          go round the ring only, with messages that are not for a box\n",
		port, count, rounds, packets, window, ack_timeout, tries);
	exit(2);
}

static long number(const char *text, long min, long max)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < min || n > max)
		errx(2, "%s is not a number from %ld to %ld", text, min, max);
	return n;
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "a:d:p:t:n:i:m:w:q:z:kr")) != -1) {
		switch (c) {
		case 'a': ack_timeout = number(optarg, 1, 31); break;
		case 'm': packets = number(optarg, 1, RAR_ROCE_PACKETS); break;
		case 'd': device = optarg; break;
		case 'p': port = number(optarg, 1, 65000); break;
		case 't':
			floats = !strcmp(optarg, "f32");
			if (!floats && strcmp(optarg, "i32"))
				usage();
			break;
		case 'n': count = number(optarg, 1, 1 << 28); break;
		case 'i': rounds = number(optarg, 1, 1 << 20); break;
		case 'w': window = number(optarg, 1, MAX_WINDOW); break;
		case 'q': tries = number(optarg, 1, 1000); break;
		case 'z': pause_ms = number(optarg, 0, 60000); break;
		case 'k': keep = true; break;
		case 'r': plain = true; break;
		default: usage();
		}
	}
	if (argc - optind != 4)
		usage();
	size = number(argv[optind + 1], 2, RAR_ROCE_RANKS);
	rank = number(argv[optind], 0, size - 1);
	self = argv[optind + 2];
	next = argv[optind + 3];
	tcp_open();
	open_connections();
	run();
	return 0;
}
