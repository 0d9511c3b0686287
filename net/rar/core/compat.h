/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compatibility: the only place for differences between kernels (6.1 to 7.2). Kbuild
 * probes the kernel's headers for each feature and defines HAVE_*.
 */
#ifndef _RAR_COMPAT_H
#define _RAR_COMPAT_H

#include <linux/btf_ids.h>
#include <linux/hrtimer.h>
#include <linux/local_lock.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/sysctl.h>
#include <linux/timer.h>
#include <linux/uio.h>
#include <net/genetlink.h>
#include <net/net_namespace.h>
#include <net/udp_tunnel.h>
#ifdef HAVE_NETDEV_RX_QUEUE_H
#include <net/netdev_rx_queue.h>
#endif

/*
 * 6.11 has a lock for what a CPU owns while bottom halves are off. Realtime kernels may preempt
 * such a section from 6.18 on; before, bottom halves are a lock there.
 */
#ifndef HAVE_LOCAL_LOCK_NESTED_BH
#define local_lock_nested_bh(lock)	lockdep_assert_in_softirq()
#define local_unlock_nested_bh(lock)	do { } while (0)
#endif

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

/* 6.19 put the key first. */
#ifdef HAVE_BLAKE2S_KEY_FIRST
#define rar_blake2s(key, key_len, in, in_len, out, out_len) \
	blake2s(key, key_len, in, in_len, out, out_len)
#else
#define rar_blake2s(key, key_len, in, in_len, out, out_len) \
	blake2s(out, in, key, out_len, in_len, key_len)
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

/* 6.3 wants the flags of a mapping to be changed by functions. */
#ifndef HAVE_VM_FLAGS_MOD
static inline void vm_flags_mod(struct vm_area_struct *vma, unsigned long set,
				unsigned long clear)
{
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
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

/* 6.3 says which devices take frames from others, and whether in fragments. */
static inline bool rar_xdp_takes_frames(const struct net_device *dev, bool pieces)
{
#ifdef HAVE_XDP_FEATURES
	u32 need = NETDEV_XDP_ACT_NDO_XMIT | (pieces ? NETDEV_XDP_ACT_NDO_XMIT_SG : 0);

	return (READ_ONCE(dev->xdp_features) & need) == need;
#else
	return dev->netdev_ops->ndo_xdp_xmit && !pieces;
#endif
}

/* 6.3 has attributes of functions that BPF programs call, 6.9 other lists of them. */
#ifndef __bpf_kfunc
#define __bpf_kfunc	noinline
#endif
#ifndef BTF_KFUNCS_START
#define BTF_KFUNCS_START(name)	BTF_SET8_START(name)
#define BTF_KFUNCS_END(name)	BTF_SET8_END(name)
#endif

/* Was this module built with type information that BPF can read? */
static inline bool rar_has_btf(void)
{
#ifdef CONFIG_DEBUG_INFO_BTF_MODULES
	return THIS_MODULE->btf_data_size;
#else
	return false;
#endif
}

/* From 6.7 on a dump finds its request's attributes in struct genl_info, as other requests do. */
static inline struct nlattr **rar_genl_dump_attrs(struct netlink_callback *cb)
{
#ifdef HAVE_GENL_INFO_DUMP
	return genl_info_dump(cb)->attrs;
#else
	return genl_dumpit_info(cb)->attrs;
#endif
}

/* 6.7 and the last versions of 6.1 have flags for groups of listeners. */
#ifndef GENL_MCAST_CAP_NET_ADMIN
#define GENL_MCAST_CAP_NET_ADMIN	GENL_UNS_ADMIN_PERM
#endif

/*
 * 6.5 splices several pages at once, with a flag. Before that sendpage() hands over one page
 * at a time, as memory of the kernel, and may say that more pages follow.
 */
#ifndef MSG_SPLICE_PAGES
#define MSG_SPLICE_PAGES	0
#endif
#ifndef MSG_SENDPAGE_NOTLAST
#define MSG_SENDPAGE_NOTLAST	0
#endif
static inline bool rar_msg_is_spliced(const struct msghdr *msg)
{
#ifdef HAVE_SENDPAGE
	return iov_iter_is_kvec(&msg->msg_iter);
#else
	return msg->msg_flags & MSG_SPLICE_PAGES;
#endif
}

#endif /* _RAR_COMPAT_H */
