// SPDX-License-Identifier: GPL-2.0
/* allreduce RANK SIZE SELF NEXT: sums four numbers over SIZE processes. */
#include <arpa/inet.h>
#include <err.h>
#include <linux/rar.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	struct sockaddr_rar self = { .srar_family = AF_RAR, .srar_af = AF_INET, .srar_group = 42 };
	struct sockaddr_rar next;
	size_t got = 0;
	ssize_t n;
	int fd, rank = argc == 5 ? atoi(argv[1]) : 0, size = argc == 5 ? atoi(argv[2]) : 0;
	float x[4] = { 1, 0.5, rank, rank * rank };

	if (size < 1)
		errx(2, "usage: allreduce RANK SIZE SELF NEXT");
	self.srar_rank = rank;
	self.srar_size = size;
	next = self;
	next.srar_rank = (rank + 1) % size;
	if (inet_pton(AF_INET, argv[3], self.srar_addr) != 1 ||
	    inet_pton(AF_INET, argv[4], next.srar_addr) != 1)
		errx(2, "SELF and NEXT are IPv4 addresses");

	fd = socket(AF_RAR, SOCK_SEQPACKET, 0);
	if (fd < 0)
		err(1, "socket");
	if (bind(fd, (struct sockaddr *)&self, sizeof(self)))
		err(1, "bind");
	if (connect(fd, (struct sockaddr *)&next, sizeof(next)))
		err(1, "connect");		/* returns when all members are there */
	if (send(fd, x, sizeof(x), 0) != sizeof(x))
		err(1, "send");
	while (got < sizeof(x)) {		/* a signal may cut a long result into pieces */
		n = recv(fd, (char *)x + got, sizeof(x) - got, 0);
		if (n < 0)
			err(1, "recv");
		if (!n)
			errx(1, "a member has left");
		got += n;
	}
	printf("rank %d: %g %g %g %g\n", rank, x[0], x[1], x[2], x[3]);
	return 0;
}
