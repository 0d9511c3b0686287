// SPDX-License-Identifier: GPL-2.0
/*
 * net.rar.*, per netns. Owns the sysctl_ fields of struct rar_net.
 *
 *   port         UDP port of addresses that name none
 *   rx_path      "ingress", "udp" or "xdp"
 *   window       bytes in flight in a whole ring; each rank injects its share
 *   mem          bytes of operation buffers; a quarter more for held packets
 *   early_bytes  per member: payload held for operations not yet posted here
 *   copy_step    bytes of each block of a long tensor that are copied at once while the
 *                ring works on it, 0 = the ring starts after the whole tensor
 *   join_ms      time until connect() gives up
 *   dead_ms      a neighbour that is silent for this long is dead
 *   linger_ms    longest time that a closed member serves its neighbours
 *   max_members  members with a socket
 *   super_chunks chunks in a superpacket, 1 = no superpackets are sent; for later routes
 *   local        1: ranks of one netns hand chunks over in memory; for later joins
 *   one_host     1: with RAR_BY_HOSTS this namespace and all others of this kernel with 1 are one
 *                host; for later joins
 *   carriers     1: packets to a neighbour in this kernel share the kernel's pages; for later
 *                joins
 *   lanes        flows that the chunks of a link are spread over, each with a UDP port of
 *                its own and, on one machine, a CPU; for later joins
 *   gather_bytes rank 0 with RAR_AUTO: sums of up to so many bytes are gathered, 1 = none is,
 *                0 = by the time of a hop; for later joins
 *   direct_bytes rank 0 with RAR_AUTO: operations of up to so many bytes are exchanged
 *                directly, 1 = none is, 0 = by the time of a hop; for later joins
 *   whole_bytes  rank 0 with RAR_AUTO: tensors of up to so many bytes are not cut into
 *                blocks, 0 = by the time of a hop; for later joins
 *   xdp_mirror   1: packet sockets see what is taken and sent at the XDP hook
 *   box          "ADDR", "ADDR:PORT" or "[ADDR]:PORT" of the box that rank 0 proposes to its
 *                group; "offered": the first that offers itself; "-": none; for later joins
 *   box_allow    hosts that may use the box of this host: "link" = hosts reached without a gateway,
 *                addresses and prefixes, "none"
 *   box_mem      bytes that this host uses as a box for other hosts' groups, 0 = it is none
 *   box_offer    1: this host, if it is a box, offers itself to members whose packets it forwards
 *   box_policy   how the groups share box_mem: static, fcfs, reclaim or preempt; see box/pool.c
 *   box_roce     1: this host, if it is a box, sums what RoCEv2 queue pairs send through it
 *   box_roce_ms  longest time that it holds a packet of them
 *   box_share    percent of box_mem that is split evenly, and that no group takes from another
 *   box_trust    1: the box compares the priorities of different groups
 *   box_up       as box: a box above this host's box, to which it brings the sums of its ranks
 *   strict       1: every packet passes all of netfilter; rx_path and local act as if they
 *                were udp and 0. New namespaces begin with the host's value, and those that
 *                a user namespace owns cannot have less
 */
#include <linux/cpumask.h>
#include <linux/inet.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/user_namespace.h>

#include "box/box.h"
#include "box/offer.h"
#include "box/roce.h"
#include "core/addr.h"
#include "core/mem.h"
#include "core/ring.h"
#include "rar.h"
#include "rx/xdp.h"
#include "sock/sysctl.h"
#include "tx/rules.h"

#define OFFERED		"offered"	/* net.rar.box: no address, but what is offered */

static int port_max = 65535;
static int early_min = 4096, early_max = 1 << 27;
static int ms_min = 10, dead_min = 100, ms_max = 24 * 3600 * 1000;
static int members_max = 1 << 20, step_max = 1 << 30;
static int roce_ms_max = 5000;
static int gather_max = RAR_SMALL_BYTES, whole_max = RAR_UNCUT_MAX;
static int super_max = RAR_RUN_MAX, lanes_max = RAR_MAX_LANES;
static unsigned long window_min = 4096, window_max = 1UL << 32;
static unsigned long mem_min = 65536, mem_max = LONG_MAX;

