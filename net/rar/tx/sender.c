// SPDX-License-Identifier: GPL-2.0
/*
 * Senders: kernel UDP sockets that own the packets a member sends. So the rules for the
 * member's cgroup, user and marks find a packet, and its memory is counted. There is one
 * sender per member and family, without a port.
 */
#include <linux/security.h>
#include <linux/sizes.h>
#include <net/ip.h>
#include <net/udp.h>

#include "core/member.h"
#include "rar.h"
#include "tx/sender.h"

#define SENDER_BYTES	SZ_4M	/* as TCP's limit, unless the user set SO_SNDBUF */

/* Ignore path MTUs from ICMP: only the device's MTU counts; see rar_udp_err(). */
void rar_sender_fix_mtu(struct sock *sk)
{
	ip_sock_set_mtu_discover(sk, IP_PMTUDISC_PROBE);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		inet6_sk(sk)->pmtudisc = IPV6_PMTUDISC_PROBE;
#endif
}

/* The queue has drained: let own chunks follow. Any context, under the queue's lock. */
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
 * rar_sender_open() - make the sock that owns what a member sends
 * @m: member, held by its socket
 * @af:  AF_INET or AF_INET6
 *
 * The sock belongs to the cgroups of the calling process. It stays until the member is freed,
 * since softirqs get it from the member. Process context.
 *
 * Return: 0 or a negative errno.
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
	if (m->sk)	/* a box has no socket of a user */
		security_sk_clone(m->sk, sock->sk);
	/* This saves an atomic operation for each packet that is freed. */
	sock_set_flag(sock->sk, SOCK_RCU_FREE);
	rar_sender_fix_mtu(sock->sk);
	sender->member = m;
	init_waitqueue_func_entry(&sender->room, sender_drained);
	INIT_LIST_HEAD(&sender->room.entry);
	/* Pairs with the acquire in rar_sender_sk(). */
	smp_store_release(&sender->sock, sock);
	return 0;
}

/* Set the socket whose files and user the netfilter rules see. */
static void set_socket(struct sock *sk, struct socket *sock)
{
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_socket = sock;
	write_unlock_bh(&sk->sk_callback_lock);
}

/**
 * rar_sender_set() - apply the options of the user's socket to what is sent
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
 * rar_sender_detach() - let what is sent from now on have no user, as its socket goes
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

/* No packet is sent any more; packets in queues keep the sock, not the socket. */
void rar_sender_put_all(struct rar_member *m)
{
	struct rar_sender *sender;
	int i;

	for (i = 0; i < ARRAY_SIZE(m->sender); i++) {
		sender = &m->sender[i];
		if (!sender->sock)
			continue;
		/* It takes the lock that sender_drained() runs under. */
		remove_wait_queue(sk_sleep(sender->sock->sk), &sender->room);
		sock_release(sender->sock);
	}
}

/* The owner of packets that @m sends to addresses of @af, or NULL. RCU read side. */
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
 * rar_sender_room() - may own chunks be sent, or do the queues of this host hold too much?
 * @m: member, tx_lock held
 * @af:  address family of the successor
 *
 * Only chunks that a rank injects wait. Chunks that it forwards or repeats, and
 * acknowledgments, do not: the link's window limits them, and other ranks wait for them. The
 * wait ends whatever other ranks do, because the queues of this host give packets up or back
 * in time.
 *
 * Return: false if they must wait; the member's work item pushes when there is room.
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
