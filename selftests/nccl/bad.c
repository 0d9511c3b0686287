// SPDX-License-Identifier: GPL-2.0
/*
 * Bad calls, strangers, peers that go away, ranks that die: an error that says why, at all ranks
 * that it concerns, and nothing waits for ever.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "nccl_test.h"

#define LONG	(16 * MIB)	/* more than sockets hold */
#define LONGER	(64 * MIB)	/* and more than a peer reads in a few calls besides */

static char memory[LONGER];

static void start_clock(struct timespec *since)
{
	clock_gettime(CLOCK_MONOTONIC, since);
}

static int seconds(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - since->tv_sec;
}

/* -- bad calls ------------------------------------------------------------- */

static int message_calls(uint32_t rank)
{
	struct nccl_properties_v12 p;
	char handle[NCCL_HANDLE_SIZE] = {};
	void *x = memory;
	struct links l;
	int done = 1;

	if (open_links(rank, &l))
		return 1;
	REFUSED(net_connect(0, handle, &x), NCCL_INVALID_USAGE, "a handle is not of this");
	CHECK(!x, "a connection");
	memset(handle, 0x5a, sizeof(handle));
	REFUSED(net_connect(0, handle, &x), NCCL_INVALID_USAGE, "a handle is not of this");
	memcpy(handle, shared->nets[0][0], sizeof(handle));
	handle[0] ^= 1;
	REFUSED(net_connect(0, handle, &x), NCCL_INVALID_USAGE, "a handle is not of this");
	REFUSED(net_connect(0, NULL, &x), NCCL_INTERNAL_ERROR, "without a handle");
	REFUSED(net_connect(1, shared->nets[0][0], &x), NCCL_INTERNAL_ERROR, "no device 1");
	REFUSED(net_properties(-1, &p), NCCL_INTERNAL_ERROR, "no device -1");
	REFUSED(net_accept(NULL, &x), NCCL_INTERNAL_ERROR, "without a listener");
	REFUSED(net_close_listen(NULL), NCCL_INTERNAL_ERROR, "without a listener");
	REFUSED(net_reg(l.senders[0], memory, 1, NCCL_CUDA_MEMORY, &x), NCCL_INTERNAL_ERROR,
		"only memory of the host");
	REFUSED(net_reg(NULL, memory, 1, NCCL_HOST_MEMORY, &x), NCCL_INTERNAL_ERROR,
		"without a connection");
	REFUSED(net_reg_dmabuf(l.senders[0], memory, 1, &x), NCCL_INTERNAL_ERROR,
		"only memory of the host");
	CHECK(!x, "a handle");
	REFUSED(net_dereg(NULL, NULL), NCCL_INTERNAL_ERROR, "without a connection");
	x = memory;
	REFUSED(net_isend(l.receivers[0], memory, 1, &x), NCCL_INTERNAL_ERROR, "that sends");
	CHECK(!x, "a request");
	REFUSED(net_isend(NULL, memory, 1, &x), NCCL_INTERNAL_ERROR, "that sends");
	REFUSED(net_isend(l.senders[0], NULL, 1, &x), NCCL_INTERNAL_ERROR, "without an address");
	REFUSED(net_irecv(l.senders[0], 1, memory, 1, &x), NCCL_INTERNAL_ERROR, "that receives");
	CHECK(!x, "a request");
	REFUSED(net_irecv(l.receivers[0], 2, memory, 1, &x), NCCL_INTERNAL_ERROR, "2 messages");
	REFUSED(net_test(NULL, &done, NULL), NCCL_INTERNAL_ERROR, "not in use");
	CHECK(!done, "done");
	REFUSED(net_close_send(l.receivers[0]), NCCL_INTERNAL_ERROR, "closeSend");
	REFUSED(net_close_recv(l.senders[0]), NCCL_INTERNAL_ERROR, "closeRecv");
	CHECK(!net_reg(l.senders[0], memory, 1, NCCL_HOST_MEMORY, &x) &&
	      !net_dereg(l.senders[0], x), "register");
	CHECK(!net_isend(l.senders[0], memory, 1, &x) && x, "it still works");
	while (!net_test(x, &done, NULL) && !done)
		;
	REFUSED(net_test(x, &done, NULL), NCCL_INTERNAL_ERROR, "not in use");
	if (nccl->takes == 8) {	/* lengths are int */
		REFUSED(net_isend(l.senders[0], memory, -1, &x), NCCL_INTERNAL_ERROR,
			"isend() of -1");
		REFUSED(net_irecv(l.receivers[0], 1, memory, -1, &x), NCCL_INTERNAL_ERROR,
			"irecv() of -1");
	}
	sync_ranks();
	return close_links(&l);
}

