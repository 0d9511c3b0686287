/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the files of MPI on AF_RAR share. Two libraries are made of them: one that is preloaded,
 * with preload.c and hook.c, and a component of Open MPI, with component.c and request.c.
 */
#ifndef RAR_MPI_COMMON_H
#define RAR_MPI_COMMON_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rar/librar.h>

#define NEVER	UINT64_MAX	/* as a limit: no call goes by the ring */

/*
 * Bytes of an operation of the ring. Longer calls are cut, with two pieces in flight: so the
 * memory that a rank pins, or that the kernel copies, has a bound that does not depend on the
 * program.
 */
#define PIECE	(4u << 20)
#define PIECES	2

#define BRIEF_MOST	(1u << 20) /* bytes; longer calls are never brief, and make no ring */
#define BRIEF_CALLS	32	/* so many short calls gain as much by a ring as a long one */

/* The non-blocking calls follow the others. */
enum call {
	ALLREDUCE, REDUCE, BCAST, ALLGATHER, REDUCE_SCATTER_BLOCK, BARRIER,
	IALLREDUCE, IREDUCE, IBCAST, IALLGATHER, IREDUCE_SCATTER_BLOCK, IBARRIER, CALLS,
};

static const char *const call_names[CALLS] = {
	"allreduce", "reduce", "bcast", "allgather", "reduce_scatter_block", "barrier",
	"iallreduce", "ireduce", "ibcast", "iallgather", "ireduce_scatter_block", "ibarrier",
};

static inline bool is_blocking(enum call call) { return call < IALLREDUCE; }

/*
 * struct limits - which calls go by the ring, equal on all ranks
 * @min:	smallest size in bytes of each call
 * @brief:	which calls also go by the ring if they are short, where each rank is on a host of
 *		its own: there they take few hops
 * @one_host:	also where all ranks are on one host
 * @after:	the ring is made by this call of a communicator; those that it may do count, from
 *		1. 0: it is made with the communicator
 * @version:	of this structure and of the ways that the calls take
 */
struct limits {
	uint64_t min[CALLS];
	uint64_t brief[CALLS];
	uint64_t one_host;
	uint64_t after;
	uint64_t version;
};

struct pending;

/*
 * struct ring - the ring of a communicator
 * @comm:	NULL: there is none
 * @tried:	it was made, or will never be
 * @due:	only non-blocking calls have asked for it so far: the next blocking call makes it
 * @settled:	all ranks are done with it
 * @calls:	calls that it might have done, before it was made; a long one counts for BRIEF_CALLS
 * @brief:	by blocking call: those of fewer bytes take few hops; 0: none does
 * @crowded:	others wanted the CPU when this rank last let them run in a wait
 * @woken:	idle() has just returned without letting the MPI library work
 * @waits:	waits since then
 * @no_brief:	several ranks are on one host, so no short call makes the ring
 * @scratch:	memory of @room bytes for one blocking call
 *
 * The lock of pending.c protects these, the non-blocking calls of the communicator:
 * @first:	calls that are not complete, in their order
 * @starting:	the first of them that is not wholly handed to librar; NULL: all are
 * @last:	last request of librar for one of them
 * @done:	up to this one, requests are known to be complete
 * @in_flight:	bytes of the requests after it, @sizes of each
 * @next_busy:	next ring with such calls
 */
struct ring {
	rar_comm_t *comm;
	bool tried, due, settled, no_brief, crowded, woken;
	uint64_t calls, brief[CALLS];
	unsigned int waits;
	int rank, size;
	char *scratch;
	size_t room;
	struct ring *next;

	struct pending *first, *starting;
	rar_req_t last, done;
	uint64_t in_flight;
	uint64_t sizes[RAR_MAX_OPS];
	struct ring *next_busy;
};

/* The arguments of a call; those of an allgather's source, where others have none. */
struct args {
	enum call call;
	const void *src;
	void *dst;
	int count;
	MPI_Datatype type;
	MPI_Op op;
	int root;
	MPI_Comm comm;
	int src_count;
	MPI_Datatype src_type;
};

