/* SPDX-License-Identifier: GPL-2.0 */
/* Getting a function back into a known state. */
#ifndef DLEND_LENDER_RESET_H
#define DLEND_LENDER_RESET_H

#include "lender/fn.h"

/* How long a reset waits until somebody else (sysfs, AER) gives back the device lock. */
#define LEND_RESET_PATIENCE_MS	2000

/* Milliseconds between two tries meanwhile. */
#define LEND_RESET_POLL_MS	20

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
 * lend_reset_restore - give a function the PCI state that it had when it was first reset
 * @fn: (in) function; one that has none yet is only looked at
 *
 * Context: as lend_reset_lock_device().
 * Return: 0; -EAGAIN somebody else has the device lock, nothing was done; -ENODEV it does not
 * answer.
 */
int lend_reset_restore(struct lend_fn *fn);

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

#endif
