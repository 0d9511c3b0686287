-- SPDX-License-Identifier: GPL-2.0
-- Dissector of AF_RAR's packets (include/uapi/linux/rar_wire.h) for Wireshark and tshark:
--
--	tshark -X lua_script:rar.lua -r capture.pcap
--
-- Wireshark loads it from its folder of personal Lua plugins. UDP port 18118 is AF_RAR's; on
-- other ports the dissector recognises the packets by their header. A capture may hold
-- superpackets, which the device cuts up later: each of their chunks has a header of its own.
-- rar_unseal, beside this file, opens the seals of a capture, and says so in its packets' comments.
--
-- Names and layouts follow the headers. selftests/host/wireshark.py compares them.

local DEFAULT_PORT = 18118
local MAGIC, VERSION = 0xa, 2
local HEADER, DATA_HEADER, MEMBER, BOX, SEAL = 24, 64, 32, 24, 24	-- bytes
local MAX_BOXES = 4
local RUN_MAX = 64				-- chunks in a superpacket
local TABLE_MAX = 30				-- members in a packet

local RS, AG, ACK, PROBE, DIRECT, DONE = 1, 2, 3, 4, 5, 6
local JOIN, JOIN_ACK, REJECT, COLLECT, PROPOSE, COMMIT = 8, 9, 10, 11, 12, 13
local PAIR, PAIR_ACK = 14, 15
local ABORT, RESET, FIN, FIN_ACK, LATE = 16, 17, 18, 19, 20
local WANT, RETURN, ENTER, ENTERED, OFFER, PEER_ACK, RAIL = 21, 22, 23, 24, 25, 26, 27

local types = {
	[RS] = "RS", [AG] = "AG", [ACK] = "ACK", [PROBE] = "PROBE", [JOIN] = "JOIN",
	[JOIN_ACK] = "JOIN_ACK", [REJECT] = "REJECT", [COLLECT] = "COLLECT",
	[PROPOSE] = "PROPOSE", [COMMIT] = "COMMIT", [ABORT] = "ABORT", [RESET] = "RESET",
	[FIN] = "FIN", [FIN_ACK] = "FIN_ACK", [LATE] = "LATE", [DIRECT] = "DIRECT",
	[DONE] = "DONE", [PAIR] = "PAIR", [PAIR_ACK] = "PAIR_ACK",
	[WANT] = "WANT", [RETURN] = "RETURN", [ENTER] = "ENTER", [ENTERED] = "ENTERED",
	[OFFER] = "OFFER", [PEER_ACK] = "PEER_ACK", [RAIL] = "RAIL",
}

local collectives = {
	-- list: collectives
	"allreduce", "broadcast", "reduce", "reduce_scatter", "allgather", "barrier",
	"reduce_by_key",
	-- end of list
}

local dtypes = {
	-- list: dtypes
	"f32", "f64", "i32", "i64", "i8", "u8", "i16", "u16", "u32", "u64", "f16", "bf16",
	-- end of list
}

local redops = {
	-- list: redops
	"sum", "prod", "min", "max", "band", "bor", "bxor", "land", "lor", "lxor", "avg",
	-- end of list
}

local reasons = {
	-- list: reasons
	[0] = "none", "closed", "died", "silent", "left", "reset", "aborted", "timeout", "join_timeout",
	"duplicate", "size", "version", "table", "collective", "dtype", "redop", "count", "root",
	"flags", "mtu", "nodev", "fault", "schedule", "key", "prev", "nomem", "byte_order",
	"stalled", "security",
	-- end of list
}

-- Linux's numbers, which differ from those of other systems that run Wireshark.
local errnos = {
	[0] = "none", [1] = "EPERM", [4] = "EINTR", [5] = "EIO", [12] = "ENOMEM", [13] = "EACCES",
	[14] = "EFAULT", [16] = "EBUSY", [19] = "ENODEV", [22] = "EINVAL", [32] = "EPIPE",
	[71] = "EPROTO", [74] = "EBADMSG", [90] = "EMSGSIZE", [93] = "EPROTONOSUPPORT",
	[95] = "EOPNOTSUPP", [98] = "EADDRINUSE", [99] = "EADDRNOTAVAIL", [100] = "ENETDOWN",
	[101] = "ENETUNREACH", [103] = "ECONNABORTED", [104] = "ECONNRESET", [105] = "ENOBUFS",
	[107] = "ENOTCONN", [110] = "ETIMEDOUT", [111] = "ECONNREFUSED", [112] = "EHOSTDOWN",
	[113] = "EHOSTUNREACH", [125] = "ECANCELED",
}

