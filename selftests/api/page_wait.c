// SPDX-License-Identifier: GPL-2.0
/*
 * A call that waits for a page of its caller does not hold up other calls on the same
 * socket: getsockopt() returns at once, and bind(), which waits for send(), can be
 * interrupted. The page comes from userfaultfd, when the test wants it to.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "begin.h"

#define PAGE	4096ul
#define PATIENT_MS	3000

static struct rar_ring ring = { .where = RAR_ON_LO4, .size = 1, .group = 0x57a11 };

/* A page that is not there until page_give(). */
struct page {
	int uffd;
	char *at;
};

static int page_get(struct page *p)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	p->uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	p->at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = (uintptr_t)p->at;
	reg.range.len = PAGE;
	if (p->uffd < 0 || p->at == MAP_FAILED || ioctl(p->uffd, UFFDIO_API, &api) ||
	    ioctl(p->uffd, UFFDIO_REGISTER, &reg))
		return -errno;
	return 0;
}

/* Does a thread wait for the page? */
static bool page_wanted(const struct page *p)
{
	struct pollfd pfd = { .fd = p->uffd, .events = POLLIN };
	struct uffd_msg msg;

	return poll(&pfd, 1, 10000) == 1 && read(p->uffd, &msg, sizeof(msg)) == sizeof(msg);
}

static void page_give(struct page *p)
{
	static char zeros[PAGE] __attribute__((aligned(PAGE)));
	struct uffdio_copy copy = {
		.dst = (uintptr_t)p->at, .src = (uintptr_t)zeros, .len = PAGE,
	};

	ioctl(p->uffd, UFFDIO_COPY, &copy);
	close(p->uffd);
}

/* A call in a thread of its own. */
struct call {
	int (*fn)(int fd, void *arg);
	int fd;
	void *arg;
	pthread_t thread;
	volatile bool done;
	int ret;
};

static void *call_thread(void *arg)
{
	struct call *c = arg;

	c->ret = c->fn(c->fd, c->arg);
	c->done = true;
	return NULL;
}

static void call_start(struct call *c)
{
	pthread_create(&c->thread, NULL, call_thread, c);
}

static bool call_ends(const struct call *c)
{
	for (int i = 0; i < PATIENT_MS && !c->done; i++)
		rar_sleep_ms(1);
	return c->done;
}

static int do_send(int fd, void *arg)
{
	return rar_send(fd, arg, 4, 0, NULL);
}

static int do_info(int fd, void *arg)
{
	socklen_t len = sizeof(struct rar_info);

	return getsockopt(fd, SOL_RAR, RAR_INFO, arg, &len) ? -errno : 0;
}

static int do_bind(int fd, void *arg)
{
	(void)arg;
	return rar_bind(fd, &ring, 0);
}

static void on_signal(int sig)
{
	(void)sig;
}

/* bind() after a failure waits for send(), which waits for its page. */
static int bind_waits(struct page *p, int fd, bool *bound)
{
	struct rar_info info;
	struct call bind = { .fn = do_bind, .fd = fd };
	struct call ask = { .fn = do_info, .fd = fd, .arg = &info };
	bool asked, interrupted;
	uint32_t zero = 0;

	RAR_CHECK(page_wanted(p), "send() does not touch the page");
	RAR_CHECK(!setsockopt(fd, SOL_RAR, RAR_ABORT, &zero, sizeof(zero)), "RAR_ABORT");
	call_start(&bind);
	rar_sleep_ms(100);
	call_start(&ask);
	asked = call_ends(&ask);
	pthread_kill(bind.thread, SIGUSR1);
	interrupted = call_ends(&bind);
	page_give(p);
	pthread_join(bind.thread, NULL);
	pthread_join(ask.thread, NULL);
	*bound = !bind.ret;
	RAR_CHECK(asked && !ask.ret, "getsockopt() waits for bind()");
	RAR_CHECK(interrupted && bind.ret == -EINTR, "bind() cannot be interrupted: %d",
		  bind.ret);
	return 0;
}

static int stalled_send(void)
{
	struct page p;
	struct call send = { .fn = do_send };
	bool bound = false;
	int err, bad;

	send.fd = rar_open(&ring, 0);
	RAR_CHECK(send.fd >= 0, "join: %d", send.fd);
	RAR_CHECK(!page_get(&p), "userfaultfd");
	send.arg = p.at;
	call_start(&send);
	bad = bind_waits(&p, send.fd, &bound);
	pthread_join(send.thread, NULL);
	RAR_CHECK(!bad, "send() in the way");
	RAR_CHECK(send.ret == -ECONNRESET, "send: %d", send.ret);
	err = rar_bind(send.fd, &ring, 0);
	RAR_CHECK(bound || !err, "bind: %d", err);
	close(send.fd);
	return 0;
}

/* getsockopt() waits for the page to which its answer goes. */
static int stalled_answer(void)
{
	struct page p;
	struct rar_info info;
	struct call slow = { .fn = do_info };
	struct call ask = { .fn = do_info, .arg = &info };
	bool asked;
	int fd;

	fd = rar_open(&ring, 0);
	RAR_CHECK(fd >= 0, "join: %d", fd);
	RAR_CHECK(!page_get(&p), "userfaultfd");
	slow.fd = ask.fd = fd;
	slow.arg = p.at;
	call_start(&slow);
	RAR_CHECK(page_wanted(&p), "getsockopt() does not touch the page");
	call_start(&ask);
	asked = call_ends(&ask);
	page_give(&p);
	pthread_join(slow.thread, NULL);
	pthread_join(ask.thread, NULL);
	close(fd);
	RAR_CHECK(asked && !ask.ret && !slow.ret, "another getsockopt() hangs: %d", ask.ret);
	return 0;
}

int main(void)
{
	struct sigaction act = { .sa_handler = on_signal };
	struct page p;

	rar_begin();
	if (page_get(&p))
		ksft_exit_skip("no userfaultfd in this kernel\n");
	page_give(&p);
	if (rar_private_net())
		ksft_exit_fail_msg("no network namespace\n");
	sigaction(SIGUSR1, &act, NULL);
	ksft_set_plan(2);
	ksft_test_result(!stalled_send(), "send() waits for a page: bind(), getsockopt()\n");
	ksft_test_result(!stalled_answer(), "getsockopt() waits for a page: getsockopt()\n");
	ksft_finished();
}
