// SPDX-License-Identifier: GPL-2.0
/*
 * The box: members enter, jobs begin and end. A job is a group at the box. It opens when all
 * members have entered, and has one epoch for all legs. If one member loses its leg, or the
 * box its patience, the job ends for all members. They go on by the ring and enter again.
 * Nothing here is needed for any result. slot.c makes the sums.
 *
 *	ENTER without cookie   -> ENTERED with a cookie; nothing is kept
 *	ENTER with the cookie  -> the member has a leg; ENTERED, with the epoch when all have
 *
 * ENTER comes by the UDP socket, as no member receives it. It is taken in by a work item.
 *
 * If there is a box above (net.rar.box_up), "all" are those that have entered when no more came for
 * a while. This box then enters above for them (up.c), and opens when that box does.
 */
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <linux/wait_bit.h>

#include "box/allow.h"
#include "box/batch.h"
#include "box/box.h"
#include "box/job.h"
#include "box/offer.h"
#include "box/roce.h"
#include "box/self.h"
#include "box/up.h"
#include "core/member.h"
#include "core/mib.h"
#include "group/life.h"
#include "link/link.h"
#include "tx/device.h"
#include "tx/packet.h"
#include "tx/port.h"
#include "tx/route.h"
#include "tx/sender.h"

#define JOB_MAX		64	/* jobs of a box */
#define JOB_MAX_OF_HOST	8	/* of them, by the same host first, */
#define JOB_MAX_OF_BOX	32	/* or by the same box below */
#define JOB_ASKS	256	/* ENTERs that wait */
#define JOB_LOOK	(HZ / 2)
#define JOB_SETTLE	(HZ / 10) /* no leg came for so long: enter above; longer if that failed */
#define JOB_STALE	(3 * HZ / 2) /* a sender that has not entered for so long is gone */
#define JOB_FORGET	(5 * HZ) /* what was done for a job counts half then */

/* An ENTER with a right cookie, until it is taken in. */
struct ask {
	struct list_head node;
	struct rar_addr from, to;
	int dev;
	u64 id, epoch, digest, nonce, ranks;
	u32 rank, size, payload, pad;
	u16 choice;
	bool in_turn;
};

/* -- packets of members ------------------------------------------------------ */

static struct workqueue_struct *box_wq;

/* Let the work item look after the jobs at once. */
static void look_now(struct rar_box *box)
{
	mod_delayed_work(box_wq, &box->look, 0);
}

/* Where the leg of a member or of a box below is in job->leg; may be out of range. */
static u32 leg_index(u32 rank)
{
	return rank < RAR_LOWER_RANK ? rank : rank - RAR_LOWER_RANK;
}

/* The leg by which packets of @rank come, or NULL if no such member or box has entered. */
static struct rar_link *find_leg(struct rar_member *m, u32 rank)
{
	struct box_job *job = box_job(m);
	u32 i = leg_index(rank);

	/* Pairs with the full barriers between leg_fill() and the epoch's way to a member. */
	return i < job->nlegs && box_leg_used(&job->leg[i]) &&
	       READ_ONCE(job->leg[i].link.rank) == rank ? &job->leg[i].link : NULL;
}

/* Take in a packet of a leg: RS, PROBE, WANT, RETURN or RESET, validated. Softirq, under RCU. */
static enum rar_rx rcv(struct rar_member *m, struct rar_pkt *pkt, u32 n)
{
	u32 rank = leg_index(be16_to_cpu(pkt->h.src));
	struct box_job *job = box_job(m);

	WRITE_ONCE(pkt->link->heard, jiffies);
	switch (pkt->h.type) {
	case RAR_T_RS:
		rar_slot_rcv_up(job, rank, pkt, n);
		break;
	case RAR_T_PROBE:
		rar_slot_rcv_probe(job, rank, pkt);
		break;
	case RAR_T_WANT:
		rar_batch_rcv_want(job, rank, pkt);
		break;
	case RAR_T_RETURN:
		if (pkt->link->rank < RAR_LOWER_RANK)
			return RAR_DROP(Rank);
		rar_slot_rcv_return(job, pkt->link, pkt);
		break;
	case RAR_T_RESET:
		/* The work item ends the job, and tells the other members. */
		WRITE_ONCE(job->closed, true);
		look_now(job->box);
		break;
	}
	return RAR_RX_DONE;
}

