// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The stub: the same interface without the kernel module, for tests of programs on one host.
 *
 * Rank 0 is the hub: the others connect to it by AF_UNIX, send it their contributions and get
 * the results. In each rank a thread works off the operations in order. Sums are made in the
 * order of the ranks; failures have the names that the kernel gives them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "librar.h"

#define JOIN_MS		30000
#define RETRY_MS	10

enum kind { OPERATION, BYE, ABORT };

/* Before each contribution and each result. */
struct frame {
	uint32_t kind;
	uint32_t root;
	uint64_t bytes;
	uint32_t op_flags;
	uint8_t collective, dtype, redop, pad;
	struct rar_error error;		/* of results */
};

/* A rank says who it is, and what it has of an epoch that failed. */
struct hello {
	uint32_t rank, size;
	uint64_t past, complete;
};

/* The answer of the hub, when all are there. */
struct welcome {
	struct rar_error error;
	uint64_t epoch;			/* random */
	uint64_t past, op;		/* for rar_comm_resume() */
};

struct queued {
	struct work work;
	char *given;			/* copy of the contribution */
};

/*
 * struct stub - a rank's side of a group
 * @stop:	readable when the thread is to end
 * @listen:	at the hub: where the others connect
 * @peer:	connections by rank; at the others only to rank 0
 * @hello:	what this rank said when it joined, and @welcome the answer
 * @lock:	protects the fields below
 * @news:	signalled when one of them changes
 */
struct stub {
	pthread_t thread;
	int stop, listen;
	int *peer;
	struct hello hello;
	struct welcome welcome;

	pthread_mutex_t lock;
	pthread_cond_t news;
	bool joined, quit, aborted;
	uint64_t posted, complete;
	struct queued queue[RAR_MAX_OPS];
	struct rar_error error;
};

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* -- failure --------------------------------------------------------------- */

static struct rar_error error_of(int err, enum rar_reason reason, uint32_t rank, uint32_t other,
				 uint64_t seq)
{
	return (struct rar_error) { .err = err, .reason = reason, .rank = rank, .other = other,
				    .op_seq = seq, .user_rank = rank };
}

/* The first error stays. Whoever waits for a result learns it. */
static int fail(rar_comm_t *c, const struct rar_error *error)
{
	uint64_t many = RAR_MAX_OPS + 1;	/* readable, whatever is taken */
	struct stub *s = c->stub;

	pthread_mutex_lock(&s->lock);
	if (!s->error.err) {
		s->error = *error;
		s->error.cookie = c->base + s->complete + 1;
	}
	if (write(c->fd, &many, sizeof(many)) != sizeof(many))
		rar_debug(c, "eventfd: %s", strerror(errno));
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
	return -error->err;
}

/* -- bytes ----------------------------------------------------------------- */

/* Wait for @events at @fd. -ECANCELED: the thread is to end; -ETIMEDOUT. */
static int wait_fd(const struct stub *s, int fd, short events, int64_t deadline)
{
	struct pollfd p[2] = { { .fd = fd, .events = events }, { .fd = s->stop, .events = POLLIN } };
	int n;

	do
		n = poll(p, 2, rar_left_ms(deadline));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return p[1].revents ? -ECANCELED : n ? 0 : -ETIMEDOUT;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

static int get(const struct stub *s, int fd, void *buf, size_t len, int64_t deadline)
{
	ssize_t n;
	int err;

	for (; len; len -= n, buf = (char *)buf + n) {
		err = wait_fd(s, fd, POLLIN, deadline);
		if (err)
			return err;
		n = recv(fd, buf, len, MSG_DONTWAIT);
		if (!n)
			return -EPIPE;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		n = n < 0 ? 0 : n;
	}
	return 0;
}

static int put(const struct stub *s, int fd, const void *buf, size_t len)
{
	ssize_t n;
	int err;

	for (; len; len -= n, buf = (const char *)buf + n) {
		err = wait_fd(s, fd, POLLOUT, -1);
		if (err)
			return err;
		n = send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		n = n < 0 ? 0 : n;
	}
	return 0;
}

/* Give the hub a contribution, unless it answers before it has all: then with an error. */
static int give(const struct stub *s, int fd, const char *buf, size_t len)
{
	ssize_t n;
	int err;

	for (; len && !readable(fd); len -= n, buf += n) {
		err = wait_fd(s, fd, POLLOUT | POLLIN, -1);
		if (err)
			return err;
		n = send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		n = n < 0 ? 0 : n;
	}
	return 0;
}

/* -- join ------------------------------------------------------------------ */

static socklen_t fill_name(const rar_comm_t *c, struct sockaddr_un *name)
{
	*name = (struct sockaddr_un) { .sun_family = AF_UNIX };	/* abstract: begins with 0 */
	return offsetof(struct sockaddr_un, sun_path) + 1 +
	       snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "rar-stub-%016llx",
			(unsigned long long)c->group);
}

