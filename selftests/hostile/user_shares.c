// SPDX-License-Identifier: GPL-2.0
/*
 * Shares: one user cannot take everything, neither in a namespace nor on the host, whoever
 * owns the namespaces. Memory that was given back can be used again at once.
 *
 * Needs root for the users and the limits of the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define HOARDER		1000
#define OTHER_USER	1001
#define MAX_MEM		"/sys/module/rar/parameters/max_mem"
#define MEM		"/proc/sys/net/rar/mem"
#define FILLERS		10
#define HOST_MEM	(64u << 20)
#define NET_MEM		(8u << 20)
#define OP_BYTES	(256u << 10)
#define OPS_MAX		1024u	/* operations of a filler: four times HOST_MEM */
#define REST_MAX	4	/* pieces of each size of what is left */
#define LIMIT_S		60
#define PIN_BYTES	(6u << 20)
#define PIN_LIMIT	(8u << 20)
#define PIN_ROUNDS	20

struct shared {
	atomic_uint taken[FILLERS];
	atomic_uint full;	/* fillers that got no more */
	_Atomic bool go;
	_Atomic int result;
};

static struct shared *shared;
static char data[OP_BYTES];

static int become(uid_t uid)
{
	if (setgroups(0, NULL) || setgid(uid) || setuid(uid) ||
	    prctl(PR_SET_DUMPABLE, 1))	/* otherwise /proc/self belongs to root */
		return -errno;
	return 0;
}

/* A group of one: its operations are complete at once. */
static int open_alone(uint64_t group)
{
	struct rar_ring ring = { .group = group, .size = 1, .where = RAR_ON_LO4 };
	int fd = rar_open(&ring, 0);

	return fd;
}

/* Posts operations and reads no results, until there is no more memory. */
static unsigned int hoard(uint64_t group, int *err)
{
	unsigned int taken = 0;
	int fd = -1;

	for (*err = 0; taken < OPS_MAX && !*err; taken += !*err) {
		if (taken % RAR_MAX_OPS == 0)
			fd = open_alone(group++);
		*err = fd < 0 ? fd : rar_send(fd, data, sizeof(data), MSG_DONTWAIT, NULL);
	}
	return taken;
}

/*
 * Takes what is left, to the last byte, each piece by a socket of its own. A
 * short operation of a socket may need no room, so there is a limit for these.
 */
static void hoard_rest(uint64_t group)
{
	for (unsigned int bytes = sizeof(data) / 2; bytes; bytes /= 2) {
		for (unsigned int i = 0; i < REST_MAX; i++) {
			int fd = open_alone(group++);

			if (fd < 0 || rar_send(fd, data, bytes, MSG_DONTWAIT, NULL))
				break;
		}
	}
}

static pid_t start(int (*fn)(unsigned int), unsigned int arg)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(fn(arg));
	return pid;
}

static int finish(pid_t pid)
{
	return rar_reap(pid, rar_now_us() + LIMIT_S * 1000000ull);
}

static bool wait_full(unsigned int n)
{
	uint64_t deadline = rar_now_us() + LIMIT_S * 1000000ull;

	while (shared->full < n && rar_now_us() < deadline)
		rar_sleep_ms(5);
	return shared->full >= n;
}

static int fill(unsigned int i)
{
	int err = become(HOARDER);

	if (!err)
		shared->taken[i] = hoard(0x5a0000 + i * 1000, &err);
	shared->result = err;
	shared->full++;
	pause();
	return 0;
}

static int one_op(unsigned int bytes)
{
	int fd, err = become(OTHER_USER);

	fd = err ? err : open_alone(0x5b0000);
	if (fd < 0)
		return -fd;
	return -rar_send(fd, data, bytes, MSG_DONTWAIT, NULL);
}

static const char *name_of(int err)
{
	return err ? strerrorname_np(err) : "ok";
}

/* One user's unread results fill net.rar.mem, but another user's operation finds room. */
static bool test_unread(void)
{
	int small, large;
	pid_t pid;
	bool ok;

	rar_write(MEM, "8388608");
	memset(shared, 0, sizeof(*shared));
	pid = start(fill, 0);
	ok = wait_full(1);
	small = finish(start(one_op, 16));
	large = finish(start(one_op, sizeof(data)));
	rar_log("shares: one user took %u of %u KiB, then %s; another user's 16 bytes: %s, 256 KiB: %s",
		shared->taken[0] * (OP_BYTES >> 10), NET_MEM >> 10,
		name_of(-shared->result), name_of(small), name_of(large));
	ok &= shared->taken[0] * OP_BYTES > NET_MEM / 4 &&
	      shared->taken[0] * OP_BYTES <= NET_MEM && !small;
	rar_kill(pid);
	return ok;
}

