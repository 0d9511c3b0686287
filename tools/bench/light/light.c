// SPDX-License-Identifier: GPL-2.0
/*
 * The speed of light of a ring on one machine: only the additions and copies of an
 * all-reduce of N ranks, with the module's own kernels. It works tile by tile, so that a tile
 * stays in the cache until all ranks have had it.
 *
 *	echo "FORM RANKS BYTES f32|i32 TILE CPUS [NETNS...]" > /sys/kernel/debug/rar_light
 *	cat /sys/kernel/debug/rar_light			nanoseconds
 *
 * Take a tile of the block that rank b would inject. FORM is
 *   ring     Rank b+1 adds rank b's tile to its own and stores the sum, rank b+2 adds that sum
 *            to its own, and so on. Then all other ranks copy the last rank's sum.
 *   nary     The sum of a piece of all ranks' tiles is computed in a piece of memory that
 *            stays in the first cache, in the same order, and stored once for each rank.
 *   packets  As ring, but the tile travels between the ranks' namespaces, see packets.c.
 *   auth     Nothing is added: a tile is sealed and opened for each hop, packet by packet, as
 *            RAR_SECURITY_AUTH does, by the cipher alone.
 *   encrypt  The same for RAR_SECURITY_ENCRYPT.
 * The sums are bit-identical to the ring's, and are checked. CPUS work on tiles of their own.
 */
#include <crypto/chacha20poly1305.h>
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

#include "light.h"
#include "reduce/impl.h"
#include "reduce/reduce.h"

#define PIECE		SZ_4K	/* nary: bytes of a partial sum */
#define SAMPLE		64	/* bytes of a tile that are checked */
#define HEAD		64	/* auth, encrypt: bytes of a packet's header */
#define PACKET		1448	/* and of a packet: with a seal, and an MTU of 1500 */

struct light_work {
	struct work_struct work;
	const struct light_job *job;
	void (*tile)(struct light_work *w, u32 tile);
	void *piece;		/* nary: a partial sum; auth, encrypt: a sealed packet */
	u32 first;
	bool bad;		/* auth, encrypt: a packet did not open */
};

static DEFINE_MUTEX(lock);	/* one job at a time; protects last_ns */
static u64 last_ns;
static struct dentry *file;

/* ------------------------------------------------------------ the work itself */

static void sum_tile(const struct light_job *job, u32 tile)
{
	u32 rank = light_injector(job, tile), n = job->ranks, len = light_len(job, tile), i;
	struct rar_reduce_ctx ctx;

	for (i = 1; i < n; i++) {
		void *in = light_tile(job, (rank + i - 1) % n, tile);
		void *own = light_tile(job, (rank + i) % n, tile);

		rar_reduce_begin(&ctx);
		rar_reduce(&ctx, job->kind, own, own, in, own, len);
		rar_reduce_end(&ctx);
	}
}

static void share_tile(const struct light_job *job, u32 tile)
{
	u32 n = job->ranks, last = (light_injector(job, tile) + n - 1) % n, i;
	u32 len = light_len(job, tile);
	struct rar_reduce_ctx ctx;

	for (i = 1; i < n; i++) {
		rar_reduce_begin_copy(&ctx, len);
		rar_reduce_copy(&ctx, light_tile(job, (last + i) % n, tile),
				light_tile(job, last, tile), len);
		rar_reduce_end(&ctx);
	}
}

static void ring_tile(struct light_work *w, u32 tile)
{
	sum_tile(w->job, tile);
	share_tile(w->job, tile);
}

static void nary_tile(struct light_work *w, u32 tile)
{
	const struct light_job *job = w->job;
	u32 rank = light_injector(job, tile), n = job->ranks, len = light_len(job, tile);
	struct rar_reduce_ctx ctx;
	u32 off, part, i;
	void *in;

	for (off = 0; off < len; off += part) {
		part = min_t(u32, PIECE, len - off);
		rar_reduce_begin(&ctx);
		for (i = 1; i < n; i++) {
			in = i == 1 ? light_tile(job, rank, tile) + off : w->piece;
			rar_reduce(&ctx, job->kind, w->piece, w->piece, in,
				   light_tile(job, (rank + i) % n, tile) + off, part);
		}
		for (i = 0; i < n && n > 1; i++)
			rar_reduce_copy(&ctx, light_tile(job, i, tile) + off, w->piece, part);
		rar_reduce_end(&ctx);
	}
}

/* Seal a packet, and open it. @clear: bytes that are not encrypted */
static bool seal_packet(void *piece, const u8 *packet, u32 clear, u32 len, u64 counter)
{
	static const u8 key[CHACHA20POLY1305_KEY_SIZE] = "speed of light";

	chacha20poly1305_encrypt(piece, packet + clear, len - clear, packet, clear, counter, key);
	return chacha20poly1305_decrypt(piece, piece,
					len - clear + CHACHA20POLY1305_AUTHTAG_SIZE, packet,
					clear, counter, key);
}

static void seal_tile(struct light_work *w, u32 tile, bool encrypt)
{
	const struct light_job *job = w->job;
	u32 len = light_len(job, tile), hop, off, n;

	for (hop = 0; hop < 2 * (job->ranks - 1); hop++) {
		const u8 *data = light_tile(job, hop % job->ranks, tile);

		local_bh_disable();
		for (off = 0; off < len; off += PACKET - HEAD) {
			n = min_t(u32, PACKET, len - off);
			w->bad |= !seal_packet(w->piece, data + off,
					       encrypt ? min_t(u32, HEAD, n) : n, n, hop);
		}
		local_bh_enable();
	}
}

static void auth_tile(struct light_work *w, u32 tile) { seal_tile(w, tile, false); }
static void encrypt_tile(struct light_work *w, u32 tile) { seal_tile(w, tile, true); }

