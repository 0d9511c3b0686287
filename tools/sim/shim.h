/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel that the link and ring layers of net/rar need, for a simulator of one
 * thread: locks and barriers do nothing, memory is that of the C library, and the clock is the
 * simulator's. The Makefile makes headers with the kernel's names that include this one.
 */
#ifndef _RAR_SIM_SHIM_H
#define _RAR_SIM_SHIM_H

#include "../../selftests/host/shim.h"

#include <netinet/in.h>

/* As in the kernel, a constant may have another type. */
#undef __same
#define __same(a, b)		((void)0)
#define min3(a, b, c)		min(min(a, b), c)

/* net/rar/core/compat.h bridges kernels, trace.h makes tracepoints: neither is of use here. */
#define _RAR_COMPAT_H
#define _RAR_TRACE_H

#define BITS_PER_LONG		64
#define BITS_TO_LONGS(n)	(((n) + 63ULL) / 64)
#define S32_MAX			0x7fffffff
#define U16_MAX			0xffffU
#define SZ_64K			65536
#define USEC_PER_MSEC		1000L
#define DIV_ROUND_UP(a, b)	(((a) + (b) - 1) / (b))
#define DIV_ROUND_UP_ULL(a, b)	DIV_ROUND_UP((u64)(a), (b))
#define roundup_pow_of_two(n)	((n) < 2 ? 1U : 1U << (64 - __builtin_clzll((n) - 1)))
#define __ffs(n)		((u32)__builtin_ctz(n))
#define smp_store_mb(v, x)	((v) = (x))
#define rounddown_pow_of_two(n)	(1U << (31 - __builtin_clz(n)))
#define FIELD_GET(mask, x)	(((x) & (mask)) / ((mask) & -(mask)))
#define GENMASK(h, l)		((~0UL >> (63 - (h))) & (~0UL << (l)))
#define GENMASK_ULL(h, l)	((~0ULL << (l)) & (~0ULL >> (63 - (h))))
#define is_power_of_2(n)	((n) && !((n) & ((n) - 1)))
#define ____cacheline_aligned	__aligned(64)
#define sizeof_field(t, m)	sizeof(((t *)0)->m)
#define noinline_for_stack
#define __exit
#define __rcu
#define __percpu
#define __user
#define static_assert		_Static_assert
#define VLAN_ETH_HLEN		18

typedef int gfp_t;
typedef u32 __wsum;
typedef struct { u32 val; } kuid_t;
typedef s64 ktime_t;

/* ------------------------------------------------------------ memory, order, locks */

#define GFP_KERNEL		0
#define GFP_ATOMIC		0
#define GFP_KERNEL_ACCOUNT	0
#define __GFP_NOWARN		0
#define __GFP_RETRY_MAYFAIL	0
#define __GFP_NORETRY		0
#define kzalloc(n, flags)	calloc(1, n)
#define kcalloc(n, size, flags)	calloc(n, size)
#define kvcalloc(n, size, flags) calloc(n, size)
#define kvfree(p)		free(p)
#define kfree(p)		free(p)
#define ERR_PTR(err)		((void *)(long)(err))
#define IS_ERR(p)		((unsigned long)(p) > -4096UL)
#define PAGE_SHIFT		12
#define PAGE_SIZE		4096UL

u64 totalram_pages(void);

#define WRITE_ONCE(x, v)	((void)((x) = (v)))
#define prefetch(p)		((void)(p))
#define prefetchw(p)		((void)(p))
#define smp_load_acquire(p)	READ_ONCE(*(p)) /* of one thread */
#define smp_store_release(p, v)	WRITE_ONCE(*(p), v) /* of one thread */
#define smp_rmb()		((void)0) /* of one thread */
#define smp_mb()		((void)0) /* of one thread */
#define xchg(p, v)		({ typeof(*(p)) _x = *(p); *(p) = (v); _x; })
#define cmpxchg(p, from, to)						\
	({ typeof(*(p)) _x = *(p); *(p) = _x == (from) ? (to) : _x; _x; })

