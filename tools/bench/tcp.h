/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All-reduce over TCP in user space, as fast as we can make it: the ring, the chain, recursive
 * halving, and recursive doubling. The first three are streams that flow through a rank. Bytes that
 * have come are added to the buffer, or stored there, and go on at once, chunk by chunk, in both
 * directions at the same time. Small operations go step by step with blocking calls, which costs
 * the fewest system calls. Doubling is for small ones, and always goes so.
 */
#ifndef RAR_BENCH_TCP_H
#define RAR_BENCH_TCP_H

#include "bench.h"

/* Knobs: bytes per system call (0: step by step), socket buffers, spinning. */
enum { TCP_CHUNK, TCP_BUFFER, TCP_SPIN_US };

#define TCP_MAX_CHUNK	(4u << 20)
#define TCP_STAGES	16	/* of halving and doubling, at most */

/**
 * struct tcp - a rank and its connections
 * @rank, @size: its rank, and the number of ranks
 * @prev, @next: sockets, -1 where there is no neighbour
 * @peer:        halving and doubling: by stage, the socket to the peer; -1 where there is none
 * @chunk:       knob, 1 .. TCP_MAX_CHUNK
 * @spin_ns:     knob: time to look again before sleeping
 * @scratch:     TCP_MAX_CHUNK bytes that have come and are to be added
 */
struct tcp {
	uint32_t rank;
	uint32_t size;
	int prev;
	int next;
	int peer[TCP_STAGES];
	size_t chunk;
	uint64_t spin_ns;
	char *scratch;
};

/* The beginning of an element whose end has not come yet; of a stream whose bytes are added. */
struct tcp_rest {
	char bytes[4];
	size_t len;
};

/* Send and receive whole lengths; they block. */
int tcp_send_all(int fd, const void *buf, size_t len);
int tcp_recv_all(struct tcp *t, int fd, void *buf, size_t len);

/* Moves at most one chunk now. Returns bytes, 0 if it would block, or -errno. */
ssize_t tcp_push(struct tcp *t, int fd, const void *buf, size_t len);
ssize_t tcp_pull(struct tcp *t, int fd, void *buf, size_t len);
/* Receives as tcp_pull() does, and adds to dst; counts whole elements, keeps the rest. */
ssize_t tcp_pull_add(struct tcp *t, int fd, struct tcp_rest *rest, void *dst, size_t len,
		     enum bench_type type);

/* Waits until a socket can be read, or (POLLOUT) written. */
struct pollfd;
int tcp_wait(struct tcp *t, struct pollfd *fds, unsigned int n);

int tcp_ring(struct tcp *t, void *buf, size_t bytes, enum bench_type type);
int tcp_chain(struct tcp *t, void *buf, size_t bytes, enum bench_type type);
int tcp_halving(struct tcp *t, void *buf, size_t bytes, enum bench_type type);
int tcp_doubling(struct tcp *t, void *buf, size_t bytes, enum bench_type type);

/* Ranks beyond a power of two: so many pairs of ranks count as one rank each, the first ones. */
uint32_t tcp_pairs(uint32_t size);
/* The peer of a rank in a stage of doubling; its own rank if it has none, -1 after the last. */
int tcp_doubling_peer(uint32_t size, uint32_t rank, uint32_t stage);

#endif /* RAR_BENCH_TCP_H */
