// SPDX-License-Identifier: GPL-2.0
/*
 * The calls of the plugin, in all versions of the interface, as if there were one.
 */
#include "nccl_test.h"

struct communicator *current;

/* -- messages -------------------------------------------------------------- */

/* The table of the version, and calls that have the same arguments in all versions. */
#define NET_V(v)	((const struct nccl_net_v##v *)net_table)
#define NET(call, ...)							\
	(nccl->takes == 8 ? NET_V(8)->call(__VA_ARGS__) :		\
	 nccl->takes == 10 ? NET_V(10)->call(__VA_ARGS__) :		\
	 nccl->takes == 11 ? NET_V(11)->call(__VA_ARGS__) : NET_V(12)->call(__VA_ARGS__))
/* Calls that are equal from version 11 on. */
#define NET_11(call, ...)						\
	(nccl->takes == 11 ? NET_V(11)->call(__VA_ARGS__) : NET_V(12)->call(__VA_ARGS__))

static nccl_result_t profile(void **event, int type, void *phandle, int64_t id, void *extra)
{
	(void)event;
	(void)type;
	(void)phandle;
	(void)id;
	(void)extra;
	return NCCL_OK;
}

static nccl_result_t init_version(void)
{
	struct nccl_config config = { current->traffic_class };

	if (nccl->takes == 8)
		return NET_V(8)->init(log_line);
	if (nccl->takes == 10)
		return NET_V(10)->init(log_line, profile);
	return NET_11(init, &current->net, current->id, &config, log_line, profile);
}

nccl_result_t net_init(void)
{
	nccl_result_t result = init_version();
	int n = 0;

	if (!result)
		result = NET(devices, &n);
	return result ? result : n == 1 ? NCCL_OK : NCCL_INTERNAL_ERROR;
}

nccl_result_t net_finalize(void)
{
	return nccl->takes < 11 ? NCCL_OK : NET_11(finalize, current->net);
}

bool net_lacks(void)
{
	bool lacks = !(nccl->takes == 8 ? NET_V(8)->gpu_reg : NET_V(10)->gpu_reg) &&
		     !(nccl->takes == 8 ? NET_V(8)->consumed : NET_V(10)->consumed);

	if (nccl->takes >= 10)
		lacks = lacks && !NET_V(10)->make_device;
	if (nccl->takes >= 11)
		lacks = lacks && !NET_V(11)->set_attributes;
	return lacks;
}

static void widen_v8(const struct nccl_properties_v8 *p8, struct nccl_properties_v12 *p)
{
	*p = (struct nccl_properties_v12) {
		.name = p8->name, .pci_path = p8->pci_path, .guid = p8->guid,
		.memory = p8->memory, .global_reg = p8->global_reg, .speed = p8->speed,
		.port = p8->port, .latency = p8->latency, .max_comms = p8->max_comms,
		.max_recvs = p8->max_recvs, .device_type = p8->device_type,
		.device_version = p8->device_version, .consists_of = { 1, { 0 } },
		.max_p2p_bytes = 1024 * MIB, .max_coll_bytes = 512 * MIB,
		.max_requests = 1, .rail = NCCL_UNDEFINED, .plane = NCCL_UNDEFINED,
	};
}

static void widen_v10(const struct nccl_properties_v10 *p10, struct nccl_properties_v12 *p)
{
	*p = (struct nccl_properties_v12) {
		.name = p10->name, .pci_path = p10->pci_path, .guid = p10->guid,
		.memory = p10->memory, .global_reg = p10->global_reg,
		.force_flush = p10->force_flush, .speed = p10->speed, .port = p10->port,
		.latency = p10->latency, .max_comms = p10->max_comms,
		.max_recvs = p10->max_recvs, .device_type = p10->device_type,
		.device_version = p10->device_version,
		.consists_of = { p10->consists_of.n, { p10->consists_of.devices[0] } },
		.max_p2p_bytes = p10->max_p2p_bytes, .max_coll_bytes = p10->max_coll_bytes,
		.max_requests = 1, .rail = NCCL_UNDEFINED, .plane = NCCL_UNDEFINED,
	};
}

/* Of messages or of collectives, by the function of the table. */
#define WIDEN(old, call, dev, p) ({					\
	struct nccl_properties_##old _q;				\
	nccl_result_t _r = (call)(dev, &_q);				\
									\
	if (!_r)							\
		widen_##old(&_q, p);					\
	_r;								\
})

