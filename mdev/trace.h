/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of the borrower: how users debug, and how scenarios prove what happened.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dlend

#if !defined(DLEND_MDEV_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DLEND_MDEV_TRACE_H

#include <linux/device.h>
#include <linux/tracepoint.h>
#include <dlend/types.h>

/* Guest memory pinned (or not: @err) by one call. */
TRACE_EVENT(dlend_pin,
	TP_PROTO(struct device *dev, u64 gpa, u32 npages, u32 prot, int err),
	TP_ARGS(dev, gpa, npages, prot, err),
	TP_STRUCT__entry(
		__string(dev, dev_name(dev))
		__field(u64, gpa)
		__field(u32, npages)
		__field(u32, prot)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->gpa = gpa;
		__entry->npages = npages;
		__entry->prot = prot;
		__entry->err = err;
	),
	TP_printk("%s gpa=%#llx pages=%u prot=%#x err=%d", __get_str(dev),
		  __entry->gpa, __entry->npages, __entry->prot, __entry->err)
);

/*
 * What happens to the DMA windows: "build" begins; "standing" or "failed" ends a build; "lost": a
 * dma_unmap took a part that may come back; "unplugged": it took a part that will not; "missing":
 * @bytes of what was lost are not back, so the build will be tried again; "handed-over" to another
 * device of the VM; "fenced"; "link-down".  @bytes: pinned now.
 */
TRACE_EVENT(dlend_window,
	TP_PROTO(struct device *dev, const char *what, u64 bytes, int err),
	TP_ARGS(dev, what, bytes, err),
	TP_STRUCT__entry(
		__string(dev, dev_name(dev))
		__string(what, what)
		__field(u64, bytes)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(dev);
		__assign_str(what);
		__entry->bytes = bytes;
		__entry->err = err;
	),
	TP_printk("%s %s bytes=%llu err=%d", __get_str(dev), __get_str(what),
		  __entry->bytes, __entry->err)
);

/* What was asked for under the lease @epoch, and the lender's answer. */
DECLARE_EVENT_CLASS(dlend_lease_step,
	TP_PROTO(struct device *dev, u32 epoch, int err),
	TP_ARGS(dev, epoch, err),
	TP_STRUCT__entry(
		__string(dev, dev_name(dev))
		__field(u32, epoch)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->epoch = epoch;
		__entry->err = err;
	),
	TP_printk("%s epoch=%u err=%d", __get_str(dev), __entry->epoch, __entry->err)
);

/* A device was asked for: granted with @epoch, or refused (@err). */
DEFINE_EVENT(dlend_lease_step, dlend_borrow,
	TP_PROTO(struct device *dev, u32 epoch, int err),
	TP_ARGS(dev, epoch, err)
);

DEFINE_EVENT(dlend_lease_step, dlend_vdev_reset,
	TP_PROTO(struct device *dev, u32 epoch, int err),
	TP_ARGS(dev, epoch, err)
);

/* The lender was asked for the physical Bus Master Enable: @on only while the windows stand. */
TRACE_EVENT(dlend_vdev_bus_master,
	TP_PROTO(struct device *dev, u32 epoch, bool on, int err),
	TP_ARGS(dev, epoch, on, err),
	TP_STRUCT__entry(
		__string(dev, dev_name(dev))
		__field(u32, epoch)
		__field(bool, on)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->epoch = epoch;
		__entry->on = on;
		__entry->err = err;
	),
	TP_printk("%s epoch=%u %s err=%d", __get_str(dev), __entry->epoch,
		  __entry->on ? "on" : "off", __entry->err)
);

/* @mode: enum dlend_irq_mode */
TRACE_EVENT(dlend_vdev_irq_setup,
	TP_PROTO(struct device *dev, u32 epoch, u32 mode, u32 count, int err),
	TP_ARGS(dev, epoch, mode, count, err),
	TP_STRUCT__entry(
		__string(dev, dev_name(dev))
		__field(u32, epoch)
		__field(u32, mode)
		__field(u32, count)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->epoch = epoch;
		__entry->mode = mode;
		__entry->count = count;
		__entry->err = err;
	),
	TP_printk("%s epoch=%u mode=%u count=%u err=%d", __get_str(dev), __entry->epoch,
		  __entry->mode, __entry->count, __entry->err)
);

/* @gate: 0 shut, 1 open, 2 dead (reads 0xff), 3 shut but for trapped reads */
TRACE_EVENT(dlend_gate,
	TP_PROTO(struct device *dev, u32 gate),
	TP_ARGS(dev, gate),
	TP_STRUCT__entry(
		__string(dev, dev_name(dev))
		__field(u32, gate)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->gate = gate;
	),
	TP_printk("%s %s", __get_str(dev), __print_symbolic(__entry->gate, { 0, "shut" },
							     { 1, "open" }, { 2, "dead" },
							     { 3, "read" }))
);

TRACE_EVENT(dlend_bar_zap,
	TP_PROTO(struct device *dev, u32 gate, bool mse),
	TP_ARGS(dev, gate, mse),
	TP_STRUCT__entry(
		__string(dev, dev_name(dev))
		__field(u32, gate)
		__field(bool, mse)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->gate = gate;
		__entry->mse = mse;
	),
	TP_printk("%s gate=%u mse=%u", __get_str(dev), __entry->gate, __entry->mse)
);

#endif /* DLEND_MDEV_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH mdev
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
