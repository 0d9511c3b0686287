// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Cards: the address by which other ranks reach this one, and what rank 0 decides for all.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "librar.h"

_Static_assert(sizeof(struct card) == sizeof(struct rar_card), "a card has 128 bytes");

/* A random number, not 0. */
uint64_t rar_random(void)
{
	uint64_t n = 0;

	while (!n)
		if (getrandom(&n, sizeof(n), 0) != sizeof(n))
			n = 0;
	return n;
}

/* -- which host ------------------------------------------------------------ */

/* FNV-1a, which begins with HASH_START. */
uint64_t rar_hash(uint64_t hash, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len--)
		hash = (hash ^ *p++) * 0x100000001b3u;
	return hash;
}

/* A number for this boot of this host and the caller's network namespace. */
static int host_id(uint64_t *id)
{
	uint64_t hash = HASH_START;
	char boot[64] = "";
	struct stat st;
	FILE *f;

	f = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (!f || !fgets(boot, sizeof(boot), f) || stat("/proc/self/ns/net", &st)) {
		rar_debug(NULL, "no boot_id or network namespace in /proc");
		if (f)
			fclose(f);
		return -ENOENT;
	}
	fclose(f);
	hash = rar_hash(hash, boot, strlen(boot));
	*id = rar_hash(hash, &st.st_ino, sizeof(st.st_ino));
	return 0;
}

/* -- which address --------------------------------------------------------- */

static void set_address(struct card *card, const struct sockaddr *sa)
{
	const struct sockaddr_in6 *v6 = (const void *)sa;
	const struct sockaddr_in *v4 = (const void *)sa;

	memset(card->addr, 0, sizeof(card->addr));
	card->af = sa->sa_family;
	card->scope = 0;
	if (sa->sa_family == AF_INET) {
		memcpy(card->addr, &v4->sin_addr, 4);
	} else {
		memcpy(card->addr, &v6->sin6_addr, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
			card->scope = v6->sin6_scope_id;
	}
}

/* ::ffff:a.b.c.d, as getaddrinfo(3) with AI_V4MAPPED gives it, is an IPv4 address. */
static void unmap(struct card *card)
{
	if (card->af != AF_INET6 || !IN6_IS_ADDR_V4MAPPED((struct in6_addr *)card->addr))
		return;
	card->af = AF_INET;
	memmove(card->addr, card->addr + 12, 4);
	memset(card->addr + 4, 0, sizeof(card->addr) - 4);
}

/* An address as digits; "%device" names the device of a link-local address. */
static int parse_address(const char *text, struct card *card)
{
	char copy[INET6_ADDRSTRLEN + IF_NAMESIZE];
	char *device;

	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
		return -EINVAL;
	device = strchr(copy, '%');
	if (device)
		*device++ = '\0';
	memset(card->addr, 0, sizeof(card->addr));
	card->scope = device ? if_nametoindex(device) : 0;
	card->af = strchr(copy, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(card->af, copy, card->addr) != 1 || (device && !card->scope))
		return -EINVAL;
	unmap(card);
	return 0;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	uint8_t last = 0xff00u >> bits % 8;

	return !memcmp(a, b, bits / 8) &&
	       (!(bits % 8) || !((a[bits / 8] ^ b[bits / 8]) & last));
}

#define WISHES	16		/* items of RAR_LOCAL */

/* An item of RAR_LOCAL: an address, a device, or a network of @bits of @net. */
struct wish {
	bool not;		/* "^": nothing of that */
	bool exact;
	char device[IF_NAMESIZE];
	struct card net;
	unsigned int bits;
};

struct wishes {
	struct wish wish[WISHES];
	int n;
	bool any;		/* there is one without "^" */
};

static bool usable(const struct ifaddrs *i)
{
	return i->ifa_addr && i->ifa_flags & IFF_UP &&
	       (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6);
}

static bool suits(const struct ifaddrs *i, const struct wish *wish)
{
	struct card card;

	if (*wish->device)
		return !strcmp(i->ifa_name, wish->device);
	set_address(&card, i->ifa_addr);
	return card.af == wish->net.af && same_bits(card.addr, wish->net.addr, wish->bits);
}

static bool unwanted(const struct ifaddrs *i, const struct wishes *w)
{
	for (int k = 0; k < w->n; k++)
		if (w->wish[k].not && suits(i, &w->wish[k]))
			return true;
	return false;
}

/* A bridge, such as docker0: its address is often one that many hosts have. */
static bool is_bridge(const char *name)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq request = { .ifr_data = (void *)&info };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool bridge;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	bridge = fd >= 0 && !ioctl(fd, SIOCETHTOOL, &request) && !strcmp(info.driver, "bridge");
	if (fd >= 0)
		close(fd);
	return bridge;
}

