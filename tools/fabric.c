// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the fabric: this node's links, what its peers say of theirs, all offers, the mediated
 * devices made here.  Draws nothing, and decides nothing about routes (route.c).
 */
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

#define NODE_MAX	65535

static void *grow_array(void *array, size_t count, size_t size)
{
	array = reallocarray(array, count + 1, size);
	if (!array)
		abort();
	memset((char *)array + count * size, 0, size);
	return array;
}

static void copy_attr(char to[NAME_MAX_LEN], const char *dir, const char *name)
{
	char value[TEXT_MAX];

	snprintf(to, NAME_MAX_LEN, "%.*s", NAME_MAX_LEN - 1, read_attr(value, dir, name));
}

static unsigned int number_attr(const char *dir, const char *name)
{
	char value[TEXT_MAX];

	return strtoul(read_attr(value, dir, name), NULL, 0);
}

static void add_node(struct fabric *f, unsigned int id)
{
	size_t at = 0;

	if (!id)
		return;
	while (at < f->nodes && f->node[at] < id)
		at++;
	if (at < f->nodes && f->node[at] == id)
		return;
	f->node = grow_array(f->node, f->nodes, sizeof(*f->node));
	memmove(&f->node[at + 1], &f->node[at], (f->nodes - at) * sizeof(*f->node));
	f->node[at] = id;
	f->nodes++;
}

/* This node may have several links to another.  Between other nodes, peers tell of one only. */
static struct edge *add_edge(struct fabric *f, unsigned int from, unsigned int to)
{
	struct edge *e;

	for (size_t i = 0; i < f->edges; i++)
		if (f->edge[i].from == from && f->edge[i].to == to && from != f->me)
			return &f->edge[i];
	add_node(f, from);
	add_node(f, to);
	f->edge = grow_array(f->edge, f->edges, sizeof(*f->edge));
	e = &f->edge[f->edges++];
	e->from = from;
	e->to = to;
	return e;
}

typedef void (*told_fn)(struct fabric *f, unsigned int from, unsigned int to, char *rest);

/* What peers tell of their links.  Each line begins with the ids of two nodes. */
static void read_told_lines(struct fabric *f, const char *name, told_fn add_told)
{
	char *file = path("%s/bus/dlend/%s", opt.sysfs, name), *all = read_all(file), *rest = NULL;
	char *line = all ? strtok_r(all, "\n", &rest) : NULL;

	for (; line; line = strtok_r(NULL, "\n", &rest)) {
		unsigned int from, to;
		int used = 0;

		if (sscanf(line, "%u %u%n", &from, &to, &used) == 2 && from && to && from != to &&
		    from <= NODE_MAX && to <= NODE_MAX && from != f->me)
			add_told(f, from, to, line + used);
	}
	free(all);
	free(file);
}

static void add_told_edge(struct fabric *f, unsigned int from, unsigned int to, char *rest)
{
	long long bytes = strtoll(rest, NULL, 10);	/* JSON has no more */
	struct edge *e;

	if (to == f->me)	/* a link of this node's: known better */
		return;
	e = add_edge(f, from, to);
	e->up = true;
	e->bytes = bytes > 0 ? bytes : 0;
}

/* The address of the NTB, and the bridges above it. */
static void add_told_place(struct fabric *f, unsigned int from, unsigned int to, char *rest)
{
	char *bridges = NULL, *word = strtok_r(rest, " ", &bridges), bdf[16];
	struct edge *e;

	if (!word || !bdf_parse(bdf, word))
		return;
	for (size_t i = 0; i < f->edges; i++) {
		e = &f->edge[i];
		if (e->from != from || e->to != to)
			continue;
		snprintf(e->name, sizeof(e->name), "%s", bdf);
		e->place = place_parse(bridges);
	}
}

