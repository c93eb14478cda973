// SPDX-License-Identifier: GPL-2.0
/*
 * Root bus of attached devices.
 *
 * There is one for each lent IOMMU group.  Its PCI domain stands for the lender, and its bus number
 * is the one on the lender, so a device has nearly the same name on the dlend bus and in the PCI
 * tree.  The host bridge has a bridge window for each BAR, with an offset between bus and CPU
 * addresses of its own: the bus address of a BAR is a multiple of its size, and that of a 32-bit
 * BAR is below 4 GiB, wherever the NTB's BAR is.
 */
#include <linux/delay.h>
#include <linux/iommu.h>
#include <linux/irqdomain.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>
#include <dlend/compat.h>
#include <dlend/link.h>
#include "native.h"

/**
 * struct dlend_native_bar_res - the resource of a lent BAR, inside the BAR of this host's NTB
 * @res: the part of the NTB's BAR; in the kernel's tree of resources until @region->over
 * @region: the NTB's BAR
 * @node: in the region's list; under dlend_native_regions_lock
 * @in_root: in the root bus's list; written by the thread that attaches or detaches
 * @entry: makes @res a window of the host bridge; the bridge frees it, once it has a bus
 * @fn: function that the BAR belongs to
 * @idle: no driver is bound to the function any more; under dlend_native_regions_lock
 */
struct dlend_native_bar_res {
	struct resource res;
	struct dlend_native_region *region;
	struct list_head node, in_root;
	struct resource_entry *entry;
	struct dlend_native_fn *fn;
	bool idle;
};

/*
 * Resources of lent BARs, inside an NTB's BAR.
 *
 * The NTB's driver has reserved its BARs as busy, and nothing can be requested below a busy
 * resource.  So the driver's reservation of a BAR is released while lent BARs are in it.  After the
 * last one, the reservation is made again, with the name that it had: the name lives as long as the
 * NTB's driver.  When the NTB is unbound from its driver (dlend_native_ntb_leaves()), the order is:
 *
 *   1. the drivers of attached devices are unbound, and release what they have reserved below the
 *      lent BARs: they would not find it once the lent BARs are out of the tree of resources
 *   2. the lent BARs are taken out of the kernel's tree of resources
 *   3. the reservation is made again
 *   4. the NTB's driver releases it
 */

/* A driver is unbound much faster; a program that has the device by VFIO may never close it. */
#define DLEND_NATIVE_LET_GO_MS	10000
#define DLEND_NATIVE_LOOK_MS	20	/* pause between two checks */

/*
 * struct dlend_native_region - a BAR of an NTB, while lent BARs are in it
 * @node: in dlend_native_regions
 * @ntb, @bar: the NTB's function, with a reference, and the number of its BAR
 * @name: of the reservation that was there; NULL: there was none
 * @bars: the lent BARs, by dlend_native_bar_res.node
 * @over: the NTB is losing its driver: the lent BARs are out of the tree of resources, and no more
 *	are added
 *
 * All under dlend_native_regions_lock.
 */
struct dlend_native_region {
	struct list_head node;
	struct pci_dev *ntb;
	int bar;
	const char *name;
	struct list_head bars;
	bool over;
};

static DEFINE_MUTEX(dlend_native_regions_lock);
static LIST_HEAD(dlend_native_regions);

/*
 * PCI devices that are being unbound from their drivers, by the address of struct device: no lent
 * BAR is placed in such a device until that is over.
 */
static DEFINE_XARRAY(dlend_native_leaving);

/* Return: the function of this host's NTB, without a reference; NULL: there is none */
static struct pci_dev *dlend_native_ntb(struct dlend_link *link)
{
	struct device *dev = dlend_link_dev(link);

	while (dev && !dev_is_pci(dev))
		dev = dev->parent;
	return dev ? to_pci_dev(dev) : NULL;
}

