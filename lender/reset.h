/* SPDX-License-Identifier: GPL-2.0 */
/* Getting a function back into a known state. */
#ifndef DLEND_LENDER_RESET_H
#define DLEND_LENDER_RESET_H

#include "lender/fn.h"
#include "lender/group.h"

/**
 * lend_reset_answers - is a function there?
 * @fn: (in) function
 *
 * Context: any in which configuration space can be read.
 * Return: 0; -ENODEV it does not answer, or another device does.
 */
int lend_reset_answers(struct lend_fn *fn);

/**
 * lend_reset_fn - reset a function, and restore the PCI state that it had when it was bound
 * @fn: (in) function; its bus mastering is off and no interrupt is set up
 * @why: (in) for the trace
 * @locked: (in) the caller holds the device lock
 *
 * Context: process, may take seconds; reset_lock of the group, or probe.  Takes the device lock if
 * the caller does not hold it, and the group lock.
 * Return: 0; -EAGAIN somebody else has the device lock, nothing was done; any other error: the
 * device is in an unknown state.
 */
int lend_reset_fn(struct lend_fn *fn, const char *why, bool locked);

/**
 * lend_reset_lock_device - take the device lock, to be given back by pci_dev_unlock()
 * @fn: (in) function
 *
 * Context: process, waits no longer than LEND_RESET_PATIENCE_MS; no lock but reset_lock.
 * Return: 0; -EAGAIN somebody else has it, or the function is being unbound.
 */
int lend_reset_lock_device(struct lend_fn *fn);

/**
 * lend_reset_heal - put back what a reset has taken that this host was not told of
 * @fn: (in, out) function
 *
 * To be called where its borrower turns something on or off: some reads of configuration space, if
 * nothing has happened.  A device that resets itself has lost its BARs, Bus Master Enable and its
 * interrupts.  It gets them back as this host has set them, and says so in the log; no lease ends.
 *
 * Context: process, group lock.
 */
void lend_reset_heal(struct lend_fn *fn);

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
