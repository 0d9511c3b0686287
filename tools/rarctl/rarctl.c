// SPDX-License-Identifier: GPL-2.0
/* rarctl: options, commands, settings. */
#include "rarctl.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTINGS	"/proc/sys/net/rar"
#define NAMESPACES	"/run/netns"

static const char usage[] =
	"Usage: rarctl [OPTIONS] COMMAND\n"
	"  show [members|links|ops] [GROUP [RANK]]   what is there now\n"
	"  show counters|settings                    of this network namespace\n"
	"  box                                       what the box of this host does\n"
	"  box key FILE|off                          set its key, 16 or 32 bytes; or remove it\n"
	"  watch [GROUP [RANK]]                      members, again and again\n"
	"  top [GROUP [RANK]]                        groups: bandwidth, operations, slow ranks\n"
	"  monitor [GROUP [RANK]]                    joins, failures and ends, as they happen\n"
	"  set SETTING VALUE                         as sysctl net.rar.SETTING=VALUE\n"
	"  abort GROUP [RANK]                        fail a group for all its members\n"
	"  test PEER                                 sum with another host that runs this, too\n"
	"  record FILE [GROUP [RANK]]                write trace events of this host to a file\n"
	"  plot GROUP OPERATION FILE...              draw an operation, as SVG\n"
	"OPTIONS: -j[son] -p[retty] -c[olor][={always|auto|never}] -n[etns] NAME\n"
	"  -i[nterval] SECONDS -r[ounds] N (of watch, top, monitor, record) -V[ersion] -h[elp]\n";

static double interval = 1;
static long rounds = -1;

void die(int status, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("rarctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

/* -- arguments -------------------------------------------------------------- */

/* A number as C writes it; 16 digits are hexadecimal, as /proc/net/rar shows group ids. */
static uint64_t number(const char *text, const char *what, uint64_t max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, strspn(text, "0123456789abcdefABCDEF") == 16 &&
			 strlen(text) == 16 ? 16 : 0);
	if (errno || end == text || *end || strchr(text, '-') || value > max)
		die(EXIT_USAGE, "\"%s\" is no %s", text, what);
	return value;
}

static double positive(const char *text, const char *what)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0) || value > 1e6)
		die(EXIT_USAGE, "\"%s\" is no %s", text, what);
	return value;
}

static struct filter filter_of(int argc, char **argv)
{
	struct filter f = { 0 };

	if (argc > 2)
		die(EXIT_USAGE, "\"%s\" is too much", argv[2]);
	if (argc > 0) {
		f.by_group = true;
		f.group = number(argv[0], "group id", UINT64_MAX);
	}
	if (argc > 1) {
		f.by_rank = true;
		f.rank = number(argv[1], "rank", RAR_MAX_SIZE - 1);
	}
	return f;
}

/* -- commands --------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*show)(struct conn *c, const struct filter *f);
	bool takes_filter;
} shows[] = {
	{ "members", show_members, true },
	{ "links", show_links, true },
	{ "ops", show_ops, true },
	{ "counters", show_counters, false },
	{ "settings", show_settings, false },
};

static void cmd_show(int argc, char **argv)
{
	struct conn *c;
	struct filter f;
	size_t i, what = 0;
	bool named = false;

	for (i = 0; argc && i < sizeof(shows) / sizeof(shows[0]); i++) {
		if (!strcmp(argv[0], shows[i].name)) {
			named = true;
			what = i;
		}
	}
	f = filter_of(argc - named, argv + named);
	if (f.by_group && !shows[what].takes_filter)
		die(EXIT_USAGE, "show %s takes no group", shows[what].name);
	c = conn_open();
	shows[what].show(c, &f);
	conn_close(c);
}

static void cmd_watch(int argc, char **argv)
{
	struct filter f = filter_of(argc, argv);
	struct conn *c = conn_open();

	watch(c, &f, interval, rounds);
	conn_close(c);
}

static void cmd_top(int argc, char **argv)
{
	struct filter f = filter_of(argc, argv);
	struct conn *c = conn_open();

	top(c, &f, interval, rounds);
	conn_close(c);
}

static void cmd_monitor(int argc, char **argv)
{
	struct filter f = filter_of(argc, argv);
	struct conn *c = conn_open();

	monitor(c, &f, rounds);
	conn_close(c);
}

static void cmd_abort(int argc, char **argv)
{
	struct filter f = filter_of(argc, argv);
	struct conn *c;

	if (!f.by_group)
		die(EXIT_USAGE, "abort wants a group");
	c = conn_open();
	conn_do(c, RAR_CMD_ABORT, &f, NULL, NULL);
	conn_close(c);
}

/* Read a key. It stays in no buffer but @key. Return: its bytes. */
static size_t read_key(const char *path, unsigned char *key, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 1;

	while (fd >= 0 && n > 0 && len < size) {
		n = read(fd, key + len, size - len);
		len += n > 0 ? n : 0;
	}
	if (fd < 0 || n < 0)
		die(EXIT_FAILED, "%s: %s", path, strerror(errno));
	close(fd);
	return len;
}

static void cmd_box_key(const char *path)
{
	bool off = !strcmp(path, "off") || !strcmp(path, "-");
	unsigned char key[33];	/* one more tells a file that is too long */
	size_t len = off ? 0 : read_key(path, key, sizeof(key));
	struct conn *c;

	if (!off && len != 16 && len != 32)
		die(EXIT_FAILED, "%s: a key has 16 or 32 bytes", path);
	c = conn_open();
	conn_box_key(c, key, len);
	conn_close(c);
}

