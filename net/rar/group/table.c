// SPDX-License-Identifier: GPL-2.0
/*
 * The table: rank 0 sends three packets round the ring, each again and again until it comes
 * back. COLLECT gathers the members, PROPOSE tells all of them the table and the epoch, and
 * COMMIT starts the epoch. Only rank 0 has a timer for these packets. A large table travels
 * in slices of RAR_TABLE_MAX members.
 */
#include <linux/bitfield.h>

#include "core/event.h"
#include "core/hosts.h"
#include "core/key.h"
#include "core/member.h"
#include "core/resume.h"
#include "core/ring.h"
#include "core/seal.h"
#include "group/choice.h"
#include "group/enter.h"
#include "group/join.h"
#include "group/offer.h"
#include "group/pair.h"
#include "group/peers.h"
#include "group/table.h"
#include "link/link.h"
#include "link/rail.h"
#include "link/straggler.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "ring/direct.h"
#include "ring/fail.h"
#include "ring/push.h"
#include "tx/control.h"
#include "tx/route.h"

#define TABLE_RETRY_MS		10	/* first interval of a repetition, then doubled */
#define TABLE_RETRY_MAX_MS	200	/* longest interval */
#define TABLE_STUCK_MS		2000	/* until rank 0 gives a step up and collects again */
#define TABLE_STUCK_ROUNDS	4	/* or so many times what COLLECT took, if that is longer */
#define TABLE_ROUND_MAX_MS	60000	/* a longer COLLECT counts as this */
#define TABLE_START_US		1000000000000LL	/* no join of rank 0 takes so long: 11 days */
#define APART_ROUNDS		12	/* COLLECTs while ranks try others */

/* COLLECT, PROPOSE and COMMIT as they travel. */
struct table_pkt {
	struct rar_table_hdr th;
	struct rar_wire_member m[RAR_TABLE_MAX];
	struct rar_wire_box box[RAR_LEGS];	/* room for them; they follow the last member */
};

/* The smallest path has an MTU of 1280 bytes, of which IPv6 and UDP take 48. */
static_assert(sizeof(struct table_pkt) <= 1280 - 48);

static u32 slices(const struct rar_member *m)
{
	return DIV_ROUND_UP(m->size, RAR_TABLE_MAX);
}

/* Is a claimed payload possible? Chunks must end between elements. */
static bool payload_ok(u32 payload)
{
	return payload >= RAR_PAYLOAD_UNIT && !(payload % RAR_PAYLOAD_UNIT);
}

static void own_caps(struct rar_caps *caps)
{
	int dtype, redop;

	BUILD_BUG_ON(ARRAY_SIZE(caps->dtypes) < RAR_REDOP_NR || RAR_DTYPE_NR > 32 ||
		     RAR_COLLECTIVE_NR > 32);
	memset(caps, 0, sizeof(*caps));
	caps->wire_version = RAR_WIRE_VERSION;
	caps->collectives = GENMASK(RAR_COLLECTIVE_NR - 1, RAR_ALLREDUCE);
	caps->dtypes[0] = RAR_OP_FLAGS |
			  FIELD_PREP(RAR_CAPS_WAYS, GENMASK(RAR_WAY_NR - 1, 0) &
				     ~BIT(RAR_WAY_FOLDED));
	for (redop = 1; redop < RAR_REDOP_NR; redop++)
		for (dtype = 1; dtype < RAR_DTYPE_NR; dtype++)
			if (rar_reduce_kind(dtype, redop))
				caps->dtypes[redop] |= BIT(dtype);
}

/**
 * rar_table_retry_in() - the time to wait for an answer
 * @tries: packets sent before
 *
 * The time is partly random. Otherwise members that began together would always ask
 * together, and since answers to strangers are limited, some would never get one.
 *
 * Return: jiffies.
 */
