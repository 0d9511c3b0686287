/* SPDX-License-Identifier: GPL-2.0 */
/* A member's counters, in a page that the user maps. */
#ifndef _RAR_COUNTERS_H
#define _RAR_COUNTERS_H

struct rar_counters;
struct rar_member;

void rar_counters_show(struct rar_member *m, struct rar_counters *page);
void rar_counters_update(struct rar_member *m);

#endif /* _RAR_COUNTERS_H */
