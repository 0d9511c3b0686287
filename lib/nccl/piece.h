/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* NCCL's collective calls as operations of librar. */
#ifndef RAR_NCCL_PIECE_H
#define RAR_NCCL_PIECE_H

#include <rar/librar.h>

#include "plugin.h"

size_t piece_result(const struct coll_call *c, int rank);
bool piece_next(const struct coll_call *c, int rank, int size, size_t *at,
		struct rar_call *call);

#endif /* RAR_NCCL_PIECE_H */
