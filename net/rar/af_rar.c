// SPDX-License-Identifier: GPL-2.0
/*
 * The socket family: proto_ops, no protocol logic. Owns struct rar_sock.
 */
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <net/addrconf.h>
#include <net/route.h>
#include <net/sock.h>

#include "copy.h"
#include "encap.h"
#include "reduce.h"
#include "sock.h"

int rar_family = AF_RAR;
module_param_named(family, rar_family, int, 0444);
MODULE_PARM_DESC(family, "address family number, an unused one (22)");

/* -- addresses ----------------------------------------------------------- */

/**
 * rar_sock_addr() - a member's address as the user sees it
 * @grp:  group
 * @a:    address
 * @rank: whose
 * @sa:   to fill
 */
void rar_sock_addr(const struct rar_group *grp, const struct rar_addr *a,
		   u32 rank, struct sockaddr_rar *sa)
{
	memset(sa, 0, sizeof(*sa));
	sa->srar_family = rar_family;
	sa->srar_port = a->port;
	sa->srar_af = a->af;
	sa->srar_scope_id = a->scope;
	sa->srar_rank = rank;
	sa->srar_size = grp->size;
	sa->srar_group = grp->id;
	memcpy(sa->srar_addr, &a->ip, sizeof(sa->srar_addr));
}

/* Is @sa a well-formed address? Return: 0, -EINVAL or -EAFNOSUPPORT. */
int rar_sock_check_addr(const struct sockaddr_rar *sa, int len)
{
	if (len < (int)sizeof(*sa))
		return -EINVAL;
	if (sa->srar_family != rar_family)
		return -EAFNOSUPPORT;
	if (sa->__srar_pad0 || sa->__srar_pad1 ||
	    memchr_inv(sa->__srar_zero, 0, sizeof(sa->__srar_zero)))
		return -EINVAL;
	if (!sa->srar_size || sa->srar_size > RAR_MAX_SIZE ||
	    sa->srar_rank >= sa->srar_size)
		return -EINVAL;
	if (sa->srar_af && sa->srar_af != AF_INET && sa->srar_af != AF_INET6)
		return -EINVAL;
	if (sa->srar_scope_id && sa->srar_af != AF_INET6)
		return -EINVAL;
	if (sa->srar_af != AF_INET6 &&
	    memchr_inv(sa->srar_addr + (sa->srar_af ? 4 : 0), 0,
		       sizeof(sa->srar_addr) - (sa->srar_af ? 4 : 0)))
		return -EINVAL;
	return 0;
}

static void to_addr(const struct rar_net *rn, const struct sockaddr_rar *sa,
		    struct rar_addr *a)
{
	a->af = sa->srar_af;
	a->port = sa->srar_port ?: htons(READ_ONCE(rn->sysctl_port));
	a->scope = sa->srar_scope_id;
	memcpy(&a->ip, sa->srar_addr, sizeof(a->ip));
}

static bool addr_any(const struct rar_addr *a)
{
	return !a->af || ipv6_addr_any(&a->ip);
}

static bool addr_local(struct net *net, const struct rar_addr *a)
{
	if (addr_any(a))
		return true;
	if (a->af == AF_INET)
		return inet_addr_type(net, a->ip.s6_addr32[0]) == RTN_LOCAL;
#if IS_ENABLED(CONFIG_IPV6)
	return ipv6_chk_addr(net, &a->ip, NULL, 0);
#else
	return false;
#endif
}

/* -- bind and connect ---------------------------------------------------- */

/* A member under its name, held by @sk. Return: it or ERR_PTR. */
static struct rar_group *member_new(struct sock *sk,
				    const struct sockaddr_rar *self)
{
	struct rar_net *rn = rar_net(sock_net(sk));
	struct rar_group *grp;
	int err;

	grp = rar_group_alloc(rn, self);
	if (!grp)
		return ERR_PTR(-ENOBUFS);
	to_addr(rn, self, &grp->self);
	grp->op_timeout_ms = rar_sk(sk)->op_timeout_ms;
	err = addr_local(sock_net(sk), &grp->self) ? 0 : -EADDRNOTAVAIL;
	if (!err && grp->self.af) {
		grp->port = rar_encap_get(rn, grp->self.af, grp->self.port);
		err = PTR_ERR_OR_ZERO(grp->port);
		if (err)
			grp->port = NULL;
	}
	grp->sk = sk;
	if (!err)
		err = rar_group_hash(grp);
	if (err) {
		grp->sk = NULL;
		rar_group_put(grp);
		return ERR_PTR(err);
	}
	return grp;
}

