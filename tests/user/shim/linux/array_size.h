/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/array_size.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_ARRAY_SIZE_H
#define SHIM_LINUX_ARRAY_SIZE_H

#include <linux/kernel.h>

#endif
