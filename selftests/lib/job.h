/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Jobs: operations of any collective on elements of four bytes, in every mode. A job says
 * what each rank sends and what it must get, as the manual has it: sums are added in C, in
 * the manual's order.
 *
 * Functions that can fail return 0 or a negative errno, or 1 after they have logged why.
 */
#ifndef RAR_JOB_H
#define RAR_JOB_H

#include "rar_util.h"

/* How a rank passes its tensor. */
enum rar_mode {
	RAR_COPIED,		/* send() and recv() copy */
	RAR_IN_PLACE,		/* MSG_ZEROCOPY */
	RAR_OUT_OF_PLACE,	/* with RAR_OP.dst, where the collective takes it */
	RAR_REGISTERED,		/* in place, in memory that RAR_REG pinned */
	RAR_MODES,
	RAR_WAITED = RAR_MODES,	/* send() with RAR_OP.dst waits: no other operation meanwhile */
};

/**
 * struct rar_job - an operation
 * @ring:  the group
 * @id:    number that tells operations apart; the cookie
 * @collective: enum rar_collective
 * @dtype: RAR_I32 or RAR_F32, or another type without sums
 * @mode:  enum rar_mode
 * @root:  ignored without a root
 * @count: elements of the tensor, a multiple of the ranks where it is cut
 */
struct rar_job {
	const struct rar_ring *ring;
	uint64_t id;
	uint8_t collective;
	uint8_t dtype;
	uint8_t mode;
	uint32_t root;
	uint32_t count;
};

/* Elements of a tensor. */
struct rar_part {
	uint32_t first;
	uint32_t n;
};

/* The memory of a job at a rank; @src == @dst in place. */
struct rar_job_memory {
	uint32_t *src;
	uint32_t *dst;
};

const char *rar_collective_name(uint8_t collective);
const char *rar_mode_name(uint8_t mode);
bool rar_job_cuts(uint8_t collective);
bool rar_job_rooted(uint8_t collective);
/* Elements of a tensor of some @count; a multiple of the ranks, or 0, if it must be. */
uint32_t rar_job_count(const struct rar_ring *ring, uint8_t collective, uint32_t count);

/* The parts that a rank sends and gets. */
struct rar_part rar_job_given(const struct rar_job *j, uint32_t rank);
struct rar_part rar_job_got(const struct rar_job *j, uint32_t rank);
struct rar_op rar_job_op(const struct rar_job *j);

/* Memory with the contribution of a rank. */
struct rar_job_memory rar_job_memory(const struct rar_job *j, uint32_t rank);
void rar_job_free(const struct rar_job *j, struct rar_job_memory *m);
/* The two halves of a job; the second one checks every element and the memory around. */
int rar_job_post(int fd, const struct rar_job *j, uint32_t rank, const struct rar_job_memory *m);
int rar_job_collect(int fd, const struct rar_job *j, uint32_t rank,
		    const struct rar_job_memory *m);

#endif /* RAR_JOB_H */