static void send_drop_record(struct rar_sock *rsk)
{
	if (rsk->more)
		rar_op_drop(rsk->more);
	rsk->more = NULL;
}

/*
 * The user hears that the group failed: after that nobody writes to memory that
 * was pinned.
 */
static void stop_writing(struct rar_sock *rsk, const struct rar_group *grp)
{
	if (!READ_ONCE(rsk->pinned) || rar_group_state(grp) != RAR_S_FAILED)
		return;
	synchronize_rcu();
	WRITE_ONCE(rsk->pinned, false);
}

/*
 * The socket's member becomes another one. What failed before it answers as a
 * tombstone; its results must have been read.
 */
static int member_replace(struct sock *sk, struct rar_group *old,
			  const struct sockaddr_rar *self)
{
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_group *grp = NULL;

	mutex_lock(&rsk->send_lock);
	mutex_lock(&rsk->recv_lock);
	if (READ_ONCE(old->nundelivered))
		grp = ERR_PTR(-EBUSY);
	else
		grp = member_new(sk, self);
	if (!IS_ERR(grp)) {
		stop_writing(rsk, old);
		send_drop_record(rsk);
		rcu_assign_pointer(rsk->grp, grp);
	}
	mutex_unlock(&rsk->recv_lock);
	mutex_unlock(&rsk->send_lock);
	if (IS_ERR(grp))
		return PTR_ERR(grp);
	sk->sk_err = 0;
	rar_leave_release(old);
	return 0;
}

/**
 * rar_sock_bind() - make the member, anew after a failure
 * @sk:   socket, locked
 * @self: its address, checked
 *
 * Return: 0 or a negative errno of bind().
 */
int rar_sock_bind(struct sock *sk, const struct sockaddr_rar *self)
{
	struct rar_group *grp = rar_sock_group(sk);

	if (grp)
		return rar_group_state(grp) == RAR_S_FAILED ?
		       member_replace(sk, grp, self) : -EINVAL;
	grp = member_new(sk, self);
	if (IS_ERR(grp))
		return PTR_ERR(grp);
	rcu_assign_pointer(rar_sk(sk)->grp, grp);
	return 0;
}

/* Once more under the same name. */
static int bind_again(struct sock *sk, const struct rar_group *grp)
{
	struct sockaddr_rar self;

	rar_sock_addr(grp, &grp->self, grp->rank, &self);
	return rar_sock_bind(sk, &self);
}

static int check_next(const struct rar_group *grp,
		      const struct sockaddr_rar *next)
{
	if (next->srar_group != grp->id || next->srar_size != grp->size ||
	    next->srar_rank != rar_group_rank(grp, RAR_NEXT))
		return -EINVAL;
	if (!next->srar_af || !memchr_inv(next->srar_addr, 0,
					  sizeof(next->srar_addr)))
		return -EDESTADDRREQ;
	if (grp->self.af && grp->self.af != next->srar_af)
		return -EINVAL;
	return 0;
}

/* What a connect() finds in states that do not allow another join. */
static int join_state_error(const struct rar_group *grp)
{
	switch (rar_group_state(grp)) {
	case RAR_S_BOUND:
		return 0;
	case RAR_S_JOINING:
	case RAR_S_READY:
		return -EALREADY;
	}
	return -EISCONN;
}

/**
 * rar_sock_join() - start to join
 * @sk:    socket, locked and bound
 * @next:  the successor, checked
 * @timeo: jiffies until it must have ended; 0 or MAX_SCHEDULE_TIMEOUT: join_ms
 *
 * Return: 0 or a negative errno of connect().
 */