local no_rank16 = { [0xffff] = "none" }
local no_rank32 = { [0xffffffff] = "none" }

-- ------------------------------------------------------------------ fields

local rar = Proto("rar", "AF_RAR all-reduce")
local fields, kinds = {}, {
	[1] = ProtoField.uint8, [2] = ProtoField.uint16, [4] = ProtoField.uint32,
	[8] = ProtoField.uint64,
}

-- Structures that have a field in common share it, so that a filter finds both.
local function field(name, kind, ...)
	fields[name] = fields[name] or kind("rar." .. name, ...)
	return fields[name]
end

-- Make a layout of rows { bytes, name, title, names or base, flags }; no name: padding.
local function layout(rows)
	for _, row in ipairs(rows) do
		local size, name, title, names = table.unpack(row)
		local base_of = type(names) == "number" and names or base.DEC

		if type(names) ~= "table" then
			names = nil
		end
		if name then
			row.field = field(name, kinds[size] or ProtoField.bytes, title,
					  kinds[size] and base_of or nil, names)
		end
		for _, flag in ipairs(row[5] or {}) do
			flag.field = field(name .. "." .. flag[2], ProtoField.bool, flag[3],
					   8 * size, nil, flag[1])
		end
	end
	return rows
end

local header = layout {
	{ 1, "version", "Magic and version", base.HEX },
	{ 1, "type", "Type", types },
	{ 2, "src", "Source rank" },
	{ 2, "dst", "Destination rank" },
	{ 2, "len", "Bytes after this header" },
	{ 8, "group", "Group", base.HEX },
	{ 8, "token", "Epoch or nonce", base.HEX },
}

local mode_bits = {
	{ 0x00ff, "flags", "Flags of the program" },
	{ 0x0040, "in_order", "Added in the order of ranks" },
	{ 0x0020, "wide", "16-bit floats added as f32" },
	{ 0x0010, "exact", "Exact sums" },
	{ 0x0002, "quant", "Quantised sums" },
	{ 0x0100, "hosts", "The ranks of a host add first" },
	{ 0x0600, "key", "Reduction by key: length of a key, 4 << n bytes" },
	{ 0xf000, "way", "Not by the ring" },
}

local ways = { [0] = "by the ring", "direct", "doubling", "halving, some ranks folded", "halving" }

local chunkflags = {
	{ 0x01, "ack_now", "Acknowledge at once" },
	{ 0x02, "last", "The last chunk of the rank" },
	{ 0x04, "ringed", "The sender lets all of the operation go by the ring" },
	{ 0x08, "whole", "One header for a run of chunks" },
}

-- What all members must agree on, besides the number of elements.
local kind = {
	{ 2, "mode", "Mode of the operation", base.HEX, mode_bits },
	{ 2, "root", "Root rank" },
	{ 1, "collective", "Collective", collectives },
	{ 1, "dtype", "Type of elements", dtypes },
	{ 1, "redop", "Reduction", redops },
}

-- What follows the operation's number in the header of a chunk, up to its last word.
local function chunk_layout(first, last)
	local rows = {
		{ 8, "op_seq", "Operation" },
		{ 8, "count", "Elements of the operation" },
		{ 4, "chunk", "Chunk" },
		kind[1], kind[2], kind[3], kind[4], kind[5],
		{ 1, "data.flags", "Flags", base.HEX, chunkflags },
	}

	for i, row in ipairs(first) do
		table.insert(rows, i, row)
	end
	for _, row in ipairs(last) do
		table.insert(rows, row)
	end
	return layout(rows)
end

local data = chunk_layout({
	{ 4, "seq", "Sequence number" },
	{ 4, "una", "Lowest number the sender waits for; of a box: time held (us), or batch" },
}, {
	{ 1, "box.prio", "Priority at the box" },
	{ 1, "box.chunks", "Chunks that a header without payload asks a box for, or acknowledges" },
	{ 2, "box.ranks", "Ranks in a partial sum of a box" },
})

