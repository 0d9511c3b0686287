/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the C selftests: addresses, joining, running N ranks, reproducible
 * data, the ring-order reference, counters.
 *
 * Functions that can fail return 0 (or a descriptor, or a length) or a negative
 * errno. The programs print TAP lines with the kernel's kselftest.h, whose
 * counters are static, so this file writes only lines that begin with "# ".
 */
#ifndef RAR_UTIL_H
#define RAR_UTIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <linux/rar.h>

/* ------------------------------------------------------------ environment */

extern uint64_t rar_seed;	/* of all data; env SEED or RAR_SEED */

/* Sets and prints the seed, makes stdout line buffered. */
void rar_init(void);
/* NULL if socket(AF_RAR) works, else the reason why it does not, for ksft_exit_skip(). */
const char *rar_missing(void);
/* Is this a kernel with checkers, which make it several times as slow? env RAR_KERNEL */
bool rar_checked_kernel(void);
/* Writes one line that begins with "# ", in one write. */
void rar_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t rar_now_us(void);
void rar_sleep_ms(unsigned int ms);
/*
 * Moves the caller into a new network namespace with lo up; with RAR_NETNS_HERE in the
 * environment it stays where it is. The namespace is a box for its own groups if RAR_BOX is an
 * address in the environment.
 */
int rar_private_net(void);
/* Moves the calling thread into a network namespace made by "ip netns add". */
int rar_enter(const char *netns);
/* Writes a string to a file, for sysctls: rar_write("/proc/sys/net/rar/...") */
int rar_write(const char *path, const char *value);
/* Sets net.rar sysctls of this network namespace: "name=value,..."; "+" in a value is a comma */
int rar_set_sysctls(const char *settings);
/* A counter of the caller's network namespace, e.g. "RarRxEncap"; -ENOENT if unknown. */
int64_t rar_counter(const char *name);
/* The value of a line of /proc/vmstat; -ENOENT if there is none. */
int64_t rar_vmstat(const char *name);
/* User pages pinned now; -ENOENT if this kernel does not count them. */
int64_t rar_pinned(void);
/* Waits until no more pages are pinned than before: closed members may serve their
 * neighbours for a while (net.rar.linger_ms).
 */
bool rar_unpinned(int64_t before);

/* In a rank's function: log and fail. */
#define RAR_CHECK(cond, fmt, ...) do {					\
	if (!(cond)) {							\
		rar_log("%s:%d: %s: " fmt, __FILE__, __LINE__, #cond,	\
			##__VA_ARGS__);					\
		return 1;						\
	}								\
} while (0)

/* ------------------------------------------------------------ groups */

/* Addresses that selftests/lib/lib.sh assigns. */
enum rar_where {
	RAR_ON_IPV4,		/* 10.77.0.(rank + 1) */
	RAR_ON_IPV6,		/* fd77::(rank + 1) */
	RAR_ON_LL6,		/* fe80::77:(rank + 1), device eth0 */
	RAR_ON_LO4,		/* 127.0.0.1 */
	RAR_ON_LO6,		/* ::1 */
	RAR_ON_NR
};

/* The address kind of a name (4 6 ll6 lo4 lo6); -1 if unknown. */
int rar_where_parse(const char *name);

/**
 * struct rar_ring - how the ranks of a group find each other
 * @group: group id
 * @size:  ranks
 * @where: kind of address
 * @netns: rank r lives in the network namespace "<netns>r"; NULL: all ranks
 *         live in the caller's namespace, at the address of rank 0
 * @port:  UDP port in host order, 0 = net.rar.port
 * @place: rank r has the address of rank place[r]; NULL: the address of rank r
 * @device: device for SO_BINDTODEVICE; the address is then the route's; NULL: any device
 * @hosts: number of hosts; rank r lives at the address of its host, in the namespace
 *         "<netns>host"; 0: there are no hosts
 * @first: first rank of each host
 * @schedule: RAR_SCHEDULE; 0: the number in the environment variable RAR_SCHEDULE, if any
 *	(RAR_SECURITY in the environment, auth or encrypt: all ranks have a key, and seals;
 *	RAR_BOX_KEY: and that key of the box, 16 or 32 letters)
 */
struct rar_ring {
	uint64_t group;
	uint32_t size;
	enum rar_where where;
	const char *netns;
	uint16_t port;
	const uint32_t *place;
	const char *device;
	uint32_t hosts;
	const uint32_t *first;
	uint32_t schedule;
};

