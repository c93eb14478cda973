// SPDX-License-Identifier: GPL-2.0
/*
 * Aperture: an IOMMU domain of its own for the NTB function, one IOVA range in it, cut into slots.
 * Or, where this node is its own peer, only the book of what is in which slot, and views of it.
 *
 * Knows the IOMMU API and slots; neither NTB registers, nor VFIO, nor messages.
 */
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/mm.h>
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
#include "view.h"

#define CREATE_TRACE_POINTS
#include "iommu/trace.h"

/*
 * struct dlend_aperture - see dlend/aperture.h
 * @dev: whose accesses arrive, NULL if nobody's
 * @pg: its domain, NULL if nobody's accesses arrive
 * @coherent: no access of the peer passes by this host's caches (No Snoop)
 * @live: false once detached: slots are then only numbers
 * @lock: everything below
 *
 * Ops of views run under @lock, so it comes before any lock that they take, such as the one behind
 * which a guest's BARs are unmapped.
 */
struct dlend_aperture {
	struct device *dev;
	struct dlend_paging *pg;
	bool coherent;
	u64 base, size;
	struct mutex lock;		/* live, maps, views, slots, nr */
	bool live;
	struct dlend_maps maps;
	struct list_head views;
	struct dlend_slots slots;
	u32 nr[DLEND_SLOT_KINDS];
};

unsigned int dlend_p2p_window_percent = 50;

/* Bytes that a new view gets at a time. */
#define VIEW_SHARE	SZ_32M

struct slot {
	struct dlend_slot pub;
	struct dlend_extent *ext;
};

static struct slot *to_slot(struct dlend_slot *pub)
{
	return container_of(pub, struct slot, pub);
}

/* A device of the group that a driver uses beside ours would lose its DMA mappings. */
static int other_user(struct device *dev, void *ours)
{
	if (dev == ours || !dev->driver)
		return 0;
	if (dev_is_pci(dev) && pci_is_bridge(to_pci_dev(dev)))
		return 0;
	return -EBUSY;
}

bool dlend_aperture_group_busy(struct device *dma_dev)
{
	struct iommu_group *group = iommu_group_get(dma_dev);
	int err = group ? iommu_group_for_each_dev(group, dma_dev, other_user) : 0;

	iommu_group_put(group);
	return err;
}

static int say_other_user(struct device *dev, void *ours)
{
	int err = other_user(dev, ours);

	if (!err)
		return 0;
	dev_err(ours, "shares its IOMMU group with %s, which a driver uses: move the NTB to another slot, or unbind that driver\n",
		dev_name(dev));
	return err;
}

static int check_iommu(struct device *dev, struct iommu_group *group)
{
	struct iommu_domain *now = iommu_get_domain_for_dev(dev);

	if (!IS_ENABLED(CONFIG_X86)) {
		dev_err(dev, "apertures exist on x86 only: elsewhere the device's MSIs go through the domain that an aperture replaces\n");
		return -EOPNOTSUPP;
	}
	if (!group || !now) {
		dev_err(dev, "no IOMMU translates its DMA, a peer could reach all memory: turn on VT-d or AMD-Vi in the firmware and boot with intel_iommu=on or amd_iommu=on\n");
		return -ENODEV;
	}
	if (now->type == IOMMU_DOMAIN_IDENTITY) {
		dev_err(dev, "its IOMMU group is in pass-through mode: boot with intel_iommu=on iommu.passthrough=0, without iommu=pt\n");
		return -ENODEV;
	}
	return iommu_group_for_each_dev(group, dev, say_other_user);
}

/* As large an alignment as the size deserves, so that the IOMMU can use large pages. */
static u64 base_align(u64 size, u64 align)
{
	if (size >= SZ_1G)
		return max_t(u64, align, SZ_1G);
	return max_t(u64, align, size >= SZ_2M ? SZ_2M : PAGE_SIZE);
}

