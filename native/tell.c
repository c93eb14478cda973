// SPDX-License-Identifier: GPL-2.0
/*
 * Messages to the lender about a function's IO addresses: see tell.h.
 *
 * Must not know domains, segments, nor who maps what in them.
 */
#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <dlend/link.h>
#include <dlend/proto.h>
#include "domain.h"
#include "fn.h"
#include "tell.h"

static void dlend_native_tell_add(struct dlend_p_dma *p, u64 first, u64 size, u64 offset)
{
	u32 n = le32_to_cpu(p->count);

	if (!size)
		return;
	p->entry[n].gpa = cpu_to_le64(first);
	p->entry[n].size = cpu_to_le64(size);
	p->entry[n].offset = cpu_to_le64(offset);
	p->entry[n].prot = cpu_to_le32(DLEND_PROT_READ | DLEND_PROT_WRITE);
	p->count = cpu_to_le32(n + 1);
}

static struct dlend_p_dma *dlend_native_tell_begin(struct dlend_native_fn *fn,
						   struct dlend_msg *req, enum dlend_msg_type type)
{
	struct dlend_lease *lease = dlend_native_lease(fn);

	return dlend_msg_init(req, type, &lease->addr, lease->epoch, sizeof(struct dlend_p_dma));
}

static int dlend_native_tell(struct dlend_native_fn *fn, struct dlend_msg *req)
{
	atomic64_inc(&fn->claim.messages);
	return dlend_link_call_in(&dlend_native_lease(fn)->ref, req, NULL, 0);
}

int dlend_native_tell_map(struct dlend_native_fn *fn, u64 first, u64 size, u64 offset)
{
	u64 end = first + size, hole = clamp(DLEND_NATIVE_MSI_FIRST, first, end);
	u64 hole_end = clamp(DLEND_NATIVE_MSI_FIRST + DLEND_NATIVE_MSI_SIZE, first, end);
	struct dlend_p_dma *p;
	struct dlend_msg req;

	p = dlend_native_tell_begin(fn, &req, DLEND_MSG_DMA_MAP);
	if (hole == hole_end) {
		dlend_native_tell_add(p, first, size, offset);
	} else {
		dlend_native_tell_add(p, first, hole - first, offset);
		dlend_native_tell_add(p, hole_end, end - hole_end, offset + (hole_end - first));
	}
	return dlend_native_tell(fn, &req);
}

int dlend_native_tell_unmap(struct dlend_native_fn *fn, u64 first, u64 size)
{
	struct dlend_msg req;
	int ret;

	dlend_native_tell_add(dlend_native_tell_begin(fn, &req, DLEND_MSG_DMA_UNMAP), first, size,
			      0);
	ret = dlend_native_tell(fn, &req);
	return dlend_native_tell_over(ret) ? 0 : ret;
}
