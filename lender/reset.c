// SPDX-License-Identifier: GPL-2.0
/*
 * A function gets back into a known state: by a reset, and with the PCI state that it had when it
 * was bound.
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

/* A reset waits so long for another user of the device lock (sysfs, AER). */
#define LEND_RESET_PATIENCE_MS	2000

/* Milliseconds between two tries. */
#define LEND_RESET_POLL_MS	20

/*
 * A function that is not there reads as all ones.  Ids are compared with those that were read when
 * the function was bound: the ids in struct pci_dev may come from a quirk, and the ids of a virtual
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
 * Try again while the device lock is taken.  The thread that unbinds the driver holds that lock and
 * waits for the end of the reset.  So never wait for the lock without a limit, and not at all once
 * the unbinding has begun.
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
 * The device lock is held all the time, because another reset saves and restores the same
 * registers.  The PCI core calls reset_prepare() and reset_done() of the driver (driver.c)
 * for this reset as for any other.
 *
 * @reset: false: the function only gets the PCI state that it had when it was first reset.
 */
static int lend_reset_locked(struct lend_fn *fn, bool reset)
{
	int ret = reset ? pci_reset_function_locked(fn->pdev) : 0;

	if (reset && !ret)
		trace_dlend_fence(&fn->addr, "reset", fn->group->lease.epoch);
	return ret ?: lend_reset_answers(fn) ?: lend_reset_load(fn);
}

/* As lend_reset_lock_device(); on -EAGAIN nothing was done. */
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
	else
		ret = locked ? lend_reset_locked(fn, true) : lend_reset_unlocked(fn, true);
	trace_dlend_reset(&fn->addr, why, ktime_us_delta(ktime_get(), start), ret);
	return ret;
}

/* Is everything in the function still on that this host has turned on? */
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

	/* A reset that this host knows of restores the function when it ends. */
	if (fn->hidden || !fn->saved || lend_reset_has_state(pdev, fn->requested_bars) ||
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

/*
 * Reset of a slot or a bus: most graphics cards with an audio function have no other.  It touches
 * all functions there, so all of them have to be bound here, in one IOMMU group, and so in one
 * lease; and none of them may be in use (reset_set.h).
 */

/*
 * A guest, or its VMM, that resets all functions of a device does so within this time.  If a guest
 * resets one of them, uses it without DMA and interrupts, and resets another one later than that,
 * the first one keeps its state.
 */
#define LEND_ASKED_MS		2000

/*
 * struct lend_scope - the functions that a reset would touch
 * @slot: only those in this slot; NULL: all on the bus, and below it
 * @iommu: IOMMU group of the function to be reset; not referenced, to compare only
 * @dev: functions of this group; not referenced, to compare only
 * @count: number of them, maybe more than @dev has room for
 * @other: name of a device outside the group, or of a bridge; "": there is none
 */
struct lend_scope {
	struct pci_slot *slot;
	struct iommu_group *iommu;
	struct pci_dev *dev[LEND_GROUP_MAX];
	unsigned int count;
	char other[32];
};

static struct iommu_group *lend_scope_iommu(struct pci_dev *pdev)
{
	struct iommu_group *iommu = iommu_group_get(&pdev->dev);

	iommu_group_put(iommu);
	return iommu;
}

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
 * Never under the group lock: this takes the PCI core's lock of all buses, under which the PCI core
 * calls error handlers, which take the group lock.
 */
static void lend_scope_find(struct pci_dev *pdev, struct lend_scope *scope)
{
	/* As pci_reset_bus() chooses. */
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

/* Group lock. */
static struct lend_fn *lend_scope_fn(struct lend_group *group, const struct pci_dev *pdev)
{
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->pdev == pdev && !w.fn->removing)
			return w.fn;
	return NULL;
}

/* Group lock. */
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

/* Number of errors that the PCI core has told of.  Group lock. */
static u32 lend_bus_reset_errors(struct lend_group *group, u64 fns)
{
	u32 errors = 0;

	for (struct lend_walk w = { group, fns }; lend_walk_next(&w);)
		errors += w.fn->errors;
	return errors;
}

/* Return: the functions to be reset, whose requests wait from now on; 0: they cannot be reset. */
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

/* Return: false: an error came after lend_bus_reset_begin(), and the core may reset them, too. */
static bool lend_bus_reset_end(struct lend_group *group, u64 fns, u32 errors)
{
	guard(mutex)(&group->lock);
	for (struct lend_walk w = { group, fns }; lend_walk_next(&w);)
		w.fn->reset_asked = 0;
	WRITE_ONCE(group->resetting, 0);
	wake_up_all(&group->wait);
	return lend_bus_reset_errors(group, fns) == errors;
}

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
	ret = lend_reset_unlocked(fn, false);
	trace_dlend_reset(&fn->addr, "emulate", 0, ret);
	return ret;
}

void lend_bus_reset_await(struct lend_fn *fn)
{
	wait_event(fn->group->wait, !(READ_ONCE(fn->group->resetting) & BIT_ULL(fn->index)));
}
