/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The aggregation box (see design/box.rst): operations from post to release at
 * N members that have a ring, and a box beside it that adds for them.
 *
 * Words:
 *
 * - box: a host that adds for the members. All it knows may be lost at any time.
 * - leg: the pair of links between a member and the box.
 * - UP: a packet with a member's own contribution to a chunk, from member to box.
 * - turn: the number of ranks whose contributions a slot of the box has added.
 * - slot: what the box knows of one packet's worth of one block of one operation.
 * - row: the memory of one packet's worth at the box. The box has POOL rows.
 * - return: the box gives a chunk up, and tells all members (RETURN).
 * - settled: this rank has the sum of the chunk.
 * - ringed: the chunk goes by the ring at this rank.
 * - WANT: "I have no sum of this chunk", from a rank to its predecessor.
 * - given: this rank has written its contribution to the memory of the operation. A rank may
 *   post before (GIVES 1). After a lead it gives a chunk when it has the sum of another (2).
 * - done: the number of operations that are complete at a rank, with all before them. A
 *   rank tells its predecessor and the box. The lowest of all ranks is "posted" of the box.
 * - lower box: the box of the ranks in the mask LOW. It adds for them, and is a member of the (upper)
 *   box with one contribution to each chunk, the sum of its ranks. The sum of all comes back by it.
 * - PASSED: there is a lower box, and the order has an effect. Partial sums go from box to box. When
 *   all ranks of the lower box have contributed, it asks for the sum of the ranks before its own,
 *   unless the block starts at one of its own. It adds those of its ranks that follow, and brings
 *   the new partial sum up. A packet between the boxes has a turn: how many ranks are in it.
 * - broadcast (CAST): rank 0, the root, contributes, and all others want a copy. They ask the box
 *   (UP with nothing in it) when they have posted. A rank that has asked gets the copy as
 *   soon as it is there. The root is settled when it has posted.
 * - reduction to a root (REDUCE): rank 0, the root, gets the sum of all. The order of the ring
 *   begins at rank 1 and ends at the root. When the box has the sum it answers the others with
 *   nothing in it: their contributions are in a sum (ACKED), which may be lost. A rank other than
 *   the root is settled when it has added to what its predecessor sent, and with all of an
 *   operation when its successor is done with that. Rank 1 is settled when it has posted.
 *
 * Modelled: UP, in turn, held, no room; the box's sum; eviction in any state, with the
 * partial sum handed to the rank that is next in the ring; a box that forgets everything
 * and goes on; RS and AG of the ring; claims of chunks that come by both ways; building a
 * packet while other packets come in (LATE); fallback, WANT; done, release.
 *
 * Left out, and why that is sound:
 *
 * - A sum is the set of the ranks added, and the operation. An addition to anything else
 *   than the sum of all ranks before this one, in the order of the ring, gives GARBAGE. So
 *   a contribution added twice, left out, in another order or to another operation shows.
 * - The network loses, duplicates, delays and reorders without limit: a packet, once sent,
 *   may come at any later time, any number of times, or never. Of equal packets one is
 *   remembered, and none that could tell its receiver nothing new.
 * - Time, RETURN and old WANTs: any chunk may become ringed at any time.
 * - Losses end: in any state, once, all packets on the way are lost (what = DARK, or
 *   DARK_ALIVE if the box goes on). From there nothing is lost, chunks become ringed only
 *   by the rules, and every run must end. To lose less is no harder: packets only add to
 *   what members know, so a state in which they stall after some packets came is one in
 *   which they stall when all of them are lost. No step can be taken back, so no run is
 *   without end.
 * - The links repeat what is not recorded: RS and AG until the successor has the chunk, UP
 *   until the box has it, the sum until the member has it. link.pml shows that.
 * - A rank answers WANT, or is ringed by it and asks its own predecessor. That is as good
 *   as passing WANT on.
 * - A rank that is told that a partial sum of an own chunk was handed over injects nothing until
 *   the successor wants the sum. Before losses end any rank may wait like that, for ever; from
 *   there all ranks do.
 * - A member sends UP for a returned chunk, and on a new leg for an old operation, if it
 *   likes. A member without a leg, or from which or to which the box's packets never come,
 *   is one of these runs.
 * - A packet that comes before its operation is posted waits. Credit, windows: ring.pml.
 * - A lower box and the upper one lose each other's packets, forget and die each for itself. In the
 *   code both jobs begin anew then. Which ranks are whose is fixed while a job lasts. Rows of two
 *   levels are not counted: a chunk may be given up at any time anyway.
 * - Several boxes (PAR 2): each has a chunk of every operation, and knows nothing of the other's. Each
 *   forgets and dies for itself. Each is told the same done.
 * - One CPU owns a slot of the box, so what the box does is one step. A member stores a
 *   sum in one step: the code that could see half of it looks at the claim first.
 *
 * Checked: no rank settles with anything but the sum; every packet carries what its kind
 * and its receiver say (not asserted of mutations, which have to show in sums); nothing is
 * read or written outside the time from post to release; the box never uses more than POOL
 * rows; every run ends with all operations released everywhere, and with an empty box if
 * the box lives.
 * MUTATION removes a rule; the numbers are those of design/box.rst.
 */
#ifndef N
#define N	2		/* members: 2, 3, 4 */
#endif
#ifndef OPS
#define OPS	1		/* operations: 1, 2 */
#endif
#ifndef C
#define C	1		/* chunks of an operation: 1, 2 */
#endif
#ifndef CPB
#define CPB	1		/* chunks of a block */
#endif
#ifndef TABLE
#define TABLE	OPS		/* operations of a member at a time */
#endif
#ifndef POOL
#define POOL	2		/* rows */
#endif
#ifndef BOXES
#define BOXES	2		/* the box forgets everything BOXES - 1 times */
#endif
#ifndef PAR
#define PAR	1		/* boxes side by side: 1, 2; with 2, C is 2 */
#endif
#ifndef ANY_ORDER
#define ANY_ORDER 0		/* integers: the box adds what is not in turn as well */
#endif
#ifndef GIVES
#define GIVES	0		/* contributions are given: when posted, later, after a lead */
#endif
#ifndef LOW
#define LOW	0		/* mask of the ranks that are at a lower box */
#endif
#define PASSED	(LOW && !ANY_ORDER)
#ifndef CAST
#define CAST	0		/* broadcast from rank 0 */
#endif
#ifndef REDUCE
#define REDUCE	0		/* reduction to rank 0 */
#endif
#ifndef LATE
#define LATE	1		/* a packet is built, and a chunk added, while others come in */
#endif
#ifndef ALIVE
#define ALIVE	1		/* the box may go on after the last losses */
#endif