/* Find or make the region of an NTB's BAR. Under dlend_native_regions_lock. Return: region, NULL */
static struct dlend_native_region *dlend_native_region_get(struct pci_dev *ntb, int bar)
{
	struct resource *res = &ntb->resource[bar];
	struct dlend_native_region *region;

	list_for_each_entry(region, &dlend_native_regions, node)
		if (region->ntb == ntb && region->bar == bar && !region->over)
			return region;
	region = kzalloc_obj(*region);
	if (!region)
		return NULL;
	INIT_LIST_HEAD(&region->bars);
	region->ntb = pci_dev_get(ntb);
	region->bar = bar;
	if (res->child && res->child->flags & IORESOURCE_BUSY) {
		region->name = res->child->name;
		pci_release_region(ntb, bar);
	}
	list_add(&region->node, &dlend_native_regions);
	return region;
}

/* Make the reservation of the NTB's driver again */
static void dlend_native_region_reserve(struct dlend_native_region *region)
{
	if (region->name && pci_request_region(region->ntb, region->bar, region->name))
		pci_warn(region->ntb, "BAR %d cannot be reserved for %s again\n", region->bar,
			 region->name);
}

/*
 * Take a lent BAR out of the tree of resources. It may be out already: the PCI core joins adjacent
 * windows of a root bus, and releases all but one of them.
 */
static void dlend_native_bar_res_release(struct dlend_native_bar_res *w)
{
	if (w->res.parent)
		release_resource(&w->res);
}

/* After a lent BAR was removed from a region's list: free the region if that was the last one. */
static void dlend_native_region_put(struct dlend_native_region *region)
{
	if (!list_empty(&region->bars))
		return;
	if (!region->over)
		dlend_native_region_reserve(region);
	list_del(&region->node);
	pci_dev_put(region->ntb);
	kfree(region);
}

/*
 * Mark the attached devices behind an NTB as lost, which removes them. Called again and again:
 * dlend_native_lost() does nothing for a device that is lost already.
 * Return: is a driver still bound to one of them?
 */
static bool dlend_native_ntb_lose_fns(struct device *ntb)
{
	struct dlend_native_region *region;
	struct dlend_native_bar_res *w;
	bool busy = false;

	guard(mutex)(&dlend_native_regions_lock);
	list_for_each_entry(region, &dlend_native_regions, node) {
		if (&region->ntb->dev != ntb || region->over)
			continue;
		list_for_each_entry(w, &region->bars, node) {
			dlend_native_lost(w->fn, "this host's NTB is to lose its driver");
			busy |= !w->idle;
		}
	}
	return busy;
}

void dlend_native_ntb_leaves(struct device *ntb)
{
	unsigned long end = jiffies + msecs_to_jiffies(DLEND_NATIVE_LET_GO_MS);
	struct dlend_native_region *region;
	struct dlend_native_bar_res *w;

	xa_store(&dlend_native_leaving, (unsigned long)ntb, ntb, GFP_KERNEL | __GFP_NOFAIL);
	while (dlend_native_ntb_lose_fns(ntb) && time_before(jiffies, end))
		msleep(DLEND_NATIVE_LOOK_MS);
	/*
	 * A driver that is still bound releases its reservation later.  The kernel does not find
	 * that reservation then, and logs so (see dlend_native_bar_res_idle()).
	 */
	guard(mutex)(&dlend_native_regions_lock);
	list_for_each_entry(region, &dlend_native_regions, node) {
		if (&region->ntb->dev != ntb || region->over)
			continue;
		list_for_each_entry(w, &region->bars, node)
			dlend_native_bar_res_release(w);
		dlend_native_region_reserve(region);
		region->over = true;
	}
}

void dlend_native_ntb_left(struct device *ntb)
{
	xa_erase(&dlend_native_leaving, (unsigned long)ntb);
}

void dlend_native_ntb_exit(void)
{
	xa_destroy(&dlend_native_leaving);
}

