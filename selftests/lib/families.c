// SPDX-License-Identifier: GPL-2.0
/*
 * families: runs a program that may open sockets of some families only, as under a seccomp profile
 * of a container, or RestrictAddressFamilies= of systemd.
 *
 *	families 1,2,10,16 PROGRAM [ARGUMENT]...
 *
 * socket() of any other family fails with EAFNOSUPPORT. The exit status is 125 if the kernel has no
 * filters.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

enum { FAMILIES_MAX = 16 };

#define LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what)	BPF_STMT(BPF_RET | BPF_K, what)
#define SKIP_IF(value, yes, no)	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)

/* All families of @list pass; the filter has @n instructions then. */
static int write_filter(struct sock_filter *filter, const char *list)
{
	const struct sock_filter begin[] = {
		LOAD(arch),
		SKIP_IF(ARCH, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		SKIP_IF(SYS_socket, 1, 0),
		RETURN(SECCOMP_RET_ALLOW),
		LOAD(args[0]),
	};
	unsigned int i;
	char *end;
	int n = 0;

	for (i = 0; i < sizeof(begin) / sizeof(*begin); i++)
		filter[n++] = begin[i];
	for (i = 0; i < FAMILIES_MAX && *list; i++) {
		filter[n++] = (struct sock_filter)SKIP_IF(strtoul(list, &end, 10), 0, 1);
		filter[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
		list = *end ? end + 1 : end;
	}
	filter[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	return n;
}

int main(int argc, char **argv)
{
	struct sock_filter filter[2 * FAMILIES_MAX + 8];
	struct sock_fprog program = { .filter = filter };

	if (argc < 3)
		return fprintf(stderr, "usage: families LIST PROGRAM [ARGUMENT]...\n"), 2;
	program.len = write_filter(filter, argv[1]);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return perror("families"), 125;
	execvp(argv[2], argv + 2);
	return perror(argv[2]), 127;
}
