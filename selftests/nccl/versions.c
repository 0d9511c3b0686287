// SPDX-License-Identifier: GPL-2.0
/*
 * The plugin, loaded as NCCL does it, and its calls in both versions of the interface.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>

#include "nccl_test.h"

int version;

static void *library;
static const struct nccl_net_v8 *net8;
static const struct nccl_net_v10 *net10;
static const struct nccl_collnet_v8 *coll8;
static const struct nccl_collnet_v10 *coll10;
static char warned[512];

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

__attribute__((format(printf, 5, 6)))
static void log_line(enum nccl_level level, unsigned long topics, const char *file, int line,
		     const char *fmt, ...)
{
	char text[sizeof(warned)];
	va_list args;

	(void)topics;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	printf("# %s:%d: %s\n", file, line, text);
	if (level == NCCL_WARN)
		memcpy(warned, text, sizeof(warned));
}

static nccl_result_t profile(void **event, int type, void *phandle, int64_t plugin, void *extra)
{
	(void)event;
	(void)type;
	(void)phandle;
	(void)plugin;
	(void)extra;
	return NCCL_OK;
}

const char *warning(void)
{
	static char text[sizeof(warned)];

	memcpy(text, warned, sizeof(text));
	warned[0] = '\0';
	return text;
}

const char *load(const char *path)
{
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return dlerror();
	net8 = dlsym(library, "ncclNetPlugin_v8");
	net10 = dlsym(library, "ncclNetPlugin_v10");
	coll8 = dlsym(library, "ncclCollNetPlugin_v8");
	coll10 = dlsym(library, "ncclCollNetPlugin_v10");
	if (!net8 || !net10 || !coll8 || !coll10)
		return dlerror();
	return dlsym(library, "rar_comm_start") ? "it exports librar" : NULL;
}

void unload(void)
{
	dlclose(library);
}

/* -- messages -------------------------------------------------------------- */

#define NET(call, ...)	(version == 8 ? net8->call(__VA_ARGS__) : net10->call(__VA_ARGS__))

nccl_result_t net_init(void)
{
	int n = 0;
	nccl_result_t result = version == 8 ? net8->init(log_line) :
			     net10->init(log_line, profile);

	if (!result)
		result = NET(devices, &n);
	return result ? result : n == 1 ? NCCL_OK : NCCL_INTERNAL_ERROR;
}

static void widen(const struct nccl_properties_v8 *p8, struct nccl_properties_v10 *p)
{
	*p = (struct nccl_properties_v10) {
		.name = p8->name, .pci_path = p8->pci_path, .guid = p8->guid,
		.memory = p8->memory, .global_reg = p8->global_reg, .speed = p8->speed,
		.port = p8->port, .latency = p8->latency, .max_comms = p8->max_comms,
		.max_recvs = p8->max_recvs, .device_type = p8->device_type,
		.device_version = p8->device_version, .consists_of = { 1, { 0 } },
		.max_p2p_bytes = 1024 * MIB, .max_coll_bytes = 512 * MIB,
	};
}

nccl_result_t net_properties(int dev, struct nccl_properties_v10 *p)
{
	struct nccl_properties_v8 p8;
	nccl_result_t result;

	if (version == 10)
		return net10->properties(dev, p);
	result = net8->properties(dev, &p8);
	if (!result)
		widen(&p8, p);
	return result;
}

nccl_result_t net_listen(void *handle, void **listener)
{
	return NET(listen, 0, handle, listener);
}

nccl_result_t net_connect(int dev, void *handle, void **sender)
{
	void *on_gpu = NULL;
	int config = -1;

	return version == 8 ? net8->connect(dev, handle, sender, &on_gpu) :
	       net10->connect(dev, &config, handle, sender, &on_gpu);
}

nccl_result_t net_accept(void *listener, void **receiver)
{
	void *on_gpu = NULL;

	return NET(accept, listener, receiver, &on_gpu);
}

nccl_result_t net_reg(void *conn, void *data, size_t size, int memory, void **mhandle)
{
	return NET(reg, conn, data, size, memory, mhandle);
}

nccl_result_t net_dereg(void *conn, void *mhandle)
{
	return NET(dereg, conn, mhandle);
}

nccl_result_t net_isend(void *sender, const void *data, size_t size, void **request)
{
	return version == 8 ? net8->isend(sender, (void *)data, size, 5, NULL, request) :
	       net10->isend(sender, (void *)data, size, 5, NULL, NULL, request);
}

/* NCCL leaves 1 in *request where it need not know when the receive is complete. */
nccl_result_t net_irecv(void *receiver, int n, void *data, size_t size, void **request)
{
	void *mhandle = NULL, *phandle = NULL;
	int small = size, tag = 7;

	*request = version == 8 ? NULL : (void *)1;
	return version == 8 ?
	       net8->irecv(receiver, n, &data, &small, &tag, &mhandle, request) :
	       net10->irecv(receiver, n, &data, &size, &tag, &mhandle, &phandle, request);
}

