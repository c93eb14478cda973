/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/math64.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_MATH64_H
#define SHIM_LINUX_MATH64_H

#include <linux/math.h>

#define div_u64(n, d)		((u64)(n) / (d))
#define div64_u64(n, d)		((u64)(n) / (d))
#define mul_u32_u32(a, b)	((u64)(a) * (b))

#endif
