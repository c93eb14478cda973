// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts across a link: counters in the borrower's memory that only the lender writes, and
 * the ring of hints where to look.
 *
 * Knows vectors as numbers; eventfds and devices are the users'.  The walk over the ring is in
 * irqscan.c.
 */
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <dlend/compat.h>
#include <ntb/trace.h>
#include "core.h"

#define COUNTERS_SIZE	(DLEND_MAX_VECTORS * sizeof(__le32))
#define COUNTS_MS	1000	/* to read what all of them are, while a lease is made */

/*
 * struct dlend_irq_sink - the borrower's side
 * @counters: written by the lender, through the aperture
 * @seen: what was delivered of each
 */
struct dlend_irq_sink {
	struct dlend_link *link;
	struct dlend_aperture *ap;
	struct dlend_slot *slot;
	u64 offset;
	u32 handle;
	__le32 *counters;
	u32 *seen;
	void (*fire)(void *arg, u32 vector, u32 count);
	void *arg;
};

/*
 * struct dlend_irq_source - the lender's side
 * @window: where they are
 * @counters: the sink's, through the window; NULL once the borrower has taken them away, which a
 *	loop says and a window shows by all ones
 * @vectors: how many of them are used
 * @count: what is there. Read once: a source that follows another one on the same sink goes on
 *	counting from where that ended, otherwise a change could look like none
 */
struct dlend_irq_source {
	struct dlend_link *link;
	u64 session;
	u32 handle;
	struct dlend_window window;
	__le32 __iomem *mapped;
	__le32 __iomem *counters;	/* fire_lock */
	u32 vectors;
	u32 count[DLEND_MAX_VECTORS];
};

/* Sinks */

/* Under irq_lock. */
static void look_vector(struct dlend_irq_sink *sink, u32 vector)
{
	u32 count = dlend_irqscan_new(&sink->seen[vector],
				      le32_to_cpu(READ_ONCE(sink->counters[vector])));

	if (!count)
		return;
	atomic64_add(count, &sink->link->stat.irq_delivered);
	trace_dlend_irq_deliver(sink->handle, vector, count);
	sink->fire(sink->arg, vector, count);
}

static u32 scan_prod(void *ctx)
{
	struct dlend_link *link = ctx;
	u32 prod = le32_to_cpu(READ_ONCE(link->ctrl->irq_prod));

	dma_rmb(); /* the index before entries and counters */
	return prod;
}

static u32 scan_entry(void *ctx, u32 index)
{
	struct dlend_link *link = ctx;

	return le32_to_cpu(READ_ONCE(link->ctrl->irq[index]));
}

static void scan_look(void *ctx, u32 handle, u32 vector)
{
	struct dlend_link *link = ctx;
	struct dlend_irq_sink *sink = xa_load(&link->sinks, handle);

	if (sink && vector < DLEND_MAX_VECTORS)
		look_vector(sink, vector);
	else
		atomic64_inc(&link->stat.irq_bad);
}

/* Not here, where interrupts are off: there may be many sinks. */
static void scan_look_all(void *ctx)
{
	struct dlend_link *link = ctx;

	WRITE_ONCE(link->look_all, true);
}

static const struct dlend_irqscan_ops scan_ops = {
	.prod = scan_prod,
	.entry = scan_entry,
	.look = scan_look,
	.look_all = scan_look_all,
};

/* Under irq_lock. Return: is something left to be done? */
bool dlend_irq_scan(struct dlend_link *link, u32 *budget)
{
	enum dlend_irqscan_end end;

	if (!link->ctrl || !dlend_live_session(link))
		return false;
	atomic64_inc(&link->stat.irq_scans);
	end = dlend_irqscan_some(&link->scan, &scan_ops, link, budget);
	if (end == DLEND_IRQSCAN_OVERRUN)
		atomic64_inc(&link->stat.irq_overruns);
	return end != DLEND_IRQSCAN_DONE;
}

/* Under irq_lock. Return: false: no sink is left */
static bool look_piece(struct dlend_link *link, struct dlend_irqlook *at)
{
	unsigned long handle = at->handle;
	struct dlend_irq_sink *sink;
	u32 vector, n;

	sink = xa_find(&link->sinks, &handle, ULONG_MAX, XA_PRESENT);
	if (!sink)
		return false;
	for (n = dlend_irqlook_piece(at, handle, &vector); n; n--)
		look_vector(sink, vector++);
	return true;
}

