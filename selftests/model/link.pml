/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The link: numbers, acknowledgements, una, giving up and sending again.
 *
 * Modelled line by line: number() of link.c; ack_process(), give_up() and advance_una() of
 * loss.c; rx_advance(), rx_set() and ack_fill_bitmap() of ack.c. The windows are small: SLOTS
 * in flight, RX_WIN = 2 * SLOTS, a bitmap of BITMAP numbers, and numbers of five bits that
 * wrap. FAULTS times in all a data packet or an ACK is lost, duplicated, or delayed beyond its
 * timeout. Packets and ACKs overtake each other without limit, ACKs two at a time.
 *
 * Left out, and why that is sound:
 *
 * - The contents of a chunk: claim and publish are one bit, "has".
 * - Time: any number may be given up, not only those that the timers would give up. That
 *   costs a fault, unless neither its packet nor any ACK is on the way. All numbers may also
 *   be given up at once, as at the third timeout.
 * - Numbers so old that they look new (half of the 32 bits later).
 *
 * Checked: a chunk that counts as acknowledged is there, the windows hold, and everything is
 * acknowledged in the end. MUTATION removes a rule.
 */
#ifndef CHUNKS
#define CHUNKS	5
#endif
#ifndef SLOTS
#define SLOTS	2
#endif
#ifndef BITMAP
#define BITMAP	2
#endif
#ifndef FAULTS
#define FAULTS	2
#endif
#define RX_WIN	(2 * SLOTS)

#define NO_REGENERATE	1	/* 1. chunks given up are not sent again */
#define CUM_SKIPS	2	/* 3. cum passes a gap by itself */
#define NO_RANGE	3	/* 4. record numbers outside the window */
#define OLD_BITS	4	/* 4. take bits below una */
#define NO_CLEAR	5	/* 4. keep the bits that cum has passed */
#define NO_UNA		6	/* 7. the receiver waits for numbers given up */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#define NUMBERS	32		/* a multiple of SLOTS and RX_WIN */
#define FIRST	(NUMBERS - SLOTS)
#define ADD(a, b) (((a) + (b)) % NUMBERS)
#define SUB(a, b) (((a) + NUMBERS - (b)) % NUMBERS)
#define BEFORE(a, b) (SUB(a, b) >= NUMBERS / 2)
#define TX_BIT(seq) (1 << ((seq) % SLOTS))
#define RX_BIT(seq) (1 << ((seq) % RX_WIN))
#define EVERYTHING ((1 << CHUNKS) - 1)

/* The sender. */
byte next = FIRST, una = FIRST;
byte resolved;
byte sent[SLOTS];		/* which chunk */
byte pend = EVERYTHING;
byte acked;

/* The receiver. */
byte cum = FIRST, highest = FIRST;
byte seen;
byte has;
bool ack_due;

/* The network: packets by number, and ACKs. */
byte on_way[NUMBERS];
byte with_una[NUMBERS];
byte with_chunk[NUMBERS];
bool ack[2];
byte ack_cum[2], ack_base[2], ack_bits[2];
byte faults = FAULTS;

mtype = { ARRIVES, LOST, COPIED, GIVEN_UP, EARLY, ALL_EARLY, ACK_SENT, ACK_ARRIVES,
	  ACK_LOST, ACK_COPIED };
mtype what;
byte j;

/* Variables of one step. */
hidden byte seq, base, bits, i, c, u;

/* -- the sender ----------------------------------------------------------- */

#define PENDING(c) (pend & (1 << (c)))

/* rar_push(): the lowest pending chunk gets the next number. */
inline push()
{
	do
	:: pend != 0 && SUB(next, una) < SLOTS ->
		c = 0;
		do
		:: !PENDING(c) -> c++
		:: else -> break
		od;
		pend = pend & ~(1 << c);
		sent[next % SLOTS] = c;
		resolved = resolved & ~TX_BIT(next);
		assert(on_way[next] == 0);	/* numbers do not come round */
		on_way[next] = 1;
		with_una[next] = una;
		with_chunk[next] = c;
		next = ADD(next, 1)
	:: else -> break
	od
}

