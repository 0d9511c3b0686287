// SPDX-License-Identifier: GPL-2.0
/* See bench.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define WHOLE	(256u << 10)	/* bytes; results up to this size are checked whole */
#define KEEP	(16u << 20)	/* bytes; after a broadcast a rank gives back more memory */
#define BLOCK_US 500		/* until the ranks that receive a broadcast wait for it */

/* ------------------------------------------------------------ clock, futexes */

uint64_t bench_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static uint32_t increment(uint32_t *word)
{
	return __atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL);
}

void bench_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool bench_sleep(uint32_t *word, uint32_t value, uint64_t until_ns)
{
	struct timespec left, *timeout = NULL;
	uint64_t now;

	while (load(word) == value) {
		if (until_ns != BENCH_NEVER) {
			now = bench_now_ns();
			if (now >= until_ns)
				return false;
			left.tv_sec = (until_ns - now) / 1000000000;
			left.tv_nsec = (until_ns - now) % 1000000000;
			timeout = &left;
		}
		syscall(SYS_futex, word, FUTEX_WAIT, value, timeout, NULL, 0);
	}
	return true;
}

bool bench_meet(struct bench_barrier *b, uint32_t n, uint64_t until_ns)
{
	uint32_t gen = load(&b->gen);

	if (increment(&b->arrived) < n)
		return bench_sleep(&b->gen, gen, until_ns);
	b->arrived = 0;
	increment(&b->gen);
	bench_wake(&b->gen);
	return true;
}

/* ------------------------------------------------------------ data */

#define VECTOR	__attribute__((target_clones("avx2", "default"), optimize("O3")))

/* One of 256 values for element i; no shift by a few chunks repeats the sequence. */
static inline uint32_t pattern(uint32_t i)
{
	return i * 2654435761u >> 24;
}

/* Small integers times 2^-40: exact sums in any order, and room to grow. */
#define UNIT	0x1p-40f

VECTOR static void add_f32(float *dst, const float *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = in[i] + dst[i];
}

VECTOR static void add_i32(uint32_t *dst, const uint32_t *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = in[i] + dst[i];
}

VECTOR static void fill_f32(float *buf, uint32_t rank, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = (float)(int32_t)(pattern(i) + rank) * UNIT;
}

VECTOR static void fill_i32(uint32_t *buf, uint32_t rank, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = pattern(i) + rank;
}

/* Counts elements that are not factor * (size * pattern + base). That is the result of
 * the first operation; every further operation multiplies it by size.
 */
VECTOR static size_t wrong_f32(const float *buf, uint32_t first, size_t n, float size, float base,
			       float factor)
{
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++) {
		float want = (size * (float)(int32_t)pattern(first + i) + base) * factor;
		float off = __builtin_fabsf(buf[i] - want);

		wrong += buf[i] != want && !(off <= want * 1e-4f);
	}
	return wrong;
}

VECTOR static size_t wrong_i32(const uint32_t *buf, uint32_t first, size_t n, uint32_t size,
			       uint32_t base, uint32_t factor)
{
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += buf[i] != (size * pattern(first + i) + base) * factor;
	return wrong;
}

void bench_add(enum bench_type type, void *dst, const void *in, size_t bytes)
{
	if (type == BENCH_F32)
		add_f32(dst, in, bytes / 4);
	else
		add_i32(dst, in, bytes / 4);
}

void bench_fill(enum bench_type type, uint32_t rank, void *buf, size_t bytes)
{
	if (type == BENCH_F32)
		fill_f32(buf, rank, bytes / 4);
	else
		fill_i32(buf, rank, bytes / 4);
}

/* UNIT * size^ops; infinite if a float cannot hold it, as the sums are then. */
static float factor_f32(uint32_t size, uint32_t ops)
{
	double factor = UNIT;

	while (ops--)
		factor *= size;
	return factor;
}

static uint32_t factor_i32(uint32_t size, uint32_t ops)
{
	uint32_t factor = 1;

	while (ops--)
		factor *= size;
	return factor;
}

