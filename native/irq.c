// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts of attached devices: what the lender delivers becomes an interrupt of this kernel.
 *
 * The lender programs the device's real registers.  It delivers an interrupt in one of two ways,
 * and in both dlend_claim_ops.interrupt() is called here:
 *
 * - By the doorbell: the lender counts the interrupt in this node's memory and rings.  interrupt()
 *   is called with a lock of the link held.  So the driver's handler runs later, in an irq_work or
 *   a call on the processor that the interrupt is bound to.
 * - Directly: the device's own message interrupts this host.  No lock is held.  The driver's
 *   handler runs at once if the message has come to the processor that the interrupt is bound to;
 *   bind_work moves messages there.
 *
 * The lender delivers one mode (INTx, MSI or MSI-X) at a time, and all vectors of it or none.
 */
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/log2.h>
#include <linux/msi.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include "native.h"

/* Run the driver's handler; if the vector is not activated, note the interrupt in @pending. */
static void dlend_native_irq_handle(struct dlend_native_vector *v)
{
	unsigned int virq = READ_ONCE(v->virq);

	if (!virq) {
		WRITE_ONCE(v->pending, true);
		/* Pairs with the barrier in dlend_native_irq_set_virq(): one sees the other. */
		smp_mb();
		virq = READ_ONCE(v->virq);
	}
	/* _safe: a realtime kernel takes direct interrupts in a thread, with interrupts on. */
	if (virq)
		generic_handle_irq_safe(virq);
}

/* A vector's interrupt is activated: handle it from now on, and once if one is pending. */
static void dlend_native_irq_set_virq(struct dlend_native_vector *v, unsigned int virq)
{
	WRITE_ONCE(v->virq, virq);
	/* Pairs with the barrier in dlend_native_irq_handle(). */
	smp_mb();
	if (xchg(&v->pending, false))
		irq_work_queue(&v->work);
}

/* dlend_native_vector.work */
static void dlend_native_irq_run(struct irq_work *work)
{
	dlend_native_irq_handle(container_of(work, struct dlend_native_vector, work));
}

/* dlend_native_vector.call, on another processor than the one that has queued it */
static void dlend_native_irq_run_there(void *info)
{
	struct dlend_native_vector *v = info;

	/* Clear first: an interrupt that comes from now on needs another call. */
	clear_bit(0, &v->calling);
	smp_mb__after_atomic(); /* cleared before @v->virq is read */
	dlend_native_irq_handle(v);
}

/*
 * Have an interrupt handled later, on the processor that it is bound to: the caller may hold the
 * lock of the link's doorbell.  smp_call_function_single_async() allows one call at a time, and an
 * interrupt by the doorbell and a direct one may come at the same time.  So @calling is tested.
 */
static void dlend_native_irq_send(struct dlend_native_vector *v)
{
	unsigned int cpu = READ_ONCE(v->cpu);

	if (cpu != raw_smp_processor_id() && cpu_online(cpu)) {
		/* A call that is under way clears @calling first, so it handles this one, too. */
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

/*
 * Under irq_lock: have each direct vector's message come to the processor that the driver's
 * interrupt is bound to now.
 */
static void dlend_native_irq_bind_direct(struct dlend_native_fn *fn)
{
	struct dlend_native_vector *v;

	for (unsigned int i = 0; i < fn->irq_count; i++) {
		v = &fn->vector[i];
		if (!READ_ONCE(v->virq) || v->bound == READ_ONCE(v->cpu))
			continue;
		v->bound = READ_ONCE(v->cpu);
		dlend_irq_direct_bind(fn->claim.lease->direct, i, v->bound);
	}
}

void dlend_native_irq_bind_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, bind_work);

	guard(mutex)(&fn->irq_lock);
	dlend_native_irq_bind_direct(fn);
}

/*
 * irq_set_affinity() of both chips. @v: NULL: only note the affinity, as INTx is not set up.
 * Context: under the interrupt's lock, so a worker moves the direct message. Return:
 * IRQ_SET_MASK_OK; -EINVAL no processor of @mask is online.
 */
