// SPDX-License-Identifier: GPL-2.0
/*
 * Routes to the neighbours, and what depends on them: packet sizes, whether a neighbour is
 * in this namespace, whether this host is cut off.
 */
#include <linux/security.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/route.h>
#include <net/sch_generic.h>
#include <net/udp.h>

#include "rar.h"
#include "tx/port.h"
#include "tx/route.h"
#include "tx/sender.h"

/* Set the label by which IPsec policies select; a security module derives it. */
static void classify(const struct rar_member *m, const struct rar_path *path,
		     struct flowi_common *fl)
{
	struct sock *sk = rar_sender_sk(m, path->dst.af);

	if (sk)
		security_sk_classify_flow(sk, fl);
}

static struct dst_entry *route_v4(const struct rar_member *m, struct rar_path *path)
{
	struct flowi4 fl = {
		.daddr = rar_addr_v4(&path->dst),
		.saddr = rar_addr_v4(&path->src),
		.flowi4_oif = path->oif,
		.flowi4_mark = m->sk_mark,
		.flowi4_uid = m->uid,
		.flowi4_proto = IPPROTO_UDP,
		.fl4_sport = path->src.port,
		.fl4_dport = path->dst.port,
	};
	struct rtable *rt;

	classify(m, path, flowi4_to_flowi_common(&fl));
	rt = ip_route_output_flow(m->rn->net, &fl, NULL);
	if (IS_ERR(rt))
		return ERR_CAST(rt);
	if (rt->rt_flags & (RTCF_BROADCAST | RTCF_MULTICAST)) {
		ip_rt_put(rt);
		return ERR_PTR(-EACCES);
	}
	if (!rar_addr_v4(&path->src))
		path->src.ip.s6_addr32[0] = fl.saddr;
	return &rt->dst;
}

#if IS_ENABLED(CONFIG_IPV6)
static struct dst_entry *route_v6(const struct rar_member *m, struct rar_path *path)
{
	struct flowi6 fl = {
		.daddr = path->dst.ip,
		.saddr = path->src.ip,
		.flowi6_oif = path->dst.scope ?: path->oif,
		.flowi6_mark = m->sk_mark,
		.flowi6_uid = m->uid,
		.flowi6_proto = IPPROTO_UDP,
		.fl6_sport = path->src.port,
		.fl6_dport = path->dst.port,
	};
	struct dst_entry *dst;

	if (ipv6_addr_is_multicast(&path->dst.ip))
		return ERR_PTR(-EACCES);
	classify(m, path, flowi6_to_flowi_common(&fl));
	dst = ip6_dst_lookup_flow(m->rn->net, NULL, &fl, NULL);
	if (!IS_ERR(dst) && ipv6_addr_any(&path->src.ip))
		path->src.ip = fl.saddr;
	return dst;
}
#else
static struct dst_entry *route_v6(const struct rar_member *m, struct rar_path *path)
{
	return ERR_PTR(-EAFNOSUPPORT);
}
#endif

/**
 * rar_route_new() - look up a route
 * @m:  member
 * @path: with both addresses; an "any" source becomes the route's
 *
 * Any context up to softirq.
 *
 * Return: a referenced route, or a negative errno.
 */
struct dst_entry *rar_route_new(struct rar_member *m, struct rar_path *path)
{
	return path->dst.af == AF_INET6 ? route_v6(m, path) : route_v4(m, path);
}
EXPORT_SYMBOL_GPL(rar_route_new);

/* Chunks of the epoch's payload that a superpacket on this route may hold. */
static u32 run_max(const struct rar_member *m, const struct rar_path *path,
		   const struct dst_entry *dst)
{
	u32 hdrs = rar_ip_hdr_size(path) + sizeof(struct udphdr), max;

	if (!m->payload || dst_xfrm(dst))
		return 1;
	max = min_t(u32, READ_ONCE(dst->dev->gso_max_size), IP_MAX_MTU);
	max = (max - hdrs - MAX_HEADER) / rar_stride(m);
	max = min_t(u32, max, READ_ONCE(dst->dev->gso_max_segs));
	return clamp_t(u32, max, 1, READ_ONCE(m->rn->sysctl_super_chunks));
}

