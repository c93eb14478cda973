// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend topology: the fabric as text or JSON (dot.c draws it), and the way from a device to another
 * or to a guest's memory.  What a way is, route.c knows.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

#define CLIQUES		16

static const char *const bridge_text[BRIDGE_KINDS] = {
	[BRIDGE_ROOT] = "root port", [BRIDGE_UP] = "switch", [BRIDGE_DOWN] = "port",
	[BRIDGE_PCI] = "PCI bridge",
};

static const char look_at_links[] =
	"dlend links shows this node's links and what is wrong with them.";

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

static const char *who(const struct lent *d)
{
	const char *s = d->state;

	if (d->borrower)
		s = text("%s by node %u", s, d->borrower);
	if (*d->uuid)
		s = text("%s, mdev %s", s, d->uuid);
	return d->clique >= 0 ? text("%s, clique %d", s, d->clique) : s;
}

/* Bridges that the line before did not show, each indented by what is above it. */
static void show_bridges(const struct place *place, const struct place *before)
{
	for (size_t i = 0; i < place->count; i++) {
		const struct bridge *b = &place->bridge[i];

		if (!same_path(place, before, i + 1))
			printf("  %*s%s %s%s\n", 2 * (int)i, "", b->bdf, bridge_text[b->kind],
			       b->acs ? ", ACS" : "");
	}
}

static void show_devices(const struct fabric *f, unsigned int node)
{
	static const struct place none;
	const struct place *before = &none;

	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *d = &f->device[i];

		if (d->lender != node)
			continue;
		show_bridges(&d->place, before);
		before = &d->place;
		printf("  %*s%s %s, %s%s\n", 2 * (int)d->place.count, "", d->address, d->type,
		       who(d), d->place.known ? "" : " (bridges above it are not known)");
	}
}

static void show_edges(const struct fabric *f, unsigned int node)
{
	for (size_t i = 0; i < f->edges; i++) {
		const struct edge *e = &f->edge[i];

		if (e->from != node)
			continue;
		if (!e->up)
			printf("  link %s: %s\n", e->name, *e->state ? e->state : "down");
		else
			printf("  link %s%sto node %u: reaches %s there\n", e->name,
			       *e->name ? " " : "", e->to, mebibytes(e->bytes));
	}
}

static void show_nodes(const struct fabric *f)
{
	for (size_t i = 0; i < f->nodes; i++) {
		unsigned int node = f->node[i];

		printf("node %u%s\n", node, node == f->me ? " (this one)" : "");
		show_edges(f, node);
		show_devices(f, node);
	}
	if (!f->nodes)
		puts("no node: neither an id, nor links, nor offers here");
}

static void row(struct table *t, const struct route *r)
{
	bool way = r->way != WAY_NONE;

	table_row(t, 7, (const char *[]){
		r->from, r->to, way_name(r->way),
		way ? text("%s%u", r->exact ? "" : ">=", r->hops) : "",
		way ? text("%u", r->roots) : "",
		way ? text("%s%u", r->exact ? "" : ">=", r->bridges) : "",
		way ? text("%u", r->crossings) : "" });
}

typedef void (*route_fn)(void *arg, const struct route *r);

/* Everything that a guest here could want: to its memory, and between what is borrowed here. */
static void each_route(const struct fabric *f, route_fn fn, void *arg)
{
	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *a = &f->device[i];
		struct route r = route_memory(f, a, f->me);

		fn(arg, &r);
		for (size_t k = 0; *a->uuid && k < f->devices; k++)
			if (k != i && *f->device[k].uuid) {
				r = route_device(f, a, &f->device[k], f->me);
				fn(arg, &r);
			}
	}
}

static void add_row(void *arg, const struct route *r)
{
	row(arg, r);
}

static void show_routes(const struct fabric *f)
{
	static const char *const head[] = {
		"FROM", "TO", "WAY", "HOPS", "ROOTS", "BRIDGES", "NTBS"
	};
	struct table t = { 0 };

	if (!f->devices)
		return;
	table_row(&t, 7, head);
	each_route(f, add_row, &t);
	putchar('\n');
	table_print(&t);
}

/* Cliques: what the guests here are told, and whether it can be true, and is. */

