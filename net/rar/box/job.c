// SPDX-License-Identifier: GPL-2.0
/*
 * Jobs of the box: members enter, jobs begin and end. A job is a group at the box. It opens when
 * all members have entered, and has one epoch for all legs. If one member loses its leg, or the
 * box its patience, the job ends for all members. They go on by the ring and enter again.
 * Nothing here is needed for any result. slot.c makes the sums.
 *
 * If there is a box above (net.rar.box_up), "all" are those that have entered when no more came for
 * a while. This box then enters above for them (up.c), and opens when that box does.
 */
#include <linux/slab.h>
#include <linux/udp.h>
#include <linux/wait_bit.h>

#include "box/allow.h"
#include "box/batch.h"
#include "box/job.h"
#include "box/up.h"
#include "core/key.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/seal.h"
#include "group/life.h"
#include "group/self.h"
#include "link/link.h"
#include "tx/control.h"
#include "tx/device.h"
#include "tx/route.h"

#define JOB_MAX		64	/* jobs of a box */
#define JOB_MAX_OF_HOST	8	/* of them, by the same host first, */
#define JOB_MAX_OF_BOX	32	/* or by the same box below, */
#define JOB_MAX_NEXT	32	/* or by the same host next to this one */
#define JOB_SETTLE	(HZ / 10) /* no leg came for so long: enter above; longer if that failed */
#define JOB_STALE	(3 * HZ / 2) /* a sender that has not entered for so long is gone */
#define JOB_LATE	HZ	/* a look so late means: this host stood still */
#define JOB_FORGET	(5 * HZ) /* what was done for a job counts half then */

unsigned int rar_box_net_id;	/* of struct rar_box, see rar_box_of() */
EXPORT_SYMBOL_GPL(rar_box_net_id);

/* -- packets of members ------------------------------------------------------ */

/* Let the work item look after the jobs at once. */
static void look_now(struct rar_box *box)
{
	mod_delayed_work(box->wq, &box->look, 0);
}

/* Where the leg of a member or of a box below is in job->leg; may be out of range. */
static u32 leg_index(u32 rank)
{
	return rank < RAR_LOWER_RANK ? rank : rank - RAR_LOWER_RANK;
}

/* The leg by which packets of @rank come, or NULL if no such member or box has entered. */
static struct rar_link *find_leg(struct rar_member *m, u32 rank, const struct rar_addr *from,
				 u64 token)
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

static struct rar_link *find_above(struct rar_member *m, u32 rank, const struct rar_addr *from,
				   u64 token)
{
	return rank == RAR_BOX_RANK ? m->link[RAR_LEG] : NULL;
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
	struct rar_box *box = job->box;
	struct rar_net *rn = m->rn;
	u32 i;

	for (i = 0; i < job->nlegs; i++) {
		rar_device_set(rn, &job->leg[i].link.hook, 0);
		dst_cache_destroy(&job->leg[i].link.path.cache);
		rar_seal_forget(&job->leg[i].link);
	}
	rar_seal_free(m);
	rar_link_free(m);
	kfree(job->scratch);
	kvfree(job);
	if (atomic_dec_and_test(&box->alive))
		wake_up_var(&box->alive);
}

static int init_member(struct box_job *job, const struct box_ask *ask)
{
	struct rar_member *m = &job->m;

	m->id = ask->id;
	m->rank = RAR_BOX_RANK;
	m->size = ask->size;
	m->epoch = rar_random_token();
	m->payload = ask->payload;
	m->aside = &job_aside;
	if (ask->security) {
		m->security = ask->security;
		m->tail = sizeof(struct rar_seal_tail);
		rar_key_set_box(m, &job->box->rn->box_key);
	}
	INIT_RCU_WORK(&m->free, job_free);
	return rar_self_init(m, job->box->self, &ask->to);
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
	return -ENOMEM;
}

static struct box_job *job_new(struct rar_box *box, const struct box_ask *ask)
{
	struct box_job *job = kvzalloc(struct_size(job, leg, ask->size),
				       GFP_KERNEL | __GFP_NOWARN);

