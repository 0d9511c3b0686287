/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_OFFER_H
#define _RAR_BOX_OFFER_H

#include "rar.h"

int rar_offer_set(struct rar_net *rn, bool on);

#endif /* _RAR_BOX_OFFER_H */
