// SPDX-License-Identifier: GPL-2.0
/* See rar_util.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "rar_util.h"

/* ------------------------------------------------------------ environment */

uint64_t rar_seed;

void rar_init(void)
{
	const char *env = getenv("SEED") ?: getenv("RAR_SEED");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (env)
		rar_seed = strtoull(env, NULL, 0);
	else if (getrandom(&rar_seed, 4, 0) != 4)
		rar_seed = rar_now_us();
	rar_log("SEED=%llu", (unsigned long long)rar_seed);
}

const char *rar_missing(void)
{
	static char why[80];
	int fd = rar_socket();

	if (fd >= 0) {
		close(fd);
		return NULL;
	}
	snprintf(why, sizeof(why), "socket(AF_RAR): %s", strerror(-fd));
	return why;
}

bool rar_checked_kernel(void)
{
	return strstr(getenv("RAR_KERNEL") ?: "", "debug");
}

void rar_log(const char *fmt, ...)
{
	char line[512] = "# ";
	va_list args;
	int len;

	va_start(args, fmt);
	len = 2 + vsnprintf(line + 2, sizeof(line) - 3, fmt, args);
	va_end(args);
	if (len > (int)sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len++] = '\n';
	fflush(stdout);
	if (write(STDOUT_FILENO, line, len) != len)
		abort();
}

uint64_t rar_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ull + ts.tv_nsec / 1000;
}

