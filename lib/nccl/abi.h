/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The binary interface between NCCL and its plugins: networks in the versions 8, 10, 11 and 12, and
 * tuners in the versions 3 to 6.
 *
 * Written from NCCL's public headers: src/include/plugin/net/net_v*.h and
 * src/include/plugin/tuner/tuner_v*.h of NCCL 2.30.7 (github.com/NVIDIA/nccl). NCCL fixes the order
 * and the types of what is here, the numbers, and the names of the tables at the end; all other
 * names are ours.
 *
 *	NCCL		network		tuner
 *	2.20, 2.21	8		none of these
 *	2.22, 2.23	8		3
 *	2.24, 2.25	8 (and 9)	4
 *	2.26, 2.27	10		4
 *	2.28, 2.29	11		5
 *	2.30		12		6
 *
 * Each takes older versions as well. Version 9 is not here.
 */
#ifndef RAR_NCCL_ABI_H
#define RAR_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

#define NCCL_HANDLE_SIZE	128	/* bytes of what listen() fills in */
#define NCCL_REQUESTS		32	/* that a connection or group must have room for */
#define NCCL_NIC_DEVICES	4	/* of struct nccl_devices */
#define NCCL_NIC_DEVICES_V12	8	/* of struct nccl_devices_v12 */
#define NCCL_UNDEFINED		-1	/* in struct nccl_config, and for rails and planes */

/* What a function returns. Only the first is a success. */
enum nccl_result {
	NCCL_OK = 0,
	NCCL_CUDA_ERROR = 1,
	NCCL_SYSTEM_ERROR = 2,		/* the kernel or a library failed */
	NCCL_INTERNAL_ERROR = 3,	/* NCCL uses the plugin in a wrong way */
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,		/* the program, or how it is run, is wrong */
	NCCL_REMOTE_ERROR = 6,		/* another rank failed, or its network */
};

enum nccl_memory {			/* bits */
	NCCL_HOST_MEMORY = 1,
	NCCL_CUDA_MEMORY = 2,
	NCCL_DMABUF_MEMORY = 4,
};

enum nccl_dtype {
	NCCL_I8 = 0, NCCL_U8 = 1, NCCL_I32 = 2, NCCL_U32 = 3, NCCL_I64 = 4, NCCL_U64 = 5,
	NCCL_F16 = 6, NCCL_F32 = 7, NCCL_F64 = 8, NCCL_BF16 = 9, NCCL_F8E4M3 = 10,
	NCCL_F8E5M2 = 11,
};

enum nccl_redop {
	NCCL_SUM = 0, NCCL_PROD = 1, NCCL_MAX = 2, NCCL_MIN = 3, NCCL_AVG = 4,
};

/* What a tuner is asked about, and the rows of its table. */
enum nccl_function { NCCL_ALLREDUCE = 4 };
enum nccl_algorithm {
	NCCL_TREE = 0, NCCL_RING = 1, NCCL_COLLNET_DIRECT = 2, NCCL_COLLNET_CHAIN = 3,
	NCCL_NVLS = 4, NCCL_NVLS_TREE = 5, NCCL_PAT = 6,
};

enum nccl_level { NCCL_WARN = 2, NCCL_INFO = 3 };
enum nccl_topic { NCCL_ABOUT_INIT = 1, NCCL_ABOUT_NET = 16 };	/* bits */

typedef enum nccl_result nccl_result_t;
typedef void (*nccl_log_fn)(enum nccl_level level, unsigned long topics, const char *file,
			    int line, const char *fmt, ...);
/* Takes events for a profiler: there are none here. */
typedef nccl_result_t (*nccl_profile_fn)(void **event, int type, void *phandle, int64_t plugin,
					 void *extra);

/* What the program asks for a communicator; @traffic_class is of the plugin's own kind. */
struct nccl_config {
	int traffic_class;
};

/* The devices that one virtual device consists of. */
struct nccl_devices {
	int n;
	int devices[NCCL_NIC_DEVICES];
};

struct nccl_devices_v12 {
	int n;
	int devices[NCCL_NIC_DEVICES_V12];
};

