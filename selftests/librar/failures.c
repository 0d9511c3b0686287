// SPDX-License-Identifier: GPL-2.0
/*
 * Failures with their names, and joining again; processes; memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "librar_test.h"

#define NOBODY	65534

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

/* -- failures -------------------------------------------------------------- */

/* Does the error name this rank, in numbers and in words? */
static int named(rar_comm_t *c, int err, int want, unsigned int reason, uint32_t rank)
{
	struct rar_error e;
	char words[16];

	snprintf(words, sizeof(words), "rank %u ", rank);
	rar_comm_error(c, &e);
	CHECK(err == want && e.err == -want, "%s", strerror(-err));
	CHECK(e.reason == reason && e.rank == rank, "%s", text(c, err));
	CHECK(strstr(text(c, err), words) && strstr(text(c, err), rar_reason_name(reason)), "%s",
	      text(c, err));
	return 0;
}

/* Rank 2 is killed in the middle. The survivors go on, and agree what to repeat. */
static int killed(uint32_t rank)
{
	uint32_t now = rank > 2 ? rank - 1 : rank;
	rar_comm_t *c = join_all(rank);
	rar_req_t req, lost, first = 0;
	int64_t x[3] = { 1, 1, 1 };
	int err, was;

	CHECK(c, "join");
	for (int i = 0; i < 3; i++)
		CHECK(!start_sum(c, &x[i], 0, &req) && !rar_wait(c, req, WAIT_MS), "start");
	lost = req + 1;
	CHECK(!rar_comm_card(c, &shared->cards[RANKS + now]), "card");
	sync_ranks();
	if (rank == 2)
		_exit(0);
	err = check_sums(c, 300000);	/* more than a queue holds */
	if (named(c, err, -ECONNRESET, RAR_R_DIED, 2))
		return 1;
	was = rar_test(c, lost);	/* -EINVAL: its start already failed */
	CHECK(was == err || was == -EINVAL, "%s", text(c, was));
	CHECK(start_sum(c, &x[0], 0, &req) == err && rar_comm_ready(c, 0) == err, "sticky");
	CHECK(!rar_comm_again(c, shared->cards + RANKS, RANKS - 1, now), "again");
	err = rar_comm_ready(c, WAIT_MS);
	CHECK(!err, "%s", text(c, err));
	CHECK(rar_comm_size(c) == RANKS - 1 && rar_comm_rank(c) == now, "new numbers");
	CHECK(!rar_comm_resume(c, &first) && first == 4, "resume from request %d", (int)first);
	CHECK(!rar_test(c, lost - 1), "complete before the failure");
	CHECK(rar_test(c, lost) == was && rar_wait(c, lost, -1) == was, "the lost request");
	x[0] = 1;
	CHECK(!start_sum(c, &x[0], 0, &req) && req >= 4 && !rar_wait(c, req, WAIT_MS), "start");
	CHECK(x[0] == RANKS - 1, "sum");
	CHECK(was == -EINVAL || rar_test(c, lost) == was, "the lost request");
	CHECK(rar_comm_again(c, shared->cards, RANKS, rank) == -EISCONN, "again, without failure");
	rar_comm_free(c);
	return 0;
}

#ifdef SANITIZED			/* the sanitizer needs memory of its own */
static int again_without_memory(rar_comm_t *c)
{
	(void)c;
	return -ENOMEM;
}
#else
static int again_without_memory(rar_comm_t *c)
{
	struct rar_card *cards = calloc(RAR_MAX_SIZE, sizeof(*cards));
	struct rlimit memory;
	rlim_t usual;
	int err;

	if (!cards || getrlimit(RLIMIT_AS, &memory))
		return -errno;
	usual = memory.rlim_cur;
	memory.rlim_cur = 0;
	setrlimit(RLIMIT_AS, &memory);
	err = rar_comm_again(c, cards, RAR_MAX_SIZE, 0);
	memory.rlim_cur = usual;
	setrlimit(RLIMIT_AS, &memory);
	free(cards);
	return err;
}
#endif

