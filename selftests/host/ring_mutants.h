/* SPDX-License-Identifier: GPL-2.0 */
/* Schedules that are wrong on purpose, for test_ring: "mut_" and the error. */
#ifndef RING_MUTANTS_H
#define RING_MUTANTS_H

#include "ring_sim.h"

static int mut_cut_unaligned(struct rar_ring *r, u64 bytes, u32 payload,
			     const struct rar_plan *plan)
{
	int err = rar_ring_cut(r, bytes, payload, plan);

	if (!err && bytes % (64 * plan->parts) == 0)
		r->block += 4;
	return err;
}

static int mut_cut_unlimited(struct rar_ring *r, u64 bytes, u32 payload,
			     const struct rar_plan *plan)
{
	return rar_ring_cut(r, lower(bytes, 1 << 30), payload, plan);
}

static int mut_cut_chunk_lost(struct rar_ring *r, u64 bytes, u32 payload,
			      const struct rar_plan *plan)
{
	int err = rar_ring_cut(r, bytes, payload, plan);

	r->nchunks -= !err && r->nchunks > 1;
	return err;
}

static int mut_cut_uneven(struct rar_ring *r, u64 bytes, u32 payload,
			  const struct rar_plan *plan)
{
	struct rar_plan even = *plan;

	if (plan->exact)
		bytes -= bytes % plan->parts;
	return rar_ring_cut(r, bytes, payload, &even);
}

/* The parts of the lead are not rounded up. */
static int mut_lead_uneven(struct rar_ring *r, u64 bytes)
{
	int err = rar_ring_lead(r, bytes);

	r->bytes -= r->lead_bytes;
	r->lead_block = (bytes + r->nblocks - 1) / r->nblocks;
	r->lead_bytes = r->lead_block * r->nblocks;
	r->bytes += r->lead_bytes;
	return err;
}

static int mut_lead_chunk_lost(struct rar_ring *r, u64 bytes)
{
	int err = rar_ring_lead(r, bytes);

	r->nchunks -= r->nblocks > 1;
	return err;
}

static int mut_lead_unlimited(struct rar_ring *r, u64 bytes)
{
	return rar_ring_lead(r, lower(bytes, 1 << 20));
}

/* A run of chunks of the lead goes on with chunks of the tensor. */
static u32 mut_end_of_block(const struct rar_ring *r, u32 chunk)
{
	u32 first = chunk / r->cpb * r->cpb;

	return first + rar_ring_block_chunks(r, chunk / r->cpb);
}

static void mut_chunk_crosses(const struct rar_ring *r, u32 chunk,
			      struct rar_chunk *c)
{
	rar_ring_chunk(r, chunk, c);
	c->off = (u64)chunk * r->payload;
	c->len = lower(r->bytes - lower(c->off, r->bytes), r->payload);
}

static void mut_chunk_long(const struct rar_ring *r, u32 chunk,
			   struct rar_chunk *c)
{
	rar_ring_chunk(r, chunk, c);
	c->len = lower(r->bytes - c->off, r->payload);
}

static u32 mut_first_rotated(const struct rar_ring *r, u32 block)
{
	return rar_ring_block_first(r, (block + 1) % r->nblocks);
}

static u32 mut_chunks_full(const struct rar_ring *r, u32 block)
{
	return block < r->nblocks ? r->cpb : 0;
}

static u32 mut_ntx_both(const struct rar_ring *r)
{
	return 2 * r->nchunks;
}

static u32 mut_ntx_twice(const struct rar_ring *r)
{
	return 2 * (r->nchunks - rar_ring_block_chunks(r, r->plan.ends[RAR_RS]));
}

static u32 mut_need_all(const struct rar_ring *r)
{
	return rar_plan_has(&r->plan, RAR_AG) ? r->nchunks : rar_ring_need(r);
}

