// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The network for messages: the tables that NCCL looks up, one for each version.
 */
#include "plugin.h"

/* -- a communicator -------------------------------------------------------- */

static nccl_result_t net_init_v10(nccl_log_fn log, nccl_profile_fn profile)
{
	(void)profile;
	return plugin_init(log);
}

static nccl_result_t net_init_v11(void **ctx, uint64_t comm, struct nccl_config *config,
				  nccl_log_fn log, nccl_profile_fn profile)
{
	nccl_result_t result = net_init_v10(log, profile);

	*ctx = NULL;
	return result ? result : plugin_context(ctx, comm, config);
}

static int class_of(const struct context *c)
{
	return c ? c->traffic_class : NCCL_UNDEFINED;
}

/* -- connections ----------------------------------------------------------- */

static nccl_result_t net_listen_v11(void *ctx, int dev, void *handle, void **listener)
{
	const struct device *d = plugin_device(dev);

	return d ? join_listen(d, class_of(ctx), handle, listener) : NCCL_INTERNAL_ERROR;
}

static nccl_result_t net_listen_v8(int dev, void *handle, void **listener)
{
	return net_listen_v11(NULL, dev, handle, listener);
}

static nccl_result_t connect_to(int dev, int traffic_class, void *handle, void **sender)
{
	const struct device *d = plugin_device(dev);

	return d ? join_connect(d, traffic_class, handle, sender) : NCCL_INTERNAL_ERROR;
}

static nccl_result_t net_connect_v11(void *ctx, int dev, void *handle, void **sender,
				     void **on_gpu)
{
	(void)on_gpu;
	return connect_to(dev, class_of(ctx), handle, sender);
}

static nccl_result_t net_connect_v10(int dev, struct nccl_config *config, void *handle,
				     void **sender, void **on_gpu)
{
	(void)on_gpu;
	return connect_to(dev, config ? config->traffic_class : NCCL_UNDEFINED, handle, sender);
}

static nccl_result_t net_connect_v8(int dev, void *handle, void **sender, void **on_gpu)
{
	return net_connect_v10(dev, NULL, handle, sender, on_gpu);
}

static nccl_result_t net_accept(void *listener, void **receiver, void **on_gpu)
{
	(void)on_gpu;
	return join_accept(listener, receiver);
}

static nccl_result_t net_close_send(void *sender)
{
	return message_close(sender, true);
}

static nccl_result_t net_close_recv(void *receiver)
{
	return message_close(receiver, false);
}

/* -- messages -------------------------------------------------------------- */

static nccl_result_t net_reg(void *comm, void *data, size_t size, int memory, void **mhandle)
{
	(void)data;
	(void)size;
	return message_reg(comm, memory, mhandle);
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

/* -- the tables ------------------------------------------------------------ */

/* What all versions have, and what those from 10 on have. */
#define ALL_VERSIONS							\
	.name = "rar",							\
	.devices = plugin_devices,					\
	.accept = net_accept,						\
	.reg = net_reg,							\
	.reg_dmabuf = plugin_reg_dmabuf,				\
	.dereg = net_dereg,						\
	.iflush = net_iflush,						\
	.test = message_test,						\
	.close_send = net_close_send,					\
	.close_recv = net_close_recv,					\
	.close_listen = join_close

#define LONG_MESSAGES							\
	.isend = net_isend_v10,						\
	.irecv = net_irecv_v10

#define WITH_CONTEXT							\
	.init = net_init_v11,						\
	.listen = net_listen_v11,					\
	.connect = net_connect_v11,					\
	.finalize = plugin_finalize

const struct nccl_net_v8 ncclNetPlugin_v8 = {
	ALL_VERSIONS,
	.init = plugin_init,
	.properties = plugin_properties_v8,
	.listen = net_listen_v8,
	.connect = net_connect_v8,
	.isend = net_isend_v8,
	.irecv = net_irecv_v8,
};

const struct nccl_net_v10 ncclNetPlugin_v10 = {
	ALL_VERSIONS, LONG_MESSAGES,
	.init = net_init_v10,
	.properties = plugin_properties_v10,
	.listen = net_listen_v8,
	.connect = net_connect_v10,
};

const struct nccl_net_v11 ncclNetPlugin_v11 = {
	ALL_VERSIONS, LONG_MESSAGES, WITH_CONTEXT,
	.properties = plugin_properties_v11,
};

const struct nccl_net_v12 ncclNetPlugin_v12 = {
	ALL_VERSIONS, LONG_MESSAGES, WITH_CONTEXT,
	.properties = plugin_properties_v12,
};
