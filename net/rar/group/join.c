// SPDX-License-Identifier: GPL-2.0
/*
 * Joining: from two addresses to a closed ring with one epoch.
 *
 *	i -> i+1   JOIN(nonce i)            until answered, any start order
 *	i <- i+1   JOIN_ACK(cookie)
 *	i -> i+1   JOIN echoing the cookie  now i+1 knows i's address is real
 *
 * A cookie goes to anyone who asks, and says no more than that the asker receives at its address.
 * It is good for a JOIN only. If this JOIN is accepted the cookie becomes the predecessor's token,
 * with which it sends the table and ABORT. The nonce of a rank goes to its successor in JOIN, and
 * round the ring in the table. It is never told to a host that asks.
 *
 * A member believes its successor, whose address the user gave. It believes a predecessor
 * whose address the user gave, too (RAR_PREV_ADDR), or that proves to have the key (RAR_KEY).
 * Any other sender that claims the predecessor's rank is a stranger: it may have the place
 * as long as it lives, but nothing it says ends a member's join.
 *
 * JOIN is padded to the packet size it proposes, so that an answer proves that
 * the path carries this size. If only JOINs without padding are answered,
 * smaller sizes are tried in turn; see size.c. When rank 0 has both neighbours
 * the table goes round; see table.c.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "core/addr.h"
#include "core/event.h"
#include "core/hosts.h"
#include "core/key.h"
#include "core/member.h"
#include "core/resume.h"
#include "core/seal.h"
#include "group/join.h"
#include "group/notice.h"
#include "group/offer.h"
#include "group/pair.h"
#include "group/peers.h"
#include "group/size.h"
#include "group/table.h"
#include "group/trust.h"
#include "link/ack.h"
#include "link/link.h"
#include "link/rail.h"
#include "rar.h"
#include "ring/fail.h"
#include "tx/control.h"
#include "tx/device.h"
#include "tx/port.h"
#include "tx/route.h"
#include "tx/sender.h"

#define JOIN_SMALL_EVERY	4	/* every 4th JOIN is not padded */
#define JOIN_FRESH		4	/* JOINs without an answer before a nonce is stale */
#define JOIN_ROUTE_MS		200	/* between two looks for a route */

#define JOIN_SCHEDULES		(RAR_JF_HOSTS | RAR_JF_AUTO | \
				 RAR_JF_DIRECT | RAR_JF_DOUBLING)

/* -- JOIN, JOIN_ACK, REJECT ---------------------------------------------- */

/* The flag of the schedule that this member asks for. */
static u16 schedule_flag(const struct rar_member *m)
{
	switch (m->schedule) {
	case RAR_BY_HOSTS:
		return RAR_JF_HOSTS;
	case RAR_AUTO:
		return RAR_JF_AUTO;
	case RAR_DIRECT:
		return RAR_JF_DIRECT;
	case RAR_DOUBLING:
		return RAR_JF_DOUBLING;
	}
	return 0;
}

/* The flag of the security that it asks for. */
static u16 security_flag(const struct rar_member *m)
{
	return m->security == RAR_SECURITY_ENCRYPT ? RAR_JF_ENCRYPT : 0;
}

static void send_join(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;
	struct rar_join_hdr jh = {
		.nonce = cpu_to_be64(j->nonce),
		.size = cpu_to_be32(m->size),
		.payload = cpu_to_be32(j->payload),
		.port = m->link[RAR_NEXT]->path.src.port,
	};
	/* Once the padded ones seem to get lost, half of them are small. */
	u32 every = j->small_acks ? 2 : JOIN_SMALL_EVERY;
	bool small = !j->ok[RAR_NEXT] && j->tries % every == every - 1;
	/* A successor that does not answer may have been replaced, with a new nonce. */
	u64 token = j->unanswered++ < JOIN_FRESH ? j->peer_nonce[RAR_NEXT] : 0;
	size_t pad = j->payload + sizeof(struct rar_data_hdr) - sizeof(jh);

	j->full_tries += !small && j->small_news && !j->ok[RAR_NEXT];
	if (token)
		jh.proof = cpu_to_be64(rar_trust_to_next(m, token));
	jh.flags = cpu_to_be16((small ? RAR_JF_SMALL : 0) | security_flag(m) |
			       schedule_flag(m));
	rar_control_send(m->link[RAR_NEXT], &jh, sizeof(jh), small ? 0 : pad,
			 RAR_T_JOIN, token);
}