/*
 * Put @size bytes from CPU address @at on, which lead to a lent BAR, into the tree of resources:
 * then drivers can request regions of that BAR. Return: 0; -ENODEV @at is in no BAR of the NTB, or
 * the NTB is losing its driver; -EBUSY somebody else has reserved that part; -ENOMEM.
 */
static int dlend_native_bar_res_request(struct dlend_native_bar_res *w, struct dlend_native_fn *fn,
					struct dlend_link *link, phys_addr_t at, u64 size)
{
	struct pci_dev *ntb = dlend_native_ntb(link);
	struct resource *bar;
	int err;

	if (!ntb)
		return -ENODEV;
	w->fn = fn;
	w->res = (struct resource){
		.name = "dlend", .start = at, .end = at + (size - 1), .flags = IORESOURCE_MEM,
	};
	bar = pci_find_resource(ntb, &w->res);
	if (!bar)
		return -ENODEV;
	guard(mutex)(&dlend_native_regions_lock);
	if (xa_load(&dlend_native_leaving, (unsigned long)&ntb->dev))
		return -ENODEV;
	w->region = dlend_native_region_get(ntb, bar - ntb->resource);
	if (!w->region)
		return -ENOMEM;
	err = request_resource(bar, &w->res);
	if (!err) {
		list_add(&w->node, &w->region->bars);
		return 0;
	}
	dlend_native_region_put(w->region);
	return err;
}

/*
 * Note that no driver is bound to the device any more.  If the lent BAR was taken out of the tree
 * of resources before, the driver could not release its reservations there.  They are still below
 * @w->res, as children of the device's BARs: release them.
 */
static void dlend_native_bar_res_idle(struct dlend_native_bar_res *w)
{
	struct resource *bar, *held;

	guard(mutex)(&dlend_native_regions_lock);
	w->idle = true;
	for (bar = w->region->over ? w->res.child : NULL; bar; bar = bar->sibling)
		while ((held = bar->child) && held->flags & IORESOURCE_BUSY)
			__release_region(bar, held->start, resource_size(held));
}

/* Undo dlend_native_bar_res_request(), and free @w. */
static void dlend_native_bar_res_free(struct dlend_native_bar_res *w)
{
	guard(mutex)(&dlend_native_regions_lock);
	list_del(&w->node);
	if (!w->region->over)
		dlend_native_bar_res_release(w);
	dlend_native_region_put(w->region);
	kfree(w);
}

/*
 * Configuration space of attached devices.
 *
 * The PCI core accesses configuration space with interrupts off and a lock held.  So accesses are
 * answered here, from what the lender read after it had reset the device (dlend/cfg.h).
 *
 * - The lender keeps Bus Master Enable and memory decoding on while the device is attached.
 * - A function level reset goes to the lender.  Until it is over, reads return all ones, and the
 *   PCI core polls until they do not.
 * - The core polls for words of Vital Product Data, too, so these come from the device.
 * - Other registers that only the device knows (dlend_cfg_live()) stay as they were after its
 *   reset, and writes to them are lost: the kernel does not poll for these, and an access must not
 *   wait.
 */

/* The kernels of the lender and of this host each allow a device 125 ms for a word of VPD. */
#define DLEND_NATIVE_VPD_MS	250

/* All ones: a read returns this if no device answers. */
#define DLEND_NATIVE_ALL_ONES	0xffffffffu

/*
 * Return: Interrupt Status as a bit of the value that is read, if INTx is asserted and the read of
 * @size bytes at @where includes that bit; otherwise 0. Under dlend_native_fn.lock.
 */
static u32 dlend_native_config_intx(const struct dlend_native_fn *fn, int where, int size)
{
	int bit = 8 * (PCI_STATUS - where) + ilog2(PCI_STATUS_INTERRUPT);

	return fn->intx_up && bit >= 0 && bit < 8 * size ? BIT(bit) : 0;
}

