/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the supported kernels (6.12 and newer; Kbuild refuses to build for older
 * ones).  Code is written for the newest kernel, and what older ones lack is bridged here and
 * nowhere else (for pure code: dlend/alloc.h).  Each bridge is small and stands alone.
 * DLEND_HAVE_* comes from include/dlend/probe, which looks into the kernel's headers.
 */
#ifndef DLEND_COMPAT_H
#define DLEND_COMPAT_H

#include <linux/export.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <dlend/alloc.h>

/* Symbol namespaces became strings in 6.13. */
#ifdef DLEND_HAVE_NS_STRINGS
#define DLEND_EXPORT(sym)	EXPORT_SYMBOL_NS_GPL(sym, "DLEND")
#define DLEND_IMPORT()		MODULE_IMPORT_NS("DLEND")
#else
#define DLEND_EXPORT(sym)	EXPORT_SYMBOL_NS_GPL(sym, DLEND)
#define DLEND_IMPORT()		MODULE_IMPORT_NS(DLEND)
#endif

/*
 * The device whose IOMMU domain translates a peer's accesses through the NTB.  Before
 * ntb_get_dma_dev(), it is the NTB's function.  Macros, because only ntb/client.c includes ntb.h.
 */
#ifdef DLEND_HAVE_NTB_DMA_DEV
#define dlend_ntb_dma_dev(ntb)	ntb_get_dma_dev(ntb)
#else
#define dlend_ntb_dma_dev(ntb)	(&(ntb)->pdev->dev)
#endif

/*
 * Before 7.0, the page tables of AMD's IOMMU driver set the memory-encryption bit (SME) in mappings
 * of MMIO, too, so that a mapped BAR leads nowhere.  No header shows whether a kernel has the
 * correction, so its version is compared, here alone.  While SME is on, such a kernel maps no BARs:
 * dlend_paging_map() returns -EOPNOTSUPP.  At worst, that hits an older kernel with the correction.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define DLEND_SME_BREAKS_MMIO	1
#else
#define DLEND_SME_BREAKS_MMIO	0
#endif

/* vmf_insert_pfn_pmd() and _pud() take an unsigned long since 6.17; before, a pfn_t. */
#include <linux/mm.h>
#ifdef DLEND_HAVE_PFN_T
#include <linux/pfn_t.h>
#define dlend_compat_pfn(pfn)	__pfn_to_pfn_t(pfn, PFN_DEV)
#else
#define dlend_compat_pfn(pfn)	(pfn)
#endif

static inline vm_fault_t dlend_compat_insert_pmd(struct vm_fault *vmf, unsigned long pfn)
{
#ifdef CONFIG_ARCH_SUPPORTS_PMD_PFNMAP
	return vmf_insert_pfn_pmd(vmf, dlend_compat_pfn(pfn), false);
#else
	return VM_FAULT_FALLBACK;
#endif
}

static inline vm_fault_t dlend_compat_insert_pud(struct vm_fault *vmf, unsigned long pfn)
{
#ifdef CONFIG_ARCH_SUPPORTS_PUD_PFNMAP
	return vmf_insert_pfn_pud(vmf, dlend_compat_pfn(pfn), false);
#else
	return VM_FAULT_FALLBACK;
#endif
}

/*
 * VFIO_DEVICE_GET_REGION_INFO became a device operation in 7.0.  Before, the driver's ioctl answers
 * it.  mdev/ has a function with the operation's parameters; on older kernels its ioctl calls that
 * function through dlend_compat_region_info(), which returns -ENOTTY on newer ones.
 */
#include <linux/vfio.h>
typedef int (*dlend_compat_region_fn)(struct vfio_device *vfio, struct vfio_region_info *info,
				      struct vfio_info_cap *caps);
#ifdef DLEND_HAVE_REGION_INFO_CAPS
#define DLEND_REGION_INFO_OP(fn)	.get_region_info_caps = fn,

static inline long dlend_compat_region_info(struct vfio_device *vfio, void __user *arg,
					    dlend_compat_region_fn fn)
{
	return -ENOTTY;		/* VFIO calls the operation instead */
}
#else
#define DLEND_REGION_INFO_OP(fn)

