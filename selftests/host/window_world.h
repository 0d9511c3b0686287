/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of a member that window.c sees beside its own struct rar_window, for user space:
 * the compiler reads this before window.c, in place of the headers whose guards are defined
 * here. The fields have the names and the types that they have in the kernel.
 */
#ifndef _RAR_HOST_WINDOW_WORLD_H
#define _RAR_HOST_WINDOW_WORLD_H

#define _RAR_LINK_H
#define _RAR_H

#include "core/ring.h"
#include "link/window.h"
#include "shim.h"

/* As in the kernel, a constant may have another type. */
#undef __same
#define __same(a, b)	((void)0)

#define RAR_TX_SLOTS	 1024
#define RAR_RUN_MAX	 64
#define RAR_ACK_DELAY_US 1000

struct rar_link_tx {
	u32 next_seq;
	u32 una;
	u32 highest;
	u32 inflight;

	u64 progress_us;
	struct rar_window win;
	bool probe;
	u64 sent_us;
};

struct rar_path {
	u32 run_max;
	bool no_queue;
};

struct rar_net {
	unsigned long sysctl_window;
};

struct rar_run {
	u32 chunk;
	u32 n;
	u8 phase;
};

struct rar_out {
	struct rar_owed owed;
	u32 *inject_us;
	u64 inj_max;
	bool returned;
};

struct rar_operation {
	struct rar_ring ring;
	struct rar_out out;
};

struct rar_member {
	struct rar_net *rn;
	u32 payload;
};

struct rar_link {
	struct rar_member *member;
	bool here;
	struct rar_path path;
	struct rar_link_tx tx;
};

static inline struct rar_out *rar_link_out(const struct rar_link *link,
					   struct rar_operation *op)
{
	return &op->out;
}

/* Virtual time. */
extern u64 world_us;

static inline u64 rar_now_us(void)
{
	return world_us;
}

static inline u32 num_online_cpus(void)
{
	return 1;
}

static inline bool rar_seq_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static inline u32 rar_link_local_max(const struct rar_member *m)
{
	return RAR_RUN_MAX;
}

#endif /* _RAR_HOST_WINDOW_WORLD_H */
