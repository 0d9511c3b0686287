// SPDX-License-Identifier: GPL-2.0
/*
 * Records: send() turns a tensor into an operation, recv() returns its result.
 */
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <net/sock.h>

#include "core/buf.h"
#include "core/gather.h"
#include "core/keyed.h"
#include "core/mem.h"
#include "core/member.h"
#include "core/op.h"
#include "core/pin.h"
#include "core/ring.h"
#include "core/user.h"
#include "reduce/reduce.h"
#include "ring/done.h"
#include "ring/keyed.h"
#include "ring/post.h"
#include "sock/args.h"
#include "sock/blocking.h"
#include "sock/codec.h"
#include "sock/copy.h"
#include "sock/msg.h"
#include "sock/records.h"
#include "sock/sock.h"

/* Lock out other calls. A call that must not block does not wait for them. */
static int lock_call(struct mutex *lock, int flags)
{
	if (flags & MSG_DONTWAIT)
		return mutex_trylock(lock) ? 0 : -EAGAIN;
	return mutex_lock_interruptible(lock) ? -ERESTARTSYS : 0;
}

/**
 * rar_msg_drop() - drop a record that was begun with MSG_MORE
 * @rsk: socket; @send_lock is held, or no other thread can use the socket
 */
void rar_msg_drop(struct rar_sock *rsk)
{
	if (rsk->more && rsk->more->keyed)
		rar_op_put(rsk->more);	/* it was posted */
	else if (rsk->more)
		rar_op_drop(rsk->more);
	rsk->more = NULL;
}

/**
 * rar_msg_stop_writing() - give back the user's memory before a call reports a failure
 * @m: the socket's member
 *
 * If the group failed, nobody reads or writes pinned memory any more afterwards. May sleep.
 */
void rar_msg_stop_writing(struct rar_member *m)
{
	if (rar_member_state(m) == RAR_S_FAILED)
		rar_pin_end(m);
}

/* -- send ---------------------------------------------------------------- */

/* Return: 0 if send() may go on, -EAGAIN if it would wait, or the errno it would return. */
static int may_send(struct rar_member *m)
{
	int err = rar_post_may(m);

	if (!err && !rar_mem_room(m))
		err = -EAGAIN;
	return err;
}

/*
 * Sleep until send() should try again. Returns 0 to try again, or the errno to return. Other
 * threads may take the room each time, so a signal ends the attempts.
 */
static int send_wait(struct sock *sk, struct rar_member *m, long *timeo)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	int err = 0;

	add_wait_queue(sk_sleep(sk), &wait);
	if (may_send(m) == -EAGAIN) {
		if (*timeo)
			*timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, *timeo);
		else
			err = -EAGAIN;
	}
	remove_wait_queue(sk_sleep(sk), &wait);
	cond_resched();
	return !err && signal_pending(current) ? sock_intr_errno(*timeo) : err;
}

/* Do all operations of the member wait for recv(), so that only recv() frees memory? */
static bool all_unread(struct rar_member *m)
{
	bool all;

	spin_lock_bh(&m->lock);
	all = rar_post_all_unread(m) && READ_ONCE(m->op_oldest) == m->op_next;
	spin_unlock_bh(&m->lock);
	return all;
}

static struct rar_operation *op_alloc(struct rar_sock *rsk, struct rar_member *m,
				      const struct rar_args *args, bool pinned)
{
	if (args->fingerprint.collective == RAR_REDUCE_BY_KEY)
		return rar_op_alloc_keyed(m, &args->fingerprint, args->root == m->rank, args->room);
	if (!pinned)
		return rar_op_alloc(m, args->fingerprint.mode, args->travels,
				    args->room);
	return rar_op_alloc_pinned(m, &rsk->regions, args->fingerprint.mode,
				   args->bytes, args->dst, args->room,
				   args->bits);
}