/* The element type and reduction of a call: @parts elements of the ring in one of MPI. */
struct kind {
	int dtype, redop;
	int parts;
};

/*
 * struct todo - a call, as the ring does it
 * @call:	in the program's memory, or in scratch memory
 * @bytes:	of the whole tensor
 * @own:	scratch memory of this call alone, or NULL
 * @out:	where the program wants the result that is in @from, @out_bytes long; NULL: it is
 *		there
 * @count:	of @type: what to unpack at @out; MPI_DATATYPE_NULL: simply bytes
 */
struct todo {
	struct rar_call call;
	uint64_t bytes;
	char *own;
	const char *from;
	void *out;
	uint64_t out_bytes;
	int count;
	MPI_Datatype type;
};

/* limits.c */
extern struct limits limits;
extern bool enabled;
const char *limits_read(void);
void limits_of_hook(void);
void limits_show(void);
const char *limits_obstacle(char *buf, size_t len);

/* calls.c */
struct ring *todo_allreduce(const struct args *a, struct todo *d);
struct ring *todo_reduce(const struct args *a, struct todo *d);
struct ring *todo_reduce_scatter_block(const struct args *a, struct todo *d);
struct ring *todo_bcast(const struct args *a, struct todo *d);
struct ring *todo_allgather(const struct args *a, struct todo *d);
struct ring *todo_barrier(const struct args *a, struct todo *d);
struct rar_call todo_piece(const struct rar_call *left);
bool todo_rest(struct rar_call *left, uint64_t count);
void todo_end(struct todo *d, int err);
void show_counts(void);

/* run.c */
int run(struct ring *r, MPI_Comm comm, struct todo *d);

/* pending.c */
int pending_open(void);
void pending_close(void);
int pending_begin(struct ring *r, const struct todo *d, MPI_Request *request);
int pending_poll(void);
bool pending_any(void);
void pending_nap(void);
void pending_started(struct ring *r);
void pending_drain(struct ring *r);
bool pending_told(const void *state);

/* ring.c */
bool debugging(void);
void debug(int rank, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void object(int rank, const char *why);
bool agree(MPI_Comm comm, const char *why);
void idle(struct ring *r, unsigned int *n);
bool rings_drain(void);
void rings_free(void);
void ring_settle(MPI_Comm comm);
void ring_make_due(MPI_Comm comm);
struct ring *ring_of(MPI_Comm comm, enum call call, bool brief);
void ring_broken(struct ring *r, int err);
char *ring_scratch(struct ring *r, MPI_Comm comm, size_t len);

/* kind.c */
bool kind_of(MPI_Datatype t, MPI_Op op, struct kind *k);
bool is_plain(MPI_Datatype t);
uint64_t bytes_of(int count, MPI_Datatype t);

/* hook.c, or request.c */
bool hook_begin(void);
void hook_end(void);
int hook_request(MPI_Grequest_query_function *query, MPI_Grequest_free_function *done,
		 MPI_Grequest_cancel_function *cancel, void *state, MPI_Request *request);
void hook_complete(MPI_Request request, int err);
bool hook_is_named(MPI_Datatype t);
MPI_Datatype hook_keep(MPI_Datatype t);
void hook_release(MPI_Datatype t);

/*
 * preload.c, or component.c. The collectives of the MPI library itself; whether all ranks of the
 * program agree on the limits, and those of a communicator may have a ring; what a call does that
 * fails.
 */
int base_allreduce(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op,
		   MPI_Comm comm);
int base_allgather(const void *src, int src_count, MPI_Datatype src_type, void *dst, int count,
		   MPI_Datatype t, MPI_Comm comm);
int base_barrier(MPI_Comm comm);
bool all_agree(void);
bool may_join(MPI_Comm comm);
void raise_error(MPI_Comm comm);
void progress(void);

#endif /* RAR_MPI_COMMON_H */
