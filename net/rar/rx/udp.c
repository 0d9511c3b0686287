// SPDX-License-Identifier: GPL-2.0
/*
 * The UDP receive path, for packets that the ingress hook did not take, and ICMP errors that
 * quote our packets.
 */
#include <linux/icmp.h>
#include <linux/icmpv6.h>

#include "core/drop.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/role.h"
#include "rar.h"
#include "ring/direct.h"
#include "ring/fail.h"
#include "rx/datagram.h"
#include "rx/input.h"
#include "rx/udp.h"
#include "tx/route.h"

int rar_udp_rcv(struct sock *sk, struct sk_buff *skb)
{
	struct rar_net *rn = rar_net(sock_net(sk));

	if (rar_rcv(rn, skb, RAR_AT_SOCKET) == RAR_PASS)
		rar_drop(rn, skb, RAR_MIB_DropForeign);
	return 0;
}

/* Is it a "too big" error? The ICMP header comes before the packet that it quotes. */
static bool too_big(const struct sock *sk, const struct sk_buff *skb)
{
	const u8 *icmp = skb_network_header(skb) - sizeof(struct icmphdr);

	static_assert(sizeof(struct icmphdr) == sizeof(struct icmp6hdr));
	if (sk->sk_family == AF_INET6)
		return icmp[0] == ICMPV6_PKT_TOOBIG;
	return icmp[0] == ICMP_DEST_UNREACH && icmp[1] == ICMP_FRAG_NEEDED;
}

/* The link by which a member sent a quoted packet, if it brings chunks; or NULL. */
static struct rar_link *sent_by(struct rar_member *m, u8 type, u32 dst, u64 token)
{
	switch (type) {
	case RAR_T_RS:
	case RAR_T_AG:
		return rar_member_sent_by(m, dst, token);
	case RAR_T_DIRECT:
		return token == READ_ONCE(m->epoch) ?
		       rar_member_direct(m, dst) : NULL;
	}
	return NULL;
}

/*
 * Does an ICMP error come by a device by which packets to the neighbour may go?
 */
static bool comes_back(struct rar_member *m, struct sk_buff *skb,
		       struct rar_link *link, u32 dst)
{
	u32 i = dst == m->link[RAR_PREV]->rank ? RAR_PREV : RAR_NEXT;
	struct rar_way way;

	link = link ?: m->link[i];
	rar_datagram_way(skb, &way);
	return way.inside || rar_route_takes(m, &link->path, &way);
}

/*
 * Judge an ICMP error that quotes one of our packets. A sender that has not
 * seen our packet knows addresses and ports, but not the token. Without a token
 * of ours the error is forged, or too short to tell. It is also forged if it
 * comes by a device that the packet did not take. Some kernels believe such an
 * error without asking, so an epoch does not use the path MTU that they keep:
 * it ends here if a chunk did not pass, and so does a leg between a member and
 * the box. An error has no seal: a group with seals believes none. A join
 * begins with that path MTU, and so does an attempt to enter at the box.
 * Returns 0 to let a true error lower it.
 */
int rar_udp_err(struct sock *sk, struct sk_buff *skb)
{
	u32 off = skb_transport_offset(skb) + sizeof(struct udphdr);
	struct rar_net *rn = rar_net(sock_net(sk));
	struct rar_join_hdr buf, *jh;
	struct rar_member *m;
	struct rar_hdr *h;
	struct rar_link *link;
	struct rar_way way;
	u64 id, token;
	u32 rank, dst;
	u8 type;

	h = skb_header_pointer(skb, off, sizeof(*h), &buf);
	if (!h)
		return -ENOENT;
	type = h->type;
	rank = be16_to_cpu(h->src);
	dst = be16_to_cpu(h->dst);
	id = be64_to_cpu(h->group);
	token = be64_to_cpu(h->token);
	if (type == RAR_T_JOIN) {
		jh = skb_header_pointer(skb, off, sizeof(*jh), &buf);
		if (!jh)
			return -ENOENT;
		token = be64_to_cpu(jh->nonce);
	}
	/* The box has the group's epoch beside the token of its own packets. */
	if (type == RAR_T_ENTERED) {
		rar_datagram_way(skb, &way);
		return rar_role_entered_err(rn, id, token, dst, &way,
					    too_big(sk, skb)) ? 0 : -ENOENT;
	}
	m = rar_member_sender(rn, id, rank, token);
	if (!m)
		return -ENOENT;
	link = sent_by(m, type, dst, token);
	if (m->tail || !comes_back(m, skb, link, dst))
		return -ENOENT;
	if (link && too_big(sk, skb))
		rar_fail_sent(link, READ_ONCE(m->op_oldest), -EMSGSIZE);
	return 0;
}
