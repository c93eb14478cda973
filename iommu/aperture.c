// SPDX-License-Identifier: GPL-2.0
/*
 * Aperture: one range of IOVAs in an IOMMU domain of the NTB's function, which is cut into slots.
 * If this node is its own peer, there is no domain: only records of the mappings in each slot, and
 * notifiers, which are called when these change.
 *
 * Knows the IOMMU API and slots; neither NTB registers, nor VFIO, nor messages.
 */
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/types.h>
#include "aperture.h"
#include "maps.h"
#include "paging.h"
#include "slots.h"

#define CREATE_TRACE_POINTS
#include "iommu/trace.h"

/*
 * struct dlend_aperture - see dlend/aperture.h
 * @dev: device whose domain translates the peer's accesses, with a reference; NULL on the loop
 * @pg: the domain; NULL on the loop, and once detached. Written under @lock
 * @base: IOVA of offset 0
 * @size: bytes
 * @lock: guards all members below
 * @live: false once detached: slots are then only numbers
 * @maps: mappings, by IOVA
 * @notifiers: struct dlend_notifier: code that reaches a part without an IOMMU in between
 * @slots: offsets: free, in use, in quarantine
 */
struct dlend_aperture {
	struct device *dev;
	struct dlend_paging *pg;
	u64 base, size;
	struct mutex lock;		/* see above */
	bool live;
	struct dlend_maps maps;
	struct list_head notifiers;
	struct dlend_slots slots;
};

static bool dlend_unsafe_interrupts;
module_param_named(allow_unsafe_interrupts, dlend_unsafe_interrupts, bool, 0644);
MODULE_PARM_DESC(allow_unsafe_interrupts,
		 "Have links, and lend devices, without interrupt remapping, like VFIO's parameter of that name: each peer, and each borrower, can then make this host see any interrupt (read when a link comes up, and when a device is bound; default: off)");

static unsigned int dlend_p2p_window_percent = 50;
module_param_named(p2p_window_percent, dlend_p2p_window_percent, uint, 0644);
MODULE_PARM_DESC(p2p_window_percent, "how much of a window peer-to-peer may take; the rest is for RAM and BARs of guests");

/*
 * Bytes that a mirror maps or unmaps before it releases the lock for a moment: a thread that takes
 * memory away from a guest waits for that lock.
 */
#define DLEND_NOTIFIER_SHARE	SZ_32M

/* Whether a device can have an aperture, and where */

bool dlend_unsafe_interrupts_allowed(void)
{
	return READ_ONCE(dlend_unsafe_interrupts);
}
DLEND_EXPORT(dlend_unsafe_interrupts_allowed);

/*
 * Called for each device of the NTB's IOMMU group.  A device that a driver uses would lose its DMA
 * mappings when the group gets another domain; a bridge has none.  @ours: the NTB's function.
 * Return: 0; -EBUSY a driver uses the device
 */
static int dlend_aperture_other_user(struct device *dev, void *ours)
{
	if (dev == ours || !dev->driver)
		return 0;
	if (dev_is_pci(dev) && pci_is_bridge(to_pci_dev(dev)))
		return 0;
	return -EBUSY;
}

static bool dlend_aperture_interrupts_safe(struct iommu_group *group)
{
	return iommu_group_has_isolated_msi(group) || dlend_unsafe_interrupts_allowed();
}

bool dlend_aperture_hindered(struct device *dma_dev)
{
	struct iommu_group *group = iommu_group_get(dma_dev);
	bool hindered = group && (!dlend_aperture_interrupts_safe(group) ||
				  iommu_group_for_each_dev(group, dma_dev,
							   dlend_aperture_other_user));

	iommu_group_put(group);
	return hindered;
}

static int dlend_aperture_say_other_user(struct device *dev, void *ours)
{
	int err = dlend_aperture_other_user(dev, ours);

	if (!err)
		return 0;
	dev_err(ours, "shares its IOMMU group with %s, which a driver uses: move the NTB to another slot, or unbind that driver\n",
		dev_name(dev));
	return err;
}

