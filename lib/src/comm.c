// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Communicators: joining, joining again, leaving.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "librar.h"

/* -- start ----------------------------------------------------------------- */

/* The ranks of a group to join: their cards, and the numbers of their hosts. */
struct roster {
	struct card *cards;
	uint32_t *hosts;
	uint32_t size, rank;
};

/* Number the hosts: ranks get the number of the first rank with the same host id. */
static void number_hosts(struct roster *r)
{
	const struct card *cards = r->cards;
	uint32_t i, j;

	for (i = 0; i < r->size; i++) {
		/* mostly the host of the rank before */
		j = i && cards[i].host == cards[i - 1].host ? r->hosts[i - 1] : 0;
		while (cards[j].host != cards[i].host)
			j++;
		r->hosts[i] = j;
	}
}

static void drop_roster(struct roster *r)
{
	if (r->cards)
		explicit_bzero(r->cards, r->size * sizeof(*r->cards));
	free(r->cards);
	free(r->hosts);
	*r = (struct roster) {};
}

/* The caller drops the roster, even after an error. */
static int read_roster(struct roster *r, const struct rar_card *cards, uint32_t size,
		       uint32_t rank)
{
	int err;

	*r = (struct roster) { .size = size, .rank = rank };
	if (!cards || !size || size > RAR_MAX_SIZE || rank >= size)
		return -EINVAL;
	r->cards = calloc(size, sizeof(*r->cards));
	r->hosts = calloc(size, sizeof(*r->hosts));
	if (!r->cards || !r->hosts)
		return -ENOMEM;
	err = rar_cards_read(cards, size, r->cards);
	if (!err)
		number_hosts(r);
	return err;
}

/* Are all ranks in one network namespace of one host? */
static bool together(const struct roster *r)
{
	uint32_t i;

	for (i = 0; i < r->size && !r->hosts[i]; i++)
		;
	return i == r->size;
}

/*
 * The level that the cards ask for, or CARD_UNSET: that of rank 0, and if it asks for none the highest
 * of the others.
 */
static uint8_t wish(const struct roster *r)
{
	uint8_t level = r->cards[0].security, other;

	for (uint32_t i = 1; i < r->size && r->cards[0].security == CARD_UNSET; i++) {
		other = r->cards[i].security;
		if (other != CARD_UNSET && other != RAR_SECURITY_OFF &&
		    (level == CARD_UNSET || other > level))
			level = other;
	}
	return level;
}

/*
 * Set what rank 0's card leaves open. Between hosts others can send, too, so packets have seals,
 * and a hop takes long, so short operations take few. Within a host packets stay on its loopback
 * device, and hops cost more than they take: the ring has the fewest packets.
 */
static void settle(struct roster *r)
{
	struct card *first = &r->cards[0];
	bool one = together(r);

	first->security = wish(r);
	if (first->security == CARD_UNSET)
		first->security = one ? RAR_SECURITY_OFF : RAR_SECURITY_AUTH;
	if (first->schedule == CARD_UNSET)
		first->schedule = one ? RAR_BY_RANKS : RAR_AUTO;
	if (first->security == RAR_SECURITY_OFF && !first->keyed)
		explicit_bzero(first->key, sizeof(first->key));
}

/* A rank that asks for seals gets them, or an error. */
static int check_security(const struct card *first)
{
	int asked = rar_security_asked();

	if (asked < 0 || asked == CARD_UNSET || asked <= first->security)
		return asked < 0 ? asked : 0;
	rar_debug(NULL, "RAR_SECURITY asks for more here than at rank 0");
	return -ENOKEY;
}

/* The card with which this rank may join again, perhaps as rank 0. */
static void keep_card(rar_comm_t *c, const struct roster *r)
{
	const struct card *first = &r->cards[0];

	c->card = r->cards[r->rank];
	c->card.group = c->group;
	memcpy(c->card.key, first->key, sizeof(c->card.key));
	c->card.security = wish(r);
	c->card.schedule = first->schedule;
	c->card.keyed = first->keyed;
}

/* Begin to join. The communicator takes the hosts of the roster. */
static int begin(rar_comm_t *c, struct roster *r, uint64_t group)
{
	int err;

	c->size = r->size;
	c->rank = r->rank;
	c->group = group ? group : r->cards[0].group;
	keep_card(c, r);
	if (c->flags & RAR_O_BY_HOSTS)
		r->cards[0].schedule = RAR_BY_HOSTS;
	settle(r);
	free(c->hosts);
	c->hosts = r->hosts;
	r->hosts = NULL;
	err = rar_cards_check(r->cards, r->size) ?: check_security(&r->cards[0]);
	if (!err)
		err = c->transport->start(c, r->cards);
	rar_debug(c, "group %016llx by %s, %s, seals: %s: %s", (unsigned long long)c->group,
		  c->transport->name, rar_schedule_name(r->cards[0].schedule),
		  rar_security_name(r->cards[0].security), err ? strerror(-err) : "joining");
	return err;
}

/* Does the environment ask for the stub? */
bool rar_stub_asked(void)
{
	const char *stub = getenv("RAR_STUB");

	return stub && *stub && strcmp(stub, "0");
}

