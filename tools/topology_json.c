// SPDX-License-Identifier: GPL-2.0-only
/* dlend topology --json: the fabric, its routes and its cliques as JSON. */
#include "topology.h"

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
			 "payload", (int)root->payload, "island", (int)root->island);
}

static json_t *nodes_json(const struct fabric *f)
{
	json_t *nodes = json_array();

	for (size_t i = 0; i < f->nodes; i++)
		json_array_append_new(nodes, json_integer(f->node[i]));
	return nodes;
}

static json_t *names_json(const struct fabric *f)
{
	json_t *names = json_object();
	char name[TEXT_MAX];

	for (size_t i = 0; i < f->nodes; i++) {
		const char *node = text("%u", f->node[i]);

		if (*node_name(name, node))
			json_object_set_new(names, node, ascii_json(name));
	}
	return names;
}

static json_t *links_json(const struct fabric *f)
{
	json_t *links = json_array(), *link;

	for (size_t i = 0; i < f->edges; i++) {
		const struct edge *e = &f->edge[i];

		link = json_pack("{s:i, s:i, s:o, s:b, s:I, s:b, s:o, s:o*}",
				 "from", e->from, "to", e->to, "name", ascii_json(e->name),
				 "up", e->up, "bytes", (json_int_t)e->bytes,
				 "place_known", e->place.known, "bridges", place_json(&e->place),
				 "root", root_json(&e->root));
		json_array_append_new(links, link);
	}
	return links;
}

static json_t *devices_json(const struct fabric *f)
{
	json_t *devices = json_array(), *device;

	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *d = &f->device[i];

		device = json_pack("{s:o, s:s, s:i, s:s, s:i, s:s, s:o, s:o, s:o*, s:b, s:o, s:o*}",
				   "address", ascii_json(d->address), "type", d->type,
				   "lender", d->lender, "state", d->state,
				   "borrower", d->borrower, "own", d->own,
				   "mdev", ascii_json(d->uuid),
				   "interrupts", ascii_json(d->interrupts),
				   "clique", d->clique < 0 ? NULL : json_integer(d->clique),
				   "place_known", d->place.known,
				   "bridges", place_json(&d->place),
				   "root", root_json(&d->root));
		json_array_append_new(devices, device);
	}
	return devices;
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

json_t *route_json(const struct route *r, bool steps)
{
	return json_pack("{s:o, s:o, s:s, s:i, s:i, s:i, s:i, s:i, s:b, s:o*}",
			 "from", ascii_json(r->from), "to", ascii_json(r->to),
			 "way", way_name(r->way), "hops", r->hops, "roots", r->roots,
			 "switches", r->switches, "bridges", r->bridges,
			 "ntbs", r->crossings, "exact", r->exact,
			 "steps", steps ? steps_json(r) : NULL);
}

static void add_route(void *routes, const struct route *r)
{
	json_array_append_new(routes, route_json(r, false));
}

static json_t *routes_json(const struct fabric *f)
{
	json_t *routes = json_array();

	route_each(f, add_route, routes);
	return routes;
}

static void add_unreachable_pair(void *pairs, const struct lent *a, const struct lent *b)
{
	json_array_append_new(pairs, json_pack("[o, o]", ascii_json(a->address),
					       ascii_json(b->address)));
}

static json_t *clique_json(const struct fabric *f, int clique)
{
	json_t *devices = json_array(), *no_way = json_array();

	for (size_t i = 0; i < f->devices; i++)
		if (f->device[i].clique == clique)
			json_array_append_new(devices, ascii_json(f->device[i].address));
	clique_each_unreachable_pair(f, clique, add_unreachable_pair, no_way);
	return json_pack("{s:i, s:o, s:o}", "clique", clique, "devices", devices,
			 "no_way", no_way);
}

static json_t *cliques_json(const struct fabric *f)
{
	json_t *cliques = json_array();

	for (int clique = 0; clique < CLIQUES; clique++)
		if (clique_has(f, clique))
			json_array_append_new(cliques, clique_json(f, clique));
	return cliques;
}

static json_t *doubts_json(const struct fabric *f)
{
	json_t *doubts = json_array();

	for (size_t i = 0; i < f->doubts; i++) {
		const struct doubt *d = &f->doubt[i];

		json_array_append_new(doubts, json_pack("{s:[o, o], s:[i, i], s:o}", "devices",
							ascii_json(d->a), ascii_json(d->b),
							"cliques", clique_of(f, d->a),
							clique_of(f, d->b),
							"why", ascii_json(d->why)));
	}
	return doubts;
}

void topology_json(const struct fabric *f)
{
	print_document(json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
				 "node", f->me, "nodes", nodes_json(f), "names", names_json(f),
				 "links", links_json(f), "devices", devices_json(f),
				 "routes", routes_json(f), "cliques", cliques_json(f),
				 "doubts", doubts_json(f), "p2p", peers_json(f)));
}
