// SPDX-License-Identifier: GPL-2.0
/*
 * A hoarder: an ordinary user without capabilities takes all groups and all memory that it
 * can get. net.rar.max_members and net.rar.mem limit it. Its memory is charged to its memory
 * cgroup, which limits it, too. A group of another user in the same network namespace goes
 * on as before, and other users still get groups.
 *
 * Runs on 127.0.0.1 in a network namespace of its own. Needs root for the namespace, the
 * cgroup and the users.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define HOARDER		65534
#define OTHER_USER	1000
#define WANTED		10000u		/* groups that the hoarder tries to take */
#define MAX_GROUPS	4096u		/* net.rar.max_members */
#define COLLIDING	4000u
#define GROUP_MIN	2048u		/* bytes: a member costs more than that */
#define PAIR_OPS	100u
#define OP_BYTES	(1u << 20)
#define CGROUP		"/sys/fs/cgroup/rar_quota"
#define LIMIT_S		60

struct shared {
	atomic_uint taken;	/* groups or operations */
	_Atomic int err;	/* errno that ended it */
	_Atomic bool done;
};

static struct shared *shared;

/* ------------------------------------------------------------ users, cgroups */

static int become(uid_t uid)
{
	if (setgroups(0, NULL) || setgid(uid) || setuid(uid))
		return -errno;
	return 0;
}

static int enter_cgroup(void)
{
	return rar_write(CGROUP "/cgroup.procs", "0");
}

static int make_cgroup(const char *max)
{
	int err;

	rar_write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir(CGROUP, 0755) && errno != EEXIST)
		return -errno;
	err = rar_write(CGROUP "/memory.max", max);
	rar_write(CGROUP "/memory.swap.max", "0");
	return err;
}

/* A number from a file of the cgroup: after @key, or the first number. */
static uint64_t cgroup_number(const char *file, const char *key)
{
	char path[96], line[128];
	uint64_t value = 0;
	FILE *f;

	snprintf(path, sizeof(path), CGROUP "/%s", file);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (key && strncmp(line, key, strlen(key)))
			continue;
		value = strtoull(line + (key ? strlen(key) : 0), NULL, 10);
		break;
	}
	if (f)
		fclose(f);
	return value;
}

/* Bytes charged to the cgroup for kernel objects; on old kernels all its bytes. */
static uint64_t charged(void)
{
	return cgroup_number("memory.stat", "kernel ") ?:
	       cgroup_number("memory.current", NULL);
}

static void remove_cgroup(void)
{
	for (int i = 0; i < 100 && rmdir(CGROUP) && errno == EBUSY; i++)
		rar_sleep_ms(20);
}

/* ------------------------------------------------------------ another user */

/* Two members of another user, which work while the hoarder takes all it can. */
struct pair {
	struct rar_ring ring;
	int fd[2];
	uint64_t next_id;
};

static int open_pair(struct pair *p)
{
	int err = 0;

	p->ring.size = 2;
	p->ring.where = RAR_ON_LO4;
	for (uint32_t r = 0; r < 2 && !err; r++) {
		p->fd[r] = rar_socket();
		err = rar_join_start(p->fd[r], &p->ring, r);
	}
	for (uint32_t r = 0; r < 2 && !err; r++)
		err = rar_join_wait(p->fd[r], 10000);
	return err;
}

static void close_pair(struct pair *p)
{
	close(p->fd[0]);
	close(p->fd[1]);
}

static int pair_op(struct pair *p)
{
	struct rar_data d = { .id = p->next_id++, .count = 2000, .size = 2,
			      .dtype = RAR_F32 };

	return rar_post(p->fd[0], &d, 0) ?: rar_post(p->fd[1], &d, 1) ?:
	       rar_collect(p->fd[0], &d, 0) ?: rar_collect(p->fd[1], &d, 1);
}

static int compare_us(const void *a, const void *b)
{
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 :
	       *(const uint32_t *)a > *(const uint32_t *)b;
}

/* Median time of an operation in us, 0 if one failed. */
static uint32_t pair_median(struct pair *p)
{
	uint32_t us[PAIR_OPS];
	uint64_t start;
	int err;

	for (uint32_t i = 0; i < PAIR_OPS; i++) {
		start = rar_now_us();
		err = pair_op(p);
		us[i] = rar_now_us() - start;
		if (err) {
			rar_log_error(p->fd[0], "the other user's group", err);
			return 0;
		}
	}
	qsort(us, PAIR_OPS, sizeof(us[0]), compare_us);
	return us[PAIR_OPS / 2] ?: 1;
}

/* The best of three medians, to leave out other load of the machine. */
static uint32_t pair_pace(struct pair *p)
{
	uint32_t best = UINT32_MAX, us;

	for (int i = 0; i < 3; i++) {
		us = pair_median(p);
		best = us < best ? us : best;
	}
	return best;
}