unsigned long rar_table_retry_in(u32 tries)
{
	u32 ms = min(TABLE_RETRY_MS << min(tries, 8U), TABLE_RETRY_MAX_MS);

	return msecs_to_jiffies(ms - ms / 4 + get_random_u32_below(ms / 2));
}

/* -- wire conversion ----------------------------------------------------- */

static void row_to_wire(const struct rar_row *row,
			struct rar_wire_member *w)
{
	w->nonce = cpu_to_be64(row->nonce);
	memcpy(w->addr, &row->addr.ip, sizeof(w->addr));
	w->af = cpu_to_be16(row->addr.af == AF_INET6 ? 6 : 4);
	w->port = row->addr.port;
	w->user = cpu_to_be16(row->user);
	w->payload = cpu_to_be16(row->payload | (row->beside ? RAR_WM_BESIDE : 0));
}

static void row_from_wire(const struct rar_wire_member *w,
			  struct rar_row *row)
{
	row->nonce = be64_to_cpu(w->nonce);
	memcpy(&row->addr.ip, w->addr, sizeof(w->addr));
	row->addr.af = be16_to_cpu(w->af) == 6 ? AF_INET6 : AF_INET;
	row->addr.port = w->port;
	row->addr.scope = 0;
	row->user = be16_to_cpu(w->user);
	row->payload = be16_to_cpu(w->payload) & RAR_WM_BYTES;
	row->beside = w->payload & cpu_to_be16(RAR_WM_BESIDE);
}

static void caps_to_wire(const struct rar_caps *caps, struct rar_wire_caps *w)
{
	int i;

	w->collectives = cpu_to_be32(caps->collectives);
	for (i = 0; i < ARRAY_SIZE(caps->dtypes); i++)
		w->dtypes[i] = cpu_to_be32(caps->dtypes[i]);
}

static void caps_from_wire(const struct rar_wire_caps *w,
			   struct rar_caps *caps)
{
	int i;

	caps->wire_version = RAR_WIRE_VERSION;
	caps->collectives = be32_to_cpu(w->collectives);
	for (i = 0; i < ARRAY_SIZE(caps->dtypes); i++)
		caps->dtypes[i] = be32_to_cpu(w->dtypes[i]);
}

static void caps_and(const struct rar_caps *own, struct rar_wire_caps *w)
{
	int i;

	w->collectives &= cpu_to_be32(own->collectives);
	for (i = 0; i < ARRAY_SIZE(own->dtypes); i++)
		w->dtypes[i] &= cpu_to_be32(own->dtypes[i]);
}

static bool has_box(const struct table_pkt *t)
{
	return t->th.h.type == RAR_T_PROPOSE && (t->th.flags & cpu_to_be16(RAR_TF_BOX));
}

/* Where the boxes are in a packet. */
static struct rar_wire_box *boxes_of(struct table_pkt *t)
{
	return (void *)t + offsetof(struct table_pkt, m[be16_to_cpu(t->th.n)]);
}

static void boxes_to_wire(const struct rar_boxes *boxes, struct rar_wire_box *w)
{
	u32 i;

	for (i = 0; i < boxes->n; i++)
		rar_offer_to_wire(&boxes->addr[i], &w[i]);
}

static void boxes_from_wire(const struct rar_wire_box *w, u32 n, struct rar_boxes *boxes)
{
	u32 i;

	boxes->n = n;
	for (i = 0; i < n; i++)
		rar_offer_from_wire(&w[i], &boxes->addr[i]);
}

