// SPDX-License-Identifier: GPL-2.0
/*
 * The VFIO PCI device that a VMM sees: regions and ioctls.  Accesses to configuration space and the
 * expansion ROM are answered here.  What a call asks of the device is noted here as desired
 * (vdev->desired), and the worker has the lender do it (vdev.c).  BARs, interrupts and guest memory
 * are in bar.c, irq.c, guest_ram.c.
 *
 * Everything here runs under the VMM's big lock.  So a call waits for the lender only where a local
 * device would make the VMM wait, too, and for a bounded time.  A reset, or Bus Master Enable off,
 * waits until the device has stopped; a set-up of interrupts, until they are set up; a read of
 * INTx's status, or of registers that only the device knows, until their value is known.  A trapped
 * BAR access waits at the gate, as a page fault does.
 */
#include <linux/ktime.h>
#include <linux/pci_regs.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <dlend/compat.h>
#include "vdev.h"

/*
 * The expansion ROM.
 *
 * A VMM reads the ROM when it starts, under its big lock, and that must not borrow the device.  So
 * the lender makes a copy before it offers the device, and this node fetches the copy when the mdev
 * is created.  All reads are answered from memory.  If the VMM has a romfile, the guest sees that.
 */

#define DLEND_ROM_BLANK	256	/* bytes of 0xff that are copied at once */

static u64 dlend_rom_size(const struct dlend_vdev *v)
{
	u64 size = v->info.bar[DLEND_ROM_INDEX].size;

	/* The register of an expansion ROM allows these sizes (PCI 3.0 sec 6.2.5.2). */
	return v->rom && size >= max(v->rom_size, SZ_2K) && size <= SZ_16M ? size : 0;
}

/* Bytes behind the image read 0xff. */
static ssize_t dlend_rom_read(const struct dlend_vdev *v, u64 pos, char __user *buf, size_t count)
{
	u64 size = dlend_rom_size(v);
	u8 blank[DLEND_ROM_BLANK];

	if (pos >= size)
		return -EINVAL;
	count = min_t(u64, count, size - pos);
	if (pos < v->rom_size) {
		count = min_t(u64, count, v->rom_size - pos);
		return copy_to_user(buf, v->rom + pos, count) ? -EFAULT : count;
	}
	memset(blank, 0xff, sizeof(blank));
	count = min(count, sizeof(blank));
	return copy_to_user(buf, blank, count) ? -EFAULT : count;
}

static int dlend_vfio_init(struct vfio_device *vfio)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);

	v->clique = DLEND_CLIQUE_AUTO;
	v->clique_shown = DLEND_CFG_CLIQUE_NONE;
	mutex_init(&v->lock);
	mutex_init(&v->io_lock);
	init_rwsem(&v->bar_lock);
	init_waitqueue_head(&v->gate_wq);
	init_waitqueue_head(&v->idle_wq);
	dlend_irqs_init(v);
	INIT_WORK(&v->work, dlend_step_work);
	INIT_DELAYED_WORK(&v->notify_work, dlend_condition_notify_work);
	strscpy(v->notified, "idle");
	dlend_guest_init(v);
	mutex_init(&v->move.lock);
	v->move.state = VFIO_DEVICE_STATE_RUNNING;
	vfio->migration_flags = VFIO_MIGRATION_STOP_COPY | VFIO_MIGRATION_P2P;
	vfio->mig_ops = &dlend_move_ops;
	return 0;
}

static void dlend_vfio_release(struct vfio_device *vfio)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);

	kvfree(v->rom);
	mutex_destroy(&v->move.lock);
	dlend_vmm_drop(&v->vmm);
	mutex_destroy(&v->io_lock);
	mutex_destroy(&v->lock);
	/* In this order, as the mdev's type is in memory that goes with the offer's device. */
	put_device(dlend_vdev_dev(v));
	put_device(dlend_offer_dev(v->claim.offer));
}

/* Cliques: which of the VM's devices the guest takes to reach each other by peer-to-peer */

/* Return: @text: what speaks against peer-to-peer between the device and @other; "": nothing. */
static const char *dlend_vdev_doubt(const struct dlend_p2p_user *user, unsigned int other,
				    char text[DLEND_P2P_DOUBT_LEN])
{
	struct dlend_p2p_doubt doubt;

	doubt = dlend_p2p_doubt(&user->fabric, user->dev, user->n, user->of, other);
	return dlend_p2p_doubt_text(&doubt, text);
}

/* Warn about devices of the same clique that this one may not reach, or that may not reach it. */
static void dlend_vdev_warn_claims(struct dlend_vdev *v, const struct dlend_p2p_user *user)
{
	char doubt[DLEND_P2P_DOUBT_LEN];
	int other = -1;

	while ((other = dlend_p2p_clique_rival(&user->fabric, user->dev, user->n, user->of,
					       other + 1)) >= 0)
		dev_warn(dlend_vdev_dev(v), "clique %d claims peer-to-peer with %s, but %s: the guest's driver may try it in vain; set another clique\n",
			 user->dev[user->of].clique, dev_name(user->member[other]->owner),
			 dlend_vdev_doubt(user, other, doubt));
}