local direct = chunk_layout({
	{ 8, "complete", "Operations complete, from the base on", base.HEX },
}, {
	{ 4, "base", "Number of the bitmap's first bit" },
})

-- Has a DIRECT numbers, as RS and AG have? By halving.
local function is_numbered(buf)
	return buf:len() >= DATA_HEADER and math.floor(buf(52, 2):uint() / 4096) == 4
end

local done = layout {
	{ 8, "below", "Operations complete below" },
	{ 8, "map", "Operations complete, from the base on", base.HEX },
	{ 8, "op_seq", "Operation" },
	{ 8, "lacks", "Chunks of the receiver that have not come", base.HEX },
	{ 4, "done.flags", "Flags", base.HEX, {
		{ 0x00000001, "ask", "Asks for an answer" },
		{ 0x00000002, "stream", "Acknowledges chunks of a keyed reduction" },
		{ 0x00000004, "full", "Chunks are refused" },
		{ 0x00000008, "open", "Chunks that were refused may come" },
		{ 0x00000010, "ce", "A chunk came with the CE mark" },
		{ 0x00000020, "all", "All chunks of all ranks have come" },
		{ 0x00000040, "una", "Asks for a PEER_ACK" },
	} },
	{ 4, "chunk", "Chunk" },
}

local rail = layout {
	{ 1, "rail.n", "Further addresses of the sender" },
	{ 1, "rail.flags", "Flags", base.HEX, {
		{ 0x01, "answer", "An answer" },
	} },
	{ 6 },
	{ 112, "rail.addr", "The addresses" },
}

local pair = layout {
	{ 8, "challenge", "Challenge", base.HEX },
	{ 4, "bytes", "Length of the question (bytes)" },
	{ 4 },
}

local slow = {
	{ 8, "slow.wanted", "Operations posted by the fastest rank" },
	{ 4, "slow.ms", "Straggler kept others waiting (ms)" },
	{ 2, "slow.rank", "Straggler", no_rank16 },
	{ 2 },
}

local ack = layout {
	{ 4, "cum", "All numbers below are received" },
	{ 4, "base", "Number of the bitmap's first bit" },
	{ 8, "posted", "Operations posted by the receiver" },
	{ 4, "credit", "Credit for later operations (bytes)" },
	{ 4, "delay_us", "Delay of this packet (us)" },
	{ 4, "ce", "Chunks with a congestion mark" },
	{ 4, "come", "Chunks of each block posted" },
	{ 4, "done", "Operations complete at the sender" },
	{ 4, "dups", "Chunks received again" },
	slow[1], slow[2], slow[3], slow[4],
	{ 32, "bitmap", "Bitmap of received numbers" },
}

local probe = layout {
	{ 4, "una", "Lowest number the sender waits for" },
	{ 4, "done", "Operations complete at the sender" },
	slow[1], slow[2], slow[3], slow[4],
	{ 8, "op_seq", "Operation" },
	{ 8, "count", "Elements of the operation" },
	kind[1], kind[2], kind[3], kind[4], kind[5],
	{ 1 },
}

local chunks_flags = {
	{ 0x00000001, "handed", "RETURN: partial sums are on the way in the ring; WANT: the batch was refused" },
}

local chunks = layout {
	{ 8, "op_seq", "Operation" },
	{ 4, "chunks.first", "Chunk of the first bit" },
	{ 4, "until", "The box wants nothing of operations below" },
	{ 4, "chunks.flags", "Flags", base.HEX, chunks_flags },
	{ 4 },
	{ 32, "map", "Bitmap of chunks, eight little-endian bytes at a time" },
}

local entered_flags = {
	{ 0x00000001, "any_order", "Only sums whose order has no effect" },
	{ 0x00000002, "broadcast", "Broadcasts, too" },
	{ 0x00000004, "reduce", "Reductions to a root, too" },
	{ 0x00000008, "keyed", "Combines records of reductions by key" },
	{ 0x00000010, "in_turn", "Partial sums go from box to box" },
	{ 0x00000020, "encrypt", "Elements are encrypted" },
}

