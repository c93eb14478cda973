// SPDX-License-Identifier: GPL-2.0-only
/* The fabric for graphviz: a box for every node, bridges and devices in it, links between them. */
#include <string.h>

#include "fabric.h"

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

static const char *root_name(unsigned int node)
{
	return text("root of node %u", node);
}

static const char *bridge_name(unsigned int node, const char *bdf)
{
	return text("%u %s", node, bdf);
}

/* Each port of a switch is drawn, because different downstream ports lead to different places. */
static const char *draw_bridges(unsigned int node, const struct place *place)
{
	const char *above = root_name(node);

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
	const char *above = draw_bridges(d->lender, &d->place);

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
	const char *above = draw_bridges(e->from, &e->place), *name = end_name(e);

	fputs("    ", stdout);
	print_quoted(name);
	fputs(" [shape=cds, label=", stdout);
	print_quoted(*e->name ? e->name : "NTB");
	puts("];");
	draw_line(above, name, e->place.known ? "" : " [style=dotted]");
}

static void draw_node(const struct fabric *f, unsigned int node)
{
	printf("  subgraph cluster_%u {\n    label=\"node %u%s\";\n    ", node, node,
	       node == f->me ? " (this one)" : "");
	print_quoted(root_name(node));
	puts(" [shape=ellipse, label=\"root complex, IOMMU\"];");
	for (size_t i = 0; i < f->devices; i++)
		if (f->device[i].lender == node)
			draw_device(&f->device[i]);
	for (size_t i = 0; i < f->edges; i++)
		if (f->edge[i].from == node)
			draw_end(&f->edge[i]);
	puts("  }");
}

/* Draws both directions of a link as one line. */
static void draw_link(const struct fabric *f, const struct edge *e)
{
	const struct edge *back = fabric_edge(f, e->to, e->from);

	if (!e->up || (back && e->to < e->from))
		return;
	fputs("  ", stdout);
	print_quoted(end_name(e));
	fputs(" -- ", stdout);
	print_quoted(back ? end_name(back) : root_name(e->to));
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

void fabric_dot(const struct fabric *f)
{
	puts("graph dlend {\n  graph [rankdir=TB];\n  node [shape=box, fontsize=10];");
	for (size_t i = 0; i < f->nodes; i++)
		draw_node(f, f->node[i]);
	for (size_t i = 0; i < f->edges; i++)
		draw_link(f, &f->edge[i]);
	draw_peers(f);
	puts("}");
}