/* Say which devices of the VM a computed clique leaves out, and why. */
static void dlend_vdev_tell_alone(struct dlend_vdev *v, const struct dlend_p2p_user *user)
{
	int mine = user->dev[user->of].clique;
	char doubt[DLEND_P2P_DOUBT_LEN];
	unsigned int i;

	for (i = 0; i < user->n; i++)
		if (i != user->of && user->dev[i].clique >= 0 && user->dev[i].clique != mine)
			dev_info(dlend_vdev_dev(v), "clique %d, not %d of %s: %s\n", mine,
				 user->dev[i].clique, dev_name(user->member[i]->owner),
				 *dlend_vdev_doubt(user, i, doubt) ? doubt :
								     DLEND_P2P_OTHER_CLIQUE);
}

/*
 * Work out what the mdev's setting means; if it is "auto", the lender's setting.
 * Return: a clique's number, DLEND_CLIQUE_ALWAYS, or DLEND_CFG_CLIQUE_NONE.
 */
static int dlend_vdev_set_clique(const struct dlend_vdev *v)
{
	int clique = v->clique == DLEND_CLIQUE_AUTO ? dlend_vdev_offered_clique(v->info.clique) :
						      v->clique;

	if (clique == DLEND_CLIQUE_AUTO)
		return dlend_clique_known(v->info.vendor) ? DLEND_CLIQUE_ALWAYS :
							    DLEND_CFG_CLIQUE_NONE;
	return clique;
}

/* Set the device's clique, as it joins the VM's other devices: called by dlend_p2p_join(). */
static void dlend_vdev_settle_clique(struct dlend_p2p_user *user)
{
	struct dlend_vdev *v = container_of(user->member[user->of], struct dlend_vdev, p2p);
	bool computed = v->clique_wanted < DLEND_CFG_CLIQUE_NONE;	/* DLEND_CLIQUE_ALWAYS */
	int clique = v->clique_wanted;

	if (computed)
		clique = dlend_p2p_clique(&user->fabric, user->dev, user->n, user->of,
					  DLEND_CLIQUE_MAX);
	if (computed && clique < 0) {
		dev_warn(dlend_vdev_dev(v), "no clique is left for it: the VM has too many devices that may not reach each other; its driver is told nothing\n");
		clique = DLEND_CFG_CLIQUE_NONE;
	}
	user->dev[user->of].clique = clique;
	/* Before the device has joined: the worker may publish it right after. */
	v->clique_shown = clique;
	if (computed && clique >= 0)
		dlend_vdev_tell_alone(v, user);
	else
		dlend_vdev_warn_claims(v, user);
}

/*
 * Enter the device among the devices of its VM, until dlend_p2p_leave().  The VM is identified by
 * its struct kvm; without KVM, by the process that opened the device.  @place: 0, or why the
 * device's configuration space has no place for a clique (dlend_cfg_init()).
 */
static void dlend_vdev_p2p_join(struct dlend_vdev *v, int place)
{
	struct dlend_p2p_member *m = &v->p2p;

	m->owner = dlend_vdev_dev(v);
	/* A pointer to a struct kvm is never equal to a time since this host booted. */
	m->user = v->vfio.kvm ?: (const void *)(uintptr_t)dlend_vdev_caller().since;
	m->wq = &v->idle_wq;
	v->clique_wanted = dlend_vdev_set_clique(v);
	if (place && v->clique_wanted != DLEND_CFG_CLIQUE_NONE) {
		dev_warn(dlend_vdev_dev(v), "no clique has a place in its configuration space: %s; its driver is told nothing\n",
			 place == -ELOOP ?
			 "its list of capabilities has no end" :
			 "at C8h and at D4h, where drivers expect it, the device has something of its own");
		v->clique_wanted = DLEND_CFG_CLIQUE_NONE;
	}
	/* None, if the clique is still to be computed */
	v->clique_shown = max(v->clique_wanted, DLEND_CFG_CLIQUE_NONE);
	dlend_vdev_describe(v, &m->dev);
	dlend_p2p_join(m, dlend_vdev_settle_clique);
}

/* I/O port BARs are hidden: no window leads to them, and no message carries an access. */
static void dlend_vfio_describe(struct dlend_vdev *v, const u8 *snapshot,
				struct dlend_cfg_desc *desc)
{
	unsigned int i;

	*desc = (struct dlend_cfg_desc){
		.snapshot = snapshot,
		.vendor = v->info.vendor,
		.device = v->info.device,
		.is_vf = v->info.flags & DLEND_OFFER_F_VF,
		.no_intx = !v->info.has_intx,
		.no_msi = !v->info.nr_msi,
		.no_msix = !v->info.nr_msix,
		.max_msi = v->info.nr_msi,
		.max_msix = v->info.nr_msix,
	};
	for (i = 0; i < DLEND_NUM_BARS; i++) {
		u32 flags = v->info.bar[i].flags;

		if (flags & DLEND_BAR_F_IO) {
			dev_info(dlend_vdev_dev(v),
				 "I/O BAR %u is not lent: the guest does not see it\n", i);
			v->info.bar[i].size = 0;
			continue;
		}
		desc->bar[i].size = v->info.bar[i].size;
		desc->bar[i].is64 = flags & DLEND_BAR_F_64;
		desc->bar[i].prefetch = flags & DLEND_BAR_F_PREFETCH;
	}
	desc->bar[DLEND_ROM_INDEX].size = dlend_rom_size(v);
}

