// SPDX-License-Identifier: GPL-2.0
/*
 * Flow control: a rank that posts nothing stalls its own group and no other group, and memory
 * stays bounded everywhere.
 *
 * Two groups share the hosts rar0 .. rar2 (lib/in_topo.sh 3 backpressure). In group A one
 * rank stops: it posts no more (lazy), or its process gets SIGSTOP (stopped). The other
 * ranks post until the kernel takes nothing more. Meanwhile group B works; its operations
 * must be as fast as before and afterwards. Then group B pauses, so that the counters show
 * what group A sends while its credit is closed: no data, and a probe every 200 ms at most.
 * The windows of group A do not change. Then the slow rank goes on, and all operations
 * complete with the right bits.
 *
 * backpressure [full]
 *	full: every rank, lazy and stopped, with the usual and a small net.rar.mem; otherwise
 *	a selection
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define SIZE		3
#define A_COUNT		32768u		/* f32: 128 KiB */
#define A_BYTES		(4ull * A_COUNT)
#define A_BEFORE	6u		/* operations before the slow rank stops */
#define A_OPS		(A_BEFORE + RAR_MAX_OPS + 8)
#define B_COUNT		2000u
#define B_FREEING	400u	/* operations of group B that are not yet freed */
#define B_BATCH		20u		/* operations between two samples */
#define B_MAX		100000u
#define SMALL_MEM	"4194304"
#define PHASE_MS	1500u		/* length of each phase of group B */
#define QUIET_MS	2000u
#define LIMIT_S		120u		/* for hangs */
#define EARLY_TRUESIZE	8		/* held memory per credit, see design/link.rst */
#define SLACK		(16ull << 20)	/* bytes for caches, tables and other processes */

enum phase { BEFORE, STALLED, AFTER, PHASES };

struct plan {
	const char *name;
	uint32_t slow;
	bool stop;		/* SIGSTOP; otherwise the rank posts nothing */
	bool small_mem;
	bool full_only;
};

/* Shared by all processes of a run. */
struct shared {
	struct rar_barrier barrier;
	_Atomic bool start;		/* group A works */
	_Atomic bool go;		/* the lazy rank posts again */
	_Atomic bool over;		/* both groups end */
	atomic_uint a_posted[SIZE];
	atomic_uint a_collected[SIZE];
	atomic_uint b_target;
	atomic_uint b_done[SIZE];
	uint32_t b_us[B_MAX];		/* of rank 0's operations */
};

static struct shared *shared;
static const struct plan *plan;
static struct rar_ring ring_a, ring_b;
static int fd_a[SIZE];		/* the parent's, for RAR_INFO of stopped ranks */
static pid_t pid_a[SIZE], pid_b[SIZE];

/* ------------------------------------------------------------ group A */

static struct rar_data a_data(uint64_t id)
{
	return (struct rar_data){
		.id = id, .count = A_COUNT, .size = SIZE, .dtype = RAR_F32,
	};
}

static bool a_may_post(uint32_t rank, uint32_t posted)
{
	if (rank == plan->slow && !plan->stop && !shared->go)
		return posted < A_BEFORE;
	return posted < A_OPS;
}

/*
 * Posts operation @id. Returns 1, 0 if there is no room, or -errno. @buf is filled once.
 * ENOBUFS also means no room: all operations have become complete and wait to be read.
 */
static int a_post(int fd, uint32_t rank, uint64_t id, void *buf, uint64_t *filled)
{
	struct rar_data d = a_data(id);
	struct rar_op op = rar_op_of(d.dtype, 0, id);
	int err;

	if (*filled != id)
		rar_fill(&d, rank, 0, d.count, buf);
	*filled = id;
	err = rar_send(fd, buf, A_BYTES, MSG_DONTWAIT, &op);
	return err == -EAGAIN || err == -ENOBUFS ? 0 : err ?: 1;
}

/* Keeps as many operations in flight as the kernel takes. */
static int a_work(int fd, uint32_t rank, void *buf)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint32_t posted = 0, collected = 0;
	uint64_t filled = UINT64_MAX;
	struct rar_data d;
	int ret;

	while (collected < A_OPS) {
		ret = a_may_post(rank, posted) ?
		      a_post(fd, rank, posted, buf, &filled) : 0;
		if (ret < 0)
			return ret;
		posted += ret;
		shared->a_posted[rank] = posted;
		if (poll(&p, 1, ret ? 0 : 20) != 1)
			continue;
		d = a_data(collected);
		ret = rar_collect(fd, &d, rank);
		if (ret)
			return ret;
		shared->a_collected[rank] = ++collected;
	}
	return 0;
}

/* Sleeps without disturbing group B; the parent has a time limit. */
static void a_sleep_until(const _Atomic bool *flag)
{
	while (!*flag)
		rar_sleep_ms(20);
}

