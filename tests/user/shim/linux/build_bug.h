/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/build_bug.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_BUILD_BUG_H
#define SHIM_LINUX_BUILD_BUG_H

#include <assert.h>

/* In the kernel's macro the message is optional. */
#undef static_assert
#define static_assert(expr, ...)	_Static_assert(expr, #expr)
#define BUILD_BUG_ON_ZERO(cond)		((int)(sizeof(struct { int : (-!!(cond)); })))
#define BUILD_BUG_ON(cond)		_Static_assert(!(cond), #cond)

#endif
