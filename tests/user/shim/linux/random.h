/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/random.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_RANDOM_H
#define SHIM_LINUX_RANDOM_H

#include <linux/prandom.h>

#endif
