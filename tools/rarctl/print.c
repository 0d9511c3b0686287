// SPDX-License-Identifier: GPL-2.0
/* Columns, colours and JSON. */
#include "rarctl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool opt_json, opt_pretty;

/* -- colours ---------------------------------------------------------------- */

static bool colored;

/* Decide whether to print colours: by themselves only on a terminal that wants them. */
void print_setup(int color)
{
	const char *term = getenv("TERM"), *no = getenv("NO_COLOR");

	colored = color == COLOR_ALWAYS ||
		  (color == COLOR_AUTO && isatty(STDOUT_FILENO) && !(no && *no) &&
		   term && strcmp(term, "dumb"));
	colored = colored && !opt_json;
}

static const char *paint(enum kind kind)
{
	static const char *const codes[] = {
		[PLAIN] = "", [NAME] = "\033[36m", [ADDRESS] = "\033[35m",
		[GOOD] = "\033[32m", [BAD] = "\033[31m",
	};

	return colored ? codes[kind] : "";
}

static const char *unpaint(enum kind kind)
{
	return colored && kind != PLAIN ? "\033[0m" : "";
}

void print_word(enum kind kind, const char *text)
{
	printf("%s%s%s", paint(kind), text, unpaint(kind));
}

/* Begin a new screen. Return: false if the output is no terminal. */
bool print_screen(void)
{
	if (opt_json || !isatty(STDOUT_FILENO))
		return false;
	fputs("\033[H\033[2J", stdout);
	return true;
}

/* -- columns ---------------------------------------------------------------- */

#define COLUMNS 16

struct cell {
	enum kind kind;
	char *text;
};

static struct cell *cells;
static size_t ncells, width[COLUMNS], columns;

static void add_cell(enum kind kind, const char *text)
{
	size_t column = columns ? ncells % columns : 0;

	if (!(ncells & (ncells - 1))) {
		cells = realloc(cells, (ncells ? 2 * ncells : 1) * sizeof(*cells));
		if (!cells)
			die(EXIT_FAILED, "out of memory");
	}
	cells[ncells].kind = kind;
	cells[ncells].text = strdup(text);
	if (!cells[ncells++].text)
		die(EXIT_FAILED, "out of memory");
	if (strlen(text) > width[column])
		width[column] = strlen(text);
}

/* Begin a table; @names are separated by spaces. */
void table_head(const char *names)
{
	char buf[256], *save, *name;

	snprintf(buf, sizeof(buf), "%s", names);
	memset(width, 0, sizeof(width));
	columns = 0;
	for (name = buf; *name; name++)
		columns += *name == ' ';
	columns++;
	for (name = strtok_r(buf, " ", &save); name; name = strtok_r(NULL, " ", &save))
		add_cell(PLAIN, name);
}

/* Add a cell, row by row. */
void table_cell(enum kind kind, const char *format, ...)
{
	char buf[256];
	va_list args;

	va_start(args, format);
	vsnprintf(buf, sizeof(buf), format, args);
	va_end(args);
	add_cell(kind, buf);
}

/* The number in a cell of row @row; groups are hexadecimal, and a rank has its size behind it. */
static unsigned long long cell_number(size_t row, size_t column)
{
	return strtoull(cells[row * columns + column].text, NULL, 0);
}

static int by_group_and_rank(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b, column;
	unsigned long long m, n;

	for (column = 0; column < 2; column++) {
		m = cell_number(x, column);
		n = cell_number(y, column);
		if (m != n)
			return m < n ? -1 : 1;
	}
	return x < y ? -1 : x > y;
}

/* Sort the rows by the numbers in the first two columns; equal ones keep their order. */
void table_sort(void)
{
	size_t rows = columns ? ncells / columns : 0, i;
	size_t *order = calloc(rows + 1, sizeof(*order));
	struct cell *sorted = calloc(ncells + 1, sizeof(*sorted));

	if (!order || !sorted)
		die(EXIT_FAILED, "out of memory");
	for (i = 0; i < rows; i++)
		order[i] = i;
	if (rows > 1)
		qsort(order + 1, rows - 1, sizeof(*order), by_group_and_rank);
	for (i = 0; i < rows; i++)
		memcpy(sorted + i * columns, cells + order[i] * columns,
		       columns * sizeof(*cells));
	memcpy(cells, sorted, rows * columns * sizeof(*cells));
	free(sorted);
	free(order);
}

/* Print the table and forget it. The last column is not filled up with spaces. */
void table_print(void)
{
	size_t i, column;

	for (i = 0; i < ncells; i++) {
		column = i % columns;
		print_word(cells[i].kind, cells[i].text);
		if (column + 1 == columns)
			putchar('\n');
		else
			printf("%*s", (int)(width[column] - strlen(cells[i].text)) + 2, "");
		free(cells[i].text);
	}
	free(cells);
	cells = NULL;
	ncells = 0;
}

/* -- JSON ------------------------------------------------------------------- */

static int depth;
static bool comma;

static void json_key(const char *key)
{
	if (comma)
		putchar(',');
	if (opt_pretty && depth)
		printf("\n%*s", 4 * depth, "");
	comma = true;
	if (key)
		printf(opt_pretty ? "\"%s\": " : "\"%s\":", key);
}

void json_open(const char *key, char bracket)
{
	json_key(key);
	putchar(bracket);
	depth++;
	comma = false;
}

void json_close(char bracket)
{
	depth--;
	if (opt_pretty && comma)
		printf("\n%*s", 4 * depth, "");
	putchar(bracket);
	comma = true;
}

void json_u64(const char *key, uint64_t value)
{
	json_key(key);
	printf("%llu", (unsigned long long)value);
}

void json_double(const char *key, double value)
{
	json_key(key);
	printf("%.6g", isfinite(value) ? value : 0);
}

void json_bool(const char *key, bool value)
{
	json_key(key);
	fputs(value ? "true" : "false", stdout);
}

/* Names come from the kernel; still nothing but JSON leaves here. */
void json_str(const char *key, const char *text)
{
	json_key(key);
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
			printf("\\u%04x", (unsigned char)*text);
		else
			putchar(*text);
	}
	putchar('"');
}

/* End a JSON text with its line. */
void json_line(void)
{
	putchar('\n');
	comma = false;
	fflush(stdout);
}
