// SPDX-License-Identifier: GPL-2.0
/*
 * MSI and MSI-X of attached devices: the PCI core takes them from a domain that has no parent, as
 * there is no interrupt controller behind it.
 *
 * Masking is the interrupt core's own: an interrupt that comes while it is disabled stays pending,
 * and is sent again.
 *
 * The kernel writes MSI-X entries by itself, too: after a reset, and vfio-pci does for each vector
 * that it sets up.  So what the kernel believes to be the message is what the lender has written.
 *
 * Must not know DMA and configuration space.
 */
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/log2.h>
#include <linux/msi.h>
#include <dlend/compat.h>
#include "fn.h"
#include "irq.h"
#include "msi.h"

static struct dlend_native_fn *dlend_native_msi_fn(struct device *dev)
{
	return dlend_native_fn_of(to_pci_dev(dev));
}

static void dlend_native_msi_nothing(struct irq_data *d)
{
}

static void dlend_native_msi_message(struct irq_data *d, struct msi_msg *msg)
{
	struct dlend_native_vector *v = irq_data_get_irq_chip_data(d);

	*msg = v->message;
}

/* Here, wherever it is bound to: see dlend_native_irq_send(). */
static int dlend_native_msi_retrigger(struct irq_data *d)
{
	struct dlend_native_vector *v = irq_data_get_irq_chip_data(d);

	irq_work_queue(&v->work);
	return 1;
}

static int dlend_native_msi_affinity(struct irq_data *d, const struct cpumask *mask, bool force)
{
	return dlend_native_irq_bind(d, mask, irq_data_get_irq_chip_data(d));
}

static struct irq_chip dlend_native_msi_chip = {
	.name = "dlend",
	.irq_ack = dlend_native_msi_nothing,
	.irq_mask = dlend_native_msi_nothing,
	.irq_unmask = dlend_native_msi_nothing,
	.irq_compose_msi_msg = dlend_native_msi_message,
	.irq_set_affinity = dlend_native_msi_affinity,
	.irq_retrigger = dlend_native_msi_retrigger,
};

/* The domains */

/*
 * MSI-X vectors are asked for one by one: the lender is asked for the whole table, and for less if
 * it has not so many interrupts left.  The PCI core then tells the driver how many it can have.
 */
static int dlend_native_msi_begin_msix(struct dlend_native_fn *fn)
{
	unsigned int count = dlend_cfg_msix(&fn->cfg);
	int ret = dlend_native_irq_setup(fn, DLEND_IRQ_MSIX, count);

	while (ret == -ENOSPC && count > 1) {
		count = rounddown_pow_of_two(count - 1);
		ret = dlend_native_irq_setup(fn, DLEND_IRQ_MSIX, count);
	}
	return ret;
}

/*
 * The lender delivers all vectors of a mode or none.  MSI comes with all that the driver wants, and
 * as PCI has it, that is a power of two.
 */
static int dlend_native_msi_begin(struct dlend_native_fn *fn, const struct msi_desc *desc,
				  unsigned int nr)
{
	enum dlend_irq_mode mode = desc->pci.msi_attrib.is_msix ? DLEND_IRQ_MSIX : DLEND_IRQ_MSI;

	if (fn->irq_count)
		return fn->irq_mode == mode ? 0 : -EBUSY;
	if (mode == DLEND_IRQ_MSIX)
		return dlend_native_msi_begin_msix(fn);
	return dlend_native_irq_setup(fn, DLEND_IRQ_MSI, roundup_pow_of_two(nr));
}

static int dlend_native_msi_alloc(struct irq_domain *d, unsigned int virq, unsigned int nr,
				  void *arg)
{
	struct msi_desc *desc = ((msi_alloc_info_t *)arg)->desc;
	struct dlend_native_fn *fn = dlend_native_msi_fn(msi_desc_to_dev(desc));
	unsigned int i, first = desc->msi_index;
	struct dlend_native_vector *v;
	int ret;

	guard(mutex)(&fn->irq_lock);
	ret = dlend_native_msi_begin(fn, desc, nr);
	if (ret)
		return ret;
	ret = dlend_native_irq_take(fn, first, nr);
	if (ret)
		return ret;
	for (i = 0; i < nr; i++) {
		v = &fn->vector[first + i];
		v->cpu = cpumask_first(cpu_online_mask);
		irq_domain_set_info(d, virq + i, first + i, &dlend_native_msi_chip, v,
				    handle_edge_irq, NULL, "edge");
		irqd_set_single_target(irq_get_irq_data(virq + i));
	}
	return 0;
}

