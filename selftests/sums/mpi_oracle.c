// SPDX-License-Identifier: GPL-2.0
/*
 * mpi_oracle: an MPI program, built for each library. Its ranks do every operation that MPI
 * has twice, by MPI and through the socket on 127.0.0.1, and compare all bits: integers with
 * every reduction; floats where the bits cannot depend on the order, that is, any numbers
 * with two ranks, and otherwise sums and products that are exact. sums/mpi_oracle.sh runs it.
 *
 * Some libraries are wrong: MPICH 4.0.2 compares unsigned numbers as if they had a sign, and
 * vectors of Open MPI 4.1.4 add small integers with saturation. A reduction that a library
 * gets wrong for two arrays of its own is left out.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "rar_util.h"

#define PROBE			128u	/* elements */
#define SHARE		253u		/* elements of a rank's block */
#define MAX_RANKS	16

static const struct type {
	const char *name;
	uint8_t dtype;
	uint8_t size;
	bool frac;
} types[] = {
	{ "f32", RAR_F32, 4, true }, { "f64", RAR_F64, 8, true },
	{ "i8", RAR_I8, 1, false }, { "u8", RAR_U8, 1, false },
	{ "i16", RAR_I16, 2, false }, { "u16", RAR_U16, 2, false },
	{ "i32", RAR_I32, 4, false }, { "u32", RAR_U32, 4, false },
	{ "i64", RAR_I64, 8, false }, { "u64", RAR_U64, 8, false },
};

static const char * const redop_names[RAR_REDOP_NR] = {
	[RAR_SUM] = "sum", [RAR_PROD] = "prod", [RAR_MIN] = "min", [RAR_MAX] = "max",
	[RAR_BAND] = "band", [RAR_BOR] = "bor", [RAR_BXOR] = "bxor", [RAR_LAND] = "land",
	[RAR_LOR] = "lor", [RAR_LXOR] = "lxor",
};

static const char * const collective_names[RAR_COLLECTIVE_NR] = {
	[RAR_ALLREDUCE] = "allreduce", [RAR_BROADCAST] = "broadcast", [RAR_REDUCE] = "reduce",
	[RAR_REDUCE_SCATTER] = "reduce_scatter", [RAR_ALLGATHER] = "allgather",
};

/* An operation, and how many elements a rank gives and gets. */
struct job {
	uint8_t collective;
	const struct type *type;
	uint8_t redop;
	uint32_t root;
	uint32_t given;
	uint32_t got;
};

static struct rar_ring ring = { .group = 1, .where = RAR_ON_LO4 };
static uint32_t rank;
static int fd;

/* The handles are no constants in every library. */
static MPI_Datatype mpi_type(uint8_t dtype)
{
	switch (dtype) {
	case RAR_F32: return MPI_FLOAT;
	case RAR_F64: return MPI_DOUBLE;
	case RAR_I8: return MPI_INT8_T;
	case RAR_U8: return MPI_UINT8_T;
	case RAR_I16: return MPI_INT16_T;
	case RAR_U16: return MPI_UINT16_T;
	case RAR_I32: return MPI_INT32_T;
	case RAR_U32: return MPI_UINT32_T;
	case RAR_I64: return MPI_INT64_T;
	default: return MPI_UINT64_T;
	}
}

static MPI_Op mpi_op(uint8_t redop)
{
	switch (redop) {
	case RAR_SUM: return MPI_SUM;
	case RAR_PROD: return MPI_PROD;
	case RAR_MIN: return MPI_MIN;
	case RAR_MAX: return MPI_MAX;
	case RAR_BAND: return MPI_BAND;
	case RAR_BOR: return MPI_BOR;
	case RAR_BXOR: return MPI_BXOR;
	case RAR_LAND: return MPI_LAND;
	case RAR_LOR: return MPI_LOR;
	default: return MPI_LXOR;
	}
}

/* ------------------------------------------------------------ data */

