// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Which calls go by the ring: sizes in bytes, from the environment, equal on all ranks.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

struct limits limits;
bool enabled;		/* while calls may go by the ring */

static int parse_number(const char *text, uint64_t *n)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*n = strtoull(text, &end, 0);
	return *end || errno ? -EINVAL : 0;
}

/* Set the limit of the call @name, or with NULL of all calls. */
static int set_limit(const char *name, uint64_t bytes)
{
	int i, found = -EINVAL;

	for (i = 0; i < CALLS; i++)
		if (!name || !strcmp(name, call_names[i])) {
			limits.min[i] = bytes;
			limits.brief[i] = false;
			found = 0;
		}
	return found;
}

/* NAME=BYTES,... with "off" for never; BYTES alone counts for all calls. */
static int parse_limits(const char *text)
{
	char copy[512], *item, *rest, *value;
	uint64_t bytes;

	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
		return -EINVAL;
	for (item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
		value = strchr(item, '=');
		if (value)
			*value++ = '\0';
		bytes = NEVER;
		if (strcmp(value ? value : item, "off") &&
		    parse_number(value ? value : item, &bytes))
			return -EINVAL;
		if (set_limit(value ? item : NULL, bytes))
			return -EINVAL;
	}
	return 0;
}

/* Read the environment; NULL, or what is wrong with it. */
const char *limits_read(void)
{
	const char *min = getenv("RAR_MPI_MIN"), *one = getenv("RAR_MPI_ONE_HOST");
	const char *after = getenv("RAR_MPI_AFTER");
	enum call call;

	set_limit(NULL, NEVER);
	limits.min[ALLREDUCE] = 256 << 10;
	limits.min[IALLREDUCE] = 256 << 10;
	for (call = ALLREDUCE; call <= BARRIER; call++)
		limits.brief[call] = true;
	limits.one_host = one && !strcmp(one, "1");
	limits.after = 4;
	limits.version = 5;
	if (min && parse_limits(min))
		return "RAR_MPI_MIN is not BYTES or NAME=BYTES,...";
	if (after && parse_number(after, &limits.after))
		return "RAR_MPI_AFTER is not a number";
	return NULL;
}

/* Non-blocking calls must be able to go on in every wait of the MPI library. */
void limits_of_hook(void)
{
	int i, rank;

	if (hook_begin())
		return;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	debug(rank, "non-blocking calls stay with MPI: this MPI library cannot call others");
	for (i = IALLREDUCE; i < CALLS; i++)
		limits.min[i] = NEVER;
}

/* May this process lock more memory than its RLIMIT_MEMLOCK says? */
static bool may_lock(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};

	return !syscall(SYS_capget, &head, data) && data[0].effective & 1u << CAP_IPC_LOCK;
}

/* Why this rank cannot take part in a ring, or NULL. */
const char *limits_obstacle(char *buf, size_t len)
{
	const char *stub = getenv("RAR_STUB");
	struct rlimit lock;
	int err = rar_probe(NULL);

	if (err)
		return rar_strerror(NULL, err, buf, len);
	if ((stub && *stub && strcmp(stub, "0")) || may_lock())
		return NULL;
	if (getrlimit(RLIMIT_MEMLOCK, &lock) || lock.rlim_cur >= PIECES * PIECE)
		return NULL;
	snprintf(buf, len, "it may lock %lu KiB of memory (ulimit -l), and needs %u",
		 (unsigned long)lock.rlim_cur >> 10, PIECES * PIECE >> 10);
	return buf;
}

void limits_show(void)
{
	int i;

	for (i = 0; i < CALLS; i++) {
		if (limits.min[i] != NEVER)
			debug(0, "%s: by the ring from %llu bytes", call_names[i],
			      (unsigned long long)limits.min[i]);
		if (limits.brief[i])
			debug(0, "%s: by the ring if it is short, and each rank has a host of its own",
			      call_names[i]);
	}
}
