/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_RING_FAIL_H
#define _RAR_RING_FAIL_H

#include "rar.h"

void rar_fail_tell(struct rar_link *link);
void rar_fail_join(struct rar_member *m, struct rar_bye *bye);
void rar_fail_tell_join(struct rar_member *m, const struct rar_bye *bye,
			const struct rar_error *err);
void rar_fail(struct rar_member *m, const struct rar_error *err);
void rar_fail_pair(struct rar_member *m, int err, enum rar_reason why,
		   u32 rank, u32 other, u64 op_seq);
void rar_fail_differs(struct rar_member *m,
		      const struct rar_fingerprint *theirs,
		      const struct rar_operation *op, enum rar_reason why,
		      u32 rank);
bool rar_fail_narrow(const struct rar_member *m, u32 lost, u64 since, u64 now);
void rar_fail_sent(struct rar_link *link, u64 op_seq, int err);

#endif /* _RAR_RING_FAIL_H */
