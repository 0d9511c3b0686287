// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * mpi_limits: from which size on the ring is faster than the MPI library, for each collective.
 *
 * mpi_limits [MAX-BYTES [ROUNDS]]: run it like the program in question, with the same hosts and
 * ranks, the library preloaded and RAR_MPI_MIN=0 RAR_MPI_AFTER=1 (RAR_MPI_ONE_HOST=1 on one
 * host). It calls MPI_Allreduce(), which goes by the ring, and PMPI_Allreduce(), which does not,
 * in turns, and prints the medians of the slowest rank, and the limits that follow from them.
 * A non-blocking call is begun and waited for at once.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

static int rank, size;
static float *in, *out;

static void once_begun(int call, int by_mpi, int n)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	MPI_Request req = MPI_REQUEST_NULL;
	int part = n / size;

	switch (call) {
	case IALLREDUCE:
		(by_mpi ? PMPI_Iallreduce : MPI_Iallreduce)(in, out, n, MPI_FLOAT, MPI_SUM, comm,
							    &req);
		break;
	case IREDUCE:
		(by_mpi ? PMPI_Ireduce : MPI_Ireduce)(in, out, n, MPI_FLOAT, MPI_SUM, 0, comm,
						      &req);
		break;
	case IBCAST:
		(by_mpi ? PMPI_Ibcast : MPI_Ibcast)(in, n, MPI_FLOAT, 0, comm, &req);
		break;
	case IALLGATHER:
		(by_mpi ? PMPI_Iallgather : MPI_Iallgather)(in, part, MPI_FLOAT, out, part,
							    MPI_FLOAT, comm, &req);
		break;
	case IREDUCE_SCATTER_BLOCK:
		(by_mpi ? PMPI_Ireduce_scatter_block : MPI_Ireduce_scatter_block)
			(in, out, part, MPI_FLOAT, MPI_SUM, comm, &req);
		break;
	case IBARRIER:
		(by_mpi ? PMPI_Ibarrier : MPI_Ibarrier)(comm, &req);
		break;
	}
	MPI_Wait(&req, MPI_STATUS_IGNORE);
}

/* One call of @n floats in all. */
static void once(int call, int by_mpi, int n)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	int part = n / size;

	if (call >= IALLREDUCE) {
		once_begun(call, by_mpi, n);
		return;
	}

	switch (call) {
	case ALLREDUCE:
		(by_mpi ? PMPI_Allreduce : MPI_Allreduce)(in, out, n, MPI_FLOAT, MPI_SUM, comm);
		break;
	case REDUCE:
		(by_mpi ? PMPI_Reduce : MPI_Reduce)(in, out, n, MPI_FLOAT, MPI_SUM, 0, comm);
		break;
	case BCAST:
		(by_mpi ? PMPI_Bcast : MPI_Bcast)(in, n, MPI_FLOAT, 0, comm);
		break;
	case ALLGATHER:
		(by_mpi ? PMPI_Allgather : MPI_Allgather)(in, part, MPI_FLOAT, out, part,
							  MPI_FLOAT, comm);
		break;
	case REDUCE_SCATTER_BLOCK:
		(by_mpi ? PMPI_Reduce_scatter_block : MPI_Reduce_scatter_block)
			(in, out, part, MPI_FLOAT, MPI_SUM, comm);
		break;
	case BARRIER:
		(by_mpi ? PMPI_Barrier : MPI_Barrier)(comm);
		break;
	}
}

/* Microseconds of a call, on the rank where it takes longest. */
static double time_of(int call, int by_mpi, int n, int repeat)
{
	double t, all;
	int i;

	PMPI_Barrier(MPI_COMM_WORLD);
	t = PMPI_Wtime();
	for (i = 0; i < repeat; i++)
		once(call, by_mpi, n);
	t = (PMPI_Wtime() - t) * 1e6 / repeat;
	PMPI_Allreduce(&t, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static int compare(const void *a, const void *b)
{
	return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b);
}

/* Measure one cell and print it. Result: is the ring clearly faster? */
static int cell(int call, int n, int rounds)
{
	int bytes = n * sizeof(float), repeat = bytes < 65536 ? 20 : bytes < 1 << 20 ? 5 : 2;
	double *t[2], median[2];
	int way, i;

	for (way = 0; way < 2; way++) {
		t[way] = calloc(rounds, sizeof(double));
		once(call, way, n);
	}
	for (i = 0; i < rounds; i++)	/* the order alternates, too */
		for (way = 0; way < 2; way++)
			t[way ^ (i & 1)][i] = time_of(call, way ^ (i & 1), n, repeat);
	for (way = 0; way < 2; way++) {
		qsort(t[way], rounds, sizeof(double), compare);
		median[way] = t[way][rounds / 2];
		free(t[way]);
	}
	if (!rank)
		printf("%-21s %9d %11.1f %11.1f %7.2f\n", call_names[call], bytes, median[1],
		       median[0], median[1] / median[0]);
	fflush(stdout);
	PMPI_Bcast(median, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	return median[0] * 1.1 < median[1];
}

/* The size from which on the ring is faster in all cells by a tenth; -1: none. */
static long limit_of(int call, long max, int rounds)
{
	long bytes, limit = -1;

	if (call == BARRIER || call == IBARRIER)
		return cell(call, 0, rounds) ? 0 : -1;
	for (bytes = 64; bytes <= max; bytes *= 4) {
		if (bytes < (long)sizeof(float) * size)
			continue;
		if (!cell(call, bytes / sizeof(float), rounds))
			limit = -1;
		else if (limit < 0)
			limit = bytes;
	}
	return limit;
}

int main(int argc, char **argv)
{
	long max = argc > 1 ? atol(argv[1]) : 4 << 20, limits[CALLS];
	int rounds = argc > 2 ? atoi(argv[2]) : 9, call;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	in = calloc(1, max + sizeof(float));
	out = calloc(1, max + sizeof(float));
	if (max < 64 || rounds < 1 || !in || !out) {
		fprintf(stderr, "usage: mpi_limits [MAX-BYTES [ROUNDS]]\n");
		PMPI_Abort(MPI_COMM_WORLD, 2);
	}
	if (!rank)
		printf("# %d ranks, microseconds\n%-21s %9s %11s %11s %7s\n", size, "", "bytes",
		       "MPI", "ring", "ratio");
	for (call = 0; call < CALLS; call++)
		limits[call] = limit_of(call, max, rounds);
	if (!rank) {
		printf("RAR_MPI_MIN=");
		for (call = 0; call < CALLS; call++)
			if (limits[call] < 0)
				printf("%s%s=off", call ? "," : "", call_names[call]);
			else
				printf("%s%s=%ld", call ? "," : "", call_names[call], limits[call]);
		printf("\n");
	}
	MPI_Finalize();
	return 0;
}
