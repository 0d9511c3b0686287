// SPDX-License-Identifier: GPL-2.0
/*
 * UDP sockets of the kernel: they reserve the port, receive what the ingress
 * hook did not take, and lend their struct sock to what is sent. One per
 * netns, family and port.
 */
#include <linux/capability.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/slab.h>
#include <net/ip.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#include "encap.h"
#include "rar.h"

struct rar_port {
	struct list_head node;		/* rn->ports */
	struct rcu_head rcu;		/* softirqs have it from a group */
	struct socket *sock;
	struct sock *sk;		/* SOCK_RCU_FREE */
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

/* The ICMP header comes before what it quotes. */
static bool too_big(const struct sock *sk, const struct sk_buff *skb)
{
	const u8 *icmp = skb_network_header(skb) - sizeof(struct icmphdr);

	static_assert(sizeof(struct icmphdr) == sizeof(struct icmp6hdr));
	if (sk->sk_family == AF_INET6)
		return icmp[0] == ICMPV6_PKT_TOOBIG;
	return icmp[0] == ICMP_DEST_UNREACH && icmp[1] == ICMP_FRAG_NEEDED;
}

/*
 * An ICMP error quotes one of our packets. Who has not seen it knows addresses
 * and ports, but not the token: without one that is ours it is forged, or too
 * short to tell. Since some kernels believe it without asking, an epoch does
 * not heed the path MTU that they keep, and ends here if a chunk did not pass;
 * a join begins with it. Returns 0 to let a true one lower it.
 */
static int encap_err(struct sock *sk, struct sk_buff *skb)
{
	u32 off = skb_transport_offset(skb) + sizeof(struct udphdr);
	struct rar_net *rn = rar_net(sock_net(sk));
	struct rar_join_hdr buf, *jh;
	struct rar_group *grp;
	struct rar_hdr *h;
	u64 id, token;
	u32 rank;
	u8 type;

	h = skb_header_pointer(skb, off, sizeof(*h), &buf);
	if (!h)
		return -ENOENT;
	type = h->type;
	rank = be16_to_cpu(h->src);
	id = be64_to_cpu(h->group);
	token = be64_to_cpu(h->token);
	if (type == RAR_T_JOIN) {
		jh = skb_header_pointer(skb, off, sizeof(*jh), &buf);
		if (!jh)
			return -ENOENT;
		token = be64_to_cpu(jh->nonce);
	}
	grp = rar_group_sender(rn, id, rank, token);
	if (!grp)
		return -ENOENT;
	if ((type == RAR_T_RS || type == RAR_T_AG) && too_big(sk, skb))
		rar_fail_pair(grp, EMSGSIZE, RAR_R_MTU, grp->rank,
			      rar_group_rank(grp, RAR_NEXT),
			      READ_ONCE(grp->op_oldest));
	return 0;
}

/* Only the device's MTU counts; see encap_err(). */
static void ignore_path_mtu(struct sock *sk)
{
	ip_sock_set_mtu_discover(sk, IP_PMTUDISC_PROBE);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		inet6_sk(sk)->pmtudisc = IPV6_PMTUDISC_PROBE;
#endif
}

/*
 * What a device received in packets of its MTU becomes superpackets before the
 * ingress hook sees it. What comes here is cut again.
 */
static int merge(struct socket *sock)
{
	int on = 1;

	return sock->ops->setsockopt(sock, SOL_UDP, UDP_GRO,
				     KERNEL_SOCKPTR(&on), sizeof(on));
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
		.encap_err_lookup = encap_err,
	};
	int err;

	err = udp_sock_create(rn->net, &cfg, &port->sock);
	if (err)
		return err;
	port->sk = port->sock->sk;
	ignore_path_mtu(port->sk);
	rar_udp_tunnel_setup(rn->net, port->sock, &tunnel);
	err = merge(port->sock);
	if (err)
		sock_release(port->sock);
	return err;
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
	list_add(&port->node, &rn->ports);
	set_bit(ntohs(num), rn->port_bits);
	return port;
}

/* bind() of the socket asks the same, but members share a socket that is bound. */
static bool may_use(struct net *net, __be16 port)
{
	return !inet_port_requires_bind_service(net, ntohs(port)) ||
	       ns_capable(net->user_ns, CAP_NET_BIND_SERVICE);
}

/**
 * rar_encap_get() - reserve a UDP port
 * @rn:   netns
 * @af:   AF_INET or AF_INET6
 * @port: network order
 *
 * Process context. Return: the port, counted, or ERR_PTR: -EADDRINUSE if
 * somebody else has it, -EACCES if the caller may not use it, whoever holds it.
 */
struct rar_port *rar_encap_get(struct rar_net *rn, u16 af, __be16 port)
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
	p = encap_new(rn, af, port);
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
		list_del(&port->node);
		if (!port_in_use(rn, port->port))
			clear_bit(ntohs(port->port), rn->port_bits);
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

/* Those of a group's lanes but the first. Process context. */
void rar_encap_put_lanes(struct rar_group *grp)
{
	while (grp->nlanes > 1)
		rar_encap_put(grp->rn, grp->lane[--grp->nlanes - 1]);
}

/* Has any member this port? Asked of every UDP packet of a device with a hook. */
bool rar_encap_serves(const struct rar_net *rn, __be16 num)
{
	return test_bit(ntohs(num), rn->port_bits);
}

u16 rar_encap_af(const struct rar_port *port)
{
	return port->af;
}

struct sock *rar_encap_sk(const struct rar_port *port)
{
	return port->sk;
}
