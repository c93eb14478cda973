// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts of a lent function.  Handlers in this host take them, count them in the borrower's
 * memory, and ring the borrower's doorbell (dlend_irq_fire()).  Or the device itself writes its
 * MSIs to the borrower (direct interrupts, lend_direct_up()).
 *
 * At the end of a lease the vectors are freed first, so that no handler runs any more, and then the
 * interrupt source is closed.
 */
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/msi.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include <dlend/names.h>

#include "lender/lender.h"
#include "lender/trace.h"

static irqreturn_t lend_irq_msi_handler(int irq, void *arg)
{
	struct lend_vector *vec = arg;

	WRITE_ONCE(vec->fired, vec->fired + 1);
	/* false: no lock is held, so this may read through the window. */
	dlend_irq_fire(vec->fn->irq.source, vec->index, false);
	return IRQ_HANDLED;
}

static irqreturn_t lend_irq_intx_handler(int irq, void *arg)
{
	struct lend_vector *vec = arg;
	struct lend_irqs *irqs = &vec->fn->irq;
	unsigned long flags;
	bool mine;

	spin_lock_irqsave(&irqs->lock, flags);
	if (irqs->exclusive) {
		disable_irq_nosync(irq);
		mine = true;
	} else {
		mine = !irqs->masked && pci_check_and_mask_intx(vec->fn->pdev);
	}
	if (mine)
		irqs->masked = true;
	spin_unlock_irqrestore(&irqs->lock, flags);

	if (!mine)
		return IRQ_NONE;
	WRITE_ONCE(vec->fired, vec->fired + 1);
	/* As in lend_irq_msi_handler(). */
	dlend_irq_fire(vec->fn->irq.source, 0, false);
	return IRQ_HANDLED;
}

void lend_irq_unmask(struct lend_fn *fn)
{
	struct lend_irqs *irqs = &fn->irq;
	bool again = false;

	if (irqs->mode != DLEND_IRQ_INTX)
		return;
	spin_lock_irq(&irqs->lock);
	if (irqs->masked && irqs->exclusive) {
		irqs->masked = false;
		enable_irq(irqs->vec[0].irq);
	} else if (irqs->masked) {
		again = !pci_check_and_unmask_intx(fn->pdev);
		irqs->masked = again;
	}
	spin_unlock_irq(&irqs->lock);
	if (!again)
		return;
	/*
	 * true: a thread does the flushing read through the window, which must not be done with the
	 * group lock held.
	 */
	dlend_irq_fire(irqs->source, 0, true);
}

/*
 * Function Mask of MSI-X: while it is set, interrupts become pending in the device, and are not
 * lost.
 */
void lend_irq_hold(struct lend_fn *fn, bool mask)
{
	u16 at = fn->pdev->msix_cap + PCI_MSIX_FLAGS, flags;

	if (fn->irq.mode != DLEND_IRQ_MSIX)
		return;
	pci_read_config_word(fn->pdev, at, &flags);
	flags &= ~PCI_MSIX_FLAGS_MASKALL;
	pci_write_config_word(fn->pdev, at, flags | (mask ? PCI_MSIX_FLAGS_MASKALL : 0));
}

u64 lend_irq_fired(const struct lend_fn *fn)
{
	u64 fired = fn->irq.total;

	for (u32 i = 0; i < fn->irq.count; i++)
		fired += READ_ONCE(fn->irq.vec[i].fired);
	return fired;
}

/* Free the handlers of the first @count vectors, and wait for handlers that run. */
static void lend_irq_free(struct lend_fn *fn, u32 count)
{
	struct lend_irqs *irqs = &fn->irq;

	while (count--) {
		free_irq(irqs->vec[count].irq, &irqs->vec[count]);
		irqs->total += irqs->vec[count].fired;
	}
}

