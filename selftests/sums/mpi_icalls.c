// SPDX-License-Identifier: GPL-2.0
/*
 * An MPI program with non-blocking collectives, for mpi_preload.sh: each call, waited for by each
 * call for requests, beside messages, by several threads, on communicators that are freed; long
 * calls of which a rank that waits elsewhere must start the rest.
 *
 * mpi_icalls [all | few | due | new | die [single]]: all calls; only a few; five calls, a barrier,
 * and five more; five on each of two new communicators; rank 2 is killed. "single": the program
 * tells MPI that it has no threads.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_rank.h"

enum {
	SOME = 3001,		/* floats */
	LONG = 3 << 20,		/* more than may be in flight */
	MESSAGE = 1 << 20,	/* bytes that do not leave before the receiver is there */
};

static int by_ring;		/* do what the MPI libraries themselves cannot */
static MPI_Status *ignored;	/* a constant would make MPICH's header warn */

/* -- the calls for requests ------------------------------------------------ */

static void by_wait(int n, MPI_Request *req)
{
	for (int i = 0; i < n; i++)
		MPI_Wait(&req[i], MPI_STATUS_IGNORE);
}

static void by_pmpi_wait(int n, MPI_Request *req)
{
	for (int i = 0; i < n; i++)
		PMPI_Wait(&req[i], MPI_STATUS_IGNORE);
}

static void by_test(int n, MPI_Request *req)
{
	for (int i = 0, done = 0; i < n; i++, done = 0)
		while (!done)
			MPI_Test(&req[i], &done, MPI_STATUS_IGNORE);
}

static void by_waitall(int n, MPI_Request *req)
{
	MPI_Status status[16];

	MPI_Waitall(n, req, status);
}

static void by_pmpi_waitall(int n, MPI_Request *req)
{
	PMPI_Waitall(n, req, ignored);
}

static void by_testall(int n, MPI_Request *req)
{
	int done = 0;

	while (!done)
		MPI_Testall(n, req, &done, ignored);
}

static void by_waitany(int n, MPI_Request *req)
{
	int at = 0;

	while (at != MPI_UNDEFINED)
		MPI_Waitany(n, req, &at, MPI_STATUS_IGNORE);
}

static void by_pmpi_waitany(int n, MPI_Request *req)
{
	int at = 0;

	while (at != MPI_UNDEFINED)
		PMPI_Waitany(n, req, &at, MPI_STATUS_IGNORE);
}

static void by_testany(int n, MPI_Request *req)
{
	int at = 0, done = 0;

	while (!done || at != MPI_UNDEFINED)
		MPI_Testany(n, req, &at, &done, MPI_STATUS_IGNORE);
}

static void by_waitsome(int n, MPI_Request *req)
{
	int some = 0, at[16];

	while (some != MPI_UNDEFINED)
		MPI_Waitsome(n, req, &some, at, ignored);
}

static void by_testsome(int n, MPI_Request *req)
{
	int some = 0, at[16];
	MPI_Status status[16];

	while (some != MPI_UNDEFINED)
		MPI_Testsome(n, req, &some, at, status);
}

static void by_get_status(int n, MPI_Request *req)
{
	MPI_Status status;
	int done;

	for (int i = 0; i < n; i++) {
		for (done = 0; !done; )
			MPI_Request_get_status(req[i], &done, &status);
		MPI_Wait(&req[i], &status);
	}
}

static const struct way {
	const char *name;
	void (*finish)(int n, MPI_Request *req);
} ways[] = {
	{ "wait", by_wait }, { "PMPI wait", by_pmpi_wait }, { "test", by_test },
	{ "waitall", by_waitall }, { "PMPI waitall", by_pmpi_waitall },
	{ "testall", by_testall }, { "waitany", by_waitany },
	{ "PMPI waitany", by_pmpi_waitany }, { "testany", by_testany },
	{ "waitsome", by_waitsome }, { "testsome", by_testsome },
	{ "get_status", by_get_status },
};

#define WAYS ((int)(sizeof(ways) / sizeof(*ways)))

/* -- data ------------------------------------------------------------------ */

