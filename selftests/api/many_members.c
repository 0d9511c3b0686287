// SPDX-License-Identifier: GPL-2.0
/*
 * 16384 members in one namespace: bind() is as fast as with few members. /proc/net/rar is
 * read piece by piece and lists every member once, also while other members are closed. Ranks that
 * have joined and do nothing hold little memory of the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "begin.h"

#define MEMBERS	16384u
#define SAMPLE	512u		/* number of first, and of last, binds that are timed */
#define GROUP	0x3e3bull
#define SIZE	4u
#define IDLE	256u		/* ranks that have joined, in groups of SIZE */
#define IDLE_BYTES 16384	/* of the kernel's memory for each */

static int fds[MEMBERS];
static uint32_t bind_us[MEMBERS];
static uint8_t seen[MEMBERS];

static int compare(const void *a, const void *b)
{
	return (int)(*(const uint32_t *)a - *(const uint32_t *)b);
}

static uint32_t median(uint32_t *us)
{
	qsort(us, SAMPLE, sizeof(*us), compare);
	return us[SAMPLE / 2] + 1;
}

static int bind_all(void)
{
	struct rar_ring ring = { .size = SIZE, .where = RAR_ON_LO4 };
	uint64_t start;
	int err;

	for (uint32_t i = 0; i < MEMBERS; i++) {
		ring.group = GROUP + i / SIZE;
		fds[i] = rar_socket();
		RAR_CHECK(fds[i] >= 0, "socket %u: %d", i, fds[i]);
		start = rar_now_us();
		err = rar_bind(fds[i], &ring, i % SIZE);
		bind_us[i] = rar_now_us() - start;
		RAR_CHECK(!err, "bind %u: %d", i, err);
	}
	return 0;
}

/* bind() refuses a taken rank and another user's group, as with few members. */
static int refusals(void)
{
	struct rar_ring ring = { .size = SIZE, .where = RAR_ON_LO4, .group = GROUP };
	int fd = rar_socket(), err;

	err = rar_bind(fd, &ring, 0);
	RAR_CHECK(err == -EADDRINUSE, "a taken rank: %d", err);
	RAR_CHECK(!seteuid(65534), "seteuid");
	ring.group = GROUP + MEMBERS / SIZE - 1;
	err = rar_bind(fd, &ring, 1);
	RAR_CHECK(err == -EACCES, "another user's group: %d", err);
	RAR_CHECK(!seteuid(0), "seteuid");
	close(fd);
	return 0;
}

static int fast(void)
{
	uint32_t first = median(bind_us), last = median(bind_us + MEMBERS - SAMPLE);

	rar_log("bind: %u us, %u us with %u members", first, last, MEMBERS);
	RAR_CHECK(last <= 5 * first, "slow with many members");
	return 0;
}

/* Count the member of a line of the table. */
static void look(const char *line)
{
	unsigned long long group;
	uint32_t rank;

	if (sscanf(line, "%llx %u", &group, &rank) == 2 && group >= GROUP &&
	    group < GROUP + MEMBERS / SIZE && rank < SIZE)
		seen[(group - GROUP) * SIZE + rank]++;
}

