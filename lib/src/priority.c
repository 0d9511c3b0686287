// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A priority at an aggregation box, from what a job knows of itself.
 */
#include <math.h>

#include "librar.h"

#define STEP	16	/* of the priority: a factor of two, or the whole depth of a model */

/* How often @b must be doubled to be @a; 0 if one of them is not known. */
static double doublings(double a, double b)
{
	bool known = a > 0 && b > 0 && isfinite(a) && isfinite(b);

	return known ? log2(a) - log2(b) : 0;
}

unsigned char rar_priority(double comm, double comp, double left, double ref, uint32_t layer,
			   uint32_t layers)
{
	double front = layers ? fmin((double)layer / layers, 1) : 0;
	double prio = RAR_DEFAULT_PRIORITY +
		      STEP * (doublings(comm, comp) + doublings(ref, left) + front);

	return lround(fmin(fmax(prio, 1), 255));
}
