/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Data, clock and checks, shared by all contestants of the bench. A contestant is N
 * processes that map one file, the control block. "lead" puts a job there, the ranks
 * do it together, and "lead" reads how long it took. Ranks without a job sleep.
 *
 * Functions that can fail return 0 or a negative errno. Also used from C++.
 */
#ifndef RAR_BENCH_H
#define RAR_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_RANKS	64
#define BENCH_OPS	512
#define BENCH_KNOBS	3

enum bench_type { BENCH_F32, BENCH_I32 };	/* both have four bytes */

/**
 * struct bench_job - one sample: a list of operations, several times over
 * @type:   enum bench_type
 * @broadcast: broadcasts from rank 0, otherwise all-reduces
 * @times:  times that the list is done
 * @nops:   operations in the list
 * @number: number of this job; decides which part of a large result a rank checks
 * @knob:   values that a contestant may vary, see there
 * @bytes:  length of each operation
 */
struct bench_job {
	uint32_t type;
	uint32_t broadcast;
	uint32_t times;
	uint32_t nops;
	uint32_t number;
	uint64_t knob[BENCH_KNOBS];
	uint64_t bytes[BENCH_OPS];
};

/* The report of a rank on a job: when it began and ended, or why it failed. */
struct bench_report {
	uint64_t start_ns;
	uint64_t end_ns;
	int32_t err;
	char text[124];
};

/* Where processes meet that share it; "gen" is a futex. */
struct bench_barrier {
	uint32_t arrived;
	uint32_t gen;
};

/*
 * The control block. "round", a futex, counts jobs. "broadcast_ns" is the time of all
 * broadcasts of a job, each from its start at rank 0 until the last other rank has the data.
 */
struct bench_ctl {
	uint32_t n;
	uint32_t attached;
	uint32_t round;
	uint32_t quit;
	uint32_t done;
	uint32_t failed;
	struct bench_barrier barrier;
	uint64_t broadcast_ns;
	struct bench_job job;
	struct bench_report report[BENCH_RANKS];
};

/**
 * struct bench_rank - a rank of a contestant
 * @ctl:   the control block
 * @rank:  0 .. size - 1
 * @size:  ranks
 * @buf:   the data, replaced by the sum
 * @spare: as large as @buf; for contestants that put the sum there and swap both
 * @room:  bytes of @buf and of @spare
 * @priv:  data of the contestant
 */
struct bench_rank {
	struct bench_ctl *ctl;
	uint32_t rank;
	uint32_t size;
	void *buf;
	void *spare;
	size_t room;
	void *priv;
};

/**
 * struct bench_peer - a contestant
 * @prepare:   called before a job, untimed; may be NULL
 * @allreduce: sums the first bytes of rank->buf; NULL if it only broadcasts
 * @broadcast: sends the first bytes of rank 0's buf to all others; may be NULL
 * @spare:     the contestant needs rank->spare
 */
struct bench_peer {
	int (*prepare)(struct bench_rank *rank, const struct bench_job *job);
	int (*allreduce)(struct bench_rank *rank, size_t bytes, enum bench_type type);
	bool spare;
	int (*broadcast)(struct bench_rank *rank, size_t bytes);
};

/* Does jobs until "lead" is gone. Returns the exit status of the process. */
int bench_serve(const char *ctl, uint32_t rank, const struct bench_peer *peer, void *priv);
/* Instead of bench_serve(): this rank cannot take part. "lead" passes the reason on. */
int bench_refuse(const char *ctl, uint32_t rank, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

struct bench_ctl *bench_map(const char *path, bool create);
uint64_t bench_now_ns(void);
void bench_wake(uint32_t *word);
#define BENCH_NEVER	UINT64_MAX
/* Sleeps while *word is value, at most until until_ns. Returns false if that has passed. */
bool bench_sleep(uint32_t *word, uint32_t value, uint64_t until_ns);
/* Sleeps until n processes have called it. Returns false if it is too late. */
bool bench_meet(struct bench_barrier *barrier, uint32_t n, uint64_t until_ns);

/* dst[i] = in[i] + dst[i], with the widest registers of this CPU. */
void bench_add(enum bench_type type, void *dst, const void *in, size_t bytes);

/* Fills in a rank's data. bench_verify() checks them after "ops" operations: -1 if right. */
void bench_fill(enum bench_type type, uint32_t rank, void *buf, size_t bytes);
int64_t bench_verify(enum bench_type type, uint32_t size, uint32_t ops, const void *buf,
		     size_t first, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* RAR_BENCH_H */
