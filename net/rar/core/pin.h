/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_PIN_H
#define _RAR_CORE_PIN_H

#include "rar.h"

void rar_pin_posted(struct rar_member *m, struct rar_operation *op);
void rar_pin_done(struct rar_member *m, struct rar_operation *op);
bool rar_pin_keep(struct rar_member *m);
bool rar_pin_any(const struct rar_member *m);
void rar_pin_end(struct rar_member *m);

#endif /* _RAR_CORE_PIN_H */
