// SPDX-License-Identifier: GPL-2.0
/*
 * The layers around ring and link, as far as these call them: packets that are built and sent,
 * packets that come, timers, and a buffer with or without numbers in it.
 */
#include "core/buf.h"
#include "core/counters.h"
#include "core/cursor.h"
#include "core/gather.h"
#include "core/hdr.h"
#include "core/hosts.h"
#include "core/keyed.h"
#include "core/mem.h"
#include "core/pin.h"
#include "core/user.h"
#include "link/ack.h"
#include "link/link.h"
#include "link/loss.h"
#include "link/out.h"
#include "link/rail.h"
#include "reduce/reduce.h"
#include "ring/chunk.h"
#include "ring/ask.h"
#include "ring/direct.h"
#include "ring/fail.h"
#include "ring/peer.h"
#include "ring/push.h"
#include "ring/ringed.h"
#include "ring/round.h"
#include "ring/steer.h"
#include "ring/turn.h"
#include "sim.h"
#include "tx/carrier.h"
#include "tx/frame.h"
#include "tx/packet.h"
#include "tx/route.h"
#include "tx/rules.h"
#include "tx/sender.h"

#define PACKET_ROOM	192	/* bytes of the longest packet without numbers */

struct skb_shared_info sim_shinfo;
struct folio sim_folio;
int init_user_ns, rar_strict_host;
unsigned int rar_net_id;

static u64 nowhere[65536 / 8 + RAR_MAX_MTU];	/* data that nobody looks at */

/* ------------------------------------------------------------ packets */

struct sk_buff *alloc_skb(u32 len, gfp_t flags)
{
	u32 room = sim_set.numbers ? max(len, PACKET_ROOM) : PACKET_ROOM;
	struct sk_buff *skb = malloc(sizeof(*skb) + room);

	*skb = (struct sk_buff){ .data = (u8 *)(skb + 1), .chunks = 1, .truesize = 768 + len };
	return skb;
}

void *skb_put(struct sk_buff *skb, u32 len)
{
	skb->len += len;
	return skb->data + skb->len - len;
}

void *skb_header_pointer(const struct sk_buff *skb, u32 off, u32 len, void *buf)
{
	return skb->data + off;
}

void sim_skb_free(struct sk_buff *skb)
{
	free(skb);
}

static void fill_hdr(const struct rar_member *m, struct rar_hdr *h, u8 type, u32 dst, u32 len)
{
	*h = (struct rar_hdr) {
		.version = RAR_WIRE_MAGIC | RAR_WIRE_VERSION,
		.type = type,
		.src = cpu_to_be16(m->rank),
		.dst = cpu_to_be16(dst),
		.len = cpu_to_be16(len),
		.token = cpu_to_be64(m->epoch),
	};
}

static void fill_data(const struct rar_link *link, const struct rar_tx_item *item,
		      struct rar_data_hdr *dh)
{
	u8 type = item->run.phase == RAR_RS ? RAR_T_RS : RAR_T_AG;

	memset(dh, 0, sizeof(*dh));
	if (link->index >= RAR_LINKS)
		type = RAR_T_DIRECT;
	if (item->op->ring.plan.direct && !item->op->ring.plan.halving) {
		dh->complete = cpu_to_be64(item->known.map);
		dh->base = cpu_to_be32((u32)item->known.base);
	} else {
		dh->seq = cpu_to_be32(item->seq);
		dh->una = cpu_to_be32(item->una);
	}
	fill_hdr(link->member, &dh->h, type, link->rank, 0);
	rar_op_describe(dh, item->op->seq, &item->op->fingerprint);
	dh->chunk = cpu_to_be32(rar_ring_there(&item->op->ring, item->run.phase, item->run.chunk,
					       link->rank));
	dh->flags = item->flags | (item->ack_now ? RAR_F_ACK_NOW : 0);
}

/* A header before each chunk, so that a link may deliver a part of them. */
static void fill_all(struct sk_buff *skb, const struct rar_data_hdr *dh, u32 stride)
{
	u32 i;

	memcpy(skb->data, dh, sizeof(*dh));
	for (i = 1; i < skb->chunks && sim_set.numbers; i++)
		memcpy(skb->data + i * stride, dh, sizeof(*dh));
}

static void sent(struct rar_member *m, const struct rar_tx_item *item, u32 bytes)
{
	sim_got.data += item->run.n;
	sim_got.sent += bytes;
}

