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

/* Why a slot exists: shown in debugfs and sysfs. */
enum dlend_slot_kind { DLEND_SLOT_CTRL, DLEND_SLOT_RAM, DLEND_SLOT_BAR, DLEND_SLOT_IRQ,
		       DLEND_SLOT_P2P, DLEND_SLOT_KINDS };

/**
 * struct dlend_slot - an allocated range of offsets
 * @offset: first byte, offset in the aperture
 * @size: bytes, page multiple
 * @kind: what for
 *
 * Owned by the aperture; valid from dlend_slot_alloc() to dlend_slot_free() or
 * dlend_slot_quarantine().
 */
struct dlend_slot {
	u64 offset;
	u64 size;
	enum dlend_slot_kind kind;
};

/* Usage, in bytes, of what the peer reaches; pages mapped by size. */
struct dlend_aperture_stat {
	u64 size, free, largest_free, quarantined;
	u64 p2p, p2p_limit;		/* DLEND_SLOT_P2P, also in quarantine; at most */
	u32 slots[DLEND_SLOT_KINDS];
	u64 mapped_4k, mapped_2m, mapped_1g;	/* pages of the IOMMU, as far as known */
};

/**
 * dlend_aperture_create - make an empty aperture for a DMA device
 * @dma_dev: whose accesses arrive (the NTB function: ntb_get_dma_dev()); NULL: this node itself is
 *	the peer, nobody's accesses arrive, and what is mapped is reached by views only
 * @size: bytes wanted, as the NTB window has
 * @align: alignment of the base that the window needs, in bytes
 *
 * Own domain (iommu_paging_domain_alloc + iommu_attach_group), IOVA clear of reserved regions
 * and host-bridge windows (docs/architecture.md). Context: process, may sleep.
 * Return: aperture, or ERR_PTR: -ENODEV no translating IOMMU (message says what to do),
 * -EBUSY a driver uses another device of the group (message says which), or has the group,
 * -ENOSPC, -ENOMEM, -EOPNOTSUPP (architecture).
 */
struct dlend_aperture *dlend_aperture_create(struct device *dma_dev, u64 size, u64 align);

/** dlend_aperture_destroy - unmap everything, detach; no slot may be in use. May sleep. */
void dlend_aperture_destroy(struct dlend_aperture *ap);

/** dlend_aperture_base - bus address of offset 0, for ntb_mw_set_trans() */
dma_addr_t dlend_aperture_base(const struct dlend_aperture *ap);
u64 dlend_aperture_size(const struct dlend_aperture *ap);

/**
 * dlend_slot_alloc - reserve offsets
 * @ap: aperture
 * @size: bytes, rounded up to pages
 * @align: power of two, bytes; 0 = page
 * @phase: wanted offset modulo @align (a guest RAM extent keeps its GPA mod 2 MiB), page multiple
 * @kind: what for
 *
 * Peer-to-peer is what guests can do without: its slots together get no more than
 * dlend_core.p2p_window_percent of an aperture, so that they never take the room that the RAM or
 * the BARs of another guest need. Slots in quarantine count until they are released.
 *
 * Context: process. Return: slot or ERR_PTR(-ENOSPC / -EDQUOT (peer-to-peer has its share) /
 * -ENOMEM / -EINVAL).
 */
struct dlend_slot *dlend_slot_alloc(struct dlend_aperture *ap, u64 size, u64 align, u64 phase,
				    enum dlend_slot_kind kind);

/** dlend_slot_free - unmaps what is left, offsets can be used again at once. Process context. */
void dlend_slot_free(struct dlend_aperture *ap, struct dlend_slot *slot);

/**
 * dlend_slot_quarantine - unmap now, reuse later
 *
 * For a slot whose peer may still have the offsets: unmapped (and the IOTLB flushed) when this
 * returns, but not allocated again before dlend_slot_release(@cookie) or a new session
 * (dlend_aperture_release_all()); at once, if a session has begun since it was allocated.
 * Return: cookie > 0. Process context, does not wait for a peer.
 */
u64 dlend_slot_quarantine(struct dlend_aperture *ap, struct dlend_slot *slot);
void dlend_slot_release(struct dlend_aperture *ap, u64 cookie);
void dlend_aperture_release_all(struct dlend_aperture *ap);

/**
 * dlend_slot_map_pages - map pages of RAM
 * @at: byte offset in the slot, page multiple
 * @pages: page array, physically contiguous runs are merged so that the IOMMU can use large pages
 * @prot: DLEND_PROT_* (what the peer's device may do)
 *
 * Return: 0 or -errno with nothing mapped of this call.
 */
int dlend_slot_map_pages(struct dlend_aperture *ap, struct dlend_slot *slot, u64 at,
			 struct page **pages, unsigned long npages, u32 prot);

/** dlend_slot_map_phys - map MMIO (@mmio, a BAR) or RAM by physical address; else as above */
int dlend_slot_map_phys(struct dlend_aperture *ap, struct dlend_slot *slot, u64 at,
			phys_addr_t phys, u64 size, u32 prot, bool mmio);

/**
 * dlend_slot_unmap - unmap a part, IOTLB flushed at return; unmapped holes are fine
 *
 * What lies outside is reached all the time, as long as the edges are multiples of 2 MiB, or
 * edges of what was mapped: RAM is mapped with larger IOMMU pages only where it is one gigantic
 * page of the kernel, and that is interrupted for a moment when a part of it goes.
 */
void dlend_slot_unmap(struct dlend_aperture *ap, struct dlend_slot *slot, u64 at, u64 size);