local enter = layout {
	{ 8, "digest", "Digest of the table", base.HEX },
	{ 8, "nonce", "Sender's nonce", base.HEX },
	{ 8, "cookie", "Cookie of the box", base.HEX },
	{ 4, "payload", "Payload (bytes)" },
	{ 2, "enter.size", "Members" },
	{ 2 },
	{ 8, "ranks", "Ranks of the box that enters (mask)", base.HEX },
	{ 4, "enter.flags", "Flags", base.HEX, entered_flags },
	{ 4 },
}

local entered = layout {
	{ 8, "nonce", "Sender's nonce", base.HEX },
	{ 8, "cookie", "Cookie of the box", base.HEX },
	{ 8, "epoch", "New epoch", base.HEX },
	{ 4, "entered.flags", "Flags", base.HEX, entered_flags },
	{ 4 },
}

local join_flags = {
	{ 0x0001, "small", "Not padded" },
	{ 0x0002, "hosts", "Schedule by hosts" },
	{ 0x0004, "big", "Big-endian sender" },
	{ 0x0008, "auto", "Schedule auto" },
	{ 0x0010, "direct", "Schedule direct" },
	{ 0x0020, "encrypt", "Elements are encrypted" },
	{ 0x0040, "doubling", "Schedule doubling" },
}

local join = layout {
	{ 8, "nonce", "Sender's nonce", base.HEX },
	{ 4, "size", "Members" },
	{ 4, "payload", "Payload (bytes)" },
	{ 2, "port", "UDP port for answers" },
	{ 2, "join.flags", "Flags", base.HEX, join_flags },
	{ 4 },
	{ 8, "proof", "Proof of the key", base.HEX },
}

local members = layout {
	{ 8, "drawn", "Number of the proposal", base.HEX },
	{ 8, "digest", "Digest of the table", base.HEX },
	{ 8, "resume", "Lowest operation not complete everywhere" },
	{ 8, "resume_epoch", "Its epoch", base.HEX },
	{ 4, "payload", "Payload (bytes)" },
	{ 2, "payload_rank", "Rank whose link limits the payload" },
	{ 2, "first", "First rank of this packet" },
	{ 2, "n", "Members in this packet" },
	{ 2, "table.flags", "Flags", base.HEX, {
		{ 0x0001, "differ", "Epochs differ" },
		{ 0x0002, "apart", "A rank does not reach all others" },
		{ 0x0004, "paired", "Every rank reaches every other rank" },
		{ 0x0008, "box", "Boxes follow" } } },
	{ 4, "borders.direct", "Longest operation that is exchanged directly (bytes)" },
	{ 4, "borders.doubling", "Longest operation that goes by doubling (bytes)" },
	{ 4, "borders.halving", "Longest operation that goes by halving (bytes)" },
	{ 4 },
	{ 4, "caps.collectives", "Collectives of all members", base.HEX },
	{ 64, "caps.dtypes", "Types of each reduction" },
}

local member = layout {
	{ 8, "member.nonce", "Nonce", base.HEX },
	{ 16, "member.addr", "Address bytes" },
	{ 2, "member.af", "Address family", { [4] = "IPv4", [6] = "IPv6" } },
	{ 2, "member.port", "UDP port" },
	{ 2, "member.user", "User's rank, exclusive-or the rank" },
	{ 2, "member.payload", "Payload of the link", base.HEX, {
		{ 0x7fff, "bytes", "Bytes" },
		{ 0x8000, "beside", "In one kernel with the rank before" } } },
}

local box = layout {
	{ 16, "box.addr", "Address bytes of the box" },
	{ 2, "box.af", "Address family of the box", { [4] = "IPv4", [6] = "IPv6" } },
	{ 2, "box.port", "UDP port of the box" },
	{ 4 },
}

local notice = layout {
	{ 4, "err", "Error", errnos },
	{ 4, "reason", "Reason", reasons },
	{ 4, "rank", "Rank", no_rank32 },
	{ 4, "other", "Second rank", no_rank32 },
	{ 8, "op_seq", "Operation" },
	{ 4, "silent_ms", "Silent for (ms)" },
	{ 4 },
	{ 8, "value", "What the rank passed" },
	{ 8, "other_value", "What the second rank passed" },
}

