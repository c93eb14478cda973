// SPDX-License-Identifier: GPL-2.0
/*
 * Scan: see scan.h.
 *
 * A scan walks upwards through guest-physical addresses.  It pins all that can be pinned, and finds
 * every edge of memory to the page.  How the walk gets through a hole depends on whether ranges are
 * known:
 *
 * - If the ranges in which RAM may be are known (the VM's memory slots), the walk tries one page
 *   each DLEND_STEP, which is the smallest block that virtio-mem plugs.
 * - If they are not known, the walk tries one page at each landmark (an address where PCs have RAM
 *   begin).  Within DLEND_NEAR of memory it also tries one page each DLEND_STEP.
 *
 * When the walk meets memory behind a hole, it looks back for the page where that memory begins.
 * So a hole that ends between two steps costs only a few calls, and no RAM behind the hole is
 * missed.
 *
 * Pure logic: must not know VFIO, IOMMUs, locks or time.
 */
#include <linux/align.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>

#include "scan.h"

#define KIB(n)		((u64)(n) << 10)
#define MIB(n)		((u64)(n) << 20)
#define GIB(n)		((u64)(n) << 30)

/* The smallest RAM that is never missed: blocks of QEMU's virtio-mem have 1 MiB or more. */
#define DLEND_STEP	MIB(1)
/* Without ranges: memory so near to other memory need not hold a landmark. */
#define DLEND_NEAR	MIB(512)

/* Private to this file: the error for a page that is RAM and cannot be pinned.  It is no edge. */
#define DLEND_UNPINNABLE	(-EDOM)

/*
 * An edge may read differently when it is looked at again, because memory has come or gone.  If
 * that happens more often in one walk, the layout changes all the time.
 */
#define DLEND_MAX_FLAPS	16

#define DLEND_PROT_RW	(DLEND_PROT_READ | DLEND_PROT_WRITE)

/*
 * Does the error of a pin mean that there is a hole?  -EFAULT of one page never comes here: see
 * dlend_scan_judge_page().
 */
static bool dlend_scan_is_hole(int err)
{
	return err == -EINVAL || err == -ENOENT || err == -EFAULT;
}

/* Has a pin failed because of an edge of memory, so that the walk goes on? */
static bool dlend_scan_is_edge(int err)
{
	return dlend_scan_is_hole(err) || err == -EPERM;
}

/* The next address above @gpa where PCs have RAM begin. */
static u64 dlend_scan_next_landmark(u64 gpa)
{
	if (gpa < KIB(640))			/* VGA's hole, or RAM if there is no VGA */
		return KIB(640);
	if (gpa < KIB(768))			/* option ROMs */
		return KIB(768);
	if (gpa < MIB(1))			/* a PAM register covers 16 KiB at least */
		return ALIGN(gpa + 1, KIB(16));
	if (gpa < GIB(4))
		return ALIGN(gpa + 1, MIB(1));
	if (gpa < GIB(2048))			/* RAM above 4 GiB, DIMMs; AMD's HT hole at 1 TiB */
		return ALIGN(gpa + 1, MIB(128));
	return ALIGN(gpa + 1, GIB(1));
}

/* @gpa is in a hole.  Return: the address to try next. */
static u64 dlend_scan_next_step(const struct dlend_scan *p, u64 gpa)
{
	if (gpa < MIB(1))
		return p->where ? ALIGN(gpa + 1, KIB(16)) : dlend_scan_next_landmark(gpa);
	if (p->where || gpa < p->near)
		return ALIGN(gpa + 1, DLEND_STEP);
	return dlend_scan_next_landmark(gpa);
}

/*
 * What does the failed pin of one page mean?  -EFAULT: the page is mapped, but cannot be pinned for
 * long.  As a rule it is in a BAR: the VMM maps the BARs of all its devices, and the fault handler
 * of a borrowed device's BAR serves only the guest.  A BAR is a hole.  But the page may also be RAM
 * of a kind that cannot be pinned, and RAM is not a hole.
 */
static int dlend_scan_judge_page(struct dlend_scan *p, u64 gpa, int err)
{
	if (err != -EFAULT)
		return err;
	/* Every PC has RAM at 0. */
	if (gpa && !p->ops->is_ram(p->ctx, gpa))
		return -EINVAL;
	return DLEND_UNPINNABLE;
}

/* Pin pages; or with @try only find out whether they can be pinned.  Return: 0 or an error. */
static int dlend_scan_pin(struct dlend_scan *p, u64 gpa, u32 npages, u32 prot, bool try)
{
	int err;

	if (p->ops->stop(p->ctx))
		return -EINTR;
	err = p->ops->pin(p->ctx, gpa, npages, prot, try);
	return err && npages == 1 ? dlend_scan_judge_page(p, gpa, err) : err;
}

/* Find out whether a page can be pinned. */
static int dlend_scan_try_page(struct dlend_scan *p, u64 gpa, u32 prot)
{
	return dlend_scan_pin(p, gpa, 1, prot, true);
}

