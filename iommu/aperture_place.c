// SPDX-License-Identifier: GPL-2.0
/*
 * Whether a device can have an aperture, and where in its IO addresses; and what an admin can do if
 * it cannot.
 *
 * Knows IOMMU groups and reserved addresses; nothing of slots and mappings.
 */
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include "aperture.h"
#include "aperture_place.h"
#include "paging.h"
#include "slots.h"

static bool dlend_unsafe_interrupts;
module_param_named(allow_unsafe_interrupts, dlend_unsafe_interrupts, bool, 0644);
MODULE_PARM_DESC(allow_unsafe_interrupts,
		 "Have links, and lend devices, without interrupt remapping, like VFIO's parameter of that name: each peer, and each borrower, can then make this host see any interrupt (read when a link comes up, and when a device is bound; default: off)");

bool dlend_unsafe_interrupts_allowed(void)
{
	return READ_ONCE(dlend_unsafe_interrupts);
}
DLEND_EXPORT(dlend_unsafe_interrupts_allowed);

/* Another device of the group that a driver uses would lose its DMA mappings. */
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
 * A write to 0xfee00000 is an interrupt, and no domain has a say in that.  On most bridges a peer
 * can make its window lead there: the translation is in registers that it reaches.  So without
 * remapping it can raise any interrupt of this host: NMI, SMI and INIT among them.
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

int dlend_aperture_check_iommu(struct device *dev, struct iommu_group *group)
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
	return iommu_group_for_each_dev(group, dev, dlend_aperture_say_other_user) ?:
	       dlend_aperture_check_interrupts(dev, group);
}

/*
 * As some bridges need it, which do not say so (Switchtec), and such that the IOMMU can use large
 * pages.
 */
static u64 dlend_aperture_base_align(u64 size, u64 align)
{
	return max_t(u64, align, roundup_pow_of_two(size));
}

int dlend_aperture_pick_base(struct device *dev, const struct dlend_paging *pg, u64 size, u64 align,
			     u64 *base)
{
	u64 first = max_t(u64, pg->first, SZ_1M);
	struct dlend_span_want want = {
		.in.first = max_t(u64, first, SZ_4G),
		.in.last = pg->shared ? pg->last : min_t(u64, pg->last, dma_get_mask(dev)),
		.size = size,
		.align = dlend_aperture_base_align(size, align),
	};
	struct dlend_span *busy;
	int n, err;

	n = dlend_paging_reserved(dev, true, &busy);
	if (n < 0)
		return n;
	/* Try above 4 GiB first: below it is crowded. Try there only if the IOMMU is narrow. */
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