/* Get an operation with its buffer; waits for memory and for a slot. */
static struct rar_operation *send_alloc(struct sock *sk,
					struct rar_member *m,
					const struct rar_args *args,
					bool pinned, long *timeo)
{
	u64 need = args->room + args->bits;
	struct rar_operation *op;
	bool no_room;
	int err;

	for (;;) {
		err = rar_post_may(m);
		if ((need || !pinned) && rar_mem_too_long(m->rn, need))
			err = -EMSGSIZE;
		op = err ? ERR_PTR(err) : op_alloc(rar_sk(sk), m, args, pinned);
		no_room = !err && op == ERR_PTR(-EAGAIN);
		rar_mem_want(m, no_room ? need : 0);
		if (op != ERR_PTR(-EAGAIN))
			return op;
		/* may_send() looks for room again; if there is none we are woken. */
		if (no_room && !atomic_read(&m->user->freeing) && may_send(m) &&
		    all_unread(m))
			return ERR_PTR(-ENOBUFS);
		WRITE_ONCE(m->want_sleeps, no_room && *timeo);
		err = send_wait(sk, m, timeo);
		WRITE_ONCE(m->want_sleeps, false);
		if (err == -EAGAIN && no_room)
			rar_sock_lacks(sk, READ_ONCE(m->mem_lack));
		if (err)
			return ERR_PTR(err);
	}
}

static int send_post(struct sock *sk, struct rar_member *m,
		     struct rar_operation *op, long *timeo)
{
	int err;

	while ((err = rar_post(m, op)) == -EAGAIN) {
		err = send_wait(sk, m, timeo);
		if (err)
			break;
	}
	return err;
}

/* Post a keyed reduction, which this rank gives records to afterwards. */
static int send_keyed(struct sock *sk, struct rar_member *m, struct rar_operation *op,
		      const struct rar_args *args, long *timeo)
{
	int err;

	err = rar_op_schedule(op, &args->fingerprint, m->payload, &m->place);
	if (!err) {
		rar_records_prepare(m, op);
		refcount_inc(&op->ref);
		err = send_post(sk, m, op, timeo);
	}
	if (err) {
		rar_op_drop(op);
		return err;
	}
	rar_sk(sk)->more = op;
	rar_keyed_begin(m, op);
	return 0;
}

/* The first call of a record: get the operation, and set its fingerprint. */
static int send_begin(struct sock *sk, struct rar_member *m, struct msghdr *msg, size_t len,
		      long *timeo, struct rar_blocking *call)
{
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_operation *op;
	struct rar_args args;
	int err;

	err = rar_args_parse(rsk, m, msg, len, &args, call);
	if (err)
		return err;
	op = send_alloc(sk, m, &args, msg->msg_flags & MSG_ZEROCOPY, timeo);
	if (IS_ERR(op))
		return PTR_ERR(op);
	op->apart = args.apart;
	if (op->apart && op->own == &op->buf)
		op->own = &op->src;
	op->cookie = args.cookie;
	op->prio = args.prio;
	op->blocking = args.blocking;
	if (op->keyed)
		return send_keyed(sk, m, op, &args, timeo);
	op->codec = rar_codec_of(&args.fingerprint);
	op->given = args.given;
	op->got = args.got;
	rsk->more = op;
	rsk->fingerprint = args.fingerprint;
	return 0;
}

/* The pinned buffer that calls append their contribution to; NULL if they copy it. */
static struct rar_buf *pinned_own(struct rar_operation *op)
{
	if (op->apart)
		return &op->src;
	return op->pinned && !op->dst ? &op->buf : NULL;
}

