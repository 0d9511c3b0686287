/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_TIMER_H
#define _RAR_GROUP_TIMER_H

#include "rar.h"

void rar_timer_init(struct rar_member *m);

#endif /* _RAR_GROUP_TIMER_H */
