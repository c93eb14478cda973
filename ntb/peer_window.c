// SPDX-License-Identifier: GPL-2.0
/*
 * How this node reaches its peer's aperture, and what users open there.
 *
 * Through an NTB window nobody has to be told when the peer unmaps something: the peer's IOMMU
 * stands between.  On the loop no IOMMU stands between.  So each window has a view of its range
 * (iommu/maps.h), and the aperture tells the view.
 *
 * Knows no messages, and of sessions only whether one is up.
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <dlend/compat.h>
#include <iommu/aperture.h>
#include "link.h"

/*
 * struct dlend_peer_window_ops - the two ways
 * @map_ctrl: set link->peer_ctrl and the window's base and size
 * @unmap_ctrl: undo it
 * @open: dlend_window_open(), the range is checked
 * @close: undo it
 * @map: dlend_window_map()
 * @unmap: undo it
 * @dma: dlend_link_dma_map(), the range is checked: fill in where @r->offset leads
 */
struct dlend_peer_window_ops {
	int (*map_ctrl)(struct dlend_link *link);
	void (*unmap_ctrl)(struct dlend_link *link);
	int (*open)(struct dlend_link *link, struct dlend_window *w, u64 offset, bool bar);
	void (*close)(struct dlend_window *w);
	void __iomem *(*map)(struct dlend_window *w);
	void (*unmap)(void __iomem *mem);
	void (*dma)(struct dlend_link *link, struct dlend_dma_range *r);
};

/* Through an NTB window */

/* Map only the control area: a mapping of the whole window would fix the BARs' memory type, too. */
static int dlend_window_ntb_map_ctrl(struct dlend_link *link)
{
	struct dlend_peer_window *pw = &link->window;
	int err = link->ops->window(link->hw, &pw->base, &pw->size);

	if (err)
		return err;
	if (pw->size < SZ_1M)
		return -ENOSPC;
	link->peer_ctrl = ioremap(pw->base, DLEND_CTRL_BYTES);
	return link->peer_ctrl ? 0 : -ENOMEM;
}

static void dlend_window_ntb_unmap_ctrl(struct dlend_link *link)
{
	iounmap(link->peer_ctrl);
}

static int dlend_window_ntb_open(struct dlend_link *link, struct dlend_window *w, u64 offset,
				 bool bar)
{
	w->phys = link->window.base + offset;
	return 0;
}

static void dlend_window_ntb_close(struct dlend_window *w)
{
}

static void __iomem *dlend_window_ntb_map(struct dlend_window *w)
{
	return ioremap(w->phys, w->size);
}

static void dlend_window_ntb_unmap(void __iomem *mem)
{
	iounmap(mem);
}

static void dlend_window_ntb_dma(struct dlend_link *link, struct dlend_dma_range *r)
{
	r->mmio = true;
	r->phys = link->window.base + r->offset;
	r->offset = 0;
}

static const struct dlend_peer_window_ops dlend_window_ntb_ops = {
	.map_ctrl = dlend_window_ntb_map_ctrl,
	.unmap_ctrl = dlend_window_ntb_unmap_ctrl,
	.open = dlend_window_ntb_open,
	.close = dlend_window_ntb_close,
	.map = dlend_window_ntb_map,
	.unmap = dlend_window_ntb_unmap,
	.dma = dlend_window_ntb_dma,
};

/* On the loop */

/* This node's control area is the peer's, too: what is written into it arrives here. */
static int dlend_window_loop_map_ctrl(struct dlend_link *link)
{
	link->peer_ctrl = (void __iomem __force *)link->ctrl;
	link->window.size = dlend_aperture_size(link->aperture);
	return 0;
}

static void dlend_window_loop_unmap_ctrl(struct dlend_link *link)
{
}

static void dlend_window_loop_revoke(struct dlend_view *view, u64 at, u64 size)
{
	struct dlend_window *w = container_of(view, struct dlend_window, view);

	/* One hole ends the whole window: who wants the rest opens a window anew. */
	w->phys = 0;
	if (w->revoked)
		w->revoked(w);
}