void dlend_irq_look_all(struct dlend_link *link)
{
	struct dlend_irqlook at = {};
	bool more;

	do {
		spin_lock_irq(&link->irq_lock);
		more = dlend_live_session(link) && look_piece(link, &at);
		spin_unlock_irq(&link->irq_lock);
		cond_resched();
	} while (more);
}

static int map_sink(struct dlend_irq_sink *sink)
{
	int err;

	sink->slot = dlend_slot_alloc(sink->ap, COUNTERS_SIZE, 0, 0, DLEND_SLOT_IRQ);
	if (IS_ERR(sink->slot))
		return PTR_ERR(sink->slot);
	sink->offset = sink->slot->offset;
	err = dlend_slot_map_phys(sink->ap, sink->slot, 0, virt_to_phys(sink->counters),
				  COUNTERS_SIZE, DLEND_PROT_READ | DLEND_PROT_WRITE, false);
	if (err)
		dlend_slot_free(sink->ap, sink->slot);
	return err;
}

/* Handles go round, so that a lender's last words to an old sink find nobody. */
static int add_sink(struct dlend_link *link, struct dlend_irq_sink *sink)
{
	int err;

	/* Interrupts off: the array's own lock is taken inside irq_lock, which doorbells take. */
	err = xa_alloc_cyclic_irq(&link->sinks, &sink->handle, NULL, XA_LIMIT(1, U16_MAX),
				  &link->next_handle, GFP_KERNEL);
	if (err < 0)
		return err;
	spin_lock_irq(&link->irq_lock);
	xa_store(&link->sinks, sink->handle, sink, GFP_ATOMIC);
	spin_unlock_irq(&link->irq_lock);
	return 0;
}

struct dlend_irq_sink *dlend_irq_sink_open(struct dlend_link *link,
					   void (*fire)(void *arg, u32 vector, u32 count),
					   void *arg)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct dlend_irq_sink *sink;
	int err = -ENOMEM;

	if (!ap)
		return ERR_PTR(-ENOTCONN);
	sink = kzalloc_obj(*sink);
	if (!sink)
		return ERR_PTR(-ENOMEM);
	sink->link = dlend_link_get(link);
	sink->ap = ap;
	sink->fire = fire;
	sink->arg = arg;
	sink->seen = kcalloc(DLEND_MAX_VECTORS, sizeof(*sink->seen), GFP_KERNEL);
	sink->counters = alloc_pages_exact(COUNTERS_SIZE, GFP_KERNEL | __GFP_ZERO);
	if (!sink->seen || !sink->counters)
		goto free_memory;
	err = map_sink(sink);
	if (err)
		goto free_memory;
	err = add_sink(link, sink);
	if (err)
		goto free_slot;
	return sink;

free_slot:
	dlend_slot_free(sink->ap, sink->slot);
free_memory:
	if (sink->counters)
		free_pages_exact(sink->counters, COUNTERS_SIZE);
	kfree(sink->seen);
	dlend_link_put(link);
	kfree(sink);
	return ERR_PTR(err);
}
DLEND_EXPORT(dlend_irq_sink_open);

void dlend_irq_sink_close(struct dlend_irq_sink *sink, bool acked)
{
	struct dlend_link *link = sink->link;

	/* The scan runs under this lock, so no fire() runs after it. */
	spin_lock_irq(&link->irq_lock);
	xa_erase(&link->sinks, sink->handle);
	spin_unlock_irq(&link->irq_lock);
	/* Unmapped either way before the memory goes. */
	if (acked)
		dlend_slot_free(sink->ap, sink->slot);
	else
		dlend_slot_quarantine(sink->ap, sink->slot);
	free_pages_exact(sink->counters, COUNTERS_SIZE);
	kfree(sink->seen);
	kfree(sink);
	dlend_link_put(link);
}
DLEND_EXPORT(dlend_irq_sink_close);

u64 dlend_irq_sink_offset(const struct dlend_irq_sink *sink)
{
	return sink->offset;
}
DLEND_EXPORT(dlend_irq_sink_offset);