static void init(rar_comm_t *c, const struct rar_opts *opts)
{
	pthread_condattr_t attr;

	c->fd = -1;
	c->flags = opts->flags;
	c->join_ms = opts->join_ms;
	c->op_ms = opts->op_ms;
	if (rar_stub_asked())
		c->flags |= RAR_O_STUB;
	c->transport = c->flags & RAR_O_STUB ? &stub_transport : &kernel_transport;
	pthread_mutex_init(&c->post_lock, NULL);
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->turn, &attr);
	pthread_condattr_destroy(&attr);
}

/* In a forked child threads of the parent seem to wait for ever: nothing is destroyed there. */
static void destroy(rar_comm_t *c, bool inherited)
{
	if (!inherited) {
		pthread_mutex_destroy(&c->post_lock);
		pthread_mutex_destroy(&c->lock);
		pthread_cond_destroy(&c->turn);
	}
	free(c->hosts);
	free(c->lost);
	explicit_bzero(&c->card, sizeof(c->card));	/* the key */
	free(c);
}

int rar_comm_start(rar_comm_t **out, const struct rar_card *cards, uint32_t size,
		   uint32_t rank, const struct rar_opts *opts)
{
	struct roster roster;
	struct rar_opts o;
	rar_comm_t *c;
	int err;

	*out = NULL;
	err = rar_opts_read(opts, &o);
	if (err)
		return err;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	init(c, &o);
	c->born = rar_generation();
	err = read_roster(&roster, cards, size, rank);
	if (!err)
		err = c->born ? begin(c, &roster, o.group) : -ENOMEM;
	drop_roster(&roster);
	if (!err) {
		*out = c;
		return 0;
	}
	if (c->fd >= 0)
		close(c->fd);
	destroy(c, false);
	return err;
}

int rar_comm_ready(rar_comm_t *c, int timeout_ms)
{
	struct rar_error error;
	int err;

	if (rar_inherited(c))
		return -ECHILD;
	if (c->err || c->up)
		return c->err ? c->err : rar_comm_error(c, &error);
	err = c->transport->ready(c, timeout_ms);
	if (err == -EAGAIN)
		return err;
	c->err = err;
	c->up = !err;
	rar_debug(c, "the ring is %s", err ? "not closed" : "closed");
	return err;
}

/* -- a file of addresses --------------------------------------------------- */

struct table {
	struct rar_card *cards;
	uint32_t n;
	uint64_t group;
	uint16_t port;		/* of lines without one */
};

/* ADDRESS, IPV4:PORT or [IPV6]:PORT; @n is the port if there is none */
static int parse_line(char *text, unsigned long n, struct card *card)
{
	char *port = NULL, *end;

	if (*text == '[') {
		end = strchr(++text, ']');
		if (!end)
			return -EINVAL;
		port = end[1] == ':' ? end + 2 : NULL;
		*end = '\0';
	} else if (strchr(text, ':') && strchr(text, ':') == strrchr(text, ':')) {
		port = strchr(text, ':');
		*port++ = '\0';
	}
	if (port) {
		n = strtoul(port, &end, 10);
		if (*end || !n || n > 65535)
			return -EINVAL;
	}
	*card = (struct card) { .magic = CARD_MAGIC, .version = CARD_VERSION,
				.port = htons(n), .schedule = CARD_UNSET };
	if (rar_local_address(text, card))
		return -EINVAL;
	/* One address is one host. */
	card->host = rar_hash(HASH_START, card->addr, sizeof(card->addr));
	return 0;
}

