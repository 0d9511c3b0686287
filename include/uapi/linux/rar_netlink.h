/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * AF_RAR on generic netlink: members, operations, counters, settings; events; abort.
 *
 * The family is called RAR_GENL_NAME. Each socket sees the network namespace that it was made
 * in. Documentation/netlink/specs/rar.yaml says the same as this file for programs.
 *
 *	command			do		dump		attributes
 *	RAR_CMD_NET_GET		yes		-		enum rar_a_net
 *	RAR_CMD_MEMBER_GET	group, rank	yes		enum rar_a_member
 *	RAR_CMD_OP_GET		-		yes		enum rar_a_op
 *	RAR_CMD_COUNTER_GET	-		yes		enum rar_a_counter
 *	RAR_CMD_SETTING_GET	-		yes		enum rar_a_setting
 *	RAR_CMD_ABORT		group		-		enum rar_a_member
 *	RAR_CMD_BOX_KEY		yes		-		enum rar_a_box_key
 *	RAR_CMD_EVENT		(sent to the multicast group RAR_MCGRP_EVENTS) enum rar_a_event
 *
 * A dump of members or operations takes a group, and a rank of it, as a filter. RAR_CMD_ABORT
 * takes a rank, too. It fails the members of the group that join or run in this namespace,
 * as RAR_ABORT does; all other ranks get the error. RAR_CMD_BOX_KEY sets the key of the box of this
 * namespace, and nothing reads it: EINVAL if it has neither 16 nor 32 bytes or is all zero, EPERM
 * without CAP_NET_ADMIN on the host. Other errors: ENOENT if there is no such member
 * here, ENOTCONN if none of them joins or runs, EPERM without CAP_NET_ADMIN in the user
 * namespace of the network namespace. To join the multicast group needs this, too. All else
 * needs no privilege, as the files in /proc do.
 *
 * Every request is checked strictly: an attribute that the command does not know, or one of a
 * wrong length, is EINVAL. If members came or went during a dump, messages have
 * NLM_F_DUMP_INTR. A listener that is too slow, or for whose event there is no memory, gets
 * ENOBUFS from recv().
 *
 * Integers are in host byte order unless they are said to be __be. An attribute is absent
 * where its comment says so, and attributes may be added.
 */
#ifndef _UAPI_LINUX_RAR_NETLINK_H
#define _UAPI_LINUX_RAR_NETLINK_H

#define RAR_GENL_NAME		"rar"
#define RAR_GENL_VERSION	1
#define RAR_MCGRP_EVENTS	"events"

enum rar_cmd {
	RAR_CMD_NET_GET = 1,
	RAR_CMD_MEMBER_GET,
	RAR_CMD_OP_GET,
	RAR_CMD_COUNTER_GET,
	RAR_CMD_SETTING_GET,
	RAR_CMD_ABORT,
	RAR_CMD_EVENT,
	RAR_CMD_BOX_KEY,

	__RAR_CMD_MAX,
	RAR_CMD_MAX = (__RAR_CMD_MAX - 1)
};

/* RAR_A_MEMBER_HOLDER: what keeps a member. */
enum rar_holder {
	RAR_HOLDER_SOCKET,	/* a socket that is open */
	RAR_HOLDER_ORPHAN,	/* nobody: it serves its neighbours after close() */
	RAR_HOLDER_TOMBSTONE,	/* nobody: it only answers late packets */
};

/* RAR_A_LINK_DIRECTION: the neighbour at the other end. */
enum rar_direction {
	RAR_DIRECTION_NEXT,	/* the successor, to which chunks go */
	RAR_DIRECTION_PREV,	/* the predecessor, from which chunks come */
};

/* RAR_A_EVENT_KIND: what happened to a member. */
enum rar_event {
	RAR_EVENT_JOINED = 1,	/* the ring is closed */
	RAR_EVENT_FAILED,	/* the group failed; RAR_A_EVENT_ERROR has the reason */
	RAR_EVENT_JOIN_FAILED,	/* the join failed; RAR_A_EVENT_ERROR has the reason */
	RAR_EVENT_ENDED,	/* its socket was closed after it had joined */
	RAR_EVENT_BOX_OPENED,	/* operations may go by a box of its group from now on */
	RAR_EVENT_BOX_LOST,	/* they go by the ring again */
};

/* A UDP address: either IP4 or IP6. */
enum rar_a_addr {
	RAR_A_ADDR_IP4 = 1,	/* __be32 */
	RAR_A_ADDR_IP6,		/* 16 bytes */
	RAR_A_ADDR_PORT,	/* __be16 */
	RAR_A_ADDR_IFINDEX,	/* u32, interface of a link-local address, else absent */

	__RAR_A_ADDR_MAX,
	RAR_A_ADDR_MAX = (__RAR_A_ADDR_MAX - 1)
};