/* Make the virtual configuration space, and join the VM's devices.  Return: 0 or -errno. */
static int dlend_vfio_build_cfg(struct dlend_vdev *v)
{
	u8 *snapshot __free(kfree) = kmalloc(DLEND_CFG_SIZE, GFP_KERNEL);
	struct dlend_cfg_desc desc;
	int ret, place;

	if (!snapshot)
		return -ENOMEM;
	dlend_offer_copy(v->claim.offer, &v->info, snapshot);
	mutex_lock(&v->lock);
	dlend_vfio_describe(v, snapshot, &desc);
	/*
	 * First find out whether there is a place for a clique: joining publishes the clique to
	 * the VM's other devices.
	 */
	ret = dlend_cfg_init(&v->cfg, &desc);
	place = ret == -ENOSPC || ret == -ELOOP ? ret : 0;
	mutex_unlock(&v->lock);
	if (ret == place) {
		dlend_vdev_p2p_join(v, place);
		guard(mutex)(&v->lock);
		desc.clique = v->clique_shown;
		ret = dlend_cfg_init(&v->cfg, &desc);
	}
	if (ret)
		dev_err(dlend_vdev_dev(v),
			"configuration space of node %u's device cannot be shown to a guest: %pe\n",
			dlend_vdev_lender(v), ERR_PTR(ret));
	return ret;
}

/*
 * What a VMM's call or a guest's configuration write means for a vdev.
 *
 * A call that stops the device returns after the device has stopped, as a VMM that resets a VM, or
 * a guest that turns Bus Master Enable off, uses the memory for something else at once.  So a build
 * gives way to a reset, to Bus Master Enable off and to interrupts (vdev->is.urgent), and callers
 * wait for the lender's reply, for a bounded time (dlend_borrow_await_stop()).  If no reply comes,
 * this node unmaps the guest's memory in its aperture (dlend_memory_fence()).
 */

/*
 * How long a caller under the VMM's big lock waits for the lender.  A configuration write that
 * stops the device waits as long as a function level reset of vfio-pci takes; VFIO's reset, longer.
 */
#define DLEND_BORROW_STOP_MS	100
#define DLEND_BORROW_RESET_MS	1000
#define DLEND_BORROW_STATUS_MS	100
#define DLEND_BORROW_IRQS_MS	1000

/* A VMM has opened the device: start from the initial states. */
static void dlend_borrow_open(struct dlend_vdev *v)
{
	bool comes = dlend_claim_comes(&v->claim);

	guard(mutex)(&v->lock);
	memset(&v->actual, 0, sizeof(v->actual));
	v->readrq = dlend_cfg_readrq(&v->cfg);
	v->actual.readrq = v->readrq;
	v->irq_short = -1;
	v->bme_at = 0;
	v->live_after = 0;
	dlend_vmm_note(&v->vmm);
	v->claim.user = dlend_vdev_caller();
	clear_bit(0, &v->touched);
	v->now.open = true;
	v->had_space = false;
	dlend_move_forget(v);
	v->move.told = 0;
	/* If a VM is to move here, the standby's build pins, after RESUMING: so no prepin now. */
	v->now.prepin = v->prepin && !comes;
	dlend_vdev_update(v);
}

/*
 * Stop the device, before all else at close: a VMM that dies leaves its device in the midst of DMA.
 * At the end of the close the device reaches no memory, whatever the lender does.  But if the
 * device still does DMA then, this host's IOMMU logs faults, and answers the NTB with errors.
 */
static void dlend_borrow_quiesce(struct dlend_vdev *v)
{
	mutex_lock(&v->lock);
	v->desired.bme = false;
	dlend_vdev_update(v);
	mutex_unlock(&v->lock);
	/* Stop all of the VM's devices at once, so that no lease waits for another device. */
	if (current->flags & PF_EXITING && dlend_same_user(dlend_vdev_caller(), v->claim.user))
		dlend_guest_vmm_exits(v);
	/* Without a lease, or after a failure, no reply comes that ends the wait. */
	wait_event_timeout(v->idle_wq, READ_ONCE(v->is.quiesced) || !READ_ONCE(v->claim.lease) ||
			   READ_ONCE(v->now.failed), msecs_to_jiffies(DLEND_BORROW_RESET_MS));
}

/*
 * Desire a function reset, by the guest or by VFIO.  The caller has reset the virtual configuration
 * space, and calls dlend_vdev_update(). [locked]
 */
static void dlend_borrow_function_reset(struct dlend_vdev *v)
{
	v->desired.bme = dlend_cfg_mastering(&v->cfg);
	/*
	 * End all waits for the device.  A vCPU that waits for a BAR that stays enabled (a VF's has
	 * no enable bit) faults again, and sets the bit again.
	 */
	clear_bit(0, &v->touched);
	wake_up_all(&v->gate_wq);
	if (v->claim.lease || v->claim.borrowing)
		v->desired.reset++;
	dlend_condition_clear(v);
}