/*
 * What NCCL asks about a device
 * @pci_path:	in /sys; NULL: none
 * @guid:	devices with equal numbers share a port
 * @memory:	enum nccl_memory
 * @global_reg:	registered memory belongs to no connection
 * @speed:	Mbit/s
 * @max_recvs:	receives in one call
 * @device_type: 0: no part of it runs on the GPU
 */
struct nccl_properties_v8 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int memory;
	int global_reg;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	int device_type;
	int device_version;
};

struct nccl_properties_v10 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int memory;
	int global_reg;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	int device_type;
	int device_version;
	struct nccl_devices consists_of;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
};

/* @max_requests: that can be one request */
struct nccl_properties_v11 {
	struct nccl_properties_v10 v10;
	int max_requests;
};

struct nccl_properties_v12 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int memory;
	int global_reg;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	int device_type;
	int device_version;
	struct nccl_devices_v12 consists_of;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_requests;
	int16_t rail;
	int16_t plane;
};

/* Memory that a part of a tensor is in. */
struct nccl_part_v8 {
	void *mhandle;
	void *address;
	uint32_t size;
};

struct nccl_part_v10 {
	void *mhandle;
	void *address;
	size_t size;
};

/*
 * Messages from rank to rank. connect() and accept() are called again while they return no
 * connection, and isend() and irecv() while they return no request.
 */
struct nccl_net_v8 {
	const char *name;
	nccl_result_t (*init)(nccl_log_fn log);
	nccl_result_t (*devices)(int *n);
	nccl_result_t (*properties)(int dev, struct nccl_properties_v8 *p);
	nccl_result_t (*listen)(int dev, void *handle, void **listener);
	nccl_result_t (*connect)(int dev, void *handle, void **sender, void **on_gpu);
	nccl_result_t (*accept)(void *listener, void **receiver, void **on_gpu);
	nccl_result_t (*reg)(void *comm, void *data, size_t size, int memory, void **mhandle);
	nccl_result_t (*reg_dmabuf)(void *comm, void *data, size_t size, int memory,
				    uint64_t offset, int fd, void **mhandle);
	nccl_result_t (*dereg)(void *comm, void *mhandle);
	nccl_result_t (*isend)(void *sender, void *data, int size, int tag, void *mhandle,
			       void **request);
	nccl_result_t (*irecv)(void *receiver, int n, void **data, int *sizes, int *tags,
			       void **mhandles, void **request);
	nccl_result_t (*iflush)(void *receiver, int n, void **data, int *sizes, void **mhandles,
				void **request);
	nccl_result_t (*test)(void *request, int *done, int *sizes);
	nccl_result_t (*close_send)(void *sender);
	nccl_result_t (*close_recv)(void *receiver);
	nccl_result_t (*close_listen)(void *listener);
	nccl_result_t (*gpu_reg)(void *comm, void *mhandle, void **on_gpu);
	nccl_result_t (*consumed)(void *receiver, int n, void *request);
};

struct nccl_net_v10 {
	const char *name;
	nccl_result_t (*init)(nccl_log_fn log, nccl_profile_fn profile);
	nccl_result_t (*devices)(int *n);
	nccl_result_t (*properties)(int dev, struct nccl_properties_v10 *p);
	nccl_result_t (*listen)(int dev, void *handle, void **listener);
	nccl_result_t (*connect)(int dev, struct nccl_config *config, void *handle, void **sender,
				 void **on_gpu);
	nccl_result_t (*accept)(void *listener, void **receiver, void **on_gpu);
	nccl_result_t (*reg)(void *comm, void *data, size_t size, int memory, void **mhandle);
	nccl_result_t (*reg_dmabuf)(void *comm, void *data, size_t size, int memory,
				    uint64_t offset, int fd, void **mhandle);
	nccl_result_t (*dereg)(void *comm, void *mhandle);
	nccl_result_t (*isend)(void *sender, void *data, size_t size, int tag, void *mhandle,
			       void *phandle, void **request);
	nccl_result_t (*irecv)(void *receiver, int n, void **data, size_t *sizes, int *tags,
			       void **mhandles, void **phandles, void **request);
	nccl_result_t (*iflush)(void *receiver, int n, void **data, int *sizes, void **mhandles,
				void **request);
	nccl_result_t (*test)(void *request, int *done, int *sizes);
	nccl_result_t (*close_send)(void *sender);
	nccl_result_t (*close_recv)(void *receiver);
	nccl_result_t (*close_listen)(void *listener);
	nccl_result_t (*gpu_reg)(void *comm, void *mhandle, void **on_gpu);
	nccl_result_t (*consumed)(void *receiver, int n, void *request);
	nccl_result_t (*make_device)(int *dev, struct nccl_devices *consists_of);
};

