// SPDX-License-Identifier: GPL-2.0
/*
 * The XDP receive path: a function that XDP programs call (tools/xdp has one). A frame that it
 * takes is handled in input.c like every packet. If it can, the chunk is forwarded in the
 * frame in which it came.
 */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <net/xdp.h>

#include "rar.h"
#include "rx/input.h"
#include "rx/xdp.h"
#include "tx/frame.h"
#include "tx/rules.h"

/* Did the frame come as an skb, after the driver? Then the queue belongs to the core. */
static bool is_generic(const struct xdp_buff *xdp)
{
	const struct xdp_rxq_info *rxq = xdp->rxq;

	return rxq == &__netif_get_rx_queue(rxq->dev, rxq->queue_index)->xdp_rxq;
}

/*
 * Has a process lent the frame's memory to the device (AF_XDP)? It may write
 * to the frame at any time.
 */
static bool is_lent(const struct xdp_buff *xdp)
{
	return xdp->rxq->mem.type == MEM_TYPE_XSK_BUFF_POOL;
}

/*
 * The offset of the IP header, and its version. 0: not for this host, or not
 * IP. Sets @by to the device that would bring the packet as an skb.
 */
static u32 find_ip(const struct xdp_buff *xdp, __be16 *protocol,
		   const struct net_device **by)
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
	*by = dev;
	if (netif_is_lag_port(dev))
		*by = netdev_master_upper_dev_get_rcu(dev) ?: dev;
	return eth_type_vlan(link->h_vlan_proto) ? VLAN_ETH_HLEN : ETH_HLEN;
}

static int receive(struct rar_net *rn, struct rar_frame *frame, u32 *ifindex)
{
	struct xdp_buff *xdp = frame->xdp;
	const struct net_device *by;
	__be16 protocol;
	u32 nhoff;
	int action;

	nhoff = is_lent(xdp) ? 0 : find_ip(xdp, &protocol, &by);
	if (!nhoff)
		return XDP_PASS;
	frame->generic = is_generic(xdp);
	action = rar_rcv_frame(rn, frame, by, nhoff, protocol);
	if (!frame->sent)
		return action;
	rar_frame_mirror(rn, frame);
	if (frame->dev == xdp->rxq->dev)
		return XDP_TX;
	*ifindex = frame->dev->ifindex;
	return XDP_REDIRECT;
}

/**
 * bpf_rar_rcv() - take a frame for a member here, for an XDP program
 * @ctx:     the program's context
 * @ifindex: set for XDP_REDIRECT, which the program must do
 *
 * With net.rar.rx_path=xdp the frame is used if it brings data that can be used at once. It
 * may then hold the packet that the member sends to its successor, with headers of another
 * length. So the program must not rely on what it read from the packet before.
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

BTF_KFUNCS_START(rar_kfuncs)
BTF_ID_FLAGS(func, bpf_rar_rcv)
BTF_KFUNCS_END(rar_kfuncs)

static const struct btf_kfunc_id_set rar_kfunc_set = {
	.owner = THIS_MODULE,
	.set = &rar_kfuncs,
};

static bool usable __ro_after_init;

/* Can there be a program that calls bpf_rar_rcv()? */
bool rar_xdp_usable(void)
{
	return usable;
}

/* Without XDP the module works as well as with it. */
void __init rar_xdp_init(void)
{
	usable = rar_has_btf() &&
		 !register_btf_kfunc_id_set(BPF_PROG_TYPE_XDP, &rar_kfunc_set);
	if (!usable)
		pr_info("rar: no BTF in this module: rx_path=xdp is off\n");
}