/* Answer from the copy; as all ones if the device is lost, or is being reset. */
static int dlend_native_config_read(struct pci_bus *bus, unsigned int devfn, int where, int size,
				    u32 *val)
{
	struct dlend_native_fn *fn = dlend_native_fn_on(bus, devfn);
	unsigned long flags;
	__le32 got = 0;

	*val = DLEND_NATIVE_ALL_ONES;
	if (!fn)
		return PCIBIOS_DEVICE_NOT_FOUND;
	raw_spin_lock_irqsave(&fn->lock, flags);
	if (!fn->dead && !fn->resetting) {
		dlend_cfg_read(&fn->cfg, where, &got, size);
		*val = le32_to_cpu(got) | dlend_native_config_intx(fn, where, size);
	}
	raw_spin_unlock_irqrestore(&fn->lock, flags);
	return PCIBIOS_SUCCESSFUL;
}

/* Write into the copy.  Workers do what the write means for the device itself (DLEND_CFG_E_*). */
static int dlend_native_config_write(struct pci_bus *bus, unsigned int devfn, int where, int size,
				     u32 val)
{
	struct dlend_native_fn *fn = dlend_native_fn_on(bus, devfn);
	__le32 put = cpu_to_le32(val);
	unsigned long flags;
	u32 effects = 0;

	if (!fn)
		return PCIBIOS_DEVICE_NOT_FOUND;
	raw_spin_lock_irqsave(&fn->lock, flags);
	if (!fn->dead && !fn->resetting) {
		effects = dlend_cfg_write(&fn->cfg, where, &put, size);
		fn->resetting = effects & DLEND_CFG_E_FLR;
	}
	raw_spin_unlock_irqrestore(&fn->lock, flags);
	if (effects & (DLEND_CFG_E_FLR | DLEND_CFG_E_READRQ | DLEND_CFG_E_MSE_ON |
		       DLEND_CFG_E_BME_ON))
		queue_work(fn->claim.wq, &fn->reset_work);
	if (effects & DLEND_CFG_E_VPD)
		queue_work(dlend_native_wq, &fn->vpd_work);
	if (effects & DLEND_CFG_E_INTX && fn->intx)
		dlend_native_intx_wanted(fn, false /* not handled */);
	return PCIBIOS_SUCCESSFUL;
}

void dlend_native_config_vpd_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, vpd_work);
	struct dlend_lease *lease = fn->claim.lease;
	u16 addr;
	u32 data;

	if (!lease)
		return;
	raw_spin_lock_irq(&fn->lock);
	addr = dlend_cfg_vpd(&fn->cfg, &data);
	raw_spin_unlock_irq(&fn->lock);
	if (dlend_lease_vpd(lease, fn->cfg.vpd_pos, addr, &data, DLEND_NATIVE_VPD_MS))
		return;
	raw_spin_lock_irq(&fn->lock);
	dlend_cfg_vpd_done(&fn->cfg, addr, data);
	raw_spin_unlock_irq(&fn->lock);
}

struct pci_ops dlend_native_config_ops = {
	.read = dlend_native_config_read,
	.write = dlend_native_config_write,
};

int dlend_native_config_init(struct dlend_native_fn *fn)
{
	struct dlend_cfg_desc desc = {
		.vendor = fn->info.vendor,
		.device = fn->info.device,
		.is_vf = fn->info.flags & DLEND_OFFER_F_VF,
		.no_intx = !fn->intx,
		.no_msi = !fn->info.nr_msi,
		.no_msix = !fn->info.nr_msix,
		.max_msi = fn->info.nr_msi,
		.max_msix = fn->info.nr_msix,
		.clique = DLEND_CFG_CLIQUE_NONE,
		.add_reset = true,
		/*
		 * Show No_Soft_Reset, so that a return from D3hot is no reset.  Linux 6.12 would
		 * wait only 10 ms for that reset, and the lender, which does it, takes longer.
		 */
		.keeps_state = true,
	};
	u8 *snapshot __free(kfree) = kmalloc(DLEND_CFG_SIZE, GFP_KERNEL);

	if (!snapshot)
		return -ENOMEM;
	dlend_offer_copy(fn->claim.offer, &fn->info, snapshot);
	desc.snapshot = snapshot;
	for (unsigned int i = 0; i < DLEND_NUM_BARS; i++) {
		desc.bar[i].size = fn->claim.lease->bar[i].phys ? fn->info.bar[i].size : 0;
		desc.bar[i].is64 = fn->info.bar[i].flags & DLEND_BAR_F_64;
		desc.bar[i].prefetch = fn->info.bar[i].flags & DLEND_BAR_F_PREFETCH;
	}
	/*
	 * dlend_cfg_init() cuts a looped list of capabilities.  It also returns errors that concern
	 * the clique capability only (-ELOOP, -ENOSPC), which an attached device does not have.
	 */
	return dlend_cfg_init(&fn->cfg, &desc) == -EINVAL ? -EINVAL : 0;
}

