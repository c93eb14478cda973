/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/mm.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_MM_H
#define SHIM_LINUX_MM_H

#include <linux/slab.h>

#endif
