// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts, on the lender.  For each interrupt of a lent device this file increments a counter in
 * the borrower's memory, writes a hint, and rings the doorbell: it *sends* the interrupt.  Before
 * that, it reads through the window, so that the device's data has arrived.  An interrupt handler
 * does all that itself, as long as its link's share of time for such reads allows; otherwise the
 * interrupt is *late*: it is noted, and a thread reads and sends it.
 *
 * Vectors are numbers here; lender/irq.c has the device's own interrupts.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <dlend/compat.h>
#include "link.h"

/*
 * Milliseconds to read all MSI messages (address and data) of a device; each read takes some
 * microseconds.  Other requests about this device wait until all are read.
 */
#define DLEND_MESSAGES_MS	2000

static bool dlend_irq_readback = true;
module_param_named(irq_readback, dlend_irq_readback, bool, 0644);
MODULE_PARM_DESC(irq_readback, "read through the window before counting an interrupt of a lent device, so that it does not overtake the device's data; off only where it was measured that it cannot");

/*
 * struct dlend_irq_source - where one lent device's interrupts go
 * @in: session in which the borrower has named the counters, with a reference on the link
 * @handle: number of the borrower's sink, for hints
 * @window: the sink's counters
 * @mapped: @window in the kernel's address space
 * @counters: @mapped; NULL once the borrower has unmapped the counters: on the loop
 *	dlend_window.revoked() is called then, behind an NTB they read as all ones. Under
 *	sources.lock
 * @count: values of the counters: 0 when the lease begins, and only this node writes them. Under
 *	sources.lock
 * @node: in sources.late, or in the list of sources whose late interrupts are being sent; under
 *	sources.lock
 * @late: vectors with interrupts that a thread has to send; @now: those that it sends now. Under
 *	sources.lock
 */
struct dlend_irq_source {
	struct dlend_session_ref in;
	u32 handle;
	struct dlend_window window;
	__le32 __iomem *mapped;
	__le32 __iomem *counters;
	u32 count[DLEND_MAX_VECTORS];
	struct list_head node;
	DECLARE_BITMAP(late, DLEND_MAX_VECTORS);
	DECLARE_BITMAP(now, DLEND_MAX_VECTORS);
};

/* How many vectors of @now are sent with interrupts off, before other code gets its turn. */
#define DLEND_SEND_AT_ONCE	64
/* Microseconds that the thread waits before it reads: one read is enough for all that came. */
#define DLEND_LATE_US		50

/* Reads through the window: how long one takes is up to the peer, so sources.lock is not held. */

/* For interrupt handlers: the time counts against the link's share. */
static u32 dlend_peer_read_now(struct dlend_link *link, const void __iomem *at)
{
	u64 begin = local_clock();
	u32 value = readl(at);
	u64 ns = local_clock() - begin;
	unsigned long flags;

	spin_lock_irqsave(&link->sources.lock, flags);
	dlend_readtime_spend(&link->sources.reads, ns);
	spin_unlock_irqrestore(&link->sources.lock, flags);
	return value;
}

/*
 * For threads, one at a time.  For quick reads the scheduler sees to fairness.  But a processor
 * does nothing else while it waits for an answer, so there is a pause after a slow read.
 */
static u32 dlend_peer_read(struct dlend_link *link, const void __iomem *at)
{
	struct dlend_irq_sources *all = &link->sources;
	u64 begin, ns;
	long wait;
	u32 value;

	guard(mutex)(&all->reading);
	wait = all->quiet_until - jiffies;
	if (wait > 0)
		schedule_timeout_uninterruptible(wait);
	lock_map_acquire(&dlend_peer_map);
	begin = local_clock();
	value = readl(at);
	lock_map_release(&dlend_peer_map);
	ns = min(local_clock() - begin, (u64)DLEND_READ_DEBT_NS);
	all->quiet_until = jiffies;
	if (ns > NSEC_PER_MSEC)
		all->quiet_until += nsecs_to_jiffies(ns * (DLEND_READ_SHARE - 1)) + 1;
	return value;
}

/* Sources */

/*
 * On the loop: the borrower unmaps the counters.  When this returns, nothing is written there any
 * more.  The aperture's lock is held.
 */
static void dlend_irq_source_revoke(struct dlend_window *w)
{
	struct dlend_irq_source *src = container_of(w, struct dlend_irq_source, window);
	struct dlend_link *link = src->in.link;

	spin_lock_irq(&link->sources.lock);
	src->counters = NULL;
	spin_unlock_irq(&link->sources.lock);
}

