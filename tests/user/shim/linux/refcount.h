/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/refcount.h>: suites have one thread. */
#ifndef SHIM_LINUX_REFCOUNT_H
#define SHIM_LINUX_REFCOUNT_H

#include <linux/types.h>

typedef struct {
	unsigned int n;
} refcount_t;

static inline void refcount_set(refcount_t *r, unsigned int n)
{
	r->n = n;
}

static inline void refcount_inc(refcount_t *r)
{
	r->n++;
}

static inline bool refcount_dec_and_test(refcount_t *r)
{
	return !--r->n;
}

#endif
