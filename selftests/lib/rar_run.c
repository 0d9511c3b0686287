// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the ranks of a test, as processes or threads: see rar_util.h. A rank that waits sleeps until it
 * is woken, and does not poll: in User-Mode Linux, where idle time passes at once, polls would be most
 * of the work.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rar_util.h"

#define RAR_GRACE_US	10000000ull	/* time for the other ranks after the first failure */

void *rar_shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void rar_futex(atomic_uint *word, int op, uint32_t value, const struct timespec *limit)
{
	syscall(SYS_futex, word, op, value, limit, NULL, 0);
}

int rar_barrier(struct rar_barrier *b, uint32_t n, unsigned int timeout_s)
{
	uint64_t deadline = rar_now_us() + timeout_s * 1000000ull, now;
	uint32_t round = b->round;

	if (++b->arrived == n) {
		b->arrived = 0;
		b->round++;
		rar_futex(&b->round, FUTEX_WAKE, INT_MAX, NULL);
		return 0;
	}
	while (b->round == round) {
		now = rar_now_us();
		if (now > deadline)
			return -ETIMEDOUT;
		now = deadline - now;
		rar_futex(&b->round, FUTEX_WAIT, round,
			  &(struct timespec){ now / 1000000, now % 1000000 * 1000 });
	}
	return 0;
}

/* Turn a rank's result into an exit status that cannot be taken for a signal. */
static int rar_exit_status(int ret)
{
	ret = ret < 0 ? -ret : ret;
	return ret > 127 ? 127 : ret;
}

static int rar_rank_main(const char *netns, rar_rank_fn fn, uint32_t rank,
			 void *arg)
{
	int err = netns ? rar_enter(netns) : 0;

	if (!err)
		return rar_exit_status(fn(rank, arg));
	rar_log("rank %u: namespace %s: %s", rank, netns, strerror(-err));
	return 1;
}

pid_t rar_spawn(const char *netns, rar_rank_fn fn, uint32_t rank, void *arg)
{
	pid_t parent = getpid(), pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid < 0 ? -errno : pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	_exit(rar_rank_main(netns, fn, rank, arg));
}

void rar_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int rar_exit_value(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits until one of the processes has ended, until @deadline_us, or for a second. */
static void rar_await(const pid_t *pid, uint32_t n, uint64_t deadline_us)
{
	uint64_t now = rar_now_us();
	uint64_t left = deadline_us < now ? 0 : deadline_us - now;
	struct pollfd fds[RAR_PROCS];

	for (uint32_t r = 0; r < n; r++)
		fds[r] = (struct pollfd){ .fd = pid[r] > 0 ? syscall(SYS_pidfd_open, pid[r], 0) : -1,
					  .events = POLLIN };
	poll(fds, n, left < 1000000 ? left / 1000 + 1 : 1000);
	for (uint32_t r = 0; r < n; r++)
		if (fds[r].fd >= 0)
			close(fds[r].fd);
}

int rar_reap(pid_t pid, uint64_t deadline_us)
{
	int status;

	while (!waitpid(pid, &status, WNOHANG)) {
		if (rar_now_us() > deadline_us) {
			rar_kill(pid);
			return -ETIMEDOUT;
		}
		rar_await(&pid, 1, deadline_us);
	}
	return rar_exit_value(status);
}

static const char *rar_rank_netns(const char *prefix, uint32_t rank,
				  char *name, size_t len)
{
	snprintf(name, len, "%s%u", prefix ?: "", rank);
	return prefix ? name : NULL;
}

static int rar_judge(uint32_t rank, int status)
{
	if (status == -ETIMEDOUT)
		rar_log("rank %u: time limit, killed", rank);
	else if (status > 128)
		rar_log("rank %u: killed by signal %d", rank, status - 128);
	else if (status)
		rar_log("rank %u: failed with %d", rank, status);
	return status != 0;
}

static uint64_t rar_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Reaps the processes that have ended. Returns how many of them failed. */
static int rar_sweep(pid_t *pid, uint32_t n, uint32_t *left)
{
	int failed = 0, status;

	for (uint32_t r = 0; r < n; r++) {
		if (pid[r] <= 0 || waitpid(pid[r], &status, WNOHANG) <= 0)
			continue;
		pid[r] = 0;
		--*left;
		failed += rar_judge(r, rar_exit_value(status));
	}
	return failed;
}

int rar_run(uint32_t n, const char *netns, unsigned int timeout_s,
	    rar_rank_fn fn, void *arg)
{
	uint64_t deadline = rar_now_us() + timeout_s * 1000000ull;
	uint32_t left = 0;
	pid_t pid[RAR_PROCS];
	char name[32];
	int failed = 0;

	for (uint32_t r = 0; r < n; r++) {
		pid[r] = rar_spawn(rar_rank_netns(netns, r, name, sizeof(name)),
				   fn, r, arg);
		left += pid[r] > 0;
	}
	while (left && rar_now_us() < deadline) {
		rar_await(pid, n, deadline);
		if (rar_sweep(pid, n, &left) && !failed++)
			deadline = rar_earlier(deadline, rar_now_us() + RAR_GRACE_US);
	}
	for (uint32_t r = 0; r < n; r++)
		if (pid[r] > 0)
			failed += rar_judge(r, rar_reap(pid[r], 0));
	return failed;
}

struct rar_thread {
	pthread_t id;
	char netns[32];
	bool enter;
	rar_rank_fn fn;
	uint32_t rank;
	void *arg;
};

static void *rar_thread_main(void *p)
{
	struct rar_thread *t = p;

	return (void *)(intptr_t)rar_rank_main(t->enter ? t->netns : NULL,
					       t->fn, t->rank, t->arg);
}

static int rar_join_thread(struct rar_thread *t, unsigned int timeout_s)
{
	struct timespec ts;
	void *status;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += timeout_s;
	if (pthread_timedjoin_np(t->id, &status, &ts)) {
		rar_log("rank %u: thread passed the time limit", t->rank);
		_exit(1);
	}
	return rar_judge(t->rank, (intptr_t)status);
}

int rar_run_threads(uint32_t n, const char *netns, unsigned int timeout_s,
		    rar_rank_fn fn, void *arg)
{
	struct rar_thread t[RAR_PROCS];
	int failed = 0;

	for (uint32_t r = 0; r < n; r++) {
		t[r] = (struct rar_thread){ .fn = fn, .rank = r, .arg = arg };
		t[r].enter = rar_rank_netns(netns, r, t[r].netns,
					    sizeof(t[r].netns));
		if (pthread_create(&t[r].id, NULL, rar_thread_main, &t[r]))
			abort();
	}
	for (uint32_t r = 0; r < n; r++)
		failed += rar_join_thread(&t[r], timeout_s);
	return failed;
}