static int64_t join_deadline(const rar_comm_t *c)
{
	return rar_deadline(c->join_ms ? c->join_ms : JOIN_MS);
}

static uint32_t first_missing(const rar_comm_t *c)
{
	uint32_t r = 1;

	while (r < c->size && c->stub->peer[r] >= 0)
		r++;
	return r;
}

/* The ranks repeat the operations that one of them lacks, if all come from one epoch. */
static void note_past(struct welcome *w, const struct hello *h)
{
	if (!h->past)
		return;
	if (!w->past || w->past == h->past)
		w->op = w->past && w->op < h->complete ? w->op : h->complete;
	w->past = w->past && w->past != h->past ? ~0ull : h->past;
}

/* Let one rank in. A stranger, or a second rank of one number, is sent away. */
static int admit(rar_comm_t *c, int fd, struct welcome *w, int64_t deadline)
{
	struct stub *s = c->stub;
	struct welcome no = {};
	struct hello h;

	if (get(s, fd, &h, sizeof(h), deadline)) {
		close(fd);
		return 0;
	}
	if (h.size != c->size)
		w->error = error_of(EBADMSG, RAR_R_SIZE, h.rank, 0, 0);
	if (h.size != c->size || h.rank >= c->size || s->peer[h.rank] >= 0) {
		no.error = w->error.err ? w->error :
			   error_of(EADDRINUSE, RAR_R_DUPLICATE, h.rank, h.rank, 0);
		put(s, fd, &no, sizeof(no));
		close(fd);
		return -w->error.err;
	}
	note_past(w, &h);
	s->peer[h.rank] = fd;
	return 0;
}

static int gather_ranks(rar_comm_t *c, struct welcome *w)
{
	int64_t deadline = join_deadline(c);
	struct stub *s = c->stub;
	int err = 0, fd;

	note_past(w, &s->hello);
	while (!err && first_missing(c) < c->size) {
		err = wait_fd(s, s->listen, POLLIN, deadline);
		if (err == -ETIMEDOUT)
			w->error = error_of(ETIMEDOUT, RAR_R_JOIN_TIMEOUT, first_missing(c),
					    first_missing(c), 0);
		if (err)
			return err;
		fd = accept4(s->listen, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			err = admit(c, fd, w, deadline);
	}
	return err;
}

/* Nobody may connect any more, as ranks that join again do, but the name stays taken. */
static void hold_name(rar_comm_t *c)
{
	struct sockaddr_un name;
	socklen_t len = fill_name(c, &name);
	struct stub *s = c->stub;

	close_fd(s->listen);
	s->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->listen >= 0 && bind(s->listen, (void *)&name, len))
		rar_debug(c, "the name is lost: %s", strerror(errno));
}

/* The hub: let all in, then tell all how it went. */
static int join_as_hub(rar_comm_t *c)
{
	struct stub *s = c->stub;
	struct welcome w = { .epoch = rar_random() };
	int err = gather_ranks(c, &w);

	hold_name(c);
	for (uint32_t r = 1; r < c->size; r++)
		if (s->peer[r] >= 0)
			put(s, s->peer[r], &w, sizeof(w));
	s->welcome = w;
	if (err && !w.error.err)
		w.error = error_of(-err, RAR_R_NONE, 0, 0, 0);
	return err ? fail(c, &w.error) : 0;
}

static int connect_hub(rar_comm_t *c, int64_t deadline)
{
	struct stub *s = c->stub;
	struct sockaddr_un name;
	socklen_t len = fill_name(c, &name);
	int err;

	s->peer[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->peer[0] < 0)
		return -errno;
	while (connect(s->peer[0], (void *)&name, len)) {
		if (errno != ECONNREFUSED && errno != EAGAIN)
			return -errno;
		err = wait_fd(s, -1, 0, rar_deadline(RETRY_MS));
		if (err == -ECANCELED || !rar_left_ms(deadline))
			return err;
	}
	return 0;
}

