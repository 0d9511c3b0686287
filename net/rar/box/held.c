// SPDX-License-Identifier: GPL-2.0
/*
 * RoCEv2 messages at the box: packets are held until those of all ranks have come, and go on with
 * the sum. A packet that cannot be summed goes on as it came.
 *
 * The first packet of a message begins with a header. From it the box knows which sequence
 * numbers of the connection are which packets of the message. All counts of bytes here are charged
 * to net.rar.box_mem; half of it may be used.
 */
#include <linux/jhash.h>
#include <linux/netdevice.h>
#include <linux/slab.h>

#include "box/allow.h"
#include "box/held.h"
#include "box/slot.h"
#include "core/mib.h"

/* In place of a slot: packets for it go on as they came. */
#define HELD_OVER	((struct held_slot *)1)

static struct rar_net *net_of(const struct rar_held *held)
{
	return held->box->rn;
}

static bool charge(struct rar_held *held, u64 bytes)
{
	lockdep_assert_held(&held->lock);
	if (held->used + bytes > READ_ONCE(net_of(held)->sysctl_box_mem) / 2 ||
	    !rar_pool_take(held->box, bytes))
		return false;
	held->used += bytes;
	return true;
}

static void uncharge(struct rar_held *held, u64 bytes)
{
	lockdep_assert_held(&held->lock);
	held->used -= bytes;
	rar_pool_give(held->box, bytes);
}

/* ------------------------------------------------------------------ packets */

static struct rar_roce_mark *mark_of(const struct sk_buff *skb, const struct rar_bth *bth)
{
	return (void *)skb->data + bth->data + bth->len - sizeof(struct rar_roce_mark);
}

/* The bytes of a packet before its elements. */
static u32 head_bytes(const struct held_slot *slot)
{
	return slot->index ? 0 : sizeof(struct rar_roce_hdr);
}

/* The bytes of a slot's elements. */
static u32 element_bytes(const struct held_msg *msg, u32 index)
{
	u32 len = index + 1 < msg->n ? msg->payload : msg->bytes - index * msg->payload;

	return len - (index ? 0 : sizeof(struct rar_roce_hdr)) - sizeof(struct rar_roce_mark);
}

static void *elements(const struct sk_buff *skb, const struct rar_bth *bth,
		      const struct held_slot *slot)
{
	return skb->data + bth->data + head_bytes(slot);
}

static void write_sum(struct sk_buff *skb, const struct rar_bth *bth,
		      const struct held_slot *slot, u32 size)
{
	memcpy(elements(skb, bth, slot), slot->sum, element_bytes(slot->msg, slot->index));
	mark_of(skb, bth)->count = cpu_to_be16(size);
}

/* Let a packet go, with its sum if there is one. */
static void packet_go(struct held_job *job, struct held_packet *p, struct list_head *out)
{
	struct held_slot *slot = p->slot;

	slot->packet[p->rank] = NULL;
	p->sum = slot->summed;
	if (p->sum)
		write_sum(p->skb, &p->bth, slot, job->size);
	else
		job->nraw++;
	uncharge(job->held, p->skb->truesize + sizeof(*p));
	job->held->npackets--;
	list_move_tail(&p->node, out);
}

/* Let all packets of a connection go that wait for none before them. */
static void flow_go(struct held_flow *flow, struct list_head *out)
{
	struct held_packet *p, *tmp;

	list_for_each_entry_safe(p, tmp, &flow->packets, node) {
		if (!p->slot->summed)
			break;
		packet_go(flow->job, p, out);
	}
}

static void flows_go(struct held_job *job, struct list_head *out)
{
	u32 rank;

	for (rank = 0; rank < job->size; rank++)
		flow_go(&job->flow[rank], out);
}

static bool psn_before(u32 a, u32 b)
{
	return a != b && ((b - a) & RAR_BTH_PSN_MASK) <= RAR_BTH_PSN_MASK / 2;
}

/* Put a packet into the connection's list, by sequence number. */
static void flow_add(struct held_flow *flow, struct held_packet *p)
{
	struct held_packet *before;

	list_for_each_entry_reverse(before, &flow->packets, node)
		if (psn_before(before->bth.psn, p->bth.psn))
			break;
	list_add(&p->node, &before->node);
}

