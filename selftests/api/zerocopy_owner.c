// SPDX-License-Identifier: GPL-2.0
/*
 * In place and out of place: when the memory belongs to the user again, memory that is
 * refused without any effect, files, and the limits of pinned memory.
 *
 * lib/in_topo.sh 4 zerocopy_owner [PATTERN]: only the tests whose names contain PATTERN.
 */
#include "zerocopy.h"

#define NOBODY		65534

/* ------------------------------------------------------------ when it is done */

static int wait_complete(int fd, uint64_t ops, struct rar_info *info)
{
	for (int i = 0; i < 20000; i++) {
		if (rar_info(fd, info))
			return -EIO;
		if (info->ops_complete >= ops)
			return 0;
		rar_sleep_ms(1);
	}
	return -ETIMEDOUT;
}

/*
 * Acknowledgments of rank 1 come late, so rank 0 has all its sums long before it knows that
 * rank 1 has everything. Only then does rank 0 get its memory back.
 */
static int released(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, RAR_F32, 4000);	/* a block of each rank */
	int fd = open_rank(rank);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct rar_info info;
	struct job j;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (uint64_t ops = 1; ops < 5; ops++, d.id++) {
		RAR_CHECK(!job_get(&j, &d, mode_of(ops % 2, rank, d.id), ANON, 4, 8), "memory");
		RAR_CHECK(!sync_ranks(), "meet");
		RAR_CHECK(!job_post(fd, &j, rank), "send");
		if (!rank) {
			RAR_CHECK(!wait_complete(fd, ops, &info), "not complete");
			RAR_CHECK(info.ops_released < ops, "released already: is there no netem?");
			RAR_CHECK(rar_recv(fd, &info, 4, MSG_DONTWAIT, NULL, NULL) == -EAGAIN,
				  "done when complete, not when released");
			RAR_CHECK(!poll(&pfd, 1, 0), "poll says %x", pfd.revents);
			RAR_CHECK(poll(&pfd, 1, 10000) == 1, "nobody wakes poll");
		}
		RAR_CHECK(!job_collect(fd, &j, rank), "bits");
		RAR_CHECK(!rar_info(fd, &info) && info.ops_released >= ops, "not released: %llu",
			  (unsigned long long)info.ops_released);
		job_put(&j);
	}
	return 0;
}

/* Rank 0 closes when it has its sums, while others may still need sums from it. */
static int orphan(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, RAR_F64, 100001);
	struct rar_info info;
	struct job j;
	int fd;

	(void)arg;
	for (int round = 0; round < 4; round++, ring.group += 1000) {
		fd = open_rank(rank);
		RAR_CHECK(fd >= 0, "join");
		RAR_CHECK(!job_get(&j, &d, round % 2, ANON, 12, 8), "memory");
		RAR_CHECK(!job_post(fd, &j, rank), "send");
		if (rank) {
			RAR_CHECK(!job_collect(fd, &j, rank), "bits");
		} else {
			RAR_CHECK(!wait_complete(fd, 1, &info), "not complete");
			close(fd);
			fd = -1;
		}
		job_put(&j);
		RAR_CHECK(!sync_ranks(), "meet");
		if (fd >= 0)
			close(fd);
	}
	return 0;
}

/* What rank 0 sends as AG waits for a while, and all else goes at once. */
static int delay_sums(bool on)
{
	static const char * const commands[] = {
		"qdisc add dev eth0 root handle 1: prio",
		"qdisc add dev eth0 parent 1:3 netem limit 10000 delay 200ms",
		"filter add dev eth0 parent 1: protocol ip u32 match u8 2 0xff at 29 flowid 1:3",
	};
	char command[160];
	int err = 0;

	if (!on)
		return system("tc -n rar0 qdisc del dev eth0 root");
	for (size_t i = 0; i < ARRAY_SIZE(commands) && !err; i++) {
		snprintf(command, sizeof(command), "tc -n rar0 %s", commands[i]);
		err = system(command);
	}
	return err;
}

/*
 * Rank 0 has its sums and closes, while packets with sums are under way. It writes other numbers to
 * its memory at once. No packet may bring them to rank 1.
 */
