// SPDX-License-Identifier: GPL-2.0
/*
 * Random rounds of death and starting again, beside processes that use up the CPUs. Seats
 * 0 .. 5 are the namespaces PREFIX0 .. PREFIX5. In each round three to six seats reduce until
 * one or two die by SIGKILL, close() or a device that is down. The survivors start again,
 * alone or with new processes in the seats of the dead, and agree where to resume. Every
 * result is checked.
 *
 * rejoin_soak -N PREFIX [-r ROUNDS] [-f FIRST] [-d DEAD_MS] [-c HOGS] [-v]
 *	The number of a round and the seed decide its steps, but not their exact times. Each
 *	round keeps a log, which is printed if the round fails, or always with -v. Without
 *	-d each round draws its dead_ms.
 *
 * A round that fails is excused only if the whole machine stood still for half of dead_ms
 * before the first error. It is never excused if a result is wrong, if an error says that
 * operations disagree or names the MTU, or if members that joined do not agree.
 */
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "begin.h"

#define SEATS		6
#define GROUP		0x50a4
#define LAST_OPS	8	/* operations of the second ring */
#define LOG_BYTES	(1 << 18)
#define JOIN_S		20
#define ROUND_S		60

static struct {
	const char *netns;
	uint32_t rounds, first, dead_ms, hogs;
	bool verbose;
} opt = { .rounds = 20, .hogs = 2 };

static const uint32_t some_dead_ms[] = { 150, 150, 300, 600 };

enum how { LIVES, BY_KILL, BY_DEVICE, BY_CLOSE, HOWS };

static const char * const how_names[] = { "lives", "SIGKILL", "device down", "close" };

struct circle {
	struct rar_ring ring;
	uint32_t place[SEATS];
};

/* Results of a seat in a ring. */
struct seen {
	uint64_t epoch, resume_epoch, resume_op, received;
};

struct round {
	uint32_t number;
	uint64_t start_us, death_us;
	enum how how[SEATS];		/* how the first ring's seats end */
	bool renew, same_socket;	/* replacements come; sockets are used again */
	uint32_t depth, dead_ms;
	struct circle circle[2];
	struct seen seen[SEATS][2];
	struct rar_barrier joined;
	_Atomic bool die;		/* the victims of close() may close */
	_Atomic uint32_t failed;	/* seats that have their error */
	_Atomic uint64_t wrong_us;	/* when the first thing went wrong */
	_Atomic bool unsound;		/* an error that no stand-still excuses */
	_Atomic uint64_t pulse_us;	/* when the pulse came last */
	_Atomic uint64_t worst_pulse_us;	/* until the first thing went wrong */
	_Atomic uint32_t used;
	char log[LOG_BYTES];
};

struct rank {
	struct round *round;
	uint32_t seat, ring, me;
	uint64_t first, posted, done;
	int fd;
};

static void note(struct round *round, const char *fmt, ...)
{
	uint32_t at, n;
	char line[512];
	va_list ap;

	n = snprintf(line, sizeof(line), "%8.3f ", (rar_now_us() - round->start_us) / 1e3);
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - n, fmt, ap);
	va_end(ap);
	if (n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	at = atomic_fetch_add(&round->used, n);
	if (at + n < LOG_BYTES)
		memcpy(round->log + at, line, n);
}

static void went_wrong(struct round *round)
{
	uint64_t never = 0;

	atomic_compare_exchange_strong(&round->wrong_us, &never, rar_now_us());
}

#define wrong(round, fmt, ...) do {					\
	went_wrong(round);						\
	note(round, "WRONG " fmt, ##__VA_ARGS__);			\
} while (0)

#define SEAT_CHECK(r, cond, fmt, ...) do {				\
	if (!(cond)) {							\
		wrong((r)->round, "seat %u ring %u: %s: " fmt,		\
		      (r)->seat, (r)->ring, #cond, ##__VA_ARGS__);	\
		return 1;						\
	}								\
} while (0)

/* ------------------------------------------------------------ a seat */

static struct rar_data data_of(const struct rank *r, uint64_t op)
{
	uint64_t number = r->first + op;
	uint64_t state = rar_seed + r->round->number * 100000ull + number, rnd;

