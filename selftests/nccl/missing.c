// SPDX-License-Identifier: GPL-2.0
/*
 * What is missing on a host, or on some of the hosts: the module, the right to use it, the plugin,
 * memory that may be pinned. NCCL goes on with what is there, and the log says why.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nccl_test.h"

/* -- no collectives -------------------------------------------------------- */

/* As NCCL does: messages, and no collectives if their init fails. */
static int begin(nccl_result_t want, const char *text)
{
	const char *wrong = load();

	CHECK(!wrong, "%s", wrong);
	CHECK(!net_init(), "init");
	if (want)
		REFUSED(coll_init(), want, text);
	else
		CHECK(!coll_init(), "init of collectives");
	return 0;
}

/* A message goes round. */
static int send_messages(uint32_t rank)
{
	static char out[100000], in[sizeof(out)];
	void *requests[2];
	struct links l;
	long got[2];

	if (open_links(rank, &l))
		return 1;
	memset(out, rank + 1, sizeof(out));
	CHECK(!net_isend(l.senders[0], out, sizeof(out), &requests[0]), "isend");
	CHECK(!net_irecv(l.receivers[0], 1, in, sizeof(in), &requests[1]), "irecv");
	net_wait(requests, got, 2);
	CHECK(got[0] == sizeof(out) && got[1] == sizeof(in), "%ld, %ld", got[0], got[1]);
	CHECK(in[0] == (char)((rank + RANKS - 1) % RANKS + 1) && in[0] == in[sizeof(in) - 1],
	      "bytes");
	return close_links(&l);
}

/* After a failed init NCCL calls no other function of the collectives, not even finalize. */
static int without(uint32_t rank, int err, const char *text)
{
	refuse_family(err);
	if (begin(NCCL_SYSTEM_ERROR, text) || send_messages(rank))
		return 1;
	CHECK(!net_finalize(), "finalize");
	unload();
	return 0;
}

static int no_module(uint32_t rank)
{
	return without(rank, EAFNOSUPPORT, "no collectives: no AF_RAR here (modprobe rar)");
}

static int forbidden(uint32_t rank)
{
	return without(rank, rank % 2 ? EPERM : EACCES, "forbids sockets of AF_RAR");
}

/* -- some ranks ------------------------------------------------------------ */

/*
 * Rank 3 has no module, so NCCL has no handle of it. The others get no group, none of them waits,
 * and messages go between all of them.
 */
static int some_modules(uint32_t rank)
{
	void *handles[RANKS], *listener = NULL, *group = handles;

	if (rank == 3)
		refuse_family(EAFNOSUPPORT);
	if (begin(rank == 3 ? NCCL_SYSTEM_ERROR : NCCL_OK, "no AF_RAR here"))
		return 1;
	if (rank != 3)
		CHECK(!coll_listen(0, shared->groups[0][rank], &listener), "listen");
	sync_ranks();
	for (int i = 0; i < RANKS; i++)
		handles[i] = shared->groups[0][i];
	if (rank != 3) {
		REFUSED(coll_connect(handles, RANKS, rank, listener, &group), NCCL_INVALID_USAGE,
			"no group: a card is not valid");
		CHECK(!group && !coll_close_listen(listener), "close");
		CHECK(!coll_finalize(), "finalize");
	}
	if (send_messages(rank))
		return 1;
	CHECK(!net_finalize(), "finalize");
	unload();
	return 0;
}

/* Rank 3 has no plugin: its handles are those of another network. */
static int some_plugins(uint32_t rank)
{
	void *listener, *sender = shared;

	if (rank == 3) {
		for (int i = 0; i < NCCL_HANDLE_SIZE; i++)
			shared->nets[rank][0][i] = random_bits(9, i);
		sync_ranks();
		return 0;
	}
	if (begin(NCCL_OK, ""))
		return 1;
	CHECK(!net_listen(0, shared->nets[rank][0], &listener), "listen");
	sync_ranks();
	if (rank == 2)
		REFUSED(net_connect(0, shared->nets[3][0], &sender), NCCL_INVALID_USAGE,
			"a handle is not of this plugin");
	CHECK(rank != 2 || !sender, "a connection");
	CHECK(!net_close_listen(listener) && !net_finalize() && !coll_finalize(), "close");
	unload();
	return 0;
}

/* Rank 3 dies when NCCL has its handle: the others wait for it as long as a join may take. */
static int dies_early(uint32_t rank)
{
	void *handles[RANKS], *listener, *group = handles;
	nccl_result_t result;
	const char *said;

	CHECK(!coll_listen(0, shared->groups[0][rank], &listener), "listen");
	sync_ranks();
	if (rank == 3)
		raise(SIGKILL);
	for (int i = 0; i < RANKS; i++)
		handles[i] = shared->groups[0][i];
	result = coll_connect(handles, RANKS, rank, listener, &group);
	said = warning();
	CHECK(result && !group && strstr(said, "no group: "), "result %d: %s", result, said);
	CHECK(!coll_close_listen(listener), "close");
	return 0;
}

/* -- memory ---------------------------------------------------------------- */

/* As a user whose ulimit -l is 0. */
static int pin_nothing(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};
	struct rlimit none = { 0, 0 };

	CHECK(!syscall(SYS_capget, &header, data), "capget");
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	CHECK(!syscall(SYS_capset, &header, data), "capset");
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &none), "setrlimit");
	return 0;
}

/* Memory that cannot be pinned is registered all the same, and sums in it are right. */
static int no_memlock(uint32_t rank)
{
	enum { COUNT = 100000 };
	static int32_t x[COUNT], y[COUNT];
	void *group, *in, *out, *request;
	long got;

	if (pin_nothing() || open_group(rank, RANKS, 0, &group))
		return 1;
	CHECK(!coll_reg(group, x, sizeof(x), NCCL_HOST_MEMORY, &in) && in, "register");
#ifndef WITH_STUB
	CHECK(strstr(note(), "400000 bytes are not pinned"), "the log does not say it");
#endif
	CHECK(!coll_reg(group, y, sizeof(y), NCCL_HOST_MEMORY, &out) && out, "register");
	for (int i = 0; i < COUNT; i++)
		x[i] = i * (rank + 1);
	CHECK(!coll_allreduce(group, x, y, COUNT, NCCL_I32, NCCL_SUM, &request) && request,
	      "start");
	coll_wait(&request, &got, 1);
	CHECK(got == sizeof(y), "%ld bytes", got);
	for (int i = 0; i < COUNT; i++)
		CHECK(y[i] == i * 10, "element %d: %d", i, y[i]);
	CHECK(!coll_dereg(group, in) && !coll_dereg(group, out) && !coll_close(group), "close");
	return 0;
}

const struct test missing_tests[] = {
	{ "no module", no_module, 0, BARE },
	{ "no right to open sockets of AF_RAR", forbidden, 0, BARE },
	{ "some ranks have the module", some_modules, 0, BARE },
	{ "some ranks have the plugin", some_plugins, 0, BARE },
	{ "a rank dies before the group is there", dies_early, 4, ONCE },
	{ "no memory may be pinned", no_memlock, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