static int pick_base(struct dlend_aperture *ap, u64 align)
{
	u64 first = max_t(u64, ap->pg->first, SZ_1M);
	u64 last = min_t(u64, ap->pg->last, dma_get_mask(ap->dev));
	struct dlend_range *busy;
	int n, err;

	n = dlend_paging_reserved(ap->dev, true, &busy);
	if (n < 0)
		return n;
	/* Below 4 GiB is crowded; above it first, below it if the IOMMU is narrow. */
	err = dlend_range_pick(busy, n, max_t(u64, first, SZ_4G), last, ap->size,
			       base_align(ap->size, align), &ap->base);
	if (err)
		err = dlend_range_pick(busy, n, first, last, ap->size,
				       max_t(u64, align, PAGE_SIZE), &ap->base);
	kfree(busy);
	if (err)
		dev_err(ap->dev, "no free IOVA range of %llu MiB up to %llx: make the NTB window smaller in the firmware\n",
			ap->size >> 20, last);
	return err;
}

static int attach_domain(struct dlend_aperture *ap, u64 align)
{
	int err;

	ap->pg = dlend_paging_create(ap->dev);
	if (IS_ERR(ap->pg)) {
		err = PTR_ERR(ap->pg);
		ap->pg = NULL;
		dev_err(ap->dev, "IOMMU gave no domain (%d)\n", err);
		return err;
	}
	dlend_maps_init(&ap->maps, ap->pg);
	err = pick_base(ap, align);
	if (err)
		goto free_domain;
	err = ap->pg->ops->attach(ap->pg);
	if (err) {
		dev_err(ap->dev, "its IOMMU group cannot be given a domain (%d)%s\n", err,
			err == -EBUSY ? ": another driver (VFIO?) has it, or a reset" : "");
		goto free_domain;
	}
	ap->coherent = ap->pg->coherent;
	if (!ap->coherent)
		dev_info(ap->dev, "its IOMMU cannot enforce cache coherency (no snoop control): what a peer's device sends as No Snoop passes by the caches here; lenders turn No Snoop off, see docs/hardware.md\n");
	return 0;

free_domain:
	ap->pg->ops->free(ap->pg);
	ap->pg = NULL;
	return err;
}

static int init_slots(struct dlend_aperture *ap)
{
	struct dlend_extent *whole = kzalloc_obj(*whole);

	if (!whole)
		return -ENOMEM;
	dlend_slots_init(&ap->slots, ap->size, whole);
	return 0;
}

static void drop_slots(struct dlend_aperture *ap)
{
	struct dlend_extent *e;

	while ((e = dlend_slots_take(&ap->slots, true)))
		kfree(e);
}

static int attach(struct dlend_aperture *ap, struct device *dma_dev, u64 align)
{
	struct iommu_group *group = iommu_group_get(dma_dev);
	int err;

	ap->dev = get_device(dma_dev);
	err = check_iommu(dma_dev, group);
	if (!err)
		err = attach_domain(ap, align);
	iommu_group_put(group);
	if (err)
		put_device(ap->dev);
	return err;
}

struct dlend_aperture *dlend_aperture_create(struct device *dma_dev, u64 size, u64 align)
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
	INIT_LIST_HEAD(&ap->views);
	dlend_maps_init(&ap->maps, NULL);
	err = init_slots(ap);
	if (err)
		goto free_ap;
	if (dma_dev)
		err = attach(ap, dma_dev, align);
	if (err)
		goto free_slots;
	ap->live = true;
	return ap;

free_slots:
	drop_slots(ap);
free_ap:
	kfree(ap);
	return ERR_PTR(err);
}

/* Under the lock: out of reach for everybody when this returns. */
static u64 unmap_all_of(struct dlend_aperture *ap, u64 offset, u64 size)
{
	dlend_views_unmap(&ap->views, offset, size);
	return dlend_maps_del(&ap->maps, ap->base + offset, size);
}

