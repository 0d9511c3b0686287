/* SPDX-License-Identifier: GPL-2.0 */
/* Tables of rar(7) that list refused calls, compared with what a test tries. */
#ifndef RAR_PAGE_H
#define RAR_PAGE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rar_util.h"

#define PAGE_ROWS	64

/* The manual where the build has put it, or in the tree; NULL if it is not there. */
static inline FILE *page_open(void)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/rar.7", getenv("RAR_BIN") ?: ".");
	f = fopen(path, "r");
	f = f ?: fopen("../Documentation/rar.7", "r");
	return f ?: fopen("Documentation/rar.7", "r");
}

/* Marks the rows that are @line. Returns whether there are any. */
static inline bool page_mark(const char *line, const char *const *rows, size_t n, bool *found)
{
	bool any = false;

	for (size_t i = 0; i < n; i++)
		if (!strcmp(rows[i], line))
			any = found[i] = true;
	return any;
}

/*
 * Do the table of @f whose first row is @head and the @n rows, which may repeat, hold the same? 0,
 * or 1 after it has logged a row that only one of them has.
 */
static inline int page_check(FILE *f, const char *head, const char *const *rows, size_t n)
{
	bool inside = false, found[PAGE_ROWS] = {};
	char line[256];

	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		inside = strcmp(line, ".TE") && (inside || !strcmp(line, head));
		if (!inside || !strchr(line, '|') || !strcmp(line, head))
			continue;
		RAR_CHECK(page_mark(line, rows, n, found), "not tested: %s", line);
	}
	for (size_t i = 0; i < n; i++)
		RAR_CHECK(found[i], "not in rar.7: %s", rows[i]);
	return 0;
}

/* page_check() for the member "page" of the entries of an array */
#define PAGE_CHECK(f, head, table) ({						\
	const char *rows_[sizeof(table) / sizeof((table)[0])];			\
	for (size_t i_ = 0; i_ < sizeof(rows_) / sizeof(rows_[0]); i_++)	\
		rows_[i_] = (table)[i_].page;					\
	page_check(f, head, rows_, sizeof(rows_) / sizeof(rows_[0])); })

#endif /* RAR_PAGE_H */
