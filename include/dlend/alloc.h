/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Typed allocation, (object) or (object, flags), for kernels before 7.0 that lack it.  It is not in
 * compat.h, and does not look at the version, so that pure logic can use it in user space too.
 */
#ifndef DLEND_ALLOC_H
#define DLEND_ALLOC_H

#include <linux/slab.h>

#ifndef kmalloc_obj
#define dlend_gfp_pick(first, gfp, ...)	gfp
#define dlend_gfp(...)		dlend_gfp_pick(, ##__VA_ARGS__, GFP_KERNEL)
#define dlend_obj(fn, obj, ...)	((typeof(obj) *)fn(sizeof(obj), dlend_gfp(__VA_ARGS__)))
#define kmalloc_obj(obj, ...)	dlend_obj(kmalloc, obj, ##__VA_ARGS__)
#define kzalloc_obj(obj, ...)	dlend_obj(kzalloc, obj, ##__VA_ARGS__)
#define kvzalloc_obj(obj, ...)	dlend_obj(kvzalloc, obj, ##__VA_ARGS__)
#endif

#endif
