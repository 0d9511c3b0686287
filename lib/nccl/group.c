// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Groups of ranks that do collective operations, by librar.
 *
 * The operations of a group start in an order, which is equal on all ranks. A call of NCCL may be
 * several of them, and there may be no room for all at once. So a group has a queue of calls, and
 * each call of the plugin starts as many operations as there is room for; it never waits.
 *
 * NCCL registers memory in one thread and starts operations in another.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "piece.h"

/*
 * struct work - a call of NCCL
 * @turn:	its place in the queue
 * @at:		bytes of it that are started
 * @last:	librar's number of the last operation started for it; 0: none
 */
struct work {
	struct group *group;
	bool used;
	struct coll_call call;
	uint64_t turn;
	size_t at;
	rar_req_t last;
};

/* Registered memory. NCCL registers the same memory several times. */
struct region {
	void *data;
	size_t size;
	unsigned int users;
	bool pinned;
	struct region *next;
};

/*
 * struct group - a rank's side of a group
 * @lock:	protects the rest
 * @error:	stays, and nothing more is started
 * @queue:	calls in their order; @first is the oldest that is not started as a whole
 */
struct group {
	rar_comm_t *comm;
	int rank, size;
	pthread_mutex_t lock;
	nccl_result_t error;
	struct region *regions;
	struct work works[NCCL_REQUESTS];
	struct work *queue[NCCL_REQUESTS];
	uint64_t first, posted;
};

struct listener {
	struct rar_card card;
	uint64_t comm;		/* NCCL's number of the communicator; 0: not known */
};

_Static_assert(sizeof(struct rar_card) <= NCCL_HANDLE_SIZE, "NCCL has room for a card");

static pthread_mutex_t caps_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rar_caps caps;	/* of this host; they stay as they were found first */
static bool caps_found;
static unsigned int begun;	/* calls of all groups that have operations in flight */

/* -- types ----------------------------------------------------------------- */

int group_dtype(enum nccl_dtype dtype)
{
	static const uint8_t dtypes[] = {
		[NCCL_I8] = RAR_I8, [NCCL_U8] = RAR_U8, [NCCL_I32] = RAR_I32,
		[NCCL_U32] = RAR_U32, [NCCL_I64] = RAR_I64, [NCCL_U64] = RAR_U64,
		[NCCL_F16] = RAR_F16, [NCCL_F32] = RAR_F32, [NCCL_F64] = RAR_F64,
		[NCCL_BF16] = RAR_BF16,
	};

	return (size_t)dtype < sizeof(dtypes) ? dtypes[dtype] : 0;
}

int group_redop(enum nccl_redop redop)
{
	static const uint8_t redops[] = {
		[NCCL_SUM] = RAR_SUM, [NCCL_PROD] = RAR_PROD, [NCCL_MAX] = RAR_MAX,
		[NCCL_MIN] = RAR_MIN,
	};

	return (size_t)redop < sizeof(redops) ? redops[redop] : 0;
}

/* NCCL asks on each rank, and takes what all have. For an average NCCL asks for a sum. */
nccl_result_t group_support(enum nccl_dtype dtype, enum nccl_redop redop, int *yes)
{
	int d = group_dtype(dtype), r = group_redop(redop);

	*yes = d && r && caps.collectives & 1u << RAR_ALLREDUCE && caps.dtypes[r] & 1u << d;
	return NCCL_OK;
}

/* -- groups ---------------------------------------------------------------- */

static nccl_result_t failed(rar_comm_t *comm, const char *what, int err)
{
	char text[256];

	return refuse(result_of(err), "%s: %s", what,
		      rar_strerror(comm, err, text, sizeof(text)));
}

/* Called for each communicator, while other threads may ask what is supported. */
nccl_result_t group_begin(void)
{
	struct rar_caps now;
	int err = rar_probe(&now);

	if (err == -EPERM || err == -EACCES)
		return refuse(NCCL_SYSTEM_ERROR,
			      "no collectives: a rule (seccomp, SELinux) forbids sockets of AF_RAR: %s",
			      strerror(-err));
	if (err)
		return failed(NULL, "no collectives", err);
	pthread_mutex_lock(&caps_lock);
	if (!caps_found)
		caps = now;
	caps_found = true;
	pthread_mutex_unlock(&caps_lock);
	return NCCL_OK;
}

