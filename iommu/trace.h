/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of apertures and of domains: slots, windows, mappings.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dlend

#if !defined(DLEND_IOMMU_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DLEND_IOMMU_TRACE_H

#include <linux/tracepoint.h>
#include <dlend/aperture.h>

/*
 * Slots of an aperture, and mappings in them (dlend_window_*: the peer's window leads there).
 * @result: an error; of a slot that is freed, the cookie of its quarantine; of an unmap, bytes
 */
DECLARE_EVENT_CLASS(dlend_slot,
	TP_PROTO(u32 kind, u64 offset, u64 size, u32 prot, s64 result),
	TP_ARGS(kind, offset, size, prot, result),
	TP_STRUCT__entry(
		__field(u32, kind)
		__field(u64, offset)
		__field(u64, size)
		__field(u32, prot)
		__field(s64, result)
	),
	TP_fast_assign(
		__entry->kind = kind;
		__entry->offset = offset;
		__entry->size = size;
		__entry->prot = prot;
		__entry->result = result;
	),
	TP_printk("kind=%u offset=%llx size=%llx err=%lld", __entry->kind, __entry->offset,
		  __entry->size, __entry->result)
);

DEFINE_EVENT(dlend_slot, dlend_slot_alloc,
	TP_PROTO(u32 kind, u64 offset, u64 size, u32 prot, s64 result),
	TP_ARGS(kind, offset, size, prot, result)
);
DEFINE_EVENT_PRINT(dlend_slot, dlend_slot_free,
	TP_PROTO(u32 kind, u64 offset, u64 size, u32 prot, s64 result),
	TP_ARGS(kind, offset, size, prot, result),
	TP_printk("kind=%u offset=%llx size=%llx cookie=%lld", __entry->kind, __entry->offset,
		  __entry->size, __entry->result)
);
DEFINE_EVENT_PRINT(dlend_slot, dlend_window_map,
	TP_PROTO(u32 kind, u64 offset, u64 size, u32 prot, s64 result),
	TP_ARGS(kind, offset, size, prot, result),
	TP_printk("kind=%u offset=%llx size=%llx prot=%x err=%lld", __entry->kind,
		  __entry->offset, __entry->size, __entry->prot, __entry->result)
);
DEFINE_EVENT_PRINT(dlend_slot, dlend_window_unmap,
	TP_PROTO(u32 kind, u64 offset, u64 size, u32 prot, s64 result),
	TP_ARGS(kind, offset, size, prot, result),
	TP_printk("kind=%u offset=%llx size=%llx unmapped=%llx", __entry->kind, __entry->offset,
		  __entry->size, __entry->result)
);

/* A range of a lent group's domain.  @phys: of a mirror, the offset in the aperture */
DECLARE_EVENT_CLASS(dlend_domain,
	TP_PROTO(const char *dev, const struct dlend_dma_range *r, int err),
	TP_ARGS(dev, r, err),
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
		__entry->iova = r->iova;
		__entry->phys = r->ap ? r->offset : r->phys;
		__entry->size = r->size;
		__entry->prot = r->prot;
		__entry->err = err;
	),
	TP_printk("dev=%s iova=%llx phys=%llx size=%llx prot=%x err=%d", __get_str(dev),
		  __entry->iova, __entry->phys, __entry->size, __entry->prot, __entry->err)
);
DEFINE_EVENT(dlend_domain, dlend_domain_map,
	TP_PROTO(const char *dev, const struct dlend_dma_range *r, int err),
	TP_ARGS(dev, r, err)
);
DEFINE_EVENT(dlend_domain, dlend_domain_unmap,
	TP_PROTO(const char *dev, const struct dlend_dma_range *r, int err),
	TP_ARGS(dev, r, err)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH iommu
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
