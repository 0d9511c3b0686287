// SPDX-License-Identifier: GPL-2.0
/*
 * Names and joining: what bind(), connect() and RAR_JOIN have in common.
 */
#include <linux/slab.h>
#include <net/sock.h>

#include "core/addr.h"
#include "core/key.h"
#include "core/member.h"
#include "core/region.h"
#include "group/join.h"
#include "group/leave.h"
#include "group/life.h"
#include "group/timer.h"
#include "group/watch.h"
#include "rar.h"
#include "sock/bind.h"
#include "sock/mmap.h"
#include "sock/msg.h"
#include "sock/sock.h"
#include "tx/port.h"
#include "tx/route.h"
#include "tx/rules.h"
#include "tx/sender.h"

/* Check that @sa is a well-formed address. Returns 0, -EINVAL or -EAFNOSUPPORT. */
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
	if (sa->srar_af == AF_INET6 &&
	    ipv6_addr_v4mapped((const struct in6_addr *)sa->srar_addr))
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

/* The socket is bound to the device of its VRF before it gets an address of that VRF. */
static bool addr_local(const struct sock *sk, const struct rar_addr *a)
{
	return addr_any(a) ||
	       rar_route_addr_is_ours(sock_net(sk), a, READ_ONCE(sk->sk_bound_dev_if));
}

static bool addr_same(const struct rar_addr *a, const struct rar_addr *b)
{
	return a->af == b->af && ipv6_addr_equal(&a->ip, &b->ip);
}

/*
 * Make a member under a name, held by @sk. The address of @old, the member before it, may be
 * gone: connect() waits for it. Returns the member or ERR_PTR.
 */
static struct rar_member *member_new(struct sock *sk, const struct sockaddr_rar *self,
				     struct rar_member *old)
{
	struct rar_net *rn = rar_net(sock_net(sk));
	struct rar_member *m;
	int err;

	m = rar_life_alloc(rn, self);
	if (!m)
		return ERR_PTR(-ENOMEM);
	rar_timer_init(m);
	to_addr(rn, self, &m->self);
	m->op_timeout_ms = rar_sk(sk)->op_timeout_ms;
	err = (old && addr_same(&old->self, &m->self)) ||
	      addr_local(sk, &m->self) ? 0 : -EADDRNOTAVAIL;
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
 * Keep out send() and recv(), which may be waiting for a page that does not come. A signal
 * ends the wait. The socket's lock is dropped meanwhile, so that others can use the socket.
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

/* Exchange the member. The socket is locked; send() and recv() are kept out. */
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
	rar_mmap_set_member(rsk, m);
	/* A send() that waits for its result holds no lock, and is told by nobody else. */
	rar_member_wake(old);
	return 0;
}

/*
 * Replace the socket's member. The failed one answers as a tombstone; its results must have
 * been read. Drops the socket lock for a while.
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
 * rar_sock_bind() - make the member, or make it again after a failure
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
	rar_mmap_set_member(rar_sk(sk), m);
	return 0;
}

/**
 * rar_sock_unbind() - undo rar_sock_bind()
 * @sk: socket, locked; its member is in BOUND
 */
void rar_sock_unbind(struct sock *sk)
{
	struct rar_member *m = rar_sock_member(sk);

	rar_mmap_set_member(rar_sk(sk), NULL);
	rar_leave_release(m);
}

/* Bind again under the same name. */
static int bind_again(struct sock *sk, const struct rar_member *m)
{
	struct sockaddr_rar self;

	rar_addr_to_sock(m, &m->self, m->rank, &self);
	return rar_sock_bind(sk, &self);
}

static int check_next(const struct rar_member *m,
		      const struct sockaddr_rar *next)
{
	if (next->srar_group != m->id || next->srar_size != m->size ||
	    next->srar_rank != m->link[RAR_NEXT]->rank)
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
	    prev->srar_rank != m->link[RAR_PREV]->rank ||
	    prev->srar_af != next->srar_af ||
	    !memchr_inv(prev->srar_addr, 0, sizeof(prev->srar_addr)))
		return -EINVAL;
	return 0;
}

