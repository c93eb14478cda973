/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/overflow.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_OVERFLOW_H
#define SHIM_LINUX_OVERFLOW_H

#include <linux/types.h>

#define check_add_overflow(a, b, d)	__builtin_add_overflow(a, b, d)
#define check_sub_overflow(a, b, d)	__builtin_sub_overflow(a, b, d)
#define check_mul_overflow(a, b, d)	__builtin_mul_overflow(a, b, d)
#define struct_size(p, member, n)	(sizeof(*(p)) + sizeof(*(p)->member) * (n))

#endif
