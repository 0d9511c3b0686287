// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The requests of non-blocking calls, and how the MPI library asks for them: preloaded.
 *
 * They are generalized requests of MPI, so every call for requests takes them, alone or beside
 * others, also where a call does not come by us: from Fortran, or by its PMPI name. While such a
 * call waits, the MPI library must call us, or the request would never be complete. MPICH has
 * requests with functions for that. Open MPI has none for programs, but it lets its components
 * register a function that every wait calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

#include "common.h"

#ifdef OPEN_MPI

/* Call a function of Open MPI's that takes the function that waits call. */
static bool with_poll(const char *name)
{
	int (*function)(int (*poll)(void)) = dlsym(RTLD_DEFAULT, name);

	return function && !function(pending_poll);
}

/* False: this version of Open MPI has no such function. */
bool hook_begin(void)
{
	return with_poll("opal_progress_register");
}

void hook_end(void)
{
	with_poll("opal_progress_unregister");
}

int hook_request(MPI_Grequest_query_function *query, MPI_Grequest_free_function *done,
		 MPI_Grequest_cancel_function *cancel, void *state, MPI_Request *request)
{
	return PMPI_Grequest_start(query, done, cancel, state, request);
}

#else /* MPICH */

enum {
	SPINS = 50,		/* fruitless polls of a thread before it lets others run, */
	YIELDS = 500,		/* and in a wait before it sleeps */
};

static __thread unsigned int fruitless;
static __thread bool waits;	/* in a call that does not return before something is complete */

bool hook_begin(void)
{
	return true;
}

void hook_end(void)
{
}

/* MPI_Wait() of MPICH calls only this, so messages must go on here. */
static int poll_request(void *state, MPI_Status *status)
{
	(void)state;
	(void)status;
	if (pending_poll()) {
		fruitless = 0;
		return MPI_SUCCESS;
	}
	progress();
	fruitless++;
	if (waits && fruitless > YIELDS)
		pending_nap();
	else if (fruitless > SPINS)
		sched_yield();
	return MPI_SUCCESS;
}

/*
 * MPI_Waitall(). MPICH has released its lock, and takes it again when we come back. A request that
 * another thread is about to complete is not complete yet: MPICH would call us again at once, and
 * hardly leave the lock to that thread.
 */
static int wait_request(int count, void **states, double timeout, MPI_Status *status)
{
	int i;

	(void)timeout;
	waits = true;
	for (i = 0; i < count; i++)
		while (!pending_told(states[i]))
			poll_request(states[i], status);
	waits = false;
	return MPI_SUCCESS;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	int ret;

	waits = true;
	ret = PMPI_Wait(request, status);
	waits = false;
	return ret;
}

int MPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
	int ret;

	waits = true;
	ret = PMPI_Waitany(count, requests, index, status);
	waits = false;
	return ret;
}

int MPI_Waitsome(int count, MPI_Request *requests, int *some, int *indices, MPI_Status *statuses)
{
	int ret;

	waits = true;
	ret = PMPI_Waitsome(count, requests, some, indices, statuses);
	waits = false;
	return ret;
}

/* Of all calls for requests only this one does not ask them. */
int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
	pending_poll();
	return PMPI_Request_get_status(request, flag, status);
}

int hook_request(MPI_Grequest_query_function *query, MPI_Grequest_free_function *done,
		 MPI_Grequest_cancel_function *cancel, void *state, MPI_Request *request)
{
	return PMPIX_Grequest_start(query, done, cancel, poll_request, wait_request, state,
				    request);
}

#endif

/* A failure is told by the function that MPI calls to query the request. */
void hook_complete(MPI_Request request, int err)
{
	(void)err;
	PMPI_Grequest_complete(request);
}

/* Is it a type of MPI, not one of the program? */
bool hook_is_named(MPI_Datatype t)
{
	int ints, addresses, types, combiner;

	PMPI_Type_get_envelope(t, &ints, &addresses, &types, &combiner);
	return combiner == MPI_COMBINER_NAMED;
}

/* The type, also if the program frees it, until hook_release(). */
MPI_Datatype hook_keep(MPI_Datatype t)
{
	MPI_Datatype kept;

	PMPI_Type_dup(t, &kept);
	return kept;
}

void hook_release(MPI_Datatype t)
{
	PMPI_Type_free(&t);
}
