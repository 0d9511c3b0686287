/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_TX_DEVICE_H
#define _RAR_TX_DEVICE_H

#include "rar.h"

void rar_device_set(struct rar_net *rn, struct rar_hook **place, int ifindex);
int rar_device_init(nf_hookfn *fn);
void rar_device_exit(void);

#endif /* _RAR_TX_DEVICE_H */
