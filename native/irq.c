// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts of attached devices, as they come from the lender.
 *
 * The lender programs the device's real registers and counts its interrupts in this node's memory;
 * the borrower tells of new ones (dlend_claim_ops.interrupt()).  Here they become interrupts of the
 * kernel.  A driver's handler runs in an irq_work on the processor that the interrupt is bound to:
 * not under the lock that interrupt() comes with.  A direct one comes with none, and is handled at
 * once where it should be: bind_work has them come there.
 *
 * The lender delivers one mode at a time, and all vectors of it or none.
 *
 * Must not know where the kernel takes its interrupts from (msi.c, intx.c), DMA and configuration
 * space.
 */
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irq.h>
#include <linux/msi.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include "fn.h"
#include "irq.h"

static void dlend_native_irq_handle(struct dlend_native_vector *v)
{
	unsigned int virq = READ_ONCE(v->virq);

	if (!virq) {
		WRITE_ONCE(v->pending, true);
		/* Pairs with the barrier in dlend_native_irq_give(): one of both sees the other. */
		smp_mb();
		virq = READ_ONCE(v->virq);
	}
	/* A realtime kernel takes direct interrupts in a thread, with interrupts on. */
	if (virq)
		generic_handle_irq_safe(virq);
}

void dlend_native_irq_give(struct dlend_native_vector *v, unsigned int virq)
{
	WRITE_ONCE(v->virq, virq);
	/* See above. */
	smp_mb();
	if (xchg(&v->pending, false))
		irq_work_queue(&v->work);
}

static void dlend_native_irq_run(struct irq_work *work)
{
	dlend_native_irq_handle(container_of(work, struct dlend_native_vector, work));
}

static void dlend_native_irq_run_there(void *info)
{
	struct dlend_native_vector *v = info;

	/* First: one that comes from now on is not the one that is handled here. */
	clear_bit(0, &v->calling);
	smp_mb__after_atomic(); /* cleared before the vector is looked at */
	dlend_native_irq_handle(v);
}

/*
 * Not here and now: the caller may hold the lock that comes with the link's doorbell.  Only one at
 * a time is sent to another processor, as smp_call_function_single_async() wants: one that came by
 * the doorbell and a direct one may meet.
 */
static void dlend_native_irq_send(struct dlend_native_vector *v)
{
	unsigned int cpu = READ_ONCE(v->cpu);

	if (cpu != raw_smp_processor_id() && cpu_online(cpu)) {
		/* One that is under way to a processor is handled after this one has come. */
		if (test_and_set_bit(0, &v->calling) ||
		    smp_call_function_single_async(cpu, &v->call) != -ENXIO)
			return;
		clear_bit(0, &v->calling);
	}
	irq_work_queue(&v->work);
}

void dlend_native_irq_fired(struct dlend_native_fn *fn, unsigned int vector, bool direct)
{
	struct dlend_native_vector *v;

	guard(rcu)();
	/* Pairs with the release in dlend_native_irq_setup(). */
	if (vector >= smp_load_acquire(&fn->irq_count))
		return;
	v = &fn->vector[vector];
	if (direct && READ_ONCE(v->cpu) == raw_smp_processor_id())
		dlend_native_irq_handle(v);
	else
		dlend_native_irq_send(v);
}

/* Under irq_lock: vectors as they are bound now. */
static void dlend_native_irq_follow(struct dlend_native_fn *fn)
{
	struct dlend_native_vector *v;

	for (unsigned int i = 0; i < fn->irq_count; i++) {
		v = &fn->vector[i];
		if (!READ_ONCE(v->virq) || v->bound == READ_ONCE(v->cpu))
			continue;
		v->bound = READ_ONCE(v->cpu);
		dlend_lease_irq_bind(dlend_native_lease(fn), i, v->bound);
	}
}

void dlend_native_irq_bind_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, bind_work);

	guard(mutex)(&fn->irq_lock);
	dlend_native_irq_follow(fn);
}

int dlend_native_irq_bind(struct irq_data *d, const struct cpumask *mask,
			  struct dlend_native_vector *v)
{
	unsigned int cpu = cpumask_any_and(mask, cpu_online_mask);

	if (cpu >= nr_cpu_ids)
		return -EINVAL;
	if (v) {
		WRITE_ONCE(v->cpu, cpu);
		queue_work(dlend_native_wq, &v->fn->bind_work);
	}
	irq_data_update_effective_affinity(d, cpumask_of(cpu));
	return IRQ_SET_MASK_OK;
}

static void dlend_native_irq_cache(struct dlend_native_vector *v)
{
	struct msi_desc *desc = v->virq ? irq_get_msi_desc(v->virq) : NULL;

	if (desc)
		desc->msg = v->message;
}

/*
 * Under irq_lock: of vectors that are taken.  The lender's interrupts are remapped: an entry stays
 * as it is until next time.
 */