int rar_sock_join(struct sock *sk, const struct sockaddr_rar *next, long timeo)
{
	struct rar_group *grp = rar_sock_group(sk);
	struct rar_net *rn = grp->rn;
	struct rar_addr addr;
	u32 ms;
	int err;

	err = check_next(grp, next);
	if (!err && rar_group_state(grp) == RAR_S_FAILED)
		err = bind_again(sk, grp);
	if (err)
		return err;
	grp = rar_sock_group(sk);
	err = join_state_error(grp);
	if (err)
		return err;
	to_addr(rn, next, &addr);
	grp->sk_mark = READ_ONCE(sk->sk_mark);
	grp->sk_priority = READ_ONCE(sk->sk_priority);
	grp->by_hosts = rar_sk(sk)->schedule == RAR_BY_HOSTS;
	grp->path[RAR_NEXT].oif = sk->sk_bound_dev_if;
	ms = READ_ONCE(rn->sysctl_join_ms);
	if (timeo && timeo != MAX_SCHEDULE_TIMEOUT)
		ms = min_t(u64, ms, jiffies64_to_msecs(timeo));
	sk->sk_err = 0;
	rar_fail_set_owner(grp, get_pid(task_tgid(current)));
	return rar_join_start(grp, &addr, ms);
}

static bool join_over(const struct rar_group *grp)
{
	u8 state = rar_group_state(grp);

	return state != RAR_S_JOINING && state != RAR_S_READY;
}

/* How did the join end? Also clears what SO_ERROR would say. */
static int join_result(struct sock *sk, struct rar_group *grp)
{
	int err = 0;

	spin_lock_bh(&grp->lock);
	if (grp->state == RAR_S_BOUND || grp->state == RAR_S_FAILED)
		err = -grp->error.err;
	spin_unlock_bh(&grp->lock);
	if (err)
		sk->sk_err = 0;
	return err;
}

static int sock_wait_join(struct sock *sk, struct rar_group *grp)
{
	int err;

	refcount_inc(&grp->ref);
	release_sock(sk);
	err = wait_event_interruptible(*sk_sleep(sk), join_over(grp));
	lock_sock(sk);
	err = err ? -EINTR : join_result(sk, grp);
	rar_group_put(grp);
	return err;
}

static int rar_bind(struct socket *sock, struct rar_sockaddr *uaddr, int len)
{
	const struct sockaddr_rar *sa = (const struct sockaddr_rar *)uaddr;
	struct sock *sk = sock->sk;
	int err;

	err = rar_sock_check_addr(sa, len);
	if (err)
		return err;
	lock_sock(sk);
	err = rar_sock_bind(sk, sa);
	release_sock(sk);
	return err;
}

static int rar_connect(struct socket *sock, struct rar_sockaddr *uaddr,
		       int len, int flags)
{
	const struct sockaddr_rar *sa = (const struct sockaddr_rar *)uaddr;
	struct sock *sk = sock->sk;
	struct rar_group *grp;
	long timeo;
	int err;

	err = rar_sock_check_addr(sa, len);
	if (err)
		return err;
	lock_sock(sk);
	timeo = sock_sndtimeo(sk, flags & O_NONBLOCK);
	err = rar_sock_group(sk) ? rar_sock_join(sk, sa, timeo) : -EINVAL;
	grp = rar_sock_group(sk);
	if (!timeo && !err)
		err = join_over(grp) ? join_result(sk, grp) : -EINPROGRESS;
	else if (timeo && (!err || err == -EALREADY))
		err = sock_wait_join(sk, grp);
	release_sock(sk);
	return err;
}

static int sock_name(const struct rar_group *grp, struct sockaddr_rar *sa,
		     int peer)
{
	if (!grp || (peer && rar_group_state(grp) < RAR_S_RUN))
		return -ENOTCONN;
	if (peer)
		rar_sock_addr(grp, &grp->path[RAR_NEXT].dst,
			      rar_group_rank(grp, RAR_NEXT), sa);
	else
		rar_sock_addr(grp, grp->path[RAR_NEXT].src.af ?
			      &grp->path[RAR_NEXT].src : &grp->self,
			      grp->rank, sa);
	return sizeof(*sa);
}

static int rar_getname(struct socket *sock, struct sockaddr *uaddr, int peer)
{
	struct sock *sk = sock->sk;
	int ret;

	lock_sock(sk);
	ret = sock_name(rar_sock_group(sk), (struct sockaddr_rar *)uaddr, peer);
	release_sock(sk);
	return ret;
}

/* A call that may not block does not wait for one that does. */
static int lock_call(struct mutex *lock, int flags)
{
	if (flags & MSG_DONTWAIT)
		return mutex_trylock(lock) ? 0 : -EAGAIN;
	return mutex_lock_interruptible(lock) ? -ERESTARTSYS : 0;
}

