// SPDX-License-Identifier: GPL-2.0
/*
 * Registered regions (RAR_REG). Operations lie anywhere in a region or across its border,
 * in and out of place. A region is pinned once, may be unregistered while an operation uses
 * it, and belongs to the process that registered it. Pages that are not there any more are not
 * used. Bad registrations are refused.
 *
 * lib/in_topo.sh 2 region: the ranks live in rar0 and rar1.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define PAGE	4096ul
#define LEN	(1ul << 20)	/* bytes of a region */
#define SYNC_S	60
#define NOBODY	65534

static struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "rar", .size = 2 };
static struct rar_barrier *barrier;

static int sync_ranks(void)
{
	return rar_barrier(barrier, ring.size, SYNC_S);
}

static char *map(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int set(int fd, int option, const void *addr, size_t len)
{
	struct rar_reg reg = { .addr = (uintptr_t)addr, .len = len };

	/* as programs do that know only these fields */
	return setsockopt(fd, SOL_RAR, option, &reg, offsetof(struct rar_reg, flags)) ?
	       -errno : 0;
}

static int reg_to_read(int fd, const void *addr, size_t len)
{
	struct rar_reg reg = { .addr = (uintptr_t)addr, .len = len, .flags = RAR_REG_READ };

	return setsockopt(fd, SOL_RAR, RAR_REG, &reg, sizeof(reg)) ? -errno : 0;
}

static struct rar_data data_of(uint64_t id, size_t bytes)
{
	return (struct rar_data){
		.id = id, .size = ring.size, .dtype = RAR_I32, .count = bytes / 4,
	};
}

/* Post an operation, without waiting for its result. */
static int post(int fd, uint32_t rank, const struct rar_data *d, char *src, char *dst)
{
	struct rar_op op = rar_op_of(d->dtype, rar_bytes(d), d->id);

	rar_fill(d, rank, 0, d->count, src);
	op.dst = src == dst ? 0 : (uintptr_t)dst;
	return rar_send(fd, src, rar_bytes(d), MSG_ZEROCOPY, &op);
}

static int collect(int fd, const struct rar_data *d, const char *dst)
{
	struct rar_done done = {};
	bool eor = false;
	char none;
	ssize_t n;

	n = rar_recv(fd, &none, sizeof(none), 0, &eor, &done);
	if (n)
		return n < 0 ? n : -EMSGSIZE;
	if (!eor || done.cookie != d->id)
		return -EBADMSG;
	return rar_verify(d, 0, d->count, dst) >= 0 ? -EBADE : 0;
}

static int one_op(int fd, uint32_t rank, uint64_t id, char *src, char *dst, size_t bytes)
{
	struct rar_data d = data_of(id, bytes);
	int err = post(fd, rank, &d, src, dst);

	if (!err)
		err = collect(fd, &d, dst);
	if (err)
		rar_log("rank %u: op %llu, %zu bytes: %s", rank, (unsigned long long)id, bytes,
			strerrorname_np(-err));
	return err;
}

/* ------------------------------------------------------------ sums */

/* Operations at many places in and across the borders of an unaligned region. */
static int places(uint32_t rank, void *arg)
{
	static const size_t offsets[] = { 0, 4, 64, PAGE - 4, PAGE, 3 * PAGE + 20 };
	static const size_t lengths[] = { 4, 1000, 20000, 300000 };
	char *room = map(LEN + 4 * PAGE), *begin = room + 2 * PAGE + 100, *at;
	int fd = rar_open(&ring, rank), err = 0;
	uint64_t id = 0;

	(void)arg;
	RAR_CHECK(fd >= 0 && room, "join");
	RAR_CHECK(!set(fd, RAR_REG, begin, LEN - 200), "register");
	for (size_t i = 0; i < 6 && !err; i++) {
		for (size_t j = 0; j < 4 && !err; j++) {
			err = one_op(fd, rank, id++, begin + offsets[i], begin + offsets[i],
				     lengths[j]);
			/* to the end of the region, and beyond */
			at = begin + LEN - 200 - lengths[j];
			err = err ?: one_op(fd, rank, id++, at, at, lengths[j]);
			err = err ?: one_op(fd, rank, id++, at + 4, at + 4, lengths[j]);
			err = err ?: one_op(fd, rank, id++, begin - offsets[i] / 2,
					    begin - offsets[i] / 2, lengths[j]);
			/* out of place: source, place of the sums, or both in the region */
			err = err ?: one_op(fd, rank, id++, begin + offsets[i],
					    begin + LEN / 2, lengths[j]);
			err = err ?: one_op(fd, rank, id++, room, begin + 2 * PAGE,
					    lengths[j] % (2 * PAGE));
			err = err ?: one_op(fd, rank, id++, begin + 2 * PAGE, room,
					    lengths[j] % (2 * PAGE));
		}
	}
	RAR_CHECK(!err, "bits");
	RAR_CHECK(!set(fd, RAR_UNREG, begin, LEN - 200), "unregister");
	return one_op(fd, rank, id, begin, begin, LEN / 2);
}

/* Pieces of a record, some of them in a region. */
static int pieces(uint32_t rank, void *arg)
{
	char *a = map(LEN), *b = map(LEN);
	int fd = rar_open(&ring, rank);
	struct rar_data d = data_of(7, 3 * 40000);
	struct rar_op op = rar_op_of(d.dtype, rar_bytes(&d), d.id);
	struct iovec iov[] = {
		{ a + 100, 40000 }, { b + 60, 40000 }, { a + 200000, 40000 },
	};
	union { struct cmsghdr hdr; char room[CMSG_SPACE(sizeof(op))]; } c = {
		.hdr = { CMSG_LEN(sizeof(op)), SOL_RAR, RAR_OP },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3, .msg_control = &c,
			      .msg_controllen = sizeof(c) };
	char *all = malloc(rar_bytes(&d));
	struct rar_done done;
	char none;

	(void)arg;
	RAR_CHECK(fd >= 0 && a && b && all, "join");
	RAR_CHECK(!set(fd, RAR_REG, a, LEN), "register");
	rar_fill(&d, rank, 0, d.count, all);
	for (int i = 0; i < 3; i++)
		memcpy(iov[i].iov_base, all + i * 40000, 40000);
	memcpy(CMSG_DATA(&c.hdr), &op, sizeof(op));
	RAR_CHECK(sendmsg(fd, &msg, MSG_ZEROCOPY) == 120000, "send: %m");
	RAR_CHECK(!rar_recv_all(fd, &none, 1, &done), "recv");
	for (int i = 0; i < 3; i++)
		memcpy(all + i * 40000, iov[i].iov_base, 40000);
	RAR_CHECK(rar_verify(&d, 0, d.count, all) < 0, "bits");
	return 0;
}

/* ------------------------------------------------------------ pinned once */

static int once(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank), err = 0;
	char *buf = map(LEN);
	int64_t before, after;

	(void)arg;
	RAR_CHECK(fd >= 0 && buf, "join");
	RAR_CHECK(!set(fd, RAR_REG, buf, LEN), "register");
	sync_ranks();
	before = rar_vmstat("nr_foll_pin_acquired");
	sync_ranks();
	for (uint64_t id = 0; id < 50 && !err; id++)
		err = one_op(fd, rank, id, buf, buf, LEN);
	sync_ranks();
	after = rar_vmstat("nr_foll_pin_acquired");
	sync_ranks();
	RAR_CHECK(!err, "bits");
	if (before < 0)
		rar_log("this kernel does not count pinned pages");
	RAR_CHECK(after == before, "%lld pages pinned by 50 operations",
		  (long long)(after - before));
	return 0;
}

