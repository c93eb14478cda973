// SPDX-License-Identifier: GPL-2.0
/*
 * dlend-lender: the PCI driver of devices that this host lends.  To bind a function is to offer it:
 *
 *	echo dlend-lender > /sys/bus/pci/devices/BDF/driver_override
 *	echo BDF > /sys/bus/pci/drivers_probe
 *
 * The file says what can be lent and what cannot, and makes a function ready; what happens to it
 * afterwards is lease.c's business.  Knows nothing of VFIO, guests, or the NTB.
 */
#include <linux/crc32.h>
#include <linux/ioport.h>
#include <linux/iommu.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "lender/lender.h"

static bool device_config;
module_param(device_config, bool, 0644);
MODULE_PARM_DESC(device_config,
		 "Let borrowers write configuration space that belongs to no capability, as some GPU drivers want (taken at bind; default: off)");

static bool allow_unsafe_interrupts;
module_param(allow_unsafe_interrupts, bool, 0644);
MODULE_PARM_DESC(allow_unsafe_interrupts,
		 "Lend devices of a host without interrupt remapping, as VFIO's parameter of that name: each borrower can then make this host see any interrupt (taken at bind; default: off)");

/* Owner of the DMA of every group that is lent. */
static const char lend_claim_owner[] = "dlend-lender";

/* "lend --as": names for devices that cannot keep their own. */
struct lend_alias {
	struct list_head node;
	u32 domain;
	u16 real, as;
};

static DEFINE_MUTEX(lend_alias_lock);
static LIST_HEAD(lend_aliases);

static ssize_t lend_as_show(struct device_driver *drv, char *buf)
{
	struct lend_alias *alias;
	ssize_t len = 0;

	mutex_lock(&lend_alias_lock);
	list_for_each_entry(alias, &lend_aliases, node)
		len += sysfs_emit_at(buf, len, "%04x:%02x:%02x.%x %02x:%02x.%x\n", alias->domain,
				     alias->real >> 8, PCI_SLOT(alias->real),
				     PCI_FUNC(alias->real), alias->as >> 8, PCI_SLOT(alias->as),
				     PCI_FUNC(alias->as));
	mutex_unlock(&lend_alias_lock);
	return len;
}

static struct lend_alias *lend_alias_find(u32 domain, u16 real)
{
	struct lend_alias *alias;

	list_for_each_entry(alias, &lend_aliases, node)
		if (alias->domain == domain && alias->real == real)
			return alias;
	return NULL;
}

static ssize_t lend_as_store(struct device_driver *drv, const char *buf, size_t len)
{
	unsigned int domain, bus, dev, func, abus, adev, afunc;
	struct lend_alias *alias;
	int ret = len;

	if (sscanf(buf, "%x:%x:%x.%x %x:%x.%x", &domain, &bus, &dev, &func, &abus, &adev,
		   &afunc) != 7 || bus > 255 || dev > 31 || func > 7 || abus > 255 || adev > 31 ||
	    afunc > 7)
		return -EINVAL;
	mutex_lock(&lend_alias_lock);
	alias = lend_alias_find(domain, PCI_DEVID(bus, PCI_DEVFN(dev, func)));
	if (!alias) {
		alias = kzalloc_obj(*alias);
		if (alias)
			list_add_tail(&alias->node, &lend_aliases);
	}
	if (alias) {
		alias->domain = domain;
		alias->real = PCI_DEVID(bus, PCI_DEVFN(dev, func));
		alias->as = PCI_DEVID(abus, PCI_DEVFN(adev, afunc));
	} else {
		ret = -ENOMEM;
	}
	mutex_unlock(&lend_alias_lock);
	return ret;
}
static DRIVER_ATTR_RW(lend_as);

static struct attribute *lend_drv_attrs[] = { &driver_attr_lend_as.attr, NULL };
ATTRIBUTE_GROUPS(lend_drv);

static void lend_alias_exit(void)
{
	struct lend_alias *alias, *next;

	list_for_each_entry_safe(alias, next, &lend_aliases, node)
		kfree(alias);
}