static void packet_set(struct held_packet *p, struct sk_buff *skb, const struct rar_bth *bth,
		       const struct nf_hook_state *state)
{
	p->skb = skb;
	p->dev = skb->dev;
	dev_hold(p->dev);
	p->okfn = state->okfn;
	p->bridged = state->pf == NFPROTO_BRIDGE;
	p->bth = *bth;
}

/*
 * Hold a packet, instead of an older one of the same place. Return: false if there is no room, or
 * if it is a copy for another port of a bridge, which floods.
 */
static bool packet_hold(struct held_flow *flow, struct held_slot *slot, struct sk_buff *skb,
			const struct rar_bth *bth, const struct nf_hook_state *state)
{
	struct held_packet *p = slot->packet[flow->rank];
	struct rar_held *held = flow->job->held;

	if (p && p->dev != skb->dev)
		return false;
	/* A bridged packet has no route. */
	if ((skb_dst(skb) && !skb_dst_force(skb)) ||
	    !charge(held, skb->truesize + sizeof(*p)))
		return false;
	if (p) {
		uncharge(held, p->skb->truesize + sizeof(*p));
		consume_skb(p->skb);
		dev_put(p->dev);
		packet_set(p, skb, bth, state);
		return true;
	}
	p = kzalloc(sizeof(*p), GFP_ATOMIC | __GFP_NOWARN);
	if (!p) {
		uncharge(held, skb->truesize + sizeof(*p));
		return false;
	}
	packet_set(p, skb, bth, state);
	p->slot = slot;
	p->rank = flow->rank;
	slot->packet[flow->rank] = p;
	held->npackets++;
	flow_add(flow, p);
	return true;
}

/* ------------------------------------------------------------------ slots */

static size_t slot_bytes(const struct held_job *job, const struct held_msg *msg, u32 index)
{
	return sizeof(struct held_slot) + job->size * sizeof(struct held_packet *) +
	       element_bytes(msg, index);
}

static struct held_slot *slot_new(struct held_job *job, struct held_msg *msg, u32 index)
{
	size_t bytes = slot_bytes(job, msg, index);
	struct held_slot *slot;

	if (!charge(job->held, bytes))
		return NULL;
	slot = kzalloc(bytes, GFP_ATOMIC | __GFP_NOWARN);
	if (!slot) {
		uncharge(job->held, bytes);
		return NULL;
	}
	slot->job = job;
	slot->msg = msg;
	slot->index = index;
	slot->born = jiffies;
	slot->packet = (void *)(slot + 1);
	slot->sum = slot->packet + job->size;
	list_add_tail(&slot->node, &job->held->open);
	return slot;
}

/* Nothing is summed for this place any more. Its packets go. */
static void slot_over(struct held_job *job, struct held_msg *msg, u32 index,
		      struct list_head *out)
{
	struct held_slot *slot = msg->slot[index];
	u32 rank;

	msg->slot[index] = HELD_OVER;
	if (!slot || slot == HELD_OVER)
		return;
	for (rank = 0; rank < job->size; rank++)
		if (slot->packet[rank])
			packet_go(job, slot->packet[rank], out);
	if (!slot->summed)
		list_del(&slot->node);
	uncharge(job->held, slot_bytes(job, msg, index));
	kfree(slot);
}

/* All packets are there: add them in the order of the ranks. */
static void slot_sum(struct held_job *job, struct held_slot *slot)
{
	u32 bytes = element_bytes(slot->msg, slot->index), rank;
	struct held_packet *p = slot->packet[0];
	struct rar_reduce_ctx ctx;

	memcpy(slot->sum, elements(p->skb, &p->bth, slot), bytes);
	rar_reduce_begin(&ctx);
	for (rank = 1; rank < job->size; rank++) {
		p = slot->packet[rank];
		rar_reduce(&ctx, slot->msg->kind, slot->sum, slot->sum, slot->sum,
			   elements(p->skb, &p->bth, slot), bytes);
	}
	rar_reduce_end(&ctx);
	slot->summed = true;
	list_del(&slot->node);
	job->nsums++;
	rar_mib_inc(net_of(job->held), BoxRoceSums);
}

/* ------------------------------------------------------------------ messages */

static size_t msg_bytes(u32 n)
{
	return sizeof(struct held_msg) + n * sizeof(struct held_slot *);
}