	if (!job)
		return NULL;
	job->box = box;
	job->nlegs = ask->size;
	job->group_epoch = ask->epoch;
	job->digest = ask->digest;
	job->born = jiffies;
	job->host = ask->host;
	rar_slot_init(job);
	rar_batch_init(job);
	job->scratch = kmalloc(ask->payload, GFP_KERNEL);
	if (!job->scratch || init_member(job, ask) || init_legs(job)) {
		rar_seal_free(&job->m);
		rar_link_free(&job->m);
		kfree(job->scratch);
		kvfree(job);
		return NULL;
	}
	atomic_inc(&box->alive);
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
			rar_control_send(&job->leg[i].link, &h, sizeof(h), 0,
					 RAR_T_RESET, job->m.epoch);
	rar_life_end(&job->m);
	rar_member_put(&job->m);
}

/*
 * Do jobs of the same host take too many places? Each counts for the address of
 * its first leg, and for the host next to this one, which may have many.
 */
static bool host_has_many(const struct rar_box *box, const struct box_ask *ask)
{
	const struct box_job *job;
	u32 n = 0, next = 0, i;

	list_for_each_entry(job, &box->jobs, node) {
		next += job->host == ask->host;
		for (i = 0; i < job->nlegs && !job->leg[i].nonce; i++)
			;
		n += i < job->nlegs &&
		     ipv6_addr_equal(&job->leg[i].link.path.dst.ip, &ask->from.ip);
	}
	return next >= JOB_MAX_NEXT ||
	       n >= (ask->rank < RAR_LOWER_RANK ? JOB_MAX_OF_HOST :
						  JOB_MAX_OF_BOX);
}

/*
 * Make room in a full box: end the oldest job that not all members have entered for a while. A host
 * with many addresses could hold all places otherwise. Return: true if there was such a job.
 */
static bool make_room(struct rar_box *box)
{
	struct box_job *job;

	list_for_each_entry(job, &box->jobs, node)
		if (!job->open && time_after(jiffies, job->born + JOB_STALE)) {
			job_end(job);
			return true;
		}
	return false;
}

/* The job of a group, a new one if need be, or NULL. */
static struct box_job *job_of(struct rar_box *box, const struct box_ask *ask)
{
	struct box_job *job;

	list_for_each_entry(job, &box->jobs, node)
		if (job->m.id == ask->id && job->group_epoch == ask->epoch)
			break;
	if (!list_entry_is_head(job, &box->jobs, node)) {
		if (!ask->security || job->m.security)
			return job;
		/* A stranger said without a seal that it is of this group. */
		job_end(job);
	}
	if (host_has_many(box, ask) || (box->njobs >= JOB_MAX && !make_room(box)))
		return NULL;
	return job_new(box, ask);
}

/* Do two members of a job agree about the group? */
static bool agrees(const struct box_job *job, const struct box_ask *ask)
{
	const struct rar_addr *a = &job->m.self, *b = &ask->to;

	return job->digest == ask->digest && job->nlegs == ask->size &&
	       job->m.security == ask->security &&
	       job->m.payload == ask->payload &&
	       a->af == b->af && a->port == b->port && ipv6_addr_equal(&a->ip, &b->ip);
}

/* Has the leg another owner than the sender? */
static bool is_foreign(const struct box_leg *leg, const struct box_ask *ask)
{
	const struct rar_addr *a = &leg->link.path.dst;

	return a->port != ask->from.port || !ipv6_addr_equal(&a->ip, &ask->from.ip);
}

/*
 * Does another sender contribute for one of the ranks? A rank whose box is gone may come itself, or
 * by another box, but not while that job is open: it ends soon.
 */
static bool ranks_taken(const struct box_job *job, const struct box_ask *ask)
{
	const struct box_leg *leg;

	for (leg = job->leg; leg < job->leg + job->nlegs; leg++)
		if ((leg->ranks & ask->ranks) && is_foreign(leg, ask) &&
		    (job->open || time_before(jiffies, leg->link.heard + JOB_STALE)))
			return true;
	return false;
}

