/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Members of guest RAM: which leases share it, and what each of them is told about the others.
 */
#ifndef DLEND_MDEV_MEMBERS_H
#define DLEND_MDEV_MEMBERS_H

#include "ram.h"

/**
 * dlend_members_use - does a member want the windows from now on?
 * @mem: (in, out) member
 * @user: (in) true: it does
 *
 * Context: ram->lock held.
 */
void dlend_members_use(struct dlend_memory *mem, bool user);

/** dlend_members_find_user - a member that wants the windows, or NULL. Context: ram->lock held. */
struct dlend_memory *dlend_members_find_user(struct dlend_ram *ram);

/**
 * dlend_members_any_open - may any member still pin?
 * @ram: (in) RAM
 *
 * Context: ram->lock held. Return: true, also for a member that has not built yet.
 */
bool dlend_members_any_open(const struct dlend_ram *ram);

/**
 * dlend_members_fenced - may one of their devices still transfer, which is to reach nothing?
 * @ram: (in) RAM
 *
 * Context: ram->lock held.
 */
bool dlend_members_fenced(const struct dlend_ram *ram);

/** dlend_members_progress - tell all that a build has come further. Context: ram->lock held. */
void dlend_members_progress(struct dlend_ram *ram);

/**
 * dlend_members_shut - windows are going: shut the gates of all who use them
 * @ram: (in) RAM
 * @except: (in) member that knows already, or NULL
 *
 * Context: loss_lock held; takes ram->lock and, in the ops, locks of the devices.
 * Return: who was told, a bit for each; for dlend_members_reopen().
 */
u32 dlend_members_shut(struct dlend_ram *ram, const struct dlend_memory *except);

/**
 * dlend_members_reopen - windows have gone
 * @ram: (in) RAM
 * @mask: (in) from dlend_members_shut()
 * @lost: (in) something was lost: they build anew
 *
 * Context: loss_lock held, since before dlend_members_shut().
 */
void dlend_members_reopen(struct dlend_ram *ram, u32 mask, bool lost);

/**
 * dlend_members_exit - the VMM dies: all users of the windows begin to stop
 * @ram: (in) RAM
 * @except: (in) member that knows already
 *
 * Context: may sleep; takes loss_lock.
 */
void dlend_members_exit(struct dlend_ram *ram, const struct dlend_memory *except);

/**
 * dlend_members_leave - the VMM dies: all leases end, also of members that use no windows
 * @ram: (in) RAM
 * @except: (in) member whose lease is being returned already
 *
 * Context: may sleep; takes loss_lock.
 */
void dlend_members_leave(struct dlend_ram *ram, const struct dlend_memory *except);

/** dlend_members_quiet - have all users stopped? Context: may sleep; takes loss_lock. */
bool dlend_members_quiet(struct dlend_ram *ram);

/** dlend_members_stuck - the RAM stays pinned: all leases end. Context: takes loss_lock. */
void dlend_members_stuck(struct dlend_ram *ram);

/**
 * dlend_members_grow - RAM has come: the gates of users are shut when it returns, and they build
 * @ram: (in) RAM
 * @by: (in) member that knows already; NULL: none does
 *
 * Context: may sleep; takes loss_lock, so no pin of the caller's may be under way.
 */
void dlend_members_grow(struct dlend_ram *ram, const struct dlend_memory *by);

#endif