static const char *const path_names[] = {
	[RAR_PATH_INGRESS] = "ingress",
	[RAR_PATH_UDP] = "udp",
	[RAR_PATH_XDP] = "xdp",
};

static const char * const policy_names[] = {
	[RAR_POOL_STATIC] = "static",
	[RAR_POOL_FCFS] = "fcfs",
	[RAR_POOL_RECLAIM] = "reclaim",
	[RAR_POOL_PREEMPT] = "preempt",
};

/* Read or write one of @n words. Return: its number, or a negative errno. */
static int do_word(int value, const char * const *names, size_t n, int write,
		   void *buffer, size_t *lenp, loff_t *ppos)
{
	char name[16] = "";
	struct ctl_table t = { .data = name, .maxlen = sizeof(name) };
	int err;

	strscpy(name, names[value], sizeof(name));
	err = proc_dostring(&t, write, buffer, lenp, ppos);
	if (err)
		return err;
	return write ? match_string(names, n, strim(name)) : value;
}

static int do_rx_path(RAR_CTL_CONST struct ctl_table *table, int write,
		      void *buffer, size_t *lenp, loff_t *ppos)
{
	int *path = table->data, i;

	i = do_word(READ_ONCE(*path), path_names, ARRAY_SIZE(path_names), write, buffer, lenp,
		    ppos);
	if (i < 0 || !write)
		return min(i, 0);
	if (i == RAR_PATH_XDP && !rar_xdp_usable())
		return -EOPNOTSUPP;
	WRITE_ONCE(*path, i);
	return 0;
}

static int do_box_policy(RAR_CTL_CONST struct ctl_table *table, int write,
			 void *buffer, size_t *lenp, loff_t *ppos)
{
	int *policy = table->data, i;

	i = do_word(READ_ONCE(*policy), policy_names, ARRAY_SIZE(policy_names), write, buffer,
		    lenp, ppos);
	if (i < 0 || !write)
		return min(i, 0);
	WRITE_ONCE(*policy, i);
	return 0;
}

/* Show the value that is in force. */
static int do_strict(RAR_CTL_CONST struct ctl_table *table, int write,
		     void *buffer, size_t *lenp, loff_t *ppos)
{
	struct rar_net *rn = container_of(table->data, struct rar_net, sysctl_strict);
	int val = rar_rules_strict(rn), err;
	struct ctl_table t = { .data = &val, .maxlen = sizeof(val),
			       .extra1 = SYSCTL_ZERO, .extra2 = SYSCTL_ONE };

	err = proc_dointvec_minmax(&t, write, buffer, lenp, ppos);
	if (err || !write)
		return err;
	if (!val && READ_ONCE(rar_strict_host) && rn->net->user_ns != &init_user_ns)
		return -EPERM;
	WRITE_ONCE(rn->sysctl_strict, val);
	if (net_eq(rn->net, &init_net))
		WRITE_ONCE(rar_strict_host, val);
	return 0;
}

static int do_mem(RAR_CTL_CONST struct ctl_table *table, int write,
		  void *buffer, size_t *lenp, loff_t *ppos)
{
	int err = proc_doulongvec_minmax(table, write, buffer, lenp, ppos);

	if (!err && write)
		rar_mem_changed();
	return err;
}

/* The addresses of boxes as text of at most RAR_SYSCTL_WORD bytes; or the word for none. */
static void show_boxes(const struct rar_boxes *boxes, bool offers, char *text)
{
	const struct rar_addr *a = boxes->addr;
	u32 i, at = 0;

	strscpy(text, offers ? OFFERED : "-", RAR_SYSCTL_WORD);
	for (i = 0; i < boxes->n; i++, a++)
		at += a->af == AF_INET6 ?
		      scnprintf(text + at, RAR_SYSCTL_WORD - at, "%s[%pI6c]:%u", i ? "," : "",
				&a->ip, ntohs(a->port)) :
		      scnprintf(text + at, RAR_SYSCTL_WORD - at, "%s%pI4:%u", i ? "," : "",
				&a->ip, ntohs(a->port));
}

