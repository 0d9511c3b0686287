// SPDX-License-Identifier: GPL-2.0
/*
 * An MPI program that frees communicators, for mpi_preload.sh.
 *
 * mpi_freed: one thread frees a communicator, while another one has found its last non-blocking
 * call to be complete, and is still at work on its ring. The ring must stay until that thread is
 * done with it. The program has functions of the C library's names, by which the library calls
 * them. They hold the second thread where it is about to release the lock of the rings.
 *
 * mpi_freed broken: rank 1 has an error of its own, by which the ring fails, while rank 0 already
 * frees the communicator, or is in MPI_Finalize(). Neither waits for the other for ever.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "mpi_rank.h"

enum {
	SOME = 3001,		/* floats */
	ROUNDS = 3,
	RESULT = 200000,	/* us, after which a result of the ring has come */
	HOLD = 500000,		/* us that the second thread keeps the lock */
	PATIENCE = 20000000,	/* us, for the second thread */
};

static int holds, freed, over;		/* of this round */
static int early, unheld;		/* in all rounds */
static __thread int polls;		/* the next lock that the library tries is to be held */
static __thread pthread_mutex_t *tried;

static int get(int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static void set(int *flag, int value) { __atomic_store_n(flag, value, __ATOMIC_RELEASE); }

/* Stay until a flag is set. */
static int meet(int *flag, int patience)
{
	for (int us = 0; !get(flag) && us < patience; us += 1000)
		usleep(1000);
	return get(flag);
}

/* Is this code of the library, preloaded or as a component? */
static int is_library(const void *code)
{
	Dl_info info;

	return dladdr(code, &info) && info.dli_fname &&
	       (strstr(info.dli_fname, "/librar-") || strstr(info.dli_fname, "/mca_coll_rar"));
}

int pthread_mutex_trylock(pthread_mutex_t *lock)
{
	static int (*next)(pthread_mutex_t *);
	int err;

	if (!next)
		next = dlsym(RTLD_NEXT, __func__);
	err = next(lock);
	if (!err && polls && is_library(__builtin_return_address(0))) {
		polls = 0;
		tried = lock;
	}
	return err;
}

int pthread_mutex_unlock(pthread_mutex_t *lock)
{
	static int (*next)(pthread_mutex_t *);

	if (!next)
		next = dlsym(RTLD_NEXT, __func__);
	if (tried == lock) {
		tried = NULL;
		set(&holds, 1);
		if (meet(&freed, HOLD))
			set(&early, get(&early) + 1);
	}
	return next(lock);
}

/* The library goes on with its calls in either of these, depending on the MPI library. */
static void *poller(void *never)
{
	int flag;

	usleep(RESULT);
	polls = 1;
	while (!get(&over)) {
		MPI_Request_get_status(MPI_REQUEST_NULL, &flag, MPI_STATUS_IGNORE);
		MPI_Test(never, &flag, MPI_STATUS_IGNORE);
	}
	return NULL;
}

static void round_of(const float *x, MPI_Request *never)
{
	MPI_Request request;
	pthread_t thread;
	float y[SOME];
	MPI_Comm comm;
	int ok = 1;

	set(&holds, 0);
	set(&freed, 0);
	set(&over, 0);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Barrier(comm);	/* makes the ring */
	MPI_Iallreduce(x, y, SOME, MPI_FLOAT, MPI_SUM, comm, &request);
	if (!rank) {
		pthread_create(&thread, NULL, poller, never);
		unheld += !meet(&holds, PATIENCE);
	}
	MPI_Comm_free(&comm);
	set(&freed, 1);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	set(&over, 1);
	if (!rank)
		pthread_join(thread, NULL);
	for (int i = 0; i < SOME; i++)
		ok &= y[i] == sum(i);
	CHECK(ok, "sums");
}

static void held(const float *x)
{
	MPI_Request never;

	MPI_Irecv(NULL, 0, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &never);
	for (int i = 0; i < ROUNDS; i++)
		round_of(x, &never);
	CHECK(!unheld, "in %d rounds the second thread never came to the lock", unheld);
	CHECK(!get(&early), "%d rings were freed while a thread was at work on them", get(&early));
	MPI_Send(NULL, 0, MPI_BYTE, rank, 1, MPI_COMM_WORLD);
	MPI_Wait(&never, MPI_STATUS_IGNORE);
}

/* Rank 1 comes late, and makes a call whose result would overlap what it gives. */
static void fail_late(float *x, MPI_Comm comm)
{
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	if (!rank)
		return;
	usleep(RESULT);
	CHECK(MPI_Allreduce(x, x + 1, SOME - 1, MPI_FLOAT, MPI_SUM, comm) != MPI_SUCCESS,
	      "no error");
}

static void broken(float *x)
{
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Barrier(comm);	/* makes the ring */
	fail_late(x, comm);
	MPI_Comm_free(&comm);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	float x[SOME];
	int provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	begin_rank();
	CHECK(provided == MPI_THREAD_MULTIPLE, "%d", provided);
	for (int i = 0; i < SOME; i++)
		x[i] = number(rank, i);
	if (argc > 1)
		broken(x);
	else
		held(x);
	print_bad();
	if (argc > 1)
		fail_late(x, MPI_COMM_WORLD);
	MPI_Finalize();
	return bad != 0;
}
