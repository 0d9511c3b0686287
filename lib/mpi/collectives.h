/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The collectives. preload.c makes functions of MPI of them, and component.c those that Open MPI
 * calls for the collectives of a communicator. They define before:
 *
 * COLLECTIVE(Name, name)	the head of a function, without its arguments
 * MODULE			the end of the arguments
 * TODO(name, args, todo)	the ring for the call, by the function todo_NAME of calls.c, or NULL
 * BY_MPI(Name, name, ...)	the call by the MPI library
 */

COLLECTIVE(Allreduce, allreduce)
	(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op, MPI_Comm comm MODULE)
{
	struct args a = { .call = ALLREDUCE, .src = src, .dst = dst, .count = count, .type = t,
			  .op = op, .comm = comm };
	struct todo d;
	struct ring *r = TODO(allreduce, &a, &d);

	return r ? run(r, comm, &d) : BY_MPI(Allreduce, allreduce, src, dst, count, t, op, comm);
}

COLLECTIVE(Iallreduce, iallreduce)
	(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op, MPI_Comm comm,
	 MPI_Request *req MODULE)
{
	struct args a = { .call = IALLREDUCE, .src = src, .dst = dst, .count = count, .type = t,
			  .op = op, .comm = comm };
	struct todo d;
	struct ring *r = TODO(allreduce, &a, &d);

	return r ? pending_begin(r, &d, req) :
		   BY_MPI(Iallreduce, iallreduce, src, dst, count, t, op, comm, req);
}

COLLECTIVE(Reduce, reduce)
	(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op, int root,
	 MPI_Comm comm MODULE)
{
	struct args a = { .call = REDUCE, .src = src, .dst = dst, .count = count, .type = t,
			  .op = op, .root = root, .comm = comm };
	struct todo d;
	struct ring *r = TODO(reduce, &a, &d);

	return r ? run(r, comm, &d) : BY_MPI(Reduce, reduce, src, dst, count, t, op, root, comm);
}

COLLECTIVE(Ireduce, ireduce)
	(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op, int root,
	 MPI_Comm comm, MPI_Request *req MODULE)
{
	struct args a = { .call = IREDUCE, .src = src, .dst = dst, .count = count, .type = t,
			  .op = op, .root = root, .comm = comm };
	struct todo d;
	struct ring *r = TODO(reduce, &a, &d);

	return r ? pending_begin(r, &d, req) :
		   BY_MPI(Ireduce, ireduce, src, dst, count, t, op, root, comm, req);
}

COLLECTIVE(Reduce_scatter_block, reduce_scatter_block)
	(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op, MPI_Comm comm MODULE)
{
	struct args a = { .call = REDUCE_SCATTER_BLOCK, .src = src, .dst = dst, .count = count,
			  .type = t, .op = op, .comm = comm };
	struct todo d;
	struct ring *r = TODO(reduce_scatter_block, &a, &d);

	return r ? run(r, comm, &d) :
		   BY_MPI(Reduce_scatter_block, reduce_scatter_block, src, dst, count, t, op, comm);
}

COLLECTIVE(Ireduce_scatter_block, ireduce_scatter_block)
	(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op, MPI_Comm comm,
	 MPI_Request *req MODULE)
{
	struct args a = { .call = IREDUCE_SCATTER_BLOCK, .src = src, .dst = dst, .count = count,
			  .type = t, .op = op, .comm = comm };
	struct todo d;
	struct ring *r = TODO(reduce_scatter_block, &a, &d);

	return r ? pending_begin(r, &d, req) :
		   BY_MPI(Ireduce_scatter_block, ireduce_scatter_block, src, dst, count, t, op,
			  comm, req);
}

COLLECTIVE(Bcast, bcast)
	(void *buf, int count, MPI_Datatype t, int root, MPI_Comm comm MODULE)
{
	struct args a = { .call = BCAST, .dst = buf, .count = count, .type = t, .root = root,
			  .comm = comm };
	struct todo d;
	struct ring *r = TODO(bcast, &a, &d);

	return r ? run(r, comm, &d) : BY_MPI(Bcast, bcast, buf, count, t, root, comm);
}

COLLECTIVE(Ibcast, ibcast)
	(void *buf, int count, MPI_Datatype t, int root, MPI_Comm comm, MPI_Request *req MODULE)
{
	struct args a = { .call = IBCAST, .dst = buf, .count = count, .type = t, .root = root,
			  .comm = comm };
	struct todo d;
	struct ring *r = TODO(bcast, &a, &d);

	return r ? pending_begin(r, &d, req) :
		   BY_MPI(Ibcast, ibcast, buf, count, t, root, comm, req);
}

COLLECTIVE(Allgather, allgather)
	(const void *src, int src_count, MPI_Datatype src_type, void *dst, int count,
	 MPI_Datatype t, MPI_Comm comm MODULE)
{
	struct args a = { .call = ALLGATHER, .src = src, .src_count = src_count,
			  .src_type = src_type, .dst = dst, .count = count, .type = t,
			  .comm = comm };
	struct todo d;
	struct ring *r = TODO(allgather, &a, &d);

	return r ? run(r, comm, &d) :
		   BY_MPI(Allgather, allgather, src, src_count, src_type, dst, count, t, comm);
}

COLLECTIVE(Iallgather, iallgather)
	(const void *src, int src_count, MPI_Datatype src_type, void *dst, int count,
	 MPI_Datatype t, MPI_Comm comm, MPI_Request *req MODULE)
{
	struct args a = { .call = IALLGATHER, .src = src, .src_count = src_count,
			  .src_type = src_type, .dst = dst, .count = count, .type = t,
			  .comm = comm };
	struct todo d;
	struct ring *r = TODO(allgather, &a, &d);

	return r ? pending_begin(r, &d, req) :
		   BY_MPI(Iallgather, iallgather, src, src_count, src_type, dst, count, t, comm,
			  req);
}

COLLECTIVE(Barrier, barrier)
	(MPI_Comm comm MODULE)
{
	struct args a = { .call = BARRIER, .comm = comm };
	struct todo d;
	struct ring *r = TODO(barrier, &a, &d);

	return r ? run(r, comm, &d) : BY_MPI(Barrier, barrier, comm);
}

COLLECTIVE(Ibarrier, ibarrier)
	(MPI_Comm comm, MPI_Request *req MODULE)
{
	struct args a = { .call = IBARRIER, .comm = comm };
	struct todo d;
	struct ring *r = TODO(barrier, &a, &d);

	return r ? pending_begin(r, &d, req) : BY_MPI(Ibarrier, ibarrier, comm, req);
}