/*
 * A write to 0xfee00000 is an interrupt; IOMMU domains do not translate it.  On most bridges a peer
 * can translate its window to there, because it reaches the bridge's registers.  So without
 * interrupt remapping the peer can raise any interrupt of this host, including NMI, SMI and INIT.
 */
static int dlend_aperture_check_interrupts(struct device *dev, struct iommu_group *group)
{
	if (!dlend_aperture_interrupts_safe(group)) {
		dev_err(dev, "no link: interrupt remapping is off, so its peer could make this host see any interrupt; turn it on in the firmware (interrupt remapping, x2APIC), or, if you trust all peers with this host, write Y to /sys/module/dlend_core/parameters/allow_unsafe_interrupts (at boot: options dlend_core allow_unsafe_interrupts=1)\n");
		return -EPERM;
	}
	if (!iommu_group_has_isolated_msi(group))
		dev_warn(dev, "interrupt remapping is off, and allow_unsafe_interrupts is on: its peer can make this host see any interrupt\n");
	return 0;
}

/* Can a device have a domain of its own?  If not, this logs the reason, and what to do. */
static int dlend_aperture_check_iommu(struct device *dev, struct iommu_group *group)
{
	struct iommu_domain *now = iommu_get_domain_for_dev(dev);

	if (!group || !now) {
		dev_err(dev, "no IOMMU translates its DMA, a peer could reach all memory: turn on VT-d or AMD-Vi in the firmware and boot with intel_iommu=on or amd_iommu=on\n");
		return -ENODEV;
	}
	if (now->type == IOMMU_DOMAIN_IDENTITY) {
		dev_err(dev, "its IOMMU group is in pass-through mode: boot with intel_iommu=on iommu.passthrough=0, without iommu=pt\n");
		return -ENODEV;
	}
	return iommu_group_for_each_dev(group, dev, dlend_aperture_say_other_user) ?:
	       dlend_aperture_check_interrupts(dev, group);
}

/*
 * Find IOVAs that are clear of reserved regions and of the host bridge's windows. @base: (out).
 * Return: 0; -ENOSPC, logged; or as dlend_paging_reserved().
 */
static int dlend_aperture_pick_base(struct device *dev, const struct dlend_paging *pg, u64 size,
				    u64 align, u64 *base)
{
	u64 first = max_t(u64, pg->first, SZ_1M);
	struct dlend_span_want want = {
		.in.first = max_t(u64, first, SZ_4G),
		.in.last = pg->shared ? pg->last : min_t(u64, pg->last, dma_get_mask(dev)),
		.size = size,
		/*
		 * Some bridges need this alignment without saying so (Switchtec), and it lets the
		 * IOMMU use large pages.
		 */
		.align = max_t(u64, align, roundup_pow_of_two(size)),
	};
	struct dlend_span *busy;
	int n, err;

	n = dlend_paging_reserved(dev, true /* windows, too */, &busy);
	if (n < 0)
		return n;
	/* Above 4 GiB there is more room. If the IOMMU's addresses end before, try below. */
	err = dlend_span_pick(busy, n, &want, base);
	if (err && !pg->shared) {
		want.in.first = first;
		/* Slots are cut at the borders of large pages. */
		want.align = max_t(u64, align, size >= SZ_2M ? SZ_2M : PAGE_SIZE);
		err = dlend_span_pick(busy, n, &want, base);
	}
	kfree(busy);
	if (err)
		dev_err(dev, "no free IOVA range of %llu MiB up to %llx: make the NTB window smaller in the firmware\n",
			size >> 20, want.in.last);
	return err;
}

/* An aperture is made and destroyed */