#define NO_FALLBACK	1	/* 1. wait for the box for ever */
#define UNACKED_ONLY	2	/* 1. fall back only while UP is not acknowledged */
#define NO_INJECT	3	/* 2. inject nothing, ringed or not */
#define ADD_TWICE	4	/* 3. duplicates are added */
#define SUM_ONLY	5	/* 4. a sum claims AG and not RS */
#define SUM_IN_ADD	6	/* 4. store a sum while RS is being added */
#define NO_AG		7	/* 5. ringed or not, no AG */
#define WANT_IGNORED	8	/* 5. WANT does not make a settled chunk ringed */
#define STOPS		9	/* 5. no AG to the rank where the ring's sums end */
#define NO_WANT		10	/* 6. no WANT */
#define NO_LOOK_UP	11	/* 7. send UP although a claim came meanwhile */
#define NO_LOOK_INJECT	12	/* 7. inject although a claim came meanwhile */
#define NO_LOOK_RS	13	/* 7. forward RS although a claim came meanwhile */
#define NO_DONE		14	/* 8. release what is complete and acknowledged */
#define IN_FLIGHT	15	/* 8. release under packets yet to be built */
#define DONE_COUNTS	16	/* 8. done counts any complete operations */
#define DONE_ONCE	17	/* 8. done is told once, and nobody asks */
#define POSTED_SOME	18	/* 8. posted leaves out ranks that have not entered again */
#define NO_TURN		19	/* box: add what comes, as it comes */
#define SLOT_TURN	20	/* box: one turn for all packets of a block */
#define NO_ROOM		21	/* box: take rows that are not there */
#define MODULO		22	/* box: a slot for the chunk of any operation */
#define REST_TOO	23	/* box: hand over what was added out of turn, too */
#define NO_BASE		24	/* box: keep slots of operations complete everywhere */
#define GIVE_EARLY	31	/* 2. inject what is not given */
#define LOW_EARLY	32	/* lower box: contribute before all of its ranks have */
#define OVERLAP		33	/* upper box: take in a rank that is at the lower box, too */
#define LOW_AGAIN	34	/* upper box: add the lower box's sum as often as it comes */
#define LOW_HANDS	35	/* upper box: hand over a sum of the ranks of a box as a prefix */
#define UNASKED		36	/* box: send a broadcast to ranks that have not asked */
#define ROOT_ONLY	37	/* 5. of a broadcast, only the root gives copies to its successor */
#define ASKS_COUNT	38	/* box: take a question for the contribution */
#define ACK_SETTLES	39	/* of a reduction: what the box acknowledges is settled */
#define ACK_IS_LAST	40	/* 5. WANT does not make ringed what the box has acknowledged */
#define NOT_PASSED	41	/* of a reduction: a successor that is done settles nothing */
#define ROOT_PASSED	42	/* of a reduction: the root, too, is settled by its successor */
#define LOW_UP_ANY	44	/* upper box: any partial sum from below is the one in turn */
#define LOW_DOWN_ANY	45	/* lower box: any partial sum from above is the one it waits for */
#define SHARE_DONE	46	/* 8. a box is told done of its own share of operations */
#define FIRST_LEG	47	/* 1. chunks of the second box fall back only if the first is dead */
#define ADDS_SETTLE	43	/* of a reduction: settled when a packet with RS is taken */
/* Not caught: they save time or memory. */
#define RS_QUIET	25	/* 3. RS that comes again does not make ringed */
#define AG_QUIET	26	/* 4. AG does not make ringed */
#define NO_DONE_BIT	27	/* box: forget which sums all members have */
#define NO_GONE_BIT	28	/* box: forget which chunks were returned */
#define OLD_LEG		29	/* box: take UP of an older leg of this epoch */
#define NO_HANDOVER	30	/* box: drop an evicted partial sum */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

/* Slot q is (operation, chunk). Item j is (slot, rank). */
#define SLOTS	(OPS * C)
#define ITEMS	(SLOTS * N)
#define OP(q)	((q) / C)
#define BX(q)	((q) % C % PAR)	/* the box of a chunk */
#define START(q) (CAST -> 0 : (REDUCE -> 1 : (q) % C / CPB))
#define IS_ROOT(x) (CAST && (x) == 0)
#define NO_SUM(x) (REDUCE && (x) != 0)	/* this rank gets no sum */
#define J(q, x)	((q) * N + (x))
#define Q(j)	((j) / N)
#define X(j)	((j) % N)
#define NEXT(x)	(((x) + 1) % N)
#define PREV(x)	(((x) + N - 1) % N)
#define TO(j)	J(Q(j), NEXT(X(j)))

#define IS_LOW(x) ((LOW >> (x)) & 1)

/* How many ranks are before this one: its turn at the box, and the ring's RS. */
#define TURN(q, x) (((x) + N - START(q)) % N)
#define FIRST(j) (TURN(Q(j), X(j)) == 0)
#define LAST(j)	(TURN(Q(j), X(j)) == N - 1)

/* Values: a bit for each rank, and one for the operation. */
#define EVERYONE ((1 << N) - 1)
#define OF(q)	(OP(q) << N)
#define OWN(q, x) ((1 << (x)) | OF(q))
#define LOWEST(n) ((1 << (n)) - 1)
#define PARTIAL(q, n) ((n) == 0 -> 0 : OF(q) | (EVERYONE & \
		       ((LOWEST(n) << START(q)) | (LOWEST(n) >> (N - START(q))))))
#define TOTAL(q) (CAST -> OWN(q, 0) : EVERYONE | OF(q))
#define GARBAGE	255
#define NOTHING	128		/* memory for a copy; a question */
#define GIVES_WHAT(q, x) (CAST && !IS_ROOT(x) -> NOTHING : OWN(q, x))

/* Members. */
#define RS	1		/* claimed, as AG below */
#define HAS_RS	2		/* published */
#define AG	4		/* settled */
#define RINGED	8
#define UP_BUILD 16		/* a packet is being built */
#define RS_BUILD 32
#define AG_BUILD 64
#define BUILDS	(UP_BUILD | RS_BUILD | AG_BUILD)
#define ACKED	128		/* by the box; otherwise of UNACKED_ONLY */
byte state[ITEMS];
byte buf[ITEMS];		/* 0 = not this operation's memory */
byte adding[ITEMS];		/* what RS brought */
byte op_next[N];
byte given[SLOTS];		/* mask of ranks */
byte released[N];		/* mask of operations */
byte done[N];			/* of the successor, as far as known */

/* The network: what a packet carries, 0 = no packet. By receiver, but for up. */
byte up[ITEMS];
byte rs[ITEMS];
byte ag[ITEMS];
byte sum[ITEMS];
byte news[N];			/* done, by sender */
bool calm;			/* nothing is lost any more */

/* The box. */
#define FREE	0
#define ADD	1
#define SUM	2
#define DONE	3
#define GONE	4
byte slot[SLOTS];
byte turn[SLOTS];
byte part[SLOTS];
byte held[SLOTS];		/* mask of ranks, out of turn; their packets are in up */
byte base[PAR];			/* operations complete everywhere */
byte box[PAR] = 1;			/* which box, 0 = none */
#define BOX(q)	box[BX(q)]
#define BASE(q)	base[BX(q)]

/* The lower box, as the box; the packets between the two. */
#if LOW
byte low_slot[SLOTS];
byte low_part[SLOTS];
byte low_base;
byte low = 1;
byte low_up[SLOTS];
byte low_sum[SLOTS];
#endif
#if PASSED
byte low_held[SLOTS];		/* mask of the ranks that have contributed */
byte low_turn[SLOTS];
byte pass_up[SLOTS * (N + 1)];	/* by turn; turn 0: it asks */
byte pass_down[SLOTS * (N + 1)];
#endif

/* What happens, chosen here and done in one step. */
mtype = { UP_CHOSEN, UP_BUILT, UP_COMES, INJECTED, RS_CHOSEN, RS_BUILT, RS_COMES, ADDED,
	  AG_CHOSEN, AG_BUILT, AG_COMES, SUM_COMES, RING, EVICTED, SUM_ACKED, SUM_AGAIN,
	  LOW_UP, LOW_UP_COMES, LOW_SUM_COMES, LOW_EVICTED, LOW_SUM_ACKED, LOW_SUM_AGAIN,
	  LOW_COMPLETE, LOW_FORGOTTEN, DARK_LOW, DARK_HIGH, OVERLAPS,
	  PASS_UP, PASS_UP_COMES, PASS_DOWN, PASS_DOWN_COMES,
	  POSTED, GIVEN, NEWS_COMES, PROBED, LEG_ACK, COMPLETE, FORGOTTEN, DARK, DARK_ONE, DARK_ALIVE };
