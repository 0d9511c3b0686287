// SPDX-License-Identifier: GPL-2.0
/*
 * What send() asks for: the control message and the options become an operation's fingerprint,
 * lengths and places, if the group can do it.
 */
#include <linux/pagemap.h>
#include <net/sock.h>

#include "core/op.h"
#include "core/ring.h"
#include "group/choice.h"
#include "reduce/reduce.h"
#include "sock/args.h"
#include "sock/blocking.h"
#include "sock/codec.h"
#include "sock/records.h"
#include "sock/sock.h"

/* A blocking call copies a shorter tensor: that costs less than to pin it. */
#define PIN_MIN		SZ_32K

static int parse_op(const struct rar_op *req, struct rar_args *args)
{
	if (req->flags & ~RAR_OP_FLAGS || memchr_inv(req->__pad, 0, sizeof(req->__pad)))
		return -EINVAL;
	if (req->collective)
		args->fingerprint.collective = req->collective;
	if (req->dtype)
		args->fingerprint.dtype = req->dtype;
	if (req->redop)
		args->fingerprint.redop = req->redop;
	args->fingerprint.mode |= req->flags;
	args->root = req->root;
	args->key = req->key;
	args->bytes = req->bytes;
	args->cookie = req->cookie;
	args->dst = req->dst;
	if (req->prio)
		args->prio = req->prio;
	return 0;
}

/* Copy the control message RAR_OP, of @len bytes. Older programs know no field after @dst. */
static int copy_op(struct rar_op *req, const struct cmsghdr *cmsg, size_t len)
{
	const u8 *data = CMSG_DATA(cmsg);
	size_t known;

	if (len < offsetofend(struct rar_op, dst))
		return -EINVAL;
	memcpy(&req->size, data, sizeof(req->size));
	if (req->size < offsetofend(struct rar_op, dst) || req->size > len)
		return -EINVAL;
	known = min_t(size_t, req->size, sizeof(*req));
	memcpy(req, data, known);
	return memchr_inv(data + known, 0, req->size - known) ? -EINVAL : 0;
}

static int parse_cmsgs(struct msghdr *msg, struct rar_args *args)
{
	struct rar_op req = {};
	struct cmsghdr *cmsg;
	int err;

	for_each_cmsghdr(cmsg, msg) {
		if (!CMSG_OK(msg, cmsg))
			return -EINVAL;
		if (cmsg->cmsg_level != SOL_RAR)
			continue;
		if (req.size)	/* a second one */
			return -EINVAL;
		if (cmsg->cmsg_type != RAR_OP)
			return -EINVAL;
		err = copy_op(&req, cmsg, cmsg->cmsg_len - CMSG_ALIGN(sizeof(*cmsg)));
		if (err)
			return err;
	}
	return req.size ? parse_op(&req, args) : 0;
}

/* Overwrite fields that make no difference to a collective: ranks need not agree on them. */
static void drop_unused(struct rar_fingerprint *p)
{
	if (p->collective == RAR_BARRIER)
		p->dtype = RAR_U8;
	if (p->collective == RAR_BARRIER || p->collective == RAR_BROADCAST ||
	    p->collective == RAR_ALLGATHER)
		p->redop = RAR_SUM;
}

/* Check that this member and all others support the operation. */
static int check_kind(const struct rar_member *m, struct rar_fingerprint *p)
{
	if (p->dtype >= RAR_DTYPE_NR || p->redop >= RAR_REDOP_NR)
		return -EINVAL;
	drop_unused(p);
	if (p->collective >= RAR_COLLECTIVE_NR ||
	    !(m->join.caps.collectives & BIT(p->collective)) ||
	    p->mode & RAR_OP_FLAGS & ~m->join.caps.dtypes[0] ||
	    !(m->join.caps.dtypes[p->redop] & BIT(p->dtype)) ||
	    !rar_reduce_kind(p->dtype, p->redop))
		return -EOPNOTSUPP;
	return 0;
}

