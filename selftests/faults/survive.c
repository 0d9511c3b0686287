// SPDX-License-Identifier: GPL-2.0
/*
 * survive [-n | -s] [-l]: the life of a group of three on lo, while memory allocations and
 * copies from and to user space fail. alloc_fail.py makes them fail; this program checks the
 * effects.
 *
 * A call that fails returns an errno that tells the reason, has no effect, and works when it
 * is repeated. A packet that cannot be built counts as lost. So after a single failure every
 * sum arrives and is right. A listener on generic netlink gets each event, or ENOBUFS.
 *
 *	-n	the first, second, third ... allocation of each call fails
 *	-s	many allocations fail: a group may end with an error; sums are right or missing
 *	-l	the network loses no packets
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/genetlink.h>
#include <linux/if_ether.h>
#include <linux/netlink.h>
#include <linux/rar_netlink.h>
#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "rar_util.h"

#define N	3
#define TRIES	1000	/* of a call, which is repeated at once when it fails */
#define LABELS	32
#define ROUNDS	40	/* rounds of operations at most, with -n */
#define PINNED	5000	/* elements of an operation in place */
#define LARGEST	400000	/* bytes of an operation */
#define LIMIT_S	100

static bool nth_mode, storm, lossless;
static uint64_t op_id;

/* ------------------------------------------------------------ one call */

/* How far the enumeration of a call's allocations has come. */
struct label {
	const char *name;
	unsigned int nth;
	bool done;
};

static struct label labels[LABELS];
static int nth_fd = -1;

static struct label *label_of(const char *name)
{
	struct label *l = labels;

	while (l->name && strcmp(l->name, name))
		l++;
	if (!l->name)
		*l = (struct label){ .name = name, .nth = 1 };
	return l;
}

static void nth_write(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(nth_fd, text, len, 0) != len)
		abort();
}

static unsigned int nth_read(void)
{
	char text[16] = "";

	if (pread(nth_fd, text, sizeof(text) - 1, 0) <= 0)
		abort();
	return strtoul(text, NULL, 10);
}

static void arm(struct label *l)
{
	if (nth_mode && !l->done)
		nth_write(l->nth);
}

/* If no failure was injected the call has no more allocations that can fail. */
static void disarm(struct label *l)
{
	if (!nth_mode || l->done)
		return;
	if (nth_read()) {
		nth_write(0);
		l->done = true;
	} else {
		l->nth++;
	}
}

/*
 * Does an errno say that memory, or a user's page, was missing? If IPv6 has no memory for a
 * route it returns ENETUNREACH; without an inode a socket fails with ENFILE.
 */
static bool is_clear(long err)
{
	return err == -ENOMEM || err == -ENOBUFS || err == -EFAULT ||
	       err == -EAGAIN || err == -ENETUNREACH || err == -ENFILE;
}

static bool again(const char *what, long ret, int tries)
{
	if (ret >= 0 || !is_clear(ret) || tries >= TRIES)
		return false;
	if (!tries)
		rar_log("%s: %s, trying again", what, strerror(-ret));
	rar_sleep_ms(1);
	return true;
}

/* TRY("label", call): the call's value; a negative value is an errno. */
#define TRY(what, call) ({						\
	struct label *l_ = label_of(what);				\
	int tries_ = 0;							\
	long ret_;							\
									\
	do {								\
		arm(l_);						\
		ret_ = (call);						\
		disarm(l_);						\
	} while (again(what, ret_, tries_++));				\
	ret_;								\
})

#define ERRNO(call) ({ long r_ = (call); r_ < 0 ? -errno : r_; })
#define MIN_ZERO(n) ({ long n_ = (n); n_ < 0 ? n_ : 0; })

/* ------------------------------------------------------------ the network */

