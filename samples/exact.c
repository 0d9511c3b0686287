// SPDX-License-Identifier: GPL-2.0
/*
 * exact RANK SIZE SELF NEXT NUMBER...: sums each NUMBER over SIZE processes, once as the ring
 * adds floats, and once exactly. If the ranks exchange their numbers, only the plain sums
 * change.
 */
#include <arpa/inet.h>
#include <err.h>
#include <linux/rar.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "exact.h"

static void address(struct sockaddr_rar *a, const char *ip, int rank, int size)
{
	*a = (struct sockaddr_rar){ .srar_family = AF_RAR, .srar_af = AF_INET,
				    .srar_group = 44, .srar_rank = rank, .srar_size = size };
	if (inet_pton(AF_INET, ip, a->srar_addr) != 1)
		errx(2, "%s is no IPv4 address", ip);
}

static void set(int fd, int option, unsigned int value)
{
	if (setsockopt(fd, SOL_RAR, option, &value, sizeof(value)))
		err(1, "setsockopt");
}

/* Replaces all of @buf by the result. */
static void allreduce(int fd, void *buf, size_t len, int dtype, int redop)
{
	size_t got = 0;
	ssize_t n;

	set(fd, RAR_DTYPE, dtype);
	set(fd, RAR_REDOP, redop);
	if (send(fd, buf, len, MSG_NOSIGNAL) != (ssize_t)len)
		err(1, "send");
	while (got < len) {
		n = recv(fd, (char *)buf + got, len - got, 0);
		if (n < 0)
			err(1, "recv");
		if (!n)
			errx(1, "a member has left");
		got += n;
	}
}

static void *allocate(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		err(1, "calloc");
	return p;
}

/* Return: the elements of the block that begins with element @first. */
static size_t block_len(size_t n, size_t first)
{
	return n - first < EXACT_BLOCK ? n - first : EXACT_BLOCK;
}

/* Replaces all of @x by the exact sums. */
static void exact_sum(int fd, float *x, size_t n)
{
	size_t blocks = (n + EXACT_BLOCK - 1) / EXACT_BLOCK, i;
	struct exact_block *b = allocate(blocks, sizeof(*b));
	int64_t *sum = allocate(n, sizeof(*sum));

	for (i = 0; i < n; i += EXACT_BLOCK)
		b[i / EXACT_BLOCK] = exact_scan(x + i, block_len(n, i));
	allreduce(fd, b, blocks * sizeof(*b), RAR_U8, RAR_MAX);
	for (i = 0; i < n; i += EXACT_BLOCK)
		exact_encode(sum + i, x + i, block_len(n, i), b[i / EXACT_BLOCK]);
	allreduce(fd, sum, n * sizeof(*sum), RAR_I64, RAR_SUM);
	for (i = 0; i < n; i += EXACT_BLOCK)
		exact_decode(x + i, sum + i, block_len(n, i), b[i / EXACT_BLOCK]);
	free(sum);
	free(b);
}

int main(int argc, char **argv)
{
	int fd, rank = argc > 5 ? atoi(argv[1]) : 0, size = argc > 5 ? atoi(argv[2]) : 0;
	struct sockaddr_rar self, next;
	size_t n = argc - 5, i;
	float *plain, *exact;

	if (size < 1)
		errx(2, "usage: exact RANK SIZE SELF NEXT NUMBER...");
	address(&self, argv[3], rank, size);
	address(&next, argv[4], (rank + 1) % size, size);
	plain = allocate(n, sizeof(*plain));
	exact = allocate(n, sizeof(*exact));
	for (i = 0; i < n; i++)
		plain[i] = exact[i] = strtof(argv[5 + i], NULL);

	fd = socket(AF_RAR, SOCK_SEQPACKET, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&self, sizeof(self)))
		err(1, "socket, bind");
	if (connect(fd, (struct sockaddr *)&next, sizeof(next)))
		err(1, "connect");
	allreduce(fd, plain, n * sizeof(*plain), RAR_F32, RAR_SUM);
	exact_sum(fd, exact, n);
	for (i = 0; i < n; i++)
		printf("rank %d: plain %.9g exact %.9g\n", rank, plain[i], exact[i]);
	return 0;
}
