/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_MMAP_H
#define _RAR_SOCK_MMAP_H

#include "sock/sock.h"

void rar_mmap_set_member(struct rar_sock *rsk, struct rar_member *m);
void rar_mmap_end(struct rar_sock *rsk);
int rar_mmap(struct file *file, struct socket *sock, struct vm_area_struct *vma);

#endif /* _RAR_SOCK_MMAP_H */
