// SPDX-License-Identifier: GPL-2.0
/*
 * The box of a namespace: it begins and ends, and takes in ENTER. job.c has the jobs that members
 * enter.
 *
 *	ENTER without cookie   -> ENTERED with a cookie; nothing is kept
 *	ENTER with the cookie  -> the member has a leg; ENTERED, with the epoch when all have
 *
 * ENTER comes by the UDP socket, as no member receives it. It is taken in by a work item.
 */
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "box/allow.h"
#include "box/box.h"
#include "box/job.h"
#include "box/offer.h"
#include "box/roce.h"
#include "core/mib.h"
#include "tx/control.h"
#include "tx/port.h"
#include "tx/sender.h"

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

static void rcv_enter(struct rar_box *box, const struct rar_pkt *pkt,
		      const struct rar_enter_hdr *eh)
{
	struct box_ask ask = {
		.from = pkt->from, .to = pkt->to, .way = pkt->way,
		.host = rar_allow_neighbour(pkt->skb, &pkt->from),
		.id = be64_to_cpu(eh->h.group), .epoch = be64_to_cpu(eh->h.token),
		.digest = be64_to_cpu(eh->digest), .nonce = be64_to_cpu(eh->nonce),
		.rank = be16_to_cpu(eh->h.src), .size = be16_to_cpu(eh->size),
		.payload = be32_to_cpu(eh->payload), .uncut = be32_to_cpu(eh->uncut),
		.cookie = be64_to_cpu(eh->cookie), .ranks = be64_to_cpu(eh->ranks),
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
static void send_cookie(struct rar_box *box, const struct rar_pkt *pkt, u64 cookie,
			const struct rar_enter_hdr *eh)
{
	struct rar_entered_hdr ed = { .nonce = eh->nonce, .cookie = cpu_to_be64(cookie) };

	rar_control_reply(box->self, pkt, &ed, sizeof(ed), RAR_T_ENTERED,
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
		rar_control_reset(box->self, pkt);
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
 * @way:     how the error came
 * @too_big: a router says that it was too big, so the path carries no sum either
 *
 * Softirq, RCU read side.
 *
 * Return: false if the box here did not send it.
 */
bool rar_box_entered_err(struct rar_net *rn, u64 id, u64 epoch, u32 rank,
			 const struct rar_way *way, bool too_big)
{
	/* Pairs with the release in box_make(). */
	struct rar_box *box = smp_load_acquire(&rn->box);

	return box && rar_job_entered_err(box, id, epoch, rank, way, too_big);
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
	box->wq = box_wq;
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
	rn->box->look_due = jiffies + BOX_JOB_LOOK;
	queue_delayed_work(box_wq, &rn->box->look, BOX_JOB_LOOK);
	return 0;
}

static void box_stop(struct rar_box *box)
{
	WRITE_ONCE(box->on, false);
	rar_job_end_all(box);
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

/* Show the box of a namespace, with its @jobs or without. Process context. */
void rar_box_show(struct rar_net *rn, struct seq_file *seq, bool jobs)
{
	struct box_job *job;

	mutex_lock(&rn->box_lock);
	seq_printf(seq, "limit %lu used %lld jobs %u\n", rn->sysctl_box_mem,
		   rn->box ? (s64)atomic64_read(&rn->box->used) : 0,
		   rn->box ? rn->box->njobs : 0);
	seq_puts(seq, "group size entered state payload complete rows sums returned evicted bytes ranks level\n");
	if (rn->box && jobs)
		list_for_each_entry(job, &rn->box->jobs, node)
			show_job(seq, job);
	rar_roce_show(rn, seq, jobs);
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
	struct box_ask *ask;

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
