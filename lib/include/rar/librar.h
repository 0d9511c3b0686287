/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * librar: groups, collectives and errors of AF_RAR for programs; see librar(3).
 *
 * Functions return 0 or a negative errno. Nothing here exits or ends the process, and nothing
 * is printed unless RAR_DEBUG=1 is in the environment. Every function may be called by any
 * thread at any time, with one exception: a communicator must not be used by another thread
 * while rar_comm_ready(), rar_comm_again() or rar_comm_free() works on it.
 */
#ifndef RAR_LIBRAR_H
#define RAR_LIBRAR_H

#include <stddef.h>
#include <stdint.h>

#include <linux/rar.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------ bootstrap */

/*
 * Every rank makes a card. The program hands all cards to all ranks, by whatever it has
 * (MPI_Allgather, a store, a file), and every rank starts from the same array, in the order
 * of the ranks.
 */
struct rar_card {
	uint8_t opaque[128];
};

#define RAR_O_BY_HOSTS	1	/* neighbours on one host add in memory first (RAR_SCHEDULE) */
#define RAR_O_STUB	2	/* no kernel module: AF_UNIX on one host, for tests */
#define RAR_O_KEY	4	/* rank 0's card carries a key that all ranks must have */

/* Options; all zero, or NULL instead of the structure, are the defaults. */
struct rar_opts {
	uint32_t size;		/* sizeof(struct rar_opts), which may grow; 0: all default */
	uint32_t flags;		/* RAR_O_* */
	const char *local;	/* own address, device or ADDRESS/BITS, or a list of these with
				 * commas, of which "^" excludes one; NULL: $RAR_LOCAL, else the
				 * address by which the default route leaves
				 */
	uint64_t group;		/* 0: a random number, in rank 0's card */
	uint32_t join_ms;	/* time in which the ring must be closed; 0: net.rar.join_ms */
	uint32_t op_ms;		/* time an operation may take; 0: no limit */
	uint16_t port;		/* UDP port; 0: net.rar.port */
	uint16_t __pad[3];
};

typedef struct rar_comm rar_comm_t;	/* communicator: a rank's side of a group */
typedef uint64_t rar_req_t;		/* request: 1, 2, 3 ... in the order of rar_start() */

/* Is AF_RAR, or with RAR_STUB=1 the stub, usable here? *caps (if not NULL): its abilities. */
int rar_probe(struct rar_caps *caps);
const char *rar_version(void);

int rar_card_make(const struct rar_opts *opts, struct rar_card *card);
int rar_comm_start(rar_comm_t **comm, const struct rar_card *cards, uint32_t size,
		   uint32_t rank, const struct rar_opts *opts);
int rar_comm_from_file(rar_comm_t **comm, const char *path, uint32_t rank,
		       const struct rar_opts *opts);
int rar_comm_ready(rar_comm_t *comm, int timeout_ms);
int rar_comm_card(const rar_comm_t *comm, struct rar_card *card);
int rar_comm_again(rar_comm_t *comm, const struct rar_card *cards, uint32_t size,
		   uint32_t rank);
int rar_comm_resume(rar_comm_t *comm, rar_req_t *first);
void rar_comm_abort(rar_comm_t *comm);
void rar_comm_free(rar_comm_t *comm);

uint32_t rar_comm_rank(const rar_comm_t *comm);
uint32_t rar_comm_size(const rar_comm_t *comm);
uint32_t rar_comm_host(const rar_comm_t *comm, uint32_t rank);
int rar_comm_fd(const rar_comm_t *comm);
const struct rar_caps *rar_comm_caps(const rar_comm_t *comm);

/*
 * Can the group do this? The answer is the same on all ranks, once rar_comm_ready() has
 * returned 0 on each of them. Before that it is 0.
 */
int rar_can(const rar_comm_t *comm, int collective, int dtype, int redop, uint64_t count);

/* ------------------------------------------------------------ operations */

#define RAR_C_COPY	1	/* src may be reused when rar_start() returns */
#define RAR_C_NOWAIT	2	/* -EAGAIN instead of waiting for room */

/*
 * One call, which all ranks make in the same order. @count are elements of what each rank
 * gives (allgather: one block), except in a reduce-scatter: elements of what each rank gets.
 */
struct rar_call {
	uint8_t collective;	/* enum rar_collective */
	uint8_t dtype;		/* enum rar_dtype */
	uint8_t redop;		/* enum rar_redop, 0: RAR_SUM */
	uint8_t flags;		/* RAR_C_* */
	uint32_t root;		/* of reduce and broadcast, else 0 */
	const void *src;
	void *dst;
	uint64_t count;
	uint32_t op_flags;	/* RAR_OPF_*; rar_comm_caps()->dtypes[0] has those that work */
	uint8_t prio;		/* at an aggregation box: 1 .. 255; 0: RAR_DEFAULT_PRIORITY */
	uint8_t __pad[3];
};

int rar_start(rar_comm_t *comm, const struct rar_call *call, rar_req_t *req);
int rar_test(rar_comm_t *comm, rar_req_t req);
int rar_wait(rar_comm_t *comm, rar_req_t req, int timeout_ms);
int rar_next(rar_comm_t *comm, rar_req_t *req, int timeout_ms);

/*
 * A value for rar_call.prio: 128 + 16 log2(comm / comp) + 16 log2(ref / left) +
 * 16 layer / layers, rounded, 1 .. 255. @comm and @comp: times that the job communicates and
 * computes. @left: time until it ends. @ref: a time that is the same for all jobs of the box.
 * @layer: of @layers; the front layer, whose sums are needed first, is @layers. A term with a
 * value that is not known, or 0, is left out.
 */
unsigned char rar_priority(double comm, double comp, double left, double ref, uint32_t layer,
			   uint32_t layers);

/* Start and wait. */
int rar_allreduce(rar_comm_t *comm, const void *src, void *dst, uint64_t count, int dtype,
		  int redop);
int rar_reduce(rar_comm_t *comm, const void *src, void *dst, uint64_t count, int dtype,
	       int redop, uint32_t root);
int rar_broadcast(rar_comm_t *comm, const void *src, void *dst, uint64_t count, int dtype,
		  uint32_t root);
int rar_allgather(rar_comm_t *comm, const void *src, void *dst, uint64_t count, int dtype);
int rar_reduce_scatter(rar_comm_t *comm, const void *src, void *dst, uint64_t count,
		       int dtype, int redop);
int rar_barrier(rar_comm_t *comm);

/* ------------------------------------------------------------ memory */

/* Pin memory once that many operations use. Works as well, only slower, if it is refused. */
int rar_mem_reg(rar_comm_t *comm, const void *addr, size_t len, uint32_t flags);
int rar_mem_unreg(rar_comm_t *comm, const void *addr, size_t len);

/* ------------------------------------------------------------ errors */

/* Why the group failed: 0, or -error->err. */
int rar_comm_error(rar_comm_t *comm, struct rar_error *error);
/* A sentence about an error of any function here; comm may be NULL. Returns buf. */
const char *rar_strerror(rar_comm_t *comm, int err, char *buf, size_t len);
/* The straggler: the rank that kept the group waiting longest; RAR_NO_RANK: none. */
int rar_slow(rar_comm_t *comm, uint32_t *rank, uint32_t *ms);

/* Bytes of an element; 0 for an unknown type. */
size_t rar_dtype_size(int dtype);
const char *rar_dtype_name(int dtype);
const char *rar_redop_name(int redop);
const char *rar_reason_name(unsigned int reason);

#ifdef __cplusplus
}
#endif

#endif /* RAR_LIBRAR_H */