/* May the operation have its flags? */
static int check_flags(const struct rar_fingerprint *p, bool pinned)
{
	bool adds = p->collective == RAR_ALLREDUCE || p->collective == RAR_REDUCE ||
		    p->collective == RAR_REDUCE_SCATTER;

	if (!(p->mode & (RAR_OPF_WIDE | RAR_OPF_EXACT | RAR_OPF_QUANT)))
		return 0;
	if (!adds || pinned)
		return -EOPNOTSUPP;
	if (!rar_op_kind(p) || p->redop == RAR_MIN || p->redop == RAR_MAX)
		return -EINVAL;
	if (!(p->mode & (RAR_OPF_EXACT | RAR_OPF_QUANT)))
		return 0;
	if (hweight8(p->mode & RAR_OP_FLAGS) > 1)
		return -EINVAL;
	return p->collective == RAR_ALLREDUCE ? 0 : -EOPNOTSUPP;
}

static int check_root(const struct rar_member *m, struct rar_args *args)
{
	struct rar_fingerprint *p = &args->fingerprint;

	if (args->root >= (rar_ring_rooted(p->collective) ? m->size : 1))
		return -EINVAL;
	p->root = args->root;
	return 0;
}

/*
 * Exchange a short operation directly, or let it go by doubling or halving, if
 * this group does. With a flag other than RAR_OPF_IN_ORDER the ring adds; and
 * doubling is not in rank order.
 */
static void choose_way(const struct rar_member *m, struct rar_args *args)
{
	struct rar_fingerprint *p = &args->fingerprint;

	if (!(p->mode & ~RAR_OPF_IN_ORDER))
		p->mode |= rar_way_mode(rar_choice_way(m, p->collective,
						       p->mode, args->bytes));
}

/*
 * Set the parts that this rank sends and gets, and the memory needed. In place
 * it passes the whole tensor. Out of place, where ranks do not add, what it
 * sends belongs to the result and is copied there. Gathered, what it sends is
 * copied to the kernel's memory.
 */
static int find_spans(const struct rar_member *m, struct rar_args *args, bool pinned)
{
	const struct rar_fingerprint *p = &args->fingerprint;
	u32 esize = rar_dtype_size(p->dtype);
	struct rar_plan plan;
	int err;

	err = rar_ring_plan(&plan, &m->place, p->collective, p->mode, p->root);
	if (err)
		return err;
	if (args->bytes % ((u64)esize * plan.shares))
		return -EINVAL;
	args->got = rar_plan_got(&plan, args->bytes);
	args->given = rar_plan_given(&plan, args->bytes);
	args->apart = args->dst && (rar_plan_adds(&plan) || plan.gathered);
	if (!pinned || plan.gathered)
		args->room = rar_plan_room(&plan, args->bytes, m->payload);
	if (pinned && !args->dst)
		args->given = (struct rar_span) { .len = args->bytes };
	else if (pinned && plan.gathered)
		args->given = plan.scatters ?
			(struct rar_span) { .len = args->bytes } :
			rar_plan_share(&plan, args->bytes);
	return 0;
}

static int check_length(const struct rar_args *args, const struct msghdr *msg, size_t len,
			bool told)
{
	if (msg->msg_flags & MSG_MORE ? !told || len > args->given.len :
					len != args->given.len)
		return -EINVAL;
	if (args->fingerprint.collective == RAR_BARRIER && args->bytes)
		return -EINVAL;
	return args->bytes > RAR_MAX_BYTES ? -EMSGSIZE : 0;
}

/* Find how long the tensor is as it travels. */
static int find_travels(const struct rar_member *m, struct rar_args *args)
{
	struct rar_ring ring;
	int err;

	args->travels = args->bytes;
	if (!rar_codec_of(&args->fingerprint))
		return 0;
	err = rar_op_cut(&ring, &args->fingerprint, m->payload, &m->place);
	if (err)
		return err;
	args->travels = ring.bytes;
	args->room = ring.bytes;
	return 0;
}