static int recalled(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, RAR_F32, 100003);
	struct rar_info info;
	struct job j;
	int fd;

	(void)arg;
	RAR_CHECK(!rar_write("/proc/sys/net/rar/linger_ms", "30000"), "linger_ms");
	for (int round = 0; round < 4; round++, ring.group += 1000) {
		fd = open_rank(rank);
		RAR_CHECK(fd >= 0, "join");
		for (d.id = 1; d.id < 4; d.id++)
			RAR_CHECK(!one_op(fd, rank, &d, round % 2, ANON, 4, 8), "before");
		RAR_CHECK(!sync_ranks(), "meet");
		RAR_CHECK(rank || !delay_sums(true), "no prio, netem or u32");
		RAR_CHECK(!sync_ranks(), "meet");
		RAR_CHECK(!job_get(&j, &d, round % 2, ANON, 12, 8), "memory");
		RAR_CHECK(!job_post(fd, &j, rank), "send");
		if (rank) {
			RAR_CHECK(!job_collect(fd, &j, rank), "bits");
		} else {
			RAR_CHECK(!wait_complete(fd, d.id, &info), "not complete");
			close(fd);
			fd = -1;
			memset(j.src.base, 0x55, rar_bytes(&d));
			memset(j.dst.base, 0x55, rar_bytes(&d));
		}
		RAR_CHECK(!sync_ranks(), "meet");
		RAR_CHECK(rank || !delay_sums(false), "qdisc");
		job_put(&j);
		if (fd >= 0)
			close(fd);
	}
	RAR_CHECK(!rar_write("/proc/sys/net/rar/linger_ms", "5000"), "linger_ms");
	return 0;
}

/* ------------------------------------------------------------ refused */

struct bad {
	int want;
	const char *what;
	const void *buf;
	size_t len;
	uint64_t dst;
	int flags;
};

static int all_bad(int fd)
{
	char *rw = map_anon(64 << 10, PROT_READ | PROT_WRITE);
	char *ro = map_anon(64 << 10, PROT_READ), *none = map_anon(PAGE, PROT_NONE);
	char *half = map_anon(2 * PAGE, PROT_READ | PROT_WRITE);
	uint64_t a = (uintptr_t)rw;
	const struct bad bad[] = {
		{ .want = EFAULT, "read-only, in place", ro, PAGE },
		{ .want = EFAULT, "no access", none, 64 },
		{ .want = EFAULT, "no access, as a source", none, 64, a },
		{ .want = EFAULT, "nothing there", (void *)PAGE, 64 },
		{ .want = EFAULT, "nothing there, as a source", (void *)PAGE, 64, a },
		{ .want = EFAULT, "an end that is not there", half, 2 * PAGE },
		{ .want = EFAULT, "an end that is not there, as a source", half, 2 * PAGE, a },
		{ .want = EFAULT, "a page and a byte", half + PAGE - 4, 8 },
		{ .want = EFAULT, "dst read-only", rw, PAGE, (uintptr_t)ro },
		{ .want = EFAULT, "dst not there", rw, PAGE, PAGE },
		{ .want = EFAULT, "the end of dst not there", rw, 2 * PAGE, (uintptr_t)half },
		{ .want = EFAULT, "dst of the kernel", rw, PAGE, 0xffff888000000000 },
		{ .want = EFAULT, "dst at the end of everything", rw, PAGE, -64ull },
		{ .want = EFAULT, "dst beyond the end", rw, PAGE, -(uint64_t)PAGE },
		{ .want = EINVAL, "dst an element after the source", rw, PAGE, a + 4 },
		{ .want = EINVAL, "dst an element before the source", rw + 4, PAGE, a },
		{ .want = EINVAL, "dst begins with the last element of the source", rw, PAGE,
		  a + PAGE - 4 },
		{ .want = EINVAL, "dst ends with the first element of the source",
		  rw + PAGE - 4, PAGE, a },
		{ .want = EINVAL, "no multiple of an element", rw, 7 },
		{ .want = EINVAL, "no multiple of an element, dst", rw, 7, a + PAGE },
		{ .want = EOPNOTSUPP, "MSG_OOB", rw, 64, 0, MSG_OOB },
	};
	struct rar_op op = {};
	int failed = 0, err;

	munmap(half + PAGE, PAGE);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int flags = MSG_ZEROCOPY + bad[i].flags;

		op = rar_op_of(RAR_I32, 0, i);
		op.dst = bad[i].dst;
		err = rar_send(fd, bad[i].buf, bad[i].len, flags, &op);
		if (err == -bad[i].want)
			continue;
		rar_log("%s: %d, not %s", bad[i].what, err, strerrorname_np(bad[i].want));
		failed++;
	}
	RAR_CHECK(only(rw, rw + (64 << 10), 0), "something was written");
	munmap(rw, 64 << 10);
	munmap(ro, 64 << 10);
	munmap(none, PAGE);
	munmap(half, PAGE);
	return failed;
}