/*
 * Versions 11 and 12 differ in what describes a device. init() is called for each communicator, and
 * what it leaves in *ctx comes back in listen(), connect() and finalize().
 */
#define NCCL_NET_WITH_CONTEXT(version, properties_type, devices_type)			\
struct nccl_net_v##version {								\
	const char *name;								\
	nccl_result_t (*init)(void **ctx, uint64_t comm, struct nccl_config *config,	\
			      nccl_log_fn log, nccl_profile_fn profile);		\
	nccl_result_t (*devices)(int *n);						\
	nccl_result_t (*properties)(int dev, struct properties_type *p);		\
	nccl_result_t (*listen)(void *ctx, int dev, void *handle, void **listener);	\
	nccl_result_t (*connect)(void *ctx, int dev, void *handle, void **sender,	\
				 void **on_gpu);					\
	nccl_result_t (*accept)(void *listener, void **receiver, void **on_gpu);	\
	nccl_result_t (*reg)(void *comm, void *data, size_t size, int memory,		\
			     void **mhandle);						\
	nccl_result_t (*reg_dmabuf)(void *comm, void *data, size_t size, int memory,	\
				    uint64_t offset, int fd, void **mhandle);		\
	nccl_result_t (*dereg)(void *comm, void *mhandle);				\
	nccl_result_t (*isend)(void *sender, void *data, size_t size, int tag,		\
			       void *mhandle, void *phandle, void **request);		\
	nccl_result_t (*irecv)(void *receiver, int n, void **data, size_t *sizes,	\
			       int *tags, void **mhandles, void **phandles,		\
			       void **request);						\
	nccl_result_t (*iflush)(void *receiver, int n, void **data, int *sizes,		\
				void **mhandles, void **request);			\
	nccl_result_t (*test)(void *request, int *done, int *sizes);			\
	nccl_result_t (*close_send)(void *sender);					\
	nccl_result_t (*close_recv)(void *receiver);					\
	nccl_result_t (*close_listen)(void *listener);					\
	nccl_result_t (*gpu_reg)(void *comm, void *mhandle, void **on_gpu);		\
	nccl_result_t (*consumed)(void *receiver, int n, void *request);		\
	nccl_result_t (*make_device)(int *dev, struct devices_type *consists_of);	\
	nccl_result_t (*finalize)(void *ctx);						\
	nccl_result_t (*set_attributes)(void *ctx, void *attributes);			\
}

NCCL_NET_WITH_CONTEXT(11, nccl_properties_v11, nccl_devices);
NCCL_NET_WITH_CONTEXT(12, nccl_properties_v12, nccl_devices_v12);

/*
 * Collectives. A window is the range [start, start + len) of a tensor that has @block bytes of
 * each rank: iallgather() gives each rank the window, and ireducescatter() gives it the sums of
 * the bytes of its own block that are in the window.
 */
