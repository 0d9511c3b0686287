// SPDX-License-Identifier: GPL-2.0
/* Words for the kernel's numbers: enumerations, addresses, errors. */
#include "rarctl.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#define NAMES(list, ...)						\
	static const char *const list##_of[] = { __VA_ARGS__ };		\
	const struct names list = { list##_of, sizeof(list##_of) / sizeof(list##_of[0]) }

/* list: names */
NAMES(states, "unbound", "bound", "joining", "ready", "run", "leaving", "failed");
NAMES(reasons, "none", "closed", "died", "silent", "left", "reset", "aborted", "timeout",
	"join-timeout", "duplicate", "size", "version", "table", "collective", "dtype", "redop",
	"count", "root", "flags", "mtu", "nodev", "fault", "schedule", "key", "prev", "nomem",
	"byte-order", "stalled", "security");
NAMES(schedules, "by-ranks", "by-hosts", "auto", "direct", "doubling");
NAMES(securities, "off", "auth", "encrypt");
NAMES(rx_paths, "ingress", "udp", "xdp", "auto");
NAMES(collectives, NULL, "allreduce", "broadcast", "reduce", "reduce-scatter", "allgather",
	"barrier", "reduce-by-key");
NAMES(dtypes, NULL, "f32", "f64", "i32", "i64", "i8", "u8", "i16", "u16", "u32", "u64",
	"f16", "bf16");
NAMES(redops, NULL, "sum", "prod", "min", "max", "band", "bor", "bxor", "land", "lor",
	"lxor", "avg");
NAMES(box_states, "none", "away", "open");
NAMES(holders, "socket", "orphan", "tombstone");
NAMES(directions, "next", "prev");
NAMES(events, NULL, "joined", "failed", "join-failed", "ended", "box-opened", "box-lost");
/* end of list */

/* The name of a value; the number itself if a newer module has more values. */
const char *name_of(const struct names *names, uint32_t value, char word[WORD])
{
	if (value < names->n && names->name[value])
		return names->name[value];
	if (!value)
		return "-";
	snprintf(word, WORD, "%u", value);
	return word;
}

static bool has_room(const struct nlattr *attr, size_t size)
{
	return attr && mnl_attr_get_payload_len(attr) >= size;
}

/* The IP address alone, NULL if there is none. */
const char *ip_text(const struct nlattr *const *tb, char ip[INET6_ADDRSTRLEN])
{
	if (has_room(tb[RAR_A_ADDR_IP4], sizeof(struct in_addr)))
		return inet_ntop(AF_INET, mnl_attr_get_payload(tb[RAR_A_ADDR_IP4]), ip,
				 INET6_ADDRSTRLEN);
	if (has_room(tb[RAR_A_ADDR_IP6], sizeof(struct in6_addr)))
		return inet_ntop(AF_INET6, mnl_attr_get_payload(tb[RAR_A_ADDR_IP6]), ip,
				 INET6_ADDRSTRLEN);
	return NULL;
}

uint16_t port_of(const struct nlattr *const *tb)
{
	const struct nlattr *port = tb[RAR_A_ADDR_PORT];

	return has_room(port, sizeof(uint16_t)) ? ntohs(mnl_attr_get_u16(port)) : 0;
}

/* "%" and the device of a link-local address, or nothing. */
const char *device_text(const struct nlattr *const *tb, char text[IF_NAMESIZE + 1])
{
	uint32_t ifindex = get_u32(tb[RAR_A_ADDR_IFINDEX]);
	char name[IF_NAMESIZE];

	text[0] = '\0';
	if (ifindex && if_indextoname(ifindex, name))
		snprintf(text, IF_NAMESIZE + 1, "%%%s", name);
	return text;
}

/* An address with its port, "-" if there is none. */
const char *addr_text(const struct nlattr *nest, char text[ADDR])
{
	char ip[INET6_ADDRSTRLEN], device[IF_NAMESIZE + 1];
	const struct nlattr *tb[RAR_A_ADDR_MAX + 1];

	parse_nested(nest, tb, RAR_A_ADDR_MAX);
	if (!ip_text(tb, ip))
		return "-";
	snprintf(text, ADDR, tb[RAR_A_ADDR_IP4] ? "%s%s:%u" : "[%s%s]:%u", ip,
		 device_text(tb, device), port_of(tb));
	return text;
}

/* A rank, with the number by which its program knows it where that is another one: "2(7)". */
const char *rank_text(const struct nlattr *rank, const struct nlattr *user, char text[RANK])
{
	if (user)
		snprintf(text, RANK, "%u(%u)", get_u32(rank), get_u32(user));
	else
		snprintf(text, RANK, "%u", get_u32(rank));
	return text;
}

/* Is the error about an operation, which may be number 0? */
static bool of_operation(uint32_t reason)
{
	return reason == RAR_R_LEFT || reason == RAR_R_TIMEOUT ||
	       (reason >= RAR_R_COLLECTIVE && reason <= RAR_R_FLAGS);
}

/* An error as words: "rank 2 died (ECONNRESET), op 7". "-" if there is none. */
const char *error_text(const struct nlattr *nest, char text[ERROR])
{
	const struct nlattr *tb[RAR_A_ERROR_MAX + 1];
	char rank[RANK] = "?", other[24] = "", op[32] = "", values[48] = "", word[WORD];
	const char *err;
	uint32_t reason;

	if (!nest)
		return "-";
	parse_nested(nest, tb, RAR_A_ERROR_MAX);
	if (tb[RAR_A_ERROR_RANK])
		rank_text(tb[RAR_A_ERROR_RANK], tb[RAR_A_ERROR_USER_RANK], rank);
	if (tb[RAR_A_ERROR_OTHER])
		snprintf(other, sizeof(other), " and %u", get_u32(tb[RAR_A_ERROR_OTHER]));
	err = strerrorname_np(get_u32(tb[RAR_A_ERROR_ERRNO]));
	reason = get_u32(tb[RAR_A_ERROR_REASON]);
	if (of_operation(reason) || get_u64(tb[RAR_A_ERROR_OP]))
		snprintf(op, sizeof(op), ", op %llu",
			 (unsigned long long)get_u64(tb[RAR_A_ERROR_OP]));
	if (tb[RAR_A_ERROR_VALUE])
		snprintf(values, sizeof(values), ": %llu and %llu",
			 (unsigned long long)get_u64(tb[RAR_A_ERROR_VALUE]),
			 (unsigned long long)get_u64(tb[RAR_A_ERROR_OTHER_VALUE]));
	snprintf(text, ERROR, "rank %s%s: %s (%s)%s%s", rank, other,
		 name_of(&reasons, reason, word), err ? err : "?", op, values);
	return text;
}
