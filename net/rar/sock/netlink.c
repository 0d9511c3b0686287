// SPDX-License-Identifier: GPL-2.0
/*
 * Generic netlink: what /proc shows, operations in flight, RAR_CMD_ABORT, and
 * RAR_CMD_BOX_KEY. See include/uapi/linux/rar_netlink.h; event.c sends the
 * events.
 */
#include <linux/rar_netlink.h>
#include <linux/rcupdate_wait.h>
#include <linux/sched.h>
#include <net/genetlink.h>

#include "core/event.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/op.h"
#include "core/role.h"
#include "rar.h"
#include "ring/fail.h"
#include "sock/info.h"
#include "sock/netlink.h"
#include "sock/sysctl.h"

static struct genl_family family;

/*
 * struct want - the members that a request names, and its sender may see
 * @any_group: @id is not given
 * @any_rank:  @rank is not given
 * @any_user:  the sender has CAP_NET_ADMIN here; others see their own members only
 */
struct want {
	bool any_group;
	bool any_rank;
	bool any_user;
	kuid_t uid;
	u64 id;
	u32 rank;
};

/*
 * struct place - how far a dump of members or operations has come, in cb->ctx
 * @done:  all members up to this index in rn->all are dumped
 * @index: the next slot of this member is @slot
 * @slot:  in the table of operations
 */
struct place {
	unsigned long done;
	unsigned long index;
	unsigned long slot;
};

static_assert(sizeof(struct place) <= sizeof_field(struct netlink_callback, ctx));

/* The members that a request asks for. The policy has checked its attributes. */
static struct want want_of(struct nlattr **attrs, int group, int rank,
			   const struct sk_buff *request)
{
	struct user_namespace *ns = sock_net(NETLINK_CB(request).sk)->user_ns;
	struct want w = {
		.any_group = !attrs[group], .any_rank = !attrs[rank],
		.any_user = netlink_ns_capable(request, ns, CAP_NET_ADMIN),
		.uid = NETLINK_CREDS(request)->uid,
	};

	if (!w.any_group)
		w.id = nla_get_u64(attrs[group]);
	if (!w.any_rank)
		w.rank = nla_get_u32(attrs[rank]);
	return w;
}

static bool wanted(const struct want *w, const struct rar_member *m)
{
	return m->rank < m->size &&	/* else a job of the box here */
	       (w->any_user || uid_eq(m->uid, w->uid)) &&
	       (w->any_group || m->id == w->id) && (w->any_rank || m->rank == w->rank);
}

/* -- a member -------------------------------------------------------------- */

static enum rar_holder holder(const struct rar_member *m)
{
	if (READ_ONCE(m->sk))
		return RAR_HOLDER_SOCKET;
	return READ_ONCE(m->tombstone) ? RAR_HOLDER_TOMBSTONE : RAR_HOLDER_ORPHAN;
}

/* The attributes that links to both neighbours have. */
static int put_ends(struct sk_buff *skb, const struct rar_link *link, enum rar_direction direction,
		    const struct rar_addr *local)
{
	struct rar_member *m = link->member;
	u32 user;

	spin_lock_bh(&m->lock);
	user = rar_member_user_rank(m, link->rank);
	spin_unlock_bh(&m->lock);
	if (nla_put_u32(skb, RAR_A_LINK_DIRECTION, direction) ||
	    nla_put_u32(skb, RAR_A_LINK_RANK, link->rank) ||
	    rar_event_put_user_rank(skb, RAR_A_LINK_USER_RANK, link->rank, user) ||
	    rar_event_put_addr(skb, RAR_A_LINK_LOCAL, local) ||
	    rar_event_put_addr(skb, RAR_A_LINK_REMOTE, &link->path.dst) ||
	    (READ_ONCE(link->in_memory) && nla_put_flag(skb, RAR_A_LINK_IN_MEMORY)))
		return -EMSGSIZE;
	return 0;
}

/* The part of a member's message that tells a statistic. */
enum part { NOWHERE, MEMBER, NEXT, PREV };

#define STAT(field, part, attr, value)					\
	{ part, attr, offsetof(struct rar_info, field),			\
	  sizeof_field(struct rar_info, field) },

