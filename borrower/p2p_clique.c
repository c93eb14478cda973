// SPDX-License-Identifier: GPL-2.0
/*
 * Cliques: see p2p_clique.h.
 *
 * Pure logic: knows nothing of locks and messages, nor how a clique is shown to a guest.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <dlend/p2p_clique.h>

/* The island of the NTB of node @at that leads to node @to, 0: it does not say. */
static u16 dlend_p2p_end_island(const struct dlend_p2p_fabric *f, u16 at, u16 to)
{
	unsigned int i;

	for (i = 0; i < f->ends; i++)
		if (f->end[i].at == at && f->end[i].to == to)
			return f->end[i].island;
	return 0;
}

/* A place where transfers enter the root complex of a node, or leave it: @to as in doubts. */
struct dlend_p2p_port {
	u16 to, island;
};

static struct dlend_p2p_port dlend_p2p_port_of(const struct dlend_p2p_dev *dev)
{
	return (struct dlend_p2p_port){ .island = dev->island };
}

static struct dlend_p2p_port dlend_p2p_port_to(const struct dlend_p2p_fabric *f, u16 at, u16 to)
{
	return (struct dlend_p2p_port){ .to = to, .island = dlend_p2p_end_island(f, at, to) };
}

/* Does node @node vouch for the way from @in to @out? */
static struct dlend_p2p_doubt dlend_p2p_doubt_of_node(u16 node, struct dlend_p2p_port in,
						      struct dlend_p2p_port out)
{
	struct dlend_p2p_doubt doubt = { .node = node, .to = { in.to, out.to } };

	if (!in.island || !out.island)
		doubt.kind = DLEND_P2P_UNVOUCHED;
	else if (in.island != out.island)
		doubt.kind = DLEND_P2P_APART;
	return doubt;
}

/* From @s to @t over the link of their nodes. */
static struct dlend_p2p_doubt dlend_p2p_doubt_of_link(const struct dlend_p2p_fabric *f,
						      const struct dlend_p2p_dev *s,
						      const struct dlend_p2p_dev *t)
{
	u16 from = s->addr.lender, to = t->addr.lender;
	struct dlend_p2p_doubt doubt;

	doubt = dlend_p2p_doubt_of_node(from, dlend_p2p_port_of(s),
					dlend_p2p_port_to(f, from, to));
	if (doubt.kind == DLEND_P2P_SURE)
		doubt = dlend_p2p_doubt_of_node(to, dlend_p2p_port_to(f, to, from),
						dlend_p2p_port_of(t));
	return doubt;
}

/* From @s to @t through this node. */
static struct dlend_p2p_doubt dlend_p2p_doubt_of_detour(const struct dlend_p2p_fabric *f,
							const struct dlend_p2p_dev *s,
							const struct dlend_p2p_dev *t)
{
	u16 from = s->addr.lender, to = t->addr.lender;
	struct dlend_p2p_doubt doubt;

	doubt = dlend_p2p_doubt_of_node(from, dlend_p2p_port_of(s),
					dlend_p2p_port_to(f, from, f->self));
	if (doubt.kind == DLEND_P2P_SURE)
		doubt = dlend_p2p_doubt_of_node(f->self, dlend_p2p_port_to(f, f->self, from),
						dlend_p2p_port_to(f, f->self, to));
	if (doubt.kind == DLEND_P2P_SURE)
		doubt = dlend_p2p_doubt_of_node(to, dlend_p2p_port_to(f, to, f->self),
						dlend_p2p_port_of(t));
	return doubt;
}

/* There is no way from @s to @t: would there be one without other VMs? */
static struct dlend_p2p_doubt dlend_p2p_doubt_of_room(const struct dlend_p2p_fabric *f,
						      const struct dlend_p2p_dev *dev,
						      unsigned int n, unsigned int s,
						      unsigned int t)
{
	struct dlend_p2p_fabric alone = *f;

	alone.alone = true;
	return (struct dlend_p2p_doubt){
		.kind = dlend_p2p_wide_route(&alone, dev, n, s, t) == DLEND_P2P_NONE ?
			DLEND_P2P_NARROW : DLEND_P2P_TAKEN,
	};
}