static void msg_end(struct held_job *job, struct held_msg **place, struct list_head *out)
{
	struct held_msg *msg = *place;
	u32 i;

	if (!msg)
		return;
	for (i = 0; i < msg->n; i++)
		slot_over(job, msg, i, out);
	*place = NULL;
	uncharge(job->held, msg_bytes(msg->n));
	kfree(msg);
	flows_go(job, out);
}

/* Forget a message and all before it. */
static void msg_forget(struct held_job *job, struct held_msg **place, struct list_head *out)
{
	u32 next = (*place)->msg + 1;

	if ((s32)(next - job->oldest) > 0)
		job->oldest = next;
	msg_end(job, place, out);
}

static struct held_msg **msg_place(struct held_job *job, u32 num)
{
	return &job->msg[num % (2 * job->window)];
}

static struct held_msg *msg_new(struct held_job *job, const struct rar_roce_hdr *hdr, u32 payload)
{
	u32 bytes = be32_to_cpu(hdr->bytes), n = DIV_ROUND_UP(bytes, payload);
	struct held_msg *msg;

	if (!charge(job->held, msg_bytes(n)))
		return NULL;
	msg = kzalloc(msg_bytes(n), GFP_ATOMIC | __GFP_NOWARN);
	if (!msg) {
		uncharge(job->held, msg_bytes(n));
		return NULL;
	}
	msg->msg = be32_to_cpu(hdr->msg);
	msg->bytes = bytes;
	msg->dtype = hdr->dtype;
	msg->redop = hdr->redop;
	msg->kind = rar_reduce_kind(hdr->dtype, hdr->redop);
	msg->payload = payload;
	msg->n = n;
	return msg;
}

/* The message that a header belongs to; NULL if it is too old, or if the ranks disagree. */
static struct held_msg *msg_get(struct held_job *job, const struct rar_roce_hdr *hdr, u32 payload,
				struct list_head *out)
{
	u32 num = be32_to_cpu(hdr->msg);
	struct held_msg **place = msg_place(job, num), *msg = *place;

	if (msg && msg->msg == num)
		return msg->bytes == be32_to_cpu(hdr->bytes) && msg->dtype == hdr->dtype &&
		       msg->redop == hdr->redop && msg->payload == payload ? msg : NULL;
	if ((s32)(num - job->oldest) < 0)
		return NULL;
	if (msg)
		msg_forget(job, place, out);
	*place = msg_new(job, hdr, payload);
	return *place;
}

/* Let the packets of a message go that still wait for other ranks. */
static void msg_give_up(struct held_job *job, struct held_msg *msg, struct list_head *out)
{
	u32 i;

	for (i = 0; i < msg->n; i++)
		if (msg->slot[i] && msg->slot[i] != HELD_OVER && !msg->slot[i]->summed)
			slot_over(job, msg, i, out);
	flows_go(job, out);
}

/*
 * A rank begins a message. So it has done with the message that was begun a window earlier, and
 * sends no packet of it again: whatever waits for one waits in vain. If all ranks have begun, each
 * has received that earlier message, and needs no sum of it any more.
 */
static void msg_begin(struct held_job *job, struct held_msg *msg, u32 rank, struct list_head *out)
{
	struct held_msg **old = msg_place(job, msg->msg - job->window);

	if (msg->begun & BIT_ULL(rank))
		return;
	msg->begun |= BIT_ULL(rank);
	if (!*old || (*old)->msg != msg->msg - job->window)
		return;
	if (hweight64(msg->begun) == job->size)
		msg_forget(job, old, out);
	else
		msg_give_up(job, *old, out);
}

/* ------------------------------------------------------------------ jobs */

static size_t job_bytes(u32 size)
{
	return sizeof(struct held_job) + size * sizeof(struct held_flow);
}

static void job_end(struct held_job *job, struct list_head *out)
{
	struct rar_held *held = job->held;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(job->msg); i++)
		msg_end(job, &job->msg[i], out);
	for (i = 0; i < job->size; i++)
		if (!hlist_unhashed(&job->flow[i].node))
			hlist_del_init(&job->flow[i].node);
	list_del(&job->node);
	WRITE_ONCE(held->njobs, held->njobs - 1);
	uncharge(held, job_bytes(job->size));
	kfree(job);
}

