// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend topology: the command, the fabric as text and as JSON, and one way through it, hop by hop.
 * Pictures are dot.c's, NCCL's file is nccl.c's, and cliques are clique.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

static const char *const bridge_text[BRIDGE_KINDS] = {
	[BRIDGE_ROOT] = "root port", [BRIDGE_UP] = "switch", [BRIDGE_DOWN] = "port",
	[BRIDGE_PCI] = "PCI bridge",
};

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
			       *e->name ? " " : "", e->to,
			       e->bytes ? text("%lluM", e->bytes >> 20) : "?");
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

/* JSON */

static json_t *place_json(const struct place *place)
{
	json_t *bridges = json_array();

	for (size_t i = 0; i < place->count; i++) {
		const struct bridge *b = &place->bridge[i];

		json_array_append_new(bridges, json_pack("{s:s, s:s, s:b}", "address", b->bdf,
							 "kind", bridge_kind_name(b->kind),
							 "acs", b->acs));
	}
	return bridges;
}

/* NULL if it is not known: then there is no such key. */
static json_t *root_json(const struct root *root)
{
	if (!root->known)
		return NULL;
	return json_pack("{s:s, s:i, s:i, s:i}", "host_bridge", root->bridge, "numa", root->numa,
			 "payload", (int)root->payload, "p2p_domain", (int)root->p2p_domain);
}

static json_t *steps_json(const struct route *r)
{
	json_t *steps = json_array();

	for (size_t i = 0; i < r->count; i++) {
		const struct step *s = &r->step[i];

		json_array_append_new(steps, json_pack("{s:i, s:s, s:o, s:s}", "node", s->node,
						       "kind", step_name(s->kind),
						       "name", ascii_json(s->name),
						       "note", s->note));
	}
	return steps;
}

static json_t *route_json(const struct route *r, bool steps)
{
	return json_pack("{s:o, s:o, s:s, s:i, s:i, s:i, s:i, s:i, s:b, s:o*}",
			 "from", ascii_json(r->from), "to", ascii_json(r->to),
			 "way", way_name(r->way), "hops", r->hops, "roots", r->roots,
			 "switches", r->switches, "bridges", r->bridges,
			 "ntbs", r->crossings, "exact", r->exact,
			 "steps", steps ? steps_json(r) : NULL);
}

/* An empty list in @root */
static json_t *add_list(json_t *root, const char *key)
{
	json_t *list = json_array();

	json_object_set_new(root, key, list);
	return list;
}

static void add_things(json_t *root, const struct fabric *f)
{
	json_t *nodes = add_list(root, "nodes"), *names = json_object(), *links, *devices, *thing;
	size_t i;

	for (i = 0; i < f->nodes; i++) {
		const char *node = text("%u", f->node[i]), *name = node_name(node);

		json_array_append_new(nodes, json_integer(f->node[i]));
		if (*name)
			json_object_set_new(names, node, ascii_json(name));
	}
	json_object_set_new(root, "names", names);
	links = add_list(root, "links");
	for (i = 0; i < f->edges; i++) {
		const struct edge *e = &f->edge[i];

		thing = json_pack("{s:i, s:i, s:o, s:b, s:I, s:b, s:o, s:o*}", "from", e->from,
				  "to", e->to, "name", ascii_json(e->name), "up", e->up,
				  "bytes", (json_int_t)e->bytes, "place_known", e->place.known,
				  "bridges", place_json(&e->place), "root", root_json(&e->root));
		json_array_append_new(links, thing);
	}
	devices = add_list(root, "devices");
	for (i = 0; i < f->devices; i++) {
		const struct lent *d = &f->device[i];

		thing = json_pack("{s:o, s:s, s:i, s:s, s:i, s:s, s:o, s:o, s:o*, s:b, s:o, s:o*}",
				  "address", ascii_json(d->address), "type", d->type,
				  "lender", d->lender, "state", d->state, "borrower", d->borrower,
				  "own", d->own, "mdev", ascii_json(d->uuid),
				  "interrupts", ascii_json(d->interrupts),
				  "clique", d->clique < 0 ? NULL : json_integer(d->clique),
				  "place_known", d->place.known, "bridges", place_json(&d->place),
				  "root", root_json(&d->root));
		json_array_append_new(devices, thing);
	}
}