/* -- send ---------------------------------------------------------------- */

/* What the control message and the options ask for. */
struct send_args {
	struct rar_print print;
	u64 bytes;
	u64 cookie;
	u64 dst;
	u32 esize;
};

static int parse_op(const struct rar_op *req, struct send_args *args)
{
	if (req->__pad || req->flags)
		return -EINVAL;
	if (req->collective)
		args->print.collective = req->collective;
	if (req->dtype)
		args->print.dtype = req->dtype;
	if (req->redop)
		args->print.redop = req->redop;
	if (req->root)
		return -EINVAL;
	args->bytes = req->bytes;
	args->cookie = req->cookie;
	args->dst = req->dst;
	return 0;
}

static int parse_cmsgs(struct msghdr *msg, struct send_args *args)
{
	struct rar_op req = {};
	struct cmsghdr *cmsg;
	size_t len;

	for_each_cmsghdr(cmsg, msg) {
		if (!CMSG_OK(msg, cmsg))
			return -EINVAL;
		if (cmsg->cmsg_level != SOL_RAR)
			continue;
		if (req.size)	/* a second one */
			return -EINVAL;
		len = cmsg->cmsg_len - CMSG_ALIGN(sizeof(*cmsg));
		if (cmsg->cmsg_type != RAR_OP || len < sizeof(req))
			return -EINVAL;
		memcpy(&req, CMSG_DATA(cmsg), sizeof(req));
		if (req.size < sizeof(req) || req.size > len ||
		    memchr_inv((u8 *)CMSG_DATA(cmsg) + sizeof(req), 0,
			       req.size - sizeof(req)))
			return -EINVAL;
	}
	return req.size ? parse_op(&req, args) : 0;
}

static int check_args(const struct send_args *args)
{
	const struct rar_print *p = &args->print;

	if (p->collective >= RAR_COLLECTIVE_NR || p->dtype >= RAR_DTYPE_NR ||
	    p->redop >= RAR_REDOP_NR)
		return -EINVAL;
	if (p->collective != RAR_ALLREDUCE ||
	    !rar_reduce_supported(p->dtype, p->redop))
		return -EOPNOTSUPP;
	return 0;
}

static int send_parse(struct rar_sock *rsk, struct msghdr *msg, size_t len,
		      struct send_args *args)
{
	int err;

	*args = (struct send_args) {
		.print.collective = RAR_ALLREDUCE,
		.print.dtype = rsk->dtype,
		.print.redop = rsk->redop,
	};
	err = parse_cmsgs(msg, args);
	if (!err)
		err = check_args(args);
	if (err)
		return err;
	if (args->dst && !(msg->msg_flags & MSG_ZEROCOPY))
		return -EINVAL;
	if (msg->msg_flags & MSG_MORE ? args->bytes < len || !args->bytes :
					args->bytes && args->bytes != len)
		return -EINVAL;
	args->bytes = args->bytes ?: len;
	args->esize = rar_dtype_size(args->print.dtype);
	if (args->bytes % args->esize)
		return -EINVAL;
	if (args->bytes > RAR_MAX_BYTES)
		return -EMSGSIZE;
	args->print.count = args->bytes / args->esize;
	return 0;
}

/*
 * Sleep until something changed for @grp, or a little while: @memory of the
 * netns may be freed by other groups. Returns 0 to try again.
 */
static int send_wait(struct sock *sk, struct rar_group *grp, long *timeo,
		     bool memory)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	long slice = min_t(long, *timeo, HZ / 20);

	if (!*timeo)
		return -EAGAIN;
	add_wait_queue(sk_sleep(sk), &wait);
	if (memory || rar_group_may_post(grp) == -EAGAIN) {
		slice -= wait_woken(&wait, TASK_INTERRUPTIBLE, slice);
		if (*timeo != MAX_SCHEDULE_TIMEOUT)
			*timeo = max(*timeo - slice, 0L);
	}
	remove_wait_queue(sk_sleep(sk), &wait);
	return signal_pending(current) ? sock_intr_errno(*timeo) : 0;
}