/* Act on a configuration write.  @effects: DLEND_CFG_E_*.  Does not wait. [locked] */
static void dlend_borrow_effects(struct dlend_vdev *v, u32 effects)
{
	bool masters = dlend_cfg_mastering(&v->cfg);

	lockdep_assert_held(&v->lock);
	/*
	 * The VM still belongs to another host, or has come before its device: dlend_move_begin()
	 * acts on what the configuration space has by then.
	 */
	if (v->now.coming) {
		v->desired.reset += !!(effects & DLEND_CFG_E_FLR);
		return;
	}
	if (effects & DLEND_CFG_E_FLR)
		dlend_borrow_function_reset(v);
	if (effects & (DLEND_CFG_E_MSE_ON | DLEND_CFG_E_BME_ON))
		v->desired.enable++;
	if ((effects & DLEND_CFG_E_BME_ON) && masters) {
		if (v->now.failed && !v->lost)
			dlend_condition_clear(v);
		v->desired.build++;
		v->patience.pause_ms = 0;
		v->bme_at = ktime_get();
		if (!v->claim.lease)
			WRITE_ONCE(v->shut_since, v->bme_at);	/* no access waited before */
	}
	/* A device that is not in D0 does no DMA, and may lack builds: so D0 asks for one. */
	if (effects & (DLEND_CFG_E_BME_ON | DLEND_CFG_E_BME_OFF | DLEND_CFG_E_D3HOT |
		       DLEND_CFG_E_D0))
		v->desired.bme = masters;
	if ((effects & DLEND_CFG_E_D0) && masters)
		v->desired.build++;
	dlend_vdev_update(v);
}

/*
 * The lender has not said in time that the device has stopped: unmap the guest's memory in this
 * node's aperture, unless another device of the VM uses the same mappings.
 */
static void dlend_borrow_cut_off(struct dlend_vdev *v, unsigned int ms)
{
	struct dlend_lease *lease __free(dlend_lease_put) = NULL;
	bool fenced;

	mutex_lock(&v->lock);
	if (v->claim.lease && !v->is.quiesced) {
		lease = dlend_lease_get(v->claim.lease);
		v->desired.build++;
		dlend_vdev_update(v);
	}
	mutex_unlock(&v->lock);
	if (!lease)
		return;
	fenced = dlend_memory_fence(dlend_vdev_memory(lease));
	/* The lender may have replied, and the worker may have built, before the fence. */
	mutex_lock(&v->lock);
	v->desired.build++;
	dlend_vdev_update(v);
	mutex_unlock(&v->lock);
	dev_warn_ratelimited(dlend_vdev_dev(v), "node %u did not stop the device within %u ms: %s\n",
			     lease->addr.lender, ms,
			     fenced ? "it does not reach the guest's memory until it has" :
			     "it may still reach the guest's memory, which another device of the VM uses, too");
}

/* Wait until the device does no DMA; after @ms milliseconds cut it off from this node's memory. */
static void dlend_borrow_await_stop(struct dlend_vdev *v, unsigned int ms)
{
	if (!wait_event_timeout(v->idle_wq, READ_ONCE(v->is.quiesced), msecs_to_jiffies(ms)))
		dlend_borrow_cut_off(v, ms);
}

/* VFIO's reset.  The configuration space is reset at once; the worker resets the device. */
static void dlend_borrow_reset(struct dlend_vdev *v)
{
	struct dlend_lease *before = NULL;

	dlend_move_close(v);
	mutex_lock(&v->lock);
	/* If a VM was to come, the lease is only a standby's, of no use for this VM: return it. */
	if (v->now.coming)
		before = dlend_ended_give_up(v);
	dlend_move_forget(v);
	dlend_cfg_reset(&v->cfg);
	dlend_borrow_function_reset(v);
	dlend_vdev_update(v);
	mutex_unlock(&v->lock);
	dlend_lease_put(before);
	dlend_borrow_await_stop(v, DLEND_BORROW_RESET_MS);
}

/*
 * VFIO_DEVICE_SET_IRQS for INTx, MSI or MSI-X.  Return: as vfio-pci: 0; > 0: the lender has only so
 * many vectors, and none is set up any more; -ENOSPC: the lender has no vector, and none is set up
 * any more; or the lender has too few for those of @hdr, and the other ones stay; or another error.
 */
static int dlend_borrow_set_irqs(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data)
{
	int ret, possible;

	mutex_lock(&v->lock);
	v->irq_waiters++;
	v->irq_short = -1;
	ret = dlend_irqs_set(v, hdr, data);
	dlend_vdev_update(v);
	mutex_unlock(&v->lock);
	/* After the wait, interrupts are set up, or will be when the device is borrowed. */
	wait_event_timeout(v->idle_wq, !READ_ONCE(v->is.irq_busy),
			   msecs_to_jiffies(DLEND_BORROW_IRQS_MS));
	guard(mutex)(&v->lock);
	v->irq_waiters--;
	possible = v->irq_short;
	v->irq_short = -1;
	if (ret || possible < 0)
		return ret;
	dev_notice_ratelimited(dlend_vdev_dev(v), "node %u has %d interrupt vectors for the %u asked for: the VMM is told\n",
			       dlend_vdev_lender(v), possible, hdr->start + hdr->count);
	ret = dlend_irqs_too_few(v, hdr, possible ?: -ENOSPC);
	dlend_vdev_update(v);
	return ret;
}

