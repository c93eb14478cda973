// SPDX-License-Identifier: GPL-2.0
/*
 * Direct interrupts that go to the VM without this host's software.
 *
 * A processor that can post interrupts delivers a device's to a VM that runs, or notes them for one
 * that does not; then no handler runs here.  KVM arranges that (irq_set_vcpu_affinity()) for each
 * interrupt that is registered with the eventfd that KVM itself listens to.  If it cannot, or the
 * VMM takes the eventfd, everything is as before.
 *
 * Whoever frees the interrupts ends this first.  Must not know where they come from.
 */
#include <linux/irqbypass.h>
#include <dlend/compat.h>
#include "bypass.h"

void dlend_bypass_drop(struct dlend_vdev *v, unsigned int vector)
{
	struct dlend_irq_vec *vec = &v->irq.vec[vector];

	lockdep_assert_held(&v->lock);
	if (!vec->producing)
		return;
	irq_bypass_unregister_producer(&vec->producer);
	vec->producing = false;
}

void dlend_bypass_drop_all(struct dlend_vdev *v)
{
	for (unsigned int i = 0; i < v->irq.nvec; i++)
		dlend_bypass_drop(v, i);
}

void dlend_bypass_offer(struct dlend_vdev *v, unsigned int vector)
{
	struct dlend_irq_vec *vec = &v->irq.vec[vector];
	unsigned int virq;

	lockdep_assert_held(&v->lock);
	if (!v->irq.bypass || !vec->trigger || vec->producing || v->have.irq_mode != v->irq.mode)
		return;
	virq = dlend_lease_irq_number(v->irq.bypass, vector);
	/* Two vectors with one eventfd, say: then the handler here signals it. */
	if (virq)
		vec->producing = !dlend_compat_register_producer(&vec->producer, vec->trigger,
								 virq);
}

void dlend_bypass_begin(struct dlend_vdev *v, struct dlend_lease *lease)
{
	lockdep_assert_held(&v->lock);
	v->irq.bypass = lease;
	for (unsigned int i = 0; i < v->irq.nvec; i++)
		dlend_bypass_offer(v, i);
}

void dlend_bypass_end(struct dlend_vdev *v)
{
	lockdep_assert_held(&v->lock);
	dlend_bypass_drop_all(v);
	v->irq.bypass = NULL;
}
