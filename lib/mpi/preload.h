/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the files of the preloaded library for MPI share. */
#ifndef RAR_MPI_PRELOAD_H
#define RAR_MPI_PRELOAD_H

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

enum call { ALLREDUCE, REDUCE, BCAST, ALLGATHER, REDUCE_SCATTER_BLOCK, BARRIER, CALLS };

static const char *const call_names[CALLS] = {
	"allreduce", "reduce", "bcast", "allgather", "reduce_scatter_block", "barrier",
};

/*
 * struct limits - which calls go by the ring, equal on all ranks
 * @min:	smallest size in bytes of each call
 * @one_host:	also where all ranks are on one host
 * @after:	the ring is made by this call of a communicator; those that it may do count, from 1
 * @version:	of this structure and of the ways that the calls take
 */
struct limits {
	uint64_t min[CALLS];
	uint64_t one_host;
	uint64_t after;
	uint64_t version;
};

/*
 * struct ring - the ring of a communicator
 * @comm:	NULL: there is none
 * @tried:	it was made, or will never be
 * @calls:	calls that it might have done, before it was made
 * @scratch:	memory of @room bytes for one call
 */
struct ring {
	rar_comm_t *comm;
	bool tried;
	uint64_t calls;
	int rank, size;
	char *scratch;
	size_t room;
	struct ring *next;
};

/* The element type and reduction of a call: @parts elements of the ring in one of MPI. */
struct kind {
	int dtype, redop;
	int parts;
};

/* limits.c */
extern struct limits limits;
extern bool enabled;
void limits_agree(void);

/* ring.c */
bool debugging(void);
void debug(int rank, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool agree(MPI_Comm comm, const char *why);
void progress(void);
void rings_begin(void);
void rings_end(bool on);
void ring_settle(MPI_Comm comm);
struct ring *ring_of(MPI_Comm comm);
char *ring_scratch(struct ring *r, MPI_Comm comm, size_t len);

/* kind.c */
bool kind_of(MPI_Datatype t, MPI_Op op, struct kind *k);
bool is_plain(MPI_Datatype t);
uint64_t bytes_of(int count, MPI_Datatype t);

#endif /* RAR_MPI_PRELOAD_H */
