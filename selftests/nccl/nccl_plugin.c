// SPDX-License-Identifier: GPL-2.0
/*
 * The plugin for NCCL, without NCCL and without a GPU: loads it as releases of NCCL do, and runs the
 * tests of the other files with each version of the interface. Each test has four ranks as
 * processes, which load the plugin themselves. With the kernel module or with RAR_STUB=1. Prints
 * TAP.
 *
 * nccl_plugin [PATTERN]: only the tests whose name contains PATTERN
 * RAR_NCCL_PLUGIN: path of the plugin; by default it is beside this program
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <libgen.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl_test.h"

#define WAIT_S	60
#define SPINS	200		/* naps that only let others run */

struct shared *shared;

static struct communicator first = { .id = 0xfeed, .traffic_class = NCCL_UNDEFINED };

void sync_ranks(void)
{
	pthread_barrier_wait(&shared->barrier);
}

bool nap(unsigned int n)
{
	static time_t since;
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (!n)
		since = t.tv_sec;
	if (n < SPINS)
		sched_yield();
	else
		usleep(200);
	return t.tv_sec - since < WAIT_S;
}

uint64_t random_bits(uint64_t seed, uint64_t i)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + i * 0xd1342543de82ef95ull + 1;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	return x ^ x >> 32;
}

int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* -- running --------------------------------------------------------------- */

/* Loopback is up in a network namespace of our own; without root the host's will do. */
static void private_net(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	if (unshare(CLONE_NEWNET))
		return;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ioctl(fd, SIOCSIFFLAGS, &lo);
	close(fd);
}

static void make_shared(void)
{
	pthread_barrierattr_t attr;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, RANKS);
}

/* A test that begins and ends with a communicator. */
static int run_inside(const struct test *t, uint32_t rank)
{
	const char *wrong = load();
	int err;

	CHECK(!wrong, "%s", wrong);
	CHECK(!net_init() && !coll_init(), "init");
	err = t->fn(rank);
	CHECK(!net_finalize() && !coll_finalize(), "finalize");
	unload();
	return err;
}

/* Nothing stays open. */
static int run_rank(const struct test *t, uint32_t rank)
{
	int before, err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(2 * WAIT_S);
	before = count_fds();
	err = t->flags & BARE ? t->fn(rank) : run_inside(t, rank);
	if (!err)
		CHECK(count_fds() == before, "descriptors: %d before, %d after", before,
		      count_fds());
	return err;
}

static bool as_wanted(const struct test *t, int rank, int status)
{
	if (t->victim == rank + 1)
		return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	return !status;
}

/* A counter of /proc/vmstat; -1 if this kernel does not have it. */
static long vmstat(const char *counter)
{
	long value = -1, n;
	char name[64];
	FILE *f;

	/* Each CPU counts for itself for a while. */
	f = fopen("/proc/sys/vm/stat_refresh", "we");
	if (f) {
		fputs("1", f);
		fclose(f);
	}
	f = fopen("/proc/vmstat", "re");
	while (f && fscanf(f, "%63s %ld", name, &n) == 2)
		if (!strcmp(name, counter))
			value = n;
	if (f)
		fclose(f);
	return value;
}

long pinned_ever(void)
{
	return vmstat("nr_foll_pin_acquired");
}

/* User pages pinned now. */
static long pinned(void)
{
	long ever = pinned_ever();

	return ever < 0 ? -1 : ever - vmstat("nr_foll_pin_released");
}

/* The pages of closed members stay pinned while they serve their neighbours. */
static bool unpinned(long before)
{
	for (unsigned int n = 0; pinned() > before; n++)
		if (!nap(n)) {
			printf("# %ld pages pinned before, %ld after\n", before, pinned());
			return false;
		}
	return true;
}

static bool run(const struct test *t)
{
	long before = pinned();
	bool ok = true;
	pid_t pid[RANKS];
	int status;

	make_shared();
	fflush(NULL);
	for (uint32_t r = 0; r < RANKS; r++) {
		pid[r] = fork();
		if (!pid[r])
			exit(run_rank(t, r));	/* lets a sanitizer look for leaks */
	}
	for (int r = 0; r < RANKS; r++) {
		if (waitpid(pid[r], &status, 0) != pid[r] || as_wanted(t, r, status))
			continue;
		printf("# rank %d: status %#x\n", r, status);
		ok = false;
		/* The others may wait for it at a barrier. */
		for (int i = 0; i < RANKS; i++)
			if (i > r)
				kill(pid[i], SIGKILL);
	}
	munmap(shared, sizeof(*shared));
	return unpinned(before) && ok;
}

/* Is this the last of the releases that find the same in the plugin? */
static bool is_wanted(const struct test *t)
{
	const struct release *next = nccl + 1;

	if (t->flags & ALL_RELEASES || !next->name)
		return true;
	if (t->flags & TUNER)
		return nccl->takes_tuner && nccl->takes_tuner != next->takes_tuner;
	return !(t->flags & ONCE) && nccl->takes != next->takes;
}

static int run_all(const struct test *t, const char *pattern, int *nr)
{
	int failed = 0;
	bool ok;

	for (; t->name; t++) {
		if (!strstr(t->name, pattern) || !is_wanted(t))
			continue;
		ok = run(t);
		printf("%sok %d NCCL %s: %s\n", ok ? "" : "not ", ++*nr, nccl->name, t->name);
		failed += !ok;
	}
	return failed;
}

static int run_release(const char *pattern, int *nr)
{
	static const struct test *const all[] = {
		comm_tests, message_tests, coll_tests, window_tests, bad_tests, missing_tests,
		tuner_tests,
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		failed += run_all(all[i], pattern, nr);
	return failed;
}

/* -- begin ----------------------------------------------------------------- */

static bool find_plugin(void)
{
	const char *path = getenv("RAR_NCCL_PLUGIN");
	char own[2048];
	ssize_t n;

	if (path) {
		snprintf(plugin, PATH_BYTES, "%s", path);
	} else {
		n = readlink("/proc/self/exe", own, sizeof(own) - 1);
		own[n > 0 ? n : 0] = '\0';
		snprintf(plugin, PATH_BYTES, "%s/libnccl-net-rar.so", dirname(own));
	}
	return !access(plugin, R_OK);
}

/* Is the module here? 4 if not, so that the test is skipped. */
static int can_begin(void)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid) {
		if (load() || net_init())
			_exit(1);
		_exit(coll_init() ? 4 : 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	const char *pattern = argc > 1 ? argv[1] : "";
	int failed = 0, nr = 0, status;

#ifdef WITH_STUB
	setenv("RAR_STUB", "1", 1);
#endif
	setenv("RAR_LOCAL", "127.0.0.1", 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n");
	if (!find_plugin()) {
		printf("1..0 # SKIP there is no %s\n", plugin);
		return 4;
	}
	private_net();
	current = &first;
	status = can_begin();
	if (status) {
		printf(status == 4 ? "1..0 # SKIP no module rar\n" :
		       "Bail out! the plugin does not load\n");
		return status;
	}
	for (nccl = releases; nccl->name; nccl++)
		failed += run_release(pattern, &nr);
	printf("1..%d\n", nr);
	return failed || !nr;
}