mtype what;
byte j;

/* Of that step only. */
hidden byte q, x, y, o, i, k, n, v;

#define HAS(j, bits) (state[j] & (bits))
#define IS_SETTLED(j) (NO_SUM(X(j)) -> (FIRST(j) -> IS_GIVEN(j) : HAS(j, HAS_RS)) : HAS(j, AG))
#define IS_POSTED(j) (OP(Q(j)) < op_next[X(j)])
#define IS_GIVEN(j) ((given[Q(j)] >> X(j)) & 1)
#define IS_RELEASED(j) ((released[X(j)] >> OP(Q(j))) & 1)
#define IS_LIVE(j) (IS_POSTED(j) && !IS_RELEASED(j))

/*
 * UP can tell the box something. With a lower box "held" is the mask of the ranks added, of a
 * broadcast that of the ranks that have asked, and the root.
 */
#if LOW
#define LOW_ALL(q) (LOW | OF(q))
#define HIGH_TAKES(q, mask) (BOX(q) && OP(q) >= BASE(q) && slot[q] <= ADD && \
			     (!(held[q] & (mask)) || !RULE(LOW_AGAIN)))
#if PASSED
#define LOW_HOLDS(q) low_held[q]
#else
#define LOW_HOLDS(q) low_part[q]
#endif
#define LOW_TAKES(q, x) (low && OP(q) >= low_base && low_slot[q] <= ADD && \
			 !(LOW_HOLDS(q) & (1 << (x))))
#define UP_HELPS(j) (IS_LOW(X(j)) -> LOW_TAKES(Q(j), X(j)) : HIGH_TAKES(Q(j), 1 << X(j)))
#define HOLDS(j) false
#define TAKES_UP(q, x) false
#elif CAST
#define HOLDS(j) false
#define TAKES_UP(q, x) (slot[q] <= ADD && !(held[q] & (1 << (x))))
#define UP_HELPS(j) (BOX(Q(j)) && OP(Q(j)) >= BASE(Q(j)) && TAKES_UP(Q(j), X(j)))
#else
#define HOLDS(j) (held[Q(j)] & (1 << X(j)))
#define TAKES_UP(q, x) (slot[q] <= ADD && TURN(q, x) >= turn[q] && !(held[q] & (1 << (x))))
#define UP_HELPS(j) (BOX(Q(j)) && OP(Q(j)) >= BASE(Q(j)) && TAKES_UP(Q(j), X(j)))
#endif

/* MODULO: UP of operation 0 that comes late is taken for one of operation 1. */
#define LATER(q) (((q) + C) % SLOTS)
#define IS_ALIAS(j) (!RULE(MODULO) && up[j] && BOX(Q(j)) && OP(Q(j)) < OPS - 1 && \
		     slot[Q(j)] >= DONE && TAKES_UP(LATER(Q(j)), X(j)))
#define UP_SLOT(j) (IS_ALIAS(j) -> LATER(Q(j)) : Q(j))

/* -- a member ------------------------------------------------------------- */

#define HAS_OP(o, x) (IS_SETTLED(J((o) * C, x)) && IS_SETTLED(J((o) * C + C - 1, x)))
#define BUILDS_OP(o, x) ((HAS(J((o) * C, x), BUILDS) || HAS(J((o) * C + C - 1, x), BUILDS)) && \
			 RULE(IN_FLIGHT))

/* NO_DONE: released when no chunk is to be sent. */
#define PENDS(j) (HAS(j, RINGED) && !HAS(TO(j), (REDUCE -> RS : AG)))
#define MAY_RELEASE(o, x) (done[x] > o || (!RULE(NO_DONE) && !PENDS(J((o) * C, x)) && \
					   !PENDS(J((o) * C + C - 1, x))))

/* n = done of rank r, as it counts it */
inline count_done(r)
{
	n = 0;
	for (o : 0 .. OPS - 1) {
		n = n + (HAS_OP(o, r) && (n == o || !RULE(DONE_COUNTS)))
	}
}

inline release(o, r)
{
	released[r] = released[r] | (1 << o);
	for (i : o * C .. o * C + C - 1) {
		buf[J(i, r)] = 0;
		state[J(i, r)] = RS | HAS_RS | AG | RINGED | (state[J(i, r)] & BUILDS)
	}
}

inline try_release(r)
{
	for (o : 0 .. OPS - 1) {
		if
		:: !((released[r] >> o) & 1) && HAS_OP(o, r) && !BUILDS_OP(o, r) &&
		   MAY_RELEASE(o, r) -> release(o, r)
		:: else
		fi
	}
}

/* Rank r tells its predecessor what it has completed. */
inline tell(r)
{
	count_done(r);
	if
	:: n > done[PREV(r)] -> news[r] = n
	:: else
	fi
}

inline settle()
{
	assert(buf[j] == TOTAL(q));
	tell(x)
}

/*
 * The successor of rank r is done with operations, so it needs nothing of this rank's: what is
 * claimed nowhere is settled. What is being added here is settled when that is finished.
 */
inline pass_done(r)
{
	for (i : 0 .. SLOTS - 1) {
		if
		:: OP(i) < op_next[r] && OP(i) < done[r] && !HAS(J(i, r), RS) ->
			state[J(i, r)] = state[J(i, r)] | RS | HAS_RS;
			if
			:: !NO_SUM(r) -> state[J(i, r)] = state[J(i, r)] | AG; assert(buf[J(i, r)] == TOTAL(i))
			:: else
			fi
		:: else
		fi
	}
	tell(r)
}

inline finish_add()
{
	assert(buf[j] != 0);
	buf[j] = (adding[j] == PARTIAL(q, TURN(q, x)) && buf[j] == OWN(q, x) ->
		  adding[j] | buf[j] : GARBAGE);
	adding[j] = 0;
	state[j] = state[j] | HAS_RS;
	if
	:: LAST(j) -> state[j] = state[j] | AG; settle()
	:: !LAST(j) && REDUCE -> tell(x)
	:: else
	fi
}

inline rcv_rs()
{
	if
	:: !HAS(j, RS) || !RULE(ADD_TWICE) ->
		state[j] = state[j] | RS | RINGED | (RULE(ADDS_SETTLE) || LAST(j) -> 0 : HAS_RS);
		adding[j] = rs[j];
		if
		:: LATE
		:: else -> finish_add()
		fi
	:: else -> state[j] = state[j] | RINGED
	fi
}

/* A sum that carries @val, by the ring or from the box. */
inline rcv_sum(val, bits)
{
	assert(IS_GIVEN(j));	/* no sum is complete without this rank */
	if
	:: !HAS(j, AG) ->
		assert(buf[j] != 0);
		buf[j] = val;
		state[j] = state[j] | AG | bits | (RULE(SUM_ONLY) -> RS | HAS_RS : 0);
		settle()
	:: else -> state[j] = state[j] | bits
	fi
}

/* The box has the sum, of which this rank gets none. */
inline rcv_acked()
{
	state[j] = state[j] | ACKED | (RULE(ACK_SETTLES) -> 0 : RS | HAS_RS);
	tell(x)
}

inline give()
{
	given[q] = given[q] | (1 << x);
	buf[J(q, x)] = GIVES_WHAT(q, x);
	if
	:: IS_ROOT(x) ->
		state[J(q, x)] = state[J(q, x)] | RS | HAS_RS | AG;
		count_done(x);
		news[x] = n
	:: NO_SUM(x) && x == 1 -> tell(x)
	:: else
	fi
}