/* ------------------------------------------------------------ only read */

/* Memory that nobody may write to is a region for contributions. It is pinned once. */
static int only_read(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, LEN);
	int fd = rar_open(&ring, rank), err = 0;
	char *src = map(LEN), *dst = map(LEN);
	struct rar_op op = rar_op_of(d.dtype, LEN, d.id);
	int64_t before, after;

	(void)arg;
	RAR_CHECK(fd >= 0 && src && dst, "join");
	op.dst = (uintptr_t)dst;
	rar_fill(&d, rank, 0, d.count, src);
	mprotect(src, LEN, PROT_READ);
	RAR_CHECK(set(fd, RAR_REG, src, LEN) == -EFAULT, "to be written to");
	RAR_CHECK(!reg_to_read(fd, src, LEN), "to be read");
	RAR_CHECK(!set(fd, RAR_REG, dst, LEN), "the place of the sums");
	sync_ranks();
	before = rar_vmstat("nr_foll_pin_acquired");
	sync_ranks();
	for (int i = 0; i < 10 && !err; i++)
		err = rar_send(fd, src, LEN, MSG_ZEROCOPY, &op) ?: collect(fd, &d, dst);
	sync_ranks();
	after = rar_vmstat("nr_foll_pin_acquired");
	sync_ranks();
	RAR_CHECK(!err, "bits");
	RAR_CHECK(before < 0 || after == before, "pinned again");
	op.dst = 0;
	RAR_CHECK(rar_send(fd, src, LEN, MSG_ZEROCOPY, &op) == -EFAULT, "in place");
	RAR_CHECK(!set(fd, RAR_UNREG, src, LEN), "unregister");
	return 0;
}

