// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The network device: the one that has the address which librar takes for this host.
 */
#define _GNU_SOURCE
#include <ifaddrs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "../src/librar.h"	/* how librar finds the address */

#define USUAL_SPEED	10000	/* Mbit/s, where the device does not say it */

static void set_address(struct device *d, const struct card *card)
{
	memset(&d->addr, 0, sizeof(d->addr));
	d->addr.any.sa_family = card->af;
	if (card->af == AF_INET6) {
		d->addr.v6.sin6_scope_id = card->scope;
		memcpy(&d->addr.v6.sin6_addr, card->addr, 16);
	} else {
		memcpy(&d->addr.v4.sin_addr, card->addr, 4);
	}
}

static bool has_address(const struct ifaddrs *i, const struct device *d)
{
	const union address *a = (const void *)i->ifa_addr;

	if (!a || a->any.sa_family != d->addr.any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == d->addr.v4.sin_addr.s_addr;
	return !memcmp(&a->v6.sin6_addr, &d->addr.v6.sin6_addr, 16) &&
	       a->v6.sin6_scope_id == d->addr.v6.sin6_scope_id;
}

static void find_name(struct device *d)
{
	struct ifaddrs *list, *i;

	snprintf(d->name, sizeof(d->name), "rar");
	if (getifaddrs(&list))
		return;
	for (i = list; i; i = i->ifa_next)
		if (has_address(i, d))
			snprintf(d->name, sizeof(d->name), "%s", i->ifa_name);
	freeifaddrs(list);
}

static void find_speed(struct device *d)
{
	char path[64];
	FILE *f;

	d->speed = 0;
	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", d->name);
	f = fopen(path, "re");
	if (f) {
		if (fscanf(f, "%d", &d->speed) != 1)
			d->speed = 0;
		fclose(f);
	}
	if (d->speed <= 0)
		d->speed = USUAL_SPEED;
}

/* By this path NCCL finds out how far the device is from each GPU. */
static void find_pci(struct device *d)
{
	char link[64], path[PATH_MAX], bus[PATH_MAX], subsystem[PATH_MAX + 16];

	d->pci_path[0] = '\0';
	snprintf(link, sizeof(link), "/sys/class/net/%s/device", d->name);
	if (!realpath(link, path))
		return;
	snprintf(subsystem, sizeof(subsystem), "%s/subsystem", path);
	if (!realpath(subsystem, bus) || strcmp(strrchr(bus, '/'), "/pci") ||
	    strlen(path) >= sizeof(d->pci_path))
		return;
	memcpy(d->pci_path, path, strlen(path) + 1);
}

nccl_result_t device_find(struct device *d)
{
	struct card card = {};
	char text[128];
	int err;

	err = rar_local_address(NULL, &card);
	if (err)
		return refuse(NCCL_SYSTEM_ERROR, "%s",
			      rar_strerror(NULL, err, text, sizeof(text)));
	set_address(d, &card);
	find_name(d);
	find_speed(d);
	find_pci(d);
	return NCCL_OK;
}
