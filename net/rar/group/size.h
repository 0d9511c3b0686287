/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SIZE_H
#define _RAR_SIZE_H

#include "rar.h"

u32 rar_size_payload(const struct rar_member *m, const struct rar_path *path,
		     u32 mtu);
bool rar_size_goes_on(struct rar_member *m);
void rar_size_announced(struct rar_member *m);

#endif /* _RAR_SIZE_H */
