/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_WINDOW_H
#define _RAR_LINK_WINDOW_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include "shim.h"
#endif

#include "link/cubic.h"

struct rar_link;
struct rar_link_tx;
struct rar_operation;
struct rar_run;

/*
 * struct rar_base - the lowest, or longest, delay seen lately
 * @now:	that of the present spell, us
 * @last:	that of the spell before, us
 * @since_us:	when the present spell began, 0 = no delay was seen yet
 */
struct rar_base {
	u32 now;
	u32 last;
	u64 since_us;
};

/*
 * struct rar_window - the two windows of a link, and the clock that both read; window.c
 * @srtt_us:	smoothed round trip, RFC 6298
 * @rttvar_us:	round-trip variation, RFC 6298
 * @rto_us:	timeout without doublings, RFC 6298
 * @rtt_us:	last round trip measured
 * @rtt_base:	lowest round trip seen lately
 * @reorder_us:	time beyond a round trip that an acknowledgment may take before a chunk
 *		counts as lost
 * @backoff:	doublings of the timeout since an acknowledgment last acknowledged a new
 *		number
 * @in_vain:	unnecessary timeouts: an acknowledgment came before them that acknowledged
 *		nothing new
 *
 * @cwnd:	link window, chunks
 * @ssthresh:	window at which slow start ends, chunks
 * @cwnd_acked:	chunks acknowledged towards the next increase of the window
 * @held:	the window held a chunk back in this round trip
 * @recover:	number below which losses and marks do not reduce the window again
 * @undo_cwnd:	window to restore when all chunks given up prove to have arrived, chunks,
 *		0 = none
 * @undo_left:	chunks given up that have not proved to have arrived
 * @undo_us:	when @undo_left last left 0, was raised by a timeout, or fell
 * @noise:	packets acknowledged that excuse losses without a queue
 * @round_end:	number that ends this round trip
 * @round_acked: chunks acknowledged in this round trip
 * @round_lost:	packets given up in this round trip
 * @round_us:	when this round trip began
 * @low_us:	lowest of the round trips measured in this one, U32_MAX = none
 * @low_last_us: the same of the round trip before
 * @chunk_ns:	time that the link takes for a chunk, lowest seen lately
 * @cubic:	how @cwnd grows
 * @peak:	longest delay by queues seen lately
 * @pace_ns:	when the next chunk may leave
 *
 * @inj_out:	bytes injected that have not come back as AG
 * @inj_wnd:	injection window, limit of @inj_out; an operation may set a lower limit
 * @inj_max:	bytes that all ranks together may have under way (net.rar.window)
 * @inj_base:	lowest delay round the ring seen lately
 * @inj_lowest_us: lowest delay round the ring in this round
 * @inj_round_us: when this round ends
 * @inj_limited: the injection window held a chunk back
 * @inj_slow_start: the injection window still doubles
 */
struct rar_window {
	u32 srtt_us;
	u32 rttvar_us;
	u32 rto_us;
	u32 rtt_us;
	struct rar_base rtt_base;
	u32 reorder_us;
	u32 backoff;
	u32 in_vain;

	u32 cwnd;
	u32 ssthresh;
	u64 cwnd_acked;
	bool held;
	u32 recover;
	u32 undo_cwnd;
	u32 undo_left;
	u64 undo_us;
	u32 noise;
	u32 round_end;
	u32 round_acked;
	u32 round_lost;
	u64 round_us;
	u32 low_us;
	u32 low_last_us;
	u32 chunk_ns;
	struct rar_cubic cubic;
	struct rar_base peak;
	u64 pace_ns;

	u64 inj_out;
	u64 inj_wnd;
	u64 inj_max;
	struct rar_base inj_base;
	u32 inj_lowest_us;
	u64 inj_round_us;
	bool inj_limited;
	bool inj_slow_start;
};

void rar_window_rtt(struct rar_window *win, u32 us, u64 now);
u64 rar_window_timeout(const struct rar_window *win);
u32 rar_window_patience(const struct rar_window *win);
bool rar_window_near(const struct rar_window *win);
void rar_window_lost(struct rar_link_tx *tx, u32 seq, bool head);
void rar_window_excuse(struct rar_window *win);
void rar_window_late(struct rar_window *win, u64 now);
void rar_window_collapse(struct rar_link_tx *tx);
void rar_window_full(struct rar_link_tx *tx);
void rar_window_acked(struct rar_link *link, u32 n, u32 packets, u32 marks);
void rar_window_spurious(struct rar_window *win, u32 n, u64 now);
void rar_window_begin(struct rar_link *link, u64 now);
u32 rar_window_run(const struct rar_link *link);
bool rar_window_pace(const struct rar_link *link, u64 now, u64 *more_us);
void rar_window_sent(struct rar_link *link, u32 n, u64 now);
u32 rar_window_may_inject(struct rar_link *link, struct rar_operation *op, u32 want);
void rar_window_post(const struct rar_link *link, struct rar_operation *op);
void rar_window_injected(struct rar_link *link, struct rar_operation *op,
			 const struct rar_run *run, u64 now);
void rar_window_returned(struct rar_link *link, struct rar_operation *op,
			 u32 chunk, u64 bytes, u64 now);
void rar_window_init(struct rar_link *link);

#endif /* _RAR_LINK_WINDOW_H */
