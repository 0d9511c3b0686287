// SPDX-License-Identifier: GPL-2.0
/*
 * A host itself, or what it does for a group, as a member: packets find it as
 * they find the members of programs, and it sends as they do. The box is one.
 */
#include <linux/slab.h>

#include "group/self.h"
#include "link/early.h"
#include "link/link.h"
#include "tx/port.h"
#include "tx/sender.h"

/**
 * rar_self_new() - make a member that answers strangers
 * @rn: netns
 *
 * Packets do not find it. Process context.
 *
 * Return: the member, or NULL without memory.
 */
struct rar_member *rar_self_new(struct rar_net *rn)
{
	struct rar_member *self = kzalloc(sizeof(*self), GFP_KERNEL);

	if (!self)
		return NULL;
	self->rn = rn;
	self->rank = RAR_BOX_RANK;
	if (rar_link_init(self, RAR_BOX_RANK, RAR_BOX_RANK)) {
		kfree(self);
		return NULL;
	}
	/* So that nobody can make a token that this host takes for its own. */
	get_random_bytes(&self->join.key, sizeof(self->join.key));
	return self;
}
EXPORT_SYMBOL_GPL(rar_self_new);

/**
 * rar_self_free() - undo rar_self_new(), and what rar_self_open() has left
 * @self: no member that rar_self_init() made with it is left; or NULL
 *
 * Process context.
 */
void rar_self_free(struct rar_member *self)
{
	if (!self)
		return;
	rar_sender_put_all(self);
	rar_link_free(self);
	kfree(self);
}
EXPORT_SYMBOL_GPL(rar_self_free);

/**
 * rar_self_close() - give the UDP ports back
 * @self:  the member
 * @ports: set by rar_self_open(), also if that failed
 *
 * The sockets by which it sends stay until rar_self_free(). Process context.
 */
void rar_self_close(struct rar_member *self,
		    struct rar_port *ports[RAR_SELF_PORTS])
{
	int i;

	for (i = 0; i < RAR_SELF_PORTS; i++) {
		rar_port_put(self->rn, ports[i]);
		ports[i] = NULL;
	}
}
EXPORT_SYMBOL_GPL(rar_self_close);

static int open_ports(struct rar_member *self, __be16 num,
		      struct rar_port *ports[RAR_SELF_PORTS])
{
	static const u16 af[RAR_SELF_PORTS] = { AF_INET, AF_INET6 };
	struct rar_port *p;
	int i, err = 0;

	for (i = 0; i < RAR_SELF_PORTS && !err; i++) {
		if (af[i] == AF_INET6 && !IS_ENABLED(CONFIG_IPV6))
			continue;
		err = rar_sender_open(self, af[i]);
		/* The host was booted without IPv6. */
		if (af[i] == AF_INET6 && err == -EAFNOSUPPORT)
			return 0;
		p = err ? NULL : rar_port_get(self->rn, af[i], num);
		if (IS_ERR(p))
			err = PTR_ERR(p);
		else
			ports[i] = p;
	}
	return err;
}

/**
 * rar_self_open() - receive by a UDP port, and get ready to send
 * @self:  the member
 * @num:   the port
 * @ports: NULL each; set to the ports of IPv4 and IPv6, if the host has these
 *
 * Process context.
 *
 * Return: 0, or a negative errno and nothing is received.
 */
int rar_self_open(struct rar_member *self, __be16 num,
		  struct rar_port *ports[RAR_SELF_PORTS])
{
	int err = open_ports(self, num, ports);

	if (err)
		rar_self_close(self, ports);
	return err;
}
EXPORT_SYMBOL_GPL(rar_self_open);

/* It has no timer; rar_life_end() ends members that have one. */
static void no_timer(struct timer_list *t)
{
}

/**
 * rar_self_init() - make a member by which packets find this host, and which
 *		     sends packets
 * @m:    member; what is zero does not matter, or its maker sets it
 * @self: open; its sockets outlast the member
 * @addr: the address of this host
 *
 * Process context. The caller frees its links with rar_link_free().
 *
 * Return: 0 or -ENOMEM.
 */
int rar_self_init(struct rar_member *m, const struct rar_member *self,
		  const struct rar_addr *addr)
{
	int i;

	m->rn = self->rn;
	m->nlanes = 1;
	m->self = *addr;
	m->op_whole = U64_MAX;	/* nothing comes too early */
	m->state = RAR_S_RUN;
	refcount_set(&m->ref, 1);
	spin_lock_init(&m->lock);
	rar_early_init(m);
	timer_setup(&m->timer, no_timer, 0);
	for (i = 0; i < ARRAY_SIZE(m->sender); i++)
		m->sender[i].sock = self->sender[i].sock;
	/* No packet comes from a neighbour. */
	return rar_link_init(m, RAR_BOX_RANK, RAR_BOX_RANK);
}
EXPORT_SYMBOL_GPL(rar_self_init);
