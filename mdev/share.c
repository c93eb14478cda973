// SPDX-License-Identifier: GPL-2.0
/*
 * Life of guest RAM and of its members: which lease shares with whom (dlend_memory_create() and
 * dlend_memory_destroy() of memory.h).  See ram.h for the objects and the locks.
 *
 * Must not know how RAM is found, pinned, mapped or told.
 */
#include <linux/err.h>
#include <linux/slab.h>
#include <linux/vfio.h>
#include <dlend/compat.h>

#include "loss.h"
#include "members.h"
#include "ram_map.h"
#include "tell.h"
#include "unpin.h"

static struct dlend_ram *dlend_ram_create(const struct dlend_memory *mem,
					  const struct dlend_memory_desc *desc)
{
	struct dlend_ram *ram = kzalloc_obj(*ram, DLEND_BOOKS_GFP);
	int err;

	if (!ram)
		return ERR_PTR(-ENOMEM);
	ram->ap = dlend_session_live(desc->session) ?
		  dlend_link_aperture(desc->session->link) : NULL;
	ram->vm = ram->ap ? dlend_vm_get(mem) : NULL;
	if (!ram->vm) {
		err = ram->ap ? -ENOMEM : -ENOTCONN;
		kfree(ram);
		return ERR_PTR(err);
	}
	ram->kvm = mem->kvm;
	ram->iommufd = mem->vdev->iommufd_access;
	ram->lowmem = desc->lowmem;
	ram->session = *desc->session;
	dlend_link_get(ram->session.link);
	kref_init(&ram->ref);
	mutex_init(&ram->build_lock);
	mutex_init(&ram->search_lock);
	mutex_init(&ram->loss_lock);
	mutex_init(&ram->lock);
	dlend_books_init(&ram->books);
	ram->due_all = true;
	ram->holes = true;
	ram->last_loss = jiffies - msecs_to_jiffies(DLEND_SETTLE_MS);
	INIT_LIST_HEAD(&ram->dead);
	dlend_tell_init(ram);
	dlend_loss_init(ram);
	return ram;
}

/* May @mem share @ram?  The list of who shares is in ram.h. */
static bool dlend_ram_is_for(const struct dlend_ram *ram, const struct dlend_memory *mem,
			     const struct dlend_memory_desc *desc)
{
	return mem->kvm && ram->kvm == mem->kvm &&
	       ram->session.link == desc->session->link &&
	       ram->session.session == desc->session->session && ram->lowmem == desc->lowmem &&
	       ram->iommufd == !!mem->vdev->iommufd_access;
}

/* @mem becomes a member.  Return: false if @ram has no room, or is at its end. */
static bool dlend_ram_enter(struct dlend_ram *ram, struct dlend_memory *mem)
{
	unsigned int i;
	bool done = false;

	mutex_lock(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX && !done && !ram->over && ram->ap; i++) {
		if (ram->member[i])
			continue;
		mem->ram = ram;
		mem->id = i;
		mem->build_lost = ram->lost;
		ram->member[i] = mem;
		done = true;
	}
	mutex_unlock(&ram->lock);
	return done;
}

/* Find RAM that @mem can share, or make some. */
static int dlend_ram_join(struct dlend_memory *mem, const struct dlend_memory_desc *desc)
{
	struct dlend_ram *ram;

	guard(mutex)(&dlend_rams_lock);
	list_for_each_entry(ram, &dlend_rams, node) {
		if (dlend_ram_is_for(ram, mem, desc) && dlend_ram_enter(ram, mem)) {
			kref_get(&ram->ref);
			return 0;
		}
	}
	ram = dlend_ram_create(mem, desc);
	if (IS_ERR(ram))
		return PTR_ERR(ram);
	list_add_tail(&ram->node, &dlend_rams);
	dlend_ram_enter(ram, mem);
	return 0;
}

static bool dlend_ram_is_told(const struct dlend_extent *extent, u32 id)
{
	return dlend_told_member(&extent->told, id);
}

/*
 * @mem is no member any more: nothing waits for its lender's answers.  If it was not fenced, its
 * device may still reach all slots that its lender was told of.  So the extents of these leave the
 * books, and other members get new ones.
 * Return: were windows taken from others?
 */
static bool dlend_ram_forget(struct dlend_memory *mem, bool fenced)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent, *tmp;
	LIST_HEAD(gone);
	bool hit = false;

	lockdep_assert_held(&ram->lock);
	if (fenced)
		dlend_books_leave(&ram->books, mem->id);
	else
		dlend_books_kill_all(&ram->books, dlend_ram_is_told, mem->id, &gone);
	if (!list_empty(&gone)) {
		dlend_ram_disturb(ram);
		hit = true;
	}
	dlend_ram_map_retire(ram, &gone);
	list_for_each_entry_safe(extent, tmp, &ram->dead, node)
		if (dlend_told_leave(&extent->told, mem->id, fenced))
			dlend_ram_map_bury(ram, extent);
	ram->member[mem->id] = NULL;
	return hit;
}

static void dlend_ram_leave(struct dlend_memory *mem, bool fenced)
{
	struct dlend_ram *ram = mem->ram;
	bool hit;
	u32 shut;

	mutex_lock(&ram->loss_lock);
	shut = fenced ? 0 : dlend_members_shut(ram, mem);
	mutex_lock(&ram->lock);
	hit = dlend_ram_forget(mem, fenced);
	mutex_unlock(&ram->lock);
	dlend_members_reopen(ram, shut, hit);
	mutex_unlock(&ram->loss_lock);
	dlend_ram_put(ram);
}

static struct dlend_memory *dlend_memory_make(const struct dlend_memory_desc *desc)
{
	struct dlend_memory *mem;
	int err;

	mem = kvzalloc_obj(*mem, DLEND_BOOKS_GFP);
	if (!mem)
		return ERR_PTR(-ENOMEM);
	mem->vdev = desc->vdev;
	/* Once: the device may be closed, and opened by another VM, meanwhile. */
	mem->kvm = READ_ONCE(desc->vdev->kvm);
	mem->ops = desc->ops;
	mem->ctx = desc->ctx;
	mem->addr = *desc->addr;
	mem->epoch = desc->epoch;
	dlend_vmm_copy(&mem->vmm, desc->vmm);
	mem->repairs_since = jiffies;
	mutex_init(&mem->close_lock);
	err = dlend_ram_join(mem, desc);
	if (err) {
		dlend_vmm_drop(&mem->vmm);
		kvfree(mem);
		return ERR_PTR(err);
	}
	return mem;
}

struct dlend_memory *dlend_memory_create(const struct dlend_memory_desc *desc)
{
	struct mem_cgroup *before = dlend_vmm_charge(desc->vmm);
	struct dlend_memory *mem = dlend_memory_make(desc);

	dlend_vmm_charged(before);
	return mem;
}

void dlend_memory_destroy(struct dlend_memory *mem, bool acked)
{
	dlend_memory_close(mem);
	dlend_unpin_leave(mem);
	dlend_ram_leave(mem, acked);
	dlend_ranges_clear(&mem->slots);
	mutex_destroy(&mem->close_lock);
	dlend_vmm_drop(&mem->vmm);
	kvfree(mem);
}
