// SPDX-License-Identifier: GPL-2.0
/*
 * Cards, files of addresses, options and arguments.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "librar_test.h"

static int keys(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	rar_comm_t *c = NULL;
	int64_t x = 1;

	opts.flags = RAR_O_KEY;
	CHECK(!join(&c, rank, RANKS, &opts), "join");
	CHECK(!rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM) && x == RANKS, "sum");
	rar_comm_free(c);
	return 0;
}

/* RAR_SECURITY: rank 0's card has key and level for all, and no rank does with less. */
static int seals(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	struct rar_info info = {};
	socklen_t len = sizeof(info);
	rar_comm_t *c = NULL;
	int64_t x = 1;
	int err;

	setenv("RAR_SECURITY", rank ? "off" : "auth", 1);
	CHECK(!join(&c, rank, RANKS, &opts), "join");
	CHECK(!rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM) && x == RANKS, "sum");
	CHECK(stub || !getsockopt(rar_comm_fd(c), SOL_RAR, RAR_INFO, &info, &len), "RAR_INFO");
	CHECK(stub || info.security == RAR_SECURITY_AUTH, "level %u", info.security);
	sync_ranks();
	rar_comm_free(c);
	setenv("RAR_SECURITY", rank ? "auth" : "off", 1);
	CHECK(!rar_card_make(&opts, &shared->cards[rank]), "a card");
	sync_ranks();
	err = rank ? rar_comm_start(&c, shared->cards, RANKS, rank, &opts) : -ENOKEY;
	CHECK(err == -ENOKEY && strstr(text(NULL, err), "RAR_SECURITY"), "%s", text(NULL, err));
	setenv("RAR_SECURITY", "much", 1);
	CHECK(rar_card_make(&opts, &shared->cards[rank]) == -EINVAL, "an unknown level");
	unsetenv("RAR_SECURITY");
	return 0;
}

/* A file with so many bytes of a key of the boxes, named by the environment */
static int key_file(size_t len)
{
	static char path[] = "/tmp/rar_box_key.XXXXXX";
	static int fd = -1;

	if (fd < 0)
		fd = mkstemp(path);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, "0123456789abcdef0123456789abcdef0", len, 0) != (ssize_t)len)
		return -errno;
	return setenv("RAR_BOX_KEY_FILE", path, 1);
}

static int set_box(const char *box)
{
	FILE *f = fopen("/proc/sys/net/rar/box", "we");

	return !f || fputs(box, f) < 0 || fclose(f);
}

/* RAR_BOX_KEY_FILE: with the key of the boxes a group with seals has the box that is named. */
static int box_key(uint32_t rank)
{
	static const size_t bad[] = { 0, 15, 17, 31, 33 };
	struct rar_opts opts = local_opts();
	struct rar_info info = {};
	socklen_t len = sizeof(info);
	rar_comm_t *c = NULL;
	int64_t x = 1;
	int err;

	if (stub)
		return 0;
	setenv("RAR_SECURITY", "auth", 1);
	CHECK(rank || !set_box("127.0.0.9"), "net.rar.box");
	CHECK(!key_file(32), "a file");
	CHECK(!join(&c, rank, RANKS, &opts), "join");
	CHECK(!rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM) && x == RANKS, "sum");
	CHECK(!getsockopt(rar_comm_fd(c), SOL_RAR, RAR_INFO, &info, &len), "RAR_INFO");
	CHECK(info.nboxes == 1 && info.box_state == RAR_BOX_AWAY, "boxes %u", info.nboxes);
	sync_ranks();
	rar_comm_free(c);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(!key_file(bad[i]), "a file");
		err = rar_comm_start(&c, shared->cards, RANKS, rank, &opts);
		CHECK(err == -EINVAL, "a key of %zu bytes: %d", bad[i], err);
	}
	unlink(getenv("RAR_BOX_KEY_FILE"));
	err = rar_comm_start(&c, shared->cards, RANKS, rank, &opts);
	CHECK(err == -ENOENT, "no file: %d", err);
	unsetenv("RAR_BOX_KEY_FILE");
	unsetenv("RAR_SECURITY");
	sync_ranks();
	CHECK(rank || !set_box("-"), "net.rar.box");
	return 0;
}

