// SPDX-License-Identifier: GPL-2.0
/*
 * rar_digits: data-parallel training over AF_RAR.
 *
 * A small neural network learns to read handwritten digits. Every rank is a
 * process with its own share of the images and one socket. In each step a rank
 * sends its gradient and receives the sum of all gradients. All ranks start
 * from equal weights and add equal sums, so their weights stay equal. A second
 * operation checks that in every step: an integer sum of a hash.
 *
 *	rar_digits FILE SIZE                       the training of SIZE ranks in one
 *	                                           process, for comparison
 *	rar_digits FILE SIZE RANK SELF NEXT [DIR]  one rank of SIZE; SELF and NEXT
 *	                                           are IPv4 or IPv6 addresses; DIR
 *	                                           is for logs (rar_digits.h)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rar.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rar_digits.h"

enum {
	IMAGES_MAX = 2000,
	HELD_OUT = 360,		/* images that no rank trains with */
	BATCH = 64,		/* images per step, of all ranks together */
	EPOCHS = 20,
	HASHES = 3,
};

static const uint64_t group = 0x646967697473;	/* any number: "digits" */
static const float first_rate = 0.1f, momentum = 0.9f;

static struct image {
	float pixel[PIXELS];
	int label;
} images[IMAGES_MAX];
static int n_images;

static struct model weights, velocity;

static int size, rank = -1;		/* rank -1: all ranks in this process */
static int fd = -1;
static const char *logdir;
static uint64_t ops, bytes;		/* posted by this rank */

/* ------------------------------------------------------------ failure */

#define REASON(r)	[RAR_R_##r] = #r

static const char *const reasons[RAR_R_NR] = {
	REASON(NONE), REASON(CLOSED), REASON(DIED), REASON(SILENT),
	REASON(LEFT), REASON(RESET), REASON(ABORTED), REASON(TIMEOUT),
	REASON(JOIN_TIMEOUT), REASON(DUPLICATE), REASON(SIZE),
	REASON(VERSION), REASON(TABLE), REASON(COLLECTIVE), REASON(DTYPE),
	REASON(REDOP), REASON(COUNT), REASON(ROOT), REASON(FLAGS),
	REASON(MTU), REASON(NODEV), REASON(FAULT),
};

static void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	if (rank >= 0)
		fprintf(stderr, "rank %d: ", rank);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* A call on the socket failed: errno says how, RAR_ERROR which rank and why. */
static void __attribute__((noreturn)) fail_socket(const char *call)
{
	struct rar_error e = { 0 };
	socklen_t len = sizeof(e);
	int err = errno;

	if (fd < 0 || getsockopt(fd, SOL_RAR, RAR_ERROR, &e, &len) || !e.err)
		fail("%s: %s", call, strerror(err));
	fail("%s: %s (RAR_ERROR: %s rank %u other %u op %llu silent %u ms)",
	     call, strerror(err),
	     e.reason < RAR_R_NR ? reasons[e.reason] : "?",
	     e.rank, e.other, (unsigned long long)e.op_seq, e.silent_ms);
}

/* ------------------------------------------------------------ the group */

static struct sockaddr_rar member(uint32_t r, const char *address)
{
	struct sockaddr_rar a = {
		.srar_family = AF_RAR,
		.srar_group = group,
		.srar_rank = r,
		.srar_size = size,
	};

	if (inet_pton(AF_INET, address, a.srar_addr) == 1)
		a.srar_af = AF_INET;
	else if (inet_pton(AF_INET6, address, a.srar_addr) == 1)
		a.srar_af = AF_INET6;
	else
		fail("not an address: %s", address);
	return a;
}

/*
 * RAR_SECURITY=auth or encrypt in the environment: each packet has a seal. The
 * key is the 32 bytes of the file RAR_KEY_FILE; whoever starts the ranks makes
 * it, and brings it to their hosts on a way that is secret.
 */
static void set_security(void)
{
	const char *level = getenv("RAR_SECURITY"), *path = getenv("RAR_KEY_FILE");
	uint32_t security = RAR_SECURITY_AUTH;
	char key[RAR_KEY_LONG];
	FILE *f;

	if (!level || !strcmp(level, "off"))
		return;
	if (!strcmp(level, "encrypt"))
		security = RAR_SECURITY_ENCRYPT;
	else if (strcmp(level, "auth"))
		fail("RAR_SECURITY: off, auth or encrypt");
	f = path ? fopen(path, "r") : NULL;
	if (!f || fread(key, sizeof(key), 1, f) != 1)
		fail("RAR_KEY_FILE: no file with %zu bytes", sizeof(key));
	fclose(f);
	if (setsockopt(fd, SOL_RAR, RAR_KEY, key, sizeof(key)))
		fail_socket("RAR_KEY");
	if (setsockopt(fd, SOL_RAR, RAR_SECURITY, &security, sizeof(security)))
		fail_socket("RAR_SECURITY");
}

