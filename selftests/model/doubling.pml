/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recursive doubling (net/rar/ring/doubling.c): N ranks, OPS all-reduces, a table of TABLE
 * operations at each rank. A partial sum is one chunk. With N=3 rank 1 is folded: see stages.h.
 * With ROOT=r the operations are reductions to rank r.
 *
 * A packet in the network is a bit: the partial sum of a stage for a rank and an operation, or an
 * ASK; or the set of operations that are complete at its sender (DONE, and every partial sum as
 * well). A packet may be lost or come twice, FAULTS times in all. Packets overtake one another at
 * will, also packets of different stages. A partial sum is sent once, when it is made, and again if
 * it is asked for. If it comes before the operation is posted, it waits.
 *
 * A rank asks a peer for a partial sum that it lacks, and whether an operation that is complete here
 * is complete there. As in direct.pml, questions that would change nothing are left out.
 *
 * Checked: a partial sum that is sent is made; a sum has each rank once; an operation that is off the table is needed by no peer; in the end every operation is complete and
 * off the table everywhere. MUTATION removes a rule.
 */
#ifndef N
#define N	4
#endif
#ifndef OPS
#define OPS	2
#endif
#ifndef TABLE
#define TABLE	2
#endif
#ifndef FAULTS
#define FAULTS	1
#endif

#define RELEASE_EARLY	1	/* off the table as soon as complete here */
#define NO_ASK		2	/* nobody asks for partial sums */
#define NO_ASK_DONE	3	/* nobody asks whether an operation is complete */
#define NO_NEWS		4	/* DONE is sent only as an answer; questions make up for it */
#define UNMADE		5	/* a partial sum that is asked for is sent, made or not */
#define NO_CHAIN	6	/* one that came before its turn is not added when its turn comes */
#define ANY_STAGE	7	/* one counts for the stage that this rank is in */
#define ONE_TELLS	8	/* that one peer is complete is taken for all */
#define LAST_IS_ALL	9	/* a rank that has sent its last partial sum tells that it is complete */
#define NO_WAY_BACK	10	/* the sum does not go back to a folded rank by itself */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#ifdef ROOT		/* N == 4: rank 0; N == 3: rank 0, or rank 1, which is folded */
#if N == 3
#define STAGES		3
#define PEER(r, s)	((r) ^ (1 + ((s) == 1)))
#define SENDS(r, s)	((s) == 0 && (r) == 1 || (s) == 1 && (r) == 2 || (s) == 2 && (r) == 0 && ROOT == 1)
#define TAKES(r, s)	((s) == 0 && (r) == 0 || (s) == 1 && (r) == 0 || (s) == 2 && (r) == 1 && ROOT == 1)
#define FIRST(r)	((r) == 2)
#define LAST(r)		((r) == 0 -> 2 : (r) == 2)
#define BLOCK(q, s)	(((s) == 0) * 2 + ((s) == 1) * 4 + ((s) == 2) * 7)
#define GETS(r)		((r) == 1 && ROOT == 1)
#else
#define STAGES		2
#define PEER(r, s)	((r) ^ (1 << (s)))
#define SENDS(r, s)	((s) == 0 && (r) % 2 || (s) == 1 && (r) == 2)
#define TAKES(r, s)	((s) == 0 && !((r) % 2) || (s) == 1 && (r) == 0)
#define FIRST(r)	0
#define LAST(r)		((r) % 2 -> 0 : 2 - (r) / 2)
#define BLOCK(q, s)	((s) == 0 -> 1 << (q) : ((q) < 2 -> 3 : 12))
#define GETS(r)		(false)
#endif
#define HAS_ALL(r)	((r) == ROOT)
#elif N == 2
#define STAGES		1
#define PEER(r, s)	(1 - (r))
#define SENDS(r, s)	(true)
#define TAKES(r, s)	(true)
#define FIRST(r)	0
#define LAST(r)		1
#define BLOCK(q, s)	(1 << (q))
#define GETS(r)		(false)
#elif N == 3
#define STAGES		3
#define PEER(r, s)	((r) ^ (1 + ((s) == 1)))
#define SENDS(r, s)	((s) == 1 && (r) != 1 || (s) == 0 && (r) == 1 || (s) == 2 && (r) == 0)
#define TAKES(r, s)	((s) == 1 && (r) != 1 || (s) == 0 && (r) == 0 || (s) == 2 && (r) == 1)
#define FIRST(r)	((r) == 2)
#define LAST(r)		((r) == 1 -> 0 : 2)
#define BLOCK(q, s)	(((s) == 0) * 2 + ((s) == 1) * (4 - ((q) == 0)) + ((s) == 2) * 7)
#define GETS(r)		((r) == 1)
#else
#define STAGES		2
#define PEER(r, s)	((r) ^ (1 << (s)))
#define SENDS(r, s)	(true)
#define TAKES(r, s)	(true)
#define FIRST(r)	0
#define LAST(r)		2
#define BLOCK(q, s)	((s) == 0 -> 1 << (q) : ((q) < 2 -> 3 : 12))
#define GETS(r)		(false)
#endif
#ifndef HAS_ALL
#define HAS_ALL(r)	(true)
#endif

