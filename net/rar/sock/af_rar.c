// SPDX-License-Identifier: GPL-2.0
/*
 * The socket family: names, joining, state; no protocol logic. Owns struct rar_sock.
 */
#include <linux/module.h>
#include <linux/pid.h>
#include <net/addrconf.h>
#include <net/route.h>
#include <net/sock.h>

#include "tx/port.h"
#include "tx/rules.h"
#include "sock/sock.h"

int rar_family = AF_RAR;
module_param_named(family, rar_family, int, 0444);
MODULE_PARM_DESC(family, "address family number, an unused one (22)");

/* -- addresses ----------------------------------------------------------- */

/**
 * rar_sock_addr() - a member's address as the user sees it
 * @m:  member
 * @a:    address
 * @rank: whose
 * @sa:   to fill
 */
void rar_sock_addr(const struct rar_member *m, const struct rar_addr *a,
		   u32 rank, struct sockaddr_rar *sa)
{
	memset(sa, 0, sizeof(*sa));
	sa->srar_family = rar_family;
	sa->srar_port = a->port;
	sa->srar_af = a->af;
	sa->srar_scope_id = a->scope;
	sa->srar_rank = rank;
	sa->srar_size = m->size;
	sa->srar_group = m->id;
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

static bool addr_same(const struct rar_addr *a, const struct rar_addr *b)
{
	return a->af == b->af && ipv6_addr_equal(&a->ip, &b->ip);
}

/*
 * A member under its name, held by @sk. The address of the one before it, @old, may be
 * gone: connect() waits for it. Return: it or ERR_PTR.
 */
static struct rar_member *member_new(struct sock *sk, const struct sockaddr_rar *self,
				     struct rar_member *old)
{
	struct rar_net *rn = rar_net(sock_net(sk));
	struct rar_member *m;
	int err;

	m = rar_member_alloc(rn, self);
	if (!m)
		return ERR_PTR(-ENOBUFS);
	to_addr(rn, self, &m->self);
	m->op_timeout_ms = rar_sk(sk)->op_timeout_ms;
	err = (old && addr_same(&old->self, &m->self)) ||
	      addr_local(sock_net(sk), &m->self) ? 0 : -EADDRNOTAVAIL;
	m->sk = sk;
	if (!err && m->self.af)
		err = rar_sender_open(m, m->self.af);
	if (!err && m->self.af) {
		m->port = rar_port_get(rn, m->self.af, m->self.port);
		err = PTR_ERR_OR_ZERO(m->port);
		if (err)
			m->port = NULL;
	}
	if (!err)
		err = rar_member_hash(m, old);
	if (err) {
		m->sk = NULL;
		rar_member_put(m);
		return ERR_PTR(err);
	}
	return m;
}

/*
 * Keep out send() and recv(), which may be waiting for a page that does not come. A
 * signal ends the wait, and others can use the socket meanwhile: its lock is dropped.
 */
static int lock_calls(struct sock *sk)
{
	struct rar_sock *rsk = rar_sk(sk);
	int err;

	release_sock(sk);
	err = mutex_lock_interruptible(&rsk->send_lock);
	if (!err) {
		err = mutex_lock_interruptible(&rsk->recv_lock);
		if (err)
			mutex_unlock(&rsk->send_lock);
	}
	lock_sock(sk);
	return err ? -ERESTARTSYS : 0;
}

static void unlock_calls(struct rar_sock *rsk)
{
	mutex_unlock(&rsk->recv_lock);
	mutex_unlock(&rsk->send_lock);
}

/* The socket is locked, send() and recv() are kept out. */
static int member_exchange(struct sock *sk, struct rar_member *old,
			   const struct sockaddr_rar *self)
{
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_member *m;

	if (rar_sock_member(sk) != old)
		return -EALREADY;
	if (READ_ONCE(old->nundelivered))
		return -EBUSY;
	m = member_new(sk, self, old);
	if (IS_ERR(m))
		return PTR_ERR(m);
	rar_msg_stop_writing(old);
	rar_msg_drop(rsk);
	rcu_assign_pointer(rsk->member, m);
	return 0;
}

/*
 * The socket's member becomes another one. What failed before it answers as a
 * tombstone; its results must have been read. Drops the socket lock for a while.
 */
static int member_replace(struct sock *sk, struct rar_member *old,
			  const struct sockaddr_rar *self)
{
	int err;

	refcount_inc(&old->ref);
	err = lock_calls(sk);
	if (err)
		goto out;
	err = member_exchange(sk, old, self);
	unlock_calls(rar_sk(sk));
	if (err)
		goto out;
	rar_leave_release(old);
	sk->sk_err = 0;
out:
	rar_member_put(old);
	return err;
}

/**
 * rar_sock_bind() - make the member, anew after a failure
 * @sk:   socket, locked; unlocked for a while where a member failed
 * @self: its address, checked
 *
 * Return: 0 or a negative errno of bind().
 */
int rar_sock_bind(struct sock *sk, const struct sockaddr_rar *self)
{
	struct rar_member *m = rar_sock_member(sk);

	if (m)
		return rar_member_state(m) == RAR_S_FAILED ?
		       member_replace(sk, m, self) : -EINVAL;
	m = member_new(sk, self, NULL);
	if (IS_ERR(m))
		return PTR_ERR(m);
	rcu_assign_pointer(rar_sk(sk)->member, m);
	return 0;
}

/**
 * rar_sock_unbind() - undo rar_sock_bind()
 * @sk: socket, locked; its member is in BOUND
 */
void rar_sock_unbind(struct sock *sk)
{
	struct rar_member *m = rar_sock_member(sk);

	RCU_INIT_POINTER(rar_sk(sk)->member, NULL);
	rar_leave_release(m);
}

/* Once more under the same name. */
static int bind_again(struct sock *sk, const struct rar_member *m)
{
	struct sockaddr_rar self;

	rar_sock_addr(m, &m->self, m->rank, &self);
	return rar_sock_bind(sk, &self);
}

static int check_next(const struct rar_member *m,
		      const struct sockaddr_rar *next)
{
	if (next->srar_group != m->id || next->srar_size != m->size ||
	    next->srar_rank != rar_member_rank(m, RAR_NEXT))
		return -EINVAL;
	if (!next->srar_af || !memchr_inv(next->srar_addr, 0,
					  sizeof(next->srar_addr)))
		return -EDESTADDRREQ;
	if (m->self.af && m->self.af != next->srar_af)
		return -EINVAL;
	return 0;
}

static int check_prev(const struct rar_member *m, const struct sockaddr_rar *prev,
		      const struct sockaddr_rar *next)
{
	if (!prev->srar_family)
		return 0;
	if (prev->srar_group != m->id || prev->srar_size != m->size ||
	    prev->srar_rank != rar_member_rank(m, RAR_PREV) ||
	    prev->srar_af != next->srar_af ||
	    !memchr_inv(prev->srar_addr, 0, sizeof(prev->srar_addr)))
		return -EINVAL;
	return 0;
}

static void set_trust(struct rar_member *m, const struct rar_join_opts *opts)
{
	memset(&m->trust.prev, 0, sizeof(m->trust.prev));
	if (opts->prev.srar_family)
		to_addr(m->rn, &opts->prev, &m->trust.prev);
	m->trust.key = opts->key;
}

/* How long a join may take, ms. */
static u32 join_ms(const struct rar_net *rn, const struct rar_join_opts *opts, long timeo)
{
	u32 ms = READ_ONCE(rn->sysctl_join_ms);

	if (opts->timeout_ms)
		return opts->timeout_ms;
	if (timeo && timeo != MAX_SCHEDULE_TIMEOUT)
		ms = min_t(u64, ms, jiffies64_to_msecs(timeo));
	return ms;
}

/* What a connect() finds in states that do not allow another join. */
static int join_state_error(const struct rar_member *m)
{
	switch (rar_member_state(m)) {
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
 * @opts:  @prev is checked as an address
 * @timeo: jiffies until it must have ended; 0 or MAX_SCHEDULE_TIMEOUT: join_ms
 *
 * Return: 0 or a negative errno of connect().
 */
int rar_sock_join(struct sock *sk, const struct sockaddr_rar *next,
		  const struct rar_join_opts *opts, long timeo)
{
	struct rar_member *m = rar_sock_member(sk);
	struct rar_net *rn = m->rn;
	struct rar_addr addr;
	int err;

	err = check_next(m, next) ?: check_prev(m, &opts->prev, next);
	/* Sums for the first rank of a host have no other way than memory. */
	if (!err && rar_sk(sk)->schedule == RAR_BY_HOSTS && rar_rules_strict(rn))
		err = -EPERM;
	if (!err && rar_member_state(m) == RAR_S_FAILED)
		err = bind_again(sk, m);
	if (err)
		return err;
	m = rar_sock_member(sk);
	err = join_state_error(m);
	if (err)
		return err;
	to_addr(rn, next, &addr);
	m->sk_mark = READ_ONCE(sk->sk_mark);
	m->sk_priority = READ_ONCE(sk->sk_priority);
	set_trust(m, opts);
	m->by_hosts = rar_sk(sk)->schedule == RAR_BY_HOSTS;
	m->path[RAR_NEXT].oif = sk->sk_bound_dev_if;
	sk->sk_err = 0;
	rar_sk(sk)->interrupted = false;
	rar_fail_set_owner(m, get_pid(task_tgid(current)));
	return rar_join_start(m, &addr, join_ms(rn, opts, timeo));
}

static bool join_over(const struct rar_member *m)
{
	u8 state = rar_member_state(m);

	return state != RAR_S_JOINING && state != RAR_S_READY;
}

/* How did the join end? Also clears what SO_ERROR would say. */
static int join_result(struct sock *sk, struct rar_member *m)
{
	int err = 0;

	spin_lock_bh(&m->lock);
	if (m->state == RAR_S_BOUND || m->state == RAR_S_FAILED)
		err = -m->error.err;
	spin_unlock_bh(&m->lock);
	if (err)
		sk->sk_err = 0;
	return err;
}

/*
 * Wait for the end of a join, but no longer than @timeo. A signal ends the wait and not
 * the join, whose deadline stays: the call can be restarted, even with a time limit.
 */
static int sock_wait_join(struct sock *sk, struct rar_member *m, long timeo)
{
	bool over;
	int err;

	refcount_inc(&m->ref);
	release_sock(sk);
	timeo = wait_event_interruptible_timeout(*sk_sleep(sk), join_over(m), timeo);
	lock_sock(sk);
	over = join_over(m);
	rar_sk(sk)->interrupted = timeo && !over;
	if (over)
		err = join_result(sk, m);
	else
		err = timeo ? -ERESTARTSYS : -EALREADY;
	rar_member_put(m);
	return err;
}

/* Has a join ended that a signal had kept connect() from waiting for, and nobody knows? */
static bool join_unseen(const struct sock *sk, const struct rar_member *m)
{
	return rar_sk(sk)->interrupted && join_over(m) &&
	       (rar_member_runs(m) || READ_ONCE(sk->sk_err));
}

static int sock_connect(struct sock *sk, const struct sockaddr_rar *next, long timeo)
{
	struct rar_member *m = rar_sock_member(sk);
	int err;

	if (!m)
		return -EINVAL;
	if (join_unseen(sk, m)) {
		rar_sk(sk)->interrupted = false;
		return join_result(sk, m);
	}
	err = rar_sock_join(sk, next, &rar_sk(sk)->join, timeo);
	m = rar_sock_member(sk);
	if (!timeo && !err)
		return join_over(m) ? join_result(sk, m) : -EINPROGRESS;
	if (!timeo || (err && err != -EALREADY))
		return err;
	/* A join that began here has the time limit itself. */
	return sock_wait_join(sk, m, err ? timeo : MAX_SCHEDULE_TIMEOUT);
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
	if (!err)
		rar_sk(sk)->by_join = false;
	release_sock(sk);
	return err;
}

static int rar_connect(struct socket *sock, struct rar_sockaddr *uaddr,
		       int len, int flags)
{
	const struct sockaddr_rar *sa = (const struct sockaddr_rar *)uaddr;
	struct sock *sk = sock->sk;
	int err;

	err = rar_sock_check_addr(sa, len);
	if (err)
		return err;
	lock_sock(sk);
	err = sock_connect(sk, sa, sock_sndtimeo(sk, flags & O_NONBLOCK));
	release_sock(sk);
	return err;
}

static int sock_name(const struct rar_member *m, struct sockaddr_rar *sa,
		     int peer)
{
	if (!m || (peer && rar_member_state(m) < RAR_S_RUN))
		return -ENOTCONN;
	if (peer)
		rar_sock_addr(m, &m->path[RAR_NEXT].dst,
			      rar_member_rank(m, RAR_NEXT), sa);
	else
		rar_sock_addr(m, m->path[RAR_NEXT].src.af ?
			      &m->path[RAR_NEXT].src : &m->self,
			      m->rank, sa);
	return sizeof(*sa);
}

static int rar_getname(struct socket *sock, struct sockaddr *uaddr, int peer)
{
	struct sock *sk = sock->sk;
	int ret;

	lock_sock(sk);
	ret = sock_name(rar_sock_member(sk), (struct sockaddr_rar *)uaddr, peer);
	release_sock(sk);
	return ret;
}

/* -- poll, shutdown, release --------------------------------------------- */

static __poll_t poll_member(struct rar_member *m)
{
	struct rar_operation *op;
	__poll_t mask = 0;

	switch (rar_member_state(m)) {
	case RAR_S_BOUND:
		return READ_ONCE(m->error.err) ?
		       EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLOUT : 0;
	case RAR_S_JOINING:
	case RAR_S_READY:
		return 0;
	case RAR_S_FAILED:
		if (rar_member_hushed(m))
			return IS_ERR_OR_NULL(rar_msg_ready(m)) ? 0 :
			       EPOLLIN | EPOLLRDNORM;
		return EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLRDNORM | EPOLLOUT;
	}
	op = rar_msg_ready(m);
	if (op != ERR_PTR(-EAGAIN))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (!op)
		mask |= EPOLLRDHUP;
	if (rar_msg_may_send(m))
		mask |= EPOLLOUT | EPOLLWRNORM;
	return mask;
}

static __poll_t rar_poll(struct file *file, struct socket *sock,
			 poll_table *wait)
{
	struct rar_member *m;
	__poll_t mask = 0;

	sock_poll_wait(file, sock, wait);
	m = rar_sock_get(sock->sk);
	if (m) {
		mask = poll_member(m);
		rar_member_put(m);
	}
	return mask;
}

static int rar_shutdown(struct socket *sock, int how)
{
	struct sock *sk = sock->sk;
	struct rar_member *m;
	int err = 0;

	if (how != SHUT_WR)
		return how == SHUT_RD || how == SHUT_RDWR ? -EOPNOTSUPP :
							    -EINVAL;
	lock_sock(sk);
	m = rar_sock_member(sk);
	if (!m || rar_member_state(m) < RAR_S_RUN)
		err = -ENOTCONN;
	else
		rar_leave_shutdown(m);
	release_sock(sk);
	return err;
}

static int rar_release(struct socket *sock)
{
	struct sock *sk = sock->sk;
	struct rar_member *m;

	if (!sk)
		return 0;
	lock_sock(sk);
	sock_orphan(sk);
	sock->sk = NULL;
	rar_msg_drop(rar_sk(sk));
	rar_region_flush(&rar_sk(sk)->regions);
	memzero_explicit(&rar_sk(sk)->join, sizeof(rar_sk(sk)->join));
	m = rar_sock_member(sk);
	RCU_INIT_POINTER(rar_sk(sk)->member, NULL);
	if (m)
		rar_leave_release(m);
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
	static_assert(sizeof(struct rar_join_hdr) == 56);
	static_assert(sizeof(struct rar_join) == 232);
	static_assert(sizeof(struct rar_table_hdr) == 136);
	static_assert(sizeof(struct rar_wire_member) == 32);
	static_assert(sizeof(struct rar_notice_hdr) == 56);

	if (rar_family <= 0 || rar_family >= AF_MAX) {
		pr_err("rar: family=%d is no address family, 1 to %d are\n", rar_family,
		       AF_MAX - 1);
		return -EINVAL;
	}
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