/* Write a BAR's bus address @at into its register, as firmware would do. */
static void dlend_native_config_place(struct dlend_native_fn *fn, unsigned int bar, u64 at)
{
	__le32 low = cpu_to_le32(at), high = cpu_to_le32(at >> 32);

	dlend_cfg_write(&fn->cfg, PCI_BASE_ADDRESS_0 + 4 * bar, &low, sizeof(low));
	if (fn->info.bar[bar].flags & DLEND_BAR_F_64)
		dlend_cfg_write(&fn->cfg, PCI_BASE_ADDRESS_0 + 4 * bar + 4, &high, sizeof(high));
}

/*
 * PCI domain of a lender's devices; the low bits are those of its node id.  The names of offers
 * have another domain, 0xd0000 + node id: it has more than 16 bits, which QEMU and libvirt do not
 * accept.
 */
#define DLEND_NATIVE_DOMAIN	0xd000
#define DLEND_NATIVE_DOMAIN_IDS	0xfff
/*
 * Bus addresses of 32-bit BARs, placed downwards from END.  They are above dma-iommu's IOVAs
 * (domain.c) and below the addresses of interrupts, as the device sends requests to all three.
 */
#define DLEND_NATIVE_MMIO_END	0xfe000000u
#define DLEND_NATIVE_MMIO_FIRST	0xf0000000u
/* Bus addresses of 64-bit BARs, placed upwards from here.  On the lender, the BARs have others. */
#define DLEND_NATIVE_MMIO_64	BIT_ULL(40)

/*
 * Choose the number of the bus: the one on the lender, or the next one that is free in this PCI
 * domain.  The caller holds pci_rescan_remove_lock until the bus is registered, so the number stays
 * free. Return: 0; -EBUSY none is free.
 */
static int dlend_native_root_number(struct dlend_native_root *root)
{
	for (unsigned int i = 0; i < 256; i++) {
		u8 nr = root->nr + i;

		if (pci_find_bus(root->sysdata.domain, nr))
			continue;
		root->numbers.start = nr;
		root->numbers.end = nr;
		root->bridge->busnr = nr;
		return 0;
	}
	return -EBUSY;
}

/* pci_host_bridge.map_irq: the kernel's interrupt for INTx, or -1 */
static int dlend_native_root_intx(const struct pci_dev *pdev, u8 slot, u8 pin)
{
	struct dlend_native_fn *fn = dlend_native_fn_on(pdev->bus, pdev->devfn);

	return fn && fn->intx ? fn->intx : -1;
}

/*
 * Add @res to the windows of the host bridge. @offset: CPU address - bus address. @out: (out) the
 * entry, which the bridge frees. Return: 0, -ENOMEM.
 */
static int dlend_native_bridge_add_window(struct dlend_native_root *root, struct resource *res,
					  u64 offset, struct resource_entry **out)
{
	struct resource_entry *entry = resource_list_create_entry(res, 0);

	if (!entry)
		return -ENOMEM;
	entry->offset = offset;
	resource_list_add_tail(entry, &root->bridge->windows);
	*out = entry;
	return 0;
}

