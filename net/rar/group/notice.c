// SPDX-License-Identifier: GPL-2.0
/*
 * Notices of other members: ABORT, LATE, FIN, FIN_ACK, RESET.
 */
#include "core/member.h"
#include "group/leave.h"
#include "group/notice.h"
#include "group/stood.h"
#include "group/watch.h"
#include "link/rail.h"
#include "rar.h"
#include "ring/fail.h"

/* Is it an errno that another rank may cause here, and that means nothing else here? */
static bool wire_errno_ok(u32 err)
{
	return err == ECONNRESET || err == EMSGSIZE || err == EBADMSG || err == EACCES ||
	       err == EADDRINUSE || err == ETIMEDOUT || err == ENOBUFS;
}

/* The rank that a notice names. Only a member of another size may name one beyond ours. */
static u32 wire_rank(const struct rar_member *m, __be32 rank, u32 reason)
{
	u32 size = reason == RAR_R_SIZE ? RAR_MAX_SIZE : m->size;

	return be32_to_cpu(rank) < size ? be32_to_cpu(rank) : RAR_NO_RANK;
}

/* Turn the notice of another member into an error of @m. */
void rar_notice_error(const struct rar_member *m, const struct rar_notice_hdr *n,
		      struct rar_error *err)
{
	memset(err, 0, sizeof(*err));
	err->err = wire_errno_ok(be32_to_cpu(n->err)) ? be32_to_cpu(n->err) :
							ECONNRESET;
	err->reason = be32_to_cpu(n->reason) < RAR_R_NR ?
		      be32_to_cpu(n->reason) : RAR_R_NONE;
	err->rank = wire_rank(m, n->rank, err->reason);
	err->other = wire_rank(m, n->other, err->reason);
	err->op_seq = be64_to_cpu(n->op_seq);
	err->silent_ms = be32_to_cpu(n->silent_ms);
	err->value = be64_to_cpu(n->value);
	err->other_value = be64_to_cpu(n->other_value);
}

/*
 * A neighbour reports that it has not heard us for too long. If this host is
 * cut off, or stood still, say so: the neighbours cannot know.
 */
static void own_fault(struct rar_member *m, struct rar_error *err)
{
	struct rar_link *link;

	if (err->reason != RAR_R_SILENT || err->rank != m->rank)
		return;
	rar_each_link(link, m)
		if (err->other == link->rank && rar_rail_cut_off(link))
			err->reason = RAR_R_NODEV;
	if (err->reason == RAR_R_SILENT && rar_stood_ms(m)) {
		err->reason = RAR_R_STALLED;
		err->silent_ms = rar_stood_ms(m);
	}
}

/*
 * A neighbour does not know this epoch any more: it started again, perhaps
 * without this rank.
 */
void rar_notice_reset(struct rar_member *m, u32 rank)
{
	struct rar_error err = {
		.err = ECONNRESET, .reason = RAR_R_RESET,
		.rank = rank, .other = rank,
	};

	if (rar_member_is_over(m))
		return;
	rar_stood_own(m, rank, &err);
	rar_fail(m, &err);
}

/* Has a neighbour that ends its join said so before? Then this join waits for its return. */
static bool has_left_join(const struct rar_member *m, const struct rar_pkt *pkt)
{
	return rar_member_state(m) == RAR_S_READY && !m->join.ok[pkt->link->index];
}

/**
 * rar_notice_rcv() - act on an ABORT, LATE, FIN, FIN_ACK or RESET of the epoch
 * @m: member in RUN or later
 * @pkt: validated: from a neighbour's address, token is the epoch
 */
void rar_notice_rcv(struct rar_member *m, const struct rar_pkt *pkt)
{
	u32 src = be16_to_cpu(pkt->h.src);
	struct rar_notice_hdr n = {};
	struct rar_error err;

	if (pkt->h.type == RAR_T_RESET) {
		rar_notice_reset(m, src);
		return;
	}
	if (skb_copy_bits(pkt->skb, pkt->off, &n, sizeof(n)))
		return;
	rar_notice_error(m, &n, &err);
	switch (pkt->h.type) {
	case RAR_T_ABORT:
		if (has_left_join(m, pkt))
			break;
		own_fault(m, &err);
		rar_fail(m, &err);
		break;
	case RAR_T_FIN:
		if (err.rank < m->size)
			rar_leave_rcv_fin(pkt->link, &err);
		break;
	case RAR_T_LATE:
		if (err.rank >= m->size)
			break;
		rar_watch_ask(m, err.op_seq, err.rank);
		break;
	case RAR_T_FIN_ACK:
		rar_leave_rcv_fin_ack(pkt->link);
		break;
	}
}
