// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The ring of a communicator: all ranks have it, or none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common.h"

enum {
	SPINS = 50,		/* tests before the thread lets others run, */
	YIELDS = 500,		/* and before it sleeps */
	CROWDED_NS = 20000,	/* so long others ran: this CPU has more to do than to spin here, */
	CROWDED_WAITS = 64,	/* and in so many waits */
	NAP_NS = 200000,	/* a sleep, or until the ring has a result; at first, */
	NAPS = 3,		/* and doubled so often */
};

/* The ranks have just met, so a join that takes longer than this will not end well. */
#define JOIN_MS(size)	(5000 + 10 * (size))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ring *rings;
static unsigned long nr_due;	/* rings that the next blocking call makes */
static int key = MPI_KEYVAL_INVALID;

/* -- messages -------------------------------------------------------------- */

bool debugging(void)
{
	const char *text = getenv("RAR_DEBUG");

	return text && *text && strcmp(text, "0");
}

void debug(int rank, const char *fmt, ...)
{
	char text[256];
	va_list args;

	if (!debugging())
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "librar-mpi: rank %d: %s\n", rank, text);
}

/* Why MPI does the work, printed once in a process. */
void object(int rank, const char *why)
{
	static bool told;

	if (!told)
		fprintf(stderr, "librar-mpi: rank %d: %s: MPI's own collectives are used\n", rank,
			why);
	told = true;
}

/* The number by which the program knows a rank of a communicator. */
static int in_world(MPI_Comm comm, int rank)
{
	MPI_Group group, world;
	int known;

	PMPI_Comm_group(comm, &group);
	PMPI_Comm_group(MPI_COMM_WORLD, &world);
	PMPI_Group_translate_ranks(group, 1, &rank, world, &known);
	PMPI_Group_free(&group);
	PMPI_Group_free(&world);
	return known == MPI_UNDEFINED ? rank : known;
}

/* Does no rank object, that is, have all said NULL? If some do, the lowest of them prints why. */
bool agree(MPI_Comm comm, const char *why)
{
	int rank, size, mine, first;

	PMPI_Comm_rank(comm, &rank);
	PMPI_Comm_size(comm, &size);
	mine = why ? rank : size;
	if (base_allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm))
		return false;
	if (first == size)
		return true;
	if (why)
		debug(rank, "%s", why);
	if (rank == first)
		object(in_world(comm, rank), why);
	return false;
}

/* -- progress -------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/*
 * Let the MPI library and other calls work. @n: how often that was done in this wait; it jumps ahead
 * if others want this CPU, such as ranks that wait for this one: the MPI library may let them run.
 */
void idle(struct ring *r, unsigned int *n)
{
	struct pollfd p = { .fd = rar_comm_fd(r->comm), .events = POLLIN };
	struct timespec nap = {};
	uint64_t before;

	if (!*n && r->crowded && ++r->waits % CROWDED_WAITS)
		*n = YIELDS;
	if (++*n > YIELDS) {
		nap.tv_nsec = NAP_NS << (*n - YIELDS > NAPS ? NAPS : *n - YIELDS - 1);
		/* Not twice in a row: the news may be of something else, and stay. */
		r->woken = ppoll(&p, 1, &nap, NULL) > 0 && !pending_any() && !r->woken;
		if (r->woken)
			return;
	}
	before = now_ns();
	pending_poll();
	progress();
	if (*n > YIELDS)
		return;
	if (*n > SPINS)
		sched_yield();
	r->crowded = now_ns() - before > CROWDED_NS;
	if (r->crowded)
		*n = YIELDS;
}

/*
 * Can all ranks of a ring come to its end? A ring may have failed at some ranks only, while others
 * have their results and know of nothing. So a failure counts only if a rank is gone: the others
 * would wait for it for ever.
 */
static bool all_there(const struct ring *r)
{
	struct rar_error error;

	if (!rar_comm_error(r->comm, &error))
		return true;
	return error.reason != RAR_R_DIED && error.reason != RAR_R_SILENT &&
	       error.reason != RAR_R_RESET && error.reason != RAR_R_CLOSED &&
	       error.reason != RAR_R_LEFT;
}

/* Say why a ring failed. If it failed here alone, the other ranks must know, too. */
void ring_broken(struct ring *r, int err)
{
	char text[256];

	fprintf(stderr, "librar-mpi: rank %d: %s\n", r->rank,
		rar_strerror(r->comm, err, text, sizeof(text)));
	rar_comm_abort(r->comm);
}

/*
 * Called by all ranks before they leave the ring of a communicator. A rank may have its result
 * long before another rank comes to the call. The kernel keeps what the late rank needs only for
 * net.rar.linger_ms after the socket is closed. Calls in progress are completed first: all ranks
 * have begun them when they come here.
 */
