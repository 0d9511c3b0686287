/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ring: operations from post to release at N members.
 *
 * Modelled: the schedule (ring.c); hold, verify, claim, add or store, publish, record
 * (input.c, chunk.c, early.c, ack.c); pending, sent and acknowledged chunks, credit, windows,
 * choosing what to send, completion and release (link.c, op.c, done.c); a user who reads a
 * result late. FAULTS times in all the network loses, duplicates, corrupts a packet or delays
 * it beyond its timeout, loses an ACK, or brings a packet of another epoch. It reorders
 * without limit.
 *
 * Left out, and why that is sound:
 *
 * - A sum is the list of the ranks added, in order, two bits each. So a contribution added
 *   twice, left out or in another order shows.
 * - A packet is received in one step; rank.pml takes that step apart.
 * - Transmissions have no numbers, and an ACK names chunks; link.pml shows that cum, bitmap
 *   and una do exactly that.
 * - Time. A packet is found lost when neither it nor an ACK that names it is on the way; to
 *   find it lost earlier is a fault. So a run that stops before all operations are released
 *   is a stall, and a run that does not end is a livelock: no fairness is assumed.
 * - PROBE and its ACK are one step, taken only if the ACK has news.
 * - On a link at most two packets of one chunk and phase are on the way; a third is lost. One
 *   ACK is on the way, and the next waits for it, as the timer makes it. An ACK overtaken by
 *   a later one has no effect.
 * - Hand-over in memory (push.c): its runs are those in which packets are sent only for
 *   posted operations, and are received and acknowledged the moment they are sent.
 * - Joining, leaving and failing: the model is of one epoch. A closed member is a member
 *   whose user has read everything.
 *
 * KIND leaves out a phase. Without RS a block starts at its rank as AG, and a chunk that comes
 * says nothing about the other ranks. Without AG a block's sum stays at the rank before its
 * own, and nothing comes back.
 *
 * MUTATION removes a rule; each must be caught.
 */
#define UNUSED	99		/* a limit that is never reached */
#ifndef N
#define N	2		/* members: 2, 3 */
#endif
#ifndef OPS
#define OPS	2		/* operations: 1, 2 */
#endif
#define REDUCE	0
#define SCATTER	1
#define GATHER	2
#ifndef KIND
#define KIND	REDUCE		/* all-reduce, reduce-scatter, all-gather */
#endif
#define ADDS	(KIND != GATHER)
#define RETURNS	(KIND == REDUCE)
#ifndef CPB
#define CPB	1		/* chunks of a block */
#endif
#ifndef C
#define C	(N * CPB)	/* chunks of an operation, at most 4 */
#endif
#ifndef TABLE
#define TABLE	OPS		/* RAR_MAX_OPS */
#endif
#ifndef CREDIT
#define CREDIT	UNUSED		/* chunks */
#endif
#ifndef CWND
#define CWND	UNUSED		/* packets */
#endif
#ifndef WINDOW
#define WINDOW	UNUSED		/* own chunks on their way round */
#endif
#ifndef LATE
#define LATE	0		/* 1: a packet may be built after others came in */
#endif
#ifndef SLOW_ACK
#define SLOW_ACK 1		/* 1: an ACK is on its way for some time */
#endif
#ifndef LAZY
#define LAZY	1		/* 1: the user reads a result at any time */
#endif
#ifndef SYNC
#define SYNC	0		/* 1: some users post only after they have read */
#endif
#ifndef FAULTS
#define FAULTS	1
#endif