/* Contributions that are written after the memory was registered to be read are the ones sent. */
static int written_later(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank), err = 0;
	char *src = map(LEN), *dst = map(LEN);

	(void)arg;
	RAR_CHECK(fd >= 0 && src && dst, "join");
	RAR_CHECK(!reg_to_read(fd, src, LEN), "never touched before");
	for (uint64_t id = 0; id < 3 && !err; id++)
		err = one_op(fd, rank, id, src, dst, LEN);
	/* the region does not serve operations that write to it */
	return err ?: one_op(fd, rank, 3, src, src, LEN);
}

/* ------------------------------------------------------------ taken back */

static int in_flight(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank);
	char *buf = map(LEN), *other;
	struct rar_data d;

	(void)arg;
	RAR_CHECK(fd >= 0 && buf, "join");
	for (uint64_t id = 0; id < 10; id++) {
		d = data_of(id, LEN);
		RAR_CHECK(!set(fd, RAR_REG, buf, LEN), "register");
		if (!rank)
			RAR_CHECK(!post(fd, rank, &d, buf, buf), "post");
		sync_ranks();
		RAR_CHECK(!set(fd, RAR_UNREG, buf, LEN), "unregister");
		sync_ranks();
		if (rank)
			RAR_CHECK(!post(fd, rank, &d, buf, buf), "post");
		RAR_CHECK(!collect(fd, &d, buf), "bits");
	}
	/* unmap first, so that only the registration holds the pages */
	RAR_CHECK(!set(fd, RAR_REG, buf, LEN), "register");
	munmap(buf, LEN);
	other = map(LEN);
	RAR_CHECK(other && !set(fd, RAR_UNREG, buf, LEN), "unregister");
	return one_op(fd, rank, 100, other, other, LEN);
}

/* A child has the same descriptor and address, but other memory. */
static int child(int fd, uint32_t rank, char *buf)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		memset(buf, 0, LEN);
		if (set(fd, RAR_UNREG, buf, LEN) != -ENOENT)
			_exit(1);
		_exit(one_op(fd, rank, 1, buf, buf, LEN) ? 2 : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -ECHILD;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
}

static int forked(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank);
	char *buf = map(LEN);

	(void)arg;
	RAR_CHECK(fd >= 0 && buf, "join");
	memset(buf, 0x5a, LEN);
	RAR_CHECK(!set(fd, RAR_REG, buf, LEN), "register");
	RAR_CHECK(!child(fd, rank, buf), "the child's operation");
	for (size_t i = 0; i < LEN; i++)
		RAR_CHECK(buf[i] == 0x5a, "byte %zu of the parent was written to", i);
	RAR_CHECK(!one_op(fd, rank, 2, buf, buf, LEN), "the parent's operation");
	return 0;
}

/* ------------------------------------------------------------ other pages */

static char *map_file(int memfd)
{
	char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Put other memory in the place of @buf, or of the middle of it. */
static int dontneed(char *buf, int memfd)
{
	(void)memfd;
	return madvise(buf, LEN, MADV_DONTNEED);
}

static int dontneed_middle(char *buf, int memfd)
{
	(void)memfd;
	return madvise(buf + LEN / 2, PAGE, MADV_DONTNEED);
}

static int map_anew(char *buf, int memfd)
{
	(void)memfd;
	munmap(buf, LEN);
	return mmap(buf, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		    -1, 0) != buf;
}

static int move_here(char *buf, int memfd)
{
	char *other = map(LEN);

	(void)memfd;
	return !other || mremap(other, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, buf) != buf;
}

static int punch(char *buf, int memfd)
{
	(void)buf;
	return fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, LEN);
}

