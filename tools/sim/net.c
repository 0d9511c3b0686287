// SPDX-License-Identifier: GPL-2.0
/*
 * The network and the hosts: events in the order of their time, CPUs that do one thing after the
 * other, and links with a speed, a delay and losses.
 *
 * A fold: in a ring of equal ranks, and of blocks of equal length, rank r + k does with block
 * b + k exactly what rank r does with block b. So the first ranks stand for all of them: what the
 * last of these sends goes to the first, as the block that corresponds. A loss, too, then happens
 * at all ranks that one stands for.
 */
#include "sim.h"

struct event {
	u64 at, order;
	struct sim_rank *rank;
	void *what;
	enum sim_kind kind;
};

struct work {
	struct work *next;
	struct event event;
};

struct cpu {
	u64 free, busy;
	struct work *first, **last;
	bool waiting;		/* a SIM_CPU is among the events */
};

u64 sim_ns;

static u64 random_state;
static struct event *heap;
static u64 heap_n, heap_room, order;
static struct cpu *cpus;
static struct work *spare;

/* ------------------------------------------------------------ events */

static bool sooner(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void insert(struct event e)
{
	u64 i = heap_n++, up;

	if (heap_n > heap_room) {
		heap_room = 2 * heap_n;
		heap = realloc(heap, heap_room * sizeof(*heap));
	}
	for (; i; i = up) {
		up = (i - 1) / 2;
		if (!sooner(&e, &heap[up]))
			break;
		heap[i] = heap[up];
	}
	heap[i] = e;
}

static struct event earliest(void)
{
	struct event e = heap[0], last = heap[--heap_n];
	u64 i, child;

	for (i = 0; (child = 2 * i + 1) < heap_n; i = child) {
		child += child + 1 < heap_n && sooner(&heap[child + 1], &heap[child]);
		if (!sooner(&heap[child], &last))
			break;
		heap[i] = heap[child];
	}
	heap[i] = last;
	return e;
}

void sim_at(u64 ns, enum sim_kind kind, struct sim_rank *rank, void *what)
{
	insert((struct event){ .at = ns, .order = order++, .kind = kind, .rank = rank,
			       .what = what });
}

/* ------------------------------------------------------------ CPUs */

static struct cpu *cpu_of(const struct sim_rank *rank)
{
	u32 i = rank - sim_ranks;

	return &cpus[sim_set.cpus ? i % sim_set.cpus : i];
}

/* The CPU that runs now works for that long. */
void sim_spend(const struct sim_rank *rank, u64 ns)
{
	if (rank - sim_ranks == sim_set.slow)
		ns *= sim_set.slow_by;
	sim_ns += ns;
}

static void work_on(struct cpu *cpu, const struct event *e)
{
	u64 since = sim_ns;

	sim_handle(e->kind, e->rank, e->what);
	cpu->free = sim_ns;
	cpu->busy += sim_ns - since;
	sim_got.busy = max(sim_got.busy, cpu->busy);
}

static void come_back(struct cpu *cpu)
{
	if (cpu->waiting || !cpu->first)
		return;
	cpu->waiting = true;
	sim_at(cpu->free, SIM_CPU, NULL, cpu);
}

static void enqueue(struct cpu *cpu, const struct event *e)
{
	struct work *w = spare;

	if (w)
		spare = w->next;
	else
		w = malloc(sizeof(*w));
	*w = (struct work){ .event = *e };
	if (!cpu->first)
		cpu->last = &cpu->first;
	*cpu->last = w;
	cpu->last = &w->next;
}

static void work_first(struct cpu *cpu)
{
	struct work *w = cpu->first;

	cpu->waiting = false;
	cpu->first = w->next;
	work_on(cpu, &w->event);
	w->next = spare;
	spare = w;
	come_back(cpu);
}

/* Handle the next event. Returns false if there is none until @until. */
bool sim_next_event(u64 until)
{
	struct cpu *cpu;
	struct event e;

	if (!heap_n || heap[0].at > until)
		return false;
	e = earliest();
	sim_ns = e.at;
	sim_got.events++;
	switch (e.kind) {
	case SIM_CPU:
		work_first(e.what);
		return true;
	case SIM_PORT:
		sim_port(e.rank, e.what);
		return true;
	case SIM_TCP_PACKET:
		sim_tcp_receive(e.what);
		return true;
	case SIM_TCP_ACK:
		sim_tcp_ack(e.what);
		return true;
	case SIM_TCP_TIMER:
		sim_tcp_timer(e.what);
		return true;
	default:
		break;
	}
	cpu = cpu_of(e.rank);
	if (!cpu->first && cpu->free <= sim_ns) {
		work_on(cpu, &e);
	} else {
		enqueue(cpu, &e);
		come_back(cpu);
	}
	return true;
}

/* ------------------------------------------------------------ links */

void sim_random_begin(void)
{
	random_state = sim_set.seed * 0x9e3779b97f4a7c15ULL | 1;
}

/* At random, from 0 up to but not including 1. */
double sim_random_share(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) / 9007199254740992.0;
}