/*
 * Are the device's packets received at once, on the same CPU? Of other devices without a
 * queue (VLAN, bond, bridge) the packets go to a device that has one.
 */
static bool no_queue(const struct net_device *dev)
{
	const struct Qdisc *q = rcu_dereference_bh(netdev_get_tx_queue(dev, 0)->qdisc);

	return ((dev->flags & IFF_LOOPBACK) || rar_is_veth(dev)) && !q->enqueue;
}

/* Kinds of devices that encrypt or sign, in the kernel or in a process. */
static const char *const tunnels[] = {
	"macsec", "wireguard", "xfrm", "vti", "vti6", "ovpn", "tun",
};

static int is_tunnel(struct net_device *dev, struct netdev_nested_priv *priv)
{
	const struct rtnl_link_ops *ops = dev->rtnl_link_ops;

	return ops &&
	       match_string(tunnels, ARRAY_SIZE(tunnels), ops->kind) >= 0;
}

/*
 * Do the packets of a neighbour come by the route's device and no other one? So
 * it is in this namespace and in a VRF, and where the device tells the
 * neighbour from strangers, which a device (VLAN, bond) above such a device
 * does, too.
 */
static bool is_only(struct net_device *dev)
{
	struct netdev_nested_priv priv = { };

	return (dev->flags & IFF_LOOPBACK) || netif_is_l3_master(dev) ||
	       netif_is_l3_slave(dev) || is_tunnel(dev, &priv) ||
	       netdev_walk_all_lower_dev_rcu(dev, is_tunnel, &priv);
}

/* Set what depends on the device of a route. */
static void set_dev(struct rar_path *path, struct net_device *dev)
{
	rcu_read_lock();
	WRITE_ONCE(path->only, is_only(dev));
	WRITE_ONCE(path->dev, dev->ifindex);
	rcu_read_unlock();
}

/* The MTU that was configured for the route, not the one that ICMP set. */
static u32 route_mtu(const struct dst_entry *dst)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (dst->ops->family == AF_INET6 &&
	    container_of(dst, struct rt6_info, dst)->rt6i_flags & RTF_CACHE)
		return 0;
#endif
	return dst_metric_raw(dst, RTAX_MTU);
}

/**
 * rar_route_get() - get the route to a neighbour, kept as long as it is valid
 * @m:  member
 * @path: to the neighbour; what depends on the route is set again with it
 *
 * Bottom halves are off.
 *
 * Return: a referenced route, or a negative errno.
 */
struct dst_entry *rar_route_get(struct rar_member *m, struct rar_path *path)
{
	struct dst_entry *dst = dst_cache_get(&path->cache);

	if (dst)
		return dst;
	dst = rar_route_new(m, path);
	if (IS_ERR(dst))
		return dst;
	WRITE_ONCE(path->mtu, route_mtu(dst));
	WRITE_ONCE(path->run_max, run_max(m, path, dst));
	WRITE_ONCE(path->no_queue, no_queue(dst->dev));
	set_dev(path, dst->dev);
#if IS_ENABLED(CONFIG_IPV6)
	if (path->dst.af == AF_INET6) {
		dst_cache_set_ip6(&path->cache, dst, &path->src.ip);
		return dst;
	}
#endif
	dst_cache_set_ip4(&path->cache, dst, rar_addr_v4(&path->src));
	return dst;
}

#if IS_ENABLED(CONFIG_IPV6)
static bool addr6_is_ours(struct net *net, const struct rar_addr *a, int oif)
{
	struct net_device *dev;
	bool ours;

	rcu_read_lock();
	dev = dev_get_by_index_rcu(net, a->scope ?: oif);
	ours = ipv6_chk_addr_and_flags(net, &a->ip, dev, true, 0, IFA_F_TENTATIVE);
	rcu_read_unlock();
	return ours;
}
#else
static bool addr6_is_ours(struct net *net, const struct rar_addr *a, int oif)
{
	return false;
}
#endif

