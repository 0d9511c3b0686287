// SPDX-License-Identifier: GPL-2.0
/*
 * The validator: which neighbour may send which type of packet, with which
 * token, from which address and by which device. No other file judges that.
 */
#include <net/ipv6.h>

#include "core/member.h"
#include "core/op.h"
#include "core/seal.h"
#include "group/enter.h"
#include "group/join.h"
#include "rar.h"
#include "ring/direct.h"
#include "rx/datagram.h"
#include "rx/validate.h"
#include "tx/control.h"
#include "tx/route.h"

static bool addr_equal(const struct rar_addr *a, const struct rar_addr *b)
{
	if (a->af != b->af)
		return false;
	return a->af == AF_INET6 ? ipv6_addr_equal(&a->ip, &b->ip) :
		a->ip.s6_addr32[0] == b->ip.s6_addr32[0];
}

/**
 * rar_validate_address() - is a packet for an address of this member?
 * @m:   member
 * @pkt: packet
 *
 * The ingress hook also sees packets that only pass through. A member bound to
 * no address can be joined at any local address.
 */
bool rar_validate_address(const struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_link *link;
	u32 n, i;

	rar_each_link(link, m)
		if (addr_equal(&pkt->to, &link->path.src))
			return true;
	/* Pairs with the release in set_rails(). */
	n = smp_load_acquire(&m->nrails);
	for (i = 0; i < n; i++)
		if (addr_equal(&pkt->to, &m->rail[i]))
			return true;
	return addr_equal(&pkt->to, &m->self) ||
	       (pkt->local && pkt->h.type == RAR_T_JOIN && !m->self.af);
}

#define FROM_PREV	BIT(RAR_PREV)
#define FROM_NEXT	BIT(RAR_NEXT)
#define FROM_BOX	BIT(RAR_LEG)
/* From a rank that exchanges directly. */
#define FROM_PEER	BIT(RAR_LINKS)
/* The type's function looks where it comes from. */
#define FROM_ANY	BIT(RAR_LINKS + 1)
/* From a member, or a box below, to a box. */
#define TO_BOX		BIT(RAR_LINKS + 2)
/* From anybody who knows the token. */
#define FROM_ANYONE	BIT(RAR_LINKS + 3)

/* The token is the epoch, of the link if it has its own. */
#define BY_EPOCH	BIT(0)
/* The token is our nonce, which the successor and the table have. */
#define BY_NONCE	BIT(1)
/* The token is the cookie by which the predecessor was accepted. */
#define BY_PASS		BIT(2)
/* The token is the group's epoch, although the link has its own. */
#define BY_GROUP	BIT(3)
/* The type's function judges the token. */
#define BY_TYPE		BIT(4)

#define LANES		(RAR_MAX_LANES - 1)
#define HDR(name)	sizeof(struct rar_##name##_hdr)

/*
 * Per type: the shortest packet, which neighbours may send it, which token it
 * has, and from how many ports after the neighbour's own it may come, one per
 * lane.
 */
