// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the fabric: this node's links, what its peers say of theirs, all offers, the mediated
 * devices made here.  Draws nothing, and decides nothing about routes (route.c).
 */
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

#define NODE_MAX	65535

static void add_node(struct fabric *f, unsigned int id)
{
	size_t at = 0;

	if (!id)
		return;
	while (at < f->nodes && f->node[at] < id)
		at++;
	if (at < f->nodes && f->node[at] == id)
		return;
	f->node = grow(f->node, f->nodes, sizeof(*f->node));
	memmove(&f->node[at + 1], &f->node[at], (f->nodes - at) * sizeof(*f->node));
	f->node[at] = id;
	f->nodes++;
}

/* This node may have several links to another.  Between other nodes, peers tell of one only. */
static struct edge *add_edge(struct fabric *f, unsigned int from, unsigned int to)
{
	for (size_t i = 0; i < f->edges; i++)
		if (f->edge[i].from == from && f->edge[i].to == to && from != f->me)
			return &f->edge[i];
	add_node(f, from);
	add_node(f, to);
	f->edge = grow(f->edge, f->edges, sizeof(*f->edge));
	f->edge[f->edges] = (struct edge){ .from = from, .to = to, .name = "", .state = "" };
	return &f->edge[f->edges++];
}

typedef void (*told_fn)(struct fabric *f, unsigned int from, unsigned int to, char *rest);

/* What peers tell of their links.  Each line begins with the ids of two nodes. */
static void read_told_lines(struct fabric *f, const char *name, told_fn add_told)
{
	char *rest = read_all(sys("bus/dlend/%s", name)), *line;

	while ((line = next_line(&rest))) {
		unsigned int from, to;
		int used = 0;

		if (sscanf(line, "%u %u%n", &from, &to, &used) == 2 && from && to && from != to &&
		    from <= NODE_MAX && to <= NODE_MAX && from != f->me)
			add_told(f, from, to, line + used);
	}
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

	if (!word || !bdf_parse(bdf, word))
		return;
	for (size_t i = 0; i < f->edges; i++)
		if (f->edge[i].from == from && f->edge[i].to == to) {
			f->edge[i].name = text("%s", bdf);
			f->edge[i].place = place_parse(bridges);
		}
}

/* The host bridge that the NTB is below. */
static void add_told_root(struct fabric *f, unsigned int from, unsigned int to, char *rest)
{
	for (size_t i = 0; i < f->edges; i++)
		if (f->edge[i].from == from && f->edge[i].to == to)
			f->edge[i].root = root_parse(rest);
}

static void add_link(struct fabric *f, const char *dir, const char *name)
{
	unsigned int peer = attr_number(dir, "peer_node");
	struct edge *e;

	/* The link of a node to itself carries offers, and is no NTB. */
	if (attr_is(dir, "type", "loop") || (peer && peer == f->me))
		return;
	e = add_edge(f, f->me, peer);
	e->name = name;
	e->state = attr(dir, "state");
	e->up = peer && !strcmp(e->state, "up");
	e->bytes = attr_number(dir, "window_bytes");
	e->place = place_local(sys("bus/pci/devices/%s", name));
	e->root = root_attr(dir);
	if (!e->up)
		return;
	e = add_edge(f, peer, f->me);
	e->up = true;
	e->bytes = attr_number(dir, "aperture_bytes");
}

/* @ids: where vendor and device are */
static struct lent *add_device(struct fabric *f, const char *address, const char *dir,
			       const char *ids)
{
	f->device = grow(f->device, f->devices, sizeof(*f->device));
	f->device[f->devices] = (struct lent){
		.address = address, .type = attr(dir, "type"), .state = attr(dir, "state"),
		.own = "", .uuid = "", .interrupts = "", .clique = -1,
		.borrower = attr_number(dir, "borrower"), .lender = f->me,
		.vendor = attr_number(ids, "vendor"), .device = attr_number(ids, "device"),
	};
	return &f->device[f->devices++];
}

static void add_offers(struct fabric *f)
{
	struct names n = list_dir(sys("bus/dlend/devices"));

	for (size_t i = 0; i < n.count; i++) {
		const char *dir = names_path(&n, i);
		char *bars = read_all(text("%s/bars", dir)), *line;
		struct lent *d = add_device(f, n.name[i], dir, dir);
		unsigned long long bytes;

		d->lender = attr_number(dir, "lender");
		if (!attr_is(dir, "interrupts", "none"))
			d->interrupts = attr(dir, "interrupts");
		/* "INDEX BYTES[ 64][ prefetch]" each, as in docs/ABI/sysfs-bus-dlend */
		while ((line = next_line(&bars)))
			if (sscanf(line, "%*u %llu", &bytes) == 1)
				*(strstr(line, " 64 prefetch") ? &d->high : &d->low) += bytes;
		add_node(f, d->lender);
		if (path_exists(text("%s/place", dir)))
			d->place = place_parse(attr(dir, "place"));
		d->root = root_attr(dir);
	}
}

