// SPDX-License-Identifier: GPL-2.0
/*
 * Packets without chunks: a header and padding, to a neighbour or as an answer.
 */
#include <linux/export.h>
#include <linux/skbuff.h>

#include "rar.h"
#include "tx/control.h"
#include "tx/packet.h"
#include "tx/rules.h"

#define REPLIES	16	/* answers to strangers, per jiffy and namespace */

/* Was the other rank heard between the addresses of a lane? */
static bool heard_by(struct rar_link *link, u32 lane)
{
	u32 n = rar_link_rails(link);

	return n == 1 || !(lane % n) ||
	       READ_ONCE(link->rails->more[lane % n - 1].heard);
}

/*
 * The lane of a packet without chunks. What is sent again until an answer comes
 * goes by another lane each time, in case one of them has no way to the
 * neighbour. Acknowledgments go by another lane when something comes again that
 * was acknowledged. Boxes take all these packets from the first port only.
 */
static u32 lane_of(struct rar_link *link, u8 type)
{
	const struct rar_member *m = link->member;
	u32 lane = 0;

	if (m->nlanes == 1 || READ_ONCE(m->state) < RAR_S_RUN ||
	    link->rank >= m->size || m->rank >= m->size ||
	    rar_rules_ipsec(m->rn->net, XFRM_POLICY_OUT))
		return 0;
	switch (type) {
	case RAR_T_ACK:
	case RAR_T_PEER_ACK:
		lane = READ_ONCE(link->rx.lane);
		break;
	case RAR_T_PROBE:
	case RAR_T_WANT:
	case RAR_T_DONE:
	case RAR_T_ABORT:
	case RAR_T_LATE:
	case RAR_T_FIN:
	case RAR_T_FIN_ACK:
		/* Two CPUs may take the same lane. */
		WRITE_ONCE(link->ctl, READ_ONCE(link->ctl) + 1);
		lane = READ_ONCE(link->ctl);
	}
	lane %= m->nlanes;
	return heard_by(link, lane) ? lane : 0;
}

/**
 * rar_control_send() - send a packet that is a header and padding
 * @link:  link to the neighbour
 * @hdr:   the type's header; its common part is filled here
 * @len:   bytes of @hdr and of the data after it
 * @pad:   zero bytes to append
 * @type:  enum rar_pkt_type
 * @token: see rar_wire.h
 */
void rar_control_send(struct rar_link *link, void *hdr, size_t len, size_t pad,
		      u8 type, u64 token)
{
	struct rar_member *m = link->member;
	u32 tail = READ_ONCE(m->tail), lane = lane_of(link, type);
	struct sk_buff *skb = rar_packet_alloc(m->rn, &link->path,
					       len + pad + tail);

	if (!skb) {
		rar_mib_inc(m->rn, TxError);
		return;
	}
	rar_packet_fill_hdr(m, hdr, type, link->rank,
			    len + pad - sizeof(struct rar_hdr), token);
	skb_put_data(skb, hdr, len);
	skb_put_zero(skb, pad + tail);
	if (type == RAR_T_ACK || type == RAR_T_PEER_ACK)
		rar_mib_inc(m->rn, TxAck);
	else
		rar_mib_inc(m->rn, TxCtl);
	rar_packet_xmit(m, rar_link_path(link, lane), skb, lane);
}
EXPORT_SYMBOL_GPL(rar_control_send);

/**
 * rar_control_notice() - send ABORT, LATE, FIN or FIN_ACK
 * @link:  link to the neighbour
 * @type:  enum rar_pkt_type
 * @token: epoch, or the neighbour's nonce before the epoch is committed
 * @err:   content
 */
void rar_control_notice(struct rar_link *link, u8 type, u64 token,
			const struct rar_error *err)
{
	struct rar_notice_hdr n = {
		.err = cpu_to_be32(err->err),
		.reason = cpu_to_be32(err->reason),
		.rank = cpu_to_be32(err->rank),
		.other = cpu_to_be32(err->other),
		.op_seq = cpu_to_be64(err->op_seq),
		.silent_ms = cpu_to_be32(err->silent_ms),
		.value = cpu_to_be64(err->value),
		.other_value = cpu_to_be64(err->other_value),
	};

	rar_control_send(link, &n, sizeof(n), 0, type, token);
}