static void cmd_box(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[0], "key"))
		return cmd_box_key(argv[1]);
	if (argc == 1 && !strcmp(argv[0], "key"))
		die(EXIT_USAGE, "box key wants a file, or \"off\"");
	if (argc)
		die(EXIT_USAGE, "\"%s\" is too much", argv[argc > 2 ? 2 : 0]);
	box();
}

static void cmd_test(int argc, char **argv)
{
	if (argc != 1)
		die(EXIT_USAGE, "test wants the address of the other host");
	test(argv[0]);
}

static void cmd_record(int argc, char **argv)
{
	struct filter f;

	if (!argc)
		die(EXIT_USAGE, "record wants a file");
	f = filter_of(argc - 1, argv + 1);
	record(argv[0], &f, rounds);
}

static void cmd_plot(int argc, char **argv)
{
	if (argc < 3)
		die(EXIT_USAGE, "plot wants a group, an operation and files of rarctl record");
	plot(number(argv[0], "group id", UINT64_MAX), number(argv[1], "operation", UINT64_MAX),
	     argv + 2, argc - 2);
}

static void cmd_set(int argc, char **argv)
{
	char path[128];
	int fd;

	if (argc != 2)
		die(EXIT_USAGE, "set wants a setting and a value");
	if (access(SETTINGS, F_OK))
		die(EXIT_FAILED, "the module rar is not loaded (modprobe rar)");
	if (strchr(argv[0], '/') || argv[0][0] == '.' ||
	    snprintf(path, sizeof(path), SETTINGS "/%s", argv[0]) >= (int)sizeof(path))
		die(EXIT_USAGE, "\"%s\" is no setting", argv[0]);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		die(EXIT_FAILED, "there is no setting \"%s\" (see rarctl show settings)", argv[0]);
	if (fd < 0)
		die(EXIT_FAILED, "%s: %s", argv[0], strerror(errno));
	if (write(fd, argv[1], strlen(argv[1])) != (ssize_t)strlen(argv[1]))
		die(EXIT_FAILED, "%s: the value \"%s\" is refused: %s", argv[0], argv[1],
		    strerror(errno));
	close(fd);
}

static const struct {
	const char *name;
	void (*run)(int argc, char **argv);
} commands[] = {
	{ "show", cmd_show },
	{ "box", cmd_box },
	{ "watch", cmd_watch },
	{ "top", cmd_top },
	{ "monitor", cmd_monitor },
	{ "set", cmd_set },
	{ "abort", cmd_abort },
	{ "test", cmd_test },
	{ "record", cmd_record },
	{ "plot", cmd_plot },
};

/* -- options ---------------------------------------------------------------- */

static void enter_netns(const char *name)
{
	char path[512];
	int fd;

	if (strchr(name, '/') ||
	    snprintf(path, sizeof(path), NAMESPACES "/%s", name) >= (int)sizeof(path))
		die(EXIT_USAGE, "\"%s\" is no network namespace", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(EXIT_FAILED, "network namespace \"%s\": %s", name, strerror(errno));
	close(fd);
}

static int color_of(const char *when)
{
	if (!when || !strcmp(when, "always"))
		return COLOR_ALWAYS;
	if (!strcmp(when, "auto"))
		return COLOR_AUTO;
	if (strcmp(when, "never"))
		die(EXIT_USAGE, "\"%s\" is not always, auto or never", when);
	return COLOR_NEVER;
}

/* As iproute2 has them: each name may be shortened, and has one dash or two. */
static const struct option options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "pretty", no_argument, NULL, 'p' },
	{ "color", optional_argument, NULL, 'c' },
	{ "netns", required_argument, NULL, 'n' },
	{ "interval", required_argument, NULL, 'i' },
	{ "rounds", required_argument, NULL, 'r' },
	{ "Version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 }
};

static void set_option(int option, int *color)
{
	switch (option) {
	case 'j':
		opt_json = true;
		break;
	case 'p':
		opt_json = opt_pretty = true;
		break;
	case 'c':
		*color = color_of(optarg);
		break;
	case 'n':
		enter_netns(optarg);
		break;
	case 'i':
		interval = positive(optarg, "number of seconds");
		break;
	case 'r':
		rounds = number(optarg, "number of rounds", 1 << 30);
		break;
	case 'V':
		puts("rarctl " RAR_VERSION);
		exit(EXIT_OK);
	case 'h':
		fputs(usage, stdout);
		exit(EXIT_OK);
	default:
		fputs(usage, stderr);
		exit(EXIT_USAGE);
	}
}

int main(int argc, char **argv)
{
	int color = COLOR_AUTO, option;
	size_t i;

	while ((option = getopt_long_only(argc, argv, "", options, NULL)) != -1)
		set_option(option, &color);
	print_setup(color);
	argc -= optind;
	argv += optind;
	for (i = 0; argc && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!strcmp(argv[0], commands[i].name)) {
			commands[i].run(argc - 1, argv + 1);
			if (fflush(stdout))
				die(EXIT_FAILED, "output: %s", strerror(errno));
			return EXIT_OK;
		}
	}
	if (argc)
		die(EXIT_USAGE, "there is no command \"%s\" (rarctl -help)", argv[0]);
	fputs(usage, stderr);
	return EXIT_USAGE;
}