/* If the window is revoked before @counters is set, window.phys is 0, and @counters stays NULL. */
static int dlend_irq_source_map(struct dlend_irq_source *src, u64 offset)
{
	struct dlend_link *link = src->in.link;
	int err;

	src->window.revoked = dlend_irq_source_revoke;
	err = dlend_window_open(link, &src->window, offset, DLEND_IRQ_COUNTERS_SIZE, false);
	if (err)
		return err;
	src->mapped = dlend_window_map(&src->window);
	if (!src->mapped)
		return -ENOMEM;
	spin_lock_irq(&link->sources.lock);
	src->counters = src->window.phys ? src->mapped : NULL;
	spin_unlock_irq(&link->sources.lock);
	return 0;
}

/*
 * Do the counters answer?  On the loop they are not read: they are the sink's own pages, which may
 * be freed at any time.  Return: 0; -ENOTCONN; -ENXIO they read as all ones
 */
static int dlend_irq_source_look(struct dlend_irq_source *src)
{
	if (!dlend_session_live(&src->in))
		return -ENOTCONN;
	if (src->in.link->loop)
		return 0;
	return dlend_irqscan_gone(dlend_peer_read(src->in.link, src->mapped), 0) ? -ENXIO : 0;
}

/* Without an answer each read takes a completion time-out: so this ends with the first bad read. */
static int dlend_link_read_messages(const struct dlend_session_ref *in,
				    struct dlend_p_message __iomem *from, u32 count,
				    struct dlend_p_message *message)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(DLEND_MESSAGES_MS);

	for (u32 i = 0; i < count; i++) {
		u32 at = dlend_peer_read(in->link, &from[i].at);

		if (!dlend_session_live(in))
			return -ENOTCONN;
		if (at == ~0u)
			return -ENXIO;
		if (at >= DLEND_DIRECT_SIZE || at % sizeof(u32))
			return -ERANGE;
		if (time_after(jiffies, deadline))
			return -ETIME;
		message[i].at = cpu_to_le32(at);
		message[i].data = cpu_to_le32(dlend_peer_read(in->link, &from[i].data));
		cond_resched();
	}
	return 0;
}

int dlend_link_msi_targets(struct dlend_link *link, u64 table, u32 count,
			   struct dlend_p_message *message)
{
	struct dlend_session_ref in = dlend_session_hold(link);
	struct dlend_p_message __iomem *from;
	struct dlend_window w = {};
	int err;

	err = dlend_window_open(link, &w, table, DLEND_DIRECT_TABLE(count), false);
	if (!err) {
		from = dlend_window_map(&w);
		err = from ? dlend_link_read_messages(&in, from, count, message) : -ENOMEM;
		dlend_window_close(&w);
		dlend_window_unmap(link, from);
	}
	dlend_session_drop(&in);
	return err;
}
DLEND_EXPORT(dlend_link_msi_targets);

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
	INIT_LIST_HEAD(&src->node);
	err = dlend_irq_source_map(src, offset);
	if (!err)
		err = dlend_irq_source_look(src);
	if (!err)
		return src;
	dlend_irq_source_close(src);
	return ERR_PTR(err);
}
DLEND_EXPORT(dlend_irq_source_open);

void dlend_irq_source_close(struct dlend_irq_source *src)
{
	struct dlend_link *link = src->in.link;

	spin_lock_irq(&link->sources.lock);
	list_del(&src->node);
	spin_unlock_irq(&link->sources.lock);
	dlend_window_close(&src->window);
	dlend_window_unmap(link, src->mapped);
	dlend_session_drop(&src->in);
	kvfree(src);
}
DLEND_EXPORT(dlend_irq_source_close);

static const char dlend_irq_no_answer[] = "reads through the window come back as all ones";
static const char dlend_irq_no_counters[] = "the counters come back as all ones";

/*
 * The device has written its data before it interrupted.  But the processor's write of the counter
 * takes another way, and could overtake that data.  The answer to a read through the window cannot
 * pass the device's posted writes.  So read the vector's counter, which only this node writes.
 * Return: true: it reads as all ones, although this node has not written that: nothing answers
 */