struct nccl_collnet_v8 {
	const char *name;
	nccl_result_t (*init)(nccl_log_fn log);
	nccl_result_t (*devices)(int *n);
	nccl_result_t (*properties)(int dev, struct nccl_properties_v8 *p);
	nccl_result_t (*listen)(int dev, void *handle, void **listener);
	nccl_result_t (*connect)(void *handles[], int size, int rank, void *listener,
				 void **group);
	nccl_result_t (*reduce_support)(enum nccl_dtype dtype, enum nccl_redop redop, int *yes);
	nccl_result_t (*reg)(void *group, void *data, size_t size, int memory, void **mhandle);
	nccl_result_t (*reg_dmabuf)(void *group, void *data, size_t size, int memory,
				    uint64_t offset, int fd, void **mhandle);
	nccl_result_t (*dereg)(void *group, void *mhandle);
	nccl_result_t (*iallreduce)(void *group, void *src, void *dst, int count,
				    enum nccl_dtype dtype, enum nccl_redop redop,
				    void *src_mhandle, void *dst_mhandle, void **request);
	nccl_result_t (*iallgather)(void *group, void *src, int n, struct nccl_part_v8 *dst,
				    size_t block, size_t start, size_t len, void *src_mhandle,
				    void **request);
	nccl_result_t (*ireducescatter)(void *group, int n, struct nccl_part_v8 *src, void *dst,
					size_t block, size_t start, size_t len,
					enum nccl_dtype dtype, enum nccl_redop redop,
					void *dst_mhandle, void **request);
	nccl_result_t (*iflush)(void *group, void *data, int size, void *mhandle,
				void **request);
	nccl_result_t (*test)(void *request, int *done, int *size);
	nccl_result_t (*close)(void *group);
	nccl_result_t (*close_listen)(void *listener);
};

struct nccl_collnet_v10 {
	const char *name;
	nccl_result_t (*init)(nccl_log_fn log);
	nccl_result_t (*devices)(int *n);
	nccl_result_t (*properties)(int dev, struct nccl_properties_v10 *p);
	nccl_result_t (*listen)(int dev, void *handle, void **listener);
	nccl_result_t (*connect)(void *handles[], int size, int rank, void *listener,
				 void **group);
	nccl_result_t (*reduce_support)(enum nccl_dtype dtype, enum nccl_redop redop, int *yes);
	nccl_result_t (*reg)(void *group, void *data, size_t size, int memory, void **mhandle);
	nccl_result_t (*reg_dmabuf)(void *group, void *data, size_t size, int memory,
				    uint64_t offset, int fd, void **mhandle);
	nccl_result_t (*dereg)(void *group, void *mhandle);
	nccl_result_t (*iallreduce)(void *group, void *src, void *dst, size_t count,
				    enum nccl_dtype dtype, enum nccl_redop redop,
				    void *src_mhandle, void *dst_mhandle, void **request);
	nccl_result_t (*iallgather)(void *group, void *src, int n, struct nccl_part_v10 *dst,
				    size_t block, size_t start, size_t len, void *src_mhandle,
				    void **request);
	nccl_result_t (*ireducescatter)(void *group, int n, struct nccl_part_v10 *src, void *dst,
					size_t block, size_t start, size_t len,
					enum nccl_dtype dtype, enum nccl_redop redop,
					void *dst_mhandle, void **request);
	nccl_result_t (*iflush)(void *group, void *data, int size, void *mhandle,
				void **request);
	nccl_result_t (*test)(void *request, int *done, int *size);
	nccl_result_t (*close)(void *group);
	nccl_result_t (*close_listen)(void *listener);
	nccl_result_t (*make_device)(int *dev, struct nccl_devices *consists_of);
};

#define NCCL_COLLNET_WITH_CONTEXT(version, properties_type, devices_type)		\
struct nccl_collnet_v##version {							\
	const char *name;								\
	nccl_result_t (*init)(void **ctx, uint64_t comm, nccl_log_fn log);		\
	nccl_result_t (*devices)(int *n);						\
	nccl_result_t (*properties)(int dev, struct properties_type *p);		\
	nccl_result_t (*listen)(void *ctx, int dev, void *handle, void **listener);	\
	nccl_result_t (*connect)(void *handles[], int size, int rank, void *listener,	\
				 void **group);						\
	nccl_result_t (*reduce_support)(enum nccl_dtype dtype, enum nccl_redop redop,	\
					int *yes);					\
	nccl_result_t (*reg)(void *group, void *data, size_t size, int memory,		\
			     void **mhandle);						\
	nccl_result_t (*reg_dmabuf)(void *group, void *data, size_t size, int memory,	\
				    uint64_t offset, int fd, void **mhandle);		\
	nccl_result_t (*dereg)(void *group, void *mhandle);				\
	nccl_result_t (*iallreduce)(void *group, void *src, void *dst, size_t count,	\
				    enum nccl_dtype dtype, enum nccl_redop redop,	\
				    void *src_mhandle, void *dst_mhandle,		\
				    void **request);					\
	nccl_result_t (*iallgather)(void *group, void *src, int n,			\
				    struct nccl_part_v10 *dst, size_t block,		\
				    size_t start, size_t len, void *src_mhandle,	\
				    void **request);					\
	nccl_result_t (*ireducescatter)(void *group, int n, struct nccl_part_v10 *src,	\
					void *dst, size_t block, size_t start,		\
					size_t len, enum nccl_dtype dtype,		\
					enum nccl_redop redop, void *dst_mhandle,	\
					void **request);				\
	nccl_result_t (*iflush)(void *group, void *data, int size, void *mhandle,	\
				void **request);					\
	nccl_result_t (*test)(void *request, int *done, int *size);			\
	nccl_result_t (*close)(void *group);						\
	nccl_result_t (*close_listen)(void *listener);					\
	nccl_result_t (*make_device)(int *dev, struct devices_type *consists_of);	\
	nccl_result_t (*finalize)(void *ctx);						\
}

