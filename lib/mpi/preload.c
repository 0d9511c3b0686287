// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * MPI on AF_RAR, by preloading: collectives of unmodified programs go by librar where that is
 * worth it, and all else goes to the MPI library. One source, built for each MPI library.
 *
 * All ranks of a communicator must take the same way without talking. So the way depends only on
 * values that are equal on all of them: the collective, the bytes, the type and reduction, the
 * root, the communicator, and the limits, which the ranks have compared in MPI_Init().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "preload.h"

enum {
	SPINS = 50,		/* tests before the thread lets others run, */
	YIELDS = 500,		/* and before it sleeps */
	NAP_NS = 200000,	/* for this long, or until the ring has a result */
};

static unsigned long counts[CALLS][2];	/* calls by MPI, and by the ring */

/* -- which way ------------------------------------------------------------- */

/* With RAR_DEBUG=1, say once for each reason why a call goes by MPI. */
static struct ring *by_mpi(enum call call, unsigned int reason, const char *why, uint64_t bytes)
{
	static unsigned int said[CALLS];

	if (enabled && debugging() && !(__atomic_fetch_or(&said[call], 1u << reason,
							  __ATOMIC_RELAXED) & 1u << reason))
		fprintf(stderr, "librar-mpi: %s of %llu bytes by MPI: %s\n", call_names[call],
			(unsigned long long)bytes, why);
	__atomic_fetch_add(&counts[call][0], 1, __ATOMIC_RELAXED);
	return NULL;
}

/* A call, as pick() sees it. @bytes: of the whole tensor; @count: elements of the ring. */
struct ask {
	enum call call;
	int collective;
	struct kind kind;
	uint64_t bytes, count;
	int root;
};

/* The ring for a call, or NULL: it goes by MPI. Equal on all ranks. */
static struct ring *pick(const struct ask *a, MPI_Comm comm)
{
	struct ring *r;

	if (!enabled || limits.min[a->call] == NEVER)
		return by_mpi(a->call, 0, "switched off", a->bytes);
	if (a->call != BARRIER && (!a->bytes || a->bytes < limits.min[a->call]))
		return by_mpi(a->call, 1, "below RAR_MPI_MIN", a->bytes);
	if (!a->kind.dtype || !a->kind.redop)
		return by_mpi(a->call, 2, "the ring lacks this type or reduction", a->bytes);
	if (comm == MPI_COMM_NULL)
		return by_mpi(a->call, 3, "no communicator", a->bytes);
	r = ring_of(comm);
	if (!r)
		return by_mpi(a->call, 4, "the communicator has no ring, or not yet", a->bytes);
	if (a->root < 0 || a->root >= r->size ||
	    !rar_can(r->comm, a->collective, a->kind.dtype, a->kind.redop, a->count))
		return by_mpi(a->call, 5, "not all ranks can do it", a->bytes);
	__atomic_fetch_add(&counts[a->call][1], 1, __ATOMIC_RELAXED);
	return r;
}

/* -- the way by the ring --------------------------------------------------- */

/* Say what happened, end the ring, and do what the communicator's error handler does. */
static int broken(struct ring *r, MPI_Comm comm, int err)
{
	char text[256];

	fprintf(stderr, "librar-mpi: rank %d: %s\n", r->rank,
		rar_strerror(r->comm, err, text, sizeof(text)));
	rar_comm_abort(r->comm);	/* if it failed here alone, the others must know */
	PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
	return MPI_ERR_OTHER;
}

/* Let the MPI library work, for the @n-th time in this wait. */
static void idle(struct ring *r, unsigned int n)
{
	struct pollfd p = { .fd = rar_comm_fd(r->comm), .events = POLLIN };
	struct timespec nap = { .tv_nsec = NAP_NS };

	progress();
	if (n > YIELDS)
		ppoll(&p, 1, &nap, NULL);
	else if (n > SPINS)
		sched_yield();
}

static int wait_for(struct ring *r, rar_req_t req)
{
	unsigned int n = 0;
	int err;

	while ((err = rar_test(r->comm, req)) == -EAGAIN)
		idle(r, ++n);
	return err;
}

static int start(struct ring *r, struct rar_call *call, rar_req_t *req)
{
	unsigned int n = 0;
	int err;

	call->flags |= RAR_C_NOWAIT;
	while ((err = rar_start(r->comm, call, req)) == -EAGAIN)
		idle(r, ++n);
	return err;
}

