/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * AF_RAR: all-reduce through a socket.
 *
 *	int fd = socket(AF_RAR, SOCK_SEQPACKET, 0);
 *	bind(fd, self);		local address, group, own rank, size
 *	connect(fd, next);	the successor; returns when the ring is closed
 *	send(fd, x, len, 0);	one record is one all-reduce
 *	recv(fd, x, len, 0);	the group's sum, in the order of send
 *
 * All fields are in host byte order unless they are declared __be.
 * Fields and bits that are not named here must be zero (EINVAL otherwise).
 */
#ifndef _UAPI_LINUX_RAR_H
#define _UAPI_LINUX_RAR_H

#include <linux/types.h>
#include <linux/socket.h>

/*
 * AF_MAX is closed to modules, so the family takes a number that Linux reserved
 * and never implemented. The module parameter family= sets another number; the
 * first line of /proc/net/rar shows it.
 */
#ifndef AF_RAR
#define AF_RAR		22	/* AF_SNA */
#define PF_RAR		AF_RAR
#endif

#define SOL_RAR		522	/* level of all options and control messages */

#define RAR_DEFAULT_PORT 18118	/* UDP port, default of net.rar.port */
#define RAR_MAX_SIZE	4096	/* ranks in a group */
#define RAR_NO_RANK	0xffffffffU
#define RAR_NO_BYTES	0xffffffffU
#define RAR_MAX_OPS	64	/* operations of one socket in flight */
#define RAR_MAX_CALL	(1U << 30) /* bytes one send() may carry */
#define RAR_DEFAULT_PRIORITY 128 /* of RAR_PRIORITY */

/**
 * struct sockaddr_rar - a member's address
 * @srar_family:  AF_RAR
 * @srar_port:    UDP port, network order; 0 = net.rar.port
 * @srar_af:      AF_INET, AF_INET6, or 0 in bind(): take the source address of
 *                the route to the successor
 * @srar_scope_id: interface index of an IPv6 link-local address, else 0
 * @srar_rank:    0 .. size - 1
 * @srar_size:    members of the group, 1 .. RAR_MAX_SIZE
 * @srar_group:   group id chosen by the user
 * @srar_addr:    IPv4 in the first four bytes, or IPv6; all zero = any
 * @__srar_pad0:  zero
 * @__srar_pad1:  zero
 * @__srar_zero:  zero
 *
 * Python: struct.pack("=H2sHHIIIIQ16s16x", AF_RAR, port.to_bytes(2, "big"),
 *                     af, 0, scope_id, rank, size, 0, group, addr)
 */
struct sockaddr_rar {
	__kernel_sa_family_t srar_family;
	__be16	srar_port;
	__u16	srar_af;
	__u16	__srar_pad0;
	__u32	srar_scope_id;
	__u32	srar_rank;
	__u32	srar_size;
	__u32	__srar_pad1;
	__u64	srar_group;
	__u8	srar_addr[16];
	__u8	__srar_zero[16];
};

/* Socket options, level SOL_RAR. */
#define RAR_JOIN	1  /* set: struct rar_join; bind + connect, no wait */
#define RAR_DTYPE	2  /* get/set: __u32, enum rar_dtype, default of send */
#define RAR_REDOP	3  /* get/set: __u32, enum rar_redop, default of send */
#define RAR_OP_TIMEOUT	4  /* get/set: __u32 ms per operation, 0 = for ever */
#define RAR_OWNER	5  /* get/set: __s32 pid that the member belongs to;
			    * set 0 = the caller
			    */
#define RAR_ABORT	6  /* set: __u32, 0; fail the group for all members */
#define RAR_ERROR	7  /* get: struct rar_error */
#define RAR_INFO	8  /* get: struct rar_info */
#define RAR_PEERS	9  /* get: array of struct rar_peer, by rank */
#define RAR_CAPS	10 /* get: struct rar_caps */
#define RAR_REG		11 /* set: struct rar_reg; pin memory for many operations */
#define RAR_UNREG	12 /* set: struct rar_reg; undo RAR_REG */
#define RAR_SCHEDULE	13 /* get/set: __u32, enum rar_schedule, before connect;
			    * all members must use the same value
			    */
#define RAR_PREV_ADDR	14 /* get/set: struct sockaddr_rar, the predecessor's
			    * address; before connect; length 0: any address
			    */
