// SPDX-License-Identifier: GPL-2.0
/*
 * The watch over a VM's memory (dlend_vm_watch() of memory.h): one thread, however many devices the
 * VM borrows, over whatever links.  See ram.h for the locks.
 *
 * A VMM that plugs in RAM maps it for VFIO, then adds a memory slot, then tells the guest.  KVM
 * tells nobody of a new slot.  But KVM's call that adds it does not return before all readers of
 * KVM's SRCU are through that were reading when the slot appeared.  So the thread is such a reader
 * all the time: each of its reading sections begins before the section before it ends, and between
 * the two it looks whether the slots have changed.  There it does all that must be done before a
 * guest can hear of its new RAM, and waits until that is done.
 *
 * Nobody tells of RAM that is plugged into a slot that is there (virtio-mem).  Where slots have
 * holes, one device of the VM on each link looks there now and then.
 *
 * The price: the VMM's calls that change slots (some dozens when a VM starts) wait for the thread,
 * once or twice.  So it wakes up each slots_check_us; but only DLEND_WATCH_REST_US apart while the
 * VM rests: none of its processors is in the guest, its slots stay as they are and have no holes.
 *
 * Must not know how RAM is pinned, mapped or told.
 */
#include <linux/device.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/vfio.h>

#include "members.h"
#include "search.h"

/* Less would keep a CPU busy; more would make VMMs wait too long. */
#define DLEND_WATCH_MIN_US	50u
/* At rest: 10 wake-ups a second.  No look: where there are holes, RAM may come at any moment. */
#define DLEND_WATCH_REST_US	100000u
/* A VM rests when nothing has moved for so many wake-ups in a row. */
#define DLEND_WATCH_STILL	64u

static unsigned int slots_check_us = 2000;
module_param(slots_check_us, uint, 0644);
MODULE_PARM_DESC(slots_check_us, "microseconds between looks whether a running VM's memory slots have changed, which the VMM waits for when it changes them");

/* Ask the members of the VM's RAM, one by one and under ram->lock, until one says yes. */
static bool dlend_watch_ask(struct dlend_vm *vm, bool (*ask)(struct dlend_memory *mem, u64 arg),
			    u64 arg)
{
	struct dlend_ram *ram = NULL;
	bool yes = false;
	u32 i;

	while ((ram = dlend_ram_next(vm, ram))) {
		mutex_lock(&ram->lock);
		for (i = 0; i < DLEND_TOLD_MAX && !yes; i++)
			yes = ram->member[i] && ask(ram->member[i], arg);
		mutex_unlock(&ram->lock);
	}
	return yes;
}

static bool dlend_watch_is_behind(struct dlend_memory *mem, u64 unused)
{
	return mem->ops->behind(mem->ctx);
}

/*
 * Slots were added.  Wait until each device reaches the RAM there, or has stopped.  Meanwhile the
 * VMM's call does not return, just as VFIO_MAP_DMA does not for a device of this host's own.  So
 * the guest cannot give that RAM to a device, not even to one that takes its work from memory,
 * which the gate does not hold back.
 */
static void dlend_watch_added(struct dlend_vm *vm, const struct dlend_ranges *added)
{
	struct dlend_ram *ram = NULL;

	while ((ram = dlend_ram_next(vm, ram))) {
		dlend_search_added(ram, added);
		dlend_members_grow(ram, NULL);
	}
	while (!kthread_should_stop() && dlend_watch_ask(vm, dlend_watch_is_behind, 0))
		schedule_timeout_idle(msecs_to_jiffies(DLEND_TURN_MS));
}

static bool dlend_watch_notice_bar(struct dlend_memory *mem, u64 bar)
{
	if (!mem->passed_told)
		dev_notice(mem->vdev->dev, "its VM has a device that this host itself passes through, with a BAR at %#llx: that device and borrowed ones do not reach each other's BARs\n",
			   bar);
	mem->passed_told = true;
	return false;
}

/* Say it once for each device: the guest may try such transfers, and loses them. */
static void dlend_watch_passed(struct dlend_vm *vm)
{
	struct dlend_ranges bars = {};

	dlend_memslots_passed(vm->kvm, &bars);
	if (bars.count)
		dlend_watch_ask(vm, dlend_watch_notice_bar, bars.range[0].start);
	dlend_ranges_clear(&bars);
}