static void reject(struct rar_member *m, const struct rar_pkt *pkt,
		   const struct rar_join_hdr *jh, const struct rar_error *err)
{
	struct rar_reject_hdr r = {
		.err = cpu_to_be32(err->err),
		.reason = cpu_to_be32(err->reason),
		.rank = cpu_to_be32(err->rank),
		.other = cpu_to_be32(err->other),
		.op_seq = cpu_to_be64(err->op_seq),
	};

	r.proof = cpu_to_be64(rar_trust_refuses(m, pkt, jh, &r));
	rar_control_reply(m, pkt, &r, sizeof(r), RAR_T_REJECT,
			  be64_to_cpu(jh->nonce));
}

/* Does this error let no rank join any more? */
static bool ends_all_joins(const struct rar_error *err)
{
	return err->err == EBADMSG || err->err == EACCES || err->reason == RAR_R_MTU;
}

/* This join failed for a reason that ends all joins: tell a sender that comes late. */
static void reject_like_others(struct rar_member *m,
			       const struct rar_pkt *pkt,
			       const struct rar_join_hdr *jh)
{
	struct rar_error err;

	spin_lock_bh(&m->lock);
	err = m->error;
	spin_unlock_bh(&m->lock);
	if (ends_all_joins(&err))
		reject(m, pkt, jh, &err);
}

/* Does the JOIN come from where the predecessor is? */
static bool prev_at(const struct rar_member *m, const struct rar_pkt *pkt,
		    const struct rar_join_hdr *jh)
{
	const struct rar_addr *prev = &m->link[RAR_PREV]->path.dst;

	return ipv6_addr_equal(&prev->ip, &pkt->from.ip) &&
	       prev->port == jh->port;
}

/* Is it a JOIN of the predecessor that was accepted? */
static bool prev_known(const struct rar_member *m, const struct rar_pkt *pkt,
		       const struct rar_join_hdr *jh)
{
	return m->join.ok[RAR_PREV] &&
	       m->join.peer_nonce[RAR_PREV] == be64_to_cpu(jh->nonce) && prev_at(m, pkt, jh);
}

/* The token for the sender of a JOIN, which it got before if the JOIN echoes. */
static u64 token_for(const struct rar_member *m, const struct rar_pkt *pkt,
		     const struct rar_join_hdr *jh)
{
	return prev_known(m, pkt, jh) ? READ_ONCE(m->join.pass) :
					rar_key_cookie(m, &pkt->from, be64_to_cpu(jh->nonce));
}

static void join_answer(struct rar_member *m, const struct rar_pkt *pkt,
			const struct rar_join_hdr *jh)
{
	u64 echo = token_for(m, pkt, jh);
	struct rar_join_hdr ack = {
		.nonce = cpu_to_be64(echo),
		.size = cpu_to_be32(m->size),
		.payload = jh->payload,
		.port = m->link[RAR_NEXT]->path.src.port,
		.flags = jh->flags,
		.proof = cpu_to_be64(rar_trust_to_prev(m, pkt, jh, echo)),
	};

	rar_control_reply(m, pkt, &ack, sizeof(ack), RAR_T_JOIN_ACK,
			  be64_to_cpu(jh->nonce));
}

