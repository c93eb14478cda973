// SPDX-License-Identifier: GPL-2.0
/*
 * What KVM knows of a VM's memory: its memory slots, and the watch for slots that are added.  Only
 * this file looks into struct kvm.  It uses only inline functions of KVM and exported functions of
 * SRCU: no symbol of KVM's modules.
 *
 * The watch (dlend_watch_begin()) is one thread for each VM, however many devices the VM borrows,
 * and over however many links.
 *
 * A VMM that plugs in RAM maps it for VFIO, then adds a memory slot, then tells the guest.  KVM
 * does not announce a new slot.  But KVM's call that adds the slot waits for all readers of KVM's
 * SRCU that were reading when the slot appeared.  So the thread is always such a reader: each
 * reading section begins before the last one ends, and in between the thread checks whether the
 * slots have changed.  If they have, the thread has the devices build, and waits until they reach
 * the new RAM: so the guest cannot know of the RAM earlier.
 *
 * RAM that is plugged into an existing slot (virtio-mem) is not announced.  If slots have holes,
 * one device of the VM on each link looks there every look_ms (scan.h says what a look is).
 *
 * The price: the VMM's calls that change slots (some dozens when a VM starts) wait for the thread,
 * once or twice.  So the thread wakes up each DLEND_WATCH_US; but only each DLEND_WATCH_REST_US
 * while the VM rests, that is, none of its vCPUs is in the guest, and its slots do not change and
 * have no holes.
 *
 * Must not know pins, the pin table, apertures or messages.
 */
#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/kvm_host.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/srcu.h>
#include <linux/vfio.h>

#include "ram.h"

unsigned int dlend_look_ms = 4;
module_param_named(look_ms, dlend_look_ms, uint, 0644);
MODULE_PARM_DESC(look_ms, "milliseconds between looks for memory plugged into holes of a running guest's memory slots (virtio-mem); 0: never");

/* Memory slots */

/*
 * Add slots to @out.  @passed: slots of BARs of devices that this host itself passes through; or
 * else slots of RAM.  KVM's SRCU and the VMM's mmap_lock are held.  Return: 0 or -ENOMEM.
 */
static int dlend_memslots_collect(struct kvm *kvm, bool passed, struct dlend_ranges *out)
{
	struct kvm_memslots *slots = kvm_memslots(kvm);
	struct kvm_memory_slot *slot;
	struct vm_area_struct *vma;
	unsigned long bar;
	int bkt, err;
	u64 gpa;

	kvm_for_each_memslot(slot, bkt, slots) {
		/* KVM's private slots are not RAM of the guest. */
		if (slot->flags & KVM_MEMSLOT_INVALID || slot->id >= KVM_USER_MEM_SLOTS)
			continue;
		/*
		 * QEMU makes slots of mapped BARs, too.  If the BAR is of a device that this host
		 * itself passes through, its mapping has VM_PFNMAP; if it is of a borrowed device,
		 * the mapping has VM_IO only (dlend_bar_mmap()).
		 */
		vma = vma_lookup(kvm->mm, slot->userspace_addr);
		bar = vma ? vma->vm_flags & (VM_IO | VM_PFNMAP) : 0;
		if (passed ? !(bar & VM_PFNMAP) : bar)
			continue;
		gpa = (u64)slot->base_gfn << PAGE_SHIFT;
		err = dlend_ranges_add(out, gpa, gpa + ((u64)slot->npages << PAGE_SHIFT));
		if (err)
			return err;
	}
	return 0;
}

/*
 * Read slots as dlend_memslots_collect(), with @generation (out), KVM's number for this state of
 * the slots.  @out NULL: only @generation is wanted.  @kvm NULL: there are no slots.
 */
static int dlend_memslots_pick(struct kvm *kvm, bool passed, struct dlend_ranges *out,
			       u64 *generation)
{
	int idx, err = 0;

	*generation = 0;
	if (!kvm)
		return 0;
	idx = srcu_read_lock(&kvm->srcu);
	*generation = kvm_memslots(kvm)->generation;
	/* A VMM that has exited has no memory. */
	if (out && mmget_not_zero(kvm->mm)) {
		mmap_read_lock(kvm->mm);
		err = dlend_memslots_collect(kvm, passed, out);
		mmap_read_unlock(kvm->mm);
		/*
		 * If this is the last reference, all of the VMM's memory is freed; later, because
		 * KVM may be waiting for this reader.
		 */
		mmput_async(kvm->mm);
	}
	srcu_read_unlock(&kvm->srcu, idx);
	return err;
}

static int dlend_memslots_read(struct kvm *kvm, struct dlend_memslots *slots)
{
	int err;

	dlend_ranges_clear(&slots->ranges);
	err = dlend_memslots_pick(kvm, false, &slots->ranges, &slots->generation);
	if (err)
		dlend_ranges_clear(&slots->ranges);
	return err;
}