/* rar_comm_again() that is refused changes nothing; one that succeeds may follow. */
static int again_refused(uint32_t rank)
{
	struct rar_card bad[RANKS + 1] = {};
	int64_t x = 1;
	rar_comm_t *c;
	int err;

	mallopt(M_ARENA_MAX, 1);	/* an arena of another thread might have memory left */
	c = join_all(rank);
	CHECK(c && !rar_barrier(c), "join");
	CHECK(!rar_comm_card(c, &shared->cards[RANKS + rank]), "card");
	sync_ranks();
	rar_comm_abort(c);
	err = rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM);
	CHECK(err == -ECONNRESET, "%s", text(c, err));
	CHECK(rar_comm_again(c, bad, RANKS + 1, RANKS) == -EPROTO, "no cards");
	CHECK(rar_comm_again(c, shared->cards, 0, 0) == -EINVAL, "no ranks");
	CHECK(again_without_memory(c) == -ENOMEM, "no memory");
	CHECK(rar_comm_ready(c, 0) == -ECONNRESET, "the error stays");
	CHECK(rar_comm_size(c) == RANKS && rar_comm_rank(c) == rank, "numbers");
	CHECK(rar_comm_host(c, 1) == 0 && rar_comm_host(c, RANKS) == RAR_NO_RANK, "hosts");
	sync_ranks();
	CHECK(!rar_comm_again(c, shared->cards + RANKS, RANKS, rank), "again");
	CHECK(!rar_comm_ready(c, WAIT_MS), "ready");
	CHECK(!rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM) && x == RANKS, "sum");
	rar_comm_free(c);
	return 0;
}

/* Groups of one fail, and their ranks join one group. */
static int grown(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	rar_comm_t *c = NULL;
	int64_t x = 1;

	CHECK(!rar_card_make(&opts, &shared->cards[rank]), "card");
	CHECK(!rar_comm_start(&c, &shared->cards[rank], 1, 0, &opts), "start");
	CHECK(!rar_comm_ready(c, WAIT_MS), "ready");
	rar_comm_abort(c);
	CHECK(rar_barrier(c) == -ECONNRESET, "abort");
	CHECK(!rar_comm_card(c, &shared->cards[rank]), "card");
	sync_ranks();
	CHECK(!rar_comm_again(c, shared->cards, RANKS, rank), "again");
	CHECK(!rar_comm_ready(c, WAIT_MS), "ready");
	CHECK(!rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM) && x == RANKS, "sum");
	rar_comm_free(c);
	return 0;
}

/* The second join fails, as rank 2 is dead. The third knows what the first group completed. */
static int again_twice(uint32_t rank)
{
	uint32_t now = rank > 2 ? rank - 1 : rank;
	struct rar_opts opts = local_opts();
	rar_req_t first = 0;
	rar_comm_t *c;
	int64_t x = 1;
	int err;

	opts.join_ms = 1000;
	CHECK(!join(&c, rank, RANKS, &opts), "join");
	CHECK(!rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM), "sum");
	CHECK(!rar_comm_card(c, &shared->cards[RANKS + now]), "card");
	sync_ranks();
	if (rank == 2)
		_exit(0);
	err = rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM);
	CHECK(err == -ECONNRESET, "%s", text(c, err));
	CHECK(!rar_comm_again(c, shared->cards, RANKS, rank), "again");
	err = rar_comm_ready(c, WAIT_MS);
	CHECK(err == -ETIMEDOUT, "%s", text(c, err));
	/* A rank that still waits in the first join would hear of another number of ranks. */
	sync_others();
	CHECK(!rar_comm_again(c, shared->cards + RANKS, RANKS - 1, now), "once more");
	err = rar_comm_ready(c, WAIT_MS);
	CHECK(!err, "%s", text(c, err));
	CHECK(!rar_comm_resume(c, &first) && first == 2, "resume from request %d", (int)first);
	err = rar_test(c, 2);		/* -EINVAL: its start already failed */
	CHECK(err == -ECONNRESET || err == -EINVAL, "%s", text(c, err));
	rar_comm_free(c);
	return 0;
}

