/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_SELF_H
#define _RAR_BOX_SELF_H

#include "rar.h"

struct rar_box;

void rar_self_init(struct rar_member *m, struct rar_box *box, const struct rar_addr *self);

#endif /* _RAR_BOX_SELF_H */
