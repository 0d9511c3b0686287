// SPDX-License-Identifier: GPL-2.0
/*
 * The speed of light with packets: what a ring costs whose hops do nothing but add, copy and
 * pass a packet on. Each tile travels in one UDP packet of as many bytes, which the stack takes
 * for a superpacket (GSO), from one rank's namespace to the next over the devices of the bench,
 * "to" and the number of the other rank. There is no protocol: no headers for chunks, no
 * acknowledgments, no windows. Each rank has one tile on its way.
 *
 * The hook at the ingress of rank r adds the tile to r's, and stores the sum there and in the
 * packet; after the last rank the packet holds the sum, which the others copy.
 */
#include <linux/completion.h>
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/ktime.h>
#include <linux/netfilter_netdev.h>
#include <linux/udp.h>
#include <net/net_namespace.h>

#include "light.h"
#include "reduce/reduce.h"

#define MAGIC		0x6c696768	/* "ligh" */
#define SEGMENT		1400		/* bytes of a packet that is cut; ours never are */
#define PATIENCE	(60 * HZ)

struct head {
	struct iphdr ip;
	struct udphdr udp;
	u32 magic;
	u32 tile;
	u32 hop;			/* 1 .. 2(N-1): at the rank so far behind the first */
} __packed;

/* A rank: the devices to its neighbours, and the next tile that it injects. */
struct light_rank {
	struct net *net;
	struct net_device *in;		/* from the predecessor */
	struct net_device *out;		/* to the successor */
	struct nf_hook_ops ops;
	struct run *run;
	u32 rank;
	bool hooked;
	atomic_t next;
	u32 end;
};

struct run {
	const struct light_job *job;
	struct light_rank node[LIGHT_RANKS];
	atomic_t left;			/* tiles that are not at their end */
	bool lost;			/* a packet was not to be had, or not taken */
	struct completion over;
};

/* The bytes of the packet from @off on that are in one piece; sets their number. */
static void *piece_at(struct sk_buff *skb, u32 off, u32 *len)
{
	struct skb_shared_info *shared = skb_shinfo(skb);
	u32 i, size;

	for (i = 0; i < shared->nr_frags; i++) {
		size = skb_frag_size(&shared->frags[i]);
		if (off < size) {
			*len = min(*len, size - off);
			return skb_frag_address(&shared->frags[i]) + off;
		}
		off -= size;
	}
	*len = 0;
	return NULL;
}

enum work { OUT, ADD, IN };

static void work_on(const struct light_job *job, struct sk_buff *skb, u8 *own, u32 len,
		    enum work work)
{
	struct rar_reduce_ctx ctx;
	u32 off, n;
	u8 *data;

	rar_reduce_begin(&ctx);
	for (off = 0; off < len; off += n) {
		n = len - off;
		data = piece_at(skb, off, &n);
		if (!data)
			break;
		switch (work) {
		case OUT:
			rar_reduce_copy(&ctx, data, own + off, n);
			break;
		case ADD:
			rar_reduce(&ctx, job->kind, own + off, data, data, own + off, n);
			break;
		case IN:
			rar_reduce_copy(&ctx, own + off, data, n);
			break;
		}
	}
	rar_reduce_end(&ctx);
}

static void headers(struct sk_buff *skb, const struct light_rank *node, u32 tile, u32 len)
{
	struct ethhdr *eth = skb_put(skb, ETH_HLEN);
	struct head *head = skb_put_zero(skb, sizeof(*head));

	eth_broadcast_addr(eth->h_dest);
	ether_addr_copy(eth->h_source, node->out->dev_addr);
	eth->h_proto = htons(ETH_P_IP);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_transport_header(skb, ETH_HLEN + sizeof(head->ip));
	head->ip.version = 4;
	head->ip.ihl = 5;
	head->ip.protocol = IPPROTO_UDP;
	head->magic = MAGIC;
	head->tile = tile;
	head->hop = 1;
	skb->protocol = htons(ETH_P_IP);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb_shinfo(skb)->gso_size = SEGMENT;
	skb_shinfo(skb)->gso_segs = DIV_ROUND_UP(len, SEGMENT);
}

static void lose(struct run *run)
{
	WRITE_ONCE(run->lost, true);
	complete(&run->over);
}

/* Sends the next tile of a rank, if there is any. */
static bool inject(struct run *run, u32 rank)
{
	struct light_rank *node = &run->node[rank];
	u32 tile = atomic_fetch_inc(&node->next), len;
	struct sk_buff *skb;
	int err;

	if (tile >= node->end)
		return false;
	len = light_len(run->job, tile);
	skb = alloc_skb_with_frags(LL_MAX_HEADER + sizeof(struct head), len,
				   PAGE_ALLOC_COSTLY_ORDER, &err, GFP_ATOMIC);
	if (!skb) {
		lose(run);
		return true;
	}
	skb_reserve(skb, LL_MAX_HEADER - ETH_HLEN);
	headers(skb, node, tile, len);
	skb->data_len = len;
	skb->len += len;
	work_on(run->job, skb, light_tile(run->job, rank, tile), len, OUT);
	skb->dev = node->out;
	if (dev_queue_xmit(skb))
		lose(run);
	return true;
}

