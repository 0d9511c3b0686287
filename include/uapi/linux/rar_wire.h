/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * AF_RAR wire format, version 2: UDP payload over IPv4 or IPv6.
 *
 * Every packet starts with the common header; all integers are big endian. The elements of
 * chunks are little endian.
 *
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +---------------+---------------+-------------------------------+
 * |  0xa, version |     type      |         source rank           |
 * +---------------+---------------+-------------------------------+
 * |       destination rank        |   bytes after these 24 bytes  |
 * +-------------------------------+-------------------------------+
 * |                           group (64)                          |
 * +---------------------------------------------------------------+
 * |                           token (64)                          |
 * +---------------------------------------------------------------+
 *
 * token: the epoch in RS, AG, ACK, PROBE, DIRECT, PEER_ACK, DONE, LATE, FIN, FIN_ACK, and in ABORT
 * and RESET of a running group. Before the epoch is committed: in packets to the predecessor, and
 * in OFFER, the nonce of the receiver; in packets to the successor, the cookie that the receiver
 * gave to the sender (0 in the first JOIN). It is compared in full, and a host that is not on the
 * path cannot guess it. A cookie is given to any host that asks, for a JOIN. It is good for other
 * packets once that JOIN is accepted.
 *
 * Links are directed: RS, AG, PROBE, LATE, JOIN, COLLECT, PROPOSE and COMMIT
 * travel to the successor; ACK, WANT, JOIN_ACK and REJECT to the predecessor; ABORT, FIN
 * and FIN_ACK to both. DIRECT, PEER_ACK, DONE, PAIR and PAIR_ACK travel to any rank.
 *
 * Between a member and a box, whose rank is 0xffff, the token is the epoch of the leg. RS (a
 * member's own contribution, acknowledged by the AG with the same sequence number), PROBE and
 * RESET travel to the box; AG (the sum of all ranks), RS (the sum of the ranks before the receiver,
 * of which nothing is acknowledged), RETURN, ACK and RESET from the box. A box below another one is
 * a member of that: its RS is the sum of all its ranks. Of a broadcast only the root contributes.
 * The RS of another rank has no payload, and asks for chunks, which AG brings. When all ranks have
 * asked for a chunk, the root gets an AG without payload. Of a reduction to a root all contribute.
 * The root gets the sum, and each other rank an AG without payload. Of a RAR_REDUCE_BY_KEY all but
 * the root send chunks of records, of which the box acknowledges nothing. It combines them to
 * batches, which AG brings to the root in pieces, and the root answers with WANT.
 */
#ifndef _UAPI_LINUX_RAR_WIRE_H
#define _UAPI_LINUX_RAR_WIRE_H

#include <linux/types.h>

/* First byte: a magic nibble, which tells other versions from foreign UDP. */
#define RAR_WIRE_MAGIC		0xa0
#define RAR_WIRE_VERSION	2

enum rar_pkt_type {
	RAR_T_RS	= 1,	/* reduce-scatter chunk: struct rar_data_hdr */
	RAR_T_AG	= 2,	/* all-gather chunk: struct rar_data_hdr */
	RAR_T_ACK	= 3,	/* struct rar_ack_hdr */
	RAR_T_PROBE	= 4,	/* asks for an ACK, keeps alive: rar_probe_hdr */
	RAR_T_DIRECT	= 5,	/* chunk for any rank: struct rar_data_hdr */
	RAR_T_DONE	= 6,	/* struct rar_done_hdr */
	RAR_T_JOIN	= 8,	/* struct rar_join_hdr, padded */
	RAR_T_JOIN_ACK	= 9,	/* struct rar_join_hdr */
	RAR_T_REJECT	= 10,	/* struct rar_reject_hdr */
	RAR_T_COLLECT	= 11,	/* struct rar_table_hdr + members */
	RAR_T_PROPOSE	= 12,	/* struct rar_table_hdr + members */
	RAR_T_COMMIT	= 13,	/* struct rar_table_hdr */
	RAR_T_PAIR	= 14,	/* do packets reach the rank? struct rar_pair_hdr, padded */
	RAR_T_PAIR_ACK	= 15,	/* struct rar_pair_hdr */
	RAR_T_ABORT	= 16,	/* struct rar_notice_hdr */
	RAR_T_RESET	= 17,	/* struct rar_hdr; echoes the unknown token */
	RAR_T_FIN	= 18,	/* struct rar_notice_hdr: rank left after op_seq */
	RAR_T_FIN_ACK	= 19,	/* struct rar_notice_hdr */
	RAR_T_LATE	= 20,	/* struct rar_notice_hdr: asks which rank has not posted op_seq */
	RAR_T_WANT	= 21,	/* struct rar_chunks_hdr: chunks of which the sender lacks sums */
	RAR_T_RETURN	= 22,	/* struct rar_chunks_hdr: chunks that the box gave up */
	RAR_T_ENTER	= 23,	/* struct rar_enter_hdr, padded: a member comes to the box */
	RAR_T_ENTERED	= 24,	/* struct rar_entered_hdr */
	RAR_T_OFFER	= 25,	/* struct rar_offer_hdr: a box is on the way */
	RAR_T_PEER_ACK	= 26,	/* of DIRECT with numbers: struct rar_ack_hdr */
	RAR_T_RAIL	= 27,	/* further addresses of the sender: struct rar_rail_hdr */
};

struct rar_hdr {
	__u8	version;
	__u8	type;
	__be16	src;
	__be16	dst;
	__be16	len;
	__be64	group;
	__be64	token;
};

/**
 * struct rar_seal_tail - the seal at the end of each packet of a group with RAR_SECURITY
 * @tag:     over all bytes of the packet before it; with the key that its sender has for the
 *           receiver in the epoch, or has in the join; between a member and a box, in the epoch of
 *           the leg, or to enter
 * @counter: of the packets of this epoch from this rank to that one; 0 in packets of a join
 *
 * It follows the payload and the padding, and is not counted in the length of the header. With
 * RAR_SECURITY_ENCRYPT the payload of RS, AG and DIRECT before it is encrypted.
 */
struct rar_seal_tail {
	__u8	tag[16];
	__be64	counter;
};

/* What a box and those below it tell each other about the chunks of a packet. */
struct rar_box_wire {
	__u8	prio;	/* RS to a box: the priority of the operation, 1 .. 255; else zero */
	__u8	chunks;	/* for how many chunks from the first on a header without payload asks, or
			 * how many it acknowledges, with the numbers from seq on; else 0
			 */
	__be16	ranks;	/* between two boxes, RS with payload whose order has an effect: how many
			 * ranks have added to it; else 0
			 */
};

/**
 * struct rar_data_hdr - a chunk (RS, AG, DIRECT)
 * @h:      common header
 * @seq:    RS, AG, and DIRECT by RAR_WAY_HALVING: sequence number of this transmission; a chunk
 *          that is sent again gets a new number
 * @una:    with @seq: lowest sequence number the sender still waits for; all numbers below
 *          it are acknowledged or given up
 * @held_us: AG from a box: for how long the box had the contribution @seq before the sum was
 *          made, us
 * @batch:  AG from a box, RAR_REDUCE_BY_KEY: number of the batch
 * @complete: other DIRECT: as @map in struct rar_done_hdr
 * @op_seq: operation
 * @count:  elements of the whole operation; RAR_REDUCE_BY_KEY: records that the root has room
 *          for
 * @chunk:  index of the chunk in the operation: block by block, each block
 *          cut into pieces of the epoch's payload size. RAR_REDUCE_BY_KEY: of the chunks that
 *          the rank sends to the root; a chunk is whole records
 * @mode:   RAR_MODE_*. With @root, @collective, @dtype, @redop and @count it is the
 *          fingerprint on which all members must agree
 * @root:   root rank, or 0
 * @collective: enum rar_collective
 * @dtype:  enum rar_dtype
 * @redop:  enum rar_redop
 * @flags:  RAR_F_*
 * @box:    RS, AG between a member and a box, or two boxes
 * @pieces: AG from a box, RAR_REDUCE_BY_KEY: pieces of the batch
 * @base:   DIRECT without @seq: low 32 bits of @below in struct rar_done_hdr
 * @__pad:  all others: zero
 */
struct rar_data_hdr {
	struct rar_hdr h;
	union {
		struct {
			__be32	seq;
			union {
				__be32	una;
				__be32	held_us;
				__be32	batch;
			};
		};
		__be64	complete;
	};
	__be64	op_seq;
	__be64	count;
	__be32	chunk;
	__be16	mode;
	__be16	root;
	__u8	collective;
	__u8	dtype;
	__u8	redop;
	__u8	flags;
	union {
		struct rar_box_wire box;
		__be32	pieces;
		__be32	base;
		__be32	__pad;
	};
};

/* How the ranks add, and what way chunks take. */
#define RAR_MODE_FLAGS		0x00ff	/* struct rar_op.flags */
#define RAR_MODE_HOSTS		0x0100	/* RAR_BY_HOSTS */
#define RAR_MODE_KEY		0x0600	/* RAR_REDUCE_BY_KEY, which has no other bits:
					 * n = 1 .. 3: keys of 4 << n bytes
					 */
#define RAR_MODE_WAY		0xf000	/* enum rar_wire_way */

/* What way chunks take. */
enum rar_wire_way {
	RAR_WAY_RING	 = 0,	/* from rank to rank, each of which adds, or stores */
	RAR_WAY_DIRECT	 = 1,	/* contributions go straight to the ranks that need them */
	RAR_WAY_DOUBLING = 2,	/* partial sums go to another rank in each of log2 N stages */
	RAR_WAY_FOLDED	 = 3,	/* not used any more: halving in which some ranks were folded */
	RAR_WAY_HALVING	 = 4,	/* in each of log2 N steps half of the partial sums go to other
				 * ranks; then the sums come back
				 */
	RAR_WAY_NR		/* not a way */
};

#define RAR_F_ACK_NOW	0x01	/* acknowledge without delay */
#define RAR_F_LAST	0x02	/* RAR_REDUCE_BY_KEY: the last chunk of the rank */
#define RAR_F_RINGED	0x04	/* RS beside a box: all of the operation goes by the ring here, or
				 * with several boxes all of the share of the chunk's box
				 */
#define RAR_F_WHOLE	0x08	/* one header for a run of chunks: those of the other chunks would
				 * follow from it. Only from rank to rank in one kernel, in packets
				 * that nothing on the way cuts
				 */

/**
 * struct rar_slow_wire - what each rank tells its neighbours about the straggler
 * @wanted: operations posted by the rank that posted most, as far as known
 * @ms:     time that @rank kept others waiting in this epoch
 * @rank:   the straggler, as far as known; 0xffff = none
 * @__pad:  zero
 */
struct rar_slow_wire {
	__be64	wanted;
	__be32	ms;
	__be16	rank;
	__be16	__pad;
};

/**
 * struct rar_ack_hdr - what the receiver of a link has received and accepts
 * @h:        common header
 * @cum:      all sequence numbers below it are received (or given up by @una)
 * @base:     sequence number of bit 0 of @bitmap
 * @posted:   operations the receiver has contributed to in full; chunks of these
 *            need no credit
 * @credit:   bytes that chunks of operations after @posted may cost, each
 *            RAR_EARLY_COST more than its payload; not cumulative
 * @delay_us: time from the arrival of the newest packet to this ACK
 * @ce:       chunks received with the CE mark, modulo 2^32
 * @come:     chunks of each block of operation @posted that the receiver has
 *            contributed to; these need no credit either
 * @done:     low bits of the number of operations complete at the receiver, with all
 *            operations before them
 * @dups:     chunks received again under another sequence number, modulo 2^32
 * @slow:     see struct rar_slow_wire
 * @bitmap:   bit n (of byte n / 8, lowest first): @base + n is received
 */
struct rar_ack_hdr {
	struct rar_hdr h;
	__be32	cum;
	__be32	base;
	__be64	posted;
	__be32	credit;
	__be32	delay_us;
	__be32	ce;
	__be32	come;
	__be32	done;
	__be32	dups;
	struct rar_slow_wire slow;
	__u8	bitmap[32];
};

#define RAR_EARLY_COST	512

/**
 * struct rar_done_hdr - DONE: which operations are complete at the sender, and what it lacks
 * @h:      common header
 * @below:  all operations below are complete at the sender: it needs no more chunks of them
 * @map:    bit n: operation @below + n is complete, too
 * @op_seq: operation of @lacks
 * @lacks:  bit n: the n-th chunk of the block that the receiver starts in @op_seq has not
 *          come; 0 = the sender asks for no chunk. With RAR_DF_STREAM: chunk @chunk + n of those
 *          that the receiver sends has not come
 * @flags:  RAR_DF_*
 * @chunk:  with RAR_DF_STREAM: all chunks below have come. With RAR_DF_UNA: @una, as in struct
 *          rar_data_hdr. Else zero
 */
struct rar_done_hdr {
	struct rar_hdr h;
	__be64	below;
	__be64	map;
	__be64	op_seq;
	__be64	lacks;
	__be32	flags;
	__be32	chunk;
};

#define RAR_DF_ASK	0x00000001	/* answer with a DONE */
#define RAR_DF_STREAM	0x00000002	/* acknowledges chunks of a RAR_REDUCE_BY_KEY */
#define RAR_DF_FULL	0x00000004	/* and chunks are refused, until the sender has room */
#define RAR_DF_OPEN	0x00000008	/* and those that were refused may come now */
#define RAR_DF_CE	0x00000010	/* and a chunk came with the CE mark since the last DONE */
#define RAR_DF_ALL	0x00000020	/* and all chunks of all ranks have come; @chunk is zero */
#define RAR_DF_UNA	0x00000040	/* answer with a PEER_ACK */

/**
 * struct rar_probe_hdr - PROBE
 * @h:      common header
 * @una:    as in struct rar_data_hdr, so that the receiver stops waiting below it
 * @done:   to a box: as in struct rar_ack_hdr; else zero
 * @slow:   see struct rar_slow_wire
 * @op_seq: to a box: the sender sends the box nothing of operations below this number. To a
 *          rank: the sender's oldest operation that is not released. It and the fields below are
 *          as in struct rar_data_hdr, so that ranks that disagree notice it even if each of
 *          them waits for chunks of another
 * @count:  elements of the whole operation
 * @mode:   RAR_MODE_*
 * @root:   root rank, or 0
 * @collective: 0 = the sender has no operation
 * @dtype:  enum rar_dtype
 * @redop:  enum rar_redop
 * @__pad2: zero
 */
struct rar_probe_hdr {
	struct rar_hdr h;
	__be32	una;
	__be32	done;
	struct rar_slow_wire slow;
	__be64	op_seq;
	__be64	count;
	__be16	mode;
	__be16	root;
	__u8	collective;
	__u8	dtype;
	__u8	redop;
	__u8	__pad2;
};

/**
 * struct rar_chunks_hdr - WANT, RETURN: chunks of an operation. A box below another box also sends
 * RETURN to that one. RETURN of a RAR_REDUCE_BY_KEY names chunks of the receiver; for WANT see
 * struct rar_batch_rank
 * @h:      common header
 * @op_seq: operation
 * @first:  chunk of bit 0 of @map
 * @flags:  RETURN: RAR_RF_*; WANT: RAR_WF_*
 * @__pad:  zero
 * @until:  RETURN: low 32 bits of a number; the box wants nothing of operations below it. 0 = it
 *          wants those. WANT: zero
 * @map:    little endian: bit n (of byte n / 8, lowest first): chunk @first + n
 */
struct rar_chunks_hdr {
	struct rar_hdr h;
	__be64	op_seq;
	__be32	first;
	__be32	until;
	__be32	flags;
	__be32	__pad;
	__le64	map[4];
};

#define RAR_RF_HANDED	0x00000001	/* the box has sent RS to the rank that adds next */

#define RAR_WF_REFUSED	0x00000001	/* to a box: the batch was not taken */

/**
 * struct rar_batch_rank - which chunks of a rank a batch holds, in RAR_REDUCE_BY_KEY by a box
 * @first: chunk of bit 0 of @map
 * @flags: RAR_BF_LAST
 * @map:   bit n: chunk @first + n
 *
 * A batch is sent in pieces, each in an AG: @chunk of its data header is the number of the piece,
 * @pieces how many there are, @batch the number of the batch. Piece 0 is a struct
 * rar_batch_rank for each rank of the group. The others are records, as many as a packet carries,
 * but for the last. The root answers with WANT: @first is the number of the batch, @map are the
 * pieces that have not come; if there are none the root needs the batch no longer.
 */
struct rar_batch_rank {
	__be32	first;
	__be32	flags;
	__be64	map;
};

#define RAR_BF_LAST	0x00000001	/* the highest chunk of @map is the last of the rank */

/**
 * struct rar_enter_hdr - ENTER: a member comes to the box; token is the group's epoch
 * @h:       common header
 * @digest:  of the table
 * @nonce:   of this attempt; a later one means that the sender has forgotten an older leg
 * @cookie:  from ENTERED; 0: not known yet
 * @payload: bytes of a full chunk; the padding proves that the path carries it
 * @size:    members of the group
 * @ranks:   bit r: the sender is a box that adds for rank r. Its source rank is RAR_LOWER_RANK and
 *           the lowest of the ranks. 0: it is a member
 * @flags:   RAR_EF_IN_TURN, RAR_EF_ENCRYPT
 * @__pad:   zero
 * @__pad2:  zero
 */
struct rar_enter_hdr {
	struct rar_hdr h;
	__be64	digest;
	__be64	nonce;
	__be64	cookie;
	__be32	payload;
	__be16	size;
	__be16	__pad;
	__be64	ranks;
	__be32	flags;
	__be32	__pad2;
};

#define RAR_LOWER_RANK	0xe000

/**
 * struct rar_entered_hdr - ENTERED: answer to ENTER; token is the group's epoch
 * @h:      common header
 * @nonce:  of the ENTER
 * @cookie: to echo in the next ENTER
 * @epoch:  of the leg; 0: not all members have entered yet
 * @flags:  RAR_EF_*
 * @__pad:  zero
 */
struct rar_entered_hdr {
	struct rar_hdr h;
	__be64	nonce;
	__be64	cookie;
	__be64	epoch;
	__be32	flags;
	__be32	__pad;
};

#define RAR_EF_ANY_ORDER	0x00000001	/* makes only sums whose order has no effect */
#define RAR_EF_BROADCAST	0x00000002	/* passes broadcasts on */
#define RAR_EF_REDUCE		0x00000004	/* makes the sums of reductions to a root */
#define RAR_EF_KEYED		0x00000008	/* combines records of RAR_REDUCE_BY_KEY */
#define RAR_EF_IN_TURN		0x00000010	/* between boxes: all on this side pass partial
						 * sums on, where the order has an effect
						 */
#define RAR_EF_ENCRYPT		0x00000020	/* ENTER: RAR_SECURITY_ENCRYPT; with a seal */

/**
 * struct rar_join_hdr - JOIN and JOIN_ACK
 * @h:      common header
 * @__pad:  zero
 * @nonce:   JOIN: the sender's own nonce for this attempt; JOIN_ACK: the cookie
 * @size:    members of the group
 * @payload: JOIN: largest payload of a data packet of this packet's size; the
 *           padding proves that the path carries it
 * @port:    UDP port that answers go to
 * @flags:   RAR_JF_*
 * @proof:   proves that the sender has the key; in a JOIN that echoes the
 *           receiver's cookie and in a JOIN_ACK; 0: no key
 */
struct rar_join_hdr {
	struct rar_hdr h;
	__be64	nonce;
	__be32	size;
	__be32	payload;
	__be16	port;
	__be16	flags;
	__be32	__pad;
	__be64	proof;
};

#define RAR_JF_SMALL	0x0001	/* not padded: only asks for an answer */
#define RAR_JF_HOSTS	0x0002	/* RAR_BY_HOSTS */
#define RAR_JF_BIG	0x0004	/* the sender's elements are big endian: refused */
#define RAR_JF_AUTO	0x0008	/* RAR_AUTO */
#define RAR_JF_DIRECT	0x0010	/* RAR_DIRECT */
#define RAR_JF_ENCRYPT	0x0020	/* RAR_SECURITY_ENCRYPT; with a seal */
#define RAR_JF_DOUBLING	0x0040	/* RAR_DOUBLING */

/**
 * struct rar_pair_hdr - PAIR and PAIR_ACK: do packets reach a rank that is no neighbour?
 * @h:     common header; token: SipHash over type, ranks and the fields below, with the nonce of
 *         the rank that is asked, as the table has it, and the group as its key
 * @challenge: PAIR: random; PAIR_ACK: that of the PAIR
 * @bytes: PAIR_ACK: length of the PAIR from its common header on; PAIR: 0
 * @__pad: zero
 *
 * PAIR is padded to the length of the longest packet that the ranks will exchange.
 */
struct rar_pair_hdr {
	struct rar_hdr h;
	__be64	challenge;
	__be32	bytes;
	__be32	__pad;
};

/* What members support; see struct rar_caps. dtypes[0]: flags of struct rar_op, and ways. */
struct rar_wire_caps {
	__be32	collectives;
	__be32	dtypes[16];
};

#define RAR_CAPS_WAYS	0xffff0000	/* bit 16 + n: enum rar_wire_way n */

/**
 * struct rar_borders - which operations go by which way, in bytes of the tensor
 * @direct:   PROPOSE: the longest that are exchanged directly; 0: none, not even empty ones
 * @doubling: of the others, the longest that go by doubling, or a broadcast by a tree; 0: none
 * @halving:  of the others, the longest all-reduces that go by halving; 0: none
 * @__pad:    zero
 */
struct rar_borders {
	__be32	direct;
	__be32	doubling;
	__be32	halving;
	__be32	__pad;
};

/**
 * struct rar_wire_member - one member in COLLECT and PROPOSE
 * @nonce:   its own nonce
 * @addr:    its address
 * @af:      4 or 6
 * @port:    its UDP port
 * @user:    RAR_USER_RANK, exclusive-or its rank: 0 = the same number
 * @payload: RAR_WM_BYTES: what the link to the successor carries in a packet; RAR_WM_BESIDE
 */
struct rar_wire_member {
	__be64	nonce;
	__u8	addr[16];
	__be16	af;
	__be16	port;
	__be16	user;
	__be16	payload;
};

#define RAR_WM_BYTES	0x7fff
#define RAR_WM_BESIDE	0x8000	/* RAR_BY_HOSTS: the rank before it is in the same kernel, and
				 * net.rar.one_host is 1 in the network namespaces of both
				 */

/**
 * struct rar_table_hdr - COLLECT, PROPOSE, COMMIT: sent by rank 0 once round the ring
 * @h:      common header
 * @drawn:    PROPOSE, COMMIT: the clock of rank 0 when it made this proposal. The epoch is a hash
 *            over it and all of the table
 * @digest:   PROPOSE, COMMIT: digest of the whole table; COLLECT: the clock of rank 0
 * @resume:   lowest operation that is not complete on every member that was in
 *            @resume_epoch
 * @resume_epoch: last epoch of those members so far that remember one,
 *            0 = no member does
 * @payload:  lowest payload of the members so far, bytes
 * @payload_rank: rank whose link has @payload
 * @first:    rank of the first member carried
 * @n:        members carried
 * @flags:    RAR_TF_*
 * @borders:  PROPOSE: what rank 0 has chosen, for RAR_AUTO, RAR_DIRECT and RAR_DOUBLING;
 *            else zero
 * @caps:     what all members so far support
 */
struct rar_table_hdr {
	struct rar_hdr h;
	__be64	drawn;
	__be64	digest;
	__be64	resume;
	__be64	resume_epoch;
	__be32	payload;
	__be16	payload_rank;
	__be16	first;
	__be16	n;
	__be16	flags;
	struct rar_borders borders;
	struct rar_wire_caps caps;
};

#define RAR_TF_DIFFER	0x0001	/* members remember different epochs */
#define RAR_TF_APART	0x0002	/* COLLECT: a rank does not reach all others directly (yet) */
#define RAR_TF_PAIRED	0x0004	/* PROPOSE: every rank reaches those directly that it has to */
#define RAR_TF_BOX	0x0008	/* PROPOSE: struct rar_wire_box follows the members, 1 ..
				 * RAR_MAX_BOXES of them, as the length tells
				 */

/* Where a box of the group is. */
struct rar_wire_box {
	__u8	addr[16];
	__be16	af;		/* 4 or 6 */
	__be16	port;
	__be32	__pad;		/* zero */
};

/**
 * struct rar_offer_hdr - OFFER: where a box is; token is the receiver's nonce
 * @h:   common header; source rank 0xffff: a host that forwarded a JOIN, and saw its nonce
 * @box: the sender; or, from a rank, which passes it on to rank 0: a box that offered itself
 */
struct rar_offer_hdr {
	struct rar_hdr h;
	struct rar_wire_box box;
};

/* Members in one packet: with all boxes it fits an IPv6 path of 1280 bytes. */
#define RAR_TABLE_MAX	30

/**
 * struct rar_rail_hdr - RAIL: further addresses of the sender
 * @h:     common header
 * @n:     how many, 0 .. 7
 * @flags: RAR_RF_*
 * @__pad: zero
 * @addr:  the addresses, 16 bytes each, of the family of this packet; IPv4 lies in the first
 *         four. The others are zero. Their UDP ports are those of the sender's first address
 */
struct rar_rail_hdr {
	struct rar_hdr h;
	__u8	n;
	__u8	flags;
	__u8	__pad[6];
	__u8	addr[112];
};

#define RAR_RF_ANSWER	0x01	/* it answers a RAIL: nobody answers it */

/**
 * struct rar_reject_hdr - REJECT: the successor refuses a JOIN; token is its nonce
 * @h:      common header
 * @err:    errno (Linux numbers)
 * @reason: enum rar_reason
 * @rank:   rank that the reason names
 * @other:  second rank of a pair
 * @op_seq: 1 if no stranger can hold the rank, else 0
 * @proof:  proves that the sender has the key; 0: no key
 */
struct rar_reject_hdr {
	struct rar_hdr h;
	__be32	err;
	__be32	reason;
	__be32	rank;
	__be32	other;
	__be64	op_seq;
	__be64	proof;
};

/**
 * struct rar_notice_hdr - ABORT, LATE, FIN, FIN_ACK
 * @h:      common header
 * @__pad:  zero
 * @err:       errno (Linux numbers)
 * @reason:    enum rar_reason (FIN: RAR_R_LEFT or RAR_R_DIED)
 * @rank:      rank that the reason names (FIN: the rank that leaves; LATE: the rank
 *             that asks)
 * @other:     second rank of a pair
 * @op_seq:    operation concerned (FIN: operations posted by the rank that leaves)
 * @silent_ms: time for which @rank had been silent
 * @value:       what @rank passed where two ranks disagree about an operation
 * @other_value: what @other passed there
 */
struct rar_notice_hdr {
	struct rar_hdr h;
	__be32	err;
	__be32	reason;
	__be32	rank;
	__be32	other;
	__be64	op_seq;
	__be32	silent_ms;
	__be32	__pad;
	__be64	value;
	__be64	other_value;
};

#endif /* _UAPI_LINUX_RAR_WIRE_H */
