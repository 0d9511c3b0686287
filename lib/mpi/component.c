// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * MPI on AF_RAR, as a component of Open MPI 4.1 or 5.0: of its framework coll, with the name rar.
 *
 * Open MPI makes a module of it for every communicator, and calls the module's functions for
 * collectives. What does not go by the ring is done by the functions that Open MPI would have
 * called without us.
 *
 * A rank may lack the component. The others would wait for it in vain if they asked it. So every
 * rank tells in MPI_Init(), by Open MPI's exchange of addresses, that it has the component, and
 * its limits. They are looked at when the first call would go by the ring.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ompi.h"

#include "common.h"

#define EACH_COLLECTIVE(DO)						\
	DO(allreduce) DO(reduce) DO(reduce_scatter_block) DO(bcast)	\
	DO(allgather) DO(barrier) DO(iallreduce) DO(ireduce)		\
	DO(ireduce_scatter_block) DO(ibcast) DO(iallgather) DO(ibarrier)

/* The functions of a communicator, and those that they replace. */
typedef struct rar_module {
	mca_coll_base_module_t super;
	MPI_Comm comm;
	struct rar_module *next;
#define REPLACED(name)							\
	struct {							\
		mca_coll_base_module_##name##_fn_t call;		\
		mca_coll_base_module_t *module;				\
	} name;
	EACH_COLLECTIVE(REPLACED)
} rar_module_t;

/* What a rank tells in MPI_Init(). @why: it must not be used, because of this */
struct told {
	struct limits limits;
	char why[64];
};

mca_coll_base_component_t mca_coll_rar_component;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rar_module_t *modules;
static struct told own;
static int priority = 60;	/* above tuned and han, below those that copy to and from GPUs */

/* -- the replaced functions ------------------------------------------------ */

static rar_module_t *module_of(MPI_Comm comm)
{
	rar_module_t *m;

	pthread_mutex_lock(&lock);
	for (m = modules; m && m->comm != comm; m = m->next)
		;
	pthread_mutex_unlock(&lock);
	return m;
}

int base_allreduce(const void *src, void *dst, int count, MPI_Datatype t, MPI_Op op,
		   MPI_Comm comm)
{
	rar_module_t *m = module_of(comm);

	return m->allreduce.call(src, dst, count, t, op, comm, m->allreduce.module);
}

int base_allgather(const void *src, int src_count, MPI_Datatype src_type, void *dst, int count,
		   MPI_Datatype t, MPI_Comm comm)
{
	rar_module_t *m = module_of(comm);

	return m->allgather.call(src, src_count, src_type, dst, count, t, comm,
				 m->allgather.module);
}

int base_barrier(MPI_Comm comm)
{
	rar_module_t *m = module_of(comm);

	return m->barrier.call(comm, m->barrier.module);
}

/* Open MPI does what the error handler of the communicator wants, when the call has returned. */
void raise_error(MPI_Comm comm)
{
	(void)comm;
}

void progress(void)
{
	opal_progress();
}

/* -- agreement ------------------------------------------------------------- */

/* What is wrong with a rank, or NULL. */
static const char *objection(int rank, char *buf, size_t len)
{
	opal_process_name_t name = OPAL_PROC_MY_NAME;
	uint8_t *data = NULL;
	size_t size = 0;
	struct told told;
	int err;

	name.vpid = rank;
	OPAL_MODEX_RECV(err, &mca_coll_rar_component.collm_version, &name, &data, &size);
	if (!err && size == sizeof(told))
		memcpy(&told, data, sizeof(told));
	free(data);
	if (err || size != sizeof(told))
		return "it lacks this version of the component coll/rar";
	if (told.why[0]) {
		snprintf(buf, len, "%s", told.why);
		return buf;
	}
	return memcmp(&told.limits, &own.limits, sizeof(own.limits)) ?
	       "the variables RAR_MPI_* are not equal on all ranks" : NULL;
}

static bool compare_all(void)
{
	const char *why = NULL;
	char buf[sizeof(own.why)];
	int rank, size, i;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	PMPI_Comm_size(MPI_COMM_WORLD, &size);
	for (i = 0; i < size && !why; i++)
		why = objection(i, buf, sizeof(buf));
	if (why && !rank)
		object(i - 1, why);
	else if (!rank)
		limits_show();
	return !why;
}

/* Have all ranks of the program the component, with the same limits? All get the same answer. */
bool all_agree(void)
{
	static bool compared;

	pthread_mutex_lock(&lock);
	if (!compared)
		enabled = compare_all();
	compared = true;
	pthread_mutex_unlock(&lock);
	return enabled;
}

/* Only a program that would use the ring learns that it cannot. */
bool may_join(MPI_Comm comm)
{
	char buf[256];

	return agree(comm, limits_obstacle(buf, sizeof(buf)));
}

/* -- begin and end --------------------------------------------------------- */

/*
 * MPI_Finalize() deletes the attributes of MPI_COMM_SELF while MPI still works. The rings stay
 * until close_component(): before that Open MPI waits until all ranks are in MPI_Finalize(), so
 * that no rank takes away what a late one needs.
 */
static int finish(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)value;
	(void)extra;
	show_counts();
	rings_drain();
	enabled = false;
	pending_close();
	hook_end();
	return MPI_SUCCESS;
}

