/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The seal: two ranks with a key join, and an attacker who has no key is the network.
 *
 * All that an honest rank ever sent stays in the network, which delivers any of it at any time,
 * any number of times, in any order, to either rank, or never. So it drops, delays, repeats and
 * reorders, plays packets of earlier attempts and epochs, and sends packets back to where they
 * came from. It cannot make or change a packet, since that has no tag: the mutation NO_TAG lets it.
 *
 * A rank may start again at any moment, with a new nonce, and forgets all. In each attempt it
 * has one of two levels. Rank 0 proposes epochs, as in a ring of two (group/join.c, table.c):
 *
 *	JOIN		own nonce, level; the cookie of the other, if it is known
 *	JOIN_ACK	the cookie for the nonce of a JOIN. It depends on the nonce, and on a secret
 *			that is new in each attempt
 *	PROPOSE		both nonces and the number of the proposal: the epoch follows from these.
 *			The token is the cookie by which the sender was accepted
 *	COMMIT		the number of the proposal, with the same token
 *	DATA		the epoch (by its key), the direction (by its key), a counter
 *	RESET		an epoch that its sender is not in, and so never will be: it answers any
 *			packet of that epoch. By the key of the join, without a counter
 *
 * What must hold:
 *
 * - A rank that runs in an epoch runs with a rank that was ready for it, of the same level.
 * - A packet that is taken was sent in this epoch by the other rank, and is taken once.
 * - No counter is used twice with a key.
 * - A rank that is told that the other one is not in its epoch is told the truth.
 *
 * Left out, and why that is sound: more ranks, since each trusts only its neighbours' packets, and
 * the table as all of them hash it; sizes of windows, as in link.pml; packets without a tag, which
 * a rank with another level drops.
 *
 * MUTATION removes a rule; each must be caught.
 */
#ifndef LIVES
#define LIVES	2		/* attempts of a rank */
#endif
#ifndef PROPOSALS
#define PROPOSALS 2
#endif
#ifndef LEVELS
#define LEVELS	1
#endif
#ifndef DATA
#define DATA	2		/* packets of a rank in an epoch */
#endif

#define NO_TAG		1	/* packets need no tag */
#define NO_ECHO		2	/* a JOIN is taken without the cookie */
#define OLD_COOKIE	3	/* the secret of cookies is not new in each attempt */
#define ANY_TABLE	4	/* a table with another nonce of this rank is taken */
#define ANY_NUMBER	5	/* an older proposal is taken after a newer one */
#define ANY_BACK	6	/* rank 0 takes another proposal for the one that it made */
#define NO_LEVEL	7	/* the level is not compared */
#define NO_WINDOW	8	/* counters that came before are taken again */
#define ONE_WAY		9	/* both directions have one key */
#define ONE_EPOCH	10	/* all epochs have one key */
#define SAME_COUNTER	11	/* a retransmission keeps its counter */
/*
 * NO_ECHO, OLD_COOKIE and ANY_TABLE are not caught: the cookie and the own nonce in the table
 * make up for each other. Without both, a rank runs with a rank of the past.
 */
#define ANY_ATTEMPT	12	/* NO_ECHO, OLD_COOKIE and ANY_TABLE */
#define ANY_RESET	13	/* a rank says so of the epoch that it is in, too */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)
#define ECHO_RULE	(RULE(NO_ECHO) && RULE(ANY_ATTEMPT))
#define COOKIE_RULE	(RULE(OLD_COOKIE) && RULE(ANY_ATTEMPT))
#define TABLE_RULE	(RULE(ANY_TABLE) && RULE(ANY_ATTEMPT))

#define NONCES	(LIVES + 1)	/* 0: none */

/* States of a rank. */
#define JOINING	0
#define READY	1
#define RUN	2
#define OVER	3

