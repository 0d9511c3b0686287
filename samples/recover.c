// SPDX-License-Identifier: GPL-2.0
/*
 * recover RANK STEPS ADDRESS...: goes on after ranks were killed. There is a rank for each
 * ADDRESS. A rank computes a total in STEPS steps. A rank that replaces a dead rank gets
 * step and total from the other ranks, however many died, as long as one rank lives.
 *
 * Each ring begins with an extra operation, number 0, in which ranks that have a state
 * contribute it. So operation n of a ring is step first + n - 1.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/rar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_rar self, next;

/* What must survive: the next step, and the totals before it and before the last step. */
static struct state {
	int known;
	long step;
	float total, before;
	__u64 epoch;			/* epoch of the last ring, */
	long first;			/* and the step of its operation 1 */
} state;

static void address(struct sockaddr_rar *a, char **list, int rank, int size)
{
	*a = (struct sockaddr_rar){ .srar_family = AF_RAR, .srar_af = AF_INET,
				    .srar_group = 43, .srar_rank = rank, .srar_size = size };
	if (inet_pton(AF_INET, list[rank], a->srar_addr) != 1)
		errx(2, "%s is no IPv4 address", list[rank]);
}

/* Replaces all of @x by the sum: 0, or -1 if the ring has failed. */
static int allreduce(int fd, float *x, size_t bytes)
{
	size_t done = 0;
	ssize_t n;

	if (send(fd, x, bytes, MSG_NOSIGNAL) < 0)
		return -1;
	while (done < bytes) {
		n = recv(fd, (char *)x + done, bytes - done, 0);
		if (n <= 0)		/* 0: another rank has finished and left */
			return -1;
		done += n;
	}
	return 0;
}

static void say_why(int fd)
{
	struct rar_error e = { 0 };
	socklen_t len = sizeof(e);

	getsockopt(fd, SOL_RAR, RAR_ERROR, &e, &len);
	fprintf(stderr, "rank %u: step %ld: %s, reason %u, rank %u\n", self.srar_rank,
		state.step, strerror(e.err), e.reason, e.rank);
}

/* Joins. After a failure connect() makes a new member under the old name. */
static void join(int fd)
{
	while (connect(fd, (struct sockaddr *)&next, sizeof(next))) {
		if (errno != ETIMEDOUT && errno != ECONNRESET && errno != EADDRINUSE &&
		    errno != ENETUNREACH)
			err(1, "connect");
		say_why(fd);		/* other ranks are not there yet */
	}
}

/* Goes back to the first operation not complete on all ranks that were in the ring. */
static void go_back(const struct rar_info *info)
{
	long step = state.first + (long)info->resume_op - 1;

	if (info->resume_epoch != state.epoch)
		errx(1, "the ranks come from different rings: start all from a checkpoint");
	if (!info->resume_op || step == state.step)
		return;			/* operation 0 failed, or this rank is not ahead */
	if (step != state.step - 1)
		errx(1, "step %ld is gone", step);
	state.step = step;
	state.total = state.before;
}

/* Operation 0: ranks that have a state contribute it, the others learn it. */
static int agree(int fd)
{
	float x[3] = { state.known, state.known ? state.step : 0,
		       state.known ? state.total : 0 };
	struct rar_info info;
	socklen_t len = sizeof(info);

	if (getsockopt(fd, SOL_RAR, RAR_INFO, &info, &len))
		err(1, "RAR_INFO");
	if (state.known) {
		go_back(&info);
		x[1] = state.step;
		x[2] = state.total;
	}
	state.epoch = info.epoch;
	if (allreduce(fd, x, sizeof(x)))
		return -1;
	if (x[0]) {
		state.step = x[1] / x[0];
		state.total = x[2] / x[0];
	}
	state.known = 1;
	state.before = state.total;
	state.first = state.step;
	return 0;
}

/* Does a step. Its contribution does not depend on when or which process does it. */
static int one_step(int fd)
{
	float x = (self.srar_rank + 1) * (state.step % 100);

	if (allreduce(fd, &x, sizeof(x)))
		return -1;
	state.before = state.total;
	state.total += x;
	state.step++;
	nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	int fd, rank = argc > 3 ? atoi(argv[1]) : -1, size = argc - 3;
	long steps = argc > 3 ? atol(argv[2]) : 0;

	if (rank < 0 || rank >= size)
		errx(2, "usage: recover RANK STEPS ADDRESS...");
	address(&self, argv + 3, rank, size);
	address(&next, argv + 3, (rank + 1) % size, size);
	fd = socket(AF_RAR, SOCK_SEQPACKET, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&self, sizeof(self)))
		err(1, "socket, bind");
	do {
		join(fd);
		if (!agree(fd))
			while (state.step < steps && !one_step(fd))
				;
		if (state.step < steps)
			say_why(fd);
	} while (state.step < steps);
	printf("rank %d: %ld steps, total %.0f\n", rank, state.step, state.total);
	close(fd);			/* leaves the group */
	return 0;
}
