/* SPDX-License-Identifier: GPL-2.0 */
/*
 * net.rar.mem: jobs that span the same hosts, each host with a limit of its own.
 *
 * Every host has a member of every job. A member calls send() for one operation after
 * another. Each takes SIZE bytes of its host from send() until the result is read, and there
 * is a result when all members of the job have posted the operation. Without a rule host 0
 * could give all its memory to job 0 and host 1 to job 1, and neither job would ever end.
 *
 * The rule: a send() that finds too little memory goes beyond the limit if
 *
 * - its group holds no memory on this host,
 * - another rank has posted the operation (it is needed), and
 * - its epoch is the lowest of the groups of this host that hold memory of an operation
 *   that is not complete, or want memory for one that is needed.
 *
 * Why that is enough: take, of all operations that are posted anywhere and not complete, the
 * operation with the lowest epoch. Each member that has not posted it will hear that it is
 * needed, and then no group on its host comes before it.
 *
 * An operation that is wanted everywhere and posted nowhere must not count (WANT_COUNTS): with
 * three jobs it would come before needed operations without being needed itself.
 *
 * How far beyond the limit: a group that goes beyond it holds nothing else. So all groups of
 * a host except one may do so at a time, each by one operation. A bound of one operation is
 * not enough (ONE_EXTRA): while the first group waits for another host, a group with a lower
 * epoch may come. If CAP is lower than all these operations an error must replace the wait:
 * send() fails, and its group fails and gives back all its memory.
 *
 * Left out: times; and programs that read one job's result only after they have posted for
 * another job, since such a program can wait for itself.
 *
 * Checked: the limits hold, and in the end every operation of every job is read, or its job
 * has failed. MUTATION removes a rule.
 */
#ifndef HOSTS
#define HOSTS	2
#endif
#ifndef JOBS
#define JOBS	2		/* in the order of their epochs */
#endif
#ifndef OPS
#define OPS	1		/* of each job */
#endif
#ifndef LIMIT
#define LIMIT	3
#endif
#ifndef SIZE
#define SIZE	2
#endif
#ifndef BIG
#define BIG	SIZE		/* SIZE of the job with the lowest epoch */
#endif
#define BEYOND	((JOBS - 1) * SIZE + BIG - SIZE)
#ifndef CAP
#define CAP	200
#endif

#define NO_EXCESS	1	/* no group goes beyond the limit */
#define LONGEST		2	/* the order of the calls on this host decides, not the epochs */
#define OTHER_ORDER	3	/* hosts do not agree on the order */
#define WANT_COUNTS	4	/* operations that are not needed are in the order, too */
#define NOT_FIRST	5	/* the group may hold memory already */
#define UNREAD		6	/* the group may hold memory of unread results */
#define ONE_EXTRA	7	/* no more than one operation goes beyond the limit */
#define CAP_WAITS	8	/* beyond CAP send() waits, and does not fail */
#define UNNEEDED	9	/* operations that are not needed go beyond the limit, too */
#define COMPLETE_COUNTS	10	/* unread results are in the order, too */
#ifndef MUTATION
#define MUTATION	0
#endif
#define RULE(m)	(MUTATION != m)

#define MAX	9		/* members: HOSTS * JOBS at most */
#define X(h, j)	((h) * JOBS + (j))
#define HOST(x)	((x) / JOBS)
#define JOB(x)	((x) % JOBS)
#define BYTES(j) ((j) == 0 -> BIG : SIZE)

/* Members. */
bool wants[MAX];		/* is in send() */
bool needed[MAX];		/* knows that another rank posted the next operation */
byte posted[MAX];
byte read[MAX];
byte came[MAX];			/* LONGEST: when send() was called */

byte used[HOSTS];
byte clock[HOSTS];
byte complete[JOBS];		/* operations that all have posted */

mtype = { CALLED, POSTED, TOLD, READ, FAILED };
mtype what;
byte m;

hidden byte h, j;

/* -- the rule ------------------------------------------------------------- */

#define HOLDS(x) (posted[x] != read[x])
#define INCOMPLETE(x) (posted[x] > complete[JOB(x)])
#define NEEDED(x) (needed[x] || !RULE(UNNEEDED))
#define IN_ORDER(x) (INCOMPLETE(x) || (HOLDS(x) && !RULE(COMPLETE_COUNTS)) || \
		     (wants[x] && (NEEDED(x) || !RULE(WANT_COUNTS))))

#if MUTATION == LONGEST
#define KEY(h, j) came[X(h, j)]
#elif MUTATION == OTHER_ORDER
#define KEY(h, j) ((h) % 2 -> JOBS - (j) : (j))
#else
#define KEY(h, j) (j)
#endif
#define BEFORE(i, x) ((i) < JOBS && (i) != JOB(x) && IN_ORDER(X(HOST(x), i)) && \
		      KEY(HOST(x), i) < KEY(HOST(x), JOB(x)))
