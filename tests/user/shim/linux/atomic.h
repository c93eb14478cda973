/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/atomic.h>: a type; the pure sources count nothing with it. */
#ifndef SHIM_LINUX_ATOMIC_H
#define SHIM_LINUX_ATOMIC_H

#include <linux/types.h>

typedef struct {
	s64 counter;
} atomic64_t;

#endif
