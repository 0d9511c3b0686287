// SPDX-License-Identifier: GPL-2.0
/*
 * An MPI program like any other, for mpi_preload.sh: every call that may go by the ring, with all
 * types, against values known beforehand; other communicators; a message that must go on while a
 * rank waits.
 *
 * mpi_calls [short | types | few | brief | late | die]: with fewer sizes and types, with fewer
 * sizes; only a few calls; many of a few bytes; the last rank comes late; rank 2 is killed.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_rank.h"

static int sizes = 4, all_types = 1;

#define TYPE(T, mpi)							\
	do {								\
		for (int n = 0; n < sizes; n++)			\
			type_##T(counts[n], mpi, #mpi);			\
	} while (0)

#define DEFINE(T)							\
static void type_##T(int count, MPI_Datatype t, const char *name)	\
{									\
	T *x = malloc((count * size + 1) * sizeof(T)), *y = malloc((count * size + 1) * sizeof(T)); \
	int i, ok = 1, root = count % size;				\
									\
	for (i = 0; i < count * size; i++)				\
		x[i] = number(rank, i);					\
	MPI_Allreduce(x, y, count, t, MPI_SUM, MPI_COMM_WORLD);		\
	for (i = 0; i < count; i++)					\
		ok &= y[i] == (T)sum(i);				\
	CHECK(ok, "allreduce %s %d", name, count);			\
	memcpy(y, x, count * sizeof(T));				\
	MPI_Allreduce(MPI_IN_PLACE, y, count, t, MPI_SUM, MPI_COMM_WORLD); \
	for (i = 0; i < count; i++)					\
		ok &= y[i] == (T)sum(i);				\
	CHECK(ok, "allreduce in place %s %d", name, count);		\
	MPI_Reduce(x, y, count, t, MPI_SUM, root, MPI_COMM_WORLD);	\
	for (i = 0; i < count && rank == root; i++)			\
		ok &= y[i] == (T)sum(i);				\
	memcpy(y, x, count * sizeof(T));				\
	MPI_Reduce(rank ? x : MPI_IN_PLACE, y, count, t, MPI_SUM, 0, MPI_COMM_WORLD); \
	for (i = 0; i < count && !rank; i++)				\
		ok &= y[i] == (T)sum(i);				\
	CHECK(ok, "reduce %s %d", name, count);				\
	memcpy(y, x, count * sizeof(T));				\
	MPI_Bcast(y, count, t, root, MPI_COMM_WORLD);			\
	for (i = 0; i < count; i++)					\
		ok &= y[i] == (T)number(root, i);			\
	CHECK(ok, "bcast %s %d", name, count);				\
	MPI_Allgather(x, count, t, y, count, t, MPI_COMM_WORLD);	\
	for (i = 0; i < count * size; i++)				\
		ok &= y[i] == (T)number(i / count, i % count);		\
	memset(y, 0, count * size * sizeof(T));				\
	memcpy(y + rank * count, x, count * sizeof(T));			\
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, y, count, t, MPI_COMM_WORLD); \
	for (i = 0; i < count * size; i++)				\
		ok &= y[i] == (T)number(i / count, i % count);		\
	CHECK(ok, "allgather %s %d", name, count);			\
	MPI_Reduce_scatter_block(x, y, count, t, MPI_SUM, MPI_COMM_WORLD); \
	for (i = 0; i < count; i++)					\
		ok &= y[i] == (T)sum(rank * count + i);			\
	memcpy(y, x, count * size * sizeof(T));				\
	MPI_Reduce_scatter_block(MPI_IN_PLACE, y, count, t, MPI_SUM, MPI_COMM_WORLD); \
	for (i = 0; i < count; i++)					\
		ok &= y[i] == (T)sum(rank * count + i);			\
	CHECK(ok, "reduce-scatter %s %d", name, count);			\
	free(x);							\
	free(y);							\
}

DEFINE(float)
DEFINE(double)
DEFINE(int8_t)
DEFINE(uint8_t)
DEFINE(int16_t)
DEFINE(uint16_t)
DEFINE(int32_t)
DEFINE(uint32_t)
DEFINE(int64_t)
DEFINE(uint64_t)

static void types(void)
{
	static const int counts[] = { 3, 20011, 1, 1000 };

	TYPE(float, MPI_FLOAT);
	TYPE(int32_t, MPI_INT);
	if (!all_types)
		return;
	TYPE(double, MPI_DOUBLE);
	TYPE(int8_t, MPI_INT8_T);
	TYPE(uint8_t, MPI_UNSIGNED_CHAR);
	TYPE(int16_t, MPI_SHORT);
	TYPE(uint16_t, MPI_UINT16_T);
	TYPE(uint32_t, MPI_UNSIGNED);
	TYPE(int64_t, MPI_LONG);
	TYPE(uint64_t, MPI_UINT64_T);
	TYPE(double, MPI_REAL8);
	TYPE(int64_t, MPI_INTEGER8);
}

static void user_max(void *in, void *out, int *n, MPI_Datatype *t)
{
	(void)t;
	for (int i = 0; i < *n; i++)
		if (((int *)in)[i] > ((int *)out)[i])
			((int *)out)[i] = ((int *)in)[i];
}

/* A call that is cut into pieces. */
static void large(void)
{
	int i, n = (9 << 20) / sizeof(float), ok = 1;
	float *x = malloc(n * sizeof(float)), *y = malloc(n * sizeof(float));

	for (i = 0; i < n; i++)
		x[i] = number(rank, i);
	MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	for (i = 0; i < n; i++)
		ok &= y[i] == sum(i);
	MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	ok &= !memcmp(x, y, n * sizeof(float));
	CHECK(ok, "allreduce of %d", n);
	for (i = 0; i < n; i++)
		x[i] = number(rank, i);
	MPI_Bcast(x, n, MPI_FLOAT, size - 1, MPI_COMM_WORLD);
	for (i = 0; i < n; i++)
		ok &= x[i] == number(size - 1, i);
	CHECK(ok, "bcast of %d", n);
	for (i = 0; i < n; i++)
		x[i] = number(rank, i);
	MPI_Reduce(x, y, n, MPI_FLOAT, MPI_SUM, 1 % size, MPI_COMM_WORLD);
	for (i = 0; i < n && rank == 1 % size; i++)
		ok &= y[i] == sum(i);
	CHECK(ok, "reduce of %d", n);
	free(x);
	free(y);
}

