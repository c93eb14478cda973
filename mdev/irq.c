// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts of a borrowed device, as VFIO shows them.  The VMM sets eventfds, and interrupt
 * handlers of this host signal them when the lender's device fires (dlend_irqs_fired()).
 *
 * No edge is lost.  A VMM exchanges eventfds when the guest masks a vector; an edge that finds no
 * eventfd is kept, and signalled when the next eventfd is set.  Several edges of one vector may
 * become one signal, as in hardware.
 *
 * This file does not set interrupts up at the lender: dlend_irqs_desire() notes what is wanted, in
 * vdev->desired, and the callers of this file's functions call dlend_vdev_update().  The only
 * message from here is IRQ_UNMASK, for INTx.
 */
#include <linux/eventfd.h>
#include <linux/irqbypass.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include "vdev.h"

/*
 * The least number of MSI-X vectors that the lender is asked for.  Guests add vectors one by one,
 * and so most of them need one request only.
 */
#define DLEND_MSIX_STEP		64

unsigned int dlend_irqs_count(struct dlend_vdev *v, unsigned int index)
{
	switch (index) {
	case VFIO_PCI_INTX_IRQ_INDEX:
		return v->info.has_intx;
	case VFIO_PCI_MSI_IRQ_INDEX:
		return dlend_cfg_msi(&v->cfg);
	case VFIO_PCI_MSIX_IRQ_INDEX:
		return dlend_cfg_msix(&v->cfg);
	case VFIO_PCI_ERR_IRQ_INDEX:
	case VFIO_PCI_REQ_IRQ_INDEX:
		return 1;
	}
	return 0;
}

static enum dlend_irq_mode dlend_irqs_mode_of(unsigned int index)
{
	static_assert(DLEND_IRQ_INTX - VFIO_PCI_INTX_IRQ_INDEX == 1 &&
		      DLEND_IRQ_MSI - VFIO_PCI_MSI_IRQ_INDEX == 1 &&
		      DLEND_IRQ_MSIX - VFIO_PCI_MSIX_IRQ_INDEX == 1);
	return index + 1;
}

/* From the VMM to the lender: vdev->desired is set at once, and the worker asks the lender */

/*
 * Desire @count vectors, @need of which are used.  The caller calls dlend_vdev_update(), which
 * shuts the gate until they are set up. [locked]
 */
static void dlend_irqs_desire(struct dlend_vdev *v, enum dlend_irq_mode mode, u32 need, u32 count)
{
	lockdep_assert_held(&v->lock);
	v->irq_need = need;
	v->desired.irq_mode = mode;
	v->desired.irq_count = count;
}

/* From the device to the VMM */

/*
 * Signal an interrupt, or keep it until that is possible.  INTx is level-triggered: it is signalled
 * once, and then not before the guest has unmasked it.  irq->lock is held.
 */
static void dlend_irqs_signal_vec(struct dlend_irqs *irq, struct dlend_irq_vec *vec)
{
	bool level = irq->mode == DLEND_IRQ_INTX;

	vec->latched = !vec->trigger || (level && (irq->masked || irq->disabled));
	if (vec->latched)
		return;
	irq->masked = level;
	eventfd_signal(vec->trigger);
	irq->signalled++;
}

/* INTx is not masked or not disabled any more: signal it if one was kept.  irq->lock is held. */
static void dlend_irqs_signal_kept(struct dlend_irqs *irq)
{
	if (irq->vec[0].latched)
		dlend_irqs_signal_vec(irq, &irq->vec[0]);
}

void dlend_irqs_fired(struct dlend_claim *claim, u32 vector, u32 count, bool direct)
{
	struct dlend_irqs *irq = &claim_to_vdev(claim)->irq;
	unsigned long flags;

	spin_lock_irqsave(&irq->lock, flags);
	irq->fired += count;
	/* The lender has masked INTx, and waits for an unmask even if no VMM listens. */
	if (irq->live == DLEND_IRQ_INTX)
		irq->owed = true;
	if (irq->mode == DLEND_IRQ_NONE || irq->mode != irq->live || vector >= irq->nvec) {
		irq->stray += count;
	} else {
		irq->vec[vector].count += count;
		dlend_irqs_signal_vec(irq, &irq->vec[vector]);
	}
	spin_unlock_irqrestore(&irq->lock, flags);
}

