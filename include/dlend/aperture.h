/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Aperture: where a peer's accesses arrive at this node (inbound).  It is one contiguous range of
 * IOVAs in an IOMMU domain of the NTB's function.  The peer's window is translated to it.  The
 * range is cut into slots.  An *offset* counts from the first byte of the aperture; peers know
 * offsets only.  This header also has the IOMMU domains of lent groups.  It knows nothing of NTB
 * clients, VFIO or messages.
 */
#ifndef DLEND_APERTURE_H
#define DLEND_APERTURE_H

#include <linux/list.h>
#include <linux/types.h>

struct device;
struct page;
struct seq_file;
struct dlend_aperture;

/* The use of a slot, as debugfs and sysfs show it. */
enum dlend_slot_kind { DLEND_SLOT_CTRL, DLEND_SLOT_RAM, DLEND_SLOT_BAR, DLEND_SLOT_IRQ,
		       DLEND_SLOT_P2P, DLEND_SLOT_KINDS };

enum dlend_slot_use { DLEND_SLOT_FREE, DLEND_SLOT_USED, DLEND_SLOT_QUARANTINED };

/**
 * struct dlend_slot - an allocated range of offsets
 * @offset: first byte, offset in the aperture
 * @size: bytes, page multiple
 * @kind: what it is used for
 * @ap: its aperture, which has to outlive the slot: whoever has a slot in a link's aperture keeps a
 *	reference on that link
 * @node: private to the allocator (iommu/slots.c), for which offsets that are free or in quarantine
 *	are slots, too
 * @use: as @node
 * @cookie: as @node
 * @age: as @node
 *
 * Valid from dlend_slot_alloc() to dlend_slot_free().
 */
struct dlend_slot {
	u64 offset;
	u64 size;
	enum dlend_slot_kind kind;
	struct dlend_aperture *ap;
	struct list_head node;
	enum dlend_slot_use use;
	u64 cookie, age;
};

/* How many pages of an IOMMU, by size. A size in between counts as several of the next smaller. */
struct dlend_map_pages {
	u64 n4k, n2m, n1g;
};

/*
 * Usage, in bytes, of the part of an aperture that the peer reaches. @slots: how many of each kind.
 * @pages: 0 on the loop
 */
struct dlend_aperture_stat {
	u64 size, free, largest_free, quarantined;
	u64 bytes[DLEND_SLOT_KINDS];	/* also in quarantine */
	u64 p2p_limit;			/* upper limit of DLEND_SLOT_P2P */
	u32 slots[DLEND_SLOT_KINDS];
	struct dlend_map_pages pages;
};

/**
 * dlend_unsafe_interrupts_allowed - does the administrator allow hosts without interrupt remapping?
 *
 * Without remapping, a device that can write to the MSI range can raise any interrupt of this host.
 * So code that lets a peer or a guest control a device asks this first.
 * Context: any. Return: parameter dlend_core.allow_unsafe_interrupts.
 */
bool dlend_unsafe_interrupts_allowed(void);

/**
 * dlend_slot_alloc - reserve offsets
 * @ap: aperture
 * @size: (in) bytes, rounded up to pages
 * @align: (in) power of two, bytes; 0: page
 * @phase: (in) wanted offset modulo @align, page multiple (the offset of a guest's RAM equals its
 *	guest-physical address modulo 2 MiB, so that the IOMMU can use large pages)
 * @kind: (in) what it is used for
 *
 * Guests can do without peer-to-peer.  So all slots of kind DLEND_SLOT_P2P together get no more
 * than dlend_core.p2p_window_percent of an aperture; the rest is for RAM and BARs of guests.  Slots
 * in quarantine count until they are released.
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: slot, with nothing mapped in it, to be freed by dlend_slot_free(); ERR_PTR: -ENOSPC;
 * -EDQUOT peer-to-peer has used up its share; -ENOMEM; -EINVAL @size, @align, @phase or @kind.
 */
struct dlend_slot *dlend_slot_alloc(struct dlend_aperture *ap, u64 size, u64 align, u64 phase,
				    enum dlend_slot_kind kind);

/**
 * dlend_slot_free - unmap a slot, and flush the IOTLB, now; free its offsets now or later
 * @slot: slot, also of a detached aperture; the structure is freed
 * @acked: (in) true: the peer has said that it does not use the offsets any more, so they are free
 *	at once. false: they are in quarantine until dlend_slot_release(), or until a new session
 *	begins. If a session has begun since the slot was allocated, they are free at once, too
 *
 * Context: process, may sleep, does not wait for a peer; takes the aperture's lock.
 * Return: cookie for dlend_slot_release(); 0 if @acked.
 */
