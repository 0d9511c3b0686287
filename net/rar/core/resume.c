// SPDX-License-Identifier: GPL-2.0
/*
 * Resuming: a process remembers an epoch that failed, so that the survivors can agree in the
 * next join on the first operation to repeat.
 *
 * An entry belongs to the process that owned the member and not to the socket: a new socket
 * may use it as well. It ends when the group runs again, when the process has exited, when
 * its user has too many entries, or after RESUME_LIFE. A work item looks every RESUME_LOOK
 * for entries that end without an event.
 */
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "core/resume.h"
#include "rar.h"

#define RESUME_LIFE	(3600 * HZ)
#define RESUME_LOOK	(2 * HZ)
#define RESUME_MAX	1024		/* entries of a user in a netns */

/*
 * struct rar_past - a failed epoch of a process
 * @node:  in rn->pasts, newest first, rn->past_lock
 * @owner: the process, referenced
 * @epoch: the epoch that failed
 * @done:  lowest operation of it that was not complete
 * @since: when it failed, jiffies
 */
struct rar_past {
	struct list_head node;
	u64 id;
	kuid_t uid;
	struct pid *owner;
	u64 epoch;
	u64 done;
	unsigned long since;
};

static void past_free(struct rar_past *past)
{
	put_pid(past->owner);
	kfree(past);
}

/* Drop entries that no process can ask for, and the oldest of a user that has too many. */
static void past_trim(struct rar_net *rn, kuid_t uid)
{
	struct rar_past *past, *tmp;
	u32 n = 0;

	lockdep_assert_held(&rn->past_lock);
	list_for_each_entry_safe(past, tmp, &rn->pasts, node) {
		n += uid_eq(past->uid, uid);
		if (time_before(jiffies, past->since + RESUME_LIFE) &&
		    pid_has_task(past->owner, PIDTYPE_TGID) &&
		    (n <= RESUME_MAX || !uid_eq(past->uid, uid)))
			continue;
		list_del(&past->node);
		past_free(past);
		rn->npasts--;
	}
}

static void look_later(struct rar_net *rn)
{
	queue_delayed_work(system_power_efficient_wq, &rn->past_work, RESUME_LOOK);
}

static void past_work(struct work_struct *work)
{
	struct rar_net *rn = container_of(to_delayed_work(work), struct rar_net, past_work);

	spin_lock_bh(&rn->past_lock);
	past_trim(rn, INVALID_UID);
	if (rn->npasts)
		look_later(rn);
	spin_unlock_bh(&rn->past_lock);
}

/**
 * rar_resume_failed() - remember how far a member came
 * @m:  member that was running, @m->lock held
 * @done: lowest operation that is not complete here
 *
 * Any context. Without memory there is no entry, as if the process were new.
 */
void rar_resume_failed(struct rar_member *m, u64 done)
{
	struct rar_net *rn = m->rn;
	struct rar_past *past;

	lockdep_assert_held(&m->lock);
	past = m->owner ? kzalloc(sizeof(*past), GFP_ATOMIC) : NULL;
	if (!past)
		return;
	past->id = m->id;
	past->uid = m->uid;
	past->owner = get_pid(m->owner);
	past->epoch = m->epoch;
	past->done = done;
	past->since = jiffies;
	spin_lock_bh(&rn->past_lock);
	list_add(&past->node, &rn->pasts);
	rn->npasts++;
	past_trim(rn, m->uid);
	look_later(rn);
	spin_unlock_bh(&rn->past_lock);
}

/**
 * rar_resume_find() - find what the calling process remembers of a group
 * @m:  member that begins to join
 * @past: set to the last epoch that failed, 0 = none; and how far all members
 *        of this process came in it
 */
void rar_resume_find(const struct rar_member *m, struct rar_resume *past)
{
	struct pid *owner = task_tgid(current);
	struct rar_net *rn = m->rn;
	const struct rar_past *p;

	memset(past, 0, sizeof(*past));
	spin_lock_bh(&rn->past_lock);
	list_for_each_entry(p, &rn->pasts, node) {
		if (p->id != m->id || p->owner != owner ||
		    !uid_eq(p->uid, m->uid))
			continue;
		if (!past->epoch) {
			past->epoch = p->epoch;
			past->op = p->done;
		} else if (past->epoch == p->epoch) {
			past->op = min(past->op, p->done);
		}
	}
	spin_unlock_bh(&rn->past_lock);
}

/**
 * rar_resume_merge() - merge one member's failed epoch into that of all members so far
 * @all: the failed epoch that the members so far have in common
 * @own: the failed epoch that this member remembers
 */
void rar_resume_merge(struct rar_resume *all, const struct rar_resume *own)
{
	if (!own->epoch || all->differ)
		return;
	if (!all->epoch)
		*all = *own;
	else if (all->epoch == own->epoch)
		all->op = min(all->op, own->op);
	else
		*all = (struct rar_resume) { .differ = true };
}

/* Forget what the owner remembered, since the group runs again. */
void rar_resume_forget(struct rar_member *m)
{
	struct rar_past *past, *tmp;
	struct rar_net *rn = m->rn;

	spin_lock_bh(&rn->past_lock);
	list_for_each_entry_safe(past, tmp, &rn->pasts, node) {
		if (past->id != m->id || past->owner != m->owner)
			continue;
		list_del(&past->node);
		past_free(past);
		rn->npasts--;
	}
	spin_unlock_bh(&rn->past_lock);
}

void rar_resume_net_init(struct rar_net *rn)
{
	INIT_LIST_HEAD(&rn->pasts);
	spin_lock_init(&rn->past_lock);
	INIT_DELAYED_WORK(&rn->past_work, past_work);
}

void rar_resume_net_exit(struct rar_net *rn)
{
	struct rar_past *past, *tmp;

	cancel_delayed_work_sync(&rn->past_work);
	list_for_each_entry_safe(past, tmp, &rn->pasts, node)
		past_free(past);
}