/* How good an address is: IPv4 before IPv6, link-local last. */
static int rank_address(const struct sockaddr *sa)
{
	const struct sockaddr_in6 *v6 = (const void *)sa;

	if (sa->sa_family == AF_INET)
		return 3;
	return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? 1 : 2;
}

/*
 * How good a device is if nobody asked for it: one to other hosts before a bridge, and that before
 * one without a carrier, which leads nowhere; loopback last.
 */
static int rank_device(const struct ifaddrs *i)
{
	if (i->ifa_flags & IFF_LOOPBACK)
		return 1;
	if (!(i->ifa_flags & IFF_RUNNING))
		return 2;
	return is_bridge(i->ifa_name) ? 3 : 4;
}

/* The best address of those that suit a wish, or without one of all that are wanted. */
static int find_address(const struct ifaddrs *list, const struct wish *wish,
			const struct wishes *w, struct card *card)
{
	const struct ifaddrs *i;
	int best = 0, rank;

	for (i = list; i; i = i->ifa_next) {
		if (!usable(i) || unwanted(i, w) || (wish && !suits(i, wish)))
			continue;
		rank = (wish ? 0 : 4 * rank_device(i)) + rank_address(i->ifa_addr);
		if (rank > best) {
			best = rank;
			set_address(card, i->ifa_addr);
		}
	}
	return best ? 0 : -EADDRNOTAVAIL;
}

/* The address by which packets leave for the rest of the world; none is sent. */
static int default_address(const struct ifaddrs *list, const struct wishes *w, struct card *card)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct wish self = { .bits = 32 };
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);	/* for documentation */
	if (fd < 0)
		return -errno;
	if (connect(fd, (void *)&to, sizeof(to)) || getsockname(fd, (void *)&addr, &len))
		err = -errno;
	close(fd);
	if (err)
		return err;
	set_address(&self.net, (void *)&addr);
	return find_address(list, &self, w, card);
}

/* ADDRESS/BITS */
static int parse_network(const char *text, struct wish *wish)
{
	const char *slash = strchr(text, '/');
	char net[INET6_ADDRSTRLEN], *end;
	bool mapped;

	if ((size_t)(slash - text) >= sizeof(net))
		return -EINVAL;
	memcpy(net, text, slash - text);
	net[slash - text] = '\0';
	wish->bits = strtoul(slash + 1, &end, 10);
	if (parse_address(net, &wish->net) || *end || end == slash + 1)
		return -EINVAL;
	mapped = wish->net.af == AF_INET && strchr(net, ':');
	if (mapped && wish->bits < 96)
		return -EINVAL;
	wish->bits -= mapped ? 96 : 0;
	return wish->bits <= (wish->net.af == AF_INET ? 32u : 128u) ? 0 : -EINVAL;
}

static int parse_wish(const char *text, struct wish *wish)
{
	wish->not = *text == '^';
	text += wish->not;
	if (strchr(text, '/'))
		return parse_network(text, wish);
	if (!parse_address(text, &wish->net)) {
		wish->exact = true;
		wish->bits = wish->net.af == AF_INET ? 32 : 128;
		return 0;
	}
	/* No device is called "/". */
	snprintf(wish->device, sizeof(wish->device), "%s",
		 *text && strlen(text) < sizeof(wish->device) ? text : "/");
	return 0;
}

/* A list of wishes, separated by commas. */
static int parse_wishes(const char *text, struct wishes *w)
{
	char *copy = strdup(text), *save, *item;
	int err = copy ? 0 : -ENOMEM;

	for (item = copy ? strtok_r(copy, ",", &save) : NULL; item && !err;
	     item = strtok_r(NULL, ",", &save)) {
		err = w->n < WISHES ? parse_wish(item, &w->wish[w->n]) : -EINVAL;
		if (!err)
			w->any |= !w->wish[w->n++].not;
	}
	free(copy);
	return err;
}