static const struct {
	u8 part;
	u8 attr;
	u16 at;
	u8 size;
} stats[] = {
	RAR_MEMBER_STATS(STAT)
	RAR_MEMBER_TX_STATS(STAT)
};

/* Put the statistics of one part. */
static int put_stats(struct sk_buff *skb, const struct rar_info *info,
		     enum part part)
{
	int pad = part == MEMBER ? RAR_A_MEMBER_PAD : RAR_A_LINK_PAD, i, err;

	for (i = 0; i < ARRAY_SIZE(stats); i++) {
		const void *value = (const char *)info + stats[i].at;

		if (stats[i].part != part)
			continue;
		if (stats[i].size == sizeof(u64))
			err = nla_put_u64_64bit(skb, stats[i].attr,
						*(const u64 *)value, pad);
		else
			err = nla_put_u32(skb, stats[i].attr,
					  *(const u32 *)value);
		if (err)
			return err;
	}
	return 0;
}

static int put_silent(struct sk_buff *skb, const struct rar_info *info, u32 ms)
{
	if (info->state < RAR_S_RUN)
		return 0;
	return nla_put_u32(skb, RAR_A_LINK_SILENT_MS, ms);
}

static int put_links(struct sk_buff *skb, const struct rar_member *m, const struct rar_info *info)
{
	const struct rar_link *next = m->link[RAR_NEXT],
			      *prev = m->link[RAR_PREV];
	struct nlattr *nest;

	nest = nla_nest_start(skb, RAR_A_MEMBER_LINK);
	if (!nest || put_ends(skb, next, RAR_DIRECTION_NEXT, &next->path.src) ||
	    put_stats(skb, info, NEXT) ||
	    put_silent(skb, info, info->next_silent_ms) ||
	    nla_put_u32(skb, RAR_A_LINK_LANES_OUT,
			READ_ONCE(next->tx.lanes.out)))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	nest = nla_nest_start(skb, RAR_A_MEMBER_LINK);
	if (!nest || put_ends(skb, prev, RAR_DIRECTION_PREV, &next->path.src) ||
	    put_stats(skb, info, PREV) ||
	    put_silent(skb, info, info->prev_silent_ms))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

/* The boxes of the group, if it has any. */
static int put_boxes(struct sk_buff *skb, const struct rar_member *m, const struct rar_info *info)
{
	const struct rar_box_info *box = info->boxes;
	const struct rar_addr *addr;
	struct rar_link *link;
	struct nlattr *nest;

	rar_each_leg(link, m) {
		addr = rar_leg_box(rar_link_leg(link));
		nest = nla_nest_start(skb, RAR_A_MEMBER_BOX);
		if (!nest || rar_event_put_addr(skb, RAR_A_BOX_ADDR, addr) ||
		    nla_put_u32(skb, RAR_A_BOX_STATE, box->state) ||
		    (box->reason &&
		     nla_put_u32(skb, RAR_A_BOX_REASON, box->reason)) ||
		    nla_put_u64_64bit(skb, RAR_A_BOX_SUMS, box->sums, RAR_A_BOX_PAD) ||
		    nla_put_u64_64bit(skb, RAR_A_BOX_RING_SUMS, box->ring_sums, RAR_A_BOX_PAD))
			return -EMSGSIZE;
		nla_nest_end(skb, nest);
		box++;
	}
	return 0;
}

/* What struct rar_info does not have, or has in another form. */
static int put_identity(struct sk_buff *skb, const struct rar_member *m,
			const struct rar_info *info, struct user_namespace *reader)
{
	if (rar_event_put_user_rank(skb, RAR_A_MEMBER_USER_RANK, m->rank,
				    info->user_rank) ||
	    nla_put_u32(skb, RAR_A_MEMBER_HOLDER, holder(m)) ||
	    nla_put_u32(skb, RAR_A_MEMBER_UID,
			from_kuid_munged(reader, m->uid)) ||
	    nla_put_u32(skb, RAR_A_MEMBER_SCHEDULE, READ_ONCE(m->schedule)))
		return -EMSGSIZE;
	return 0;
}

static int put_slow(struct sk_buff *skb, const struct rar_info *info)
{
	if (info->slow_ms &&
	    (nla_put_u32(skb, RAR_A_MEMBER_SLOW_RANK, info->slow_rank) ||
	     rar_event_put_user_rank(skb, RAR_A_MEMBER_SLOW_USER_RANK, info->slow_rank,
				     info->slow_user_rank) ||
	     nla_put_u32(skb, RAR_A_MEMBER_SLOW_MS, info->slow_ms)))
		return -EMSGSIZE;
	return 0;
}

/* Append all attributes of a member. RCU read side. The epoch is a secret, see proc.c. */
static int put_member(struct sk_buff *skb, struct rar_member *m, struct user_namespace *reader)
{
	struct rar_info info = { };
	struct rar_error err;

	rar_info_fill(m, &info);
	rar_info_error(m, &err);
	if (put_stats(skb, &info, MEMBER) ||
	    put_identity(skb, m, &info, reader) || put_slow(skb, &info) ||
	    put_links(skb, m, &info) || put_boxes(skb, m, &info) ||
	    (err.err && rar_event_put_error(skb, RAR_A_MEMBER_ERROR, &err)))
		return -EMSGSIZE;
	return 0;
}

static struct user_namespace *reader_of(const struct sk_buff *request)
{
	return sk_user_ns(NETLINK_CB(request).sk);
}

static int member_get(struct sk_buff *request, struct genl_info *info)
{
	struct rar_net *rn = rar_net(genl_info_net(info));
	struct rar_member *m;
	struct want w;
	struct sk_buff *skb;
	void *hdr;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, RAR_A_MEMBER_GROUP) ||
	    GENL_REQ_ATTR_CHECK(info, RAR_A_MEMBER_RANK))
		return -EINVAL;
	w = want_of(info->attrs, RAR_A_MEMBER_GROUP, RAR_A_MEMBER_RANK, request);
	skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	hdr = genlmsg_put_reply(skb, info, &family, 0, RAR_CMD_MEMBER_GET);
	rcu_read_lock();
	m = rar_member_lookup(rn, w.id, w.rank, 0);
	if (!m || !wanted(&w, m))
		err = -ENOENT;
	else
		err = hdr ? put_member(skb, m, reader_of(request)) : -EMSGSIZE;
	rcu_read_unlock();
	if (err) {
		if (err == -ENOENT)
			GENL_SET_ERR_MSG(info, "no such member in this network namespace");
		nlmsg_free(skb);
		return err;
	}
	genlmsg_end(skb, hdr);
	return genlmsg_reply(skb, info);
}

