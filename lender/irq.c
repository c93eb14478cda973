// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts of a lent function: taken here, counted in the borrower's memory, doorbell rung.
 * Knows nothing of leases; called under the group's lock, the handlers under none.
 *
 * Order on the way down: vectors are freed (no handler runs any more), then the source is closed.
 */
#include <linux/interrupt.h>
#include <linux/log2.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <dlend/names.h>

#include "lender/lender.h"
#include "lender/trace.h"

static void dl_fire(struct dl_fn *fn, u32 vector)
{
	trace_dlend_irq(&fn->addr, vector);
	dlend_irq_fire(fn->irq.source, vector);
}

static irqreturn_t dl_msi_handler(int irq, void *arg)
{
	struct dl_vector *vec = arg;

	WRITE_ONCE(vec->fired, vec->fired + 1);
	dl_fire(vec->fn, vec->index);
	return IRQ_HANDLED;
}

static irqreturn_t dl_intx_handler(int irq, void *arg)
{
	struct dl_vector *vec = arg;
	struct dl_irqs *irqs = &vec->fn->irq;
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
	dl_fire(vec->fn, 0);
	return IRQ_HANDLED;
}

/**
 * dl_irq_unmask - the guest has served INTx: it may fire again
 * @fn: function
 *
 * If the line is still up it fires again at once, and stays masked.
 */
void dl_irq_unmask(struct dl_fn *fn)
{
	struct dl_irqs *irqs = &fn->irq;
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
	if (again)
		dl_fire(fn, 0);
}

static void dl_irq_free(struct dl_fn *fn, u32 count)
{
	struct dl_irqs *irqs = &fn->irq;

	while (count--) {
		free_irq(irqs->vec[count].irq, &irqs->vec[count]);
		irqs->total += irqs->vec[count].fired;
	}
}

/* The core turns INTx on with that, which nobody here handles: the line may be others', too. */
static void dl_irq_free_vectors(struct pci_dev *pdev)
{
	pci_free_irq_vectors(pdev);
	pci_intx(pdev, 0);
}

static void dl_irq_down(struct dl_fn *fn)
{
	struct dl_irqs *irqs = &fn->irq;

	if (irqs->mode == DLEND_IRQ_NONE)
		return;
	if (irqs->mode == DLEND_IRQ_INTX)
		pci_intx(fn->pdev, 0);
	dl_irq_free(fn, irqs->count);
	if (irqs->mode != DLEND_IRQ_INTX)
		dl_irq_free_vectors(fn->pdev);
	kvfree(irqs->vec);
	irqs->vec = NULL;
	irqs->count = 0;
	irqs->mode = DLEND_IRQ_NONE;
}

static int dl_irq_request(struct dl_fn *fn, u32 mode, u32 count)
{
	irq_handler_t handler = mode == DLEND_IRQ_INTX ? dl_intx_handler : dl_msi_handler;
	struct dl_irqs *irqs = &fn->irq;
	unsigned long flags = 0;
	int ret;

	if (mode == DLEND_IRQ_INTX && !irqs->exclusive)
		flags = IRQF_SHARED;
	for (u32 i = 0; i < count; i++) {
		struct dl_vector *vec = &irqs->vec[i];

		vec->fn = fn;
		vec->index = i;
		vec->irq = mode == DLEND_IRQ_INTX ? fn->pdev->irq : pci_irq_vector(fn->pdev, i);
		ret = request_irq(vec->irq, handler, flags, "dlend-lender", vec);
		if (ret) {
			dl_irq_free(fn, i);
			return ret;
		}
	}
	return 0;
}

static int dl_irq_up_msi(struct dl_fn *fn, u32 mode, u32 count)
{
	unsigned int type = mode == DLEND_IRQ_MSIX ? PCI_IRQ_MSIX : PCI_IRQ_MSI;
	u32 most = READ_ONCE(fn->max_vectors);
	int ret;

	if (most && count > most)
		return -ENOSPC;
	ret = pci_alloc_irq_vectors(fn->pdev, count, count, type);
	if (ret < 0)
		return ret;
	ret = dl_irq_request(fn, mode, count);
	if (ret)
		dl_irq_free_vectors(fn->pdev);
	return ret;
}

static int dl_irq_up_intx(struct dl_fn *fn)
{
	int ret;

	fn->irq.exclusive = !pci_intx_mask_supported(fn->pdev);
	fn->irq.masked = false;
	ret = dl_irq_request(fn, DLEND_IRQ_INTX, 1);
	if (!ret)
		pci_intx(fn->pdev, 1);
	return ret;
}

