// SPDX-License-Identifier: GPL-2.0
/*
 * Connections and groups, made in the way that NCCL makes them.
 */
#include <string.h>

#include "nccl_test.h"

/* Connect to the next rank, and wait for the one before, in turns. */
static int make_link(void *handle, void *listener, void **sender, void **receiver)
{
	*sender = NULL;
	*receiver = NULL;
	for (unsigned int n = 0; !*sender || !*receiver; n++) {
		if (!*sender)
			CHECK(!net_connect(0, handle, sender), "connect");
		if (!*receiver)
			CHECK(!net_accept(listener, receiver), "accept");
		CHECK(nap(n), "no connection in time");
	}
	return 0;
}

int open_links(uint32_t rank, struct links *l)
{
	uint32_t next = (rank + 1) % RANKS;
	void *listeners[LINKS];

	for (int i = 0; i < LINKS; i++)
		CHECK(!net_listen(0, shared->nets[rank][i], &listeners[i]) && listeners[i],
		      "listen");
	sync_ranks();
	for (int i = 0; i < LINKS; i++) {
		if (make_link(shared->nets[next][i], listeners[i], &l->senders[i],
			      &l->receivers[i]))
			return 1;
		CHECK(!net_close_listen(listeners[i]), "close");
	}
	return 0;
}

int close_links(struct links *l)
{
	for (int i = 0; i < LINKS; i++)
		CHECK(!net_close_send(l->senders[i]) && !net_close_recv(l->receivers[i]),
		      "close");
	return 0;
}

int open_group(uint32_t rank, uint32_t size, int nr, void **group)
{
	void *handles[RANKS], *listener;

	CHECK(!coll_listen(0, shared->groups[nr][rank], &listener) && listener, "listen");
	sync_ranks();
	for (int i = 0; i < RANKS; i++)
		handles[i] = shared->groups[nr][i];
	*group = NULL;
	if (rank < size)
		CHECK(!coll_connect(handles, size, rank, listener, group) && *group, "connect");
	CHECK(!coll_close_listen(listener), "close");
	sync_ranks();		/* all have joined before one may fail */
	return 0;
}
