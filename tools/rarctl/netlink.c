// SPDX-License-Identifier: GPL-2.0
/* The kernel's side: requests, dumps, events. */
#include "rarctl.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUF		(64 * 1024)	/* bytes; the kernel sends at most 32 KiB at once */
#define TRIES		3		/* of a dump during which members come and go */
#define NOTIFY_GROUP	"notify"	/* of nlctrl: families that come and go */

struct conn {
	struct mnl_socket *nl;
	unsigned int portid;
	uint32_t seq;
	uint16_t family;
	uint32_t events;	/* multicast group */
	char buf[BUF];
};

/* -- attributes ----------------------------------------------------------- */

struct table {
	const struct nlattr **tb;
	int max;
};

static int keep(const struct nlattr *attr, void *arg)
{
	struct table *t = arg;

	if (mnl_attr_get_type(attr) <= t->max)
		t->tb[mnl_attr_get_type(attr)] = attr;
	return MNL_CB_OK;
}

/* Set tb[0 .. max] to the attributes of a message, NULL where there is none. */
void parse(const struct nlmsghdr *nlh, const struct nlattr **tb, int max)
{
	struct table t = { tb, max };

	memset(tb, 0, (max + 1) * sizeof(*tb));
	mnl_attr_parse(nlh, sizeof(struct genlmsghdr), keep, &t);
}

void parse_nested(const struct nlattr *nest, const struct nlattr **tb, int max)
{
	struct table t = { tb, max };

	memset(tb, 0, (max + 1) * sizeof(*tb));
	if (nest)
		mnl_attr_parse_nested(nest, keep, &t);
}

/* Set links[0 .. n - 1] to the links of a member, by their direction. */
void parse_links(const struct nlmsghdr *nlh, const struct nlattr **links, uint32_t n)
{
	const struct nlattr *tb[RAR_A_LINK_MAX + 1];
	const struct nlattr *attr;
	uint32_t direction;

	memset(links, 0, n * sizeof(*links));
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		if (mnl_attr_get_type(attr) != RAR_A_MEMBER_LINK)
			continue;
		parse_nested(attr, tb, RAR_A_LINK_MAX);
		direction = get_u32(tb[RAR_A_LINK_DIRECTION]);
		if (direction < n)
			links[direction] = attr;
	}
}

/* Set boxes[0 .. n - 1] to the boxes of a member, in their order. */
void parse_boxes(const struct nlmsghdr *nlh, const struct nlattr **boxes, uint32_t n)
{
	const struct nlattr *attr;
	uint32_t i = 0;

	memset(boxes, 0, n * sizeof(*boxes));
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(attr) == RAR_A_MEMBER_BOX && i < n)
			boxes[i++] = attr;
}

/* The value, 0 if the attribute is absent. */
uint32_t get_u32(const struct nlattr *attr)
{
	return attr && !mnl_attr_validate(attr, MNL_TYPE_U32) ? mnl_attr_get_u32(attr) : 0;
}

uint64_t get_u64(const struct nlattr *attr)
{
	return attr && !mnl_attr_validate(attr, MNL_TYPE_U64) ? mnl_attr_get_u64(attr) : 0;
}

/* -- requests ------------------------------------------------------------- */

static struct nlmsghdr *request(struct conn *c, uint16_t type, int flags, int cmd)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(c->buf);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = ++c->seq;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = RAR_GENL_VERSION;
	return nlh;
}

static void put_filter(struct nlmsghdr *nlh, const struct filter *f)
{
	if (f && f->by_group)
		mnl_attr_put_u64(nlh, RAR_A_MEMBER_GROUP, f->group);
	if (f && f->by_rank)
		mnl_attr_put_u32(nlh, RAR_A_MEMBER_RANK, f->rank);
}

/* The kernel's own words for an error, which follow the request in its answer; or NULL. */
static const char *extack(const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);
	size_t skip = sizeof(*err);
	const struct nlattr *attr;

	if (!(nlh->nlmsg_flags & NLM_F_ACK_TLVS))
		return NULL;
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED))
		skip += MNL_ALIGN(err->msg.nlmsg_len) - sizeof(err->msg);
	mnl_attr_for_each(attr, nlh, skip)
		if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG &&
		    !mnl_attr_validate(attr, MNL_TYPE_NUL_STRING))
			return mnl_attr_get_str(attr);
	return NULL;
}

struct answer {
	msg_fn fn;
	void *arg;
	const char *why;	/* the kernel's words */
	bool torn;		/* members came or went during the dump */
};

static int take(const struct nlmsghdr *nlh, void *arg)
{
	struct answer *a = arg;

	if (a->fn)
		a->fn(nlh, a->arg);
	return MNL_CB_OK;
}

static int take_error(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);
	struct answer *a = arg;

	if (!err->error)
		return MNL_CB_STOP;
	a->why = extack(nlh);
	errno = -err->error;
	return MNL_CB_ERROR;
}

