/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rarctl: shows and controls the members of AF_RAR groups of this network namespace.
 *
 * rarctl.c has the commands, netlink.c speaks to the kernel, show.c, box.c and top.c print what it
 * says, and event.c what happens. test.c is a member itself. record.c keeps trace events, and
 * plot.c draws them. names.c has the words for numbers, attrs.c the attributes, print.c writes
 * columns, colours and JSON.
 */
#ifndef _RARCTL_H
#define _RARCTL_H

#include <linux/rar.h>
#include <linux/rar_netlink.h>
#include <arpa/inet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nlattr;
struct nlmsghdr;

/* Exit statuses. */
enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

/* Options, set once by rarctl.c. */
extern bool opt_json, opt_pretty;

/* The members that a command is about. */
struct filter {
	bool by_group;
	bool by_rank;
	uint64_t group;
	uint32_t rank;
};

/* -- netlink.c ------------------------------------------------------------ */

struct conn;

typedef void (*msg_fn)(const struct nlmsghdr *nlh, void *arg);

struct conn *conn_open(void);
void conn_close(struct conn *c);
size_t conn_dump(struct conn *c, int cmd, const struct filter *f, msg_fn fn, void *arg);
void conn_do(struct conn *c, int cmd, const struct filter *f, msg_fn fn, void *arg);
void conn_box_key(struct conn *c, unsigned char *key, size_t len);
void conn_listen(struct conn *c);
bool conn_next_event(struct conn *c, msg_fn fn, void *arg);

void parse(const struct nlmsghdr *nlh, const struct nlattr **tb, int max);
void parse_nested(const struct nlattr *nest, const struct nlattr **tb, int max);
void parse_links(const struct nlmsghdr *nlh, const struct nlattr **links, uint32_t n);
void parse_boxes(const struct nlmsghdr *nlh, const struct nlattr **boxes, uint32_t n);
uint32_t get_u32(const struct nlattr *attr);
uint64_t get_u64(const struct nlattr *attr);

/* -- print.c -------------------------------------------------------------- */

enum { COLOR_NEVER, COLOR_AUTO, COLOR_ALWAYS };

/* Kinds of cells and words; each has a colour. */
enum kind { PLAIN, NAME, ADDRESS, GOOD, BAD };

/* Print columns that are as wide as their widest cell. */
void table_head(const char *columns);
void table_cell(enum kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_sort(void);
void table_print(void);

void print_setup(int color);
bool print_screen(void);
void print_word(enum kind kind, const char *text);

/* A JSON text: values with their keys, or without (NULL) in an array and at the top. */
void json_open(const char *key, char bracket);
void json_close(char bracket);
void json_u64(const char *key, uint64_t value);
void json_double(const char *key, double value);
void json_bool(const char *key, bool value);
void json_str(const char *key, const char *text);
void json_line(void);

/* -- names.c -------------------------------------------------------------- */

/* The names of an enumeration. */
struct names {
	const char *const *name;
	uint32_t n;
};

extern const struct names states, reasons, schedules, securities, rx_paths, collectives, dtypes, redops,
			  holders, directions, events, box_states;

#define WORD	16	/* room for the number of a value without a name */
#define ADDR	72	/* room for an address */
#define ERROR	192	/* room for an error */
#define RANK	24	/* room for a rank */

const char *name_of(const struct names *names, uint32_t value, char word[WORD]);
const char *addr_text(const struct nlattr *nest, char text[ADDR]);
const char *rank_text(const struct nlattr *rank, const struct nlattr *user, char text[RANK]);
const char *error_text(const struct nlattr *nest, char text[ERROR]);
const char *ip_text(const struct nlattr *const *tb, char ip[INET6_ADDRSTRLEN]);
const char *device_text(const struct nlattr *const *tb, char text[IF_NAMESIZE + 1]);
uint16_t port_of(const struct nlattr *const *tb);

/* -- attrs.c -------------------------------------------------------------- */

/* How an attribute looks as JSON. */
struct attr {
	const char *key;
	enum { ATTR_OTHER, ATTR_U32, ATTR_U64, ATTR_FLAG, ATTR_ENUM, ATTR_ADDR, ATTR_ERROR } kind;
	const struct names *names;	/* ATTR_ENUM */
};

extern const struct attr error_attrs[], link_attrs[], box_attrs[], member_attrs[], op_attrs[],
			 event_attrs[];

void json_attrs(const struct attr *attrs, int max, const struct nlattr *const *tb);

/* -- show.c, box.c, top.c, event.c, record.c, plot.c, test.c ----------------- */

void show_members(struct conn *c, const struct filter *f);
void show_links(struct conn *c, const struct filter *f);
void show_ops(struct conn *c, const struct filter *f);
void show_counters(struct conn *c, const struct filter *f);
void show_settings(struct conn *c, const struct filter *f);
void box(void);
void top(struct conn *c, const struct filter *f, double interval, long rounds);
void watch(struct conn *c, const struct filter *f, double interval, long rounds);
void monitor(struct conn *c, const struct filter *f, long rounds);
void record(const char *path, const struct filter *f, long rounds);
void plot(uint64_t group, uint64_t op, char **paths, int n);
void test(const char *peer);

void die(int status, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

#endif /* _RARCTL_H */
