/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/kernel.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_KERNEL_H
#define SHIM_LINUX_KERNEL_H

#include <stdio.h>
#include <stdlib.h>
#include <limits.h>
#include <linux/align.h>
#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/container_of.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <asm/byteorder.h>

#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define lower_32_bits(n)	((u32)(n))
#define upper_32_bits(n)	((u32)((u64)(n) >> 32))
#define sizeof_field(t, m)	sizeof(((t *)0)->m)
#define offsetofend(t, m)	(offsetof(t, m) + sizeof_field(t, m))
#define scnprintf		snprintf
#define might_sleep()		do { } while (0)

#endif