static const struct dlend_view_ops dlend_window_loop_view_ops = {
	.unmap = dlend_window_loop_revoke,
};

static int dlend_window_loop_open(struct dlend_link *link, struct dlend_window *w, u64 offset,
				  bool bar)
{
	w->view.ops = &dlend_window_loop_view_ops;
	w->view.offset = offset;
	w->view.size = w->size;
	return dlend_aperture_view(link->aperture, &w->view, bar, &w->phys);
}

static void dlend_window_loop_close(struct dlend_window *w)
{
	dlend_aperture_unview(w->link->aperture, &w->view);
}

/* RAM of this kernel, which is mapped all the time. */
static void __iomem *dlend_window_loop_map(struct dlend_window *w)
{
	phys_addr_t phys = READ_ONCE(w->phys);

	return phys ? (void __iomem __force *)phys_to_virt(phys) : NULL;
}

static void dlend_window_loop_unmap(void __iomem *mem)
{
}

static void dlend_window_loop_dma(struct dlend_link *link, struct dlend_dma_range *r)
{
	r->ap = link->aperture;
}

static const struct dlend_peer_window_ops dlend_window_loop_ops = {
	.map_ctrl = dlend_window_loop_map_ctrl,
	.unmap_ctrl = dlend_window_loop_unmap_ctrl,
	.open = dlend_window_loop_open,
	.close = dlend_window_loop_close,
	.map = dlend_window_loop_map,
	.unmap = dlend_window_loop_unmap,
	.dma = dlend_window_loop_dma,
};

/* For both */

void dlend_peer_window_init(struct dlend_link *link)
{
	link->window.ops = dlend_link_is_loop(link) ? &dlend_window_loop_ops :
						      &dlend_window_ntb_ops;
}

int dlend_peer_window_map(struct dlend_link *link)
{
	return link->peer_ctrl ? 0 : link->window.ops->map_ctrl(link);
}

void dlend_peer_window_unmap(struct dlend_link *link)
{
	if (link->peer_ctrl)
		link->window.ops->unmap_ctrl(link);
	link->peer_ctrl = NULL;
}

u64 dlend_link_window_bytes(const struct dlend_link *link)
{
	return min(READ_ONCE(link->window.size), READ_ONCE(link->window.aperture));
}
DLEND_EXPORT(dlend_link_window_bytes);

/* Is @offset, which a peer has sent, in the part of its aperture that users may reach? */
static int dlend_peer_window_check(struct dlend_link *link, u64 offset, u64 size)
{
	if (!dlend_link_is_up(link))
		return -ENOTCONN;
	return dlend_offset_check(offset, size, dlend_link_window_bytes(link));
}

int dlend_window_open(struct dlend_link *link, struct dlend_window *w, u64 offset, u64 size,
		      bool bar)
{
	int err = dlend_peer_window_check(link, offset, size);

	if (err)
		return err;
	w->size = size;
	w->link = link;
	err = link->window.ops->open(link, w, offset, bar);
	if (err) {
		w->link = NULL;
		return err;
	}
	dlend_link_get(link);
	return 0;
}
DLEND_EXPORT(dlend_window_open);

void dlend_window_close(struct dlend_window *w)
{
	struct dlend_link *link = w->link;

	if (!link)
		return;
	link->window.ops->close(w);
	w->link = NULL;
	dlend_link_put(link);
}
DLEND_EXPORT(dlend_window_close);

void __iomem *dlend_window_map(struct dlend_window *w)
{
	return w->link->window.ops->map(w);
}

void dlend_window_unmap(struct dlend_link *link, void __iomem *mem)
{
	link->window.ops->unmap(mem);
}

int dlend_link_dma_map(struct dlend_link *link, struct dlend_domain *dom,
		       struct dlend_owner *owner, const struct dlend_dma_range *r)
{
	struct dlend_dma_range there = *r;
	int err = dlend_peer_window_check(link, r->offset, r->size);

	if (err)
		return err;
	link->window.ops->dma(link, &there);
	return dlend_domain_map(dom, owner, &there);
}
DLEND_EXPORT(dlend_link_dma_map);
