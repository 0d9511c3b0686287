/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Carriers: packets that point to the sender's memory, in one operation from post to release.
 *
 * A packet of a chunk is a copy of the sender's buffer, or a carrier. The receiver of a carrier
 * reads the sender's buffer when the carrier arrives. The buffer is memory of the sender's user,
 * who writes to it as soon as it is given back. The rules:
 *
 * 1. A receiver reads a carrier's memory only after it has claimed the chunk. It records a chunk
 *    when the chunk is published, or held. A duplicate of a chunk that is claimed and not yet
 *    published is dropped unrecorded.
 * 2. Memory that may be read has an entry, which names the operation. A receiver looks the entry
 *    up before it claims, and reads, in one RCU read side section. If there is no entry it drops
 *    the carrier as if it had been lost.
 * 3. A rank that has not posted holds a packet and records it. A carrier is copied then, under
 *    the lock that post() takes (early.lock), and only if no packet of that chunk is held.
 * 4. Post claims the chunks that are held before any receiver can claim them.
 * 5. An operation that is complete, and whose packets are all acknowledged, is released: the
 *    entry goes, and the user gets the memory. No grace period is needed.
 * 6. close() of a complete operation copies the buffer to memory of the kernel. The rank sends
 *    copies of that from then on. The entry goes, a grace period passes, and the user gets the
 *    memory. close() before the operation is complete is a failure.
 * 7. A failed rank sends nothing and receives nothing. Its entry goes, a grace period passes, and
 *    the user gets the memory.
 *
 * An all-reduce is released only when all ranks have posted and added. So rule 4 is needed only for
 * the other collectives: there a packet that is held may be the last for which its sender waits.
 *
 * WAITS: the user gets the memory a grace period after release. Then rule 4 is not needed, and the
 * copy of rule 3 needs no lock. PINNED: the user gets the memory at once, but its pages stay pinned
 * for a grace period. So it is no error to read them, if what was read is not used. Then the
 * copy of rule 3 needs no lock, and the first copy counts.
 *
 * Modelled: the steps of CPUS receivers, which serve all ranks, of the post and the end at each
 * rank, and RCU. A chunk is read and written in two halves, in two steps. The claim and the first
 * half are one step, and the second half and the publication are: all that may happen in between
 * may happen between the halves, too.
 *
 * Left out, and why that is sound:
 *
 * - A sum is the set of the ranks added. ring.pml looks at their order.
 * - The network loses, duplicates, delays and reorders without limit: a packet, once sent, may
 *   come at any later time, any number of times, or never. So it does not matter when a packet is
 *   sent, or sent again: a carrier and a copy are sent when the chunk is published.
 * - Losses end: in any state, once, all packets on the way are lost. From there nothing is lost,
 *   a packet comes once, and it is sent again only if its receiver has use for it. Unless a rank
 *   failed, every run must end with the operation released everywhere.
 * - A rank is released at any time after its successor has recorded all packets: an ACK is late
 *   without limit. link.pml shows that ACKs are repeated.
 * - A duplicate of a chunk that is claimed or held when it comes has no effect. So it is left out,
 *   except with the mutations that give it one.
 * - The user writes to all the memory at the moment in which the memory is given back. A user who
 *   writes later leaves the right values to a receiver that reads too late.
 * - A copy carries the right value, or it is a duplicate. A sender that builds it is a reader of
 *   its own operation (op->users), and ring.pml and rank.pml show both.
 * - A user who writes to memory that is not given back spoils the sums with copies, too.
 * - Which CPU takes a packet makes no difference: the first that is idle takes it.
 *
 * Checked: what is published, at any rank, is the exact sum of the contributions that belong to
 * it, in both halves, and so is a result when the user gets it; no memory of a user is read or
 * written after it was given back; every run ends, see above.
 * MUTATION removes a rule.
 */