/* -- dumps ----------------------------------------------------------------- */

/* Begin a message of a dump. The caller ends or cancels it. */
static void *dump_put(struct sk_buff *skb, struct netlink_callback *cb, u8 cmd)
{
	void *hdr = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, &family,
				NLM_F_MULTI, cmd);

	if (hdr)
		genl_dump_check_consistent(cb, hdr);
	return hdr;
}

/* End a message if it holds everything, else take it back. */
static int dump_end(struct sk_buff *skb, void *hdr, int err)
{
	if (err)
		genlmsg_cancel(skb, hdr);
	else
		genlmsg_end(skb, hdr);
	return err;
}

static int dump_member(struct sk_buff *skb, struct netlink_callback *cb, struct rar_member *m)
{
	void *hdr = dump_put(skb, cb, RAR_CMD_MEMBER_GET);

	return hdr ? dump_end(skb, hdr, put_member(skb, m, reader_of(cb->skb))) : -EMSGSIZE;
}

/*
 * Go through the members that a request wants, from where the last part of the dump ended.
 * Nothing is held between two parts: a member that comes or goes sets NLM_F_DUMP_INTR.
 */
static int dump(struct sk_buff *skb, struct netlink_callback *cb, const struct want *w,
		int (*one)(struct sk_buff *skb, struct netlink_callback *cb,
			   struct rar_member *m))
{
	struct place *place = (struct place *)cb->ctx;
	struct rar_net *rn = rar_net(sock_net(skb->sk));
	unsigned long index = place->done;
	struct rar_member *m;
	int err = 0;

