/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_RESUME_H
#define _RAR_CORE_RESUME_H

#include "rar.h"

void rar_resume_failed(struct rar_member *m, u64 done);
void rar_resume_find(const struct rar_member *m, struct rar_resume *past);
void rar_resume_merge(struct rar_resume *all, const struct rar_resume *own);
void rar_resume_forget(struct rar_member *m);
void rar_resume_net_init(struct rar_net *rn);
void rar_resume_net_exit(struct rar_net *rn);

#endif /* _RAR_CORE_RESUME_H */