static void fill_payload(struct sk_buff *skb, const struct rar_tx_item *item, u32 bytes)
{
	u32 i, len, payload = item->op->ring.payload, at = sizeof(struct rar_data_hdr);
	struct rar_chunk c;

	rar_ring_chunk(&item->op->ring, item->run.chunk, &c);
	for (i = 0; i < item->run.n; i++) {
		len = min(bytes - i * payload, payload);
		memcpy(skb->data + at, rar_op_source(item->op, &item->run, &c)->linear +
		       c.off + (u64)i * payload, len);
		at += len + sizeof(struct rar_data_hdr);
	}
}

int rar_run_send(struct rar_link *link, struct rar_tx_item *item)
{
	u32 bytes = rar_ring_bytes(&item->op->ring, item->run.chunk, item->run.n);
	struct sim_rank *rank = sim_rank_of(link->member);
	u32 len = bytes + item->run.n * sizeof(struct rar_data_hdr);
	struct sk_buff *skb = alloc_skb(len, 0);
	struct rar_data_hdr dh;

	skb->len = len;
	skb->chunks = item->run.n;
	fill_data(link, item, &dh);
	fill_all(skb, &dh, rar_stride(link->member));
	if (sim_set.numbers)
		fill_payload(skb, item, bytes);
	sent(link->member, item, bytes);
	sim_spend(rank, sim_set.build + item->run.n * sim_set.chunk +
		  bytes * sim_set.byte_ps / 1000);
	sim_send(rank, skb, link->rank);
	return 0;
}

int rar_run_forward(struct rar_link *link, struct rar_tx_item *item, struct sk_buff *skb,
		       u32 off)
{
	struct rar_data_hdr dh;

	fill_data(link, item, &dh);
	fill_all(skb, &dh, rar_stride(link->member));
	sent(link->member, item, skb->len - item->run.n * sizeof(dh));
	rar_mib_add(link->member->rn, TxForward, item->run.n);
	sim_send(sim_rank_of(link->member), skb, link->rank);
	return 0;
}

void rar_control_send(struct rar_link *link, void *hdr, size_t len, size_t pad, u8 type, u64 token)
{
	struct sim_rank *rank = sim_rank_of(link->member);
	struct sk_buff *skb = alloc_skb(len + pad, 0);

	fill_hdr(link->member, hdr, type, link->rank, len + pad - sizeof(struct rar_hdr));
	memcpy(skb->data, hdr, len);
	skb->len = len + pad;
	if (type == RAR_T_ACK || type == RAR_T_PEER_ACK)
		rar_mib_inc(link->member->rn, TxAck);
	sim_spend(rank, sim_set.ack);
	sim_send(rank, skb, link->rank);
}

static void receive_run(struct sim_rank *rank, struct rar_pkt *pkt)
{
	struct rar_member *m = &rank->m;
	u32 n = pkt->skb->chunks, bytes = pkt->len - n * sizeof(struct rar_data_hdr);
	const struct rar_data_hdr *dh = (const void *)pkt->skb->data;
	enum rar_rx ret;

	sim_got.odd += !!(dh->flags & ~RAR_F_ACK_NOW);
	sim_spend(rank, sim_set.packet + n * sim_set.chunk + bytes * sim_set.byte_ps / 1000);
	ret = pkt->h.type == RAR_T_DIRECT ? rar_chunk_rcv_direct(m, pkt, n) :
					    rar_chunk_rcv(m, pkt, n);
	if (ret >= RAR_RX_DROP)
		m->rn->mib->v[rar_rx_why(ret)]++;
	if (ret != RAR_RX_TAKEN)
		sim_skb_free(pkt->skb);
}

/* The link by which a packet came. */
static struct rar_link *link_of(struct rar_member *m, const struct rar_hdr *h)
{
	switch (h->type) {
	case RAR_T_DIRECT:
	case RAR_T_DONE:
	case RAR_T_PEER_ACK:
		return rar_member_direct(m, be16_to_cpu(h->src));
	case RAR_T_ACK:
		return m->link[RAR_NEXT];
	}
	return m->link[RAR_PREV];
}

