/* SPDX-License-Identifier: GPL-2.0 */
/* What a host may be besides a rank: the tables that modules register. */
#ifndef _RAR_CORE_ROLE_H
#define _RAR_CORE_ROLE_H

#include <linux/module.h>

#include "rar.h"

struct seq_file;

/* Raise it when a table, or what its functions share, has another meaning. */
#define RAR_ROLE_VERSION	0x52415202

enum rar_role_index {
	RAR_ROLE_BOX,	/* rar_box: the aggregation box */
	RAR_ROLE_ROCE,	/* rar_roce: sums inside RoCEv2 packets, at a box */
	RAR_ROLE_NR
};

/* The aliases by which settings load the modules */
#define RAR_ROLE_ALIAS_BOX	"rar-role-box"
#define RAR_ROLE_ALIAS_ROCE	"rar-role-roce"

/* The second line of /proc/net/rar_box */
#define RAR_ROLE_COLUMNS						\
	"group size entered state payload complete rows sums returned "	\
	"evicted bytes ranks level\n"

/*
 * struct rar_role - what a module does for rar.ko
 * @version:	RAR_ROLE_VERSION, as the module was built
 * @size:	bytes of this struct, as the module was built, and
 * @net_size:	of struct rar_net, and
 * @member_size: of struct rar_member
 * @owner:	the module
 * @set:	its setting is written: net.rar.box_mem, net.rar.box_roce. While
 *		a role is on in a namespace, it holds a reference on its module.
 *		Process context
 * @show:	its part of /proc/net/rar_box, with the jobs or without.
 *		Process context
 * @set_offer:	box: net.rar.box_offer is written; rn->box_lock held
 * @set_key:	box: rn->box_key becomes this key; rn->box_lock held
 * @stranger:	box: see rar_role_stranger()
 * @entered_err: box: see rar_role_entered_err()
 */
struct rar_role {
	u32 version;
	u32 size;
	u32 net_size;
	u32 member_size;
	struct module *owner;
	int (*set)(struct rar_net *rn, unsigned long value);
	void (*show)(struct rar_net *rn, struct seq_file *seq, bool jobs);
	int (*set_offer)(struct rar_net *rn, bool on);
	int (*set_key)(struct rar_net *rn, const struct rar_secret *key);
	bool (*stranger)(struct rar_net *rn, struct rar_pkt *pkt);
	bool (*entered_err)(struct rar_net *rn, u64 id, u64 epoch, u32 rank,
			    const struct rar_way *way, bool too_big);
};

/* The first fields of a table. */
#define RAR_ROLE_HEAD					\
	.version = RAR_ROLE_VERSION,			\
	.size = sizeof(struct rar_role),		\
	.net_size = sizeof(struct rar_net),		\
	.member_size = sizeof(struct rar_member),	\
	.owner = THIS_MODULE

int rar_role_register(enum rar_role_index i, const struct rar_role *role);
void rar_role_unregister(enum rar_role_index i);
int rar_role_set_mem(struct rar_net *rn, unsigned long bytes);
int rar_role_set_roce(struct rar_net *rn, bool on);
int rar_role_set_offer(struct rar_net *rn, bool on);
int rar_role_set_key(struct rar_net *rn, const struct rar_secret *key);
void rar_role_show(struct rar_net *rn, struct seq_file *seq, bool jobs);
bool rar_role_stranger(struct rar_net *rn, struct rar_pkt *pkt);
bool rar_role_entered_err(struct rar_net *rn, u64 id, u64 epoch, u32 rank,
			  const struct rar_way *way, bool too_big);

#endif /* _RAR_CORE_ROLE_H */
