/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A keyed reduction with a box (net/rar/box/batch.c): CHUNKS chunks of records, of any ranks, go to
 * the root by themselves, or combined with others in a batch that the box makes. keyed.pml is the
 * model of the stream of one rank; here it does not matter in which order chunks are sent.
 *
 * A batch has two parts: the list of its chunks, and their combined records. A packet in the
 * network is a bit: UP of a chunk to the box, DATA of a chunk to the root, an ACK of a chunk, a part
 * of batch NUMBER of a LIFE of the box. A packet may be lost or come twice, FAULTS times in all.
 * Packets overtake one another at will. The box may give up any batch at any time, and LIVES - 1
 * times it forgets everything. A member sends any chunk that is not acknowledged to the root
 * at any time. The root refuses a batch whenever it likes, as it may have no room.
 *
 * The model leaves out packets that would change nothing.
 *
 * Checked: each chunk is combined once; in the end all are combined, and the members know it.
 * MUTATION removes a rule.
 */
#ifndef CHUNKS
#define CHUNKS	2
#endif
#ifndef LIVES
#define LIVES	2
#endif
#ifndef FAULTS
#define FAULTS	1
#endif
#ifndef BATCHES
#define BATCHES	2		/* of a life */
#endif

#define ANY_CLAIM	1	/* a batch is taken though one of its chunks has come */
#define NO_CLAIM	2	/* the chunks of a batch are not claimed */
#define BY_NUMBER	3	/* a batch is known by its number, whatever the life of the box */
#define PIECES		4	/* records are combined before all of the batch is there */
#define BOX_ACKS	5	/* a member forgets a chunk that the box has taken */
#define TWICE		6	/* the box combines a chunk that comes again */
#define THAWED		7	/* the box adds to a batch that it has begun to send */
#define SAME_NUMBER	8	/* the next batch gets the number of the last one */
#define NO_DIRECT	9	/* what went to the box does not go to the root */
#define NO_MEMORY	10	/* the box does not know what it had in earlier batches */
#define LIST_ALONE	11	/* the list is enough for a claim */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#define BIT(c)	(1 << (c))
#define EACH	(BIT(CHUNKS) - 1)
#define AT(l, n, p)	(((l) * BATCHES + (n)) * 2 + (p))

/* the members */
byte sent;			/* masks of chunks */
byte boxed;			/* sent to the box */
byte acked;
byte gone;			/* forgotten */

/* the root */
byte claimed;
byte combined[CHUNKS];
bool pending;			/* a batch of which not all parts are here */
byte pend_life, pend_number;
bool has[2];
byte list, records, again;

/* the box */
byte life;
byte number;			/* of the next batch */
byte took;			/* chunks of the batch that is being filled */
byte took_twice;
byte seen;			/* chunks that were ever taken in this life */
bool flying;			/* the batch before is on its way */
byte fly_took, fly_twice, fly_number;

/* the network */
bool up[CHUNKS];
bool data[CHUNKS];
bool ack[CHUNKS];
bool part[LIVES * BATCHES * 2];
byte content[LIVES * BATCHES * 2];	/* of a part */
byte twice[LIVES * BATCHES * 2];
byte faults;

hidden byte i;

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

inline combine(mask)
{
	i = 0;
	do
	:: i < CHUNKS ->
		if
		:: mask & BIT(i) -> combined[i]++; assert(combined[i] == 1)
		:: else
		fi;
		i++
	:: else -> break
	od
}

inline send_acks(mask)
{
	i = 0;
	do
	:: i < CHUNKS ->
		ack[i] = ack[i] || ((mask) & BIT(i)) != 0;
		i++
	:: else -> break
	od
}

inline send_part(l, n, p)
{
	part[AT(l, n, p)] = true;
	content[AT(l, n, p)] = fly_took;
	twice[AT(l, n, p)] = fly_twice
}

/* What is not there has no content: fewer states. */
inline forget_part(l, n, p)
{
	if
	:: !part[AT(l, n, p)] -> content[AT(l, n, p)] = 0; twice[AT(l, n, p)] = 0
	:: else
	fi
}

/* All parts are here. */
inline decide()
{
	if
	:: (list & claimed) == 0 || !RULE(ANY_CLAIM) ->
		claimed = claimed | (RULE(NO_CLAIM) -> list : 0);
		if
		:: RULE(PIECES) -> combine(records); combine(again)
		:: else
		fi;
		send_acks(list)
	/* There is no room, or a chunk of it has come. */
	:: true
	fi;
	pending = false;
	has[0] = false;
	has[1] = false;
	list = 0;
	records = 0;
	again = 0;
	pend_life = 0;
	pend_number = 0
}