static int take_done(const struct nlmsghdr *nlh, void *arg)
{
	int err = 0;

	(void)arg;
	if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(err))
		memcpy(&err, mnl_nlmsg_get_payload(nlh), sizeof(err));
	errno = -err;
	return err ? MNL_CB_ERROR : MNL_CB_STOP;
}

static mnl_cb_t controls[NLMSG_MIN_TYPE] = {
	[NLMSG_ERROR] = take_error,
	[NLMSG_DONE] = take_done,
};

/* Note whether the dump was interrupted. libmnl would end it; we read it to its end. */
static void note_torn(char *buf, int n, struct answer *a)
{
	struct nlmsghdr *nlh = (struct nlmsghdr *)buf;

	for (; mnl_nlmsg_ok(nlh, n); nlh = mnl_nlmsg_next(nlh, &n)) {
		a->torn |= nlh->nlmsg_flags & NLM_F_DUMP_INTR;
		nlh->nlmsg_flags &= ~NLM_F_DUMP_INTR;
	}
}

/* Send a request and take its answer. Return: 0, or -1 and errno. */
static int transact(struct conn *c, struct nlmsghdr *nlh, struct answer *a)
{
	ssize_t n;
	int ret;

	if (mnl_socket_sendto(c->nl, nlh, nlh->nlmsg_len) < 0)
		return -1;
	do {
		n = mnl_socket_recvfrom(c->nl, c->buf, sizeof(c->buf));
		if (n < 0)
			return -1;
		note_torn(c->buf, n, a);
		ret = mnl_cb_run2(c->buf, n, c->seq, c->portid, take, a, controls,
				  MNL_ARRAY_SIZE(controls));
	} while (ret > 0);
	return ret;
}

static void not_permitted(void)
{
	if (errno == EPERM)
		die(EXIT_FAILED, "no permission: this needs CAP_NET_ADMIN in this network namespace");
}

static void fail(const struct answer *a)
{
	not_permitted();
	die(EXIT_FAILED, "%s", a->why ? a->why : strerror(errno));
}

/* -- the family ----------------------------------------------------------- */

struct lookup {
	uint16_t family;
	uint32_t group;
	const char *name;	/* of the multicast group that is looked for */
};

static void take_group(const struct nlattr *group, struct lookup *l)
{
	const struct nlattr *tb[CTRL_ATTR_MCAST_GRP_MAX + 1];

	parse_nested(group, tb, CTRL_ATTR_MCAST_GRP_MAX);
	if (tb[CTRL_ATTR_MCAST_GRP_NAME] &&
	    !strcmp(mnl_attr_get_str(tb[CTRL_ATTR_MCAST_GRP_NAME]), l->name))
		l->group = get_u32(tb[CTRL_ATTR_MCAST_GRP_ID]);
}

static void take_family(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *tb[CTRL_ATTR_MAX + 1], *group;
	struct lookup *l = arg;

	parse(nlh, tb, CTRL_ATTR_MAX);
	if (tb[CTRL_ATTR_FAMILY_ID])
		l->family = mnl_attr_get_u16(tb[CTRL_ATTR_FAMILY_ID]);
	if (tb[CTRL_ATTR_MCAST_GROUPS])
		mnl_attr_for_each_nested(group, tb[CTRL_ATTR_MCAST_GROUPS])
			take_group(group, l);
}

/* Look a family and one of its multicast groups up. Return: 0, or -1 and errno. */
static int look_up(struct conn *c, const char *family, struct lookup *l)
{
	struct answer a = { .fn = take_family, .arg = l };
	struct nlmsghdr *nlh = request(c, GENL_ID_CTRL, NLM_F_ACK, CTRL_CMD_GETFAMILY);

	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, family);
	return transact(c, nlh, &a);
}

/* Open a socket. Ends the program if the module is not there. */
struct conn *conn_open(void)
{
	struct lookup l = { .name = RAR_MCGRP_EVENTS };
	struct conn *c = calloc(1, sizeof(*c));
	int one = 1;

	if (!c)
		die(EXIT_FAILED, "out of memory");
	c->nl = mnl_socket_open(NETLINK_GENERIC);
	if (!c->nl || mnl_socket_bind(c->nl, 0, MNL_SOCKET_AUTOPID) < 0)
		die(EXIT_FAILED, "netlink: %s", strerror(errno));
	c->portid = mnl_socket_get_portid(c->nl);
	c->seq = time(NULL);
	mnl_socket_setsockopt(c->nl, NETLINK_EXT_ACK, &one, sizeof(one));
	if (look_up(c, RAR_GENL_NAME, &l) < 0) {
		if (errno == ENOENT)
			die(EXIT_FAILED, "the module rar is not loaded, or too old (modprobe rar)");
		die(EXIT_FAILED, "netlink: %s", strerror(errno));
	}
	c->family = l.family;
	c->events = l.group;
	return c;
}

