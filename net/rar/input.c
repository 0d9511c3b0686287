// SPDX-License-Identifier: GPL-2.0
/*
 * Input: every packet, whichever path it came by. Validate, claim, add,
 * publish, forward, record: the life of a chunk at this rank.
 */
#include <linux/bpf.h>
#include <linux/mm.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/udp.h>
#include <net/xdp.h>

#include "encap.h"
#include "rar.h"
#include "reduce.h"
#include "trace.h"

/* What became of a packet, where it is not a drop reason (enum rar_mib). */
#define INPUT_OK	-1	/* used; the skb is still the caller's */
#define INPUT_TAKEN	-2	/* the skb is held, or on its way to the successor */
#define INPUT_LATER	-3	/* a frame: untouched, for the ingress hook */

/* Held packets may cost this times early_bytes: truesize against payload. */
#define EARLY_TRUESIZE	8
/* All namespaces together: an eighth of the machine's memory. */
#define EARLY_ALL_SHIFT	3

#define INPUT_BOUNCE	64	/* bytes added by way of the stack */

static atomic64_t early_all;

struct early_cb {
	u32 off;
	u32 len;
	u32 n;			/* chunks */
	bool whole;		/* as in struct rar_pkt */
	u64 op_seq;
};

static struct early_cb *early_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct early_cb) > sizeof(skb->cb));
	return (struct early_cb *)skb->cb;
}

/**
 * rar_input_drop() - drop a packet, with its reason
 * @rn:     netns
 * @skb:    consumed
 * @reason: counter
 */
void rar_input_drop(struct rar_net *rn, struct sk_buff *skb,
		    enum rar_mib reason)
{
	this_cpu_inc(rn->mib->v[reason]);
	trace_rar_drop(skb, reason);
	kfree_skb(skb);
}

static u8 group_state(const struct rar_group *grp)
{
	/* Pairs with the release in rar_group_set_state(). */
	return smp_load_acquire(&grp->state);
}

/* -- IP and UDP ---------------------------------------------------------- */

static u32 frame_head(const struct rar_frame *frame)
{
	return frame->xdp->data_end - frame->xdp->data;
}

static u32 pkt_len(const struct rar_pkt *pkt)
{
	return pkt->skb ? pkt->skb->len : xdp_get_buff_len(pkt->frame->xdp);
}

/*
 * @len bytes at @off, perhaps by way of @buf; NULL: they are not there. The headers
 * of a frame must lie together.
 */
static void *header(const struct rar_pkt *pkt, u32 off, u32 len, void *buf)
{
	if (pkt->skb)
		return skb_header_pointer(pkt->skb, off, len, buf);
	return off + len <= frame_head(pkt->frame) ? pkt->frame->xdp->data + off :
						     NULL;
}

/* A datagram as found in the packet; offsets from its beginning. */
struct datagram {
	u32 udp;		/* offset of the UDP header */
	u32 end;		/* of the IP payload */
	u16 udp_len;
	__sum16 check;
	bool fragment;
	bool options;
	bool bad_ip_csum;
};

static bool dgram_v4(struct rar_pkt *pkt, u32 nhoff, struct datagram *d)
{
	struct iphdr buf, *iph;

	iph = header(pkt, nhoff, sizeof(buf), &buf);
	if (!iph || iph->version != 4 || iph->ihl < 5 ||
	    iph->protocol != IPPROTO_UDP || (iph->frag_off & htons(IP_OFFSET)))
		return false;
	d->udp = nhoff + iph->ihl * 4;
	d->end = nhoff + ntohs(iph->tot_len);
	d->fragment = iph->frag_off & htons(IP_MF);
	d->options = iph->ihl > 5;
	d->bad_ip_csum = !d->options && ip_fast_csum(iph, 5);
	pkt->ce = INET_ECN_is_ce(iph->tos);
	pkt->from.af = AF_INET;
	pkt->to.af = AF_INET;
	pkt->from.ip.s6_addr32[0] = iph->saddr;
	pkt->to.ip.s6_addr32[0] = iph->daddr;
	return true;
}

static bool dgram_v6(struct rar_pkt *pkt, u32 nhoff, struct datagram *d)
{
	struct ipv6hdr buf, *ip6h;

	ip6h = header(pkt, nhoff, sizeof(buf), &buf);
	if (!ip6h || ip6h->version != 6)
		return false;
	if (ip6h->nexthdr != IPPROTO_UDP)
		d->options = true;
	d->udp = nhoff + sizeof(*ip6h);
	d->end = d->udp + ntohs(ip6h->payload_len);
	pkt->ce = INET_ECN_is_ce(ipv6_get_dsfield(ip6h));
	pkt->from.af = AF_INET6;
	pkt->to.af = AF_INET6;
	pkt->from.ip = ip6h->saddr;
	pkt->to.ip = ip6h->daddr;
	if (ipv6_addr_type(&pkt->from.ip) & IPV6_ADDR_LINKLOCAL)
		pkt->from.scope = pkt->dev;
	return true;
}

/* Find UDP and the common RAR header. False: cannot be recognised as ours. */
static bool find_headers(struct rar_net *rn, struct rar_pkt *pkt,
			 struct datagram *d)
{
	struct udphdr buf, *uh;
	struct rar_hdr *h;

	uh = header(pkt, d->udp, sizeof(buf), &buf);
	if (!uh || !rar_encap_serves(rn, uh->dest))
		return false;
	d->udp_len = ntohs(uh->len);
	d->check = uh->check;
	pkt->from.port = uh->source;
	pkt->to.port = uh->dest;
	pkt->off = d->udp + sizeof(*uh);
	h = header(pkt, pkt->off, sizeof(*h), &pkt->h);
	if (!h)
		return false;
	pkt->h = *h;
	pkt->len = d->udp_len - sizeof(*uh);
	return h->version >> 4 == RAR_WIRE_MAGIC >> 4;
}

/* The checksum of the pseudo header and what is in @sum. */
static __sum16 csum_with(const struct rar_pkt *pkt, const struct datagram *d,
			 __wsum sum)
{
	if (pkt->from.af == AF_INET)
		return csum_tcpudp_magic(pkt->from.ip.s6_addr32[0],
					 pkt->to.ip.s6_addr32[0], d->udp_len,
					 IPPROTO_UDP, sum);
	return csum_ipv6_magic(&pkt->from.ip, &pkt->to.ip, d->udp_len,
			       IPPROTO_UDP, sum);
}

/*
 * A sender that leaves the checksum to its device puts the pseudo header's sum in its
 * place. To veth that is as good as the right one: it hands on what it is given, so
 * the packet has been in this machine's memory only. Of other devices, or where the
 * skb would tell, somebody else judges.
 */
static bool csum_left_open(const struct rar_pkt *pkt, const struct datagram *d)
{
	__sum16 seed = ~csum_with(pkt, d, 0);

	return d->check == seed;
}

