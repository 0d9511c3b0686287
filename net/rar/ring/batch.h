/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_BATCH_H
#define _RAR_RING_BATCH_H

#include "core/mib.h"
#include "rar.h"

enum rar_rx rar_batch_rcv(struct rar_member *m, const struct rar_pkt *pkt, u32 n,
			  const struct rar_data_hdr *dh);

#endif /* _RAR_RING_BATCH_H */