/* A float whose sums, or products, with those of the other ranks are exact. */
static double exact(uint8_t redop, uint64_t x)
{
	if (redop == RAR_PROD)
		return (x & 1 ? -1 : 1) * (x & 2 ? 0.5 : x & 4 ? 2 : 1);
	return (double)(int64_t)(x % 20001) - 10000;
}

/* Any finite float: with random bits and an exponent in the middle. */
static double any(uint64_t x)
{
	return ((double)(int64_t)x + 0.5) * (x & 1 ? 0x1p-40 : 0x1p-70);
}

static void put_element(const struct type *t, void *to, uint8_t redop, uint64_t x)
{
	double d = ring.size == 2 || redop == RAR_MIN || redop == RAR_MAX ? any(x) :
									    exact(redop, x);
	float f = d;

	if (!t->frac && redop >= RAR_LAND && x >> 62 == 0)
		x = 0;
	memcpy(to, t->dtype == RAR_F32 ? (void *)&f : t->frac ? (void *)&d : (void *)&x, t->size);
}

static void fill(const struct job *j, char *buf)
{
	uint64_t state = rank * 7919 + j->redop * 31 + j->type->dtype;

	for (uint32_t i = 0; i < ring.size * SHARE; i++)
		put_element(j->type, buf + i * j->type->size, j->redop, rar_random(&state));
}

/* ------------------------------------------------------------ both ways */

static int by_mpi(const struct job *j, const void *in, void *out)
{
	MPI_Datatype type = mpi_type(j->type->dtype);
	uint32_t n = ring.size * SHARE;
	MPI_Op op = mpi_op(j->redop);

	switch (j->collective) {
	case RAR_ALLREDUCE:
		return MPI_Allreduce(in, out, n, type, op, MPI_COMM_WORLD);
	case RAR_BROADCAST:
		memcpy(out, in, j->given * j->type->size);
		return MPI_Bcast(out, n, type, j->root, MPI_COMM_WORLD);
	case RAR_REDUCE:
		return MPI_Reduce(in, out, n, type, op, j->root, MPI_COMM_WORLD);
	case RAR_REDUCE_SCATTER:
		return MPI_Reduce_scatter_block(in, out, SHARE, type, op, MPI_COMM_WORLD);
	default:
		return MPI_Allgather(in, SHARE, type, out, SHARE, type, MPI_COMM_WORLD);
	}
}

static int by_socket(const struct job *j, const void *in, void *out)
{
	struct rar_op op = rar_op_of(j->type->dtype, ring.size * SHARE * j->type->size, 0);
	size_t got = j->got * j->type->size;
	ssize_t n;
	int err;

	op.collective = j->collective;
	op.redop = j->redop;
	op.root = j->root;
	err = rar_send(fd, in, j->given * j->type->size, 0, &op);
	if (err)
		return err;
	n = rar_recv_all(fd, out, ring.size * SHARE * j->type->size, NULL);
	return n < 0 ? n : (size_t)n == got ? 0 : -1;
}

