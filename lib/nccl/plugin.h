/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the files of the network plugin for NCCL share. */
#ifndef RAR_NCCL_PLUGIN_H
#define RAR_NCCL_PLUGIN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

#define MAX_P2P_BYTES	(1ul << 30)	/* of a message, as NCCL is told */
#define DEAD_S		20		/* a host that does not answer for this time is down */
#define MAX_COLL_BYTES	(512ul << 20)	/* of a collective; NCCL takes this for version 8 */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/*
 * struct device - the only device: the one that has this host's own address (RAR_LOCAL)
 * @name:	of the network interface, or "rar"
 * @pci_path:	"": it is on no PCI bus
 * @speed:	Mbit/s
 * @addr:	with port 0
 */
struct device {
	char name[16];
	char pci_path[256];
	int speed;
	union address addr;
};

/*
 * struct context - a communicator, for which NCCL 2.28 and later call init()
 * @comm:	its number, which NCCL's log has, too
 * @traffic_class: of the packets of its messages, or NCCL_UNDEFINED
 */
struct context {
	uint64_t comm;
	int traffic_class;
};

/* Collective calls of all versions of the interface; see struct nccl_collnet_v8. */
struct coll_call {
	enum { ALLREDUCE, GATHER, SCATTER } kind;
	int dtype, redop;	/* librar's; 0 for GATHER */
	size_t count;		/* ALLREDUCE */
	char *src, *dst;
	int parts;		/* GATHER, SCATTER: the only part, */
	size_t part_bytes;
	size_t block, start, len;	/* and the window */
};

/* device.c */
nccl_result_t device_find(struct device *d);

/* plugin.c: what messages and collectives have in common */
nccl_result_t plugin_init(nccl_log_fn log);
nccl_result_t plugin_context(void **ctx, uint64_t comm, const struct nccl_config *config);
nccl_result_t plugin_finalize(void *ctx);
nccl_result_t plugin_devices(int *n);
/* The only device, if @dev is its number, or NULL and a warning. */
const struct device *plugin_device(int dev);
nccl_result_t plugin_properties_v8(int dev, struct nccl_properties_v8 *p);
nccl_result_t plugin_properties_v10(int dev, struct nccl_properties_v10 *p);
nccl_result_t plugin_properties_v11(int dev, struct nccl_properties_v11 *p);
nccl_result_t plugin_properties_v12(int dev, struct nccl_properties_v12 *p);
nccl_result_t plugin_reg_dmabuf(void *comm, void *data, size_t size, int memory, uint64_t offset,
				int fd, void **mhandle);

/* log.c */
void log_begin(nccl_log_fn log);
void say(enum nccl_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Log a warning, and return @result. */
nccl_result_t refuse(nccl_result_t result, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
nccl_result_t result_of(int err);		/* a negative errno */

/* join.c: connections that begin */
nccl_result_t join_listen(const struct device *d, int traffic_class, void *handle,
			  void **listener);
nccl_result_t join_connect(const struct device *d, int traffic_class, const void *handle,
			   void **sender);
nccl_result_t join_accept(void *listener, void **receiver);
nccl_result_t join_close(void *listener);

/* message.c: connections that carry messages */
void *message_open(int fd, bool sends);
nccl_result_t message_reg(void *conn, int memory, void **mhandle);
nccl_result_t message_send(void *conn, void *data, size_t size, void **request);
nccl_result_t message_receive(void *conn, void *data, size_t size, void **request);
nccl_result_t message_test(void *request, int *done, int *size);
nccl_result_t message_close(void *conn, bool sends);

/* group.c: groups for collectives */
nccl_result_t group_begin(void);
nccl_result_t group_listen(uint64_t comm, void *handle, void **listener);
nccl_result_t group_connect(void *handles[], int size, int rank, void *listener, void **group);
nccl_result_t group_support(enum nccl_dtype dtype, enum nccl_redop redop, int *yes);
nccl_result_t group_reg(void *group, void *data, size_t size, int memory, void **mhandle);
nccl_result_t group_dereg(void *group, void *mhandle);
nccl_result_t group_start(void *group, const struct coll_call *call, void **request);
nccl_result_t group_test(void *request, int *done, int *size);
nccl_result_t group_close(void *group);
nccl_result_t group_close_listen(void *listener);
int group_dtype(enum nccl_dtype dtype);
int group_redop(enum nccl_redop redop);

#endif /* RAR_NCCL_PLUGIN_H */
