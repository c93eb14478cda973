// SPDX-License-Identifier: GPL-2.0
/*
 * Resets of lent functions.  After each reset a function gets back the PCI state that it had after
 * its first one (lend_fn.saved).
 */
#include <linux/delay.h>
#include <linux/iommu.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include "lender/lender.h"
#include "lender/reset_set.h"
#include "lender/trace.h"

/* The longest wait for the device lock, which another reset (sysfs, AER) may hold, in ms. */
#define LEND_RESET_PATIENCE_MS	2000

/* Time between two tries to take the device lock, in ms. */
#define LEND_RESET_POLL_MS	20

/*
 * A function that is not there reads as all ones.  Vendor and device ID are compared with those in
 * the snapshot, not with those in struct pci_dev, which may come from a quirk.  Those of a virtual
 * function read as all ones even when it is there, so the class code decides whether it is there.
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
 * Call @try until it returns something else than -EAGAIN (another thread has a device lock), for at
 * most LEND_RESET_PATIENCE_MS.  A thread that unbinds the driver holds the device lock and waits
 * for the end of this reset.  So this must not wait for the lock without a limit, and not at all
 * once the unbinding has begun.
 */
static int lend_reset_patiently(struct lend_fn *fn, int (*try)(struct pci_dev *pdev))
{
	unsigned long end = jiffies + msecs_to_jiffies(LEND_RESET_PATIENCE_MS);
	int ret;

	do {
		if (READ_ONCE(fn->removing))
			return -EAGAIN;
		ret = try(fn->pdev);
		if (ret != -EAGAIN)
			return ret;
		msleep(LEND_RESET_POLL_MS);
	} while (time_before(jiffies, end));
	return -EAGAIN;
}

static int lend_reset_trylock(struct pci_dev *pdev)
{
	return pci_dev_trylock(pdev) ? 0 : -EAGAIN;
}

int lend_reset_lock_device(struct lend_fn *fn)
{
	return lend_reset_patiently(fn, lend_reset_trylock);
}

/* Restore lend_fn.saved, which pci_load_saved_state() copies and does not free.  Device lock. */
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
 * Reset a function, check that it answers, and restore its PCI state.  The caller holds the device
 * lock all the time, because any other reset saves and restores the same registers.  The PCI core
 * calls reset_prepare() and reset_done() of the driver (driver.c), as for every reset.
 *
 * @reset: false: leave the reset out, only check and restore
 */
static int lend_reset_locked(struct lend_fn *fn, bool reset)
{
	int ret = reset ? pci_reset_function_locked(fn->pdev) : 0;

	if (reset && !ret)
		trace_dlend_fence(&fn->addr, "reset", fn->group->lease.epoch);
	return ret ?: lend_reset_answers(fn) ?: lend_reset_load(fn);
}

/* lend_reset_locked() for a caller without the device lock.  Return -EAGAIN: nothing was done. */
static int lend_reset_unlocked(struct lend_fn *fn, bool reset)
{
	int ret = lend_reset_lock_device(fn);

	if (ret)
		return ret;
	ret = lend_reset_locked(fn, reset);
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
	else	/* true: not only the PCI state */
		ret = locked ? lend_reset_locked(fn, true) : lend_reset_unlocked(fn, true);
	trace_dlend_reset(&fn->addr, why, ktime_us_delta(ktime_get(), start), ret);
	return ret;
}

/*
 * Is everything in the function still on that its struct pci_dev says is on?  @memory: memory
 * decoding must be on, too.
 */
static bool lend_reset_has_state(struct pci_dev *pdev, bool memory)
{
	/* Without MSI and MSI-X nothing is compared. */
	u16 command, flags = PCI_MSIX_FLAGS_ENABLE | PCI_MSI_FLAGS_ENABLE;

	pci_read_config_word(pdev, PCI_COMMAND, &command);
	/* A virtual function has no such bit: VF MSE in its physical function counts for all. */
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

	/*
	 * While the BARs are hidden, a reset by this host runs, and restores the function when it
	 * ends; or such a reset has failed, and only another one helps.
	 */
	if (fn->hidden || !fn->saved || lend_reset_has_state(pdev, fn->requested_bars) ||
	    lend_reset_answers(fn))
		return;
	/* This also writes the MSI or MSI-X messages again (pci_restore_msi_state()). */
	lend_reset_load(fn);
	if (pdev->is_busmaster)
		pci_set_master(pdev);
	lend_irq_restore_intx(fn);
	dev_warn_ratelimited(&pdev->dev,
			     "was reset, and this host was not told (by its own firmware, or somebody at its port or its physical function): its BARs, bus mastering and interrupts are as before; its user's driver has to set it up anew, bind it again if it does not\n");
}

