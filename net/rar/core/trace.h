/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rar

#if !defined(_RAR_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _RAR_TRACE_H

#include <linux/tracepoint.h>

#include "core/drop.h"
#include "core/mib.h"
#include "rar.h"

TRACE_EVENT(rar_state,
	TP_PROTO(const struct rar_member *m, u8 from, u8 to),
	TP_ARGS(m, from, to),
	TP_STRUCT__entry(
		__field(u64, group)
		__field(u64, epoch)
		__field(u32, rank)
		__field(u8, from)
		__field(u8, to)
	),
	TP_fast_assign(
		__entry->group = m->id;
		__entry->epoch = m->epoch;
		__entry->rank = m->rank;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("group=%llx rank=%u epoch=%llx %u->%u", __entry->group,
		  __entry->rank, __entry->epoch, __entry->from, __entry->to)
);

DECLARE_EVENT_CLASS(rar_chunk,
	TP_PROTO(const struct rar_member *m, u64 op_seq, u8 phase, u32 chunk,
		 u32 len),
	TP_ARGS(m, op_seq, phase, chunk, len),
	TP_STRUCT__entry(
		__field(u64, group)
		__field(u64, op_seq)
		__field(u32, rank)
		__field(u32, chunk)
		__field(u32, len)
		__field(u8, phase)
	),
	TP_fast_assign(
		__entry->group = m->id;
		__entry->op_seq = op_seq;
		__entry->rank = m->rank;
		__entry->chunk = chunk;
		__entry->len = len;
		__entry->phase = phase;
	),
	TP_printk("group=%llx rank=%u op=%llu phase=%s chunk=%u len=%u",
		  __entry->group, __entry->rank, __entry->op_seq,
		  __entry->phase ? "ag" : "rs", __entry->chunk, __entry->len)
);

/* A received chunk was added to (rs) or stored in (ag) the buffer. */
DEFINE_EVENT(rar_chunk, rar_reduce,
	TP_PROTO(const struct rar_member *m, u64 op_seq, u8 phase, u32 chunk,
		 u32 len),
	TP_ARGS(m, op_seq, phase, chunk, len));

/* Chunks from @chunk on are handed to the network stack, @len bytes. */
DEFINE_EVENT(rar_chunk, rar_tx,
	TP_PROTO(const struct rar_member *m, u64 op_seq, u8 phase, u32 chunk,
		 u32 len),
	TP_ARGS(m, op_seq, phase, chunk, len));

/* A chunk was given up as lost and will be sent again. */
DEFINE_EVENT(rar_chunk, rar_lost,
	TP_PROTO(const struct rar_member *m, u64 op_seq, u8 phase, u32 chunk,
		 u32 len),
	TP_ARGS(m, op_seq, phase, chunk, len));

DECLARE_EVENT_CLASS(rar_whole,
	TP_PROTO(const struct rar_member *m, u64 op_seq, u64 bytes),
	TP_ARGS(m, op_seq, bytes),
	TP_STRUCT__entry(
		__field(u64, group)
		__field(u64, op_seq)
		__field(u64, bytes)
		__field(u32, rank)
	),
	TP_fast_assign(
		__entry->group = m->id;
		__entry->op_seq = op_seq;
		__entry->bytes = bytes;
		__entry->rank = m->rank;
	),
	TP_printk("group=%llx rank=%u op=%llu bytes=%llu", __entry->group,
		  __entry->rank, __entry->op_seq, __entry->bytes)
);

/* An operation is posted at this rank. */
DEFINE_EVENT(rar_whole, rar_post,
	TP_PROTO(const struct rar_member *m, u64 op_seq, u64 bytes),
	TP_ARGS(m, op_seq, bytes));

/* An operation is complete at this rank. */
DEFINE_EVENT(rar_whole, rar_op,
	TP_PROTO(const struct rar_member *m, u64 op_seq, u64 bytes),
	TP_ARGS(m, op_seq, bytes));

/* An operation is released: the neighbours have all that this rank owes them. */
DEFINE_EVENT(rar_whole, rar_release,
	TP_PROTO(const struct rar_member *m, u64 op_seq, u64 bytes),
	TP_ARGS(m, op_seq, bytes));

/* A packet is dropped; reason is the name of its counter. */
TRACE_EVENT(rar_drop,
	TP_PROTO(const struct sk_buff *skb, int reason),
	TP_ARGS(skb, reason),
	TP_STRUCT__entry(
		__field(const void *, skb)
		__field(int, reason)
		__string(name, rar_mib_name(reason))
	),
	TP_fast_assign(
		__entry->skb = skb;
		__entry->reason = reason;
		RAR_ASSIGN_STR(name, rar_mib_name(reason));
	),
	TP_printk("skb=%p reason=%s", __entry->skb, __get_str(name))
);

#endif /* _RAR_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
