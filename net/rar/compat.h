/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place for differences between kernels (6.1 to 7.2), by feature:
 * HAVE_* come from the probes in Kbuild.
 */
#ifndef _RAR_COMPAT_H
#define _RAR_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/net.h>
#include <linux/sysctl.h>
#include <linux/timer.h>
#include <linux/uio.h>
#include <net/net_namespace.h>
#include <net/udp_tunnel.h>

/* 6.11 made the table of a sysctl handler const. */
#ifdef HAVE_CTL_TABLE_CONST
#define RAR_CTL_CONST	const
#else
#define RAR_CTL_CONST
#endif

/* 6.6 wants the size of a sysctl table. */
#ifdef HAVE_REGISTER_NET_SYSCTL_SZ
#define rar_register_net_sysctl(net, path, table, n) \
	register_net_sysctl_sz(net, path, table, n)
#else
#define rar_register_net_sysctl(net, path, table, n) \
	((void)(n), register_net_sysctl(net, path, table))
#endif

/* 6.10 takes the source from __string(). */
#ifdef HAVE_ASSIGN_STR_TWO
#define RAR_ASSIGN_STR(dst, src)	__assign_str(dst, src)
#else
#define RAR_ASSIGN_STR(dst, ...)	__assign_str(dst)
#endif

/* 6.19 gave bind() and connect() an address type without a size. */
#ifdef HAVE_SOCKADDR_UNSIZED
#define rar_sockaddr	sockaddr_unsized
#else
#define rar_sockaddr	sockaddr
#endif

/* 7.x hands UDP tunnels a struct sock. */
#ifdef HAVE_UDP_TUNNEL_SOCK
#define rar_udp_tunnel_setup(net, sock, cfg) \
	setup_udp_tunnel_sock(net, (sock)->sk, cfg)
#else
#define rar_udp_tunnel_setup(net, sock, cfg) \
	setup_udp_tunnel_sock(net, sock, cfg)
#endif

/* 6.13 sets the function of an hrtimer when it is made. */
#ifndef HAVE_HRTIMER_SETUP
static inline void
hrtimer_setup(struct hrtimer *timer,
	      enum hrtimer_restart (*function)(struct hrtimer *),
	      clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/* 6.12 has packets whose data lie in a device. */
#ifdef HAVE_SKB_FRAGS_READABLE
#define rar_skb_readable(skb)	skb_frags_readable(skb)
#else
#define rar_skb_readable(skb)	((void)(skb), true)
#endif

/* 6.4 has a function for where an iov_iter stands in the user's memory. */
#ifdef HAVE_ITER_IOV_ADDR
#define rar_iter_addr(iter)	iter_iov_addr(iter)
#else
static inline void __user *rar_iter_addr(const struct iov_iter *iter)
{
	return (iter_is_ubuf(iter) ? iter->ubuf : iter->iov->iov_base) +
	       iter->iov_offset;
}
#endif

/* 6.5 sends spliced pages with a flag. */
#ifndef MSG_SPLICE_PAGES
#define MSG_SPLICE_PAGES	0
#endif

#endif /* _RAR_COMPAT_H */
