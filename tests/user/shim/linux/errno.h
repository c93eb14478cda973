/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/errno.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_ERRNO_H
#define SHIM_LINUX_ERRNO_H

#include <asm/errno.h>

#define ENOTSUPP	524

#endif