NCCL_COLLNET_WITH_CONTEXT(11, nccl_properties_v11, nccl_devices);
NCCL_COLLNET_WITH_CONTEXT(12, nccl_properties_v12, nccl_devices_v12);

/*
 * A tuner, which says how a call is done. Its table has a time for each algorithm and protocol, or a
 * negative number where NCCL cannot take them; NCCL takes the shortest.
 */
struct nccl_tuner_v3 {
	const char *name;
	nccl_result_t (*init)(size_t ranks, size_t nodes, nccl_log_fn log, void **ctx);
	nccl_result_t (*choose)(void *ctx, enum nccl_function function, size_t bytes, int calls,
				float **times, int algorithms, int protocols, int *channels);
	nccl_result_t (*finalize)(void *ctx);
};

struct nccl_tuner_v4 {
	const char *name;
	nccl_result_t (*init)(size_t ranks, size_t nodes, nccl_log_fn log, void **ctx);
	nccl_result_t (*choose)(void *ctx, enum nccl_function function, size_t bytes, int calls,
				float **times, int algorithms, int protocols, int registered,
				int *channels);
	nccl_result_t (*finalize)(void *ctx);
};

struct nccl_tuner_v5 {
	const char *name;
	nccl_result_t (*init)(void **ctx, uint64_t comm, size_t ranks, size_t nodes,
			      nccl_log_fn log, void *nvlink, void *constants);
	nccl_result_t (*choose)(void *ctx, enum nccl_function function, size_t bytes, int calls,
				float **times, int algorithms, int protocols, int registered,
				int *channels);
	nccl_result_t (*finalize)(void *ctx);
};

struct nccl_tuner_v6 {
	const char *name;
	nccl_result_t (*init)(void **ctx, uint64_t comm, size_t ranks, size_t nodes,
			      nccl_log_fn log, void *nvlink, void *constants);
	nccl_result_t (*choose)(void *ctx, enum nccl_function function, size_t bytes, int calls,
				float **times, int algorithms, int protocols, int registered,
				int *channels);
	nccl_result_t (*finalize)(void *ctx);
	nccl_result_t (*chunk)(void *ctx, enum nccl_function function, size_t bytes,
			       int algorithm, int protocol, int channels, size_t *chunk);
};

extern const struct nccl_net_v8 ncclNetPlugin_v8;
extern const struct nccl_net_v10 ncclNetPlugin_v10;
extern const struct nccl_net_v11 ncclNetPlugin_v11;
extern const struct nccl_net_v12 ncclNetPlugin_v12;
extern const struct nccl_collnet_v8 ncclCollNetPlugin_v8;
extern const struct nccl_collnet_v10 ncclCollNetPlugin_v10;
extern const struct nccl_collnet_v11 ncclCollNetPlugin_v11;
extern const struct nccl_collnet_v12 ncclCollNetPlugin_v12;
extern const struct nccl_tuner_v3 ncclTunerPlugin_v3;
extern const struct nccl_tuner_v4 ncclTunerPlugin_v4;
extern const struct nccl_tuner_v5 ncclTunerPlugin_v5;
extern const struct nccl_tuner_v6 ncclTunerPlugin_v6;

#endif /* RAR_NCCL_ABI_H */
