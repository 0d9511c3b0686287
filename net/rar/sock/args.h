/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_ARGS_H
#define _RAR_SOCK_ARGS_H

#include "core/op.h"
#include "sock/blocking.h"
#include "sock/sock.h"

/* The operation that the control message and the options ask for. */
struct rar_args {
	struct rar_fingerprint fingerprint;
	struct rar_span given;		/* what this rank sends */
	struct rar_span got;		/* its result */
	u64 bytes;
	u64 travels;			/* bytes of the tensor as it travels */
	u64 room;			/* bytes in memory of the kernel */
	u64 bits;			/* in the user's memory: bytes charged for bitmaps */
	u64 cookie;
	u64 dst;
	u32 root;
	u32 key;
	u8 prio;
	bool apart;			/* the contribution stays out of the place of the sums */
	bool blocking;			/* the call returns when the result is there */
};

int rar_args_parse(struct rar_sock *rsk, struct rar_member *m, struct msghdr *msg, size_t len,
		   struct rar_args *args, struct rar_blocking *call);

#endif /* _RAR_SOCK_ARGS_H */
