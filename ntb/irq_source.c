// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts, the lender's side: for each interrupt of a lent device it moves on a counter in the
 * borrower's memory, writes a hint, and rings the doorbell.
 *
 * Knows vectors as numbers; the device's own interrupts are the user's.
 */
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <dlend/compat.h>
#include <ntb/trace.h>
#include "link.h"

/*
 * Milliseconds to read all messages of a device.  A read takes some microseconds.  Other requests
 * about this device wait meanwhile.
 */
#define DLEND_MESSAGES_MS	1000

static bool dlend_irq_readback = true;
module_param_named(irq_readback, dlend_irq_readback, bool, 0644);
MODULE_PARM_DESC(irq_readback, "read through the window before counting an interrupt of a lent device, so that it does not overtake the device's data; off only where it was measured that it cannot");

/*
 * struct dlend_irq_source - where one lent device's interrupts go
 * @in: session in which the borrower has named the counters
 * @handle: names the borrower's sink in the ring of hints
 * @window: the sink's counters
 * @mapped: @window in the kernel's address space
 * @counters: @mapped; NULL once the borrower has taken them away: the loop tells that by
 *	dlend_window.revoked(), a window shows it by all ones. Under sources.lock
 * @count: what is in these: 0 when the lease begins, and only this node writes there
 */
struct dlend_irq_source {
	struct dlend_session_ref in;
	u32 handle;
	struct dlend_window window;
	__le32 __iomem *mapped;
	__le32 __iomem *counters;
	u32 count[DLEND_MAX_VECTORS];
};

/* The borrower's memory goes: nothing is written there any more when this returns. */
static void dlend_irq_source_revoke(struct dlend_window *w)
{
	struct dlend_irq_source *src = container_of(w, struct dlend_irq_source, window);
	struct dlend_link *link = src->in.link;

	spin_lock_irq(&link->sources.lock);
	src->counters = NULL;
	spin_unlock_irq(&link->sources.lock);
}

/* The window is opened first: if it is revoked before @counters is set, @counters stays NULL. */
static int dlend_irq_source_map(struct dlend_irq_source *src, u64 offset)
{
	struct dlend_link *link = src->in.link;
	int err;

	src->window.revoked = dlend_irq_source_revoke;
	err = dlend_window_open(link, &src->window, offset, DLEND_IRQ_COUNTERS_SIZE, false);
	if (err)
		return err;
	src->mapped = dlend_window_map(&src->window);
	if (!src->mapped) {
		dlend_window_close(&src->window);
		return -ENOMEM;
	}
	spin_lock_irq(&link->sources.lock);
	src->counters = src->window.phys ? src->mapped : NULL;
	spin_unlock_irq(&link->sources.lock);
	return 0;
}

/* Is anything there?  On the loop these are the sink's own pages, and may go at any moment. */
static int dlend_irq_source_look(struct dlend_irq_source *src)
{
	if (!dlend_session_live(&src->in))
		return -ENOTCONN;
	if (dlend_link_is_loop(src->in.link))
		return 0;
	return dlend_irqscan_gone(readl(src->mapped), 0) ? -ENXIO : 0;
}

/* Each read may take a completion time-out, if nothing answers: so the first bad one is the last. */
static int dlend_link_read_messages(const struct dlend_session_ref *in,
				    struct dlend_p_message __iomem *from, u32 count,
				    struct dlend_p_message *message)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(DLEND_MESSAGES_MS);

	for (u32 i = 0; i < count; i++) {
		u32 at = readl(&from[i].at);

		if (!dlend_session_live(in))
			return -ENOTCONN;
		if (at == ~0u)
			return -ENXIO;
		if (at >= DLEND_DIRECT_SIZE || at % sizeof(u32))
			return -ERANGE;
		if (time_after(jiffies, deadline))
			return -ETIME;
		message[i].at = cpu_to_le32(at);
		message[i].data = cpu_to_le32(readl(&from[i].data));
		cond_resched();
	}
	return 0;
}

int dlend_link_messages(struct dlend_link *link, u64 table, u32 count,
			struct dlend_p_message *message)
{
	struct dlend_session_ref in = dlend_session_hold(link);
	struct dlend_p_message __iomem *from;
	struct dlend_window w = {};
	int err;

	err = dlend_window_open(link, &w, table, DLEND_DIRECT_TABLE(count), false);
	if (err)
		goto drop_session;
	from = dlend_window_map(&w);
	err = from ? dlend_link_read_messages(&in, from, count, message) : -ENOMEM;
	dlend_window_close(&w);
	dlend_window_unmap(link, from);
drop_session:
	dlend_session_drop(&in);
	return err;
}
DLEND_EXPORT(dlend_link_messages);

struct dlend_irq_source *dlend_irq_source_open(struct dlend_link *link, u64 offset, u32 handle)
{
	struct dlend_irq_source *src;
	int err;

	if (handle > U16_MAX)
		return ERR_PTR(-ERANGE);
	src = kvzalloc_obj(*src);
	if (!src)
		return ERR_PTR(-ENOMEM);
	src->in = dlend_session_hold(link);
	src->handle = handle;
	err = dlend_irq_source_map(src, offset);
	if (err)
		goto free_source;
	err = dlend_irq_source_look(src);
	if (err)
		goto close_source;
	return src;

close_source:
	dlend_window_close(&src->window);
	dlend_window_unmap(link, src->mapped);
free_source:
	dlend_session_drop(&src->in);
	kvfree(src);
	return ERR_PTR(err);
}
DLEND_EXPORT(dlend_irq_source_open);

