// SPDX-License-Identifier: GPL-2.0
/* Socket options of level SOL_RAR. */
#include <linux/pid.h>

#include "core/addr.h"
#include "core/member.h"
#include "core/region.h"
#include "group/watch.h"
#include "ring/fail.h"
#include "sock/af_rar.h"
#include "sock/bind.h"
#include "sock/info.h"
#include "sock/msg.h"
#include "sock/sock.h"
#include "sock/sockopt.h"

/*
 * Copy an argument of @size bytes, zeroed before. Programs that know only its first fields give
 * only these, at least @least bytes. A longer argument, up to a page, may have only zeros in the
 * rest.
 */
static int copy_grown(void *arg, size_t size, size_t least, sockptr_t optval,
		      unsigned int optlen)
{
	size_t len = min_t(size_t, optlen, size);
	int zero = 1;

	if (optlen < least)
		return -EINVAL;
	if (optlen > PAGE_SIZE)
		return -E2BIG;
	if (copy_from_sockptr(arg, optval, len))
		return -EFAULT;
	if (optlen > len)
		zero = check_zeroed_sockptr(optval, len, optlen - len);
	return zero < 0 ? zero : zero ? 0 : -EINVAL;
}

/* RAR_REG and RAR_UNREG: register memory that operations will use again. */
static int set_region(struct rar_sock *rsk, int optname, sockptr_t optval,
		      unsigned int optlen)
{
	struct rar_reg reg = {};
	int err;

	err = copy_grown(&reg, sizeof(reg), offsetof(struct rar_reg, flags), optval, optlen);
	if (err)
		return err;
	if (!reg.len || reg.flags & ~RAR_REG_READ || reg.__pad)
		return -EINVAL;
	if (optname == RAR_UNREG)
		return rar_region_del(&rsk->regions, reg.addr, reg.len);
	err = rar_region_add(&rsk->regions, reg.addr, reg.len,
			     !(reg.flags & RAR_REG_READ));
	return err == -ENOBUFS ? rar_sock_lacks(&rsk->sk, RAR_LACK_REGIONS) :
				 rar_sock_err(&rsk->sk, err);
}

static int get_u32_opt(sockptr_t optval, unsigned int optlen, u32 *val)
{
	if (optlen < sizeof(*val))
		return -EINVAL;
	return copy_from_sockptr(val, optval, sizeof(*val)) ? -EFAULT : 0;
}

/* Is the member bound to @self? Port 0 matches whichever port it got. */
static bool same_name(const struct rar_member *m,
		      const struct sockaddr_rar *self)
{
	const struct rar_addr *a = &m->self;

	return m->id == self->srar_group && m->rank == self->srar_rank &&
	       m->size == self->srar_size && a->af == self->srar_af &&
	       a->scope == self->srar_scope_id &&
	       (!self->srar_port || a->port == self->srar_port) &&
	       !memcmp(&a->ip, self->srar_addr, sizeof(a->ip));
}

/* bind() for RAR_JOIN: where there is no member, or one that failed or RAR_JOIN left. */
static int join_bind(struct sock *sk, const struct sockaddr_rar *self)
{
	struct rar_member *m = rar_sock_member(sk);
	int err;

	if (m && rar_member_state(m) == RAR_S_BOUND && rar_sk(sk)->by_join &&
	    !same_name(m, self)) {
		rar_sock_unbind(sk);
		m = NULL;
	}
	if (m && rar_member_state(m) != RAR_S_FAILED)
		return same_name(m, self) ? 0 : -EINVAL;
	err = rar_sock_bind(sk, self);
	if (!err)
		rar_sk(sk)->by_join = true;
	return err;
}

/* Bind and connect, or neither: if the join fails, the name that this call bound is undone. */
static int join_both(struct sock *sk, const struct rar_join *join,
		     const struct rar_join_opts *opts)
{
	struct rar_member *before = rar_sock_member(sk), *bound;
	int err;

	err = join_bind(sk, &join->self);
	if (err)
		return err;
	bound = rar_sock_member(sk);
	refcount_inc(&bound->ref);
	err = rar_sock_join(sk, &join->next, opts, sock_sndtimeo(sk, false));
	/* The lock was dropped: another call may have replaced the member. */
	if (err && bound != before && rar_sock_member(sk) == bound)
		rar_sock_unbind(sk);
	rar_member_put(bound);
	return err;
}

