// SPDX-License-Identifier: GPL-2.0
/* rarctl box: the jobs of the box of this network namespace, as /proc/net/rar_box has them. */
#include "rarctl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH	"/proc/self/net/rar_box"
#define WORDS	24

/* Cut a line into words. Return: their number. */
static int cut(char *line, char **words)
{
	char *save, *word = strtok_r(line, " \n", &save);
	int n = 0;

	for (; word && n < WORDS; word = strtok_r(NULL, " \n", &save))
		words[n++] = word;
	return n;
}

/* Numbers are decimal; the ids of groups and jobs, and masks of ranks, are hexadecimal. */
static bool is_hex(const char *name)
{
	return !strcmp(name, "group") || !strcmp(name, "job") || !strcmp(name, "ranks");
}

static void value_json(const char *name, const char *value)
{
	char *end;
	uint64_t n = strtoull(value, &end, is_hex(name) ? 16 : 10);

	if (*end)
		json_str(name, value);
	else
		json_u64(name, n);
}

/* A line of names and values in turn, such as "limit 16777216 used 0 jobs 0". */
static void pairs(char **words, int n)
{
	int i;

	for (i = 0; i + 1 < n; i += 2) {
		if (opt_json)
			value_json(words[i], words[i + 1]);
		else
			printf("%s%s %s", i ? ", " : "", words[i], words[i + 1]);
	}
	if (!opt_json)
		putchar('\n');
}

static void row(char **names, int columns, char **words, int n)
{
	int i;

	if (opt_json)
		json_open(NULL, '{');
	for (i = 0; i < columns && i < n; i++) {
		if (opt_json)
			value_json(names[i], words[i]);
		else if (is_hex(names[i]))
			table_cell(i ? PLAIN : NAME, "0x%llx", strtoull(words[i], NULL, 16));
		else
			table_cell(!strcmp(words[i], "entering") ? BAD : PLAIN, "%s", words[i]);
	}
	if (opt_json)
		json_close('}');
}

/* The names of the columns of a table that begins. */
static void head(char **names, int columns)
{
	char upper[256] = "";
	size_t at = 0;
	int i;

	for (i = 0; i < columns; i++)
		at += snprintf(upper + at, sizeof(upper) - at, "%s%s", i ? " " : "", names[i]);
	for (at = 0; upper[at]; at++)
		upper[at] = toupper(upper[at]);
	table_head(upper);
}

/* Begin a table: the summary in @words, then the names of its columns in the next line of @f. */
static int begin(FILE *f, char *line, size_t size, char **words, int n, char **names)
{
	int columns;

	pairs(words, n);
	columns = fgets(line, size, f) ? cut(line, names) : 0;
	if (opt_json)
		json_open("rows", '[');
	else
		head(names, columns);
	return columns;
}

static void end(void)
{
	if (opt_json)
		json_close(']');
	else
		table_print();
}

/* Print the jobs, and if there are jobs of RoCEv2 these too. */
void box(void)
{
	char line[512], names_line[512], *names[WORDS], *words[WORDS];
	int n, columns = 0;
	bool roce = false;
	FILE *f = fopen(PATH, "re");

	if (!f)
		die(EXIT_FAILED, "the module rar is not loaded (modprobe rar)");
	if (opt_json)
		json_open(NULL, '{');
	while (fgets(line, sizeof(line), f)) {
		n = cut(line, words);
		if (!columns) {
			columns = begin(f, names_line, sizeof(names_line), words, n, names);
		} else if (!strcmp(words[0], "roce")) {
			end();
			roce = true;
			if (opt_json)
				json_open("roce", '{');
			else
				printf("roce ");
			columns = begin(f, names_line, sizeof(names_line), words + 1, n - 1, names);
		} else {
			row(names, columns, words, n);
		}
	}
	fclose(f);
	end();
	if (!opt_json)
		return;
	if (roce)
		json_close('}');
	json_close('}');
	json_line();
}
