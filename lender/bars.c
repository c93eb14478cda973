// SPDX-License-Identifier: GPL-2.0
/*
 * BARs of a lent function in this node's aperture, for the time of a lease.
 *
 * When a lease ends, the offsets are unmapped at once but are not used again before two things
 * have happened: the device was reset, and the borrower said that it has forgotten them (RETURN)
 * or came back with a new session.  The record of such offsets outlives lease and function.
 * Knows nothing of interrupts, DMA or the state of a lease.
 */
#include <linux/slab.h>

#include "lender/lender.h"
#include "lender/trace.h"

/* Offsets of one lease of one function: slots while mapped, then cookies of the quarantine. */
struct lend_windows {
	struct list_head node;
	struct dlend_link *link;
	struct dlend_aperture *ap;	/* there until link_down() returns, and so is the record */
	struct dlend_addr addr;
	u32 epoch;
	bool acked, reset;
	struct dlend_slot *slot[DLEND_NUM_REGIONS];
	u64 cookie[DLEND_NUM_REGIONS];
};

/*
 * Records in quarantine.  An aperture is not destroyed while its link's records are here: the
 * link's link_down() takes them out under this lock.
 */
static DEFINE_MUTEX(lend_bars_closed_lock);
static LIST_HEAD(lend_bars_closed);

static void lend_windows_free(struct lend_windows *win)
{
	dlend_link_put(win->link);
	kfree(win);
}

/*
 * A slot for a BAR. Natural alignment makes huge PFN maps work on the other side; 1 GiB is the
 * largest of those.
 */
struct dlend_slot *lend_bar_slot(struct dlend_aperture *ap, u64 span, enum dlend_slot_kind kind)
{
	u64 align = min_t(u64, span, SZ_1G);
	struct dlend_slot *slot;

	slot = dlend_slot_alloc(ap, span, align, 0, kind);
	if (IS_ERR(slot) && PTR_ERR(slot) == -ENOSPC && align > SZ_2M)
		slot = dlend_slot_alloc(ap, span, SZ_2M, 0, kind);
	return slot;
}

static void lend_bar_no_space(struct lend_fn *fn, unsigned int i, struct dlend_link *link,
			      struct dlend_aperture *ap)
{
	struct dlend_aperture_stat st;

	dlend_aperture_stat(ap, &st);
	dev_err_ratelimited(&fn->pdev->dev,
			    "BAR %u (%llu KiB) does not fit into the window to node %u: %llu KiB in all, %llu KiB free, largest piece %llu KiB; return other devices, or make the window larger in the NTB's set-up\n",
			    i, fn->bar[i].span >> 10, dlend_link_peer(link), st.size >> 10,
			    st.free >> 10, st.largest_free >> 10);
}

static int lend_bar_part(struct dlend_aperture *ap, struct dlend_slot *slot,
			 const struct lend_bar *bar, u64 from, u64 to)
{
	if (from >= to)
		return 0;
	return dlend_slot_map_phys(ap, slot, from, bar->phys + from, to - from,
				   DLEND_PROT_READ | DLEND_PROT_WRITE, true);
}

/** lend_bar_fill - map a BAR in a slot from lend_bar_slot(), but for its hole. Return: 0 or -errno */
int lend_bar_fill(struct dlend_aperture *ap, struct dlend_slot *slot, const struct lend_bar *bar)
{
	int ret;

	if (bar->hole_end <= bar->hole)
		return lend_bar_part(ap, slot, bar, 0, bar->span);
	ret = lend_bar_part(ap, slot, bar, 0, bar->hole);
	return ret ?: lend_bar_part(ap, slot, bar, bar->hole_end, bar->span);
}

static int lend_bar_map(struct lend_fn *fn, unsigned int i, struct dlend_aperture *ap)
{
	const struct lend_bar *bar = &fn->bar[i];
	struct dlend_slot *slot;
	int ret;

	slot = lend_bar_slot(ap, bar->span, DLEND_SLOT_BAR);
	if (IS_ERR(slot)) {
		if (PTR_ERR(slot) == -ENOSPC)
			lend_bar_no_space(fn, i, fn->win->link, ap);
		return PTR_ERR(slot);
	}
	fn->win->slot[i] = slot;
	ret = lend_bar_fill(ap, slot, bar);
	trace_dlend_lend_window(&fn->addr, "bar", true, i, slot->offset, bar->span, ret);
	if (ret)
		dev_err_ratelimited(&fn->pdev->dev,
				    "BAR %u cannot be mapped for node %u (%d): there is no memory for it, or the IOMMU of the NTB refuses it\n",
				    i, dlend_link_peer(fn->win->link), ret);
	return ret;
}

/* Nobody was told these offsets: they can be used again at once. */
static void lend_bars_undo(struct lend_fn *fn, struct dlend_aperture *ap)
{
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		if (fn->win->slot[i])
			dlend_slot_free(ap, fn->win->slot[i]);
	lend_windows_free(fn->win);
	fn->win = NULL;
}

/**
 * lend_bars_map - give the peer of @link a view of the function's BARs
 * @fn: function
 * @link: link to the borrower
 * @epoch: lease that the borrower names
 * @offset: receives offsets in the aperture, ~0 for what is not mapped
 *
 * Context: group lock. Return: 0, -ENOSPC (a message names the sizes), -ENOTCONN, -ENOMEM; then
 * nothing is mapped.
 */
