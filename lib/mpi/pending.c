// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Non-blocking calls on the ring that are not complete.
 *
 * The operations of a ring start in an order, which is equal on all ranks. So each ring has a
 * queue of calls. At most PIECES * PIECE bytes of them are in flight. What does not fit is started
 * later, by whoever comes here, and by a thread: a rank that computes, or waits in another call,
 * must not keep the others waiting. The thread makes no call of MPI, so it can be there in
 * programs of any level of threads. Only threads of the program tell the MPI library that a
 * request is complete. They do so without the lock, because the MPI library may hold its own lock
 * when it calls us.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common.h"

#define NAP_NS	200000	/* at most, or until a ring has a result */

/*
 * struct pending - a call that is not complete
 * @todo:	what is left to start
 * @last:	its last request of librar so far
 * @err:	the ring failed
 * @told:	the MPI library knows that it is complete
 * @refs:	the request has one until freed(), and the call until complete() is through; the
 *		MPI library may call freed() long before, or while another thread tells it
 */
struct pending {
	struct todo todo;
	MPI_Request request;
	rar_req_t last;
	int err;
	bool told;
	int refs;
	struct pending *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct ring *busy;			/* rings with calls in their queue */
static struct pending *finished;		/* by the ring; the MPI library does not know yet */
static struct pending **finished_end = &finished;
static unsigned long calls;			/* in queues, or finished */
static pthread_t thread;
static bool have_thread, quit;

/* -- the queue of a ring; the lock is held --------------------------------- */

static void append(struct ring *r, struct pending *p)
{
	struct pending **end = &r->first;

	if (!r->first) {
		r->next_busy = busy;
		__atomic_store_n(&busy, r, __ATOMIC_RELEASE);
	}
	while (*end)
		end = &(*end)->next;
	__atomic_store_n(end, p, __ATOMIC_RELEASE);
	if (!r->starting)
		__atomic_store_n(&r->starting, p, __ATOMIC_RELEASE);
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELEASE);
}

/* The ring is done with its first call. */
static void finish_first(struct ring *r, int err)
{
	struct pending *p = r->first;
	struct ring **b;

	p->err = err;
	__atomic_store_n(&r->first, p->next, __ATOMIC_RELEASE);
	p->next = NULL;
	*finished_end = p;
	finished_end = &p->next;
	if (r->first)
		return;
	for (b = &busy; *b != r; b = &(*b)->next_busy)
		;
	__atomic_store_n(b, r->next_busy, __ATOMIC_RELEASE);
}

/* Take note of requests of librar that are complete. */
static int reap(struct ring *r)
{
	uint64_t *size;
	int err = 0;

	while (r->done < r->last && !(err = rar_test(r->comm, r->done + 1))) {
		size = &r->sizes[++r->done % RAR_MAX_OPS];
		r->in_flight -= *size;
		*size = 0;
	}
	return err == -EAGAIN ? 0 : err;
}

/* Will memory become free without the program's doing? */
static bool any_in_flight(void)
{
	struct ring *r;

	for (r = busy; r; r = r->next_busy)
		if (r->done < r->last)
			return true;
	return false;
}

/* Start an operation of the first call of which something is left. */
static int start_piece(struct ring *r)
{
	struct pending *p = r->starting;
	struct rar_call piece = todo_piece(&p->todo.call);
	uint64_t bytes = p->todo.bytes < PIECE ? p->todo.bytes : PIECE;
	rar_req_t req;
	int err;

	if (r->in_flight && r->in_flight + bytes > PIECES * PIECE)
		return -EAGAIN;
	piece.flags |= RAR_C_NOWAIT;
	err = rar_start(r->comm, &piece, &req);
	if (err == -ENOBUFS && any_in_flight())
		return -EAGAIN;
	if (err)
		return err;
	if (r->done == r->last)		/* requests of blocking calls may be in between */
		r->done = req - 1;
	r->last = req;
	p->last = req;
	r->in_flight += bytes;
	r->sizes[req % RAR_MAX_OPS] = bytes;
	if (!todo_rest(&p->todo.call, piece.count))
		__atomic_store_n(&r->starting, p->next, __ATOMIC_RELEASE);
	return 0;
}

static void fail(struct ring *r, int err)
{
	ring_broken(r, err);
	__atomic_store_n(&r->starting, NULL, __ATOMIC_RELEASE);
	r->done = r->last;
	r->in_flight = 0;
	memset(r->sizes, 0, sizeof(r->sizes));
	while (r->first)
		finish_first(r, err);
}

static void drive(struct ring *r)
{
	int err = reap(r);

	while (!err && r->starting)
		err = start_piece(r);
	if (err && err != -EAGAIN) {
		fail(r, err);
		return;
	}
	while (r->first && r->first != r->starting && r->first->last <= r->done)
		finish_first(r, 0);
}

/* -- the thread ------------------------------------------------------------ */

/* Drive the rings that have something to start; one that still has, or NULL. */
static struct ring *drive_starting(void)
{
	struct ring *r, *next, *found = NULL;

	for (r = busy; r; r = next) {
		next = r->next_busy;
		if (r->starting)
			drive(r);
		if (r->starting)
			found = r;
	}
	return found;
}