void dlend_aperture_stat(struct dlend_aperture *ap, struct dlend_aperture_stat *st);
void dlend_aperture_show(struct dlend_aperture *ap, struct seq_file *m);

/**
 * struct dlend_piece - a part of an aperture that is mapped contiguously
 * @offset, @size: where, in the aperture
 * @phys: what is there, @mmio or RAM
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

struct dlend_view;

/**
 * struct dlend_view_ops - what a view does about changes; called with the aperture's lock held
 * @map: @piece is mapped now, @at bytes from the beginning of the view. All or nothing. NULL: what
 *	is mapped later is of no interest
 * @unmap: @size bytes from @at on are going: nothing of them is reached when this returns. Waits
 *	for nobody; may find nothing there
 */
struct dlend_view_ops {
	int (*map)(struct dlend_view *view, u64 at, const struct dlend_piece *piece);
	void (*unmap)(struct dlend_view *view, u64 at, u64 size);
};

/**
 * struct dlend_view - who reaches a part of an aperture with no IOMMU of the aperture in between
 * @node, @offset, @size: the aperture's
 */
struct dlend_view {
	struct list_head node;
	u64 offset, size;
	const struct dlend_view_ops *ops;
};

/*
 * Domain of lent devices: one per IOMMU group, guest-physical addresses to physical ones (the
 * window of the link towards the borrower).
 */
struct dlend_domain;

/** dlend_domain_create - new empty domain fit for @dev's group; not attached */
struct dlend_domain *dlend_domain_create(struct device *dev);
/** dlend_domain_destroy - all owners lose all of it, then it is freed. Blocked before, may sleep */
void dlend_domain_destroy(struct dlend_domain *dom);
/**
 * dlend_domain_attach - devices of the group translate by @dom from now on
 *
 * DMA owner must be claimed (iommu_device_claim_dma_owner). No device passes by the caches of the
 * host whose memory it reaches, where the IOMMU can see to that.
 */
int dlend_domain_attach(struct dlend_domain *dom);
/**
 * dlend_domain_block - detach: the group's DMA is blocked when this returns. Idempotent.
 *
 * If the kernel does not let go of the domain (7.0 and 7.1, while a device that does ATS is being
 * reset), everything is unmapped in it, and dlend_domain_destroy() tries again.
 */
void dlend_domain_block(struct dlend_domain *dom);
/* What an owner maps: memory of the guest, or BARs of other devices. */
enum dlend_owner_kind { DLEND_OWNER_RAM, DLEND_OWNER_BAR, DLEND_OWNER_KINDS };

struct dlend_dma_range;

/**
 * struct dlend_owner - who maps something in a domain: a part of each function that is lent
 * @claims: its ranges, private
 * @nr: how many
 * @kind: set by dlend_owner_init()
 * @lost: may be NULL: @r was to take another owner's place and could not be mapped, @owner has it
 *	no more. Within a call about that other owner, with the domain's lock held
 */
struct dlend_owner {
	struct list_head claims;
	unsigned int nr;
	enum dlend_owner_kind kind;
	void (*lost)(struct dlend_owner *owner, const struct dlend_dma_range *r);
};

/** dlend_owner_init - owns nothing yet */
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
 * @hole, @hole_end: offsets in it between which nothing is mapped; none if @hole_end <= @hole
 * @ap, @offset: a mirror: it leads to what an aperture of this node has there, now and later
 * @thing, @part: what it is, to those who map it; an equal range of another owner that is the same
 *	may lead there by another way. 0: of the guest's memory there is one at each address
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
 * dlend_domain_map - @owner has a range, all of it or nothing
 * @owner: has no part of that range yet
 * @r: copied
 *
 * If another owner of the same kind has exactly this range, and it is the same thing, @owner waits:
 * when that one goes, @r takes its place. If both lead to the same, the IOMMU is not touched then:
 * transfers may be under way.
 *
 * A mirror is for a device that is lent to a guest on its own host, where no window leads to the
 * guest's memory: pages that the aperture gets are mapped here too, and pages that it loses are
 * lost here at once; the aperture must outlive it.
 *
 * Context: process, may sleep. Return: 0; -EEXIST it meets another range, or one of the same owner;
 * -EINVAL bad alignment; -ERANGE outside the domain's geometry or the aperture, or on a reserved
 * region; -ENOSPC more ranges than any guest needs; -ESHUTDOWN the domain was blocked; -ENOMEM; or
 * the IOMMU's error.
 */
int dlend_domain_map(struct dlend_domain *dom, struct dlend_owner *owner,
		     const struct dlend_dma_range *r);
/**
 * dlend_domain_unmap - @owner gives up all its ranges that lie inside
 *
 * The device does not reach them any more when this returns, but for those that another owner has,
 * too; where the domain was blocked, they are unmapped at its end. Context: process, may sleep;
 * waits for nobody.
 * Return: 0; -ENOENT if none; -EINVAL bad alignment, or one of @owner's straddles an edge (nothing
 * is given up then).
 */
int dlend_domain_unmap(struct dlend_domain *dom, struct dlend_owner *owner, u64 iova, u64 size);
/**
 * dlend_domain_drop - @owner gives up everything, as by dlend_domain_unmap()
 *
 * Where the domain was blocked nothing is unmapped before its end: this is quick then.
 */
void dlend_domain_drop(struct dlend_domain *dom, struct dlend_owner *owner);
/** dlend_domain_bytes - how much owners of a kind have, each range once. Process context */
u64 dlend_domain_bytes(struct dlend_domain *dom, enum dlend_owner_kind kind);
void dlend_domain_show(struct dlend_domain *dom, struct seq_file *m);

#endif