static const struct rar_aside job_aside = {
	.find = find_leg,
	.rcv = rcv,
};

/* Take in a packet of the box above, validated. Softirq, RCU read side. */
static enum rar_rx rcv_from_above(struct rar_member *m, struct rar_pkt *pkt, u32 n)
{
	struct box_job *job = rar_up_rcv(m, pkt);

	switch (pkt->h.type) {
	case RAR_T_ENTERED:
		look_now(job->box);
		break;
	case RAR_T_RS:
	case RAR_T_AG:
		rar_slot_rcv_above(job, pkt, n);
		break;
	case RAR_T_RETURN:
		rar_slot_rcv_return(job, pkt->link, pkt);
		break;
	case RAR_T_RESET:
		WRITE_ONCE(job->closed, true);
		look_now(job->box);
		break;
	}
	return RAR_RX_DONE;
}

static struct rar_link *find_above(struct rar_member *m, u32 rank)
{
	return rank == RAR_BOX_RANK ? &m->link[RAR_LEG] : NULL;
}

static const struct rar_aside up_aside = {
	.find = find_above,
	.rcv = rcv_from_above,
};

/* -- jobs (rn->box_lock) ---------------------------------------------------- */

static void job_free(struct work_struct *work)
{
	struct rar_member *m = container_of(to_rcu_work(work), struct rar_member, free);
	struct box_job *job = box_job(m);
	struct rar_net *rn = m->rn;
	u32 i;

	for (i = 0; i < job->nlegs; i++) {
		rar_device_set(rn, &job->leg[i].link.hook, 0);
		dst_cache_destroy(&job->leg[i].link.path.cache);
	}
	kfree(job->scratch);
	kvfree(job);
	if (atomic_dec_and_test(&rn->alive))
		wake_up_var(&rn->alive);
}

static void init_member(struct box_job *job, const struct ask *ask)
{
	struct rar_member *m = &job->m;

	rar_self_init(m, job->box, &ask->to);
	m->id = ask->id;
	m->rank = RAR_BOX_RANK;
	m->size = ask->size;
	m->epoch = rar_random_token();
	m->payload = ask->payload;
	m->aside = &job_aside;
	INIT_RCU_WORK(&m->free, job_free);
}

static int init_legs(struct box_job *job)
{
	u32 i;

	for (i = 0; i < job->nlegs; i++) {
		job->leg[i].link.member = &job->m;
		job->leg[i].link.rank = i;
		job->leg[i].link.epoch = job->m.epoch;
		if (dst_cache_init(&job->leg[i].link.path.cache, GFP_KERNEL))
			goto undo;
	}
	return 0;
undo:
	while (i--)
		dst_cache_destroy(&job->leg[i].link.path.cache);
	return -ENOBUFS;
}

static struct box_job *job_new(struct rar_box *box, const struct ask *ask)
{
	struct box_job *job = kvzalloc(struct_size(job, leg, ask->size),
				       GFP_KERNEL | __GFP_NOWARN);

	if (!job)
		return NULL;
	job->box = box;
	job->nlegs = ask->size;
	job->group_epoch = ask->epoch;
	job->digest = ask->digest;
	job->choice = ask->choice;
	job->born = jiffies;
	rar_slot_init(job);
	rar_batch_init(job);
	init_member(job, ask);
	job->scratch = kmalloc(ask->payload, GFP_KERNEL);
	if (!job->scratch || init_legs(job)) {
		kfree(job->scratch);
		kvfree(job);
		return NULL;
	}
	atomic_inc(&box->rn->alive);
	if (rar_member_hash_job(&job->m)) {
		rar_member_put(&job->m);
		return NULL;
	}
	list_add_tail_rcu(&job->node, &box->jobs);
	WRITE_ONCE(box->njobs, box->njobs + 1);
	return job;
}