static int dlend_native_irq_bind(struct irq_data *d, const struct cpumask *mask,
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

/*
 * Under irq_lock: read the messages of the taken vectors among @nr from @first on, from the
 * device's MSI-X table.  The lender has written them.  It rewrites an entry only when interrupts
 * are set up again, because interrupt remapping moves interrupts without a change of the message.
 */
static void dlend_native_irq_read_msgs(struct dlend_native_fn *fn, unsigned int first,
				       unsigned int nr)
{
	void __iomem *table, *entry;
	struct dlend_native_vector *v;
	struct dlend_cfg_part part;
	struct msi_desc *desc;
	phys_addr_t phys;

	if (fn->irq_mode != DLEND_IRQ_MSIX ||
	    !dlend_cfg_msix_range(&fn->cfg, false /* the table */, &part))
		return;
	phys = fn->claim.lease->bar[part.bar].phys;
	table = phys ? ioremap(phys + part.offset, part.size) : NULL;
	if (!table)
		return;
	/* The table reads as all ones if the lender hides it, as it does not isolate interrupts. */
	for (unsigned int i = first; i < first + nr && readl(table) != ~0u; i++) {
		v = &fn->vector[i];
		if (!v->taken)
			continue;
		entry = table + i * PCI_MSIX_ENTRY_SIZE;
		v->message.address_lo = readl(entry + PCI_MSIX_ENTRY_LOWER_ADDR);
		v->message.address_hi = readl(entry + PCI_MSIX_ENTRY_UPPER_ADDR);
		v->message.data = readl(entry + PCI_MSIX_ENTRY_DATA);
		desc = v->virq ? irq_get_msi_desc(v->virq) : NULL;
		if (desc)
			desc->msg = v->message;
	}
	iounmap(table);
}

/* Under irq_lock. Wait until no interrupt is being handled any more, and free the vectors. */
static void dlend_native_irq_end(struct dlend_native_fn *fn)
{
	unsigned int i, count = fn->irq_count;

	WRITE_ONCE(fn->irq_count, 0);
	/* When this returns, no processor is in dlend_native_irq_fired(). */
	synchronize_rcu();
	/*
	 * Wait for dlend_native_vector.call: kick_all_cpus_sync() sends a call to each processor,
	 * behind those that were sent before.  If a processor finds several calls at once, it runs
	 * those that are waited for first, and the others after them with interrupts off.  So wait
	 * for RCU once more.
	 */
	kick_all_cpus_sync();
	synchronize_rcu();
	for (i = 0; i < count; i++)
		irq_work_sync(&fn->vector[i].work);
	kvfree(fn->vector);
	fn->vector = NULL;
}

/* Undo dlend_native_irq_setup(). Under irq_lock; waits for the lender. */
static void dlend_native_irq_teardown(struct dlend_native_fn *fn)
{
	/*
	 * An error is ignored: either the lease is over and the lender has ended the interrupts,
	 * or the link goes down.
	 */
	dlend_lease_irq_setup(fn->claim.lease, DLEND_IRQ_NONE, 0);
	dlend_native_irq_end(fn);
}

/* Undo dlend_native_irq_take(). Under irq_lock. After the last vector, the lender ends them all. */
static void dlend_native_irq_release(struct dlend_native_fn *fn, unsigned int first,
				     unsigned int nr)
{
	for (unsigned int i = first; i < first + nr; i++)
		fn->vector[i].taken = false;
	fn->irq_taken -= nr;
	if (!fn->irq_taken)
		dlend_native_irq_teardown(fn);
}

/*
 * Mark @nr vectors from @first on as taken, and get processors' vectors of this host for them if
 * they are direct. Under irq_lock. Return: 0; -ENOSPC this host or the device has too few; or as
 * dlend_irq_direct_use().
 */
static int dlend_native_irq_take(struct dlend_native_fn *fn, unsigned int first, unsigned int nr)
{
	int ret = first + nr > fn->irq_count ? -ENOSPC : 0;
	unsigned int taken = 0;

	for (; taken < nr && !ret; taken++) {
		ret = dlend_irq_direct_use(fn->claim.lease->direct, first + taken);
		if (ret)
			break;
		fn->vector[first + taken].taken = true;
		fn->irq_taken++;
	}
	if (ret)
		dlend_native_irq_release(fn, first, taken);
	else
		dlend_native_irq_read_msgs(fn, first, nr);
	return ret;
}

int dlend_native_irq_again(struct dlend_native_fn *fn)
{
	int ret;

	guard(mutex)(&fn->irq_lock);
	if (!fn->irq_count)
		return 0;
	ret = dlend_lease_irq_setup(fn->claim.lease, fn->irq_mode, fn->irq_count);
	if (ret)
		return ret;
	dlend_native_irq_read_msgs(fn, 0, fn->irq_count);
	/* The interrupts may be direct now, or in other vectors of this host: bind all anew. */
	for (unsigned int i = 0; i < fn->irq_count; i++)
		fn->vector[i].bound = nr_cpu_ids;
	dlend_native_irq_bind_direct(fn);
	return 0;
}

void dlend_native_irq_handle_all(struct dlend_native_fn *fn)
{
	guard(mutex)(&fn->irq_lock);
	for (unsigned int i = 0; i < fn->irq_count && fn->irq_mode != DLEND_IRQ_INTX; i++)
		if (fn->vector[i].taken)
			irq_work_queue(&fn->vector[i].work);
}

/*
 * Have the lender deliver @count vectors. Under irq_lock, while none are set up.  An interrupt
 * stays pending until its vector is activated.
 */
static int dlend_native_irq_setup(struct dlend_native_fn *fn, enum dlend_irq_mode mode,
				  unsigned int count)
{
	int ret;

	fn->vector = kvcalloc(count, sizeof(*fn->vector), GFP_KERNEL);
	if (!fn->vector)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++) {
		fn->vector[i].fn = fn;
		fn->vector[i].bound = nr_cpu_ids;
		fn->vector[i].work = IRQ_WORK_INIT_HARD(dlend_native_irq_run);
		INIT_CSD(&fn->vector[i].call, dlend_native_irq_run_there, &fn->vector[i]);
	}
	fn->irq_mode = mode;
	/* Pairs with the acquire in dlend_native_irq_fired(). */
	smp_store_release(&fn->irq_count, count);
	ret = dlend_lease_irq_setup(fn->claim.lease, mode, count);
	if (ret)
		dlend_native_irq_end(fn);
	return ret;
}