/* Have the slots changed?  Inside of a reading section of KVM's SRCU. */
static bool dlend_watch_slots(struct dlend_vm *vm)
{
	struct dlend_ranges added = {};
	int err;

	if (dlend_memslots_generation(vm->kvm) == vm->slots.generation)
		return false;
	dlend_watch_passed(vm);
	err = dlend_memslots_added(vm->kvm, &vm->slots, &added);
	if (err || added.count)
		dlend_watch_added(vm, err ? NULL : &added);
	dlend_ranges_clear(&added);
	return true;
}

static bool dlend_watch_rests(const struct dlend_vm *vm)
{
	return vm->still >= DLEND_WATCH_STILL && !vm->holes;
}

/* One device of each link looks; no device does where there are no holes. */
static void dlend_watch_look(struct dlend_vm *vm)
{
	unsigned int ms = READ_ONCE(dlend_search_look_ms);
	struct dlend_ram *ram = NULL;
	bool looks, holes = false;
	u32 i;

	if (!ms || dlend_ram_now_ms() < vm->looked_ms + ms)
		return;
	vm->looked_ms = dlend_ram_now_ms();
	while ((ram = dlend_ram_next(vm, ram))) {
		mutex_lock(&ram->lock);
		looks = !ram->holes;
		holes |= ram->holes;
		for (i = 0; i < DLEND_TOLD_MAX && !looks; i++)
			looks = ram->member[i] && ram->member[i]->ops->look(ram->member[i]->ctx);
		mutex_unlock(&ram->lock);
	}
	vm->holes = holes;
}

static void dlend_watch_sleep(struct dlend_vm *vm)
{
	unsigned int us = clamp(READ_ONCE(slots_check_us), DLEND_WATCH_MIN_US, DLEND_WATCH_REST_US);
	ktime_t time;

	vm->wakeups++;
	time = ns_to_ktime((dlend_watch_rests(vm) ? DLEND_WATCH_REST_US : us) * NSEC_PER_USEC);
	set_current_state(TASK_IDLE);
	if (!kthread_should_stop())
		schedule_hrtimeout_range(&time, us / 4 * NSEC_PER_USEC, HRTIMER_MODE_REL);
	__set_current_state(TASK_RUNNING);
}

static int dlend_watch_run(void *arg)
{
	struct dlend_vm *vm = arg;
	int idx = dlend_memslots_enter(vm->kvm), next;
	bool moved = dlend_watch_slots(vm);

	while (!kthread_should_stop()) {
		dlend_watch_sleep(vm);
		/*
		 * The next section begins before the check, and this one ends after it: slots that
		 * come before the check wait for this one, those that come later for the next.
		 */
		next = dlend_memslots_enter(vm->kvm);
		moved = dlend_watch_slots(vm) || dlend_memslots_runs(vm->kvm);
		dlend_memslots_leave(vm->kvm, idx);
		idx = next;
		vm->still = moved ? 0 : min(vm->still + 1, DLEND_WATCH_STILL);
		dlend_watch_look(vm);
	}
	dlend_memslots_leave(vm->kvm, idx);
	return 0;
}

static int dlend_watch_start(struct dlend_vm *vm)
{
	struct dlend_ranges all = {};
	struct task_struct *task;
	int err;

	err = dlend_memslots_added(vm->kvm, &vm->slots, &all);
	dlend_ranges_clear(&all);
	if (err)
		return err;
	vm->still = 0;
	task = kthread_run(dlend_watch_run, vm, "dlend-watch");
	if (IS_ERR(task))
		return PTR_ERR(task);
	vm->task = task;
	return 0;
}

struct dlend_vm *dlend_vm_watch(struct dlend_memory *mem)
{
	struct dlend_vm *vm = mem->ram->vm;
	int err = 0;

	mutex_lock(&vm->watch_lock);
	if (!vm->watchers)
		err = dlend_watch_start(vm);
	if (!err) {
		vm->watchers++;
		kref_get(&vm->ref);
	}
	mutex_unlock(&vm->watch_lock);
	if (err)
		return ERR_PTR(err);
	dlend_watch_passed(vm);
	return vm;
}

void dlend_vm_unwatch(struct dlend_vm *vm)
{
	mutex_lock(&vm->watch_lock);
	if (!--vm->watchers) {
		kthread_stop(vm->task);
		dlend_ranges_clear(&vm->slots.ranges);
	}
	mutex_unlock(&vm->watch_lock);
	dlend_vm_put(vm);
}