static void *serve(void *arg)
{
	struct timespec nap = { .tv_nsec = NAP_NS };
	struct pollfd p = { .events = POLLIN };
	struct ring *r;

	pthread_mutex_lock(&lock);
	while (!quit) {
		r = drive_starting();
		if (!r) {
			pthread_cond_wait(&work, &lock);
			continue;
		}
		p.fd = rar_comm_fd(r->comm);
		pthread_mutex_unlock(&lock);
		ppoll(&p, 1, &nap, NULL);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return arg;
}

static bool needs_thread(void)
{
	int i;

	for (i = IALLREDUCE; i < CALLS; i++)
		if (limits.min[i] != NEVER)
			return true;
	return false;
}

/* Called with every ring. Signals of the process are for the threads of the program. */
int pending_open(void)
{
	sigset_t all, usual;
	int err = 0;

	if (!needs_thread())
		return 0;
	sigfillset(&all);
	pthread_mutex_lock(&lock);
	if (!have_thread) {
		pthread_sigmask(SIG_SETMASK, &all, &usual);
		err = -pthread_create(&thread, NULL, serve, NULL);
		pthread_sigmask(SIG_SETMASK, &usual, NULL);
		have_thread = !err;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void pending_close(void)
{
	pthread_mutex_lock(&lock);
	quit = true;
	pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	if (have_thread)
		pthread_join(thread, NULL);
	have_thread = false;
}

/* -- requests -------------------------------------------------------------- */

/* What the status of a collective says. A failure was explained when it was found. */
static int query(void *state, MPI_Status *status)
{
	struct pending *p = state;

	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	status->MPI_SOURCE = MPI_UNDEFINED;
	status->MPI_TAG = MPI_UNDEFINED;
	if (p->err)		/* versions differ in whether this or the result counts */
		status->MPI_ERROR = MPI_ERR_OTHER;
	return p->err ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void put(struct pending *p)
{
	if (!__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL))
		free(p);
}

/* The program has no request any more. With MPI_Request_free() the call may still go on. */
static int freed(void *state)
{
	put(state);
	return MPI_SUCCESS;
}

/* Collectives cannot be cancelled. */
static int cancel(void *state, int complete)
{
	(void)state;
	(void)complete;
	return MPI_SUCCESS;
}

bool pending_told(const void *state)
{
	const struct pending *p = state;

	return __atomic_load_n(&p->told, __ATOMIC_ACQUIRE);
}

/* Begin a call of the program. */
int pending_begin(struct ring *r, const struct todo *d, MPI_Request *request)
{
	struct pending *p = calloc(1, sizeof(*p));

	if (p) {
		p->todo = *d;
		p->refs = 2;
	}
	if (!p || hook_request(query, freed, cancel, p, &p->request))
		PMPI_Abort(MPI_COMM_WORLD, 1);	/* the other ranks would wait for this one */
	*request = p->request;
	pthread_mutex_lock(&lock);
	append(r, p);
	drive(r);
	if (r->starting)
		pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	return MPI_SUCCESS;
}

/* -- progress -------------------------------------------------------------- */

static struct pending *next_finished(void)
{
	struct pending *p;

	pthread_mutex_lock(&lock);
	p = finished;
	if (p) {
		finished = p->next;
		if (!finished)
			finished_end = &finished;
	}
	pthread_mutex_unlock(&lock);
	return p;
}

/* Bring the result to its place, and tell the MPI library. */
static void complete(struct pending *p)
{
	todo_end(&p->todo, p->err);
	__atomic_fetch_sub(&calls, 1, __ATOMIC_RELEASE);
	hook_complete(p->request, p->err);	/* may call freed() */
	__atomic_store_n(&p->told, true, __ATOMIC_RELEASE);
	put(p);
}

/* Complete the calls that their rings have finished. Result: how many. */
static int complete_finished(void)
{
	struct pending *p;
	int n = 0;

	for (; (p = next_finished()); n++)
		complete(p);
	return n;
}

/* Go on with all calls, without waiting. Result: how many are complete since the last time. */
int pending_poll(void)
{
	struct ring *r, *next;

	if (!__atomic_load_n(&calls, __ATOMIC_ACQUIRE) || pthread_mutex_trylock(&lock))
		return 0;
	for (r = busy; r; r = next) {
		next = r->next_busy;
		drive(r);
	}
	pthread_mutex_unlock(&lock);
	return complete_finished();
}

bool pending_any(void)
{
	return __atomic_load_n(&busy, __ATOMIC_ACQUIRE);
}

/* Sleep a moment, or until a ring has a result. */
void pending_nap(void)
{
	struct timespec nap = { .tv_nsec = NAP_NS };
	struct pollfd p = { .fd = -1, .events = POLLIN };

	pthread_mutex_lock(&lock);
	if (busy)
		p.fd = rar_comm_fd(busy->comm);
	pthread_mutex_unlock(&lock);
	ppoll(&p, 1, &nap, NULL);
}

/* Wait until the ring has started all its calls. */
void pending_started(struct ring *r)
{
	unsigned int n = 0;

	while (__atomic_load_n(&r->starting, __ATOMIC_ACQUIRE))
		idle(r, &n);
}

/*
 * Wait until the ring has done all its calls. The thread that found the last one to be done may
 * still look at the ring, under the lock: the caller, who may free the ring, takes the lock, too.
 */
void pending_drain(struct ring *r)
{
	unsigned int n = 0;

	while (__atomic_load_n(&r->first, __ATOMIC_ACQUIRE))
		idle(r, &n);
	complete_finished();
}
