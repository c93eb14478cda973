// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbells: what is done at once, in the interrupt, and what is left to a work item.
 *
 * A peer rings as often as it likes, and writes as many hints as it likes before it does.  So the
 * interrupt has a budget for each jiffy, of hints and of time, and uses a part of the hints at
 * once.  When that is used up, or not enough, the doorbells are masked, and a work item polls them
 * until they are quiet or the next jiffy begins.  So an honest link that is busy goes on with
 * little delay.  A link that is flooded takes a part of a processor, and beyond that no more than a
 * thread's share.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/sched/clock.h>
#include <dlend/compat.h>
#include "link.h"

/* Pieces of DLEND_BUDGET_TURN hints that are scanned before the doorbells are looked at again. */
#define DLEND_POLL_PIECES	16
/*
 * Microseconds between polls while the link is flooded: short for a guest that waits for its disk,
 * long enough that a processor is not kept busy by polling alone.
 */
#define DLEND_POLL_US		50
#define DLEND_POLL_MAX_US	100
/* Milliseconds between looks at every counter, for hints that were overwritten. */
#define DLEND_LOOK_ALL_MS	1000

u64 dlend_link_doorbells(void)
{
	return BIT_ULL(DLEND_DB_MSG) | BIT_ULL(DLEND_DB_IRQ);
}
DLEND_EXPORT(dlend_link_doorbells);

/*
 * Clear first: what comes after that rings again, what came before is seen by the scan.  The clear
 * is a posted write, which a doorbell could still overtake: then it wipes that doorbell, and the
 * scan does not see what was rung for.  A read behind it returns when the clear has arrived, and
 * what was rung for before is in memory then.  (ntb_transport does so, too.)
 */
static u64 dlend_doorbell_take(struct dlend_link *link)
{
	u64 bits = link->ops->db_read(link->hw) & dlend_link_doorbells();

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

/* Under irq_lock. */
static void dlend_doorbell_begin_polling(struct dlend_link *link)
{
	if (!link->doorbell.on)
		return;
	/* The peer does not notice the mask: a bit that it sets stays until it is read here. */
	link->ops->db_mask(link->hw, dlend_link_doorbells(), true);
	atomic_inc(&link->stat.polls);
	dlend_doorbell_queue(link);
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
	if (more || !budget->left)
		dlend_doorbell_begin_polling(link);
	spin_unlock_irqrestore(&link->irq_lock, flags);
	if (bits & BIT_ULL(DLEND_DB_MSG)) {
		dlend_link_receive(link);
		/* During bring-up it says that scratchpads have changed. */
		if (!dlend_link_is_up(link))
			dlend_link_nudge(link);
	}
}
DLEND_EXPORT(dlend_link_doorbell);

/* Return: is something left to be done? */
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

/* Return: is there more to look at, soon? */
static bool dlend_doorbell_poll(struct dlend_link *link)
{
	u64 bits = dlend_doorbell_take(link);
	bool more, over;

	if (bits & BIT_ULL(DLEND_DB_MSG))
		dlend_link_receive(link);
	more = dlend_doorbell_scan(link);
	spin_lock_irq(&link->irq_lock);
	over = dlend_budget_over(&link->doorbell.budget, jiffies);
	spin_unlock_irq(&link->irq_lock);
	/* With a new budget the interrupt does the work again, however busy the link is. */
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
		link->ops->db_mask(link->hw, dlend_link_doorbells(), false);
		/* Not all hardware rings for what came while it was masked. */
		if (!(link->ops->db_read(link->hw) & dlend_link_doorbells()) ||
		    !dlend_doorbell_poll(link))
			return;
	}
	dlend_doorbell_queue(link);
}

void dlend_doorbell_look(struct dlend_link *link)
{
	u64 now = dlend_now_ms();

	/* The scan goes by hints, and does not see an interrupt whose hint was overwritten. */
	if (now - link->doorbell.looked_at >= DLEND_LOOK_ALL_MS) {
		link->doorbell.looked_at = now;
		dlend_irq_sinks_want_look(link);
	}
	dlend_doorbell_queue(link);
}

void dlend_doorbell_enable(struct dlend_link *link, bool on)
{
	u64 bits = dlend_link_doorbells();

	spin_lock_irq(&link->irq_lock);
	link->doorbell.on = on;
	spin_unlock_irq(&link->irq_lock);
	if (on) {
		link->ops->db_clear(link->hw, bits);
		link->ops->db_mask(link->hw, bits, false);
	} else {
		cancel_work_sync(&link->doorbell.work);
		link->ops->db_mask(link->hw, bits, true);
	}
}

void dlend_doorbell_init(struct dlend_link *link)
{
	INIT_WORK(&link->doorbell.work, dlend_doorbell_work);
}
