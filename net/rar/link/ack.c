// SPDX-License-Identifier: GPL-2.0
/*
 * Acknowledgments, receiving side: records the numbers that came and tells the neighbour.
 * An acknowledgment is cumulative plus a bitmap. It is sent after RAR_ACK_EVERY packets, or
 * after RAR_ACK_DELAY_US if fewer packets came. While a number is missing only the bitmap tells
 * of the later ones, so it is sent before they are too many for a bitmap.
 */
#include "core/arrival.h"
#include "core/member.h"
#include "link/ack.h"
#include "link/link.h"
#include "link/straggler.h"
#include "tx/control.h"

#define ACK_BITS	(8 * sizeof_field(struct rar_ack_hdr, bitmap))
/* Numbers beyond a missing one per acknowledgment, so that each is in several bitmaps. */
#define ACK_GAP_EVERY	(ACK_BITS / 4)

/* The sender has given up everything below @una, so the receiver stops waiting for it, too. */
static void rx_advance(struct rar_link_rx *rx, u32 una)
{
	lockdep_assert_held(&rx->lock);
	if ((s32)(una - rx->cum) >= RAR_RX_WIN) {
		bitmap_zero(rx->seen, RAR_RX_WIN);
		rx->cum = una;
	}
	while (rar_seq_before(rx->cum, una))
		__clear_bit(rx->cum++ % RAR_RX_WIN, rx->seen);
	while (test_bit(rx->cum % RAR_RX_WIN, rx->seen))
		__clear_bit(rx->cum++ % RAR_RX_WIN, rx->seen);
	if (rar_seq_before(rx->highest, rx->cum))
		rx->highest = rx->cum;
}

/**
 * rar_ack_check() - can the numbers of a run belong to the window?
 * @dh: header of the run's first packet
 * @n:  chunks of the run
 *
 * Return: true if the run can be recorded.
 */
bool rar_ack_check(const struct rar_data_hdr *dh, u32 n)
{
	return be32_to_cpu(dh->seq) - be32_to_cpu(dh->una) + n - 1 < RAR_TX_SLOTS;
}

/*
 * Set the bit of a number. Returns true if the number shows a gap or fills one. A new number
 * that brings an old chunk means that the sender gave up too early.
 */
static bool rx_set(struct rar_link_rx *rx, u32 seq, bool dup)
{
	bool gap;

	if (rar_seq_before(seq, rx->cum) || seq - rx->cum >= RAR_RX_WIN)
		return true;
	gap = seq != rx->highest;
	if (dup && !test_bit(seq % RAR_RX_WIN, rx->seen))
		rx->dups++;
	__set_bit(seq % RAR_RX_WIN, rx->seen);
	if (!rar_seq_before(seq, rx->highest))
		rx->highest = seq + 1;
	rx_advance(rx, rx->cum);
	return gap;
}

/* Set the bits of a run as rx_set() does. @dups: chunks of it that this rank had before. */
static bool rx_set_run(struct rar_link_rx *rx, u32 seq, u64 which, u64 dups)
{
	u32 n = fls64(which), i;
	bool gap = false;

	if (!dups && which == rar_mask(n) && seq == rx->cum &&
	    seq == rx->highest) {
		rx->cum += n;
		rx->highest += n;
		return false;
	}
	for (i = 0; i < n; i++)
		if (which & (1ULL << i))
			gap |= rx_set(rx, seq + i, dups & (1ULL << i));
	return gap;
}

/**
 * rar_ack_record() - record the numbers of a run whose chunks were published or held
 * @link: link by which it came
 * @a:    the run; @done says which of its chunks came, @dups which of them came before
 *
 * Softirq.
 *
 * Return: true if the caller must send an acknowledgment now. Otherwise the timer sends it.
 */
bool rar_ack_record(struct rar_link *link, const struct rar_arrival *a)
{
	u64 now = a->now_us ?: rar_now_us(), due = now + RAR_ACK_DELAY_US;
	const struct rar_data_hdr *dh = a->dh;
	struct rar_member *m = link->member;
	struct rar_link_rx *rx = &link->rx;
	bool at_once, first;

	spin_lock_bh(&rx->lock);
	rx_advance(rx, be32_to_cpu(dh->una));
	at_once = rx_set_run(rx, be32_to_cpu(dh->seq), a->done, a->dups);
	/* Perhaps the sender did not get the acknowledgments. */
	if (a->dups)
		WRITE_ONCE(rx->lane, rx->lane + 1);
	rx->newest_us = now;
	rx->ce += a->pkt->ce ? hweight64(a->done) : 0;
	if (++rx->unacked >= RAR_ACK_EVERY || (dh->flags & RAR_F_ACK_NOW) ||
	    (rx->cum != rx->highest && rx->highest - rx->told >= ACK_GAP_EVERY))
		at_once = true;
	first = !at_once && !rx->ack_us;
	if (first)
		rx->ack_us = due;
	spin_unlock_bh(&rx->lock);

	if (first) {
		spin_lock_bh(&m->tx_lock);
		rar_link_timer_at(m, due);
		spin_unlock_bh(&m->tx_lock);
	}
	return at_once;
}