#define ALL	((1 << N) - 1)	/* all ranks, a bit each; BLOCK: the ranks in a packet's sum */
#define O(r, o)		((r) * OPS + (o))
#define S(r, s, o)	(((r) * STAGES + (s)) * OPS + (o))
#define X(r, q, o)	(((r) * N + (q)) * OPS + (o))

byte posted[N];			/* operations posted */
bool on[N * OPS];		/* on the table */
byte made[N * OPS];		/* the partial sum of the stage before which it stands */
byte have[N * OPS];		/* ranks in it, a bit each */
byte came[N * STAGES * OPS];	/* of a stage, as well; 0 = it has not come */
bool due[N * STAGES * OPS];	/* the peer to which it sent may not be complete */
bool news[N * N];

bool data[N * STAGES * OPS];	/* network: to a rank, of a stage */
bool ask[N * STAGES * OPS];	/* network: a rank asks its peer of a stage */
bool done[N * N * OPS];		/* network: from rank to rank */
byte faults;

hidden byte i, k, at;

#define IN_TABLE(r, o)	((o) < posted[r] && on[O(r, o)])
#define OFF(r, o)	((o) < posted[r] && !on[O(r, o)])
#define COMPLETE(r, o)	(GETS(r) -> came[S(r, STAGES - 1, o)] : made[O(r, o)] == LAST(r))
#define SAYS(r, o)	(COMPLETE(r, o) || (!RULE(LAST_IS_ALL) && made[O(r, o)] + 1 == LAST(r)))
#define TELLS(r, o)	((o) < posted[r] && (on[O(r, o)] -> SAYS(r, o) : true))
#define PLACE_FREE(r)	(posted[r] < TABLE || !on[O(r, posted[r] - TABLE)])
#if STAGES == 1
#define DUE(r, o)	(due[S(r, 0, o)])
#elif STAGES == 2
#define DUE(r, o)	(due[S(r, 0, o)] || due[S(r, 1, o)])
#else
#define DUE(r, o)	(due[S(r, 0, o)] || due[S(r, 1, o)] || due[S(r, 2, o)])
#endif

inline tell(from, to)		/* put the set of complete operations into the network */
{
	k = 0;
	do
	:: k < OPS -> done[X(from, to, k)] = done[X(from, to, k)] || TELLS(from, k); k++
	:: else -> break
	od;
	news[from * N + to] = false
}

inline release(r, o)
{
	if
	:: IN_TABLE(r, o) && COMPLETE(r, o) && (!DUE(r, o) || !RULE(RELEASE_EARLY)) ->
		on[O(r, o)] = false;
		i = 0;
		do
		:: i < STAGES ->
			assert(!SENDS(r, i) || i < FIRST(r) || came[S(PEER(r, i), i, o)]);
			i++
		:: else -> break
		od
	:: else
	fi
}

inline send(r, s, o)
{
	assert(made[O(r, o)] >= s);
	data[S(PEER(r, s), s, o)] = true;
	tell(r, PEER(r, s))
}

/* Let a rank add what has come, as far as the stages follow one another. */
inline advance(r, o)
{
	do
	:: made[O(r, o)] < LAST(r) && came[S(r, made[O(r, o)], o)] ->
		assert(!(have[O(r, o)] & came[S(r, made[O(r, o)], o)]));
		have[O(r, o)] = have[O(r, o)] | came[S(r, made[O(r, o)], o)];
		made[O(r, o)] = made[O(r, o)] + 1;
		at = made[O(r, o)];
		if
		:: at < STAGES && SENDS(r, at) && (at < LAST(r) || RULE(NO_WAY_BACK)) -> send(r, at, o)
		:: else
		fi;
		if
		:: RULE(NO_CHAIN)
		:: else -> break
		fi
	:: else -> break
	od
}

/* All that sent here may release the operation when it is complete here. */
inline completed(r, o)
{
	assert(!HAS_ALL(r) || (GETS(r) -> came[S(r, STAGES - 1, o)] : have[O(r, o)]) == ALL);
	i = 0;
	do
	:: i < STAGES ->
		if
		:: TAKES(r, i) && RULE(NO_NEWS) -> news[r * N + PEER(r, i)] = true
		:: else
		fi;
		i++
	:: else -> break
	od;
	release(r, o)
}

