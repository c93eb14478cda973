/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <asm/byteorder.h>: only what the pure sources and their suites use. */
#ifndef SHIM_ASM_BYTEORDER_H
#define SHIM_ASM_BYTEORDER_H

#include <linux/types.h>

/* Little endian machines only, as dlend is. */
#define cpu_to_le16(x)		((__le16)(u16)(x))
#define cpu_to_le32(x)		((__le32)(u32)(x))
#define cpu_to_le64(x)		((__le64)(u64)(x))
#define le16_to_cpu(x)		((u16)(__le16)(x))
#define le32_to_cpu(x)		((u32)(__le32)(x))
#define le64_to_cpu(x)		((u64)(__le64)(x))
#define cpu_to_be16(x)		((__be16)__builtin_bswap16(x))
#define cpu_to_be32(x)		((__be32)__builtin_bswap32(x))
#define be16_to_cpu(x)		__builtin_bswap16((u16)(x))
#define be32_to_cpu(x)		__builtin_bswap32((u32)(x))
#define le16_to_cpup(p)		le16_to_cpu(*(p))
#define le32_to_cpup(p)		le32_to_cpu(*(p))
#define le64_to_cpup(p)		le64_to_cpu(*(p))

static inline void le16_add_cpu(__le16 *p, u16 v)
{
	*p = cpu_to_le16(le16_to_cpu(*p) + v);
}

static inline void le32_add_cpu(__le32 *p, u32 v)
{
	*p = cpu_to_le32(le32_to_cpu(*p) + v);
}

#endif