/* A tile is at its end: its rank, or another one, sends another. */
static void arrived(struct run *run, u32 rank)
{
	u32 i, n = run->job->ranks;

	if (atomic_dec_and_test(&run->left)) {
		complete(&run->over);
		return;
	}
	for (i = 0; i < n; i++)
		if (inject(run, (rank + i) % n))
			return;
}

static unsigned int hop(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct light_rank *node = priv;
	struct run *run = node->run;
	const struct light_job *job = run->job;
	u32 n = job->ranks, first;
	struct head *head;

	if (skb->protocol != htons(ETH_P_IP) || !pskb_may_pull(skb, sizeof(*head)))
		return NF_ACCEPT;
	head = (struct head *)skb->data;
	if (head->magic != MAGIC || head->tile >= job->ntiles)
		return NF_ACCEPT;
	work_on(job, skb, light_tile(job, node->rank, head->tile), light_len(job, head->tile),
		head->hop < n ? ADD : IN);
	if (head->hop++ == 2 * (n - 1)) {
		first = light_injector(job, head->tile);
		consume_skb(skb);
		arrived(run, first);
		return NF_STOLEN;
	}
	skb_push(skb, ETH_HLEN);
	skb_reset_mac_header(skb);
	skb->dev = node->out;
	if (dev_queue_xmit(skb))
		lose(run);
	return NF_STOLEN;
}

static struct net_device *device_to(struct net *net, u32 rank)
{
	char name[IFNAMSIZ];

	snprintf(name, sizeof(name), "to%u", rank);
	return dev_get_by_name(net, name);
}

static int node_open(struct run *run, u32 rank)
{
	struct light_rank *node = &run->node[rank];
	u32 n = run->job->ranks;
	struct net *net = get_net_ns_by_fd(run->job->netns[rank]);
	int err;

	if (IS_ERR(net))
		return PTR_ERR(net);
	node->net = net;
	node->run = run;
	node->rank = rank;
	node->in = device_to(net, (rank + n - 1) % n);
	node->out = device_to(net, (rank + 1) % n);
	if (!node->in || !node->out)
		return -ENODEV;
	node->ops = (struct nf_hook_ops){
		.hook = hop, .priv = node, .pf = NFPROTO_NETDEV, .dev = node->in,
		.hooknum = NF_NETDEV_INGRESS,
	};
	err = nf_register_net_hook(net, &node->ops);
	node->hooked = !err;
	return err;
}

static void close_all(struct run *run)
{
	struct light_rank *node;

	for (node = run->node; node < run->node + LIGHT_RANKS; node++)
		if (node->hooked)
			nf_unregister_net_hook(node->net, &node->ops);
	/* After a lost packet others may be in a hook. */
	synchronize_net();
	for (node = run->node; node < run->node + LIGHT_RANKS; node++) {
		dev_put(node->in);
		dev_put(node->out);
		if (node->net)
			put_net(node->net);
	}
}

/* Each rank has the tiles of its block to inject. */
static void share_out(struct run *run)
{
	const struct light_job *job = run->job;
	u32 tile, rank;

	for (tile = job->ntiles; tile-- > 0;) {
		rank = light_injector(job, tile);
		run->node[rank].end = run->node[rank].end ?: tile + 1;
		atomic_set(&run->node[rank].next, tile);
	}
	atomic_set(&run->left, job->ntiles);
}

static int go_round(struct light_job *job, struct run *run)
{
	u64 start = ktime_get_ns();
	unsigned long left;
	u32 rank;

	local_bh_disable();
	for (rank = 0; rank < job->ranks; rank++)
		inject(run, rank);
	local_bh_enable();
	left = wait_for_completion_timeout(&run->over, PATIENCE);
	job->ns = ktime_get_ns() - start;
	return !left ? -ETIMEDOUT : READ_ONCE(run->lost) ? -ENOBUFS : 0;
}

/* Runs a job of two ranks or more. Process context; the caller is in none of the namespaces. */
int light_packets(struct light_job *job)
{
	struct run *run;
	u32 rank;
	int err = 0;

	if (job->ranks < 2 || job->ranks > job->ntiles)
		return -EINVAL;
	run = kvzalloc(sizeof(*run), GFP_KERNEL);
	if (!run)
		return -ENOMEM;
	run->job = job;
	init_completion(&run->over);
	share_out(run);
	for (rank = 0; rank < job->ranks && !err; rank++)
		err = node_open(run, rank);
	if (!err)
		err = go_round(job, run);
	close_all(run);
	kvfree(run);
	return err;
}
