/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/bitmap.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_BITMAP_H
#define SHIM_LINUX_BITMAP_H

#include <string.h>
#include <linux/bitops.h>

static inline void bitmap_zero(unsigned long *map, unsigned int n)
{
	memset(map, 0, BITS_TO_LONGS(n) * sizeof(long));
}

static inline void bitmap_set(unsigned long *map, unsigned int from, unsigned int n)
{
	while (n--)
		__set_bit(from++, map);
}

static inline void bitmap_clear(unsigned long *map, unsigned int from, unsigned int n)
{
	while (n--)
		__clear_bit(from++, map);
}

static inline unsigned int find_next_bit(const unsigned long *map, unsigned int n,
					 unsigned int from)
{
	while (from < n && !test_bit(from, map))
		from++;
	return from < n ? from : n;
}

static inline unsigned int find_next_zero_bit(const unsigned long *map, unsigned int n,
					      unsigned int from)
{
	while (from < n && test_bit(from, map))
		from++;
	return from < n ? from : n;
}

#define find_first_bit(map, n)		find_next_bit(map, n, 0)
#define find_first_zero_bit(map, n)	find_next_zero_bit(map, n, 0)
#define for_each_set_bit(bit, map, n)						\
	for ((bit) = find_first_bit(map, n); (bit) < (n);			\
	     (bit) = find_next_bit(map, n, (bit) + 1))

#endif