#define RAR_KEY		15 /* set: RAR_KEY_LEN or RAR_KEY_LONG bytes, before connect; all
			    * members must use the same key; length 0, or all zero: none
			    */
#define RAR_CANCEL	16 /* set: __u32, 0; drops a record begun with MSG_MORE */
#define RAR_NONEMPTY	17 /* get/set: __u32, 0 or 1; 1: an empty result is delivered
			    * as a record of one zero byte, so that a read of 0
			    * bytes always means end of file
			    */
#define RAR_PEERS_FROM	18 /* get/set: __u32; the first rank that RAR_PEERS returns */

#define RAR_BOX		19 /* get/set: struct sockaddr_rar, the address of an
			    * aggregation box, of which rank and size do not count;
			    * before connect; af 0: none, not even one that offers
			    * itself; length 0: net.rar.box. Up to RAR_MAX_BOXES of
			    * them: boxes side by side, all IPv4 or all IPv6, which
			    * divide each operation. The value of rank 0 holds for
			    * the group. E2BIG: too many; EEXIST: one is named twice
			    */
#define RAR_PRIORITY	20 /* get/set: __u32, 1 .. 255; priority, at an aggregation box,
			    * of operations sent from now on; a higher one is more urgent
			    */

#define RAR_USER_RANK	21 /* get/set: __u32, 0 .. RAR_MAX_USER_RANK, before connect: the number by
			    * which the program knows this rank; RAR_NO_RANK: its own rank
			    */

#define RAR_BOX_WAIT	22 /* get/set: __u32 ms, before connect: for how long connect() and POLLOUT
			    * wait, once the ring is closed, until all boxes of the group are open
			    */

#define RAR_SECURITY	23 /* get/set: __u32, enum rar_security, before connect; all members
			    * must use the same value. connect() fails with ENOKEY without a
			    * RAR_KEY
			    */

#define RAR_RAIL	24 /* get/set: struct sockaddr_rar, further own addresses, up
			    * to RAR_MAX_RAILS of them, of which rank, size and port
			    * do not count; before connect; length 0: none. The n-th
			    * exchanges packets with the n-th of each other rank that
			    * has so many. E2BIG: too many; EEXIST: one is named
			    * twice; connect() fails with EADDRNOTAVAIL if one is no
			    * address of this host, and with EINVAL if one has
			    * another family than the successor, or is the address
			    * of bind()
			    */

#define RAR_BOX_KEY	25 /* set: RAR_KEY_LEN or RAR_KEY_LONG bytes, before connect: the key of the
			    * aggregation boxes, without which a group with RAR_SECURITY uses none;
			    * length 0, or all zero: none
			    */

#define RAR_MAX_USER_RANK 65535
#define RAR_MAX_BOXES	4
#define RAR_MAX_RAILS	7
#define RAR_KEY_LEN	16
#define RAR_KEY_LONG	32

/* Control messages, level SOL_RAR. */
#define RAR_OP		32 /* sendmsg: struct rar_op */
#define RAR_DONE	33 /* recvmsg: struct rar_done */

/* Flags of struct rar_reg. */
#define RAR_REG_READ	1	/* operations only read this memory, which may be read-only */

/**
 * struct rar_reg - argument of RAR_REG and RAR_UNREG
 * @addr: memory of the caller that may be written to, or with RAR_REG_READ read
 * @len:  bytes, not 0
 * @flags: 0 or RAR_REG_READ; ignored by RAR_UNREG
 * @__pad: 0
 *
 * The pages stay pinned, and charged to RLIMIT_MEMLOCK, until RAR_UNREG with the same
 * address and length or close(). An operation with MSG_ZEROCOPY uses these pages if its
 * memory, or a whole iovec of it, lies in one region. So unregister memory before you unmap
 * it. The first two fields alone are enough.
 *
 * Python: struct "=QQI4x"
 */
struct rar_reg {
	__u64	addr;
	__u64	len;
	__u32	flags;
	__u32	__pad;
};

#define RAR_COUNTERS_VERSION 1

