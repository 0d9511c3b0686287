// SPDX-License-Identifier: GPL-2.0
/* The headers of a run: each follows from the first, and no other header is taken for one. */
#include <string.h>

#include "core/hdr.h"
#include "tap.h"
#include "util.h"

#define RUN	64		/* chunks */
#define ROUNDS	1000

static u64 rng;

/* A random header of a first chunk. Its numbers may wrap within the run. */
static struct rar_data_hdr first_hdr(void)
{
	struct rar_data_hdr dh;
	u8 *byte = (u8 *)&dh;
	size_t i;

	for (i = 0; i < sizeof(dh); i++)
		byte[i] = rnd(&rng);
	if (rnd_below(&rng, 2))
		dh.seq = cpu_to_be32(-(u32)rnd_below(&rng, RUN));
	dh.chunk = cpu_to_be32(rnd_below(&rng, 1U << 30));
	return dh;
}

/* The header of chunk @i, field by field. */
static struct rar_data_hdr nth(const struct rar_data_hdr *first, u32 i, u32 len)
{
	struct rar_data_hdr dh = *first;

	dh.h.len = cpu_to_be16(sizeof(dh) - sizeof(dh.h) + len);
	dh.seq = cpu_to_be32(be32_to_cpu(first->seq) + i);
	dh.chunk = cpu_to_be32(be32_to_cpu(first->chunk) + i);
	return dh;
}

static void test_written(void)
{
	struct rar_data_hdr first, want;
	struct rar_hdr_words got;
	u32 round, i, len, bad = 0;

	for (round = 0; round < ROUNDS; round++) {
		first = first_hdr();
		for (i = 0; i < RUN; i++) {
			len = rnd_below(&rng, 65536 - sizeof(first));
			rar_hdr_nth((void *)&first, i, len, &got);
			want = nth(&first, i, len);
			bad += memcmp(&got, &want, sizeof(want)) != 0;
			bad += !rar_hdr_is_nth((void *)&first, i, len, true, &got);
		}
	}
	tap_ok(!bad, "headers are written as their fields say");
}

/* Without numbers all headers say the same there; one that counts on is no header of the run. */
static void test_unnumbered(void)
{
	struct rar_data_hdr first = first_hdr(), dh;
	u32 i, len = 1408, refused = 0, accepted = 0;

	for (i = 1; i < RUN; i++) {
		dh = nth(&first, i, len);
		refused += !rar_hdr_is_nth((void *)&first, i, len, false, (void *)&dh);
		dh.seq = first.seq;
		accepted += rar_hdr_is_nth((void *)&first, i, len, false, (void *)&dh);
	}
	tap_ok(refused == RUN - 1 && accepted == RUN - 1, "headers without numbers");
}

/* A header with one other bit is no header of the run, unless it only asks for an ACK. */
static void test_flipped(void)
{
	u32 i, bit, len = 1408, accepted = 0, asked = 0;
	const u32 ask = 8 * offsetof(struct rar_data_hdr, flags);
	struct rar_data_hdr first = first_hdr(), dh;

	_Static_assert(RAR_F_ACK_NOW == 1, "the lowest bit of the flags");
	for (i = 0; i < RUN; i++) {
		for (bit = 0; bit < 8 * sizeof(dh); bit++) {
			dh = nth(&first, i, len);
			((u8 *)&dh)[bit / 8] ^= 1 << bit % 8;
			if (!rar_hdr_is_nth((void *)&first, i, len, true, (void *)&dh))
				continue;
			accepted++;
			asked += bit == ask;
		}
	}
	tap_ok(accepted == RUN && asked == RUN, "a header with one other bit is refused");
}

static void test_ack_now(void)
{
	struct rar_data_hdr dh = first_hdr();
	bool asks, not;

	dh.flags = RAR_F_ACK_NOW;
	asks = rar_hdr_ack_now((void *)&dh);
	dh.flags = ~RAR_F_ACK_NOW;
	not = !rar_hdr_ack_now((void *)&dh);
	dh.flags = 0;
	((struct rar_hdr_words *)&dh)->w[7] |= RAR_HDR_ACK_NOW;
	tap_ok(asks && not && dh.flags == RAR_F_ACK_NOW, "the request for an acknowledgment");
}

int main(void)
{
	rng = seed_get();
	tap_begin();
	tap_note("SEED=%llu", (unsigned long long)rng);
	test_written();
	test_flipped();
	test_unnumbered();
	test_ack_now();
	return tap_end();
}
