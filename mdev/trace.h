/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of mediated devices, for people who debug, and for test scenarios that check what has
 * happened.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dlend

#if !defined(DLEND_MDEV_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DLEND_MDEV_TRACE_H

#include <linux/device.h>
#include <linux/tracepoint.h>
#include <dlend/types.h>

/*
 * A chunk was pinned, or could not be (@err).  @gpa: guest-physical address; @prot: DLEND_PROT_*;
 * @dev: mediated device, here and below
 */
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

/* @what: a word of the lists below; @value: bytes, or an epoch; @err: 0 or -errno */
DECLARE_EVENT_CLASS(dlend_vdev_event,
	TP_PROTO(struct device *dev, const char *what, u64 value, int err),
	TP_ARGS(dev, what, value, err),
	TP_STRUCT__entry(
		__string(dev, dev_name(dev))
		__string(what, what)
		__field(u64, value)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(dev);
		__assign_str(what);
		__entry->value = value;
		__entry->err = err;
	),
	TP_printk("%s %s bytes=%llu err=%d", __get_str(dev), __get_str(what),
		  __entry->value, __entry->err)
);

/*
 * What happens to the DMA mappings of a VM on a link:
 *   "build"		a build begins
 *   "standing"		a build ends, and the mappings are complete
 *   "failed"		a build ends with @err
 *   "lost"		a dma_unmap has taken memory that may come back, or a close has taken all
 *   "unplugged"	a dma_unmap has taken memory that will not come back
 *   "missing"		@value bytes of what was lost are not back: the build will be tried again
 *   "handed-over"	@value bytes of pins went to another device of the VM, or did not (@err)
 *   "fenced"		dlend_memory_fence() has unmapped all in the aperture
 *   "link-down"	dlend_memory_link_down() has unmapped all in the aperture
 * In all but two, @value is the number of bytes that are pinned now.  In the last two, @dev is the
 * link's.
 */
DEFINE_EVENT(dlend_vdev_event, dlend_window,
	TP_PROTO(struct device *dev, const char *what, u64 value, int err),
	TP_ARGS(dev, what, value, err)
);

/*
 * What the lender was asked for under the lease with the epoch @value, and what it replied:
 * "borrow", "reset", "interrupts", "bus_master on" or "bus_master off".
 */
DEFINE_EVENT_PRINT(dlend_vdev_event, dlend_vdev_step,
	TP_PROTO(struct device *dev, const char *what, u64 value, int err),
	TP_ARGS(dev, what, value, err),
	TP_printk("%s %s epoch=%llu err=%d", __get_str(dev), __get_str(what),
		  __entry->value, __entry->err)
);

/* @gate: enum dlend_gate: what a guest's access to a BAR meets */
DECLARE_EVENT_CLASS(dlend_vdev_bars,
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

DEFINE_EVENT(dlend_vdev_bars, dlend_gate,
	TP_PROTO(struct device *dev, u32 gate),
	TP_ARGS(dev, gate)
);

/* All mappings of the BARs were removed. */
DEFINE_EVENT(dlend_vdev_bars, dlend_bar_zap,
	TP_PROTO(struct device *dev, u32 gate),
	TP_ARGS(dev, gate)
);

#endif /* DLEND_MDEV_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH mdev
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
