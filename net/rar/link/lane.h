/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_LANE_H
#define _RAR_LINK_LANE_H

#include "rar.h"

void rar_lane_start(struct rar_link *link);
u32 rar_lane_pick(struct rar_link *link, const struct rar_run *run, bool full,
		  bool again);
bool rar_lane_is_out(const struct rar_link *link, const struct rar_sent *sent);
void rar_lane_came(struct rar_link *link, const struct rar_sent *sent);
void rar_lane_lost(struct rar_link *link, const struct rar_sent *sent, u64 now);

#endif /* _RAR_LINK_LANE_H */