inline post()
{
	for (q : op_next[x] * C .. op_next[x] * C + C - 1) {
		if
		:: GIVES == 0 || (GIVES == 2 && q % C == 0) -> give()
		:: else
		fi
	}
	op_next[x]++
}

#define MAY_SEND_UP(j)	(IS_ROOT(X(j)) || !HAS(j, RS | AG) || !RULE(NO_LOOK_UP))
#define MAY_SEND_RS(j)	(!HAS(j, AG) || \
			 (FIRST(j) -> !RULE(NO_LOOK_INJECT) : !RULE(NO_LOOK_RS)))

/* Copy into a packet, then look whether that was this rank's to send. */
inline build()
{
	assert(buf[j] != 0);
	if
	:: what == UP_BUILT ->
		state[j] = state[j] & ~UP_BUILD;
		up[j] = (MAY_SEND_UP(j) && UP_HELPS(j) -> buf[j] : 0)
	:: what == RS_BUILT ->
		state[j] = state[j] & ~RS_BUILD;
		rs[TO(j)] = (MAY_SEND_RS(j) -> buf[j] : rs[TO(j)])
	:: what == AG_BUILT ->
		state[j] = state[j] & ~AG_BUILD;
		ag[TO(j)] = buf[j]
	fi
}

inline choose()
{
	if
	:: what == UP_CHOSEN -> state[j] = state[j] | UP_BUILD; what = UP_BUILT
	:: what == RS_CHOSEN -> state[j] = state[j] | RS_BUILD; what = RS_BUILT
	:: what == AG_CHOSEN -> state[j] = state[j] | AG_BUILD; what = AG_BUILT
	fi;
	if
	:: LATE
	:: else -> build()
	fi
}

/* -- the box -------------------------------------------------------------- */

inline count_held(s)
{
	for (k : 0 .. N - 1) {
		n = n + ((held[s] >> k) & 1)
	}
}

/* n = rows in use at the box of slot q */
inline count_rows()
{
	n = 0;
	for (i : 0 .. SLOTS - 1) {
		if
		:: BX(i) != BX(q)
		:: BX(i) == BX(q) && CAST -> n = n + (slot[i] == ADD || slot[i] == SUM)
		:: BX(i) == BX(q) && !CAST ->
			n = n + (turn[i] > 0);
			if
			:: ANY_ORDER -> n = n + (held[i] != 0)
			:: else -> count_held(i)
			fi
		fi
	}
}

inline clear(s, to)
{
	slot[s] = to;
	turn[s] = 0;
	part[s] = 0;
	held[s] = 0
}

/* The packet of the same block that has come least far. */
#define TWIN(q)	(C == 2 && CPB == 2 -> ((q) % C == 0 -> (q) + 1 : (q) - 1) : (q))
#define LEAST(q) (turn[TWIN(q)] < turn[q] -> turn[TWIN(q)] : turn[q])
#define HAND_TURN(q) (RULE(SLOT_TURN) -> turn[q] : LEAST(q))
#define HAND_OVER(q) (RULE(REST_TOO) -> part[q] : part[q] | held[q])

/* A partial sum is the RS that the rank next in turn waits for. */
inline evict()
{
	if
	:: !LOW && !CAST && slot[q] == ADD && HAND_TURN(q) > 0 && RULE(NO_HANDOVER) ->
		rs[J(q, (START(q) + HAND_TURN(q)) % N)] = HAND_OVER(q)
	:: LOW && ANY_ORDER && slot[q] == ADD && !RULE(LOW_HANDS) && held[q] != EVERYONE ->
		n = 0;
		count_held(q);
		rs[J(q, (START(q) + n) % N)] = part[q]
	:: else
	fi;
	clear(q, (RULE(NO_GONE_BIT) -> GONE : FREE))
}

/* UP of rank y, which carries @val */
inline add_turn(val)
{
	assert(slot[q] == ADD);
	part[q] = (val == OWN(q, y) && part[q] == PARTIAL(q, TURN(q, y)) ->
		   part[q] | val : GARBAGE);
	turn[q]++
}

inline send_sum()
{
	assert(slot[q] == SUM || CAST);
	for (y : CAST .. N - 1) {
		sum[J(q, y)] = (NO_SUM(y) -> NOTHING :
				(IS_LOW(y) || (CAST && !(held[q] & (1 << y)) && RULE(UNASKED)) ->
				 sum[J(q, y)] : part[q]))
	}
#if LOW
	low_sum[q] = part[q]
#endif
}

#define TURN_IS(y) (turn[q] < N && TURN(q, y) == turn[q])
#define WHOSE_TURN ((START(q) + turn[q]) % N)

/* Add what was held and is in turn now; in any order, if nothing is missing. */
inline add_held()
{
	n = turn[q];
	count_held(q);
	do
	:: turn[q] < N && (held[q] & (1 << WHOSE_TURN)) && (!ANY_ORDER || n == N) ->
		y = WHOSE_TURN;
		held[q] = held[q] & ~(1 << y);
		add_turn(up[J(q, y)])
	:: else -> break
	od;
	if
	:: turn[q] == N -> slot[q] = SUM; send_sum()
	:: else
	fi
}

#if LOW
/* The upper box: a contribution of the ranks in @mask, one or those of the lower box. */
inline add_any(val, mask)
{
	slot[q] = ADD;
	part[q] = (part[q] != GARBAGE && !(part[q] & val & EVERYONE) && (val) / (1 << N) == OP(q) ->
		   part[q] | val : GARBAGE);
	held[q] = held[q] | mask;
	if
	:: held[q] == EVERYONE -> slot[q] = SUM; send_sum()
	:: else
	fi
}

#if PASSED
/* Packets of slot q with turn t */
#define PASS(q, t) ((q) * (N + 1) + (t))
#define WHOSE_LOW ((START(q) + low_turn[q]) % N)

/* The lower box adds the ranks that are here and in turn. */
inline low_add_held()
{
	do
	:: low_turn[q] < N && (low_held[q] & (1 << WHOSE_LOW)) ->
		y = WHOSE_LOW;
		low_part[q] = (low_part[q] == PARTIAL(q, TURN(q, y)) -> low_part[q] | OWN(q, y) :
									 GARBAGE);
		low_turn[q]++
	:: else -> break
	od
}

/* The upper box adds the ranks that are here and in turn. */
inline high_add_held()
{
	do
	:: turn[q] < N && !IS_LOW(WHOSE_TURN) && (held[q] & (1 << WHOSE_TURN)) ->
		y = WHOSE_TURN;
		add_turn(OWN(q, y))
	:: else -> break
	od;
	if
	:: turn[q] == N -> slot[q] = SUM; send_sum()
	:: else
	fi
}

/* A rank's contribution at its box. */
inline rcv_up()
{
	if
	:: IS_LOW(x) ->
		low_slot[q] = ADD;
		low_held[q] = low_held[q] | (1 << x);
		low_add_held()
	:: else ->
		slot[q] = ADD;
		held[q] = held[q] | (1 << x);
		if
		:: RULE(NO_TURN)
		:: else -> y = x; add_turn(OWN(q, y))
		fi;
		high_add_held()
	fi
}

/* LOW_UP_ANY, LOW_DOWN_ANY: packets have no turn. Then it is the one for which the receiver waits. */
inline rcv_pass_up()
{
	slot[q] = ADD;
	held[q] = held[q] | LOW;
	if
	:: k > 0 ->
		part[q] = v;
		if
		:: RULE(LOW_UP_ANY) -> turn[q] = k
		:: else ->
			do
			:: turn[q] < N && IS_LOW(WHOSE_TURN) -> turn[q]++
			:: else -> break
			od
		fi;
		high_add_held()
	:: else
	fi
}

