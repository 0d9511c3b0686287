/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RX_DATAGRAM_H
#define _RAR_RX_DATAGRAM_H

#include "rar.h"

/*
 * Where the stack hands packets over.
 * @RAR_AT_INGRESS: the hook of a device; the stack has not looked at them
 * @RAR_AT_INPUT:   the hook behind the host's input rules
 * @RAR_AT_SOCKET:  the UDP socket; the skb begins at the UDP header
 */
enum rar_entry { RAR_AT_INGRESS, RAR_AT_INPUT, RAR_AT_SOCKET };

/* A datagram in the packet; offsets from the packet's beginning. */
struct rar_datagram {
	u32 udp;		/* offset of the UDP header */
	u32 end;		/* offset of the end of the IP payload */
	u16 udp_len;
	__sum16 check;
	bool fragment;
	bool options;
	bool bad_ip_csum;
};

u32 rar_datagram_len(const struct rar_pkt *pkt);
void *rar_datagram_header(const struct rar_pkt *pkt, u32 off, u32 len,
			  void *buf);
void rar_datagram_way(struct sk_buff *skb, struct rar_way *way);
enum rar_rx rar_datagram_find(struct rar_net *rn, struct rar_pkt *pkt,
			      enum rar_entry entry, struct rar_datagram *d);
bool rar_datagram_find_frame(struct rar_net *rn, struct rar_pkt *pkt,
			     const struct net_device *dev, u32 nhoff,
			     __be16 protocol, struct rar_datagram *d);
enum rar_rx rar_datagram_check(const struct rar_pkt *pkt,
			       const struct rar_datagram *d);

#endif /* _RAR_RX_DATAGRAM_H */