#ifndef N
#define N	2		/* ranks: 2, 3 */
#endif
#ifndef C
#define C	1		/* chunks of the operation: 1, 2; chunk c begins at rank c */
#endif
#define REDUCE	0
#define SCATTER	1
#define GATHER	2
#ifndef KIND
#define KIND	REDUCE		/* all-reduce, reduce-scatter, all-gather */
#endif
#ifndef CPUS
#define CPUS	2		/* receivers at a time */
#endif
#ifndef WAITS
#define WAITS	0		/* 1: a grace period after release */
#endif
#ifndef PINNED
#define PINNED	0		/* 1: memory that was given back may be read, but not used */
#endif
#ifndef CLOSES
#define CLOSES	1		/* a rank may close */
#endif
#ifndef FAILS
#define FAILS	1		/* a rank may fail */
#endif
#ifndef ENDS
#define ENDS	1		/* losses end */
#endif

#define READ_BEFORE_CLAIM 1	/* 1. add what comes, claimed before or not */
#define READ_FIRST	2	/* 1. read, then claim, then add what was read if the claim is won */
#define ACK_CLAIMED	3	/* 1. record a duplicate of a chunk that is being read */
#define NO_ENTRY_CHECK	4	/* 2. no look at the entry */
#define CLAIM_FIRST	5	/* 2. look after the claim, and drop the carrier */
#define BY_MEMORY	6	/* 2. an entry names memory, which the user may lend again */
#define NO_COPY_HELD	7	/* 3. read a held carrier when its chunk is used */
#define LOOK_HELD	8	/* 3. as NO_COPY_HELD, or drop it if the entry is gone */
#define COPY_UNLOCKED	9	/* 3. copy, then take the lock and look */
#define LAST_HELD	10	/* 3. as COPY_UNLOCKED, and the copy replaces one that is held */
#define CLAIM_LATE	11	/* 4. claim a held chunk when it is used */
#define RELEASE_EARLY	12	/* 5. release what is complete */
#define NO_GRACE	13	/* 6, 7. no grace period */
#define CLOSE_ANY	14	/* 6. close() at any time, while receivers write to the buffer */
#define SUMS_ONLY	15	/* 6. complete when the result is there, and partial sums still come */
/* Not caught: look after the claim, and give the claim back if the entry is gone. */
#define CLAIM_UNDONE	16
/* Not caught: the entry stays after release. No chunk is claimed that late. */
#define ENTRY_STAYS	17
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#define RS	0
#define AG	1
#define ADDS	(KIND != GATHER)
#define RETURNS	(KIND == REDUCE)
#define FIRST	(ADDS -> RS : AG)

/* Item i = phase * C + chunk; j: item of all, by sender. */
#define ITEMS	(2 * C)
#define SRC(j)	((j) / ITEMS)
#define PHASE(j) ((j) % ITEMS / C)
#define CHUNK(j) ((j) % C)
#define NEXT(r)	(((r) + 1) % N)
#define PREV(r)	(((r) + N - 1) % N)
#define BIT(p, c) (1 << ((p) * C + (c)))
#define BIT_OF(j) (1 << ((j) % ITEMS))
#define IN(mask, j) ((mask[SRC(j)] >> ((j) % ITEMS)) & 1)

/* The schedule, as in ring.pml. */
#define DIST(r, c) (((r) + N - (c)) % N)
#define LAST(r, c) (DIST(r, c) + 1 == N)
#define OWES(r, p, c) (RETURNS -> (c) != ((r) + 1 + (p)) % N : \
		       (p) == FIRST && (c) != ((r) + 1) % N)
#define NEEDS(r, c) (RETURNS || (ADDS -> LAST(r, c) : (c) != (r)))
#if C == 1
#define MASK(WHAT, r) WHAT(r, 0)
#else
#define MASK(WHAT, r) (WHAT(r, 0) | WHAT(r, 1))
#endif
#define OWED_OF(r, c) (OWES(r, RS, c) * BIT(RS, c) | OWES(r, AG, c) * BIT(AG, c))
#define ARRIVES(r, c) (RULE(SUMS_ONLY) || !ADDS -> (c) != (r) : LAST(r, c))
#define NEED_OF(r, c) (RETURNS -> BIT(AG, c) : ARRIVES(r, c) * BIT(FIRST, c))
#define MINE_OF(r, c) (((c) == (r)) * BIT(FIRST, c))
#define OWED(r)	MASK(OWED_OF, r)
#define NEED(r)	MASK(NEED_OF, r)	/* all that arrives; then the operation is complete */
#define MINE(r)	MASK(MINE_OF, r)

