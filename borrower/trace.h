/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of the borrower, for debugging and for scenarios.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dlend

#if !defined(DLEND_BORROWER_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DLEND_BORROWER_TRACE_H

#include <linux/tracepoint.h>
#include <dlend/types.h>

/*
 * A try to map a BAR of the device @t for the device @s, or its unmapping, has ended. @gpa, @size:
 * where the BAR's user has placed the BAR, and bytes of it. @route: 0 none, 1 both devices are in
 * one lender, 2 over the link between the two lenders, 3 through this node (enum dlend_p2p_route).
 * There is a "map" event for each route that is tried. What @err means depends on @what:
 *
 * - "map": 0: @s reaches the BAR. Else why not by this route: the error of the lender that has
 *   refused or not answered, or this node's own (-ENOBUFS, -ENOSPC: there is no room).
 * - "unmap": @s shall not reach the BAR any more. 0: @s does not. Else what the lender of @s has
 *   answered.
 * - "lost": the same, after the lender of @s has unmapped the BAR by itself (P2P_LOST).
 */
TRACE_EVENT(dlend_p2p,
	TP_PROTO(const struct dlend_addr *s, const struct dlend_addr *t, const char *what, u32 bar,
		 u32 route, u64 gpa, u64 size, int err),
	TP_ARGS(s, t, what, bar, route, gpa, size, err),
	TP_STRUCT__entry(
		__field(u16, s_node)
		__field(u16, s_bdf)
		__field(u16, t_node)
		__field(u16, t_bdf)
		__string(what, what)
		__field(u32, bar)
		__field(u32, route)
		__field(u64, gpa)
		__field(u64, size)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->s_node = s->lender;
		__entry->s_bdf = s->bdf;
		__entry->t_node = t->lender;
		__entry->t_bdf = t->bdf;
		__assign_str(what);
		__entry->bar = bar;
		__entry->route = route;
		__entry->gpa = gpa;
		__entry->size = size;
		__entry->err = err;
	),
	TP_printk("%s source=%u:%04x target=%u:%04x bar=%u route=%u gpa=%#llx size=%#llx err=%d",
		  __get_str(what), __entry->s_node, __entry->s_bdf, __entry->t_node,
		  __entry->t_bdf, __entry->bar, __entry->route, __entry->gpa, __entry->size,
		  __entry->err)
);

/*
 * This node has ended a lease. @err: 0: the lender has said that it has the device back.
 * -ENOTCONN: the link is down, so the lender takes it back by itself. Otherwise the lender has
 * refused, or not answered (-ETIMEDOUT, after several tries): the lease is over here all the same,
 * and its slots stay in quarantine until the next session.
 */
TRACE_EVENT(dlend_return,
	TP_PROTO(u16 lender, u16 bdf, u32 epoch, int err),
	TP_ARGS(lender, bdf, epoch, err),
	TP_STRUCT__entry(
		__field(u16, lender)
		__field(u16, bdf)
		__field(u32, epoch)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->lender = lender;
		__entry->bdf = bdf;
		__entry->epoch = epoch;
		__entry->err = err;
	),
	TP_printk("node=%u bdf=%02x:%02x.%x epoch=%u err=%d", __entry->lender,
		  __entry->bdf >> 8, (__entry->bdf >> 3) & 0x1f, __entry->bdf & 7,
		  __entry->epoch, __entry->err)
);

#endif /* DLEND_BORROWER_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH borrower
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
