// SPDX-License-Identifier: GPL-2.0
/*
 * The user ABI and the wire format do not change: sizes and offsets of every structure,
 * values of every constant, and the Python formats in comments. Needs no kernel module.
 *
 * uapi [path of include/uapi/linux/rar.h]
 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <linux/rar.h>
#include <linux/rar_roce.h>
#include <linux/rar_wire.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static int test_nr, test_failed;

static void report(int ok, const char *name)
{
	printf("%sok %d %s\n", ok ? "" : "not ", ++test_nr, name);
	test_failed += !ok;
}

struct field {
	const char *name;
	size_t offset, size;		/* as compiled */
	size_t want_offset, want_size;	/* as published */
};

#define F(type, member, off, sz)					\
	{ #type "." #member, offsetof(struct type, member),		\
	  sizeof(((struct type *)0)->member), off, sz }
#define S(type, sz)							\
	{ "sizeof " #type, 0, sizeof(struct type), 0, sz }

static const struct field socket_fields[] = {
	S(sockaddr_rar, 64),
	F(sockaddr_rar, srar_family, 0, 2),
	F(sockaddr_rar, srar_port, 2, 2),
	F(sockaddr_rar, srar_af, 4, 2),
	F(sockaddr_rar, __srar_pad0, 6, 2),
	F(sockaddr_rar, srar_scope_id, 8, 4),
	F(sockaddr_rar, srar_rank, 12, 4),
	F(sockaddr_rar, srar_size, 16, 4),
	F(sockaddr_rar, __srar_pad1, 20, 4),
	F(sockaddr_rar, srar_group, 24, 8),
	F(sockaddr_rar, srar_addr, 32, 16),
	F(sockaddr_rar, __srar_zero, 48, 16),

	S(rar_join, 232),
	F(rar_join, self, 0, 64),
	F(rar_join, next, 64, 64),
	F(rar_join, prev, 128, 64),
	F(rar_join, key, 192, 16),
	F(rar_join, timeout_ms, 208, 4),
	F(rar_join, flags, 212, 4),
	F(rar_join, __host, 216, 8),
	F(rar_join, __user_rank, 224, 4),

	S(rar_reg, 24),
	F(rar_reg, addr, 0, 8),
	F(rar_reg, len, 8, 8),
	F(rar_reg, flags, 16, 4),

	S(rar_counters, 48),
	F(rar_counters, version, 0, 4),
	F(rar_counters, size, 4, 4),
	F(rar_counters, members, 8, 4),
	F(rar_counters, error, 12, 4),
	F(rar_counters, posted, 16, 8),
	F(rar_counters, complete, 24, 8),
	F(rar_counters, ready, 32, 8),
	F(rar_counters, delivered, 40, 8),

	S(rar_op, 48),
	F(rar_op, size, 0, 4),
	F(rar_op, collective, 4, 1),
	F(rar_op, dtype, 5, 1),
	F(rar_op, redop, 6, 1),
	F(rar_op, key, 7, 1),
	F(rar_op, root, 8, 4),
	F(rar_op, flags, 12, 4),
	F(rar_op, bytes, 16, 8),
	F(rar_op, cookie, 24, 8),
	F(rar_op, dst, 32, 8),
	F(rar_op, prio, 40, 1),
	F(rar_op, __pad, 41, 7),

	S(rar_done, 32),
	F(rar_done, size, 0, 4),
	F(rar_done, status, 4, 4),
	F(rar_done, contributors, 8, 4),
	F(rar_done, flags, 12, 4),
	F(rar_done, cookie, 16, 8),
	F(rar_done, op_seq, 24, 8),

	S(rar_error, 120),
	F(rar_error, err, 0, 4),
	F(rar_error, reason, 4, 4),
	F(rar_error, rank, 8, 4),
	F(rar_error, other, 12, 4),
	F(rar_error, op_seq, 16, 8),
	F(rar_error, cookie, 24, 8),
	F(rar_error, silent_ms, 32, 4),
	F(rar_error, user_rank, 36, 4),
	F(rar_error, addr, 40, 64),
	F(rar_error, value, 104, 8),
	F(rar_error, other_value, 112, 8),

	/* list: info */
	S(rar_info, 680),
	F(rar_info, state, 0, 4),
	F(rar_info, rx_path, 4, 4),
	F(rar_info, rank, 8, 4),
	F(rar_info, size, 12, 4),
	F(rar_info, group, 16, 8),
	F(rar_info, epoch, 24, 8),
	F(rar_info, payload, 32, 4),
	F(rar_info, mtu, 36, 4),
	F(rar_info, mtu_rank, 40, 4),
	F(rar_info, srtt_us, 44, 4),
	F(rar_info, rto_us, 48, 4),
	F(rar_info, window, 52, 4),
	F(rar_info, inflight, 56, 4),
	F(rar_info, halving_bytes, 60, 4),
	F(rar_info, ops_posted, 64, 8),
	F(rar_info, ops_complete, 72, 8),
	F(rar_info, ops_released, 80, 8),
	F(rar_info, bytes_tx, 88, 8),
	F(rar_info, bytes_rx, 96, 8),
	F(rar_info, packets_tx, 104, 8),
	F(rar_info, packets_rx, 112, 8),
	F(rar_info, retransmits, 120, 8),
	F(rar_info, prev_wait_us, 128, 8),
	F(rar_info, next_wait_us, 136, 8),
	F(rar_info, prev_silent_ms, 144, 4),
	F(rar_info, next_silent_ms, 148, 4),
	F(rar_info, early_bytes, 152, 8),
	F(rar_info, resume_op, 160, 8),
	F(rar_info, resume_epoch, 168, 8),
	F(rar_info, slow_rank, 176, 4),
	F(rar_info, slow_ms, 180, 4),
	F(rar_info, cwnd, 184, 4),
	F(rar_info, hosts, 188, 4),
	F(rar_info, direct_bytes, 192, 4),
	F(rar_info, doubling_bytes, 196, 4),
	F(rar_info, forwarded, 200, 8),
	F(rar_info, box_state, 208, 4),
	F(rar_info, security, 212, 4),
	F(rar_info, box_sums, 216, 8),
	F(rar_info, ring_sums, 224, 8),
	F(rar_info, box, 232, 64),
	F(rar_info, user_rank, 296, 4),
	F(rar_info, slow_user_rank, 300, 4),
	F(rar_info, nboxes, 304, 4),
	F(rar_info, lack, 308, 4),
	F(rar_info, boxes, 312, 352),
	F(rar_info, rails, 664, 4),
	F(rar_info, __pad, 668, 4),
	F(rar_info, gather_bytes, 672, 4),
	F(rar_info, scatter_bytes, 676, 4),
	/* end of list */

	S(rar_box_info, 88),
	F(rar_box_info, state, 0, 4),
	F(rar_box_info, reason, 4, 4),
	F(rar_box_info, sums, 8, 8),
	F(rar_box_info, ring_sums, 16, 8),
	F(rar_box_info, addr, 24, 64),

	S(rar_peer, 72),
	F(rar_peer, rank, 0, 4),
	F(rar_peer, user_rank, 4, 4),
	F(rar_peer, addr, 8, 64),

	S(rar_caps, 72),
	F(rar_caps, wire_version, 0, 4),
	F(rar_caps, collectives, 4, 4),
	F(rar_caps, dtypes, 8, 64),
};

static const struct field wire_fields[] = {
	S(rar_hdr, 24),
	F(rar_hdr, version, 0, 1),
	F(rar_hdr, type, 1, 1),
	F(rar_hdr, src, 2, 2),
	F(rar_hdr, dst, 4, 2),
	F(rar_hdr, len, 6, 2),
	F(rar_hdr, group, 8, 8),
	F(rar_hdr, token, 16, 8),

	S(rar_data_hdr, 64),
	F(rar_data_hdr, seq, 24, 4),
	F(rar_data_hdr, una, 28, 4),
	F(rar_data_hdr, op_seq, 32, 8),
	F(rar_data_hdr, count, 40, 8),
	F(rar_data_hdr, chunk, 48, 4),
	F(rar_data_hdr, mode, 52, 2),
	F(rar_data_hdr, root, 54, 2),
	F(rar_data_hdr, collective, 56, 1),
	F(rar_data_hdr, dtype, 57, 1),
	F(rar_data_hdr, redop, 58, 1),
	F(rar_data_hdr, flags, 59, 1),
	F(rar_data_hdr, held_us, 28, 4),
	F(rar_data_hdr, batch, 28, 4),
	F(rar_data_hdr, complete, 24, 8),
	F(rar_data_hdr, box, 60, 4),
	F(rar_data_hdr, box.prio, 60, 1),
	F(rar_data_hdr, box.chunks, 61, 1),
	F(rar_data_hdr, box.ranks, 62, 2),
	F(rar_data_hdr, pieces, 60, 4),
	F(rar_data_hdr, base, 60, 4),

	S(rar_ack_hdr, 112),
	F(rar_ack_hdr, cum, 24, 4),
	F(rar_ack_hdr, base, 28, 4),
	F(rar_ack_hdr, posted, 32, 8),
	F(rar_ack_hdr, credit, 40, 4),
	F(rar_ack_hdr, delay_us, 44, 4),
	F(rar_ack_hdr, ce, 48, 4),
	F(rar_ack_hdr, come, 52, 4),
	F(rar_ack_hdr, done, 56, 4),
	F(rar_ack_hdr, dups, 60, 4),
	F(rar_ack_hdr, slow, 64, 16),
	F(rar_ack_hdr, bitmap, 80, 32),

	S(rar_done_hdr, 64),
	F(rar_done_hdr, below, 24, 8),
	F(rar_done_hdr, map, 32, 8),
	F(rar_done_hdr, op_seq, 40, 8),
	F(rar_done_hdr, lacks, 48, 8),
	F(rar_done_hdr, flags, 56, 4),
	S(rar_pair_hdr, 40),
	F(rar_pair_hdr, challenge, 24, 8),
	F(rar_pair_hdr, bytes, 32, 4),
	S(rar_probe_hdr, 72),
	F(rar_probe_hdr, una, 24, 4),
	F(rar_probe_hdr, done, 28, 4),
	F(rar_probe_hdr, slow, 32, 16),
	F(rar_probe_hdr, op_seq, 48, 8),
	F(rar_probe_hdr, count, 56, 8),
	F(rar_probe_hdr, mode, 64, 2),
	F(rar_probe_hdr, root, 66, 2),
	F(rar_probe_hdr, collective, 68, 1),
	F(rar_probe_hdr, dtype, 69, 1),
	F(rar_probe_hdr, redop, 70, 1),

	S(rar_join_hdr, 56),
	F(rar_join_hdr, nonce, 24, 8),
	F(rar_join_hdr, size, 32, 4),
	F(rar_join_hdr, payload, 36, 4),
	F(rar_join_hdr, port, 40, 2),
	F(rar_join_hdr, flags, 42, 2),
	F(rar_join_hdr, proof, 48, 8),

	S(rar_wire_caps, 68),

	S(rar_wire_member, 32),
	F(rar_wire_member, nonce, 0, 8),
	F(rar_wire_member, addr, 8, 16),
	F(rar_wire_member, af, 24, 2),
	F(rar_wire_member, port, 26, 2),
	F(rar_wire_member, user, 28, 2),
	F(rar_wire_member, payload, 30, 2),

	S(rar_table_hdr, 152),
	F(rar_table_hdr, drawn, 24, 8),
	F(rar_table_hdr, digest, 32, 8),
	F(rar_table_hdr, resume, 40, 8),
	F(rar_table_hdr, resume_epoch, 48, 8),
	F(rar_table_hdr, payload, 56, 4),
	F(rar_table_hdr, payload_rank, 60, 2),
	F(rar_table_hdr, first, 62, 2),
	F(rar_table_hdr, n, 64, 2),
	F(rar_table_hdr, flags, 66, 2),
	F(rar_table_hdr, borders, 68, 16),
	F(rar_table_hdr, borders.direct, 68, 4),
	F(rar_table_hdr, borders.doubling, 72, 4),
	F(rar_table_hdr, borders.halving, 76, 4),
	F(rar_table_hdr, caps, 84, 68),

	S(rar_reject_hdr, 56),
	F(rar_reject_hdr, err, 24, 4),
	F(rar_reject_hdr, reason, 28, 4),
	F(rar_reject_hdr, rank, 32, 4),
	F(rar_reject_hdr, other, 36, 4),
	F(rar_reject_hdr, op_seq, 40, 8),
	F(rar_reject_hdr, proof, 48, 8),
	S(rar_notice_hdr, 72),
	F(rar_notice_hdr, err, 24, 4),
	F(rar_notice_hdr, reason, 28, 4),
	F(rar_notice_hdr, rank, 32, 4),
	F(rar_notice_hdr, other, 36, 4),
	F(rar_notice_hdr, op_seq, 40, 8),
	F(rar_notice_hdr, silent_ms, 48, 4),
	F(rar_notice_hdr, value, 56, 8),
	F(rar_notice_hdr, other_value, 64, 8),

	S(rar_wire_box, 24),
	F(rar_wire_box, addr, 0, 16),
	F(rar_wire_box, af, 16, 2),
	F(rar_wire_box, port, 18, 2),

	S(rar_batch_rank, 16),
	F(rar_batch_rank, first, 0, 4),
	F(rar_batch_rank, flags, 4, 4),
	F(rar_batch_rank, map, 8, 8),

	S(rar_chunks_hdr, 80),
	F(rar_chunks_hdr, op_seq, 24, 8),
	F(rar_chunks_hdr, first, 32, 4),
	F(rar_chunks_hdr, until, 36, 4),
	F(rar_chunks_hdr, flags, 40, 4),
	F(rar_chunks_hdr, __pad, 44, 4),
	F(rar_chunks_hdr, map, 48, 32),

	S(rar_enter_hdr, 72),
	F(rar_enter_hdr, digest, 24, 8),
	F(rar_enter_hdr, nonce, 32, 8),
	F(rar_enter_hdr, cookie, 40, 8),
	F(rar_enter_hdr, payload, 48, 4),
	F(rar_enter_hdr, size, 52, 2),
	F(rar_enter_hdr, ranks, 56, 8),
	F(rar_enter_hdr, flags, 64, 4),

	S(rar_offer_hdr, 48),
	F(rar_offer_hdr, box, 24, 24),

	S(rar_entered_hdr, 56),
	F(rar_entered_hdr, nonce, 24, 8),
	F(rar_entered_hdr, cookie, 32, 8),
	F(rar_entered_hdr, epoch, 40, 8),
	F(rar_entered_hdr, flags, 48, 4),

	S(rar_roce_hdr, 32),
	F(rar_roce_hdr, magic, 0, 4),
	F(rar_roce_hdr, dtype, 4, 1),
	F(rar_roce_hdr, redop, 5, 1),
	F(rar_roce_hdr, window, 6, 1),
	F(rar_roce_hdr, __pad, 7, 1),
	F(rar_roce_hdr, job, 8, 8),
	F(rar_roce_hdr, rank, 16, 2),
	F(rar_roce_hdr, size, 18, 2),
	F(rar_roce_hdr, msg, 20, 4),
	F(rar_roce_hdr, bytes, 24, 4),
	F(rar_roce_hdr, __pad2, 28, 4),

	S(rar_roce_mark, 8),
	F(rar_roce_mark, msg, 0, 4),
	F(rar_roce_mark, index, 4, 2),
	F(rar_roce_mark, count, 6, 2),
};

struct value {
	const char *name;
	long is, want;
};

#define V(name, want) { #name, name, want }

static const struct value socket_values[] = {
	V(AF_RAR, 22), V(PF_RAR, 22), V(SOL_RAR, 522), V(RAR_DEFAULT_PORT, 18118),
	V(RAR_MAX_SIZE, 4096), V(RAR_MAX_OPS, 64), V(RAR_MAX_CALL, 1L << 30), V(RAR_JOIN, 1),
	V(RAR_DTYPE, 2), V(RAR_REDOP, 3), V(RAR_OP_TIMEOUT, 4), V(RAR_OWNER, 5), V(RAR_ABORT, 6),
	V(RAR_ERROR, 7), V(RAR_INFO, 8), V(RAR_PEERS, 9), V(RAR_CAPS, 10), V(RAR_REG, 11),
	V(RAR_UNREG, 12), V(RAR_OPF_IN_ORDER, 0x40), V(RAR_OPF_WIDE, 0x20),
	V(RAR_OPF_EXACT, 0x10), V(RAR_OPF_QUANT, 0x02), V(RAR_SCHEDULE, 13), V(RAR_PREV_ADDR, 14),
	V(RAR_KEY, 15), V(RAR_KEY_LEN, 16), V(RAR_CANCEL, 16), V(RAR_NONEMPTY, 17),
	V(RAR_PEERS_FROM, 18), V(RAR_BOX, 19), V(RAR_PRIORITY, 20), V(RAR_USER_RANK, 21),
	V(RAR_BOX_WAIT, 22), V(RAR_SECURITY, 23), V(RAR_KEY_LONG, 32), V(RAR_MAX_USER_RANK, 65535),
	V(RAR_DEFAULT_PRIORITY, 128), V(RAR_RAIL, 24), V(RAR_MAX_RAILS, 7), V(RAR_BOX_KEY, 25),
	V(RAR_OP, 32), V(RAR_DONE, 33),
	/* list: values */
	V(RAR_BY_RANKS, 0), V(RAR_BY_HOSTS, 1), V(RAR_AUTO, 2), V(RAR_DIRECT, 3), V(RAR_DOUBLING, 4),
	V(RAR_SECURITY_OFF, 0), V(RAR_SECURITY_AUTH, 1), V(RAR_SECURITY_ENCRYPT, 2),
	V(RAR_ALLREDUCE, 1), V(RAR_BROADCAST, 2), V(RAR_REDUCE, 3), V(RAR_REDUCE_SCATTER, 4),
	V(RAR_ALLGATHER, 5), V(RAR_BARRIER, 6), V(RAR_REDUCE_BY_KEY, 7),
	V(RAR_F32, 1), V(RAR_F64, 2), V(RAR_I32, 3), V(RAR_I64, 4), V(RAR_I8, 5), V(RAR_U8, 6),
	V(RAR_I16, 7), V(RAR_U16, 8), V(RAR_U32, 9), V(RAR_U64, 10), V(RAR_F16, 11), V(RAR_BF16, 12),
	V(RAR_SUM, 1), V(RAR_PROD, 2), V(RAR_MIN, 3), V(RAR_MAX, 4), V(RAR_BAND, 5), V(RAR_BOR, 6),
	V(RAR_BXOR, 7), V(RAR_LAND, 8), V(RAR_LOR, 9), V(RAR_LXOR, 10), V(RAR_AVG, 11),
	V(RAR_R_NONE, 0), V(RAR_R_CLOSED, 1), V(RAR_R_DIED, 2), V(RAR_R_SILENT, 3),
	V(RAR_R_LEFT, 4), V(RAR_R_RESET, 5), V(RAR_R_ABORTED, 6), V(RAR_R_TIMEOUT, 7),
	V(RAR_R_JOIN_TIMEOUT, 8), V(RAR_R_DUPLICATE, 9), V(RAR_R_SIZE, 10), V(RAR_R_VERSION, 11),
	V(RAR_R_TABLE, 12), V(RAR_R_COLLECTIVE, 13), V(RAR_R_DTYPE, 14), V(RAR_R_REDOP, 15),
	V(RAR_R_COUNT, 16), V(RAR_R_ROOT, 17), V(RAR_R_FLAGS, 18), V(RAR_R_MTU, 19),
	V(RAR_R_NODEV, 20), V(RAR_R_FAULT, 21), V(RAR_R_SCHEDULE, 22), V(RAR_R_KEY, 23),
	V(RAR_R_PREV, 24), V(RAR_R_NOMEM, 25), V(RAR_R_BYTE_ORDER, 26), V(RAR_R_STALLED, 27),
	V(RAR_R_SECURITY, 28),
	V(RAR_S_UNBOUND, 0), V(RAR_S_BOUND, 1), V(RAR_S_JOINING, 2), V(RAR_S_READY, 3),
	V(RAR_S_RUN, 4), V(RAR_S_LEAVING, 5), V(RAR_S_FAILED, 6),
	V(RAR_PATH_INGRESS, 0), V(RAR_PATH_UDP, 1), V(RAR_PATH_XDP, 2), V(RAR_PATH_AUTO, 3),
	V(RAR_LACK_NONE, 0), V(RAR_LACK_RESULTS, 1), V(RAR_LACK_NET, 2), V(RAR_LACK_HOST, 3),
	V(RAR_LACK_MEMLOCK, 4), V(RAR_LACK_REGIONS, 5), V(RAR_LACK_KERNEL, 6),
	V(RAR_BOX_NONE, 0), V(RAR_BOX_AWAY, 1), V(RAR_BOX_OPEN, 2),
	/* end of list */
};

static const struct value wire_values[] = {
	V(RAR_WIRE_MAGIC, 0xa0), V(RAR_WIRE_VERSION, 2),
	V(RAR_T_RS, 1), V(RAR_T_AG, 2), V(RAR_T_ACK, 3), V(RAR_T_PROBE, 4),
	V(RAR_T_JOIN, 8), V(RAR_T_JOIN_ACK, 9), V(RAR_T_REJECT, 10),
	V(RAR_T_COLLECT, 11), V(RAR_T_PROPOSE, 12), V(RAR_T_COMMIT, 13),
	V(RAR_T_ABORT, 16), V(RAR_T_RESET, 17), V(RAR_T_FIN, 18),
	V(RAR_T_DIRECT, 5), V(RAR_T_DONE, 6), V(RAR_T_PAIR, 14), V(RAR_T_PAIR_ACK, 15),
	V(RAR_T_FIN_ACK, 19), V(RAR_T_LATE, 20), V(RAR_F_ACK_NOW, 1),
	V(RAR_F_RINGED, 4), V(RAR_F_WHOLE, 8), V(RAR_EARLY_COST, 512),
	V(RAR_T_WANT, 21), V(RAR_T_RETURN, 22), V(RAR_T_ENTER, 23), V(RAR_T_ENTERED, 24),
	V(RAR_T_OFFER, 25), V(RAR_T_PEER_ACK, 26), V(RAR_T_RAIL, 27), V(RAR_RF_ANSWER, 1),
	V(RAR_TF_BOX, 8), V(RAR_CAPS_WAYS, 0xffff0000), V(RAR_WM_BESIDE, 0x8000),
	V(RAR_EF_ANY_ORDER, 1), V(RAR_EF_BROADCAST, 2), V(RAR_EF_REDUCE, 4), V(RAR_MAX_BOXES, 4),
	V(RAR_EF_KEYED, 8), V(RAR_EF_IN_TURN, 16), V(RAR_EF_ENCRYPT, 32),
	V(RAR_WF_REFUSED, 1), V(RAR_BF_LAST, 1),
	V(RAR_WM_BYTES, 0x7fff),
	V(RAR_JF_SMALL, 1), V(RAR_JF_HOSTS, 2), V(RAR_JF_BIG, 4), V(RAR_JF_AUTO, 8),
	V(RAR_JF_DIRECT, 0x10), V(RAR_JF_ENCRYPT, 0x20), V(RAR_JF_DOUBLING, 0x40), V(RAR_DF_ASK, 1), V(RAR_DF_UNA, 0x40), V(RAR_TF_APART, 2), V(RAR_TF_PAIRED, 4),
	V(RAR_MODE_FLAGS, 0xff), V(RAR_MODE_HOSTS, 0x100), V(RAR_MODE_KEY, 0x600),
	V(RAR_MODE_WAY, 0xf000), V(RAR_WAY_RING, 0), V(RAR_WAY_DIRECT, 1), V(RAR_WAY_DOUBLING, 2),
	V(RAR_WAY_FOLDED, 3), V(RAR_WAY_HALVING, 4),
	V(RAR_TABLE_MAX, 30),
};

static int check_fields(const struct field *f, size_t n)
{
	int ok = 1;

	for (; n--; f++) {
		if (f->offset == f->want_offset && f->size == f->want_size)
			continue;
		printf("# %s: offset %zu size %zu, published %zu %zu\n",
		       f->name, f->offset, f->size, f->want_offset,
		       f->want_size);
		ok = 0;
	}
	return ok;
}

static int check_values(const struct value *v, size_t n)
{
	int ok = 1;

	for (; n--; v++) {
		if (v->is == v->want)
			continue;
		printf("# %s = %ld, published %ld\n", v->name, v->is, v->want);
		ok = 0;
	}
	return ok;
}

/*
 * Evaluates the first struct.pack(...) of the header, without comment characters and with
 * its names bound to known values. It must give the bytes that C gives.
 */
static const char python[] =
	"import re, struct, sys\n"
	"text = open(sys.argv[1]).read()\n"
	"m = re.search(r'struct\\.pack\\(.*?addr\\)', text, re.S)\n"
	"expr = re.sub(r'\\n \\*', ' ', m.group(0))\n"
	"sys.stdout.buffer.write(eval(expr, {'struct': struct, 'AF_RAR': 22,\n"
	"  'port': 0x1234, 'af': 10, 'scope_id': 0x01020304, 'rank': 5,\n"
	"  'size': 7, 'group': 0x1122334455667788,\n"
	"  'addr': bytes(range(1, 17))}))\n";

static int check_python(const char *header)
{
	struct sockaddr_rar want = {
		.srar_family = AF_RAR, .srar_port = htons(0x1234),
		.srar_af = AF_INET6, .srar_scope_id = 0x01020304,
		.srar_rank = 5, .srar_size = 7,
		.srar_group = 0x1122334455667788ull,
	};
	unsigned char got[256];
	ssize_t n = 0, r;
	int p[2], status;

	for (int i = 0; i < 16; i++)
		want.srar_addr[i] = i + 1;
	if (pipe(p))
		return 0;
	if (!fork()) {
		dup2(p[1], 1);
		close(p[0]);
		execlp("python3", "python3", "-c", python, header, NULL);
		_exit(127);
	}
	close(p[1]);
	while ((r = read(p[0], got + n, sizeof(got) - n)) > 0)
		n += r;
	close(p[0]);
	wait(&status);
	if (n == sizeof(want) && !memcmp(got, &want, n))
		return 1;
	printf("# python packs %zd bytes, status %#x\n", n, status);
	for (ssize_t i = 0; i < n && i < 64; i++)
		if (got[i] != ((unsigned char *)&want)[i])
			printf("# byte %zd: python %02x, C %02x\n", i, got[i],
			       ((unsigned char *)&want)[i]);
	return 0;
}

/*
 * Prints offset and size of every field, except padding, of the other structures' formats in
 * the header and the manual page. They must be those that C has.
 */
static const char formats[] =
	"import re, struct, sys\n"
	"page = open(sys.argv[2]).read()\n"
	"for name, text in re.findall(\n"
	"    r' \\* struct (\\w+) -(.*?)\\*/', open(sys.argv[1]).read(), re.S):\n"
	"    form = re.search(r'Python: struct \"(.*?)\"', text)\n"
	"    if not form:\n"
	"        continue\n"
	"    if not re.search(name + r' +\"' + re.escape(form[1]) + '\"', page):\n"
	"        print('page', name, 0, 0)\n"
	"    at = 0\n"
	"    for n, c in re.findall(r'(\\d*)([a-zA-Z])', form[1]):\n"
	"        for _ in range(1 if c in 'xs' else int(n or 1)):\n"
	"            size = struct.calcsize('=' + (n + c if c in 'xs' else c))\n"
	"            if c != 'x':\n"
	"                print('field', name, at, size)\n"
	"            at += size\n"
	"    print('sizeof', name, 0, at)\n";

/* Finds the field, or structure, that Python has named, and marks it as found. */
static int find_format(const char *kind, const char *name, size_t offset, size_t size,
		       char *found)
{
	size_t len = strlen(name), i;

	for (i = 0; i < ARRAY_SIZE(socket_fields); i++) {
		const struct field *f = &socket_fields[i];
		int whole = !strncmp(f->name, "sizeof ", 7);

		if (whole ? strcmp(f->name + 7, name) || strcmp(kind, "sizeof") :
			    strncmp(f->name, name, len) || f->name[len] != '.' ||
			    strcmp(kind, "field"))
			continue;
		if (f->offset != offset || f->size != size)
			continue;
		found[i] = 1;
		return 1;
	}
	printf("# python: %s of %s at %zu, %zu bytes\n", kind, name, offset, size);
	return 0;
}

/* Check that all fields were found, except padding; sockaddr_rar has a test of its own. */
static int check_found(const char *found)
{
	int ok = 1;

	for (size_t i = 0; i < ARRAY_SIZE(socket_fields); i++) {
		const char *name = socket_fields[i].name;

		if (found[i] || strstr(name, "__") || strstr(name, "sockaddr_rar"))
			continue;
		printf("# python has no %s\n", name);
		ok = 0;
	}
	return ok;
}

static int check_formats(const char *header, const char *page)
{
	char found[ARRAY_SIZE(socket_fields)] = { 0 }, cmd[8192], kind[16], name[32];
	size_t offset, size;
	int ok = 1;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "python3 - %s %s <<'EOF'\n%sEOF\n", header, page, formats);
	f = popen(cmd, "r");
	while (f && fscanf(f, "%15s %31s %zu %zu", kind, name, &offset, &size) == 4)
		ok &= find_format(kind, name, offset, size, found);
	return f && !pclose(f) && check_found(found) && ok;
}

