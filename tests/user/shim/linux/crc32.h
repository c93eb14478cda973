/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/crc32.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_CRC32_H
#define SHIM_LINUX_CRC32_H

#include <linux/types.h>

static inline u32 crc32_le(u32 crc, const void *buf, size_t len)
{
	const u8 *p = buf;
	int bit;

	while (len--) {
		crc ^= *p++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

#endif