void conn_close(struct conn *c)
{
	mnl_socket_close(c->nl);
	free(c);
}

/* -- what commands use ---------------------------------------------------- */

/* Messages of a dump, kept until it is known to be whole. */
struct kept {
	char *at;
	size_t len;
};

static void keep_msg(const struct nlmsghdr *nlh, void *arg)
{
	size_t len = MNL_ALIGN(nlh->nlmsg_len);
	struct kept *k = arg;
	char *more = realloc(k->at, k->len + len);

	if (!more)
		die(EXIT_FAILED, "out of memory");
	memcpy(more + k->len, nlh, nlh->nlmsg_len);
	k->at = more;
	k->len += len;
}

/*
 * Call @fn for each message of a dump. If members come or go meanwhile the dump is repeated,
 * and then taken as it is. Return: the number of messages.
 */
size_t conn_dump(struct conn *c, int cmd, const struct filter *f, msg_fn fn, void *arg)
{
	struct kept k = { 0 };
	struct answer a;
	struct nlmsghdr *nlh;
	size_t at, n = 0;
	int tries = 0;

	do {
		k.len = 0;
		a = (struct answer) { .fn = keep_msg, .arg = &k };
		nlh = request(c, c->family, NLM_F_DUMP, cmd);
		put_filter(nlh, f);
		if (transact(c, nlh, &a) < 0)
			fail(&a);
	} while (a.torn && ++tries < TRIES);
	if (a.torn)
		fprintf(stderr, "rarctl: members came or went while they were listed\n");
	for (at = 0; at < k.len; at += MNL_ALIGN(nlh->nlmsg_len)) {
		nlh = (struct nlmsghdr *)(k.at + at);
		fn(nlh, arg);
		n++;
	}
	free(k.at);
	return n;
}

/* Send a request and call @fn, if there is one, with the answer. */
void conn_do(struct conn *c, int cmd, const struct filter *f, msg_fn fn, void *arg)
{
	struct answer a = { .fn = fn, .arg = arg };
	struct nlmsghdr *nlh = request(c, c->family, NLM_F_ACK, cmd);

	put_filter(nlh, f);
	if (transact(c, nlh, &a) < 0)
		fail(&a);
}

/* Set the key of the box, or remove it if @len is 0. No copy of it stays. */
void conn_box_key(struct conn *c, unsigned char *key, size_t len)
{
	struct nlmsghdr *nlh = request(c, c->family, NLM_F_ACK, RAR_CMD_BOX_KEY);
	struct answer a = { 0 };
	int ret;

	if (len)
		mnl_attr_put(nlh, RAR_A_BOX_KEY_BYTES, len, key);
	ret = transact(c, nlh, &a);
	explicit_bzero(key, len);
	if (ret < 0)
		fail(&a);
	explicit_bzero(c->buf, sizeof(c->buf));
}

/* Join the group of events, and hear when the module is unloaded. */
void conn_listen(struct conn *c)
{
	struct lookup l = { .name = NOTIFY_GROUP };

	if (look_up(c, "nlctrl", &l) < 0 ||
	    mnl_socket_setsockopt(c->nl, NETLINK_ADD_MEMBERSHIP, &l.group, sizeof(l.group)) < 0 ||
	    mnl_socket_setsockopt(c->nl, NETLINK_ADD_MEMBERSHIP, &c->events,
				  sizeof(c->events)) < 0) {
		not_permitted();
		die(EXIT_FAILED, "cannot listen: %s", strerror(errno));
	}
}

static bool is_our_end(const struct conn *c, const struct nlmsghdr *nlh)
{
	const struct genlmsghdr *genl = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[CTRL_ATTR_MAX + 1];

	if (nlh->nlmsg_type != GENL_ID_CTRL || genl->cmd != CTRL_CMD_DELFAMILY)
		return false;
	parse(nlh, tb, CTRL_ATTR_MAX);
	return tb[CTRL_ATTR_FAMILY_ID] &&
	       mnl_attr_get_u16(tb[CTRL_ATTR_FAMILY_ID]) == c->family;
}

/* Wait for events and call @fn for each. Return: false if some were lost. */
bool conn_next_event(struct conn *c, msg_fn fn, void *arg)
{
	ssize_t n = mnl_socket_recvfrom(c->nl, c->buf, sizeof(c->buf));
	struct nlmsghdr *nlh = (struct nlmsghdr *)c->buf;
	int left = n;

	if (n < 0) {
		if (errno == ENOBUFS)
			return false;
		die(EXIT_FAILED, "netlink: %s", strerror(errno));
	}
	for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
		if (is_our_end(c, nlh))
			die(EXIT_FAILED, "the module rar was unloaded");
		if (nlh->nlmsg_type == c->family)
			fn(nlh, arg);
	}
	return true;
}