static inline long dlend_compat_region_caps(void __user *arg, struct vfio_region_info *info,
					    struct vfio_info_cap *caps)
{
	info->cap_offset = 0;
	if (!caps->size)
		return 0;
	info->flags |= VFIO_REGION_INFO_FLAG_CAPS;
	if (info->argsz < sizeof(*info) + caps->size) {
		info->argsz = sizeof(*info) + caps->size;
		return 0;
	}
	vfio_info_cap_shift(caps, sizeof(*info));
	info->cap_offset = sizeof(*info);
	return copy_to_user(arg + sizeof(*info), caps->buf, caps->size) ? -EFAULT : 0;
}

static inline long dlend_compat_region_info(struct vfio_device *vfio, void __user *arg,
					    dlend_compat_region_fn fn)
{
	unsigned long minsz = offsetofend(struct vfio_region_info, offset);
	struct vfio_region_info info = {};
	struct vfio_info_cap caps = {};
	long ret;

	if (copy_from_user(&info, arg, minsz))
		return -EFAULT;
	if (info.argsz < minsz)
		return -EINVAL;
	ret = fn(vfio, &info, &caps);
	if (!ret)
		ret = dlend_compat_region_caps(arg, &info, &caps);
	if (!ret && copy_to_user(arg, &info, minsz))
		ret = -EFAULT;
	kfree(caps.buf);
	return ret;
}
#endif

/* irq_bypass_register_producer() takes eventfd and interrupt as parameters since 6.17. */
#include <linux/irqbypass.h>
static inline int dlend_compat_register_producer(struct irq_bypass_producer *producer,
						 struct eventfd_ctx *eventfd, int irq)
{
#ifdef DLEND_HAVE_PRODUCER_EVENTFD
	return irq_bypass_register_producer(producer, eventfd, irq);
#else
	producer->token = eventfd;
	producer->irq = irq;
	return irq_bypass_register_producer(producer);
#endif
}

/*
 * Make an MSI parent domain that has no parent domain of its own.  msi_create_parent_irq_domain(),
 * which takes a struct irq_domain_info, is there since 6.16.  Return: the domain, or NULL.
 */
#include <linux/irqdomain.h>
#include <linux/msi.h>
static inline struct irq_domain *dlend_compat_msi_parent(struct fwnode_handle *fwnode,
							 const struct irq_domain_ops *ops,
							 const struct msi_parent_ops *parent_ops,
							 unsigned int flags)
{
#ifdef DLEND_HAVE_MSI_PARENT_DOMAIN
	struct irq_domain_info info = {
		.fwnode = fwnode,
		.ops = ops,
		.domain_flags = flags,
	};

	return msi_create_parent_irq_domain(&info, parent_ops);
#else
	struct irq_domain *domain;

	domain = irq_domain_create_hierarchy(NULL, IRQ_DOMAIN_FLAG_MSI_PARENT | flags, 0, fwnode,
					     ops, NULL);
	if (!domain)
		return NULL;
	irq_domain_update_bus_token(domain, parent_ops->bus_select_token);
	domain->msi_parent_ops = parent_ops;
	return domain;
#endif
}

/*
 * Does the unmapping of a range leave page tables allocated until the domain is freed?  Since 6.19
 * the drivers of Intel's and AMD's IOMMUs use generic_pt, which frees a table when one call unmaps
 * all that it maps.  Before, AMD's driver does not.  If tables stay, each table that a borrower's
 * mappings have ever needed counts against the limit of the domain (dlend_pt_quota_add()).
 */
#ifdef DLEND_HAVE_GENERIC_PT
#define DLEND_TABLES_STAY	false
#else
#define DLEND_TABLES_STAY	true
#endif

/* Since 6.19 iommu_domain_ops.attach_dev() has the device's old domain as third parameter. */
#ifdef DLEND_HAVE_ATTACH_DEV_OLD
#define DLEND_ATTACH_DEV_ARGS	struct iommu_domain *domain, struct device *dev, \
				struct iommu_domain *old
#else
#define DLEND_ATTACH_DEV_ARGS	struct iommu_domain *domain, struct device *dev
#endif

/* Since 6.19 struct iommu_ops has no pgsize_bitmap: each struct iommu_domain has one. */
#ifdef DLEND_HAVE_OPS_PGSIZES
#define DLEND_IOMMU_OPS_PGSIZE(sizes)	.pgsize_bitmap = (sizes),
#else
#define DLEND_IOMMU_OPS_PGSIZE(sizes)
#endif

#endif
