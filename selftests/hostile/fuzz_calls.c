// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz_calls [-t seconds] [-p processes]: random calls of the socket interface.
 *
 * Processes of two threads each make and use sockets on lo. Most arguments are right, so that
 * groups form and work, and then fail at random moments. Processes are killed and replaced.
 * All data are 32-bit words of value 1. As integers or as (denormal) floats their sum over a
 * group has the group's size in every word, so each result can be checked, whoever sent it.
 *
 * At the end all processes can be killed, and no member and no memory is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"

#define SYSCTL		"/proc/sys/net/rar/"
#define PROCS_MAX	16
#define THREADS		2
#define SLOTS		12		/* descriptors of a thread */
#define MAX_SIZE	3		/* largest size of a group */
#define BYTES		(3u << 20)	/* longest send */
#define TICK_MS		30
#define DEAD_MS		1500
#define LINGER_MS	500
#define END_S		60		/* time for the last members to go */

enum what {
	W_CALLS, W_GROUPS, W_SENDS, W_RESULTS, W_SUMS, W_ERRORS, W_WRONG, W_NR
};

/* Results are pieces of records; sums are results of more than one rank. */
static const char * const what_names[W_NR] = {
	"calls", "groups", "sends", "results", "sums", "errors", "wrong",
};

static struct shared {
	atomic_bool stop;
	atomic_ulong count[W_NR];
	pid_t pid[PROCS_MAX];
} *shared;

static unsigned int seconds = 20, processes = 6;
static int base_netns;

/* ------------------------------------------------------------ one thread */

/* A descriptor. The members of a group of the thread's own are in consecutive slots. */
struct slot {
	int fd;			/* -1: empty */
	uint32_t rank, size;	/* size 1 if it is in no group of the thread's own */
};

struct thread {
	uint64_t rng;
	struct slot slot[SLOTS];
	char *buf;		/* BYTES of ones, read-only; unmapped after them */
	int pair[2];		/* descriptors travel through it */
};

static uint64_t random64(struct thread *t)
{
	t->rng ^= t->rng << 13;
	t->rng ^= t->rng >> 7;
	t->rng ^= t->rng << 17;
	return t->rng * 0x2545f4914f6cdd1dull;
}

static uint32_t below(struct thread *t, uint32_t n)
{
	return (random64(t) >> 33) % n;
}

static bool one_in(struct thread *t, uint32_t n)
{
	return !below(t, n);
}

static void count(enum what what)
{
	atomic_fetch_add_explicit(&shared->count[what], 1, memory_order_relaxed);
}

static struct slot *any_slot(struct thread *t)
{
	return &t->slot[below(t, SLOTS)];
}

static void put_slot(struct slot *s, int fd)
{
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct slot){ .fd = fd, .size = 1 };
}

/* A random length: mostly short, sometimes long, often at a border. */
static uint32_t any_length(struct thread *t)
{
	uint32_t len = 1u << below(t, 17);

	if (one_in(t, 20))
		len = below(t, BYTES);
	if (one_in(t, 3))
		len += below(t, 9) - 4;
	if (!one_in(t, 10))
		len &= ~7u;
	return len < BYTES ? len : BYTES;
}

static void *any_buffer(struct thread *t, uint32_t len)
{
	if (one_in(t, 30))
		return t->buf + BYTES - below(t, len + 1);	/* may end unmapped */
	return one_in(t, 60) ? (void *)(uintptr_t)below(t, 4096) : t->buf;
}

/* One of four groups, mostly with the size that its other members have. */
static struct rar_ring any_ring(struct thread *t)
{
	uint32_t nr = below(t, 4);

	return (struct rar_ring){
		.group = 100 + nr,
		.size = one_in(t, 20) ? below(t, 5) : 1 + nr % MAX_SIZE,
		.where = one_in(t, 4) ? RAR_ON_LO6 : RAR_ON_LO4,
	};
}

/* Overwrite a few bytes with random values. */
static void spoil(struct thread *t, void *p, size_t len)
{
	for (uint32_t n = 1 + below(t, 3); n; n--)
		((uint8_t *)p)[below(t, len)] = random64(t);
}

