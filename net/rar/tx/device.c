// SPDX-License-Identifier: GPL-2.0
/*
 * Ingress hooks held: one per device and namespace, counted by the members that use it.
 *
 * A hook ends with its device, and its memory with the last member that uses it, since
 * another device may get the same index.
 */
#include <linux/netdevice.h>
#include <linux/netfilter_netdev.h>
#include <linux/slab.h>

#include "rar.h"
#include "tx/device.h"

/* After nftables' netdev filter (priority -500 .. 0 and any the user chose). */
#define HOOK_PRIORITY	1000

struct rar_hook {
	struct list_head node;		/* rn->hooks, rn->hook_lock */
	struct nf_hook_ops ops;
	struct rcu_head rcu;		/* dumps of hooks read @ops */
	int ifindex;
	u32 users;
	bool gone;			/* not listed any more */
};

static nf_hookfn *ingress __ro_after_init;

static struct rar_hook *hook_find(struct rar_net *rn, int ifindex)
{
	struct rar_hook *hook;

	lockdep_assert_held(&rn->hook_lock);
	list_for_each_entry(hook, &rn->hooks, node)
		if (hook->ifindex == ifindex)
			return hook;
	return NULL;
}

static struct rar_hook *hook_register(struct rar_net *rn,
				      struct net_device *dev)
{
	struct rar_hook *hook = kzalloc(sizeof(*hook), GFP_KERNEL);

	if (!hook)
		return NULL;
	hook->ifindex = dev->ifindex;
	hook->ops.hook = ingress;
	hook->ops.pf = NFPROTO_NETDEV;
	hook->ops.hooknum = NF_NETDEV_INGRESS;
	hook->ops.priority = HOOK_PRIORITY;
	hook->ops.dev = dev;
	if (nf_register_net_hook(rn->net, &hook->ops)) {
		kfree(hook);
		return NULL;
	}
	list_add(&hook->node, &rn->hooks);
	return hook;
}

static void hook_unregister(struct rar_net *rn, struct rar_hook *hook)
{
	list_del(&hook->node);
	nf_unregister_net_hook(rn->net, &hook->ops);
	hook->gone = true;
}

/* Put @hook, which may be NULL, into the member's @place and drop the hook that was there. */
static void hook_exchange(struct rar_net *rn, struct rar_hook **place,
			  struct rar_hook *hook)
{
	struct rar_hook *old = *place;

	lockdep_assert_held(&rn->hook_lock);
	if (hook)
		hook->users++;
	*place = hook;
	if (!old || --old->users)
		return;
	if (!old->gone)
		hook_unregister(rn, old);
	kfree_rcu(old, rcu);
}

/* Share a hook that exists. Returns false if there is none. */
static bool hook_share(struct rar_net *rn, struct rar_hook **place, int ifindex)
{
	struct rar_hook *hook;

	mutex_lock(&rn->hook_lock);
	hook = ifindex ? hook_find(rn, ifindex) : NULL;
	if (hook || !ifindex)
		hook_exchange(rn, place, hook);
	mutex_unlock(&rn->hook_lock);
	return hook || !ifindex;
}

/**
 * rar_device_set() - receive at the ingress hook of a device
 * @rn:      netns
 * @place:   one of a member's hooks, which several callers may set at once
 * @ifindex: the device, instead of the one before; 0: no device any more
 *
 * Process context. If the hook cannot be had, the UDP socket receives.
 */
void rar_device_set(struct rar_net *rn, struct rar_hook **place, int ifindex)
{
	struct net_device *dev;
	struct rar_hook *hook;

	if (hook_share(rn, place, ifindex))
		return;
	/* The rtnl keeps the device registered until the hook is listed, so
	 * that NETDEV_UNREGISTER finds it.
	 */
	rtnl_lock();
	mutex_lock(&rn->hook_lock);
	hook = hook_find(rn, ifindex);
	dev = __dev_get_by_index(rn->net, ifindex);
	if (!hook && dev)
		hook = hook_register(rn, dev);
	hook_exchange(rn, place, hook);
	mutex_unlock(&rn->hook_lock);
	rtnl_unlock();
}
EXPORT_SYMBOL_GPL(rar_device_set);

static int hook_netdev_event(struct notifier_block *nb, unsigned long event,
			     void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);
	struct rar_net *rn = rar_net(dev_net(dev));
	struct rar_hook *hook;

	if (event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	mutex_lock(&rn->hook_lock);
	hook = hook_find(rn, dev->ifindex);
	if (hook)
		hook_unregister(rn, hook);
	mutex_unlock(&rn->hook_lock);
	return NOTIFY_DONE;
}

static struct notifier_block hook_notifier = {
	.notifier_call = hook_netdev_event,
};

/**
 * rar_device_init() - let devices have hooks from now on
 * @fn: the function that receives at them
 */
int __init rar_device_init(nf_hookfn *fn)
{
	ingress = fn;
	return register_netdevice_notifier(&hook_notifier);
}

void rar_device_exit(void)
{
	unregister_netdevice_notifier(&hook_notifier);
}
