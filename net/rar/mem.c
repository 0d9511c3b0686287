// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of operations that are copied: limits, and who waits for some. Owns the memory
 * fields of namespaces, users and groups.
 *
 * A namespace may hold net.rar.mem, the host max_mem. Operations behind another one of
 * their group may use half of either, so that they do not starve the first one of a group
 * that both need. Users who hold little may use an eighth more, so that one user cannot
 * starve the others.
 */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/wait_bit.h>

#include "rar.h"
#include "user.h"

#define MEM_OP_COST	1024	/* bytes, of its structures */
#define MEM_RESERVE	8	/* this part more is for users */
#define MEM_FEW		64	/* who hold less than this part */

static DEFINE_SPINLOCK(mem_lock);	/* see rar.h; bottom halves off */
static u64 mem_all;			/* of all namespaces */
static LIST_HEAD(mem_waiting);		/* groups that want to be told */
static unsigned long max_mem;		/* 0 = half of the machine's */

static void mem_tell(struct work_struct *work);
static DECLARE_WORK(mem_work, mem_tell);

/* -- limits (mem_lock) --------------------------------------------------- */

static u64 mem_cap(void)
{
	return READ_ONCE(max_mem) ?: (u64)totalram_pages() / 2 * PAGE_SIZE;
}

static u64 mem_limit(u64 cap, u64 held, bool first)
{
	return (first ? cap : cap / 2) + (held <= cap / MEM_FEW ? cap / MEM_RESERVE : 0);
}

static bool mem_fits(const struct rar_group *grp, u64 bytes)
{
	u64 cost = bytes + MEM_OP_COST, held = grp->user->mem + cost;
	const struct rar_net *rn = grp->rn;
	bool first = rar_group_is_first(grp);

	lockdep_assert_held(&mem_lock);
	/* What is empty fits also when the limit was lowered. */
	return !bytes ||
	       (mem_all + cost <= mem_limit(mem_cap(), held, first) &&
		rn->mem + bytes <= mem_limit(READ_ONCE(rn->sysctl_mem), held, first));
}

/**
 * rar_mem_too_long() - will there never be enough for an operation?
 * @rn:    netns
 * @bytes: of the tensor
 */
bool rar_mem_too_long(const struct rar_net *rn, u64 bytes)
{
	return bytes > READ_ONCE(rn->sysctl_mem) || bytes + MEM_OP_COST > mem_cap();
}

/**
 * rar_mem_charge() - take memory for an operation
 * @grp:   group
 * @bytes: of the tensor
 *
 * Process context. Return: false if there is too little at the moment.
 */
bool rar_mem_charge(struct rar_group *grp, u64 bytes)
{
	bool fits;

	spin_lock_bh(&mem_lock);
	fits = mem_fits(grp, bytes);
	if (fits) {
		mem_all += bytes + MEM_OP_COST;
		grp->user->mem += bytes + MEM_OP_COST;
		WRITE_ONCE(grp->rn->mem, grp->rn->mem + bytes);
	}
	spin_unlock_bh(&mem_lock);
	return fits;
}

/**
 * rar_mem_uncharge() - the memory of an operation is free again
 * @rn:    netns; it may end as soon as nothing of it is charged
 * @user:  who was charged
 * @bytes: of the tensor
 *
 * Any context. Those who wait for memory are told, soon.
 */
void rar_mem_uncharge(struct rar_net *rn, struct rar_user *user, u64 bytes)
{
	bool none = false;

	spin_lock_bh(&mem_lock);
	mem_all -= bytes + MEM_OP_COST;
	user->mem -= bytes + MEM_OP_COST;
	if (bytes) {
		WRITE_ONCE(rn->mem, rn->mem - bytes);
		none = !rn->mem;
	}
	if (!list_empty(&mem_waiting))
		schedule_work(&mem_work);
	spin_unlock_bh(&mem_lock);
	smp_mb();	/* pairs with wait_var_event() in rar_mem_net_exit() */
	if (none)
		wake_up_var(&rn->mem);
}

/* -- waiting ------------------------------------------------------------- */

/**
 * rar_mem_want() - what does send() lack?
 * @grp:   group, send_lock held
 * @bytes: of the tensor, for which there was too little; 0 = nothing
 */
void rar_mem_want(struct rar_group *grp, u64 bytes)
{
	if (!bytes && !READ_ONCE(grp->wanted))
		return;
	spin_lock_bh(&mem_lock);
	WRITE_ONCE(grp->wanted, bytes);
	if (!bytes)
		list_del_init(&grp->want_node);
	spin_unlock_bh(&mem_lock);
}

/**
 * rar_mem_room() - is there enough by now?
 * @grp: group
 *
 * Any context. Return: true also if it wants nothing, or more than is allowed. If false
 * its socket is woken when there is enough.
 */
bool rar_mem_room(struct rar_group *grp)
{
	bool room;

	if (!READ_ONCE(grp->wanted))
		return true;
	spin_lock_bh(&mem_lock);
	room = rar_mem_too_long(grp->rn, grp->wanted) || mem_fits(grp, grp->wanted);
	if (!room && list_empty(&grp->want_node))
		list_add_tail(&grp->want_node, &mem_waiting);
	spin_unlock_bh(&mem_lock);
	return room;
}

/* Who waits and finds enough by now? Off the list, and referenced. */
static struct rar_group *mem_next(struct list_head *ask)
{
	struct rar_group *grp;

	lockdep_assert_held(&mem_lock);
	while ((grp = list_first_entry_or_null(ask, struct rar_group, want_node))) {
		if (!mem_fits(grp, grp->wanted) &&
		    !rar_mem_too_long(grp->rn, grp->wanted)) {
			list_move_tail(&grp->want_node, &mem_waiting);
			continue;
		}
		list_del_init(&grp->want_node);
		if (refcount_inc_not_zero(&grp->ref))
			return grp;
	}
	return NULL;
}

static void mem_tell(struct work_struct *work)
{
	struct rar_group *grp;
	LIST_HEAD(ask);

	spin_lock_bh(&mem_lock);
	list_splice_init(&mem_waiting, &ask);
	while ((grp = mem_next(&ask))) {
		spin_unlock_bh(&mem_lock);
		rar_group_wake(grp);
		rar_group_put(grp);
		spin_lock_bh(&mem_lock);
	}
	spin_unlock_bh(&mem_lock);
}

/* A limit was changed. */
void rar_mem_changed(void)
{
	schedule_work(&mem_work);
}

static int set_max_mem(const char *val, const struct kernel_param *kp)
{
	int err = param_set_ulong(val, kp);

	if (!err)
		rar_mem_changed();
	return err;
}

static const struct kernel_param_ops max_mem_ops = {
	.set = set_max_mem,
	.get = param_get_ulong,
};
module_param_cb(max_mem, &max_mem_ops, &max_mem, 0644);
MODULE_PARM_DESC(max_mem, "bytes of operations, all namespaces together; 0: half of the memory");

/* -- begin and end ------------------------------------------------------- */

/* Nothing waits for memory any more on behalf of this group. */
void rar_mem_forget(struct rar_group *grp)
{
	rar_mem_want(grp, 0);
}

/* No group of the namespace is left: wait until its memory is free. */
void rar_mem_net_exit(struct rar_net *rn)
{
	wait_var_event(&rn->mem, !READ_ONCE(rn->mem));
}

void rar_mem_exit(void)
{
	cancel_work_sync(&mem_work);
	WARN_ON(mem_all);
}
