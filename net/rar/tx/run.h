/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_TX_RUN_H
#define _RAR_TX_RUN_H

#include "core/hdr.h"
#include "rar.h"

struct kvec;

void rar_run_hdr(const struct rar_link *link, const struct rar_tx_item *item,
		 u8 flags, u32 len, struct rar_hdr_words *to);
void rar_run_trace(const struct rar_member *m, const struct rar_tx_item *item);
void rar_run_count(struct rar_member *m, const struct rar_tx_item *item);
int rar_run_send(struct rar_link *link, struct rar_tx_item *item);
int rar_run_pass_on(struct rar_link *link, struct rar_tx_item *item);
int rar_run_stream(struct rar_link *link, const struct rar_tx_item *item,
		   u64 at, u32 chunk, u32 bytes);
int rar_run_forward(struct rar_link *link, struct rar_tx_item *item,
		    struct sk_buff *skb, u32 off);
int rar_run_sums(struct rar_link *link, struct rar_data_hdr *dh,
		 const struct kvec *sum, u32 n, u8 type, u64 token);

#endif /* _RAR_TX_RUN_H */