u64 dlend_slot_free(struct dlend_slot *slot, bool acked);

/**
 * dlend_slot_release - end a quarantine
 * @ap: aperture
 * @cookie: (in) from dlend_slot_free(); if that quarantine has ended already, nothing happens
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_slot_release(struct dlend_aperture *ap, u64 cookie);

/**
 * struct dlend_pages - pages of RAM for a slot
 * @pages: the pages; physically contiguous ones are mapped together, so that the IOMMU can use
 *	large pages
 * @npages: number of pages
 * @prot: DLEND_PROT_*: what the peer's device may do
 */
struct dlend_pages {
	struct page **pages;
	unsigned long npages;
	u32 prot;
};

/**
 * dlend_slot_map_pages - map pages of RAM into a slot
 * @slot: slot
 * @at: (in) where, bytes from the slot's beginning, page multiple
 * @ram: (in) pages, and their protection
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: 0; -EINVAL not inside the slot, or alignment; -EEXIST something is mapped there; -ENODEV
 * the aperture is detached; -ENOMEM; or the error of the IOMMU or of a notifier. On an error
 * nothing of this call is mapped.
 */
int dlend_slot_map_pages(struct dlend_slot *slot, u64 at, const struct dlend_pages *ram);

/**
 * struct dlend_piece - a contiguous mapping in an aperture or a slot
 * @offset: where it begins, in bytes from the beginning of the aperture or slot (inside iommu/ this
 *	can be an IOVA: there the comments say so)
 * @size: bytes
 * @phys: physical address of a BAR or of RAM
 * @cap: size of the largest IOMMU page that may be used, 0 = any; dlend_slot_*() set it themselves
 * @prot: DLEND_PROT_*
 * @mmio: @phys is in a BAR
 */
struct dlend_piece {
	u64 offset, size;
	phys_addr_t phys;
	u64 cap;
	u32 prot;
	bool mmio;
};

/**
 * dlend_slot_of_memory - let a peer reach memory that this kernel has allocated, in a new slot
 * @ap: aperture
 * @mem: (in) whole pages of the linear map, contiguous; the caller frees them after the slot
 * @size: (in) bytes of @mem
 * @prot: (in) DLEND_PROT_*: what the peer may do
 * @kind: (in) use of the slot
 *
 * Context: as dlend_slot_map_pages(). Return: slot, mapped; ERR_PTR: as dlend_slot_alloc() and
 * dlend_slot_map_phys().
 */
struct dlend_slot *dlend_slot_of_memory(struct dlend_aperture *ap, void *mem, u64 size,
					u32 prot, enum dlend_slot_kind kind);

/**
 * dlend_slot_map_phys - map a BAR or RAM into a slot by its physical address
 * @slot: slot
 * @piece: (in) what, and where in the slot; all page multiples
 *
 * Context: as dlend_slot_map_pages(). Return: as dlend_slot_map_pages(); -EOPNOTSUPP this kernel's
 * IOMMU driver cannot map BARs while memory encryption (SME) is on.
 */
int dlend_slot_map_phys(struct dlend_slot *slot, struct dlend_piece piece);

/**
 * dlend_slot_unmap - unmap a part of a slot, and flush the IOTLB
 * @slot: slot
 * @at: (in) where, bytes from the slot's beginning, page multiple
 * @size: (in) bytes, page multiple; holes are fine
 *
 * What is mapped beside that part stays in reach all the time, if the part's edges are multiples of
 * 2 MiB, or edges of what one call has mapped.  The exception is a gigantic page of the kernel,
 * which is mapped by a larger IOMMU page: when a part of it is unmapped, all of it is out of reach
 * for a moment.
 *
 * Context: process, may sleep, waits for no peer; takes the aperture's lock.
 */
void dlend_slot_unmap(struct dlend_slot *slot, u64 at, u64 size);

/**
 * dlend_aperture_stat - how much of an aperture is used
 * @ap: aperture, or NULL
 *
 * Context: process, may sleep; takes the aperture's lock. Return: numbers, all 0 without an
 * aperture.
 */
struct dlend_aperture_stat dlend_aperture_stat(struct dlend_aperture *ap);

struct dlend_notifier;