nccl_result_t net_iflush(void *receiver, void *data, int size, void **request)
{
	void *mhandle = NULL;

	return NET(iflush, receiver, 1, &data, &size, &mhandle, request);
}

nccl_result_t net_test(void *request, int *done, int *size)
{
	return NET(test, request, done, size);
}

nccl_result_t net_close_send(void *sender) { return NET(close_send, sender); }
nccl_result_t net_close_recv(void *receiver) { return NET(close_recv, receiver); }
nccl_result_t net_close_listen(void *listener) { return NET(close_listen, listener); }

/* -- collectives ----------------------------------------------------------- */

#define COLL(call, ...)	(version == 8 ? coll8->call(__VA_ARGS__) : coll10->call(__VA_ARGS__))

nccl_result_t coll_init(void)
{
	int n = 0;
	nccl_result_t result = COLL(init, log_line);

	if (!result)
		result = COLL(devices, &n);
	return result ? result : n == 1 ? NCCL_OK : NCCL_INTERNAL_ERROR;
}

nccl_result_t coll_properties(int dev, struct nccl_properties_v10 *p)
{
	struct nccl_properties_v8 p8;
	nccl_result_t result;

	if (version == 10)
		return coll10->properties(dev, p);
	result = coll8->properties(dev, &p8);
	if (!result)
		widen(&p8, p);
	return result;
}

nccl_result_t coll_listen(int dev, void *handle, void **listener)
{
	return COLL(listen, dev, handle, listener);
}

nccl_result_t coll_connect(void *handles[], int size, int rank, void *listener, void **group)
{
	return COLL(connect, handles, size, rank, listener, group);
}

nccl_result_t coll_support(int dtype, int redop, int *yes)
{
	return COLL(reduce_support, dtype, redop, yes);
}

nccl_result_t coll_reg(void *group, void *data, size_t size, int memory, void **mhandle)
{
	return COLL(reg, group, data, size, memory, mhandle);
}

nccl_result_t coll_dereg(void *group, void *mhandle)
{
	return COLL(dereg, group, mhandle);
}

nccl_result_t coll_allreduce(void *group, const void *src, void *dst, size_t count, int dtype,
			     int redop, void **request)
{
	return COLL(iallreduce, group, (void *)src, dst, count, dtype, redop, NULL, NULL,
		    request);
}

nccl_result_t coll_gather(void *group, const void *src, int n, void *dst, size_t size,
			  size_t block, size_t start, size_t len, void **request)
{
	struct nccl_part_v10 part10 = { NULL, dst, size };
	struct nccl_part_v8 part8 = { NULL, dst, size };

	return version == 8 ?
	       coll8->iallgather(group, (void *)src, n, &part8, block, start, len, NULL,
				 request) :
	       coll10->iallgather(group, (void *)src, n, &part10, block, start, len, NULL,
				  request);
}

nccl_result_t coll_scatter(void *group, int n, const void *src, size_t size, void *dst,
			   size_t block, size_t start, size_t len, int dtype, int redop,
			   void **request)
{
	struct nccl_part_v10 part10 = { NULL, (void *)src, size };
	struct nccl_part_v8 part8 = { NULL, (void *)src, size };

	return version == 8 ?
	       coll8->ireducescatter(group, n, &part8, dst, block, start, len, dtype, redop,
				     NULL, request) :
	       coll10->ireducescatter(group, n, &part10, dst, block, start, len, dtype, redop,
				      NULL, request);
}

nccl_result_t coll_iflush(void *group, void *data, int size, void **request)
{
	return COLL(iflush, group, data, size, NULL, request);
}

nccl_result_t coll_test(void *request, int *done, int *size)
{
	return COLL(test, request, done, size);
}

nccl_result_t coll_close(void *group) { return COLL(close, group); }
nccl_result_t coll_close_listen(void *listener) { return COLL(close_listen, listener); }

/* -- waiting --------------------------------------------------------------- */

typedef nccl_result_t (*test_fn)(void *request, int *done, int *size);

/* Ask about all requests in turns, as NCCL does. */
static void wait_for(test_fn test, void *requests[], long got[], int n)
{
	nccl_result_t result;
	int left = n, done, size;

	for (int i = 0; i < n; i++)
		got[i] = LATE;
	for (unsigned int round = 0; left && nap(round); round++)
		for (int i = 0; i < n; i++) {
			if (got[i] != LATE)
				continue;
			done = 0;
			size = -1000;
			result = test(requests[i], &done, &size);
			if (result)
				got[i] = -(long)result;
			else if (done)
				got[i] = size;
			left -= got[i] != LATE;
		}
}

void net_wait(void *requests[], long got[], int n) { wait_for(net_test, requests, got, n); }
void coll_wait(void *requests[], long got[], int n) { wait_for(coll_test, requests, got, n); }