void rar_sleep_ms(unsigned int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

static int rar_lo_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

int rar_private_net(void)
{
	const char *local = getenv("RAR_LOCAL"), *box = getenv("RAR_BOX");
	const char *halving = getenv("RAR_HALVING_BYTES");
	bool here = getenv("RAR_NETNS_HERE");
	int err = !here && unshare(CLONE_NEWNET) < 0 ? -errno : rar_lo_up();

	if (!err && local)
		err = rar_write("/proc/sys/net/rar/local", local);
	if (!err && halving)	/* all that is longer than 8 bytes */
		err = rar_write("/proc/sys/net/rar/direct_bytes", "8") ?:
		      rar_write("/proc/sys/net/rar/halving_bytes", halving);
	if (!err && box)
		err = rar_write("/proc/sys/net/rar/box_mem", "1M") ?:
		      rar_write("/proc/sys/net/rar/box", box);
	return err;
}

int rar_enter(const char *netns)
{
	char path[64];
	int fd, err = 0;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (setns(fd, CLONE_NEWNET) < 0)
		err = -errno;
	close(fd);
	return err;
}

int rar_write(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

int rar_set_sysctls(const char *settings)
{
	char *list = strdup(settings), *save, *word, *value, path[128];
	int err = 0;

	for (word = strtok_r(list, ",", &save); word && !err;
	     word = strtok_r(NULL, ",", &save)) {
		value = strchr(word, '=');
		if (!value) {
			err = -EINVAL;
			break;
		}
		*value++ = '\0';
		for (char *c = value; (c = strchr(c, '+')); *c = ',')
			;
		snprintf(path, sizeof(path), "/proc/sys/net/rar/%s", word);
		err = rar_write(path, value);
		if (err)
			rar_log("%s = %s: %s", path, value, strerror(-err));
	}
	free(list);
	return err;
}

/* Two lines that begin with "Prefix:", one of names and one of values. */
static int64_t rar_counter_in(char *names, char *values, const char *name)
{
	char *save_n, *save_v, *n, *v, full[64];
	const char *prefix = strtok_r(names, ": \n", &save_n);

	strtok_r(values, ": \n", &save_v);
	while (prefix && (n = strtok_r(NULL, " \n", &save_n)) &&
	       (v = strtok_r(NULL, " \n", &save_v))) {
		snprintf(full, sizeof(full), "%s%s", prefix, n);
		if (!strcmp(full, name))
			return strtoll(v, NULL, 10);
	}
	return -ENOENT;
}

int64_t rar_counter(const char *name)
{
	FILE *f = fopen("/proc/thread-self/net/rar_netstat", "re");
	char names[4096], values[4096];
	int64_t value = -ENOENT;

	if (!f)
		return -errno;
	while (value < 0 && fgets(names, sizeof(names), f) &&
	       fgets(values, sizeof(values), f))
		value = rar_counter_in(names, values, name);
	fclose(f);
	return value;
}

int64_t rar_vmstat(const char *name)
{
	size_t len = strlen(name);
	int64_t n = -ENOENT;
	char line[128];
	FILE *f;

	rar_write("/proc/sys/vm/stat_refresh", "1");
	f = fopen("/proc/vmstat", "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, len) && line[len] == ' ')
			n = strtoll(line + len, NULL, 10);
	fclose(f);
	return n;
}

int64_t rar_pinned(void)
{
	int64_t acquired = rar_vmstat("nr_foll_pin_acquired");
	int64_t released = rar_vmstat("nr_foll_pin_released");

	return acquired < 0 || released < 0 ? -ENOENT : acquired - released;
}

bool rar_unpinned(int64_t before)
{
	int64_t now = rar_pinned();

	for (int s = 0; s < 150 && now > before; s++) {
		rar_sleep_ms(100);
		now = rar_pinned();
	}
	rar_log("%lld pages more than before", (long long)(now - before));
	return now <= before;
}

/* ------------------------------------------------------------ groups */

static const struct {
	const char *name;
	const char *base;	/* the last byte is rank + 1 */
	int af;
	bool loopback;
} rar_wheres[RAR_ON_NR] = {
	[RAR_ON_IPV4] = { "4", "10.77.0.0", AF_INET, false },
	[RAR_ON_IPV6] = { "6", "fd77::", AF_INET6, false },
	[RAR_ON_LL6] = { "ll6", "fe80::77:0", AF_INET6, false },
	[RAR_ON_LO4] = { "lo4", "127.0.0.1", AF_INET, true },
	[RAR_ON_LO6] = { "lo6", "::1", AF_INET6, true },
};

int rar_where_parse(const char *name)
{
	for (int i = 0; i < RAR_ON_NR; i++)
		if (!strcmp(rar_wheres[i].name, name))
			return i;
	return -1;
}

uint32_t rar_host(const struct rar_ring *ring, uint32_t rank)
{
	uint32_t host = ring->hosts;

	while (host > 1 && ring->first[host - 1] > rank)
		host--;
	return host ? host - 1 : 0;
}

void rar_address(const struct rar_ring *ring, uint32_t rank,
		 struct sockaddr_rar *addr)
{
	uint32_t place = ring->hosts ? rar_host(ring, rank) :
			 ring->place ? ring->place[rank] : rank;
	int af = rar_wheres[ring->where].af;
	size_t last = af == AF_INET ? 3 : 15;

	memset(addr, 0, sizeof(*addr));
	addr->srar_family = AF_RAR;
	addr->srar_port = htons(ring->port);
	addr->srar_af = af;
	addr->srar_rank = rank;
	addr->srar_size = ring->size;
	addr->srar_group = ring->group;
	inet_pton(af, rar_wheres[ring->where].base, addr->srar_addr);
	if (!rar_wheres[ring->where].loopback)
		addr->srar_addr[last] = ring->netns ? place + 1 : 1;
	if (ring->where == RAR_ON_LL6)
		addr->srar_scope_id = if_nametoindex("eth0");
}

int rar_socket(void)
{
	int fd = socket(AF_RAR, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

/* RAR_BOX_WAIT of the environment, as the option of that name. */
static int rar_set_box_wait(int fd)
{
	const char *ms = getenv("RAR_BOX_WAIT");
	uint32_t wait = ms ? atoi(ms) : 0;

	if (!ms)
		return 0;
	return setsockopt(fd, SOL_RAR, RAR_BOX_WAIT, &wait, sizeof(wait)) < 0 ? -errno : 0;
}

static int rar_set_schedule(int fd, const struct rar_ring *ring)
{
	const char *all = getenv("RAR_SCHEDULE");
	uint32_t schedule = ring->schedule;

	if (!schedule && all)
		schedule = atoi(all);
	if (!schedule)
		return 0;
	return setsockopt(fd, SOL_RAR, RAR_SCHEDULE, &schedule, sizeof(schedule)) < 0 ?
	       -errno : 0;
}

/* RAR_BOX_KEY of the environment: the key of the box, 16 or 32 letters */
static int rar_set_box_key(int fd)
{
	const char *key = getenv("RAR_BOX_KEY");

	return key && *key ? setsockopt(fd, SOL_RAR, RAR_BOX_KEY, key, strlen(key)) : 0;
}

int rar_set_security(int fd)
{
	static const char key[RAR_KEY_LONG] = "a key that all ranks of it have";
	const char *all = getenv("RAR_SECURITY");
	uint32_t level = RAR_SECURITY_AUTH;

	if (!all || !*all)
		return 0;
	if (!strcmp(all, "encrypt"))
		level = RAR_SECURITY_ENCRYPT;
	else if (strcmp(all, "auth"))
		return -EINVAL;
	return setsockopt(fd, SOL_RAR, RAR_KEY, key, sizeof(key)) || rar_set_box_key(fd) ||
	       setsockopt(fd, SOL_RAR, RAR_SECURITY, &level, sizeof(level)) ? -errno : 0;
}

/*
 * RAR_RAILS of the environment: so many further addresses, those that topo_rails in lib.sh gives
 * the ranks, 10.78.0.(r+1), 10.79.0.(r+1) ...
 */
static int rar_set_rails(int fd, const struct sockaddr_rar *self)
{
	uint32_t n = atoi(getenv("RAR_RAILS") ?: "0"), at = self->srar_af == AF_INET6;
	struct sockaddr_rar rail[RAR_MAX_RAILS];

	if (!n)
		return 0;
	if (n > RAR_MAX_RAILS)
		return -E2BIG;
	for (uint32_t i = 0; i < n; i++) {
		rail[i] = *self;
		rail[i].srar_addr[1] = (at ? 0x77 : 77) + 1 + i;
	}
	return setsockopt(fd, SOL_RAR, RAR_RAIL, rail, n * sizeof(rail[0])) < 0 ? -errno : 0;
}

int rar_bind(int fd, const struct rar_ring *ring, uint32_t rank)
{
	int err = rar_set_schedule(fd, ring) ?: rar_set_box_wait(fd) ?: rar_set_security(fd);
	struct sockaddr_rar self;

	rar_address(ring, rank, &self);
	err = err ?: rar_set_rails(fd, &self);
	if (err)
		return err;
	if (ring->device) {
		if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, ring->device,
			       strlen(ring->device) + 1) < 0)
			return -errno;
		self.srar_af = 0;
		memset(self.srar_addr, 0, sizeof(self.srar_addr));
	}
	return bind(fd, (struct sockaddr *)&self, sizeof(self)) < 0 ? -errno : 0;
}

int rar_connect(int fd, const struct rar_ring *ring, uint32_t rank)
{
	struct sockaddr_rar next;

	rar_address(ring, rar_next(ring, rank), &next);
	return connect(fd, (struct sockaddr *)&next, sizeof(next)) < 0 ? -errno : 0;
}

int rar_join(int fd, const struct rar_ring *ring, uint32_t rank)
{
	return rar_bind(fd, ring, rank) ?: rar_connect(fd, ring, rank);
}

int rar_join_start(int fd, const struct rar_ring *ring, uint32_t rank)
{
	int err = rar_set_schedule(fd, ring) ?: rar_set_security(fd);
	struct rar_join join = {};

	if (err)
		return err;
	rar_address(ring, rank, &join.self);
	rar_address(ring, rar_next(ring, rank), &join.next);
	if (setsockopt(fd, SOL_RAR, RAR_JOIN, &join, sizeof(join)) < 0)
		return -errno;
	return 0;
}

int rar_join_wait(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int err = 0, n;

	n = poll(&pfd, 1, timeout_ms);
	if (n <= 0)
		return n ? -errno : -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		return -errno;
	if (!err && !(pfd.revents & POLLOUT))
		return -EPROTO;
	return -err;
}

int rar_open(const struct rar_ring *ring, uint32_t rank)
{
	int fd = rar_socket();
	int err;

	if (fd < 0)
		return fd;
	err = rar_join(fd, ring, rank);
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int rar_getopt(int fd, int option, void *value, size_t size)
{
	socklen_t len = size;

	memset(value, 0, size);
	return getsockopt(fd, SOL_RAR, option, value, &len) < 0 ? -errno : 0;
}

int rar_error(int fd, struct rar_error *error)
{
	return rar_getopt(fd, RAR_ERROR, error, sizeof(*error));
}

int rar_info(int fd, struct rar_info *info)
{
	return rar_getopt(fd, RAR_INFO, info, sizeof(*info));
}

bool rar_boxes_open(const struct rar_info *info)
{
	uint32_t open = 0;

	while (open < info->nboxes && info->boxes[open].state == RAR_BOX_OPEN)
		open++;
	return open && open == info->nboxes;
}

void rar_print_boxes(const struct rar_info *info)
{
	for (uint32_t i = 0; i < info->nboxes; i++)
		printf("# rank 0: box%u=%llu ring%u=%llu\n",
		       i, (unsigned long long)info->boxes[i].sums,
		       i, (unsigned long long)info->boxes[i].ring_sums);
}

const char *rar_reason_name(uint32_t reason)
{
	static const char * const names[] = {
		"NONE", "CLOSED", "DIED", "SILENT", "LEFT", "RESET", "ABORTED",
		"TIMEOUT", "JOIN_TIMEOUT", "DUPLICATE", "SIZE", "VERSION",
		"TABLE", "COLLECTIVE", "DTYPE", "REDOP", "COUNT", "ROOT",
		"FLAGS", "MTU", "NODEV", "FAULT", "SCHEDULE", "KEY", "PREV",
		"NOMEM", "BYTE_ORDER", "STALLED", "SECURITY",
	};

	_Static_assert(sizeof(names) / sizeof(names[0]) == RAR_R_NR,
		       "a reason has no name");

	return reason < RAR_R_NR ? names[reason] : "?";
}

void rar_log_error(int fd, const char *what, int err)
{
	struct rar_error e;

	if (rar_error(fd, &e) < 0)
		memset(&e, 0, sizeof(e));
	rar_log("%s: %s (err %d reason %s rank %u other %u op %llu)", what,
		strerror(-err), e.err, rar_reason_name(e.reason), e.rank,
		e.other, (unsigned long long)e.op_seq);
}

int rar_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int rar_timeout(int fd, int option, unsigned int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	if (setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv)) < 0)
		return -errno;
	return 0;
}

/* ------------------------------------------------------------ operations */

struct rar_op rar_op_of(uint8_t dtype, uint64_t bytes, uint64_t cookie)
{
	return (struct rar_op){
		.size = sizeof(struct rar_op), .dtype = dtype,
		.bytes = bytes, .cookie = cookie,
	};
}

static void rar_put_cmsg(struct msghdr *msg, void *control, size_t room,
			 const struct rar_op *op)
{
	struct cmsghdr *cmsg;

	memset(control, 0, room);
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(sizeof(*op));
	cmsg = CMSG_FIRSTHDR(msg);
	cmsg->cmsg_level = SOL_RAR;
	cmsg->cmsg_type = RAR_OP;
	cmsg->cmsg_len = CMSG_LEN(sizeof(*op));
	memcpy(CMSG_DATA(cmsg), op, sizeof(*op));
}

int rar_send(int fd, const void *buf, size_t len, int flags,
	     const struct rar_op *op)
{
	struct iovec iov = { (void *)buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	char control[CMSG_SPACE(sizeof(*op))]
		__attribute__((aligned(__alignof__(struct cmsghdr))));
	ssize_t n;

	if (op)
		rar_put_cmsg(&msg, control, sizeof(control), op);
	n = sendmsg(fd, &msg, flags | MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EMSGSIZE;
}

static void rar_get_done(struct msghdr *msg, struct rar_done *done)
{
	struct cmsghdr *cmsg;

	memset(done, 0, sizeof(*done));
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg))
		if (cmsg->cmsg_level == SOL_RAR && cmsg->cmsg_type == RAR_DONE)
			memcpy(done, CMSG_DATA(cmsg), sizeof(*done));
}

ssize_t rar_recv(int fd, void *buf, size_t len, int flags, bool *eor,
		 struct rar_done *done)
{
	struct iovec iov = { buf, len };
	char control[CMSG_SPACE(sizeof(*done))]
		__attribute__((aligned(__alignof__(struct cmsghdr))));
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(fd, &msg, flags);

	if (n < 0)
		return -errno;
	if (eor)
		*eor = msg.msg_flags & MSG_EOR;
	if (done)
		rar_get_done(&msg, done);
	return n;
}

ssize_t rar_recv_all(int fd, void *buf, size_t len, struct rar_done *done)
{
	size_t have = 0;
	bool eor = false;
	ssize_t n;

	while (!eor) {
		n = rar_recv(fd, (char *)buf + have, len - have, 0, &eor, done);
		if (n < 0)
			return n;
		if (!n && !eor)
			return have < len ? -EPIPE : -EMSGSIZE;
		have += n;
	}
	return have;
}
