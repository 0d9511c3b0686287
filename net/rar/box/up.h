/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_UP_H
#define _RAR_BOX_UP_H

#include "box/job.h"

struct box_out;

struct box_job *rar_up_rcv(struct rar_member *m, const struct rar_pkt *pkt);
void rar_up_enter(struct box_job *job, bool in_turn, const struct rar_aside *aside);
bool rar_up_is_open(const struct box_job *job);
bool rar_up_is_in_turn(const struct box_job *job);
void rar_up_later(const struct box_job *job, unsigned long late);
bool rar_up_is_lost(const struct box_job *job, unsigned long dead);
void rar_up_tell(struct box_job *job);
void rar_up_send(struct box_job *job, const struct box_out *out, u32 n);
void rar_up_return(struct box_job *job, struct rar_chunks_hdr *ch);
void rar_up_end(struct box_job *job);

#endif /* _RAR_BOX_UP_H */
