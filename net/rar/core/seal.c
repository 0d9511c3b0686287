// SPDX-License-Identifier: GPL-2.0
/*
 * The seal: a tag at the end of each packet, which only members can make, since
 * it needs the key that they share. See Documentation/design/seal.rst.
 *
 * All cryptography is that of the kernel's library: ChaCha20-Poly1305 (RFC
 * 8439) for the packets of an epoch, BLAKE2s with a key (RFC 7693) for those of
 * a join and to derive keys.
 */
#include <crypto/algapi.h>
#include <crypto/chacha20poly1305.h>
#include <linux/export.h>
#include <linux/slab.h>

#include "core/cursor.h"
#include "core/key.h"
#include "core/member.h"
#include "core/seal.h"

#define SEAL_KEY	CHACHA20POLY1305_KEY_SIZE
#define SEAL_TAG	CHACHA20POLY1305_AUTHTAG_SIZE
#define SEAL_WINDOW	2048U		/* counters that are told apart */
#define SEAL_COUNTERS	BIT_ULL(60)	/* of a direction in an epoch */

/*
 * struct rar_seal - the keys between this rank and another one in an epoch, or
 * between a member and a box in the epoch of their leg
 * @rcu:   frees it
 * @epoch: the epoch: the token of the packets
 * @out:   key of what this rank sends
 * @in:    key of what it gets
 * @sent:  counters used
 * @lock:  protects what follows
 * @next:  highest counter that came, plus 1
 * @seen:  counters that came, modulo SEAL_WINDOW, valid in the window below
 *         @next
 */
struct rar_seal {
	struct rcu_head rcu;
	u64 epoch;
	u8 out[SEAL_KEY];
	u8 in[SEAL_KEY];
	atomic64_t sent;
	spinlock_t lock; /* see above */
	u64 next;
	DECLARE_BITMAP(seen, SEAL_WINDOW);
};

/*
 * What the tag of a packet of a join covers, without padding between the
 * fields: a hash over the packet, and between whom it travels.
 */
struct seal_join {
	u8 hash[RAR_SECRET];
	struct in6_addr from, to;
	__be16 from_port, to_port;
};

/* What a key of an epoch is derived from; no padding between the fields. */
struct seal_input {
	u8 label[8];
	__le64 group;
	__le64 epoch;
	__le64 nonce[2];	/* of the sender and of the receiver */
	__le32 size;
	__le32 security;
	__le16 src, dst;
	u32 zero;
};

/* One end of a pair that has keys. The nonce is new for each epoch. */
struct seal_end {
	u32 rank;
	u64 nonce;
};

/* Derive the key of a direction of an epoch of the group. */
static void direction(const struct rar_member *m, u64 epoch,
		      const struct seal_end *src, const struct seal_end *dst,
		      u8 *key)
{
	bool box = rar_is_of_box(m, src->rank) || rar_is_of_box(m, dst->rank);
	struct seal_input in = {
		.group = cpu_to_le64(m->id),
		.epoch = cpu_to_le64(epoch),
		.nonce = { cpu_to_le64(src->nonce), cpu_to_le64(dst->nonce) },
		.size = cpu_to_le32(m->size),
		.security = cpu_to_le32(m->security),
		.src = cpu_to_le16(src->rank),
		.dst = cpu_to_le16(dst->rank),
	};

	static_assert(sizeof(in) == 56);
	memcpy(in.label, box ? "rar leg" : "rar dir", sizeof(in.label));
	rar_key_derive(box ? &m->trust.box : &m->trust.secret, &in, sizeof(in),
		       key, SEAL_KEY);
}

static void seal_free(struct rcu_head *rcu)
{
	kfree_sensitive(container_of(rcu, struct rar_seal, rcu));
}

/* Let a rank or a leg have other keys, or none. Those before may be in use. */
static void replace(struct rar_seal __rcu **slot, struct rar_seal *seal)
{
	struct rar_seal *old = rcu_replace_pointer(*slot, seal, true);

	if (old)
		call_rcu(&old->rcu, seal_free);
}

