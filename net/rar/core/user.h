/* SPDX-License-Identifier: GPL-2.0 */
/* What each user holds on this host, over all namespaces. */
#ifndef _RAR_USER_H
#define _RAR_USER_H

#include <linux/atomic.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#define RAR_USER_FEW	16	/* a user with this many members has few */
#define RAR_TOMBSTONES	4	/* members without a socket that count as one with a socket */

/*
 * struct rar_user - a user of this host
 * @node:	in the hash of users, user_lock
 * @ref:	one per member and per operation
 * @uid:	see user_of()
 * @members:	members with a socket
 * @alive:	members not yet freed
 * @mem:	bytes of operations, mem_lock
 * @early:	bytes of held packets
 * @freeing:	operations that nobody uses any more and that are not yet freed
 * @orphan:	bytes of operations of closed members that serve their neighbours
 */
struct rar_user {
	struct hlist_node node;
	refcount_t ref;
	kuid_t uid;
	atomic_t members;
	atomic_t alive;
	u64 mem;
	atomic64_t early;
	atomic_t freeing;
	atomic64_t orphan;
};

static inline struct rar_user *rar_user_hold(struct rar_user *user)
{
	refcount_inc(&user->ref);
	return user;
}

struct rar_user *rar_user_get(void);
void rar_user_put(struct rar_user *user);
bool rar_user_settle(void);
void rar_user_freed(struct rar_user *user);
bool rar_user_may_bind(const struct rar_user *user, u32 bound, u32 alive, u32 max);
int rar_user_bind(struct rar_user *user, bool again);
void rar_user_unbind(struct rar_user *user);
void rar_user_alive(struct rar_user *user, int n);
bool rar_user_orphan(struct rar_user *user, u64 bytes);
void rar_user_orphan_end(struct rar_user *user, u64 bytes);

#endif /* _RAR_USER_H */
