/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One rank: several CPUs work on one chunk of one operation at the same time.
 *
 * Modelled are the steps that ring.pml takes as one, each as a step of its own: hold, look up,
 * claim, add or store, publish, set pending, choose, build, complete, release, record
 * (chunk.c, early.c, link.c). Two softirqs and the process that posts run at the same time.
 * Also modelled are references and RCU (op.c), and the user who reads.
 *
 * Left out, and why that is sound:
 *
 * - Other chunks and operations share with this chunk only locks, counters and the end of the
 *   operation, which here is the end of the chunk.
 * - A section under tx_lock, m->lock or early.lock is one step, since no other code touches
 *   its data without the lock, except single atomic bits.
 * - Memory is sequentially consistent. The barriers are listed in design/index.rst.
 * - The neighbours act as ring.pml shows: the predecessor sends RS and, when the successor
 *   has published RS, AG; each up to EXTRA times more. The successor acknowledges what it
 *   has. A packet is lost up to EXTRA times.
 *
 * FINAL: the rank where RS ends and AG begins; otherwise RS and AG both come and go.
 * MUTATION removes a rule; each must be caught.
 */
#ifndef FINAL
#define FINAL	0
#endif
#ifndef EXTRA
#define EXTRA	1
#endif

#define SPLIT_CLAIM	1	/* 3. test, then set */
#define EARLY_PUBLISH	2	/* 3. publish, then add */
#define EARLY_PEND	3	/* 3. send a chunk that is not published */
#define RECORD_CLAIMED	4	/* 3. record while another CPU adds */
#define UNLOCKED_HOLD	5	/* 3. hold without looking again */
#define EARLY_DONE	6	/* 2. complete, then store */
#define NO_GRACE	7	/* 2. free while receivers read */
/*
 * Not caught: chosen packets without a reference. They are built in the RCU read side section
 * in which they were chosen, and the grace period waits for that section, too.
 */
#define NO_REF		8
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#define RS	0
#define AG	1

/* The buffer. */
#define FREED	0
#define OWN	1
#define PARTIAL	2
#define SUM	3
#define TORN	4		/* a CPU is writing */
#define WRONG	5
byte buf = FREED;

/* The operation. Masks: 1 << phase. */
byte claimed, published, pend, acked;
byte left = 1;
byte ref;
bool complete;
bool on_table;
bool op_next;
byte held;			/* RS packets on the early list */
byte recorded;
#define OWED	(FINAL -> 1 << AG : 3)

/* Readers under RCU, and those that the last put waits for: a bit for each CPU. */
byte readers, waits_for;

/* The neighbours. */
byte rs_in = 1, ag_in;
byte succ_has;			/* mask of phases */
byte extra = EXTRA;

/* -- references ----------------------------------------------------------- */

#define OP_IS_THERE (buf != FREED)

inline put()
{
	d_step {
		ref--;
		if
		:: ref == 0 && RULE(NO_GRACE) -> waits_for = readers
		:: ref == 0 && !RULE(NO_GRACE) -> buf = FREED
		:: else
		fi
	}
}

inline rcu_lock()
{
	readers = readers | me
}

inline rcu_unlock()
{
	d_step {
		readers = readers & ~me;
		waits_for = waits_for & ~me
	}
}

active proctype reclaim()
{
	(op_next && ref == 0);
	(waits_for == 0);
	buf = FREED
}

/* -- sending (link.c) ----------------------------------------------------- */

inline pend_set(mask)
{
	if
	:: !(acked & (mask)) -> pend = pend | (mask)
	:: else
	fi
}

inline try_release()
{
	atomic {
		assert(OP_IS_THERE);
		if
		:: on_table && left == 0 && acked == OWED ->
			on_table = false;
			put()
		:: else
		fi
	}
}

/* Build the chosen packet of phase q and send it. */
inline build(q)
{
	atomic {
		assert(OP_IS_THERE);
		got = buf;
		if
		:: q == AG -> assert(got == SUM)
		:: q == RS && got != PARTIAL ->
			/* Garbage: the successor must not need it. */
			assert(succ_has & (1 << RS))
		:: else
		fi
	};
	atomic {
		if
		:: q == RS && !(succ_has & (1 << RS)) -> ag_in++
		:: else
		fi;
		succ_has = succ_has | (1 << q)
	}
}

/* rar_push() */
inline push()
{
	do
	:: atomic {
		on_table && pend != 0 ->
		if
		:: pend & (1 << AG) -> out = AG
		:: else -> out = RS
		fi;
		pend = pend & ~(1 << out);
		ref = ref + RULE(NO_REF)
	   };
	   build(out);
	   if
	   :: RULE(NO_REF) -> put()
	   :: else
	   fi
	:: else -> break
	od
}

/* -- receiving (input.c) -------------------------------------------------- */

/* Add or store, in two steps, so that a reader in between shows. */
inline write()
{
	atomic { assert(OP_IS_THERE); got = buf; buf = TORN };
	if
	:: p == AG -> buf = SUM
	:: p == RS && got == OWN -> buf = (FINAL -> SUM : PARTIAL)
	:: else -> buf = WRONG
	fi
}

