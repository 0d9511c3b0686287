/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The settings net.rar.* of a network namespace, a row each.
 *
 * The lists make the fields of struct rar_net, the files in /proc/sys/net/rar
 * and netlink's dump of them. scripts/lib/lists.py takes the comments of the
 * rows into admin.rst and the exporter, and compares names, defaults and limits
 * with rar(7).
 */
#ifndef _RAR_CORE_SETTINGS_H
#define _RAR_CORE_SETTINGS_H

#define RAR_DAY_MS	86400000

/*
 * Each row calls one of four macros:
 *
 * NUMBER(name, type, min, max, default) - an integer in rn->sysctl_NAME
 * WORD(name, default, usable) - one of NAME_words[], by its number in
 *	rn->sysctl_NAME; the function usable may refuse it
 * VALUE(name, min, max, default) - an integer that the function get_NAME reads
 *	and set_NAME writes; the default is theirs
 * TEXT(name, default) - a text that the function show_NAME tells and parse_NAME
 *	takes; the default is theirs
 *
 * Others read the fields with READ_ONCE(). "(join)": for rings that are closed
 * afterwards.
 */
#define RAR_SETTINGS(NUMBER, WORD, VALUE, TEXT)				\
	/* UDP port of addresses that name none */			\
	NUMBER(port, int, 1, 65535, RAR_DEFAULT_PORT)			\
	/* where packets are received; ingress: at the netfilter */	\
	/* hook of a device; udp: behind the rules for the host's */	\
	/* input; auto: udp while there are such rules, else ingress; */ \
	/* xdp: by an XDP program */					\
	WORD(rx_path, RAR_PATH_AUTO, path_usable)			\
	/* bytes in flight in a whole ring, for each 500 us of the */	\
	/* round trip of a link; each rank injects its share (join) */	\
	NUMBER(window, unsigned long, 4096, 1UL << 32, 1 << 20)		\
	/* bytes of copied operations, all groups together; a quarter */ \
	/* more for packets held for operations not posted yet */	\
	NUMBER(mem, unsigned long, 65536, LONG_MAX,			\
	       totalram_pages() / 4 * PAGE_SIZE)			\
	/* per group: bytes of operations not posted here yet that */	\
	/* the predecessor may send */					\
	NUMBER(early_bytes, int, 4096, 1 << 27, 1 << 18)		\
	/* bytes of each block of a long tensor that are copied at */	\
	/* once while the ring works on it; 0: it starts after the */	\
	/* whole tensor */						\
	NUMBER(copy_step, int, 0, 1 << 30,				\
	       num_online_cpus() > 1 ? SZ_128K : 0)			\
	/* milliseconds until connect() gives up */			\
	NUMBER(join_ms, int, 10, RAR_DAY_MS, 30000)			\
	/* milliseconds of silence after which a neighbour counts as */	\
	/* dead; the same for all members of a group */			\
	NUMBER(dead_ms, int, 100, RAR_DAY_MS, 5000)			\
	/* milliseconds that a closed member may go on serving its */	\
	/* neighbours */						\
	NUMBER(linger_ms, int, 10, RAR_DAY_MS, 5000)			\
	/* members with a socket; with closed members that still */	\
	/* answer four times as many */					\
	NUMBER(max_members, int, 0, 1 << 20, 4096)			\
	/* chunks that one packet may carry until a device cuts it */	\
	/* (join) */							\
	NUMBER(super_chunks, int, 1, RAR_RUN_MAX, RAR_RUN_MAX)		\
	/* 1: ranks in one network namespace hand chunks over in */	\
	/* memory; 0: they send packets (join) */			\
	NUMBER(local, int, 0, 1, 1)					\
	/* 1: with RAR_BY_HOSTS, this namespace and all others of */	\
	/* this kernel with 1 are one host, whatever their addresses */	\
	/* (join) */							\
	NUMBER(one_host, int, 0, 1, 0)					\
	/* 1: packets to a neighbour in the same kernel have one */	\
	/* header for all of their chunks, and share the kernel's */	\
	/* pages (join) */						\
	NUMBER(carriers, int, 0, 1, 1)					\
	/* flows that the chunks of a link are spread over, each from */ \
	/* a UDP port of its own (join) */				\
	NUMBER(lanes, int, 1, RAR_MAX_LANES, 4)				\
	/* RAR_AUTO and RAR_DOUBLING, at rank 0: operations of more */	\
	/* bytes go by the ring; 1: all do; 0: by the number of */	\
	/* ranks (join) */						\
	NUMBER(direct_bytes, int, 0, RAR_STAGES_MAX_BYTES, 0)		\
	/* RAR_AUTO and RAR_DOUBLING, at rank 0: longer all-reduces, */ \
	/* all-gathers and reduce-scatters of up to so many bytes go */ \
	/* by halving; the latter two of up to twice as many, if the */ \
	/* number of ranks is no power of two; 1: none does; 0: by */ \
	/* that number, none if direct_bytes is not 0 (join) */		\
	NUMBER(halving_bytes, int, 0, RAR_HALVING_MAX_BYTES, 0)		\
	/* 1: packet sockets, such as those of tcpdump, see the */	\
	/* packets that XDP takes and sends */				\
	NUMBER(xdp_mirror, int, 0, 1, 0)				\
	/* 1: every packet passes all of netfilter; rx_path and local */ \
	/* act as if they were udp and 0; new namespaces begin with */	\
	/* the value of the host */					\
	VALUE(strict, 0, 1, 0)

