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
 *
 * Between ranks with several pairs of addresses (rails, rail.c) lane n takes
 * pair n modulo their number. There a chunk takes the pair that will be through
 * with it first, by what is under way there and how long that takes. The first
 * pair has proved itself in the join. The lanes of the others are left out in
 * the beginning, and tried at once.
 */
#include "core/op.h"
#include "link/lane.h"
#include "link/window.h"
#include "tx/rules.h"

#define LANE_LOST	8		/* packets in a row: left out */
#define LANE_OUT	(HZ / 5)	/* for so many jiffies at first, */
#define LANE_OUT_MAX	(8 * HZ)	/* and at last */
#define LANE_TRIAL_US	20000		/* a trial packet of a rail may take */

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
 * Was a packet sent by a lane that is left out? Then its loss is no news.
 * tx_lock.
 */
bool rar_lane_is_out(const struct rar_link *link, const struct rar_sent *sent)
{
	return link->tx.lanes.out & BIT(sent->lane);
}

/* -- rails ---------------------------------------------------------------- */

/* The lanes that take a pair of addresses, a bit each. */
static u32 lanes_of(const struct rar_link *link, u32 rail)
{
	u32 n = rar_link_rails(link), lane, mask = 0;

	for (lane = rail; lane < link->member->nlanes; lane += n)
		mask |= BIT(lane);
	return mask;
}

/**
 * rar_lane_open() - get ready for further pairs of addresses
 * @link: link, tx_lock held; its rails are known from now on
 */
void rar_lane_open(struct rar_link *link)
{
	u32 all = GENMASK(link->member->nlanes - 1, 0), more, i;
	struct rar_lanes *lanes = &link->tx.lanes;

	more = all & ~lanes_of(link, 0);
	lanes->out |= more;
	lanes->suspect |= more;
	for (; more; more &= more - 1) {
		i = __ffs(more);
		lanes->lane[i] = (struct rar_lane) {
			.out_full = true, .try = jiffies, .wait = LANE_OUT,
		};
	}
	memset(link->rails->load, 0, sizeof(link->rails->load));
}

/* The number of pairs by which chunks go, at least 1. Locklessly. */
u32 rar_lane_rails(const struct rar_link *link)
{
	u32 out = READ_ONCE(link->tx.lanes.out), rail, n = 0;

	for (rail = 0; rail < rar_link_rails(link); rail++)
		n += !!(lanes_of(link, rail) & ~out);
	return max(n, 1U);
}

/* The lane by which a run will be through first. */
static u32 fastest(const struct rar_link *link, const struct rar_run *run)
{
	u32 usable, from = BIT(0), rail, nth;
	u64 least = U64_MAX, ns;

	for (rail = 0; rail < rar_link_rails(link); rail++) {
		const struct rar_load *load = &link->rails->load[rail];

		usable = lanes_of(link, rail) & ~link->tx.lanes.out;
		ns = (u64)(load->flying + run->n) * max(load->chunk_ns, 1U);
		if (!usable || ns >= least)
			continue;
		least = ns;
		from = usable;
	}
	for (nth = run->chunk / RAR_RUN_MAX % hweight32(from); nth; nth--)
		from &= from - 1;
	return __ffs(from);
}

static struct rar_load *load_of(const struct rar_link *link,
				const struct rar_sent *sent)
{
	return &link->rails->load[sent->lane % rar_link_rails(link)];
}

/* A run leaves. tx_lock. */
void rar_lane_sent(struct rar_link *link, struct rar_sent *sent)
{
	struct rar_load *load;

	if (rar_link_rails(link) == 1)
		return;
	load = load_of(link, sent);
	load->flying += sent->n;
	sent->flying = min_t(u32, load->flying, U16_MAX);
}

/* Chunks of a run came, or were given up. tx_lock. */
void rar_lane_left(struct rar_link *link, const struct rar_sent *sent, u32 n)
{
	struct rar_load *load;

	if (rar_link_rails(link) == 1)
		return;
	load = load_of(link, sent);
	/* It may have left before there were rails. */
	load->flying -= min(load->flying, n);
}

/* A packet came: how long does its pair of addresses take for a chunk? */
static void measure(struct rar_link *link, const struct rar_sent *sent)
{
	struct rar_load *load = load_of(link, sent);
	u32 rail = load - link->rails->load, us, ns;

	if (!sent->flying)
		return;
	us = min_t(u64, rar_now_us() - sent->time_us, USEC_PER_SEC);
	ns = div_u64((u64)us * NSEC_PER_USEC, sent->flying);
	load->srtt_us = load->srtt_us ? (7 * load->srtt_us + us) / 8 : us;
	load->chunk_ns = load->chunk_ns ?
			 load->chunk_ns / 8 * 7 + ns / 8 : ns;
	if (rail)
		WRITE_ONCE(link->rails->more[rail - 1].heard, true);
}

/**
 * rar_lane_patience() - time for which a packet may be later than others, us
 * @link: link, tx_lock held
 * @sent: the packet
 *
 * Pairs of addresses do not take the same time. A lost packet may delay an
 * operation by this.
 */
u32 rar_lane_patience(const struct rar_link *link, const struct rar_sent *sent)
{
	if (rar_link_rails(link) == 1)
		return 0;
	return rar_lane_is_out(link, sent) ? LANE_TRIAL_US :
					     load_of(link, sent)->srtt_us;
}

/* -- lanes ---------------------------------------------------------------- */

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
	bool rails = rar_link_rails(link) > 1;
	u32 n = m->nlanes, lane, out;

	if (n == 1 || rar_rules_ipsec(m->rn->net, XFRM_POLICY_OUT))
		return 0;
	/* No chunk comes by a lane of a pair of addresses that is left out. */
	for (out = rails && !again ? lanes->out : 0; out; out &= out - 1)
		if (try_again(&lanes->lane[__ffs(out)], full))
			return __ffs(out);
	lane = rails && !again ? fastest(link, run) : rar_lane(m, run);
	if (again)
		lane = (lane + 1 + lanes->again++ % (n - 1)) % n;
	if (!(lanes->out & BIT(lane)) ||
	    (!again && try_again(&lanes->lane[lane], full)))
		return lane;
	return instead(link, run, lane);
}

/**
 * rar_lane_any() - choose the lane of a packet without numbers
 * @link:  link, tx_lock held
 * @run:   its chunks
 * @again: as for rar_lane_pick()
 *
 * Nothing tells which of these packets came, so the first one goes between the
 * addresses of the join.
 *
 * Return: the number of the lane.
 */
u32 rar_lane_any(struct rar_link *link, const struct rar_run *run, bool again)
{
	const struct rar_member *m = link->member;
	u32 n = m->nlanes, lane = rar_lane(m, run);

	if (n == 1 || rar_rules_ipsec(m->rn->net, XFRM_POLICY_OUT))
		return 0;
	if (again)
		return (lane + 1 + link->tx.lanes.again++ % (n - 1)) % n;
	return lane - lane % rar_link_rails(link);
}

/* A packet came. tx_lock. */
void rar_lane_came(struct rar_link *link, const struct rar_sent *sent)
{
	struct rar_lanes *lanes = &link->tx.lanes;
	struct rar_lane *lane = &lanes->lane[sent->lane];
	bool full = is_full(sent);

	if (rar_link_rails(link) > 1)
		measure(link, sent);
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
