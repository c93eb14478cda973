/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/align.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_ALIGN_H
#define SHIM_LINUX_ALIGN_H

#include <linux/types.h>

#define ALIGN(x, a)		(((x) + ((typeof(x))(a) - 1)) & ~((typeof(x))(a) - 1))
#define ALIGN_DOWN(x, a)	((x) & ~((typeof(x))(a) - 1))
#define IS_ALIGNED(x, a)	(((x) & ((typeof(x))(a) - 1)) == 0)
#define PTR_ALIGN(p, a)		((typeof(p))ALIGN((unsigned long)(p), (a)))

#endif