/* Values: a bit for each rank. */
#define GARBAGE	128
#define HAS_ADDED(x, r, c) ((DIST(x, c) <= DIST(r, c)) << (x))
#if N == 2
#define PARTIAL(r, c) (HAS_ADDED(0, r, c) | HAS_ADDED(1, r, c))
#else
#define PARTIAL(r, c) (HAS_ADDED(0, r, c) | HAS_ADDED(1, r, c) | HAS_ADDED(2, r, c))
#endif
#define TOTAL(c) (ADDS -> (1 << N) - 1 : 1 << (c))
#define RIGHT(r, p, c) ((p) == RS -> PARTIAL(r, c) : TOTAL(c))
#define OWN(r, c) (ADDS || (c) == (r) -> 1 << (r) : 0)

/* Memory: two halves of each chunk. */
#define AT(r, c, half) (((r) * C + (c)) * 2 + (half))
byte mem[N * C * 2];		/* of the user */
byte kept[N * C * 2];		/* of the kernel, of a closed rank */
byte hold[N * C * 2];		/* of the kernel, held packets */

/* Ranks. Masks of items. */
byte claimed[N];
byte published[N];
byte held[N];			/* by this rank */
byte recorded[N];		/* by the successor */
bool posted[N];
bool lent[N];			/* the entry */
bool released[N];
bool closed[N];			/* sends from kept */
bool failed[N];
bool given[N];			/* the user has the memory */
bool locked[N];			/* early.lock */

/* The network: packets on the way, by sender. */
byte carriers[N];
byte copies[N];
bool calm;			/* nothing is lost any more */

/* RCU: CPUs and calls in a read side section, and those that a rank waits for. */
byte readers;
byte waits_for[N];

/* Of one step only. */
hidden byte k, v, x, y, p, c;

inline rcu_unlock()
{
	readers = readers & ~me;
	for (k : 0 .. N - 1) {
		waits_for[k] = waits_for[k] & ~me
	}
}

/* -- receiving: item j from rank x to rank y ------------------------------ */

inline decode()
{
	x = SRC(j);
	y = NEXT(x);
	p = PHASE(j);
	c = CHUNK(j)
}

/* v = a half of what the packet carries */
inline load(half)
{
	if
	:: points -> assert(!given[x] || PINNED); v = mem[AT(x, c, half)]
	:: else -> v = RIGHT(x, p, c)
	fi
}

/* Add a half of a packet to the buffer, or store it. */
inline add(half, val)
{
	if
	:: loaded -> v = val
	:: else -> load(half)
	fi;
	k = AT(y, c, half);
	assert(!given[y] || closed[y]);
	if
	:: p == AG && closed[y] -> kept[k] = v
	:: p == AG && !closed[y] -> mem[k] = v
	:: p == RS && closed[y] -> kept[k] = (kept[k] & v -> GARBAGE : kept[k] | v)
	:: p == RS && !closed[y] -> mem[k] = (mem[k] & v -> GARBAGE : mem[k] | v)
	fi
}

/* Chunks of rank r are published: send what it owes. */
inline send(r, bits)
{
	if
	:: !failed[r] ->
		copies[r] = copies[r] | (bits) & OWED(r);
		carriers[r] = carriers[r] | (closed[r] -> 0 : (bits) & OWED(r))
	:: else
	fi
}

#define BUF(r, c, half) (closed[r] -> kept[AT(r, c, half)] : mem[AT(r, c, half)])

inline publish()
{
	assert((BUF(y, c, 0)) == (RIGHT(y, p, c)) && (BUF(y, c, 1)) == (RIGHT(y, p, c)));
	if
	:: p == RS && LAST(y, c) ->
		claimed[y] = claimed[y] | BIT(AG, c);
		v = BIT(RS, c) | BIT(AG, c)
	:: else -> v = BIT(p, c)
	fi;
	published[y] = published[y] | v;
	send(y, v);
	recorded[x] = recorded[x] | BIT(p, c)
}

/* won = this CPU has claimed the chunk */
inline claim()
{
	won = !(claimed[y] & BIT(p, c));
	claimed[y] = claimed[y] | BIT(p, c)
}