/**
 * struct rar_counters - the page that mmap() of a socket shows
 * @version:  RAR_COUNTERS_VERSION
 * @size:     bytes of this structure that the kernel fills; new fields are appended
 * @members:  grows when the socket gets another member, by bind() or by joining again after a
 *            failure; then the counters begin at 0
 * @error:    0, or the positive errno with which the group failed
 * @posted:   operations that send() has posted
 * @complete: operations complete, in any order
 * @ready:    operation n, counted from 0, has a result that recv() would return without
 *            waiting, or has returned, if n < @ready
 * @delivered: operations whose results were read
 *
 * The kernel writes @error and @ready with release semantics. After a load of @ready with
 * acquire semantics, the memory of the operations in place below it holds the sums. For a moment
 * @delivered may be the larger one: @ready - @delivered results wait for recv(), none if that is
 * negative. Load @ready first: then it counts no result that a send() waited for.
 *
 * Python: struct "=4I4Q"
 */
struct rar_counters {
	__u32	version;
	__u32	size;
	__u32	members;
	__u32	error;
	__u64	posted;
	__u64	complete;
	__u64	ready;
	__u64	delivered;
};

/**
 * struct rar_join - argument of RAR_JOIN
 * @self: as for bind()
 * @next: as for connect()
 * @prev: as for RAR_PREV_ADDR; family 0: use the option's value
 * @key:  as for RAR_KEY, RAR_KEY_LEN bytes; all zero: use the option's value
 * @timeout_ms: time in which the ring must be closed; 0: SO_SNDTIMEO or net.rar.join_ms
 * @flags: 0 (no flag is defined yet)
 * @__host: 0
 * @__user_rank: 0
 * @__pad: 0
 *
 * For languages whose sockets refuse addresses of unknown families. Never
 * blocks: POLLOUT or SO_ERROR tell how the join ended. The first two fields
 * alone are enough. A longer argument is accepted if the rest is zero.
 *
 * Python: struct "=64s64s64s16sIIQI4x"
 */
struct rar_join {
	struct sockaddr_rar self;
	struct sockaddr_rar next;
	struct sockaddr_rar prev;
	__u8	key[RAR_KEY_LEN];
	__u32	timeout_ms;
	__u32	flags;
	__u64	__host;
	__u32	__user_rank;
	__u32	__pad;
};

/**
 * enum rar_collective - what N ranks do with a tensor of S bytes
 * @RAR_ALLREDUCE: each sends S, and gets the sum
 * @RAR_BROADCAST: the root sends S, the others nothing; each gets S
 * @RAR_REDUCE: each sends S; the root gets the sum, the others an empty record
 * @RAR_REDUCE_SCATTER: each sends S, and gets block rank of N of the sum
 * @RAR_ALLGATHER: each sends S/N, and gets all of them, by rank
 * @RAR_BARRIER: nothing; it is complete when all have sent it
 * @RAR_REDUCE_BY_KEY: each sends records, as many as it likes, in any number of calls; the root
 *                     gets one record for each key, in no particular order, and the others an
 *                     empty record. S is the memory for the root's records. A record is a key of
 *                     rar_op.key bytes and an integer, of 4 or 8 bytes, without a gap
 * @RAR_COLLECTIVE_NR: how many there are
 */
enum rar_collective {
	RAR_ALLREDUCE	= 1,
	RAR_BROADCAST,
	RAR_REDUCE,
	RAR_REDUCE_SCATTER,
	RAR_ALLGATHER,
	RAR_BARRIER,
	RAR_REDUCE_BY_KEY,
	RAR_COLLECTIVE_NR
};

