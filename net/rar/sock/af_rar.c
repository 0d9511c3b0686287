// SPDX-License-Identifier: GPL-2.0
/*
 * The socket family: names, joining, state. It has no protocol logic. Owns struct rar_sock.
 */
#include <linux/module.h>
#include <linux/pid.h>
#include <net/addrconf.h>
#include <net/route.h>
#include <net/sock.h>

#include "core/addr.h"
#include "core/member.h"
#include "core/region.h"
#include "group/enter.h"
#include "group/join.h"
#include "group/leave.h"
#include "group/life.h"
#include "group/watch.h"
#include "ring/done.h"
#include "sock/af_rar.h"
#include "sock/bind.h"
#include "sock/mmap.h"
#include "sock/msg.h"
#include "sock/sock.h"
#include "sock/sockopt.h"
#include "tx/port.h"
#include "tx/rules.h"
#include "tx/sender.h"

/* -- bind and connect ---------------------------------------------------- */

static bool join_over(const struct rar_member *m)
{
	u8 state = rar_member_state(m);

	return state != RAR_S_JOINING && state != RAR_S_READY &&
	       !rar_enter_awaited(m);
}

/* The result of the join, as an errno. Also clears what SO_ERROR would say. */
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
 * Wait for the end of a join, but no longer than @timeo. A signal ends the wait, but not the
 * join, whose deadline stays. So the call can be restarted, even with a time limit.
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

/* Has a join ended that connect() could not wait for because of a signal, unreported yet? */
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
	/* The lock was dropped: another call may have unbound the socket. */
	if (!m)
		return err ?: -EINVAL;
	if (!timeo && !err)
		return join_over(m) ? join_result(sk, m) : -EINPROGRESS;
	if (!timeo || (err && err != -EALREADY))
		return err;
	/* A join that began in this call has the time limit itself. */
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
	return rar_sock_err(sk, err);
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
	return rar_sock_err(sk, err);
}

static int sock_name(const struct rar_member *m, struct sockaddr_rar *sa,
		     int peer)
{
	if (!m || (peer && rar_member_state(m) < RAR_S_RUN))
		return -ENOTCONN;
	if (peer)
		rar_addr_to_sock(m, &m->link[RAR_NEXT]->path.dst,
				 m->link[RAR_NEXT]->rank, sa);
	else
		rar_addr_to_sock(m, m->link[RAR_NEXT]->path.src.af ?
				 &m->link[RAR_NEXT]->path.src : &m->self,
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
	if (rar_msg_may_send(m) && !rar_enter_awaited(m))
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
	rar_mmap_set_member(rar_sk(sk), NULL);
	rar_mmap_end(rar_sk(sk));
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
	.mmap		= rar_mmap,
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
	rsk->prio = RAR_DEFAULT_PRIORITY;
	rsk->join.user_rank = RAR_NO_RANK;
	mutex_init(&rsk->send_lock);
	mutex_init(&rsk->recv_lock);
	rar_region_init(&rsk->regions);
	spin_lock_init(&rsk->counters_lock);
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
	static_assert(sizeof(struct rar_op) == 48);
	static_assert(sizeof(struct rar_done) == 32);
	static_assert(sizeof(struct rar_error) == 120);
	static_assert(sizeof(struct rar_hdr) == 24);
	static_assert(sizeof(struct rar_data_hdr) == 64);
	static_assert(sizeof(struct rar_ack_hdr) == 112);
	static_assert(sizeof(struct rar_probe_hdr) == 72);
	static_assert(sizeof(struct rar_join_hdr) == 56);
	static_assert(sizeof(struct rar_join) == 232);
	static_assert(sizeof(struct rar_reg) == 24);
	static_assert(sizeof(struct rar_counters) == 48);
	static_assert(sizeof(struct rar_table_hdr) == 152);
	static_assert(sizeof(struct rar_wire_member) == 32);
	static_assert(sizeof(struct rar_notice_hdr) == 72);

	if (rar_family <= 0 || rar_family >= AF_MAX) {
		pr_err("rar: family=%d is out of range (1 to %d)\n", rar_family,
		       AF_MAX - 1);
		return -EINVAL;
	}
	err = proto_register(&rar_proto, 1);
	if (err)
		return err;
	rar_proto_family.family = rar_family;
	err = sock_register(&rar_proto_family);
	if (err == -EEXIST)	/* modprobe would take EEXIST for success */
		err = -EBUSY;
	if (err) {
		pr_err("rar: address family %d is in use, choose another with family=\n",
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
