// SPDX-License-Identifier: GPL-2.0
/*
 * Records of a keyed reduction: send() gives some of them in each call, recv() returns some of
 * the result.
 *
 * The operation is posted by the first call. send() fills the chunks of the stream, and waits
 * when all of them are filled. At the root it reduces the records itself.
 */
#include <linux/bitfield.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <net/sock.h>

#include "core/buf.h"
#include "core/keyed.h"
#include "core/member.h"
#include "core/op.h"
#include "ring/keyed.h"
#include "ring/stream.h"
#include "sock/records.h"
#include "sock/sock.h"

#define RECORDS_BOUNCE	SZ_4K	/* bytes that are copied at a time */
#define RECORDS_PUSH	16	/* chunks that send() fills before it lets them go */

/* -- send ------------------------------------------------------------------- */

/* The code of a key's length in the fingerprint, 0 if there are no such keys. */
static u8 key_code(u32 key)
{
	switch (key) {
	case 8:
		return 1;
	case 16:
		return 2;
	case 32:
		return 3;
	}
	return 0;
}

/**
 * rar_records_check() - may a keyed reduction be posted?
 * @m:           member in RUN
 * @fingerprint: of the operation that the user asks for; completed
 * @key:         bytes of a key
 * @bytes:       of the records that the root has room for
 * @len:         bytes of the first records
 * @room:        set to the bytes that this rank is charged for
 *
 * Return: 0, -EINVAL, -EOPNOTSUPP or -EMSGSIZE.
 */
int rar_records_check(const struct rar_member *m, struct rar_fingerprint *fingerprint, u32 key,
		      u64 bytes, size_t len, u64 *room)
{
	struct rar_keyed_kind kind;
	u32 chunk;

	if (!key_code(key))
		return -EINVAL;
	if (fingerprint->mode ||
	    (m->size > 1 && !(m->direct.all && m->direct.paired)))
		return -EOPNOTSUPP;
	fingerprint->mode = FIELD_PREP(RAR_MODE_KEY, key_code(key));
	if (!rar_keyed_of(&kind, fingerprint))
		return -EOPNOTSUPP;
	if (!bytes || bytes % kind.record || len % kind.record)
		return -EINVAL;
	fingerprint->count = div_u64(bytes, kind.record);
	chunk = rar_keyed_chunk(&kind, m->payload);
	if (fingerprint->count > RAR_KEYED_SLOTS_MAX || !chunk)
		return -EMSGSIZE;
	*room = fingerprint->root == m->rank ?
		rar_keyed_room(&kind, fingerprint->count, m->payload,
			       rar_place_keyed(&m->place)) :
		(u64)rar_keyed_window(chunk) * chunk;
	return 0;
}

/**
 * rar_records_prepare() - make a keyed reduction ready to be posted
 * @m:  member
 * @op: scheduled
 *
 * The root waits for the streams of all other ranks, each of them for the root.
 */
void rar_records_prepare(const struct rar_member *m, struct rar_operation *op)
{
	if (op->keyed->is_root)
		op->peers = GENMASK(m->size - 1, 0) & ~BIT(m->rank);
	else
		op->peers = BIT(op->fingerprint.root);
}

/* Reduce records at the root. Return: bytes that were taken, or a negative errno. */
static int give_root(struct rar_member *m, struct rar_operation *op, struct iov_iter *from,
		     size_t len)
{
	u32 record = op->keyed->kind.record, n, taken;
	void *bounce = kmalloc(RECORDS_BOUNCE, GFP_KERNEL);

	if (!bounce)
		return -ENOMEM;
	n = min_t(size_t, len, RECORDS_BOUNCE) / record;
	if (copy_from_iter(bounce, n * record, from) == n * record) {
		taken = rar_keyed_give(m, op, bounce, n);
		iov_iter_revert(from, (n - taken) * record);
		kfree(bounce);
		/* Only recv() makes room. */
		return taken ? taken * record : -ENOBUFS;
	}
	kfree(bounce);
	return -EFAULT;
}

/*
 * Fill the next chunk of a stream. A chunk that is full goes when another record comes, so that
 * the last chunk of a stream is not empty. Return: bytes that were taken, -EAGAIN or -EFAULT.
 */