static int a_main(uint32_t rank, void *arg)
{
	void *buf = malloc(A_BYTES);
	int fd = fd_a[rank], err;

	(void)arg;
	err = rar_join(fd, &ring_a, rank) ?:
	      rar_barrier(&shared->barrier, 2 * SIZE + 1, 30);
	if (!err) {
		a_sleep_until(&shared->start);
		err = a_work(fd, rank, buf);
	}
	free(buf);
	if (err)
		rar_log_error(fd, "group A", err);
	/* No rank leaves before all have their results. */
	a_sleep_until(&shared->over);
	return err || rar_barrier(&shared->barrier, 2 * SIZE + 1, LIMIT_S);
}

/* ------------------------------------------------------------ group B */

static int b_op(int fd, uint32_t rank, uint32_t id)
{
	struct rar_data d = { .id = id, .count = B_COUNT, .size = SIZE,
			      .dtype = RAR_F32 };
	uint64_t start = rar_now_us();
	int err = rar_allreduce(fd, &d, rank);

	if (!rank)
		shared->b_us[id] = rar_now_us() - start;
	shared->b_done[rank] = id + 1;
	return err;
}

static int b_main(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring_b, rank), err = fd < 0 ? fd : 0;

	(void)arg;
	err = err ?: rar_barrier(&shared->barrier, 2 * SIZE + 1, 30);
	for (uint32_t id = 0; !err && (id < shared->b_target || !shared->over);) {
		if (id < shared->b_target)
			err = b_op(fd, rank, id++);
		else
			rar_sleep_ms(1);
	}
	if (err)
		rar_log_error(fd, "group B", err);
	return err || rar_barrier(&shared->barrier, 2 * SIZE + 1, LIMIT_S);
}

/* ------------------------------------------------------------ measuring */

struct sample {
	uint64_t early[SIZE];
	uint64_t mem[SIZE];
	uint64_t kernel;	/* slabs and vmalloc of the whole machine */
};

/* The number after @key in a file, 0 if there is none. */
static uint64_t number_in(const char *path, const char *key)
{
	char line[256], *at;
	uint64_t value = 0;
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		at = strstr(line, key);
		if (!at)
			continue;
		value = strtoull(at + strlen(key), NULL, 10);
		break;
	}
	if (f)
		fclose(f);
	return value;
}

static uint64_t kernel_bytes(void)
{
	return (number_in("/proc/meminfo", "Slab:") +
		number_in("/proc/meminfo", "VmallocUsed:")) << 10;
}

static void raise_to(uint64_t *max, uint64_t value)
{
	if (value > *max)
		*max = value;
}

static void sample(struct sample *max)
{
	struct rar_info info;
	char path[32];

	for (uint32_t r = 0; r < SIZE; r++) {
		snprintf(path, sizeof(path), "/proc/%d/net/rar", pid_b[r]);
		raise_to(&max->mem[r], number_in(path, " mem "));
		if (!rar_info(fd_a[r], &info))
			raise_to(&max->early[r], info.early_bytes);
	}
	raise_to(&max->kernel, kernel_bytes());
}

