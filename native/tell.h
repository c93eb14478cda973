/* SPDX-License-Identifier: GPL-2.0 */
/* Messages to the lender about a function's IO addresses. */
#ifndef DLEND_NATIVE_TELL_H
#define DLEND_NATIVE_TELL_H

#include <linux/errno.h>
#include <linux/types.h>

struct dlend_native_fn;

/**
 * dlend_native_tell_map - have the lender map a range of IO addresses to a place in its window
 * @fn: function that uses them
 * @first: (in) first IO address
 * @size: (in) bytes
 * @offset: (in) in this node's aperture, where @first leads to
 *
 * The addresses of interrupts are left out: a lender's IOMMU does not map them.
 * Context: process, waits for the lender.
 * Return: 0; -ENOTCONN the link is down; or what the lender answers, see dlend_native_tell_over().
 */
int dlend_native_tell_map(struct dlend_native_fn *fn, u64 first, u64 size, u64 offset);

/**
 * dlend_native_tell_unmap - the function reaches nothing by these IO addresses when it returns 0
 * @fn: function
 * @first: (in) first IO address
 * @size: (in) bytes
 *
 * One whose lease is over reaches nothing. Context: process, waits for the lender.
 * Return: 0; -ENOTCONN; -ETIMEDOUT; or what else the lender answers.
 */
int dlend_native_tell_unmap(struct dlend_native_fn *fn, u64 first, u64 size);

/**
 * dlend_native_tell_over - does an answer say that the lease is over?
 * @err: (in) what the lender has answered
 *
 * Then the device's DMA is over, too: the lender fences it before it says so, or before it forgets
 * the function. Context: any.
 */
static inline bool dlend_native_tell_over(int err)
{
	return err == -ESTALE || err == -ENODEV;
}

#endif
