// SPDX-License-Identifier: GPL-2.0
/* Programs of a cgroup: they count packets, or drop all. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

static int count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&seen, &which);

	if (n)
		__sync_fetch_and_add(n, 1);
	return 1;
}

SEC("cgroup_skb/egress")
int count_egress(struct __sk_buff *skb) { return count(0); }

SEC("cgroup_skb/ingress")
int count_ingress(struct __sk_buff *skb) { return count(1); }

SEC("cgroup_skb/egress")
int drop_egress(struct __sk_buff *skb) { return 0; }

SEC("cgroup_skb/ingress")
int drop_ingress(struct __sk_buff *skb) { return 0; }

char LICENSE[] SEC("license") = "GPL";
