/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/mm.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_MM_H
#define SHIM_LINUX_MM_H

#include <linux/align.h>
#include <linux/slab.h>

#define PAGE_SHIFT		12
#define PAGE_SIZE		4096ul
#define PAGE_MASK		(~(PAGE_SIZE - 1))
#define PAGE_ALIGN(x)		ALIGN(x, PAGE_SIZE)
#define PAGE_ALIGNED(x)		IS_ALIGNED((unsigned long)(x), PAGE_SIZE)

#endif
