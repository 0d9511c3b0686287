// SPDX-License-Identifier: GPL-2.0
/*
 * words rar|tcp|udp MAPPERS REPEATS FILE: counts the words of a text. Rank r + 1, in the namespace
 * "rar<r+1>", sends a record for each of its words, the text REPEATS times over; rank 0 adds those
 * of the same word. Prints the time from the first record until rank 0 has the sums.
 *
 * rar: RAR_REDUCE_BY_KEY. tcp: a connection for each rank, in calls of 64 KiB. udp: a datagram for
 * each record, with a window; what is not acknowledged in RESEND_MS is sent again.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../selftests/lib/rar_util.h"

#define KEY		16u		/* bytes: longer words are cut */
#define SLOTS		65536u		/* different words, at most half as many */
#define CALL		(65536u / sizeof(struct record) * sizeof(struct record))
#define PORT		20000u
#define BUFFER		(8 << 20)	/* bytes, of sockets */
#define UDP_WINDOW	64u		/* datagrams on their way */
#define UDP_ACK		16u		/* datagrams that are acknowledged together */
#define RESEND_MS	500
#define SYNC_S		60

struct record {
	char word[KEY];
	uint64_t times;
};

struct datagram {
	uint32_t rank;
	uint32_t number;
	struct record record;
};

/* Shared by all ranks. */
struct shared {
	struct rar_barrier barrier;
	uint64_t start_us;
};

static struct shared *shared;
static int ended[2];			/* a pipe: rank 0 has the sums when there is a byte for a rank */
static struct rar_ring ring = {
	.group = 7, .where = RAR_ON_IPV4, .netns = "rar", .schedule = RAR_DIRECT,
};
static struct record *text;		/* the words of the text, once */
static size_t nwords;
static uint32_t repeats;

/* ------------------------------------------------------------ the text */

static int load(const char *path)
{
	FILE *in = fopen(path, "r");
	size_t room = 0, n = 0;
	char word[KEY] = {};
	int c;

	if (!in)
		return -errno;
	do {
		c = getc(in);
		if (isalpha(c)) {
			if (n < KEY)
				word[n++] = tolower(c);
			continue;
		}
		if (!n)
			continue;
		if (nwords == room) {
			room = room ? 2 * room : 1024;
			text = realloc(text, room * sizeof(*text));
		}
		memcpy(text[nwords].word, word, KEY);
		text[nwords++].times = 1;
		memset(word, 0, KEY);
		n = 0;
	} while (c != EOF);
	fclose(in);
	return nwords ? 0 : -ENODATA;
}

/* The records of a rank. Returns how many. */
static size_t records_of(uint32_t rank, struct record **records)
{
	size_t mappers = ring.size - 1, n = 0;
	struct record *r = malloc((nwords / mappers + 1) * repeats * sizeof(*r));

	for (uint32_t i = 0; i < repeats; i++)
		for (size_t w = rank - 1; w < nwords; w += mappers)
			r[n++] = text[w];
	*records = r;
	return n;
}

/* ------------------------------------------------------------ a table in user space */

static struct record table[SLOTS];

static void add(const struct record *r)
{
	uint64_t words[2], hash;
	size_t slot;

	memcpy(words, r->word, KEY);
	hash = (words[0] ^ words[1] * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	for (slot = hash >> 48; table[slot].times; slot = (slot + 1) % SLOTS)
		if (!memcmp(table[slot].word, r->word, KEY))
			break;
	if (!table[slot].times)
		memcpy(table[slot].word, r->word, KEY);
	table[slot].times += r->times;
}

static uint64_t total(void)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SLOTS; i++)
		sum += table[i].times;
	return sum;
}

/* ------------------------------------------------------------ sockets */

static struct sockaddr_in address(uint32_t rank)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(0x0a4d0001 + rank),
	};
}

static void set(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		perror("setsockopt");
}

static int bound(int type, uint32_t rank)
{
	struct sockaddr_in self = address(rank);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	set(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER);
	set(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER);
	return bind(fd, (struct sockaddr *)&self, sizeof(self)) ? -errno : fd;
}

/* All ranks are ready: the clock starts. */
static int begin(uint32_t rank)
{
	if (rar_barrier(&shared->barrier, ring.size, SYNC_S))
		return -ETIMEDOUT;
	if (!rank)
		shared->start_us = rar_now_us();
	return 0;
}

/* ------------------------------------------------------------ rar */

