// SPDX-License-Identifier: GPL-2.0
/* rarctl monitor: what happens to members, when it happens. */
#include "rarctl.h"

#include <stdio.h>
#include <time.h>

/* "rounds" of rarctl.c: events that are left to print, < 0 = no limit. */
static long left;

static void event_json(const struct nlattr *const *tb, const struct timespec *at)
{
	json_open(NULL, '{');
	json_u64("time_us", at->tv_sec * 1000000ULL + at->tv_nsec / 1000);
	json_attrs(event_attrs, RAR_A_EVENT_MAX, tb);
	json_close('}');
	json_line();
}

static enum kind kind_of(uint32_t event)
{
	return event == RAR_EVENT_JOINED || event == RAR_EVENT_BOX_OPENED ? GOOD : event == RAR_EVENT_ENDED ? PLAIN : BAD;
}

static void event_line(const struct nlattr *const *tb, const struct timespec *at)
{
	uint32_t event = get_u32(tb[RAR_A_EVENT_KIND]);
	char word[WORD], error[ERROR], rank[RANK], text[64];
	struct tm tm;

	strftime(text, sizeof(text), "%H:%M:%S", localtime_r(&at->tv_sec, &tm));
	printf("%s.%06ld group ", text, at->tv_nsec / 1000);
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)get_u64(tb[RAR_A_EVENT_GROUP]));
	print_word(NAME, text);
	printf(" rank %s/%u ", rank_text(tb[RAR_A_EVENT_RANK], tb[RAR_A_EVENT_USER_RANK], rank),
	       get_u32(tb[RAR_A_EVENT_SIZE]));
	print_word(kind_of(event), name_of(&events, event, word));
	if (tb[RAR_A_EVENT_ERROR])
		printf(": %s", error_text(tb[RAR_A_EVENT_ERROR], error));
	putchar('\n');
	fflush(stdout);
}

static void take(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[RAR_A_EVENT_MAX + 1];
	const struct filter *f = arg;
	struct timespec at;

	parse(nlh, tb, RAR_A_EVENT_MAX);
	if (!left || (f->by_group && f->group != get_u64(tb[RAR_A_EVENT_GROUP])) ||
	    (f->by_rank && f->rank != get_u32(tb[RAR_A_EVENT_RANK])))
		return;
	clock_gettime(CLOCK_REALTIME, &at);
	if (opt_json)
		event_json(tb, &at);
	else
		event_line(tb, &at);
	if (left > 0)
		left--;
}

/* Print events until @rounds of them were printed, for ever if it is negative. */
void monitor(struct conn *c, const struct filter *f, long rounds)
{
	left = rounds;
	conn_listen(c);
	if (!opt_json)
		fprintf(stderr, "rarctl: listening\n");
	while (left)
		if (!conn_next_event(c, take, (void *)f))
			fprintf(stderr, "rarctl: events were lost (see rarctl show)\n");
}
