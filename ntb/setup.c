// SPDX-License-Identifier: GPL-2.0
/*
 * Sets up the hardware of a link, and says what is missing in a way that an admin can act upon.
 *
 * Knows the hardware through dlend_link_hw_ops, and apertures; neither sessions nor messages.
 */
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <iommu/aperture.h>
#include "link.h"

/*
 * Milliseconds between looks whether what is in the way is still there: an admin who unbinds the
 * other driver of the IOMMU group does not wait long.
 */
#define DLEND_APERTURE_MS	10000
/*
 * If the group is free and it still fails, each try is logged, so the time doubles up to this.
 */
#define DLEND_APERTURE_MAX_MS	600000

static const char dlend_setup_no_iommu[] =
	"no aperture: no IOMMU translates for the NTB; "
	"boot with intel_iommu=on or amd_iommu=on and without iommu=pt";
static const char dlend_setup_group_busy[] =
	"no aperture: the NTB shares its IOMMU group with a device in use; "
	"use another slot, or unbind that device's driver";
static const char dlend_setup_unsafe[] =
	"no aperture: interrupt remapping is off, so the peer could raise any interrupt here; "
	"turn it on in the firmware, or allow it (allow_unsafe_interrupts)";
static const char dlend_setup_no_room[] =
	"no aperture: no free bus addresses; make the NTB window smaller in the firmware";
static const char dlend_setup_in_use[] =
	"no aperture: the NTB's driver has DMA memory above 4 GiB; boot without iommu.forcedac=1";
static const char dlend_setup_small_window[] =
	"NTB window is smaller than 1 MiB: make it larger in the firmware";
static const char dlend_setup_no_trans[] =
	"the NTB does not take the aperture's address: see the kernel log for what it needs";

static const char *dlend_setup_advice(int err)
{
	switch (err) {
	case -ENODEV:
		return dlend_setup_no_iommu;
	case -EBUSY:
		return dlend_setup_group_busy;
	case -EPERM:
		return dlend_setup_unsafe;
	case -EOPNOTSUPP:
		return "no aperture: not supported on this architecture";
	case -ENOSPC:
		return dlend_setup_no_room;
	case -EADDRINUSE:
		return dlend_setup_in_use;
	default:
		return "no aperture: see the kernel's log";
	}
}

/*
 * If only a reboot can help, there is one try and one message.  -EBUSY and -EPERM are
 * different: the admin can unbind the other driver of the NTB's group, or allow what is not safe.
 * So that is looked at now and then, without a message, and the aperture is tried again then.
 */
static bool dlend_setup_hopeless(struct dlend_link *link)
{
	struct dlend_setup *s = &link->setup;

	if (!s->aperture_err)
		return false;
	if ((s->aperture_err != -EBUSY && s->aperture_err != -EPERM) ||
	    dlend_now_ms() - s->aperture_at < s->aperture_wait)
		return true;
	s->aperture_at = dlend_now_ms();
	return dlend_aperture_hindered(link->ops->dma_dev(link->hw));
}

static void dlend_setup_no_aperture(struct dlend_link *link, int err)
{
	struct dlend_setup *s = &link->setup;

	s->aperture_err = err == -ENOMEM ? 0 : err;
	s->aperture_at = dlend_now_ms();
	s->aperture_wait = clamp(2 * s->aperture_wait, DLEND_APERTURE_MS, DLEND_APERTURE_MAX_MS);
	dlend_link_set_error(link, dlend_setup_advice(err));
}

static int dlend_setup_make_aperture(struct dlend_link *link)
{
	struct dlend_aperture *ap;
	u64 size, align;
	int err;

	if (link->aperture)
		return 0;
	if (dlend_setup_hopeless(link))
		return link->setup.aperture_err;
	err = link->ops->inbound(link->hw, &size, &align);
	if (err)
		return err;
	size = round_down(size, SZ_1M);
	if (!size) {
		dlend_link_set_error(link, dlend_setup_small_window);
		return -ENOSPC;
	}
	ap = dlend_aperture_create(link->ops->dma_dev(link->hw), size, align,
				   link->ops->shares_domain && link->ops->shares_domain(link->hw));
	if (IS_ERR(ap)) {
		err = PTR_ERR(ap);
		dlend_setup_no_aperture(link, err);
		return err;
	}
	link->setup.aperture_err = 0;
	WRITE_ONCE(link->aperture, ap);
	return 0;
}

