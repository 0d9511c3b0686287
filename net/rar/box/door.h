/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_DOOR_H
#define _RAR_BOX_DOOR_H

#include "box/job.h"

int rar_door_set_key(struct rar_box *box, const struct rar_secret *key);
struct rar_member *rar_door_self(const struct rar_box *box);
bool rar_door_opens(struct rar_box *box, struct rar_pkt *pkt);

#endif /* _RAR_BOX_DOOR_H */