	rnd = rar_random(&state);
	return (struct rar_data){
		.id = number + 1, .dtype = RAR_F32,
		.size = r->round->circle[r->ring].ring.size,
		.count = rnd % 4 ? rnd / 4 % 3000 : rnd / 4 % 50000,
	};
}

static uint32_t rank_of(const struct circle *c, uint32_t seat)
{
	for (uint32_t r = 0; r < c->ring.size; r++)
		if (c->place[r] == seat)
			return r;
	return c->ring.size;
}

static int post(struct rank *r)
{
	struct rar_data d = data_of(r, r->posted);
	int err = rar_post(r->fd, &d, r->me);

	r->posted += !err;
	return err;
}

static int collect(struct rank *r)
{
	struct rar_data d = data_of(r, r->done);
	int err = rar_collect(r->fd, &d, r->me);

	if (err == -EBADE || err == -EBADMSG || err == -EMSGSIZE)
		r->round->unsound = true;
	if (err)
		return err;
	r->done++;
	r->round->seen[r->seat][r->ring].received++;
	return 0;
}

static int step(struct rank *r, uint64_t ops)
{
	if (r->posted - r->done < r->round->depth && (!ops || r->posted < ops))
		return post(r);
	return collect(r);
}

static int joined(struct rank *r)
{
	struct seen *s = &r->round->seen[r->seat][r->ring];
	struct rar_info info;

	SEAT_CHECK(r, !rar_info(r->fd, &info), "RAR_INFO");
	s->epoch = info.epoch;
	s->resume_epoch = info.resume_epoch;
	s->resume_op = info.resume_op;
	r->first = r->ring ? info.resume_op : 0;
	r->posted = 0;
	r->done = 0;
	note(r->round, "seat %u ring %u rank %u joined, epoch %llx resumes %llx at %llu", r->seat,
	     r->ring, r->me, (unsigned long long)s->epoch,
	     (unsigned long long)s->resume_epoch, (unsigned long long)s->resume_op);
	return 0;
}

static int join(struct rank *r, bool again)
{
	struct circle *c = &r->round->circle[r->ring];
	int err;

	r->me = rank_of(c, r->seat);
	if (!again)
		r->fd = rar_socket();
	SEAT_CHECK(r, r->fd >= 0, "%d", r->fd);
	rar_timeout(r->fd, SO_SNDTIMEO, JOIN_S * 1000);
	err = rar_join(r->fd, &c->ring, r->me);
	if (err) {
		struct rar_error e = {};

		rar_error(r->fd, &e);
		SEAT_CHECK(r, !err, "join: %s, err %d reason %s rank %u other %u silent %u",
			   strerrorname_np(-err), e.err, rar_reason_name(e.reason), e.rank,
			   e.other, e.silent_ms);
	}
	/* A recv() that never returns must be a failure, too. */
	rar_timeout(r->fd, SO_RCVTIMEO, JOIN_S * 1000);
	return joined(r);
}

/* Reads all results that are left. Returns the error after them. */
static int drain(struct rank *r)
{
	int err;

	do
		err = collect(r);
	while (!err);
	return err;
}

/* Does an error name a dead rank? A device that is down also hits its neighbours' links. */
static bool names_dead(const struct round *round, const struct rar_error *e)
{
	const struct circle *c = &round->circle[0];

	return (e->rank < c->ring.size && round->how[c->place[e->rank]]) ||
	       (e->other < c->ring.size && round->how[c->place[e->other]] == BY_DEVICE);
}

static int first_ring(struct rank *r)
{
	struct round *round = r->round;
	bool close_it = round->how[r->seat] == BY_CLOSE;
	struct rar_error e = {};
	int err;

	do {
		err = step(r, 0);
	} while (!err && !(close_it && round->die));
	if (!err) {
		note(round, "seat %u closes with %llu of %llu", r->seat,
		     (unsigned long long)r->done, (unsigned long long)r->posted);
		close(r->fd);
		return 0;
	}
	rar_error(r->fd, &e);
	note(round, "seat %u: %s after %lld us: reason %s rank %u other %u op %llu silent %u, received %llu",
	     r->seat, strerrorname_np(-err), (long long)(rar_now_us() - round->death_us),
	     rar_reason_name(e.reason), e.rank, e.other, (unsigned long long)e.op_seq,
	     e.silent_ms, (unsigned long long)r->done);
	SEAT_CHECK(r, err == -ECONNRESET, "%s", strerrorname_np(-err));
	SEAT_CHECK(r, round->death_us, "nobody is dead yet");
	SEAT_CHECK(r, names_dead(round, &e), "rank %u other %u", e.rank, e.other);
	err = drain(r);
	SEAT_CHECK(r, err == -ECONNRESET, "drain: %s", strerrorname_np(-err));
	if (!round->how[r->seat])
		round->failed++;
	return 0;
}