/* After a join that cannot begin, the communicator can still be aborted and freed. */
static int again_taken(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	rar_comm_t *c = join_all(rank), *other;
	struct rar_card card;
	int err;

	CHECK(c, "join");
	sync_ranks();
	rar_comm_abort(c);
	err = rar_barrier(c);
	CHECK(err == -ECONNRESET, "%s", text(c, err));
	CHECK(!rar_card_make(&opts, &card) && !rar_comm_start(&other, &card, 1, 0, &opts),
	      "another group");
	CHECK(!rar_comm_ready(other, WAIT_MS), "another group");
	err = rar_comm_again(c, &card, 1, 0);
	CHECK(err == -EADDRINUSE, "%s", text(c, err));
	CHECK(rar_barrier(c) == err && rar_comm_ready(c, 0) == err, "sticky");
	rar_comm_abort(c);
	rar_comm_free(c);
	CHECK(!rar_barrier(other), "undisturbed");
	rar_comm_free(other);
	return 0;
}

static void *abort_later(void *arg)
{
	usleep(200000);
	rar_comm_abort(arg);
	return NULL;
}

/* A thread of rank 1 aborts; all ranks wait, rank 1 too. */
static int aborted(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	pthread_t thread;
	int64_t x = 1;
	rar_req_t req;
	int err = 0;

	CHECK(c, "join");
	sync_ranks();
	if (rank)		/* rank 0 never starts it, so it cannot complete */
		err = start_sum(c, &x, 0, &req);
	if (rank == 1)
		pthread_create(&thread, NULL, abort_later, c);
	if (!rank)
		usleep(600000);
	if (!rank)
		err = start_sum(c, &x, 0, &req);
	if (!err)
		err = rar_wait(c, req, WAIT_MS);
	if (rank == 1)
		pthread_join(thread, NULL);
	if (named(c, err, -ECONNRESET, RAR_R_ABORTED, 1))
		return 1;
	rar_comm_free(c);
	return 0;
}

/* After its own abort a rank has the memory of its requests back: the failure shows at once. */
static int aborted_memory(uint32_t rank)
{
	static int64_t x[LONG];
	struct rar_call call = { .collective = RAR_ALLREDUCE, .dtype = RAR_I64, .count = LONG,
				 .src = x, .dst = x };
	rar_comm_t *c = join_all(rank);
	struct pollfd p = { .events = POLLIN };
	rar_req_t req;
	int err, shows;

	CHECK(c && !rar_barrier(c), "join");
	if (rank)		/* rank 0 never starts it, so it cannot complete */
		CHECK(!rar_start(c, &call, &req), "start");
	sync_ranks();
	p.fd = rar_comm_fd(c);
	rar_comm_abort(c);
	shows = poll(&p, 1, 0);
	err = rank ? rar_test(c, req) : rar_barrier(c);
	CHECK(shows == 1 && err == -ECONNRESET, "%d, %s", shows, text(c, err));
	rar_comm_abort(c);	/* again */
	rar_comm_free(c);
	return 0;
}

static int disagreed(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	struct rar_error e;
	int64_t x[2] = {};
	int err;

	CHECK(c, "join");
	err = rar_allreduce(c, x, x, rank == 3 ? 2 : 1, RAR_I64, RAR_SUM);
	CHECK(err == -EBADMSG && rar_comm_error(c, &e) == err, "%s", text(c, err));
	CHECK(e.reason == RAR_R_COUNT && (e.rank == 3 || e.other == 3), "%s", text(c, err));
	CHECK(e.rank == 3 ? e.value == 2 && e.other_value == 1 :
			    e.value == 1 && e.other_value == 2, "%s", text(c, err));
	CHECK(strstr(text(c, err), e.rank == 3 ? ", 2, not 1" : ", 1, not 2"), "%s", text(c, err));
	rar_comm_free(c);
	return 0;
}

/* Rank 3 never comes. */
static int missing(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	int64_t begin = now_ms();
	rar_comm_t *c = NULL;
	int err;

	opts.join_ms = 700;
	CHECK(!rar_card_make(&opts, &shared->cards[rank]), "card");
	sync_ranks();
	if (rank == 3)
		return 0;
	CHECK(!rar_comm_start(&c, shared->cards, RANKS, rank, &opts), "start");
	CHECK(rar_comm_ready(c, 0) == -EAGAIN, "not yet");
	CHECK(rar_barrier(c) == -ENOTCONN, "operation");
	err = rar_comm_ready(c, WAIT_MS);
	CHECK(err == -ETIMEDOUT, "%s", text(c, err));
	CHECK(now_ms() - begin < 10000, "after %d ms", (int)(now_ms() - begin));
	CHECK(stub && rank ? 1 : strstr(text(c, err), "rank") != NULL, "%s", text(c, err));
	rar_comm_free(c);
	return 0;
}

