// SPDX-License-Identifier: GPL-2.0
/*
 * Peer-to-peer of a VM's borrowed devices, as pure logic: which of them reach whose BARs, and by
 * which route; how much room in apertures is booked for that; and which devices may be in one
 * clique.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <dlend/p2p_plan.h>
#include "p2p_plan.h"

#define PAGE_BYTES	4096ull

/* Does another BAR of the VM's devices that decode their BARs overlap @bar? */
static bool dlend_p2p_over_bar(const struct dlend_p2p_dev *dev, unsigned int n,
			       const struct dlend_p2p_bar *bar)
{
	const struct dlend_p2p_bar *other;
	unsigned int i, b;

	for (i = 0; i < n; i++) {
		if (!dev[i].target)
			continue;
		for (b = 0; b < DLEND_NUM_BARS; b++) {
			other = &dev[i].bar[b];
			if (other != bar && other->size && other->gpa < bar->gpa + bar->size &&
			    bar->gpa < other->gpa + other->size)
				return true;
		}
	}
	return false;
}

enum dlend_p2p_why dlend_p2p_want(const struct dlend_p2p_dev *dev, unsigned int n,
				  struct dlend_p2p_way way, struct dlend_p2p_wish *wish)
{
	const struct dlend_p2p_dev *s = &dev[way.s], *t = &dev[way.t];
	const struct dlend_p2p_bar *b = &t->bar[way.bar];

	memset(wish, 0, sizeof(*wish));
	if (!b->size)
		return DLEND_P2P_NO_BAR;
	if (!s->source || !t->target)
		return DLEND_P2P_OFF;
	/* While a guest sizes a BAR, the BAR holds an address that wraps. */
	if ((b->gpa | b->size) & (PAGE_BYTES - 1) || b->gpa + b->size <= b->gpa)
		return DLEND_P2P_PART;
	if (dlend_p2p_over_bar(dev, n, b))
		return DLEND_P2P_OVER_BAR;
	wish->on = true;
	wish->gpa = b->gpa;
	wish->size = b->size;
	wish->source_epoch = s->epoch;
	wish->target_epoch = t->epoch;
	return DLEND_P2P_OK;
}

bool dlend_p2p_wish_same(const struct dlend_p2p_wish *a, const struct dlend_p2p_wish *b)
{
	return a->gpa == b->gpa && a->size == b->size && a->source_epoch == b->source_epoch &&
	       a->target_epoch == b->target_epoch;
}

enum dlend_p2p_step dlend_p2p_step(const struct dlend_p2p_wish *want,
				   const struct dlend_p2p_wish *have)
{
	if (have->on)
		return want->on && dlend_p2p_wish_same(want, have) ? DLEND_P2P_KEEP :
								     DLEND_P2P_UNMAP;
	return want->on ? DLEND_P2P_MAP : DLEND_P2P_KEEP;
}

/*
 * Bytes of the aperture of node @to for node @from that peer-to-peer may use; of several paths, the
 * least counts. @left: true: only what others leave. Return: 0 if no path is known.
 */
static u64 dlend_p2p_path_bytes(const struct dlend_p2p_fabric *f, u16 from, u16 to, bool left)
{
	u64 least = U64_MAX, bytes;

	for (unsigned int i = 0; i < f->n; i++) {
		if (f->path[i].from != from || f->path[i].to != to)
			continue;
		bytes = (u64)f->path[i].mib << 20;
		if (left)
			bytes -= min(bytes, f->path[i].taken);
		least = min(least, bytes);
	}
	return least == U64_MAX ? 0 : least;
}

u64 dlend_p2p_room(const struct dlend_p2p_fabric *f, u16 from, u16 to)
{
	return dlend_p2p_path_bytes(f, from, to, false /* all */);
}

/* Bytes of that room that one VM may use: what others have is left out, unless @f->alone is set. */
static u64 dlend_p2p_room_for_vm(const struct dlend_p2p_fabric *f, u16 from, u16 to)
{
	return dlend_p2p_path_bytes(f, from, to, !f->alone);
}

enum dlend_p2p_route dlend_p2p_route(const struct dlend_p2p_fabric *f, u16 s, u16 t)
{
	if (s == t)
		return DLEND_P2P_LOCAL;
	/* This node has a link to the lender of each device that it has borrowed. */
	if (s == f->self || t == f->self || dlend_p2p_room(f, s, t))
		return DLEND_P2P_LENDERS;
	return DLEND_P2P_BORROWER;
}