void dlend_irq_source_close(struct dlend_irq_source *src)
{
	dlend_window_close(&src->window);
	dlend_window_unmap(src->in.link, src->mapped);
	dlend_session_drop(&src->in);
	kvfree(src);
}
DLEND_EXPORT(dlend_irq_source_close);

static const char dlend_irq_no_answer[] = "reads through the window come back as all ones";
static const char dlend_irq_no_counters[] = "the counters come back as all ones";
static const char dlend_irq_slow_window[] = "reads through the window take too long";

/*
 * Under sources.lock.  The device wrote its data before it interrupted, but the processor's write
 * of the counter takes another way, and could overtake the data.  The answer to a read through the
 * window cannot overtake it.  The word that is read is one that only this node writes.
 * Return: why the data may not be there, or NULL
 */
static const char *dlend_irq_source_read_back(struct dlend_irq_source *src, u32 vector)
{
	u64 begin = local_clock();
	u32 value = readl(&src->counters[vector]);
	u64 end = local_clock();

	if (dlend_irqscan_slow(&src->in.link->sources.reads, end, end - begin))
		return dlend_irq_slow_window;
	return dlend_irqscan_gone(value, src->count[vector]) ? dlend_irq_no_answer : NULL;
}

/*
 * Under sources.lock.  Is nothing behind the window?  This word was written at the self-test of
 * this session and the peer does not change it: a number of bytes, which is never all ones.
 */
static bool dlend_irq_window_gone(struct dlend_link *link)
{
	return readl(&link->peer_ctrl->window) == ~0u;
}

/*
 * Under sources.lock.  A borrower may have taken away its counters before its device was stopped;
 * that must not end the session, which other guests use, too.  If the window answers, the counters
 * are read once more: if they answer now, the data has come before that answer.
 * Return: why the data may not be there, or NULL
 */
static const char *dlend_irq_source_check_data(struct dlend_irq_source *src, u32 vector)
{
	const char *why = dlend_irq_source_read_back(src, vector);

	if (why != dlend_irq_no_answer || dlend_irq_window_gone(src->in.link))
		return why;
	why = dlend_irq_source_read_back(src, vector);
	return why == dlend_irq_no_answer ? dlend_irq_no_counters : why;
}

/*
 * Under sources.lock.  Stop firing: each read would be a completion time-out with interrupts off,
 * once for each interrupt.
 */
static void dlend_irq_source_fail(struct dlend_irq_source *src, const char *why)
{
	struct dlend_link *link = src->in.link;

	if (why == dlend_irq_no_counters) {
		src->counters = NULL;
		dev_notice_ratelimited(&link->dev, "node %u has taken away where interrupts of a device are counted (handle %u): no more are sent there\n",
				       dlend_link_peer(link), src->handle);
		return;
	}
	link->sources.on = false;
	dlend_link_renew(link, why);
}

/* Under sources.lock. Counter, hint, index, doorbell: each is seen only after the one before. */
static void dlend_irq_source_count(struct dlend_irq_source *src, u32 vector)
{
	struct dlend_link *link = src->in.link;
	struct dlend_irq_sources *all = &link->sources;
	struct dlend_ctrl __iomem *peer = link->peer_ctrl;
	u32 index = all->prod & (DLEND_IRQ_RING_SLOTS - 1);
	u32 count = ++src->count[vector];

	writel(count, &src->counters[vector]);
	writel(src->handle << 16 | vector, &peer->irq[index]);
	wmb(); /* posted writes in order: counter and hint before the index */
	writel(++all->prod, &peer->irq_prod);
	wmb(); /* the index before the doorbell, which takes another way */
	link->ops->db_ring(link->hw, BIT_ULL(DLEND_DB_IRQ));
	atomic64_inc(&link->stat.irq_fired);
	trace_dlend_irq_fire(src->handle, vector, count);
}

void dlend_irq_fire(struct dlend_irq_source *src, u32 vector)
{
	struct dlend_irq_sources *all = &src->in.link->sources;
	unsigned long flags;
	const char *why;

	if (vector >= DLEND_MAX_VECTORS)
		return;
	spin_lock_irqsave(&all->lock, flags);
	if (!all->on || !src->counters || !dlend_session_live(&src->in))
		goto unlock;
	why = READ_ONCE(dlend_irq_readback) ? dlend_irq_source_check_data(src, vector) : NULL;
	if (!why)
		dlend_irq_source_count(src, vector);
	else
		dlend_irq_source_fail(src, why);
unlock:
	spin_unlock_irqrestore(&all->lock, flags);
}
DLEND_EXPORT(dlend_irq_fire);

void dlend_irq_sources_begin(struct dlend_link *link)
{
	spin_lock_irq(&link->sources.lock);
	link->sources.prod = 0;
	link->sources.reads = (struct dlend_readtime){};
	spin_unlock_irq(&link->sources.lock);
}

void dlend_irq_sources_enable(struct dlend_link *link, bool on)
{
	spin_lock_irq(&link->sources.lock);
	link->sources.on = on;
	spin_unlock_irq(&link->sources.lock);
}

void dlend_irq_sources_init(struct dlend_link *link)
{
	spin_lock_init(&link->sources.lock);
}
