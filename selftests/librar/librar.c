// SPDX-License-Identifier: GPL-2.0
/*
 * librar, with the kernel module or with RAR_STUB=1: runs the tests of calls.c, failures.c and
 * cards.c, each with four ranks as processes. Prints TAP.
 *
 * librar [PATTERN]: only the tests whose name contains PATTERN
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <net/if.h>
#include <unistd.h>

#include "librar_test.h"

struct shared *shared;
bool stub;

void sync_ranks(void)
{
	pthread_barrier_wait(&shared->barrier);
}

void sync_others(void)
{
	pthread_barrier_wait(&shared->others);
}

const char *text(rar_comm_t *c, int err)
{
	static char buf[256];

	return rar_strerror(c, err, buf, sizeof(buf));
}

/* -- groups ---------------------------------------------------------------- */

struct rar_opts local_opts(void)
{
	return (struct rar_opts) { .size = sizeof(struct rar_opts), .local = "127.0.0.1" };
}

int join(rar_comm_t **c, uint32_t rank, uint32_t size, const struct rar_opts *opts)
{
	int err = rar_card_make(opts, &shared->cards[rank]);

	sync_ranks();
	if (!err)
		err = rar_comm_start(c, shared->cards, size, rank, opts);
	if (!err)
		err = rar_comm_ready(*c, WAIT_MS);
	if (err)
		printf("# rank %u: join: %s\n", rank, text(*c, err));
	return err;
}

rar_comm_t *join_all(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	rar_comm_t *c = NULL;

	return join(&c, rank, RANKS, &opts) ? NULL : c;
}

int start_sum(rar_comm_t *c, int64_t *x, int flags, rar_req_t *req)
{
	struct rar_call call = { .collective = RAR_ALLREDUCE, .dtype = RAR_I64, .count = 1,
				 .flags = flags, .src = x, .dst = x };

	return rar_start(c, &call, req);
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
	pthread_barrier_init(&shared->others, &attr, RANKS - 1);
}

static bool run(const struct test *t)
{
	bool ok = true;
	pid_t pid[RANKS];
	int status;

	make_shared();
	fflush(NULL);
	for (uint32_t r = 0; r < RANKS; r++) {
		pid[r] = fork();
		if (!pid[r]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(120);
			status = t->fn(r);
			fflush(NULL);
			_exit(status);
		}
	}
	for (int r = 0; r < RANKS; r++) {
		if (waitpid(pid[r], &status, 0) != pid[r] || !status)
			continue;
		printf("# rank %d: status %#x\n", r, status);
		ok = false;
		/* The others may wait for it at a barrier. */
		for (int i = 0; i < RANKS; i++)
			if (i > r)
				kill(pid[i], SIGKILL);
	}
	munmap(shared, sizeof(*shared));
	return ok;
}

static int count(const struct test *t, const char *pattern)
{
	int n = 0;

	for (; t->name; t++)
		n += strstr(t->name, pattern) != NULL;
	return n;
}

static int run_all(const struct test *t, const char *pattern, int *nr)
{
	int failed = 0;
	bool ok;

	for (; t->name; t++) {
		if (!strstr(t->name, pattern))
			continue;
		ok = run(t);
		printf("%sok %d %s\n", ok ? "" : "not ", ++*nr, t->name);
		failed += !ok;
	}
	return failed;
}

int main(int argc, char **argv)
{
	const char *pattern = argc > 1 ? argv[1] : "";
	int failed = 0, nr = 0, err;
	const char *env;

#ifdef WITH_STUB
	setenv("RAR_STUB", "1", 1);
#endif
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Tests of these set them. */
	unsetenv("RAR_SECURITY");
	unsetenv("RAR_SCHEDULE");
	env = getenv("RAR_STUB");
	stub = env && *env && strcmp(env, "0");
	err = rar_probe(NULL);
	printf("TAP version 13\n");
	if (err) {
		printf("1..0 # SKIP %s\n", text(NULL, err));
		return 4;
	}
	private_net();
	printf("1..%d\n", count(call_tests, pattern) + count(failure_tests, pattern) +
	       count(card_tests, pattern));
	failed += run_all(call_tests, pattern, &nr);
	failed += run_all(failure_tests, pattern, &nr);
	failed += run_all(card_tests, pattern, &nr);
	return failed != 0;
}
