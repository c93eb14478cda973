// SPDX-License-Identifier: GPL-2.0-only
/*
 * The way of a packet from a lent device.  Its address is guest-physical, so nothing below an IOMMU
 * knows where it leads.  In every node it goes up to the root, even if its target is below the same
 * switch (docs/paths.md).
 */
#include "fabric.h"

static const char *const ways[] = {
	[WAY_LENDER] = "inside one node",
	[WAY_LINK] = "over the link of the two nodes",
	[WAY_BORROWER] = "through the borrower",
	[WAY_NONE] = "none",
};

static const char *const kinds[] = {
	[STEP_DEVICE] = "device", [STEP_SWITCH] = "switch", [STEP_PCI] = "bridge",
	[STEP_ROOT] = "root", [STEP_NTB] = "ntb", [STEP_MEMORY] = "memory",
	[STEP_UNKNOWN] = "unknown",
};

const char *way_name(enum way way)
{
	return ways[way];
}

const char *step_name(enum step_kind kind)
{
	return kinds[kind];
}

static void add_step(struct route *r, enum step_kind kind, unsigned int node, const char *name,
		     const char *note)
{
	struct step *s;

	if (r->count == STEPS_MAX)
		return;
	s = &r->step[r->count++];
	s->kind = kind;
	s->node = node;
	s->name = name;
	s->note = note;
	r->hops += kind == STEP_SWITCH || kind == STEP_PCI || kind == STEP_ROOT ||
		   kind == STEP_NTB;
	r->switches += kind == STEP_SWITCH;
	r->roots += kind == STEP_ROOT;
}

/* Adds one bridge.  A switch is one step, named by its upstream port in both directions. */
static void add_bridge_step(struct route *r, unsigned int node, const struct place *place, size_t i)
{
	const struct bridge *b = &place->bridge[i];

	r->bridges++;
	if (b->kind == BRIDGE_UP)
		add_step(r, STEP_SWITCH, node, b->bdf, "");
	else if (b->kind == BRIDGE_DOWN && (!i || place->bridge[i - 1].kind != BRIDGE_UP))
		add_step(r, STEP_SWITCH, node, b->bdf, "");
	else if (b->kind == BRIDGE_PCI)
		add_step(r, STEP_PCI, node, b->bdf, "");
}

static void add_unknown_step(struct route *r, unsigned int node)
{
	r->exact = false;
	add_step(r, STEP_UNKNOWN, node, "", "bridges here are not known: that node does not tell");
}

static void add_steps_up(struct route *r, unsigned int node, const struct place *place)
{
	if (!place->known)
		add_unknown_step(r, node);
	for (size_t i = place->count; i--;)
		add_bridge_step(r, node, place, i);
}

static void add_steps_down(struct route *r, unsigned int node, const struct place *place)
{
	if (!place->known)
		add_unknown_step(r, node);
	for (size_t i = 0; i < place->count; i++)
		add_bridge_step(r, node, place, i);
}

/* The root is named by the root port at which the packet arrives. */
static void add_root_step(struct route *r, unsigned int node, const struct place *in,
			  const char *note)
{
	add_step(r, STEP_ROOT, node, in->count ? in->bridge[0].bdf : "", note);
}

/* From the root of @from to the root of @to. */
static const struct edge *add_crossing(const struct fabric *f, struct route *r, unsigned int from,
				       unsigned int to)
{
	static const struct edge none = { .name = "" };
	const struct edge *there = fabric_edge(f, from, to), *back = fabric_edge(f, to, from);

	if (!there)
		there = &none;
	if (!back)
		back = &none;
	add_steps_down(r, from, &there->place);
	add_step(r, STEP_NTB, from, there->name, "window to aperture offset");
	add_step(r, STEP_NTB, to, back->name, "");
	add_steps_up(r, to, &back->place);
	r->crossings++;
	return back;
}

static struct route begin_route(const struct lent *a, const char *to)
{
	struct route r = { .exact = true, .from = a->address, .to = to };

	add_step(&r, STEP_DEVICE, a->lender, a->address, "DMA to a guest-physical address");
	add_steps_up(&r, a->lender, &a->place);
	return r;
}

static struct route route_without_way(const struct route *r)
{
	return (struct route){ .way = WAY_NONE, .exact = true, .from = r->from, .to = r->to };
}

static bool are_linked(const struct fabric *f, unsigned int a, unsigned int b)
{
	return fabric_edge(f, a, b) || fabric_edge(f, b, a);
}

struct route route_memory(const struct fabric *f, const struct lent *a, unsigned int node)
{
	const char *to = text("memory:%u", node);
	struct route r = begin_route(a, to);

	if (a->lender == node) {
		r.way = WAY_LENDER;
		add_root_step(&r, node, &a->place, "IOMMU: guest-physical address to page");
	} else if (are_linked(f, a->lender, node)) {
		const struct edge *in;

		r.way = WAY_LINK;
		add_root_step(&r, a->lender, &a->place, "IOMMU: guest-physical address to window");
		in = add_crossing(f, &r, a->lender, node);
		add_root_step(&r, node, &in->place, "IOMMU: offset to pinned page");
	} else {
		return route_without_way(&r);
	}
	add_step(&r, STEP_MEMORY, node, to, "");
	return r;
}

static void add_steps_between_roots(const struct fabric *f, struct route *r, const struct lent *a,
				    const struct lent *b, unsigned int borrower)
{
	const struct edge *in;

	add_root_step(r, a->lender, &a->place, "IOMMU: guest-physical address to window");
	if (borrower) {
		in = add_crossing(f, r, a->lender, borrower);
		add_root_step(r, borrower, &in->place, "IOMMU: offset to the next window");
		in = add_crossing(f, r, borrower, b->lender);
	} else {
		in = add_crossing(f, r, a->lender, b->lender);
	}
	add_root_step(r, b->lender, &in->place, "IOMMU: offset to BAR");
}

struct route route_device(const struct fabric *f, const struct lent *a, const struct lent *b,
			  unsigned int borrower)
{
	struct route r = begin_route(a, b->address);

	if (a->lender == b->lender) {
		r.way = WAY_LENDER;
		add_root_step(&r, a->lender, &a->place, "IOMMU: guest-physical address to BAR");
	} else if (are_linked(f, a->lender, b->lender)) {
		r.way = WAY_LINK;
		add_steps_between_roots(f, &r, a, b, 0);
	} else if (borrower && are_linked(f, a->lender, borrower) &&
		   are_linked(f, borrower, b->lender)) {
		r.way = WAY_BORROWER;
		add_steps_between_roots(f, &r, a, b, borrower);
	} else {
		return route_without_way(&r);
	}
	add_steps_down(&r, b->lender, &b->place);
	add_step(&r, STEP_DEVICE, b->lender, b->address, "");
	return r;
}

/* All routes that a guest here can use: to its memory, and between devices borrowed here. */
void route_each(const struct fabric *f, route_fn fn, void *arg)
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