static bool reach(const struct fabric *f, const struct lent *a, const struct lent *b)
{
	struct route there = route_device(f, a, b, f->me), back = route_device(f, b, a, f->me);

	return there.way != WAY_NONE && back.way != WAY_NONE;
}

static bool clique_has(const struct fabric *f, int clique)
{
	for (size_t i = 0; i < f->devices; i++)
		if (f->device[i].clique == clique)
			return true;
	return false;
}

typedef void (*pair_fn)(const struct lent *a, const struct lent *b);

static void each_lie(const struct fabric *f, int clique, pair_fn fn)
{
	for (size_t i = 0; i < f->devices; i++)
		for (size_t k = i + 1; k < f->devices; k++)
			if (f->device[i].clique == clique && f->device[k].clique == clique &&
			    !reach(f, &f->device[i], &f->device[k]))
				fn(&f->device[i], &f->device[k]);
}

static void warn_lie(const struct lent *a, const struct lent *b)
{
	printf("  WARNING: %s and %s have no way to each other: give them different cliques\n",
	       a->address, b->address);
}

static void warn_missing(const struct fabric *f, int clique)
{
	for (size_t i = 0; i < f->devices; i++)
		for (size_t k = 0; k < f->devices; k++) {
			const struct lent *a = &f->device[i], *b = &f->device[k];
			const struct reach *r = peers_missing(f, a->address, b->address);

			if (a->clique != clique || b->clique != clique || !r)
				continue;
			printf("  WARNING: %s does not reach BAR %u of %s: %s; dmesg says why\n",
			       a->address, r->bar, b->address, r->state);
		}
}

static void show_cliques(const struct fabric *f)
{
	bool first = true;

	for (int clique = 0; clique < CLIQUES; clique++) {
		if (!clique_has(f, clique))
			continue;
		printf("%sclique %d:", first ? "\n" : "", clique);
		first = false;
		for (size_t i = 0; i < f->devices; i++)
			if (f->device[i].clique == clique)
				printf(" %s", f->device[i].address);
		putchar('\n');
		each_lie(f, clique, warn_lie);
		warn_missing(f, clique);
	}
}

/* JSON */

static void json_place(const char *key, const struct place *place)
{
	json_begin(key, '[');
	for (size_t i = 0; i < place->count; i++) {
		json_begin(NULL, '{');
		json_text("address", place->bridge[i].bdf);
		json_text("kind", bridge_kind_name(place->bridge[i].kind));
		json_bool("acs", place->bridge[i].acs);
		json_end('}');
	}
	json_end(']');
}

static void json_nodes(const struct fabric *f)
{
	json_number("node", f->me);
	json_begin("nodes", '[');
	for (size_t i = 0; i < f->nodes; i++)
		json_number(NULL, f->node[i]);
	json_end(']');
	json_begin("links", '[');
	for (size_t i = 0; i < f->edges; i++) {
		const struct edge *e = &f->edge[i];

		json_begin(NULL, '{');
		json_number("from", e->from);
		json_number("to", e->to);
		json_text("name", e->name);
		json_bool("up", e->up);
		json_number("bytes", e->bytes);
		json_bool("place_known", e->place.known);
		json_place("bridges", &e->place);
		json_end('}');
	}
	json_end(']');
}

static void json_devices(const struct fabric *f)
{
	json_begin("devices", '[');
	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *d = &f->device[i];

		json_begin(NULL, '{');
		json_text("address", d->address);
		json_text("type", d->type);
		json_number("lender", d->lender);
		json_text("state", d->state);
		json_number("borrower", d->borrower);
		json_text("own", d->own);
		json_text("mdev", d->uuid);
		if (d->clique >= 0)
			json_number("clique", d->clique);
		json_bool("place_known", d->place.known);
		json_place("bridges", &d->place);
		json_end('}');
	}
	json_end(']');
}

static void json_route(void *arg, const struct route *r)
{
	bool steps = *(bool *)arg;

	json_begin(NULL, '{');
	json_text("from", r->from);
	json_text("to", r->to);
	json_text("way", way_name(r->way));
	json_number("hops", r->hops);
	json_number("roots", r->roots);
	json_number("switches", r->switches);
	json_number("bridges", r->bridges);
	json_number("ntbs", r->crossings);
	json_bool("exact", r->exact);
	if (steps) {
		json_begin("steps", '[');
		for (size_t i = 0; i < r->count; i++) {
			json_begin(NULL, '{');
			json_number("node", r->step[i].node);
			json_text("kind", step_name(r->step[i].kind));
			json_text("name", r->step[i].name);
			json_text("note", r->step[i].note);
			json_end('}');
		}
		json_end(']');
	}
	json_end('}');
}