static bool dlend_irq_source_silent(struct dlend_irq_source *src, u32 vector)
{
	return dlend_irqscan_gone(dlend_peer_read_now(src->in.link, &src->mapped[vector]),
				  READ_ONCE(src->count[vector]));
}

/*
 * A borrower may unmap its counters before its device is stopped.  That must not end the session,
 * which other guests use, too.  So if the counters do not answer, the control area is read: it
 * answers as long as the window works.  Then the counters are read once more: if they answer now,
 * the data has arrived before that answer.
 * Return: why the data may not have arrived, or NULL
 */
static const char *dlend_irq_source_check_data(struct dlend_irq_source *src, u32 vector)
{
	if (!dlend_irq_source_silent(src, vector))
		return NULL;
	/* The self-test has written the window's size there, which is never all ones. */
	if (dlend_peer_read_now(src->in.link, &src->in.link->peer_ctrl->window) == ~0u)
		return dlend_irq_no_answer;
	return dlend_irq_source_silent(src, vector) ? dlend_irq_no_counters : NULL;
}

/*
 * Under sources.lock.  Each further read would take a completion time-out: so stop this source, if
 * only its counters do not answer; else all sources, and the session.
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
	dlend_link_restart_current(link, why);
}

/* Under sources.lock. Order for the peer: counter and hint, then index, then doorbell. */
static void dlend_irq_source_count(struct dlend_irq_source *src, u32 vector)
{
	struct dlend_link *link = src->in.link;
	struct dlend_irq_sources *all = &link->sources;
	struct dlend_ctrl __iomem *peer = link->peer_ctrl;
	u32 index = all->prod & (DLEND_IRQ_RING_SLOTS - 1);

	writel(++src->count[vector], &src->counters[vector]);
	writel(src->handle << 16 | vector, &peer->irq[index]);
	wmb(); /* posted writes in order: counter and hint before the index */
	writel(++all->prod, &peer->irq_prod);
	wmb(); /* the index before the doorbell, which takes another way */
	link->ops->db_ring(link->hw, BIT_ULL(DLEND_DB_IRQ));
	atomic64_inc(&link->stat.irq_fired);
}

/* Under sources.lock. */
static bool dlend_irq_source_usable(const struct dlend_irq_source *src)
{
	return src->in.link->sources.on && src->counters && dlend_session_live(&src->in);
}

/* Late interrupts */

/* Under sources.lock. Note an interrupt, and have the thread send it. */
static void dlend_irq_source_defer(struct dlend_irq_source *src, u32 vector)
{
	struct dlend_irq_sources *all = &src->in.link->sources;

	__set_bit(vector, src->late);
	if (list_empty(&src->node))
		list_add_tail(&src->node, &all->late);
	atomic64_inc(&src->in.link->stat.irq_late);
	queue_work(dlend_poll_wq, &all->work);
}

/* Move to @now all late interrupts: those that have come before the read that follows. */
static void dlend_irq_sources_take(struct dlend_irq_sources *all, struct list_head *now)
{
	struct dlend_irq_source *src;

	spin_lock_irq(&all->lock);
	list_for_each_entry(src, &all->late, node) {
		bitmap_copy(src->now, src->late, DLEND_MAX_VECTORS);
		bitmap_zero(src->late, DLEND_MAX_VECTORS);
	}
	list_splice_init(&all->late, now);
	spin_unlock_irq(&all->lock);
}

/* Under sources.lock. Send some late interrupts of @src; it leaves its list with the last one. */
static void dlend_irq_source_send_some(struct dlend_irq_source *src)
{
	struct dlend_irq_sources *all = &src->in.link->sources;
	u32 vector, n;

	for (n = 0; n < DLEND_SEND_AT_ONCE; n++) {
		vector = find_first_bit(src->now, DLEND_MAX_VECTORS);
		if (vector == DLEND_MAX_VECTORS)
			break;
		__clear_bit(vector, src->now);
		if (dlend_irq_source_usable(src))
			dlend_irq_source_count(src, vector);
	}
	if (n == DLEND_SEND_AT_ONCE)
		return;
	list_del_init(&src->node);
	/* Interrupts that have come after the read began need another read. */
	if (!bitmap_empty(src->late, DLEND_MAX_VECTORS))
		list_add_tail(&src->node, &all->late);
}

/*
 * Send all late interrupts, after one read.  The read also flushes earlier posted writes of all
 * devices here to the peer.
 */
