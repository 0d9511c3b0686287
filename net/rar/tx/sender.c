// SPDX-License-Identifier: GPL-2.0
/*
 * Senders: UDP sockets of the kernel that own what a member sends, so that the rules for its
 * cgroup, its user and its marks find it, and its memory is counted. One per member and
 * family, without a port.
 */
#include <linux/security.h>
#include <linux/sizes.h>
#include <net/ip.h>
#include <net/udp.h>

#include "core/member.h"
#include "rar.h"
#include "tx/sender.h"

#define SENDER_BYTES	SZ_4M	/* like TCP's limit, unless the user set SO_SNDBUF */

/* Only the device's MTU counts; see rar_udp_err(). */
void rar_sender_fix_mtu(struct sock *sk)
{
	ip_sock_set_mtu_discover(sk, IP_PMTUDISC_PROBE);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		inet6_sk(sk)->pmtudisc = IPV6_PMTUDISC_PROBE;
#endif
}

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
	rar_sender_fix_mtu(sock->sk);
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
