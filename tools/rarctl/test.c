// SPDX-License-Identifier: GPL-2.0
/* rarctl test: this host and another one sum numbers, to see that packets pass between them. */
#include "rarctl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define GROUP	0x7261726374657374	/* "rarctest" */
#define SHORT	1000			/* operations of one number */
#define LONG	16			/* operations of ... */
#define NUMBERS	(1 << 20)

static const uint32_t size = 2;
static float numbers[NUMBERS];

/* The address of the peer, and the own one by which packets to it leave. */
static void ends(const char *peer, struct sockaddr_rar *own, struct sockaddr_rar *to)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} sa = { .v4 = { .sin_port = htons(9) } };
	bool v6 = strchr(peer, ':');
	socklen_t len = v6 ? sizeof(sa.v6) : sizeof(sa.v4);
	void *addr = v6 ? (void *)&sa.v6.sin6_addr : (void *)&sa.v4.sin_addr;
	size_t bytes = v6 ? 16 : 4;
	int fd;

	*own = (struct sockaddr_rar) { .srar_family = AF_RAR, .srar_group = GROUP,
				       .srar_size = size };
	sa.any.sa_family = own->srar_af = v6 ? AF_INET6 : AF_INET;
	if (inet_pton(own->srar_af, peer, addr) != 1)
		die(EXIT_USAGE, "\"%s\" is no address", peer);
	*to = *own;
	memcpy(to->srar_addr, addr, bytes);
	fd = socket(own->srar_af, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, &sa.any, len) || getsockname(fd, &sa.any, &len))
		die(EXIT_FAILED, "no way to %s: %s", peer, strerror(errno));
	close(fd);
	memcpy(own->srar_addr, addr, bytes);
	own->srar_rank = memcmp(own->srar_addr, to->srar_addr, bytes) > 0;
	to->srar_rank = !own->srar_rank;
	if (!memcmp(own->srar_addr, to->srar_addr, bytes))
		die(EXIT_USAGE, "%s is this host: the test needs two", peer);
}

static void failed(int fd, const char *what, const char *peer)
{
	struct rar_error error = { 0 };
	socklen_t len = sizeof(error);
	const char *why = strerror(errno);
	char word[WORD];

	getsockopt(fd, SOL_RAR, RAR_ERROR, &error, &len);
	if (error.reason && error.reason != RAR_R_JOIN_TIMEOUT)
		die(EXIT_FAILED, "%s: %s (%s)", what, why,
		    name_of(&reasons, error.reason, word));
	die(EXIT_FAILED, "%s: %s; does \"rarctl test\" run at %s, too?", what, why, peer);
}

/* Sum @n numbers @times times. Return: seconds. */
static double sum(int fd, size_t n, int times, const struct sockaddr_rar *own, const char *peer)
{
	struct timespec start, end;
	ssize_t got;
	size_t i, at;

	clock_gettime(CLOCK_MONOTONIC, &start);
	while (times--) {
		for (i = 0; i < n; i++)
			numbers[i] = i % 1000 + own->srar_rank;
		if (send(fd, numbers, n * sizeof(*numbers), 0) < 0)
			failed(fd, "send", peer);
		for (at = 0; at < n * sizeof(*numbers); at += got) {
			got = recv(fd, (char *)numbers + at, n * sizeof(*numbers) - at, 0);
			if (got <= 0)
				failed(fd, "recv", peer);
		}
		for (i = 0; i < n; i++)
			if (numbers[i] != 2 * (i % 1000) + 1)
				die(EXIT_FAILED, "number %zu is %g, not %zu: a wrong sum", i,
				    numbers[i], 2 * (i % 1000) + 1);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9;
}

static void net_family(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_NET_MAX + 1];

	parse(nlh, tb, RAR_A_NET_MAX);
	*(uint32_t *)arg = get_u32(tb[RAR_A_NET_FAMILY]);
}

/* Join a ring with @peer, where the same command runs, and sum short and long tensors. */
void test(const char *peer)
{
	const struct filter none = { 0 };
	struct sockaddr_rar own, to;
	struct conn *c = conn_open();
	double quick, slow;
	uint32_t family;
	int fd;

	conn_do(c, RAR_CMD_NET_GET, &none, net_family, &family);
	conn_close(c);
	ends(peer, &own, &to);
	own.srar_family = to.srar_family = family;
	fd = socket(family, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof(own)))
		failed(fd, "bind", peer);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		failed(fd, "connect", peer);
	quick = sum(fd, 1, SHORT, &own, peer) / SHORT;
	slow = sum(fd, NUMBERS, LONG, &own, peer) / LONG;
	close(fd);
	if (opt_json) {
		json_open(NULL, '{');
		json_u64("rank", own.srar_rank);
		json_double("short_us", quick * 1e6);
		json_double("long_us", slow * 1e6);
		json_double("bytes_per_s", sizeof(numbers) / slow);
		json_close('}');
		json_line();
		return;
	}
	printf("ok: rank %u of 2, %d sums of 1 number in %.1f us each, ", own.srar_rank, SHORT,
	       quick * 1e6);
	printf("%d of 4 MiB in %.2f ms each (%.1f MB/s)\n", LONG, slow * 1e3,
	       sizeof(numbers) / slow / 1e6);
}
