// SPDX-License-Identifier: GPL-2.0
/* rarctl record: write the module's trace events of this host to a file. */
#include "rarctl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const places[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
static const char *const traced[] = {
	"rar_post", "rar_tx", "rar_reduce", "rar_lost", "rar_op", "rar_release",
};

enum { BUFFER_KB = 4096, N_TRACED = sizeof(traced) / sizeof(traced[0]) };

static char instance[128];
static int pipe_fd = -1;
static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

/* The instance holds kernel memory, so it goes however the program ends. */
static void remove_instance(void)
{
	if (pipe_fd >= 0)
		close(pipe_fd);
	rmdir(instance);
}

static void set(const char *file, const char *value)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", instance, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && strstr(file, "events/"))
		die(EXIT_FAILED, "there are no trace events of the module rar (modprobe rar)");
	if (fd < 0 || write(fd, value, strlen(value)) != (ssize_t)strlen(value))
		die(EXIT_FAILED, "%s: %s", path, strerror(errno));
	close(fd);
}

/* A buffer of our own: other users of tracing are not disturbed. */
static void make_instance(void)
{
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(instance, sizeof(instance), "%s/instances/rarctl-%d", places[i], getpid());
		if (!mkdir(instance, 0700)) {
			atexit(remove_instance);
			return;
		}
		if (errno != ENOENT)
			die(EXIT_FAILED, "%s: %s", instance, strerror(errno));
	}
	die(EXIT_FAILED, "no tracefs at %s (mount -t tracefs none %s)", places[0], places[0]);
}

/* Hosts compare by TAI: it is the clock that NTP or PTP sets, and has no leap seconds. */
static void start(const struct filter *f)
{
	char text[160], filter[64] = "";
	size_t i;

	make_instance();
	set("trace_clock", "tai");
	snprintf(text, sizeof(text), "%d", BUFFER_KB);
	set("buffer_size_kb", text);
	if (f->by_group)
		snprintf(filter, sizeof(filter), "group == %llu", (unsigned long long)f->group);
	if (f->by_rank)
		snprintf(filter + strlen(filter), sizeof(filter) - strlen(filter), " && rank == %u",
			 f->rank);
	for (i = 0; i < N_TRACED; i++) {
		if (*filter) {
			snprintf(text, sizeof(text), "events/rar/%s/filter", traced[i]);
			set(text, filter);
		}
		snprintf(text, sizeof(text), "events/rar/%s/enable", traced[i]);
		set(text, "1");
	}
	snprintf(text, sizeof(text), "%s/trace_pipe", instance);
	pipe_fd = open(text, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (pipe_fd < 0)
		die(EXIT_FAILED, "%s: %s", text, strerror(errno));
}

/* Copy what has come to @out. Return: how many operations were released in it. */
static long copy(FILE *out, const char *path)
{
	static char line[512];
	static size_t n;
	long released = 0;
	char part[4096];
	ssize_t i, got;

	while ((got = read(pipe_fd, part, sizeof(part))) > 0) {
		if (fwrite(part, 1, got, out) != (size_t)got)
			die(EXIT_FAILED, "%s: %s", path, strerror(errno));
		for (i = 0; i < got; i++) {
			if (part[i] != '\n') {
				if (n < sizeof(line) - 1)
					line[n++] = part[i];
				continue;
			}
			line[n] = 0;
			released += !!strstr(line, ": rar_release: ");
			n = 0;
		}
	}
	return released;
}

/* Write events to the file @path until a signal comes, or @rounds operations were released. */
void record(const char *path, const struct filter *f, long rounds)
{
	const struct sigaction action = { .sa_handler = end };
	char host[256] = "";
	FILE *out;

	out = fopen(path, "we");
	if (!out)
		die(EXIT_FAILED, "%s: %s", path, strerror(errno));
	start(f);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	gethostname(host, sizeof(host) - 1);
	fprintf(out, "# rarctl record: host %s, clock tai\n", host);
	fprintf(stderr, "rarctl: recording\n");
	while (!ended && rounds) {
		struct pollfd p = { .fd = pipe_fd, .events = POLLIN };
		long released;

		poll(&p, 1, 100);
		released = copy(out, path);
		if (rounds > 0)
			rounds = released < rounds ? rounds - released : 0;
	}
	set("tracing_on", "0");
	copy(out, path);
	if (fclose(out))
		die(EXIT_FAILED, "%s: %s", path, strerror(errno));
}