/*
 * Is it a late copy of an ENTER? A member that enters anew takes a later nonce, and so does a box
 * below. If the clock of such a box was set back, its old leg has to become silent first.
 */
static bool enters_late(const struct box_leg *leg, const struct box_ask *ask)
{
	return leg->nonce && (s64)(ask->nonce - leg->nonce) < 0 && !is_foreign(leg, ask) &&
	       time_before(jiffies, READ_ONCE(leg->link.heard) + JOB_STALE);
}

static void leg_clear(struct box_job *job, struct box_leg *leg)
{
	WRITE_ONCE(leg->nonce, 0);
	job->ranks &= ~leg->ranks;
	leg->ranks = 0;
	rar_device_set(job->m.rn, &leg->link.hook, 0);
	rar_route_forget(&leg->link.path);
}

/*
 * Make the keys of a leg that nobody uses yet. Before the job opens nothing is
 * sent with them, so a nonce may come again.
 */
static bool leg_seal(struct box_job *job, struct box_leg *leg,
		     const struct box_ask *ask)
{
	int err;

	spin_lock_bh(&job->m.lock);
	err = rar_seal_leg(&leg->link, job->group_epoch, ask->nonce,
			   job->m.epoch);
	spin_unlock_bh(&job->m.lock);
	return !err;
}

/*
 * Let a sender have a leg. Older legs of its ranks are gone. Returns false
 * without memory: then nobody has the leg.
 */
static bool leg_fill(struct box_job *job, struct box_leg *leg,
		     const struct box_ask *ask)
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
	if (!leg_seal(job, leg, ask))
		return false;
	leg->ranks = ask->ranks;
	leg->pad = ask->pad;
	leg->in_turn = ask->in_turn;
	job->ranks |= ask->ranks;
	job->last = jiffies;
	WRITE_ONCE(leg->nonce, ask->nonce);
	rar_device_set(job->m.rn, &leg->link.hook, ask->way.dev);
	return true;
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
static bool in_circle(struct rar_box *box, const struct box_ask *ask)
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

	rar_control_send(&leg->link, &eh, sizeof(eh), leg->pad, RAR_T_ENTERED,
			 job->group_epoch);
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
static struct box_job *begin_anew(struct rar_box *box, struct box_job *job,
				  const struct box_ask *ask)
{
	if (!job->open) {
		job->again |= !!job->up;
		rar_up_end(job);
		return job;
	}
	job_end(job);
	return job_of(box, ask);
}

/*
 * Does the path back to a sender carry a full packet, as far as this host
 * knows, and does the sender use that path?
 */
static bool is_wide(const struct rar_box *box, const struct box_ask *ask)
{
	struct rar_path path = { .src = ask->to, .dst = ask->from };
	u32 full = sizeof(struct rar_data_hdr) + ask->payload;
	struct dst_entry *dst;
	bool wide;

	if (ask->security)
		full += sizeof(struct rar_seal_tail);

	if (!rar_route_takes_from(box->self, &ask->from, &ask->to, &ask->way)) {
		rar_mib_inc(box->rn, DropDevice);
		return false;
	}
	dst = rar_route_new(box->self, &path);
	if (IS_ERR(dst))
		return false;
	wide = dst_mtu(dst) >= rar_ip_hdr_size(&path) + sizeof(struct udphdr) +
			       full;
	dst_release(dst);
	return wide;
}

/**
 * rar_job_enter() - take in an ENTER
 * @box: the box
 * @ask: from the ENTER
 *
 * The sender gets a leg and an answer, or nothing. Process context, rn->box_lock held.
 */