/*
 * After a failed scan: free the entries of all bridge windows, if the PCI core has taken them off
 * the bridge's list. If it cannot register a bus, it leaks them.
 */
static void dlend_native_bridge_free_windows(struct dlend_native_root *root)
{
	struct dlend_native_bar_res *w;

	if (!list_empty(&root->bridge->windows))
		return;
	resource_list_free_entry(root->numbers_entry);
	list_for_each_entry(w, &root->bars, in_root)
		resource_list_free_entry(w->entry);
}

/* Make the host bridge, which the scan registers. Return: 0, -ENOMEM. */
static int dlend_native_root_bridge(struct dlend_native_root *root)
{
	struct pci_host_bridge *bridge = pci_alloc_host_bridge(0);

	if (!bridge)
		return -ENOMEM;
	root->bridge = bridge;
	/* A reference of our own: see the end of the bridge in dlend_native_root_remove(). */
	get_device(&bridge->dev);
	root->numbers = (struct resource){ .name = "dlend", .flags = IORESOURCE_BUS };
	bridge->dev.parent = &root->pdev->dev;
	bridge->sysdata = &root->sysdata;
	bridge->ops = &dlend_native_config_ops;
	bridge->native_aer = 0; /* the lender's host handles errors */
	bridge->map_irq = dlend_native_root_intx;
	dev_set_msi_domain(&bridge->dev, root->msi);
	return dlend_native_bridge_add_window(root, &root->numbers, 0, &root->numbers_entry);
}

/* Choose a BAR's bus address. Return: the address; 0: there is no room for a 32-bit BAR */
static u64 dlend_native_root_place(struct dlend_native_root *root, const struct dlend_native_fn *fn,
				   unsigned int bar)
{
	u64 size = max_t(u64, fn->info.bar[bar].size, PAGE_SIZE);
	u64 at;

	if (fn->info.bar[bar].flags & DLEND_BAR_F_64) {
		at = ALIGN(root->above, size);
		root->above = at + size;
		return at;
	}
	if (size > root->below - DLEND_NATIVE_MMIO_FIRST)
		return 0;
	root->below = ALIGN_DOWN(root->below - size, size);
	return root->below;
}

/* Give a BAR a bus address, a resource and a bridge window, if this node reaches the BAR. */
static int dlend_native_root_bar(struct dlend_native_root *root, struct dlend_native_fn *fn,
				 unsigned int bar)
{
	const struct dlend_window *bar_window = &fn->claim.lease->bar[bar];
	struct dlend_native_bar_res *w;
	u64 at;
	int err;

	if (!bar_window->phys)
		return 0;
	at = dlend_native_root_place(root, fn, bar);
	if (!at) {
		dlend_native_fn_fails(fn, "no free address for BAR %u (%llu MiB, 32 bits)", bar,
				      fn->info.bar[bar].size >> 20);
		return -ENOSPC;
	}
	w = kzalloc_obj(*w);
	if (!w)
		return -ENOMEM;
	err = dlend_native_bar_res_request(w, fn, bar_window->link, bar_window->phys,
					   PAGE_ALIGN(fn->info.bar[bar].size));
	if (err) {
		dlend_native_fn_fails(fn, "BAR %u cannot be placed in the NTB's (%pe)", bar,
				      ERR_PTR(err));
		kfree(w);
		return err;
	}
	err = dlend_native_bridge_add_window(root, &w->res, bar_window->phys - at, &w->entry);
	if (err) {
		dlend_native_bar_res_free(w);
		return err;
	}
	list_add(&w->in_root, &root->bars);
	dlend_native_config_place(fn, bar, at);
	return 0;
}

/*
 * Choose a device and function number.  Functions of an IOMMU group may be on several buses of the
 * lender, and have equal numbers: without ACS, two ports make one group. Return: the number that
 * the function has on the lender; if that is taken here, function 0 of a device number that no
 * function has; -ENOSPC.
 */