/**
 * enum rar_schedule - how ranks add: who sends what to whom, and in which order
 * @RAR_BY_RANKS: the ring: block b of N starts at rank b
 * @RAR_BY_HOSTS: the ranks of a host, which follow one another and have the same
 *                address, add in memory before a sum leaves the host: block b starts at
 *                the first rank of host b. For several ranks on each of several hosts.
 *                Network namespaces of one kernel with net.rar.one_host=1 are one host, too.
 * @RAR_AUTO:     the way with the fewest hops that the length of an operation and the number
 *                of ranks allow: directly, by doubling, or by the ring. For ranks on several
 *                hosts.
 * @RAR_DIRECT:   RAR_BY_RANKS, but for an all-reduce, or barrier, of up to 8 KiB in a group of
 *                up to 16 ranks each rank sends what it contributes straight to every other
 *                rank, and adds what all have sent: a single hop. So does the root of a
 *                broadcast, and each rank with its share of an all-gather. Every rank must reach
 *                every other rank at the address that RAR_PEERS tells.
 * @RAR_DOUBLING: RAR_BY_RANKS, but a short all-reduce, reduction to a root, or barrier goes by
 *                recursive doubling, and a short broadcast by a tree, up to 8 to 64 KiB, as N is
 *                (doubling_bytes of struct rar_info): the hops are log2 N, or that rounded down
 *                and two more, in a group of any size. A longer all-reduce may go by recursive
 *                halving, in twice log2 N hops, rounded up (halving_bytes). All-gathers and
 *                reduce-scatters take half as many (gather_bytes, scatter_bytes). Every rank
 *                must reach log2 N others, or up to 4 log2 N if N is no power of two, at the
 *                addresses that RAR_PEERS tells.
 * @RAR_SCHEDULE_NR: number of schedules
 *
 * The schedule decides the order of the additions, and so the bits of floating point
 * sums. With RAR_BY_HOSTS they also depend on which ranks are on which host. RAR_DIRECT gives
 * the bits of RAR_BY_RANKS. With RAR_DOUBLING the sum of the lower half of the ranks and the
 * sum of the upper half are added, and each of them in the same way, whatever the root, and by
 * halving as well. But a reduce-scatter by halving adds the sum of the even ranks and the sum of
 * the odd ranks, and each of them in the same way; if N is no power of two, each share in an order
 * that depends on its rank. With RAR_AUTO the bits of sums that go directly are those of ranks that
 * add in rank order, whatever the length; all other sums have the bits of RAR_DOUBLING. The way of
 * an operation follows from its length and the number of ranks alone, never from a time. But if a
 * pair of ranks cannot reach each other, the bits are as with RAR_BY_RANKS, and direct_bytes and
 * doubling_bytes of struct rar_info tell.
 * RAR_OPF_IN_ORDER, RAR_OPF_EXACT and RAR_OPF_QUANT make it independent of that.
 */
enum rar_schedule {
	RAR_BY_RANKS,
	RAR_BY_HOSTS,
	RAR_AUTO,
	RAR_DIRECT,
	RAR_DOUBLING,
	RAR_SCHEDULE_NR
};

/**
 * enum rar_security - what a stranger, who does not have RAR_KEY, can do on the network
 * @RAR_SECURITY_OFF:  whoever sees the packets can read them and send others in their place;
 *                     RAR_KEY keeps such a host out of the join only
 * @RAR_SECURITY_AUTH: whoever sees the packets can read them. Each packet has a seal, so nobody
 *                     without the key can send, change or repeat one
 * @RAR_SECURITY_ENCRYPT: whoever sees the packets sees the headers, and no elements. Each packet
 *                     has a seal
 * @RAR_SECURITY_NR:   number of levels
 */
enum rar_security {
	RAR_SECURITY_OFF,
	RAR_SECURITY_AUTH,
	RAR_SECURITY_ENCRYPT,
	RAR_SECURITY_NR
};

/**
 * enum rar_dtype - type of an element, in the byte order of the host
 * @RAR_F32:  IEEE 754 binary32
 * @RAR_F64:  IEEE 754 binary64
 * @RAR_I32:  signed integer, 32 bits
 * @RAR_I64:  signed integer, 64 bits
 * @RAR_I8:   signed integer, 8 bits
 * @RAR_U8:   unsigned integer, 8 bits
 * @RAR_I16:  signed integer, 16 bits
 * @RAR_U16:  unsigned integer, 16 bits
 * @RAR_U32:  unsigned integer, 32 bits
 * @RAR_U64:  unsigned integer, 64 bits
 * @RAR_F16:  IEEE 754 binary16
 * @RAR_BF16: bfloat16, the upper half of a binary32
 * @RAR_DTYPE_NR: first unused value
 */
enum rar_dtype {
	RAR_F32		= 1,
	RAR_F64,
	RAR_I32,
	RAR_I64,
	RAR_I8,
	RAR_U8,
	RAR_I16,
	RAR_U16,
	RAR_U32,
	RAR_U64,
	RAR_F16,
	RAR_BF16,
	RAR_DTYPE_NR
};

