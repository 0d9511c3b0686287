// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Connections for messages, until they are there. Nothing here waits.
 *
 * The rank that receives listens, and gives NCCL a handle: its address and a random token. The
 * rank that sends connects and says the token, so that a stranger who connects is not taken for
 * it. NCCL calls both again and again until the connection is there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin.h"
#include "../src/librar.h"	/* random numbers, deadlines */

#define MAGIC	0x3152415254434350ull	/* differs for hosts with another byte order */
#define CALLERS	64			/* connections that have not said the token yet */
#define HELLO_MS 1000			/* in this time the peer says it */
#define BACKLOG	64

struct hello {
	uint64_t magic;
	uint64_t token;
};

struct handle {
	struct hello hello;
	union address addr;
};

_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_SIZE, "NCCL has room for a handle");

struct caller {
	int fd;			/* -1: none */
	int64_t deadline;	/* it may stay until then; later it makes room for a new one */
	size_t got;
	struct hello hello;
};

/* What join_listen() makes. */
struct listener {
	int fd;
	int family, traffic_class;
	uint64_t token;
	struct caller callers[CALLERS];
};

/* A connection that join_connect() has begun. NCCL has only the handle to know it by. */
struct attempt {
	struct handle handle;
	int64_t deadline;
	int fd;
	size_t said;
	struct attempt *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct attempt *attempts;

static socklen_t length(const union address *addr)
{
	return addr->any.sa_family == AF_INET6 ? sizeof(addr->v6) : sizeof(addr->v4);
}

/*
 * Small messages leave at once, by the class of traffic that the program asks for. A peer whose host
 * is gone is noticed: in this way if it has acknowledged all. Otherwise see message.c.
 */
static void set_options(int fd, int family, int traffic_class)
{
	int on = 1, idle = DEAD_S / 2, interval = DEAD_S / 4, probes = 2;

	if (traffic_class != NCCL_UNDEFINED && family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &traffic_class, sizeof(int));
	else if (traffic_class != NCCL_UNDEFINED)
		setsockopt(fd, IPPROTO_IP, IP_TOS, &traffic_class, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* -- listening ------------------------------------------------------------- */

static int open_listener(const struct device *d, union address *addr)
{
	socklen_t len = sizeof(*addr);
	int fd = socket(d->addr.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	*addr = d->addr;
	if (!bind(fd, &addr->any, length(addr)) && !listen(fd, BACKLOG) &&
	    !getsockname(fd, &addr->any, &len))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

nccl_result_t join_listen(const struct device *d, int traffic_class, void *handle,
			  void **listener)
{
	struct handle own = { .hello = { MAGIC, rar_random() } };
	struct listener *l = calloc(1, sizeof(*l));

	*listener = NULL;
	if (!l)
		return refuse(NCCL_SYSTEM_ERROR, "no memory");
	l->token = own.hello.token;
	l->family = d->addr.any.sa_family;
	l->traffic_class = traffic_class;
	for (int i = 0; i < CALLERS; i++)
		l->callers[i].fd = -1;
	l->fd = open_listener(d, &own.addr);
	if (l->fd < 0) {
		int err = -l->fd;

		free(l);
		return refuse(NCCL_SYSTEM_ERROR, "listen at %s: %s", d->name, strerror(err));
	}
	memset(handle, 0, NCCL_HANDLE_SIZE);
	memcpy(handle, &own, sizeof(own));
	*listener = l;
	return NCCL_OK;
}

static void drop_caller(struct caller *c)
{
	if (c->fd >= 0)
		close(c->fd);
	*c = (struct caller) { .fd = -1 };
}

/* Has this caller said the token? One who says something else is sent away. */
static bool is_peer(const struct listener *l, struct caller *c)
{
	ssize_t n;

	if (c->fd < 0)
		return false;
	n = recv(c->fd, (char *)&c->hello + c->got, sizeof(c->hello) - c->got, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n > 0) {
		c->got += n;
		if (c->got < sizeof(c->hello))
			return false;
		if (c->hello.magic == MAGIC && c->hello.token == l->token)
			return true;
		say(NCCL_INFO, "a connection that does not come from the peer is closed");
	}
	drop_caller(c);
	return false;
}

static struct caller *find_peer(struct listener *l)
{
	for (int i = 0; i < CALLERS; i++)
		if (is_peer(l, &l->callers[i]))
			return &l->callers[i];
	return NULL;
}

/*
 * A place for a caller: a free one, or the place of the oldest caller, if its time is over. NULL:
 * there is none now. The peer may be among the young callers, with its token still on the way. It
 * does not call again. So silent strangers delay the peer by HELLO_MS for every CALLERS of them.
 */
static struct caller *find_place(struct listener *l)
{
	struct caller *oldest = l->callers;

	for (int i = 0; i < CALLERS; i++) {
		if (l->callers[i].fd < 0)
			return &l->callers[i];
		if (l->callers[i].deadline < oldest->deadline)
			oldest = &l->callers[i];
	}
	return rar_left_ms(oldest->deadline) ? NULL : oldest;
}

/*
 * Let in the next of those who have connected: 0, -EAGAIN or another errno. The system keeps BACKLOG
 * of them, for which there is no place yet.
 */
static int take_caller(struct listener *l)
{
	struct caller *c = find_place(l);
	int fd;

	if (!c)
		return -EAGAIN;
	do
		fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (fd < 0)
		return -errno;
	drop_caller(c);
	c->fd = fd;
	c->deadline = rar_deadline(HELLO_MS);
	return 0;
}

nccl_result_t join_accept(void *listener, void **receiver)
{
	struct listener *l = listener;
	struct caller *peer;
	int err = 0;

	*receiver = NULL;
	if (!l)
		return refuse(NCCL_INTERNAL_ERROR, "accept() without a listener");
	while (!(peer = find_peer(l)) && !err)
		err = take_caller(l);
	if (!peer)
		return err == -EAGAIN ? NCCL_OK :
		       refuse(NCCL_SYSTEM_ERROR, "accept: %s", strerror(-err));
	set_options(peer->fd, l->family, l->traffic_class);
	*receiver = message_open(peer->fd, false);
	if (!*receiver)
		return refuse(NCCL_SYSTEM_ERROR, "no memory");
	peer->fd = -1;
	drop_caller(peer);
	return NCCL_OK;
}

nccl_result_t join_close(void *listener)
{
	struct listener *l = listener;

	if (!l)
		return refuse(NCCL_INTERNAL_ERROR, "closeListen() without a listener");
	for (int i = 0; i < CALLERS; i++)
		drop_caller(&l->callers[i]);
	close(l->fd);
	free(l);
	return NCCL_OK;
}

/* -- connecting; the lock is held ------------------------------------------ */

static struct attempt **find(const struct handle *handle)
{
	struct attempt **a;

	for (a = &attempts; *a && memcmp(&(*a)->handle, handle, sizeof(*handle)); a = &(*a)->next)
		;
	return a;
}

/* Begin to connect: 0 or a negative errno. */
static int begin(struct attempt **place, const struct device *d, int traffic_class,
		 const struct handle *handle)
{
	struct attempt *a = calloc(1, sizeof(*a));
	union address to = handle->addr;
	int err = 0;

	if (!a)
		return -ENOMEM;
	a->handle = *handle;
	a->deadline = rar_deadline(DEAD_S * 1000);
	a->fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* The scope of a link-local address is a device of this host. */
	if (to.any.sa_family == AF_INET6)
		to.v6.sin6_scope_id = d->addr.v6.sin6_scope_id;
	if (a->fd >= 0)
		set_options(a->fd, to.any.sa_family, traffic_class);
	if (a->fd < 0 || (connect(a->fd, &to.any, length(&to)) && errno != EINPROGRESS))
		err = -errno;
	if (err) {
		if (a->fd >= 0)
			close(a->fd);
		free(a);
		return err;
	}
	*place = a;
	return 0;
}

/* Go on to connect, and say the token: 0 if this is done, -EAGAIN or another errno. */
static int advance(struct attempt *a)
{
	struct pollfd p = { .fd = a->fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int err = 0;
	ssize_t n;

	if (poll(&p, 1, 0) != 1)
		return rar_left_ms(a->deadline) ? -EAGAIN : -ETIMEDOUT;
	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &err, &len) || err)
		return err ? -err : -errno;
	n = send(a->fd, (char *)&a->handle.hello + a->said, sizeof(a->handle.hello) - a->said,
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	a->said += n;
	return a->said < sizeof(a->handle.hello) ? -EAGAIN : 0;
}

static int go_on(const struct device *d, int traffic_class, const struct handle *handle,
		 void **sender)
{
	struct attempt **place = find(handle), *a;
	int err = 0;

	if (!*place)
		err = begin(place, d, traffic_class, handle);
	if (!err)
		err = advance(*place);
	if (!err) {
		*sender = message_open((*place)->fd, true);
		err = *sender ? 0 : -ENOMEM;
	}
	a = *place;
	if (!a || err == -EAGAIN)
		return err;
	*place = a->next;
	if (err)
		close(a->fd);
	free(a);
	return err;
}

nccl_result_t join_connect(const struct device *d, int traffic_class, const void *handle,
			   void **sender)
{
	struct handle to;
	int err;

	*sender = NULL;
	if (!handle)
		return refuse(NCCL_INTERNAL_ERROR, "connect() without a handle");
	memcpy(&to, handle, sizeof(to));
	if (to.hello.magic != MAGIC || to.addr.any.sa_family != d->addr.any.sa_family)
		return refuse(NCCL_INVALID_USAGE,
			      "a handle is not of this plugin, or of another address family");
	pthread_mutex_lock(&lock);
	err = go_on(d, traffic_class, &to, sender);
	pthread_mutex_unlock(&lock);
	if (!err || err == -EAGAIN)
		return NCCL_OK;
	return refuse(result_of(err), "connect: %s", strerror(-err));
}

/* NCCL unloads the plugin, and has given up connections before they were there. */
__attribute__((destructor))
static void forget_attempts(void)
{
	struct attempt *a;

	while ((a = attempts)) {
		attempts = a->next;
		close(a->fd);
		free(a);
	}
}