static void dlend_native_msi_free(struct irq_domain *d, unsigned int virq, unsigned int nr)
{
	struct irq_data *data = irq_domain_get_irq_data(d, virq);
	struct dlend_native_vector *v = irq_data_get_irq_chip_data(data);
	struct dlend_native_fn *fn = v->fn;
	unsigned int i, first = v - fn->vector;

	guard(mutex)(&fn->irq_lock);
	for (i = 0; i < nr; i++) {
		data = irq_domain_get_irq_data(d, virq + i);
		v = irq_data_get_irq_chip_data(data);
		WRITE_ONCE(v->virq, 0);
		irq_work_sync(&v->work);
		irq_domain_reset_irq_data(data);
	}
	dlend_native_irq_release(fn, first, nr);
}

/* Complete: the PCI core's own domain has set up its part. */
static int dlend_native_msi_activate(struct irq_domain *d, struct irq_data *data, bool reserve)
{
	dlend_native_irq_give(irq_data_get_irq_chip_data(data), data->irq);
	return 0;
}

static const struct irq_domain_ops dlend_native_msi_ops = {
	.alloc = dlend_native_msi_alloc,
	.free = dlend_native_msi_free,
	.activate = dlend_native_msi_activate,
};

static int dlend_native_msi_prepare(struct irq_domain *domain, struct device *dev, int nvec,
				    msi_alloc_info_t *arg)
{
	memset(arg, 0, sizeof(*arg));
	return 0;
}

/* The lender has written it into the device already. */
static void dlend_native_msi_write(struct irq_data *d, struct msi_msg *msg)
{
	irq_data_get_msi_desc(d)->msg = *msg;
}

/* The PCI core's own domain of a device: it neither masks nor writes in the device. */
static bool dlend_native_msi_init_dev(struct device *dev, struct irq_domain *domain,
				      struct irq_domain *real_parent, struct msi_domain_info *info)
{
	info->flags |= MSI_FLAG_USE_DEF_DOM_OPS | MSI_FLAG_USE_DEF_CHIP_OPS | MSI_FLAG_NO_MASK;
	info->ops->msi_prepare = dlend_native_msi_prepare;
	info->chip->irq_ack = irq_chip_ack_parent;
	info->chip->irq_mask = dlend_native_msi_nothing;
	info->chip->irq_unmask = dlend_native_msi_nothing;
	info->chip->irq_set_affinity = irq_chip_set_affinity_parent;
	info->chip->irq_retrigger = irq_chip_retrigger_hierarchy;
	info->chip->irq_write_msi_msg = dlend_native_msi_write;
	return true;
}

static const struct msi_parent_ops dlend_native_msi_parent_ops = {
	.supported_flags = MSI_GENERIC_FLAGS_MASK | MSI_FLAG_MULTI_PCI_MSI | MSI_FLAG_PCI_MSIX |
			   MSI_FLAG_PCI_MSIX_ALLOC_DYN | MSI_FLAG_NO_MASK,
	.bus_select_token = DOMAIN_BUS_PCI_MSI,
	.bus_select_mask = 0,
	.prefix = "dlend-",
	.init_dev_msi_info = dlend_native_msi_init_dev,
};

/* Under this domain's lock direct interrupts are taken from another one, of the NTB's. */
static struct lock_class_key dlend_native_msi_lock;

struct irq_domain *dlend_native_msi_create(struct fwnode_handle *fwnode, bool isolated)
{
	struct irq_domain *domain;

	domain = dlend_compat_msi_parent(fwnode, &dlend_native_msi_ops,
					 &dlend_native_msi_parent_ops,
					 isolated ? IRQ_DOMAIN_FLAG_ISOLATED_MSI : 0);
	if (domain)
		lockdep_set_class(&domain->mutex, &dlend_native_msi_lock);
	return domain;
}

void dlend_native_msi_remove(struct irq_domain *domain)
{
	irq_domain_remove(domain);
}