nccl_result_t group_listen(uint64_t comm, void *handle, void **listener)
{
	struct listener *l = calloc(1, sizeof(*l));
	int err;

	*listener = NULL;
	if (!l)
		return refuse(NCCL_SYSTEM_ERROR, "no memory");
	err = rar_card_make(NULL, &l->card);
	if (err) {
		free(l);
		return failed(NULL, "listen", err);
	}
	memset(handle, 0, NCCL_HANDLE_SIZE);
	memcpy(handle, &l->card, sizeof(l->card));
	l->comm = comm;
	*listener = l;
	return NCCL_OK;
}

nccl_result_t group_close_listen(void *listener)
{
	if (!listener)
		return refuse(NCCL_INTERNAL_ERROR, "closeListen() without a listener");
	explicit_bzero(listener, sizeof(struct listener));	/* the key */
	free(listener);
	return NCCL_OK;
}

static struct group *new_group(rar_comm_t *comm)
{
	struct group *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->comm = comm;
	g->rank = rar_comm_rank(comm);
	g->size = rar_comm_size(comm);
	pthread_mutex_init(&g->lock, NULL);
	for (int i = 0; i < NCCL_REQUESTS; i++)
		g->works[i].group = g;
	return g;
}

/* Do all ranks have what windows need? */
static bool has_all(const rar_comm_t *comm)
{
	return rar_can(comm, RAR_ALLREDUCE, RAR_F32, RAR_SUM, 1) &&
	       rar_can(comm, RAR_REDUCE, RAR_F32, RAR_SUM, 1) &&
	       rar_can(comm, RAR_REDUCE_SCATTER, RAR_F32, RAR_SUM, 1) &&
	       rar_can(comm, RAR_BROADCAST, RAR_U8, RAR_SUM, 1) &&
	       rar_can(comm, RAR_ALLGATHER, RAR_U8, RAR_SUM, 1);
}

/* Join, with all ranks: 0 or a negative errno. */
static int join(rar_comm_t **comm, void *handles[], int size, int rank)
{
	struct rar_card *cards = calloc(size, sizeof(*cards));
	int err;

	*comm = NULL;
	if (!cards)
		return -ENOMEM;
	for (int i = 0; i < size; i++)
		memcpy(&cards[i], handles[i], sizeof(*cards));
	err = rar_comm_start(comm, cards, size, rank, NULL);
	explicit_bzero(cards, size * sizeof(*cards));	/* the key */
	free(cards);
	if (!err)
		err = rar_comm_ready(*comm, -1);
	if (!err && !has_all(*comm))
		err = -EOPNOTSUPP;
	return err;
}

/*
 * Waits for the other ranks, net.rar.join_ms at most, because NCCL does not call it again. NCCL
 * does without collectives if it fails.
 */
nccl_result_t group_connect(void *handles[], int size, int rank, void *listener, void **group)
{
	struct listener *l = listener;
	nccl_result_t result = NCCL_OK;
	rar_comm_t *comm;
	int err;

	*group = NULL;
	if (!l || !handles || size < 1 || size > RAR_MAX_SIZE || rank < 0 || rank >= size)
		return refuse(NCCL_INTERNAL_ERROR, "connect() as rank %d of %d", rank, size);
	if (memcmp(handles[rank], &l->card, sizeof(l->card)))
		return refuse(NCCL_INTERNAL_ERROR, "handle %d is not that of this rank", rank);
	err = join(&comm, handles, size, rank);
	if (!err) {
		*group = new_group(comm);
		err = *group ? 0 : -ENOMEM;
	}
	if (err) {
		result = failed(comm, "no group", err);
		rar_comm_free(comm);
	} else {
		say(NCCL_INFO, "group of %d ranks, rank %d, of communicator %#llx", size, rank,
		    (unsigned long long)l->comm);
	}
	return result;
}

/* -- memory ---------------------------------------------------------------- */

static struct region *find_region(struct group *g, const void *data, size_t size)
{
	struct region *r = g->regions;

	while (r && (r->data != data || r->size != size))
		r = r->next;
	return r;
}

static struct region *add_region(struct group *g, void *data, size_t size)
{
	struct region *r = calloc(1, sizeof(*r));
	char text[128];
	int err;