/* May a member have these further addresses? */
static int check_rails(const struct sock *sk, const struct rar_member *m,
		       const struct rar_join_opts *opts, u16 af)
{
	struct rar_addr a;
	u32 i;

	for (i = 0; i < opts->rails.n; i++) {
		to_addr(m->rn, &opts->rails.at[i], &a);
		if (a.af != af || addr_same(&a, &m->self))
			return -EINVAL;
		if (!addr_local(sk, &a))
			return -EADDRNOTAVAIL;
	}
	return 0;
}

/* Set the further addresses of a member. Packets may be looking at them. */
static int set_rails(struct rar_member *m, const struct rar_join_opts *opts)
{
	u32 n = opts->rails.n, i;

	if (n && !m->rail)
		m->rail = kcalloc(RAR_MAX_RAILS, sizeof(*m->rail),
				  GFP_KERNEL_ACCOUNT);
	if (n && !m->rail)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		to_addr(m->rn, &opts->rails.at[i], &m->rail[i]);
	/* Pairs with the acquire in rar_validate_address(). */
	smp_store_release(&m->nrails, n);
	return 0;
}

static void set_trust(struct rar_member *m, const struct rar_join_opts *opts)
{
	const struct rar_addr_list *boxes = &opts->boxes;
	u32 i;

	memset(&m->trust.prev, 0, sizeof(m->trust.prev));
	if (opts->prev.srar_family)
		to_addr(m->rn, &opts->prev, &m->trust.prev);
	rar_key_set(m, &opts->key);
	rar_key_set_box(m, &opts->box_key);
	m->security = opts->security;
	m->tail = m->security ? sizeof(struct rar_seal_tail) : 0;
	m->join.offers = false;
	if (boxes->n) {
		/* A family of 0: none. */
		m->join.wants.n = boxes->at[0].srar_af ? boxes->n : 0;
		for (i = 0; i < m->join.wants.n; i++)
			to_addr(m->rn, &boxes->at[i], &m->join.wants.addr[i]);
		return;
	}
	spin_lock_bh(&m->rn->lock);
	m->join.wants = m->rn->boxes;
	/* Ranks that share a key trust no host that happens to be on the way. */
	m->join.offers = m->rn->box_offers && !rar_key_is_set(&m->trust.key);
	spin_unlock_bh(&m->rn->lock);
}

/* The time that a join may take, ms. */
static u32 join_ms(const struct rar_net *rn, const struct rar_join_opts *opts, long timeo)
{
	u32 ms = READ_ONCE(rn->sysctl_join_ms);

	if (opts->timeout_ms)
		return opts->timeout_ms;
	if (timeo && timeo != MAX_SCHEDULE_TIMEOUT)
		ms = min_t(u64, ms, jiffies64_to_msecs(timeo));
	return ms;
}

/* The errno of connect() in states that do not allow another join. */
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
 * @timeo: jiffies in which the join must end; 0 or MAX_SCHEDULE_TIMEOUT: join_ms
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

	err = check_next(m, next) ?: check_prev(m, &opts->prev, next) ?:
	      check_rails(sk, m, opts, next->srar_af);
	/* Sums for a host's first rank go in memory, and no other way. */
	if (!err && rar_sk(sk)->schedule == RAR_BY_HOSTS && rar_rules_strict(rn))
		err = -EPERM;
	if (!err && opts->security && !opts->key.len)
		err = -ENOKEY;
	if (!err && rar_member_state(m) == RAR_S_FAILED)
		err = bind_again(sk, m);
	if (err)
		return err;
	m = rar_sock_member(sk);
	err = join_state_error(m);
	if (err)
		return err;
	err = set_rails(m, opts);
	if (err)
		return err;
	to_addr(rn, next, &addr);
	m->sk_mark = READ_ONCE(sk->sk_mark);
	m->sk_priority = READ_ONCE(sk->sk_priority);
	set_trust(m, opts);
	m->schedule = rar_sk(sk)->schedule;
	m->user_rank = opts->user_rank == RAR_NO_RANK ? m->rank : opts->user_rank;
	m->box_wait_ms = opts->box_wait_ms;
	m->link[RAR_NEXT]->path.oif = sk->sk_bound_dev_if;
	sk->sk_err = 0;
	rar_sk(sk)->interrupted = false;
	rar_watch_owner(m, get_pid(task_tgid(current)));
	return rar_join_start(m, &addr, join_ms(rn, opts, timeo));
}
