// SPDX-License-Identifier: GPL-2.0
/*
 * A device becomes a lent function.  probe() (driver.c) calls the functions of this file in this
 * order:
 *
 *	lend_check_device(), lend_check_group()		can the device be lent?
 *	lend_bind_take()				become the DMA owner, request the BARs
 *	lend_bind_interrupts()				count the vectors that the device can have
 *	lend_lease_bind() (lease.c)			peers can name the function from here on
 *	lend_bind_reset()
 *	lend_bind_save()				PCI state, ROM, configuration space, filter
 *
 * A function that is reset only with others gets the last two steps later, from lend_recover_work()
 * (lease.c).  lend_bind_release() undoes lend_bind_take().  lend_fn.saved and lend_fn.rom are freed
 * with the last reference to the function (lend_fn_put()).  Unless something else is said, probe()
 * or remove() holds the device lock, and the code may sleep.
 */
#include <linux/aperture.h>
#include <linux/crc32.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/ioport.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include <dlend/compat.h>

#include "lender/lender.h"

/*
 * Checks before the device is changed in any way.  If a check fails, it logs why the device cannot
 * be lent, and what to do.
 */

static bool lend_check_allow_ats;
module_param_named(allow_ats, lend_check_allow_ats, bool, 0644);
MODULE_PARM_DESC(allow_ats,
		 "Lend devices that translate addresses by themselves (ATS): the IOMMU does not check what they have translated, and a fence waits for their answer (read when a device is bound, and when it is borrowed; default: off)");

/* Does an IOMMU translate the device's DMA? */
static int lend_check_iommu(struct pci_dev *pdev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&pdev->dev);

	if (!device_iommu_mapped(&pdev->dev) || !domain) {
		pci_err(pdev, "not lent: no IOMMU stands between it and this host's memory; enable VT-d or AMD-Vi in the firmware and boot with intel_iommu=on\n");
		return -ENODEV;
	}
	if (domain->type == IOMMU_DOMAIN_IDENTITY) {
		pci_err(pdev, "not lent: its IOMMU is in pass-through mode; boot without iommu=pt, or write DMA to /sys/kernel/iommu_groups/*/type of its group\n");
		return -EOPNOTSUPP;
	}
	return 0;
}

/*
 * For a device that has no reset of its own: it can be lent only if a reset of its slot or bus
 * resets nothing outside its IOMMU group.
 */
static int lend_check_shared_reset(struct pci_dev *pdev)
{
	char other[32];
	int ret = lend_bus_reset_check(pdev, other, sizeof(other));

	if (ret == -EXDEV)
		pci_err(pdev, "not lent: it has no reset of its own, so one borrower's data could reach the next; a reset of its slot or bus would reset %s, too, which is not in its IOMMU group\n",
			other);
	else if (ret)
		pci_err(pdev, "not lent: it has no reset of its own, and its slot or bus has none, so one borrower's data could reach the next; see reset_method in its sysfs folder\n");
	return ret ? -ENOTTY : 0;
}

/*
 * The IOMMU does not check a translated request (ATS).  The device may use an old translation until
 * it completes the invalidation, and a device that hangs never completes one.  So a device with ATS
 * is refused, unless allow_ats is set.  IOMMU drivers turn ATS on and off, some whenever a domain
 * is attached: so the check is made twice.  At bind time it refuses the device before it is
 * offered; lend_attach_domain() repeats it for each lease, with the domain that the device then
 * has.
 *
 * Callback of iommu_group_for_each_dev(), and called for one device.
 */
static int lend_check_ats(struct device *dev, void *unused)
{
	if (!dev_is_pci(dev) || !to_pci_dev(dev)->ats_enabled)
		return 0;
	if (!READ_ONCE(lend_check_allow_ats)) {
		dev_err_ratelimited(dev, "not lent: it translates addresses by itself (ATS), which no fence can check; boot with pci=noats, or, if you trust the device to forget translations when it is told to, write Y to /sys/module/dlend_lender/parameters/allow_ats (at boot: options dlend_lender allow_ats=1)\n");
		return -EACCES;
	}
	dev_warn_ratelimited(dev, "it translates addresses by itself (ATS), and allow_ats is on: it is trusted to forget translations when it is told to\n");
	return 0;
}