/* Take the predecessor, whose address is real: it echoed our cookie in a full packet. */
static void accept_prev(struct rar_member *m, const struct rar_pkt *pkt,
			const struct rar_join_hdr *jh)
{
	struct rar_path *path = &m->link[RAR_PREV]->path;
	bool fresh;

	spin_lock_bh(&m->lock);
	fresh = !prev_known(m, pkt, jh);
	if (fresh) {
		path->src = pkt->to;
		path->src.port = m->link[RAR_NEXT]->path.src.port;
		path->dst = pkt->from;
		path->dst.port = jh->port;
		rar_route_forget(path);
		path->oif = m->link[RAR_NEXT]->path.oif;
		m->join.peer_nonce[RAR_PREV] = be64_to_cpu(jh->nonce);
		WRITE_ONCE(m->join.pass, be64_to_cpu(pkt->h.token));
		m->join.ok[RAR_PREV] = true;
		m->join.step_next = jiffies;
		rar_table_new_prev(m);
	}
	spin_unlock_bh(&m->lock);
	rar_member_hear(m->link[RAR_PREV]);
	if (fresh || READ_ONCE(m->link[RAR_PREV]->dev) != pkt->way.dev) {
		WRITE_ONCE(m->link[RAR_PREV]->dev, pkt->way.dev);
		rar_member_schedule(m);
	}
	if (fresh)
		rar_member_kick(m, jiffies);
}

/* Was the predecessor heard lately? */
static bool prev_alive(const struct rar_member *m)
{
	unsigned long quiet = msecs_to_jiffies(3 * rar_member_keepalive_ms(m));

	return m->join.ok[RAR_PREV] &&
	       time_before(jiffies,
			   READ_ONCE(m->link[RAR_PREV]->heard) + quiet);
}

/*
 * Does another process at another address claim the rank of a predecessor that is still
 * alive? At the address and port of the predecessor it can only be its replacement. While the
 * group runs a stranger must not end it when the predecessor is silent for a moment.
 */
static bool prev_held(struct rar_member *m, const struct rar_pkt *pkt,
		      const struct rar_join_hdr *jh)
{
	bool runs = READ_ONCE(m->state) >= RAR_S_RUN && !rar_key_is_set(&m->trust.key);

	return (runs || prev_alive(m)) && !prev_at(m, pkt, jh);
}

/* Refuse the sender of a JOIN, with the reason that lies between it and this rank. */
static void refuse(struct rar_member *m, const struct rar_pkt *pkt,
		   const struct rar_join_hdr *jh, int err,
		   enum rar_reason why)
{
	struct rar_error e = {
		.err = err,
		.reason = why,
		.rank = be16_to_cpu(pkt->h.src),
		.other = m->rank,
		/* The process that holds the place is the predecessor, and no stranger. */
		.op_seq = rar_trust_names_prev(m) ||
			  (READ_ONCE(m->state) >= RAR_S_RUN && prev_alive(m)),
	};

	rar_mib_inc(m->rn, JoinsRefused);
	reject(m, pkt, jh, &e);
}

/* In what do the predecessor and we disagree? If no neighbours disagree, no ranks do. */
static enum rar_reason join_differs(const struct rar_member *m,
				    const struct rar_join_hdr *jh)
{
	u16 flags = be16_to_cpu(jh->flags) & JOIN_SCHEDULES;

	if (be32_to_cpu(jh->size) != m->size)
		return RAR_R_SIZE;
	if (jh->flags & cpu_to_be16(RAR_JF_BIG))
		return RAR_R_BYTE_ORDER;
	if ((be16_to_cpu(jh->flags) & RAR_JF_ENCRYPT) != security_flag(m))
		return RAR_R_SECURITY;
	return flags != schedule_flag(m) ? RAR_R_SCHEDULE : RAR_R_NONE;
}

/*
 * Refuse a JOIN that echoes our cookie if its sender is not the predecessor, or disagrees with
 * us. Only a predecessor that is no stranger then ends our join as well.
 */
