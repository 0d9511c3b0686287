/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Messages that a box on the way of RoCEv2 packets sums, version 1.
 *
 * Each rank has a reliable connection (RC) to its successor, and sends its own contribution on it.
 * A host on the way that has net.rar.box_roce holds the packets of all ranks for one place of one
 * message, and replaces the contribution in each by the sum over all ranks. Neither the ranks'
 * hosts nor the transport notice.
 *
 * A message is one RDMA SEND. It is cut by the transport into packets of the path MTU, and laid out
 * for that by the program:
 *
 *	packet 0	struct rar_roce_hdr, elements, struct rar_roce_mark
 *	each other	elements, struct rar_roce_mark
 *
 * All integers are big endian. Elements are little endian, and the numbers of enum rar_dtype. The
 * marks are needed because a transport may take packets of one message before and after a box
 * begins or ends: a packet holds a sum only if its mark says so.
 *
 * A rank begins message m + window only when it has received message m, and its own message m is
 * acknowledged.
 */
#ifndef _UAPI_LINUX_RAR_ROCE_H
#define _UAPI_LINUX_RAR_ROCE_H

#include <linux/types.h>

#define RAR_ROCE_MAGIC		0x52415201	/* with the version */
#define RAR_ROCE_RANKS		64		/* ranks of a job */
#define RAR_ROCE_WINDOW		8		/* messages that a rank may send at once */
#define RAR_ROCE_PACKETS	1024		/* packets of a message */

/**
 * struct rar_roce_hdr - what a message is
 * @magic:  RAR_ROCE_MAGIC
 * @dtype:  enum rar_dtype
 * @redop:  enum rar_redop, but not RAR_AVG
 * @window: messages that each rank may send at once, up to RAR_ROCE_WINDOW
 * @__pad:  0
 * @job:    drawn at random by the ranks, for as long as their connections last
 * @rank:   of the sender
 * @size:   number of ranks, up to RAR_ROCE_RANKS
 * @msg:    number of the message in the job
 * @bytes:  of the whole message, with this header and all marks
 * @__pad2: 0
 */
struct rar_roce_hdr {
	__be32 magic;
	__u8 dtype;
	__u8 redop;
	__u8 window;
	__u8 __pad;
	__be64 job;
	__be16 rank;
	__be16 size;
	__be32 msg;
	__be32 bytes;
	__be32 __pad2;
};

/**
 * struct rar_roce_mark - the last bytes of each packet of a message
 * @msg:   number of the message
 * @index: number of the packet in the message
 * @count: ranks whose contributions are in the packet: 1 is written by its sender; the number of
 *         ranks by a box
 */
struct rar_roce_mark {
	__be32 msg;
	__be16 index;
	__be16 count;
};

#endif /* _UAPI_LINUX_RAR_ROCE_H */
