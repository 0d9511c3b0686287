/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of MSG_ZEROCOPY, zerocopy*.c: memory of every kind and alignment between
 * guards, and operations in place, out of place (RAR_OP.dst) and by copying. The ranks live in
 * the namespaces rar0 ... rar3.
 */
#ifndef RAR_ZEROCOPY_H
#define RAR_ZEROCOPY_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define PAGE		4096ul
#define HUGE		(2ul << 20)
#define GUARD		0xa5
#define SYNC_S		60

static struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "rar" };

struct shared {
	struct rar_barrier barrier;
	atomic_bool stop;
	bool hugetlb;
};

static struct shared *shared;

static inline int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

/* Is this kernel emulated, or built with all checkers? */
static inline bool slow(void)
{
	return strcmp(getenv("RAR_KERNEL") ?: "uml", "uml");
}

/* ------------------------------------------------------------ memory */

enum kind {
	ANON,
	SHARED,			/* of a memfd */
	SCRAMBLED,		/* of a memfd, the pages in another order than in the file */
	TLB,			/* MAP_HUGETLB */
	THP,			/* huge pages if the kernel gives them */
};

/* @bytes at @base, with GUARD before and after them. */
struct area {
	char *map, *base;
	size_t len, bytes;
	int memfd;
};

static inline size_t page_up(size_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

/*
 * Reorder the pages: neighbours in memory are never neighbours in the file. So most
 * likely they are not neighbours in the machine's memory either.
 */
static inline int scramble(struct area *a)
{
	size_t pages = a->len / PAGE;

	for (size_t i = 0; i < pages; i++)
		if (mmap(a->map + i * PAGE, PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, a->memfd,
			 (pages - 1 - i) * PAGE) == MAP_FAILED)
			return -errno;
	return 0;
}

static inline int area_map(struct area *a, enum kind kind)
{
	int flags = kind == SHARED || kind == SCRAMBLED ? MAP_SHARED :
							  MAP_PRIVATE | MAP_ANONYMOUS;
	size_t len = a->len;

	if (flags == MAP_SHARED) {
		a->memfd = memfd_create("zerocopy", MFD_CLOEXEC);
		if (a->memfd < 0 || ftruncate(a->memfd, len) < 0)
			return -errno;
	}
	if (kind == THP)
		len += HUGE;
	a->map = mmap(NULL, len, PROT_READ | PROT_WRITE,
		      flags | (kind == TLB ? MAP_HUGETLB : 0), a->memfd, 0);
	if (a->map == MAP_FAILED)
		return -errno;
	if (kind != THP)
		return kind == SCRAMBLED ? scramble(a) : 0;
	/* A huge page begins at a multiple of its size. */
	len = -(unsigned long)a->map % HUGE;
	if (len)
		munmap(a->map, len);
	if (len != HUGE)
		munmap(a->map + len + a->len, HUGE - len);
	a->map += len;
	madvise(a->map, a->len, MADV_HUGEPAGE);
	return 0;
}

/* Makes an area that begins @off bytes after the border of a page. */
static inline int area_get(struct area *a, enum kind of, size_t bytes, size_t off)
{
	size_t unit = of == TLB || of == THP ? HUGE : PAGE;
	int err;

	*a = (struct area){ .bytes = bytes, .memfd = -1 };
	a->len = (PAGE + off + bytes + PAGE + unit - 1) / unit * unit;
	err = area_map(a, of);
	if (err)
		return err;
	memset(a->map, GUARD, a->len);
	a->base = a->map + PAGE + off;
	return 0;
}

static inline void area_put(struct area *a)
{
	if (a->map)
		munmap(a->map, a->len);
	if (a->memfd >= 0)
		close(a->memfd);
	a->map = NULL;
	a->memfd = -1;
}

static inline bool only(const char *p, const char *end, char byte)
{
	while (p < end && *p == byte)
		p++;
	return p == end;
}

static inline bool area_guarded(const struct area *a)
{
	return only(a->map, a->base, (char)GUARD) &&
	       only(a->base + a->bytes, a->map + a->len, (char)GUARD);
}

/* Makes the data in aligned memory, as C demands, and copies them to @to. */
static inline void put_data(const struct rar_data *d, uint32_t rank, char *to)
{
	void *tmp = malloc(rar_bytes(d) + 1);

	rar_fill(d, rank, 0, d->count, tmp);
	memcpy(to, tmp, rar_bytes(d));
	free(tmp);
}

static inline bool has_data(const struct rar_data *d, uint32_t rank, const char *at)
{
	void *tmp = malloc(rar_bytes(d) + 1);
	bool same;

	rar_fill(d, rank, 0, d->count, tmp);
	same = !memcmp(at, tmp, rar_bytes(d));
	free(tmp);
	return same;
}

/* ------------------------------------------------------------ one operation */

enum mode { IN_PLACE, OUT_OF_PLACE, COPY, MODES };

static const char * const mode_names[] = { "in place", "out of place", "copy" };

/* An operation as one rank does it. */
struct job {
	struct rar_data d;
	enum mode mode;
	struct area src, dst;		/* in place both are one area */
};

static inline int job_get(struct job *j, const struct rar_data *d, enum mode mode,
		   enum kind kind, size_t src_off, size_t dst_off)
{
	int err;

	*j = (struct job){ .d = *d, .mode = mode };
	err = area_get(&j->src, kind, rar_bytes(d), src_off);
	if (!err && mode != IN_PLACE)
		err = area_get(&j->dst, kind, rar_bytes(d), dst_off);
	if (!err && mode == IN_PLACE)
		j->dst = j->src;
	return err;
}

static inline void job_put(struct job *j)
{
	area_put(&j->src);
	if (j->mode != IN_PLACE)
		area_put(&j->dst);
}

static inline struct rar_op job_op(const struct job *j)
{
	struct rar_op op = rar_op_of(j->d.dtype, rar_bytes(&j->d), j->d.id);

	if (j->mode == OUT_OF_PLACE)
		op.dst = (uintptr_t)j->dst.base;
	return op;
}

static inline int job_flags(const struct job *j)
{
	return j->mode == COPY ? 0 : MSG_ZEROCOPY;
}

static inline int job_send(int fd, const struct job *j)
{
	struct rar_op op = job_op(j);

	return rar_send(fd, j->src.base, rar_bytes(&j->d), job_flags(j), &op);
}

static inline int job_post(int fd, struct job *j, uint32_t rank)
{
	put_data(&j->d, rank, j->src.base);
	return job_send(fd, j);
}

/* Receives the result of a job: 0 or -errno. */
static inline int job_recv(int fd, struct job *j)
{
	struct rar_done done = {};
	char spare[64] = "";
	bool eor = true;
	ssize_t n;

	if (j->mode == COPY) {
		n = rar_recv_all(fd, j->dst.base, rar_bytes(&j->d), &done);
		n -= n > 0 ? rar_bytes(&j->d) : 0;
	} else {
		n = rar_recv(fd, spare, sizeof(spare), 0, &eor, &done);
	}
	if (n < 0)
		return n;
	if (n || !eor || !only(spare, spare + sizeof(spare), 0))
		return -EMSGSIZE;
	return done.size == sizeof(done) && !done.status && done.cookie == j->d.id &&
	       done.contributors == j->d.size ? 0 : -EBADMSG;
}

static inline int job_check(const struct job *j, uint32_t rank)
{
	if (rar_verify(&j->d, 0, j->d.count, j->dst.base) >= 0)
		return -EBADE;
	if (j->mode != IN_PLACE && !has_data(&j->d, rank, j->src.base))
		return -EROFS;		/* the source was written to */
	return area_guarded(&j->src) && area_guarded(&j->dst) ? 0 : -EFBIG;
}

static inline int job_collect(int fd, struct job *j, uint32_t rank)
{
	int err = job_recv(fd, j) ?: job_check(j, rank);

	if (err)
		rar_log("rank %u of %u: op %llu %s %s count %llu src %lx dst %lx: %s",
			rank, j->d.size, (unsigned long long)j->d.id,
			mode_names[j->mode], rar_dtype_name(j->d.dtype),
			(unsigned long long)j->d.count,
			(unsigned long)j->src.base % PAGE,
			(unsigned long)j->dst.base % PAGE, strerrorname_np(-err));
	return err;
}

static inline int one_op(int fd, uint32_t rank, const struct rar_data *d, enum mode mode,
		  enum kind kind, size_t src_off, size_t dst_off)
{
	struct job j;
	int err;

	err = job_get(&j, d, mode, kind, src_off, dst_off) ?: job_post(fd, &j, rank);
	if (err)
		rar_log("rank %u: %s of %llu bytes: %s", rank, mode_names[mode],
			(unsigned long long)rar_bytes(d), strerrorname_np(-err));
	if (!err)
		err = job_collect(fd, &j, rank);
	job_put(&j);
	return err;
}

/* The mode of a rank: @mode, or with MODES another mode for each rank. */
static inline enum mode mode_of(enum mode mode, uint32_t rank, uint64_t id)
{
	return mode < MODES ? mode : (rank + id) % MODES;
}

static inline struct rar_data data_of(uint64_t id, uint32_t dtype, uint64_t count)
{
	return (struct rar_data){
		.id = id, .size = ring.size, .dtype = dtype, .count = count,
	};
}

/* Does a small operation, which shows that the failed one left nothing behind. */
static inline int healthy(int fd, uint32_t rank, uint64_t id)
{
	struct rar_data d = data_of(id, RAR_I32, 1001);

	return one_op(fd, rank, &d, mode_of(MODES, rank, id), ANON, 4, 8);
}

static inline int open_rank(uint32_t rank)
{
	int fd = rar_open(&ring, rank);

	if (fd < 0)
		rar_log("rank %u: join: %s", rank, strerrorname_np(-fd));
	return fd;
}

static inline void *map_anon(size_t len, int prot)
{
	return mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static inline int send_iov(int fd, struct iovec *iov, uint32_t n, const struct rar_op *op, int flags)
{
	char control[CMSG_SPACE(sizeof(*op))]
		__attribute__((aligned(__alignof__(struct cmsghdr)))) = {};
	struct msghdr msg = {
		.msg_iov = iov, .msg_iovlen = n,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_RAR;
	cmsg->cmsg_type = RAR_OP;
	cmsg->cmsg_len = CMSG_LEN(sizeof(*op));
	if (op)
		memcpy(CMSG_DATA(cmsg), op, sizeof(*op));
	else
		msg.msg_controllen = 0;
	return sendmsg(fd, &msg, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* ------------------------------------------------------------ all tests */

struct test {
	const char *name;
	uint32_t ranks;
	rar_rank_fn fn;
	const void *arg;
	const char *netem;		/* for rank 1 alone if it begins with "1 " */
	const char *(*missing)(void);	/* gets the resources of the test: NULL, or why not */
	void (*put)(void);		/* gives the resources back */
};

static inline int set_netem(uint32_t rank, const char *parameters)
{
	char command[160];

	snprintf(command, sizeof(command), "tc -n rar%u qdisc %s dev eth0 root %s%s", rank,
		 parameters ? "replace" : "del", parameters ? "netem limit 10000 " : "",
		 parameters ?: "");
	return system(command);
}

static inline int all_netem(const struct test *t, bool on)
{
	bool alone = t->netem[0] == '1';
	int err = 0;

	for (uint32_t r = alone; r < (alone ? 2 : t->ranks); r++)
		err |= set_netem(r, on ? t->netem + 2 * alone : NULL);
	return err;
}

static inline void run_one(const struct test *t, uint64_t group)
{
	uint64_t start = rar_now_us();
	const char *why = NULL;
	int failed;

	if (t->missing)
		why = t->missing();
	if (!why && t->netem && all_netem(t, true))
		why = "no netem";
	if (why) {
		ksft_test_result_skip("%s: %s\n", t->name, why);
		return;
	}
	ring.group = group;
	ring.size = t->ranks;
	memset(&shared->barrier, 0, sizeof(shared->barrier));
	failed = rar_run(t->ranks, ring.netns, 120, t->fn, (void *)t->arg);
	if (t->netem)
		all_netem(t, false);
	if (t->put)
		t->put();
	rar_log("%llu ms", (unsigned long long)(rar_now_us() - start) / 1000);
	ksft_test_result(!failed, "%s\n", t->name);
}

static inline bool is_chosen(const struct test *t, const char *pattern)
{
	return !pattern || strstr(t->name, pattern);
}

/* Runs all tests, or those whose name contains the pattern. In the end no page is pinned. */
static inline int zerocopy_main(const char *program, const struct test *tests, size_t n,
				const char *pattern)
{
	size_t chosen = 0;
	int64_t pinned;

	rar_begin_in_topo(4, program);
	shared = rar_shared(sizeof(*shared));
	for (size_t i = 0; i < n; i++)
		chosen += is_chosen(&tests[i], pattern);
	ksft_set_plan(chosen + 1);
	pinned = rar_pinned();
	for (size_t i = 0; i < n; i++)
		if (is_chosen(&tests[i], pattern))
			run_one(&tests[i], i + 1);
	if (pinned < 0)
		ksft_test_result_skip("no page is pinned: this kernel does not count them\n");
	else
		ksft_test_result(rar_unpinned(pinned), "no page is pinned\n");
	ksft_finished();
}

#endif /* RAR_ZEROCOPY_H */
