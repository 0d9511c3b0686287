// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The transport by AF_RAR sockets.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "librar.h"

static int set(rar_comm_t *c, int option, const void *value, socklen_t len)
{
	return setsockopt(c->fd, SOL_RAR, option, value, len) ? -errno : 0;
}

static int set_u32(rar_comm_t *c, int option, uint32_t value)
{
	return set(c, option, &value, sizeof(value));
}

static int get(const rar_comm_t *c, int option, void *value, socklen_t len)
{
	return getsockopt(c->fd, SOL_RAR, option, value, &len) ? -errno : 0;
}

/* -- family ---------------------------------------------------------------- */

static int listed_family(void)
{
	FILE *f = fopen("/proc/net/rar", "re");
	int family = 0;

	if (!f)
		return 0;
	if (fscanf(f, "family %d", &family) != 1)
		family = 0;
	fclose(f);
	return family;
}

/* The number of the family; -EAFNOSUPPORT if the module is not loaded and does not load. */
int rar_family(void)
{
	struct rar_info info;
	socklen_t len = sizeof(info);
	int family = listed_family(), fd, err = 0;

	if (family)
		return family;
	fd = socket(AF_RAR, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);	/* may load the module */
	if (fd < 0)
		return errno == EAFNOSUPPORT || errno == ESOCKTNOSUPPORT ? -EAFNOSUPPORT : -errno;
	if (getsockopt(fd, SOL_RAR, RAR_INFO, &info, &len))	/* another family has the number */
		err = -EAFNOSUPPORT;
	close(fd);
	return err ? err : AF_RAR;
}

/* -- join ------------------------------------------------------------------ */

static void fill_address(const rar_comm_t *c, int family, const struct card *card,
			 uint32_t rank, struct sockaddr_rar *a)
{
	*a = (struct sockaddr_rar) {
		.srar_family = family, .srar_af = card->af, .srar_port = card->port,
		.srar_scope_id = card->scope, .srar_rank = rank, .srar_size = c->size,
		.srar_group = c->group,
	};
	memcpy(a->srar_addr, card->addr, sizeof(a->srar_addr));
}

/* Addresses of the neighbours; the scope of a link-local address is a device of this host. */
static void fill_join(const rar_comm_t *c, int family, const struct card *cards,
		      struct rar_join *join)
{
	uint32_t next = (c->rank + 1) % c->size, prev = (c->rank + c->size - 1) % c->size;

	memset(join, 0, sizeof(*join));
	fill_address(c, family, &cards[c->rank], c->rank, &join->self);
	fill_address(c, family, &cards[next], next, &join->next);
	fill_address(c, family, &cards[prev], prev, &join->prev);
	join->next.srar_scope_id = join->self.srar_scope_id;
	join->prev.srar_scope_id = join->self.srar_scope_id;
	join->timeout_ms = c->join_ms;
}

/* All ranks have the key of rank 0's card; without one it is zero. */
static int set_key(rar_comm_t *c, const struct card *first)
{
	int err = set(c, RAR_KEY, first->key, sizeof(first->key)), level;

	if (err)
		return err;
	/* The socket may have had seals. An older module has none. */
	level = set_u32(c, RAR_SECURITY, first->security);
	return first->security ? level : 0;
}

/* Further addresses of this host, if RAR_RAIL names any. An older module has no such option. */
static int set_rails(rar_comm_t *c, int family, const struct card *self)
{
	struct sockaddr_rar addr[RAR_MAX_RAILS];
	struct card rails[RAR_MAX_RAILS];
	int n = rar_local_rails(self, rails), err;

	if (n < 0) {
		rar_debug(c, "RAR_RAIL=%s: %s", getenv("RAR_RAIL"), strerror(-n));
		return n;
	}
	for (int i = 0; i < n; i++)
		fill_address(c, family, &rails[i], c->rank, &addr[i]);
	err = set(c, RAR_RAIL, addr, n * sizeof(addr[0]));
	return n ? err : 0;
}

