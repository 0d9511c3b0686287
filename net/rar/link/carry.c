// SPDX-License-Identifier: GPL-2.0
/*
 * Carriers: does the path to a neighbour in this kernel pass them?
 *
 * Whatever cuts packets on the way (a device without GSO, some queueing disciplines) makes a
 * carrier useless, and says nothing. It may pass short ones. So the first carrier, and each that is
 * longer than all before it, is a trial: others of its length follow when it is acknowledged. After
 * a lost trial, or several carriers lost in a row, runs go as packets with a header for each chunk,
 * and the next trial comes later and later.
 */
#include "core/op.h"
#include "link/carry.h"
#include "link/link.h"

#define CARRY_LOST	8		/* carriers lost in a row before they are given up, */
#define CARRY_OFF	HZ		/* for this many jiffies at first, */
#define CARRY_OFF_MAX	(64 * HZ)	/* and at last */

/* Prepare for a new epoch. */
void rar_carry_start(struct rar_link *link)
{
	link->tx.carry = (struct rar_carry){ .off = jiffies, .wait = CARRY_OFF };
}

/*
 * Can runs of an operation go as carriers? A short operation that is copied does not lie in pages
 * of its own, and to copy it into pages costs more than headers.
 */
static bool fits(const struct rar_link *link, const struct rar_operation *op, u32 n)
{
	return link->carries && n > 1 && !op->ring.plan.direct && !op->buf.linear;
}

/* Would a run of @n chunks go as a carrier if it could go now? */
bool rar_carry_would(const struct rar_link *link, const struct rar_operation *op, u32 n)
{
	return fits(link, op, n) && n <= READ_ONCE(link->tx.carry.proven);
}

/* May a run go as a carrier? tx_lock. */
bool rar_carry_may(const struct rar_link *link, const struct rar_operation *op,
		   const struct rar_run *run)
{
	const struct rar_carry *carry = &link->tx.carry;

	return fits(link, op, run->n) &&
	       (run->n <= carry->proven ||
		(!carry->trial && time_after_eq(jiffies, carry->off)));
}

/* A run of @n chunks leaves as a carrier. */
void rar_carry_sent(struct rar_carry *carry, u32 n)
{
	if (n > carry->proven)
		carry->trial = n;
}

/* A carrier of @n chunks is acknowledged. */
void rar_carry_came(struct rar_carry *carry, u32 n)
{
	if (n >= carry->lost_n)
		carry->lost = 0;
	if (n == carry->trial) {
		carry->trial = 0;
		carry->wait = CARRY_OFF;
	}
	if (n > carry->proven)
		WRITE_ONCE(carry->proven, n);
}

/* A carrier of @n chunks is given up. */
void rar_carry_lost(struct rar_carry *carry, u32 n)
{
	bool trial = n == carry->trial;

	if (!trial && n > carry->proven)
		return;
	carry->lost_n = carry->lost ? min(carry->lost_n, n) : n;
	if (!trial && ++carry->lost < CARRY_LOST)
		return;
	if (!trial)
		WRITE_ONCE(carry->proven, 0);
	carry->trial = 0;
	carry->lost = 0;
	carry->off = jiffies + carry->wait;
	carry->wait = min_t(unsigned long, 2 * carry->wait, CARRY_OFF_MAX);
}
