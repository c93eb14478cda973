// SPDX-License-Identifier: GPL-2.0
/*
 * Life of guest RAM and of its members: which leases share RAM, and the end of a member whose pins
 * other members need.  See ram.h for the objects and the locks.
 *
 * A chunk is pinned through its owner's VFIO device.  When that device is closed, each of its
 * chunks is handed over: the chunk is pinned through another member as well (type1 and iommufd only
 * count one more pin of the page) and then unpinned through the old owner.  DMA of all devices goes
 * on.  If that fails for a chunk, all memory is unmapped and unpinned, and the other members build
 * again.
 *
 * A VMM that dies closes one device after the other, and no device needs the memory.  Then all
 * devices stop, their leases end, and when the first one is closed all memory of all members is
 * unmapped and unpinned.
 *
 * Must not know how RAM is found or mapped, nor the messages to lenders.
 */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vfio.h>
#include <dlend/compat.h>

#include "ram.h"
#include "trace.h"

/* Find or make the struct dlend_vm for @mem.  Return: with a reference; NULL: out of memory. */
static struct dlend_vm *dlend_vm_get(const struct dlend_memory *mem)
{
	struct dlend_user vmm = dlend_vmm_user(mem->vmm.task);
	struct dlend_vm *vm __free(kvfree) = NULL;
	struct dlend_ram *ram;

	lockdep_assert_held(&dlend_rams_lock);
	list_for_each_entry(ram, &dlend_rams, node) {
		if (ram->vm->kvm == mem->kvm && (mem->kvm || dlend_same_user(ram->vm->vmm, vmm))) {
			kref_get(&ram->vm->ref);
			return ram->vm;
		}
	}
	vm = kvzalloc_obj(*vm, DLEND_PINNED_GFP);
	if (!vm || dlend_unpin_init(vm))
		return NULL;
	kref_init(&vm->ref);
	vm->kvm = mem->kvm;
	vm->vmm = vmm;
	mutex_init(&vm->watch_lock);
	return_ptr(vm);
}

static struct dlend_ram *dlend_ram_create(const struct dlend_memory *mem)
{
	const struct dlend_session_ref *session = &mem->lease->ref;
	struct dlend_ram *ram __free(kfree) = kzalloc_obj(*ram, DLEND_PINNED_GFP);

	if (!ram)
		return ERR_PTR(-ENOMEM);
	ram->ap = dlend_session_live(session) ? dlend_link_aperture(session->link) : NULL;
	if (!ram->ap)
		return ERR_PTR(-ENOTCONN);
	ram->vm = dlend_vm_get(mem);
	if (!ram->vm)
		return ERR_PTR(-ENOMEM);
	ram->iommufd = mem->vdev->iommufd_access;
	ram->lowmem = mem->lowmem;
	ram->session = *session;
	dlend_link_get(ram->session.link);
	kref_init(&ram->ref);
	mutex_init(&ram->build_lock);
	mutex_init(&ram->search_lock);
	mutex_init(&ram->loss_lock);
	mutex_init(&ram->lock);
	dlend_pinned_init(&ram->pinned);
	ram->due.all = true;
	ram->holes = true;
	INIT_LIST_HEAD(&ram->dead);
	dlend_map_init(ram);
	return_ptr(ram);
}

/* May @mem share @ram?  See ram.h for the rules. */
static bool dlend_ram_is_for(const struct dlend_ram *ram, const struct dlend_memory *mem)
{
	return mem->kvm && ram->vm->kvm == mem->kvm &&
	       ram->session.link == mem->lease->ref.link &&
	       ram->session.session == mem->lease->ref.session && ram->lowmem == mem->lowmem &&
	       ram->iommufd == !!mem->vdev->iommufd_access;
}

/* @mem becomes a member.  Return: false if @ram has no room, or may get no member any more. */
static bool dlend_ram_enter(struct dlend_ram *ram, struct dlend_memory *mem)
{
	u32 i;

	guard(mutex)(&ram->lock);
	for (i = 0; i < DLEND_ACKS_MAX && !ram->over && ram->ap; i++) {
		if (ram->member[i])
			continue;
		mem->ram = ram;
		mem->id = i;
		mem->build_lost = ram->lost;
		ram->member[i] = mem;
		return true;
	}
	return false;
}

/* Find or make the struct dlend_ram for @mem, and enter @mem as a member.  Return: 0 or -errno. */
static int dlend_ram_join(struct dlend_memory *mem)
{
	struct dlend_ram *ram;

	guard(mutex)(&dlend_rams_lock);
	list_for_each_entry(ram, &dlend_rams, node) {
		if (dlend_ram_is_for(ram, mem) && dlend_ram_enter(ram, mem)) {
			kref_get(&ram->ref);
			return 0;
		}
	}
	ram = dlend_ram_create(mem);
	if (IS_ERR(ram))
		return PTR_ERR(ram);
	list_add_tail(&ram->node, &dlend_rams);
	dlend_ram_enter(ram, mem);	/* a new one has room */
	return 0;
}

