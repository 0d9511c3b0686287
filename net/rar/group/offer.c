// SPDX-License-Identifier: GPL-2.0
/*
 * Boxes that offer themselves (net.rar.box_offer there), at a member that joins. A box on the way
 * to the successor answers the member's JOIN with an OFFER. Rank 0 proposes the first box that it
 * hears of. The other ranks tell it what they have heard, before they pass COLLECT on.
 *
 * An OFFER has the nonce of its receiver as its token. Only ranks, and hosts that JOIN and COLLECT
 * pass, know it. Whoever carries the packets of one rank so becomes the box of all, therefore
 * members take offers only where the administrator said so (net.rar.box=offered).
 */
#include "core/member.h"
#include "group/offer.h"
#include "tx/control.h"

/* Write down where a box is, as packets have it. */
void rar_offer_to_wire(const struct rar_addr *box, struct rar_wire_box *w)
{
	*w = (struct rar_wire_box) {
		.af = cpu_to_be16(box->af == AF_INET6 ? 6 : 4),
		.port = box->port,
	};
	memcpy(w->addr, &box->ip, sizeof(w->addr));
}
EXPORT_SYMBOL_GPL(rar_offer_to_wire);

/* Read where a box is. */
void rar_offer_from_wire(const struct rar_wire_box *w, struct rar_addr *box)
{
	*box = (struct rar_addr) {
		.af = be16_to_cpu(w->af) == 6 ? AF_INET6 : AF_INET,
		.port = w->port,
	};
	memcpy(&box->ip, w->addr, box->af == AF_INET6 ? sizeof(box->ip) : sizeof(__be32));
}

/**
 * rar_offer_rcv() - take in an OFFER
 * @m:   member
 * @pkt: validated
 *
 * Softirq. The first box that is offered counts, unless the user or the administrator said which
 * box to use, or that there is none.
 */
void rar_offer_rcv(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_offer_hdr oh;

	if (skb_copy_bits(pkt->skb, pkt->off, &oh, sizeof(oh)) || !oh.box.port)
		return;
	spin_lock_bh(&m->lock);
	if (m->state == RAR_S_JOINING && m->join.offers && !m->join.wants.n) {
		rar_offer_from_wire(&oh.box, &m->join.wants.addr[0]);
		m->join.wants.n = 1;
	}
	spin_unlock_bh(&m->lock);
}

/**
 * rar_offer_pass() - tell rank 0 which box has offered itself here
 * @m:     member of another rank; no lock held
 * @first: row of rank 0
 *
 * Softirq.
 */
void rar_offer_pass(struct rar_member *m, const struct rar_row *first)
{
	struct rar_offer_hdr oh = { };
	struct rar_path path = { };
	bool heard;

	spin_lock_bh(&m->lock);
	heard = m->state == RAR_S_JOINING && m->join.offers && m->join.wants.n;
	if (heard) {
		rar_offer_to_wire(&m->join.wants.addr[0], &oh.box);
		path.src = m->link[RAR_NEXT]->path.src;
		path.oif = m->link[RAR_NEXT]->path.oif;
	}
	spin_unlock_bh(&m->lock);
	if (!heard || first->addr.af != path.src.af)
		return;
	path.dst = first->addr;
	if (ipv6_addr_type(&path.dst.ip) & IPV6_ADDR_LINKLOCAL)
		path.dst.scope = rar_member_scope(m);
	rar_control_once(m, &path, &oh, sizeof(oh), RAR_T_OFFER, 0,
			 first->nonce);
}
