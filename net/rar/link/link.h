/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_H
#define _RAR_LINK_H

#include "rar.h"
#include "reduce/reduce.h"

struct rar_arrival;

#define RAR_LINK_BATCH		16
#define LINK_PROBE_MIN_US	20000	/* first interval of probes while credit is closed */

static inline unsigned long rar_link_jiffies(u64 us)
{
	return usecs_to_jiffies(min_t(u64, us, USEC_PER_SEC)) + 1;
}

/* Chunks handed over in memory at once: as many as one FPU section may add. */
static inline u32 rar_link_local_max(const struct rar_member *m)
{
	return clamp_t(u32, RAR_REDUCE_MAX / m->payload, 1, RAR_RUN_MAX);
}

void rar_link_timer_at(struct rar_member *m, u64 when);
void rar_link_stop(struct rar_member *m);
struct rar_operation *rar_link_op_of(struct rar_member *m,
				     const struct rar_sent *sent);
bool rar_link_try_release(struct rar_link *link, struct rar_operation *op);
void rar_link_release(struct rar_link *link, struct rar_operation *op);
void rar_link_pend(struct rar_link_tx *tx, struct rar_operation *op, u32 way,
		   u32 chunk, u64 mask);
void rar_link_acked(struct rar_link_tx *tx, struct rar_operation *op, u32 way,
		    u32 chunk, u64 mask);
u32 rar_link_welcome(const struct rar_link_tx *tx, const struct rar_operation *op,
		     const struct rar_run *run);
void rar_link_credit(struct rar_link *link, u64 posted, u32 come, u32 credit);
u32 rar_link_batch(struct rar_link *link, struct rar_tx_item *items);
bool rar_link_take_back(struct rar_link *link, struct rar_tx_item *item);
bool rar_link_take(struct rar_link *link, struct rar_member *next,
		   struct rar_tx_item *item);
void rar_link_taken(struct rar_link *link, struct rar_tx_item *item, u64 done);
void rar_link_post(struct rar_link *link, struct rar_operation *op);
void rar_link_contributed(struct rar_link *link, struct rar_operation *op, u32 come);
bool rar_link_publish(struct rar_link *link, struct rar_operation *op,
		      const struct rar_arrival *a, struct rar_tx_item *item);
bool rar_link_published(struct rar_member *m, struct rar_operation *op,
			const struct rar_arrival *a);
void rar_link_local_drop(struct rar_link *link);
void rar_link_init(struct rar_member *m);
int rar_link_prepare(struct rar_link *link);
void rar_link_start(struct rar_link *link);
void rar_link_flush(struct rar_member *m);
void rar_link_bury(struct rar_member *m);

#endif /* _RAR_LINK_H */
