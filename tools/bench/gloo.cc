// SPDX-License-Identifier: GPL-2.0
/*
 * gloo CTL RANK N STORE: a rank of Gloo over TCP at 10.77.0.(RANK + 1); the ranks
 * find each other through files in the directory STORE.
 */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench.h"

/* The knob: which of Gloo's algorithms. */
enum { GLOO_RING, GLOO_BCUBE };

struct contestant {
	std::shared_ptr<gloo::rendezvous::Context> context;
	bool bcube;
};

template <typename T> static void sum(struct contestant *c, void *buf, size_t n)
{
	gloo::AllreduceOptions options(c->context);

	options.setOutput(static_cast<T *>(buf), n);
	options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(
		&gloo::sum<T>));
	options.setAlgorithm(c->bcube ? gloo::AllreduceOptions::Algorithm::BCUBE :
					gloo::AllreduceOptions::Algorithm::RING);
	gloo::allreduce(options);
}

static int prepare(struct bench_rank *r, const struct bench_job *job)
{
	static_cast<struct contestant *>(r->priv)->bcube = job->knob[0] == GLOO_BCUBE;
	return 0;
}

static int allreduce(struct bench_rank *r, size_t bytes, enum bench_type type)
{
	auto *c = static_cast<struct contestant *>(r->priv);

	try {
		if (type == BENCH_F32)
			sum<float>(c, r->buf, bytes / 4);
		else
			sum<int32_t>(c, r->buf, bytes / 4);
	} catch (const std::exception &e) {
		fprintf(stderr, "gloo: %s\n", e.what());
		return -EIO;
	}
	return 0;
}

static std::shared_ptr<gloo::rendezvous::Context> join(int rank, int size, const char *path)
{
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
	auto address = "10.77.0." + std::to_string(rank + 1);
	auto device = gloo::transport::tcp::CreateDevice(
		gloo::transport::tcp::attr(address.c_str()));
	gloo::rendezvous::FileStore store(path);

	context->connectFullMesh(store, device);
	return context;
}

int main(int argc, char **argv)
{
	static const struct bench_peer peer = { prepare, allreduce, false, nullptr };
	struct contestant c = {};
	int rank;

	if (argc != 5) {
		fprintf(stderr, "usage: gloo CTL RANK N STORE\n");
		return 2;
	}
	rank = atoi(argv[2]);
	try {
		c.context = join(rank, atoi(argv[3]), argv[4]);
	} catch (const std::exception &e) {
		return bench_refuse(argv[1], rank, "Gloo: %s", e.what());
	}
	return bench_serve(argv[1], rank, &peer, &c);
}
