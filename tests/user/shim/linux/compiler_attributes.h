/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/compiler_attributes.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_COMPILER_ATTRIBUTES_H
#define SHIM_LINUX_COMPILER_ATTRIBUTES_H

#include <linux/compiler.h>

#endif
