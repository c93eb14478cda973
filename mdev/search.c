// SPDX-License-Identifier: GPL-2.0
/*
 * The search for a VM's RAM: where it may be (memory slots), what has changed there since it was
 * looked for, and the prober that pins what is there.  See ram.h for the locks.
 *
 * The watch (dlend_search_watch()) is one thread for each VM, however many devices the VM borrows,
 * over whatever links.
 *
 * A VMM that plugs in RAM maps it for VFIO, then adds a memory slot, then tells the guest.  KVM
 * announces no new slot.  But KVM's call that adds it does not return before all readers of KVM's
 * SRCU are through that read when the slot appeared.  So the thread is always such a reader:
 * each of its reading sections begins before the section before it ends, and between the two it
 * looks whether the slots have changed.  There it does all that must be done before a guest can
 * hear of its new RAM, and waits until that is done.
 *
 * RAM that is plugged into a slot that is there (virtio-mem) is not announced.  Where slots have
 * holes, one device of the VM on each link looks there now and then.
 *
 * The price: the VMM's calls that change slots (some dozens when a VM starts) wait for the thread,
 * once or twice.  So it wakes up each DLEND_WATCH_US; but only DLEND_WATCH_REST_US apart while the
 * VM rests: none of its processors is in the guest, its slots stay as they are and have no holes.
 *
 * Must not know extents, apertures or messages.
 */
#include <linux/device.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/vfio.h>
#include <asm/processor.h>

#include "ram.h"

/* Guest-physical address bits: KVM gives a guest no more than the host has. */
#ifdef CONFIG_X86
#define DLEND_PHYS_BITS	((unsigned int)boot_cpu_data.x86_phys_bits)
#else
#define DLEND_PHYS_BITS	40u
#endif
/*
 * No RAM lies above 64 TiB, whatever the processor could address: a VMM puts RAM as low as it fits.
 * This bounds the walk.
 */
#define DLEND_PHYS_BITS_MAX	46u

/* Without memory slots the first search is everywhere; later ones go so far above known memory. */
#define DLEND_ABOVE_KNOWN	(64 * (u64)SZ_1G)

/* The most probes of one build, as long as each probe finds something new. */
#define DLEND_PROBES_MAX	4

/* When a look has found a page, this much from there on is due: RAM comes in larger pieces. */
#define DLEND_FOUND_BYTES	SZ_1G

static unsigned int look_ms = 4;
module_param(look_ms, uint, 0644);
MODULE_PARM_DESC(look_ms, "milliseconds between looks for memory plugged into holes of a running guest's memory slots (virtio-mem); 0: never");

/* The guest, as the prober sees it */

/* Gates are shut until the RAM that comes is in reach, also that of the device of this build. */
static void dlend_search_tell(struct dlend_memory *mem)
{
	dlend_members_grow(mem->ram, mem->how & DLEND_BUILD_OPEN ? NULL : mem);
	mem->announced = true;
}

/*
 * No device of the VM can reach the RAM that comes now, and once it is in the books, no look finds
 * anything: tell before.  Not while a pin is under way: whoever unpins waits for pins, and has the
 * lock that telling takes.  So the first page is only tried.
 */
static int dlend_search_pin(void *ctx, u64 gpa, u32 npages, u32 prot, bool try)
{
	struct dlend_memory *mem = ctx;
	int err = 0;

	if (dlend_prober_excluded(mem->lowmem, gpa, npages))
		return -EINVAL;
	if (!try && !mem->announced) {
		err = dlend_pin_ram(mem, gpa, 1, prot, true);
		if (!err)
			dlend_search_tell(mem);
	}
	return err ?: dlend_pin_ram(mem, gpa, npages, prot, try);
}

static u64 dlend_search_known(void *ctx, u64 gpa, u64 *next)
{
	struct dlend_memory *mem = ctx;

	guard(mutex)(&mem->ram->lock);
	return dlend_books_known(&mem->ram->books, gpa, next);
}

/*
 * No pin lies across an edge of an extent.  So each fits into an extent that stands, or into none;
 * no extent that stands has to make way for it.
 */
static u64 dlend_search_edge(void *ctx, u64 gpa, u64 end)
{
	struct dlend_memory *mem = ctx;

	guard(mutex)(&mem->ram->lock);
	return dlend_books_edge(&mem->ram->books, gpa, end);
}

