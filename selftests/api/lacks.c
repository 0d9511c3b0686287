// SPDX-License-Identifier: GPL-2.0
/*
 * What a call lacks that fails with ENOBUFS, or with EAGAIN for want of memory: RAR_INFO tells it,
 * for each limit that there is.
 *
 * Needs root for the limits of the host and the cgroup.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define MEM		"/proc/sys/net/rar/mem"
#define MAX_MEM		"/sys/module/rar/parameters/max_mem"
#define CGROUP		"/sys/fs/cgroup/rar_lacks"
#define LARGE		(1ul << 20)
#define OPS		64u	/* of these fill each limit of the tests */
#define REGIONS		1024u	/* of a socket */
#define PAGE		4096ul
#define NOBODY		65534
#define LIMIT_S		60

static uint64_t group = 0x1ac5;

/* A group of one: its operations are complete at once. */
static int open_alone(void)
{
	struct rar_ring ring = { .group = group++, .size = 1, .where = RAR_ON_LO4 };

	return rar_open(&ring, 0);
}

static char *map(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Did the call fail as it should, and does the socket say for want of what? */
static bool lacked(const char *what, int fd, int err, int want_err, uint32_t want)
{
	struct rar_info info = {};

	if (!rar_info(fd, &info) && err == want_err && info.lack == want)
		return true;
	rar_log("%s: %s, lack %u; %s and %u wanted", what, strerrorname_np(-err), info.lack,
		strerrorname_np(-want_err), want);
	return false;
}

/* Posts operations that nobody reads, until one is refused. */
static int fill(int fd, const char *data, size_t bytes, uint32_t *taken)
{
	int err = 0;

	for (*taken = 0; *taken <= OPS && !err; *taken += !err)
		err = rar_send(fd, data, bytes, MSG_DONTWAIT, NULL);
	return err;
}

static bool test_results(void)
{
	int fd = open_alone();
	uint32_t taken;
	int err = fill(fd, "operand.", 8, &taken);
	bool ok = lacked("a full table", fd, err, -ENOBUFS, RAR_LACK_RESULTS) && taken == OPS;

	close(fd);
	fd = open_alone();
	ok &= lacked("nothing", fd, 0, 0, RAR_LACK_NONE);
	close(fd);
	return ok;
}

/*
 * The limit has room for some operations of one socket, and another one finds none. What sockets
 * that were closed before this had is given back soon.
 */
static bool limit(const char *file, const char *low, const char *usual, const char *data,
		  uint32_t want)
{
	int fd = open_alone(), other = open_alone(), err;
	uint32_t taken;
	bool ok;

	ok = !rar_write(file, low);
	for (int i = 0; i < 100 && (fill(fd, data, LARGE, &taken), !taken); i++)
		rar_sleep_ms(20);
	err = rar_send(other, data, LARGE, MSG_DONTWAIT, NULL);
	ok &= lacked(file, other, err, -EAGAIN, want);
	if (!taken || taken == OPS)
		rar_log("%s: room for %u operations", file, taken);
	ok &= taken && taken < OPS;
	rar_write(file, usual);
	close(fd);
	close(other);
	return ok;
}

/* In a child: a user without privileges, who may lock a few pages. */
static int locked(unsigned int unused)
{
	static struct rlimit few = { 4 * PAGE, 4 * PAGE };
	char *data = map(LARGE);
	struct rar_reg reg = { .addr = (uintptr_t)data, .len = LARGE };
	int fd = open_alone(), err;
	bool ok;

	(void)unused;
	if (!data || fd < 0 || setrlimit(RLIMIT_MEMLOCK, &few) || setgroups(0, NULL) ||
	    setgid(NOBODY) || setuid(NOBODY))
		return 1;
	err = rar_send(fd, data, LARGE, MSG_ZEROCOPY | MSG_DONTWAIT, NULL);
	ok = lacked("MSG_ZEROCOPY", fd, err, -ENOBUFS, RAR_LACK_MEMLOCK);
	close(fd);
	fd = open_alone();
	err = setsockopt(fd, SOL_RAR, RAR_REG, &reg, sizeof(reg)) ? -errno : 0;
	return !(ok & lacked("RAR_REG", fd, err, -ENOBUFS, RAR_LACK_MEMLOCK));
}

/* In a child: a process whose cgroup has no memory for a copy. */
static int confined(unsigned int unused)
{
	char *data = map(OPS * LARGE);		/* the zero page, everywhere */
	int fd = open_alone(), err;

	(void)unused;
	if (!data || fd < 0 || rar_write(CGROUP "/cgroup.procs", "0"))
		return 1;
	err = rar_send(fd, data, OPS * LARGE, MSG_DONTWAIT, NULL);
	return !lacked("a copy", fd, err, -ENOBUFS, RAR_LACK_KERNEL);
}

static bool in_child(int (*fn)(unsigned int))
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(fn(0));
	return !rar_reap(pid, rar_now_us() + LIMIT_S * 1000000ull);
}

static void test_cgroup(void)
{
	const char *name = "the memory of a cgroup: RAR_LACK_KERNEL\n";
	bool ok;

	rar_write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if ((mkdir(CGROUP, 0755) && errno != EEXIST) ||
	    rar_write(CGROUP "/memory.max", "16777216")) {
		ksft_test_result_skip("%s", name);
		return;
	}
	rar_write(CGROUP "/memory.swap.max", "0");
	ok = in_child(confined);
	for (int i = 0; i < 100 && rmdir(CGROUP) && errno == EBUSY; i++)
		rar_sleep_ms(20);
	ksft_test_result(ok, "%s", name);
}

static bool test_regions(void)
{
	char *data = map(2 * (REGIONS + 1) * PAGE);
	int fd = open_alone(), err = 0;
	uint32_t n;

	for (n = 0; n <= REGIONS && !err; n += !err) {
		struct rar_reg reg = { .addr = (uintptr_t)data + 2 * n * PAGE, .len = PAGE };

		err = setsockopt(fd, SOL_RAR, RAR_REG, &reg, sizeof(reg)) ? -errno : 0;
	}
	if (n != REGIONS)
		rar_log("%u regions", n);
	err = lacked("RAR_REG", fd, err, -ENOBUFS, RAR_LACK_REGIONS);
	close(fd);
	munmap(data, 2 * (REGIONS + 1) * PAGE);
	return err && n == REGIONS;
}

int main(void)
{
	char *data = map(LARGE);

	rar_begin();
	if (geteuid() || rar_private_net())
		ksft_exit_skip("needs root\n");
	ksft_set_plan(6);
	rar_write(MEM, "268435456");
	ksft_test_result(test_results(), "results that are not read: RAR_LACK_RESULTS\n");
	ksft_test_result(limit(MEM, "8388608", "268435456", data, RAR_LACK_NET),
			 "net.rar.mem: RAR_LACK_NET\n");
	ksft_test_result(limit(MAX_MEM, "8388608", "0", data, RAR_LACK_HOST),
			 "max_mem: RAR_LACK_HOST\n");
	ksft_test_result(in_child(locked), "RLIMIT_MEMLOCK: RAR_LACK_MEMLOCK\n");
	ksft_test_result(test_regions(), "too many regions: RAR_LACK_REGIONS\n");
	test_cgroup();
	ksft_finished();
}