/* Everything that holds memory here waits for recv(). */
static bool all_unread(struct rar_group *grp)
{
	bool all;

	spin_lock_bh(&grp->lock);
	all = grp->nundelivered && rar_group_idle(grp) &&
	      READ_ONCE(grp->op_oldest) == grp->op_next;
	spin_unlock_bh(&grp->lock);
	return all;
}

static struct rar_operation *op_alloc(struct rar_sock *rsk, struct rar_group *grp,
				      const struct send_args *args, bool pinned)
{
	bool first = READ_ONCE(grp->op_oldest) == READ_ONCE(grp->op_next);

	if (!pinned)
		return rar_op_alloc(grp->rn, args->bytes, first);
	return rar_op_alloc_pinned(grp->rn, &rsk->regions, args->bytes, args->dst);
}

/* An operation with its buffer; waits for memory and for a slot. */
static struct rar_operation *send_alloc(struct sock *sk,
					struct rar_group *grp,
					const struct send_args *args,
					bool pinned, long *timeo)
{
	struct rar_operation *op;
	int err;

	if (!pinned && args->bytes > READ_ONCE(grp->rn->sysctl_mem))
		return ERR_PTR(-EMSGSIZE);
	for (;;) {
		err = rar_group_may_post(grp);
		op = err ? ERR_PTR(err) : op_alloc(rar_sk(sk), grp, args, pinned);
		if (op != ERR_PTR(-EAGAIN))
			return op;
		if (!err && all_unread(grp))
			return ERR_PTR(-ENOBUFS);
		err = send_wait(sk, grp, timeo, !err);
		if (err)
			return ERR_PTR(err);
	}
}

static int send_post(struct sock *sk, struct rar_group *grp,
		     struct rar_operation *op, long *timeo)
{
	int err;

	while ((err = rar_group_post(grp, op)) == -EAGAIN) {
		err = send_wait(sk, grp, timeo, false);
		if (err)
			break;
	}
	return err;
}

/* The first call of a record: fix what it is. */
static int send_begin(struct sock *sk, struct rar_group *grp,
		      struct msghdr *msg, size_t len, long *timeo)
{
	bool pinned = msg->msg_flags & MSG_ZEROCOPY;
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_operation *op;
	struct send_args args;
	int err;

	err = send_parse(rsk, msg, len, &args);
	if (err)
		return err;
	op = send_alloc(sk, grp, &args, pinned, timeo);
	if (IS_ERR(op))
		return PTR_ERR(op);
	op->cookie = args.cookie;
	rsk->more = op;
	rsk->print = args.print;
	rsk->print.flags = grp->by_hosts ? RAR_OF_HOSTS : 0;
	return 0;
}

/* Take what one call contributes: all or nothing. */
static int contribute(struct rar_sock *rsk, struct msghdr *msg, size_t len)
{
	struct rar_operation *op = rsk->more;
	bool pinned = msg->msg_flags & MSG_ZEROCOPY;
	struct rar_buf *own = op->dst ? &op->src : &op->buf;

	if (pinned != op->pinned)
		return -EINVAL;
	if (pinned && op->dst &&
	    rar_buf_overlaps(own, &msg->msg_iter, op->dst, op->bytes))
		return -EINVAL;
	if (pinned)
		return rar_buf_pin_iter(own, &rsk->regions, &msg->msg_iter,
					rar_dtype_size(rsk->print.dtype));
	return rar_buf_from_iter(own, op->filled, &msg->msg_iter, len);
}

/*
 * All of a long record: the ring begins while it is copied in. Memory that is not there
 * is found before, mostly: then the call has no effect.
 */
static int send_long(struct sock *sk, struct rar_group *grp,
		     struct rar_operation *op, const struct iov_iter *from, long *timeo)
{
	int err;

	if (fault_in_iov_iter_readable(from, op->bytes))
		return -EFAULT;
	op->later = true;
	refcount_inc(&op->ref);
	err = send_post(sk, grp, op, timeo);
	if (!err) {
		rar_sk(sk)->more = NULL;
		err = rar_copy_in(grp, op, from);
	} else {
		op->later = false;
	}
	rar_op_put(op);
	return err;
}

/* Take one call's data, and post the record if it is the last. */
static int send_piece(struct sock *sk, struct rar_group *grp,
		      struct msghdr *msg, size_t len, long *timeo)
{
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_operation *op = rsk->more;
	bool last = !(msg->msg_flags & MSG_MORE);
	int err;

