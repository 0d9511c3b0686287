// SPDX-License-Identifier: GPL-2.0
/*
 * The box as a member: packets find it as they find the members of programs, and it sends as they
 * do.
 */
#include "box/job.h"
#include "box/self.h"
#include "link/early.h"
#include "link/link.h"

/* It has no timer; rar_life_end() ends members that have one. */
static void no_timer(struct timer_list *t)
{
}

/**
 * rar_self_init() - make a member by which packets find the box, and which sends packets
 * @m:    member; what is zero does not matter, or its maker sets it
 * @box:  the box of this host. Its sockets outlast the member
 * @self: the box's address
 *
 * Process context.
 */
void rar_self_init(struct rar_member *m, struct rar_box *box, const struct rar_addr *self)
{
	int i;

	m->rn = box->rn;
	m->nlanes = 1;
	m->self = *self;
	m->op_whole = U64_MAX;	/* nothing comes too early */
	m->state = RAR_S_RUN;
	refcount_set(&m->ref, 1);
	spin_lock_init(&m->lock);
	rar_link_init(m);
	for (i = 0; i < ARRAY_SIZE(m->link); i++)
		m->link[i].rank = RAR_BOX_RANK;	/* no packet comes from a neighbour */
	rar_early_init(m);
	timer_setup(&m->timer, no_timer, 0);
	for (i = 0; i < ARRAY_SIZE(m->sender); i++)
		m->sender[i].sock = box->self->sender[i].sock;
}
