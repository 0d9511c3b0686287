// SPDX-License-Identifier: GPL-2.0
/*
 * In place (MSG_ZEROCOPY) and out of place (RAR_OP.dst): every size, alignment
 * and kind of memory, each rank with a mode of its own, every bit compared; what
 * must be refused without a trace; memory that goes away while it is reduced; and
 * whose memory it is, when. In the end no page may be pinned.
 *
 * lib/in_topo.sh 4 zerocopy [PATTERN]: the ranks live in rar0 ... rar3. Tests whose
 * name contains PATTERN only.
 */
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
#define NOBODY		65534
#define IN_FLIGHT	16
#define MAX_IOV		1024	/* UIO_MAXIOV */

static struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "rar" };

struct shared {
	struct rar_barrier barrier;
	atomic_bool stop;
	bool hugetlb;
};

static struct shared *shared;

static int sync_ranks(void)
{
	return rar_barrier(&shared->barrier, ring.size, SYNC_S);
}

/* Emulated, or with all checkers on. */
static bool slow(void)
{
	return strcmp(getenv("RAR_KERNEL") ?: "uml", "uml");
}

/* ------------------------------------------------------------ memory */

enum kind {
	ANON,
	SHARED,			/* of a memfd */
	SCRAMBLED,		/* the same, each page from elsewhere in the file */
	TLB,			/* MAP_HUGETLB */
	THP,			/* huge if the kernel wants */
};

/* @bytes at @base, with GUARD before and behind it. */
struct area {
	char *map, *base;
	size_t len, bytes;
	int memfd;
};

static size_t page_up(size_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

/*
 * Neighbours in memory are never neighbours in the file, and so, most likely, not in
 * the machine's memory.
 */
static int scramble(struct area *a)
{
	size_t pages = a->len / PAGE;

	for (size_t i = 0; i < pages; i++)
		if (mmap(a->map + i * PAGE, PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, a->memfd,
			 (pages - 1 - i) * PAGE) == MAP_FAILED)
			return -errno;
	return 0;
}

static int area_map(struct area *a, enum kind kind)
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
	/* A huge page begins where a multiple of its size lies. */
	len = -(unsigned long)a->map % HUGE;
	if (len)
		munmap(a->map, len);
	if (len != HUGE)
		munmap(a->map + len + a->len, HUGE - len);
	a->map += len;
	madvise(a->map, a->len, MADV_HUGEPAGE);
	return 0;
}

/* Begins @off bytes behind the border of a page. */
static int area_get(struct area *a, enum kind of, size_t bytes, size_t off)
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

static void area_put(struct area *a)
{
	if (a->map)
		munmap(a->map, a->len);
	if (a->memfd >= 0)
		close(a->memfd);
	a->map = NULL;
	a->memfd = -1;
}

static bool only(const char *p, const char *end, char byte)
{
	while (p < end && *p == byte)
		p++;
	return p == end;
}

static bool area_guarded(const struct area *a)
{
	return only(a->map, a->base, (char)GUARD) &&
	       only(a->base + a->bytes, a->map + a->len, (char)GUARD);
}

/* Data are made where they are aligned: C wants that. */
static void put_data(const struct rar_data *d, uint32_t rank, char *to)
{
	void *tmp = malloc(rar_bytes(d) + 1);

	rar_fill(d, rank, 0, d->count, tmp);
	memcpy(to, tmp, rar_bytes(d));
	free(tmp);
}

static bool has_data(const struct rar_data *d, uint32_t rank, const char *at)
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
	struct area src, dst;		/* the same in place */
};