/* May the lender of member @id have the extent mapped? */
static bool dlend_ram_is_told(const struct dlend_extent *extent, u32 id)
{
	return dlend_acks_member(&extent->acks, id);
}

/*
 * Make @mem no member any more.  @fenced: its lender has the device back.  If not, the device may
 * still reach all slots that its lender may have mapped.  So the extents with these slots leave the
 * pin table, and other members get new ones.
 */
static void dlend_ram_leave(struct dlend_memory *mem, bool fenced)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent, *tmp;
	bool hit = false;

	guard(mutex)(&ram->loss_lock);
	if (!fenced)
		dlend_members_shut(ram);
	mutex_lock(&ram->lock);
	if (fenced)
		dlend_pinned_leave(&ram->pinned, mem->id);
	else
		hit = dlend_ram_map_kill(ram, dlend_ram_is_told, mem->id);
	if (hit)
		dlend_ram_disturb(ram);
	list_for_each_entry_safe(extent, tmp, &ram->dead, node)
		if (dlend_acks_leave(&extent->acks, mem->id, fenced))
			dlend_ram_map_bury(ram, extent);
	ram->member[mem->id] = NULL;
	mutex_unlock(&ram->lock);
	dlend_members_reopen(ram, hit);
}

struct dlend_memory *dlend_memory_create(struct dlend_vdev *v, struct vfio_device *vdev,
					 const struct dlend_lease *lease, struct dlend_vmm *vmm,
					 u64 lowmem)
{
	struct dlend_memory *mem;
	int err = -ENOMEM;

	CLASS(dlend_charge, charge)(vmm);
	mem = kvzalloc_obj(*mem, DLEND_PINNED_GFP);
	if (mem) {
		mem->v = v;
		mem->vdev = vdev;
		/* Read now: the device may be closed, and opened by another VM, at any moment. */
		mem->kvm = READ_ONCE(vdev->kvm);
		mem->lease = lease;
		mem->vmm = *vmm;
		mem->lowmem = lowmem;
		mem->repairs_since = jiffies;
		mutex_init(&mem->close_lock);
		err = dlend_ram_join(mem);
	}
	if (!err)
		return mem;
	dlend_vmm_drop(vmm);
	kvfree(mem);
	return ERR_PTR(err);
}

/* The end of a member */

/* How long the devices of a VMM that dies have to stop. */
#define DLEND_QUIET_MS	1000u

/*
 * Find the next chunk that @mem owns, from the address of @copy on, copy it to @copy, and begin a
 * pin of it through the member that takes it over: a dma_unmap of the chunk waits from now on.
 * Return: that member; NULL: there is no such chunk; ERR_PTR(-ENODEV): no member can take it over.
 */
static struct dlend_memory *dlend_hand_over_begin(struct dlend_memory *mem,
						  struct dlend_chunk *copy)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_memory *to;
	struct dlend_chunk *chunk;

	guard(mutex)(&ram->lock);
	chunk = dlend_pinned_find_owned(&ram->pinned, copy->gpa, mem);
	if (!chunk)
		return NULL;
	*copy = *chunk;
	dlend_for_each_member(to, ram)
		if (to->user)
			break;
	if (!to)
		return ERR_PTR(-ENODEV);
	dlend_pin_begin_for(mem, to, chunk);
	return to;
}

/* Are @pages the pages of the chunk, which are mapped in the aperture? */
static bool dlend_hand_over_same(const struct dlend_chunk *chunk, struct page **pages)
{
	struct page **had = chunk->pages;
	u32 i;

	for (i = 0; i < chunk->npages; i++)
		if (had ? pages[i] != had[i] : page_to_pfn(pages[i]) != chunk->pfn + i)
			return false;
	return true;
}

/*
 * The chunk is pinned through @to as well: make @to its owner.
 * Return: 0; -EAGAIN the chunk, or a part of it, is not in the pin table any more; -ESTALE the VMM
 * has other pages at that address now.
 */
static int dlend_hand_over_note(struct dlend_memory *mem, struct dlend_memory *to,
				const struct dlend_chunk *copy)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_chunk *chunk;

	guard(mutex)(&ram->lock);
	chunk = dlend_pinned_find(&ram->pinned, copy->gpa);
	if (!chunk || chunk->gpa != copy->gpa || chunk->npages != copy->npages ||
	    chunk->owner != mem)
		return -EAGAIN;
	if (!dlend_hand_over_same(chunk, mem->pages))
		return -ESTALE;
	chunk->owner = to;
	to->stat.taken_bytes += dlend_chunk_bytes(chunk);
	return 0;
}

