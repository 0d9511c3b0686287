/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_HALVING_H
#define _RAR_RING_HALVING_H

#include "rar.h"

struct rar_arrival;

bool rar_halving_begin(struct rar_member *m, struct rar_operation *op);
bool rar_halving_may_come(const struct rar_operation *op,
			  const struct rar_arrival *a);
bool rar_halving_come(struct rar_member *m, struct rar_operation *op,
		      const struct rar_arrival *a);
bool rar_halving_waits(struct rar_member *m, struct rar_operation *op,
		       struct rar_link *link);

#endif /* _RAR_RING_HALVING_H */
