// SPDX-License-Identifier: GPL-2.0
/*
 * A member closes, exits, execs or is killed while an operation in its user's memory is
 * complete at that member, but its successor has not received all of it. The user gets the
 * memory back and overwrites it. The successor must get the right bits, or the group an
 * error that names the member. No page stays pinned.
 *
 * lib/in_topo.sh 3 orphan [PATTERN]: the ranks are in rar0 ... rar2; runs only the tests
 * whose names contain PATTERN.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define AREA	(2u << 20)
#define DEAD_MS	2000
#define SYNC_S	60

enum how { CLOSE, EXIT, EXEC, KILL };

/*
 * @how:   how the last rank ends; until then all packets it sends are lost
 * @count: elements of the tensor
 * @dst:   out of place
 * @reg:   the memory is registered
 * @short_mem: the kernel has no memory for a copy, so the group fails
 * @silent: the orphan hears nothing any more, so it ends before linger_ms. Its neighbour waits
 *	for longer, hears it again after that, and is told that it gave up
 * @many:  orphans of the user hold as much as they may, so the group fails
 * @loss:  only this percentage of the packets is lost, so that the state at the end is random
 */
struct plan {
	const char *name;
	uint32_t size;
	enum how how;
	uint32_t count;
	bool dst;
	bool reg;
	bool short_mem;
	bool silent;
	bool many;
	uint32_t loss;
};

static const struct plan plans[] = {
	{ "close, N=2", 2, CLOSE, .count = 500 },
	{ "close, N=3", 3, CLOSE, .count = 500 },
	{ "close, out of place, N=2", 2, CLOSE, .count = 1000, .dst = true },
	{ "close, registered memory", 2, CLOSE, .count = 500, .reg = true },
	{ "exit", 2, EXIT, .count = 500 },
	{ "exec closes the socket", 2, EXEC, .count = 500 },
	{ "SIGKILL", 3, KILL, .count = 500, .dst = true },
	{ "close, no memory for a copy", 2, CLOSE, .count = 1000, .short_mem = true },
	{ "close, 400 KB, a bad link", 3, CLOSE, .count = 50000, .loss = 40 },
	{ "the successor is silent: no orphan after dead_ms", 2, CLOSE, .count = 500, .silent = true },
	{ "the user's orphans hold too much", 2, CLOSE, .count = 500, .many = true },
};

static struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "rar" };

struct shared {
	struct rar_barrier barrier;
	_Atomic int complete;
};

static struct shared *shared;
static char *area;		/* memory of the rank that ends, shared with its parent */

static int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

static struct rar_data data_of(const struct plan *p)
{
	return (struct rar_data){
		.id = 1, .size = p->size, .dtype = RAR_F64, .count = p->count,
	};
}

static int lose(uint32_t percent)
{
	char command[120];

	snprintf(command, sizeof(command), percent ?
		 "tc qdisc replace dev eth0 root netem limit 10000 loss %u%%" :
		 "tc qdisc del dev eth0 root", percent);
	return system(command);
}

/* Keeps half of net.rar.mem in use: the unread result of a group of one. */
static int take_memory(void)
{
	struct rar_ring alone = ring;
	char buf[48000];
	int fd;

	memset(buf, 0, sizeof(buf));
	if (rar_write("/proc/sys/net/rar/mem", "65536"))
		return -1;
	alone.group += 500;
	alone.size = 1;
	alone.where = RAR_ON_LO4;
	alone.netns = NULL;
	fd = rar_open(&alone, 0);
	return fd < 0 ? fd : rar_send(fd, buf, sizeof(buf), 0, NULL);
}