/**
 * enum rar_redop - reduction of two elements
 * @RAR_SUM:  all types; integers wrap, each member rounds floats to nearest even
 * @RAR_PROD: as RAR_SUM
 * @RAR_MIN:  all types; a NaN wins and becomes quiet, -0 is below +0
 * @RAR_MAX:  as RAR_MIN
 * @RAR_BAND: integers only: bitwise and
 * @RAR_BOR:  integers only: bitwise or
 * @RAR_BXOR: integers only: bitwise exclusive or
 * @RAR_LAND: integers only: 1 if both are not 0, else 0
 * @RAR_LOR:  integers only: 1 if one or both are not 0, else 0
 * @RAR_LXOR: integers only: 1 if exactly one is not 0, else 0
 * @RAR_AVG:  all types; as RAR_SUM, then divided by the number of ranks and rounded once,
 *            integers towards zero; unchanged in a group of one
 * @RAR_REDOP_NR: first unused value
 *
 * struct rar_caps tells what all members of a group support.
 */
enum rar_redop {
	RAR_SUM		= 1,
	RAR_PROD,
	RAR_MIN,
	RAR_MAX,
	RAR_BAND,
	RAR_BOR,
	RAR_BXOR,
	RAR_LAND,
	RAR_LOR,
	RAR_LXOR,
	RAR_AVG,
	RAR_REDOP_NR
};

/*
 * struct rar_op.flags: how the ranks do the operation. rar_caps.dtypes[0] tells the flags that
 * all members know.
 */
#define RAR_OPF_IN_ORDER	0x40	/* all-reduce: add in the order of the ranks everywhere */
#define RAR_OPF_WIDE		0x20	/* 16-bit floats: add as f32, round the result once */
#define RAR_OPF_EXACT		0x10	/* all-reduce of f32: the order of addition has no effect */
#define RAR_OPF_QUANT		0x02	/* the same, as 32-bit integers: rounded more */

/**
 * struct rar_op - the operation that a send() asks for
 * @size:       sizeof(struct rar_op), or 40 without the fields after @dst; a larger size is
 *              accepted if the rest is zero
 * @collective: enum rar_collective, 0 = RAR_ALLREDUCE
 * @dtype:      enum rar_dtype, 0 = the socket's default
 * @redop:      enum rar_redop, 0 = the socket's default
 * @key:        RAR_REDUCE_BY_KEY: bytes of a key: 8, 16 or 32; else 0
 * @root:       root rank of rooted collectives, else 0
 * @flags:      RAR_OPF_*; all ranks must pass the same flags
 * @bytes:      S, the length of the tensor; required with MSG_MORE and where the caller
 *              sends less of it, and with RAR_REDUCE_BY_KEY, else 0 or the length of the call
 * @cookie:     chosen by the user, returned in struct rar_done
 * @dst:        0, or the address where the result goes. With MSG_ZEROCOPY: S bytes, and not with
 *              RAR_REDUCE, RAR_REDUCE_SCATTER and RAR_BARRIER. Without: as many bytes as recv()
 *              would return, and send() returns when they are there. Then EBUSY: results
 *              of earlier operations are not read; EINPROGRESS: a signal came, SO_RCVTIMEO passed,
 *              MSG_DONTWAIT, or the memory went away: recv() delivers the result; EINVAL: with
 *              MSG_MORE or RAR_REDUCE_BY_KEY
 * @prio:       1 .. 255: priority at a box, instead of RAR_PRIORITY; 0: that. Ranks may differ
 * @__pad:      zero
 *
 * Only the first call of a record takes it.
 *
 * Python: struct "=IBBBBIIQQQB7x"
 */
struct rar_op {
	__u32	size;
	__u8	collective;
	__u8	dtype;
	__u8	redop;
	__u8	key;
	__u32	root;
	__u32	flags;
	__u64	bytes;
	__u64	cookie;
	__u64	dst;
	__u8	prio;
	__u8	__pad[7];
};

/**
 * struct rar_done - delivered with the last piece (MSG_EOR) of a result
 * @size:         sizeof(struct rar_done)
 * @status:       0 or a positive errno
 * @contributors: ranks whose data are in the result
 * @flags:        RAR_DONE_*
 * @cookie:       the operation's, from struct rar_op, else 0
 * @op_seq:       number of the operation in this epoch, from 0
 *
 * Python: struct "=IiIIQQ"
 */
struct rar_done {
	__u32	size;
	__s32	status;
	__u32	contributors;
	__u32	flags;
	__u64	cookie;
	__u64	op_seq;
};