int lend_check_device(struct pci_dev *pdev, bool *shared)
{
	int ret;

	*shared = false;
	if (pdev->hdr_type != PCI_HEADER_TYPE_NORMAL) {
		pci_err(pdev, "not lent: it is a bridge, and what is behind it would be lent too; lend the devices behind it instead\n");
		return -EINVAL;
	}
	if (!pdev->reset_methods[0]) {
		ret = lend_check_shared_reset(pdev);
		if (ret)
			return ret;
		*shared = true;
	}
	if (pci_num_vf(pdev)) {
		pci_err(pdev, "not lent: %d of its virtual functions are enabled, and a reset would take them away; lend those, or write 0 to sriov_numvfs first\n",
			pci_num_vf(pdev));
		return -EBUSY;
	}
	return lend_check_iommu(pdev) ?: lend_check_ats(&pdev->dev, NULL);
}

/*
 * A device's write to the MSI range is an interrupt, and only interrupt remapping checks whether
 * the device may cause it.
 */
static int lend_check_interrupts(struct pci_dev *pdev, struct iommu_group *iommu)
{
	if (iommu_group_has_isolated_msi(iommu))
		return 0;
	if (!dlend_unsafe_interrupts_allowed()) {
		pci_err(pdev, "not lent: interrupt remapping is off, so a borrower could make this host see interrupts that are not the device's; turn it on in the firmware (interrupt remapping, x2APIC), or, if you trust all borrowers with this host, write Y to /sys/module/dlend_core/parameters/allow_unsafe_interrupts (at boot: options dlend_core allow_unsafe_interrupts=1)\n");
		return -EPERM;
	}
	pci_warn(pdev, "interrupt remapping is off, and allow_unsafe_interrupts is on: a borrower can make this host see interrupts that are not the device's\n");
	return 0;
}

/*
 * Firmware may go on using the memory of an RMRR (VT-d) or unity map (AMD-Vi) with the device,
 * whichever driver the device has.  So the memory would have to stay mapped while a guest has the
 * device.
 */
static int lend_check_reserved(struct pci_dev *pdev, struct iommu_group *iommu)
{
	struct iommu_resv_region *region, *next;
	LIST_HEAD(regions);
	int ret;

	ret = iommu_get_group_resv_regions(iommu, &regions);
	list_for_each_entry_safe(region, next, &regions, list) {
		if (region->type == IOMMU_RESV_DIRECT && !ret) {
			pci_err(pdev, "not lent: firmware reserves memory at %pa for it or its IOMMU group (RMRR), which a guest's memory map would hit; look for a firmware option to turn that off\n",
				&region->start);
			ret = -EOPNOTSUPP;
		}
		kfree(region);
	}
	return ret;
}

/* Callback of iommu_group_for_each_dev(). */
static int lend_iommu_count_one(struct device *dev, void *data)
{
	struct lend_iommu_count *count = data;

	if (!dev_is_pci(dev)) {
		count->non_pci = true;
		return 0;
	}
	/* Bridges are not lent with their group: they keep their drivers, and do no DMA. */
	if (to_pci_dev(dev)->hdr_type == PCI_HEADER_TYPE_NORMAL)
		count->functions++;
	return 0;
}

void lend_iommu_count(struct iommu_group *iommu, struct lend_iommu_count *count)
{
	*count = (struct lend_iommu_count){ };
	iommu_group_for_each_dev(iommu, count, lend_iommu_count_one);
}

/* An IOMMU group is lent as a whole: all its devices have to be PCI functions, and not too many. */
static int lend_check_members(struct pci_dev *pdev, struct iommu_group *iommu,
			      struct lend_iommu_count *count)
{
	lend_iommu_count(iommu, count);
	if (count->non_pci || count->functions > LEND_GROUP_MAX) {
		pci_err(pdev, "not lent: its IOMMU group %d has %u functions%s, and a group is lent as a whole (at most %u PCI functions); a slot with ACS makes groups smaller\n",
			iommu_group_id(iommu), count->functions,
			count->non_pci ? " and devices that are not PCI" : "", LEND_GROUP_MAX);
		return -EOPNOTSUPP;
	}
	if (count->functions > 1)
		pci_info(pdev, "one of %u functions of IOMMU group %d: can be borrowed when all of them are lent\n",
			 count->functions, iommu_group_id(iommu));
	return 0;
}