/* The hash over a proposal and all of its table. All members get the same. */
static u64 table_hash(const struct rar_member *m)
{
	const struct rar_join_state *j = &m->join;
	const __be64 head[] = {
		cpu_to_be64(m->id), cpu_to_be64(j->drawn), cpu_to_be64(m->size),
		cpu_to_be64((u64)j->min_payload << 32 | j->choice.paired),
		cpu_to_be64((u64)j->choice.direct << 32 | j->choice.doubling),
		cpu_to_be64(j->choice.halving),
	};
	struct rar_wire_box box[RAR_LEGS];
	u64 hash = rar_key_chain(m, 0, head, sizeof(head));
	struct rar_wire_member w;
	u32 i;

	if (j->boxes.n) {
		boxes_to_wire(&j->boxes, box);
		hash = rar_key_chain(m, hash, box, j->boxes.n * sizeof(box[0]));
	}
	for (i = 0; i < m->size; i++) {
		row_to_wire(&j->table[i], &w);
		hash = rar_key_chain(m, hash, &w, sizeof(w));
	}
	return hash;
}

static void resume_to_wire(const struct rar_resume *r,
			   struct rar_table_hdr *th)
{
	th->resume = cpu_to_be64(r->op);
	th->resume_epoch = cpu_to_be64(r->epoch);
	th->flags = cpu_to_be16(r->differ ? RAR_TF_DIFFER : 0);
}

static void resume_from_wire(const struct rar_table_hdr *th,
			     struct rar_resume *r)
{
	r->op = be64_to_cpu(th->resume);
	r->epoch = be64_to_cpu(th->resume_epoch);
	r->differ = th->flags & cpu_to_be16(RAR_TF_DIFFER);
}

/* -- own entry ----------------------------------------------------------- */

/* RCU read side, except rank 0. @m->lock held. */
static void own_row(struct rar_member *m)
{
	struct rar_row *row = &m->join.table[m->rank];

	row->beside = m->rank && rar_hosts_find(m, m->rank - 1, m->join.peer_nonce[RAR_PREV]);
	row->nonce = m->join.nonce;
	row->addr = m->link[RAR_NEXT]->path.src;
	row->user = m->user_rank ^ m->rank;
	row->payload = m->join.payload;
}

static bool both_ok(const struct rar_member *m)
{
	return m->join.ok[RAR_NEXT] && m->join.ok[RAR_PREV];
}

/*
 * Rank 0's clock, by which it measures how long COLLECT takes, and by which the others tell late
 * copies from news. It begins at a random number whenever rank 0 starts to join.
 */
static u64 clock_us(const struct rar_join_state *j)
{
	return ktime_to_us(ktime_get()) + j->clock_base;
}

/* Rank 0: read the clock. Returns a later time than before. @m->lock held. */
static u64 clock_read(struct rar_join_state *j)
{
	u64 now = clock_us(j);

	j->clock[0] = (s64)(now - j->clock[0]) > 0 ? now : j->clock[0] + 1;
	return j->clock[0];
}

/*
 * Is a COLLECT or PROPOSE a late copy: older than one that came, or from before rank 0 started
 * again? Otherwise its time is remembered. Two starts of rank 0 are so far apart by chance that
 * each has this span of time for itself. @m->lock held.
 */
static bool is_late(struct rar_join_state *j, u64 time)
{
	s64 ahead = time - j->clock[0];
	u32 i;

	for (i = 1; i < RAR_CLOCKS; i++)
		if (abs((s64)(time - j->clock[i])) < TABLE_START_US)
			return true;
	if (abs(ahead) >= TABLE_START_US)
		memmove(&j->clock[1], &j->clock[0], sizeof(j->clock) - sizeof(j->clock[0]));
	else if (ahead < 0)
		return true;
	j->clock[0] = time;
	return false;
}

/* -- COLLECT, PROPOSE, COMMIT -------------------------------------------- */

static void slice_fill(struct rar_member *m, struct table_pkt *t, u32 slice)
{
	u32 first = slice * RAR_TABLE_MAX, i;
	u32 n = min_t(u32, m->size - first, RAR_TABLE_MAX);

	t->th.first = cpu_to_be16(first);
	t->th.n = cpu_to_be16(n);
	for (i = 0; i < n; i++)
		row_to_wire(&m->join.table[first + i], &t->m[i]);
}

