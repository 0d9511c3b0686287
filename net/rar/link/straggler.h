/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_STRAGGLER_H
#define _RAR_LINK_STRAGGLER_H

#include "rar.h"

void rar_straggler_start(struct rar_member *m);
void rar_straggler_posted(struct rar_member *m, u64 now);
void rar_straggler_hear(struct rar_member *m, const struct rar_slow_wire *w,
			u64 now);
void rar_straggler_tell(struct rar_member *m, struct rar_slow_wire *w, u64 now);

#endif /* _RAR_LINK_STRAGGLER_H */