/* Read the file that RAR_BOX_KEY_FILE names. Returns its bytes, or a negative errno. */
static ssize_t read_box_key(const char *path, unsigned char *key, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, key, size), err = n < 0 ? -errno : n;

	if (fd >= 0)
		close(fd);
	return err;
}

/* The key of the boxes, if the environment of this rank tells where it is. An older module has none. */
static int set_box_key(rar_comm_t *c)
{
	const char *path = getenv("RAR_BOX_KEY_FILE");
	unsigned char key[RAR_KEY_LONG + 1];
	ssize_t n;
	int err;

	if (!path || !*path)
		return 0;
	n = read_box_key(path, key, sizeof(key));
	if (n >= 0 && n != RAR_KEY_LEN && n != RAR_KEY_LONG)
		n = -EINVAL;
	if (n < 0)
		rar_debug(c, "RAR_BOX_KEY_FILE=%s: %s", path,
			  n == -EINVAL ? "not a key of 16 or 32 bytes" : strerror(-n));
	err = n < 0 ? (int)n : set(c, RAR_BOX_KEY, key, n);
	explicit_bzero(key, sizeof(key));
	return err == -ENOPROTOOPT ? 0 : err;
}

/* The socket of a failed group can join again. */
static void kernel_renew(rar_comm_t *c)
{
	struct rar_info info = {};

	if (c->fd >= 0)
		get(c, RAR_INFO, &info, sizeof(info));
	if (info.epoch)		/* 0: it never joined */
		c->past = info.epoch;
}

static int open_socket(rar_comm_t *c, int family)
{
	if (c->fd >= 0)
		return 0;
	c->fd = socket(family, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return c->fd < 0 ? -errno : 0;
}

static void map_page(rar_comm_t *c)
{
	void *p;

	if (c->page)
		return;
	p = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, c->fd, 0);
	c->page = p == MAP_FAILED ? NULL : p;
	if (!c->page)
		rar_debug(c, "no page of counters: %s", strerror(errno));
}

static void unmap_page(rar_comm_t *c)
{
	if (c->page)
		munmap((void *)c->page, sysconf(_SC_PAGESIZE));
	c->page = NULL;
}

static void close_socket(rar_comm_t *c)
{
	unmap_page(c);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static int kernel_start(rar_comm_t *c, const struct card *cards)
{
	struct rar_join join;
	int family = rar_family(), err;

	err = family < 0 ? family : open_socket(c, family);
	if (err)
		return err;
	fill_join(c, family, cards, &join);
	err = set_u32(c, RAR_SCHEDULE, cards[0].schedule);
	if (!err)
		err = set_key(c, &cards[0]);
	if (!err)
		err = set_rails(c, family, &cards[c->rank]);
	if (!err)
		err = set_box_key(c);
	if (!err)
		err = set_u32(c, RAR_OP_TIMEOUT, c->op_ms);
	if (!err)
		err = set(c, RAR_JOIN, &join, sizeof(join));
	if (err == -EINPROGRESS)
		err = 0;
	if (err)
		close_socket(c);
	return err;
}

static int kernel_ready(rar_comm_t *c, int timeout_ms)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };
	int64_t deadline = rar_deadline(timeout_ms);
	socklen_t len = sizeof(int);
	int n, err = 0;

	do
		n = poll(&p, 1, rar_left_ms(deadline));
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n ? -errno : -EAGAIN;
	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) || err)
		return err ? -err : -errno;
	err = get(c, RAR_CAPS, &c->caps, sizeof(c->caps));
	if (!err)
		map_page(c);
	return err;
}

static int kernel_resume(rar_comm_t *c, uint64_t *op)
{
	struct rar_info info = {};
	int err = get(c, RAR_INFO, &info, sizeof(info));

	if (err)
		return err;
	if (!info.resume_epoch || info.resume_epoch != c->past)
		return -ENOENT;
	*op = info.resume_op;
	return 0;
}