static const struct input_type {
	u16 min;
	u16 from;
	u8 token;
	u8 more_ports;
} input_types[] = {
	[RAR_T_RS]	= { HDR(data), FROM_PREV | TO_BOX | FROM_BOX, BY_EPOCH,
			    LANES },
	[RAR_T_AG]	= { HDR(data), FROM_PREV | FROM_BOX, BY_EPOCH, LANES },
	[RAR_T_ACK]	= { HDR(ack), FROM_NEXT | FROM_BOX, BY_EPOCH, LANES },
	[RAR_T_PROBE]	= { HDR(probe), FROM_PREV | TO_BOX, BY_EPOCH, LANES },
	[RAR_T_WANT]	= { HDR(chunks), FROM_NEXT | TO_BOX, BY_EPOCH, LANES },
	[RAR_T_RETURN]	= { HDR(chunks), TO_BOX | FROM_BOX, BY_EPOCH },
	[RAR_T_ENTERED]	= { HDR(entered), FROM_BOX, BY_GROUP },
	[RAR_T_DIRECT]	= { HDR(data), FROM_PEER, BY_EPOCH, LANES },
	[RAR_T_DONE]	= { HDR(done), FROM_PEER, BY_EPOCH, LANES },
	[RAR_T_PEER_ACK] = { HDR(ack), FROM_PEER, BY_EPOCH, LANES },
	[RAR_T_RAIL]	= { HDR(rail), FROM_PREV | FROM_NEXT | FROM_PEER,
			    BY_EPOCH },
	[RAR_T_PAIR]	= { HDR(pair), FROM_ANY, BY_TYPE },
	[RAR_T_PAIR_ACK] = { HDR(pair), FROM_ANY, BY_TYPE },
	[RAR_T_OFFER]	= { HDR(offer), FROM_ANYONE, BY_NONCE },
	[RAR_T_JOIN]	= { HDR(join), FROM_PREV, BY_TYPE },
	[RAR_T_JOIN_ACK] = { HDR(join), FROM_NEXT, BY_NONCE },
	[RAR_T_REJECT]	= { HDR(reject), FROM_NEXT, BY_NONCE },
	[RAR_T_COLLECT]	= { HDR(table), FROM_PREV, BY_PASS },
	[RAR_T_PROPOSE]	= { HDR(table), FROM_PREV, BY_PASS },
	[RAR_T_COMMIT]	= { HDR(table), FROM_PREV, BY_PASS },
	[RAR_T_ABORT]	= { HDR(notice), FROM_PREV | FROM_NEXT,
			    BY_EPOCH | BY_NONCE | BY_PASS, LANES },
	[RAR_T_RESET]	= { sizeof(struct rar_hdr),
			    FROM_PREV | FROM_NEXT | TO_BOX | FROM_BOX,
			    BY_EPOCH },
	[RAR_T_FIN]	= { HDR(notice), FROM_PREV | FROM_NEXT, BY_EPOCH,
			    LANES },
	[RAR_T_LATE]	= { HDR(notice), FROM_PREV, BY_EPOCH, LANES },
	[RAR_T_FIN_ACK]	= { HDR(notice), FROM_PREV | FROM_NEXT, BY_EPOCH,
			    LANES },
};

static const struct input_type *input_type(u8 type)
{
	if (type >= ARRAY_SIZE(input_types) || !input_types[type].min)
		return NULL;
	return &input_types[type];
}

static bool port_of(const struct rar_path *path, const struct rar_pkt *pkt,
		    const struct input_type *t)
{
	u16 lane = ntohs(pkt->from.port) - ntohs(path->dst.port);

	return lane <= t->more_ports;
}

/* Where a packet of a link comes from; NULL: not from the other end. */
static struct rar_path *path_from(struct rar_link *link,
				  const struct rar_pkt *pkt,
				  const struct input_type *t)
{
	u32 n = rar_link_rails(link), i;
	struct rar_path *path;

	for (i = 0; i < n; i++) {
		path = rar_link_path(link, i);
		if (port_of(path, pkt, t) && addr_equal(&pkt->from, &path->dst))
			return path;
	}
	return NULL;
}

/*
 * Is the source rank a neighbour that may send this type, and does the packet
 * come from its address and port? The neighbour's kernel holds that port. It
 * also holds the ports of the lanes, unless another process there had one of
 * them first. A JOIN may come from any address, because that is how the
 * predecessor's address becomes known. Sets @pkt->link and @pkt->path.
 */
static enum rar_rx check_sender(struct rar_member *m, struct rar_pkt *pkt,
				const struct input_type *t)
{
	u32 src = be16_to_cpu(pkt->h.src);
	struct rar_link *link;
	bool known = false;

	pkt->link = NULL;
	pkt->path = NULL;
	if (t->from & FROM_ANYONE)
		return RAR_RX_DONE;
	if (t->from & FROM_ANY)
		return src < m->size && src != m->rank ?
		       RAR_RX_DONE : RAR_DROP(Rank);
	rar_each_link(link, m) {
		if (!(t->from & BIT(link->index)) || src != link->rank ||
		    !rar_link_to_rank(link))
			continue;
		known = true;
		pkt->path = path_from(link, pkt, t);
		if (pkt->h.type == RAR_T_JOIN || pkt->path) {
			pkt->link = link;
			return RAR_RX_DONE;
		}
	}
	link = t->from & FROM_PEER && m->direct.paired ?
		       rar_member_direct(m, src) : NULL;
	if (link) {
		known = true;
		pkt->path = path_from(link, pkt, t);
		if (pkt->path) {
			pkt->link = link;
			return RAR_RX_DONE;
		}
	}
	/* The sender may believe in another size; rar_join_rcv() tells it. */
	if (pkt->h.type == RAR_T_JOIN)
		return RAR_RX_DONE;
	return known ? RAR_DROP(Address) : RAR_DROP(Rank);
}

