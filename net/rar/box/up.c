// SPDX-License-Identifier: GPL-2.0
/*
 * This box as a member of the box above it (net.rar.box_up), for one job: it enters for the ranks
 * that have entered here, contributes the sums of them, and receives the sums of all ranks.
 *
 * It has no window and no timers of its own. A contribution goes up when all members have sent
 * theirs, so their windows limit what is on the way; and it goes up again when a member asks again.
 */
#include <net/udp.h>

#include "box/slot.h"
#include "box/up.h"
#include "core/hdr.h"
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
#include "tx/run.h"

#define UP_SILENT	(2 * HZ)	/* no answer for so long: the box above is gone */

/*
 * struct box_up - a job at the box above
 * @m:		what packets from above find: its rank is that of a lower box. Its epoch is the
 *		group's while it enters, then that of the leg
 * @job:	the job, referenced
 * @nonce:	of the ENTER; rn->box_lock
 * @cookie:	from ENTERED, 0 = not known yet
 * @in_turn:	partial sums go from box to box, says the box above
 * @asked:	when something was sent to which nothing has come yet, jiffies; 0: nothing
 */
struct box_up {
	struct rar_member m;
	struct box_job *job;
	u64 nonce;
	u64 cookie;
	bool in_turn;
	unsigned long asked;
};

static struct box_up *box_up(struct rar_member *m)
{
	return container_of(m, struct box_up, m);
}

static struct rar_link *up_link(struct box_up *up)
{
	return up->m.link[RAR_LEG];
}

/* -- packets from above ------------------------------------------------------- */

/*
 * The box above is open, as ENTERED says. Without memory for keys nothing
 * happens, and ENTERED comes again.
 */
static void open_up(struct box_up *up, u64 epoch, u32 flags)
{
	struct rar_link *link = up_link(up);

	spin_lock_bh(&up->m.lock);
	if (!link->epoch &&
	    !rar_seal_leg(link, up->job->group_epoch, up->nonce, epoch)) {
		up->in_turn = flags & RAR_EF_IN_TURN;
		/*
		 * From now on packets with this token find the member. Pairs
		 * with the acquire in rar_up_is_open().
		 */
		smp_store_release(&link->epoch, epoch);
		WRITE_ONCE(up->m.epoch, epoch);
	}
	spin_unlock_bh(&up->m.lock);
}

static void rcv_entered(struct box_up *up, const struct rar_pkt *pkt)
{
	struct rar_entered_hdr eh;

	if (skb_copy_bits(pkt->skb, pkt->off, &eh, sizeof(eh)) ||
	    be64_to_cpu(eh.nonce) != up->nonce || READ_ONCE(up_link(up)->epoch))
		return;
	if (eh.epoch)
		open_up(up, be64_to_cpu(eh.epoch), be32_to_cpu(eh.flags));
	if (eh.cookie)
		WRITE_ONCE(up->cookie, be64_to_cpu(eh.cookie));
}

/**
 * rar_up_rcv() - note that a packet came from the box above
 * @m:   what the packet found
 * @pkt: validated; ENTERED is taken in
 *
 * Softirq, RCU read side.
 *
 * Return: the job that it is for.
 */
struct box_job *rar_up_rcv(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct box_up *up = box_up(m);

	WRITE_ONCE(pkt->link->heard, jiffies);
	WRITE_ONCE(up->asked, 0);
	if (pkt->h.type == RAR_T_ENTERED)
		rcv_entered(up, pkt);
	return up->job;
}

/* -- begin and end (rn->box_lock) ------------------------------------------------ */

static void up_free(struct work_struct *work)
{
	struct rar_member *m = container_of(to_rcu_work(work), struct rar_member, free);
	struct box_up *up = box_up(m);
	struct rar_box *box = up->job->box;

	rar_seal_free(m);
	rar_link_free(m);
	rar_member_put(&up->job->m);
	kfree(up);
	if (atomic_dec_and_test(&box->alive))
		wake_up_var(&box->alive);
}

static int init_member(struct box_up *up, const struct box_job *job,
		       const struct rar_addr *to, const struct rar_aside *aside)
{
	const struct rar_addr self = { .af = to->af, .port = job->box->port };
	struct rar_member *m = &up->m;

	if (rar_self_init(m, job->box->self, &self) ||
	    rar_link_new(m, RAR_LEG, RAR_BOX_RANK, GFP_KERNEL))
		return -ENOMEM;
	m->id = job->m.id;
	m->rank = RAR_LOWER_RANK + __ffs64(job->ranks);
	m->size = job->nlegs;
	m->epoch = job->group_epoch;
	m->payload = job->m.payload;
	m->security = job->m.security;
	m->tail = job->m.tail;
	rar_key_set_box(m, &job->m.trust.box);
	m->aside = aside;
	INIT_RCU_WORK(&m->free, up_free);
	up_link(up)->path.src = self;
	up_link(up)->path.dst = *to;
	return 0;
}

