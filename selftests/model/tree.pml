/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A broadcast by a tree (net/rar/ring/direct.c, pass_on()): OPS broadcasts of rank 0, a table of
 * TABLE operations at each rank. The data of a broadcast are one chunk. The tree is as in
 * core/stages.h: with N=3 a chain of three ranks (rank 1 passes on), with N=4 also a second child
 * of rank 0.
 *
 * A packet in the network is a bit: the DATA of an operation for a rank, from its parent; a
 * question of a child for data; a question of a parent whether an operation is complete at a
 * child; or the set of operations that are complete at a child (DONE). A packet may be lost or
 * come twice, FAULTS times in all, and overtake others. Data that come before the operation is
 * posted wait. Questions that would change nothing are left out, as in direct.pml.
 *
 * Checked: an operation that is off the table is needed by no child; in the end every operation is
 * complete and off the table everywhere. MUTATION removes a rule.
 */
#ifndef N
#define N	3
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
#define NO_ASK		2	/* no child asks for data */
#define NO_ASK_DONE	3	/* no parent asks whether an operation is complete */
#define NO_NEWS		4	/* DONE is sent only as an answer; questions make up for it */
#define NO_PASS_ON	5	/* data are not passed on by themselves; questions make up for it */
#define ONE_TELLS	6	/* that one child is complete is taken for all */
#define POSTED_IS_DONE	7	/* what is posted is told to be complete */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#define PARENT(r)	((r) == 2 -> 1 : 0)	/* of ranks 1 .. N - 1 */
#define O(r, o)		((r) * OPS + (o))

byte posted[N];			/* operations posted */
bool on[N * OPS];		/* on the table */
bool has[N * OPS];		/* complete */
bool due[N * OPS];		/* the parent does not know that it is complete at this child */
bool news[N];			/* to be told to the parent */

bool data[N * OPS];		/* network: from the parent */
bool ask[N * OPS];		/* network: to the parent */
bool askd[N * OPS];		/* network: from the parent */
bool done[N * OPS];		/* network: to the parent */
byte faults;

hidden byte i, k;

#define IN_TABLE(r, o)	((o) < posted[r] && on[O(r, o)])
#define OFF(r, o)	((o) < posted[r] && !on[O(r, o)])
#define TELLS(r, o)	((o) < posted[r] && (!on[O(r, o)] || has[O(r, o)] || !RULE(POSTED_IS_DONE)))
#define PLACE_FREE(r)	(posted[r] < TABLE || !on[O(r, posted[r] - TABLE)])

inline tell(c)			/* a child tells its parent what is complete */
{
	k = 0;
	do
	:: k < OPS -> done[O(c, k)] = done[O(c, k)] || TELLS(c, k); k++
	:: else -> break
	od;
	news[c] = false
}

inline release(r, o)
{
	i = 1;
	k = 0;
	do
	:: i < N -> k = k + (PARENT(i) == r && due[O(i, o)]); i++
	:: else -> break
	od;
	if
	:: IN_TABLE(r, o) && has[O(r, o)] && (k == 0 || !RULE(RELEASE_EARLY)) ->
		on[O(r, o)] = false;
		i = 1;
		do
		:: i < N -> assert(PARENT(i) != r || has[O(i, o)]); i++
		:: else -> break
		od
	:: else
	fi
}

inline send(r, o)		/* to all children */
{
	i = 1;
	do
	:: i < N -> data[O(i, o)] = data[O(i, o)] || PARENT(i) == r; i++
	:: else -> break
	od
}

inline post(r, o)
{
	posted[r]++;
	on[O(r, o)] = true;
	i = 1;
	do
	:: i < N ->
		if
		:: PARENT(i) == r -> due[O(i, o)] = true
		:: else
		fi;
		i++
	:: else -> break
	od;
	if
	:: r == 0 ->
		has[O(r, o)] = true;
		send(r, o);
		if
		:: !RULE(RELEASE_EARLY) -> release(r, o)
		:: else
		fi
	:: else
	fi
}

inline take(r, o)
{
	if
	:: IN_TABLE(r, o) && !has[O(r, o)] ->
		has[O(r, o)] = true;
		if
		:: RULE(NO_PASS_ON) -> send(r, o)
		:: else
		fi;
		news[r] = RULE(NO_NEWS);
		release(r, o)
	:: else			/* a duplicate */
	fi
}

inline hear(c, o)		/* the parent of c is told */
{
	if
	:: IN_TABLE(PARENT(c), o) ->
		i = 1;
		do
		:: i < N ->
			if
			:: i == c || (PARENT(i) == PARENT(c) && !RULE(ONE_TELLS)) ->
				due[O(i, o)] = false
			:: else
			fi;
			i++
		:: else -> break
		od;
		release(PARENT(c), o)
	:: else
	fi
}

#define LACKS(c, o)	(IN_TABLE(c, o) && !has[O(c, o)] && IN_TABLE(PARENT(c), o) && \
			 has[O(PARENT(c), o)])
#define WAITS(c, o)	(IN_TABLE(PARENT(c), o) && has[O(PARENT(c), o)] && due[O(c, o)])

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

proctype edge(byte c, o)
{
end:	do
	:: atomic { data[O(c, o)] && o < posted[c] -> delivered(data[O(c, o)]); take(c, o) }
	:: atomic { data[O(c, o)] && faults -> lost(data[O(c, o)]) }
	:: atomic { LACKS(c, o) && RULE(NO_ASK) && !ask[O(c, o)] && !data[O(c, o)] -> ask[O(c, o)] = true }
	:: atomic { ask[O(c, o)] -> delivered(ask[O(c, o)]);
			data[O(c, o)] = data[O(c, o)] || (IN_TABLE(PARENT(c), o) && has[O(PARENT(c), o)]) }
	:: atomic { ask[O(c, o)] && faults -> lost(ask[O(c, o)]) }
	:: atomic { WAITS(c, o) && RULE(NO_ASK_DONE) && TELLS(c, o) && !askd[O(c, o)] &&
			!done[O(c, o)] && !news[c] -> askd[O(c, o)] = true }
	:: atomic { askd[O(c, o)] -> delivered(askd[O(c, o)]); tell(c) }
	:: atomic { askd[O(c, o)] && faults -> lost(askd[O(c, o)]) }
	:: atomic { done[O(c, o)] -> delivered(done[O(c, o)]); hear(c, o) }
	:: atomic { done[O(c, o)] && faults -> lost(done[O(c, o)]) }
	:: atomic { o == 0 && news[c] -> tell(c) }
	od
}

#define ENDED(r)	(posted[r] == OPS && OFF(r, 0) && OFF(r, OPS - 1))

proctype watch()
{
	ENDED(0) && ENDED(1) && ENDED(2) && ENDED(N - 1)
}

init
{
	byte r, o;

	atomic {
		faults = FAULTS;
		run watch();
		for (r : 0 .. N - 1) {
			run rank(r);
			for (o : 0 .. OPS - 1) {
				if
				:: r > 0 -> run edge(r, o)
				:: else
				fi
			}
		}
	}
}