/* The boxes that follow the members. @len: bytes after the header, which hold the members. */
static u32 nboxes(const struct table_pkt *t, size_t len)
{
	return (len - be16_to_cpu(t->th.n) * sizeof(t->m[0])) / sizeof(t->box[0]);
}

/* @len: bytes after the header */
static bool slice_ok(const struct rar_member *m, const struct table_pkt *t, size_t len)
{
	u32 first = be16_to_cpu(t->th.first), n = be16_to_cpu(t->th.n), boxes;

	if (t->th.h.type == RAR_T_COMMIT)
		return !first && !n && !len;
	if (first >= m->size || first % RAR_TABLE_MAX ||
	    n != min_t(u32, m->size - first, RAR_TABLE_MAX) || len < n * sizeof(t->m[0]))
		return false;
	boxes = nboxes(t, len);
	return len == n * sizeof(t->m[0]) + boxes * sizeof(t->box[0]) &&
	       boxes <= RAR_LEGS && has_box(t) == !!boxes;
}

static void slice_store(struct rar_member *m, const struct table_pkt *t)
{
	u32 first = be16_to_cpu(t->th.first), n = be16_to_cpu(t->th.n), i;

	for (i = 0; i < n; i++)
		row_from_wire(&t->m[i], &m->join.table[first + i]);
	__set_bit(first / RAR_TABLE_MAX, m->join.back);
}

static bool slices_all(const struct rar_member *m)
{
	return bitmap_full(m->join.back, slices(m));
}

/* @boxes: how many follow the members */
static void table_send(struct rar_member *m, struct table_pkt *t, u32 boxes, u8 type, u64 token)
{
	size_t len = sizeof(t->th) + be16_to_cpu(t->th.n) * sizeof(t->m[0]) +
		     boxes * sizeof(t->box[0]);

	if (token)
		rar_control_send(m->link[RAR_NEXT], t, len, 0, type, token);
}

/* Rank 0: let a packet of @type be the next to go round. @m->lock held. */
static void step_to(struct rar_member *m, u8 type)
{
	struct rar_join_state *j = &m->join;

	lockdep_assert_held(&m->lock);
	j->step = type;
	j->step_tries = 0;
	j->step_next = jiffies;
	j->step_since = jiffies;
	bitmap_zero(j->back, slices(m));
	j->apart = false;
}

/*
 * Rank 0: propose the boxes, if the group can use them. With seals it needs
 * their key.
 */
static void choose_boxes(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;

	j->boxes.n = 0;
	if (!j->wants.n || (m->tail && !m->trust.box.len) ||
	    j->wants.addr[0].af != m->link[RAR_NEXT]->path.dst.af ||
	    m->schedule == RAR_BY_HOSTS || m->size > RAR_BOX_LEGS)
		return;
	j->boxes = j->wants;
}

static void set_proposal(struct rar_member *m, const struct rar_table_hdr *th)
{
	m->join.drawn = be64_to_cpu(th->drawn);
	m->join.digest = be64_to_cpu(th->digest);
	m->join.min_payload = be32_to_cpu(th->payload);
	m->join.min_rank = be16_to_cpu(th->payload_rank);
	rar_choice_from_wire(m, th, &m->join.choice);
	caps_from_wire(&th->caps, &m->join.caps);
	resume_from_wire(th, &m->join.resume);
}

/* Is @rank on the same host as the rank before it? */
static bool same_host(const struct rar_member *m, u32 rank)
{
	const struct rar_addr *a = &m->join.table[rank - 1].addr;
	const struct rar_addr *b = &m->join.table[rank].addr;

	return (a->af == b->af && ipv6_addr_equal(&a->ip, &b->ip)) ||
	       m->join.table[rank].beside;
}

/* Is the successor on this host, as the table says? RCU read side. */
static bool next_is_here(const struct rar_member *m)
{
	u32 next = m->rank + 1;

	return rar_route_is_here(m, &m->link[RAR_NEXT]->path) ||
	       (m->join.table[next].beside &&
		rar_hosts_find(m, next, m->join.table[next].nonce));
}

