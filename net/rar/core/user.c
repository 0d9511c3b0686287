// SPDX-License-Identifier: GPL-2.0
/*
 * Users: what each user holds on this host, over all namespaces, and the limits of that.
 * Owns struct rar_user.
 *
 * The owner of a namespace sets its limits (net.rar.*), and any user may own one. The
 * limits of the host are module parameters. Every limit leaves something to users that
 * hold little.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/wait_bit.h>

#include "core/user.h"
#include "rar.h"

#define USER_MEMBER_COST	(64 << 10)	/* bytes of a member with its operations */
#define USER_MEMBERS_SHIFT	3		/* members may hold an eighth of the memory */
#define USER_MEMBERS_MIN	4096U		/* members allowed on any machine */
#define USER_ORPHAN_SHIFT	4		/* a user's orphans: a sixteenth of the memory */
#define USER_SETTLE		HZ		/* jiffies: several grace periods */

static unsigned int max_members;
module_param(max_members, uint, 0644);
MODULE_PARM_DESC(max_members, "members with a socket, all namespaces together; 0: by memory");

static unsigned long orphan_mem;
module_param(orphan_mem, ulong, 0644);
MODULE_PARM_DESC(orphan_mem, "bytes of operations of a user's closed members that others need; 0: by memory");

static DEFINE_HASHTABLE(users, 8);
static DEFINE_SPINLOCK(user_lock);	/* protects @users; bottom halves off */
static atomic_t all_members;
static atomic_t all_alive;

/*
 * The user that is charged. The maker of a user namespace can make any number of users in
 * it, so what they hold counts as the maker's. An exception is root, who makes namespaces
 * for others.
 */
static kuid_t user_of(const struct cred *cred)
{
	struct user_namespace *ns = cred->user_ns;
	kuid_t uid = cred->fsuid;

	for (; ns && ns != &init_user_ns; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			uid = ns->owner;
	return uid;
}

static struct rar_user *user_find(kuid_t uid)
{
	struct rar_user *user;

	lockdep_assert_held(&user_lock);
	hash_for_each_possible(users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			return user;
	return NULL;
}

static struct rar_user *user_new(kuid_t uid)
{
	struct rar_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);

	if (!user)
		return NULL;
	refcount_set(&user->ref, 1);
	user->uid = uid;
	return user;
}

/**
 * rar_user_get() - find the calling user
 *
 * Process context.
 *
 * Return: the user with a reference, or NULL without memory.
 */
struct rar_user *rar_user_get(void)
{
	kuid_t uid = user_of(current_cred());
	struct rar_user *user, *new = user_new(uid);

	spin_lock_bh(&user_lock);
	user = user_find(uid);
	if (user)
		refcount_inc(&user->ref);
	else if (new)
		hash_add(users, &new->node, __kuid_val(uid));
	spin_unlock_bh(&user_lock);
	if (!user)
		return new;
	kfree(new);
	return user;
}

/* Drop a reference. Any context. */
void rar_user_put(struct rar_user *user)
{
	bool last;

	spin_lock_bh(&user_lock);
	last = refcount_dec_and_test(&user->ref);
	if (last)
		hash_del(&user->node);
	spin_unlock_bh(&user_lock);
	if (last)
		kfree(user);
}

/**
 * rar_user_settle() - wait until the memory that the calling user gave up is free
 *
 * Process context.
 *
 * Return: true if there was such memory, so that the caller may try again.
 */
bool rar_user_settle(void)
{
	struct rar_user *user;
	bool any;

	spin_lock_bh(&user_lock);
	user = user_find(user_of(current_cred()));
	any = user && atomic_read(&user->freeing);
	if (any)
		refcount_inc(&user->ref);
	spin_unlock_bh(&user_lock);
	if (!any)
		return false;
	wait_var_event_timeout(&user->freeing, !atomic_read(&user->freeing), USER_SETTLE);
	rar_user_put(user);
	return true;
}

/* An operation that was counted in @freeing is freed. Any context. */
void rar_user_freed(struct rar_user *user)
{
	/* A full barrier: the operation's memory was given back before. */
	if (atomic_dec_and_test(&user->freeing))
		wake_up_var(&user->freeing);
}

/**
 * rar_user_may_bind() - is there room for another member?
 * @user:  the user it belongs to
 * @bound: members with a socket in the namespace or on the host
 * @alive: all members there
 * @max:   members with a socket that are allowed there
 *
 * The last eighth is for users that have few members.
 *
 * Return: true if there is room.
 */
bool rar_user_may_bind(const struct rar_user *user, u32 bound, u32 alive, u32 max)
{
	u32 most = max - max / 8;

	alive /= RAR_TOMBSTONES;
	if (bound >= max || alive > max)
		return false;
	return (bound < most || atomic_read(&user->members) < RAR_USER_FEW) &&
	       (alive < most ||
		atomic_read(&user->alive) < RAR_USER_FEW * RAR_TOMBSTONES);
}

static u32 members_max(void)
{
	u64 bytes = (u64)totalram_pages() << PAGE_SHIFT >> USER_MEMBERS_SHIFT;

	return READ_ONCE(max_members) ?:
	       clamp_t(u64, bytes / USER_MEMBER_COST, USER_MEMBERS_MIN, INT_MAX);
}

/**
 * rar_user_bind() - count a member that gets its name
 * @user:  the user it belongs to
 * @again: it replaces a member of this user that was counted
 *
 * Any context.
 *
 * Return: 0, or -ENOSPC beyond the limit of the host.
 */
int rar_user_bind(struct rar_user *user, bool again)
{
	int bound;

	if (again)
		return rar_user_may_bind(user, 0, atomic_read(&all_alive), members_max()) ?
		       0 : -ENOSPC;
	bound = atomic_inc_return(&all_members) - 1;
	if (!rar_user_may_bind(user, bound, atomic_read(&all_alive), members_max())) {
		atomic_dec(&all_members);
		return -ENOSPC;
	}
	atomic_inc(&user->members);
	return 0;
}

/* Undo rar_user_bind(). */
void rar_user_unbind(struct rar_user *user)
{
	atomic_dec(&user->members);
	atomic_dec(&all_members);
}

/* Count members that begin (@n = 1) or cease (-1) to exist. */
void rar_user_alive(struct rar_user *user, int n)
{
	atomic_add(n, &user->alive);
	atomic_add(n, &all_alive);
}

/**
 * rar_user_orphan() - may a closed member go on serving its neighbours?
 * @user:  the user it belongs to
 * @bytes: bytes of its operations
 *
 * A user's first orphan may, however much it holds; after that the limit decides. The bytes
 * are counted until rar_user_orphan_end().
 *
 * Return: true if it may.
 */
bool rar_user_orphan(struct rar_user *user, u64 bytes)
{
	u64 limit = READ_ONCE(orphan_mem) ?:
		    (u64)totalram_pages() << PAGE_SHIFT >> USER_ORPHAN_SHIFT;

	if (bytes && atomic64_read(&user->orphan) > limit)
		return false;
	atomic64_add(bytes, &user->orphan);
	return true;
}

/* Undo rar_user_orphan(). */
void rar_user_orphan_end(struct rar_user *user, u64 bytes)
{
	atomic64_sub(bytes, &user->orphan);
}
