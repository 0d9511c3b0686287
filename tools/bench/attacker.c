// SPDX-License-Identifier: GPL-2.0
/*
 * attacker SEEN SEND RATE: a host on the path of a group with seals. It sees a chunk that leaves by
 * the device SEEN, and sends copies of it with other seals by the device SEND, RATE in a second: right
 * in all headers and checksums, so that only the seal tells what they are. The receiver must look at
 * all bytes of each. It prints a line when it watches, and with SIGTERM how many it has sent, and in
 * how many nanoseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/rar_wire.h>

#define COPIES		64
#define MAX_FRAME	10000
#define TICKS		200		/* in a second */
#define HEADERS		(sizeof(struct ether_header) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define AHEAD		(1ULL << 40)	/* of the counters that were seen: none of them came before */

static volatile sig_atomic_t over;

static void stop(int sig)
{
	(void)sig;
	over = 1;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int packet_socket(const char *device, int protocol)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol),
				  .sll_ifindex = if_nametoindex(device) };
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		die(device);
	return fd;
}

/* Waits for a chunk, and leaves its first packet in @frame. Returns the length of RAR, or 0. */
static size_t see_chunk(int fd, uint8_t *frame)
{
	static uint8_t all[70000];
	const struct rar_hdr *h = (void *)(all + HEADERS);
	struct sockaddr_ll from;
	socklen_t len;
	ssize_t n;
	size_t size;

	while (!over) {
		len = sizeof(from);
		n = recvfrom(fd, all, sizeof(all), 0, (struct sockaddr *)&from, &len);
		if (n < (ssize_t)(HEADERS + sizeof(*h)) || from.sll_pkttype != PACKET_OUTGOING ||
		    all[HEADERS - sizeof(struct udphdr) - 11] != IPPROTO_UDP ||
		    (h->type != RAR_T_RS && h->type != RAR_T_AG))
			continue;
		size = sizeof(*h) + ntohs(h->len) + sizeof(struct rar_seal_tail);
		if (HEADERS + size > MAX_FRAME || HEADERS + size > (size_t)n)
			continue;
		memcpy(frame, all, HEADERS + size);
		return size;
	}
	return 0;
}

static uint32_t sum_of(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *at = data;
	size_t i;

	for (i = 0; i + 1 < len; i += 2)
		sum += at[i] << 8 | at[i + 1];
	return i < len ? sum + (at[i] << 8) : sum;
}

static uint16_t folded(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

/* Gives the packet another seal, and the headers below what belongs to it. */
static void forge(uint8_t *frame, size_t size, unsigned int number)
{
	struct iphdr *ip = (void *)(frame + sizeof(struct ether_header));
	struct udphdr *udp = (void *)(ip + 1);
	struct rar_seal_tail *tail = (void *)(frame + HEADERS + size - sizeof(*tail));
	uint64_t counter = htobe64(AHEAD + number);

	if (getrandom(tail, sizeof(*tail), 0) != sizeof(*tail))
		die("getrandom");
	memcpy((uint8_t *)(tail + 1) - sizeof(counter), &counter, sizeof(counter));
	ip->tot_len = htons(sizeof(*ip) + sizeof(*udp) + size);
	ip->check = 0;
	ip->check = folded(sum_of(ip, sizeof(*ip), 0));
	udp->len = htons(sizeof(*udp) + size);
	udp->check = 0;
	udp->check = folded(sum_of(&ip->saddr, 8, sum_of(udp, sizeof(*udp) + size,
							 IPPROTO_UDP + sizeof(*udp) + size)));
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/*
 * Sends so many frames each tick, until it is told to stop; what a full queue of the device refuses is
 * made up for later. Returns how many.
 */
static unsigned long send_all(int fd, struct mmsghdr *messages, unsigned int rate)
{
	struct timespec next;
	unsigned long sent = 0;
	unsigned int todo = 0, n;
	int done;

	clock_gettime(CLOCK_MONOTONIC, &next);
	while (!over) {
		for (todo += rate / TICKS; todo; todo -= done) {
			n = todo < COPIES ? todo : COPIES;
			done = sendmmsg(fd, messages, n, 0);
			if (done < 0) {
				if (errno != ENOBUFS && errno != EINTR)
					die("sendmmsg");
				break;
			}
			sent += done;
		}
		next.tv_nsec += 1000000000 / TICKS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	return sent;
}

int main(int argc, char **argv)
{
	static uint8_t frames[COPIES][MAX_FRAME];
	static struct mmsghdr messages[COPIES];
	static struct iovec parts[COPIES];
	struct sigaction act = { .sa_handler = stop };	/* calls that wait end */
	const struct sched_param soon = { .sched_priority = 1 };
	unsigned long sent = 0;
	long long began;
	unsigned int i;
	size_t size;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: attacker SEEN SEND RATE\n");
		return 2;
	}
	sigaction(SIGTERM, &act, NULL);
	/* Its host has a processor of its own, which the ring does not keep from it. */
	if (sched_setscheduler(0, SCHED_FIFO, &soon))
		die("sched_setscheduler");
	fd = packet_socket(argv[1], ETH_P_ALL);
	printf("watching\n");
	fflush(stdout);
	size = see_chunk(fd, frames[0]);
	close(fd);
	began = now();
	for (i = 0; i < COPIES && size; i++) {
		memcpy(frames[i], frames[0], HEADERS + size);
		forge(frames[i], size, i);
		parts[i] = (struct iovec){ frames[i], HEADERS + size };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
	}
	if (size)
		sent = send_all(packet_socket(argv[2], 0), messages, atoi(argv[3]));
	printf("%lu %lld\n", sent, now() - began);
	return 0;
}