static bool refused(struct rar_member *m, const struct rar_pkt *pkt,
		    const struct rar_join_hdr *jh)
{
	enum rar_reason why = rar_trust_stranger(m, pkt, jh);
	bool stranger = why || !rar_trust_names_prev(m);
	int err = why ? EACCES : EBADMSG;

	why = why ?: join_differs(m, jh);
	if (!why)
		return false;
	refuse(m, pkt, jh, err, why);
	/* Kept for the error in case the join times out. */
	WRITE_ONCE(m->join.odd, why);
	if (!stranger)
		rar_fail_pair(m, err, why, m->link[RAR_PREV]->rank, m->rank, 0);
	return true;
}

/* Take a JOIN of the predecessor, or of the process that replaces it. */
static void rcv_join_prev(struct rar_member *m, const struct rar_pkt *pkt,
			  const struct rar_join_hdr *jh)
{
	bool joining = READ_ONCE(m->state) < RAR_S_RUN;
	bool known = prev_known(m, pkt, jh), echoed = pkt->echoes;
	u32 prev = m->link[RAR_PREV]->rank;

	if (prev_held(m, pkt, jh)) {
		refuse(m, pkt, jh, EADDRINUSE, RAR_R_DUPLICATE);
		return;
	}
	if (!joining && echoed && rar_trust_stranger(m, pkt, jh)) {
		refuse(m, pkt, jh, EACCES, rar_trust_stranger(m, pkt, jh));
		return;
	}
	if (!joining && echoed && !known) {
		/* The predecessor of this epoch exists no more. */
		rar_notice_reset(m, prev);
		return;
	}
	/* If it starts again because of another rank, what is left of its old member
	 * knows the reason, and sends it before the echo comes.
	 */
	if (!joining && !known && prev_at(m, pkt, jh) &&
	    rar_control_budget(m->rn))
		rar_ack_send(m->link[RAR_PREV]);
	if (joining && echoed && refused(m, pkt, jh))
		return;
	if (joining && echoed && !(jh->flags & cpu_to_be16(RAR_JF_SMALL)))
		accept_prev(m, pkt, jh);
	join_answer(m, pkt, jh);
}

static bool get_join_hdr(const struct rar_pkt *pkt, struct rar_join_hdr *jh)
{
	return !skb_copy_bits(pkt->skb, pkt->off, jh, sizeof(*jh));
}

static void rcv_join(struct rar_member *m, struct rar_pkt *pkt)
{
	struct rar_join_hdr jh;

	if (!get_join_hdr(pkt, &jh))
		return;
	/* A cookie that is not right, or not any more, is none: the sender gets another one. */
	pkt->echoes = pkt->h.token == cpu_to_be64(token_for(m, pkt, &jh));
		/* The kernel's socket holds the port, so no user can forge this. */
	if (jh.port != pkt->from.port)
		rar_mib_inc(m->rn, DropAddress);
	else if (READ_ONCE(m->state) > RAR_S_RUN)
		/* The name may belong to another member by now. */
		rar_mib_inc(m->rn, DropState);
	else if (READ_ONCE(m->state) == RAR_S_BOUND)
		reject_like_others(m, pkt, &jh);
	else if (be16_to_cpu(pkt->h.src) == m->link[RAR_PREV]->rank)
		rcv_join_prev(m, pkt, &jh);
	else if (be32_to_cpu(jh.size) != m->size)
		/* A running member may be about to start again, in another size. */
		refuse(m, pkt, &jh, READ_ONCE(m->state) == RAR_S_RUN ?
		       EADDRINUSE : EBADMSG, RAR_R_SIZE);
	else
		rar_mib_inc(m->rn, DropRank);
}

/*
 * An answer in the successor's name has a bad proof. It may be forged, so the join goes on. The
 * error says so in case the join times out without a good answer.
 */