static int job_get(struct job *j, const struct rar_data *d, enum mode mode,
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

static void job_put(struct job *j)
{
	area_put(&j->src);
	if (j->mode != IN_PLACE)
		area_put(&j->dst);
}

static struct rar_op job_op(const struct job *j)
{
	struct rar_op op = rar_op_of(j->d.dtype, rar_bytes(&j->d), j->d.id);

	if (j->mode == OUT_OF_PLACE)
		op.dst = (uintptr_t)j->dst.base;
	return op;
}

static int job_flags(const struct job *j)
{
	return j->mode == COPY ? 0 : MSG_ZEROCOPY;
}

static int job_send(int fd, const struct job *j)
{
	struct rar_op op = job_op(j);

	return rar_send(fd, j->src.base, rar_bytes(&j->d), job_flags(j), &op);
}

static int job_post(int fd, struct job *j, uint32_t rank)
{
	put_data(&j->d, rank, j->src.base);
	return job_send(fd, j);
}

/* What recv() says at the end of it. */
static int job_recv(int fd, struct job *j)
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

static int job_check(const struct job *j, uint32_t rank)
{
	if (rar_verify(&j->d, 0, j->d.count, j->dst.base) >= 0)
		return -EBADE;
	if (j->mode != IN_PLACE && !has_data(&j->d, rank, j->src.base))
		return -EROFS;		/* the source was written to */
	return area_guarded(&j->src) && area_guarded(&j->dst) ? 0 : -EFBIG;
}

static int job_collect(int fd, struct job *j, uint32_t rank)
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

static int one_op(int fd, uint32_t rank, const struct rar_data *d, enum mode mode,
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

/* All ranks in @mode; MODES: each in another one. */
static enum mode mode_of(enum mode mode, uint32_t rank, uint64_t id)
{
	return mode < MODES ? mode : (rank + id) % MODES;
}

static struct rar_data data_of(uint64_t id, uint32_t dtype, uint64_t count)
{
	return (struct rar_data){
		.id = id, .size = ring.size, .dtype = dtype, .count = count,
	};
}

/* A small operation shows that nothing was left behind. */
static int healthy(int fd, uint32_t rank, uint64_t id)
{
	struct rar_data d = data_of(id, RAR_I32, 1001);

	return one_op(fd, rank, &d, mode_of(MODES, rank, id), ANON, 4, 8);
}

static int open_rank(uint32_t rank)
{
	int fd = rar_open(&ring, rank);

	if (fd < 0)
		rar_log("rank %u: join: %s", rank, strerrorname_np(-fd));
	return fd;
}

/* ------------------------------------------------------------ sizes */

static const uint32_t offsets[] = { 0, 1, 3, 4, 64, 4095 };

/* Every type and size; all ranks in one mode, then each in its own. */
static int sizes(uint32_t rank, void *arg)
{
	uint64_t bytes[] = { 0, 8, 999 * 8, 64 << 10, 1 << 20 }, id = 0;
	int fd = open_rank(rank);
	struct rar_data d;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (uint32_t t = RAR_F32; t <= RAR_I64; t++)
		for (uint32_t s = 0; s < ARRAY_SIZE(bytes); s++)
			for (enum mode m = IN_PLACE; m <= MODES; m++, id++) {
				if (m == COPY || (slow() && m != id % 4))
					continue;
				d = data_of(id, t, bytes[s] / rar_element(t));
				RAR_CHECK(!one_op(fd, rank, &d, mode_of(m, rank, id), id % 3,
						  offsets[id % 6], offsets[id / 2 % 6]), "bits");
			}
	for (enum mode m = IN_PLACE; m <= MODES; m++, id++) {
		d = data_of(id, m % 2 ? RAR_F32 : RAR_I64, (5 << 20) / 8 + 77);
		if (m == COPY || (slow() && (m != MODES || ring.size != 2)))
			continue;
		RAR_CHECK(!one_op(fd, rank, &d, mode_of(m, rank, id), SCRAMBLED, 3, 4095), "bits");
	}
	return 0;
}

/*
 * Elements that lie on two pages which do not follow one another in the machine's
 * memory, of the contribution, of the place of the sums, or of both.
 */
static int straddle(uint32_t rank, void *arg)
{
	static const uint32_t off[] = { 1, 3, 4, 4095, 4094, 4093, 4089, 4092 };
	int fd = open_rank(rank);
	struct rar_data d;
	uint64_t id = 0;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (uint32_t t = RAR_F32; t <= RAR_I64; t++)
		for (uint32_t a = 0; a < ARRAY_SIZE(off); a++, id++) {
			enum mode m = mode_of(id % 4, rank, id);

			d = data_of(id, t, 7001 + a);
			RAR_CHECK(!one_op(fd, rank, &d, m, SCRAMBLED, off[a],
					  off[(a * 3 + t) % ARRAY_SIZE(off)]), "bits");
		}
	/* The only element there is */
	for (uint32_t t = RAR_F32; t <= RAR_I64; t++, id++) {
		d = data_of(id, t, 1);
		RAR_CHECK(!one_op(fd, rank, &d, mode_of(IN_PLACE, rank, id), SCRAMBLED,
				  4093, 4095), "bits");
		d.id = ++id;
		RAR_CHECK(!one_op(fd, rank, &d, OUT_OF_PLACE, SCRAMBLED, 4095, 4094), "bits");
	}
	return 0;
}

static int huge_pages(uint32_t rank, void *arg)
{
	int fd = open_rank(rank);
	struct rar_data d;
	enum kind kind;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (uint64_t id = 0; id < 4; id++) {
		d = data_of(id, RAR_F32, (3 << 20) / 4 + id);
		kind = shared->hugetlb && id < 2 ? TLB : THP;
		/* Two areas of two or three of them, and there are not many. */
		RAR_CHECK(!one_op(fd, rank, &d, rank ? COPY : id % 2, rank ? ANON : kind,
				  offsets[id], 4095), "bits");
	}
	return 0;
}

/* ------------------------------------------------------------ many iovecs */

struct pieces {
	struct iovec iov[MAX_IOV];
	char *data;			/* as one */
	char *room;
	size_t room_len;
};

/* Odd numbers of elements at any alignment, in an order of their own; some empty. */
static uint64_t pieces_get(struct pieces *p, uint32_t n, size_t element, uint64_t seed)
{
	uint64_t at = 0, count = 0;

	p->room_len = page_up(n * (64 * element + 16)) + PAGE;
	p->room = mmap(NULL, p->room_len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(p->room, GUARD, p->room_len);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t elements = rar_random(&seed) % 32 * 2 + 1;
		uint32_t slot = (i * 7u + 3) % n;	/* 7 does not divide 1024 or 64 */

		if (i % 50 == 49 || i == n - 1)
			elements = 0;
		at = slot * (64 * element + 16) + rar_random(&seed) % 8;
		p->iov[i] = (struct iovec){ p->room + at, elements * element };
		count += elements;
	}
	p->data = malloc(count * element);
	return count;
}

static void pieces_copy(struct pieces *p, uint32_t n, bool in)
{
	char *data = p->data;

	for (uint32_t i = 0; i < n; i++) {
		if (in)
			memcpy(p->iov[i].iov_base, data, p->iov[i].iov_len);
		else
			memcpy(data, p->iov[i].iov_base, p->iov[i].iov_len);
		data += p->iov[i].iov_len;
	}
}

/* All that is no piece is as it was. */
static bool pieces_guarded(struct pieces *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		memset(p->iov[i].iov_base, GUARD, p->iov[i].iov_len);
	return only(p->room, p->room + p->room_len, (char)GUARD);
}

static void pieces_put(struct pieces *p)
{
	munmap(p->room, p->room_len);
	free(p->data);
}

static int send_iov(int fd, struct iovec *iov, uint32_t n, const struct rar_op *op, int flags)
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

static int one_iov_op(int fd, uint32_t rank, uint32_t n, uint32_t dtype, uint64_t id,
		      enum mode mode)
{
	struct pieces p;
	/* The same pieces on all ranks, so that they agree about the count. */
	uint64_t count = pieces_get(&p, n, rar_element(dtype), rar_seed + id);
	struct rar_data d = data_of(id, dtype, count);
	struct rar_op op = rar_op_of(dtype, 0, id);
	struct job j;
	int err;

	RAR_CHECK(!job_get(&j, &d, mode == IN_PLACE ? COPY : mode, SCRAMBLED, 1, id % 8),
		  "memory");
	rar_fill(&d, rank, 0, count, p.data);
	pieces_copy(&p, n, true);
	put_data(&d, rank, j.src.base);		/* only to be compared later */
	if (mode == OUT_OF_PLACE)
		op.dst = (uintptr_t)j.dst.base;
	err = send_iov(fd, p.iov, n, &op, mode == COPY ? 0 : MSG_ZEROCOPY);
	RAR_CHECK(!err, "send: %s", strerrorname_np(-err));
	j.mode = mode;
	err = job_recv(fd, &j);
	RAR_CHECK(!err, "recv: %s", strerrorname_np(-err));
	pieces_copy(&p, n, false);
	if (mode == IN_PLACE)
		memcpy(j.dst.base, p.data, rar_bytes(&d));
	else
		RAR_CHECK(has_data(&d, rank, p.data), "the source has changed");
	j.mode = COPY;
	err = job_check(&j, rank);
	RAR_CHECK(!err, "%s: %s", mode_names[mode], strerrorname_np(-err));
	RAR_CHECK(pieces_guarded(&p, n), "written between the pieces");
	pieces_put(&p);
	job_put(&j);
	return 0;
}

static int iovecs(uint32_t rank, void *arg)
{
	int fd = open_rank(rank);
	uint64_t id = 0;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (uint32_t t = RAR_F32; t <= RAR_I64; t++)
		for (enum mode m = IN_PLACE; m <= MODES; m++, id++)
			RAR_CHECK(!one_iov_op(fd, rank, m % 2 ? 64 : MAX_IOV, t, id,
					      mode_of(m, rank, id)), "rank %u", rank);
	return 0;
}

/* ------------------------------------------------------------ very small pieces */

#define TINY	(16 * MAX_IOV)		/* pieces of an element each */

static int tiny_send(int fd, char *base)
{
	struct rar_op op = rar_op_of(RAR_I32, 4 * TINY, 1);
	struct iovec iov[MAX_IOV];
	int err = 0;

	for (uint32_t n = 0; n < TINY && !err; n += MAX_IOV) {
		for (uint32_t i = 0; i < MAX_IOV; i++)
			iov[i] = (struct iovec){ base + 4 * (n + i), 4 };
		err = send_iov(fd, iov, MAX_IOV, n ? NULL : &op,
			       MSG_ZEROCOPY | (n + MAX_IOV < TINY ? MSG_MORE : 0));
	}
	return err;
}

/* The work for a packet is bounded: it brings few pieces, so it is no superpacket. */
static int tiny_pieces(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, RAR_I32, TINY);
	int64_t packets = rar_counter("RarRxIngress"), chunks = rar_counter("RarRxData");
	int fd = open_rank(rank), err;
	struct job j;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	RAR_CHECK(!job_get(&j, &d, IN_PLACE, ANON, 4, 0), "memory");
	put_data(&d, rank, j.src.base);
	err = tiny_send(fd, j.src.base);
	RAR_CHECK(!err, "send: %s", strerrorname_np(-err));
	RAR_CHECK(!job_collect(fd, &j, rank), "bits");
	packets = rar_counter("RarRxIngress") - packets;
	chunks = rar_counter("RarRxData") - chunks;
	RAR_CHECK(packets >= chunks, "%lld packets brought %lld chunks",
		  (long long)packets, (long long)chunks);
	job_put(&j);
	return 0;
}

/* ------------------------------------------------------------ in several calls */

#define MORE_BYTES	300000
#define MORE_FIRST	100000
#define MORE_SECOND	65536

/* Between the calls of a record some that fail: what came before them counts. */
static int more_calls(int fd, struct job *j, int mode_flags)
{
	struct rar_op op = job_op(j);
	char *p = j->src.base;
	struct iovec part[] = { { p + MORE_FIRST, 4000 }, { (void *)8, 4000 } };
	struct msghdr msg = { .msg_iov = part, .msg_iovlen = 2 };

	/* Copied pieces may cut elements. */
	if (mode_flags)
		RAR_CHECK(rar_send(fd, p, MORE_FIRST + 2, MSG_MORE | mode_flags, &op) == -EINVAL,
			  "an element cut");
	RAR_CHECK(!rar_send(fd, p, MORE_FIRST, MSG_MORE | mode_flags, &op), "first");
	RAR_CHECK(rar_send(fd, p + MORE_FIRST, 4, MSG_MORE | (mode_flags ^ MSG_ZEROCOPY), NULL) ==
		  -EINVAL, "in another mode");
	RAR_CHECK(rar_send(fd, (void *)8, 4000, MSG_MORE | mode_flags, NULL) == -EFAULT,
		  "bad pointer");
	RAR_CHECK(sendmsg(fd, &msg, MSG_MORE | mode_flags) < 0 && errno == EFAULT,
		  "the second one bad");
	RAR_CHECK(!rar_send(fd, p + MORE_FIRST, MORE_SECOND, MSG_MORE | mode_flags, NULL),
		  "second");
	p += MORE_FIRST + MORE_SECOND;
	RAR_CHECK(rar_send(fd, p, MORE_BYTES, mode_flags, NULL) == -EINVAL, "too long");
	RAR_CHECK(rar_send(fd, p, 4, mode_flags, NULL) == -EINVAL, "too short");
	RAR_CHECK(rar_send(fd, p, 4, mode_flags ^ MSG_ZEROCOPY, NULL) == -EINVAL,
		  "ends in another mode");
	if (j->mode == OUT_OF_PLACE)
		RAR_CHECK(rar_send(fd, j->dst.base, MORE_BYTES - MORE_FIRST - MORE_SECOND,
				   mode_flags, NULL) == -EINVAL, "the source overlaps");
	RAR_CHECK(!rar_send(fd, p, MORE_BYTES - MORE_FIRST - MORE_SECOND, mode_flags, NULL),
		  "last");
	return 0;
}

static int more(uint32_t rank, void *arg)
{
	struct rar_data d = data_of(1, RAR_F32, MORE_BYTES / 4);
	int fd = open_rank(rank), err;
	struct job j;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (; d.id < 8; d.id++) {
		enum mode m = mode_of(MODES, rank, d.id);

		RAR_CHECK(!job_get(&j, &d, m, SCRAMBLED, 4 * d.id, 3), "memory");
		put_data(&d, rank, j.src.base);
		/* One rank begins with an error; the others need not. */
		if (rank == d.id % ring.size) {
			struct rar_op op = job_op(&j);

			RAR_CHECK(rar_send(fd, (void *)8, MORE_FIRST, MSG_MORE | job_flags(&j),
					   &op) == -EFAULT, "bad pointer at first");
		}
		err = rank % 2 ? job_send(fd, &j) : more_calls(fd, &j, job_flags(&j));
		RAR_CHECK(!err, "rank %u: %s", rank, mode_names[m]);
		RAR_CHECK(!job_collect(fd, &j, rank), "%s", mode_names[m]);
		job_put(&j);
	}
	return 0;
}

/* ------------------------------------------------------------ many in flight */

struct mix {
	const char *super_chunks;
	uint32_t ops, max_bytes;
};

static struct rar_data mix_op(uint64_t id, uint32_t max_bytes)
{
	uint64_t random = rar_seed + id;
	uint64_t bytes = rar_random(&random) % max_bytes;

	if (id % 4)
		bytes %= 5000;
	return data_of(id, RAR_F32 + id % 4, bytes / rar_element(RAR_F32 + id % 4));
}

/* Random sizes, modes and depths, each rank its own. */
static int mixed(uint32_t rank, void *arg)
{
	uint64_t posted = 0, collected = 0, random = rar_seed + rank, depth = 1;
	const struct mix *mix = arg;
	uint32_t ops = slow() ? mix->ops / 4 : mix->ops;
	struct job jobs[IN_FLIGHT], *j;
	struct rar_data d;
	int fd, err;

	err = rar_write("/proc/sys/net/rar/super_chunks", mix->super_chunks);
	RAR_CHECK(!err, "super_chunks: %s", strerrorname_np(-err));
	fd = open_rank(rank);
	RAR_CHECK(fd >= 0, "join");
	while (collected < ops) {
		if (posted < ops && posted - collected < depth) {
			j = &jobs[posted % IN_FLIGHT];
			d = mix_op(posted++, mix->max_bytes);
			RAR_CHECK(!job_get(j, &d, rar_random(&random) % MODES,
					   rar_random(&random) % 3,
					   rar_random(&random) % PAGE,
					   rar_random(&random) % PAGE), "memory");
			err = job_post(fd, j, rank);
			RAR_CHECK(!err, "%s: %s", mode_names[j->mode], strerrorname_np(-err));
			continue;
		}
		j = &jobs[collected++ % IN_FLIGHT];
		RAR_CHECK(!job_collect(fd, j, rank), "bits");
		job_put(j);
		depth = 1 + rar_random(&random) % IN_FLIGHT;
	}
	RAR_CHECK(!sync_ranks(), "meet");
	rar_write("/proc/sys/net/rar/super_chunks", "64");	/* the default */
	return 0;
}

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
 * What rank 1 says comes late. So rank 0 has all its sums long before it knows that
 * rank 1 has everything: only then it may have its memory back.
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

/* Rank 0 closes when it has its sums, which the others may still need from it. */
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

/* ------------------------------------------------------------ refused */

struct bad {
	int want;
	const char *what;
	const void *buf;
	size_t len;
	uint64_t dst;
	int flags;
};

static void *map_anon(size_t len, int prot)
{
	return mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int all_bad(int fd)
{
	char *rw = map_anon(64 << 10, PROT_READ | PROT_WRITE);
	char *ro = map_anon(64 << 10, PROT_READ), *none = map_anon(PAGE, PROT_NONE);
	char *half = map_anon(2 * PAGE, PROT_READ | PROT_WRITE);
	uint64_t a = (uintptr_t)rw;
	const struct bad bad[] = {
		{ EFAULT, "read-only, in place", ro, PAGE },
		{ EFAULT, "no access", none, 64 },
		{ EFAULT, "no access, as a source", none, 64, a },
		{ EFAULT, "nothing there", (void *)PAGE, 64 },
		{ EFAULT, "nothing there, as a source", (void *)PAGE, 64, a },
		{ EFAULT, "an end that is not there", half, 2 * PAGE },
		{ EFAULT, "an end that is not there, as a source", half, 2 * PAGE, a },
		{ EFAULT, "a page and a byte", half + PAGE - 4, 8 },
		{ EFAULT, "dst read-only", rw, PAGE, (uintptr_t)ro },
		{ EFAULT, "dst not there", rw, PAGE, PAGE },
		{ EFAULT, "the end of dst not there", rw, 2 * PAGE, (uintptr_t)half },
		{ EFAULT, "dst of the kernel", rw, PAGE, 0xffff888000000000 },
		{ EFAULT, "dst at the end of everything", rw, PAGE, -64ull },
		{ EFAULT, "dst beyond the end", rw, PAGE, -(uint64_t)PAGE },
		{ EINVAL, "dst without MSG_ZEROCOPY", rw, 64, a + PAGE, -MSG_ZEROCOPY },
		{ EINVAL, "dst an element behind", rw, PAGE, a + 4 },
		{ EINVAL, "dst an element before", rw + 4, PAGE, a },
		{ EINVAL, "the last element of one the first of the other", rw, PAGE,
		  a + PAGE - 4 },
		{ EINVAL, "and the other way round", rw + PAGE - 4, PAGE, a },
		{ EINVAL, "no multiple of an element", rw, 7 },
		{ EINVAL, "no multiple of an element, dst", rw, 7, a + PAGE },
		{ EOPNOTSUPP, "MSG_OOB", rw, 64, 0, MSG_OOB },
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

/* The source may be where the sums go: byte for byte. */
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

/* Memory that was never touched is zero: the sum of two is the other one. */
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

/* Pages that are not the user's own: the data are copied, as without zero copy. */
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

/* net.rar.mem is for memory of the kernel. */
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

/* 1 MiB for all of a user's sockets; rank 1 copies, so rank 0 has it alone. */
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

/* Calls that are refused, too long or in the middle of a record, are not charged. */
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

/* A record that cannot go on for a while, and then can. */
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

/* What a closed socket held is given back, if not at once. */
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

/* ------------------------------------------------------------ memory goes away */

/* Rank 0 does something to its memory between its send and those of the others. */
struct trick {
	const char *name;
	int (*fn)(struct job *j);
	enum kind kind;
	bool lost;			/* it does not see its sums */
};

static int trick_munmap(struct job *j)
{
	munmap(j->dst.map, j->dst.len);
	/* Something else at the same place is not what was pinned. */
	return mmap(j->dst.map, j->dst.len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
}

static int trick_mremap(struct job *j)
{
	size_t off = j->dst.base - j->dst.map;
	char *to = mremap(j->dst.map, j->dst.len, j->dst.len, MREMAP_MAYMOVE | MREMAP_FIXED,
			  map_anon(j->dst.len, PROT_NONE));

	if (to == MAP_FAILED)
		return -errno;
	j->dst.map = to;
	j->dst.base = to + off;
	if (j->mode == IN_PLACE)
		j->src = j->dst;
	return 0;
}

static int trick_truncate(struct job *j)
{
	return ftruncate(j->dst.memfd, 0) || ftruncate(j->dst.memfd, j->dst.len);
}

/* The child gets copies, and the parent's pages stay the parent's. */
static int trick_fork(struct job *j)
{
	pid_t pid = fork();

	if (!pid) {
		memset(j->src.base, 0xee, j->src.bytes);
		memset(j->dst.base, 0xee, j->dst.bytes);
		_exit(0);
	}
	return rar_reap(pid, rar_now_us() + 10000000);
}

static int trick_readonly(struct job *j)
{
	return mprotect(j->dst.map, j->dst.len, PROT_READ);
}

static int trick_dontneed(struct job *j)
{
	return madvise(j->dst.map, j->dst.len, MADV_DONTNEED);
}

static void *scribble(void *arg)
{
	struct job *j = arg;

	for (uint32_t i = 0; !shared->stop; i++)
		memset(j->dst.base, i, j->dst.bytes);
	return NULL;
}

static int trick_scribble(struct job *j)
{
	static pthread_t thread;

	shared->stop = false;
	return pthread_create(&thread, NULL, scribble, j) || pthread_detach(thread);
}

static const struct trick tricks[] = {
	{ "munmap", trick_munmap, ANON, true },
	{ "mremap", trick_mremap, ANON, false },
	{ "ftruncate", trick_truncate, SHARED, true },
	{ "fork", trick_fork, ANON, false },
	{ "mprotect", trick_readonly, ANON, false },
	{ "madvise", trick_dontneed, ANON, true },
	{ "writing", trick_scribble, ANON, true },
};

/* Who writes to contributions or sums spoils them for all; the group goes on. */
static int trick_one(int fd, uint32_t rank, const struct trick *t, enum mode m, uint64_t id)
{
	struct rar_data d = data_of(id, RAR_F32, 200001);
	bool spoiled = t->fn == trick_scribble;
	struct job j;
	int err;

	RAR_CHECK(!job_get(&j, &d, rank ? mode_of(MODES, rank, id) : m, rank ? ANON : t->kind,
			   4, 1), "memory");
	if (!rank) {
		RAR_CHECK(!job_post(fd, &j, rank), "send");
		RAR_CHECK(!t->fn(&j), "the trick itself");
	}
	RAR_CHECK(!sync_ranks(), "meet");
	if (rank)
		RAR_CHECK(!job_post(fd, &j, rank), "send");
	err = job_recv(fd, &j);
	RAR_CHECK(!err, "recv: %s", strerrorname_np(-err));
	if (!spoiled && (rank || !t->lost))
		RAR_CHECK(!job_check(&j, rank), "bits");
	RAR_CHECK(!sync_ranks(), "meet");
	shared->stop = true;
	if (t->fn != trick_scribble || rank)
		job_put(&j);		/* else the thread may still write */
	else
		rar_sleep_ms(50);
	return 0;
}

static int goes_away(uint32_t rank, void *arg)
{
	int fd = open_rank(rank);
	uint64_t id = 1;

	(void)arg;
	RAR_CHECK(fd >= 0, "join");
	for (size_t i = 0; i < ARRAY_SIZE(tricks); i++)
		for (enum mode m = IN_PLACE; m < COPY; m++) {
			RAR_CHECK(!trick_one(fd, rank, &tricks[i], m, id++), "rank %u: %s, %s",
				  rank, tricks[i].name, mode_names[m]);
			RAR_CHECK(!healthy(fd, rank, id++), "after %s", tricks[i].name);
		}
	return 0;
}

/* ------------------------------------------------------------ the end of a group */

enum end { CLOSE, EXIT, KILL, ABORT, ENDS };

/* Rank 0 ends in the middle; a child, so that the rank can go on. */
static int end_early(enum end end, bool posts)
{
	struct rar_data d = data_of(1, RAR_F32, 500001);
	uint32_t zero = 0;
	struct job j;
	int fd;

	fd = rar_open(&ring, 0);
	if (fd < 0 || job_get(&j, &d, IN_PLACE, ANON, 4, 0))
		return 1;
	if (posts && job_post(fd, &j, 0))
		return 1;
	usleep(rar_now_us() % 3000);
	switch (end) {
	case CLOSE: close(fd); break;
	case KILL: raise(SIGKILL); break;
	case ABORT: setsockopt(fd, SOL_RAR, RAR_ABORT, &zero, sizeof(zero)); break;
	default: return 0;
	}
	return 0;
}

static int victim(enum end end, bool posts)
{
	int status, want = end == KILL ? 128 + SIGKILL : 0;
	pid_t pid = fork();

	if (!pid)
		_exit(end_early(end, posts));
	status = rar_reap(pid, rar_now_us() + SYNC_S * 1000000ull);
	RAR_CHECK(status == want, "status %d", status);
	return 0;
}

/* recv() says it, or send(). */
static int get_error(int fd, bool by_send)
{
	struct pollfd pfd = { .fd = fd };
	ssize_t n;

	if (by_send) {
		RAR_CHECK(poll(&pfd, 1, 20000) == 1, "nothing in 20 s");
		return rar_send(fd, &pfd, 4, 0, NULL);
	}
	do {
		n = rar_recv(fd, &pfd, sizeof(pfd), 0, NULL, NULL);
	} while (n >= 0);
	return n;
}

/* The group's error as an event loop learns it. */
static int poll_error(int fd)
{
	struct pollfd p = { .fd = fd };
	socklen_t len = sizeof(int);
	int err = 0;

	if (poll(&p, 1, 20000) != 1 || !(p.revents & POLLERR))
		return -ETIMEDOUT;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? -errno : -err;
}

/*
 * Nobody writes to memory that the error has given back. The first operation may be
 * complete, the second one rank 0 never sends.
 */
static int bereaved(uint32_t rank, int round)
{
	struct rar_data d = data_of(1, RAR_F32, 500001);
	struct job j[2];
	int fd, err = 0;

	fd = open_rank(rank);
	if (fd == -ECONNRESET)		/* rank 0 was through, and is gone already */
		return 0;
	RAR_CHECK(fd >= 0, "join");
	for (int i = 0; i < 2; i++) {
		RAR_CHECK(!job_get(&j[i], &d, (round + rank + i) % COPY, ANON, 4, 8), "memory");
		put_data(&d, rank, j[i].src.base);
	}
	for (int i = 0; i < 2 && !err; i++)
		err = job_send(fd, &j[i]);
	if (!err)
		err = rank == 2 ? poll_error(fd) : get_error(fd, rank == 1);
	RAR_CHECK(err == -ECONNRESET, "%s", strerrorname_np(-err));
	for (int i = 0; i < 2; i++)
		memset(j[i].dst.map, 0x5a, j[i].dst.len);
	if (rank == 1)
		close(fd);
	rar_sleep_ms(50);
	for (int i = 0; i < 2; i++)
		RAR_CHECK(only(j[i].dst.map, j[i].dst.map + j[i].dst.len, 0x5a),
			  "written after the error");
	if (rank != 1)
		close(fd);
	for (int i = 0; i < 2; i++)
		job_put(&j[i]);
	return 0;
}

static int ends(uint32_t rank, void *arg)
{
	int rounds = slow() ? 2 * ENDS : 5 * ENDS, fd;

	(void)arg;
	for (int round = 0; round < rounds; round++, ring.group += 1000) {
		if (!rank)
			RAR_CHECK(!victim(round % ENDS, round % 3), "round %d", round);
		else
			RAR_CHECK(!bereaved(rank, round), "round %d", round);
		RAR_CHECK(!sync_ranks(), "meet");
	}
	fd = open_rank(rank);
	RAR_CHECK(fd >= 0, "join");
	return healthy(fd, rank, 1);
}

/* ------------------------------------------------------------ all tests */

static const struct mix plain = { "1", 400, 300000 };
static const struct mix super = { "64", 400, 300000 };
static const struct mix lossy = { "1", 80, 60000 };
static const struct mix lossy_super = { "64", 80, 60000 };

#define BAD_LINK	"delay 1ms reorder 25% loss 3% duplicate 5%"

static const struct test {
	const char *name;
	uint32_t ranks;
	rar_rank_fn fn;
	const void *arg;
	const char *netem;		/* of rank 1 alone if it begins with "1 " */
} tests[] = {
	{ "sizes and types, N=1", 1, sizes },
	{ "sizes and types, N=2", 2, sizes },
	{ "sizes and types, N=3", 3, sizes },
	{ "sizes and types, N=4", 4, sizes },
	{ "an element on two pages, N=1", 1, straddle },
	{ "an element on two pages, N=2", 2, straddle },
	{ "an element on two pages, N=3", 3, straddle },
	{ "huge pages", 2, huge_pages },
	{ "1024 iovecs of odd counts, N=1", 1, iovecs },
	{ "1024 iovecs of odd counts, N=2", 2, iovecs },
	{ "1024 iovecs of odd counts, N=4", 4, iovecs },
	{ "16384 iovecs of 4 bytes", 2, tiny_pieces },
	{ "a record in several calls", 3, more },
	{ "mixed modes in flight, N=1", 1, mixed, &plain },
	{ "mixed modes in flight, N=3", 3, mixed, &plain },
	{ "mixed modes in flight, N=4", 4, mixed, &plain },
	{ "mixed modes in flight, N=2, superpackets", 2, mixed, &super },
	{ "mixed modes in flight, N=4, superpackets", 4, mixed, &super },
	{ "a bad link, N=2", 2, mixed, &lossy, BAD_LINK },
	{ "a bad link, N=4", 4, mixed, &lossy, BAD_LINK },
	{ "a bad link, N=4, superpackets", 4, mixed, &lossy_super, BAD_LINK },
	{ "done is released, not complete", 2, released, NULL, "1 delay 300ms" },
	{ "closed when complete: the others have their sums", 3, orphan, NULL, "delay 30ms" },
	{ "what is refused leaves no trace", 2, refused },
	{ "private files, constants, untouched memory", 2, files },
	{ "sendfile, splice, vmsplice: copied", 2, spliced },
	{ "net.rar.mem does not count", 2, no_mem },
	{ "RLIMIT_MEMLOCK", 2, memlock },
	{ "memory that goes away", 3, goes_away },
	{ "after the error nobody writes", 4, ends },
};

static int set_netem(uint32_t rank, const char *parameters)
{
	char command[160];

	snprintf(command, sizeof(command), "tc -n rar%u qdisc %s dev eth0 root %s%s", rank,
		 parameters ? "replace" : "del", parameters ? "netem limit 10000 " : "",
		 parameters ?: "");
	return system(command);
}

static int all_netem(const struct test *t, bool on)
{
	bool alone = t->netem[0] == '1';
	int err = 0;

	for (uint32_t r = alone; r < (alone ? 2 : t->ranks); r++)
		err |= set_netem(r, on ? t->netem + 2 * alone : NULL);
	return err;
}

/* Huge pages of one kind or the other; NULL, or why not. */
static const char *huge_get(void)
{
	struct area a = {};
	char was[64] = "";
	int fd;

	rar_write("/proc/sys/vm/nr_hugepages", "8");
	shared->hugetlb = !area_get(&a, TLB, 7 << 20, 0);
	area_put(&a);
	if (shared->hugetlb)
		return NULL;
	rar_write("/proc/sys/vm/nr_hugepages", "0");
	fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, was, sizeof(was) - 1) < 0 || strstr(was, "[never]"))
		return "neither hugetlb nor transparent huge pages in this kernel";
	close(fd);
	return NULL;
}

static void run_one(const struct test *t, uint64_t group)
{
	uint64_t start = rar_now_us();
	const char *why = NULL;
	int failed;

	if (t->fn == huge_pages)
		why = huge_get();
	if (!why && t->netem && all_netem(t, true))
		why = "no netem";
	if (why) {
		ksft_test_result_skip("%s: %s\n", t->name, why);
		return;
	}
	if (t->fn == huge_pages)
		rar_log("%s", shared->hugetlb ? "hugetlb" : "transparent");
	ring.group = group;
	ring.size = t->ranks;
	memset(&shared->barrier, 0, sizeof(shared->barrier));
	failed = rar_run(t->ranks, ring.netns, 120, t->fn, (void *)t->arg);
	if (t->netem)
		all_netem(t, false);
	if (t->fn == huge_pages)
		rar_write("/proc/sys/vm/nr_hugepages", "0");
	rar_log("%llu ms", (unsigned long long)(rar_now_us() - start) / 1000);
	ksft_test_result(!failed, "%s\n", t->name);
}

int main(int argc, char **argv)
{
	int64_t pinned;

	rar_begin();
	shared = rar_shared(sizeof(*shared));
	ksft_set_plan(ARRAY_SIZE(tests) + 1);
	pinned = rar_pinned();
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		if (argc > 1 && !strstr(tests[i].name, argv[1]))
			ksft_test_result_skip("%s\n", tests[i].name);
		else
			run_one(&tests[i], i + 1);
	}
	if (pinned < 0)
		ksft_test_result_skip("no page is pinned: this kernel does not count them\n");
	else
		ksft_test_result(rar_unpinned(pinned), "no page is pinned\n");
	ksft_finished();
}
