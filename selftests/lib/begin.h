/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a C test begins. In a header, because the counters of kselftest.h are static.
 */
#ifndef RAR_BEGIN_H
#define RAR_BEGIN_H

#include <stdio.h>
#include <unistd.h>

#include "kselftest.h"
#include "rar_util.h"

/* Prints the TAP header and the seed; skips all tests if there is no module. */
static inline void rar_begin(void)
{
	const char *why;

	ksft_print_header();
	rar_init();
	why = rar_missing();
	if (why)
		ksft_exit_skip("%s\n", why);
}

/* rar_begin(), then moves into a network namespace of its own. */
static inline void rar_begin_private(void)
{
	rar_begin();
	if (rar_private_net())
		ksft_exit_skip("needs root\n");
}

/* rar_begin() for a test whose ranks live in the namespaces rar0 ... rar(n - 1). */
static inline void rar_begin_in_topo(unsigned int n, const char *test)
{
	char last[32];

	rar_begin();
	snprintf(last, sizeof(last), "/run/netns/rar%u", n - 1);
	if (access(last, F_OK))
		ksft_exit_skip("run me as lib/in_topo.sh %u %s\n", n, test);
}

#endif /* RAR_BEGIN_H */