static int join_hub(rar_comm_t *c)
{
	int64_t deadline = join_deadline(c);
	struct stub *s = c->stub;
	struct rar_error error;
	int err;

	err = connect_hub(c, deadline);
	if (!err)
		err = put(s, s->peer[0], &s->hello, sizeof(s->hello));
	/* The hub names the rank that is missing, so it may be a little late. */
	if (!err)
		err = get(s, s->peer[0], &s->welcome, sizeof(s->welcome),
			  rar_deadline(rar_left_ms(deadline) + 1000));
	if (!err)
		return s->welcome.error.err ? fail(c, &s->welcome.error) : 0;
	error = err == -ETIMEDOUT ? error_of(ETIMEDOUT, RAR_R_JOIN_TIMEOUT, 0, 0, 0) :
				    error_of(ECONNRESET, RAR_R_DIED, 0, 0, 0);
	return fail(c, &error);
}

/* -- operations ------------------------------------------------------------ */

static struct frame frame_of(const struct work *w)
{
	return (struct frame) { .kind = OPERATION, .root = w->root, .bytes = w->bytes,
				.op_flags = w->op_flags,
				.collective = w->collective, .dtype = w->dtype,
				.redop = w->redop };
}

/* What a rank gives and gets: bytes [off, off + len) of the tensor. */
struct span {
	uint64_t off, len;
};

static struct span given(const rar_comm_t *c, const struct work *w, uint32_t rank)
{
	uint64_t block = w->bytes / c->size;

	switch (w->collective) {
	case RAR_ALLGATHER:
		return (struct span) { rank * block, block };
	case RAR_BROADCAST:
		return (struct span) { 0, rank == w->root ? w->bytes : 0 };
	}
	return (struct span) { 0, w->bytes };
}

static struct span got(const rar_comm_t *c, const struct work *w, uint32_t rank)
{
	uint64_t block = w->bytes / c->size;

	switch (w->collective) {
	case RAR_REDUCE_SCATTER:
		return (struct span) { rank * block, block };
	case RAR_REDUCE:
		return (struct span) { 0, rank == w->root ? w->bytes : 0 };
	}
	return (struct span) { 0, w->bytes };
}

/* Are all contributions reduced to one? */
static bool reduces(int collective)
{
	return collective == RAR_ALLREDUCE || collective == RAR_REDUCE ||
	       collective == RAR_REDUCE_SCATTER;
}

/* Put a contribution into the tensor of the hub: its place, or added in the order of ranks. */
static void use(const rar_comm_t *c, const struct work *w, char *tensor, const char *in,
		uint32_t rank)
{
	struct span span = given(c, w, rank);

	if (!span.len)
		return;
	if (w->collective == RAR_ALLGATHER || w->collective == RAR_BROADCAST || !rank)
		memcpy(tensor + span.off, in, span.len);
	else
		rar_stub_combine(w->dtype, w->redop, tensor, in,
				 w->bytes / rar_dtype_size(w->dtype));
}

static enum rar_reason difference(const struct frame *a, const struct frame *b)
{
	if (a->collective != b->collective)
		return RAR_R_COLLECTIVE;
	if (a->dtype != b->dtype)
		return RAR_R_DTYPE;
	if (a->redop != b->redop)
		return RAR_R_REDOP;
	if (a->bytes != b->bytes)
		return RAR_R_COUNT;
	if (a->root != b->root)
		return RAR_R_ROOT;
	return a->op_flags != b->op_flags ? RAR_R_FLAGS : RAR_R_NONE;
}

static uint64_t value_of(const struct frame *f, enum rar_reason why)
{
	switch (why) {
	case RAR_R_COLLECTIVE:
		return f->collective;
	case RAR_R_DTYPE:
		return f->dtype;
	case RAR_R_REDOP:
		return f->redop;
	case RAR_R_COUNT:
		return f->bytes / rar_dtype_size(f->dtype);
	case RAR_R_ROOT:
		return f->root;
	default:
		return f->op_flags;
	}
}

/* Why a connection brought something else than an operation. @late: it has sent this one. */
static struct rar_error why_gone(int err, const struct frame *f, uint32_t rank, bool late,
				 uint64_t seq)
{
	enum rar_reason why = late ? RAR_R_CLOSED : RAR_R_LEFT;

	if (err || f->kind == OPERATION)
		why = RAR_R_DIED;
	else if (f->kind == ABORT)
		why = RAR_R_ABORTED;
	return error_of(ECONNRESET, why, rank, rank, seq);
}