static void widen_v11(const struct nccl_properties_v11 *p11, struct nccl_properties_v12 *p)
{
	widen_v10(&p11->v10, p);
	p->max_requests = p11->max_requests;
}

nccl_result_t net_properties(int dev, struct nccl_properties_v12 *p)
{
	switch (nccl->takes) {
	case 8:
		return WIDEN(v8, NET_V(8)->properties, dev, p);
	case 10:
		return WIDEN(v10, NET_V(10)->properties, dev, p);
	case 11:
		return WIDEN(v11, NET_V(11)->properties, dev, p);
	}
	return NET_V(12)->properties(dev, p);
}

nccl_result_t net_listen(int dev, void *handle, void **listener)
{
	if (nccl->takes == 8)
		return NET_V(8)->listen(dev, handle, listener);
	if (nccl->takes == 10)
		return NET_V(10)->listen(dev, handle, listener);
	return NET_11(listen, current->net, dev, handle, listener);
}

nccl_result_t net_connect(int dev, void *handle, void **sender)
{
	struct nccl_config config = { current->traffic_class };
	void *on_gpu = NULL;

	if (nccl->takes == 8)
		return NET_V(8)->connect(dev, handle, sender, &on_gpu);
	if (nccl->takes == 10)
		return NET_V(10)->connect(dev, &config, handle, sender, &on_gpu);
	return NET_11(connect, current->net, dev, handle, sender, &on_gpu);
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

nccl_result_t net_reg_dmabuf(void *conn, void *data, size_t size, void **mhandle)
{
	return NET(reg_dmabuf, conn, data, size, NCCL_CUDA_MEMORY, 0, 3, mhandle);
}

nccl_result_t net_dereg(void *conn, void *mhandle)
{
	return NET(dereg, conn, mhandle);
}

nccl_result_t net_isend(void *sender, const void *data, size_t size, void **request)
{
	if (nccl->takes == 8)
		return NET_V(8)->isend(sender, (void *)data, size, 5, NULL, request);
	if (nccl->takes == 10)
		return NET_V(10)->isend(sender, (void *)data, size, 5, NULL, NULL, request);
	return NET_11(isend, sender, (void *)data, size, 5, NULL, NULL, request);
}

/* NCCL leaves 1 in *request where it need not know when the receive is complete. */
nccl_result_t net_irecv(void *receiver, int n, void *data, size_t size, void **request)
{
	void *mhandle = NULL, *phandle = NULL;
	int small = size, tag = 7;

	*request = nccl->takes == 8 ? NULL : (void *)1;
	if (nccl->takes == 8)
		return NET_V(8)->irecv(receiver, n, &data, &small, &tag, &mhandle, request);
	if (nccl->takes == 10)
		return NET_V(10)->irecv(receiver, n, &data, &size, &tag, &mhandle, &phandle,
					request);
	return NET_11(irecv, receiver, n, &data, &size, &tag, &mhandle, &phandle, request);
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

#define COLL_V(v)	((const struct nccl_collnet_v##v *)coll_table)
#define COLL(call, ...)							\
	(nccl->takes == 8 ? COLL_V(8)->call(__VA_ARGS__) :		\
	 nccl->takes == 10 ? COLL_V(10)->call(__VA_ARGS__) :		\
	 nccl->takes == 11 ? COLL_V(11)->call(__VA_ARGS__) : COLL_V(12)->call(__VA_ARGS__))
#define COLL_11(call, ...)						\
	(nccl->takes == 11 ? COLL_V(11)->call(__VA_ARGS__) : COLL_V(12)->call(__VA_ARGS__))
/* Calls that are equal from version 10 on. */
#define COLL_10(call, ...)						\
	(nccl->takes == 10 ? COLL_V(10)->call(__VA_ARGS__) : COLL_11(call, __VA_ARGS__))

nccl_result_t coll_init(void)
{
	nccl_result_t result;
	int n = 0;

	if (nccl->takes == 8)
		result = COLL_V(8)->init(log_line);
	else if (nccl->takes == 10)
		result = COLL_V(10)->init(log_line);
	else
		result = COLL_11(init, &current->coll, current->id, log_line);
	if (!result)
		result = COLL(devices, &n);
	return result ? result : n == 1 ? NCCL_OK : NCCL_INTERNAL_ERROR;
}

nccl_result_t coll_finalize(void)
{
	return nccl->takes < 11 ? NCCL_OK : COLL_11(finalize, current->coll);
}

bool coll_lacks(void)
{
	return nccl->takes == 8 || !COLL_V(10)->make_device;
}

nccl_result_t coll_properties(int dev, struct nccl_properties_v12 *p)
{
	switch (nccl->takes) {
	case 8:
		return WIDEN(v8, COLL_V(8)->properties, dev, p);
	case 10:
		return WIDEN(v10, COLL_V(10)->properties, dev, p);
	case 11:
		return WIDEN(v11, COLL_V(11)->properties, dev, p);
	}
	return COLL_V(12)->properties(dev, p);
}

nccl_result_t coll_listen(int dev, void *handle, void **listener)
{
	if (nccl->takes == 8)
		return COLL_V(8)->listen(dev, handle, listener);
	if (nccl->takes == 10)
		return COLL_V(10)->listen(dev, handle, listener);
	return COLL_11(listen, current->coll, dev, handle, listener);
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

nccl_result_t coll_reg_dmabuf(void *group, void *data, size_t size, void **mhandle)
{
	return COLL(reg_dmabuf, group, data, size, NCCL_CUDA_MEMORY, 0, 3, mhandle);
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

	if (nccl->takes == 8)
		return COLL_V(8)->iallgather(group, (void *)src, n, &part8, block, start, len,
					     NULL, request);
	return COLL_10(iallgather, group, (void *)src, n, &part10, block, start, len, NULL,
		       request);
}

nccl_result_t coll_scatter(void *group, int n, const void *src, size_t size, void *dst,
			   size_t block, size_t start, size_t len, int dtype, int redop,
			   void **request)
{
	struct nccl_part_v10 part10 = { NULL, (void *)src, size };
	struct nccl_part_v8 part8 = { NULL, (void *)src, size };

	if (nccl->takes == 8)
		return COLL_V(8)->ireducescatter(group, n, &part8, dst, block, start, len, dtype,
						 redop, NULL, request);
	return COLL_10(ireducescatter, group, n, &part10, dst, block, start, len, dtype, redop,
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

/* -- the tuner ------------------------------------------------------------- */

#define TUNER_V(v)	((const struct nccl_tuner_v##v *)tuner_table)

nccl_result_t tuner_init(size_t ranks, size_t nodes, void **ctx)
{
	int nvlink[3] = { nodes, 1, 8 };

	switch (nccl->takes_tuner) {
	case 3:
		return TUNER_V(3)->init(ranks, nodes, log_line, ctx);
	case 4:
		return TUNER_V(4)->init(ranks, nodes, log_line, ctx);
	case 5:
		return TUNER_V(5)->init(ctx, 7, ranks, nodes, log_line, nvlink, NULL);
	}
	return TUNER_V(6)->init(ctx, 7, ranks, nodes, log_line, nvlink, NULL);
}

nccl_result_t tuner_choose(void *ctx, int function, size_t bytes, float *times, int algorithms,
			   int *channels)
{
	float **table = (void *)times;

	switch (nccl->takes_tuner) {
	case 3:
		return TUNER_V(3)->choose(ctx, function, bytes, 1, table, algorithms, PROTOCOLS,
					  channels);
	case 4:
		return TUNER_V(4)->choose(ctx, function, bytes, 1, table, algorithms, PROTOCOLS,
					  1, channels);
	case 5:
		return TUNER_V(5)->choose(ctx, function, bytes, 1, table, algorithms, PROTOCOLS,
					  1, channels);
	}
	return TUNER_V(6)->choose(ctx, function, bytes, 1, table, algorithms, PROTOCOLS, 1,
				  channels);
}

nccl_result_t tuner_finalize(void *ctx)
{
	switch (nccl->takes_tuner) {
	case 3:
		return TUNER_V(3)->finalize(ctx);
	case 4:
		return TUNER_V(4)->finalize(ctx);
	case 5:
		return TUNER_V(5)->finalize(ctx);
	}
	return TUNER_V(6)->finalize(ctx);
}

bool tuner_lacks(void)
{
	return nccl->takes_tuner < 6 || !TUNER_V(6)->chunk;
}

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
