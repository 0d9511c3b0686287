/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_EARLY_H
#define _RAR_LINK_EARLY_H

#include "rar.h"

struct rar_arrival;

/* Where a held packet belongs, in skb->cb. */
struct rar_early_cb {
	u32 off;
	u32 len;
	u32 n;			/* chunks */
	bool whole;		/* as in struct rar_pkt, */
	bool carrier;		/* and so is this */
	u8 link;		/* index of the link by which it came */
	u32 chunk;
	u64 op_seq;
};

static inline struct rar_early_cb *rar_early_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct rar_early_cb) > sizeof(skb->cb));
	return (struct rar_early_cb *)skb->cb;
}

enum rar_rx rar_early_hold(struct rar_member *m, const struct rar_arrival *a);
void rar_early_take(struct rar_member *m, u64 op_seq, bool all,
		    struct sk_buff_head *out);
void rar_early_flush(struct rar_member *m);
void rar_early_init(struct rar_member *m);

#endif /* _RAR_LINK_EARLY_H */