/* Is INTx asserted?  Return: PCI_STATUS_INTERRUPT, or 0. */
static u16 dlend_borrow_intx(struct dlend_vdev *v)
{
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(v);
	u32 status;

	/* If INTx had been asserted, the lender would have sent an interrupt. */
	if (!lease || READ_ONCE(v->irq.live) != DLEND_IRQ_INTX || !READ_ONCE(v->irq.owed))
		return 0;
	/* Only the device knows whether the guest has served INTx since. */
	if (dlend_lease_cfg_read(lease, PCI_STATUS, 2, &status, DLEND_BORROW_STATUS_MS))
		return PCI_STATUS_INTERRUPT;
	return status & PCI_STATUS_INTERRUPT;
}

/*
 * Opening the device borrows it only with prepin=open, as the guest has not accessed it yet.  But
 * if another node has the device, the open fails, so that the VM does not start with a device that
 * its guest cannot use.
 */
static int dlend_vfio_open(struct vfio_device *vfio)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);
	char why[DLEND_REASON_LEN];
	int ret;

	/* The memory of a confidential VM is encrypted, and a device has no key. */
	if (vfio->kvm && dlend_memslots_confidential(vfio->kvm)) {
		dev_err(dlend_vdev_dev(v), "not for a confidential VM (SEV, TDX): the host has no access to its memory, so its IOMMU cannot give a device access either; use a device of this host that has TDISP, or a VM that is not confidential\n");
		return -EOPNOTSUPP;
	}
	if (dlend_claim_taken(&v->claim, why)) {
		dev_err(dlend_vdev_dev(v), "no VM can have the device now: %s\n", why);
		return -EBUSY;
	}
	ret = dlend_vfio_build_cfg(v);
	if (!ret)
		ret = dlend_bar_open(v);
	if (ret) {
		dlend_p2p_leave(&v->p2p);
		return ret;
	}
	dlend_borrow_open(v);
	return 0;
}

static void dlend_vfio_close(struct vfio_device *vfio)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);

	dlend_move_close(v);
	dlend_borrow_quiesce(v);
	/*
	 * Return the lease before unpinning: if user space serves the pinned memory, a pin under
	 * way takes as long as user space likes.
	 */
	dlend_ended_leave(v);
	dlend_guest_stop(v);
	dlend_ended_drop(v);
	mutex_lock(&v->lock);
	dlend_condition_clear(v);
	v->now.dma = false;
	dlend_vdev_update(v);
	mutex_unlock(&v->lock);
	dlend_p2p_leave(&v->p2p);
	dlend_irqs_close(v);
	dlend_bar_close(v);
}

/*
 * Registers of configuration space that only the device itself knows (dlend_cfg_live()).
 *
 * Asking the device costs a message and a reply.  So the device is asked for these registers only,
 * and only for accesses of at most 8 bytes, as processors make them.  The lowest bytes of a value
 * come first in memory, as dlend runs on little-endian hosts only.  An access waits for the lender
 * for a bounded time, without vdev->lock.
 */

/* How long an access waits at most, for the lease and for the lender's reply together. */
#define DLEND_LIVE_MS		100

/* The lender's kernel gives a device 125 ms for a word of VPD. */
#define DLEND_LIVE_VPD_MS	250

/* Pause after a lender did not answer in time, as a guest may read register after register. */
#define DLEND_LIVE_PAUSE_MS	1000

/*
 * In the pause a write is sent all the same, and waits no longer than this: the lender makes it
 * when it can.  A driver may have to write such a register to get its next interrupt (NVIDIA's, at
 * 704h).
 */
#define DLEND_LIVE_SENT_MS	1

/* Most bytes that a processor accesses at once */
#define DLEND_LIVE_BYTES	8

/* Milliseconds left until @end, at least 1. */
static unsigned int dlend_live_left(ktime_t end)
{
	return max(ktime_ms_delta(end, ktime_get()), 1LL);
}

/*
 * Is a register of the device's own among these bytes?  Without a lock: which registers these are
 * does not change while a VMM has the device open.
 */
static bool dlend_live_concerns(const struct dlend_vdev *v, u32 pos, u32 len)
{
	u32 at;

	for (at = 0; len <= DLEND_LIVE_BYTES && at < len; at++)
		if (dlend_cfg_live(&v->cfg, pos + at, 1))
			return true;
	return false;
}

/*
 * Is it known whether the device can be asked now?  A read does not wait for a reset: the virtual
 * space has the values after a reset.
 */
static bool dlend_live_decided(const struct dlend_vdev *v, bool write)
{
	enum dlend_live live = READ_ONCE(v->is.live);

	return live != DLEND_LIVE_SOON && !(write && live == DLEND_LIVE_RESET);
}