/* Hand over all chunks that @mem owns.  Return: 0; an error: @mem still owns some. */
static int dlend_hand_over_all(struct dlend_memory *mem)
{
	struct dlend_chunk copy = {};
	struct dlend_memory *to;
	u64 bytes = 0;
	int err = 0;

	while (!err && (to = dlend_hand_over_begin(mem, &copy))) {
		if (IS_ERR(to))
			return PTR_ERR(to);
		err = dlend_pin_chunk(to, &copy, mem->pages, false);
		if (!err) {
			err = dlend_hand_over_note(mem, to, &copy);
			dlend_unpin_pages(err ? to : mem, copy.gpa, copy.npages);
			/* What is left of the chunk is found from the same address on. */
			if (err == -EAGAIN)
				err = 0;
		}
		/* Not earlier: dma_unmap could miss the pages that were pinned through @to. */
		dlend_pin_end(mem, false);
		bytes += dlend_chunk_bytes(&copy);
		cond_resched();
	}
	trace_dlend_window(mem->vdev->dev, "handed-over", bytes, err);
	return err;
}

void dlend_memory_revoke(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_memory *open;

	mutex_lock(&ram->lock);
	WRITE_ONCE(mem->closed, true);
	dlend_members_use(mem, false);
	dlend_for_each_member(open, ram)
		if (!open->closed)
			break;
	ram->over = !open;
	/*
	 * No member needs the extents, but the device of this one may still do DMA.  So the RAM is
	 * unmapped in the aperture now.  The slots are free when the lender has its device back.
	 */
	if (!ram->users) {
		dlend_ram_map_kill_all(ram);
		dlend_pinned_accept(&ram->pinned, dlend_ram_now_ms());
	}
	mutex_unlock(&ram->lock);
	dlend_ram_queue(ram, &ram->tell_work);
}

/* Have all devices of the VM stopped? */
static bool dlend_hand_over_quiesced(struct dlend_vm *vm)
{
	struct dlend_ram *ram = NULL;
	struct dlend_memory *mem;
	bool quiesced = true;

	while ((ram = dlend_ram_next(vm, ram))) {
		guard(mutex)(&ram->loss_lock);
		dlend_for_each_member(mem, ram)
			quiesced &= !READ_ONCE(mem->user) ||
				    dlend_guest_memory_ops.quiesced(mem->v);
	}
	return quiesced;
}

void dlend_memory_vmm_exits(struct dlend_memory *mem)
{
	unsigned int turns = DLEND_QUIET_MS / DLEND_TURN_MS;
	struct dlend_vm *vm = mem->ram->vm;
	struct dlend_ram *ram = NULL;
	struct dlend_memory *other;

	while ((ram = dlend_ram_next(vm, ram))) {
		guard(mutex)(&ram->loss_lock);
		WRITE_ONCE(ram->vmm_exits, true);
		dlend_members_call(ram, dlend_guest_memory_ops.exit, NULL);
	}
	while (turns-- && !dlend_hand_over_quiesced(vm))
		msleep(DLEND_TURN_MS);
	while ((ram = dlend_ram_next(vm, ram))) {
		guard(mutex)(&ram->loss_lock);
		/* The device of a closed member may have another VMM by now. */
		dlend_for_each_member(other, ram)
			if (other != mem && !READ_ONCE(other->closed))
				dlend_guest_memory_ops.leave(other->v);
	}
}

void dlend_memory_close(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	bool all;

	/*
	 * The VMM may close the device while a worker returns its lease: both call this, and each
	 * must wait until nothing is pinned.
	 */
	guard(mutex)(&mem->close_lock);
	if (mem->emptied)
		return;
	dlend_memory_revoke(mem);
	dlend_watch_end(mem);
	/* No pin through @mem begins any more, neither for itself nor by a hand-over. */
	dlend_pin_await(mem);
	mutex_lock(&ram->lock);
	all = !ram->users || READ_ONCE(ram->vmm_exits);
	mutex_unlock(&ram->lock);
	if (all || dlend_hand_over_all(mem))
		dlend_loss_take(mem, 0, U64_MAX);
	/* This waits, too, for other threads that are unpinning chunks of this member. */
	dlend_unpin_all(ram->vm);
	WRITE_ONCE(mem->emptied, true);
}

void dlend_memory_destroy(struct dlend_memory *mem, bool acked)
{
	dlend_memory_close(mem);
	dlend_unpin_leave(mem);
	dlend_ram_leave(mem, acked);
	dlend_ram_put(mem->ram);
	dlend_ranges_clear(&mem->slots.ranges);
	mutex_destroy(&mem->close_lock);
	dlend_vmm_drop(&mem->vmm);
	kvfree(mem);
}
