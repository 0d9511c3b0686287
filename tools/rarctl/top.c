// SPDX-License-Identifier: GPL-2.0
/* rarctl top: what groups did since the last look. rarctl watch: members, again and again. */
#include "rarctl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A member with a socket, at one look. */
struct sample {
	uint64_t group;
	uint32_t rank, slow_rank, slow_ms;
	uint64_t ops, bytes, packets, retransmits, forwarded;
};

struct samples {
	struct sample *at;
	size_t n;
	double time;
};

static int by_name(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void take(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_MEMBER_MAX + 1], *links[1], *next[RAR_A_LINK_MAX + 1];
	struct samples *s = arg;

	parse(nlh, tb, RAR_A_MEMBER_MAX);
	if (get_u32(tb[RAR_A_MEMBER_HOLDER]) != RAR_HOLDER_SOCKET)
		return;
	parse_links(nlh, links, 1);
	parse_nested(links[RAR_DIRECTION_NEXT], next, RAR_A_LINK_MAX);
	if (!(s->n & (s->n - 1))) {
		s->at = realloc(s->at, (s->n ? 2 * s->n : 1) * sizeof(*s->at));
		if (!s->at)
			die(EXIT_FAILED, "out of memory");
	}
	s->at[s->n++] = (struct sample) {
		.group = get_u64(tb[RAR_A_MEMBER_GROUP]),
		.rank = get_u32(tb[RAR_A_MEMBER_RANK]),
		.slow_rank = get_u32(tb[RAR_A_MEMBER_SLOW_RANK]),
		.slow_ms = get_u32(tb[RAR_A_MEMBER_SLOW_MS]),
		.ops = get_u64(tb[RAR_A_MEMBER_OPS_COMPLETE]),
		.bytes = get_u64(next[RAR_A_LINK_BYTES]),
		.packets = get_u64(next[RAR_A_LINK_PACKETS]),
		.retransmits = get_u64(next[RAR_A_LINK_RETRANSMITS]),
		.forwarded = get_u64(next[RAR_A_LINK_FORWARDED]),
	};
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static struct samples look(struct conn *c, const struct filter *f)
{
	struct samples s = { .time = seconds() };

	conn_dump(c, RAR_CMD_MEMBER_GET, f, take, &s);
	if (s.n)
		qsort(s.at, s.n, sizeof(*s.at), by_name);
	return s;
}

/* What a group's members here did since the last look. */
struct rates {
	uint64_t group;
	uint32_t members, slow_rank, slow_ms;
	double ops, bytes, packets, retransmits, forwarded;
};

/* A counter that went back began anew, with another epoch. */
static double since(uint64_t now, uint64_t before)
{
	return now < before ? now : now - before;
}

static void add(struct rates *r, const struct sample *now, const struct sample *before)
{
	static const struct sample zero;

	before = before ? before : &zero;
	r->members++;
	if (now->slow_ms > r->slow_ms) {
		r->slow_ms = now->slow_ms;
		r->slow_rank = now->slow_rank;
	}
	r->ops = fmax(r->ops, since(now->ops, before->ops));
	r->bytes += since(now->bytes, before->bytes);
	r->packets += since(now->packets, before->packets);
	r->retransmits += since(now->retransmits, before->retransmits);
	r->forwarded += since(now->forwarded, before->forwarded);
}

static void rates_row(const struct rates *r, double s)
{
	table_cell(NAME, "0x%llx", (unsigned long long)r->group);
	table_cell(PLAIN, "%u", r->members);
	table_cell(PLAIN, "%.1f", r->bytes / r->members / s / 1e6);
	table_cell(PLAIN, "%.1f", r->ops / s);
	table_cell(r->retransmits > 0 ? BAD : PLAIN, "%.0f", r->retransmits / s);
	table_cell(PLAIN, "%.0f%%", r->packets > 0 ? 100 * r->forwarded / r->packets : 0);
	if (r->slow_ms)
		table_cell(PLAIN, "%u:%ums", r->slow_rank, r->slow_ms);
	else
		table_cell(PLAIN, "-");
}

static void rates_json(const struct rates *r, double s)
{
	json_open(NULL, '{');
	json_u64("group", r->group);
	json_u64("members", r->members);
	json_double("bytes_per_s", r->bytes / r->members / s);
	json_double("ops_per_s", r->ops / s);
	json_double("retransmits_per_s", r->retransmits / s);
	json_double("forwarded", r->packets > 0 ? r->forwarded / r->packets : 0);
	if (r->slow_ms) {
		json_u64("slow_rank", r->slow_rank);
		json_u64("slow_ms", r->slow_ms);
	}
	json_close('}');
}

static void print(const struct samples *now, const struct samples *before)
{
	double s = now->time - before->time;
	struct rates r;
	size_t i, j;

	for (i = 0; i < now->n; i = j) {
		r = (struct rates) { .group = now->at[i].group };
		for (j = i; j < now->n && now->at[j].group == r.group; j++)
			add(&r, &now->at[j], before->n ?
			    bsearch(&now->at[j], before->at, before->n, sizeof(*before->at),
				    by_name) : NULL);
		if (opt_json)
			rates_json(&r, s);
		else
			rates_row(&r, s);
	}
}

static void wait_for(double interval)
{
	struct timespec t = { .tv_sec = interval,
			      .tv_nsec = (interval - floor(interval)) * 1e9 };

	fflush(stdout);
	nanosleep(&t, NULL);
}

/* Print rates every @interval seconds, @rounds times, for ever if it is negative. */
void top(struct conn *c, const struct filter *f, double interval, long rounds)
{
	struct samples before = look(c, f), now;

	for (; rounds; rounds -= rounds > 0) {
		wait_for(interval);
		now = look(c, f);
		print_screen();
		if (opt_json)
			json_open(NULL, '[');
		else
			table_head("GROUP MEMBERS MB/s OPS/s RETRANS/s FORWARDED SLOW");
		print(&now, &before);
		if (opt_json) {
			json_close(']');
			json_line();
		} else {
			table_print();
		}
		free(before.at);
		before = now;
	}
	free(before.at);
}

/* Show the members every @interval seconds. */
void watch(struct conn *c, const struct filter *f, double interval, long rounds)
{
	for (;;) {
		print_screen();
		show_members(c, f);
		rounds -= rounds > 0;
		if (!rounds)
			return;
		wait_for(interval);
	}
}
