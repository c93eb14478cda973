// SPDX-License-Identifier: GPL-2.0-only
/*
 * What borrowed devices of guests on this node really reach of each other.  The file dlend/p2p of
 * their mediated devices tells what the kernel has mapped, dlend/p2p_doubts what speaks against it;
 * route.c tells what is possible.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

/* "d0003:01:00.0 bar0 0xc0000000 0x400000 lender-link mapped", docs/ABI/sysfs-bus-mdev-dlend */
static bool parse_reach(struct reach *r, char *line)
{
	char *save = NULL, *end, *word[5];

	for (size_t i = 0; i < 5; i++) {
		word[i] = strtok_r(i ? NULL : line, " ", &save);
		if (!word[i])
			return false;
	}
	if (strncmp(word[1], "bar", 3) || word[1][3] < '0' || word[1][3] > '5' || word[1][4])
		return false;
	snprintf(r->to, sizeof(r->to), "%.*s", NAME_MAX_LEN - 1, word[0]);
	r->bar = word[1][3] - '0';
	r->address = strtoull(word[2], &end, 0);
	if (*end)
		return false;
	r->size = strtoull(word[3], &end, 0);
	if (*end)
		return false;
	snprintf(r->way, sizeof(r->way), "%.*s", NAME_MAX_LEN - 1, word[4]);
	snprintf(r->state, sizeof(r->state), "%.*s", NAME_MAX_LEN - 1, save ? save : "");
	r->mapped = !strcmp(r->state, "mapped");
	return true;
}

static void add_reach(struct fabric *f, const struct reach *r)
{
	f->reach = reallocarray(f->reach, f->reaches + 1, sizeof(*r));
	if (!f->reach)
		abort();
	f->reach[f->reaches++] = *r;
}

/* "d0003:01:00.0 node 3 does not vouch for ...".  Both devices of a pair say it: one is kept. */
static void add_doubt(struct fabric *f, const struct lent *d, char *line)
{
	char *why = strchr(line, ' ');
	struct doubt *doubt;

	if (!why || why == line || !why[1])
		return;
	*why++ = '\0';
	for (size_t i = 0; i < f->doubts; i++)
		if (!strcmp(f->doubt[i].a, line) && !strcmp(f->doubt[i].b, d->address))
			return;
	f->doubt = reallocarray(f->doubt, f->doubts + 1, sizeof(*doubt));
	if (!f->doubt)
		abort();
	doubt = &f->doubt[f->doubts++];
	snprintf(doubt->a, sizeof(doubt->a), "%s", d->address);
	snprintf(doubt->b, sizeof(doubt->b), "%.*s", NAME_MAX_LEN - 1, line);
	snprintf(doubt->why, sizeof(doubt->why), "%.*s", TEXT_MAX - 1, why);
}

static void add_reach_line(struct fabric *f, const struct lent *d, char *line)
{
	struct reach r = { 0 };

	snprintf(r.from, sizeof(r.from), "%s", d->address);
	if (parse_reach(&r, line))
		add_reach(f, &r);
}

typedef void (*line_fn)(struct fabric *f, const struct lent *d, char *line);

static void load_lines(struct fabric *f, const struct lent *d, const char *name, line_fn add)
{
	char *file = path("%s/bus/mdev/devices/%s/dlend/%s", opt.sysfs, d->uuid, name);
	char *all = read_all(file), *save = NULL, *line;

	for (line = all ? strtok_r(all, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save))
		add(f, d, line);
	free(all);
	free(file);
}

void peers_load(struct fabric *f)
{
	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *d = &f->device[i];

		if (!*d->uuid)
			continue;
		load_lines(f, d, "p2p", add_reach_line);
		load_lines(f, d, "p2p_doubts", add_doubt);
	}
}

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

/* Of a pair of devices, the first BAR that is mapped stands for all BARs. */
static const struct reach *first_mapped(const struct fabric *f, size_t before, const char *from,
					const char *to)
{
	for (size_t i = 0; i < before; i++)
		if (f->reach[i].mapped && !strcmp(f->reach[i].from, from) &&
		    !strcmp(f->reach[i].to, to))
			return &f->reach[i];
	return NULL;
}

bool peers_next(const struct fabric *f, size_t *at, struct reach_pair *pair)
{
	for (; *at < f->reaches; ++*at) {
		const struct reach *r = &f->reach[*at], *back;

		if (!r->mapped || first_mapped(f, *at, r->from, r->to))
			continue;
		back = first_mapped(f, f->reaches, r->to, r->from);
		/* Both ways are one arrow with two heads, drawn where the first is found. */
		if (back && back < r)
			continue;
		pair->there = r;
		pair->back = back;
		++*at;
		return true;
	}
	return false;
}

const struct reach *peers_missing(const struct fabric *f, const char *from, const char *to)
{
	for (size_t i = 0; i < f->reaches; i++)
		if (!strncmp(f->reach[i].state, "error", 5) && !strcmp(f->reach[i].from, from) &&
		    !strcmp(f->reach[i].to, to))
			return &f->reach[i];
	return NULL;
}
