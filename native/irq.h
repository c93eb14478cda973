/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts of attached devices: what the lender delivers becomes INTx, MSI or MSI-X here. */
#ifndef DLEND_NATIVE_IRQ_H
#define DLEND_NATIVE_IRQ_H

#include <linux/types.h>
#include <dlend/proto.h>

struct dlend_native_fn;
struct fwnode_handle;
struct irq_domain;
struct work_struct;

/**
 * dlend_native_irq_again - have the lender deliver what it delivered before a reset
 * @fn: (in) function whose interrupts a reset has ended
 *
 * Context: process, waits for the lender; takes irq_lock. Return: as dlend_lease_irq_setup().
 */
int dlend_native_irq_again(struct dlend_native_fn *fn);

/**
 * dlend_native_irq_make_up - handle each of the driver's message interrupts once
 * @fn: (in) function that may have sent some while they were set up
 *
 * Context: process; takes irq_lock.
 */
void dlend_native_irq_make_up(struct dlend_native_fn *fn);

/**
 * dlend_native_irq_fired - the device has sent @vector
 * @fn: (in) function
 * @vector: (in) number
 * @direct: (in) by an interrupt that came here: the handler may run at once
 *
 * Context: any, with interrupts off, if @direct an interrupt's handler; else locks may be held.
 */
void dlend_native_irq_fired(struct dlend_native_fn *fn, unsigned int vector, bool direct);

/** dlend_native_irq_bind_work - dlend_native_fn.bind_work. Context: process; takes irq_lock. */
void dlend_native_irq_bind_work(struct work_struct *work);

/**
 * dlend_native_msi_create - the domain that devices of a root bus take their interrupts from
 * @fwnode: (in) name of it; stays until irq_domain_remove()
 * @isolated: (in) the lenders' interrupts are isolated, as VFIO wants it
 *
 * Context: process, may sleep. Return: domain, or NULL.
 */
struct irq_domain *dlend_native_msi_create(struct fwnode_handle *fwnode, bool isolated);

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
 * dlend_native_intx_wanted - its driver waits for it again
 * @fn: (in, out) function with fn->intx
 * @handled: (in) true: the last one was handled; false: INTx was enabled or disabled in the device
 *
 * Context: any; takes dlend_native_fn.lock.
 */
void dlend_native_intx_wanted(struct dlend_native_fn *fn, bool handled);

#endif
