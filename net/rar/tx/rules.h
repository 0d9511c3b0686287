/* SPDX-License-Identifier: GPL-2.0 */
/* The host's rules for packets, which packets of this module obey as others do. */
#ifndef _RAR_RULES_H
#define _RAR_RULES_H

#include <linux/user_namespace.h>
#include <net/xfrm.h>

#include "rar.h"

/* May IPsec judge packets in direction @dir, XFRM_POLICY_IN or _OUT? */
static inline bool rar_rules_ipsec(const struct net *net, int dir)
{
#ifdef CONFIG_XFRM
	return READ_ONCE(net->xfrm.policy_count[dir]) ||
	       READ_ONCE(net->xfrm.policy_default[dir]) != XFRM_USERPOLICY_ACCEPT;
#else
	return false;
#endif
}

extern int rar_strict_host;

/*
 * net.rar.strict: no packet bypasses the firewall. A namespace that an unprivileged user may
 * have made is bound by the host's setting.
 */
static inline bool rar_rules_strict(const struct rar_net *rn)
{
	return READ_ONCE(rn->sysctl_strict) ||
	       (READ_ONCE(rar_strict_host) && rn->net->user_ns != &init_user_ns);
}

bool rar_rules_loaded(const struct net *net);

/*
 * The receive path in use. RAR_PATH_UDP comes after all of netfilter, and after
 * IPsec's policies; the other paths come before.
 */
static inline enum rar_rx_path rar_rules_rx_path(const struct rar_net *rn)
{
	enum rar_rx_path path = READ_ONCE(rn->sysctl_rx_path);

	if (rar_rules_strict(rn) || rar_rules_ipsec(rn->net, XFRM_POLICY_IN))
		return RAR_PATH_UDP;
	if (path != RAR_PATH_AUTO)
		return path;
	return rar_rules_loaded(rn->net) ? RAR_PATH_UDP : RAR_PATH_INGRESS;
}

bool rar_rules_judged(const struct rar_member *m);
bool rar_rules_receive(const struct rar_member *m, struct sk_buff *skb, u16 af, u32 udp);

#endif /* _RAR_RULES_H */
