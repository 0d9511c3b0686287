// SPDX-License-Identifier: GPL-2.0
/*
 * Whom a member that joins believes: proofs that a neighbour has the key, and
 * what tells the predecessor from a stranger. See the comment of join.c.
 */
#include "core/addr.h"
#include "core/key.h"
#include "core/member.h"
#include "group/trust.h"

/* The proof in a JOIN that came. */
u64 rar_trust_of_prev(const struct rar_member *m, const struct rar_pkt *pkt,
		      const struct rar_join_hdr *jh)
{
	struct rar_claim c = {
		.nonce = be64_to_cpu(jh->nonce),
		.echo = be64_to_cpu(pkt->h.token),
		.size = be32_to_cpu(jh->size),
		.src = be16_to_cpu(pkt->h.src),
		.dst = be16_to_cpu(pkt->h.dst),
		.from = &pkt->from,
		.to = &pkt->to,
	};

	return rar_key_proof(m, &c);
}

/* The proof in the JOIN_ACK that answers it with the cookie @echo. */
u64 rar_trust_to_prev(const struct rar_member *m, const struct rar_pkt *pkt,
		      const struct rar_join_hdr *jh, u64 echo)
{
	struct rar_claim c = {
		.nonce = be64_to_cpu(jh->nonce),
		.echo = echo,
		.size = m->size,
		.src = m->rank,
		.dst = be16_to_cpu(pkt->h.src),
		.from = &pkt->to,
		.to = &pkt->from,
	};

	return rar_key_proof(m, &c);
}

/* The proof in a JOIN that is sent with the cookie @echo. */
u64 rar_trust_to_next(const struct rar_member *m, u64 echo)
{
	const struct rar_path *path = &m->link[RAR_NEXT]->path;
	struct rar_claim c = {
		.nonce = m->join.nonce,
		.echo = echo,
		.size = m->size,
		.src = m->rank,
		.dst = m->link[RAR_NEXT]->rank,
		.from = &path->src,
		.to = &path->dst,
	};

	return rar_key_proof(m, &c);
}

/* The proof in the JOIN_ACK that answers it. */
u64 rar_trust_of_next(const struct rar_member *m, const struct rar_pkt *pkt,
		      const struct rar_join_hdr *jh)
{
	struct rar_claim c = {
		.nonce = be64_to_cpu(pkt->h.token),
		.echo = be64_to_cpu(jh->nonce),
		.size = be32_to_cpu(jh->size),
		.src = be16_to_cpu(pkt->h.src),
		.dst = be16_to_cpu(pkt->h.dst),
		.from = &pkt->from,
		.to = &pkt->to,
	};

	return rar_key_proof(m, &c);
}

/* What the proof of a REJECT covers besides the ranks and addresses. */
static u64 refusal(const struct rar_reject_hdr *r)
{
	return (u64)be32_to_cpu(r->err) << 32 | be32_to_cpu(r->reason) << 1 |
	       (be64_to_cpu(r->op_seq) & 1);
}

/* The proof in the REJECT that answers a JOIN. */
u64 rar_trust_refuses(const struct rar_member *m, const struct rar_pkt *pkt,
		      const struct rar_join_hdr *jh,
		      const struct rar_reject_hdr *r)
{
	struct rar_claim c = {
		.nonce = be64_to_cpu(jh->nonce),
		.echo = refusal(r),
		.refuses = true,
		.src = m->rank,
		.dst = be16_to_cpu(pkt->h.src),
		.from = &pkt->to,
		.to = &pkt->from,
	};

	return rar_key_proof(m, &c);
}

/* The proof in a REJECT that came. */
u64 rar_trust_of_refusal(const struct rar_member *m, const struct rar_pkt *pkt,
			 const struct rar_reject_hdr *r)
{
	struct rar_claim c = {
		.nonce = be64_to_cpu(pkt->h.token),
		.echo = refusal(r),
		.refuses = true,
		.src = be16_to_cpu(pkt->h.src),
		.dst = be16_to_cpu(pkt->h.dst),
		.from = &pkt->from,
		.to = &pkt->to,
	};

	return rar_key_proof(m, &c);
}

/* Does an address or a key tell the predecessor from strangers? */
bool rar_trust_names_prev(const struct rar_member *m)
{
	return m->trust.prev.af || rar_key_is_set(&m->trust.key);
}

/* Is the predecessor where the table says? */
static bool prev_in_table(const struct rar_member *m)
{
	return rar_addr_same(&m->link[RAR_PREV]->path.dst,
			     &m->join.table[m->link[RAR_PREV]->rank].addr);
}

/*
 * May the neighbour with this rank end the join? From READY on the table names
 * it.
 */
bool rar_trust_believes(const struct rar_member *m, u32 rank)
{
	return rank == m->link[RAR_NEXT]->rank || rar_trust_names_prev(m) ||
	       (READ_ONCE(m->state) >= RAR_S_READY && prev_in_table(m));
}

/*
 * Why the sender is not the predecessor, or RAR_R_NONE. Its JOIN echoes our
 * cookie. The proof covers the size that it claims, so a proven sender may
 * still disagree about the size.
 */
enum rar_reason rar_trust_stranger(const struct rar_member *m,
				   const struct rar_pkt *pkt,
				   const struct rar_join_hdr *jh)
{
	const struct rar_addr *prev = &m->trust.prev;

	if (prev->af &&
	    (prev->af != pkt->from.af || prev->port != pkt->from.port ||
	     !ipv6_addr_equal(&prev->ip, &pkt->from.ip)))
		return RAR_R_PREV;
	return be64_to_cpu(jh->proof) == rar_trust_of_prev(m, pkt, jh) ?
		       RAR_R_NONE :
		       RAR_R_KEY;
}