/* Runs fn in a child as another user in the same namespace. Returns its value. */
static int as_other_user(int (*fn)(void *), void *arg)
{
	pid_t pid = fork();

	if (!pid)
		_exit(become(OTHER_USER) ? 255 : fn(arg));
	return rar_reap(pid, rar_now_us() + LIMIT_S * 1000000ull);
}

/* ------------------------------------------------------------ the hoarder */

static struct rlimit many_files = { WANTED + 100, WANTED + 100 };

/* Calls @take again and again until it is refused, and keeps what it got. */
static void hoard(int (*take)(uint32_t i), uint32_t wanted)
{
	int err = 0;

	for (uint32_t i = 0; i < wanted && !err; i++) {
		err = take(i);
		if (!err)
			shared->taken++;
	}
	shared->err = err;
	shared->done = true;
	pause();
}

static pid_t start_hoarder(int (*take)(uint32_t i), uint32_t wanted,
			   const char *memory_max)
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	if (memory_max && make_cgroup(memory_max))
		return -ENOENT;
	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	if (setrlimit(RLIMIT_NOFILE, &many_files) ||
	    (memory_max && enter_cgroup()) || become(HOARDER))
		_exit(1);
	hoard(take, wanted);
	_exit(0);
}

/* Waits until the hoarder has all it can get, or was killed by its cgroup. */
static bool wait_hoarder(pid_t *pid)
{
	uint64_t deadline = rar_now_us() + LIMIT_S * 1000000ull;

	while (!shared->done && rar_now_us() < deadline) {
		if (waitpid(*pid, NULL, WNOHANG) == *pid) {
			*pid = 0;
			return true;
		}
		rar_sleep_ms(2);
	}
	return shared->done;
}

static void stop_hoarder(pid_t pid)
{
	if (pid > 0)
		rar_kill(pid);
}

/* Binds a member of a group of two, without joining. */
static int bind_group(uint64_t group, uint16_t port)
{
	struct rar_ring ring = { .group = group, .size = 2,
				 .where = RAR_ON_LO4, .port = port };
	int fd = rar_socket();

	return fd < 0 ? fd : rar_bind(fd, &ring, 0);
}

static int take_group(uint32_t i)
{
	return bind_group(0x40a4d00000 + i, 0);
}

/* Takes a group on a UDP port of its own. */
static int take_port(uint32_t i)
{
	return bind_group(0x40a4d00000 + i, 20000 + i);
}