typedef struct { int n; } atomic_t;
typedef struct { s64 n; } atomic64_t, atomic_long_t;
typedef struct { int n; } refcount_t;
typedef struct { int n; } spinlock_t;

struct mutex { int n; };

#define atomic_read(a)		((a)->n)
#define atomic_read_acquire(a)	((a)->n)
#define atomic_set(a, v)	((void)((a)->n = (v)))
#define atomic_inc(a)		((void)(a)->n++)
#define atomic_sub_return(v, a)	((a)->n -= (v))
#define atomic_dec_and_test(a)	(!--(a)->n)
#define atomic_sub_and_test(v, a) (!((a)->n -= (v)))
#define atomic_xchg(a, v)	xchg(&(a)->n, v)
#define atomic_cmpxchg(a, f, t)	cmpxchg(&(a)->n, f, t)
#define atomic_fetch_or(v, a)	({ int _o = (a)->n; (a)->n |= (v); _o; })
#define atomic_long_fetch_or(v, a) ({ s64 _o = (a)->n; (a)->n |= (v); _o; })
#define atomic64_add_return(v, a) ((a)->n += (v))
#define atomic64_sub(v, a)	((void)((a)->n -= (v)))
#define refcount_set(r, v)	((void)((r)->n = (v)))
#define refcount_inc(r)		((void)(r)->n++)
#define refcount_inc_not_zero(r) ((r)->n ? ++(r)->n : 0)
#define refcount_dec_and_test(r) (!--(r)->n)

#define spin_lock_init(l)	((void)(l))
#define spin_lock(l)		((void)(l))
#define spin_unlock(l)		((void)(l))
#define spin_lock_bh(l)		((void)(l))
#define spin_unlock_bh(l)	((void)(l))
#define lockdep_assert_held(l)	((void)(l))
#define lockdep_assert_in_softirq()	((void)0)
#define struct_size(p, member, n)	(sizeof(*(p)) + (n) * sizeof((p)->member[0]))
#define lockdep_is_held(l)	true
#define local_bh_disable()	((void)0)
#define local_bh_enable()	((void)0)
#define cond_resched()		((void)0)

struct rcu_head { int n; };
struct work_struct { int n; };
struct delayed_work { int n; };
struct rcu_work { struct rcu_head rcu; };
struct workqueue_struct;

#define WQ_UNBOUND		0
#define rcu_read_lock()		((void)0)
#define rcu_read_unlock()	((void)0)
#define rcu_barrier()		((void)0)
#define rcu_dereference(p)	(p)
#define rcu_access_pointer(p)	(p)
#define rcu_dereference_protected(p, c)	(p)
#define rcu_assign_pointer(p, v)	((void)((p) = (v)))
#define RCU_INIT_POINTER(p, v)	((void)((p) = (v)))
/* No reader is in the middle of anything when a function of a rank ends. */
#define call_rcu(head, fn)	sim_later(head, fn)
#define to_rcu_work(w)		((struct rcu_work *)(w))
#define INIT_RCU_WORK(w, fn)	sim_later(&(w)->rcu, (void (*)(struct rcu_head *))(void *)(fn))
#define queue_rcu_work(wq, w)	((void)0)
#define INIT_WORK(w, fn)	((void)(fn))
#define queue_work(wq, w)	((void)(w))
#define destroy_workqueue(wq)	((void)(wq))
#define alloc_workqueue(...)	((struct workqueue_struct *)sim_unused())

void sim_later(struct rcu_head *head, void (*fn)(struct rcu_head *));
void *sim_unused(void);

/* ------------------------------------------------------------ one CPU's data */

