/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Aperture: the range of a peer's accesses that arrive at this node.  One contiguous IOVA
 * range in an IOMMU domain of the NTB function, one translated NTB window onto it, cut into
 * slots.  Knows nothing of NTB clients, VFIO or messages.
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
 * @ap: its aperture, which has to outlive it: an owner of a slot of a link has a reference on that
 *	link
 *
 * Valid from dlend_slot_alloc() to dlend_slot_free().  The rest is the
 * allocator's (iommu/slots.c), which knows offsets that are free and in quarantine, too, as slots.
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

/* Pages of the IOMMU by size; sizes in between count as several of the next smaller kind. */
struct dlend_map_pages {
	u64 n4k, n2m, n1g;
};

/* Usage, in bytes, of what the peer reaches; pages as far as known. */
struct dlend_aperture_stat {
	u64 size, free, largest_free, quarantined;
	u64 bytes[DLEND_SLOT_KINDS];	/* also in quarantine */
	u64 p2p_limit;			/* upper limit of DLEND_SLOT_P2P */
	u32 slots[DLEND_SLOT_KINDS];
	struct dlend_map_pages pages;
};

/**
 * dlend_unsafe_interrupts_allowed - may a link go without interrupt remapping?
 *
 * Without remapping, a device that can write to the MSI range can raise any interrupt of this host.
 * So this has to be asked before a device can do that. Context: any.
 */
bool dlend_unsafe_interrupts_allowed(void);

/**
 * dlend_slot_alloc - reserve offsets
 * @ap: aperture
 * @size: (in) bytes, rounded up to pages
 * @align: (in) power of two, bytes; 0: page
 * @phase: (in) wanted offset modulo @align, page multiple (a guest's RAM keeps its guest-physical
 *	address modulo 2 MiB, so that the IOMMU can use large pages)
 * @kind: (in) what it is used for
 *
 * Guests can do without peer-to-peer.  So slots for peer-to-peer together get no more than
 * dlend_core.p2p_window_percent of an aperture; the rest is for RAM and BARs of guests.  Slots in
 * quarantine count until they are released.
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: slot or ERR_PTR: -ENOSPC; -EDQUOT peer-to-peer has used up its share; -ENOMEM; -EINVAL.
 */
struct dlend_slot *dlend_slot_alloc(struct dlend_aperture *ap, u64 size, u64 align, u64 phase,
				    enum dlend_slot_kind kind);

/**
 * dlend_slot_free - unmap a slot, and flush the IOTLB, now; free its offsets now or later
 * @slot: slot, also of a detached aperture; gone when this returns
 * @acked: (in) true: the peer does not use the offsets any more, so they are free at once. false:
 *	they are in quarantine until dlend_slot_release(), or a new session. If a session has begun
 *	since the slot was allocated, they are free at once, too
 *
 * Context: process, may sleep, does not wait for a peer; takes the aperture's lock.
 * Return: cookie for dlend_slot_release(); 0 if @acked.
 */
u64 dlend_slot_free(struct dlend_slot *slot, bool acked);

/**
 * dlend_slot_release - end a quarantine
 * @ap: aperture
 * @cookie: (in) from dlend_slot_free(); one whose quarantine has ended is fine
 *
 * Context: process, may sleep; takes the aperture's lock.
 */
void dlend_slot_release(struct dlend_aperture *ap, u64 cookie);

/**
 * struct dlend_pages - pages of RAM for a slot
 * @pages, @npages: the pages, and how many; physically contiguous ones are mapped together, so that
 *	the IOMMU can use large pages
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
 * the aperture is detached; -ENOMEM; or the error of the IOMMU or of a notifier. Then nothing of
 * this call is mapped.
 */
int dlend_slot_map_pages(struct dlend_slot *slot, u64 at, const struct dlend_pages *ram);

/**
 * struct dlend_piece - a contiguous mapping in an aperture or a slot
 * @offset, @size: where, in bytes from the beginning of the aperture or slot
 * @phys: physical address of a BAR (@mmio) or RAM
 * @cap: no larger pages of an IOMMU than this, 0 = any
 * @prot: DLEND_PROT_*
 */
