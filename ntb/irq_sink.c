// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts, on the borrower.  This file finds the counters that the lender has incremented, and
 * calls fire() of their sinks' users.  It also handles the doorbells, which say when to look.
 *
 * A peer can ring as often as it likes, and write any number of hints before it rings.  So the
 * interrupt handler has a budget for each jiffy, of hints and of time, and looks at a limited
 * number of hints at once.  If the budget is used up, or hints are left, the doorbells are masked.
 * A work item then polls the doorbells until no bit is set, or until the next jiffy begins.  So
 * interrupts of a busy link are delivered with little delay, and a peer that floods its link gets a
 * part of a processor in interrupt handlers, and beyond that no more than a thread's share.
 *
 * Vectors are numbers here; the users have eventfds and devices.  irqscan.c has the arithmetic of
 * the ring and of the budget.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <ntb/trace.h>
#include "link.h"

/* Sinks */

/*
 * struct dlend_irq_sink - where one device's interrupts arrive
 * @link: the link, with a reference
 * @slot: @counters in the link's aperture
 * @handle: number of the sink in hints
 * @counters: one for each vector; the lender writes them
 * @seen: values of the counters up to which interrupts were delivered; under link->irq_lock
 * @fire: the user's function, called with @arg under link->irq_lock
 */
struct dlend_irq_sink {
	struct dlend_link *link;
	struct dlend_slot *slot;
	u32 handle;
	__le32 *counters;
	u32 seen[DLEND_MAX_VECTORS];
	void (*fire)(void *arg, u32 vector, u32 count);
	void *arg;
};

/* Under irq_lock. Call fire() if the vector's counter has grown. */
static void dlend_irq_sink_look(struct dlend_irq_sink *sink, u32 vector)
{
	u32 count = dlend_irqscan_new(&sink->seen[vector],
				      le32_to_cpu(READ_ONCE(sink->counters[vector])));

	if (!count)
		return;
	atomic64_add(count, &sink->link->stat.irq_delivered);
	trace_dlend_irq_deliver(sink->handle, vector, count);
	sink->fire(sink->arg, vector, count);
}

/* A hint, which the peer has written: it may name anything.  Under irq_lock. */
static void dlend_irq_sinks_look(void *ctx, u32 handle, u32 vector)
{
	struct dlend_link *link = ctx;
	struct dlend_irq_sink *sink = xa_load(&link->sinks.all, handle);

	if (sink && vector < DLEND_MAX_VECTORS)
		dlend_irq_sink_look(sink, vector);
	else
		atomic64_inc(&link->stat.irq_bad);
}

/*
 * Go through the hints of the ring, and deliver new interrupts.  Under irq_lock.  @budget: (in)
 * most hints to look at; (out) how much of this number is left.  Return: are there more hints?
 */
static bool dlend_irq_sinks_scan(struct dlend_link *link, u32 *budget)
{
	enum dlend_irqscan_end end;

	if (!link->ctrl || !dlend_link_session(link))
		return false;
	atomic64_inc(&link->stat.irq_scans);
	end = dlend_irqscan_some(&link->sinks.cons, link->ctrl, dlend_irq_sinks_look, link, budget);
	if (end == DLEND_IRQSCAN_OVERRUN) {
		atomic64_inc(&link->stat.irq_overruns);
		/* Not at once: there may be many counters, and interrupts are off here. */
		WRITE_ONCE(link->sinks.look_all, true);
	}
	return end != DLEND_IRQSCAN_DONE;
}

/* Under irq_lock. Look at the next counters of the walk. Return: false: the walk is over */
static bool dlend_irq_sinks_look_piece(struct dlend_link *link, struct dlend_irqlook *at)
{
	unsigned long handle = at->handle;
	struct dlend_irq_sink *sink;
	u32 vector, n;

	sink = xa_find(&link->sinks.all, &handle, ULONG_MAX, XA_PRESENT);
	if (!sink)
		return false;
	for (n = dlend_irqlook_piece(at, handle, &vector); n; n--)
		dlend_irq_sink_look(sink, vector++);
	return true;
}

/*
 * If look_all is set, look at every counter of every sink.  In pieces: there may be many sinks, and
 * interrupts are off while a piece is looked at.
 */