typedef int local_lock_t;
#define INIT_LOCAL_LOCK(lock)	0
#define local_lock_nested_bh(lock)	((void)(lock))
#define local_unlock_nested_bh(lock)	((void)(lock))
#define DEFINE_PER_CPU(t, name)	typeof(t) name
#define this_cpu_add(x, v)	((void)((x) += (v)))
#define this_cpu_read(x)	(x)
#define this_cpu_write(x, v)	((void)((x) = (v)))
#define this_cpu_ptr(p)		(p)
#define per_cpu_ptr(p, cpu)	(p)
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < 1; (cpu)++)

static inline u32 num_online_cpus(void)
{
	return 2;
}

struct tasklet_struct { int n; };

#define tasklet_setup(t, fn)	((void)(fn))
#define tasklet_schedule(t)	((void)(t))
#define tasklet_kill(t)		((void)(t))

/* ------------------------------------------------------------ time */

#define HZ			250
#define NSEC_PER_JIFFY		(1000000000UL / HZ)
#define CLOCK_MONOTONIC		1
#define HRTIMER_MODE_ABS_SOFT	0

extern u64 sim_ns;		/* the simulator's clock */

struct hrtimer { int n; };
struct timer_list { int n; };

#define jiffies			(sim_ns / NSEC_PER_JIFFY)
#define ktime_get()		((ktime_t)sim_ns)
#define ktime_to_us(t)		((u64)(t) / 1000)
#define ns_to_ktime(ns)		((ktime_t)(ns))
#define usecs_to_jiffies(us)	DIV_ROUND_UP((u64)(us), 1000000UL / HZ)
#define msecs_to_jiffies(ms)	usecs_to_jiffies((u64)(ms) * 1000)
#define jiffies_to_usecs(j)	((u64)(j) * (1000000UL / HZ))
#define time_after(a, b)	((long)((b) - (a)) < 0)
#define time_before(a, b)	time_after(b, a)
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)
#define hrtimer_try_to_cancel(t) ((void)(t), 0)
#define hrtimer_start(t, at, mode) sim_timer(t, at)

void sim_timer(struct hrtimer *timer, u64 at_ns);

/* ------------------------------------------------------------ bits */

#define DECLARE_BITMAP(name, bits) unsigned long name[BITS_TO_LONGS(bits)]
#define hweight32(x)		__builtin_popcount(x)
#define hweight64(x)		((u32)__builtin_popcountll(x))
#define __ffs64(x)		((u32)__builtin_ctzll(x))
#define lower_32_bits(x)	((u32)(x))
#define upper_32_bits(x)	((u32)((x) >> 32))
#define cpu_to_le64(x)		htole64(x)
#define be16_to_cpu(x)		be16toh(x)

static inline bool test_bit(u64 n, const unsigned long *map)
{
	return map[n / 64] >> n % 64 & 1;
}

static inline void __set_bit(u64 n, unsigned long *map)
{
	map[n / 64] |= 1UL << n % 64;
}

static inline void __clear_bit(u64 n, unsigned long *map)
{
	map[n / 64] &= ~(1UL << n % 64);
}

static inline bool __test_and_set_bit(u64 n, unsigned long *map)
{
	bool was = test_bit(n, map);

	__set_bit(n, map);
	return was;
}

static inline unsigned long *bitmap_zalloc(u64 bits, u32 flags)
{
	return calloc(BITS_TO_LONGS(bits), sizeof(long));
}

static inline void bitmap_free(unsigned long *map)
{
	free(map);
}

static inline void bitmap_fill(unsigned long *map, u64 bits)
{
	memset(map, 0xff, BITS_TO_LONGS(bits) * sizeof(long));
}

static inline void bitmap_zero(unsigned long *map, u64 bits)
{
	memset(map, 0, BITS_TO_LONGS(bits) * sizeof(long));
}

static inline u64 sim_next(const unsigned long *map, u64 size, u64 from, u64 flip)
{
	u64 word;

	for (; from < size; from = (from | 63) + 1) {
		word = (map[from / 64] ^ flip) >> from % 64;
		if (word)
			return min(from + __ffs64(word), size);
	}
	return size;
}