static void settle(struct ring *r, MPI_Comm comm)
{
	if (r->settled)
		return;
	r->settled = true;
	pending_drain(r);
	if (r->comm && all_there(r))
		base_barrier(comm);
}

void ring_settle(MPI_Comm comm)
{
	struct ring *r;
	int found = 0;

	if (comm != MPI_COMM_NULL && key != MPI_KEYVAL_INVALID &&
	    !PMPI_Comm_get_attr(comm, key, &r, &found) && found)
		settle(r, comm);
}

/* Called in MPI_Finalize(): complete all calls. Can all ranks come there? */
bool rings_drain(void)
{
	bool all = true;
	struct ring *r;

	for (r = rings; r; r = r->next)
		pending_drain(r);
	for (r = rings; r; r = r->next) {
		all &= !r->comm || all_there(r);
		r->settled = true;
	}
	return all;
}

void rings_free(void)
{
	struct ring *r;

	for (r = rings; r; r = r->next) {
		rar_comm_free(r->comm);
		r->comm = NULL;
	}
}

/* -- begin and end --------------------------------------------------------- */

/* MPI_Comm_free() of the communicator. */
static int forget(MPI_Comm comm, int keyval, void *value, void *extra)
{
	struct ring *r = value, **p;

	(void)keyval;
	(void)extra;
	settle(r, comm);	/* the call may not have come by ring_settle() */
	pthread_mutex_lock(&lock);
	for (p = &rings; *p && *p != r; p = &(*p)->next)
		;
	if (*p)
		*p = r->next;
	pthread_mutex_unlock(&lock);
	if (r->due)
		__atomic_fetch_sub(&nr_due, 1, __ATOMIC_RELAXED);
	rar_comm_free(r->comm);
	free(r->scratch);
	free(r);
	return MPI_SUCCESS;
}

/* Exchange cards and begin to join. @hosts: how many the ranks are on. */
static int start(struct ring *r, MPI_Comm comm, int *hosts)
{
	struct rar_opts opts = { .size = sizeof(opts), .join_ms = JOIN_MS(r->size) };
	struct rar_card own, *cards = calloc(r->size, sizeof(*cards));
	int err, i;

	*hosts = 0;
	if (!cards)		/* the other ranks would wait for this one */
		PMPI_Abort(comm, 1);
	err = rar_card_make(&opts, &own);
	if (err)		/* no rank starts with a card that is not valid */
		memset(&own, 0, sizeof(own));
	if (base_allgather(&own, sizeof(own), MPI_BYTE, cards, sizeof(own), MPI_BYTE, comm))
		err = -EIO;
	if (!err)
		err = rar_comm_start(&r->comm, cards, r->size, r->rank, &opts);
	for (i = 0; !err && i < r->size; i++)
		*hosts += rar_comm_host(r->comm, i) == (uint32_t)i;
	explicit_bzero(&own, sizeof(own));
	explicit_bzero(cards, r->size * sizeof(*cards));	/* the key */
	free(cards);
	return err;
}

static bool agree_error(struct ring *r, MPI_Comm comm, int err)
{
	char text[256];

	return agree(comm, err ? rar_strerror(r->comm, err, text, sizeof(text)) : NULL);
}

/*
 * With more ranks only all-reduces and barriers are brief. With 16 ranks on a slow processor, a
 * reduce-scatter and an all-gather took up to 1.9 times as long as by Open MPI.
 */
#define BRIEF_RANKS	8