/* Make the member for a job. Returns NULL without memory, or without a box above. */
static struct box_up *up_new(struct box_job *job, const struct rar_aside *aside)
{
	struct rar_net *rn = job->m.rn;
	struct rar_addr to;
	struct box_up *up;

	spin_lock_bh(&rn->lock);
	to = rn->box_up;
	spin_unlock_bh(&rn->lock);
	up = to.af ? kzalloc(sizeof(*up), GFP_KERNEL) : NULL;
	if (!up)
		return NULL;
	/* Later than that of a box that was here before: see enters_late(). */
	up->nonce = ktime_get_real_ns();
	if (init_member(up, job, &to, aside)) {
		rar_seal_free(&up->m);
		rar_link_free(&up->m);
		kfree(up);
		return NULL;
	}
	refcount_inc(&job->m.ref);
	up->job = job;
	atomic_inc(&job->box->alive);
	if (rar_member_hash_job(&up->m)) {
		rar_member_put(&up->m);
		return NULL;
	}
	return up;
}

/* Find the route. Returns false if the path does not carry a full packet. */
static bool prepare(struct box_up *up)
{
	struct rar_link *link = up_link(up);
	u32 mtu, full = rar_ip_hdr_size(&link->path) + sizeof(struct udphdr) +
			rar_stride(&up->m);
	int dev;

	if (rar_route_find(&up->m, &link->path, &mtu, &dev))
		return false;
	up->m.self = link->path.src;
	rar_device_set(up->m.rn, &link->hook, dev);
	return full <= mtu;
}

/**
 * rar_up_enter() - enter at the box above for the ranks that have entered here
 * @job:   not open
 * @in_turn: all boxes below can add to partial sums
 * @aside: takes in what comes from there
 *
 * Process context, rn->box_lock held. To be called again and again until rar_up_is_open().
 */
void rar_up_enter(struct box_job *job, bool in_turn, const struct rar_aside *aside)
{
	struct rar_enter_hdr eh;
	struct box_up *up;

	if (!job->up)
		WRITE_ONCE(job->up, up_new(job, aside));
	up = job->up;
	if (!up || !prepare(up))
		return;
	eh = (struct rar_enter_hdr) {
		.digest = cpu_to_be64(job->digest),
		.nonce = cpu_to_be64(up->nonce),
		.cookie = cpu_to_be64(READ_ONCE(up->cookie)),
		.payload = cpu_to_be32(job->m.payload),
		.size = cpu_to_be16(job->nlegs),
		.ranks = cpu_to_be64(job->ranks),
		.flags = cpu_to_be32((in_turn ? RAR_EF_IN_TURN : 0) |
				     (up->m.security == RAR_SECURITY_ENCRYPT ?
				      RAR_EF_ENCRYPT : 0)),
	};
	rar_control_send(up_link(up), &eh, sizeof(eh),
			 sizeof(struct rar_data_hdr) + up->m.payload - sizeof(eh),
			 RAR_T_ENTER, job->group_epoch);
}

/* Has the box above opened for a job that entered there? rn->box_lock held. */
bool rar_up_is_open(const struct box_job *job)
{
	/* Pairs with the release in rcv_entered(). */
	return smp_load_acquire(&up_link(job->up)->epoch);
}

/* Do partial sums go from box to box? rn->box_lock held; only if rar_up_is_open(). */
bool rar_up_is_in_turn(const struct box_job *job)
{
	return job->up->in_turn;
}

/**
 * rar_up_is_lost() - has the box above been silent for too long, or does the path carry less?
 * @job:  rn->box_lock held
 * @dead: net.rar.dead_ms in jiffies
 *
 * Return: false, too, if there is none.
 */
bool rar_up_is_lost(const struct box_job *job, unsigned long dead)
{
	const struct box_up *up = job->up;
	const struct rar_link *link;
	unsigned long asked;

	if (!up)
		return false;
	link = up_link(job->up);
	asked = READ_ONCE(up->asked);
	return READ_ONCE(link->narrow) || (asked && time_after(jiffies, asked + UP_SILENT)) ||
	       time_after(jiffies, READ_ONCE(link->heard) + dead);
}

/*
 * This host stood still: the box above has been silent for that much less.
 * rn->box_lock held.
 */
void rar_up_later(const struct box_job *job, unsigned long late)
{
	struct box_up *up = job->up;

	if (!up)
		return;
	rar_member_hear_later(up_link(up), late);
	if (READ_ONCE(up->asked))
		WRITE_ONCE(up->asked, jiffies | 1);
}

/**
 * rar_up_end() - leave the box above
 * @job: rn->box_lock held
 */
