// SPDX-License-Identifier: GPL-2.0
/*
 * mpi CTL: MPI_Allreduce and MPI_Bcast of the library this was built for, with the algorithms
 * that it chooses.
 */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>

#include "bench.h"

static int allreduce(struct bench_rank *r, size_t bytes, enum bench_type type)
{
	int err = MPI_Allreduce(MPI_IN_PLACE, r->buf, bytes / 4,
				type == BENCH_F32 ? MPI_FLOAT : MPI_INT, MPI_SUM, MPI_COMM_WORLD);

	return err == MPI_SUCCESS ? 0 : -EIO;
}

static int broadcast(struct bench_rank *r, size_t bytes)
{
	return MPI_Bcast(r->buf, bytes, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	static const struct bench_peer peer = {
		.allreduce = allreduce, .broadcast = broadcast,
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