/* Find a file where the build has put it, or in the tree, from its top or selftests/. */
static const char *find(const char *name, const char *in_tree)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", getenv("RAR_BIN") ?: ".", name);
	if (access(path, R_OK))
		snprintf(path, sizeof(path), "../%s", in_tree);
	return strdup(access(path, R_OK) ? in_tree : path);
}

int main(int argc, char **argv)
{
	const char *header = argc > 1 ? argv[1] : find("rar.h", "include/uapi/linux/rar.h");
	const char *page = find("rar.7", "Documentation/rar.7");

	printf("TAP version 13\n1..6\n");
	report(check_fields(socket_fields, ARRAY_SIZE(socket_fields)),
	       "socket structures");
	report(check_fields(wire_fields, ARRAY_SIZE(wire_fields)),
	       "wire structures");
	report(check_values(socket_values, ARRAY_SIZE(socket_values)),
	       "socket constants");
	report(check_values(wire_values, ARRAY_SIZE(wire_values)),
	       "wire constants");
	fflush(stdout);
	report(check_python(header),
	       "python format of sockaddr_rar");
	fflush(stdout);
	if (access(page, R_OK))
		printf("ok %d python formats # SKIP there is no rar.7 here\n", ++test_nr);
	else
		report(check_formats(header, page), "python formats of the other structures");
	return !!test_failed;
}