/* Do a call in pieces, with at most PIECES in flight. */
static int run(struct ring *r, MPI_Comm comm, struct rar_call call)
{
	uint64_t size = call.dtype ? rar_dtype_size(call.dtype) : 1, left = call.count, part;
	bool cut = call.collective == RAR_ALLREDUCE || call.collective == RAR_REDUCE ||
		   call.collective == RAR_BROADCAST;
	rar_req_t req = 0, first = 0;
	int err;

	do {
		part = cut && left > PIECE / size ? PIECE / size : left;
		call.count = part;
		err = start(r, &call, &req);
		if (!first)
			first = req;
		if (!err && req - first >= PIECES - 1)
			err = wait_for(r, req - (PIECES - 1));
		left -= part;
		call.src = (const char *)call.src + part * size;
		if (call.dst)
			call.dst = (char *)call.dst + part * size;
	} while (!err && left);
	if (!err)
		err = wait_for(r, req);
	return err ? broken(r, comm, err) : MPI_SUCCESS;
}

/* -- reductions ------------------------------------------------------------ */

static struct ask reduction(enum call call, int collective, int count, MPI_Datatype t, MPI_Op op)
{
	struct ask a = { .call = call, .collective = collective, .bytes = bytes_of(count, t) };

	kind_of(t, op, &a.kind);
	a.count = (uint64_t)count * a.kind.parts;
	return a;
}

int MPI_Allreduce(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op,
		  MPI_Comm comm)
{
	struct ask a = reduction(ALLREDUCE, RAR_ALLREDUCE, count, t, op);
	struct ring *r = pick(&a, comm);

	if (!r)
		return PMPI_Allreduce(src, dst, count, t, op, comm);
	return run(r, comm, (struct rar_call) {
		.collective = RAR_ALLREDUCE, .dtype = a.kind.dtype, .redop = a.kind.redop,
		.src = src == MPI_IN_PLACE ? dst : src, .dst = dst, .count = a.count });
}

int MPI_Reduce(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op, int root,
	       MPI_Comm comm)
{
	struct ask a = reduction(REDUCE, RAR_REDUCE, count, t, op);
	struct ring *r;

	a.root = root;
	r = pick(&a, comm);
	if (!r)
		return PMPI_Reduce(src, dst, count, t, op, root, comm);
	return run(r, comm, (struct rar_call) {
		.collective = RAR_REDUCE, .dtype = a.kind.dtype, .redop = a.kind.redop,
		.root = root, .src = src == MPI_IN_PLACE ? dst : src,
		.dst = r->rank == root ? dst : NULL, .count = a.count });
}

int MPI_Reduce_scatter_block(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op,
			     MPI_Comm comm)
{
	struct ask a = reduction(REDUCE_SCATTER_BLOCK, RAR_REDUCE_SCATTER, count, t, op);
	uint64_t bytes = a.bytes;
	struct ring *r = NULL;
	char *to = dst;
	int ret, size = 0;

	if (bytes && comm != MPI_COMM_NULL)
		PMPI_Comm_size(comm, &size);
	a.bytes = bytes * size;
	if (a.bytes <= PIECE)
		r = pick(&a, comm);
	else
		by_mpi(a.call, 6, "too long", a.bytes);
	if (!r)
		return PMPI_Reduce_scatter_block(src, dst, count, t, op, comm);
	if (src == MPI_IN_PLACE) {	/* the result goes to the first block */
		src = dst;
		to = ring_scratch(r, comm, bytes);
	}
	ret = run(r, comm, (struct rar_call) {
		.collective = RAR_REDUCE_SCATTER, .dtype = a.kind.dtype, .redop = a.kind.redop,
		.src = src, .dst = to, .count = a.count });
	if (!ret && to != dst)
		memcpy(dst, to, bytes);
	return ret;
}

/* -- bytes ----------------------------------------------------------------- */

static const struct kind as_bytes = { .dtype = RAR_U8, .redop = RAR_SUM, .parts = 1 };

int MPI_Bcast(void *buf, int count, MPI_Datatype t, int root, MPI_Comm comm)
{
	uint64_t bytes = bytes_of(count, t);
	struct ask a = { .call = BCAST, .collective = RAR_BROADCAST, .kind = as_bytes,
			 .root = root, .bytes = bytes, .count = bytes };
	struct ring *r = NULL;
	char *at = buf;
	int pos = 0, ret;

	if (bytes <= INT32_MAX)		/* the most that PMPI_Pack() counts */
		r = pick(&a, comm);
	else
		by_mpi(a.call, 6, "too long", bytes);
	if (!r)
		return PMPI_Bcast(buf, count, t, root, comm);
	if (!is_plain(t)) {
		at = ring_scratch(r, comm, bytes);
		if (r->rank == root)
			PMPI_Pack(buf, count, t, at, bytes, &pos, comm);
	}
	ret = run(r, comm, (struct rar_call) {
		.collective = RAR_BROADCAST, .dtype = RAR_U8, .root = root,
		.src = at, .dst = at, .count = bytes });
	if (!ret && at != buf && r->rank != root) {
		pos = 0;
		PMPI_Unpack(at, bytes, &pos, buf, count, t, comm);
	}
	return ret;
}