/* ------------------------------------------------------------ calls */

static void do_socket(struct thread *t)
{
	int type = one_in(t, 20) ? (int)below(t, 12) : SOCK_SEQPACKET;
	int proto = one_in(t, 20) ? (int)below(t, 300) : 0;

	put_slot(any_slot(t), socket(AF_RAR, type, proto));
}

static void do_bind(struct thread *t)
{
	struct rar_ring ring = any_ring(t);
	struct slot *s = any_slot(t);
	struct sockaddr_rar addr;

	rar_address(&ring, below(t, MAX_SIZE), &addr);
	if (one_in(t, 8))
		spoil(t, &addr, sizeof(addr));
	bind(s->fd, any_buffer(t, 0) == t->buf ? (void *)&addr : NULL,
	     one_in(t, 20) ? below(t, 200) : sizeof(addr));
}

static void do_connect(struct thread *t)
{
	struct rar_ring ring = any_ring(t);
	struct slot *s = any_slot(t);
	struct sockaddr_rar addr;

	rar_address(&ring, below(t, MAX_SIZE), &addr);
	if (one_in(t, 8))
		spoil(t, &addr, sizeof(addr));
	rar_nonblock(s->fd, !one_in(t, 5));
	connect(s->fd, (void *)&addr, one_in(t, 20) ? below(t, 200) : sizeof(addr));
}

static void do_join(struct thread *t)
{
	struct rar_ring ring = any_ring(t);
	uint32_t rank = below(t, MAX_SIZE);
	struct rar_join join = {};

	rar_address(&ring, rank, &join.self);
	rar_address(&ring, ring.size ? rar_next(&ring, rank) : 0, &join.next);
	if (one_in(t, 8))
		spoil(t, &join, sizeof(join));
	setsockopt(any_slot(t)->fd, SOL_RAR, RAR_JOIN, &join, sizeof(join));
}

/* Open all members of a group of this thread's own, in consecutive slots. */
static void do_group(struct thread *t)
{
	struct rar_ring ring = {
		.group = random64(t), .size = 1 + below(t, MAX_SIZE),
		.where = one_in(t, 4) ? RAR_ON_LO6 : RAR_ON_LO4,
	};
	uint32_t first = below(t, SLOTS - MAX_SIZE);
	int ok = 1;

	for (uint32_t r = 0; r < ring.size; r++) {
		put_slot(&t->slot[first + r], rar_socket());
		t->slot[first + r].rank = r;
		t->slot[first + r].size = ring.size;
		ok &= !rar_join_start(t->slot[first + r].fd, &ring, r);
	}
	for (uint32_t r = 0; r < ring.size && ok; r++)
		ok &= !rar_join_wait(t->slot[first + r].fd, 300);
	if (ok)
		count(W_GROUPS);
}

static ssize_t send_any(struct thread *t, int fd, void *buf, uint32_t len,
			uint8_t dtype)
{
	char control[CMSG_SPACE(sizeof(struct rar_op))]
		__attribute__((aligned(__alignof__(struct cmsghdr)))) = "";
	uint32_t first = len / 3 & ~7u;
	struct iovec iov[2] = {
		{ buf, first }, { (char *)buf + first, len - first },
	};
	struct msghdr msg = {
		.msg_iov = iov, .msg_iovlen = one_in(t, 30) ? below(t, 3) : 2,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct rar_op op = rar_op_of(dtype, 0, len);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	int flags = MSG_NOSIGNAL;

	if (one_in(t, 30))
		op.bytes = len + (below(t, 3) ? any_length(t) : 0);
	if (op.bytes > len)
		flags |= MSG_MORE;
	if (one_in(t, 12))
		op.dst = (uintptr_t)buf;	/* the blocking call */
	if (one_in(t, 60))
		spoil(t, &op, sizeof(op));
	*cmsg = (struct cmsghdr){
		.cmsg_level = SOL_RAR, .cmsg_type = RAR_OP,
		.cmsg_len = CMSG_LEN(sizeof(op)),
	};
	memcpy(CMSG_DATA(cmsg), &op, sizeof(op));
	if (one_in(t, 60))
		spoil(t, control, sizeof(*cmsg));
	if (one_in(t, 30))
		msg.msg_controllen = 0;
	if (!one_in(t, 5))
		flags |= MSG_DONTWAIT;
	if (one_in(t, 60))
		flags |= 1 << below(t, 31);
	if (len % 8)
		flags &= ~MSG_MORE;	/* the next piece would begin within a word */
	return sendmsg(fd, &msg, flags);
}

static void do_send(struct thread *t)
{
	uint32_t len = any_length(t);

	if (send_any(t, any_slot(t)->fd, any_buffer(t, len), len,
		     below(t, 5)) >= 0)
		count(W_SENDS);
}

/* The number of ranks in the sum, or 0: it comes with the last piece. */
static uint32_t contributors(struct msghdr *msg)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	struct rar_done done;

	if (!cmsg || cmsg->cmsg_len < CMSG_LEN(sizeof(done)))
		return 0;
	memcpy(&done, CMSG_DATA(cmsg), sizeof(done));
	if (done.contributors > 1)
		count(W_SUMS);
	return done.contributors;
}

