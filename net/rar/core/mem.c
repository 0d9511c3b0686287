// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of operations: limits, and members that wait for memory. Owns the memory fields of
 * namespaces, users and members.
 *
 * A copied operation is charged for its buffer, and one in memory of the user for its bitmaps and
 * pieces, which may be large: a user can name the same memory again and again. Beside a buffer
 * these are small.
 *
 * A namespace may hold net.rar.mem, and the host max_mem. An operation queued
 * after another one of its group may use only half of either limit, so that
 * such operations do not starve the first operation of a group that needs both.
 * Users that hold little may use an eighth more, so that one user cannot starve
 * the others. A container can be any number of users, which together can take
 * that, too. So a member that holds nothing may always have one short
 * operation, as a socket of TCP has the least buffer of tcp_rmem.
 */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/wait_bit.h>

#include "core/mem.h"
#include "core/member.h"
#include "core/user.h"
#include "rar.h"

#define MEM_OP_COST	2560	/* bytes, of an operation's structures */
#define MEM_LEAST	4096	/* bytes that a member may always have */
#define MEM_RESERVE	8	/* one part in this many is added for users */
#define MEM_FEW		64	/* that hold less than one part in this many */
#define MEM_PATIENCE	(HZ / 5)	/* before an operation may exceed net.rar.mem */
#define MEM_LOOK	64	/* members to look at with mem_lock held */
#define MEM_TAKE	HZ	/* jiffies in which send() must take the memory it was offered */

static DEFINE_SPINLOCK(mem_lock);	/* see rar.h; bottom halves off */
static u64 mem_all;			/* bytes, over all namespaces */
static LIST_HEAD(mem_waiting);		/* members to wake when there is memory */
static unsigned long max_mem;		/* bytes; 0 = a quarter of the memory */

static void mem_tell(struct work_struct *work);
static DECLARE_WORK(mem_work, mem_tell);

/* -- limits (mem_lock) --------------------------------------------------- */

static u64 mem_cap(void)
{
	return READ_ONCE(max_mem) ?: (u64)totalram_pages() / 4 * PAGE_SIZE;
}

static u64 mem_limit(u64 cap, u64 held, bool first)
{
	return (first ? cap : cap / 2) + (held <= cap / MEM_FEW ? cap / MEM_RESERVE : 0);
}

/* May a member have this beyond all limits? The members are limited, too. */
static bool mem_least(const struct rar_member *m, u64 bytes)
{
	return bytes <= MEM_LEAST && rar_member_is_first(m) &&
	       !READ_ONCE(m->nundelivered);
}

/* Which limit has no room for this, if any? */
static enum rar_lack mem_lacks(const struct rar_member *m, u64 bytes)
{
	u64 cost = bytes + MEM_OP_COST, held = m->user->mem + cost;
	const struct rar_net *rn = m->rn;
	bool first = rar_member_is_first(m);

	lockdep_assert_held(&mem_lock);
	/* An operation alone fits even after the limit was lowered. */
	if (!bytes || mem_least(m, bytes))
		return RAR_LACK_NONE;
	if (mem_all + cost > mem_limit(mem_cap(), held, first))
		return RAR_LACK_HOST;
	if (rn->mem + bytes > mem_limit(READ_ONCE(rn->sysctl_mem), held, first))
		return RAR_LACK_NET;
	return RAR_LACK_NONE;
}

static bool mem_fits(const struct rar_member *m, u64 bytes)
{
	return mem_lacks(m, bytes) == RAR_LACK_NONE;
}

/*
 * Does the group lack memory for an operation that another rank waits for? A member that
 * holds memory itself does not count: a process that reads nothing must not exceed its
 * limits again and again.
 */
static bool mem_needed(const struct rar_member *m)
{
	return m->wanted && rar_member_is_first(m) && !READ_ONCE(m->nundelivered) &&
	       READ_ONCE(m->straggler.wanted) > READ_ONCE(m->op_next);
}

/* Does it hold memory that others wait for, or does it come before them? */
static bool mem_competes(const struct rar_member *m)
{
	if (!rar_member_runs(m))
		return false;
	if (!rar_member_is_first(m))
		return true;
	/* A send() that does not come back keeps no member waiting. */
	return mem_needed(m) && !(m->want_told &&
				  time_after(jiffies, m->want_told + MEM_TAKE));
}

/*
 * Look for the lowest epoch that competes, at some members at a time: there may
 * be thousands, and all members of the host wait for mem_lock. Those that were
 * looked at go to the end of the list, and new ones come to its beginning.
 */