/*
 * Get the lease by which the device can be asked now; a write borrows the device, if needed.
 * @end: (in, out) until when the access may wait.
 * Return: lease, with a reference; NULL: the device cannot be asked.
 */
static struct dlend_lease *dlend_live_lease(struct dlend_vdev *v, bool write, ktime_t *end)
{
	bool slow;

	mutex_lock(&v->lock);
	slow = ktime_before(ktime_get(), v->live_after);
	if (slow) {
		*end = ktime_add_ms(ktime_get(), DLEND_LIVE_SENT_MS);
	} else if (write && !v->claim.lease && !v->now.failed && !v->now.coming &&
		   !v->desired.quiesced) {
		dlend_vdev_touch(v);
		dlend_vdev_update(v);
	}
	mutex_unlock(&v->lock);
	if (slow && !write)
		return NULL;
	if (!dlend_live_decided(v, write))
		wait_event_timeout(v->idle_wq, dlend_live_decided(v, write),
				   msecs_to_jiffies(dlend_live_left(*end)));
	guard(mutex)(&v->lock);
	return v->is.live == DLEND_LIVE_NOW ? dlend_lease_get(v->claim.lease) : NULL;
}

/* Note how an access to the device's own registers has ended. */
static void dlend_live_note(struct dlend_vdev *v, int ret)
{
	if (ret)
		atomic64_inc(&v->stat.live_missed);
	if (ret != -ETIMEDOUT)
		return;
	guard(mutex)(&v->lock);
	/* A write in the pause waits so shortly that its time-out means nothing. */
	if (ktime_after(ktime_get(), v->live_after))
		v->live_after = ktime_add_ms(ktime_get(), DLEND_LIVE_PAUSE_MS);
}

static void dlend_live_warn(struct dlend_vdev *v, u32 pos, int ret)
{
	const char *why = "lost: the link is down, or its lender is resetting it";

	if (ret == -EPERM)
		why = "lost: its lender allows no writes there";
	else if (ret == -ENODEV)
		why = "lost: it is not borrowed";
	else if (ret == -ETIMEDOUT)
		why = "late: its lender has not answered yet";
	dev_warn_ratelimited(dlend_vdev_dev(v), "a write to the device's own configuration space at 0x%x is %s (%pe)\n",
			     pos, why, ERR_PTR(ret));
}

/*
 * Read from, or write to, the device those of the bytes that are registers of its own.  A read ends
 * with the first error, and @buf keeps the other bytes.  A write goes on, as its parts do not
 * depend on each other.
 */
static void dlend_live_rw(struct dlend_vdev *v, u32 pos, u8 *buf, u32 len, bool write)
{
	struct dlend_lease *lease __free(dlend_lease_put) = NULL;
	ktime_t end = ktime_add_ms(ktime_get(), DLEND_LIVE_MS);
	u32 at, size, value;
	int ret, one;

	if (!dlend_live_concerns(v, pos, len))
		return;
	lease = dlend_live_lease(v, write, &end);
	ret = lease ? 0 : -ENODEV;
	for (at = 0; lease && at < len && (write || !ret); at += size ?: 1) {
		size = dlend_cfg_live(&v->cfg, pos + at, len - at);
		if (!size)
			continue;
		value = 0;
		if (write) {
			memcpy(&value, buf + at, size);
			one = dlend_lease_cfg_write(lease, pos + at, size, value,
						    dlend_live_left(end));
		} else {
			one = dlend_lease_cfg_read(lease, pos + at, size, &value,
						   dlend_live_left(end));
			if (!one)
				memcpy(buf + at, &value, size);
		}
		ret = ret ?: one;
	}
	dlend_live_note(v, ret);
	if (ret && write)
		dlend_live_warn(v, pos, ret);
}

/* The guest has started an access to a word of VPD: make it in the device, and note the result. */
static void dlend_live_vpd(struct dlend_vdev *v)
{
	ktime_t end = ktime_add_ms(ktime_get(), DLEND_LIVE_VPD_MS);
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_live_lease(v, true, &end);
	int ret = -ENODEV;
	u16 addr;
	u32 data;

	mutex_lock(&v->lock);
	addr = dlend_cfg_vpd(&v->cfg, &data);
	mutex_unlock(&v->lock);
	if (lease)
		ret = dlend_lease_vpd(lease, v->cfg.vpd_pos, addr, &data, dlend_live_left(end));
	dlend_live_note(v, ret);
	guard(mutex)(&v->lock);
	if (!ret)
		dlend_cfg_vpd_done(&v->cfg, addr, data);
}

/* Regions */