/* Rank 0 does not start the operation in time. */
static int late(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	rar_comm_t *c = NULL;
	int64_t x = 1;
	int err;

	opts.op_ms = 500;
	CHECK(!join(&c, rank, RANKS, &opts), "join");
	if (!rank)
		usleep(3000000);
	err = rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM);
	CHECK(err == -ETIMEDOUT || (!rank && err), "%s", text(c, err));
	if (rank && named(c, err, -ETIMEDOUT, RAR_R_TIMEOUT, 0))
		return 1;
	rar_comm_free(c);
	return 0;
}

/* -- processes ------------------------------------------------------------- */

/* A child cannot use its parent's communicator, and does it no harm; it can make its own. */
static int in_child(rar_comm_t *c)
{
	struct rar_opts opts = local_opts();
	struct rar_card card;
	rar_comm_t *own;
	rar_req_t req;
	int64_t x = 1;

	CHECK(start_sum(c, &x, 0, &req) == -ECHILD && rar_test(c, 1) == -ECHILD, "the parent's");
	CHECK(rar_comm_ready(c, 0) == -ECHILD, "the parent's");
	CHECK(strstr(text(c, -ECHILD), "parent"), "%s", text(c, -ECHILD));
	rar_comm_abort(c);
	rar_comm_free(c);
	CHECK(!rar_card_make(&opts, &card) && !rar_comm_start(&own, &card, 1, 0, &opts), "own");
	CHECK(!rar_comm_ready(own, WAIT_MS), "own");
	CHECK(!rar_allreduce(own, &x, &x, 1, RAR_I64, RAR_SUM) && x == 1, "own");
	rar_comm_free(own);
	return 0;
}

static int forked(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	int64_t x = 1;
	int status;
	pid_t pid;

	CHECK(c && !rar_barrier(c), "join");
	fflush(NULL);
	pid = fork();
	if (!pid) {
		status = in_child(c);
		fflush(NULL);
		_exit(status);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "child");
	CHECK(!rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM) && x == RANKS, "parent");
	rar_comm_free(c);
	return 0;
}

/* Rank 0 of the stub dies in the middle of the result for rank 3, which is stopped meanwhile. */
static int half_result(uint32_t rank)
{
	static int x[1 << 18];
	struct rar_call call = { .collective = RAR_BROADCAST, .dtype = RAR_I32,
				 .count = 1 << 18, .src = x, .dst = x };
	pid_t parent = getpid();
	rar_comm_t *c;
	rar_req_t req;
	int err;

	if (!stub)
		return 0;
	c = join_all(rank);
	CHECK(c && !rar_barrier(c), "join");
	sync_ranks();
	if (rank == 3) {
		CHECK(!rar_start(c, &call, &req), "start");
		usleep(200000);
		if (!fork()) {
			sleep(2);
			_exit(kill(parent, SIGCONT));
		}
		raise(SIGSTOP);
		err = rar_wait(c, req, 20000);
		CHECK(err == -ECONNRESET, "%s", text(c, err));
	} else {
		usleep(400000);
		CHECK(!rar_start(c, &call, &req), "start");
		sleep(1);
		if (!rank)
			_exit(0);
	}
	rar_comm_free(c);
	return 0;
}

/* A child that lives until @end is closed, with all that it inherited. */
static pid_t fork_holder(int *end)
{
	int p[2];
	pid_t pid;
	char x;

	if (pipe(p))
		return -1;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		close(p[1]);
		while (read(p[0], &x, 1) > 0)
			;
		_exit(0);
	}
	close(p[0]);
	*end = p[1];
	return pid;
}

/*
 * A rank leaves, with a request in flight or without, while its child holds the descriptor. The
 * others must learn it from the next operation.
 */