/* End a job: its members go on by the ring. */
static void job_end(struct box_job *job)
{
	struct rar_hdr h;
	u32 i;

	lockdep_assert_held(&job->m.rn->box_lock);
	list_del_rcu(&job->node);
	WRITE_ONCE(job->box->njobs, job->box->njobs - 1);
	rar_slot_close(job);
	rar_batch_close(job);
	rar_up_end(job);
	for (i = 0; i < job->nlegs; i++)
		if (job->leg[i].nonce)
			rar_packet_ctl(&job->leg[i].link, &h, sizeof(h), 0, RAR_T_RESET,
				       job->m.epoch);
	rar_life_end(&job->m);
	rar_member_put(&job->m);
}

/* Do jobs of the same host take too many places? Each counts for the host of its first leg. */
static bool host_has_many(const struct rar_box *box, const struct ask *ask)
{
	const struct box_job *job;
	u32 n = 0, i;

	list_for_each_entry(job, &box->jobs, node) {
		for (i = 0; i < job->nlegs && !job->leg[i].nonce; i++)
			;
		n += i < job->nlegs &&
		     ipv6_addr_equal(&job->leg[i].link.path.dst.ip, &ask->from.ip);
	}
	return n >= (ask->rank < RAR_LOWER_RANK ? JOB_MAX_OF_HOST : JOB_MAX_OF_BOX);
}

/* The job of a group, a new one if need be, or NULL. */
static struct box_job *job_of(struct rar_box *box, const struct ask *ask)
{
	struct box_job *job;

	list_for_each_entry(job, &box->jobs, node)
		if (job->m.id == ask->id && job->group_epoch == ask->epoch)
			return job;
	if (box->njobs >= JOB_MAX || host_has_many(box, ask))
		return NULL;
	return job_new(box, ask);
}

/* Do two members of a job agree about the group? */
static bool agrees(const struct box_job *job, const struct ask *ask)
{
	const struct rar_addr *a = &job->m.self, *b = &ask->to;

	return job->digest == ask->digest && job->choice == ask->choice &&
	       job->nlegs == ask->size && job->m.payload == ask->payload &&
	       a->af == b->af && a->port == b->port && ipv6_addr_equal(&a->ip, &b->ip);
}

/* Has the leg another owner than the sender? */
static bool is_foreign(const struct box_leg *leg, const struct ask *ask)
{
	const struct rar_addr *a = &leg->link.path.dst;

	return a->port != ask->from.port || !ipv6_addr_equal(&a->ip, &ask->from.ip);
}

/*
 * Does another sender contribute for one of the ranks? A rank whose box is gone may come itself, or
 * by another box, but not while that job is open: it ends soon.
 */
static bool ranks_taken(const struct box_job *job, const struct ask *ask)
{
	const struct box_leg *leg;

	for (leg = job->leg; leg < job->leg + job->nlegs; leg++)
		if ((leg->ranks & ask->ranks) && is_foreign(leg, ask) &&
		    (job->open || time_before(jiffies, leg->link.heard + JOB_STALE)))
			return true;
	return false;
}

static void leg_clear(struct box_job *job, struct box_leg *leg)
{
	WRITE_ONCE(leg->nonce, 0);
	job->ranks &= ~leg->ranks;
	leg->ranks = 0;
	rar_device_set(job->m.rn, &leg->link.hook, 0);
	dst_cache_reset(&leg->link.path.cache);
}

/* Let a sender have a leg. Older legs of its ranks are gone. */
static void leg_fill(struct box_job *job, struct box_leg *leg, const struct ask *ask)
{
	struct rar_path *path = &leg->link.path;
	struct box_leg *other;

	for (other = job->leg; other < job->leg + job->nlegs; other++)
		if (other->ranks & ask->ranks)
			leg_clear(job, other);
	path->src = ask->to;
	path->dst = ask->from;
	WRITE_ONCE(leg->link.rank, ask->rank);
	WRITE_ONCE(leg->link.narrow, false);
	leg->ranks = ask->ranks;
	leg->pad = ask->pad;
	leg->in_turn = ask->in_turn;
	WRITE_ONCE(leg->nonce, ask->nonce);
	rar_device_set(job->m.rn, &leg->link.hook, ask->dev);
	job->ranks |= ask->ranks;
	job->last = jiffies;
}