local reject = layout {
	{ 4, "err", "Error", errnos },
	{ 4, "reason", "Reason", reasons },
	{ 4, "rank", "Rank", no_rank32 },
	{ 4, "other", "Second rank", no_rank32 },
	{ 8, "op_seq", "1: no stranger can hold the rank" },
	{ 8, "proof", "Proof of the key", base.HEX },
}

-- The structure after the common header, and the smallest packet.
local layouts = {
	[RS] = { data, 64 }, [AG] = { data, 64 }, [ACK] = { ack, 112 }, [PROBE] = { probe, 72 },
	[JOIN] = { join, 56 }, [JOIN_ACK] = { join, 56 }, [REJECT] = { reject, 56 },
	[COLLECT] = { members, 152 }, [PROPOSE] = { members, 152 }, [COMMIT] = { members, 152 },
	[ABORT] = { notice, 56 }, [RESET] = { {}, 24 }, [FIN] = { notice, 56 },
	[FIN_ACK] = { notice, 56 }, [LATE] = { notice, 56 },
	[DIRECT] = { direct, 64 }, [DONE] = { done, 64 }, [PAIR] = { pair, 40 },
	[PAIR_ACK] = { pair, 40 },
	[WANT] = { chunks, 80 }, [RETURN] = { chunks, 80 }, [ENTER] = { enter, 72 },
	[ENTERED] = { entered, 56 }, [OFFER] = { box, 48 }, [PEER_ACK] = { ack, 112 },
	[RAIL] = { rail, 144 },
}

local f_tag = field("seal.tag", ProtoField.bytes, "Tag of the seal")
local f_counter = field("seal.counter", ProtoField.uint64, "Counter of the seal")
local f_verdict = field("seal.verdict", ProtoField.string, "What rar_unseal says of the seal")
local f_comment = Field.new("frame.comment")
local f_chunks = field("chunks", ProtoField.uint8, "Chunks in the superpacket")
local f_data = field("data", ProtoField.bytes, "Elements")
local f_ip4 = field("member.ip", ProtoField.ipv4, "Address")
local f_ip6 = field("member.ip6", ProtoField.ipv6, "Address")
local f_member = field("member", ProtoField.none, "Member")
rar.fields = fields

-- ------------------------------------------------------------------ expert information

local ef = {}

local function expert_info(name, text, group, severity)
	ef[name] = ProtoExpert.new("rar." .. name, text, group, severity)
end

expert_info("malformed", "Malformed packet", expert.group.MALFORMED, expert.severity.ERROR)
expert_info("failure", "The group fails", expert.group.RESPONSE_CODE, expert.severity.ERROR)
expert_info("died", "A process ended without close()", expert.group.RESPONSE_CODE,
	    expert.severity.WARN)
expert_info("other_version", "Another version of the protocol", expert.group.PROTOCOL,
	    expert.severity.WARN)
expert_info("not_authentic", "The seal is of another key, or the packet is forged", expert.group.SECURITY,
	    expert.severity.WARN)
expert_info("cut", "The capture holds only the beginning of this packet",
	    expert.group.UNDECODED, expert.severity.NOTE)
rar.experts = ef

local function malformed(tree, text)
	tree:add_proto_expert_info(ef.malformed, "Malformed: " .. text)
end

-- ------------------------------------------------------------------ one packet

-- Add the rows of a layout to the tree as far as they were captured. Returns the values by
-- name (numbers up to four bytes, else UInt64), the items, and the end of the layout.
local function add_rows(tree, buf, off, rows)
	local values, items = {}, {}

	for _, row in ipairs(rows) do
		local size, name = row[1], row[2]

		if off + size > buf:len() then
			break
		end
		if name then
			local range = buf(off, size)
			local item = tree:add(row.field, range)

			items[name] = item
			if size <= 4 then
				values[name] = range:uint()
			elseif size == 8 then
				values[name] = range:uint64()
			end
			for _, flag in ipairs(row[5] or {}) do
				item:add(flag.field, range)
			end
		end
		off = off + size
	end
	return values, items, off
end