/* The control area is the aperture's first slot. */
static int dlend_setup_make_ctrl(struct dlend_link *link)
{
	struct dlend_slot *slot;
	void *mem;
	int err;

	if (link->ctrl)
		return 0;
	mem = alloc_pages_exact(DLEND_CTRL_BYTES, GFP_KERNEL | __GFP_ZERO);
	if (!mem)
		return -ENOMEM;
	slot = dlend_slot_of_memory(link->aperture, mem, DLEND_CTRL_BYTES,
				    DLEND_PROT_READ | DLEND_PROT_WRITE, DLEND_SLOT_CTRL);
	if (IS_ERR(slot)) {
		err = PTR_ERR(slot);
		goto free_mem;
	}
	err = -ENOSPC;
	if (WARN_ON(slot->offset))
		goto free_slot;
	link->setup.ctrl_slot = slot;
	spin_lock_irq(&link->irq_lock);
	link->ctrl = mem;
	spin_unlock_irq(&link->irq_lock);
	return 0;

free_slot:
	dlend_slot_free(slot);
free_mem:
	free_pages_exact(mem, DLEND_CTRL_BYTES);
	return err;
}

static int dlend_setup_map_peer(struct dlend_link *link)
{
	int err = dlend_peer_window_map(link);

	if (err == -ENOSPC)
		dlend_link_set_error(link, dlend_setup_small_window);
	return err;
}

/* Let the peer's window lead into the aperture. */
static int dlend_setup_set_trans(struct dlend_link *link)
{
	int err = link->ops->set_trans(link->hw, dlend_aperture_base(link->aperture),
				       dlend_aperture_size(link->aperture));

	/* These two mean that the hardware is not connected yet, which is no failure. */
	if (err && err != -ENOTCONN && err != -EAGAIN)
		dlend_link_set_error(link, dlend_setup_no_trans);
	return err;
}

int dlend_link_admit(struct dlend_link *link, struct dlend_requesters *these)
{
	guard(mutex)(&link->state_lock);
	/* First: the module that has the ops may be gone, too. */
	if (link->gone)
		return -ENODEV;
	return link->ops->admit ? link->ops->admit(link->hw, these) : 0;
}
DLEND_EXPORT(dlend_link_admit);

int dlend_setup_requesters_free(struct dlend_link *link)
{
	guard(mutex)(&link->state_lock);
	if (link->gone)
		return -ENODEV;
	return link->ops->requesters_free ? link->ops->requesters_free(link->hw) : -ENODATA;
}

int dlend_link_interrupts(struct dlend_link *link, u64 page, phys_addr_t *phys)
{
	phys_addr_t base;
	u64 size;

	guard(mutex)(&link->state_lock);
	if (link->gone || !link->ops->spare_window ||
	    link->ops->spare_window(link->hw, &base, &size))
		return -EOPNOTSUPP;
	if (page > size || size - page < DLEND_DIRECT_SIZE)
		return -ERANGE;
	*phys = base + page;
	return 0;
}
DLEND_EXPORT(dlend_link_interrupts);

int dlend_setup_prepare(struct dlend_link *link)
{
	int err;

	err = dlend_setup_make_aperture(link);
	if (!err)
		err = dlend_setup_make_ctrl(link);
	if (!err)
		err = dlend_setup_map_peer(link);
	/*
	 * Both windows are set each time: if the registers are in the peer's device, its reboot
	 * clears them.  The second one is when somebody needs it.
	 */
	dlend_directs_rest(link);
	if (!err)
		err = dlend_setup_set_trans(link);
	if (err) {
		dev_dbg(&link->dev, "not prepared (%d)\n", err);
		return err;
	}
	dlend_doorbell_enable(link, true);
	return 0;
}

void dlend_setup_rest(struct dlend_link *link)
{
	dlend_doorbell_enable(link, false);
	if (link->aperture)
		link->ops->clear_trans(link->hw);
	dlend_directs_rest(link);
}

void dlend_setup_undo(struct dlend_link *link)
{
	dlend_setup_rest(link);
	if (link->aperture)
		dlend_aperture_detach(link->aperture);
	dlend_peer_window_unmap(link);
	link->ops->link_enable(link->hw, false);
}

void dlend_setup_free(struct dlend_link *link)
{
	dlend_directs_free(link);
	if (link->setup.ctrl_slot)
		dlend_slot_free(link->setup.ctrl_slot);
	if (link->ctrl)
		free_pages_exact(link->ctrl, DLEND_CTRL_BYTES);
	if (link->aperture)
		dlend_aperture_destroy(link->aperture);
}