static u64 all_ranks(u32 size)
{
	return GENMASK_ULL(size - 1, 0);
}

/* The box above this one; af 0: there is none. */
static struct rar_addr upper(struct rar_box *box)
{
	struct rar_addr a;

	spin_lock_bh(&box->rn->lock);
	a = box->rn->box_up;
	spin_unlock_bh(&box->rn->lock);
	return a;
}

/* Does the box above enter here, as two boxes name each other? Each would wait for the other. */
static bool in_circle(struct rar_box *box, const struct ask *ask)
{
	const struct rar_addr a = upper(box);

	return ask->rank >= RAR_LOWER_RANK && a.af && ipv6_addr_equal(&a.ip, &ask->from.ip);
}

/* Can all boxes below add to partial sums? */
static bool legs_in_turn(const struct box_job *job)
{
	const struct box_leg *leg;

	for (leg = job->leg; leg < job->leg + job->nlegs; leg++)
		if (leg->nonce && box_leg_is_lower(leg) && !leg->in_turn)
			return false;
	return true;
}

/* What the box makes sums of, as it tells those that enter. */
static u32 entered_flags(const struct box_job *job)
{
	if (!job->levels)
		return RAR_EF_BROADCAST | RAR_EF_REDUCE | RAR_EF_KEYED;
	return job->in_turn ? RAR_EF_IN_TURN : RAR_EF_ANY_ORDER;
}

/* Answer a member. The padding proves that the path carries a full packet this way, too. */
static void send_entered(struct box_job *job, struct box_leg *leg, u64 cookie)
{
	struct rar_entered_hdr eh = {
		.nonce = cpu_to_be64(leg->nonce),
		.cookie = cpu_to_be64(cookie),
		.epoch = cpu_to_be64(job->open ? job->m.epoch : 0),
		.flags = cpu_to_be32(entered_flags(job)),
	};

	rar_packet_ctl(&leg->link, &eh, sizeof(eh), leg->pad, RAR_T_ENTERED, job->group_epoch);
}

/* The cookie of a sender. */
static u64 cookie_of(const struct rar_box *box, const struct rar_addr *from, u64 id, u64 epoch)
{
	struct {
		struct in6_addr ip;
		u64 id, epoch, port;
	} in = { from->ip, id, epoch, (__force u16)from->port };

	return siphash(&in, sizeof(in), &box->key) ?: 1;
}

/* All ranks have come, here or above. */
static void open_job(struct box_job *job)
{
	struct box_leg *leg;

	for (leg = job->leg; leg < job->leg + job->nlegs; leg++)
		job->levels |= leg->nonce && box_leg_is_lower(leg);
	job->levels |= !!job->up;
	job->in_turn = legs_in_turn(job) && (!job->up || rar_up_is_in_turn(job));
	job->open = true;
	for (leg = job->leg; leg < job->leg + job->nlegs; leg++)
		if (leg->nonce)
			send_entered(job, leg, 0);
}

/*
 * The job for a new leg. An open one begins anew: a member that enters anew has forgotten its leg.
 * If this box has entered above for fewer ranks, it does so anew.
 */
static struct box_job *begin_anew(struct rar_box *box, struct box_job *job, const struct ask *ask)
{
	if (!job->open) {
		job->again |= !!job->up;
		rar_up_end(job);
		return job;
	}
	job_end(job);
	return job_of(box, ask);
}

