// SPDX-License-Identifier: GPL-2.0
/*
 * Borders: which short operations go by which way. Rank 0 sets them, and tells
 * all members with the table. Operations of up to "direct" bytes are exchanged
 * directly. Of the others, sums of up to "doubling" bytes go by recursive
 * doubling, and all-reduces of up to "halving" bytes by halving. All else goes
 * by the ring.
 *
 * The bits of a sum depend on its way. So the borders follow from the schedule
 * and the number of ranks, never from a time that was measured; only where the
 * path carries short packets they are lower. What a way costs:
 *
 *	ring		2(N-1) hops, with 1/N of the tensor if it is cut
 *	doubling	log2 N hops, or up to two more, with all of it
 *	halving		twice as many, with 1/2, 1/4, 1/8 ... of it
 *	direct		1 hop; N-1 packets at least leave each rank, and come
 *
 * "scripts/sim depth" prints the time of each, and of the way that RAR_AUTO
 * takes, by ranks, length and delay.
 */
#include <linux/bitfield.h>
#include <linux/log2.h>

#include "core/gather.h"
#include "core/halving.h"
#include "core/ring.h"
#include "core/stages.h"
#include "group/choice.h"
#include "group/peers.h"
#include "rar.h"

#define DIRECT_MOST	32768U	/* bytes, of which each rank is sent all */
#define BORDER_MIN	8	/* bytes; a lower border is none */

/*
 * RAR_AUTO: the longest operation that is exchanged directly, bytes. All ranks
 * send at once to each of them, and it adds what all have sent at once, so N
 * times as much is bounded.
 */
static u32 direct_border(u32 size)
{
	u32 all = RAR_GATHER_RANKS * RAR_SMALL_BYTES;

	if (size > RAR_GATHER_RANKS)
		return 0;
	return min(rounddown_pow_of_two(all / size), DIRECT_MOST);
}

/* Drop what rank 0 cannot have chosen for this member's schedule. */
static void confine(const struct rar_member *m, struct rar_choice *choice)
{
	u32 direct = 0, doubling = RAR_STAGES_MAX_BYTES;
	u32 halving = RAR_HALVING_MAX_BYTES;

	switch (m->schedule) {
	case RAR_AUTO:
		direct = direct_border(m->size);
		break;
	case RAR_DIRECT:
		direct = RAR_SMALL_BYTES;
		doubling = 0;
		halving = 0;
		break;
	case RAR_DOUBLING:
		break;
	default:
		doubling = 0;
		halving = 0;
	}
	choice->direct = min(choice->direct, direct);
	choice->doubling = min(choice->doubling, doubling);
	choice->halving = min(choice->halving, halving);
}

/* Do all members know a way? @m->lock held, once COLLECT has come round. */
static bool knows(const struct rar_member *m, enum rar_wire_way way)
{
	return FIELD_GET(RAR_CAPS_WAYS, m->join.caps.dtypes[0]) & BIT(way);
}

/* The border that an administrator has set, bytes; 0: all goes by the ring. */
static u32 told_border(const struct rar_member *m)
{
	u32 bytes = READ_ONCE(m->rn->sysctl_direct_bytes);

	return bytes < BORDER_MIN ? 0 : rounddown_pow_of_two(bytes);
}

/* The bytes up to which operations are exchanged directly. */
static u32 choose_direct(const struct rar_member *m)
{
	if (!knows(m, RAR_WAY_DIRECT))
		return 0;
	if (m->schedule == RAR_DIRECT || !READ_ONCE(m->rn->sysctl_direct_bytes))
		return U32_MAX;
	return told_border(m);
}

/* The bytes up to which sums go by doubling. */
static u32 choose_doubling(const struct rar_member *m)
{
	if (!knows(m, RAR_WAY_DOUBLING))
		return 0;
	if (READ_ONCE(m->rn->sysctl_direct_bytes))
		return told_border(m);
	return rar_stages_bytes(m->size);
}

/* The bytes up to which the other all-reduces go by halving. */
static u32 choose_halving(const struct rar_member *m)
{
	u32 told = READ_ONCE(m->rn->sysctl_halving_bytes);

	if (!knows(m, RAR_WAY_HALVING))
		return 0;
	if (told)
		return told < BORDER_MIN ? 0 : told;
	if (READ_ONCE(m->rn->sysctl_direct_bytes))
		return 0;
	return rar_halving_bytes(m->size);
}