static uint64_t sysctl_of(uint32_t rank, const char *name)
{
	char path[64], text[32] = "";
	char netns[8];
	FILE *f;

	snprintf(netns, sizeof(netns), "rar%u", rank);
	snprintf(path, sizeof(path), "/proc/sys/net/rar/%s", name);
	if (rar_enter(netns))
		return 0;
	f = fopen(path, "re");
	if (f && !fgets(text, sizeof(text), f))
		text[0] = 0;
	if (f)
		fclose(f);
	return strtoull(text, NULL, 10);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Compares the measured maxima of a rank with the bounds from its sysctls. Operations queued
 * after another of their group use half of net.rar.mem at most, and their number is limited.
 * Memory that group B gave back counts until a grace period has passed.
 */
static bool rank_bounded(uint32_t r, const struct sample *max, uint64_t *sum)
{
	uint64_t early = EARLY_TRUESIZE * sysctl_of(r, "early_bytes");
	uint64_t mem = min_u64(sysctl_of(r, "mem") / 2 + A_BYTES,
			       RAR_MAX_OPS * A_BYTES) + B_FREEING * 4 * B_COUNT;
	bool ok = max->early[r] <= early && max->mem[r] <= mem;

	*sum += early + mem;
	rar_log("backpressure rank=%u early=%llu bound=%llu mem=%llu bound=%llu %s", r,
		(unsigned long long)max->early[r], (unsigned long long)early,
		(unsigned long long)max->mem[r], (unsigned long long)mem,
		ok ? "PASS" : "FAIL");
	return ok;
}

static bool bounded(const struct sample *max, uint64_t kernel_before)
{
	uint64_t sum = SLACK, grown = 0;
	bool ok = true;

	for (uint32_t r = 0; r < SIZE; r++)
		ok &= rank_bounded(r, max, &sum);
	if (max->kernel > kernel_before)
		grown = max->kernel - kernel_before;
	ok &= grown <= sum;
	rar_log("backpressure kernel grown=%llu bound=%llu %s", (unsigned long long)grown,
		(unsigned long long)sum, grown <= sum ? "PASS" : "FAIL");
	return ok;
}

/* ------------------------------------------------------------ group B's pace */

static int b_wait(uint32_t target)
{
	uint64_t deadline = rar_now_us() + LIMIT_S * 1000000ull;

	for (uint32_t r = 0; r < SIZE; r++)
		while (shared->b_done[r] < target) {
			if (rar_now_us() > deadline)
				return -ETIMEDOUT;
			rar_sleep_ms(1);
		}
	return 0;
}

static int compare_us(const void *a, const void *b)
{
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 :
	       *(const uint32_t *)a > *(const uint32_t *)b;
}

/* Lets group B work for a while; median time of an operation in us. */
static uint32_t b_pace(struct sample *max)
{
	uint64_t end = rar_now_us() + PHASE_MS * 1000ull;
	uint32_t first = shared->b_target, n;

	while (rar_now_us() < end && shared->b_target + B_BATCH < B_MAX) {
		shared->b_target += B_BATCH;
		if (b_wait(shared->b_target))
			return UINT32_MAX;
		sample(max);
	}
	n = shared->b_target - first;
	qsort(shared->b_us + first, n, sizeof(uint32_t), compare_us);
	return shared->b_us[first + n / 2];
}

/* ------------------------------------------------------------ a quiet moment */

struct traffic {
	uint64_t data, ctl, retrans, window, cwnd;
};

static void traffic_of(uint32_t rank, struct traffic *t)
{
	struct rar_info info = {};
	char netns[8];

	snprintf(netns, sizeof(netns), "rar%u", rank);
	rar_enter(netns);
	rar_info(fd_a[rank], &info);
	t->data = rar_counter("RarTxData");
	t->ctl = rar_counter("RarTxCtl") + rar_counter("RarTxAck");
	t->retrans = rar_counter("RarTxRetrans");
	t->window = info.window;
	t->cwnd = info.cwnd;
}

/*
 * Only the stalled group may send. It probes, and acknowledges probes, every 200 ms; both
 * groups' keepalives are rarer.
 */
static bool quiet(void)
{
	uint64_t most = 2 * (2 * QUIET_MS / 200 + QUIET_MS / 1000 + 2);
	struct traffic was[SIZE], is[SIZE];
	bool ok = true, good;

	for (uint32_t r = 0; r < SIZE; r++)
		traffic_of(r, &was[r]);
	rar_sleep_ms(QUIET_MS);
	for (uint32_t r = 0; r < SIZE; r++) {
		traffic_of(r, &is[r]);
		is[r].data -= was[r].data;
		is[r].ctl -= was[r].ctl;
		good = !is[r].data && is[r].ctl <= most &&
		       is[r].retrans == was[r].retrans &&
		       is[r].window >= was[r].window &&
		       is[r].cwnd >= was[r].cwnd;
		rar_log("backpressure rank=%u stalled for %u ms: data=%llu control=%llu bound=%llu window=%llu before=%llu cwnd=%llu before=%llu %s",
			r, QUIET_MS, (unsigned long long)is[r].data,
			(unsigned long long)is[r].ctl, (unsigned long long)most,
			(unsigned long long)is[r].window,
			(unsigned long long)was[r].window,
			(unsigned long long)is[r].cwnd,
			(unsigned long long)was[r].cwnd, good ? "PASS" : "FAIL");
		ok &= good;
	}
	return ok;
}

/* ------------------------------------------------------------ one run */

/* Waits until all ranks except the slow rank are full, or until all have all results. */
static int a_wait(bool full)
{
	uint64_t deadline = rar_now_us() + LIMIT_S * 1000000ull;
	uint32_t last = 0, now = 1, still = 0;

	while (still < 25) {
		if (rar_now_us() > deadline)
			return -ETIMEDOUT;
		rar_sleep_ms(20);
		now = 0;
		for (uint32_t r = 0; r < SIZE; r++)
			now += full ? shared->a_posted[r] : shared->a_collected[r];
		if (!full && now == SIZE * A_OPS)
			return 0;
		still = full && now == last && now > SIZE ? still + 1 : 0;
		last = now;
	}
	return 0;
}

/* Stops the slow rank during the first operations. */
static void stop_slow(void)
{
	uint64_t deadline = rar_now_us() + LIMIT_S * 1000000ull;

	while (shared->a_collected[plan->slow] < A_BEFORE &&
	       rar_now_us() < deadline)
		rar_sleep_ms(1);
	kill(pid_a[plan->slow], SIGSTOP);
}

static void resume_slow(void)
{
	shared->go = true;
	kill(pid_a[plan->slow], SIGCONT);
}

static bool same_pace(const uint32_t *us)
{
	uint32_t alone = us[BEFORE] > us[AFTER] ? us[BEFORE] : us[AFTER];
	bool ok = us[STALLED] <= 2 * alone + 500;

	rar_log("backpressure group B: median %u us before, %u us beside a stalled group, %u us after %s",
		us[BEFORE], us[STALLED], us[AFTER], ok ? "PASS" : "FAIL");
	return ok;
}

/* All memory is given back soon after the sums were collected. */
static bool empty_again(void)
{
	uint64_t left = 1;

	for (int i = 0; i < 200 && left; i++) {
		struct sample s = {};

		sample(&s);
		left = 0;
		for (uint32_t r = 0; r < SIZE; r++)
			left += s.mem[r] + s.early[r];
		rar_sleep_ms(10);
	}
	if (left)
		rar_log("%llu bytes are still held", (unsigned long long)left);
	return !left;
}

static bool observe(void)
{
	uint64_t kernel_before = kernel_bytes();
	struct sample max = {}, ignored = {};
	uint32_t us[PHASES];
	bool ok;

	us[BEFORE] = b_pace(&ignored);
	shared->start = true;
	if (plan->stop)
		stop_slow();
	if (a_wait(true))
		return false;
	us[STALLED] = b_pace(&max);
	ok = quiet();
	sample(&max);
	resume_slow();
	if (a_wait(false)) {
		rar_log("group A does not complete");
		return false;
	}
	ok &= empty_again();
	us[AFTER] = b_pace(&ignored);
	return bounded(&max, kernel_before) & same_pace(us) & ok;
}

static int start(void)
{
	char netns[8];

	for (uint32_t r = 0; r < SIZE; r++) {
		snprintf(netns, sizeof(netns), "rar%u", r);
		if (rar_enter(netns))
			return -ENOENT;
		rar_write("/proc/sys/net/rar/mem",
			  plan->small_mem ? SMALL_MEM : "67108864");
		fd_a[r] = rar_socket();
	}
	for (uint32_t r = 0; r < SIZE; r++) {
		snprintf(netns, sizeof(netns), "rar%u", r);
		pid_a[r] = rar_spawn(netns, a_main, r, NULL);
		pid_b[r] = rar_spawn(netns, b_main, r, NULL);
	}
	return rar_barrier(&shared->barrier, 2 * SIZE + 1, 30);
}

static bool finish(bool ok)
{
	uint64_t deadline;

	shared->over = true;
	if (ok)
		ok = !rar_barrier(&shared->barrier, 2 * SIZE + 1, LIMIT_S);
	deadline = rar_now_us() + (ok ? 10000000 : 0);
	for (uint32_t r = 0; r < SIZE; r++) {
		ok &= !rar_reap(pid_a[r], deadline);
		ok &= !rar_reap(pid_b[r], deadline);
		close(fd_a[r]);
	}
	return ok;
}

static bool run(void)
{
	bool ok;

	memset(shared, 0, sizeof(*shared));
	ok = !start();
	if (!ok)
		rar_log("the groups do not start");
	return finish(ok && observe());
}

static const struct plan plans[] = {
	{ "rank 1 posts nothing", .slow = 1 },
	{ "rank 2 is stopped", .slow = 2, .stop = true },
	{ "rank 0 posts nothing, small net.rar.mem", .slow = 0, .small_mem = true },
	{ "rank 0 is stopped", .slow = 0, .stop = true, .full_only = true },
	{ "rank 1 is stopped, small net.rar.mem", .slow = 1, .stop = true,
	  .small_mem = true, .full_only = true },
	{ "rank 2 posts nothing", .slow = 2, .full_only = true },
};

int main(int argc, char **argv)
{
	bool full = argc > 1 && !strcmp(argv[1], "full");

	rar_begin_in_topo(3, "backpressure");
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(ARRAY_SIZE(plans));
	for (plan = plans; plan < plans + ARRAY_SIZE(plans); plan++) {
		ring_a = (struct rar_ring){ .group = 0xf10a0 + (plan - plans),
			.size = SIZE, .where = RAR_ON_IPV4, .netns = "rar" };
		ring_b = ring_a;
		ring_b.group += 0x1000;
		if (plan->full_only && !full)
			ksft_test_result_skip("%s: only in full\n", plan->name);
		else
			ksft_test_result(run(), "%s\n", plan->name);
	}
	ksft_finished();
}