#define NO_STORE	1	/* 1. forward the sum, do not keep it */
#define RS_AGAIN	2	/* 1. send RS again after AG came */
#define RELEASE_EARLY	3	/* 2. off the table when complete */
#define FREE_EARLY	4	/* 2. free an operation that is complete and read */
#define CLOSE_FREES	5	/* 2. no orphan */
#define FREE_CHOSEN	6	/* 2. free under packets yet to be built */
#define INCOMPLETE	7	/* 2. release an operation once it is acknowledged */
#define NO_CLAIM	8	/* 3. duplicates are added */
#define LATE_VERIFY	9	/* 3. verify between claim and publish */
#define EARLY_RECORD	10	/* 3. record before verifying */
#define DROP_HELD	11	/* 3. drop a packet that was held and acknowledged */
#define NO_PHASE	12	/* 4. one claim for both phases */
#define MODULO		13	/* 4. op_seq modulo the table */
#define NO_EPOCH	14	/* 4. any epoch will do */
#define NO_HISTORY	15	/* 4. drop late packets of finished operations */
#define NO_VERIFY	16	/* 5. no checksum */
#define OWN_FIRST	17	/* 6. sum(own, in) */
#define CREDIT_ALL	18	/* 7. posted operations need credit too */
#define NEWEST_FIRST	19	/* 7. newest operation first */
#define INJECT_FIRST	20	/* 7. forwarding waits for injecting */
#define RECEIVE_WAITS	21	/* 7. receiving waits for sending */
/* Rules that hold for all-reduce only. */
#define AG_IS_FREE	23	/* no chunk of AG needs credit */
#define AG_POSTED	24	/* all ranks have posted an operation of which AG comes */
#define OUT_FOREVER	25	/* all own chunks come back */
#define NEEDS_ALL	26	/* every chunk comes to every rank */
#define AG_FOR_RS	27	/* AG acknowledges RS */
#define LENT_BACK	28	/* the successor holds no packets of an operation complete here */
#define NOT_DONE	29	/* complete when posted, if nothing arrives for an operation */
/*
 * Not caught: RS_AGAIN without the assertion that forbids it. The successor, or its history,
 * has that RS chunk, and drops the repetition as a duplicate.
 */
#define RS_UNCHECKED	22
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#define RS	0
#define AG	1
#define GARBAGE	255

/* Operation x = X(rank, op) at a rank; item i of it = phase * C + chunk; j: item of all. */
#define ITEMS	(2 * C)
#define ALL	(N * OPS * ITEMS)
#define X(r, o)	((r) * OPS + (o))
#define X_OF(j)	((j) / ITEMS)
#define RANK(j)	((j) / (OPS * ITEMS))
#define PREV(r)	(((r) + N - 1) % N)
#define NEXT(r)	(((r) + 1) % N)
#define BIT(p, c) (1 << ((p) * C + (c)))
#define OF_RS	((1 << C) - 1)
#define OF_AG	(OF_RS << C)

/* The schedule. A partial sum that reaches a rank has DIST digits. */
#define BLOCK(c) ((c) / CPB)
#define DIST(r, c) (((r) + N - BLOCK(c)) % N)
#define FIRST	(ADDS -> RS : AG)
#define OWES(r, p, c) (RETURNS -> BLOCK(c) != ((r) + 1 + (p)) % N : \
		       (p) == FIRST && BLOCK(c) != ((r) + 1) % N)
#define STOPS(r, c) (DIST(r, c) + (ADDS -> 2 : 1) == N)
#define NEEDS(r, c) (RETURNS || !RULE(NEEDS_ALL) || \
		     (ADDS -> BLOCK(c) == ((r) + 1) % N : BLOCK(c) != (r)))
#define DIGIT(c, n) ((BLOCK(c) + (n)) % N + 1)
#if KIND == 2
#define SUM(c)	DIGIT(c, 0)
#elif N == 2
#define SUM(c)	(4 * DIGIT(c, 0) + DIGIT(c, 1))
#else
#define SUM(c)	(16 * DIGIT(c, 0) + 4 * DIGIT(c, 1) + DIGIT(c, 2))
#endif
#if N == 2
#define TOO_LONG 4
#define SHIFT(v) 4
#else
#define TOO_LONG 16
#define SHIFT(v) ((v) < 4 -> 4 : 16)
#endif