static bool dlend_search_stop(void *ctx)
{
	return dlend_memory_disturbed(ctx);
}

/* Does KVM have RAM at @gpa?  @otherwise: the answer where KVM does not run the VM. */
static bool dlend_search_slot_is_ram(struct dlend_memory *mem, u64 gpa, bool otherwise)
{
	struct dlend_vm *vm = mem->ram->vm;

	guard(mutex)(&vm->watch_lock);
	if (!mem->watches)
		return false;
	return vm->kvm ? dlend_memslots_is_ram(vm->kvm, gpa) : otherwise;
}

static bool dlend_search_is_ram(void *ctx, u64 gpa)
{
	struct dlend_memory *mem = ctx;
	bool ram = dlend_search_slot_is_ram(mem, gpa, !gpa);

	if (ram)
		mem->unpinnable = gpa;
	return ram;
}

/* Every PC has RAM at 0, and VFIO has it wherever a device's addresses are the guest's. */
bool dlend_search_translated(struct dlend_memory *mem)
{
	u64 next;

	return !dlend_search_known(mem, 0, &next) && dlend_search_slot_is_ram(mem, 0, false);
}

static const struct dlend_prober_ops dlend_search_ops = {
	.pin = dlend_search_pin,
	.known = dlend_search_known,
	.edge = dlend_search_edge,
	.is_ram = dlend_search_is_ram,
	.stop = dlend_search_stop,
};

/* Where RAM may be */

/* Highest address that a guest on this host can have, exclusive. */
static u64 dlend_search_max(void)
{
	return 1ULL << min(DLEND_PHYS_BITS, DLEND_PHYS_BITS_MAX);
}

static u64 dlend_search_known_end(struct dlend_memory *mem)
{
	u64 gpa = 0, last = 0, next;

	do {
		last = dlend_search_known(mem, gpa, &next) ?: last;
		gpa = last > gpa ? last : next;
	} while (gpa != U64_MAX);
	return last;
}

/* Where the slots are not known: the end (exclusive) of where RAM is looked for. */
static u64 dlend_search_near_max(struct dlend_memory *mem)
{
	return min(dlend_search_max(),
		   max(dlend_search_known_end(mem), (u64)SZ_4G) + DLEND_ABOVE_KNOWN);
}

/*
 * Read the VM's memory slots into mem->slots, if they have changed; empty: they are not known.
 * -EINTR: the member is closed.
 */
static int dlend_search_read_slots(struct dlend_memory *mem)
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

/* What is due */

/* All of @ranges is due.  ram->lock is held. */
static void dlend_search_add_due(struct dlend_ram *ram, const struct dlend_ranges *ranges)
{
	u32 i;

	for (i = 0; i < ranges->count; i++)
		dlend_ram_add_due(ram, ranges->range[i].start, ranges->range[i].end - 1);
}

/* This build takes over all that is due, to look there. */
static void dlend_search_take_due(struct dlend_memory *mem, u32 how)
{
	struct dlend_ram *ram = mem->ram;

	guard(mutex)(&ram->lock);
	mem->how = how;
	mem->announced = ram->users <= 1 && !(how & DLEND_BUILD_OPEN);
	mem->due_all = ram->due_all;
	mem->due = ram->due;
	memset(&ram->due, 0, sizeof(ram->due));
	ram->due_all = false;
}

void dlend_search_end(struct dlend_memory *mem, int err)
{
	struct dlend_ram *ram = mem->ram;

	/* The build did not reach its end, or what it found is gone again. */
	if (err) {
		mutex_lock(&ram->lock);
		ram->due_all |= mem->due_all;
		dlend_search_add_due(ram, &mem->due);
		mutex_unlock(&ram->lock);
	}
	dlend_ranges_clear(&mem->due);
	dlend_ranges_clear(&mem->walk);
	mem->due_all = false;
	WRITE_ONCE(ram->holes, true);
}

/* RAM may have come in @added, or anywhere (NULL): the next build looks there. */
static void dlend_search_added(struct dlend_ram *ram, const struct dlend_ranges *added)
{
	guard(mutex)(&ram->lock);
	if (added)
		dlend_search_add_due(ram, added);
	else
		ram->due_all = true;
}