/* What is refused concerns no other rank. */
static int group_calls(uint32_t rank)
{
	int32_t x = 1, y[RANKS] = {};
	void *group, *request = y;
	int done = 1;
	long got;

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	REFUSED(coll_allreduce(group, &x, &x, 1, NCCL_F8E4M3, NCCL_SUM, &request),
		NCCL_INVALID_USAGE, "not all ranks have");
	CHECK(!request, "a request");
	REFUSED(coll_allreduce(group, &x, &x, 1, NCCL_I32, NCCL_AVG, &request),
		NCCL_INVALID_USAGE, "not all ranks have");
	REFUSED(coll_allreduce(group, &x, &x, 256 * MIB, NCCL_I32, NCCL_SUM, &request),
		NCCL_INTERNAL_ERROR, "too many");
	REFUSED(coll_allreduce(group, &x, &x, -1, NCCL_I32, NCCL_SUM, &request),
		NCCL_INTERNAL_ERROR, nccl->takes == 8 ? "of -1" : "too many");
	REFUSED(coll_allreduce(group, NULL, &x, 1, NCCL_I32, NCCL_SUM, &request),
		NCCL_INTERNAL_ERROR, "without an address");
	REFUSED(coll_allreduce(NULL, &x, &x, 1, NCCL_I32, NCCL_SUM, &request),
		NCCL_INTERNAL_ERROR, "without a group");
	REFUSED(coll_gather(group, &x, 2, y, 16, 4, 0, 16, &request), NCCL_INTERNAL_ERROR,
		"2 parts");
	REFUSED(coll_gather(group, &x, 1, y, 16, 4, 4, 16, &request), NCCL_INTERNAL_ERROR,
		"16 bytes at 4");
	REFUSED(coll_gather(group, &x, 1, y, 16, SIZE_MAX / 2, 0, 16, &request),
		NCCL_INTERNAL_ERROR, "a window of");
	REFUSED(coll_gather(group, &x, 1, y, 15, 4, 0, 16, &request), NCCL_INTERNAL_ERROR,
		"in 15 bytes");
	REFUSED(coll_gather(group, &x, 1, NULL, 16, 4, 0, 16, &request), NCCL_INTERNAL_ERROR,
		"without an address");
	REFUSED(coll_scatter(group, 1, y, 16, &x, 4, 2, 4, NCCL_I32, NCCL_SUM, &request),
		NCCL_INTERNAL_ERROR, "cuts an element");
	REFUSED(coll_reg(group, &x, 4, NCCL_CUDA_MEMORY, &request), NCCL_INTERNAL_ERROR,
		"only memory of the host");
	REFUSED(coll_reg_dmabuf(group, &x, 4, &request), NCCL_INTERNAL_ERROR,
		"only memory of the host");
	REFUSED(coll_dereg(group, &x), NCCL_INTERNAL_ERROR, "not registered");
	REFUSED(coll_test(NULL, &done, NULL), NCCL_INTERNAL_ERROR, "not in use");
	CHECK(!done, "done");
	REFUSED(coll_close(NULL), NCCL_INTERNAL_ERROR, "without a group");
	CHECK(!coll_allreduce(group, &x, &x, 1, NCCL_I32, NCCL_SUM, &request) && request,
	      "it still works");
	coll_wait(&request, &got, 1);
	CHECK(got == 4 && x == RANKS, "%ld bytes, sum %d", got, x);
	REFUSED(coll_test(request, &done, NULL), NCCL_INTERNAL_ERROR, "not in use");
	CHECK(!coll_close(group), "close");
	return 0;
}

