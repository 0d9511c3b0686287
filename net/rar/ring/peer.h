/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_PEER_H
#define _RAR_RING_PEER_H

#include "rar.h"

void rar_peer_watch(struct rar_direct_peer *peer, u64 now);
void rar_peer_expect(struct rar_link *link);
void rar_peer_alive(struct rar_link *link, bool chunk);

#endif /* _RAR_RING_PEER_H */
