// SPDX-License-Identifier: GPL-2.0
/*
 * rar MODE CTL RANK N GROUP [BOX]: a rank of AF_RAR, at 10.77.0.(RANK + 1), perhaps with a box at
 * that IPv4 address. MODE is "copy", "in-place", "out-of-place"; "registered": in place, in memory
 * that is pinned once; "blocking": one call does all, in place; "auto" or "doubling": the same with
 * RAR_AUTO or RAR_DOUBLING; "local": in place, with all ranks in one namespace, at 127.0.0.1.
 *
 * If the module refuses MSG_ZEROCOPY or RAR_OP.dst, or the latter alone, it does not support the
 * mode: the rank says so and leaves.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../selftests/lib/rar_util.h"
#include "bench.h"

static const char * const mode_names[] = {
	"copy", "in-place", "out-of-place", "registered", "blocking", "auto", "doubling", "local",
};

#define BOX_TRIES	300		/* 10 ms apart */

enum mode {
	COPY, IN_PLACE, OUT_OF_PLACE, REGISTERED, BLOCKING, AUTO, DOUBLING, LOCAL, MODES
};

/* One call does all, in place. */
static bool is_blocking(enum mode mode)
{
	return mode == BLOCKING || mode == AUTO || mode == DOUBLING;
}

struct member {
	int fd;
	enum mode mode;
	struct rar_reg reg;		/* registered memory; len 0: none */
};

static uint8_t dtype_of(enum bench_type type)
{
	return type == BENCH_F32 ? RAR_F32 : RAR_I32;
}

static int copy(struct member *m, void *buf, size_t bytes, enum bench_type type)
{
	struct rar_op op = rar_op_of(dtype_of(type), 0, 0);
	ssize_t n;
	int err = rar_send(m->fd, buf, bytes, 0, &op);

	if (err)
		return err;
	n = rar_recv_all(m->fd, buf, bytes, NULL);
	return n < 0 ? n : (size_t)n == bytes ? 0 : -EMSGSIZE;
}

/* When an empty record comes, the sum is in its place. */
static int zero_copy(struct member *m, void *src, void *dst, size_t bytes, enum bench_type type)
{
	struct rar_op op = rar_op_of(dtype_of(type), 0, 0);
	struct rar_done done;
	char none;
	ssize_t n;
	int err;

	op.dst = src == dst ? 0 : (uintptr_t)dst;
	err = rar_send(m->fd, src, bytes, MSG_ZEROCOPY, &op);
	if (err)
		return err;
	n = rar_recv_all(m->fd, &none, sizeof(none), &done);
	return n < 0 ? n : n || done.status ? -EIO : 0;
}

static int one_call(struct member *m, void *buf, size_t bytes, enum bench_type type)
{
	struct rar_op op = rar_op_of(dtype_of(type), 0, 0);

	op.dst = (uintptr_t)buf;
	return rar_send(m->fd, buf, bytes, 0, &op);
}

/* Registers the whole buffer, again when its address or length has changed. */
static int pin_once(struct member *m, void *buf, size_t room)
{
	struct rar_reg reg = { .addr = (uintptr_t)buf, .len = room };

	if (m->reg.addr == reg.addr && m->reg.len == reg.len)
		return 0;
	if (m->reg.len && setsockopt(m->fd, SOL_RAR, RAR_UNREG, &m->reg, sizeof(m->reg)))
		return -errno;
	m->reg = reg;
	return setsockopt(m->fd, SOL_RAR, RAR_REG, &reg, sizeof(reg)) ? -errno : 0;
}

static int allreduce(struct bench_rank *r, size_t bytes, enum bench_type type)
{
	struct member *m = r->priv;
	void *src = r->buf;
	int err;

	if (m->mode == COPY)
		return copy(m, src, bytes, type);
	if (is_blocking(m->mode))
		return one_call(m, src, bytes, type);
	if (m->mode == REGISTERED) {
		err = pin_once(m, src, r->room);
		if (err)
			return err;
	}
	if (m->mode != OUT_OF_PLACE)
		return zero_copy(m, src, src, bytes, type);
	err = zero_copy(m, src, r->spare, bytes, type);
	r->buf = r->spare;
	r->spare = src;
	return err;
}

