/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/types.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_TYPES_H
#define SHIM_LINUX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include_next <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef u64 dma_addr_t;
typedef u64 phys_addr_t;
typedef unsigned int gfp_t;

#ifndef __packed
#define __packed		__attribute__((packed))
#endif
#ifndef __aligned
#define __aligned(n)		__attribute__((aligned(n)))
#endif

struct list_head {
	struct list_head *next, *prev;
};

#endif
