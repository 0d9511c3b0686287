/* SPDX-License-Identifier: GPL-2.0 */
/* Codecs: operations whose numbers travel in another form than the user's. */
#ifndef _RAR_CODEC_H
#define _RAR_CODEC_H

#include <linux/types.h>

#include "core/op.h"

struct iov_iter;
struct rar_member;

/*
 * struct rar_codec - how a user's numbers become those that the ranks add, and back
 * @from:   bytes of a number of the user
 * @to:     bytes of the same number as it travels; no less
 * @encode: conversion of the contribution
 * @decode: conversion of the result
 */
struct rar_codec {
	u8 from;
	u8 to;
	u8 encode;		/* enum rar_convert */
	u8 decode;		/* enum rar_convert */
};

/* The bytes of the user at @bytes of a tensor as it travels. */
static inline u64 rar_codec_user(const struct rar_operation *op, u64 bytes)
{
	return op->codec ? bytes / op->codec->to * op->codec->from : bytes;
}

const struct rar_codec *rar_codec_of(const struct rar_fingerprint *fingerprint);
int rar_codec_gather(struct rar_operation *op, struct iov_iter *iter, u64 len);
void rar_codec_prepare(struct rar_operation *op, u32 size);
void rar_codec_begin(struct rar_member *m, struct rar_operation *op);
int rar_codec_from_iter(const struct rar_operation *op, u64 off, struct iov_iter *iter, u64 len);
int rar_codec_to_iter(const struct rar_operation *op, u64 off, struct iov_iter *iter, u64 len);

#endif /* _RAR_CODEC_H */