/* Does the path back to a sender carry a full packet, as far as this host knows? */
static bool is_wide(const struct rar_box *box, const struct ask *ask)
{
	struct rar_path path = { .src = ask->to, .dst = ask->from };
	struct dst_entry *dst = rar_route_new(box->self, &path);
	bool wide;

	if (IS_ERR(dst))
		return false;
	wide = dst_mtu(dst) >= rar_ip_hdr_size(&path) + sizeof(struct udphdr) +
			       sizeof(struct rar_data_hdr) + ask->payload;
	dst_release(dst);
	return wide;
}

/* Take in an ENTER. */
static void enter(struct rar_box *box, const struct ask *ask)
{
	u64 cookie = cookie_of(box, &ask->from, ask->id, ask->epoch);
	struct box_job *job = NULL;
	struct box_leg *leg;
	u32 i = leg_index(ask->rank);

	if (!in_circle(box, ask) && rar_allow_has(box->self, &ask->from, &ask->to) &&
	    is_wide(box, ask))
		job = job_of(box, ask);
	if (!job || !agrees(job, ask) || ranks_taken(job, ask)) {
		rar_mib_inc(box->rn, JoinsRefused);
		return;
	}
	if (job->leg[i].nonce != ask->nonce) {
		job = begin_anew(box, job, ask);
		if (!job)
			return;
		leg_fill(job, &job->leg[i], ask);
	}
	leg = &job->leg[i];
	WRITE_ONCE(leg->link.heard, jiffies);
	if (!job->open && job->ranks == all_ranks(job->nlegs)) {
		open_job(job);
		return;
	}
	send_entered(job, leg, cookie);
}

static struct ask *next_ask(struct rar_box *box)
{
	struct ask *ask;

	spin_lock_bh(&box->lock);
	ask = list_first_entry_or_null(&box->asks, struct ask, node);
	if (ask) {
		list_del(&ask->node);
		box->nasks--;
	}
	spin_unlock_bh(&box->lock);
	return ask;
}

static void enter_work(struct work_struct *work)
{
	struct rar_box *box = container_of(work, struct rar_box, enter);
	struct ask *ask;

	while ((ask = next_ask(box))) {
		mutex_lock(&box->rn->box_lock);
		if (box->on)
			enter(box, ask);
		mutex_unlock(&box->rn->box_lock);
		kfree(ask);
	}
}

/* Enter above if the legs are all that come here; open the job if that is done. */
static void look_up(struct box_job *job)
{
	unsigned long settle = job->again ? JOB_STALE : JOB_SETTLE;

	if (job->open)
		rar_up_tell(job);
	else if (job->up && rar_up_is_open(job))
		open_job(job);
	else if (job->up || (upper(job->box).af && time_after_eq(jiffies, job->last + settle)))
		rar_up_enter(job, legs_in_turn(job), &up_aside);
}

/* Has a member been silent for too long, or does the path to it carry less? */
static bool leg_is_lost(const struct box_leg *leg, unsigned long dead)
{
	return leg->nonce && (READ_ONCE(leg->link.narrow) ||
			      time_after(jiffies, READ_ONCE(leg->link.heard) + dead));
}

/* Is there a reason to end a job: a member that is lost, or one that does not come? */
static bool job_over(const struct box_job *job)
{
	const struct rar_net *rn = job->m.rn;
	unsigned long dead = msecs_to_jiffies(READ_ONCE(rn->sysctl_dead_ms));
	unsigned long join = msecs_to_jiffies(READ_ONCE(rn->sysctl_join_ms));
	u32 i;

	if (READ_ONCE(job->closed))
		return true;
	if (!job->open)
		return time_after(jiffies, job->born + join);
	for (i = 0; i < job->nlegs; i++)
		if (leg_is_lost(&job->leg[i], dead))
			return true;
	return rar_up_is_lost(job, dead);
}

static void look_work(struct work_struct *work)
{
	struct rar_box *box = container_of(to_delayed_work(work), struct rar_box, look);
	struct box_job *job, *tmp;
	bool forget = time_after_eq(jiffies, box->forget);

	mutex_lock(&box->rn->box_lock);
	list_for_each_entry_safe(job, tmp, &box->jobs, node) {
		if (forget)
			rar_pool_forget(job);
		if (job_over(job))
			job_end(job);
		else
			look_up(job);
	}
	if (forget)
		box->forget = jiffies + JOB_FORGET;
	if (box->on)
		queue_delayed_work(box_wq, &box->look, upper(box).af ? JOB_SETTLE : JOB_LOOK);
	mutex_unlock(&box->rn->box_lock);
}

