// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * MPI on AF_RAR, by preloading: collectives of unmodified programs go by librar where that is
 * worth it, and all else goes to the MPI library. One source, built for each MPI library.
 */
#include <errno.h>

#include "preload.h"

/* -- the way by the ring, to the end of the call --------------------------- */

/* Say what happened, end the ring, and do what the communicator's error handler does. */
static int broken(struct ring *r, MPI_Comm comm, int err)
{
	ring_broken(r, err);
	PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
	return MPI_ERR_OTHER;
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
	while ((err = rar_start(r->comm, call, req)) == -EAGAIN ||
	       (err == -ENOBUFS && pending_any()))
		idle(r, ++n);
	return err;
}

/* Do a call in pieces, with at most PIECES in flight. */
static int run(struct ring *r, MPI_Comm comm, struct todo *d)
{
	struct rar_call left = d->call, piece;
	rar_req_t req = 0, first = 0;
	int err;

	pending_started(r);
	do {
		piece = todo_piece(&left);
		err = start(r, &piece, &req);
		if (!first)
			first = req;
		if (!err && req - first >= PIECES - 1)
			err = wait_for(r, req - (PIECES - 1));
	} while (!err && todo_rest(&left, piece.count));
	if (!err)
		err = wait_for(r, req);
	todo_end(d, err);
	return err ? broken(r, comm, err) : MPI_SUCCESS;
}

/* -- the calls ------------------------------------------------------------- */

int MPI_Allreduce(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op,
		  MPI_Comm comm)
{
	struct args a = { .call = ALLREDUCE, .src = src, .dst = dst, .count = count, .type = t,
			  .op = op, .comm = comm };
	struct todo d;
	struct ring *r = todo_allreduce(&a, &d);

	return r ? run(r, comm, &d) : PMPI_Allreduce(src, dst, count, t, op, comm);
}

int MPI_Iallreduce(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op,
		   MPI_Comm comm, MPI_Request *req)
{
	struct args a = { .call = IALLREDUCE, .src = src, .dst = dst, .count = count, .type = t,
			  .op = op, .comm = comm };
	struct todo d;
	struct ring *r = todo_allreduce(&a, &d);

	return r ? pending_begin(r, &d, req) :
		   PMPI_Iallreduce(src, dst, count, t, op, comm, req);
}

int MPI_Reduce(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op, int root,
	       MPI_Comm comm)
{
	struct args a = { .call = REDUCE, .src = src, .dst = dst, .count = count, .type = t,
			  .op = op, .root = root, .comm = comm };
	struct todo d;
	struct ring *r = todo_reduce(&a, &d);

	return r ? run(r, comm, &d) : PMPI_Reduce(src, dst, count, t, op, root, comm);
}

int MPI_Ireduce(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op, int root,
		MPI_Comm comm, MPI_Request *req)
{
	struct args a = { .call = IREDUCE, .src = src, .dst = dst, .count = count, .type = t,
			  .op = op, .root = root, .comm = comm };
	struct todo d;
	struct ring *r = todo_reduce(&a, &d);

	return r ? pending_begin(r, &d, req) :
		   PMPI_Ireduce(src, dst, count, t, op, root, comm, req);
}

int MPI_Reduce_scatter_block(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op,
			     MPI_Comm comm)
{
	struct args a = { .call = REDUCE_SCATTER_BLOCK, .src = src, .dst = dst, .count = count,
			  .type = t, .op = op, .comm = comm };
	struct todo d;
	struct ring *r = todo_reduce_scatter(&a, &d);

	return r ? run(r, comm, &d) : PMPI_Reduce_scatter_block(src, dst, count, t, op, comm);
}

int MPI_Ireduce_scatter_block(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op,
			      MPI_Comm comm, MPI_Request *req)
{
	struct args a = { .call = IREDUCE_SCATTER_BLOCK, .src = src, .dst = dst, .count = count,
			  .type = t, .op = op, .comm = comm };
	struct todo d;
	struct ring *r = todo_reduce_scatter(&a, &d);

	return r ? pending_begin(r, &d, req) :
		   PMPI_Ireduce_scatter_block(src, dst, count, t, op, comm, req);
}

int MPI_Bcast(void *buf, int count, MPI_Datatype t, int root, MPI_Comm comm)
{
	struct args a = { .call = BCAST, .dst = buf, .count = count, .type = t, .root = root,
			  .comm = comm };
	struct todo d;
	struct ring *r = todo_bcast(&a, &d);

	return r ? run(r, comm, &d) : PMPI_Bcast(buf, count, t, root, comm);
}

int MPI_Ibcast(void *buf, int count, MPI_Datatype t, int root, MPI_Comm comm, MPI_Request *req)
{
	struct args a = { .call = IBCAST, .dst = buf, .count = count, .type = t, .root = root,
			  .comm = comm };
	struct todo d;
	struct ring *r = todo_bcast(&a, &d);

	return r ? pending_begin(r, &d, req) : PMPI_Ibcast(buf, count, t, root, comm, req);
}

int MPI_Allgather(const void *src, int src_count, MPI_Datatype src_type, void *dst,
		  int count, MPI_Datatype t, MPI_Comm comm)
{
	struct args a = { .call = ALLGATHER, .src = src, .src_count = src_count,
			  .src_type = src_type, .dst = dst, .count = count, .type = t,
			  .comm = comm };
	struct todo d;
	struct ring *r = todo_allgather(&a, &d);

	return r ? run(r, comm, &d) :
		   PMPI_Allgather(src, src_count, src_type, dst, count, t, comm);
}

int MPI_Iallgather(const void *src, int src_count, MPI_Datatype src_type, void *dst,
		   int count, MPI_Datatype t, MPI_Comm comm, MPI_Request *req)
{
	struct args a = { .call = IALLGATHER, .src = src, .src_count = src_count,
			  .src_type = src_type, .dst = dst, .count = count, .type = t,
			  .comm = comm };
	struct todo d;
	struct ring *r = todo_allgather(&a, &d);

	return r ? pending_begin(r, &d, req) :
		   PMPI_Iallgather(src, src_count, src_type, dst, count, t, comm, req);
}

int MPI_Barrier(MPI_Comm comm)
{
	struct args a = { .call = BARRIER, .comm = comm };
	struct todo d;
	struct ring *r = todo_barrier(&a, &d);

	return r ? run(r, comm, &d) : PMPI_Barrier(comm);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *req)
{
	struct args a = { .call = IBARRIER, .comm = comm };
	struct todo d;
	struct ring *r = todo_barrier(&a, &d);

	return r ? pending_begin(r, &d, req) : PMPI_Ibarrier(comm, req);
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
	ring_with(MPI_COMM_WORLD);
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

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *new)
{
	int ret = PMPI_Comm_dup(comm, new);

	if (!ret)
		ring_with(*new);
	return ret;
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *new)
{
	int ret = PMPI_Comm_dup_with_info(comm, info, new);

	if (!ret)
		ring_with(*new);
	return ret;
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *new)
{
	int ret = PMPI_Comm_split(comm, color, key, new);

	if (!ret)
		ring_with(*new);
	return ret;
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *new)
{
	int ret = PMPI_Comm_create(comm, group, new);

	if (!ret)
		ring_with(*new);
	return ret;
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