static int group_handles(uint32_t rank)
{
	char bad[NCCL_HANDLE_SIZE] = {};
	void *handles[RANKS], *listener, *group = bad;

	CHECK(!coll_listen(0, shared->groups[0][rank], &listener), "listen");
	REFUSED(coll_listen(3, bad, &group), NCCL_INTERNAL_ERROR, "no device 3");
	sync_ranks();
	for (int i = 0; i < RANKS; i++)
		handles[i] = shared->groups[0][i];
	group = bad;
	REFUSED(coll_connect(handles, 0, 0, listener, &group), NCCL_INTERNAL_ERROR,
		"rank 0 of 0");
	CHECK(!group, "a group");
	REFUSED(coll_connect(handles, RANKS, RANKS, listener, &group), NCCL_INTERNAL_ERROR,
		"rank 4 of 4");
	REFUSED(coll_connect(handles, RANKS, -1, listener, &group), NCCL_INTERNAL_ERROR,
		"rank -1 of 4");
	REFUSED(coll_connect(handles, RANKS, rank, NULL, &group), NCCL_INTERNAL_ERROR, "connect");
	REFUSED(coll_connect(handles, RANKS, (rank + 1) % RANKS, listener, &group),
		NCCL_INTERNAL_ERROR, "not that of this rank");
	handles[(rank + 1) % RANKS] = bad;
	REFUSED(coll_connect(handles, RANKS, rank, listener, &group), NCCL_INVALID_USAGE,
		"a card is not valid");
	CHECK(!group && !coll_close_listen(listener), "close");
	return 0;
}

/* -- strangers ------------------------------------------------------------- */

/* The address of the only socket that listens. */
static socklen_t listening(struct sockaddr_storage *addr)
{
	socklen_t len = sizeof(int);
	int on = 0;

	for (int fd = 3; fd < 1000; fd++)
		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) && on) {
			len = sizeof(*addr);
			return getsockname(fd, (void *)addr, &len) ? 0 : len;
		}
	return 0;
}

/* Others connect before the peer does: some say nothing, some something wrong, some go. */
static int strangers(uint32_t rank)
{
	uint32_t prev = (rank + RANKS - 1) % RANKS;
	void *listener, *sender = NULL, *receiver, *requests[2];
	struct sockaddr_storage addr;
	uint32_t came = RANKS;
	socklen_t len;
	int fds[20];
	long got[2];

	CHECK(!net_listen(0, shared->nets[rank][0], &listener), "listen");
	len = listening(&addr);
	CHECK(len, "no socket listens");
	for (int i = 0; i < 20; i++) {
		fds[i] = socket(addr.ss_family, SOCK_STREAM, 0);
		CHECK(!connect(fds[i], (void *)&addr, len), "connect");
		if (i % 3)
			CHECK(write(fds[i], memory, i) == i, "write");
		if (i % 5 == 4)
			shutdown(fds[i], SHUT_RDWR);
	}
	CHECK(!net_accept(listener, &receiver) && !receiver, "a stranger was taken");
	sync_ranks();
	for (unsigned int n = 0; !sender || !receiver; n++) {
		if (!sender)
			CHECK(!net_connect(0, shared->nets[(rank + 1) % RANKS][0], &sender),
			      "connect");
		if (!receiver)
			CHECK(!net_accept(listener, &receiver), "accept");
		CHECK(nap(n), "no connection in time");
	}
	CHECK(!net_isend(sender, &rank, 4, &requests[0]), "isend");
	CHECK(!net_irecv(receiver, 1, &came, 4, &requests[1]), "irecv");
	net_wait(requests, got, 2);
	CHECK(got[0] == 4 && got[1] == 4 && came == prev, "rank %u", came);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	CHECK(!net_close_listen(listener) && !net_close_send(sender) &&
	      !net_close_recv(receiver), "close");
	return 0;
}

#define HELLO	16		/* bytes that the peer says first: those that its handle begins with */

static int call(const struct sockaddr_storage *addr, socklen_t len)
{
	int fd = socket(addr->ss_family, SOCK_STREAM, 0);

	if (fd >= 0 && !connect(fd, (const void *)addr, len))
		return fd;
	close(fd);
	return -1;
}