static int leave_child(uint32_t rank, bool in_flight)
{
	rar_comm_t *c = join_all(rank);
	int64_t x = 1, y = 1;
	int end, err;
	rar_req_t req;
	pid_t child;

	CHECK(c && !rar_barrier(c), "join");
	sync_ranks();
	if (rank == 1) {
		child = fork_holder(&end);
		CHECK(child > 0, "fork");
		CHECK(!in_flight || !start_sum(c, &y, 0, &req), "start");
		rar_comm_free(c);
		sync_ranks();
		sync_ranks();
		close(end);
		CHECK(waitpid(child, NULL, 0) == child, "child");
		return 0;
	}
	sync_ranks();
	err = start_sum(c, &x, 0, &req);
	if (!err)
		err = rar_wait(c, req, 20000);
	sync_ranks();
	CHECK(err && err != -EAGAIN, "%s", text(c, err));
	rar_comm_free(c);
	return 0;
}

static int left_child(uint32_t rank)
{
	return leave_child(rank, false);
}

static int left_child_busy(uint32_t rank)
{
	return leave_child(rank, true);
}

static volatile sig_atomic_t signals;

static void count_signal(int nr)
{
	(void)nr;
	signals++;
}

/* Signals of the process go to the threads of the program, not to one of the library. */
static int unsignalled(uint32_t rank)
{
	struct sigaction action = { .sa_handler = count_signal };
	rar_comm_t *c = join_all(rank);
	sigset_t set;

	CHECK(c && !sigaction(SIGUSR1, &action, NULL), "join");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL), "block");
	CHECK(!kill(getpid(), SIGUSR1), "signal");
	usleep(100000);
	CHECK(!signals && !sigpending(&set) && sigismember(&set, SIGUSR1), "%d", (int)signals);
	CHECK(!rar_barrier(c), "barrier");
	rar_comm_free(c);
	return 0;
}

/* Nothing may be pinned: long tensors are copied. */
static int no_memlock(uint32_t rank)
{
	static const struct rlimit none;
	rar_comm_t *c = join_all(rank);
	char room[4096];

	CHECK(c, "join");
	if (!geteuid())
		CHECK(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY),
		      "nobody");
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &none), "limit");
	CHECK(stub || rar_mem_reg(c, room, sizeof(room), 0) == -ENOBUFS, "register");
	for (int i = 0; i < 3; i++)
		CHECK(!check_sums(c, 1 << 20), "copied");
	rar_comm_free(c);
	return 0;
}

static int registered(uint32_t rank)
{
	rar_comm_t *c = join_all(rank);
	size_t len = LONG * sizeof(int);
	int *src = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int *dst = malloc(len);

	CHECK(c && dst && src != MAP_FAILED, "join");
	for (int i = 0; i < LONG; i++)
		src[i] = rank;
	mprotect(src, len, PROT_READ);
	CHECK(!rar_mem_reg(c, src, len, RAR_REG_READ), "source");
	CHECK(!rar_mem_reg(c, dst, len, 0), "result");
	for (int i = 0; i < 3; i++)
		CHECK(!rar_allreduce(c, src, dst, LONG, RAR_I32, RAR_SUM) && dst[LONG - 1] == 6,
		      "sum");
	CHECK(rar_mem_reg(c, NULL, 0, 0) < 0 && rar_mem_reg(c, src, len, 8) < 0, "refused");
	CHECK(!rar_mem_unreg(c, src, len) && !rar_mem_unreg(c, dst, len), "unregister");
	rar_comm_free(c);
	return 0;
}

const struct test failure_tests[] = {
	{ "a rank is killed, the others go on", killed },
	{ "joining again is refused", again_refused },
	{ "joining again in a larger group", grown },
	{ "joining again after a join that failed", again_twice },
	{ "joining again in a group that is taken", again_taken },
	{ "abort", aborted },
	{ "memory after an abort", aborted_memory },
	{ "ranks disagree", disagreed },
	{ "a rank never comes", missing },
	{ "an operation is late", late },
	{ "fork", forked },
	{ "rank 0 dies in the middle of a result", half_result },
	{ "a rank leaves, its child lives", left_child },
	{ "a rank leaves with a request in flight, its child lives", left_child_busy },
	{ "signals", unsignalled },
	{ "nothing may be pinned", no_memlock },
	{ "registered memory", registered },
	{}
};