static void note_no_key(struct rar_member *m)
{
	rar_mib_inc(m->rn, DropEpoch);
	WRITE_ONCE(m->join.no_key, true);
}

static void rcv_join_ack(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_join_state *j = &m->join;
	struct rar_join_hdr jh;
	u64 nonce;

	if (!get_join_hdr(pkt, &jh))
		return;
	if (be64_to_cpu(jh.proof) != rar_trust_of_next(m, pkt, &jh)) {
		note_no_key(m);
		return;
	}
	nonce = be64_to_cpu(jh.nonce);
	rar_member_hear(m->link[RAR_NEXT]);
	spin_lock_bh(&m->lock);
	if (jh.flags & cpu_to_be16(RAR_JF_SMALL)) {
		j->small_acks++;
		j->small_news++;
	} else if (!j->ok[RAR_NEXT] || j->peer_nonce[RAR_NEXT] != nonce) {
		j->ok[RAR_NEXT] = true;
		j->peer_nonce[RAR_NEXT] = nonce;
		j->tries = 0;
		j->next_try = jiffies;
		j->step_next = jiffies;
	}
	j->unanswered = 0;
	j->refused_since = 0;
	spin_unlock_bh(&m->lock);
	rar_member_kick(m, jiffies);
}

static void get_refusal(const struct rar_member *m, const struct rar_reject_hdr *r,
			struct rar_error *err)
{
	const struct rar_notice_hdr n = {
		.err = r->err, .reason = r->reason, .rank = r->rank, .other = r->other,
		.op_seq = r->op_seq,
	};

	rar_notice_error(m, &n, err);
}

/*
 * The successor refuses us. The process that holds our rank may be stale, and the rank may
 * become free. So a refusal ends the join only when it has lasted, and not before the join
 * times out if a stranger may hold the rank.
 */
static void rcv_reject(struct rar_member *m, const struct rar_pkt *pkt)
{
	unsigned long patience = msecs_to_jiffies(4 * rar_member_keepalive_ms(m));
	struct rar_reject_hdr r;
	struct rar_error err;
	bool final = true;

	if (skb_copy_bits(pkt->skb, pkt->off, &r, sizeof(r)))
		return;
	if (be64_to_cpu(r.proof) != rar_trust_of_refusal(m, pkt, &r)) {
		note_no_key(m);
		return;
	}
	get_refusal(m, &r, &err);
	spin_lock_bh(&m->lock);
	if (err.err == EADDRINUSE) {
		if (!m->join.refused_since)
			m->join.refused_since = jiffies | 1;
		final = err.op_seq && time_after(jiffies, m->join.refused_since +
							  patience);
	}
	err.op_seq = 0;
	spin_unlock_bh(&m->lock);
	if (final)
		rar_fail(m, &err);
}

/*
 * A neighbour gave up joining. No rank can join if it disagrees with another rank, or if a
 * link does not pass full-size packets. If a rank had no route until the end, its
 * predecessors need not wait. Otherwise the neighbour, or its replacement, may come back.
 */
static void rcv_join_abort(struct rar_member *m, const struct rar_pkt *pkt)
{
	u32 src = be16_to_cpu(pkt->h.src);
	struct rar_notice_hdr n;
	struct rar_error err;
	struct rar_link *link;

	if (skb_copy_bits(pkt->skb, pkt->off, &n, sizeof(n)))
		return;
	rar_notice_error(m, &n, &err);
	if (rar_trust_believes(m, src) &&
	    (ends_all_joins(&err) || err.reason == RAR_R_ABORTED ||
	     err.reason == RAR_R_NODEV)) {
		rar_fail(m, &err);
		return;
	}
	spin_lock_bh(&m->lock);
	rar_each_link(link, m)
		if (src == link->rank) {
			m->join.ok[link->index] = false;
			m->join.peer_nonce[link->index] = 0;
			if (link->index == RAR_PREV)
				WRITE_ONCE(m->join.pass, 0);
		}
	spin_unlock_bh(&m->lock);
}

