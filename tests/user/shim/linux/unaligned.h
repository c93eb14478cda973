/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/unaligned.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_UNALIGNED_H
#define SHIM_LINUX_UNALIGNED_H

#include <string.h>
#include <linux/types.h>

#define __SHIM_UNALIGNED(bits)							\
static inline u##bits get_unaligned_le##bits(const void *p)			\
{										\
	u##bits v;								\
										\
	memcpy(&v, p, sizeof(v));						\
	return v;								\
}										\
static inline void put_unaligned_le##bits(u##bits v, void *p)			\
{										\
	memcpy(p, &v, sizeof(v));						\
}

__SHIM_UNALIGNED(16)
__SHIM_UNALIGNED(32)
__SHIM_UNALIGNED(64)

#define get_unaligned(p) ({ typeof(*(p)) __v; memcpy(&__v, p, sizeof(__v)); __v; })
#define put_unaligned(v, p) do { typeof(*(p)) __v = (v); memcpy(p, &__v, sizeof(__v)); } while (0)

#endif
