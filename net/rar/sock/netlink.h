/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_NETLINK_H
#define _RAR_SOCK_NETLINK_H

int rar_netlink_init(void);
void rar_netlink_exit(void);

#endif /* _RAR_SOCK_NETLINK_H */
