// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbells: what is done at once, in the interrupt, and what is left to a work item.
 *
 * A peer rings as often as it likes, and writes as many hints as it likes before it does.  So the
 * interrupt has a budget for each jiffy, of hints and of time, and uses a part of the hints at
 * once.  When that is used up, or not enough, the doorbells are masked, and a work item polls them
 * until they are quiet or the next jiffy begins: an honest link that is busy goes on with little
 * delay, and one that is flooded takes a part of a processor, and beyond that no more than a
 * thread's share.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/sched/clock.h>
#include <dlend/compat.h>
#include "core.h"

#define POLL_PIECES	16	/* of these, before the doorbells are looked at again */
#define LOOK_ALL_MS	1000

/* Clear first: what comes after rings again, what came before is seen by the scan. */
static u64 take_bits(struct dlend_link *link)
{
	u64 bits = link->ops->db_read(link->hw) & dlend_link_doorbells();

	if (bits)
		link->ops->db_clear(link->hw, bits);
	return bits;
}

/* Under irq_lock. */
static void poll_from_now(struct dlend_link *link)
{
	if (!link->db_on)
		return;
	/* Masking is no matter of the other side's: what it rings stays until it is looked for. */
	link->ops->db_mask(link->hw, dlend_link_doorbells(), true);
	atomic_inc(&link->stat.polls);
	queue_work(dlend_poll_wq, &link->poll_work);
}

void dlend_link_doorbell(struct dlend_link *link)
{
	u64 begin = local_clock(), bits = take_bits(link);
	unsigned long flags;
	bool more = false;
	u32 turn, left;

	spin_lock_irqsave(&link->irq_lock, flags);
	turn = dlend_budget_turn(&link->budget, jiffies);
	left = turn;
	if (bits & BIT_ULL(DLEND_DB_IRQ))
		more = dlend_irq_scan(link, &left);
	dlend_budget_spend(&link->budget, turn - left, local_clock() - begin, TICK_NSEC);
	if (more || !link->budget.left)
		poll_from_now(link);
	spin_unlock_irqrestore(&link->irq_lock, flags);
	if (bits & BIT_ULL(DLEND_DB_MSG)) {
		queue_work(dlend_poll_wq, &link->rx_work);
		/* During bring-up it says that scratchpads have changed. */
		if (!dlend_link_is_up(link))
			dlend_session_nudged(link);
	}
}
DLEND_EXPORT(dlend_link_doorbell);

/* Return: is something left to be done? */
static bool scan_in_pieces(struct dlend_link *link)
{
	bool more = true;
	u32 budget;

	for (int i = 0; i < POLL_PIECES && more; i++) {
		budget = DLEND_BUDGET_TURN;
		spin_lock_irq(&link->irq_lock);
		more = dlend_irq_scan(link, &budget) && !budget;
		spin_unlock_irq(&link->irq_lock);
		cond_resched();
	}
	if (xchg(&link->look_all, false))
		dlend_irq_look_all(link);
	return more;
}

/* Return: is there more to look at, soon? */
static bool poll_once(struct dlend_link *link)
{
	u64 bits = take_bits(link);
	bool more, over;

	if (bits & BIT_ULL(DLEND_DB_MSG))
		queue_work(dlend_poll_wq, &link->rx_work);
	more = scan_in_pieces(link);
	spin_lock_irq(&link->irq_lock);
	over = dlend_budget_over(&link->budget, jiffies);
	spin_unlock_irq(&link->irq_lock);
	/* With a budget it is the interrupt's again, however busy the link is. */
	return more || (bits && over);
}

static void poll_work(struct work_struct *work)
{
	struct dlend_link *link = container_of(work, struct dlend_link, poll_work);
	bool more = poll_once(link);

	if (!READ_ONCE(link->db_on))
		return;
	if (more) {
		usleep_range(50, 100);
	} else {
		link->ops->db_mask(link->hw, dlend_link_doorbells(), false);
		/* Not all hardware rings for what came while it was masked. */
		if (!(link->ops->db_read(link->hw) & dlend_link_doorbells()) || !poll_once(link))
			return;
	}
	queue_work(dlend_poll_wq, &link->poll_work);
}

void dlend_doorbell_look(struct dlend_link *link)
{
	u64 now = dlend_now_ms();

	/* A hint that was overwritten is missed by whoever goes by hints. */
	if (now - link->looked_at >= LOOK_ALL_MS) {
		link->looked_at = now;
		WRITE_ONCE(link->look_all, true);
	}
	queue_work(dlend_poll_wq, &link->poll_work);
}

void dlend_doorbell_on(struct dlend_link *link, bool on)
{
	u64 bits = dlend_link_doorbells();

	spin_lock_irq(&link->irq_lock);
	link->db_on = on;
	spin_unlock_irq(&link->irq_lock);
	if (on) {
		link->ops->db_clear(link->hw, bits);
		link->ops->db_mask(link->hw, bits, false);
	} else {
		cancel_work_sync(&link->poll_work);
		link->ops->db_mask(link->hw, bits, true);
	}
}

void dlend_doorbell_init(struct dlend_link *link)
{
	INIT_WORK(&link->poll_work, poll_work);
}