/**
 * rar_route_addr_is_ours() - does an address belong to this namespace?
 * @net: the namespace
 * @a:   address
 * @oif: device that the socket is bound to, 0 = none: if it is part of a VRF, only the addresses of
 *       the VRF count, otherwise only those of no VRF
 *
 * Any context up to softirq.
 *
 * Return: true if it does.
 */
bool rar_route_addr_is_ours(struct net *net, const struct rar_addr *a, int oif)
{
	if (a->af == AF_INET6)
		return addr6_is_ours(net, a, oif);
	return inet_addr_type_table(net, rar_addr_v4(a), l3mdev_fib_table_by_index(net, oif) ?:
							  RT_TABLE_LOCAL) == RTN_LOCAL;
}

static bool is_ours(const struct rar_member *m, const struct rar_path *path,
		    const struct rar_addr *a)
{
	return rar_route_addr_is_ours(m->rn->net, a, path->oif);
}

/**
 * rar_route_on_link() - is the other end reached without a gateway?
 * @m:    member
 * @path: with both addresses
 *
 * Any context up to softirq.
 *
 * Return: true if it is on a network of this host, or on this host.
 */
bool rar_route_on_link(struct rar_member *m, struct rar_path *path)
{
	struct dst_entry *dst = rar_route_new(m, path);
	bool on_link;

	if (IS_ERR(dst))
		return false;
	/* To IPv4, this host and a host whose path MTU is known may be their own gateways. */
	if (path->dst.af == AF_INET6)
		on_link = !(container_of(dst, struct rt6_info, dst)->rt6i_flags & RTF_GATEWAY);
	else
		on_link = !container_of(dst, struct rtable, dst)->rt_uses_gateway;
	dst_release(dst);
	return on_link;
}
EXPORT_SYMBOL_GPL(rar_route_on_link);

/* Does the device belong to this VRF, or to none if it is 0? */
static bool same_vrf(struct net *net, int dev, int vrf)
{
	return l3mdev_master_ifindex_by_index(net, dev) == vrf;
}

static bool takes(const struct rar_member *m, const struct rar_path *path,
		  const struct rar_way *way)
{
	int bound = path->dst.scope ?: path->oif;

	if (bound)
		return way->dev == bound || way->vrf == bound ||
		       (way->inside && same_vrf(m->rn->net, bound, way->vrf));
	return way->dev == READ_ONCE(path->dev) ||
	       !(way->vrf || way->strict || READ_ONCE(path->only));
}

/**
 * rar_route_takes() - may a packet of a neighbour come by a device?
 * @m:    member
 * @path: to the neighbour
 * @way:  how the packet came
 *
 * A member that is bound to a device takes packets that come by it, and a
 * member that is bound to a VRF those of its ports. The same is true of the
 * device of link-local addresses. Other members take packets that come by any
 * device outside VRFs, as UDP sockets do, unless is_only() is true of the
 * route's device.
 *
 * Softirq, RCU read side.
 *
 * Return: true if it may.
 */
bool rar_route_takes(struct rar_member *m, struct rar_path *path,
		     const struct rar_way *way)
{
	struct dst_entry *dst;

	if (READ_ONCE(path->dev) && takes(m, path, way))
		return true;
	/* Nothing may have been sent yet, or since the route changed. */
	dst = rar_route_get(m, path);
	if (IS_ERR(dst))
		return false;
	dst_release(dst);
	return takes(m, path, way);
}
EXPORT_SYMBOL_GPL(rar_route_takes);

/**
 * rar_route_takes_from() - the same for a packet whose sender has no link
 * @m:    member
 * @from: where the packet comes from
 * @to:   own address that it came to
 * @way:  how it came
 *
 * Any context up to softirq.
 *
 * Return: true if it may, by the route that an answer would take.
 */
bool rar_route_takes_from(struct rar_member *m, const struct rar_addr *from,
			  const struct rar_addr *to, const struct rar_way *way)
{
	struct rar_path path = { .src = *to, .dst = *from,
				 .oif = m->link[RAR_NEXT]->path.oif };
	struct dst_entry *dst;

	if (path.dst.scope)
		path.dst.scope = rar_member_scope(m) ?: path.oif ?:
				 path.dst.scope;
	if (!path.dst.scope && !path.oif) {
		dst = rar_route_new(m, &path);
		if (IS_ERR(dst))
			return false;
		set_dev(&path, dst->dev);
		dst_release(dst);
	}
	return takes(m, &path, way);
}
EXPORT_SYMBOL_GPL(rar_route_takes_from);