/* Check that every word has the value @size, or if that is 0 of the first word. */
static void judge(const uint32_t *x, size_t bytes, uint32_t size)
{
	if (!size && bytes >= 4)
		size = x[0];
	for (size_t i = 0; i < bytes / 4; i++) {
		if (x[i] == size && size >= 1 && size <= MAX_SIZE)
			continue;
		rar_log("word %zu of %zu bytes is %x, not %x", i, bytes, x[i],
			size);
		count(W_WRONG);
		return;
	}
}

static void receive(struct thread *t, int fd, uint32_t len, int flags)
{
	char control[100] __attribute__((aligned(__alignof__(struct cmsghdr))));
	void *buf = one_in(t, 20) ? any_buffer(t, len) : NULL;
	uint32_t *own = buf ? NULL : malloc(len + 1);
	struct iovec iov = { buf ?: own, len };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = below(t, sizeof(control)),
	};
	ssize_t n = recvmsg(fd, &msg, flags);

	if (n > 0)
		count(W_RESULTS);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		count(W_ERRORS);
	if (n > 0 && own)
		judge(own, n, contributors(&msg));
	free(own);
}

/* Receive a piece of a result, of whole words. */
static void do_recv(struct thread *t)
{
	int flags = one_in(t, 5) ? 0 : MSG_DONTWAIT;

	if (one_in(t, 30))
		flags |= 1 << below(t, 31);
	receive(t, any_slot(t)->fd, one_in(t, 4) ? any_length(t) & ~3u : BYTES, flags);
}

/* All members of a group, sometimes not all, post an operation and receive the result. */
static void do_allreduce(struct thread *t)
{
	uint32_t len = any_length(t), at = below(t, SLOTS), n = t->slot[at].size, i;
	struct slot *s = &t->slot[at - t->slot[at].rank];
	uint8_t dtype = 1 + below(t, 4);

	if (one_in(t, 20))
		n = 1;
	for (i = 0; i < n; i++)
		if (send_any(t, s[i].fd, t->buf, len, dtype) >= 0)
			count(W_SENDS);
	for (i = 0; i < n; i++) {
		struct pollfd p = { .fd = s[i].fd, .events = POLLIN };

		if (poll(&p, 1, 10) > 0)
			receive(t, p.fd, BYTES, MSG_DONTWAIT);
	}
}

static void do_poll(struct thread *t)
{
	struct pollfd p[SLOTS];

	for (int i = 0; i < SLOTS; i++)
		p[i] = (struct pollfd){ t->slot[i].fd, random64(t), 0 };
	poll(p, SLOTS, below(t, 5));
}

static void do_shutdown(struct thread *t)
{
	shutdown(any_slot(t)->fd, one_in(t, 4) ? (int)below(t, 5) : SHUT_WR);
}

static void do_close(struct thread *t)
{
	put_slot(any_slot(t), -1);
}