void dlend_memory_rescan(struct dlend_memory *mem)
{
	dlend_search_added(mem->ram, NULL);
}

/* A probe, or a look, in @where; without slots anywhere, or only near to known memory. */
static struct dlend_prober dlend_search_prober(struct dlend_memory *mem,
					       const struct dlend_ranges *where, bool near)
{
	bool slots = mem->slots.ranges.count;

	return (struct dlend_prober){
		.ops = &dlend_search_ops,
		.ctx = mem,
		.where = slots ? where : NULL,
		.max = near && !slots ? dlend_search_near_max(mem) : dlend_search_max(),
	};
}

static int dlend_search_probe(struct dlend_memory *mem)
{
	struct dlend_prober p = dlend_search_prober(mem, &mem->walk, !mem->due_all);
	bool all = mem->due_all || mem->how & DLEND_BUILD_ANEW;
	int err;

	dlend_ranges_clear(&mem->walk);
	err = dlend_ranges_add_both(&mem->walk, &mem->slots.ranges,
				    all ? &mem->slots.ranges : &mem->due);
	return err ?: dlend_prober_run(&p);
}

int dlend_search_run(struct dlend_memory *mem, u32 how)
{
	const struct dlend_books *books = &mem->ram->books;
	unsigned int probes = 0;
	u64 had;
	int err;

	mem->pin_err = 0;
	dlend_search_take_due(mem, how);
	/*
	 * Pinning takes seconds, and nothing says when memory that is not pinned comes or goes.  So
	 * all holes are tried again after something was pinned: some thousand calls, which fail at
	 * once.
	 */
	do {
		had = READ_ONCE(books->pinned_bytes);
		err = dlend_search_read_slots(mem) ?: dlend_search_probe(mem);
	} while (!err && READ_ONCE(books->pinned_bytes) != had && ++probes < DLEND_PROBES_MAX);
	/* There is RAM of which not one page can be pinned.  It is out of reach, too. */
	if (err && err != -EINTR && !mem->announced)
		dlend_search_tell(mem);
	return err;
}

static int dlend_search_look(struct dlend_memory *mem, u64 *found)
{
	int err = dlend_search_read_slots(mem);
	struct dlend_prober p = dlend_search_prober(mem, &mem->slots.ranges, true);

	return err ?: dlend_prober_look(&p, &mem->turn, found);
}

void dlend_memory_look(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	u64 found;
	int ret;

	/* A build searches: it tells all that RAM comes. */
	if (!READ_ONCE(look_ms) || !mutex_trylock(&ram->search_lock))
		return;
	mem->stat.looks++;
	/*
	 * A loss before this moment need not stop the look: the books know of it, and if memory is
	 * to come back, a build is due already.
	 */
	mutex_lock(&ram->lock);
	mem->build_lost = ram->lost;
	WRITE_ONCE(ram->holes, false);
	mutex_unlock(&ram->lock);
	ret = dlend_search_look(mem, &found);
	if (ret || mem->turn.tried)
		WRITE_ONCE(ram->holes, true);
	if (ret == 1) {
		mutex_lock(&ram->lock);
		dlend_ram_add_due(ram, found, found + DLEND_FOUND_BYTES - 1);
		mutex_unlock(&ram->lock);
		/*
		 * No device of the VM reaches that RAM.  Once one of them has pinned it, no look
		 * finds it any more: shut all gates now, while no other search can run.
		 */
		dlend_members_grow(ram, NULL);
	}
	mutex_unlock(&ram->search_lock);
}

/* The watch */

/* Less would keep a CPU busy; more would make VMMs wait too long. */
#define DLEND_WATCH_US		2000u
#define DLEND_WATCH_SLACK_US	500u
/* At rest: 10 wake-ups a second.  No look: where there are holes, RAM may come at any moment. */
#define DLEND_WATCH_REST_US	100000u
/* A VM rests when nothing has moved for so many wake-ups in a row. */
#define DLEND_WATCH_STILL	64u

/* May a device transfer, and not reach all RAM that has come? */
static bool dlend_watch_behind(struct dlend_vm *vm)
{
	struct dlend_ram *ram = NULL;
	struct dlend_memory *mem;
	bool behind = false;
	u32 i;

	while ((ram = dlend_ram_next(vm, ram))) {
		mutex_lock(&ram->lock);
		dlend_for_each_member(mem, ram, i)
			behind = behind || dlend_memory_user->behind(mem->v);
		mutex_unlock(&ram->lock);
	}
	return behind;
}