/* Does this namespace have orphans? */
static bool orphans(void)
{
	char text[65536] = "";
	int fd = open("/proc/net/rar", O_RDONLY | O_CLOEXEC);
	ssize_t n = 0, got;

	while (n < (ssize_t)sizeof(text) - 1 &&
	       (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += got;
	close(fd);
	return strstr(text, " orphan ");
}

/* Takes the device down, so that the orphan hears nothing, and waits for its end. */
static int end_of_orphan(void)
{
	int i;

	RAR_CHECK(orphans(), "there is no orphan");
	RAR_CHECK(!system("ip link set eth0 down"), "ip");
	for (i = 0; i < 2 * DEAD_MS && orphans(); i += 50)
		rar_sleep_ms(50);
	RAR_CHECK(!system("ip link set eth0 up"), "ip");
	rar_write("/proc/sys/net/rar/linger_ms", "5000");
	RAR_CHECK(i < 2 * DEAD_MS, "still an orphan after %d ms", i);
	RAR_CHECK(i > DEAD_MS / 2, "no orphan any more after %d ms", i);
	return 0;
}

static int wait_complete(int fd)
{
	struct rar_info info;

	for (int i = 0; i < 5000; i++) {
		if (rar_info(fd, &info))
			return -EIO;
		if (info.ops_complete)
			return info.ops_released ? 1 : 0;
		rar_sleep_ms(2);
	}
	return -ETIMEDOUT;
}

/* Joins a second group of the same ranks; -1 if the plan has none. */
static int open_second(const struct plan *p, uint32_t rank)
{
	struct rar_ring second = ring;

	second.group += 500;
	return p->many ? rar_open(&second, rank) : -1;
}

/* The second group's last member becomes an orphan, which holds as much as the user may. */
static int leave_second(const struct plan *p, int fd)
{
	struct rar_data d = data_of(p);

	if (fd < 0)
		return 0;
	RAR_CHECK(!rar_write("/sys/module/rar/parameters/orphan_mem", "1000"), "orphan_mem");
	RAR_CHECK(!rar_post(fd, &d, p->size - 1), "send");
	RAR_CHECK(!wait_complete(fd), "complete, not released");
	close(fd);
	RAR_CHECK(orphans(), "it is no orphan");
	return 0;
}

/* The last rank, in a child. */
static int leave(const struct plan *p)
{
	struct rar_data d = data_of(p);
	struct rar_op op = rar_op_of(d.dtype, rar_bytes(&d), d.id);
	struct rar_reg reg = { .addr = (uintptr_t)area, .len = AREA };
	int fd = rar_open(&ring, p->size - 1), err;
	int second = open_second(p, p->size - 1);

	RAR_CHECK(fd >= 0, "join: %d", fd);
	if (p->reg)
		RAR_CHECK(!setsockopt(fd, SOL_RAR, RAR_REG, &reg, sizeof(reg)), "RAR_REG");
	if (p->short_mem)
		RAR_CHECK(!take_memory(), "net.rar.mem");
	if (p->silent)
		RAR_CHECK(!rar_write("/proc/sys/net/rar/linger_ms", "60000"), "linger_ms");
	fcntl(fd, F_SETFD, p->how == EXEC ? FD_CLOEXEC : 0);
	RAR_CHECK(!sync_ranks() && !lose(p->loss ?: 100) && !sync_ranks(), "netem");
	RAR_CHECK(!leave_second(p, second), "the second group");
	rar_fill(&d, p->size - 1, 0, d.count, area);
	if (p->dst)
		op.dst = (uintptr_t)area + AREA / 2;
	err = rar_send(fd, area, rar_bytes(&d), MSG_ZEROCOPY, &op);
	RAR_CHECK(!err, "send: %d", err);
	err = wait_complete(fd);
	RAR_CHECK(!err || (err == 1 && p->loss), "complete, not released: %d", err);
	shared->complete = 1;
	if (p->how == CLOSE) {
		close(fd);
		memset(area, 'S', AREA);
		_exit(0);
	}
	if (p->how == EXEC)
		execlp("true", "true", NULL);
	if (p->how == KILL)
		raise(SIGKILL);
	_exit(0);
}

static int last_rank(const struct plan *p)
{
	int status, err, want = p->how == KILL ? 128 + SIGKILL : 0;
	pid_t pid;

	area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	RAR_CHECK(area != MAP_FAILED, "mmap");
	pid = fork();
	if (!pid)
		_exit(leave(p));
	status = rar_reap(pid, rar_now_us() + SYNC_S * 1000000ull);
	memset(area, 'S', AREA);
	if (p->silent)
		RAR_CHECK(!end_of_orphan(), "the orphan");
	err = lose(0);
	rar_write("/proc/sys/net/rar/mem", "100000000");
	rar_write("/sys/module/rar/parameters/orphan_mem", "0");
	RAR_CHECK(status == want && !err, "status %d, netem %d", status, err);
	RAR_CHECK(!sync_ranks(), "meet");
	return 0;
}

static int names_last(const struct plan *p, int fd)
{
	struct rar_error e;

	RAR_CHECK(!rar_error(fd, &e), "RAR_ERROR");
	RAR_CHECK(e.rank == p->size - 1 && e.reason == RAR_R_CLOSED, "rank %u: %s", e.rank,
		  rar_reason_name(e.reason));
	return 0;
}

static int other_rank(uint32_t rank, const struct plan *p)
{
	struct rar_data d = data_of(p);
	bool fails = p->short_mem || p->many || p->silent;
	int fd = rar_open(&ring, rank), err, second = open_second(p, rank);

	RAR_CHECK(fd >= 0, "join: %d", fd);
	RAR_CHECK(!sync_ranks() && !sync_ranks(), "meet");
	RAR_CHECK(second < 0 || !rar_post(second, &d, rank), "send");
	RAR_CHECK(!rar_post(fd, &d, rank), "send");
	err = rar_collect(fd, &d, rank);
	if (err && !fails)
		rar_log_error(fd, err == -EBADE ? "wrong sums" : "recv", err);
	RAR_CHECK(err == (fails ? -ECONNRESET : 0), "recv: %d", err);
	err = fails ? names_last(p, fd) : 0;
	if (second >= 0)
		RAR_CHECK(!rar_collect(second, &d, rank), "the second group");
	RAR_CHECK(!sync_ranks(), "meet");
	return err;
}

static int rank_main(uint32_t rank, void *arg)
{
	const struct plan *p = arg;
	bool last = rank == p->size - 1;
	char ms[16];

	snprintf(ms, sizeof(ms), "%u", p->silent ? (last ? DEAD_MS : 8 * DEAD_MS) : 5000);
	RAR_CHECK(!rar_write("/proc/sys/net/rar/dead_ms", ms), "dead_ms");
	return last ? last_rank(p) : other_rank(rank, p);
}

static bool run_plan(const struct plan *p)
{
	bool ok = true;

	for (int round = 0; ok && round < (p->loss ? 4 : 1); round++) {
		ring.group++;
		ring.size = p->size;
		memset(shared, 0, sizeof(*shared));
		ok = !rar_run(p->size, ring.netns, 60, rank_main, (void *)p);
	}
	return ok;
}

int main(int argc, char **argv)
{
	int64_t pinned;

	rar_begin();
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(ARRAY_SIZE(plans) + 1);
	pinned = rar_pinned();
	for (size_t i = 0; i < ARRAY_SIZE(plans); i++) {
		if (argc > 1 && !strstr(plans[i].name, argv[1]))
			ksft_test_result_skip("%s\n", plans[i].name);
		else
			ksft_test_result(run_plan(&plans[i]), "%s\n", plans[i].name);
	}
	if (pinned < 0)
		ksft_test_result_skip("no page is pinned: this kernel does not count them\n");
	else
		ksft_test_result(rar_unpinned(pinned), "no page is pinned\n");
	ksft_finished();
}