static void do_dup(struct thread *t)
{
	struct slot *from = any_slot(t);

	if (from->fd >= 0)
		put_slot(any_slot(t), dup(from->fd));
}

static void do_setsockopt(struct thread *t)
{
	int level = one_in(t, 3) ? SOL_SOCKET : SOL_RAR;
	int name = level == SOL_RAR ? below(t, RAR_SCHEDULE + 2) : below(t, 80);
	uint64_t value[20] = { one_in(t, 4) ? random64(t) : below(t, 5) };
	uint32_t len = one_in(t, 6) ? below(t, sizeof(value)) : 4;

	if (level == SOL_RAR && name == RAR_ABORT && !one_in(t, 4))
		return;
	if (level == SOL_RAR && name == RAR_OP_TIMEOUT)
		value[0] = below(t, 2000);
	/* Else all ranks of a group may get the same reduction that is no sum. */
	if (level == SOL_RAR && name == RAR_REDOP && value[0] < RAR_REDOP_NR)
		value[0] = RAR_SUM;
	setsockopt(any_slot(t)->fd, level, name,
		   one_in(t, 30) ? any_buffer(t, 1) : value, len);
}

static void do_getsockopt(struct thread *t)
{
	char value[4096];
	socklen_t len = below(t, sizeof(value));

	if (one_in(t, 20))
		len = random64(t);
	getsockopt(any_slot(t)->fd, one_in(t, 4) ? SOL_SOCKET : SOL_RAR,
		   below(t, 40), len > sizeof(value) || one_in(t, 30) ?
		   any_buffer(t, 1) : value, &len);
}

/* Pass a descriptor through a socket pair; it comes back with another number. */
static void do_pass(struct thread *t)
{
	char control[CMSG_SPACE(sizeof(int))]
		__attribute__((aligned(__alignof__(struct cmsghdr)))) = "";
	struct iovec iov = { "x", 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	struct slot *s = any_slot(t);
	char byte;
	int fd;

	*cmsg = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
		.cmsg_len = CMSG_LEN(sizeof(int)),
	};
	memcpy(CMSG_DATA(cmsg), &s->fd, sizeof(int));
	if (sendmsg(t->pair[0], &msg, MSG_DONTWAIT) < 0 || one_in(t, 3))
		return;		/* the descriptor stays in flight for a while */
	iov.iov_base = &byte;
	msg.msg_controllen = sizeof(control);
	if (recvmsg(t->pair[1], &msg, MSG_DONTWAIT) <= 0 || !CMSG_FIRSTHDR(&msg))
		return;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	put_slot(any_slot(t), fd);
}

static void do_sysctl(struct thread *t)
{
	static const struct {
		const char *path;
		uint32_t low, high;
	} table[] = {
		{ SYSCTL "rx_path", 0, 0 },
		{ SYSCTL "window", 4096, 4 << 20 },
		{ SYSCTL "mem", 1 << 20, 64 << 20 },
		{ SYSCTL "early_bytes", 0, 1 << 20 },
		{ SYSCTL "copy_step", 0, 1 << 17 },
		{ SYSCTL "join_ms", 50, 1500 },
		{ SYSCTL "max_members", 64, 4096 },
		{ SYSCTL "port", 18118, 18118 }, { SYSCTL "port", 18118, 18121 },
	};
	uint32_t i = below(t, ARRAY_SIZE(table));
	char value[24];

	snprintf(value, sizeof(value), "%u",
		 table[i].low + below(t, table[i].high - table[i].low + 1));
	if (one_in(t, 10))
		snprintf(value, sizeof(value), "%lld", (long long)random64(t));
	else if (!i)
		snprintf(value, sizeof(value), one_in(t, 2) ? "udp" : "ingress");
	rar_write(table[i].path, value);
}

