// SPDX-License-Identifier: GPL-2.0
/* For xdp_frames.sh: another XDP program on the device. It drops ICMP over IPv4. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

SEC("xdp.frags")
int other(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *iph = (void *)(eth + 1);

	if ((void *)(iph + 1) <= end && eth->h_proto == bpf_htons(ETH_P_IP) &&
	    iph->protocol == IPPROTO_ICMP)
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