/* Access configuration space.  Return: bytes done; -EINVAL beyond the region's end; -EFAULT. */
static ssize_t dlend_vfio_cfg_rw(struct dlend_vdev *v, u64 pos, char __user *buf, size_t count,
				 bool write)
{
	u8 bounce[64];
	u32 effects;
	u16 intx;

	if (pos >= DLEND_CFG_SIZE)
		return -EINVAL;
	count = min3(count, sizeof(bounce), (size_t)(DLEND_CFG_SIZE - pos));
	if (!write) {
		intx = pos <= PCI_STATUS && pos + count > PCI_STATUS ? dlend_borrow_intx(v) : 0;
		mutex_lock(&v->lock);
		dlend_cfg_read(&v->cfg, pos, bounce, count);
		mutex_unlock(&v->lock);
		dlend_live_rw(v, pos, bounce, count, false);
		if (intx)
			bounce[PCI_STATUS - pos] |= intx;
		return copy_to_user(buf, bounce, count) ? -EFAULT : count;
	}
	if (copy_from_user(bounce, buf, count))
		return -EFAULT;
	mutex_lock(&v->lock);
	effects = dlend_cfg_write(&v->cfg, pos, bounce, count);
	if (effects)
		dlend_borrow_effects(v, effects);
	mutex_unlock(&v->lock);
	if (effects & (DLEND_CFG_E_FLR | DLEND_CFG_E_BME_OFF | DLEND_CFG_E_D3HOT))
		dlend_borrow_await_stop(v, DLEND_BORROW_STOP_MS);
	dlend_live_rw(v, pos, bounce, count, true);
	if (effects & DLEND_CFG_E_VPD)
		dlend_live_vpd(v);
	return count;
}

/*
 * Access a region at *@ppos, piece by piece, as one piece may be shorter than @count.
 * Return: bytes done; if there are none, an error; -EINTR a fatal signal is pending.
 */
static ssize_t dlend_vfio_rw(struct dlend_vdev *v, char __user *buf, size_t count, loff_t *ppos,
			     bool write)
{
	unsigned int index = DLEND_REGION_INDEX(*ppos);
	u64 pos = DLEND_REGION_POS(*ppos);
	size_t done = 0;
	ssize_t ret = 0;

	while (done < count && !fatal_signal_pending(current)) {
		cond_resched();
		if (index == VFIO_PCI_CONFIG_REGION_INDEX)
			ret = dlend_vfio_cfg_rw(v, pos + done, buf + done, count - done, write);
		else if (index < DLEND_NUM_BARS)
			ret = dlend_bar_rw(v, *ppos + done, buf + done, count - done, write);
		else if (index == VFIO_PCI_ROM_REGION_INDEX && !write)
			ret = dlend_rom_read(v, pos + done, buf + done, count - done);
		else
			ret = -EINVAL;
		if (ret <= 0)
			break;
		done += ret;
	}
	*ppos += done;
	if (!done && !ret && count)
		return -EINTR;
	return done ? done : ret;
}

static ssize_t dlend_vfio_read(struct vfio_device *vfio, char __user *buf, size_t count,
			       loff_t *ppos)
{
	return dlend_vfio_rw(to_dlend_vdev(vfio), buf, count, ppos, false);
}

static ssize_t dlend_vfio_write(struct vfio_device *vfio, const char __user *buf, size_t count,
				loff_t *ppos)
{
	return dlend_vfio_rw(to_dlend_vdev(vfio), (char __user *)buf, count, ppos, true);
}

/* Tell the VMM what it may map: all of the BAR, or all but the pages of MSI-X. */
static int dlend_vfio_bar_caps(struct dlend_vdev *v, struct vfio_region_info *info,
			       struct vfio_info_cap *caps)
{
	struct vfio_info_cap_header msix = {
		.id = VFIO_REGION_INFO_CAP_MSIX_MAPPABLE, .version = 1,
	};
	struct vfio_region_info_cap_sparse_mmap *sparse __free(kfree) = NULL;
	struct dlend_range area[DLEND_MAX_AREAS];
	unsigned int i, n;
	int ret;

	n = dlend_bar_areas(v, info->index, area);
	if (!n)
		return 0;
	info->flags |= VFIO_REGION_INFO_FLAG_MMAP;
	if (v->info.flags & DLEND_OFFER_F_ISOLATED_MSI) {
		ret = vfio_info_add_capability(caps, &msix, sizeof(msix));
		if (ret)
			return ret;
	}
	if (n == 1 && area[0].start == 0 && area[0].end == PAGE_ALIGN(info->size))
		return 0;
	sparse = kzalloc(struct_size(sparse, areas, n), GFP_KERNEL);
	if (!sparse)
		return -ENOMEM;
	sparse->header.id = VFIO_REGION_INFO_CAP_SPARSE_MMAP;
	sparse->header.version = 1;
	sparse->nr_areas = n;
	for (i = 0; i < n; i++) {
		sparse->areas[i].offset = area[i].start;
		sparse->areas[i].size = area[i].end - area[i].start;
	}
	return vfio_info_add_capability(caps, &sparse->header, struct_size(sparse, areas, n));
}

static int dlend_vfio_region_info(struct vfio_device *vfio, struct vfio_region_info *info,
				  struct vfio_info_cap *caps)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);

	if (info->index >= VFIO_PCI_NUM_REGIONS)
		return -EINVAL;
	info->offset = DLEND_REGION_OFFSET(info->index);
	info->flags = 0;
	if (info->index == VFIO_PCI_CONFIG_REGION_INDEX)
		info->size = DLEND_CFG_SIZE;
	else if (info->index == VFIO_PCI_ROM_REGION_INDEX)
		info->size = dlend_rom_size(v);
	else
		info->size = dlend_bar_size(v, info->index);	/* 0: there is no VGA region */
	if (info->size)
		info->flags = VFIO_REGION_INFO_FLAG_READ;
	if (info->size && info->index != VFIO_PCI_ROM_REGION_INDEX)
		info->flags |= VFIO_REGION_INFO_FLAG_WRITE;
	return dlend_vfio_bar_caps(v, info, caps);
}