/* The page of counters, mapped rightly or not; it may outlive its socket. */
static void do_mmap(struct thread *t)
{
	size_t len = sysconf(_SC_PAGESIZE);
	struct slot *slot = any_slot(t);
	struct rar_counters *page;

	page = mmap(NULL, len << one_in(t, 8), one_in(t, 8) ? PROT_READ | PROT_WRITE : PROT_READ,
		    one_in(t, 8) ? MAP_PRIVATE : MAP_SHARED, slot->fd, 0);
	if (page == MAP_FAILED)
		return;
	if (one_in(t, 2))
		do_allreduce(t);
	if (one_in(t, 8))
		put_slot(slot, -1);
	if (page->version != RAR_COUNTERS_VERSION)
		count(W_WRONG);
	munmap(page, len);
}

/* Make a network namespace, which dies with its last socket. */
static void do_netns(struct thread *t)
{
	if (unshare(CLONE_NEWNET) < 0)
		return;
	rar_write("/proc/sys/net/ipv4/ip_forward", "0");
	do_group(t);
	do_allreduce(t);
	setns(base_netns, CLONE_NEWNET);
}

static void do_unload(struct thread *t)
{
	(void)t;
	syscall(SYS_delete_module, "rar", O_NONBLOCK);
}

static void do_kill(struct thread *t)
{
	pid_t pid = shared->pid[below(t, processes)];

	if (pid > 0 && one_in(t, 4))
		kill(pid, SIGKILL);
}

static void do_fork(struct thread *t);

static const struct {
	void (*fn)(struct thread *t);
	uint32_t weight;
} calls[] = {
	{ do_socket, 6 }, { do_bind, 5 }, { do_connect, 5 }, { do_join, 10 },
	{ do_group, 8 }, { do_send, 20 }, { do_recv, 20 }, { do_allreduce, 30 },
	{ do_poll, 3 }, { do_shutdown, 2 }, { do_close, 5 }, { do_dup, 2 },
	{ do_setsockopt, 8 }, { do_getsockopt, 8 }, { do_pass, 3 },
	{ do_mmap, 2 }, { do_sysctl, 2 }, { do_netns, 1 }, { do_unload, 1 }, { do_kill, 1 },
	{ do_fork, 2 },
};

static void any_call(struct thread *t)
{
	uint32_t total = 0, pick, i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		total += calls[i].weight;
	pick = below(t, total);
	for (i = 0; pick >= calls[i].weight; i++)
		pick -= calls[i].weight;
	calls[i].fn(t);
	count(W_CALLS);
}

/* Fork a child that uses the inherited descriptors, then exits or is killed. */
static void do_fork(struct thread *t)
{
	pid_t pid = fork();

	if (!pid) {
		alarm(3);
		for (uint32_t n = below(t, 20); n; n--)
			if (!one_in(t, 10))
				do_allreduce(t);
		_exit(0);
	}
	if (pid > 0 && one_in(t, 3))
		kill(pid, SIGKILL);
}

/* ------------------------------------------------------------ processes */

static void thread_init(struct thread *t, uint64_t seed)
{
	size_t page = sysconf(_SC_PAGESIZE);

	t->rng = (seed + 1) * 0x9e3779b97f4a7c15ull;
	for (int i = 0; i < SLOTS; i++)
		t->slot[i].fd = -1;
	t->buf = mmap(NULL, BYTES + page, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t->buf == MAP_FAILED)
		abort();
	for (size_t i = 0; i < BYTES / 4; i++)
		((uint32_t *)t->buf)[i] = 1;
	if (mprotect(t->buf, BYTES, PROT_READ) ||
	    mprotect(t->buf + BYTES, page, PROT_NONE) ||
	    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, t->pair))
		abort();
}

static void *thread_main(void *seed)
{
	static __thread struct thread t;

	thread_init(&t, (uintptr_t)seed);
	while (!shared->stop)
		any_call(&t);
	return NULL;
}

static void on_tick(int sig)
{
	(void)sig;
}

/* A process with its threads; signals interrupt blocking calls. */
static int process_main(uint32_t seed, void *arg)
{
	struct sigaction sa = { .sa_handler = on_tick };
	pthread_t id[THREADS];

	(void)arg;
	sigaction(SIGUSR1, &sa, NULL);
	signal(SIGCHLD, SIG_IGN);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&id[i], NULL, thread_main,
				   (void *)(rar_seed * 1000003 + seed * THREADS + i)))
			return 1;
	while (!shared->stop) {
		rar_sleep_ms(TICK_MS);
		for (int i = 0; i < THREADS; i++)
			pthread_kill(id[i], SIGUSR1);
	}
	return 0;
}

