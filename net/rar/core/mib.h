/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters, per netns and CPU, in /proc/net/rar_netstat (nstat reads it).
 * One list feeds the enum, the names and, for drops, the tracepoint. The
 * exporter's words for a counter are the comment of its row.
 */
#ifndef _RAR_MIB_H
#define _RAR_MIB_H

#include <linux/percpu.h>

struct rar_net;

#define RAR_MIB_LIST(X)							\
	X(RxIngress)	/* packets taken at the netfilter ingress hook */ \
	X(RxEncap)	/* packets taken behind the rules for input */	\
	X(RxXdp)	/* packets taken at the XDP hook */		\
	X(XdpEarly)	/* packets that XDP left to ingress because their */ \
			/* operation was not posted */			\
	X(XdpPassed)	/* packets that XDP left to ingress because they */ \
			/* hold no data or are not good */		\
	X(RxData)	/* chunks accepted */				\
	X(RxBytes)	/* payload bytes of the chunks accepted */	\
	X(RxWhole)	/* carriers taken */				\
	X(RxLocal)	/* runs of chunks handed over by a rank of this */ \
			/* network namespace */				\
	X(RxRound)	/* runs of these that passed several ranks at once */ \
	X(RxDup)	/* chunks received again */			\
	X(TxData)	/* chunks sent, with those sent again */	\
	X(TxBytes)	/* payload bytes of the chunks sent */		\
	X(TxRetrans)	/* chunks sent again */				\
	X(TxForward)	/* chunks sent in the packet that brought them */ \
	X(TxXdp)	/* chunks sent by XDP */			\
	X(TxWhole)	/* chunks sent in carriers, to neighbours in one */ \
			/* kernel */					\
	X(TxSpread)	/* own chunks sent by another CPU */		\
	X(LanesLost)	/* lanes left out: packets of one port did not */ \
			/* come */					\
	X(LanesBack)	/* lanes used again */				\
	X(TxDirect)	/* operations sent straight to a rank */	\
	X(TxDirectAsk)	/* questions to ranks that exchange directly */	\
	X(TxAck)	/* acknowledgments sent */			\
	X(TxCtl)	/* packets sent that hold neither data nor an */ \
			/* acknowledgment */				\
	X(TxError)	/* packets that the network stack did not take */ \
	X(TxHeldBack)	/* own chunks that waited for room in the send */ \
			/* buffer */					\
	X(OpsPosted)	/* operations posted */				\
	X(OpsDone)	/* operations complete */			\
	X(OpBytes)	/* bytes of the operations posted */		\
	X(EarlyHeld)	/* packets held for operations not posted yet */ \
	X(ReduceSimd)	/* chunks added with vector registers */	\
	X(ReduceScalar)	/* chunks added without vector registers */	\
	X(BoxOpened)	/* times that a member got a leg to a box */	\
	X(BoxLost)	/* times that a member lost its leg and went on */ \
			/* by the ring */				\
	X(BoxReturned)	/* packets of a box that gave chunks up */	\
	X(BoxWants)	/* questions to predecessors for missing sums */ \
	X(BoxTaken)	/* box: contributions that came */		\
	X(BoxSums)	/* box: chunks summed */			\
	X(BoxBatches)	/* box: batches of records that a root has taken */ \
	X(BoxGaveUp)	/* box: chunks given up */			\
	X(BoxEvicted)	/* box: chunks given up for another chunk */	\
	X(BoxHanded)	/* box: partial sums handed to the ring */	\
	X(BoxOffers)	/* box: offers to members whose JOIN passed */	\
	X(BoxRoceSums)	/* box: places of RoCEv2 messages summed */	\
	X(BoxRoceAgain)	/* box: packets of RoCEv2 that came again and got */ \
			/* the sum */					\
	X(BoxRoceLate)	/* box: places given up as packets of other ranks */ \
			/* did not come in time */			\
	X(BoxRoceRaw)	/* box: packets of RoCEv2 messages that went on */ \
			/* without a sum */				\
	X(BoxRoceRefused) /* box: RoCEv2 messages of hosts that may not use */ \
			/* it */					\
	X(GroupsJoined)	/* rings closed */				\
	X(JoinsRefused)	/* requests to join that were refused */	\
	X(HostStood)	/* times that this host stood still, as a */	\
			/* member's timer found */			\
	X(GroupsFailed)	/* groups that ended with an error */

#define RAR_DROP_LIST(X)						\
	X(DropShort)	/* shorter than its header */			\
	X(DropTruncated) /* IP or UDP length beyond the packet */	\
	X(DropLength)	/* length field or chunk length is wrong */	\
	X(DropCut)	/* a carrier that was cut on the way */		\
	X(DropFragment)	/* an IP fragment */				\
	X(DropIpOptions) /* IP options or extension headers */		\
	X(DropChecksum)	/* bad IP or UDP checksum */			\
	X(DropNoChecksum) /* no UDP checksum */				\
	X(DropForeign)	/* not a RAR packet */				\
	X(DropVersion)	/* another protocol version */			\
	X(DropType)	/* unknown type */				\
	X(DropGroup)	/* no such group and rank here */		\
	X(DropAddress)	/* not between the addresses of this link */	\
	X(DropDevice)	/* by another device than the link's */		\
	X(DropEpoch)	/* another epoch or nonce */			\
	X(DropUnsealed)	/* without a seal, in a group with seals */	\
	X(DropSeal)	/* with a seal that nobody with the key made */	\
	X(DropReplay)	/* with a seal that came before, or too late */	\
	X(DropRank)	/* not from the neighbour on this link */	\
	X(DropState)	/* the group is not in a state for it */	\
	X(DropOp)	/* operation too old, or disagrees with history */ \
	X(DropChunk)	/* a chunk that cannot come here */		\
	X(DropSeq)	/* sequence number outside the window */	\
	X(DropClaimed)	/* chunk being added at this moment */		\
	X(DropEarlyFull) /* no credit left for operations not posted */	\
	X(DropFilter)	/* by a cgroup's program, a filter or an LSM */	\
	X(DropMemory)	/* no memory */

enum rar_mib {
#define X(name) RAR_MIB_##name,
	RAR_MIB_LIST(X)
	RAR_DROP_LIST(X)
#undef X
	RAR_MIB_NR
};

/* The fate of a packet. */
enum rar_rx {
	RAR_RX_DONE,	/* used; the skb is still the caller's */
	RAR_RX_TAKEN,	/* the skb is held, or on its way to the successor */
	RAR_RX_PASS,	/* untouched: for another hook, or for no member here */
	RAR_RX_RETRY,	/* too early a moment ago, but not any more */
	RAR_RX_DROP,	/* dropped; the reason is added, see RAR_DROP() */
};

#define RAR_DROP(why)	((enum rar_rx)(RAR_RX_DROP + RAR_MIB_Drop##why))

/* The counter of the reason for a drop. */
static inline enum rar_mib rar_rx_why(enum rar_rx rx)
{
	return rx - RAR_RX_DROP;
}

struct rar_mib_cpu {
	unsigned long v[RAR_MIB_NR];
};

/* Any context; @rn is struct rar_net. */
#define rar_mib_add(rn, name, n) \
	this_cpu_add((rn)->mib->v[RAR_MIB_##name], (n))
#define rar_mib_inc(rn, name)	rar_mib_add(rn, name, 1)

struct sk_buff;

const char *rar_mib_name(enum rar_mib i);
unsigned long rar_mib_read(const struct rar_net *rn, enum rar_mib i);
int rar_mib_init(struct rar_net *rn);
void rar_mib_destroy(struct rar_net *rn);

#endif /* _RAR_MIB_H */