inline take_part(l, n, p)
{
	if
	:: !pending || pend_number != n || (RULE(BY_NUMBER) && pend_life != l) ->
		pending = true;
		pend_life = l;
		pend_number = n;
		has[0] = false;
		has[1] = false;
		list = 0;
		records = 0;
		again = 0
	:: else
	fi;
	has[p] = true;
	if
	:: p == 0 -> list = content[AT(l, n, p)]
	:: else ->
		records = content[AT(l, n, p)];
		again = twice[AT(l, n, p)];
		if
		:: !RULE(PIECES) && (records & claimed) == 0 -> combine(records); combine(again)
		:: else
		fi
	fi;
	if
	:: (has[0] || !RULE(LIST_ALONE)) && has[1] || has[0] && !RULE(LIST_ALONE) -> decide()
	:: else
	fi
}

proctype chunk(byte c)
{
	atomic { sent = sent | BIT(c);
		if
		:: boxed = boxed | BIT(c); up[c] = true
		:: data[c] = true
		fi }
end:	do
	/* The timer. It need not wait until the box has failed. */
	:: atomic { !(acked & BIT(c)) && !(gone & BIT(c)) && !data[c] && !ack[c] &&
		    (RULE(NO_DIRECT) || !(boxed & BIT(c))) -> data[c] = true }
	:: atomic { data[c] ->
		if
		:: claimed & BIT(c)
		:: else -> claimed = claimed | BIT(c); combine(BIT(c))
		fi;
		ack[c] = true;
		delivered(data[c]) }
	:: atomic { data[c] && faults -> lost(data[c]) }
	:: atomic { ack[c] -> acked = acked | BIT(c); delivered(ack[c]) }
	:: atomic { ack[c] && faults -> lost(ack[c]) }
	:: atomic { up[c] ->
		if
		:: RULE(THAWED) || !flying || (fly_took & BIT(c)) ->
			if
			:: took & BIT(c) -> took_twice = took_twice | (RULE(TWICE) -> 0 : BIT(c))
			:: !(took & BIT(c)) && (!(seen & BIT(c)) || !RULE(NO_MEMORY)) &&
			   number < BATCHES -> took = took | BIT(c)
			/* There is no room. */
			:: true
			fi
		:: else -> fly_took = fly_took | BIT(c)
		fi;
		gone = gone | (RULE(BOX_ACKS) -> 0 : BIT(c));
		seen = seen | BIT(c);
		delivered(up[c]) }
	:: atomic { up[c] && faults -> lost(up[c]) }
	od
}

proctype box()
{
	byte p;

end:	do
	/* Send a batch. */
	:: atomic { took && !flying && number < BATCHES ->
		flying = true;
		fly_took = took;
		fly_twice = took_twice;
		fly_number = number;
		number = (RULE(SAME_NUMBER) -> number + 1 : number);
		took = 0;
		took_twice = 0;
		send_part(life, fly_number, 0);
		send_part(life, fly_number, 1) }
	/* The root asks for a part. */
	:: atomic { flying && pending && pend_life == life && pend_number == fly_number ->
		if
		:: !has[0] && !part[AT(life, fly_number, 0)] -> send_part(life, fly_number, 0)
		:: !has[1] && !part[AT(life, fly_number, 1)] -> send_part(life, fly_number, 1)
		fi }
	/* Give up what is on its way: the root has answered, or it has not for a while. */
	:: atomic { flying -> flying = false; fly_took = 0; fly_twice = 0 }
	/* Give up what is being filled: the memory is needed. */
	:: atomic { took -> took = 0; took_twice = 0 }
	/* Be killed and restarted. */
	:: atomic { life + 1 < LIVES ->
		life++;
		number = 0;
		took = 0;
		took_twice = 0;
		seen = 0;
		flying = false;
		fly_took = 0;
		fly_twice = 0;
		fly_number = 0 }
	od
}

proctype arrive(byte l; byte n; byte p)
{
end:	do
	:: atomic { part[AT(l, n, p)] ->
		take_part(l, n, p);
		delivered(part[AT(l, n, p)]);
		forget_part(l, n, p) }
	:: atomic { part[AT(l, n, p)] && faults ->
		lost(part[AT(l, n, p)]);
		forget_part(l, n, p) }
	od
}

proctype watch()
{
	claimed == EACH && acked == EACH;
	i = 0;
	do
	:: i < CHUNKS -> assert(combined[i] == 1); i++
	:: else -> break
	od
}

init
{
	byte l, n;

	atomic {
		faults = FAULTS;
		run watch();
		run box();
		for (l : 0 .. CHUNKS - 1) {
			run chunk(l);
		}
		for (l : 0 .. LIVES - 1) {
			for (n : 0 .. BATCHES - 1) {
				run arrive(l, n, 0);
				run arrive(l, n, 1);
			}
		}
	}
}