enum dlend_p2p_route dlend_p2p_detour(const struct dlend_p2p_fabric *f, u16 s, u16 t,
				      enum dlend_p2p_route route)
{
	if (route == DLEND_P2P_LENDERS && s != f->self && t != f->self)
		return DLEND_P2P_BORROWER;
	return DLEND_P2P_NONE;
}

static u64 dlend_p2p_bytes(const struct dlend_p2p_dev *dev)
{
	u64 sum = 0;

	for (unsigned int b = 0; b < DLEND_NUM_BARS; b++)
		sum += dev->bar[b].size;
	return sum;
}

/*
 * Do all BARs of the VM's devices in node @to fit into the aperture that node @to has for node
 * @from?  A BAR has one slot there, for all devices of node @from.
 */
static bool dlend_p2p_link_is_wide(const struct dlend_p2p_fabric *f,
				   const struct dlend_p2p_dev *dev, unsigned int n, u16 from,
				   u16 to)
{
	u64 sum = 0;

	for (unsigned int i = 0; i < n; i++)
		if (dev[i].addr.lender == to)
			sum += dlend_p2p_bytes(&dev[i]);
	return sum <= dlend_p2p_room_for_vm(f, from, to);
}

/*
 * The best route from node @s to node @t. The route over the link between the two is chosen only if
 * its aperture has room; whether there is room on the route through this node is not checked here.
 */
static enum dlend_p2p_route dlend_p2p_choose_route(const struct dlend_p2p_fabric *f,
						   const struct dlend_p2p_dev *dev, unsigned int n,
						   u16 s, u16 t)
{
	enum dlend_p2p_route route = dlend_p2p_route(f, s, t);

	if (route == DLEND_P2P_LENDERS && !dlend_p2p_link_is_wide(f, dev, n, s, t))
		route = dlend_p2p_detour(f, s, t, route);
	return route;
}

/*
 * Do all BARs that devices of node @from reach through this node fit into this node's aperture for
 * node @from?  Each device needs slots of its own.
 */
static bool dlend_p2p_detour_is_wide(const struct dlend_p2p_fabric *f,
				     const struct dlend_p2p_dev *dev, unsigned int n, u16 from)
{
	unsigned int i, sources = 0;
	u64 sum = 0;

	for (i = 0; i < n; i++) {
		if (dev[i].addr.lender == from)
			sources++;
		else if (dlend_p2p_choose_route(f, dev, n, from, dev[i].addr.lender) ==
			 DLEND_P2P_BORROWER)
			sum += dlend_p2p_bytes(&dev[i]);
	}
	return sum * sources <= dlend_p2p_room_for_vm(f, from, f->self);
}

enum dlend_p2p_route dlend_p2p_wide_route(const struct dlend_p2p_fabric *f,
					  const struct dlend_p2p_dev *dev, unsigned int n,
					  unsigned int s, unsigned int t)
{
	u16 from = dev[s].addr.lender, to = dev[t].addr.lender;
	enum dlend_p2p_route route = dlend_p2p_choose_route(f, dev, n, from, to);

	if (route == DLEND_P2P_BORROWER && !dlend_p2p_detour_is_wide(f, dev, n, from))
		return DLEND_P2P_NONE;
	return route;
}

const char *dlend_p2p_err_text(int err, const char **todo)
{
	static const struct {
		int err;
		const char *what, *todo;
	} texts[] = {
		{ -EEXIST, "the guest has put it over its own RAM or another BAR",
		  "let it choose another address" },
		{ -ENOSPC, "a window is full",
		  "give the NTBs larger ones, or the VM fewer devices" },
		{ -EDQUOT, "its share of a window is used", "see dlend_core.p2p_window_percent" },
		{ -ENOBUFS, "the room in a window is booked for another VM",
		  "it is tried again, and succeeds when that VM ends" },
		{ 0, "not now", "it is tried again" },
	};
	unsigned int i;

	for (i = 0; texts[i].err && texts[i].err != err; i++)
		;
	if (todo)
		*todo = texts[i].todo;
	return texts[i].what;
}

/* Bookings: see borrower/p2p_plan.h. */

bool dlend_p2p_booking_set_aperture(struct dlend_p2p_booking *b, u16 self,
				    enum dlend_p2p_route route)
{
	b->from = b->s.lender;
	b->to = route == DLEND_P2P_BORROWER ? self : b->t.lender;
	return route == DLEND_P2P_LENDERS || route == DLEND_P2P_BORROWER;
}

