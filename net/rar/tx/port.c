// SPDX-License-Identifier: GPL-2.0
/*
 * UDP sockets of the kernel. Ports: they reserve the port and receive what the
 * ingress hook did not take; one per netns, family and port. Senders: they own
 * what a member sends, so that the rules for its cgroup, its user and its marks
 * find it, and its memory is counted; one per member and family.
 */
#include <linux/capability.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/security.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <net/ip.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#include "tx/port.h"
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
	struct rar_member *m;
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
	m = rar_member_sender(rn, id, rank, token);
	if (!m)
		return -ENOENT;
	if ((type == RAR_T_RS || type == RAR_T_AG) && too_big(sk, skb))
		rar_fail_pair(m, EMSGSIZE, RAR_R_MTU, m->rank,
			      rar_member_rank(m, RAR_NEXT),
			      READ_ONCE(m->op_oldest));
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
 * rar_port_get() - reserve a UDP port
 * @rn:   netns
 * @af:   AF_INET or AF_INET6
 * @port: network order
 *
 * Process context. Return: the port, counted, or ERR_PTR: -EADDRINUSE if
 * somebody else has it, -EACCES if the caller may not use it, whoever holds it.
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
void rar_port_put_lanes(struct rar_member *m)
{
	while (m->nlanes > 1)
		rar_port_put(m->rn, m->lane[--m->nlanes - 1]);
}

/* Has any member this port? Asked of every UDP packet of a device with a hook. */
bool rar_port_serves(const struct rar_net *rn, __be16 num)
{
	return test_bit(ntohs(num), rn->port_bits);
}

u16 rar_port_af(const struct rar_port *port)
{
	return port->af;
}

/* -- senders ---------------------------------------------------------------- */

#define SENDER_BYTES	SZ_4M	/* like TCP's limit, unless the user set SO_SNDBUF */

/* The queue has drained: own chunks may follow. Any context, under its lock. */
static int sender_drained(wait_queue_entry_t *room, unsigned int mode, int flags, void *key)
{
	list_del_init(&room->entry);
	rar_member_schedule(container_of(room, struct rar_sender, room)->member);
	return 0;
}

static struct rar_sender *sender_of(struct rar_member *m, u16 af)
{
	return &m->sender[af == AF_INET6];
}

/**
 * rar_sender_open() - the sock for what a member sends
 * @m: member, held by its socket
 * @af:  AF_INET or AF_INET6
 *
 * Process context, that of a process in the member's cgroups: the sock belongs to them.
 * It stays until the group is freed, since softirqs have it from there. Return: 0 or a
 * negative errno.
 */
int rar_sender_open(struct rar_member *m, u16 af)
{
	struct rar_sender *sender = sender_of(m, af);
	struct socket *sock;
	int err;

	if (sender->sock)
		return 0;
	err = sock_create_kern(m->rn->net, af, SOCK_DGRAM, IPPROTO_UDP, &sock);
	if (err)
		return err;
	security_sk_clone(m->sk, sock->sk);
	/* One atomic operation less for each packet that is freed. */
	sock_set_flag(sock->sk, SOCK_RCU_FREE);
	ignore_path_mtu(sock->sk);
	sender->member = m;
	init_waitqueue_func_entry(&sender->room, sender_drained);
	INIT_LIST_HEAD(&sender->room.entry);
	/* Pairs with the acquire in rar_sender_sk(). */
	smp_store_release(&sender->sock, sock);
	return 0;
}

/* Whose files and user the netfilter rules see. */
static void set_socket(struct sock *sk, struct socket *sock)
{
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_socket = sock;
	write_unlock_bh(&sk->sk_callback_lock);
}

/**
 * rar_sender_set() - the options of the user's socket hold for what is sent
 * @m: member
 * @sk:  the user's socket, locked
 */
void rar_sender_set(struct rar_member *m, const struct sock *sk)
{
	struct sock *to;
	int i;

	for (i = 0; i < ARRAY_SIZE(m->sender); i++) {
		if (!m->sender[i].sock)
			continue;
		to = m->sender[i].sock->sk;
		WRITE_ONCE(to->sk_mark, READ_ONCE(sk->sk_mark));
		WRITE_ONCE(to->sk_priority, READ_ONCE(sk->sk_priority));
		WRITE_ONCE(to->sk_bound_dev_if, READ_ONCE(sk->sk_bound_dev_if));
		WRITE_ONCE(to->sk_sndbuf, sk->sk_userlocks & SOCK_SNDBUF_LOCK ?
					  READ_ONCE(sk->sk_sndbuf) : SENDER_BYTES);
		set_socket(to, sk->sk_socket);
	}
}

/**
 * rar_sender_detach() - the user's socket goes; what is sent from now on has no user
 * @m: member
 *
 * Process context.
 */
void rar_sender_detach(struct rar_member *m)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(m->sender); i++)
		if (m->sender[i].sock)
			set_socket(m->sender[i].sock->sk, m->sender[i].sock);
}

/* No packet is sent any more; those in queues keep the sock, not the socket. */
void rar_sender_put_all(struct rar_member *m)
{
	struct rar_sender *sender;
	int i;

	for (i = 0; i < ARRAY_SIZE(m->sender); i++) {
		sender = &m->sender[i];
		if (!sender->sock)
			continue;
		/* Takes the lock that sender_drained() runs under. */
		remove_wait_queue(sk_sleep(sender->sock->sk), &sender->room);
		sock_release(sender->sock);
	}
}

/* Owner of what @m sends to addresses of @af, or NULL. RCU read side. */
struct sock *rar_sender_sk(const struct rar_member *m, u16 af)
{
	/* Pairs with the release in rar_sender_open(). */
	struct socket *sock = smp_load_acquire(&m->sender[af == AF_INET6].sock);

	return sock ? sock->sk : NULL;
}

static bool has_room(const struct sock *sk)
{
	return sk_wmem_alloc_get(sk) < READ_ONCE(sk->sk_sndbuf);
}

static void wait_for_room(struct rar_sender *sender)
{
	wait_queue_head_t *wq = sk_sleep(sender->sock->sk);
	unsigned long flags;

	spin_lock_irqsave(&wq->lock, flags);
	if (list_empty(&sender->room.entry))
		__add_wait_queue(wq, &sender->room);
	spin_unlock_irqrestore(&wq->lock, flags);
}

/**
 * rar_sender_room() - may own chunks be sent, or is too much in this host's queues?
 * @m: member, tx.lock held
 * @af:  address family of the successor
 *
 * Only what a rank injects waits, never what it forwards, repeats or acknowledges: those
 * are bounded by the link's window, and other ranks wait for them. And what it waits for
 * is nobody's progress: queues of this host give packets up or back in time, whatever the
 * other ranks do. Return: false, and the group's work item pushes when there is room.
 */
bool rar_sender_room(struct rar_member *m, u16 af)
{
	struct rar_sender *sender = sender_of(m, af);
	struct sock *sk = rar_sender_sk(m, af);

	if (!sk || has_room(sk))
		return true;
	wait_for_room(sender);
	/* Pairs with the barrier in sock_wfree(): it finds the entry, or we find room. */
	smp_mb();
	if (has_room(sk))
		return true;
	rar_mib_inc(m->rn, TxHeldBack);
	return false;
}