/* Put the aperture into a new domain, or @shared into the DMA API's. Return: 0; -errno, logged. */
static int dlend_aperture_attach_domain(struct dlend_aperture *ap, u64 align, bool shared)
{
	int err;

	ap->pg = shared ? dlend_paging_share(ap->dev) : dlend_paging_create(ap->dev);
	if (IS_ERR(ap->pg)) {
		err = PTR_ERR(ap->pg);
		ap->pg = NULL;
		dev_err(ap->dev, "IOMMU gave no domain (%d)\n", err);
		return err;
	}
	dlend_maps_init(&ap->maps, ap->pg);
	err = dlend_aperture_pick_base(ap->dev, ap->pg, ap->size, align, &ap->base);
	if (err)
		goto free_domain;
	/* The NTB's driver is limited to IOVAs below 4 GiB, but only since dlend_paging_share(). */
	if (ap->pg->shared && !dlend_paging_empty(ap->pg, ap->base, ap->size)) {
		dev_err(ap->dev, "its driver has DMA memory above 4 GiB, where the aperture would be: boot without iommu.forcedac=1\n");
		err = -EADDRINUSE;
		goto free_domain;
	}
	err = ap->pg->ops->attach(ap->pg);
	if (err) {
		dev_err(ap->dev, "its IOMMU group cannot be given a domain (%d)%s\n", err,
			err == -EBUSY ? ": another driver (VFIO?) has it, or a reset" : "");
		goto free_domain;
	}
	if (!ap->pg->coherent)
		dev_info(ap->dev, "its IOMMU cannot enforce cache coherency (no snoop control): No Snoop requests of a peer's device bypass the caches of this host; lenders turn No Snoop off, see docs/hardware.md\n");
	return 0;

free_domain:
	dlend_paging_put(ap->pg);
	ap->pg = NULL;
	return err;
}

static int dlend_aperture_attach(struct dlend_aperture *ap, struct device *dma_dev, u64 align,
				 bool shared)
{
	struct iommu_group *group = iommu_group_get(dma_dev);
	int err;

	ap->dev = get_device(dma_dev);
	err = dlend_aperture_check_iommu(dma_dev, group);
	if (!err)
		err = dlend_aperture_attach_domain(ap, align, shared);
	iommu_group_put(group);
	if (err)
		put_device(ap->dev);
	return err;
}

struct dlend_aperture *dlend_aperture_create(struct device *dma_dev, u64 size, u64 align,
					     bool shared)
{
	struct dlend_aperture *ap;
	int err;

	if (!size || !PAGE_ALIGNED(size) || (align && !is_power_of_2(align)))
		return ERR_PTR(-EINVAL);
	ap = kzalloc_obj(*ap);
	if (!ap)
		return ERR_PTR(-ENOMEM);
	ap->size = size;
	mutex_init(&ap->lock);
	INIT_LIST_HEAD(&ap->notifiers);
	dlend_maps_init(&ap->maps, NULL);
	err = dlend_slots_init(&ap->slots, size);
	if (!err && dma_dev)
		err = dlend_aperture_attach(ap, dma_dev, align, shared);
	if (err) {
		dlend_slots_exit(&ap->slots);
		kfree(ap);
		return ERR_PTR(err);
	}
	ap->live = true;
	return ap;
}

/* Under the lock. When this returns, the peer does not reach the range. Return: bytes unmapped */
static u64 dlend_aperture_unmap_range(struct dlend_aperture *ap, u64 offset, u64 size)
{
	dlend_notifiers_unmap(&ap->notifiers, offset, size);
	return dlend_maps_del(&ap->maps, ap->base + offset, size);
}

void dlend_aperture_detach(struct dlend_aperture *ap)
{
	struct dlend_paging *pg;

	mutex_lock(&ap->lock);
	if (ap->live)
		dlend_aperture_unmap_range(ap, 0, ap->size);
	ap->live = false;
	pg = ap->pg;
	ap->pg = NULL;
	ap->maps.pg = NULL;
	mutex_unlock(&ap->lock);
	if (!pg)
		return;
	/* Without the lock: this takes an IOMMU group's mutex, which comes before the lock. */
	if (!dlend_paging_end(pg))
		dev_err(ap->dev, "the kernel does not give up its IOMMU domain: left in place, empty\n");
	put_device(ap->dev);
}