typedef rank_state {
	byte nonce;
	byte level;
	byte peer;		/* the other's nonce, as it was accepted */
	byte pass;		/* the other's attempt that gave the cookie */
	byte state;
	byte a, b, k;		/* the epoch */
	byte last;		/* newest proposal of this peer */
	byte next;		/* counter */
	byte window;		/* counters that came, a bit each */
};
rank_state r[2];
byte made;			/* proposals in all */

/* The network. */
#define JOIN_AT(src, n, level, echo) \
	((((src) * NONCES + (n)) * 2 + (level)) * NONCES + (echo))
#define ACK_AT(src, to, own)	(((src) * NONCES + (to)) * NONCES + (own))
#define EPOCH_AT(a, b, k)	(((a) * NONCES + (b)) * (PROPOSALS + 1) + (k))
#define EPOCHS			(NONCES * NONCES * (PROPOSALS + 1))
#define PROPOSE_AT(src, a, b, k, pass) \
	(((src) * EPOCHS + EPOCH_AT(a, b, k)) * NONCES + (pass))
#define COMMIT_AT(a, k, pass)	(((a) * (PROPOSALS + 1) + (k)) * NONCES + (pass))
#define DATA_AT(src, epoch, n)	(((src) * EPOCHS + (epoch)) * DATA + (n))

/* Sets, a bit for each element. */
#define BYTES(n)	(((n) + 7) / 8)
#define HAS(set, i)	(set[(i) / 8] >> ((i) % 8) & 1)
#define ADD(set, i)	set[(i) / 8] = set[(i) / 8] | 1 << ((i) % 8)

byte join[BYTES(2 * NONCES * 2 * NONCES)];
byte ack[BYTES(2 * NONCES * NONCES)];
byte propose[BYTES(2 * EPOCHS * NONCES)];
byte commit[BYTES(NONCES * (PROPOSALS + 1) * NONCES)];
byte data[BYTES(2 * EPOCHS * DATA)];
byte reset[BYTES(2 * EPOCHS)];

/* For the assertions: what has been. */
byte was_ready[BYTES(2 * EPOCHS)];
byte level_of[2 * NONCES];

#define MY_EPOCH(me)	EPOCH_AT(r[me].a, r[me].b, r[me].k)

inline begin(me)
{
	r[me].nonce++;
	r[me].peer = 0;
	r[me].pass = 0;
	r[me].state = JOINING;
	r[me].a = 0;
	r[me].b = 0;
	r[me].k = 0;
	r[me].last = 0;
	r[me].next = 0;
	r[me].window = 0;
	level_of[me * NONCES + r[me].nonce] = r[me].level;
	ADD(join, JOIN_AT(me, r[me].nonce, r[me].level, 0))
}

/* This attempt has failed. Nothing of it counts any more. */
inline over(me)
{
	r[me].peer = 0;
	r[me].pass = 0;
	r[me].state = OVER;
	r[me].a = 0;
	r[me].b = 0;
	r[me].k = 0;
	r[me].last = 0;
	r[me].next = 0;
	r[me].window = 0
}

inline ready(me, ea, eb, ek)
{
	r[me].a = ea;
	r[me].b = eb;
	r[me].k = ek;
	r[me].last = ek;
	r[me].next = 0;
	r[me].window = 0;
	r[me].state = READY;
	/* The other rank does not run in a later epoch, where it would be alone. */
	assert(me == 0 || r[0].state != RUN || r[0].b != eb || r[0].a != ea || r[0].k <= ek);
	ADD(was_ready, me * EPOCHS + MY_EPOCH(me))
}

inline enter(me)
{
	r[me].state = RUN;
	assert(HAS(was_ready, (1 - me) * EPOCHS + MY_EPOCH(me)));
	assert(me == 1 || r[1].nonce != r[0].b || r[1].k <= r[0].k);
	assert(level_of[(1 - me) * NONCES + r[me].peer] == r[me].level)
}