/* Operations; all but buf are masks of items, 0 once released. */
byte claimed[N * OPS];
byte published[N * OPS];
byte pend[N * OPS];
byte sent[N * OPS];
byte chosen[N * OPS];		/* not built yet */
byte acked[N * OPS];
byte recorded[N * OPS];		/* from the predecessor */
byte held[N * OPS];
byte hold[N * OPS * C];
byte buf[N * OPS * C];		/* 0 = none */
bool complete[N * OPS];
bool read[N * OPS];		/* by the user, all of it */
bool released[N * OPS];
byte op_next[N];
byte posted[N];			/* by the successor, as far as known */
byte owed[N];			/* constant: mask of items */
byte need[N];			/* constant: mask of items whose AG completes it */
bool sync[N];			/* constant: posts when it has read */

/* The network between a rank and its successor. */
byte one[ALL];			/* what a packet carries, 0 = no packet */
byte two[ALL];			/* a second packet of the item */
bool ack_due[N];
bool ack[N];
byte ack_recorded[N * OPS];
byte ack_posted[N];
byte faults = FAULTS;

/* The events. One is chosen, and done in one step. */
mtype = { ARRIVES, OVERTAKES, BUILT, TIMEOUT, POSTED, DONE, PROBED, ACK_SENT,
	  ACK_ARRIVES, READ, COPIED, LOST, CORRUPT, STRANGER, SLOW, ACK_LOST };
mtype what;
byte j;

/* Variables of one step. */
hidden byte r, o, x, p, c, i, v, k, n, q, at, item;
hidden byte may, wrong;

/* -- the sender ----------------------------------------------------------- */

#define FREEABLE(x) (read[x] && (chosen[x] == 0 || !RULE(FREE_CHOSEN)) && \
		     (released[x] || !RULE(FREE_EARLY)))
/* The successor may hold chunks of x, for which credit was taken. */
#define LENDS(x) (!RETURNS && RULE(LENT_BACK) && CREDIT < UNUSED && sent[x] != 0 && \
		  (x) % OPS >= posted[r])
#define RELEASABLE(x) (!LENDS(x) && (complete[x] || !RULE(INCOMPLETE) || \
				      (need[r] == 0 && !RULE(NOT_DONE))) && \
		       (acked[x] == owed[r] || !RULE(RELEASE_EARLY)))

inline try_free()
{
	if
	:: FREEABLE(x) ->
		for (k : 0 .. C - 1) {
			buf[x * C + k] = 0
		}
	:: else
	fi
}

inline release()
{
	released[x] = true;
	claimed[x] = 0;
	published[x] = 0;
	pend[x] = 0;
	sent[x] = 0;
	acked[x] = 0;
	try_free()
}

inline try_release()
{
	if
	:: !released[x] && RELEASABLE(x) -> release()
	:: else
	fi
}

inline pend_set(mask)
{
	if
	:: !(acked[x] & (mask)) -> pend[x] = pend[x] | (mask)
	:: else
	fi
}

inline mark_acked(bits)
{
	acked[x] = acked[x] | (bits);
	pend[x] = pend[x] & ~(bits)
}

#define IN_FLIGHT(x) (sent[x] & ~acked[x] & ~pend[x])
inline count_in_flight()
{
	n = 0;
	for (q : 0 .. OPS * ITEMS - 1) {
		n = n + ((IN_FLIGHT(X(r, q / ITEMS)) >> (q % ITEMS)) & 1)
	}
}

/* All ranks have contributed to item i. */
#define SUMMED(i) ((i) >= C && (ADDS || !RULE(AG_IS_FREE)))
inline count_early()
{
	n = 0;
	for (k : 0 .. OPS * ITEMS - 1) {
		n = n + ((k / ITEMS >= posted[r] || !RULE(CREDIT_ALL)) &&
			 !SUMMED(k % ITEMS) &&
			 (sent[X(r, k / ITEMS)] & (1 << (k % ITEMS))))
	}
}