static void show_box(struct rar_net *rn, char *text)
{
	struct rar_boxes boxes;
	bool offers;

	spin_lock_bh(&rn->lock);
	boxes = rn->boxes;
	offers = rn->box_offers;
	spin_unlock_bh(&rn->lock);
	show_boxes(&boxes, offers, text);
}

static void show_box_up(struct rar_net *rn, char *text)
{
	struct rar_boxes boxes = { };

	spin_lock_bh(&rn->lock);
	boxes.addr[0] = rn->box_up;
	spin_unlock_bh(&rn->lock);
	boxes.n = boxes.addr[0].af != 0;
	show_boxes(&boxes, false, text);
}

/* Read the port after @end, if there is one. */
static int parse_port(const struct rar_net *rn, const char *end, __be16 *port)
{
	u16 num = READ_ONCE(rn->sysctl_port);

	if (*end && (*end != ':' || kstrtou16(end + 1, 10, &num) || !num))
		return -EINVAL;
	*port = htons(num);
	return 0;
}

/* Read the address of a box. */
static int parse_box(const struct rar_net *rn, const char *name, struct rar_addr *a)
{
	const char *end;

	*a = (struct rar_addr) { };
	if (in4_pton(name, -1, (u8 *)&a->ip, ':', &end) ||
	    in4_pton(name, -1, (u8 *)&a->ip, -1, &end)) {
		a->af = AF_INET;
		return parse_port(rn, end, &a->port);
	}
	a->af = AF_INET6;
	if (*name == '[') {
		if (!in6_pton(name + 1, -1, (u8 *)&a->ip, ']', &end) || *end != ']')
			return -EINVAL;
		return parse_port(rn, end + 1, &a->port);
	}
	if (!in6_pton(name, -1, (u8 *)&a->ip, -1, &end))
		return -EINVAL;
	return parse_port(rn, end, &a->port);
}

/* Add a box to a list. */
static int add_box(struct rar_boxes *boxes, const struct rar_addr *a)
{
	u32 i;

	for (i = 0; i < boxes->n; i++) {
		if (boxes->addr[i].af != a->af)
			return -EINVAL;
		if (rar_addr_same(&boxes->addr[i], a))
			return -EEXIST;
	}
	if (boxes->n == RAR_LEGS)
		return -E2BIG;
	boxes->addr[boxes->n++] = *a;
	return 0;
}

/* Read a list of boxes, which may be empty. Changes @text. */
static int parse_boxes(const struct rar_net *rn, char *text, struct rar_boxes *boxes)
{
	struct rar_addr a;
	char *name;
	int err;

	*boxes = (struct rar_boxes) { };
	if (!*text || !strcmp(text, "-"))
		return 0;
	while ((name = strsep(&text, ","))) {
		err = parse_box(rn, strim(name), &a) ?: add_box(boxes, &a);
		if (err)
			return err;
	}
	return 0;
}

/* Let a setting that is a text be read or written. Return: the new text, NULL, or an error. */
static char *do_text(char *text, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	struct ctl_table t = { .data = text, .maxlen = RAR_SYSCTL_WORD };
	int err;

	/* A longer one would be cut. */
	if (write && *lenp >= RAR_SYSCTL_WORD)
		return ERR_PTR(-E2BIG);
	err = proc_dostring(&t, write, buffer, lenp, ppos);
	if (err)
		return ERR_PTR(err);
	return write ? strim(text) : NULL;
}

static int do_box(RAR_CTL_CONST struct ctl_table *table, int write,
		  void *buffer, size_t *lenp, loff_t *ppos)
{
	struct rar_net *rn = container_of(table->data, struct rar_net, boxes);
	char text[RAR_SYSCTL_WORD] = "", *word;
	struct rar_boxes boxes = { };
	bool offered;
	int err;

	show_box(rn, text);
	word = do_text(text, write, buffer, lenp, ppos);
	if (IS_ERR_OR_NULL(word))
		return PTR_ERR_OR_ZERO(word);
	offered = !strcmp(word, OFFERED);
	err = offered ? 0 : parse_boxes(rn, word, &boxes);
	if (err)
		return err;
	spin_lock_bh(&rn->lock);
	rn->boxes = boxes;
	rn->box_offers = offered;
	spin_unlock_bh(&rn->lock);
	return 0;
}