static int bad_iovecs(int fd)
{
	char *rw = map_anon(64 << 10, PROT_READ | PROT_WRITE);
	struct iovec cut[] = { { rw, 6 }, { rw + 64, 2 } };
	struct iovec part[] = { { rw, PAGE }, { (void *)8, 8 } };
	struct iovec turned[] = { { rw + PAGE, PAGE }, { rw, PAGE } };
	struct rar_op op = rar_op_of(RAR_I32, 0, 0);

	RAR_CHECK(send_iov(fd, cut, 2, &op, MSG_ZEROCOPY) == -EINVAL, "an element in two iovecs");
	RAR_CHECK(send_iov(fd, part, 2, &op, MSG_ZEROCOPY) == -EFAULT, "the second one bad");
	op.dst = (uintptr_t)rw + 4 * PAGE;
	RAR_CHECK(send_iov(fd, cut, 2, &op, MSG_ZEROCOPY) == -EINVAL, "the same, with dst");
	RAR_CHECK(send_iov(fd, part, 2, &op, MSG_ZEROCOPY) == -EFAULT, "the same, with dst");
	op.dst = (uintptr_t)rw;
	RAR_CHECK(send_iov(fd, turned, 2, &op, MSG_ZEROCOPY) == -EINVAL,
		  "the halves of dst the other way round");
	munmap(rw, 64 << 10);
	return 0;
}

/* Source and dst may be exactly the same bytes. */
static int same_place(int fd, uint32_t rank, uint64_t id)
{
	struct rar_data d = data_of(id, RAR_F32, 5001);
	struct rar_op op;
	struct job j;

	RAR_CHECK(!job_get(&j, &d, IN_PLACE, ANON, 4, 0), "memory");
	put_data(&d, rank, j.src.base);
	op = job_op(&j);
	op.dst = (uintptr_t)j.src.base;
	RAR_CHECK(!rar_send(fd, j.src.base, rar_bytes(&d), MSG_ZEROCOPY, &op), "send");
	RAR_CHECK(!job_collect(fd, &j, rank), "bits");
	job_put(&j);
	return 0;
}

static int refused(uint32_t rank, void *arg)
{
	int fd = open_rank(rank);
	struct rar_info info;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (int round = 0; round < 3; round++) {
		if (rank == (uint32_t)round % ring.size)
			RAR_CHECK(!all_bad(fd) && !bad_iovecs(fd), "rank %u", rank);
		RAR_CHECK(!healthy(fd, rank, round), "the group is harmed");
	}
	RAR_CHECK(!same_place(fd, rank, 3), "the same place");
	RAR_CHECK(!rar_info(fd, &info) && info.ops_posted == 4, "%llu operations",
		  (unsigned long long)info.ops_posted);
	return 0;
}

/* ------------------------------------------------------------ files */

static int file_with(const struct rar_data *d, uint32_t rank)
{
	char *data = malloc(rar_bytes(d));
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fd = memfd_create("zerocopy", MFD_CLOEXEC);
	rar_fill(d, rank, 0, d->count, data);
	if (write(fd, data, rar_bytes(d)) != (ssize_t)rar_bytes(d))
		abort();
	free(data);
	return fd;
}

static bool file_has(int fd, const struct rar_data *d, uint32_t rank)
{
	char *data = malloc(rar_bytes(d));
	bool same = pread(fd, data, rar_bytes(d), 0) == (ssize_t)rar_bytes(d) &&
		    has_data(d, rank, data);

	free(data);
	return same;
}