/*
 * Of @npages pages from @gpa on, pin the longest run that begins with the first one; or, with
 * @back, pin nothing and find the longest run that ends with the last one.  This takes one call, or
 * else a bisection.  Return: number of pages in the run, or an error that ends the walk.
 */
static int dlend_scan_pin_run(struct dlend_scan *p, u64 gpa, u32 npages, u32 prot, bool back)
{
	u32 lo = 0, hi = npages, count = npages; /* lo pages are done; the edge is before hi */
	int err;

	for (; count; count = (hi - lo) / 2) {
		err = dlend_scan_pin(p, dlend_gpa_end(gpa, back ? npages - lo - count : lo),
				     count, prot, back);
		if (!err)
			lo += count;
		else if (dlend_scan_is_edge(err))
			hi = lo + count;
		else
			return err;
	}
	return lo;
}

/*
 * Memory is at *@at, or the hole before a known run ends there.  Move *@at down to where that
 * memory begins, but not below @floor.  Nothing is pinned: the walk pins on its way up.
 */
static int dlend_scan_look_back(struct dlend_scan *p, u64 floor, u64 *at)
{
	while (*at > floor) {
		u64 base = max(floor, ALIGN_DOWN(*at - 1, DLEND_CHUNK_BYTES));
		int ret;

		/* Try one page first: that nearly always fails, and fails fast. */
		ret = dlend_scan_try_page(p, *at - DLEND_GUEST_PAGE, DLEND_PROT_READ);
		if (ret)
			return dlend_scan_is_edge(ret) ? 0 : ret;
		*at -= DLEND_GUEST_PAGE;
		ret = dlend_scan_pin_run(p, base, (*at - base) / DLEND_GUEST_PAGE,
					 DLEND_PROT_READ, true);
		if (ret < 0)
			return ret;
		*at -= ret * DLEND_GUEST_PAGE;
		if (*at != base)
			return 0;
	}
	return 0;
}

/*
 * The page at @gpa cannot be pinned for writing.  Pin for reading all pages from there on that are
 * read-only, up to @end.  Writable pages could be pinned for reading, too; so each page is tried
 * for writing first.
 * Return: pages pinned, or an error.  @hole (out), if none is pinned: @gpa is in a hole.
 */
static int dlend_scan_pin_readonly(struct dlend_scan *p, u64 gpa, u64 end, bool *hole)
{
	u32 npages = (end - gpa) / DLEND_GUEST_PAGE, count;
	int ret = 0;

	for (count = 0; count < npages; count++) {
		ret = dlend_scan_try_page(p, dlend_gpa_end(gpa, count), DLEND_PROT_RW);
		if (ret != -EPERM)
			break;
	}
	if (ret && !dlend_scan_is_edge(ret))
		return ret;
	*hole = dlend_scan_is_hole(ret);
	ret = dlend_scan_pin_run(p, gpa, count, DLEND_PROT_READ, false);
	if (ret >= 0 && ret < count)	/* not even readable */
		*hole = true;
	return ret;
}

/*
 * *@pos is in memory: pin up to the end of its chunk, or up to an edge.  *@pos moves there.
 * @hole (out): a hole begins there.
 */
static int dlend_scan_walk_memory(struct dlend_scan *p, u64 *pos, u64 limit, bool *hole)
{
	u64 end = min(limit, ALIGN_DOWN(*pos, DLEND_CHUNK_BYTES) + DLEND_CHUNK_BYTES);
	int ret;

	end = p->ops->edge(p->ctx, *pos, end);
	*hole = false;
	ret = dlend_scan_pin_run(p, *pos, (end - *pos) / DLEND_GUEST_PAGE, DLEND_PROT_RW, false);
	if (ret < 0)
		return ret;
	*pos = dlend_gpa_end(*pos, ret);
	if (*pos == end)
		return 0;
	ret = dlend_scan_pin_readonly(p, *pos, end, hole);
	if (ret < 0)
		return ret;
	*pos = dlend_gpa_end(*pos, ret);
	return !ret && !*hole && ++p->flaps > DLEND_MAX_FLAPS ? -EINTR : 0;
}

/*
 * *@pos is in memory, and the walk came there through a hole.  If the walk jumped so far, from
 * landmark to landmark, that it may have missed memory shortly before *@pos, move *@pos back by
 * DLEND_NEAR, so that the walk goes that way again in steps of DLEND_STEP.
 * @begin: where the hole begins.  @floor: no page from there to *@pos was tried.
 * Return: true if *@pos has moved.
 */
static bool dlend_scan_step_back(struct dlend_scan *p, u64 begin, u64 *floor, u64 *pos)
{
	if (p->where || *pos < MIB(1) || *pos < p->near || *pos - *floor < DLEND_STEP)
		return false;
	p->near = *pos;
	*pos = max(begin, ALIGN_DOWN(*pos - min(DLEND_NEAR, *pos), DLEND_STEP));
	*floor = *pos;
	return true;
}