/* The first wish that can be granted. An address is taken as it is: the kernel checks it. */
static int grant(const struct ifaddrs *list, const struct wishes *w, struct card *card)
{
	for (int k = 0; k < w->n; k++) {
		const struct wish *wish = &w->wish[k];

		if (wish->not)
			continue;
		if (!wish->exact && find_address(list, wish, w, card))
			continue;
		if (wish->exact) {
			memcpy(card->addr, wish->net.addr, sizeof(card->addr));
			card->af = wish->net.af;
			card->scope = wish->net.scope;
		}
		return 0;
	}
	return -EADDRNOTAVAIL;
}

/* Set the address of a card: as asked for, else a likely one. */
int rar_local_address(const char *local, struct card *card)
{
	struct wishes w = {};
	struct ifaddrs *list;
	int err;

	if (!local || !*local)
		local = getenv("RAR_LOCAL");
	err = parse_wishes(local ? local : "", &w);
	if (err)
		return err;
	if (getifaddrs(&list))
		return -errno;
	if (w.any)
		err = grant(list, &w, card);
	else if (default_address(list, &w, card))
		err = find_address(list, NULL, &w, card);
	freeifaddrs(list);
	return err;
}

/*
 * The further own addresses that RAR_RAIL asks for, one for each of its items, of the family of
 * @self. Sets up to RAR_MAX_RAILS of @rails. Return: their number, or a negative errno.
 */
int rar_local_rails(const struct card *self, struct card *rails)
{
	const char *text = getenv("RAR_RAIL");
	struct wishes w = {}, one = { .n = 1 };
	struct ifaddrs *list;
	int err;

	err = parse_wishes(text ? text : "", &w);
	if (err || !w.n)
		return err;
	if (w.n > RAR_MAX_RAILS)
		return -E2BIG;
	if (getifaddrs(&list))
		return -errno;
	for (int k = 0; k < w.n && !err; k++) {
		one.wish[0] = w.wish[k];
		memset(&rails[k], 0, sizeof(rails[k]));
		err = one.wish[0].not ? -EINVAL : grant(list, &one, &rails[k]);
		if (!err && rails[k].af != self->af)
			err = -EAFNOSUPPORT;
	}
	freeifaddrs(list);
	return err ? err : w.n;
}

/* -- options --------------------------------------------------------------- */

/* Copy the options that the caller knows; -EINVAL if it knows more than this library. */
int rar_opts_read(const struct rar_opts *opts, struct rar_opts *o)
{
	static const uint16_t zero[3];

	memset(o, 0, sizeof(*o));
	if (!opts || !opts->size)
		return 0;
	if (opts->size > sizeof(*o)) {
		rar_debug(NULL, "options of %u bytes: this librar knows %zu", opts->size,
			  sizeof(*o));
		return -EINVAL;
	}
	memcpy(o, opts, opts->size);
	if (o->flags & ~(RAR_O_BY_HOSTS | RAR_O_STUB | RAR_O_KEY) ||
	    memcmp(o->__pad, zero, sizeof(zero))) {
		rar_debug(NULL, "options with an unknown flag (%#x) or padding that is not 0",
			  o->flags);
		return -EINVAL;
	}
	return 0;
}

/* -- cards ----------------------------------------------------------------- */

static const char *const levels[RAR_SECURITY_NR] = {
	[RAR_SECURITY_OFF] = "off", [RAR_SECURITY_AUTH] = "auth",
	[RAR_SECURITY_ENCRYPT] = "encrypt",
};

/* Those that suit any network. */
static const char *const schedules[RAR_SCHEDULE_NR] = {
	[RAR_BY_RANKS] = "by-ranks", [RAR_BY_HOSTS] = "by-hosts", [RAR_AUTO] = "auto",
	[RAR_DOUBLING] = "doubling",
};

/* Which of @words the environment asks for; CARD_UNSET: nothing; or -EINVAL. */
static int asked(const char *name, const char *const *words, int n)
{
	const char *text = getenv(name);

	if (!text || !*text)
		return CARD_UNSET;
	for (int i = 0; i < n; i++)
		if (words[i] && !strcmp(text, words[i]))
			return i;
	rar_debug(NULL, "%s=%s: not a value that it may have, see librar(3)", name, text);
	return -EINVAL;
}

int rar_security_asked(void)
{
	return asked("RAR_SECURITY", levels, RAR_SECURITY_NR);
}

int rar_schedule_asked(void)
{
	return asked("RAR_SCHEDULE", schedules, RAR_SCHEDULE_NR);
}

