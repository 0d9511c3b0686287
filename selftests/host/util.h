/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers, and memory whose borders fault.
 */
#ifndef _RAR_HOST_UTIL_H
#define _RAR_HOST_UTIL_H

#include <err.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

/* SEED=n in the environment repeats a run. */
static inline u64 seed_get(void)
{
	const char *s = getenv("SEED");
	struct timespec ts;

	if (s && *s)
		return strtoull(s, NULL, 0);
	clock_gettime(CLOCK_REALTIME, &ts);
	return (u64)ts.tv_nsec << 20 ^ ts.tv_sec ^ (u64)getpid() << 40;
}

/* splitmix64, Steele, Lea and Flood: any seed is good */
static inline u64 rnd(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static inline u64 rnd_below(u64 *state, u64 n)
{
	return rnd(state) % n;
}

static inline double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

/* [start, end) can be used; the byte before start and the byte at end fault. */
struct guarded {
	u8 *start, *end;
};

static inline struct guarded guarded_alloc(size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t len = (bytes + page - 1) / page * page;
	u8 *p = mmap(NULL, len + 2 * page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	if (mprotect(p, page, PROT_NONE) ||
	    mprotect(p + page + len, page, PROT_NONE))
		err(1, "mprotect");
	return (struct guarded){ p + page, p + page + len };
}

#endif /* _RAR_HOST_UTIL_H */