-- List the names whose bits are set.
local function names_of_bits(bits, names)
	local list = {}

	for i = 1, 31 do
		if bit.band(bits, bit.lshift(1, i)) ~= 0 then
			list[#list + 1] = names[i] or tostring(i)
		end
	end
	return #list > 0 and table.concat(list, " ") or "none"
end

local function name(names, value)
	return names[value] or ("unknown (%d)"):format(value)
end

local function show_data(tree, buf, v, items)
	for key, names in pairs({ collective = collectives, dtype = dtypes, redop = redops }) do
		if v[key] and v[key] ~= 0 and not names[v[key]] then
			malformed(items[key], "unknown " .. key)
		end
	end
	if buf:len() > DATA_HEADER then
		tree:add(f_data, buf(DATA_HEADER))
	end
	if v.mode then
		items.mode:append_text((" (%s)"):format(name(ways, math.floor(v.mode / 0x1000))))
	end
	if v.redop then
		return (" op %s chunk %d%s %s %s %s"):format(tostring(v.op_seq), v.chunk,
			v.seq and (" seq %d"):format(v.seq) or "", name(collectives, v.collective), name(dtypes, v.dtype), name(redops, v.redop))
	end
	return ""
end

local function show_ack(_, buf, v, items)
	local got = 0

	if not items.bitmap then
		return ""
	end
	for i = 0, 31 do
		local byte = buf(80 + i, 1):uint()

		while byte > 0 do
			got, byte = got + byte % 2, math.floor(byte / 2)
		end
	end
	items.bitmap:append_text((" (%d received)"):format(got))
	return (" all below %d and %d more, posted %s, credit %d"):format(v.cum, got,
		tostring(v.posted), v.credit)
end

local function show_probe(_, _, v)
	return v.una and (" una %d"):format(v.una) or ""
end

local function show_join(_, _, v)
	return v.payload and (" size %d payload %d"):format(v.size, v.payload) or ""
end

local function show_caps(buf, items)
	if items["caps.collectives"] then
		items["caps.collectives"]:append_text(" (" ..
			names_of_bits(buf(84, 4):uint(), collectives) .. ")")
	end
	for i = 1, items["caps.dtypes"] and 15 or 0 do
		local range = buf(88 + 4 * i, 4)

		if range:uint() ~= 0 then
			items["caps.dtypes"]:add(range, name(redops, i) .. ": " ..
						 names_of_bits(range:uint(), dtypes))
		end
	end
end

local function show_member(tree, buf, off, rank)
	local item = tree:add(f_member, buf(off, MEMBER))
	local v = add_rows(item, buf, off, member)
	local ip = v["member.af"] == 4 and buf(off + 8, 4) or buf(off + 8, 16)

	item:set_text(("Rank %d"):format(rank))
	if v["member.af"] == 4 then
		item:add(f_ip4, ip)
		item:append_text((": %s port %d"):format(tostring(ip:ipv4()), v["member.port"]))
	elseif v["member.af"] == 6 then
		item:add(f_ip6, ip)
		item:append_text((": %s port %d"):format(tostring(ip:ipv6()), v["member.port"]))
	else
		malformed(item, "the member has no address")
	end
end

local function show_table(tree, buf, v, items, len)
	local off, more = 152, 0

	show_caps(buf, items)
	if not v.n then
		return ""
	end
	if buf(1, 1):uint() == PROPOSE and math.floor((v["table.flags"] or 0) / 8) % 2 == 1 then
		more = len - off - v.n * MEMBER
	end
	if v.n > TABLE_MAX or len ~= off + v.n * MEMBER + more then
		malformed(items.n, "the members do not fill the packet")
	elseif more < 0 or more % BOX > 0 or more > MAX_BOXES * BOX then
		malformed(items.n, "the boxes do not fill the packet")
	end
	for i = 0, math.min(v.n, TABLE_MAX) - 1 do
		if off + MEMBER > buf:len() then
			break
		end
		show_member(tree, buf, off, v.first + i)
		off = off + MEMBER
	end
	while more >= BOX and off + BOX <= buf:len() do
		add_rows(tree, buf, off, box)
		off, more = off + BOX, more - BOX
	end
	if v.n == 0 then			-- COMMIT has none
		return (" payload %d"):format(v.payload)
	end
	return (" payload %d, %d members from rank %d"):format(v.payload, v.n, v.first)
end

local function show_notice(_, _, v, items)
	if not v.rank then
		return ""
	end
	if v.reason ~= 0 and not reasons[v.reason] then
		malformed(items.reason, "unknown reason")
	end
	return (" %s, rank %s, %s"):format(name(reasons, v.reason), no_rank32[v.rank] or v.rank,
		name(errnos, v.err))
end

local function show_offer(_, buf, v)
	local ip

	if not v["box.port"] then
		return ""
	end
	ip = v["box.af"] == 4 and tostring(buf(24, 4):ipv4()) or tostring(buf(24, 16):ipv6())
	return (" box %s port %d"):format(ip, v["box.port"])
end

local shows = {
	[data] = show_data, [direct] = show_data, [ack] = show_ack, [probe] = show_probe,
	[join] = show_join,
	[members] = show_table, [notice] = show_notice, [box] = show_offer,
}

-- Mark the packets that end a group or report its end.
local function mark_failures(tree, t, v)
	if t == ABORT or t == REJECT then
		tree:add_proto_expert_info(ef.failure, ("%s: %s, rank %s"):format(types[t],
			v.reason and name(reasons, v.reason) or "?",
			v.rank and (no_rank32[v.rank] or tostring(v.rank)) or "?"))
	elseif t == RESET then
		tree:add_proto_expert_info(ef.failure, "RESET: the sender does not know this epoch")
	elseif t == FIN and v.reason and reasons[v.reason] == "died" then
		tree:add_proto_expert_info(ef.died)
	end
end

-- Return what rar_unseal found in this frame: one verdict for all packets, or each one's.
local function get_verdicts()
	local list = {}

	for _, comment in ipairs({ f_comment() }) do
		local text = tostring(comment.value):match("^rar_unseal: (.*)") or ""

		for verdict in text:gmatch("[^,]+") do
			list[#list + 1] = verdict:match("^ *(.*)")
		end
	end
	return list
end

local function show_verdict(tree, verdict)
	if verdict then
		tree:add(f_verdict, verdict):set_generated()
	end
	if verdict == "not authentic" then
		tree:add_proto_expert_info(ef.not_authentic)
	end
end

-- Show the seal at the end of a packet of @len bytes, if it has one. Returns the packet without it.
local function dissect_seal(buf, tree, len)
	if buf:len() < HEADER or len ~= HEADER + buf(6, 2):uint() + SEAL then
		return buf, len
	end
	if buf:len() == len then
		tree:add(f_tag, buf(len - SEAL, 16))
		tree:add(f_counter, buf(len - 8, 8))
	end
	len = len - SEAL
	return buf(0, math.min(len, buf:len())):tvb(), len
end

-- Dissect one packet, or one chunk of a superpacket, of @len bytes on the wire; fewer may be
-- captured. Returns the text for the column.
local function dissect(buf, tree, len, verdict)
	local h, items = add_rows(tree, buf, 0, header)
	local t, known = h.type, layouts[h.type]
	local text, rows, v, vitems

	buf, len = dissect_seal(buf, tree, len)
	show_verdict(tree, verdict)
	if h.version and h.version % 16 ~= VERSION then
		items.version:add_proto_expert_info(ef.other_version)
		return ("version %d"):format(h.version % 16)
	end
	if not h.len then
		return "cut"
	end
	if not known then
		malformed(items.type, "unknown type")
		return ("unknown type %d"):format(t)
	end
	text = ("%s %d -> %d"):format(types[t], h.src, h.dst)
	if len < known[2] then
		malformed(tree, "shorter than its structure")
	elseif len ~= HEADER + h.len then
		malformed(items.len, "not the length of the packet")
	end
	rows = t == DIRECT and is_numbered(buf) and data or known[1]
	v, vitems = add_rows(tree, buf, HEADER, rows)
	if shows[rows] then
		text = text .. shows[rows](tree, buf, v, vitems, len)
	end
	mark_failures(tree, t, v)
	if buf:len() < len then
		tree:add_proto_expert_info(ef.cut)
	end
	return text
end

-- ------------------------------------------------------------------ superpackets

-- The bytes from one header to the next, if this is a superpacket; else its length.
local function stride_of(buf, len)
	local stride

	if buf:len() < HEADER or buf(0, 1):uint() ~= MAGIC * 16 + VERSION or
	   buf(1, 1):uint() > AG or buf(1, 1):uint() < RS then
		return len
	end
	stride = HEADER + buf(6, 2):uint()
	if stride <= DATA_HEADER or stride >= len then
		return len
	end
	-- With seals the next header is behind the seal.
	if buf:len() >= stride + HEADER and buf:raw(stride + 8, 16) ~= buf:raw(8, 16) then
		stride = stride + SEAL
	end
	return math.min(stride, len)
end

-- Does the header of chunk @i follow from the first header, as the receiver demands?
local function follows(first, buf, i, len, seal)
	if buf(6, 2):uint() ~= len - HEADER - seal then
		return false
	end
	for _, off in ipairs({ 24, 48 }) do		-- seq and chunk
		if buf(off, 4):uint() ~= (first(off, 4):uint() + i) % 2 ^ 32 then
			return false
		end
	end
	-- Only one flag may differ.
	if bit.band(bit.bxor(first(59, 1):uint(), buf(59, 1):uint()), 0xfe) ~= 0 then
		return false
	end
	for _, part in ipairs({ { 0, 6 }, { 8, 16 }, { 28, 20 }, { 52, 7 }, { 60, 4 } }) do
		if first:raw(part[1], part[2]) ~= buf:raw(part[1], part[2]) then
			return false
		end
	end
	return true
end

local function dissect_chunks(buf, tree, len, stride, verdicts)
	local n = math.ceil(len / stride)
	local first = buf(0, math.min(stride, buf:len())):tvb()
	local seal = stride - HEADER - buf(6, 2):uint()
	local texts = {}

	tree:add(f_chunks, n):set_generated()
	if n > RUN_MAX then
		malformed(tree, "too many chunks")
	end
	for i = 0, n - 1 do
		local off = i * stride
		local here = math.min(stride, len - off)
		local captured = math.min(here, buf:len() - off)
		local part, sub

		if captured <= 0 then
			tree:add_proto_expert_info(ef.cut)
			break
		end
		part = buf(off, captured):tvb()
		sub = tree:add(part(), ("Chunk %d of %d of the superpacket"):format(i + 1, n))
		if captured >= DATA_HEADER and not follows(first, part, i, here, seal) then
			malformed(sub, "the header does not follow from the first header")
		end
		texts[#texts + 1] = dissect(part, sub, here, verdicts[#verdicts == 1 and 1 or i + 1])
	end
	return ("%s (+%d chunks)"):format(texts[1], n - 1)
end

function rar.dissector(buf, pinfo, tree)
	local len = buf:reported_len()
	local verdicts = get_verdicts()
	local item, stride, text

	if buf:len() < 1 or bit.rshift(buf(0, 1):uint(), 4) ~= MAGIC then
		return 0
	end
	pinfo.cols.protocol = "RAR"
	item = tree:add(rar, buf())
	if len < HEADER then
		malformed(item, "shorter than the header")
		pinfo.cols.info = "short packet"
		return buf:len()
	end
	stride = stride_of(buf, len)
	if stride < len then
		text = dissect_chunks(buf, item, len, stride, verdicts)
	else
		text = dissect(buf, item, len, verdicts[1])
	end
	pinfo.cols.info = text
	item:append_text(", " .. text)
	return buf:len()
end

-- ------------------------------------------------------------------ which packets

-- On any port: the first byte, a known type, and a length that fits.
local function is_rar(buf)
	local len = buf:reported_len()

	if buf:len() < HEADER or buf(0, 1):uint() ~= MAGIC * 16 + VERSION or
	   not layouts[buf(1, 1):uint()] or len < layouts[buf(1, 1):uint()][2] then
		return false
	end
	return HEADER + buf(6, 2):uint() == len or HEADER + buf(6, 2):uint() + SEAL == len or
	       stride_of(buf, len) < len
end

rar:register_heuristic("udp", function(buf, pinfo, tree)
	if not is_rar(buf) then
		return false
	end
	rar.dissector(buf, pinfo, tree)
	return true
end)

DissectorTable.get("udp.port"):add(DEFAULT_PORT, rar)