static int rar_mapper(int fd, const struct rar_op *op, const struct record *r, size_t n)
{
	size_t len = n * sizeof(*r), at = 0, now;
	int err = rar_send(fd, "", 0, MSG_MORE, op);

	for (; at < len && !err; at += now) {
		now = len - at < CALL ? len - at : CALL;
		err = rar_send(fd, (char *)r + at, now, at + now < len ? MSG_MORE : 0, NULL);
	}
	return err;
}

static int rar_reducer(int fd, const struct rar_op *op)
{
	static struct record got[4096];
	int err = rar_send(fd, "", 0, 0, op);
	bool eor = false;
	ssize_t n;

	while (!err && !eor) {
		n = rar_recv(fd, got, sizeof(got), 0, &eor, NULL);
		err = n < 0 ? n : 0;
		for (ssize_t i = 0; i < n / (ssize_t)sizeof(*got); i++)
			add(&got[i]);
	}
	return err;
}

static int by_rar(uint32_t rank, const struct record *r, size_t n)
{
	struct rar_op op = {
		.size = sizeof(op), .collective = RAR_REDUCE_BY_KEY, .dtype = RAR_U64,
		.redop = RAR_SUM, .key = KEY, .bytes = SLOTS * sizeof(*r),
	};
	int fd = rar_open(&ring, rank), err;

	if (fd < 0)
		return fd;
	err = begin(rank);
	if (!err)
		err = rank ? rar_mapper(fd, &op, r, n) : rar_reducer(fd, &op);
	/* Not closed: the others wait for this rank until all have the result. */
	return err;
}

/* ------------------------------------------------------------ tcp */

static int tcp_mapper(uint32_t rank, const struct record *r, size_t n)
{
	struct sockaddr_in root = address(0);
	size_t len = n * sizeof(*r), at = 0;
	int fd = bound(SOCK_STREAM, rank);
	ssize_t sent;

	if (fd < 0 || rar_barrier(&shared->barrier, ring.size, SYNC_S))
		return -ETIMEDOUT;	/* rank 0 listens */
	if (connect(fd, (struct sockaddr *)&root, sizeof(root)) || begin(rank))
		return -errno;
	for (; at < len; at += sent) {
		sent = send(fd, (char *)r + at, len - at < CALL ? len - at : CALL, MSG_NOSIGNAL);
		if (sent < 0)
			return -errno;
	}
	close(fd);
	return 0;
}

/* Add what came by a connection. Returns the bytes, 0 at its end. */
static ssize_t tcp_take(int fd, char *buf, size_t *have)
{
	ssize_t n = recv(fd, buf + *have, 4 * CALL - *have, MSG_DONTWAIT);
	size_t whole;

	if (n <= 0)
		return n;
	*have += n;
	whole = *have / sizeof(struct record);
	for (size_t i = 0; i < whole; i++)
		add((struct record *)buf + i);
	*have -= whole * sizeof(struct record);
	memmove(buf, buf + whole * sizeof(struct record), *have);
	return n;
}

static int tcp_reducer(void)
{
	static _Alignas(8) char buf[64][4 * CALL];
	uint32_t mappers = ring.size - 1, left = mappers;
	size_t have[64] = {};
	struct pollfd fds[64];
	int fd = bound(SOCK_STREAM, 0);

	if (fd < 0 || listen(fd, 64) || rar_barrier(&shared->barrier, ring.size, SYNC_S))
		return -errno;
	for (uint32_t i = 0; i < mappers; i++)
		fds[i] = (struct pollfd){ accept(fd, NULL, NULL), POLLIN, 0 };
	if (begin(0))
		return -ETIMEDOUT;
	while (left) {
		if (poll(fds, mappers, 10000) <= 0)
			return -ETIMEDOUT;
		for (uint32_t i = 0; i < mappers; i++) {
			if (!fds[i].revents)
				continue;
			if (!tcp_take(fds[i].fd, buf[i], &have[i])) {
				fds[i].fd = -1;
				left--;
			}
		}
	}
	return 0;
}

static int by_tcp(uint32_t rank, const struct record *r, size_t n)
{
	return rank ? tcp_mapper(rank, r, n) : tcp_reducer();
}

/* ------------------------------------------------------------ udp */

