// SPDX-License-Identifier: GPL-2.0
/*
 * Members of guest RAM: see members.h, and ram.h for the locks.
 *
 * Must not know books, pins, apertures or messages.
 */
#include "members.h"

void dlend_members_use(struct dlend_memory *mem, bool user)
{
	struct dlend_ram *ram = mem->ram;

	lockdep_assert_held(&ram->lock);
	if (mem->user == user)
		return;
	mem->user = user;
	if (user)
		ram->users++;
	else
		ram->users--;
}

struct dlend_memory *dlend_members_find_user(struct dlend_ram *ram)
{
	unsigned int i;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (ram->member[i] && ram->member[i]->user)
			return ram->member[i];
	return NULL;
}

bool dlend_members_any_open(const struct dlend_ram *ram)
{
	unsigned int i;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (ram->member[i] && !ram->member[i]->closed)
			return true;
	return false;
}

bool dlend_members_fenced(const struct dlend_ram *ram)
{
	const struct dlend_memory *mem;
	unsigned int i;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++) {
		mem = ram->member[i];
		/* It has stopped, or its lender has it back, and it is no member any more. */
		if (mem && mem->fenced && (mem->closed || !mem->ops->quiet(mem->ctx)))
			return true;
	}
	return false;
}

void dlend_members_progress(struct dlend_ram *ram)
{
	unsigned int i;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (ram->member[i])
			ram->member[i]->ops->progress(ram->member[i]->ctx);
}

/*
 * The next member, from number *@id on, that uses the windows and is not @except; or NULL.  It
 * stays while loss_lock is held.
 */
static struct dlend_memory *dlend_members_next_user(struct dlend_ram *ram, u32 *id,
						    const struct dlend_memory *except)
{
	struct dlend_memory *mem;

	lockdep_assert_held(&ram->loss_lock);
	guard(mutex)(&ram->lock);
	while (*id < DLEND_TOLD_MAX) {
		mem = ram->member[(*id)++];
		if (mem && mem != except && mem->user)
			return mem;
	}
	return NULL;
}

u32 dlend_members_shut(struct dlend_ram *ram, const struct dlend_memory *except)
{
	struct dlend_memory *mem;
	u32 mask = 0, id = 0;

	while ((mem = dlend_members_next_user(ram, &id, except))) {
		mem->ops->unmapping(mem->ctx);
		mask |= BIT(mem->id);
	}
	return mask;
}

void dlend_members_reopen(struct dlend_ram *ram, u32 mask, bool lost)
{
	u32 i;

	lockdep_assert_held(&ram->loss_lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (mask & BIT(i))
			ram->member[i]->ops->unmapped(ram->member[i]->ctx, lost);
}

void dlend_members_exit(struct dlend_ram *ram, const struct dlend_memory *except)
{
	struct dlend_memory *mem;
	u32 id = 0;

	guard(mutex)(&ram->loss_lock);
	while ((mem = dlend_members_next_user(ram, &id, except)))
		mem->ops->exit(mem->ctx);
}

bool dlend_members_quiet(struct dlend_ram *ram)
{
	struct dlend_memory *mem;
	u32 id = 0;

	guard(mutex)(&ram->loss_lock);
	while ((mem = dlend_members_next_user(ram, &id, NULL)))
		if (!mem->ops->quiet(mem->ctx))
			return false;
	return true;
}

void dlend_members_leave(struct dlend_ram *ram, const struct dlend_memory *except)
{
	struct dlend_memory *mem;
	u32 i;

	guard(mutex)(&ram->loss_lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++) {
		mem = READ_ONCE(ram->member[i]);
		/* The device of one that was closed may have another VMM by now. */
		if (mem && mem != except && !READ_ONCE(mem->closed))
			mem->ops->leave(mem->ctx);
	}
}

void dlend_members_stuck(struct dlend_ram *ram)
{
	struct dlend_memory *mem;
	u32 id = 0;

	guard(mutex)(&ram->loss_lock);
	while ((mem = dlend_members_next_user(ram, &id, NULL)))
		mem->ops->stuck(mem->ctx);
}

void dlend_members_grow(struct dlend_ram *ram, const struct dlend_memory *by)
{
	struct dlend_memory *mem;
	u32 id = 0;

	guard(mutex)(&ram->loss_lock);
	while ((mem = dlend_members_next_user(ram, &id, by)))
		mem->ops->grown(mem->ctx);
}
