// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which way a packet takes from a lent device, and through what.  Its address is guest-physical, so
 * nothing below an IOMMU can know where it leads: it goes up to the root of every node it comes
 * to, whatever switches it shares with its target on the way (docs/paths.md).
 */
#include <string.h>

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

static void step(struct route *r, enum step_kind kind, unsigned int node, const char *name,
		 const char *note)
{
	struct step *s;

	if (r->count == STEPS_MAX)
		return;
	s = &r->step[r->count++];
	s->kind = kind;
	s->node = node;
	s->note = note;
	snprintf(s->name, sizeof(s->name), "%.*s", NAME_MAX_LEN - 1, name);
	r->hops += kind == STEP_SWITCH || kind == STEP_PCI || kind == STEP_ROOT ||
		   kind == STEP_NTB;
	r->switches += kind == STEP_SWITCH;
	r->roots += kind == STEP_ROOT;
}

/* One bridge; a switch is a step at its upstream port, whichever way the packet goes. */
static void pass(struct route *r, unsigned int node, const struct place *place, size_t i)
{
	const struct bridge *b = &place->bridge[i];

	r->bridges++;
	if (b->kind == BRIDGE_UP)
		step(r, STEP_SWITCH, node, b->bdf, "");
	else if (b->kind == BRIDGE_DOWN && (!i || place->bridge[i - 1].kind != BRIDGE_UP))
		step(r, STEP_SWITCH, node, b->bdf, "");
	else if (b->kind == BRIDGE_PCI)
		step(r, STEP_PCI, node, b->bdf, "");
}

static void unknown(struct route *r, unsigned int node)
{
	r->exact = false;
	step(r, STEP_UNKNOWN, node, "", "bridges here are not known: that node has not told");
}

static void up(struct route *r, unsigned int node, const struct place *place)
{
	if (!place->known)
		unknown(r, node);
	for (size_t i = place->count; i--;)
		pass(r, node, place, i);
}

static void down(struct route *r, unsigned int node, const struct place *place)
{
	if (!place->known)
		unknown(r, node);
	for (size_t i = 0; i < place->count; i++)
		pass(r, node, place, i);
}

/* The root port by which the packet comes in names the root. */
static void root(struct route *r, unsigned int node, const struct place *in, const char *note)
{
	step(r, STEP_ROOT, node, in->count ? in->bridge[0].bdf : "", note);
}

/* From the root of @from to the root of @to. */
static const struct edge *cross(const struct fabric *f, struct route *r, unsigned int from,
				unsigned int to)
{
	static const struct edge none;
	const struct edge *there = fabric_edge(f, from, to), *back = fabric_edge(f, to, from);

	if (!there)
		there = &none;
	if (!back)
		back = &none;
	down(r, from, &there->place);
	step(r, STEP_NTB, from, there->name, "window to aperture offset");
	step(r, STEP_NTB, to, back->name, "");
	up(r, to, &back->place);
	r->crossings++;
	return back;
}

static struct route begin(const struct lent *a, const char *to)
{
	struct route r = { .exact = true };

	snprintf(r.from, sizeof(r.from), "%s", a->address);
	snprintf(r.to, sizeof(r.to), "%s", to);
	step(&r, STEP_DEVICE, a->lender, a->address, "DMA to a guest-physical address");
	up(&r, a->lender, &a->place);
	return r;
}

static struct route no_way(const struct route *r)
{
	struct route none = { .way = WAY_NONE, .exact = true };

	memcpy(none.from, r->from, sizeof(none.from));
	memcpy(none.to, r->to, sizeof(none.to));
	return none;
}

static bool linked(const struct fabric *f, unsigned int a, unsigned int b)
{
	return fabric_edge(f, a, b) || fabric_edge(f, b, a);
}

struct route route_memory(const struct fabric *f, const struct lent *a, unsigned int node)
{
	char to[NAME_MAX_LEN];
	struct route r;

	snprintf(to, sizeof(to), "memory:%u", node);
	r = begin(a, to);
	if (a->lender == node) {
		r.way = WAY_LENDER;
		root(&r, node, &a->place, "IOMMU: guest-physical address to page");
	} else if (linked(f, a->lender, node)) {
		const struct edge *in;

		r.way = WAY_LINK;
		root(&r, a->lender, &a->place, "IOMMU: guest-physical address to window");
		in = cross(f, &r, a->lender, node);
		root(&r, node, &in->place, "IOMMU: offset to pinned page");
	} else {
		return no_way(&r);
	}
	step(&r, STEP_MEMORY, node, to, "");
	return r;
}

static void through(const struct fabric *f, struct route *r, const struct lent *a,
		    const struct lent *b, unsigned int borrower)
{
	const struct edge *in;

	root(r, a->lender, &a->place, "IOMMU: guest-physical address to window");
	if (borrower) {
		in = cross(f, r, a->lender, borrower);
		root(r, borrower, &in->place, "IOMMU: offset to the next window");
		in = cross(f, r, borrower, b->lender);
	} else {
		in = cross(f, r, a->lender, b->lender);
	}
	root(r, b->lender, &in->place, "IOMMU: offset to BAR");
}

struct route route_device(const struct fabric *f, const struct lent *a, const struct lent *b,
			  unsigned int borrower)
{
	struct route r = begin(a, b->address);

	if (a->lender == b->lender) {
		r.way = WAY_LENDER;
		root(&r, a->lender, &a->place, "IOMMU: guest-physical address to BAR");
	} else if (linked(f, a->lender, b->lender)) {
		r.way = WAY_LINK;
		through(f, &r, a, b, 0);
	} else if (borrower && linked(f, a->lender, borrower) && linked(f, borrower, b->lender)) {
		r.way = WAY_BORROWER;
		through(f, &r, a, b, borrower);
	} else {
		return no_way(&r);
	}
	down(&r, b->lender, &b->place);
	step(&r, STEP_DEVICE, b->lender, b->address, "");
	return r;
}

/* Everything that a guest here could want: to its memory, and between what is borrowed here. */
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
