// SPDX-License-Identifier: GPL-2.0
/*
 * Files in /proc/net. rar: family number and members. rar_netstat: counters in the form
 * that nstat reads. rar_reduce: reduction kernels.
 */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "core/member.h"
#include "core/mib.h"
#include "core/role.h"
#include "rar.h"
#include "reduce/kinds.h"
#include "reduce/reduce.h"
#include "sock/proc.h"

static const char *const state_names[RAR_S_NR] = {
	/* list: states */
	[RAR_S_UNBOUND] = "unbound", [RAR_S_BOUND] = "bound",
	[RAR_S_JOINING] = "joining", [RAR_S_READY] = "ready",
	[RAR_S_RUN] = "run", [RAR_S_LEAVING] = "leaving",
	[RAR_S_FAILED] = "failed",
	/* end of list */
};

static const char *const security_names[RAR_SECURITY_NR] = {
	/* list: securities */
	[RAR_SECURITY_OFF] = "off", [RAR_SECURITY_AUTH] = "auth",
	[RAR_SECURITY_ENCRYPT] = "encrypt",
	/* end of list */
};

static void show_addr(struct seq_file *seq, const struct rar_addr *a)
{
	if (a->af == AF_INET6)
		seq_printf(seq, "[%pI6c]:%u", &a->ip, ntohs(a->port));
	else if (a->af == AF_INET)
		seq_printf(seq, "%pI4:%u", &a->ip, ntohs(a->port));
	else
		seq_puts(seq, "-");
}

static bool is_admin(const struct seq_file *seq, const struct rar_net *rn)
{
	return file_ns_capable(seq->file, rn->net->user_ns, CAP_NET_ADMIN);
}

/* May the reader see a member? Who knows group, ranks and addresses can disturb its join. */
static bool is_shown(const struct seq_file *seq, const struct rar_member *m)
{
	return uid_eq(m->uid, seq->file->f_cred->fsuid) || is_admin(seq, m->rn);
}

/* The epoch as shown: knowing it lets a packet speak for a member, so few users see it. */
static u64 shown_epoch(const struct seq_file *seq, const struct rar_member *m)
{
	return is_admin(seq, m->rn) ? READ_ONCE(m->epoch) : 0;
}

static void show_member(struct seq_file *seq, const struct rar_member *m)
{
	seq_printf(seq, "%016llx %u %u %s %016llx %u ", m->id, m->rank,
		   m->size, state_names[READ_ONCE(m->state)], shown_epoch(seq, m),
		   m->payload);
	show_addr(seq, &m->link[RAR_NEXT]->path.src);
	seq_putc(seq, ' ');
	show_addr(seq, &m->link[RAR_NEXT]->path.dst);
	seq_putc(seq, ' ');
	show_addr(seq, &m->link[RAR_PREV]->path.dst);
	seq_printf(seq, " %llu %llu %llu %u %llu %s",
		   READ_ONCE(m->op_next), READ_ONCE(m->ops_complete),
		   READ_ONCE(m->op_oldest),
		   from_kuid_munged(seq_user_ns(seq), m->uid),
		   READ_ONCE(m->link[RAR_NEXT]->tx.retransmits),
		   READ_ONCE(m->sk) ? "socket" :
		   m->tombstone ? "tombstone" : "orphan");
	if (READ_ONCE(m->straggler.ms))
		seq_printf(seq, " %u %u", READ_ONCE(m->straggler.rank),
			   READ_ONCE(m->straggler.ms));
	else
		seq_puts(seq, " - 0");
	seq_printf(seq, " %u %s\n", READ_ONCE(m->user_rank),
		   security_names[READ_ONCE(m->security)]);
}

/* Position 0 is the header; later positions are those of rn->all. RCU is held for a part. */
static void *rar_seq_start(struct seq_file *seq, loff_t *pos)
	__acquires(RCU)
{
	unsigned long index = *pos - 1;
	struct rar_member *m;

	rcu_read_lock();
	if (!*pos)
		return SEQ_START_TOKEN;
	m = rar_member_after(rar_net(seq_file_net(seq)), &index);
	*pos = index;
	return m;
}

static void *rar_seq_next(struct seq_file *seq, void *v, loff_t *pos)
{
	unsigned long index = *pos;
	struct rar_member *m;

	m = rar_member_after(rar_net(seq_file_net(seq)), &index);
	*pos = m ? index : *pos + 1;
	return m;
}

static void rar_seq_stop(struct seq_file *seq, void *v)
	__releases(RCU)
{
	rcu_read_unlock();
}

static void show_header(struct seq_file *seq)
{
	struct rar_net *rn = rar_net(seq_file_net(seq));

	seq_printf(seq, "family %d wire %d groups %u mem %llu resume %u\n", rar_family,
		   RAR_WIRE_VERSION, READ_ONCE(rn->nmembers), READ_ONCE(rn->mem),
		   READ_ONCE(rn->npasts));
	seq_puts(seq, "group rank size state epoch payload self next prev posted complete released uid retransmits held-by slow slow_ms user_rank security\n");
}

