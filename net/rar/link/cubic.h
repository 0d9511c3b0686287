/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_LINK_CUBIC_H
#define _RAR_LINK_CUBIC_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>
#else
#include "shim.h"
#endif

/**
 * struct rar_cubic - growth of a link window after it was reduced
 * @w_max:    window before the last reduction, chunks
 * @k_ms:     time from then until the window is @w_max again
 * @since_us: when growth began; 0 = it begins with the next acknowledgment
 * @reno:     window of a Reno flow that loses as much, chunks, fixed point
 */
struct rar_cubic {
	u32 w_max;
	u32 k_ms;
	u64 since_us;
	u64 reno;
};

u32 rar_cubic_reduce(struct rar_cubic *c, u32 cwnd);
u32 rar_cubic_grow(struct rar_cubic *c, u32 cwnd, u32 acked, u32 rtt_us,
		   u64 now);

#endif /* _RAR_LINK_CUBIC_H */