void dlend_aperture_destroy(struct dlend_aperture *ap)
{
	struct dlend_aperture_stat st = {};
	unsigned int i;

	dlend_aperture_detach(ap);
	dlend_slots_sum(&ap->slots, &st);
	for (i = 0; i < DLEND_SLOT_KINDS; i++)
		WARN(st.slots[i], "dlend: %u slots of kind %u in use\n", st.slots[i], i);
	WARN(!list_empty(&ap->notifiers), "dlend: somebody still has a notifier of an aperture\n");
	dlend_slots_exit(&ap->slots);
	mutex_destroy(&ap->lock);
	kfree(ap);
}

dma_addr_t dlend_aperture_base(const struct dlend_aperture *ap)
{
	return ap->base;
}

u64 dlend_aperture_size(const struct dlend_aperture *ap)
{
	return ap->size;
}

void dlend_aperture_limit(struct dlend_aperture *ap, u64 bytes)
{
	guard(mutex)(&ap->lock);
	dlend_slots_limit(&ap->slots, bytes);
}

/* Slots */

/* Add up the slots and mappings. Under the lock. */
static struct dlend_aperture_stat dlend_aperture_sum(const struct dlend_aperture *ap)
{
	struct dlend_aperture_stat st = { .size = ap->slots.limit, .pages = ap->maps.pages };

	dlend_slots_sum(&ap->slots, &st);
	st.p2p_limit = dlend_slots_share(&ap->slots, READ_ONCE(dlend_p2p_window_percent));
	return st;
}

/* Under the lock. Return: as dlend_slot_alloc(). */
static int dlend_slot_take(struct dlend_aperture *ap, struct dlend_slot_want want,
			   struct dlend_slot **slot)
{
	struct dlend_aperture_stat st;
	int err = dlend_slots_alloc(&ap->slots, want, slot);

	if (err)
		return err;
	/*
	 * Does peer-to-peer have more than its share now?  Slots in quarantine count, too.  This is
	 * checked last: if there is no room at all, the error is -ENOSPC.
	 */
	st = dlend_aperture_sum(ap);
	if (want.kind == DLEND_SLOT_P2P && st.bytes[want.kind] > st.p2p_limit) {
		dlend_slots_free(&ap->slots, *slot);
		return -EDQUOT;
	}
	(*slot)->ap = ap;
	return 0;
}

struct dlend_slot *dlend_slot_alloc(struct dlend_aperture *ap, u64 size, u64 align, u64 phase,
				    enum dlend_slot_kind kind)
{
	struct dlend_slot_want want = {
		.size = size, .align = align, .phase = phase, .kind = kind,
	};
	struct dlend_slot *slot;
	int err;

	if (kind >= DLEND_SLOT_KINDS)
		return ERR_PTR(-EINVAL);
	mutex_lock(&ap->lock);
	err = dlend_slot_take(ap, want, &slot);
	mutex_unlock(&ap->lock);
	trace_dlend_slot_alloc(kind, err ? 0 : slot->offset, size, 0, err);
	return err ? ERR_PTR(err) : slot;
}
DLEND_EXPORT(dlend_slot_alloc);

/* Under the lock. Unmap a part of a slot. After a detach nothing is mapped any more. */
static void dlend_slot_unmap_part(struct dlend_slot *slot, u64 at, u64 size)
{
	u64 done, offset = slot->offset + at;

	if (!slot->ap->live)
		return;
	done = dlend_aperture_unmap_range(slot->ap, offset, size);
	trace_dlend_window_unmap(slot->kind, offset, size, 0, done);
}

u64 dlend_slot_free(struct dlend_slot *slot, bool acked)
{
	struct dlend_aperture *ap = slot->ap;
	u64 cookie;

	guard(mutex)(&ap->lock);
	dlend_slot_unmap_part(slot, 0, slot->size);
	cookie = acked ? 0 : ap->slots.cookie + 1;
	trace_dlend_slot_free(slot->kind, slot->offset, slot->size, 0, cookie);
	/* Both fail only if the slot is not in use. */
	WARN_ON(acked ? dlend_slots_free(&ap->slots, slot) :
			!dlend_slots_quarantine(&ap->slots, slot));
	return cookie;
}
DLEND_EXPORT(dlend_slot_free);