/*
 * Reset of a slot or a bus: most graphics cards with an audio function have no other one.  Such a
 * reset hits all functions of the slot or bus.  So all of them have to be bound to dlend-lender and
 * in one IOMMU group, and so under one lease; and none of them may be in use (reset_set.h).
 */

/*
 * A guest, or its VMM, that resets all functions of a device asks for all resets within this time,
 * in ms.  If a guest resets one of them, uses that one without DMA and interrupts, and resets
 * another one later than this time, the first one is not reset again.
 */
#define LEND_ASKED_MS		2000

/*
 * struct lend_scope - the functions that a reset of a slot or bus would hit
 * @slot: slot that would be reset; NULL: all of the bus, and below it, would be
 * @iommu: IOMMU group of the function to be reset; only compared, not referenced
 * @dev: functions of this IOMMU group that would be hit; only compared, not referenced
 * @count: number of these functions, which may be more than @dev has room for
 * @other: name of a device outside the IOMMU group, or of a bridge, that would be hit; "": none
 */
struct lend_scope {
	struct pci_slot *slot;
	struct iommu_group *iommu;
	struct pci_dev *dev[LEND_GROUP_MAX];
	unsigned int count;
	char other[32];
};

/* The IOMMU group of a device, without a reference: the result may only be compared. */
static struct iommu_group *lend_scope_iommu(struct pci_dev *pdev)
{
	struct iommu_group *iommu = iommu_group_get(&pdev->dev);

	iommu_group_put(iommu);
	return iommu;
}

/* Callback of pci_walk_bus(): 1 ends the walk. */
static int lend_scope_add(struct pci_dev *pdev, void *data)
{
	struct lend_scope *scope = data;

	if (scope->slot && pdev->slot != scope->slot)
		return 0;
	if (lend_scope_iommu(pdev) != scope->iommu || pdev->hdr_type != PCI_HEADER_TYPE_NORMAL) {
		strscpy(scope->other, pci_name(pdev));
		return 1;
	}
	if (scope->count < LEND_GROUP_MAX)
		scope->dev[scope->count] = pdev;
	scope->count++;
	return 0;
}

/*
 * Find the functions that a reset of the slot or bus of @pdev would hit.  Must not be called under
 * the group lock: this takes the PCI core's lock of all buses (pci_bus_sem), under which the PCI
 * core calls error handlers, which take the group lock.
 */
static void lend_scope_find(struct pci_dev *pdev, struct lend_scope *scope)
{
	/* As pci_reset_bus() chooses: the slot, if it can be reset, otherwise the bus. */
	*scope = (struct lend_scope){
		.slot = pci_probe_reset_slot(pdev->slot) ? NULL : pdev->slot,
		.iommu = lend_scope_iommu(pdev),
	};
	pci_walk_bus(pdev->bus, lend_scope_add, scope);
}

int lend_bus_reset_check(struct pci_dev *pdev, char *other, size_t len)
{
	struct lend_scope scope;

	lend_scope_find(pdev, &scope);
	if (!scope.slot && (pdev->is_virtfn || pci_is_root_bus(pdev->bus) ||
			    pci_probe_reset_bus(pdev->bus)))
		return -ENOTTY;
	strscpy(other, scope.other, len);
	return *other ? -EXDEV : 0;
}

/* The bound function of a PCI device, if it is not being unbound, or NULL.  Group lock. */
static struct lend_fn *lend_scope_fn(struct lend_group *group, const struct pci_dev *pdev)
{
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->pdev == pdev && !w.fn->removing)
			return w.fn;
	return NULL;
}

/* What lend_reset_set_judge() has to know of the functions in @scope.  Group lock. */
static void lend_bus_reset_set(struct lend_group *group, const struct lend_scope *scope,
			       struct lend_reset_set *set)
{
	unsigned long patience = msecs_to_jiffies(LEND_ASKED_MS);

