// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Operations: started in an order, complete in that order.
 *
 * One thread at a time waits in the transport for the next result. The others wait for it to
 * come back, and then one of them goes on. So a result is taken once, whoever waits for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include "librar.h"

/* Sleep until another thread has taken a result; c->lock is held. False: time is up. */
static bool sleep_turn(rar_comm_t *c, int64_t deadline)
{
	struct timespec t = { .tv_sec = deadline / 1000, .tv_nsec = deadline % 1000 * 1000000 };

	if (deadline < 0)
		return !pthread_cond_wait(&c->turn, &c->lock);
	return !pthread_cond_timedwait(&c->turn, &c->lock, &t);
}

/*
 * Take the next result, without c->lock; it is held before and afterwards. An error of the
 * group stays. After another one, such as a bad address, the result can be taken again.
 */
static int take(rar_comm_t *c, int timeout_ms)
{
	struct work *work = &c->work[c->done % RAR_MAX_OPS];
	struct rar_error error;
	int err;

	c->taking = true;
	pthread_mutex_unlock(&c->lock);
	err = c->transport->take(c, work, timeout_ms);
	pthread_mutex_lock(&c->lock);
	c->taking = false;
	if (!err)
		c->done++;
	else if (err != -EAGAIN && (err == -EPIPE || rar_comm_error(c, &error)))
		c->err = err;
	pthread_cond_broadcast(&c->turn);
	return err;
}

/* Wait until @want requests are complete. c->lock is held. */
static int wait_done(rar_comm_t *c, uint64_t want, int timeout_ms)
{
	int64_t deadline = rar_deadline(timeout_ms);
	int err;

	while (c->done < want) {
		if (c->err)
			return c->err;
		if (!c->taking) {
			err = take(c, timeout_ms ? rar_left_ms(deadline) : 0);
			if (err && !c->err && (err != -EAGAIN || !rar_left_ms(deadline)))
				return err;
		} else if (!timeout_ms || !sleep_turn(c, deadline)) {
			return -EAGAIN;
		}
	}
	return 0;
}

/* The error that ended a request of an earlier epoch; 0: none did. c->lock is held. */
static int lost_error(const rar_comm_t *c, rar_req_t req)
{
	uint32_t i = c->nr_lost;

	while (i && req < c->lost[i - 1].first)
		i--;
	return i && req <= c->lost[i - 1].last ? c->lost[i - 1].err : 0;
}

static int wait_request(rar_comm_t *c, rar_req_t req, int timeout_ms)
{
	int err;

	if (rar_inherited(c))
		return -ECHILD;
	pthread_mutex_lock(&c->lock);
	err = req > c->posted ? -EINVAL : lost_error(c, req);
	if (!err)
		err = wait_done(c, req, timeout_ms);
	if (!err && req > c->reported)
		c->reported = req;
	pthread_mutex_unlock(&c->lock);
	return err;
}

int rar_wait(rar_comm_t *c, rar_req_t req, int timeout_ms)
{
	return wait_request(c, req, timeout_ms);
}

int rar_test(rar_comm_t *c, rar_req_t req)
{
	return wait_request(c, req, 0);
}

