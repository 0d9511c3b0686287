/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Open MPI's own headers, those of 4.1 and of 5.0, and what differs between the two.
 *
 * The Makefile builds the component if this header can be compiled.
 */
#ifndef RAR_MPI_OMPI_H
#define RAR_MPI_OMPI_H

#include "ompi_config.h"

#if (OMPI_MAJOR_VERSION != 4 || OMPI_MINOR_VERSION != 1) && \
	(OMPI_MAJOR_VERSION != 5 || OMPI_MINOR_VERSION != 0)
#error "the component is for Open MPI 4.1 and 5.0"
#endif

/*
 * The headers of 5.0 include some for its threads, which Debian does not install. Open MPI's mutex,
 * and so each communicator, contains one of POSIX. The rest is for inline functions that we do not
 * call.
 */
#ifdef MCA_threads_mutex_base_include_HEADER
#if !__has_include(MCA_threads_mutex_base_include_HEADER)
#include <pthread.h>
#include <sched.h>

#undef MCA_threads_base_include_HEADER
#undef MCA_threads_mutex_base_include_HEADER
#define MCA_threads_base_include_HEADER "ompi_config.h"
#define MCA_threads_mutex_base_include_HEADER "ompi_config.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define opal_thread_internal_mutex_init(mutex, recursive)	pthread_mutex_init(mutex, NULL)
#define opal_thread_internal_mutex_destroy			pthread_mutex_destroy
#define opal_thread_internal_mutex_lock				pthread_mutex_lock
#define opal_thread_internal_mutex_trylock			pthread_mutex_trylock
#define opal_thread_internal_mutex_unlock			pthread_mutex_unlock
#define opal_thread_internal_cond_init(cond)			pthread_cond_init(cond, NULL)
#define opal_thread_internal_cond_destroy			pthread_cond_destroy
#define opal_thread_internal_cond_signal			pthread_cond_signal

static inline void opal_thread_yield(void)
{
	sched_yield();
}
#endif
#endif

#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/coll.h"
#include "opal/runtime/opal_progress.h"

#if OMPI_MAJOR_VERSION == 5

#include "opal/mca/pmix/pmix-internal.h"

#define OMPI_COLL_VERSION	MCA_COLL_BASE_VERSION_2_4_0
#define OMPI_TO_ALL		PMIX_GLOBAL

/* MPI_COMM_WORLD does not exist in a program that uses only sessions. */
static inline int ompi_ranks(void)
{
	return opal_process_info.num_procs;
}

#else /* 4.1 */

#include "opal/mca/pmix/pmix.h"

#define OMPI_COLL_VERSION	MCA_COLL_BASE_VERSION_2_0_0
#define OMPI_TO_ALL		OPAL_PMIX_GLOBAL

static inline int ompi_ranks(void)
{
	return ompi_comm_size(MPI_COMM_WORLD);
}

#endif

/* The other ranks of the program on this host. */
static inline int ompi_local_peers(void)
{
	return opal_process_info.num_local_peers;
}

#endif
