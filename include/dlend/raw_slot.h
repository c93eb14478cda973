/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Raw slot: a slot whose user maps and unmaps single pages, in atomic context, too, and has its own
 * records of them.  The kernel's own DMA mappings are of that kind (native/): there is one for each
 * buffer of each transfer.
 *
 * Mappings in a raw slot do not count in struct dlend_aperture_stat, and notifiers are not told of
 * them.
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
 * @reach: the domain of the NTB's function. It has the mappings of all raw slots of an aperture,
 *	and has to be flushed after dlend_raw_slot_unmap()
 * @memory: a domain without a device. The user maps here, at its own IO addresses, all that it maps
 *	in raw slots, and goes on to do so after a slot was cut: so this domain always tells where
 *	an address leads
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
 * dlend_raw_slot_close - unmap all of a raw slot, and free its offsets
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
 * @gather: (in, out) to be flushed in dlend_raw_domains.reach; nothing is added once the slot was
 *	cut, as its pages are out of reach already
 *
 * Context: any.
 */
void dlend_raw_slot_unmap(struct dlend_raw_slot *raw, u64 at, size_t size,
			  struct iommu_iotlb_gather *gather);

/**
 * dlend_raw_slot_revoke - put everything that is mapped out of the peer's reach, now and for good
 * @raw: raw slot; its user may go on as if nothing had happened
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_raw_slot_revoke(struct dlend_raw_slot *raw);

#endif