static int check_join(const struct rar_join *join)
{
	int err;

	if (join->flags || join->__host || join->__user_rank || join->__pad ||
	    join->timeout_ms > INT_MAX)
		return -EINVAL;
	err = rar_sock_check_addr(&join->self, sizeof(join->self));
	if (!err)
		err = rar_sock_check_addr(&join->next, sizeof(join->next));
	if (!err && memchr_inv(&join->prev, 0, sizeof(join->prev)))
		err = rar_sock_check_addr(&join->prev, sizeof(join->prev));
	return err;
}

/* The options of this call, where they are set; otherwise those of the socket. */
static void join_opts(const struct rar_sock *rsk, const struct rar_join *join,
		      struct rar_join_opts *opts)
{
	*opts = rsk->join;
	opts->timeout_ms = join->timeout_ms;
	if (join->prev.srar_family)
		opts->prev = join->prev;
	if (memchr_inv(join->key, 0, sizeof(join->key)))
		memcpy(&opts->key, join->key, sizeof(opts->key));
}

static int set_join(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	struct rar_join_opts opts;
	struct rar_join join = {};
	int err;

	err = copy_grown(&join, sizeof(join), offsetof(struct rar_join, prev), optval, optlen) ?:
	      check_join(&join);
	if (err)
		return err;
	lock_sock(sk);
	join_opts(rar_sk(sk), &join, &opts);
	err = join_both(sk, &join, &opts);
	release_sock(sk);
	memzero_explicit(&join, sizeof(join));
	memzero_explicit(&opts, sizeof(opts));
	return err;
}

/* May options of the join be set: is there no member that joins or has joined? */
static bool may_set_join(const struct sock *sk)
{
	struct rar_member *m = rar_sock_member(sk);
	u8 state = m ? rar_member_state(m) : RAR_S_UNBOUND;

	return state <= RAR_S_BOUND || state == RAR_S_FAILED;
}

/* Read the address of a rank; without a length it is all zero. */
static int get_sockaddr(struct sockaddr_rar *addr, sockptr_t optval, unsigned int optlen)
{
	*addr = (struct sockaddr_rar) {};
	if (!optlen)
		return 0;
	if (optlen != sizeof(*addr))
		return -EINVAL;
	if (copy_from_sockptr(addr, optval, optlen))
		return -EFAULT;
	return rar_sock_check_addr(addr, optlen);
}

/* Read the address of the @i-th box, which has no rank. */
static int get_box(struct sockaddr_rar *box, sockptr_t optval, u32 i)
{
	if (copy_from_sockptr_offset(box, optval, i * sizeof(*box), sizeof(*box)))
		return -EFAULT;
	box->srar_rank = 0;
	box->srar_size = 1;
	return rar_sock_check_addr(box, sizeof(*box));
}

static int set_prev(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	struct sockaddr_rar prev;
	int err = get_sockaddr(&prev, optval, optlen);

	if (err)
		return err;
	lock_sock(sk);
	if (may_set_join(sk))
		rar_sk(sk)->join.prev = prev;
	else
		err = -EISCONN;
	release_sock(sk);
	return err;
}

/* May the @n-th box follow those before it? */
static int check_box(const struct sockaddr_rar *boxes, u32 n)
{
	const struct sockaddr_rar *box = &boxes[n];
	u32 i;

	if (n && (!box->srar_af || box->srar_af != boxes[0].srar_af))
		return -EINVAL;
	for (i = 0; i < n; i++)
		if (boxes[i].srar_port == box->srar_port &&
		    !memcmp(boxes[i].srar_addr, box->srar_addr, sizeof(box->srar_addr)))
			return -EEXIST;
	return 0;
}

/* Set the boxes of the next join. */
static int set_boxes(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	struct sockaddr_rar boxes[RAR_MAX_BOXES] = {};
	u32 n = optlen / sizeof(boxes[0]), i;
	int err;

	if (optlen % sizeof(boxes[0]))
		return -EINVAL;
	if (n > RAR_MAX_BOXES)
		return -E2BIG;
	for (i = 0; i < n; i++) {
		err = get_box(&boxes[i], optval, i);
		if (!err)
			err = check_box(boxes, i);
		if (err)
			return err;
	}
	lock_sock(sk);
	if (may_set_join(sk)) {
		memcpy(rar_sk(sk)->join.boxes, boxes, sizeof(boxes));
		rar_sk(sk)->join.nboxes = n;
	} else {
		err = -EISCONN;
	}
	release_sock(sk);
	return err;
}

