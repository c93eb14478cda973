/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of the lender: which node got a device, and in which order a fence has taken it away.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dlend

#if !defined(DLEND_LENDER_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DLEND_LENDER_TRACE_H

#include <linux/tracepoint.h>
#include <dlend/names.h>

/*
 * A request about a lease, or the end of a lease without a request: @what is "grant", "return",
 * "reclaim" (the lender asks for the device), a step of a move, or the reason for the end; @status:
 * 0 or -errno.
 */
TRACE_EVENT(dlend_lease,
	TP_PROTO(const struct dlend_addr *addr, const char *what, u16 node, u32 epoch, int status),
	TP_ARGS(addr, what, node, epoch, status),
	TP_STRUCT__entry(
		__array(char, dev, DLEND_NAME_LEN)
		__string(what, what)
		__field(u16, node)
		__field(u32, epoch)
		__field(int, status)
	),
	TP_fast_assign(
		dlend_addr_name(addr, __entry->dev);
		__assign_str(what);
		__entry->node = node;
		__entry->epoch = epoch;
		__entry->status = status;
	),
	TP_printk("%s %s node=%u epoch=%u status=%d",
		  __entry->dev, __get_str(what), __entry->node, __entry->epoch,
		  __entry->status)
);

/*
 * The steps of the end of a lease, in this order: bus_master_off, dma_blocked (not if the rest of
 * the group stays lent), irq_down, bars_unmapped, reset, restored, slots_free.  Other resets have
 * "reset" and "restored", too; a reset of a slot or bus has only "restored".  "error_over" may come
 * between any of them: the PCI core has recovered the function from an error, or has given up.
 */
DECLARE_EVENT_CLASS(dlend_step,
	TP_PROTO(const struct dlend_addr *addr, const char *step, u32 epoch),
	TP_ARGS(addr, step, epoch),
	TP_STRUCT__entry(
		__array(char, dev, DLEND_NAME_LEN)
		__string(step, step)
		__field(u32, epoch)
	),
	TP_fast_assign(
		dlend_addr_name(addr, __entry->dev);
		__assign_str(step);
		__entry->epoch = epoch;
	),
	TP_printk("%s %s epoch=%u", __entry->dev, __get_str(step),
		  __entry->epoch)
);

DEFINE_EVENT(dlend_step, dlend_fence,
	TP_PROTO(const struct dlend_addr *addr, const char *step, u32 epoch),
	TP_ARGS(addr, step, epoch)
);

TRACE_EVENT(dlend_irq_setup,
	TP_PROTO(const struct dlend_addr *addr, u32 mode, u32 count, int status),
	TP_ARGS(addr, mode, count, status),
	TP_STRUCT__entry(
		__array(char, dev, DLEND_NAME_LEN)
		__field(u32, mode)
		__field(u32, count)
		__field(int, status)
	),
	TP_fast_assign(
		dlend_addr_name(addr, __entry->dev);
		__entry->mode = mode;
		__entry->count = count;
		__entry->status = status;
	),
	TP_printk("%s mode=%u count=%u status=%d", __entry->dev,
		  __entry->mode, __entry->count, __entry->status)
);

/*
 * Something is mapped (@map) or unmapped for a lease.  @kind "dma": guest memory, @at is its
 * guest-physical address; "bar": @at is the BAR's number.  @offset: in the borrower's ("dma") or
 * this node's ("bar") aperture.
 */
TRACE_EVENT(dlend_lend_window,
	TP_PROTO(const struct dlend_addr *addr, const char *kind, bool map, u64 at, u64 offset,
		 u64 size, int status),
	TP_ARGS(addr, kind, map, at, offset, size, status),
	TP_STRUCT__entry(
		__array(char, dev, DLEND_NAME_LEN)
		__string(kind, kind)
		__field(bool, map)
		__field(u64, at)
		__field(u64, offset)
		__field(u64, size)
		__field(int, status)
	),
	TP_fast_assign(
		dlend_addr_name(addr, __entry->dev);
		__assign_str(kind);
		__entry->map = map;
		__entry->at = at;
		__entry->offset = offset;
		__entry->size = size;
		__entry->status = status;
	),
	TP_printk("%s %s %s at=0x%llx offset=0x%llx size=0x%llx status=%d",
		  __entry->dev, __get_str(kind), __entry->map ? "map" : "unmap",
		  __entry->at, __entry->offset, __entry->size, __entry->status)
);

