// SPDX-License-Identifier: GPL-2.0
/*
 * librar: sums with the library. The ranks exchange their cards as files.
 *
 *	librar DIR SIZE RANK
 *
 * All ranks see DIR: on one host, or by NFS. It must hold no cards of an earlier run. Rank r
 * contributes r + 1 to each element.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rar/librar.h>

enum { COUNT = 100000, WAIT_MS = 30000 };

static float x[COUNT];

/* Write our card; others see all of it or none. */
static int write_card(const char *dir, unsigned int rank, const struct rar_card *card)
{
	char path[256], part[272];
	FILE *f;

	snprintf(path, sizeof(path), "%s/card.%u", dir, rank);
	snprintf(part, sizeof(part), "%s.part", path);
	f = fopen(part, "w");
	if (!f || fwrite(card, sizeof(*card), 1, f) != 1 || fclose(f) || rename(part, path))
		return -errno;
	return 0;
}

/* Read the card of a rank; waits until it is there. */
static int read_card(const char *dir, unsigned int rank, struct rar_card *card)
{
	int left_ms = WAIT_MS;
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/card.%u", dir, rank);
	for (; !(f = fopen(path, "r")); left_ms -= 10) {
		if (left_ms <= 0)
			return -ETIMEDOUT;
		usleep(10000);
	}
	if (fread(card, sizeof(*card), 1, f) != 1)
		left_ms = 0;
	fclose(f);
	return left_ms > 0 ? 0 : -EIO;
}

/* When the ring is closed all ranks have read the card. */
static void remove_card(const char *dir, unsigned int rank)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/card.%u", dir, rank);
	unlink(path);
}

int main(int argc, char **argv)
{
	struct rar_card cards[64];
	rar_comm_t *comm = NULL;
	unsigned int size, rank, r;
	char text[256];
	int err;

	size = argc == 4 ? atoi(argv[2]) : 0;
	rank = argc == 4 ? atoi(argv[3]) : 0;
	if (!size || size > 64 || rank >= size)
		return fprintf(stderr, "usage: librar DIR SIZE RANK\n"), 2;

	err = rar_card_make(NULL, &cards[rank]);
	if (!err)
		err = write_card(argv[1], rank, &cards[rank]);
	for (r = 0; r < size && !err; r++)
		err = read_card(argv[1], r, &cards[r]);
	if (!err)
		err = rar_comm_start(&comm, cards, size, rank, NULL);
	if (!err)
		err = rar_comm_ready(comm, WAIT_MS);
	remove_card(argv[1], rank);

	for (r = 0; r < COUNT; r++)
		x[r] = rank + 1;
	if (!err)
		err = rar_allreduce(comm, x, x, COUNT, RAR_F32, RAR_SUM);
	if (err)
		fprintf(stderr, "rank %u: %s\n", rank, rar_strerror(comm, err, text, sizeof(text)));
	else
		printf("rank %u: %g\n", rank, x[COUNT - 1]);
	rar_comm_free(comm);
	return err != 0;
}
