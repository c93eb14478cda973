/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/minmax.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_MINMAX_H
#define SHIM_LINUX_MINMAX_H

#include <linux/types.h>

#define __shim_cmp(x, op, y) ({			\
	typeof(x) __x = (x);			\
	typeof(y) __y = (y);			\
	__x op __y ? __x : __y; })
#define min(x, y)		__shim_cmp(x, <, y)
#define max(x, y)		__shim_cmp(x, >, y)
#define min_t(type, x, y)	min((type)(x), (type)(y))
#define max_t(type, x, y)	max((type)(x), (type)(y))
#define min3(x, y, z)		min(min(x, y), z)
#define max3(x, y, z)		max(max(x, y), z)
#define clamp(v, lo, hi)	min(max(v, lo), hi)
#define clamp_t(type, v, lo, hi) clamp((type)(v), (type)(lo), (type)(hi))
#define swap(a, b) do {				\
	typeof(a) __swap = (a);			\
	(a) = (b);				\
	(b) = __swap;				\
} while (0)

#endif