/* Is a cookie for @asker, given in attempt @from, one of this rank's now? */
#define IS_COOKIE(me, from) \
	((from) == r[me].nonce || (!COOKIE_RULE && (from)))

proctype rank(byte me)
{
	byte x, y, z, k, s;

	end: do
	/* Start, or start again. */
	:: r[me].nonce < LIVES ->
		atomic {
			/* The level of rank 0 is always 0: only a difference counts. */
			if
			:: r[me].level = 0
			:: me == 1 && LEVELS == 2 -> r[me].level = 1
			fi;
			begin(me)
		}
	/* A JOIN of the other comes. */
	:: r[me].nonce && r[me].state != OVER ->
		atomic {
			select(x : 1 .. LIVES);
			select(y : 0 .. 1);
			select(z : 0 .. LIVES);
			if
			:: !HAS(join, JOIN_AT(1 - me, x, y, z)) -> skip
			:: else ->
				if
				:: r[me].state == JOINING && (IS_COOKIE(me, z) || !ECHO_RULE) &&
				   (y == r[me].level || !RULE(NO_LEVEL)) ->
					if
					:: r[me].peer != x -> r[me].peer = x; r[me].last = 0
					:: else
					fi
				/* Another level, or it started again: this attempt is over. */
				:: r[me].state == JOINING && IS_COOKIE(me, z) && y != r[me].level &&
				   RULE(NO_LEVEL) -> over(me)
				:: r[me].state != JOINING && IS_COOKIE(me, z) && x != r[me].peer -> over(me)
				:: !IS_COOKIE(me, z) && ECHO_RULE ->
					ADD(ack, ACK_AT(me, x, r[me].nonce))
				:: !ECHO_RULE -> ADD(ack, ACK_AT(me, x, r[me].nonce))
				:: else
				fi
			fi;
			x = 0; y = 0; z = 0
		}
	/* A JOIN_ACK comes: echo the cookie. */
	:: r[me].nonce && r[me].state == JOINING ->
		atomic {
			select(x : 1 .. LIVES);
			if
			:: HAS(ack, ACK_AT(1 - me, r[me].nonce, x)) ->
				r[me].pass = x;
				ADD(join, JOIN_AT(me, r[me].nonce, r[me].level, x))
			:: else
			fi;
			x = 0
		}
	/* Rank 0 proposes. */
	:: me == 0 && r[0].state == JOINING && r[0].peer && r[0].pass && made < PROPOSALS ->
		atomic {
			made++;
			r[0].last = made;
			ADD(propose, PROPOSE_AT(0, r[0].nonce, r[0].peer, made, r[0].pass))
		}
	/* PROPOSE comes to rank 1, and goes on. */
	:: me == 1 && r[1].state <= READY && r[1].peer && r[1].pass ->
		atomic {
			select(x : 1 .. LIVES);
			select(k : 1 .. PROPOSALS);
			select(z : 1 .. LIVES);
			if
			:: HAS(propose, PROPOSE_AT(0, r[1].peer, x, k, z)) && IS_COOKIE(1, z) &&
			   (x == r[1].nonce || !TABLE_RULE) &&
			   (k > r[1].last || !RULE(ANY_NUMBER)) ->
				ready(1, r[1].peer, x, k);
				ADD(propose, PROPOSE_AT(1, r[1].a, r[1].b, k, r[1].pass))
			:: else
			fi;
			x = 0; k = 0; z = 0
		}
	/* PROPOSE is back at rank 0. */
	:: me == 0 && r[0].state == JOINING && r[0].last ->
		atomic {
			select(k : 1 .. PROPOSALS);
			select(z : 1 .. LIVES);
			select(x : 1 .. LIVES);
			if
			:: HAS(propose, PROPOSE_AT(1, x, r[0].peer, k, z)) && IS_COOKIE(0, z) &&
			   ((k == r[0].last && x == r[0].nonce) || !RULE(ANY_BACK)) ->
				ready(0, x, r[0].peer, k);
				enter(0);
				ADD(commit, COMMIT_AT(r[0].nonce, k, r[0].pass))
			:: else
			fi;
			k = 0; z = 0; x = 0
		}
	/* COMMIT comes to rank 1. */
	:: me == 1 && r[1].state == READY ->
		atomic {
			select(z : 1 .. LIVES);
			if
			:: HAS(commit, COMMIT_AT(r[1].peer, r[1].k, z)) && IS_COOKIE(1, z) -> enter(1)
			:: else
			fi;
			z = 0
		}
	/* Send. Each transmission has a counter of its own, also of what was sent before. */
	:: r[me].state == RUN && r[me].next < DATA ->
		atomic {
			assert(!HAS(data, DATA_AT(me, MY_EPOCH(me), r[me].next)) || !RULE(NO_TAG));
			ADD(data, DATA_AT(me, MY_EPOCH(me), r[me].next));
			if
			:: RULE(SAME_COUNTER) -> r[me].next++
			:: !RULE(SAME_COUNTER)
			:: !RULE(SAME_COUNTER) -> r[me].next++
			fi
		}
	/* A packet of the epoch comes. A rank that is ready runs from now on. */
	:: r[me].state == READY || r[me].state == RUN ->
		atomic {
			select(x : 0 .. DATA - 1);
			y = MY_EPOCH(me);
			s = 1 - me;
			if
			:: skip
			:: !RULE(ONE_WAY) -> s = me
			:: !RULE(ONE_EPOCH) ->
				select(z : 1 .. LIVES);
				select(y : 1 .. LIVES);
				select(k : 1 .. PROPOSALS);
				y = EPOCH_AT(z, y, k)
			fi;
			if
			:: HAS(data, DATA_AT(s, y, x)) && (!(r[me].window >> x & 1) || !RULE(NO_WINDOW)) ->
				if
				:: r[me].state == READY -> enter(me)
				:: else
				fi;
				/* The other rank sent it in this epoch, and it was not taken before. */
				assert(s == 1 - me && y == MY_EPOCH(me));
				assert(HAS(was_ready, s * EPOCHS + y));
				assert(!(r[me].window >> x & 1));
				r[me].window = r[me].window | 1 << x
			:: else
			fi;
			x = 0; y = 0; z = 0; k = 0; s = 0
		}
	/*
	 * A packet of an epoch comes that the rank is not in. Nobody without the key can name an
	 * epoch before a packet of it was sent.
	 */
	:: r[me].nonce && r[me].state != OVER ->
		atomic {
			select(z : 1 .. LIVES);
			select(y : 1 .. LIVES);
			select(k : 1 .. PROPOSALS);
			y = EPOCH_AT(z, y, k);
			if
			:: (HAS(data, DATA_AT(0, y, 0)) || HAS(data, DATA_AT(1, y, 0))) &&
			   (r[me].state == JOINING || y != MY_EPOCH(me) || !RULE(ANY_RESET)) ->
				ADD(reset, me * EPOCHS + y)
			:: else
			fi;
			y = 0; z = 0; k = 0
		}
	/* The other rank says that it is not in this epoch. */
	:: r[me].state == RUN && HAS(reset, (1 - me) * EPOCHS + MY_EPOCH(me)) ->
		atomic {
			assert(r[1 - me].state == JOINING || r[1 - me].state == OVER ||
			       MY_EPOCH(1 - me) != MY_EPOCH(me));
			over(me)
		}
	od
}

/* Without tags the network makes packets of what it has seen. */
proctype forger()
{
	byte e, n;

	end: do
	:: MUTATION == NO_TAG ->
		atomic {
			select(n : 0 .. DATA - 1);
			ADD(data, DATA_AT(0, EPOCH_AT(r[1].a, r[1].b, r[1].k), n));
			n = 0
		}
	od
}

init
{
	atomic {
		run rank(0);
		run rank(1);
		run forger()
	}
}
