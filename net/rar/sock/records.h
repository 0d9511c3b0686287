/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RAR_SOCK_RECORDS_H
#define _RAR_SOCK_RECORDS_H

#include "rar.h"

struct msghdr;
struct rar_fingerprint;
struct rar_sock;
struct sock;

int rar_records_check(const struct rar_member *m, struct rar_fingerprint *fingerprint, u32 key,
		      u64 bytes, size_t len, u64 *room);
void rar_records_prepare(const struct rar_member *m, struct rar_operation *op);
int rar_records_send(struct sock *sk, struct rar_member *m, struct msghdr *msg, size_t len,
		     long timeo);
bool rar_records_wait(const struct rar_member *m);
bool rar_records_ready(const struct rar_operation *op);
int rar_records_hold(struct rar_member *m, struct rar_operation *op);
int rar_records_recv(struct rar_member *m, struct rar_operation *op, struct msghdr *msg,
		     size_t len, bool *end);

#endif /* _RAR_SOCK_RECORDS_H */
