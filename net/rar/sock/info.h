/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_INFO_H
#define _RAR_SOCK_INFO_H

#include "rar.h"

/*
 * Statistics of a member: a row is a field of struct rar_info, the part of
 * netlink's message that tells it, its attribute there, and its value.
 * scripts/lib/lists.py takes the fields into the tests, and the attributes
 * into rarctl and the specification.
 *
 * No lock is held, except m->tx_lock for RAR_MEMBER_TX_STATS(). The values of
 * RAR_MEMBER_EPOCH_STATS() are 0 until the ring is closed.
 */
#define RAR_MEMBER_STATS(X)						\
	X(state, MEMBER, RAR_A_MEMBER_STATE, rar_member_state(m))	\
	X(rx_path, MEMBER, RAR_A_MEMBER_RX_PATH, rar_rules_rx_path(m->rn)) \
	X(rank, MEMBER, RAR_A_MEMBER_RANK, m->rank)			\
	X(size, MEMBER, RAR_A_MEMBER_SIZE, m->size)			\
	X(group, MEMBER, RAR_A_MEMBER_GROUP, m->id)			\
	X(epoch, NOWHERE, 0, m->epoch)	/* a secret, see proc.c */	\
	X(payload, MEMBER, RAR_A_MEMBER_PAYLOAD, m->payload)		\
	X(mtu, NEXT, RAR_A_LINK_MTU, m->join.mtu)			\
	X(mtu_rank, NOWHERE, 0, m->join.min_rank)			\
	X(ops_posted, MEMBER, RAR_A_MEMBER_OPS_POSTED, READ_ONCE(m->op_next)) \
	X(ops_complete, MEMBER, RAR_A_MEMBER_OPS_COMPLETE,		\
	  READ_ONCE(m->ops_complete))					\
	X(bytes_rx, PREV, RAR_A_LINK_BYTES, READ_ONCE(m->rx_bytes))	\
	X(packets_rx, PREV, RAR_A_LINK_PACKETS, READ_ONCE(m->rx_packets)) \
	X(security, MEMBER, RAR_A_MEMBER_SECURITY, READ_ONCE(m->security)) \
	X(early_bytes, MEMBER, RAR_A_MEMBER_EARLY_BYTES,		\
	  READ_ONCE(m->early.truesize))

#define RAR_MEMBER_TX_STATS(X)						\
	X(ops_released, MEMBER, RAR_A_MEMBER_OPS_RELEASED, m->op_oldest) \
	X(cwnd, NEXT, RAR_A_LINK_CWND, tx->win.cwnd)			\
	X(srtt_us, NEXT, RAR_A_LINK_SRTT_US, tx->win.srtt_us)		\
	X(rto_us, NEXT, RAR_A_LINK_RTO_US, tx->win.rto_us)		\
	X(window, NOWHERE, 0, min_t(u64, tx->win.inj_wnd, U32_MAX))	\
	X(inflight, NEXT, RAR_A_LINK_INFLIGHT, tx->inflight)		\
	X(bytes_tx, NEXT, RAR_A_LINK_BYTES, tx->bytes)			\
	X(packets_tx, NEXT, RAR_A_LINK_PACKETS, tx->packets)		\
	X(retransmits, NEXT, RAR_A_LINK_RETRANSMITS, tx->retransmits)	\
	X(forwarded, NEXT, RAR_A_LINK_FORWARDED, tx->forwarded)		\
	X(next_wait_us, NEXT, RAR_A_LINK_WAIT_US, waited_next(tx, now))	\
	X(rails, NEXT, RAR_A_LINK_RAILS, rar_lane_rails(m->link[RAR_NEXT])) \
	X(prev_wait_us, PREV, RAR_A_LINK_WAIT_US,			\
	  waited_prev(m, posted_us, now))

#define RAR_MEMBER_EPOCH_STATS(X)					\
	X(hosts, NOWHERE, 0, m->place.hosts)				\
	/* RAR_NO_BYTES if the first number beyond is 0. */		\
	X(direct_bytes, NOWHERE, 0, m->direct.below - 1)		\
	X(doubling_bytes, NOWHERE, 0, m->direct.doubling_below - 1)	\
	X(halving_bytes, NOWHERE, 0, m->direct.halving_below - 1)	\
	X(gather_bytes, NOWHERE, 0,					\
	  rar_choice_below(m, RAR_ALLGATHER) - 1)			\
	X(scatter_bytes, NOWHERE, 0,					\
	  rar_choice_below(m, RAR_REDUCE_SCATTER) - 1)			\
	X(prev_silent_ms, NOWHERE, 0, silent_ms(m->link[RAR_PREV]))	\
	X(next_silent_ms, NOWHERE, 0, silent_ms(m->link[RAR_NEXT]))

void rar_info_error(struct rar_member *m, struct rar_error *err);
void rar_info_fill(struct rar_member *m, struct rar_info *info);

#endif /* _RAR_SOCK_INFO_H */
