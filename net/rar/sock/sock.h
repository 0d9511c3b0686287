/* SPDX-License-Identifier: GPL-2.0 */
/* The socket of a member: what af_rar.c, msg.c and sockopt.c share. */
#ifndef _RAR_SOCK_H
#define _RAR_SOCK_H

#include "rar.h"
#include "core/region.h"

/*
 * struct rar_addr_list - addresses without ranks: boxes, or own ones
 * @n:  how many there are
 * @at: the addresses, all of one family
 */
struct rar_addr_list {
	u32 n;
	struct sockaddr_rar at[RAR_MAX_RAILS];
};

static_assert(RAR_MAX_BOXES <= RAR_MAX_RAILS);

/*
 * struct rar_join_opts - options of a join, besides the successor's address
 * @prev:       address of the predecessor; family 0: any
 * @key:        shared by the members
 * @security:   enum rar_security
 * @box_key:    key of the boxes
 * @boxes:      the boxes, if there are any; else net.rar.box
 * @rails:      further own addresses
 * @user_rank:  RAR_USER_RANK
 * @box_wait_ms: RAR_BOX_WAIT
 * @timeout_ms: time in which the ring must be closed; 0: SO_SNDTIMEO or net.rar.join_ms
 */
struct rar_join_opts {
	struct sockaddr_rar prev;
	struct rar_secret key;
	u8 security;
	struct rar_secret box_key;
	struct rar_addr_list boxes;
	struct rar_addr_list rails;
	u32 user_rank;
	u32 box_wait_ms;
	u32 timeout_ms;
};

/*
 * struct rar_sock - the socket of a member
 * @sk:        first, for sk_alloc()
 * @member:    the member; bind() sets it under the socket lock, rar_mmap_set_member() writes
 *             it. After a failure bind() or connect() exchanges it with both mutexes held as
 *             well, which are taken before the socket lock
 * @send_lock: one send() at a time; protects @more and @fingerprint
 * @recv_lock: one recv() at a time
 * @more:      record begun with MSG_MORE
 * @fingerprint: fingerprint of @more
 * @by_join:   bound by RAR_JOIN, which may bind another name as long as it has not joined
 * @interrupted: a signal ended a connect(), and no call has said yet how its join ended;
 *             socket lock
 * @dtype:     default of send()
 * @redop:     default of send()
 * @schedule:  enum rar_schedule that the user asked for
 * @nonempty:  RAR_NONEMPTY
 * @peers_from: RAR_PEERS_FROM
 * @prio:      RAR_PRIORITY
 * @lack:      enum rar_lack: what the last call lacked that failed for that
 * @join:      RAR_PREV_ADDR, RAR_KEY, RAR_SECURITY, RAR_BOX, RAR_BOX_KEY,
 *             RAR_BOX_WAIT, RAR_RAIL and RAR_USER_RANK, for the next join
 * @op_timeout_ms: RAR_OP_TIMEOUT, kept until there is a member
 * @regions:   registered memory
 * @counters:  the page that mmap() shows, see mmap.c; NULL before the first mmap()
 * @counters_lock: protects @counters, and makes @member the only writer of it
 */
struct rar_sock {
	struct sock sk;
	struct rar_member __rcu *member;
	struct mutex send_lock;		/* also protects @more and @fingerprint */
	struct mutex recv_lock;		/* orders the pieces of results */
	struct rar_operation *more;
	struct rar_fingerprint fingerprint;
	bool by_join;
	bool interrupted;
	u8 dtype;
	u8 redop;
	u8 schedule;
	bool nonempty;
	u8 prio;
	u8 lack;
	u32 peers_from;
	struct rar_join_opts join;
	u32 op_timeout_ms;
	struct rar_regions regions;
	struct page *counters;
	spinlock_t counters_lock; /* see above */
};

static inline struct rar_sock *rar_sk(const struct sock *sk)
{
	return (struct rar_sock *)sk;
}

/* A call fails because something is lacking. RAR_INFO tells what. */
static inline int rar_sock_lacks(struct sock *sk, enum rar_lack lack)
{
	WRITE_ONCE(rar_sk(sk)->lack, lack);
	return -ENOBUFS;
}

/* What a call returns for an error of the layers below. */
static inline int rar_sock_err(struct sock *sk, int err)
{
	if (err == -ENOMEM)
		return rar_sock_lacks(sk, RAR_LACK_KERNEL);
	if (err == -EDQUOT)
		return rar_sock_lacks(sk, RAR_LACK_MEMLOCK);
	return err;
}

/* The member, or NULL; the socket is locked. */
static inline struct rar_member *rar_sock_member(const struct sock *sk)
{
	return rcu_dereference_protected(rar_sk(sk)->member,
					 lockdep_sock_is_held(sk));
}

/* The member with a reference, or NULL. */
static inline struct rar_member *rar_sock_get(const struct sock *sk)
{
	struct rar_member *m;

	rcu_read_lock();
	m = rcu_dereference(rar_sk(sk)->member);
	if (m && !refcount_inc_not_zero(&m->ref))
		m = NULL;
	rcu_read_unlock();
	return m;
}

#endif /* _RAR_SOCK_H */
