// SPDX-License-Identifier: GPL-2.0
/*
 * net.rar.*, per netns: how the settings of core/settings.h are read and
 * written. Owns the sysctl_ fields of struct rar_net.
 */
#include <linux/cpumask.h>
#include <linux/inet.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/user_namespace.h>

#include "core/addr.h"
#include "core/mem.h"
#include "core/ring.h"
#include "core/role.h"
#include "core/settings.h"
#include "rar.h"
#include "rx/xdp.h"
#include "sock/sysctl.h"
#include "tx/rules.h"

#define OFFERED		"offered"	/* net.rar.box: no address, but what is offered */

/*
 * struct word - a setting that is one of some words
 * @names:	the words
 * @n:		how many there are
 * @usable:	tells if a word can be set: 0, or a negative errno; may be NULL
 */
struct word {
	const char * const *names;
	size_t n;
	int (*usable)(int value);
};

/*
 * struct value - a setting that is an integer, and more than a field
 * @min:	smallest value
 * @max:	largest value
 * @get:	tells the value
 * @set:	changes it; 0, or a negative errno
 */
struct value {
	u64 min;
	u64 max;
	u64 (*get)(const struct rar_net *rn);
	int (*set)(struct rar_net *rn, u64 value);
};

/*
 * struct text - a setting that is a text of less than RAR_SYSCTL_WORD bytes
 * @show:	tells it
 * @parse:	changes it, and may change @text; 0, or a negative errno
 */
struct text {
	void (*show)(struct rar_net *rn, char *text);
	int (*parse)(struct rar_net *rn, char *text);
};

/* -- kinds of settings ----------------------------------------------------- */

/* Operations may wait for memory that this change gives them. */
static int do_long(RAR_CTL_CONST struct ctl_table *table, int write,
		   void *buffer, size_t *lenp, loff_t *ppos)
{
	int err = proc_doulongvec_minmax(table, write, buffer, lenp, ppos);

	if (!err && write)
		rar_mem_changed();
	return err;
}

/* Show @text, or replace it by what is written, as far as that fits. */
static int do_string(char *text, size_t size, int write, void *buffer,
		     size_t *lenp, loff_t *ppos)
{
	struct ctl_table t = { .data = text, .maxlen = size };

	return proc_dostring(&t, write, buffer, lenp, ppos);
}

static int do_word(RAR_CTL_CONST struct ctl_table *table, int write,
		   void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct word *w = table->extra1;
	int *value = table->data, i, err;
	char name[16];

	strscpy(name, w->names[READ_ONCE(*value)], sizeof(name));
	err = do_string(name, sizeof(name), write, buffer, lenp, ppos);
	if (err || !write)
		return err;
	i = match_string(w->names, w->n, strim(name));
	err = i >= 0 && w->usable ? w->usable(i) : min(i, 0);
	if (!err)
		WRITE_ONCE(*value, i);
	return err;
}

/* Bytes may have a suffix: 256M. */
static int do_value(RAR_CTL_CONST struct ctl_table *table, int write,
		    void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct value *v = table->extra1;
	char text[20], *begin, *end;	/* no number that overflows */
	u64 value;
	int err;

	snprintf(text, sizeof(text), "%llu", v->get(table->data));
	err = do_string(text, sizeof(text), write, buffer, lenp, ppos);
	if (err || !write)
		return err;
	begin = strim(text);
	value = memparse(begin, &end);
	if (*end || end == begin || value < v->min || value > v->max)
		return -EINVAL;
	return v->set(table->data, value);
}

static int do_text(RAR_CTL_CONST struct ctl_table *table, int write,
		   void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct text *t = table->extra1;
	char text[RAR_SYSCTL_WORD] = "";
	int err;

	t->show(table->data, text);
	err = do_string(text, sizeof(text), write, buffer, lenp, ppos);
	return err || !write ? err : t->parse(table->data, strim(text));
}

/* -- words ----------------------------------------------------------------- */

static const char * const rx_path_words[] = {
	[RAR_PATH_INGRESS] = "ingress",
	[RAR_PATH_UDP] = "udp",
	[RAR_PATH_XDP] = "xdp",
	[RAR_PATH_AUTO] = "auto",
};

static int path_usable(int path)
{
	return path == RAR_PATH_XDP && !rar_xdp_usable() ? -EOPNOTSUPP : 0;
}

static const char * const box_policy_words[] = {
	[RAR_POOL_STATIC] = "static",
	[RAR_POOL_FCFS] = "fcfs",
	[RAR_POOL_RECLAIM] = "reclaim",
	[RAR_POOL_PREEMPT] = "preempt",
};

/* -- strict ---------------------------------------------------------------- */

/* The value that is in force. */
static u64 get_strict(const struct rar_net *rn)
{
	return rar_rules_strict(rn);
}

static int set_strict(struct rar_net *rn, u64 on)
{
	if (!on && READ_ONCE(rar_strict_host) &&
	    rn->net->user_ns != &init_user_ns)
		return -EPERM;
	WRITE_ONCE(rn->sysctl_strict, on);
	if (net_eq(rn->net, &init_net))
		WRITE_ONCE(rar_strict_host, on);
	return 0;
}

