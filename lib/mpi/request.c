// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The requests of non-blocking calls, and how the MPI library asks for them: in the component.
 *
 * MPI_Ibcast() and others write into the request that a component returns: they keep a datatype of
 * the program there. So it must be Open MPI's request of collectives, with what we need behind it.
 */
#include "ompi.h"

#define OMPI_OP_H	/* ompi/op/op.h includes a header that is not installed */
typedef struct ompi_op_t ompi_op_t;

#include "ompi/mca/coll/base/coll_base_util.h"

#include "common.h"

typedef struct {
	ompi_coll_base_nbc_request_t super;
	MPI_Grequest_free_function *freed;
	void *state;
} rar_request_t;

/* The program has given up the request, and the call is complete. */
static void destruct(rar_request_t *q)
{
	OMPI_REQUEST_FINI(&q->super.super);
	q->freed(q->state);
}

OBJ_CLASS_INSTANCE(rar_request_t, ompi_coll_base_nbc_request_t, NULL, destruct);

/* With MPI_Request_free() the call may still go on. */
static int give_up(ompi_request_t **request)
{
	OBJ_RELEASE(*request);
	*request = MPI_REQUEST_NULL;
	return MPI_SUCCESS;
}

/* Collectives cannot be cancelled. */
static int cancel(ompi_request_t *request, int complete)
{
	(void)request;
	(void)complete;
	return MPI_ERR_REQUEST;
}

bool hook_begin(void)
{
	return !opal_progress_register(pending_poll);
}

void hook_end(void)
{
	opal_progress_unregister(pending_poll);
}

/* @query and @no_cancel are for requests that the program itself could have made. */
int hook_request(MPI_Grequest_query_function *query, MPI_Grequest_free_function *done,
		 MPI_Grequest_cancel_function *no_cancel, void *state, MPI_Request *request)
{
	rar_request_t *q = OBJ_NEW(rar_request_t);
	ompi_request_t *base = &q->super.super;

	(void)query;
	(void)no_cancel;
	if (!q)
		return MPI_ERR_NO_MEM;
	OBJ_RETAIN(q);		/* for hook_complete() */
	q->freed = done;
	q->state = state;
	OMPI_REQUEST_INIT(base, false);
	base->req_type = OMPI_REQUEST_COLL;
	base->req_state = OMPI_REQUEST_ACTIVE;
	base->req_status = ompi_status_empty;
	base->req_free = give_up;
	base->req_cancel = cancel;
	base->req_mpi_object.comm = MPI_COMM_WORLD;	/* the call's may be freed before */
	*request = base;
	return MPI_SUCCESS;
}

void hook_complete(MPI_Request request, int err)
{
	request->req_status.MPI_ERROR = err ? MPI_ERR_OTHER : MPI_SUCCESS;
	ompi_request_complete(request, true);
	OBJ_RELEASE(request);
}

/*
 * Open MPI itself makes calls with types of which it has kept no description: it can neither say
 * how they were made, nor copy them.
 */
bool hook_is_named(MPI_Datatype t)
{
	return ompi_datatype_is_predefined(t);
}

MPI_Datatype hook_keep(MPI_Datatype t)
{
	OBJ_RETAIN(t);
	return t;
}

void hook_release(MPI_Datatype t)
{
	OBJ_RELEASE(t);
}
