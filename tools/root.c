// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where a device joins the root complex of its host: the host bridge (a socket has one or several),
 * NUMA node, and what it reaches there.  The kernel tells it; of other hosts, as they told.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

#define DOMAIN_MAX	0xfffffu
#define BUS_MAX		0xffu
#define PAYLOAD_MAX	4096u
#define ISLAND_MAX	0xffffu

struct root root_parse(const char *words)
{
	struct root root = { .known = true };
	unsigned int domain, bus;
	int used = 0;

	if (sscanf(words, "%x:%x %d %u %u%n", &domain, &bus, &root.numa, &root.payload,
		   &root.island, &used) != 5 || words[used] || domain > DOMAIN_MAX ||
	    bus > BUS_MAX || root.payload > PAYLOAD_MAX || root.island > ISLAND_MAX)
		return (struct root){ .known = false };
	snprintf(root.bridge, sizeof(root.bridge), "%04x:%02x", domain, bus);
	return root;
}

struct root root_attr(const char *dir)
{
	char words[TEXT_MAX];

	return root_parse(read_attr(words, dir, "root"));
}

bool root_same(const struct root *a, const struct root *b)
{
	return a->known == b->known && !strcmp(a->bridge, b->bridge);
}

const char *root_text(const struct root *root)
{
	const char *numa = root->numa < 0 ? "" : text(", NUMA node %d", root->numa);

	if (!root->known)
		return "host bridge not known";
	return text("host bridge %s%s, %s", root->bridge, numa,
		    root->island ? text("peer-to-peer island %u", root->island) :
				   "nobody vouches for peer-to-peer");
}