static void json_lie(const struct lent *a, const struct lent *b)
{
	json_begin(NULL, '[');
	json_text(NULL, a->address);
	json_text(NULL, b->address);
	json_end(']');
}

static void json_cliques(const struct fabric *f)
{
	json_begin("cliques", '[');
	for (int clique = 0; clique < CLIQUES; clique++) {
		if (!clique_has(f, clique))
			continue;
		json_begin(NULL, '{');
		json_number("clique", clique);
		json_begin("devices", '[');
		for (size_t i = 0; i < f->devices; i++)
			if (f->device[i].clique == clique)
				json_text(NULL, f->device[i].address);
		json_end(']');
		json_begin("no_way", '[');
		each_lie(f, clique, json_lie);
		json_end(']');
		json_end('}');
	}
	json_end(']');
}

static void show_json(const struct fabric *f)
{
	bool steps = false;

	json_begin(NULL, '{');
	json_nodes(f);
	json_devices(f);
	json_begin("routes", '[');
	each_route(f, json_route, &steps);
	json_end(']');
	json_cliques(f);
	peers_json(f);
	json_end('}');
}

/* --path */

static const struct lent *endpoint(const struct fabric *f, const char *name)
{
	const struct lent *d = fabric_device(f, name);

	if (!d)
		fail(EXIT_NOT_FOUND, text("%s: no such device", name),
		     "it is no address of an offer, of a lent device of this host, nor an mdev's UUID",
		     "dlend list shows what is offered.");
	return d;
}

/* "memory" is a guest's on this node, "memory:3" one's on node 3. Return: 0, or the node */
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

static const char *amount(unsigned int count, const char *what)
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
	       amount(r->hops, "hop"), amount(r->roots, "root"), amount(r->switches, "switch"),
	       amount(2 * r->crossings, "NTB end"), amount(r->bridges, "bridge"));
}

static void path_between(const struct fabric *f, const char *from, const char *to)
{
	const struct lent *a = endpoint(f, from);
	unsigned int node = memory_node(f, to);
	struct route r;
	bool steps = true;

	if (!strcmp(to, "memory") && !node)
		fail(EXIT_NOT_READY, "this node has no id", "dlend_core.node_id is not set",
		     "modprobe dlend_core node_id=N, different on every node.");
	r = node ? route_memory(f, a, node) : route_device(f, a, endpoint(f, to), f->me);
	if (r.way == WAY_NONE && node)
		fail(EXIT_NOT_FOUND, text("%s has no way to %s", from, to),
		     text("no link that is up joins nodes %u and %u, as far as this one knows",
			  a->lender, node), look_at_links);
	if (r.way == WAY_NONE)
		fail(EXIT_NOT_FOUND, text("%s has no way to %s", from, to),
		     "no link that is up joins their nodes, and this one has not one to each",
		     look_at_links);
	if (opt.json)
		json_route(&steps, &r);
	else
		show_path(&r);
}

static void wrong_usage(void)
{
	fail(EXIT_USAGE, "usage: dlend topology [--dot | --path DEVICE DEVICE|memory[:NODE]]",
	     NULL, NULL);
}

int cmd_topology(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "dot", no_argument, NULL, 'd' },
		{ "path", no_argument, NULL, 'p' },
		{ 0 }
	};
	bool dot = false, way = false;
	struct fabric f;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		opt.json |= c == 'j';
		dot |= c == 'd';
		way |= c == 'p';
	}
	if ((dot && (way || opt.json)) || argc - optind != (way ? 2 : 0))
		wrong_usage();
	f = fabric_load();
	if (way) {
		path_between(&f, argv[optind], argv[optind + 1]);
	} else if (dot) {
		fabric_dot(&f);
	} else if (opt.json) {
		show_json(&f);
	} else {
		show_nodes(&f);
		show_routes(&f);
		peers_show(&f);
		show_cliques(&f);
	}
	return EXIT_OK;
}
