/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of this test share: the plugin, ranks as processes, data, checks. */
#ifndef NCCL_TEST_H
#define NCCL_TEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../../lib/nccl/abi.h"

#define RANKS	4
#define LINKS	4		/* connections from a rank to the next */
#define TYPES	10		/* of enum nccl_dtype, that the plugin has */
#define REDOPS	4
#define MIB	(1 << 20)

/* What the ranks of a test share. */
extern struct shared {
	pthread_barrier_t barrier;
	char nets[RANKS][LINKS][NCCL_HANDLE_SIZE];
	char groups[2][RANKS][NCCL_HANDLE_SIZE];
} *shared;

#define CHECK(cond, ...)						\
	do {								\
		if (!(cond)) {						\
			printf("# %s:%d: %s: ", __FILE__, __LINE__, #cond); \
			printf("" __VA_ARGS__);				\
			printf("\n");					\
			return 1;					\
		}							\
	} while (0)

/* nccl_plugin.c */
void sync_ranks(void);
/* Let others run, for the @n-th time. False: this takes too long. */
bool nap(unsigned int n);
uint64_t random_bits(uint64_t seed, uint64_t i);
int count_fds(void);
/* User pages that were pinned since the start; -1 if this kernel does not count them. */
long pinned_ever(void);

/*
 * A release of NCCL: the newest versions of the network and of the tuner that it knows, and those
 * that it finds in the plugin; 0: none
 */
struct release {
	const char *name;
	int net, tuner;
	int takes, takes_tuner;
};

/* load.c */
extern const struct release releases[], *nccl;
#define PATH_BYTES	4096
extern char plugin[PATH_BYTES];		/* its path */
extern const void *net_table, *coll_table, *tuner_table;
const char *load(void);			/* NULL, or what is wrong */
void unload(void);
void log_line(enum nccl_level level, unsigned long topics, const char *file, int line,
	      const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The last warning of the plugin, which is forgotten then; "" if there was none. */
const char *warning(void);
const char *note(void);			/* the same of what is no warning */
/* From now on the plugin gets this error for sockets of AF_RAR, and has no stub. */
void refuse_family(int err);

/* A communicator of NCCL: what the plugin keeps of it, and what NCCL knows. */
struct communicator {
	uint64_t id;
	int traffic_class;
	void *net, *coll;
};

/* versions.c: the calls of all versions, for the current communicator */
extern struct communicator *current;
nccl_result_t net_init(void);
nccl_result_t net_finalize(void);
bool net_lacks(void);			/* what the plugin has no use for */
nccl_result_t net_properties(int dev, struct nccl_properties_v12 *p);
nccl_result_t net_listen(int dev, void *handle, void **listener);
nccl_result_t net_connect(int dev, void *handle, void **sender);
nccl_result_t net_accept(void *listener, void **receiver);
nccl_result_t net_reg(void *conn, void *data, size_t size, int memory, void **mhandle);
nccl_result_t net_reg_dmabuf(void *conn, void *data, size_t size, void **mhandle);
nccl_result_t net_dereg(void *conn, void *mhandle);
nccl_result_t net_isend(void *sender, const void *data, size_t size, void **request);
nccl_result_t net_irecv(void *receiver, int n, void *data, size_t size, void **request);
nccl_result_t net_iflush(void *receiver, void *data, int size, void **request);
nccl_result_t net_test(void *request, int *done, int *size);
nccl_result_t net_close_send(void *sender);
nccl_result_t net_close_recv(void *receiver);
nccl_result_t net_close_listen(void *listener);

nccl_result_t coll_init(void);
nccl_result_t coll_finalize(void);
bool coll_lacks(void);
nccl_result_t coll_properties(int dev, struct nccl_properties_v12 *p);
nccl_result_t coll_listen(int dev, void *handle, void **listener);
nccl_result_t coll_connect(void *handles[], int size, int rank, void *listener, void **group);
nccl_result_t coll_support(int dtype, int redop, int *yes);
nccl_result_t coll_reg(void *group, void *data, size_t size, int memory, void **mhandle);
nccl_result_t coll_reg_dmabuf(void *group, void *data, size_t size, void **mhandle);
nccl_result_t coll_dereg(void *group, void *mhandle);
nccl_result_t coll_allreduce(void *group, const void *src, void *dst, size_t count, int dtype,
			     int redop, void **request);
nccl_result_t coll_gather(void *group, const void *src, int n, void *dst, size_t size,
			  size_t block, size_t start, size_t len, void **request);
nccl_result_t coll_scatter(void *group, int n, const void *src, size_t size, void *dst,
			   size_t block, size_t start, size_t len, int dtype, int redop,
			   void **request);
nccl_result_t coll_iflush(void *group, void *data, int size, void **request);
nccl_result_t coll_test(void *request, int *done, int *size);
nccl_result_t coll_close(void *group);
nccl_result_t coll_close_listen(void *listener);

#define ALGORITHMS	7	/* that NCCL has */
#define PROTOCOLS	3
nccl_result_t tuner_init(size_t ranks, size_t nodes, void **ctx);
nccl_result_t tuner_choose(void *ctx, int function, size_t bytes, float *times, int algorithms,
			   int *channels);
nccl_result_t tuner_finalize(void *ctx);
bool tuner_lacks(void);

#define LATE	-100		/* a request is not complete in time */
/* Wait for @n requests: the bytes of each, or -enum nccl_result, or LATE. */
void net_wait(void *requests[], long got[], int n);
void coll_wait(void *requests[], long got[], int n);

/* links.c */
/* Rank r has LINKS connections to the next rank, and as many from the one before. */
struct links {
	void *senders[LINKS], *receivers[LINKS];
};

int open_links(uint32_t rank, struct links *l);
int close_links(struct links *l);
/* The first @size ranks make group number @nr. */
int open_group(uint32_t rank, uint32_t size, int nr, void **group);

/* data.c */
size_t type_size(int dtype);
/* The contribution of a rank: elements [first, first + n) of tensor @id. */
void fill(int dtype, int redop, uint32_t rank, uint64_t id, size_t first, size_t n, void *p);
/* The bits of the reduction over all ranks. */
void expect(int dtype, int redop, uint64_t id, size_t first, size_t n, void *p);

/* An error with a warning that has this in it. */
#define REFUSED(call, result, text)					\
	do {								\
		nccl_result_t _r = (call);				\
		const char *_w = warning();				\
									\
		CHECK(_r == (result) && strstr(_w, text), "result %d: %s", _r, _w); \
	} while (0)

/* A test is between init and finalize of a communicator, with each version that releases have. */
struct test {
	const char *name;
	int (*fn)(uint32_t rank);
	int victim;			/* 1 + the rank that is killed; 0: none */
	unsigned int flags;
};

#define ONCE	1			/* only with the newest version: it takes long */
#define BARE	2			/* it begins with load() */
#define ALL_RELEASES 4			/* with each release */
#define TUNER	8			/* with each version of the tuner */

extern const struct test comm_tests[], message_tests[], coll_tests[], window_tests[], bad_tests[],
	missing_tests[], tuner_tests[];

#endif /* NCCL_TEST_H */
