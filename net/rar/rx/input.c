// SPDX-License-Identifier: GPL-2.0
/*
 * Input: every packet of every path. Finds the member that a packet is for, and
 * calls the function of its type. What follows for data is in chunk.c.
 */
#include <linux/bpf.h>
#include <linux/udp.h>

#include "core/drop.h"
#include "core/event.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/op.h"
#include "core/role.h"
#include "core/trace.h"
#include "group/join.h"
#include "group/notice.h"
#include "link/ack.h"
#include "link/loss.h"
#include "link/rail.h"
#include "rar.h"
#include "ring/chunk.h"
#include "ring/direct.h"
#include "ring/done.h"
#include "ring/fail.h"
#include "ring/keyed.h"
#include "ring/leg.h"
#include "ring/peer.h"
#include "ring/push.h"
#include "rx/datagram.h"
#include "rx/input.h"
#include "rx/validate.h"
#include "tx/carrier.h"
#include "tx/rules.h"

/* Is the member in the packet's epoch? A tombstone tells the sender why it is not. */
static enum rar_rx check_running(struct rar_member *m, const struct rar_pkt *pkt)
{
	bool joined;

	switch (rar_member_state(m)) {
	case RAR_S_READY:
		/* A neighbour was in RUN, so rank 0 has committed the epoch. */
		spin_lock_bh(&m->lock);
		joined = m->state == RAR_S_READY && be64_to_cpu(pkt->h.token) == m->epoch &&
			 pkt->h.type != RAR_T_ABORT && pkt->h.type != RAR_T_RESET;
		if (joined)
			rar_member_run(m);
		spin_unlock_bh(&m->lock);
		rar_member_wake(m);
		if (joined)
			rar_event_send(m, RAR_EVENT_JOINED, NULL);
		break;
	case RAR_S_FAILED:
		if (pkt->h.type == RAR_T_ABORT || !pkt->link ||
		    pkt->len < sizeof(struct rar_notice_hdr) ||
		    time_before(jiffies, m->told + HZ / 50))
			return RAR_DROP(State);
		m->told = jiffies;
		rar_fail_tell(pkt->link);
		return RAR_DROP(State);
	}
	/* Another CPU may have taken the member from READY to READY in a later epoch. */
	return rar_member_runs(m) && be64_to_cpu(pkt->h.token) == READ_ONCE(m->epoch) ?
	       RAR_RX_DONE : RAR_DROP(State);
}

/*
 * Has this packet of a join come too late? In a running group only the epoch counts. A JOIN may
 * tell that the predecessor started again, which it has to prove; and PROPOSE and COMMIT go on to
 * members that have not heard them.
 */
static bool join_is_over(const struct rar_member *m, u8 type)
{
	return rar_member_state(m) >= RAR_S_RUN && type != RAR_T_JOIN && type != RAR_T_PROPOSE &&
	       type != RAR_T_COMMIT;
}

/*
 * The sender is alive. With two members both links lead to it, but chunks and
 * probes, as acknowledgments, tell only that the link works by which they come.
 */
static void hear(struct rar_member *m, const struct rar_pkt *pkt)
{
	u32 src = be16_to_cpu(pkt->h.src);
	struct rar_link *link;

	switch (pkt->h.type) {
	case RAR_T_RS:
	case RAR_T_AG:
	case RAR_T_ACK:
	case RAR_T_PROBE:
		rar_member_hear(pkt->link);
		return;
	}
	rar_each_link(link, m)
		if (src == link->rank)
			rar_member_hear(link);
}

static enum rar_rx rcv_ack(struct rar_member *m, struct rar_pkt *pkt)
{
	/*
	 * Somebody altered numbers on the way, and the neighbour takes no
	 * others now. That is no sign of life: the group ends.
	 */
	if (!rar_loss_rcv_ack(pkt->link, pkt))
		return RAR_DROP(Seq);
	if (pkt->h.type == RAR_T_PEER_ACK)
		rar_peer_alive(pkt->link, false);
	else
		hear(m, pkt);
	if (m->place.boxes)
		rar_done_passed(m);
	rar_push(m);
	return RAR_RX_DONE;
}

static enum rar_rx dispatch(struct rar_member *m, struct rar_pkt *pkt, u32 n)
{
	enum rar_rx ret;