/* Name of a device in the fabric. Return: 0, or -EINVAL if it needs an alias. */
static int lend_alias_address(struct pci_dev *pdev, struct dlend_addr *addr)
{
	u32 domain = pci_domain_nr(pdev->bus);
	struct lend_alias *alias;
	int ret = 0;

	addr->lender = dlend_node_id();
	if (addr->lender == DLEND_NODE_NONE) {
		pci_err(pdev, "not lent: this host has no node id, and other hosts could not name the device; write one to /sys/module/dlend_core/parameters/node_id\n");
		return -ENXIO;
	}
	addr->bdf = pci_dev_id(pdev);
	mutex_lock(&lend_alias_lock);
	alias = lend_alias_find(domain, addr->bdf);
	if (alias)
		addr->bdf = alias->as;
	else if (domain)
		ret = -EINVAL;
	mutex_unlock(&lend_alias_lock);
	if (ret)
		pci_err(pdev, "not lent: it is in PCI domain %x, and names in the fabric have room for domain 0 only; choose a free name with \"dlend lend --as BB:DD.F\"\n",
			domain);
	return ret;
}

static int lend_check_device(struct pci_dev *pdev)
{
	if (pdev->hdr_type != PCI_HEADER_TYPE_NORMAL) {
		pci_err(pdev, "not lent: it is a bridge, and what is behind it would be lent too; lend the devices behind it instead\n");
		return -EINVAL;
	}
	if (!pdev->reset_methods[0]) {
		pci_err(pdev, "not lent: it has no reset of its own, so one borrower's data could reach the next (a slot or bus reset counts only for a device alone on its bus); see reset_method in its sysfs folder\n");
		return -ENOTTY;
	}
	if (pci_num_vf(pdev)) {
		pci_err(pdev, "not lent: %d of its virtual functions are enabled, and a reset would take them away; lend those, or write 0 to sriov_numvfs first\n",
			pci_num_vf(pdev));
		return -EBUSY;
	}
	return 0;
}

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

/* A device's DMA to the range of MSIs is an interrupt, which only remapping checks: see VFIO. */
static int lend_check_interrupts(struct pci_dev *pdev, struct iommu_group *group)
{
	if (iommu_group_has_isolated_msi(group))
		return 0;
	if (!allow_unsafe_interrupts) {
		pci_err(pdev, "not lent: interrupt remapping is off, so a borrower could make this host see interrupts that are not the device's; turn it on in the firmware (interrupt remapping, x2APIC), or, if you trust all borrowers with this host, write Y to /sys/module/dlend_lender/parameters/allow_unsafe_interrupts (at boot: options dlend_lender allow_unsafe_interrupts=1)\n");
		return -EPERM;
	}
	pci_warn(pdev, "interrupt remapping is off, and allow_unsafe_interrupts is on: a borrower can make this host see interrupts that are not the device's\n");
	return 0;
}

/* Firmware's own use of the device goes on under any driver: it cannot be given away. */
static int lend_check_reserved(struct pci_dev *pdev, struct iommu_group *group)
{
	struct iommu_resv_region *region, *next;
	LIST_HEAD(regions);
	int ret;

	ret = iommu_get_group_resv_regions(group, &regions);
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

static int lend_census_count(struct device *dev, void *data)
{
	struct lend_census *census = data;

	if (!dev_is_pci(dev)) {
		census->foreign = true;
		return 0;
	}
	/* Bridges stay with the kernel; they do no DMA of their own that a lease could move. */
	if (to_pci_dev(dev)->hdr_type == PCI_HEADER_TYPE_NORMAL)
		census->members++;
	return 0;
}

void lend_census_take(struct iommu_group *group, struct lend_census *census)
{
	*census = (struct lend_census){ };
	iommu_group_for_each_dev(group, census, lend_census_count);
}

static int lend_check_group(struct pci_dev *pdev, struct iommu_group *group,
			    struct lend_census *census)
{
	lend_census_take(group, census);
	if (census->foreign || census->members > LEND_GROUP_MAX) {
		pci_err(pdev, "not lent: its IOMMU group %d has %u functions%s, and a group is lent as a whole (at most %u PCI functions); a slot with ACS makes groups smaller\n",
			iommu_group_id(group), census->members,
			census->foreign ? " and devices that are not PCI" : "", LEND_GROUP_MAX);
		return -EOPNOTSUPP;
	}
	if (census->members > 1)
		pci_info(pdev, "one of %u functions of IOMMU group %d: can be borrowed when all of them are lent\n",
			 census->members, iommu_group_id(group));
	return 0;
}

/*
 * The rest of a BAR's page, beside the BAR below the same bridge; NULL if anything is there.
 * Not request_mem_region(), which would find room inside a BAR that no driver has.
 */
static struct resource *lend_claim_pad(const struct resource *res)
{
	struct resource *pad;

	if (!PAGE_ALIGNED(res->start) || !res->parent)
		return NULL;
	pad = kzalloc_obj(*pad);
	if (!pad)
		return NULL;
	*pad = DEFINE_RES_MEM_NAMED(res->end + 1, PAGE_SIZE - resource_size(res), "dlend-lender");
	pad->flags |= IORESOURCE_BUSY;
	if (request_resource(res->parent, pad)) {
		kfree(pad);
		return NULL;
	}
	return pad;
}

/*
 * A BAR smaller than a page can be mapped only if it has the page to itself.  To keep it so, the
 * rest of the page is claimed too.
 */
static void lend_claim_small_bar(struct pci_dev *pdev, unsigned int i, struct lend_bar *bar)
{
	struct resource *pad = lend_claim_pad(&pdev->resource[i]);

	if (!pad) {
		pci_warn(pdev, "BAR %u (%llu bytes) shares its page with something else and is not lent, guests read 0xff from it: boot with pci=resource_alignment=12@%s\n",
			 i, bar->size, pci_name(pdev));
		return;
	}
	bar->pad = pad;
	bar->span = PAGE_SIZE;
	bar->flags |= DLEND_BAR_F_MAPPABLE;
}

static void lend_claim_bar(struct lend_fn *fn, unsigned int i)
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
	/* The ROM shares its decoder with BARs in many devices: the guest gets a copy. */
	if (i == DLEND_ROM_INDEX || res->flags & IORESOURCE_UNSET || !res->start)
		return;
	bar->phys = res->start;
	if (bar->size < PAGE_SIZE) {
		lend_claim_small_bar(fn->pdev, i, bar);
	} else if (PAGE_ALIGNED(bar->phys)) {
		bar->span = bar->size;
		bar->flags |= DLEND_BAR_F_MAPPABLE;
	}
}

