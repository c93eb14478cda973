/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/vmalloc.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_VMALLOC_H
#define SHIM_LINUX_VMALLOC_H

#include <linux/slab.h>

#endif
