/* SPDX-License-Identifier: GPL-2.0 */
/* The aggregation box, see Documentation/design/box.rst. */
#ifndef _RAR_BOX_BOX_H
#define _RAR_BOX_BOX_H

#include "rar.h"

struct seq_file;

int rar_box_set_mem(struct rar_net *rn, unsigned long bytes);
bool rar_box_stranger(struct rar_net *rn, struct rar_pkt *pkt);
bool rar_box_entered_err(struct rar_net *rn, u64 id, u64 epoch, u32 rank,
			 const struct rar_way *way, bool too_big);
void rar_box_show(struct rar_net *rn, struct seq_file *seq, bool jobs);
void rar_box_net_init(struct rar_net *rn);
void rar_box_net_exit(struct rar_net *rn);
void rar_box_net_free(struct rar_net *rn);
int rar_box_init(void);
void rar_box_exit(void);

#endif /* _RAR_BOX_BOX_H */
