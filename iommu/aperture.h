/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of an aperture that only ntb/ and iommu/ call. */
#ifndef DLEND_IOMMU_APERTURE_H
#define DLEND_IOMMU_APERTURE_H

#include <dlend/aperture.h>

struct dlend_paging;
struct seq_file;

/*
 * Locks of iommu/, outermost first:
 *
 *   dlend_domain.lock		domain.c, mutex: range claims and mirrors of a lent group's domain
 *   dlend_aperture.lock	aperture.c, mutex: slots, mappings and notifiers.  Taken under a
 *				domain's lock when a mirror begins or ends
 *   locks of notifiers		taken by their ops, under the aperture's lock: sources.lock of
 *				ntb/irq_source.c, and the lock under which a guest's BARs are
 *				unmapped (dlend_window.revoked() of mdev/: bar_lock)
 *   dlend_raw_slot.clearing	raw_slot.c, spinlock, interrupts off: a slot is being cut
 */

/**
 * dlend_aperture_create - make an empty aperture
 * @dma_dev: device whose IOMMU domain translates the peer's accesses (the NTB's function); NULL:
 *	the peer is this node itself: there is no domain, mappings are only recorded, and notifiers
 *	are called for them
 * @size: (in) bytes, as the NTB's window has; page multiple
 * @align: (in) alignment of the base IOVA that the window needs, bytes; power of two or 0
 * @shared: (in) the device's driver does DMA of its own
 *
 * The device's group gets an IOMMU domain of its own. If @shared, the aperture is made in the
 * domain of the driver's DMA API, and a peer that sets the hardware's translation to other IOVAs
 * reaches the driver's memory. The aperture's IOVAs are clear of reserved regions and of the host
 * bridge's windows (docs/architecture.md).
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
 * @ap: aperture. The caller guarantees that no slot is in use, and that there are no notifiers
 *
 * Context: process, may sleep.
 */
void dlend_aperture_destroy(struct dlend_aperture *ap);

/** dlend_aperture_base - IOVA of offset 0, for ntb_mw_set_trans(). Context: any. */
dma_addr_t dlend_aperture_base(const struct dlend_aperture *ap);

/** dlend_aperture_size - bytes of an aperture. Context: any. */
u64 dlend_aperture_size(const struct dlend_aperture *ap);

/**
 * dlend_aperture_release_all - end all quarantines, because a new session begins
 * @ap: aperture. The caller guarantees that the peer has forgotten all offsets of earlier sessions
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
 * Logs nothing.
 * Context: process, may sleep.
 * Return: true: dlend_aperture_create() would fail with -EBUSY (a driver uses another device of the
 * group) or with -EPERM (interrupts are not remapped, and that is not allowed).
 */
bool dlend_aperture_hindered(struct device *dma_dev);

/**
 * dlend_aperture_detach - unmap everything and detach the domain, because the device goes away
 * @ap: aperture; a second call does nothing
 *
 * The aperture stays, without mappings, until dlend_aperture_destroy(): slots can still be freed,
 * and mapping fails with -ENODEV. Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_detach(struct dlend_aperture *ap);

/**
 * dlend_aperture_limit - allocate slots only in the first part of an aperture from now on
 * @ap: aperture
 * @bytes: (in) size of that part, which the peer's window reaches; existing slots stay
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_limit(struct dlend_aperture *ap, u64 bytes);

/**
 * dlend_notifier_register - find what a part of an aperture is mapped to, and get unmap() for it
 * @ap: aperture
 * @notifier: (in) the caller has set ops (unmap() only), offset and size; stays until
 *	dlend_notifier_unregister()
 * @mmio: (in) true: a BAR must be mapped there, and may have holes; false: RAM must be mapped
 *	there, all of it. Only with @phys
 * @phys: (out) physical address that the notifier's offset is mapped to. NULL: it is not looked at
 *	what is mapped there, if anything
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: 0; -ERANGE something else is mapped there, or nothing, or it is not contiguous, or the
 * part is outside the aperture; -ENODEV the aperture is detached. On an error nothing is
 * registered.
 */
int dlend_notifier_register(struct dlend_aperture *ap, struct dlend_notifier *notifier, bool mmio,
			    phys_addr_t *phys);

/**
 * dlend_notifier_unregister - undo dlend_notifier_register(); no op runs any more when this returns
 * @ap: aperture
 * @notifier: notifier, after dlend_notifier_register()
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_notifier_unregister(struct dlend_aperture *ap, struct dlend_notifier *notifier);

/**
 * dlend_aperture_mirror - register a notifier that follows all mappings of a range, now and later
 * @ap: aperture
 * @notifier: (in, out) the caller has set ops, with map() and unmap(). When this returns, map() has
 *	been called for all that is mapped in the range
 * @offset: (in) in the aperture, page aligned
 * @size: (in) bytes, page multiple
 *
 * dlend_aperture_unmirror() ends the mirror.
 * Context: process, may sleep; takes the aperture's lock, again and again.
 * Return: 0; -ERANGE outside the aperture; or the error of map(): then unmap() was called for all.
 */
int dlend_aperture_mirror(struct dlend_aperture *ap, struct dlend_notifier *notifier, u64 offset,
			  u64 size);

/**
 * dlend_aperture_unmirror - end a mirror
 * @ap: aperture
 * @notifier: mirror. When this returns, its unmap() was called for all of the range, and none of
 *	its ops runs any more
 *
 * The mirror ends piece by piece, so that a thread that unmaps memory does not wait long for the
 * aperture's lock.
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_unmirror(struct dlend_aperture *ap, struct dlend_notifier *notifier);

/**
 * dlend_aperture_paging - get the IOMMU domain that an aperture is in, with a reference
 * @ap: aperture
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: domain; the caller drops the reference by dlend_paging_put(). ERR_PTR: -EOPNOTSUPP the
 * aperture is in none, because it is that of the loopback link; -ENODEV the aperture is detached.
 */
struct dlend_paging *dlend_aperture_paging(struct dlend_aperture *ap);

#endif