/* Flags of struct rar_done. */
#define RAR_DONE_PARTIAL	1	/* RAR_REDUCE_BY_KEY: a key may be in several records, since
					 * not all keys had room. Reduce these records to one.
					 */

/* Why a group failed: struct rar_error.reason. */
enum rar_reason {
	RAR_R_NONE,
	RAR_R_CLOSED,		/* @rank closed with operations unfinished */
	RAR_R_DIED,		/* the process of @rank exited without close() */
	RAR_R_SILENT,		/* nothing heard from @rank for @silent_ms */
	RAR_R_LEFT,		/* @rank closed or shut down before @op_seq */
	RAR_R_RESET,		/* @rank does not know this epoch (restarted) */
	RAR_R_ABORTED,		/* @rank called RAR_ABORT, or its administrator ended it */
	RAR_R_TIMEOUT,		/* RAR_OP_TIMEOUT passed; @rank has not posted */
	RAR_R_JOIN_TIMEOUT,	/* the ring was not closed in time */
	RAR_R_DUPLICATE,	/* @other holds @rank for another member */
	RAR_R_SIZE,		/* @rank and @other disagree about the size */
	RAR_R_VERSION,		/* ... about the protocol version */
	RAR_R_TABLE,		/* ... about the table of members */
	RAR_R_COLLECTIVE,	/* ... about the collective of @op_seq */
	RAR_R_DTYPE,		/* ... about the element type of @op_seq */
	RAR_R_REDOP,		/* ... about the reduction of @op_seq */
	RAR_R_COUNT,		/* ... about the number of elements of @op_seq */
	RAR_R_ROOT,		/* ... about the root of @op_seq */
	RAR_R_FLAGS,		/* ... about the flags of @op_seq */
	RAR_R_MTU,		/* a full-size packet does not pass @rank -> @other */
	RAR_R_NODEV,		/* the device to @other went away at @rank */
	RAR_R_FAULT,		/* a fault while copying in at @rank */
	RAR_R_SCHEDULE,		/* @rank and @other disagree about RAR_SCHEDULE */
	RAR_R_KEY,		/* @rank and @other have different keys, or only one has a key */
	RAR_R_PREV,		/* @other expects @rank at another address */
	RAR_R_NOMEM,		/* no memory at @rank for @op_seq: limits of the host */
	RAR_R_BYTE_ORDER,	/* @rank is big endian, @other is not */
	RAR_R_STALLED,		/* the host of @rank stood still for @silent_ms */
	RAR_R_SECURITY,		/* @rank and @other disagree about RAR_SECURITY */
	RAR_R_NR
};

/**
 * struct rar_error - the error of a group; the first error stays
 * @err:       positive errno, 0 = none
 * @reason:    enum rar_reason
 * @rank:      rank that the reason names; RAR_NO_RANK: a neighbour named a rank that
 *             does not exist
 * @other:     second rank of a pair, else equal to @rank
 * @op_seq:    the operation concerned, else 0
 * @cookie:    cookie of that operation at this rank, else 0
 * @silent_ms: time for which the neighbour had been silent, or the host stood still
 * @user_rank: RAR_USER_RANK of @rank; RAR_NO_RANK if not known here: the ring was never closed
 * @addr:      address of @rank, all zero if not known here
 * @value:     EBADMSG because of an operation: what @rank passed there, an enum, flags, or a number
 *             of elements; else 0
 * @other_value: what @other passed there; the same as @value if both are not known
 *
 * Python: struct "=iIIIQQII64sQQ"
 */
struct rar_error {
	__s32	err;
	__u32	reason;
	__u32	rank;
	__u32	other;
	__u64	op_seq;
	__u64	cookie;
	__u32	silent_ms;
	__u32	user_rank;
	struct sockaddr_rar addr;
	__u64	value;
	__u64	other_value;
};

/* struct rar_info.state */
enum rar_state {
	RAR_S_UNBOUND,
	RAR_S_BOUND,
	RAR_S_JOINING,		/* looking for the neighbours */
	RAR_S_READY,		/* epoch proposed, waiting for the commit */
	RAR_S_RUN,
	RAR_S_LEAVING,		/* shut down or closed, other ranks may need this one */
	RAR_S_FAILED,
	RAR_S_NR
};