/* Add BARs of devices that this host itself passes through to @bars, by guest-physical address. */
static int dlend_memslots_passed(struct kvm *kvm, struct dlend_ranges *bars)
{
	u64 generation;

	return dlend_memslots_pick(kvm, true, bars, &generation);
}

/* Return: KVM's number for the present state of the slots. */
static u64 dlend_memslots_generation(struct kvm *kvm)
{
	u64 generation;

	dlend_memslots_pick(kvm, false, NULL, &generation);
	return generation;
}

bool dlend_memslots_confidential(const struct kvm *kvm)
{
#ifdef CONFIG_X86
	/* A VMM may start SEV-ES by KVM's older call: then the VM is of the default type. */
	return kvm->arch.vm_type != KVM_X86_DEFAULT_VM || kvm->arch.has_protected_state;
#else
	return false;
#endif
}

/*
 * Begin a reading section of KVM's SRCU: from now on calls that change slots do not return.
 * (__release() is for sparse, which follows locks within a function only.)
 * Return: the section, for dlend_memslots_leave().
 */
static int dlend_memslots_enter(struct kvm *kvm)
{
	int section = 0;

	if (kvm) {
		section = srcu_read_lock(&kvm->srcu);
		__release(&kvm->srcu);
	}
	return section;
}

/* End a section: calls that change slots return, unless they began in a later section. */
static void dlend_memslots_leave(struct kvm *kvm, int section)
{
	if (kvm) {
		__acquire(&kvm->srcu);
		srcu_read_unlock(&kvm->srcu, section);
	}
}

/* Is one of the VM's vCPUs in the guest? */
static bool dlend_memslots_runs(struct kvm *kvm)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;

	if (!kvm)
		return false;
	kvm_for_each_vcpu(i, vcpu, kvm)
		if (READ_ONCE(vcpu->mode) != OUTSIDE_GUEST_MODE)
			return true;
	return false;
}

/* Slots, for a member */

bool dlend_watch_is_ram(struct dlend_memory *mem, u64 gpa, bool otherwise)
{
	struct dlend_vm *vm = mem->ram->vm;
	struct dlend_memslots slots = {};
	struct dlend_range range;
	bool ram;

	guard(mutex)(&vm->watch_lock);
	if (!mem->watches || !vm->kvm)
		return mem->watches && otherwise;
	/* If memory is short, say "RAM": the build fails then, and does not take RAM for a hole. */
	ram = dlend_memslots_read(vm->kvm, &slots) ||
	      (dlend_ranges_next(&slots.ranges, gpa, &range) && range.start <= gpa);
	dlend_ranges_clear(&slots.ranges);
	return ram;
}

int dlend_watch_read_slots(struct dlend_memory *mem)
{
	struct dlend_vm *vm = mem->ram->vm;

	guard(mutex)(&vm->watch_lock);
	if (!mem->watches)
		return -EINTR;
	if (!vm->kvm || (mem->slots.ranges.count &&
			 dlend_memslots_generation(vm->kvm) == mem->slots.generation))
		return 0;
	return dlend_memslots_read(vm->kvm, &mem->slots);
}

/* The watch */

/* Time between two checks: less would keep a CPU busy; more would make VMMs wait too long. */
#define DLEND_WATCH_US		2000u
#define DLEND_WATCH_SLACK_US	500u
/* At rest: 10 wake-ups a second.  With holes, RAM may come at any moment, so there is no rest. */
#define DLEND_WATCH_REST_US	100000u
/* A VM rests when nothing has changed for so many wake-ups in a row. */
#define DLEND_WATCH_STILL	64u

/* May a device of the VM do DMA, and not reach all RAM that has come (the op behind())? */
static bool dlend_watch_behind(struct dlend_vm *vm)
{
	struct dlend_ram *ram = NULL;
	struct dlend_memory *mem;
	bool behind = false;

	while ((ram = dlend_ram_next(vm, ram))) {
		mutex_lock(&ram->lock);
		dlend_for_each_member(mem, ram)
			behind = behind || dlend_guest_memory_ops.behind(mem->v);
		mutex_unlock(&ram->lock);
	}
	return behind;
}

/*
 * Slots were added.  Wait until each device reaches the RAM there, or has stopped.  Until then the
 * VMM's call does not return, as VFIO_MAP_DMA does not for a device that this host passes through.
 * So the guest cannot have a device use that RAM, not even a device that takes its work from
 * memory, which the gate does not hold back.
 */
static void dlend_watch_added(struct dlend_vm *vm, const struct dlend_ranges *added)
{
	struct dlend_ram *ram = NULL;

	while ((ram = dlend_ram_next(vm, ram))) {
		dlend_ram_due(ram, added);
		dlend_members_grow(ram, NULL);
	}
	while (!kthread_should_stop() && dlend_watch_behind(vm))
		schedule_timeout_idle(msecs_to_jiffies(DLEND_TURN_MS));
}

/*
 * If the host itself passes a device through, say so once for each borrowed device: the guest may
 * try transfers between the two, and would lose them.
 */
