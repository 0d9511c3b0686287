/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_GROUP_TRUST_H
#define _RAR_GROUP_TRUST_H

#include "rar.h"

u64 rar_trust_of_prev(const struct rar_member *m, const struct rar_pkt *pkt,
		      const struct rar_join_hdr *jh);
u64 rar_trust_to_prev(const struct rar_member *m, const struct rar_pkt *pkt,
		      const struct rar_join_hdr *jh, u64 echo);
u64 rar_trust_to_next(const struct rar_member *m, u64 echo);
u64 rar_trust_of_next(const struct rar_member *m, const struct rar_pkt *pkt,
		      const struct rar_join_hdr *jh);
u64 rar_trust_refuses(const struct rar_member *m, const struct rar_pkt *pkt,
		      const struct rar_join_hdr *jh,
		      const struct rar_reject_hdr *r);
u64 rar_trust_of_refusal(const struct rar_member *m, const struct rar_pkt *pkt,
			 const struct rar_reject_hdr *r);
bool rar_trust_names_prev(const struct rar_member *m);
bool rar_trust_believes(const struct rar_member *m, u32 rank);
enum rar_reason rar_trust_stranger(const struct rar_member *m,
				   const struct rar_pkt *pkt,
				   const struct rar_join_hdr *jh);

#endif /* _RAR_GROUP_TRUST_H */
