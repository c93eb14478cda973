/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of apertures and of domains: slots, windows, mappings, faults.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dlend

#if !defined(DLEND_IOMMU_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DLEND_IOMMU_TRACE_H

#include <linux/tracepoint.h>

/* @result: an error, or the cookie of a quarantine. */
DECLARE_EVENT_CLASS(dlend_slot,
	TP_PROTO(u32 kind, u64 offset, u64 size, s64 result),
	TP_ARGS(kind, offset, size, result),
	TP_STRUCT__entry(
		__field(u32, kind)
		__field(u64, offset)
		__field(u64, size)
		__field(s64, result)
	),
	TP_fast_assign(
		__entry->kind = kind;
		__entry->offset = offset;
		__entry->size = size;
		__entry->result = result;
	),
	TP_printk("kind=%u offset=%llx size=%llx err=%lld", __entry->kind, __entry->offset,
		  __entry->size, __entry->result)
);

DEFINE_EVENT(dlend_slot, dlend_slot_alloc,
	TP_PROTO(u32 kind, u64 offset, u64 size, s64 result),
	TP_ARGS(kind, offset, size, result)
);
DEFINE_EVENT_PRINT(dlend_slot, dlend_slot_free,
	TP_PROTO(u32 kind, u64 offset, u64 size, s64 result),
	TP_ARGS(kind, offset, size, result),
	TP_printk("kind=%u offset=%llx size=%llx", __entry->kind, __entry->offset, __entry->size)
);
DEFINE_EVENT_PRINT(dlend_slot, dlend_slot_quarantine,
	TP_PROTO(u32 kind, u64 offset, u64 size, s64 result),
	TP_ARGS(kind, offset, size, result),
	TP_printk("kind=%u offset=%llx size=%llx cookie=%lld", __entry->kind, __entry->offset,
		  __entry->size, __entry->result)
);

/* Cookie 0: all of them. */
TRACE_EVENT(dlend_slot_release,
	TP_PROTO(u64 cookie, int err),
	TP_ARGS(cookie, err),
	TP_STRUCT__entry(
		__field(u64, cookie)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->cookie = cookie;
		__entry->err = err;
	),
	TP_printk("cookie=%llu err=%d", __entry->cookie, __entry->err)
);

TRACE_EVENT(dlend_window_map,
	TP_PROTO(u32 kind, u64 offset, u64 size, u32 prot, int err),
	TP_ARGS(kind, offset, size, prot, err),
	TP_STRUCT__entry(
		__field(u32, kind)
		__field(u64, offset)
		__field(u64, size)
		__field(u32, prot)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->kind = kind;
		__entry->offset = offset;
		__entry->size = size;
		__entry->prot = prot;
		__entry->err = err;
	),
	TP_printk("kind=%u offset=%llx size=%llx prot=%x err=%d", __entry->kind,
		  __entry->offset, __entry->size, __entry->prot, __entry->err)
);

TRACE_EVENT(dlend_window_unmap,
	TP_PROTO(u64 offset, u64 size, u64 done),
	TP_ARGS(offset, size, done),
	TP_STRUCT__entry(
		__field(u64, offset)
		__field(u64, size)
		__field(u64, done)
	),
	TP_fast_assign(
		__entry->offset = offset;
		__entry->size = size;
		__entry->done = done;
	),
	TP_printk("offset=%llx size=%llx unmapped=%llx", __entry->offset, __entry->size,
		  __entry->done)
);

TRACE_EVENT(dlend_domain_map,
	TP_PROTO(const char *dev, u64 iova, u64 phys, u64 size, u32 prot, int err),
	TP_ARGS(dev, iova, phys, size, prot, err),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u64, iova)
		__field(u64, phys)
		__field(u64, size)
		__field(u32, prot)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->iova = iova;
		__entry->phys = phys;
		__entry->size = size;
		__entry->prot = prot;
		__entry->err = err;
	),
	TP_printk("dev=%s iova=%llx phys=%llx size=%llx prot=%x err=%d", __get_str(dev),
		  __entry->iova, __entry->phys, __entry->size, __entry->prot, __entry->err)
);

TRACE_EVENT(dlend_domain_unmap,
	TP_PROTO(const char *dev, u64 iova, u64 size),
	TP_ARGS(dev, iova, size),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u64, iova)
		__field(u64, size)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->iova = iova;
		__entry->size = size;
	),
	TP_printk("dev=%s iova=%llx size=%llx", __get_str(dev), __entry->iova, __entry->size)
);

TRACE_EVENT(dlend_fault,
	TP_PROTO(const char *dev, u64 iova, int flags),
	TP_ARGS(dev, iova, flags),
	TP_STRUCT__entry(
		__string(dev, dev)
		__field(u64, iova)
		__field(int, flags)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->iova = iova;
		__entry->flags = flags;
	),
	TP_printk("dev=%s iova=%llx flags=%x", __get_str(dev), __entry->iova, __entry->flags)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH iommu
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
