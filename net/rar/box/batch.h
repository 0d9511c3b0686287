/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_BOX_BATCH_H
#define _RAR_BOX_BATCH_H

#include "box/job.h"

void rar_batch_rcv_up(struct box_job *job, u32 rank, const struct rar_pkt *pkt, u32 n,
		      const struct rar_data_hdr *dh);
void rar_batch_rcv_want(struct box_job *job, u32 rank, const struct rar_pkt *pkt);
void rar_batch_raise_base(struct box_job *job, u64 base);
void rar_batch_init(struct box_job *job);
void rar_batch_close(struct box_job *job);

#endif /* _RAR_BOX_BATCH_H */
