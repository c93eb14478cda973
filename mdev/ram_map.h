/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest RAM in this node's aperture: the slots of extents, and what is mapped in them.
 *
 * A slot must not be used for anything else while a lender may still map its offsets: the device
 * would write into somebody else's memory.  So the slot of an extent that leaves the books goes
 * into quarantine, and is free when every member whose lender was told of the extent has
 * acknowledged that it is gone, or its lender has the device back.  If a lender never says so, the
 * slot stays in quarantine until the session ends, because nobody knows what its device still does;
 * others who need that memory get new slots.  If a VM gives back one device and keeps another one,
 * the first can still reach what it could reach before, until its lender has answered.  That is the
 * same VM's memory.
 *
 * On the link of a node to itself all this is the same; views of the aperture are there in place of
 * the IOMMU of the NTB.
 */
#ifndef DLEND_MDEV_RAM_MAP_H
#define DLEND_MDEV_RAM_MAP_H

#include "ram.h"

/**
 * dlend_ram_map_next - map the next chunks that are not mapped
 * @ram: (in, out) RAM; every chunk is in an extent
 * @vmm: (in) who is charged for slots
 * @gpa: (in, out) where to begin; where to go on
 *
 * Maps one chunk, with those that follow it contiguously in both address spaces.
 *
 * Context: ram->lock held, ram->ap is there. Return: 1 go on; 0 all is mapped; -ENOSPC the aperture
 * is full; -ENOMEM; or an error of the IOMMU.
 */
int dlend_ram_map_next(struct dlend_ram *ram, const struct dlend_vmm *vmm, u64 *gpa);

/**
 * dlend_ram_map_remove - chunks that left the books leave the aperture
 * @ram: (in, out) RAM
 * @out: (in) chunks, by address
 *
 * Unmapped and flushed when it returns; one flush for each run.
 *
 * Context: ram->lock held.
 */
void dlend_ram_map_remove(struct dlend_ram *ram, struct list_head *out);

/**
 * dlend_ram_map_retire - extents that left the books leave the aperture
 * @ram: (in, out) RAM
 * @gone: (in, out) extents; empty afterwards
 *
 * Unmapped and flushed when it returns.  Slots that no lender has heard of are free.  The others
 * are in quarantine, and their extents in ram->dead.
 *
 * Context: ram->lock held.
 */
void dlend_ram_map_retire(struct dlend_ram *ram, struct list_head *gone);

/**
 * dlend_ram_map_bury - no lender has a dead extent any more
 * @ram: (in, out) RAM
 * @extent: (in) extent in ram->dead; it is freed, and its slot is free if that is sure
 *
 * Context: ram->lock held.
 */
void dlend_ram_map_bury(struct dlend_ram *ram, struct dlend_extent *extent);

/** dlend_ram_map_kill_all - every extent leaves books and aperture. Context: ram->lock held. */
void dlend_ram_map_kill_all(struct dlend_ram *ram);

/**
 * dlend_ram_map_fence - all of it out of the aperture; it stays pinned, and in the same slots
 * @ram: (in, out) RAM
 *
 * Context: ram->lock held.
 */
void dlend_ram_map_fence(struct dlend_ram *ram);

/**
 * dlend_ram_map_abandon - the session is over: all slots into quarantine, for the next session
 * @ram: (in, out) RAM; has no aperture afterwards
 *
 * Context: ram->lock held.
 */
void dlend_ram_map_abandon(struct dlend_ram *ram);

#endif
