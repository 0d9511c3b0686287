/* SPDX-License-Identifier: GPL-2.0 */
/* A rank of the MPI programs for mpi_preload.sh: its checks, its numbers, its network namespace. */
#ifndef MPI_RANK_H
#define MPI_RANK_H

#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, size, bad;
static int home = -1;

#define CHECK(cond, ...)						\
	do {								\
		if (!(cond)) {						\
			printf("# rank %d: %s: ", rank, #cond);		\
			printf(__VA_ARGS__);				\
			printf("\n");					\
			bad++;						\
		}							\
	} while (0)

/* What rank @r has at @i; all sums are exact. */
static inline int number(int r, int i) { return (r * 5 + i * 3 + r * i) % 4 + 1; }

static inline int sum(int i)
{
	int s = 0;

	for (int r = 0; r < size; r++)
		s += number(r, i);
	return s;
}

/* Go to another network namespace; returns the old one, or -1. */
static inline int go_to(int fd)
{
	int old = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || old < 0 || setns(fd, CLONE_NEWNET)) {
		perror("setns");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	close(fd);
	return old;
}

/*
 * After MPI_Init(). With RAR_NETNS=PREFIX the ranks are on hosts of their own, as far as the ring
 * is concerned.
 */
static inline void begin_rank(void)
{
	const char *prefix = getenv("RAR_NETNS");
	char path[256];

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (!prefix)
		return;
	snprintf(path, sizeof(path), "/run/netns/%s%d", prefix, rank);
	home = go_to(open(path, O_RDONLY | O_CLOEXEC));
}

/* Print what all ranks found. */
static inline void print_bad(void)
{
	int all;

	PMPI_Reduce(&bad, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("%d ranks: %d bad\n", size, all);
}

/* Print it, and end. */
static inline void end_rank(void)
{
	print_bad();
	if (home >= 0)		/* MPICH may have connections to close there */
		close(go_to(home));
	MPI_Finalize();
}

#endif /* MPI_RANK_H */