/* -- boxes of groups ------------------------------------------------------- */

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
static int parse_addr(const struct rar_net *rn, const char *name,
		      struct rar_addr *a)
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
	/* A longer one was cut. */
	if (strlen(text) == RAR_SYSCTL_WORD - 1)
		return -E2BIG;
	if (!*text || !strcmp(text, "-"))
		return 0;
	while ((name = strsep(&text, ","))) {
		err = parse_addr(rn, strim(name), &a) ?: add_box(boxes, &a);
		if (err)
			return err;
	}
	return 0;
}

static int parse_box(struct rar_net *rn, char *text)
{
	bool offered = !strcmp(text, OFFERED);
	struct rar_boxes boxes = { };
	int err = offered ? 0 : parse_boxes(rn, text, &boxes);

	if (err)
		return err;
	spin_lock_bh(&rn->lock);
	rn->boxes = boxes;
	rn->box_offers = offered;
	spin_unlock_bh(&rn->lock);
	return 0;
}

static int parse_box_up(struct rar_net *rn, char *text)
{
	struct rar_boxes boxes;
	int err;

	err = parse_boxes(rn, text, &boxes);
	if (!err && boxes.n > 1)
		err = -E2BIG;
	if (err)
		return err;
	spin_lock_bh(&rn->lock);
	rn->box_up = boxes.addr[0];
	spin_unlock_bh(&rn->lock);
	return 0;
}

/* -- the box of this host -------------------------------------------------- */

static void show_box_allow(struct rar_net *rn, char *text)
{
	rar_prefix_show(rn, text);
}

static int parse_box_allow(struct rar_net *rn, char *text)
{
	return rar_prefix_set(rn, text);
}

static u64 get_box_mem(const struct rar_net *rn)
{
	return READ_ONCE(rn->sysctl_box_mem);
}

/* At most what this host has, and not for the maker of a user namespace. */
static int set_box_mem(struct rar_net *rn, u64 bytes)
{
	if (bytes > (u64)totalram_pages() << PAGE_SHIFT)
		return -EINVAL;
	if (rn->net->user_ns != &init_user_ns)
		return -EPERM;
	return rar_role_set_mem(rn, bytes);
}

static u64 get_box_offer(const struct rar_net *rn)
{
	return READ_ONCE(rn->sysctl_box_offer);
}

static int set_box_offer(struct rar_net *rn, u64 on)
{
	return rar_role_set_offer(rn, on);
}

static u64 get_box_roce(const struct rar_net *rn)
{
	return READ_ONCE(rn->sysctl_box_roce);
}

static int set_box_roce(struct rar_net *rn, u64 on)
{
	return rar_role_set_roce(rn, on);
}

/* -- the table ------------------------------------------------------------- */

#define FILE(row, at, handler)						\
	.procname = #row, .mode = 0644, .proc_handler = (handler),	\
	.data = (void *)(at)
#define FIELD(row)	offsetof(struct rar_net, sysctl_##row)
#define NUMBER(row, type, low, high, initial)				\
	{ FILE(row, FIELD(row), sizeof(type) == sizeof(int) ?		\
				proc_dointvec_minmax : do_long),	\
	  .maxlen = sizeof(type),					\
	  .extra1 = (void *)&(const type) { low },			\
	  .extra2 = (void *)&(const type) { high } },
#define WORD(row, initial, can_use)					\
	{ FILE(row, FIELD(row), do_word), .extra1 = (void *)&(const	\
	  struct word){ row##_words, ARRAY_SIZE(row##_words), can_use } },
#define VALUE(row, low, high, initial)					\
	{ FILE(row, 0, do_value), .extra1 = (void *)&(const		\
	  struct value){ low, high, get_##row, set_##row } },
#define TEXT(row, initial)						\
	{ FILE(row, 0, do_text), .extra1 = (void *)&(const		\
	  struct text){ show_##row, parse_##row } },

/* .data is an offset here, and a pointer in the copy of each namespace. */
static const struct ctl_table template[] = {
	RAR_ALL_SETTINGS(NUMBER, WORD, VALUE, TEXT)
};

#define SET_NUMBER(row, type, min, max, value)	rn->sysctl_##row = (value);
#define SET_WORD(row, value, usable)		rn->sysctl_##row = (value);
#define SET_NOTHING(row, ...)

/* Before the settings can be seen. */
void rar_sysctl_defaults(struct rar_net *rn)
{
	RAR_ALL_SETTINGS(SET_NUMBER, SET_WORD, SET_NOTHING, SET_NOTHING)
	rn->sysctl_strict = READ_ONCE(rar_strict_host);
	rn->box_allow.link = true;
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
	const struct word *w = entry->extra1;
	const struct value *v = entry->extra1;
	const struct text *t = entry->extra1;

	*name = entry->procname;
	if (entry->proc_handler == do_word)
		strscpy(word, w->names[READ_ONCE(*(int *)entry->data)],
			RAR_SYSCTL_WORD);
	else if (entry->proc_handler == do_text)
		t->show(rn, word);
	else if (entry->proc_handler == do_value)
		*value = v->get(rn);
	else if (entry->proc_handler == do_long)
		*value = READ_ONCE(*(unsigned long *)entry->data);
	else
		*value = READ_ONCE(*(int *)entry->data);
	return entry->proc_handler == do_word || entry->proc_handler == do_text;
}
