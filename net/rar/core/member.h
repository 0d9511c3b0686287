/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_MEMBER_H
#define _RAR_CORE_MEMBER_H

#include "rar.h"

u32 rar_member_keepalive_ms(const struct rar_member *m);
void rar_member_set_state(struct rar_member *m, enum rar_state to);
struct rar_member *rar_member_lookup(struct rar_net *rn, u64 id, u32 rank,
				     u64 token);
struct rar_member *rar_member_peer(const struct rar_member *m, u32 rank);
struct rar_member *rar_member_first(const struct rar_member *m);
struct rar_member *rar_member_sender(struct rar_net *rn, u64 id, u32 rank,
				     u64 token);
struct rar_link *rar_member_sent_by(struct rar_member *m, u32 rank, u64 token);
int rar_member_hash(struct rar_member *m, struct rar_member *old);
int rar_member_hash_job(struct rar_member *m);
void rar_member_hold_module(struct rar_member *m);
bool rar_member_unhash(struct rar_member *m);
void rar_member_let_go(struct rar_member *m);
void rar_member_put(struct rar_member *m);
void rar_member_flush(void);
void rar_member_kick(struct rar_member *m, unsigned long when);
void rar_member_schedule(struct rar_member *m);
void rar_member_hear(struct rar_link *link);
void rar_member_hear_later(struct rar_link *link, unsigned long late);
struct rar_link *rar_member_link_to(struct rar_member *m, u32 rank);
u32 rar_member_user_rank(const struct rar_member *m, u32 rank);
struct rar_link *rar_member_link(struct rar_member *m, u32 index);
struct rar_link *rar_member_direct(struct rar_member *m, u32 rank);
void rar_member_wake(struct rar_member *m);
int rar_member_net_init(struct rar_net *rn);
void rar_member_net_free(struct rar_net *rn);
struct rar_member *rar_member_after(struct rar_net *rn, unsigned long *index);
struct rar_member *rar_member_get_after(struct rar_net *rn, unsigned long *index);
int rar_member_init(void);
void rar_member_exit(void);
void rar_member_leave(struct rar_member *m, enum rar_reason why);
void rar_member_run(struct rar_member *m);

#define RAR_MEMBER_ASKS		5	/* questions in a keepalive interval */

/*
 * The longest time between two questions to a rank for which this one waits,
 * 2 to 200 ms in us. A living rank answers one of them within dead_ms, even if
 * many packets get lost.
 */
static inline u32 rar_member_ask_us(const struct rar_member *m)
{
	return rar_member_keepalive_ms(m) * USEC_PER_MSEC / RAR_MEMBER_ASKS;
}

/*
 * Find the next link whose index is at least *@i and less than @end. Sets *@i
 * to the index after it. Returns NULL if there is none.
 */
static inline struct rar_link *rar_member_next(const struct rar_member *m,
					       u32 *i, u32 end)
{
	struct rar_link *link = NULL;

	while (*i < end && !link)
		link = READ_ONCE(m->link[(*i)++]);
	return link;
}

/* rar_member_next() among the links by which chunks go */
static inline struct rar_link *rar_member_next_out(const struct rar_member *m,
						   u32 *i)
{
	return rar_member_next(m, i, rar_outs(m));
}

/* The links with indices from @first on and below @end */
#define rar_links_of(link, m, first, end)	\
	for (u32 _i = (first); ((link) = rar_member_next(m, &_i, end)); )

/* All links of a member, but for those to direct peers */
#define rar_each_link(link, m)	rar_links_of(link, m, 0, RAR_LINKS)

/* The links by which chunks go */
#define rar_each_out(link, m)	\
	for (u32 _i = 0; ((link) = rar_member_next_out(m, &_i)); )

/* The legs to the boxes of the group */
#define rar_each_leg(link, m)	\
	for (u32 _i = RAR_LEG; ((link) = rar_member_next_out(m, &_i)); )

/* Take the first of these slots off. Return: its link; NULL if none is left. */
static inline struct rar_link *
rar_member_next_partner(const struct rar_member *m, u64 *slots)
{
	struct rar_direct_peer *peer = READ_ONCE(m->direct.peer);
	u32 slot;

	if (!*slots || !peer)
		return NULL;
	slot = __ffs64(*slots);
	*slots &= *slots - 1;
	return &peer[slot].link;
}

/* The links to the peers by halving */
#define rar_each_partner(link, m)					\
	for (u64 _s = READ_ONCE((m)->direct.partners);			\
	     ((link) = rar_member_next_partner(m, &_s)); )

/* The slot of a direct link, as a bit. */
static inline u64 rar_link_slot(const struct rar_link *link)
{
	return BIT_ULL(link->index - RAR_LINKS);
}

/* Does a direct link lead to a peer by halving? */
static inline bool rar_link_is_partner(const struct rar_link *link)
{
	return READ_ONCE(link->member->direct.partners) & rar_link_slot(link);
}

/* Does an operation have a part for a link by which chunks go? */
static inline bool rar_link_serves(const struct rar_link *link,
				   const struct rar_operation *op)
{
	return link->index < RAR_LINKS || op->ring.plan.halving;
}

#endif /* _RAR_CORE_MEMBER_H */
