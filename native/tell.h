/* SPDX-License-Identifier: GPL-2.0 */
/* Messages to the lender about a function's IO addresses. */
#ifndef DLEND_NATIVE_TELL_H
#define DLEND_NATIVE_TELL_H

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
 * Return: 0; -ENODEV the link is down; or what the lender answers.
 */
int dlend_native_tell_map(struct dlend_native_fn *fn, u64 first, u64 size, u64 offset);

/**
 * dlend_native_tell_unmap - the function reaches nothing by these IO addresses when it returns 0
 * @fn: function
 * @first: (in) first IO address
 * @size: (in) bytes
 *
 * Context: process, waits for the lender. Return: as dlend_native_tell_map().
 */
int dlend_native_tell_unmap(struct dlend_native_fn *fn, u64 first, u64 size);

#endif
