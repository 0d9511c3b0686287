/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RX_XDP_H
#define _RAR_RX_XDP_H

#include "rar.h"

struct xdp_md;

int bpf_rar_rcv(struct xdp_md *ctx, u32 *ifindex);
bool rar_xdp_usable(void);
void rar_xdp_init(void);

#endif /* _RAR_RX_XDP_H */