static bool is_join_of_prev(const struct rar_member *m,
			    const struct rar_pkt *pkt)
{
	return pkt->h.type == RAR_T_JOIN &&
	       be16_to_cpu(pkt->h.src) == m->link[RAR_PREV]->rank;
}

/*
 * A packet of another version is dropped. If it is a JOIN the error says so in
 * case the join times out.
 */
void rar_join_rcv_odd(struct rar_member *m, const struct rar_pkt *pkt)
{
	if (is_join_of_prev(m, pkt))
		WRITE_ONCE(m->join.odd, RAR_R_VERSION);
}

/*
 * The same, if the seal is missing or not right. Anybody may have sent it, so
 * it only gives a reason to a join that times out: that ends no other join.
 */
void rar_join_rcv_unheard(struct rar_member *m, const struct rar_pkt *pkt,
			  enum rar_reason why)
{
	if (is_join_of_prev(m, pkt))
		WRITE_ONCE(m->join.unheard, why);
}

/**
 * rar_join_rcv() - take in a packet whose token is a nonce or a cookie
 * @m: member
 * @pkt: validated
 *
 * Softirq.
 */
void rar_join_rcv(struct rar_member *m, struct rar_pkt *pkt)
{
	switch (pkt->h.type) {
	case RAR_T_JOIN:
		rcv_join(m, pkt);
		break;
	case RAR_T_JOIN_ACK:
		rcv_join_ack(m, pkt);
		break;
	case RAR_T_REJECT:
		rcv_reject(m, pkt);
		break;
	case RAR_T_COLLECT:
	case RAR_T_PROPOSE:
	case RAR_T_COMMIT:
		rar_table_rcv(m, pkt);
		break;
	case RAR_T_PAIR:
		rar_pair_rcv(m, pkt);
		break;
	case RAR_T_PAIR_ACK:
		rar_pair_rcv_ack(m, pkt);
		break;
	case RAR_T_OFFER:
		rar_offer_rcv(m, pkt);
		break;
	case RAR_T_ABORT:
		rcv_join_abort(m, pkt);
		break;
	}
}

/* -- timer --------------------------------------------------------------- */

/*
 * The first rank that this one must reach and does not, though its address is
 * known; or NULL.
 */
static const struct rar_direct_peer *unreached(const struct rar_member *m)
{
	const struct rar_direct_peer *peer;

	if (m->schedule != RAR_DIRECT || !rar_peers_wanted(m))
		return NULL;
	peer = rar_pair_missing(m);
	return peer && peer->tries ? peer : NULL;
}

static void join_timed_out(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;
	u32 next = m->link[RAR_NEXT]->rank;
	u32 prev = m->link[RAR_PREV]->rank;
	const struct rar_direct_peer *far = unreached(m);

	if (j->route_err)
		rar_fail_pair(m, -j->route_err, RAR_R_NODEV, m->rank, next, 0);
	else if (j->no_key && !j->ok[RAR_NEXT])
		rar_fail_pair(m, EACCES, RAR_R_KEY, m->rank, next, 0);
	else if (j->small_acks && !j->ok[RAR_NEXT])
		rar_fail_pair(m, EMSGSIZE, RAR_R_MTU, m->rank, next,
			      0);
	else if (j->odd && !j->ok[RAR_PREV])
		rar_fail_pair(m, j->odd == RAR_R_KEY || j->odd == RAR_R_PREV ? EACCES : EBADMSG,
			      j->odd, prev, m->rank, 0);
	else if (READ_ONCE(j->unheard) && !j->ok[RAR_PREV])
		rar_fail_pair(m, ETIMEDOUT, j->unheard, prev, m->rank, 0);
	else if (j->refused_since)
		rar_fail_pair(m, EADDRINUSE, RAR_R_DUPLICATE,
			      m->rank, next, 0);
	else if (far && far->reached_small)
		rar_fail_pair(m, EMSGSIZE, RAR_R_MTU, m->rank, far->link.rank,
			      0);
	else if (far)
		rar_fail_pair(m, ETIMEDOUT, RAR_R_JOIN_TIMEOUT, far->link.rank,
			      m->rank, 0);
	else
		rar_fail_pair(m, ETIMEDOUT, RAR_R_JOIN_TIMEOUT,
			      j->ok[RAR_NEXT] ? prev : next, m->rank,
			      0);
}