static int set_key(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	siphash_key_t key = {};
	int err = 0;

	static_assert(sizeof(key) == RAR_KEY_LEN);
	if (optlen && optlen != sizeof(key))
		return -EINVAL;
	if (copy_from_sockptr(&key, optval, optlen))
		return -EFAULT;
	lock_sock(sk);
	if (may_set_join(sk))
		rar_sk(sk)->join.key = key;
	else
		err = -EISCONN;
	release_sock(sk);
	memzero_explicit(&key, sizeof(key));
	return err;
}

/* Does @pid name a process, and not only one thread of it? */
static bool is_process(struct pid *pid)
{
	bool yes;

	rcu_read_lock();
	yes = pid && pid_task(pid, PIDTYPE_TGID);
	rcu_read_unlock();
	return yes;
}

static int set_owner(struct sock *sk, s32 nr)
{
	struct rar_member *m;
	struct pid *pid;
	int err = 0;

	if (nr < 0)
		return -EINVAL;
	pid = nr ? find_get_pid(nr) : get_pid(task_tgid(current));
	lock_sock(sk);
	m = rar_sock_member(sk);
	if (!m || rar_member_state(m) < RAR_S_JOINING)
		err = -ENOTCONN;
	else if (!is_process(pid))
		err = -ESRCH;
	else
		rar_watch_owner(m, get_pid(pid));
	release_sock(sk);
	put_pid(pid);
	return err;
}

static int set_abort(struct sock *sk, u32 val)
{
	struct rar_member *m;
	int err = 0;

	if (val)
		return -EINVAL;
	lock_sock(sk);
	m = rar_sock_member(sk);
	if (!m || rar_member_state(m) < RAR_S_JOINING)
		err = -ENOTCONN;
	else
		rar_fail_pair(m, ECONNRESET, RAR_R_ABORTED, m->rank,
			      m->rank, 0);
	release_sock(sk);
	return err;
}

/*
 * Undo the calls of a record begun with MSG_MORE. Returns 0 also if there were none. Records of a
 * keyed reduction may have been reduced already.
 */
static int set_cancel(struct rar_sock *rsk, u32 val)
{
	int err = 0;

	if (val)
		return -EINVAL;
	if (mutex_lock_interruptible(&rsk->send_lock))
		return -ERESTARTSYS;
	if (rsk->more && rsk->more->keyed)
		err = -EBUSY;
	else
		rar_msg_drop(rsk);
	mutex_unlock(&rsk->send_lock);
	return err;
}

static int set_nonempty(struct rar_sock *rsk, u32 val)
{
	if (val > 1)
		return -EINVAL;
	WRITE_ONCE(rsk->nonempty, val);
	return 0;
}

static int set_peers_from(struct rar_sock *rsk, u32 val)
{
	if (val >= RAR_MAX_SIZE)
		return -EINVAL;
	WRITE_ONCE(rsk->peers_from, val);
	return 0;
}

static int set_default(u8 *field, u32 val, u32 limit)
{
	if (!val || val >= limit)
		return -EINVAL;
	*field = val;
	return 0;
}

static int set_op_timeout(struct sock *sk, u32 ms)
{
	struct rar_member *m;

	lock_sock(sk);
	m = rar_sock_member(sk);
	rar_sk(sk)->op_timeout_ms = ms;
	if (m) {
		WRITE_ONCE(m->op_timeout_ms, ms);
		rar_member_kick(m, jiffies);
	}
	release_sock(sk);
	return 0;
}

/* Set the schedule of the next join. */
static int set_schedule(struct sock *sk, u32 val)
{
	int err = 0;

	if (val >= RAR_SCHEDULE_NR)
		return -EINVAL;
	lock_sock(sk);
	if (may_set_join(sk))
		rar_sk(sk)->schedule = val;
	else
		err = -EISCONN;
	release_sock(sk);
	return err;
}