static void dlend_irq_sinks_look_wanted(struct dlend_link *link)
{
	struct dlend_irqlook at = {};
	bool more;

	if (!xchg(&link->sinks.look_all, false))
		return;
	do {
		spin_lock_irq(&link->irq_lock);
		more = dlend_link_session(link) && dlend_irq_sinks_look_piece(link, &at);
		spin_unlock_irq(&link->irq_lock);
		cond_resched();
	} while (more);
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
	sink = kvzalloc_obj(*sink);
	if (!sink)
		return ERR_PTR(-ENOMEM);
	sink->link = dlend_link_get(link);
	sink->fire = fire;
	sink->arg = arg;
	sink->counters = alloc_pages_exact(DLEND_IRQ_COUNTERS_SIZE, GFP_KERNEL | __GFP_ZERO);
	if (!sink->counters)
		goto free_sink;
	sink->slot = dlend_slot_of_memory(ap, sink->counters, DLEND_IRQ_COUNTERS_SIZE,
					  DLEND_PROT_READ | DLEND_PROT_WRITE, DLEND_SLOT_IRQ);
	err = PTR_ERR_OR_ZERO(sink->slot);
	if (err)
		goto free_counters;
	/* Interrupts off: the array's lock is also taken under irq_lock, in doorbell interrupts. */
	err = xa_alloc_cyclic_irq(&link->sinks.all, &sink->handle, sink, XA_LIMIT(1, U16_MAX),
				  &link->sinks.next_handle, GFP_KERNEL);
	if (err >= 0)
		return sink;
	dlend_slot_free(sink->slot, true);
free_counters:
	free_pages_exact(sink->counters, DLEND_IRQ_COUNTERS_SIZE);
free_sink:
	dlend_link_put(link);
	kvfree(sink);
	return ERR_PTR(err);
}
DLEND_EXPORT(dlend_irq_sink_open);

void dlend_irq_sink_close(struct dlend_irq_sink *sink, bool acked)
{
	struct dlend_link *link = sink->link;

	/* The scan runs under this lock, so no fire() runs after it. */
	spin_lock_irq(&link->irq_lock);
	xa_erase(&link->sinks.all, sink->handle);
	spin_unlock_irq(&link->irq_lock);
	/* This unmaps the counters; after that their memory can be freed. */
	dlend_slot_free(sink->slot, acked);
	free_pages_exact(sink->counters, DLEND_IRQ_COUNTERS_SIZE);
	kvfree(sink);
	dlend_link_put(link);
}
DLEND_EXPORT(dlend_irq_sink_close);

void dlend_irq_sink_fill(const struct dlend_irq_sink *sink, struct dlend_p_borrow *p)
{
	p->irq_offset = cpu_to_le64(sink->slot->offset);
	p->irq_handle = cpu_to_le32(sink->handle);
}
DLEND_EXPORT(dlend_irq_sink_fill);

/* Doorbells */

/* Pieces of DLEND_BUDGET_TURN hints that are scanned before the doorbells are looked at again. */
#define DLEND_POLL_PIECES	16
/*
 * Microseconds between polls while the link is flooded.  It is short, for guests that wait for a
 * disk, but so long that polling alone does not keep a processor busy.
 */
#define DLEND_POLL_US		50
#define DLEND_POLL_MAX_US	100
/* Shortest time, ms, between a step of the bring-up and the next one that a doorbell asks for. */
#define DLEND_NUDGE_MS		5
/* Milliseconds between looks at every counter, for hints that were overwritten. */
#define DLEND_LOOK_ALL_MS	1000

/*
 * Read the doorbell bits that are set, and clear them.  They are cleared before the scan: for hints
 * that come later the peer rings again, and the scan sees those that came earlier.  The clear is a
 * posted write, and a new doorbell may arrive before it.  Then the clear would wipe that doorbell,
 * whose hints the scan may not see yet.  So the register is read after the clear: the answer comes
 * only when the clear has arrived, and by then those hints are in memory.  (ntb_transport does the
 * same.)  Return: the bits
 */
static u64 dlend_doorbell_take(struct dlend_link *link)
{
	u64 bits = link->ops->db_read(link->hw) & DLEND_LINK_DOORBELLS;

	if (bits) {
		link->ops->db_clear(link->hw, bits);
		link->ops->db_read(link->hw);
	}
	return bits;
}

static void dlend_doorbell_queue(struct dlend_link *link)
{
	queue_work(dlend_poll_wq, &link->doorbell.work);
}

/*
 * Have the bring-up make a step, but not right after its last one: a peer can ring without end, and
 * other threads wait for state_lock while a step runs.
 */
static void dlend_doorbell_nudge(struct dlend_link *link)
{
	unsigned long next = READ_ONCE(link->stepped_at) + msecs_to_jiffies(DLEND_NUDGE_MS);
	long wait = max((long)(next - jiffies), 0L);

	if (!READ_ONCE(link->hw_gone))
		mod_delayed_work(dlend_wq, &link->state_work, wait);
}

