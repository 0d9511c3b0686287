// SPDX-License-Identifier: GPL-2.0
/*
 * The packet size that a join proposes, and how it becomes smaller.
 *
 * A member begins with the MTU of its route. A router may say that the path is
 * narrower; or packets of full size get lost and nobody says so, while JOINs
 * without padding are answered.
 */
#include <linux/udp.h>

#include "group/size.h"
#include "tx/packet.h"
#include "tx/route.h"

#define SIZE_MTU_MIN	1280	/* a full table packet fits */
#define SIZE_FULL	4	/* padded JOINs without an answer, while */
#define SIZE_SMALL	3	/* so many without padding had one */

/*
 * Sizes that paths are made for, below the device's: FDDI, Ethernet, PPPoE, and
 * tunnels (VXLAN, WireGuard, several of them).
 */
static const u16 mtus[] = {
	4352, 1500, 1492, 1450, 1420, 1400, 1350, SIZE_MTU_MIN
};

/**
 * rar_size_payload() - find the largest payload of a chunk
 * @m:    member
 * @path: path to a neighbour
 * @mtu:  bytes
 *
 * Return: bytes; 0 if the MTU is too small.
 */
u32 rar_size_payload(const struct rar_member *m, const struct rar_path *path,
		     u32 mtu)
{
	u32 hdr = rar_ip_hdr_size(path) + sizeof(struct udphdr) +
		  rar_overhead(m);

	return mtu < SIZE_MTU_MIN ? 0 : round_down(mtu - hdr, RAR_PAYLOAD_UNIT);
}

/* Do packets of full size get lost, though small ones are answered? */
static bool gets_lost(const struct rar_join_state *j)
{
	return !j->ok[RAR_NEXT] && j->small_news >= SIZE_SMALL &&
	       j->full_tries >= SIZE_FULL;
}

/* Propose a smaller size from now on. */
static void propose(struct rar_join_state *j, u32 mtu, u32 payload)
{
	j->mtu = mtu;
	j->payload = payload;
	j->small_news = 0;
	j->full_tries = 0;
}

/* Propose the next smaller size. Return: false if there is none. */
static bool try_smaller(struct rar_member *m)
{
	struct rar_join_state *j = &m->join;
	u32 i, payload;

	for (i = 0; i < ARRAY_SIZE(mtus); i++) {
		payload = rar_size_payload(m, &m->link[RAR_NEXT]->path,
					   mtus[i]);
		if (mtus[i] < j->mtu && payload < j->payload) {
			propose(j, mtus[i], payload);
			/* The first intervals are short again. */
			j->tries = 0;
			return true;
		}
	}
	return false;
}

/**
 * rar_size_goes_on() - propose a smaller size if the present one gets lost
 * @m: member in JOINING or READY, in its timer
 *
 * After RFC 8899. The successor has seen no packet of the present size, so no
 * rank counts on it.
 *
 * Return: false if no size is left.
 */
bool rar_size_goes_on(struct rar_member *m)
{
	return !gets_lost(&m->join) || try_smaller(m);
}

/**
 * rar_size_announced() - propose the size that a router has named, if any
 * @m: member in JOINING or READY, in its timer
 *
 * A larger JOIN gets nowhere, so no rank counts on a larger size.
 */
void rar_size_announced(struct rar_member *m)
{
	struct rar_path *path = &m->link[RAR_NEXT]->path;
	struct rar_join_state *j = &m->join;
	u32 mtu, payload;

	if (j->ok[RAR_NEXT])
		return;
	mtu = rar_route_mtu(m, path);
	payload = rar_size_payload(m, path, mtu);
	if (payload && payload < j->payload)
		propose(j, mtu, payload);
}
