/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BLOCKING_H
#define _RAR_BLOCKING_H

#include <linux/types.h>

struct msghdr;
struct rar_member;
struct rar_operation;
struct sock;

/*
 * struct rar_blocking - a send() that returns when the result is there
 * @op:     the operation, referenced; NULL if the call is none of these
 * @dst:    copied: the address of the result
 * @pinned: the kernel works in the memory of the caller
 * @copied: it shall not, since that memory cannot be pinned
 */
struct rar_blocking {
	struct rar_operation *op;
	u64 dst;
	bool pinned;
	bool copied;
};

int rar_blocking_wait(struct sock *sk, struct rar_member *m, const struct rar_blocking *call,
		      const struct msghdr *msg);

#endif /* _RAR_BLOCKING_H */
