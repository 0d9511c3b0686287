// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * MPI's datatypes and operations, as the ring calls them.
 */
#include "common.h"

static int redop_of(MPI_Op op)
{
	static const int redops[] = { RAR_SUM, RAR_PROD, RAR_MIN, RAR_MAX, RAR_BAND, RAR_BOR,
				      RAR_BXOR, RAR_LAND, RAR_LOR, RAR_LXOR };
	const MPI_Op ops[] = { MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR,
			       MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR };

	for (size_t i = 0; i < sizeof(redops) / sizeof(*redops); i++)
		if (op == ops[i])
			return redops[i];
	return 0;
}

static int integer_of(size_t size, bool is_signed)
{
	switch (size) {
	case 1:
		return is_signed ? RAR_I8 : RAR_U8;
	case 2:
		return is_signed ? RAR_I16 : RAR_U16;
	case 4:
		return is_signed ? RAR_I32 : RAR_U32;
	case 8:
		return is_signed ? RAR_I64 : RAR_U64;
	}
	return 0;
}

static int float_of(size_t size)
{
	return size == 4 ? RAR_F32 : size == 8 ? RAR_F64 : 0;
}

#define IS_ONE_OF(t, ...) is_in(t, (const MPI_Datatype[]) { __VA_ARGS__, MPI_DATATYPE_NULL })

static bool is_in(MPI_Datatype t, const MPI_Datatype *types)
{
	while (*types != MPI_DATATYPE_NULL)
		if (t == *types++)
			return true;
	return false;
}

static int dtype_of(MPI_Datatype t)
{
	int size = 0;

	if (t == MPI_DATATYPE_NULL)
		return 0;
	PMPI_Type_size(t, &size);
	if (IS_ONE_OF(t, MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4,
		      MPI_REAL8))
		return float_of(size);
	if (IS_ONE_OF(t, MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T,
		      MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT,
		      MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8))
		return integer_of(size, true);
	if (IS_ONE_OF(t, MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
		      MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T,
		      MPI_UINT64_T))
		return integer_of(size, false);
	return 0;
}

/* The type of both parts of a complex number. */
static int part_of(MPI_Datatype t)
{
	int size = 0;

	if (t == MPI_DATATYPE_NULL ||
	    !IS_ONE_OF(t, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_COMPLEX,
		       MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16))
		return 0;
	PMPI_Type_size(t, &size);
	return float_of(size / 2);
}

/* Has the ring this type and reduction? *k says what it calls them. */
bool kind_of(MPI_Datatype t, MPI_Op op, struct kind *k)
{
	*k = (struct kind) { .dtype = dtype_of(t), .redop = redop_of(op), .parts = 1 };
	if (op == MPI_SUM && !k->dtype) {	/* a sum of complex numbers is two sums */
		k->parts = 2;
		k->dtype = part_of(t);
	}
	return k->dtype && k->redop;
}

/* Is an array of this type simply its bytes? */
bool is_plain(MPI_Datatype t)
{
	MPI_Aint lb, extent;
	int size;

	PMPI_Type_get_extent(t, &lb, &extent);
	PMPI_Type_size(t, &size);
	return hook_is_named(t) && !lb && extent == size;
}

/* 0 as well for arguments that only the MPI library can judge. */
uint64_t bytes_of(int count, MPI_Datatype t)
{
	int size = 0;

	if (count <= 0 || t == MPI_DATATYPE_NULL || PMPI_Type_size(t, &size) || size < 0)
		return 0;
	return (uint64_t)count * size;
}
