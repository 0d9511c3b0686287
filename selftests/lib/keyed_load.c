// SPDX-License-Identifier: GPL-2.0
/*
 * Keyed reductions one after the other in a group with a box, while a script does things to the
 * box. Each has other keys, records and another root, and its result is compared with a table
 * that C makes.
 *
 * keyed_load [-n RANKS] [-c RECORDS] [-k KEYS] [-l SLOTS] -N NETNS (-r REPEATS | -e FILE)
 * -e: until FILE exists. -w: first wait until the legs are open. If there are more keys than slots the root has no
 * records itself, as only its recv() makes room. Prints "ops N" at the end.
 */
#include <getopt.h>

#include "keyed.h"

#define OPEN_S	20

static struct {
	uint32_t count, keys, slots, repeats;
	const char *end;
	bool wait;
} opt = { .count = 20000, .keys = 3000 };

static struct shared {
	struct rar_barrier barrier;
	uint32_t ops;
	bool over;
} *shared;

static int wait_open(int fd)
{
	struct rar_info info;

	for (int i = 0; i < 100 * OPEN_S; i++) {
		if (rar_info(fd, &info))
			return -1;
		if (info.box_state == RAR_BOX_OPEN)
			return 0;
		usleep(10000);
	}
	return 1;
}

/* Does another round follow? All ranks come to the same answer. */
static bool another(uint32_t rank, uint32_t done)
{
	if (rank == 0) {
		shared->over = opt.end ? !access(opt.end, F_OK) : done == opt.repeats;
		shared->ops = done;
	}
	return !sync_ranks() && !shared->over && !sync_ranks();
}

/* The root reads, and the sums of records with the same key are right. */
static int read_parts(int fd, const struct job *j)
{
	struct table got = table_of(j), want = table_of(j);
	struct rar_op op = op_of(j);
	uint8_t record[RECORD_MAX];
	struct rar_done done;
	uint32_t bad = 0;
	int err = send_all(fd, record, 0, 0, &op) ?: recv_records(fd, j, &got, 100, &done);

	for (uint32_t r = 0; r < ring.size && !err; r++) {
		uint64_t state = state_of(j, r);

		for (uint32_t i = 0; i < j->count && r != j->root && !err; i++) {
			next_record(j, &state, record);
			err = table_add(j, &want, record);
		}
	}
	for (uint32_t k = 0; k < j->keys; k++)
		bad += got.value[k] != want.value[k];
	table_free(&got);
	table_free(&want);
	RAR_CHECK(!err && !bad, "%d, %u keys are wrong", err, bad);
	return 0;
}

static int work(uint32_t rank, void *arg)
{
	int fd = open_rank(rank), err = 0;
	bool partial;

	(void)arg;
	RAR_CHECK(fd >= 0, "no group");
	if (opt.wait)
		RAR_CHECK(!wait_open(fd), "the leg does not open");
	for (uint32_t i = 0; another(rank, i); i++) {
		struct job j = {
			.key = 8 << i % 3, .dtype = i % 4 ? RAR_I64 : RAR_U32, .redop = RAR_SUM,
			.root = i % ring.size, .count = opt.count / (1 + i % 5),
			.keys = i % 4 == 3 ? 10 * opt.keys : opt.keys,
			.piece = 1 + i * 97 % 2000, .id = i + 1,
		};

		j.slots = opt.slots ?: j.keys * 5 / 4;
		if (opt.slots && rank == j.root)
			err = read_parts(fd, &j);
		else
			err = do_job(fd, &j, rank, &partial);
		if (err) {
			rar_log("operation %u", i);
			return err;
		}
	}
	close(fd);
	return shared->over ? 0 : 1;
}

int main(int argc, char **argv)
{
	int c, failed;

	ring.size = 4;
	while ((c = getopt(argc, argv, "n:c:k:l:r:e:N:w")) != -1) {
		switch (c) {
		case 'n': ring.size = atoi(optarg); break;
		case 'c': opt.count = atoi(optarg); break;
		case 'k': opt.keys = atoi(optarg); break;
		case 'l': opt.slots = atoi(optarg); break;
		case 'r': opt.repeats = atoi(optarg); break;
		case 'e': opt.end = optarg; break;
		case 'N': ring.netns = optarg; break;
		case 'w': opt.wait = true; break;
		default: return 2;
		}
	}
	rar_init();
	ring.where = RAR_ON_IPV4;
	ring.group = 1 + getpid();
	shared = rar_shared(sizeof(*shared));
	barrier = &shared->barrier;
	failed = rar_run(ring.size, ring.netns, 250, work, NULL);
	printf("# ops %u\n", shared->ops);
	return failed ? 1 : 0;
}
