// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Which way a call takes, and what the ring does for it.
 *
 * All ranks of a communicator must take the same way without talking. So the way depends only on
 * values that are equal on all of them: the collective, the bytes, the type and reduction, the
 * root, the communicator, and the limits, which the ranks have compared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static unsigned long counts[CALLS][2];	/* calls by MPI, and by the ring */

/* -- which way ------------------------------------------------------------- */

/* With RAR_DEBUG=1, say once for each reason which way a call goes. */
static void explain(enum call call, unsigned int reason, const char *way, uint64_t bytes)
{
	static unsigned int said[CALLS];

	if (enabled && debugging() && !(__atomic_fetch_or(&said[call], 1u << reason,
							  __ATOMIC_RELAXED) & 1u << reason))
		fprintf(stderr, "librar-mpi: %s of %llu bytes by %s\n", call_names[call],
			(unsigned long long)bytes, way);
}

/* What pick() looks at. @bytes: of the whole tensor; @count: elements of the ring; @most: bytes. */
struct ask {
	int collective;
	struct kind kind;
	uint64_t bytes, count, most;
};

static struct ring *by_mpi(enum call call, unsigned int reason, const char *way, uint64_t bytes)
{
	explain(call, reason, way, bytes);
	__atomic_fetch_add(&counts[call][0], 1, __ATOMIC_RELAXED);
	return NULL;
}

/* The ring for a call, or NULL: it goes by MPI. Equal on all ranks. */
static struct ring *pick(const struct args *a, const struct ask *k)
{
	enum call call = a->call;
	bool below = k->collective == RAR_BARRIER ? limits.min[call] == NEVER :
						    k->bytes < limits.min[call];
	struct ring *r;

	if (enabled && is_blocking(call))
		ring_make_due(a->comm);
	if (!enabled || (limits.min[call] == NEVER && !limits.brief[call]))
		return by_mpi(call, 0, "MPI: switched off", k->bytes);
	if ((k->collective != RAR_BARRIER && !k->bytes) ||
	    (below && (!limits.brief[call] || k->bytes > BRIEF_MOST)))
		return by_mpi(call, 1, "MPI: below RAR_MPI_MIN", k->bytes);
	if (k->bytes > k->most)
		return by_mpi(call, 6, "MPI: too long", k->bytes);
	if (!k->kind.dtype || !k->kind.redop)
		return by_mpi(call, 2, "MPI: the ring lacks this type or reduction", k->bytes);
	if (a->comm == MPI_COMM_NULL)
		return by_mpi(call, 3, "MPI: no communicator", k->bytes);
	r = ring_of(a->comm, call, below);
	if (!r)
		return by_mpi(call, 4, "MPI: the communicator has no ring, or not yet", k->bytes);
	if (below && k->bytes >= r->brief[call])
		return by_mpi(call, 8, "MPI: below RAR_MPI_MIN, and no call that takes few hops", k->bytes);
	if (a->root < 0 || a->root >= r->size ||
	    !rar_can(r->comm, k->collective, k->kind.dtype, k->kind.redop, k->count))
		return by_mpi(call, 5, "MPI: not all ranks can do it", k->bytes);
	explain(call, 7, "the ring", k->bytes);
	__atomic_fetch_add(&counts[call][1], 1, __ATOMIC_RELAXED);
	return r;
}

void show_counts(void)
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

/* -- pieces ---------------------------------------------------------------- */

static uint64_t element(const struct rar_call *c)
{
	return c->dtype ? rar_dtype_size(c->dtype) : 1;
}

/* The next operation of what is left of a call. */
struct rar_call todo_piece(const struct rar_call *left)
{
	struct rar_call piece = *left;
	uint64_t most = PIECE / element(left);

	if (piece.count > most &&
	    (piece.collective == RAR_ALLREDUCE || piece.collective == RAR_REDUCE ||
	     piece.collective == RAR_BROADCAST))
		piece.count = most;
	return piece;
}

/* @count elements have been started. Is anything left? */
bool todo_rest(struct rar_call *left, uint64_t count)
{
	uint64_t bytes = count * element(left);

	left->count -= count;
	left->src = (const char *)left->src + bytes;
	if (left->dst)
		left->dst = (char *)left->dst + bytes;
	return left->count;
}

/* -- scratch memory -------------------------------------------------------- */

/* A blocking call has the memory of its ring; others that are in progress have their own. */
static char *scratch(struct ring *r, const struct args *a, struct todo *d, size_t len)
{
	if (is_blocking(a->call))
		return ring_scratch(r, a->comm, len);
	d->own = malloc(len);
	if (!d->own)
		PMPI_Abort(a->comm, 1);
	return d->own;
}

static void pack(const void *buf, int count, MPI_Datatype t, char *to, uint64_t len)
{
	int pos = 0;

	PMPI_Pack(buf, count, t, to, len, &pos, MPI_COMM_SELF);
}

/* The program may free the type of a call that returns at once. */
static void unpack_at_end(const struct args *a, struct todo *d, const char *from, uint64_t len,
			  int count)
{
	d->from = from;
	d->out = a->dst;
	d->out_bytes = len;
	d->count = count;
	d->type = a->type;
	if (!is_blocking(a->call))
		d->type = hook_keep(a->type);
}

