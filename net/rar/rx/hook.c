// SPDX-License-Identifier: GPL-2.0
/*
 * The netfilter ingress hook, the default receive path. One per device and
 * netns, counted by the groups that use it; without one the UDP socket
 * receives, more slowly. It ends with its device, its memory with the last
 * group: another device may get the same index. Verdicts only.
 */
#include <linux/netdevice.h>
#include <linux/netfilter_netdev.h>
#include <linux/slab.h>

#include "rar.h"
#include "tx/rules.h"

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

/* Of what GSO and GRO make, what we can read as it is. */
static bool superpacket(const struct sk_buff *skb)
{
	return (skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4) &&
	       !(skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST) &&
	       skb_csum_unnecessary(skb);
}

/* What was decrypted is for the stack to judge, which knows how it came. */
static unsigned int rar_hook_ingress(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state)
{
	struct rar_net *rn = rar_net(state->net);

	if (rar_rules_rx_path(rn) == RAR_PATH_UDP || secpath_exists(skb) ||
	    skb->pkt_type != PACKET_HOST || skb_vlan_tag_present(skb) ||
	    (skb_is_gso(skb) && !superpacket(skb)) ||
	    (skb->protocol != htons(ETH_P_IP) &&
	     skb->protocol != htons(ETH_P_IPV6)))
		return NF_ACCEPT;
	return rar_rcv(rn, skb, RAR_PATH_INGRESS) == RAR_TAKEN ? NF_STOLEN :
								 NF_ACCEPT;
}

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
	hook->ops.hook = rar_hook_ingress;
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

/* The place of a hook in a member becomes another hook's, or NULL's. */
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

/* A hook that exists will do. Return: false if there is none. */
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
 * rar_hook_set() - receive at the ingress hook of this device instead of another one
 * @rn:      netns
 * @place:   one of a member's hooks, which several callers may set at once
 * @ifindex: the device; 0: none any more
 *
 * Process context. Without the hook, if it cannot be had, the UDP socket receives.
 */
void rar_hook_set(struct rar_net *rn, struct rar_hook **place, int ifindex)
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

int rar_hook_init(void)
{
	return register_netdevice_notifier(&hook_notifier);
}

void rar_hook_exit(void)
{
	unregister_netdevice_notifier(&hook_notifier);
}