static void ack_fill_bitmap(const struct rar_link_rx *rx,
			    struct rar_ack_hdr *ah)
{
	u32 n = min_t(u32, rx->highest - rx->cum, ACK_BITS);
	u32 base = rx->highest - n, i;

	ah->base = cpu_to_be32(base);
	for (i = 0; i < n; i++)
		if (test_bit((base + i) % RAR_RX_WIN, rx->seen))
			ah->bitmap[i / 8] |= 1 << i % 8;
}

/**
 * rar_ack_send() - acknowledge the packets that came by a link
 * @link: the link; no lock held
 *
 * It says which packets came, how much this rank has contributed, and how many chunks may
 * come early.
 */
void rar_ack_send(struct rar_link *link)
{
	struct rar_member *m = link->member;
	struct rar_link_rx *rx = &link->rx;
	struct rar_ack_hdr ah = {};
	u64 now;

	spin_lock_bh(&m->tx_lock);
	now = rar_now_us();
	rar_straggler_tell(m, &ah.slow, now);
	spin_unlock_bh(&m->tx_lock);

	spin_lock_bh(&rx->lock);
	ah.cum = cpu_to_be32(rx->cum);
	ah.ce = cpu_to_be32(rx->ce);
	ah.dups = cpu_to_be32(rx->dups);
	ah.delay_us = cpu_to_be32(rx->unacked && now > rx->newest_us ?
				  now - rx->newest_us : 0);
	ack_fill_bitmap(rx, &ah);
	rx->unacked = 0;
	rx->told = rx->highest;
	rx->ack_us = 0;
	spin_unlock_bh(&rx->lock);

	/* `posted` is read before `come`; see publish_whole(). */
	ah.posted = cpu_to_be64(smp_load_acquire(&m->op_whole));
	ah.come = cpu_to_be32(READ_ONCE(m->op_come));
	ah.done = cpu_to_be32(READ_ONCE(m->ops_done));
	ah.credit = cpu_to_be32(rar_link_early(link));
	rar_control_send(link, &ah, sizeof(ah), 0,
			 rar_link_is_direct(link) ? RAR_T_PEER_ACK : RAR_T_ACK,
			 m->epoch);
}

/* rar_ack_send() on every link by which chunks come with numbers. */
void rar_ack_send_all(struct rar_member *m)
{
	struct rar_link *link;

	rar_links_of(link, m, RAR_OUTS, RAR_LINKS)
		rar_ack_send(link);
	rar_each_partner(link, m)
		if (READ_ONCE(link->rx.seen))
			rar_ack_send(link);
}

/**
 * rar_ack_rcv_una() - answer a rank that lacks an acknowledgment, or credit
 * @link: link of a member in RUN or LEAVING, by which numbers come
 * @una:  the lowest number for which the rank waits
 */
void rar_ack_rcv_una(struct rar_link *link, u32 una)
{
	struct rar_link_rx *rx = &link->rx;

	spin_lock_bh(&rx->lock);
	rx_advance(rx, una);
	/* It was sent since no acknowledgment came. */
	WRITE_ONCE(rx->lane, rx->lane + 1);
	spin_unlock_bh(&rx->lock);
	rar_ack_send(link);
}

/**
 * rar_ack_rcv_probe() - answer a probe of the neighbour
 * @link: link of a member in RUN or LEAVING
 * @pkt:  validated PROBE
 */
void rar_ack_rcv_probe(struct rar_link *link, const struct rar_pkt *pkt)
{
	struct rar_member *m = link->member;
	struct rar_probe_hdr ph;

	if (skb_copy_bits(pkt->skb, pkt->off, &ph, sizeof(ph)))
		return;
	spin_lock_bh(&m->tx_lock);
	rar_straggler_hear(m, &ph.slow, rar_now_us());
	spin_unlock_bh(&m->tx_lock);
	rar_ack_rcv_una(link, be32_to_cpu(ph.una));
}

