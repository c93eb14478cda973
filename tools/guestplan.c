// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the lent devices of a guest go in its PCI tree, and whether a q35 machine can hold that.
 * Writes nothing (guestxml.c).
 */
#include <string.h>

#include "guest.h"

#define SLOTS_ROOT	32	/* on the root bus, or on an expander bus */
#define SLOTS_ALL	256	/* in the whole tree */
#define BUS_LAST	255
#define SWITCH_PORTS	32	/* below one upstream port */
#define BRIDGE_SLOTS	31	/* below one bridge, whose slot 0 is its hot-plug controller's */
#define IO_PORTS	16	/* each takes 4 KiB of the 64 KiB of I/O space */

static bool belong_together(const struct lent *a, const struct lent *b)
{
	const char *sa = place_switch(&a->place), *sb = place_switch(&b->place);

	if (a->clique >= 0 || b->clique >= 0)
		return a->clique == b->clique;
	return a->lender == b->lender && sa && sb && !strcmp(sa, sb);
}

static bool fits_branch(enum plan_mode mode, const struct branch *b, const struct lent *d, int cell)
{
	if (b->cell != cell)
		return false;
	if (mode == PLAN_BRIDGE)
		return b->count < BRIDGE_SLOTS;
	return mode == PLAN_SWITCH_PORT && belong_together(b->device[0], d);
}

static void plan_device(struct plan *p, const struct lent *d, int cell)
{
	struct branch *b = NULL;

	for (size_t i = 0; i < p->count && !b; i++)
		if (fits_branch(p->mode, &p->branch[i], d, cell))
			b = &p->branch[i];
	if (!b) {
		p->branch = grow(p->branch, p->count, sizeof(*p->branch));
		b = &p->branch[p->count++];
		*b = (struct branch) { .cell = cell };
	}
	b->device = grow(b->device, b->count, sizeof(*b->device));
	b->device[b->count++] = d;
}

static int plan_cell(struct plan *p, const struct fabric *f, const struct guest *g,
		     const struct lent *d)
{
	int cell = guest_cell(g, fabric_numa(f, d));

	if (cell < 0)
		return -1;
	for (size_t i = 0; i < p->cells; i++)
		if (p->cell[i] == cell)
			return cell;
	p->cell = grow(p->cell, p->cells, sizeof(*p->cell));
	p->cell[p->cells++] = cell;
	return cell;
}

static const struct lent *find_device(const struct fabric *f, const struct names *uuid, size_t at)
{
	const struct lent *d = fabric_device(f, uuid->name[at]);

	if (!d || strcmp(d->uuid, uuid->name[at]))
		fail_no_mdev(uuid->name[at]);
	for (size_t i = 0; i < at; i++)
		if (!strcmp(uuid->name[at], uuid->name[i]))
			fail(EXIT_USAGE, text("%s is there twice", uuid->name[at]), NULL, NULL);
	return d;
}

/* Whichever is chosen when the guest starts */
static const struct lent *any_device(const char *type)
{
	struct lent *d = zeroed(1, sizeof(*d));

	*d = (struct lent){ .address = "", .type = type, .uuid = uuid_new(), .clique = -1 };
	return d;
}

struct plan plan_make(const struct fabric *f, const struct guest *g, enum plan_mode mode,
		      bool numa)
{
	struct plan p = { .guest = g, .mode = mode };

	for (size_t i = 0; i < g->uuid.count; i++) {
		const struct lent *d = find_device(f, &g->uuid, i);

		plan_device(&p, d, numa ? plan_cell(&p, f, g, d) : -1);
	}
	for (size_t i = 0; i < g->any.count; i++)
		plan_device(&p, any_device(g->any.name[i]), -1);
	if (numa && !p.cells)
		fail(EXIT_UNFIT, "no device is near a NUMA cell of the guest",
		     "no <memnode> of its <numatune> has the NUMA node of a device's link",
		     "dlend topology shows these nodes. Name a domain with such cells, or leave out --numa.");
	p.controllers = p.cells;
	p.slots = p.cells;
	for (size_t i = 0; i < p.count; i++) {
		const struct branch *b = &p.branch[i];

		p.devices += b->count;
		p.slots += b->cell < 0;
		p.controllers += mode == PLAN_BRIDGE ? 2 : b->count > 1 ? 2 + b->count : 1;
		p.ports += mode == PLAN_BRIDGE ? 1 : b->count;
	}
	return p;
}

static void check_limit(const char *what, unsigned int have, unsigned int add, unsigned int most,
			const char *todo)
{
	if (have + add > most)
		fail(EXIT_UNFIT, text("the guest has not enough %s", what),
		     text("%u are taken and %u more are needed, of %u", have, add, most), todo);
}

static unsigned int roots_of_cell(const struct plan *p, int cell)
{
	unsigned int count = 0;

	for (size_t i = 0; i < p->count; i++)
		count += p->branch[i].cell == cell;
	return count;
}

void plan_check(const struct guest *g, const struct plan *p)
{
	for (size_t i = 0; i < p->count && p->mode == PLAN_SWITCH_PORT; i++)
		check_limit("ports at one switch", 0, p->branch[i].count, SWITCH_PORTS,
			    "Split the clique, or use --mode root-port.");
	for (size_t i = 0; i < p->cells; i++)
		check_limit("slots on an expander bus", 0, roots_of_cell(p, p->cell[i]), SLOTS_ROOT,
			    "Use --mode switch-port, or take devices away.");
	check_limit("slots on its root bus", g->slots, p->slots, SLOTS_ROOT,
		    "Use --mode switch-port, which takes one for each clique, or take devices away.");
	check_limit("buses", g->last, p->controllers, BUS_LAST, "Take devices away.");
	check_limit("slots", g->all, p->controllers + p->devices, SLOTS_ALL, "Take devices away.");
	if (g->io)
		check_limit("I/O space, in ports of 4 KiB", g->ports, p->ports, IO_PORTS,
			    "Lent devices have no I/O BARs in a guest: where no other device has any, say --no-io.");
}
