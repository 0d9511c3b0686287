// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of the box, which all jobs share: net.rar.box_policy says how.
 *
 *	static   each job has an equal part
 *	fcfs     first come, first served: a row stays until all members have the sum
 *	reclaim  fcfs, but the oldest sum of all jobs leaves when a row is needed
 *	preempt  reclaim, and then a chunk that is worth less than the new one is evicted. A
 *	         partial sum that is evicted goes on by the ring
 *
 * With net.rar.box_trust the worth of a chunk is the priority that the program gave its
 * operation. Without, priorities order only the operations of one job, and of two jobs that one
 * is worth more for which the box added clearly less in the last seconds. In any case a job whose
 * rows are fewer than its share of net.rar.box_share percent loses none to another job, and may
 * take one of a job that has more than its share.
 *
 * The lock of another job is only tried for, since the lock of this job is held.
 */
#include <linux/math64.h>
#include <linux/rculist.h>

#include "box/slot.h"

static u64 limit_of(const struct box_job *job)
{
	return READ_ONCE(job->m.rn->sysctl_box_mem);
}

/* What of the memory may be rows. An eighth is left to the marks of chunks and operations. */
static u64 rows_of(const struct box_job *job)
{
	return limit_of(job) - limit_of(job) / 8;
}

static u32 njobs(const struct box_job *job)
{
	return max(READ_ONCE(job->box->njobs), 1U);
}

/* Bytes that no other job may take away. */
static u64 share(const struct box_job *job)
{
	return div_u64(rows_of(job) / 100 * READ_ONCE(job->m.rn->sysctl_box_share), njobs(job));
}

static int policy(const struct box_job *job)
{
	return READ_ONCE(job->m.rn->sysctl_box_policy);
}

/**
 * rar_pool_charge() - let a job use memory of the box
 * @job:   its lock is held
 * @bytes: how much
 * @row:   for a row; else for a mark of a chunk, or an operation
 *
 * Return: false if the limit would be exceeded.
 */
bool rar_pool_charge(struct box_job *job, u64 bytes, bool row)
{
	lockdep_assert_held(&job->lock);
	if (row && policy(job) == RAR_POOL_STATIC &&
	    job->rows + bytes > div_u64(rows_of(job), njobs(job)))
		return false;
	if (atomic64_add_return(bytes, &job->box->used) >
	    (row ? rows_of(job) : limit_of(job))) {
		atomic64_sub(bytes, &job->box->used);
		return false;
	}
	if (row)
		WRITE_ONCE(job->rows, job->rows + bytes);
	return true;
}

/* Undo rar_pool_charge(). */
void rar_pool_uncharge(struct box_job *job, u64 bytes, bool row)
{
	lockdep_assert_held(&job->lock);
	if (row)
		WRITE_ONCE(job->rows, job->rows - bytes);
	atomic64_sub(bytes, &job->box->used);
}

/* Let something other than a job use memory of the box. Return: false if it is used up. */
bool rar_pool_take(struct rar_box *box, u64 bytes)
{
	if (atomic64_add_return(bytes, &box->used) <= READ_ONCE(box->rn->sysctl_box_mem))
		return true;
	atomic64_sub(bytes, &box->used);
	return false;
}
EXPORT_SYMBOL_GPL(rar_pool_take);

/* Undo rar_pool_take(). */
void rar_pool_give(struct rar_box *box, u64 bytes)
{
	atomic64_sub(bytes, &box->used);
}
EXPORT_SYMBOL_GPL(rar_pool_give);

/* Is so much of the memory in use that rows are given back early? */
bool rar_pool_short(const struct box_job *job)
{
	return policy(job) < RAR_POOL_RECLAIM ||
	       atomic64_read(&job->box->used) > limit_of(job) / 2;
}

/* Give the oldest sum back, which most members have. */
static bool take_sum(struct box_job *job)
{
	struct box_job *other, *from = job;
	u64 oldest = READ_ONCE(job->oldest);
	bool found;

	list_for_each_entry_rcu(other, &job->box->jobs, node) {
		if (READ_ONCE(other->oldest) >= oldest)
			continue;
		from = other;
		oldest = READ_ONCE(other->oldest);
	}
	if (from == job || !spin_trylock(&from->lock))
		return rar_slot_reclaim(job);
	found = rar_slot_reclaim(from);
	spin_unlock(&from->lock);
	return found;
}

/* The worth of a job, as far as the box sees it: steps of a factor of two, for little changes. */
static u32 worth(const struct box_job *job)
{
	return 64 - fls64(READ_ONCE(job->served));
}

/*
 * May another job's chunk of the lowest priority be evicted for a new one? Returns what that
 * chunk is worth, or U32_MAX if it stays.
 */
static u32 price(const struct box_job *job, u8 prio, const struct box_job *other)
{
	u32 lowest = READ_ONCE(other->lowest);
	bool trust = READ_ONCE(job->m.rn->sysctl_box_trust);

	if (lowest == BOX_NO_PRIO)
		return U32_MAX;
	if (other == job)
		return lowest < prio ? (trust ? 0 : worth(job) << 8) | lowest : U32_MAX;
	if (READ_ONCE(other->rows) <= share(other))
		return U32_MAX;
	if (job->rows >= share(job) && (trust ? lowest >= prio : worth(other) >= worth(job)))
		return U32_MAX;
	return (trust ? 0 : worth(other) << 8) | lowest;
}

/* Evict the chunk that is worth least, if it is worth less than the new one. */
static bool take_partial(struct box_job *job, u8 prio, struct box_out *out)
{
	struct box_job *other, *from = NULL;
	u32 least = U32_MAX, p;
	bool found;

	list_for_each_entry_rcu(other, &job->box->jobs, node) {
		p = price(job, prio, other);
		if (p < least) {
			least = p;
			from = other;
		}
	}
	if (from == job)
		return rar_slot_evict(job, prio, out);
	if (!from || !spin_trylock(&from->lock))
		return false;
	found = rar_slot_evict(from, BOX_NO_PRIO, out);
	spin_unlock(&from->lock);
	return found;
}

/**
 * rar_pool_make_room() - give back a row of any job, for a new one
 * @job:  needs a row; its lock is held
 * @prio: of the operation that needs it
 * @out:  gets the slot that is evicted
 *
 * Softirq, RCU read side.
 *
 * Return: true if there is more room than before.
 */
bool rar_pool_make_room(struct box_job *job, u8 prio, struct box_out *out)
{
	lockdep_assert_held(&job->lock);
	if (policy(job) >= RAR_POOL_RECLAIM && take_sum(job))
		return true;
	return policy(job) == RAR_POOL_PREEMPT && take_partial(job, prio, out);
}

/* Every five seconds: what the box has done for a job counts half. */
void rar_pool_forget(struct box_job *job)
{
	spin_lock_bh(&job->lock);
	WRITE_ONCE(job->served, job->served / 2);
	spin_unlock_bh(&job->lock);
}