/*
 * struct rar_info.rx_path is one of the first three; net.rar.rx_path may be RAR_PATH_AUTO, too:
 * RAR_PATH_UDP while the network namespace has rules for the host's input, else RAR_PATH_INGRESS.
 */
enum rar_rx_path {
	RAR_PATH_INGRESS,
	RAR_PATH_UDP,
	RAR_PATH_XDP,
	RAR_PATH_AUTO,
	RAR_PATH_NR
};

/* struct rar_info.lack */
enum rar_lack {
	RAR_LACK_NONE,
	RAR_LACK_RESULTS,	/* results are complete and not read: recv() makes room */
	RAR_LACK_NET,		/* net.rar.mem, or the user's share of it */
	RAR_LACK_HOST,		/* max_mem of the module, or the user's share of it */
	RAR_LACK_MEMLOCK,	/* RLIMIT_MEMLOCK */
	RAR_LACK_REGIONS,	/* RAR_REG: the socket has too many regions */
	RAR_LACK_KERNEL,	/* memory of the caller's memory cgroup, or of the machine */
	RAR_LACK_NR
};

/* struct rar_info.box_state */
enum rar_box_state {
	RAR_BOX_NONE,		/* the group has no box */
	RAR_BOX_AWAY,		/* the box is not reached, or not by all members */
	RAR_BOX_OPEN,
	RAR_BOX_NR
};

/**
 * struct rar_box_info - a box of a group, as a rank sees it
 * @state:     enum rar_box_state
 * @reason:    enum rar_reason: why a group with RAR_SECURITY is not at the box, as far as known:
 *             RAR_R_KEY: the box has another key, or this rank has no RAR_BOX_KEY; RAR_R_SECURITY:
 *             the box has no key; else RAR_R_NONE. If this rank names boxes, and they were not
 *             proposed as it has no RAR_BOX_KEY, the first one's is RAR_R_KEY, and its state
 *             RAR_BOX_NONE
 * @sums:      as rar_info.box_sums, of the share of this box
 * @ring_sums: as rar_info.ring_sums, of the share of this box
 * @addr:      as rar_info.box
 *
 * Python: struct "=2I2Q64s"
 */
struct rar_box_info {
	__u32	state;
	__u32	reason;
	__u64	sums;
	__u64	ring_sums;
	struct sockaddr_rar addr;
};

/**
 * struct rar_info - state and statistics of a member; new fields are appended
 * @state:        enum rar_state
 * @rx_path:      enum rar_rx_path in use
 * @rank:         own rank
 * @size:         members of the group
 * @group:        group id
 * @epoch:        epoch id; 0 before the ring is closed
 * @payload:      bytes of tensor data a packet carries in this epoch
 * @mtu:          MTU towards the successor, bytes
 * @mtu_rank:     rank whose link limits @payload for all
 * @srtt_us:      smoothed round trip to the successor, 0 = none measured
 * @rto_us:       retransmission timeout to the successor
 * @window:       injection window, bytes
 * @inflight:     packets sent to the successor and not acknowledged
 * @ops_posted:   operations posted
 * @ops_complete: operations complete
 * @ops_released: operations whose buffer no rank needs any more
 * @bytes_tx:     payload bytes sent, with retransmissions
 * @bytes_rx:     payload bytes accepted, without duplicates
 * @packets_tx:   data packets sent
 * @packets_rx:   data packets accepted
 * @retransmits:  data packets sent again
 * @prev_wait_us: time that operations waited for packets from the predecessor
 * @next_wait_us: time that chunks waited for the successor (credit or window)
 * @prev_silent_ms: time since the last packet from the predecessor
 * @next_silent_ms: time since the last packet from the successor
 * @early_bytes:  memory held for operations not yet posted here, bytes
 * @resume_op:    lowest operation of @resume_epoch that is not complete on every
 *                member that was in that epoch
 * @resume_epoch: failed epoch that the members of this epoch have in common;
 *                0 = none, or the members come from different epochs
 * @slow_rank:    straggler: the rank that kept the group waiting most in this
 *                epoch; RAR_NO_RANK = none
 * @slow_ms:      time @slow_rank took, over all operations, from hearing of an
 *                operation to posting it
 * @cwnd:         link window, chunks
 * @hosts:        number of hosts with RAR_BY_HOSTS, else 0
 * @direct_bytes: bytes of the longest all-reduce, broadcast or all-gather that is exchanged
 *                directly; RAR_NO_BYTES = none is
 * @doubling_bytes: bytes of the longest all-reduce or reduction to a root that goes by doubling,
 *                and of the longest broadcast that goes by a tree; RAR_NO_BYTES = none does
 * @halving_bytes: bytes of the longest all-reduce that goes by halving; RAR_NO_BYTES = none does
 * @forwarded:    data packets sent on in the packet that brought them
 * @box_state:    enum rar_box_state, of the first box
 * @security:     enum rar_security
 * @box_sums:     chunks whose sum came from a box, or that came from there in a broadcast; at its
 *                root, that the box has sent to all others; of a reduction to a root, at other
 *                ranks, that the box has summed
 * @ring_sums:    chunks of the same operations that came, or whose sum was made, by the ring
 * @box:          address of the first box: the one that this rank is at, or while it is at none the
 *                group's; all zero = none
 * @user_rank:    own RAR_USER_RANK
 * @slow_user_rank: that of @slow_rank; RAR_NO_RANK = none
 * @nboxes:       boxes of the group, of which each makes a share of the sums
 * @lack:         enum rar_lack: why the last call of this socket that failed with ENOBUFS, or for
 *                lack of memory with EAGAIN, did so
 * @boxes:        the boxes, in their order
 * @rails:        pairs of addresses by which packets go to the successor; see RAR_RAIL
 * @__pad:        zero
 * @gather_bytes: bytes of the longest all-gather that takes few hops: directly, by doubling or by
 *                halving; RAR_NO_BYTES = none does
 * @scatter_bytes: the same of a reduce-scatter
 *
 * Python: struct "=4I2Q8I10Q2I3Q6IQ2I2Q64s4I352sI4x2I", with RAR_MAX_BOXES of
 * struct rar_box_info before @rails
 */