static int do_box_up(RAR_CTL_CONST struct ctl_table *table, int write,
		     void *buffer, size_t *lenp, loff_t *ppos)
{
	struct rar_net *rn = container_of(table->data, struct rar_net, box_up);
	char text[RAR_SYSCTL_WORD] = "", *word;
	struct rar_boxes boxes;
	int err;

	show_box_up(rn, text);
	word = do_text(text, write, buffer, lenp, ppos);
	if (IS_ERR_OR_NULL(word))
		return PTR_ERR_OR_ZERO(word);
	err = parse_boxes(rn, word, &boxes);
	if (!err && boxes.n > 1)
		err = -E2BIG;
	if (err)
		return err;
	spin_lock_bh(&rn->lock);
	rn->box_up = boxes.addr[0];
	spin_unlock_bh(&rn->lock);
	return 0;
}

static int do_box_allow(RAR_CTL_CONST struct ctl_table *table, int write,
			void *buffer, size_t *lenp, loff_t *ppos)
{
	struct rar_net *rn = container_of(table->data, struct rar_net, box_allow);
	char text[RAR_ALLOW_TEXT] = "";
	struct ctl_table t = { .data = text, .maxlen = sizeof(text) };
	int err;

	rar_allow_show(rn, text);
	err = proc_dostring(&t, write, buffer, lenp, ppos);
	return err || !write ? err : rar_allow_set(rn, text);
}

/*
 * Bytes, or with a suffix: 256M. At most what this host has, and not for the maker of a user
 * namespace.
 */
static int do_box_mem(RAR_CTL_CONST struct ctl_table *table, int write,
		      void *buffer, size_t *lenp, loff_t *ppos)
{
	struct rar_net *rn = container_of(table->data, struct rar_net, sysctl_box_mem);
	char name[32] = "", *end;
	struct ctl_table t = { .data = name, .maxlen = sizeof(name) };
	unsigned long long bytes;
	int err;

	snprintf(name, sizeof(name), "%lu", READ_ONCE(rn->sysctl_box_mem));
	err = proc_dostring(&t, write, buffer, lenp, ppos);
	if (err || !write)
		return err;
	bytes = memparse(strim(name), &end);
	if (*end || end == name || bytes > (u64)totalram_pages() << PAGE_SHIFT)
		return -EINVAL;
	if (rn->net->user_ns != &init_user_ns)
		return -EPERM;
	return rar_box_set_mem(rn, bytes);
}

static int do_box_offer(RAR_CTL_CONST struct ctl_table *table, int write,
			void *buffer, size_t *lenp, loff_t *ppos)
{
	struct rar_net *rn = container_of(table->data, struct rar_net, sysctl_box_offer);
	int on = READ_ONCE(rn->sysctl_box_offer);
	struct ctl_table t = {
		.data = &on, .maxlen = sizeof(on), .extra1 = SYSCTL_ZERO, .extra2 = SYSCTL_ONE,
	};
	int err = proc_dointvec_minmax(&t, write, buffer, lenp, ppos);

	return err || !write ? err : rar_offer_set(rn, on);
}

static int do_box_roce(RAR_CTL_CONST struct ctl_table *table, int write,
		       void *buffer, size_t *lenp, loff_t *ppos)
{
	struct rar_net *rn = container_of(table->data, struct rar_net, roce);
	int on = !!READ_ONCE(rn->roce);
	struct ctl_table t = {
		.data = &on, .maxlen = sizeof(on), .extra1 = SYSCTL_ZERO, .extra2 = SYSCTL_ONE,
	};
	int err = proc_dointvec_minmax(&t, write, buffer, lenp, ppos);

	return err || !write ? err : rar_roce_set(rn, on);
}