/* Was nothing of a job heard for as long as a packet waits for others? */
static bool is_silent(const struct held_job *job)
{
	const struct rar_net *rn = net_of(job->held);
	u32 ms = READ_ONCE(rn->sysctl_box_roce_ms);

	return time_after_eq(jiffies, job->heard + msecs_to_jiffies(ms));
}

/* Has a packet of each rank come? */
static bool has_begun(const struct held_job *job)
{
	u32 rank;

	for (rank = 0; rank < job->size; rank++)
		if (hlist_unhashed(&job->flow[rank].node))
			return false;
	return true;
}

/* Is there room for a new job? If need be, a job that does not begin ends. */
static bool job_fits(struct rar_held *held, u64 host, struct list_head *out)
{
	struct held_job *job, *old = NULL;
	u32 next = 0;

	list_for_each_entry(job, &held->jobs, node) {
		next += job->host == host;
		if (!old && is_silent(job) && !has_begun(job))
			old = job;
	}
	if (next >= HELD_JOBS_NEXT)
		return false;
	if (old && held->njobs == HELD_JOBS)
		job_end(old, out);
	return held->njobs < HELD_JOBS;
}

static struct held_job *job_new(struct rar_held *held,
				const struct rar_roce_hdr *hdr, u64 host,
				struct list_head *out)
{
	u32 size = be16_to_cpu(hdr->size), rank;
	struct held_job *job;

	if (!job_fits(held, host, out) || !charge(held, job_bytes(size)))
		return NULL;
	job = kzalloc(job_bytes(size), GFP_ATOMIC | __GFP_NOWARN);
	if (!job) {
		uncharge(held, job_bytes(size));
		return NULL;
	}
	job->held = held;
	job->id = be64_to_cpu(hdr->job);
	job->heard = jiffies;
	job->host = host;
	job->window = hdr->window;
	job->oldest = be32_to_cpu(hdr->msg) - hdr->window + 1;
	job->size = size;
	for (rank = 0; rank < size; rank++) {
		job->flow[rank].job = job;
		job->flow[rank].rank = rank;
		INIT_LIST_HEAD(&job->flow[rank].packets);
	}
	list_add_tail(&job->node, &held->jobs);
	WRITE_ONCE(held->njobs, held->njobs + 1);
	return job;
}

static struct held_job *job_find(struct rar_held *held, u64 id)
{
	struct held_job *job;

	list_for_each_entry(job, &held->jobs, node)
		if (job->id == id)
			return job;
	return NULL;
}

/* ------------------------------------------------------------------ connections */

static struct hlist_head *bucket(struct rar_held *held, const struct rar_bth *bth)
{
	u32 hash = jhash2((const u32 *)&bth->from.ip, 4, bth->qpn);

	hash = jhash2((const u32 *)&bth->to.ip, 4, hash);
	return &held->flows[hash >> (32 - HELD_HASH_BITS)];
}

static bool flow_is(const struct held_flow *flow, const struct rar_bth *bth)
{
	return flow->qpn == bth->qpn && flow->from.af == bth->from.af &&
	       ipv6_addr_equal(&flow->from.ip, &bth->from.ip) &&
	       ipv6_addr_equal(&flow->to.ip, &bth->to.ip);
}

static struct held_flow *flow_find(struct rar_held *held, const struct rar_bth *bth)
{
	struct held_flow *flow;

	hlist_for_each_entry(flow, bucket(held, bth), node)
		if (flow_is(flow, bth))
			return flow;
	return NULL;
}

/* The message of a connection that a packet is in, or NULL. */
static struct held_range *flow_range(struct held_flow *flow, const struct rar_bth *bth)
{
	struct held_range *r;
	u32 i;

	for (i = 0; i < 2 * flow->job->window; i++) {
		r = &flow->range[i];
		if (r->used && ((bth->psn - r->psn) & RAR_BTH_PSN_MASK) < r->n)
			return r;
	}
	return NULL;
}

/* May the sender use the box? */
static bool allowed(struct rar_held *held, const struct rar_bth *bth)
{
	struct rar_addr any = { .af = bth->from.af };

	if (rar_allow_has(held->box->self, &bth->from, &any))
		return true;
	rar_mib_inc(net_of(held), BoxRoceRefused);
	return false;
}