static int second_ring(struct rank *r, bool again)
{
	int err = 0;

	r->ring = 1;
	if (again && !r->round->same_socket) {
		close(r->fd);
		again = false;
	}
	if (join(r, again))
		return 1;
	while (!err && r->done < LAST_OPS)
		err = step(r, LAST_OPS);
	if (err) {
		struct rar_error e = {};

		rar_error(r->fd, &e);
		SEAT_CHECK(r, !err, "%s, reason %s rank %u other %u op %llu silent %u",
			   strerrorname_np(-err), rar_reason_name(e.reason), e.rank, e.other,
			   (unsigned long long)e.op_seq, e.silent_ms);
	}
	note(r->round, "seat %u is done", r->seat);
	close(r->fd);
	return 0;
}

static int seat_main(uint32_t seat, void *arg)
{
	struct rank r = { .round = arg, .seat = seat };

	if (join(&r, false))
		return 1;
	rar_barrier(&r.round->joined, r.round->circle[0].ring.size, JOIN_S);
	if (first_ring(&r))
		return 1;
	return r.round->how[seat] ? 0 : second_ring(&r, true);
}

static int replacement_main(uint32_t seat, void *arg)
{
	struct rank r = { .round = arg, .seat = seat };

	return second_ring(&r, false);
}

/* ------------------------------------------------------------ deaths */

static int device_up(uint32_t up, void *arg)
{
	struct ifreq ifr = { .ifr_name = "eth0" };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	(void)arg;
	if (ioctl(fd, SIOCGIFFLAGS, &ifr))
		return 1;
	ifr.ifr_flags = up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &ifr) != 0;
}

static int set_dead_ms(uint32_t ms, void *arg)
{
	char text[16];

	(void)arg;
	snprintf(text, sizeof(text), "%u", ms);
	return rar_write("/proc/sys/net/rar/dead_ms", text) != 0;
}

static char *seat_netns(uint32_t seat)
{
	static char name[32];

	snprintf(name, sizeof(name), "%s%u", opt.netns, seat);
	return name;
}

/* Runs a function in a seat's namespace. */
static int in_seat(uint32_t seat, rar_rank_fn fn, uint32_t value, void *arg)
{
	return rar_reap(rar_spawn(seat_netns(seat), fn, value, arg), rar_now_us() + 10000000);
}

static int show_proc(uint32_t seat, void *arg)
{
	FILE *f = fopen("/proc/net/rar", "r");
	char line[400];

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		note(arg, "/proc seat %u: %s", seat, line);
	}
	return 0;
}

/*
 * The pulse: measures how late a process that sleeps for 5 ms is woken. A stop after the first
 * error excuses nothing.
 */
static int pulse_main(uint32_t rank, void *arg)
{
	struct round *round = arg;
	uint64_t last = rar_now_us(), now, end;

	for (;; last = now) {
		usleep(5000);
		now = rar_now_us();
		end = round->wrong_us;
		if (!end || end > now)
			end = now;
		if (end > last && end - last > round->worst_pulse_us)
			round->worst_pulse_us = end - last;
		if (now - last > round->dead_ms * 500ull)
			note(round, "the pulse stopped for %llu us",
			     (unsigned long long)(now - last));
		round->pulse_us = now;
	}
	return rank;
}

static int hog_main(uint32_t rank, void *arg)
{
	(void)arg;
	for (volatile uint64_t i = 0;; i++)
		;
	return rank;
}

/* ------------------------------------------------------------ a round */

static void make_circle(struct circle *c, const struct round *round, uint32_t n, bool living)
{
	c->ring = (struct rar_ring){ .group = GROUP + round->number % 3, .where = RAR_ON_IPV4,
				     .netns = opt.netns, .place = c->place };
	for (uint32_t s = 0; s < n; s++)
		if (!living || !round->how[s])
			c->place[c->ring.size++] = s;
}

