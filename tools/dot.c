// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fabric for graphviz: a box for every node, in it one for every host bridge with bridges and
 * devices, and links between them.
 */
#include <string.h>

#include "topology.h"

/* Text from peers must not end the string. */
static void print_quoted(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('"');
}

static void draw_line(const char *from, const char *to, const char *more)
{
	fputs("    ", stdout);
	print_quoted(from);
	fputs(" -- ", stdout);
	print_quoted(to);
	printf("%s;\n", more);
}

static const char *root_name(unsigned int node, const struct root *root)
{
	return text("root of node %u%s%s", node, root->known ? " " : "", root->bridge);
}

static const char *bridge_name(unsigned int node, const char *bdf)
{
	return text("%u %s", node, bdf);
}

/* Each port of a switch is drawn, because different downstream ports lead to different places. */
static const char *draw_bridges(unsigned int node, const struct root *root,
				const struct place *place)
{
	const char *above = root_name(node, root);

	for (size_t i = 0; i < place->count; i++) {
		const struct bridge *b = &place->bridge[i];
		const char *name = bridge_name(node, b->bdf);

		fputs("    ", stdout);
		print_quoted(name);
		printf(" [shape=%s, label=\"%s\\n%s%s\"];\n",
		       b->kind == BRIDGE_ROOT ? "ellipse" : "hexagon", b->bdf,
		       bridge_kind_name(b->kind), b->acs ? ", ACS" : "");
		draw_line(above, name, place->known ? "" : " [style=dotted]");
		above = name;
	}
	return above;
}

static void draw_device(const struct lent *d)
{
	const char *above = draw_bridges(d->lender, &d->root, &d->place);

	fputs("    ", stdout);
	print_quoted(d->address);
	printf(" [label=\"%s\\n", d->address);
	/* The type comes from a peer, so it must not end the label. */
	for (const char *c = d->type; *c; c++)
		putchar(*c == '"' || *c == '\\' ? '?' : *c);
	if (d->clique >= 0)
		printf("\\nclique %d\", style=filled, colorscheme=set312, fillcolor=%d];\n",
		       d->clique, d->clique % 12 + 1);
	else
		puts("\"];");
	draw_line(above, d->address, d->place.known ? "" : " [style=dotted]");
}

static const char *end_name(const struct edge *e)
{
	return text("ntb %u-%u%s%s", e->from, e->to, *e->name ? " " : "", e->name);
}

static void draw_end(const struct edge *e)
{
	const char *above = draw_bridges(e->from, &e->root, &e->place), *name = end_name(e);

	fputs("    ", stdout);
	print_quoted(name);
	fputs(" [shape=cds, label=", stdout);
	print_quoted(*e->name ? e->name : "NTB");
	puts("];");
	draw_line(above, name, e->place.known ? "" : " [style=dotted]");
}

/* A host bridge, with a box around all that is below it if it is known. */
static void draw_root(const struct fabric *f, unsigned int node, const struct root *root)
{
	if (root->known) {
		printf("    subgraph \"cluster_%u_%s\" {\n    label=\"%s\";\n", node,
		       root->bridge, root_text(root));
	}
	fputs("    ", stdout);
	print_quoted(root_name(node, root));
	puts(" [shape=ellipse, label=\"root complex, IOMMU\"];");
	for (size_t i = 0; i < f->devices; i++)
		if (f->device[i].lender == node && root_same(&f->device[i].root, root))
			draw_device(&f->device[i]);
	for (size_t i = 0; i < f->edges; i++)
		if (f->edge[i].from == node && root_same(&f->edge[i].root, root))
			draw_end(&f->edge[i]);
	if (root->known)
		puts("    }");
}

static void draw_node(const struct fabric *f, unsigned int node)
{
	struct root root[ROOTS_MAX] = { 0 };
	size_t n = fabric_roots(f, node, root);

	printf("  subgraph cluster_%u {\n    label=", node);
	print_quoted(text("node %s%s", node_text(text("%u", node)),
			  node == f->me ? " (this one)" : ""));
	puts(";");
	draw_root(f, node, &root[0]);
	for (size_t i = 1; i < n; i++)
		draw_root(f, node, &root[i]);
	puts("  }");
}

/* Draws both directions of a link as one line. */
static void draw_link(const struct fabric *f, const struct edge *e)
{
	const struct edge *back = fabric_edge(f, e->to, e->from);
	struct root root[ROOTS_MAX] = { 0 };

	if (!e->up || (back && e->to < e->from))
		return;
	fabric_roots(f, e->to, root);
	fputs("  ", stdout);
	print_quoted(end_name(e));
	fputs(" -- ", stdout);
	print_quoted(back ? end_name(back) : root_name(e->to, &root[0]));
	printf(" [label=\"%lluM / %lluM\", penwidth=3];\n", e->bytes >> 20,
	       back ? back->bytes >> 20 : 0);
}

/* Draws peer-to-peer that is mapped now.  These lines do not change the layout (constraint). */
static void draw_peers(const struct fabric *f)
{
	struct reach_pair pair;
	size_t at = 0;

	while (peers_next(f, &at, &pair)) {
		fputs("  ", stdout);
		print_quoted(pair.there->from);
		fputs(" -- ", stdout);
		print_quoted(pair.there->to);
		fputs(" [label=", stdout);
		print_quoted(pair.there->way);
		printf(", dir=%s, style=dashed, color=blue, constraint=false];\n",
		       pair.back ? "both" : "forward");
	}
}

/* Draws what keeps devices of a guest out of one clique. */
static void draw_doubts(const struct fabric *f)
{
	for (size_t i = 0; i < f->doubts; i++) {
		const struct doubt *d = &f->doubt[i];

		if (clique_of(f, d->a) < 0 || clique_of(f, d->b) < 0)
			continue;
		fputs("  ", stdout);
		print_quoted(d->a);
		fputs(" -- ", stdout);
		print_quoted(d->b);
		fputs(" [label=", stdout);
		print_quoted(d->why);
		puts(", style=dotted, color=red, constraint=false];");
	}
}

void fabric_dot(const struct fabric *f)
{
	puts("graph dlend {\n  graph [rankdir=TB];\n  node [shape=box, fontsize=10];");
	for (size_t i = 0; i < f->nodes; i++)
		draw_node(f, f->node[i]);
	for (size_t i = 0; i < f->edges; i++)
		draw_link(f, &f->edge[i]);
	draw_peers(f);
	draw_doubts(f);
	puts("}");
}