#define INT_ENTRY(name, min, max)					\
	{ .procname = #name, .maxlen = sizeof(int), .mode = 0644,	\
	  .data = (void *)offsetof(struct rar_net, sysctl_##name),	\
	  .proc_handler = proc_dointvec_minmax,				\
	  .extra1 = (min), .extra2 = (max) }
#define LONG_ENTRY(name, handler, min, max)				\
	{ .procname = #name, .maxlen = sizeof(long), .mode = 0644,	\
	  .data = (void *)offsetof(struct rar_net, sysctl_##name),	\
	  .proc_handler = (handler),					\
	  .extra1 = (min), .extra2 = (max) }

/* .data is an offset here, and a pointer in the copy of each namespace. */
static const struct ctl_table template[] = {
	INT_ENTRY(port, SYSCTL_ONE, &port_max),
	{ .procname = "rx_path", .maxlen = sizeof(int), .mode = 0644,
	  .data = (void *)offsetof(struct rar_net, sysctl_rx_path),
	  .proc_handler = do_rx_path },
	LONG_ENTRY(window, proc_doulongvec_minmax, &window_min, &window_max),
	LONG_ENTRY(mem, do_mem, &mem_min, &mem_max),
	INT_ENTRY(early_bytes, &early_min, &early_max),
	INT_ENTRY(copy_step, SYSCTL_ZERO, &step_max),
	INT_ENTRY(join_ms, &ms_min, &ms_max),
	INT_ENTRY(dead_ms, &dead_min, &ms_max),
	INT_ENTRY(linger_ms, &ms_min, &ms_max),
	INT_ENTRY(max_members, SYSCTL_ZERO, &members_max),
	INT_ENTRY(super_chunks, SYSCTL_ONE, &super_max),
	INT_ENTRY(local, SYSCTL_ZERO, SYSCTL_ONE),
	INT_ENTRY(one_host, SYSCTL_ZERO, SYSCTL_ONE),
	INT_ENTRY(carriers, SYSCTL_ZERO, SYSCTL_ONE),
	INT_ENTRY(lanes, SYSCTL_ONE, &lanes_max),
	INT_ENTRY(gather_bytes, SYSCTL_ZERO, &gather_max),
	INT_ENTRY(direct_bytes, SYSCTL_ZERO, &gather_max),
	INT_ENTRY(whole_bytes, SYSCTL_ZERO, &whole_max),
	INT_ENTRY(xdp_mirror, SYSCTL_ZERO, SYSCTL_ONE),
	{ .procname = "box", .maxlen = sizeof(int), .mode = 0644,
	  .data = (void *)offsetof(struct rar_net, boxes),
	  .proc_handler = do_box },
	{ .procname = "box_allow", .maxlen = sizeof(int), .mode = 0644,
	  .data = (void *)offsetof(struct rar_net, box_allow),
	  .proc_handler = do_box_allow },
	{ .procname = "box_mem", .maxlen = sizeof(long), .mode = 0644,
	  .data = (void *)offsetof(struct rar_net, sysctl_box_mem),
	  .proc_handler = do_box_mem },
	{ .procname = "box_offer", .maxlen = sizeof(int), .mode = 0644,
	  .data = (void *)offsetof(struct rar_net, sysctl_box_offer),
	  .proc_handler = do_box_offer },
	{ .procname = "box_policy", .maxlen = sizeof(int), .mode = 0644,
	  .data = (void *)offsetof(struct rar_net, sysctl_box_policy),
	  .proc_handler = do_box_policy },
	{ .procname = "box_roce", .maxlen = sizeof(int), .mode = 0644,
	  .data = (void *)offsetof(struct rar_net, roce),
	  .proc_handler = do_box_roce },
	INT_ENTRY(box_roce_ms, &ms_min, &roce_ms_max),
	INT_ENTRY(box_share, SYSCTL_ZERO, SYSCTL_ONE_HUNDRED),
	INT_ENTRY(box_trust, SYSCTL_ZERO, SYSCTL_ONE),
	{ .procname = "box_up", .maxlen = sizeof(int), .mode = 0644,
	  .data = (void *)offsetof(struct rar_net, box_up),
	  .proc_handler = do_box_up },
	{ .procname = "strict", .maxlen = sizeof(int), .mode = 0644,
	  .data = (void *)offsetof(struct rar_net, sysctl_strict),
	  .proc_handler = do_strict },
};

/* Before the settings can be seen. */
void rar_sysctl_defaults(struct rar_net *rn)
{
	rn->sysctl_port = RAR_DEFAULT_PORT;
	rn->sysctl_rx_path = RAR_PATH_INGRESS;
	rn->sysctl_window = 1 << 20;
	rn->sysctl_mem = totalram_pages() / 4 * PAGE_SIZE;
	rn->sysctl_early_bytes = 1 << 18;
	/* One CPU would copy and add in turns, which is slower if nothing else waits. */
	rn->sysctl_copy_step = num_online_cpus() > 1 ? SZ_128K : 0;
	rn->sysctl_join_ms = 30000;
	rn->sysctl_dead_ms = 5000;
	rn->sysctl_linger_ms = 5000;
	rn->sysctl_max_members = 4096;
	rn->sysctl_super_chunks = RAR_RUN_MAX;
	rn->sysctl_local = 1;
	rn->sysctl_carriers = 1;
	rn->sysctl_lanes = 4;
	rn->sysctl_box_policy = RAR_POOL_PREEMPT;
	rn->sysctl_box_roce_ms = 2000;
	rn->sysctl_box_share = 25;
	rn->sysctl_strict = READ_ONCE(rar_strict_host);
}

int rar_sysctl_init(struct rar_net *rn)
{
	int i;

	/* Kernels without a size argument need an empty entry at the end. */
	rn->table = kcalloc(ARRAY_SIZE(template) + 1, sizeof(*rn->table),
			    GFP_KERNEL);
	if (!rn->table)
		return -ENOMEM;
	memcpy(rn->table, template, sizeof(template));
	for (i = 0; i < ARRAY_SIZE(template); i++)
		rn->table[i].data += (unsigned long)rn;
	rn->sysctl = rar_register_net_sysctl(rn->net, "net/rar", rn->table,
					     ARRAY_SIZE(template));
	if (!rn->sysctl) {
		kfree(rn->table);
		return -ENOMEM;
	}
	return 0;
}

void rar_sysctl_destroy(struct rar_net *rn)
{
	unregister_net_sysctl_table(rn->sysctl);
	kfree(rn->table);
}

/* The number of settings. */
u32 rar_sysctl_count(void)
{
	return ARRAY_SIZE(template);
}

/**
 * rar_sysctl_get() - read a setting
 * @rn:    netns
 * @i:     which one, below rar_sysctl_count()
 * @name:  set to its name
 * @value: set to the value in force, if that is a number
 * @word:  set to the value if it is a word; RAR_SYSCTL_WORD bytes
 *
 * Any context.
 *
 * Return: true if the value is a word.
 */
bool rar_sysctl_get(struct rar_net *rn, u32 i, const char **name, u64 *value, char *word)
{
	const struct ctl_table *entry = &rn->table[i];

	*name = entry->procname;
	if (entry->proc_handler == do_rx_path) {
		strscpy(word, path_names[READ_ONCE(*(int *)entry->data)], RAR_SYSCTL_WORD);
		return true;
	}
	if (entry->proc_handler == do_box_policy) {
		strscpy(word, policy_names[READ_ONCE(*(int *)entry->data)], RAR_SYSCTL_WORD);
		return true;
	}
	if (entry->proc_handler == do_box) {
		show_box(rn, word);
		return true;
	}
	if (entry->proc_handler == do_box_up) {
		show_box_up(rn, word);
		return true;
	}
	if (entry->proc_handler == do_box_allow) {
		rar_allow_show(rn, word);
		return true;
	}
	if (entry->proc_handler == do_strict)
		*value = rar_rules_strict(rn);
	else if (entry->proc_handler == do_box_roce)
		*value = !!READ_ONCE(rn->roce);
	else if (entry->maxlen == sizeof(long))
		*value = READ_ONCE(*(unsigned long *)entry->data);
	else
		*value = READ_ONCE(*(int *)entry->data);
	return false;
}