/* Take the contribution of one call, all of it or nothing. */
static int contribute(struct rar_sock *rsk, struct rar_member *m, struct msghdr *msg,
		      size_t len)
{
	struct rar_operation *op = rsk->more;
	bool pinned = msg->msg_flags & MSG_ZEROCOPY;
	struct rar_buf *own = pinned_own(op);
	u64 at = op->given.off + op->filled;

	if (pinned != op->pinned)
		return -EINVAL;
	if (pinned && !user_backed_iter(&msg->msg_iter))
		return -EOPNOTSUPP;
	if (op->dst && rar_buf_overlaps(&msg->msg_iter, at, op->dst, op->bytes))
		return -EINVAL;
	if (own)
		return rar_op_pin(m, op, own, &rsk->regions, &msg->msg_iter,
				  rar_dtype_size(rsk->fingerprint.dtype));
	if (op->codec)
		return rar_codec_gather(op, &msg->msg_iter, len);
	return rar_buf_from_iter(&op->buf, at, &msg->msg_iter, len);
}

/* Post a record to which this rank contributes afterwards. The caller gets a reference. */
static int send_later(struct sock *sk, struct rar_member *m, struct rar_operation *op,
		      long *timeo)
{
	int err;

	op->later = true;
	refcount_inc(&op->ref);
	err = send_post(sk, m, op, timeo);
	if (!err) {
		rar_sk(sk)->more = NULL;
	} else {
		op->later = false;
		rar_op_put(op);
	}
	return err;
}

/*
 * Send a long record in one call: the ring begins while the record is copied in. A fault
 * then ends the group, so memory that is not there is looked for first.
 */
static int send_long(struct sock *sk, struct rar_member *m,
		     struct rar_operation *op, const struct iov_iter *from, long *timeo)
{
	int err;

	if (fault_in_iov_iter_readable(from, op->given.len))
		return -EFAULT;
	err = send_later(sk, m, op, timeo);
	if (err)
		return err;
	err = rar_copy_in(m, op, from);
	rar_op_put(op);
	return err;
}

/* Send a record that is gathered. Until it is posted its last call may be repeated. */
static int send_gathered(struct sock *sk, struct rar_member *m, struct rar_operation *op,
			 long *timeo)
{
	int err;

	rar_codec_prepare(op, m->size);
	err = send_later(sk, m, op, timeo);
	if (err)
		return err;
	rar_codec_begin(m, op);
	rar_op_put(op);
	return 0;
}

/* Take one call's data, and post the record if the call is its last. */
static int send_piece(struct sock *sk, struct rar_member *m,
		      struct msghdr *msg, size_t len, long *timeo)
{
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_operation *op = rsk->more;
	bool last = !(msg->msg_flags & MSG_MORE);
	struct rar_buf *own = pinned_own(op);
	int err;

	if (len > op->given.len - op->filled ||
	    (last && len != op->given.len - op->filled))
		return -EINVAL;
	err = last ? rar_op_schedule(op, &rsk->fingerprint, m->payload, &m->place) : 0;
	if (err)
		return err;
	if (last && op->step && len && !op->filled && !op->pinned)
		return send_long(sk, m, op, &msg->msg_iter, timeo);
	err = contribute(rsk, m, msg, len);
	if (err)
		return err;
	if (!last) {
		op->filled += len;
		return 0;
	}
	if (op->codec)
		return send_gathered(sk, m, op, timeo);
	if (op->pinned && op->ring.plan.gathered)
		rar_gather_give(op);
	err = own == &op->buf ? rar_buf_repeats(own) : 0;
	if (!err)
		err = send_post(sk, m, op, timeo);
	if (!err)
		rsk->more = NULL;
	else if (own)
		rar_buf_trim(own, op->filled);
	return err;
}

/*
 * splice() cannot say how long a record is, and the kernel cuts the data as it likes. So
 * spliced data belong to a record that was begun before, and end it when it is whole.
 * Without such a record, one page is a record.
 */
static int splice_into(const struct rar_operation *op, struct msghdr *msg, size_t len)
{
	int more = msg->msg_flags & (MSG_MORE | MSG_SENDPAGE_NOTLAST);

	msg->msg_flags &= ~(MSG_MORE | MSG_SENDPAGE_NOTLAST);
	if (!op)
		return more || msg->msg_iter.nr_segs > 1 ? -EINVAL : 0;
	if (len < op->given.len - op->filled)
		msg->msg_flags |= MSG_MORE;
	return 0;
}