/*
 * MSI and MSI-X of attached devices: the PCI core takes them from an MSI parent domain that is the
 * root of its hierarchy, as there is no interrupt controller behind it.
 *
 * The chip masks nothing.  If an interrupt comes while it is disabled, the interrupt core keeps it
 * pending, and has the chip retrigger it later.
 *
 * The kernel writes MSI-X entries into the device's real table by itself: the PCI core after a
 * reset, and vfio-pci for each vector that it sets up.  So the kernel's copy of a message must be
 * the one that the lender has written (dlend_native_irq_read_msgs()).
 */

static void dlend_native_msi_nothing(struct irq_data *d)
{
}

static void dlend_native_msi_message(struct irq_data *d, struct msi_msg *msg)
{
	struct dlend_native_vector *v = irq_data_get_irq_chip_data(d);

	*msg = v->message;
}

/*
 * The interrupt core sends a pending interrupt again, under the interrupt's lock.  The handler runs
 * on this processor, whichever one the interrupt is bound to.
 */
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

/* The irq domains */

/*
 * Have the lender deliver vectors, if it does not yet. Under irq_lock.
 *
 * The lender delivers all vectors of a mode or none.  The PCI core allocates all MSI vectors of a
 * driver at once, and their number is a power of two.  It allocates MSI-X vectors one by one, so
 * the lender is asked for the whole table, and for half as many as long as it has too few
 * interrupts left.  The PCI core then reports to the driver how many vectors there are.
 * Return: 0; -EBUSY vectors of another mode are set up; or as dlend_native_irq_setup().
 */
static int dlend_native_msi_begin(struct dlend_native_fn *fn, const struct msi_desc *desc,
				  unsigned int nr)
{
	bool msix = desc->pci.msi_attrib.is_msix;
	enum dlend_irq_mode mode = msix ? DLEND_IRQ_MSIX : DLEND_IRQ_MSI;
	unsigned int count = msix ? dlend_cfg_msix(&fn->cfg) : roundup_pow_of_two(nr);
	int ret;

	if (fn->irq_count)
		return fn->irq_mode == mode ? 0 : -EBUSY;
	ret = dlend_native_irq_setup(fn, mode, count);
	while (msix && ret == -ENOSPC && count > 1) {
		count = rounddown_pow_of_two(count - 1);
		ret = dlend_native_irq_setup(fn, mode, count);
	}
	return ret;
}

/*
 * irq_domain_ops.alloc: the PCI core wants @nr interrupts from @virq on, for the vectors from
 * desc->msi_index on.  They are handled only after activate().
 */