static void mem_look(struct rar_net *rn)
{
	struct rar_member *m;
	u32 i;

	lockdep_assert_held(&mem_lock);
	for (i = 0; i < MEM_LOOK && !list_empty(&rn->mem_members); i++) {
		m = list_first_entry(&rn->mem_members, struct rar_member,
				     mem_node);
		if (m->mem_pass == rn->mem_pass) {
			rn->mem_turn = rn->mem_lowest;
			rn->mem_lowest = U64_MAX;
			rn->mem_pass++;
			return;
		}
		m->mem_pass = rn->mem_pass;
		if (mem_competes(m))
			rn->mem_lowest = min(rn->mem_lowest, m->epoch);
		list_move_tail(&m->mem_node, &rn->mem_members);
	}
}

/*
 * May this group exceed net.rar.mem now? The members of a group all know its epoch. At every
 * host the group with the lowest epoch that has not ended has its turn, so it ends, and then
 * the next group has its turn. Without turns two hosts could each give all of net.rar.mem to
 * an operation for which the other host has none left.
 */
static bool mem_in_turn(struct rar_member *m)
{
	lockdep_assert_held(&mem_lock);
	if (!mem_needed(m) || time_before(jiffies, m->want_since + MEM_PATIENCE))
		return false;
	mem_look(m->rn);
	return m->epoch <= m->rn->mem_turn;
}

/* Like mem_fits(), but in its turn a group is limited by the host only, with its reserve. */
static bool mem_may(struct rar_member *m, u64 bytes)
{
	u64 cap = mem_cap();

	return mem_fits(m, bytes) ||
	       (mem_in_turn(m) &&
		mem_all + bytes + MEM_OP_COST <= cap + cap / MEM_RESERVE);
}

/* List a member that holds memory or wants some; it stays on the list until it ends. */
static void mem_list(struct rar_member *m)
{
	lockdep_assert_held(&mem_lock);
	if (!list_empty(&m->mem_node))
		return;
	m->mem_pass = m->rn->mem_pass - 1;
	list_add(&m->mem_node, &m->rn->mem_members);
}

/**
 * rar_mem_too_long() - will there never be enough memory for an operation?
 * @rn:    netns
 * @bytes: length of the tensor
 *
 * Return: true if the operation exceeds the limits even when it is alone.
 */
bool rar_mem_too_long(const struct rar_net *rn, u64 bytes)
{
	return bytes > READ_ONCE(rn->sysctl_mem) || bytes + MEM_OP_COST > mem_cap();
}

/**
 * rar_mem_charge() - take memory for an operation
 * @m:   member
 * @bytes: length of the tensor, or of the bitmaps and pieces of one in memory of the user
 *
 * Process context.
 *
 * Return: false if there is too little at the moment; @m->mem_lack tells which
 * limit that is.
 */
bool rar_mem_charge(struct rar_member *m, u64 bytes)
{
	bool fits;

	spin_lock_bh(&mem_lock);
	fits = mem_may(m, bytes);
	if (fits) {
		mem_list(m);
		mem_all += bytes + MEM_OP_COST;
		m->user->mem += bytes + MEM_OP_COST;
		WRITE_ONCE(m->rn->mem, m->rn->mem + bytes);
	} else {
		WRITE_ONCE(m->mem_lack, mem_lacks(m, bytes));
	}
	spin_unlock_bh(&mem_lock);
	return fits;
}

/**
 * rar_mem_uncharge() - give back the memory of an operation
 * @rn:    netns; it may end as soon as nothing of it is charged
 * @user:  user that was charged
 * @bytes: bytes that were charged
 * @charges: in how many calls
 *
 * Any context. Members that wait for memory are woken, soon.
 */
