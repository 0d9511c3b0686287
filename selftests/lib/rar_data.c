// SPDX-License-Identifier: GPL-2.0
/*
 * The data of the tests, computed from the seed: what each rank contributes, and the sum in
 * ring order. See rar_util.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rar_util.h"

static const struct {
	const char *name;
	size_t size;
} rar_dtypes[] = {
	[RAR_F32] = { "f32", 4 },
	[RAR_F64] = { "f64", 8 },
	[RAR_I32] = { "i32", 4 },
	[RAR_I64] = { "i64", 8 },
};

size_t rar_element(uint32_t dtype)
{
	return rar_dtypes[dtype].size;
}

const char *rar_dtype_name(uint32_t dtype)
{
	return rar_dtypes[dtype].name;
}

uint32_t rar_dtype_parse(const char *name)
{
	for (uint32_t i = RAR_F32; i <= RAR_I64; i++)
		if (!strcmp(rar_dtypes[i].name, name))
			return i;
	return 0;
}

static uint64_t rar_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

uint64_t rar_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return rar_mix(*state);
}

/*
 * A float between 2^-16 and 2^15, so that the order of a sum shows in the sum's
 * bits. One in 256 is special: zeros of both signs, denormals, infinities,
 * quiet and signalling NaNs with payloads, the largest finite number.
 */
static uint32_t rar_make_f32(uint64_t x)
{
	static const uint32_t special[8] = {
		0, 0x80000000, 1, 0x807fffff, 0x7f800000, 0xff800000,
		0x7f812345, 0xffd54321,
	};
	uint32_t sign = x >> 63 << 31;

	if ((x & 0xff) == 0)
		return special[x >> 8 & 7];
	if ((x & 0xfff) == 1)
		return sign | 0x7f7fffff;
	return sign | (uint32_t)(111 + (x >> 8 & 31)) << 23 |
	       (uint32_t)(x >> 16 & 0x7fffff);
}

static uint64_t rar_make_f64(uint64_t x)
{
	static const uint64_t special[8] = {
		0, 1ull << 63, 1, 0x800fffffffffffffull, 0x7ffull << 52,
		0xfffull << 52, 0x7ff0123456789abcull, 0xfff8cba987654321ull,
	};
	uint64_t sign = x >> 63 << 63;

	if ((x & 0xff) == 0)
		return special[x >> 8 & 7];
	return sign | (1007 + (x >> 8 & 31)) << 52 | rar_mix(x) >> 12;
}

void rar_fill(const struct rar_data *d, uint32_t rank, uint64_t first,
	      uint64_t n, void *buf)
{
	uint64_t key = rar_mix(rar_seed + rar_mix(d->id + 1)) + rank * 0x9e3779b9ull;
	uint32_t *b32 = buf;
	uint64_t *b64 = buf;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t x = rar_mix(rar_mix(key) + first + i);

		switch (d->dtype) {
		case RAR_F32: b32[i] = rar_make_f32(x); break;
		case RAR_F64: b64[i] = rar_make_f64(x); break;
		case RAR_I32: b32[i] = x; break;
		case RAR_I64: b64[i] = x; break;
		}
	}
}

/*
 * The module's rule for sums, whatever this compiler does with operands. A NaN
 * of the arriving partial sum wins and becomes quiet; else a NaN of our own does.
 * An invalid operation gives the negative default NaN.
 */
static uint32_t rar_add_f32(uint32_t in, uint32_t own)
{
	union { uint32_t u; float f; } a = { in }, b = { own };

	if (__builtin_expect((in & 0x7fffffff) > 0x7f800000, 0))
		return in | 0x00400000;
	if (__builtin_expect((own & 0x7fffffff) > 0x7f800000, 0))
		return own | 0x00400000;
	a.f += b.f;
	return (a.u & 0x7fffffff) > 0x7f800000 ? 0xffc00000 : a.u;
}

static uint64_t rar_add_f64(uint64_t in, uint64_t own)
{
	union { uint64_t u; double f; } a = { in }, b = { own };

	if (__builtin_expect((in & ~(1ull << 63)) > 0x7ffull << 52, 0))
		return in | 1ull << 51;
	if (__builtin_expect((own & ~(1ull << 63)) > 0x7ffull << 52, 0))
		return own | 1ull << 51;
	a.f += b.f;
	return (a.u & ~(1ull << 63)) > 0x7ffull << 52 ? 0xfff8ull << 48 : a.u;
}