static void dlend_irq_sources_send_late(struct dlend_link *link)
{
	struct dlend_session_ref in = dlend_session_now(link);
	struct dlend_irq_sources *all = &link->sources;
	struct dlend_irq_source *src;
	LIST_HEAD(now);

	guard(mutex)(&all->sending);
	dlend_irq_sources_take(all, &now);
	if (READ_ONCE(all->on) && dlend_peer_read(link, &link->peer_ctrl->window) == ~0u) {
		/* Nothing answers. A session that has begun meanwhile goes on. */
		spin_lock_irq(&all->lock);
		all->on &= !dlend_session_live(&in);
		dlend_link_restart(&in, dlend_irq_no_answer);
		spin_unlock_irq(&all->lock);
	}
	do {
		spin_lock_irq(&all->lock);
		src = list_first_entry_or_null(&now, struct dlend_irq_source, node);
		if (src)
			dlend_irq_source_send_some(src);
		spin_unlock_irq(&all->lock);
		cond_resched();
	} while (src);
}

static void dlend_irq_sources_work(struct work_struct *work)
{
	struct dlend_irq_sources *all = container_of(work, struct dlend_irq_sources, work);

	/* More interrupts may come in this time; the one read is for them, too. */
	usleep_range(DLEND_LATE_US, 2 * DLEND_LATE_US);
	dlend_irq_sources_send_late(container_of(all, struct dlend_link, sources));
	if (!list_empty_careful(&all->late))
		queue_work(dlend_poll_wq, &all->work);
}

void dlend_irq_sources_push(struct dlend_link *link)
{
	/* The control area stays mapped until the last handler and the last callback have ended. */
	if (!link->loop && dlend_link_is_up(link))
		dlend_irq_sources_send_late(link);
}

/*
 * Under sources.lock.  An interrupt has come.  @may_read: the caller's context allows a read
 * through the window.  The caller is asked to read if the share of time allows that, and no source
 * has late interrupts; otherwise the interrupt is late.  Return: true: the caller has to read, and
 * then to count the interrupt; false: nothing is left to be done
 */
static bool dlend_irq_source_begin(struct dlend_irq_source *src, u32 vector, bool may_read)
{
	struct dlend_irq_sources *all = &src->in.link->sources;

	if (!dlend_irq_source_usable(src))
		return false;
	/*
	 * On the loop the device's data and the counters are in the memory of one host, and the
	 * device's MSI comes after its data (both are posted writes).
	 */
	if (!READ_ONCE(dlend_irq_readback) || src->in.link->loop) {
		dlend_irq_source_count(src, vector);
		return false;
	}
	if (may_read && list_empty(&all->late) && !dlend_readtime_wait(&all->reads, local_clock()))
		return true;
	dlend_irq_source_defer(src, vector);
	return false;
}

void dlend_irq_fire(struct dlend_irq_source *src, u32 vector, bool late)
{
	struct dlend_irq_sources *all = &src->in.link->sources;
	unsigned long flags;
	const char *why;
	bool read;

	if (vector >= DLEND_MAX_VECTORS)
		return;
	spin_lock_irqsave(&all->lock, flags);
	read = dlend_irq_source_begin(src, vector, !late);
	spin_unlock_irqrestore(&all->lock, flags);
	if (!read)
		return;
	why = dlend_irq_source_check_data(src, vector);
	spin_lock_irqsave(&all->lock, flags);
	if (dlend_irq_source_usable(src) && !why)
		dlend_irq_source_count(src, vector);
	else if (dlend_irq_source_usable(src))
		dlend_irq_source_fail(src, why);
	spin_unlock_irqrestore(&all->lock, flags);
}
DLEND_EXPORT(dlend_irq_fire);

void dlend_irq_sources_enable(struct dlend_link *link, bool on)
{
	struct dlend_irq_sources *all = &link->sources;

	spin_lock_irq(&all->lock);
	all->on = on;
	if (on) {
		all->prod = 0;
		all->reads = (struct dlend_readtime){};
	}
	spin_unlock_irq(&all->lock);
}

void dlend_irq_sources_init(struct dlend_link *link)
{
	spin_lock_init(&link->sources.lock);
	mutex_init(&link->sources.sending);
	mutex_init(&link->sources.reading);
	link->sources.quiet_until = jiffies;
	INIT_LIST_HEAD(&link->sources.late);
	INIT_WORK(&link->sources.work, dlend_irq_sources_work);
}