/*
 * Slots were added.  Wait until each device reaches the RAM there, or has stopped.  Until then the
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
	while (!kthread_should_stop() && dlend_watch_behind(vm))
		schedule_timeout_idle(msecs_to_jiffies(DLEND_TURN_MS));
}

/*
 * BARs of devices that the host itself passes through: say it once for each borrowed device, as the
 * guest may try transfers between the two, and loses them.
 */
static void dlend_watch_passed(struct dlend_vm *vm)
{
	struct dlend_ranges bars = {};
	struct dlend_ram *ram = NULL;
	struct dlend_memory *mem;
	u32 i;

	dlend_memslots_passed(vm->kvm, &bars);
	while (bars.count && (ram = dlend_ram_next(vm, ram))) {
		mutex_lock(&ram->lock);
		dlend_for_each_member(mem, ram, i) {
			if (!mem->passed_told)
				dev_notice(mem->vdev->dev, "its VM has a device that this host itself passes through, with a BAR at %#llx: that device and borrowed ones do not reach each other's BARs\n",
					   bars.range[0].start);
			mem->passed_told = true;
		}
		mutex_unlock(&ram->lock);
	}
	dlend_ranges_clear(&bars);
}

/* Slots that are new since the last time, into @added.  -ENOMEM: it may be anything. */
static int dlend_watch_read(struct dlend_vm *vm, struct dlend_ranges *added)
{
	struct dlend_memslots now = {};
	int err = dlend_memslots_read(vm->kvm, &now);

	if (!err)
		err = dlend_ranges_add_without(added, &now.ranges, &vm->slots.ranges);
	dlend_ranges_clear(&vm->slots.ranges);
	vm->slots = now;
	/* It is incomplete: next time everything counts as new. */
	if (err)
		dlend_ranges_clear(&vm->slots.ranges);
	return err;
}

/* Have the slots changed?  Inside of a reading section of KVM's SRCU. */
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

static bool dlend_watch_rests(const struct dlend_vm *vm)
{
	return vm->still >= DLEND_WATCH_STILL && !vm->holes;
}

/* One device of each link looks; no device does where there are no holes. */
static void dlend_watch_look(struct dlend_vm *vm)
{
	unsigned int ms = READ_ONCE(look_ms);
	struct dlend_ram *ram = NULL;
	struct dlend_memory *mem;
	bool looks, holes = false;
	u32 i;

	if (!ms || dlend_ram_now_ms() < vm->looked_ms + ms)
		return;
	vm->looked_ms = dlend_ram_now_ms();
	while ((ram = dlend_ram_next(vm, ram))) {
		mutex_lock(&ram->lock);
		looks = !ram->holes;
		holes |= ram->holes;
		dlend_for_each_member(mem, ram, i)
			looks = looks || dlend_memory_user->look(mem->v);
		mutex_unlock(&ram->lock);
	}
	vm->holes = holes;
}

static void dlend_watch_sleep(struct dlend_vm *vm)
{
	unsigned int us = dlend_watch_rests(vm) ? DLEND_WATCH_REST_US : DLEND_WATCH_US;
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

static int dlend_watch_start(struct dlend_vm *vm)
{
	struct dlend_ranges all = {};
	struct task_struct *task;
	int err;

	err = dlend_watch_read(vm, &all);
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

void dlend_search_watch(struct dlend_memory *mem)
{
	struct dlend_vm *vm = mem->ram->vm;
	int err = 0;

	guard(mutex)(&vm->watch_lock);
	if (READ_ONCE(mem->closed))
		return;
	if (!vm->task)
		err = dlend_watch_start(vm);
	if (err)
		dev_warn(mem->vdev->dev, "its VM's memory slots cannot be followed (%pe): RAM that is plugged in is found later, when all is looked at again (rescan_s)\n",
			 ERR_PTR(err));
	if (mem->watches)
		return;
	vm->watchers++;
	mem->watches = true;
	dlend_watch_passed(vm);
}

void dlend_search_unwatch(struct dlend_memory *mem)
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