/* Marks one of the two MSI-X structures; the table is kept from borrowers where it is not safe. */
static void lend_claim_msix_part(struct lend_fn *fn, u32 where, u64 size, bool table)
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

static void lend_claim_msix(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;
	int vectors = pci_msix_vec_count(pdev);
	u32 table, pba;

	if (!fn->nr_msix || vectors <= 0)
		return;
	pci_read_config_dword(pdev, pdev->msix_cap + PCI_MSIX_TABLE, &table);
	pci_read_config_dword(pdev, pdev->msix_cap + PCI_MSIX_PBA, &pba);
	/* All of the table, however many of its vectors are to be had. */
	lend_claim_msix_part(fn, table, vectors * PCI_MSIX_ENTRY_SIZE, true);
	lend_claim_msix_part(fn, pba, DIV_ROUND_UP(vectors, 64) * 8, false);
}

/*
 * How many the device has is not all: the platform, a quirk of a bridge above or an administrator
 * (msi_bus) may forbid them, and without interrupt remapping there is one MSI per device only.  A
 * guest is not to see what it cannot have.
 */
static unsigned int lend_claim_vectors(struct pci_dev *pdev, unsigned int type)
{
	int got = pci_alloc_irq_vectors(pdev, 1, DLEND_MAX_VECTORS, type);

	if (got <= 0)
		return 0;
	pci_free_irq_vectors(pdev);
	return got;
}

static void lend_claim_interrupts(struct lend_fn *fn, struct iommu_group *group)
{
	struct pci_dev *pdev = fn->pdev;
	u8 pin = 0;

	fn->nr_msi = lend_claim_vectors(pdev, PCI_IRQ_MSI);
	if (fn->nr_msi)
		fn->nr_msi = rounddown_pow_of_two(fn->nr_msi);
	fn->nr_msix = lend_claim_vectors(pdev, PCI_IRQ_MSIX);
	pci_read_config_byte(pdev, PCI_INTERRUPT_PIN, &pin);
	fn->has_intx = pin && pdev->irq && pdev->irq != IRQ_NOTCONNECTED;
	fn->isolated_msi = iommu_group_has_isolated_msi(group);
	lend_irq_init(fn);
}

/* The 4 KiB as they are after a reset, then without the addresses of this host. */
static void lend_claim_snapshot(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;
	u32 value;
	int at;

	for (at = 0; at < pdev->cfg_size; at += 4) {
		pci_read_config_dword(pdev, at, &value);
		put_unaligned_le32(value, fn->snapshot + at);
	}
	lend_cfgfilter_init(&fn->filter, fn->snapshot, pdev->cfg_size, device_config);
	for (at = 0; at < DLEND_CFG_SIZE; at++)
		fn->snapshot[at] &= ~fn->filter.hide[at];
	fn->snapshot_crc = crc32_le(~0, fn->snapshot, DLEND_CFG_SIZE);
}

