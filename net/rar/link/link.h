/* SPDX-License-Identifier: GPL-2.0 */
/* What link.c, loss.c, ack.c and window.c do for one another. */
#ifndef _RAR_LINK_H
#define _RAR_LINK_H

#include "rar.h"

#define LINK_PROBE_MIN_US	20000	/* closed credit: ask at first that often */

static inline unsigned long rar_link_jiffies(u64 us)
{
	return usecs_to_jiffies(min_t(u64, us, USEC_PER_SEC)) + 1;
}

/* link.c; all under tx.lock */
void rar_link_timer_at(struct rar_member *m, u64 when);
struct rar_operation *rar_link_op_of(struct rar_member *m,
				     const struct rar_sent *sent);
bool rar_link_try_release(struct rar_member *m, struct rar_operation *op);
void rar_link_pend(struct rar_link_tx *tx, struct rar_operation *op, u32 way,
		   u32 chunk, u64 mask);
void rar_link_acked(struct rar_link_tx *tx, struct rar_operation *op, u32 way,
		    u32 chunk, u64 mask);
u32 rar_link_welcome(const struct rar_link_tx *tx, const struct rar_operation *op,
		     const struct rar_run *run);
void rar_link_credit(struct rar_member *m, u64 posted, u32 come, u32 credit);

/* loss.c */
enum hrtimer_restart rar_loss_timer(struct hrtimer *timer);

/* window.c */
void rar_window_late(struct rar_link_tx *tx, u64 now);
void rar_window_begin(struct rar_member *m, u64 now);
void rar_window_post(struct rar_member *m, struct rar_operation *op);
u32 rar_window_burst(const struct rar_member *m, u64 now, u64 *more_us);

#endif /* _RAR_LINK_H */
