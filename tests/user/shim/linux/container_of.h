/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/container_of.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_CONTAINER_OF_H
#define SHIM_LINUX_CONTAINER_OF_H

#include <stddef.h>

#define container_of(ptr, type, member) ({				\
	const typeof(((type *)0)->member) *__mptr = (ptr);		\
	(type *)((char *)__mptr - offsetof(type, member)); })

#endif
