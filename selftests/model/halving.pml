/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An all-reduce by recursive halving (net/rar/ring/halving.c): OPS operations, a table of TABLE
 * operations at each rank. Chunks do not wait for one another, so this is one of them: its sums go
 * by a tree to rank 0, which makes the sum of all, and that goes back by the same tree. With N=4
 * ranks 1 and 3 give it away in the first step, rank 2 in the second one; with N=3 rank 1 does so
 * in the first step, in which a pair exchanges, and rank 2 in the second one.
 *
 * Numbers, windows and acknowledgments of the links are those of link.pml: here a chunk is sent
 * again from the buffer, whatever that holds then, until it is acknowledged. A packet in the network
 * is what it holds: a bit for each rank that was added. A packet may be lost or come twice, FAULTS
 * times in all, and overtake others. Packets that come before the operation is posted wait.
 *
 * Each step of a CPU that adds is a step here: the arrival of each child, and the contribution, may
 * be on a CPU of its own.
 *
 * Checked: a sum holds each rank once, and that of a chunk that is taken is the one that its place
 * stands for; in the end every rank has the sum of all of every operation, and all are off the
 * tables. MUTATION removes a rule.
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

#define NO_CLAIM	1	/* both CPUs that find two operands add them */
#define LOOK_FIRST	2	/* a CPU looks before it publishes what it has */
#define RELEASE_EARLY	3	/* off the table as soon as complete here */
#define NO_RESEND	4	/* a partial sum is not sent again */
#define NO_RESEND_SUM	5	/* a sum is not sent again */
#define TAKE_TWICE	6	/* what came before is taken once more */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#define ALL		((1 << N) - 1)
#define PARENT(c)	((c) == 3 -> 2 : 0)
#define SLOT(c)		((c) == 2)	/* by the order of the stages */
#define CHILDREN(r)	((r) == 0 -> 2 : ((r) == 2 && N == 4))
#define BELOW(c)	((c) == 1 -> 2 : ((c) == 3 -> 8 : (N == 4 -> 12 : 4)))
#define O(r, o)		((r) * OPS + (o))
#define P(r, o, s)	(O(r, o) * 3 + (s))

byte posted[N];			/* operations posted */
bool on[N * OPS];		/* on the table */
byte tensor[N * OPS];		/* buffer: the contribution, then the sum */
byte arrival[N * OPS * 3];	/* buffer, by slot: what came, then its sum with what was there */
bool has[N * OPS];		/* the sum */
bool came[N * OPS * 3];		/* claimed, AG */
bool is_in[N * OPS * 3];	/* published, AG */
bool made[N * OPS * 3];		/* claimed, RS */
bool part[N * OPS * 3];		/* published, RS: the partial sum before the slot */
bool rs_due[N * OPS];		/* the parent has not acknowledged the partial sum */
bool ag_due[N * OPS];		/* this child has not acknowledged the sum */

byte rs[N * OPS];		/* network: to the parent, what it holds, 0 = no packet */
byte ag[N * OPS];		/* network: from the parent */
bool rs_ack[N * OPS];		/* network */
bool ag_ack[N * OPS];		/* network */
byte faults;

hidden byte k;

#define IN_TABLE(r, o)	((o) < posted[r] && on[O(r, o)])
#define OFF(r, o)	((o) < posted[r] && !on[O(r, o)])
#define PLACE_FREE(r)	(posted[r] < TABLE || !on[O(r, posted[r] - TABLE)])
/* Where a rank has the partial sum that it sends. */
#define SENDS(r, o)	(CHILDREN(r) -> arrival[P(r, o, 0)] : tensor[O(r, o)])
#define OWES(r, o)	(rs_due[O(r, o)] || \
			 (r == 0 && (ag_due[O(1, o)] || ag_due[O(2, o)])) || \
			 (r == 2 && N == 4 && ag_due[O(N - 1, o)]))

inline release(r, o)
{
	if
	:: IN_TABLE(r, o) && has[O(r, o)] && (!OWES(r, o) || !RULE(RELEASE_EARLY)) ->
		on[O(r, o)] = false
	:: else
	fi
}

inline hand_out(r, o)		/* the sum is in the buffer */
{
	has[O(r, o)] = true;
	k = 1;
	do
	:: k < N ->
		if
		:: PARENT(k) == r && (r != 0 || k != 3) -> ag_due[O(k, o)] = true; ag[O(k, o)] = tensor[O(r, o)]
		:: else
		fi;
		k++
	:: else -> break
	od;
	release(r, o)
}