/* The contribution of one rank. 0, -ECANCELED, or -error->err. */
static int take_given(rar_comm_t *c, const struct work *w, uint32_t rank, char *in,
		      struct rar_error *error)
{
	struct frame f, own = frame_of(w);
	struct stub *s = c->stub;
	enum rar_reason why;
	int err;

	err = get(s, s->peer[rank], &f, sizeof(f), -1);
	if (err == -ECANCELED)
		return err;
	why = err || f.kind != OPERATION ? RAR_R_NONE : difference(&f, &own);
	if (why != RAR_R_NONE) {
		*error = error_of(EBADMSG, why, rank, 0, s->complete);
		error->value = value_of(&f, why);
		error->other_value = value_of(&own, why);
	} else if (err || f.kind != OPERATION) {
		*error = why_gone(err, &f, rank, false, s->complete);
	} else {
		err = get(s, s->peer[rank], in, given(c, w, rank).len, -1);
		if (err && err != -ECANCELED)
			*error = why_gone(err, &f, rank, true, s->complete);
	}
	return error->err ? -error->err : err;
}

/* Wait until a rank of @missing sends something, or another goes away: *rank. At least one is
 * missing; -ETIMEDOUT sets *rank to the first of them.
 */
static int wait_rank(rar_comm_t *c, const bool *missing, int64_t deadline, uint32_t *rank)
{
	struct stub *s = c->stub;
	struct pollfd p[c->size];
	uint32_t r;
	int n;

	p[0] = (struct pollfd) { .fd = s->stop, .events = POLLIN };
	for (r = 1; r < c->size; r++)
		p[r] = (struct pollfd) { .fd = s->peer[r],
					 .events = missing[r] ? POLLIN : POLLRDHUP };
	do
		n = poll(p, c->size, rar_left_ms(deadline));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (p[0].revents)
		return -ECANCELED;
	for (r = 1; n ? !p[r].revents : !missing[r]; r++)
		;
	*rank = r;
	return n ? 0 : -ETIMEDOUT;
}

/* Gather the contributions of all ranks in the tensor. */
static int gather(rar_comm_t *c, const struct queued *q, char **in, char *tensor,
		  struct rar_error *error)
{
	int64_t deadline = rar_deadline(c->op_ms ? (int)c->op_ms : -1);
	struct stub *s = c->stub;
	bool missing[c->size];
	uint32_t left = c->size - 1, r = 0;
	struct frame f;
	int err = 0;

	memset(missing, true, sizeof(missing));
	while (left && !err) {
		err = wait_rank(c, missing, deadline, &r);
		if (err == -ETIMEDOUT) {
			*error = error_of(ETIMEDOUT, RAR_R_TIMEOUT, r, r, s->complete);
		} else if (!err && !missing[r]) {
			err = get(s, s->peer[r], &f, sizeof(f), -1);
			*error = why_gone(err, &f, r, true, s->complete);
			err = -error->err;
		} else if (!err) {
			err = take_given(c, &q->work, r, in[r], error);
			missing[r] = false;
			left--;
		}
	}
	for (r = 0; r < c->size && !err; r++)
		use(c, &q->work, tensor, r ? in[r] : q->given, r);
	if (!err && c->size == 1 && reduces(q->work.collective))
		rar_stub_alone(q->work.dtype, q->work.redop, tensor,
			       q->work.bytes / rar_dtype_size(q->work.dtype));
	if (!err && q->work.redop == RAR_AVG && c->size > 1)
		rar_stub_divide(q->work.dtype, tensor, q->work.bytes / rar_dtype_size(q->work.dtype),
				c->size);
	return err;
}

/* Send every rank its result, or the error. */
static int answer(rar_comm_t *c, const struct work *w, const char *tensor,
		  struct rar_error *error)
{
	struct frame f = frame_of(w);
	struct stub *s = c->stub;
	struct span span;
	int err;

	f.error = *error;
	for (uint32_t r = 1; r < c->size; r++) {
		span = got(c, w, r);
		err = put(s, s->peer[r], &f, sizeof(f));
		if (!err && !f.error.err)
			err = put(s, s->peer[r], tensor + span.off, span.len);
		if (err == -ECANCELED)
			return err;
		if (err && !error->err)
			*error = error_of(ECONNRESET, RAR_R_DIED, r, r, s->complete);
	}
	return -error->err;
}