/* A group of one has nothing to add, but the NaN becomes quiet as well. */
static void rar_add_nothing(uint32_t dtype, void *in, uint64_t n)
{
	uint32_t *in32 = in;
	uint64_t *in64 = in;

	for (uint64_t i = 0; i < n; i++) {
		if (dtype == RAR_F32 && (in32[i] & 0x7fffffff) > 0x7f800000)
			in32[i] |= 0x00400000;
		if (dtype == RAR_F64 && (in64[i] & ~(1ull << 63)) > 0x7ffull << 52)
			in64[i] |= 1ull << 51;
	}
}

static void rar_add(uint32_t dtype, void *in, const void *own, uint64_t n)
{
	const uint32_t *own32 = own;
	const uint64_t *own64 = own;
	uint32_t *in32 = in;
	uint64_t *in64 = in;

	for (uint64_t i = 0; i < n; i++) {
		switch (dtype) {
		case RAR_F32: in32[i] = rar_add_f32(in32[i], own32[i]); break;
		case RAR_F64: in64[i] = rar_add_f64(in64[i], own64[i]); break;
		case RAR_I32: in32[i] += own32[i]; break;
		case RAR_I64: in64[i] += own64[i]; break;
		}
	}
}

#define RAR_SMALL 8192	/* bytes that make a single block by the ring */

uint32_t rar_env_schedule(void)
{
	const char *all = getenv("RAR_SCHEDULE");

	return all ? atoi(all) : RAR_BY_RANKS;
}

/* Bytes of the longest all-reduce that goes directly. */
static uint32_t rar_direct(const struct rar_data *d)
{
	return d->direct ?: rar_env_schedule() == RAR_AUTO ? rar_direct_bytes(d->size) : 0;
}

/* Elements in one block: ceil(bytes / parts), or the whole operation if it is short. */
static uint64_t rar_block(const struct rar_data *d)
{
	uint64_t bytes = rar_bytes(d), parts = d->hosts ?: d->size;

	if (bytes > RAR_SMALL && bytes > rar_direct(d))
		bytes = (bytes + parts - 1) / parts;
	return (bytes + 63) / 64 * 64 / rar_element(d->dtype);
}

#define RAR_TILE 1024	/* elements */

/*
 * The sum of n <= RAR_TILE elements of a block: x_r + x_(r+1) + ...; rank r injects it, of a
 * reduction to a root the rank after the root.
 */
static void rar_expect_tile(const struct rar_data *d, uint32_t block,
			    uint64_t first, uint64_t n, void *buf)
{
	uint32_t rank = d->hosts ? d->first[block] : d->reduce ? d->root % d->size : block;
	uint64_t own[RAR_TILE];

	rar_fill(d, rank, first, n, buf);
	if (d->size == 1)
		rar_add_nothing(d->dtype, buf, n);
	for (uint32_t k = 1; k < d->size; k++) {
		rar_fill(d, (rank + k) % d->size, first, n, own);
		rar_add(d->dtype, buf, own, n);
	}
}

/*
 * Recursive doubling: 2^k ranks are halved again and again, and each half is added before both
 * halves are. Of 2^k + e ranks the first e pairs count as one rank each, which is their sum.
 */
static void rar_expect_half(const struct rar_data *d, uint32_t at, uint32_t ranks,
			    uint64_t first, uint64_t n, void *buf)
{
	uint32_t cores = 1, pairs;
	uint64_t own[RAR_TILE];

	while (2 * cores <= d->size)
		cores *= 2;
	pairs = d->size - cores;
	if (ranks > 1) {
		rar_expect_half(d, at, ranks / 2, first, n, buf);
		rar_expect_half(d, at + ranks / 2, ranks / 2, first, n, own);
	} else if (at < pairs) {
		rar_fill(d, 2 * at, first, n, buf);
		rar_fill(d, 2 * at + 1, first, n, own);
	} else {
		rar_fill(d, at + pairs, first, n, buf);
		return;
	}
	rar_add(d->dtype, buf, own, n);
}

/* Does an all-reduce, or a reduction to a root, go by recursive doubling, or halving? */
static bool rar_doubled(const struct rar_data *d)
{
	bool all = rar_env_schedule() == RAR_DOUBLING || rar_env_schedule() == RAR_AUTO;
	uint32_t most = d->doubled ?: all ? rar_doubling_bytes(d->size) : 0;
	uint32_t halved = d->halved ?: all ? rar_halving_bytes(d->size) : 0;

	if (!d->reduce && halved > most)
		most = halved;
	/* No reduction to a root goes directly. */
	return rar_bytes(d) <= most && (d->reduce || rar_bytes(d) > rar_direct(d));
}

static void rar_expect_doubled(const struct rar_data *d, uint64_t first, uint64_t n, void *buf)
{
	uint32_t cores = 1;

	while (2 * cores <= d->size)
		cores *= 2;
	rar_expect_half(d, 0, cores, first, n, buf);
}

