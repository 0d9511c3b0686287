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

/*
 * The token that answers a JOIN. Any host may ask for it, so it is worthless from an
 * address other than the asker's.
 */
u64 rar_key_cookie(const struct rar_member *m, const struct rar_addr *from)
{
	const u32 *ip = (__force const u32 *)from->ip.s6_addr32;

	return siphash_3u64((u64)ip[0] << 32 | ip[1], (u64)ip[2] << 32 | ip[3],
			    (u64)from->af << 16 | be16_to_cpu(from->port),
			    &m->join.key) ?: 1;
}

/* Did this member give the packet's token to its sender? */
bool rar_key_is_token(const struct rar_member *m, const struct rar_pkt *pkt)
{
	u64 token = be64_to_cpu(pkt->h.token);

	return token == READ_ONCE(m->join.nonce) ||
	       token == rar_key_cookie(m, &pkt->from);
}