/* Are both bookings for the same BAR, in the same aperture? Their sources may differ. */
static bool dlend_p2p_booking_same_bar(const struct dlend_p2p_booking *a,
				       const struct dlend_p2p_booking *b)
{
	return a->from == b->from && a->to == b->to && a->bar == b->bar &&
	       dlend_addr_same(&a->t, &b->t);
}

struct dlend_p2p_booking *dlend_p2p_booking_find(const struct list_head *list,
						 const struct dlend_p2p_booking *like)
{
	struct dlend_p2p_booking *b;

	list_for_each_entry(b, list, node)
		if (dlend_p2p_booking_same_bar(b, like) && dlend_addr_same(&b->s, &like->s))
			return b;
	return NULL;
}

/* Return: a booking whose slot is also used for @like; NULL: @like needs a slot of its own. */
static struct dlend_p2p_booking *dlend_p2p_booking_shared(const struct list_head *list,
							  const struct dlend_p2p_booking *like)
{
	struct dlend_p2p_booking *b;

	/* On the route through this node, each device has slots of its own. */
	if (like->to != like->t.lender)
		return NULL;
	list_for_each_entry(b, list, node)
		if (dlend_p2p_booking_same_bar(b, like))
			return b;
	return NULL;
}

bool dlend_p2p_booking_fits(const struct list_head *list, const struct dlend_p2p_fabric *f,
			    const struct dlend_p2p_booking *want)
{
	const struct dlend_p2p_booking *b;
	bool promised = false;
	u64 sum = want->bytes;

	if (dlend_p2p_booking_shared(list, want))
		return true;
	list_for_each_entry(b, list, node) {
		if (b->from != want->from || b->to != want->to)
			continue;
		if (b->counts)
			sum += b->bytes;
		promised = promised || (b->promised && b->user != want->user);
	}
	return !promised || sum <= dlend_p2p_room(f, want->from, want->to);
}

void dlend_p2p_booking_add(struct list_head *list, struct dlend_p2p_booking *b)
{
	b->counts = !dlend_p2p_booking_shared(list, b);
	list_add_tail(&b->node, list);
}

void dlend_p2p_booking_del(struct list_head *list, struct dlend_p2p_booking *b)
{
	struct dlend_p2p_booking *heir;

	list_del(&b->node);
	heir = b->counts ? dlend_p2p_booking_shared(list, b) : NULL;
	if (heir)
		heir->counts = true;
}

struct dlend_p2p_booking *dlend_p2p_booking_of(const struct list_head *list,
					       const struct dlend_addr *addr)
{
	struct dlend_p2p_booking *b;

	list_for_each_entry(b, list, node)
		if (dlend_addr_same(&b->s, addr) || dlend_addr_same(&b->t, addr))
			return b;
	return NULL;
}

u64 dlend_p2p_booked(const struct list_head *list, u16 from, u16 to, const void *user)
{
	const struct dlend_p2p_booking *b;
	u64 sum = 0;

	list_for_each_entry(b, list, node)
		if (b->from == from && b->to == to && b->counts && b->user != user)
			sum += b->bytes;
	return sum;
}

/* Cliques: see dlend/p2p_plan.h. */

/*
 * Where transfers enter or leave the root complex of a node. @to: node that the NTB there leads to;
 * 0: it is a device. @p2p_domain: peer-to-peer domain; 0: none, or not known.
 */
struct dlend_p2p_port {
	u16 to, p2p_domain;
};

/* The NTB of node @at that leads to node @to. Peer-to-peer domain 0: node @at has not sent it. */
static struct dlend_p2p_port dlend_p2p_port_to(const struct dlend_p2p_fabric *f, u16 at, u16 to)
{
	const struct dlend_p2p_end *end = f->end;

	while (end < f->end + f->ends && (end->at != at || end->to != to))
		end++;
	return (struct dlend_p2p_port){ to, end < f->end + f->ends ? end->p2p_domain : 0 };
}

/* Does node @node pass transfers on from @in to @out? If not, the doubt says why. */
static struct dlend_p2p_doubt dlend_p2p_doubt_of_node(u16 node, struct dlend_p2p_port in,
						      struct dlend_p2p_port out)
{
	struct dlend_p2p_doubt doubt = { .node = node, .to = { in.to, out.to } };

	if (!in.p2p_domain || !out.p2p_domain)
		doubt.kind = DLEND_P2P_NOT_ALLOWED;
	else if (in.p2p_domain != out.p2p_domain)
		doubt.kind = DLEND_P2P_APART;
	return doubt;
}