static void free_list(char **list, uint32_t n)
{
	for (uint32_t i = 0; list && i < n; i++)
		free(list[i]);
	free(list);
}

static char **alloc_list(const rar_comm_t *c, const struct work *w)
{
	char **list = calloc(c->size, sizeof(*list));

	for (uint32_t i = 1; list && i < c->size; i++) {
		list[i] = malloc(given(c, w, i).len + 1);
		if (!list[i]) {
			free_list(list, c->size);
			return NULL;
		}
	}
	return list;
}

static int run_as_hub(rar_comm_t *c, const struct queued *q)
{
	struct rar_error error = {};
	char **in = alloc_list(c, &q->work), *tensor = malloc(q->work.bytes + 1);
	struct span own = got(c, &q->work, 0);
	int err = -ENOBUFS;

	if (in && tensor)
		err = gather(c, q, in, tensor, &error);
	else
		error = error_of(ENOBUFS, RAR_R_NOMEM, 0, 0, c->stub->complete);
	if (err != -ECANCELED)
		err = answer(c, &q->work, tensor, &error);
	if (!err && own.len)
		memcpy(q->work.recv, tensor + own.off, own.len);
	if (error.err)
		fail(c, &error);
	free_list(in, c->size);
	free(tensor);
	return err;
}

static int run_at_hub(rar_comm_t *c, const struct queued *q)
{
	int64_t deadline = rar_deadline(c->op_ms ? 2 * (int)c->op_ms : -1);
	struct frame f = frame_of(&q->work);
	struct stub *s = c->stub;
	int err;

	err = put(s, s->peer[0], &f, sizeof(f));
	if (!err)
		err = give(s, s->peer[0], q->given, q->work.send_len);
	/* Why the hub did not take it, it may have written before. */
	if (err != -ECANCELED)
		err = get(s, s->peer[0], &f, sizeof(f), deadline);
	if (!err && f.kind == OPERATION && !f.error.err) {
		err = get(s, s->peer[0], q->work.recv, q->work.recv_len, deadline);
		if (!err)
			return 0;
	}
	if (err == -ECANCELED)
		return err;
	if (err || !f.error.err)
		f.error = err == -ETIMEDOUT ?
			  error_of(ETIMEDOUT, RAR_R_TIMEOUT, 0, 0, s->complete) :
			  why_gone(err, &f, 0, false, s->complete);
	return fail(c, &f.error);
}

/* -- the thread ------------------------------------------------------------ */

static void *copy(const void *from, size_t len)
{
	char *p = malloc(len + 1);

	if (p && len)
		memcpy(p, from, len);
	return p;
}

/* Wait for an operation; NULL: the thread is to end. */
static struct queued *next_operation(struct stub *s)
{
	struct queued *q = NULL;

	pthread_mutex_lock(&s->lock);
	while (s->posted == s->complete && !s->quit)
		pthread_cond_wait(&s->news, &s->lock);
	if (!s->quit)
		q = &s->queue[s->complete % RAR_MAX_OPS];
	pthread_mutex_unlock(&s->lock);
	return q;
}

static void complete(rar_comm_t *c, struct queued *q)
{
	struct stub *s = c->stub;
	uint64_t one = 1;

	free(q->given);
	q->given = NULL;
	pthread_mutex_lock(&s->lock);
	s->complete++;
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
	if (write(c->fd, &one, sizeof(one)) != sizeof(one))
		rar_debug(c, "eventfd: %s", strerror(errno));
}

/*
 * Say why this rank goes, as far as it can be sent at once. A rank may die after some of the
 * others have got the result: the hub tells them of it in this way.
 */
static void say_bye(rar_comm_t *c)
{
	struct rar_error own, known;
	struct stub *s = c->stub;
	struct frame f = {};
	bool aborted;

	pthread_mutex_lock(&s->lock);
	aborted = s->aborted;
	known = s->error;
	pthread_mutex_unlock(&s->lock);
	f.kind = aborted ? ABORT : BYE;
	own = error_of(ECONNRESET, aborted ? RAR_R_ABORTED : RAR_R_CLOSED, c->rank, c->rank,
		       s->complete);
	if (!c->rank)
		f.error = known.err ? known : own;
	for (uint32_t r = 0; r < c->size; r++)
		if (s->peer[r] >= 0) {
			send(s->peer[r], &f, sizeof(f), MSG_DONTWAIT | MSG_NOSIGNAL);
			shutdown(s->peer[r], SHUT_WR);
		}
	if (aborted)
		fail(c, &own);
}