/*
 * Can a message begin with this sequence number, after and before those that
 * are known of the connection?
 */
static bool psn_fits(const struct held_flow *flow, u32 msg, u32 psn)
{
	const struct held_range *r;
	u32 i;

	for (i = 0; i < 2 * flow->job->window; i++) {
		r = &flow->range[i];
		if (!r->used)
			continue;
		if (r->msg == msg)
			return r->psn == psn;
		if ((s32)(msg - r->msg) > 0 ? psn_before(psn, r->psn + r->n) :
					      !psn_before(psn, r->psn))
			return false;
	}
	return true;
}

/*
 * Does a header of a known connection name another job? A new job may have the
 * queue pair now, or the header is forged. So the old job ends only when it is
 * silent.
 */
static bool is_foreign(const struct held_flow *flow,
		       const struct rar_roce_hdr *hdr)
{
	return flow->job->id != be64_to_cpu(hdr->job);
}

/* The connection of a header's rank, known or new. NULL: the packet is not for the box. */
static struct held_flow *
flow_get(struct rar_held *held, const struct sk_buff *skb,
	 const struct rar_roce_hdr *hdr, const struct rar_bth *bth,
	 struct list_head *out)
{
	u64 host = rar_allow_neighbour(skb, &bth->from);
	struct held_flow *flow = flow_find(held, bth);
	struct held_job *job;

	if ((!flow || is_foreign(flow, hdr)) && !allowed(held, bth))
		return NULL;
	if (flow && is_foreign(flow, hdr)) {
		if (!is_silent(flow->job))
			return NULL;
		job_end(flow->job, out);
		flow = NULL;
	}
	if (flow && !psn_fits(flow, be32_to_cpu(hdr->msg), bth->psn))
		return NULL;
	job = job_find(held, be64_to_cpu(hdr->job));
	if (!job)
		job = job_new(held, hdr, host, out);
	if (!job || job->size != be16_to_cpu(hdr->size) || job->window != hdr->window)
		return NULL;
	if (flow)
		return flow->rank == be16_to_cpu(hdr->rank) ? flow : NULL;
	flow = &job->flow[be16_to_cpu(hdr->rank)];
	if (!hlist_unhashed(&flow->node))
		return NULL;
	flow->from = bth->from;
	flow->to = bth->to;
	flow->qpn = bth->qpn;
	hlist_add_head(&flow->node, bucket(held, bth));
	return flow;
}

/* Is it a header that makes sense? */
static bool header_ok(const struct rar_roce_hdr *hdr, const struct rar_bth *bth,
		      const struct rar_roce_mark *mark)
{
	const struct rar_kind *kind = rar_reduce_kind(hdr->dtype, hdr->redop);
	u32 size = be16_to_cpu(hdr->size), bytes = be32_to_cpu(hdr->bytes), last;

	if (!kind || hdr->redop == RAR_AVG || size < 2 || size > RAR_ROCE_RANKS ||
	    be16_to_cpu(hdr->rank) >= size || !hdr->window || hdr->window > RAR_ROCE_WINDOW ||
	    hdr->__pad || hdr->__pad2)
		return false;
	if (bth->part == RAR_BTH_ONLY ? bytes != bth->len :
	    bytes <= bth->len || bth->len < 256 || bth->len > 4096 || !is_power_of_2(bth->len) ||
	    bytes > bth->len * RAR_ROCE_PACKETS)
		return false;
	last = bytes % bth->len ?: bth->len;
	return bytes % 4 == 0 && (last - sizeof(*mark)) % kind->size == 0 &&
	       last > sizeof(*mark) + (last == bytes ? sizeof(*hdr) : 0) &&
	       mark->msg == hdr->msg && !mark->index && mark->count == htons(1);
}

/* Learn from a header what follows. Return: the connection, or NULL. */
static struct held_flow *learn(struct rar_held *held, const struct sk_buff *skb,
			       const struct rar_bth *bth, struct list_head *out)
{
	const struct rar_roce_hdr *hdr = (void *)skb->data + bth->data;
	struct held_flow *flow;
	struct held_range *r;
	struct held_msg *msg;

	if (!header_ok(hdr, bth, mark_of(skb, bth)))
		return NULL;
	flow = flow_get(held, skb, hdr, bth, out);
	msg = flow ? msg_get(flow->job, hdr, bth->len, out) : NULL;
	if (!msg)
		return flow;
	r = &flow->range[msg->msg % (2 * flow->job->window)];
	r->used = true;
	r->msg = msg->msg;
	r->psn = bth->psn;
	r->n = msg->n;
	msg_begin(flow->job, msg, flow->rank, out);
	return flow;
}

