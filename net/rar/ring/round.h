/* SPDX-License-Identifier: GPL-2.0 */
/* Round at once: a run that passes several ranks of one namespace. */
#ifndef _RAR_RING_ROUND_H
#define _RAR_RING_ROUND_H

#include "core/op.h"
#include "core/ring.h"

#define RAR_ROUND_RANKS	16	/* of a group whose runs go all the way at once, at most */
#define RAR_ROUND_HOPS	(2 * (RAR_ROUND_RANKS - 1))

/* The arrival of a run at a rank. */
struct rar_hop {
	struct rar_member *m;
	struct rar_operation *op;
	enum rar_phase phase;
};

/*
 * struct rar_round - a run on its way, on the stack
 * @from:	the rank that has it
 * @op:		the operation there
 * @run:	the run, as it leaves that rank
 * @c:		place of its first chunk
 * @bytes:	of the run
 * @n:		arrivals here
 * @ends:	its way ends after these
 * @nadds:	of them, how many ranks add; they come first
 * @nclaimed:	arrivals that are claimed in full
 * @won:	chunks claimed of the arrival after these
 * @hop:	the arrivals, in order
 */
struct rar_round {
	struct rar_member *from;
	struct rar_operation *op;
	struct rar_run run;
	struct rar_chunk c;
	u64 bytes;
	u32 n;
	bool ends;
	u32 nadds;
	u32 nclaimed;
	u64 won;
	struct rar_hop hop[RAR_ROUND_HOPS];
};

bool rar_round_find(struct rar_round *round, struct rar_member *from,
		    const struct rar_tx_item *item);
bool rar_round_claim(struct rar_round *round);
void rar_round_pass(struct rar_round *round);
int rar_round_init(void);
void rar_round_exit(void);

#endif /* _RAR_RING_ROUND_H */
