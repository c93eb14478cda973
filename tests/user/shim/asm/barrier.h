/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <asm/barrier.h>: only what the pure sources and their suites use. */
#ifndef SHIM_ASM_BARRIER_H
#define SHIM_ASM_BARRIER_H

#include <linux/compiler.h>

#endif