/* Strangers connect after the peer, whose token is still on the way. They do not push it out. */
static int crowd(uint32_t rank)
{
	const char *hello = shared->nets[rank][0];
	struct sockaddr_storage addr;
	void *listener, *receiver;
	uint64_t len = 4;
	uint32_t came = RANKS;
	void *request;
	int peer, fds[12];
	socklen_t n;
	long got;

	CHECK(!net_listen(0, shared->nets[rank][0], &listener), "listen");
	n = listening(&addr);
	CHECK(n, "no socket listens");
	peer = call(&addr, n);
	CHECK(peer >= 0 && write(peer, hello, HELLO / 2) == HELLO / 2, "the peer");
	for (int i = 0; i < 12; i++) {
		fds[i] = call(&addr, n);
		CHECK(fds[i] >= 0, "stranger %d", i);
	}
	CHECK(!net_accept(listener, &receiver) && !receiver, "no token has come");
	CHECK(write(peer, hello + HELLO / 2, HELLO / 2) == HELLO / 2, "the rest");
	CHECK(write(peer, &len, sizeof(len)) == sizeof(len) && write(peer, &rank, 4) == 4,
	      "a message");
	for (unsigned int i = 0; !receiver; i++)
		CHECK(!net_accept(listener, &receiver) && nap(i), "accept");
	CHECK(!net_irecv(receiver, 1, &came, 4, &request), "irecv");
	net_wait(&request, &got, 1);
	CHECK(got == 4 && came == rank, "rank %u", came);
	for (int i = 0; i < 12; i++)
		close(fds[i]);
	close(peer);
	CHECK(!net_close_listen(listener) && !net_close_recv(receiver), "close");
	return 0;
}

#define SILENT		100	/* more than the listener has places for */
#define SILENT_S	3	/* after this the peer has been let in */

/* Strangers that say nothing connect before the peer. They do not keep it out. */
static int silent(uint32_t rank)
{
	const char *hello = shared->nets[rank][0];
	void *listener, *receiver = NULL;
	struct sockaddr_storage addr;
	struct timespec since;
	int peer, fds[SILENT];
	socklen_t n;

	CHECK(!net_listen(0, shared->nets[rank][0], &listener), "listen");
	n = listening(&addr);
	CHECK(n, "no socket listens");
	for (int i = 0; i < SILENT; i++) {
		fds[i] = call(&addr, n);
		CHECK(fds[i] >= 0, "stranger %d", i);
		/* The system lets few connections wait. */
		if (i % 20 == 0)
			CHECK(!net_accept(listener, &receiver) && !receiver, "a stranger");
	}
	start_clock(&since);
	peer = call(&addr, n);
	CHECK(peer >= 0 && write(peer, hello, HELLO) == HELLO, "the peer");
	for (unsigned int i = 0; !receiver; i++)
		CHECK(!net_accept(listener, &receiver) && nap(i), "accept");
	CHECK(seconds(&since) <= SILENT_S, "after %d s", seconds(&since));
	for (int i = 0; i < SILENT; i++)
		close(fds[i]);
	close(peer);
	CHECK(!net_close_listen(listener) && !net_close_recv(receiver), "close");
	return 0;
}

/* The rank that a connection is for listens no more. */
static int no_listener(uint32_t rank)
{
	void *listener, *sender = memory;
	nccl_result_t result = NCCL_OK;

	CHECK(!net_listen(0, shared->nets[rank][0], &listener), "listen");
	sync_ranks();		/* all have ports of their own */
	CHECK(!net_close_listen(listener), "close");
	sync_ranks();
	for (unsigned int n = 0; !result; n++) {
		result = net_connect(0, shared->nets[(rank + 1) % RANKS][0], &sender);
		CHECK(!sender && nap(n), "connected");
	}
	CHECK(result == NCCL_REMOTE_ERROR && strstr(warning(), "refused"), "result %d", result);
	return 0;
}

/* -- peers that go away ---------------------------------------------------- */

