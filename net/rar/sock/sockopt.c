// SPDX-License-Identifier: GPL-2.0
/*
 * Socket options of level SOL_RAR: the table of all of them, and what they do.
 */
#include <linux/nospec.h>
#include <linux/pid.h>

#include "core/addr.h"
#include "core/member.h"
#include "core/region.h"
#include "group/watch.h"
#include "link/rail.h"
#include "ring/fail.h"
#include "sock/af_rar.h"
#include "sock/bind.h"
#include "sock/info.h"
#include "sock/msg.h"
#include "sock/sock.h"
#include "sock/sockopt.h"

/*
 * struct option - a socket option: one of @set, @call or @size is there if it
 *		   can be set, one of @get, @get_member or @size if it can be
 *		   read
 * @set:	takes any argument
 * @call:	takes a u32
 * @get:	returns any value; the socket is not locked
 * @get_member:	returns any value of the member, which may be NULL
 * @at:		where struct rar_sock has a number that the option sets and gets
 * @size:	bytes of that number, 0: there is none
 * @joining:	the number counts for the next join, and cannot be set while
 *		there is a member that joins or has joined
 * @min:	smallest number
 * @max:	largest number
 * @also:	a number beyond @max that can be set
 */
struct option {
	int (*set)(struct sock *sk, sockptr_t optval, unsigned int optlen);
	int (*call)(struct sock *sk, u32 val);
	int (*get)(struct sock *sk, char __user *optval, int __user *optlen,
		   int len);
	int (*get_member)(const struct rar_sock *rsk, struct rar_member *m,
			  char __user *optval, int __user *optlen, int len);
	u16 at;
	u8 size;
	bool joining;
	u32 min;
	u32 max;
	u32 also;
};

/* -- setting --------------------------------------------------------------- */

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

static int get_region(struct rar_reg *reg, sockptr_t optval,
		      unsigned int optlen)
{
	int err;

	*reg = (struct rar_reg) {};
	err = copy_grown(reg, sizeof(*reg), offsetof(struct rar_reg, flags),
			 optval, optlen);
	if (err)
		return err;
	if (!reg->len || reg->flags & ~RAR_REG_READ || reg->__pad)
		return -EINVAL;
	return 0;
}

/* Register memory that operations will use again. */
static int set_reg(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	struct rar_reg reg;
	int err = get_region(&reg, optval, optlen);

	if (err)
		return err;
	err = rar_region_add(&rar_sk(sk)->regions, reg.addr, reg.len,
			     !(reg.flags & RAR_REG_READ));
	return err == -ENOBUFS ? rar_sock_lacks(sk, RAR_LACK_REGIONS) :
				 rar_sock_err(sk, err);
}

static int set_unreg(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	struct rar_reg reg;
	int err = get_region(&reg, optval, optlen);

	return err ?: rar_region_del(&rar_sk(sk)->regions, reg.addr, reg.len);
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
	if (memchr_inv(join->key, 0, sizeof(join->key))) {
		memcpy(opts->key.bytes, join->key, sizeof(join->key));
		opts->key.len = sizeof(join->key);
	}
}

