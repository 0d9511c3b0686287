/* SPDX-License-Identifier: GPL-2.0 */
/*
 * net.rar.mem: jobs that span the same hosts, each host with a limit of its own.
 *
 * Every host has a member of every job. A member calls send() for one operation after
 * another, each of which takes SIZE bytes of its host from send() until the result is
 * read; there is a result when all members of the job have posted the operation. So
 * host 0 can give all it has to job 0 and host 1 to job 1, and neither ever ends.
 *
 * The rule: a send() that finds too little memory goes beyond the limit if
 *
 * - its group holds no memory on this host,
 * - another rank has posted the operation (it is needed), and
 * - its epoch is the lowest of the groups of this host that hold memory of an operation
 *   that is not complete, or want memory for one that is needed.
 *
 * Why that is enough: of all operations that are posted anywhere and not complete take
 * the one with the lowest epoch. Each member that has not posted it will hear that it is
 * needed, and then nothing on its host is before it.
 *
 * An operation that is wanted everywhere and posted nowhere must not count (WANT_COUNTS):
 * with three jobs it stands before those that are needed, and is not needed itself.
 *
 * How much: a group that goes beyond the limit holds nothing else, so all groups of a host
 * but one may do so at a time, each by one operation. One is not a bound (ONE_EXTRA):
 * while the first group waits for another host, one with a lower epoch may come. A CAP
 * that is lower than all that needs an error instead of a wait: send() fails, the group
 * fails with it and gives all it has back.
 *
 * Left out: how long things take; members that read one job's result only after they
 * have posted for another one (such a program can wait for itself).
 *
 * Checked: the limits hold, and every operation of every job is read in the end, or its
 * job has failed. MUTATION removes a rule.
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
#define BIG	SIZE		/* of the job with the lowest epoch */
#endif
#define BEYOND	((JOBS - 1) * SIZE + BIG - SIZE)
#ifndef CAP
#define CAP	200
#endif

#define NO_EXCESS	1	/* nobody goes beyond the limit */
#define LONGEST		2	/* not the lowest epoch but whoever came first here */
#define OTHER_ORDER	3	/* hosts do not agree on the order */
#define WANT_COUNTS	4	/* also those that want and are not needed are in the order */
#define NOT_FIRST	5	/* the group may hold memory already */
#define UNREAD		6	/* ... of results that nobody has read */
#define ONE_EXTRA	7	/* no more than one operation goes beyond the limit */
#define CAP_WAITS	8	/* beyond CAP send() waits, and does not fail */
#define UNNEEDED	9	/* what nobody has posted goes beyond the limit as well */
#define COMPLETE_COUNTS	10	/* also results not yet read are in the order */
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

/* Behind another operation of its group there is half of it. */
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