struct rar_info {
	__u32	state;
	__u32	rx_path;
	__u32	rank;
	__u32	size;
	__u64	group;
	__u64	epoch;
	__u32	payload;
	__u32	mtu;
	__u32	mtu_rank;
	__u32	srtt_us;
	__u32	rto_us;
	__u32	window;
	__u32	inflight;
	__u32	halving_bytes;
	__u64	ops_posted;
	__u64	ops_complete;
	__u64	ops_released;
	__u64	bytes_tx;
	__u64	bytes_rx;
	__u64	packets_tx;
	__u64	packets_rx;
	__u64	retransmits;
	__u64	prev_wait_us;
	__u64	next_wait_us;
	__u32	prev_silent_ms;
	__u32	next_silent_ms;
	__u64	early_bytes;
	__u64	resume_op;
	__u64	resume_epoch;
	__u32	slow_rank;
	__u32	slow_ms;
	__u32	cwnd;
	__u32	hosts;
	__u32	direct_bytes;
	__u32	doubling_bytes;
	__u64	forwarded;
	__u32	box_state;
	__u32	security;
	__u64	box_sums;
	__u64	ring_sums;
	struct sockaddr_rar box;
	__u32	user_rank;
	__u32	slow_user_rank;
	__u32	nboxes;
	__u32	lack;
	struct rar_box_info boxes[RAR_MAX_BOXES];
	__u32	rails;
	__u32	__pad;
	__u32	gather_bytes;
	__u32	scatter_bytes;
};

/**
 * struct rar_peer - one row of RAR_PEERS
 * @rank:  rank of the member
 * @user_rank: its RAR_USER_RANK; the same as @rank if it has set none
 * @addr:  address of the member
 *
 * Python: struct "=II64s"
 */
struct rar_peer {
	__u32	rank;
	__u32	user_rank;
	struct sockaddr_rar addr;
};

/**
 * struct rar_caps - what every member of this group supports
 * @wire_version: lowest protocol version
 * @collectives:  bit (1 << enum rar_collective)
 * @dtypes:       [redop]: bit (1 << enum rar_dtype); [0]: lower half: the flags of struct rar_op,
 *                upper half: the ways that chunks take, which programs cannot choose
 *
 * All ranks of a group get the same value. Base decisions on what to offload on this
 * value only.
 *
 * Python: struct "=II64s"
 */
struct rar_caps {
	__u32	wire_version;
	__u32	collectives;
	__u32	dtypes[16];
};

#endif /* _UAPI_LINUX_RAR_H */