static void dlend_native_irq_learn(struct dlend_native_fn *fn, unsigned int first, unsigned int nr)
{
	unsigned int i, bar;
	void __iomem *table, *entry;
	phys_addr_t phys;
	u32 at, size;

	if (fn->irq_mode != DLEND_IRQ_MSIX ||
	    !dlend_cfg_msix_range(&fn->cfg, false, &bar, &at, &size))
		return;
	phys = dlend_native_lease(fn)->bar[bar].phys;
	table = phys ? ioremap(phys + at, size) : NULL;
	if (!table)
		return;
	/* All ones: a lender whose interrupts are not isolated keeps the table out of reach. */
	for (i = first; i < first + nr && readl(table) != ~0u; i++) {
		if (!fn->vector[i].taken)
			continue;
		entry = table + i * PCI_MSIX_ENTRY_SIZE;
		fn->vector[i].message.address_lo = readl(entry + PCI_MSIX_ENTRY_LOWER_ADDR);
		fn->vector[i].message.address_hi = readl(entry + PCI_MSIX_ENTRY_UPPER_ADDR);
		fn->vector[i].message.data = readl(entry + PCI_MSIX_ENTRY_DATA);
		dlend_native_irq_cache(&fn->vector[i]);
	}
	iounmap(table);
}

bool dlend_native_irq_in_use(const struct dlend_native_fn *fn, u32 vector)
{
	return fn->vector[vector].taken;
}

int dlend_native_irq_take(struct dlend_native_fn *fn, unsigned int first, unsigned int nr)
{
	int ret = first + nr > fn->irq_count ? -ENOSPC : 0;
	unsigned int taken = 0;

	for (; taken < nr && !ret; taken++) {
		ret = dlend_lease_irq_use(dlend_native_lease(fn), first + taken);
		if (ret)
			break;
		fn->vector[first + taken].taken = true;
		fn->irq_taken++;
	}
	if (ret)
		dlend_native_irq_release(fn, first, taken);
	else
		dlend_native_irq_learn(fn, first, nr);
	return ret;
}

void dlend_native_irq_release(struct dlend_native_fn *fn, unsigned int first, unsigned int nr)
{
	for (unsigned int i = first; i < first + nr; i++)
		fn->vector[i].taken = false;
	fn->irq_taken -= nr;
	if (!fn->irq_taken)
		dlend_native_irq_teardown(fn);
}

int dlend_native_irq_again(struct dlend_native_fn *fn)
{
	unsigned int i;
	int ret;

	guard(mutex)(&fn->irq_lock);
	if (!fn->irq_count)
		return 0;
	ret = dlend_lease_irq_setup(dlend_native_lease(fn), fn->irq_mode, fn->irq_count);
	if (ret)
		return ret;
	dlend_native_irq_learn(fn, 0, fn->irq_count);
	/* If they come directly, those may be others than before. */
	for (i = 0; i < fn->irq_count; i++)
		fn->vector[i].bound = nr_cpu_ids;
	dlend_native_irq_follow(fn);
	return 0;
}

void dlend_native_irq_make_up(struct dlend_native_fn *fn)
{
	guard(mutex)(&fn->irq_lock);
	for (unsigned int i = 0; i < fn->irq_count && fn->irq_mode != DLEND_IRQ_INTX; i++)
		if (fn->vector[i].taken)
			irq_work_queue(&fn->vector[i].work);
}

static void dlend_native_irq_nothing(void *unused)
{
}

/* Under irq_lock. Its vectors are freed when nobody is at them. */
static void dlend_native_irq_end(struct dlend_native_fn *fn)
{
	unsigned int i, count = fn->irq_count;

	WRITE_ONCE(fn->irq_count, 0);
	/* Nobody is in dlend_native_irq_fired(). */
	synchronize_rcu();
	/*
	 * What it has sent to other processors is handled with this, or before.  Of those that a
	 * processor finds at once, it runs such calls as this one first, and the others with
	 * interrupts off after it.
	 */
	on_each_cpu(dlend_native_irq_nothing, NULL, 1);
	synchronize_rcu();
	for (i = 0; i < count; i++)
		irq_work_sync(&fn->vector[i].work);
	kvfree(fn->vector);
	fn->vector = NULL;
}

void dlend_native_irq_teardown(struct dlend_native_fn *fn)
{
	/* A lender that does not answer has ended them, or its link goes down. */
	dlend_lease_irq_setup(dlend_native_lease(fn), DLEND_IRQ_NONE, 0);
	dlend_native_irq_end(fn);
}

/* Nothing is handled before the driver has an interrupt. */
int dlend_native_irq_setup(struct dlend_native_fn *fn, enum dlend_irq_mode mode, unsigned int count)
{
	unsigned int i;
	int ret;

	fn->vector = kvcalloc(count, sizeof(*fn->vector), GFP_KERNEL);
	if (!fn->vector)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		fn->vector[i].fn = fn;
		fn->vector[i].bound = nr_cpu_ids;
		fn->vector[i].work = IRQ_WORK_INIT_HARD(dlend_native_irq_run);
		INIT_CSD(&fn->vector[i].call, dlend_native_irq_run_there, &fn->vector[i]);
	}
	fn->irq_mode = mode;
	/* Pairs with the acquire in dlend_native_irq_fired(). */
	smp_store_release(&fn->irq_count, count);
	ret = dlend_lease_irq_setup(dlend_native_lease(fn), mode, count);
	if (ret)
		dlend_native_irq_end(fn);
	return ret;
}