struct dlend_piece {
	u64 offset, size;
	phys_addr_t phys;
	u64 cap;
	u32 prot;
	bool mmio;
};

/**
 * dlend_slot_of_memory - let a peer reach memory of the kernel's own, in a slot of its own
 * @ap: aperture
 * @mem: (in) whole pages, contiguous
 * @size: (in) bytes of it
 * @prot: (in) DLEND_PROT_*
 * @kind: (in) what for
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
 * Context: as dlend_slot_map_pages(). Return: as dlend_slot_map_pages(); -EOPNOTSUPP this IOMMU
 * driver cannot map BARs.
 */
int dlend_slot_map_phys(struct dlend_slot *slot, struct dlend_piece piece);

/**
 * dlend_slot_unmap - unmap a part of a slot, and flush the IOTLB
 * @slot: slot
 * @at: (in) where, bytes from the slot's beginning, page multiple
 * @size: (in) bytes, page multiple; holes are fine
 *
 * The rest stays in reach all the time, if the edges are multiples of 2 MiB, or edges of what was
 * mapped.  Only a gigantic page of the kernel is mapped by a larger IOMMU page: when a part of it
 * is unmapped, all of it is out of reach for a moment.
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
 * struct dlend_notifier_ops - called for changes in a notifier, with the aperture's lock held
 * @map: @piece is mapped now, @at bytes from the beginning of the notifier. All or nothing. NULL:
 *	the notifier is not told of new mappings
 * @unmap: @size bytes from @at on are being unmapped: the user does not reach them any more when
 *	this returns. It must not wait; there may be nothing mapped
 */
struct dlend_notifier_ops {
	int (*map)(struct dlend_notifier *notifier, u64 at, const struct dlend_piece *piece);
	void (*unmap)(struct dlend_notifier *notifier, u64 at, u64 size);
};

/**
 * struct dlend_notifier - a user that reaches a part of an aperture without its IOMMU in between
 * @node: the aperture's
 * @offset, @size: the part, in bytes
 * @ops: called for changes
 */
struct dlend_notifier {
	struct list_head node;
	u64 offset, size;
	const struct dlend_notifier_ops *ops;
};

/*
 * Domain of lent devices: one per IOMMU group.  It translates guest-physical addresses to physical
 * ones (in the window of the link towards the borrower).
 */
struct dlend_domain;

/**
 * dlend_domain_create - make a new, empty domain
 * @dev: a device of the IOMMU group; a reference is kept
 *
 * Context: process, may sleep.
 * Return: domain, not attached; ERR_PTR: -ENODEV no IOMMU; -ENOMEM; or the IOMMU's error.
 */
struct dlend_domain *dlend_domain_create(struct device *dev);

/**
 * dlend_domain_destroy - end all ranges of all owners, and free the domain
 * @dom: domain, blocked before
 *
 * Context: process, may sleep; takes the domain's lock.
 */
void dlend_domain_destroy(struct dlend_domain *dom);

/**
 * dlend_domain_attach - the group's devices translate by this domain from now on
 * @dom: domain; the group's DMA owner is claimed (iommu_device_claim_dma_owner())
 *
 * Where the IOMMU can enforce it, no device bypasses the CPU's caches (No Snoop) of the host whose
 * memory it reaches.
 * Context: process, may sleep; takes the domain's lock.
 * Return: 0; -EBUSY another owner has the group, or it is being reset; or the IOMMU's error.
 */
int dlend_domain_attach(struct dlend_domain *dom);

/**
 * dlend_domain_block - detach: the group's DMA is blocked when this returns
 * @dom: domain; a second call does nothing
 *
 * If the kernel does not let go of the domain (7.0 and 7.1, while a device that does ATS is being
 * reset), everything is unmapped in it, and dlend_domain_destroy() tries again.
 * Context: process, may sleep; takes the domain's lock.
 */