static bool from_veth(const struct rar_frame *frame)
{
	const struct rtnl_link_ops *ops = frame->xdp->rxq->dev->rtnl_link_ops;

	return !frame->generic && ops && !strcmp(ops->kind, "veth");
}

/* The sum of what follows the headers is kept: AG does not change it. */
static bool frame_csum_good(const struct rar_pkt *pkt, const struct datagram *d)
{
	struct rar_walk walk = { .xdp = pkt->frame->xdp };
	u32 hdrs = sizeof(struct udphdr) + sizeof(struct rar_data_hdr);
	struct rar_frame *frame = pkt->frame;

	if (csum_left_open(pkt, d))
		return from_veth(frame);
	hdrs = min_t(u32, hdrs, d->udp_len);
	frame->sum = rar_walk_csum(&walk, d->udp + hdrs, d->udp_len - hdrs);
	frame->summed = true;
	return !csum_with(pkt, d, csum_add(rar_walk_csum(&walk, d->udp, hdrs),
					   frame->sum));
}

/* Sum over pseudo header, UDP header and data; zero if it is right. */
static bool csum_good(const struct rar_pkt *pkt, const struct datagram *d)
{
	if (pkt->frame)
		return frame_csum_good(pkt, d);
	return skb_csum_unnecessary(pkt->skb) ||
	       !csum_with(pkt, d, skb_checksum(pkt->skb, d->udp, d->udp_len, 0));
}

/* Everything about the datagram that must hold before it is looked into. */
static int check_datagram(const struct rar_pkt *pkt, const struct datagram *d)
{
	if (d->fragment)
		return RAR_MIB_DropFragment;
	if (d->options)
		return RAR_MIB_DropIpOptions;
	if (d->bad_ip_csum)
		return RAR_MIB_DropChecksum;
	if (d->end > pkt_len(pkt) || d->udp + d->udp_len > d->end)
		return RAR_MIB_DropTruncated;
	if (pkt->skb && !rar_skb_readable(pkt->skb))
		return RAR_MIB_DropMemory;
	if (d->udp + d->udp_len != d->end)
		return RAR_MIB_DropLength;
	if (d->udp_len < sizeof(struct udphdr) + sizeof(struct rar_hdr))
		return RAR_MIB_DropShort;
	if (!d->check)
		return RAR_MIB_DropNoChecksum;
	return csum_good(pkt, d) ? INPUT_OK : RAR_MIB_DropChecksum;
}

static bool addr_equal(const struct rar_addr *a, const struct rar_addr *b)
{
	if (a->af != b->af)
		return false;
	return a->af == AF_INET6 ? ipv6_addr_equal(&a->ip, &b->ip) :
		a->ip.s6_addr32[0] == b->ip.s6_addr32[0];
}

/*
 * Is the packet for this host? The ingress hook also sees what is only passing
 * through. A member bound to no address is joined at any that is local.
 */
static bool addressed_to(const struct rar_group *grp, const struct rar_pkt *pkt)
{
	return addr_equal(&pkt->to, &grp->path[RAR_NEXT].src) ||
	       addr_equal(&pkt->to, &grp->path[RAR_PREV].src) ||
	       addr_equal(&pkt->to, &grp->self) ||
	       (pkt->local && pkt->h.type == RAR_T_JOIN && !grp->self.af);
}

/* -- the validator ------------------------------------------------------- */

#define FROM_PREV	BIT(RAR_PREV)
#define FROM_NEXT	BIT(RAR_NEXT)
#define BY_EPOCH	BIT(0)	/* token is the epoch */
#define BY_NONCE	BIT(1)	/* token is our nonce */
#define BY_NONE		BIT(2)	/* token may be 0 */

/* Per type: the shortest packet, who may send it, what its token is, from which ports. */
static const struct input_type {
	u16 min;
	u8 from;
	u8 token;
	u8 lanes;
} input_types[] = {
	[RAR_T_RS]	= { sizeof(struct rar_data_hdr), FROM_PREV, BY_EPOCH,
			    RAR_MAX_LANES },
	[RAR_T_AG]	= { sizeof(struct rar_data_hdr), FROM_PREV, BY_EPOCH,
			    RAR_MAX_LANES },
	[RAR_T_ACK]	= { sizeof(struct rar_ack_hdr), FROM_NEXT, BY_EPOCH, 1 },
	[RAR_T_PROBE]	= { sizeof(struct rar_probe_hdr), FROM_PREV, BY_EPOCH, 1 },
	[RAR_T_JOIN]	= { sizeof(struct rar_join_hdr), FROM_PREV,
			    BY_NONCE | BY_NONE, 1 },
	[RAR_T_JOIN_ACK] = { sizeof(struct rar_join_hdr), FROM_NEXT, BY_NONCE, 1 },
	[RAR_T_REJECT]	= { sizeof(struct rar_notice_hdr), FROM_NEXT,
			    BY_NONCE, 1 },
	[RAR_T_COLLECT]	= { sizeof(struct rar_table_hdr), FROM_PREV, BY_NONCE, 1 },
	[RAR_T_PROPOSE]	= { sizeof(struct rar_table_hdr), FROM_PREV, BY_NONCE, 1 },
	[RAR_T_COMMIT]	= { sizeof(struct rar_table_hdr), FROM_PREV, BY_NONCE, 1 },
	[RAR_T_ABORT]	= { sizeof(struct rar_notice_hdr),
			    FROM_PREV | FROM_NEXT, BY_EPOCH | BY_NONCE, 1 },
	[RAR_T_RESET]	= { sizeof(struct rar_hdr), FROM_PREV | FROM_NEXT,
			    BY_EPOCH, 1 },
	[RAR_T_FIN]	= { sizeof(struct rar_notice_hdr),
			    FROM_PREV | FROM_NEXT, BY_EPOCH, 1 },
	[RAR_T_LATE]	= { sizeof(struct rar_notice_hdr), FROM_PREV,
			    BY_EPOCH, 1 },
	[RAR_T_FIN_ACK]	= { sizeof(struct rar_notice_hdr),
			    FROM_PREV | FROM_NEXT, BY_EPOCH, 1 },
};

static const struct input_type *input_type(u8 type)
{
	if (type >= ARRAY_SIZE(input_types) || !input_types[type].min)
		return NULL;
	return &input_types[type];
}

/* Its port; chunks also come from those behind it, a lane each. */
static bool port_of(const struct rar_path *path, const struct rar_pkt *pkt,
		    const struct input_type *t)
{
	u16 lane = ntohs(pkt->from.port) - ntohs(path->dst.port);

	return lane < t->lanes;
}

/*
 * Is the source rank a neighbour that may send this type, and does the
 * packet come from its address and port, which its kernel holds? A JOIN may
 * come from anywhere: it is how the predecessor's address becomes known.
 */