static int add_line(struct table *t, char *line)
{
	struct rar_card *more;
	struct card card;
	char *end;

	line[strcspn(line, "#\r\n")] = '\0';
	line += strspn(line, " \t");
	line[strcspn(line, " \t")] = '\0';
	if (!*line)
		return 0;
	if (!strncmp(line, "group=", 6)) {
		t->group = strtoull(line + 6, &end, 0);
		return *end || !t->group ? -EINVAL : 0;
	}
	more = realloc(t->cards, (t->n + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	t->cards = more;
	if (!strpbrk(line, ".:") || strpbrk(line, "/,^") ||
	    parse_line(line, t->port, &card))
		return -EINVAL;
	memcpy(&t->cards[t->n++], &card, sizeof(card));
	return t->n <= RAR_MAX_SIZE ? 0 : -EINVAL;
}

static int read_table(const char *path, struct table *t)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	int err = 0, nr = 0;

	if (!f)
		return -errno;
	while (!err && getline(&line, &room, f) >= 0) {
		nr++;
		err = add_line(t, line);
	}
	if (!err && !feof(f))
		err = -errno;
	free(line);
	fclose(f);
	if (err)
		rar_debug(NULL, "%s:%d: %s", path, nr, strerror(-err));
	return err;
}

/*
 * Without "group=" the group is a number for the addresses and ports, which anyone can work
 * out. The device of a link-local address has another number on each host.
 */
static uint64_t table_group(const struct table *t)
{
	uint64_t hash = HASH_START;
	struct card card;

	for (uint32_t i = 0; i < t->n; i++) {
		memcpy(&card, &t->cards[i], sizeof(card));
		card.scope = 0;
		hash = rar_hash(hash, &card, sizeof(card));
	}
	return hash ? hash : 1;
}

/* The environment of each rank speaks for the ranks of a file: it must be equal. */
static int table_schedule(struct table *t)
{
	int schedule = rar_schedule_asked();
	struct card card;

	if (schedule < 0)
		return schedule;
	memcpy(&card, &t->cards[0], sizeof(card));
	card.schedule = schedule;
	memcpy(&t->cards[0], &card, sizeof(card));
	return 0;
}

/* A file has the addresses, also the caller's, and no key. */
static int file_options(const struct rar_opts *o)
{
	if (o->flags & RAR_O_KEY)
		rar_debug(NULL, "a file of addresses has no key: RAR_O_KEY is refused");
	else if (o->local)
		rar_debug(NULL, "the file has the own address: opts->local is refused");
	else
		return 0;
	return -EINVAL;
}

int rar_comm_from_file(rar_comm_t **out, const char *path, uint32_t rank,
		       const struct rar_opts *opts)
{
	struct table t = {};
	struct rar_opts o;
	int err;

	*out = NULL;
	err = rar_opts_read(opts, &o);
	if (!err)
		err = file_options(&o);
	t.port = o.port;
	if (!err)
		err = read_table(path, &t);
	if (!err && !t.n)
		err = -EINVAL;
	if (!err) {
		o.size = sizeof(o);
		if (!o.group)
			o.group = t.group ? t.group : table_group(&t);
		err = table_schedule(&t) ?: rar_comm_start(out, t.cards, t.n, rank, &o);
	}
	free(t.cards);
	return err;
}

/* -- again, and the end ---------------------------------------------------- */

/* A card for joining again: the kernel remembers by the group's name what is to be repeated. */
int rar_comm_card(const rar_comm_t *c, struct rar_card *card)
{
	if (rar_inherited(c))
		return -ECHILD;
	memcpy(card, &c->card, sizeof(*card));
	return 0;
}

/* Remember the requests that are not complete. */
static int note_lost(rar_comm_t *c, int error)
{
	struct lost *lost;

	if (c->done == c->posted)
		return 0;
	lost = realloc(c->lost, (c->nr_lost + 1) * sizeof(*lost));
	if (!lost)
		return -ENOMEM;
	lost[c->nr_lost++] = (struct lost) { c->done + 1, c->posted, error };
	c->lost = lost;
	c->done = c->posted;
	return 0;
}

/*
 * Start again after a failure. Requests that were complete before the failure stay complete,
 * the others keep its error. If the arguments are refused, or if there is no memory, nothing
 * changes.
 */
int rar_comm_again(rar_comm_t *c, const struct rar_card *cards, uint32_t size, uint32_t rank)
{
	struct roster roster;
	struct rar_error error;
	int err;

	if (rar_inherited(c))
		return -ECHILD;
	rar_wait(c, c->posted, 0);	/* take the results that are left, then the error */
	if (!c->err && !rar_comm_error(c, &error))
		return -EISCONN;
	err = read_roster(&roster, cards, size, rank);
	if (!err)
		err = note_lost(c, c->err ? c->err : -error.err);
	if (err) {
		drop_roster(&roster);
		return err;
	}
	c->transport->renew(c);
	if (c->up)	/* after a join that failed, what came before it counts */
		c->past_base = c->base;
	c->base = c->posted;
	c->reported = c->posted;
	c->up = false;
	c->err = 0;
	c->no_pin = 0;
	err = begin(c, &roster, 0);
	c->err = err;
	drop_roster(&roster);
	return err;
}

int rar_comm_resume(rar_comm_t *c, rar_req_t *first)
{
	uint64_t op;
	int err;

	if (rar_inherited(c))
		return -ECHILD;
	err = c->up ? c->transport->resume(c, &op) : -ENOTCONN;
	if (!err)
		*first = c->past_base + op + 1;
	return err;
}

void rar_comm_abort(rar_comm_t *c)
{
	if (!rar_inherited(c))
		c->transport->abort(c);
}

void rar_comm_free(rar_comm_t *c)
{
	if (!c)
		return;
	rar_debug(c, "leaves after %llu requests, %llu complete",
		  (unsigned long long)c->posted, (unsigned long long)c->done);
	c->transport->close(c, rar_inherited(c));
	destroy(c, rar_inherited(c));
}

/* -- questions ------------------------------------------------------------- */

uint32_t rar_comm_rank(const rar_comm_t *c) { return c->rank; }
uint32_t rar_comm_size(const rar_comm_t *c) { return c->size; }
int rar_comm_fd(const rar_comm_t *c) { return c->fd; }

uint32_t rar_comm_host(const rar_comm_t *c, uint32_t rank)
{
	return rank < c->size ? c->hosts[rank] : RAR_NO_RANK;
}

const struct rar_caps *rar_comm_caps(const rar_comm_t *c)
{
	return c->up ? &c->caps : NULL;
}