/* ------------------------------------------------------------------ a packet comes */

/* Is a packet of a message what its number says? */
static bool fits(const struct held_msg *msg, u32 index, const struct sk_buff *skb,
		 const struct rar_bth *bth)
{
	const struct rar_roce_mark *mark = mark_of(skb, bth);
	enum rar_bth_part part = RAR_BTH_MIDDLE;

	if (!index)
		part = msg->n == 1 ? RAR_BTH_ONLY : RAR_BTH_FIRST;
	else if (index + 1 == msg->n)
		part = RAR_BTH_LAST;
	return bth->part == part && (index || rar_held_is_header(skb, bth)) &&
	       bth->len == element_bytes(msg, index) + sizeof(*mark) +
			   (index ? 0 : sizeof(struct rar_roce_hdr)) &&
	       be32_to_cpu(mark->msg) == msg->msg && be16_to_cpu(mark->index) == index &&
	       mark->count == htons(1);
}

/* Put a packet into its slot. */
static enum held_how put(struct held_flow *flow, struct held_slot *slot, struct sk_buff *skb,
			 const struct rar_bth *bth, const struct nf_hook_state *state,
			 struct list_head *out)
{
	struct held_job *job = flow->job;

	if (slot->summed && !slot->packet[flow->rank]) {
		write_sum(skb, bth, slot, job->size);
		rar_mib_inc(net_of(job->held), BoxRoceAgain);
		return HELD_SUM;
	}
	if (!packet_hold(flow, slot, skb, bth, state)) {
		if (!slot->summed) {
			slot_over(job, slot->msg, slot->index, out);
			flows_go(job, out);
		}
		return HELD_RAW;
	}
	slot->mask |= BIT_ULL(flow->rank);
	if (!slot->summed && hweight64(slot->mask) == job->size) {
		slot_sum(job, slot);
		flows_go(job, out);
	}
	return HELD_KEPT;
}

/* Find the place of a packet of a known connection. */
static enum held_how place(struct held_flow *flow, struct sk_buff *skb, const struct rar_bth *bth,
			   const struct nf_hook_state *state, struct list_head *out)
{
	struct held_range *r = flow_range(flow, bth);
	struct held_job *job = flow->job;
	struct held_msg *msg = r ? *msg_place(job, r->msg) : NULL;
	enum held_how how = HELD_RAW;
	u32 index;

	if (!msg || msg->msg != r->msg)
		return HELD_RAW;
	index = (bth->psn - r->psn) & RAR_BTH_PSN_MASK;
	if (!fits(msg, index, skb, bth))
		return HELD_RAW;
	job->heard = jiffies;
	if (!msg->slot[index])
		msg->slot[index] = slot_new(job, msg, index) ?: HELD_OVER;
	if (msg->slot[index] != HELD_OVER)
		how = put(flow, msg->slot[index], skb, bth, state, out);
	if (how == HELD_RAW) {
		job->nraw++;
		rar_mib_inc(net_of(job->held), BoxRoceRaw);
	}
	return how;
}

/**
 * rar_held_is_header() - does a packet begin a message for the box?
 * @skb: any packet
 * @bth: what rar_bth_read() found in it
 *
 * Any context.
 *
 * Return: true if it begins with the magic number.
 */
bool rar_held_is_header(const struct sk_buff *skb, const struct rar_bth *bth)
{
	__be32 buf, *magic;

	if ((bth->part != RAR_BTH_FIRST && bth->part != RAR_BTH_ONLY) ||
	    bth->len < sizeof(struct rar_roce_hdr) + sizeof(struct rar_roce_mark))
		return false;
	magic = skb_header_pointer(skb, bth->data, sizeof(buf), &buf);
	return magic && *magic == cpu_to_be32(RAR_ROCE_MAGIC);
}

