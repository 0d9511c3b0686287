/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_CHUNK_H
#define _RAR_RING_CHUNK_H

#include "rar.h"

struct rar_arrival;

enum rar_rx rar_chunk_use(struct rar_member *m, struct rar_arrival *a);
u64 rar_chunk_local(struct rar_link *link, struct rar_member *from,
		    const struct rar_tx_item *item);
u32 rar_chunk_run(struct rar_member *m, struct rar_pkt *pkt,
		  const struct rar_data_hdr *dh);
enum rar_rx rar_chunk_rcv(struct rar_member *m, struct rar_pkt *pkt, u32 n);
enum rar_rx rar_chunk_rcv_direct(struct rar_member *m, struct rar_pkt *pkt,
				 u32 n);
void rar_chunk_rcv_probe(struct rar_member *m, const struct rar_pkt *pkt);

#endif /* _RAR_RING_CHUNK_H */
