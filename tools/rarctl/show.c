// SPDX-License-Identifier: GPL-2.0
/* rarctl show: members, links, operations, counters, settings, as they are now. */
#include "rarctl.h"

#include <libmnl/libmnl.h>
#include <stdio.h>

#define LINKS 2

static unsigned long long ull(const struct nlattr *attr)
{
	return get_u64(attr);
}

static void dump(struct conn *c, int cmd, const struct filter *f, const char *head,
		 msg_fn row, msg_fn json)
{
	size_t n;

	if (opt_json) {
		json_open(NULL, '[');
		n = conn_dump(c, cmd, f, json, NULL);
		json_close(']');
		json_line();
	} else {
		table_head(head);
		n = conn_dump(c, cmd, f, row, NULL);
	}
	if (!n && f && f->by_group && cmd == RAR_CMD_MEMBER_GET)
		die(EXIT_FAILED, "no such member in this network namespace");
	if (opt_json)
		return;
	if (cmd == RAR_CMD_MEMBER_GET || cmd == RAR_CMD_OP_GET)
		table_sort();
	table_print();
}

/* -- members ---------------------------------------------------------------- */

static enum kind state_kind(uint32_t state)
{
	return state == RAR_S_FAILED ? BAD : state == RAR_S_RUN ? GOOD : PLAIN;
}

/* The first box, how many others there are, and the share of the sums that boxes made. */
static void box_cells(const struct nlmsghdr *nlh)
{
	const struct nlattr *boxes[RAR_MAX_BOXES], *tb[RAR_A_BOX_MAX + 1];
	char addr[ADDR], word[WORD], why[WORD], more[16] = "";
	uint64_t sums = 0, ring = 0;
	uint32_t state = 0, reason;
	int i;

	parse_boxes(nlh, boxes, RAR_MAX_BOXES);
	for (i = 0; i < RAR_MAX_BOXES && boxes[i]; i++) {
		parse_nested(boxes[i], tb, RAR_A_BOX_MAX);
		sums += get_u64(tb[RAR_A_BOX_SUMS]);
		ring += get_u64(tb[RAR_A_BOX_RING_SUMS]);
	}
	if (i > 1)
		snprintf(more, sizeof(more), "+%d", i - 1);
	if (!i) {
		table_cell(PLAIN, "-");
		table_cell(PLAIN, "-");
		return;
	}
	parse_nested(boxes[0], tb, RAR_A_BOX_MAX);
	state = get_u32(tb[RAR_A_BOX_STATE]);
	reason = get_u32(tb[RAR_A_BOX_REASON]);
	table_cell(state == RAR_BOX_OPEN ? ADDRESS : BAD, "%s%s%s%s%s%s",
		   addr_text(tb[RAR_A_BOX_ADDR], addr), more,
		   state == RAR_BOX_OPEN ? "" : ",",
		   state == RAR_BOX_OPEN ? "" : name_of(&box_states, state, word),
		   reason ? "," : "", reason ? name_of(&reasons, reason, why) : "");
	if (sums + ring)
		table_cell(PLAIN, "%.0f%%", 100.0 * sums / (sums + ring));
	else
		table_cell(PLAIN, "-");
}

static void member_row(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_MEMBER_MAX + 1], *links[LINKS], *next[RAR_A_LINK_MAX + 1];
	uint32_t state;
	char word[WORD], addr[ADDR], error[ERROR], rank[RANK];

	(void)arg;
	parse(nlh, tb, RAR_A_MEMBER_MAX);
	parse_links(nlh, links, LINKS);
	parse_nested(links[RAR_DIRECTION_NEXT], next, RAR_A_LINK_MAX);
	state = get_u32(tb[RAR_A_MEMBER_STATE]);
	table_cell(NAME, "0x%llx", ull(tb[RAR_A_MEMBER_GROUP]));
	table_cell(PLAIN, "%s/%u",
		   rank_text(tb[RAR_A_MEMBER_RANK], tb[RAR_A_MEMBER_USER_RANK], rank),
		   get_u32(tb[RAR_A_MEMBER_SIZE]));
	table_cell(state_kind(state), "%s", name_of(&states, state, word));
	table_cell(PLAIN, "%s", name_of(&holders, get_u32(tb[RAR_A_MEMBER_HOLDER]), word));
	table_cell(PLAIN, "%u", get_u32(tb[RAR_A_MEMBER_UID]));
	table_cell(ADDRESS, "%s", addr_text(next[RAR_A_LINK_LOCAL], addr));
	table_cell(PLAIN, "%s", name_of(&schedules, get_u32(tb[RAR_A_MEMBER_SCHEDULE]), word));
	table_cell(PLAIN, "%s", name_of(&securities, get_u32(tb[RAR_A_MEMBER_SECURITY]), word));
	box_cells(nlh);
	table_cell(PLAIN, "%llu", ull(tb[RAR_A_MEMBER_OPS_COMPLETE]));
	table_cell(PLAIN, "%llu", ull(next[RAR_A_LINK_BYTES]));
	table_cell(PLAIN, "%llu", ull(next[RAR_A_LINK_RETRANSMITS]));
	if (tb[RAR_A_MEMBER_SLOW_RANK])
		table_cell(PLAIN, "%s:%ums",
			   rank_text(tb[RAR_A_MEMBER_SLOW_RANK], tb[RAR_A_MEMBER_SLOW_USER_RANK],
				     rank), get_u32(tb[RAR_A_MEMBER_SLOW_MS]));
	else
		table_cell(PLAIN, "-");
	table_cell(tb[RAR_A_MEMBER_ERROR] ? BAD : PLAIN, "%s",
		   error_text(tb[RAR_A_MEMBER_ERROR], error));
}

