// SPDX-License-Identifier: GPL-2.0
/*
 * What a node that prepares itself to take a lease over has got so far: see standby.h.
 *
 * Its memory is mapped, in a domain of its own, while the holder's guest still runs.  So the time
 * in which no guest runs does not depend on the size of a guest.
 *
 * Knows nothing of who may prepare itself, and when it may take over: lease_sm.c says that.
 */
#include <linux/slab.h>

#include <dlend/compat.h>

#include "lender/bars.h"
#include "lender/check.h"
#include "lender/fence.h"
#include "lender/irq.h"
#include "lender/members.h"
#include "lender/p2p.h"
#include "lender/standby.h"
#include "lender/trace.h"

/*
 * struct lend_standby - see standby.h
 * @fn: the function
 * @link: to the node, referenced
 * @domain: not attached
 * @win: offsets of the BARs, not mapped
 * @source: of its interrupts
 */
struct lend_standby {
	struct lend_fn *fn;
	struct dlend_link *link;
	struct dlend_domain *domain;
	struct lend_windows *win;
	struct dlend_irq_source *source;
};

int lend_standby_prepare(struct lend_fn *fn, struct dlend_link *link,
			 struct dlend_irq_source *source, struct dlend_p_lease *grant)
{
	struct lend_standby *s = kzalloc_obj(*s);
	struct lend_group *group = fn->group;
	int ret;

	if (!s) {
		dlend_irq_source_close(source);
		return -ENOMEM;
	}
	s->fn = fn;
	s->link = dlend_link_get(link);
	s->source = source;
	group->standby = s;
	WRITE_ONCE(group->standby_link, link);
	s->domain = dlend_domain_create(&fn->pdev->dev);
	if (IS_ERR(s->domain)) {
		ret = PTR_ERR(s->domain);
		s->domain = NULL;
		return ret;
	}
	s->win = lend_bars_reserve(fn, link, group->lease.move.epoch, grant->bar_offset);
	if (IS_ERR(s->win)) {
		ret = PTR_ERR(s->win);
		s->win = NULL;
		return ret;
	}
	return 0;
}

/* The owner of the memory that is not the holder's. */
static struct dlend_owner *lend_standby_owner(const struct lend_standby *s)
{
	return &s->fn->memory[!s->fn->which];
}

void lend_standby_drop(struct lend_group *group)
{
	struct lend_standby *s = group->standby;

	if (!s)
		return;
	group->standby = NULL;
	WRITE_ONCE(group->standby_link, NULL);
	if (s->domain) {
		dlend_domain_block(s->domain);
		dlend_domain_drop(s->domain, lend_standby_owner(s));
		dlend_domain_destroy(s->domain);
	}
	if (s->win)
		lend_bars_drop(s->win);
	dlend_irq_source_close(s->source);
	dlend_link_put(s->link);
	kfree(s);
}

int lend_standby_swap(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;
	struct lend_standby *s = group->standby;
	int ret;

	lend_fence_group(group);
	lend_group_drop_domain(group);
	/* Nothing that the old holder had leads to the device: its offsets need no reset. */
	lend_bars_reset_done(fn);

	group->standby = NULL;
	WRITE_ONCE(group->standby_link, NULL);
	group->domain = s->domain;
	WRITE_ONCE(group->link, s->link);
	fn->which = !fn->which;
	fn->lent = true;
	lend_irq_open(fn, s->source);
	ret = lend_check_attach(group->domain, fn);
	if (!ret)
		ret = lend_bars_take(fn, s->win);
	else
		lend_bars_drop(s->win);
	if (!ret)
		lend_p2p_open(fn, group->link, group->lease.move.epoch);
	kfree(s);
	return ret;
}

void lend_standby_reach(struct lend_group *group, struct lend_reach *to)
{
	to->domain = group->standby->domain;
	to->link = group->standby->link;
	to->owner = lend_standby_owner(group->standby);
}