static int rar_seq_show(struct seq_file *seq, void *v)
{
	struct rar_member *m = v;

	if (v == SEQ_START_TOKEN)
		show_header(seq);
	else if (m->rank < m->size && is_shown(seq, m))
		show_member(seq, m);
	else
		return SEQ_SKIP;	/* of another user; or a job, see rar_box */
	return 0;
}

static const struct seq_operations rar_seq_ops = {
	.start = rar_seq_start,
	.next = rar_seq_next,
	.stop = rar_seq_stop,
	.show = rar_seq_show,
};

static int netstat_seq_show(struct seq_file *seq, void *v)
{
	struct rar_net *rn = rar_net(seq_file_single_net(seq));
	int i;

	seq_puts(seq, "Rar:");
	for (i = 0; i < RAR_MIB_NR; i++)
		seq_printf(seq, " %s", rar_mib_name(i));
	seq_puts(seq, "\nRar:");
	for (i = 0; i < RAR_MIB_NR; i++)
		seq_printf(seq, " %lu", rar_mib_read(rn, i));
	seq_putc(seq, '\n');
	return 0;
}

/* The reductions of a type, by name, in the order of kinds.h. */
#define KIND_NAME(redop, dtype, kernel) { RAR_##redop, RAR_##dtype, #redop, #dtype },
static const struct {
	u8 redop, dtype;
	const char *redop_name, *dtype_name;
} kind_names[] = { RAR_ALL_KINDS(KIND_NAME) };

static void show_mbps(struct seq_file *seq, u32 set, u8 dtype, u8 redop)
{
	u32 mbps = rar_reduce_mbps(set, rar_reduce_kind(dtype, redop));

	if (mbps)
		seq_printf(seq, " %u", mbps);
	else
		seq_puts(seq, " -");
}

/* Print one line for each set of kernels. Returns the number of sets. */
static u32 show_sets(struct seq_file *seq)
{
	static const u8 shown[] = { RAR_F32, RAR_F64, RAR_I32, RAR_I64 };
	struct rar_reduce_info info;
	u32 i, k;

	seq_puts(seq, "name usable selected f32 f64 i32 i64 (MB/s of sums)\n");
	for (i = 0; !rar_reduce_list(i, &info); i++) {
		seq_printf(seq, "%s %s %s", info.name, info.usable ? "yes" : "no",
			   info.selected ? "yes" : "no");
		for (k = 0; k < ARRAY_SIZE(shown); k++)
			show_mbps(seq, i, shown[k], RAR_SUM);
		seq_putc(seq, '\n');
	}
	return i;
}

static int reduce_seq_show(struct seq_file *seq, void *v)
{
	u32 sets = show_sets(seq), set, i;
	struct rar_reduce_info info;

	seq_puts(seq, "redop dtype");
	for (set = 0; !rar_reduce_list(set, &info); set++)
		seq_printf(seq, " %s", info.name);
	seq_puts(seq, " (MB/s of results)\n");
	for (i = 0; i < ARRAY_SIZE(kind_names); i++) {
		seq_printf(seq, "%s %s", kind_names[i].redop_name, kind_names[i].dtype_name);
		for (set = 0; set < sets; set++)
			show_mbps(seq, set, kind_names[i].dtype, kind_names[i].redop);
		seq_putc(seq, '\n');
	}
	return 0;
}

static int box_seq_show(struct seq_file *seq, void *v)
{
	struct rar_net *rn = rar_net(seq_file_single_net(seq));

	rar_role_show(rn, seq, is_admin(seq, rn));
	return 0;
}

static const struct {
	const char *name;
	int (*show)(struct seq_file *seq, void *v);
} files[] = {
	{ "rar_netstat", netstat_seq_show },
	{ "rar_reduce", reduce_seq_show },
	{ "rar_box", box_seq_show },
};

int rar_proc_init(struct net *net)
{
	int i = 0;

	if (!proc_create_net("rar", 0444, net->proc_net, &rar_seq_ops,
			     sizeof(struct seq_net_private)))
		return -ENOMEM;
	for (; i < ARRAY_SIZE(files); i++)
		if (!proc_create_net_single(files[i].name, 0444,
					    net->proc_net, files[i].show,
					    NULL))
			goto err_remove;
	return 0;

err_remove:
	while (i--)
		remove_proc_entry(files[i].name, net->proc_net);
	remove_proc_entry("rar", net->proc_net);
	return -ENOMEM;
}

void rar_proc_destroy(struct net *net)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(files); i++)
		remove_proc_entry(files[i].name, net->proc_net);
	remove_proc_entry("rar", net->proc_net);
}