static int private_file(int fd, uint32_t rank, uint64_t id)
{
	struct rar_data d = data_of(id, RAR_F32, 25000);
	int file = file_with(&d, rank);
	struct job j = { .d = d, .mode = IN_PLACE };
	char *map;

	map = mmap(NULL, rar_bytes(&d), PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	j.src.base = map;
	RAR_CHECK(map != MAP_FAILED && !job_send(fd, &j), "send");
	RAR_CHECK(!job_recv(fd, &j), "recv");
	RAR_CHECK(rar_verify(&d, 0, d.count, map) < 0, "bits");
	RAR_CHECK(file_has(file, &d, rank), "the file has changed");
	munmap(map, rar_bytes(&d));
	close(file);
	return 0;
}

/* A source that cannot be written to: a file, private or shared. */
static int constant(int fd, uint32_t rank, uint64_t id, int flags)
{
	struct rar_data d = data_of(id, RAR_I32, 25000);
	int file = file_with(&d, rank);
	struct job j;
	char *map;

	RAR_CHECK(!job_get(&j, &d, OUT_OF_PLACE, ANON, 0, 4), "memory");
	area_put(&j.src);
	map = mmap(NULL, rar_bytes(&d), PROT_READ, flags, file, 0);
	j.src = (struct area){ .base = map, .map = map, .memfd = file,
			       .len = rar_bytes(&d), .bytes = rar_bytes(&d) };
	RAR_CHECK(map != MAP_FAILED && !job_send(fd, &j), "send");
	RAR_CHECK(!job_collect(fd, &j, rank), "bits");
	RAR_CHECK(file_has(file, &d, rank), "the file has changed");
	job_put(&j);
	return 0;
}

/* Memory that was never touched is zero, so the sum equals the other rank's contribution. */
static int untouched(int fd, uint32_t rank, uint64_t id)
{
	struct rar_data d = data_of(id, RAR_I32, 9999);
	struct job j;

	RAR_CHECK(!job_get(&j, &d, rank ? COPY : OUT_OF_PLACE, ANON, 0, 0), "memory");
	if (!rank) {
		area_put(&j.src);
		j.src.base = map_anon(rar_bytes(&d), PROT_READ);
		RAR_CHECK(!job_send(fd, &j), "send");
	} else {
		RAR_CHECK(!job_post(fd, &j, rank), "send");
	}
	RAR_CHECK(!job_recv(fd, &j), "recv");
	RAR_CHECK(has_data(&d, 1, j.dst.base), "bits");
	job_put(&j);
	return 0;
}

static int files(uint32_t rank, void *arg)
{
	int fd = open_rank(rank);

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	RAR_CHECK(!private_file(fd, rank, 1), "private file");
	RAR_CHECK(!constant(fd, rank, 2, MAP_PRIVATE), "private, read-only");
	RAR_CHECK(!constant(fd, rank, 3, MAP_SHARED), "shared, read-only");
	RAR_CHECK(!untouched(fd, rank, 4), "untouched");
	return 0;
}

/* Spliced pages are not the user's own, so the data are copied. */
static int spliced(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(0, RAR_F32, 1000);
	int fd = open_rank(rank), file, pipes[2];
	struct iovec iov;
	off_t at = 0;
	ssize_t n;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	if (rank)
		return rar_allreduce(fd, &d, rank) || rar_allreduce(fd, &d, rank) ||
		       rar_allreduce(fd, &d, rank);
	file = file_with(&d, rank);
	n = sendfile(fd, file, &at, 4000);
	RAR_CHECK(n == 4000 && !rar_collect(fd, &d, rank), "sendfile: %zd", n);
	at = 0;
	RAR_CHECK(!pipe(pipes) && splice(file, &at, pipes[1], NULL, 4000, 0) == 4000, "pipe");
	n = splice(pipes[0], NULL, fd, NULL, 4000, 0);
	RAR_CHECK(n == 4000 && !rar_collect(fd, &d, rank), "splice: %zd", n);
	iov = (struct iovec){ map_anon(PAGE, PROT_READ | PROT_WRITE), 4000 };
	put_data(&d, rank, iov.iov_base);
	RAR_CHECK(vmsplice(pipes[1], &iov, 1, 0) == 4000, "vmsplice");
	n = splice(pipes[0], NULL, fd, NULL, 4000, 0);
	RAR_CHECK(n == 4000 && !rar_collect(fd, &d, rank), "splice: %zd", n);
	RAR_CHECK(has_data(&d, rank, iov.iov_base), "the user's page has changed");
	return 0;
}

/* ------------------------------------------------------------ limits */

/* net.rar.mem does not count memory of the user. */
static int no_mem(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, RAR_F32, 1 << 18);
	int fd = open_rank(rank), err;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	RAR_CHECK(!rar_write("/proc/sys/net/rar/mem", "65536"), "sysctl");
	RAR_CHECK(rar_post(fd, &d, rank) == -EMSGSIZE, "copied all the same");
	err = one_op(fd, rank, &d, IN_PLACE, ANON, 4, 0);
	d.id++;
	err = err ?: one_op(fd, rank, &d, OUT_OF_PLACE, ANON, 4, 8);
	rar_write("/proc/sys/net/rar/mem", "1000000000");
	RAR_CHECK(!err, "in place");
	return healthy(fd, rank, 3);
}

