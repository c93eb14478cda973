// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fabric for graphviz: a box for every node, in it one for every host bridge with bridges and
 * devices, and links between them.
 */
#include <string.h>

#include "fabric.h"

/* Text from peers must not end the string. */
static const char *quoted(const char *s)
{
	char *quoted = zeroed(2 * strlen(s) + 2, 1), *to = quoted;

	for (*to++ = '"'; *s; *to++ = *s++)
		if (*s == '"' || *s == '\\')
			*to++ = '\\';
	*to = '"';
	return quoted;
}

static void draw_line(const char *from, const char *to, bool known)
{
	printf("    %s -- %s%s;\n", quoted(from), quoted(to), known ? "" : " [style=dotted]");
}

static const char *root_name(unsigned int node, const struct root *root)
{
	return text("root of node %u%s%s", node, root->known ? " " : "", root->bridge);
}

/* Each port of a switch is drawn, because different downstream ports lead to different places. */
static const char *draw_bridges(unsigned int node, const struct root *root,
				const struct place *place)
{
	const char *above = root_name(node, root);

	for (size_t i = 0; i < place->count; i++) {
		const struct bridge *b = &place->bridge[i];
		const char *name = text("%u %s", node, b->bdf);

		printf("    %s [shape=%s, label=\"%s\\n%s%s\"];\n", quoted(name),
		       b->kind == BRIDGE_ROOT ? "ellipse" : "hexagon", b->bdf,
		       bridge_kind_name(b->kind), b->acs ? ", ACS" : "");
		draw_line(above, name, place->known);
		above = name;
	}
	return above;
}

static void draw_device(const struct lent *d)
{
	const char *above = draw_bridges(d->lender, &d->root, &d->place);

	printf("    %s [label=\"%s\\n", quoted(d->address), d->address);
	/* The type comes from a peer, so it must not end the label. */
	for (const char *c = d->type; *c; c++)
		putchar(*c == '"' || *c == '\\' ? '?' : *c);
	if (d->clique >= 0)
		printf("\\nclique %d\", style=filled, colorscheme=set312, fillcolor=%d];\n",
		       d->clique, d->clique % 12 + 1);
	else
		puts("\"];");
	draw_line(above, d->address, d->place.known);
}

static const char *end_name(const struct edge *e)
{
	return text("ntb %u-%u%s%s", e->from, e->to, *e->name ? " " : "", e->name);
}

static void draw_end(const struct edge *e)
{
	const char *above = draw_bridges(e->from, &e->root, &e->place), *name = end_name(e);

	printf("    %s [shape=cds, label=%s];\n", quoted(name), quoted(*e->name ? e->name : "NTB"));
	draw_line(above, name, e->place.known);
}

/* A host bridge, with a box around all that is below it if it is known. */
static void draw_root(const struct fabric *f, unsigned int node, const struct root *root)
{
	if (root->known)
		printf("    subgraph \"cluster_%u_%s\" {\n    label=\"%s\";\n", node,
		       root->bridge, root_text(root));
	printf("    %s [shape=ellipse, label=\"root complex, IOMMU\"];\n",
	       quoted(root_name(node, root)));
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

	printf("  subgraph cluster_%u {\n    label=%s;\n", node,
	       quoted(text("node %s%s", node_text(text("%u", node)),
			   node == f->me ? " (this one)" : "")));
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
	printf("  %s -- %s [label=\"%lluM / %lluM\", penwidth=3];\n", quoted(end_name(e)),
	       quoted(back ? end_name(back) : root_name(e->to, &root[0])), e->bytes >> 20,
	       back ? back->bytes >> 20 : 0);
}

/* A line that does not change the layout */
static void draw_between(const char *a, const char *b, const char *label, const char *how)
{
	printf("  %s -- %s [label=%s, %s, constraint=false];\n", quoted(a), quoted(b),
	       quoted(label), how);
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

/* Draws peer-to-peer that is mapped now. */
static void draw_peers(const struct fabric *f)
{
	for (size_t i = 0; i < f->reaches; i++) {
		const struct reach *r = &f->reach[i], *back;

		if (!r->mapped || first_mapped(f, i, r->from, r->to))
			continue;
		back = first_mapped(f, f->reaches, r->to, r->from);
		/* Both ways are one arrow with two heads, drawn where the first is found. */
		if (!back || back > r)
			draw_between(r->from, r->to, r->way, back ?
				     "dir=both, style=dashed, color=blue" :
				     "dir=forward, style=dashed, color=blue");
	}
}

/* Draws what keeps devices of a guest out of one clique. */
static void draw_doubts(const struct fabric *f)
{
	for (size_t i = 0; i < f->doubts; i++) {
		const struct doubt *d = &f->doubt[i];

		if (clique_of(f, d->a) >= 0 && clique_of(f, d->b) >= 0)
			draw_between(d->a, d->b, d->why, "style=dotted, color=red");
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