/* The host of a rank; 0 if there are none. */
uint32_t rar_host(const struct rar_ring *ring, uint32_t rank);

/* The address of a rank. Call it in the namespace that will use it, for the scope id. */
void rar_address(const struct rar_ring *ring, uint32_t rank,
		 struct sockaddr_rar *addr);
static inline uint32_t rar_next(const struct rar_ring *ring, uint32_t rank)
{
	return (rank + 1) % ring->size;
}

int rar_socket(void);
/* RAR_SECURITY of the environment, with a key that all ranks have; for sockets that join by hand. */
int rar_set_security(int fd);
/* bind() and connect(); waits as long as the socket does. */
int rar_bind(int fd, const struct rar_ring *ring, uint32_t rank);
int rar_connect(int fd, const struct rar_ring *ring, uint32_t rank);
int rar_join(int fd, const struct rar_ring *ring, uint32_t rank);
/* RAR_JOIN, which never waits; then waits for its end: 0, SO_ERROR or -ETIMEDOUT. */
int rar_join_start(int fd, const struct rar_ring *ring, uint32_t rank);
int rar_join_wait(int fd, int timeout_ms);
/* socket(), bind(), connect(): a descriptor or -errno. */
int rar_open(const struct rar_ring *ring, uint32_t rank);

int rar_error(int fd, struct rar_error *error);
int rar_info(int fd, struct rar_info *info);
/* Does the group have boxes, and are all of them open for this rank? */
bool rar_boxes_open(const struct rar_info *info);
/* Prints a line for each of several boxes: chunks of its share that it summed, and the ring. */
void rar_print_boxes(const struct rar_info *info);
const char *rar_reason_name(uint32_t reason);
/* Logs one line: what failed, errno, and what RAR_ERROR says about it. */
void rar_log_error(int fd, const char *what, int err);
int rar_nonblock(int fd, bool on);
int rar_timeout(int fd, int option, unsigned int ms);	/* SO_RCVTIMEO ... */

/* ------------------------------------------------------------ operations */

/* sendmsg() with an optional RAR_OP; 0 means that all bytes were taken. */
int rar_send(int fd, const void *buf, size_t len, int flags,
	     const struct rar_op *op);
/* One recvmsg(); *eor is MSG_EOR, *done is filled if it came (size 0 if not). */
ssize_t rar_recv(int fd, void *buf, size_t len, int flags, bool *eor,
		 struct rar_done *done);
/* Receives until MSG_EOR: the length of the record, -EPIPE at the end of the stream. */
ssize_t rar_recv_all(int fd, void *buf, size_t len, struct rar_done *done);
/* A struct rar_op with the fields that tests use most, 0 = default. */
struct rar_op rar_op_of(uint8_t dtype, uint64_t bytes, uint64_t cookie);

/* ------------------------------------------------------------ data */

/**
 * struct rar_data - an operation's data, known to every rank from the seed
 * @id:    number that tells operations apart
 * @count: elements
 * @size:  ranks
 * @dtype: enum rar_dtype
 * @hosts: hosts of RAR_BY_HOSTS, 0 without it
 * @first: first rank of each host
 * @direct: bytes of the longest all-reduce that goes directly, so in rank order; 0: none does,
 *         unless the environment variable RAR_SCHEDULE says so
 * @doubled: of the others, and of reductions to a root, bytes of the longest that goes by recursive
 *         doubling; as @direct
 * @halved: of the other all-reduces, bytes of the longest that goes by halving, by the same tree of
 *         additions; as @direct
 * @root:  of a broadcast or reduction to a root, its root counted from 1; 0: an all-reduce
 * @reduce: the operation is a reduction to @root, which alone gets the sum
 */
struct rar_data {
	uint64_t id;
	uint64_t count;
	uint32_t size;
	uint32_t dtype;
	uint32_t hosts;
	const uint32_t *first;
	uint32_t direct;
	uint32_t doubled;
	uint32_t halved;
	uint32_t root;
	bool reduce;
};

/* Bytes of the longest all-reduce that goes by recursive doubling, as the manual has it. */
static inline uint32_t rar_doubling_bytes(uint32_t ranks)
{
	if (ranks == 3)
		return 8192;
	if (ranks == 5 || ranks == 6)
		return 16384;
	return ranks & (ranks - 1) ? 32768 : 65536;
}

