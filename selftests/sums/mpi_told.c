// SPDX-License-Identifier: GPL-2.0
/*
 * An MPI program with two threads, for mpi_preload.sh: one waits for a non-blocking call while the
 * other is about to tell the MPI library that the call is complete. The wait must not end before
 * the MPI library knows.
 *
 * The program has functions of the MPI library's names, by which the preloaded library calls them.
 * They hold each thread where it meets the other, then call the MPI library's own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mpi_rank.h"

enum {
	SOME = 3001,		/* floats */
	ROUNDS = 6,
	TELLS = 50000,		/* us that the other thread takes to tell the MPI library */
	PATIENCE = 10000000,	/* us, for the other thread */
};

static int waits, telling, told, over;	/* of this round */
static int early, unmet, seen;		/* in all rounds */

static int get(int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static void set(int *flag, int value) { __atomic_store_n(flag, value, __ATOMIC_RELEASE); }

/* Stay until the other thread has set the flag. */
static void meet(int *flag)
{
	int us;

	for (us = 0; !get(flag) && us < PATIENCE; us += 100)
		usleep(100);
	if (!get(flag))
		set(&unmet, 1);
}

int PMPI_Grequest_complete(MPI_Request request)
{
	int (*next)(MPI_Request) = dlsym(RTLD_NEXT, __func__);

	if (rank)
		return next(request);
	set(&seen, get(&seen) + 1);
	meet(&waits);
	set(&telling, 1);
	usleep(TELLS);
	set(&told, 1);
	return next(request);
}

#ifndef OPEN_MPI

static MPIX_Grequest_wait_function *wait_of_library;

/* MPI_Waitall() of MPICH */
static int wait_here(int count, void **states, double timeout, MPI_Status *status)
{
	int ret;

	set(&waits, 1);
	meet(&telling);
	ret = wait_of_library(count, states, timeout, status);
	if (!get(&told))
		set(&early, get(&early) + 1);
	return ret;
}

int PMPIX_Grequest_start(MPI_Grequest_query_function *query, MPI_Grequest_free_function *done,
			 MPI_Grequest_cancel_function *cancel, MPIX_Grequest_poll_function *poll,
			 MPIX_Grequest_wait_function *wait, void *state, MPI_Request *request)
{
	int (*next)(MPI_Grequest_query_function *, MPI_Grequest_free_function *,
		    MPI_Grequest_cancel_function *, MPIX_Grequest_poll_function *,
		    MPIX_Grequest_wait_function *, void *, MPI_Request *);

	next = dlsym(RTLD_NEXT, __func__);
	if (rank)
		return next(query, done, cancel, poll, wait, state, request);
	wait_of_library = wait;
	return next(query, done, cancel, poll, wait_here, state, request);
}

#endif

static void *waiter(void *arg)
{
	MPI_Request *request = arg;
	MPI_Status status;

#ifdef OPEN_MPI
	set(&waits, 1);		/* it calls no function of ours when it waits */
#endif
	MPI_Waitall(1, request, &status);
	if (!get(&told))
		set(&early, get(&early) + 1);
	set(&over, 1);
	return NULL;
}

/* The library goes on with its calls in either of these, depending on the MPI library. */
static void teller(MPI_Request *never)
{
	int flag;

	while (!get(&over)) {
		MPI_Request_get_status(MPI_REQUEST_NULL, &flag, MPI_STATUS_IGNORE);
		MPI_Test(never, &flag, MPI_STATUS_IGNORE);
	}
}

static void round_of(const float *x, MPI_Request *never)
{
	float y[SOME];
	MPI_Request request;
	pthread_t thread;
	int ok = 1;

	set(&waits, 0);
	set(&telling, 0);
	set(&told, 0);
	set(&over, 0);
	MPI_Iallreduce(x, y, SOME, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
	if (rank) {
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	} else {
		pthread_create(&thread, NULL, waiter, &request);
		teller(never);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < SOME; i++)
		ok &= y[i] == sum(i);
	CHECK(ok, "sums");
}

int main(int argc, char **argv)
{
	float x[SOME];
	MPI_Request never;
	int provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	begin_rank();
	CHECK(provided == MPI_THREAD_MULTIPLE, "%d", provided);
	for (int i = 0; i < SOME; i++)
		x[i] = number(rank, i);
	MPI_Irecv(NULL, 0, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &never);
	MPI_Barrier(MPI_COMM_WORLD);	/* makes the ring */
	for (int i = 0; i < ROUNDS; i++)
		round_of(x, &never);
	CHECK(rank || get(&seen) == ROUNDS, "%d requests came by this program", get(&seen));
	CHECK(!get(&unmet), "the threads did not meet");
	CHECK(!get(&early), "%d waits ended too early", get(&early));
	MPI_Send(NULL, 0, MPI_BYTE, rank, 1, MPI_COMM_WORLD);
	MPI_Wait(&never, MPI_STATUS_IGNORE);
	end_rank();
	return bad != 0;
}
