/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/math.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_MATH_H
#define SHIM_LINUX_MATH_H

#include <linux/types.h>

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define DIV_ROUND_UP_ULL(n, d)	DIV_ROUND_UP((u64)(n), d)
#define round_up(x, a)		((((x) - 1) | ((typeof(x))(a) - 1)) + 1)
#define round_down(x, a)	((x) & ~((typeof(x))(a) - 1))
#define roundup(x, y)		((((x) + (y) - 1) / (y)) * (y))
#define rounddown(x, y)		((x) - (x) % (y))
#define abs(x) ({ typeof(x) __abs = (x); __abs < 0 ? -__abs : __abs; })

#endif