/* How the bits of the data arrive does not matter here, only that they take memory. */
static int many_pieces(int fd)
{
	enum { PIECES = 1024, STEP = 8 };
	static struct iovec iov[PIECES];
	struct rar_op op = rar_op_of(RAR_I32, 4 << 20, 0);
	char *buf = map_anon(1 << 20, PROT_READ | PROT_WRITE), *at = buf;
	struct rar_reg reg = { .addr = (uintptr_t)buf, .len = 1 << 20 };
	int err = 0, calls;

	RAR_CHECK(!setsockopt(fd, SOL_RAR, RAR_REG, &reg, sizeof(reg)), "register");
	for (calls = 0; calls < 64 && !err; calls++) {
		for (int i = 0; i < PIECES; i++, at += STEP)
			iov[i] = (struct iovec){ at, 4 };
		err = send_iov(fd, iov, PIECES, calls ? NULL : &op, MSG_ZEROCOPY | MSG_MORE);
	}
	RAR_CHECK(err == -ENOBUFS && calls > 1, "%d calls with pieces: %s", calls,
		  strerrorname_np(-err));
	RAR_CHECK(!setsockopt(fd, SOL_RAR, RAR_UNREG, &reg, sizeof(reg)), "unregister");
	munmap(buf, 1 << 20);
	return 0;
}

/* A record of which only the first piece ever comes. */
static int begin_long(int fd, char *buf, uint64_t bytes)
{
	struct rar_op op = rar_op_of(RAR_I32, bytes, 0);

	return rar_send(fd, buf, PAGE, MSG_ZEROCOPY | MSG_MORE | MSG_DONTWAIT, &op);
}

/*
 * In place, the kernel needs memory for bitmaps and for pieces: as much as it likes if the same few
 * pages are named often. It counts, of a record in several calls from the first call on.
 */
static int charged(uint32_t rank, void *arg)
{
	struct rar_ring alone = ring;
	char *buf = map_anon(2 * PAGE, PROT_READ | PROT_WRITE);
	uint64_t bytes = 1ull << 40;
	int fds[2], err, err2;

	(void)arg;
	(void)rank;
	alone.size = 1;
	for (int i = 0; i < 2; i++, alone.group++) {
		fds[i] = rar_open(&alone, 0);
		RAR_CHECK(fds[i] >= 0, "join");
	}
	RAR_CHECK(!rar_write("/proc/sys/net/rar/mem", "1000000"), "sysctl");
	/* EAGAIN: what sockets that were closed before this had is given back soon. */
	for (int i = 0; i < 100; i++) {
		while ((err = begin_long(fds[0], buf, bytes)) == -EMSGSIZE && bytes > 1 << 20)
			bytes /= 2;
		if (err != -EAGAIN)
			break;
		rar_sleep_ms(20);
	}
	err2 = begin_long(fds[1], buf, bytes);
	rar_write("/proc/sys/net/rar/mem", "1000000000");
	RAR_CHECK(!err && err2 == -EAGAIN, "of %llu bytes: %s, then %s",
		  (unsigned long long)bytes, strerrorname_np(-err), strerrorname_np(-err2));
	close(fds[0]);
	close(fds[1]);
	munmap(buf, 2 * PAGE);
	return 0;
}

