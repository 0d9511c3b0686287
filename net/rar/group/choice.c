// SPDX-License-Identifier: GPL-2.0
/*
 * RAR_AUTO: rank 0 chooses how the group adds short tensors, and tells all
 * members with the table. There are three borders: operations of up to "direct"
 * bytes are exchanged directly, all-reduces of up to "gather" bytes are
 * gathered, and those of up to "whole" bytes are not cut into blocks.
 * RAR_DIRECT and RAR_DOUBLING have the first of these borders only, always the
 * same.
 *
 * The choice rests on the time of a hop: COLLECT goes round the ring as a chunk does, so its
 * way takes as many hops as there are ranks. What each form costs:
 *
 *	one block	2(N-1) hops with the whole tensor; 2(N-1) packets in all
 *	N blocks	2(N-1) hops with 1/N of it; 2N(N-1) packets in all
 *	gathered	N-1 hops; N(N-1) packets in all
 *	direct		1 hop; N(N-1) packets in all
 *
 * Where a hop takes long, the number of hops decides, and bytes hardly matter: exchange
 * directly, or gather if a pair of ranks cannot reach each other, and do not cut. Where a hop is
 * short, most of it is the work for its packets: keep their number low. In one kernel there
 * are no wires on which blocks could travel at the same time: do not cut.
 */
#include <linux/bitfield.h>
#include <linux/log2.h>

#include "core/gather.h"
#include "core/hosts.h"
#include "core/ring.h"
#include "core/stages.h"
#include "group/choice.h"
#include "group/peers.h"
#include "rar.h"

#define GATHER_HOP_US	10	/* from so long a hop on for each other rank: gather */
#define DIRECT_HOP_US	10	/* from so long a hop on for each other rank: exchange directly */
#define BORDER_MIN	8	/* bytes; a lower border is none */
/* Bytes of a tensor that is not cut, for each microsecond of a hop. */
#define UNCUT_HOP_BYTES	256

/*
 * Drop what rank 0 cannot choose for this member's schedule. Borders that it
 * cannot have chosen become the nearest possible ones, at all members alike.
 */
static void confine(const struct rar_member *m, struct rar_choice *choice)
{
	u32 most = m->schedule == RAR_DOUBLING ? RAR_STAGES_MAX_BYTES :
						 RAR_SMALL_BYTES;

	if (m->schedule != RAR_AUTO && m->schedule != RAR_DIRECT &&
	    m->schedule != RAR_DOUBLING)
		*choice = (struct rar_choice) { };
	if (m->schedule != RAR_AUTO) {
		choice->gather = 0;
		choice->uncut = 0;
	}
	choice->direct = min_t(u32, choice->direct, most);
	choice->gather = min_t(u32, choice->gather, RAR_SMALL_BYTES);
	choice->uncut = clamp_t(u32, choice->uncut, RAR_SMALL_BYTES,
				RAR_UNCUT_MAX);
}

/* Do all members know a way? @m->lock held, once COLLECT has come round. */
static bool knows(const struct rar_member *m, enum rar_wire_way way)
{
	return FIELD_GET(RAR_CAPS_WAYS, m->join.caps.dtypes[0]) & BIT(way);
}

/*
 * A border that an administrator has set, or 0 if it is so low that it is none.
 */
static u32 told_border(u32 bytes)
{
	return bytes < BORDER_MIN ? 0 : rounddown_pow_of_two(bytes);
}

/* The bytes up to which operations are exchanged directly, or by doubling. */
static u32 choose_direct(const struct rar_member *m)
{
	int told = READ_ONCE(m->rn->sysctl_direct_bytes);

	if (!rar_peers_wanted(m))
		return 0;
	if (m->schedule == RAR_DOUBLING && !knows(m, RAR_WAY_DOUBLING))
		return 0;
	if (m->schedule == RAR_DOUBLING)
		return told ? told_border(told) : rar_stages_bytes(m->size);
	if (!knows(m, RAR_WAY_DIRECT))
		return 0;
	if (m->schedule == RAR_DIRECT)
		return RAR_SMALL_BYTES;
	if (told)
		return told_border(told);
	return m->join.hop_us >= DIRECT_HOP_US * (m->size - 1) ? RAR_SMALL_BYTES : 0;
}