void dlend_aperture_detach(struct dlend_aperture *ap)
{
	mutex_lock(&ap->lock);
	if (ap->live)
		unmap_all_of(ap, 0, ap->size);
	if (ap->live && ap->pg) {
		if (!dlend_paging_end(ap->pg))
			dev_err(ap->dev, "the kernel does not give up its IOMMU domain: left in place, empty\n");
		ap->pg = NULL;
		ap->maps.pg = NULL;
		put_device(ap->dev);
	}
	ap->live = false;
	mutex_unlock(&ap->lock);
}

void dlend_aperture_destroy(struct dlend_aperture *ap)
{
	unsigned int i;

	dlend_aperture_detach(ap);
	for (i = 0; i < DLEND_SLOT_KINDS; i++)
		WARN(ap->nr[i], "dlend: %u slots of kind %u in use\n", ap->nr[i], i);
	WARN(!list_empty(&ap->views), "dlend: somebody still has a view of an aperture\n");
	drop_slots(ap);
	mutex_destroy(&ap->lock);
	kfree(ap);
}
DLEND_EXPORT(dlend_aperture_destroy);

dma_addr_t dlend_aperture_base(const struct dlend_aperture *ap)
{
	return ap->base;
}

u64 dlend_aperture_size(const struct dlend_aperture *ap)
{
	return ap->size;
}
DLEND_EXPORT(dlend_aperture_size);

void dlend_aperture_limit(struct dlend_aperture *ap, u64 bytes)
{
	mutex_lock(&ap->lock);
	dlend_slots_limit(&ap->slots, bytes);
	mutex_unlock(&ap->lock);
}

/* Memory for extents, taken before the list is cut. */
static int refill(struct dlend_aperture *ap)
{
	struct dlend_extent *e;

	while (ap->slots.nr_spare < DLEND_SLOTS_SPARE) {
		e = kzalloc_obj(*e);
		if (!e)
			return -ENOMEM;
		dlend_slots_give(&ap->slots, e);
	}
	return 0;
}

static u64 p2p_limit(const struct dlend_aperture *ap)
{
	return dlend_slots_share(&ap->slots, READ_ONCE(dlend_p2p_window_percent));
}

/* With what is just allocated, and with what a lender has not forgotten yet. */
static bool fair(const struct dlend_aperture *ap, enum dlend_slot_kind kind)
{
	return kind != DLEND_SLOT_P2P || dlend_slots_bytes(&ap->slots, kind) <= p2p_limit(ap);
}

static int slot_alloc(struct dlend_aperture *ap, struct slot *s, u64 size, u64 align, u64 phase)
{
	int err = refill(ap);

	if (!err)
		err = dlend_slots_alloc(&ap->slots, size, align, phase, s->pub.kind, &s->ext);
	if (err)
		return err;
	/* Only now: a larger share is no help where there is no room. */
	if (!fair(ap, s->pub.kind)) {
		dlend_slots_free(&ap->slots, s->ext);
		return -EDQUOT;
	}
	s->pub.offset = s->ext->offset;
	s->pub.size = s->ext->size;
	ap->nr[s->pub.kind]++;
	return 0;
}

struct dlend_slot *dlend_slot_alloc(struct dlend_aperture *ap, u64 size, u64 align, u64 phase,
				    enum dlend_slot_kind kind)
{
	struct slot *s;
	int err;

	if (kind >= DLEND_SLOT_KINDS)
		return ERR_PTR(-EINVAL);
	s = kzalloc_obj(*s);
	if (!s)
		return ERR_PTR(-ENOMEM);
	s->pub.kind = kind;
	mutex_lock(&ap->lock);
	err = slot_alloc(ap, s, size, align, phase);
	mutex_unlock(&ap->lock);
	trace_dlend_slot_alloc(kind, s->pub.offset, size, err);
	if (err) {
		kfree(s);
		return ERR_PTR(err);
	}
	return &s->pub;
}
DLEND_EXPORT(dlend_slot_alloc);