static size_t wrong_elements(enum bench_type type, uint32_t size, uint32_t ops, const void *buf,
			     size_t first, size_t n)
{
	uint32_t base = size * (size - 1) / 2;

	if (type == BENCH_F32)
		return wrong_f32((const float *)buf + first, first, n, size, base,
				 factor_f32(size, ops - 1));
	return wrong_i32((const uint32_t *)buf + first, first, n, size, base,
			 factor_i32(size, ops - 1));
}

int64_t bench_verify(enum bench_type type, uint32_t size, uint32_t ops, const void *buf,
		     size_t first, size_t bytes)
{
	if (!ops || !wrong_elements(type, size, ops, buf, first / 4, bytes / 4))
		return -1;
	while (!wrong_elements(type, size, ops, buf, first / 4, 1))
		first += 4;
	return first;
}

/* ------------------------------------------------------------ control block */

struct bench_ctl *bench_map(const char *path, bool create)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
	struct bench_ctl *ctl = NULL;

	if (fd < 0)
		return NULL;
	if (!create || !ftruncate(fd, sizeof(*ctl)))
		ctl = mmap(NULL, sizeof(*ctl), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return ctl == MAP_FAILED ? NULL : ctl;
}

static int say(struct bench_ctl *ctl, uint32_t rank, int err, const char *fmt, va_list args)
{
	struct bench_report *report = &ctl->report[rank];

	vsnprintf(report->text, sizeof(report->text), fmt, args);
	report->err = err;
	__atomic_store_n(&ctl->failed, 1, __ATOMIC_RELEASE);
	return err;
}

static int fail(struct bench_rank *r, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(r->ctl, r->rank, err, fmt, args);
	va_end(args);
	return err;
}

int bench_refuse(const char *path, uint32_t rank, const char *fmt, ...)
{
	struct bench_ctl *ctl = bench_map(path, false);
	va_list args;

	if (!ctl || rank >= ctl->n)
		return 1;
	va_start(args, fmt);
	say(ctl, rank, -EOPNOTSUPP, fmt, args);
	va_end(args);
	increment(&ctl->attached);
	bench_wake(&ctl->attached);
	return 4;
}

/* ------------------------------------------------------------ a job */

static size_t largest(const struct bench_job *job)
{
	size_t most = 0;

	for (uint32_t i = 0; i < job->nops; i++)
		most = job->bytes[i] > most ? job->bytes[i] : most;
	return most;
}

/* Grows memory and touches it, in huge pages where the kernel gives them. */
static void *more_room(void *old, size_t had, size_t bytes)
{
	void *buf;

	if (old)
		munmap(old, had);
	buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return buf == MAP_FAILED ? NULL : buf;
}

static void give_back(struct bench_rank *r)
{
	munmap(r->buf, r->room);
	if (r->spare)
		munmap(r->spare, r->room);
	r->buf = r->spare = NULL;
	r->room = 0;
}

static int make_room(struct bench_rank *r, const struct bench_peer *peer, size_t bytes)
{
	const size_t huge = 2u << 20;

	bytes = (bytes + huge) / huge * huge;
	if (bytes <= r->room)
		return 0;
	r->buf = more_room(r->buf, r->room, bytes);
	if (peer->spare)
		r->spare = more_room(r->spare, r->room, bytes);
	r->room = bytes;
	if (!r->buf || (peer->spare && !r->spare))
		return fail(r, -ENOMEM, "no memory for %zu bytes", bytes);
	return 0;
}

static int prepare(struct bench_rank *r, const struct bench_peer *peer)
{
	const struct bench_job *job = &r->ctl->job;
	int err = make_room(r, peer, largest(job));

	if (err)
		return err;
	bench_fill(job->type, r->rank, r->buf, largest(job));
	if (job->broadcast ? !peer->broadcast : !peer->allreduce)
		return fail(r, -EOPNOTSUPP, "no such operation");
	err = peer->prepare ? peer->prepare(r, job) : 0;
	return err ? fail(r, err, "preparing: %s", strerror(-err)) : 0;
}

static int run_list(struct bench_rank *r, const struct bench_peer *peer)
{
	const struct bench_job *job = &r->ctl->job;

	for (uint32_t t = 0; t < job->times; t++)
		for (uint32_t i = 0; i < job->nops; i++) {
			int err = peer->allreduce(r, job->bytes[i], job->type);

			if (err)
				return fail(r, err, "%llu bytes: %s",
					    (unsigned long long)job->bytes[i], strerror(-err));
		}
	return 0;
}