/* Derive the hosts and their ranks from the table. All members get the same result. */
static void place_by_hosts(struct rar_member *m)
{
	u32 rank, host = 0, hosts = 0, first = 0, end = m->size;

	for (rank = 0; rank < m->size; rank++) {
		if (rank && same_host(m, rank))
			continue;
		if (rank <= m->rank) {
			host = hosts;
			first = rank;
		} else {
			end = min(end, rank);
		}
		hosts++;
	}
	m->place.hosts = hosts;
	m->place.host = host;
	m->place.ranks = end - first;
	m->place.index = m->rank - first;
	m->first_nonce = m->join.table[first].nonce;
}

static void take_place(struct rar_member *m)
{
	m->place = (struct rar_place) {
		.size = m->size,
		.rank = m->rank,
		.boxes = m->nlegs,
	};
	if (m->schedule == RAR_BY_HOSTS)
		place_by_hosts(m);
	rar_choice_take(m);
}

/*
 * Enter READY: all members have the table, so packets of the epoch may come at any moment.
 *
 * Return: 0; -EBADMSG if by the table the successor is on this host, but is
 * not; or -ENOMEM, as if the packet was lost: it comes again.
 */
static int get_ready(struct rar_member *m)
{
	lockdep_assert_held(&m->lock);
	if (m->schedule == RAR_BY_HOSTS && m->rank + 1 < m->size &&
	    same_host(m, m->rank + 1) && !next_is_here(m))
		return -EBADMSG;
	if (rar_enter_begin(m) ||
	    rar_seal_start(m, rar_key_epoch(m, m->join.hash)))
		return -ENOMEM;
	take_place(m);
	m->payload = m->join.min_payload;
	rar_link_start(m->link[RAR_NEXT]);
	rar_straggler_start(m);
	rar_push_start(m);
	rar_direct_start(m);
	rar_rail_start(m);
	m->join.ready = m->join.drawn;
	WRITE_ONCE(m->epoch, rar_key_epoch(m, m->join.hash));
	rar_member_set_state(m, RAR_S_READY);
	return 0;
}

static void collect_add_own(struct rar_member *m, struct table_pkt *t)
{
	u32 first = be16_to_cpu(t->th.first), n = be16_to_cpu(t->th.n);
	struct rar_resume resume;
	struct rar_caps caps;
	__be16 apart;

	own_caps(&caps);
	caps_and(&caps, &t->th.caps);
	resume_from_wire(&t->th, &resume);
	rar_resume_merge(&resume, &m->join.past);
	apart = t->th.flags & cpu_to_be16(RAR_TF_APART);
	resume_to_wire(&resume, &t->th);
	t->th.flags |= apart;
	own_row(m);
	if (m->join.payload < be32_to_cpu(t->th.payload)) {
		t->th.payload = cpu_to_be32(m->join.payload);
		t->th.payload_rank = cpu_to_be16(m->rank);
	}
	if (m->rank >= first && m->rank < first + n)
		row_to_wire(&m->join.table[m->rank],
			    &t->m[m->rank - first]);
}

/* Learn the other ranks from COLLECT, and say whether they are reached. */
static void collect_pairs(struct rar_member *m, struct table_pkt *t)
{
	u32 first = be16_to_cpu(t->th.first), n = be16_to_cpu(t->th.n), i;
	struct rar_row row;

	if (!rar_peers_wanted(m))
		return;
	for (i = 0; i < n; i++) {
		row_from_wire(&t->m[i], &row);
		rar_pair_learn(m, first + i, &row);
	}
	if (!rar_pair_all(m))
		t->th.flags |= cpu_to_be16(RAR_TF_APART);
}

