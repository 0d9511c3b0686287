/* SPDX-License-Identifier: GPL-2.0 */
/* Routes to the neighbours, for the files that send by them. */
#ifndef _RAR_ROUTE_H
#define _RAR_ROUTE_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/string.h>
#include <net/rtnetlink.h>

#include "rar.h"

static inline __be32 rar_addr_v4(const struct rar_addr *a)
{
	return a->ip.s6_addr32[0];
}

static inline u32 rar_ip_hdr_size(const struct rar_path *path)
{
	return path->dst.af == AF_INET6 ? sizeof(struct ipv6hdr) :
					  sizeof(struct iphdr);
}

/* Does the device hand packets on in this machine's memory? */
static inline bool rar_is_veth(const struct net_device *dev)
{
	const struct rtnl_link_ops *ops = dev->rtnl_link_ops;

	return ops && !strcmp(ops->kind, "veth");
}

/* Forget the route of a path that leads to another address from now on. */
static inline void rar_route_forget(struct rar_path *path)
{
	dst_cache_reset(&path->cache);
	WRITE_ONCE(path->dev, 0);
}

struct dst_entry *rar_route_new(struct rar_member *m, struct rar_path *path);
struct dst_entry *rar_route_get(struct rar_member *m, struct rar_path *path);
bool rar_route_addr_is_ours(struct net *net, const struct rar_addr *a, int oif);
bool rar_route_on_link(struct rar_member *m, struct rar_path *path);
bool rar_route_takes(struct rar_member *m, struct rar_path *path,
		     const struct rar_way *way);
bool rar_route_takes_from(struct rar_member *m, const struct rar_addr *from,
			  const struct rar_addr *to, const struct rar_way *way);
bool rar_route_takes_chains(struct rar_member *m, struct rar_path *path);
u32 rar_route_mtu(struct rar_member *m, struct rar_path *path);
int rar_route_find(struct rar_member *m, struct rar_path *path, u32 *mtu, int *dev);
bool rar_route_is_here(const struct rar_member *m, const struct rar_path *path);
bool rar_route_cut_off(struct rar_member *m, struct rar_path *path);

#endif /* _RAR_ROUTE_H */
