// SPDX-License-Identifier: GPL-2.0
/* The growth of the link window: CUBIC, RFC 9438. */
#include "tap.h"
#include "util.h"

#include "link/cubic.h"

/*
 * The window after a loss, by RFC 9438: 7/10, then W_max again after K seconds, and above it. A
 * window that was not back at W_max makes room. On a short way it is that of a Reno flow.
 */
static void test_cubic(void)
{
	struct rar_cubic c = { };
	u32 w = rar_cubic_reduce(&c, 1000), target, k;

	tap_ok(w == 700 && c.w_max == 1000, "CUBIC: %u of 1000 after a loss", w);
	target = rar_cubic_grow(&c, w, 0, 0, 1000000);
	/* The cube root of 300 / 0.4. */
	k = 9085;
	tap_ok(target >= 700 && target <= 701, "CUBIC: growth begins at %u", target);
	target = rar_cubic_grow(&c, w, 0, 0, 1000000 + k / 2 * 1000ull);
	tap_ok(target >= 962 && target <= 963, "CUBIC: %u after half of K", target);
	target = rar_cubic_grow(&c, w, 0, 0, 1000000 + k * 1000ull);
	tap_ok(target >= 999 && target <= 1000, "CUBIC: %u after K", target);
	target = rar_cubic_grow(&c, 1000, 0, 0, 1000000 + 2 * k * 1000ull);
	tap_ok(target >= 1298 && target <= 1301, "CUBIC: %u after twice K", target);
	target = rar_cubic_grow(&c, 1000, 0, 0, 1000000 + 3600ull * 1000000);
	tap_ok(target == 1500, "CUBIC: %u after an hour, half more at most", target);
	rar_cubic_reduce(&c, 900);
	tap_ok(c.w_max == 765, "CUBIC: a smaller window makes room: %u", c.w_max);
	c = (struct rar_cubic) { };
	w = rar_cubic_reduce(&c, 100);
	for (u32 trip = 0; trip < 40; trip++)
		target = rar_cubic_grow(&c, 70, 70, 50, 1000000 + trip * 50);
	/* 9/17 of a chunk for each window. */
	tap_ok(target >= 90 && target <= 92, "CUBIC: %u of 70 after 40 short round trips", target);
	target = rar_cubic_grow(&c, 70, 0, 50, 1000000 - 1000);
	tap_ok(target < 100, "CUBIC: %u of 70 by a clock that is behind", target);
}

int main(void)
{
	tap_begin();
	test_cubic();
	return tap_end();
}