/* Undo lend_irq_alloc_vectors().  The kernel turns INTx on when it frees vectors.  Group lock. */
static void lend_irq_free_vectors(struct pci_dev *pdev)
{
	pci_free_irq_vectors(pdev);
	pci_intx(pdev, 0);
}

/* End the interrupts of a function; the interrupt source stays open.  Group lock. */
static void lend_irq_down(struct lend_fn *fn)
{
	struct lend_irqs *irqs = &fn->irq;

	if (irqs->mode == DLEND_IRQ_NONE)
		return;
	if (irqs->mode == DLEND_IRQ_INTX)
		pci_intx(fn->pdev, 0);
	if (!irqs->direct)
		lend_irq_free(fn, irqs->count);
	if (irqs->mode != DLEND_IRQ_INTX)
		lend_irq_free_vectors(fn->pdev);
	if (irqs->direct)
		dlend_domain_drop(fn->group->domain, &irqs->owner);
	kvfree(irqs->vec);
	irqs->vec = NULL;
	irqs->count = 0;
	irqs->mode = DLEND_IRQ_NONE;
	irqs->direct = false;
}

/* Set up the handlers of @count vectors, or of none.  Return: 0; or as request_irq(). */
static int lend_irq_request(struct lend_fn *fn, u32 mode, u32 count)
{
	irq_handler_t handler = mode == DLEND_IRQ_INTX ? lend_irq_intx_handler :
							 lend_irq_msi_handler;
	struct lend_irqs *irqs = &fn->irq;
	unsigned long flags = 0;
	int ret;

	if (mode == DLEND_IRQ_INTX && !irqs->exclusive)
		flags = IRQF_SHARED;
	for (u32 i = 0; i < count; i++) {
		struct lend_vector *vec = &irqs->vec[i];

		vec->fn = fn;
		vec->index = i;
		vec->irq = mode == DLEND_IRQ_INTX ? fn->pdev->irq : pci_irq_vector(fn->pdev, i);
		ret = request_irq(vec->irq, handler, flags, "dlend-lender", vec);
		if (ret) {
			lend_irq_free(fn, i);
			return ret;
		}
	}
	return 0;
}

/*
 * Allocate exactly @count vectors of this host, which turns MSI or MSI-X on in the device.  Group
 * lock.
 * Return: 0; or as pci_alloc_irq_vectors().
 */
static int lend_irq_alloc_vectors(struct lend_fn *fn, u32 mode, u32 count)
{
	unsigned int type = mode == DLEND_IRQ_MSIX ? PCI_IRQ_MSIX : PCI_IRQ_MSI;
	u32 most = READ_ONCE(fn->max_vectors);
	int ret;

	if (most && count > most)
		return -ENOSPC;
	ret = pci_alloc_irq_vectors(fn->pdev, count, count, type);
	return ret < 0 ? ret : 0;
}

static int lend_irq_up_msi(struct lend_fn *fn, u32 mode, u32 count)
{
	int ret = lend_irq_alloc_vectors(fn, mode, count);

	if (ret)
		return ret;
	ret = lend_irq_request(fn, mode, count);
	if (ret)
		lend_irq_free_vectors(fn->pdev);
	return ret;
}

/*
 * Devices whose INTx Disable bit can be written, so that pci_intx_mask_supported() is true, but has
 * no effect, and for which the kernel has no quirk.  With vfio-pci, people use nointxmask for them.
 */
static const struct pci_device_id lend_irq_no_mask[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_XILINX, PCI_DEVICE_ID_XILINX_HAMMERFALL_DSP_MADI) },
	{ PCI_DEVICE(PCI_VENDOR_ID_CREATIVE, PCI_DEVICE_ID_CREATIVE_20K1) },
	{ }
};

static int lend_irq_up_intx(struct lend_fn *fn)
{
	int ret;

	fn->irq.exclusive = !pci_intx_mask_supported(fn->pdev) ||
			    pci_match_id(lend_irq_no_mask, fn->pdev);
	fn->irq.masked = false;
	ret = lend_irq_request(fn, DLEND_IRQ_INTX, 1);
	if (!ret)
		pci_intx(fn->pdev, 1);
	return ret;
}