/* Join with ranks on @hosts hosts, and look at what the group has. Loopback is the network. */
static int join_hosts(uint32_t rank, uint32_t hosts, uint32_t security, uint32_t schedule)
{
	struct rar_opts opts = local_opts();
	struct rar_info info = {};
	socklen_t len = sizeof(info), four = sizeof(uint32_t);
	uint32_t host = rank % hosts, by = 0;
	char local[] = "127.0.0.1";
	rar_comm_t *c = NULL;
	int64_t x = 1;

	local[sizeof(local) - 2] += host;
	opts.local = local;
	CHECK(!rar_card_make(&opts, &shared->cards[rank]), "card");
	shared->cards[rank].opaque[16] ^= host;		/* struct card: the host */
	sync_ranks();
	CHECK(!rar_comm_start(&c, shared->cards, RANKS, rank, &opts), "start");
	CHECK(!rar_comm_ready(c, WAIT_MS), "join");
	CHECK(!rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM) && x == RANKS, "sum");
	CHECK(!rar_barrier(c), "barrier");
	if (!stub) {
		CHECK(!getsockopt(rar_comm_fd(c), SOL_RAR, RAR_INFO, &info, &len), "RAR_INFO");
		CHECK(!getsockopt(rar_comm_fd(c), SOL_RAR, RAR_SCHEDULE, &by, &four), "schedule");
		CHECK(info.security == security, "%u hosts: level %u", hosts, info.security);
		CHECK(by == schedule, "%u hosts: schedule %u", hosts, by);
	}
	sync_ranks();
	rar_comm_free(c);
	return 0;
}

/* Without a word from the user: what the cards say of the hosts. Rank 0 speaks for all. */
static int left_open(uint32_t rank)
{
	struct rar_card card;
	struct rar_opts opts = local_opts();

	CHECK(!join_hosts(rank, 1, RAR_SECURITY_OFF, RAR_BY_RANKS), "one host");
	CHECK(!join_hosts(rank, 2, RAR_SECURITY_AUTH, RAR_AUTO), "two hosts");
	CHECK(!join_hosts(rank, RANKS, RAR_SECURITY_AUTH, RAR_AUTO), "a host each");
	if (!rank) {
		setenv("RAR_SECURITY", "off", 1);
		setenv("RAR_SCHEDULE", "by-ranks", 1);
	}
	CHECK(!join_hosts(rank, RANKS, RAR_SECURITY_OFF, RAR_BY_RANKS), "rank 0 says so");
	if (!rank) {
		setenv("RAR_SECURITY", "encrypt", 1);
		setenv("RAR_SCHEDULE", "doubling", 1);
	}
	CHECK(!join_hosts(rank, 1, RAR_SECURITY_ENCRYPT, RAR_DOUBLING), "and on one host");
	unsetenv("RAR_SECURITY");
	unsetenv("RAR_SCHEDULE");
	if (rank == 2)
		setenv("RAR_SECURITY", "auth", 1);
	CHECK(!join_hosts(rank, 1, RAR_SECURITY_AUTH, RAR_BY_RANKS), "another rank says so");
	unsetenv("RAR_SECURITY");
	setenv("RAR_SCHEDULE", "direct", 1);
	CHECK(rar_card_make(&opts, &card) == -EINVAL, "not a schedule for any network");
	unsetenv("RAR_SCHEDULE");
	return 0;
}

/* The same rank of the same group twice on one host. */
static int taken(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	rar_comm_t *c = join_all(rank), *second = NULL;
	int err;

	CHECK(c, "join");
	sync_ranks();
	if (!rank || !stub) {
		err = rar_comm_start(&second, shared->cards, RANKS, rank, &opts);
		CHECK(err == -EADDRINUSE && !second, "%s", text(NULL, err));
		CHECK(strstr(text(NULL, err), "taken"), "%s", text(NULL, err));
	}
	CHECK(!rar_barrier(c), "the first is undisturbed");
	rar_comm_free(c);
	return 0;
}

static int write_file(const char *path, const char *lines)
{
	FILE *f = fopen(path, "w");

	return f && fputs(lines, f) >= 0 && !fclose(f) ? 0 : -1;
}