u32 dlend_irq_sink_handle(const struct dlend_irq_sink *sink)
{
	return sink->handle;
}
DLEND_EXPORT(dlend_irq_sink_handle);

/* Sources */

/* The borrower's memory goes: not a write more when this returns. */
static void source_revoked(struct dlend_window *w)
{
	struct dlend_irq_source *src = container_of(w, struct dlend_irq_source, window);

	spin_lock_irq(&src->link->fire_lock);
	src->counters = NULL;
	spin_unlock_irq(&src->link->fire_lock);
}

/* Opened first: what is revoked before the mapping is known leaves none behind. */
static int map_source(struct dlend_irq_source *src, u64 offset)
{
	struct dlend_link *link = src->link;
	int err;

	src->window.revoked = source_revoked;
	err = dlend_window_open(link, &src->window, offset, COUNTERS_SIZE, false);
	if (err)
		return err;
	src->mapped = link->reach->map(&src->window);
	if (!src->mapped) {
		dlend_window_close(&src->window);
		return -ENOMEM;
	}
	spin_lock_irq(&link->fire_lock);
	src->counters = src->window.phys ? src->mapped : NULL;
	spin_unlock_irq(&link->fire_lock);
	return 0;
}

/* The sink's own pages, which go once source_revoked() has returned. */
static int read_own_count(struct dlend_irq_source *src, u32 vector)
{
	struct dlend_link *link = src->link;
	int err = -ENOTCONN;

	spin_lock_irq(&link->fire_lock);
	if (src->counters) {
		src->count[vector] = readl(&src->counters[vector]);
		err = 0;
	}
	spin_unlock_irq(&link->fire_lock);
	return err;
}

/* Through a window without a lock: a peer that is gone costs a thread its time and nobody else. */
static int read_count(struct dlend_irq_source *src, u32 vector)
{
	if (dlend_live_session(src->link) != src->session)
		return -ENOTCONN;
	if (src->link->reach == &dlend_reach_self)
		return read_own_count(src, vector);
	src->count[vector] = readl(&src->mapped[vector]);
	return 0;
}

/*
 * Each read can take a completion time-out where nothing is behind the window any more, and
 * others wait for this lease's group meanwhile: so the first that says so is the last.  A count
 * that really is all ones is as good as none: it takes four billion interrupts to get there.
 */
static int read_counts(struct dlend_irq_source *src)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(COUNTS_MS);
	int err;

	for (u32 vector = 0; vector < src->vectors; vector++) {
		err = read_count(src, vector);
		if (err)
			return err;
		if (dlend_irqscan_gone(src->count[vector], 0))
			return -ENXIO;
		if (time_after(jiffies, deadline))
			return -ETIME;
		cond_resched();
	}
	return 0;
}

struct dlend_irq_source *dlend_irq_source_open(struct dlend_link *link, u64 offset, u32 handle,
					       u32 vectors)
{
	struct dlend_irq_source *src;
	int err;

	if (handle > U16_MAX)
		return ERR_PTR(-ERANGE);
	src = kvzalloc_obj(*src);
	if (!src)
		return ERR_PTR(-ENOMEM);
	src->session = dlend_link_session(link);
	src->handle = handle;
	src->vectors = min(vectors, DLEND_MAX_VECTORS);
	src->link = dlend_link_get(link);
	err = map_source(src, offset);
	if (err)
		goto free_source;
	err = read_counts(src);
	if (err)
		goto close_source;
	return src;

close_source:
	dlend_window_close(&src->window);
	link->reach->unmap(src->mapped);
free_source:
	dlend_link_put(link);
	kvfree(src);
	return ERR_PTR(err);
}
DLEND_EXPORT(dlend_irq_source_open);

void dlend_irq_source_close(struct dlend_irq_source *src)
{
	struct dlend_link *link = src->link;

	dlend_window_close(&src->window);
	link->reach->unmap(src->mapped);
	kvfree(src);
	dlend_link_put(link);
}
DLEND_EXPORT(dlend_irq_source_close);

static const char no_answer[] = "reads through the window come back as all ones";
static const char no_counters[] = "the counters come back as all ones";
static const char slow_window[] = "reads through the window take too long";

