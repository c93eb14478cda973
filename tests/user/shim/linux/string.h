/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/string.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_STRING_H
#define SHIM_LINUX_STRING_H

#include <stddef.h>
#include <string.h>
#include <linux/types.h>

static inline void *memchr_inv(const void *p, int c, size_t n)
{
	const u8 *byte = p;

	for (; n--; byte++)
		if (*byte != (u8)c)
			return (void *)byte;
	return NULL;
}

static inline ssize_t shim_strscpy(char *to, const char *from, size_t size)
{
	size_t len = strnlen(from, size);

	if (!size)
		return -7;
	if (len == size)
		len--;
	memcpy(to, from, len);
	to[len] = 0;
	return from[len] ? -7 : (ssize_t)len;
}

/* Size from the array if it is left out, as in the kernel. */
#define __shim_strscpy2(to, from)		shim_strscpy(to, from, sizeof(to))
#define __shim_strscpy3(to, from, size)		shim_strscpy(to, from, size)
#define __shim_pick(a, b, c, name, ...)		name
#define strscpy(...) \
	__shim_pick(__VA_ARGS__, __shim_strscpy3, __shim_strscpy2)(__VA_ARGS__)
#define memzero_explicit(p, n)			memset(p, 0, n)
#define memset_startat(p, v, member) \
	memset((char *)(p) + offsetof(typeof(*(p)), member), v, \
	       sizeof(*(p)) - offsetof(typeof(*(p)), member))

#endif