inline rcv_pass_down()
{
	low_part[q] = v;
	if
	:: RULE(LOW_DOWN_ANY) -> low_turn[q] = k
	:: else ->
		do
		:: low_turn[q] < N && !IS_LOW(WHOSE_LOW) -> low_turn[q]++
		:: else -> break
		od
	fi;
	low_add_held()
}
#else
/* A rank's contribution at its box. */
inline rcv_up()
{
	if
	:: IS_LOW(x) ->
		low_slot[q] = ADD;
		low_part[q] = (up[j] == OWN(q, x) -> low_part[q] | up[j] : GARBAGE)
	:: else -> add_any(up[j], 1 << x)
	fi
}
#endif

inline low_send_sum()
{
	for (y : 0 .. N - 1) {
		sum[J(q, y)] = (IS_LOW(y) -> low_part[q] : sum[J(q, y)])
	}
}

inline low_clear(s, to)
{
	low_slot[s] = to;
	low_part[s] = 0;
#if PASSED
	low_held[s] = 0;
	low_turn[s] = 0
#endif
}

inline low_complete()
{
	for (q : low_base * C .. low_base * C + C - 1) {
		low_clear(q, DONE)
	}
	low_base++
}

inline low_forget()
{
	low_base = 0;
	for (q : 0 .. SLOTS - 1) {
		low_clear(q, FREE)
	}
}
#elif CAST
/* The root's contribution, or another rank's question. */
inline rcv_up()
{
	v = up[j];
	q = UP_SLOT(j);
	count_rows();
	if
	:: slot[q] == FREE && n == POOL && RULE(NO_ROOM) -> evict()
	:: else ->
		slot[q] = ADD;
		held[q] = held[q] | (1 << x);
		part[q] = (IS_ROOT(x) || !RULE(ASKS_COUNT) -> v : part[q]);
		slot[q] = (held[q] == EVERYONE -> SUM : ADD);
		if
		:: part[q] != 0 -> send_sum()
		:: else
		fi
	fi;
	count_rows();
	assert(n <= POOL)
}
#else
#define HAS_ROOM (n < POOL || !RULE(NO_ROOM))

inline rcv_up()
{
	v = up[j];
	q = UP_SLOT(j);
	state[j] = state[j] | (RULE(UNACKED_ONLY) -> 0 : ACKED);
	slot[q] = ADD;
	count_rows();
	if
	:: (TURN_IS(x) || !RULE(NO_TURN)) && (turn[q] > 0 || HAS_ROOM) ->
		y = x;
		add_turn(v);
		add_held()
	:: !TURN_IS(x) && RULE(NO_TURN) && (HAS_ROOM || (ANY_ORDER && held[q] != 0)) ->
		held[q] = held[q] | (1 << x);
		add_held()
	:: else -> evict()
	fi;
	count_rows();
	assert(n <= POOL)
}
#endif

/* Box b forgets everything. */
inline forget(b)
{
	base[b] = 0;
	for (q : 0 .. SLOTS - 1) {
		if
		:: BX(q) == b -> clear(q, FREE)
		:: else
		fi
	}
	for (i : 0 .. ITEMS - 1) {
		up[i] = (RULE(OLD_LEG) && BX(Q(i)) == b -> 0 : up[i])
	}
}

inline die(b)
{
	box[b] = 0;
	forget(b)
}

/* All packets are lost, but for those the box holds. */
inline lose_all()
{
	calm = true;
	for (i : 0 .. ITEMS - 1) {
		up[i] = (HOLDS(i) -> up[i] : 0);
		rs[i] = 0;
		ag[i] = 0;
		sum[i] = 0
	}
	for (i : 0 .. N - 1) {
		news[i] = 0
	}
#if LOW
	for (i : 0 .. SLOTS - 1) {
		low_up[i] = 0;
		low_sum[i] = 0
	}
#endif
#if PASSED
	for (i : 0 .. SLOTS * (N + 1) - 1) {
		pass_up[i] = 0;
		pass_down[i] = 0
	}
#endif
}

/* All members have completed an operation, as box b knows. */
inline complete(b)
{
	for (q : base[b] * C .. base[b] * C + C - 1) {
		if
		:: BX(q) == b -> clear(q, DONE)
		:: else
		fi
	}
	base[b]++
}

/* -- what may happen ------------------------------------------------------ */

#define IF_UP(j) (IS_LIVE(j) && IS_GIVEN(j) && !HAS(j, UP_BUILD) && !up[j] && \
		  (IS_ROOT(X(j)) || !HAS(j, RS | AG)) && \
		  (UP_HELPS(j) || !RULE(OLD_LEG)))
#define IF_UP_COMES(j) (up[j] && \
			(UP_HELPS(j) || IS_ALIAS(j) || (!RULE(NO_TURN) && slot[Q(j)] <= ADD)))
#define LACKS(j) (IS_POSTED(j) && HAS(j, RINGED) && !IS_SETTLED(j))
#define IF_INJECT(j) (IS_LIVE(j) && (IS_GIVEN(j) || !RULE(GIVE_EARLY)) && FIRST(j) && HAS(j, RINGED) && !HAS(j, RS | AG) && \
		      (!calm || LACKS(TO(j))) && RULE(NO_INJECT))

/* A chunk that is no news there makes it ringed, which matters when all is calm. */
#define TELLS(j, bit) (!HAS(j, bit) || (calm && !HAS(j, RINGED)))
#define IS_PASSED(j) (REDUCE && done[X(j)] > OP(Q(j)))	/* off the table, or soon */
#define IF_RS(j) (IS_LIVE(j) && !LAST(j) && HAS(j, HAS_RS) && !HAS(j, AG | RS_BUILD) && \
		  !rs[TO(j)] && TELLS(TO(j), RS) && !IS_PASSED(j))
#define IF_AG(j) (!REDUCE && IS_LIVE(j) && HAS(j, AG) && HAS(j, RINGED) && !HAS(j, AG_BUILD) && \
		  !ag[TO(j)] && TELLS(TO(j), AG) && \
		  RULE(NO_AG) && (RULE(STOPS) || !LAST(TO(j))) && \
		  !IS_ROOT(X(TO(j))) && (RULE(ROOT_ONLY) || IS_ROOT(X(j))))
#define IF_UP_BUILT(j) (LATE && HAS(j, UP_BUILD))
#define IF_RS_BUILT(j) (LATE && HAS(j, RS_BUILD))
#define IF_AG_BUILT(j) (LATE && HAS(j, AG_BUILD))

#define IF_RS_COMES(j) (rs[j] && IS_LIVE(j) && IS_GIVEN(j) && \
			(!HAS(j, RS) || (calm && !HAS(j, RINGED) && RULE(RS_QUIET)) || \
			 (!RULE(ADD_TWICE) && !adding[j] && !HAS(j, AG))))
#define IF_ADDED(j) (adding[j])
#define MAY_STORE(j) (!adding[j] || !RULE(SUM_IN_ADD))
#define IF_AG_COMES(j) (ag[j] && !IS_RELEASED(j) && (IS_GIVEN(j) || !CAST) && MAY_STORE(j) && \
			(!HAS(j, AG) || (calm && !HAS(j, RINGED) && RULE(AG_QUIET))))
#define LACKS_SUM(q, y) (NO_SUM(y) -> !HAS(J(q, y), ACKED | HAS_RS) : !HAS(J(q, y), AG))
#define IF_SUM_COMES(j) (sum[j] && !IS_RELEASED(j) && (NO_SUM(X(j)) || MAY_STORE(j)) && \
			 LACKS_SUM(Q(j), X(j)))