void rar_up_end(struct box_job *job)
{
	struct box_up *up = job->up;
	struct rar_hdr h;
	u64 epoch;

	if (!up)
		return;
	WRITE_ONCE(job->up, NULL);
	epoch = READ_ONCE(up_link(up)->epoch);
	if (epoch)
		rar_control_send(up_link(up), &h, sizeof(h), 0, RAR_T_RESET,
				 epoch);
	rar_life_end(&up->m);
	rar_member_put(&up->m);
}

/* -- packets to the box above ------------------------------------------------------ */

/* Something was sent that the box above will answer. */
static void note_asked(struct box_up *up)
{
	if (!READ_ONCE(up->asked))
		WRITE_ONCE(up->asked, jiffies ?: 1);
}

/**
 * rar_up_tell() - tell the box above that this box lives, and what is complete here
 * @job: open
 *
 * RCU read side or rn->box_lock; job->lock not held. Does nothing without a box above, or before
 * all members have told what is complete there.
 */
void rar_up_tell(struct box_job *job)
{
	struct box_up *up = READ_ONCE(job->up);
	struct rar_probe_hdr ph = { };
	bool told;

	if (!up)
		return;
	spin_lock_bh(&job->lock);
	told = job->told;
	ph.una = cpu_to_be32(rar_slot_lowest_rising(job));
	ph.done = cpu_to_be32((u32)job->base);
	ph.op_seq = cpu_to_be64(job->until);
	spin_unlock_bh(&job->lock);
	if (!told)
		return;
	note_asked(up);
	rar_control_send(up_link(up), &ph, sizeof(ph),
			 sizeof(struct rar_ack_hdr) - sizeof(ph), RAR_T_PROBE,
			 up_link(up)->epoch);
}

/*
 * Send the chunks of @out->rise from chunk @i on, as far as their numbers are consecutive and the
 * same number of ranks has added to each. Returns how many were sent.
 */
static u32 send_run(struct box_up *up, const struct box_out *out, u32 i, u32 n)
{
	struct rar_link *link = up_link(up);
	u32 max = max(READ_ONCE(link->path.run_max), 1U), k;
	const struct box_slot *first = out->sums[i];
	u32 seq = READ_ONCE(first->up_seq);
	bool asks = out->asks >> i & 1;
	struct kvec part[RAR_RUN_MAX];
	struct rar_data_hdr dh;

	for (k = 0; k < min(max, n - i); k++) {
		if (!(out->rise >> (i + k) & 1) || (out->asks >> (i + k) & 1) != asks ||
		    out->turn[i + k] != out->turn[i] ||
		    READ_ONCE(out->sums[i + k]->up_seq) != seq + k)
			break;
		part[k].iov_base = out->sums[i + k]->sum;
		part[k].iov_len = out->sums[i + k]->len;
	}
	/* Another CPU may have sent it again just now, with another number. */
	if (!k)
		return 1;
	dh = first->dh;
	dh.seq = cpu_to_be32(seq);
	dh.una = cpu_to_be32(out->una);
	dh.box.prio = first->prio;
	if (asks) {
		dh.box.chunks = k;
		rar_control_send(link, &dh, sizeof(dh), 0, RAR_T_RS,
				 link->epoch);
		return k;
	}
	dh.box.ranks = cpu_to_be16(out->turn[i]);
	if (rar_run_sums(link, &dh, part, k, RAR_T_RS, link->epoch) ==
	    -EMSGSIZE)
		WRITE_ONCE(link->narrow, true);
	return k;
}

/**
 * rar_up_send() - send contributions of this box to the box above, or ask it for partial sums
 * @job: open
 * @out: its @rise are the chunks of a run to send
 * @n:   chunks of the run
 *
 * Softirq, RCU read side; no lock held.
 *
 * The sum that comes from above overwrites what is being copied here. A packet that holds a part of
 * each does no harm: the box above that made this sum has this contribution already, and drops it.
 * Nor does a packet with a later partial sum: its header says how many ranks had added before, and
 * the box above has had the earlier partial sum.
 */
void rar_up_send(struct box_job *job, const struct box_out *out, u32 n)
{
	struct box_up *up = READ_ONCE(job->up);
	u32 i, k;

	if (!up || !out->rise)
		return;
	note_asked(up);
	for (i = 0; i < n; i += k)
		k = out->rise >> i & 1 ? send_run(up, out, i, n) : 1;
}

/* Tell the box above which chunks this box gives up. As rar_up_send(). */
void rar_up_return(struct box_job *job, struct rar_chunks_hdr *ch)
{
	struct box_up *up = READ_ONCE(job->up);

	if (up)
		rar_control_send(up_link(up), ch, sizeof(*ch), 0, RAR_T_RETURN,
				 up_link(up)->epoch);
}