/* More comes than the receiver has room for. Messages before it have come. */
static int too_long(uint32_t rank)
{
	void *send[2], *receive[2];
	struct links l;
	long got[2];
	int done;

	if (open_links(rank, &l))
		return 1;
	CHECK(!net_isend(l.senders[0], memory, 3, &send[0]) && send[0], "isend");
	CHECK(!net_isend(l.senders[0], memory, 100, &send[1]) && send[1], "isend");
	CHECK(!net_irecv(l.receivers[0], 1, memory, 3, &receive[0]) && receive[0], "irecv");
	CHECK(!net_irecv(l.receivers[0], 1, memory + 200, 99, &receive[1]) && receive[1],
	      "irecv");
	net_wait(&receive[1], got, 1);
	CHECK(got[0] == -NCCL_INVALID_USAGE, "%ld", got[0]);
	CHECK(strstr(warning(), "100 bytes came for a receive of 99 bytes"), "no warning");
	CHECK(!net_test(receive[0], &done, NULL) && done, "the first message");
	CHECK(net_irecv(l.receivers[0], 1, memory, 100, &receive[0]) == NCCL_INVALID_USAGE &&
	      !receive[0], "the error stays");
	net_wait(send, got, 2);
	CHECK(got[0] == 3 && got[1] == 100, "sent %ld, %ld", got[0], got[1]);
	sync_ranks();
	return close_links(&l);
}

/* Even ranks close what odd ranks use, in the middle of a message and before one. */
static int peer_closes(uint32_t rank)
{
	void *requests[2];
	struct links l;
	long got[2];
	int done;

	if (open_links(rank, &l))
		return 1;
	if (rank % 2) {
		CHECK(!net_isend(l.senders[0], memory, LONGER, &requests[0]), "isend");
		CHECK(!net_irecv(l.receivers[0], 1, memory, 10, &requests[1]), "irecv");
		sync_ranks();
		net_wait(requests, got, 2);
		CHECK(got[0] == -NCCL_REMOTE_ERROR && got[1] == -NCCL_REMOTE_ERROR,
		      "%ld, %ld", got[0], got[1]);
		CHECK(*warning(), "no warning");
		CHECK(net_isend(l.senders[0], memory, 1, &requests[0]) == NCCL_REMOTE_ERROR &&
		      !requests[0], "the error stays");
	} else {
		CHECK(!net_irecv(l.receivers[0], 1, memory, LONGER, &requests[0]), "irecv");
		sync_ranks();
		CHECK(!net_test(requests[0], &done, NULL) && !done, "test");
		CHECK(!net_close_recv(l.receivers[0]) && !net_close_send(l.senders[0]),
		      "close");
	}
	sync_ranks();
	for (int i = rank % 2 ? 0 : 1; i < LINKS; i++)
		CHECK(!net_close_send(l.senders[i]) && !net_close_recv(l.receivers[i]), "close");
	return 0;
}

/* Rank 2 is killed: rank 1, which sends to it, and rank 3, which receives from it, notice. */
static int message_killed(uint32_t rank)
{
	void *send, *receive;
	struct links l;
	long got = 0;

	if (open_links(rank, &l))
		return 1;
	CHECK(!net_isend(l.senders[0], memory, LONGER, &send) && send, "isend");
	CHECK(!net_irecv(l.receivers[0], 1, memory, LONGER, &receive) && receive, "irecv");
	sync_ranks();
	if (rank == 2)
		raise(SIGKILL);
	if (rank == 1)
		net_wait(&send, &got, 1);
	else if (rank == 3)
		net_wait(&receive, &got, 1);
	CHECK(!(rank % 2) || (got == -NCCL_REMOTE_ERROR && *warning()), "%ld", got);
	return close_links(&l);
}

#define CLOSED_S	2	/* time for the window of a connection to close */
#define GONE_S		40	/* after this a peer has been noticed to be gone */

/*
 * What comes to this rank's TCP sockets is lost from now on. Both ends of a connection do so: rank
 * 1 gives up, too, and its reset would reach rank 0.
 */