void dlend_domain_block(struct dlend_domain *dom);

/* What an owner maps: memory of the guest, or BARs of other devices. */
enum dlend_owner_kind { DLEND_OWNER_RAM, DLEND_OWNER_BAR, DLEND_OWNER_KINDS };

struct dlend_dma_range;

/**
 * struct dlend_owner - owner of ranges in a domain: a lent function, for RAM or for BARs
 * @claims: its ranges, private
 * @nr: how many
 * @kind: set by dlend_owner_init()
 * @lost: may be NULL: another owner gave up the range @r, for which @owner waited, but @r could not
 *	be mapped, so @owner does not have it any more. Called with the domain's lock held
 */
struct dlend_owner {
	struct list_head claims;
	unsigned int nr;
	enum dlend_owner_kind kind;
	void (*lost)(struct dlend_owner *owner, const struct dlend_dma_range *r);
};

/**
 * dlend_owner_init - an owner that owns nothing yet
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
 * struct dlend_dma_range - a range of the addresses that a device uses for DMA
 * @iova, @size: the range, whole pages
 * @prot: DLEND_PROT_*
 * @mmio: it leads to a BAR or a window, not to RAM
 * @phys: where it leads, if @ap is NULL
 * @hole, @hole_end: offsets in the range, nothing is mapped between; none if @hole_end <= @hole
 * @ap, @offset: a mirror: it has the same mappings as an aperture of this node has there
 * @thing, @part: identify the target. An equal range of another owner with the same target may lead
 *	there by another way. Both 0: the guest's memory, of which there is one at each address
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
 * @owner: owner; has no part of that range yet
 * @r: (in) range, copied
 *
 * If another owner of the same kind has exactly this range, and it is the same thing, @owner waits:
 * when the other owner's range goes, @r takes its place. If both lead to the same place, the IOMMU
 * is not touched then: transfers may be under way.
 *
 * A mirror (@r->ap) is for a device that is lent to a guest on its own host, where no window leads
 * to the guest's memory. Pages that are mapped in the aperture are mapped here too, and pages that
 * are unmapped there are unmapped here at once. The aperture must outlive the mirror.
 *
 * Context: process, may sleep; takes the domain's lock, and for a mirror the aperture's.
 * Return: 0; -EEXIST it overlaps another range, or one of the same owner; -EINVAL bad alignment:
 * a range of more than 1 GiB must fit pages of 2 MiB, so that no range takes long;
 * -ERANGE outside the domain's geometry or the aperture, or on a reserved region; -ENOSPC more
 * ranges than any guest needs; -ESHUTDOWN the domain was blocked; -ENOMEM; or the IOMMU's error.
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
 * The device does not reach them any more when this returns, except those that another owner has,
 * too. If the domain was blocked, they are unmapped when it is destroyed.
 * Context: process, may sleep, waits for no peer; takes the domain's lock.
 * Return: 0; -ENOENT there are none; -EINVAL bad alignment, or a range of @owner straddles an edge
 * (nothing is given up then).
 */
int dlend_domain_unmap(struct dlend_domain *dom, struct dlend_owner *owner, u64 iova, u64 size);

/**
 * dlend_domain_drop - an owner gives up everything, as by dlend_domain_unmap()
 * @dom: domain
 * @owner: owner
 *
 * If the domain was blocked, this is quick: nothing is unmapped before it is destroyed.
 * Context: process, may sleep; takes the domain's lock.
 */
void dlend_domain_drop(struct dlend_domain *dom, struct dlend_owner *owner);

/**
 * dlend_domain_bytes - how much owners of a kind have, each range once
 * @dom: domain
 * @kind: (in) kind of owner
 *
 * Context: process, may sleep; takes the domain's lock. Return: bytes.
 */
u64 dlend_domain_bytes(struct dlend_domain *dom, enum dlend_owner_kind kind);

/** dlend_domain_show - counters, for debugfs. Context: process; takes the domain's lock. */
void dlend_domain_show(struct dlend_domain *dom, struct seq_file *m);

#endif