static float *floats(int n)
{
	float *x = malloc(n * sizeof(*x));

	for (int i = 0; i < n; i++)
		x[i] = number(rank, i);
	return x;
}

static int are_sums(const float *x, int from, int n)
{
	int ok = 1;

	for (int i = 0; i < n; i++)
		ok &= x[i] == sum(from + i);
	return ok;
}

static int are_of(const float *x, int r, int n)
{
	int ok = 1;

	for (int i = 0; i < n; i++)
		ok &= x[i] == number(r, i);
	return ok;
}

/* -- each call ------------------------------------------------------------- */

/* All calls at once. With @in_place the ranks' numbers are where the results come. */
static void all_at_once(int n, int in_place, const struct way *way)
{
	MPI_Comm c = MPI_COMM_WORLD;
	int root = n % size, ok = 1;
	float *x = floats(n * size), *y[5];
	const void *src = in_place ? MPI_IN_PLACE : x;
	MPI_Request req[6];

	for (int i = 0; i < 5; i++)
		y[i] = floats(n * size);
	if (in_place)
		memcpy(y[2] + rank * n, x, n * sizeof(float));
	MPI_Iallreduce(src, y[0], n, MPI_FLOAT, MPI_SUM, c, &req[0]);
	MPI_Ireduce(rank == root ? src : x, y[1], n, MPI_FLOAT, MPI_SUM, root, c, &req[1]);
	MPI_Iallgather(src, n, MPI_FLOAT, y[2], n, MPI_FLOAT, c, &req[2]);
	MPI_Ireduce_scatter_block(src, y[3], n, MPI_FLOAT, MPI_SUM, c, &req[3]);
	MPI_Ibcast(y[4], n, MPI_FLOAT, root, c, &req[4]);
	MPI_Ibarrier(c, &req[5]);
	way->finish(6, req);
	for (int i = 0; i < 6; i++)
		CHECK(req[i] == MPI_REQUEST_NULL, "%s %d", way->name, i);
	CHECK(are_sums(y[0], 0, n), "allreduce of %d", n);
	CHECK(rank != root || are_sums(y[1], 0, n), "reduce of %d", n);
	for (int r = 0; r < size; r++)
		ok &= are_of(y[2] + r * n, r, n);
	CHECK(ok, "allgather of %d", n);
	CHECK(are_sums(y[3], rank * n, n), "reduce-scatter of %d", n);
	CHECK(are_of(y[4], root, n), "bcast of %d", n);
	for (int i = 0; i < 5; i++)
		free(y[i]);
	free(x);
}

static void each_call(void)
{
	static const int counts[] = { 1, 7, 1000, 40000 };

	MPI_Barrier(MPI_COMM_WORLD);	/* may make the ring, which the calls below may not */
	for (int i = 0; i < 4; i++)
		for (int in_place = 0; in_place < 2; in_place++)
			all_at_once(counts[i], in_place, &ways[(2 * i + in_place) % WAYS]);
}

/* -- beside messages ------------------------------------------------------- */

static void mixed(const struct way *way)
{
	int left = (rank + size - 1) % size, got = -1;
	MPI_Request req[7];
	float *x = floats(SOME), *y = floats(SOME), *z = floats(SOME * size);

	MPI_Irecv(&got, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &req[0]);
	MPI_Iallreduce(x, y, SOME, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &req[1]);
	req[2] = MPI_REQUEST_NULL;
	MPI_Iallgather(x, SOME, MPI_FLOAT, z, SOME, MPI_FLOAT, MPI_COMM_WORLD, &req[3]);
	MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, &req[4]);
	MPI_Ibarrier(MPI_COMM_WORLD, &req[5]);
	req[6] = MPI_REQUEST_NULL;
	way->finish(7, req);
	CHECK(got == left && are_sums(y, 0, SOME) && are_of(z + left * SOME, left, SOME), "%s",
	      way->name);
	free(x);
	free(y);
	free(z);
}

