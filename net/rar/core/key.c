// SPDX-License-Identifier: GPL-2.0
/*
 * The key that the members of a group may share, the proofs made with it, and epochs.
 *
 * A proof in JOIN and JOIN_ACK shows that its sender has the key. Only ranks with the key can
 * derive the epoch. The key is never sent. Nothing is encrypted, and packets of a running
 * group carry no proof.
 */
#include "core/key.h"
#include "rar.h"

/* The fields that are hashed, without padding between them. */
struct key_input {
	u64 group;
	u64 nonce;
	u64 echo;
	u32 size;
	u16 src, dst;
	struct in6_addr from, to;
	__be16 from_port, to_port;
	u32 zero;
};

/* What a cookie is made of, as above. */
struct cookie_input {
	struct in6_addr ip;
	u64 nonce;
	u16 af;
	__be16 port;
	u32 zero;
};

/**
 * rar_key_proof() - the proof for a JOIN or JOIN_ACK
 * @m:   member
 * @claim: what the sender says about itself and the receiver; JOIN and JOIN_ACK differ in the
 *         direction, so one can never be used as the other
 *
 * Return: the proof; 0 without a key, never 0 with one.
 */
u64 rar_key_proof(const struct rar_member *m, const struct rar_claim *claim)
{
	struct key_input in = {
		.group = m->id,
		.nonce = claim->nonce,
		.echo = claim->echo,
		.size = claim->size,
		.src = claim->src,
		.dst = claim->dst,
		.from = claim->from->ip,
		.to = claim->to->ip,
		.from_port = claim->from->port,
		.to_port = claim->to->port,
	};

	static_assert(sizeof(in) == 72);
	if (!rar_key_is_set(&m->trust.key))
		return 0;
	return siphash(&in, sizeof(in), &m->trust.key) ?: 1;
}

/**
 * rar_key_epoch() - the epoch that follows from the number rank 0 has drawn
 * @m:   member
 * @drawn: number as it travels in PROPOSE and COMMIT
 *
 * Return: the epoch; @drawn itself without a key.
 */
u64 rar_key_epoch(const struct rar_member *m, u64 drawn)
{
	if (!rar_key_is_set(&m->trust.key))
		return drawn;
	return siphash_2u64(drawn, m->id, &m->trust.key) ?: 1;
}

/**
 * rar_key_cookie() - the token that answers a JOIN
 * @m:     member
 * @from:  where the JOIN came from
 * @nonce: its nonce
 *
 * Any host may ask for it. It proves that the asker receives at its address, and nothing else. So
 * it is good for a JOIN of this nonce from this address. Only if that JOIN is accepted it becomes
 * the token of the predecessor's other packets (struct rar_join_state.pass).
 *
 * Return: the cookie, never 0.
 */
u64 rar_key_cookie(const struct rar_member *m, const struct rar_addr *from, u64 nonce)
{
	struct cookie_input in = {
		.ip = from->ip,
		.nonce = nonce,
		.af = from->af,
		.port = from->port,
	};

	static_assert(sizeof(in) == 32);
	return siphash(&in, sizeof(in), &m->join.key) ?: 1;
}