/**
 * rar_join_tick() - send what is due while joining; the member's timer
 * @m: member in JOINING or READY
 *
 * Softirq.
 *
 * Return: jiffies of the next call.
 */
unsigned long rar_join_tick(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;
	unsigned long next;

	if (time_after_eq(jiffies, j->deadline) ||
	    !rar_size_goes_on(m)) {
		join_timed_out(m);
		return jiffies + HZ;
	}
	if (READ_ONCE(j->route_err)) {
		rar_member_schedule(m);
		return min(j->deadline, jiffies + msecs_to_jiffies(JOIN_ROUTE_MS));
	}
	if (time_after_eq(jiffies, j->next_try)) {
		rar_size_announced(m);
		send_join(m);
		j->next_try = jiffies + rar_table_retry_in(j->tries++);
	}
	next = j->next_try;
	if (!m->rank) {
		if (!rar_table_tick(m))
			join_timed_out(m);
		if (j->step && time_before(j->step_next, next))
			next = j->step_next;
	}
	return time_before(j->deadline, next) ? j->deadline : next;
}

/* -- begin and end ------------------------------------------------------- */

static void hook_route(struct rar_member *m, int dev)
{
	int lo = m->rn->net->loopback_dev->ifindex;

	rar_device_set(m->rn, &m->hook_lo, lo);
	rar_device_set(m->rn, &m->link[RAR_NEXT]->hook, dev == lo ? 0 : dev);
}

/* Get a port for packets to @af; until then softirqs go on with the old port. */
static int join_port(struct rar_member *m, u16 af)
{
	struct rar_port *old = m->port, *port;
	int err = rar_sender_open(m, af);

	if (err)
		return err;
	rar_sender_set(m, m->sk);
	if (old && rar_port_af(old) == af)
		return 0;
	port = rar_port_get(m->rn, af, m->self.port);
	if (IS_ERR(port))
		return PTR_ERR(port);
	WRITE_ONCE(m->port, port);
	rar_port_put(m->rn, old);
	return 0;
}

/* Get further ports to send chunks from: fewer where another socket has the next port. */
static void join_lanes(struct rar_member *m, u16 af)
{
	u32 want = max_t(u32, READ_ONCE(m->rn->sysctl_lanes), m->nrails + 1);
	u32 first = ntohs(m->self.port), n;
	u32 last = min_t(u32, first + want - 1, U16_MAX);
	struct rar_port *port;

	rar_port_put_lanes(m);
	for (n = 1; first + n <= last; n++) {
		port = rar_port_get(m->rn, af, htons(first + n));
		if (IS_ERR(port))
			break;
		m->lane[n - 1] = port;
	}
	m->nlanes = n;
}

/* May a link, a route or an address that is missing come back? */
static bool route_may_come(int err)
{
	return err == -ENETUNREACH || err == -EHOSTUNREACH || err == -ENETDOWN ||
	       err == -ENODEV || err == -EADDRNOTAVAIL;
}

/* Look up the route to the successor, and set what depends on it. */
static int join_route(struct rar_member *m)
{
	struct rar_path *path = &m->link[RAR_NEXT]->path;
	u32 payload;
	int dev, err;

	path->src = m->self;
	path->src.af = path->dst.af;
	err = rar_route_find(m, path, &m->join.mtu, &dev);
	if (err)
		return err;
	payload = rar_size_payload(m, path, m->join.mtu);
	if (!payload)
		return -EMSGSIZE;
	m->join.payload = payload;
	hook_route(m, dev);
	return 0;
}