#define HAS_ENTRY(x) (lent[x] || !RULE(NO_ENTRY_CHECK) || (given[x] && !RULE(BY_MEMORY)))
#define LOOKS_LATE (!RULE(CLAIM_FIRST) || !RULE(CLAIM_UNDONE))
#define IS_GONE(is_carrier, x) ((is_carrier) && !HAS_ENTRY(x))

/* A packet that is dropped when it comes: a duplicate, no operation that runs, no entry. */
#define HAS_DUPLICATES (!RULE(READ_BEFORE_CLAIM) || !RULE(READ_FIRST) || !RULE(ACK_CLAIMED) || \
			!RULE(COPY_UNLOCKED) || !RULE(LAST_HELD))
#define IS_DUPLICATE(y, j) (((claimed[y] | held[y]) & BIT_OF(j)) && !HAS_DUPLICATES)
#define IS_IN_VAIN(is_carrier, j, x, y) \
	(IS_DUPLICATE(y, j) || failed[y] || released[y] || \
	 (IS_GONE(is_carrier, x) && !(LOOKS_LATE && posted[y])))
#define IS_DROPPED(is_carrier, j) IS_IN_VAIN(is_carrier, j, SRC(j), NEXT(SRC(j)))

inline take()
{
	if
	:: points -> carriers[SRC(j)] = carriers[SRC(j)] & ~BIT_OF(j)
	:: else -> copies[SRC(j)] = copies[SRC(j)] & ~BIT_OF(j)
	fi
}

/* The claim is lost. */
inline drop_duplicate()
{
	if
	:: !RULE(READ_BEFORE_CLAIM) -> add(0, v0); add(1, v1)
	:: else
	fi;
	if
	:: !RULE(ACK_CLAIMED) -> recorded[x] = recorded[x] | BIT(p, c)
	:: else
	fi
}

/* A packet of a chunk to which this rank has contributed. */
inline begin_add()
{
	claim();
	if
	:: !won -> drop_duplicate()
	:: won && !LOOKS_LATE -> add(0, v0)
	:: else
	fi
}

/* CLAIM_FIRST, CLAIM_UNDONE: look when the chunk is claimed. */
inline look_late()
{
	if
	:: IS_GONE(points, x) ->
		won = false;
		claimed[y] = claimed[y] & ~(RULE(CLAIM_UNDONE) -> 0 : BIT(p, c))
	:: else -> add(0, v0)
	fi
}

#define COPIES_HELD (!points || (RULE(NO_COPY_HELD) && RULE(LOOK_HELD)))

/* Hold a packet, unless one of the chunk is held. The lock is held until end_hold(). */
inline begin_hold()
{
	if
	:: held[y] & BIT(p, c)
	:: else ->
		locked[y] = true;
		holds = true;
		if
		:: COPIES_HELD -> load(0); v0 = v
		:: else
		fi
	fi
}

inline put_on_list()
{
	held[y] = held[y] | BIT(p, c);
	hold[AT(y, c, 0)] = v0;
	hold[AT(y, c, 1)] = v1;
	recorded[x] = recorded[x] | BIT(p, c)
}

inline end_hold()
{
	if
	:: COPIES_HELD -> load(1); v1 = v
	:: else
	fi;
	put_on_list();
	locked[y] = false;
	holds = false
}

/* COPY_UNLOCKED: v0 and v1 were read before the lock was taken. */
inline hold_late()
{
	if
	:: !(held[y] & BIT(p, c)) || !RULE(LAST_HELD) -> put_on_list()
	:: else
	fi
}

inline first_half()
{
	if
	:: posted[y] -> begin_add()
	:: !posted[y] && loaded -> hold_late()
	:: else -> begin_hold()
	fi
}

inline second_half()
{
	if
	:: won -> add(1, v1); publish()
	:: holds -> end_hold()
	:: else
	fi
}

inline leave()
{
	rcu_unlock();
	points = false;
	won = false;
	loaded = false;
	v0 = 0;
	v1 = 0;
	j = 0
}