void dlend_irqs_live(struct dlend_vdev *v, enum dlend_irq_mode mode, bool resized)
{
	struct dlend_irqs *irq = &v->irq;
	unsigned int i;

	spin_lock_irq(&irq->lock);
	if (irq->live != mode)
		irq->owed = false;	/* the lender has INTx unmasked after a new set-up */
	irq->live = mode;
	/* Interrupts may be lost while vectors are set up anew.  An extra one does no harm. */
	if (resized && irq->mode == mode && mode != DLEND_IRQ_INTX)
		for (i = 0; i < irq->nvec; i++)
			if (irq->vec[i].trigger)
				dlend_irqs_signal_vec(irq, &irq->vec[i]);
	spin_unlock_irq(&irq->lock);
}

/* INTx */

static void dlend_irqs_unmask_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(work, struct dlend_vdev, irq.unmask_work);
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(v);

	/* The lender keeps INTx masked until this message.  -ETIMEDOUT: the link's ring is full. */
	if (lease && dlend_lease_irq_unmask(lease) == -ETIMEDOUT &&
	    READ_ONCE(v->irq.live) == DLEND_IRQ_INTX)
		queue_work(system_highpri_wq, work);
}

/* INTx is unmasked: by KVM at the guest's EOI (resample eventfd), or by an ioctl of the VMM */
static void dlend_irqs_intx_unmasked(void *opaque, void *unused)
{
	struct dlend_vdev *v = opaque;
	struct dlend_irqs *irq = &v->irq;
	bool owed = false;

	spin_lock_irq(&irq->lock);
	if (irq->mode == DLEND_IRQ_INTX) {
		irq->masked = false;
		dlend_irqs_signal_kept(irq);
		owed = irq->owed && !irq->masked;
		irq->owed = irq->owed && !owed;
	}
	spin_unlock_irq(&irq->lock);
	/* The lender waits for IRQ_UNMASK, as the guest has dealt with the interrupt. */
	if (owed)
		queue_work(system_highpri_wq, &irq->unmask_work);
}

void dlend_irqs_disable_intx(struct dlend_vdev *v, bool disable)
{
	struct dlend_irqs *irq = &v->irq;

	spin_lock_irq(&irq->lock);
	irq->disabled = disable;
	if (!disable && irq->mode == DLEND_IRQ_INTX)
		dlend_irqs_signal_kept(irq);
	spin_unlock_irq(&irq->lock);
}

/* Has the VMM's action to be done now: are there no data, or is @data a bool that is true? */
static bool dlend_irqs_is_now(const struct vfio_irq_set *hdr, const void *data)
{
	return (hdr->flags & VFIO_IRQ_SET_DATA_TYPE_MASK) == VFIO_IRQ_SET_DATA_NONE ||
	       *(const u8 *)data;
}

static int dlend_irqs_set_intx_unmask(struct dlend_vdev *v, const struct vfio_irq_set *hdr,
				      void *data)
{
	s32 fd;

	if (!(hdr->flags & VFIO_IRQ_SET_DATA_EVENTFD)) {
		if (dlend_irqs_is_now(hdr, data))
			dlend_irqs_intx_unmasked(v, NULL);
		return 0;
	}
	fd = *(s32 *)data;
	if (fd < 0) {
		vfio_virqfd_disable(&v->irq.unmask);
		return 0;
	}
	/*
	 * Unmask in a thread, not in a handler: a handler would take irq->lock under the eventfd's
	 * lock, which is taken inside of irq->lock elsewhere.
	 */
	return vfio_virqfd_enable(v, NULL, dlend_irqs_intx_unmasked, NULL, &v->irq.unmask, fd);
}

static int dlend_irqs_set_intx_mask(struct dlend_vdev *v, const struct vfio_irq_set *hdr,
				    void *data)
{
	if (hdr->flags & VFIO_IRQ_SET_DATA_EVENTFD)
		return -ENOTTY;		/* as vfio-pci: no VMM masks by eventfd */
	if (!dlend_irqs_is_now(hdr, data))
		return 0;
	spin_lock_irq(&v->irq.lock);
	v->irq.masked = true;
	spin_unlock_irq(&v->irq.lock);
	return 0;
}