static bool dl_irq_valid(const struct dl_fn *fn, u32 mode, u32 count)
{
	switch (mode) {
	case DLEND_IRQ_INTX:
		return fn->has_intx && count == 1;
	case DLEND_IRQ_MSI:
		return count && count <= fn->nr_msi && is_power_of_2(count);
	case DLEND_IRQ_MSIX:
		return count && count <= fn->nr_msix && count <= DLEND_MAX_VECTORS;
	default:
		return false;
	}
}

static int dl_irq_up(struct dl_fn *fn, u32 mode, u32 count)
{
	struct dl_irqs *irqs = &fn->irq;
	int ret;

	if (!dl_irq_valid(fn, mode, count))
		return -EINVAL;
	if (!irqs->source)
		return -ENOTCONN;
	irqs->vec = kvcalloc(count, sizeof(*irqs->vec), GFP_KERNEL);
	if (!irqs->vec)
		return -ENOMEM;
	ret = mode == DLEND_IRQ_INTX ? dl_irq_up_intx(fn) : dl_irq_up_msi(fn, mode, count);
	if (ret) {
		kvfree(irqs->vec);
		irqs->vec = NULL;
		return ret;
	}
	irqs->mode = mode;
	irqs->count = count;
	return 0;
}

/**
 * dl_irq_setup - make the function interrupt in this way
 * @fn: function
 * @mode: enum dlend_irq_mode, not trusted
 * @count: vectors, all or none
 *
 * Context: group lock. Return: 0; -EINVAL the function has no such interrupts; -ENOTCONN not
 * lent; -ENOSPC too few vectors in this host; -ENOMEM.
 */
int dl_irq_setup(struct dl_fn *fn, u32 mode, u32 count)
{
	int ret = 0;

	dl_irq_down(fn);
	if (mode != DLEND_IRQ_NONE)
		ret = dl_irq_up(fn, mode, count);
	if (ret)
		dev_err_ratelimited(&fn->pdev->dev,
				    "interrupts of mode %u with %u vectors cannot be set up (%d): the device has INTx %d, MSI %u, MSI-X %u\n",
				    mode, count, ret, fn->has_intx, fn->nr_msi, fn->nr_msix);
	trace_dlend_irq_setup(&fn->addr, mode, count, ret);
	return ret;
}

void dl_irq_init(struct dl_fn *fn)
{
	spin_lock_init(&fn->irq.lock);
}

/**
 * dl_irq_source - find a borrower's counters
 * @fn: function
 * @link: to the borrower
 * @want: its word about them, not trusted
 *
 * Context: no lock of the function's: it reads the borrower's memory, and nobody else waits for
 * that. Return: source, for dl_irq_open() or dlend_irq_source_close(); or ERR_PTR as there.
 */
struct dlend_irq_source *dl_irq_source(const struct dl_fn *fn, struct dlend_link *link,
				       const struct dlend_p_borrow *want)
{
	return dlend_irq_source_open(link, le64_to_cpu(want->irq_offset),
				     le32_to_cpu(want->irq_handle),
				     max3(fn->nr_msix, fn->nr_msi, (u16)1));
}

/** dl_irq_open - interrupts go to @source until dl_irq_close(); none is set up yet. Group lock. */
void dl_irq_open(struct dl_fn *fn, struct dlend_irq_source *source)
{
	fn->irq.source = source;
}

/** dl_irq_close - no interrupt any more, counters forgotten. Idempotent. Group lock. */
void dl_irq_close(struct dl_fn *fn)
{
	dl_irq_down(fn);
	if (fn->irq.source)
		dlend_irq_source_close(fn->irq.source);
	fn->irq.source = NULL;
}

/** dl_irq_show - counters. Group lock. */
void dl_irq_show(struct dl_fn *fn, struct seq_file *m)
{
	struct dl_irqs *irqs = &fn->irq;
	u64 total = irqs->total;

	seq_printf(m, "mode %s\nvectors %u\n", dlend_irq_mode_name(irqs->mode), irqs->count);
	for (u32 i = 0; i < irqs->count; i++) {
		unsigned long fired = READ_ONCE(irqs->vec[i].fired);

		total += fired;
		if (fired)
			seq_printf(m, "vector %u irq %d fired %lu\n", i, irqs->vec[i].irq, fired);
	}
	seq_printf(m, "masked %d\ntotal %llu\n", irqs->masked, total);
}
