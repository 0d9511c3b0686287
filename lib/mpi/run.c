// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The way of a blocking call by the ring, to its end.
 */
#include <errno.h>

#include "common.h"

/* Say what happened, end the ring, and do what the communicator's error handler does. */
static int broken(struct ring *r, MPI_Comm comm, int err)
{
	ring_broken(r, err);
	raise_error(comm);
	return MPI_ERR_OTHER;
}

static int wait_for(struct ring *r, rar_req_t req)
{
	unsigned int n = 0;
	int err;

	while ((err = rar_test(r->comm, req)) == -EAGAIN)
		idle(r, &n);
	return err;
}

static int start(struct ring *r, struct rar_call *call, rar_req_t *req)
{
	unsigned int n = 0;
	int err;

	call->flags |= RAR_C_NOWAIT;
	while ((err = rar_start(r->comm, call, req)) == -EAGAIN ||
	       (err == -ENOBUFS && pending_any()))
		idle(r, &n);
	return err;
}

/* Do a call in pieces, with at most PIECES in flight. */
int run(struct ring *r, MPI_Comm comm, struct todo *d)
{
	struct rar_call left = d->call, piece;
	rar_req_t req = 0, first = 0;
	int err;

	pending_started(r);
	do {
		piece = todo_piece(&left);
		err = start(r, &piece, &req);
		if (!first)
			first = req;
		if (!err && req - first >= PIECES - 1)
			err = wait_for(r, req - (PIECES - 1));
	} while (!err && todo_rest(&left, piece.count));
	if (!err)
		err = wait_for(r, req);
	todo_end(d, err);
	return err ? broken(r, comm, err) : MPI_SUCCESS;
}