static int give_stream(struct rar_member *m, struct rar_operation *op, struct iov_iter *from,
		       size_t len)
{
	struct rar_keyed *k = op->keyed;
	struct rar_stream *s = k->stream;
	u32 n;
	int err;

	if (s->fill == k->chunk) {
		if (!rar_stream_free(s))
			return -EAGAIN;
		if (rar_stream_filled(m, op) >= RECORDS_PUSH)
			rar_stream_push(m, op);
	}
	n = min_t(size_t, len, k->chunk - s->fill);
	err = rar_buf_from_iter(&op->buf, (u64)(s->next % s->window) * k->chunk + s->fill, from, n);
	if (err)
		return err;
	s->fill += n;
	return n;
}

/* The error with which a record that was begun ends, or 0. Its operation was posted already. */
static int record_error(struct rar_member *m)
{
	int err = 0;

	spin_lock_bh(&m->lock);
	if (m->state == RAR_S_FAILED)
		err = -m->error.err;
	spin_unlock_bh(&m->lock);
	return err;
}

/* Sleep until a stream has chunks to fill. Returns 0 to try again, or an errno. */
static int stream_wait(struct sock *sk, struct rar_member *m, const struct rar_stream *s,
		       long *timeo)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	int err = 0;

	add_wait_queue(sk_sleep(sk), &wait);
	while (!rar_stream_writable(s) && !err) {
		err = record_error(m);
		if (!err && !*timeo)
			err = -EAGAIN;
		if (!err && signal_pending(current))
			err = sock_intr_errno(*timeo);
		if (!err)
			*timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, *timeo);
	}
	remove_wait_queue(sk_sleep(sk), &wait);
	return err;
}

/* Take records. Return: bytes that were taken, or a negative errno if none were. */
static int give(struct sock *sk, struct rar_member *m, struct rar_operation *op,
		struct iov_iter *from, size_t len, long timeo)
{
	size_t taken = 0;
	int n = 0;

	while (taken < len) {
		n = record_error(m);
		if (!n)
			n = op->keyed->is_root ? give_root(m, op, from, len - taken) :
						 give_stream(m, op, from, len - taken);
		if (n == -EAGAIN) {
			rar_stream_push(m, op);
			n = stream_wait(sk, m, op->keyed->stream, &timeo);
		}
		if (n < 0)
			break;
		taken += n;
		cond_resched();
	}
	if (!op->keyed->is_root)
		rar_stream_push(m, op);
	return taken ?: n;
}

/**
 * rar_records_send() - give records of a keyed reduction that was posted
 * @sk:    socket, whose record was begun; its send_lock is held
 * @m:     its member
 * @msg:   whole records; without MSG_MORE they are the last ones of this rank
 * @len:   bytes
 * @timeo: time to wait, jiffies
 *
 * Return: bytes that were taken, which may be fewer than @len; then they were not the last. Or a
 * negative errno.
 */
int rar_records_send(struct sock *sk, struct rar_member *m, struct msghdr *msg, size_t len,
		     long timeo)
{
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_operation *op = rsk->more;
	int n;

	if (len % op->keyed->kind.record)
		return -EINVAL;
	if (msg->msg_flags & MSG_ZEROCOPY)
		return -EOPNOTSUPP;
	n = len ? give(sk, m, op, &msg->msg_iter, len, timeo) : record_error(m);
	if (n != len || msg->msg_flags & MSG_MORE)
		return n;
	rar_keyed_end(m, op);
	rsk->more = NULL;
	rar_op_put(op);
	return n;
}

/**
 * rar_records_wait() - would send() of records wait?
 * @m: member
 *
 * Any context.
 *
 * Return: true if a record was begun, and would wait.
 */
bool rar_records_wait(const struct rar_member *m)
{
	const struct rar_operation *op;
	bool wait = false;
	u64 next;

	rcu_read_lock();
	next = READ_ONCE(m->op_next);
	op = next ? rcu_dereference(m->ops[(next - 1) % RAR_MAX_OPS]) : NULL;
	if (op && op->keyed && !op->keyed->is_root && !READ_ONCE(op->keyed->ended))
		wait = !rar_stream_writable(op->keyed->stream);
	rcu_read_unlock();
	return wait;
}

/* -- receive ---------------------------------------------------------------- */

/* Has recv() records to return before the operation is complete? */
bool rar_records_ready(const struct rar_operation *op)
{
	return op->keyed && op->keyed->is_root && rar_keyed_has_over(op->keyed->root);
}