inline advance_una()
{
	do
	:: una != next && (resolved & TX_BIT(una)) -> una = ADD(una, 1)
	:: else -> break
	od
}

inline ack_one(s)
{
	resolved = resolved | TX_BIT(s);
	c = sent[(s) % SLOTS];
	assert(has & (1 << c));		/* an acknowledged chunk is there */
	acked = acked | (1 << c);
	pend = pend & ~(1 << c)
}

inline give_up_one(s)
{
	resolved = resolved | TX_BIT(s);
	c = sent[(s) % SLOTS];
	if
	:: !(acked & (1 << c)) && RULE(NO_REGENERATE) -> pend = pend | (1 << c)
	:: else
	fi
}

inline give_up(s)
{
	give_up_one(s);
	advance_una()
}

/* give_up_late(): no lost number keeps the next attempt back. */
inline give_up_all()
{
	seq = una;
	do
	:: seq != next && !(resolved & TX_BIT(seq)) ->
		give_up_one(seq); seq = ADD(seq, 1)
	:: seq != next && (resolved & TX_BIT(seq)) -> seq = ADD(seq, 1)
	:: else -> break
	od;
	una = next
}

/* rar_loss_rcv_ack() */
inline rcv_ack(k)
{
	assert(!BEFORE(next, ack_cum[k]));	/* otherwise dropped: DropSeq */
	seq = una;
	do
	:: BEFORE(seq, ack_cum[k]) -> ack_one(seq); seq = ADD(seq, 1)
	:: else -> break
	od;
	for (i : 0 .. BITMAP - 1) {
		seq = ADD(ack_base[k], i);
		if
		:: (ack_bits[k] & (1 << i)) && BEFORE(seq, next) &&
		   (!BEFORE(seq, una) || !RULE(OLD_BITS)) -> ack_one(seq)
		:: else
		fi
	};
	advance_una()
}

/* -- the receiver --------------------------------------------------------- */

/* Clear the bit of cum and go on to the next number. */
inline pass()
{
	if
	:: RULE(NO_CLEAR) -> seen = seen & ~RX_BIT(cum)
	:: else
	fi;
	cum = ADD(cum, 1)
}

inline rx_advance(to)
{
	if
	:: !BEFORE(to, cum) && SUB(to, cum) >= RX_WIN ->
		seen = 0;
		cum = to
	:: else
	fi;
	do
	:: BEFORE(cum, to) -> pass()
	:: else -> break
	od;
	do
	:: (seen & RX_BIT(cum)) && (RULE(NO_CLEAR) || BEFORE(cum, highest)) ->
		pass()
	:: else -> break
	od;
	if
	:: BEFORE(highest, cum) -> highest = cum
	:: else
	fi
}

inline rx_set(s)
{
	if
	:: (BEFORE(s, cum) || SUB(s, cum) >= RX_WIN) && RULE(NO_RANGE)
	:: else ->
		seen = seen | RX_BIT(s);
		if
		:: !BEFORE(s, highest) -> highest = ADD(s, 1)
		:: else
		fi;
		if
		:: RULE(CUM_SKIPS) -> rx_advance(cum)
		:: else -> rx_advance(highest)
		fi
	fi
}

/* rar_chunk_rcv() and rar_ack_record() */
inline rcv_data()
{
	assert(SUB(j, with_una[j]) < SLOTS);	/* rar_ack_check() */
	has = has | (1 << with_chunk[j]);
	u = with_una[j];
	if
	:: RULE(NO_UNA) -> rx_advance(u)
	:: else
	fi;
	rx_set(j);
	ack_due = true
}

inline take()
{
	on_way[j]--;
	if
	:: on_way[j] == 0 -> with_una[j] = 0; with_chunk[j] = 0
	:: else
	fi
}