/* Set what the user calls this rank, from the next join on. */
static int set_user_rank(struct sock *sk, u32 val)
{
	int err = 0;

	if (val > RAR_MAX_USER_RANK && val != RAR_NO_RANK)
		return -EINVAL;
	lock_sock(sk);
	if (may_set_join(sk))
		rar_sk(sk)->join.user_rank = val;
	else
		err = -EISCONN;
	release_sock(sk);
	return err;
}

/* Set how long connect() waits for the boxes, from the next join on. */
static int set_box_wait(struct sock *sk, u32 val)
{
	int err = 0;

	if (val > INT_MAX)
		return -EINVAL;
	lock_sock(sk);
	if (may_set_join(sk))
		rar_sk(sk)->join.box_wait_ms = val;
	else
		err = -EISCONN;
	release_sock(sk);
	return err;
}

int rar_setsockopt(struct socket *sock, int level, int optname,
		   sockptr_t optval, unsigned int optlen)
{
	struct sock *sk = sock->sk;
	struct rar_sock *rsk = rar_sk(sk);
	u32 val;
	int err;

	if (level != SOL_RAR)
		return -ENOPROTOOPT;
	if (optname == RAR_JOIN)
		return rar_sock_err(sk, set_join(sk, optval, optlen));
	if (optname == RAR_PREV_ADDR)
		return set_prev(sk, optval, optlen);
	if (optname == RAR_KEY)
		return set_key(sk, optval, optlen);
	if (optname == RAR_BOX)
		return set_boxes(sk, optval, optlen);
	if (optname == RAR_REG || optname == RAR_UNREG)
		return set_region(rsk, optname, optval, optlen);
	err = get_u32_opt(optval, optlen, &val);
	if (err)
		return err;
	switch (optname) {
	case RAR_DTYPE:
		return set_default(&rsk->dtype, val, RAR_DTYPE_NR);
	case RAR_REDOP:
		return set_default(&rsk->redop, val, RAR_REDOP_NR);
	case RAR_OP_TIMEOUT:
		return set_op_timeout(sk, val);
	case RAR_SCHEDULE:
		return set_schedule(sk, val);
	case RAR_OWNER:
		return set_owner(sk, val);
	case RAR_ABORT:
		return set_abort(sk, val);
	case RAR_CANCEL:
		return set_cancel(rsk, val);
	case RAR_NONEMPTY:
		return set_nonempty(rsk, val);
	case RAR_PEERS_FROM:
		return set_peers_from(rsk, val);
	case RAR_PRIORITY:
		return set_default(&rsk->prio, val, U8_MAX + 1);
	case RAR_USER_RANK:
		return set_user_rank(sk, val);
	case RAR_BOX_WAIT:
		return set_box_wait(sk, val);
	}
	return -ENOPROTOOPT;
}

/* Copy a size-versioned struct: as much as the caller has room for. */
static int put_opt(const void *val, size_t size, char __user *optval,
		   int __user *optlen, int len)
{
	len = min_t(size_t, len, size);
	if (copy_to_user(optval, val, len) || put_user(len, optlen))
		return -EFAULT;
	return 0;
}

/* Fill the row of a rank of a member that has joined. False if another took its place. */
static bool fill_peer(struct rar_member *m, u32 rank, struct rar_peer *peer)
{
	bool known;

	memset(peer, 0, sizeof(*peer));
	peer->rank = rank;
	spin_lock_bh(&m->lock);
	known = m->join.table;
	if (known) {
		peer->user_rank = rar_member_user_rank(m, rank);
		rar_addr_to_sock(m, &m->join.table[rank].addr, rank, &peer->addr);
	}
	spin_unlock_bh(&m->lock);
	return known;
}

/* Copy out the rows from rank @from on, as many as there is room for. */
static int get_peers(struct rar_member *m, u32 from, char __user *optval,
		     int __user *optlen, int len)
{
	u32 n = len / sizeof(struct rar_peer), i;
	struct rar_peer peer;

	if (rar_member_state(m) < RAR_S_RUN)
		return -ENOTCONN;
	from = min(from, m->size);
	n = min(n, m->size - from);
	for (i = 0; i < n; i++) {
		if (!fill_peer(m, from + i, &peer))
			return -ENOTCONN;
		if (copy_to_user(optval + i * sizeof(peer), &peer,
				 sizeof(peer)))
			return -EFAULT;
	}
	return put_user((int)(n * sizeof(peer)), optlen) ? -EFAULT : 0;
}

