// SPDX-License-Identifier: GPL-2.0
/*
 * INTx of attached devices.
 *
 * It is one vector.  The lender masks it when it has told of it, and unmasks it when it has been
 * handled here: if the device still wants it, the lender tells of it once more.  The lender
 * delivers it from the first handler on, until the last one has gone: before and after that,
 * drivers use MSI or MSI-X, or nothing.
 *
 * Must not know DMA.
 */
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/pci.h>
#include <dlend/compat.h>
#include "fn.h"
#include "intx.h"
#include "irq.h"

static struct dlend_native_fn *dlend_native_intx_fn(struct irq_data *d)
{
	return irq_data_get_irq_chip_data(d);
}

/* May sleep: the first handler is being added. */
static int dlend_native_intx_request(struct irq_data *d)
{
	struct dlend_native_fn *fn = dlend_native_intx_fn(d);
	int ret;

	guard(mutex)(&fn->irq_lock);
	if (fn->irq_count)
		return -EBUSY;
	ret = dlend_native_irq_setup(fn, DLEND_IRQ_INTX, 1);
	if (ret)
		return ret;
	fn->vector[0].cpu = cpumask_first(cpu_online_mask);
	WRITE_ONCE(fn->vector[0].virq, fn->intx);
	return 0;
}

/* May sleep: the last handler has gone. */
static void dlend_native_intx_release(struct irq_data *d)
{
	struct dlend_native_fn *fn = dlend_native_intx_fn(d);

	guard(mutex)(&fn->irq_lock);
	if (fn->irq_mode != DLEND_IRQ_INTX || !fn->irq_count)
		return;
	WRITE_ONCE(fn->vector[0].virq, 0);
	dlend_native_irq_teardown(fn);
	cancel_work(&fn->unmask_work);
}

static void dlend_native_intx_mask(struct irq_data *d)
{
}

/*
 * It has been handled.  While INTx is disabled in the device, that is all: who enables it again, as
 * vfio-pci does when its user is ready for another one, finds none that is up, and the lender
 * tells of it again.
 */
static void dlend_native_intx_unmask(struct irq_data *d)
{
	struct dlend_native_fn *fn = dlend_native_intx_fn(d);
	unsigned long flags;

	raw_spin_lock_irqsave(&fn->lock, flags);
	fn->intx_up = false;
	raw_spin_unlock_irqrestore(&fn->lock, flags);
	dlend_native_intx_wanted(fn);
}

void dlend_native_intx_wanted(struct dlend_native_fn *fn)
{
	unsigned long flags;
	bool disabled;

	raw_spin_lock_irqsave(&fn->lock, flags);
	disabled = dlend_cfg_intx_disabled(&fn->cfg);
	if (!disabled)
		fn->intx_up = false;
	raw_spin_unlock_irqrestore(&fn->lock, flags);
	if (!disabled)
		queue_work(system_highpri_wq, &fn->unmask_work);
}

static void dlend_native_intx_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, unmask_work);

	guard(mutex)(&fn->irq_lock);
	if (!fn->irq_count || fn->irq_mode != DLEND_IRQ_INTX)
		return;
	/* Until it is told, the lender keeps INTx masked.  This has waited for room in the ring. */
	if (dlend_lease_irq_unmask(dlend_native_lease(fn)) == -ETIMEDOUT)
		queue_work(system_highpri_wq, work);
}

static int dlend_native_intx_affinity(struct irq_data *d, const struct cpumask *mask, bool force)
{
	struct dlend_native_fn *fn = dlend_native_intx_fn(d);
	/* Pairs with the release in dlend_native_irq_setup(). */
	bool ours = smp_load_acquire(&fn->irq_count) && fn->irq_mode == DLEND_IRQ_INTX;

	return dlend_native_irq_bind(d, mask, ours ? fn->vector : NULL);
}

static struct irq_chip dlend_native_intx_chip = {
	.name = "dlend-INTx",
	.irq_request_resources = dlend_native_intx_request,
	.irq_release_resources = dlend_native_intx_release,
	.irq_mask = dlend_native_intx_mask,
	.irq_unmask = dlend_native_intx_unmask,
	.irq_set_affinity = dlend_native_intx_affinity,
};

int dlend_native_intx_make(struct dlend_native_fn *fn)
{
	int virq;

	if (!fn->info.has_intx)
		return 0;
	virq = irq_alloc_desc(NUMA_NO_NODE);
	if (virq < 0)
		return virq;
	INIT_WORK(&fn->unmask_work, dlend_native_intx_work);
	irq_set_chip_data(virq, fn);
	irq_set_chip_and_handler_name(virq, &dlend_native_intx_chip, handle_level_irq, "level");
	fn->intx = virq;
	return 0;
}

void dlend_native_intx_free(struct dlend_native_fn *fn)
{
	if (!fn->intx)
		return;
	cancel_work_sync(&fn->unmask_work);
	irq_free_desc(fn->intx);
	fn->intx = 0;
}
