// SPDX-License-Identifier: GPL-2.0-only
/* dlend topology --path: one way through the fabric, hop by hop. */
#include <stdlib.h>
#include <string.h>

#include "topology.h"

static const char look_at_links[] =
	"dlend links shows this node's links and what is wrong with them.";

static const struct lent *find_endpoint(const struct fabric *f, const char *name)
{
	const struct lent *d = fabric_device(f, name);
	char bdf[16];

	if (!d && !bdf_parse(bdf, name) && !uuid_valid(name))
		fail(EXIT_USAGE, text("\"%s\" is no address and no UUID", name), NULL,
		     "dlend list shows what is offered, dlend status the mediated devices.");
	if (!d)
		fail(EXIT_NOT_FOUND, text("%s: no such device", name),
		     "it is no address of an offer or of a lent device of this host, and no UUID of an mdev",
		     "dlend list shows what is offered.");
	return d;
}

/* "memory" is that of a guest on this node, "memory:3" on node 3. Return: the node, or 0 */
static unsigned int memory_node(const struct fabric *f, const char *name)
{
	char *end;
	unsigned long node;

	if (!strcmp(name, "memory"))
		return f->me;
	if (strncmp(name, "memory:", 7))
		return 0;
	node = strtoul(name + 7, &end, 10);
	if (*end || end == name + 7 || !node || node > 65535)
		fail(EXIT_USAGE, text("\"%s\" is no memory", name), "a node id is 1 to 65535",
		     NULL);
	return node;
}

static const char *count_text(unsigned int count, const char *what)
{
	return text("%u %s%s", count, what, count == 1 ? "" :
		    what[strlen(what) - 1] == 'h' ? "es" : "s");
}

static void show_step(const struct step *s, unsigned int *hop)
{
	bool counts = s->kind != STEP_DEVICE && s->kind != STEP_MEMORY && s->kind != STEP_UNKNOWN;

	printf("  %2s  node %-5u  %-7s", counts ? text("%u", ++*hop) : "", s->node,
	       step_name(s->kind));
	if (*s->name || *s->note)
		printf("  %-13s", s->name);
	if (*s->note)
		printf("  %s", s->note);
	putchar('\n');
}

static void show_path(const struct route *r)
{
	unsigned int hop = 0;

	printf("%s to %s: %s\n", r->from, r->to, way_name(r->way));
	for (size_t i = 0; i < r->count; i++)
		show_step(&r->step[i], &hop);
	printf("%s%s: %s, %s, %s; %s on the way\n", r->exact ? "" : "at least ",
	       count_text(r->hops, "hop"), count_text(r->roots, "root"),
	       count_text(r->switches, "switch"), count_text(2 * r->crossings, "NTB end"),
	       count_text(r->bridges, "bridge"));
}

void path_show(const struct fabric *f, const char *from, const char *to)
{
	const struct lent *a = find_endpoint(f, from);
	unsigned int node = memory_node(f, to);
	struct route r;

	if (!strcmp(to, "memory") && !node)
		fail(EXIT_NOT_READY, "this node has no id", "dlend_core.node_id is not set",
		     "modprobe dlend_core node_id=N, different on every node.");
	r = node ? route_memory(f, a, node) : route_device(f, a, find_endpoint(f, to), f->me);
	if (r.way == WAY_NONE && node)
		fail(EXIT_NOT_FOUND, text("%s has no way to %s", from, to),
		     text("no link that is up joins nodes %u and %u, as far as this one knows",
			  a->lender, node), look_at_links);
	if (r.way == WAY_NONE)
		fail(EXIT_NOT_FOUND, text("%s has no way to %s", from, to),
		     "no link that is up joins their nodes, and this node does not have a link to both",
		     look_at_links);
	if (opt.json)
		print_document(route_json(&r, true));
	else
		show_path(&r);
}