/* The socket is not locked, because the caller's memory may be slow to come. */
static int get_member_opt(const struct rar_sock *rsk, struct rar_member *m,
			  int optname, char __user *optval, int __user *optlen,
			  int len)
{
	u32 from = READ_ONCE(rsk->peers_from);
	struct rar_error err = {};
	struct rar_info info = { .slow_rank = RAR_NO_RANK, .slow_user_rank = RAR_NO_RANK };
	struct rar_caps caps;
	s32 nr = 0;

	switch (optname) {
	case RAR_ERROR:
		if (m)
			rar_info_error(m, &err);
		return put_opt(&err, sizeof(err), optval, optlen, len);
	case RAR_INFO:
		if (m)
			rar_info_fill(m, &info);
		info.lack = READ_ONCE(rsk->lack);
		return put_opt(&info, sizeof(info), optval, optlen, len);
	case RAR_OWNER:
		if (m) {
			spin_lock_bh(&m->lock);
			nr = pid_vnr(m->owner);
			spin_unlock_bh(&m->lock);
		}
		return put_opt(&nr, sizeof(nr), optval, optlen, len);
	case RAR_PEERS:
		return m ? get_peers(m, from, optval, optlen, len) : -ENOTCONN;
	case RAR_CAPS:
		if (!m || rar_member_state(m) < RAR_S_RUN)
			return -ENOTCONN;
		caps = m->join.caps;
		/* What concerns only the members' kernels is not told. */
		caps.dtypes[0] &= RAR_OP_FLAGS;
		return put_opt(&caps, sizeof(caps), optval, optlen, len);
	}
	return -ENOPROTOOPT;
}

static int get_addr(struct sock *sk, const struct sockaddr_rar *from, char __user *optval,
		    int __user *optlen, int len)
{
	struct sockaddr_rar addr;

	lock_sock(sk);
	addr = *from;
	release_sock(sk);
	return put_opt(&addr, sizeof(addr), optval, optlen, len);
}

/* Without a box, the first one is all zero. */
static int get_boxes(struct sock *sk, char __user *optval, int __user *optlen, int len)
{
	struct sockaddr_rar boxes[RAR_MAX_BOXES];
	u32 n;

	lock_sock(sk);
	memcpy(boxes, rar_sk(sk)->join.boxes, sizeof(boxes));
	n = max(rar_sk(sk)->join.nboxes, 1U);
	release_sock(sk);
	return put_opt(boxes, n * sizeof(boxes[0]), optval, optlen, len);
}

int rar_getsockopt(struct socket *sock, int level, int optname,
		   char __user *optval, int __user *optlen)
{
	struct sock *sk = sock->sk;
	struct rar_sock *rsk = rar_sk(sk);
	struct rar_member *m;
	int len, err;
	u32 val;

	if (level != SOL_RAR)
		return -ENOPROTOOPT;
	if (get_user(len, optlen))
		return -EFAULT;
	if (len < (int)sizeof(u32))
		return -EINVAL;
	switch (optname) {
	case RAR_DTYPE:
		val = rsk->dtype;
		break;
	case RAR_REDOP:
		val = rsk->redop;
		break;
	case RAR_OP_TIMEOUT:
		val = rsk->op_timeout_ms;
		break;
	case RAR_SCHEDULE:
		val = rsk->schedule;
		break;
	case RAR_NONEMPTY:
		val = rsk->nonempty;
		break;
	case RAR_PEERS_FROM:
		val = rsk->peers_from;
		break;
	case RAR_PRIORITY:
		val = rsk->prio;
		break;
	case RAR_USER_RANK:
		val = rsk->join.user_rank;
		break;
	case RAR_BOX_WAIT:
		val = rsk->join.box_wait_ms;
		break;
	case RAR_PREV_ADDR:
		return get_addr(sk, &rsk->join.prev, optval, optlen, len);
	case RAR_BOX:
		return get_boxes(sk, optval, optlen, len);
	default:
		m = rar_sock_get(sk);
		err = get_member_opt(rsk, m, optname, optval, optlen, len);
		if (m)
			rar_member_put(m);
		return err;
	}
	return put_opt(&val, sizeof(val), optval, optlen, len);
}