static int check_sender(const struct rar_group *grp, const struct rar_pkt *pkt,
			const struct input_type *t)
{
	u32 src = be16_to_cpu(pkt->h.src);
	bool known = false;
	int dir;

	for (dir = 0; dir < RAR_DIRS; dir++) {
		if (!(t->from & BIT(dir)) || src != rar_group_rank(grp, dir))
			continue;
		known = true;
		if (pkt->h.type == RAR_T_JOIN ||
		    (port_of(&grp->path[dir], pkt, t) &&
		     addr_equal(&pkt->from, &grp->path[dir].dst)))
			return INPUT_OK;
	}
	/* It may believe in another size; rar_join_rcv() tells it. */
	if (pkt->h.type == RAR_T_JOIN)
		return INPUT_OK;
	return known ? RAR_MIB_DropAddress : RAR_MIB_DropRank;
}

static int check_token(struct rar_group *grp, const struct rar_pkt *pkt,
		       const struct input_type *t)
{
	u64 token = be64_to_cpu(pkt->h.token);

	if (!token)
		return t->token & BY_NONE ? INPUT_OK : RAR_MIB_DropEpoch;
	if ((t->token & BY_EPOCH) && token == grp->epoch)
		return INPUT_OK;
	if ((t->token & BY_NONCE) && rar_join_token(grp, pkt))
		return INPUT_OK;
	if (t->token == BY_EPOCH && pkt->h.type != RAR_T_RESET)
		rar_output_reset(grp, pkt);
	return RAR_MIB_DropEpoch;
}

/*
 * The one validator: after it every byte may be trusted but the data header's
 * operation part, which check_chunk() judges against the operation.
 */
static int validate(struct rar_group *grp, const struct rar_pkt *pkt)
{
	const struct input_type *t;
	int ret;

	if ((pkt->h.version & 0xf) != RAR_WIRE_VERSION) {
		/* For the error, should the join time out. */
		if (pkt->h.type == RAR_T_JOIN &&
		    be16_to_cpu(pkt->h.src) == rar_group_rank(grp, RAR_PREV))
			WRITE_ONCE(grp->join.odd_version, true);
		return RAR_MIB_DropVersion;
	}
	t = input_type(pkt->h.type);
	if (!t)
		return RAR_MIB_DropType;
	if (pkt->len < t->min)
		return RAR_MIB_DropShort;
	if (pkt->len != sizeof(pkt->h) + be16_to_cpu(pkt->h.len))
		return RAR_MIB_DropLength;
	if (group_state(grp) == RAR_S_BOUND && pkt->h.type != RAR_T_JOIN)
		return RAR_MIB_DropState;
	ret = check_token(grp, pkt, t);
	if (ret != INPUT_OK)
		return ret;
	return check_sender(grp, pkt, t);
}

/* Can the chunks come here, and are they as long as they must be? */
static int check_run(const struct rar_ring *ring, const struct rar_run *run,
		     u64 bytes, struct rar_chunk *c)
{
	if (run->chunk >= ring->nchunks ||
	    run->n > rar_ring_block_end(ring, run->chunk) - run->chunk)
		return RAR_MIB_DropChunk;
	rar_ring_chunk(ring, run->chunk, c);
	if (!rar_ring_receives(ring, run->phase, c->block))
		return RAR_MIB_DropChunk;
	return rar_ring_bytes(ring, run->chunk, run->n) == bytes ?
	       INPUT_OK : RAR_MIB_DropLength;
}

/* -- data ---------------------------------------------------------------- */

static void print_of(const struct rar_data_hdr *dh, struct rar_print *p)
{
	p->count = be64_to_cpu(dh->count);
	p->root = be16_to_cpu(dh->root);
	p->collective = dh->collective;
	p->dtype = dh->dtype;
	p->redop = dh->redop;
	p->flags = dh->opflags;
}

/* In what do two members disagree about an operation? */
static enum rar_reason print_differs(const struct rar_print *a,
				     const struct rar_print *b)
{
	if (a->collective != b->collective)
		return RAR_R_COLLECTIVE;
	if (a->dtype != b->dtype)
		return RAR_R_DTYPE;
	if (a->redop != b->redop)
		return RAR_R_REDOP;
	if (a->count != b->count)
		return RAR_R_COUNT;
	if (a->root != b->root)
		return RAR_R_ROOT;
	return a->flags != b->flags ? RAR_R_FLAGS : RAR_R_NONE;
}

static int early_charge(struct rar_group *grp, struct sk_buff *skb)
{
	u64 limit = EARLY_TRUESIZE * (u64)READ_ONCE(grp->rn->sysctl_early_bytes);

	lockdep_assert_held(&grp->early.lock);
	if (grp->early.truesize + skb->truesize > limit)
		return RAR_MIB_DropEarlyFull;
	if (atomic64_add_return(skb->truesize, &grp->rn->early) >
	    READ_ONCE(grp->rn->sysctl_mem) / 4)
		goto undo_net;
	if (atomic64_add_return(skb->truesize, &early_all) >
	    (u64)totalram_pages() << PAGE_SHIFT >> EARLY_ALL_SHIFT)
		goto undo_all;
	grp->early.truesize += skb->truesize;
	return INPUT_OK;
undo_all:
	atomic64_sub(skb->truesize, &early_all);
undo_net:
	atomic64_sub(skb->truesize, &grp->rn->early);
	return RAR_MIB_DropEarlyFull;
}

static void early_uncharge(struct rar_group *grp, struct sk_buff *skb)
{
	grp->early.truesize -= skb->truesize;
	atomic64_sub(skb->truesize, &grp->rn->early);
	atomic64_sub(skb->truesize, &early_all);
}

/* What can be kept of a packet: itself, or a copy of a superpacket's part. */
static struct sk_buff *early_skb(struct rar_pkt *pkt, u32 *off)
{
	struct sk_buff *skb;

	if (!skb_is_gso(pkt->skb) || pkt->whole) {
		pkt->skb = skb_share_check(pkt->skb, GFP_ATOMIC);
		*off = pkt->off;
		return pkt->skb;
	}
	skb = alloc_skb(pkt->len, GFP_ATOMIC);
	if (skb)
		skb_copy_bits(pkt->skb, pkt->off, skb_put(skb, pkt->len), pkt->len);
	*off = 0;
	return skb;
}

/*
 * A packet of an operation that is not posted here: keep it. It is recorded
 * when held, so everything that can be wrong with it is checked now.
 * Returns -EAGAIN if the operation was posted meanwhile.
 */