/* Under the lock. After a detach there is nothing left. */
static void unmap(struct dlend_aperture *ap, u64 offset, u64 size)
{
	u64 done;

	if (!ap->live)
		return;
	done = unmap_all_of(ap, offset, size);
	trace_dlend_window_unmap(offset, size, done);
}

void dlend_slot_free(struct dlend_aperture *ap, struct dlend_slot *slot)
{
	struct slot *s = to_slot(slot);

	mutex_lock(&ap->lock);
	unmap(ap, slot->offset, slot->size);
	if (!WARN_ON(dlend_slots_free(&ap->slots, s->ext)))
		ap->nr[slot->kind]--;
	mutex_unlock(&ap->lock);
	trace_dlend_slot_free(slot->kind, slot->offset, slot->size);
	kfree(s);
}
DLEND_EXPORT(dlend_slot_free);

u64 dlend_slot_quarantine(struct dlend_aperture *ap, struct dlend_slot *slot)
{
	struct slot *s = to_slot(slot);
	u64 cookie;

	mutex_lock(&ap->lock);
	unmap(ap, slot->offset, slot->size);
	cookie = dlend_slots_quarantine(&ap->slots, s->ext);
	if (!WARN_ON(!cookie))
		ap->nr[slot->kind]--;
	mutex_unlock(&ap->lock);
	trace_dlend_slot_quarantine(slot->kind, slot->offset, slot->size, cookie);
	kfree(s);
	return cookie;
}
DLEND_EXPORT(dlend_slot_quarantine);

void dlend_slot_release(struct dlend_aperture *ap, u64 cookie)
{
	int err;

	mutex_lock(&ap->lock);
	err = dlend_slots_release(&ap->slots, cookie);
	mutex_unlock(&ap->lock);
	trace_dlend_slot_release(cookie, err);
}
DLEND_EXPORT(dlend_slot_release);

void dlend_aperture_release_all(struct dlend_aperture *ap)
{
	mutex_lock(&ap->lock);
	dlend_slots_release_all(&ap->slots);
	mutex_unlock(&ap->lock);
	trace_dlend_slot_release(0, 0);
}
DLEND_EXPORT(dlend_aperture_release_all);

static bool inside(const struct dlend_slot *slot, u64 at, u64 size)
{
	return size && at < slot->size && size <= slot->size - at;
}

/*
 * A guest's memory goes region by region (DIMM unplugged, firmware at work), and the edges of these
 * are multiples of 2 MiB but for what firmware carves out of one and the same memory, before any
 * device is at work.  So no IOMMU page may hold more than an aligned 2 MiB, or the device would
 * meet a hole beside what is unmapped.  But a gigantic page of the kernel is one thing: no two
 * memories of a guest share it.
 */
static u64 largest_page(phys_addr_t phys, u64 size, bool mmio)
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

/* Under the lock. */
static int map_run(struct dlend_aperture *ap, u64 offset, phys_addr_t phys, u64 size, u32 prot,
		   bool mmio)
{
	struct dlend_piece piece = {
		.offset = offset,
		.size = size,
		.phys = phys,
		.cap = largest_page(phys, size, mmio),
		.prot = prot,
		.mmio = mmio,
	};
	int err;

	if (!ap->live)
		return -ENODEV;
	piece.offset += ap->base;
	err = dlend_maps_add(&ap->maps, &piece);
	if (err)
		return err;
	piece.offset -= ap->base;
	err = dlend_views_map(&ap->views, &piece);
	if (err)
		dlend_maps_del(&ap->maps, ap->base + offset, size);
	return err;
}

/* Pages from @i on that are neighbours in physical memory. */
static unsigned long run_length(struct page **pages, unsigned long i, unsigned long npages)
{
	unsigned long n = 1;

	while (i + n < npages && page_to_pfn(pages[i + n]) == page_to_pfn(pages[i]) + n)
		n++;
	return n;
}

