/* SPDX-License-Identifier: GPL-2.0 */
/* INTx of attached devices. */
#ifndef DLEND_NATIVE_INTX_H
#define DLEND_NATIVE_INTX_H

struct dlend_native_fn;

/**
 * dlend_native_intx_make - give a function an interrupt for its INTx, if it has that
 * @fn: (in, out) function with info; fn->intx is the interrupt's number
 *
 * Context: process, may sleep. Return: 0 or -errno.
 */
int dlend_native_intx_make(struct dlend_native_fn *fn);

/** dlend_native_intx_free - undo that; no driver has it any more. Context: process, may sleep. */
void dlend_native_intx_free(struct dlend_native_fn *fn);

/**
 * dlend_native_intx_wanted - its driver waits for it again: it was handled, or enabled
 * @fn: (in, out) function with fn->intx
 *
 * Context: any; takes dlend_native_fn.lock.
 */
void dlend_native_intx_wanted(struct dlend_native_fn *fn);

#endif