/*
 * Do all nodes on a route pass transfers on?  The route leads from device @s, which is in the first
 * of the @n nodes @node, to device @t in the last one; each node has a link to the next one.
 * Return: the first doubt.
 */
static struct dlend_p2p_doubt dlend_p2p_doubt_of_way(const struct dlend_p2p_fabric *f,
						     const struct dlend_p2p_dev *s,
						     const struct dlend_p2p_dev *t,
						     const u16 *node, unsigned int n)
{
	struct dlend_p2p_port in = { .p2p_domain = s->p2p_domain };
	struct dlend_p2p_port out = { .p2p_domain = t->p2p_domain };
	struct dlend_p2p_doubt doubt;

	for (; n > 1; n--, node++) {
		doubt = dlend_p2p_doubt_of_node(node[0], in,
						dlend_p2p_port_to(f, node[0], node[1]));
		if (doubt.kind != DLEND_P2P_SURE)
			return doubt;
		in = dlend_p2p_port_to(f, node[1], node[0]);
	}
	return dlend_p2p_doubt_of_node(node[0], in, out);
}

/* What speaks against transfers from device @s to device @t? */
static struct dlend_p2p_doubt dlend_p2p_doubt_one_way(const struct dlend_p2p_fabric *f,
						      const struct dlend_p2p_dev *dev,
						      unsigned int n, unsigned int s,
						      unsigned int t)
{
	const u16 way[] = { dev[s].addr.lender, f->self, dev[t].addr.lender };
	const u16 link[] = { way[0], way[2] };
	struct dlend_p2p_fabric alone = *f;

	switch (dlend_p2p_wide_route(f, dev, n, s, t)) {
	case DLEND_P2P_LOCAL:
		return dlend_p2p_doubt_of_way(f, &dev[s], &dev[t], way, 1);
	case DLEND_P2P_LENDERS:
		return dlend_p2p_doubt_of_way(f, &dev[s], &dev[t], link, 2);
	case DLEND_P2P_BORROWER:
		return dlend_p2p_doubt_of_way(f, &dev[s], &dev[t], way, 3);
	default:
		/* There is no way: would there be one without other VMs? */
		alone.alone = true;
		return (struct dlend_p2p_doubt){
			.kind = dlend_p2p_wide_route(&alone, dev, n, s, t) == DLEND_P2P_NONE ?
				DLEND_P2P_NARROW : DLEND_P2P_TAKEN,
		};
	}
}

struct dlend_p2p_doubt dlend_p2p_doubt(const struct dlend_p2p_fabric *f,
				       const struct dlend_p2p_dev *dev, unsigned int n,
				       unsigned int a, unsigned int b)
{
	struct dlend_p2p_doubt doubt = dlend_p2p_doubt_one_way(f, dev, n, a, b);

	return doubt.kind == DLEND_P2P_SURE ? dlend_p2p_doubt_one_way(f, dev, n, b, a) : doubt;
}

/* Name the two places that a node may not connect. */
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
	static const char * const room[] = {
		[DLEND_P2P_SURE] = "",
		[DLEND_P2P_NARROW] = "no way there and back has windows for all BARs",
		[DLEND_P2P_TAKEN] =
			"what is left of the windows is too small for all BARs, as other VMs use them, too",
	};
	char where[48];

	if (doubt->kind < ARRAY_SIZE(room)) {
		snprintf(text, DLEND_P2P_DOUBT_LEN, "%s", room[doubt->kind]);
		return text;
	}
	dlend_p2p_doubt_where(doubt, where, sizeof(where));
	snprintf(text, DLEND_P2P_DOUBT_LEN,
		 "node %u does not allow transfers between %s%s (dlend_core.p2p_allowed there)",
		 doubt->node, where,
		 doubt->kind == DLEND_P2P_APART ? ", below different host bridges" : "");
	return text;
}

/* Does nothing speak against peer-to-peer between @a and @b, there and back? */
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

int dlend_p2p_clique_rival(const struct dlend_p2p_fabric *f, const struct dlend_p2p_dev *dev,
			   unsigned int n, unsigned int of, unsigned int after)
{
	for (unsigned int i = after; i < n && dev[of].clique >= 0; i++)
		if (i != of && dev[i].clique == dev[of].clique &&
		    !dlend_p2p_sure(f, dev, n, i, of))
			return i;
	return -1;
}
