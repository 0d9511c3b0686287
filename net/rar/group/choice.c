// SPDX-License-Identifier: GPL-2.0
/*
 * RAR_AUTO: rank 0 chooses how the group adds short tensors, and tells all members with the
 * table. There are three borders: operations of up to "direct" bytes are exchanged directly,
 * all-reduces of up to "gather" bytes are gathered, and those of up to "whole" bytes are not cut
 * into blocks. RAR_DIRECT has the first of these borders only, always the same.
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

#include "core/gather.h"
#include "core/hosts.h"
#include "core/ring.h"
#include "group/choice.h"
#include "group/pair.h"
#include "rar.h"

#define GATHER_HOP_US	10	/* from so long a hop on for each other rank: gather */
#define DIRECT_HOP_US	10	/* from so long a hop on for each other rank: exchange directly */
#define WHOLE_HOP_BYTES	256	/* bytes of a tensor that is not cut, for each microsecond */

/* The numbers of RAR_TF_GATHER and RAR_TF_DIRECT, and of RAR_TF_WHOLE. */
#define SHORT_CODE_MAX	11U
#define WHOLE_CODE_MAX	3U

static u32 short_of(u32 code)
{
	return code ? 4 << code : 0;
}

/* The largest code for at most @bytes. */
static u32 short_code(u32 bytes)
{
	u32 code = 0;

	while (code < SHORT_CODE_MAX && short_of(code + 1) <= bytes)
		code++;
	return code;
}

/* The border that a code stands for, as the first number of bytes beyond it; 0 = none. */
static u32 short_below(u32 code)
{
	return code ? short_of(min(code, SHORT_CODE_MAX)) + 1 : 0;
}

/* The flags of the table by which rank 0 chooses for this member's schedule. */
u16 rar_choice_may(const struct rar_member *m)
{
	if (m->schedule == RAR_AUTO)
		return RAR_TF_CHOICE;
	return m->schedule == RAR_DIRECT ? RAR_TF_PAIRED | RAR_TF_DIRECT : 0;
}

/* The bytes up to which operations are exchanged directly. */
static u32 choose_direct(const struct rar_member *m)
{
	int told = READ_ONCE(m->rn->sysctl_direct_bytes);

	if (!rar_pair_wanted(m) || !(m->join.caps.dtypes[0] & RAR_OF_DIRECT))
		return 0;
	if (m->schedule == RAR_DIRECT)
		return RAR_SMALL_BYTES;
	if (told)
		return told;
	return m->join.hop_us >= DIRECT_HOP_US * (m->size - 1) ? RAR_SMALL_BYTES : 0;
}

static u32 whole_of(u32 code)
{
	return RAR_SMALL_BYTES << code;
}

/**
 * rar_choice_whole() - the border of tensors that are not cut
 * @choice: flags of the table of a group
 *
 * Return: bytes of the longest tensor that is not cut into blocks.
 */
u32 rar_choice_whole(u16 choice)
{
	return whole_of(min_t(u32, FIELD_GET(RAR_TF_WHOLE, choice), WHOLE_CODE_MAX));
}

/* The bytes up to which sums are gathered. */
static u32 choose_gather(const struct rar_member *m)
{
	int told = READ_ONCE(m->rn->sysctl_gather_bytes);

	if (m->size == 1 || m->size > RAR_GATHER_RANKS)
		return 0;
	if (told)
		return told;
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

/* The bytes up to which tensors are not cut. */
static u32 choose_whole(const struct rar_member *m)
{
	int told = READ_ONCE(m->rn->sysctl_whole_bytes);
	u32 hop_us = min_t(u32, m->join.hop_us, RAR_WHOLE_MAX / WHOLE_HOP_BYTES);

	if (told)
		return told;
	return together(m) ? RAR_WHOLE_MAX : hop_us * WHOLE_HOP_BYTES;
}

/**
 * rar_choice_make() - choose the borders of RAR_AUTO and RAR_DIRECT
 * @m:     rank 0, to which COLLECT has come back; @m->lock held
 * @paired: each rank reaches each other rank directly
 *
 * Members of earlier versions, which do not know RAR_TF_PAIRED, are not told of it.
 *
 * Return: flags of struct rar_table_hdr.
 */
u16 rar_choice_make(const struct rar_member *m, bool paired)
{
	u32 direct = paired ? short_code(choose_direct(m)) : 0, whole = 0, bytes;
	u16 choice = FIELD_PREP(RAR_TF_DIRECT, direct);

	if (paired && rar_pair_wanted(m) &&
	    m->join.caps.collectives & BIT(RAR_REDUCE_BY_KEY))
		choice |= RAR_TF_PAIRED;
	choice &= rar_choice_may(m);
	if (m->schedule != RAR_AUTO)
		return choice;
	bytes = choose_whole(m);
	while (whole < WHOLE_CODE_MAX && whole_of(whole + 1) <= bytes)
		whole++;
	return choice | FIELD_PREP(RAR_TF_GATHER, short_code(choose_gather(m))) |
	       FIELD_PREP(RAR_TF_WHOLE, whole);
}

/**
 * rar_choice_take() - do as rank 0 has chosen
 * @m: member whose place in the group is known; @m->lock held
 *
 * Borders that rank 0 cannot have chosen become the nearest possible ones, at all members
 * alike.
 */
void rar_choice_take(struct rar_member *m)
{
	u32 direct = FIELD_GET(RAR_TF_DIRECT, m->join.choice);
	u32 gather = FIELD_GET(RAR_TF_GATHER, m->join.choice);

	m->place.whole = rar_choice_whole(m->join.choice);
	m->gather_below = 0;
	m->direct.below = 0;
	m->direct.paired = false;
	if (m->size == 1 || m->size > RAR_GATHER_RANKS)
		return;
	if (m->schedule == RAR_GATHERED)
		m->gather_below = RAR_SMALL_BYTES + 1;
	else
		m->gather_below = short_below(gather);
	if (!m->direct.peer)
		return;
	m->direct.below = short_below(direct);
	m->direct.paired = m->direct.below || m->join.choice & RAR_TF_PAIRED;
}
