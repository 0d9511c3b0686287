// SPDX-License-Identifier: GPL-2.0
/*
 * wordcount RANK SIZE SELF NEXT [FILE...]: counts the words of all ranks' files. Each rank sends a
 * record for each word of its files; the kernel of rank 0 adds those of the same word, and rank 0
 * prints the sums. Words are runs of letters in lower case, cut after 32 letters.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <err.h>
#include <linux/rar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WORDS	100000		/* different words that rank 0 has room for */
#define BATCH	256		/* words in a call */

struct record {
	char word[32];		/* padded with zero bytes */
	__u32 times;
};

static struct record batch[BATCH];
static int filled;

/* Send the words of the batch; @flags is 0 with the last words of this rank. */
static void flush(int fd, int flags)
{
	size_t len = filled * sizeof(batch[0]), sent = 0;
	ssize_t n;

	do {
		n = send(fd, (char *)batch + sent, len - sent, flags);
		if (n < 0)
			err(1, "send");
		sent += n;		/* rank 0 may be busy, and a signal may cut a call */
	} while (sent < len);
	filled = 0;
}

static void count_words(int fd, FILE *in)
{
	char word[33];
	int c, n = 0;

	do {
		c = getc(in);
		if (isalpha(c) && n < 32)
			word[n++] = tolower(c);
		if (isalpha(c) || !n)
			continue;
		memset(&batch[filled], 0, sizeof(batch[0]));
		memcpy(batch[filled].word, word, n);
		batch[filled++].times = 1;
		n = 0;
		if (filled == BATCH)
			flush(fd, MSG_MORE);
	} while (c != EOF);
}

/* The first call describes the operation. It carries no word. */
static void begin(int fd)
{
	struct rar_op op = {
		.size = sizeof(op), .collective = RAR_REDUCE_BY_KEY, .dtype = RAR_U32,
		.redop = RAR_SUM, .key = sizeof(batch[0].word), .root = 0,
		.bytes = WORDS * sizeof(struct record),
	};
	char control[CMSG_SPACE(sizeof(op))] = {};
	struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_RAR;
	cmsg->cmsg_type = RAR_OP;
	cmsg->cmsg_len = CMSG_LEN(sizeof(op));
	memcpy(CMSG_DATA(cmsg), &op, sizeof(op));
	if (sendmsg(fd, &msg, MSG_MORE) < 0)
		err(1, "sendmsg");
}

/* The result: a record for each word, in no particular order; empty at other ranks. */
static void print_result(int fd)
{
	struct rar_done done = {};
	char control[CMSG_SPACE(sizeof(done))];
	struct iovec iov = { batch, sizeof(batch) };
	struct msghdr msg;
	ssize_t n;

	do {
		msg = (struct msghdr) { .msg_iov = &iov, .msg_iovlen = 1,
					.msg_control = control, .msg_controllen = sizeof(control) };
		n = recvmsg(fd, &msg, 0);
		if (n < 0)
			err(1, "recvmsg");
		for (size_t i = 0; i < n / sizeof(batch[0]); i++)
			printf("%7u %.32s\n", batch[i].times, batch[i].word);
	} while (!(msg.msg_flags & MSG_EOR));
	memcpy(&done, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(done));
	if (done.flags & RAR_DONE_PARTIAL)
		warnx("more than %d words: add the lines with the same word", WORDS * 7 / 8);
}

static int join(char **argv, int rank, int size)
{
	struct sockaddr_rar self = { .srar_family = AF_RAR, .srar_af = AF_INET, .srar_group = 43,
				     .srar_rank = rank, .srar_size = size };
	struct sockaddr_rar next = self;
	unsigned int direct = RAR_DIRECT;	/* records go straight to rank 0 */
	int fd = socket(AF_RAR, SOCK_SEQPACKET, 0);

	next.srar_rank = (rank + 1) % size;
	if (inet_pton(AF_INET, argv[3], self.srar_addr) != 1 ||
	    inet_pton(AF_INET, argv[4], next.srar_addr) != 1)
		errx(2, "SELF and NEXT are IPv4 addresses");
	if (fd < 0)
		err(1, "socket");
	if (setsockopt(fd, SOL_RAR, RAR_SCHEDULE, &direct, sizeof(direct)))
		err(1, "RAR_SCHEDULE");
	if (bind(fd, (struct sockaddr *)&self, sizeof(self)))
		err(1, "bind");
	if (connect(fd, (struct sockaddr *)&next, sizeof(next)))
		err(1, "connect");
	return fd;
}

int main(int argc, char **argv)
{
	int size = argc >= 5 ? atoi(argv[2]) : 0, fd;
	FILE *in;

	if (size < 1)
		errx(2, "usage: wordcount RANK SIZE SELF NEXT [FILE...]");
	fd = join(argv, atoi(argv[1]), size);
	begin(fd);
	for (int i = 5; i < argc; i++) {
		in = fopen(argv[i], "r");
		if (!in)
			err(1, "%s", argv[i]);
		count_words(fd, in);
		fclose(in);
	}
	flush(fd, 0);
	print_result(fd);
	return 0;
}