static bool may_be_brief(const struct ring *r, enum call call)
{
	return call == ALLREDUCE || call == BARRIER || r->size <= BRIEF_RANKS;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The first number of bytes beyond those of a field of struct rar_info */
static uint64_t beyond(uint32_t bytes)
{
	return bytes == RAR_NO_BYTES ? 0 : bytes + 1ull;
}

/*
 * Calls of fewer bytes take few hops, as the ranks have agreed in the join. 0: none does. An older
 * kernel fills less of struct rar_info: there all-gathers and reduce-scatters go by the ring only.
 */
static void find_brief(struct ring *r)
{
	struct rar_info info = { .gather_bytes = RAR_NO_BYTES, .scatter_bytes = RAR_NO_BYTES };
	socklen_t len = sizeof(info);
	uint64_t direct, doubling;

	if (getsockopt(rar_comm_fd(r->comm), SOL_RAR, RAR_INFO, &info, &len))
		return;		/* the stub */
	direct = beyond(info.direct_bytes);
	doubling = beyond(info.doubling_bytes);
	r->brief[BARRIER] = most(direct, doubling);
	r->brief[ALLREDUCE] = most(r->brief[BARRIER], beyond(info.halving_bytes));
	r->brief[BCAST] = r->brief[BARRIER];
	r->brief[REDUCE] = doubling;
	r->brief[ALLGATHER] = beyond(info.gather_bytes);
	r->brief[REDUCE_SCATTER_BLOCK] = beyond(info.scatter_bytes);
}

/* @brief: a short call asks for it. */
static bool join(struct ring *r, MPI_Comm comm, bool brief)
{
	int err, hosts;

	if (!may_join(comm))
		return false;
	err = start(r, comm, &hosts);
	if (!err)
		err = pending_open();
	if (!agree_error(r, comm, err))
		return false;
	if (hosts == 1 && !limits.one_host) {
		debug(r->rank, "%d ranks on one host: no ring (RAR_MPI_ONE_HOST=1 makes one)",
		      r->size);
		return false;
	}
	if (brief && hosts != r->size) {	/* no short call would use it */
		debug(r->rank, "%d ranks on %d hosts: no ring for short calls", r->size, hosts);
		r->no_brief = true;
		r->tried = false;
		return false;
	}
	while ((err = rar_comm_ready(r->comm, 1)) == -EAGAIN)
		progress();
	if (!agree_error(r, comm, err))
		return false;
	if (hosts == r->size)
		find_brief(r);
	debug(r->rank, "ring of %d ranks on %d hosts, short allreduces below %llu bytes", r->size,
	      hosts, (unsigned long long)r->brief[ALLREDUCE]);
	return true;
}

static void make_ring(struct ring *r, MPI_Comm comm, bool brief)
{
	r->tried = true;
	if (r->due)
		__atomic_fetch_sub(&nr_due, 1, __ATOMIC_RELAXED);
	r->due = false;
	if (!join(r, comm, brief)) {
		rar_comm_free(r->comm);
		r->comm = NULL;
	}
}

/* -- of a communicator ----------------------------------------------------- */

static struct ring *add_ring(MPI_Comm comm)
{
	struct ring *r = calloc(1, sizeof(*r));
	int inter = 0;

	if (!r)			/* the other ranks would wait for this one */
		PMPI_Abort(comm, 1);
	PMPI_Comm_test_inter(comm, &inter);
	PMPI_Comm_size(comm, &r->size);
	PMPI_Comm_rank(comm, &r->rank);
	r->tried = inter || r->size < 2;
	PMPI_Comm_set_attr(comm, key, r);
	pthread_mutex_lock(&lock);
	r->next = rings;
	rings = r;
	pthread_mutex_unlock(&lock);
	return r;
}

/* Look for the ring of a communicator, which may not be made yet. False: bad communicator. */
static bool find_ring(MPI_Comm comm, struct ring **r)
{
	int found = 0;

	*r = NULL;
	pthread_mutex_lock(&lock);
	if (key == MPI_KEYVAL_INVALID)
		PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, NULL);
	pthread_mutex_unlock(&lock);
	return !PMPI_Comm_get_attr(comm, key, r, &found);
}

/*
 * The ring of a communicator, or NULL. It is made by the limits.after-th call that asks for it,
 * or by BRIEF_CALLS times as many @brief ones: communicators that a program uses only a few times do
 * not pay for one. A call that must not wait for other ranks leaves that to the next one that may.
 */
struct ring *ring_of(MPI_Comm comm, enum call call, bool brief)
{
	struct ring *r;

	if (!all_agree() || !find_ring(comm, &r))
		return NULL;
	if (!r)
		r = add_ring(comm);
	if (brief && (r->no_brief || !may_be_brief(r, call)))
		return NULL;
	r->calls += brief ? 1 : BRIEF_CALLS;
	if (!r->tried && !r->due && r->calls / BRIEF_CALLS >= limits.after) {
		if (is_blocking(call)) {
			make_ring(r, comm, brief);
		} else {
			r->due = true;
			__atomic_fetch_add(&nr_due, 1, __ATOMIC_RELAXED);
		}
	}
	return r->comm ? r : NULL;
}

/* Called by all ranks in a blocking call, however short. */
void ring_make_due(MPI_Comm comm)
{
	struct ring *r;

	if (!__atomic_load_n(&nr_due, __ATOMIC_RELAXED) || comm == MPI_COMM_NULL)
		return;
	if (find_ring(comm, &r) && r && r->due)
		make_ring(r, comm, false);
}

/* Memory for @len bytes, until the next call of the communicator. */
char *ring_scratch(struct ring *r, MPI_Comm comm, size_t len)
{
	if (r->room < len) {
		free(r->scratch);
		r->scratch = malloc(len);
		r->room = r->scratch ? len : 0;
	}
	if (!r->scratch)
		PMPI_Abort(comm, 1);
	return r->scratch;
}