static void disappear(void)
{
	struct sock_filter none = { .code = 0x06 };	/* return 0 */
	struct sock_fprog program = { .len = 1, .filter = &none };
	socklen_t len = sizeof(int);
	int protocol;

	for (int fd = 3; fd < 1000; fd++)
		if (!getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) &&
		    protocol == IPPROTO_TCP)
			setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/*
 * The host of rank 1 is gone. Rank 0 has sent it more than it takes, sends it something, and
 * connects to it.
 */
static int peer_is_gone(struct links *l, void *blocked)
{
	nccl_result_t state[3] = { NCCL_OK, NCCL_OK, NCCL_OK };
	void *requests[2] = { blocked }, *sender;
	struct timespec since;
	int done;

	start_clock(&since);
	CHECK(!net_isend(l->senders[1], memory, LONG, &requests[1]) && requests[1], "isend");
	while (!state[0] || !state[1] || !state[2]) {
		for (int i = 0; i < 2; i++)
			if (!state[i])
				state[i] = net_test(requests[i], &done, NULL);
		if (!state[2])
			state[2] = net_connect(0, shared->nets[1][0], &sender);
		CHECK(seconds(&since) < GONE_S, "results %d, %d, %d", state[0], state[1],
		      state[2]);
		usleep(10000);
	}
	for (int i = 0; i < 3; i++)
		CHECK(state[i] == NCCL_REMOTE_ERROR, "result %d: %d", i, state[i]);
	CHECK(seconds(&since) > 10, "after %d s", seconds(&since));
	return 0;
}

/* Rank 2 sends to rank 3, which lives, but does not receive for longer than it may be gone. */
static int peer_is_slow(uint32_t rank, struct links *l, void *blocked)
{
	struct timespec since;
	void *request;
	long got;
	int done;

	start_clock(&since);
	while (rank == 2 && seconds(&since) < GONE_S - 5) {
		CHECK(!net_test(blocked, &done, NULL) && !done, "%s", warning());
		usleep(10000);
	}
	sync_ranks();
	if (rank == 3)
		CHECK(!net_irecv(l->receivers[0], 1, memory, LONG, &request) && request, "irecv");
	else
		request = blocked;
	net_wait(&request, &got, 1);
	CHECK(got == LONG, "%ld", got);
	return 0;
}

static int gone(uint32_t rank)
{
	void *listener = NULL, *blocked = NULL;
	struct links l;
	int err = 0;

	if (open_links(rank, &l))
		return 1;
	sync_ranks();
	if (rank == 1)
		CHECK(!net_listen(0, shared->nets[1][0], &listener), "listen");
	if (!(rank % 2))
		CHECK(!net_isend(l.senders[0], memory, LONG, &blocked) && blocked, "isend");
	sleep(CLOSED_S);
	if (rank < 2)
		disappear();
	sync_ranks();
	if (!rank)
		err = peer_is_gone(&l, blocked);
	if (rank < 2)
		sync_ranks();
	else
		err = peer_is_slow(rank, &l, blocked);
	if (listener)
		CHECK(!net_close_listen(listener), "close");
	return err ? err : close_links(&l);
}

/* -- groups that fail ------------------------------------------------------ */

/* All ranks get an error that names the rank, in every request and in every later call. */
static int all_fail(void *group, void *requests[], int n, nccl_result_t want, const char *name)
{
	int32_t x = 1;
	void *request = group;
	long got[NCCL_REQUESTS];
	nccl_result_t result;
	const char *said;

	coll_wait(requests, got, n);
	said = warning();
	CHECK(strstr(said, name), "%s", said);
	for (int i = 0; i < n; i++)
		CHECK(got[i] == -(long)want || (i < n - 1 && got[i] >= 0), "request %d: %ld", i,
		      got[i]);
	result = coll_allreduce(group, &x, &x, 1, NCCL_I32, NCCL_SUM, &request);
	CHECK(result == want && !request, "later: %d", result);
	CHECK(!coll_close(group), "close");
	return 0;
}

/* Rank 2 is killed while it has operations in flight; the others have more. */
static int group_killed(uint32_t rank)
{
	void *group, *requests[NCCL_REQUESTS];
	int n = rank == 2 ? 10 : NCCL_REQUESTS;

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	for (int i = 0; i < n; i++)
		CHECK(!coll_allreduce(group, memory, memory + (i + 8) * MIB / 8, i * 1000,
				      NCCL_F32, NCCL_SUM, &requests[i]) && requests[i],
		      "start");
	sync_ranks();
	if (rank == 2)
		raise(SIGKILL);
	return all_fail(group, requests, n, NCCL_REMOTE_ERROR, "rank 2 ");
}