/* The host bridge that the NTB is below. */
static void add_told_root(struct fabric *f, unsigned int from, unsigned int to, char *rest)
{
	for (size_t i = 0; i < f->edges; i++)
		if (f->edge[i].from == from && f->edge[i].to == to)
			f->edge[i].root = root_parse(rest);
}

static void add_link(struct fabric *f, const char *class, const char *name)
{
	char *dir = path("%s/%s", class, name), *pci, type[TEXT_MAX];
	unsigned int peer = number_attr(dir, "peer_node");
	unsigned long long reaches;
	struct edge *e;

	/* The link of a node to itself carries offers, and is no NTB. */
	if (!strcmp(read_attr(type, dir, "type"), "loop") || (peer && peer == f->me))
		goto out;
	e = add_edge(f, f->me, peer);
	snprintf(e->name, sizeof(e->name), "%.*s", NAME_MAX_LEN - 1, name);
	copy_attr(e->state, dir, "state");
	e->up = peer && !strcmp(e->state, "up");
	e->bytes = strtoull(read_attr(type, dir, "window_bytes"), NULL, 0);
	pci = path("%s/bus/pci/devices/%s", opt.sysfs, name);
	e->place = place_local(pci);
	e->root = root_attr(dir);
	free(pci);
	if (!e->up)
		goto out;
	reaches = strtoull(read_attr(type, dir, "aperture_bytes"), NULL, 0);
	e = add_edge(f, peer, f->me);
	e->up = true;
	e->bytes = reaches;
out:
	free(dir);
}

static struct lent *add_device(struct fabric *f, const char *address, const char *dir)
{
	struct lent *d;

	f->device = grow_array(f->device, f->devices, sizeof(*f->device));
	d = &f->device[f->devices++];
	snprintf(d->address, sizeof(d->address), "%.*s", NAME_MAX_LEN - 1, address);
	copy_attr(d->type, dir, "type");
	copy_attr(d->state, dir, "state");
	d->borrower = number_attr(dir, "borrower");
	d->clique = -1;
	return d;
}

static void read_ids(struct lent *d, const char *dir)
{
	d->vendor = number_attr(dir, "vendor");
	d->device = number_attr(dir, "device");
}

/* "INDEX BYTES[ 64][ prefetch]" each, as in docs/ABI/sysfs-bus-dlend. */
static void read_bars(struct lent *d, const char *dir)
{
	char *file = path("%s/bars", dir), *all = read_all(file), *rest = NULL;
	char *line = all ? strtok_r(all, "\n", &rest) : NULL;

	for (; line; line = strtok_r(NULL, "\n", &rest)) {
		unsigned long long bytes;

		if (sscanf(line, "%*u %llu", &bytes) != 1)
			continue;
		if (strstr(line, " 64 prefetch"))
			d->high += bytes;
		else
			d->low += bytes;
	}
	free(all);
	free(file);
}

static void add_offers(struct fabric *f)
{
	char *bus = path("%s/bus/dlend/devices", opt.sysfs);
	struct names n = list_dir(bus);

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", bus, n.name[i]), *where = path("%s/place", dir);
		struct lent *d = add_device(f, n.name[i], dir);
		char words[TEXT_MAX];

		d->lender = number_attr(dir, "lender");
		if (!strcmp(read_attr(d->interrupts, dir, "interrupts"), "none"))
			*d->interrupts = 0;
		read_ids(d, dir);
		read_bars(d, dir);
		add_node(f, d->lender);
		if (!read_text(words, where))
			d->place = place_parse(read_attr(words, dir, "place"));
		d->root = root_attr(dir);
		free(where);
		free(dir);
	}
	names_free(&n);
	free(bus);
}

