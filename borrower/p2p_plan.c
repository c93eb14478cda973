// SPDX-License-Identifier: GPL-2.0
/*
 * Who reaches whose BARs, and by which way: see p2p_plan.h.
 *
 * Pure logic: knows nothing of locks, messages, windows or VFIO.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <dlend/p2p_plan.h>

#define PAGE_BYTES	4096ull

static bool dlend_p2p_overlap(const struct dlend_p2p_bar *a, const struct dlend_p2p_bar *b)
{
	return a->gpa < b->gpa + b->size && b->gpa < a->gpa + a->size;
}

/* Does another BAR of the VM, one that is decoded, lie where this one does? */
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
			if (other != bar && other->size && dlend_p2p_overlap(other, bar))
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

static u64 dlend_p2p_least(const struct dlend_p2p_fabric *f, u16 from, u16 to, bool left)
{
	u64 least = U64_MAX, bytes;
	unsigned int i;

	for (i = 0; i < f->n; i++) {
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
	return dlend_p2p_least(f, from, to, false);
}

/* What one VM may use of it. */
static u64 dlend_p2p_left(const struct dlend_p2p_fabric *f, u16 from, u16 to)
{
	return dlend_p2p_least(f, from, to, !f->alone);
}

enum dlend_p2p_route dlend_p2p_route(const struct dlend_p2p_fabric *f, u16 s, u16 t)
{
	if (s == t)
		return DLEND_P2P_LOCAL;
	/* A borrowed device comes over a link: so this node has one to every other lender. */
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
	unsigned int b;
	u64 sum = 0;

	for (b = 0; b < DLEND_NUM_BARS; b++)
		sum += dev->bar[b].size;
	return sum;
}

/* Do all BARs of node @to fit into its window for node @from?  A slot serves all devices there. */
static bool dlend_p2p_link_is_wide(const struct dlend_p2p_fabric *f,
				   const struct dlend_p2p_dev *dev, unsigned int n, u16 from,
				   u16 to)
{
	unsigned int i;
	u64 sum = 0;

	for (i = 0; i < n; i++)
		if (dev[i].addr.lender == to)
			sum += dlend_p2p_bytes(&dev[i]);
	return sum <= dlend_p2p_left(f, from, to);
}

/* The way from node @s to node @t, if this node's own windows are wide enough. */
static enum dlend_p2p_route dlend_p2p_choose_route(const struct dlend_p2p_fabric *f,
						   const struct dlend_p2p_dev *dev, unsigned int n,
						   u16 s, u16 t)
{
	enum dlend_p2p_route route = dlend_p2p_route(f, s, t);

	if (route == DLEND_P2P_LENDERS && !dlend_p2p_link_is_wide(f, dev, n, s, t))
		route = dlend_p2p_detour(f, s, t, route);
	return route;
}

/* Does all fit that node @from's devices reach through this node?  Each has slots of its own. */
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
	return sum * sources <= dlend_p2p_left(f, from, f->self);
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

const char *dlend_p2p_route_name(enum dlend_p2p_route route)
{
	switch (route) {
	case DLEND_P2P_LOCAL:
		return "same-lender";
	case DLEND_P2P_LENDERS:
		return "lender-link";
	case DLEND_P2P_BORROWER:
		return "via-borrower";
	default:
		return "none";
	}
}

const char *dlend_p2p_why_text(enum dlend_p2p_why why)
{
	switch (why) {
	case DLEND_P2P_OFF:
		return "not in use";
	case DLEND_P2P_NO_BAR:
		return "no such BAR";
	case DLEND_P2P_PART:
		return "not made of whole pages";
	case DLEND_P2P_OVER_BAR:
		return "placed over another BAR";
	default:
		return "";
	}
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
