// SPDX-License-Identifier: GPL-2.0
/*
 * The box sums what RoCEv2 queue pairs send through this host (net.rar.box_roce), under their
 * transport: sequence numbers, acknowledgments and repetitions stay those of the hosts. It takes
 * only packets that the firewall lets pass.
 *
 * The module rar_roce begins and ends here, too. A namespace that sums holds a
 * reference on it.
 */
#include <linux/module.h>
#include <linux/netfilter.h>
#include <linux/netfilter_bridge.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "box/held.h"
#include "core/role.h"

#define SEND_MAX	64	/* packets that go on at once */
#define IDLE_TIMES	5	/* a job is forgotten after so many times of net.rar.box_roce_ms */

/*
 * struct rar_roce - what the box of a namespace does with RoCEv2 packets
 * @box:	the box of the namespace
 * @on:		it takes packets: there are hooks; rn->box_lock
 * @ended:	it does not begin any more; rn->box_lock
 * @held:	the packets that are held
 * @look:	lets go what waits for too long, as long as there are jobs
 */
struct rar_roce {
	struct rar_box *box;
	bool on;
	bool ended;
	struct rar_held held;
	struct delayed_work look;
};

static unsigned int roce_net_id;

static struct rar_roce *roce_of(const struct net *net)
{
	return net_generic(net, roce_net_id);
}

static unsigned long limit(const struct rar_roce *roce)
{
	const struct rar_net *rn = roce->box->rn;

	return max(msecs_to_jiffies(READ_ONCE(rn->sysctl_box_roce_ms)), 1UL);
}

static void look_again(struct rar_roce *roce)
{
	schedule_delayed_work(&roce->look, DIV_ROUND_UP(limit(roce), 4));
}

/* Let packets go on, some at a time. Process context. */
static void send_all(struct rar_roce *roce, struct list_head *out)
{
	while (!list_empty(out)) {
		local_bh_disable();
		rcu_read_lock();
		rar_held_send(&roce->held, out, SEND_MAX);
		rcu_read_unlock();
		local_bh_enable();
		cond_resched();
	}
}

static void look_work(struct work_struct *work)
{
	struct rar_roce *roce = container_of(to_delayed_work(work), struct rar_roce, look);
	unsigned long open = limit(roce);
	LIST_HEAD(out);

	local_bh_disable();
	rar_held_expire(&roce->held, open, IDLE_TIMES * open, &out);
	local_bh_enable();
	send_all(roce, &out);
	if (READ_ONCE(roce->held.njobs))
		look_again(roce);
}

/* Take a packet that is forwarded. Bottom halves are off. */
static unsigned int take(struct rar_roce *roce, struct sk_buff *skb,
			 const struct nf_hook_state *state)
{
	struct rar_bth bth = { };
	enum held_how how;
	LIST_HEAD(out);

	if (!rar_bth_read(skb, &bth) ||
	    (!rar_held_is_header(skb, &bth) && !rar_held_knows(&roce->held, &bth)) ||
	    !rar_bth_open(skb, &bth))
		return NF_ACCEPT;
	how = rar_held_take(&roce->held, skb, &bth, state, &out);
	if (how == HELD_SUM)
		rar_bth_close(skb, &bth);
	/* A job also ends if there was no memory to keep its packet. */
	if (READ_ONCE(roce->held.njobs) && !delayed_work_pending(&roce->look))
		look_again(roce);
	rar_held_send(&roce->held, &out, INT_MAX);
	return how == HELD_KEPT ? NF_STOLEN : NF_ACCEPT;
}

/*
 * Does a bridge show the packet to the IP hooks (br_netfilter)? Its route is the bridge's, which
 * may go while the packet waits.
 */
static bool shown_by_bridge(const struct sk_buff *skb)
{
#if IS_ENABLED(CONFIG_BRIDGE_NETFILTER)
	return nf_bridge_info_exists(skb);
#else
	return false;
#endif
}

static unsigned int forward(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct rar_roce *roce = roce_of(state->net);
	unsigned int verdict;

	if (!rar_box_is_on(roce->box) || shown_by_bridge(skb))
		return NF_ACCEPT;
	/* A packet that comes back from a queue to user space comes in process context. */
	local_bh_disable();
	verdict = take(roce, skb, state);
	local_bh_enable();
	return verdict;
}

static const struct nf_hook_ops roce_ops[] = {
	{ .hook = forward, .pf = NFPROTO_IPV4, .hooknum = NF_INET_FORWARD,
	  .priority = NF_IP_PRI_LAST },
#if IS_ENABLED(CONFIG_IPV6)
	{ .hook = forward, .pf = NFPROTO_IPV6, .hooknum = NF_INET_FORWARD,
	  .priority = NF_IP6_PRI_LAST },
#endif
#if IS_ENABLED(CONFIG_NETFILTER_FAMILY_BRIDGE)
	{ .hook = forward, .pf = NFPROTO_BRIDGE, .hooknum = NF_BR_FORWARD,
	  .priority = NF_BR_PRI_LAST },
#endif
};