	if (!r)
		return NULL;
	err = rar_mem_reg(g->comm, data, size, 0);
	if (err)
		say(NCCL_INFO, "%zu bytes are not pinned (%s): each operation does it, or copies",
		    size, rar_strerror(NULL, err, text, sizeof(text)));
	*r = (struct region) { data, size, 0, !err, g->regions };
	g->regions = r;
	return r;
}

/* Memory that cannot be pinned works as well, only slower. */
nccl_result_t group_reg(void *group, void *data, size_t size, int memory, void **mhandle)
{
	struct group *g = group;
	struct region *r;

	*mhandle = NULL;
	if (!g || !data || !size)
		return refuse(NCCL_INTERNAL_ERROR, "regMr() of nothing");
	if (memory != NCCL_HOST_MEMORY)
		return refuse(NCCL_INTERNAL_ERROR, "only memory of the host can be used");
	pthread_mutex_lock(&g->lock);
	r = find_region(g, data, size);
	if (!r)
		r = add_region(g, data, size);
	if (r)
		r->users++;
	pthread_mutex_unlock(&g->lock);
	if (!r)
		return refuse(NCCL_SYSTEM_ERROR, "no memory");
	*mhandle = r;
	return NCCL_OK;
}

static void drop_region(struct group *g, struct region **place)
{
	struct region *r = *place;

	*place = r->next;
	if (r->pinned)
		rar_mem_unreg(g->comm, r->data, r->size);
	free(r);
}

nccl_result_t group_dereg(void *group, void *mhandle)
{
	struct group *g = group;
	struct region **r;
	bool found;

	if (!g)
		return refuse(NCCL_INTERNAL_ERROR, "deregMr() without a group");
	pthread_mutex_lock(&g->lock);
	for (r = &g->regions; *r && *r != mhandle; r = &(*r)->next)
		;
	found = *r;
	if (found && !--(*r)->users)
		drop_region(g, r);
	pthread_mutex_unlock(&g->lock);
	return found ? NCCL_OK :
	       refuse(NCCL_INTERNAL_ERROR, "deregMr() of memory that is not registered");
}

/* -- operations; the lock is held ------------------------------------------ */

/* The other ranks must know if the group failed here alone. */
static void give_up(struct group *g, int err)
{
	if (g->error)
		return;
	g->error = failed(g->comm, "collective", err);
	rar_comm_abort(g->comm);
}

/* Start an operation of a call: 0, -EAGAIN, or another errno. */
static int start_piece(struct group *g, struct work *w, struct rar_call *call, size_t at)
{
	int err;

	call->flags |= RAR_C_NOWAIT;
	err = rar_start(g->comm, call, &w->last);
	/* Other calls hold memory that becomes free. */
	if (err == -ENOBUFS && __atomic_load_n(&begun, __ATOMIC_RELAXED))
		return -EAGAIN;
	if (err)
		return err;
	if (!w->at)
		__atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
	w->at = at;
	return 0;
}

/* Start what there is room for. */
static void start_all(struct group *g)
{
	struct rar_call call;
	struct work *w;
	size_t at;
	int err;

	while (g->first < g->posted && !g->error) {
		w = g->queue[g->first % NCCL_REQUESTS];
		at = w->at;
		if (!piece_next(&w->call, g->rank, g->size, &at, &call)) {
			g->first++;
			continue;
		}
		err = start_piece(g, w, &call, at);
		if (err == -EAGAIN)
			return;
		if (err)
			give_up(g, err);
	}
}

static void finish(struct work *w)
{
	if (w->at)
		__atomic_fetch_sub(&begun, 1, __ATOMIC_RELAXED);
	w->used = false;
}

/* 0, -EAGAIN, or the error of the group. */
static int ask(struct work *w)
{
	if (w->turn >= w->group->first)		/* not started as a whole */
		return -EAGAIN;
	return w->last ? rar_test(w->group->comm, w->last) : 0;
}

/* -- calls ----------------------------------------------------------------- */