/* BARs that have a place; ports are not lent, and may have none in a host short of them. */
static int lend_claim_select(struct pci_dev *pdev)
{
	int bars = pci_select_bars(pdev, IORESOURCE_MEM);

	for (int i = 0; i < PCI_STD_NUM_BARS; i++)
		if (pdev->resource[i].flags & IORESOURCE_UNSET || !pci_resource_start(pdev, i))
			bars &= ~BIT(i);
	return bars & (BIT(PCI_STD_NUM_BARS) - 1);
}

static void lend_claim_release(struct lend_fn *fn)
{
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		if (fn->bar[i].pad) {
			release_resource(fn->bar[i].pad);
			kfree(fn->bar[i].pad);
		}
	pci_release_selected_regions(fn->pdev, fn->claimed);
	if (fn->no_snoop)
		pcie_capability_set_word(fn->pdev, PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_NOSNOOP_EN);
	pci_clear_master(fn->pdev);
	pci_disable_device(fn->pdev);
	iommu_device_release_dma_owner(&fn->pdev->dev);
}

/* Owner of the DMA, memory decoding on, BARs ours. */
static int lend_claim_take(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;
	int ret;

	ret = iommu_device_claim_dma_owner(&pdev->dev, (void *)lend_claim_owner);
	if (ret) {
		pci_err(pdev, "not lent: another driver does DMA in its IOMMU group (%d); lend all functions of the group, unbinding their drivers first\n",
			ret);
		return ret == -EPERM ? -EBUSY : ret;
	}
	ret = pci_enable_device_mem(pdev);
	if (ret) {
		pci_err(pdev, "not lent: it cannot be enabled (%d); see its BARs in lspci -v\n",
			ret);
		goto release_owner;
	}
	pci_clear_master(pdev);
	fn->claimed = lend_claim_select(pdev);
	ret = pci_request_selected_regions(pdev, fn->claimed, "dlend-lender");
	if (ret) {
		pci_err(pdev, "not lent: something else uses its BARs (%d); see /proc/iomem\n",
			ret);
		goto disable;
	}
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		lend_claim_bar(fn, i);
	return 0;

disable:
	pci_disable_device(pdev);
release_owner:
	iommu_device_release_dma_owner(&pdev->dev);
	return ret;
}

/*
 * What the device writes to or reads from a borrower's memory without asking its caches would be
 * lost there, or old: no IOMMU on the way can be relied on to force it.  Borrowers cannot set the
 * bit (cfgfilter.c), and every reset ends with it clear.
 */
static void lend_claim_no_snoop_off(struct lend_fn *fn)
{
	u16 devctl;

	pcie_capability_read_word(fn->pdev, PCI_EXP_DEVCTL, &devctl);
	fn->no_snoop = devctl & PCI_EXP_DEVCTL_NOSNOOP_EN;
	pcie_capability_clear_word(fn->pdev, PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_NOSNOOP_EN);
}

/* The state that every borrower finds, and that every reset ends in. */
static int lend_claim_clean(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;
	int ret;

	pci_intx(pdev, 0);
	ret = lend_reset_fn(fn, "bind", true);
	if (ret) {
		pci_err(pdev, "not lent: its reset failed (%d), so what it still holds could reach a borrower; power-cycle it, or choose another reset_method in its sysfs folder\n",
			ret);
		return ret;
	}
	pci_clear_master(pdev);
	lend_claim_no_snoop_off(fn);
	ret = pci_save_state(pdev);
	if (ret)
		return ret;
	fn->saved = pci_store_saved_state(pdev);
	return fn->saved ? 0 : -ENOMEM;
}

static struct lend_fn *lend_driver_new_fn(struct pci_dev *pdev)
{
	struct lend_fn *fn = kzalloc_obj(*fn);

	if (!fn)
		return NULL;
	kref_init(&fn->ref);
	fn->pdev = pci_dev_get(pdev);
	INIT_LIST_HEAD(&fn->node);
	dlend_owner_init(&fn->memory, DLEND_OWNER_RAM);
	lend_p2p_init(fn);
	lend_debugfs_faults(fn);
	return fn;
}