/*
 * *@pos may be in a hole: move *@pos to where the next memory begins, or to @limit.
 * @known: memory is known to begin at @limit.
 * Return: 0, or an error that ends the walk.
 */
static int dlend_scan_walk_hole(struct dlend_scan *p, u64 *pos, u64 limit, bool known)
{
	u64 begin = *pos, floor = *pos;	/* nothing from floor on has been tried */
	int err;

	for (;;) {
		if (*pos >= limit) {
			*pos = limit;
			if (!known || !dlend_scan_step_back(p, begin, &floor, pos))
				break;
		}
		err = dlend_scan_try_page(p, *pos, DLEND_PROT_READ);
		if (err && !dlend_scan_is_edge(err))
			return err;
		if (err) {
			floor = *pos + DLEND_GUEST_PAGE;
			*pos = dlend_scan_next_step(p, *pos);
		} else if (!dlend_scan_step_back(p, begin, &floor, pos)) {
			break;
		}
	}
	return dlend_scan_look_back(p, floor, pos);
}

/* Pin all RAM from @pos to @range_end.  Return: 0, or an error that ends the walk. */
static int dlend_scan_walk_range(struct dlend_scan *p, u64 pos, u64 range_end)
{
	bool hole = true;	/* there may be a hole at @pos: the first call finds out */
	u64 found = U64_MAX;
	int err = 0;

	while (!err && pos < range_end) {
		u64 next = U64_MAX, end = p->ops->known(p->ctx, pos, &next);
		u64 limit = min(next, range_end);

		if (p->ops->stop(p->ctx))
			return -EINTR;
		if (end > pos) {
			pos = end;
			hole = true;
		} else if (hole) {
			err = dlend_scan_walk_hole(p, &pos, limit, next < range_end);
			hole = false;
			found = pos;
			continue;
		} else {
			err = dlend_scan_walk_memory(p, &pos, limit, &hole);
			/* This was memory just now, and none of it can be pinned. */
			if (!err && hole && pos == found && ++p->flaps > DLEND_MAX_FLAPS)
				return -EINTR;
		}
		p->near = pos + DLEND_NEAR;
	}
	return err;
}

/* Find the first range that ends above @pos and in which RAM may be.  Return: is there one? */
static bool dlend_scan_next_range(struct dlend_scan *p, u64 pos, struct dlend_range *range)
{
	*range = (struct dlend_range){ 0, p->max };
	if (pos >= p->max || (p->where && !dlend_ranges_next(p->where, pos, range)))
		return false;
	range->start = max(range->start, pos);
	range->end = min(range->end, p->max);
	return range->start < range->end;
}

int dlend_scan_run(struct dlend_scan *p)
{
	struct dlend_range range = {};
	int err = 0;

	p->max = ALIGN_DOWN(p->max, DLEND_GUEST_PAGE);
	while (!err && dlend_scan_next_range(p, range.end, &range))
		err = dlend_scan_walk_range(p, range.start, range.end);
	return err == DLEND_UNPINNABLE ? -EFAULT : err;
}

/* Find the first hole from @pos on in which RAM may come.  Return: is there one? */
static bool dlend_scan_next_hole(struct dlend_scan *p, u64 pos, struct dlend_range *hole)
{
	u64 next, end;

	while (dlend_scan_next_range(p, pos, hole)) {
		end = p->ops->known(p->ctx, hole->start, &next);
		if (end <= hole->start) {
			hole->end = min(next, hole->end);
			return true;
		}
		pos = end;
	}
	return false;
}

/*
 * Try half of a look's pages in holes, from *@at on: the first page of each hole; or with @inside
 * one page at each step within the holes.  After the last hole go on with the first one.
 * Return: 1: there is memory at *@found; 0: none was found; or an error.
 */
static int dlend_scan_try_holes(struct dlend_scan *p, u64 *at, bool inside, u64 *found,
				u32 *tried)
{
	u32 most = *tried + DLEND_SCAN_LOOK_CALLS / 2;
	u64 pos = *at, first = *at;
	struct dlend_range hole;
	bool round = false;
	int err = -EINVAL;

	while (dlend_scan_is_edge(err) && *tried < most && !(round && pos >= first)) {
		if (!dlend_scan_next_hole(p, pos, &hole)) {
			if (round)
				break;
			round = true;
			pos = 0;
			continue;
		}
		*found = hole.start;
		pos = inside ? dlend_scan_next_step(p, hole.start) : hole.end;
		err = dlend_scan_try_page(p, *found, DLEND_PROT_READ);
		(*tried)++;
	}
	*at = pos;
	if (!err || err == DLEND_UNPINNABLE)
		return 1;
	return dlend_scan_is_edge(err) ? 0 : err;
}

int dlend_scan_look(struct dlend_scan *p, struct dlend_scan_turn *turn, u64 *found)
{
	turn->tried = 0;
	return dlend_scan_try_holes(p, &turn->edge, false, found, &turn->tried) ?:
	       dlend_scan_try_holes(p, &turn->inside, true, found, &turn->tried);
}