int dlend_slot_map_pages(struct dlend_aperture *ap, struct dlend_slot *slot, u64 at,
			 struct page **pages, unsigned long npages, u32 prot)
{
	u64 offset = slot->offset + at;
	unsigned long i, n;
	int err = 0;

	if (npages > slot->size >> PAGE_SHIFT || !PAGE_ALIGNED(at) ||
	    !inside(slot, at, (u64)npages << PAGE_SHIFT))
		return -EINVAL;
	mutex_lock(&ap->lock);
	for (i = 0; i < npages && !err; i += n) {
		n = run_length(pages, i, npages);
		err = map_run(ap, offset + ((u64)i << PAGE_SHIFT), page_to_phys(pages[i]),
			      (u64)n << PAGE_SHIFT, prot, false);
		if (err)
			break;
	}
	if (err && i)
		unmap(ap, offset, (u64)i << PAGE_SHIFT);
	mutex_unlock(&ap->lock);
	trace_dlend_window_map(slot->kind, offset, (u64)npages << PAGE_SHIFT, prot, err);
	return err;
}
DLEND_EXPORT(dlend_slot_map_pages);

int dlend_slot_map_phys(struct dlend_aperture *ap, struct dlend_slot *slot, u64 at,
			phys_addr_t phys, u64 size, u32 prot, bool mmio)
{
	int err;

	if (!inside(slot, at, size))
		return -EINVAL;
	mutex_lock(&ap->lock);
	err = map_run(ap, slot->offset + at, phys, size, prot, mmio);
	mutex_unlock(&ap->lock);
	trace_dlend_window_map(slot->kind, slot->offset + at, size, prot, err);
	return err;
}
DLEND_EXPORT(dlend_slot_map_phys);

void dlend_slot_unmap(struct dlend_aperture *ap, struct dlend_slot *slot, u64 at, u64 size)
{
	if (WARN_ON_ONCE(!inside(slot, at, size)))
		return;
	mutex_lock(&ap->lock);
	unmap(ap, slot->offset + at, size);
	mutex_unlock(&ap->lock);
}
DLEND_EXPORT(dlend_slot_unmap);

static bool inside_aperture(const struct dlend_aperture *ap, u64 offset, u64 size)
{
	return size && PAGE_ALIGNED(offset | size) && offset < ap->size &&
	       size <= ap->size - offset;
}

/* Under the lock. The first piece of what is mapped in @offset..@end. */
static bool next_piece(struct dlend_aperture *ap, u64 offset, u64 end, struct dlend_piece *piece)
{
	if (offset >= end || !dlend_maps_next(&ap->maps, ap->base + offset, ap->base + end - 1,
					      piece))
		return false;
	piece->offset -= ap->base;
	return true;
}