/* Reductions, and what the ring does not have. */
static void reductions(void)
{
	double c[4] = { rank, 1, 2, rank }, d[4];
	int x[3] = { rank, 1, rank == 1 }, y[3];
	struct { double v; int at; } in = { rank, rank }, out;
	MPI_Op op;

	MPI_Allreduce(x, y, 3, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	CHECK(y[0] == size - 1 && y[1] == 1 && y[2] == (size > 1), "max");
	MPI_Allreduce(x, y, 3, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	CHECK(!y[0] && y[1] == 1, "land");
	MPI_Allreduce(x, y, 3, MPI_INT, MPI_BXOR, MPI_COMM_WORLD);
	CHECK(y[2] == (size > 1), "bxor");
	MPI_Allreduce(c, d, 2, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
	CHECK(d[0] == size * (size - 1) / 2 && d[2] == 2 * size && d[3] == d[0], "complex");
	MPI_Allreduce(c, d, 2, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
	CHECK(d[0] == size * (size - 1) / 2 && d[2] == 2 * size && d[3] == d[0], "Fortran's complex");
	MPI_Allreduce(&in, &out, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	CHECK(out.at == size - 1, "maxloc");
	MPI_Op_create(user_max, 1, &op);
	MPI_Allreduce(x, y, 3, MPI_INT, op, MPI_COMM_WORLD);
	CHECK(y[0] == size - 1, "user operation");
	MPI_Op_free(&op);
	for (int i = 0; i < 5; i++)
		MPI_Barrier(MPI_COMM_WORLD);
}

/* Every second number of a vector; other ranks describe the same numbers by another type. */
static void derived(void)
{
	int x[2000], y[1000], *all = malloc(1000 * size * sizeof(int)), ok = 1;
	MPI_Datatype vector;

	MPI_Type_vector(1000, 1, 2, MPI_INT, &vector);
	MPI_Type_commit(&vector);
	for (int i = 0; i < 2000; i++)
		x[i] = rank ? -1 : i;
	if (rank % 2) {
		MPI_Bcast(y, 1000, MPI_INT, 0, MPI_COMM_WORLD);
		for (int i = 0; i < 1000; i++)
			ok &= y[i] == 2 * i;
	} else {
		MPI_Bcast(x, 1, vector, 0, MPI_COMM_WORLD);
		for (int i = 0; i < 1000; i++)
			ok &= x[2 * i] == 2 * i && x[2 * i + 1] == (rank ? -1 : 2 * i + 1);
	}
	CHECK(ok, "bcast");
	for (int i = 0; i < 2000; i++)
		x[i] = rank * 2000 + i;
	MPI_Allgather(x, 1, vector, all, 1000, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < 1000 * size; i++)
		ok &= all[i] == i / 1000 * 2000 + i % 1000 * 2;
	CHECK(ok, "allgather");
	MPI_Type_free(&vector);
	free(all);
}

/*
 * Both halves of the ranks, and the ranks of both. Open MPI makes calls on the halves for these,
 * with types of its own.
 */
static void intercommunicators(void)
{
	int r, n, y[2] = {}, others, *all = calloc(size, 2 * sizeof(int)), ok = 1;
	MPI_Comm half, inter, merged;

	if (size < 2)
		return;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Barrier(half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(rank % 2), 3, &inter);
	MPI_Comm_remote_size(inter, &others);
	MPI_Allreduce(&rank, y, 1, MPI_INT, MPI_MIN, inter);
	CHECK(y[0] == !(rank % 2), "%d", y[0]);
	y[0] = y[1] = rank;
	MPI_Allgather(y, 2, MPI_INT, all, 2, MPI_INT, inter);
	for (int i = 0; i < 2 * others; i++)
		ok &= all[i] == i / 2 * 2 + !(rank % 2);
	CHECK(ok, "allgather");
	MPI_Intercomm_merge(inter, rank % 2, &merged);
	MPI_Comm_rank(merged, &r);
	MPI_Comm_size(merged, &n);
	MPI_Allreduce(&r, y, 1, MPI_INT, MPI_SUM, merged);
	CHECK(n == size && y[0] == size * (size - 1) / 2, "%d", y[0]);
	MPI_Comm_free(&merged);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
	free(all);
}

static void communicators(void)
{
	MPI_Comm half, copy[3];
	MPI_Request req[3];
	MPI_Status status[3];
	float x = 1, y, z[3];
	int n;

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Comm_size(half, &n);
	MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_SUM, half);
	CHECK(y == n, "split");
	for (int i = 0; i < 3; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &copy[i]);
	for (int i = 0; i < 3; i++)
		MPI_Iallreduce(&x, &z[i], 1, MPI_FLOAT, MPI_SUM, copy[i], &req[i]);
	MPI_Waitall(3, req, status);
	for (int i = 0; i < 3; i++) {
		MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_SUM, copy[i]);
		CHECK(y == size && z[i] == size, "dup %d", i);
	}
	for (int i = 2; i >= 0; i--)
		MPI_Comm_free(&copy[i]);
	MPI_Comm_free(&half);
}

/* Rank 1 receives a long message from rank 0 before it comes to the call in which 0 waits. */
static void messages(void)
{
	int n = 2 << 20;
	char *buf = calloc(1, n);
	float x = 1, y = 0;
	MPI_Request req;

	if (size > 1 && !rank)
		MPI_Isend(buf, n, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &req);
	if (rank == 1)
		MPI_Recv(buf, n, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	if (size > 1 && !rank)
		MPI_Wait(&req, MPI_STATUS_IGNORE);
	CHECK(y == size, "%g", y);
	free(buf);
}

/* As most programs do: a number or two, often, and a barrier now and then. */
/* The other collectives, of one number of each rank or root; turn @i. Nonzero if they are right. */
static int brief_others(int i)
{
	int root = i % size, all = size * (size - 1) / 2, ok = 1;
	double x[size], y[size], own = rank + i;

	MPI_Allgather(&own, 1, MPI_DOUBLE, y, 1, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++) {
		ok &= y[r] == r + i;
		x[r] = rank * (r + 1.0);
	}
	MPI_Reduce_scatter_block(x, &own, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	ok &= own == all * (rank + 1.0);
	own = rank == root ? i : -1;
	MPI_Bcast(&own, 1, MPI_DOUBLE, root, MPI_COMM_WORLD);
	ok &= own == i;
	own = rank;
	y[0] = -1;
	MPI_Reduce(&own, y, 1, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
	return ok && y[0] == (rank == root ? all : -1);
}

static void brief(void)
{
	double x[2] = { rank, 1 }, y[2];
	int ok = 1, others = 1;

	for (int i = 0; i < 200; i++) {
		x[1] = i;
		MPI_Allreduce(x, y, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		ok &= y[0] == size * (size - 1) / 2 && y[1] == i * size;
		others &= brief_others(i);
		if (i % 10 == 9)
			MPI_Barrier(MPI_COMM_WORLD);
	}
	CHECK(ok, "allreduce of two");
	CHECK(others, "other calls of a number each");
}

/* The last rank comes to a broadcast long after the others have left the communicator. */
static void late(void)
{
	int n = 1 << 18, ok = 1;	/* more than net.rar.early_bytes */
	float *x = malloc(n * sizeof(*x));
	MPI_Comm copy;

	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < n; k++)
			x[k] = rank + k;
		MPI_Comm_dup(MPI_COMM_WORLD, &copy);
		MPI_Barrier(i ? MPI_COMM_WORLD : copy);		/* makes the ring */
		if (rank == size - 1)
			sleep(7);	/* more than net.rar.linger_ms */
		MPI_Bcast(x, n, MPI_FLOAT, 0, i ? MPI_COMM_WORLD : copy);
		for (int k = 0; k < n; k++)
			ok &= x[k] == k;
		CHECK(ok, "bcast %d", i);
		MPI_Comm_free(&copy);
	}
	free(x);
}

/* Rank 2 is killed; the errors that the other ranks print name it. */
static void die(void)
{
	float x = 1, y;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 2)
		raise(SIGKILL);
	MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	_exit(0);
}

static void all_calls(void)
{
	types();
	large();
	reductions();
	derived();
	communicators();
	intercommunicators();
	messages();
}

int main(int argc, char **argv)
{
	int provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	begin_rank();
	if (argc > 1 && !strcmp(argv[1], "die"))
		die();
	if (argc > 1)
		sizes = 2;
	all_types = argc < 2 || strcmp(argv[1], "short");
	if (argc > 1 && !strcmp(argv[1], "late"))
		late();
	else if (argc > 1 && !strcmp(argv[1], "few"))
		communicators();
	else if (argc > 1 && !strcmp(argv[1], "brief"))
		brief();
	else
		all_calls();
	end_rank();
	return bad != 0;
}