/*
 * Where ranks add, but most of the tensor is not part of the result, sums on their way would
 * need other memory.
 */
static int check_dst(const struct rar_args *args, bool pinned)
{
	u8 collective = args->fingerprint.collective;

	if (!args->dst)
		return 0;
	if (!pinned)
		return -EINVAL;
	return collective == RAR_ALLREDUCE || collective == RAR_BROADCAST ||
	       collective == RAR_ALLGATHER ? 0 : -EOPNOTSUPP;
}

/*
 * With @dst but without MSG_ZEROCOPY the call returns when the result is there. Choose whether it
 * pins memory or copies.
 */
static int choose_blocking(struct rar_args *args, struct msghdr *msg, size_t len,
			   struct rar_blocking *call)
{
	if (!args->dst || msg->msg_flags & MSG_ZEROCOPY)
		return 0;
	if (msg->msg_flags & MSG_MORE || rar_msg_is_spliced(msg) ||
	    args->fingerprint.collective == RAR_REDUCE_BY_KEY)
		return -EINVAL;
	args->blocking = true;
	if (!call->copied && (args->bytes ?: len) >= PIN_MIN &&
	    !check_flags(&args->fingerprint, true) && !check_dst(args, true)) {
		msg->msg_flags |= MSG_ZEROCOPY;
		call->pinned = true;
	} else {
		call->dst = args->dst;
		args->dst = 0;
	}
	return 0;
}

/* Is there memory for the copy of the result? */
static int check_place(const struct rar_args *args, const struct rar_blocking *call)
{
	const char __user *dst = u64_to_user_ptr(call->dst);

	/* Without bytes it would touch all that is mapped behind @dst. */
	if (!args->blocking || call->pinned || !args->got.len)
		return 0;
	return fault_in_safe_writeable(dst, args->got.len) ? -EFAULT : 0;
}

/**
 * rar_args_parse() - find the operation that the first send() of a record asks for
 * @rsk:  socket
 * @m:    its member
 * @msg:  message; a blocking call that pins memory gets MSG_ZEROCOPY
 * @len:  its bytes
 * @args: set
 * @call: how the call waits, if it does; set
 *
 * Return: 0 or a negative errno.
 */
int rar_args_parse(struct rar_sock *rsk, struct rar_member *m, struct msghdr *msg, size_t len,
		   struct rar_args *args, struct rar_blocking *call)
{
	struct rar_fingerprint *p = &args->fingerprint;
	bool pinned, told;
	int err;

	*args = (struct rar_args) {
		.fingerprint.collective = RAR_ALLREDUCE,
		.fingerprint.dtype = rsk->dtype,
		.fingerprint.redop = rsk->redop,
		.fingerprint.mode = m->schedule == RAR_BY_HOSTS ?
				    RAR_MODE_HOSTS : 0,
		.prio = rsk->prio,
	};
	err = parse_cmsgs(msg, args);
	if (!err)
		err = check_kind(m, p);
	if (!err)
		err = choose_blocking(args, msg, len, call);
	pinned = msg->msg_flags & MSG_ZEROCOPY;
	if (!err)
		err = check_flags(p, pinned);
	if (!err)
		err = check_root(m, args);
	if (!err)
		err = check_dst(args, pinned);
	if (err)
		return err;
	if (p->collective == RAR_REDUCE_BY_KEY)
		return pinned || rar_msg_is_spliced(msg) ? -EOPNOTSUPP :
		       rar_records_check(m, p, args->key, args->bytes, len,
					 &args->room);
	if (args->key)
		return -EINVAL;
	told = args->bytes;
	args->bytes = args->bytes ?: len;
	choose_way(m, args);
	err = find_spans(m, args, pinned);
	if (!err)
		err = check_length(args, msg, len, told);
	if (!err)
		err = check_place(args, call);
	p->count = args->bytes / rar_dtype_size(p->dtype);
	if (!err && pinned)
		err = rar_op_bits(m, p, &args->bits);
	return err ?: find_travels(m, args);
}