/* An option for each item j for which IF(j) holds. */
#define FOR2(IF, b, P) :: IF(b) -> j = b; points = P :: IF(b + 1) -> j = b + 1; points = P
#define FOR4(IF, b, P) FOR2(IF, b, P) FOR2(IF, b + 2, P)
#if N * C == 2
#define ANY(IF, P) FOR4(IF, 0, P)
#elif N * C == 3
#define ANY(IF, P) FOR4(IF, 0, P) FOR2(IF, 4, P)
#elif N * C == 4
#define ANY(IF, P) FOR4(IF, 0, P) FOR4(IF, 4, P)
#else
#define ANY(IF, P) FOR4(IF, 0, P) FOR4(IF, 4, P) FOR4(IF, 8, P)
#endif

#define MAY_TAKE ((readers & (me - 1)) == me - 1)
#define CARRIER_COMES(j) (MAY_TAKE && IN(carriers, j) && !IS_DROPPED(true, j))
#define COPY_COMES(j) (MAY_TAKE && IN(copies, j) && !IS_DROPPED(false, j))
#define READS_FIRST (points && (!RULE(COPY_UNLOCKED) || !RULE(LAST_HELD) || \
		     (!RULE(READ_FIRST) && posted[NEXT(SRC(j))])))

active [CPUS] proctype softirq()
{
	byte me = 1 << _pid;
	byte j, v0, v1;
	bool points, won, holds, loaded;

end:
	do
	:: atomic {
		if
		ANY(CARRIER_COMES, true)
		ANY(COPY_COMES, false)
		fi;
		d_step {
			readers = readers | me;
			if
			:: calm -> take()
			:: else
			fi
		}
	   };
	   if
	   :: READS_FIRST ->
		d_step { decode(); load(0); v0 = v };
		d_step { decode(); load(1); v1 = v; loaded = true }
	   :: else
	   fi;
	   atomic {
		posted[NEXT(SRC(j))] || !locked[NEXT(SRC(j))];
		d_step { decode(); first_half() };
		if
		:: !won && !holds -> d_step { leave() }
		:: else
		fi
	   };
	   if
	   :: won && LOOKS_LATE ->
		d_step { decode(); look_late() };
		d_step { decode(); second_half(); leave() }
	   :: holds || (won && !LOOKS_LATE) -> d_step { decode(); second_half(); leave() }
	   :: else
	   fi
	od
}

/* -- the network ---------------------------------------------------------- */

/* After losses have ended: nothing else makes the receiver record it. */
#define IS_USEFUL(j, y)	(!IN(carriers, j) && !IN(copies, j) && !IN(recorded, j) && \
			 !(claimed[y] & BIT_OF(j)) && !failed[y])
#define SENDS_AGAIN(j) (calm && posted[SRC(j)] && !released[SRC(j)] && !failed[SRC(j)] && \
			OWES(SRC(j), PHASE(j), CHUNK(j)) && IN(published, j) && \
			IS_USEFUL(j, NEXT(SRC(j))))
#define MAY_CARRY(j) (SENDS_AGAIN(j) && !closed[SRC(j)])
#define CARRIER_ENDS(j) (calm && IN(carriers, j) && IS_DROPPED(true, j))
#define COPY_ENDS(j) (calm && IN(copies, j) && IS_DROPPED(false, j))

active proctype network()
{
	byte j;
	bool points;

end:
	do
	:: atomic {
		if
		ANY(MAY_CARRY, true)
		ANY(SENDS_AGAIN, false)
		fi;
		d_step {
			x = SRC(j);
			assert(points || !given[x] || closed[x]);
			if
			:: points -> carriers[x] = carriers[x] | BIT_OF(j)
			:: else -> copies[x] = copies[x] | BIT_OF(j)
			fi;
			j = 0;
			points = false
		}
	   }
	:: atomic {	/* the end of a packet that is dropped */
		if
		ANY(CARRIER_ENDS, true)
		ANY(COPY_ENDS, false)
		fi;
		d_step {
			take();
			j = 0;
			points = false
		}
	   }
	:: d_step {
		ENDS && !calm -> calm = true;
		for (j : 0 .. N - 1) {
			carriers[j] = 0;
			copies[j] = 0
		}
		j = 0
	   }
	od
}

/* -- post, release, close, failure ---------------------------------------- */

