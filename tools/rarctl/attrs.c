// SPDX-License-Identifier: GPL-2.0
/* Attributes as JSON: names and types of all that the header has. */
#include "rarctl.h"

#include <libmnl/libmnl.h>
#include <net/if.h>
#include <string.h>

/* list: attributes */
const struct attr error_attrs[RAR_A_ERROR_MAX + 1] = {
	[RAR_A_ERROR_ERRNO] = { "errno", ATTR_U32 },
	[RAR_A_ERROR_REASON] = { "reason", ATTR_ENUM, &reasons },
	[RAR_A_ERROR_RANK] = { "rank", ATTR_U32 },
	[RAR_A_ERROR_OTHER] = { "other", ATTR_U32 },
	[RAR_A_ERROR_OP] = { "op", ATTR_U64 },
	[RAR_A_ERROR_SILENT_MS] = { "silent_ms", ATTR_U32 },
	[RAR_A_ERROR_ADDR] = { "addr", ATTR_ADDR },
	[RAR_A_ERROR_USER_RANK] = { "user_rank", ATTR_U32 },
	[RAR_A_ERROR_VALUE] = { "value", ATTR_U64 },
	[RAR_A_ERROR_OTHER_VALUE] = { "other_value", ATTR_U64 },
};

const struct attr link_attrs[RAR_A_LINK_MAX + 1] = {
	[RAR_A_LINK_DIRECTION] = { "direction", ATTR_ENUM, &directions },
	[RAR_A_LINK_RANK] = { "rank", ATTR_U32 },
	[RAR_A_LINK_LOCAL] = { "local", ATTR_ADDR },
	[RAR_A_LINK_REMOTE] = { "remote", ATTR_ADDR },
	[RAR_A_LINK_IN_MEMORY] = { "in_memory", ATTR_FLAG },
	[RAR_A_LINK_PACKETS] = { "packets", ATTR_U64 },
	[RAR_A_LINK_BYTES] = { "bytes", ATTR_U64 },
	[RAR_A_LINK_WAIT_US] = { "wait_us", ATTR_U64 },
	[RAR_A_LINK_SILENT_MS] = { "silent_ms", ATTR_U32 },
	[RAR_A_LINK_RETRANSMITS] = { "retransmits", ATTR_U64 },
	[RAR_A_LINK_FORWARDED] = { "forwarded", ATTR_U64 },
	[RAR_A_LINK_INFLIGHT] = { "inflight", ATTR_U32 },
	[RAR_A_LINK_CWND] = { "cwnd", ATTR_U32 },
	[RAR_A_LINK_SRTT_US] = { "srtt_us", ATTR_U32 },
	[RAR_A_LINK_RTO_US] = { "rto_us", ATTR_U32 },
	[RAR_A_LINK_MTU] = { "mtu", ATTR_U32 },
	[RAR_A_LINK_USER_RANK] = { "user_rank", ATTR_U32 },
	[RAR_A_LINK_LANES_OUT] = { "lanes_out", ATTR_U32 },
	[RAR_A_LINK_RAILS] = { "rails", ATTR_U32 },
};

const struct attr box_attrs[RAR_A_BOX_MAX + 1] = {
	[RAR_A_BOX_ADDR] = { "address", ATTR_ADDR },
	[RAR_A_BOX_STATE] = { "state", ATTR_ENUM, &box_states },
	[RAR_A_BOX_SUMS] = { "sums", ATTR_U64 },
	[RAR_A_BOX_RING_SUMS] = { "ring_sums", ATTR_U64 },
	[RAR_A_BOX_REASON] = { "reason", ATTR_ENUM, &reasons },
};

const struct attr member_attrs[RAR_A_MEMBER_MAX + 1] = {
	[RAR_A_MEMBER_GROUP] = { "group", ATTR_U64 },
	[RAR_A_MEMBER_RANK] = { "rank", ATTR_U32 },
	[RAR_A_MEMBER_SIZE] = { "size", ATTR_U32 },
	[RAR_A_MEMBER_STATE] = { "state", ATTR_ENUM, &states },
	[RAR_A_MEMBER_HOLDER] = { "holder", ATTR_ENUM, &holders },
	[RAR_A_MEMBER_UID] = { "uid", ATTR_U32 },
	[RAR_A_MEMBER_SCHEDULE] = { "schedule", ATTR_ENUM, &schedules },
	[RAR_A_MEMBER_RX_PATH] = { "rx_path", ATTR_ENUM, &rx_paths },
	[RAR_A_MEMBER_PAYLOAD] = { "payload", ATTR_U32 },
	[RAR_A_MEMBER_OPS_POSTED] = { "ops_posted", ATTR_U64 },
	[RAR_A_MEMBER_OPS_COMPLETE] = { "ops_complete", ATTR_U64 },
	[RAR_A_MEMBER_OPS_RELEASED] = { "ops_released", ATTR_U64 },
	[RAR_A_MEMBER_EARLY_BYTES] = { "early_bytes", ATTR_U64 },
	[RAR_A_MEMBER_SLOW_RANK] = { "slow_rank", ATTR_U32 },
	[RAR_A_MEMBER_SLOW_MS] = { "slow_ms", ATTR_U32 },
	[RAR_A_MEMBER_ERROR] = { "error", ATTR_ERROR },
	[RAR_A_MEMBER_USER_RANK] = { "user_rank", ATTR_U32 },
	[RAR_A_MEMBER_SLOW_USER_RANK] = { "slow_user_rank", ATTR_U32 },
	[RAR_A_MEMBER_SECURITY] = { "security", ATTR_ENUM, &securities },
};