/* A process that sees the module may yet be forbidden to open a socket. */
static int may_open(int family)
{
	int fd = socket(family, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int rar_probe(struct rar_caps *caps)
{
	struct rar_opts opts = { .size = sizeof(opts), .local = "127.0.0.1" };
	struct rar_card card;
	rar_comm_t *c;
	int err;

	if (rar_stub_asked()) {
		if (caps)
			rar_stub_caps(caps);
		return 0;
	}
	err = rar_family();
	if (err > 0)
		err = may_open(err);
	if (err || !caps)
		return err;
	err = rar_card_make(&opts, &card);	/* a group of one knows what this kernel can do */
	if (!err)
		err = rar_comm_start(&c, &card, 1, 0, &opts);
	if (err)
		return err;
	err = rar_comm_ready(c, -1);
	if (!err)
		*caps = c->caps;
	rar_comm_free(c);
	return err;
}

/* -- post ------------------------------------------------------------------ */

struct message {
	struct msghdr msg;
	struct iovec iov;
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(struct rar_op))];
	} control;
};

/* The first call of a record says what the operation is. */
static void fill_op(const rar_comm_t *c, const struct work *w, struct message *m)
{
	struct rar_op op = {
		.size = sizeof(op), .collective = w->collective, .dtype = w->dtype,
		.redop = w->redop, .root = w->root, .flags = w->op_flags,
		.bytes = w->bytes,
		.cookie = c->posted + 1, .dst = w->pin ? (uintptr_t)w->pin_dst : 0,
		.prio = w->prio,
	};

	m->control.header.cmsg_len = CMSG_LEN(sizeof(op));
	m->control.header.cmsg_level = SOL_RAR;
	m->control.header.cmsg_type = RAR_OP;
	memcpy(CMSG_DATA(&m->control.header), &op, sizeof(op));
	m->msg.msg_control = &m->control;
	m->msg.msg_controllen = sizeof(m->control);
}

/* Send a record, in parts of at most RAR_MAX_CALL bytes. */
static int send_record(rar_comm_t *c, const struct work *w, const char *data, uint64_t len,
		       int flags)
{
	uint64_t off = 0, part;
	int more, err;

	do {
		struct message m = { .msg.msg_iov = &m.iov, .msg.msg_iovlen = 1 };

		part = len - off < RAR_MAX_CALL ? len - off : RAR_MAX_CALL;
		more = off + part < len ? MSG_MORE : 0;
		m.iov.iov_base = (char *)data + off;
		m.iov.iov_len = part;
		if (!off)
			fill_op(c, w, &m);
		if (sendmsg(c->fd, &m.msg, flags | more | MSG_NOSIGNAL) >= 0) {
			off += part;
		} else if (errno != EINTR) {
			err = -errno;
			if (off)
				set_u32(c, RAR_CANCEL, 0);
			return err;
		}
	} while (off < len);
	return 0;
}

/* May a copy succeed where pinning the memory did not? */
static bool pin_refused(int err)
{
	return err == -ENOBUFS || err == -EFAULT || err == -EOPNOTSUPP;
}

/* The kernel remembers how much memory an operation needs that it refused. */
static bool kernel_has_room(const rar_comm_t *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };

	return poll(&p, 1, 0);
}

static int kernel_post(rar_comm_t *c, struct work *w)
{
	int flags = w->nowait ? MSG_DONTWAIT : 0, err;

	if (w->pin) {
		err = send_record(c, w, w->pin, w->bytes, flags | MSG_ZEROCOPY);
		w->pinned = !err;
		if (!pin_refused(err))
			return err;
		rar_debug(c, "%llu bytes cannot be pinned (%s): copied",
			  (unsigned long long)w->bytes, strerror(-err));
		w->pin = NULL;
		c->no_pin = c->posted + PIN_PAUSE;
	}
	return send_record(c, w, w->send, w->send_len, flags);
}

/* -- take ------------------------------------------------------------------ */