void rar_job_enter(struct rar_box *box, const struct box_ask *ask)
{
	struct box_job *job = NULL;
	struct box_leg *leg;
	u32 i = leg_index(ask->rank);

	lockdep_assert_held(&box->rn->box_lock);
	/* The key that the seal was opened with may be gone. */
	if ((!ask->security || box->rn->box_key.len) &&
	    !in_circle(box, ask) &&
	    rar_allow_has(box->self, &ask->from, &ask->to) &&
	    is_wide(box, ask))
		job = job_of(box, ask);
	if (job && job->m.security && !ask->security) {
		rar_mib_inc(box->rn, DropUnsealed);
		return;
	}
	if (!job || !agrees(job, ask) || ranks_taken(job, ask) ||
	    enters_late(&job->leg[i], ask)) {
		rar_mib_inc(box->rn, JoinsRefused);
		return;
	}
	if (job->leg[i].nonce != ask->nonce) {
		job = begin_anew(box, job, ask);
		if (!job || !leg_fill(job, &job->leg[i], ask))
			return;
	}
	leg = &job->leg[i];
	WRITE_ONCE(leg->link.heard, jiffies);
	if (!job->open && job->ranks == box_all_ranks(job->nlegs)) {
		open_job(job);
		return;
	}
	send_entered(job, leg, ask->cookie);
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

/*
 * This host stood still: no job waits for longer than before, and no member is
 * silent for longer.
 */
static void job_later(struct box_job *job, unsigned long late)
{
	u32 i;

	job->born += late;
	job->last += late;
	for (i = 0; i < job->nlegs; i++)
		rar_member_hear_later(&job->leg[i].link, late);
	rar_up_later(job, late);
}

/**
 * rar_job_look() - look after the jobs of a box
 * @box: the box
 *
 * Jobs whose members are silent end, and so do those that not all members enter in time. Others
 * enter at the box above, or open, when it is time. Process context, rn->box_lock held.
 *
 * Return: after how many jiffies to look again.
 */
unsigned long rar_job_look(struct rar_box *box)
{
	bool forget = time_after_eq(jiffies, box->forget);
	unsigned long late = jiffies - box->look_due, look_in;
	struct box_job *job, *tmp;

	lockdep_assert_held(&box->rn->box_lock);
	list_for_each_entry_safe(job, tmp, &box->jobs, node) {
		if ((long)late > JOB_LATE)
			job_later(job, late);
		if (forget)
			rar_pool_forget(job);
		if (job_over(job))
			job_end(job);
		else
			look_up(job);
	}
	if (forget)
		box->forget = jiffies + JOB_FORGET;
	look_in = upper(box).af ? JOB_SETTLE : BOX_JOB_LOOK;
	box->look_due = jiffies + look_in;
	return look_in;
}

/*
 * End all jobs of a box, or those with seals. Process context, rn->box_lock
 * held.
 */
void rar_job_end_all(struct rar_box *box, bool sealed_only)
{
	struct box_job *job, *tmp;

	list_for_each_entry_safe(job, tmp, &box->jobs, node)
		if (job->m.security || !sealed_only)
			job_end(job);
}

/**
 * rar_job_entered_err() - take in an ICMP error that quotes an ENTERED of the box
 * @box:     the box
 * @id:      group id
 * @epoch:   the token: the group's epoch
 * @rank:    member, or box below, that it was for
 * @way:     how the error came
 * @too_big: a router says that it was too big, so the path carries no sum either
 *
 * Softirq, RCU read side. An error has no seal: a group with seals believes
 * none.
 *
 * Return: false if no job sent it.
 */
bool rar_job_entered_err(struct rar_box *box, u64 id, u64 epoch, u32 rank,
			 const struct rar_way *way, bool too_big)
{
	struct rar_link *link = NULL;
	struct box_job *job;

	list_for_each_entry_rcu(job, &box->jobs, node)
		if (job->m.id == id && job->group_epoch == epoch &&
		    !job->m.security)
			link = find_leg(&job->m, rank, NULL, 0);
	if (!link)
		return false;
	if (!way->inside && !rar_route_takes(link->member, &link->path, way))
		return false;
	if (too_big)
		WRITE_ONCE(link->narrow, true);
	return true;
}
