// SPDX-License-Identifier: GPL-2.0
/* rarctl plot: draw the life of an operation over its ranks, as SVG. */
#include "rarctl.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The stages of an operation at a rank, in the order of the legend. */
enum stage { POSTED, SENT, RECEIVED, COMPLETE, RELEASED, STAGES };

static const struct {
	const char *event;	/* trace event, whose first counts */
	const char *name;	/* class in the SVG */
	const char *text;
	const char *color;
} stages[STAGES] = {
	{ "rar_post", "posted", "posted", "#000000" },
	{ "rar_tx", "sent", "first chunk sent", "#0072b2" },
	{ "rar_reduce", "received", "first chunk received", "#d55e00" },
	{ "rar_op", "complete", "complete", "#009e73" },
	{ "rar_release", "released", "released", "#7f7f7f" },
};

struct life {
	double at[STAGES];	/* seconds, negative: no such event */
	unsigned int lost;
};

static struct life lives[RAR_MAX_SIZE];
static bool any_op;
static uint64_t first_op, last_op, bytes;

/* -- reading -------------------------------------------------------------- */

static void take_event(enum stage stage, double at, uint32_t rank)
{
	double *mine = &lives[rank].at[stage];

	if (*mine < 0 || at < *mine)
		*mine = at;
}

/* A line of trace_pipe: "task-pid [cpu] flags seconds: event: group=... rank=... op=... ..." */
static void take_line(char *line, uint64_t group, uint64_t op)
{
	char *colon = strstr(line, ": rar_"), *name, *number, *text;
	uint64_t its_group, its_op;
	unsigned int rank;
	size_t i;

	if (!colon)
		return;
	*colon = 0;
	number = strrchr(line, ' ');
	name = colon + 2;
	text = strchr(name, ':');
	if (!number || !text ||
	    sscanf(text, ": group=%" SCNx64 " rank=%u op=%" SCNu64, &its_group, &rank,
		   &its_op) != 3 || its_group != group || rank >= RAR_MAX_SIZE)
		return;
	*text = 0;
	if (!any_op || its_op < first_op)
		first_op = its_op;
	if (!any_op || its_op > last_op)
		last_op = its_op;
	any_op = true;
	if (its_op != op)
		return;
	if (!strcmp(name, "rar_lost"))
		lives[rank].lost++;
	for (i = 0; i < STAGES; i++)
		if (!strcmp(name, stages[i].event))
			take_event(i, strtod(number, NULL), rank);
	if (!strcmp(name, "rar_post"))
		sscanf(text + 1, "%*s %*s %*s bytes=%" SCNu64, &bytes);
}

static void read_file(const char *path, uint64_t group, uint64_t op)
{
	FILE *in = fopen(path, "re");
	bool missing = false;
	char *line = NULL;
	size_t room = 0;

	if (!in)
		die(EXIT_FAILED, "%s: %s", path, strerror(errno));
	while (getline(&line, &room, in) >= 0) {
		missing = missing || (!strncmp(line, "CPU:", 4) && strstr(line, "[LOST"));
		take_line(line, group, op);
	}
	if (ferror(in))
		die(EXIT_FAILED, "%s: %s", path, strerror(errno));
	if (missing)
		fprintf(stderr, "rarctl: %s: events were lost, so times may be too late\n", path);
	free(line);
	fclose(in);
}

static bool has_events(const struct life *l)
{
	size_t i;

	for (i = 0; i < STAGES; i++)
		if (l->at[i] >= 0)
			return true;
	return false;
}

/* -- drawing -------------------------------------------------------------- */

enum { LEFT = 90, WIDTH = 860, RIGHT = 40, TOP = 96, ROW = 30, BOTTOM = 50 };

#define UNTIL_COMPLETE	"#cfe8df"
#define UNTIL_RELEASED	"#e8e8e8"

static double begin, span;		/* seconds */
static double per_unit;			/* seconds of a unit of the axis */
static const char *unit;

static double x_of(double at) { return LEFT + (at - begin) / span * WIDTH; }