int lend_bars_map(struct lend_fn *fn, struct dlend_link *link, u32 epoch, __le64 *offset)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	int ret = 0;

	if (!ap)
		return -ENOTCONN;
	fn->win = kzalloc_obj(*fn->win);
	if (!fn->win)
		return -ENOMEM;
	fn->win->link = dlend_link_get(link);
	fn->win->ap = ap;
	fn->win->addr = fn->addr;
	fn->win->epoch = epoch;

	for (unsigned int i = 0; i < DLEND_NUM_REGIONS && !ret; i++) {
		offset[i] = cpu_to_le64(U64_MAX);
		if (!fn->bar[i].span)
			continue;
		ret = lend_bar_map(fn, i, ap);
		if (!ret)
			offset[i] = cpu_to_le64(fn->win->slot[i]->offset);
	}
	if (ret)
		lend_bars_undo(fn, ap);
	return ret;
}

/*
 * Both halves of a guest on this host are this kernel's, and the borrower's has shut its gate and
 * unmapped the BARs before it asks.  There, what is taken out of an aperture is out of the guest's
 * reach until the next lease (struct dlend_window), so that the slots stay.
 */
static bool lend_bars_guarded(const struct lend_windows *win)
{
	return dlend_link_peer(win->link) == dlend_node_id();
}

/**
 * lend_bars_hide - the peer does not reach the BARs until lend_bars_show(), at the same offsets
 * @fn: function
 *
 * For what turns memory decoding off: an access would meet nobody, or whoever is there then.
 * Context: group lock, lent; waits for no peer.
 */
void lend_bars_hide(struct lend_fn *fn)
{
	struct lend_windows *win = fn->win;
	struct dlend_slot *slot;

	for (unsigned int i = 0; win && !lend_bars_guarded(win) && i < DLEND_NUM_REGIONS; i++) {
		slot = win->slot[i];
		if (!slot)
			continue;
		dlend_slot_unmap(win->ap, slot, 0, slot->size);
		trace_dlend_lend_window(&fn->addr, "bar", false, i, slot->offset, slot->size, 0);
	}
}

/**
 * lend_bars_show - the end of lend_bars_hide()
 * @fn: function, which decodes memory again
 *
 * Context: group lock, lent. Return: 0, or -errno: some stay out of reach, after a message.
 */
int lend_bars_show(struct lend_fn *fn)
{
	struct lend_windows *win = fn->win;
	struct dlend_slot *slot;
	int ret = 0;

	for (unsigned int i = 0;
	     win && !lend_bars_guarded(win) && i < DLEND_NUM_REGIONS && !ret; i++) {
		slot = win->slot[i];
		if (!slot)
			continue;
		ret = lend_bar_fill(win->ap, slot, &fn->bar[i]);
		trace_dlend_lend_window(&fn->addr, "bar", true, i, slot->offset, slot->size, ret);
		if (ret)
			dev_err_ratelimited(&fn->pdev->dev,
					    "BAR %u, and those after it, cannot be mapped for node %u again (%d): there is no memory for it, or the IOMMU of the NTB refuses it; they stay out of reach until the next reset, or lease\n",
					    i, dlend_link_peer(win->link), ret);
	}
	return ret;
}

/**
 * lend_bars_close - the peer does not reach the BARs any more when this returns
 * @fn: function
 *
 * Context: group lock; waits for no peer.
 */
void lend_bars_close(struct lend_fn *fn)
{
	struct lend_windows *win = fn->win;

	if (!win)
		return;
	fn->win = NULL;
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		if (!win->slot[i])
			continue;
		trace_dlend_lend_window(&fn->addr, "bar", false, i, win->slot[i]->offset,
					win->slot[i]->size, 0);
		win->cookie[i] = dlend_slot_quarantine(win->ap, win->slot[i]);
		win->slot[i] = NULL;
	}
	mutex_lock(&lend_bars_closed_lock);
	list_add_tail(&win->node, &lend_bars_closed);
	mutex_unlock(&lend_bars_closed_lock);
}

/* Both conditions hold: the offsets can be used again.  Closed lock. */
static void lend_windows_release(struct lend_windows *win)
{
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		if (win->cookie[i])
			dlend_slot_release(win->ap, win->cookie[i]);
	trace_dlend_fence(&win->addr, "slots_free", win->epoch);
	list_del(&win->node);
	lend_windows_free(win);
}

/** lend_bars_acked - the borrower has forgotten the offsets of @epoch (and of older leases) */
void lend_bars_acked(struct dlend_link *link, const struct dlend_addr *addr, u32 epoch)
{
	struct lend_windows *win, *next;

	mutex_lock(&lend_bars_closed_lock);
	list_for_each_entry_safe(win, next, &lend_bars_closed, node) {
		if (win->link != link || win->addr.bdf != addr->bdf ||
		    dlend_epoch_after(win->epoch, epoch))
			continue;
		win->acked = true;
		if (win->reset)
			lend_windows_release(win);
	}
	mutex_unlock(&lend_bars_closed_lock);
}

/** lend_bars_reset_done - the function was reset: nothing old comes out of it any more */
void lend_bars_reset_done(const struct lend_fn *fn)
{
	struct lend_windows *win, *next;

	mutex_lock(&lend_bars_closed_lock);
	list_for_each_entry_safe(win, next, &lend_bars_closed, node) {
		if (win->addr.bdf != fn->addr.bdf)
			continue;
		win->reset = true;
		if (win->acked)
			lend_windows_release(win);
	}
	mutex_unlock(&lend_bars_closed_lock);
}

/** lend_bars_link_lost - the aperture releases its quarantine itself with the next session */
void lend_bars_link_lost(struct dlend_link *link)
{
	struct lend_windows *win, *next;

	mutex_lock(&lend_bars_closed_lock);
	list_for_each_entry_safe(win, next, &lend_bars_closed, node) {
		if (win->link != link)
			continue;
		list_del(&win->node);
		lend_windows_free(win);
	}
	mutex_unlock(&lend_bars_closed_lock);
}