static int early_hold(struct rar_group *grp, struct rar_pkt *pkt,
		      const struct rar_data_hdr *dh, const struct rar_run *run)
{
	u64 op_seq = be64_to_cpu(dh->op_seq), op_next;
	u32 esize = rar_dtype_size(dh->dtype), off;
	struct rar_ring ring;
	struct rar_chunk c;
	struct sk_buff *skb;
	int ret;

	if (!esize || be64_to_cpu(dh->count) > RAR_MAX_BYTES / esize ||
	    rar_ring_init(&ring, be64_to_cpu(dh->count) * esize, grp->payload,
			  grp->size, grp->rank))
		return RAR_MIB_DropOp;
	ret = check_run(&ring, run, pkt->len - run->n * sizeof(*dh), &c);
	if (ret != INPUT_OK)
		return ret;
	skb = early_skb(pkt, &off);
	if (!skb)
		return RAR_MIB_DropMemory;

	spin_lock_bh(&grp->early.lock);
	/* Pairs with rar_input_post(): posted first, then it takes the list. */
	op_next = smp_load_acquire(&grp->op_next);
	if (op_seq < op_next)
		ret = -EAGAIN;
	/* It never will be posted, and the list was flushed. */
	else if (READ_ONCE(grp->shut) || group_state(grp) == RAR_S_FAILED)
		ret = RAR_MIB_DropState;
	else if (op_seq - op_next >= RAR_MAX_OPS)
		ret = RAR_MIB_DropOp;
	else
		ret = early_charge(grp, skb);
	if (ret == INPUT_OK) {
		/* Nothing outside may wait for a packet that waits for a user. */
		skb_dst_drop(skb);
		skb_orphan(skb);
		nf_reset_ct(skb);
		skb_ext_reset(skb);
		skb->dev = NULL;
		*early_cb(skb) = (struct early_cb) {
			.off = off, .len = pkt->len, .n = run->n,
			.whole = pkt->whole || skb != pkt->skb,
			.op_seq = op_seq,
		};
		__skb_queue_tail(&grp->early.list, skb);
		rar_mib_add(grp->rn, EarlyHeld, run->n);
		ret = skb == pkt->skb ? INPUT_TAKEN : INPUT_OK;
		skb = pkt->skb;
	}
	spin_unlock_bh(&grp->early.lock);
	if (skb != pkt->skb)
		kfree_skb(skb);
	return ret;
}

/* An operation that is released here: a duplicate, if history agrees. */
static int input_finished(struct rar_group *grp, u64 op_seq,
			  const struct rar_print *print)
{
	bool agrees;

	spin_lock_bh(&grp->tx.lock);
	agrees = op_seq + RAR_HISTORY > grp->op_next &&
		 grp->history[op_seq % RAR_HISTORY] == rar_print_hash(print);
	spin_unlock_bh(&grp->tx.lock);
	return agrees ? INPUT_OK : RAR_MIB_DropOp;
}

/*
 * Where the chunks of a run come from: a packet, or the buffer of a predecessor in
 * this namespace. The first one lies at @off, the others @stride apart.
 */
struct source {
	struct rar_pkt *pkt;		/* NULL: a buffer */
	struct rar_walk walk;
	u64 off;
	u32 stride;
};

/*
 * Chunks are added. @in: what came. @own: the contribution. @sum: where the sum goes,
 * and into the packet as well if @both.
 */
struct add_pass {
	const struct rar_operation *op;
	struct rar_reduce_ctx ctx;
	struct rar_walk in, own, sum;
	bool both;
};

/* Where an element lies in two pieces. @len: a multiple of its size. */
static void add_bounced(struct add_pass *pass, u64 at, u64 off, u32 len)
{
	const struct rar_operation *op = pass->op;
	u8 in[INPUT_BOUNCE], own[INPUT_BOUNCE];

	rar_walk_read(&pass->in, off, in, len);
	rar_buf_read(op->own, at, own, len);
	rar_reduce(&pass->ctx, op->print.dtype, op->print.redop, own, in, own,
		   len / op->esize);
	rar_buf_write(&op->buf, at, own, len);
	if (pass->both)
		rar_walk_write(&pass->in, off, own, len);
}

/*
 * sum = in + own for a chunk. What came, the contribution and the place of the
 * sum may each lie in pieces of any length.
 */
static void add_chunk(struct add_pass *pass, u64 at, u64 off, u32 len)
{
	const struct rar_operation *op = pass->op;
	u8 dtype = op->print.dtype, redop = op->print.redop;
	void *in, *own, *sum;
	u32 n, m, k;

	for (; len; at += n, off += n, len -= n) {
		in = rar_walk_at(&pass->in, off, &n);
		own = rar_walk_at(&pass->own, at, &m);
		sum = rar_walk_at(&pass->sum, at, &k);
		n = min(min3(n, m, k), len);
		n -= n % op->esize;
		if (!n) {
			n = min_t(u32, len, INPUT_BOUNCE);
			add_bounced(pass, at, off, n);
		} else if (pass->both) {
			rar_reduce_both(&pass->ctx, dtype, redop, sum, in, own,
					n / op->esize);
		} else {
			rar_reduce(&pass->ctx, dtype, redop, sum, in, own,
				   n / op->esize);
		}
	}
}

/* A superpacket's chunks lie this far apart in it. */
static u32 stride(const struct rar_group *grp)
{
	return sizeof(struct rar_data_hdr) + grp->payload;
}

/* Add the chunks of @won; the FPU is ours for 64 KiB at most. */
static void add_run(struct rar_group *grp, struct rar_operation *op,
		    const struct source *from, const struct rar_run *run,
		    u64 won, const struct rar_chunk *c, bool both)
{
	u32 left = rar_ring_bytes(&op->ring, run->chunk, run->n), i, len;
	struct add_pass pass = {
		.op = op,
		.in = from->walk,
		.own.buf = op->own,
		.sum.buf = &op->buf,
		.both = both,
	};
	u64 at = c->off, off = from->off;

	rar_reduce_begin(&pass.ctx);
	for (i = 0; i < run->n; i++) {
		len = min(left, op->ring.payload);
		if (won & (1ULL << i))
			add_chunk(&pass, at, off, len);
		off += from->stride;
		at += len;
		left -= len;
	}
	rar_reduce_end(&pass.ctx);
	if (both && from->pkt->frame)
		from->pkt->frame->summed = false;
	if (pass.ctx.fpu)
		rar_mib_add(grp->rn, ReduceSimd, hweight64(won));
	else
		rar_mib_add(grp->rn, ReduceScalar, hweight64(won));
}

/* Store the chunks of @won in the buffer. */
static void store_run(struct rar_operation *op, const struct source *from,
		      const struct rar_run *run, u64 won, const struct rar_chunk *c)
{
	u32 left = rar_ring_bytes(&op->ring, run->chunk, run->n), i, len;
	struct rar_walk in = from->walk, to = { .buf = &op->buf };
	struct rar_reduce_ctx ctx;
	u64 at = c->off, off = from->off;

	rar_reduce_begin_copy(&ctx, left);
	for (i = 0; i < run->n; i++) {
		len = min(left, op->ring.payload);
		if (won & (1ULL << i))
			rar_walk_copy(&ctx, &to, at, &in, off, len);
		off += from->stride;
		at += len;
		left -= len;
	}
	rar_reduce_end(&ctx);
}