void dlend_slot_release(struct dlend_aperture *ap, u64 cookie)
{
	guard(mutex)(&ap->lock);
	dlend_slots_release(&ap->slots, cookie);
}
DLEND_EXPORT(dlend_slot_release);

void dlend_aperture_release_all(struct dlend_aperture *ap)
{
	guard(mutex)(&ap->lock);
	dlend_slots_release_all(&ap->slots);
}

static bool dlend_slot_inside(const struct dlend_slot *slot, u64 at, u64 size)
{
	return size && at < slot->size && size <= slot->size - at;
}

/*
 * Size of the largest IOMMU page that may be used for a mapping, 0: any.
 *
 * A guest's memory is unmapped region by region, when a DIMM is unplugged, or when firmware remaps
 * memory.  Edges of regions are multiples of 2 MiB, except for regions that firmware makes before
 * any device is in use.  To unmap a part of a larger IOMMU page, all of that page has to be
 * unmapped for a moment, and a device that accesses the rest of the page in that moment gets a
 * fault.  So no IOMMU page is larger than 2 MiB.  A gigantic page of the kernel is the exception:
 * it belongs to one region of the guest.
 */
static u64 dlend_aperture_largest_page(phys_addr_t phys, u64 size, bool mmio)
{
	struct folio *folio;

	if (mmio || size <= SZ_2M)
		return 0;
	if (size < SZ_1G || !pfn_valid(PHYS_PFN(phys)))
		return SZ_2M;
	folio = page_folio(pfn_to_page(PHYS_PFN(phys)));
	if (folio_size(folio) < SZ_1G ||
	    phys + size > PFN_PHYS(folio_pfn(folio)) + folio_size(folio))
		return SZ_2M;
	return SZ_1G;
}

/* Under the lock. @piece: its offset counts in the aperture; its cap is set here. */
static int dlend_aperture_map(struct dlend_aperture *ap, struct dlend_piece piece)
{
	int err;

	if (!ap->live)
		return -ENODEV;
	piece.cap = dlend_aperture_largest_page(piece.phys, piece.size, piece.mmio);
	piece.offset += ap->base;
	err = dlend_maps_add(&ap->maps, &piece);
	if (err)
		return err;
	piece.offset -= ap->base;
	err = dlend_notifiers_map(&ap->notifiers, &piece);
	if (err)
		dlend_maps_del(&ap->maps, ap->base + piece.offset, piece.size);
	return err;
}

/* How many pages from @i on are contiguous in physical memory? */
static unsigned long dlend_aperture_run_length(const struct dlend_pages *ram, unsigned long i)
{
	unsigned long n = 1;

	while (i + n < ram->npages &&
	       page_to_pfn(ram->pages[i + n]) == page_to_pfn(ram->pages[i]) + n)
		n++;
	return n;
}

int dlend_slot_map_pages(struct dlend_slot *slot, u64 at, const struct dlend_pages *ram)
{
	struct dlend_aperture *ap = slot->ap;
	u64 offset = slot->offset + at;
	unsigned long i, n;
	int err = 0;

	if (ram->npages > slot->size >> PAGE_SHIFT || !PAGE_ALIGNED(at) ||
	    !dlend_slot_inside(slot, at, (u64)ram->npages << PAGE_SHIFT))
		return -EINVAL;
	mutex_lock(&ap->lock);
	for (i = 0; i < ram->npages && !err; i += n) {
		n = dlend_aperture_run_length(ram, i);
		err = dlend_aperture_map(ap, (struct dlend_piece) {
			.offset = offset + ((u64)i << PAGE_SHIFT),
			.size = (u64)n << PAGE_SHIFT,
			.phys = page_to_phys(ram->pages[i]),
			.prot = ram->prot,
		});
		if (err)
			break;
	}
	if (err && i)
		dlend_slot_unmap_part(slot, at, (u64)i << PAGE_SHIFT);
	mutex_unlock(&ap->lock);
	trace_dlend_window_map(slot->kind, offset, (u64)ram->npages << PAGE_SHIFT, ram->prot, err);
	return err;
}
DLEND_EXPORT(dlend_slot_map_pages);

