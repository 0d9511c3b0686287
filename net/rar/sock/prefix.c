// SPDX-License-Identifier: GPL-2.0
/* The hosts that may use the box of this host, as text: net.rar.box_allow. */
#include <linux/inet.h>
#include <linux/string.h>

#include "sock/prefix.h"

static bool parse_prefix(char *word, struct rar_prefix *p)
{
	char *slash = strchr(word, '/');
	u8 max;

	*p = (struct rar_prefix) { };
	if (slash)
		*slash++ = '\0';
	if (in4_pton(word, -1, (u8 *)&p->ip, -1, NULL)) {
		p->af = AF_INET;
		max = 32;
	} else if (in6_pton(word, -1, (u8 *)&p->ip, -1, NULL)) {
		p->af = AF_INET6;
		max = 128;
	} else {
		return false;
	}
	p->len = max;
	return !slash || (!kstrtou8(slash, 10, &p->len) && p->len <= max);
}

static bool parse(char *text, struct rar_allow *allow)
{
	char *word;

	*allow = (struct rar_allow) { };
	while ((word = strsep(&text, " ,\t\n"))) {
		if (!*word || !strcmp(word, "none"))
			continue;
		if (!strcmp(word, "link")) {
			allow->link = true;
			continue;
		}
		if (allow->n == RAR_BOX_PREFIXES ||
		    !parse_prefix(word, &allow->prefix[allow->n++]))
			return false;
	}
	return true;
}

/**
 * rar_prefix_set() - set the hosts that may use the box
 * @rn:   netns
 * @text: words: "link", addresses, prefixes, or "none"; it is changed
 *
 * Members that have entered already may stay.
 *
 * Return: 0, or -EINVAL and nothing has changed.
 */
int rar_prefix_set(struct rar_net *rn, char *text)
{
	struct rar_allow allow;

	if (!parse(text, &allow))
		return -EINVAL;
	spin_lock_bh(&rn->lock);
	rn->box_allow = allow;
	spin_unlock_bh(&rn->lock);
	return 0;
}

/**
 * rar_prefix_show() - write down the hosts that may use the box
 * @rn:   netns
 * @text: at least RAR_PREFIX_TEXT bytes
 *
 * Any context up to softirq.
 */
void rar_prefix_show(struct rar_net *rn, char *text)
{
	const struct rar_prefix *p;
	size_t at = 0;
	u32 i;

	spin_lock_bh(&rn->lock);
	if (rn->box_allow.link)
		at = scnprintf(text, RAR_PREFIX_TEXT, "link ");
	for (i = 0; i < rn->box_allow.n; i++) {
		p = &rn->box_allow.prefix[i];
		at += scnprintf(text + at, RAR_PREFIX_TEXT - at,
				p->af == AF_INET ? "%pI4/%u " : "%pI6c/%u ",
				&p->ip, p->len);
	}
	spin_unlock_bh(&rn->lock);
	if (at)
		text[at - 1] = '\0';
	else
		strscpy(text, "none", RAR_PREFIX_TEXT);
}
