// SPDX-License-Identifier: GPL-2.0
/*
 * Loading the plugin, as each release of NCCL does it: the newest tables that both sides know.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nccl_test.h"

#define OLDEST	6		/* version of the network that today's NCCL takes */
#define OLDEST_TUNER 2

/* The releases that brought a version, or the last ones without it. */
const struct release releases[] = {
	{ "2.20", 8, 1, 8, 0 },
	{ "2.23", 8, 3, 8, 3 },
	{ "2.25", 9, 4, 8, 4 },
	{ "2.27", 10, 4, 10, 4 },
	{ "2.29", 11, 5, 11, 5 },
	{ "2.30", 12, 6, 12, 6 },
	{ NULL, 0, 0, 0, 0 },
};

const struct release *nccl = &releases[0];
char plugin[PATH_BYTES];
const void *net_table, *coll_table, *tuner_table;

static void *library, *tuner_library;
static char warned[512], noted[512];

/* NCCL fixes these numbers, which a table with a missing entry or field changes. */
#define IS(what, number) _Static_assert((what) == (number), #what)
#define ENTRY(table, entry, number) \
	IS(offsetof(struct table, entry), (number) * sizeof(void *))

IS(sizeof(struct nccl_properties_v8), 64);
IS(offsetof(struct nccl_properties_v8, latency), 40);
IS(offsetof(struct nccl_properties_v8, device_type), 52);
IS(sizeof(struct nccl_properties_v10), 104);
IS(offsetof(struct nccl_properties_v10, speed), 36);
IS(offsetof(struct nccl_properties_v10, consists_of), 64);
IS(offsetof(struct nccl_properties_v10, max_p2p_bytes), 88);
IS(sizeof(struct nccl_part_v8), 24);
IS(sizeof(struct nccl_part_v10), 24);
ENTRY(nccl_net_v8, isend, 10);
ENTRY(nccl_net_v8, test, 13);
ENTRY(nccl_net_v8, consumed, 18);
IS(sizeof(struct nccl_net_v8), 19 * sizeof(void *));
ENTRY(nccl_net_v10, isend, 10);
ENTRY(nccl_net_v10, test, 13);
ENTRY(nccl_net_v10, make_device, 19);
IS(sizeof(struct nccl_net_v10), 20 * sizeof(void *));
ENTRY(nccl_collnet_v8, iallreduce, 10);
ENTRY(nccl_collnet_v8, test, 14);
IS(sizeof(struct nccl_collnet_v8), 17 * sizeof(void *));
ENTRY(nccl_collnet_v10, iallreduce, 10);
ENTRY(nccl_collnet_v10, test, 14);
ENTRY(nccl_collnet_v10, make_device, 17);
IS(sizeof(struct nccl_collnet_v10), 18 * sizeof(void *));
IS(sizeof(struct nccl_config), 4);
IS(sizeof(struct nccl_properties_v11), 112);
IS(offsetof(struct nccl_properties_v11, max_requests), 104);
IS(sizeof(struct nccl_properties_v12), 128);
IS(offsetof(struct nccl_properties_v12, consists_of), 64);
IS(offsetof(struct nccl_properties_v12, max_p2p_bytes), 104);
IS(offsetof(struct nccl_properties_v12, max_requests), 120);
IS(offsetof(struct nccl_properties_v12, rail), 124);
IS(offsetof(struct nccl_properties_v12, plane), 126);
ENTRY(nccl_net_v11, isend, 10);
ENTRY(nccl_net_v11, test, 13);
ENTRY(nccl_net_v11, make_device, 19);
ENTRY(nccl_net_v11, finalize, 20);
IS(sizeof(struct nccl_net_v11), 22 * sizeof(void *));
IS(sizeof(struct nccl_net_v12), 22 * sizeof(void *));
ENTRY(nccl_collnet_v11, iallreduce, 10);
ENTRY(nccl_collnet_v11, test, 14);
ENTRY(nccl_collnet_v11, finalize, 18);
IS(sizeof(struct nccl_collnet_v11), 19 * sizeof(void *));
IS(sizeof(struct nccl_collnet_v12), 19 * sizeof(void *));
IS(sizeof(struct nccl_tuner_v3), 4 * sizeof(void *));
IS(sizeof(struct nccl_tuner_v4), 4 * sizeof(void *));
IS(sizeof(struct nccl_tuner_v5), 4 * sizeof(void *));
ENTRY(nccl_tuner_v6, chunk, 4);
IS(sizeof(struct nccl_tuner_v6), 5 * sizeof(void *));

/* -- the log --------------------------------------------------------------- */

__attribute__((format(printf, 5, 6)))
void log_line(enum nccl_level level, unsigned long topics, const char *file, int line,
	      const char *fmt, ...)
{
	char text[sizeof(warned)];
	va_list args;

	(void)topics;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	printf("# %s:%d: %s\n", file, line, text);
	memcpy(level == NCCL_WARN ? warned : noted, text, sizeof(text));
}

static const char *take(char *said)
{
	static char text[sizeof(warned)];

	memcpy(text, said, sizeof(text));
	said[0] = '\0';
	return text;
}

const char *warning(void) { return take(warned); }
const char *note(void) { return take(noted); }

/* -- tables ---------------------------------------------------------------- */

/* The newest table from @newest on. */
static const void *find(void *from, const char *name, int newest, int oldest, int *version)
{
	const void *table = NULL;
	char symbol[64];

	for (*version = newest; *version >= oldest; --*version) {
		snprintf(symbol, sizeof(symbol), "%s_v%d", name, *version);
		table = dlsym(from, symbol);
		if (table)
			return table;
	}
	*version = 0;
	return NULL;
}

/* NULL, or what is wrong. NCCL looks for the tuner in the library of the network. */
const char *load(void)
{
	int net, coll, tuner;

	library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
	tuner_library = library ? dlopen(plugin, RTLD_LAZY | RTLD_LOCAL) : NULL;
	if (!tuner_library)
		return dlerror();
	net_table = find(library, "ncclNetPlugin", nccl->net, OLDEST, &net);
	coll_table = find(library, "ncclCollNetPlugin", nccl->net, OLDEST, &coll);
	tuner_table = find(tuner_library, "ncclTunerPlugin", nccl->tuner, OLDEST_TUNER, &tuner);
	if (net != nccl->takes || coll != nccl->takes)
		return "another version of the network";
	if (tuner != nccl->takes_tuner)
		return "another version of the tuner";
	return dlsym(library, "rar_comm_start") ? "it exports librar" : NULL;
}

void unload(void)
{
	dlclose(tuner_library);
	dlclose(library);
}

/* -- families that are refused --------------------------------------------- */

static int refused;

void refuse_family(int err)
{
	unsetenv("RAR_STUB");
	refused = err;
}

/* Instead of libc's: the plugin finds this one first. */
int socket(int family, int type, int protocol)
{
	if (refused && family != AF_UNIX && family != AF_INET && family != AF_INET6 &&
	    family != AF_NETLINK) {
		errno = refused;
		return -1;
	}
	return syscall(SYS_socket, family, type, protocol);
}