/* The fields of struct rar_error. */
enum rar_a_error {
	RAR_A_ERROR_ERRNO = 1,	/* u32, positive */
	RAR_A_ERROR_REASON,	/* u32, enum rar_reason */
	RAR_A_ERROR_RANK,	/* u32; absent if the rank does not exist */
	RAR_A_ERROR_OTHER,	/* u32, second rank of a pair; else absent */
	RAR_A_ERROR_OP,		/* u64, number of the operation concerned, else 0 */
	RAR_A_ERROR_SILENT_MS,	/* u32 */
	RAR_A_ERROR_ADDR,	/* enum rar_a_addr, of the rank; absent if not known here */
	RAR_A_ERROR_PAD,
	RAR_A_ERROR_USER_RANK,	/* u32, the rank's RAR_USER_RANK; absent if the same, or unknown */
	RAR_A_ERROR_VALUE,	/* u64, struct rar_error.value; absent if not known */
	RAR_A_ERROR_OTHER_VALUE,	/* u64 */

	__RAR_A_ERROR_MAX,
	RAR_A_ERROR_MAX = (__RAR_A_ERROR_MAX - 1)
};

/* A member's end of a link. "next": only of the link to the successor. */
enum rar_a_link {
	RAR_A_LINK_DIRECTION = 1, /* u32, enum rar_direction */
	RAR_A_LINK_RANK,	/* u32, the neighbour's */
	RAR_A_LINK_LOCAL,	/* enum rar_a_addr, own address; absent if not known yet */
	RAR_A_LINK_REMOTE,	/* enum rar_a_addr, the neighbour's; absent if not known yet */
	RAR_A_LINK_IN_MEMORY,	/* flag: chunks are handed over in memory */
	RAR_A_LINK_PACKETS,	/* u64, chunks sent (next) or accepted (prev) */
	RAR_A_LINK_BYTES,	/* u64, their payload */
	RAR_A_LINK_WAIT_US,	/* u64, time that this member waited for the neighbour */
	RAR_A_LINK_SILENT_MS,	/* u32, since its last packet; absent before the ring is closed */
	RAR_A_LINK_RETRANSMITS,	/* u64, next: chunks sent again */
	RAR_A_LINK_FORWARDED,	/* u64, next: chunks sent on in the packet that brought them */
	RAR_A_LINK_INFLIGHT,	/* u32, next: chunks not acknowledged */
	RAR_A_LINK_CWND,	/* u32, next: link window, chunks */
	RAR_A_LINK_SRTT_US,	/* u32, next: smoothed round trip, 0 = none measured */
	RAR_A_LINK_RTO_US,	/* u32, next: retransmission timeout */
	RAR_A_LINK_MTU,		/* u32, next: bytes */
	RAR_A_LINK_PAD,
	RAR_A_LINK_USER_RANK,	/* u32, the neighbour's RAR_USER_RANK; absent if the same, or not
				 * known yet
				 */
	RAR_A_LINK_LANES_OUT,	/* u32, next: bit n: no chunks leave from the n-th port after the
				 * first, as packets from there get lost
				 */
	RAR_A_LINK_RAILS,	/* u32, next: pairs of addresses by which packets go, RAR_RAIL */

	__RAR_A_LINK_MAX,
	RAR_A_LINK_MAX = (__RAR_A_LINK_MAX - 1)
};

/* An aggregation box of a group, as a member sees it. */
enum rar_a_box {
	RAR_A_BOX_ADDR = 1,	/* enum rar_a_addr */
	RAR_A_BOX_STATE,	/* u32, enum rar_box_state */
	RAR_A_BOX_SUMS,		/* u64, chunks whose sum came from the box */
	RAR_A_BOX_RING_SUMS,	/* u64, chunks of its share of operations that the ring summed */
	RAR_A_BOX_PAD,
	RAR_A_BOX_REASON,	/* u32, enum rar_reason, why a group with RAR_SECURITY is not there;
				 * absent if not known
				 */

	__RAR_A_BOX_MAX,
	RAR_A_BOX_MAX = (__RAR_A_BOX_MAX - 1)
};

enum rar_a_member {
	RAR_A_MEMBER_GROUP = 1,	/* u64 */
	RAR_A_MEMBER_RANK,	/* u32, 0 .. RAR_MAX_SIZE - 1 */
	RAR_A_MEMBER_SIZE,	/* u32, ranks in the group */
	RAR_A_MEMBER_STATE,	/* u32, enum rar_state */
	RAR_A_MEMBER_HOLDER,	/* u32, enum rar_holder */
	RAR_A_MEMBER_UID,	/* u32, the user, as the reader's user namespace sees it */
	RAR_A_MEMBER_SCHEDULE,	/* u32, enum rar_schedule */
	RAR_A_MEMBER_RX_PATH,	/* u32, enum rar_rx_path in use */
	RAR_A_MEMBER_PAYLOAD,	/* u32, bytes of data in a packet; 0 before the ring is closed */
	RAR_A_MEMBER_OPS_POSTED, /* u64, operations posted in this epoch */
	RAR_A_MEMBER_OPS_COMPLETE, /* u64 */
	RAR_A_MEMBER_OPS_RELEASED, /* u64, whose buffer no rank needs any more */
	RAR_A_MEMBER_EARLY_BYTES, /* u64, of packets held for operations not yet posted here */
	RAR_A_MEMBER_SLOW_RANK,	/* u32, kept the group waiting most; absent if no rank did */
	RAR_A_MEMBER_SLOW_MS,	/* u32, time for which it did; absent if no rank did */
	RAR_A_MEMBER_LINK,	/* enum rar_a_link, one for each neighbour */
	RAR_A_MEMBER_ERROR,	/* enum rar_a_error; absent if nothing failed */
	RAR_A_MEMBER_PAD,
	RAR_A_MEMBER_BOX,	/* enum rar_a_box, one for each box of the group */
	RAR_A_MEMBER_USER_RANK,	/* u32, RAR_USER_RANK; absent if it is the rank */
	RAR_A_MEMBER_SLOW_USER_RANK, /* u32, that of the slow rank; absent if the same */
	RAR_A_MEMBER_SECURITY,	/* u32, enum rar_security */

