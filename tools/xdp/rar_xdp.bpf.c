// SPDX-License-Identifier: GPL-2.0
/*
 * The XDP program of AF_RAR. The module does most of the work. This program does what only
 * a program may do: send a frame to another device, and call the next program.
 * scripts/xdp loads it.
 *
 * RAR_SECTION: "xdp.frags" takes frames in several pieces (MTUs above a page).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

extern int bpf_rar_rcv(struct xdp_md *ctx, __u32 *ifindex) __ksym;

/* The program that was on the device before, which gets the frames that are not ours. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} others SEC(".maps");

SEC(RAR_SECTION)
int rar_xdp(struct xdp_md *ctx)
{
	__u32 ifindex = 0;
	int action;

	action = bpf_rar_rcv(ctx, &ifindex);
	if (action == XDP_REDIRECT)
		return bpf_redirect(ifindex, 0);
	if (action == XDP_PASS)
		bpf_tail_call(ctx, &others, 0);
	return action;
}

char _license[] SEC("license") = "GPL";
