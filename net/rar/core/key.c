// SPDX-License-Identifier: GPL-2.0
/*
 * The key that the members of a group may share: what proves in JOIN and JOIN_ACK that
 * its sender has it, and the epoch that only those with the key can derive. The key is
 * never sent. Nothing is encrypted, and packets of a running group carry no proof.
 */
#include "core/key.h"
#include "rar.h"

/* What is hashed; no padding between the fields. */
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
 * rar_key_proof() - what a sender with the key sends
 * @m:   member
 * @claim: what it says about itself and the receiver; JOIN and JOIN_ACK differ in the
 *         direction, so neither can be used as the other
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
 * rar_key_epoch() - the epoch of a number that rank 0 has drawn
 * @m:   member
 * @drawn: as it travels in PROPOSE and COMMIT
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
 * What a JOIN is answered with. Anybody may ask, so it is no use from another
 * address than the asker's.
 */
u64 rar_key_cookie(const struct rar_member *m, const struct rar_addr *from)
{
	const u32 *ip = (__force const u32 *)from->ip.s6_addr32;

	return siphash_3u64((u64)ip[0] << 32 | ip[1], (u64)ip[2] << 32 | ip[3],
			    (u64)from->af << 16 | be16_to_cpu(from->port),
			    &m->join.key) ?: 1;
}

/* Is the token of a packet one that this member gave to its sender? */
bool rar_key_is_token(const struct rar_member *m, const struct rar_pkt *pkt)
{
	u64 token = be64_to_cpu(pkt->h.token);

	return token == READ_ONCE(m->join.nonce) ||
	       token == rar_key_cookie(m, &pkt->from);
}
