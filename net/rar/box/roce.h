/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_ROCE_H
#define _RAR_BOX_ROCE_H

#include "rar.h"

struct seq_file;

int rar_roce_set(struct rar_net *rn, bool on);
void rar_roce_show(struct rar_net *rn, struct seq_file *seq, bool jobs);

#endif /* _RAR_BOX_ROCE_H */