/* Keep the processes running; the number of a process decides its calls. */
static void run(void)
{
	uint64_t end = rar_now_us() + seconds * 1000000ull;
	uint32_t started = 0;
	int status;

	while (rar_now_us() < end && !shared->count[W_WRONG]) {
		for (uint32_t i = 0; i < processes; i++) {
			if (shared->pid[i] > 0 &&
			    waitpid(shared->pid[i], &status, WNOHANG) <= 0)
				continue;
			shared->pid[i] = rar_spawn(NULL, process_main, started++, NULL);
		}
		rar_sleep_ms(20);
	}
	shared->stop = true;
	rar_log("%u processes were started", started);
}

/* ------------------------------------------------------------ the end */

static bool reap_all(void)
{
	uint64_t end = rar_now_us() + END_S * 1000000ull;
	bool all = true;

	for (uint32_t i = 0; i < processes; i++) {
		if (shared->pid[i] <= 0)
			continue;
		kill(shared->pid[i], SIGKILL);
		while (waitpid(shared->pid[i], NULL, WNOHANG) == 0) {
			if (rar_now_us() > end) {
				rar_log("process %d cannot be killed", shared->pid[i]);
				all = false;
				break;
			}
			rar_sleep_ms(10);
		}
	}
	return all;
}

/* The number of members in /proc/net/rar; sets *mem from its first line. */
static int members(long long *mem)
{
	FILE *f = fopen("/proc/thread-self/net/rar", "re");
	char line[1024];
	int n = -1;

	*mem = -1;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "family %*d wire %*d groups %*u mem %lld", mem) != 1)
			n++;
	if (f)
		fclose(f);
	return n;
}

static bool empty(void)
{
	uint64_t end = rar_now_us() + END_S * 1000000ull;
	long long mem;
	int n;

	while ((n = members(&mem)) || mem) {
		if (rar_now_us() > end) {
			rar_log("%d members and %lld bytes are left", n, mem);
			return false;
		}
		rar_sleep_ms(50);
	}
	return true;
}

static void set(const char *path, unsigned int value)
{
	char text[16];
	int err;

	snprintf(text, sizeof(text), "%u", value);
	err = rar_write(path, text);
	if (err)
		ksft_exit_fail_msg("%s: %s\n", path, strerror(-err));
}

static void prepare(void)
{
	int err = rar_private_net();

	if (err)
		ksft_exit_fail_msg("unshare: %s\n", strerror(-err));
	base_netns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	shared = rar_shared(sizeof(*shared));
	set(SYSCTL "dead_ms", DEAD_MS);
	set(SYSCTL "linger_ms", LINGER_MS);
	set(SYSCTL "join_ms", 1000);
	set(SYSCTL "mem", 64 << 20);
}

int main(int argc, char **argv)
{
	int c, holder;

	while ((c = getopt(argc, argv, "t:p:")) != -1) {
		if (c == 't')
			seconds = atoi(optarg);
		else if (c == 'p')
			processes = atoi(optarg);
	}
	if (processes < 1 || processes > PROCS_MAX)
		return KSFT_FAIL;
	rar_begin();
	ksft_set_plan(4);
	prepare();
	prctl(PR_SET_CHILD_SUBREAPER, 1);

	holder = rar_socket();	/* holds the module */
	run();
	ksft_test_result(reap_all(), "every process can be killed\n");
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	close(holder);
	for (c = 0; c < W_NR; c++)
		rar_log("%s: %lu", what_names[c], shared->count[c]);
	ksft_test_result(!shared->count[W_WRONG], "no sum was wrong\n");
	ksft_test_result(shared->count[W_GROUPS] && shared->count[W_SUMS],
			 "groups formed and gave sums\n");
	ksft_test_result(empty(), "no member and no memory is left\n");
	ksft_finished();
}