/**
 * rar_records_hold() - take a reference to an operation whose result is records
 * @m:  member
 * @op: found by rar_msg_ready(). A keyed reduction that is not complete is gone when the group has
 *      failed
 *
 * Return: 1 if the result is records; 0 if not, and there is no reference; the group's error if
 * the operation is gone.
 */
int rar_records_hold(struct rar_member *m, struct rar_operation *op)
{
	int ret = 0;

	spin_lock_bh(&m->lock);
	if (list_first_entry_or_null(&m->undelivered, struct rar_operation, node) != op)
		ret = -m->error.err ?: -ECONNRESET;
	else if (op->keyed && op->keyed->is_root)
		ret = 1;
	if (ret > 0)
		refcount_inc(&op->ref);
	spin_unlock_bh(&m->lock);
	return ret;
}

/* Where recv() is. */
struct reading {
	struct rar_keyed_root *root;
	u64 over;			/* records read of those that had no room in the table */
	u64 slot;
	bool complete;
};

static const void *next_over(const struct reading *r)
{
	const struct rar_keyed_root *root = r->root;

	/* Pairs with the release in pass(): the record is there. */
	if (r->over == smp_load_acquire(&root->over_end))
		return NULL;
	return root->over + r->over % root->nover * root->table.kind.record;
}

/* The next record of the result, and go on. NULL if there is none now. */
static const void *next_record(struct reading *r)
{
	const void *record = next_over(r);

	if (record) {
		r->over++;
		return record;
	}
	if (!r->complete)
		return NULL;
	record = rar_keyed_next(&r->root->table, &r->slot);
	r->slot += !!record;
	return record;
}

/* Collect records in @bounce, up to @max of them. Return: how many. */
static u32 collect(struct reading *r, u8 *bounce, u32 max)
{
	u32 len = r->root->table.kind.record, n;
	const void *record;

	for (n = 0; n < max; n++) {
		record = next_record(r);
		if (!record)
			break;
		memcpy(bounce + n * len, record, len);
	}
	return n;
}

/* Copy records out. Return: how many, or a negative errno. */
static int copy_out(struct rar_member *m, struct rar_operation *op, struct reading *r,
		    struct iov_iter *to, u64 max)
{
	u32 len = r->root->table.kind.record, n;
	u8 *bounce = kmalloc(RECORDS_BOUNCE, GFP_KERNEL);
	struct reading ahead;
	u64 done = 0;
	int err = bounce ? 0 : -ENOMEM;

	while (!err && done < max) {
		ahead = *r;
		n = collect(&ahead, bounce, min_t(u64, max - done, RECORDS_BOUNCE / len));
		if (!n)
			break;
		if (copy_to_iter(bounce, n * len, to) != n * len) {
			err = -EFAULT;
			break;
		}
		if (ahead.over != r->over)
			rar_keyed_read(m, op, ahead.over - r->over);
		*r = ahead;
		r->root->slot = r->slot;
		done += n;
		cond_resched();
	}
	kfree(bounce);
	return done ?: err;
}

/**
 * rar_records_recv() - return records of the result
 * @m:   member
 * @op:  keyed reduction of which this rank is the root, complete or with rar_records_ready(), and
 *       referenced; the socket's recv_lock is held
 * @msg: where they go
 * @len: bytes
 * @end: set if they are the last
 *
 * Return: bytes, whole records; or -EMSGSIZE if there is no room for one, or another negative
 * errno.
 */
int rar_records_recv(struct rar_member *m, struct rar_operation *op, struct msghdr *msg,
		     size_t len, bool *end)
{
	struct rar_keyed_root *root = op->keyed->root;
	struct reading r = { .root = root, .over = root->over_read, .slot = root->slot };
	u32 record = root->table.kind.record;
	struct reading ahead;
	int n;

	spin_lock_bh(&m->lock);
	r.complete = op->complete;
	spin_unlock_bh(&m->lock);
	ahead = r;
	if (len < record && next_record(&ahead))
		return -EMSGSIZE;
	n = copy_out(m, op, &r, &msg->msg_iter, min_t(u64, len / record, INT_MAX / record));
	if (n < 0)
		return n;
	*end = r.complete && !next_record(&r);
	return n * record;
}