static void json_link(const struct nlattr *link)
{
	const struct nlattr *tb[RAR_A_LINK_MAX + 1];

	parse_nested(link, tb, RAR_A_LINK_MAX);
	json_open(NULL, '{');
	json_attrs(link_attrs, RAR_A_LINK_MAX, tb);
	json_close('}');
}

static void json_box(const char *name, const struct nlattr *box)
{
	const struct nlattr *tb[RAR_A_BOX_MAX + 1];

	if (!box)
		return;
	parse_nested(box, tb, RAR_A_BOX_MAX);
	json_open(name, '{');
	json_attrs(box_attrs, RAR_A_BOX_MAX, tb);
	json_close('}');
}

/* The first box, and if there are several all of them. */
static void json_boxes(const struct nlmsghdr *nlh)
{
	const struct nlattr *boxes[RAR_MAX_BOXES];
	int i;

	parse_boxes(nlh, boxes, RAR_MAX_BOXES);
	json_box("box", boxes[0]);
	if (!boxes[1])
		return;
	json_open("boxes", '[');
	for (i = 0; i < RAR_MAX_BOXES; i++)
		json_box(NULL, boxes[i]);
	json_close(']');
}

static void member_json(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_MEMBER_MAX + 1], *links[LINKS];
	int i;

	(void)arg;
	parse(nlh, tb, RAR_A_MEMBER_MAX);
	parse_links(nlh, links, LINKS);
	json_open(NULL, '{');
	json_attrs(member_attrs, RAR_A_MEMBER_MAX, tb);
	json_open("links", '[');
	for (i = 0; i < LINKS; i++)
		if (links[i])
			json_link(links[i]);
	json_close(']');
	json_boxes(nlh);
	json_close('}');
}

void show_members(struct conn *c, const struct filter *f)
{
	dump(c, RAR_CMD_MEMBER_GET, f,
	     "GROUP RANK STATE HELD-BY UID ADDRESS SCHEDULE SECURITY BOX BY-BOX OPS SENT RETRANS SLOW ERROR",
	     member_row, member_json);
}

/* -- links ------------------------------------------------------------------ */

static void link_row(const struct nlattr *const *member, const struct nlattr *link)
{
	const struct nlattr *tb[RAR_A_LINK_MAX + 1];
	char word[WORD], addr[ADDR], rank[RANK];
	bool next;

	parse_nested(link, tb, RAR_A_LINK_MAX);
	next = get_u32(tb[RAR_A_LINK_DIRECTION]) == RAR_DIRECTION_NEXT;
	table_cell(NAME, "0x%llx", ull(member[RAR_A_MEMBER_GROUP]));
	table_cell(PLAIN, "%s",
		   rank_text(member[RAR_A_MEMBER_RANK], member[RAR_A_MEMBER_USER_RANK], rank));
	table_cell(PLAIN, "%s", name_of(&directions, get_u32(tb[RAR_A_LINK_DIRECTION]), word));
	table_cell(PLAIN, "%s", rank_text(tb[RAR_A_LINK_RANK], tb[RAR_A_LINK_USER_RANK], rank));
	table_cell(ADDRESS, "%s", addr_text(tb[RAR_A_LINK_REMOTE], addr));
	table_cell(PLAIN, "%s", tb[RAR_A_LINK_IN_MEMORY] ? "memory" : "packets");
	table_cell(PLAIN, "%llu", ull(tb[RAR_A_LINK_BYTES]));
	table_cell(PLAIN, "%llums", ull(tb[RAR_A_LINK_WAIT_US]) / 1000);
	if (tb[RAR_A_LINK_SILENT_MS])
		table_cell(PLAIN, "%ums", get_u32(tb[RAR_A_LINK_SILENT_MS]));
	else
		table_cell(PLAIN, "-");
	if (next) {
		table_cell(PLAIN, "%llu", ull(tb[RAR_A_LINK_RETRANSMITS]));
		table_cell(PLAIN, "%uus", get_u32(tb[RAR_A_LINK_SRTT_US]));
		table_cell(PLAIN, "%u", get_u32(tb[RAR_A_LINK_CWND]));
	} else {
		table_cell(PLAIN, "-");
		table_cell(PLAIN, "-");
		table_cell(PLAIN, "-");
	}
}

