// SPDX-License-Identifier: GPL-2.0
/*
 * What a host may be besides a rank: the box, and sums inside RoCEv2
 * packets. Each is a module of its own, which registers one table of functions
 * here. Most hosts have none of them.
 *
 * Whoever writes the setting of a role loads its module. Packets never do.
 */
#include <linux/capability.h>
#include <linux/kmod.h>
#include <linux/seq_file.h>

#include "core/role.h"

static const struct rar_role __rcu *roles[RAR_ROLE_NR];

static const char * const aliases[RAR_ROLE_NR] = {
	[RAR_ROLE_BOX]	= RAR_ROLE_ALIAS_BOX,
	[RAR_ROLE_ROCE]	= RAR_ROLE_ALIAS_ROCE,
};

/* -- tables ---------------------------------------------------------------- */

/**
 * rar_role_register() - publish the table of a role
 * @i:    the role
 * @role: its table, which stays until rar_role_unregister()
 *
 * When a module has got ready. Process context.
 *
 * Return: 0, or -EINVAL if the module was built with other structures, or for
 * another version of the table. The kernel compares what it knows itself.
 */
int rar_role_register(enum rar_role_index i, const struct rar_role *role)
{
	if (role->version != RAR_ROLE_VERSION ||
	    role->size != sizeof(*role) ||
	    role->net_size != sizeof(struct rar_net) ||
	    role->member_size != sizeof(struct rar_member)) {
		pr_err("rar: %s was built for another version of rar\n",
		       module_name(role->owner));
		return -EINVAL;
	}
	rcu_assign_pointer(roles[i], role);
	return 0;
}
EXPORT_SYMBOL_GPL(rar_role_register);

/**
 * rar_role_unregister() - take the table of a role back
 * @i: the role, which is on in no namespace
 *
 * When a module begins to go: no reference on it is left, so no setting is
 * being written. Packets that still use the table are waited for. Process
 * context.
 */