/* rar_ack_send() */
inline send_ack()
{
	ack_due = false;
	base = cum;
	if
	:: SUB(highest, cum) > BITMAP -> base = SUB(highest, BITMAP)
	:: else
	fi;
	bits = 0;
	for (i : 0 .. BITMAP - 1) {
		seq = ADD(base, i);
		if
		:: BEFORE(seq, highest) && (seen & RX_BIT(seq)) ->
			bits = bits | (1 << i)
		:: else
		fi
	};
	i = (ack[0] -> 1 : 0);
	ack[i] = true;
	ack_cum[i] = cum;
	ack_base[i] = base;
	ack_bits[i] = bits
}

inline drop_ack(k)
{
	ack[k] = false;
	ack_cum[k] = 0;
	ack_base[k] = 0;
	ack_bits[k] = 0
}

/* -- what may happen ------------------------------------------------------ */

#define IS_HERE(s) (on_way[s] != 0)
#define MAY_COPY(s) (faults && on_way[s] == 1)
#define MAY_LOSE(s) (faults && on_way[s] != 0)
#define IS_OUT(s) (s != next && SUB(s, una) < SUB(next, una) && \
		   !(resolved & TX_BIT(s)))
#define IS_LOST(s) (IS_OUT(s) && on_way[s] == 0 && \
		    !ack_due && !ack[0] && !ack[1])
#define IS_SLOW(s) (faults && IS_OUT(s) && !IS_LOST(s))
#define HAS_ACK(k) (ack[k])
#define MAY_LOSE_ACK(k) (faults && ack[k])

#define FOR2(IF, WHAT, b) \
	:: IF(b) -> what = WHAT; j = b \
	:: IF((b + 1)) -> what = WHAT; j = b + 1
#define FOR8(IF, WHAT, b) FOR2(IF, WHAT, b) FOR2(IF, WHAT, (b + 2)) \
			  FOR2(IF, WHAT, (b + 4)) FOR2(IF, WHAT, (b + 6))
#define ANY(IF, WHAT) FOR8(IF, WHAT, 0) FOR8(IF, WHAT, 8) \
		      FOR8(IF, WHAT, 16) FOR8(IF, WHAT, 24)

#define COSTS(w) (w == LOST || w == COPIED || w == EARLY || w == ALL_EARLY || \
		  w == ACK_LOST || w == ACK_COPIED)

inline happen()
{
	if
	:: what == COPIED || what == ARRIVES -> rcv_data()
	:: what == GIVEN_UP || what == EARLY -> give_up(j)
	:: what == ALL_EARLY -> give_up_all()
	:: what == ACK_SENT -> send_ack()
	:: what == ACK_ARRIVES || what == ACK_COPIED -> rcv_ack(j)
	:: else
	fi;
	if
	:: what == ARRIVES || what == LOST -> take()
	:: what == ACK_ARRIVES || what == ACK_LOST -> drop_ack(j)
	:: else
	fi;
	push()
}

init
{
	d_step { push(); j = 0 };
	do
	:: atomic {
		if
		ANY(IS_HERE, ARRIVES)
		ANY(MAY_COPY, COPIED)
		ANY(MAY_LOSE, LOST)
		ANY(IS_LOST, GIVEN_UP)
		ANY(IS_SLOW, EARLY)
		FOR2(HAS_ACK, ACK_ARRIVES, 0)
		FOR2(MAY_LOSE_ACK, ACK_LOST, 0)
		FOR2(MAY_LOSE_ACK, ACK_COPIED, 0)
		:: ack_due && !(ack[0] && ack[1]) -> what = ACK_SENT
		:: faults && una != next -> what = ALL_EARLY
		fi;
		d_step {
			if
			:: COSTS(what) -> faults--
			:: else
			fi;
			happen();
			what = 0;
			j = 0
		}
	}
	:: acked == EVERYTHING -> break
	od
}