const struct attr op_attrs[RAR_A_OP_MAX + 1] = {
	[RAR_A_OP_GROUP] = { "group", ATTR_U64 },
	[RAR_A_OP_RANK] = { "rank", ATTR_U32 },
	[RAR_A_OP_SEQ] = { "op", ATTR_U64 },
	[RAR_A_OP_COLLECTIVE] = { "collective", ATTR_ENUM, &collectives },
	[RAR_A_OP_DTYPE] = { "dtype", ATTR_ENUM, &dtypes },
	[RAR_A_OP_REDOP] = { "redop", ATTR_ENUM, &redops },
	[RAR_A_OP_FLAGS] = { "flags", ATTR_U32 },
	[RAR_A_OP_ROOT] = { "root", ATTR_U32 },
	[RAR_A_OP_COUNT] = { "count", ATTR_U64 },
	[RAR_A_OP_AGE_US] = { "age_us", ATTR_U64 },
	[RAR_A_OP_LEFT] = { "left", ATTR_U32 },
	[RAR_A_OP_OWED] = { "owed", ATTR_U32 },
	[RAR_A_OP_ACKED] = { "acked", ATTR_U32 },
};

const struct attr event_attrs[RAR_A_EVENT_MAX + 1] = {
	[RAR_A_EVENT_KIND] = { "event", ATTR_ENUM, &events },
	[RAR_A_EVENT_GROUP] = { "group", ATTR_U64 },
	[RAR_A_EVENT_RANK] = { "rank", ATTR_U32 },
	[RAR_A_EVENT_SIZE] = { "size", ATTR_U32 },
	[RAR_A_EVENT_ERROR] = { "error", ATTR_ERROR },
	[RAR_A_EVENT_USER_RANK] = { "user_rank", ATTR_U32 },
};
/* end of list */

static void json_addr(const char *key, const struct nlattr *nest)
{
	char ip[INET6_ADDRSTRLEN], device[IF_NAMESIZE + 1];
	const struct nlattr *tb[RAR_A_ADDR_MAX + 1];

	parse_nested(nest, tb, RAR_A_ADDR_MAX);
	if (!ip_text(tb, ip))
		return;
	json_open(key, '{');
	json_str("ip", ip);
	json_u64("port", port_of(tb));
	if (*device_text(tb, device))
		json_str("dev", device + 1);
	json_close('}');
}

static void json_error(const char *key, const struct nlattr *nest)
{
	const struct nlattr *tb[RAR_A_ERROR_MAX + 1];
	const char *name;

	parse_nested(nest, tb, RAR_A_ERROR_MAX);
	json_open(key, '{');
	name = strerrorname_np(get_u32(tb[RAR_A_ERROR_ERRNO]));
	if (name)
		json_str("error", name);
	json_attrs(error_attrs, RAR_A_ERROR_MAX, tb);
	json_close('}');
}

static void json_attr(const struct attr *a, const struct nlattr *attr)
{
	char word[WORD];

	switch (a->kind) {
	case ATTR_OTHER:
		break;
	case ATTR_U32:
		json_u64(a->key, get_u32(attr));
		break;
	case ATTR_U64:
		json_u64(a->key, get_u64(attr));
		break;
	case ATTR_FLAG:
		json_bool(a->key, attr);
		break;
	case ATTR_ENUM:
		json_str(a->key, name_of(a->names, get_u32(attr), word));
		break;
	case ATTR_ADDR:
		json_addr(a->key, attr);
		break;
	case ATTR_ERROR:
		json_error(a->key, attr);
		break;
	}
}

/* The attributes that are there, and of flags also those that are not; others have no form here. */
void json_attrs(const struct attr *attrs, int max, const struct nlattr *const *tb)
{
	int i;

	for (i = 1; i <= max; i++)
		if (tb[i] || attrs[i].kind == ATTR_FLAG)
			json_attr(&attrs[i], tb[i]);
}