/*
 * The functions that take a packet whose sender or receiver is a box, or NULL.
 * The group may lose its box at any time.
 */
static const struct rar_aside *aside_of(const struct rar_member *m,
					const struct rar_pkt *pkt)
{
	if (pkt->h.type == RAR_T_OFFER ||
	    !rar_is_of_box(m, be16_to_cpu(pkt->h.src)))
		return NULL;
	return READ_ONCE(m->aside);
}

/*
 * Does a packet come by a link that leads to no rank, and does it have the
 * token of that link? Sets @pkt->link.
 */
static enum rar_rx check_aside(struct rar_member *m, struct rar_pkt *pkt,
			       const struct input_type *t)
{
	u16 from = m->rank == RAR_BOX_RANK ? TO_BOX : FROM_BOX;
	u64 epoch;

	pkt->link = NULL;
	pkt->path = NULL;
	if (t->from & from)
		pkt->link = pkt->aside->find(m, be16_to_cpu(pkt->h.src),
					     &pkt->from, 0);
	if (!pkt->link)
		return RAR_DROP(Rank);
	epoch = t->token == BY_GROUP ? m->epoch : READ_ONCE(pkt->link->epoch);
	if (!epoch || be64_to_cpu(pkt->h.token) != epoch)
		return RAR_DROP(Epoch);
	if (!port_of(&pkt->link->path, pkt, t) ||
	    !addr_equal(&pkt->from, &pkt->link->path.dst))
		return RAR_DROP(Address);
	return RAR_RX_DONE;
}

static enum rar_rx check_token(struct rar_member *m, const struct rar_pkt *pkt,
			       const struct input_type *t)
{
	u64 token = be64_to_cpu(pkt->h.token);

	if (t->token & BY_TYPE)
		return RAR_RX_DONE;
	if (!token)
		return RAR_DROP(Epoch);
	if ((t->token & BY_EPOCH) && token == m->epoch)
		return RAR_RX_DONE;
	if ((t->token & BY_NONCE) && token == READ_ONCE(m->join.nonce))
		return RAR_RX_DONE;
	if ((t->token & BY_PASS) && token == READ_ONCE(m->join.pass))
		return RAR_RX_DONE;
	if (t->token == BY_EPOCH && pkt->h.type != RAR_T_RESET)
		rar_control_reset(m, pkt);
	return RAR_DROP(Epoch);
}

/* Is it the first piece of a carrier? */
static bool is_cut(const struct rar_pkt *pkt)
{
	struct rar_data_hdr buf, *dh;

	if ((pkt->h.type != RAR_T_RS && pkt->h.type != RAR_T_AG) ||
	    pkt->len < sizeof(buf))
		return false;
	dh = rar_datagram_header(pkt, pkt->off, sizeof(buf), &buf);
	return dh && (dh->flags & RAR_F_WHOLE);
}

/* Does the packet come by a device that its sender's packets may come by? */
static enum rar_rx check_device(struct rar_member *m, const struct rar_pkt *pkt)
{
	struct rar_path *path = pkt->path;
	bool good;

	if (!path && pkt->link)
		path = &pkt->link->path;
	good = path && pkt->h.type != RAR_T_JOIN ?
		    rar_route_takes(m, path, &pkt->way) :
		    rar_route_takes_from(m, &pkt->from, &pkt->to, &pkt->way);

	return good ? RAR_RX_DONE : RAR_DROP(Device);
}

/* A seal is missing or wrong: perhaps that is why a join or a leg fails. */
static void unheard(struct rar_member *m, const struct rar_pkt *pkt,
		    enum rar_reason why)
{
	rar_join_rcv_unheard(m, pkt, why);
	rar_enter_rcv_unheard(m, pkt, why);
}