/**
 * struct dlend_notifier_ops - functions of a notifier's user, called for changes in the part
 * @map: @piece has been mapped, @at bytes from the beginning of the part. Return: 0; or -errno, and
 *	the user reaches nothing of @piece: then the aperture undoes the new mapping, or does not
 *	begin the mirror. NULL: new mappings are not reported
 * @unmap: @size bytes from @at on are being unmapped: when this returns, the user does not reach
 *	them any more. May be called for bytes where nothing is mapped. Must not wait for a peer or
 *	for user space
 *
 * Both are called in process context, and may sleep. The aperture's lock is held, so they must not
 * call functions that take it.
 */
struct dlend_notifier_ops {
	int (*map)(struct dlend_notifier *notifier, u64 at, const struct dlend_piece *piece);
	void (*unmap)(struct dlend_notifier *notifier, u64 at, u64 size);
};

/**
 * struct dlend_notifier - tells its user when mappings in a part of an aperture change
 * @node: in the aperture's list; under the aperture's lock
 * @offset: where the part begins, in bytes; does not change while the notifier is registered
 * @size: bytes of the part; does not change either, except for a mirror, which grows and shrinks
 *	(under the aperture's lock)
 * @ops: functions of the user
 *
 * A user is code that reaches the part without the aperture's IOMMU domain in between (on the loop
 * there is none), or that maps pages in that domain itself (raw slots).
 */
struct dlend_notifier {
	struct list_head node;
	u64 offset, size;
	const struct dlend_notifier_ops *ops;
};

/*
 * IOMMU domain of a lent group.  It translates IOVAs, which are guest-physical addresses of the
 * borrower, to physical addresses of this host, in the window of the link to the borrower.
 */
struct dlend_domain;

/**
 * dlend_domain_create - make a new, empty domain for a group
 * @dev: a device of the IOMMU group; a reference is kept until dlend_domain_destroy()
 *
 * Context: process, may sleep.
 * Return: domain, not attached; ERR_PTR: -ENODEV no IOMMU; -ENOMEM; or the IOMMU's error.
 */
struct dlend_domain *dlend_domain_create(struct device *dev);

/**
 * dlend_domain_destroy - unmap all ranges of all owners, and free the domain
 * @dom: domain; the caller has called dlend_domain_block() before, or has never attached it
 *
 * Context: process, may sleep; takes the domain's lock.
 */
void dlend_domain_destroy(struct dlend_domain *dom);

/**
 * dlend_domain_attach - attach the group to the domain: its devices' DMA is translated by it
 * @dom: domain; the group's DMA owner is claimed (iommu_device_claim_dma_owner())
 *
 * Where the IOMMU can enforce cache coherency, it is enforced: No Snoop requests of the devices do
 * not bypass the CPU's caches.
 * Context: process, may sleep; takes the domain's lock.
 * Return: 0; -EBUSY another owner has the group, or it is being reset; or the IOMMU's error.
 */
int dlend_domain_attach(struct dlend_domain *dom);

/**
 * dlend_domain_block - detach the group: its DMA is blocked when this returns
 * @dom: domain; a second call does nothing
 *
 * If the kernel does not detach it (7.0 and 7.1, while a device that does ATS is being reset),
 * everything is unmapped in the domain, and dlend_domain_destroy() tries again.
 * Context: process, may sleep; takes the domain's lock.
 */
void dlend_domain_block(struct dlend_domain *dom);

/* What a range owner maps: memory of the guest, or BARs of other devices. */
enum dlend_owner_kind { DLEND_OWNER_RAM, DLEND_OWNER_BAR, DLEND_OWNER_KINDS };

struct dlend_dma_range;

/**
 * struct dlend_owner - range owner: on whose behalf ranges are mapped in a domain. A lent function
 *	has several: for its guest's memory, for BARs, for direct interrupts
 * @claims: its ranges; private to iommu/claims.c, under the domain's lock
 * @nr: how many; as @claims
 * @kind: set by dlend_owner_init()
 * @lost: may be NULL. Called with the domain's lock held, when another owner gave up the range @r,
 *	for which @owner waited, but @r could not be mapped for @owner: so @owner does not have the
 *	range any more. Must not call functions of the domain
 */
struct dlend_owner {
	struct list_head claims;
	unsigned int nr;
	enum dlend_owner_kind kind;
	void (*lost)(struct dlend_owner *owner, const struct dlend_dma_range *r);
};

/**
 * dlend_owner_init - initialise a range owner that owns nothing yet
 * @owner: (out) owner; @owner->lost may be set afterwards
 * @kind: (in) what it maps
 *
 * Context: any.
 */
