/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of dlend_core: sessions, messages, interrupts.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dlend

#if !defined(DLEND_NTB_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DLEND_NTB_TRACE_H

#include <linux/tracepoint.h>
#include <dlend/proto.h>

TRACE_EVENT(dlend_link_state,
	TP_PROTO(const char *link, const char *state, u64 session),
	TP_ARGS(link, state, session),
	TP_STRUCT__entry(
		__string(link, link)
		__string(state, state)
		__field(u64, session)
	),
	TP_fast_assign(
		__assign_str(link);
		__assign_str(state);
		__entry->session = session;
	),
	TP_printk("link=%s state=%s session=%llx", __get_str(link), __get_str(state),
		  __entry->session)
);

/* @err: result of sending, or of the check of a message that has come */
DECLARE_EVENT_CLASS(dlend_msg,
	TP_PROTO(const char *link, const struct dlend_msg *msg, int err),
	TP_ARGS(link, msg, err),
	TP_STRUCT__entry(
		__string(link, link)
		__field(u16, type)
		__field(u16, flags)
		__field(u32, id)
		__field(u32, epoch)
		__field(u16, lender)
		__field(u16, bdf)
		__field(s32, status)
		__field(int, err)
	),
	TP_fast_assign(
		__assign_str(link);
		__entry->type = le16_to_cpu(msg->type);
		__entry->flags = le16_to_cpu(msg->flags);
		__entry->id = le32_to_cpu(msg->id);
		__entry->epoch = le32_to_cpu(msg->epoch);
		__entry->lender = le16_to_cpu(msg->lender);
		__entry->bdf = le16_to_cpu(msg->bdf);
		__entry->status = (s32)le32_to_cpu(msg->status);
		__entry->err = err;
	),
	TP_printk("link=%s type=%u flags=%x id=%u epoch=%u device=%05x:%02x:%02x.%u status=%d err=%d",
		  __get_str(link), __entry->type, __entry->flags, __entry->id, __entry->epoch,
		  DLEND_DOMAIN_BASE + __entry->lender, __entry->bdf >> 8,
		  (__entry->bdf >> 3) & 0x1f, __entry->bdf & 7, __entry->status, __entry->err)
);
DEFINE_EVENT(dlend_msg, dlend_msg_send,
	TP_PROTO(const char *link, const struct dlend_msg *msg, int err),
	TP_ARGS(link, msg, err)
);
DEFINE_EVENT(dlend_msg, dlend_msg_receive,
	TP_PROTO(const char *link, const struct dlend_msg *msg, int err),
	TP_ARGS(link, msg, err)
);

/* @count: how many new interrupts a borrower found in a counter. */
TRACE_EVENT(dlend_irq_deliver,
	TP_PROTO(u32 handle, u32 vector, u32 count),
	TP_ARGS(handle, vector, count),
	TP_STRUCT__entry(
		__field(u32, handle)
		__field(u32, vector)
		__field(u32, count)
	),
	TP_fast_assign(
		__entry->handle = handle;
		__entry->vector = vector;
		__entry->count = count;
	),
	TP_printk("handle=%u vector=%u new=%u", __entry->handle, __entry->vector,
		  __entry->count)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH ntb
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