void lend_irq_restore_intx(struct lend_fn *fn)
{
	struct lend_irqs *irqs = &fn->irq;

	if (irqs->mode != DLEND_IRQ_INTX)
		return;
	spin_lock_irq(&irqs->lock);
	/*
	 * Set or clear INTx Disable.  If INTx was masked in the device, it stays so until the guest
	 * has served the interrupt that came before the reset.
	 */
	pci_intx(fn->pdev, irqs->exclusive || !irqs->masked);
	spin_unlock_irq(&irqs->lock);
}

/*
 * Direct interrupts: no handler takes them in this host.  The device writes its MSIs through the
 * second window of the link to the borrower, whose interrupt remapping takes them.
 *
 * IOMMUs do not translate the addresses at which x86 processors take interrupts, 0xfee00000 to
 * 0xfeefffff.  So the device gets IOVAs right behind these, which its group's domain maps to the
 * second window.
 */

#define LEND_DIRECT_IOVA	0xfef00000u

/* Map the IOVAs for direct interrupts to the second window.  Return: as lend_irq_setup(). */
static int lend_direct_map(struct lend_fn *fn, const struct dlend_p_direct *p)
{
	struct dlend_dma_range r = {
		.iova = LEND_DIRECT_IOVA,
		.size = DLEND_DIRECT_SIZE,
		.prot = DLEND_PROT_WRITE,
		.mmio = true,
		.thing = LEND_DIRECT_IOVA,
	};
	int ret;

	ret = dlend_link_irq_phys(fn->group->link, le64_to_cpu(p->page), &r.phys);
	if (ret)
		return ret;
	ret = dlend_domain_map(fn->group->domain, &fn->irq.owner, &r);
	/* The guest has memory at these IOVAs, or the platform reserves them. */
	return ret == -EEXIST || ret == -ERANGE ? -EOPNOTSUPP : ret;
}

/* Write the message of a vector into the device, instead of the one of this host, and unmask it. */
static void lend_direct_write(struct lend_fn *fn, u32 index, const struct dlend_p_message *m)
{
	unsigned int irq = pci_irq_vector(fn->pdev, index);
	struct msi_msg msg = {
		.address_lo = LEND_DIRECT_IOVA + le32_to_cpu(m->at),
		.data = le32_to_cpu(m->data),
	};

	/* MSI has one message for all vectors: the device adds the vector's number to its data. */
	if (!index || fn->pdev->msix_enabled)
		pci_write_msi_msg(irq, &msg);
	pci_msi_unmask_irq(irq_get_irq_data(irq));
}

/* Set up direct interrupts.  Vectors are allocated here, but get no handlers.  Group lock. */
static int lend_direct_up(struct lend_fn *fn, const struct dlend_p_direct *p,
			  const struct dlend_p_message *message)
{
	u32 count = le32_to_cpu(p->count);
	int ret = lend_direct_map(fn, p);

	if (ret)
		return ret;
	ret = lend_irq_alloc_vectors(fn, le32_to_cpu(p->mode), count);
	if (ret) {
		dlend_domain_drop(fn->group->domain, &fn->irq.owner);
		return ret;
	}
	for (u32 i = 0; i < count; i++)
		lend_direct_write(fn, i, &message[i]);
	return 0;
}

/*
 * Read from the device: the completion cannot pass the posted writes that the device has made
 * before, its MSIs among them.  So these have left the device; before the borrower gets the reply
 * to its request, a read through the link pushes them on to the borrower (dlend_tx_send()).
 */
static void lend_direct_finish(struct lend_fn *fn)
{
	u32 id;

	pci_read_config_dword(fn->pdev, PCI_VENDOR_ID, &id);
}

