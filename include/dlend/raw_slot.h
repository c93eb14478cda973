/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Raw slot: a slot of kind DLEND_SLOT_RAM whose user maps and unmaps single pages, in atomic
 * context, too.  The users are the IOMMU domains of native/: the kernel's DMA API maps each buffer
 * of each transfer.
 *
 * The slot's bytes count in struct dlend_aperture_stat, but the pages that are mapped in it do not
 * (dlend_aperture_stat.pages).  No struct dlend_notifier is called when a page is mapped or
 * unmapped.
 *
 * A raw slot is *cut* when all its pages have been unmapped for good: dlend_raw_slot_revoke() was
 * called, or the aperture was detached from the NTB's function, because the link is removed.  Its
 * user may still ask where a page leads, and unmaps it some time.  So there is a second domain, to
 * which no device is attached, for a record of what is mapped.
 */
#ifndef DLEND_RAW_SLOT_H
#define DLEND_RAW_SLOT_H

#include <linux/gfp_types.h>
#include <linux/types.h>

struct dlend_aperture;
struct dlend_paging;
struct dlend_piece;
struct dlend_raw_slot;
struct iommu_domain;
struct iommu_iotlb_gather;

/**
 * struct dlend_raw_domains - IOMMU domains for one user of raw slots
 * @reach: the kernel's domain of the NTB's function, in which the aperture is. It has the mappings
 *	of all raw slots of the aperture. After dlend_raw_slot_unmap() the user flushes the IOTLB of
 *	this domain
 * @memory: the record: a domain to which no device is attached, with the IOVAs that the device
 *	uses. Where no raw slot is, its user maps and unmaps in it
 * @lazy: false: pages are recorded when they are mapped, so @memory always says where an IOVA leads
 *	that the user has mapped. true: when the slot is cut. That costs nothing for a transfer, but
 *	a cut takes time and memory for each page of 4 KiB, so it is for few pages at a time
 * @pg: dlend's structure of @reach. A reference: @reach stays valid after the aperture is detached
 *
 * Set by dlend_raw_domains_get(), and not changed after that: read without a lock.
 */
struct dlend_raw_domains {
	struct iommu_domain *reach, *memory;
	bool lazy;
	struct dlend_paging *pg;
};

/**
 * dlend_raw_domains_get - get the domains for a user of raw slots, before its first slot
 * @d: (out) domains, valid until dlend_raw_domains_put(), also when the aperture is detached. Each
 *	call makes a new, empty @d->memory; @d->reach is the same for all users of the aperture
 * @ap: aperture; the caller keeps a reference on its link during the call
 * @lazy: (in) as in struct dlend_raw_domains
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: 0; -EOPNOTSUPP the aperture has no IOMMU domain, because it is that of the loopback link;
 * -ENODEV the aperture is detached; or the error of iommu_paging_domain_alloc(). On an error
 * nothing is written to @d.
 */
int dlend_raw_domains_get(struct dlend_raw_domains *d, struct dlend_aperture *ap, bool lazy);

/**
 * dlend_raw_domains_put - free @d->memory, and drop the reference on @d->reach
 * @d: (in) domains; the members stay as they are, but must not be used any more. If all of them are
 *	NULL, nothing happens
 *
 * The caller guarantees that it has closed its last raw slot, and that it does not flush the IOTLB
 * of @d->reach any more.
 *
 * Context: process, may sleep.
 */
void dlend_raw_domains_put(struct dlend_raw_domains *d);

/**
 * dlend_raw_slot_open - reserve offsets in an aperture, with nothing mapped there
 * @d: (in) domains of this aperture. The slot uses them until dlend_raw_slot_close(): until then
 *	the caller keeps the structure as it is, and does not call dlend_raw_domains_put()
 * @ap: aperture; the caller keeps a reference on its link until dlend_raw_slot_close()
 * @iova: (in) IOVA of the slot's first byte, in @d->memory; page multiple
 * @size: (in) bytes, page multiple
 *
 * The offset is a multiple of 1 GiB if @size is at least 1 GiB and there is such a place, else of
 * 2 MiB if @size is at least 2 MiB, else of a page: so large pages of the user can be large pages
 * in the aperture.
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: raw slot, to be freed by dlend_raw_slot_close(); ERR_PTR: -ENODEV the aperture is
 * detached; -ENOSPC it has no such room; -ENOMEM; -EINVAL @size.
 */