/* Send a piece of an operation that the caller waits for: @call gets a reference. */
static int send_awaited(struct sock *sk, struct rar_member *m, struct msghdr *msg, size_t len,
			long *timeo, struct rar_blocking *call)
{
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_operation *op = rsk->more;
	int err;

	refcount_inc(&op->ref);
	err = send_piece(sk, m, msg, len, timeo);
	if (!err)
		call->op = op;
	else if (!rsk->more)	/* posted; else the operation is dropped */
		rar_op_put(op);
	return err;
}

/* Return: bytes that were taken, or a negative errno. */
static int send_call(struct sock *sk, struct rar_member *m, struct msghdr *msg, size_t len,
		     struct rar_blocking *call)
{
	long timeo = sock_sndtimeo(sk, msg->msg_flags & MSG_DONTWAIT);
	struct rar_sock *rsk = rar_sk(sk);
	bool begun = rsk->more;
	int err;

	if (begun && rsk->more->keyed)
		return rar_records_send(sk, m, msg, len, timeo);
	err = rar_post_may(m);
	if (!err || err == -EAGAIN)
		err = rar_msg_is_spliced(msg) ? splice_into(rsk->more, msg, len) : 0;
	if (err)
		return err;
	if (!begun)
		err = send_begin(sk, m, msg, len, &timeo, call);
	if (!err && rsk->more->keyed)
		return rar_records_send(sk, m, msg, len, timeo);
	if (!err)
		err = rsk->more->blocking ? send_awaited(sk, m, msg, len, &timeo, call) :
					    send_piece(sk, m, msg, len, &timeo);
	if (err && !begun)
		rar_msg_drop(rsk);
	return err ?: len;
}

/* Does a call fail only because it should not copy? Then nothing was posted. */
static bool may_copy(int err)
{
	return err == -EDQUOT ||	/* no more memory may be pinned */
	       err == -ENOSPC ||	/* no room for the list of pieces */
	       err == -ENOMEM ||
	       err == -EFAULT ||	/* memory of a file or a device, or none */
	       err == -EINVAL ||	/* an element in two pieces, places that overlap */
	       err == -EMSGSIZE ||	/* too many pieces */
	       err == -EOPNOTSUPP;	/* not the caller's memory */
}

/* What send() returns for an error of the layers below. */
static int sock_err(struct sock *sk, const struct rar_member *m, int err)
{
	/* A failed group may have this errno, too. */
	if (err == -ENOBUFS && rar_member_state(m) != RAR_S_FAILED)
		return rar_sock_lacks(sk, RAR_LACK_RESULTS);
	if (err == -ENOSPC)
		return rar_sock_lacks(sk, READ_ONCE(m->mem_lack));
	return rar_sock_err(sk, err);
}

/* A blocking call copies what it cannot pin. */
static int sock_send(struct sock *sk, struct rar_member *m, struct msghdr *msg, size_t len,
		     struct rar_blocking *call)
{
	struct iov_iter saved = msg->msg_iter;
	int ret = send_call(sk, m, msg, len, call);

	if (!call->pinned || !may_copy(ret))
		return ret;
	sock_err(sk, m, ret);
	*call = (struct rar_blocking) { .copied = true };
	msg->msg_flags &= ~MSG_ZEROCOPY;
	msg->msg_iter = saved;
	return send_call(sk, m, msg, len, call);
}

/**
 * rar_msg_may_send() - may send() be called without waiting?
 * @m: member
 *
 * The length of the next operation is not known. If the last send() found too little
 * memory, the next is expected to need as much.
 *
 * Return: false if send() would wait, or if it needs a recv() first.
 */
bool rar_msg_may_send(struct rar_member *m)
{
	int err = may_send(m);

	return err != -EAGAIN && err != -ENOBUFS && !rar_records_wait(m);
}