static int set_join(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	struct rar_join_opts opts;
	struct rar_join join = {};
	int err;

	err = copy_grown(&join, sizeof(join), offsetof(struct rar_join, prev), optval, optlen) ?:
	      check_join(&join);
	if (err)
		return rar_sock_err(sk, err);
	lock_sock(sk);
	join_opts(rar_sk(sk), &join, &opts);
	err = join_both(sk, &join, &opts);
	release_sock(sk);
	memzero_explicit(&join, sizeof(join));
	memzero_explicit(&opts, sizeof(opts));
	return rar_sock_err(sk, err);
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

/* May the @n-th address follow those before it? */
static int check_next_of(const struct sockaddr_rar *list, u32 n)
{
	const struct sockaddr_rar *a = &list[n];
	u32 i;

	if (n && (!a->srar_af || a->srar_af != list[0].srar_af))
		return -EINVAL;
	for (i = 0; i < n; i++)
		if (list[i].srar_port == a->srar_port &&
		    !memcmp(list[i].srar_addr, a->srar_addr,
			    sizeof(a->srar_addr)))
			return -EEXIST;
	return 0;
}

/*
 * Read up to @max addresses without ranks, of one family, each once. Return: 0
 * or a negative errno.
 */
static int get_list(struct rar_addr_list *list, u32 max, sockptr_t optval,
		    unsigned int optlen)
{
	struct sockaddr_rar *a = list->at;
	u32 i;
	int err;

	list->n = optlen / sizeof(*a);
	if (optlen % sizeof(*a))
		return -EINVAL;
	if (list->n > max)
		return -E2BIG;
	for (i = 0; i < list->n; i++, a++) {
		if (copy_from_sockptr_offset(a, optval, i * sizeof(*a),
					     sizeof(*a)))
			return -EFAULT;
		a->srar_rank = 0;
		a->srar_size = 1;
		err = rar_sock_check_addr(a, sizeof(*a)) ?:
		      check_next_of(list->at, i);
		if (err)
			return err;
	}
	return 0;
}

/* Set a list of the next join. */
static int set_list(struct sock *sk, struct rar_addr_list *to,
		    const struct rar_addr_list *list)
{
	int err = 0;

	lock_sock(sk);
	if (may_set_join(sk))
		*to = *list;
	else
		err = -EISCONN;
	release_sock(sk);
	return err;
}

static int set_boxes(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	struct rar_addr_list boxes = {};

	return get_list(&boxes, RAR_MAX_BOXES, optval, optlen) ?:
	       set_list(sk, &rar_sk(sk)->join.boxes, &boxes);
}

static int set_rails(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	const struct sockaddr_rar *a;
	struct rar_addr_list rails = {};
	int err = get_list(&rails, RAR_MAX_RAILS, optval, optlen);

	for (a = rails.at; !err && a < rails.at + rails.n; a++)
		if (!a->srar_af ||
		    !rar_rail_may_be(a->srar_af, (const void *)a->srar_addr))
			err = -EINVAL;
	return err ?: set_list(sk, &rar_sk(sk)->join.rails, &rails);
}

/* Set a key of the next join. */
static int set_secret(struct sock *sk, struct rar_secret *secret,
		      sockptr_t optval, unsigned int optlen)
{
	struct rar_secret key = {};
	int err = 0;

	static_assert(sizeof(key.bytes) == RAR_KEY_LONG);
	if (optlen && optlen != RAR_KEY_LEN && optlen != RAR_KEY_LONG)
		return -EINVAL;
	if (copy_from_sockptr(key.bytes, optval, optlen))
		return -EFAULT;
	if (memchr_inv(key.bytes, 0, sizeof(key.bytes)))
		key.len = optlen;
	lock_sock(sk);
	if (may_set_join(sk))
		*secret = key;
	else
		err = -EISCONN;
	release_sock(sk);
	memzero_explicit(&key, sizeof(key));
	return err;
}

static int set_key(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	return set_secret(sk, &rar_sk(sk)->join.key, optval, optlen);
}

static int set_box_key(struct sock *sk, sockptr_t optval, unsigned int optlen)
{
	return set_secret(sk, &rar_sk(sk)->join.box_key, optval, optlen);
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

static int set_owner(struct sock *sk, u32 val)
{
	s32 nr = val;
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
static int set_cancel(struct sock *sk, u32 val)
{
	struct rar_sock *rsk = rar_sk(sk);
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

/* Set a number of struct rar_sock. */
static int set_number(struct sock *sk, const struct option *o, u32 val)
{
	void *at = (char *)rar_sk(sk) + o->at;
	int err = 0;

	if (val < o->min || (val > o->max && val != o->also))
		return -EINVAL;
	if (o->joining)
		lock_sock(sk);
	if (o->joining && !may_set_join(sk))
		err = -EISCONN;
	else if (o->size == sizeof(u8))
		WRITE_ONCE(*(u8 *)at, val);
	else
		WRITE_ONCE(*(u32 *)at, val);
	if (o->joining)
		release_sock(sk);
	return err;
}

/* -- getting --------------------------------------------------------------- */

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

/* Copy out the rows from RAR_PEERS_FROM on, as many as there is room for. */
static int get_peers(const struct rar_sock *rsk, struct rar_member *m,
		     char __user *optval, int __user *optlen, int len)
{
	u32 from = READ_ONCE(rsk->peers_from);
	u32 n = len / sizeof(struct rar_peer), i;
	struct rar_peer peer;

	if (!m || rar_member_state(m) < RAR_S_RUN)
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

static int get_error(const struct rar_sock *rsk, struct rar_member *m,
		     char __user *optval, int __user *optlen, int len)
{
	struct rar_error err = {};

	if (m)
		rar_info_error(m, &err);
	return put_opt(&err, sizeof(err), optval, optlen, len);
}

static int get_info(const struct rar_sock *rsk, struct rar_member *m,
		    char __user *optval, int __user *optlen, int len)
{
	struct rar_info info = { .slow_rank = RAR_NO_RANK, .slow_user_rank = RAR_NO_RANK };

	if (m)
		rar_info_fill(m, &info);
	info.lack = READ_ONCE(rsk->lack);
	return put_opt(&info, sizeof(info), optval, optlen, len);
}

static int get_owner(const struct rar_sock *rsk, struct rar_member *m,
		     char __user *optval, int __user *optlen, int len)
{
	s32 nr = 0;

	if (m) {
		spin_lock_bh(&m->lock);
		nr = pid_vnr(m->owner);
		spin_unlock_bh(&m->lock);
	}
	return put_opt(&nr, sizeof(nr), optval, optlen, len);
}

static int get_caps(const struct rar_sock *rsk, struct rar_member *m,
		    char __user *optval, int __user *optlen, int len)
{
	struct rar_caps caps;

	if (!m || rar_member_state(m) < RAR_S_RUN)
		return -ENOTCONN;
	caps = m->join.caps;
	/* What concerns only the members' kernels is not told. */
	caps.dtypes[0] &= RAR_OP_FLAGS;
	return put_opt(&caps, sizeof(caps), optval, optlen, len);
}

static int get_prev(struct sock *sk, char __user *optval, int __user *optlen,
		    int len)
{
	struct sockaddr_rar addr;

	lock_sock(sk);
	addr = rar_sk(sk)->join.prev;
	release_sock(sk);
	return put_opt(&addr, sizeof(addr), optval, optlen, len);
}

/* @least: addresses are given; those that are not set are all zero. */
static int get_addrs(struct sock *sk, const struct rar_addr_list *from,
		     u32 least, char __user *optval, int __user *optlen,
		     int len)
{
	struct rar_addr_list list;

	lock_sock(sk);
	list = *from;
	release_sock(sk);
	return put_opt(list.at, max(list.n, least) * sizeof(list.at[0]), optval,
		       optlen, len);
}

static int get_boxes(struct sock *sk, char __user *optval, int __user *optlen,
		     int len)
{
	return get_addrs(sk, &rar_sk(sk)->join.boxes, 1, optval, optlen, len);
}

static int get_rails(struct sock *sk, char __user *optval, int __user *optlen,
		     int len)
{
	return get_addrs(sk, &rar_sk(sk)->join.rails, 0, optval, optlen, len);
}

static int get_number(const struct rar_sock *rsk, const struct option *o,
		      char __user *optval, int __user *optlen, int len)
{
	const void *at = (const char *)rsk + o->at;
	u32 val = o->size == sizeof(u8) ? READ_ONCE(*(const u8 *)at) :
					  READ_ONCE(*(const u32 *)at);

	return put_opt(&val, sizeof(val), optval, optlen, len);
}

/* -- the table ------------------------------------------------------------- */

#define FIELD(field)	.at = offsetof(struct rar_sock, field),		\
			.size = sizeof_field(struct rar_sock, field)

static const struct option options[] = {
	[RAR_JOIN] = { .set = set_join },
	[RAR_DTYPE] = { FIELD(dtype), .min = 1, .max = RAR_DTYPE_NR - 1 },
	[RAR_REDOP] = { FIELD(redop), .min = 1, .max = RAR_REDOP_NR - 1 },
	[RAR_OP_TIMEOUT] = { FIELD(op_timeout_ms), .call = set_op_timeout },
	[RAR_OWNER] = { .call = set_owner, .get_member = get_owner },
	[RAR_ABORT] = { .call = set_abort },
	[RAR_ERROR] = { .get_member = get_error },
	[RAR_INFO] = { .get_member = get_info },
	[RAR_PEERS] = { .get_member = get_peers },
	[RAR_CAPS] = { .get_member = get_caps },
	[RAR_REG] = { .set = set_reg },
	[RAR_UNREG] = { .set = set_unreg },
	[RAR_SCHEDULE] = { FIELD(schedule), .joining = true,
			   .max = RAR_SCHEDULE_NR - 1 },
	[RAR_PREV_ADDR] = { .set = set_prev, .get = get_prev },
	[RAR_KEY] = { .set = set_key },
	[RAR_SECURITY] = { FIELD(join.security), .joining = true,
			   .max = RAR_SECURITY_NR - 1 },
	[RAR_BOX_KEY] = { .set = set_box_key },
	[RAR_CANCEL] = { .call = set_cancel },
	[RAR_NONEMPTY] = { FIELD(nonempty), .max = 1 },
	[RAR_PEERS_FROM] = { FIELD(peers_from), .max = RAR_MAX_SIZE - 1 },
	[RAR_BOX] = { .set = set_boxes, .get = get_boxes },
	[RAR_RAIL] = { .set = set_rails, .get = get_rails },
	[RAR_PRIORITY] = { FIELD(prio), .min = 1, .max = U8_MAX },
	[RAR_USER_RANK] = { FIELD(join.user_rank), .joining = true,
			    .max = RAR_MAX_USER_RANK,
			    .also = RAR_NO_RANK },
	[RAR_BOX_WAIT] = { FIELD(join.box_wait_ms), .joining = true,
			   .max = INT_MAX },
};

/* The row of an option; of one that does not exist, a row that is empty. */
static const struct option *option_of(int optname)
{
	bool known = optname >= 0 && optname < ARRAY_SIZE(options);

	if (!known)
		return &options[0];
	return &options[array_index_nospec(optname, ARRAY_SIZE(options))];
}

int rar_setsockopt(struct socket *sock, int level, int optname,
		   sockptr_t optval, unsigned int optlen)
{
	const struct option *o = option_of(optname);
	u32 val;
	int err;

	if (level != SOL_RAR)
		return -ENOPROTOOPT;
	if (o->set)
		return o->set(sock->sk, optval, optlen);
	err = get_u32_opt(optval, optlen, &val);
	if (err)
		return err;
	if (o->call)
		return o->call(sock->sk, val);
	return o->size ? set_number(sock->sk, o, val) : -ENOPROTOOPT;
}

int rar_getsockopt(struct socket *sock, int level, int optname,
		   char __user *optval, int __user *optlen)
{
	const struct option *o = option_of(optname);
	struct sock *sk = sock->sk;
	struct rar_member *m;
	int len, err;

	if (level != SOL_RAR)
		return -ENOPROTOOPT;
	if (get_user(len, optlen))
		return -EFAULT;
	if (len < (int)sizeof(u32))
		return -EINVAL;
	if (o->size)
		return get_number(rar_sk(sk), o, optval, optlen, len);
	if (o->get)
		return o->get(sk, optval, optlen, len);
	if (!o->get_member)
		return -ENOPROTOOPT;
	m = rar_sock_get(sk);
	err = o->get_member(rar_sk(sk), m, optval, optlen, len);
	if (m)
		rar_member_put(m);
	return err;
}
