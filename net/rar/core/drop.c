// SPDX-License-Identifier: GPL-2.0
/*
 * Drops a packet and counts the reason.
 */
#include "core/drop.h"
#include "core/trace.h"
#include "rar.h"

/**
 * rar_drop() - drop a packet and count the reason
 * @rn:     netns
 * @skb:    consumed
 * @reason: counter
 */
void rar_drop(struct rar_net *rn, struct sk_buff *skb, enum rar_mib reason)
{
	this_cpu_inc(rn->mib->v[reason]);
	trace_rar_drop(skb, reason);
	kfree_skb(skb);
}