static void plan_round(struct round *round, uint32_t number, uint64_t *rnd)
{
	uint32_t n, deaths, victim;

	*rnd = rar_seed * 1000003 + number;
	memset(round, 0, sizeof(*round) - LOG_BYTES);
	round->number = number;
	round->start_us = rar_now_us();
	n = 3 + rar_random(rnd) % 4;
	deaths = n > 3 && rar_random(rnd) % 3 == 0 ? 2 : 1;
	for (uint32_t i = 0; i < deaths; i++) {
		do
			victim = rar_random(rnd) % n;
		while (round->how[victim]);
		round->how[victim] = 1 + rar_random(rnd) % (HOWS - 1);
		note(round, "round %u: %u ranks, seat %u dies by %s", number, n, victim,
		     how_names[round->how[victim]]);
	}
	round->renew = rar_random(rnd) % 2;
	round->same_socket = rar_random(rnd) % 2;
	round->depth = 1 + rar_random(rnd) % 4;
	make_circle(&round->circle[0], round, n, false);
	round->dead_ms = opt.dead_ms ?: some_dead_ms[rar_random(rnd) % ARRAY_SIZE(some_dead_ms)];
	make_circle(&round->circle[1], round, n, !round->renew);
	note(round, "again as %u ranks, %s, depth %u, dead_ms %u", round->circle[1].ring.size,
	     round->same_socket ? "same socket" : "new socket", round->depth, round->dead_ms);
}

static void kill_seats(struct round *round, pid_t *pid)
{
	round->death_us = rar_now_us();
	round->die = true;
	for (uint32_t s = 0; s < SEATS; s++) {
		if (round->how[s] == BY_KILL)
			rar_kill(pid[s]);
		else if (round->how[s] == BY_DEVICE && in_seat(s, device_up, 0, NULL))
			wrong(round, "seat %u: device", s);
		if (round->how[s])
			note(round, "seat %u: %s", s, how_names[round->how[s]]);
	}
}

/* Waits until the dead have left their seats, and the others have their errors. */
static int bury(struct round *round, pid_t *pid)
{
	uint64_t deadline = rar_now_us() + 3 * JOIN_S * 1000000ull / 2;
	uint32_t living = 0;
	int bad = 0;

	for (uint32_t s = 0; s < round->circle[0].ring.size; s++)
		living += !round->how[s];
	for (uint32_t s = 0; s < SEATS; s++) {
		if (round->how[s] && round->how[s] != BY_KILL && rar_reap(pid[s], deadline)) {
			wrong(round, "seat %u does not end", s);
			bad++;
		}
		if (round->how[s])
			pid[s] = 0;
	}
	while (round->renew && round->failed < living && rar_now_us() < deadline)
		usleep(1000);
	for (uint32_t s = 0; s < SEATS; s++)
		if (round->how[s] == BY_DEVICE && in_seat(s, device_up, 1, NULL)) {
			wrong(round, "seat %u: device", s);
			bad++;
		}
	return bad;
}

/* Do all agree on the epoch, and to resume where the slowest survivor stopped? */
static int judge(struct round *round)
{
	const struct circle *c = &round->circle[1];
	uint64_t low = UINT64_MAX, before = 0;
	int bad = 0;

	for (uint32_t s = 0; s < round->circle[0].ring.size; s++) {
		if (round->how[s])
			continue;
		before = round->seen[s][0].epoch;
		if (round->seen[s][0].received < low)
			low = round->seen[s][0].received;
	}
	for (uint32_t i = 0; i < c->ring.size; i++) {
		const struct seen *s = &round->seen[c->place[i]][1];

		if (s->epoch == round->seen[c->place[0]][1].epoch && s->epoch != before &&
		    s->resume_epoch == before && s->resume_op == low &&
		    s->received == LAST_OPS)
			continue;
		wrong(round, "seat %u: epoch %llx resumes %llx at %llu, not %llx at %llu; received %llu",
		      c->place[i], (unsigned long long)s->epoch,
		      (unsigned long long)s->resume_epoch, (unsigned long long)s->resume_op,
		      (unsigned long long)before, (unsigned long long)low,
		      (unsigned long long)s->received);
		round->unsound = true;
		bad++;
	}
	return bad;
}