/* Returns when the whole ring is closed; members may start in any order. */
static void join_group(const char *self_address, const char *next_address)
{
	struct sockaddr_rar self = member(rank, self_address);
	struct sockaddr_rar next = member((rank + 1) % size, next_address);

	fd = socket(AF_RAR, SOCK_SEQPACKET, 0);
	if (fd < 0)
		fail_socket("socket(AF_RAR)");
	set_security();
	if (bind(fd, (struct sockaddr *)&self, sizeof(self)))
		fail_socket("bind");
	if (connect(fd, (struct sockaddr *)&next, sizeof(next)))
		fail_socket("connect");
}

/* Contributes to the next operation: an f32 sum, unless dtype is another type. */
static void post(const void *data, size_t len, int dtype)
{
	struct rar_op op = { .size = sizeof(op), .dtype = dtype };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(op))];
	} control = { 0 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_RAR;
	cmsg->cmsg_type = RAR_OP;
	cmsg->cmsg_len = CMSG_LEN(sizeof(op));
	memcpy(CMSG_DATA(cmsg), &op, sizeof(op));
	if (sendmsg(fd, &msg, MSG_NOSIGNAL) != (ssize_t)len)
		fail_socket("sendmsg");
	ops++;
	bytes += len;
}

/* Receives the next result; results come in the order of the posts. */
static void result(void *data, size_t len)
{
	ssize_t n = recv(fd, data, len, 0);

	if (n < 0)
		fail_socket("recv");
	if (n != (ssize_t)len)
		fail("recv: %zd bytes of %zu", n, len);
}

/* ------------------------------------------------------------ logs */

static FILE *open_log(const char *name, int step)
{
	char path[4096];
	FILE *f;

	if (step < 0)
		snprintf(path, sizeof(path), "%s/%s.%d", logdir, name, rank);
	else
		snprintf(path, sizeof(path), "%s/%s.%d.%d", logdir, name, step,
			 rank);
	f = fopen(path, "w");
	if (!f)
		fail("%s: %s", path, strerror(errno));
	return f;
}

static void log_model(const char *name, int step, const struct model *m)
{
	FILE *f;

	if (!logdir || step % CHECK_EVERY)
		return;
	f = open_log(name, step);
	if (fwrite(m, sizeof(*m), 1, f) != 1 || fclose(f))
		fail("%s: %s", logdir, strerror(errno));
}

/* With a box: how many chunks it has summed, and how many the ring. */
static const char *box_shares(void)
{
	static char text[80];
	struct rar_info info = { 0 };
	socklen_t len = sizeof(info);

	if (fd < 0 || getsockopt(fd, SOL_RAR, RAR_INFO, &info, &len) ||
	    info.box_state == RAR_BOX_NONE)
		return "";
	snprintf(text, sizeof(text), " box=%llu ring=%llu", (unsigned long long)info.box_sums,
		 (unsigned long long)info.ring_sums);
	return text;
}

static void log_hash(int step, uint64_t hash)
{
	static FILE *f;

	if (!logdir)
		return;
	if (!f)
		f = open_log("hash", -1);
	fprintf(f, "%d %016llx\n", step, (unsigned long long)hash);
	if (fflush(f))
		fail("%s: %s", logdir, strerror(errno));
}

/* ------------------------------------------------------------ equal weights */

static uint64_t hash_weights(void)
{
	const float *w = (const float *)&weights;
	uint64_t hash = 0xcbf29ce484222325;	/* FNV-1a, by words */
	uint32_t word;

	for (size_t i = 0; i < WEIGHTS; i++) {
		memcpy(&word, w + i, sizeof(word));
		hash = (hash ^ word) * 0x100000001b3;
	}
	return hash;
}

/*
 * Fills in the hash and rotations of it: SIZE equal hashes sum to SIZE times the
 * hash. Thanks to the rotations neither a carry nor a factor of 2 in SIZE can hide
 * a difference.
 */