/* Bytes in which the results differ, at this rank. */
static size_t differ(const struct job *j)
{
	static char in[MAX_RANKS * SHARE * 8], a[sizeof(in)], b[sizeof(in)];
	size_t n = 0;

	fill(j, in);
	memset(a, 1, sizeof(a));
	memset(b, 2, sizeof(b));
	if (by_mpi(j, in, a) != MPI_SUCCESS || by_socket(j, in, b)) {
		rar_log("rank %u: an operation failed", rank);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (size_t i = 0; i < j->got * j->type->size; i++)
		n += a[i] != b[i];
	return n;
}

/* Does the library get a reduction of integers right, without any other rank? */
static bool library_right(const struct type *t, uint8_t redop)
{
	struct kind k = {
		.name = t->name, .redop = redop, .dtype = t->dtype, .size = t->size,
		.is_signed = SIGNED(t->dtype),
	};
	char in[PROBE * 8], own[sizeof(in)], out[sizeof(in)];
	uint64_t state = redop, a = 0, b = 0, want;

	for (uint32_t i = 0; i < PROBE; i++) {
		put_element(t, in + i * t->size, redop, rar_random(&state));
		put_element(t, own + i * t->size, redop, rar_random(&state));
	}
	memcpy(out, own, sizeof(out));
	MPI_Reduce_local(in, out, PROBE, mpi_type(t->dtype), mpi_op(redop));
	for (uint32_t i = 0; i < PROBE; i++) {
		memcpy(&a, in + i * t->size, t->size);
		memcpy(&b, own + i * t->size, t->size);
		want = expect(&k, a, b);
		if (memcmp(out + i * t->size, &want, t->size))
			return false;
	}
	return true;
}

/* Does MPI have this reduction of the type, and is it right? */
static bool is_oracle(const struct type *t, uint8_t redop)
{
	static enum { UNKNOWN, RIGHT, WRONG } known[RAR_DTYPE_NR][RAR_REDOP_NR];

	if (t->frac)
		return redop <= RAR_MAX;
	if (known[t->dtype][redop] == UNKNOWN) {
		known[t->dtype][redop] = library_right(t, redop) ? RIGHT : WRONG;
		if (!rank && known[t->dtype][redop] == WRONG)
			rar_log("%s of %s: left out, this library gets it wrong",
				redop_names[redop], t->name);
	}
	return known[t->dtype][redop] == RIGHT;
}

/* Every type, reduction and root of a collective. Returns how many operations differ. */
static uint32_t all_kinds(uint8_t collective, uint32_t *count)
{
	bool adds = collective != RAR_BROADCAST && collective != RAR_ALLGATHER;
	bool rooted = collective == RAR_BROADCAST || collective == RAR_REDUCE;
	uint32_t all = ring.size * SHARE, bad = 0;

	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (uint8_t redop = RAR_SUM; redop <= (adds ? RAR_LXOR : RAR_SUM); redop++)
			for (uint32_t root = 0; root < (rooted ? ring.size : 1); root++) {
				struct job j = {
					.collective = collective, .type = &types[t],
					.redop = redop, .root = root, .given = all, .got = all,
				};

				if (!is_oracle(&types[t], redop))
					continue;
				if (collective == RAR_ALLGATHER)
					j.given = SHARE;
				if (collective == RAR_BROADCAST && rank != root)
					j.given = 0;
				if (collective == RAR_REDUCE_SCATTER)
					j.got = SHARE;
				if (collective == RAR_REDUCE && rank != root)
					j.got = 0;
				++*count;
				if (!differ(&j))
					continue;
				bad++;
				rar_log("rank %u: %s %s %s, root %u: not as by MPI", rank,
					collective_names[collective], redop_names[redop],
					types[t].name, root);
			}
	return bad;
}

/* Does every rank say that it agrees? */
static bool all_agree(uint32_t bad)
{
	int mine = bad, sum = 1;

	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	return !sum;
}

int main(int argc, char **argv)
{
	char name[MPI_MAX_LIBRARY_VERSION_STRING];
	bool good = true, agree;
	int n, r, len;

	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	MPI_Comm_rank(MPI_COMM_WORLD, &r);
	MPI_Get_library_version(name, &len);
	name[strcspn(name, "\n,")] = '\0';
	for (char *c = name; *c; c++)
		*c = *c == '\t' ? ' ' : *c;
	ring.size = n;
	rank = r;
	fd = n <= MAX_RANKS ? rar_open(&ring, rank) : -1;
	if (fd < 0) {
		rar_log("rank %u: join: %d", rank, fd);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (uint8_t c = RAR_ALLREDUCE; c <= RAR_ALLGATHER; c++) {
		uint32_t count = 0, bad = all_kinds(c, &count);

		agree = all_agree(bad);
		good &= agree;
		if (!rank)
			rar_log("%s, %d ranks: %s: %u operations, %s", name, n,
				collective_names[c], count, agree ? "equal" : "NOT EQUAL");
	}
	MPI_Finalize();
	return !good;
}
