/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_H
#define _RAR_LINK_H

#include "rar.h"
#include "reduce/reduce.h"

struct rar_arrival;

#define LINK_PROBE_MIN_US	20000	/* first interval of probes while credit is closed */

static inline unsigned long rar_link_jiffies(u64 us)
{
	return usecs_to_jiffies(min_t(u64, us, USEC_PER_SEC)) + 1;
}

/* What a link sends of an operation that has a part for it. tx_lock. */
static inline struct rar_out *rar_link_out(const struct rar_link *link,
					   struct rar_operation *op)
{
	return &op->out[link->out];
}

/* Does a link lead to a rank that is no neighbour by its index? */
static inline bool rar_link_is_direct(const struct rar_link *link)
{
	return link->index >= RAR_LINKS;
}

/* Chunks handed over in memory at once: as many as one FPU section may add. */
static inline u32 rar_link_local_max(const struct rar_member *m)
{
	return clamp_t(u32, RAR_REDUCE_MAX / m->payload, 1, RAR_RUN_MAX);
}

void rar_link_timer_at(struct rar_member *m, u64 when);
void rar_link_stop(struct rar_member *m);
struct rar_operation *rar_link_op_at(struct rar_member *m, u64 seq);
struct rar_operation *rar_link_op_of(struct rar_member *m,
				     const struct rar_sent *sent);
bool rar_link_try_release(struct rar_member *m, struct rar_operation *op);
void rar_link_release(struct rar_member *m, struct rar_operation *op);
void rar_link_credit(struct rar_link *link, u64 posted, u32 come, u32 credit);
void rar_link_inject(struct rar_link *link, struct rar_operation *op, u32 n);
void rar_link_post(struct rar_member *m, struct rar_operation *op);
void rar_link_contributed(struct rar_member *m, struct rar_operation *op, u32 come);
void rar_link_passed(struct rar_link *link, struct rar_operation *op, const struct rar_arrival *a);
bool rar_link_publish(struct rar_link *link, struct rar_operation *op,
		      const struct rar_arrival *a, struct rar_tx_item *item);
void rar_link_account(struct rar_member *m, const struct rar_operation *op,
		      const struct rar_arrival *a);
bool rar_link_published(struct rar_member *m, struct rar_operation *op,
			const struct rar_arrival *a);
void rar_link_local_drop(struct rar_link *link);
int rar_link_new(struct rar_member *m, u32 index, u32 rank, gfp_t gfp);
int rar_link_init(struct rar_member *m, u32 next, u32 prev);
void rar_link_free(struct rar_member *m);
int rar_link_prepare(struct rar_link *link);
void rar_link_free_slots(struct rar_link *link);
int rar_link_reserve(struct rar_member *m, const struct rar_ring *ring);
bool rar_link_open_rx(struct rar_link *link, gfp_t gfp);
void rar_link_left(struct rar_link *link, struct rar_operation *op);
bool rar_link_owes(struct rar_link *link, struct rar_operation *op);
bool rar_link_finished(struct rar_member *m, u64 seq,
		       const struct rar_fingerprint *theirs);
u32 rar_link_early(const struct rar_link *link);
void rar_link_start(struct rar_link *link);
void rar_link_forget(struct rar_link *link, struct rar_operation *op);
void rar_link_flush_tx(struct rar_link *link);
void rar_link_flush(struct rar_member *m);
void rar_link_bury(struct rar_member *m);

#endif /* _RAR_LINK_H */
