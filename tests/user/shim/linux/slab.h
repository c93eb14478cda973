/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/slab.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_SLAB_H
#define SHIM_LINUX_SLAB_H

#include <stdlib.h>
#include <linux/gfp.h>
#include <linux/overflow.h>

#define kmalloc(n, gfp)			malloc(n)
#define kzalloc(n, gfp)			calloc(1, n)
#define kcalloc(n, size, gfp)		calloc(n, size)
#define kmalloc_array(n, size, gfp)	calloc(n, size)
#define krealloc(p, n, gfp)		realloc((void *)(p), n)
#define kmemdup(p, n, gfp)		memcpy(malloc(n), p, n)
#define kfree(p)			free((void *)(p))
#define kvmalloc			kmalloc
#define kvzalloc			kzalloc
#define kvcalloc			kcalloc
#define kvmalloc_array			kmalloc_array
#define kvrealloc			krealloc
#define kvfree				kfree
#define vmalloc(n)			malloc(n)
#define vzalloc(n)			calloc(1, n)
#define vfree				kfree

#endif