/* A card from anywhere may have any number. */
static const char *name(const char *const *words, int n, int i)
{
	return i >= 0 && i < n && words[i] ? words[i] : "unknown";
}

const char *rar_security_name(int level)
{
	return name(levels, RAR_SECURITY_NR, level);
}

const char *rar_schedule_name(int schedule)
{
	return name(schedules, RAR_SCHEDULE_NR, schedule);
}

static void make_key(struct card *card)
{
	uint64_t key[] = { rar_random(), rar_random(), rar_random(), rar_random() };

	_Static_assert(sizeof(key) == sizeof(card->key), "the key of a card");
	memcpy(card->key, key, sizeof(card->key));
	explicit_bzero(key, sizeof(key));
}

int rar_card_make(const struct rar_opts *opts, struct rar_card *out)
{
	struct card card = { .magic = CARD_MAGIC, .version = CARD_VERSION };
	char text[INET6_ADDRSTRLEN] = "";
	struct rar_opts o;
	int err, security, schedule;

	err = rar_opts_read(opts, &o);
	if (err)
		return err;
	err = host_id(&card.host);
	if (err)
		return err;
	card.group = o.group ? o.group : rar_random();
	card.port = htons(o.port);
	security = rar_security_asked();
	schedule = rar_schedule_asked();
	if (security < 0 || schedule < 0)
		return -EINVAL;
	card.security = security;
	card.schedule = schedule;
	card.keyed = !!(o.flags & RAR_O_KEY);
	err = rar_local_address(o.local, &card);
	if (err) {
		rar_debug(NULL, "no own address for \"%s\"",
			  o.local ? o.local : "the default");
		return err;
	}
	inet_ntop(card.af, card.addr, text, sizeof(text));
	rar_debug(NULL, "own address %s, host %016llx", text, (unsigned long long)card.host);
	if (card.keyed || security != RAR_SECURITY_OFF)
		make_key(&card);
	memcpy(out, &card, sizeof(card));
	explicit_bzero(&card, sizeof(card));
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct card *x = *(const struct card *const *)a;
	const struct card *y = *(const struct card *const *)b;
	int order = memcmp(x->addr, y->addr, sizeof(x->addr));

	return order ? order : (x->host > y->host) - (x->host < y->host);
}

/*
 * -EADDRNOTAVAIL if ranks of two hosts have one address: at least one of them took an address,
 * such as that of docker0, by which others cannot reach it.
 */
int rar_cards_check(const struct card *cards, uint32_t size)
{
	const struct card **sorted = calloc(size, sizeof(*sorted));
	char text[INET6_ADDRSTRLEN] = "";
	int err = sorted ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < size && !err; i++)
		sorted[i] = &cards[i];
	if (!err)
		qsort(sorted, size, sizeof(*sorted), by_address);
	for (uint32_t i = 1; i < size && !err; i++) {
		const struct card *a = sorted[i - 1], *b = sorted[i];

		if (a->host == b->host || memcmp(a->addr, b->addr, sizeof(a->addr)) ||
		    a->scope || b->scope)
			continue;
		inet_ntop(a->af, a->addr, text, sizeof(text));
		rar_debug(NULL, "ranks %td and %td are on two hosts with one address, %s",
			  a - cards, b - cards, text);
		err = -EADDRNOTAVAIL;
	}
	free(sorted);
	return err;
}

/* Copy out @size cards. -EPROTO: not a card, or another version or byte order. */
int rar_cards_read(const struct rar_card *cards, uint32_t size, struct card *out)
{
	for (uint32_t i = 0; i < size; i++) {
		memcpy(&out[i], &cards[i], sizeof(*out));
		if (out[i].magic != CARD_MAGIC || out[i].version != CARD_VERSION) {
			rar_debug(NULL, "the card of rank %u is %s", i,
				  out[i].magic == __builtin_bswap32(CARD_MAGIC) ?
				  "from a host with another byte order" :
				  out[i].magic == CARD_MAGIC ? "from another version of librar" :
				  "no card");
			return -EPROTO;
		}
		if (out[i].af != out[0].af) {
			rar_debug(NULL, "rank %u has an IPv%c address, rank 0 an IPv%c address", i,
				  out[i].af == AF_INET ? '4' : '6', out[0].af == AF_INET ? '4' : '6');
			return -EAFNOSUPPORT;
		}
	}
	return 0;
}