static void *serve(void *arg)
{
	rar_comm_t *c = arg;
	struct stub *s = c->stub;
	struct queued *q;
	int err;

	err = c->rank ? join_hub(c) : join_as_hub(c);
	pthread_mutex_lock(&s->lock);
	s->joined = !err;
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
	while (!err && (q = next_operation(s))) {
		err = c->rank ? run_at_hub(c, q) : run_as_hub(c, q);
		if (!err)
			complete(c, q);
	}
	say_bye(c);
	return NULL;
}

/* -- the transport --------------------------------------------------------- */

/* End the thread, and free all but comm->fd. In a child there is no thread. */
static void stop(rar_comm_t *c, bool inherited)
{
	struct stub *s = c->stub;
	uint64_t one = 1;

	if (!s)
		return;
	if (!inherited) {
		pthread_mutex_lock(&s->lock);
		s->quit = true;
		pthread_cond_broadcast(&s->news);
		pthread_mutex_unlock(&s->lock);
		if (write(s->stop, &one, sizeof(one)) == sizeof(one))
			pthread_join(s->thread, NULL);
		pthread_mutex_destroy(&s->lock);
		pthread_cond_destroy(&s->news);
	}
	for (uint32_t i = 0; i < RAR_MAX_OPS; i++)
		free(s->queue[i].given);
	for (uint32_t r = 0; s->peer && r < c->size; r++)
		close_fd(s->peer[r]);
	close_fd(s->listen);
	close_fd(s->stop);
	free(s->peer);
	free(s);
	c->stub = NULL;
}

/* The hub listens before the others can know its group. */
static int open_hub(rar_comm_t *c)
{
	struct sockaddr_un name;
	socklen_t len = fill_name(c, &name);
	struct stub *s = c->stub;

	s->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->listen < 0 || bind(s->listen, (void *)&name, len) || listen(s->listen, 1024))
		return -errno;
	return 0;
}

static int open_stub(rar_comm_t *c)
{
	struct stub *s = c->stub;

	s->peer = malloc(c->size * sizeof(*s->peer));
	for (uint32_t r = 0; s->peer && r < c->size; r++)
		s->peer[r] = -1;
	if (c->fd < 0)
		c->fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	s->stop = eventfd(0, EFD_CLOEXEC);
	if (!s->peer)
		return -ENOMEM;
	if (c->fd < 0 || s->stop < 0)
		return -errno;
	return c->rank ? 0 : open_hub(c);
}

static void drain(int fd)
{
	uint64_t n;

	while (fd >= 0 && read(fd, &n, sizeof(n)) == sizeof(n))
		;
}

/* Signals of the process are for the threads of the program. */
static int start_thread(rar_comm_t *c)
{
	sigset_t all, usual;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &usual);
	err = -pthread_create(&c->stub->thread, NULL, serve, c);
	pthread_sigmask(SIG_SETMASK, &usual, NULL);
	return err;
}

/* The thread ends before the communicator gets another size, rank and group. */
static void stub_renew(rar_comm_t *c)
{
	struct stub *s = c->stub;

	if (s) {
		pthread_mutex_lock(&s->lock);
		if (s->joined) {
			c->past = s->welcome.epoch;
			c->past_complete = s->complete;
		}
		pthread_mutex_unlock(&s->lock);
	}
	stop(c, false);
	drain(c->fd);
}

static int stub_start(rar_comm_t *c, const struct card *cards)
{
	struct stub *s = calloc(1, sizeof(*s));
	int err;

	(void)cards;
	if (!s)
		return -ENOMEM;
	s->hello = (struct hello) { .rank = c->rank, .size = c->size, .past = c->past,
				    .complete = c->past_complete };
	s->stop = s->listen = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->news, NULL);
	c->stub = s;
	rar_stub_caps(&c->caps);
	err = open_stub(c);
	if (!err)
		err = start_thread(c);
	if (err)
		stop(c, true);
	return err;
}

/* Wait until a condition of the stub holds; s->lock is held. */
#define WAIT_NEWS(s, cond, deadline)						\
	({									\
		bool _in_time = true;						\
										\
		while (!(cond) && _in_time)					\
			_in_time = sleep_news(s, deadline);			\
		(cond);								\
	})