static int cut(char *buf, int memfd)
{
	(void)buf;
	return ftruncate(memfd, 0) || ftruncate(memfd, LEN);
}

static int protect(char *buf, int memfd)
{
	(void)memfd;
	return mprotect(buf, LEN, PROT_READ) || mprotect(buf, LEN, PROT_READ | PROT_WRITE);
}

static const struct other {
	const char *name;
	int (*fn)(char *buf, int memfd);
	bool file;
} others[] = {
	{ "MADV_DONTNEED", dontneed },
	{ "MADV_DONTNEED of a page", dontneed_middle },
	{ "munmap and mmap", map_anew },
	{ "mremap of other memory", move_here },
	{ "a hole", punch, true },
	{ "truncate", cut, true },
	{ "mprotect", protect },
};

/* Sums are those of the memory that the user sees, in place and out of place. */
static int one_other(int fd, uint32_t rank, const struct other *o, uint64_t id)
{
	int memfd = memfd_create("region", MFD_CLOEXEC);
	char *buf, *dst = map(LEN);

	RAR_CHECK(memfd >= 0 && !ftruncate(memfd, LEN) && dst, "memory");
	buf = o->file ? map_file(memfd) : map(LEN);
	RAR_CHECK(buf && !set(fd, RAR_REG, buf, LEN), "register");
	RAR_CHECK(!one_op(fd, rank, id++, buf, buf, LEN), "before");
	RAR_CHECK(!o->fn(buf, memfd), "%m");
	RAR_CHECK(!one_op(fd, rank, id++, buf, buf, LEN), "in place");
	RAR_CHECK(!one_op(fd, rank, id++, buf, buf, PAGE), "a part of it");
	RAR_CHECK(!one_op(fd, rank, id++, buf, dst, LEN), "out of place");
	RAR_CHECK(!one_op(fd, rank, id++, dst, buf, LEN), "the place of the sums");
	RAR_CHECK(!set(fd, RAR_UNREG, buf, LEN), "unregister");
	munmap(buf, LEN);
	munmap(dst, LEN);
	close(memfd);
	return 0;
}

static int other_pages(uint32_t rank, void *arg)
{
	int fd = rar_open(&ring, rank);
	char *buf = map(LEN);

	(void)arg;
	RAR_CHECK(fd >= 0 && buf, "join");
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		RAR_CHECK(!one_other(fd, rank, &others[i], 10 * i), "%s", others[i].name);
	RAR_CHECK(!set(fd, RAR_REG, buf, LEN), "register");
	munmap(buf, LEN);
	RAR_CHECK(rar_send(fd, buf, LEN, MSG_ZEROCOPY, NULL) == -EFAULT, "no memory there");
	RAR_CHECK(!set(fd, RAR_UNREG, buf, LEN), "unregister");
	return 0;
}

/* ------------------------------------------------------------ refused */