	__RAR_A_MEMBER_MAX,
	RAR_A_MEMBER_MAX = (__RAR_A_MEMBER_MAX - 1)
};

/* An operation that was posted and that some rank may still need. */
enum rar_a_op {
	RAR_A_OP_GROUP = 1,	/* u64 */
	RAR_A_OP_RANK,		/* u32, 0 .. RAR_MAX_SIZE - 1 */
	RAR_A_OP_SEQ,		/* u64, its number in this epoch, from 0 */
	RAR_A_OP_COLLECTIVE,	/* u32, enum rar_collective */
	RAR_A_OP_DTYPE,		/* u32, enum rar_dtype, 0 = none */
	RAR_A_OP_REDOP,		/* u32, enum rar_redop, 0 = none */
	RAR_A_OP_FLAGS,		/* u32, RAR_OPF_* */
	RAR_A_OP_ROOT,		/* u32, of a rooted collective, else 0 */
	RAR_A_OP_COUNT,		/* u64, elements of the tensor */
	RAR_A_OP_AGE_US,	/* u64, time since it was posted */
	RAR_A_OP_LEFT,		/* u32, chunks that have yet to come; 0 = complete */
	RAR_A_OP_OWED,		/* u32, transmissions that the successor needs in all */
	RAR_A_OP_ACKED,		/* u32, those that it has acknowledged */
	RAR_A_OP_PAD,

	__RAR_A_OP_MAX,
	RAR_A_OP_MAX = (__RAR_A_OP_MAX - 1)
};

enum rar_a_net {
	RAR_A_NET_FAMILY = 1,	/* u32, number of the address family */
	RAR_A_NET_WIRE,		/* u32, protocol version */
	RAR_A_NET_MEMBERS,	/* u32, members with a socket */
	RAR_A_NET_MEM,		/* u64, bytes of operation buffers */
	RAR_A_NET_RESUME,	/* u32, failed epochs that processes remember */
	RAR_A_NET_PAD,

	__RAR_A_NET_MAX,
	RAR_A_NET_MAX = (__RAR_A_NET_MAX - 1)
};

enum rar_a_counter {
	RAR_A_COUNTER_NAME = 1,	/* string, as in /proc/net/rar_netstat */
	RAR_A_COUNTER_VALUE,	/* u64 */
	RAR_A_COUNTER_PAD,

	__RAR_A_COUNTER_MAX,
	RAR_A_COUNTER_MAX = (__RAR_A_COUNTER_MAX - 1)
};

enum rar_a_setting {
	RAR_A_SETTING_NAME = 1,	/* string, as in /proc/sys/net/rar */
	RAR_A_SETTING_VALUE,	/* u64; absent if the value is a word */
	RAR_A_SETTING_TEXT,	/* string, the word; absent if the value is a number */
	RAR_A_SETTING_PAD,

	__RAR_A_SETTING_MAX,
	RAR_A_SETTING_MAX = (__RAR_A_SETTING_MAX - 1)
};

enum rar_a_box_key {
	RAR_A_BOX_KEY_BYTES = 1, /* binary, 16 or 32 bytes; absent: the box has no key any more */

	__RAR_A_BOX_KEY_MAX,
	RAR_A_BOX_KEY_MAX = (__RAR_A_BOX_KEY_MAX - 1)
};

enum rar_a_event {
	RAR_A_EVENT_KIND = 1,	/* u32, enum rar_event */
	RAR_A_EVENT_GROUP,	/* u64 */
	RAR_A_EVENT_RANK,	/* u32, the member to which it happened */
	RAR_A_EVENT_SIZE,	/* u32, ranks in the group */
	RAR_A_EVENT_ERROR,	/* enum rar_a_error; of failures only */
	RAR_A_EVENT_PAD,
	RAR_A_EVENT_USER_RANK,	/* u32, RAR_USER_RANK; absent if it is the rank */

	__RAR_A_EVENT_MAX,
	RAR_A_EVENT_MAX = (__RAR_A_EVENT_MAX - 1)
};

#endif /* _UAPI_LINUX_RAR_NETLINK_H */
