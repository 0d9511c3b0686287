/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_INFO_H
#define _RAR_SOCK_INFO_H

#include "rar.h"

void rar_info_error(struct rar_member *m, struct rar_error *err);
void rar_info_fill(struct rar_member *m, struct rar_info *info);

#endif /* _RAR_SOCK_INFO_H */