static int dlend_native_root_devfn(struct dlend_native_root *root, u8 devfn)
{
	if (!root->fn[devfn])
		return devfn;
	for (unsigned int slot = 0; slot < 32; slot++)
		if (!memchr_inv(&root->fn[PCI_DEVFN(slot, 0)], 0, 8 * sizeof(*root->fn)))
			return PCI_DEVFN(slot, 0);
	return -ENOSPC;
}

int dlend_native_root_add_fn(struct dlend_native_root *root, struct dlend_native_fn *fn)
{
	int devfn = dlend_native_root_devfn(root, dlend_offer_addr(fn->claim.offer)->bdf & 0xff);
	int err = 0;

	if (devfn < 0) {
		dlend_native_fn_fails(fn, "its bus is full");
		return devfn;
	}
	for (unsigned int bar = 0; bar < DLEND_NUM_BARS && !err; bar++)
		err = dlend_native_root_bar(root, fn, bar);
	if (err)
		return err;
	fn->root = root;
	root->fn[devfn] = fn;
	return 0;
}

/* Is each BAR in the tree of resources, below a bridge window, where a driver can request it? */
static bool dlend_native_root_placed(const struct dlend_native_fn *fn)
{
	for (unsigned int bar = 0; bar < DLEND_NUM_BARS; bar++)
		if (fn->claim.lease->bar[bar].phys && !fn->pdev->resource[bar].parent)
			return false;
	return true;
}

/*
 * Why must no driver bind to an enumerated function? A text for people; NULL: one may bind. Above
 * all, the function must be behind dlend's IOMMU driver, in the prepared domain.
 */
static const char *dlend_native_root_lacks(const struct dlend_native_fn *fn)
{
	if (READ_ONCE(fn->dead))
		return "it was lost meanwhile";
	if (!fn->pdev)
		return "the kernel does not find it on its bus: is memory short?";
	if (!fn->domain || fn->root->prepared)
		return "the kernel does not give it our IOMMU: is memory short?";
	if (!dlend_native_root_placed(fn))
		return "the kernel finds no place for its BARs: is memory short?";
	return NULL;
}

/* May drivers bind to all functions of the bus? Return: 0, or -ENODEV and the function's why. */
static int dlend_native_root_check(struct dlend_native_root *root)
{
	struct dlend_native_fn *fn;
	const char *lacks;

	for (unsigned int i = 0; i < DLEND_NATIVE_DEVFNS; i++) {
		fn = root->fn[i];
		lacks = fn ? dlend_native_root_lacks(fn) : NULL;
		if (!lacks)
			continue;
		if (!fn->why[0])
			dlend_native_fn_fails(fn, "%s", lacks);
		return -ENODEV;
	}
	return 0;
}

/*
 * Have the PCI core enumerate each function.  Its own scan looks for other functions of a device
 * only if function 0 says that there are some.  If a device is lent in part, function 0 may be
 * missing.  So each function is scanned here by its number.
 */
static void dlend_native_root_enumerate(struct dlend_native_root *root)
{
	struct pci_dev *pdev;

	for (unsigned int i = 0; i < DLEND_NATIVE_DEVFNS; i++)
		if (root->fn[i])
			pci_scan_single_device(root->bus, i);
	list_for_each_entry(pdev, &root->bus->devices, bus_list) {
		/*
		 * If memory was short, the PCI core has put a device on the list whose device_add()
		 * failed.  Its removal would crash, so try again.
		 */
		if (!device_is_registered(&pdev->dev) && device_add(&pdev->dev))
			pci_err(pdev, "cannot be added: is memory short?\n");
		WRITE_ONCE(root->fn[pdev->devfn]->pdev, pci_dev_get(pdev));
		/* ACPI knows no interrupt for it: with irq_managed, the kernel does not ask. */
		pdev->irq = root->fn[pdev->devfn]->intx;
		pdev->irq_managed = pdev->irq > 0;
	}
}