/* No page of a file, or of a process, whatever the packet says about itself. */
static bool frags_writable(const struct sk_buff *skb)
{
	const struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 i;

	for (i = 0; i < shinfo->nr_frags; i++)
		if (page_folio(skb_frag_page(&shinfo->frags[i]))->mapping)
			return false;
	return true;
}

/*
 * May we write to the packet and send it on? The one predicate: nobody else
 * sees its data, all of it is this run, and the headers can be made anew.
 */
static bool may_write(struct rar_group *grp, const struct rar_pkt *pkt)
{
	struct sk_buff *skb = pkt->skb;

	if (!pkt->whole || grp->next_here)
		return false;
	if (pkt->frame)
		return rar_output_frame_ready(grp, pkt);
	return !skb_shared(skb) && !skb_cloned(skb) && !skb_zcopy(skb) &&
	       !skb_has_frag_list(skb) && !skb_has_shared_frag(skb) &&
	       skb_headlen(skb) >= pkt->off && frags_writable(skb);
}

/*
 * Claim, add or store, publish: no exit in between. To read the packet cannot fail
 * on a length that check_datagram() found in it. Sets @done: what is
 * published now, and @dups: what of it was before.
 */
static int input_run(struct rar_group *grp, struct rar_operation *op,
		     const struct source *from, const struct rar_run *run,
		     const struct rar_chunk *c, u64 *done, u64 *dups)
{
	struct rar_tx_item item = { .frame = from->pkt && from->pkt->frame };
	bool write = from->pkt && may_write(grp, from->pkt), forward;
	u64 won = rar_op_claim(op, run), lost = rar_mask(run->n) & ~won;

	write &= !lost;
	*dups = lost ? rar_op_published(op, run, lost) : 0;
	*done = won | *dups;
	if (!won)
		return *dups == lost ? INPUT_OK : RAR_MIB_DropClaimed;
	if (run->phase == RAR_RS)
		add_run(grp, op, from, run, won, c, write);
	else
		store_run(op, from, run, won, c);
	rar_op_publish(op, run, won);
	trace_rar_reduce(grp, op->seq, run->phase, run->chunk,
			 rar_op_bytes(op, run, won));

	rar_mib_add(grp->rn, RxData, hweight64(won));
	rar_mib_add(grp->rn, RxBytes, rar_op_bytes(op, run, won));
	forward = rar_link_publish(grp, op, run, won, c, write ? &item : NULL);
	if (forward) {
		rar_output_forward(grp, &item, from->pkt);
		if (rar_op_unuse(op))
			rar_group_wake(grp);
	}
	if (item.frame)
		rar_xdp_later(grp, false);
	else
		rar_link_push(grp);
	rar_link_published(grp, op, run, won, c);
	return forward ? INPUT_TAKEN : INPUT_OK;
}

/*
 * Sums come round only after this rank has added its part. Otherwise the operation
 * could end, and the user have his memory back, while a chunk is added to it.
 */
static bool too_soon(const struct rar_operation *op, const struct rar_run *run,
		     const struct rar_chunk *c)
{
	u64 mask = rar_mask(run->n);
	struct rar_run rs = *run;

	rs.phase = RAR_RS;
	return run->phase == RAR_AG &&
	       rar_ring_receives(&op->ring, RAR_RS, c->block) &&
	       rar_op_published(op, &rs, mask) != mask;
}

/* A run of @bytes of an operation that was posted here. */
static int input_posted(struct rar_group *grp, const struct source *from,
			u64 op_seq, const struct rar_print *print,
			const struct rar_run *run, u64 bytes, u64 *done, u64 *dups)
{
	struct rar_operation *op;
	enum rar_reason why;
	struct rar_chunk c;
	int ret;

	op = rcu_dereference(grp->ops[op_seq % RAR_MAX_OPS]);
	if (!op || op->seq != op_seq) {
		*dups = rar_mask(run->n);
		return input_finished(grp, op_seq, print);
	}
	why = print_differs(print, &op->print);
	if (why) {
		rar_fail_pair(grp, EBADMSG, why,
			      rar_group_rank(grp, RAR_PREV), grp->rank,
			      op_seq);
		return RAR_MIB_DropOp;
	}
	ret = check_run(&op->ring, run, bytes, &c);
	if (ret != INPUT_OK)
		return ret;
	if (too_soon(op, run, &c))
		return RAR_MIB_DropChunk;
	return input_run(grp, op, from, run, &c, done, dups);
}

static struct rar_walk packet_walk(const struct rar_pkt *pkt)
{
	return (struct rar_walk){
		.skb = pkt->skb,
		.xdp = pkt->frame ? pkt->frame->xdp : NULL,
	};
}

/* The same for a packet. */
static int input_packet(struct rar_group *grp, struct rar_pkt *pkt,
			const struct rar_data_hdr *dh, const struct rar_run *run,
			u64 *done, u64 *dups)
{
	const struct source from = {
		.pkt = pkt,
		.walk = packet_walk(pkt),
		.off = pkt->off + sizeof(*dh),
		.stride = stride(grp),
	};
	struct rar_print print;

	print_of(dh, &print);
	return input_posted(grp, &from, be64_to_cpu(dh->op_seq), &print, run,
			    pkt->len - run->n * sizeof(*dh), done, dups);
}

/**
 * rar_input_local() - chunks come from the buffer of a rank in this namespace
 * @grp:  group in RUN or LEAVING
 * @item: what comes; its operation is the predecessor's, and referenced
 *
 * Bottom halves off, RCU read side. Return: which chunks of the run are here now;
 * for the others it is too early, or somebody is at them.
 */
u64 rar_input_local(struct rar_group *grp, const struct rar_tx_item *item)
{
	const struct rar_operation *op = item->op;
	const struct rar_run *run = &item->run;
	u64 done = rar_mask(run->n), dups = 0;
	struct source from = { .stride = op->ring.payload };
	struct rar_chunk c;
	int ret;

	/* Acquire pairs with the release in rar_group_post(). */
	if (op->seq >= smp_load_acquire(&grp->op_next))
		return 0;
	rar_ring_chunk(&op->ring, run->chunk, &c);
	from.walk.buf = rar_op_source(op, run, &c);
	from.off = c.off;
	ret = input_posted(grp, &from, op->seq, &op->print, run,
			   rar_ring_bytes(&op->ring, run->chunk, run->n), &done,
			   &dups);
	if (ret != INPUT_OK)
		return 0;
	rar_mib_inc(grp->rn, RxLocal);
	return done;
}