/* Get port, memory and route: all that can fail before we send, except a late route. */
static int join_prepare(struct rar_member *m, const struct rar_addr *next)
{
	struct rar_path *path = &m->link[RAR_NEXT]->path;
	int err;

	/* Work of the join before this one. */
	flush_work(&m->work);
	path->dst = *next;
	path->src = m->self;
	path->src.af = next->af;
	err = join_port(m, next->af);
	if (err)
		return err;
	if (!m->join.table)
		m->join.table = kvcalloc(m->size,
					 sizeof(*m->join.table),
					 GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!m->join.table)
		return -ENOMEM;
	err = rar_peers_prepare(m) ?: rar_seal_prepare(m) ?:
	      rar_rail_prepare(m);
	if (err)
		return err;
	join_lanes(m, next->af);
	return rar_link_prepare(m->link[RAR_NEXT]) ?: join_route(m);
}

/**
 * rar_join_route_again() - look again for a route that was missing
 * @m: member
 *
 * In the member's work item.
 */
void rar_join_route_again(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;
	int err;

	if (rar_member_state(m) != RAR_S_JOINING || !READ_ONCE(j->route_err))
		return;
	err = join_route(m);
	WRITE_ONCE(j->route_err, err);
	if (err && !route_may_come(err))
		rar_fail_pair(m, -err, err == -EMSGSIZE ? RAR_R_MTU : RAR_R_NODEV,
			      m->rank, m->link[RAR_NEXT]->rank, 0);
	else if (!err)
		rar_member_kick(m, jiffies);
}

/**
 * rar_join_start() - begin to look for the neighbours
 * @m:        member in BOUND
 * @next:       address of the successor
 * @timeout_ms: time in which the ring must be closed
 *
 * Process context, one caller at a time.
 *
 * Return: 0 and the member is JOINING (or in RUN, if alone), or a negative errno.
 */
int rar_join_start(struct rar_member *m, const struct rar_addr *next,
		   u32 timeout_ms)
{
	struct rar_join_state *j = &m->join;
	struct rar_resume past;
	int err;

	err = join_prepare(m, next);
	if (err && (m->size == 1 || !route_may_come(err)))
		return err;
	rar_resume_find(m, &past);

	spin_lock_bh(&m->lock);
	memset(&m->error, 0, sizeof(m->error));
	memset(j->ok, 0, sizeof(j->ok));
	memset(j->peer_nonce, 0, sizeof(j->peer_nonce));
	WRITE_ONCE(j->pass, 0);
	m->link[RAR_PREV]->path.dst = (struct rar_addr){ };
	WRITE_ONCE(j->nonce, rar_random_token());
	rar_hosts_remove(m);
	rar_hosts_add(m, j->nonce);
	get_random_bytes(&j->key, sizeof(j->key));
	rar_table_reset(m, &past);
	rar_pair_reset(m);
	j->small_acks = 0;
	j->small_news = 0;
	j->full_tries = 0;
	j->route_err = err;
	j->odd = RAR_R_NONE;
	j->unheard = RAR_R_NONE;
	j->no_key = false;
	j->refused_since = 0;
	j->tries = 0;
	j->unanswered = 0;
	WRITE_ONCE(m->epoch, 0);
	j->next_try = jiffies;
	j->deadline = jiffies + msecs_to_jiffies(timeout_ms);
	rar_member_set_state(m, RAR_S_JOINING);
	if (m->size == 1)
		rar_table_alone(m);
	spin_unlock_bh(&m->lock);
	if (m->size == 1)
		rar_event_send(m, RAR_EVENT_JOINED, NULL);
	rar_member_kick(m, jiffies);
	return 0;
}