/* As root of a container with CAP_SETUID: a user for each filler. */
static int fill_as_another(unsigned int i)
{
	int err = become(HOARDER + 100 + (int)i);

	if (!err)
		shared->taken[i] = hoard(0x5d0000 + i * 1000, &err);
	shared->result = err;
	shared->full++;
	pause();
	return 0;
}

/* Another user yet, who takes a part of what is kept for those who have little. */
static int fill_rest(unsigned int i)
{
	if (!become(HOARDER + 200 + (int)i))
		hoard_rest(0x5e0000 + i * 1000);
	shared->full++;
	pause();
	return 0;
}

/* Users that together take all leave every socket a short operation. */
static bool test_many_users(void)
{
	pid_t pid[FILLERS], rest[FILLERS * 2];
	uint64_t all = 0;
	int small, large;
	bool ok;

	rar_write(MEM, "8388608");
	memset(shared, 0, sizeof(*shared));
	for (unsigned int i = 0; i < FILLERS; i++)
		pid[i] = start(fill_as_another, i);
	ok = wait_full(FILLERS);
	for (unsigned int i = 0; i < FILLERS * 2; i++)
		rest[i] = start(fill_rest, i);
	ok &= wait_full(FILLERS * 3);
	small = finish(start(one_op, 16));
	large = finish(start(one_op, sizeof(data)));
	for (unsigned int i = 0; i < FILLERS; i++)
		all += (uint64_t)shared->taken[i] * OP_BYTES;
	rar_log("shares: %u users took %llu of %u KiB; another user's 16 bytes: %s, 256 KiB: %s",
		FILLERS, (unsigned long long)all >> 10, NET_MEM >> 10, name_of(small),
		name_of(large));
	ok &= all >= NET_MEM && !small && large;
	for (unsigned int i = 0; i < FILLERS; i++)
		rar_kill(pid[i]);
	for (unsigned int i = 0; i < FILLERS * 2; i++)
		rar_kill(rest[i]);
	return ok;
}