/* Devices that this host lends.  If dlend_mdev is loaded they are on the bus, too. */
static void add_own_devices(struct fabric *f)
{
	char *driver = path("%s/bus/pci/drivers/" DLEND_DRIVER, opt.sysfs);
	struct names n = list_dir(driver);
	char name[TEXT_MAX], bdf[16];

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", driver, n.name[i]), *lent = path("%s/dlend", dir);
		struct lent *d;

		if (bdf_parse(bdf, n.name[i]) && *read_attr(name, lent, "fabric_name")) {
			d = (struct lent *)fabric_device(f, name);
			if (!d) {
				d = add_device(f, name, lent);
				d->lender = f->me;
				read_ids(d, dir);
			}
			snprintf(d->own, sizeof(d->own), "%s", bdf);
			d->place = place_local(dir);
			d->root = root_attr(lent);
		}
		free(lent);
		free(dir);
	}
	names_free(&n);
	free(driver);
}

static void add_mdevs(struct fabric *f)
{
	char *bus = path("%s/bus/mdev/devices", opt.sysfs), clique[TEXT_MAX];
	struct names n = list_dir(bus);

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", bus, n.name[i]), *own = path("%s/dlend", dir);
		char *where = path_exists(own) ? real_path(dir) : NULL;
		struct lent *d = where ? (struct lent *)fabric_device(f, basename(dirname(where))) :
					 NULL;

		if (d) {
			snprintf(d->uuid, sizeof(d->uuid), "%s", n.name[i]);
			read_attr(clique, own, "clique");
			if (*clique >= '0' && *clique <= '9')
				d->clique = strtol(clique, NULL, 10);
		}
		free(where);
		free(own);
		free(dir);
	}
	names_free(&n);
	free(bus);
}

struct fabric fabric_load(void)
{
	char *core = path("%s/module/dlend_core/parameters", opt.sysfs);
	char *class = path("%s/class/dlend_link", opt.sysfs);
	struct fabric f = { .me = number_attr(core, "node_id") };
	struct names n = list_dir(class);

	add_node(&f, f.me);
	for (size_t i = 0; i < n.count; i++)
		add_link(&f, class, n.name[i]);
	read_told_lines(&f, "neighbours", add_told_edge);
	read_told_lines(&f, "ntb_places", add_told_place);
	read_told_lines(&f, "ntb_roots", add_told_root);
	add_offers(&f);
	add_own_devices(&f);
	add_mdevs(&f);
	peers_load(&f);
	names_free(&n);
	free(class);
	free(core);
	return f;
}

/* Insert it, unless it is there.  Those that are not known come last. */
static size_t add_root(struct root *list, size_t n, const struct root *root)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		if (root_same(&list[i], root))
			return n;
	if (n == ROOTS_MAX)
		return n;
	while (at < n && list[at].known &&
	       (!root->known || strcmp(list[at].bridge, root->bridge) < 0))
		at++;
	memmove(&list[at + 1], &list[at], (n - at) * sizeof(*list));
	list[at] = *root;
	return n + 1;
}

size_t fabric_roots(const struct fabric *f, unsigned int node, struct root *root)
{
	size_t n = 0;

	for (size_t i = 0; i < f->edges; i++)
		if (f->edge[i].from == node)
			n = add_root(root, n, &f->edge[i].root);
	for (size_t i = 0; i < f->devices; i++)
		if (f->device[i].lender == node)
			n = add_root(root, n, &f->device[i].root);
	return n;
}

const struct edge *fabric_edge(const struct fabric *f, unsigned int from, unsigned int to)
{
	for (size_t i = 0; i < f->edges; i++)
		if (f->edge[i].up && f->edge[i].from == from && f->edge[i].to == to)
			return &f->edge[i];
	return NULL;
}

const struct lent *fabric_device(const struct fabric *f, const char *name)
{
	char bdf[16] = "";

	if (!bdf_parse(bdf, name))
		bdf[0] = '\0';
	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *d = &f->device[i];

		if (!strcmp(d->address, name) || (*d->uuid && !strcmp(d->uuid, name)) ||
		    (*bdf && (!strcmp(d->own, bdf) || !strcmp(d->address, bdf))))
			return d;
	}
	return NULL;
}