/* A packet comes to a rank. */
void sim_receive(struct sim_rank *rank, struct sk_buff *skb)
{
	struct rar_pkt pkt = { .skb = skb, .len = skb->len, .whole = true, .ce = skb->ce };
	struct rar_member *m = &rank->m;

	memcpy(&pkt.h, skb->data, sizeof(pkt.h));
	pkt.link = link_of(m, &pkt.h);
	rar_member_hear(pkt.link);
	if (sim_is_data(skb)) {
		receive_run(rank, &pkt);
		return;
	}
	sim_spend(rank, sim_set.ack);
	switch (pkt.h.type) {
	case RAR_T_ACK:
		rar_loss_rcv_ack(pkt.link, &pkt);
		rar_push(m);
		break;
	case RAR_T_PEER_ACK:
		rar_loss_rcv_ack(pkt.link, &pkt);
		rar_peer_alive(pkt.link, false);
		rar_push(m);
		break;
	case RAR_T_DONE:
		rar_direct_rcv_done(m, &pkt);
		break;
	default:
		rar_ack_rcv_probe(pkt.link, &pkt);
		rar_chunk_rcv_probe(m, &pkt);
	}
	sim_skb_free(skb);
}

/* ------------------------------------------------------------ timers */

void sim_timer(struct hrtimer *timer, u64 at_ns)
{
	struct rar_member *m = container_of(timer, struct rar_member, link_timer);

	sim_at(max(at_ns, sim_ns), SIM_LINK_TIMER, sim_rank_of(m), (void *)(at_ns / 1000));
}

void sim_link_timer(struct sim_rank *rank)
{
	struct rar_member *m = &rank->m;

	m->link_timer_us = 0;
	if (rar_loss_tick(m))
		rar_push(m);
	rar_ask_tick(m);
	rar_member_put(m);
}

void rar_member_kick(struct rar_member *m, unsigned long when)
{
	struct sim_rank *rank = sim_rank_of(m);
	u64 at = max((u64)when, (u64)jiffies + 1) * NSEC_PER_JIFFY;

	if (rank->tick && rank->tick <= at)
		return;
	rank->tick = at;
	sim_at(at, SIM_TICK, rank, (void *)at);
}

void sim_tick(struct sim_rank *rank)
{
	bool fell = false;

	rank->tick = 0;
	rar_member_kick(&rank->m, rar_loss_keepalive(rank->m.link[RAR_NEXT], &fell));
}

/* ------------------------------------------------------------ a member, and its memory */

u32 rar_member_keepalive_ms(const struct rar_member *m)
{
	return clamp(READ_ONCE(m->rn->sysctl_dead_ms) / 5, 10, 1000);
}

void rar_member_hear(struct rar_link *link)
{
	WRITE_ONCE(link->heard, jiffies);
}

void rar_member_wake(struct rar_member *m)
{
	sim_woken(m);
}

struct rar_link *rar_member_link(struct rar_member *m, u32 index)
{
	return index < RAR_LINKS ? m->link[index] : &m->direct.peer[index - RAR_LINKS].link;
}

struct rar_link *rar_member_direct(struct rar_member *m, u32 rank)
{
	u32 i;

	for (i = 0; i < m->direct.n; i++)
		if (m->direct.peer[i].link.rank == rank && rank != m->rank)
			return &m->direct.peer[i].link;
	return NULL;
}

void rar_member_put(struct rar_member *m)
{
	m->ref.n--;
}

void rar_rail_free(struct rar_link *link)
{
}

void rar_device_set(struct rar_net *rn, struct rar_hook **hook, int dev)
{
}

u64 totalram_pages(void)
{
	return 1 << 24;
}

bool rar_mem_charge(struct rar_member *m, u64 bytes)
{
	return true;
}

/* Without numbers a buffer has no memory: all of it is at the same place. */
int rar_buf_alloc(struct rar_buf *buf, u64 bytes)
{
	buf->len = bytes;
	buf->linear = sim_set.numbers ? malloc(max(bytes, 8ULL)) : nowhere;
	return buf->linear ? 0 : -ENOMEM;
}

void rar_buf_free(struct rar_buf *buf)
{
	if (buf->linear != nowhere)
		free(buf->linear);
	buf->linear = NULL;
}

void *rar_buf_span(const struct rar_buf *buf, u64 off, u32 want, u32 *len)
{
	*len = sim_set.numbers ? want : min_t(u32, want, sizeof(nowhere));
	return sim_set.numbers ? buf->linear + off : nowhere;
}

