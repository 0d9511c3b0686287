// SPDX-License-Identifier: GPL-2.0
/*
 * Lanes, sending side: which of the ports that chunks come from has a way to
 * the neighbour.
 *
 * Routers and bonds choose a way by the ports. So one way that loses all
 * packets, or those of one size, takes the chunks of some lanes while the other
 * lanes are well. A chunk that is sent again therefore goes by another lane. A
 * lane of which several packets in a row are lost, though packets that were
 * sent later by other lanes come, is left out. From time to time a packet goes
 * by it all the same; when one comes the lane is used again. Full packets and
 * short ones are judged apart, because a way may lose packets of one size only.
 */
#include "core/op.h"
#include "link/lane.h"
#include "link/window.h"
#include "tx/rules.h"

#define LANE_LOST	8		/* packets in a row: left out */
#define LANE_OUT	(HZ / 5)	/* for so many jiffies at first, */
#define LANE_OUT_MAX	(8 * HZ)	/* and at last */

/* Prepare for a new epoch. */
void rar_lane_start(struct rar_link *link)
{
	memset(&link->tx.lanes, 0, sizeof(link->tx.lanes));
}

static bool is_full(const struct rar_sent *sent)
{
	return sent->n > 1 || sent->last_full;
}

/*
 * Is it time to try a lane again that was left out? Then the next time is set.
 */
static bool try_again(struct rar_lane *lane, bool full)
{
	if (full != lane->out_full || time_before(jiffies, lane->try))
		return false;
	lane->try = jiffies + lane->wait;
	lane->wait = min_t(unsigned long, 2 * lane->wait, LANE_OUT_MAX);
	return true;
}

/*
 * The lane that takes the place of one that is left out: chunks that follow one
 * another go by different ones. The others are left out, too, if there is none.
 */
static u32 instead(const struct rar_link *link, const struct rar_run *run,
		   u32 lane)
{
	u32 n = link->member->nlanes, i, other;
	u32 at = run->chunk / RAR_RUN_MAX / n;

	for (i = 0; i < n - 1; i++) {
		other = (lane + 1 + (at + i) % (n - 1)) % n;
		if (!(link->tx.lanes.out & BIT(other)))
			return other;
	}
	return lane;
}

/**
 * rar_lane_pick() - choose the lane of a packet
 * @link:  link, tx_lock held
 * @run:   its chunks
 * @full:  one of them fills a payload
 * @again: some of them were sent before, and perhaps their lane lost them
 *
 * Where IPsec policies may select by port, all chunks leave by the first port,
 * for which the route was looked up. Otherwise a chunk could leave by another
 * port's transform, or by none.
 *
 * Return: the number of the lane.
 */
u32 rar_lane_pick(struct rar_link *link, const struct rar_run *run, bool full,
		  bool again)
{
	const struct rar_member *m = link->member;
	struct rar_lanes *lanes = &link->tx.lanes;
	u32 n = m->nlanes, lane = rar_lane(m, run);

	if (n == 1 || rar_rules_ipsec(m->rn->net, XFRM_POLICY_OUT))
		return 0;
	if (again)
		lane = (lane + 1 + lanes->again++ % (n - 1)) % n;
	if (!(lanes->out & BIT(lane)) ||
	    (!again && try_again(&lanes->lane[lane], full)))
		return lane;
	return instead(link, run, lane);
}

/*
 * Was a packet sent by a lane that is left out? Then its loss is no news.
 * tx_lock.
 */
bool rar_lane_is_out(const struct rar_link *link, const struct rar_sent *sent)
{
	return link->tx.lanes.out & BIT(sent->lane);
}

/* A packet came. tx_lock. */
void rar_lane_came(struct rar_link *link, const struct rar_sent *sent)
{
	struct rar_lanes *lanes = &link->tx.lanes;
	struct rar_lane *lane = &lanes->lane[sent->lane];
	bool full = is_full(sent);

	if (!(lanes->suspect & BIT(sent->lane)))
		return;
	lane->lost[full] = 0;
	if ((lanes->out & BIT(sent->lane)) && full == lane->out_full) {
		lanes->out &= ~BIT(sent->lane);
		lane->back = jiffies;
		rar_mib_inc(link->member->rn, LanesBack);
	}
	if (!lane->lost[!full] && !(lanes->out & BIT(sent->lane)))
		lanes->suspect &= ~BIT(sent->lane);
}

/*
 * Leave a lane out, unless all others are. Its losses were no sign of a queue.
 */
static void leave_out(struct rar_link *link, u32 at, bool full)
{
	struct rar_lanes *lanes = &link->tx.lanes;
	struct rar_lane *lane = &lanes->lane[at];
	u32 out = lanes->out | BIT(at);

	memset(lane->lost, 0, sizeof(lane->lost));
	if (out == GENMASK(link->member->nlanes - 1, 0))
		return;
	/* If it soon fails again, it is tried less and less often. */
	if (!lane->wait || time_after(jiffies, lane->back + 2 * lane->wait))
		lane->wait = LANE_OUT;
	lane->try = jiffies + lane->wait;
	lane->out_full = full;
	WRITE_ONCE(lanes->out, out);
	rar_window_excuse(&link->tx.win);
	rar_mib_inc(link->member->rn, LanesLost);
}

/**
 * rar_lane_lost() - a packet was lost, though one that was sent later came
 * @link: link, tx_lock held
 * @sent: the packet
 * @now:  us
 *
 * All packets that were sent before the first loss was found count as one,
 * because an outage takes packets of all lanes.
 */
void rar_lane_lost(struct rar_link *link, const struct rar_sent *sent, u64 now)
{
	struct rar_lanes *lanes = &link->tx.lanes;
	struct rar_lane *lane = &lanes->lane[sent->lane];
	bool full = is_full(sent);

	if (link->member->nlanes == 1 || rar_lane_is_out(link, sent) ||
	    (lane->lost[full] && sent->time_us < lane->since_us[full]))
		return;
	lanes->suspect |= BIT(sent->lane);
	if (!lane->lost[full]++)
		lane->since_us[full] = now;
	else if (lane->lost[full] >= LANE_LOST)
		leave_out(link, sent->lane, full);
}
