// SPDX-License-Identifier: GPL-2.0
/*
 * The window of CUBIC (RFC 9438): after a reduction it grows back to the window
 * before, the slower the nearer it is, and from there on faster and faster, by
 * time and not by round trips. So a long link is filled as soon as a short one,
 * and flows with different round trips share a queue.
 *
 * Where a Reno flow would have a larger window, which is so on short links, the
 * window is that one. Pure arithmetic; selftests/host and tools/sim also build
 * it in user space.
 */
#include "link/cubic.h"

/* C is 0.4 chunks per cubic second: 1 chunk in 2.5e9 cubic milliseconds. */
#define CUBIC_MS3		2500000000ULL
/* A reduction leaves 7/10; the window of a Reno flow then grows by 9/17. */
#define CUBIC_BETA(w)		((w) * 7 / 10)
#define CUBIC_RENO_SHIFT	20
#define CUBIC_ALPHA		((9 << CUBIC_RENO_SHIFT) / 17)
#define CUBIC_LONG_MS		200000	/* (t - K) at most: its cube fits */

/* The largest number whose cube is @x at most. */
static u32 cube_root(u64 x)
{
	u64 root = 0, try;
	int bit;

	for (bit = 20; bit >= 0; bit--) {
		try = root | 1ULL << bit;
		if (try * try * try <= x)
			root = try;
	}
	return root;
}

/**
 * rar_cubic_reduce() - a loss or a mark reduces a window
 * @c:    its growth
 * @cwnd: the window, chunks
 *
 * A window that was still smaller than before the last reduction makes room for
 * a new flow (fast convergence).
 *
 * Return: the window from now on, chunks.
 */
u32 rar_cubic_reduce(struct rar_cubic *c, u32 cwnd)
{
	c->w_max = cwnd < c->w_max ? (cwnd + CUBIC_BETA(cwnd)) / 2 : cwnd;
	c->since_us = 0;
	return CUBIC_BETA(cwnd);
}

static void begin(struct rar_cubic *c, u32 cwnd, u64 now)
{
	c->since_us = now;
	c->w_max = max(c->w_max, cwnd);
	c->k_ms = cube_root((c->w_max - cwnd) * CUBIC_MS3);
	c->reno = (u64)cwnd << CUBIC_RENO_SHIFT;
}

/**
 * rar_cubic_grow() - to which window does an acknowledgment let a window grow?
 * @c:      its growth
 * @cwnd:   the window, chunks, at least 1
 * @acked:  chunks acknowledged
 * @rtt_us: lowest round trip
 * @now:    us
 *
 * Return: that window, at least @cwnd and at most half as much more; the window
 * grows by a part of the difference with each chunk, see window.c.
 */
u32 rar_cubic_grow(struct rar_cubic *c, u32 cwnd, u32 acked, u32 rtt_us,
		   u64 now)
{
	s64 t, target;

	if (!c->since_us)
		begin(c, cwnd, now);
	t = div64_s64((s64)(now + rtt_us - c->since_us), 1000) - c->k_ms;
	t = clamp_t(s64, t, -CUBIC_LONG_MS, CUBIC_LONG_MS);
	target = c->w_max + div64_s64(t * t * t, (s64)CUBIC_MS3);
	c->reno += div_u64((u64)acked * CUBIC_ALPHA, cwnd);
	target = max_t(s64, target, c->reno >> CUBIC_RENO_SHIFT);
	return clamp_t(s64, target, cwnd, cwnd + cwnd / 2);
}
