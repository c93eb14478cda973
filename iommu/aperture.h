/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of an aperture that only the link core calls. */
#ifndef DLEND_IOMMU_APERTURE_H
#define DLEND_IOMMU_APERTURE_H

#include <dlend/aperture.h>

struct dlend_paging;
struct seq_file;

/*
 * Locks of iommu/, outermost first:
 *
 *   dlend_domain.lock		domain.c, mutex: claims and mirrors of a lent group's domain
 *   dlend_aperture.lock	aperture.c, mutex: slots, mappings and notifiers.  Taken under a
 *				domain's lock when a mirror begins or ends
 *   locks of notifiers		taken by their ops, under the aperture's lock: the lock of interrupt
 *				sources (ntb/irq_source.c), and the lock behind which a guest's BARs
 *				are unmapped (dlend_window.revoked())
 */

/**
 * dlend_aperture_create - make an empty aperture
 * @dma_dev: device whose accesses arrive (the NTB's function); NULL: this node itself is the peer,
 *	no device's accesses arrive, and mapped memory is reached by notifiers only
 * @size: (in) bytes wanted, as the NTB window has; page multiple
 * @align: (in) alignment of the base that the window needs, bytes; power of two or 0
 * @shared: (in) the device's driver does DMA of its own
 *
 * The device's group gets a domain of its own; or, if @shared, the aperture lies in the driver's,
 * and a peer that makes the hardware's window lead elsewhere reaches the driver's memory. IO
 * addresses are clear of reserved regions and of the host bridge's windows (docs/architecture.md).
 * Context: process, may sleep.
 * Return: aperture, or ERR_PTR; the log says what to do: -ENODEV no IOMMU translates; -EBUSY a
 * driver uses another device of the group, or has the group; -EPERM interrupt remapping is off, and
 * that is not allowed; -ENOSPC no free addresses; -EADDRINUSE the driver that shares its domain has
 * memory there; -ENOMEM; -EINVAL @size or @align; or the IOMMU's error.
 */
struct dlend_aperture *dlend_aperture_create(struct device *dma_dev, u64 size, u64 align,
					     bool shared);

/**
 * dlend_aperture_destroy - unmap everything, detach, free
 * @ap: aperture; no slot is in use, and there are no notifiers
 *
 * Context: process, may sleep.
 */
void dlend_aperture_destroy(struct dlend_aperture *ap);

/** dlend_aperture_base - IO address of offset 0, for ntb_mw_set_trans(). Context: any. */
dma_addr_t dlend_aperture_base(const struct dlend_aperture *ap);

/** dlend_aperture_size - bytes of an aperture. Context: any. */
u64 dlend_aperture_size(const struct dlend_aperture *ap);

/**
 * dlend_aperture_release_all - end all quarantines: a new session begins
 * @ap: aperture; the peer has forgotten all offsets of earlier sessions
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_release_all(struct dlend_aperture *ap);

/** dlend_aperture_show - counters, for debugfs. Context: process; takes the aperture's lock. */
void dlend_aperture_show(struct dlend_aperture *ap, struct seq_file *m);

/**
 * dlend_aperture_hindered - is there an obstacle that an admin can remove while the host runs?
 * @dma_dev: device that is to have an aperture
 *
 * If so, dlend_aperture_create() fails with -EBUSY (a driver uses another device of the group) or
 * with -EPERM (interrupts are not remapped, and that is not allowed). Logs nothing.
 * Context: process, may sleep.
 */
bool dlend_aperture_hindered(struct device *dma_dev);

/**
 * dlend_aperture_detach - the device goes away: unmap everything, give its domain back
 * @ap: aperture; a second call does nothing
 *
 * The aperture stays, without mappings, until dlend_aperture_destroy(): slots can still be freed,
 * and mapping fails with -ENODEV. Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_detach(struct dlend_aperture *ap);

/**
 * dlend_aperture_limit - the peer reaches only the first part of an aperture
 * @ap: aperture
 * @bytes: (in) size of that part: slots are allocated only there from now on; existing ones stay
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_limit(struct dlend_aperture *ap, u64 bytes);

/**
 * dlend_notifier_register - find the memory behind a range, and be told when it is unmapped
 * @ap: aperture
 * @notifier: (in) its ops, offset and size are set
 * @mmio: (in) true: a BAR must be there, holes in it are fine; false: RAM, all of it mapped
 * @phys: (out) physical address of the notifier's offset; NULL: whatever is there
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: 0; -ERANGE if something else or nothing is there, or it is not contiguous, or the range
 * is outside the aperture; -ENODEV the aperture is detached.
 */
int dlend_notifier_register(struct dlend_aperture *ap, struct dlend_notifier *notifier, bool mmio,
			    phys_addr_t *phys);

/**
 * dlend_notifier_unregister - no op of a notifier runs any more when this returns
 * @ap: aperture
 * @notifier: notifier, after dlend_notifier_register()
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_notifier_unregister(struct dlend_aperture *ap, struct dlend_notifier *notifier);

/**
 * dlend_aperture_mirror - a notifier of everything in a range, mapped or not, now and later
 * @ap: aperture
 * @notifier: (in, out) with both ops; map() has been called for all that there is when this returns
 * @offset: (in) in the aperture, page aligned
 * @size: (in) bytes, page multiple
 *
 * dlend_aperture_unmirror() ends it.
 * Context: process, may sleep; takes the aperture's lock.
 * Return: 0; -ERANGE outside the aperture; or the error of map(), and nothing is left of it.
 */
int dlend_aperture_mirror(struct dlend_aperture *ap, struct dlend_notifier *notifier, u64 offset,
			  u64 size);

/**
 * dlend_aperture_unmirror - end a mirror: its unmap() was called for everything when this returns
 * @ap: aperture
 * @notifier: mirror; none of its ops runs any more
 *
 * It ends piece by piece, so that a thread that unmaps memory does not wait long for the lock.
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_unmirror(struct dlend_aperture *ap, struct dlend_notifier *notifier);

/**
 * dlend_aperture_paging - keep the domain that an aperture is in
 * @ap: aperture
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: domain, for dlend_paging_put(); ERR_PTR: -EOPNOTSUPP there is no IOMMU (this node is its
 * own peer); -ENODEV it is detached.
 */
struct dlend_paging *dlend_aperture_paging(struct dlend_aperture *ap);

#endif