static void dlend_watch_passed(struct dlend_vm *vm)
{
	struct dlend_ranges bars = {};
	struct dlend_ram *ram = NULL;
	struct dlend_memory *mem;

	dlend_memslots_passed(vm->kvm, &bars);
	while (bars.count && (ram = dlend_ram_next(vm, ram))) {
		mutex_lock(&ram->lock);
		dlend_for_each_member(mem, ram) {
			if (!mem->passed_told)
				dev_notice(mem->vdev->dev, "its VM has a device that this host itself passes through, with a BAR at %#llx: that device and borrowed ones do not reach each other's BARs\n",
					   bars.range[0].start);
			mem->passed_told = true;
		}
		mutex_unlock(&ram->lock);
	}
	dlend_ranges_clear(&bars);
}

/*
 * Read the slots into vm->slots, and add those that are new since the last time to @added (NULL:
 * not wanted).  Return: 0; -ENOMEM: any slots may be new.
 */
static int dlend_watch_read(struct dlend_vm *vm, struct dlend_ranges *added)
{
	struct dlend_memslots now = {};
	int err = dlend_memslots_read(vm->kvm, &now);

	if (!err && added)
		err = dlend_ranges_add_without(added, &now.ranges, &vm->slots.ranges);
	dlend_ranges_clear(&vm->slots.ranges);
	vm->slots = now;
	/* The slots are incomplete: next time all of them count as new. */
	if (err)
		dlend_ranges_clear(&vm->slots.ranges);
	return err;
}

/* Return: have the slots changed?  The caller is in a reading section of KVM's SRCU. */
static bool dlend_watch_slots(struct dlend_vm *vm)
{
	struct dlend_ranges added = {};
	int err;

	if (dlend_memslots_generation(vm->kvm) == vm->slots.generation)
		return false;
	dlend_watch_passed(vm);
	err = dlend_watch_read(vm, &added);
	if (err || added.count)
		dlend_watch_added(vm, err ? NULL : &added);
	dlend_ranges_clear(&added);
	return true;
}

/* Have one device on each link look, if look_ms have passed and the slots have holes. */
static void dlend_watch_look(struct dlend_vm *vm)
{
	unsigned int ms = READ_ONCE(dlend_look_ms);
	struct dlend_ram *ram = NULL;
	struct dlend_memory *mem;
	bool looks, holes = false;

	if (!ms || dlend_ram_now_ms() < vm->looked_ms + ms)
		return;
	vm->looked_ms = dlend_ram_now_ms();
	while ((ram = dlend_ram_next(vm, ram))) {
		mutex_lock(&ram->lock);
		looks = !ram->holes;	/* without holes no device need look */
		holes |= ram->holes;
		dlend_for_each_member(mem, ram)
			looks = looks || dlend_guest_memory_ops.look(mem->v);
		mutex_unlock(&ram->lock);
	}
	vm->holes = holes;
}

static void dlend_watch_sleep(struct dlend_vm *vm)
{
	bool rests = vm->still >= DLEND_WATCH_STILL && !vm->holes;
	unsigned int us = rests ? DLEND_WATCH_REST_US : DLEND_WATCH_US;
	ktime_t time = ns_to_ktime(us * NSEC_PER_USEC);

	vm->wakeups++;
	set_current_state(TASK_IDLE);
	if (!kthread_should_stop())
		schedule_hrtimeout_range(&time, DLEND_WATCH_SLACK_US * NSEC_PER_USEC,
					 HRTIMER_MODE_REL);
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

void dlend_watch_begin(struct dlend_memory *mem)
{
	struct dlend_vm *vm = mem->ram->vm;
	struct task_struct *task;
	int err;

	guard(mutex)(&vm->watch_lock);
	if (READ_ONCE(mem->closed))
		return;
	if (!vm->task) {
		vm->still = 0;
		err = dlend_watch_read(vm, NULL);
		task = err ? ERR_PTR(err) : kthread_run(dlend_watch_run, vm, "dlend-watch");
		if (!IS_ERR(task))
			vm->task = task;
	}
	if (!vm->task)
		dev_warn(mem->vdev->dev, "its VM's memory slots cannot be followed (%pe): RAM that is plugged in is found later, when all is looked at again (rescan_s)\n",
			 task);
	if (mem->watches)
		return;
	vm->watchers++;
	mem->watches = true;
	dlend_watch_passed(vm);
}

void dlend_watch_end(struct dlend_memory *mem)
{
	struct dlend_vm *vm = mem->ram->vm;

	guard(mutex)(&vm->watch_lock);
	if (mem->watches && !--vm->watchers) {
		if (vm->task)
			kthread_stop(vm->task);
		vm->task = NULL;
		dlend_ranges_clear(&vm->slots.ranges);
	}
	mem->watches = false;
}

int dlend_memory_passed(struct dlend_memory *mem, struct dlend_ranges *bars)
{
	struct dlend_vm *vm = mem->ram->vm;

	guard(mutex)(&vm->watch_lock);
	return vm->watchers ? dlend_memslots_passed(vm->kvm, bars) : 0;
}