int dlend_native_root_scan(struct dlend_native_root *root, struct dlend_native_fn *first)
{
	int err;

	pci_lock_rescan_remove();
	err = dlend_native_root_number(root) ?: pci_scan_root_bus_bridge(root->bridge);
	if (err) {
		dlend_native_bridge_free_windows(root);
		dlend_native_fn_fails(first,
				      "the kernel cannot make a PCI bus for it (%pe): is memory short?",
				      ERR_PTR(err));
		goto unlock;
	}
	root->bus = root->bridge->bus;
	dlend_native_root_enumerate(root);
	pci_bus_claim_resources(root->bus);
	err = dlend_native_root_check(root);
	if (!err)
		pci_bus_add_devices(root->bus);
unlock:
	pci_unlock_rescan_remove();
	return err;
}

/*
 * Unbind the drivers before pci_rescan_remove_lock is taken, which all PCI hot-plug on this host
 * needs: vfio-pci waits until the program that has the device open closes it, which may take long.
 */
static void dlend_native_root_drivers_off(struct dlend_native_root *root)
{
	struct dlend_native_bar_res *w;

	for (unsigned int i = 0; i < DLEND_NATIVE_DEVFNS; i++)
		if (root->fn[i] && root->fn[i]->pdev)
			device_release_driver(&root->fn[i]->pdev->dev);
	list_for_each_entry(w, &root->bars, in_root)
		dlend_native_bar_res_idle(w);
}

void dlend_native_root_remove(struct dlend_native_root *root)
{
	struct pci_host_bridge *bridge = root->bridge;
	struct dlend_native_bar_res *w, *next;

	dlend_native_domain_forget(root);
	if (root->bus) {
		dlend_native_root_drivers_off(root);
		pci_lock_rescan_remove();
		pci_stop_root_bus(root->bus);
		pci_remove_root_bus(root->bus);
		pci_unlock_rescan_remove();
	}
	/*
	 * pci_register_host_bridge() drops one reference too many if it cannot register the bus.
	 * Then the only reference left is that of dlend_native_root_bridge(), and
	 * pci_free_host_bridge(), which drops one, must not be called.
	 */
	if (bridge && kref_read(&bridge->dev.kobj.kref) > 1)
		pci_free_host_bridge(bridge);
	if (bridge)
		put_device(&bridge->dev);
	list_for_each_entry_safe(w, next, &root->bars, in_root)
		dlend_native_bar_res_free(w);
	if (root->msi)
		irq_domain_remove(root->msi);
	irq_domain_free_fwnode(root->fwnode);
	platform_device_unregister(root->pdev);
	if (root->group)
		iommu_group_put(root->group);
	kfree(root);
}

struct dlend_native_root *dlend_native_root_create(u16 lender, u8 nr, bool isolated)
{
	struct dlend_native_root *root = kzalloc_obj(*root);
	int err;

	if (!root)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&root->bars);
	root->nr = nr;
	root->below = DLEND_NATIVE_MMIO_END;
	root->above = DLEND_NATIVE_MMIO_64;
	root->sysdata.domain = DLEND_NATIVE_DOMAIN | (lender & DLEND_NATIVE_DOMAIN_IDS);
	root->sysdata.node = NUMA_NO_NODE;
	root->pdev = platform_device_register_simple("dlend-root", PLATFORM_DEVID_AUTO, NULL, 0);
	if (!IS_ERR(root->pdev))
		root->fwnode = irq_domain_alloc_named_fwnode(dev_name(&root->pdev->dev));
	if (root->fwnode)
		root->msi = dlend_native_msi_create(root->fwnode, isolated);
	if (root->msi && !dlend_native_root_bridge(root))
		return root;
	err = PTR_ERR_OR_ZERO(root->pdev) ?: -ENOMEM;
	dlend_native_root_remove(root);
	return ERR_PTR(err);
}
