// SPDX-License-Identifier: GPL-2.0
/*
 * The host's rules for packets that a member receives: the programs of its cgroup, its socket
 * filter and security modules. The rules for packets that it sends run in IP's output,
 * because a sock of the member's own sends them.
 */
#include <linux/bpf-cgroup.h>
#include <linux/filter.h>
#include <linux/netfilter.h>
#include <linux/udp.h>
#include <net/sock.h>

#include "tx/port.h"
#include "tx/rules.h"
#include "tx/sender.h"

int rar_strict_host;

/* Rules of a family; this module has a hook of its own behind them. */
static bool has_rules(struct nf_hook_entries __rcu *const *hooks)
{
	const struct nf_hook_entries *in;

	in = rcu_dereference(hooks[NF_INET_LOCAL_IN]);
	return rcu_access_pointer(hooks[NF_INET_PRE_ROUTING]) ||
	       (in && in->num_hook_entries > 1);
}

/**
 * rar_rules_loaded() - are there rules for what a host with members receives?
 * @net: network namespace with a port of ours
 *
 * Chains of nftables or iptables, NAT, connection tracking. Any context.
 *
 * Return: true if a packet must go through IP's hooks, lest it goes past one.
 */
bool rar_rules_loaded(const struct net *net)
{
	bool loaded;

	rcu_read_lock();
	loaded = has_rules(net->nf.hooks_ipv4) || has_rules(net->nf.hooks_ipv6);
	rcu_read_unlock();
	return loaded;
}

static bool cgroup_programs(struct sock *sk)
{
#ifdef CONFIG_CGROUP_BPF
	return (cgroup_bpf_enabled(CGROUP_INET_INGRESS) &&
		cgroup_bpf_sock_enabled(sk, CGROUP_INET_INGRESS)) ||
	       (cgroup_bpf_enabled(CGROUP_INET_EGRESS) &&
		cgroup_bpf_sock_enabled(sk, CGROUP_INET_EGRESS));
#else
	return false;
#endif
}

/* The user's socket, if it has a filter. SOCK_RCU_FREE. */
static struct sock *filtering(const struct rar_member *m)
{
	struct sock *sk = READ_ONCE(m->sk);

	return sk && rcu_access_pointer(sk->sk_filter) ? sk : NULL;
}

/**
 * rar_rules_judged() - does any rule of the host judge a member's packets?
 * @m: member that joins or runs, RCU read side
 *
 * Any context.
 *
 * Return: true if chunks must be packets that pass IP's hooks.
 */
bool rar_rules_judged(const struct rar_member *m)
{
	struct sock *sk = rar_sender_sk(m, m->link[RAR_NEXT]->path.dst.af);

	return rar_rules_strict(m->rn) || filtering(m) || (sk && cgroup_programs(sk));
}

/* Does the filter let the whole packet pass? It may cut a packet, which is then no use. */
static bool passes(struct sock *sk, struct sk_buff *skb)
{
	u32 len = skb->len;

	return !sk_filter_trim_cap(sk, skb, sizeof(struct udphdr)) && skb->len == len;
}

/**
 * rar_rules_receive() - may a member have a packet that came for it?
 * @m: member
 * @skb: the packet
 * @af:  its address family
 * @udp: offset of its UDP header, where UDP's filters begin
 *
 * Softirq, RCU read side.
 *
 * Return: false if the packet must be dropped; it may have been cut.
 */
bool rar_rules_receive(const struct rar_member *m, struct sk_buff *skb, u16 af, u32 udp)
{
	struct sock *sk = rar_sender_sk(m, af), *user = filtering(m);
	bool ok;

	if (skb_shared(skb) && (user || skb_headlen(skb) < udp + sizeof(struct udphdr)))
		return false;
	if (!pskb_may_pull(skb, udp + sizeof(struct udphdr)))
		return false;
	__skb_pull(skb, udp);
	skb_reset_transport_header(skb);
	ok = (!sk || passes(sk, skb)) && (!user || passes(user, skb));
	__skb_push(skb, udp);
	return ok;
}
