// SPDX-License-Identifier: GPL-2.0
/*
 * UDP sockets of the kernel: they reserve the port, receive what the ingress
 * hook did not take, and lend their struct sock to what is sent. One per
 * netns, family and port.
 */
#include <linux/slab.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#include "encap.h"
#include "rar.h"

struct rar_port {
	struct list_head node;		/* rn->ports; RCU readers */
	struct rcu_head rcu;
	struct socket *sock;
	__be16 port;
	u16 af;
	u32 users;			/* rn->port_lock */
};

static int encap_rcv(struct sock *sk, struct sk_buff *skb)
{
	struct rar_net *rn = rar_net(sock_net(sk));

	if (rar_rcv(rn, skb, RAR_PATH_UDP) == RAR_PASS)
		rar_input_drop(rn, skb, RAR_MIB_DropForeign);
	return 0;
}

static int encap_open(struct rar_net *rn, struct rar_port *port)
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
		.encap_rcv = encap_rcv,
	};
	int err;

	err = udp_sock_create(rn->net, &cfg, &port->sock);
	if (err)
		return err;
	rar_udp_tunnel_setup(rn->net, port->sock, &tunnel);
	return 0;
}

static struct rar_port *encap_new(struct rar_net *rn, u16 af, __be16 num)
{
	struct rar_port *port = kzalloc(sizeof(*port), GFP_KERNEL_ACCOUNT);
	int err;

	if (!port)
		return ERR_PTR(-ENOBUFS);
	port->af = af;
	port->port = num;
	port->users = 1;
	err = encap_open(rn, port);
	if (err) {
		kfree(port);
		return ERR_PTR(err);
	}
	list_add_rcu(&port->node, &rn->ports);
	return port;
}

/**
 * rar_encap_get() - reserve a UDP port
 * @rn:   netns
 * @af:   AF_INET or AF_INET6
 * @port: network order
 *
 * Process context. Return: the port, counted, or ERR_PTR: -EADDRINUSE if
 * somebody else has it.
 */
struct rar_port *rar_encap_get(struct rar_net *rn, u16 af, __be16 port)
{
	struct rar_port *p;

	mutex_lock(&rn->port_lock);
	list_for_each_entry(p, &rn->ports, node)
		if (p->af == af && p->port == port) {
			p->users++;
			goto out;
		}
	p = encap_new(rn, af, port);
out:
	mutex_unlock(&rn->port_lock);
	return p;
}

/**
 * rar_encap_put() - undo rar_encap_get()
 * @rn:   netns
 * @port: port or NULL
 *
 * Process context.
 */
void rar_encap_put(struct rar_net *rn, struct rar_port *port)
{
	if (!port)
		return;
	mutex_lock(&rn->port_lock);
	if (!--port->users) {
		list_del_rcu(&port->node);
		/*
		 * Not udp_tunnel_sock_release(), which waits for readers:
		 * there may be thousands. encap_rcv() needs nothing that goes
		 * before the socket, which is freed by RCU.
		 */
		kernel_sock_shutdown(port->sock, SHUT_RDWR);
		sock_release(port->sock);
		kfree_rcu(port, rcu);
	}
	mutex_unlock(&rn->port_lock);
}

/* RCU read side. */
bool rar_encap_serves(const struct rar_net *rn, __be16 num)
{
	const struct rar_port *port;

	list_for_each_entry_rcu(port, &rn->ports, node)
		if (port->port == num)
			return true;
	return false;
}

u16 rar_encap_af(const struct rar_port *port)
{
	return port->af;
}

struct sock *rar_encap_sk(const struct rar_port *port)
{
	return port->sock->sk;
}