static int from_file(uint32_t rank)
{
	char path[64];
	rar_comm_t *c;
	int64_t x = 1;

	snprintf(path, sizeof(path), "/tmp/librar-%d-%u", getppid(), rank);
	CHECK(!write_file(path, "# four ranks\ngroup=0x1234567\n127.0.0.1\n127.0.0.1\n"
				"\n127.0.0.1  # third\n127.0.0.1\n"), "write");
	CHECK(!rar_comm_from_file(&c, path, rank, NULL), "start");
	CHECK(!rar_comm_ready(c, WAIT_MS) && rar_comm_size(c) == 4, "join");
	CHECK(!rar_allreduce(c, &x, &x, 1, RAR_I64, RAR_SUM) && x == RANKS, "sum");
	rar_comm_free(c);
	CHECK(!write_file(path, "nonsense\n"), "write");
	CHECK(rar_comm_from_file(&c, path, 0, NULL) == -EINVAL, "no address");
	CHECK(!write_file(path, "127.0.0.1:99999\n"), "write");
	CHECK(rar_comm_from_file(&c, path, 0, NULL) == -EINVAL, "no port");
	CHECK(!write_file(path, "127.0.0.1\n") && rar_comm_from_file(&c, path, 1, NULL) == -EINVAL,
	      "no such rank");
	unlink(path);
	CHECK(rar_comm_from_file(&c, path, 0, NULL) == -ENOENT, "no file");
	return 0;
}

/* The port of the options counts; what a file cannot honour is refused. */
static int file_options(uint32_t rank)
{
	struct rar_opts opts = { .size = sizeof(opts), .port = 4001 };
	char path[64];
	rar_comm_t *c;

	snprintf(path, sizeof(path), "/tmp/librar-%d-%u", getppid(), rank);
	CHECK(!write_file(path, "127.0.0.1\n127.0.0.1\n127.0.0.1\n127.0.0.1\n"), "write");
	CHECK(!rar_comm_from_file(&c, path, rank, &opts), "a port");
	CHECK(!rar_comm_ready(c, WAIT_MS) && rar_comm_size(c) == RANKS, "join");
	CHECK(!rar_barrier(c), "barrier");
	rar_comm_free(c);
	opts.flags = RAR_O_KEY;
	CHECK(rar_comm_from_file(&c, path, rank, &opts) == -EINVAL && !c, "a file has no key");
	opts.flags = 0;
	opts.local = "127.0.0.1";
	CHECK(rar_comm_from_file(&c, path, rank, &opts) == -EINVAL && !c, "the file says it");
	unlink(path);
	return 0;
}

/* With RAR_STUB=1 the stub is what can be used. */
static int probe(uint32_t rank)
{
	struct rar_caps caps = {};
	rar_comm_t *c = join_all(rank);

	CHECK(c, "join");
	CHECK(!rar_probe(NULL) && !rar_probe(&caps), "probe");
	CHECK(!memcmp(&caps, rar_comm_caps(c), sizeof(caps)), "what it can do");
	CHECK(!rar_barrier(c), "barrier");
	rar_comm_free(c);
	return 0;
}

/* Lines as other systems end them, and long lines. */
static int file_lines(uint32_t rank)
{
	char path[64], lines[2048];
	rar_comm_t *c;

	snprintf(path, sizeof(path), "/tmp/librar-%d-%u", getppid(), rank);
	CHECK(!write_file(path, "group=0x1234567\r\n127.0.0.1\r\n\r\n127.0.0.1 \t\r\n"
				"127.0.0.1\n127.0.0.1"), "write");
	CHECK(!rar_comm_from_file(&c, path, rank, NULL), "CRLF");
	CHECK(!rar_comm_ready(c, WAIT_MS) && !rar_barrier(c), "join");
	rar_comm_free(c);
	sync_ranks();
	memset(lines, ' ', sizeof(lines));
	lines[0] = '#';
	snprintf(lines + 400, sizeof(lines) - 400, "\n127.0.0.1 #%01000d\n127.0.0.1\n127.0.0.1\n"
		 "127.0.0.1\n", 0);
	CHECK(!write_file(path, lines), "write");
	CHECK(!rar_comm_from_file(&c, path, rank, NULL), "long lines");
	CHECK(!rar_comm_ready(c, WAIT_MS) && rar_comm_size(c) == RANKS, "join");
	CHECK(!rar_barrier(c), "barrier");
	rar_comm_free(c);
	unlink(path);
	return 0;
}

