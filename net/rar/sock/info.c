// SPDX-License-Identifier: GPL-2.0
/*
 * State and statistics of a member, for RAR_INFO, RAR_ERROR and generic netlink.
 */
#include "core/addr.h"
#include "core/member.h"
#include "core/op.h"
#include "link/straggler.h"
#include "rar.h"
#include "sock/info.h"
#include "tx/rules.h"

/**
 * rar_info_error() - copy the error of a member
 * @m:   member
 * @err: to fill
 */
void rar_info_error(struct rar_member *m, struct rar_error *err)
{
	spin_lock_bh(&m->lock);
	*err = m->error;
	spin_unlock_bh(&m->lock);
}

/* When the oldest incomplete operation was posted, us. 0 = there is none. */
static u64 oldest_posted_us(struct rar_member *m)
{
	struct rar_operation *op;
	u64 us = 0;

	spin_lock_bh(&m->lock);
	list_for_each_entry(op, &m->undelivered, node)
		if (!op->complete) {
			us = op->posted_us;
			break;
		}
	spin_unlock_bh(&m->lock);
	return us;
}

static void fill_tx(struct rar_member *m, struct rar_info *info)
{
	u64 waiting_us = oldest_posted_us(m), now;
	struct rar_link_tx *tx = &m->link[RAR_NEXT].tx;
	struct rar_slow_wire w = {};
	u32 i;

	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	rar_straggler_tell(m, &w, now);
	info->slow_rank = m->straggler.rank;
	info->slow_ms = m->straggler.ms;
	info->cwnd = tx->win.cwnd;
	info->srtt_us = tx->win.srtt_us;
	info->rto_us = tx->win.rto_us;
	info->window = min_t(u64, tx->win.inj_wnd, U32_MAX);
	info->inflight = tx->inflight;
	info->bytes_tx = tx->bytes;
	info->packets_tx = tx->packets;
	info->retransmits = tx->retransmits;
	info->forwarded = tx->forwarded;
	info->next_wait_us = tx->blocked_total_us;
	if (tx->blocked_us)
		info->next_wait_us += now - tx->blocked_us;
	info->prev_wait_us = m->starved_us;
	if (waiting_us && now > max(waiting_us, m->came_us))
		info->prev_wait_us += now - max(waiting_us, m->came_us);
	info->ops_released = m->op_oldest;
	for (i = 0; i < m->nlegs; i++) {
		info->boxes[i].sums = m->leg[i].sums;
		info->boxes[i].ring_sums = m->leg[i].ringed;
		info->box_sums += m->leg[i].sums;
		info->ring_sums += m->leg[i].ringed;
	}
	spin_unlock_bh(&m->tx_lock);
}

/* What the user calls the ranks that @info names. */
static void fill_user_ranks(struct rar_member *m, struct rar_info *info)
{
	spin_lock_bh(&m->lock);
	info->user_rank = m->user_rank;
	info->slow_user_rank = rar_member_user_rank(m, info->slow_rank);
	spin_unlock_bh(&m->lock);
}

static void fill_boxes(struct rar_member *m, struct rar_info *info)
{
	struct rar_box_info *box = info->boxes;
	u32 i;

	info->nboxes = m->nlegs;
	for (i = 0; i < m->nlegs; i++, box++) {
		box->state = READ_ONCE(m->link[RAR_LEG + i].epoch) ? RAR_BOX_OPEN : RAR_BOX_AWAY;
		rar_addr_to_sock(m, rar_member_box(m, i), 0, &box->addr);
	}
	info->box_state = info->boxes[0].state;
	info->box = info->boxes[0].addr;
}

/**
 * rar_info_fill() - collect state and statistics of a member
 * @m:    member, RCU read side or a reference held
 * @info: to fill; zeroed
 *
 * Any context, no lock held. The values need not belong to the same moment.
 */
void rar_info_fill(struct rar_member *m, struct rar_info *info)
{
	bool up = rar_member_state(m) >= RAR_S_RUN;

	info->state = rar_member_state(m);
	info->rx_path = rar_rules_rx_path(m->rn);
	info->rank = m->rank;
	info->size = m->size;
	info->group = m->id;
	info->epoch = m->epoch;
	info->payload = m->payload;
	info->mtu = m->join.mtu;
	info->mtu_rank = m->join.min_rank;
	info->ops_posted = READ_ONCE(m->op_next);
	info->ops_complete = READ_ONCE(m->ops_complete);
	info->bytes_rx = READ_ONCE(m->rx_bytes);
	info->packets_rx = READ_ONCE(m->rx_packets);
	info->early_bytes = READ_ONCE(m->early.truesize);
	if (up && !m->join.resume.differ) {
		info->resume_op = m->join.resume.op;
		info->resume_epoch = m->join.resume.epoch;
	}
	fill_tx(m, info);
	fill_user_ranks(m, info);
	if (!up)
		return;
	info->hosts = m->place.hosts;
	info->gather_bytes = m->gather_below - 1;	/* RAR_NO_BYTES if 0 */
	info->direct_bytes = m->direct.below - 1;
	info->whole_bytes = m->place.uncut;
	info->hop_us = m->rank ? 0 : m->join.hop_us;
	fill_boxes(m, info);
	info->prev_silent_ms = jiffies_to_msecs(jiffies -
						READ_ONCE(m->link[RAR_PREV].heard));
	info->next_silent_ms = jiffies_to_msecs(jiffies -
						READ_ONCE(m->link[RAR_NEXT].heard));
}