/* One broadcast. Rank 0 begins when the others wait for the data. */
static int broadcast(struct bench_rank *r, const struct bench_peer *peer, size_t bytes)
{
	uint64_t start, *end = &r->ctl->report[r->rank].end_ns, last = 0;
	int err;

	bench_meet(&r->ctl->barrier, r->size, BENCH_NEVER);
	if (r->rank == 0)
		usleep(BLOCK_US);
	start = bench_now_ns();
	err = peer->broadcast(r, bytes);
	*end = bench_now_ns();
	if (err)
		return fail(r, err, "%zu bytes: %s", bytes, strerror(-err));
	bench_meet(&r->ctl->barrier, r->size, BENCH_NEVER);
	for (uint32_t i = 1; i < r->size && r->rank == 0; i++)
		last = r->ctl->report[i].end_ns > last ? r->ctl->report[i].end_ns : last;
	if (r->rank == 0)
		r->ctl->broadcast_ns += last - start;
	return 0;
}

static int broadcast_list(struct bench_rank *r, const struct bench_peer *peer)
{
	const struct bench_job *job = &r->ctl->job;
	int err = 0;

	for (uint32_t t = 0; t < job->times; t++)
		for (uint32_t i = 0; i < job->nops && !err; i++)
			err = broadcast(r, peer, job->bytes[i]);
	return err;
}

/* Counts operations that reach beyond an offset; sets the next offset where that changes. */
static uint32_t ops_beyond(const struct bench_job *job, size_t offset, size_t *until)
{
	uint32_t ops = 0;

	*until = largest(job);
	for (uint32_t i = 0; i < job->nops; i++) {
		if (job->bytes[i] <= offset)
			continue;
		ops += job->times;
		if (job->bytes[i] < *until)
			*until = job->bytes[i];
	}
	return ops;
}

/* Checks small results whole, and of a large result a share, another one every time. */
static int verify(struct bench_rank *r)
{
	const struct bench_job *job = &r->ctl->job;
	size_t lo = 0, hi = largest(job), until, end;
	int64_t bad = -1;

	if (hi > WHOLE) {
		size_t share = hi / r->size / 4 * 4;

		lo = (r->rank + job->number) % r->size * share;
		hi = lo + share;
	}
	for (; lo < hi && bad < 0; lo = end) {
		uint32_t ops = ops_beyond(job, lo, &until), sources = r->size;

		if (job->broadcast)	/* the data of one rank, unchanged */
			ops = sources = 1;
		end = until < hi ? until : hi;
		bad = bench_verify(job->type, sources, ops, r->buf, lo, end - lo);
	}
	return bad < 0 ? 0 : fail(r, -EBADE, "wrong result at byte %lld", (long long)bad);
}

static void do_job(struct bench_rank *r, const struct bench_peer *peer)
{
	struct bench_report *report = &r->ctl->report[r->rank];

	report->err = prepare(r, peer);
	bench_meet(&r->ctl->barrier, r->ctl->n, BENCH_NEVER);
	if (load(&r->ctl->failed))
		return;
	report->start_ns = bench_now_ns();
	report->err = r->ctl->job.broadcast ? broadcast_list(r, peer) : run_list(r, peer);
	report->end_ns = bench_now_ns();
	if (!report->err)
		report->err = verify(r);
	if (r->ctl->job.broadcast && r->room > KEEP)
		give_back(r);
}

int bench_serve(const char *path, uint32_t rank, const struct bench_peer *peer, void *priv)
{
	struct bench_rank r = { .ctl = bench_map(path, false), .rank = rank, .priv = priv };
	uint32_t round = 0;

	if (!r.ctl || rank >= r.ctl->n)
		return 1;
	r.size = r.ctl->n;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	increment(&r.ctl->attached);
	bench_wake(&r.ctl->attached);
	for (;;) {
		bench_sleep(&r.ctl->round, round++, BENCH_NEVER);
		if (load(&r.ctl->quit))
			return 0;
		do_job(&r, peer);
		increment(&r.ctl->done);
		bench_wake(&r.ctl->done);
	}
}