inline finish()
{
	atomic {
		assert(OP_IS_THERE);
		left--;
		last = (left == 0)
	};
	if
	:: last ->
		complete = true;
		try_release()
	:: else
	fi
}

inline set_pending()
{
	atomic {
		assert(OP_IS_THERE);
		if
		:: p == AG -> acked = acked | (1 << RS); pend = pend & ~(1 << RS)
		:: else
		fi;
		pend_set((FINAL -> 1 << AG : 1 << p))
	}
}

inline publish()
{
	atomic {
		assert(OP_IS_THERE);
		published = published | (1 << p)
	}
}

/* This CPU has the claim: from here to the end there is no exit. */
inline add_and_publish()
{
	if
	:: !RULE(EARLY_PEND) -> set_pending(); push()
	:: else
	fi;
	if
	:: !RULE(EARLY_DONE) && (p == AG || FINAL) -> finish()
	:: else
	fi;
	if
	:: RULE(EARLY_PUBLISH) -> write(); publish()
	:: else -> publish()
	fi;
	if
	:: RULE(EARLY_PEND) -> set_pending(); push()
	:: else
	fi;
	if
	:: RULE(EARLY_PUBLISH)
	:: else -> write()
	fi;
	if
	:: RULE(EARLY_DONE) && (p == AG || FINAL) -> finish()
	:: else
	fi
}

/* input_posted(): ok = may be recorded */
inline rcv_posted()
{
	ok = true;
	there = on_table;
	if
	:: !there			/* finished: a duplicate */
	:: else ->
		if
		:: RULE(SPLIT_CLAIM) ->
			atomic {
				assert(OP_IS_THERE);
				mine = !(claimed & (1 << p));
				claimed = claimed | (1 << p)
			}
		:: else ->
			mine = !(claimed & (1 << p));
			claimed = claimed | (1 << p)
		fi;
		if
		:: mine -> add_and_publish()
		:: else ->
			atomic {
				assert(OP_IS_THERE);
				ok = ((published >> p) & 1) ||
				     !RULE(RECORD_CLAIMED)
			}
		fi
	fi
}

/* rar_early_hold(): ok = held; otherwise the operation was posted meanwhile */
inline hold()
{
	if
	:: RULE(UNLOCKED_HOLD) ->
		atomic {
			ok = !op_next;
			held = held + ok
		}
	:: else ->
		ok = true;
		held++
	fi
}

inline rcv_data(phase)
{
	p = phase;
	rcu_lock();
	ok = false;
	if
	:: !op_next -> assert(p == RS); hold()
	:: else
	fi;
	if
	:: ok
	:: else ->
		rcv_posted();
		/* A recorded chunk is published, or its operation is released. */
		assert(!ok || !on_table || (published & (1 << p)))
	fi;
	if
	:: ok -> recorded = recorded | (1 << p)
	:: else
	fi;
	rcu_unlock()
}

inline rcv_ack(q)
{
	rcu_lock();
	atomic {
		if
		:: on_table ->
			acked = acked | (1 << q);
			pend = pend & ~(1 << q);
			try_release()
		:: else
		fi
	};
	rcu_unlock()
}

/* A packet, or its ACK, was lost: the chunk is sent again. */
inline lose(q)
{
	rcu_lock();
	atomic {
		if
		:: on_table -> pend_set(1 << q)
		:: else
		fi
	};
	push();
	rcu_unlock()
}

#define UNKNOWN(q) (on_table && (succ_has & (1 << q)) && !(acked & (1 << q)))

active [2] proctype softirq()
{
	byte me = 1 << (_pid - 1);
	byte p, got, out;
	bool ok, mine, there, last;

end:
	do
	:: atomic { rs_in > 0 -> rs_in-- }; rcv_data(RS)
	:: atomic { ag_in > 0 -> ag_in-- }; rcv_data(AG)
	:: atomic { extra > 0 && recorded & (1 << RS) -> extra--; rs_in++ }
	:: atomic { extra > 0 && rs_in > 0 -> extra--; rs_in++ }
	:: atomic { extra > 0 && ag_in > 0 -> extra--; ag_in++ }
	:: atomic { extra > 0 && recorded & (1 << AG) -> extra--; ag_in++ }
	:: atomic { extra > 0 && !FINAL && UNKNOWN(RS) -> extra-- }; lose(RS)
	:: atomic { extra > 0 && UNKNOWN(AG) -> extra-- }; lose(AG)
	:: UNKNOWN(RS) -> rcv_ack(RS)
	:: UNKNOWN(AG) -> rcv_ack(AG)
	od
}

/* send(), then recv() */
active proctype user()
{
	byte me = 4;
	byte p = RS, got, out, n;
	bool ok, mine, there, last;

	d_step { buf = OWN; ref = 2; on_table = true };
	op_next = true;
	rcu_lock();
	atomic { n = held; held = 0 };
	do
	:: n > 0 -> n--; rcv_posted()
	:: else -> break
	od;
	push();
	rcu_unlock();

	(complete);
	assert(buf == SUM);
	put();
	/* The result and all packets are delivered, and then the buffer is freed. */
	(buf == FREED);
	assert((succ_has & OWED) == OWED)
}
