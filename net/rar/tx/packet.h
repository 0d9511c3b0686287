/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_TX_PACKET_H
#define _RAR_TX_PACKET_H

#include "rar.h"

struct iphdr;
struct ipv6hdr;
struct udphdr;

struct sk_buff *rar_packet_alloc(const struct rar_net *rn,
				 const struct rar_path *path, u32 len);
void rar_packet_fill_udp(struct udphdr *uh, const struct rar_path *path, u32 lane, u32 len);
void rar_packet_fill_v4(struct iphdr *iph, const struct rar_path *path, u32 len);
void rar_packet_fill_v6(struct ipv6hdr *ip6h, const struct rar_path *path, u32 len);
void rar_packet_fill_hdr(const struct rar_member *m, struct rar_hdr *h, u8 type,
			 u32 dst, u32 len, u64 token);
int rar_packet_xmit(struct rar_member *m, struct rar_path *path,
		    struct sk_buff *skb, u32 lane);
void rar_packet_xmit_once(struct rar_member *m, struct rar_path *path,
			  struct sk_buff *skb);

#endif /* _RAR_TX_PACKET_H */