	if (len > op->bytes - op->filled ||
	    (last && len != op->bytes - op->filled))
		return -EINVAL;
	err = last ? rar_op_schedule(op, &rsk->print, rar_dtype_size(rsk->print.dtype),
				     grp->payload, &grp->seat) : 0;
	if (err)
		return err;
	if (last && op->step && !op->filled && !op->pinned)
		return send_long(sk, grp, op, &msg->msg_iter, timeo);
	err = contribute(rsk, msg, len);
	if (err)
		return err;
	if (!last) {
		op->filled += len;
		return 0;
	}
	if (op->dst && grp->size == 1)
		rar_buf_copy(&op->buf, &op->src);
	if (op->pinned)
		WRITE_ONCE(rsk->pinned, true);
	err = send_post(sk, grp, op, timeo);
	if (!err)
		rsk->more = NULL;
	else if (op->pinned)
		rar_buf_trim(op->dst ? &op->src : &op->buf, op->filled);
	return err;
}

static int sock_send(struct sock *sk, struct rar_group *grp,
		     struct msghdr *msg, size_t len)
{
	long timeo = sock_sndtimeo(sk, msg->msg_flags & MSG_DONTWAIT);
	struct rar_sock *rsk = rar_sk(sk);
	bool begun = rsk->more;
	int err;

	err = rar_group_may_post(grp);
	if (err && err != -EAGAIN)
		return err;
	if (!begun)
		err = send_begin(sk, grp, msg, len, &timeo);
	else
		err = 0;
	if (!err)
		err = send_piece(sk, grp, msg, len, &timeo);
	if (err && !begun)
		send_drop_record(rsk);
	return err;
}

#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR | \
		    MSG_CMSG_COMPAT | MSG_SPLICE_PAGES | MSG_ZEROCOPY)

static int rar_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct sock *sk = sock->sk;
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_group *grp;
	int err;

	if (msg->msg_flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (msg->msg_flags & ~SEND_FLAGS)
		return -EINVAL;
	err = lock_call(&rsk->send_lock, msg->msg_flags);
	if (err)
		return err;
	grp = rar_sock_get(sk);
	if (!grp)
		err = -ENOTCONN;
	else if (msg->msg_namelen)
		err = -EISCONN;
	else if (len > RAR_MAX_CALL)
		err = -EMSGSIZE;
	else
		err = sock_send(sk, grp, msg, len);
	if (grp && err)
		stop_writing(rsk, grp);
	if (grp)
		rar_group_put(grp);
	mutex_unlock(&rsk->send_lock);
	if (err == -EPIPE && !(msg->msg_flags & MSG_NOSIGNAL))
		send_sig(SIGPIPE, current, 0);
	return err ?: len;
}

/* -- receive ------------------------------------------------------------- */

/*
 * The oldest operation, if it is complete. NULL: end of file. ERR_PTR:
 * -EAGAIN if it is not, or the group's error.
 */
static struct rar_operation *recv_ready(struct rar_group *grp)
{
	struct rar_operation *op;

	spin_lock_bh(&grp->lock);
	op = list_first_entry_or_null(&grp->undelivered, struct rar_operation,
				      node);
	if (grp->state < RAR_S_RUN)
		op = ERR_PTR(-ENOTCONN);
	else if (!op && grp->state == RAR_S_FAILED)
		op = ERR_PTR(-grp->error.err);
	else if (!op && !grp->shut && !grp->left)
		op = ERR_PTR(-EAGAIN);
	else if (op && !rar_op_ready(op))
		op = ERR_PTR(-EAGAIN);
	spin_unlock_bh(&grp->lock);
	return op;
}

