// SPDX-License-Identifier: GPL-2.0
/*
 * librar_pmix: sums with the library. The ranks exchange their cards by PMIx, as Slurm has it.
 *
 *	srun --mpi=pmix librar_pmix [SECONDS]
 *
 * Rank r contributes r + 1 to each element. With SECONDS the ranks go on adding for so long.
 */
#include <errno.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rar/librar.h>

enum { COUNT = 100000, WAIT_MS = 30000, MAX_RANKS = 1024 };

static float x[COUNT];
static pmix_proc_t self;

/* The number of ranks; 0: PMIx does not know it. */
static unsigned int job_size(void)
{
	pmix_proc_t job = self;
	pmix_value_t *value;
	unsigned int size;

	job.rank = PMIX_RANK_WILDCARD;
	if (PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value))
		return 0;
	size = value->data.uint32;
	PMIX_VALUE_RELEASE(value);
	return size;
}

/* All ranks give their cards and come back with those of all. */
static int exchange(const struct rar_card *own, struct rar_card *cards, unsigned int size)
{
	pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
	pmix_proc_t peer = self;
	pmix_value_t *card;
	pmix_info_t info;
	bool all = true;
	int err;

	value.data.bo.bytes = (char *)own;
	value.data.bo.size = sizeof(*own);
	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &all, PMIX_BOOL);
	if (PMIx_Put(PMIX_GLOBAL, "rar.card", &value) || PMIx_Commit() ||
	    PMIx_Fence(NULL, 0, &info, 1))
		return -EPROTO;
	for (peer.rank = 0; peer.rank < size; peer.rank++) {
		if (PMIx_Get(&peer, "rar.card", NULL, 0, &card))
			return -EPROTO;
		err = card->data.bo.size == sizeof(*cards) ? 0 : -EPROTO;
		if (!err)
			memcpy(&cards[peer.rank], card->data.bo.bytes, sizeof(*cards));
		PMIX_VALUE_RELEASE(card);
		if (err)
			return err;
	}
	return 0;
}

static int add(rar_comm_t *comm, unsigned int seconds)
{
	time_t end = time(NULL) + seconds;
	float again;
	int i, err;

	for (i = 0; i < COUNT; i++)
		x[i] = self.rank + 1;
	err = rar_allreduce(comm, x, x, COUNT, RAR_F32, RAR_SUM);
	/* All ranks go on or none: the rank whose clock is behind may still want to. */
	for (again = seconds > 0; !err && again > 0; ) {
		again = time(NULL) < end;
		err = rar_allreduce(comm, &again, &again, 1, RAR_F32, RAR_SUM);
	}
	return err;
}

int main(int argc, char **argv)
{
	static const struct rar_card none;
	static struct rar_card cards[MAX_RANKS];
	rar_comm_t *comm = NULL;
	struct rar_card own;
	unsigned int size, r;
	char text[256];
	int err;

	if (PMIx_Init(&self, NULL, 0))
		return fprintf(stderr, "librar_pmix: no PMIx; start it with srun --mpi=pmix\n"), 2;
	size = job_size();
	if (!size || size > MAX_RANKS)
		return fprintf(stderr, "librar_pmix: 1 to %d ranks\n", MAX_RANKS), 2;

	err = rar_probe(NULL);
	if (!err)
		err = rar_card_make(NULL, &own);
	if (err)		/* the others find a card of zeros, and do not wait for this rank */
		own = none;
	if (exchange(&own, cards, size) && !err)
		err = -EPROTO;
	for (r = 0; r < size && !err; r++) {
		if (!memcmp(&cards[r], &none, sizeof(none)))
			return fprintf(stderr, "rank %u: rank %u cannot add\n", self.rank, r), 1;
	}
	if (!err)
		err = rar_comm_start(&comm, cards, size, self.rank, NULL);
	if (!err)
		err = rar_comm_ready(comm, WAIT_MS);
	if (!err)
		err = add(comm, argc > 1 ? atoi(argv[1]) : 0);
	if (err)
		fprintf(stderr, "rank %u: %s\n", self.rank,
			rar_strerror(comm, err, text, sizeof(text)));
	else
		printf("rank %u: %g\n", self.rank, x[COUNT - 1]);
	rar_comm_free(comm);
	PMIx_Finalize(NULL, 0);
	return err != 0;
}