/* -- ENTER ------------------------------------------------------------------ */

/* Are the ranks some of the group's, and is the sender the lowest of them? */
static bool has_ranks(struct ask *ask)
{
	if (!ask->ranks && ask->rank < ask->size)
		ask->ranks = BIT_ULL(ask->rank);
	else if (!ask->ranks || ask->rank != RAR_LOWER_RANK + __ffs64(ask->ranks))
		return false;
	/* A box that has all ranks needs none above it. */
	return ask->ranks < all_ranks(ask->size);
}

static void rcv_enter(struct rar_box *box, const struct rar_pkt *pkt,
		      const struct rar_enter_hdr *eh)
{
	struct ask ask = {
		.from = pkt->from, .to = pkt->to, .dev = pkt->dev,
		.id = be64_to_cpu(eh->h.group), .epoch = be64_to_cpu(eh->h.token),
		.digest = be64_to_cpu(eh->digest), .nonce = be64_to_cpu(eh->nonce),
		.rank = be16_to_cpu(eh->h.src), .size = be16_to_cpu(eh->size),
		.payload = be32_to_cpu(eh->payload), .choice = be16_to_cpu(eh->choice),
		.ranks = be64_to_cpu(eh->ranks),
		.in_turn = be32_to_cpu(eh->flags) & RAR_EF_IN_TURN,
		.pad = pkt->len - sizeof(struct rar_entered_hdr),
	}, *copy = NULL;

	if (ask.size < 2 || ask.size > RAR_BOX_LEGS || !ask.nonce || !has_ranks(&ask) ||
	    !ask.payload || ask.payload % RAR_PAYLOAD_UNIT ||
	    ask.payload + sizeof(struct rar_data_hdr) != pkt->len) {
		rar_mib_inc(box->rn, DropLength);
		return;
	}
	spin_lock_bh(&box->lock);
	if (box->nasks < JOB_ASKS)
		copy = kmemdup(&ask, sizeof(ask), GFP_ATOMIC | __GFP_NOWARN);
	if (copy) {
		list_add_tail(&copy->node, &box->asks);
		box->nasks++;
	}
	spin_unlock_bh(&box->lock);
	if (copy)
		queue_work(box_wq, &box->enter);
}

/* Give a sender of ENTER its cookie. It is no longer than the question. */
static void send_cookie(struct rar_box *box, const struct rar_pkt *pkt, u64 cookie,
			const struct rar_enter_hdr *eh)
{
	struct rar_entered_hdr ed = { .nonce = eh->nonce, .cookie = cpu_to_be64(cookie) };

	rar_packet_reply(box->self, pkt, &ed, sizeof(ed), RAR_T_ENTERED,
			 be64_to_cpu(pkt->h.token));
}

/**
 * rar_box_stranger() - take in a packet to the box that no job has
 * @rn:  netns
 * @pkt: packet that the stack found to be for this host; its checksum is right
 *
 * Softirq.
 *
 * Return: false if there is no box here, or nothing to do.
 */
bool rar_box_stranger(struct rar_net *rn, struct rar_pkt *pkt)
{
	/* Pairs with the release in box_make(). */
	struct rar_box *box = smp_load_acquire(&rn->box);
	struct rar_enter_hdr eh;
	u64 cookie;

	if (!box || !READ_ONCE(box->on) || (pkt->h.version & 0xf) != RAR_WIRE_VERSION ||
	    pkt->len != sizeof(pkt->h) + be16_to_cpu(pkt->h.len))
		return false;
	if (pkt->h.type == RAR_T_RS || pkt->h.type == RAR_T_PROBE) {
		/* A leg of a box that was here before. */
		rar_packet_reset(box->self, pkt);
		return true;
	}
	if (pkt->h.type != RAR_T_ENTER || pkt->len < sizeof(eh) ||
	    skb_copy_bits(pkt->skb, pkt->off, &eh, sizeof(eh)))
		return false;
	cookie = cookie_of(box, &pkt->from, be64_to_cpu(eh.h.group), be64_to_cpu(eh.h.token));
	if (be64_to_cpu(eh.cookie) == cookie)
		rcv_enter(box, pkt, &eh);
	else
		send_cookie(box, pkt, cookie, &eh);
	return true;
}