/* What a COLLECT lets this rank send before it goes on. No lock held. */
static void collect_tell(struct rar_member *m, const struct table_pkt *t)
{
	struct rar_row first;

	rar_pair_try(m);
	if (!m->rank || t->th.first)
		return;
	row_from_wire(&t->m[0], &first);
	rar_offer_pass(m, &first);
}

/*
 * Must COLLECT go round again? Ranks that exchange directly need time to reach
 * each other, and packets may be lost a few times. Only RAR_DIRECT cannot do
 * without.
 */
static bool collect_again(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;

	if (!rar_peers_wanted(m) || !j->apart)
		return false;
	return j->apart_rounds++ < APART_ROUNDS ||
	       m->schedule == RAR_DIRECT;
}

/* How long a COLLECT took that was sent at @sent. @m->lock held. */
static void measure_round(struct rar_member *m, u64 sent)
{
	struct rar_join_state *j = &m->join;
	u64 us = min_t(u64, clock_us(j) - sent, TABLE_ROUND_MAX_MS * USEC_PER_MSEC);

	j->round_ms = (u32)us / USEC_PER_MSEC;
}

static bool rcv_collect(struct rar_member *m, struct table_pkt *t)
{
	struct rar_join_state *j = &m->join;
	u64 sent = be64_to_cpu(t->th.digest);

	if (m->state != RAR_S_JOINING && m->state != RAR_S_READY)
		return false;
	if (m->rank && is_late(j, sent))
		return false;
	collect_pairs(m, t);
	if (m->rank) {
		collect_add_own(m, t);
		return true;
	}
	/* A copy that was sent before this round began does not end it. */
	if (j->step != RAR_T_COLLECT || (s64)(sent - j->round_clock) < 0)
		return false;
	slice_store(m, t);
	j->apart |= !!(t->th.flags & cpu_to_be16(RAR_TF_APART));
	measure_round(m, sent);
	if (!slices_all(m) || !payload_ok(be32_to_cpu(t->th.payload)) ||
	    be32_to_cpu(t->th.payload) > j->payload)
		return false;
	if (collect_again(m)) {
		step_to(m, RAR_T_COLLECT);
		j->round_clock = clock_read(j);
		if (j->apart_rounds)
			j->step_next += rar_table_retry_in(j->apart_rounds);
		return false;
	}
	set_proposal(m, &t->th);
	rar_choice_make(m, !j->apart, &j->choice);
	choose_boxes(m);
	j->drawn = clock_read(j);
	j->hash = table_hash(m);
	j->digest = rar_key_digest(m, j->hash);
	step_to(m, RAR_T_PROPOSE);
	return false;
}

/* Is the packet about the epoch that this member is ready for, or in? */
static bool of_this_epoch(const struct rar_member *m, const struct table_pkt *t)
{
	return m->join.ready && be64_to_cpu(t->th.drawn) == m->join.ready;
}

/* Learn the table. Sets @bad if it cannot be right. Returns true if the packet goes on. */
static bool rcv_propose(struct rar_member *m, struct table_pkt *t, u32 boxes, bool *bad)
{
	struct rar_join_state *j = &m->join;
	u64 drawn = be64_to_cpu(t->th.drawn);
	int err;

	if (!m->rank) {
		if (j->step != RAR_T_PROPOSE || drawn != j->drawn)
			return false;
		__set_bit(be16_to_cpu(t->th.first) / RAR_TABLE_MAX, j->back);
		if (slices_all(m)) {
			err = get_ready(m);
			*bad = err == -EBADMSG;
			if (!err)
				step_to(m, RAR_T_COMMIT);
		}
		return false;
	}
	if (m->state >= RAR_S_RUN)
		return of_this_epoch(m, t);
	if (of_this_epoch(m, t))
		return true;
	if (is_late(j, drawn))
		return false;
	if (drawn != j->drawn)
		bitmap_zero(j->back, slices(m));
	set_proposal(m, &t->th);
	boxes_from_wire(boxes_of(t), boxes, &j->boxes);
	slice_store(m, t);
	if (!slices_all(m))
		return true;
	/* The table is from before this member started again: rank 0 will collect again. */
	if (j->table[m->rank].nonce != j->nonce)
		return false;
	j->hash = table_hash(m);
	*bad = rar_key_digest(m, j->hash) != j->digest || !payload_ok(j->min_payload) ||
	       j->min_payload > j->payload;
	if (*bad)
		return false;
	err = get_ready(m);
	*bad = err == -EBADMSG;
	return !err;
}

