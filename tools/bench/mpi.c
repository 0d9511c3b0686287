// SPDX-License-Identifier: GPL-2.0
/*
 * mpi CTL: MPI_Allreduce and MPI_Bcast of the library this was built for, with the algorithms
 * that it chooses. The third knob makes an all-reduce of other calls: 1 of MPI_Reduce_scatter_block
 * and MPI_Allgather, if each rank has a whole number of elements, 2 of MPI_Reduce and MPI_Bcast.
 */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>

#include "bench.h"

static uint64_t form;

static int prepare(struct bench_rank *r, const struct bench_job *job)
{
	(void)r;
	form = job->knob[2];
	return 0;
}

static int by_shares(struct bench_rank *r, int count, MPI_Datatype type)
{
	int n = count / r->size;

	if (n * (int)r->size != count)
		return MPI_ERR_COUNT;
	return MPI_Reduce_scatter_block(r->buf, r->spare, n, type, MPI_SUM, MPI_COMM_WORLD) ||
	       MPI_Allgather(r->spare, n, type, r->buf, n, type, MPI_COMM_WORLD);
}

static int by_root(struct bench_rank *r, int count, MPI_Datatype type)
{
	void *in = r->rank ? r->buf : MPI_IN_PLACE;

	return MPI_Reduce(in, r->buf, count, type, MPI_SUM, 0, MPI_COMM_WORLD) ||
	       MPI_Bcast(r->buf, count, type, 0, MPI_COMM_WORLD);
}

static int allreduce(struct bench_rank *r, size_t bytes, enum bench_type kind)
{
	MPI_Datatype type = kind == BENCH_F32 ? MPI_FLOAT : MPI_INT;
	int count = bytes / 4, err;

	if (form == 1)
		err = by_shares(r, count, type);
	else if (form == 2)
		err = by_root(r, count, type);
	else
		err = MPI_Allreduce(MPI_IN_PLACE, r->buf, count, type, MPI_SUM, MPI_COMM_WORLD);
	return err == MPI_SUCCESS ? 0 : -EIO;
}

static int broadcast(struct bench_rank *r, size_t bytes)
{
	return MPI_Bcast(r->buf, bytes, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	static const struct bench_peer peer = {
		.prepare = prepare, .allreduce = allreduce, .broadcast = broadcast, .spare = true,
	};
	int rank, status = 2;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc == 2)
		status = bench_serve(argv[1], rank, &peer, NULL);
	else
		fprintf(stderr, "usage: mpirun mpi CTL\n");
	MPI_Finalize();
	return status;
}