/**
 * rar_box_entered_err() - take in an ICMP error that quotes an ENTERED of the box
 * @rn:      netns
 * @id:      group id
 * @epoch:   the token: the group's epoch
 * @rank:    member, or box below, that it was for
 * @too_big: a router says that it was too big, so the path carries no sum either
 *
 * Softirq, RCU read side.
 *
 * Return: false if the box here did not send it.
 */
bool rar_box_entered_err(struct rar_net *rn, u64 id, u64 epoch, u32 rank, bool too_big)
{
	/* Pairs with the release in box_make(). */
	struct rar_box *box = smp_load_acquire(&rn->box);
	struct rar_link *link = NULL;
	struct box_job *job;

	if (!box)
		return false;
	list_for_each_entry_rcu(job, &box->jobs, node)
		if (job->m.id == id && job->group_epoch == epoch)
			link = find_leg(&job->m, rank);
	if (link && too_big)
		WRITE_ONCE(link->narrow, true);
	return link;
}

/* -- begin and end --------------------------------------------------------------- */

static int open_ports(struct rar_box *box)
{
	static const u16 af[] = { AF_INET, AF_INET6 };
	struct rar_port *p;
	int i, err = 0;

	box->port = htons(READ_ONCE(box->rn->sysctl_port));
	for (i = 0; i < ARRAY_SIZE(af) && !err; i++) {
		if (af[i] == AF_INET6 && !IS_ENABLED(CONFIG_IPV6))
			continue;
		err = rar_sender_open(box->self, af[i]);
		/* The host was booted without IPv6. */
		if (af[i] == AF_INET6 && err == -EAFNOSUPPORT)
			return 0;
		p = err ? NULL : rar_port_get(box->rn, af[i], box->port);
		if (IS_ERR(p))
			err = PTR_ERR(p);
		else
			box->ports[i] = p;
	}
	return err;
}

static void close_ports(struct rar_box *box)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(box->ports); i++) {
		rar_port_put(box->rn, box->ports[i]);
		box->ports[i] = NULL;
	}
}

/* Make the member that sends the box's answers to strangers. */
static struct rar_member *make_self(struct rar_net *rn)
{
	struct rar_member *self = kzalloc(sizeof(*self), GFP_KERNEL);

	if (!self)
		return NULL;
	self->rn = rn;
	self->rank = RAR_BOX_RANK;
	/* So that nobody can make a token that this box takes for its own. */
	get_random_bytes(&self->join.key, sizeof(self->join.key));
	return self;
}

static int box_make(struct rar_net *rn)
{
	struct rar_box *box = kzalloc(sizeof(*box), GFP_KERNEL);

	if (!box)
		return -ENOMEM;
	box->rn = rn;
	box->self = make_self(rn);
	if (!box->self) {
		kfree(box);
		return -ENOMEM;
	}
	INIT_LIST_HEAD(&box->jobs);
	INIT_LIST_HEAD(&box->asks);
	spin_lock_init(&box->lock);
	atomic64_set(&box->used, 0);
	get_random_bytes(&box->key, sizeof(box->key));
	box->forget = jiffies;
	INIT_WORK(&box->enter, enter_work);
	INIT_DELAYED_WORK(&box->look, look_work);
	/* Pairs with the acquire in rar_box_stranger(). */
	smp_store_release(&rn->box, box);
	return 0;
}