/*
 * Direct interrupts that reach the VM without software of this host.
 *
 * An IOMMU that can post interrupts delivers a device's interrupts to a vCPU that runs, or notes
 * them for one that does not run.  No handler runs here then.  KVM arranges that for each interrupt
 * that is registered with an eventfd that KVM listens to, by irq_set_vcpu_affinity().  If KVM
 * cannot, or the VMM takes the eventfd away, the handler here signals the eventfd.  vdev->lock is
 * held in all of these.
 */

/* Take a vector back from KVM, until dlend_bypass_offer(). To be called before its eventfd goes. */
static void dlend_bypass_drop(struct dlend_vdev *v, unsigned int vector)
{
	struct dlend_irq_vec *vec = &v->irq.vec[vector];

	lockdep_assert_held(&v->lock);
	if (!vec->producing)
		return;
	irq_bypass_unregister_producer(&vec->producer);
	vec->producing = false;
}

static void dlend_bypass_drop_all(struct dlend_vdev *v)
{
	for (unsigned int i = 0; i < v->irq.nvec; i++)
		dlend_bypass_drop(v, i);
}

/* Offer a vector to KVM, if it has an eventfd and its interrupts come directly. */
static void dlend_bypass_offer(struct dlend_vdev *v, unsigned int vector)
{
	struct dlend_irq_vec *vec = &v->irq.vec[vector];
	unsigned int virq;

	lockdep_assert_held(&v->lock);
	if (!v->irq.bypass || !vec->trigger || vec->producing || v->actual.irq_mode != v->irq.mode)
		return;
	virq = dlend_irq_direct_number(v->irq.bypass->direct, vector);
	/* If that fails, as for two vectors with one eventfd, the handler here signals it. */
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

/* Modes.  v->lock is held in all of these */

/* Drop all vectors and their eventfds, and desire no interrupts. */
static void dlend_irqs_disable(struct dlend_vdev *v)
{
	struct dlend_irqs *irq = &v->irq;
	struct dlend_irq_vec *vec;
	unsigned int nvec, i;

	dlend_irqs_desire(v, DLEND_IRQ_NONE, 0, 0);
	if (irq->mode == DLEND_IRQ_INTX)
		vfio_virqfd_disable(&irq->unmask);
	dlend_bypass_drop_all(v);
	spin_lock_irq(&irq->lock);
	vec = irq->vec;
	nvec = irq->nvec;
	irq->vec = NULL;
	irq->nvec = 0;
	irq->mode = DLEND_IRQ_NONE;
	irq->masked = false;
	spin_unlock_irq(&irq->lock);
	for (i = 0; i < nvec; i++)
		if (vec[i].trigger)
			eventfd_ctx_put(vec[i].trigger);
	kvfree(vec);
}

static int dlend_irqs_enable(struct dlend_vdev *v, unsigned int index)
{
	unsigned int nvec = dlend_irqs_count(v, index);
	struct dlend_irqs *irq = &v->irq;
	struct dlend_irq_vec *vec;

	vec = kvcalloc(nvec, sizeof(*vec), GFP_KERNEL_ACCOUNT);
	if (!vec)
		return -ENOMEM;
	spin_lock_irq(&irq->lock);
	irq->vec = vec;
	irq->nvec = nvec;
	irq->mode = dlend_irqs_mode_of(index);
	/* INTx has fired before the VMM has set it up. */
	vec->latched = irq->mode == DLEND_IRQ_INTX && irq->owed;
	spin_unlock_irq(&irq->lock);
	return 0;
}

/* Desire enough vectors from the lender that the first @used work, and some spare ones. */
static void dlend_irqs_want(struct dlend_vdev *v, unsigned int index, u32 used)
{
	u32 least = index == VFIO_PCI_MSIX_IRQ_INDEX ? DLEND_MSIX_STEP : 1;
	enum dlend_irq_mode mode = dlend_irqs_mode_of(index);
	u32 count;

	/* The number only grows, as taking vectors away would disturb those in use. */
	if (v->desired.irq_mode == mode) {
		used = max(used, v->irq_need);
		if (used <= v->desired.irq_count) {
			/* There are enough; a later set-up that gets fewer needs so many. */
			v->irq_need = used;
			return;
		}
	}
	count = max_t(u32, least, roundup_pow_of_two(used));
	if (index == VFIO_PCI_MSI_IRQ_INDEX)
		used = count;		/* MSI has a power of two of vectors, or none */
	dlend_irqs_desire(v, mode, used, min(count, dlend_irqs_count(v, index)));
}

/* Return: a reference on the eventfd; NULL for a negative @fd; or ERR_PTR. */
static struct eventfd_ctx *dlend_irqs_eventfd(s32 fd)
{
	return fd >= 0 ? eventfd_ctx_fdget(fd) : NULL;
}

static int dlend_irqs_set_fd(struct dlend_vdev *v, unsigned int vector, s32 fd)
{
	struct eventfd_ctx *ctx = dlend_irqs_eventfd(fd), *old;
	struct dlend_irqs *irq = &v->irq;
	struct dlend_irq_vec *vec;

	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	dlend_bypass_drop(v, vector);
	spin_lock_irq(&irq->lock);
	vec = &irq->vec[vector];
	old = vec->trigger;
	vec->trigger = ctx;
	if (ctx && vec->latched)
		dlend_irqs_signal_vec(irq, vec);
	spin_unlock_irq(&irq->lock);
	dlend_bypass_offer(v, vector);
	if (old)
		eventfd_ctx_put(old);
	return 0;
}

static int dlend_irqs_set_fds(struct dlend_vdev *v, const struct vfio_irq_set *hdr, const s32 *fds)
{
	enum dlend_irq_mode mode = dlend_irqs_mode_of(hdr->index);
	unsigned int i;
	int ret;

	if (v->irq.mode != DLEND_IRQ_NONE && v->irq.mode != mode)
		return -EINVAL;
	if (v->irq.mode == DLEND_IRQ_NONE) {
		ret = dlend_irqs_enable(v, hdr->index);
		if (ret)
			return ret;
	}
	for (i = 0; i < hdr->count; i++) {
		ret = dlend_irqs_set_fd(v, hdr->start + i, fds[i]);
		if (ret)
			break;
	}
	if (!ret) {
		dlend_irqs_want(v, hdr->index, hdr->start + hdr->count);
		return 0;
	}
	while (i--)
		dlend_irqs_set_fd(v, hdr->start + i, -1);
	return ret;
}

/* Signal vectors as the VMM asks: for its tests, or for interrupts that it has held back. */
static int dlend_irqs_inject(struct dlend_vdev *v, const struct vfio_irq_set *hdr, const u8 *data)
{
	struct dlend_irqs *irq = &v->irq;
	struct dlend_irq_vec *vec;
	unsigned int i;

	/* The mode cannot change, as vdev->lock is held. */
	if (irq->mode != dlend_irqs_mode_of(hdr->index))
		return -EINVAL;
	spin_lock_irq(&irq->lock);
	for (i = 0; i < hdr->count; i++) {
		vec = &irq->vec[hdr->start + i];
		if ((!data || data[i]) && (vec->trigger || irq->mode == DLEND_IRQ_INTX))
			dlend_irqs_signal_vec(irq, vec);
	}
	spin_unlock_irq(&irq->lock);
	return 0;
}

static int dlend_irqs_set_trigger(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data)
{
	u32 type = hdr->flags & VFIO_IRQ_SET_DATA_TYPE_MASK;

	if (type == VFIO_IRQ_SET_DATA_NONE && !hdr->count) {
		if (v->irq.mode == dlend_irqs_mode_of(hdr->index))
			dlend_irqs_disable(v);
		return 0;
	}
	if (!hdr->count)
		return -EINVAL;
	if (type == VFIO_IRQ_SET_DATA_EVENTFD)
		return dlend_irqs_set_fds(v, hdr, data);
	return dlend_irqs_inject(v, hdr, type == VFIO_IRQ_SET_DATA_BOOL ? data : NULL);
}

/* The error and request "interrupts": messages to the VMM itself */

bool dlend_irqs_signal(struct dlend_vdev *v, unsigned int index)
{
	unsigned int i = index - VFIO_PCI_ERR_IRQ_INDEX;
	struct dlend_irqs *irq = &v->irq;
	struct eventfd_ctx *ctx;

	spin_lock_irq(&irq->lock);
	ctx = irq->special[i];
	if (ctx) {
		eventfd_signal(ctx);
		irq->specials[i]++;
	}
	spin_unlock_irq(&irq->lock);
	return ctx;
}

static void dlend_irqs_replace_special(struct dlend_vdev *v, unsigned int index,
				       struct eventfd_ctx *ctx)
{
	spin_lock_irq(&v->irq.lock);
	swap(v->irq.special[index - VFIO_PCI_ERR_IRQ_INDEX], ctx);
	spin_unlock_irq(&v->irq.lock);
	if (ctx)
		eventfd_ctx_put(ctx);
}

int dlend_irqs_set_special(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data)
{
	struct eventfd_ctx *ctx;

	if ((hdr->flags & VFIO_IRQ_SET_ACTION_TYPE_MASK) != VFIO_IRQ_SET_ACTION_TRIGGER)
		return -ENOTTY;
	if (!hdr->count && !(hdr->flags & VFIO_IRQ_SET_DATA_NONE))
		return -EINVAL;
	if (hdr->count && !(hdr->flags & VFIO_IRQ_SET_DATA_EVENTFD)) {
		if (dlend_irqs_is_now(hdr, data))
			dlend_irqs_signal(v, hdr->index);
		return 0;
	}
	ctx = hdr->count ? dlend_irqs_eventfd(*(s32 *)data) : NULL;
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	dlend_irqs_replace_special(v, hdr->index, ctx);
	return 0;
}

int dlend_irqs_set(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data)
{
	u32 action = hdr->flags & VFIO_IRQ_SET_ACTION_TYPE_MASK;

	if (action == VFIO_IRQ_SET_ACTION_TRIGGER)
		return dlend_irqs_set_trigger(v, hdr, data);
	/* A VMM masks message interrupts by itself, as with vfio-pci. */
	if (hdr->index != VFIO_PCI_INTX_IRQ_INDEX)
		return -ENOTTY;
	if (v->irq.mode != DLEND_IRQ_INTX || hdr->start || hdr->count != 1)
		return -EINVAL;
	if (action == VFIO_IRQ_SET_ACTION_MASK)
		return dlend_irqs_set_intx_mask(v, hdr, data);
	if (action == VFIO_IRQ_SET_ACTION_UNMASK)
		return dlend_irqs_set_intx_unmask(v, hdr, data);
	return -EINVAL;
}

/*
 * Return: number of vectors, from the first on, that are needed if those of @hdr are left out: the
 * highest other vector that has an eventfd, plus 1. [locked]
 */
static int dlend_irqs_beside(const struct dlend_vdev *v, const struct vfio_irq_set *hdr)
{
	unsigned int i = v->irq.nvec;

	while (i && ((i - 1 >= hdr->start && i - 1 < hdr->start + hdr->count) ||
		     !v->irq.vec[i - 1].trigger))
		i--;
	return i;
}

int dlend_irqs_too_few(struct dlend_vdev *v, const struct vfio_irq_set *hdr, int possible)
{
	int beside;
	u32 i;

	/* Another thread has changed the mode since: these eventfds are dropped already. */
	if (v->irq.mode != dlend_irqs_mode_of(hdr->index))
		return possible;
	beside = dlend_irqs_beside(v, hdr);
	if (!beside || beside > possible) {
		dlend_irqs_disable(v);
		return possible;
	}
	for (i = 0; i < hdr->count; i++)
		dlend_irqs_set_fd(v, hdr->start + i, -1);
	v->irq_need = beside;
	return -ENOSPC;
}

void dlend_irqs_init(struct dlend_vdev *v)
{
	spin_lock_init(&v->irq.lock);
	INIT_WORK(&v->irq.unmask_work, dlend_irqs_unmask_work);
}

void dlend_irqs_close(struct dlend_vdev *v)
{
	mutex_lock(&v->lock);
	dlend_irqs_disable(v);
	mutex_unlock(&v->lock);
	dlend_irqs_live(v, DLEND_IRQ_NONE, false);
	dlend_irqs_replace_special(v, VFIO_PCI_ERR_IRQ_INDEX, NULL);
	dlend_irqs_replace_special(v, VFIO_PCI_REQ_IRQ_INDEX, NULL);
	cancel_work_sync(&v->irq.unmask_work);
}