	if (pkt->aside)
		return rar_member_runs(m) ? pkt->aside->rcv(m, pkt, n) : RAR_DROP(State);
	if (be64_to_cpu(pkt->h.token) != m->epoch || !m->epoch ||
	    rar_validate_by_type(pkt)) {
		if (join_is_over(m, pkt->h.type))
			return RAR_DROP(State);
		rar_join_rcv(m, pkt);
		return RAR_RX_DONE;
	}
	ret = check_running(m, pkt);
	if (ret != RAR_RX_DONE && pkt->h.type != RAR_T_ABORT)
		return ret;
	if (pkt->h.type != RAR_T_ACK && pkt->h.type != RAR_T_PEER_ACK)
		hear(m, pkt);
	switch (pkt->h.type) {
	case RAR_T_RS:
	case RAR_T_AG:
		return rar_chunk_rcv(m, pkt, n);
	case RAR_T_DIRECT:
		return rar_keyed_is(pkt) ? rar_keyed_rcv(m, pkt) :
					   rar_chunk_rcv_direct(m, pkt, n);
	case RAR_T_DONE:
		rar_direct_rcv_done(m, pkt);
		rar_keyed_rcv_done(m, pkt);
		break;
	case RAR_T_ACK:
	case RAR_T_PEER_ACK:
		return rcv_ack(m, pkt);
	case RAR_T_PROBE:
		rar_ack_rcv_probe(pkt->link, pkt);
		rar_chunk_rcv_probe(m, pkt);
		break;
	case RAR_T_WANT:
		rar_leg_rcv_want(m, pkt);
		break;
	case RAR_T_RAIL:
		rar_rail_rcv(m, pkt);
		break;
	default:
		rar_notice_rcv(m, pkt);
	}
	return RAR_RX_DONE;
}

/*
 * Count the chunks that are taken at once, from the first chunk of a superpacket's @part on.
 * Sets the length of @part, and whether it is all of @pkt.
 */
static u32 part_run(struct rar_member *m, struct rar_pkt *part,
		    const struct rar_pkt *pkt)
{
	const u32 tail = m->tail;
	u32 size = part->len + tail, end = pkt->off + pkt->len, n = 1;
	struct rar_data_hdr dh;
	struct rar_run run;

	skb_copy_bits(part->skb, part->off, &dh, sizeof(dh));
	if (size == rar_stride(m)) {
		part->len = end - part->off - tail;
		n = rar_chunk_run(m, part, &dh);
		part->len = min(part->len, n * size - tail);
	}
	part->whole = pkt->whole && part->len + tail == pkt->len;
	if (part->whole)
		return n;
	run = (struct rar_run){ .chunk = be32_to_cpu(dh.chunk), .n = n };
	if (rar_op_early(m, be64_to_cpu(dh.op_seq), &run)) {
		/* Chunks that are too early are held one by one. */
		part->len = min(part->len, size - tail);
		n = 1;
	}
	return n;
}

/* The member that a part is for; it need not be the member of the part before. */
static struct rar_member *part_member(struct rar_net *rn, struct rar_member *m,
				      const struct rar_hdr *before,
				      const struct rar_pkt *part)
{
	if (part->h.group == before->group && part->h.dst == before->dst &&
	    part->h.token == before->token)
		return m;
	m = rar_member_lookup(rn, be64_to_cpu(part->h.group),
			      be16_to_cpu(part->h.dst),
			      be64_to_cpu(part->h.token));
	return m && rar_validate_address(m, part) ? m : NULL;
}

/* Is a packet a chunk of a tensor? */
static bool is_chunk(const struct rar_pkt *pkt)
{
	return pkt->h.type == RAR_T_RS || pkt->h.type == RAR_T_AG ||
	       (pkt->h.type == RAR_T_DIRECT && !rar_keyed_is(pkt));
}

/*
 * Take a superpacket. Each part of it is a packet of its own: GRO merges packets of the same
 * length, addresses and ports, of any type and for any member. Chunks that belong together
 * are taken at once. If the first part comes by the wrong device, nothing is
 * taken.
 */
static enum rar_rx input_super(struct rar_member *m, struct rar_pkt *pkt)
{
	u32 size = skb_shinfo(pkt->skb)->gso_size, end = pkt->off + pkt->len;
	u32 n = 0;
	struct rar_net *rn = m->rn;
	struct rar_pkt part = *pkt;
	struct rar_hdr before;
	u32 udp = pkt->off - sizeof(struct udphdr);
	struct rar_member *last;
	enum rar_rx ret;