static struct dlend_p2p_doubt dlend_p2p_doubt_one_way(const struct dlend_p2p_fabric *f,
						      const struct dlend_p2p_dev *dev,
						      unsigned int n, unsigned int s,
						      unsigned int t)
{
	switch (dlend_p2p_wide_route(f, dev, n, s, t)) {
	case DLEND_P2P_LOCAL:
		return dlend_p2p_doubt_of_node(dev[s].addr.lender, dlend_p2p_port_of(&dev[s]),
					       dlend_p2p_port_of(&dev[t]));
	case DLEND_P2P_LENDERS:
		return dlend_p2p_doubt_of_link(f, &dev[s], &dev[t]);
	case DLEND_P2P_BORROWER:
		return dlend_p2p_doubt_of_detour(f, &dev[s], &dev[t]);
	default:
		return dlend_p2p_doubt_of_room(f, dev, n, s, t);
	}
}

struct dlend_p2p_doubt dlend_p2p_doubt(const struct dlend_p2p_fabric *f,
				       const struct dlend_p2p_dev *dev, unsigned int n,
				       unsigned int a, unsigned int b)
{
	struct dlend_p2p_doubt doubt = dlend_p2p_doubt_one_way(f, dev, n, a, b);

	return doubt.kind == DLEND_P2P_SURE ? dlend_p2p_doubt_one_way(f, dev, n, b, a) : doubt;
}

static void dlend_p2p_doubt_where(const struct dlend_p2p_doubt *doubt, char *where, size_t size)
{
	u16 in = doubt->to[0], out = doubt->to[1];

	if (!in && !out)
		snprintf(where, size, "the two devices");
	else if (in && out)
		snprintf(where, size, "its NTBs to nodes %u and %u", in, out);
	else
		snprintf(where, size, "the device and its NTB to node %u", in ?: out);
}

const char *dlend_p2p_doubt_text(const struct dlend_p2p_doubt *doubt, char *text)
{
	char where[48];

	switch (doubt->kind) {
	case DLEND_P2P_SURE:
		text[0] = '\0';
		break;
	case DLEND_P2P_NARROW:
		snprintf(text, DLEND_P2P_DOUBT_LEN,
			 "no way there and back has windows for all BARs");
		break;
	case DLEND_P2P_TAKEN:
		snprintf(text, DLEND_P2P_DOUBT_LEN,
			 "what is left of the windows is too small for all BARs, as other VMs use them, too");
		break;
	default:
		dlend_p2p_doubt_where(doubt, where, sizeof(where));
		snprintf(text, DLEND_P2P_DOUBT_LEN,
			 "node %u does not vouch for transfers between %s%s (dlend_core.p2p_vouched there)",
			 doubt->node, where,
			 doubt->kind == DLEND_P2P_APART ? ", below different host bridges" : "");
	}
	return text;
}

static bool dlend_p2p_sure(const struct dlend_p2p_fabric *f, const struct dlend_p2p_dev *dev,
			   unsigned int n, unsigned int a, unsigned int b)
{
	return dlend_p2p_doubt(f, dev, n, a, b).kind == DLEND_P2P_SURE;
}

int dlend_p2p_clique(const struct dlend_p2p_fabric *f, const struct dlend_p2p_dev *dev,
		     unsigned int n, unsigned int new, int max)
{
	int clique, empty = -ENOSPC;
	unsigned int i, members;

	for (clique = 0; clique <= max; clique++) {
		members = 0;
		for (i = 0; i < n; i++) {
			if (i == new || dev[i].clique != clique)
				continue;
			members++;
			if (!dlend_p2p_sure(f, dev, n, i, new))
				break;
		}
		if (members && i == n)
			return clique;
		if (!members && empty < 0)
			empty = clique;
	}
	return empty;
}

int dlend_p2p_claim(const struct dlend_p2p_fabric *f, const struct dlend_p2p_dev *dev,
		    unsigned int n, unsigned int of, unsigned int after)
{
	unsigned int i;

	for (i = after; i < n && dev[of].clique >= 0; i++)
		if (i != of && dev[i].clique == dev[of].clique &&
		    !dlend_p2p_sure(f, dev, n, i, of))
			return i;
	return -1;
}