/* Post, and enter a read side section in which what is held is used. */
inline post()
{
	for (c : 0 .. C - 1) {
		mem[AT(r, c, 0)] = OWN(r, c);
		mem[AT(r, c, 1)] = OWN(r, c)
	}
	claimed[r] = MINE(r) | (RULE(CLAIM_LATE) -> held[r] : 0);
	published[r] = MINE(r);
	posted[r] = true;
	lent[r] = true;
	send(r, MINE(r));
	readers = readers | me
}

/* Use packet j, which is held. */
inline begin_held()
{
	v0 = hold[AT(y, c, 0)];
	v1 = hold[AT(y, c, 1)];
	hold[AT(y, c, 0)] = 0;
	hold[AT(y, c, 1)] = 0;
	loaded = v0 != 0;
	points = !loaded;	/* NO_COPY_HELD, LOOK_HELD */
	held[y] = held[y] & ~BIT(p, c);
	won = true;
	if
	:: !RULE(CLAIM_LATE) -> claim()
	:: else
	fi;
	won = won && (RULE(LOOK_HELD) || !IS_GONE(points, x));
	if
	:: won -> add(0, v0)
	:: else
	fi
}

inline end_held()
{
	if
	:: won -> add(1, v1); publish()
	:: else
	fi;
	won = false
}

#define IS_COMPLETE(r) ((published[r] & NEED(r)) == NEED(r))

/* The user gets the memory, and the result if there is one, and writes. */
inline give_back()
{
	for (c : 0 .. C - 1) {
		assert(failed[r] || !IS_COMPLETE(r) || !NEEDS(r, c) ||
		       (mem[AT(r, c, 0)] == (TOTAL(c)) && mem[AT(r, c, 1)] == (TOTAL(c))));
		mem[AT(r, c, 0)] = GARBAGE;
		mem[AT(r, c, 1)] = GARBAGE
	}
	given[r] = true
}

inline keep(half)
{
	for (c : 0 .. C - 1) {
		kept[AT(r, c, half)] = mem[AT(r, c, half)]
	}
}

/* The entry goes; begin to wait for a grace period, if there is one to wait for. */
inline take_entry(has_grace)
{
	lent[r] = !RULE(ENTRY_STAYS) && released[r];
	waits_for[r] = ((has_grace) -> readers : 0)
}

/* The second half of the copy is made, and packets are built from the copy. */
inline close()
{
	keep(1);
	closed[r] = true;
	take_entry(RULE(NO_GRACE))
}

#define RELEASABLE (posted[r] && IS_COMPLETE(r) && \
		    ((recorded[r] & OWED(r)) == OWED(r) || !RULE(RELEASE_EARLY)))
#define MAY_CLOSE (CLOSES && !closed[r] && (IS_COMPLETE(r) || !RULE(CLOSE_ANY)))
#define IS_LEFT ((calm || !ENDS) && (failed[0] || failed[1] || failed[N - 1]))

#define FIRST_HELD(r) (FIRST * C + (C == 1 || (held[r] & BIT(FIRST, 0)) -> 0 : 1))

active [N] proctype rank()
{
	byte r = _pid - CPUS - 1;
	byte me = 1 << (_pid - 1);
	byte j, v0, v1;
	bool points, won, loaded;

	atomic {
		!locked[r];
		d_step { post() }
	};
	do
	:: held[r] != 0 ->
		d_step {
			j = PREV(r) * ITEMS + FIRST_HELD(r);
			decode();
			begin_held()
		};
		d_step { decode(); end_held() }
	:: else -> break
	od;
	atomic { d_step { leave() } };

	do
	:: RELEASABLE -> break
	:: MAY_CLOSE ->
		d_step { keep(0) };
		d_step { close() };
		d_step { waits_for[r] == 0 -> give_back() }
	:: FAILS && !closed[r] && !calm ->
		d_step { failed[r] = true; take_entry(RULE(NO_GRACE)) };
		d_step { waits_for[r] == 0 -> give_back() };
		break
	:: IS_LEFT -> break
	od;
	if
	:: RELEASABLE && !failed[r] ->
		d_step { released[r] = true; take_entry(WAITS) };
		if
		:: !closed[r] -> d_step { waits_for[r] == 0 -> give_back() }
		:: else
		fi
	:: else
	fi
}