/* Rank 1 begins the call only when it has a long message of rank 0, which waits for both. */
static void peer_first(const struct way *way)
{
	char *buf = calloc(1, MESSAGE);
	float *x = floats(SOME), *y = floats(SOME);
	MPI_Request req[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };

	if (rank == 1)
		MPI_Recv(buf, MESSAGE, MPI_CHAR, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Iallreduce(x, y, SOME, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &req[0]);
	if (!rank && size > 1)
		MPI_Isend(buf, MESSAGE, MPI_CHAR, 1, 6, MPI_COMM_WORLD, &req[1]);
	way->finish(2, req);
	CHECK(are_sums(y, 0, SOME), "%s", way->name);
	free(buf);
	free(x);
	free(y);
}

/* Only a message that rank 1 sends after its own call lets the last rank begin the call. */
static void any_of_both(void)
{
	float *x = floats(SOME), *y = floats(SOME);
	MPI_Request req[2];
	int at = -1, got = 0;

	if (rank == size - 1)
		MPI_Recv(&got, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Iallreduce(x, y, SOME, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &req[0]);
	if (size > 2 && !rank) {
		MPI_Irecv(&got, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &req[1]);
		MPI_Waitany(2, req, &at, MPI_STATUS_IGNORE);
		CHECK(at == 1, "%d", at);
	}
	if (size > 2 && rank == 1)
		MPI_Send(&rank, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
	if (!rank && size > 1)
		MPI_Send(&rank, 1, MPI_INT, size - 1, 7, MPI_COMM_WORLD);
	MPI_Wait(&req[0], MPI_STATUS_IGNORE);
	CHECK(are_sums(y, 0, SOME), "any of both");
	free(x);
	free(y);
}

/*
 * Rank 0 has begun a long call, and comes back to it only when the last rank is done with it: this
 * rank sends a message, or with @away, in which rank 0 makes no call of MPI, a signal.
 */
static void long_call(int away)
{
	float *x = floats(LONG), *y = floats(LONG), *z = floats(LONG);
	int got = 0, last = size - 1, pid = getpid();
	MPI_Request req[2];
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Iallreduce(x, y, LONG, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &req[0]);
	MPI_Ibcast(z, LONG, MPI_FLOAT, 0, MPI_COMM_WORLD, &req[1]);
	if (!rank && last && away)
		sigwait(&usr1, &got);
	else if (!rank && last)
		MPI_Recv(&got, 1, MPI_INT, last, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Waitall(2, req, ignored);
	if (rank && rank == last && away)
		kill(pid, SIGUSR1);
	else if (rank && rank == last)
		MPI_Send(&rank, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
	CHECK(are_sums(y, 0, LONG) && are_of(z, 0, LONG), "long call");
	free(x);
	free(y);
	free(z);
}

/* -- many, and of several communicators ------------------------------------ */

/* More than librar has room for, with a blocking call between them. */
static void many(void)
{
	enum { CALLS = 150 };
	float *x = floats(SOME), *y[CALLS], z[2];
	MPI_Request req[CALLS];

	for (int i = 0; i < CALLS; i++) {
		y[i] = floats(SOME);
		MPI_Iallreduce(x, y[i], i + 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &req[i]);
		if (i == CALLS / 2)
			MPI_Allreduce(x, z, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	}
	for (int i = CALLS - 1; i >= 0; i--)
		MPI_Wait(&req[i], MPI_STATUS_IGNORE);
	for (int i = 0; i < CALLS; i++) {
		CHECK(are_sums(y[i], 0, i + 1), "%d", i);
		free(y[i]);
	}
	CHECK(are_sums(z, 0, 2), "blocking");
	free(x);
}

/* A blocking call must wait until all of a long call has begun, as it may have on other ranks. */
static void in_order(void)
{
	float *x = floats(LONG), *y = floats(LONG), z[2];
	MPI_Request req;

	MPI_Iallreduce(x, y, LONG, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &req);
	if (rank == 1)
		usleep(200000);
	MPI_Allreduce(x, z, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	CHECK(are_sums(z, 0, 2), "blocking");
	MPI_Wait(&req, MPI_STATUS_IGNORE);
	CHECK(are_sums(y, 0, LONG), "long call");
	free(x);
	free(y);
}

/* They are freed while the calls are in progress, which Open MPI's own calls do not survive. */
static void communicators(void)
{
	MPI_Comm copy[3];
	MPI_Request req[3];
	float *x = floats(LONG), *y[3], z;

	for (int i = 0; i < 3; i++) {
		y[i] = floats(LONG);
		MPI_Comm_dup(MPI_COMM_WORLD, &copy[i]);
		MPI_Allreduce(x, &z, 1, MPI_FLOAT, MPI_SUM, copy[i]);
	}
	for (int i = 0; i < 3; i++)
		MPI_Iallreduce(x, y[i], i ? SOME : LONG, MPI_FLOAT, MPI_SUM, copy[i], &req[i]);
	for (int i = 0; i < 3 && by_ring; i++)
		MPI_Comm_free(&copy[i]);
	by_waitall(3, req);
	for (int i = 0; i < 3; i++) {
		if (!by_ring)
			MPI_Comm_free(&copy[i]);
		CHECK(are_sums(y[i], 0, i ? SOME : LONG), "copy %d", i);
		free(y[i]);
	}
	free(x);
}

/* Types that are freed while the calls are in progress. */
static void derived(void)
{
	int n = 1000, ok = 1, *x = malloc(2 * n * sizeof(int)), *all = malloc(n * size * sizeof(int));
	MPI_Datatype vector;
	MPI_Request req[2];

	MPI_Type_vector(n, 1, 2, MPI_INT, &vector);
	MPI_Type_commit(&vector);
	for (int i = 0; i < 2 * n; i++)
		x[i] = rank * 10000 + i;
	MPI_Iallgather(x, 1, vector, all, n, MPI_INT, MPI_COMM_WORLD, &req[0]);
	MPI_Type_free(&vector);
	MPI_Wait(&req[0], MPI_STATUS_IGNORE);
	for (int i = 0; i < n * size; i++)
		ok &= all[i] == i / n * 10000 + i % n * 2;
	CHECK(ok, "allgather");
	MPI_Type_vector(n, 1, 2, MPI_INT, &vector);
	MPI_Type_commit(&vector);
	if (rank % 2)
		MPI_Ibcast(all, n, MPI_INT, 0, MPI_COMM_WORLD, &req[0]);
	else
		MPI_Ibcast(x, 1, vector, 0, MPI_COMM_WORLD, &req[0]);
	MPI_Type_free(&vector);
	MPI_Ibarrier(MPI_COMM_WORLD, &req[1]);
	by_waitsome(2, req);
	for (int i = 0; i < n; i++)
		ok &= rank % 2 ? all[i] == 2 * i :
			x[2 * i] == 2 * i && x[2 * i + 1] == rank * 10000 + 2 * i + 1;
	CHECK(ok, "bcast");
	free(x);
	free(all);
}

/* A request that is given up: the call goes on, as the other ranks need it. */
static void given_up(void)
{
	float *x = floats(SOME), *y = floats(SOME);
	MPI_Request req;

	MPI_Iallreduce(x, y, SOME, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &req);
	if (by_ring)
		MPI_Request_free(&req);
	else
		MPI_Wait(&req, MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(are_sums(y, 0, SOME), "freed request");
	free(x);
	free(y);
}

/* -- threads --------------------------------------------------------------- */

static MPI_Comm of_thread[2];
static int told[64];

/*
 * Rank 1 begins the call of thread 0 when its thread 1 has a message, which thread 1 of rank 0
 * sends while thread 0 waits.
 */
static void *one_thread(void *arg)
{
	int me = arg != NULL, got;
	float *x = floats(SOME), *y = floats(SOME);
	MPI_Request req[2];

	for (int i = 0; i < WAYS; i++) {
		if (me && !rank && size > 1) {
			usleep(3000);
			MPI_Send(&i, 1, MPI_INT, 1, 10, of_thread[1]);
		}
		if (me && rank == 1) {
			MPI_Recv(&got, 1, MPI_INT, 0, 10, of_thread[1], MPI_STATUS_IGNORE);
			__atomic_store_n(&told[i], 1, __ATOMIC_RELEASE);
		}
		while (!me && rank == 1 && !__atomic_load_n(&told[i], __ATOMIC_ACQUIRE))
			usleep(100);
		memset(y, 0, SOME * sizeof(*y));
		MPI_Iallreduce(x, y, SOME, MPI_FLOAT, MPI_SUM, of_thread[me], &req[0]);
		MPI_Ibarrier(of_thread[me], &req[1]);
		ways[i].finish(2, req);
		if (!are_sums(y, 0, SOME))
			told[me] = -1;
	}
	free(x);
	free(y);
	return NULL;
}

static void threads(void)
{
	pthread_t second;
	float x = 1, y;

	for (int i = 0; i < 2; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[i]);
		MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_SUM, of_thread[i]);
	}
	pthread_create(&second, NULL, one_thread, told);
	one_thread(NULL);
	pthread_join(second, NULL);
	CHECK(told[0] >= 0 && told[1] >= 0, "a thread has wrong sums");
	for (int i = 0; i < 2; i++)
		MPI_Comm_free(&of_thread[i]);
}

/* -- when the ring is made ------------------------------------------------- */

static void five(MPI_Comm comm)
{
	float x = 1, y[5];
	MPI_Request req[5];

	for (int i = 0; i < 5; i++)
		MPI_Iallreduce(&x, &y[i], 1, MPI_FLOAT, MPI_SUM, comm, &req[i]);
	by_waitall(5, req);
	for (int i = 0; i < 5; i++)
		CHECK(y[i] == size, "%d", i);
}

static void due(void)
{
	five(MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	five(MPI_COMM_WORLD);
}

static void new(void)
{
	MPI_Comm copy, half;
	int n;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	five(copy);
	MPI_Comm_free(&copy);
	MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &half);
	MPI_Comm_size(half, &n);
	CHECK(n == size, "%d", n);
	five(half);
	MPI_Comm_free(&half);
}

/* -- failures -------------------------------------------------------------- */

/* Rank 2 is killed; the errors that the other ranks print name it, and their waits fail. */
static void die(void)
{
	MPI_Request req[2];
	MPI_Status status[2];
	float *x = floats(SOME), *y = floats(SOME), *z = floats(SOME);
	int ret, failed;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Allreduce(x, y, SOME, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 2)
		raise(SIGKILL);
	MPI_Iallreduce(x, y, SOME, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &req[0]);
	MPI_Iallreduce(x, z, SOME, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &req[1]);
	if (rank) {
		ret = MPI_Waitall(2, req, status);
		failed = ret == MPI_ERR_IN_STATUS && status[0].MPI_ERROR != MPI_SUCCESS;
	} else {
		failed = MPI_Wait(&req[0], &status[0]) != MPI_SUCCESS &&
			 MPI_Wait(&req[1], &status[1]) != MPI_SUCCESS;
	}
	printf("rank %d: the wait %s\n", rank, failed ? "failed" : "returned no error");
	fflush(stdout);
	_exit(0);
}

/* -------------------------------------------------------------------------- */

static void all_calls(int provided)
{
	each_call();
	for (int i = 0; i < WAYS; i++) {
		mixed(&ways[i]);
		peer_first(&ways[i]);
	}
	any_of_both();
	long_call(0);
	if (by_ring)
		long_call(1);
	many();
	in_order();
	communicators();
	derived();
	given_up();
	if (provided == MPI_THREAD_MULTIPLE)
		threads();
	else
		printf("# no MPI_THREAD_MULTIPLE\n");
}

static void one_case(const char *name, int provided)
{
	if (!strcmp(name, "die"))
		die();
	else if (!strcmp(name, "few"))
		each_call();
	else if (!strcmp(name, "due"))
		due();
	else if (!strcmp(name, "new"))
		new();
	else
		all_calls(provided);
}

int main(int argc, char **argv)
{
	int provided, level = argc > 2 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);	/* in all threads; see long_call() */
	MPI_Init_thread(&argc, &argv, level, &provided);
	begin_rank();
	by_ring = getenv("RAR_MPI_MIN") != NULL;
	ignored = MPI_STATUSES_IGNORE;
	one_case(argc > 1 ? argv[1] : "all", provided);
	end_rank();
	return bad != 0;
}