/**
 * rar_control_budget() - may another packet be sent because of a stranger?
 * @rn: netns
 *
 * Any context.
 *
 * Return: true if it may; the packet is counted.
 */
bool rar_control_budget(struct rar_net *rn)
{
	if (time_after(jiffies, READ_ONCE(rn->reply_jiffy))) {
		WRITE_ONCE(rn->reply_jiffy, jiffies);
		atomic_set(&rn->replies, 0);
	}
	return atomic_inc_return(&rn->replies) <= REPLIES;
}

/*
 * May the sender get an answer? One that echoes a token of ours has heard us.
 */
static bool reply_allowed(const struct rar_member *m,
			  const struct rar_pkt *pkt)
{
	u64 token = be64_to_cpu(pkt->h.token);

	if (pkt->echoes || (token && token == READ_ONCE(m->epoch)))
		return true;
	return rar_control_budget(m->rn);
}

/*
 * Send a header by a route that is not kept. Bottom halves are off, RCU read
 * side.
 */
static void send_once(struct rar_member *m, struct rar_path *path,
		      const void *hdr, size_t len)
{
	u32 tail = READ_ONCE(m->tail);
	struct sk_buff *skb = rar_packet_alloc(m->rn, path, len + tail);

	if (!skb)
		return;
	skb_put_data(skb, hdr, len);
	skb_put_zero(skb, tail);
	rar_mib_inc(m->rn, TxCtl);
	rar_packet_xmit_once(m, path, skb);
}

/**
 * rar_control_reply() - answer a packet whose sender is no neighbour (yet)
 * @m:   member
 * @pkt:   the packet; the answer goes to its source
 * @hdr:   header; its common part is filled here
 * @len:   its length; nothing is sent if the packet was shorter
 * @type:  enum rar_pkt_type
 * @token: the sender's nonce, or the epoch that is unknown here
 *
 * Softirq.
 */
void rar_control_reply(struct rar_member *m, const struct rar_pkt *pkt,
		       void *hdr, size_t len, u8 type, u64 token)
{
	struct rar_path path = { .src = pkt->to, .dst = pkt->from,
				 .oif = m->link[RAR_NEXT]->path.oif };

	if (len > pkt->len || !reply_allowed(m, pkt))
		return;
	rar_packet_fill_hdr(m, hdr, type, be16_to_cpu(pkt->h.src),
			    len - sizeof(struct rar_hdr), token);
	/* A box answers for any group. */
	((struct rar_hdr *)hdr)->group = pkt->h.group;
	send_once(m, &path, hdr, len);
}
EXPORT_SYMBOL_GPL(rar_control_reply);

/**
 * rar_control_once() - send a packet to a rank that is no neighbour
 * @m:     member
 * @path:  to the rank; its route is looked up for this packet
 * @hdr:   header; its common part is filled here
 * @len:   its length
 * @type:  enum rar_pkt_type
 * @rank:  of the receiver
 * @token: the receiver's nonce
 *
 * Softirq.
 */
void rar_control_once(struct rar_member *m, struct rar_path *path, void *hdr,
		      size_t len, u8 type, u32 rank, u64 token)
{
	rar_packet_fill_hdr(m, hdr, type, rank, len - sizeof(struct rar_hdr),
			    token);
	send_once(m, path, hdr, len);
}

/**
 * rar_control_reset() - tell the sender that its epoch is not known here
 * @m: member that has the place of the epoch's member
 * @pkt: the packet
 */
void rar_control_reset(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_hdr h;

	rar_control_reply(m, pkt, &h, sizeof(h), RAR_T_RESET,
			  be64_to_cpu(pkt->h.token));
}
EXPORT_SYMBOL_GPL(rar_control_reset);