static void fill_hashes(uint64_t *h, uint64_t hash)
{
	for (int i = 0; i < HASHES; i++)
		h[i] = i ? hash << 21 * i | hash >> (64 - 21 * i) : hash;
}

static uint64_t post_weights_check(int step)
{
	uint64_t hash = hash_weights(), h[HASHES];

	log_hash(step, hash);
	fill_hashes(h, hash);
	post(h, sizeof(h), RAR_I64);
	return hash;
}

static void finish_weights_check(int step, uint64_t hash)
{
	uint64_t h[HASHES], sum[HASHES];

	fill_hashes(h, hash);
	result(sum, sizeof(sum));
	for (int i = 0; i < HASHES; i++)
		if (sum[i] != h[i] * size)
			fail("step %d: the ranks' weights differ", step);
}

/* ------------------------------------------------------------ data */

/* A random number; every rank gets the same sequence, because seeds are constants. */
static uint32_t random_below(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005 + 1442695040888963407;
	return (*seed >> 32) * n >> 32;
}

static void shuffle(int *order, int n, uint64_t seed)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; i > 0; i--) {
		int j = random_below(&seed, i + 1), tmp = order[i];

		order[i] = order[j];
		order[j] = tmp;
	}
}

/* Reads lines of 64 pixels and a label, and shuffles them: they are sorted by writer. */
static void load_images(const char *path)
{
	static struct image file[IMAGES_MAX];
	static int order[IMAGES_MAX];
	FILE *f = fopen(path, "r");
	int n, i;

	if (!f)
		fail("%s: %s", path, strerror(errno));
	for (n = 0; n < IMAGES_MAX; n++) {
		for (i = 0; i < PIXELS; i++) {
			if (fscanf(f, "%f,", &file[n].pixel[i]) != 1)
				break;
			file[n].pixel[i] /= 16;
		}
		if (i < PIXELS || fscanf(f, "%d", &file[n].label) != 1)
			break;
		if (file[n].label < 0 || file[n].label >= CLASSES)
			fail("%s:%d: no digit", path, n + 1);
	}
	if (ferror(f) || n <= HELD_OUT + BATCH)
		fail("%s: %d images", path, n);
	fclose(f);

	shuffle(order, n, 1);
	for (i = 0; i < n; i++)
		images[i] = file[order[i]];
	n_images = n;
}

static void init_weights(void)
{
	float *w1 = &weights.w1[0][0], *w2 = &weights.w2[0][0];
	uint64_t seed = 2;

	for (int i = 0; i < PIXELS * HIDDEN; i++)
		w1[i] = ((int)random_below(&seed, 20001) - 10000) * 3e-5f;
	for (int i = 0; i < HIDDEN * CLASSES; i++)
		w2[i] = ((int)random_below(&seed, 20001) - 10000) * 4e-5f;
}

/* ------------------------------------------------------------ the network */

/* hidden = max(0, w1 x + b1), p = softmax(w2 hidden + b2) */
static void forward(const float *x, float *hidden, float *p)
{
	float max, sum = 0;

	memcpy(hidden, weights.b1, sizeof(weights.b1));
	for (int i = 0; i < PIXELS; i++)
		for (int j = 0; x[i] && j < HIDDEN; j++)
			hidden[j] += x[i] * weights.w1[i][j];

	memcpy(p, weights.b2, sizeof(weights.b2));
	for (int j = 0; j < HIDDEN; j++) {
		hidden[j] = hidden[j] > 0 ? hidden[j] : 0;
		for (int k = 0; hidden[j] && k < CLASSES; k++)
			p[k] += hidden[j] * weights.w2[j][k];
	}

	max = p[0];
	for (int k = 1; k < CLASSES; k++)
		max = p[k] > max ? p[k] : max;
	for (int k = 0; k < CLASSES; k++)
		sum += p[k] = expf(p[k] - max);
	for (int k = 0; k < CLASSES; k++)
		p[k] /= sum;
}

/* Adds the gradient of one image's cross-entropy to grad. */
static void backward(const struct image *im, struct model *grad)
{
	float hidden[HIDDEN], d1[HIDDEN], d2[CLASSES];

	forward(im->pixel, hidden, d2);
	d2[im->label] -= 1;

	for (int k = 0; k < CLASSES; k++)
		grad->b2[k] += d2[k];
	for (int j = 0; j < HIDDEN; j++) {
		d1[j] = 0;
		for (int k = 0; hidden[j] && k < CLASSES; k++) {
			grad->w2[j][k] += hidden[j] * d2[k];
			d1[j] += weights.w2[j][k] * d2[k];
		}
		grad->b1[j] += d1[j];
	}
	for (int i = 0; i < PIXELS; i++)
		for (int j = 0; im->pixel[i] && j < HIDDEN; j++)
			grad->w1[i][j] += im->pixel[i] * d1[j];
}