/* One line for each rank, but what one rank writes may differ: then it is another group. */
static int file_group(uint32_t rank, uint16_t port, const char *line, rar_comm_t **c)
{
	struct rar_opts opts = { .size = sizeof(opts), .port = port, .join_ms = 700 };
	char path[64], lines[256];
	int err;

	snprintf(path, sizeof(path), "/tmp/librar-%d-%u", getppid(), rank);
	snprintf(lines, sizeof(lines), "fe80::1:2%s\nfe80::1\nfd00::1\nfd00:0:0:1::1\n", line);
	CHECK(!write_file(path, lines), "write");
	err = rar_comm_from_file(c, path, rank, &opts);
	unlink(path);
	if (!err)
		err = rar_comm_ready(*c, WAIT_MS);
	return err;
}

/*
 * The device of a link-local address has another number on each host, so it is no part of the
 * group's name. The port is. Hosts are told apart by all of the address.
 */
static int file_hosts(uint32_t rank)
{
	rar_comm_t *c;

	if (!stub)		/* nobody has these addresses */
		return 0;
	CHECK(!file_group(rank, 0, rank ? "" : "%lo", &c), "one group");
	for (uint32_t r = 0; r < RANKS; r++)
		CHECK(rar_comm_host(c, r) == r, "host of rank %u: %u", r, rar_comm_host(c, r));
	CHECK(!rar_barrier(c), "barrier");
	rar_comm_free(c);
	sync_ranks();
	CHECK(file_group(rank, rank ? 4001 : 4002, "", &c) == -ETIMEDOUT, "two groups");
	rar_comm_free(c);
	return 0;
}

/* rar_can() is 0 until the ring is closed. Nobody can know before what the other ranks can do. */
static int can_later(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	rar_comm_t *c;

	CHECK(!rar_card_make(&opts, &shared->cards[rank]), "card");
	sync_ranks();
	CHECK(!rar_comm_start(&c, shared->cards, RANKS, rank, &opts), "start");
	CHECK(!rar_can(c, RAR_ALLREDUCE, RAR_F32, RAR_SUM, 1), "before");
	CHECK(!rar_comm_ready(c, WAIT_MS), "ready");
	CHECK(rar_can(c, RAR_ALLREDUCE, RAR_F32, RAR_SUM, 1), "after");
	CHECK(!rar_barrier(c), "barrier");
	rar_comm_free(c);
	return 0;
}

/* What a card of these options has; struct card of librar.h. */
static const uint8_t *address_of(const char *local, struct rar_card *card, uint16_t *af)
{
	struct rar_opts opts = local_opts();

	opts.local = local;
	if (rar_card_make(&opts, card))
		return NULL;
	memcpy(af, card->opaque + 58, sizeof(*af));
	return card->opaque + 64;
}

/* Enter a network namespace with devices as a host with docker has them. */
static int with_docker(void)
{
	static const char *const commands[] = {
		"ip link set lo up",
		"ip link add docker0 type bridge",
		"ip addr add 172.17.0.1/16 dev docker0",
		"ip link set docker0 up",
		"ip link add eth0 type veth peer eth1",
		"ip addr add 10.77.0.1/24 dev eth0",
		"ip link set eth0 up",
		"ip link set eth1 up",
		/* The kernel looks for a carrier up to a second later. */
		"for i in $(seq 100); do ip link show eth0 | grep -q 'state UP' && exit 0; "
		"sleep 0.05; done; exit 1",
	};

	if (unshare(CLONE_NEWNET))
		return -1;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (system(commands[i]))
			return -1;
	return 0;
}

/* A group of one whose host has RAR_RAIL: 0, or a negative errno. */
static int alone(const char *rail)
{
	struct rar_opts opts = { .size = sizeof(opts), .local = "eth0" };
	struct rar_card card;
	rar_comm_t *c;
	int err;

	setenv("RAR_RAIL", rail, 1);
	err = rar_card_make(&opts, &card);
	if (!err)
		err = rar_comm_start(&c, &card, 1, 0, &opts);
	unsetenv("RAR_RAIL");
	if (err)
		return err;
	err = rar_comm_ready(c, 5000);
	rar_comm_free(c);
	return err;
}

