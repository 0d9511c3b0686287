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

static int dtype_of(MPI_Datatype t)
{
	const MPI_Datatype s[] = { MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG,
				   MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_INTEGER,
				   MPI_AINT, MPI_OFFSET, MPI_COUNT };
	const MPI_Datatype u[] = { MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED,
				   MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T,
				   MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T };
	int size = 0;

	if (t == MPI_DATATYPE_NULL)
		return 0;
	if (t == MPI_FLOAT || t == MPI_REAL)
		return RAR_F32;
	if (t == MPI_DOUBLE || t == MPI_DOUBLE_PRECISION)
		return RAR_F64;
	PMPI_Type_size(t, &size);
	for (size_t i = 0; i < sizeof(s) / sizeof(*s); i++)
		if (t == s[i])
			return integer_of(size, true);
	for (size_t i = 0; i < sizeof(u) / sizeof(*u); i++)
		if (t == u[i])
			return integer_of(size, false);
	return 0;
}

/* Has the ring this type and reduction? *k says what it calls them. */
bool kind_of(MPI_Datatype t, MPI_Op op, struct kind *k)
{
	*k = (struct kind) { .dtype = dtype_of(t), .redop = redop_of(op), .parts = 1 };
	if (op == MPI_SUM && !k->dtype) {	/* a sum of complex numbers is two sums */
		k->parts = 2;
		if (t == MPI_C_FLOAT_COMPLEX)
			k->dtype = RAR_F32;
		else if (t == MPI_C_DOUBLE_COMPLEX)
			k->dtype = RAR_F64;
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