/* Own chunks injected and not back as AG. */
inline count_out()
{
	n = 0;
	for (q : 0 .. OPS * C - 1) {
		n = n + ((RETURNS || !RULE(OUT_FOREVER)) && BLOCK(q % C) == r &&
			 (sent[X(r, q / C)] & BIT(FIRST, q % C)) &&
			 !(published[X(r, q / C)] & BIT(AG, q % C)))
	}
}

/* Build a packet of item i from the buffer, or from @from. */
inline build(from)
{
	assert(buf[x * C + i % C] != 0);	/* it is not freed */
	v = from;
	if
	:: one[x * ITEMS + i] == 0 -> one[x * ITEMS + i] = v
	:: else -> two[x * ITEMS + i] = v
	fi;
	chosen[x] = chosen[x] & ~(1 << i);
	try_free()
}

/* Own chunks to inject are as good as pending ones, but come after them. */
#define INJECT(x, k) ((k) / C == FIRST && BLOCK((k) % C) == r && !(sent[x] & (1 << (k))))
#define READY(x, k, own) ((own) -> INJECT(x, k) : ((pend[x] >> (k)) & 1))
#define TURN(q)	(RULE(NEWEST_FIRST) -> (q) : OPS - 1 - (q))
#define FREE_OF_CREDIT(x, i, o) \
	((RULE(CREDIT_ALL) && (o) < posted[r]) || SUMMED(i) || (sent[x] & (1 << (i))))

/*
 * Choose one item of the rank, oldest operation first, AG first, lowest chunk
 * first: item and at, or item = ITEMS. An item without credit ends the search.
 */
inline pick(own)
{
	item = ITEMS;
	may = true;
	for (q : 0 .. OPS * ITEMS - 1) {
		o = TURN(q / ITEMS);
		x = X(r, o);
		i = (q + C) % ITEMS;
		if
		:: may && item == ITEMS && o < op_next[r] && !released[x] &&
		   READY(x, i, own) ->
			count_early();
			if
			:: n < CREDIT || FREE_OF_CREDIT(x, i, o) ->
				item = i;
				at = x
			:: else -> may = false
			fi
		:: else
		fi
	}
}

inline pick_inject()
{
	count_out();
	if
	:: n < WINDOW -> pick(true)
	:: else -> item = ITEMS; may = false
	fi
}

inline pick_any()
{
	if
	:: RULE(INJECT_FIRST) ->
		pick(false);
		if
		:: item == ITEMS -> pick_inject()
		:: else
		fi
	:: else ->
		pick_inject();
		if
		:: item == ITEMS && may -> pick(false)
		:: else
		fi
	fi
}

/* rar_push() */
inline push()
{
	do
	:: true ->
		count_in_flight();
		item = ITEMS;
		if
		:: n < CWND -> pick_any()
		:: else
		fi;
		if
		:: item == ITEMS -> break
		:: else
		fi;
		x = at;
		i = item;
		/* RS is never sent again once its AG copy came. */
		assert(i >= C || !(published[x] & BIT(AG, i)) ||
		       !RULE(RS_UNCHECKED));
		assert(owed[r] & (1 << i));
		pend[x] = pend[x] & ~(1 << i);
		sent[x] = sent[x] | (1 << i);
		if
		:: LATE -> chosen[x] = chosen[x] | (1 << i)
		:: else -> build(buf[x * C + i % C])
		fi
	od
}

/* rar_loss_rcv_ack() of rank r */
inline rcv_ack()
{
	for (q : 0 .. OPS - 1) {
		x = X(r, q);
		if
		:: !released[x] && q < op_next[r] ->
			mark_acked(ack_recorded[x]);
			try_release()
		:: else
		fi;
		ack_recorded[x] = 0
	}
	if
	:: ack_posted[r] > posted[r] ->
		posted[r] = ack_posted[r];
		for (q : 0 .. OPS - 1) {
			x = X(r, q);
			if
			:: !RETURNS && q < op_next[r] -> try_release()
			:: else
			fi
		}
	:: else
	fi;
	ack_posted[r] = 0;
	ack[r] = false
}

/* -- the receiver --------------------------------------------------------- */