/*
 * Under fire_lock.  The device wrote its data before it interrupted, but by another way than we
 * write: a read through the window comes back behind what was under way to the peer.  It is one of
 * a word that only we write.  Return: why the data may not be there, or NULL
 */
static const char *read_back(struct dlend_irq_source *src, u32 vector)
{
	u64 begin = local_clock();
	u32 value = readl(&src->counters[vector]);

	if (dlend_irqscan_slow(&src->link->slow_reads, local_clock() - begin))
		return slow_window;
	return dlend_irqscan_gone(value, src->count[vector]) ? no_answer : NULL;
}

/*
 * Under fire_lock.  Is anything behind the window?  What we wrote at the test of this session and
 * the peer does not change, a number of bytes that is never all ones.
 */
static bool window_gone(struct dlend_link *link)
{
	return readl(&link->peer_ctrl->window) == ~0u;
}

/*
 * Under fire_lock.  A borrower may have taken away its counters before its device was stopped: that
 * is no matter of the other guests on this link.  If they answer when the window does, the data
 * came before the answer.
 */
static const char *data_lacks(struct dlend_irq_source *src, u32 vector)
{
	const char *why = read_back(src, vector);

	if (why != no_answer || window_gone(src->link))
		return why;
	why = read_back(src, vector);
	return why == no_answer ? no_counters : why;
}

/* Under fire_lock. Completion time-outs with interrupts off, and not for each interrupt. */
static void failed(struct dlend_irq_source *src, const char *why)
{
	struct dlend_link *link = src->link;

	if (why == no_counters) {
		src->counters = NULL;
		dev_notice_ratelimited(&link->dev, "node %u has taken away where interrupts of a device are counted (handle %u): no more are sent there\n",
				       dlend_link_peer(link), src->handle);
		return;
	}
	link->fire_on = false;
	dlend_session_restart(link, why);
}

/* Under fire_lock. Counter, hint, index, doorbell: each is seen only after the one before. */
static void fire(struct dlend_irq_source *src, u32 vector)
{
	struct dlend_link *link = src->link;
	struct dlend_ctrl __iomem *peer = link->peer_ctrl;
	u32 index = link->fire_prod & (DLEND_IRQ_RING_SLOTS - 1);
	u32 count = ++src->count[vector];

	writel(count, &src->counters[vector]);
	writel(src->handle << 16 | vector, &peer->irq[index]);
	wmb(); /* posted writes in order: counter and hint before the index */
	writel(++link->fire_prod, &peer->irq_prod);
	wmb(); /* the index before the doorbell, which takes another way */
	link->ops->db_ring(link->hw, BIT_ULL(DLEND_DB_IRQ));
	atomic64_inc(&link->stat.irq_fired);
	trace_dlend_irq_fire(src->handle, vector, count);
}

void dlend_irq_fire(struct dlend_irq_source *src, u32 vector)
{
	struct dlend_link *link = src->link;
	unsigned long flags;
	const char *why;

	if (vector >= src->vectors)
		return;
	spin_lock_irqsave(&link->fire_lock, flags);
	if (!link->fire_on || !src->counters || dlend_live_session(link) != src->session)
		goto unlock;
	why = READ_ONCE(dlend_irq_readback) ? data_lacks(src, vector) : NULL;
	if (!why)
		fire(src, vector);
	else
		failed(src, why);
unlock:
	spin_unlock_irqrestore(&link->fire_lock, flags);
}
DLEND_EXPORT(dlend_irq_fire);

/* Sessions */

void dlend_irq_init(struct dlend_link *link)
{
	spin_lock_init(&link->irq_lock);
	spin_lock_init(&link->fire_lock);
	xa_init_flags(&link->sinks, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	link->next_handle = 1;
}

void dlend_irq_reset(struct dlend_link *link)
{
	spin_lock_irq(&link->irq_lock);
	link->scan.cons = 0;
	spin_unlock_irq(&link->irq_lock);
	spin_lock_irq(&link->fire_lock);
	link->fire_prod = 0;
	link->slow_reads = 0;
	spin_unlock_irq(&link->fire_lock);
}

void dlend_irq_on(struct dlend_link *link, bool on)
{
	spin_lock_irq(&link->fire_lock);
	link->fire_on = on;
	spin_unlock_irq(&link->fire_lock);
}
