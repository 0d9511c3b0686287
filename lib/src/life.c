// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Generations: tells a process from its children, which inherit its communicators.
 *
 * The kernel clears a page with MADV_WIPEONFORK in a child. So no handler is needed that would
 * stay registered when the library is unloaded.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "librar.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int *mark;		/* generation of this process; 0 in a new child */
static unsigned int last;

static unsigned int *map_mark(void)
{
	void *p = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, sysconf(_SC_PAGESIZE), MADV_WIPEONFORK);
	return p;
}

/* The generation of this process, which differs from those of its ancestors; 0: no memory. */
unsigned int rar_generation(void)
{
	unsigned int now = 0;

	pthread_mutex_lock(&lock);
	if (!mark)
		mark = map_mark();
	if (mark && !*mark)
		*mark = ++last;
	if (mark)
		now = *mark;
	pthread_mutex_unlock(&lock);
	return now;
}

/* Did a parent of this process join? */
bool rar_inherited(const rar_comm_t *c)
{
	return *mark != c->born;
}
