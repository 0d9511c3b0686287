// SPDX-License-Identifier: GPL-2.0
/*
 * lead CTL N: makes the control block of N ranks and drives them. It writes one answer
 * to stdout for each line on stdin. The ranks leave when it ends.
 *
 *	wait SECONDS					"ok" when all ranks are there
 *	run f32|i32|bcast TIMES SECONDS KNOB,KNOB,.. BYTES..	"ok NANOSECONDS" for TIMES
 *							times the list of operations
 *
 * The time is from the first rank's start to the last rank's end; see bench.h for "bcast",
 * broadcasts of i32. The answer is "no ..."
 * if a rank does not support the job, and "error ..." if it failed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static struct bench_ctl *ctl;

static uint64_t deadline(const char *seconds)
{
	return bench_now_ns() + (uint64_t)(strtod(seconds ?: "0", NULL) * 1e9);
}

/* Waits until all ranks have counted themselves; false if it is too late. */
static bool all_counted(uint32_t *counter, uint64_t until)
{
	uint32_t have;

	while ((have = __atomic_load_n(counter, __ATOMIC_ACQUIRE)) < ctl->n)
		if (!bench_sleep(counter, have, until))
			return false;
	return true;
}

/* Reports the first rank that failed, and no rank that only waited for it. */
static bool complain(void)
{
	for (uint32_t r = 0; r < ctl->n; r++) {
		const struct bench_report *report = &ctl->report[r];

		if (!report->err)
			continue;
		if (report->err == -EOPNOTSUPP)
			printf("no %s\n", report->text);
		else
			printf("error rank %u: %s\n", r, report->text);
		return true;
	}
	return false;
}

static void too_late(const char *what, uint32_t have)
{
	if (!complain())
		printf("error %u of %u ranks %s in time\n", have, ctl->n, what);
}

static void do_wait(const char *seconds)
{
	if (!all_counted(&ctl->attached, deadline(seconds)))
		too_late("came", ctl->attached);
	else if (!complain())
		printf("ok\n");
}

static bool parse_job(struct bench_job *job, char *words)
{
	char *save, *word = strtok_r(words, " \n", &save);

	job->broadcast = word && !strcmp(word, "bcast");
	job->type = word && (job->broadcast || !strcmp(word, "i32")) ? BENCH_I32 : BENCH_F32;
	word = strtok_r(NULL, " \n", &save);
	job->times = word ? strtoul(word, NULL, 0) : 0;
	strtok_r(NULL, " \n", &save);		/* the time limit */
	word = strtok_r(NULL, " \n", &save);
	for (int i = 0; i < BENCH_KNOBS && word && *word; i++)
		job->knob[i] = strtoull(word + (*word == ','), &word, 0);
	for (job->nops = 0; job->nops < BENCH_OPS; job->nops++) {
		word = strtok_r(NULL, " \n", &save);
		if (!word)
			break;
		job->bytes[job->nops] = strtoull(word, NULL, 0) / 4 * 4;
	}
	job->number++;
	return job->times && job->nops;
}

static void print_time(void)
{
	uint64_t start = UINT64_MAX, end = 0;

	for (uint32_t r = 0; r < ctl->n; r++) {
		const struct bench_report *report = &ctl->report[r];

		start = report->start_ns < start ? report->start_ns : start;
		end = report->end_ns > end ? report->end_ns : end;
	}
	if (ctl->job.broadcast)
		end = start + ctl->broadcast_ns;
	printf("ok %llu\n", (unsigned long long)(end - start));
}

static void do_run(char *words)
{
	char *copy = strdup(words), *save;
	uint64_t until;

	strtok_r(copy, " \n", &save);
	strtok_r(NULL, " \n", &save);
	until = deadline(strtok_r(NULL, " \n", &save));
	free(copy);
	if (!parse_job(&ctl->job, words)) {
		printf("error what kind of job is that\n");
		return;
	}
	ctl->done = 0;
	ctl->failed = 0;
	ctl->broadcast_ns = 0;
	__atomic_add_fetch(&ctl->round, 1, __ATOMIC_RELEASE);
	bench_wake(&ctl->round);
	if (!all_counted(&ctl->done, until))
		too_late("were done", ctl->done);
	else if (!complain())
		print_time();
}

static void serve(void)
{
	static char line[BENCH_OPS * 16];
	char *words;

	while (fgets(line, sizeof(line), stdin)) {
		words = line + strcspn(line, " \n");
		if (*words)
			*words++ = '\0';
		if (!strcmp(line, "wait"))
			do_wait(words);
		else if (!strcmp(line, "run"))
			do_run(words);
		else
			printf("error what is that: %s\n", line);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	uint32_t n = argc == 3 ? atoi(argv[2]) : 0;

	if (!n || n > BENCH_RANKS) {
		fprintf(stderr, "usage: lead CTL N (1 to %d)\n", BENCH_RANKS);
		return 2;
	}
	ctl = bench_map(argv[1], true);
	if (!ctl) {
		perror(argv[1]);
		return 1;
	}
	ctl->n = n;
	serve();
	ctl->quit = 1;
	__atomic_add_fetch(&ctl->round, 1, __ATOMIC_RELEASE);
	bench_wake(&ctl->round);
	unlink(argv[1]);
	return 0;
}
