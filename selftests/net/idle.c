// SPDX-License-Identifier: GPL-2.0
/*
 * idle N SECONDS: N ranks, in the namespaces rar0 ..., have nothing to do for so long; then they
 * add. Run by net/netem.sh.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "begin.h"

static struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "rar" };

static int waits(uint32_t rank, void *arg)
{
	struct rar_data d = { .count = 1000, .size = ring.size, .dtype = RAR_F32 };
	int fd = rar_open(&ring, rank), err;

	RAR_CHECK(fd >= 0, "join: %d", fd);
	rar_sleep_ms(*(uint32_t *)arg * 1000);
	err = rar_allreduce(fd, &d, rank);
	if (err)
		rar_log_error(fd, "after idling", err);
	close(fd);
	return !!err;
}

int main(int argc, char **argv)
{
	uint32_t seconds = argc == 3 ? atoi(argv[2]) : 0;

	ring.size = argc == 3 ? atoi(argv[1]) : 0;
	rar_begin_in_topo(ring.size ?: 2, "idle N SECONDS");
	ring.group = 1 + getpid();
	ksft_set_plan(1);
	ksft_test_result(!rar_run(ring.size, ring.netns, seconds + 30, waits, &seconds),
			 "%u ranks idle for %u s\n", ring.size, seconds);
	ksft_finished();
}
