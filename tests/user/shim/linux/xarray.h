/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/xarray.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_XARRAY_H
#define SHIM_LINUX_XARRAY_H

#include <stdlib.h>
#include <linux/gfp.h>
#include <linux/types.h>

#define XA_FLAGS_ACCOUNT	0
#define XA_CHUNK_SIZE		64
#define SHIM_XA_BUCKETS		1024

/* As large as the kernel's: the books count its memory. */
struct xa_node {
	char bytes[576];
};

struct shim_xa_entry {
	struct shim_xa_entry *next;
	unsigned long index;
	void *value;
};

/* Frees its memory when it is empty, so that a leak is seen. */
struct xarray {
	struct shim_xa_entry **bucket;
	size_t count;
};

static inline void xa_init_flags(struct xarray *xa, gfp_t flags)
{
	xa->bucket = NULL;
	xa->count = 0;
}

static inline struct shim_xa_entry **shim_xa_find(struct xarray *xa, unsigned long index)
{
	struct shim_xa_entry **link = &xa->bucket[index % SHIM_XA_BUCKETS];

	while (*link && (*link)->index != index)
		link = &(*link)->next;
	return link;
}

static inline void *xa_load(struct xarray *xa, unsigned long index)
{
	struct shim_xa_entry *e = xa->bucket ? *shim_xa_find(xa, index) : NULL;

	return e ? e->value : NULL;
}

static inline void *xa_store(struct xarray *xa, unsigned long index, void *value, gfp_t gfp)
{
	struct shim_xa_entry **link;

	if (!xa->bucket)
		xa->bucket = calloc(SHIM_XA_BUCKETS, sizeof(*xa->bucket));
	link = shim_xa_find(xa, index);
	if (!*link) {
		*link = calloc(1, sizeof(**link));
		(*link)->index = index;
		xa->count++;
	}
	(*link)->value = value;
	return NULL;
}

static inline void *xa_erase(struct xarray *xa, unsigned long index)
{
	struct shim_xa_entry **link, *e;
	void *value;

	if (!xa->bucket || !*(link = shim_xa_find(xa, index)))
		return NULL;
	e = *link;
	value = e->value;
	*link = e->next;
	free(e);
	if (!--xa->count) {
		free(xa->bucket);
		xa->bucket = NULL;
	}
	return value;
}

#define xa_mk_value(v)		((void *)(((unsigned long)(v) << 1) | 1))
#define xa_to_value(p)		((unsigned long)(p) >> 1)
#define xa_err(p)		((void)(p), 0)

#endif