static int finish_round(struct round *round, pid_t *pid)
{
	uint64_t deadline = rar_now_us() + ROUND_S * 1000000ull;
	int bad = 0, status;

	for (uint32_t s = 0; s < SEATS; s++) {
		status = pid[s] > 0 ? rar_reap(pid[s], deadline) : 0;
		if (!status)
			continue;
		wrong(round, "seat %u: status %d", s, status);
		if (!bad++)
			for (uint32_t t = 0; t < SEATS; t++)
				in_seat(t, show_proc, t, round);
	}
	return bad;
}

static int play(struct round *round, pid_t *pid, uint64_t *rnd)
{
	uint32_t n = round->circle[0].ring.size;
	int bad;

	for (uint32_t s = 0; s < n; s++)
		pid[s] = rar_spawn(seat_netns(s), seat_main, s, round);
	for (int i = 0; i < JOIN_S * 1000 && !round->joined.round; i++)
		rar_sleep_ms(1);
	if (!round->joined.round)
		wrong(round, "the first ring is not closed");
	usleep(rar_random(rnd) % 150000);
	kill_seats(round, pid);
	bad = !round->joined.round + bury(round, pid);
	for (uint32_t s = 0; s < n && round->renew; s++)
		if (round->how[s])
			pid[s] = rar_spawn(seat_netns(s), replacement_main, s, round);
	return finish_round(round, pid) + bad;
}

static void print_log(const struct round *round)
{
	char *copy = strndup(round->log, LOG_BYTES - 1), *line, *save;

	for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		rar_log("%u: %s", round->number, line);
	free(copy);
}

static void set_all_dead_ms(uint32_t ms)
{
	static uint32_t now;

	for (uint32_t s = 0; s < SEATS && ms != now; s++)
		if (in_seat(s, set_dead_ms, ms, NULL))
			ksft_exit_fail_msg("no dead_ms in seat %u\n", s);
	now = ms;
}

static int one_round(struct round *round, uint32_t number)
{
	pid_t pid[SEATS] = { 0 }, pulse;
	uint64_t rnd, end;
	int bad;

	memset(round->log, 0, LOG_BYTES);
	plan_round(round, number, &rnd);
	set_all_dead_ms(round->dead_ms);
	pulse = rar_spawn(NULL, pulse_main, 0, round);
	bad = play(round, pid, &rnd);
	bad = bad ?: judge(round);
	for (end = rar_now_us(); round->pulse_us < end;)
		usleep(1000);
	rar_kill(pulse);
	note(round, "%s, %llu ms, worst pulse %llu us", bad ? "FAILED" : "ok",
	     (unsigned long long)(rar_now_us() - round->start_us) / 1000,
	     (unsigned long long)round->worst_pulse_us);
	if (bad || opt.verbose)
		print_log(round);
	return bad;
}

/* A failure after the machine stood still for half of dead_ms proves nothing. */
static bool excused(const struct round *round)
{
	return !round->unsound && round->worst_pulse_us > round->dead_ms * 500ull;
}

static void all_rounds(void)
{
	struct round *round = rar_shared(sizeof(*round));
	uint32_t bad = 0, starved = 0;
	pid_t hog[16];

	for (uint32_t i = 0; i < opt.hogs; i++)
		hog[i] = rar_spawn(NULL, hog_main, 0, NULL);
	for (uint32_t i = opt.first; i < opt.first + opt.rounds; i++) {
		if (!one_round(round, i))
			continue;
		if (excused(round))
			starved++;
		else
			bad++;
	}
	for (uint32_t i = 0; i < opt.hogs; i++)
		rar_kill(hog[i]);
	rar_log("%u rounds, %u failed, %u more after the machine had stood still", opt.rounds,
		bad, starved);
	ksft_set_plan(1);
	ksft_test_result(!bad && starved <= opt.rounds / 10,
			 "%u rounds of death and starting again\n", opt.rounds);
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "N:r:f:d:c:v")) != -1) {
		switch (c) {
		case 'N': opt.netns = optarg; break;
		case 'r': opt.rounds = atoi(optarg); break;
		case 'f': opt.first = atoi(optarg); break;
		case 'd': opt.dead_ms = atoi(optarg); break;
		case 'c': opt.hogs = atoi(optarg) % 17; break;
		case 'v': opt.verbose = true; break;
		default: return KSFT_FAIL;
		}
	}
	if (!opt.netns)
		return KSFT_FAIL;
	rar_begin();
	all_rounds();
	ksft_finished();
}