int lend_check_group(struct pci_dev *pdev, struct iommu_group *iommu,
		     struct lend_iommu_count *count)
{
	return lend_check_reserved(pdev, iommu) ?: lend_check_interrupts(pdev, iommu) ?:
	       lend_check_members(pdev, iommu, count);
}

int lend_attach_domain(struct lend_group *group)
{
	int ret = dlend_domain_attach(group->domain);

	/* After the attach, which may have turned ATS on. */
	if (!ret)
		ret = iommu_group_for_each_dev(group->iommu, NULL, lend_check_ats);
	if (ret)
		dlend_domain_block(group->domain);
	return ret;
}

/*
 * The expansion ROM of a lent function is copied once, before the function is offered.  Borrowers
 * read the copy (ROM_READ) when their VMM starts, long before they have a lease.  To read the ROM
 * of the device at that time would disturb the holder of the lease, because in many devices the ROM
 * and the BARs share an address decoder.
 */

static bool lend_rom_wanted = true;
module_param_named(rom, lend_rom_wanted, bool, 0644);
MODULE_PARM_DESC(rom, "copy the expansion ROM of devices that are lent from now on, and lend it too");

/*
 * Copy the ROM of a function, if it has one that can be lent; if not, its ROM BAR gets size 0, as
 * guests then see no ROM.  Device lock; nobody has the function.
 */
static void lend_rom_copy(struct lend_fn *fn)
{
	struct lend_bar *bar = &fn->bar[DLEND_ROM_INDEX];
	void __iomem *image = NULL;
	size_t size;

	if (lend_rom_wanted && bar->size)
		image = pci_map_rom(fn->pdev, &size);
	if (image && size <= DLEND_ROM_MAX)
		fn->rom = kvmalloc(size, GFP_KERNEL);
	if (fn->rom)
		memcpy_fromio(fn->rom, image, size);
	else if (image)
		pci_warn(fn->pdev, "its ROM is not lent (%d): give the guest's device a romfile if the firmware needs it\n",
			 size > DLEND_ROM_MAX ? -EFBIG : -ENOMEM);
	if (image)
		pci_unmap_rom(fn->pdev, image);
	if (!fn->rom)
		bar->size = 0;
	/*
	 * A ROM_READ needs no offer: a peer may send one since lend_lease_bind().  lend_rom_read()
	 * runs without a lock, so the bytes have to be there before it sees the size.
	 */
	smp_store_release(&fn->rom_size, fn->rom ? size : 0);
}

int lend_rom_read(struct lend_fn *fn, const struct dlend_p_u32 *want, struct dlend_p_rom *got)
{
	u32 at = le32_to_cpu(want->value), size;

	/* Pairs with the release in lend_rom_copy(). */
	size = smp_load_acquire(&fn->rom_size);
	if (!size)
		return -ENOENT;
	if (at >= size)
		return -ERANGE;
	got->offset = want->value;
	got->size = cpu_to_le32(size);
	memcpy(got->data, fn->rom + at, min_t(u32, size - at, sizeof(got->data)));
	return 0;
}

/*
 * The lender becomes the DMA owner of a function's group, requests its BARs, counts its interrupt
 * vectors, resets it, and takes a snapshot of its configuration space.
 */

static bool lend_bind_device_config = true;
module_param_named(device_config, lend_bind_device_config, bool, 0644);
MODULE_PARM_DESC(device_config,
		 "Let borrowers write configuration space that belongs to no capability, as vfio-pci lets guests: some drivers need that (read when a device is bound; default: on)");

/*
 * The cookie for iommu_device_claim_dma_owner(): the address of this string.  All lent functions
 * use the same one, so that all functions of an IOMMU group can be bound.
 */