/* Devices that this host lends.  If dlend_mdev is loaded they are on the bus, too. */
static void add_own_devices(struct fabric *f)
{
	struct names n = list_dir(sys("bus/pci/drivers/" DLEND_DRIVER));
	char bdf[16];

	for (size_t i = 0; i < n.count; i++) {
		const char *dir = names_path(&n, i), *lent = text("%s/dlend", dir);
		const char *name = attr(lent, "fabric_name");
		struct lent *d;

		if (!*name || !bdf_parse(bdf, n.name[i]))
			continue;
		d = (struct lent *)fabric_device(f, name);
		if (!d)
			d = add_device(f, name, lent, dir);
		d->own = text("%s", bdf);
		d->place = place_local(dir);
		d->root = root_attr(lent);
	}
}

static void add_mdevs(struct fabric *f)
{
	struct names n = list_dir(sys("bus/mdev/devices"));

	for (size_t i = 0; i < n.count; i++) {
		const char *own = text("%s/dlend", names_path(&n, i)), *clique;
		struct lent *d = path_exists(own) ?
				 (struct lent *)fabric_device(f, mdev_parent(n.name[i])) : NULL;

		if (!d)
			continue;
		d->uuid = n.name[i];
		clique = attr(own, "clique");
		if (*clique >= '0' && *clique <= '9')
			d->clique = strtol(clique, NULL, 10);
	}
}

/* "d0003:01:00.0 bar0 0xc0000000 0x400000 lender-link mapped", docs/ABI/sysfs-bus-mdev-dlend */
static void add_reach(struct fabric *f, const struct lent *d, char *line)
{
	char to[64], bar[2], address[32], size[32], way[64], *bad_address, *bad_size;
	struct reach r = { .from = d->address };
	int used = 0;

	if (sscanf(line, "%63s bar%1[0-5]%*1[ ]%31s %31s %63s%n", to, bar, address, size, way,
		   &used) != 5)
		return;
	r.to = text("%s", to);
	r.bar = *bar - '0';
	r.address = strtoull(address, &bad_address, 0);
	r.size = strtoull(size, &bad_size, 0);
	if (*bad_address || *bad_size)
		return;
	r.way = text("%s", way);
	r.state = line + used + (line[used] == ' ');
	r.mapped = !strcmp(r.state, "mapped");
	f->reach = grow(f->reach, f->reaches, sizeof(r));
	f->reach[f->reaches++] = r;
}

/* "d0003:01:00.0 node 3 does not allow ...".  Both devices of a pair say it: one is kept. */
static void add_doubt(struct fabric *f, const struct lent *d, char *line)
{
	char *why = strchr(line, ' ');

	if (!why || why == line || !why[1])
		return;
	*why++ = '\0';
	for (size_t i = 0; i < f->doubts; i++)
		if (!strcmp(f->doubt[i].a, line) && !strcmp(f->doubt[i].b, d->address))
			return;
	f->doubt = grow(f->doubt, f->doubts, sizeof(*f->doubt));
	f->doubt[f->doubts++] = (struct doubt){ d->address, line, why };
}

static void load_lines(struct fabric *f, const struct lent *d, const char *name,
		       void (*add)(struct fabric *f, const struct lent *d, char *line))
{
	char *rest = read_all(text("%s/dlend/%s", mdev_directory(d->uuid), name)), *line;

	while ((line = next_line(&rest)))
		add(f, d, line);
}

/* What borrowed devices reach of each other, when devices and mediated devices are there. */
static void add_peers(struct fabric *f)
{
	for (size_t i = 0; i < f->devices; i++)
		if (*f->device[i].uuid) {
			load_lines(f, &f->device[i], "p2p", add_reach);
			load_lines(f, &f->device[i], "p2p_doubts", add_doubt);
		}
}

struct fabric fabric_load(void)
{
	struct fabric f = { .me = strtoul(own_node(), NULL, 0) };
	struct names n = list_dir(sys("class/dlend_link"));

	add_node(&f, f.me);
	for (size_t i = 0; i < n.count; i++)
		add_link(&f, names_path(&n, i), n.name[i]);
	read_told_lines(&f, "neighbours", add_told_edge);
	read_told_lines(&f, "ntb_places", add_told_place);
	read_told_lines(&f, "ntb_roots", add_told_root);
	add_offers(&f);
	add_own_devices(&f);
	add_mdevs(&f);
	add_peers(&f);
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

int fabric_numa(const struct fabric *f, const struct lent *d)
{
	const struct edge *link = fabric_edge(f, f->me, d->lender);
	const struct root *root = d->lender == f->me ? &d->root : link ? &link->root : NULL;

	return root && root->known ? root->numa : -1;
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
