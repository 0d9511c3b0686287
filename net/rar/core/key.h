/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_CORE_KEY_H
#define _RAR_CORE_KEY_H

#include "rar.h"

void rar_key_hash(const u8 *key, u32 key_len, const void *data, u32 len,
		  u8 *hash, u32 hash_len);
void rar_key_derive(const struct rar_secret *secret, const void *what, u32 len,
		    void *key, u32 key_len);
void rar_key_set(struct rar_member *m, const struct rar_secret *secret);
void rar_key_set_box(struct rar_member *m, const struct rar_secret *secret);
u64 rar_key_proof(const struct rar_member *m, const struct rar_claim *claim);
u64 rar_key_chain(const struct rar_member *m, u64 hash, const void *data, size_t len);
u64 rar_key_digest(const struct rar_member *m, u64 hash);
u64 rar_key_epoch(const struct rar_member *m, u64 hash);
u64 rar_key_pair(const struct rar_member *m, u64 nonce, const struct rar_pair_hdr *ph);
u64 rar_key_cookie(const struct rar_member *m, const struct rar_addr *from, u64 nonce);

#endif /* _RAR_CORE_KEY_H */