/* Returns the accuracy on the images that no rank trains with; sets the loss. */
static double evaluate(double *loss)
{
	float hidden[HIDDEN], p[CLASSES];
	int right = 0;

	*loss = 0;
	for (int n = 0; n < HELD_OUT; n++) {
		int best = 0;

		forward(images[n].pixel, hidden, p);
		for (int k = 1; k < CLASSES; k++)
			if (p[k] > p[best])
				best = k;
		right += best == images[n].label;
		*loss -= log(p[images[n].label] + 1e-30) / HELD_OUT;
	}
	return (double)right / HELD_OUT;
}

/* ------------------------------------------------------------ training */

/* Rank r owns training images r, r + size, r + 2 size ...; this is its i-th. */
static const struct image *shard(int r, int i)
{
	return &images[HELD_OUT + i * size + r];
}

static void local_gradient(const int *order, int batch, struct model *grad)
{
	int first = rank < 0 ? 0 : rank;
	int last = rank < 0 ? size - 1 : rank;

	memset(grad, 0, sizeof(*grad));
	for (int r = first; r <= last; r++)
		for (int i = 0; i < batch; i++)
			backward(shard(r, order[i]), grad);
}

/* Updates with momentum; the rate falls to 0, so that the end does not depend on luck. */
static void update(const struct model *grad, int images_in_sum, float rate)
{
	float *w = (float *)&weights, *v = (float *)&velocity;
	const float *g = (const float *)grad;

	for (size_t i = 0; i < WEIGHTS; i++) {
		v[i] = momentum * v[i] - rate * g[i] / images_in_sum;
		w[i] += v[i];
	}
}

/*
 * Does two operations: the sum of the gradients, and the check that all ranks start
 * the step from equal weights, which runs while the gradients are computed.
 */
static void train_step(int step, const int *order, int batch, float rate)
{
	struct model grad;
	uint64_t hash;

	if (rank < 0) {
		local_gradient(order, batch, &grad);
	} else {
		hash = post_weights_check(step);
		local_gradient(order, batch, &grad);
		log_model("grad", step, &grad);
		post(&grad, sizeof(grad), RAR_F32);
		finish_weights_check(step, hash);
		result(&grad, sizeof(grad));
		log_model("sum", step, &grad);
	}
	update(&grad, batch * size, rate);
}

static void train(void)
{
	int per_rank = (n_images - HELD_OUT) / size, batch = BATCH / size;
	int order[IMAGES_MAX], step = 0;
	double loss, accuracy = 0;
	float rate;

	for (int epoch = 1; epoch <= EPOCHS; epoch++) {
		rate = first_rate * (EPOCHS - epoch + 1) / EPOCHS;
		shuffle(order, per_rank, epoch);
		for (int i = 0; i + batch <= per_rank; i += batch)
			train_step(step++, order + i, batch, rate);
		accuracy = evaluate(&loss);
		if (rank <= 0)
			printf("epoch %2d  step %3d  loss %.4f  accuracy %.4f\n",
			       epoch, step, loss, accuracy);
	}
	if (rank >= 0)
		finish_weights_check(step, post_weights_check(step));

	printf("done rank=%d steps=%d ops=%llu bytes=%llu%s accuracy=%.4f\n",
	       rank, step, (unsigned long long)ops, (unsigned long long)bytes,
	       box_shares(), accuracy);
}

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 6 && argc != 7) {
		fprintf(stderr,
			"usage: rar_digits FILE SIZE [RANK SELF NEXT [DIR]]\n");
		return 2;
	}
	size = atoi(argv[2]);
	if (size < 1 || size > BATCH)
		fail("SIZE: 1 to %d", BATCH);
	setvbuf(stdout, NULL, _IOLBF, 0);
	load_images(argv[1]);
	init_weights();

	if (argc > 3) {
		rank = atoi(argv[3]);
		if (rank < 0 || rank >= size)
			fail("RANK: 0 to %d", size - 1);
		logdir = argv[6];
		join_group(argv[4], argv[5]);
	}
	train();
	return 0;		/* the exit leaves the group; all results are received */
}
