// SPDX-License-Identifier: GPL-2.0
/*
 * The table: three packets that rank 0 sends round the ring, one after the other and again
 * until each comes back. COLLECT gathers the members, PROPOSE tells all of them the table
 * and the epoch, COMMIT starts. Nobody but rank 0 keeps a timer for these. A large table
 * travels in slices of RAR_TABLE_MAX members.
 */
#include <linux/jhash.h>

#include "rar.h"
#include "reduce.h"

#define TABLE_STUCK_MS		2000	/* a step that does not come round */

/* COLLECT, PROPOSE and COMMIT as they travel. */
struct table_pkt {
	struct rar_table_hdr th;
	struct rar_wire_member m[RAR_TABLE_MAX];
};

static u32 slices(const struct rar_group *grp)
{
	return DIV_ROUND_UP(grp->size, RAR_TABLE_MAX);
}

/* What rank 0 claims to be the lowest payload: chunks end between elements. */
static bool payload_ok(u32 payload)
{
	return payload >= RAR_PAYLOAD_UNIT && !(payload % RAR_PAYLOAD_UNIT);
}

static void own_caps(struct rar_caps *caps)
{
	int dtype, redop;

	memset(caps, 0, sizeof(*caps));
	caps->wire_version = RAR_WIRE_VERSION;
	caps->collectives = BIT(RAR_ALLREDUCE);
	for (redop = 1; redop < RAR_REDOP_NR; redop++)
		for (dtype = 1; dtype < RAR_DTYPE_NR; dtype++)
			if (rar_reduce_kind(dtype, redop))
				caps->dtypes[redop] |= BIT(dtype);
}

/* -- wire conversion ----------------------------------------------------- */

static void member_to_wire(const struct rar_member *m,
			   struct rar_wire_member *w)
{
	w->nonce = cpu_to_be64(m->nonce);
	memcpy(w->addr, &m->addr.ip, sizeof(w->addr));
	w->af = cpu_to_be16(m->addr.af == AF_INET6 ? 6 : 4);
	w->port = m->addr.port;
	w->payload = cpu_to_be32(m->payload);
}