static void add_route(void *routes, const struct route *r)
{
	json_array_append_new(routes, route_json(r, false));
}

static json_t *clique_json(const struct fabric *f, int clique)
{
	json_t *devices = json_array(), *no_way = json_array();

	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *a = &f->device[i], *b = a + 1;

		if (a->clique != clique)
			continue;
		json_array_append_new(devices, ascii_json(a->address));
		for (; b < f->device + f->devices; b++)
			if (b->clique == clique && !clique_reaches(f, a, b))
				json_array_append_new(no_way, json_pack("[o, o]",
									ascii_json(a->address),
									ascii_json(b->address)));
	}
	return json_pack("{s:i, s:o, s:o}", "clique", clique, "devices", devices,
			 "no_way", no_way);
}

static void topology_json(const struct fabric *f)
{
	json_t *root = json_pack("{s:i}", "node", f->me), *cliques, *doubts;

	add_things(root, f);
	route_each(f, add_route, add_list(root, "routes"));
	cliques = add_list(root, "cliques");
	for (int clique = 0; clique < CLIQUES; clique++)
		if (clique_has(f, clique))
			json_array_append_new(cliques, clique_json(f, clique));
	doubts = add_list(root, "doubts");
	for (size_t i = 0; i < f->doubts; i++) {
		const struct doubt *d = &f->doubt[i];

		json_array_append_new(doubts, json_pack("{s:[o, o], s:[i, i], s:o}", "devices",
							ascii_json(d->a), ascii_json(d->b),
							"cliques", clique_of(f, d->a),
							clique_of(f, d->b),
							"why", ascii_json(d->why)));
	}
	json_object_set_new(root, "p2p", peers_json(f));
	print_document(root);
}

/* One way */

static const char look_at_links[] =
	"dlend links shows this node's links and what is wrong with them.";

static const struct lent *find_endpoint(const struct fabric *f, const char *name)
{
	const struct lent *d = fabric_device(f, name);
	char bdf[16];

	if (!d && !bdf_parse(bdf, name) && !uuid_valid(name))
		fail(EXIT_USAGE, text("\"%s\" is no address and no UUID", name), NULL,
		     "dlend list shows the offers, dlend status the mediated devices.");
	if (!d)
		fail(EXIT_NOT_FOUND, text("%s: no such device", name),
		     "it is no address of an offer or of a lent device of this host, and no UUID of an mdev",
		     "dlend list shows the offers.");
	return d;
}

/* "memory" is that of a guest on this node, "memory:3" on node 3. Return: the node, or 0 */
static unsigned int memory_node(const struct fabric *f, const char *name)
{
	unsigned long node;

	if (!strcmp(name, "memory"))
		return f->me;
	if (strncmp(name, "memory:", 7))
		return 0;
	node = is_digits(name + 7) ? strtoul(name + 7, NULL, 10) : 0;
	if (!node || node > 65535)
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

static void path_show(const struct fabric *f, const char *from, const char *to)
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

/* The command */

int cmd_topology(int argc, char **argv)
{
	bool dot = false, way = false, nccl = false;
	const char *vm = NULL;
	const struct verb_option options[] = {
		{ "dot", .flag = &dot }, { "path", .flag = &way }, { "nccl", .flag = &nccl },
		{ "vm", &vm }, { 0 }
	};
	char **words = verb_words(argc, argv, options, 0, 2);
	struct fabric f;

	if (dot + way + nccl > 1 || ((dot || nccl) && opt.json) || (vm && !nccl) ||
	    (way ? !words[0] || !words[1] : !!*words))
		refuse_usage(argv[0]);
	f = fabric_load();
	if (way) {
		path_show(&f, words[0], words[1]);
	} else if (dot) {
		fabric_dot(&f);
	} else if (nccl) {
		nccl_print(&f, vm);
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
