/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The Test Anything Protocol, version 13, as kselftest speaks it.
 */
#ifndef _RAR_HOST_TAP_H
#define _RAR_HOST_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

enum { TAP_PASS = 0, TAP_FAIL = 1, TAP_SKIP = 4 };	/* exit statuses */

static struct {
	unsigned int run, failed, skipped;
} tap;

static inline void tap_begin(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n");
}

__attribute__((format(printf, 1, 2)))
static inline void tap_note(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

__attribute__((format(printf, 2, 3)))
static inline bool tap_ok(bool ok, const char *fmt, ...)
{
	va_list ap;

	tap.run++;
	tap.failed += !ok;
	printf("%sok %u ", ok ? "" : "not ", tap.run);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	return ok;
}

static inline void tap_skip(const char *name, const char *why)
{
	tap.run++;
	tap.skipped++;
	printf("ok %u %s # SKIP %s\n", tap.run, name, why);
}

/* The plan comes last, when the number of tests is known. */
static inline int tap_end(void)
{
	printf("1..%u\n", tap.run);
	printf("# summary: %u passed, %u failed, %u skipped\n",
	       tap.run - tap.failed - tap.skipped, tap.failed, tap.skipped);
	if (tap.failed)
		return TAP_FAIL;
	return tap.run && tap.skipped == tap.run ? TAP_SKIP : TAP_PASS;
}

#endif /* _RAR_HOST_TAP_H */
