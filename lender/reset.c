// SPDX-License-Identifier: GPL-2.0
/*
 * Getting a function back into a known state: a reset of the function, and the PCI state that it
 * had when it was bound.
 *
 * Knows nothing of leases, but what it writes into the trace.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/unaligned.h>

#include "lender/group.h"
#include "lender/irq.h"
#include "lender/reset.h"
#include "lender/trace.h"

/*
 * A function that is not there reads as all ones.  Ids are compared with what the function said
 * when it was bound: what the kernel has stored may come from a quirk, and the ids of a virtual
 * function read as all ones even when it is there.
 */
int lend_reset_answers(struct lend_fn *fn)
{
	u32 id, class;

	pci_read_config_dword(fn->pdev, PCI_VENDOR_ID, &id);
	pci_read_config_dword(fn->pdev, PCI_CLASS_REVISION, &class);
	if (class == U32_MAX)
		return -ENODEV;
	if (fn->saved && (id != get_unaligned_le32(fn->snapshot + PCI_VENDOR_ID) ||
			  class != get_unaligned_le32(fn->snapshot + PCI_CLASS_REVISION)))
		return -ENODEV;
	return 0;
}

/*
 * The thread that unbinds the driver holds the device lock and waits for the end of the reset.  So
 * never wait for that lock without a limit, and not at all once the unbinding has begun.
 */
int lend_reset_lock_device(struct lend_fn *fn)
{
	unsigned long end = jiffies + msecs_to_jiffies(LEND_RESET_PATIENCE_MS);

	do {
		if (READ_ONCE(fn->removing))
			return -EAGAIN;
		if (pci_dev_trylock(fn->pdev))
			return 0;
		msleep(LEND_RESET_POLL_MS);
	} while (time_before(jiffies, end));
	return -EAGAIN;
}

static int lend_reset_load(struct lend_fn *fn)
{
	int ret;

	if (!fn->saved)
		return 0;
	ret = pci_load_saved_state(fn->pdev, fn->saved);
	pci_restore_state(fn->pdev);
	trace_dlend_fence(&fn->addr, "restored", fn->group->lease.epoch);
	return ret;
}

/*
 * The device lock is held over all of it, because a reset by somebody else saves and restores the
 * same registers.  The PCI core calls reset_prepare() and reset_done() of the driver (errors.c)
 * for this reset as for any other.
 */
static int lend_reset_locked(struct lend_fn *fn)
{
	int ret = pci_reset_function_locked(fn->pdev);

	if (!ret) {
		trace_dlend_fence(&fn->addr, "reset", fn->group->lease.epoch);
		ret = lend_reset_answers(fn);
	}
	return ret ?: lend_reset_load(fn);
}

static int lend_reset_unlocked(struct lend_fn *fn)
{
	int ret = lend_reset_lock_device(fn);

	if (ret)
		return ret;
	ret = lend_reset_locked(fn);
	pci_dev_unlock(fn->pdev);
	return ret;
}

int lend_reset_fn(struct lend_fn *fn, const char *why, bool locked)
{
	ktime_t start = ktime_get();
	int ret;

	msleep(READ_ONCE(fn->slow_reset_ms));
	if (READ_ONCE(fn->fail_reset))
		ret = -EIO;
	else
		ret = locked ? lend_reset_locked(fn) : lend_reset_unlocked(fn);
	trace_dlend_reset(&fn->addr, why, ktime_us_delta(ktime_get(), start), ret);
	return ret;
}

int lend_reset_restore(struct lend_fn *fn)
{
	int ret = lend_reset_lock_device(fn);

	if (ret)
		return ret;
	ret = lend_reset_answers(fn);
	if (!ret)
		ret = lend_reset_load(fn);
	pci_dev_unlock(fn->pdev);
	return ret;
}

/* Does the function have all that this host has turned on in it? */
static bool lend_reset_has_state(struct pci_dev *pdev, bool memory)
{
	u16 command, flags = PCI_MSIX_FLAGS_ENABLE | PCI_MSI_FLAGS_ENABLE;

	pci_read_config_word(pdev, PCI_COMMAND, &command);
	/* A virtual function decodes memory as long as its physical function lets it. */
	if (memory && !pdev->is_virtfn && !(command & PCI_COMMAND_MEMORY))
		return false;
	if (pdev->is_busmaster && !(command & PCI_COMMAND_MASTER))
		return false;
	if (pdev->msix_enabled)
		pci_read_config_word(pdev, pdev->msix_cap + PCI_MSIX_FLAGS, &flags);
	else if (pdev->msi_enabled)
		pci_read_config_word(pdev, pdev->msi_cap + PCI_MSI_FLAGS, &flags);
	return flags & (pdev->msix_enabled ? PCI_MSIX_FLAGS_ENABLE : PCI_MSI_FLAGS_ENABLE);
}

void lend_reset_heal(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;

	/* The end of a reset that this host knows of restores it. */
	if (fn->hidden || !fn->saved || lend_reset_has_state(pdev, fn->claimed) ||
	    lend_reset_answers(fn))
		return;
	/* With the messages of its interrupts, as the kernel has written them. */
	lend_reset_load(fn);
	if (pdev->is_busmaster)
		pci_set_master(pdev);
	lend_irq_restore_intx(fn);
	dev_warn_ratelimited(&pdev->dev,
			     "was reset, and this host was not told (by its own firmware, or somebody at its port or its physical function): its BARs, bus mastering and interrupts are as before; its user's driver has to set it up anew, bind it again if it does not\n");
}