static inline void dlend_owner_init(struct dlend_owner *owner, enum dlend_owner_kind kind)
{
	INIT_LIST_HEAD(&owner->claims);
	owner->nr = 0;
	owner->kind = kind;
	owner->lost = NULL;
}

/**
 * struct dlend_dma_range - a range of IOVAs, and what it is mapped to
 * @iova: first address of the range, page aligned
 * @size: bytes, page multiple
 * @prot: DLEND_PROT_*
 * @mmio: the target is a BAR or a window, not RAM
 * @phys: physical address of the target, if @ap is NULL
 * @hole: offset in the range: nothing is mapped from here up to @hole_end
 * @hole_end: offset in the range, exclusive; there is no hole if @hole_end <= @hole
 * @ap: not NULL: the range is a mirror: it always has the mappings that this aperture of this node
 *	has from @offset on
 * @offset: of a mirror: offset in @ap
 * @thing: identifies the target, together with @part: an equal range of another owner with the same
 *	two numbers has the same target, even if it leads there by another way. Both 0: the guest's
 *	memory, of which there is one at each address
 * @part: see @thing
 */
struct dlend_dma_range {
	u64 iova, size;
	u32 prot;
	bool mmio;
	phys_addr_t phys;
	u64 hole, hole_end;
	struct dlend_aperture *ap;
	u64 offset;
	u64 thing;
	u32 part;
};

/**
 * dlend_domain_map - map a range for an owner, all of it or nothing
 * @dom: domain
 * @owner: range owner; -EEXIST if it has a part of that range already
 * @r: (in) range, copied
 *
 * If another owner of the same kind has exactly this range, with the same @thing and @part, @owner
 * waits, and this returns 0: when the other owner gives the range up, @r is mapped in its place. If
 * both lead to the same place, the IOMMU's mapping stays as it is then: transfers may be under way.
 *
 * A mirror (@r->ap) is for a device that is lent to a guest on its own host, where no window leads
 * to the guest's memory. Pages that are mapped in the aperture are mapped in the domain too, and
 * pages that are unmapped in the aperture are unmapped in the domain before that call returns. The
 * caller keeps a reference on the aperture's link until the range is unmapped.
 *
 * Context: process, may sleep; takes the domain's lock, and for a mirror the aperture's.
 * Return: 0; -EEXIST the range overlaps another one, or @owner has it; -EINVAL bad alignment: a
 * range of more than 1 GiB must fit pages of 2 MiB, so that no range takes long; -ERANGE it is
 * outside the domain's geometry or the aperture, or on a reserved region; -ENOSPC more ranges, or
 * more page tables, than any guest needs; -ESHUTDOWN the domain was blocked; -ENOMEM; or the
 * IOMMU's error.
 */
int dlend_domain_map(struct dlend_domain *dom, struct dlend_owner *owner,
		     const struct dlend_dma_range *r);

/**
 * dlend_domain_unmap - an owner gives up all its ranges that lie inside a range
 * @dom: domain
 * @owner: owner
 * @iova: (in) first address, page aligned
 * @size: (in) bytes, page multiple
 *
 * The device does not reach these ranges any more when this returns, except those that another
 * owner has, too. If the domain was blocked, they are unmapped only when it is destroyed.
 * Context: process, may sleep, waits for no peer; takes the domain's lock.
 * Return: 0; -ENOENT there are no such ranges; -EINVAL bad alignment, or a range of @owner
 * straddles an edge of the given one (nothing is given up then).
 */
int dlend_domain_unmap(struct dlend_domain *dom, struct dlend_owner *owner, u64 iova, u64 size);

/**
 * dlend_domain_drop - an owner gives up all its ranges, as by dlend_domain_unmap()
 * @dom: domain
 * @owner: owner
 *
 * If the domain was blocked, this is quick: ranges are unmapped only when it is destroyed.
 * Context: process, may sleep; takes the domain's lock.
 */
void dlend_domain_drop(struct dlend_domain *dom, struct dlend_owner *owner);

/**
 * dlend_domain_bytes - how many bytes owners of a kind have mapped; a shared range counts once
 * @dom: domain
 * @kind: (in) kind of owner
 *
 * Context: process, may sleep; takes the domain's lock. Return: bytes.
 */
u64 dlend_domain_bytes(struct dlend_domain *dom, enum dlend_owner_kind kind);

/** dlend_domain_show - counters, for debugfs. Context: process; takes the domain's lock. */
void dlend_domain_show(struct dlend_domain *dom, struct seq_file *m);

#endif