static void link_rows(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_MEMBER_MAX + 1], *links[LINKS];
	int i;

	(void)arg;
	parse(nlh, tb, RAR_A_MEMBER_MAX);
	parse_links(nlh, links, LINKS);
	for (i = 0; i < LINKS; i++)
		if (links[i])
			link_row(tb, links[i]);
}

void show_links(struct conn *c, const struct filter *f)
{
	dump(c, RAR_CMD_MEMBER_GET, f,
	     "GROUP RANK LINK TO ADDRESS BY BYTES WAITED SILENT RETRANS RTT WINDOW",
	     link_rows, member_json);
}

/* -- operations ------------------------------------------------------------- */

static void op_row(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_OP_MAX + 1];
	char word[WORD];

	(void)arg;
	parse(nlh, tb, RAR_A_OP_MAX);
	table_cell(NAME, "0x%llx", ull(tb[RAR_A_OP_GROUP]));
	table_cell(PLAIN, "%u", get_u32(tb[RAR_A_OP_RANK]));
	table_cell(PLAIN, "%llu", ull(tb[RAR_A_OP_SEQ]));
	table_cell(PLAIN, "%s", name_of(&collectives, get_u32(tb[RAR_A_OP_COLLECTIVE]), word));
	table_cell(PLAIN, "%s", name_of(&dtypes, get_u32(tb[RAR_A_OP_DTYPE]), word));
	table_cell(PLAIN, "%s", name_of(&redops, get_u32(tb[RAR_A_OP_REDOP]), word));
	table_cell(PLAIN, "%llu", ull(tb[RAR_A_OP_COUNT]));
	table_cell(PLAIN, "%llums", ull(tb[RAR_A_OP_AGE_US]) / 1000);
	table_cell(PLAIN, "%u", get_u32(tb[RAR_A_OP_LEFT]));
	table_cell(PLAIN, "%u/%u", get_u32(tb[RAR_A_OP_ACKED]), get_u32(tb[RAR_A_OP_OWED]));
}

static void op_json(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_OP_MAX + 1];

	(void)arg;
	parse(nlh, tb, RAR_A_OP_MAX);
	json_open(NULL, '{');
	json_attrs(op_attrs, RAR_A_OP_MAX, tb);
	json_close('}');
}

void show_ops(struct conn *c, const struct filter *f)
{
	dump(c, RAR_CMD_OP_GET, f,
	     "GROUP RANK OP COLLECTIVE TYPE REDUCTION COUNT AGE TO-COME ACKED", op_row, op_json);
}

/* -- counters and settings -------------------------------------------------- */

static const char *text_of(const struct nlattr *attr)
{
	return attr && !mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) ? mnl_attr_get_str(attr) : "";
}

static void counter_row(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_COUNTER_MAX + 1];

	(void)arg;
	parse(nlh, tb, RAR_A_COUNTER_MAX);
	table_cell(PLAIN, "%s", text_of(tb[RAR_A_COUNTER_NAME]));
	table_cell(PLAIN, "%llu", ull(tb[RAR_A_COUNTER_VALUE]));
}

static void counter_json(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_COUNTER_MAX + 1];

	(void)arg;
	parse(nlh, tb, RAR_A_COUNTER_MAX);
	json_open(NULL, '{');
	json_str("name", text_of(tb[RAR_A_COUNTER_NAME]));
	json_u64("value", get_u64(tb[RAR_A_COUNTER_VALUE]));
	json_close('}');
}

void show_counters(struct conn *c, const struct filter *f)
{
	(void)f;
	dump(c, RAR_CMD_COUNTER_GET, NULL, "COUNTER VALUE", counter_row, counter_json);
}

static void setting_row(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_SETTING_MAX + 1];

	(void)arg;
	parse(nlh, tb, RAR_A_SETTING_MAX);
	table_cell(PLAIN, "%s", text_of(tb[RAR_A_SETTING_NAME]));
	if (tb[RAR_A_SETTING_TEXT])
		table_cell(PLAIN, "%s", text_of(tb[RAR_A_SETTING_TEXT]));
	else
		table_cell(PLAIN, "%llu", ull(tb[RAR_A_SETTING_VALUE]));
}

static void setting_json(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_SETTING_MAX + 1];

	(void)arg;
	parse(nlh, tb, RAR_A_SETTING_MAX);
	json_open(NULL, '{');
	json_str("name", text_of(tb[RAR_A_SETTING_NAME]));
	if (tb[RAR_A_SETTING_TEXT])
		json_str("value", text_of(tb[RAR_A_SETTING_TEXT]));
	else
		json_u64("value", get_u64(tb[RAR_A_SETTING_VALUE]));
	json_close('}');
}

void show_settings(struct conn *c, const struct filter *f)
{
	(void)f;
	dump(c, RAR_CMD_SETTING_GET, NULL, "SETTING VALUE", setting_row, setting_json);
}
