// SPDX-License-Identifier: GPL-2.0
/*
 * One rank of a ring whose other ranks may be on other machines, at 10.77.0.(rank + 1). Every
 * result is checked.
 *
 * member -r RANK -n RANKS -g GROUP [-d DEAD_MS] [-c COUNT] -i OPS
 *	Does OPS operations, all of COUNT elements if that is given. Prints "running" when the
 *	first is done, and at the end "done: ops=60 mtu=9000 longest_ms=35". Then it leaves.
 * member ... -j JOIN_MS
 *	If the first join fails, after JOIN_MS, prints "again" and tries again, with the same
 *	socket and as much time as without -j.
 * member ... -t MS
 *	Sets RAR_OP_TIMEOUT.
 * member ... -e
 *	Does operations until one fails. Prints "running" when the first is done, and at the
 *	end one line for scripts:
 *	error: errno=ECONNRESET reason=SILENT rank=1 other=0 silent_ms=4004
 *		after_ms=4210 longest_ms=35 ops=712
 *	after_ms: time since the last result; longest_ms: longest time between two results.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"
#include "rar_util.h"

#define JOIN_MS	"120000"	/* the other machines may still be booting */

static struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "" };

static uint32_t same_count;

/* Operations of a few bytes, of a few packets, and of many packets. */
static struct rar_data data_of(uint64_t number)
{
	static const uint32_t counts[] = { 7, 5000, 50000 };

	return (struct rar_data){
		.id = number + 1,
		.count = same_count ?: counts[number % 3] + number % 5,
		.size = ring.size, .dtype = number & 1 ? RAR_I32 : RAR_F32,
	};
}

static int run_ops(int fd, uint32_t rank, uint64_t ops)
{
	uint64_t last = 0, longest = 0, now;
	struct rar_info info;
	struct rar_data d;
	int err;

	for (uint64_t i = 0; i < ops; i++) {
		d = data_of(i);
		err = rar_allreduce(fd, &d, rank);
		if (err) {
			rar_log_error(fd, "member", err);
			return KSFT_FAIL;
		}
		now = rar_now_us();
		if (!i)
			printf("running\n");
		else if (now - last > longest)
			longest = now - last;
		last = now;
	}
	if (rar_info(fd, &info))
		return KSFT_FAIL;
	printf("done: ops=%llu mtu=%u longest_ms=%llu\n", (unsigned long long)ops, info.mtu,
	       (unsigned long long)longest / 1000);
	return KSFT_PASS;
}

static int run_until_error(int fd, uint32_t rank)
{
	uint64_t last = rar_now_us(), longest = 0, now, ops = 0;
	struct rar_error e;
	struct rar_data d;
	int err;

	for (;; ops++) {
		d = data_of(ops);
		err = rar_allreduce(fd, &d, rank);
		now = rar_now_us();
		if (err)
			break;
		if (!ops)
			printf("running\n");
		else if (now - last > longest)
			longest = now - last;
		last = now;
	}
	if (rar_error(fd, &e))
		return KSFT_FAIL;
	printf("error: errno=%s reason=%s rank=%u other=%u silent_ms=%u after_ms=%llu longest_ms=%llu ops=%llu\n",
	       strerrorname_np(-err), rar_reason_name(e.reason), e.rank, e.other,
	       e.silent_ms, (unsigned long long)(now - last) / 1000,
	       (unsigned long long)longest / 1000, (unsigned long long)ops);
	return KSFT_PASS;
}

/* Calls socket(), bind() and connect(); if @again, repeats a connect() that fails. */
static int join(uint32_t rank, bool again)
{
	int fd = rar_socket(), err = rar_bind(fd, &ring, rank);

	while (!err) {
		err = rar_connect(fd, &ring, rank);
		if (!err || !again)
			break;
		printf("again\n");
		err = rar_write("/proc/sys/net/rar/join_ms", JOIN_MS);
	}
	return err ?: fd;
}

int main(int argc, char **argv)
{
	const char *dead_ms = "1000", *join_ms = NULL;
	uint32_t op_timeout = 0;
	bool until_error = false;
	uint64_t ops = 0;
	uint32_t rank = 0;
	int c, fd, err;

	while ((c = getopt(argc, argv, "r:n:g:d:c:i:ej:t:")) != -1) {
		switch (c) {
		case 'r': rank = atoi(optarg); break;
		case 'n': ring.size = atoi(optarg); break;
		case 'g': ring.group = strtoull(optarg, NULL, 0); break;
		case 'd': dead_ms = optarg; break;
		case 'c': same_count = atoi(optarg); break;
		case 'i': ops = strtoull(optarg, NULL, 0); break;
		case 'e': until_error = true; break;
		case 'j': join_ms = optarg; break;
		case 't': op_timeout = atoi(optarg); break;
		default: return KSFT_FAIL;
		}
	}
	rar_init();
	err = rar_write("/proc/sys/net/rar/dead_ms", dead_ms) ?:
	      rar_write("/proc/sys/net/rar/join_ms", join_ms ?: JOIN_MS);
	fd = err ?: join(rank, join_ms);
	if (fd < 0) {
		rar_log("rank %u: %s", rank, strerrorname_np(-fd));
		return KSFT_FAIL;
	}
	if (op_timeout && setsockopt(fd, SOL_RAR, RAR_OP_TIMEOUT, &op_timeout, sizeof(op_timeout)))
		return KSFT_FAIL;
	return until_error ? run_until_error(fd, rank) : run_ops(fd, rank, ops);
}
