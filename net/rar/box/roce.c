// SPDX-License-Identifier: GPL-2.0
/*
 * The box sums what RoCEv2 queue pairs send through this host (net.rar.box_roce), under their
 * transport: sequence numbers, acknowledgments and repetitions stay those of the hosts. It takes
 * only packets that the firewall lets pass.
 */
#include <linux/netfilter.h>
#include <linux/netfilter_bridge.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "box/held.h"
#include "box/roce.h"

#define SEND_MAX	64	/* packets that go on at once */
#define IDLE_TIMES	5	/* a job is forgotten after so many times of net.rar.box_roce_ms */

/*
 * struct rar_roce - what the box of a namespace does with RoCEv2 packets
 * @rn:		the namespace
 * @held:	the packets that are held
 * @look:	lets go what waits for too long, as long as there are jobs
 */
struct rar_roce {
	struct rar_net *rn;
	struct rar_held held;
	struct delayed_work look;
};

static unsigned long limit(const struct rar_net *rn)
{
	return max(msecs_to_jiffies(READ_ONCE(rn->sysctl_box_roce_ms)), 1UL);
}

static void look_again(struct rar_roce *roce)
{
	schedule_delayed_work(&roce->look, DIV_ROUND_UP(limit(roce->rn), 4));
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
	unsigned long open = limit(roce->rn);
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
	struct rar_net *rn = rar_net(state->net);
	/* Pairs with the release in roce_start(). */
	struct rar_roce *roce = smp_load_acquire(&rn->roce);
	unsigned int verdict;

	if (!roce || !READ_ONCE(roce->held.box->on) || shown_by_bridge(skb))
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
static void roce_end(struct rar_net *rn)
{
	struct rar_roce *roce = rn->roce;
	LIST_HEAD(out);

	WRITE_ONCE(rn->roce, NULL);
	synchronize_net();
	cancel_delayed_work_sync(&roce->look);
	local_bh_disable();
	rar_held_end(&roce->held, &out);
	local_bh_enable();
	send_all(roce, &out);
	kfree(roce);
}

static int roce_start(struct rar_net *rn)
{
	struct rar_roce *roce;
	int err;

	if (!rn->box)
		return -EINVAL;
	roce = kzalloc(sizeof(*roce), GFP_KERNEL);
	if (!roce)
		return -ENOMEM;
	roce->rn = rn;
	rar_held_init(&roce->held, rn->box);
	INIT_DELAYED_WORK(&roce->look, look_work);
	/* Pairs with the acquire in forward(). */
	smp_store_release(&rn->roce, roce);
	err = nf_register_net_hooks(rn->net, roce_ops, ARRAY_SIZE(roce_ops));
	if (err)
		roce_end(rn);
	return err;
}

static void roce_stop(struct rar_net *rn)
{
	nf_unregister_net_hooks(rn->net, roce_ops, ARRAY_SIZE(roce_ops));
	roce_end(rn);
}

/**
 * rar_roce_set() - let the box of a namespace sum what RoCEv2 queue pairs send, or not
 * @rn: netns
 * @on: take packets that this host forwards, as long as it is a box
 *
 * Process context.
 *
 * Return: 0, -EINVAL if this host was never a box, or another negative errno, and nothing has
 * changed.
 */
int rar_roce_set(struct rar_net *rn, bool on)
{
	int err = 0;

	mutex_lock(&rn->box_lock);
	if (on && !rn->roce)
		err = roce_start(rn);
	else if (!on && rn->roce)
		roce_stop(rn);
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

/* Show what is summed of RoCEv2, with the @jobs or without. rn->box_lock is held. */
void rar_roce_show(struct rar_net *rn, struct seq_file *seq, bool jobs)
{
	struct rar_roce *roce = rn->roce;
	struct held_job *job;

	lockdep_assert_held(&rn->box_lock);
	if (!roce)
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