/* The device is fit to be lent: make it ready. */
static int lend_driver_offer(struct lend_fn *fn, struct iommu_group *group,
			     const struct lend_census *census)
{
	struct pci_dev *pdev = fn->pdev;
	int ret;

	ret = lend_claim_take(fn);
	if (ret)
		return ret;
	lend_claim_interrupts(fn, group);
	lend_claim_msix(fn);
	ret = lend_registry_join(fn, iommu_group_id(group), census);
	if (ret) {
		pci_err(pdev, "not lent (%d): its name %02x:%02x.%x is taken, or there is no memory; choose another with \"dlend lend --as BB:DD.F\"\n",
			ret, fn->addr.bdf >> 8, PCI_SLOT(fn->addr.bdf), PCI_FUNC(fn->addr.bdf));
		goto unclaim;
	}
	ret = lend_claim_clean(fn);
	if (ret)
		goto leave;
	lend_rom_copy(fn);
	lend_claim_snapshot(fn);
	pci_set_drvdata(pdev, fn);
	lend_debugfs_add(fn);
	lend_group_ready(fn);
	return 0;

leave:
	lend_lease_unbind(fn);
unclaim:
	lend_claim_release(fn);
	return ret;
}

static int lend_driver_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct iommu_group *group;
	struct lend_census census;
	char name[DLEND_NAME_LEN];
	struct lend_fn *fn;
	int ret;

	ret = lend_check_device(pdev);
	if (!ret)
		ret = lend_check_iommu(pdev);
	if (ret)
		return ret;
	fn = lend_driver_new_fn(pdev);
	if (!fn)
		return -ENOMEM;
	group = iommu_group_get(&pdev->dev);
	ret = group ? lend_check_reserved(pdev, group) : -ENODEV;
	if (!ret)
		ret = lend_check_interrupts(pdev, group);
	if (!ret)
		ret = lend_check_group(pdev, group, &census);
	if (!ret)
		ret = lend_alias_address(pdev, &fn->addr);
	if (!ret)
		ret = lend_driver_offer(fn, group, &census);
	iommu_group_put(group);
	if (ret) {
		lend_fn_put(fn);
		return ret;
	}
	dlend_addr_name(&fn->addr, name);
	pci_info(pdev, "offered as %s\n", name);
	return 0;
}

static void lend_driver_remove(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	/* First, so that a guest's access ends before anything else is undone. */
	lend_lease_unbind(fn);
	lend_outbox_withdraw(fn);
	lend_debugfs_remove(fn);
	lend_claim_release(fn);
	lend_fn_put(fn);
}

/* What AER says of this function itself.  Firmware that handles errors has cleared that already. */
static bool lend_error_is_own(struct pci_dev *pdev)
{
	u16 at = pci_find_ext_capability(pdev, PCI_EXT_CAP_ID_ERR);
	u32 status, mask;
	u16 devsta;

	/* A bridge speaks for what is not PCIe. */
	if (!pci_find_host_bridge(pdev->bus)->native_aer || !pci_is_pcie(pdev))
		return true;
	if (!at) {
		pcie_capability_read_word(pdev, PCI_EXP_DEVSTA, &devsta);
		return devsta & (PCI_EXP_DEVSTA_NFED | PCI_EXP_DEVSTA_FED);
	}
	pci_read_config_dword(pdev, at + PCI_ERR_UNCOR_STATUS, &status);
	pci_read_config_dword(pdev, at + PCI_ERR_UNCOR_MASK, &mask);
	return status & ~mask;
}

static bool lend_error_command(struct lend_fn *fn, u16 bit)
{
	u16 command;

	pci_read_config_word(fn->pdev, PCI_COMMAND, &command);
	return command & bit;
}

/*
 * The PCI core tells every function below a port of an error of any of them.  If the link to them
 * works (the state is not "frozen"), and this one answers, has no error of its own and was not
 * reset, it is no business of whoever has it.
 */
static bool lend_error_unharmed(struct lend_fn *fn)
{
	/* A virtual function's bit is its physical one's. */
	if (!lend_error_command(fn, PCI_COMMAND_MEMORY) && !fn->pdev->is_virtfn)
		return false;
	return !READ_ONCE(fn->error_until) && !lend_reset_answers(fn) && !lend_error_is_own(fn->pdev);
}

static pci_ers_result_t lend_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	if (state == pci_channel_io_frozen || !lend_error_unharmed(fn))
		lend_lease_error(fn);
	if (state == pci_channel_io_perm_failure) {
		/* A neighbour without a driver is enough for that: our own reset decides. */
		lend_lease_error_over(fn);
		return PCI_ERS_RESULT_DISCONNECT;
	}
	/* We reset it anyhow, and without whatever else is on its bus, if it can be reached. */
	return state == pci_channel_io_normal ? PCI_ERS_RESULT_CAN_RECOVER :
						PCI_ERS_RESULT_NEED_RESET;
}