/* Read acknowledgments, and wait for one if @wait. Returns whether one came. */
static bool udp_acks(int fd, bool wait, uint32_t *acked)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint32_t ack;
	bool any = false;

	if (wait && poll(&p, 1, RESEND_MS) <= 0)
		return false;
	while (recv(fd, &ack, sizeof(ack), MSG_DONTWAIT) == sizeof(ack)) {
		any = true;
		if (ack > *acked)
			*acked = ack;
	}
	return any;
}

static int udp_mapper(uint32_t rank, const struct record *r, size_t n)
{
	struct sockaddr_in root = address(0);
	struct datagram d = { .rank = rank };
	uint32_t acked = 0, sent = 0;
	int fd = bound(SOCK_DGRAM, rank);

	if (fd < 0 || connect(fd, (struct sockaddr *)&root, sizeof(root)) || begin(rank))
		return -errno;
	/* The datagram after the last one has no word, and ends the stream. */
	while (acked < n + 1) {
		if (sent < n + 1 && sent - acked < UDP_WINDOW) {
			d.number = sent;
			d.record = sent < n ? r[sent] : (struct record){};
			if (send(fd, &d, sizeof(d), 0) < 0 && errno != ECONNREFUSED)
				return -errno;
			sent++;
			if (sent % UDP_ACK == 0)
				udp_acks(fd, false, &acked);
		} else if (!udp_acks(fd, true, &acked)) {
			sent = acked;
		}
	}
	return 0;
}

static int udp_reducer(void)
{
	uint32_t next[64] = {}, left = ring.size - 1;
	struct sockaddr_in to;
	struct datagram d;
	int fd = bound(SOCK_DGRAM, 0);

	if (fd < 0 || begin(0))
		return -errno;
	rar_timeout(fd, SO_RCVTIMEO, 10000);
	while (left) {
		if (recv(fd, &d, sizeof(d), 0) != sizeof(d))
			return -ETIMEDOUT;
		if (d.rank >= ring.size)
			return -EPROTO;
		if (d.number == next[d.rank]) {
			next[d.rank]++;
			if (d.record.times)
				add(&d.record);
			else
				left--;
			if (d.record.times && next[d.rank] % UDP_ACK)
				continue;
		}
		to = address(d.rank);
		sendto(fd, &next[d.rank], sizeof(next[0]), 0, (struct sockaddr *)&to, sizeof(to));
	}
	return 0;
}

static int by_udp(uint32_t rank, const struct record *r, size_t n)
{
	return rank ? udp_mapper(rank, r, n) : udp_reducer();
}

/* ------------------------------------------------------------ all */

static int run_rank(uint32_t rank, void *arg)
{
	int (*by)(uint32_t, const struct record *, size_t) = arg;
	static struct record none, *records = &none;
	uint64_t want = (uint64_t)nwords * repeats, us;
	size_t n = rank ? records_of(rank, &records) : 0;
	int err = by(rank, records, n);
	char byte;

	us = rar_now_us() - shared->start_us;
	if (err) {
		rar_log("rank %u: %s", rank, strerror(-err));
		return 1;
	}
	if (!rank && total() != want) {
		rar_log("%llu words, not %llu", (unsigned long long)total(),
			(unsigned long long)want);
		return 1;
	}
	if (!rank)
		printf("%llu us %llu words\n", (unsigned long long)us, (unsigned long long)want);
	fflush(stdout);
	/* The last records may still be under way. Wait without taking time from rank 0. */
	if (rank)
		return read(ended[0], &byte, 1) != 1;
	return write(ended[1], text, ring.size - 1) != ring.size - 1;
}

int main(int argc, char **argv)
{
	void *by = argc < 2 ? NULL : !strcmp(argv[1], "rar") ? by_rar :
		   !strcmp(argv[1], "tcp") ? by_tcp : !strcmp(argv[1], "udp") ? by_udp : NULL;

	if (argc != 5 || !by || atoi(argv[2]) < 1 || atoi(argv[2]) > 15 || atoi(argv[3]) < 1) {
		fprintf(stderr, "usage: words rar|tcp|udp MAPPERS REPEATS FILE\n");
		return 2;
	}
	ring.size = atoi(argv[2]) + 1;
	repeats = atoi(argv[3]);
	if (load(argv[4])) {
		fprintf(stderr, "%s: no words\n", argv[4]);
		return 2;
	}
	shared = rar_shared(sizeof(*shared));
	if (pipe(ended))
		return 1;
	return rar_run(ring.size, ring.netns, 300, run_rank, by) ? 1 : 0;
}