static nccl_result_t check_window(const struct group *g, const struct coll_call *c)
{
	size_t esize = c->kind == SCATTER ? rar_dtype_size(c->dtype) : 1;

	if (c->parts != 1)
		return refuse(NCCL_INTERNAL_ERROR, "a window in %d parts", c->parts);
	if (c->len > MAX_COLL_BYTES || c->block > SIZE_MAX / g->size ||
	    c->start > c->block * g->size || c->len > c->block * g->size - c->start)
		return refuse(NCCL_INTERNAL_ERROR,
			      "a window of %zu bytes at %zu, of blocks of %zu bytes", c->len,
			      c->start, c->block);
	if (c->part_bytes < c->len)
		return refuse(NCCL_INTERNAL_ERROR, "a window of %zu bytes in %zu bytes", c->len,
			      c->part_bytes);
	if (c->block % esize || c->start % esize || c->len % esize)
		return refuse(NCCL_INTERNAL_ERROR, "a window that cuts an element");
	if (c->len && (!(c->kind == GATHER ? c->dst : c->src) ||
		       (piece_result(c, g->rank) && !(c->kind == GATHER ? c->src : c->dst))))
		return refuse(NCCL_INTERNAL_ERROR, "a window without an address");
	return NCCL_OK;
}

static nccl_result_t check(const struct group *g, const struct coll_call *c)
{
	if (c->kind == GATHER)
		return check_window(g, c);
	if (!c->dtype || !c->redop ||
	    !rar_can(g->comm, RAR_ALLREDUCE, c->dtype, c->redop, 1))
		return refuse(NCCL_INVALID_USAGE, "a reduction that not all ranks have");
	if (c->kind == SCATTER)
		return check_window(g, c);
	if (c->count > MAX_COLL_BYTES / rar_dtype_size(c->dtype))
		return refuse(NCCL_INTERNAL_ERROR, "%zu elements are too many", c->count);
	if (c->count && (!c->src || !c->dst))
		return refuse(NCCL_INTERNAL_ERROR, "%zu elements without an address", c->count);
	return NCCL_OK;
}

/* *request is NULL if too many requests are in use: NCCL tries again later. */
static nccl_result_t post(struct group *g, const struct coll_call *call, void **request)
{
	struct work *w = g->works;

	if (g->error)
		return g->error;
	while (w < g->works + NCCL_REQUESTS && w->used)
		w++;
	if (w == g->works + NCCL_REQUESTS)
		return NCCL_OK;
	*w = (struct work) { .group = g, .used = true, .call = *call, .turn = g->posted };
	g->queue[g->posted++ % NCCL_REQUESTS] = w;
	*request = w;
	start_all(g);
	return NCCL_OK;		/* an error is told by the test */
}

nccl_result_t group_start(void *group, const struct coll_call *call, void **request)
{
	struct group *g = group;
	nccl_result_t result;

	*request = NULL;
	if (!g)
		return refuse(NCCL_INTERNAL_ERROR, "a collective without a group");
	result = check(g, call);
	if (result)
		return result;
	pthread_mutex_lock(&g->lock);
	result = post(g, call, request);
	pthread_mutex_unlock(&g->lock);
	return result;
}

nccl_result_t group_test(void *request, int *done, int *size)
{
	struct work *w = request;
	nccl_result_t result = NCCL_OK;
	struct group *g;
	size_t bytes;
	int err;

	*done = 0;
	if (!w || !w->used)
		return refuse(NCCL_INTERNAL_ERROR, "test() of a request that is not in use");
	g = w->group;
	pthread_mutex_lock(&g->lock);
	start_all(g);
	err = ask(w);
	if (err && err != -EAGAIN)
		give_up(g, err);
	if (err) {
		result = g->error;
	} else {
		bytes = piece_result(&w->call, g->rank);
		if (size)
			*size = bytes < INT_MAX ? bytes : INT_MAX;
		finish(w);
		*done = 1;
	}
	pthread_mutex_unlock(&g->lock);
	return result;
}

nccl_result_t group_close(void *group)
{
	struct group *g = group;

	if (!g)
		return refuse(NCCL_INTERNAL_ERROR, "closeColl() without a group");
	for (int i = 0; i < NCCL_REQUESTS; i++)
		if (g->works[i].used)
			finish(&g->works[i]);
	while (g->regions)
		drop_region(g, &g->regions);
	rar_comm_free(g->comm);
	pthread_mutex_destroy(&g->lock);
	free(g);
	return NCCL_OK;
}