	for (; part.off < end && part.skb; part.off += n * size) {
		part.opened -= min(part.opened, n);
		n = 1;
		part.len = min(end - part.off, size);
		part.whole = false;
		part.ack_now = false;
		before = part.h;
		ret = RAR_DROP(Short);
		if (part.len >= sizeof(part.h)) {
			skb_copy_bits(part.skb, part.off, &part.h, sizeof(part.h));
			last = m;
			m = part_member(rn, m, &before, &part);
			ret = RAR_DROP(Group);
			if (m && m != last &&
			    !rar_rules_receive(m, part.skb, part.to.af, udp)) {
				m = NULL;
				ret = RAR_DROP(Filter);
			}
			if (m)
				ret = rar_validate(m, &part);
			if (ret == RAR_DROP(Device) && part.off == pkt->off)
				return ret;
		}
		if (ret == RAR_RX_DONE) {
			if (is_chunk(&part))
				n = part_run(m, &part, pkt);
			ret = dispatch(m, &part, n);
		}
		if (ret == RAR_RX_TAKEN)
			return ret;
		if (ret != RAR_RX_DONE)
			this_cpu_inc(rn->mib->v[rar_rx_why(ret)]);
	}
	pkt->skb = part.skb;	/* it may be a clone now, or none */
	return RAR_RX_DONE;
}

/* Take a packet of a member that the box does not know, or not any more. */
static bool for_box(struct rar_net *rn, struct rar_pkt *pkt,
		    const struct rar_datagram *d)
{
	return pkt->h.dst == cpu_to_be16(RAR_BOX_RANK) &&
	       rar_datagram_check(pkt, d) == RAR_RX_DONE &&
	       rar_role_stranger(rn, pkt);
}

/* Free a packet that this rank keeps no longer, and count it if it was dropped. */
static void let_go(struct rar_net *rn, struct rar_pkt *pkt, enum rar_rx ret)
{
	if (ret == RAR_RX_DONE)
		consume_skb(pkt->skb);
	else if (ret != RAR_RX_TAKEN && pkt->skb)
		rar_drop(rn, pkt->skb, rar_rx_why(ret));
	else if (ret != RAR_RX_TAKEN)
		this_cpu_inc(rn->mib->v[rar_rx_why(ret)]);
}

/* Take in a packet for a member, by its addresses. */
static enum rar_rx input(struct rar_member *m, struct rar_pkt *pkt,
			 const struct rar_datagram *d, enum rar_entry entry)
{
	bool super = skb_is_gso(pkt->skb) && !pkt->carrier;
	enum rar_rx ret;
	u32 len;

	ret = rar_datagram_check(pkt, d);
	if (ret != RAR_RX_DONE)
		return ret;
	if (!rar_rules_receive(m, pkt->skb, pkt->to.af, d->udp))
		return RAR_DROP(Filter);
	if (!super)
		ret = rar_validate(m, pkt);
	if (ret != RAR_RX_DONE)
		return ret;
	len = pkt->off + pkt->len + (super ? 0 : m->tail);
	pkt->whole = entry != RAR_AT_SOCKET && pkt->skb->len == len;
	if (entry == RAR_AT_INGRESS)
		rar_mib_inc(m->rn, RxIngress);
	else
		rar_mib_inc(m->rn, RxEncap);
	return super ? input_super(m, pkt) : dispatch(m, pkt, 1);
}

/*
 * Take in a packet whose headers were found. Returns RAR_RX_PASS if it is not
 * for a member here (at a hook).
 */
static enum rar_rx receive(struct rar_net *rn, struct rar_pkt *pkt,
			   const struct rar_datagram *d, enum rar_entry entry)
{
	bool hook = entry != RAR_AT_SOCKET;
	struct rar_member *m;
	enum rar_rx ret;

	m = rar_member_lookup(rn, be64_to_cpu(pkt->h.group),
			      be16_to_cpu(pkt->h.dst),
			      be64_to_cpu(pkt->h.token));
	if (!m && hook)
		return RAR_RX_PASS;
	if (!m)
		return for_box(rn, pkt, d) ? RAR_RX_DONE : RAR_DROP(Group);
	if (pkt->from.scope && (pkt->skb->dev->flags & IFF_LOOPBACK))
		pkt->from.scope = rar_member_scope(m);
	if (!rar_validate_address(m, pkt))
		return hook ? RAR_RX_PASS : RAR_DROP(Address);
	ret = input(m, pkt, d, entry);
	/* A device above may bring it again. */
	return hook && ret == RAR_DROP(Device) ? RAR_RX_PASS : ret;
}

/**
 * rar_rcv() - take in a packet from any path
 * @rn:    netns
 * @skb:   at a hook: at the network header; at the socket: at the UDP header
 * @entry: where it came
 *
 * Bottom halves off, RCU read side.
 *
 * Return: RAR_TAKEN and @skb is consumed; RAR_PASS and it is untouched, since
 * it is not for a member here.
 */