inline read_result()
{
	for (k : 0 .. C - 1) {
		assert(buf[x * C + k] == SUM(k) || (!NEEDS(x / OPS, k) && ADDS))
	}
	read[x] = true;
	if
	:: !RULE(CLOSE_FREES) && !released[x] -> release()
	:: else -> try_free()
	fi
}

inline done()
{
	if
	:: !complete[x] && (published[x] & need[r]) == need[r] ->
		complete[x] = true;
		if
		:: !LAZY -> read_result()
		:: else
		fi
	:: else
	fi;
	try_release()
}

/* rar_link_publish(): (p, c) of operation x is in the buffer of rank r. */
inline publish()
{
	published[x] = published[x] | BIT(p, c);
	assert(!(published[x] & BIT(AG, c)) || buf[x * C + c] == SUM(c));
	if
	:: (ADDS || !RULE(AG_POSTED)) && (p == AG || DIST(r, c) + 1 == N) && posted[r] < o ->
		posted[r] = o
	:: else
	fi;
	if
	:: p == RS && DIST(r, c) + 1 == N ->
		claimed[x] = claimed[x] | BIT(AG, c);
		published[x] = published[x] | BIT(AG, c);
		if
		:: RETURNS -> pend_set(BIT(AG, c))
		:: else
		fi
	:: p == RS && DIST(r, c) + 1 != N ->
		pend_set(BIT(RS, c))
	:: p == AG ->
		if
		:: (ADDS || !RULE(AG_FOR_RS)) && RULE(RS_AGAIN) && RULE(RS_UNCHECKED) ->
			mark_acked(BIT(RS, c))
		:: else
		fi;
		if
		:: !STOPS(r, c) -> pend_set(BIT(AG, c))
		:: else
		fi
	fi;
	done()
}

/* (p, c) of an operation that is on the table, carrying v. */
#define CLAIM	(RULE(NO_PHASE) -> BIT(p, c) : BIT(RS, c) | BIT(AG, c))
inline rcv_chunk()
{
	if
	:: (claimed[x] & CLAIM) && RULE(NO_CLAIM)
	:: else ->
		claimed[x] = claimed[x] | BIT(p, c);
		if
		:: p == AG -> buf[x * C + c] = v
		:: p == RS && (buf[x * C + c] > 3 || v >= TOO_LONG) ->
			buf[x * C + c] = GARBAGE
		:: p == RS && buf[x * C + c] <= 3 && v < TOO_LONG ->
			buf[x * C + c] = (RULE(OWN_FIRST) ->
				v * 4 + buf[x * C + c] :
				buf[x * C + c] * SHIFT(v) + v)
		fi;
		publish()
	fi
}

inline record()
{
	recorded[X(r, o)] = recorded[X(r, o)] | BIT(p, c);
	ack_due[PREV(r)] = true
}

inline count_held()
{
	n = 0;
	for (k : 0 .. OPS * C - 1) {
		n = n + (hold[X(r, k / C) * C + k % C] != 0)
	}
}

inline rcv_early()
{
	assert(p == FIRST);	/* no sum is complete before this rank has added */
	if
	:: o - op_next[r] < TABLE ->
		held[x] = held[x] | BIT(p, c);
		hold[x * C + c] = v;
		count_held();
		assert(n <= CREDIT);	/* there is room for no more */
		record()
	:: else
	fi
}

/* The operation whose place in the table a packet of a finished operation has. */
#define ALIAS(r, o) (!RULE(MODULO) && op_next[r] > (o) + 1 && \
		     (op_next[r] - 1) % TABLE == (o) % TABLE)

/* A packet of an operation that was posted here; a duplicate if that is released. */
inline rcv_posted()
{
	if
	:: released[x] && ALIAS(r, o) -> x = X(r, op_next[r] - 1)
	:: else
	fi;
	if
	:: released[x] -> may = RULE(NO_HISTORY)
	:: else ->
		rcv_chunk();
		may = true
	fi;
	if
	:: may -> record()
	:: else
	fi
}