/*
 * Is the packet as long as its header says, but for the seal? Leaves the seal
 * out of @pkt->len.
 */
static enum rar_rx check_length(struct rar_member *m, struct rar_pkt *pkt)
{
	u32 len = sizeof(pkt->h) + be16_to_cpu(pkt->h.len);

	if (pkt->len == len + m->tail) {
		pkt->len = len;
		return RAR_RX_DONE;
	}
	if (pkt->len == len + (m->tail ? 0 : sizeof(struct rar_seal_tail))) {
		unheard(m, pkt, RAR_R_SECURITY);
		return m->tail ? RAR_DROP(Unsealed) : RAR_DROP(Length);
	}
	return is_cut(pkt) ? RAR_DROP(Cut) : RAR_DROP(Length);
}

/* Is the seal right? It was opened already if the packet before led to it. */
static enum rar_rx open_seal(struct rar_member *m, struct rar_pkt *pkt)
{
	enum rar_rx ret;

	if (pkt->opened)
		return RAR_RX_DONE;
	ret = rar_seal_open(m, pkt, pkt->off, pkt->len);
	pkt->opened = ret == RAR_RX_DONE;
	if (ret == RAR_DROP(Seal))
		unheard(m, pkt, RAR_R_KEY);
	return ret;
}

/* Packets may go where this one came from, if it came by a rail. */
static void note_rail(const struct rar_pkt *pkt)
{
	struct rar_rail *rail;

	if (!pkt->path || pkt->path == &pkt->link->path)
		return;
	rail = container_of(pkt->path, struct rar_rail, path);
	if (!READ_ONCE(rail->heard))
		WRITE_ONCE(rail->heard, true);
}

/**
 * rar_validate() - check a packet: version, type, length, token, sender,
 * device, and last its seal
 * @m:   member that it is for
 * @pkt: packet whose datagram is right; @pkt->link and @pkt->aside are set
 *
 * After that every byte may be trusted, except the operation part of the data
 * header, which rar_op_check() judges against the operation. Softirq.
 *
 * Return: RAR_RX_DONE, or the drop with its reason.
 */
enum rar_rx rar_validate(struct rar_member *m, struct rar_pkt *pkt)
{
	const struct input_type *t;
	enum rar_rx ret;

	if ((pkt->h.version & 0xf) != RAR_WIRE_VERSION) {
		rar_join_rcv_odd(m, pkt);
		return RAR_DROP(Version);
	}
	t = input_type(pkt->h.type);
	if (!t)
		return RAR_DROP(Type);
	if (pkt->len < t->min)
		return RAR_DROP(Short);
	ret = check_length(m, pkt);
	if (ret != RAR_RX_DONE)
		return ret;
	if (pkt->len < t->min)
		return RAR_DROP(Short);
	if (rar_member_state(m) == RAR_S_BOUND && pkt->h.type != RAR_T_JOIN)
		return RAR_DROP(State);
	pkt->aside = aside_of(m, pkt);
	ret = pkt->aside ? check_aside(m, pkt, t) : check_token(m, pkt, t);
	if (ret == RAR_RX_DONE && !pkt->aside)
		ret = check_sender(m, pkt, t);
	if (ret == RAR_RX_DONE)
		ret = check_device(m, pkt);
	if (ret == RAR_RX_DONE && m->tail)
		ret = open_seal(m, pkt);
	if (ret == RAR_RX_DONE)
		note_rail(pkt);
	return ret;
}

/* Does the function of the packet's type, which is known, judge the token? */
bool rar_validate_by_type(const struct rar_pkt *pkt)
{
	return input_types[pkt->h.type].token == BY_TYPE;
}

/**
 * rar_validate_is_data() - does a frame bring data of the running epoch?
 * @m:   member that it is for; it has no other epoch
 * @pkt: packet
 */
bool rar_validate_is_data(const struct rar_member *m, const struct rar_pkt *pkt)
{
	return (pkt->h.type == RAR_T_RS || pkt->h.type == RAR_T_AG) &&
	       rar_member_runs(m) && !aside_of(m, pkt) &&
	       be64_to_cpu(pkt->h.token) == m->epoch &&
	       rar_datagram_header(pkt, pkt->off, sizeof(struct rar_data_hdr),
				   NULL);
}