static const char lend_bind_dma_owner[] = "dlend-lender";

/*
 * A BAR smaller than a page can be mapped only if nothing else is in its page.  To make sure that
 * nothing gets there later, a resource for the rest of the page (bar->pad) is inserted beside the
 * BAR, below the bridge's window that contains both.  request_mem_region() would be wrong: it would
 * also succeed where the rest of the page is inside a BAR that no driver has requested.
 */
static void lend_bind_small_bar(struct pci_dev *pdev, unsigned int i, struct lend_bar *bar)
{
	const struct resource *res = &pdev->resource[i];
	struct resource *pad = NULL;

	if (PAGE_ALIGNED(res->start) && res->parent)
		pad = kzalloc_obj(*pad);
	if (pad) {
		*pad = DEFINE_RES_MEM_NAMED(res->end + 1, PAGE_SIZE - resource_size(res),
					    "dlend-lender");
		pad->flags |= IORESOURCE_BUSY;
	}
	if (!pad || request_resource(res->parent, pad)) {
		kfree(pad);
		pci_warn(pdev, "BAR %u (%llu bytes) shares its page with something else and is not lent, guests read 0xff from it: boot with pci=resource_alignment=12@%s\n",
			 i, bar->size, pci_name(pdev));
		return;
	}
	bar->pad = pad;
	bar->span = PAGE_SIZE;
	bar->flags |= DLEND_BAR_F_MAPPABLE;
}

/* Fill in fn->bar[i]; a BAR that cannot be mapped keeps span 0. */
static void lend_bind_bar(struct lend_fn *fn, unsigned int i)
{
	struct lend_bar *bar = &fn->bar[i];
	struct resource *res = &fn->pdev->resource[i];

	if (!resource_size(res) || !(res->flags & (IORESOURCE_MEM | IORESOURCE_IO)))
		return;
	bar->size = resource_size(res);
	if (res->flags & IORESOURCE_IO) {
		bar->flags = DLEND_BAR_F_IO;
		return;
	}
	if (res->flags & IORESOURCE_MEM_64)
		bar->flags |= DLEND_BAR_F_64;
	if (res->flags & IORESOURCE_PREFETCH)
		bar->flags |= DLEND_BAR_F_PREFETCH;
	/* The ROM is not mapped: borrowers get a copy (lend_rom_copy()). */
	if (i == DLEND_ROM_INDEX || res->flags & IORESOURCE_UNSET || !res->start)
		return;
	bar->phys = res->start;
	if (bar->size < PAGE_SIZE) {
		lend_bind_small_bar(fn->pdev, i, bar);
	} else if (PAGE_ALIGNED(bar->phys)) {
		bar->span = bar->size;
		bar->flags |= DLEND_BAR_F_MAPPABLE;
	}
}

/*
 * Mark the BAR that holds one of the two MSI-X structures.
 *
 * @where: the register of the capability that says where the structure is: BAR and offset
 * @size: of the structure, in bytes
 * @table: the structure is the table, not the pending bits.  A borrower that writes the table
 *	chooses which interrupts the device sends.  If no interrupt remapping checks these, the
 *	table's pages become the BAR's hole, which no borrower reaches
 */
static void lend_bind_msix_part(struct lend_fn *fn, u32 where, u64 size, bool table)
{
	unsigned int i = where & PCI_MSIX_TABLE_BIR;
	u64 offset = where & PCI_MSIX_TABLE_OFFSET;
	struct lend_bar *bar;

	if (i >= DLEND_NUM_BARS)
		return;
	bar = &fn->bar[i];
	bar->flags |= DLEND_BAR_F_MSIX;
	if (!table || fn->isolated_msi)
		return;
	bar->hole = min(bar->span, round_down(offset, PAGE_SIZE));
	bar->hole_end = min(bar->span, round_up(offset + size, PAGE_SIZE));
}