/**
 * rar_held_knows() - is a packet in the middle of a message that is known?
 * @held: all jobs
 * @bth:  what rar_bth_read() found
 *
 * Bottom halves are off.
 *
 * Return: true if its header has come.
 */
bool rar_held_knows(struct rar_held *held, const struct rar_bth *bth)
{
	struct held_flow *flow;
	bool known;

	if (!READ_ONCE(held->njobs))
		return false;
	spin_lock(&held->lock);
	flow = flow_find(held, bth);
	known = flow && flow_range(flow, bth);
	spin_unlock(&held->lock);
	return known;
}

/**
 * rar_held_take() - take a packet of a message
 * @held:  all jobs
 * @skb:   opened by rar_bth_open()
 * @bth:   what rar_bth_read() found in it
 * @state: of the hook
 * @out:   gets the packets that go on, for rar_held_send()
 *
 * Bottom halves are off.
 *
 * Return: what to do with the packet. The sum, if any, is in it, without its checksums.
 */
enum held_how rar_held_take(struct rar_held *held, struct sk_buff *skb, const struct rar_bth *bth,
			    const struct nf_hook_state *state, struct list_head *out)
{
	enum held_how how = HELD_RAW;
	struct held_flow *flow;

	spin_lock(&held->lock);
	flow = rar_held_is_header(skb, bth) ? learn(held, skb, bth, out) : flow_find(held, bth);
	if (flow)
		how = place(flow, skb, bth, state, out);
	spin_unlock(&held->lock);
	return how;
}

/**
 * rar_held_expire() - give up what waits for too long
 * @held: all jobs
 * @open: jiffies that a packet may wait for those of other ranks
 * @idle: jiffies after which a job of which nothing came is forgotten
 * @out:  gets the packets that go on, for rar_held_send()
 *
 * Bottom halves are off.
 */
void rar_held_expire(struct rar_held *held, unsigned long open, unsigned long idle,
		     struct list_head *out)
{
	struct held_job *job, *tmp;
	struct held_slot *slot;

	spin_lock(&held->lock);
	while ((slot = list_first_entry_or_null(&held->open, struct held_slot, node)) &&
	       time_after_eq(jiffies, slot->born + open)) {
		job = slot->job;
		rar_mib_inc(net_of(held), BoxRoceLate);
		slot_over(job, slot->msg, slot->index, out);
		flows_go(job, out);
	}
	list_for_each_entry_safe(job, tmp, &held->jobs, node)
		if (time_after_eq(jiffies, job->heard + idle))
			job_end(job, out);
	spin_unlock(&held->lock);
}

/**
 * rar_held_end() - end all jobs
 * @held: all jobs
 * @out:  gets the packets that are held, for rar_held_send()
 *
 * Process context with bottom halves off. No packet comes any more.
 */
void rar_held_end(struct rar_held *held, struct list_head *out)
{
	struct held_job *job, *tmp;

	spin_lock(&held->lock);
	list_for_each_entry_safe(job, tmp, &held->jobs, node)
		job_end(job, out);
	WARN_ON(held->used || held->npackets);
	spin_unlock(&held->lock);
}

/* Let a packet go on. Its bridge may be gone meanwhile, and with it the code of bridges. */
static void packet_send(struct rar_held *held, struct held_packet *p)
{
	if (p->sum)
		rar_bth_close(p->skb, &p->bth);
	if (p->bridged && !netif_is_bridge_port(p->dev))
		kfree_skb(p->skb);
	else
		p->okfn(net_of(held)->net, NULL, p->skb);
	dev_put(p->dev);
	kfree(p);
}

/**
 * rar_held_send() - let packets go on
 * @held: all jobs
 * @out:  the packets; those that went are taken off
 * @max:  how many may go
 *
 * Bottom halves are off, and RCU is read.
 */
void rar_held_send(struct rar_held *held, struct list_head *out, int max)
{
	struct held_packet *p, *tmp;

	list_for_each_entry_safe(p, tmp, out, node) {
		if (!max--)
			break;
		list_del(&p->node);
		packet_send(held, p);
	}
}

/* Set up what the box of a namespace holds: nothing. */
void rar_held_init(struct rar_held *held, struct rar_box *box)
{
	held->box = box;
	spin_lock_init(&held->lock);
	INIT_LIST_HEAD(&held->jobs);
	INIT_LIST_HEAD(&held->open);
}