#define LOWEST(x) (!BEFORE(0, x) && !BEFORE(1, x) && !BEFORE(2, x))

#define MAY_EXCEED_HOLDING(x) \
	(!HOLDS(x) || !RULE(NOT_FIRST) || (!RULE(UNREAD) && !INCOMPLETE(x)))
#define MAY_EXCEED(x) (RULE(NO_EXCESS) && MAY_EXCEED_HOLDING(x) && NEEDED(x) && LOWEST(x))

/* An operation queued after another of its group may use half of the limit. */
#define FITS(x) (used[HOST(x)] + BYTES(JOB(x)) <= (INCOMPLETE(x) -> LIMIT / 2 : LIMIT))
#define BELOW_CAP(x) (used[HOST(x)] + BYTES(JOB(x)) <= CAP)

/* -- what may happen ------------------------------------------------------ */

#define POSTED_BY(g, x) ((g) < HOSTS && posted[X(g, JOB(x))] > posted[x])

#define MAY_CALL(x) (!wants[x] && posted[x] < OPS)
#define MAY_POST(x) (wants[x] && (FITS(x) || (MAY_EXCEED(x) && BELOW_CAP(x))))
#define MAY_FAIL(x) (wants[x] && MAY_EXCEED(x) && !FITS(x) && !BELOW_CAP(x) && \
		     RULE(CAP_WAITS))
#define MAY_HEAR(x) (!needed[x] && (POSTED_BY(0, x) || POSTED_BY(1, x) || POSTED_BY(2, x)))
#define MAY_READ(x) (read[x] < complete[JOB(x)])

inline post()
{
	h = HOST(m);
	used[h] = used[h] + BYTES(JOB(m));
	assert(used[h] <= (RULE(ONE_EXTRA) -> LIMIT + BEYOND : LIMIT + SIZE));
	assert(used[h] <= CAP);
	wants[m] = false;
	needed[m] = false;
	posted[m] = posted[m] + 1;
	j = JOB(m);
	complete[j] = OPS;
	for (h : 0 .. HOSTS - 1) {
		if
		:: posted[X(h, j)] < complete[j] -> complete[j] = posted[X(h, j)]
		:: else
		fi
	}
}

inline read_result()
{
	h = HOST(m);
	used[h] = used[h] - BYTES(JOB(m));
	read[m] = read[m] + 1
}

/* A job that fails has ended everywhere, and holds nothing. */
inline fail()
{
	j = JOB(m);
	for (h : 0 .. HOSTS - 1) {
		used[h] = used[h] - (posted[X(h, j)] - read[X(h, j)]) * BYTES(j);
		wants[X(h, j)] = false;
		needed[X(h, j)] = false;
		posted[X(h, j)] = OPS;
		read[X(h, j)] = OPS
	}
	complete[j] = OPS
}

inline happen()
{
	if
	:: what == CALLED ->
		wants[m] = true;
		if
		:: !RULE(LONGEST) ->
			h = HOST(m);
			clock[h] = clock[h] + 1;
			came[m] = clock[h]
		:: else
		fi
	:: what == POSTED -> post()
	:: what == TOLD -> needed[m] = true
	:: what == READ -> read_result()
	:: what == FAILED -> fail()
	fi
}

#define ONE(IF, WHAT, x) :: (x) < HOSTS * JOBS && IF(x) -> what = WHAT; m = x
#define ANY(IF, WHAT) \
	ONE(IF, WHAT, 0) ONE(IF, WHAT, 1) ONE(IF, WHAT, 2) ONE(IF, WHAT, 3) \
	ONE(IF, WHAT, 4) ONE(IF, WHAT, 5) ONE(IF, WHAT, 6) ONE(IF, WHAT, 7) \
	ONE(IF, WHAT, 8)

#define ENDED(x) ((x) >= HOSTS * JOBS || read[x] == OPS)

init
{
	do
	:: atomic {
		if
		ANY(MAY_CALL, CALLED)
		ANY(MAY_POST, POSTED)
		ANY(MAY_HEAR, TOLD)
		ANY(MAY_READ, READ)
		ANY(MAY_FAIL, FAILED)
		fi;
		d_step {
			happen();
			what = 0;
			m = 0
		}
	}
	:: ENDED(0) && ENDED(1) && ENDED(2) && ENDED(3) && ENDED(4) && ENDED(5) &&
	   ENDED(6) && ENDED(7) && ENDED(8) -> break
	od
}