	*set = (struct lend_reset_set){
		.strangers = *scope->other || scope->count > LEND_GROUP_MAX,
	};
	for (unsigned int i = 0; i < min(scope->count, LEND_GROUP_MAX); i++) {
		struct lend_fn *fn = lend_scope_fn(group, scope->dev[i]);

		if (!fn) {
			set->strangers++;
			continue;
		}
		set->bound |= BIT_ULL(fn->index);
		if (fn->lent)
			set->lent |= BIT_ULL(fn->index);
		if (fn->reset_asked && time_before(jiffies, fn->reset_asked + patience))
			set->asked |= BIT_ULL(fn->index);
	}
}

/* Sum of lend_fn.errors of these functions.  Group lock. */
static u32 lend_bus_reset_errors(struct lend_group *group, u64 fns)
{
	u32 errors = 0;

	for (struct lend_walk w = { group, fns }; lend_walk_next(&w);)
		errors += w.fn->errors;
	return errors;
}

/*
 * Find the functions to be reset with @fn, and set lend_group.resetting, so that requests about
 * them wait.  @errors: (out) for lend_bus_reset_end().  Return: the functions; 0: they cannot be
 * reset now.
 */
static u64 lend_bus_reset_begin(struct lend_fn *fn, u32 *errors)
{
	struct lend_group *group = fn->group;
	struct lend_reset_set set;
	struct lend_scope scope;

	lend_scope_find(fn->pdev, &scope);
	guard(mutex)(&group->lock);
	lend_bus_reset_set(group, &scope, &set);
	if (lend_reset_set_judge(&set) != LEND_RESET_SET_RESET)
		return 0;
	WRITE_ONCE(group->resetting, set.bound);
	*errors = lend_bus_reset_errors(group, set.bound);
	return set.bound;
}

/*
 * Let requests go on.  Return: false: a PCI error came after lend_bus_reset_begin(), and the PCI
 * core may reset the functions again.
 */
static bool lend_bus_reset_end(struct lend_group *group, u64 fns, u32 errors)
{
	guard(mutex)(&group->lock);
	for (struct lend_walk w = { group, fns }; lend_walk_next(&w);)
		w.fn->reset_asked = 0;
	WRITE_ONCE(group->resetting, 0);
	wake_up_all(&group->wait);
	return lend_bus_reset_errors(group, fns) == errors;
}

/* Reset the slot or bus, and restore the PCI state of @fns, which stay in the group. */
static int lend_bus_reset_now(struct lend_fn *fn, u64 fns)
{
	int ret = READ_ONCE(fn->fail_reset) ? -EIO : 0, err;

	msleep(READ_ONCE(fn->slow_reset_ms));
	/* The PCI core calls reset_prepare() and reset_done() of each function (driver.c). */
	if (!ret)
		ret = lend_reset_patiently(fn, pci_reset_bus);
	for (struct lend_walk w = { fn->group, fns }; lend_walk_next(&w);) {
		if (ret == -EAGAIN)
			break;
		/* false: they were reset, and only get their PCI state back. */
		err = lend_reset_unlocked(w.fn, false);
		ret = ret ?: err;
	}
	return ret;
}

int lend_bus_reset(struct lend_fn *fn, const char *why, u64 *done)
{
	struct lend_group *group = fn->group;
	ktime_t start = ktime_get();
	u32 errors;
	int ret;

	*done = lend_bus_reset_begin(fn, &errors);
	if (!*done)
		return -EBUSY;
	ret = lend_bus_reset_now(fn, *done);
	for (struct lend_walk w = { group, *done }; lend_walk_next(&w);)
		trace_dlend_reset(&w.fn->addr, why, ktime_us_delta(ktime_get(), start), ret);
	if (!lend_bus_reset_end(group, *done, errors) && !ret)
		ret = -EAGAIN;
	return ret;
}

int lend_bus_reset_request(struct lend_fn *fn)
{
	u64 done;
	int ret = lend_bus_reset(fn, "request", &done);

	if (ret != -EBUSY)
		return ret;
	/* The guest uses another one of them: only the PCI state is restored. */
	ret = lend_reset_unlocked(fn, false);
	trace_dlend_reset(&fn->addr, "emulate", 0, ret);
	return ret;
}

void lend_bus_reset_await(struct lend_fn *fn)
{
	wait_event(fn->group->wait, !(READ_ONCE(fn->group->resetting) & BIT_ULL(fn->index)));
}