enum rar_verdict rar_rcv(struct rar_net *rn, struct sk_buff *skb,
			 enum rar_entry entry)
{
	struct rar_pkt pkt = { .skb = skb, .local = entry != RAR_AT_INGRESS,
			       .carrier = rar_carrier_is(skb) };
	struct rar_datagram d = {};
	enum rar_rx ret;

	ret = rar_datagram_find(rn, &pkt, entry, &d);
	if (ret == RAR_RX_DONE)
		ret = receive(rn, &pkt, &d, entry);
	if (ret == RAR_RX_PASS)
		return RAR_PASS;
	let_go(rn, &pkt, ret);
	return RAR_TAKEN;
}

/*
 * Does a frame bring chunks to which this rank has not contributed? They will
 * be held, so the frame needs an skb.
 */
static bool is_early(const struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_run run = { .n = 1 };
	struct rar_data_hdr buf, *dh;

	dh = rar_datagram_header(pkt, pkt->off, sizeof(buf), &buf);
	if (!dh)
		return true;
	run.chunk = be32_to_cpu(dh->chunk);
	return rar_op_early(m, be64_to_cpu(dh->op_seq), &run);
}

/*
 * May frames of a group be taken? Those of an encrypted group are not shown to
 * packet sockets, which would see them decrypted.
 */
static bool takes_frames(const struct rar_member *m)
{
	return !rar_rules_judged(m) &&
	       (m->security != RAR_SECURITY_ENCRYPT ||
		!READ_ONCE(m->rn->sysctl_xdp_mirror));
}

/*
 * The member that a frame brings data for, if they are not too early. What
 * rar_validate() checks may be wrong.
 */
static struct rar_member *frame_member(struct rar_net *rn, struct rar_pkt *pkt,
				       const struct rar_datagram *d)
{
	struct rar_member *m;

	m = rar_member_lookup(rn, be64_to_cpu(pkt->h.group),
			      be16_to_cpu(pkt->h.dst), be64_to_cpu(pkt->h.token));
	if (!m || !rar_validate_address(m, pkt))
		return NULL;
	if (!takes_frames(m) || !rar_validate_is_data(m, pkt) ||
	    rar_datagram_check(pkt, d) != RAR_RX_DONE) {
		rar_mib_inc(rn, XdpPassed);
		return NULL;
	}
	if (is_early(m, pkt)) {
		rar_mib_inc(rn, XdpEarly);
		return NULL;
	}
	return m;
}

/**
 * rar_rcv_frame() - take in a packet that has no skb yet
 * @rn:       netns
 * @frame:    the packet
 * @dev:      the device that would bring it as an skb
 * @nhoff:    offset of its IP header
 * @protocol: of its link header: ETH_P_IP or ETH_P_IPV6
 *
 * Only data that are good in every respect are taken here, and data that come
 * again with a right seal. The ingress hook sees all other frames, judges them
 * as it does other packets, and counts them. Softirq, RCU read side.
 *
 * Return: XDP_PASS and the frame is untouched, or XDP_DROP, and @frame says whether it is
 * forwarded.
 */
int rar_rcv_frame(struct rar_net *rn, struct rar_frame *frame,
		  const struct net_device *dev, u32 nhoff, __be16 protocol)
{
	struct rar_pkt pkt = { .frame = frame };
	struct rar_datagram d = {};
	struct rar_member *m;
	enum rar_rx ret;

	if (!rar_datagram_find_frame(rn, &pkt, dev, nhoff, protocol, &d))
		return XDP_PASS;
	m = frame_member(rn, &pkt, &d);
	if (!m)
		return XDP_PASS;
	ret = rar_validate(m, &pkt);
	if (ret == RAR_RX_DONE) {
		pkt.whole = rar_datagram_len(&pkt) ==
			    pkt.off + pkt.len + m->tail;
		hear(m, &pkt);
		ret = rar_chunk_rcv(m, &pkt, 1);
	} else if (ret != RAR_DROP(Replay)) {
		rar_mib_inc(rn, XdpPassed);
		return XDP_PASS;
	}
	/* What came again with a right seal is decrypted, so it ends here. */
	rar_mib_inc(rn, RxXdp);
	if (ret != RAR_RX_DONE && ret != RAR_RX_TAKEN) {
		this_cpu_inc(rn->mib->v[rar_rx_why(ret)]);
		trace_rar_drop(NULL, rar_rx_why(ret));
	}
	return XDP_DROP;
}
