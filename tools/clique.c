// SPDX-License-Identifier: GPL-2.0-only
/*
 * What borrowed devices of guests on this node really reach of each other; route.c tells what is
 * possible.
 *
 * A clique is a set of devices of which guests are told that they can do peer-to-peer.  This checks
 * whether they have a way to each other, whether that way is mapped, and whether the kernel doubts
 * it; and it says why devices of one guest are in different cliques.
 */
#include <inttypes.h>
#include <string.h>

#include "fabric.h"

void peers_show(const struct fabric *f)
{
	static const char *const head[] = {
		"DEVICE", "REACHES", "BAR", "AT", "SIZE", "WAY", "STATE"
	};
	struct libscols_table *t = NULL;

	if (!f->reaches)
		return;
	table_row(&t, 7, head);
	for (size_t i = 0; i < f->reaches; i++) {
		const struct reach *r = &f->reach[i];

		table_row(&t, 7, (const char *[]){
			r->from, r->to, text("%u", r->bar), text("%#" PRIx64, r->address),
			text("%#" PRIx64, r->size), r->way, r->state });
	}
	puts("\npeer-to-peer, as it is mapped now:");
	table_print(&t);
}

json_t *peers_json(const struct fabric *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->reaches; i++) {
		const struct reach *r = &f->reach[i];
		json_t *peer = json_pack("{s:o, s:o, s:i, s:o, s:I, s:o, s:b, s:o}",
					 "from", ascii_json(r->from), "to", ascii_json(r->to),
					 "bar", r->bar,
					 "address", json_sprintf("%#" PRIx64, r->address),
					 "size", (json_int_t)r->size, "way", ascii_json(r->way),
					 "mapped", r->mapped, "state", ascii_json(r->state));

		json_array_append_new(list, peer);
	}
	return list;
}

/* A BAR of @to that @from should reach, and an error keeps it from; or NULL */
static const struct reach *find_error(const struct fabric *f, const char *from, const char *to)
{
	for (size_t i = 0; i < f->reaches; i++)
		if (!strncmp(f->reach[i].state, "error", 5) && !strcmp(f->reach[i].from, from) &&
		    !strcmp(f->reach[i].to, to))
			return &f->reach[i];
	return NULL;
}

bool clique_reaches(const struct fabric *f, const struct lent *a, const struct lent *b)
{
	return route_device(f, a, b, f->me).way != WAY_NONE &&
	       route_device(f, b, a, f->me).way != WAY_NONE;
}

bool clique_has(const struct fabric *f, int clique)
{
	for (size_t i = 0; i < f->devices; i++)
		if (f->device[i].clique == clique)
			return true;
	return false;
}

static void warn_of_unreachable(const struct fabric *f, int clique)
{
	const struct lent *end = f->device + f->devices;

	for (const struct lent *a = f->device; a < end; a++)
		for (const struct lent *b = a + 1; b < end; b++)
			if (a->clique == clique && b->clique == clique && !clique_reaches(f, a, b))
				printf("  WARNING: %s and %s have no way to each other: %s\n",
				       a->address, b->address, "give them different cliques");
}

static void warn_of_errors(const struct fabric *f, int clique)
{
	for (size_t i = 0; i < f->devices; i++)
		for (size_t k = 0; k < f->devices; k++) {
			const struct lent *a = &f->device[i], *b = &f->device[k];
			const struct reach *r = find_error(f, a->address, b->address);

			if (a->clique != clique || b->clique != clique || !r)
				continue;
			printf("  WARNING: %s does not reach BAR %u of %s: %s; dmesg says why\n",
			       a->address, r->bar, b->address, r->state);
		}
}

int clique_of(const struct fabric *f, const char *address)
{
	const struct lent *d = fabric_device(f, address);

	return d ? d->clique : -1;
}

static void warn_of_doubts(const struct fabric *f, int clique)
{
	for (size_t i = 0; i < f->doubts; i++) {
		const struct doubt *d = &f->doubt[i];

		if (clique_of(f, d->a) == clique && clique_of(f, d->b) == clique)
			printf("  WARNING: %s and %s: %s\n", d->a, d->b, d->why);
	}
}

static void show_apart(const struct fabric *f)
{
	bool first = true;

	for (size_t i = 0; i < f->doubts; i++) {
		const struct doubt *d = &f->doubt[i];
		int a = clique_of(f, d->a), b = clique_of(f, d->b);

		if (a < 0 || b < 0 || a == b)
			continue;
		if (first)
			puts("\nin different cliques:");
		first = false;
		printf("  %s (%d) and %s (%d): %s\n", d->a, a, d->b, b, d->why);
	}
}

void cliques_show(const struct fabric *f)
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
		warn_of_unreachable(f, clique);
		warn_of_errors(f, clique);
		warn_of_doubts(f, clique);
	}
	show_apart(f);
}
