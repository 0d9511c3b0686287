// SPDX-License-Identifier: GPL-2.0
/*
 * In place (MSG_ZEROCOPY) and out of place (RAR_OP.dst): every size, alignment and kind of
 * memory, each rank with a mode of its own. Every bit is compared.
 *
 * lib/in_topo.sh 4 zerocopy [PATTERN]: only the tests whose names contain PATTERN.
 */
#include "zerocopy.h"

#define IN_FLIGHT	16
#define MAX_IOV		1024	/* UIO_MAXIOV */

/* ------------------------------------------------------------ sizes */

static const uint32_t offsets[] = { 0, 1, 3, 4, 64, 4095 };

/* Every type and size; all ranks in one mode, then each rank in its own. */
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
 * Elements that lie on two pages apart from each other in physical memory, in the
 * contribution, in the place of the sums, or in both.
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
	/* Tensors of a single element, which lies on two pages */
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
		/* Only two areas of two or three huge pages, as there are few. */
		RAR_CHECK(!one_op(fd, rank, &d, rank ? COPY : id % 2, rank ? ANON : kind,
				  offsets[id], 4095), "bits");
	}
	return 0;
}

/* ------------------------------------------------------------ many iovecs */

struct pieces {
	struct iovec iov[MAX_IOV];
	char *data;			/* the pieces' bytes in order */
	char *room;
	size_t room_len;
};

/* Make pieces of odd numbers of elements, at any alignment and in any order; some empty. */
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

/* Are all bytes outside the pieces unchanged? */
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
	put_data(&d, rank, j.src.base);		/* only compared later */
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

#define TINY	(16 * MAX_IOV)		/* pieces of one element */

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

/* The work per packet is bounded: with tiny pieces there are no superpackets. */
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

/* Send a record in several calls; calls that fail in between have no effect. */
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
		/* One rank begins with a call that fails. */
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

/* Random sizes, modes and depths, different at each rank. */
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

/* ------------------------------------------------------------ all tests */

static const struct mix plain = { "1", 400, 300000 };
static const struct mix super = { "64", 400, 300000 };
static const struct mix lossy = { "1", 80, 60000 };
static const struct mix lossy_super = { "64", 80, 60000 };

#define BAD_LINK	"delay 1ms reorder 25% loss 3% duplicate 5%"

/* Are there huge pages of either kind? Returns NULL, or why not. */
static const char *huge_missing(void)
{
	struct area a = {};
	char was[64] = "";
	int fd;

	rar_write("/proc/sys/vm/nr_hugepages", "8");
	shared->hugetlb = !area_get(&a, TLB, 7 << 20, 0);
	area_put(&a);
	if (shared->hugetlb) {
		rar_log("hugetlb");
		return NULL;
	}
	rar_write("/proc/sys/vm/nr_hugepages", "0");
	fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, was, sizeof(was) - 1) < 0 || strstr(was, "[never]"))
		return "neither hugetlb nor transparent huge pages in this kernel";
	close(fd);
	rar_log("transparent");
	return NULL;
}

static void huge_put(void)
{
	rar_write("/proc/sys/vm/nr_hugepages", "0");
}

static const struct test tests[] = {
	{ .name = "sizes and types, N=1", 1, sizes },
	{ .name = "sizes and types, N=2", 2, sizes },
	{ .name = "sizes and types, N=3", 3, sizes },
	{ .name = "sizes and types, N=4", 4, sizes },
	{ .name = "an element on two pages, N=1", 1, straddle },
	{ .name = "an element on two pages, N=2", 2, straddle },
	{ .name = "an element on two pages, N=3", 3, straddle },
	{ .name = "huge pages", 2, huge_pages, .missing = huge_missing,
	  .put = huge_put },
	{ .name = "1024 iovecs of odd counts, N=1", 1, iovecs },
	{ .name = "1024 iovecs of odd counts, N=2", 2, iovecs },
	{ .name = "1024 iovecs of odd counts, N=4", 4, iovecs },
	{ .name = "16384 iovecs of 4 bytes", 2, tiny_pieces },
	{ .name = "a record in several calls", 3, more },
	{ .name = "mixed modes in flight, N=1", 1, mixed, &plain },
	{ .name = "mixed modes in flight, N=3", 3, mixed, &plain },
	{ .name = "mixed modes in flight, N=4", 4, mixed, &plain },
	{ .name = "mixed modes in flight, N=2, superpackets", 2, mixed, &super },
	{ .name = "mixed modes in flight, N=4, superpackets", 4, mixed, &super },
	{ .name = "a bad link, N=2", 2, mixed, &lossy, BAD_LINK },
	{ .name = "a bad link, N=4", 4, mixed, &lossy, BAD_LINK },
	{ .name = "a bad link, N=4, superpackets", 4, mixed, &lossy_super, BAD_LINK },
};

int main(int argc, char **argv)
{
	return zerocopy_main("zerocopy", tests, ARRAY_SIZE(tests), argc > 1 ? argv[1] : NULL);
}