void rar_mem_uncharge(struct rar_net *rn, struct rar_user *user, u64 bytes, u32 charges)
{
	u64 cost = bytes + (u64)charges * MEM_OP_COST;
	bool none = false;

	spin_lock_bh(&mem_lock);
	mem_all -= cost;
	user->mem -= cost;
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
 * rar_mem_want() - note how much memory send() lacks
 * @m:   member, send_lock held
 * @bytes: length of the tensor for which there was too little; 0 = it lacks nothing
 */
void rar_mem_want(struct rar_member *m, u64 bytes)
{
	if (!bytes && !READ_ONCE(m->wanted))
		return;
	spin_lock_bh(&mem_lock);
	if (bytes && !m->wanted) {
		m->want_since = jiffies;
		m->want_turn = jiffies;
		m->want_told = 0;
		mem_list(m);
	}
	WRITE_ONCE(m->wanted, bytes);
	if (!bytes)
		list_del_init(&m->want_node);
	spin_unlock_bh(&mem_lock);
	if (bytes)
		rar_member_kick(m, jiffies + RAR_MEM_TICK);
}

/**
 * rar_mem_room() - is there enough memory by now?
 * @m: member
 *
 * Any context. If there is not, the member's socket is woken when there is.
 *
 * Return: true also if the member wants nothing, or more than is allowed.
 */
bool rar_mem_room(struct rar_member *m)
{
	bool room;

	if (!READ_ONCE(m->wanted))
		return true;
	spin_lock_bh(&mem_lock);
	room = rar_mem_too_long(m->rn, m->wanted) || mem_may(m, m->wanted);
	if (!room && list_empty(&m->want_node))
		list_add_tail(&m->want_node, &mem_waiting);
	spin_unlock_bh(&mem_lock);
	return room;
}

/* The next waiting member that finds enough memory: off the list, and referenced. */
static struct rar_member *mem_next(struct list_head *ask)
{
	struct rar_member *m;

	lockdep_assert_held(&mem_lock);
	while ((m = list_first_entry_or_null(ask, struct rar_member, want_node))) {
		if (!mem_fits(m, m->wanted) &&
		    !rar_mem_too_long(m->rn, m->wanted)) {
			list_move_tail(&m->want_node, &mem_waiting);
			continue;
		}
		list_del_init(&m->want_node);
		if (refcount_inc_not_zero(&m->ref))
			return m;
	}
	return NULL;
}

static void mem_tell(struct work_struct *work)
{
	struct rar_member *m;
	LIST_HEAD(ask);

	spin_lock_bh(&mem_lock);
	list_splice_init(&mem_waiting, &ask);
	while ((m = mem_next(&ask))) {
		spin_unlock_bh(&mem_lock);
		rar_member_wake(m);
		rar_member_put(m);
		spin_lock_bh(&mem_lock);
	}
	spin_unlock_bh(&mem_lock);
}

/* Has it waited too long? Returns 0, or the errno that ends the group. */
static int mem_overdue(const struct rar_member *m)
{
	unsigned long waited = jiffies - m->want_since;
	u32 limit = READ_ONCE(m->op_timeout_ms);

	if (limit && READ_ONCE(m->want_sleeps) && waited > msecs_to_jiffies(limit))
		return -ETIMEDOUT;
	/* It had its turn for so long that the host must have no more memory. */
	if (jiffies - m->want_turn > msecs_to_jiffies(READ_ONCE(m->rn->sysctl_dead_ms)))
		return -ENOBUFS;
	return 0;
}

/**
 * rar_mem_tick() - look after a member whose send() lacks memory
 * @m: member that runs
 *
 * Timer.
 *
 * Return: true if send() lacks memory, and the caller looks again in RAR_MEM_TICK; the errno
 * that ends the group; or 0.
 */
int rar_mem_tick(struct rar_member *m)
{
	int err = 0;
	bool wake;

	if (!READ_ONCE(m->wanted))
		return false;
	spin_lock_bh(&mem_lock);
	/* After another operation of its group, that operation is the one waited for. */
	if (!rar_member_is_first(m))
		m->want_since = jiffies;
	if (!mem_in_turn(m))
		m->want_turn = jiffies;
	wake = mem_may(m, m->wanted);
	if (wake && !m->want_told)
		m->want_told = jiffies | 1;
	else if (!wake)
		err = mem_overdue(m);
	spin_unlock_bh(&mem_lock);
	if (wake)
		rar_member_wake(m);
	return err ?: true;
}

/* The host stood still: send() has not lacked memory for that time. */
void rar_mem_later(struct rar_member *m, unsigned long late)
{
	spin_lock_bh(&mem_lock);
	m->want_since += late;
	m->want_turn += late;
	spin_unlock_bh(&mem_lock);
}

/* A limit was changed: wake the members that wait. */
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
MODULE_PARM_DESC(max_mem,
		 "bytes of operations, all namespaces; 0: a quarter of memory");

/* -- begin and end ------------------------------------------------------- */

/* The member ends. */
void rar_mem_forget(struct rar_member *m)
{
	rar_mem_want(m, 0);
	spin_lock_bh(&mem_lock);
	list_del_init(&m->mem_node);
	spin_unlock_bh(&mem_lock);
}

/* No member of the namespace is left: wait until its memory is free. */
void rar_mem_net_exit(struct rar_net *rn)
{
	wait_var_event(&rn->mem, !READ_ONCE(rn->mem));
}

void rar_mem_exit(void)
{
	cancel_work_sync(&mem_work);
	WARN_ON(mem_all);
}