#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR | MSG_BATCH | \
		    MSG_CMSG_COMPAT | MSG_SPLICE_PAGES | MSG_ZEROCOPY)

static bool flags_ok(const struct msghdr *msg)
{
	int flags = SEND_FLAGS;

	if (rar_msg_is_spliced(msg))
		flags |= MSG_SENDPAGE_NOTLAST;
	return !(msg->msg_flags & ~flags);
}

int rar_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct sock *sk = sock->sk;
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_blocking call = {};
	struct rar_member *m;
	int err;		/* or bytes that were taken */

	if (msg->msg_flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (!flags_ok(msg))
		return -EINVAL;
	err = lock_call(&rsk->send_lock, msg->msg_flags);
	if (err)
		return err;
	m = rar_sock_get(sk);
	if (!m)
		err = -ENOTCONN;
	else if (msg->msg_namelen)
		err = -EISCONN;
	else if (len > RAR_MAX_CALL)
		err = -EMSGSIZE;
	else
		err = sock_err(sk, m, sock_send(sk, m, msg, len, &call));
	mutex_unlock(&rsk->send_lock);
	if (call.op)
		err = rar_sock_err(sk, rar_blocking_wait(sk, m, &call, msg)) ?:
		      err;
	if (m && err < 0)
		rar_msg_stop_writing(m);
	if (m)
		rar_member_put(m);
	if (err == -EPIPE && !(msg->msg_flags & MSG_NOSIGNAL))
		send_sig(SIGPIPE, current, 0);
	return err;
}

/* -- receive ------------------------------------------------------------- */

/**
 * rar_msg_ready() - find the operation that recv() delivers next
 * @m: member
 *
 * Return: the oldest operation if it is complete, or if recv() returns a part of its result
 * before, unless a send() waits for it; NULL at the end of file; ERR_PTR with
 * -EAGAIN if it is not complete, -ENOTCONN, or the group's error.
 */
struct rar_operation *rar_msg_ready(struct rar_member *m)
{
	struct rar_operation *op;

	spin_lock_bh(&m->lock);
	op = list_first_entry_or_null(&m->undelivered, struct rar_operation,
				      node);
	if (m->state < RAR_S_RUN)
		op = ERR_PTR(-ENOTCONN);
	else if (!op && m->state == RAR_S_FAILED)
		op = ERR_PTR(-m->error.err);
	else if (!op && !m->shut && !m->leave.left)
		op = ERR_PTR(-EAGAIN);
	else if (op && !rar_op_deliverable(op) && !rar_records_ready(op))
		op = ERR_PTR(-EAGAIN);
	spin_unlock_bh(&m->lock);
	return op;
}

static struct rar_operation *recv_wait(struct sock *sk, struct rar_member *m,
				       struct rar_copy *copy, long timeo)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	struct rar_operation *op;
	int ret;

	add_wait_queue(sk_sleep(sk), &wait);
	while ((op = rar_msg_ready(m)) == ERR_PTR(-EAGAIN) && timeo) {
		ret = signal_pending(current) ? sock_intr_errno(timeo) :
						rar_copy_out(m, copy);
		if (ret < 0) {
			op = ERR_PTR(ret);
			break;
		}
		if (!ret)
			timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, timeo);
	}
	remove_wait_queue(sk_sleep(sk), &wait);
	return op;
}

static void recv_done(struct msghdr *msg, const struct rar_member *m,
		      const struct rar_operation *op)
{
	struct rar_done done = {
		.size = sizeof(done),
		.contributors = op->fingerprint.collective == RAR_BROADCAST ? 1 : m->size,
		.flags = op->keyed && op->keyed->is_root && op->keyed->root->partial ?
			 RAR_DONE_PARTIAL : 0,
		.cookie = op->cookie,
		.op_seq = op->seq,
	};

	msg->msg_flags |= MSG_EOR;
	if (msg->msg_controllen)
		put_cmsg(msg, SOL_RAR, RAR_DONE, sizeof(done), &done);
}