/**
 * rar_route_takes_chains() - may superpackets be chains of packets?
 * @m:  member
 * @path: to the neighbour
 *
 * Bottom halves are off. For some devices the kernel would cut chains but not other
 * superpackets.
 *
 * Return: true if the device takes chains, or the kernel cuts superpackets for it in any
 * case.
 */
bool rar_route_takes_chains(struct rar_member *m, struct rar_path *path)
{
	struct dst_entry *dst = rar_route_get(m, path);
	netdev_features_t features;

	if (IS_ERR(dst))
		return false;
	features = READ_ONCE(dst->dev->features);
	dst_release(dst);
	return (features & NETIF_F_FRAGLIST) || !(features & NETIF_F_GSO_UDP_L4);
}

/**
 * rar_route_mtu() - look at the MTU of a path
 * @m:  member
 * @path: to the neighbour
 *
 * Bottom halves are off.
 *
 * Return: the path MTU, which routers may have made known, at most RAR_MAX_MTU; 0 without a route.
 */
u32 rar_route_mtu(struct rar_member *m, struct rar_path *path)
{
	struct dst_entry *dst = rar_route_get(m, path);
	u32 mtu;

	if (IS_ERR(dst))
		return 0;
	mtu = min_t(u32, dst_mtu(dst), RAR_MAX_MTU);
	dst_release(dst);
	return mtu;
}

/**
 * rar_route_find() - find the route of a path
 * @m:  member
 * @path: with both addresses; an "any" source becomes the route's
 * @mtu:  set to the path MTU, at most RAR_MAX_MTU
 * @dev:  set to the index of the route's device
 *
 * Process context.
 *
 * Return: 0, -EADDRNOTAVAIL if the own address is gone, or a negative errno of the route
 * lookup.
 */
int rar_route_find(struct rar_member *m, struct rar_path *path, u32 *mtu, int *dev)
{
	struct dst_entry *dst;

	if (!ipv6_addr_any(&path->src.ip) && !is_ours(m, path, &path->src))
		return -EADDRNOTAVAIL;
	local_bh_disable();
	dst_cache_reset(&path->cache);
	dst = rar_route_get(m, path);
	if (!IS_ERR(dst)) {
		*mtu = min_t(u32, dst_mtu(dst), RAR_MAX_MTU);
		*dev = dst->dev->ifindex;
		dst_release(dst);
	}
	local_bh_enable();
	return PTR_ERR_OR_ZERO(dst);
}
EXPORT_SYMBOL_GPL(rar_route_find);

/**
 * rar_route_is_here() - does a neighbour's address belong to this namespace?
 * @m:  member
 * @path: to the neighbour
 *
 * Any context up to softirq.
 *
 * Return: true if it does.
 */
bool rar_route_is_here(const struct rar_member *m, const struct rar_path *path)
{
	return is_ours(m, path, &path->dst);
}

/**
 * rar_route_cut_off() - is it this host's fault that a neighbour cannot be reached?
 * @m:  member
 * @path: to the neighbour
 *
 * Any context up to softirq.
 *
 * Return: true if the own address, the route or its device is gone, or the device is down or
 * has no carrier.
 */
bool rar_route_cut_off(struct rar_member *m, struct rar_path *path)
{
	struct dst_entry *dst;
	bool cut_off;

	if (!is_ours(m, path, &path->src))
		return true;
	local_bh_disable();
	dst = rar_route_get(m, path);
	cut_off = IS_ERR(dst) || !netif_running(dst->dev) ||
		  !netif_carrier_ok(dst->dev) ||
		  (dst->dev->flags & IFF_LOOPBACK &&
		   !is_ours(m, path, &path->dst));
	if (!IS_ERR(dst))
		dst_release(dst);
	local_bh_enable();
	return cut_off;
}