/* Bytes of the longest all-reduce that goes by halving, as the manual has it. */
static inline uint32_t rar_halving_bytes(uint32_t ranks)
{
	const char *told = getenv("RAR_HALVING_BYTES");	/* net.rar.halving_bytes */

	if (told)
		return atoi(told);
	if (!(ranks & (ranks - 1)))
		return ranks < 8 ? 0 : ranks == 8 ? 128 << 10 : ranks == 16 ? 256 << 10 : 1 << 20;
	if (ranks < 9)
		return ranks == 6 ? 32 << 10 : 0;
	if (ranks < 20)
		return ranks < 12 ? 64 << 10 : 128 << 10;
	return ranks < 34 ? 256 << 10 : ranks < 61 ? 512 << 10 : 1 << 20;
}

/* The same of reduce-scatters and all-gathers, by the bytes of all shares. */
static inline uint32_t rar_halving_shares(uint32_t ranks)
{
	return rar_halving_bytes(ranks) << !!(ranks & (ranks - 1));
}

/* Bytes of the longest operation that RAR_AUTO exchanges directly, as the manual has it. */
static inline uint32_t rar_direct_bytes(uint32_t ranks)
{
	if (ranks > 16)
		return 0;
	return ranks <= 4 ? 32768 : ranks <= 8 ? 16384 : 8192;
}

/* RAR_SCHEDULE of the environment, a number: the schedule of all groups */
uint32_t rar_env_schedule(void);

size_t rar_element(uint32_t dtype);
const char *rar_dtype_name(uint32_t dtype);
uint32_t rar_dtype_parse(const char *name);	/* 0 if unknown */
static inline uint64_t rar_bytes(const struct rar_data *d)
{
	return d->count * rar_element(d->dtype);
}

/* Elements first .. first + n - 1 of a rank's contribution, and of the sum; not of a broadcast. */
void rar_fill(const struct rar_data *d, uint32_t rank, uint64_t first,
	      uint64_t n, void *buf);
void rar_expect(const struct rar_data *d, uint64_t first, uint64_t n,
		void *buf);
/* -1 if buf holds exactly the bits of the sum or of the root, else the first wrong element. */
int64_t rar_verify(const struct rar_data *d, uint64_t first, uint64_t n,
		   const void *buf);
uint64_t rar_hash(uint64_t hash, const void *buf, size_t len);
/* The next random number of a sequence that *state, the seed, decides. */
uint64_t rar_random(uint64_t *state);
/* The two halves of an all-reduce of d, checked: 0 or -errno (-EBADE: wrong bits). */
int rar_post(int fd, const struct rar_data *d, uint32_t rank);
int rar_collect(int fd, const struct rar_data *d, uint32_t rank);
int rar_allreduce(int fd, const struct rar_data *d, uint32_t rank);

/* ------------------------------------------------------------ running ranks */

#define RAR_PROCS	64

typedef int (*rar_rank_fn)(uint32_t rank, void *arg);

/* Zeroed memory that forked processes share. */
void *rar_shared(size_t len);

struct rar_barrier {
	atomic_uint arrived;
	atomic_uint round;
};

/* Waits until n processes or threads are here; reusable. Returns 0 or -ETIMEDOUT. */
int rar_barrier(struct rar_barrier *b, uint32_t n, unsigned int timeout_s);

/* Forks. The child enters the namespace (if not NULL) and exits with fn's value.
 * It is killed when the caller dies.
 */
pid_t rar_spawn(const char *netns, rar_rank_fn fn, uint32_t rank, void *arg);
/* The exit value, 128 + signal, or -ETIMEDOUT (then the child is killed). */
int rar_reap(pid_t pid, uint64_t deadline_us);
void rar_kill(pid_t pid);	/* sends SIGKILL and reaps */

/* Runs n ranks as processes (threads) with a time limit, each in "<netns>rank" if
 * netns is not NULL. Returns how many did not return 0. Every failure is logged;
 * ranks that are left are killed 10 s later (threads: the process exits).
 */
int rar_run(uint32_t n, const char *netns, unsigned int timeout_s,
	    rar_rank_fn fn, void *arg);
int rar_run_threads(uint32_t n, const char *netns, unsigned int timeout_s,
		    rar_rank_fn fn, void *arg);

#endif /* RAR_UTIL_H */