/* rar_chunk_rcv(): a packet of item j, which carries v, arrives at the successor. */
inline rcv_data()
{
	r = NEXT(RANK(j));
	o = X_OF(j) % OPS;
	x = X(r, o);
	p = (j % ITEMS) / C;
	c = j % C;
	may = !wrong || !RULE(NO_VERIFY);
	if
	:: wrong && !RULE(EARLY_RECORD) -> record()
	:: wrong && !RULE(LATE_VERIFY) && o < op_next[r] && !released[x] ->
		claimed[x] = claimed[x] | BIT(p, c)
	:: else
	fi;
	if
	:: may && o >= op_next[r] -> rcv_early()
	:: may && o < op_next[r] -> rcv_posted()
	:: else
	fi
}

/* rar_post() and rar_post_open(): the next operation of rank r; see MAY_END() */
inline post()
{
	o = op_next[r];
	x = X(r, o);
	op_next[r] = o + 1;
	for (k : 0 .. C - 1) {
		buf[x * C + k] = (ADDS || BLOCK(k) == r -> r + 1 : 0)
	}
	if	/* the predecessor may be waiting for this post */
	:: held[x] != 0 || CREDIT < 4 -> ack_due[PREV(r)] = true
	:: else
	fi;
	p = FIRST;
	for (c : 0 .. C - 1) {
		v = hold[x * C + c];
		hold[x * C + c] = 0;
		if
		:: v != 0 && RULE(DROP_HELD) -> rcv_chunk()
		:: else
		fi
	}
	held[x] = 0
}

/* rar_ack_send(): does the predecessor r not know something yet? */
inline send_ack()
{
	ack_due[r] = false;
	for (q : 0 .. OPS - 1) {
		x = X(r, q);
		n = recorded[X(NEXT(r), q)] & owed[r] & ~acked[x];
		if
		:: q < op_next[r] && !released[x] && n != 0 ->
			ack_recorded[x] = n;
			ack[r] = true
		:: else
		fi
	}
	if
	:: op_next[NEXT(r)] > posted[r] && CREDIT < UNUSED ->
		ack_posted[r] = op_next[NEXT(r)];
		ack[r] = true
	:: else
	fi;
	if
	:: ack[r] && !SLOW_ACK -> rcv_ack()
	:: else
	fi
}

inline lose_ack()
{
	ack_due[r] = ack_due[r] && SLOW_ACK;
	for (q : 0 .. OPS - 1) {
		ack_recorded[X(r, q)] = 0
	}
	ack_posted[r] = 0;
	ack[r] = false
}

/* -- what may happen ------------------------------------------------------ */

#define UNSENT(r, o) ((o) < op_next[r] && !released[X(r, o)] && \
		      (pend[X(r, o)] || (!(sent[X(r, o)] & BIT(RS, (r) * CPB)))))
#define WAITS(r) (!RULE(RECEIVE_WAITS) && (UNSENT(r, 0) || UNSENT(r, OPS - 1)))
#define IS_HERE(j) (one[j] != 0 && !WAITS(NEXT(RANK(j))))
#define IS_OTHER(j) (two[j] != 0 && two[j] != one[j])
#define IS_CHOSEN(j) ((chosen[X_OF(j)] >> ((j) % ITEMS)) & 1)
#define IS_OUT(j) (((IN_FLIGHT(X_OF(j)) >> ((j) % ITEMS)) & 1) && \
		   !IS_CHOSEN(j))
#define IS_LOST(j) (IS_OUT(j) && one[j] == 0 && \
		    !ack_due[RANK(j)] && !ack[RANK(j)])
#define IS_STRANGE(j) (faults && OWES(RANK(j), ((j) % ITEMS) / C, (j) % C))
#define MAY_POST(r) (op_next[r] < OPS && \
		     (op_next[r] == 0 || !MAY_END(X(r, op_next[r] - 1))) && \
		     (op_next[r] < TABLE || released[X(r, op_next[r] - TABLE)]) && \
		     (!sync[r] || op_next[r] == 0 || read[X(r, op_next[r] - 1)]))
