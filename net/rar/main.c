// SPDX-License-Identifier: GPL-2.0
/*
 * Module init and exit: the only file that knows the order.
 *
 * in:  reduce, work queue, netns, device notifier, socket family, files, generic netlink, XDP
 * out: generic netlink, files, socket family, device notifier, netns, XDP, work queue, reduce
 *
 * Files are settings (net.rar) and /proc/net. A setting may load the module of
 * the box and start the box of a namespace, so they are there only while all
 * that a box needs is.
 *
 * Sockets, orphans and XDP programs hold references on the module, so none of them is left
 * at exit; tombstones end with their namespace.
 */
#include <linux/module.h>

#include "core/mem.h"
#include "core/member.h"
#include "core/mib.h"
#include "core/op.h"
#include "core/resume.h"
#include "group/life.h"
#include "rar.h"
#include "reduce/reduce.h"
#include "ring/push.h"
#include "ring/steer.h"
#include "rx/hook.h"
#include "rx/udp.h"
#include "rx/xdp.h"
#include "sock/af_rar.h"
#include "sock/netlink.h"
#include "sock/proc.h"
#include "sock/sysctl.h"
#include "tx/device.h"
#include "tx/port.h"

static int __net_init main_net_init(struct net *net)
{
	struct rar_net *rn = rar_net(net);
	int err;

	rn->net = net;
	INIT_LIST_HEAD(&rn->hooks);
	mutex_init(&rn->hook_lock);
	INIT_LIST_HEAD(&rn->ports);
	mutex_init(&rn->port_lock);
	rar_resume_net_init(rn);
	mutex_init(&rn->box_lock);
	err = rar_member_net_init(rn);
	if (err)
		return err;
	err = rar_mib_init(rn);
	if (err)
		goto err_member;
	rar_sysctl_defaults(rn);
	return 0;

err_member:
	rar_member_net_free(rn);
	return err;
}

/* The core waits for RCU readers between this function and main_net_exit(). */
static void __net_exit main_net_pre_exit(struct net *net)
{
	struct rar_net *rn = rar_net(net);

	rar_life_net_exit(rn);
	rar_mem_net_exit(rn);
}

static void __net_exit main_net_exit(struct net *net)
{
	struct rar_net *rn = rar_net(net);

	WARN_ON(!list_empty(&rn->hooks));
	WARN_ON(!list_empty(&rn->ports));
	rar_resume_net_exit(rn);
	rar_mib_destroy(rn);
	rar_member_net_free(rn);
	memzero_explicit(&rn->box_key, sizeof(rn->box_key));
}

static struct pernet_operations main_net_ops = {
	.init = main_net_init,
	.pre_exit = main_net_pre_exit,
	.exit = main_net_exit,
	.id = &rar_net_id,
	.size = sizeof(struct rar_net),
};

static int __net_init files_net_init(struct net *net)
{
	struct rar_net *rn = rar_net(net);
	int err;

	err = rar_sysctl_init(rn);
	if (err)
		return err;
	err = rar_proc_init(net);
	if (err)
		rar_sysctl_destroy(rn);
	return err;
}

/* Before main_net_pre_exit() of the same namespace. */
static void __net_exit files_net_pre_exit(struct net *net)
{
	rar_proc_destroy(net);
	rar_sysctl_destroy(rar_net(net));
}

static struct pernet_operations files_net_ops = {
	.init = files_net_init,
	.pre_exit = files_net_pre_exit,
};

/* What users see. */
static int __init init_users(void)
{
	int err;

	err = rar_sock_init();
	if (err)
		return err;
	err = register_pernet_subsys(&files_net_ops);
	if (err)
		goto err_sock;
	err = rar_netlink_init();
	if (err)
		goto err_files;
	return 0;

err_files:
	unregister_pernet_subsys(&files_net_ops);
err_sock:
	rar_sock_exit();
	return err;
}

static int __init main_init(void)
{
	int err;

	rar_steer_init();
	rar_port_init(rar_hook_input, rar_udp_rcv, rar_udp_err);
	err = rar_reduce_init();
	if (err)
		return err;
	err = rar_op_init();
	if (err)
		goto err_reduce;
	err = rar_member_init();
	if (err)
		goto err_op;
	err = rar_push_init();
	if (err)
		goto err_member;
	err = register_pernet_subsys(&main_net_ops);
	if (err)
		goto err_push;
	err = rar_device_init(rar_hook_ingress);
	if (err)
		goto err_net;
	err = init_users();
	if (err)
		goto err_device;
	rar_xdp_init();
	return 0;

err_device:
	rar_device_exit();
err_net:
	unregister_pernet_subsys(&main_net_ops);
err_push:
	rar_push_exit();
err_member:
	rar_member_exit();
err_op:
	rar_op_exit();
err_reduce:
	rar_reduce_exit();
	return err;
}

static void __exit main_exit(void)
{
	rar_netlink_exit();
	unregister_pernet_subsys(&files_net_ops);
	rar_sock_exit();
	rar_device_exit();
	unregister_pernet_subsys(&main_net_ops);
	rar_steer_exit();
	rar_push_exit();
	rar_member_exit();
	rar_op_exit();
	rar_mem_exit();
	rar_reduce_exit();
}

module_init(main_init);
module_exit(main_exit);
MODULE_DESCRIPTION("AF_RAR: ring all-reduce in the kernel");
MODULE_LICENSE("GPL");
MODULE_ALIAS_NETPROTO(PF_RAR);
