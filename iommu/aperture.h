/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of an aperture that only ntb/ and iommu/ call; dlend/aperture.h has the others. */
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
 *   locks of notifiers' users	taken by ops of notifiers, which are called under the aperture's
 *				lock.  On the loop each struct dlend_window has a notifier, whose
 *				unmap() calls dlend_window.revoked(); this takes
 *				dlend_irq_sources.lock (ntb/irq_source.c), or dlend_vdev.bar_lock
 *				(mdev/bar.c: the BAR is unmapped from the guest)
 *   dlend_raw_slot.clearing	raw_slot.c, spinlock, interrupts off: pages of a raw slot are
 *				unmapped while it is being cut (dlend/raw_slot.h)
 *
 * A *notifier* (struct dlend_notifier) is called when mappings in a part of an aperture change.  A
 * *mirror* is a notifier by which a range of a lent group's domain gets the same mappings as that
 * part.
 */

/**
 * dlend_aperture_create - make an empty aperture
 * @dma_dev: device whose IOMMU domain translates the peer's accesses (the NTB's function); a
 *	reference is kept until dlend_aperture_detach(). NULL: the peer is this node itself (the
 *	loop): there is no domain; mappings are only recorded, and notifiers are called
 * @size: (in) bytes: size of the peer's window, which is to lead to the aperture; page multiple
 * @align: (in) alignment that the window's translation needs, bytes; power of two or 0
 * @shared: (in) true: the driver of @dma_dev does DMA itself, so the group keeps the DMA API's
 *	domain, and the aperture is made in that domain. false: the group is attached to a new
 *	domain, in which only the aperture is
 *
 * If @shared, the driver's memory is in the same domain. So a peer that can write the NTB's
 * translation registers (on most NTBs it can) reaches that memory, too.
 * The aperture's IOVAs are clear of reserved regions and of the host bridge's windows
 * (docs/architecture.md).
 * Context: process, may sleep; takes the IOMMU group's mutex.
 * Return: aperture, or ERR_PTR. The log says what to do, except for -ENOMEM and -EINVAL: -ENODEV no
 * IOMMU translates; -EBUSY a driver uses another device of the group, another owner (VFIO) has the
 * group, or it is being reset; -EPERM interrupt remapping is off, and so is the parameter
 * dlend_core.allow_unsafe_interrupts; -ENOSPC no free range of IOVAs; -EADDRINUSE if @shared: the
 * driver has mapped memory at the aperture's IOVAs; -ENOMEM; -EINVAL @size or @align; or the
 * IOMMU's error.
 */
struct dlend_aperture *dlend_aperture_create(struct device *dma_dev, u64 size, u64 align,
					     bool shared);

/**
 * dlend_aperture_destroy - do what dlend_aperture_detach() does, and free the aperture
 * @ap: aperture, detached or not. The caller guarantees that all slots were freed, and all
 *	notifiers unregistered
 *
 * Context: as dlend_aperture_detach().
 */
void dlend_aperture_destroy(struct dlend_aperture *ap);

/**
 * dlend_aperture_base - IOVA of offset 0, for the translation of the peer's window
 * @ap: (in) aperture
 *
 * Context: any. Return: IOVA; 0 on the loop.
 */
dma_addr_t dlend_aperture_base(const struct dlend_aperture *ap);

/**
 * dlend_aperture_size - size of an aperture, as given to dlend_aperture_create()
 * @ap: (in) aperture
 *
 * Context: any. Return: bytes.
 */
u64 dlend_aperture_size(const struct dlend_aperture *ap);

/**
 * dlend_aperture_release_all - end the quarantines of all freed slots, because a new session begins
 * @ap: aperture. The caller guarantees that the peer has forgotten all offsets of earlier sessions
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_release_all(struct dlend_aperture *ap);

/**
 * dlend_aperture_show - print base, usage and mappings of an aperture, for debugfs
 * @ap: aperture
 * @m: file
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_show(struct dlend_aperture *ap, struct seq_file *m);

/**
 * dlend_aperture_hindered - is there an obstacle that an admin can remove while the host runs?
 * @dma_dev: (in) device that is to have an aperture
 *
 * To be asked before dlend_aperture_create() is tried again. Logs nothing.
 * Context: process, may sleep; takes the IOMMU group's mutex.
 * Return: true: dlend_aperture_create() would fail, because a driver uses another device of the
 * group (-EBUSY), or because interrupt remapping and allow_unsafe_interrupts are off (-EPERM).
 * false: neither; it may fail for another reason.
 */
