/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of a member that window.c sees, for user space: the compiler reads this before
 * window.c, in place of the headers whose guards are defined here. The fields have the
 * names and the types that they have in the kernel.
 */
#ifndef _RAR_HOST_WINDOW_WORLD_H
#define _RAR_HOST_WINDOW_WORLD_H

#define _RAR_LINK_H
#define _RAR_H
#define _RAR_LINK_WINDOW_H

#include "core/ring.h"
#include "shim.h"

/* As in the kernel, a constant may have another type. */
#undef __same
#define __same(a, b)	((void)0)

#define RAR_TX_SLOTS	 1024
#define RAR_RUN_MAX	 64
#define RAR_ACK_DELAY_US 1000

enum rar_dir { RAR_NEXT, RAR_PREV, RAR_DIRS };

struct rar_base {
	u32 now;
	u32 last;
	u64 since_us;
};

struct rar_link_tx {
	u32 next_seq;
	u32 una;
	u32 highest;
	u32 inflight;

	u32 srtt_us;
	u32 rttvar_us;
	u32 rto_us;
	u32 rtt_us;
	struct rar_base rtt_base;
	u32 reorder_us;
	u64 progress_us;
	u32 backoff;
	u32 in_vain;

	u32 cwnd;
	u32 ssthresh;
	u32 cwnd_acked;
	bool held;
	bool probe;
	u32 recover;
	u32 undo_cwnd;
	u32 undo_left;
	u64 undo_us;
	u32 noise;
	u32 alpha;
	u32 round_end;
	u32 round_acked;
	u32 round_marks;
	u32 round_lost;
	u64 round_us;
	u32 chunk_ns;
	u64 burst_us;
	u32 burst_seq;

	u64 inj_out;
	u64 inj_wnd;
	u64 inj_max;
	struct rar_base inj_base;
	u32 inj_lowest_us;
	u64 inj_round_us;
	bool inj_limited;
	bool inj_slow_start;

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

struct rar_operation {
	struct rar_ring ring;
	u32 *inject_us;
	u32 inject_first;
	u64 inj_max;
	bool returned;
};

struct rar_member {
	struct rar_net *rn;
	u32 payload;
	struct rar_path path[RAR_DIRS];
	bool next_here;
	struct rar_link_tx tx;
};

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
	return m->path[RAR_NEXT].run_max;
}

void rar_window_init(struct rar_member *m);
void rar_window_rtt(struct rar_member *m, u32 us, u64 now);
u64 rar_window_timeout(const struct rar_link_tx *tx);
u32 rar_window_patience(const struct rar_link_tx *tx);
void rar_window_lost(struct rar_member *m, u32 seq, bool head);
void rar_window_late(struct rar_link_tx *tx, u64 now);
void rar_window_collapse(struct rar_link_tx *tx);
void rar_window_full(struct rar_link_tx *tx);
void rar_window_acked(struct rar_member *m, u32 n, u32 packets, u32 marks);
void rar_window_spurious(struct rar_member *m, u32 n, u64 now);
void rar_window_begin(struct rar_member *m, u64 now);
u32 rar_window_burst(const struct rar_member *m, u64 now, u64 *more_us);
void rar_window_post(struct rar_member *m, struct rar_operation *op);
u32 rar_window_may_inject(struct rar_member *m, const struct rar_operation *op, u32 want);
void rar_window_injected(struct rar_member *m, struct rar_operation *op,
			 const struct rar_run *run, u64 now);
void rar_window_returned(struct rar_member *m, struct rar_operation *op, u32 chunk,
			 u64 bytes, u64 now);

#endif /* _RAR_HOST_WINDOW_WORLD_H */