	cb->seq = READ_ONCE(rn->generation);
	rcu_read_lock();
	while ((m = rar_member_after(rn, &index))) {
		if (wanted(w, m))
			err = one(skb, cb, m);
		if (err)
			break;
		place->done = index;
		cond_resched_rcu();
	}
	rcu_read_unlock();
	return skb->len ?: err;
}

static int members_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct want w = want_of(rar_genl_dump_attrs(cb), RAR_A_MEMBER_GROUP, RAR_A_MEMBER_RANK,
				cb->skb);

	return dump(skb, cb, &w, dump_member);
}

/* An operation's progress, read under tx_lock. */
struct progress {
	u64 age_us;
	u32 left;
	u32 owed;
	u32 acked;
};

static void look(struct rar_member *m, const struct rar_operation *op, struct progress *p)
{
	const struct rar_out *out = &op->out[RAR_NEXT];

	spin_lock_bh(&m->tx_lock);
	p->age_us = rar_now_us() - op->posted_us;
	p->left = max(atomic_read(&op->left), 0);
	p->owed = out->owed.ntx + out->owed.nback;
	p->acked = out->nacked;
	spin_unlock_bh(&m->tx_lock);
}

static int put_op(struct sk_buff *skb, struct rar_member *m, const struct rar_operation *op)
{
	const struct rar_fingerprint *f = &op->fingerprint;
	struct progress p;

	look(m, op, &p);
	if (nla_put_u64_64bit(skb, RAR_A_OP_GROUP, m->id, RAR_A_OP_PAD) ||
	    nla_put_u32(skb, RAR_A_OP_RANK, m->rank) ||
	    nla_put_u64_64bit(skb, RAR_A_OP_SEQ, op->seq, RAR_A_OP_PAD) ||
	    nla_put_u32(skb, RAR_A_OP_COLLECTIVE, f->collective) ||
	    nla_put_u32(skb, RAR_A_OP_DTYPE, f->dtype) ||
	    nla_put_u32(skb, RAR_A_OP_REDOP, f->redop) ||
	    nla_put_u32(skb, RAR_A_OP_FLAGS, f->mode & RAR_OP_FLAGS) ||
	    nla_put_u32(skb, RAR_A_OP_ROOT, f->root) ||
	    nla_put_u64_64bit(skb, RAR_A_OP_COUNT, f->count, RAR_A_OP_PAD) ||
	    nla_put_u64_64bit(skb, RAR_A_OP_AGE_US, p.age_us, RAR_A_OP_PAD) ||
	    nla_put_u32(skb, RAR_A_OP_LEFT, p.left) ||
	    nla_put_u32(skb, RAR_A_OP_OWED, p.owed) ||
	    nla_put_u32(skb, RAR_A_OP_ACKED, p.acked))
		return -EMSGSIZE;
	return 0;
}

/* Dump the operations in a member's table, from the slot where the last part ended. */
static int dump_ops(struct sk_buff *skb, struct netlink_callback *cb, struct rar_member *m)
{
	struct place *place = (struct place *)cb->ctx;
	struct rar_operation *op;
	void *hdr;

	if (place->index != m->index) {
		place->index = m->index;
		place->slot = 0;
	}
	for (; place->slot < RAR_MAX_OPS; place->slot++) {
		op = rcu_dereference(m->ops[place->slot]);
		if (!op)
			continue;
		hdr = dump_put(skb, cb, RAR_CMD_OP_GET);
		if (!hdr || dump_end(skb, hdr, put_op(skb, m, op)))
			return -EMSGSIZE;
	}
	return 0;
}

static int ops_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct want w = want_of(rar_genl_dump_attrs(cb), RAR_A_OP_GROUP, RAR_A_OP_RANK, cb->skb);

	return dump(skb, cb, &w, dump_ops);
}

static int put_counter(struct sk_buff *skb, struct rar_net *rn, u32 i)
{
	return nla_put_string(skb, RAR_A_COUNTER_NAME, rar_mib_name(i)) ?:
	       nla_put_u64_64bit(skb, RAR_A_COUNTER_VALUE, rar_mib_read(rn, i),
				 RAR_A_COUNTER_PAD);
}

