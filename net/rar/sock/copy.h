/* SPDX-License-Identifier: GPL-2.0 */
/* Copy mode, long tensors: in and out in steps. */
#ifndef _RAR_COPY_H
#define _RAR_COPY_H

#include <linux/types.h>

struct iov_iter;
struct rar_member;
struct rar_net;
struct rar_operation;
struct rar_ring;

/*
 * struct rar_copy - a result that is being copied to the user
 * @op:   operation, referenced; NULL before the first step
 * @to:   memory of the user; not advanced
 * @done: chunks of each block that have been copied
 */
struct rar_copy {
	struct rar_operation *op;
	const struct iov_iter *to;
	u32 done;
};

int rar_copy_in(struct rar_member *m, struct rar_operation *op,
		const struct iov_iter *from);
int rar_copy_out(struct rar_member *m, struct rar_copy *copy);
int rar_copy_out_rest(struct rar_copy *copy);

#endif /* _RAR_COPY_H */