int dlend_slot_map_phys(struct dlend_slot *slot, struct dlend_piece piece)
{
	struct dlend_aperture *ap = slot->ap;
	int err;

	if (!dlend_slot_inside(slot, piece.offset, piece.size))
		return -EINVAL;
	piece.offset += slot->offset;
	mutex_lock(&ap->lock);
	err = dlend_aperture_map(ap, piece);
	mutex_unlock(&ap->lock);
	trace_dlend_window_map(slot->kind, piece.offset, piece.size, piece.prot, err);
	return err;
}
DLEND_EXPORT(dlend_slot_map_phys);

struct dlend_slot *dlend_slot_of_memory(struct dlend_aperture *ap, void *mem, u64 size,
					u32 prot, enum dlend_slot_kind kind)
{
	struct dlend_slot *slot = dlend_slot_alloc(ap, size, 0, 0, kind);
	int err;

	if (IS_ERR(slot))
		return slot;
	err = dlend_slot_map_phys(slot, (struct dlend_piece) {
		.size = size,
		.phys = virt_to_phys(mem),
		.prot = prot,
	});
	if (!err)
		return slot;
	dlend_slot_free(slot, true /* the peer does not know the offsets */);
	return ERR_PTR(err);
}

void dlend_slot_unmap(struct dlend_slot *slot, u64 at, u64 size)
{
	if (WARN_ON_ONCE(!dlend_slot_inside(slot, at, size)))
		return;
	guard(mutex)(&slot->ap->lock);
	dlend_slot_unmap_part(slot, at, size);
}
DLEND_EXPORT(dlend_slot_unmap);

/* Notifiers and mirrors */

static bool dlend_aperture_inside(const struct dlend_aperture *ap, u64 offset, u64 size)
{
	return size && PAGE_ALIGNED(offset | size) && offset < ap->size &&
	       size <= ap->size - offset;
}

/* Under the lock. The first mapped piece in @offset..@end. Return: is there one? */
static bool dlend_aperture_next_piece(struct dlend_aperture *ap, u64 offset, u64 end,
				      struct dlend_piece *piece)
{
	if (offset >= end || !dlend_maps_next(&ap->maps, ap->base + offset, ap->base + end - 1,
					      piece))
		return false;
	piece->offset -= ap->base;
	return true;
}

/*
 * Under the lock.  Is the notifier's part mapped contiguously, to a BAR (@mmio) or to RAM?  A BAR
 * may have holes.  @phys: (out) physical address that the part's first byte is, or would be, mapped
 * to
 */
static int dlend_aperture_look(struct dlend_aperture *ap, const struct dlend_notifier *notifier,
			       bool mmio,
			       phys_addr_t *phys)
{
	u64 offset = notifier->offset, size = notifier->size;
	u64 at = offset, end = offset + size, seen = 0;
	struct dlend_piece piece;

	for (; dlend_aperture_next_piece(ap, at, end, &piece); at = piece.offset + piece.size) {
		if (piece.mmio != mmio)
			return -ERANGE;
		if (!seen)
			*phys = piece.phys - (piece.offset - offset);
		else if (*phys != piece.phys - (piece.offset - offset))
			return -ERANGE;
		seen += piece.size;
	}
	return seen && (mmio || seen == size) ? 0 : -ERANGE;
}

int dlend_notifier_register(struct dlend_aperture *ap, struct dlend_notifier *notifier, bool mmio,
			    phys_addr_t *phys)
{
	int err = 0;

	if (!dlend_aperture_inside(ap, notifier->offset, notifier->size))
		return -ERANGE;
	guard(mutex)(&ap->lock);
	if (!ap->live)
		return -ENODEV;
	if (phys)
		err = dlend_aperture_look(ap, notifier, mmio, phys);
	if (!err)
		list_add_tail(&notifier->node, &ap->notifiers);
	return err;
}