/* complete_without(): nothing arrives, so send() itself completes the operation. */
#define MAY_END(x) (need[(x) / OPS] == 0 && (x) % OPS < op_next[(x) / OPS] && \
		    !complete[x] && !released[x])
#define MAY_PROBE(r) (CREDIT < UNUSED && op_next[NEXT(r)] > posted[r] && posted[r] < op_next[r] && \
		      !ack_due[r] && !ack[r])
#define MAY_READ(x) (complete[x] && !read[x] && \
		     ((x) % OPS == 0 || read[(x) - 1]))

/* An option for each j for which IF(j) holds. ALL is a multiple of STEP. */
#define FOR2(IF, WHAT, b) \
	:: IF(b) -> what = WHAT; j = b \
	:: IF(b + 1) -> what = WHAT; j = b + 1
#if N == 2
#define STEP	4
#define FOR(IF, WHAT, b) FOR2(IF, WHAT, b) FOR2(IF, WHAT, b + 2)
#else
#define STEP	6
#define FOR(IF, WHAT, b) FOR2(IF, WHAT, b) FOR2(IF, WHAT, b + 2) \
			 FOR2(IF, WHAT, b + 4)
#endif
#if ALL > STEP
#define FOR_1(IF, WHAT) FOR(IF, WHAT, STEP)
#else
#define FOR_1(IF, WHAT)
#endif
#if ALL > 2 * STEP
#define FOR_2(IF, WHAT) FOR(IF, WHAT, 2 * STEP)
#else
#define FOR_2(IF, WHAT)
#endif
#if ALL > 3 * STEP
#define FOR_3(IF, WHAT) FOR(IF, WHAT, 3 * STEP)
#else
#define FOR_3(IF, WHAT)
#endif
#if ALL > 4 * STEP
#define FOR_4(IF, WHAT) FOR(IF, WHAT, 4 * STEP) FOR(IF, WHAT, 5 * STEP)
#else
#define FOR_4(IF, WHAT)
#endif
#define ANY_ITEM(IF, WHAT) FOR(IF, WHAT, 0) FOR_1(IF, WHAT) FOR_2(IF, WHAT) \
			   FOR_3(IF, WHAT) FOR_4(IF, WHAT)

#if N == 2
#define ANY_RANK(IF, WHAT) FOR2(IF, WHAT, 0)
#else
#define ANY_RANK(IF, WHAT) FOR2(IF, WHAT, 0) :: IF(2) -> what = WHAT; j = 2
#endif

#define ANY_OP(IF, WHAT) ANY_RANK(IF, WHAT) ANY_RANK2(IF, WHAT)
#if OPS == 2 && N == 2
#define ANY_RANK2(IF, WHAT) FOR2(IF, WHAT, 2)
#elif OPS == 2
#define ANY_RANK2(IF, WHAT) :: IF(3) -> what = WHAT; j = 3 FOR2(IF, WHAT, 4)
#else
#define ANY_RANK2(IF, WHAT)
#endif

#define COSTS(w) (w == COPIED || w == LOST || w == CORRUPT || w == STRANGER || \
		  w == SLOW || w == ACK_LOST)
#define ENDED(x) (released[x] && read[x])
#define IS_COPIED(j) (faults && IS_HERE(j))
#define IS_DROPPED(j) (faults && one[j] != 0)
#define IS_SLOW(j) (faults && IS_OUT(j) && !IS_LOST(j))
#define HAS_ACK(r) (ack[r])
#define HAS_LOST_ACK(r) (faults && (SLOW_ACK -> ack[r] : ack_due[r]))
#define MAY_ACK(r) (ack_due[r] && !ack[r])

#define TAKES(w) (w == ARRIVES || w == LOST || w == CORRUPT)
#define COMES(w) (w == ARRIVES || w == OVERTAKES || w == COPIED || \
		  w == CORRUPT || w == STRANGER)