/* The last bit that is set, or @size. */
static inline u64 find_last_bit(const unsigned long *map, u64 size)
{
	u64 at = size;

	while (at--)
		if (test_bit(at, map))
			return at;
	return size;
}

#define find_next_bit(map, size, from)		sim_next(map, size, from, 0)
#define find_next_zero_bit(map, size, from)	sim_next(map, size, from, ~0ULL)

static inline u32 jhash_3words(u32 a, u32 b, u32 c, u32 init)
{
	return (((a * 31 + b) * 31) + c) * 31 + init;
}

/* ------------------------------------------------------------ lists */

struct list_head { struct list_head *next, *prev; };
struct hlist_node { void *next; };
struct rhlist_head { void *next; };
struct rhltable { int n; };
struct xarray { int n; };

#define INIT_LIST_HEAD(l)	((void)((l)->next = (l)->prev = (l)))
#define list_empty(l)		((l)->next == (l))
#define list_entry(p, type, member) container_of(p, type, member)
#define list_first_entry_or_null(l, type, member)			\
	(list_empty(l) ? NULL : list_entry((l)->next, type, member))
#define list_for_each_entry(p, head, member)				\
	for ((p) = list_entry((head)->next, typeof(*(p)), member);	\
	     &(p)->member != (head);					\
	     (p) = list_entry((p)->member.next, typeof(*(p)), member))

static inline void list_add(struct list_head *n, struct list_head *at)
{
	n->next = at->next;
	n->prev = at;
	at->next->prev = n;
	at->next = n;
}

static inline void list_add_tail(struct list_head *n, struct list_head *head)
{
	list_add(n, head->prev);
}

static inline void list_del(struct list_head *n)
{
	n->next->prev = n->prev;
	n->prev->next = n->next;
}

static inline void list_del_init(struct list_head *n)
{
	list_del(n);
	INIT_LIST_HEAD(n);
}

static inline void list_move(struct list_head *n, struct list_head *head)
{
	list_del(n);
	list_add(n, head);
}

/* ------------------------------------------------------------ packets */

struct rtnl_link_ops { const char *kind; };
struct net_device { const struct rtnl_link_ops *rtnl_link_ops; };
struct dst_cache { int n; };
typedef int nf_hookfn;
struct wait_queue_entry { int n; };
typedef struct wait_queue_entry wait_queue_entry_t;
typedef struct { u64 key[2]; } siphash_key_t;
struct mmpin { int n; };
struct kvec { void *iov_base; size_t iov_len; };
struct xdp_buff;
struct iphdr { int n; };
struct ipv6hdr { int n; };
struct udphdr;
struct sock;
struct socket;
struct pid;
struct net { void *user_ns; };
struct ctl_table;
struct ctl_table_header;
struct iov_iter;
struct page;
struct folio { void *mapping; };
typedef struct { int n; } skb_frag_t;

struct skb_shared_info {
	u32 nr_frags, gso_size;
	skb_frag_t frags[2];
};

/*
 * A packet, or a superpacket. Its data are the first header and, if the simulator carries
 * numbers, the payload of all chunks.
 */
struct sk_buff {
	struct sk_buff *next;
	char cb[48] __aligned(8);
	u8 *data;
	u32 len, truesize;
	u32 chunks;		/* in it; of a packet without chunks 1 */
	bool ce;		/* a queue has marked it */
	void *flow;		/* of a TCP flow, and its number; NULL: of the ring */
	u32 seq;
	struct net_device *dev;
};

struct sk_buff_head {
	struct sk_buff *first, **last;
	u32 n;
};