static bool rcv_commit(struct rar_member *m, struct table_pkt *t)
{
	if (!of_this_epoch(m, t) ||
	    be64_to_cpu(t->th.digest) != m->join.digest)
		return false;
	if (m->state == RAR_S_READY)
		rar_member_run(m);
	m->join.step = 0;
	return m->rank;
}

/**
 * rar_table_rcv() - take in a packet that rank 0 sends round
 * @m: member
 * @pkt: validated
 *
 * Softirq.
 */
void rar_table_rcv(struct rar_member *m, const struct rar_pkt *pkt)
{
	bool relay = false, bad = false, wake, joined, news;
	u32 len = pkt->len, boxes;
	struct table_pkt t;
	u64 token, clock;

	if (len > sizeof(t) || skb_copy_bits(pkt->skb, pkt->off, &t, len) ||
	    !slice_ok(m, &t, len - sizeof(t.th)))
		return;
	boxes = nboxes(&t, len - sizeof(t.th));
	rar_member_hear(m->link[RAR_PREV]);
	spin_lock_bh(&m->lock);
	joined = m->state < RAR_S_RUN;
	clock = m->join.clock[0];
	if (m->state >= RAR_S_JOINING && m->state <= RAR_S_LEAVING &&
	    both_ok(m)) {
		if (pkt->h.type == RAR_T_COLLECT)
			relay = rcv_collect(m, &t);
		else if (pkt->h.type == RAR_T_PROPOSE)
			relay = rcv_propose(m, &t, boxes, &bad);
		else
			relay = rcv_commit(m, &t);
	}
	token = m->join.peer_nonce[RAR_NEXT];
	wake = m->state == RAR_S_RUN;
	joined = joined && wake;
	news = !m->rank || m->join.clock[0] != clock;
	spin_unlock_bh(&m->lock);

	if (bad)
		rar_fail_pair(m, EBADMSG, RAR_R_TABLE, m->rank, 0, 0);
	if (pkt->h.type == RAR_T_COLLECT && news)
		collect_tell(m, &t);
	if (relay)
		table_send(m, &t, boxes, pkt->h.type, token);
	if (wake)
		rar_member_wake(m);
	if (joined)
		rar_event_send(m, RAR_EVENT_JOINED, NULL);
	rar_member_kick(m, jiffies);
}

/* -- rank 0 -------------------------------------------------------------- */

/* Send the packets of this step; slices that have come back are left out. */
static void step_send(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;
	u32 i = 0, n = slices(m), boxes;
	struct table_pkt t;
	u64 token;
	u8 step;

	do {
		memset(&t, 0, sizeof(t));
		spin_lock_bh(&m->lock);
		step = j->step;
		token = j->peer_nonce[RAR_NEXT];
		if (step == RAR_T_COMMIT)
			i = n;
		else
			i = find_next_zero_bit(j->back, n, i);
		if (!step || (i == n && step != RAR_T_COMMIT))
			token = 0;
		if (step == RAR_T_COLLECT) {
			own_row(m);
			own_caps(&j->caps);
			j->min_payload = j->payload;
			j->min_rank = m->rank;
			j->resume = j->past;
			t.th.digest = cpu_to_be64(j->clock[0]);
		} else {
			t.th.drawn = cpu_to_be64(j->drawn);
			t.th.digest = cpu_to_be64(j->digest);
		}
		t.th.payload = cpu_to_be32(j->min_payload);
		t.th.payload_rank = cpu_to_be16(j->min_rank);
		caps_to_wire(&j->caps, &t.th.caps);
		resume_to_wire(&j->resume, &t.th);
		if (step == RAR_T_PROPOSE)
			rar_choice_to_wire(&j->choice, &t.th);
		if (i < n)
			slice_fill(m, &t, i);
		boxes = step == RAR_T_PROPOSE ? j->boxes.n : 0;
		if (boxes) {
			t.th.flags |= cpu_to_be16(RAR_TF_BOX);
			boxes_to_wire(&j->boxes, boxes_of(&t));
		}
		spin_unlock_bh(&m->lock);
		table_send(m, &t, boxes, step, token);
	} while (++i < n);
}