/* RAR_RAIL: in the namespace of with_docker() */
static int rails(void)
{
	CHECK(!alone("docker0"), "a device");
	CHECK(!alone("172.17.0.0/16,lo"), "a network and a device");
	CHECK(!alone(""), "none");
	CHECK(alone("nowhere0") == -EADDRNOTAVAIL, "a device that is not there");
	CHECK(alone("^docker0") == -EINVAL, "all but one");
	CHECK(alone("eth0") == -EINVAL, "the first address again");
	CHECK(alone("docker0,172.17.0.1") == -EEXIST, "one twice");
	CHECK(alone("::1") == -EAFNOSUPPORT, "of another family");
	CHECK(alone("10.77.0.9") == -EADDRNOTAVAIL, "of no device here");
	return 0;
}

static int own_addresses(uint32_t rank)
{
	static const uint8_t loopback[] = { 127, 0, 0, 1 }, eth0[] = { 10, 77, 0, 1 },
			     docker0[] = { 172, 17, 0, 1 };
	struct rar_card card;
	const uint8_t *addr;
	uint16_t af;

	if (rank)
		return 0;
#define GIVES(local, want) \
	(addr = address_of(local, &card, &af), addr && af == AF_INET && !memcmp(addr, want, 4))
	CHECK(GIVES("::ffff:127.0.0.1", loopback), "an IPv4 address as IPv6");
	CHECK(GIVES("::ffff:127.0.0.0/104", loopback), "a network of these");
	CHECK(!address_of("::ffff:127.0.0.0/95", &card, &af), "more than these");
	CHECK(GIVES("nowhere0,127.0.0.0/8", loopback), "the first that is there");
	CHECK(GIVES("^nowhere0,lo", loopback), "one is excluded that is not there");
	CHECK(!address_of("lo,^127.0.0.0/8", &card, &af) || af == AF_INET6, "all are excluded");
	CHECK(!address_of("a-name-that-is-too-long", &card, &af), "no device");
	CHECK(!address_of("10.0.0.0/99,lo", &card, &af), "bits in a list");
	if (stub)		/* it may not make devices on this machine */
		return 0;
	CHECK(!with_docker(), "namespace");
	unsetenv("RAR_LOCAL");
	CHECK(GIVES(NULL, eth0), "not docker0: %u.%u.%u.%u", addr[0], addr[1], addr[2], addr[3]);
	CHECK(GIVES("docker0", docker0), "docker0, if asked for");
	CHECK(GIVES("^eth0,^eth1", docker0), "docker0, if the others are excluded");
	CHECK(GIVES("^eth0,^eth1,^docker0", loopback), "loopback, if all are excluded");
	CHECK(!rails(), "RAR_RAIL");
	return 0;
}

/* Two hosts whose cards have one address. */
static int two_hosts(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	rar_comm_t *c;
	int err;

	CHECK(!rar_card_make(&opts, &shared->cards[rank]), "card");
	shared->cards[rank].opaque[16] ^= rank == 2;	/* struct card: the host */
	sync_ranks();
	err = rar_comm_start(&c, shared->cards, RANKS, rank, &opts);
	CHECK(err == -EADDRNOTAVAIL && !c, "%s", text(NULL, err));
	CHECK(strstr(text(NULL, err), "two hosts have the same"), "%s", text(NULL, err));
	return 0;
}

