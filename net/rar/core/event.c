// SPDX-License-Identifier: GPL-2.0
/*
 * Events: tells listeners on generic netlink what happened to a member.
 */
#include <net/genetlink.h>

#include "core/event.h"
#include "rar.h"

/* A message with all its attributes; genl_set_err() tells if it should not fit. */
#define EVENT_BYTES	512

/* The family that events belong to, NULL while it is not registered. */
static const struct genl_family __rcu *event_family;

/**
 * rar_event_put_addr() - append a nested address
 * @skb:  message
 * @type: of the attribute
 * @a:    address; without a family nothing is appended
 *
 * Return: 0, or -EMSGSIZE.
 */
int rar_event_put_addr(struct sk_buff *skb, int type, const struct rar_addr *a)
{
	struct nlattr *nest;

	if (!a->af)
		return 0;
	nest = nla_nest_start(skb, type);
	if (!nest ||
	    (a->af == AF_INET ?
	     nla_put(skb, RAR_A_ADDR_IP4, sizeof(__be32), &a->ip) :
	     nla_put(skb, RAR_A_ADDR_IP6, sizeof(a->ip), &a->ip)) ||
	    nla_put_be16(skb, RAR_A_ADDR_PORT, a->port) ||
	    (a->scope && nla_put_u32(skb, RAR_A_ADDR_IFINDEX, a->scope)))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

/**
 * rar_event_put_user_rank() - append what the user calls a rank
 * @skb:  message
 * @type: of the attribute
 * @rank: the rank
 * @user: its RAR_USER_RANK; if it is the same, or not known, nothing is appended
 *
 * Return: 0, or -EMSGSIZE.
 */
int rar_event_put_user_rank(struct sk_buff *skb, int type, u32 rank, u32 user)
{
	return user == rank || user == RAR_NO_RANK ? 0 : nla_put_u32(skb, type, user);
}

static int put_error_addr(struct sk_buff *skb, const struct sockaddr_rar *sa)
{
	struct rar_addr a = { .af = sa->srar_af, .port = sa->srar_port,
			      .scope = sa->srar_scope_id };

	memcpy(&a.ip, sa->srar_addr, sizeof(a.ip));
	return rar_event_put_addr(skb, RAR_A_ERROR_ADDR, &a);
}

/**
 * rar_event_put_error() - append a nested error
 * @skb:  message
 * @type: of the attribute
 * @err:  the error
 *
 * Return: 0, or -EMSGSIZE.
 */
int rar_event_put_error(struct sk_buff *skb, int type, const struct rar_error *err)
{
	struct nlattr *nest = nla_nest_start(skb, type);

	if (!nest ||
	    nla_put_u32(skb, RAR_A_ERROR_ERRNO, err->err) ||
	    nla_put_u32(skb, RAR_A_ERROR_REASON, err->reason) ||
	    (err->rank != RAR_NO_RANK &&
	     nla_put_u32(skb, RAR_A_ERROR_RANK, err->rank)) ||
	    rar_event_put_user_rank(skb, RAR_A_ERROR_USER_RANK, err->rank, err->user_rank) ||
	    (err->other != err->rank && err->other != RAR_NO_RANK &&
	     nla_put_u32(skb, RAR_A_ERROR_OTHER, err->other)) ||
	    nla_put_u64_64bit(skb, RAR_A_ERROR_OP, err->op_seq, RAR_A_ERROR_PAD) ||
	    nla_put_u32(skb, RAR_A_ERROR_SILENT_MS, err->silent_ms) ||
	    (err->value != err->other_value &&
	     (nla_put_u64_64bit(skb, RAR_A_ERROR_VALUE, err->value,
				RAR_A_ERROR_PAD) ||
	      nla_put_u64_64bit(skb, RAR_A_ERROR_OTHER_VALUE,
				err->other_value, RAR_A_ERROR_PAD))) ||
	    put_error_addr(skb, &err->addr))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

static int fill(struct sk_buff *skb, const struct genl_family *family,
		const struct rar_member *m, enum rar_event kind,
		const struct rar_error *err)
{
	void *hdr = genlmsg_put(skb, 0, 0, family, 0, RAR_CMD_EVENT);

	if (!hdr ||
	    nla_put_u32(skb, RAR_A_EVENT_KIND, kind) ||
	    nla_put_u64_64bit(skb, RAR_A_EVENT_GROUP, m->id, RAR_A_EVENT_PAD) ||
	    nla_put_u32(skb, RAR_A_EVENT_RANK, m->rank) ||
	    rar_event_put_user_rank(skb, RAR_A_EVENT_USER_RANK, m->rank, m->user_rank) ||
	    nla_put_u32(skb, RAR_A_EVENT_SIZE, m->size) ||
	    (err && rar_event_put_error(skb, RAR_A_EVENT_ERROR, err)))
		return -EMSGSIZE;
	genlmsg_end(skb, hdr);
	return 0;
}

/* Send a message, or let the listeners get ENOBUFS. */
static void multicast(const struct genl_family *family, const struct rar_member *m,
		      enum rar_event kind, const struct rar_error *err)
{
	struct sk_buff *skb = genlmsg_new(EVENT_BYTES, GFP_ATOMIC);

	if (skb && !fill(skb, family, m, kind, err)) {
		genlmsg_multicast_netns(family, m->rn->net, skb, 0, 0, GFP_ATOMIC);
		return;
	}
	nlmsg_free(skb);
	genl_set_err(family, m->rn->net, 0, 0, -ENOBUFS);
}

/**
 * rar_event_send() - tell the listeners of the member's namespace
 * @m:    member, RCU read side or a reference held
 * @kind: what happened
 * @err:  the member's error, or NULL
 *
 * Any context, no lock held, as listeners are woken. Does nothing if nobody listens. A listener
 * that misses an event gets ENOBUFS.
 */
void rar_event_send(struct rar_member *m, enum rar_event kind, const struct rar_error *err)
{
	const struct genl_family *family;

	rcu_read_lock();
	family = rcu_dereference(event_family);
	if (family && genl_has_listeners(family, m->rn->net, 0))
		multicast(family, m, kind, err);
	rcu_read_unlock();
}

/* Send events from now on. @family is registered, and its first multicast group is for them. */
void rar_event_begin(const struct genl_family *family)
{
	rcu_assign_pointer(event_family, family);
}

/* Send no more events. After the return none is being sent, and the family may go. */
void rar_event_end(void)
{
	RCU_INIT_POINTER(event_family, NULL);
	synchronize_rcu();
}