static long dlend_vfio_get_info(void __user *arg)
{
	unsigned long minsz = offsetofend(struct vfio_device_info, num_irqs);
	struct vfio_device_info info;

	if (copy_from_user(&info, arg, minsz))
		return -EFAULT;
	if (info.argsz < minsz)
		return -EINVAL;
	info.flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
	info.num_regions = VFIO_PCI_NUM_REGIONS;
	info.num_irqs = VFIO_PCI_NUM_IRQS;
	return copy_to_user(arg, &info, minsz) ? -EFAULT : 0;
}

static long dlend_vfio_get_irq_info(struct dlend_vdev *v, void __user *arg)
{
	/* MSI-X: vectors may be added one by one. */
	static const u32 flags[VFIO_PCI_NUM_IRQS] = {
		[VFIO_PCI_INTX_IRQ_INDEX] = VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED,
		[VFIO_PCI_MSI_IRQ_INDEX] = VFIO_IRQ_INFO_NORESIZE,
		[VFIO_PCI_ERR_IRQ_INDEX] = VFIO_IRQ_INFO_NORESIZE,
		[VFIO_PCI_REQ_IRQ_INDEX] = VFIO_IRQ_INFO_NORESIZE,
	};
	unsigned long minsz = offsetofend(struct vfio_irq_info, count);
	struct vfio_irq_info info;

	if (copy_from_user(&info, arg, minsz))
		return -EFAULT;
	if (info.argsz < minsz || info.index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	info.flags = VFIO_IRQ_INFO_EVENTFD | flags[info.index];
	info.count = dlend_irqs_count(v, info.index);
	return copy_to_user(arg, &info, minsz) ? -EFAULT : 0;
}

static long dlend_vfio_set_irqs(struct dlend_vdev *v, void __user *arg)
{
	void *data __free(kfree) = NULL;
	unsigned long minsz = offsetofend(struct vfio_irq_set, count);
	struct vfio_irq_set hdr;
	size_t size = 0;
	long ret;

	if (copy_from_user(&hdr, arg, minsz))
		return -EFAULT;
	if (hdr.index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	ret = vfio_set_irqs_validate_and_prepare(&hdr, dlend_irqs_count(v, hdr.index),
						 VFIO_PCI_NUM_IRQS, &size);
	if (ret)
		return ret;
	if (size) {
		data = memdup_user(arg + minsz, size);
		if (IS_ERR(data))
			return PTR_ERR(data);
	}
	return hdr.index >= VFIO_PCI_ERR_IRQ_INDEX ? dlend_irqs_set_special(v, &hdr, data) :
						     dlend_borrow_set_irqs(v, &hdr, data);
}

static long dlend_vfio_ioctl(struct vfio_device *vfio, unsigned int cmd, unsigned long arg)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);
	void __user *uarg = (void __user *)arg;

	switch (cmd) {
	case VFIO_DEVICE_GET_INFO:
		return dlend_vfio_get_info(uarg);
	case VFIO_DEVICE_GET_REGION_INFO:
		return dlend_compat_region_info(vfio, uarg, dlend_vfio_region_info);
	case VFIO_DEVICE_GET_IRQ_INFO:
		return dlend_vfio_get_irq_info(v, uarg);
	case VFIO_DEVICE_SET_IRQS:
		return dlend_vfio_set_irqs(v, uarg);
	case VFIO_DEVICE_RESET:
		dlend_borrow_reset(v);
		return 0;
	}
	return -ENOTTY;
}

/* The mdev is being removed: ask the VMM, by the request eventfd, to close the device. */
static void dlend_vfio_request(struct vfio_device *vfio, unsigned int count)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);

	if (!dlend_irqs_signal(v, VFIO_PCI_REQ_IRQ_INDEX) && !count)
		dev_notice(dlend_vdev_dev(v), "in use; removal waits until the VM closes the device\n");
}

const struct vfio_device_ops dlend_vfio_ops = {
	.name = "dlend",
	.init = dlend_vfio_init,
	.release = dlend_vfio_release,
	.open_device = dlend_vfio_open,
	.close_device = dlend_vfio_close,
	.read = dlend_vfio_read,
	.write = dlend_vfio_write,
	.ioctl = dlend_vfio_ioctl,
	DLEND_REGION_INFO_OP(dlend_vfio_region_info)
	.mmap = dlend_bar_mmap,
	.request = dlend_vfio_request,
	.dma_unmap = dlend_guest_dma_unmap,
	.bind_iommufd = vfio_iommufd_emulated_bind,
	.unbind_iommufd = vfio_iommufd_emulated_unbind,
	.attach_ioas = dlend_guest_attach_ioas,
	.detach_ioas = dlend_guest_detach_ioas,
};