/* Rank 1 closes its side when it has its result, while the others wait for more. */
static int group_closed(uint32_t rank)
{
	void *group, *requests[3];
	int n = rank == 1 ? 1 : 3;
	long got;

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	for (int i = 0; i < n; i++)
		CHECK(!coll_allreduce(group, memory, memory + MIB, 50000, NCCL_F32, NCCL_SUM,
				      &requests[i]) && requests[i], "start");
	sync_ranks();
	if (rank != 1)
		return all_fail(group, requests, 3, NCCL_REMOTE_ERROR, "rank 1 ");
	coll_wait(requests, &got, 1);
	CHECK(got == 200000, "%ld", got);
	CHECK(!coll_close(group), "close");
	return 0;
}

/* Rank 3 passes another number of elements. */
static int disagree(uint32_t rank)
{
	void *group, *request;

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	CHECK(!coll_allreduce(group, memory, memory, rank == 3 ? 11 : 10, NCCL_I64, NCCL_MIN,
			      &request) && request, "start");
	return all_fail(group, &request, 1, NCCL_INVALID_USAGE, "another number of elements");
}

/* Rank 2 cannot take part, as its memory overlaps: the others must not wait for it. */
static int cannot(uint32_t rank)
{
	void *group, *request;
	const char *said;
	long got;

	if (open_group(rank, RANKS, 0, &group))
		return 1;
	CHECK(!coll_allreduce(group, memory, memory + (rank == 2 ? 4 : 4000), 1000, NCCL_I32,
			      NCCL_SUM, &request) && request, "start");
	coll_wait(&request, &got, 1);
	said = warning();
	CHECK(got == (rank == 2 ? -NCCL_INTERNAL_ERROR : -NCCL_REMOTE_ERROR), "%ld", got);
	CHECK(strstr(said, rank == 2 ? "not valid" : "rank 2 "), "%s", said);
	sync_ranks();		/* it has not closed the group either */
	CHECK(!coll_close(group), "close");
	return 0;
}

/* Ranks 0 and 1 mean groups of another size: neither gets one. */
static int other_sizes(uint32_t rank)
{
	void *handles[RANKS], *listener, *group = memory;
	nccl_result_t result;
	const char *said;

	CHECK(!coll_listen(0, shared->groups[0][rank], &listener), "listen");
	sync_ranks();
	for (int i = 0; i < RANKS; i++)
		handles[i] = shared->groups[0][i];
	if (rank < 2) {
		result = coll_connect(handles, rank + 2, rank, listener, &group);
		said = warning();
		CHECK(result == NCCL_INVALID_USAGE && !group, "result %d", result);
		CHECK(strstr(said, "disagrees about the number of ranks"), "%s", said);
	}
	CHECK(!coll_close_listen(listener), "close");
	return 0;
}

const struct test bad_tests[] = {
	{ "bad calls with messages", message_calls, 0, 0 },
	{ "bad calls with groups", group_calls, 0, 0 },
	{ "bad handles of groups", group_handles, 0, 0 },
	{ "strangers connect", strangers, 0, 0 },
	{ "strangers connect before the peer's token comes", crowd, 0, 0 },
	{ "silent strangers connect before the peer", silent, 0, ONCE },
	{ "no one listens", no_listener, 0, 0 },
	{ "a message is too long", too_long, 0, 0 },
	{ "a peer closes a connection", peer_closes, 0, 0 },
	{ "a peer is killed", message_killed, 3, 0 },
	{ "the host of a peer is gone", gone, 0, ONCE },
	{ "a rank of a group is killed", group_killed, 3, 0 },
	{ "a rank of a group closes it", group_closed, 0, 0 },
	{ "a rank cannot take part", cannot, 0, 0 },
	{ "ranks disagree about a length", disagree, 0, 0 },
	{ "ranks disagree about their number", other_sizes, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