/* Become root of an own user and network namespace. */
static int own_net(void)
{
	int err = become(HOARDER);

	if (!err && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		err = -errno;
	if (!err)
		err = rar_write("/proc/self/setgroups", "deny") ?:
		      rar_write("/proc/self/uid_map", "0 1000 1") ?:
		      rar_write("/proc/self/gid_map", "0 1000 1");
	return err ?: system("ip link set lo up");
}

/* Fill a namespace of one's own, whose limits are lifted. */
static int fill_own_net(unsigned int i)
{
	int err = own_net() ?: rar_write(MEM, "1099511627776") ?:
		  rar_write("/proc/sys/net/rar/max_members", "1000000");

	if (!err)
		shared->taken[i] = hoard(1, &err);
	shared->result = err;
	shared->full++;
	pause();
	return 0;
}

/* Fillers in their own namespaces together get no more than the host allows. */
static bool test_namespaces(void)
{
	pid_t pid[FILLERS];
	uint64_t all = 0;
	char max[16];
	int small;
	bool ok;

	snprintf(max, sizeof(max), "%u", HOST_MEM);
	ok = !rar_write(MAX_MEM, max);
	memset(shared, 0, sizeof(*shared));
	for (unsigned int i = 0; i < FILLERS; i++)
		pid[i] = start(fill_own_net, i);
	ok &= wait_full(FILLERS);
	small = finish(start(one_op, 16));
	for (unsigned int i = 0; i < FILLERS; i++)
		all += (uint64_t)shared->taken[i] * OP_BYTES;
	rar_log("shares: %u namespaces took %llu of %u MiB, then %s; another user's operation: %s",
		FILLERS, (unsigned long long)all >> 20, HOST_MEM >> 20,
		name_of(-shared->result), name_of(small));
	ok &= all > HOST_MEM / 2 && all <= HOST_MEM + HOST_MEM / 8 && !small;
	for (unsigned int i = 0; i < FILLERS; i++)
		rar_kill(pid[i]);
	return ok;
}

/* Waits in a namespace of its own for memory that another namespace holds. */
static int wait_for_memory(unsigned int unused)
{
	struct rar_op op = rar_op_of(RAR_F32, 0, 0);
	int fd, err;

	(void)unused;
	err = rar_private_net() ?: become(OTHER_USER);
	fd = err ? err : open_alone(7);
	if (fd < 0)
		return -fd;
	shared->go = true;
	err = rar_timeout(fd, SO_SNDTIMEO, 20000);
	return -(err ?: rar_send(fd, data, sizeof(data), 0, &op));
}

/* Memory given back in one namespace wakes a sender in another namespace. */
static bool test_wake(void)
{
	uint64_t begin;
	pid_t filler, pid;
	int err;
	bool ok;

	ok = !rar_write(MAX_MEM, "4194304");
	memset(shared, 0, sizeof(*shared));
	filler = start(fill_own_net, 0);
	ok &= wait_full(1);
	pid = start(wait_for_memory, 0);
	while (!shared->go && !waitpid(pid, NULL, WNOHANG))
		rar_sleep_ms(1);
	rar_sleep_ms(300);
	ok &= !waitpid(pid, NULL, WNOHANG);
	begin = rar_now_us();
	rar_kill(filler);
	err = finish(pid);
	rar_log("shares: a sender that waits for another namespace: %s after %llu ms",
		name_of(err), (unsigned long long)(rar_now_us() - begin) / 1000);
	rar_write(MAX_MEM, "0");
	return ok && !err && rar_now_us() - begin < 5000000;
}

/* Each round pins most of RLIMIT_MEMLOCK, and closes. */
static int pin_rounds(unsigned int rounds)
{
	static struct rlimit limit = { PIN_LIMIT, PIN_LIMIT };
	void *buf = mmap(NULL, PIN_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int fd, err = 0;

	if (buf == MAP_FAILED || setrlimit(RLIMIT_MEMLOCK, &limit) || become(HOARDER))
		return 1;
	for (unsigned int i = 0; i < rounds; i++) {
		fd = open_alone(0x5c0000);
		err = fd < 0 ? fd : rar_send(fd, buf, PIN_BYTES, MSG_ZEROCOPY, NULL);
		shared->taken[0] += !err;
		if (err)
			shared->result = err;
		close(fd);
	}
	return 0;
}

static bool test_memlock(void)
{
	int err;

	memset(shared, 0, sizeof(*shared));
	err = finish(start(pin_rounds, PIN_ROUNDS));
	rar_log("shares: %u of %u rounds of open, pin, close below RLIMIT_MEMLOCK, else %s",
		shared->taken[0], PIN_ROUNDS, name_of(-shared->result));
	return !err && shared->taken[0] == PIN_ROUNDS;
}

/* The number of closed members in /proc/net/rar. */
static unsigned int closed_members(void)
{
	unsigned int n = 0;
	char line[512];
	FILE *f = fopen("/proc/net/rar", "re");

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, " orphan ") || strstr(line, " tombstone ");
	if (f)
		fclose(f);
	return n;
}

/* Closed members of a namespace with the longest times end at the host's times. */
static int close_early(unsigned int unused)
{
	struct rar_ring ring = { .group = 9, .size = 2, .where = RAR_ON_LO4 };
	int fd[2], err;

	(void)unused;
	err = own_net() ?: rar_write("/proc/sys/net/rar/dead_ms", "86400000") ?:
	      rar_write("/proc/sys/net/rar/linger_ms", "86400000");
	for (uint32_t r = 0; r < 2 && !err; r++) {
		fd[r] = rar_socket();
		err = rar_join_start(fd[r], &ring, r);
	}
	for (uint32_t r = 0; r < 2 && !err; r++)
		err = rar_join_wait(fd[r], 10000);
	if (err || rar_send(fd[0], data, 64, 0, NULL))
		return 1;
	close(fd[0]);
	close(fd[1]);
	shared->taken[0] = closed_members();
	for (int i = 0; i < 300 && closed_members(); i++)
		rar_sleep_ms(10);
	shared->taken[1] = closed_members();
	return 0;
}

static bool test_closed(void)
{
	int err;

	memset(shared, 0, sizeof(*shared));
	err = finish(start(close_early, 0));
	rar_log("shares: %u closed members in a user's namespace, then %u",
		shared->taken[0], shared->taken[1]);
	return !err && shared->taken[0] && !shared->taken[1];
}

int main(void)
{
	rar_begin();
	/* The host's times, if this is the initial namespace. */
	rar_write("/proc/sys/net/rar/dead_ms", "300");
	rar_write("/proc/sys/net/rar/linger_ms", "300");
	if (geteuid() || rar_private_net())
		ksft_exit_skip("needs root\n");
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(6);
	ksft_test_result(test_unread(), "unread results of a user leave room for others\n");
	ksft_test_result(test_many_users(), "many users leave a short operation for another\n");
	ksft_test_result(test_namespaces(), "namespaces of a user obey the host's limit\n");
	ksft_test_result(test_wake(), "memory of another namespace wakes a sender\n");
	ksft_test_result(test_memlock(), "RLIMIT_MEMLOCK does not outlive close()\n");
	ksft_test_result(test_closed(), "closed members end at the host's times\n");
	ksft_finished();
}
