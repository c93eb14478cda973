/* SPDX-License-Identifier: GPL-2.0 */
/* Reset of a slot or a bus, for functions that have no reset of their own. */
#ifndef DLEND_LENDER_BUS_RESET_H
#define DLEND_LENDER_BUS_RESET_H

#include "lender/fn.h"
#include "lender/group.h"

/**
 * lend_bus_reset_can - could a function be reset by its slot or its bus?
 * @pdev: (in) function that has no reset of its own
 * @other: (out) if -EXDEV, the name of a function that would be reset with it
 * @len: (in) size of @other in bytes
 *
 * Context: process; takes the PCI core's lock of all buses.
 * Return: 0: yes, with functions of its own IOMMU group only; -EXDEV: that would reset something
 * outside the group, or behind a bridge; -ENOTTY: no such reset is possible.
 */
int lend_bus_reset_can(struct pci_dev *pdev, char *other, size_t len);

/**
 * lend_bus_reset - reset a function with all others of its slot or bus, if nobody uses any of them
 * @fn: (in, out) function with lend_fn.shared_reset; each of those that are reset has the PCI state
 *	again that it had when it was first reset
 * @why: (in) for the trace
 * @done: (out) the functions that were to be reset, a bit per lend_fn.index; they stay in the group
 *	as long as the caller holds reset_lock
 *
 * Requests about these functions wait meanwhile: lend_bus_reset_await().
 *
 * Context: process, may take seconds; reset_lock, no device lock.  Takes the device locks and the
 * group lock.
 * Return: 0; -EBUSY somebody uses one of them, or one is not bound here: nothing was done; -EAGAIN
 * somebody else has a device lock: nothing was done; any other error: they are in an unknown state.
 */
int lend_bus_reset(struct lend_fn *fn, const char *why, u64 *done);

/**
 * lend_bus_reset_request - reset such a function for its holder
 * @fn: (in, out) function, cut off
 *
 * A guest that resets all of its functions, one after the other, gets the reset with the last of
 * them.  While it uses another one, the function only gets its PCI state back.
 *
 * Context: as lend_bus_reset().
 * Return: 0; -EAGAIN somebody else has a device lock; as lend_bus_reset().
 */
int lend_bus_reset_request(struct lend_fn *fn);

/**
 * lend_bus_reset_await - wait until a function is not being reset with others
 * @fn: (in) function
 *
 * Context: process; no lock.
 */
void lend_bus_reset_await(struct lend_fn *fn);

#endif