static struct rar_operation *recv_wait(struct sock *sk, struct rar_group *grp,
				       struct rar_copy *copy, long timeo)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	struct rar_operation *op;
	int ret;

	add_wait_queue(sk_sleep(sk), &wait);
	while ((op = recv_ready(grp)) == ERR_PTR(-EAGAIN) && timeo) {
		ret = signal_pending(current) ? sock_intr_errno(timeo) :
						rar_copy_out(grp, copy);
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

static void recv_done(struct msghdr *msg, const struct rar_group *grp,
		      const struct rar_operation *op)
{
	struct rar_done done = {
		.size = sizeof(done),
		.contributors = grp->size,
		.cookie = op->cookie,
		.op_seq = op->seq,
	};

	msg->msg_flags |= MSG_EOR;
	if (msg->msg_controllen)
		put_cmsg(msg, SOL_RAR, RAR_DONE, sizeof(done), &done);
}

/* Give the user what he has room for of a complete operation. */
static int recv_copy(struct rar_operation *op, struct msghdr *msg, size_t len,
		     struct rar_copy *copy)
{
	size_t n = min_t(u64, len, op->bytes - op->read);

	if (op == copy->op) {
		if (rar_copy_out_rest(copy))
			return -EFAULT;
		iov_iter_advance(&msg->msg_iter, n);
	} else if (rar_buf_to_iter(&op->buf, op->read, &msg->msg_iter, n) != n) {
		return -EFAULT;
	}
	op->read += n;
	return n;
}

static int sock_recv(struct sock *sk, struct rar_group *grp,
		     struct msghdr *msg, size_t len, int flags)
{
	long timeo = sock_rcvtimeo(sk, flags & MSG_DONTWAIT);
	struct rar_copy copy = { .to = &msg->msg_iter };
	struct rar_operation *op;
	int n;

	op = recv_wait(sk, grp, &copy, timeo);
	if (!IS_ERR_OR_NULL(op) && op->pinned) {
		rar_op_unpin(op);
		op->read = op->bytes;
	}
	n = IS_ERR_OR_NULL(op) ? PTR_ERR(op) : recv_copy(op, msg, len, &copy);
	if (copy.op)
		rar_op_put(copy.op);
	if (n < 0 || !op)
		return n;
	if (op->read == op->bytes) {
		recv_done(msg, grp, op);
		rar_group_op_delivered(grp, op);
	}
	return n;
}

static int rar_recvmsg(struct socket *sock, struct msghdr *msg, size_t len,
		       int flags)
{
	struct sock *sk = sock->sk;
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_group *grp;
	int ret;

	if (flags & (MSG_OOB | MSG_PEEK | MSG_ERRQUEUE))
		return -EOPNOTSUPP;
	msg->msg_namelen = 0;
	len = min_t(size_t, len, INT_MAX & PAGE_MASK);
	ret = lock_call(&rsk->recv_lock, flags);
	if (ret)
		return ret;
	grp = rar_sock_get(sk);
	ret = grp ? sock_recv(sk, grp, msg, len, flags) : -ENOTCONN;
	if (grp && ret < 0)
		stop_writing(rsk, grp);
	if (grp)
		rar_group_put(grp);
	mutex_unlock(&rsk->recv_lock);
	return ret;
}

/* -- poll, shutdown, release --------------------------------------------- */

static __poll_t poll_group(struct rar_group *grp)
{
	struct rar_operation *op;
	__poll_t mask = 0;
	int err;

	switch (rar_group_state(grp)) {
	case RAR_S_BOUND:
		return READ_ONCE(grp->error.err) ?
		       EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLOUT : 0;
	case RAR_S_JOINING:
	case RAR_S_READY:
		return 0;
	case RAR_S_FAILED:
		return EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLRDNORM | EPOLLOUT;
	}
	op = recv_ready(grp);
	if (op != ERR_PTR(-EAGAIN))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (!op)
		mask |= EPOLLRDHUP;
	err = rar_group_may_post(grp);
	if (err != -EAGAIN && err != -ENOBUFS)
		mask |= EPOLLOUT | EPOLLWRNORM;
	return mask;
}

static __poll_t rar_poll(struct file *file, struct socket *sock,
			 poll_table *wait)
{
	struct rar_group *grp;
	__poll_t mask = 0;

	sock_poll_wait(file, sock, wait);
	grp = rar_sock_get(sock->sk);
	if (grp) {
		mask = poll_group(grp);
		rar_group_put(grp);
	}
	return mask;
}

static int rar_shutdown(struct socket *sock, int how)
{
	struct sock *sk = sock->sk;
	struct rar_group *grp;
	int err = 0;

	if (how != SHUT_WR)
		return how == SHUT_RD || how == SHUT_RDWR ? -EOPNOTSUPP :
							    -EINVAL;
	lock_sock(sk);
	grp = rar_sock_group(sk);
	if (!grp || rar_group_state(grp) < RAR_S_RUN)
		err = -ENOTCONN;
	else
		rar_leave_shutdown(grp);
	release_sock(sk);
	return err;
}

static int rar_release(struct socket *sock)
{
	struct sock *sk = sock->sk;
	struct rar_group *grp;

	if (!sk)
		return 0;
	lock_sock(sk);
	sock_orphan(sk);
	sock->sk = NULL;
	send_drop_record(rar_sk(sk));
	rar_region_flush(&rar_sk(sk)->regions);
	grp = rar_sock_group(sk);
	RCU_INIT_POINTER(rar_sk(sk)->grp, NULL);
	if (grp)
		rar_leave_release(grp);
	release_sock(sk);
	sock_put(sk);
	return 0;
}

/* -- family -------------------------------------------------------------- */

static const struct proto_ops rar_proto_ops = {
	.owner		= THIS_MODULE,
	.release	= rar_release,
	.bind		= rar_bind,
	.connect	= rar_connect,
	.socketpair	= sock_no_socketpair,
	.accept		= sock_no_accept,
	.getname	= rar_getname,
	.poll		= rar_poll,
	.ioctl		= sock_no_ioctl,
	.listen		= sock_no_listen,
	.shutdown	= rar_shutdown,
	.setsockopt	= rar_setsockopt,
	.getsockopt	= rar_getsockopt,
	.sendmsg	= rar_sendmsg,
	.recvmsg	= rar_recvmsg,
	.mmap		= sock_no_mmap,
};

static struct proto rar_proto = {
	.name		= "RAR",
	.owner		= THIS_MODULE,
	.obj_size	= sizeof(struct rar_sock),
};

static int rar_create(struct net *net, struct socket *sock, int protocol,
		      int kern)
{
	struct rar_sock *rsk;
	struct sock *sk;

	if (sock->type != SOCK_SEQPACKET)
		return -ESOCKTNOSUPPORT;
	if (protocol)
		return -EPROTONOSUPPORT;
	sk = sk_alloc(net, rar_family, GFP_KERNEL, &rar_proto, kern);
	if (!sk)
		return -ENOBUFS;
	sock_init_data(sock, sk);
	sock_set_flag(sk, SOCK_RCU_FREE);
	sock->ops = &rar_proto_ops;
	sk->sk_family = rar_family;
	rsk = rar_sk(sk);
	rsk->dtype = RAR_F32;
	rsk->redop = RAR_SUM;
	mutex_init(&rsk->send_lock);
	mutex_init(&rsk->recv_lock);
	rar_region_init(&rsk->regions);
	return 0;
}

static struct net_proto_family rar_proto_family = {
	.create	= rar_create,
	.owner	= THIS_MODULE,
};

int rar_sock_init(void)
{
	int err;

	static_assert(sizeof(struct sockaddr_rar) == 64);
	static_assert(sizeof(struct rar_op) == 40);
	static_assert(sizeof(struct rar_done) == 32);
	static_assert(sizeof(struct rar_error) == 104);
	static_assert(sizeof(struct rar_hdr) == 24);
	static_assert(sizeof(struct rar_data_hdr) == 64);
	static_assert(sizeof(struct rar_ack_hdr) == 112);
	static_assert(sizeof(struct rar_probe_hdr) == 48);
	static_assert(sizeof(struct rar_join_hdr) == 48);
	static_assert(sizeof(struct rar_table_hdr) == 136);
	static_assert(sizeof(struct rar_wire_member) == 32);
	static_assert(sizeof(struct rar_notice_hdr) == 56);

	if (rar_family <= 0 || rar_family >= AF_MAX)
		return -EINVAL;
	err = proto_register(&rar_proto, 1);
	if (err)
		return err;
	rar_proto_family.family = rar_family;
	err = sock_register(&rar_proto_family);
	if (err == -EEXIST)	/* modprobe would take it for success */
		err = -EBUSY;
	if (err) {
		pr_err("rar: address family %d is in use, choose another one with family=\n",
		       rar_family);
		proto_unregister(&rar_proto);
	}
	return err;
}

void rar_sock_exit(void)
{
	sock_unregister(rar_family);
	proto_unregister(&rar_proto);
}