/* Under the lock. Is it one thing of that kind?  A BAR's holes are what nobody may touch. */
static int look(struct dlend_aperture *ap, u64 offset, u64 size, bool mmio, phys_addr_t *phys)
{
	u64 at = offset, end = offset + size, seen = 0;
	struct dlend_piece piece;

	for (; next_piece(ap, at, end, &piece); at = piece.offset + piece.size) {
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

int dlend_aperture_view(struct dlend_aperture *ap, struct dlend_view *view, bool mmio,
			phys_addr_t *phys)
{
	int err = -ERANGE;

	if (!inside_aperture(ap, view->offset, view->size))
		return -ERANGE;
	mutex_lock(&ap->lock);
	if (ap->live)
		err = look(ap, view->offset, view->size, mmio, phys);
	if (!err)
		list_add_tail(&view->node, &ap->views);
	mutex_unlock(&ap->lock);
	return err;
}

void dlend_aperture_unview(struct dlend_aperture *ap, struct dlend_view *view)
{
	mutex_lock(&ap->lock);
	list_del(&view->node);
	mutex_unlock(&ap->lock);
}

/*
 * Under the lock. Let @view grow over what is mapped, until it ends at @end or has got a share: the
 * lock is wanted by whoever takes memory away.  Whole pieces, so that no large page is cut.
 */
static int view_grow(struct dlend_aperture *ap, struct dlend_view *view, u64 end)
{
	u64 from = view->offset + view->size, at = from;
	struct dlend_piece piece;
	int err = 0;

	while (!err && at - from < VIEW_SHARE && next_piece(ap, at, end, &piece)) {
		err = view->ops->map(view, piece.offset - view->offset, &piece);
		if (!err)
			at = piece.offset + piece.size;
	}
	/* What is mapped from here on, the view hears of. */
	view->size = (at - from < VIEW_SHARE ? end : at) - view->offset;
	if (!err)
		return 0;
	view->ops->unmap(view, 0, at - view->offset);
	view->size = 0;
	return err;
}

void dlend_aperture_unmirror(struct dlend_aperture *ap, struct dlend_view *view)
{
	bool more;

	do {
		mutex_lock(&ap->lock);
		more = dlend_view_shrink(view, VIEW_SHARE);
		if (!more)
			list_del(&view->node);
		mutex_unlock(&ap->lock);
		cond_resched();
	} while (more);
}

int dlend_aperture_mirror(struct dlend_aperture *ap, struct dlend_view *view, u64 offset, u64 size)
{
	int err;

	if (!inside_aperture(ap, offset, size))
		return -ERANGE;
	view->offset = offset;
	view->size = 0;
	mutex_lock(&ap->lock);
	list_add_tail(&view->node, &ap->views);
	mutex_unlock(&ap->lock);
	do {
		mutex_lock(&ap->lock);
		err = view_grow(ap, view, offset + size);
		mutex_unlock(&ap->lock);
		cond_resched();
	} while (!err && view->size < size);
	if (err)
		dlend_aperture_unview(ap, view);
	return err;
}

void dlend_aperture_stat(struct dlend_aperture *ap, struct dlend_aperture_stat *st)
{
	mutex_lock(&ap->lock);
	st->size = ap->slots.limit;
	dlend_slots_sum(&ap->slots, &st->free, &st->largest_free, &st->quarantined);
	memcpy(st->slots, ap->nr, sizeof(st->slots));
	st->p2p = dlend_slots_bytes(&ap->slots, DLEND_SLOT_P2P);
	st->p2p_limit = p2p_limit(ap);
	st->mapped_4k = ap->maps.pages.n4k;
	st->mapped_2m = ap->maps.pages.n2m;
	st->mapped_1g = ap->maps.pages.n1g;
	mutex_unlock(&ap->lock);
}
DLEND_EXPORT(dlend_aperture_stat);

void dlend_aperture_show(struct dlend_aperture *ap, struct seq_file *m)
{
	struct dlend_aperture_stat st;

	dlend_aperture_stat(ap, &st);
	seq_printf(m, "aperture_base: %llx\naperture_bytes: %llu\n", ap->base, st.size);
	seq_printf(m, "coherent: %d\n", ap->coherent);
	seq_printf(m, "free_bytes: %llu\nlargest_free_bytes: %llu\nquarantined_bytes: %llu\n",
		   st.free, st.largest_free, st.quarantined);
	seq_printf(m, "p2p_bytes: %llu\np2p_limit_bytes: %llu\n", st.p2p, st.p2p_limit);
	seq_printf(m, "slots_ctrl: %u\nslots_ram: %u\nslots_bar: %u\nslots_irq: %u\nslots_p2p: %u\n",
		   st.slots[DLEND_SLOT_CTRL], st.slots[DLEND_SLOT_RAM],
		   st.slots[DLEND_SLOT_BAR], st.slots[DLEND_SLOT_IRQ],
		   st.slots[DLEND_SLOT_P2P]);
	mutex_lock(&ap->lock);
	dlend_maps_show(&ap->maps, m);
	mutex_unlock(&ap->lock);
}
DLEND_EXPORT(dlend_aperture_show);
