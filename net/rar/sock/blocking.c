// SPDX-License-Identifier: GPL-2.0
/*
 * The blocking call: a send() with RAR_OP.dst and without MSG_ZEROCOPY returns when the result is
 * at dst. A long tensor is pinned, as with MSG_ZEROCOPY; a short one is copied, which costs less.
 */
#include <linux/sched/signal.h>
#include <linux/uio.h>
#include <net/sock.h>

#include "core/member.h"
#include "core/op.h"
#include "core/pin.h"
#include "ring/done.h"
#include "sock/blocking.h"
#include "sock/codec.h"

/* Return: 0 if the operation can be delivered, -EAGAIN if not yet, or the group's error. */
static int state_of(struct rar_member *m, const struct rar_operation *op)
{
	int err;

	spin_lock_bh(&m->lock);
	if (list_empty(&op->node))
		err = -m->error.err;
	else
		err = rar_op_ready(op) ? 0 : -EAGAIN;
	spin_unlock_bh(&m->lock);
	return err;
}

static int await(struct sock *sk, struct rar_member *m, const struct rar_operation *op, long timeo)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	int err;

	add_wait_queue(sk_sleep(sk), &wait);
	while ((err = state_of(m, op)) == -EAGAIN) {
		if (!timeo || signal_pending(current)) {
			err = -EINPROGRESS;
			break;
		}
		timeo = wait_woken(&wait, TASK_INTERRUPTIBLE, timeo);
	}
	remove_wait_queue(sk_sleep(sk), &wait);
	return err;
}

static int copy_result(const struct rar_blocking *call)
{
	struct rar_operation *op = call->op;
	struct iov_iter to;

	iov_iter_ubuf(&to, ITER_DEST, u64_to_user_ptr(call->dst), op->got.len);
	return rar_codec_to_iter(op, op->got.off, &to, op->got.len);
}

/* The operation becomes one like any other: recv() delivers its result. */
static void leave_to_recv(struct rar_member *m, struct rar_operation *op)
{
	spin_lock_bh(&m->lock);
	op->blocking = false;
	spin_unlock_bh(&m->lock);
	rar_member_wake(m);
}

/**
 * rar_blocking_wait() - wait for the result of a send()
 * @sk:   socket
 * @m:    its member
 * @call: what was posted; the reference of its operation is dropped
 * @msg:  of the call, for MSG_DONTWAIT
 *
 * Process context, no lock held.
 *
 * Return: 0, the group's error, or -EINPROGRESS after a signal or SO_RCVTIMEO, and if the result
 * cannot be copied: then recv() delivers it. Other errors would say that nothing was sent.
 */
int rar_blocking_wait(struct sock *sk, struct rar_member *m, const struct rar_blocking *call,
		      const struct msghdr *msg)
{
	struct rar_operation *op = call->op;
	int err;

	err = await(sk, m, op, sock_rcvtimeo(sk, msg->msg_flags & MSG_DONTWAIT));
	if (!err && !op->pinned && copy_result(call))
		err = -EINPROGRESS;
	if (err) {
		leave_to_recv(m, op);
	} else {
		if (op->pinned)
			rar_pin_done(m, op);
		rar_done_delivered(m, op);
	}
	rar_op_put(op);
	return err;
}