static int pieces(uint32_t rank, void *arg)
{
	int fd = open_rank(rank), err;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	RAR_CHECK(!rar_write("/proc/sys/net/rar/mem", "1000000"), "sysctl");
	err = many_pieces(fd);
	rar_write("/proc/sys/net/rar/mem", "1000000000");
	return err;
}

/* Memory that would hold two parts of the sums is refused, and memory beside it is not. */
static int repeated(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, RAR_I32, 3 * 256);
	struct rar_op op = rar_op_of(RAR_I32, rar_bytes(&d), 1);
	int fd = open_rank(rank);
	struct iovec iov[3];
	struct job j;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	RAR_CHECK(!job_get(&j, &d, IN_PLACE, ANON, 0, 0), "memory");
	for (int i = 0; i < 3; i++)
		iov[i] = (struct iovec){ j.src.base + 1024 * i, 1024 };
	iov[2].iov_base = j.src.base;
	RAR_CHECK(send_iov(fd, iov, 3, &op, MSG_ZEROCOPY) == -EINVAL, "twice");
	iov[2].iov_base = j.src.base + 2044;
	RAR_CHECK(send_iov(fd, iov, 3, &op, MSG_ZEROCOPY) == -EINVAL, "an element twice");
	iov[0].iov_base = j.src.base + 2048;
	iov[2].iov_base = j.src.base;
	RAR_CHECK(!send_iov(fd, iov, 3, &op, MSG_ZEROCOPY), "backwards");
	RAR_CHECK(!job_recv(fd, &j), "recv");
	job_put(&j);
	return healthy(fd, rank, 2);
}

/* Limit for all of a user's sockets. Rank 1 copies, so rank 0 has all of it. */
#define MEMLOCK		(1 << 20)
#define MOST		((MEMLOCK / 4096 - 2) * 4096 / 4)	/* elements */

static int be_nobody(void)
{
	struct rlimit limit = { MEMLOCK, MEMLOCK };

	return setrlimit(RLIMIT_MEMLOCK, &limit) || setresgid(NOBODY, NOBODY, NOBODY) ||
	       setresuid(NOBODY, NOBODY, NOBODY) ? -errno : 0;
}

static int most_of_it(int fd, uint32_t rank, uint64_t id)
{
	struct rar_data d = data_of(id, RAR_I32, MOST);

	return one_op(fd, rank, &d, rank ? COPY : IN_PLACE, ANON, 0, 0);
}

/* Refused calls, too long or in the middle of a record, are not charged. */
static int refused_memlock(int fd)
{
	char *buf = map_anon(2 * MEMLOCK, PROT_READ | PROT_WRITE);
	struct rar_op op = rar_op_of(RAR_I32, MOST * 4, 0);
	int err = 0;

	RAR_CHECK(rar_send(fd, buf, 2 * MEMLOCK, MSG_ZEROCOPY, NULL) == -ENOBUFS, "too much");
	RAR_CHECK(rar_send(fd, buf, MEMLOCK, MSG_ZEROCOPY, NULL) == -ENOBUFS, "too much");
	op.dst = (uintptr_t)buf + MEMLOCK;
	RAR_CHECK(rar_send(fd, buf, MOST * 4, MSG_ZEROCOPY, &op) == -ENOBUFS, "source and dst");
	for (int i = 0; i < 1000 && !err; i++)
		if (rar_send(fd, (void *)PAGE, 16384, MSG_ZEROCOPY, NULL) != -EFAULT)
			err = -EPROTO;
	RAR_CHECK(!err, "charged for nothing");
	munmap(buf, 2 * MEMLOCK);
	return 0;
}