void lend_irq_finish(struct lend_fn *fn)
{
	if (fn->irq.direct)
		lend_direct_finish(fn);
	else
		for (u32 i = 0; i < fn->irq.count; i++)
			synchronize_irq(fn->irq.vec[i].irq);
}

/* Set up interrupts for a function that has none.  Group lock.  Return: as lend_irq_setup(). */
static int lend_irq_up(struct lend_fn *fn, u32 mode, u32 count,
		       const struct dlend_p_direct *direct, const struct dlend_p_message *message)
{
	struct lend_irqs *irqs = &fn->irq;
	u32 most = fn->nr_msix;
	int ret;

	if (mode != DLEND_IRQ_MSIX)
		most = mode == DLEND_IRQ_MSI ? fn->nr_msi : fn->has_intx;
	if (count > most)
		return -EINVAL;
	if (!irqs->source)
		return -ENOTCONN;
	irqs->vec = kvcalloc(count, sizeof(*irqs->vec), GFP_KERNEL);
	if (!irqs->vec)
		return -ENOMEM;
	if (direct)
		ret = lend_direct_up(fn, direct, message);
	else if (mode == DLEND_IRQ_INTX)
		ret = lend_irq_up_intx(fn);
	else
		ret = lend_irq_up_msi(fn, mode, count);
	if (ret) {
		kvfree(irqs->vec);
		irqs->vec = NULL;
		return ret;
	}
	irqs->direct = direct;
	irqs->mode = mode;
	irqs->count = count;
	return 0;
}

int lend_irq_setup(struct lend_fn *fn, u32 mode, u32 count, const struct dlend_p_direct *direct,
		   const struct dlend_p_message *message)
{
	bool was_direct = fn->irq.direct;
	int ret = 0;

	lend_irq_down(fn);
	/*
	 * Direct interrupts that the device has sent must reach the borrower before the reply does,
	 * after which the borrower frees its vectors.
	 */
	if (was_direct)
		lend_direct_finish(fn);
	if (mode != DLEND_IRQ_NONE)
		ret = lend_irq_up(fn, mode, count, direct, message);
	/* -EOPNOTSUPP is no failure: so the borrower learns that there are no direct interrupts. */
	if (ret && ret != -EOPNOTSUPP)
		dev_err_ratelimited(&fn->pdev->dev,
				    "interrupts of mode %u with %u vectors cannot be set up (%d): the device has INTx %d, MSI %u, MSI-X %u\n",
				    mode, count, ret, fn->has_intx, fn->nr_msi, fn->nr_msix);
	trace_dlend_irq_setup(&fn->addr, mode, count, ret);
	return ret;
}

void lend_irq_init(struct lend_fn *fn)
{
	/* Of the two kinds of range owners, the one that maps no guest memory. */
	dlend_owner_init(&fn->irq.owner, DLEND_OWNER_BAR);
	spin_lock_init(&fn->irq.lock);
}

void lend_irq_close(struct lend_fn *fn)
{
	lend_irq_down(fn);
	if (fn->irq.source)
		dlend_irq_source_close(fn->irq.source);
	fn->irq.source = NULL;
}

void lend_irq_show(struct lend_fn *fn, struct seq_file *m)
{
	struct lend_irqs *irqs = &fn->irq;

	seq_printf(m, "mode %s\nway %s\nvectors %u\n", dlend_irq_mode_name(irqs->mode),
		   irqs->direct ? "direct" : irqs->count ? "doorbell" : "none", irqs->count);
	for (u32 i = 0; i < irqs->count; i++) {
		unsigned long fired = READ_ONCE(irqs->vec[i].fired);

		if (fired)
			seq_printf(m, "vector %u irq %d fired %lu\n", i, irqs->vec[i].irq, fired);
	}
	seq_printf(m, "masked %d\ntotal %llu\n", irqs->masked, lend_irq_fired(fn));
}
