// SPDX-License-Identifier: GPL-2.0
/*
 * Which devices can be lent, and which cannot: the checks before a device is touched, each with a
 * message that says why, and what to do.
 *
 * Knows nothing of functions that are lent already.
 */
#include <linux/iommu.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "lender/bus_reset.h"
#include "lender/check.h"

static bool lend_check_allow_ats;
module_param_named(allow_ats, lend_check_allow_ats, bool, 0644);
MODULE_PARM_DESC(allow_ats,
		 "Lend devices that translate addresses by themselves (ATS): the IOMMU does not check what they have translated, and a fence waits for their answer (read when a device is bound, and when it is borrowed; default: off)");

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

/* It has no reset of its own. */
static int lend_check_shared_reset(struct pci_dev *pdev)
{
	char other[32];
	int ret = lend_bus_reset_can(pdev, other, sizeof(other));

	if (ret == -EXDEV)
		pci_err(pdev, "not lent: it has no reset of its own, so one borrower's data could reach the next; a reset of its slot or bus would reset %s, too, which is not in its IOMMU group\n",
			other);
	else if (ret)
		pci_err(pdev, "not lent: it has no reset of its own, and its slot or bus has none, so one borrower's data could reach the next; see reset_method in its sysfs folder\n");
	return ret ? -ENOTTY : 0;
}

/*
 * A request with an address that the device has translated passes by the IOMMU, and it may go on
 * with an old translation until it answers that it has dropped it: a device that hangs does not.
 * The IOMMU's driver turns ATS on and off, some with each domain that is attached: so what counts
 * is what it is then, and the look at bind time only tells people early.
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

/* A device's write to the MSI range is an interrupt.  Only remapping checks it: VFIO asks, too. */
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

/* The firmware goes on using the device, whichever driver it has, so it cannot be given away. */
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

/* A group is lent as a whole. */
static int lend_check_members(struct pci_dev *pdev, struct iommu_group *iommu,
			      struct lend_census *census)
{
	lend_census_take(iommu, census);
	if (census->foreign || census->members > LEND_GROUP_MAX) {
		pci_err(pdev, "not lent: its IOMMU group %d has %u functions%s, and a group is lent as a whole (at most %u PCI functions); a slot with ACS makes groups smaller\n",
			iommu_group_id(iommu), census->members,
			census->foreign ? " and devices that are not PCI" : "", LEND_GROUP_MAX);
		return -EOPNOTSUPP;
	}
	if (census->members > 1)
		pci_info(pdev, "one of %u functions of IOMMU group %d: can be borrowed when all of them are lent\n",
			 census->members, iommu_group_id(iommu));
	return 0;
}

int lend_check_group(struct pci_dev *pdev, struct iommu_group *iommu, struct lend_census *census)
{
	int ret = lend_check_reserved(pdev, iommu);

	if (!ret)
		ret = lend_check_interrupts(pdev, iommu);
	if (!ret)
		ret = lend_check_members(pdev, iommu, census);
	return ret;
}

int lend_check_attach(struct dlend_domain *domain, struct lend_fn *fn)
{
	struct iommu_group *iommu = iommu_group_get(&fn->pdev->dev);
	int ret = iommu ? dlend_domain_attach(domain) : -ENODEV;

	if (!ret)
		ret = iommu_group_for_each_dev(iommu, NULL, lend_check_ats);
	if (ret)
		dlend_domain_block(domain);
	iommu_group_put(iommu);
	return ret;
}
