// SPDX-License-Identifier: GPL-2.0
/*
 * Hosts with several network namespaces: a list of members by the nonces of their joins, in which
 * ranks find out that they share a kernel.
 *
 * A nonce is a random number that only members of the group know. So a rank that finds a
 * neighbour's nonce here knows that both are in this kernel, and no packet needs a name of the host
 * that others could remember, forge, or find in a copy of this machine. Members with RAR_BY_HOSTS
 * in namespaces with net.rar.one_host=1 are one host, too.
 */
#include <linux/hashtable.h>

#include "core/hosts.h"
#include "rar.h"

static DEFINE_HASHTABLE(listed, 8);
static DEFINE_SPINLOCK(hosts_lock);

/**
 * rar_hosts_remove() - take a member off the list
 * @m: member; it need not be listed
 *
 * Any context.
 */
void rar_hosts_remove(struct rar_member *m)
{
	spin_lock_bh(&hosts_lock);
	if (m->listed_as)
		hash_del(&m->listed_node);
	m->listed_as = 0;
	spin_unlock_bh(&hosts_lock);
}

/**
 * rar_hosts_add() - list a member
 * @m:     member that is not listed
 * @nonce: of its join
 */
void rar_hosts_add(struct rar_member *m, u64 nonce)
{
	spin_lock_bh(&hosts_lock);
	m->one_host = m->schedule == RAR_BY_HOSTS && READ_ONCE(m->rn->sysctl_one_host);
	m->listed_as = nonce;
	hash_add(listed, &m->listed_node, nonce);
	spin_unlock_bh(&hosts_lock);
}

/*
 * The member of a rank that joined with @nonce, if it is in this kernel. With @one_host both must
 * be on one host, too. RCU read side.
 */
static struct rar_member *find(const struct rar_member *m, u32 rank, u64 nonce, bool one_host)
{
	struct rar_member *other, *found = NULL;

	if (!nonce)
		return NULL;
	/* A member may be listed again at any time, in the chain of another nonce. */
	spin_lock_bh(&hosts_lock);
	hash_for_each_possible(listed, other, listed_node, nonce)
		if (other->listed_as == nonce && other->id == m->id &&
		    other->rank == rank && other->size == m->size) {
			found = other;
			break;
		}
	if (one_host && found && !(m->listed_as && m->one_host && found->one_host))
		found = NULL;
	spin_unlock_bh(&hosts_lock);
	return found;
}

/**
 * rar_hosts_find() - find a rank that is on one host with a member
 * @m:     member
 * @rank:  of the other member
 * @nonce: of its join
 *
 * RCU read side.
 *
 * Return: the other member, without a reference, or NULL: it is not in this kernel, or the
 * namespaces of the two are not one host.
 */
struct rar_member *rar_hosts_find(const struct rar_member *m, u32 rank, u64 nonce)
{
	return find(m, rank, nonce, true);
}

/**
 * rar_hosts_share() - is a rank in the same kernel as a member, in any namespace?
 * @m:     member
 * @rank:  of the other member
 * @nonce: of its join
 *
 * RCU read side.
 *
 * Return: true if it is.
 */
bool rar_hosts_share(const struct rar_member *m, u32 rank, u64 nonce)
{
	return find(m, rank, nonce, false);
}