/*
 * A reset of all that is below the port clears Memory Space Enable.  Of a virtual function, which
 * its physical one's driver may have brought back by now, it clears Bus Master Enable; one that
 * does no DMA says nothing.
 */
static bool lend_error_not_reset(struct lend_fn *fn)
{
	return lend_error_command(fn, fn->pdev->is_virtfn ? PCI_COMMAND_MASTER : PCI_COMMAND_MEMORY);
}

static pci_ers_result_t lend_error_slot_reset(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	/* Its neighbour's driver wanted a reset, but an older core makes none, and only says so. */
	if (lend_error_not_reset(fn) && lend_error_unharmed(fn))
		return PCI_ERS_RESULT_RECOVERED;
	/* A neighbour had an error, and its driver wanted a reset of all: ours lost its state. */
	if (!READ_ONCE(fn->error_until))
		lend_lease_error(fn);
	/* The group's own reset follows, and decides whether the device is lent again. */
	pci_load_saved_state(pdev, fn->saved);
	pci_restore_state(pdev);
	pci_clear_master(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static void lend_error_resume(struct pci_dev *pdev)
{
	lend_lease_error_over(pci_get_drvdata(pdev));
}

/* The reset while it is bound comes before there is data. */
static void lend_error_reset_prepare(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	if (fn)
		lend_fence_reset_begins(fn);
}

static void lend_error_reset_done(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	if (fn)
		lend_fence_reset_over(fn);
}

static const struct pci_error_handlers lend_error_handlers = {
	.error_detected = lend_error_detected,
	.slot_reset = lend_error_slot_reset,
	.resume = lend_error_resume,
	.reset_prepare = lend_error_reset_prepare,
	.reset_done = lend_error_reset_done,
};

static struct pci_driver lend_driver = {
	.name = "dlend-lender",
	.id_table = NULL,	/* bound by driver_override only */
	.probe = lend_driver_probe,
	.remove = lend_driver_remove,
	.err_handler = &lend_error_handlers,
	.groups = lend_drv_groups,
	.dev_groups = lend_sysfs_groups,
	.driver_managed_dma = true,
};

/* A function that nobody has bound yet is one of its group, and one that is gone is not. */
static int lend_driver_bus_event(struct notifier_block *nb, unsigned long action, void *data)
{
	if (action == BUS_NOTIFY_ADD_DEVICE || action == BUS_NOTIFY_REMOVED_DEVICE)
		lend_groups_changed();
	return NOTIFY_DONE;
}

static struct notifier_block lend_driver_bus_notifier = { .notifier_call = lend_driver_bus_event };

static int __init lend_driver_init(void)
{
	int ret;

	/* A peer's guest may wait for its disk to be offered again, and its host for that guest. */
	lend_wq = alloc_workqueue("dlend_lender", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!lend_wq)
		return -ENOMEM;
	lend_debugfs_init();
	ret = dlend_link_user_register(&lend_link_user);
	if (ret)
		goto debugfs;
	/* Guests on this host borrow like all others. */
	ret = dlend_loop_open();
	if (ret)
		goto user;
	ret = bus_register_notifier(&pci_bus_type, &lend_driver_bus_notifier);
	if (ret)
		goto user;
	ret = pci_register_driver(&lend_driver);
	if (ret)
		goto notifier;
	return 0;

notifier:
	bus_unregister_notifier(&pci_bus_type, &lend_driver_bus_notifier);
	lend_groups_exit();
user:
	dlend_link_user_unregister(&lend_link_user);
	lend_outbox_exit();
debugfs:
	lend_debugfs_exit();
	destroy_workqueue(lend_wq);
	return ret;
}

static void __exit lend_driver_exit(void)
{
	pci_unregister_driver(&lend_driver);
	bus_unregister_notifier(&pci_bus_type, &lend_driver_bus_notifier);
	lend_groups_exit();
	dlend_link_user_unregister(&lend_link_user);
	lend_outbox_exit();
	lend_debugfs_exit();
	destroy_workqueue(lend_wq);
	lend_alias_exit();
}

module_init(lend_driver_init);
module_exit(lend_driver_exit);

MODULE_DESCRIPTION("Lends PCI devices to other hosts over NTB");
MODULE_LICENSE("GPL");
DLEND_IMPORT();
