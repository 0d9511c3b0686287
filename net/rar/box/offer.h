/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_OFFER_H
#define _RAR_BOX_OFFER_H

#include "rar.h"

struct rar_box;

int rar_offer_set(struct rar_box *box, bool on);

#endif /* _RAR_BOX_OFFER_H */