static u32 mut_need_sums(const struct rar_ring *r)
{
	return r->nchunks - rar_ring_block_chunks(r, r->plan.starts[RAR_AG]);
}

static enum rar_combine mut_combine_all(const struct rar_plan *plan,
					enum rar_phase phase, u32 block)
{
	return phase == RAR_RS ? RAR_COMBINE_ADD : RAR_COMBINE_STORE;
}

static enum rar_combine mut_combine_less(const struct rar_plan *plan,
					 enum rar_phase phase, u32 block)
{
	return block == plan->ends[RAR_AG] ? RAR_COMBINE_NONE :
	       rar_plan_combine(plan, phase, block);
}

static enum rar_combine mut_combine_adds(const struct rar_plan *plan,
					 enum rar_phase phase, u32 block)
{
	return rar_plan_combine(plan, phase, block) ? RAR_COMBINE_ADD : RAR_COMBINE_NONE;
}

static enum rar_phase mut_next_rs_far(const struct rar_plan *plan,
				      enum rar_phase phase, u32 block)
{
	return phase == RAR_RS ? RAR_RS : rar_plan_next(plan, phase, block);
}

/* As if every operation were an all-reduce. */
static enum rar_phase mut_next_always_ag(const struct rar_plan *plan,
					 enum rar_phase phase, u32 block)
{
	enum rar_phase next = rar_plan_next(plan, phase, block);

	return phase == RAR_RS && next == RAR_PHASES ? RAR_AG : next;
}

static enum rar_phase mut_next_ag_short(const struct rar_plan *plan,
					enum rar_phase phase, u32 block)
{
	return phase == RAR_AG && block == (plan->ends[RAR_AG] + 1) % plan->parts ?
	       RAR_PHASES : rar_plan_next(plan, phase, block);
}

static enum rar_phase mut_next_ag_far(const struct rar_plan *plan,
				      enum rar_phase phase, u32 block)
{
	enum rar_phase next = rar_plan_next(plan, phase, block);

	return next == RAR_PHASES ? RAR_AG : next;
}

static bool mut_completes_ag(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return phase == RAR_AG;
}

static bool mut_completes_all(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return true;
}

/* As if every chunk that comes here were complete. */
static bool mut_last_completes(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return rar_plan_completes(plan, phase, block);
}

static struct rar_span mut_given_all(const struct rar_plan *plan, u64 bytes)
{
	return (struct rar_span) { .len = bytes };
}

static struct rar_span mut_got_given(const struct rar_plan *plan, u64 bytes)
{
	return rar_plan_given(plan, bytes);
}

static struct rar_span mut_got_first(const struct rar_plan *plan, u64 bytes)
{
	struct rar_span span = rar_plan_got(plan, bytes);

	return (struct rar_span) { .len = span.len };
}

static bool mut_injects_rs(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return phase == RAR_RS && block == plan->starts[phase];
}

static bool mut_injects_sums(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return block == plan->starts[phase];
}

static bool mut_always(const struct rar_plan *plan)
{
	return true;
}

/* As if all ranks had contributed to every chunk of AG. */
static bool mut_summed_ag(const struct rar_plan *plan, enum rar_phase phase)
{
	return phase == RAR_AG;
}

static bool mut_before_ag(const struct rar_plan *plan, enum rar_phase phase, u32 block)
{
	return phase == RAR_AG && block != plan->starts[RAR_RS];
}

static enum rar_phase mut_result_ag(const struct rar_plan *plan, u32 block)
{
	return block == plan->ends[RAR_RS] ? RAR_RS : RAR_AG;
}

/* As if every rank injected. */
static u64 mut_share_size(const struct rar_ring *ring, u64 bytes)
{
	return bytes / sim.size;
}

/* No room for the sum of what was gathered. */
static u64 mut_room_gathered(const struct rar_plan *plan, u64 bytes, u32 payload)
{
	return plan->gathered ? bytes * plan->parts : bytes;
}

