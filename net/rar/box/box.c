// SPDX-License-Identifier: GPL-2.0
/*
 * The box of a namespace: it begins and ends, and takes in ENTER. job.c has the jobs that members
 * enter.
 *
 *	ENTER without cookie   -> ENTERED with a cookie; nothing is kept
 *	ENTER with the cookie  -> the member has a leg; ENTERED, with the epoch when all have
 *	ENTER, its seal wrong  -> as without cookie; so its sender sees that the
 *				  keys differ
 *
 * ENTER comes by the UDP socket, as no member receives it. It is taken in by a work item.
 *
 * The module rar_box begins and ends here, too. It has a box in each namespace,
 * and most are off. A box that is on holds a reference on the module.
 */
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "box/allow.h"
#include "box/door.h"
#include "box/job.h"
#include "box/offer.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/role.h"
#include "group/self.h"
#include "tx/control.h"

#define BOX_ASKS	256	/* ENTERs that wait */

static struct workqueue_struct *box_wq;

/* -- ENTER ------------------------------------------------------------------ */

/* The cookie of a sender. */
static u64 cookie_of(const struct rar_box *box, const struct rar_addr *from, u64 id, u64 epoch)
{
	struct {
		struct in6_addr ip;
		u64 id, epoch, port;
	} in = { from->ip, id, epoch, (__force u16)from->port };

	return siphash(&in, sizeof(in), &box->key) ?: 1;
}

/* Are the ranks some of the group's, and is the sender the lowest of them? */
static bool has_ranks(struct box_ask *ask)
{
	if (!ask->ranks && ask->rank < ask->size)
		ask->ranks = BIT_ULL(ask->rank);
	else if (!ask->ranks || ask->rank != RAR_LOWER_RANK + __ffs64(ask->ranks))
		return false;
	/* A box that has all ranks needs none above it. */
	return ask->ranks < box_all_ranks(ask->size);
}

/* The level of the group of an ENTER whose seal, if there is one, is right. */
static u8 level_of(const struct rar_enter_hdr *eh, bool sealed)
{
	bool encrypt = be32_to_cpu(eh->flags) & RAR_EF_ENCRYPT;

	if (!sealed)
		return RAR_SECURITY_OFF;
	return encrypt ? RAR_SECURITY_ENCRYPT : RAR_SECURITY_AUTH;
}

