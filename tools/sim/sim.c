// SPDX-License-Identifier: GPL-2.0
/* sim: options of a simulation, and what it prints. */
#include "core/gather.h"
#include "sim.h"

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>

static const char usage[] =
"Usage: sim [OPTIONS]\n"
"Simulates all-reduces in a ring of AF_RAR. The code of the module's link and ring layers runs\n"
"as it is; the network, the hosts and the users are simulated. Prints a line of words NAME=VALUE;\n"
"its exit status is 0, or 1 if an operation hung or a sum is wrong.\n"
"\n"
"What runs:\n"
"  -n, --ranks N         ranks of the ring, 2 .. 65535 (16)\n"
"  -b, --bytes SIZE      of an operation, a multiple of 8; k, M, G (1M)\n"
"      --schedule NAME   ring, direct (up to 16 ranks), doubling or halving, for any length;\n"
"                        auto: as RAR_AUTO chooses (ring)\n"
"      --collective NAME allreduce, broadcast, reduce, reduce_scatter or allgather (allreduce)\n"
"      --root RANK       of a broadcast or reduction (0)\n"
"  -r, --ops N           operations, each of which begins when all ranks have the last sum (5)\n"
"  -f, --fold N          N of the ranks stand for all of them: N divides the number of ranks,\n"
"                        blocks are equally long, and no rank differs (all ranks)\n"
"      --coarse          a block is one event at each rank, and none of the module's code runs\n"
"      --join            instead of operations: how long it takes to join\n"
"\n"
"The network (TIME: ns, us, ms or s; RATE: bits per second, with k, M or G):\n"
"  -d, --delay TIME      of a link, one way (10us)\n"
"  -s, --speed RATE      of the device of each rank, in both directions; 0: no limit (10G)\n"
"  -l, --loss PERCENT    of the packets are lost on each link (0)\n"
"      --queue PACKETS   hosts are ten times as fast as the links, which are between switches whose\n"
"                        queues hold so many packets and drop others (no switches)\n"
"      --mark PACKETS    that such a queue holds from which on it marks packets (never)\n"
"      --reorder PERCENT of the packets are late by up to half of the delay, with --queue (0)\n"
"      --cubic N         TCP flows share the link to rank 1, with --queue (0)\n"
"      --no-ring         only these run, for --limit\n"
"      --mtu BYTES       (1500)\n"
"      --frame BYTES     that a packet takes beside its IP packet (38)\n"
"      --super N         chunks in a superpacket at most (64)\n"
"      --whole           a superpacket is one packet on the wire, too\n"
"      --seed N          of the losses (1)\n"
"\n"
"The hosts:\n"
"      --cpus N          that all ranks share; 0: each rank has one (0)\n"
"      --packet TIME     of a CPU for a packet that comes and goes on (2500ns)\n"
"      --build TIME      for a packet that is built (2500ns)\n"
"      --chunk TIME      for each chunk in it (57ns)\n"
"      --byte PS         picoseconds for each byte in it (140)\n"
"      --ack TIME        for an acknowledgment, at each end (1000ns)\n"
"      --call TIME       for send(), and for the wake-up with recv() (5us)\n"
"      --slow RANK       whose CPU takes longer, --slow-by FACTOR (none, 2)\n"
"      --late RANK       that begins each operation later, --late-by TIME (none, 10ms)\n"
"      --window SIZE     net.rar.window (1M)\n"
"      --early SIZE      net.rar.early_bytes (256k)\n"
"\n"
"      --numbers         carry numbers and compare the sums\n"
"      --no-resend       lost chunks are not sent again\n"
"      --limit TIME      after which an operation counts as hung (100s)\n"
"  -h, --help\n";