struct dlend_raw_slot *dlend_raw_slot_open(const struct dlend_raw_domains *d,
					   struct dlend_aperture *ap, u64 iova, u64 size);

/**
 * dlend_raw_slot_close - unmap all of a raw slot, flush the IOTLB, and free its offsets
 * @raw: raw slot, cut or not; freed when this returns. The caller guarantees that no other function
 *	is running on it, or will be called
 * @acked: (in) true: the peer has said that it does not use the offsets any more. false: they stay
 *	in quarantine until the next session begins
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_raw_slot_close(struct dlend_raw_slot *raw, bool acked);

/**
 * dlend_raw_slot_offset - where a raw slot is in its aperture
 * @raw: raw slot
 *
 * Context: any.
 * Return: offset of the slot's first byte, in bytes; it never changes.
 */
u64 dlend_raw_slot_offset(const struct dlend_raw_slot *raw);

/**
 * dlend_raw_slot_map - map RAM into a raw slot
 * @raw: raw slot
 * @piece: (in) offset and size: where in the slot; phys: RAM; these three are page multiples. prot:
 *	what the peer's device may do. Other members are ignored. The caller guarantees that the
 *	place is inside the slot, and that nothing is mapped there
 * @gfp: (in) for page tables; __GFP_IO and __GFP_FS are not used, because a cut waits for this
 *
 * If the slot is being cut or was cut, this only records the mapping, and the peer does not reach
 * it: that is no error, because some drivers repeat a request without end after an error.
 *
 * Takes no lock of dlend. Other threads may map and unmap other parts of the slot, or cut it, at
 * the same time.
 * Context: any but NMI, as @gfp allows it.
 * Return: 0; or the error of iommu_map().
 */
int dlend_raw_slot_map(struct dlend_raw_slot *raw, const struct dlend_piece *piece, gfp_t gfp);

/**
 * dlend_raw_slot_unmap - unmap a part of a raw slot, without a flush of the IOTLB
 * @raw: raw slot
 * @at: (in) where, bytes from the slot's beginning, page multiple
 * @size: (in) bytes, page multiple. The caller guarantees that dlend_raw_slot_map() was called for
 *	all of this part, before a cut or after it
 * @gather: (in, out) gets what is to be flushed. The caller flushes it in dlend_raw_domains.reach,
 *	or flushes all of that domain, before the memory is used for something else. If the slot is
 *	being cut or was cut, nothing is added: this function or the cut has flushed already
 *
 * Other threads: as for dlend_raw_slot_map().
 * Context: any but NMI; takes the slot's spinlock while the slot is being cut, or was cut.
 * Return: bytes that were mapped from @at on, in the slot or by the record.
 */
size_t dlend_raw_slot_unmap(struct dlend_raw_slot *raw, u64 at, size_t size,
			    struct iommu_iotlb_gather *gather);

/**
 * dlend_raw_slot_phys - where a page of a raw slot leads, also after a cut
 * @raw: raw slot, of a user with dlend_raw_domains.lazy
 * @at: (in) where, bytes from the slot's beginning. The caller guarantees that it unmaps nothing
 *	there at the same time
 *
 * Context: any but NMI; takes the slot's spinlock if the slot is being cut, or was cut.
 * Return: physical address; 0: nothing is mapped there, or memory was short when it was recorded.
 */
phys_addr_t dlend_raw_slot_phys(struct dlend_raw_slot *raw, u64 at);

/**
 * dlend_raw_slot_revoke - cut a slot: unmap all its pages for good, and flush the IOTLB
 * @raw: raw slot; if it was cut before, nothing happens. Its user may go on to map and unmap, also
 *	during the call; that has no effect any more. The slot stays until dlend_raw_slot_close()
 *
 * When this returns, the peer reaches nothing through the slot.
 *
 * Context: process, may sleep, waits for no peer; takes the aperture's lock.
 */
void dlend_raw_slot_revoke(struct dlend_raw_slot *raw);

#endif
