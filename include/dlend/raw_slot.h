/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Raw slot: a slot whose user maps and unmaps single pages, in atomic context, too, and keeps the
 * records of these mappings itself.  For mappings of the kernel's DMA API (native/): there is one
 * for each buffer of each transfer.
 *
 * Mappings in a raw slot do not count in struct dlend_aperture_stat, and notifiers are not called
 * for them.
 *
 * A raw slot is *cut* when all its pages are put out of the peer's reach, for good:
 * dlend_raw_slot_revoke() was called, or the aperture was detached.
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
 * @reach: the domain of the NTB's function, in which the aperture is. It has the mappings of all
 *	raw slots of the aperture. The user flushes its IOTLB after dlend_raw_slot_unmap()
 * @memory: a domain to which no device is attached. The user maps in it, at IOVAs of its own
 *	choice, all that it maps in raw slots, also after a slot was cut: so iommu_iova_to_phys()
 *	of this domain always says where an IOVA leads
 * @pg: a reference: keeps @reach when the aperture is detached
 */
struct dlend_raw_domains {
	struct iommu_domain *reach, *memory;
	struct dlend_paging *pg;
};

/**
 * dlend_raw_domains_get - get the domains for a user of raw slots, before its first slot
 * @d: (out) domains
 * @ap: aperture
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: 0; -EOPNOTSUPP there is no IOMMU (this node is its own peer); -ENODEV the aperture is
 * detached; or the IOMMU's error. On an error nothing is written to @d.
 */
int dlend_raw_domains_get(struct dlend_raw_domains *d, struct dlend_aperture *ap);

/**
 * dlend_raw_domains_put - give the domains up, after the user has closed its last raw slot
 * @d: (in) domains; if all members are 0, nothing happens
 *
 * Context: process, may sleep.
 */
void dlend_raw_domains_put(struct dlend_raw_domains *d);

/**
 * dlend_raw_slot_open - reserve offsets in an aperture
 * @d: (in) domains of this aperture; the caller keeps them until dlend_raw_slot_close()
 * @ap: aperture; the caller keeps a reference on its link until dlend_raw_slot_close()
 * @size: (in) bytes, page multiple
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: raw slot; ERR_PTR: -ENODEV the aperture is detached; or as dlend_slot_alloc().
 */
struct dlend_raw_slot *dlend_raw_slot_open(const struct dlend_raw_domains *d,
					   struct dlend_aperture *ap, u64 size);

/**
 * dlend_raw_slot_close - unmap all of a raw slot, and free its offsets
 * @raw: raw slot; freed when this returns
 * @acked: (in) true: the peer has said that it does not use the offsets any more. false: they stay
 *	in quarantine until the next session begins
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_raw_slot_close(struct dlend_raw_slot *raw, bool acked);

/** dlend_raw_slot_offset - offset of the slot's first byte in the aperture. Context: any. */
u64 dlend_raw_slot_offset(const struct dlend_raw_slot *raw);

/**
 * dlend_raw_slot_map - map RAM
 * @raw: raw slot
 * @piece: (in) what, and where in the slot; all page multiples. The caller guarantees that nothing
 *	is mapped there
 * @gfp: (in) for page tables
 *
 * If the slot was cut, this does nothing, and returns 0.
 * Context: any, if @gfp does not sleep. Return: 0; or the error of iommu_map().
 */
int dlend_raw_slot_map(struct dlend_raw_slot *raw, const struct dlend_piece *piece, gfp_t gfp);

/**
 * dlend_raw_slot_unmap - unmap, without a flush of the IOTLB
 * @raw: raw slot
 * @at: (in) where, bytes from the slot's beginning
 * @size: (in) bytes
 * @gather: (in, out) the caller flushes it in dlend_raw_domains.reach; nothing is added once the
 *	slot was cut, as its pages are out of reach already
 *
 * Context: any.
 */
void dlend_raw_slot_unmap(struct dlend_raw_slot *raw, u64 at, size_t size,
			  struct iommu_iotlb_gather *gather);

/**
 * dlend_raw_slot_revoke - cut a slot: the peer reaches none of its pages any more, for good
 * @raw: raw slot; its user may go on to map and unmap, which then has no effect
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_raw_slot_revoke(struct dlend_raw_slot *raw);

#endif
