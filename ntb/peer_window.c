// SPDX-License-Identifier: GPL-2.0
/*
 * How this node reaches its peer's aperture, and windows that users open there.
 *
 * The NTB's memory window leads through the peer's IOMMU, which blocks accesses to what the peer
 * has unmapped.  On the loop there is no IOMMU in between.  So there each struct dlend_window has a
 * notifier of its range (iommu/maps.h), through which the aperture calls revoked() of its user.
 *
 * This file knows no messages, and of sessions only whether there is one.
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <dlend/compat.h>
#include <iommu/aperture.h>
#include "link.h"

u64 dlend_link_window_bytes(const struct dlend_link *link)
{
	return min(READ_ONCE(link->window.size), READ_ONCE(link->window.aperture));
}
DLEND_EXPORT(dlend_link_window_bytes);

/* Is @offset, which a peer has sent, inside of this node's window, and behind the control area? */
static int dlend_peer_window_check(struct dlend_link *link, u64 offset, u64 size)
{
	if (!dlend_link_is_up(link))
		return -ENOTCONN;
	return dlend_offset_check(offset, size, dlend_link_window_bytes(link));
}

static void dlend_window_revoke(struct dlend_notifier *notifier, u64 at, u64 size)
{
	struct dlend_window *w = container_of(notifier, struct dlend_window, notifier);

	/* If a part is unmapped, all of @w ends: a user of the rest opens a new window. */
	w->phys = 0;
	if (w->revoked)
		w->revoked(w);
}

static const struct dlend_notifier_ops dlend_window_notifier_ops = {
	.unmap = dlend_window_revoke,
};

int dlend_window_open(struct dlend_link *link, struct dlend_window *w, u64 offset, u64 size,
		      bool bar)
{
	int err = dlend_peer_window_check(link, offset, size);

	if (err)
		return err;
	w->link = link;
	w->notifier.ops = &dlend_window_notifier_ops;
	w->notifier.offset = offset;
	w->notifier.size = size;
	if (link->loop)
		err = dlend_notifier_register(link->aperture, &w->notifier, bar, &w->phys);
	else
		w->phys = link->window.base + offset;
	if (err)
		w->link = NULL;
	else
		dlend_link_get(link);
	return err;
}
DLEND_EXPORT(dlend_window_open);

void dlend_window_close(struct dlend_window *w)
{
	struct dlend_link *link = w->link;

	if (!link)
		return;
	if (link->loop)
		dlend_notifier_unregister(link->aperture, &w->notifier);
	w->link = NULL;
	dlend_link_put(link);
}
DLEND_EXPORT(dlend_window_close);

void __iomem *dlend_window_map(struct dlend_window *w)
{
	phys_addr_t phys = READ_ONCE(w->phys);

	if (!w->link->loop)
		return ioremap(phys, w->notifier.size);
	/* On the loop: RAM of this host, in the kernel's linear map. */
	return phys ? (void __iomem __force *)phys_to_virt(phys) : NULL;
}

void dlend_window_unmap(struct dlend_link *link, void __iomem *mem)
{
	if (mem && !link->loop)
		iounmap(mem);
}

int dlend_link_dma_map(struct dlend_link *link, struct dlend_domain *dom,
		       struct dlend_owner *owner, const struct dlend_dma_range *r)
{
	struct dlend_dma_range there = *r;
	int err = dlend_peer_window_check(link, r->offset, r->size);

	if (err)
		return err;
	if (link->loop) {
		there.ap = link->aperture;
	} else {
		there.mmio = true;
		there.phys = link->window.base + r->offset;
		there.offset = 0;
	}
	return dlend_domain_map(dom, owner, &there);
}
DLEND_EXPORT(dlend_link_dma_map);