/* A call of a record fails for lack of memory; later the record goes on. */
static int more_memlock(int fd, uint32_t rank, uint64_t id)
{
	struct rar_data d = data_of(id, RAR_I32, MOST - 2048);
	struct rar_op op;
	struct job j;

	RAR_CHECK(!job_get(&j, &d, rank ? COPY : IN_PLACE, ANON, 0, 0), "memory");
	put_data(&d, rank, j.src.base);
	op = job_op(&j);
	if (rank) {
		RAR_CHECK(!job_send(fd, &j), "send");
	} else {
		RAR_CHECK(!rar_send(fd, j.src.base, 4096, MSG_MORE | MSG_ZEROCOPY, &op), "first");
		for (int i = 0; i < 500; i++)
			RAR_CHECK(rar_send(fd, (void *)8, 4096, MSG_MORE | MSG_ZEROCOPY, NULL) ==
				  -EFAULT, "charged for nothing, %d", i);
		RAR_CHECK(!rar_send(fd, j.src.base + 4096, rar_bytes(&d) - 4096, MSG_ZEROCOPY,
				    NULL), "last");
	}
	RAR_CHECK(!job_collect(fd, &j, rank), "bits");
	job_put(&j);
	return 0;
}

/* A closed socket's charge is given back, perhaps not at once. */
static int closed_memlock(void)
{
	struct rar_ring alone = ring;
	struct rar_op op = rar_op_of(RAR_I32, MOST * 4, 0);
	char *buf = map_anon(MEMLOCK, PROT_READ | PROT_WRITE);
	int fd, err = -ENOBUFS;

	alone.size = 1;
	alone.group += 1000;
	for (int round = 0; round < 3; round++, err = -ENOBUFS) {
		fd = rar_open(&alone, 0);
		RAR_CHECK(fd >= 0, "join");
		for (int ms = 0; ms < 5000 && err == -ENOBUFS; ms += 10, rar_sleep_ms(10))
			err = rar_send(fd, buf, MOST * 2, MSG_ZEROCOPY | (round ? MSG_MORE : 0),
				       round ? &op : NULL);
		RAR_CHECK(!err, "round %d: %s", round, strerrorname_np(-err));
		RAR_CHECK(rar_send(fd, buf, MOST * 4, MSG_ZEROCOPY, NULL) ==
			  (round ? -EINVAL : -ENOBUFS), "the rest");
		close(fd);
	}
	munmap(buf, MEMLOCK);
	return 0;
}

static int memlock(uint32_t rank, void *arg)
{
	int fd, err = be_nobody();
	uint64_t id = 1;

	(void)arg;
	RAR_CHECK(!err, "%s", strerrorname_np(-err));
	fd = open_rank(rank);
	RAR_CHECK(fd >= 0, "join");
	RAR_CHECK(rank || !refused_memlock(fd), "refused");
	for (; id < (slow() ? 6 : 20); id++)
		RAR_CHECK(!most_of_it(fd, rank, id), "charged after the end");
	RAR_CHECK(!more_memlock(fd, rank, id++), "MSG_MORE");
	RAR_CHECK(!most_of_it(fd, rank, id++), "charged after the end");
	if (!rank)
		RAR_CHECK(!closed_memlock(), "close");
	for (int i = 0; !rank && i < 500; i++) {	/* the last close takes a moment */
		char *buf = map_anon(MEMLOCK, PROT_READ | PROT_WRITE);

		err = rar_send(fd, buf, MOST * 4, MSG_ZEROCOPY, NULL);
		munmap(buf, MEMLOCK);
		if (err != -ENOBUFS)
			break;
		rar_sleep_ms(10);
	}
	RAR_CHECK(!err, "%s", strerrorname_np(-err));
	return 0;
}

/* ------------------------------------------------------------ all tests */

static const struct test tests[] = {
	{ .name = "done is released, not complete", 2, released, NULL, "1 delay 300ms" },
	{ .name = "closed when complete: the others have their sums", 3, orphan, NULL, "delay 30ms" },
	{ .name = "closed when complete: its memory is read no more", 2, recalled },
	{ .name = "what is refused leaves no trace", 2, refused },
	{ .name = "private files, constants, untouched memory", 2, files },
	{ .name = "sendfile, splice, vmsplice: copied", 2, spliced },
	{ .name = "net.rar.mem does not count", 2, no_mem },
	{ .name = "net.rar.mem counts bitmaps", 1, charged },
	{ .name = "net.rar.mem counts pieces", 1, pieces },
	{ .name = "the same memory twice", 2, repeated },
	{ .name = "RLIMIT_MEMLOCK", 2, memlock },
};

int main(int argc, char **argv)
{
	return zerocopy_main("zerocopy_owner", tests, ARRAY_SIZE(tests), argc > 1 ? argv[1] : NULL);
}