enum {
	OPT_COARSE = 256, OPT_JOIN, OPT_MTU, OPT_FRAME, OPT_SUPER, OPT_WHOLE, OPT_SEED, OPT_CPUS,
	OPT_PACKET, OPT_BUILD, OPT_CHUNK, OPT_BYTE, OPT_ACK, OPT_CALL, OPT_SLOW, OPT_SLOW_BY,
	OPT_LATE, OPT_LATE_BY, OPT_WINDOW, OPT_EARLY, OPT_NUMBERS, OPT_NO_RESEND, OPT_LIMIT,
	OPT_SCHEDULE,
	OPT_COLLECTIVE,
	OPT_ROOT, OPT_QUEUE, OPT_MARK, OPT_REORDER, OPT_CUBIC, OPT_NO_RING,
};

static const struct option options[] = {
	{ "ranks", required_argument, NULL, 'n' },
	{ "bytes", required_argument, NULL, 'b' },
	{ "ops", required_argument, NULL, 'r' },
	{ "fold", required_argument, NULL, 'f' },
	{ "delay", required_argument, NULL, 'd' },
	{ "speed", required_argument, NULL, 's' },
	{ "loss", required_argument, NULL, 'l' },
	{ "help", no_argument, NULL, 'h' },
	{ "coarse", no_argument, NULL, OPT_COARSE },
	{ "join", no_argument, NULL, OPT_JOIN },
	{ "schedule", required_argument, NULL, OPT_SCHEDULE },
	{ "collective", required_argument, NULL, OPT_COLLECTIVE },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "queue", required_argument, NULL, OPT_QUEUE },
	{ "mark", required_argument, NULL, OPT_MARK },
	{ "reorder", required_argument, NULL, OPT_REORDER },
	{ "cubic", required_argument, NULL, OPT_CUBIC },
	{ "no-ring", no_argument, NULL, OPT_NO_RING },
	{ "mtu", required_argument, NULL, OPT_MTU },
	{ "frame", required_argument, NULL, OPT_FRAME },
	{ "super", required_argument, NULL, OPT_SUPER },
	{ "whole", no_argument, NULL, OPT_WHOLE },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "cpus", required_argument, NULL, OPT_CPUS },
	{ "packet", required_argument, NULL, OPT_PACKET },
	{ "build", required_argument, NULL, OPT_BUILD },
	{ "chunk", required_argument, NULL, OPT_CHUNK },
	{ "byte", required_argument, NULL, OPT_BYTE },
	{ "ack", required_argument, NULL, OPT_ACK },
	{ "call", required_argument, NULL, OPT_CALL },
	{ "slow", required_argument, NULL, OPT_SLOW },
	{ "slow-by", required_argument, NULL, OPT_SLOW_BY },
	{ "late", required_argument, NULL, OPT_LATE },
	{ "late-by", required_argument, NULL, OPT_LATE_BY },
	{ "window", required_argument, NULL, OPT_WINDOW },
	{ "early", required_argument, NULL, OPT_EARLY },
	{ "numbers", no_argument, NULL, OPT_NUMBERS },
	{ "no-resend", no_argument, NULL, OPT_NO_RESEND },
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ }
};