static int dlend_native_msi_alloc(struct irq_domain *d, unsigned int virq, unsigned int nr,
				  void *arg)
{
	struct msi_desc *desc = ((msi_alloc_info_t *)arg)->desc;
	struct dlend_native_fn *fn = dlend_native_fn_of(to_pci_dev(msi_desc_to_dev(desc)));
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

/* irq_domain_ops.free: the reverse of dlend_native_msi_alloc(). No handler runs any more then. */
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

/* Handle interrupts from now on, until free(): the per-device domain has set up its part, too. */
static int dlend_native_msi_activate(struct irq_domain *d, struct irq_data *data, bool reserve)
{
	dlend_native_irq_set_virq(irq_data_get_irq_chip_data(data), data->irq);
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

/* The lender has written the message into the device already. */
static void dlend_native_msi_write(struct irq_data *d, struct msi_msg *msg)
{
	irq_data_get_msi_desc(d)->msg = *msg;
}

/*
 * Set up the per-device domain on top of the parent domain: it neither masks an interrupt nor
 * writes a message in the device.
 */
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

/*
 * A lock class of its own: under this irq domain's lock, direct interrupts are allocated from the
 * NTB's irq domain, whose lock would otherwise be of the same class.
 */
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

/*
 * INTx of attached devices.
 *
 * INTx is one vector.  The lender masks INTx when it has reported it, and unmasks it when it was
 * handled here: if the device still asserts INTx, the lender reports it once more.  The lender
 * delivers INTx while the kernel's interrupt has a handler; at other times the device has MSI,
 * MSI-X or no interrupts.
 */

/* irq_request_resources(): the first handler is being added. May sleep. */
static int dlend_native_intx_request(struct irq_data *d)
{
	struct dlend_native_fn *fn = irq_data_get_irq_chip_data(d);
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

/* irq_release_resources(): the last handler has gone. May sleep. */
static void dlend_native_intx_release(struct irq_data *d)
{
	struct dlend_native_fn *fn = irq_data_get_irq_chip_data(d);

	guard(mutex)(&fn->irq_lock);
	if (fn->irq_mode != DLEND_IRQ_INTX || !fn->irq_count)
		return;
	WRITE_ONCE(fn->vector[0].virq, 0);
	dlend_native_irq_teardown(fn);
	/* Not _sync: the work takes irq_lock. If it runs after this, it finds no INTx. */
	cancel_work(&fn->unmask_work);
}

/*
 * irq_unmask(): INTx has been handled.  If INTx Disable is set, the lender unmasks INTx only when
 * that bit is cleared again: vfio-pci clears it when its user is ready for another interrupt.
 */
static void dlend_native_intx_unmask(struct irq_data *d)
{
	dlend_native_intx_wanted(irq_data_get_irq_chip_data(d), true /* handled */);
}

void dlend_native_intx_wanted(struct dlend_native_fn *fn, bool handled)
{
	unsigned long flags;
	bool disabled;

	raw_spin_lock_irqsave(&fn->lock, flags);
	disabled = dlend_cfg_intx_disabled(&fn->cfg);
	if (handled || !disabled)
		fn->intx_up = false;
	raw_spin_unlock_irqrestore(&fn->lock, flags);
	if (!disabled)
		queue_work(system_highpri_wq, &fn->unmask_work);
}

/* dlend_native_fn.unmask_work: have the lender unmask INTx */
static void dlend_native_intx_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, unmask_work);

	guard(mutex)(&fn->irq_lock);
	if (!fn->irq_count || fn->irq_mode != DLEND_IRQ_INTX)
		return;
	/* Try again if the ring was full: without this message, INTx stays masked at the lender. */
	if (dlend_lease_irq_unmask(fn->claim.lease) == -ETIMEDOUT)
		queue_work(system_highpri_wq, work);
}

static int dlend_native_intx_affinity(struct irq_data *d, const struct cpumask *mask, bool force)
{
	struct dlend_native_fn *fn = irq_data_get_irq_chip_data(d);
	/* Pairs with the release in dlend_native_irq_setup(). */
	bool ours = smp_load_acquire(&fn->irq_count) && fn->irq_mode == DLEND_IRQ_INTX;

	return dlend_native_irq_bind(d, mask, ours ? fn->vector : NULL);
}

static struct irq_chip dlend_native_intx_chip = {
	.name = "dlend-INTx",
	.irq_request_resources = dlend_native_intx_request,
	.irq_release_resources = dlend_native_intx_release,
	.irq_mask = dlend_native_msi_nothing,
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
