// SPDX-License-Identifier: GPL-2.0
/*
 * What NCCL does before the first message: it looks for tables, makes communicators, asks for
 * devices.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "nccl_test.h"

#define CLASS	0x48		/* of traffic: of the second communicator */

/* NCCL loads the plugin again when it has unloaded it with the last communicator. */
static int tables(uint32_t rank)
{
	const char *wrong;

	(void)rank;
	for (int i = 0; i < 2; i++) {
		wrong = load();
		CHECK(!wrong, "%s", wrong);
		CHECK(!strcmp(*(const char *const *)net_table, "rar"), "name");
		CHECK(!strcmp(*(const char *const *)coll_table, "rar"), "name");
		CHECK(!tuner_table || !strcmp(*(const char *const *)tuner_table, "rar"), "name");
		CHECK(!net_init() && !coll_init(), "init");
		CHECK(!net_finalize() && !coll_finalize(), "finalize");
		unload();
	}
	return 0;
}

/* What NCCL does itself if the plugin does not have it. */
static int optional(uint32_t rank)
{
	(void)rank;
	CHECK(net_lacks() && coll_lacks() && tuner_lacks(), "more than the page says");
	return 0;
}

/* -- devices --------------------------------------------------------------- */

static int described(const struct nccl_properties_v12 *p)
{
	CHECK(!strcmp(p->name, "lo") && p->memory == NCCL_HOST_MEMORY && p->speed > 0, "%s",
	      p->name);
	CHECK(!p->guid && !p->global_reg && !p->force_flush && !p->device_type &&
	      !p->device_version, "zero");
	CHECK(p->max_comms > 100 && p->max_recvs == 1 && p->max_requests == 1, "numbers");
	CHECK(p->consists_of.n == 1 && !p->consists_of.devices[0], "virtual devices");
	CHECK(p->max_p2p_bytes == 1024ul * MIB && p->max_coll_bytes == 512ul * MIB, "bytes");
	CHECK(p->rail == NCCL_UNDEFINED && p->plane == NCCL_UNDEFINED, "rail and plane");
	return 0;
}

/* There is one device, whatever the other hosts have. */
static int devices(uint32_t rank)
{
	static const int wrong[] = { -1, 1 };
	struct nccl_properties_v12 net, coll;
	char handle[NCCL_HANDLE_SIZE];
	void *x;

	if (rank)
		return 0;
	CHECK(!net_properties(0, &net) && !coll_properties(0, &coll), "properties");
	if (described(&net) || described(&coll))
		return 1;
	for (int i = 0; i < 2; i++) {
		int dev = wrong[i];

		REFUSED(net_properties(dev, &net), NCCL_INTERNAL_ERROR, "no device");
		REFUSED(coll_properties(dev, &net), NCCL_INTERNAL_ERROR, "no device");
		REFUSED(net_listen(dev, handle, &x), NCCL_INTERNAL_ERROR, "no device");
		REFUSED(net_connect(dev, handle, &x), NCCL_INTERNAL_ERROR, "no device");
		REFUSED(coll_listen(dev, handle, &x), NCCL_INTERNAL_ERROR, "no device");
	}
	return 0;
}

/* -- communicators --------------------------------------------------------- */

/* TCP sockets whose packets are of the class. */
static int classed(void)
{
	socklen_t len = sizeof(int);
	int n = 0, class;

	for (int fd = 3; fd < 1000; fd++)
		n += !getsockopt(fd, IPPROTO_IP, IP_TOS, &class, &len) && class == CLASS;
	return n;
}

static int sum_ranks(void *group)
{
	int32_t x = 3;
	void *request;
	long got;

	CHECK(!coll_allreduce(group, &x, &x, 1, NCCL_I32, NCCL_SUM, &request) && request, "start");
	coll_wait(&request, &got, 1);
	CHECK(got == 4 && x == 3 * RANKS, "%ld bytes, sum %d", got, x);
	return 0;
}

static int say_hello(struct links *l, uint32_t rank)
{
	uint32_t came = RANKS;
	void *requests[2];
	long got[2];

	CHECK(!net_isend(l->senders[0], &rank, 4, &requests[0]), "isend");
	CHECK(!net_irecv(l->receivers[0], 1, &came, 4, &requests[1]), "irecv");
	net_wait(requests, got, 2);
	CHECK(got[0] == 4 && got[1] == 4 && came == (rank + RANKS - 1) % RANKS, "rank %u", came);
	return 0;
}

/* Each communicator has a context of its own, if the version has contexts, and asks for a class. */
static int two(uint32_t rank)
{
	struct communicator second = { .id = 0xbeef, .traffic_class = CLASS }, *one = current;
	int want = nccl->takes == 8 ? 0 : nccl->takes == 10 ? LINKS : 2 * LINKS;
	void *groups[2];
	struct links l[2];

	if (open_links(rank, &l[0]) || open_group(rank, RANKS, 0, &groups[0]))
		return 1;
	current = &second;
	CHECK(!net_init() && !coll_init(), "init");
	CHECK(nccl->takes < 11 || (second.net && second.coll && second.net != one->net),
	      "contexts");
	CHECK(!classed(), "the first communicator asked for no class");
	if (open_links(rank, &l[1]) || open_group(rank, RANKS, 1, &groups[1]))
		return 1;
	CHECK(strstr(note(), nccl->takes < 11 ? "communicator 0" : "communicator 0xbeef"),
	      "its number in the log");
	CHECK(classed() == want, "%d of %d sockets have the class", classed(), want);
	for (int i = 0; i < 2; i++) {
		if (say_hello(&l[i], rank) || sum_ranks(groups[i]) || close_links(&l[i]))
			return 1;
		CHECK(!coll_close(groups[i]), "close");
	}
	CHECK(!net_finalize() && !coll_finalize(), "finalize");
	current = one;
	return 0;
}

/* As in the middle of a program: the first of two communicators ends, the other one goes on. */
static int one_ends(uint32_t rank)
{
	struct communicator second = { .id = 2, .traffic_class = NCCL_UNDEFINED }, *one = current;
	struct communicator third = { .id = 3, .traffic_class = NCCL_UNDEFINED };
	struct links l;
	void *group;

	current = &second;
	CHECK(!net_init() && !coll_init(), "init");
	current = &third;
	CHECK(!net_init() && !coll_init(), "init");
	current = &second;
	CHECK(!net_finalize() && !coll_finalize(), "finalize");
	current = &third;
	if (open_links(rank, &l) || open_group(rank, RANKS, 0, &group) ||
	    say_hello(&l, rank) || sum_ranks(group))
		return 1;
	CHECK(!net_finalize() && !coll_finalize(), "finalize");
	current = one;
	CHECK(!coll_close(group), "close");	/* what was made before may end later */
	return close_links(&l);
}

const struct test comm_tests[] = {
	{ "tables that it finds", tables, 0, ALL_RELEASES | BARE },
	{ "tables without the functions that NCCL does not need", optional, 0, 0 },
	{ "one device", devices, 0, 0 },
	{ "two communicators", two, 0, 0 },
	{ "a communicator ends", one_ends, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