/* The bytes up to which sums are gathered. */
static u32 choose_gather(const struct rar_member *m)
{
	int told = READ_ONCE(m->rn->sysctl_gather_bytes);

	if (m->size == 1 || m->size > RAR_GATHER_RANKS ||
	    !knows(m, RAR_WAY_GATHERED))
		return 0;
	if (told)
		return told_border(told);
	return m->join.hop_us >= GATHER_HOP_US * (m->size - 1) ? RAR_SMALL_BYTES : 0;
}

/* Are all ranks in this kernel? */
static bool together(const struct rar_member *m)
{
	bool all = true;
	u32 rank;

	rcu_read_lock();
	for (rank = 1; rank < m->size && all; rank++)
		all = rar_hosts_share(m, rank, m->join.table[rank].nonce);
	rcu_read_unlock();
	return all;
}

/*
 * The bytes up to which tensors are not cut: a power of two, since the bits of
 * a sum depend on it, and should hardly ever depend on how long a hop took.
 */
static u32 choose_uncut(const struct rar_member *m)
{
	u32 hop_us = min_t(u32, m->join.hop_us,
			   RAR_UNCUT_MAX / UNCUT_HOP_BYTES);
	u32 told = READ_ONCE(m->rn->sysctl_whole_bytes);
	u32 bytes = told ?: hop_us * UNCUT_HOP_BYTES;

	if (!told && together(m))
		return RAR_UNCUT_MAX;
	return bytes ? rounddown_pow_of_two(bytes) : 0;
}

/**
 * rar_choice_make() - choose the borders of RAR_AUTO and RAR_DIRECT
 * @m:      rank 0, to which COLLECT has come back; @m->lock held
 * @paired: each rank reaches each other rank directly
 * @choice: set
 */
void rar_choice_make(const struct rar_member *m, bool paired,
		     struct rar_choice *choice)
{
	*choice = (struct rar_choice) {
		.paired = paired && rar_peers_wanted(m),
		.direct = paired ? choose_direct(m) : 0,
		.gather = choose_gather(m),
		.uncut = choose_uncut(m),
	};
	confine(m, choice);
}

/**
 * rar_choice_to_wire() - tell a choice in a PROPOSE
 * @choice: what rank 0 has chosen
 * @th:     header of the packet
 */
void rar_choice_to_wire(const struct rar_choice *choice,
			struct rar_table_hdr *th)
{
	if (choice->paired)
		th->flags |= cpu_to_be16(RAR_TF_PAIRED);
	th->borders = (struct rar_borders) {
		.direct = cpu_to_be32(choice->direct),
		.gather = cpu_to_be32(choice->gather),
		.uncut = cpu_to_be32(choice->uncut),
	};
}

/**
 * rar_choice_from_wire() - read a choice from a PROPOSE
 * @m:      member
 * @th:     header of the packet, from anywhere
 * @choice: set to what rank 0 can have chosen
 */
void rar_choice_from_wire(const struct rar_member *m,
			  const struct rar_table_hdr *th,
			  struct rar_choice *choice)
{
	*choice = (struct rar_choice) {
		.paired = th->flags & cpu_to_be16(RAR_TF_PAIRED),
		.direct = be32_to_cpu(th->borders.direct),
		.gather = be32_to_cpu(th->borders.gather),
		.uncut = be32_to_cpu(th->borders.uncut),
	};
	confine(m, choice);
}

/* The border of a way, as the first number of bytes beyond it; 0 = none. */
static u32 below(u32 bytes)
{
	return bytes ? bytes + 1 : 0;
}

/**
 * rar_choice_take() - do as rank 0 has chosen
 * @m: member whose place in the group is known; @m->lock held
 */
void rar_choice_take(struct rar_member *m)
{
	const struct rar_choice *choice = &m->join.choice;

	m->place.uncut = max_t(u32, choice->uncut, RAR_SMALL_BYTES);
	m->gather_below = 0;
	m->direct.below = 0;
	m->direct.paired = false;
	if (m->size > 1 && m->size <= RAR_GATHER_RANKS)
		m->gather_below = below(m->schedule == RAR_GATHERED ?
					RAR_SMALL_BYTES : choice->gather);
	if (!rar_peers_wanted(m))
		return;
	/* A question has a bit for each of 64 chunks. */
	if (m->schedule == RAR_DOUBLING &&
	    m->join.min_payload < RAR_STAGES_MAX_BYTES / 64)
		return;
	m->direct.below = below(choice->direct);
	m->direct.paired = choice->direct || choice->paired;
}
