// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Cards: the address by which other ranks reach this one, and what rank 0 decides for all.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
static uint64_t host_id(void)
{
	uint64_t hash = HASH_START;
	char boot[64] = "";
	struct stat st;
	FILE *f;

	f = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (f) {
		if (fgets(boot, sizeof(boot), f))
			hash = rar_hash(hash, boot, strlen(boot));
		fclose(f);
	}
	if (!stat("/proc/self/ns/net", &st))
		hash = rar_hash(hash, &st.st_ino, sizeof(st.st_ino));
	return hash;
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
	return 0;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	uint8_t last = 0xff00u >> bits % 8;

	return !memcmp(a, b, bits / 8) &&
	       (!(bits % 8) || !((a[bits / 8] ^ b[bits / 8]) & last));
}

/* Where to look for an address: at a device, or in a network of @bits of @net. */
struct wish {
	const char *device;
	struct card net;
	unsigned int bits;
	bool loopback;
};

static bool suits(const struct ifaddrs *i, const struct wish *wish)
{
	struct card card;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) ||
	    (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
		return false;
	if (wish->device)
		return !strcmp(i->ifa_name, wish->device);
	if (wish->net.af) {
		set_address(&card, i->ifa_addr);
		return card.af == wish->net.af &&
		       same_bits(card.addr, wish->net.addr, wish->bits);
	}
	return !(i->ifa_flags & IFF_LOOPBACK) == !wish->loopback;
}

/* How good an address is: IPv4 before IPv6, link-local last. */
static int rank_address(const struct sockaddr *sa)
{
	const struct sockaddr_in6 *v6 = (const void *)sa;

	if (sa->sa_family == AF_INET)
		return 3;
	return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? 1 : 2;
}

static int find_address(const struct wish *wish, struct card *card)
{
	struct ifaddrs *list, *i;
	int best = 0;

	if (getifaddrs(&list))
		return -errno;
	for (i = list; i; i = i->ifa_next)
		if (suits(i, wish) && rank_address(i->ifa_addr) > best) {
			best = rank_address(i->ifa_addr);
			set_address(card, i->ifa_addr);
		}
	freeifaddrs(list);
	return best ? 0 : -EADDRNOTAVAIL;
}

/* The address by which packets leave for the rest of the world; none is sent. */
static int default_address(struct card *card)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_storage self;
	socklen_t len = sizeof(self);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);	/* for documentation */
	if (fd < 0)
		return -errno;
	if (connect(fd, (void *)&to, sizeof(to)) || getsockname(fd, (void *)&self, &len))
		err = -errno;
	close(fd);
	if (!err)
		set_address(card, (void *)&self);
	return err;
}

/* ADDRESS/BITS */
static int parse_network(const char *text, struct wish *wish)
{
	const char *slash = strchr(text, '/');
	char net[INET6_ADDRSTRLEN], *end;

	if ((size_t)(slash - text) >= sizeof(net))
		return -EINVAL;
	memcpy(net, text, slash - text);
	net[slash - text] = '\0';
	wish->bits = strtoul(slash + 1, &end, 10);
	if (parse_address(net, &wish->net) || *end || end == slash + 1)
		return -EINVAL;
	return wish->bits <= (wish->net.af == AF_INET ? 32u : 128u) ? 0 : -EINVAL;
}

/* Set the address of a card: as asked for, else a likely one. */
int rar_local_address(const char *local, struct card *card)
{
	struct wish wish = {};

	if (!local || !*local)
		local = getenv("RAR_LOCAL");
	if (!local || !*local) {
		if (!default_address(card) || !find_address(&wish, card))
			return 0;
		wish.loopback = true;
	} else if (strchr(local, '/')) {
		if (parse_network(local, &wish))
			return -EINVAL;
	} else {
		if (!parse_address(local, card))
			return 0;
		wish.device = local;
	}
	return find_address(&wish, card);
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

int rar_card_make(const struct rar_opts *opts, struct rar_card *out)
{
	struct card card = { .magic = CARD_MAGIC, .version = CARD_VERSION };
	char text[INET6_ADDRSTRLEN] = "";
	struct rar_opts o;
	int err;

	err = rar_opts_read(opts, &o);
	if (err)
		return err;
	card.host = host_id();
	card.group = o.group ? o.group : rar_random();
	card.port = htons(o.port);
	if (o.flags & RAR_O_KEY) {
		uint64_t key[2] = { rar_random(), rar_random() };

		memcpy(card.key, key, sizeof(card.key));
	}
	err = rar_local_address(o.local, &card);
	if (err) {
		rar_debug(NULL, "no own address for \"%s\"",
			  o.local ? o.local : "the default");
		return err;
	}
	inet_ntop(card.af, card.addr, text, sizeof(text));
	rar_debug(NULL, "own address %s, host %016llx", text, (unsigned long long)card.host);
	memcpy(out, &card, sizeof(card));
	return 0;
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
