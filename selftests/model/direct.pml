/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The direct exchange (net/rar/ring/direct.c): N ranks, OPS all-reduces, a table of TABLE
 * operations at each rank. A block is one chunk.
 *
 * A packet in the network is a bit: DATA of a rank for a rank and an operation, or an ASK; or the
 * set of operations that are complete at its sender (DONE, and every DATA as well). A packet may
 * be lost or come twice, FAULTS times in all. Packets overtake one another at will. A chunk that
 * is early is held; if it is dropped because memory is short, that counts as a loss.
 *
 * A rank asks another rank for chunks that it lacks. It also asks whether an operation that is
 * complete here is complete there. A question may come at any time, but the model leaves out
 * questions that would change nothing, because the answer is under way or cannot be given yet.
 * So each question mends a fault.
 *
 * Checked: an operation that is off the table is needed by no rank; in the end every operation
 * is complete and off the table everywhere. MUTATION removes a rule.
 */
#ifndef N
#define N	2
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
#define NO_ASK		2	/* nobody asks for chunks */
#define NO_ASK_DONE	3	/* nobody asks whether an operation is complete */
#define NO_NEWS		4	/* DONE is sent only as an answer; questions make up for it */
#define POSTED_IS_DONE	5	/* what is posted is told to be complete */
#define OFF_IS_NOT_DONE	6	/* what is off the table is not told to be complete */
#define MODULO		7	/* a chunk is known by its place in the table only */
#define ONE_TELLS	8	/* that one rank is complete is taken for all */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#define P(r, s)		((r) * N + (s))
#define X(r, s, o)	(P(r, s) * OPS + (o))

byte posted[N];			/* operations posted */
bool on[N * OPS];		/* on the table */
bool has[N * N * OPS];		/* rank has the block of rank in operation */
bool due[N * N * OPS];		/* rank does not know that it is complete at rank */
bool news[N * N];

bool data[N * N * OPS];		/* network: from rank to rank */
bool ask[N * N * OPS];
bool done[N * N * OPS];
byte faults;

hidden byte i, k;

#define O(r, o)		((r) * OPS + (o))
#define HAS2(r, o)	(has[X(r, 0, o)] && has[X(r, 1, o)])
#if N == 3
#define COMPLETE(r, o)	(HAS2(r, o) && has[X(r, 2, o)])
#define DUE(r, o)	(due[X(r, 0, o)] || due[X(r, 1, o)] || due[X(r, 2, o)])
#else
#define COMPLETE(r, o)	HAS2(r, o)
#define DUE(r, o)	(due[X(r, 0, o)] || due[X(r, 1, o)])
#endif

#define OFF(r, o)	((o) < posted[r] && !on[O(r, o)])
#define TELLS(r, o)	((o) < posted[r] && \
			 (on[O(r, o)] -> (COMPLETE(r, o) || !RULE(POSTED_IS_DONE)) : \
			  RULE(OFF_IS_NOT_DONE)))
#define PLACE_FREE(r)	(posted[r] < TABLE || !on[O(r, posted[r] - TABLE)])
#define IN_TABLE(r, o)	((o) < posted[r] && on[O(r, o)])

inline tell(from, to)		/* put the set of complete operations into the network */
{
	k = 0;
	do
	:: k < OPS -> done[X(from, to, k)] = done[X(from, to, k)] || TELLS(from, k); k++
	:: else -> break
	od
	news[P(from, to)] = false;
}

inline release(who, op)
{
	if
	:: IN_TABLE(who, op) && COMPLETE(who, op) &&
	   (!DUE(who, op) || !RULE(RELEASE_EARLY)) ->
		on[O(who, op)] = false;
		i = 0;
		do
		:: i < N -> assert(has[X(i, who, op)]); i++
		:: else -> break
		od
	:: else
	fi
}

inline post(r, o)
{
	posted[r]++;
	on[O(r, o)] = true;
	has[X(r, r, o)] = true;
	i = 0;
	do
	:: i < N && i != r ->
		due[X(r, i, o)] = true;
		data[X(r, i, o)] = true;
		tell(r, i);
		i++
	:: i == r -> i++
	:: i == N -> break
	od
}

inline take(s, r, o)		/* DATA of s at r */
{
	if
	:: IN_TABLE(r, o) && !has[X(r, s, o)] ->
		has[X(r, s, o)] = true;
		if
		:: COMPLETE(r, o) ->
			i = 0;
			do
			:: i < N -> news[P(r, i)] = (i != r) && RULE(NO_NEWS); i++
			:: else -> break
			od;
			release(r, o)
		:: else
		fi
	/* An old chunk, taken for a chunk of the operation that has its place now. */
	:: !RULE(MODULO) && OFF(r, o) && o + TABLE < OPS && IN_TABLE(r, o + TABLE) &&
	   !has[X(r, s, o + TABLE)] ->
		assert(false)
	:: else			/* a duplicate */
	fi
}

inline hear(s, r, o)		/* s tells r that o is complete there */
{
	if
	:: IN_TABLE(r, o) ->
		due[X(r, s, o)] = false;
		i = 0;
		do
		:: i < N && !RULE(ONE_TELLS) -> due[X(r, i, o)] = false; i++
		:: else -> break
		od;
		release(r, o)
	:: else
	fi
}

inline answer(s, r, o)		/* r was asked by s */
{
	if
	:: IN_TABLE(r, o) -> data[X(r, s, o)] = true
	:: else
	fi;
	tell(r, s)
}

#define LACKS(r, s, o)	(IN_TABLE(r, o) && !has[X(r, s, o)] && (o) < posted[s])
#define WAITS(r, s, o)	(IN_TABLE(r, o) && COMPLETE(r, o) && due[X(r, s, o)])

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

/* What goes from s to r about an operation, and what r asks s. */
proctype pair(byte s, r, o)
{
end:	do
	:: atomic { data[X(s, r, o)] && o < posted[r] -> delivered(data[X(s, r, o)]); take(s, r, o) }
	:: atomic { data[X(s, r, o)] && faults -> lost(data[X(s, r, o)]) }
	:: atomic { done[X(s, r, o)] -> delivered(done[X(s, r, o)]); hear(s, r, o) }
	:: atomic { done[X(s, r, o)] && faults -> lost(done[X(s, r, o)]) }
	:: atomic { ask[X(s, r, o)] -> delivered(ask[X(s, r, o)]); answer(s, r, o) }
	:: atomic { ask[X(s, r, o)] && faults -> lost(ask[X(s, r, o)]) }
	:: atomic { o == 0 && news[P(s, r)] -> tell(s, r) }
	:: atomic { LACKS(r, s, o) && RULE(NO_ASK) && !ask[X(r, s, o)] && !data[X(s, r, o)] ->
			ask[X(r, s, o)] = true }
	:: atomic { WAITS(r, s, o) && RULE(NO_ASK_DONE) && !ask[X(r, s, o)] && TELLS(s, o) &&
		    !done[X(s, r, o)] && !news[P(s, r)] ->
			ask[X(r, s, o)] = true }
	od
}

#define ENDED(r)	(posted[r] == OPS && OFF(r, 0) && OFF(r, OPS - 1))

proctype watch()
{
	ENDED(0) && ENDED(1) && ENDED(N - 1)
}

init
{
	byte s, r, o;

	atomic {
		faults = FAULTS;
		run watch();
		for (r : 0 .. N - 1) {
			run rank(r);
			for (s : 0 .. N - 1) {
				for (o : 0 .. OPS - 1) {
					if
					:: s != r -> run pair(s, r, o)
					:: else
					fi
				}
			}
		}
	}
}
