// SPDX-License-Identifier: GPL-2.0
/*
 * Links between switches: each rank has a port, whose queue holds some packets of full size, drops
 * those that find no room, and may mark the others. Hosts send ten times as fast as a port does.
 * All that comes to a rank goes through its port, acknowledgments too, in the order in which it
 * comes to the port.
 */
#include "sim.h"

#define HOST_FASTER	10

static u64 since;		/* when the counting of shares began, ns */

static u64 wire_ps(u64 bytes)
{
	return bytes * 8e12 / sim_set.bps;
}

/* Bytes of a packet on the wire. */
static u64 size_of(const struct sk_buff *skb)
{
	return skb->len + (skb->flow ? 0 : SIM_IP_UDP) + sim_set.frame;
}

/* A host sends a packet; of a superpacket each chunk is a packet on the wire. */
void sim_switch_send(struct sim_rank *from, struct sk_buff *skb, struct sim_rank *to)
{
	u32 i, n = sim_is_data(skb) ? skb->chunks : 1;
	struct sk_buff *part = skb;

	for (i = 0; i < n; i++) {
		if (n > 1)
			part = sim_part_of(skb, i, 1);
		from->device_ps = max(from->device_ps, sim_ns * 1000) +
				  wire_ps(size_of(part)) / HOST_FASTER;
		sim_at(from->device_ps / 1000 + sim_set.delay, SIM_PORT, to, part);
	}
	if (n > 1)
		sim_skb_free(skb);
}

static void lose(struct sk_buff *skb)
{
	sim_got.lost++;
	sim_skb_free(skb);
}

/* A packet comes to the port of the switch that leads to a rank. */
void sim_port(struct sim_rank *to, struct sk_buff *skb)
{
	u64 now = sim_ns * 1000, full = wire_ps(sim_set.mtu + sim_set.frame);
	u64 waits = to->port_ps > now ? to->port_ps - now : 0;
	u64 late = 0;

	if (sim_set.loss && sim_random_share() < sim_set.loss) {
		lose(skb);
		return;
	}
	if (waits + wire_ps(size_of(skb)) > (sim_set.queue + 1) * full) {
		lose(skb);
		return;
	}
	if (sim_set.mark && waits > sim_set.mark * full)
		skb->ce = true;
	to->port_ps = now + waits + wire_ps(size_of(skb));
	if (sim_set.reorder && sim_random_share() < sim_set.reorder)
		late = sim_random_share() * sim_set.delay / 2;
	if (skb->flow) {
		sim_at(to->port_ps / 1000 + late, SIM_TCP_PACKET, to, skb);
		return;
	}
	if (to == &sim_ranks[1])
		sim_got.ring_bytes += size_of(skb);
	sim_at(to->port_ps / 1000 + late, SIM_PACKET, to, skb);
}

void sim_shares_begin(void)
{
	since = sim_ns;
	sim_got.ring_bytes = 0;
	sim_got.tcp_bytes = 0;
}

void sim_shares_end(void)
{
	sim_got.shares_ns = sim_ns - since;
}