/* memcmp() of two headers, inline. */
static bool same_hdr(const struct rar_data_hdr *a, const struct rar_data_hdr *b)
{
	const struct hdr_words {
		u64 w[sizeof(struct rar_data_hdr) / sizeof(u64)];
	} __packed __aligned(1) *x = (const void *)a, *y = (const void *)b;
	u64 differ = 0;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(x->w); i++)
		differ |= x->w[i] ^ y->w[i];
	return !differ;
}

/*
 * How many chunks from the first one of @pkt on belong together? Each has a
 * header of its own, which must say just what follows from the first one's.
 */
static u32 run_length(const struct rar_group *grp, const struct rar_pkt *pkt,
		      const struct rar_data_hdr *dh)
{
	u32 n, off = pkt->off, left = pkt->len, len, together;
	struct rar_data_hdr want = *dh, buf, *h;
	struct rar_walk walk = { .skb = pkt->skb };

	for (n = 1; n < RAR_RUN_MAX && left > stride(grp); n++) {
		off += stride(grp);
		left -= stride(grp);
		len = min(left, stride(grp));
		if (len < sizeof(buf))
			break;
		h = rar_walk_at(&walk, off, &together);
		if (together < sizeof(buf))
			h = skb_header_pointer(pkt->skb, off, sizeof(buf), &buf);
		want.h.len = cpu_to_be16(len - sizeof(want.h));
		want.seq = cpu_to_be32(be32_to_cpu(dh->seq) + n);
		want.chunk = cpu_to_be32(be32_to_cpu(dh->chunk) + n);
		if (!h || !same_hdr(h, &want))
			break;
	}
	return n;
}

/* RS or AG, validated. May take pkt->skb (INPUT_TAKEN), or leave a frame alone. */
static int input_data(struct rar_group *grp, struct rar_pkt *pkt, u32 n)
{
	enum rar_phase phase = pkt->h.type == RAR_T_RS ? RAR_RS : RAR_AG;
	struct rar_walk walk = packet_walk(pkt);
	u64 done = rar_mask(n), dups = 0;
	struct rar_data_hdr dh;
	struct rar_run run;
	int ret = -EAGAIN;

	rar_walk_read(&walk, pkt->off, &dh, sizeof(dh));
	run = (struct rar_run){ be32_to_cpu(dh.chunk), n, phase };
	if (!rar_link_check(&dh, n))
		return RAR_MIB_DropSeq;
	/* Acquire pairs with the release in rar_group_post(). */
	if (be64_to_cpu(dh.op_seq) >= smp_load_acquire(&grp->op_next)) {
		if (pkt->frame)
			return INPUT_LATER;
		ret = early_hold(grp, pkt, &dh, &run);
	}
	if (pkt->frame)
		rar_xdp_mirror(grp->rn, pkt->frame);
	if (ret == -EAGAIN)
		ret = input_packet(grp, pkt, &dh, &run, &done, &dups);
	if (ret != INPUT_OK && ret != INPUT_TAKEN)
		return ret;
	if (dups)
		rar_mib_add(grp->rn, RxDup, hweight64(dups));
	if (!rar_link_record(grp, &dh, done, dups, pkt->ce))
		return ret;
	if (pkt->frame)
		rar_xdp_later(grp, true);
	else
		rar_link_send_ack(grp);
	return ret;
}

/* -- held packets -------------------------------------------------------- */

static void early_take(struct rar_group *grp, u64 op_seq,
		       struct sk_buff_head *out)
{
	struct sk_buff *skb, *tmp;

	spin_lock_bh(&grp->early.lock);
	skb_queue_walk_safe(&grp->early.list, skb, tmp) {
		if (early_cb(skb)->op_seq > op_seq)
			continue;
		__skb_unlink(skb, &grp->early.list);
		early_uncharge(grp, skb);
		__skb_queue_tail(out, skb);
	}
	spin_unlock_bh(&grp->early.lock);
}

/* A held packet was recorded when it came: it is never dropped for good. */
static void early_replay(struct rar_group *grp, struct sk_buff *skb)
{
	struct rar_pkt pkt = { .skb = skb, .off = early_cb(skb)->off,
			       .len = early_cb(skb)->len };
	struct rar_data_hdr dh;
	struct rar_run run;
	u64 done, dups;
	int ret;

	skb_copy_bits(skb, pkt.off, &dh, sizeof(dh));
	pkt.h = dh.h;
	pkt.whole = early_cb(skb)->whole;
	run = (struct rar_run){ be32_to_cpu(dh.chunk), early_cb(skb)->n,
				dh.h.type == RAR_T_RS ? RAR_RS : RAR_AG };
	ret = input_packet(grp, &pkt, &dh, &run, &done, &dups);
	if (ret == INPUT_OK)
		consume_skb(skb);
	else if (ret != INPUT_TAKEN)
		rar_input_drop(grp->rn, skb, ret);
}

/**
 * rar_input_post() - an operation was posted: use what came early, and start
 * @grp:    group
 * @op_seq: the operation
 *
 * Process context.
 */
void rar_input_post(struct rar_group *grp, u64 op_seq)
{
	struct rar_operation *op;
	struct sk_buff_head list;
	struct sk_buff *skb;
	bool any;

	__skb_queue_head_init(&list);
	local_bh_disable();
	rcu_read_lock();
	/* As for packets: stop_writing() waits for who does not see this. */
	if (group_state(grp) == RAR_S_FAILED)
		goto out;
	if (grp->size == 1) {
		op = rcu_dereference(grp->ops[op_seq % RAR_MAX_OPS]);
		if (op) {
			atomic_set(&op->left, 0);
			rar_group_op_done(grp, op);
		}
		goto out;
	}
	early_take(grp, op_seq, &list);
	any = !skb_queue_empty(&list);
	while ((skb = __skb_dequeue(&list)))
		early_replay(grp, skb);
	rar_link_push(grp);
	/* The predecessor may wait for this opening. */
	if (grp->prev_here)
		rar_local_posted(grp);
	if (any || READ_ONCE(grp->rn->sysctl_early_bytes) <
	    4 * (grp->payload + RAR_EARLY_COST))
		rar_link_send_ack(grp);
out:
	rcu_read_unlock();
	local_bh_enable();
}

/* Drop everything held: the group failed or ends. */
void rar_input_flush_early(struct rar_group *grp)
{
	struct sk_buff_head list;

	__skb_queue_head_init(&list);
	early_take(grp, U64_MAX, &list);
	__skb_queue_purge(&list);
}

/* -- dispatch ------------------------------------------------------------ */