/* The sum overwrites a contribution. */
static struct rar_span mut_got_own(const struct rar_plan *plan, u64 bytes)
{
	return plan->gathered ? rar_plan_given(plan, bytes) : rar_plan_got(plan, bytes);
}

/* Only one rank sends in a barrier that is gathered. */
static int mut_cut_one_empty(struct rar_ring *r, u64 bytes, u32 payload,
			     const struct rar_plan *plan)
{
	int err = rar_ring_cut(r, bytes, payload, plan);

	if (!err && !bytes)
		r->nblocks = r->nchunks = 1;
	return err;
}

static bool mut_returns_sums(const struct rar_plan *plan)
{
	return rar_plan_adds(plan);
}

static bool mut_returns_gathered(const struct rar_plan *plan)
{
	return rar_plan_has(plan, RAR_AG);
}

static int mut_plan_root_zero(struct rar_plan *plan, const struct rar_place *place,
			      u8 collective, u16 mode, u32 root)
{
	return rar_ring_plan(plan, place, collective, mode, root < place->size ? 0 : root);
}

static int mut_plan_no_order(struct rar_plan *plan, const struct rar_place *place,
			     u8 collective, u16 mode, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, mode, root);

	return err ?: rar_ring_plan(plan, place, collective, 0, root);
}

static int mut_plan_inexact(struct rar_plan *plan, const struct rar_place *place,
			    u8 collective, u16 mode, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, mode, root);

	plan->exact = false;
	return err;
}

/* As if the last rank of a host sent nothing back to the first. */
static int mut_plan_no_back(struct rar_plan *plan, const struct rar_place *place,
			    u8 collective, u16 mode, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, mode, root);

	plan->back = false;
	return err;
}

/* As if sums went over the last link between hosts as well. */
static int mut_plan_last_link(struct rar_plan *plan, const struct rar_place *place,
			      u8 collective, u16 mode, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, mode, root);

	if (place->hosts && place->index + 1 == place->ranks)
		plan->ends[RAR_AG] = RAR_NO_BLOCK;
	return err;
}

static int mut_plan_all_inject(struct rar_plan *plan, const struct rar_place *place,
			       u8 collective, u16 mode, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, mode, root);

	if (place->hosts && plan->parts == place->hosts)
		plan->starts[RAR_RS] = place->host;
	return err;
}

/* The fields of a plan that the next mutant takes from the plan of another rank. */
static struct {
	u8 collective;
	u16 mode;
	u32 field;
} wrong;

static u32 *plan_field(struct rar_plan *plan, u32 field)
{
	return field < RAR_PHASES ? &plan->starts[field] : &plan->ends[field - RAR_PHASES];
}

/* A row with a column that is wrong by one rank, or with a phase that it does not have. */
static int mut_plan_wrong_column(struct rar_plan *plan, const struct rar_place *place,
				 u8 collective, u16 mode, u32 root)
{
	int err = rar_ring_plan(plan, place, collective, mode, root);
	struct rar_place other = *place;
	struct rar_plan theirs;

	if (err || place->hosts || place->size == 1 || collective != wrong.collective ||
	    mode != wrong.mode)
		return err;
	if (*plan_field(plan, wrong.field) == RAR_ALL_BLOCKS) {
		*plan_field(plan, wrong.field) = plan->parts > 1 ? place->rank : 0;
		return 0;
	}
	other.rank = (place->rank + 1) % place->size;
	err = rar_ring_plan(&theirs, &other, collective, mode, root);
	*plan_field(plan, wrong.field) = *plan_field(&theirs, wrong.field);
	return err;
}

/* Is @field used? In a phase that a row does not have, nothing ends. */
static bool field_matters(const struct collective *w, u32 field)
{
	return field < RAR_PHASES || w->rounds == 2 || field == (w->adds ? 2 : 3);
}

#endif /* RING_MUTANTS_H */