void rar_role_unregister(enum rar_role_index i)
{
	RCU_INIT_POINTER(roles[i], NULL);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(rar_role_unregister);

/* The table of a role, whose module stays until role_put(), or NULL. */
static const struct rar_role *role_get(enum rar_role_index i)
{
	const struct rar_role *role;

	rcu_read_lock();
	role = rcu_dereference(roles[i]);
	if (role && !try_module_get(role->owner))
		role = NULL;
	rcu_read_unlock();
	return role;
}

static void role_put(const struct rar_role *role)
{
	module_put(role->owner);
}

/* -- settings -------------------------------------------------------------- */

/*
 * Load the module of a role, for an administrator of the host only. If rar or
 * the namespace went meanwhile, they would wait for the writer of the setting,
 * and the writer for modprobe, which waits for them. So both stay.
 */
static int load(struct rar_net *rn, enum rar_role_index i)
{
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	if (maybe_get_net(rn->net)) {
		request_module("%s", aliases[i]);
		put_net(rn->net);
	}
	module_put(THIS_MODULE);
	return 0;
}

/* Write the setting of a role. 0 switches it off, which needs no module. */
static int set(struct rar_net *rn, enum rar_role_index i, unsigned long value)
{
	const struct rar_role *role = role_get(i);
	int err;

	if (!role && value) {
		err = load(rn, i);
		if (err)
			return err;
		role = role_get(i);
	}
	if (!role)
		return value ? -ENODEV : 0;
	err = role->set(rn, value);
	role_put(role);
	return err;
}

/**
 * rar_role_set_mem() - be a box, or be one no more
 * @rn:    netns
 * @bytes: memory that all jobs together may use; 0: no box
 *
 * Process context. Loads rar_box. Jobs that use more than a lower limit keep it
 * until they give it back.
 *
 * Return: 0; -EPERM if the module is not there and the caller may not load it,
 * -ENODEV if it cannot be loaded, or another negative errno. Then nothing has
 * changed.
 */
int rar_role_set_mem(struct rar_net *rn, unsigned long bytes)
{
	return set(rn, RAR_ROLE_BOX, bytes);
}

/**
 * rar_role_set_roce() - let the box sum what RoCEv2 queue pairs send, or not
 * @rn: netns
 * @on: take packets that this host forwards, as long as it is a box
 *
 * Process context. Loads rar_roce if rar_box is there.
 *
 * Return: 0; -EINVAL if this host was never a box, or an error as of
 * rar_role_set_mem(). Then nothing has changed.
 */
int rar_role_set_roce(struct rar_net *rn, bool on)
{
	if (on && !rcu_access_pointer(roles[RAR_ROLE_BOX]))
		return -EINVAL;
	return set(rn, RAR_ROLE_ROCE, on);
}

/**
 * rar_role_set_offer() - let the box of a namespace offer itself, or not
 * @rn: netns
 * @on: answer JOINs that this host forwards, as long as it is a box
 *
 * Process context. A box that begins later finds the setting.
 *
 * Return: 0 or a negative errno, and nothing has changed.
 */
int rar_role_set_offer(struct rar_net *rn, bool on)
{
	const struct rar_role *role;
	int err = 0;

	mutex_lock(&rn->box_lock);
	role = role_get(RAR_ROLE_BOX);
	if (role) {
		err = role->set_offer(rn, on);
		role_put(role);
	}
	if (!err)
		WRITE_ONCE(rn->sysctl_box_offer, on);
	mutex_unlock(&rn->box_lock);
	return err;
}

/**
 * rar_role_set_key() - let the box of a namespace have another key
 * @rn:  netns
 * @key: the key; without a length there is none
 *
 * Process context. A box that begins later finds the key.
 *
 * Return: 0 or a negative errno, and nothing has changed.
 */
int rar_role_set_key(struct rar_net *rn, const struct rar_secret *key)
{
	const struct rar_role *role;
	int err = 0;

	mutex_lock(&rn->box_lock);
	role = role_get(RAR_ROLE_BOX);
	if (role) {
		err = role->set_key(rn, key);
		role_put(role);
	}
	if (!err)
		rn->box_key = *key;
	mutex_unlock(&rn->box_lock);
	return err;
}

/**
 * rar_role_show() - show the roles of a namespace
 * @rn:   netns
 * @seq:  /proc/net/rar_box
 * @jobs: with their jobs
 *
 * Process context.
 */
void rar_role_show(struct rar_net *rn, struct seq_file *seq, bool jobs)
{
	const struct rar_role *role;
	int i;

	for (i = 0; i < RAR_ROLE_NR; i++) {
		role = role_get(i);
		if (role) {
			role->show(rn, seq, jobs);
			role_put(role);
		} else if (i == RAR_ROLE_BOX) {
			seq_puts(seq, "limit 0 used 0 jobs 0\n"
				      RAR_ROLE_COLUMNS);
		}
	}
}

/* -- packets --------------------------------------------------------------- */

/**
 * rar_role_stranger() - take in a packet to the box that no job has
 * @rn:  netns
 * @pkt: packet that the stack found to be for this host; its checksum is right
 *
 * Softirq, RCU read side.
 *
 * Return: false if there is no box here, or nothing to do.
 */
bool rar_role_stranger(struct rar_net *rn, struct rar_pkt *pkt)
{
	const struct rar_role *role = rcu_dereference(roles[RAR_ROLE_BOX]);

	return role && role->stranger(rn, pkt);
}

/**
 * rar_role_entered_err() - take in an ICMP error that quotes an ENTERED
 * @rn:      netns
 * @id:      group id
 * @epoch:   the token: the group's epoch
 * @rank:    member, or box below, that it was for
 * @way:     how the error came
 * @too_big: a router says that it was too big, so the path carries no sum
 *
 * Softirq, RCU read side.
 *
 * Return: false if no box of this host sent it.
 */
bool rar_role_entered_err(struct rar_net *rn, u64 id, u64 epoch, u32 rank,
			  const struct rar_way *way, bool too_big)
{
	const struct rar_role *role = rcu_dereference(roles[RAR_ROLE_BOX]);

	return role && role->entered_err(rn, id, epoch, rank, way, too_big);
}
