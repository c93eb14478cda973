// SPDX-License-Identifier: GPL-2.0-only
/* dlend topology --json: the fabric, its routes and its cliques as JSON. */
#include "topology.h"

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

void route_json(void *arg, const struct route *r)
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
		clique_each_lie(f, clique, json_lie);
		json_end(']');
		json_end('}');
	}
	json_end(']');
}

void topology_json(const struct fabric *f)
{
	bool steps = false;

	json_begin(NULL, '{');
	json_nodes(f);
	json_devices(f);
	json_begin("routes", '[');
	route_each(f, route_json, &steps);
	json_end(']');
	json_cliques(f);
	peers_json(f);
	json_end('}');
}
