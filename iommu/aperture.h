/* SPDX-License-Identifier: GPL-2.0 */
/* What only the link core does with an aperture. */
#ifndef DLEND_IOMMU_APERTURE_H
#define DLEND_IOMMU_APERTURE_H

#include <dlend/aperture.h>

/* Percent of an aperture that slots for peer-to-peer may take together; a module parameter. */
extern unsigned int dlend_p2p_window_percent;

/**
 * dlend_aperture_group_busy - does a driver use another device of @dma_dev's IOMMU group?
 *
 * That is what dlend_aperture_create() answers -EBUSY to, and what an admin can change. Says
 * nothing. Process context.
 */
bool dlend_aperture_group_busy(struct device *dma_dev);

/**
 * dlend_aperture_detach - the device goes away: everything unmapped, its domain given back
 *
 * The aperture stays as a set of numbers until dlend_aperture_destroy(): slots can still be
 * freed, mapping fails with -ENODEV.  Idempotent. May sleep.
 */
void dlend_aperture_detach(struct dlend_aperture *ap);

/**
 * dlend_aperture_limit - the peer reaches no more than the first @bytes
 *
 * Slots are made below that from now on; those that there are stay.  Process context.
 */
void dlend_aperture_limit(struct dlend_aperture *ap, u64 bytes);

/**
 * dlend_aperture_view - look at what is mapped, and hear when it goes
 * @ap: aperture
 * @view: (in) its ops, offset and size are set
 * @mmio: (in) true: a BAR must be there, holes in it are fine; false: RAM, all of it mapped
 * @phys: (out) physical address of the view's offset
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: 0; -ERANGE if that is not what is there, or it is not contiguous.
 */
int dlend_aperture_view(struct dlend_aperture *ap, struct dlend_view *view, bool mmio,
			phys_addr_t *phys);

/**
 * dlend_aperture_unview - no op of a view runs any more when this returns
 * @ap: aperture
 * @view: view, after dlend_aperture_view()
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_unview(struct dlend_aperture *ap, struct dlend_view *view);

/**
 * dlend_aperture_mirror - a view of everything, mapped or not, now and later
 * @view: with both ops; its map() has been called for all that there is when this returns
 *
 * Ends with dlend_aperture_unmirror(). Process context.
 * Return: 0; -ERANGE outside the aperture; or the error of map(), and nothing is left of it.
 */
int dlend_aperture_mirror(struct dlend_aperture *ap, struct dlend_view *view, u64 offset, u64 size);

/**
 * dlend_aperture_unmirror - its unmap() was called for everything, and no op runs any more
 *
 * In shares, so that whoever takes memory away meanwhile does not wait long; each is unmapped
 * before the view stops to hear of it. Process context.
 */
void dlend_aperture_unmirror(struct dlend_aperture *ap, struct dlend_view *view);

#endif