/* Open MPI has no call for the end of MPI_Init(): the first collective begins. */
static void begin(void)
{
	static bool begun;
	int on = 0, key, rank;

	if (__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
		return;
	PMPI_Initialized(&on);
	if (!on)
		return;
	pthread_mutex_lock(&lock);
	if (!begun) {
		PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finish, &key, NULL);
		PMPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
		limits_of_hook();
		enabled = !own.why[0];
		PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
		if (!enabled && !rank)
			object(rank, own.why);
	}
	__atomic_store_n(&begun, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
}

/* -- the calls ------------------------------------------------------------- */

/*
 * Open MPI itself makes such calls when a communicator is made. They come from its progress
 * function, so their order among the program's calls is not the same on all ranks.
 */
static bool is_for_new_communicator(const struct args *a)
{
	return a->call == IALLREDUCE && a->count == 1 && a->type == MPI_INT &&
	       (a->op == MPI_MAX || a->op == MPI_MIN);
}

static bool may_try(const struct args *a)
{
	begin();
	return !is_for_new_communicator(a);
}

#define COLLECTIVE(Name, name)	static int call_##name
#define MODULE			, mca_coll_base_module_t *module
#define TODO(name, args, todo)	(may_try(args) ? todo_##name(args, todo) : NULL)
#define BY_MPI(Name, name, ...)						\
	((rar_module_t *)module)->name.call(__VA_ARGS__, ((rar_module_t *)module)->name.module)

#include "collectives.h"

/* -- modules --------------------------------------------------------------- */

static void construct(rar_module_t *m)
{
	memset((char *)m + sizeof(m->super), 0, sizeof(*m) - sizeof(m->super));
}

static void destruct(rar_module_t *m)
{
	rar_module_t **p;

	pthread_mutex_lock(&lock);
	for (p = &modules; *p && *p != m; p = &(*p)->next)
		;
	if (*p)
		*p = m->next;
	pthread_mutex_unlock(&lock);
#define RELEASE(name)							\
	if (m->name.module)						\
		OBJ_RELEASE(m->name.module);
	EACH_COLLECTIVE(RELEASE)
}

OBJ_CLASS_INSTANCE(rar_module_t, mca_coll_base_module_t, construct, destruct);

static int enable(mca_coll_base_module_t *module, MPI_Comm comm)
{
	rar_module_t *m = (rar_module_t *)module;

#define REPLACE(name)							\
	if (!comm->c_coll->coll_##name || !comm->c_coll->coll_##name##_module)	\
		return OMPI_ERR_NOT_AVAILABLE;				\
	m->name.call = comm->c_coll->coll_##name;			\
	m->name.module = comm->c_coll->coll_##name##_module;		\
	OBJ_RETAIN(m->name.module);
	EACH_COLLECTIVE(REPLACE)
	pthread_mutex_lock(&lock);
	m->comm = comm;
	m->next = modules;
	modules = m;
	pthread_mutex_unlock(&lock);
	return OMPI_SUCCESS;
}

/*
 * Are the ranks of the communicator the program's, on several hosts? Others, which were started
 * with MPI_Comm_spawn or connected, have compared nothing with us.
 */
static bool is_usable(MPI_Comm comm)
{
	opal_jobid_t job = OPAL_PROC_MY_NAME.jobid;
	int i;

	if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2)
		return false;
	if (ompi_local_peers() + 1 >= ompi_ranks() && !limits.one_host)
		return false;
	for (i = 0; i < ompi_comm_size(comm); i++)
		if (ompi_group_get_proc_name(comm->c_local_group, i).jobid != job)
			return false;
	return true;
}

static mca_coll_base_module_t *query(MPI_Comm comm, int *its_priority)
{
	rar_module_t *m = is_usable(comm) ? OBJ_NEW(rar_module_t) : NULL;

	if (!m)
		return NULL;
	*its_priority = priority;
	m->super.coll_module_enable = enable;
#define SET(name) m->super.coll_##name = call_##name;
	EACH_COLLECTIVE(SET)
	return &m->super;
}

/* -- the component --------------------------------------------------------- */

static int register_variables(void)
{
	mca_base_component_var_register(&mca_coll_rar_component.collm_version, "priority",
					"Priority of the component", MCA_BASE_VAR_TYPE_INT, NULL,
					0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY,
					&priority);
	return OMPI_SUCCESS;
}

/* In MPI_Init(), before the addresses are exchanged. The preloaded library, if there, does it. */
static int open_component(void)
{
	const char *why;
	int err;

	if (dlsym(RTLD_DEFAULT, "rar_mpi_preloaded"))
		return OMPI_ERR_NOT_AVAILABLE;
	why = limits_read();
	own.limits = limits;
	if (why)
		snprintf(own.why, sizeof(own.why), "%s", why);
	OPAL_MODEX_SEND(err, OMPI_TO_ALL, &mca_coll_rar_component.collm_version, &own,
			sizeof(own));
	return err ? OMPI_ERR_NOT_AVAILABLE : OMPI_SUCCESS;
}

static int close_component(void)
{
	rings_free();
	return OMPI_SUCCESS;
}

static int any_threads(bool progress_threads, bool threads)
{
	(void)progress_threads;
	(void)threads;
	return OMPI_SUCCESS;
}

mca_coll_base_component_t mca_coll_rar_component = {
	.collm_version = {
		OMPI_COLL_VERSION,
		.mca_component_name = "rar",
		.mca_component_minor_version = 1,
		.mca_open_component = open_component,
		.mca_close_component = close_component,
		.mca_register_component_params = register_variables,
	},
	.collm_data = { MCA_BASE_METADATA_PARAM_NONE },
	.collm_init_query = any_threads,
	.collm_comm_query = query,
};