/* Add what waits from a slot on, as far as both operands are there. */
inline advance(r, o, s)
{
	do
	:: s == CHILDREN(r) ->
		atomic {
			if
			:: r == 0 -> hand_out(r, o)
			:: else -> rs_due[O(r, o)] = true; rs[O(r, o)] = SENDS(r, o)
			fi
		};
		break
	:: s < CHILDREN(r) ->
		if
		:: part[P(r, o, s)] -> skip
		:: else -> break
		fi;
		if
		:: is_in[P(r, o, s)] -> skip
		:: else -> break
		fi;
		atomic {
			if
			:: !made[P(r, o, s)] || !RULE(NO_CLAIM) -> made[P(r, o, s)] = true
			:: else -> break
			fi
		};
		atomic {
			k = (s -> arrival[P(r, o, 0)] : tensor[O(r, o)]);
			assert(!(k & arrival[P(r, o, s)]));
			k = k | arrival[P(r, o, s)];
			if
			:: r == 0 && s + 1 == CHILDREN(r) -> tensor[O(r, o)] = k
			:: else -> arrival[P(r, o, s)] = k
			fi
		};
		part[P(r, o, s + 1)] = true;
		s++
	od
}

inline delivered(packet)
{
	if
	:: packet = 0
	:: faults > 0 -> faults--
	fi
}

inline lost(packet)
{
	faults--;
	packet = 0
}

proctype rank(byte r)
{
	byte o, s;

	do
	:: atomic { o < OPS && PLACE_FREE(r) -> posted[r]++; on[O(r, o)] = true; tensor[O(r, o)] = 1 << r; s = 0 };
		if
		:: RULE(LOOK_FIRST) || !CHILDREN(r) -> part[P(r, o, 0)] = true; advance(r, o, s)
		:: else ->
			if
			:: is_in[P(r, o, 0)] -> part[P(r, o, 0)] = true; advance(r, o, s)
			:: else -> part[P(r, o, 0)] = true
			fi
		fi;
		o++
	:: o == OPS -> break
	od
}

/* What goes from a child to its parent, and back. */
proctype edge(byte c, o)
{
	byte r, s;

	r = PARENT(c);
end:	do
	:: atomic { rs[O(c, o)] && OFF(r, o) -> delivered(rs[O(c, o)]); rs_ack[O(c, o)] = true }
	:: atomic { rs[O(c, o)] && IN_TABLE(r, o) ->
			s = SLOT(c);
			k = rs[O(c, o)];
			delivered(rs[O(c, o)]);
			rs_ack[O(c, o)] = true;
			if
			:: !came[P(r, o, s)] || !RULE(TAKE_TWICE) ->
				came[P(r, o, s)] = true;
				assert(k == BELOW(c));
				arrival[P(r, o, s)] = k
			:: else -> s = 9	/* a duplicate */
			fi };
		if
		:: s < 9 -> is_in[P(r, o, s)] = true; advance(r, o, s)
		:: else
		fi
	:: atomic { rs[O(c, o)] && faults -> lost(rs[O(c, o)]) }
	:: atomic { rs_ack[O(c, o)] -> delivered(rs_ack[O(c, o)]); rs_due[O(c, o)] = false; release(c, o) }
	:: atomic { rs_ack[O(c, o)] && faults -> lost(rs_ack[O(c, o)]) }
	:: atomic { rs_due[O(c, o)] && IN_TABLE(c, o) && !rs[O(c, o)] && !rs_ack[O(c, o)] && RULE(NO_RESEND) ->
			rs[O(c, o)] = SENDS(c, o) }
	od
}

proctype back(byte c, o)
{
	byte r;

	r = PARENT(c);
end:	do
	:: atomic { ag[O(c, o)] && OFF(c, o) -> delivered(ag[O(c, o)]); ag_ack[O(c, o)] = true }
	:: atomic { ag[O(c, o)] && IN_TABLE(c, o) ->
			k = ag[O(c, o)];
			delivered(ag[O(c, o)]);
			ag_ack[O(c, o)] = true;
			if
			:: !has[O(c, o)] ->
				assert(k == ALL);
				tensor[O(c, o)] = k;
				hand_out(c, o)
			:: else		/* a duplicate */
			fi }
	:: atomic { ag[O(c, o)] && faults -> lost(ag[O(c, o)]) }
	:: atomic { ag_ack[O(c, o)] -> delivered(ag_ack[O(c, o)]); ag_due[O(c, o)] = false; release(r, o) }
	:: atomic { ag_ack[O(c, o)] && faults -> lost(ag_ack[O(c, o)]) }
	:: atomic { ag_due[O(c, o)] && IN_TABLE(r, o) && !ag[O(c, o)] && !ag_ack[O(c, o)] && RULE(NO_RESEND_SUM) ->
			ag[O(c, o)] = tensor[O(r, o)] }
	od
}

#define ENDED(r)	(posted[r] == OPS && OFF(r, 0) && OFF(r, OPS - 1) && \
			 tensor[O(r, 0)] == ALL && tensor[O(r, OPS - 1)] == ALL)

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
				:: r > 0 -> run edge(r, o); run back(r, o)
				:: else
				fi
			}
		}
	}
}