static bool sleep_news(struct stub *s, int64_t deadline)
{
	struct timespec t;
	int ms = rar_left_ms(deadline);

	if (ms < 0)
		return !pthread_cond_wait(&s->news, &s->lock);
	if (!ms)
		return false;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += ms % 1000 * 1000000;
	t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&s->news, &s->lock, &t);
	return true;
}

static int stub_ready(rar_comm_t *c, int timeout_ms)
{
	int64_t deadline = rar_deadline(timeout_ms);
	struct stub *s = c->stub;
	int err = 0;

	pthread_mutex_lock(&s->lock);
	if (!WAIT_NEWS(s, s->joined || s->error.err, deadline))
		err = -EAGAIN;
	else if (s->error.err)
		err = -s->error.err;
	pthread_mutex_unlock(&s->lock);
	return err;
}

/* All that librar lets through: RAR_MAX_OPS. */
static bool stub_has_room(const rar_comm_t *c)
{
	(void)c;
	return true;
}

static int stub_post(rar_comm_t *c, struct work *w)
{
	struct stub *s = c->stub;
	char *given = copy(w->send, w->send_len);
	int err = given ? 0 : -ENOMEM;

	pthread_mutex_lock(&s->lock);
	if (s->error.err)
		err = -s->error.err;
	if (!err) {
		s->queue[s->posted % RAR_MAX_OPS] = (struct queued) { *w, given };
		s->posted++;
		pthread_cond_broadcast(&s->news);
	}
	pthread_mutex_unlock(&s->lock);
	if (err)
		free(given);
	return err;
}

static int stub_take(rar_comm_t *c, struct work *w, int timeout_ms)
{
	int64_t deadline = rar_deadline(timeout_ms);
	uint64_t op = c->done - c->base, n;
	struct stub *s = c->stub;
	int err = 0;

	(void)w;
	pthread_mutex_lock(&s->lock);
	if (!WAIT_NEWS(s, s->complete > op || s->error.err, deadline))
		err = -EAGAIN;
	else if (s->complete <= op)
		err = -s->error.err;
	pthread_mutex_unlock(&s->lock);
	if (!err && read(c->fd, &n, sizeof(n)) != sizeof(n))
		rar_debug(c, "eventfd: %s", strerror(errno));
	return err;
}

static int stub_resume(rar_comm_t *c, uint64_t *op)
{
	struct welcome *w = &c->stub->welcome;

	if (!w->past || w->past != c->past)
		return -ENOENT;
	*op = w->op;
	return 0;
}

static int stub_reg(rar_comm_t *c, int option, const void *addr, size_t len, uint32_t flags)
{
	(void)c;
	(void)option;
	return !addr || !len || flags & ~RAR_REG_READ ? -EINVAL : 0;
}

static void stub_error(rar_comm_t *c, struct rar_error *error)
{
	struct stub *s = c->stub;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	*error = s->error;
	pthread_mutex_unlock(&s->lock);
}

static int stub_slow(rar_comm_t *c, uint32_t *rank, uint32_t *ms)
{
	(void)c;
	*rank = RAR_NO_RANK;	/* the stub does not measure it */
	*ms = 0;
	return 0;
}

/* When there is an error, the thread uses the memory of requests no more. */
static void stub_abort(rar_comm_t *c)
{
	struct stub *s = c->stub;
	uint64_t one = 1;

	if (!s)		/* joining again failed */
		return;
	pthread_mutex_lock(&s->lock);
	s->aborted = true;
	s->quit = true;
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
	if (write(s->stop, &one, sizeof(one)) != sizeof(one))
		rar_debug(c, "eventfd: %s", strerror(errno));
	pthread_mutex_lock(&s->lock);
	WAIT_NEWS(s, s->error.err, -1);
	pthread_mutex_unlock(&s->lock);
}

static void stub_close(rar_comm_t *c, bool inherited)
{
	stop(c, inherited);
	close_fd(c->fd);
	c->fd = -1;
}

const struct transport stub_transport = {
	.name = "the stub",
	.renew = stub_renew,
	.start = stub_start,
	.ready = stub_ready,
	.has_room = stub_has_room,
	.post = stub_post,
	.take = stub_take,
	.resume = stub_resume,
	.reg = stub_reg,
	.error = stub_error,
	.slow = stub_slow,
	.abort = stub_abort,
	.close = stub_close,
};
