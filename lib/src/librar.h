/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the files of librar share. */
#ifndef LIBRAR_INTERNAL_H
#define LIBRAR_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <rar/librar.h>

#define COPY_MAX	32768	/* bytes; longer tensors are pinned, not copied */
#define PIN_PAUSE	64	/* operations that are copied after pinning was refused */

#define CARD_MAGIC	0x52415243u	/* "RARC" in the byte order of the host */
#define CARD_VERSION	3
#define CARD_UNSET	0xff	/* in a card: as suits the hosts of the ranks */

#define HASH_START	0xcbf29ce484222325u	/* of rar_hash() */

/* What a card holds. All ranks read group, key, and what follows addr from rank 0's card. */
struct card {
	uint32_t magic;
	uint32_t version;
	uint64_t group;
	uint64_t host;		/* equal on ranks of one host and network namespace */
	uint8_t key[RAR_KEY_LONG];
	uint16_t port;		/* network order */
	uint16_t af;
	uint32_t scope;
	uint8_t addr[16];
	uint8_t security;	/* enum rar_security, or CARD_UNSET */
	uint8_t schedule;	/* enum rar_schedule, or CARD_UNSET */
	uint8_t keyed;		/* the key counts without seals, too */
	uint8_t zero[45];
};

/*
 * struct work - an operation, as the transport sees it
 * @bytes:	S, the length of the tensor
 * @send:	what this rank gives, @send_len bytes
 * @recv:	where the result goes, @recv_len bytes
 * @pin:	with a result in the user's memory: the tensor, S bytes; else NULL
 * @pin_dst:	out of place: where the sums go; else NULL
 * @got:	bytes of the result that have come
 * @pinned:	posted without a copy
 * @nowait:	do not wait for room
 * @prio:	at a box; 0: the socket's
 */
struct work {
	uint8_t collective, dtype, redop;
	uint32_t root;
	uint32_t op_flags;
	uint64_t count;
	uint64_t bytes;
	const char *send;
	uint64_t send_len;
	char *recv;
	uint64_t recv_len;
	char *pin;
	char *pin_dst;
	uint64_t got;
	bool pinned;
	bool nowait;
	uint8_t prio;
};

/*
 * struct transport - the kernel, or the stub
 * @renew:  before joining again: end the failed membership, and set comm->past
 * @start:  begin to join the group of @cards; does not wait
 * @ready:  wait for the end of the join
 * @has_room: may @post take an operation now? False: only if an operation like the last one that
 *          was refused would be refused, too
 * @post:   hand over an operation; post_lock is held
 * @take:   wait for the next result: 0, -EAGAIN after timeout_ms, or the group's error; one
 *          thread at a time. work is the operation that it belongs to
 * @resume: first operation to repeat, counted from 0 in the failed epoch, or -ENOENT
 * @lack:   enum rar_lack of the last call that failed with ENOBUFS; NULL: never known
 * @close:  leave; @inherited: in a child of the process that joined
 */
struct transport {
	const char *name;
	void (*renew)(rar_comm_t *c);
	int (*start)(rar_comm_t *c, const struct card *cards);
	int (*ready)(rar_comm_t *c, int timeout_ms);
	bool (*has_room)(const rar_comm_t *c);
	int (*post)(rar_comm_t *c, struct work *work);
	int (*take)(rar_comm_t *c, struct work *work, int timeout_ms);
	int (*resume)(rar_comm_t *c, uint64_t *op);
	int (*reg)(rar_comm_t *c, int option, const void *addr, size_t len, uint32_t flags);
	void (*error)(rar_comm_t *c, struct rar_error *error);
	int (*slow)(rar_comm_t *c, uint32_t *rank, uint32_t *ms);
	uint32_t (*lack)(rar_comm_t *c);
	void (*abort)(rar_comm_t *c);
	void (*close)(rar_comm_t *c, bool inherited);
};

extern const struct transport kernel_transport, stub_transport;

/* Requests @first to @last were not complete when their group failed with @err. */
struct lost {
	uint64_t first, last;
	int err;
};

/*
 * struct rar_comm - a communicator
 * @post_lock:	one rar_start() at a time
 * @lock:	protects the fields from @turn to @reported
 * @turn:	signalled when @taking, @done or @err changes
 * @taking:	a thread waits for the next result; others wait for @turn
 * @posted:	requests started
 * @done:	requests complete
 * @reported:	requests that rar_next(), rar_test() or rar_wait() has reported
 * @err:	sticky error of the group
 * @base:	requests of earlier epochs: operation 0 is request @base + 1
 * @past:	epoch that failed, @past_base of it, and for the stub the operations that
 *		were complete in it; for rar_comm_resume()
 * @lost:	requests of earlier epochs that a failure ended, @nr_lost ranges, ascending
 * @work:	operations in flight, by request
 * @born:	generation of the process that joined; see life.c
 * @no_pin:	copy until this request, as pinning was refused
 * @refused_to:	where the share of the last call was moved, for which there was no room then; it
 *		came from @refused_from. NULL: none. post_lock protects both, and @no_pin
 */
struct rar_comm {
	const struct transport *transport;
	uint32_t rank, size, flags;
	uint32_t *hosts;
	uint32_t join_ms, op_ms;
	uint64_t group;
	struct card card;			/* own, for the next group */
	struct rar_caps caps;
	int fd;
	unsigned int born;

	pthread_mutex_t post_lock;
	uint64_t no_pin;
	const char *refused_to, *refused_from;

	pthread_mutex_t lock;
	pthread_cond_t turn;
	bool taking;
	bool up;
	uint64_t posted, done, reported;
	int err;
	uint64_t base;
	uint64_t past, past_base, past_complete;
	struct lost *lost;
	uint32_t nr_lost;
	struct work work[RAR_MAX_OPS];

	const struct rar_counters *page;	/* kernel.c */
	struct stub *stub;			/* stub.c */
};

/* comm.c */
bool rar_stub_asked(void);

/* life.c */
unsigned int rar_generation(void);
bool rar_inherited(const rar_comm_t *c);

/* card.c */
int rar_opts_read(const struct rar_opts *opts, struct rar_opts *o);
int rar_cards_check(const struct card *cards, uint32_t size);
int rar_cards_read(const struct rar_card *cards, uint32_t size, struct card *out);
uint64_t rar_random(void);
uint64_t rar_hash(uint64_t hash, const void *data, size_t len);
int rar_local_address(const char *local, struct card *card);
int rar_local_rails(const struct card *self, struct card *rails);
/* What the environment asks for: enum rar_security or rar_schedule, CARD_UNSET or -EINVAL. */
int rar_security_asked(void);
int rar_schedule_asked(void);
const char *rar_security_name(int level);
const char *rar_schedule_name(int schedule);

/* kernel.c */
int rar_family(void);

/* plan.c */
int rar_plan(const rar_comm_t *c, const struct rar_call *call, struct work *work);

/* arith.c: own = own (redop) in, for n elements; divide: for RAR_AVG */
void rar_stub_combine(int dtype, int redop, void *own, const void *in, uint64_t n);
void rar_stub_alone(int dtype, int redop, void *own, uint64_t n);
void rar_stub_divide(int dtype, void *own, uint64_t n, uint32_t ranks);
void rar_stub_caps(struct rar_caps *caps);

/* report.c */
bool rar_debugging(void);
void rar_debug(const rar_comm_t *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* time.c */
int64_t rar_deadline(int timeout_ms);	/* -1: never */
int rar_left_ms(int64_t deadline);	/* -1: never; 0: it has passed */

#endif /* LIBRAR_INTERNAL_H */