void dlend_notifier_unregister(struct dlend_aperture *ap, struct dlend_notifier *notifier)
{
	guard(mutex)(&ap->lock);
	list_del(&notifier->node);
}

/*
 * Under the lock.  Extend @notifier, and map into it, until it ends at @end or DLEND_NOTIFIER_SHARE
 * bytes were mapped.  It grows by whole pieces, so that no large page is cut.  Return: 0; or the
 * error of map(): then all of its part was unmapped.
 */
static int dlend_notifier_grow(struct dlend_aperture *ap, struct dlend_notifier *notifier, u64 end)
{
	u64 from = notifier->offset + notifier->size, at = from;
	struct dlend_piece piece;
	int err = 0;

	while (!err && at - from < DLEND_NOTIFIER_SHARE &&
	       dlend_aperture_next_piece(ap, at, end, &piece)) {
		err = notifier->ops->map(notifier, piece.offset - notifier->offset, &piece);
		if (!err)
			at = piece.offset + piece.size;
	}
	/* From now on map() is called for new mappings in this part, too. */
	notifier->size = (at - from < DLEND_NOTIFIER_SHARE ? end : at) - notifier->offset;
	if (!err)
		return 0;
	notifier->ops->unmap(notifier, 0, at - notifier->offset);
	notifier->size = 0;
	return err;
}

void dlend_aperture_unmirror(struct dlend_aperture *ap, struct dlend_notifier *notifier)
{
	bool more;

	do {
		mutex_lock(&ap->lock);
		more = dlend_notifier_shrink(notifier, DLEND_NOTIFIER_SHARE);
		if (!more)
			list_del(&notifier->node);
		mutex_unlock(&ap->lock);
		cond_resched();
	} while (more);
}

int dlend_aperture_mirror(struct dlend_aperture *ap, struct dlend_notifier *notifier, u64 offset,
			  u64 size)
{
	int err;

	if (!dlend_aperture_inside(ap, offset, size))
		return -ERANGE;
	notifier->offset = offset;
	notifier->size = 0;
	mutex_lock(&ap->lock);
	list_add_tail(&notifier->node, &ap->notifiers);
	mutex_unlock(&ap->lock);
	do {
		mutex_lock(&ap->lock);
		err = dlend_notifier_grow(ap, notifier, offset + size);
		mutex_unlock(&ap->lock);
		cond_resched();
	} while (!err && notifier->size < size);
	if (err)
		dlend_notifier_unregister(ap, notifier);
	return err;
}

struct dlend_paging *dlend_aperture_paging(struct dlend_aperture *ap)
{
	guard(mutex)(&ap->lock);
	if (!ap->live)
		return ERR_PTR(-ENODEV);
	return ap->pg ? dlend_paging_get(ap->pg) : ERR_PTR(-EOPNOTSUPP);
}

struct dlend_aperture_stat dlend_aperture_stat(struct dlend_aperture *ap)
{
	if (!ap)
		return (struct dlend_aperture_stat) {};
	guard(mutex)(&ap->lock);
	return dlend_aperture_sum(ap);
}
DLEND_EXPORT(dlend_aperture_stat);

void dlend_aperture_show(struct dlend_aperture *ap, struct seq_file *m)
{
	struct dlend_aperture_stat st = dlend_aperture_stat(ap);

	seq_printf(m, "aperture_base: %llx\nquarantined_bytes: %llu\n", ap->base, st.quarantined);
	seq_printf(m, "p2p_bytes: %llu\np2p_limit_bytes: %llu\n", st.bytes[DLEND_SLOT_P2P],
		   st.p2p_limit);
	guard(mutex)(&ap->lock);
	seq_printf(m, "coherent: %d\n", ap->pg && ap->pg->coherent);
	dlend_maps_show(&ap->maps, m);
}