/*
 * Make the keys of both directions.
 * @epoch: the token of the packets
 * @group: the epoch of the group
 */
static struct rar_seal *seal_new(const struct rar_member *m, u64 epoch,
				 u64 group, const struct seal_end *self,
				 const struct seal_end *peer)
{
	struct rar_seal *seal = kzalloc(sizeof(*seal),
					GFP_ATOMIC | __GFP_NOWARN);

	if (!seal)
		return NULL;
	seal->epoch = epoch;
	spin_lock_init(&seal->lock);
	direction(m, group, self, peer, seal->out);
	direction(m, group, peer, self, seal->in);
	return seal;
}

/* Is a rank one that this rank sends packets of an epoch to? */
static bool is_peer(struct rar_member *m, u32 rank)
{
	return rank != m->rank &&
	       (rar_member_direct(m, rank) || rank == m->link[RAR_NEXT]->rank ||
		rank == m->link[RAR_PREV]->rank);
}

/**
 * rar_seal_prepare() - get memory for the keys of a group with a seal
 * @m: member that begins to join
 *
 * Process context, one caller at a time.
 *
 * Return: 0 or -ENOMEM.
 */
int rar_seal_prepare(struct rar_member *m)
{
	struct rar_seal __rcu **seals;

	if (!m->tail || m->seals)
		return 0;
	seals = kvcalloc(m->size, sizeof(*seals),
			 GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	/* A JOIN may come at any time, and look for keys. */
	smp_store_release(&m->seals, seals);
	return seals ? 0 : -ENOMEM;
}

/* Has a rank keys of this epoch already? They go on, as their counters do. */
static bool has_keys(const struct rar_member *m, u32 rank, u64 epoch)
{
	struct rar_seal *seal;

	seal = rcu_dereference_protected(m->seals[rank],
					 lockdep_is_held(&m->lock));
	return seal && seal->epoch == epoch;
}

/**
 * rar_seal_start() - derive the keys of an epoch
 * @m:     member with the table of the epoch; @lock held
 * @epoch: the epoch, which the member is about to be ready for
 *
 * Return: 0 or -ENOMEM.
 */
int rar_seal_start(struct rar_member *m, u64 epoch)
{
	const struct rar_row *table = m->join.table;
	struct seal_end self = { m->rank }, peer;
	struct rar_seal *seal;

	lockdep_assert_held(&m->lock);
	if (!m->tail)
		return 0;
	self.nonce = table[m->rank].nonce;
	for (peer.rank = 0; peer.rank < m->size; peer.rank++) {
		if (!is_peer(m, peer.rank) || has_keys(m, peer.rank, epoch))
			continue;
		peer.nonce = table[peer.rank].nonce;
		seal = seal_new(m, epoch, epoch, &self, &peer);
		if (!seal)
			return -ENOMEM;
		replace(&m->seals[peer.rank], seal);
	}
	return 0;
}

/**
 * rar_seal_leg() - derive the keys of a leg
 * @link:  between a member and a box, at either end; its member's lock is held
 * @group: epoch of the group
 * @nonce: of the ENTER, which is new for each attempt of its sender
 * @epoch: of the leg, which is the box's nonce: it is new for each job
 *
 * The caller makes no leg of the same nonce and epoch twice, or sends nothing
 * by the first one: the counters begin at 0.
 *
 * Return: 0 or -ENOMEM.
 */
int rar_seal_leg(struct rar_link *link, u64 group, u64 nonce, u64 epoch)
{
	struct rar_member *m = link->member;
	bool box = m->rank == RAR_BOX_RANK;
	struct seal_end self = { m->rank, box ? epoch : nonce };
	struct seal_end peer = { link->rank, box ? nonce : epoch };
	struct rar_seal *seal;

	lockdep_assert_held(&m->lock);
	if (!m->tail)
		return 0;
	seal = seal_new(m, epoch, group, &self, &peer);
	if (!seal)
		return -ENOMEM;
	replace(&link->seal, seal);
	return 0;
}
EXPORT_SYMBOL_GPL(rar_seal_leg);

/* Forget the keys of a leg that nobody finds any more. */
void rar_seal_forget(struct rar_link *link)
{
	replace(&link->seal, NULL);
}
EXPORT_SYMBOL_GPL(rar_seal_forget);

/* Forget all keys of a member that nobody finds any more. Process context. */
void rar_seal_free(struct rar_member *m)
{
	struct rar_link *link;
	u32 rank;

	for (rank = 0; m->seals && rank < m->size; rank++)
		replace(&m->seals[rank], NULL);
	kvfree(m->seals);
	rar_each_link(link, m)
		rar_seal_forget(link);
	memzero_explicit(&m->trust, sizeof(m->trust));
}
EXPORT_SYMBOL_GPL(rar_seal_free);

/*
 * May a packet of this type be sent between a member and a box that have no
 * leg? RESET tells of an epoch that its sender is not in, and has no key of.
 */
static bool of_enter(u8 type)
{
	return type == RAR_T_ENTER || type == RAR_T_ENTERED ||
	       type == RAR_T_RESET;
}

/* The place of the keys between this rank and another one, or a box. */
static struct rar_seal __rcu **slot_of(struct rar_member *m, u32 rank,
				       u64 token)
{
	struct rar_seal __rcu **seals = READ_ONCE(m->seals);
	struct rar_link *link;

	if (!rar_is_of_box(m, rank))
		return seals && rank < m->size ? &seals[rank] : NULL;
	link = rar_member_sent_by(m, rank, token);
	return link ? &link->seal : NULL;
}

/* The keys of the epoch for a packet to or from a rank or a box, or NULL. */
static struct rar_seal *seal_of(struct rar_member *m, u32 rank,
				const struct rar_hdr *h)
{
	u64 token = be64_to_cpu(h->token);
	struct rar_seal __rcu **slot = NULL;
	struct rar_seal *seal;

	if (!of_enter(h->type))
		slot = slot_of(m, rank, token);
	seal = slot ? rcu_dereference(*slot) : NULL;
	return seal && seal->epoch == token ? seal : NULL;
}

/* May a packet of this type be sent by a rank that is in no epoch? */
static bool of_join(u8 type)
{
	switch (type) {
	case RAR_T_JOIN:
	case RAR_T_JOIN_ACK:
	case RAR_T_REJECT:
	case RAR_T_COLLECT:
	case RAR_T_PROPOSE:
	case RAR_T_COMMIT:
	case RAR_T_PAIR:
	case RAR_T_PAIR_ACK:
	case RAR_T_ABORT:
	case RAR_T_RESET:
		return true;
	}
	return false;
}

/* The key of the join for a packet, or NULL: it needs one of an epoch. */
static const u8 *join_key_of(const struct rar_member *m, u32 rank, u8 type)
{
	if (!rar_is_of_box(m, rank))
		return of_join(type) ? m->trust.join_key : NULL;
	return of_enter(type) && m->trust.box.len ? m->trust.enter_key : NULL;
}

/*
 * struct keys - what seals and opens a packet
 * @seal: those of an epoch; NULL: none, but
 * @join: that of a join
 */
struct keys {
	struct rar_seal *seal;
	const u8 *join;
};

/* Returns false if there are none for a packet to or from @rank. */
static bool keys_of(struct rar_member *m, u32 rank, const struct rar_hdr *h,
		    struct keys *keys)
{
	keys->seal = seal_of(m, rank, h);
	keys->join = keys->seal ? NULL : join_key_of(m, rank, h->type);
	return keys->seal || keys->join;
}

/*
 * struct span - bytes of a packet, together
 * @at:   where they lie
 * @copy: a copy of them, if they lie in pieces; or NULL
 */
struct span {
	u8 *at;
	u8 *copy;
};

/* Returns false without memory for a copy. The packet has all these bytes. */
static bool span_get(struct span *span, struct rar_cursor *packet, u32 off,
		     u32 len)
{
	u32 n;

	span->copy = NULL;
	span->at = rar_cursor_at(packet, off, &n);
	if (n >= len)
		return true;
	span->copy = kmalloc(len, GFP_ATOMIC | __GFP_NOWARN);
	span->at = span->copy;
	if (!span->copy)
		return false;
	rar_cursor_read(packet, off, span->copy, len);
	return true;
}

/* Write @len bytes of a copy back, from @from on. */
static void span_put(struct span *span, struct rar_cursor *packet, u32 off,
		     u32 from, u32 len)
{
	if (span->copy)
		rar_cursor_write(packet, off + from, span->copy + from, len);
	kfree(span->copy);
}

/* Are the elements in a packet of @len bytes encrypted? */
static bool hides(const struct rar_member *m, u8 type, u32 len)
{
	return m->security == RAR_SECURITY_ENCRYPT &&
	       len > sizeof(struct rar_data_hdr) &&
	       (type == RAR_T_RS || type == RAR_T_AG || type == RAR_T_DIRECT);
}

/* The bytes in front of a packet of @len bytes that are not encrypted. */
static u32 clear_of(const struct rar_member *m, u8 type, u32 len)
{
	return hides(m, type, len) ? sizeof(struct rar_data_hdr) : len;
}

/*
 * Make the tag of a packet of a join. The addresses are covered, so that what
 * another process says with the same key is not taken for what the rank says.
 */
static void join_tag(const u8 *key, const struct rar_addr *from,
		     const struct rar_addr *to, const u8 *data, u32 len,
		     u8 *tag)
{
	struct seal_join in = {
		.from = from->ip,
		.to = to->ip,
		.from_port = from->port,
		.to_port = to->port,
	};

	static_assert(sizeof(in) == 68);
	rar_key_hash(key, RAR_SECRET, data, len, in.hash, sizeof(in.hash));
	rar_key_hash(key, RAR_SECRET, (u8 *)&in, sizeof(in), tag, SEAL_TAG);
}

/*
 * Encrypt a packet of @len bytes at @off, and write the seal, for which there
 * is room behind it.
 */
static bool seal_one(const struct rar_member *m, const struct keys *keys,
		     u64 counter, const struct rar_addr *from,
		     const struct rar_addr *to, u8 type,
		     struct rar_cursor *packet, u32 off, u32 len)
{
	u32 all = len + sizeof(struct rar_seal_tail);
	u32 clear = clear_of(m, type, len);
	struct rar_seal_tail *tail;
	struct span span;

	if (!span_get(&span, packet, off, all))
		return false;
	if (keys->seal)
		chacha20poly1305_encrypt(span.at + clear, span.at + clear,
					 len - clear, span.at, clear, counter,
					 keys->seal->out);
	else
		join_tag(keys->join, from, to, span.at, len, span.at + len);
	tail = (struct rar_seal_tail *)(span.at + len);
	put_unaligned_be64(counter, &tail->counter);
	span_put(&span, packet, off, clear, all - clear);
	return true;
}

/*
 * Find the keys for @n packets to a rank, and the counter of the first one,
 * which is 0 in a join. Returns false if there are none.
 */
static bool keys_for(struct rar_member *m, const struct rar_hdr *h, u32 n,
		     struct keys *keys, u64 *counter)
{
	*counter = 0;
	if (!keys_of(m, be16_to_cpu(h->dst), h, keys))
		return false;
	if (keys->seal)
		*counter = atomic64_fetch_add(n, &keys->seal->sent);
	return *counter <= SEAL_COUNTERS;
}

/**
 * rar_seal_packet() - seal a packet, or each in a superpacket
 * @m:    member whose packets have a seal
 * @path: that it takes
 * @lane: number of the source port
 * @skb:  the packet, from the RAR header on, with room for the seals; nobody
 *        else sees its data
 *
 * Softirq, or process context with bottom halves off. RCU read side.
 *
 * Return: false if it cannot be sent: it is of an epoch that is over, or there
 * is no memory.
 */
bool rar_seal_packet(struct rar_member *m, const struct rar_path *path,
		     u32 lane, struct sk_buff *skb)
{
	const u32 tail = sizeof(struct rar_seal_tail);
	struct rar_addr from = path->src;
	u32 size = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len;
	u32 n = DIV_ROUND_UP(skb->len, size), off;
	struct rar_cursor packet = { .skb = skb };
	struct keys keys;
	struct rar_hdr h;
	u64 counter;

	if (skb_copy_bits(skb, 0, &h, sizeof(h)) ||
	    !keys_for(m, &h, n, &keys, &counter))
		return false;
	from.port = htons(ntohs(from.port) + lane);
	for (off = 0; off < skb->len; off += size, counter += !!keys.seal)
		if (skb->len - off < sizeof(h) + tail ||
		    !seal_one(m, &keys, counter, &from, &path->dst, h.type,
			      &packet, off, min(size, skb->len - off) - tail))
			return false;
	return true;
}

/**
 * rar_seal_frame() - seal a packet in a frame at the XDP hook
 * @m:    member whose packets have a seal
 * @path: that it takes
 * @xdp:  the frame
 * @off:  where the RAR header begins, bytes
 * @len:  length of the packet without the seal, for which there is room behind
 *        it; bytes
 *
 * Softirq, RCU read side.
 *
 * Return: false if it cannot be sent, see rar_seal_packet().
 */
bool rar_seal_frame(struct rar_member *m, const struct rar_path *path,
		    struct xdp_buff *xdp, u32 off, u32 len)
{
	struct rar_cursor packet = { .xdp = xdp };
	struct keys keys;
	struct rar_hdr h;
	u64 counter;

	rar_cursor_read(&packet, off, &h, sizeof(h));
	return keys_for(m, &h, 1, &keys, &counter) &&
	       seal_one(m, &keys, counter, &path->src, &path->dst, h.type,
			&packet, off, len);
}

/* Forget the counters that the window leaves when @counter comes. */
static void window_move(struct rar_seal *seal, u64 counter)
{
	u64 n = min_t(u64, counter + 1 - seal->next, SEAL_WINDOW);
	u32 at = seal->next % SEAL_WINDOW;
	u32 first = min_t(u64, n, SEAL_WINDOW - at);

	bitmap_clear(seal->seen, at, first);
	bitmap_clear(seal->seen, 0, n - first);
	seal->next = counter + 1;
}

/* Is a counter behind the window? Locklessly, or under the lock. */
static bool too_old(const struct rar_seal *seal, u64 counter)
{
	u64 next = READ_ONCE(seal->next);

	return next > SEAL_WINDOW && counter < next - SEAL_WINDOW;
}

/* Does a counter come for the first time? After RFC 6479. */
static bool is_new(struct rar_seal *seal, u64 counter)
{
	bool news = false;

	spin_lock_bh(&seal->lock);
	if (counter >= seal->next)
		window_move(seal, counter);
	if (!too_old(seal, counter))
		news = !__test_and_set_bit(counter % SEAL_WINDOW, seal->seen);
	spin_unlock_bh(&seal->lock);
	return news;
}

/* Is the tag of a packet of @len bytes right? Then it is decrypted. */
static bool open_one(const struct keys *keys, u64 counter,
		     const struct rar_pkt *pkt, u8 *at, u32 clear, u32 len)
{
	u8 tag[SEAL_TAG];

	if (keys->seal)
		return chacha20poly1305_decrypt(at + clear, at + clear,
						len - clear + SEAL_TAG, at,
						clear, counter, keys->seal->in);
	join_tag(keys->join, &pkt->from, &pkt->to, at, len, tag);
	return !counter && !crypto_memneq(tag, at + len, SEAL_TAG);
}

/*
 * Are a packet's pages its own? A clone whose head was copied does not know
 * that the other one has the same pages.
 */
static bool owns_pages(const struct sk_buff *skb)
{
	const struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 i;

	for (i = 0; i < shinfo->nr_frags; i++)
		if (page_count(skb_frag_page(&shinfo->frags[i])) != 1)
			return false;
	return true;
}

static bool is_private(const struct sk_buff *skb, bool write)
{
	return write ? rar_skb_alone(skb) && owns_pages(skb) :
		       rar_skb_fixed(skb);
}

/*
 * Let nobody else write to the data of a packet, or if it will be written to
 * see them. Returns false without memory.
 */
static bool make_private(struct rar_pkt *pkt, bool write)
{
	gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;
	struct sk_buff *skb = pkt->skb, *part;
	bool private;

	/* A frame is ours alone, see xdp.c. */
	if (pkt->frame)
		return true;
	private = is_private(skb, write);
	skb_walk_frags(skb, part)
		private &= is_private(part, write) && !skb_has_frag_list(part);
	if (private)
		return true;
	if (skb_has_frag_list(skb)) {
		pkt->skb = skb_copy(skb, gfp);
		consume_skb(skb);
		return pkt->skb;
	}
	pkt->skb = skb_share_check(skb, GFP_ATOMIC);
	if (!pkt->skb || skb_copy_ubufs(pkt->skb, gfp))
		return false;
	/* Its pages are new. */
	skb_shinfo(pkt->skb)->flags &= ~SKBFL_SHARED_FRAG;
	return true;
}

/**
 * rar_seal_open() - check the seal of a packet, and decrypt it
 * @m:   member whose packets have a seal
 * @pkt: holds the packet, and has its common header; its skb may become another
 *       one, or NULL without memory
 * @off: where it begins, bytes
 * @len: its length without the seal, which follows; bytes
 *
 * A packet of an epoch is good once. Softirq, or process context with bottom
 * halves off. RCU read side.
 *
 * Return: RAR_RX_DONE, or the drop with its reason.
 */
enum rar_rx rar_seal_open(struct rar_member *m, struct rar_pkt *pkt, u32 off,
			  u32 len)
{
	struct rar_cursor packet = rar_pkt_cursor(pkt);
	u32 clear = clear_of(m, pkt->h.type, len);
	struct rar_seal_tail tail;
	struct span span;
	struct keys keys;
	u64 counter;
	bool good;

	if (!keys_of(m, be16_to_cpu(pkt->h.src), &pkt->h, &keys))
		return RAR_DROP(Epoch);
	rar_cursor_read(&packet, off + len, &tail, sizeof(tail));
	counter = be64_to_cpu(tail.counter);
	if (keys.seal && too_old(keys.seal, counter))
		return RAR_DROP(Replay);
	if (!pkt->opened && !make_private(pkt, clear < len))
		return RAR_DROP(Memory);
	packet = rar_pkt_cursor(pkt);
	if (!span_get(&span, &packet, off, len + SEAL_TAG))
		return RAR_DROP(Memory);
	/* Somebody may have written to what the header was read from. */
	good = pkt->opened || !memcmp(span.at, &pkt->h, sizeof(pkt->h));
	good = good && open_one(&keys, counter, pkt, span.at, clear, len);
	span_put(&span, &packet, off, clear, good ? len - clear : 0);
	if (!good)
		return RAR_DROP(Seal);
	if (keys.seal && !is_new(keys.seal, counter))
		return RAR_DROP(Replay);
	return RAR_RX_DONE;
}
EXPORT_SYMBOL_GPL(rar_seal_open);