int rar_next(rar_comm_t *c, rar_req_t *req, int timeout_ms)
{
	int64_t deadline = rar_deadline(timeout_ms);
	uint64_t want;
	int err;

	if (rar_inherited(c))
		return -ECHILD;
	pthread_mutex_lock(&c->lock);
	do {	/* again if another thread reports it meanwhile */
		want = c->reported + 1;
		if (want <= c->posted)
			err = wait_done(c, want, rar_left_ms(deadline));
		else
			err = c->err ?: -ENOENT;
	} while (!err && c->reported >= want);
	if (!err) {
		*req = want;
		c->reported = want;
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

/* -- start ----------------------------------------------------------------- */

/* Wait until one of the requests in flight is complete. post_lock is held. */
static int make_room(rar_comm_t *c, int timeout_ms)
{
	int err;

	pthread_mutex_lock(&c->lock);
	err = c->done == c->posted ? 0 : wait_done(c, c->done + 1, timeout_ms);
	pthread_mutex_unlock(&c->lock);
	return err;
}

static uint64_t in_flight(rar_comm_t *c)
{
	uint64_t n;

	pthread_mutex_lock(&c->lock);
	n = c->posted - c->done;
	pthread_mutex_unlock(&c->lock);
	return n;
}

static int state_error(rar_comm_t *c)
{
	int err;

	pthread_mutex_lock(&c->lock);
	err = c->err ? c->err : c->up ? 0 : -ENOTCONN;
	pthread_mutex_unlock(&c->lock);
	return err;
}

/*
 * Where the kernel works in the memory of the result, this rank's share must be there. The place,
 * or NULL if nothing has to be moved.
 */
static char *share_place(const rar_comm_t *c, const struct work *w)
{
	char *to = w->collective == RAR_ALLGATHER ? w->pin + c->rank * w->send_len : w->pin;

	return w->pin && w->send_len && (w->collective == RAR_ALLGATHER ||
					 w->collective == RAR_BROADCAST) && to != w->send ? to : NULL;
}

/*
 * Was this share moved before, and then there was no room? It must be moved again, as the caller
 * may have changed it meanwhile, but not before there may be room.
 */
static bool in_vain(const rar_comm_t *c, const struct work *w, const char *to)
{
	return w->nowait && to && to == c->refused_to && w->send == c->refused_from &&
	       !c->transport->has_room(c);
}

/* Post, and take results where the kernel needs the room that they hold. */
static int post(rar_comm_t *c, struct work *w)
{
	int timeout_ms = w->nowait ? 0 : -1, err;
	const char *from = w->send;
	char *to;

	while (in_flight(c) == RAR_MAX_OPS) {
		err = make_room(c, timeout_ms);
		if (err)
			return err;
	}
	if (w->pin && c->posted < c->no_pin)
		w->pin = NULL;
	to = share_place(c, w);
	while (in_vain(c, w, to)) {
		err = in_flight(c) ? make_room(c, 0) : -EAGAIN;
		if (err)
			return err;
	}
	if (to)
		memcpy(to, from, w->send_len);
	do
		err = c->transport->post(c, w);
	while (err == -ENOBUFS && in_flight(c) && !(err = make_room(c, timeout_ms)));
	c->refused_to = err == -EAGAIN ? to : NULL;
	c->refused_from = from;
	return err;
}

int rar_start(rar_comm_t *c, const struct rar_call *call, rar_req_t *req)
{
	struct work w;
	int err;

	if (rar_inherited(c))
		return -ECHILD;
	/* Another thread may hold the lock while it waits for room. */
	if (!(call->flags & RAR_C_NOWAIT))
		pthread_mutex_lock(&c->post_lock);
	else if (pthread_mutex_trylock(&c->post_lock))
		return -EAGAIN;
	err = state_error(c);
	if (!err)
		err = rar_plan(c, call, &w);
	if (!err)
		err = post(c, &w);
	if (!err) {
		pthread_mutex_lock(&c->lock);
		c->work[c->posted % RAR_MAX_OPS] = w;
		*req = ++c->posted;
		pthread_mutex_unlock(&c->lock);
	}
	pthread_mutex_unlock(&c->post_lock);
	return err;
}

/* -- start and wait -------------------------------------------------------- */

static int call_and_wait(rar_comm_t *c, const struct rar_call *call)
{
	rar_req_t req;
	int err = rar_start(c, call, &req);

	return err ? err : rar_wait(c, req, -1);
}

/* Check what does not fit into the fields of struct rar_call. */
static int call_typed(rar_comm_t *c, int dtype, int redop, struct rar_call call)
{
	if (!rar_dtype_size(dtype))
		return -EINVAL;
	if (redop < 0 || redop >= RAR_REDOP_NR)
		return -EOPNOTSUPP;
	call.dtype = dtype;
	call.redop = redop;
	return call_and_wait(c, &call);
}

int rar_allreduce(rar_comm_t *c, const void *src, void *dst, uint64_t count, int dtype,
		  int redop)
{
	return call_typed(c, dtype, redop, (struct rar_call) {
		.collective = RAR_ALLREDUCE, .src = src, .dst = dst, .count = count });
}

int rar_reduce(rar_comm_t *c, const void *src, void *dst, uint64_t count, int dtype,
	       int redop, uint32_t root)
{
	return call_typed(c, dtype, redop, (struct rar_call) {
		.collective = RAR_REDUCE, .root = root,
		.src = src, .dst = dst, .count = count });
}

int rar_broadcast(rar_comm_t *c, const void *src, void *dst, uint64_t count, int dtype,
		  uint32_t root)
{
	return call_typed(c, dtype, RAR_SUM, (struct rar_call) {
		.collective = RAR_BROADCAST, .root = root,
		.src = src, .dst = dst, .count = count });
}

int rar_allgather(rar_comm_t *c, const void *src, void *dst, uint64_t count, int dtype)
{
	return call_typed(c, dtype, RAR_SUM, (struct rar_call) {
		.collective = RAR_ALLGATHER, .src = src, .dst = dst, .count = count });
}

int rar_reduce_scatter(rar_comm_t *c, const void *src, void *dst, uint64_t count,
		       int dtype, int redop)
{
	return call_typed(c, dtype, redop, (struct rar_call) {
		.collective = RAR_REDUCE_SCATTER, .src = src, .dst = dst, .count = count });
}

int rar_barrier(rar_comm_t *c)
{
	return call_and_wait(c, &(struct rar_call) { .collective = RAR_BARRIER });
}

/* -- memory ---------------------------------------------------------------- */

int rar_mem_reg(rar_comm_t *c, const void *addr, size_t len, uint32_t flags)
{
	if (rar_inherited(c))
		return -ECHILD;
	return c->transport->reg(c, RAR_REG, addr, len, flags);
}

int rar_mem_unreg(rar_comm_t *c, const void *addr, size_t len)
{
	if (rar_inherited(c))
		return -ECHILD;
	return c->transport->reg(c, RAR_UNREG, addr, len, 0);
}
