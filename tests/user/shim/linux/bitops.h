/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/bitops.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_BITOPS_H
#define SHIM_LINUX_BITOPS_H

#include <linux/bits.h>

#define DECLARE_BITMAP(name, n)	unsigned long name[BITS_TO_LONGS(n)]

static inline int fls(unsigned int x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

#define fls_long(x)		fls64(x)
/* glibc declares an ffs() of the same meaning. */
#define ffs(x)			__builtin_ffs(x)

static inline unsigned long __ffs(unsigned long x)
{
	return __builtin_ctzl(x);
}

static inline unsigned long __ffs64(u64 x)
{
	return __builtin_ctzll(x);
}

static inline unsigned long __fls(unsigned long x)
{
	return 63 - __builtin_clzl(x);
}

static inline unsigned int hweight32(u32 x)
{
	return __builtin_popcount(x);
}

static inline unsigned int hweight64(u64 x)
{
	return __builtin_popcountll(x);
}

#define hweight8(x)		hweight32((u8)(x))
#define hweight16(x)		hweight32((u16)(x))
#define hweight_long(x)		hweight64(x)

static inline void __set_bit(unsigned int nr, unsigned long *map)
{
	map[BIT_WORD(nr)] |= BIT_MASK(nr);
}

static inline void __clear_bit(unsigned int nr, unsigned long *map)
{
	map[BIT_WORD(nr)] &= ~BIT_MASK(nr);
}

static inline bool test_bit(unsigned int nr, const unsigned long *map)
{
	return map[BIT_WORD(nr)] & BIT_MASK(nr);
}

static inline bool __test_and_set_bit(unsigned int nr, unsigned long *map)
{
	bool old = test_bit(nr, map);

	__set_bit(nr, map);
	return old;
}

static inline bool __test_and_clear_bit(unsigned int nr, unsigned long *map)
{
	bool old = test_bit(nr, map);

	__clear_bit(nr, map);
	return old;
}

#define set_bit(nr, map)	__set_bit(nr, map)
#define clear_bit(nr, map)	__clear_bit(nr, map)

#endif
