/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for the IDA of <linux/idr.h>: ranges of one number. */
#ifndef SHIM_LINUX_IDR_H
#define SHIM_LINUX_IDR_H

#include <stdlib.h>
#include <linux/errno.h>
#include <linux/xarray.h>

struct ida {
	struct xarray xa;
};

static inline void ida_init(struct ida *ida)
{
	xa_init_flags(&ida->xa, 0);
}

static inline void ida_free(struct ida *ida, unsigned int id)
{
	xa_erase(&ida->xa, id);
}

/* As the kernel's: larger numbers are never free. */
static inline int ida_alloc_range(struct ida *ida, unsigned int min, unsigned int max, gfp_t gfp)
{
	if (min != max)
		abort();
	if ((int)min < 0 || xa_load(&ida->xa, min))
		return -ENOSPC;
	xa_store(&ida->xa, min, xa_mk_value(1), gfp);
	return min;
}

static inline void ida_destroy(struct ida *ida)
{
	for (int i = 0; ida->xa.bucket && i < SHIM_XA_BUCKETS; i++)
		while (ida->xa.bucket && ida->xa.bucket[i])
			xa_erase(&ida->xa, ida->xa.bucket[i]->index);
}

#endif