#define synchronize_rcu()	((void)0)
#define dst_cache_reset(c)	((void)(c))
#define dst_cache_init(c, gfp)	(0)
#define dst_cache_destroy(c)	((void)(c))
#define net_generic(net, id)	((void *)(net))
#define get_random_u64()	1ULL
#define skb_shinfo(skb)		((void)(skb), &sim_shinfo)
#define skb_shared(skb)		((void)(skb), false)
#define skb_cloned(skb)		((void)(skb), false)
#define skb_zcopy(skb)		((void)(skb), false)
#define skb_has_shared_frag(skb) ((void)(skb), false)
#define skb_has_frag_list(skb)	((void)(skb), false)
#define skb_headlen(skb)	((skb)->len)
#define skb_walk_frags(skb, part) for ((part) = NULL; (part); (part) = (part)->next)
#define skb_frag_page(f)	((void)(f), (struct page *)NULL)
#define page_folio(p)		((void)(p), &sim_folio)
#define pskb_may_pull(skb, n)	((void)(skb), true)
#define skb_is_gso(skb)		((void)(skb), false)
#define skb_share_check(skb, f)	(skb)
#define skb_dst_drop(skb)	((void)(skb))
#define skb_orphan(skb)		((void)(skb))
#define nf_reset_ct(skb)	((void)(skb))
#define skb_ext_reset(skb)	((void)(skb))
#define skb_queue_len(q)	((q)->n)
#define skb_queue_empty(q)	(!(q)->n)
#define skb_queue_empty_lockless(q) (!(q)->n)
#define consume_skb(skb)	sim_skb_free(skb)
#define kfree_skb(skb)		sim_skb_free(skb)
#define skb_queue_walk_safe(q, skb, tmp)				\
	for ((skb) = (q)->first; (skb) && ((tmp) = (skb)->next, true); (skb) = (tmp))

extern struct skb_shared_info sim_shinfo;
extern struct folio sim_folio;
extern int init_user_ns;

#define XFRM_POLICY_IN		0
#define XFRM_POLICY_OUT		1

struct sk_buff *alloc_skb(u32 len, gfp_t flags);
void *skb_put(struct sk_buff *skb, u32 len);
void *skb_header_pointer(const struct sk_buff *skb, u32 off, u32 len, void *buf);
void sim_skb_free(struct sk_buff *skb);

static inline int skb_copy_bits(const struct sk_buff *skb, u32 off, void *to, u32 len)
{
	memcpy(to, skb->data + off, len);
	return 0;
}

static inline void __skb_queue_head_init(struct sk_buff_head *q)
{
	q->first = NULL;
	q->last = &q->first;
	q->n = 0;
}

static inline void __skb_queue_tail(struct sk_buff_head *q, struct sk_buff *skb)
{
	if (!q->n)
		q->last = &q->first;
	skb->next = NULL;
	*q->last = skb;
	q->last = &skb->next;
	q->n++;
}

/* Only the first packets of a list are taken, in turn. */
static inline struct sk_buff *__skb_dequeue(struct sk_buff_head *q)
{
	struct sk_buff *skb = q->first;

	if (!skb)
		return NULL;
	q->first = skb->next;
	if (!--q->n)
		q->last = &q->first;
	return skb;
}

static inline void __skb_unlink(struct sk_buff *skb, struct sk_buff_head *q)
{
	struct sk_buff **at = &q->first;

	while (*at != skb)
		at = &(*at)->next;
	*at = skb->next;
	if (q->last == &skb->next)
		q->last = at;
	q->n--;
}

static inline void __skb_queue_purge(struct sk_buff_head *q)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(q)))
		sim_skb_free(skb);
}

/* ------------------------------------------------------------ tracepoints */

#define trace_rar_reduce(...)	((void)0)
#define trace_rar_tx(m, seq, phase, ...) ((void)(phase))
#define trace_rar_lost(...)	((void)0)
#define trace_rar_post(...)	((void)0)
#define trace_rar_op(...)	((void)0)
#define trace_rar_release(...)	((void)0)

#endif /* _RAR_SIM_SHIM_H */
