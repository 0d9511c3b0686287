/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_CHOICE_H
#define _RAR_GROUP_CHOICE_H

#include <linux/types.h>

struct rar_member;

u16 rar_choice_may(const struct rar_member *m);
u16 rar_choice_make(const struct rar_member *m, bool paired);
u32 rar_choice_whole(u16 choice);
void rar_choice_take(struct rar_member *m);

#endif /* _RAR_GROUP_CHOICE_H */
