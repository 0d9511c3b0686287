/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_TX_CONTROL_H
#define _RAR_TX_CONTROL_H

#include "rar.h"

void rar_control_send(struct rar_link *link, void *hdr, size_t len, size_t pad,
		      u8 type, u64 token);
void rar_control_notice(struct rar_link *link, u8 type, u64 token,
			const struct rar_error *err);
bool rar_control_budget(struct rar_net *rn);
void rar_control_reply(struct rar_member *m, const struct rar_pkt *pkt,
		       void *hdr, size_t len, u8 type, u64 token);
void rar_control_once(struct rar_member *m, struct rar_path *path, void *hdr,
		      size_t len, u8 type, u32 rank, u64 token);
void rar_control_reset(struct rar_member *m, const struct rar_pkt *pkt);

#endif /* _RAR_TX_CONTROL_H */
