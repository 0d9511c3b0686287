// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The network for collectives, which NCCL calls CollNet: the tables that NCCL looks up.
 */
#include "plugin.h"

/* -- a communicator -------------------------------------------------------- */

static nccl_result_t coll_init_v8(nccl_log_fn log)
{
	nccl_result_t result = plugin_init(log);

	return result ? result : group_begin();
}

static nccl_result_t coll_init_v11(void **ctx, uint64_t comm, nccl_log_fn log)
{
	nccl_result_t result = coll_init_v8(log);

	*ctx = NULL;
	return result ? result : plugin_context(ctx, comm, NULL);
}

static nccl_result_t coll_listen_v11(void *ctx, int dev, void *handle, void **listener)
{
	const struct context *c = ctx;

	if (!plugin_device(dev))
		return NCCL_INTERNAL_ERROR;
	return group_listen(c ? c->comm : 0, handle, listener);
}

static nccl_result_t coll_listen_v8(int dev, void *handle, void **listener)
{
	return coll_listen_v11(NULL, dev, handle, listener);
}

/* -- calls ----------------------------------------------------------------- */

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

/* What all versions have, and what those from 10 on have. */
#define ALL_VERSIONS							\
	.name = "rar",							\
	.devices = plugin_devices,					\
	.connect = group_connect,					\
	.reduce_support = group_support,				\
	.reg = group_reg,						\
	.reg_dmabuf = plugin_reg_dmabuf,				\
	.dereg = group_dereg,						\
	.iflush = coll_iflush,						\
	.test = group_test,						\
	.close = group_close,						\
	.close_listen = group_close_listen

#define LONG_TENSORS							\
	.iallreduce = coll_iallreduce_v10,				\
	.iallgather = coll_iallgather_v10,				\
	.ireducescatter = coll_ireducescatter_v10

#define WITH_CONTEXT							\
	.init = coll_init_v11,						\
	.listen = coll_listen_v11,					\
	.finalize = plugin_finalize

const struct nccl_collnet_v8 ncclCollNetPlugin_v8 = {
	ALL_VERSIONS,
	.init = coll_init_v8,
	.properties = plugin_properties_v8,
	.listen = coll_listen_v8,
	.iallreduce = coll_iallreduce_v8,
	.iallgather = coll_iallgather_v8,
	.ireducescatter = coll_ireducescatter_v8,
};

const struct nccl_collnet_v10 ncclCollNetPlugin_v10 = {
	ALL_VERSIONS, LONG_TENSORS,
	.init = coll_init_v8,
	.properties = plugin_properties_v10,
	.listen = coll_listen_v8,
};

const struct nccl_collnet_v11 ncclCollNetPlugin_v11 = {
	ALL_VERSIONS, LONG_TENSORS, WITH_CONTEXT,
	.properties = plugin_properties_v11,
};

const struct nccl_collnet_v12 ncclCollNetPlugin_v12 = {
	ALL_VERSIONS, LONG_TENSORS, WITH_CONTEXT,
	.properties = plugin_properties_v12,
};