static u64 wire_ps(u64 bytes)
{
	return sim_set.bps ? bytes * 8e12 / sim_set.bps : 0;
}

bool sim_is_data(const struct sk_buff *skb)
{
	const struct rar_hdr *h = (const void *)skb->data;

	return h->type == RAR_T_RS || h->type == RAR_T_AG || h->type == RAR_T_DIRECT;
}

/* Bytes from one chunk's header to the next one's. */
static u32 stride(void)
{
	return sizeof(struct rar_data_hdr) + sim_ranks->m.payload;
}

/* The chunks [@i, @i + @n) of a superpacket, as a packet of its own. */
struct sk_buff *sim_part_of(const struct sk_buff *skb, u32 i, u32 n)
{
	u32 len = min(skb->len - i * stride(), n * stride());
	struct sk_buff *part = alloc_skb(len, 0);
	struct rar_data_hdr *dh;

	part->len = len;
	part->chunks = n;
	memcpy(part->data, skb->data, sizeof(*dh));
	if (sim_set.numbers)
		memcpy(part->data, skb->data + i * stride(), len);
	dh = (void *)part->data;
	if (dh->h.type != RAR_T_DIRECT || rar_mode_is_numbered(be16_to_cpu(dh->mode)))
		dh->seq = cpu_to_be32(be32_to_cpu(((struct rar_data_hdr *)skb->data)->seq) + i);
	dh->chunk = cpu_to_be32(be32_to_cpu(((struct rar_data_hdr *)skb->data)->chunk) + i);
	return part;
}

/* After the last rank of a fold comes the first: a block there has another number. */
static void fold_chunk(struct sk_buff *skb)
{
	struct rar_data_hdr *dh = (void *)skb->data;
	u32 chunk = be32_to_cpu(dh->chunk), cpb = sim_ring.cpb;
	u32 block = (chunk / cpb + sim_set.ranks - sim_set.fold) % sim_set.ranks;

	dh->chunk = cpu_to_be32(block * cpb + chunk % cpb);
}

/*
 * Deliver what is left of a packet. Of a superpacket each chunk is a packet on the wire; those
 * that follow one another come together.
 */
static void deliver(struct sim_rank *to, struct sk_buff *skb, u64 at)
{
	u32 n = sim_set.whole || !sim_is_data(skb) ? 1 : skb->chunks, i, first = 0, gone = 0;

	for (i = 0; i < n && sim_set.loss; i++) {
		if (sim_random_share() >= sim_set.loss)
			continue;
		if (i > first)
			sim_at(at, SIM_PACKET, to, sim_part_of(skb, first, i - first));
		first = i + 1;
		gone++;
	}
	sim_got.lost += gone;
	if (!gone) {
		sim_at(at, SIM_PACKET, to, skb);
		return;
	}
	if (first < n)
		sim_at(at, SIM_PACKET, to, sim_part_of(skb, first, n - first));
	sim_skb_free(skb);
}

/* Send a packet to a rank; it is consumed. */
void sim_send(struct sim_rank *from, struct sk_buff *skb, u32 rank)
{
	u32 packets = sim_is_data(skb) && !sim_set.whole ? skb->chunks : 1;
	u64 bytes = skb->len + packets * (u64)(sim_set.frame + SIM_IP_UDP);
	u32 to = rank;

	/* Beyond the ranks of a fold are the others, which they stand for. */
	if (rank >= sim_set.fold)
		to = rank == sim_set.fold ? 0 : sim_set.fold - 1;
	if (rank == sim_set.fold && sim_is_data(skb))
		fold_chunk(skb);
	if (sim_set.queue) {
		sim_switch_send(from, skb, &sim_ranks[to]);
		return;
	}
	from->device_ps = max(from->device_ps, sim_ns * 1000) + wire_ps(bytes);
	deliver(&sim_ranks[to], skb, from->device_ps / 1000 + sim_set.delay);
}

/* ------------------------------------------------------------ begin and end */

void sim_net_begin(void)
{
	sim_ns = 0;
	order = 0;
	sim_random_begin();
	cpus = calloc(sim_set.cpus ?: sim_set.fold, sizeof(*cpus));
}

static bool has_packet(enum sim_kind kind)
{
	return kind == SIM_PACKET || kind == SIM_PORT || kind == SIM_TCP_PACKET ||
	       kind == SIM_TCP_ACK;
}

void sim_net_end(void)
{
	struct work *w;

	while (heap_n)
		if (has_packet(heap[--heap_n].kind))
			sim_skb_free(heap[heap_n].what);
	while ((w = spare)) {
		spare = w->next;
		free(w);
	}
	free(heap);
	free(cpus);
	heap = NULL;
	cpus = NULL;
	heap_room = 0;
}
