/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts of attached devices, as they come from the lender. */
#ifndef DLEND_NATIVE_IRQ_H
#define DLEND_NATIVE_IRQ_H

#include <dlend/proto.h>

struct cpumask;
struct work_struct;
struct dlend_native_fn;
struct dlend_native_vector;
struct irq_data;

/**
 * dlend_native_irq_setup - have the lender deliver interrupts; fn->vector is there then
 * @fn: (in, out) function; the lender delivers nothing of it yet
 * @mode: (in) mode
 * @count: (in) vectors
 *
 * Nothing is handled before a vector has an interrupt of the kernel's (virq).
 * Context: process, waits for the lender, under irq_lock. Return: 0; -ENOMEM; or as
 * dlend_lease_irq_setup().
 */
int dlend_native_irq_setup(struct dlend_native_fn *fn, enum dlend_irq_mode mode,
			   unsigned int count);

/**
 * dlend_native_irq_take - a driver is about to have vectors
 * @fn: (in) function, after dlend_native_irq_setup()
 * @first: (in) number of the first one
 * @nr: (in) how many; that there are not so many is an error
 *
 * Context: process, under irq_lock.
 * Return: 0; -ENOSPC this host or the device has too few; -ENOMEM.
 */
int dlend_native_irq_take(struct dlend_native_fn *fn, unsigned int first, unsigned int nr);

/**
 * dlend_native_irq_in_use - does a driver have a vector?
 * @fn: (in) function whose interrupts are being set up
 * @vector: (in) less than the count that they are set up with
 *
 * Context: under irq_lock.
 */
bool dlend_native_irq_in_use(const struct dlend_native_fn *fn, u32 vector);

/**
 * dlend_native_irq_release - undo dlend_native_irq_take()
 * @fn: (in, out) function; if no vector is left, the lender delivers nothing of it any more
 * @first: (in) number of the first one
 * @nr: (in) how many
 *
 * Context: as dlend_native_irq_setup().
 */
void dlend_native_irq_release(struct dlend_native_fn *fn, unsigned int first, unsigned int nr);

/**
 * dlend_native_irq_give - the driver has a vector from now on
 * @v: vector
 * @virq: (in) the kernel's interrupt, which can be handled
 *
 * One that has come before is handled soon. Context: any; may be called again.
 */
void dlend_native_irq_give(struct dlend_native_vector *v, unsigned int virq);

/** dlend_native_irq_teardown - undo dlend_native_irq_setup(). Context: the same. */
void dlend_native_irq_teardown(struct dlend_native_fn *fn);

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
 * dlend_native_irq_bind - what irq_set_affinity() of a chip does
 * @d: interrupt
 * @mask: (in) processors that it may be handled on
 * @v: its vector, which is bound to one of them; NULL: it has none yet
 *
 * Context: the interrupt's lock. Return: IRQ_SET_MASK_OK; -EINVAL none of them is online.
 */
int dlend_native_irq_bind(struct irq_data *d, const struct cpumask *mask,
			  struct dlend_native_vector *v);

#endif