/* Give the user as much of a complete operation as there is room for. */
static int recv_copy(struct rar_operation *op, struct msghdr *msg, size_t len,
		     struct rar_copy *copy)
{
	size_t n = min_t(u64, len, op->got.len - op->read);
	int err;

	if (op == copy->op) {
		err = rar_copy_out_rest(copy);
		if (!err)
			iov_iter_advance(&msg->msg_iter, n);
	} else {
		err = rar_codec_to_iter(op, op->got.off + op->read, &msg->msg_iter, n);
	}
	if (err)
		return err;
	op->read += n;
	return n;
}

static bool is_empty(const struct rar_operation *op)
{
	return op->pinned || !op->got.len;
}

/* A result without bytes; with RAR_NONEMPTY a byte stands for it. */
static int recv_empty(struct rar_sock *rsk, struct rar_member *m,
		      struct rar_operation *op, struct msghdr *msg)
{
	bool byte = READ_ONCE(rsk->nonempty);

	if (byte && copy_to_iter("", 1, &msg->msg_iter) != 1)
		return -EFAULT;
	if (op->pinned)
		rar_pin_done(m, op);
	op->read = op->got.len;
	return byte;
}

/*
 * Records of a keyed reduction, whose reference is dropped. Sets @part if they are not the last.
 */
static int recv_records(struct rar_sock *rsk, struct rar_member *m, struct rar_operation *op,
			struct msghdr *msg, size_t len, bool *part)
{
	bool end = false;
	int n = rar_records_recv(m, op, msg, len, &end);

	rar_op_put(op);
	*part = !end;
	if (n || !end)
		return n;
	*part = !len && READ_ONCE(rsk->nonempty);	/* no room for the byte: it stays */
	return *part ? 0 : recv_empty(rsk, m, op, msg);
}

static int sock_recv(struct sock *sk, struct rar_member *m,
		     struct msghdr *msg, size_t len, int flags)
{
	long timeo = sock_rcvtimeo(sk, flags & MSG_DONTWAIT);
	struct rar_copy copy = { .to = &msg->msg_iter };
	struct rar_operation *op;
	int n = 0, records;
	bool part = false;

	op = recv_wait(sk, m, &copy, timeo);
	records = IS_ERR_OR_NULL(op) ? 0 : rar_records_hold(m, op);
	if (IS_ERR_OR_NULL(op))
		n = PTR_ERR(op);
	else if (records)
		n = records < 0 ? records :
		    recv_records(rar_sk(sk), m, op, msg, len, &part);
	else if (!is_empty(op))
		n = recv_copy(op, msg, len, &copy);
	else if (len || !READ_ONCE(rar_sk(sk)->nonempty))
		n = recv_empty(rar_sk(sk), m, op, msg);
	else
		op = NULL;	/* no room for the byte: the result stays */
	if (copy.op)
		rar_op_put(copy.op);
	if (n < 0 || !op)
		return n;
	if (!part && op->read == op->got.len) {
		recv_done(msg, m, op);
		rar_done_delivered(m, op);
	}
	return n;
}

int rar_recvmsg(struct socket *sock, struct msghdr *msg, size_t len, int flags)
{
	struct sock *sk = sock->sk;
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_member *m;
	int ret;

	if (flags & (MSG_OOB | MSG_PEEK | MSG_ERRQUEUE))
		return -EOPNOTSUPP;
	msg->msg_namelen = 0;
	len = min_t(size_t, len, INT_MAX & PAGE_MASK);
	ret = lock_call(&rsk->recv_lock, flags);
	if (ret)
		return ret;
	m = rar_sock_get(sk);
	ret = m ? sock_recv(sk, m, msg, len, flags) : -ENOTCONN;
	if (m && ret < 0)
		rar_msg_stop_writing(m);
	if (m)
		rar_member_put(m);
	mutex_unlock(&rsk->recv_lock);
	return rar_sock_err(sk, ret);
}