#define IS_BAD(w) (w == CORRUPT || w == STRANGER)

/* Find out where the chosen packet goes, and what it carries. */
inline carry()
{
	v = (what == OVERTAKES -> two[j] : one[j]);
	if
	:: TAKES(what) -> one[j] = two[j]; two[j] = 0
	:: what == OVERTAKES -> two[j] = 0
	:: else
	fi;
	if
	:: IS_BAD(what) -> v = GARBAGE
	:: else
	fi;
	wrong = what == CORRUPT || (what == STRANGER && RULE(NO_EPOCH));
	if
	:: COMES(what) -> rcv_data()
	:: else
	fi
}

inline timeout_of_item()
{
	x = X_OF(j);
	i = j % ITEMS;
	if
	:: what == BUILT -> build(buf[x * C + i % C])
	:: else -> pend_set(1 << i)
	fi
}

/* NO_STORE: a sum that was forwarded is not kept. */
inline forget()
{
	x = X(NEXT(RANK(j)), X_OF(j) % OPS);
	c = j % C;
	if
	:: buf[x * C + c] > 3 && buf[x * C + c] < 16 && N == 3 ->
		buf[x * C + c] = x / OPS + 1
	:: else
	fi
}

/* Do the chosen event; then the rank sends what may go. */
inline happen()
{
	r = RANK(j);
	if
	:: COMES(what) || what == LOST -> carry()
	:: what == BUILT || what == TIMEOUT || what == SLOW -> timeout_of_item()
	:: what == POSTED -> r = j; post()
	:: what == DONE -> r = j / OPS; x = j; done()
	:: what == PROBED -> r = j; ack_due[r] = true
	:: what == ACK_SENT -> r = j; send_ack()
	:: what == ACK_ARRIVES -> r = j; rcv_ack()
	:: what == ACK_LOST -> r = j; lose_ack()
	:: what == READ -> r = j / OPS; x = j; read_result()
	fi;
	push();
	if
	:: !RULE(NO_STORE) && COMES(what) -> forget()
	:: else
	fi
}

init
{
	if
	:: SYNC -> sync[0] = true
	:: true
	fi;
	if
	:: SYNC -> sync[1] = true
	:: true
	fi;
	if
	:: SYNC && N == 3 -> sync[N - 1] = true
	:: true
	fi;
	d_step {
		for (r : 0 .. N - 1) {
			for (c : 0 .. C - 1) {
				owed[r] = owed[r] |
					(OWES(r, RS, c) -> BIT(RS, c) : 0) |
					(OWES(r, AG, c) -> BIT(AG, c) : 0);
				need[r] = need[r] | (NEEDS(r, c) -> BIT(AG, c) : 0)
			}
		}
	}
	do
	:: atomic {
		if
		ANY_ITEM(IS_HERE, ARRIVES)
		ANY_ITEM(IS_OTHER, OVERTAKES)
		ANY_ITEM(IS_CHOSEN, BUILT)
		ANY_ITEM(IS_LOST, TIMEOUT)
		ANY_ITEM(IS_COPIED, COPIED)
		ANY_ITEM(IS_DROPPED, LOST)
		ANY_ITEM(IS_DROPPED, CORRUPT)
		ANY_ITEM(IS_STRANGE, STRANGER)
		ANY_ITEM(IS_SLOW, SLOW)
		ANY_RANK(MAY_POST, POSTED)
		ANY_OP(MAY_END, DONE)
		ANY_RANK(MAY_PROBE, PROBED)
		ANY_RANK(MAY_ACK, ACK_SENT)
		ANY_RANK(HAS_ACK, ACK_ARRIVES)
		ANY_RANK(HAS_LOST_ACK, ACK_LOST)
		ANY_OP(MAY_READ, READ)
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
	:: ENDED(0) && ENDED(OPS - 1) && ENDED(OPS) && ENDED(N * OPS - 1) &&
	   ENDED(X(N - 1, 0)) && ENDED(X(1, OPS - 1)) -> break
	od
}
