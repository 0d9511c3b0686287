// SPDX-License-Identifier: GPL-2.0
/* Sends as packets what is ready and may go by a link. */
#include "core/member.h"
#include "link/link.h"
#include "link/pick.h"
#include "rar.h"
#include "ring/fail.h"
#include "ring/send.h"
#include "ring/steer.h"
#include "tx/run.h"

/*
 * Send what may go, with at most @own runs of own chunks. @items is zeroed by
 * some kernels, so this is not called if there is nothing to send.
 */
static noinline_for_stack bool send_ready(struct rar_link *link, u32 own)
{
	struct rar_tx_item items[RAR_PICK_BATCH];
	struct rar_member *m = link->member;
	bool did = false;
	u32 i, n;

	do {
		n = rar_pick_batch(link, items, own);
		for (i = 0; i < n; i++) {
			did |= items[i].own;
			own -= items[i].own;
			if (items[i].own && rar_steer_send(link, &items[i]))
				continue;
			rar_fail_sent(link, items[i].op->seq,
				      rar_run_send(link, &items[i]));
			if (rar_op_unuse(items[i].op))
				rar_member_wake(m);
		}
	} while (n == RAR_PICK_BATCH);
	return did;
}

/**
 * rar_send_link() - send the chunks that are ready and may go by a link
 * @link: link by which chunks go, RCU read side; no lock held
 * @own:  runs of own chunks, at most
 *
 * Softirq, or process context with bottom halves off.
 *
 * Return: whether own chunks left.
 */
bool rar_send_link(struct rar_link *link, u32 own)
{
	const struct rar_link_tx *tx = &link->tx;
	bool did;

	/* Who makes a chunk ready pushes it, so a stale read is harmless. */
	if (!READ_ONCE(tx->npend) && !READ_ONCE(tx->ninject) &&
	    !READ_ONCE(tx->blocked_us))
		return false;
	did = send_ready(link, own);
	/* Only the neighbour can open credit, or a closed window: ask it. */
	if (READ_ONCE(tx->blocked_us) && !READ_ONCE(tx->inflight))
		rar_member_kick(link->member, jiffies +
				rar_link_jiffies(LINK_PROBE_MIN_US));
	return did;
}

/* rar_send_link() for the links to the peers by halving */
void rar_send_partners(struct rar_member *m)
{
	struct rar_link *link;

	rar_each_partner(link, m)
		rar_send_link(link, 0);
}