/* The successor or the root wants what the box has acknowledged, if it is missing there. */
#define FALLS_BACK(j) (!IS_SETTLED(j) && RULE(NO_FALLBACK) && \
		       (!HAS(j, ACKED) || (!REDUCE && !BOX(Q(j)))) && \
		       (RULE(FIRST_LEG) || BX(Q(j)) == 0 || !box[0]))
#define IS_WANTED(j) (LACKS(TO(j)) && \
		      RULE(NO_WANT) && (!IS_SETTLED(j) || RULE(WANT_IGNORED)) && \
		      (!HAS(j, ACKED) || RULE(ACK_IS_LAST) || !REDUCE))
#define IF_RING(j) (IS_LIVE(j) && !HAS(j, RINGED) && (!calm || FALLS_BACK(j) || IS_WANTED(j)))

#define EVERYWHERE(q) (IS_SETTLED(J(q, 0)) && IS_SETTLED(J(q, 1)) && \
		       IS_SETTLED(J(q, N - 2)) && IS_SETTLED(J(q, N - 1)))
#define IS_SENT(q) (sum[J(q, 0)] || sum[J(q, 1)] || sum[J(q, N - 2)] || sum[J(q, N - 1)])
#define IF_EVICT(q) (!calm && (slot[q] == ADD || slot[q] == SUM))
#define SUM_MISSES(q, y) (LACKS_SUM(q, y) && !sum[J(q, y)])
#if LOW
#define LOW_LACKS(q) (low && low_slot[q] == ADD && !low_sum[q])
#define LOW_HAS(q, y) (!IS_LOW(y) || HAS(J(q, y), AG))
#define LOW_HAVE(q) (LOW_HAS(q, 0) && LOW_HAS(q, 1) && LOW_HAS(q, N - 2) && LOW_HAS(q, N - 1))
#define MISSES(q, y, is_low) (IS_LOW(y) == (is_low) && SUM_MISSES(q, y))
#define SOME_MISS(q, is_low) (MISSES(q, 0, is_low) || MISSES(q, 1, is_low) || \
			      MISSES(q, N - 2, is_low) || MISSES(q, N - 1, is_low))
#define IF_SUM_AGAIN(q) (slot[q] == SUM && (LOW_LACKS(q) || SOME_MISS(q, 0)))
#define IF_LOW_UP(q) (ANY_ORDER && low && low_slot[q] == ADD && !low_up[q] && HIGH_TAKES(q, LOW) && \
		      (low_part[q] == LOW_ALL(q) || !RULE(LOW_EARLY)))
#define IF_LOW_UP_COMES(q) (low_up[q] && HIGH_TAKES(q, LOW))
#define IF_LOW_SUM_COMES(q) (low_sum[q] && low && OP(q) >= low_base && low_slot[q] == ADD)
#define IF_LOW_EVICT(q) (!calm && low && (low_slot[q] == ADD || low_slot[q] == SUM))
#define IF_LOW_SUM_ACKED(q) (low && low_slot[q] == SUM && LOW_HAVE(q))
#define IF_LOW_SUM_AGAIN(q) (low && low_slot[q] == SUM && SOME_MISS(q, 1))
#define IF_LOW_COMPLETE (low && low_base < OPS && RULE(NO_BASE) && LOW_HAVE(low_base * C) && \
			 LOW_HAVE(low_base * C + C - 1))
#define LOW_TOLD (!low || low_base > base[0])
#define IF_OVERLAPS(j) (!RULE(OVERLAP) && up[j] && IS_LOW(X(j)) && HIGH_TAKES(Q(j), 0))
#if PASSED
/* The ranks in turns from @from to before @to are all at the lower box; or all are not. */
#define WHOSE(q, t) ((START(q) + (t)) % N)
#define FROM_LOW(q, from, t, to) ((t) < (from) || (t) >= (to) || IS_LOW(WHOSE(q, t)))
#define FROM_HIGH(q, from, t, to) ((t) < (from) || (t) >= (to) || !IS_LOW(WHOSE(q, t)))
#define ARE(OF, q, from, to) (OF(q, from, 0, to) && OF(q, from, 1, to) && \
			      OF(q, from, N - 2, to) && OF(q, from, N - 1, to))
#define WAITS_ABOVE(q) (low && low_slot[q] == ADD && low_held[q] == LOW && \
			(low_turn[q] == N || !IS_LOW(WHOSE(q, low_turn[q]))))
#define WAITS_BELOW(q) (BOX(q) && OP(q) >= BASE(q) && slot[q] == ADD && turn[q] < N && \
			IS_LOW(WHOSE(q, turn[q])))
#define UP_IN_TURN(q, t) ((t) > turn[q] && ARE(FROM_LOW, q, turn[q], t))
#define TAKES_PASS(q, t) (BOX(q) && OP(q) >= BASE(q) && slot[q] <= ADD && \
			  ((t) == 0 -> !(held[q] & LOW) : \
			   (UP_IN_TURN(q, t) || (!RULE(LOW_UP_ANY) && WAITS_BELOW(q)))))
#define TAKES_DOWN(q, t) (WAITS_ABOVE(q) && \
			  (((t) > low_turn[q] && ARE(FROM_HIGH, q, low_turn[q], t) && \
			    IS_LOW(WHOSE(q, t))) || (!RULE(LOW_DOWN_ANY) && low_turn[q] < N)))
#define IF_PASS_UP(q) (WAITS_ABOVE(q) && !pass_up[PASS(q, low_turn[q])] && TAKES_PASS(q, low_turn[q]))
#define IF_PASS_UP_COMES(p) (pass_up[p] && TAKES_PASS((p) / (N + 1), (p) % (N + 1)))
#define IF_PASS_DOWN(q) (WAITS_BELOW(q) && turn[q] > 0 && (held[q] & LOW) && \
			 !pass_down[PASS(q, turn[q])] && TAKES_DOWN(q, turn[q]))
#define IF_PASS_DOWN_COMES(p) (pass_down[p] && TAKES_DOWN((p) / (N + 1), (p) % (N + 1)))
#endif
#elif CAST
#define ASKS(q, y) ((held[q] & (1 << (y))) && !HAS(J(q, y), AG) && !sum[J(q, y)])
#define IF_SUM_AGAIN(q) (part[q] && (ASKS(q, 1) || ASKS(q, N - 2) || ASKS(q, N - 1)))
#define LOW_TOLD true
#elif REDUCE
#define IF_SUM_AGAIN(q) (slot[q] == SUM && (SUM_MISSES(q, 0) || SUM_MISSES(q, 1) || \
					    SUM_MISSES(q, N - 2) || SUM_MISSES(q, N - 1)))
#define LOW_TOLD true
#else
#define IF_SUM_AGAIN(q) (slot[q] == SUM && !EVERYWHERE(q) && !IS_SENT(q))
#define LOW_TOLD true
#endif
#if REDUCE
#define IF_SUM_ACKED(q) (slot[q] == SUM && !LACKS_SUM(q, 0) && !LACKS_SUM(q, 1) && \
			 !LACKS_SUM(q, N - 2) && !LACKS_SUM(q, N - 1))
#else
#define IF_SUM_ACKED(q) (slot[q] == SUM && EVERYWHERE(q))
#endif

#define IF_POST(x) (op_next[x] < OPS && \
		    (op_next[x] < TABLE || ((released[x] >> (op_next[x] - TABLE)) & 1)))
#define IF_GIVE(j) (GIVES && IS_LIVE(j) && !IS_GIVEN(j) && \
		    (GIVES == 1 || HAS(J(Q(j) - 1, X(j)), AG)))