static int arguments(uint32_t rank)
{
	struct rar_opts opts = local_opts();
	rar_comm_t *c = join_all(rank), *none;
	int64_t x[8] = {};
	struct rar_call call = { .collective = RAR_ALLREDUCE, .dtype = RAR_I64, .count = 4,
				 .src = x, .dst = x };
	struct rar_call bad;
	struct rar_card card = {};
	rar_req_t req;

	CHECK(c, "join");
#define REFUSED(want, ...)						\
	(bad = call, __VA_ARGS__, rar_start(c, &bad, &req) == (want))
	CHECK(REFUSED(-EINVAL, bad.dtype = 99), "type");
	CHECK(REFUSED(-EINVAL, bad.flags = 128), "flag");
	CHECK(REFUSED(-EINVAL, bad.root = 1), "root without need");
	CHECK(REFUSED(-EINVAL, bad.collective = RAR_REDUCE, bad.root = RANKS), "root");
	CHECK(REFUSED(-EINVAL, bad.dst = x + 1), "overlap");
	CHECK(REFUSED(-EINVAL, bad.dst = NULL), "no place");
	CHECK(REFUSED(-EINVAL, bad.collective = RAR_BARRIER), "a barrier of elements");
	CHECK(REFUSED(-EOPNOTSUPP, bad.collective = 77), "collective");
	CHECK(REFUSED(-EOPNOTSUPP, bad.redop = 77), "reduction");
	CHECK(REFUSED(-EOPNOTSUPP, bad.dtype = RAR_F32, bad.redop = RAR_BAND), "bits of floats");
	CHECK(REFUSED(-EOPNOTSUPP, bad.count = 1ull << 40), "too long");
	CHECK(REFUSED(-EOPNOTSUPP, bad.op_flags = 1u << 31), "flag of the operation");
	CHECK(REFUSED(-EINVAL, bad.__pad[2] = 1), "pad of a call");
	CHECK(rar_allreduce(c, x, x, 1, 256 + RAR_I64, RAR_SUM) == -EINVAL, "type");
	CHECK(rar_broadcast(c, x, x, 1, -250, 0) == -EINVAL, "type");
	CHECK(rar_allreduce(c, x, x, 1, RAR_I64, 256 + RAR_SUM) == -EOPNOTSUPP, "reduction");
	CHECK(rar_reduce(c, x, x, 1, RAR_I64, 256, 0) == -EOPNOTSUPP, "reduction");
	CHECK(rar_can(c, RAR_ALLREDUCE, RAR_F32, RAR_SUM, 1), "can");
	CHECK(!rar_can(c, RAR_ALLREDUCE, RAR_F32, RAR_LOR, 1), "cannot");
	CHECK(rar_comm_host(c, 3) == rar_comm_host(c, 0), "one host");
	CHECK(!rar_barrier(c), "works as before");
	CHECK(rar_comm_start(&none, &card, 1, 0, &opts) == -EPROTO && !none, "no card");
	CHECK(rar_comm_start(&none, shared->cards, 0, 0, &opts) == -EINVAL, "no ranks");
	CHECK(rar_comm_start(&none, shared->cards, 2, 2, &opts) == -EINVAL, "rank");
	opts.flags = 1 << 20;
	CHECK(rar_comm_start(&none, shared->cards, 1, 0, &opts) == -EINVAL, "flags");
	opts = local_opts();
	opts.local = "no such device";
	CHECK(rar_card_make(&opts, &card) == -EADDRNOTAVAIL, "device");
	opts.local = "127.0.0.0/8";
	CHECK(!rar_card_make(&opts, &card), "network");
	opts.local = "lo";
	CHECK(!rar_card_make(&opts, &card), "device");
	opts.local = "10.0.0.0/99";
	CHECK(rar_card_make(&opts, &card) == -EINVAL, "bits");
	opts.size = 0;
	CHECK(!rar_card_make(&opts, &card), "no options");
	opts.size = offsetof(struct rar_opts, local);
	CHECK(!rar_card_make(&opts, &card), "options of an earlier version");
	opts = local_opts();
	opts.size++;
	CHECK(rar_card_make(&opts, &card) == -EINVAL, "options of a later version");
	opts = local_opts();
	opts.flags = 1 << 20;
	CHECK(rar_card_make(&opts, &card) == -EINVAL, "flags");
	opts = local_opts();
	opts.__pad[1] = 1;
	CHECK(rar_card_make(&opts, &card) == -EINVAL, "pad");
	CHECK(rar_comm_start(&none, shared->cards, 1, 0, &opts) == -EINVAL, "pad");
	rar_comm_free(c);
	rar_comm_free(NULL);
	return 0;
}

const struct test card_tests[] = {
	{ "a key", keys },
	{ "seals", seals },
	{ "the key of a box", box_key },
	{ "what cards leave open", left_open },
	{ "a rank that is taken", taken },
	{ "a file of addresses", from_file },
	{ "options of a file", file_options },
	{ "probe", probe },
	{ "lines of a file", file_lines },
	{ "hosts and group of a file", file_hosts },
	{ "capabilities before the ring is closed", can_later },
	{ "own addresses", own_addresses },
	{ "two hosts with one address", two_hosts },
	{ "arguments", arguments },
	{}
};