/* The kernel's jhash_3words() and hash_32(), without a seed. */
static uint32_t rol(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

static uint32_t bucket(uint64_t id, uint32_t rank)
{
	uint32_t a = 0xdeadbeef + 12 + (uint32_t)id;
	uint32_t b = 0xdeadbeef + 12 + (uint32_t)(id >> 32);
	uint32_t c = 0xdeadbeef + 12 + rank;

	c ^= b; c -= rol(b, 14);
	a ^= c; a -= rol(c, 11);
	b ^= a; b -= rol(a, 25);
	c ^= b; c -= rol(b, 16);
	a ^= c; a -= rol(c, 4);
	b ^= a; b -= rol(a, 14);
	c ^= b; c -= rol(b, 24);
	return c * 0x61c88647 >> 24;
}

static uint64_t victim_group;

/* A group whose members are both in one bucket of an unkeyed hash. */
static uint64_t find_victim(void)
{
	uint64_t id = 3;

	while (bucket(id, 0) != bucket(id, 1))
		id++;
	return id;
}

/* Takes a group that an unkeyed hash puts into the bucket of another user's group. */
static int take_collision(uint32_t i)
{
	static uint64_t id = 0x40a4d00000;

	(void)i;
	while (bucket(++id, 0) != bucket(victim_group, 0))
		;
	return bind_group(id, 0);
}

/* Takes an operation of 1 MiB in a group whose other member posts nothing. */
static int take_memory(uint32_t i)
{
	static struct pair own = { .ring.group = 0x40a4d };
	static char buf[OP_BYTES];
	int err = i % RAR_MAX_OPS ? 0 : open_pair(&own);

	own.ring.group += !(i % RAR_MAX_OPS);
	return err ?: rar_send(own.fd[0], buf, sizeof(buf), MSG_DONTWAIT, NULL);
}

/* ------------------------------------------------------------ the tests */

static bool same_pace(const char *what, uint32_t before, uint32_t beside)
{
	bool ok = before && beside && beside <= 2 * before + 300;

	rar_log("quota %s: another user's operations: median %u us before, %u us beside %s",
		what, before, beside, ok ? "PASS" : "FAIL");
	return ok;
}

static int bind_one(void *group)
{
	return -bind_group(*(uint64_t *)group, 0);
}

/* Of 10 000 groups the hoarder gets max_members, is charged, and disturbs nobody. */
static bool test_groups(void)
{
	struct pair other = { .ring.group = 1 };
	uint64_t before, used, one = 77;
	uint32_t pace[2];
	pid_t pid;
	bool ok;
	int got;

	ok = !open_pair(&other);
	pace[0] = pair_pace(&other);
	make_cgroup("512M");
	before = charged();
	pid = start_hoarder(take_group, WANTED, "512M");
	ok &= wait_hoarder(&pid);
	used = charged() - before;
	pace[1] = pair_pace(&other);
	got = as_other_user(bind_one, &one);
	rar_log("quota groups: taken=%u of %u, then %s; charged=%llu, %llu each; another user's bind: %s",
		shared->taken, WANTED, strerrorname_np(-shared->err),
		(unsigned long long)used,
		(unsigned long long)used / (shared->taken ?: 1),
		got ? strerrorname_np(got) : "ok");
	ok &= shared->err == -ENOSPC && shared->taken <= MAX_GROUPS &&
	      shared->taken > 1000 && used >= (uint64_t)shared->taken * GROUP_MIN;
	stop_hoarder(pid);
	remove_cgroup();
	close_pair(&other);
	ksft_test_result(ok && same_pace("groups", pace[0], pace[1]),
			 "10 000 groups of one user: ENOSPC, charged, others go on\n");
	return !got;
}

/* A small cgroup limits the hoarder before net.rar does. */
static bool test_bounded(const char *what, int (*take)(uint32_t i),
			 uint32_t wanted, const char *max)
{
	uint64_t limit = strtoull(max, NULL, 10) << 20, most;
	struct pair other = { .ring.group = 2 };
	uint32_t pace[2];
	pid_t pid;
	bool ok;

	ok = !open_pair(&other);
	pace[0] = pair_pace(&other);
	pid = start_hoarder(take, wanted, max);
	ok &= wait_hoarder(&pid);
	most = cgroup_number("memory.peak", NULL) ?:
	       cgroup_number("memory.current", NULL);
	rar_log("quota %s: taken=%u, then %s; charged=%llu bound=%llu", what,
		shared->taken, pid ? strerrorname_np(-shared->err) : "killed",
		(unsigned long long)most, (unsigned long long)limit);
	ok &= shared->taken && shared->taken < wanted && most <= limit &&
	      most > limit / 2;
	pace[1] = pair_pace(&other);
	stop_hoarder(pid);
	remove_cgroup();
	close_pair(&other);
	return ok & same_pace(what, pace[0], pace[1]);
}

/* The hash of members must be keyed; otherwise all these groups are in one bucket. */
static bool test_collisions(void)
{
	struct pair other = { .ring.group = find_victim() };
	uint32_t pace[2];
	pid_t pid;
	bool ok;

	victim_group = other.ring.group;
	rar_sleep_ms(500);	/* until earlier members are freed */
	ok = !open_pair(&other);
	pace[0] = pair_pace(&other);
	pid = start_hoarder(take_collision, COLLIDING, NULL);
	ok &= wait_hoarder(&pid);
	pace[1] = pair_pace(&other);
	stop_hoarder(pid);
	close_pair(&other);
	return ok & same_pace("colliding ids", pace[0], pace[1]);
}

/* Thousands of ports are given back; other users' bind() must not wait for that. */
static bool test_ports(void)
{
	uint64_t start, worst = 0, one, us;
	pid_t pid;
	bool ok;

	pid = start_hoarder(take_port, COLLIDING, NULL);
	ok = wait_hoarder(&pid) && shared->taken > 1000;
	stop_hoarder(pid);
	for (uint32_t i = 0; i < 20; i++) {
		one = 1000 + i;
		start = rar_now_us();
		ok &= !as_other_user(bind_one, &one);
		us = rar_now_us() - start;
		worst = us > worst ? us : worst;
	}
	rar_log("quota ports: taken=%u; while they are given back another user's bind takes %llu us at most",
		shared->taken, (unsigned long long)worst);
	return ok && worst < 1000000;
}

int main(void)
{
	bool left;

	rar_begin();
	if (geteuid() || setrlimit(RLIMIT_NOFILE, &many_files) ||
	    rar_private_net())
		ksft_exit_skip("needs root\n");
	if (make_cgroup("512M"))
		ksft_exit_skip("no memory cgroup\n");
	rar_write("/proc/sys/net/rar/dead_ms", "10000");
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(6);
	left = test_groups();
	ksft_test_result(left, "groups are left for other users\n");
	ksft_test_result(test_bounded("groups in 8 MiB", take_group, WANTED, "8M"),
			 "a memory cgroup bounds the groups\n");
	ksft_test_result(test_bounded("operations in 64 MiB", take_memory, 1000,
				      "64M"),
			 "a memory cgroup bounds the operations\n");
	ksft_test_result(test_collisions(), "ids chosen to collide\n");
	ksft_test_result(test_ports(), "thousands of ports are given back\n");
	remove_cgroup();
	ksft_finished();
}