static int net_up(void)
{
	static const char sysctl[] = "/proc/sys/net/rar/";
	static const char * const values[][2] = {
		{ "dead_ms", "4000" }, { "linger_ms", "500" }, { "join_ms", "8000" },
	};
	char path[64];
	int err = TRY("unshare", ERRNO(rar_private_net()));

	for (size_t i = 0; i < ARRAY_SIZE(values) && !err; i++) {
		snprintf(path, sizeof(path), "%s%s", sysctl, values[i][0]);
		err = rar_write(path, values[i][1]);
	}
	err = err ?: TRY("box_offer", rar_write("/proc/sys/net/rar/box_offer", "1"));
	/* Operations of several chunks go in carriers, and the largest has bitmaps of its own. */
	if (!err && system("ip link set lo mtu 1500"))
		err = -EIO;
	if (!err && !lossless &&
	    system("tc qdisc add dev lo root netem loss 4% delay 1ms limit 10000"))
		err = -EIO;
	return err;
}

/* A packet socket shares all packets, so that the module must clone those it holds. */
static int tap_open(void)
{
	return socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
}

/* ------------------------------------------------------------ netlink */

static int genl_fd = -1, events_fd = -1;
static __u16 genl_family;

struct request {
	struct nlmsghdr nlh;
	struct genlmsghdr genl;
	char attrs[64];
};

static void add_attr(struct request *r, int type, const void *data, size_t len)
{
	struct nlattr *attr = (void *)r + r->nlh.nlmsg_len;

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	memcpy((void *)attr + NLA_HDRLEN, data, len);
	r->nlh.nlmsg_len += NLA_ALIGN(attr->nla_len);
}

static struct request new_request(__u16 family, __u8 cmd)
{
	return (struct request) {
		.nlh = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN), .nlmsg_type = family,
			 .nlmsg_flags = NLM_F_REQUEST },
		.genl = { .cmd = cmd, .version = 1 },
	};
}

/* Send a request. Returns the length of the answer, or a negative errno. */
static int ask(const struct request *r, void *answer, size_t room)
{
	const struct nlmsghdr *nlh = answer;
	ssize_t n;

	if (send(genl_fd, r, r->nlh.nlmsg_len, 0) < 0)
		return -errno;
	n = recv(genl_fd, answer, room, 0);
	if (n < (ssize_t)sizeof(*nlh))
		return n < 0 ? -errno : -EPROTO;
	if (nlh->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(nlh))->error;
	return n;
}

/* The first attribute of a type. */
static const struct nlattr *find_attr(const void *attrs, const void *end, int type)
{
	const struct nlattr *attr = attrs;

	while ((const void *)(attr + 1) <= end && (attr->nla_type & NLA_TYPE_MASK) != type)
		attr = (const void *)attr + NLA_ALIGN(attr->nla_len);
	return (const void *)(attr + 1) <= end ? attr : NULL;
}

/* Look the family up, and listen to its events. */
static int genl_up(void)
{
	struct request r = new_request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	struct sockaddr_nl any = { .nl_family = AF_NETLINK };
	const struct nlattr *family, *groups, *group;
	char answer[4096], *attrs = answer + NLMSG_LENGTH(GENL_HDRLEN);
	int n;

	genl_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	events_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	/* A socket that is not bound hears nothing that the kernel multicasts. */
	if (genl_fd < 0 || events_fd < 0 ||
	    bind(events_fd, (struct sockaddr *)&any, sizeof(any)))
		return -errno;
	add_attr(&r, CTRL_ATTR_FAMILY_NAME, RAR_GENL_NAME, sizeof(RAR_GENL_NAME));
	n = ask(&r, answer, sizeof(answer));
	if (n < 0)
		return n;
	family = find_attr(attrs, answer + n, CTRL_ATTR_FAMILY_ID);
	groups = find_attr(attrs, answer + n, CTRL_ATTR_MCAST_GROUPS);
	if (!family || !groups)
		return -EPROTO;
	genl_family = *(__u16 *)(family + 1);
	group = find_attr(groups + 2, answer + n, CTRL_ATTR_MCAST_GRP_ID);
	return group ? ERRNO(setsockopt(events_fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group + 1,
					sizeof(__u32))) : -EPROTO;
}