/**
 * rar_choice_make() - choose the borders
 * @m:      rank 0, to which COLLECT has come back; @m->lock held
 * @paired: each rank reaches directly each other rank that it has a link to
 * @choice: set
 */
void rar_choice_make(const struct rar_member *m, bool paired,
		     struct rar_choice *choice)
{
	*choice = (struct rar_choice) { };
	if (!paired || !rar_peers_wanted(m))
		return;
	choice->paired = true;
	choice->direct = choose_direct(m);
	choice->doubling = choose_doubling(m);
	choice->halving = choose_halving(m);
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
		.doubling = cpu_to_be32(choice->doubling),
		.halving = cpu_to_be32(choice->halving),
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
		.doubling = be32_to_cpu(th->borders.doubling),
		.halving = be32_to_cpu(th->borders.halving),
	};
	if (!choice->paired)
		*choice = (struct rar_choice) { };
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
	/* A question has a bit for each of 64 chunks. */
	u32 most = min_t(u64, 64ULL * m->join.min_payload, U32_MAX);
	u32 direct = choice->direct, doubling = choice->doubling;

	m->direct.below = 0;
	m->direct.doubling_below = 0;
	m->direct.halving_below = 0;
	m->direct.paired = false;
	if (!rar_peers_wanted(m))
		return;
	most = rounddown_pow_of_two(most);
	m->direct.below = below(min(direct, most));
	m->direct.doubling_below = below(min(doubling, most));
	m->direct.halving_below = below(choice->halving);
	m->direct.paired = choice->paired;
}

/* -- by the borders ------------------------------------------------------- */

static u32 direct_below(const struct rar_member *m, u8 collective)
{
	switch (collective) {
	case RAR_ALLREDUCE:
	case RAR_BARRIER:
	case RAR_BROADCAST:
	case RAR_ALLGATHER:
		return m->direct.below;
	default:
		return 0;
	}
}

/* An all-gather, or reduce-scatter, also needs short shares. */
static u32 doubling_below(const struct rar_member *m, u8 collective)
{
	switch (collective) {
	case RAR_ALLREDUCE:
	case RAR_BARRIER:
	case RAR_BROADCAST:
	case RAR_REDUCE:
		return m->direct.doubling_below;
	case RAR_ALLGATHER:
	case RAR_REDUCE_SCATTER:
		return min(m->direct.doubling_below,
			   below(m->size * rar_stages_share(m->size)));
	default:
		return 0;
	}
}

/*
 * If the number of ranks is no power of two, single ranks wait for pairs in an
 * all-reduce. With shares none waits, so their border is twice as far.
 */
static u32 halving_below(const struct rar_member *m, u8 collective)
{
	u32 border = m->direct.halving_below;

	if (!border || !rar_ring_halves(collective))
		return 0;
	if (rar_ring_shares(collective) && !is_power_of_2(m->size))
		border = below(min(2 * (border - 1), RAR_HALVING_MAX_BYTES));
	return border;
}

/**
 * rar_choice_way() - choose the way of an operation
 * @m:          member in RUN
 * @collective: enum rar_collective
 * @ordered:    ranks add in their order
 * @bytes:      of the tensor
 *
 * Any context. The same at all ranks.
 */
enum rar_wire_way rar_choice_way(const struct rar_member *m, u8 collective,
				 bool ordered, u64 bytes)
{
	bool sums = collective == RAR_ALLREDUCE || collective == RAR_BARRIER;

	if (bytes < direct_below(m, collective) && (sums || !ordered))
		return RAR_WAY_DIRECT;
	if (ordered)
		return RAR_WAY_RING;
	if (bytes < doubling_below(m, collective))
		return RAR_WAY_DOUBLING;
	if (bytes < halving_below(m, collective))
		return RAR_WAY_HALVING;
	return RAR_WAY_RING;
}

/* The ring is for collectives of so many bytes and more; 0: for all. */
u32 rar_choice_below(const struct rar_member *m, u8 collective)
{
	return max3(direct_below(m, collective), doubling_below(m, collective),
		    halving_below(m, collective));
}
