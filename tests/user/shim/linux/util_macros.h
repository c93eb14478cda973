/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/util_macros.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_UTIL_MACROS_H
#define SHIM_LINUX_UTIL_MACROS_H

#include <linux/kernel.h>

#endif