static int net_get(void)
{
	struct request r = new_request(genl_family, RAR_CMD_NET_GET);
	char answer[4096];

	return ask(&r, answer, sizeof(answer));
}

static int member_get(__u64 group)
{
	struct request r = new_request(genl_family, RAR_CMD_MEMBER_GET);
	char answer[8192];
	__u32 rank = 1;

	add_attr(&r, RAR_A_MEMBER_GROUP, &group, sizeof(group));
	add_attr(&r, RAR_A_MEMBER_RANK, &rank, sizeof(rank));
	return ask(&r, answer, sizeof(answer));
}

/* Read all events. There are @joins of joins at least, unless ENOBUFS says that some are lost. */
static int events_came(int joins)
{
	char event[4096], *attrs = event + NLMSG_LENGTH(GENL_HDRLEN);
	const struct nlattr *kind;
	bool lost = false;
	ssize_t n;

	for (;;) {
		n = recv(events_fd, event, sizeof(event), MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		lost |= n < 0;
		kind = n < 0 ? NULL : find_attr(attrs, event + n, RAR_A_EVENT_KIND);
		joins -= kind && *(__u32 *)(kind + 1) == RAR_EVENT_JOINED;
	}
	return joins <= 0 || lost ? 0 : -ENOMSG;
}

/* ------------------------------------------------------------ a group */

static int start_by_connect(int fd, const struct rar_ring *ring)
{
	int err = rar_nonblock(fd, true);

	if (!err)
		err = TRY("bind", rar_bind(fd, ring, 0));
	if (!err)
		err = TRY("connect", rar_connect(fd, ring, 0));
	if (err == -EINPROGRESS || err == -EALREADY)
		err = 0;
	return err ?: rar_nonblock(fd, false);
}

static int join_end(int *fd)
{
	int err = 0;

	for (int r = 0; r < N && !err; r++)
		err = rar_join_wait(fd[r], 10000);
	return err;
}

static void close_all(int *fd)
{
	for (int r = 0; r < N; r++)
		if (fd[r] >= 0)
			close(fd[r]);
}

static int set_prev(int fd, const struct rar_ring *ring, uint32_t rank)
{
	struct sockaddr_rar prev;

	rar_address(ring, (rank + N - 1) % N, &prev);
	return ERRNO(setsockopt(fd, SOL_RAR, RAR_PREV_ADDR, &prev, sizeof(prev)));
}

/* The socket names the box that net.rar.box names anyway, if there is one. */
static int set_box(int fd)
{
	struct sockaddr_rar box = { .srar_family = AF_RAR, .srar_af = AF_INET };
	const char *address = getenv("RAR_BOX");

	if (!address)
		return 0;
	inet_pton(AF_INET, address, box.srar_addr);
	return ERRNO(setsockopt(fd, SOL_RAR, RAR_BOX, &box, sizeof(box)));
}

static int group_up(int *fd, const struct rar_ring *ring)
{
	int err = 0;

	for (int r = 0; r < N; r++)
		fd[r] = -1;
	for (int r = 0; r < N && !err; r++) {
		fd[r] = TRY("socket", rar_socket());
		err = fd[r] < 0 ? fd[r] : TRY("RAR_PREV_ADDR", set_prev(fd[r], ring, r));
		err = err ?: TRY("RAR_BOX", set_box(fd[r]));
		if (!err && !r)
			err = start_by_connect(fd[r], ring);
		else if (!err)
			err = TRY("RAR_JOIN", rar_join_start(fd[r], ring, r));
	}
	err = err ?: join_end(fd);
	if (err)
		rar_log_error(fd[0], "join", err);
	return err;
}

/* Collect a result. If RAR_DONE cannot be copied it is lost, as all control messages. */
static int collect(int fd, const struct rar_data *d)
{
	static char buf[LARGEST + 1];
	ssize_t n = rar_recv_all(fd, buf, sizeof(buf), NULL);

	if (n < 0)
		return n;
	if ((uint64_t)n != rar_bytes(d))
		return -EMSGSIZE;
	return rar_verify(d, 0, d->count, buf) < 0 ? 0 : -EBADE;
}

/* An all-reduce. The last rank is late, so packets of the others are held for it. */
static int allreduce(const char *label, int *fd, uint32_t dtype, uint64_t count)
{
	struct rar_data d = {
		.id = ++op_id, .count = count, .size = N, .dtype = dtype,
	};
	int err = 0;

	for (int r = 0; r < N && !err; r++) {
		if (r == N - 1)
			rar_sleep_ms(3);
		err = TRY(label, rar_post(fd[r], &d, r));
	}
	for (int r = 0; r < N && !err; r++)
		err = TRY("recv", collect(fd[r], &d));
	if (err)
		rar_log_error(fd[0], label, err);
	return err;
}

static uint32_t memory[N][2][PINNED];

/* Collect a result that lies in memory of the caller. */
static int read_byte(int fd, ssize_t bytes)
{
	char byte;
	ssize_t n = rar_recv_all(fd, &byte, sizeof(byte), NULL);

	return n < 0 ? n : n == bytes ? 0 : -EMSGSIZE;
}

/*
 * An all-reduce in memory of the caller: in place, or out of place if @apart. Then recv()
 * copies a byte, too.
 */
static int pinned(const char *label, int *fd, bool apart)
{
	struct rar_data d = {
		.id = ++op_id, .count = PINNED, .size = N, .dtype = RAR_F32,
	};
	struct rar_op op = rar_op_of(d.dtype, 0, d.id);
	uint32_t nonempty = apart;
	int err = 0;

	for (int r = 0; r < N && !err; r++) {
		rar_fill(&d, r, 0, d.count, memory[r][0]);
		op.dst = apart ? (uintptr_t)memory[r][1] : 0;
		err = TRY("RAR_NONEMPTY", ERRNO(setsockopt(fd[r], SOL_RAR, RAR_NONEMPTY, &nonempty,
							   sizeof(nonempty))));
		err = err ?: TRY(label, rar_send(fd[r], memory[r][0], rar_bytes(&d),
					  MSG_ZEROCOPY, &op));
	}
	for (int r = 0; r < N && !err; r++) {
		err = TRY("recv", read_byte(fd[r], nonempty));
		if (!err && rar_verify(&d, 0, d.count, memory[r][apart]) >= 0)
			err = -EBADE;
	}
	if (err)
		rar_log_error(fd[0], label, err);
	return err;
}

/* Collect an exact sum of small integers. */
static int collect_exact(int fd)
{
	float x[PINNED];
	ssize_t n = rar_recv_all(fd, x, sizeof(x), NULL);

	if (n < 0)
		return n;
	for (uint32_t i = 0; i < PINNED; i++)
		if (n != sizeof(x) || x[i] != N * i + N)
			return -EBADE;
	return 0;
}

/* An all-reduce whose numbers travel as integers. */
static int exact(const char *label, int *fd)
{
	struct rar_op op = rar_op_of(RAR_F32, 0, ++op_id);
	float x[PINNED];
	int err = 0;

	op.flags = RAR_OPF_EXACT;
	for (int r = 0; r < N && !err; r++) {
		for (uint32_t i = 0; i < PINNED; i++)
			x[i] = i + r;
		err = TRY(label, rar_send(fd[r], x, sizeof(x), 0, &op));
	}
	for (int r = 0; r < N && !err; r++)
		err = TRY("recv", collect_exact(fd[r]));
	if (err)
		rar_log_error(fd[0], label, err);
	return err;
}

/* A record of a keyed reduction. */
struct record {
	uint64_t key;
	int64_t value;
};

#define KEYS	4

/* Collect the table of a keyed reduction: each key has the sum of what the ranks sent. */
static int collect_keyed(int fd, bool root)
{
	struct record got[2 * KEYS];
	int64_t sum[KEYS] = {};
	ssize_t n = rar_recv_all(fd, got, sizeof(got), NULL);

	if (n < 0 || !root)
		return n > 0 ? -EMSGSIZE : n;
	for (uint32_t i = 0; i < n / sizeof(*got); i++)
		if (got[i].key < KEYS)
			sum[got[i].key] += got[i].value;
	for (uint32_t i = 0; i < KEYS; i++)
		if (sum[i] != N * (N + 1) / 2)
			return -EBADE;
	return 0;
}

/* A keyed reduction: rank r sends r + 1 for each key. */
static int keyed(const char *label, int *fd)
{
	struct rar_op op = rar_op_of(RAR_I64, RAR_SUM, ++op_id);
	struct record record[KEYS];
	int err = 0;

	op.collective = RAR_REDUCE_BY_KEY;
	op.key = sizeof(record[0].key);
	op.bytes = 2 * sizeof(record);
	for (int r = 0; r < N && !err; r++) {
		for (uint32_t i = 0; i < KEYS; i++)
			record[i] = (struct record){ i, r + 1 };
		err = TRY(label, rar_send(fd[r], record, sizeof(record), 0, &op));
	}
	for (int r = 0; r < N && !err; r++)
		err = TRY("recv", collect_keyed(fd[r], !r));
	if (err)
		rar_log_error(fd[0], label, err);
	return err;
}

/* RAR_REG or RAR_UNREG of all memory of the operations. */
static int regions(const char *label, int *fd, int option)
{
	struct rar_reg reg = { .len = sizeof(memory[0]) };
	int err = 0;

	for (int r = 0; r < N && !err; r++) {
		reg.addr = (uintptr_t)memory[r];
		err = TRY(label, ERRNO(setsockopt(fd[r], SOL_RAR, option, &reg, sizeof(reg))));
	}
	return err;
}

/* All operations of a round. 6500 f64 have an odd number of pages. */
static int operations(int *fd, uint32_t schedule)
{
	int err = schedule == RAR_DIRECT ? keyed("send records", fd) : 0;

	if (err)
		return err;
	return allreduce("send 5 f32", fd, RAR_F32, 5) ?:
	       allreduce("send 6500 f64", fd, RAR_F64, 6500) ?:
	       allreduce("send 100000 i32", fd, RAR_I32, 100000) ?:
	       exact("send 5000 exact", fd) ?:
	       pinned("send in place", fd, false) ?:
	       pinned("send out of place", fd, true) ?:
	       regions("RAR_REG", fd, RAR_REG) ?:
	       pinned("send in a region", fd, false) ?:
	       regions("RAR_UNREG", fd, RAR_UNREG);
}

/* Have the calls of a round no more allocations that can fail? */
static bool nth_done(void)
{
	for (struct label *l = labels; l->name; l++)
		if (!l->done && (!strcmp(l->name, "recv") ||
				 !strncmp(l->name, "send ", 5)))
			return false;
	return true;
}

/* Map the page of counters, and give it back. */
static int page(int fd)
{
	size_t len = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	return ERRNO(munmap(p, len));
}

static int options(int fd)
{
	struct rar_peer peers[N];
	struct rar_info info;
	struct rar_error error;
	socklen_t len;
	__s32 owner = 0;
	int err;

	err = TRY("RAR_INFO", rar_info(fd, &info)) ?:
	      TRY("RAR_ERROR", rar_error(fd, &error));
	err = err ?: TRY("mmap", page(fd));
	err = err ?: TRY("RAR_PEERS", (len = sizeof(peers),
		ERRNO(getsockopt(fd, SOL_RAR, RAR_PEERS, peers, &len))));
	return err ?: TRY("RAR_OWNER",
		ERRNO(setsockopt(fd, SOL_RAR, RAR_OWNER, &owner, sizeof(owner))));
}

/* Fork a child, which inherits all descriptors and exits. */
static int forked(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return waitpid(pid, NULL, 0) == pid ? 0 : -ECHILD;
}

/* A group's life from the first socket to the last close, in which no sum is lost. */
static int good_life(const struct rar_ring *ring)
{
	int fd[N], err, rounds = nth_mode ? ROUNDS : 1;

	err = group_up(fd, ring);
	while (!err && rounds--) {
		err = operations(fd, ring->schedule);
		if (nth_done())
			break;
	}
	err = err ?: forked();
	err = err ?: options(fd[1]);
	if (!err)
		err = MIN_ZERO(TRY("NET_GET", net_get()));
	if (!err)
		err = MIN_ZERO(TRY("MEMBER_GET", member_get(ring->group)));
	if (!err)
		err = TRY("shutdown", ERRNO(shutdown(fd[0], SHUT_WR)));
	close_all(fd);
	return err;
}

/* A rank closes in the middle; the others must be told. */
static int bad_end(const struct rar_ring *ring)
{
	struct rar_data d = {
		.id = ++op_id, .count = 1000, .size = N, .dtype = RAR_F32,
	};
	int fd[N], err;

	err = group_up(fd, ring);
	err = err ?: TRY("last send", rar_post(fd[0], &d, 0));
	if (!err) {
		close(fd[2]);
		fd[2] = -1;
		err = collect(fd[0], &d);
		err = err == -ECONNRESET ? 0 : err ?: -EPROTO;
	}
	close_all(fd);
	return err;
}

static bool memory_returned(void)
{
	FILE *f = fopen("/proc/thread-self/net/rar", "re");
	long long mem = -1;
	int n;

	n = f ? fscanf(f, "family %*d wire %*d groups %*u mem %lld", &mem) : 0;
	if (f)
		fclose(f);
	return n == 1 && !mem;
}

static int settle(void)
{
	uint64_t end = rar_now_us() + 20000000;

	while (!memory_returned()) {
		if (rar_now_us() > end)
			return -EBUSY;
		rar_sleep_ms(5);
	}
	return 0;
}

static int judge(const char *what, int err)
{
	if (err)
		rar_log("%s: %s", what, strerror(-err));
	return storm && err != -EBADE && err != -EBUSY ? 0 : err;
}

static int life(enum rar_where where, uint32_t schedule)
{
	struct rar_ring ring = {
		.group = 7 + where + 100 * schedule, .size = N, .where = where, .schedule = schedule,
	};

	return judge("life", good_life(&ring)) ?: judge("end", bad_end(&ring)) ?:
	       judge("again", good_life(&ring)) ?: judge("memory", settle()) ?:
	       judge("events", events_came(3 * N));
}

static void report(void)
{
	if (!nth_mode)
		return;
	for (struct label *l = labels; l->name; l++)
		rar_log("%s: %u failures%s", l->name, l->nth - 1,
			l->done ? "" : ", not all");
}

int main(int argc, char **argv)
{
	int c, tap;

	while ((c = getopt(argc, argv, "nsl")) != -1) {
		nth_mode |= c == 'n';
		storm |= c == 's';
		lossless |= c == 'l';
	}
	rar_init();
	alarm(LIMIT_S);
	if (nth_mode)
		nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (net_up() || genl_up() || (nth_mode && nth_fd < 0))
		return KSFT_FAIL;
	tap = tap_open();
	if (tap < 0 || life(RAR_ON_LO4, RAR_BY_RANKS) ||
	    life(RAR_ON_LO6, RAR_BY_RANKS))
		return KSFT_FAIL;
	/* A group with seals uses no box. */
	if (!getenv("RAR_BOX"))
		setenv("RAR_SECURITY", "encrypt", 1);
	if (life(RAR_ON_LO4, RAR_DIRECT))
		return KSFT_FAIL;
	report();
	close(tap);
	return KSFT_PASS;
}