static void rcv_enter(struct rar_box *box, const struct rar_pkt *pkt,
		      const struct rar_enter_hdr *eh, bool sealed)
{
	struct box_ask ask = {
		.from = pkt->from, .to = pkt->to, .way = pkt->way,
		.host = rar_allow_neighbour(pkt->skb, &pkt->from),
		.id = be64_to_cpu(eh->h.group), .epoch = be64_to_cpu(eh->h.token),
		.digest = be64_to_cpu(eh->digest), .nonce = be64_to_cpu(eh->nonce),
		.rank = be16_to_cpu(eh->h.src), .size = be16_to_cpu(eh->size),
		.payload = be32_to_cpu(eh->payload),
		.cookie = be64_to_cpu(eh->cookie), .ranks = be64_to_cpu(eh->ranks),
		.security = level_of(eh, sealed),
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
	if (box->nasks < BOX_ASKS)
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
static void send_cookie(struct rar_member *self, const struct rar_pkt *pkt,
			u64 cookie, const struct rar_enter_hdr *eh)
{
	struct rar_entered_hdr ed = { .nonce = eh->nonce, .cookie = cpu_to_be64(cookie) };

	rar_control_reply(self, pkt, &ed, sizeof(ed), RAR_T_ENTERED,
			  be64_to_cpu(pkt->h.token));
}

static bool read_enter(const struct rar_pkt *pkt, struct rar_enter_hdr *eh)
{
	return !skb_copy_bits(pkt->skb, pkt->off, eh, sizeof(*eh));
}

/* Take in ENTER. @self: sends the answer, with a seal or without */
static bool judge_enter(struct rar_box *box, struct rar_member *self,
			struct rar_pkt *pkt, bool sealed)
{
	struct rar_enter_hdr eh;
	bool good = true;
	u64 cookie;

	if (pkt->len < sizeof(eh) || !read_enter(pkt, &eh))
		return false;
	/* What was opened counts, if somebody writes to the packet. */
	if (sealed)
		good = rar_door_opens(box, pkt) && read_enter(pkt, &eh);
	cookie = cookie_of(box, &pkt->from, be64_to_cpu(eh.h.group),
			   be64_to_cpu(eh.h.token));
	if (good && be64_to_cpu(eh.cookie) == cookie)
		rcv_enter(box, pkt, &eh, sealed);
	else
		send_cookie(self, pkt, cookie, &eh);
	return true;
}

/* Take in a packet to the box that no job has: see rar_role_stranger(). */
static bool stranger(struct rar_net *rn, struct rar_pkt *pkt)
{
	u32 len = sizeof(pkt->h) + be16_to_cpu(pkt->h.len);
	bool sealed = pkt->len == len + sizeof(struct rar_seal_tail);
	struct rar_box *box = rar_box_of(rn->net);
	struct rar_member *self;

	if (!rar_box_is_on(box) || (pkt->h.version & 0xf) != RAR_WIRE_VERSION ||
	    (pkt->len != len && !sealed))
		return false;
	pkt->len = len;
	self = sealed ? rar_door_self(box) : box->self;
	switch (pkt->h.type) {
	case RAR_T_RS:
	case RAR_T_PROBE:
		/* A leg of a box that was here before. */
		if (!self)
			return false;
		rar_control_reset(self, pkt);
		rar_mib_inc(rn, DropEpoch);
		return true;
	case RAR_T_ENTER:
		/* A box without a key says so by an answer without a seal. */
		return judge_enter(box, self ?: box->self, pkt, sealed);
	}
	return false;
}

/* Take in an ICMP error that quotes an ENTERED: see rar_role_entered_err(). */
static bool entered_err(struct rar_net *rn, u64 id, u64 epoch, u32 rank,
			const struct rar_way *way, bool too_big)
{
	return rar_job_entered_err(rar_box_of(rn->net), id, epoch, rank, way,
				   too_big);
}

/* -- work items --------------------------------------------------------------- */

static struct box_ask *next_ask(struct rar_box *box)
{
	struct box_ask *ask;

	spin_lock_bh(&box->lock);
	ask = list_first_entry_or_null(&box->asks, struct box_ask, node);
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
	struct box_ask *ask;

	while ((ask = next_ask(box))) {
		mutex_lock(&box->rn->box_lock);
		if (box->on)
			rar_job_enter(box, ask);
		mutex_unlock(&box->rn->box_lock);
		kfree(ask);
	}
}

static void look_work(struct work_struct *work)
{
	struct rar_box *box = container_of(to_delayed_work(work), struct rar_box, look);
	unsigned long next;

	mutex_lock(&box->rn->box_lock);
	next = rar_job_look(box);
	if (box->on)
		queue_delayed_work(box_wq, &box->look, next);
	mutex_unlock(&box->rn->box_lock);
}

/* -- begin and end --------------------------------------------------------------- */

/* Nobody finds the key in what is on. Without one nothing can fail. */
static void forget_key(struct rar_box *box)
{
	const struct rar_secret none = { };

	rar_door_set_key(box, &none);
}

/* Begin. The caller has a reference on this module, so it can be had again. */
static int box_start(struct rar_box *box)
{
	int err;

	lockdep_assert_held(&box->rn->box_lock);
	if (box->ended)
		return -ENODEV;
	if (!box->self)
		box->self = rar_self_new(box->rn);
	if (!box->self)
		return -ENOMEM;
	box->port = htons(READ_ONCE(box->rn->sysctl_port));
	err = rar_self_open(box->self, box->port, box->ports);
	if (err)
		return err;
	err = rar_door_set_key(box, &box->rn->box_key) ?:
	      rar_offer_set(box, box->rn->sysctl_box_offer);
	if (err) {
		forget_key(box);
		rar_self_close(box->self, box->ports);
		return err;
	}
	__module_get(THIS_MODULE);
	/* Pairs with the acquire in rar_box_is_on(). */
	smp_store_release(&box->on, true);
	box->look_due = jiffies + BOX_JOB_LOOK;
	queue_delayed_work(box_wq, &box->look, BOX_JOB_LOOK);
	return 0;
}

/*
 * End. The module stays: the caller has a reference on it too, or is the end of
 * the namespace, for which the end of the module waits.
 */
static void box_stop(struct rar_box *box)
{
	lockdep_assert_held(&box->rn->box_lock);
	WRITE_ONCE(box->on, false);
	rar_offer_set(box, false);
	rar_job_end_all(box, false);
	forget_key(box);
	rar_self_close(box->self, box->ports);
	module_put(THIS_MODULE);
}

/* Be a box, or be one no more: see rar_role_set_mem(). */
static int set_mem(struct rar_net *rn, unsigned long bytes)
{
	struct rar_box *box = rar_box_of(rn->net);
	int err = 0;

	mutex_lock(&rn->box_lock);
	if (bytes && !box->on)
		err = box_start(box);
	if (!err)
		WRITE_ONCE(rn->sysctl_box_mem, bytes);
	if (!bytes && box->on)
		box_stop(box);
	mutex_unlock(&rn->box_lock);
	return err;
}

/* net.rar.box_offer is written: see rar_role_set_offer(). */
static int set_offer(struct rar_net *rn, bool on)
{
	struct rar_box *box = rar_box_of(rn->net);

	return rar_offer_set(box, on && box->on);
}

/*
 * The box gets another key, or none: see rar_role_set_key(). Groups that
 * trusted the old one go on by the ring.
 */
static int set_key(struct rar_net *rn, const struct rar_secret *key)
{
	struct rar_box *box = rar_box_of(rn->net);
	int err;

	if (!box->on)
		return 0;
	err = rar_door_set_key(box, key);
	if (!err)
		rar_job_end_all(box, true);
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

/* Show the box of a namespace, with its @jobs or without. */
static void show(struct rar_net *rn, struct seq_file *seq, bool jobs)
{
	struct rar_box *box = rar_box_of(rn->net);
	struct box_job *job;

	mutex_lock(&rn->box_lock);
	seq_printf(seq, "limit %lu used %lld jobs %u\n", rn->sysctl_box_mem,
		   (s64)atomic64_read(&box->used), box->njobs);
	seq_puts(seq, RAR_ROLE_COLUMNS);
	if (jobs)
		list_for_each_entry(job, &box->jobs, node)
			show_job(seq, job);
	mutex_unlock(&rn->box_lock);
}

/* -- namespaces and the module --------------------------------------------- */

static int __net_init box_net_init(struct net *net)
{
	struct rar_box *box = rar_box_of(net);

	box->rn = rar_net(net);
	box->wq = box_wq;
	INIT_LIST_HEAD(&box->jobs);
	INIT_LIST_HEAD(&box->asks);
	spin_lock_init(&box->lock);
	atomic64_set(&box->used, 0);
	atomic_set(&box->alive, 0);
	get_random_bytes(&box->key, sizeof(box->key));
	box->forget = jiffies;
	INIT_WORK(&box->enter, enter_work);
	INIT_DELAYED_WORK(&box->look, look_work);
	return 0;
}

/*
 * At the end of a namespace, before that of its members; or of this module,
 * when no box is on. Packets may still come.
 */
static void __net_exit box_net_pre_exit(struct net *net)
{
	struct rar_box *box = rar_box_of(net);
	struct rar_net *rn = box->rn;

	mutex_lock(&rn->box_lock);
	box->ended = true;
	if (box->on) {
		WRITE_ONCE(rn->sysctl_box_mem, 0);
		box_stop(box);
	}
	mutex_unlock(&rn->box_lock);
	cancel_work_sync(&box->enter);
	cancel_delayed_work_sync(&box->look);
	wait_var_event(&box->alive, !atomic_read(&box->alive));
}

/* No packet comes any more. */
static void __net_exit box_net_exit(struct net *net)
{
	struct rar_box *box = rar_box_of(net);
	struct box_ask *ask;

	/* Packets may have started them again. */
	cancel_work_sync(&box->enter);
	cancel_delayed_work_sync(&box->look);
	while ((ask = next_ask(box)))
		kfree(ask);
	rar_self_free(box->self);
}

static struct pernet_operations box_net_ops = {
	.init = box_net_init,
	.pre_exit = box_net_pre_exit,
	.exit = box_net_exit,
	.id = &rar_box_net_id,
	.size = sizeof(struct rar_box),
};

static const struct rar_role box_role = {
	RAR_ROLE_HEAD,
	.set = set_mem,
	.show = show,
	.set_offer = set_offer,
	.set_key = set_key,
	.stranger = stranger,
	.entered_err = entered_err,
};

static int __init box_init(void)
{
	int err;

	box_wq = alloc_workqueue("rar_box", WQ_UNBOUND, 0);
	if (!box_wq)
		return -ENOMEM;
	err = register_pernet_subsys(&box_net_ops);
	if (err)
		goto err_wq;
	err = rar_role_register(RAR_ROLE_BOX, &box_role);
	if (err)
		goto err_net;
	return 0;

err_net:
	unregister_pernet_subsys(&box_net_ops);
err_wq:
	destroy_workqueue(box_wq);
	return err;
}

static void __exit box_exit(void)
{
	rar_role_unregister(RAR_ROLE_BOX);
	unregister_pernet_subsys(&box_net_ops);
	/* Jobs are freed; the functions that did so may not have returned. */
	rar_member_flush();
	destroy_workqueue(box_wq);
}

module_init(box_init);
module_exit(box_exit);
MODULE_DESCRIPTION("AF_RAR: the aggregation box");
MODULE_LICENSE("GPL");
MODULE_ALIAS(RAR_ROLE_ALIAS_BOX);