static void lend_bind_msix(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;
	int vectors = pci_msix_vec_count(pdev);
	u32 table, pba;

	if (!fn->nr_msix || vectors <= 0)
		return;
	pci_read_config_dword(pdev, pdev->msix_cap + PCI_MSIX_TABLE, &table);
	pci_read_config_dword(pdev, pdev->msix_cap + PCI_MSIX_PBA, &pba);
	/* The whole table, with the vectors that this host cannot give the device. */
	lend_bind_msix_part(fn, table, vectors * PCI_MSIX_ENTRY_SIZE, true);
	/* The PBA has a bit for each vector, in words of 64 bits. */
	lend_bind_msix_part(fn, pba, DIV_ROUND_UP(vectors, 64) * 8, false);
}

/*
 * How many vectors this host can give the device now: they are allocated, counted, and freed again.
 * Vectors for a borrower are allocated when the borrower asks (lend_irq_setup()), and may then be
 * fewer.  The device's capability may have more: the platform, a quirk of a bridge above or an
 * admin (msi_bus) may forbid them, and without interrupt remapping a device gets one MSI vector
 * only.  A guest must not see vectors that it cannot have.
 *
 * @type: PCI_IRQ_MSI or PCI_IRQ_MSIX
 */
static unsigned int lend_bind_vectors(struct pci_dev *pdev, unsigned int type)
{
	int got = pci_alloc_irq_vectors(pdev, 1, DLEND_MAX_VECTORS, type);

	if (got <= 0)
		return 0;
	pci_free_irq_vectors(pdev);
	return got;
}

void lend_bind_interrupts(struct lend_fn *fn, struct iommu_group *iommu)
{
	struct pci_dev *pdev = fn->pdev;
	u8 pin = 0;

	fn->nr_msi = lend_bind_vectors(pdev, PCI_IRQ_MSI);
	if (fn->nr_msi)
		fn->nr_msi = rounddown_pow_of_two(fn->nr_msi);
	fn->nr_msix = lend_bind_vectors(pdev, PCI_IRQ_MSIX);
	pci_read_config_byte(pdev, PCI_INTERRUPT_PIN, &pin);
	fn->has_intx = pin && pdev->irq && pdev->irq != IRQ_NOTCONNECTED;
	fn->isolated_msi = iommu_group_has_isolated_msi(iommu);
	lend_irq_init(fn);
	lend_bind_msix(fn);
}

/*
 * Read the 4 KiB of configuration space as they are after a reset, and make the filter from them;
 * then remove the addresses of this host (lend_cfgfilter.hide).  Bytes behind the device's
 * configuration space are all ones, as a read on the bus would return.
 */
static void lend_bind_snapshot(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;
	u32 value;
	int at;

	memset(fn->snapshot, 0xff, sizeof(fn->snapshot));
	for (at = 0; at < pdev->cfg_size; at += 4) {
		pci_read_config_dword(pdev, at, &value);
		put_unaligned_le32(value, fn->snapshot + at);
	}
	lend_cfgfilter_init(&fn->filter, fn->snapshot, lend_bind_device_config);
	for (at = 0; at < DLEND_CFG_SIZE; at++)
		fn->snapshot[at] &= ~fn->filter.hide[at];
	fn->snapshot_crc = crc32_le(~0, fn->snapshot, DLEND_CFG_SIZE);
}

/*
 * A bit for each memory BAR that has an address.  I/O BARs are left out: they are not lent, and a
 * host may have too few ports to give each BAR an address.
 */
static int lend_bind_select(struct pci_dev *pdev)
{
	int bars = pci_select_bars(pdev, IORESOURCE_MEM);

	for (int i = 0; i < PCI_STD_NUM_BARS; i++)
		if (pdev->resource[i].flags & IORESOURCE_UNSET || !pci_resource_start(pdev, i))
			bars &= ~BIT(i);
	return bars & (BIT(PCI_STD_NUM_BARS) - 1);
}

void lend_bind_release(struct lend_fn *fn)
{
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		if (fn->bar[i].pad) {
			release_resource(fn->bar[i].pad);
			kfree(fn->bar[i].pad);
		}
	pci_release_selected_regions(fn->pdev, fn->requested_bars);
	if (fn->no_snoop)
		pcie_capability_set_word(fn->pdev, PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_NOSNOOP_EN);
	pci_clear_master(fn->pdev);
	pci_disable_device(fn->pdev);
	iommu_device_release_dma_owner(&fn->pdev->dev);
}

