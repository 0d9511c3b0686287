/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_EVENT_H
#define _RAR_CORE_EVENT_H

#include <linux/rar_netlink.h>

#include "rar.h"

struct genl_family;

int rar_event_put_addr(struct sk_buff *skb, int type, const struct rar_addr *a);
int rar_event_put_user_rank(struct sk_buff *skb, int type, u32 rank, u32 user);
int rar_event_put_error(struct sk_buff *skb, int type, const struct rar_error *err);
void rar_event_send(struct rar_member *m, enum rar_event kind, const struct rar_error *err);
void rar_event_begin(const struct genl_family *family);
void rar_event_end(void);

#endif /* _RAR_CORE_EVENT_H */
