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
struct iommu_iotlb_gather;

/**
 * dlend_raw_slot_open - reserve offsets in an aperture
 * @ap: aperture with an IOMMU; stays until dlend_raw_slot_close()
 * @size: (in) bytes, page multiple
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: raw slot; ERR_PTR: -EOPNOTSUPP there is no IOMMU (this node is its own peer); -ENODEV
 * the aperture is detached; or as dlend_slot_alloc().
 */
struct dlend_raw_slot *dlend_raw_slot_open(struct dlend_aperture *ap, u64 size);

/**
 * dlend_raw_slot_nowhere - a raw slot as if it had been cut already, without offsets in an aperture
 *
 * Its pages lead nowhere. Context: process, may sleep. Return: raw slot, of any size; NULL: no
 * memory.
 */
struct dlend_raw_slot *dlend_raw_slot_nowhere(void);

/**
 * dlend_raw_slot_close - unmap what is left, and give the offsets back
 * @raw: raw slot; gone when this returns
 * @acked: (in) true: the peer has said that it does not use the offsets any more. false: they stay
 *	in quarantine until the next session
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_raw_slot_close(struct dlend_raw_slot *raw, bool acked);

/**
 * dlend_raw_slot_offset - its first byte, offset in the aperture
 * @raw: (in) raw slot; not of dlend_raw_slot_nowhere()
 *
 * Context: any.
 */
u64 dlend_raw_slot_offset(const struct dlend_raw_slot *raw);

/**
 * dlend_raw_slot_map - map RAM
 * @raw: raw slot
 * @piece: (in) what, and where in the slot; all page multiples; nothing is mapped there
 * @gfp: (in) for page tables
 *
 * Once the aperture is detached or the slot was cut, it is as if the RAM were mapped, and nothing
 * is reached. Context: any, if @gfp does not sleep.
 * Return: 0; -EAGAIN it is being cut at this moment; or as iommu_map().
 */
int dlend_raw_slot_map(struct dlend_raw_slot *raw, const struct dlend_piece *piece, gfp_t gfp);

/**
 * dlend_raw_slot_unmap - unmap, without a flush of the IOTLB
 * @raw: raw slot
 * @at: (in) where, bytes from its beginning
 * @size: (in) bytes
 * @gather: (in, out) what is to be flushed by dlend_raw_domain_sync()
 *
 * Context: any. Return: bytes that were mapped there; @size if the slot was cut: then all of it is
 * out of reach already.
 */
size_t dlend_raw_slot_unmap(struct dlend_raw_slot *raw, u64 at, size_t size,
			    struct iommu_iotlb_gather *gather);

/**
 * dlend_raw_domain_get - keep the IOMMU's domain that the slot is mapped in
 * @raw: (in) raw slot; not of dlend_raw_slot_nowhere()
 *
 * A user that unmaps without a flush keeps it: the slot may be closed before the flush, and the
 * aperture detached. Context: any. Return: the domain, the same one for all slots of an aperture,
 * until dlend_raw_domain_put().
 */
struct dlend_paging *dlend_raw_domain_get(const struct dlend_raw_slot *raw);

/** dlend_raw_domain_put - of dlend_raw_domain_get(); or NULL. Context: process, may sleep. */
void dlend_raw_domain_put(struct dlend_paging *pg);

/**
 * dlend_raw_domain_sync - flush what dlend_raw_slot_unmap() has gathered
 * @pg: domain
 * @gather: (in, out) what; page tables in it are freed
 *
 * Context: any.
 */
void dlend_raw_domain_sync(struct dlend_paging *pg, struct iommu_iotlb_gather *gather);

/** dlend_raw_domain_flush - the same, and everything else that was gathered. Context: any. */
void dlend_raw_domain_flush(struct dlend_paging *pg);

/** dlend_raw_slot_phys - where @at leads, or would if it were not cut; 0: nowhere. Context: any. */
phys_addr_t dlend_raw_slot_phys(struct dlend_raw_slot *raw, u64 at);

/**
 * dlend_raw_slot_cut - put everything that is mapped out of the peer's reach, now and for good
 * @raw: raw slot; its user may go on as if nothing had happened
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_raw_slot_cut(struct dlend_raw_slot *raw);

#endif
