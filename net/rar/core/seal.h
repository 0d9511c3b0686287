/* SPDX-License-Identifier: GPL-2.0 */
/* The seal of a group's packets; see Documentation/design/seal.rst. */
#ifndef _RAR_CORE_SEAL_H
#define _RAR_CORE_SEAL_H

#include "rar.h"

int rar_seal_prepare(struct rar_member *m);
int rar_seal_start(struct rar_member *m, u64 epoch);
int rar_seal_leg(struct rar_link *link, u64 group_epoch, u64 nonce, u64 epoch);
void rar_seal_forget(struct rar_link *link);
void rar_seal_free(struct rar_member *m);
bool rar_seal_packet(struct rar_member *m, const struct rar_path *path,
		     u32 lane, struct sk_buff *skb);
bool rar_seal_frame(struct rar_member *m, const struct rar_path *path,
		    struct xdp_buff *xdp, u32 off, u32 len);
enum rar_rx rar_seal_open(struct rar_member *m, struct rar_pkt *pkt, u32 off,
			  u32 len);

#endif /* _RAR_CORE_SEAL_H */