/* May the next result be there, or an error? Without the page: maybe. */
static bool may_take(const rar_comm_t *c)
{
	const struct rar_counters *page = c->page;

	return !page || __atomic_load_n(&page->ready, __ATOMIC_ACQUIRE) > c->done - c->base ||
	       __atomic_load_n(&page->error, __ATOMIC_ACQUIRE);
}

/* One recvmsg(). 0: the result is whole. */
static int receive(rar_comm_t *c, struct work *w, int flags)
{
	bool copied = !w->pinned && w->recv_len;
	struct iovec iov = { w->recv + w->got, copied ? w->recv_len - w->got : 0 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n = recvmsg(c->fd, &msg, flags);

	if (n < 0)
		return errno == EINTR ? -EINTR : -errno;
	if (msg.msg_flags & MSG_EOR)
		return 0;
	if (!n)
		return -EPIPE;
	w->got += n;
	return -EINTR;	/* there is more */
}

static int kernel_take(rar_comm_t *c, struct work *w, int timeout_ms)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	int64_t deadline = rar_deadline(timeout_ms);
	int err = -EAGAIN;

	if (!timeout_ms && !may_take(c))
		return -EAGAIN;
	do {
		if (timeout_ms > 0 && poll(&p, 1, rar_left_ms(deadline)) < 0 && errno != EINTR)
			return -errno;
		err = receive(c, w, timeout_ms < 0 ? 0 : MSG_DONTWAIT);
	} while (err == -EINTR || (err == -EAGAIN && timeout_ms > 0 && rar_left_ms(deadline)));
	return err;
}

/* -- the rest -------------------------------------------------------------- */

static int kernel_reg(rar_comm_t *c, int option, const void *addr, size_t len, uint32_t flags)
{
	struct rar_reg reg = { .addr = (uintptr_t)addr, .len = len, .flags = flags };
	int err = set(c, option, &reg, sizeof(reg));

	if (err)
		rar_debug(c, "%s of %zu bytes: %s",
			  option == RAR_REG ? "registration" : "unregistration", len,
			  strerror(-err));
	return err;
}

static void kernel_error(rar_comm_t *c, struct rar_error *error)
{
	if (c->fd >= 0)
		get(c, RAR_ERROR, error, sizeof(*error));
}

static int kernel_slow(rar_comm_t *c, uint32_t *rank, uint32_t *ms)
{
	struct rar_info info = {};
	int err = get(c, RAR_INFO, &info, sizeof(info));

	*rank = info.slow_rank;
	*ms = info.slow_ms;
	return err;
}

static uint32_t kernel_lack(rar_comm_t *c)
{
	struct rar_info info = {};

	get(c, RAR_INFO, &info, sizeof(info));
	return info.lack;
}

/* When poll() shows the failure, the kernel uses the memory of requests no more. */
static void kernel_abort(rar_comm_t *c)
{
	struct pollfd p = { .fd = c->fd };

	if (!set_u32(c, RAR_ABORT, 0))
		while (poll(&p, 1, -1) < 0 && errno == EINTR)
			;
}

/*
 * End the membership, which close() does not do while a child of this process has the
 * descriptor, too. With requests in flight only an abort gives back their memory.
 */
static void leave(rar_comm_t *c)
{
	if (c->done == c->posted)
		shutdown(c->fd, SHUT_WR);
	else
		kernel_abort(c);
}

static void kernel_close(rar_comm_t *c, bool inherited)
{
	if (c->up && !inherited)
		leave(c);
	close_socket(c);
}

const struct transport kernel_transport = {
	.name = "AF_RAR",
	.renew = kernel_renew,
	.start = kernel_start,
	.ready = kernel_ready,
	.has_room = kernel_has_room,
	.post = kernel_post,
	.take = kernel_take,
	.resume = kernel_resume,
	.reg = kernel_reg,
	.error = kernel_error,
	.slow = kernel_slow,
	.lack = kernel_lack,
	.abort = kernel_abort,
	.close = kernel_close,
};
