// SPDX-License-Identifier: GPL-2.0
/*
 * The XDP receive path: a function that XDP programs call (tools/xdp has one). What
 * it takes goes the way of every packet, through input.c, and goes on, if it can, as
 * the frame that it came in.
 *
 * Frames leave when the driver has gone through all that came. A packet that is sent
 * in between would overtake them, and look like a loss to who receives it. So what
 * else there is to send, acknowledgments and chunks that waited, is sent afterwards,
 * by a tasklet, and once for all frames that came together.
 */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/interrupt.h>
#include <linux/percpu.h>
#include <net/xdp.h>

#include "rar.h"
#include "tx/rules.h"

/* Of a member: */
#define XDP_QUEUED	1	/* it is on a CPU's list, and referenced */
#define XDP_ACK		2	/* an acknowledgment is due */

/* Members that frames left something to do for; bottom halves of that CPU. */
struct later {
	struct list_head members;
	struct tasklet_struct tasklet;
};

static DEFINE_PER_CPU(struct later, laters);

/* Did the frame come as an skb, behind the driver? Then the queue is the core's. */
static bool is_generic(const struct xdp_buff *xdp)
{
	const struct xdp_rxq_info *rxq = xdp->rxq;

	return rxq == &__netif_get_rx_queue(rxq->dev, rxq->queue_index)->xdp_rxq;
}

/* Who looks on gets a copy. It counts as sent, whichever way the frame goes. */
static void mirror(const struct xdp_buff *xdp)
{
	struct rar_cursor cursor = { .xdp = (struct xdp_buff *)xdp };
	u32 len = xdp_get_buff_len((struct xdp_buff *)xdp);
	struct sk_buff *skb = alloc_skb(len, GFP_ATOMIC);

	if (!skb)
		return;
	rar_cursor_read(&cursor, 0, skb_put(skb, len), len);
	skb->dev = xdp->rxq->dev;
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb->protocol = eth_hdr(skb)->h_proto;
	dev_queue_xmit_nit(skb, skb->dev);
	consume_skb(skb);
}

/**
 * rar_xdp_mirror() - a frame is about to be taken: show it, if that is asked for
 * @rn:    netns
 * @frame: as it came
 */
void rar_xdp_mirror(struct rar_net *rn, const struct rar_frame *frame)
{
	if (READ_ONCE(rn->sysctl_xdp_mirror))
		mirror(frame->xdp);
}

/* Where is the IP header, and of which version? 0: not for this host, or not IP. */
static u32 find_ip(const struct xdp_buff *xdp, __be16 *protocol)
{
	const struct vlan_ethhdr *link = xdp->data;
	struct net_device *dev = xdp->rxq->dev;

	if (xdp->data + sizeof(*link) > xdp->data_end)
		return 0;
	*protocol = link->h_vlan_proto;
	if (eth_type_vlan(*protocol)) {
		dev = __vlan_find_dev_deep_rcu(dev, *protocol,
					       ntohs(link->h_vlan_TCI) & VLAN_VID_MASK);
		*protocol = link->h_vlan_encapsulated_proto;
	}
	if (!dev || !ether_addr_equal(link->h_dest, dev->dev_addr) ||
	    (*protocol != htons(ETH_P_IP) && *protocol != htons(ETH_P_IPV6)))
		return 0;
	return eth_type_vlan(link->h_vlan_proto) ? VLAN_ETH_HLEN : ETH_HLEN;
}

static int receive(struct rar_net *rn, struct rar_frame *frame, u32 *ifindex)
{
	struct xdp_buff *xdp = frame->xdp;
	__be16 protocol;
	u32 nhoff;
	int action;

	nhoff = find_ip(xdp, &protocol);
	if (!nhoff)
		return XDP_PASS;
	frame->generic = is_generic(xdp);
	action = rar_rcv_frame(rn, frame, nhoff, protocol);
	if (!frame->sent)
		return action;
	rar_xdp_mirror(rn, frame);
	if (frame->dev == xdp->rxq->dev)
		return XDP_TX;
	*ifindex = frame->dev->ifindex;
	return XDP_REDIRECT;
}