static int box_start(struct rar_net *rn)
{
	int err = rn->box ? 0 : box_make(rn);

	if (err)
		return err;
	err = open_ports(rn->box);
	if (err) {
		close_ports(rn->box);
		return err;
	}
	WRITE_ONCE(rn->box->on, true);
	queue_delayed_work(box_wq, &rn->box->look, JOB_LOOK);
	return 0;
}

static void box_stop(struct rar_box *box)
{
	struct box_job *job, *tmp;

	WRITE_ONCE(box->on, false);
	list_for_each_entry_safe(job, tmp, &box->jobs, node)
		job_end(job);
	close_ports(box);
}

/**
 * rar_box_set_mem() - be a box, or be one no more
 * @rn:    netns
 * @bytes: memory that all jobs together may use; 0: no box
 *
 * Process context. Jobs that use more than a lower limit keep it until they give it back.
 *
 * Return: 0 or a negative errno, and nothing has changed.
 */
int rar_box_set_mem(struct rar_net *rn, unsigned long bytes)
{
	bool on;
	int err = 0;

	mutex_lock(&rn->box_lock);
	on = rn->box && rn->box->on;
	if (bytes && !on)
		err = box_start(rn);
	if (!err)
		WRITE_ONCE(rn->sysctl_box_mem, bytes);
	if (!bytes && on)
		box_stop(rn->box);
	mutex_unlock(&rn->box_lock);
	return err;
}

static void show_job(struct seq_file *seq, struct box_job *job)
{
	u32 entered = 0, i;

	for (i = 0; i < job->nlegs; i++)
		entered += job->leg[i].nonce != 0;
	spin_lock_bh(&job->lock);
	seq_printf(seq, "%016llx %u %u %s %u %llu %u %llu %llu %llu %llu %llx %s\n", job->m.id,
		   job->nlegs, entered, job->open ? "open" : "entering", job->m.payload,
		   job->base, job->slots, job->nsums, job->ngone, job->nevicted, job->rows,
		   job->ranks, job->up ? "below" : "top");
	spin_unlock_bh(&job->lock);
}

/* Show the box of a namespace. Process context. */
void rar_box_show(struct rar_net *rn, struct seq_file *seq)
{
	struct box_job *job;

	mutex_lock(&rn->box_lock);
	seq_printf(seq, "limit %lu used %lld jobs %u\n", rn->sysctl_box_mem,
		   rn->box ? (s64)atomic64_read(&rn->box->used) : 0,
		   rn->box ? rn->box->njobs : 0);
	seq_puts(seq, "group size entered state payload complete rows sums returned evicted bytes ranks level\n");
	if (rn->box)
		list_for_each_entry(job, &rn->box->jobs, node)
			show_job(seq, job);
	rar_roce_show(rn, seq);
	mutex_unlock(&rn->box_lock);
}

void rar_box_net_init(struct rar_net *rn)
{
	mutex_init(&rn->box_lock);
	rn->box_allow.link = true;
}

/* At the end of a namespace: end the jobs. Packets may still come. */
void rar_box_net_exit(struct rar_net *rn)
{
	struct rar_box *box = rn->box;

	rar_offer_set(rn, false);
	rar_roce_set(rn, false);
	if (!box)
		return;
	rar_box_set_mem(rn, 0);
	cancel_work_sync(&box->enter);
	cancel_delayed_work_sync(&box->look);
}

/* No packet comes any more. */
void rar_box_net_free(struct rar_net *rn)
{
	struct rar_box *box = rn->box;
	struct ask *ask;

	if (!box)
		return;
	/* Packets may have started them again. */
	cancel_work_sync(&box->enter);
	cancel_delayed_work_sync(&box->look);
	while ((ask = next_ask(box)))
		kfree(ask);
	rar_sender_put_all(box->self);
	kfree(box->self);
	kfree(box);
}

int rar_box_init(void)
{
	box_wq = alloc_workqueue("rar_box", WQ_UNBOUND, 0);
	return box_wq ? 0 : -ENOMEM;
}

void rar_box_exit(void)
{
	destroy_workqueue(box_wq);
}