/* Choose the unit in which the span is a number of at most five digits. */
static void choose_unit(void)
{
	per_unit = span < 0.01 ? 1e-6 : span < 10 ? 1e-3 : 1;
	unit = span < 0.01 ? "\302\265s" : span < 10 ? "ms" : "s";
}

/* The distance of ticks: 1, 2 or 5 times a power of ten, and at most eleven ticks. */
static double tick_step(void)
{
	double raw = span / per_unit / 10, power = pow(10, floor(log10(raw)));

	return power * (raw <= power ? 1 : raw <= 2 * power ? 2 : raw <= 5 * power ? 5 : 10);
}

static void draw_axis(double height)
{
	double step = tick_step(), t;

	for (t = 0; t <= span / per_unit * (1 + 1e-9); t += step) {
		double x = x_of(begin + t * per_unit);

		printf("<line class=\"grid\" x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%.0f\"/>\n",
		       x, TOP, x, height - BOTTOM);
		printf("<text class=\"tick\" x=\"%.2f\" y=\"%.0f\" text-anchor=\"middle\">%g</text>\n",
		       x, height - BOTTOM + 16, t);
	}
	printf("<text class=\"unit\" x=\"%d\" y=\"%.0f\" text-anchor=\"middle\">", LEFT + WIDTH / 2,
	       height - BOTTOM + 36);
	printf("time since the first event, in %s</text>\n", unit);
}

/* A mark of its own shape for each stage, for readers who see no colours. */
static void draw_shape(enum stage stage, double x, double y)
{
	const char *color = stages[stage].color;

	switch (stage) {
	case POSTED:
		printf("<rect x=\"%.2f\" y=\"%.2f\" width=\"3\" height=\"18\" fill=\"%s\"/>", x - 1.5,
		       y - 9, color);
		break;
	case SENT:
		printf("<path d=\"M%.2f %.2fl-5 -10h10z\" fill=\"%s\"/>", x, y, color);
		break;
	case RECEIVED:
		printf("<path d=\"M%.2f %.2fl-5 10h10z\" fill=\"%s\"/>", x, y, color);
		break;
	case COMPLETE:
		printf("<circle cx=\"%.2f\" cy=\"%.2f\" r=\"5\" fill=\"%s\"/>", x, y, color);
		break;
	default:
		printf("<path d=\"M%.2f %.2fl-5 5l-5 -5l5 -5z\" fill=\"white\" stroke=\"%s\"/>", x + 5, y,
		       color);
	}
}

/* The meaning of a colour of bars. */
static void draw_key(int x, const char *color, const char *text)
{
	printf("<g class=\"legend\"><rect x=\"%d\" y=\"70\" width=\"24\" height=\"8\" fill=\"%s\"/>", x,
	       color);
	printf("<text x=\"%d\" y=\"78\">%s</text></g>\n", x + 32, text);
}

static void draw_legend(void)
{
	double x = LEFT;
	size_t i;

	for (i = 0; i < STAGES; i++) {
		printf("<g class=\"legend\">");
		draw_shape(i, x, 52);
		printf("<text x=\"%.0f\" y=\"56\">%s</text></g>\n", x + 12, stages[i].text);
		x += 44 + 7 * strlen(stages[i].text);
	}
	draw_key(LEFT, UNTIL_COMPLETE, "until complete");
	draw_key(LEFT + 160, UNTIL_RELEASED, "until released");
}

static void draw_bar(const struct life *l, enum stage from, enum stage to, double y,
		     const char *color)
{
	if (l->at[from] >= 0 && l->at[to] >= l->at[from])
		printf("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"8\" fill=\"%s\"/>\n",
		       x_of(l->at[from]), y - 4, x_of(l->at[to]) - x_of(l->at[from]), color);
}