static int refused(uint32_t rank, void *arg)
{
	struct rlimit limit = { LEN, LEN };
	int fd = rar_open(&ring, rank), i;
	char *buf = map(4 * LEN), *hole = buf + 3 * LEN;
	struct rar_reg reg = { .addr = (uintptr_t)buf, .len = LEN };

	(void)arg;
	RAR_CHECK(fd >= 0 && buf, "join");
	munmap(hole, PAGE);
	mprotect(hole + PAGE, PAGE, PROT_READ);
	RAR_CHECK(set(fd, RAR_REG, buf, 0) == -EINVAL, "nothing");
	RAR_CHECK(setsockopt(fd, SOL_RAR, RAR_REG, &reg, 8) && errno == EINVAL, "short");
	RAR_CHECK(setsockopt(fd, SOL_RAR, RAR_REG, (void *)8, sizeof(reg)) && errno == EFAULT,
		  "no argument");
	RAR_CHECK(set(fd, RAR_REG, hole - PAGE, 2 * PAGE) == -EFAULT, "a hole");
	RAR_CHECK(set(fd, RAR_REG, hole + PAGE, PAGE) == -EFAULT, "read only");
	RAR_CHECK(set(fd, RAR_REG, (void *)-PAGE, 2 * PAGE) == -EFAULT, "wraps");
	RAR_CHECK(set(fd, RAR_REG, (void *)8, 8) == -EFAULT, "the first page");
	RAR_CHECK(set(fd, RAR_UNREG, buf, LEN) == -ENOENT, "not registered");
	reg.flags = 2;
	RAR_CHECK(setsockopt(fd, SOL_RAR, RAR_REG, &reg, sizeof(reg)) && errno == EINVAL, "a flag");
	reg.flags = 0;
	reg.__pad = 1;
	RAR_CHECK(setsockopt(fd, SOL_RAR, RAR_REG, &reg, sizeof(reg)) && errno == EINVAL, "padding");
	RAR_CHECK(reg_to_read(fd, hole - PAGE, 2 * PAGE) == -EFAULT, "a hole, to be read");
	RAR_CHECK(!set(fd, RAR_REG, buf, LEN), "register");
	RAR_CHECK(set(fd, RAR_REG, buf, LEN) == -EEXIST, "again");
	RAR_CHECK(set(fd, RAR_REG, buf + LEN - 1, 2) == -EEXIST, "overlap");
	RAR_CHECK(set(fd, RAR_UNREG, buf, LEN / 2) == -ENOENT, "half of it");
	RAR_CHECK(!set(fd, RAR_REG, buf + LEN, 2), "beside it");
	for (i = 0; i < 1022; i++)
		RAR_CHECK(!set(fd, RAR_REG, buf + LEN + 2 + i, 1), "%d", i);
	RAR_CHECK(set(fd, RAR_REG, buf + 2 * LEN, 1) == -ENOBUFS, "one too many");
	RAR_CHECK(!set(fd, RAR_UNREG, buf, LEN), "unregister");
	RAR_CHECK(!set(fd, RAR_REG, buf + 2 * LEN, 1), "in its place");
	RAR_CHECK(!one_op(fd, rank, 0, buf, buf, LEN), "the ring works");
	close(fd);
	/* a region is charged once, as long as it is registered */
	RAR_CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit) && !setresgid(NOBODY, NOBODY, NOBODY) &&
		  !setresuid(NOBODY, NOBODY, NOBODY), "nobody");
	fd = rar_socket();
	RAR_CHECK(fd >= 0, "socket");
	if (rank)
		return 0;
	RAR_CHECK(set(fd, RAR_REG, buf, 2 * LEN) == -ENOBUFS, "RLIMIT_MEMLOCK");
	for (i = 0; i < 50; i++) {
		RAR_CHECK(!set(fd, RAR_REG, buf, LEN / 2), "in it");
		RAR_CHECK(set(fd, RAR_REG, buf + LEN, LEN) == -ENOBUFS, "RLIMIT_MEMLOCK");
		RAR_CHECK(!set(fd, RAR_UNREG, buf, LEN / 2), "and back");
	}
	return 0;
}

/* ------------------------------------------------------------ */

static const struct test {
	const char *name;
	rar_rank_fn fn;
} tests[] = {
	{ "sums at all places in and beside a region", places },
	{ "pieces of a record, some in a region", pieces },
	{ "pinned once for all operations", once },
	{ "memory that is only read", only_read },
	{ "registered to be read, written by its user later", written_later },
	{ "unregistered while an operation uses it", in_flight },
	{ "another process with the same address", forked },
	{ "other pages in the place of a region", other_pages },
	{ "bad registrations are refused", refused },
};

int main(void)
{
	int64_t pinned;

	rar_begin();
	barrier = rar_shared(sizeof(*barrier));
	pinned = rar_pinned();
	ksft_set_plan(ARRAY_SIZE(tests) + 1);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		ring.group = i + 1;
		memset(barrier, 0, sizeof(*barrier));
		ksft_test_result(!rar_run(ring.size, ring.netns, 100, tests[i].fn, NULL), "%s\n",
				 tests[i].name);
	}
	if (pinned < 0)
		ksft_test_result_skip("no page is pinned: this kernel does not count them\n");
	else
		ksft_test_result(rar_unpinned(pinned), "no page is pinned\n");
	ksft_finished();
}
