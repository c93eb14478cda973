/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Raw slot: a slot whose pages are mapped and unmapped one by one by a user that keeps its own
 * records, in atomic context, too.  The kernel's own DMA mappings are of that kind (native/): there
 * is one for each buffer of each transfer, and the IOMMU core knows what it has mapped.
 *
 * What is mapped there does not count in struct dlend_aperture_stat, and no view sees it.
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
 * struct dlend_raw_domains - domains of the kernel's for one user of raw slots
 * @reach: of the NTB's function: all raw slots of an aperture are mapped in it, so this is what
 *	dlend_raw_slot_unmap() leaves to be flushed
 * @memory: no device is attached to it. The user maps there, at IO addresses of its own, all that it
 *	maps in raw slots, and what would have been there if a slot were not cut: so it knows where
 *	its pages lead, whatever happens to a slot
 * @pg: keeps @reach when the aperture is detached
 */
struct dlend_raw_domains {
	struct iommu_domain *reach, *memory;
	struct dlend_paging *pg;
};

/**
 * dlend_raw_domains_get - before the first raw slot of a user
 * @d: (out) domains
 * @ap: aperture
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: 0; -EOPNOTSUPP there is no IOMMU (this node is its own peer); -ENODEV the aperture is
 * detached; or the IOMMU's error. On an error nothing is written to @d.
 */
int dlend_raw_domains_get(struct dlend_raw_domains *d, struct dlend_aperture *ap);

/**
 * dlend_raw_domains_put - after the last one
 * @d: (in) domains; all 0 is fine
 *
 * Context: process, may sleep.
 */
void dlend_raw_domains_put(struct dlend_raw_domains *d);

/**
 * dlend_raw_slot_open - reserve offsets in an aperture
 * @d: (in) domains of this aperture; they stay until dlend_raw_slot_close()
 * @ap: aperture; stays until dlend_raw_slot_close()
 * @size: (in) bytes, page multiple
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: raw slot; ERR_PTR: -ENODEV the aperture is detached; or as dlend_slot_alloc().
 */
struct dlend_raw_slot *dlend_raw_slot_open(const struct dlend_raw_domains *d,
					   struct dlend_aperture *ap, u64 size);

/**
 * dlend_raw_slot_close - unmap what is left, and give the offsets back
 * @raw: raw slot; gone when this returns
 * @acked: (in) true: the peer has said that it does not use the offsets any more. false: they stay
 *	in quarantine until the next session
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_raw_slot_close(struct dlend_raw_slot *raw, bool acked);

/** dlend_raw_slot_offset - its first byte, offset in the aperture. Context: any. */
u64 dlend_raw_slot_offset(const struct dlend_raw_slot *raw);

/**
 * dlend_raw_slot_map - map RAM
 * @raw: raw slot
 * @piece: (in) what, and where in the slot; all page multiples; nothing is mapped there
 * @gfp: (in) for page tables
 *
 * Once the aperture is detached or the slot was cut, this does nothing. Context: any, if @gfp does
 * not sleep. Return: 0; or as iommu_map().
 */
int dlend_raw_slot_map(struct dlend_raw_slot *raw, const struct dlend_piece *piece, gfp_t gfp);

/**
 * dlend_raw_slot_unmap - unmap, without a flush of the IOTLB
 * @raw: raw slot
 * @at: (in) where, bytes from its beginning
 * @size: (in) bytes
 * @gather: (in, out) what is to be flushed in dlend_raw_domains.reach; nothing once it was cut:
 *	what was mapped is out of reach already
 *
 * Context: any.
 */
void dlend_raw_slot_unmap(struct dlend_raw_slot *raw, u64 at, size_t size,
			  struct iommu_iotlb_gather *gather);

/**
 * dlend_raw_slot_cut - put everything that is mapped out of the peer's reach, now and for good
 * @raw: raw slot; its user may go on as if nothing had happened
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_raw_slot_cut(struct dlend_raw_slot *raw);

#endif