static uint64_t rar_tile(const struct rar_data *d, uint64_t first, uint64_t n,
			 void *buf)
{
	uint64_t block = first / rar_block(d);
	uint64_t room = (block + 1) * rar_block(d) - first;

	if (n > room)
		n = room;
	if (n > RAR_TILE)
		n = RAR_TILE;
	if (d->size > 1 && (!d->root || d->reduce) && rar_doubled(d))
		rar_expect_doubled(d, first, n, buf);
	else
		rar_expect_tile(d, block, first, n, buf);
	return n;
}

void rar_expect(const struct rar_data *d, uint64_t first, uint64_t n, void *buf)
{
	size_t size = rar_element(d->dtype);
	uint64_t done = 0;

	while (done < n)
		done += rar_tile(d, first + done, n - done,
				 (char *)buf + done * size);
}

static int64_t rar_differs(const void *a, const void *b, uint64_t n, size_t size)
{
	const char *x = a, *y = b;

	if (!memcmp(x, y, n * size))
		return -1;
	for (uint64_t i = 0; i < n; i++)
		if (memcmp(x + i * size, y + i * size, size))
			return i;
	return -1;
}

static void rar_report(const struct rar_data *d, uint64_t index,
		       const void *got, const void *want)
{
	uint64_t g = 0, w = 0;

	memcpy(&g, got, rar_element(d->dtype));
	memcpy(&w, want, rar_element(d->dtype));
	rar_log("op %llu %s count %llu: element %llu (block %llu) is %llx, not %llx",
		(unsigned long long)d->id, rar_dtype_name(d->dtype),
		(unsigned long long)d->count, (unsigned long long)index,
		(unsigned long long)(index / rar_block(d)),
		(unsigned long long)g, (unsigned long long)w);
}

int64_t rar_verify(const struct rar_data *d, uint64_t first, uint64_t n,
		   const void *buf)
{
	size_t size = rar_element(d->dtype);
	uint64_t want[RAR_TILE], done = 0, len;
	const char *got = buf;
	int64_t bad;

	for (; done < n; done += len) {
		len = n - done < RAR_TILE ? n - done : RAR_TILE;
		if (d->root && !d->reduce)
			rar_fill(d, d->root - 1, first + done, len, want);
		else
			len = rar_tile(d, first + done, n - done, want);
		bad = rar_differs(got + done * size, want, len, size);
		if (bad < 0)
			continue;
		rar_report(d, first + done + bad, got + (done + bad) * size,
			   (char *)want + bad * size);
		return first + done + bad;
	}
	return -1;
}

uint64_t rar_hash(uint64_t hash, const void *buf, size_t len)
{
	const char *p = buf;
	uint64_t word;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&word, p, 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	word = 0;
	memcpy(&word, p, len);
	return len ? rar_mix(hash ^ word ^ (uint64_t)len << 56) : hash;
}

int rar_post(int fd, const struct rar_data *d, uint32_t rank)
{
	struct rar_op op = rar_op_of(d->dtype, 0, d->id);
	void *buf = malloc(rar_bytes(d) + 1);
	int err = -ENOMEM;

	if (buf) {
		rar_fill(d, rank, 0, d->count, buf);
		err = rar_send(fd, buf, rar_bytes(d), 0, &op);
	}
	free(buf);
	return err;
}

static int rar_check_done(const struct rar_data *d, const struct rar_done *done)
{
	if (done->size == sizeof(*done) && !done->status &&
	    done->contributors == d->size && done->cookie == d->id)
		return 0;
	rar_log("RAR_DONE size %u status %d contributors %u cookie %llu, not %llu",
		done->size, done->status, done->contributors,
		(unsigned long long)done->cookie, (unsigned long long)d->id);
	return -EBADMSG;
}

int rar_collect(int fd, const struct rar_data *d, uint32_t rank)
{
	uint64_t bytes = rar_bytes(d);
	char *buf = malloc(bytes + 1);
	struct rar_done done;
	ssize_t n = -ENOMEM;

	if (buf)
		n = rar_recv_all(fd, buf, bytes + 1, &done);
	if (n >= 0 && (uint64_t)n != bytes)
		n = -EMSGSIZE;
	if (n >= 0)
		n = rar_check_done(d, &done);
	if (!n && rar_verify(d, 0, d->count, buf) >= 0) {
		rar_log("rank %u of %u: wrong bits", rank, d->size);
		n = -EBADE;
	}
	free(buf);
	return n;
}

int rar_allreduce(int fd, const struct rar_data *d, uint32_t rank)
{
	return rar_post(fd, d, rank) ?: rar_collect(fd, d, rank);
}