/* What the arguments of an allgather are; the block of a rank is @bytes long. */
struct gather {
	const void *src;
	void *dst;
	int src_count, dst_count;
	MPI_Datatype src_type, dst_type;
	uint64_t bytes;
};

/* By way of scratch memory: MPI packs the own block, and unpacks all of them. */
static int gather_packed(struct ring *r, MPI_Comm comm, const struct gather *g)
{
	uint64_t all = g->bytes * r->size;
	char *at = ring_scratch(r, comm, all), *own = at + r->rank * g->bytes;
	MPI_Aint lb, extent;
	int pos = 0, ret;

	PMPI_Type_get_extent(g->dst_type, &lb, &extent);
	if (g->src == MPI_IN_PLACE)
		PMPI_Pack((char *)g->dst + (MPI_Aint)r->rank * g->dst_count * extent,
			  g->dst_count, g->dst_type, own, g->bytes, &pos, comm);
	else
		PMPI_Pack(g->src, g->src_count, g->src_type, own, g->bytes, &pos, comm);
	ret = run(r, comm, (struct rar_call) {
		.collective = RAR_ALLGATHER, .dtype = RAR_U8, .count = g->bytes,
		.src = own, .dst = at });
	pos = 0;
	if (!ret)
		PMPI_Unpack(at, all, &pos, g->dst, g->dst_count * r->size, g->dst_type, comm);
	return ret;
}

int MPI_Allgather(const void *src, int src_count, MPI_Datatype src_type, void *dst,
		  int dst_count, MPI_Datatype dst_type, MPI_Comm comm)
{
	struct gather g = { src, dst, src_count, dst_count, src_type, dst_type,
			    bytes_of(dst_count, dst_type) };
	struct ask a = { .call = ALLGATHER, .collective = RAR_ALLGATHER, .kind = as_bytes,
			 .count = g.bytes };
	struct ring *r = NULL;
	int size = 0;

	if (g.bytes && comm != MPI_COMM_NULL)
		PMPI_Comm_size(comm, &size);
	a.bytes = g.bytes * size;
	if (a.bytes <= PIECE)
		r = pick(&a, comm);
	else
		by_mpi(a.call, 6, "too long", a.bytes);
	if (!r)
		return PMPI_Allgather(src, src_count, src_type, dst, dst_count, dst_type, comm);
	if (!is_plain(dst_type) || (src != MPI_IN_PLACE && !is_plain(src_type)))
		return gather_packed(r, comm, &g);
	return run(r, comm, (struct rar_call) {
		.collective = RAR_ALLGATHER, .dtype = RAR_U8, .count = g.bytes, .dst = dst,
		.src = src == MPI_IN_PLACE ? (char *)dst + r->rank * g.bytes : src });
}

int MPI_Barrier(MPI_Comm comm)
{
	struct ask a = { .call = BARRIER, .collective = RAR_BARRIER, .kind = as_bytes };
	struct ring *r = pick(&a, comm);

	if (!r)
		return PMPI_Barrier(comm);
	return run(r, comm, (struct rar_call) { .collective = RAR_BARRIER });
}

/* -- begin and end --------------------------------------------------------- */

static bool begun;

static void begin(void)
{
	if (begun)
		return;
	begun = true;
	rings_begin();
	limits_agree();
}

int MPI_Init(int *argc, char ***argv)
{
	int ret = PMPI_Init(argc, argv);

	if (!ret)
		begin();
	return ret;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int ret = PMPI_Init_thread(argc, argv, required, provided);

	if (!ret)
		begin();
	return ret;
}

static void show_counts(void)
{
	const char *stat = getenv("RAR_MPI_STAT");
	int i, rank;

	if (!stat || strcmp(stat, "1"))
		return;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (i = 0; i < CALLS; i++)
		if (counts[i][0] + counts[i][1])
			fprintf(stderr, "librar-mpi: rank %d: %s: %lu by the ring, %lu by MPI\n",
				rank, call_names[i], counts[i][1], counts[i][0]);
}

int MPI_Comm_free(MPI_Comm *comm)
{
	if (enabled)
		ring_settle(*comm);
	return PMPI_Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
	if (enabled)
		ring_settle(*comm);
	return PMPI_Comm_disconnect(comm);
}

int MPI_Finalize(void)
{
	if (begun) {
		show_counts();
		rings_end(enabled);
		enabled = false;
	}
	return PMPI_Finalize();
}