/* Read the whole file in pieces, and call @between after each. Returns bytes or -1. */
static ssize_t read_all(char *text, size_t room, void (*between)(void), uint64_t *longest)
{
	int fd = open("/proc/net/rar", O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	uint64_t us;
	ssize_t got;

	*longest = 0;
	do {
		us = rar_now_us();
		got = read(fd, text + n, room - 1 - n < 4096 ? room - 1 - n : 4096);
		us = rar_now_us() - us;
		*longest = us > *longest ? us : *longest;
		n += got > 0 ? got : 0;
		if (between)
			between();
	} while (got > 0);
	close(fd);
	text[n] = 0;
	return got < 0 ? -1 : (ssize_t)n;
}

static void look_all(char *text)
{
	memset(seen, 0, sizeof(seen));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		look(line);
}

/* Something else may have the processor during one of the pieces: a time may be wrong twice. */
static int pieces(char *text, size_t room)
{
	uint64_t start, longest, us;
	bool piecemeal = false;
	ssize_t n;

	for (int i = 0; i < 3 && !piecemeal; i++) {
		start = rar_now_us();
		n = read_all(text, room, NULL, &longest);
		us = rar_now_us() - start;
		RAR_CHECK(n > 0, "read");
		rar_log("%zd bytes in %llu us, one piece in %llu us at most", n,
			(unsigned long long)us, (unsigned long long)longest);
		piecemeal = longest < us / 4;
	}
	look_all(text);
	for (uint32_t i = 0; i < MEMBERS; i++)
		RAR_CHECK(seen[i] == 1, "member %u is there %u times", i, seen[i]);
	RAR_CHECK(piecemeal, "the file comes all at once");
	return 0;
}

static uint32_t closed = 1;

/* Close some of the members with odd numbers. */
static void close_some(void)
{
	for (int i = 0; i < 32 && closed < MEMBERS; i++, closed += 2)
		close(fds[closed]);
}

static int while_closing(char *text, size_t room)
{
	uint64_t longest;

	RAR_CHECK(read_all(text, room, close_some, &longest) > 0, "read");
	look_all(text);
	for (uint32_t i = 0; i < MEMBERS; i++)
		RAR_CHECK(seen[i] == 1 || (i % 2 && !seen[i]), "member %u is there %u times",
			  i, seen[i]);
	return 0;
}

/* Join ranks of groups of SIZE, and wait until all are in. */
static int join_idle(int *fd)
{
	struct rar_ring ring = { .size = SIZE, .where = RAR_ON_LO4 };
	int err;

	for (uint32_t i = 0; i < IDLE; i++) {
		ring.group = GROUP + MEMBERS + i / SIZE;
		fd[i] = rar_socket();
		RAR_CHECK(fd[i] >= 0, "socket %u: %d", i, fd[i]);
		err = rar_join_start(fd[i], &ring, i % SIZE);
		RAR_CHECK(!err, "join %u: %d", i, err);
	}
	for (uint32_t i = 0; i < IDLE; i++) {
		err = rar_join_wait(fd[i], 30000);
		RAR_CHECK(!err, "joined %u: %d", i, err);
	}
	return 0;
}

/* What the kernel's allocators have given away, bytes. */
static long long kernel_bytes(void)
{
	char line[128];
	long long kib, sum = 0;
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Slab: %lld", &kib) == 1 ||
		    sscanf(line, "VmallocUsed: %lld", &kib) == 1 ||
		    sscanf(line, "Percpu: %lld", &kib) == 1)
			sum += kib << 10;
	if (f)
		fclose(f);
	return sum;
}

static int idle_memory(void)
{
	long long before = kernel_bytes(), each;
	static int fd[IDLE];

	if (join_idle(fd))
		return 1;
	each = (kernel_bytes() - before) / IDLE;
	for (uint32_t i = 0; i < IDLE; i++)
		close(fd[i]);
	rar_log("an idle rank: %lld bytes", each);
	RAR_CHECK(each > 1000, "not measured");
	/* The checkers need memory for each object. */
	RAR_CHECK(each <= (rar_checked_kernel() ? 3 : 1) * IDLE_BYTES,
		  "too much memory for an idle rank");
	return 0;
}

int main(void)
{
	struct rlimit files = { MEMBERS + 100, MEMBERS + 100 };
	size_t room = MEMBERS * 160;
	char *text = malloc(room);

	rar_begin();
	if (rar_private_net() || setrlimit(RLIMIT_NOFILE, &files) ||
	    rar_write("/proc/sys/net/rar/max_members", "65536") ||
	    rar_write("/sys/module/rar/parameters/max_members", "65536"))
		ksft_exit_fail_msg("cannot be set up\n");
	ksft_set_plan(6);
	ksft_test_result(!idle_memory(), "an idle rank holds at most %d bytes, without checkers\n",
			 IDLE_BYTES);
	ksft_test_result(!bind_all(), "all members are bound\n");
	ksft_test_result(!fast(), "bind() is as fast as with few members\n");
	ksft_test_result(!refusals(), "a taken rank, another user's group\n");
	ksft_test_result(!pieces(text, room), "/proc/net/rar comes in pieces\n");
	ksft_test_result(!while_closing(text, room),
			 "/proc/net/rar while members are closed\n");
	rar_write("/sys/module/rar/parameters/max_members", "0");
	ksft_finished();
}