void rar_cursor_find(struct rar_cursor *cursor, u64 off)
{
	cursor->off = 0;
	cursor->len = U32_MAX;
	cursor->addr = cursor->buf ? cursor->buf->linear : cursor->skb->data;
	if (sim_set.numbers)
		return;
	/* A header is read by rar_cursor_read(). */
	cursor->off = off;
	cursor->addr = nowhere;
}

void rar_cursor_read(struct rar_cursor *cursor, u64 off, void *to, u32 len)
{
	memcpy(to, cursor->skb->data + off, len);
}

void rar_cursor_copy(struct rar_reduce_ctx *ctx, struct rar_cursor *to, u64 to_off,
		     struct rar_cursor *from, u64 from_off, u32 len)
{
	u32 n;

	sim_got.added++;
	if (sim_set.numbers)
		memcpy(rar_cursor_at(to, to_off, &n), rar_cursor_at(from, from_off, &n), len);
}

void rar_reduce(const struct rar_reduce_ctx *ctx, const struct rar_kind *kind, void *dst,
		void *dst2, const void *in, const void *own, size_t len)
{
	size_t i;
	u64 a, b;

	sim_got.added++;
	for (i = 0; i < len && sim_set.numbers; i += sizeof(a)) {
		memcpy(&a, in + i, sizeof(a));
		memcpy(&b, own + i, sizeof(b));
		a += b;
		memcpy(dst + i, &a, sizeof(a));
		memcpy(dst2 + i, &a, sizeof(a));
	}
}

const struct rar_kind *rar_reduce_kind(u8 dtype, u8 redop)
{
	static const struct rar_kind sum = { .size = 8 };

	return &sum;
}

void rar_reduce_begin(struct rar_reduce_ctx *ctx)
{
	ctx->pieces = 0;
	ctx->fpu = true;
}

void rar_reduce_begin_copy(struct rar_reduce_ctx *ctx, size_t len)
{
	rar_reduce_begin(ctx);
}

bool rar_sender_room(struct rar_member *m, u16 af)
{
	return true;
}

bool rar_steer_send(struct rar_link *link, const struct rar_tx_item *item)
{
	return false;
}

bool rar_skb_alone(const struct sk_buff *skb)
{
	return true;
}

/* loss.c makes a chunk pending by this function when it gives its packet up. */
void sim_pend_again(struct rar_link *link, struct rar_operation *op, u32 way, u32 chunk, u64 mask)
{
	if (!sim_set.no_resend)
		rar_out_pend(link, op, way, chunk, mask);
}

/* ------------------------------------------------------------ what is freed later */

static struct later {
	struct rcu_head *head;
	void (*fn)(struct rcu_head *head);
} *later;
static u32 nlater, later_room;

void sim_later(struct rcu_head *head, void (*fn)(struct rcu_head *))
{
	if (nlater == later_room) {
		later_room = 2 * later_room + 16;
		later = realloc(later, later_room * sizeof(*later));
	}
	later[nlater++] = (struct later){ head, fn };
}

void sim_collect(void)
{
	while (nlater) {
		nlater--;
		later[nlater].fn(later[nlater].head);
	}
}

/* ------------------------------------------------------------ what needs nothing here */

void rar_counters_update(struct rar_member *m) { }
void rar_mem_uncharge(struct rar_net *rn, struct rar_user *user, u64 bytes, u32 charges) { }
void rar_pin_posted(struct rar_member *m, struct rar_operation *op) { }
void rar_reduce_end(struct rar_reduce_ctx *ctx) { }
void rar_reduce_pause(struct rar_reduce_ctx *ctx) { ctx->pieces = 0; }
void rar_steer_plan(struct rar_member *m, struct rar_operation *op) { }
void rar_turn_take(struct rar_member *m) { }
void rar_turn_init(bool (*push)(struct rar_member *m)) { }
void rar_turn_exit(void) { }
void rar_user_freed(struct rar_user *user) { }
void rar_user_put(struct rar_user *user) { }
void rar_keyed_free(struct rar_keyed *k) { }
void rar_fail_sent(struct rar_link *link, u64 op_seq, int err) { }

/* No path becomes narrow. */
bool rar_fail_narrow(const struct rar_member *m, u32 lost, u64 since_us, u64 now)
{
	return false;
}

/*
 * Functions of a group with a box, keys, neighbours in memory or other things that no set-up here
 * has. The linker leaves them open, so a call of one faults.
 */
void *sim_unused(void)
{
	fprintf(stderr, "sim: the module calls what is not simulated\n");
	abort();
}
