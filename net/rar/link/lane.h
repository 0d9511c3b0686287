/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_LANE_H
#define _RAR_LINK_LANE_H

#include "rar.h"

void rar_lane_start(struct rar_link *link);
void rar_lane_open(struct rar_link *link);
u32 rar_lane_rails(const struct rar_link *link);
void rar_lane_sent(struct rar_link *link, struct rar_sent *sent);
u32 rar_lane_patience(const struct rar_link *link, const struct rar_sent *sent);
void rar_lane_left(struct rar_link *link, const struct rar_sent *sent, u32 n);
u32 rar_lane_any(struct rar_link *link, const struct rar_run *run, bool again);
u32 rar_lane_pick(struct rar_link *link, const struct rar_run *run, bool full,
		  bool again);
bool rar_lane_is_out(const struct rar_link *link, const struct rar_sent *sent);
void rar_lane_came(struct rar_link *link, const struct rar_sent *sent);
void rar_lane_lost(struct rar_link *link, const struct rar_sent *sent, u64 now);

#endif /* _RAR_LINK_LANE_H */
