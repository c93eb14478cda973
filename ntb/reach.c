// SPDX-License-Identifier: GPL-2.0
/*
 * How this node gets at what is in its peer's aperture: over an NTB window, or, where the peer is
 * this node itself, by looking it up in the one aperture that there is.
 *
 * Over a window nothing has to be told when the peer unmaps something: its IOMMU stands between.
 * On the loop nothing does, so everybody who reaches something has a view of it (iommu/view.h).
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <dlend/compat.h>
#include "core.h"

#define CTRL_BYTES	PAGE_ALIGN(sizeof(struct dlend_ctrl))

/* Over a window */

/* Only the control area is mapped: a mapping of all would dictate the BARs' memory type. */
static int window_ctrl(struct dlend_link *link)
{
	int err = link->ops->window(link->hw, &link->window, &link->window_size);

	if (err)
		return err;
	if (link->window_size < SZ_1M)
		return -ENOSPC;
	link->peer_ctrl = ioremap(link->window, CTRL_BYTES);
	return link->peer_ctrl ? 0 : -ENOMEM;
}

static void window_no_ctrl(struct dlend_link *link)
{
	iounmap(link->peer_ctrl);
}

static int window_open(struct dlend_link *link, struct dlend_window *w, u64 offset, bool bar)
{
	w->phys = link->window + offset;
	return 0;
}

static void window_close(struct dlend_window *w)
{
}

static void __iomem *window_map(struct dlend_window *w)
{
	return ioremap(w->phys, w->size);
}

static void window_unmap(void __iomem *mem)
{
	iounmap(mem);
}

static void window_dma(struct dlend_link *link, struct dlend_dma_range *r)
{
	r->mmio = true;
	r->phys = link->window + r->offset;
	r->offset = 0;
}

const struct dlend_reach_ops dlend_reach_window = {
	.ctrl = window_ctrl,
	.no_ctrl = window_no_ctrl,
	.open = window_open,
	.close = window_close,
	.map = window_map,
	.unmap = window_unmap,
	.dma = window_dma,
};

/* As one's own */

/* One control area is both ours and the peer's: what is written into it arrives here. */
static int self_ctrl(struct dlend_link *link)
{
	link->peer_ctrl = (void __iomem __force *)link->ctrl;
	link->window_size = dlend_aperture_size(link->aperture);
	return 0;
}

static void self_no_ctrl(struct dlend_link *link)
{
}

static void self_revoked(struct dlend_view *view, u64 at, u64 size)
{
	struct dlend_window *w = container_of(view, struct dlend_window, view);

	/* One hole is enough: who looks at it next asks anew. */
	w->phys = 0;
	if (w->revoked)
		w->revoked(w);
}

static const struct dlend_view_ops self_view_ops = {
	.unmap = self_revoked,
};

static int self_open(struct dlend_link *link, struct dlend_window *w, u64 offset, bool bar)
{
	w->view.ops = &self_view_ops;
	return dlend_aperture_view(link->aperture, &w->view, offset, w->size, bar, &w->phys);
}

static void self_close(struct dlend_window *w)
{
	dlend_aperture_unview(w->link->aperture, &w->view);
}

/* RAM of this kernel, which is mapped all the time. */
static void __iomem *self_map(struct dlend_window *w)
{
	phys_addr_t phys = READ_ONCE(w->phys);

	return phys ? (void __iomem __force *)phys_to_virt(phys) : NULL;
}

static void self_unmap(void __iomem *mem)
{
}

static void self_dma(struct dlend_link *link, struct dlend_dma_range *r)
{
	r->ap = link->aperture;
}

const struct dlend_reach_ops dlend_reach_self = {
	.ctrl = self_ctrl,
	.no_ctrl = self_no_ctrl,
	.open = self_open,
	.close = self_close,
	.map = self_map,
	.unmap = self_unmap,
	.dma = self_dma,
};

/* For both */

u64 dlend_link_window_bytes(const struct dlend_link *link)
{
	return min(READ_ONCE(link->window_size), READ_ONCE(link->peer_aperture));
}
DLEND_EXPORT(dlend_link_window_bytes);

/* Is @offset, which a peer has sent, in the part of its aperture that is for this? */
static int check_range(struct dlend_link *link, u64 offset, u64 size)
{
	if (!dlend_link_is_up(link))
		return -ENOTCONN;
	return dlend_offset_check(offset, size, dlend_link_window_bytes(link));
}

int dlend_window_open(struct dlend_link *link, struct dlend_window *w, u64 offset, u64 size,
		      bool bar)
{
	int err = check_range(link, offset, size);

	if (err)
		return err;
	w->size = size;
	w->link = link;
	err = link->reach->open(link, w, offset, bar);
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
	link->reach->close(w);
	w->link = NULL;
	dlend_link_put(link);
}
DLEND_EXPORT(dlend_window_close);

int dlend_link_dma_map(struct dlend_link *link, struct dlend_domain *dom,
		       struct dlend_owner *owner, const struct dlend_dma_range *r)
{
	struct dlend_dma_range there = *r;
	int err = check_range(link, r->offset, r->size);

	if (err)
		return err;
	link->reach->dma(link, &there);
	return dlend_domain_map(dom, owner, &there);
}
DLEND_EXPORT(dlend_link_dma_map);