#define IF_NEWS_COMES(x) (news[x] != 0)
/* Complete here, as far as the successor's done goes, and more is complete there. */
#define IF_PROBE(x) (calm && done[x] < OPS && !news[NEXT(x)] && \
		     (HAS_OP(done[x], x) || NO_SUM(x)) && \
		     HAS_OP(done[x], NEXT(x)) && \
		     (done[x] == 0 || HAS_OP(0, NEXT(x))) && RULE(DONE_ONCE))

#define OP_EVERYWHERE(o) (EVERYWHERE((o) * C) && EVERYWHERE((o) * C + C - 1))
#define OP_SOMEWHERE(o, b) (!RULE(POSTED_SOME) && box[b] > 1 && HAS_OP(o, 0))
#define SHARE_EVERYWHERE(o, b) (!RULE(SHARE_DONE) && EVERYWHERE((o) * C + (b)))
#define IF_COMPLETE(b) (box[b] && base[b] < OPS && RULE(NO_BASE) && LOW_TOLD && \
			(OP_EVERYWHERE(base[b]) || OP_SOMEWHERE(base[b], b) || \
			 SHARE_EVERYWHERE(base[b], b)))
/* b is a box and a rank. */
#define IF_LEG_ACK(b) (!LOW && box[(b) / N] && base[(b) / N] > done[(b) % N])
#define IF_DARK_ONE(b) (!calm && !ENDED)
#define IF_FORGET(b) (box[b] && box[b] < BOXES && !calm && !ENDED)

#define RELEASED_ALL(x) (released[x] == (1 << OPS) - 1)
#define ENDED (RELEASED_ALL(0) && RELEASED_ALL(1) && RELEASED_ALL(N - 2) && RELEASED_ALL(N - 1))
#if LOW
#define IS_EMPTY ((!box[0] || base[0] == OPS) && (!low || low_base == OPS))
#else
#define HAS_NONE(b) (!box[b] || base[b] == OPS)
#define IS_EMPTY (HAS_NONE(0) && HAS_NONE(PAR - 1))
#endif

/* One option for each j for which IF(j) holds. */
#define FOR1(IF, WHAT, b) :: IF(b) -> what = WHAT; j = b
#if N == 2
#define ROW(IF, WHAT, b) FOR1(IF, WHAT, b) FOR1(IF, WHAT, b + 1)
#elif N == 3
#define ROW(IF, WHAT, b) FOR1(IF, WHAT, b) FOR1(IF, WHAT, b + 1) FOR1(IF, WHAT, b + 2)
#else
#define ROW(IF, WHAT, b) FOR1(IF, WHAT, b) FOR1(IF, WHAT, b + 1) \
			 FOR1(IF, WHAT, b + 2) FOR1(IF, WHAT, b + 3)
#endif
#define ANY_RANK(IF, WHAT) ROW(IF, WHAT, 0)
#if PAR == 1
#define ANY_BOX(IF, WHAT) FOR1(IF, WHAT, 0)
#define ANY_LEG(IF, WHAT) ROW(IF, WHAT, 0)
#else
#define ANY_BOX(IF, WHAT) FOR1(IF, WHAT, 0) FOR1(IF, WHAT, 1)
#define ANY_LEG(IF, WHAT) ROW(IF, WHAT, 0) ROW(IF, WHAT, N)
#endif
#if SLOTS == 1
#define ANY_SLOT(IF, WHAT) FOR1(IF, WHAT, 0)
#define ANY_ITEM(IF, WHAT) ROW(IF, WHAT, 0)
#elif SLOTS == 2
#define ANY_SLOT(IF, WHAT) FOR1(IF, WHAT, 0) FOR1(IF, WHAT, 1)
#define ANY_ITEM(IF, WHAT) ROW(IF, WHAT, 0) ROW(IF, WHAT, N)
#else
#define ANY_SLOT(IF, WHAT) FOR1(IF, WHAT, 0) FOR1(IF, WHAT, 1) \
			   FOR1(IF, WHAT, 2) FOR1(IF, WHAT, 3)
#define ANY_ITEM(IF, WHAT) ROW(IF, WHAT, 0) ROW(IF, WHAT, N) \
			   ROW(IF, WHAT, 2 * N) ROW(IF, WHAT, 3 * N)
#endif

#define PASSES(IF, WHAT, q) ROW(IF, WHAT, (q) * (N + 1)) FOR1(IF, WHAT, (q) * (N + 1) + N)
#if SLOTS == 1
#define ANY_PASS(IF, WHAT) PASSES(IF, WHAT, 0)
#else
#define ANY_PASS(IF, WHAT) PASSES(IF, WHAT, 0) PASSES(IF, WHAT, 1)
#endif

/* Packets that can tell nothing new, now or later, are forgotten. */
#define UP_LATER (!RULE(NO_TURN) || !RULE(MODULO) || !RULE(NO_DONE_BIT) || \
		  !RULE(NO_GONE_BIT) || !RULE(OLD_LEG))
#define IS_OLD_UP(j) (!UP_HELPS(j) && !HOLDS(j) && !UP_LATER)
#define IS_OLD(j, bit) (HAS(j, bit) && (!calm || HAS(j, RINGED)))
inline drop_old()
{
	for (i : 0 .. ITEMS - 1) {
		up[i] = (IS_OLD_UP(i) -> 0 : up[i]);
		rs[i] = (IS_OLD(i, RS) && (RULE(ADD_TWICE) || HAS(i, AG)) -> 0 : rs[i]);
		ag[i] = (IS_OLD(i, AG) -> 0 : ag[i]);
		sum[i] = (LACKS_SUM(Q(i), X(i)) -> sum[i] : 0)
	}
	for (i : 0 .. N - 1) {
		news[i] = (news[i] > done[PREV(i)] -> news[i] : 0)
	}
#if LOW
	for (i : 0 .. SLOTS - 1) {
		low_up[i] = (HIGH_TAKES(i, LOW) -> low_up[i] : 0);
		low_sum[i] = (low && low_slot[i] <= ADD && OP(i) >= low_base -> low_sum[i] : 0)
	}
#endif
#if PASSED
	for (i : 0 .. SLOTS * (N + 1) - 1) {
		q = i / (N + 1);
		k = i % (N + 1);
		pass_up[i] = (BOX(q) && OP(q) >= BASE(q) && slot[q] <= ADD &&
			      (k == 0 -> !(held[q] & LOW) : k > turn[q] || !RULE(LOW_UP_ANY)) ->
			      pass_up[i] : 0);
		pass_down[i] = (low && OP(q) >= low_base && low_slot[q] <= ADD &&
				(k > low_turn[q] || !RULE(LOW_DOWN_ANY)) -> pass_down[i] : 0)
	}
#endif
}

/* Why sums cannot be wrong: each packet carries what its kind and receiver say. */
#define IS_RIGHT(val, want) ((val) == 0 || (val) == (want) || MUTATION)
inline check_packets()
{
	for (i : 0 .. ITEMS - 1) {
		assert(IS_RIGHT(up[i], GIVES_WHAT(Q(i), X(i))));
		assert(IS_RIGHT(rs[i], PARTIAL(Q(i), TURN(Q(i), X(i)))));
		assert(IS_RIGHT(ag[i], TOTAL(Q(i))));
		assert(IS_RIGHT(sum[i], (NO_SUM(X(i)) -> NOTHING : TOTAL(Q(i)))))
	}
#if LOW
	for (i : 0 .. SLOTS - 1) {
		assert(IS_RIGHT(low_up[i], LOW_ALL(i)));
		assert(IS_RIGHT(low_sum[i], TOTAL(i)))
	}
#endif
#if PASSED
	for (i : 0 .. SLOTS * (N + 1) - 1) {
		q = i / (N + 1);
		k = i % (N + 1);
		assert(IS_RIGHT(pass_up[i], (k == 0 -> NOTHING : PARTIAL(q, k))));
		assert(IS_RIGHT(pass_down[i], PARTIAL(q, k)))
	}
#endif
}