#define RAR_BOX_SETTINGS(NUMBER, WORD, VALUE, TEXT)			\
	/* address of the box that rank 0 proposes to its group, or */	\
	/* several; offered: the first that offers itself; -: none */	\
	/* (join) */							\
	TEXT(box, "-")							\
	/* hosts that may use the box of this host; link: those that */	\
	/* are reached without a gateway; addresses and prefixes; */	\
	/* none */							\
	TEXT(box_allow, "link")						\
	/* bytes that this host uses as a box, also written as 256M; */	\
	/* 0: it is none. Loads rar_box */				\
	VALUE(box_mem, 0, LONG_MAX, 0)					\
	/* 1: this host, if it is a box, offers itself to members */	\
	/* whose packets it forwards */					\
	VALUE(box_offer, 0, 1, 0)					\
	/* how the groups share box_mem; static, fcfs, reclaim or */	\
	/* preempt */							\
	WORD(box_policy, RAR_POOL_PREEMPT, NULL)			\
	/* 1: this host, if it is a box, sums what RoCEv2 queue pairs */ \
	/* send through it. Loads rar_roce */				\
	VALUE(box_roce, 0, 1, 0)					\
	/* milliseconds that the box holds a packet of them at most */	\
	NUMBER(box_roce_ms, int, 10, 5000, 2000)			\
	/* percent of box_mem that is split evenly, and that no group */ \
	/* takes from another */					\
	NUMBER(box_share, int, 0, 100, 25)				\
	/* 1: the box compares the priorities of different groups */	\
	NUMBER(box_trust, int, 0, 1, 0)					\
	/* address of a box above the box of this host, to which it */	\
	/* brings the sums of its ranks; -: none */			\
	TEXT(box_up, "-")

#define RAR_ALL_SETTINGS(NUMBER, WORD, VALUE, TEXT)			\
	RAR_SETTINGS(NUMBER, WORD, VALUE, TEXT)				\
	RAR_BOX_SETTINGS(NUMBER, WORD, VALUE, TEXT)

/* The fields of struct rar_net. */
#define RAR_NUMBER_FIELD(name, type, min, max, value)	type sysctl_##name;
#define RAR_WORD_FIELD(name, value, usable)		int sysctl_##name;
#define RAR_NO_FIELD(name, ...)

#endif /* _RAR_CORE_SETTINGS_H */