static void member_from_wire(const struct rar_wire_member *w,
			     struct rar_member *m)
{
	m->nonce = be64_to_cpu(w->nonce);
	memcpy(&m->addr.ip, w->addr, sizeof(w->addr));
	m->addr.af = be16_to_cpu(w->af) == 6 ? AF_INET6 : AF_INET;
	m->addr.port = w->port;
	m->addr.scope = 0;
	m->payload = be32_to_cpu(w->payload);
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

static u64 table_digest(const struct rar_group *grp)
{
	u32 a = grp->size, b = grp->join.min_payload, i;
	struct rar_wire_member w;

	for (i = 0; i < grp->size; i++) {
		member_to_wire(&grp->join.members[i], &w);
		a = jhash(&w, sizeof(w), a);
		b = jhash(&w, sizeof(w), b ^ a);
	}
	return (u64)a << 32 | b;
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

static void own_member(struct rar_group *grp)
{
	struct rar_member *m = &grp->join.members[grp->rank];

	m->nonce = grp->join.nonce;
	m->addr = grp->path[RAR_NEXT].src;
	m->payload = grp->join.payload;
}

static bool both_ok(const struct rar_group *grp)
{
	return grp->join.ok[RAR_NEXT] && grp->join.ok[RAR_PREV];
}

/* -- COLLECT, PROPOSE, COMMIT -------------------------------------------- */

static void slice_fill(struct rar_group *grp, struct table_pkt *t, u32 slice)
{
	u32 first = slice * RAR_TABLE_MAX, i;
	u32 n = min_t(u32, grp->size - first, RAR_TABLE_MAX);

	t->th.first = cpu_to_be16(first);
	t->th.n = cpu_to_be16(n);
	for (i = 0; i < n; i++)
		member_to_wire(&grp->join.members[first + i], &t->m[i]);
}

static bool slice_ok(const struct rar_group *grp, const struct table_pkt *t,
		     size_t members)
{
	u32 first = be16_to_cpu(t->th.first), n = be16_to_cpu(t->th.n);

	if (t->th.h.type == RAR_T_COMMIT)
		return !first && !n && !members;
	return first < grp->size && !(first % RAR_TABLE_MAX) &&
	       n == min_t(u32, grp->size - first, RAR_TABLE_MAX) &&
	       members == n * sizeof(t->m[0]);
}

static void slice_store(struct rar_group *grp, const struct table_pkt *t)
{
	u32 first = be16_to_cpu(t->th.first), n = be16_to_cpu(t->th.n), i;

	for (i = 0; i < n; i++)
		member_from_wire(&t->m[i], &grp->join.members[first + i]);
	__set_bit(first / RAR_TABLE_MAX, grp->join.back);
}

static bool slices_all(const struct rar_group *grp)
{
	return bitmap_full(grp->join.back, slices(grp));
}

static void table_send(struct rar_group *grp, struct table_pkt *t, u8 type,
		       u64 token)
{
	size_t len = sizeof(t->th) + be16_to_cpu(t->th.n) * sizeof(t->m[0]);

	if (token)
		rar_output_ctl(grp, RAR_NEXT, t, len, 0, type, token);
}

/* Rank 0: the next packet goes round. @grp->lock held. */
static void step_to(struct rar_group *grp, u8 type)
{
	struct rar_join_state *j = &grp->join;

	lockdep_assert_held(&grp->lock);
	j->step = type;
	j->step_tries = 0;
	j->step_next = jiffies;
	j->step_since = jiffies;
	bitmap_zero(j->back, slices(grp));
}

static void set_proposal(struct rar_group *grp, const struct rar_table_hdr *th)
{
	grp->join.epoch = be64_to_cpu(th->epoch);
	grp->join.digest = be64_to_cpu(th->digest);
	grp->join.min_payload = be32_to_cpu(th->payload);
	grp->join.min_rank = be16_to_cpu(th->payload_rank);
	caps_from_wire(&th->caps, &grp->join.caps);
	resume_from_wire(th, &grp->join.resume);
}

/* Is @rank on the same host as the one before it? */
static bool same_host(const struct rar_group *grp, u32 rank)
{
	const struct rar_addr *a = &grp->join.members[rank - 1].addr;
	const struct rar_addr *b = &grp->join.members[rank].addr;

	return a->af == b->af && ipv6_addr_equal(&a->ip, &b->ip);
}

/* Hosts and who is on them, from the table: the same at every member. */
static void seat_by_hosts(struct rar_group *grp)
{
	u32 rank, host = 0, hosts = 0, first = 0, end = grp->size;

	for (rank = 0; rank < grp->size; rank++) {
		if (rank && same_host(grp, rank))
			continue;
		if (rank <= grp->rank) {
			host = hosts;
			first = rank;
		} else {
			end = min(end, rank);
		}
		hosts++;
	}
	grp->host_first = first;
	rar_ring_seat_hosts(&grp->seat, grp->size, hosts, host, end - first,
			    grp->rank - first);
}

static void take_seat(struct rar_group *grp)
{
	if (grp->by_hosts)
		seat_by_hosts(grp);
	else
		rar_ring_seat(&grp->seat, grp->size, grp->rank);
}

/*
 * Everybody has the table: packets of the epoch may come any moment. False: who has our
 * address, as the table says, is not here.
 */
static bool get_ready(struct rar_group *grp)
{
	lockdep_assert_held(&grp->lock);
	if (grp->by_hosts && grp->rank + 1 < grp->size &&
	    same_host(grp, grp->rank + 1) &&
	    !rar_route_is_here(grp, &grp->path[RAR_NEXT]))
		return false;
	take_seat(grp);
	grp->payload = grp->join.min_payload;
	rar_link_start(grp);
	WRITE_ONCE(grp->epoch, rar_key_epoch(grp, grp->join.epoch));
	rar_group_set_state(grp, RAR_S_READY);
	return true;
}

static void collect_add_own(struct rar_group *grp, struct table_pkt *t)
{
	u32 first = be16_to_cpu(t->th.first), n = be16_to_cpu(t->th.n);
	struct rar_resume resume;
	struct rar_caps caps;

	own_caps(&caps);
	caps_and(&caps, &t->th.caps);
	resume_from_wire(&t->th, &resume);
	rar_resume_merge(&resume, &grp->join.past);
	resume_to_wire(&resume, &t->th);
	own_member(grp);
	if (grp->join.payload < be32_to_cpu(t->th.payload)) {
		t->th.payload = cpu_to_be32(grp->join.payload);
		t->th.payload_rank = cpu_to_be16(grp->rank);
	}
	if (grp->rank >= first && grp->rank < first + n)
		member_to_wire(&grp->join.members[grp->rank],
			       &t->m[grp->rank - first]);
}

static bool rcv_collect(struct rar_group *grp, struct table_pkt *t)
{
	struct rar_join_state *j = &grp->join;

	if (grp->state != RAR_S_JOINING && grp->state != RAR_S_READY)
		return false;
	if (grp->rank) {
		collect_add_own(grp, t);
		return true;
	}
	if (j->step != RAR_T_COLLECT)
		return false;
	slice_store(grp, t);
	if (!slices_all(grp) || !payload_ok(be32_to_cpu(t->th.payload)) ||
	    be32_to_cpu(t->th.payload) > j->payload)
		return false;
	set_proposal(grp, &t->th);
	j->epoch = rar_random_token();
	j->digest = table_digest(grp);
	step_to(grp, RAR_T_PROPOSE);
	return false;
}

/* Is this about the epoch that this member is ready for, or in? */
static bool of_this_epoch(const struct rar_group *grp, const struct table_pkt *t)
{
	return rar_key_epoch(grp, be64_to_cpu(t->th.epoch)) == grp->epoch;
}

/* A member learns the table; @bad: what it computes is not what is claimed. */
static bool rcv_propose(struct rar_group *grp, struct table_pkt *t, bool *bad)
{
	struct rar_join_state *j = &grp->join;

	if (!grp->rank) {
		if (j->step != RAR_T_PROPOSE ||
		    be64_to_cpu(t->th.epoch) != j->epoch)
			return false;
		__set_bit(be16_to_cpu(t->th.first) / RAR_TABLE_MAX, j->back);
		if (slices_all(grp)) {
			*bad = !get_ready(grp);
			if (!*bad)
				step_to(grp, RAR_T_COMMIT);
		}
		return false;
	}
	if (grp->state >= RAR_S_RUN)
		return of_this_epoch(grp, t);
	if (of_this_epoch(grp, t))
		return true;
	if (be64_to_cpu(t->th.epoch) != j->epoch)
		bitmap_zero(j->back, slices(grp));
	set_proposal(grp, &t->th);
	slice_store(grp, t);
	if (!slices_all(grp))
		return true;
	/* From before this member started again: rank 0 collects once more. */
	if (j->members[grp->rank].nonce != j->nonce)
		return false;
	*bad = table_digest(grp) != j->digest || !payload_ok(j->min_payload) ||
	       j->min_payload > j->payload || !get_ready(grp);
	return !*bad;
}

static bool rcv_commit(struct rar_group *grp, struct table_pkt *t)
{
	if (!of_this_epoch(grp, t) ||
	    be64_to_cpu(t->th.digest) != grp->join.digest)
		return false;
	if (grp->state == RAR_S_READY)
		rar_group_run(grp);
	grp->join.step = 0;
	return grp->rank;
}

/**
 * rar_table_rcv() - one of the packets that rank 0 sends round
 * @grp: group
 * @pkt: validated
 *
 * Softirq.
 */
void rar_table_rcv(struct rar_group *grp, const struct rar_pkt *pkt)
{
	bool relay = false, bad = false, wake;
	u32 len = pkt->len;
	struct table_pkt t;
	u64 token;

	if (len > sizeof(t) || skb_copy_bits(pkt->skb, pkt->off, &t, len) ||
	    !slice_ok(grp, &t, len - sizeof(t.th)))
		return;
	rar_group_hear(grp, RAR_PREV);
	spin_lock_bh(&grp->lock);
	if (grp->state >= RAR_S_JOINING && grp->state <= RAR_S_LEAVING &&
	    both_ok(grp)) {
		if (pkt->h.type == RAR_T_COLLECT)
			relay = rcv_collect(grp, &t);
		else if (pkt->h.type == RAR_T_PROPOSE)
			relay = rcv_propose(grp, &t, &bad);
		else
			relay = rcv_commit(grp, &t);
	}
	token = grp->join.peer_nonce[RAR_NEXT];
	wake = grp->state == RAR_S_RUN;
	spin_unlock_bh(&grp->lock);

	if (bad)
		rar_fail_pair(grp, EBADMSG, RAR_R_TABLE, grp->rank, 0, 0);
	if (relay)
		table_send(grp, &t, pkt->h.type, token);
	if (wake)
		rar_group_wake(grp);
	rar_group_kick(grp, jiffies);
}

/* -- rank 0 -------------------------------------------------------------- */

/* Send what is going round, all slices that are not back. */
static void step_send(struct rar_group *grp)
{
	struct rar_join_state *j = &grp->join;
	u32 i = 0, n = slices(grp);
	struct table_pkt t;
	u64 token;
	u8 step;

	do {
		memset(&t, 0, sizeof(t));
		spin_lock_bh(&grp->lock);
		step = j->step;
		token = j->peer_nonce[RAR_NEXT];
		if (step == RAR_T_COMMIT)
			i = n;
		else
			i = find_next_zero_bit(j->back, n, i);
		if (!step || (i == n && step != RAR_T_COMMIT))
			token = 0;
		if (step == RAR_T_COLLECT) {
			own_member(grp);
			own_caps(&j->caps);
			j->min_payload = j->payload;
			j->min_rank = grp->rank;
			j->resume = j->past;
		} else {
			t.th.epoch = cpu_to_be64(j->epoch);
			t.th.digest = cpu_to_be64(j->digest);
		}
		t.th.payload = cpu_to_be32(j->min_payload);
		t.th.payload_rank = cpu_to_be16(j->min_rank);
		caps_to_wire(&j->caps, &t.th.caps);
		resume_to_wire(&j->resume, &t.th);
		if (i < n)
			slice_fill(grp, &t, i);
		spin_unlock_bh(&grp->lock);
		table_send(grp, &t, step, token);
	} while (++i < n);
}

/**
 * rar_table_tick() - timer of rank 0 while joining
 * @grp: group in JOINING or READY
 *
 * Softirq. Return: false if COMMIT does not come round: somebody is gone.
 */
bool rar_table_tick(struct rar_group *grp)
{
	struct rar_join_state *j = &grp->join;
	unsigned long dead = msecs_to_jiffies(READ_ONCE(grp->rn->sysctl_dead_ms));
	bool send = false, stuck = false;

	spin_lock_bh(&grp->lock);
	if (j->step == RAR_T_COMMIT) {
		stuck = time_after(jiffies, j->step_since + dead);
	} else if (!both_ok(grp)) {
		j->step = 0;
	} else if (!j->step || time_after(jiffies, j->step_since +
					  msecs_to_jiffies(TABLE_STUCK_MS))) {
		step_to(grp, RAR_T_COLLECT);
	}
	if (j->step && time_after_eq(jiffies, j->step_next)) {
		send = true;
		j->step_next = jiffies + rar_join_retry_in(j->step_tries++);
	}
	spin_unlock_bh(&grp->lock);
	if (send && !stuck)
		step_send(grp);
	return !stuck;
}

/* -- begin --------------------------------------------------------------- */

/**
 * rar_table_reset() - forget what went round
 * @grp:  group that begins to join, @grp->lock held
 * @past: what its owner remembers
 */
void rar_table_reset(struct rar_group *grp, const struct rar_resume *past)
{
	struct rar_join_state *j = &grp->join;

	lockdep_assert_held(&grp->lock);
	bitmap_zero(j->back, slices(grp));
	j->past = *past;
	j->resume = *past;	/* if alone */
	j->step = 0;
	j->epoch = 0;
}

/**
 * rar_table_alone() - a group of one: nobody to ask, nothing to send
 * @grp: group in JOINING, @grp->lock held; RUN afterwards
 */
void rar_table_alone(struct rar_group *grp)
{
	struct rar_join_state *j = &grp->join;

	lockdep_assert_held(&grp->lock);
	own_caps(&j->caps);
	own_member(grp);
	j->min_payload = j->payload;
	grp->payload = j->payload;
	grp->epoch = rar_random_token();
	take_seat(grp);
	rar_link_start(grp);
	rar_group_run(grp);
}