/* Packets of an epoch: is the group in it? A tombstone says why not. */
static int check_running(struct rar_group *grp, const struct rar_pkt *pkt)
{
	enum rar_dir dir;

	switch (group_state(grp)) {
	case RAR_S_READY:
		/* A neighbour was in RUN, so rank 0 has committed. */
		spin_lock_bh(&grp->lock);
		if (grp->state == RAR_S_READY && pkt->h.type != RAR_T_ABORT &&
		    pkt->h.type != RAR_T_RESET)
			rar_group_run(grp);
		spin_unlock_bh(&grp->lock);
		rar_group_wake(grp);
		break;
	case RAR_S_FAILED:
		if (pkt->h.type == RAR_T_ABORT ||
		    pkt->len < sizeof(struct rar_notice_hdr) ||
		    time_before(jiffies, grp->told + HZ / 50))
			return RAR_MIB_DropState;
		grp->told = jiffies;
		dir = be16_to_cpu(pkt->h.src) == rar_group_rank(grp, RAR_NEXT) ?
		      RAR_NEXT : RAR_PREV;
		rar_fail_tell(grp, dir);
		return RAR_MIB_DropState;
	}
	switch (group_state(grp)) {
	case RAR_S_RUN:
	case RAR_S_LEAVING:
		return INPUT_OK;
	}
	return RAR_MIB_DropState;
}

static void hear(struct rar_group *grp, const struct rar_pkt *pkt)
{
	u32 src = be16_to_cpu(pkt->h.src);

	if (src == rar_group_rank(grp, RAR_NEXT))
		rar_group_hear(grp, RAR_NEXT);
	if (src == rar_group_rank(grp, RAR_PREV))
		rar_group_hear(grp, RAR_PREV);
}

static int dispatch(struct rar_group *grp, struct rar_pkt *pkt, u32 n)
{
	int ret;

	if (be64_to_cpu(pkt->h.token) != grp->epoch || !grp->epoch) {
		rar_join_rcv(grp, pkt);
		return INPUT_OK;
	}
	ret = check_running(grp, pkt);
	if (ret != INPUT_OK && pkt->h.type != RAR_T_ABORT)
		return ret;
	hear(grp, pkt);
	switch (pkt->h.type) {
	case RAR_T_RS:
	case RAR_T_AG:
		return input_data(grp, pkt, n);
	case RAR_T_ACK:
		rar_link_rcv_ack(grp, pkt);
		break;
	case RAR_T_PROBE:
		rar_link_rcv_probe(grp, pkt);
		break;
	default:
		rar_fail_rcv(grp, pkt);
	}
	return INPUT_OK;
}

/*
 * The hook comes before the stack's own checks: addresses that no packet from
 * a wire may have are left to them.
 */
static bool martian(const struct net_device *dev, const struct rar_pkt *pkt)
{
	bool lo = dev->flags & IFF_LOOPBACK;
	__be32 saddr = pkt->from.ip.s6_addr32[0];
	__be32 daddr = pkt->to.ip.s6_addr32[0];

	if (pkt->from.af == AF_INET)
		return ipv4_is_multicast(saddr) || ipv4_is_lbcast(saddr) ||
		       ipv4_is_zeronet(saddr) ||
		       (!lo && (ipv4_is_loopback(saddr) ||
				ipv4_is_loopback(daddr)));
	return ipv6_addr_is_multicast(&pkt->from.ip) ||
	       ipv6_addr_any(&pkt->from.ip) ||
	       (!lo && (ipv6_addr_loopback(&pkt->from.ip) ||
			ipv6_addr_loopback(&pkt->to.ip)));
}

/* Why a packet on our port that the ingress hook let pass is no use. */
static enum rar_mib why_not_ours(struct sk_buff *skb, u32 udp)
{
	u8 buf, *first;

	first = skb_header_pointer(skb, udp + sizeof(struct udphdr), 1, &buf);
	if (first && *first >> 4 != RAR_WIRE_MAGIC >> 4)
		return RAR_MIB_DropForeign;
	return RAR_MIB_DropShort;
}

/* The stack has reassembled, checked the IP header and found the socket. */
static void dgram_from_stack(struct sk_buff *skb, struct datagram *d)
{
	bool v4 = skb->protocol == htons(ETH_P_IP);

	d->fragment = v4 ? IPCB(skb)->frag_max_size :
			   IP6CB(skb)->frag_max_size;
	d->options = v4 ? d->options :
			  skb_network_header_len(skb) != sizeof(struct ipv6hdr);
	d->udp = 0;
	d->end = skb->len;
	d->bad_ip_csum = false;
}

/*
 * How many chunks from the first one of a superpacket's @part on are taken at once?
 * Sets its length, and whether it is all of @pkt.
 */
static u32 part_run(struct rar_group *grp, struct rar_pkt *part,
		    const struct rar_pkt *pkt)
{
	u32 size = part->len, end = pkt->off + pkt->len, n = 1;
	struct rar_data_hdr dh;

	skb_copy_bits(part->skb, part->off, &dh, sizeof(dh));
	if (size == stride(grp)) {
		part->len = end - part->off;
		n = run_length(grp, part, &dh);
		part->len = min(part->len, n * size);
	}
	part->whole = pkt->whole && part->len == pkt->len;
	if (part->whole)
		return n;
	/* Acquire pairs with the release in rar_group_post(). */
	if (be64_to_cpu(dh.op_seq) >= smp_load_acquire(&grp->op_next)) {
		/* It is held chunk by chunk. */
		part->len = min(part->len, size);
		n = 1;
	}
	return n;
}

/* The member that a part is for, which need not be that of the one before. */
static struct rar_group *part_group(struct rar_net *rn, struct rar_group *grp,
				    const struct rar_hdr *before,
				    const struct rar_pkt *part)
{
	if (part->h.group == before->group && part->h.dst == before->dst &&
	    part->h.token == before->token)
		return grp;
	grp = rar_group_lookup(rn, be64_to_cpu(part->h.group),
			       be16_to_cpu(part->h.dst),
			       be64_to_cpu(part->h.token));
	return grp && addressed_to(grp, part) ? grp : NULL;
}

/*
 * Each part of a superpacket is a packet of its own: GRO merges whatever is as long
 * and has the same addresses and ports, of any type and for any member. Chunks
 * that belong together are taken at once.
 */
