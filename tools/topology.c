// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend topology: the command, and the fabric as text.  JSON is topology_json.c's, pictures are
 * dot.c's, one way hop by hop is path.c's, and cliques are clique.c's.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "topology.h"

static const char *const bridge_text[BRIDGE_KINDS] = {
	[BRIDGE_ROOT] = "root port", [BRIDGE_UP] = "switch", [BRIDGE_DOWN] = "port",
	[BRIDGE_PCI] = "PCI bridge",
};

static const char *mebibytes(unsigned long long bytes)
{
	return bytes ? text("%lluM", bytes >> 20) : "?";
}

/* Text */

static bool same_path(const struct place *a, const struct place *b, size_t count)
{
	if (a->count < count || b->count < count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (strcmp(a->bridge[i].bdf, b->bridge[i].bdf))
			return false;
	return true;
}

static const char *state_text(const struct lent *d)
{
	const char *s = d->state;

	if (d->borrower)
		s = text("%s by node %s", s, node_text(text("%u", d->borrower)));
	if (*d->uuid)
		s = text("%s, mdev %s", s, d->uuid);
	if (*d->interrupts)
		s = text("%s, interrupts %s", s,
			 strcmp(d->interrupts, "direct") ? "by the doorbell" : "direct");
	return d->clique >= 0 ? text("%s, clique %d", s, d->clique) : s;
}

/* Prints bridges that the line before did not show, indented by their depth. */
static void show_bridges(const struct place *place, const struct place *before, int indent)
{
	for (size_t i = 0; i < place->count; i++) {
		const struct bridge *b = &place->bridge[i];

		if (!same_path(place, before, i + 1))
			printf("%*s%s %s%s\n", indent + 2 * (int)i, "", b->bdf,
			       bridge_text[b->kind], b->acs ? ", ACS" : "");
	}
}

static void show_devices(const struct fabric *f, unsigned int node, const struct root *root,
			 int indent)
{
	static const struct place none;
	const struct place *before = &none;

	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *d = &f->device[i];

		if (d->lender != node || !root_same(&d->root, root))
			continue;
		show_bridges(&d->place, before, indent);
		before = &d->place;
		printf("%*s%s %s, %s%s\n", indent + 2 * (int)d->place.count, "", d->address,
		       d->type, state_text(d),
		       d->place.known ? "" : " (bridges above it are not known)");
	}
}

static void show_edges(const struct fabric *f, unsigned int node, const struct root *root,
		       int indent)
{
	for (size_t i = 0; i < f->edges; i++) {
		const struct edge *e = &f->edge[i];

		if (e->from != node || !root_same(&e->root, root))
			continue;
		if (!e->up)
			printf("%*slink %s: %s\n", indent, "", e->name,
			       *e->state ? e->state : "down");
		else
			printf("%*slink %s%sto node %u: reaches %s there\n", indent, "", e->name,
			       *e->name ? " " : "", e->to, mebibytes(e->bytes));
	}
}

/* What is below each host bridge.  A socket has one or several; the NUMA node tells them apart. */
static void show_roots(const struct fabric *f, unsigned int node)
{
	struct root root[ROOTS_MAX];
	size_t n = fabric_roots(f, node, root);

	for (size_t i = 0; i < n; i++) {
		bool bare = n == 1 && !root[i].known;

		if (!bare)
			printf("  %s\n", root_text(&root[i]));
		show_edges(f, node, &root[i], bare ? 2 : 4);
		show_devices(f, node, &root[i], bare ? 2 : 4);
	}
}

static void show_nodes(const struct fabric *f)
{
	for (size_t i = 0; i < f->nodes; i++) {
		unsigned int node = f->node[i];

		printf("node %s%s\n", node_text(text("%u", node)),
		       node == f->me ? " (this one)" : "");
		show_roots(f, node);
	}
	if (!f->nodes)
		puts("no nodes: this host has no id, no links and no offers");
}

static void add_route_row(void *table, const struct route *r)
{
	bool way = r->way != WAY_NONE;

	table_row(table, 7, (const char *[]){
		r->from, r->to, way_name(r->way),
		way ? text("%s%u", r->exact ? "" : ">=", r->hops) : "",
		way ? text("%u", r->roots) : "",
		way ? text("%s%u", r->exact ? "" : ">=", r->bridges) : "",
		way ? text("%u", r->crossings) : "" });
}

static void show_routes(const struct fabric *f)
{
	static const char *const head[] = {
		"FROM", "TO", "WAY", "HOPS", "ROOTS", "BRIDGES", "NTBS"
	};
	struct libscols_table *t = NULL;

	if (!f->devices)
		return;
	table_row(&t, 7, head);
	route_each(f, add_route_row, &t);
	putchar('\n');
	table_print(&t);
}

int cmd_topology(int argc, char **argv)
{
	static const struct option options[] = {
		{ "dot", no_argument, NULL, 'd' },
		{ "path", no_argument, NULL, 'p' },
		{ 0 }
	};
	bool dot = false, way = false;
	struct fabric f;
	int c;

	while ((c = verb_option(argc, argv, options)) != -1) {
		dot |= c == 'd';
		way |= c == 'p';
	}
	if ((dot && (way || opt.json)) || argc - optind != (way ? 2 : 0))
		refuse_usage(argv[0]);
	f = fabric_load();
	if (way) {
		path_show(&f, argv[optind], argv[optind + 1]);
	} else if (dot) {
		fabric_dot(&f);
	} else if (opt.json) {
		topology_json(&f);
	} else {
		show_nodes(&f);
		show_routes(&f);
		peers_show(&f);
		cliques_show(&f);
	}
	return EXIT_OK;
}
