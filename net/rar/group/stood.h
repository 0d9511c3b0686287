/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_STOOD_H
#define _RAR_STOOD_H

#include "rar.h"

void rar_stood_look(struct rar_member *m);
void rar_stood_expect(struct rar_member *m, bool runs, unsigned long next);
u32 rar_stood_ms(const struct rar_member *m);
void rar_stood_own(const struct rar_member *m, u32 other,
		   struct rar_error *err);

#endif /* _RAR_STOOD_H */