/* Only rank 0 sends when it copies; in its own memory each rank passes all of it. */
static int broadcast(struct bench_rank *r, size_t bytes)
{
	struct rar_op op = rar_op_of(RAR_I32, bytes, 0);
	struct member *m = r->priv;
	bool copies = m->mode == COPY;
	ssize_t n;
	int err = m->mode == REGISTERED ? pin_once(m, r->buf, r->room) : 0;

	op.collective = RAR_BROADCAST;
	if (m->mode == OUT_OF_PLACE || is_blocking(m->mode))
		return -EOPNOTSUPP;
	if (!err)
		err = rar_send(m->fd, r->buf, copies && r->rank ? 0 : bytes,
			       copies ? 0 : MSG_ZEROCOPY, &op);
	if (err)
		return err;
	n = rar_recv_all(m->fd, r->buf, copies ? bytes : 0, NULL);
	return n < 0 ? n : (size_t)n == (copies ? bytes : 0) ? 0 : -EMSGSIZE;
}

/* Does one small operation with all ranks. */
static int probe(struct member *m)
{
	static char data[2][4096] __attribute__((aligned(4096)));

	switch (m->mode) {
	case IN_PLACE:
	case REGISTERED:
	case LOCAL: return zero_copy(m, data[0], data[0], 64, BENCH_I32);
	case BLOCKING:
	case AUTO:
	case DOUBLING: return one_call(m, data[0], 64, BENCH_I32);
	case OUT_OF_PLACE: return zero_copy(m, data[0], data[1], 64, BENCH_I32);
	default: return copy(m, data[0], 64, BENCH_I32);
	}
}

/* Waits until the box takes part, if it does. The ranks that come next use none. */
static void await_box(int fd)
{
	struct rar_info info = {};

	for (int i = 0; i < BOX_TRIES && info.box_state != RAR_BOX_OPEN; i++) {
		rar_sleep_ms(10);
		if (rar_info(fd, &info))
			break;
	}
	rar_write("/proc/sys/net/rar/box", "-");
}

static int parse_mode(const char *name)
{
	int mode = 0;

	while (mode < MODES && strcmp(name, mode_names[mode]))
		mode++;
	return mode;
}

int main(int argc, char **argv)
{
	struct rar_ring ring = { .where = RAR_ON_IPV4, .netns = "" };
	struct bench_peer peer = { .allreduce = allreduce, .broadcast = broadcast };
	struct member m = {};
	uint32_t rank;
	int err;

	m.mode = argc == 6 || argc == 7 ? parse_mode(argv[1]) : MODES;
	if (m.mode == MODES) {
		fprintf(stderr, "usage: rar MODE CTL RANK N GROUP [BOX]\n");
		return 2;
	}
	rank = atoi(argv[3]);
	ring.size = atoi(argv[4]);
	ring.group = strtoull(argv[5], NULL, 0);
	peer.spare = m.mode == OUT_OF_PLACE;
	ring.schedule = m.mode == AUTO ? RAR_AUTO : m.mode == DOUBLING ? RAR_DOUBLING : 0;
	if (m.mode == LOCAL) {
		ring.where = RAR_ON_LO4;
		ring.netns = NULL;
	}
	if (argc == 7 && rar_write("/proc/sys/net/rar/box", argv[6]))
		return bench_refuse(argv[2], rank, "net.rar.box: %s", argv[6]);
	m.fd = rar_open(&ring, rank);
	if (argc == 7)
		await_box(m.fd);
	if (m.fd < 0)
		return bench_refuse(argv[2], rank, "AF_RAR: joining: %s", strerror(-m.fd));
	err = probe(&m);
	if (err == -EOPNOTSUPP || err == -EINVAL)
		return bench_refuse(argv[2], rank, "mode=%s not in this module", mode_names[m.mode]);
	if (err)
		return bench_refuse(argv[2], rank, "AF_RAR: first operation: %s", strerror(-err));
	return bench_serve(argv[2], rank, &peer, &m);
}