int lend_bind_take(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;
	int ret;

	ret = iommu_device_claim_dma_owner(&pdev->dev, (void *)lend_bind_dma_owner);
	if (ret) {
		pci_err(pdev, "not lent: another driver does DMA in its IOMMU group (%d); lend all functions of the group, unbinding their drivers first\n",
			ret);
		/* -EPERM: the group has a driver that uses the DMA API, or another DMA owner. */
		return ret == -EPERM ? -EBUSY : ret;
	}
	ret = pci_enable_device_mem(pdev);
	if (ret) {
		pci_err(pdev, "not lent: it cannot be enabled (%d); see its BARs in lspci -v\n",
			ret);
		goto release_owner;
	}
	pci_clear_master(pdev);
	fn->requested_bars = lend_bind_select(pdev);
	/* As vfio-pci does: the firmware's framebuffer driver (efifb, ...) gives the BARs up. */
	if (pdev->class >> 16 == PCI_BASE_CLASS_DISPLAY)
		ret = aperture_remove_conflicting_pci_devices(pdev, "dlend-lender");
	ret = ret ?: pci_request_selected_regions(pdev, fn->requested_bars, "dlend-lender");
	if (ret) {
		pci_err(pdev, "not lent: something else uses its BARs (%d); see /proc/iomem\n",
			ret);
		goto disable;
	}
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		lend_bind_bar(fn, i);
	return 0;

disable:
	pci_disable_device(pdev);
release_owner:
	iommu_device_release_dma_owner(&pdev->dev);
	return ret;
}

int lend_bind_reset(struct lend_fn *fn)
{
	/* probe() holds the device lock. */
	int ret = lend_reset_fn(fn, "bind", true);
	char other[32];

	/*
	 * The kernel fills pci_dev.reset_methods when it enumerates a function.  If the function
	 * was then alone on its bus, because the others were enumerated later, the list has a reset
	 * of the bus, which fails with -ENOTTY now.  lend_check_device() relied on that list, and
	 * did not set *shared: the function is reset only with others after all.
	 */
	if (ret == -ENOTTY && !lend_bus_reset_check(fn->pdev, other, sizeof(other))) {
		fn->shared_reset = true;
		fn->needs_reset = true;
		return 0;
	}
	if (ret)
		pci_err(fn->pdev, "not lent: its reset failed (%d), so what it still holds could reach a borrower; power-cycle it, or choose another reset_method in its sysfs folder\n",
			ret);
	return ret;
}

int lend_bind_save(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;
	u64 serial = pci_get_dsn(pdev);
	u16 devctl;
	int ret;

	pci_clear_master(pdev);
	/*
	 * A transaction with No Snoop bypasses the CPU's caches: what the device writes to a
	 * borrower's memory could be lost, and what the device reads there could be old.  No IOMMU
	 * between them can be relied on to force snooping.  The bit is cleared before
	 * pci_save_state(), so each later reset, which restores that state, leaves it clear, too.
	 * Borrowers cannot set it (cfgfilter.c).  lend_bind_release() sets it again if it was set.
	 */
	pcie_capability_read_word(pdev, PCI_EXP_DEVCTL, &devctl);
	fn->no_snoop = devctl & PCI_EXP_DEVCTL_NOSNOOP_EN;
	pcie_capability_clear_word(pdev, PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_NOSNOOP_EN);
	ret = pci_save_state(pdev);
	if (ret)
		return ret;
	fn->saved = pci_store_saved_state(pdev);
	if (!fn->saved)
		return -ENOMEM;
	lend_rom_copy(fn);
	/* The Device Serial Number, unless an admin has written an identity (driver.c). */
	mutex_lock(&fn->group->lock);
	if (serial && !fn->identity[0])
		snprintf(fn->identity, sizeof(fn->identity), "%016llx", serial);
	mutex_unlock(&fn->group->lock);
	lend_bind_snapshot(fn);
	return 0;
}
