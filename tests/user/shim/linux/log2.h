/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/log2.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_LOG2_H
#define SHIM_LINUX_LOG2_H

#include <linux/bitops.h>

#define ilog2(n)		(fls64(n) - 1)
#define is_power_of_2(n)	((n) && !((n) & ((n) - 1)))
#define order_base_2(n)		((n) > 1 ? fls64((n) - 1) : 0)

static inline unsigned long roundup_pow_of_two(unsigned long n)
{
	return 1UL << order_base_2(n);
}

static inline unsigned long rounddown_pow_of_two(unsigned long n)
{
	return 1UL << ilog2(n);
}

#endif
