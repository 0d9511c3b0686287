/* SPDX-License-Identifier: GPL-2.0 */
/* Limits of the kernel's memory that operations use, and the members that wait for some. */
#ifndef _RAR_MEM_H
#define _RAR_MEM_H

#include <linux/types.h>

struct rar_member;
struct rar_net;
struct rar_user;

#define RAR_MEM_TICK	(HZ / 20)	/* see rar_mem_tick() */

bool rar_mem_too_long(const struct rar_net *rn, u64 bytes);
bool rar_mem_charge(struct rar_member *m, u64 bytes);
void rar_mem_uncharge(struct rar_net *rn, struct rar_user *user, u64 bytes, u32 charges);
void rar_mem_want(struct rar_member *m, u64 bytes);
bool rar_mem_room(struct rar_member *m);
int rar_mem_tick(struct rar_member *m);
void rar_mem_later(struct rar_member *m, unsigned long late);
void rar_mem_changed(void);
void rar_mem_forget(struct rar_member *m);
void rar_mem_net_exit(struct rar_net *rn);
void rar_mem_exit(void);

#endif /* _RAR_MEM_H */