/* Has this step taken much longer than COLLECT took, and longer than @ms? @m->lock held. */
static bool step_stuck(const struct rar_join_state *j, u32 ms)
{
	ms = max(ms, TABLE_STUCK_ROUNDS * j->round_ms);
	return time_after(jiffies, j->step_since + msecs_to_jiffies(ms));
}

/**
 * rar_table_tick() - timer of rank 0 while joining
 * @m: member in JOINING or READY
 *
 * Softirq.
 *
 * Return: false if COMMIT has not come round in dead_ms and several times what COLLECT took, so
 * that a member must be gone.
 */
bool rar_table_tick(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;
	bool send = false, stuck = false;

	spin_lock_bh(&m->lock);
	if (j->step == RAR_T_COMMIT)
		stuck = step_stuck(j, READ_ONCE(m->rn->sysctl_dead_ms));
	else if (!both_ok(m))
		j->step = 0;
	else if (!j->step || step_stuck(j, TABLE_STUCK_MS))
		step_to(m, RAR_T_COLLECT);
	if (j->step && time_after_eq(jiffies, j->step_next)) {
		send = true;
		clock_read(j);
		j->step_next = jiffies + rar_table_retry_in(j->step_tries++);
	}
	spin_unlock_bh(&m->lock);
	if (send && !stuck)
		step_send(m);
	return !stuck;
}

/* -- begin --------------------------------------------------------------- */

/* Forget rank 0's clock: packets of the predecessor before this one have another token. */
void rar_table_new_prev(struct rar_member *m)
{
	lockdep_assert_held(&m->lock);
	if (m->rank)
		memset(m->join.clock, 0, sizeof(m->join.clock));
}

/**
 * rar_table_reset() - forget the steps of an earlier join
 * @m:  member that begins to join, @m->lock held
 * @past: failed epoch that its owner remembers
 */
void rar_table_reset(struct rar_member *m, const struct rar_resume *past)
{
	struct rar_join_state *j = &m->join;

	lockdep_assert_held(&m->lock);
	memset(j->table, 0, m->size * sizeof(*j->table));
	bitmap_zero(j->back, slices(m));
	j->past = *past;
	j->resume = *past;	/* if alone */
	j->step = 0;
	j->drawn = 0;
	j->ready = 0;
	memset(&j->choice, 0, sizeof(j->choice));
	j->round_ms = 0;
	j->apart_rounds = 0;
	j->clock_base = get_random_u64();
	memset(j->clock, 0, sizeof(j->clock));
	j->clock[0] = m->rank ? 0 : clock_us(j);
	j->round_clock = j->clock[0];
}

/**
 * rar_table_alone() - start a group of one, without packets
 * @m: member in JOINING, @m->lock held; RUN afterwards
 */
void rar_table_alone(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;

	lockdep_assert_held(&m->lock);
	own_caps(&j->caps);
	own_row(m);
	j->min_payload = j->payload;
	m->payload = j->payload;
	m->epoch = rar_random_token();
	j->boxes.n = 0;
	rar_enter_begin(m);
	take_place(m);
	rar_link_start(m->link[RAR_NEXT]);
	rar_straggler_start(m);
	rar_member_run(m);
}