void dlend_link_doorbell(struct dlend_link *link)
{
	u64 begin = local_clock(), bits = dlend_doorbell_take(link);
	struct dlend_budget *budget = &link->doorbell.budget;
	unsigned long flags;
	bool more = false;
	u32 turn, left;

	spin_lock_irqsave(&link->irq_lock, flags);
	turn = dlend_budget_turn(budget, jiffies);
	left = turn;
	if (bits & BIT_ULL(DLEND_DB_IRQ))
		more = dlend_irq_sinks_scan(link, &left);
	dlend_budget_spend(budget, turn - left, local_clock() - begin, TICK_NSEC);
	if (link->doorbell.on && (more || !budget->left)) {
		/* No doorbell is lost: a bit that the peer sets stays until it is cleared here. */
		link->ops->db_mask(link->hw, DLEND_LINK_DOORBELLS, true);
		atomic_inc(&link->stat.polls);
		dlend_doorbell_queue(link);
	}
	spin_unlock_irqrestore(&link->irq_lock, flags);
	if (bits & BIT_ULL(DLEND_DB_MSG)) {
		dlend_link_queue_rx(link);
		/* During bring-up this doorbell says that scratchpads have changed. */
		if (!dlend_link_is_up(link))
			dlend_doorbell_nudge(link);
	}
}
DLEND_EXPORT(dlend_link_doorbell);

/* Scan some pieces of the ring, and every counter if that is wanted. Return: are hints left? */
static bool dlend_doorbell_scan(struct dlend_link *link)
{
	bool more = true;
	u32 budget;

	for (int i = 0; i < DLEND_POLL_PIECES && more; i++) {
		budget = DLEND_BUDGET_TURN;
		spin_lock_irq(&link->irq_lock);
		more = dlend_irq_sinks_scan(link, &budget) && !budget;
		spin_unlock_irq(&link->irq_lock);
		cond_resched();
	}
	dlend_irq_sinks_look_wanted(link);
	return more;
}

/* Return: is there more to look at, so that the doorbells have to be polled again soon? */
static bool dlend_doorbell_poll(struct dlend_link *link)
{
	u64 bits = dlend_doorbell_take(link);
	bool more, over;

	if (bits & BIT_ULL(DLEND_DB_MSG))
		dlend_link_queue_rx(link);
	more = dlend_doorbell_scan(link);
	spin_lock_irq(&link->irq_lock);
	over = dlend_budget_over(&link->doorbell.budget, jiffies);
	spin_unlock_irq(&link->irq_lock);
	/* In a new jiffy the interrupt handler has a new budget, and goes on. */
	return more || (bits && over);
}

static void dlend_doorbell_work(struct work_struct *work)
{
	struct dlend_link *link = container_of(work, struct dlend_link, doorbell.work);
	bool more = dlend_doorbell_poll(link);

	if (!READ_ONCE(link->doorbell.on))
		return;
	if (more) {
		usleep_range(DLEND_POLL_US, DLEND_POLL_MAX_US);
	} else {
		link->ops->db_mask(link->hw, DLEND_LINK_DOORBELLS, false);
		/*
		 * Some hardware raises no interrupt for bits that were set while masked: so look
		 * once more after the unmask.
		 */
		if (!(link->ops->db_read(link->hw) & DLEND_LINK_DOORBELLS) ||
		    !dlend_doorbell_poll(link))
			return;
	}
	dlend_doorbell_queue(link);
}

void dlend_doorbell_look(struct dlend_link *link)
{
	u64 now = dlend_now_ms();

	/* The scan follows hints. If a hint was overwritten, only a look at the counter helps. */
	if (now - link->doorbell.looked_at >= DLEND_LOOK_ALL_MS) {
		link->doorbell.looked_at = now;
		WRITE_ONCE(link->sinks.look_all, true);
	}
	dlend_doorbell_queue(link);
}

void dlend_doorbell_enable(struct dlend_link *link, bool on)
{
	u64 bits = DLEND_LINK_DOORBELLS;

	spin_lock_irq(&link->irq_lock);
	link->doorbell.on = on;
	spin_unlock_irq(&link->irq_lock);
	if (on) {
		link->ops->db_clear(link->hw, bits);	/* of earlier sessions */
		link->ops->db_mask(link->hw, bits, false);
	} else {
		cancel_work_sync(&link->doorbell.work);
		link->ops->db_mask(link->hw, bits, true);
	}
}

void dlend_irq_sinks_init(struct dlend_link *link)
{
	xa_init_flags(&link->sinks.all, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	link->sinks.next_handle = 1;
	INIT_WORK(&link->doorbell.work, dlend_doorbell_work);
}
