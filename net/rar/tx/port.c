// SPDX-License-Identifier: GPL-2.0
/*
 * UDP ports held: a kernel socket per namespace, family and port. It receives
 * packets that no hook took. While a namespace has any, a hook takes
 * superpackets right before UDP.
 */
#include <linux/capability.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/security.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <net/ip.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#include "rar.h"
#include "tx/port.h"
#include "tx/sender.h"

struct rar_port {
	struct list_head node;		/* rn->ports */
	struct rcu_head rcu;		/* softirqs get it from a member */
	struct socket *sock;
	struct sock *sk;		/* SOCK_RCU_FREE */
	__be16 port;
	u16 af;
	u32 users;			/* rn->port_lock */
};

/*
 * Let GRO merge what a device received in packets of its MTU to superpackets, before the
 * hooks see them. Superpackets that reach this socket are cut again.
 */
static int merge(struct socket *sock)
{
	int on = 1;

	return sock->ops->setsockopt(sock, SOL_UDP, UDP_GRO,
				     KERNEL_SOCKPTR(&on), sizeof(on));
}

/*
 * Behind all rules, but for those with this priority that were there before,
 * such as connection tracking's last word on a new flow.
 */
static struct nf_hook_ops input_hooks[] __ro_after_init = {
	{
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = NF_IP_PRI_LAST,
	}, {
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = NF_IP6_PRI_LAST,
	},
};

static int hook_input(struct net *net)
{
	return nf_register_net_hooks(net, input_hooks, ARRAY_SIZE(input_hooks));
}

static void unhook_input(struct net *net)
{
	nf_unregister_net_hooks(net, input_hooks, ARRAY_SIZE(input_hooks));
}

static int (*port_rcv)(struct sock *sk, struct sk_buff *skb) __ro_after_init;
static int (*port_err)(struct sock *sk, struct sk_buff *skb) __ro_after_init;

/**
 * rar_port_init() - let ports be opened from now on
 * @input: the function that receives superpackets
 * @rcv:   the function that receives all other packets
 * @err:   decides whether an ICMP error is believed, see rar_udp_err()
 */
void __init rar_port_init(nf_hookfn *input,
			  int (*rcv)(struct sock *sk, struct sk_buff *skb),
			  int (*err)(struct sock *sk, struct sk_buff *skb))
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(input_hooks); i++)
		input_hooks[i].hook = input;
	port_rcv = rcv;
	port_err = err;
}

static int port_open(struct rar_net *rn, struct rar_port *port)
{
	struct udp_port_cfg cfg = {
		.family = port->af,
		.local_udp_port = port->port,
		.use_udp_checksums = 1,
		.use_udp6_tx_checksums = 1,
		.use_udp6_rx_checksums = 1,
		.ipv6_v6only = 1,
	};
	struct udp_tunnel_sock_cfg tunnel = {
		.encap_type = 1,
		.encap_rcv = port_rcv,
		.encap_err_lookup = port_err,
	};
	int err;

	err = udp_sock_create(rn->net, &cfg, &port->sock);
	if (err)
		return err;
	port->sk = port->sock->sk;
	rar_sender_fix_mtu(port->sk);
	rar_udp_tunnel_setup(rn->net, port->sock, &tunnel);
	err = merge(port->sock);
	if (err)
		sock_release(port->sock);
	return err;
}

static struct rar_port *port_new(struct rar_net *rn, u16 af, __be16 num)
{
	struct rar_port *port = kzalloc(sizeof(*port), GFP_KERNEL_ACCOUNT);
	bool first = list_empty(&rn->ports);
	int err = 0;

	if (!port)
		return ERR_PTR(-ENOMEM);
	port->af = af;
	port->port = num;
	port->users = 1;
	if (first)
		err = hook_input(rn->net);
	if (err)
		goto no_hooks;
	err = port_open(rn, port);
	if (err)
		goto no_socket;
	list_add(&port->node, &rn->ports);
	set_bit(ntohs(num), rn->port_bits);
	return port;

no_socket:
	if (first)
		unhook_input(rn->net);
no_hooks:
	kfree(port);
	return ERR_PTR(err);
}

/* May the caller use the port? bind() asks too, but members share a bound socket. */
static bool may_use(struct net *net, __be16 port)
{
	return !inet_port_requires_bind_service(net, ntohs(port)) ||
	       ns_capable(net->user_ns, CAP_NET_BIND_SERVICE);
}

/**
 * rar_port_get() - reserve a UDP port
 * @rn:   netns
 * @af:   AF_INET or AF_INET6
 * @port: network order
 *
 * Process context.
 *
 * Return: the port, counted; or ERR_PTR: -EADDRINUSE if another socket has it, -EACCES if the
 * caller may not use it, whichever socket has it.
 */
struct rar_port *rar_port_get(struct rar_net *rn, u16 af, __be16 port)
{
	struct rar_port *p;

	if (!may_use(rn->net, port))
		return ERR_PTR(-EACCES);
	mutex_lock(&rn->port_lock);
	list_for_each_entry(p, &rn->ports, node)
		if (p->af == af && p->port == port) {
			p->users++;
			goto out;
		}
	p = port_new(rn, af, port);
out:
	mutex_unlock(&rn->port_lock);
	return p;
}

static bool port_in_use(const struct rar_net *rn, __be16 num)
{
	const struct rar_port *port;

	lockdep_assert_held(&rn->port_lock);
	list_for_each_entry(port, &rn->ports, node)
		if (port->port == num)
			return true;
	return false;
}

/**
 * rar_port_put() - undo rar_port_get()
 * @rn:   netns
 * @port: port or NULL
 *
 * Process context.
 */
void rar_port_put(struct rar_net *rn, struct rar_port *port)
{
	if (!port)
		return;
	mutex_lock(&rn->port_lock);
	if (!--port->users) {
		list_del(&port->node);
		if (!port_in_use(rn, port->port))
			clear_bit(ntohs(port->port), rn->port_bits);
		if (list_empty(&rn->ports))
			unhook_input(rn->net);
		/*
		 * udp_tunnel_sock_release() would wait for readers, and there may be
		 * thousands of ports. rar_udp_rcv() needs nothing that goes before the
		 * socket, which is freed by RCU.
		 */
		kernel_sock_shutdown(port->sock, SHUT_RDWR);
		sock_release(port->sock);
		kfree_rcu(port, rcu);
	}
	mutex_unlock(&rn->port_lock);
}

/* Put the ports of a member's lanes except the first. Process context. */
void rar_port_put_lanes(struct rar_member *m)
{
	while (m->nlanes > 1)
		rar_port_put(m->rn, m->lane[--m->nlanes - 1]);
}

/* Does any member have this port? Asked for every UDP packet of a device with a hook. */
bool rar_port_serves(const struct rar_net *rn, __be16 num)
{
	return test_bit(ntohs(num), rn->port_bits);
}

u16 rar_port_af(const struct rar_port *port)
{
	return port->af;
}
