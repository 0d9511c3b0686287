// SPDX-License-Identifier: GPL-2.0
/*
 * The key that the members of a group may share, the proofs made with it, and epochs.
 *
 * A proof in JOIN, JOIN_ACK and REJECT shows that its sender has the key. Only ranks with the key
 * can derive the epoch. The key is never sent. With RAR_SECURITY each packet
 * has a tag, see seal.c.
 */
#include <crypto/blake2s.h>
#include <linux/export.h>

#include "core/key.h"
#include "rar.h"

#define KEY_DIGEST	1	/* what is derived from the hash over the table */
#define KEY_EPOCH	2
#define KEY_CHAIN_MAX	(RAR_LEGS * sizeof(struct rar_wire_box))

/* The fields that are hashed, without padding between them. */
struct key_input {
	u64 group;
	u64 nonce;
	u64 echo;
	u32 size;
	u16 src, dst;
	struct in6_addr from, to;
	__be16 from_port, to_port;
	u32 refuses;
};

/* What a cookie is made of, as above. */
struct cookie_input {
	struct in6_addr ip;
	u64 nonce;
	u64 after;
	u16 af;
	__be16 port;
	u32 zero;
};

/* What a key of a join is derived from, without padding between the fields. */
struct derive_input {
	u8 label[8];
	__le64 group;
};

/**
 * rar_key_hash() - BLAKE2s with a key, RFC 7693
 * @key:      key
 * @key_len:  its bytes, 1 .. 32
 * @data:     what is hashed
 * @len:      its bytes
 * @hash:     result
 * @hash_len: its bytes, 1 .. 32
 */
void rar_key_hash(const u8 *key, u32 key_len, const void *data, u32 len,
		  u8 *hash, u32 hash_len)
{
	rar_blake2s(key, key_len, data, len, hash, hash_len);
}

/**
 * rar_key_derive() - derive a key from the key that the members share
 * @secret:  that key
 * @what:    what the new key is for: a label of 8 bytes and more
 * @len:     its bytes
 * @key:     the new key
 * @key_len: its bytes, 1 .. 32
 *
 * The shared key is random, so one call of a pseudorandom function is enough.
 */
void rar_key_derive(const struct rar_secret *secret, const void *what, u32 len,
		    void *key, u32 key_len)
{
	rar_key_hash(secret->bytes, secret->len, what, len, key, key_len);
}

/**
 * rar_key_set() - set the key of a member, and what the join derives from it
 * @m:      member in BOUND
 * @secret: the key; without a length there is none
 */
void rar_key_set(struct rar_member *m, const struct rar_secret *secret)
{
	struct derive_input in = {
		.label = "rar join",
		.group = cpu_to_le64(m->id),
	};
	struct derive_input proof = { .label = "rar prf" };

	m->trust.secret = *secret;
	memset(&m->trust.key, 0, sizeof(m->trust.key));
	if (!secret->len)
		return;
	rar_key_derive(secret, &proof, sizeof(proof), &m->trust.key,
		       sizeof(m->trust.key));
	rar_key_derive(secret, &in, sizeof(in), m->trust.join_key,
		       sizeof(m->trust.join_key));
}

/**
 * rar_key_set_box() - set the key of the boxes that a member uses, or that the
 *		       box has
 * @m:      member, or a box as one; nothing of it has a seal yet
 * @secret: the key; without a length there is none
 *
 * The key of entering needs no group: its seals cover the header, which names
 * the group.
 */
void rar_key_set_box(struct rar_member *m, const struct rar_secret *secret)
{
	struct derive_input in = { .label = "rar box" };

	m->trust.box = *secret;
	memset(m->trust.enter_key, 0, sizeof(m->trust.enter_key));
	if (secret->len)
		rar_key_derive(secret, &in, sizeof(in), m->trust.enter_key,
			       sizeof(m->trust.enter_key));
}
EXPORT_SYMBOL_GPL(rar_key_set_box);

/**
 * rar_key_proof() - the proof for a JOIN, JOIN_ACK or REJECT
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
		.refuses = claim->refuses,
	};

	static_assert(sizeof(in) == 72);
	if (!rar_key_is_set(&m->trust.key))
		return 0;
	return siphash(&in, sizeof(in), &m->trust.key) ?: 1;
}

/**
 * rar_key_chain() - add to a hash over the table
 * @m:    member
 * @hash: over what comes before
 * @data: what comes next
 * @len:  its length, at most KEY_CHAIN_MAX
 *
 * Return: the hash over both; with a key, only members that have it can compute it.
 */
u64 rar_key_chain(const struct rar_member *m, u64 hash, const void *data, size_t len)
{
	struct {
		__le64 before;
		u8 data[KEY_CHAIN_MAX];
	} in = { .before = cpu_to_le64(hash) };

	memcpy(in.data, data, len);
	return siphash(&in, sizeof(in.before) + len, &m->trust.key);
}

/**
 * rar_key_digest() - what PROPOSE and COMMIT tell of a table
 * @m:    member
 * @hash: over the table
 *
 * The table has the nonces of all ranks, and only ranks know these. So no one else can make the
 * digest, or the epoch.
 *
 * Return: the digest.
 */
u64 rar_key_digest(const struct rar_member *m, u64 hash)
{
	return siphash_2u64(hash, KEY_DIGEST, &m->trust.key);
}

/**
 * rar_key_epoch() - the epoch that follows from a table
 * @m:    member
 * @hash: over the table
 *
 * Return: the epoch, never 0. No packet of the join carries it.
 */
u64 rar_key_epoch(const struct rar_member *m, u64 hash)
{
	return siphash_2u64(hash, KEY_EPOCH, &m->trust.key) ?: 1;
}

/**
 * rar_key_pair() - the token of a PAIR or PAIR_ACK
 * @m:     member
 * @nonce: of the rank that is asked
 * @ph:    the packet; the type, the ranks, the challenge and the length are covered
 *
 * It shows that its sender knows the nonce, and does not tell it.
 *
 * Return: the token, never 0.
 */
u64 rar_key_pair(const struct rar_member *m, u64 nonce, const struct rar_pair_hdr *ph)
{
	const siphash_key_t key = { .key = { nonce, m->id } };
	u64 who = (u64)ph->h.type << 32 | (u32)be16_to_cpu(ph->h.src) << 16 |
		  be16_to_cpu(ph->h.dst);

	return siphash_3u64(be64_to_cpu(ph->challenge), who, be32_to_cpu(ph->bytes), &key) ?: 1;
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
 * It is also good for a while only: until a predecessor is accepted, or the group runs. So no late
 * copy of a JOIN is taken for one that a predecessor sends now.
 *
 * Return: the cookie, never 0.
 */
u64 rar_key_cookie(const struct rar_member *m, const struct rar_addr *from, u64 nonce)
{
	struct cookie_input in = {
		.ip = from->ip,
		.nonce = nonce,
		.after = READ_ONCE(m->state) >= RAR_S_RUN ? READ_ONCE(m->epoch) :
				READ_ONCE(m->join.peer_nonce[RAR_PREV]),
		.af = from->af,
		.port = from->port,
	};

	static_assert(sizeof(in) == 40);
	return siphash(&in, sizeof(in), &m->join.key) ?: 1;
}