static int put_setting(struct sk_buff *skb, struct rar_net *rn, u32 i)
{
	char word[RAR_SYSCTL_WORD];
	const char *name;
	bool is_word;
	u64 value;
	int err;

	is_word = rar_sysctl_get(rn, i, &name, &value, word);
	err = nla_put_string(skb, RAR_A_SETTING_NAME, name);
	if (err)
		return err;
	if (is_word)
		return nla_put_string(skb, RAR_A_SETTING_TEXT, word);
	return nla_put_u64_64bit(skb, RAR_A_SETTING_VALUE, value, RAR_A_SETTING_PAD);
}

/* Dump the rows [0, n) of a list that never changes. */
static int dump_rows(struct sk_buff *skb, struct netlink_callback *cb, u8 cmd, u32 n,
		     int (*put)(struct sk_buff *skb, struct rar_net *rn, u32 i))
{
	struct place *place = (struct place *)cb->ctx;
	struct rar_net *rn = rar_net(sock_net(skb->sk));
	void *hdr;

	for (; place->done < n; place->done++) {
		hdr = dump_put(skb, cb, cmd);
		if (!hdr || dump_end(skb, hdr, put(skb, rn, place->done)))
			return skb->len ?: -EMSGSIZE;
	}
	return skb->len;
}

static int counters_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump_rows(skb, cb, RAR_CMD_COUNTER_GET, RAR_MIB_NR, put_counter);
}

static int settings_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump_rows(skb, cb, RAR_CMD_SETTING_GET, rar_sysctl_count(), put_setting);
}

/* -- single requests --------------------------------------------------------- */

static int put_namespace(struct sk_buff *skb, struct rar_net *rn)
{
	if (nla_put_u32(skb, RAR_A_NET_FAMILY, rar_family) ||
	    nla_put_u32(skb, RAR_A_NET_WIRE, RAR_WIRE_VERSION) ||
	    nla_put_u32(skb, RAR_A_NET_MEMBERS, READ_ONCE(rn->nmembers)) ||
	    nla_put_u64_64bit(skb, RAR_A_NET_MEM, READ_ONCE(rn->mem), RAR_A_NET_PAD) ||
	    nla_put_u32(skb, RAR_A_NET_RESUME, READ_ONCE(rn->npasts)))
		return -EMSGSIZE;
	return 0;
}

static int net_get(struct sk_buff *request, struct genl_info *info)
{
	struct sk_buff *skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	void *hdr;

	if (!skb)
		return -ENOMEM;
	hdr = genlmsg_put_reply(skb, info, &family, 0, RAR_CMD_NET_GET);
	if (!hdr || put_namespace(skb, rar_net(genl_info_net(info)))) {
		nlmsg_free(skb);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, hdr);
	return genlmsg_reply(skb, info);
}

/* Fail a member that joins or runs. Return: false if it does neither. */
static bool abort_member(struct rar_member *m)
{
	u8 state = rar_member_state(m);

	if (state < RAR_S_JOINING || state == RAR_S_FAILED)
		return false;
	rar_fail_pair(m, ECONNRESET, RAR_R_ABORTED, m->rank, m->rank, 0);
	return true;
}

static int abort_group(struct sk_buff *request, struct genl_info *info)
{
	struct rar_net *rn = rar_net(genl_info_net(info));
	bool found = false, done = false;
	unsigned long index = 0;
	struct rar_member *m;
	struct want w;

	if (GENL_REQ_ATTR_CHECK(info, RAR_A_MEMBER_GROUP))
		return -EINVAL;
	w = want_of(info->attrs, RAR_A_MEMBER_GROUP, RAR_A_MEMBER_RANK, request);
	while ((m = rar_member_get_after(rn, &index))) {
		if (wanted(&w, m)) {
			found = true;
			done |= abort_member(m);
		}
		rar_member_put(m);
		cond_resched();
	}
	if (done)
		return 0;
	if (found) {
		GENL_SET_ERR_MSG(info, "no member of this group joins or runs");
		return -ENOTCONN;
	}
	GENL_SET_ERR_MSG(info, "no such member in this network namespace");
	return -ENOENT;
}