inline happen_at_item()
{
	q = Q(j);
	x = X(j);
	if
	:: what == UP_CHOSEN || what == RS_CHOSEN || what == AG_CHOSEN -> choose()
	:: what == UP_BUILT || what == RS_BUILT || what == AG_BUILT -> build()
	:: what == UP_COMES -> rcv_up()
	:: what == INJECTED -> state[j] = state[j] | RS | HAS_RS
	:: what == RS_COMES -> rcv_rs()
	:: what == ADDED -> finish_add()
	:: what == AG_COMES -> rcv_sum(ag[j], (RULE(AG_QUIET) -> RINGED : 0))
	:: what == SUM_COMES && NO_SUM(x) -> rcv_acked()
	:: what == SUM_COMES && !NO_SUM(x) -> rcv_sum(sum[j], 0)
	:: what == GIVEN -> give()
	:: what == RING -> state[j] = state[j] | RINGED
#if LOW
	:: what == OVERLAPS -> add_any(up[j], 1 << x)
#endif
	:: else
	fi
}

#if LOW
inline happen_below()
{
	q = j;
	if
	:: what == LOW_UP -> low_up[q] = low_part[q]
	:: what == LOW_UP_COMES -> v = low_up[q]; add_any(v, LOW)
	:: what == LOW_SUM_COMES -> low_slot[q] = SUM; low_part[q] = low_sum[q]; low_send_sum()
	:: what == LOW_EVICTED -> low_clear(q, GONE)
	:: what == LOW_SUM_ACKED -> low_clear(q, DONE)
	:: what == LOW_SUM_AGAIN -> low_send_sum()
	:: what == LOW_COMPLETE -> low_complete()
	:: what == LOW_FORGOTTEN -> low++; low_forget()
	:: what == DARK_LOW -> lose_all(); low = 0; low_forget()
	:: what == DARK_HIGH -> lose_all(); die(0)
	:: what == DARK -> low = 0; low_forget()
	:: else
	fi
}
#endif

#if PASSED
inline happen_between()
{
	q = j;
	if
	:: what == PASS_UP -> pass_up[PASS(q, low_turn[q])] = (low_turn[q] == 0 -> NOTHING : low_part[q])
	:: what == PASS_DOWN -> pass_down[PASS(q, turn[q])] = part[q]
	:: what == PASS_UP_COMES -> v = pass_up[j]; q = j / (N + 1); k = j % (N + 1); rcv_pass_up()
	:: what == PASS_DOWN_COMES -> v = pass_down[j]; q = j / (N + 1); k = j % (N + 1); rcv_pass_down()
	:: else
	fi
}
#endif

inline happen_elsewhere()
{
	q = j;
	x = j;
	if
	:: what == EVICTED -> evict()
	:: what == SUM_ACKED -> clear(q, (RULE(NO_DONE_BIT) -> DONE : FREE))
	:: what == SUM_AGAIN -> send_sum()
	:: what == POSTED -> post()
	:: what == NEWS_COMES -> done[PREV(x)] = news[x]
	:: what == PROBED -> count_done(NEXT(x)); news[NEXT(x)] = n
	:: what == LEG_ACK -> done[j % N] = base[j / N]
	:: what == COMPLETE -> complete(j)
	:: what == FORGOTTEN -> box[j]++; forget(j)
	:: what == DARK -> lose_all(); for (y : 0 .. PAR - 1) { die(y) }
	:: what == DARK_ONE -> lose_all(); die(j)
	:: what == DARK_ALIVE -> lose_all()
	:: else
	fi
}

inline happen()
{
	happen_at_item();
	happen_elsewhere();
#if LOW
	happen_below();
#endif
#if PASSED
	happen_between();
#endif
#if REDUCE
	for (y : (RULE(ROOT_PASSED) -> 1 : 0) .. (RULE(NOT_PASSED) -> N - 1 : 0)) {
		pass_done(y)
	}
#endif
	for (y : 0 .. N - 1) {
		try_release(y)
	}
	check_packets();
	drop_old()
}

init
{
	do
	:: atomic {
		if
		ANY_ITEM(IF_UP, UP_CHOSEN)
		ANY_ITEM(IF_UP_BUILT, UP_BUILT)
		ANY_ITEM(IF_UP_COMES, UP_COMES)
		ANY_ITEM(IF_INJECT, INJECTED)
		ANY_ITEM(IF_RS, RS_CHOSEN)
		ANY_ITEM(IF_RS_BUILT, RS_BUILT)
		ANY_ITEM(IF_RS_COMES, RS_COMES)
		ANY_ITEM(IF_ADDED, ADDED)
		ANY_ITEM(IF_AG, AG_CHOSEN)
		ANY_ITEM(IF_AG_BUILT, AG_BUILT)
		ANY_ITEM(IF_AG_COMES, AG_COMES)
		ANY_ITEM(IF_SUM_COMES, SUM_COMES)
		ANY_ITEM(IF_RING, RING)
		ANY_ITEM(IF_GIVE, GIVEN)
		ANY_SLOT(IF_EVICT, EVICTED)
		ANY_SLOT(IF_SUM_ACKED, SUM_ACKED)
		ANY_SLOT(IF_SUM_AGAIN, SUM_AGAIN)
#if LOW
		ANY_ITEM(IF_OVERLAPS, OVERLAPS)
		ANY_SLOT(IF_LOW_UP, LOW_UP)
		ANY_SLOT(IF_LOW_UP_COMES, LOW_UP_COMES)
		ANY_SLOT(IF_LOW_SUM_COMES, LOW_SUM_COMES)
		ANY_SLOT(IF_LOW_EVICT, LOW_EVICTED)
		ANY_SLOT(IF_LOW_SUM_ACKED, LOW_SUM_ACKED)
		ANY_SLOT(IF_LOW_SUM_AGAIN, LOW_SUM_AGAIN)
#if PASSED
		ANY_SLOT(IF_PASS_UP, PASS_UP)
		ANY_SLOT(IF_PASS_DOWN, PASS_DOWN)
		ANY_PASS(IF_PASS_UP_COMES, PASS_UP_COMES)
		ANY_PASS(IF_PASS_DOWN_COMES, PASS_DOWN_COMES)
#endif
		:: IF_LOW_COMPLETE -> what = LOW_COMPLETE
		:: low && low < BOXES && !calm && !ENDED -> what = LOW_FORGOTTEN
		:: ALIVE && low && box[0] && !calm && !ENDED -> what = DARK_LOW
		:: ALIVE && low && box[0] && !calm && !ENDED -> what = DARK_HIGH
#endif
		ANY_RANK(IF_POST, POSTED)
		ANY_RANK(IF_NEWS_COMES, NEWS_COMES)
		ANY_RANK(IF_PROBE, PROBED)
		ANY_LEG(IF_LEG_ACK, LEG_ACK)
		ANY_BOX(IF_COMPLETE, COMPLETE)
		ANY_BOX(IF_FORGET, FORGOTTEN)
#if PAR == 2
		ANY_BOX(IF_DARK_ONE, DARK_ONE)
#endif
		:: !calm && !ENDED -> what = DARK
		:: ALIVE && !calm && !ENDED -> what = DARK_ALIVE
		fi;
		d_step {
			happen();
			what = 0;
			j = 0
		}
	}
	:: ENDED && IS_EMPTY -> break
	od
}
