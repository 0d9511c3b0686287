// SPDX-License-Identifier: GPL-2.0
/*
 * A ring in which rank 1 has a socket filter, or all ranks have a small SO_SNDBUF. A tool for
 * the shell tests: exit status 0 if all results are right, else 1.
 *
 * filtered [-n ranks] [-m] [-f pass|drop|cut] [-b SO_SNDBUF] [-c elements] [-i ops]
 *	-m: all ranks are in the caller's namespace, at 10.77.0.1
 *	pass: lets packets to the UDP port pass; drop: lets none pass; cut: cuts to 50 bytes
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"
#include "rar_util.h"

#define JOIN_MS	4000
#define LIMIT_S	60

static struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "rar", .size = 2 };
static const char *filter;
static int sndbuf, ops = 3;
static uint64_t count = 100000;

static int attach(int fd)
{
	struct sock_filter pass[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RAR_DEFAULT_PORT, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_filter drop[] = { BPF_STMT(BPF_RET | BPF_K, 0) };
	struct sock_filter cut[] = { BPF_STMT(BPF_RET | BPF_K, 50) };
	struct sock_fprog prog = { .len = 1, .filter = cut };

	if (!strcmp(filter, "pass"))
		prog = (struct sock_fprog){ .len = 4, .filter = pass };
	else if (!strcmp(filter, "drop"))
		prog.filter = drop;
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ?
	       -errno : 0;
}

static int rank_main(uint32_t rank, void *arg)
{
	struct rar_data d = { .count = count, .size = ring.size, .dtype = RAR_F32 };
	int fd = rar_socket(), err = 0;

	(void)arg;
	RAR_CHECK(fd >= 0, "socket");
	if (sndbuf && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf)))
		err = -errno;
	if (!err && filter && rank == 1)
		err = attach(fd);
	RAR_CHECK(!err, "options: %s", strerror(-err));
	err = rar_join_start(fd, &ring, rank) ?: rar_join_wait(fd, JOIN_MS);
	RAR_CHECK(!err, "join: %s", strerror(-err));
	for (d.id = 1; d.id <= (uint64_t)ops && !err; d.id++)
		err = rar_allreduce(fd, &d, rank);
	RAR_CHECK(!err, "operation: %s", strerror(-err));
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:mf:b:c:i:")) != -1) {
		switch (c) {
		case 'n': ring.size = atoi(optarg); break;
		case 'm': ring.netns = NULL; break;
		case 'f': filter = optarg; break;
		case 'b': sndbuf = atoi(optarg); break;
		case 'c': count = strtoull(optarg, NULL, 0); break;
		case 'i': ops = atoi(optarg); break;
		default: return KSFT_FAIL;
		}
	}
	rar_init();
	ring.group = getpid();
	return rar_run(ring.size, ring.netns, LIMIT_S, rank_main, NULL) ? KSFT_FAIL : KSFT_PASS;
}