static void run_tiles(struct work_struct *work)
{
	struct light_work *w = container_of(work, struct light_work, work);
	const struct light_job *job = w->job;
	u32 tile;

	for (tile = w->first; tile < job->ntiles; tile += job->cpus) {
		w->tile(w, tile);
		cond_resched();
	}
}

static int work_alloc(const struct light_job *job, struct light_work *works,
		      void (*tile)(struct light_work *w, u32 tile))
{
	u32 i;

	for (i = 0; i < job->cpus; i++) {
		INIT_WORK(&works[i].work, run_tiles);
		works[i].job = job;
		works[i].tile = tile;
		works[i].first = i;
		works[i].piece = kmalloc(PIECE, GFP_KERNEL);
		if (!works[i].piece)
			return -ENOMEM;
	}
	return 0;
}

static void run(struct light_job *job, struct light_work *works)
{
	u64 start = ktime_get_ns();
	u32 i;

	for (i = 1; i < job->cpus; i++)
		queue_work_on(cpumask_nth(i, cpu_online_mask), system_wq, &works[i].work);
	run_tiles(&works[0].work);
	for (i = 1; i < job->cpus; i++)
		flush_work(&works[i].work);
	job->ns = ktime_get_ns() - start;
}

/* Runs the job without packets, tile by tile. */
static int run_with(struct light_job *job, void (*tile)(struct light_work *w, u32 tile))
{
	struct light_work *works = kcalloc(job->cpus, sizeof(*works), GFP_KERNEL);
	int err = works ? work_alloc(job, works, tile) : -ENOMEM;
	u32 i;

	if (!err)
		run(job, works);
	for (i = 0; works && i < job->cpus; i++) {
		err = works[i].bad ? -EBADMSG : err;
		kfree(works[i].piece);
	}
	kfree(works);
	return err;
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
			fill_tile(light_tile(job, rank, tile), rank, tile,
				  light_len(job, tile) / sizeof(u32));
			cond_resched();
		}
}

/* Checks the beginning of a tile at all ranks against sums of the scalar kernels. */
static bool check_tile(const struct light_job *job, u32 tile)
{
	u32 n = job->ranks, first = light_injector(job, tile), len, i;
	u32 want[SAMPLE / sizeof(u32)], own[SAMPLE / sizeof(u32)];

	len = min_t(u32, SAMPLE, light_len(job, tile));
	fill_tile(want, first, tile, len / sizeof(u32));
	for (i = 1; i < n; i++) {
		fill_tile(own, (first + i) % n, tile, len / sizeof(u32));
		job->kind->gen(want, want, want, own, len);
	}
	for (i = 0; i < n; i++)
		if (memcmp(light_tile(job, i, tile), want, len))
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
}

static int job_alloc(struct light_job *job)
{
	size_t i, n = (size_t)job->ranks * job->ntiles;

	job->data = kvcalloc(n, sizeof(*job->data), GFP_KERNEL);
	if (!job->data)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		job->data[i] = (void *)__get_free_pages(GFP_KERNEL, get_order(job->tile));
		if (!job->data[i])
			return -ENOMEM;
		cond_resched();
	}
	return 0;
}

/* The numbers at the end of a line: a file descriptor of each rank's namespace. */
static int parse_netns(struct light_job *job, const char *text)
{
	u32 i;
	int n;

	for (i = 0; i < job->ranks; i++, text += n)
		if (sscanf(text, "%d%n", &job->netns[i], &n) != 1)
			return -EINVAL;
	return 0;
}

static int job_parse(struct light_job *job, char *form, const char *text)
{
	char type[4];
	int at;

	if (sscanf(text, "%7s %u %llu %3s %u %u%n", form, &job->ranks, &job->bytes, type,
		   &job->tile, &job->cpus, &at) != 6)
		return -EINVAL;
	job->kind = rar_reduce_kind(strcmp(type, "i32") ? RAR_F32 : RAR_I32, RAR_SUM);
	job->cpus = min(job->cpus, num_online_cpus());
	if (!job->ranks || job->ranks > LIGHT_RANKS || !job->cpus || job->bytes % sizeof(u32) ||
	    !job->bytes || job->bytes > SZ_1G || !job->tile || job->tile > RAR_REDUCE_MAX ||
	    job->tile % sizeof(u32))
		return -EINVAL;
	job->ntiles = DIV_ROUND_UP_ULL(job->bytes, job->tile);
	return strcmp(form, "packets") ? 0 : parse_netns(job, text + at);
}

static int job_do(struct light_job *job, const char *form)
{
	if (!strcmp(form, "ring"))
		return run_with(job, ring_tile);
	if (!strcmp(form, "nary"))
		return run_with(job, nary_tile);
	if (!strcmp(form, "auth"))
		return run_with(job, auth_tile);
	if (!strcmp(form, "encrypt"))
		return run_with(job, encrypt_tile);
	return strcmp(form, "packets") ? -EINVAL : light_packets(job);
}

static bool adds(const char *form)
{
	return strcmp(form, "auth") && strcmp(form, "encrypt");
}

static int job_run(const char *text)
{
	struct light_job job = {};
	char form[8];
	int err = job_parse(&job, form, text);

	if (err)
		return err;
	err = job_alloc(&job);
	if (!err) {
		fill(&job);
		err = job_do(&job, form);
	}
	if (!err) {
		err = !adds(form) || check(&job) ? 0 : -EBADE;
		last_ns = job.ns;
	}
	job_free(&job);
	return err;
}

/* ------------------------------------------------------------ the file */

static ssize_t light_write(struct file *f, const char __user *buf, size_t len, loff_t *pos)
{
	char text[400] = {};
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