static void draw_rank(uint32_t rank, double y)
{
	const struct life *l = &lives[rank];
	size_t i;

	printf("<text class=\"rank\" x=\"%d\" y=\"%.2f\" text-anchor=\"end\">rank %u</text>\n",
	       LEFT - 14, y + 4, rank);
	draw_bar(l, POSTED, COMPLETE, y, UNTIL_COMPLETE);
	draw_bar(l, COMPLETE, RELEASED, y, UNTIL_RELEASED);
	for (i = 0; i < STAGES; i++) {
		if (l->at[i] < 0)
			continue;
		printf("<g class=\"%s\" data-rank=\"%u\" data-x=\"%.2f\">", stages[i].name, rank,
		       x_of(l->at[i]));
		draw_shape(i, x_of(l->at[i]), y);
		printf("<title>rank %u: %s after %.0f \302\265s</title></g>\n", rank, stages[i].text,
		       (l->at[i] - begin) * 1e6);
	}
	if (l->lost)
		printf("<text class=\"lost\" x=\"%d\" y=\"%.2f\" text-anchor=\"end\">%u lost</text>\n",
		       LEFT + WIDTH + RIGHT - 2, y - 8, l->lost);
}

static void draw(uint64_t group, uint64_t op, uint32_t ranks)
{
	double height = TOP + ROW * (ranks + 0.5) + BOTTOM, y = TOP + ROW * 0.75;
	uint32_t rank;

	printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\">\n",
	       LEFT + WIDTH + RIGHT, height);
	puts("<style>text { font: 12px sans-serif } .title { font-size: 15px }");
	puts(".grid { stroke: #dddddd } .released path { stroke-width: 2 }</style>");
	puts("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
	printf("<text class=\"title\" x=\"%d\" y=\"26\">Group 0x%" PRIx64 ", operation %" PRIu64,
	       LEFT, group, op);
	printf(": %" PRIu64 " bytes, %u ranks</text>\n", bytes, ranks);
	draw_legend();
	draw_axis(height);
	for (rank = 0; rank < RAR_MAX_SIZE; rank++) {
		if (has_events(&lives[rank])) {
			draw_rank(rank, y);
			y += ROW;
		}
	}
	puts("</svg>");
}

/* -- the command ---------------------------------------------------------- */

/* Clocks that differ show as a chunk that comes before its sender has sent any. */
static void check_clocks(uint32_t ranks)
{
	double worst = 0;
	uint32_t rank;

	for (rank = 0; rank < ranks; rank++) {
		const struct life *from = &lives[(rank + ranks - 1) % ranks], *l = &lives[rank];

		if (from->at[SENT] >= 0 && l->at[RECEIVED] >= 0)
			worst = fmax(worst, from->at[SENT] - l->at[RECEIVED]);
	}
	if (worst > 2e-6)
		fprintf(stderr, "rarctl: the clocks of the hosts differ by at least %.0f us\n",
			worst * 1e6);
}

/* Draw the operation @op of @group, of which @paths have the events. */
void plot(uint64_t group, uint64_t op, char **paths, int n)
{
	double last = -1;
	uint32_t ranks = 0, rank;
	size_t i;
	int file;

	for (rank = 0; rank < RAR_MAX_SIZE; rank++)
		for (i = 0; i < STAGES; i++)
			lives[rank].at[i] = -1;
	for (file = 0; file < n; file++)
		read_file(paths[file], group, op);
	begin = -1;
	for (rank = 0; rank < RAR_MAX_SIZE; rank++) {
		ranks += has_events(&lives[rank]);
		for (i = 0; i < STAGES; i++) {
			double at = lives[rank].at[i];

			if (at >= 0 && (begin < 0 || at < begin))
				begin = at;
			last = fmax(last, at);
		}
	}
	if (!any_op)
		die(EXIT_FAILED, "no events of group 0x%" PRIx64 " in these files", group);
	if (!ranks)
		die(EXIT_FAILED, "no events of operation %" PRIu64 "; there are %" PRIu64
		    " to %" PRIu64, op, first_op, last_op);
	span = fmax(last - begin, 1e-6);
	choose_unit();
	check_clocks(ranks);
	draw(group, op, ranks);
}