/* The ring has done it, or failed with @err: bring the result to where the program wants it. */
void todo_end(struct todo *d, int err)
{
	int pos = 0;

	if (!err && d->out && d->type == MPI_DATATYPE_NULL)
		memcpy(d->out, d->from, d->out_bytes);
	else if (!err && d->out)
		PMPI_Unpack(d->from, d->out_bytes, &pos, d->out, d->count, d->type,
			    MPI_COMM_SELF);
	if (d->own && d->type != MPI_DATATYPE_NULL)
		hook_release(d->type);
	free(d->own);
}

/* -- reductions ------------------------------------------------------------ */

static struct ask reduction(const struct args *a, int collective)
{
	struct ask k = { .collective = collective, .most = UINT64_MAX,
			 .bytes = bytes_of(a->count, a->type) };

	kind_of(a->type, a->op, &k.kind);
	k.count = (uint64_t)a->count * k.kind.parts;
	return k;
}

static void fill(struct todo *d, const struct ask *k, const void *src, void *dst)
{
	*d = (struct todo) { .bytes = k->bytes, .type = MPI_DATATYPE_NULL };
	d->call = (struct rar_call) { .collective = k->collective, .dtype = k->kind.dtype,
				      .redop = k->kind.redop, .src = src, .dst = dst,
				      .count = k->count };
}

struct ring *todo_allreduce(const struct args *a, struct todo *d)
{
	struct ask k = reduction(a, RAR_ALLREDUCE);
	struct ring *r = pick(a, &k);

	if (r)
		fill(d, &k, a->src == MPI_IN_PLACE ? a->dst : a->src, a->dst);
	return r;
}

struct ring *todo_reduce(const struct args *a, struct todo *d)
{
	struct ask k = reduction(a, RAR_REDUCE);
	struct ring *r = pick(a, &k);

	if (!r)
		return NULL;
	fill(d, &k, a->src == MPI_IN_PLACE ? a->dst : a->src, r->rank == a->root ? a->dst : NULL);
	d->call.root = a->root;
	return r;
}

/* The whole tensor of a call of which @k has one rank's block. */
static void of_all_ranks(const struct args *a, struct ask *k)
{
	int size = 0;

	if (k->bytes && a->comm != MPI_COMM_NULL)
		PMPI_Comm_size(a->comm, &size);
	k->bytes *= size;
	k->most = PIECE;
}

struct ring *todo_reduce_scatter_block(const struct args *a, struct todo *d)
{
	struct ask k = reduction(a, RAR_REDUCE_SCATTER);
	uint64_t block = k.bytes;
	struct ring *r;

	of_all_ranks(a, &k);
	r = pick(a, &k);
	if (!r)
		return NULL;
	fill(d, &k, a->src, a->dst);
	if (a->src != MPI_IN_PLACE)
		return r;
	d->call.src = a->dst;	/* the result goes to the first block */
	d->call.dst = scratch(r, a, d, block);
	d->from = d->call.dst;
	d->out = a->dst;
	d->out_bytes = block;
	return r;
}

/* -- bytes ----------------------------------------------------------------- */

static struct ask bytes(int collective, uint64_t len, uint64_t most)
{
	return (struct ask) { .collective = collective, .bytes = len, .count = len, .most = most,
			      .kind = { .dtype = RAR_U8, .redop = RAR_SUM, .parts = 1 } };
}

struct ring *todo_bcast(const struct args *a, struct todo *d)
{
	/* INT32_MAX is the most that PMPI_Pack() counts */
	struct ask k = bytes(RAR_BROADCAST, bytes_of(a->count, a->type), INT32_MAX);
	struct ring *r = pick(a, &k);
	char *at = a->dst;

	if (!r)
		return NULL;
	fill(d, &k, at, at);
	d->call.root = a->root;
	if (is_plain(a->type))
		return r;
	at = scratch(r, a, d, k.bytes);
	d->call.src = at;
	d->call.dst = at;
	if (r->rank == a->root)
		pack(a->dst, a->count, a->type, at, k.bytes);
	else
		unpack_at_end(a, d, at, k.bytes, a->count);
	return r;
}

/* By way of scratch memory: MPI packs the own block, and unpacks all of them. */
static void gather_packed(struct ring *r, const struct args *a, struct todo *d, uint64_t block)
{
	char *at = scratch(r, a, d, block * r->size), *own = at + r->rank * block;
	MPI_Aint lb, extent;

	PMPI_Type_get_extent(a->type, &lb, &extent);
	if (a->src == MPI_IN_PLACE)
		pack((char *)a->dst + (MPI_Aint)r->rank * a->count * extent, a->count, a->type,
		     own, block);
	else
		pack(a->src, a->src_count, a->src_type, own, block);
	d->call.src = own;
	d->call.dst = at;
	unpack_at_end(a, d, at, block * r->size, a->count * r->size);
}

struct ring *todo_allgather(const struct args *a, struct todo *d)
{
	uint64_t block = bytes_of(a->count, a->type);
	struct ask k = bytes(RAR_ALLGATHER, block, PIECE);
	bool in_place = a->src == MPI_IN_PLACE;
	struct ring *r;

	of_all_ranks(a, &k);
	r = pick(a, &k);
	if (!r)
		return NULL;
	fill(d, &k, in_place ? (char *)a->dst + r->rank * block : a->src, a->dst);
	if (!is_plain(a->type) || (!in_place && !is_plain(a->src_type)))
		gather_packed(r, a, d, block);
	return r;
}

struct ring *todo_barrier(const struct args *a, struct todo *d)
{
	struct ask k = bytes(RAR_BARRIER, 0, 0);
	struct ring *r = pick(a, &k);

	if (r) {
		fill(d, &k, NULL, NULL);
		d->call.dtype = 0;
	}
	return r;
}
