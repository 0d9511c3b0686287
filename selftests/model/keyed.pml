/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stream of a keyed reduction (net/rar/ring/keyed.c): one rank sends CHUNKS chunks of
 * records to the root, with a window of WINDOW chunks. Streams do not depend on one another,
 * except that all of them need room at the root, which the user of the root makes by reading.
 *
 * A packet in the network is a bit: DATA of a chunk, an ACK of a chunk, FULL, OPEN, ALL. A packet may
 * be lost or come twice, FAULTS times in all. Packets overtake one another at will. A slot of the
 * sender holds a chunk until the root has it, since packets are built from the slot.
 *
 * The sender's timer sends the oldest chunk again. The model leaves out packets that would
 * change nothing. So each of them mends a fault, or a chunk that was refused.
 *
 * Checked: each chunk is combined once, with its own content, and never without room; in the end
 * all are combined, and the operation is off the table at both. MUTATION removes a rule.
 */
#ifndef CHUNKS
#define CHUNKS	3
#endif
#ifndef WINDOW
#define WINDOW	2
#endif
#ifndef ROOM
#define ROOM	1		/* chunks that fit before the user reads */
#endif
#ifndef FAULTS
#define FAULTS	2
#endif

#define NO_CLAIM	1	/* a chunk that comes again is combined again */
#define NO_ROOM		2	/* combined without room */
#define ACK_REFUSED	3	/* a chunk that was refused is acknowledged */
#define BY_SLOT		4	/* a chunk is known by its slot only */
#define REUSE		5	/* a slot is used again as soon as its chunk is sent */
#define NO_TIMER	6	/* nothing is sent again unless the root opens */
#define NO_OPEN		7	/* the root does not say that there is room again */
#define NO_ALL		8	/* a root that has the whole stream does not answer any more */
#define STOP		10	/* a sender that was told FULL sends nothing new before OPEN */
#define END_IS_ALL	9	/* complete as soon as the last chunk came */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

/* the sender */
byte slot[WINDOW];		/* the chunk that lies in it */
byte next;			/* chunks filled in */
byte sent;
bool acked[CHUNKS];
bool over;			/* off the table */
bool was_full;			/* told so by the root */

/* the root */
bool posted;
bool came[CHUNKS];
byte combined[CHUNKS];
byte used;			/* chunks that wait for the user */
bool refused;			/* told to come again when there is room */
bool complete;

/* the network */
bool data[CHUNKS];
bool wrong[CHUNKS];		/* built from a slot that held another chunk */
bool ack[CHUNKS];
bool open;
bool full_told;
bool all_came;
byte faults;

hidden byte i;

#define ALL(x)		(x[0] && x[1] && x[CHUNKS - 2] && x[CHUNKS - 1])
#define COMPLETE	(RULE(END_IS_ALL) && ALL(came) || !RULE(END_IS_ALL) && came[CHUNKS - 1])
#define FREE(c)		((c) < WINDOW || \
			 (RULE(REUSE) -> acked[(c) - WINDOW] : sent > (c) - WINDOW))
/* Is no chunk on its way that is not acknowledged? */
#define FLOWN		((sent < 1 || acked[0]) && (sent < 2 || acked[1]) && \
			 (sent < CHUNKS - 1 || acked[CHUNKS - 2]) && (sent < CHUNKS || acked[CHUNKS - 1]))
#define SAME_SLOT(c)	(!RULE(BY_SLOT) && (c) >= WINDOW && came[(c) - WINDOW])
#define ROOM_FOR_ONE	(used < ROOM || !RULE(NO_ROOM))

inline build(c)
{
	data[c] = true;
	wrong[c] = wrong[c] || slot[(c) % WINDOW] != c
}

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

inline settle()			/* the sender: has the root all of it? */
{
	if
	:: next == CHUNKS && ALL(acked) -> over = true
	:: else
	fi
}

inline take(c)
{
	if
	:: !posted			/* the root will say when it has posted */
	:: posted && complete && RULE(NO_ALL) -> all_came = true
	:: posted && complete && !RULE(NO_ALL)
	:: posted && !complete && ((came[c] && RULE(NO_CLAIM)) || SAME_SLOT(c)) -> ack[c] = true
	:: posted && !complete && !(came[c] && RULE(NO_CLAIM)) && !SAME_SLOT(c) &&
	   !ROOM_FOR_ONE ->
		refused = true;
		full_told = true;
		ack[c] = !RULE(ACK_REFUSED)
	:: posted && !complete && !(came[c] && RULE(NO_CLAIM)) && !SAME_SLOT(c) &&
	   ROOM_FOR_ONE ->
		assert(used < ROOM);
		assert(!wrong[c]);
		came[c] = true;
		combined[c]++;
		assert(combined[c] == 1);
		used++;
		ack[c] = true;
		if
		:: COMPLETE ->
			complete = true;
			all_came = true;
			assert(ALL(combined))
		:: else
		fi
	fi
}

proctype user()			/* of the sender */
{
	do
	:: atomic { next < CHUNKS && FREE(next) -> slot[next % WINDOW] = next; next++ }
	:: next == CHUNKS -> break
	od
}

proctype sender()
{
	byte c;

end:	do
	:: atomic { sent < next && !over && (!was_full || RULE(STOP) && (sent == 0 || FLOWN)) ->
			build(sent); sent++ }
	:: atomic { full_told -> delivered(full_told); was_full = true }
	:: atomic { full_told && faults -> lost(full_told) }
	:: atomic { open ->
		delivered(open);
		was_full = false;
		c = 0;
		do
		:: c < sent && !acked[c] -> build(c); c++
		:: c < sent && acked[c] -> c++
		:: c >= sent -> break
		od }
	:: atomic { open && faults -> lost(open) }
	:: atomic { all_came ->
		delivered(all_came);
		c = 0;
		do
		:: c < sent -> acked[c] = true; c++
		:: else -> break
		od;
		settle() }
	:: atomic { all_came && faults -> lost(all_came) }
	od
}

proctype chunk(byte c)
{
end:	do
	:: atomic { data[c] -> take(c); delivered(data[c]) }
	:: atomic { data[c] && faults -> lost(data[c]) }
	:: atomic { ack[c] -> acked[c] = true; settle(); delivered(ack[c]) }
	:: atomic { ack[c] && faults -> lost(ack[c]) }
	/* The timer, for the oldest chunk. */
	:: atomic { RULE(NO_TIMER) && c < sent && !acked[c] && !over &&
		    (c == 0 || acked[c - (c > 0)]) && !data[c] && !ack[c] && !all_came &&
		    posted && (complete -> RULE(NO_ALL) : (came[c] || used < ROOM)) ->
			build(c) }
	od
}

proctype root()
{
	atomic { posted = true; open = true }
end:	do
	:: atomic { used > 0 ->
		used--;
		if
		:: refused ->
			refused = false;
			open = open || RULE(NO_OPEN)
		:: else
		fi }
	od
}

proctype watch()
{
	complete && over
}

init
{
	byte c;

	atomic {
		faults = FAULTS;
		run watch();
		run user();
		run sender();
		run root();
		for (c : 0 .. CHUNKS - 1) {
			run chunk(c);
		}
	}
}