static bool coarse, join;

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	fputs("sim: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

/* ------------------------------------------------------------ arguments */

struct unit {
	const char *name;
	double value;
};

static const struct unit times[] = {
	{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { }
};
static const struct unit sizes[] = {
	{ "", 1 }, { "k", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 }, { }
};
static const struct unit rates[] = { { "", 1 }, { "k", 1e3 }, { "M", 1e6 }, { "G", 1e9 }, { } };
static const struct unit plain[] = { { "", 1 }, { } };

/* A number with one of the units, from @least to @most of these. */
static double value(const char *text, const struct unit *unit, double least, double most)
{
	char *end;
	double x = strtod(text, &end);

	if (end == text)
		die("\"%s\" is no number", text);
	for (; unit->name && strcmp(end, unit->name); unit++)
		;
	if (!unit->name)
		die("\"%s\": no such unit", text);
	x *= unit->value;
	if (!(x >= least && x <= most))
		die("\"%s\" is out of range", text);
	return x;
}

static u64 time_of(const char *text)
{
	return value(text, times, 0, 1e12);
}

static u32 count_of(const char *text, double least, double most)
{
	return value(text, plain, least, most);
}

static void set_network(int c, const char *arg)
{
	switch (c) {
	case 'd': sim_set.delay = time_of(arg); break;
	case 's': sim_set.bps = value(arg, rates, 0, 1e13); break;
	case 'l': sim_set.loss = value(arg, plain, 0, 90) / 100; break;
	case OPT_QUEUE: sim_set.queue = count_of(arg, 1, 1e6); break;
	case OPT_MARK: sim_set.mark = count_of(arg, 1, 1e6); break;
	case OPT_REORDER: sim_set.reorder = value(arg, plain, 0, 90) / 100; break;
	case OPT_CUBIC: sim_set.cubic = count_of(arg, 0, 1000); break;
	case OPT_NO_RING: sim_set.no_ring = true; break;
	case OPT_MTU: sim_set.mtu = count_of(arg, 576, RAR_MAX_MTU); break;
	case OPT_FRAME: sim_set.frame = count_of(arg, 0, 1000); break;
	case OPT_SUPER: sim_set.super = count_of(arg, 1, RAR_RUN_MAX); break;
	case OPT_WHOLE: sim_set.whole = true; break;
	case OPT_SEED: sim_set.seed = value(arg, plain, 1, 1e15); break;
	}
}

static void set_hosts(int c, const char *arg)
{
	switch (c) {
	case OPT_CPUS: sim_set.cpus = count_of(arg, 0, 65535); break;
	case OPT_PACKET: sim_set.packet = time_of(arg); break;
	case OPT_BUILD: sim_set.build = time_of(arg); break;
	case OPT_CHUNK: sim_set.chunk = time_of(arg); break;
	case OPT_BYTE: sim_set.byte_ps = value(arg, plain, 0, 1e9); break;
	case OPT_ACK: sim_set.ack = time_of(arg); break;
	case OPT_CALL: sim_set.call = time_of(arg); break;
	case OPT_SLOW: sim_set.slow = count_of(arg, 0, 65534); break;
	case OPT_SLOW_BY: sim_set.slow_by = value(arg, plain, 0.1, 1e6); break;
	case OPT_LATE: sim_set.late = count_of(arg, 0, 65534); break;
	case OPT_LATE_BY: sim_set.late_by = time_of(arg); break;
	case OPT_WINDOW: sim_set.window = value(arg, sizes, 1, 1e15); break;
	case OPT_EARLY: sim_set.early = value(arg, sizes, 0, 1e9); break;
	}
}

static const char * const schedules[RAR_SCHEDULE_NR] = {
	[RAR_BY_RANKS] = "ring", [RAR_AUTO] = "auto", [RAR_DIRECT] = "direct",
	[RAR_DOUBLING] = "doubling",
};

static const char * const collectives[RAR_COLLECTIVE_NR] = {
	[RAR_ALLREDUCE] = "allreduce", [RAR_BROADCAST] = "broadcast",
	[RAR_REDUCE] = "reduce", [RAR_REDUCE_SCATTER] = "reduce_scatter",
	[RAR_ALLGATHER] = "allgather",
};

/* The number of a name, of which some numbers have none. */
static u32 named(const char *arg, const char * const *names, u32 n, const char *what)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (names[i] && !strcmp(arg, names[i]))
			return i;
	die("\"%s\" is no %s", arg, what);
}

/* A schedule that sends to others than the successor. */
static void check_schedule(void)
{
	if (sim_set.schedule == RAR_DIRECT && sim_set.ranks > RAR_GATHER_RANKS)
		die("this schedule is for %u ranks at most", RAR_GATHER_RANKS);
	if (sim_set.schedule == RAR_DIRECT && (sim_set.collective == RAR_REDUCE ||
					       sim_set.collective == RAR_REDUCE_SCATTER))
		die("no %s goes directly", collectives[sim_set.collective]);
	if (sim_set.halving && !rar_ring_halves(sim_set.collective))
		die("this collective does not go by halving");
	if (rar_ring_shares(sim_set.collective) && sim_set.bytes % (8 * sim_set.ranks))
		die("bytes must be a multiple of 8 for each rank");
	if (sim_set.root >= sim_set.ranks)
		die("no rank %u", sim_set.root);
	if ((sim_set.schedule || sim_set.collective != RAR_ALLREDUCE) &&
	    (sim_set.fold < sim_set.ranks || coarse || join))
		die("--schedule and --collective do not go with --fold, --coarse and --join");
}

static void set_run(int c, const char *arg)
{
	switch (c) {
	case 'n': sim_set.ranks = count_of(arg, 2, 65535); break;
	case 'b': sim_set.bytes = value(arg, sizes, 8, 1e12); break;
	case 'r': sim_set.ops = count_of(arg, 1, 1e6); break;
	case 'f': sim_set.fold = count_of(arg, 1, 65535); break;
	case OPT_COARSE: coarse = true; break;
	case OPT_JOIN: join = true; break;
	case OPT_SCHEDULE:
		sim_set.halving = !strcmp(arg, "halving");
		sim_set.schedule = sim_set.halving ? RAR_DOUBLING :
				   named(arg, schedules, RAR_SCHEDULE_NR, "schedule");
		break;
	case OPT_COLLECTIVE:
		sim_set.collective = named(arg, collectives, RAR_COLLECTIVE_NR, "collective");
		break;
	case OPT_ROOT: sim_set.root = value(arg, plain, 0, 65534); break;
	case OPT_NUMBERS: sim_set.numbers = true; break;
	case OPT_NO_RESEND: sim_set.no_resend = true; break;
	case OPT_LIMIT: sim_set.limit = time_of(arg); break;
	case 'h': fputs(usage, stdout); exit(0);
	case '?': fputs(usage, stderr); exit(2);
	}
	set_network(c, arg);
	set_hosts(c, arg);
}

static void check_fold(void)
{
	bool equal = sim_set.bytes <= RAR_SMALL_BYTES ? false :
		     !(sim_set.bytes % (RAR_BLOCK_ALIGN * (u64)sim_set.ranks));

	if (!sim_set.fold)
		sim_set.fold = sim_set.ranks;
	if (sim_set.fold == sim_set.ranks)
		return;
	if (sim_set.ranks % sim_set.fold)
		die("--fold %u does not divide %u ranks", sim_set.fold, sim_set.ranks);
	if (!equal)
		die("--fold needs blocks of equal length: a multiple of %llu bytes above %u",
		    RAR_BLOCK_ALIGN * (u64)sim_set.ranks, RAR_SMALL_BYTES);
	if (sim_set.slow != SIM_NONE || sim_set.late != SIM_NONE || sim_set.numbers || sim_set.queue)
		die("--fold does not go with --slow, --late, --numbers and --queue");
}

static void parse(int argc, char **argv)
{
	int c;

	sim_set = (struct sim_set) {
		.ranks = 16, .ops = 5, .collective = RAR_ALLREDUCE,
		.bytes = 1 << 20, .mtu = 1500, .frame = 38,
		.super = RAR_RUN_MAX, .bps = 1e10, .delay = 10000, .packet = 2500,
		.build = 2500, .chunk = 57, .byte_ps = 140, .ack = 1000, .call = 5000,
		.slow = SIM_NONE, .slow_by = 2, .late = SIM_NONE, .late_by = 10000000,
		.window = 1 << 20, .early = 1 << 18, .seed = 1, .limit = 100000000000ULL,
	};
	while ((c = getopt_long(argc, argv, "n:b:r:f:d:s:l:h", options, NULL)) != -1)
		set_run(c, optarg);
	if (optind < argc)
		die("\"%s\" is no option", argv[optind]);
	if (sim_set.bytes % 8)
		die("--bytes is no multiple of 8");
	check_fold();
	check_schedule();
	if (!sim_set.queue && (sim_set.mark || sim_set.reorder || sim_set.cubic || sim_set.no_ring))
		die("--mark, --reorder, --cubic and --no-ring need --queue");
	if (sim_set.queue && (!sim_set.bps || sim_set.whole || sim_set.ops < 2))
		die("--queue needs --speed and two operations, and no --whole");
	if ((sim_set.slow != SIM_NONE && sim_set.slow >= sim_set.ranks) ||
	    (sim_set.late != SIM_NONE && sim_set.late >= sim_set.ranks))
		die("no such rank");
}

/* ------------------------------------------------------------ results */

static int by_value(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

/* Of the operations after the first one, during which windows open: set the median and the best. */
static void times_of(double *median, double *best)
{
	u32 skip = sim_set.ops > 1, n = sim_set.ops - skip;
	u64 sorted[n];

	memcpy(sorted, sim_got.ns + skip, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_value);
	*median = sorted[n / 2] / 1e3;
	*best = sorted[0] / 1e3;
}

/* Bytes that a link carries in an operation, divided by the least that any ring needs. */
static double to_ideal(void)
{
	double least = 2.0 * (sim_set.ranks - 1) / sim_set.ranks * sim_set.bytes;

	return (double)sim_got.sent / sim_set.fold / sim_set.ops / least;
}

/*
 * Shares of the link to rank 1, after the first operation: of the operations' bytes with headers, of
 * what the ring, and what the TCP flows got through.
 */
static void report_shares(void)
{
	double wire = (double)(sim_set.mtu + sim_set.frame) / sim_payload();
	double bytes = 2.0 * (sim_set.ranks - 1) / sim_set.ranks * sim_set.bytes * wire;
	double room = sim_set.bps / 8e9 * sim_got.shares_ns;

	if (sim_set.no_ring)
		bytes = 0;
	printf("goodput=%.4f ring=%.4f tcp=%.4f ", bytes * (sim_set.ops - 1) / room,
	       sim_got.ring_bytes / room, sim_got.tcp_bytes / room);
}

static void report(void)
{
	double median, best;

	if (sim_set.queue)
		report_shares();
	times_of(&median, &best);
	printf("ranks=%u fold=%u bytes=%llu ops=%u us=%.3f best_us=%.3f first_us=%.3f ",
	       sim_set.ranks, sim_set.fold, sim_set.bytes, sim_set.ops, median, best,
	       sim_got.ns[0] / 1e3);
	printf("bytes_to_ideal=%.4f ", to_ideal());
	printf("chunks=%llu again=%llu dups=%llu forwarded=%llu added=%llu acks=%llu lost=%llu ",
	       sim_got.data, sim_got.again, sim_got.dups, sim_got.forwarded, sim_got.added,
	       sim_got.acks, sim_got.lost);
	printf("cwnd=%u cpu_us=%.3f hung=%u wrong=%llu odd=%llu unreleased=%llu events=%llu\n",
	       sim_got.cwnd, sim_got.busy / 1e3 / sim_set.ops, sim_got.hung, sim_got.wrong,
	       sim_got.odd, sim_got.unreleased, sim_got.events);
}

/* The linker leaves functions open that no set-up needs: see sim_unused(). */
static void faulted(int signal)
{
	sim_unused();
}

int main(int argc, char **argv)
{
	int ret;

	signal(SIGSEGV, faulted);
	parse(argc, argv);
	if (join) {
		sim_join();
		return 0;
	}
	if (coarse) {
		printf("ranks=%u bytes=%llu us=%.3f\n", sim_set.ranks, sim_set.bytes,
		       sim_coarse() / 1e3);
		return 0;
	}
	ret = sim_run();
	report();
	free(sim_got.ns);
	return ret;
}
