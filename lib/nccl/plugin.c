// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What the networks for messages and for collectives have in common: a device and contexts.
 *
 * Both have the same device. NCCL recognizes it by its name, and does not look at collectives
 * without it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "plugin.h"

#define MAX_COMMS	1024	/* connections, or groups, of a device, as NCCL is told */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device device;
static bool found;

/* -- the device ------------------------------------------------------------ */

nccl_result_t plugin_init(nccl_log_fn log)
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

nccl_result_t plugin_devices(int *n)
{
	*n = 1;
	return NCCL_OK;
}

const struct device *plugin_device(int dev)
{
	if (!dev)
		return &device;
	say(NCCL_WARN, "there is no device %d", dev);
	return NULL;
}

/* What all versions are told, and what only those from 10 on are. */
#define OLD_PROPERTIES							\
	.name = device.name,						\
	.pci_path = device.pci_path[0] ? device.pci_path : NULL,	\
	.memory = NCCL_HOST_MEMORY,					\
	.speed = device.speed,						\
	.max_comms = MAX_COMMS,						\
	.max_recvs = 1

#define NEW_PROPERTIES							\
	.consists_of = { 1, { 0 } },					\
	.max_p2p_bytes = MAX_P2P_BYTES,					\
	.max_coll_bytes = MAX_COLL_BYTES

nccl_result_t plugin_properties_v8(int dev, struct nccl_properties_v8 *p)
{
	if (!plugin_device(dev))
		return NCCL_INTERNAL_ERROR;
	*p = (struct nccl_properties_v8) { OLD_PROPERTIES };
	return NCCL_OK;
}

nccl_result_t plugin_properties_v10(int dev, struct nccl_properties_v10 *p)
{
	if (!plugin_device(dev))
		return NCCL_INTERNAL_ERROR;
	*p = (struct nccl_properties_v10) { OLD_PROPERTIES, NEW_PROPERTIES };
	return NCCL_OK;
}

nccl_result_t plugin_properties_v11(int dev, struct nccl_properties_v11 *p)
{
	p->max_requests = 1;
	return plugin_properties_v10(dev, &p->v10);
}

nccl_result_t plugin_properties_v12(int dev, struct nccl_properties_v12 *p)
{
	if (!plugin_device(dev))
		return NCCL_INTERNAL_ERROR;
	*p = (struct nccl_properties_v12) {
		OLD_PROPERTIES, NEW_PROPERTIES,
		.max_requests = 1, .rail = NCCL_UNDEFINED, .plane = NCCL_UNDEFINED,
	};
	return NCCL_OK;
}

nccl_result_t plugin_reg_dmabuf(void *comm, void *data, size_t size, int memory, uint64_t offset,
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

/* -- contexts -------------------------------------------------------------- */

nccl_result_t plugin_context(void **ctx, uint64_t comm, const struct nccl_config *config)
{
	struct context *c = calloc(1, sizeof(*c));

	*ctx = c;
	if (!c)
		return refuse(NCCL_SYSTEM_ERROR, "no memory");
	c->comm = comm;
	c->traffic_class = config ? config->traffic_class : NCCL_UNDEFINED;
	return NCCL_OK;
}

/* What was made with the context may still be in use. */
nccl_result_t plugin_finalize(void *ctx)
{
	free(ctx);
	return NCCL_OK;
}
