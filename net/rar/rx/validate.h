/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RX_VALIDATE_H
#define _RAR_RX_VALIDATE_H

#include "rar.h"

bool rar_validate_address(const struct rar_member *m,
			  const struct rar_pkt *pkt);
bool rar_validate_by_type(const struct rar_pkt *pkt);
bool rar_validate_is_data(const struct rar_member *m,
			  const struct rar_pkt *pkt);
enum rar_rx rar_validate(struct rar_member *m, struct rar_pkt *pkt);

#endif /* _RAR_RX_VALIDATE_H */