inline post(r, o)
{
	posted[r]++;
	on[O(r, o)] = true;
	made[O(r, o)] = FIRST(r);
	have[O(r, o)] = 1 << r;
	i = 0;
	do
	:: i < STAGES -> due[S(r, i, o)] = SENDS(r, i); i++
	:: else -> break
	od;
	if
	:: SENDS(r, FIRST(r)) -> send(r, FIRST(r), o)
	:: else
	fi;
	advance(r, o);
	if
	:: COMPLETE(r, o) -> completed(r, o)
	:: else
	fi
}

inline take(r, s, o)		/* the partial sum of a stage, at r */
{
	at = (RULE(ANY_STAGE) || GETS(r) -> s : (made[O(r, o)] < LAST(r) -> made[O(r, o)] : s));
	if
	:: IN_TABLE(r, o) && !came[S(r, at, o)] ->
		came[S(r, at, o)] = BLOCK(PEER(r, s), s);
		advance(r, o);
		if
		:: COMPLETE(r, o) -> completed(r, o)
		:: else
		fi
	:: else			/* a duplicate */
	fi
}

inline hear(q, r, o)		/* q tells r that o is complete there */
{
	if
	:: IN_TABLE(r, o) ->
		i = 0;
		do
		:: i < STAGES ->
			if
			:: PEER(r, i) == q || !RULE(ONE_TELLS) -> due[S(r, i, o)] = false
			:: else
			fi;
			i++
		:: else -> break
		od;
		release(r, o)
	:: else
	fi
}

inline answer(r, s, o)		/* r was asked by its peer of a stage */
{
	if
	:: IN_TABLE(r, o) && SENDS(r, s) && (made[O(r, o)] >= s || !RULE(UNMADE)) -> send(r, s, o)
	:: else -> tell(r, PEER(r, s))
	fi
}

#define LACKS(r, s, o)	(IN_TABLE(r, o) && TAKES(r, s) && !came[S(r, s, o)] && \
			 (o) < posted[PEER(r, s)] && \
			 (made[O(PEER(r, s), o)] >= s || !RULE(UNMADE)))
#define WAITS(r, s, o)	(IN_TABLE(r, o) && COMPLETE(r, o) && due[S(r, s, o)])

/* A packet that is delivered may come again. */
inline delivered(packet)
{
	if
	:: packet = false
	:: faults > 0 -> faults--
	fi
}

inline lost(packet)
{
	faults--;
	packet = false
}

proctype rank(byte r)
{
	byte o;

	do
	:: atomic { o < OPS && PLACE_FREE(r) -> post(r, o); o++ }
	:: o == OPS -> break
	od
}

/* What comes to r in a stage of an operation, and what r asks. */
proctype stage(byte r, s, o)
{
	byte q = PEER(r, s);

end:	do
	:: atomic { data[S(r, s, o)] && o < posted[r] -> delivered(data[S(r, s, o)]); take(r, s, o) }
	:: atomic { data[S(r, s, o)] && faults -> lost(data[S(r, s, o)]) }
	:: atomic { ask[S(r, s, o)] -> delivered(ask[S(r, s, o)]); answer(q, s, o) }
	:: atomic { ask[S(r, s, o)] && faults -> lost(ask[S(r, s, o)]) }
	:: atomic { LACKS(r, s, o) && RULE(NO_ASK) && !ask[S(r, s, o)] && !data[S(r, s, o)] ->
			ask[S(r, s, o)] = true }
	:: atomic { WAITS(r, s, o) && RULE(NO_ASK_DONE) && !ask[S(r, s, o)] && TELLS(q, o) &&
		    !done[X(q, r, o)] && !news[q * N + r] ->
			ask[S(r, s, o)] = true }
	od
}

/* What q tells r. */
proctype pair(byte q, r, o)
{
end:	do
	:: atomic { done[X(q, r, o)] -> delivered(done[X(q, r, o)]); hear(q, r, o) }
	:: atomic { done[X(q, r, o)] && faults -> lost(done[X(q, r, o)]) }
	:: atomic { o == 0 && news[q * N + r] -> tell(q, r) }
	od
}

#define ENDED(r)	(posted[r] == OPS && OFF(r, 0) && OFF(r, OPS - 1))

proctype watch()
{
	ENDED(0) && ENDED(1) && ENDED(N - 2) && ENDED(N - 1)
}

init
{
	byte r, s, o;

	atomic {
		faults = FAULTS;
		run watch();
		for (r : 0 .. N - 1) {
			run rank(r);
			for (s : 0 .. STAGES - 1) {
				for (o : 0 .. OPS - 1) {
					if
					:: SENDS(r, s) || TAKES(r, s) -> run stage(r, s, o)
					:: else
					fi;
					/* A pair may meet in two stages. */
					if
					:: (SENDS(r, s) || TAKES(r, s)) && (N != 3 || s < 2) ->
						run pair(PEER(r, s), r, o)
					:: else
					fi
				}
			}
		}
	}
}
