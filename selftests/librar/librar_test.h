/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of this test share: ranks as processes, joining, checks. */
#ifndef LIBRAR_TEST_H
#define LIBRAR_TEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rar/librar.h>

#define RANKS	4
#define WAIT_MS	60000
#define LONG	20011		/* elements of a tensor that is pinned, whatever the type */

/* What the ranks of a test share. */
extern struct shared {
	pthread_barrier_t barrier;
	pthread_barrier_t others;	/* all ranks but one, which is dead */
	struct rar_card cards[2 * RANKS];
	int count;
} *shared;

extern bool stub;		/* without the kernel module */

#define CHECK(cond, ...)						\
	do {								\
		if (!(cond)) {						\
			printf("# %s:%d: %s: ", __FILE__, __LINE__, #cond); \
			printf("" __VA_ARGS__);				\
			printf("\n");					\
			return 1;					\
		}							\
	} while (0)

void sync_ranks(void);
/* Wait until all ranks but one are here. */
void sync_others(void);
/* The words of an error. */
const char *text(rar_comm_t *c, int err);
struct rar_opts local_opts(void);
/* Exchange cards and join: the way that every program goes. */
int join(rar_comm_t **c, uint32_t rank, uint32_t size, const struct rar_opts *opts);
/* RANKS ranks with the usual options; NULL if they cannot join. */
rar_comm_t *join_all(uint32_t rank);
/* Start a sum of one number in place. */
int start_sum(rar_comm_t *c, int64_t *x, int flags, rar_req_t *req);
/* An all-reduce of @count numbers, checked: 0 or -errno. */
int check_sums(rar_comm_t *c, uint64_t count);

struct test {
	const char *name;
	int (*fn)(uint32_t rank);
};

extern const struct test call_tests[], failure_tests[], card_tests[];	/* until a name is NULL */

#endif /* LIBRAR_TEST_H */
