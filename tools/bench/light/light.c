// SPDX-License-Identifier: GPL-2.0
/*
 * The speed of light of a ring on one machine: only the additions and copies of an
 * all-reduce of N ranks, with the module's own kernels and without a single packet. It
 * works tile by tile, so that a tile stays in the cache until all ranks have had it.
 *
 *	echo "RANKS BYTES f32|i32 TILE CPUS" > /sys/kernel/debug/rar_light
 *	cat /sys/kernel/debug/rar_light			nanoseconds
 *
 * Take a tile of the block that rank b would inject. Rank b+1 adds rank b's tile to its
 * own and stores the sum, rank b+2 adds that sum to its own, and so on. Then all other
 * ranks copy the last rank's sum. The sums are bit-identical to the ring's, and are
 * checked. CPUS work on tiles of their own.
 */
#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "reduce/reduce.h"
#include "reduce/impl.h"

#define MAX_RANKS	64
#define MAX_TILE	RAR_REDUCE_MAX
#define SAMPLE		64	/* bytes of a tile that are checked */

/**
 * struct light_job - one all-reduce
 * @ranks: number of ranks
 * @bytes: length of the tensor, a multiple of the element
 * @kind: sum of f32 or of i32
 * @tile:  length of a tile, bytes, at most MAX_TILE
 * @ntiles: tiles of a rank
 * @cpus:  CPUs that take part
 * @data:  [rank * @ntiles + tile]: memory of @tile bytes
 * @work:  one work item per CPU
 * @ns:    time that the job took
 */
struct light_job {
	u32 ranks;
	u64 bytes;
	const struct rar_kind *kind;
	u32 tile;
	u32 ntiles;
	u32 cpus;
	void **data;
	struct light_work {
		struct work_struct work;
		struct light_job *job;
		u32 first;
	} *work;
	u64 ns;
};

static DEFINE_MUTEX(lock);	/* one job at a time; protects last_ns */
static u64 last_ns;
static struct dentry *file;

static void *tile_at(const struct light_job *job, u32 rank, u32 tile)
{
	return job->data[(size_t)rank * job->ntiles + tile];
}

static u32 tile_len(const struct light_job *job, u32 tile)
{
	return min_t(u64, job->tile, job->bytes - (u64)tile * job->tile);
}

/* The rank that injects a tile; blocks are as even as whole tiles allow. */
static u32 injector(const struct light_job *job, u32 tile)
{
	return (u64)tile * job->ranks / job->ntiles;
}

/* ------------------------------------------------------------ the work itself */

static void sum_tile(const struct light_job *job, u32 tile)
{
	u32 rank = injector(job, tile), n = job->ranks, len = tile_len(job, tile), i;
	struct rar_reduce_ctx ctx;

	for (i = 1; i < n; i++) {
		void *in = tile_at(job, (rank + i - 1) % n, tile);
		void *own = tile_at(job, (rank + i) % n, tile);

		rar_reduce_begin(&ctx);
		rar_reduce(&ctx, job->kind, own, own, in, own, len);
		rar_reduce_end(&ctx);
	}
}

static void share_tile(const struct light_job *job, u32 tile)
{
	u32 n = job->ranks, last = (injector(job, tile) + n - 1) % n, i;
	u32 len = tile_len(job, tile);
	struct rar_reduce_ctx ctx;

	for (i = 1; i < n; i++) {
		rar_reduce_begin_copy(&ctx, len);
		rar_reduce_copy(&ctx, tile_at(job, (last + i) % n, tile),
				tile_at(job, last, tile), len);
		rar_reduce_end(&ctx);
	}
}

static void run_tiles(struct work_struct *work)
{
	struct light_work *w = container_of(work, struct light_work, work);
	const struct light_job *job = w->job;
	u32 tile;

	for (tile = w->first; tile < job->ntiles; tile += job->cpus) {
		sum_tile(job, tile);
		share_tile(job, tile);
		cond_resched();
	}
}

static void run(struct light_job *job)
{
	u64 start;
	u32 i;

	for (i = 0; i < job->cpus; i++) {
		INIT_WORK(&job->work[i].work, run_tiles);
		job->work[i].job = job;
		job->work[i].first = i;
	}
	start = ktime_get_ns();
	for (i = 1; i < job->cpus; i++)
		queue_work_on(cpumask_nth(i, cpu_online_mask), system_wq, &job->work[i].work);
	run_tiles(&job->work[0].work);
	for (i = 1; i < job->cpus; i++)
		flush_work(&job->work[i].work);
	job->ns = ktime_get_ns() - start;
}

/* ------------------------------------------------------------ data */

/* The initial element: as a float 0.5 and a little more, different at every place. */
static u32 element(u32 rank, u32 tile, u32 i)
{
	return 0x3f000000 | ((tile * 8191 + i * 31 + rank * 127) & 0xffff);
}