/* Read a key. Without the attribute there is none. */
static int read_key(const struct nlattr *attr, struct rar_secret *key)
{
	u32 len = attr ? nla_len(attr) : 0;

	if (!attr)
		return 0;
	if ((len != RAR_KEY_LEN && len != RAR_KEY_LONG) ||
	    !memchr_inv(nla_data(attr), 0, len))
		return -EINVAL;
	memcpy(key->bytes, nla_data(attr), len);
	key->len = len;
	return 0;
}

/* Neither the request nor the stack keeps the key. */
static int box_key(struct sk_buff *request, struct genl_info *info)
{
	struct nlattr *attr = info->attrs[RAR_A_BOX_KEY_BYTES];
	struct rar_net *rn = rar_net(genl_info_net(info));
	struct rar_secret key = { };
	int err = read_key(attr, &key);

	if (err)
		GENL_SET_ERR_MSG(info,
				 "a key has 16 or 32 bytes, not all zero");
	else
		err = rar_role_set_key(rn, &key);
	if (attr)
		memzero_explicit(nla_data(attr), nla_len(attr));
	memzero_explicit(&key, sizeof(key));
	return err;
}

/* -- the family -------------------------------------------------------------- */

static const struct nla_policy member_policy[] = {
	[RAR_A_MEMBER_GROUP] = { .type = NLA_U64 },
	[RAR_A_MEMBER_RANK] = NLA_POLICY_MAX(NLA_U32, RAR_MAX_SIZE - 1),
};

static const struct nla_policy op_policy[] = {
	[RAR_A_OP_GROUP] = { .type = NLA_U64 },
	[RAR_A_OP_RANK] = NLA_POLICY_MAX(NLA_U32, RAR_MAX_SIZE - 1),
};

static const struct nla_policy box_key_policy[] = {
	[RAR_A_BOX_KEY_BYTES] = { .type = NLA_BINARY },
};

/* A command without a policy refuses all attributes. */
static const struct genl_ops ops[] = {
	{ .cmd = RAR_CMD_NET_GET, .doit = net_get },
	{ .cmd = RAR_CMD_MEMBER_GET, .doit = member_get, .dumpit = members_dump,
	  .policy = member_policy, .maxattr = ARRAY_SIZE(member_policy) - 1 },
	{ .cmd = RAR_CMD_OP_GET, .dumpit = ops_dump,
	  .policy = op_policy, .maxattr = ARRAY_SIZE(op_policy) - 1 },
	{ .cmd = RAR_CMD_COUNTER_GET, .dumpit = counters_dump },
	{ .cmd = RAR_CMD_SETTING_GET, .dumpit = settings_dump },
	{ .cmd = RAR_CMD_ABORT, .doit = abort_group, .flags = GENL_UNS_ADMIN_PERM,
	  .policy = member_policy, .maxattr = ARRAY_SIZE(member_policy) - 1 },
	{ .cmd = RAR_CMD_BOX_KEY, .doit = box_key, .flags = GENL_ADMIN_PERM,
	  .policy = box_key_policy, .maxattr = ARRAY_SIZE(box_key_policy) - 1 },
};

/* Events tell of the members of all users. */
static const struct genl_multicast_group groups[] = {
	/* the first one, see event.c */
	{ .name = RAR_MCGRP_EVENTS, .flags = GENL_MCAST_CAP_NET_ADMIN },
};

static struct genl_family family __ro_after_init = {
	.name = RAR_GENL_NAME,
	.version = RAR_GENL_VERSION,
	.netnsok = true,
	.parallel_ops = true,
	.module = THIS_MODULE,
	.ops = ops,
	.n_ops = ARRAY_SIZE(ops),
	.mcgrps = groups,
	.n_mcgrps = ARRAY_SIZE(groups),
};

int rar_netlink_init(void)
{
	int err = genl_register_family(&family);

	if (!err)
		rar_event_begin(&family);
	/* modprobe would take EEXIST for success. */
	return err == -EEXIST ? -EBUSY : err;
}

/* No request and no dump runs after the return: a dump holds the module. */
void rar_netlink_exit(void)
{
	rar_event_end();
	genl_unregister_family(&family);
}
