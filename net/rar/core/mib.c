// SPDX-License-Identifier: GPL-2.0
/* Counters: names, sums over CPUs, memory. */
#include "core/mib.h"
#include "rar.h"

static const char *const mib_names[] = {
#define X(name) #name,
	RAR_MIB_LIST(X)
	RAR_DROP_LIST(X)
#undef X
};

const char *rar_mib_name(enum rar_mib i)
{
	return i < RAR_MIB_NR ? mib_names[i] : "?";
}

unsigned long rar_mib_read(const struct rar_net *rn, enum rar_mib i)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu_ptr(rn->mib, cpu)->v[i];
	return sum;
}

int rar_mib_init(struct rar_net *rn)
{
	rn->mib = alloc_percpu(struct rar_mib_cpu);
	return rn->mib ? 0 : -ENOMEM;
}

void rar_mib_destroy(struct rar_net *rn)
{
	free_percpu(rn->mib);
}
