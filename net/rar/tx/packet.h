/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_TX_PACKET_H
#define _RAR_TX_PACKET_H

#include "core/hdr.h"
#include "rar.h"

void rar_packet_fill_udp(struct udphdr *uh, const struct rar_path *path, u32 lane, u32 len);
void rar_packet_fill_v4(struct iphdr *iph, const struct rar_path *path, u32 len);
void rar_packet_fill_v6(struct ipv6hdr *ip6h, const struct rar_path *path, u32 len);
void rar_packet_fill_data(const struct rar_link *link,
			  const struct rar_tx_item *item, struct rar_data_hdr *dh);
void rar_packet_hdr(const struct rar_tx_item *item, const struct rar_data_hdr *dh, u32 i,
		    u32 len, struct rar_hdr_words *hdr);
void rar_packet_trace(const struct rar_member *m, const struct rar_tx_item *item);
void rar_packet_count(struct rar_member *m, const struct rar_tx_item *item);
int rar_packet_run(struct rar_link *link, struct rar_tx_item *item);
int rar_packet_pass_on(struct rar_link *link, struct rar_tx_item *item);
int rar_packet_stream(struct rar_link *link, const struct rar_tx_item *item, u64 at, u32 chunk,
		      u32 bytes);
int rar_packet_forward(struct rar_link *link, struct rar_tx_item *item,
		       struct sk_buff *skb, u32 off);
void rar_packet_ctl(struct rar_link *link, void *hdr, size_t len, size_t pad, u8 type,
		    u64 token);
int rar_packet_sums(struct rar_link *link, struct rar_data_hdr *dh, const struct kvec *sum,
		    u32 n, u8 type, u64 token);
void rar_packet_notice(struct rar_link *link, u8 type, u64 token,
		       const struct rar_error *err);
bool rar_packet_budget(struct rar_net *rn);
void rar_packet_once(struct rar_member *m, struct rar_path *path, void *hdr, size_t len, u8 type,
		     u32 rank, u64 token);
void rar_packet_reply(struct rar_member *m, const struct rar_pkt *pkt,
		      void *hdr, size_t len, u8 type, u64 token);
void rar_packet_reset(struct rar_member *m, const struct rar_pkt *pkt);

#endif /* _RAR_TX_PACKET_H */
