// SPDX-License-Identifier: GPL-2.0
/*
 * State and statistics of a member, for RAR_INFO, RAR_ERROR and generic netlink.
 */
#include "core/addr.h"
#include "core/member.h"
#include "core/op.h"
#include "group/choice.h"
#include "link/lane.h"
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

/* How long chunks have waited for the successor. */
static u64 waited_next(const struct rar_link_tx *tx, u64 now)
{
	return tx->blocked_total_us +
	       (tx->blocked_us ? now - tx->blocked_us : 0);
}

/*
 * How long operations have waited for the predecessor, of which the oldest
 * incomplete one was posted at @posted_us.
 */
static u64 waited_prev(const struct rar_member *m, u64 posted_us, u64 now)
{
	u64 since = max(posted_us, m->came_us);

	return m->starved_us + (posted_us && now > since ? now - since : 0);
}

static u32 silent_ms(const struct rar_link *link)
{
	return jiffies_to_msecs(jiffies - READ_ONCE(link->heard));
}

#define FILL(field, part, attr, value)	info->field = (value);

static void fill_tx(struct rar_member *m, struct rar_info *info)
{
	u64 posted_us = oldest_posted_us(m), now;
	struct rar_link_tx *tx = &m->link[RAR_NEXT]->tx;
	struct rar_box_info *box = info->boxes;
	struct rar_slow_wire w = {};
	struct rar_link *link;

	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	rar_straggler_tell(m, &w, now);
	info->slow_rank = m->straggler.rank;
	info->slow_ms = m->straggler.ms;
	RAR_MEMBER_TX_STATS(FILL)
	rar_each_leg(link, m) {
		box->sums = rar_link_leg(link)->sums;
		box->ring_sums = rar_link_leg(link)->ringed;
		info->box_sums += box->sums;
		info->ring_sums += box->ring_sums;
		box++;
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

/* Does the group have no box, as its seals need the key of one? */
static bool lacks_box_key(const struct rar_member *m)
{
	return !m->nlegs && m->join.wants.n && m->tail && !m->trust.box.len;
}

static void fill_boxes(struct rar_member *m, struct rar_info *info)
{
	struct rar_box_info *box = info->boxes;
	struct rar_link *link;

	info->nboxes = m->nlegs;
	if (lacks_box_key(m))
		box->reason = RAR_R_KEY;
	rar_each_leg(link, m) {
		box->reason = READ_ONCE(rar_link_leg(link)->why);
		box->state = READ_ONCE(link->epoch) ? RAR_BOX_OPEN :
						      RAR_BOX_AWAY;
		rar_addr_to_sock(m, rar_leg_box(rar_link_leg(link)), 0,
				 &box->addr);
		box++;
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

	RAR_MEMBER_STATS(FILL)
	if (up && !m->join.resume.differ) {
		info->resume_op = m->join.resume.op;
		info->resume_epoch = m->join.resume.epoch;
	}
	fill_tx(m, info);
	fill_user_ranks(m, info);
	if (!up)
		return;
	RAR_MEMBER_EPOCH_STATS(FILL)
	fill_boxes(m, info);
}