/*
 * A map of peer-to-peer begins or ends, @addr is the source.  @what: "map" and "unmap" are
 * requests; "source_gone": the source's lease is over; "revoked": the target's lease is over, or it
 * is being reset, or the link to it is down; "yield": RAM is mapped there now; "missed": another
 * function of the group had the same map, and when that ended, this one could not be mapped.
 */
TRACE_EVENT(dlend_lend_p2p,
	TP_PROTO(const struct dlend_addr *addr, const struct dlend_addr *target, const char *what,
		 u32 bar, u64 gpa, u64 size, int status),
	TP_ARGS(addr, target, what, bar, gpa, size, status),
	TP_STRUCT__entry(
		__array(char, dev, DLEND_NAME_LEN)
		__array(char, to, DLEND_NAME_LEN)
		__string(what, what)
		__field(u32, bar)
		__field(u64, gpa)
		__field(u64, size)
		__field(int, status)
	),
	TP_fast_assign(
		dlend_addr_name(addr, __entry->dev);
		dlend_addr_name(target, __entry->to);
		__assign_str(what);
		__entry->bar = bar;
		__entry->gpa = gpa;
		__entry->size = size;
		__entry->status = status;
	),
	TP_printk("%s %s target=%s bar=%u gpa=0x%llx size=0x%llx status=%d",
		  __entry->dev, __get_str(what), __entry->to, __entry->bar, __entry->gpa,
		  __entry->size, __entry->status)
);

/*
 * A grant of a BAR to devices of @node: "open"; "close": it was unmapped; "slot_free": @node has
 * confirmed that, and the offset is free.
 */
TRACE_EVENT(dlend_grant,
	TP_PROTO(const struct dlend_addr *addr, const char *what, u16 node, u32 bar, u64 offset,
		 u64 size),
	TP_ARGS(addr, what, node, bar, offset, size),
	TP_STRUCT__entry(
		__array(char, dev, DLEND_NAME_LEN)
		__string(what, what)
		__field(u16, node)
		__field(u32, bar)
		__field(u64, offset)
		__field(u64, size)
	),
	TP_fast_assign(
		dlend_addr_name(addr, __entry->dev);
		__assign_str(what);
		__entry->node = node;
		__entry->bar = bar;
		__entry->offset = offset;
		__entry->size = size;
	),
	TP_printk("%s %s node=%u bar=%u offset=0x%llx size=0x%llx",
		  __entry->dev, __get_str(what), __entry->node, __entry->bar, __entry->offset,
		  __entry->size)
);

/* Bus Master Enable is set or cleared in the device: @step is "on" or "off". */
DEFINE_EVENT_PRINT(dlend_step, dlend_bus_master,
	TP_PROTO(const struct dlend_addr *addr, const char *step, u32 epoch),
	TP_ARGS(addr, step, epoch),
	TP_printk("%s %s", __entry->dev, __get_str(step))
);

/*
 * A reset has ended.  @why: "bind", "request" or "return"; "emulate": no reset, only the PCI state
 * was restored.  @us: microseconds that it took; @status: 0 or -errno.
 */
TRACE_EVENT(dlend_reset,
	TP_PROTO(const struct dlend_addr *addr, const char *why, u64 us, int status),
	TP_ARGS(addr, why, us, status),
	TP_STRUCT__entry(
		__array(char, dev, DLEND_NAME_LEN)
		__string(why, why)
		__field(u64, us)
		__field(int, status)
	),
	TP_fast_assign(
		dlend_addr_name(addr, __entry->dev);
		__assign_str(why);
		__entry->us = us;
		__entry->status = status;
	),
	TP_printk("%s %s us=%llu status=%d", __entry->dev,
		  __get_str(why), __entry->us, __entry->status)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH lender
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
