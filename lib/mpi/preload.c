// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * MPI on AF_RAR, by preloading: collectives of unmodified programs go by librar where that is
 * worth it, and all else goes to the MPI library. One source, built for each MPI library.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common.h"

#define COLLECTIVE(Name, name)	int MPI_##Name
#define MODULE
#define TODO(name, args, todo)	todo_##name(args, todo)
#define BY_MPI(Name, name, ...)	PMPI_##Name(__VA_ARGS__)

#include "collectives.h"

const int rar_mpi_preloaded = 1;	/* the component looks for this name */

/* -- the MPI library's own ------------------------------------------------- */

int base_allreduce(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op,
		   MPI_Comm comm)
{
	return PMPI_Allreduce(src, dst, count, t, op, comm);
}

int base_allgather(const void *src, int src_count, MPI_Datatype src_type, void *dst, int count,
		   MPI_Datatype t, MPI_Comm comm)
{
	return PMPI_Allgather(src, src_count, src_type, dst, count, t, comm);
}

int base_barrier(MPI_Comm comm)
{
	return PMPI_Barrier(comm);
}

void raise_error(MPI_Comm comm)
{
	PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
}

/*
 * While a rank waits for the ring, other ranks may wait for its messages before they come
 * there. So the MPI library must work meanwhile. It does so when it is asked about a request
 * that is never complete; MPICH does nothing for a probe of MPI_COMM_SELF.
 */
static MPI_Request never = MPI_REQUEST_NULL;
static MPI_Comm self = MPI_COMM_NULL;

void progress(void)
{
	int flag;

	PMPI_Request_get_status(never, &flag, MPI_STATUS_IGNORE);
}

static void progress_begin(void)
{
	PMPI_Comm_dup(MPI_COMM_SELF, &self);
	PMPI_Irecv(NULL, 0, MPI_BYTE, 0, 0, self, &never);
}

static void progress_end(void)
{
	PMPI_Cancel(&never);
	PMPI_Wait(&never, MPI_STATUS_IGNORE);
	PMPI_Comm_free(&self);
}

/* -- have all ranks this library? ------------------------------------------ */

/*
 * A rank without it takes no part in the agreement, in which the others would wait for ever. So
 * all meet first, by messages for which a rank need not wait for ever: up a tree of two branches
 * to rank 0, and down again. MPI has let them out of PMPI_Init() together.
 */
enum { MEET_S = 60, LEVEL_S = 2, MEET_TAG = 32767 };

static bool comes(int from, double end)
{
	struct timespec nap = { .tv_nsec = 1000000 };
	MPI_Request request;
	int done = 0;

	PMPI_Irecv(NULL, 0, MPI_BYTE, from, MEET_TAG, MPI_COMM_WORLD, &request);
	while (!PMPI_Test(&request, &done, MPI_STATUS_IGNORE) && !done && PMPI_Wtime() < end)
		nanosleep(&nap, NULL);
	return done;
}

static void await(int rank, double end)
{
	if (comes(rank, end))
		return;
	fprintf(stderr, "librar-mpi: rank %d is without this library, or stands still: all ranks need LD_PRELOAD\n",
		rank);
	PMPI_Abort(MPI_COMM_WORLD, 1);
}

static void tell(int rank)
{
	PMPI_Send(NULL, 0, MPI_BYTE, rank, MEET_TAG, MPI_COMM_WORLD);
}

/* The number of levels of a tree with @ranks ranks. */
static int levels(int ranks)
{
	int n = 0;

	for (; ranks; ranks /= 2)
		n++;
	return n;
}

/* The parent of the missing rank is the first to lose patience. */
static void meet(void)
{
	int rank, size, child;
	double end;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	PMPI_Comm_size(MPI_COMM_WORLD, &size);
	end = PMPI_Wtime() + MEET_S + LEVEL_S * (levels(size) - levels(rank + 1));
	for (child = 2 * rank + 1; child <= 2 * rank + 2 && child < size; child++)
		await(child, end);
	if (rank) {
		tell((rank - 1) / 2);
		await((rank - 1) / 2, end + LEVEL_S * levels(size));
	}
	for (child = 2 * rank + 1; child <= 2 * rank + 2 && child < size; child++)
		tell(child);
}

/* -- agreement, in MPI_Init() ---------------------------------------------- */

/* Are @n numbers equal on all ranks? The maximum of a number is the minimum of its inverse. */
static bool equal(const uint64_t *numbers, int n)
{
	uint64_t own[2 * n], all[2 * n];
	int i;

	for (i = 0; i < n; i++) {
		own[i] = numbers[i];
		own[n + i] = ~numbers[i];
	}
	return !PMPI_Allreduce(own, all, 2 * n, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD) &&
	       !memcmp(own, all, sizeof(own));
}

static bool limits_equal(void)
{
	enum { NUMBERS = sizeof(limits) / sizeof(uint64_t) };

	/* Another version may have more of them. */
	return equal(&limits.version, 1) && equal((const uint64_t *)&limits, NUMBERS);
}

static void agree_on_limits(void)
{
	const char *why = limits_read();
	char buf[256];

	limits_of_hook();
	if (!why)
		why = limits_obstacle(buf, sizeof(buf));
	if (!agree(MPI_COMM_WORLD, why))
		return;
	why = limits_equal() ? NULL : "the variables RAR_MPI_* are not equal on all ranks";
	enabled = agree(MPI_COMM_WORLD, why);
}

/* The ranks have agreed before. */
bool all_agree(void)
{
	return true;
}

bool may_join(MPI_Comm comm)
{
	(void)comm;
	return true;
}

/* -- begin and end --------------------------------------------------------- */

static bool begun;

/* A communicator is new: make its ring, if all communicators are to have one. */
static void ring_with(MPI_Comm comm)
{
	if (enabled && !limits.after && comm != MPI_COMM_NULL)
		ring_of(comm, ALLREDUCE, false);
}

static void begin(void)
{
	int rank;

	if (begun)
		return;
	begun = true;
	meet();
	progress_begin();
	agree_on_limits();
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (enabled && !rank)
		limits_show();
	ring_with(MPI_COMM_WORLD);
}

int MPI_Init(int *argc, char ***argv)
{
	int ret = PMPI_Init(argc, argv);

	if (!ret)
		begin();
	return ret;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int ret = PMPI_Init_thread(argc, argv, required, provided);

	if (!ret)
		begin();
	return ret;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *new)
{
	int ret = PMPI_Comm_dup(comm, new);

	if (!ret)
		ring_with(*new);
	return ret;
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *new)
{
	int ret = PMPI_Comm_dup_with_info(comm, info, new);

	if (!ret)
		ring_with(*new);
	return ret;
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *new)
{
	int ret = PMPI_Comm_split(comm, color, key, new);

	if (!ret)
		ring_with(*new);
	return ret;
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *new)
{
	int ret = PMPI_Comm_create(comm, group, new);

	if (!ret)
		ring_with(*new);
	return ret;
}

int MPI_Comm_free(MPI_Comm *comm)
{
	if (enabled)
		ring_settle(*comm);
	return PMPI_Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
	if (enabled)
		ring_settle(*comm);
	return PMPI_Comm_disconnect(comm);
}

/* The ranks leave their rings together; see settle(). */
int MPI_Finalize(void)
{
	if (begun) {
		show_counts();
		if (rings_drain() && enabled)
			PMPI_Barrier(MPI_COMM_WORLD);
		rings_free();
		pending_close();
		hook_end();
		progress_end();
		enabled = false;
	}
	return PMPI_Finalize();
}