static int input_super(struct rar_group *grp, struct rar_pkt *pkt)
{
	u32 size = skb_shinfo(pkt->skb)->gso_size, end = pkt->off + pkt->len, n;
	struct rar_net *rn = grp->rn;
	struct rar_pkt part = *pkt;
	struct rar_hdr before;
	int ret;

	for (; part.off < end && part.skb; part.off += n * size) {
		n = 1;
		part.len = min(end - part.off, size);
		part.whole = false;
		before = part.h;
		ret = RAR_MIB_DropShort;
		if (part.len >= sizeof(part.h)) {
			skb_copy_bits(part.skb, part.off, &part.h, sizeof(part.h));
			grp = part_group(rn, grp, &before, &part);
			ret = grp ? validate(grp, &part) : RAR_MIB_DropGroup;
		}
		if (ret == INPUT_OK) {
			if (part.h.type == RAR_T_RS || part.h.type == RAR_T_AG)
				n = part_run(grp, &part, pkt);
			ret = dispatch(grp, &part, n);
		}
		if (ret == INPUT_TAKEN)
			return ret;
		if (ret != INPUT_OK)
			this_cpu_inc(rn->mib->v[ret]);
	}
	pkt->skb = part.skb;	/* it may be a clone now, or none */
	return INPUT_OK;
}

/**
 * rar_rcv() - a packet from any path
 * @rn:   netns
 * @skb:  ingress: at the network header; udp: at the UDP header
 * @path: where it came by
 *
 * Softirq, RCU read side. Return: RAR_TAKEN and @skb is consumed; RAR_PASS
 * (ingress only) and it is untouched, since it is not for a member here.
 */
enum rar_verdict rar_rcv(struct rar_net *rn, struct sk_buff *skb,
			 enum rar_rx_path path)
{
	u32 nhoff = path == RAR_PATH_INGRESS ? 0 : skb_network_offset(skb);
	struct rar_pkt pkt = { .skb = skb, .dev = skb->dev->ifindex,
			       .local = path == RAR_PATH_UDP };
	struct rar_group *grp = NULL;
	struct datagram d = {};
	int ret;

	if (skb->protocol == htons(ETH_P_IP) ?
	    !dgram_v4(&pkt, nhoff, &d) : !dgram_v6(&pkt, nhoff, &d))
		return RAR_PASS;
	if (path == RAR_PATH_UDP)
		dgram_from_stack(skb, &d);
	else if (martian(skb->dev, &pkt) ||
		 (d.options && skb->protocol == htons(ETH_P_IPV6)))
		return RAR_PASS;

	ret = RAR_MIB_DropGroup;
	if (!find_headers(rn, &pkt, &d))
		ret = why_not_ours(skb, d.udp);
	else
		grp = rar_group_lookup(rn, be64_to_cpu(pkt.h.group),
				       be16_to_cpu(pkt.h.dst),
				       be64_to_cpu(pkt.h.token));
	if (!grp && path == RAR_PATH_INGRESS)
		return RAR_PASS;
	if (grp && pkt.from.scope && (skb->dev->flags & IFF_LOOPBACK))
		pkt.from.scope = grp->path[RAR_NEXT].dst.scope;
	if (grp && !addressed_to(grp, &pkt)) {
		if (path == RAR_PATH_INGRESS)
			return RAR_PASS;
		ret = RAR_MIB_DropAddress;
	} else if (grp) {
		ret = check_datagram(&pkt, &d);
	}
	if (grp && ret == INPUT_OK && !skb_is_gso(skb))
		ret = validate(grp, &pkt);
	if (grp && ret == INPUT_OK) {
		pkt.whole = path == RAR_PATH_INGRESS &&
			    skb->len == pkt.off + pkt.len;
		if (path == RAR_PATH_INGRESS)
			rar_mib_inc(rn, RxIngress);
		else
			rar_mib_inc(rn, RxEncap);
		ret = skb_is_gso(skb) ? input_super(grp, &pkt) :
					dispatch(grp, &pkt, 1);
	}
	if (ret == INPUT_OK)
		consume_skb(pkt.skb);
	else if (ret != INPUT_TAKEN && pkt.skb)
		rar_input_drop(rn, pkt.skb, ret);
	else if (ret != INPUT_TAKEN)
		this_cpu_inc(rn->mib->v[ret]);
	return RAR_TAKEN;
}

/* Is it data of the epoch that runs here? No other one will, in this member. */
static bool brings_data(const struct rar_group *grp, const struct rar_pkt *pkt)
{
	u8 state = group_state(grp);

	return (pkt->h.type == RAR_T_RS || pkt->h.type == RAR_T_AG) &&
	       (state == RAR_S_RUN || state == RAR_S_LEAVING) &&
	       be64_to_cpu(pkt->h.token) == grp->epoch &&
	       header(pkt, pkt->off, sizeof(struct rar_data_hdr), NULL);
}

/* A member here that the frame brings data for: the frame is good in every respect. */
static struct rar_group *frame_group(struct rar_net *rn, const struct rar_pkt *pkt,
				     const struct datagram *d)
{
	struct rar_group *grp;

	grp = rar_group_lookup(rn, be64_to_cpu(pkt->h.group),
			       be16_to_cpu(pkt->h.dst), be64_to_cpu(pkt->h.token));
	if (!grp || !addressed_to(grp, pkt))
		return NULL;
	if (brings_data(grp, pkt) && check_datagram(pkt, d) == INPUT_OK &&
	    validate(grp, pkt) == INPUT_OK)
		return grp;
	rar_mib_inc(rn, XdpPassed);
	return NULL;
}

/**
 * rar_rcv_frame() - a packet that has no skb yet
 * @rn:       netns
 * @frame:    it
 * @nhoff:    where its IP header is
 * @protocol: of its link header: ETH_P_IP or ETH_P_IPV6
 *
 * Only data that are good in every respect are taken here. The ingress hook sees all
 * else, judges it as it does other packets, and counts it. Softirq, RCU read side.
 * Return: XDP_PASS and it is untouched, or XDP_DROP, and @frame says whether it goes
 * on.
 */
int rar_rcv_frame(struct rar_net *rn, struct rar_frame *frame, u32 nhoff,
		  __be16 protocol)
{
	struct net_device *dev = frame->xdp->rxq->dev;
	struct rar_pkt pkt = { .frame = frame, .dev = dev->ifindex };
	struct rar_group *grp;
	struct datagram d = {};
	int ret;

	if (protocol == htons(ETH_P_IP) ? !dgram_v4(&pkt, nhoff, &d) :
					  !dgram_v6(&pkt, nhoff, &d))
		return XDP_PASS;
	if (martian(dev, &pkt) || !find_headers(rn, &pkt, &d))
		return XDP_PASS;
	grp = frame_group(rn, &pkt, &d);
	if (!grp)
		return XDP_PASS;
	pkt.whole = pkt_len(&pkt) == pkt.off + pkt.len;
	hear(grp, &pkt);
	ret = input_data(grp, &pkt, 1);
	if (ret == INPUT_LATER) {
		rar_mib_inc(rn, XdpEarly);
		return XDP_PASS;
	}
	rar_mib_inc(rn, RxXdp);
	if (ret != INPUT_OK && ret != INPUT_TAKEN) {
		this_cpu_inc(rn->mib->v[ret]);
		trace_rar_drop(NULL, ret);
	}
	return XDP_DROP;
}