/* No hook is left. The packets that are held go on as they came. */
static void let_all_go(struct rar_roce *roce)
{
	LIST_HEAD(out);

	synchronize_net();
	cancel_delayed_work_sync(&roce->look);
	local_bh_disable();
	rar_held_end(&roce->held, &out);
	local_bh_enable();
	send_all(roce, &out);
}

/* Begin. The caller has a reference on this module, so it can be had again. */
static int roce_start(struct rar_roce *roce)
{
	struct rar_net *rn = roce->box->rn;
	int err;

	if (!roce->box->self)
		return -EINVAL;	/* this host was never a box */
	if (roce->ended)
		return -ENODEV;
	err = nf_register_net_hooks(rn->net, roce_ops, ARRAY_SIZE(roce_ops));
	if (err) {
		let_all_go(roce);
		return err;
	}
	__module_get(THIS_MODULE);
	roce->on = true;
	WRITE_ONCE(rn->sysctl_box_roce, 1);
	return 0;
}

/* End. The module stays, as at the end of a box. */
static void roce_stop(struct rar_roce *roce)
{
	struct rar_net *rn = roce->box->rn;

	nf_unregister_net_hooks(rn->net, roce_ops, ARRAY_SIZE(roce_ops));
	let_all_go(roce);
	roce->on = false;
	WRITE_ONCE(rn->sysctl_box_roce, 0);
	module_put(THIS_MODULE);
}

/* Sum what RoCEv2 queue pairs send, or not: see rar_role_set_roce(). */
static int set(struct rar_net *rn, unsigned long on)
{
	struct rar_roce *roce = roce_of(rn->net);
	int err = 0;

	mutex_lock(&rn->box_lock);
	if (on && !roce->on)
		err = roce_start(roce);
	else if (!on && roce->on)
		roce_stop(roce);
	mutex_unlock(&rn->box_lock);
	return err;
}

static void show_job(struct seq_file *seq, const struct held_job *job)
{
	u32 ranks = 0, msgs = 0, i;

	for (i = 0; i < job->size; i++)
		ranks += !hlist_unhashed(&job->flow[i].node);
	for (i = 0; i < ARRAY_SIZE(job->msg); i++)
		msgs += !!job->msg[i];
	seq_printf(seq, "%016llx %u %u %u %llu %llu\n", job->id, job->size, ranks, msgs,
		   job->nsums, job->nraw);
}

/* Show what is summed of RoCEv2, with the @jobs or without. */
static void show(struct rar_net *rn, struct seq_file *seq, bool jobs)
{
	struct rar_roce *roce = roce_of(rn->net);
	struct held_job *job;
	bool on;

	mutex_lock(&rn->box_lock);
	on = roce->on;
	mutex_unlock(&rn->box_lock);
	if (!on)
		return;
	spin_lock_bh(&roce->held.lock);
	seq_printf(seq, "roce used %llu packets %u jobs %u\n", roce->held.used,
		   roce->held.npackets, roce->held.njobs);
	seq_puts(seq, "job size ranks messages sums raw\n");
	if (jobs)
		list_for_each_entry(job, &roce->held.jobs, node)
			show_job(seq, job);
	spin_unlock_bh(&roce->held.lock);
}

/* -- namespaces and the module --------------------------------------------- */

static int __net_init roce_net_init(struct net *net)
{
	struct rar_roce *roce = roce_of(net);

	roce->box = rar_box_of(net);
	rar_held_init(&roce->held, roce->box);
	INIT_DELAYED_WORK(&roce->look, look_work);
	return 0;
}

/* Before the box of the namespace ends. */
static void __net_exit roce_net_pre_exit(struct net *net)
{
	struct rar_roce *roce = roce_of(net);
	struct rar_net *rn = roce->box->rn;

	mutex_lock(&rn->box_lock);
	roce->ended = true;
	if (roce->on)
		roce_stop(roce);
	mutex_unlock(&rn->box_lock);
}

static struct pernet_operations roce_net_ops = {
	.init = roce_net_init,
	.pre_exit = roce_net_pre_exit,
	.id = &roce_net_id,
	.size = sizeof(struct rar_roce),
};

static const struct rar_role roce_role = {
	RAR_ROLE_HEAD,
	.set = set,
	.show = show,
};

static int __init roce_init(void)
{
	int err = register_pernet_subsys(&roce_net_ops);

	if (err)
		return err;
	err = rar_role_register(RAR_ROLE_ROCE, &roce_role);
	if (err)
		unregister_pernet_subsys(&roce_net_ops);
	return err;
}

static void __exit roce_exit(void)
{
	rar_role_unregister(RAR_ROLE_ROCE);
	unregister_pernet_subsys(&roce_net_ops);
}

module_init(roce_init);
module_exit(roce_exit);
MODULE_DESCRIPTION("AF_RAR: the aggregation box, for RoCEv2");
MODULE_LICENSE("GPL");
MODULE_ALIAS(RAR_ROLE_ALIAS_ROCE);
