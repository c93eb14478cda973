/* SPDX-License-Identifier: GPL-2.0 */
/* Getting a function back into a known state. */
#ifndef DLEND_LENDER_RESET_H
#define DLEND_LENDER_RESET_H

#include "lender/fn.h"

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

#endif