/**
 * bpf_rar_rcv() - for an XDP program: is the frame for a member here?
 * @ctx:     the program's
 * @ifindex: set for XDP_REDIRECT, which is for the program to do
 *
 * With net.rar.rx_path=xdp the frame is used, if it brings data that can be used at
 * once, and it may have become what the member sends to its successor, of another
 * length in front: what the program knows of the packet's bytes is void.
 *
 * Return: enum xdp_action. XDP_PASS: not for us, or not at this hook; untouched.
 */
__bpf_kfunc int bpf_rar_rcv(struct xdp_md *ctx, u32 *ifindex)
{
	struct rar_frame frame = { .xdp = (struct xdp_buff *)ctx };
	struct rar_net *rn = rar_net(dev_net(frame.xdp->rxq->dev));
	int action;

	*ifindex = 0;
	if (rar_rules_rx_path(rn) != RAR_PATH_XDP)
		return XDP_PASS;
	local_bh_disable();
	rcu_read_lock();
	action = receive(rn, &frame, ifindex);
	rcu_read_unlock();
	local_bh_enable();
	return action;
}

/**
 * rar_xdp_later() - send what is ready and may go, after the frames
 * @m: member, RCU read side
 * @ack: and an acknowledgment
 *
 * Softirq.
 */
void rar_xdp_later(struct rar_member *m, bool ack)
{
	struct later *later = this_cpu_ptr(&laters);

	/* Pairs with the exchange in drain(): it is queued, or will see this news. */
	if (atomic_fetch_or(XDP_QUEUED | (ack ? XDP_ACK : 0), &m->xdp_todo) &
	    XDP_QUEUED)
		return;
	/* Who found it under RCU may come after its end. */
	if (!refcount_inc_not_zero(&m->ref))
		return;
	list_add_tail(&m->xdp_node, &later->members);
	tasklet_schedule(&later->tasklet);
}

static void drain(struct tasklet_struct *t)
{
	struct later *later = container_of(t, struct later, tasklet);
	struct rar_member *m;
	int todo;

	rcu_read_lock();
	while ((m = list_first_entry_or_null(&later->members, struct rar_member,
					     xdp_node))) {
		list_del(&m->xdp_node);
		/* Another CPU may queue it from here on. */
		todo = atomic_xchg(&m->xdp_todo, 0);
		/* As for packets: rar_msg_stop_writing() waits for who does not see it. */
		if (rar_member_runs(m)) {
			if (todo & XDP_ACK)
				rar_ack_send(m);
			rar_link_push(m);
		}
		rar_member_put(m);
	}
	rcu_read_unlock();
}

BTF_KFUNCS_START(rar_kfuncs)
BTF_ID_FLAGS(func, bpf_rar_rcv)
BTF_KFUNCS_END(rar_kfuncs)

static const struct btf_kfunc_id_set rar_kfunc_set = {
	.owner = THIS_MODULE,
	.set = &rar_kfuncs,
};

static bool usable __ro_after_init;

/* Can there be a program that calls us? */
bool rar_xdp_usable(void)
{
	return usable;
}

/* Without XDP the module is as good as with it. */
void __init rar_xdp_init(void)
{
	struct later *later;
	int cpu;

	for_each_possible_cpu(cpu) {
		later = per_cpu_ptr(&laters, cpu);
		INIT_LIST_HEAD(&later->members);
		tasklet_setup(&later->tasklet, drain);
	}
	usable = rar_has_btf() &&
		 !register_btf_kfunc_id_set(BPF_PROG_TYPE_XDP, &rar_kfunc_set);
	if (!usable)
		pr_info("rar: no BTF in this module: rx_path=xdp is off\n");
}

/* No program and no group is left. */
void rar_xdp_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		tasklet_kill(&per_cpu_ptr(&laters, cpu)->tasklet);
}