bool dlend_aperture_hindered(struct device *dma_dev);

/**
 * dlend_aperture_detach - unmap everything and detach the domain, because the device goes away
 * @ap: aperture; a second call does nothing
 *
 * Calls unmap() of all notifiers; these stay registered. The aperture itself stays, without
 * mappings, until dlend_aperture_destroy(): slots can still be freed, and mapping fails with
 * -ENODEV.
 * Context: process, may sleep; takes the aperture's lock, and, when that is released, the IOMMU
 * group's mutex. The caller holds no lock of iommu/.
 */
void dlend_aperture_detach(struct dlend_aperture *ap);

/**
 * dlend_aperture_limit - allocate slots only in the first part of an aperture from now on
 * @ap: aperture
 * @bytes: (in) size of that part: as much as the peer's window reaches in this session. Slots that
 *	are beyond it already stay
 *
 * A later call may set a smaller or a larger part.
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_aperture_limit(struct dlend_aperture *ap, u64 bytes);

/**
 * dlend_notifier_register - register a notifier of unmappings, and find what its part is mapped to
 * @ap: aperture
 * @notifier: (in) the caller has set ops (with unmap() only), offset and size, and keeps the
 *	notifier until dlend_notifier_unregister(). unmap() may be called before this returns
 * @mmio: (in) what must be mapped in the notifier's part, contiguously. true: a BAR, which may have
 *	holes; false: RAM, without holes. Ignored if @phys is NULL
 * @phys: (out) physical address that the part's first byte is mapped to, or would be if there is a
 *	hole. NULL: any mappings may be there, or none
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: 0; -ERANGE the part is outside the aperture or, with @phys, is not mapped as @mmio says;
 * -ENODEV the aperture is detached. On an error nothing is registered.
 */
int dlend_notifier_register(struct dlend_aperture *ap, struct dlend_notifier *notifier, bool mmio,
			    phys_addr_t *phys);

/**
 * dlend_notifier_unregister - undo dlend_notifier_register()
 * @ap: aperture, detached or not
 * @notifier: notifier; none of its ops runs any more when this returns
 *
 * Calls no op. Context: process, may sleep; takes the aperture's lock.
 */
void dlend_notifier_unregister(struct dlend_aperture *ap, struct dlend_notifier *notifier);

/**
 * dlend_aperture_mirror - begin a mirror: a notifier that is told all mappings of a range
 * @ap: aperture
 * @notifier: (in, out) the caller has set ops, with map() and unmap(), and keeps the notifier until
 *	dlend_aperture_unmirror(); its offset and size are set here
 * @offset: (in) first byte of the range, offset in the aperture, page aligned
 * @size: (in) bytes, page multiple
 *
 * When this returns, map() has been called for all that is mapped in the range. After that, map()
 * and unmap() are called for each change, until dlend_aperture_unmirror().
 *
 * The range is gone through piece by piece, and other threads may take the aperture's lock between
 * two pieces. What they change in pieces that come later is found then.
 * Context: process, may sleep; takes the aperture's lock, once for each piece.
 * Return: 0, also if the aperture is detached, and so has no mappings; -ERANGE the range is outside
 * the aperture; or the error of map(): then unmap() was called for all that had been mapped, and
 * the notifier is not registered.
 */
int dlend_aperture_mirror(struct dlend_aperture *ap, struct dlend_notifier *notifier, u64 offset,
			  u64 size);

/**
 * dlend_aperture_unmirror - end a mirror
 * @ap: aperture, detached or not
 * @notifier: the mirror's notifier. When this returns, its unmap() was called for all of the range,
 *	and none of its ops runs any more
 *
 * The mirror ends piece by piece, so that a thread that unmaps memory does not wait long for the
 * aperture's lock.
 * Context: process, may sleep; takes the aperture's lock, once for each piece.
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