static void fill_tile(u32 *data, u32 rank, u32 tile, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		data[i] = element(rank, tile, i);
}

static void fill(const struct light_job *job)
{
	u32 rank, tile;

	for (rank = 0; rank < job->ranks; rank++)
		for (tile = 0; tile < job->ntiles; tile++) {
			fill_tile(tile_at(job, rank, tile), rank, tile,
				  tile_len(job, tile) / sizeof(u32));
			cond_resched();
		}
}

/* Checks the beginning of a tile at all ranks against sums of the scalar kernels. */
static bool check_tile(const struct light_job *job, u32 tile)
{
	u32 n = job->ranks, first = injector(job, tile), len, i;
	u32 want[SAMPLE / sizeof(u32)], own[SAMPLE / sizeof(u32)];

	len = min_t(u32, SAMPLE, tile_len(job, tile));
	fill_tile(want, first, tile, len / sizeof(u32));
	for (i = 1; i < n; i++) {
		fill_tile(own, (first + i) % n, tile, len / sizeof(u32));
		job->kind->gen(want, want, want, own, len);
	}
	for (i = 0; i < n; i++)
		if (memcmp(tile_at(job, i, tile), want, len))
			return false;
	return true;
}

static bool check(const struct light_job *job)
{
	u32 tile;

	for (tile = 0; tile < job->ntiles; tile++)
		if (!check_tile(job, tile))
			return false;
	return true;
}

/* ------------------------------------------------------------ a job's memory */

static void job_free(struct light_job *job)
{
	size_t i;

	for (i = 0; job->data && i < (size_t)job->ranks * job->ntiles; i++)
		free_pages((unsigned long)job->data[i], get_order(job->tile));
	kvfree(job->data);
	kfree(job->work);
}

static int job_alloc(struct light_job *job)
{
	size_t i, n = (size_t)job->ranks * job->ntiles;

	job->data = kvcalloc(n, sizeof(*job->data), GFP_KERNEL);
	job->work = kcalloc(job->cpus, sizeof(*job->work), GFP_KERNEL);
	if (!job->data || !job->work)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		job->data[i] = (void *)__get_free_pages(GFP_KERNEL, get_order(job->tile));
		if (!job->data[i])
			return -ENOMEM;
		cond_resched();
	}
	return 0;
}

static int job_parse(struct light_job *job, const char *text)
{
	char type[4];

	if (sscanf(text, "%u %llu %3s %u %u", &job->ranks, &job->bytes, type, &job->tile,
		   &job->cpus) != 5)
		return -EINVAL;
	job->kind = rar_reduce_kind(strcmp(type, "i32") ? RAR_F32 : RAR_I32, RAR_SUM);
	job->cpus = min(job->cpus, num_online_cpus());
	if (!job->ranks || job->ranks > MAX_RANKS || !job->cpus || job->bytes % sizeof(u32) ||
	    !job->bytes || job->bytes > SZ_1G || !job->tile || job->tile > MAX_TILE ||
	    job->tile % sizeof(u32))
		return -EINVAL;
	job->ntiles = DIV_ROUND_UP_ULL(job->bytes, job->tile);
	return 0;
}

static int job_run(const char *text)
{
	struct light_job job = {};
	int err = job_parse(&job, text);

	if (err)
		return err;
	err = job_alloc(&job);
	if (!err) {
		fill(&job);
		run(&job);
		err = check(&job) ? 0 : -EBADE;
		last_ns = job.ns;
	}
	job_free(&job);
	return err;
}

/* ------------------------------------------------------------ the file */

static ssize_t light_write(struct file *f, const char __user *buf, size_t len, loff_t *pos)
{
	char text[80] = {};
	int err;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, len))
		return -EFAULT;
	mutex_lock(&lock);
	err = job_run(text);
	mutex_unlock(&lock);
	return err ?: len;
}

static ssize_t light_read(struct file *f, char __user *buf, size_t len, loff_t *pos)
{
	char text[24];
	int n;

	mutex_lock(&lock);
	n = scnprintf(text, sizeof(text), "%llu\n", last_ns);
	mutex_unlock(&lock);
	return simple_read_from_buffer(buf, len, pos, text, n);
}

static const struct file_operations light_fops = {
	.owner = THIS_MODULE,
	.read = light_read,
	.write = light_write,
};

static int __init light_init(void)
{
	int err = rar_reduce_init();

	if (err)
		return err;
	file = debugfs_create_file("rar_light", 0600, NULL, NULL, &light_fops);
	if (!IS_ERR(file))
		return 0;
	rar_reduce_exit();
	return PTR_ERR(file);
}

static void __exit light_exit(void)
{
	debugfs_remove(file);
	rar_reduce_exit();
}

module_init(light_init);
module_exit(light_exit);
MODULE_DESCRIPTION("AF_RAR: the speed of light of a ring on one machine");
MODULE_LICENSE("GPL");
