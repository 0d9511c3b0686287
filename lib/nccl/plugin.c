// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The network plugin for NCCL: the tables that NCCL looks up, for both versions.
 *
 * The tables for messages and for collectives have the same device. NCCL recognizes it by its
 * name, and does not look at collectives without it.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>

#include "plugin.h"

#define MAX_COMMS	1024	/* connections, or groups, of a device, as NCCL is told */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device device;
static bool found;

/* -- the device ------------------------------------------------------------ */

static nccl_result_t net_init(nccl_log_fn log)
{
	nccl_result_t result = NCCL_OK;

	log_begin(log);
	pthread_mutex_lock(&lock);
	if (!found) {		/* later, NCCL may be reading it */
		result = device_find(&device);
		found = !result;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static nccl_result_t net_init_v10(nccl_log_fn log, nccl_profile_fn profile)
{
	(void)profile;
	return net_init(log);
}

static nccl_result_t coll_init(nccl_log_fn log)
{
	nccl_result_t result = net_init(log);

	return result ? result : group_begin();
}

static nccl_result_t devices(int *n)
{
	*n = 1;
	return NCCL_OK;
}

static nccl_result_t check_device(int dev)
{
	return dev ? refuse(NCCL_INTERNAL_ERROR, "there is no device %d", dev) : NCCL_OK;
}

static nccl_result_t properties_v10(int dev, struct nccl_properties_v10 *p)
{
	nccl_result_t result = check_device(dev);

	if (result)
		return result;
	*p = (struct nccl_properties_v10) {
		.name = device.name,
		.pci_path = device.pci_path[0] ? device.pci_path : NULL,
		.memory = NCCL_HOST_MEMORY,
		.speed = device.speed,
		.max_comms = MAX_COMMS,
		.max_recvs = 1,
		.consists_of = { 1, { 0 } },
		.max_p2p_bytes = MAX_P2P_BYTES,
		.max_coll_bytes = MAX_COLL_BYTES,
	};
	return NCCL_OK;
}

static nccl_result_t properties_v8(int dev, struct nccl_properties_v8 *p)
{
	struct nccl_properties_v10 q;
	nccl_result_t result = properties_v10(dev, &q);

	if (result)
		return result;
	*p = (struct nccl_properties_v8) {
		.name = q.name,
		.pci_path = q.pci_path,
		.memory = q.memory,
		.speed = q.speed,
		.max_comms = q.max_comms,
		.max_recvs = q.max_recvs,
	};
	return NCCL_OK;
}

/* -- messages -------------------------------------------------------------- */

static nccl_result_t net_listen(int dev, void *handle, void **listener)
{
	nccl_result_t result = check_device(dev);

	return result ? result : join_listen(&device, handle, listener);
}

static nccl_result_t net_connect(int dev, void *handle, void **sender, void **on_gpu)
{
	nccl_result_t result = check_device(dev);

	(void)on_gpu;
	return result ? result : join_connect(&device, handle, sender);
}

static nccl_result_t net_connect_v10(int dev, void *config, void *handle, void **sender,
				     void **on_gpu)
{
	(void)config;
	return net_connect(dev, handle, sender, on_gpu);
}

static nccl_result_t net_accept(void *listener, void **receiver, void **on_gpu)
{
	(void)on_gpu;
	return join_accept(listener, receiver);
}

static nccl_result_t net_reg(void *comm, void *data, size_t size, int memory, void **mhandle)
{
	(void)data;
	(void)size;
	return message_reg(comm, memory, mhandle);
}

static nccl_result_t reg_dmabuf(void *comm, void *data, size_t size, int memory, uint64_t offset,
				int fd, void **mhandle)
{
	(void)comm;
	(void)data;
	(void)size;
	(void)memory;
	(void)offset;
	(void)fd;
	*mhandle = NULL;
	return refuse(NCCL_INTERNAL_ERROR, "only memory of the host can be used");
}

static nccl_result_t net_dereg(void *comm, void *mhandle)
{
	(void)mhandle;
	return comm ? NCCL_OK : refuse(NCCL_INTERNAL_ERROR, "deregMr() without a connection");
}

static nccl_result_t net_isend_v10(void *sender, void *data, size_t size, int tag, void *mhandle,
				   void *phandle, void **request)
{
	(void)tag;
	(void)mhandle;
	(void)phandle;
	return message_send(sender, data, size, request);
}

static nccl_result_t net_isend_v8(void *sender, void *data, int size, int tag, void *mhandle,
				  void **request)
{
	*request = NULL;
	if (size < 0)
		return refuse(NCCL_INTERNAL_ERROR, "isend() of %d bytes", size);
	return net_isend_v10(sender, data, size, tag, mhandle, NULL, request);
}

static nccl_result_t net_irecv_v10(void *receiver, int n, void **data, size_t *sizes, int *tags,
				   void **mhandles, void **phandles, void **request)
{
	(void)tags;
	(void)mhandles;
	(void)phandles;
	*request = NULL;
	if (n != 1)
		return refuse(NCCL_INTERNAL_ERROR, "irecv() of %d messages at once", n);
	return message_receive(receiver, data[0], sizes[0], request);
}

static nccl_result_t net_irecv_v8(void *receiver, int n, void **data, int *sizes, int *tags,
				  void **mhandles, void **request)
{
	size_t size = n == 1 && sizes[0] > 0 ? sizes[0] : 0;

	*request = NULL;
	if (n == 1 && sizes[0] < 0)
		return refuse(NCCL_INTERNAL_ERROR, "irecv() of %d bytes", sizes[0]);
	return net_irecv_v10(receiver, n, data, &size, tags, mhandles, NULL, request);
}

/* What the host has received is there. */
static nccl_result_t net_iflush(void *receiver, int n, void **data, int *sizes, void **mhandles,
				void **request)
{
	(void)receiver;
	(void)n;
	(void)data;
	(void)sizes;
	(void)mhandles;
	*request = NULL;
	return NCCL_OK;
}

static nccl_result_t net_close_send(void *sender)
{
	return message_close(sender, true);
}

static nccl_result_t net_close_recv(void *receiver)
{
	return message_close(receiver, false);
}

/* -- collectives ----------------------------------------------------------- */

static nccl_result_t coll_listen(int dev, void *handle, void **listener)
{
	nccl_result_t result = check_device(dev);

	return result ? result : group_listen(handle, listener);
}

static nccl_result_t coll_iallreduce_v10(void *group, void *src, void *dst, size_t count,
					 enum nccl_dtype dtype, enum nccl_redop redop,
					 void *src_mhandle, void *dst_mhandle, void **request)
{
	struct coll_call call = { .kind = ALLREDUCE, .dtype = group_dtype(dtype),
				  .redop = group_redop(redop), .count = count, .src = src,
				  .dst = dst };

	(void)src_mhandle;
	(void)dst_mhandle;
	return group_start(group, &call, request);
}

static nccl_result_t coll_iallreduce_v8(void *group, void *src, void *dst, int count,
					enum nccl_dtype dtype, enum nccl_redop redop,
					void *src_mhandle, void *dst_mhandle, void **request)
{
	*request = NULL;
	if (count < 0)
		return refuse(NCCL_INTERNAL_ERROR, "iallreduce() of %d elements", count);
	return coll_iallreduce_v10(group, src, dst, count, dtype, redop, src_mhandle,
				   dst_mhandle, request);
}

static nccl_result_t coll_iallgather_v10(void *group, void *src, int n,
					 struct nccl_part_v10 *dst, size_t block, size_t start,
					 size_t len, void *src_mhandle, void **request)
{
	struct coll_call call = { .kind = GATHER, .src = src, .parts = n, .block = block,
				  .start = start, .len = len };

	(void)src_mhandle;
	if (n == 1) {
		call.dst = dst->address;
		call.part_bytes = dst->size;
	}
	return group_start(group, &call, request);
}

static nccl_result_t coll_iallgather_v8(void *group, void *src, int n, struct nccl_part_v8 *dst,
					size_t block, size_t start, size_t len,
					void *src_mhandle, void **request)
{
	struct nccl_part_v10 part = {};

	if (n == 1)
		part = (struct nccl_part_v10) { dst->mhandle, dst->address, dst->size };
	return coll_iallgather_v10(group, src, n, &part, block, start, len, src_mhandle,
				   request);
}

static nccl_result_t coll_ireducescatter_v10(void *group, int n, struct nccl_part_v10 *src,
					     void *dst, size_t block, size_t start, size_t len,
					     enum nccl_dtype dtype, enum nccl_redop redop,
					     void *dst_mhandle, void **request)
{
	struct coll_call call = { .kind = SCATTER, .dtype = group_dtype(dtype),
				  .redop = group_redop(redop), .dst = dst, .parts = n,
				  .block = block, .start = start, .len = len };

	(void)dst_mhandle;
	if (n == 1) {
		call.src = src->address;
		call.part_bytes = src->size;
	}
	return group_start(group, &call, request);
}

static nccl_result_t coll_ireducescatter_v8(void *group, int n, struct nccl_part_v8 *src,
					    void *dst, size_t block, size_t start, size_t len,
					    enum nccl_dtype dtype, enum nccl_redop redop,
					    void *dst_mhandle, void **request)
{
	struct nccl_part_v10 part = {};

	if (n == 1)
		part = (struct nccl_part_v10) { src->mhandle, src->address, src->size };
	return coll_ireducescatter_v10(group, n, &part, dst, block, start, len, dtype, redop,
				       dst_mhandle, request);
}

static nccl_result_t coll_iflush(void *group, void *data, int size, void *mhandle,
				 void **request)
{
	(void)group;
	(void)data;
	(void)size;
	(void)mhandle;
	*request = NULL;
	return NCCL_OK;
}

/* -- the tables ------------------------------------------------------------ */

const struct nccl_net_v8 ncclNetPlugin_v8 = {
	.name = "rar",
	.init = net_init,
	.devices = devices,
	.properties = properties_v8,
	.listen = net_listen,
	.connect = net_connect,
	.accept = net_accept,
	.reg = net_reg,
	.reg_dmabuf = reg_dmabuf,
	.dereg = net_dereg,
	.isend = net_isend_v8,
	.irecv = net_irecv_v8,
	.iflush = net_iflush,
	.test = message_test,
	.close_send = net_close_send,
	.close_recv = net_close_recv,
	.close_listen = join_close,
};

const struct nccl_net_v10 ncclNetPlugin_v10 = {
	.name = "rar",
	.init = net_init_v10,
	.devices = devices,
	.properties = properties_v10,
	.listen = net_listen,
	.connect = net_connect_v10,
	.accept = net_accept,
	.reg = net_reg,
	.reg_dmabuf = reg_dmabuf,
	.dereg = net_dereg,
	.isend = net_isend_v10,
	.irecv = net_irecv_v10,
	.iflush = net_iflush,
	.test = message_test,
	.close_send = net_close_send,
	.close_recv = net_close_recv,
	.close_listen = join_close,
};

const struct nccl_collnet_v8 ncclCollNetPlugin_v8 = {
	.name = "rar",
	.init = coll_init,
	.devices = devices,
	.properties = properties_v8,
	.listen = coll_listen,
	.connect = group_connect,
	.reduce_support = group_support,
	.reg = group_reg,
	.reg_dmabuf = reg_dmabuf,
	.dereg = group_dereg,
	.iallreduce = coll_iallreduce_v8,
	.iallgather = coll_iallgather_v8,
	.ireducescatter = coll_ireducescatter_v8,
	.iflush = coll_iflush,
	.test = group_test,
	.close = group_close,
	.close_listen = group_close_listen,
};

const struct nccl_collnet_v10 ncclCollNetPlugin_v10 = {
	.name = "rar",
	.init = coll_init,
	.devices = devices,
	.properties = properties_v10,
	.listen = coll_listen,
	.connect = group_connect,
	.reduce_support = group_support,
	.reg = group_reg,
	.reg_dmabuf = reg_dmabuf,
	.dereg = group_dereg,
	.iallreduce = coll_iallreduce_v10,
	.iallgather = coll_iallgather_v10,
	.ireducescatter = coll_ireducescatter_v10,
	.iflush = coll_iflush,
	.test = group_test,
	.close = group_close,
	.close_listen = group_close_listen,
};
