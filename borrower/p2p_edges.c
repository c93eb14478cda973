// SPDX-License-Identifier: GPL-2.0
/*
 * Edges: which BAR each borrowed device reaches, and the worker that keeps that as it should be.
 *
 * From what the members publish, p2p_plan.c says which edges there should be.  One worker makes
 * them: it asks lenders, and nobody who uses a device waits for it.  Must not know what a lender
 * does with a mapping, nor when a device is borrowed.
 *
 * A mapping can lead through this node: then it is a slot of the aperture towards the source's
 * lender, mapped to the window to the target's lender.  Where that leads depends on the target's
 * lease.  So it is unmapped before that is returned, or a new session begins (dlend_p2p_fence()).
 *
 * Only the worker makes and frees edges, so it may look at one without dlend_p2p_lock.
 */
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include "p2p.h"
#include "trace.h"

/* Pause between tries: at first, after a lender has unmapped something by itself, and at most. */
#define DLEND_EDGE_AGAIN_MIN_MS		50u
#define DLEND_EDGE_AGAIN_LOST_MS	1000u
#define DLEND_EDGE_AGAIN_MAX_MS		30000u

/* A failure that ends sooner than this is not worth a line in the log. */
#define DLEND_EDGE_QUIET_MS		1000u

/**
 * struct dlend_edge_end - a device at one end of an edge, and what a message to its lender needs
 * @ref: session of the link to its lender
 * @addr: device
 * @epoch: of its lease
 */
struct dlend_edge_end {
	struct dlend_session_ref ref;
	struct dlend_addr addr;
	u32 epoch;
};

/**
 * struct dlend_edge - a BAR that a device shall reach, or reaches already
 * @node: among all
 * @s: the device that reaches; session and lease are those of @have
 * @t: the device whose BAR it is; likewise
 * @bar: which BAR
 * @want: mapping, as it should be
 * @have: mapping, as it is
 * @route: of @have, or the next one to try
 * @granted: the target's lender was asked to grant the BAR to the source's lender
 * @lost: the source's lender has unmapped it by itself
 * @told: the log has what is wrong
 * @ap: our aperture towards the source's lender; NULL: not in use
 * @slot: in @ap; NULL: none
 * @cookie: of the slot's quarantine
 * @err: of the last try
 * @again: no new try before then, in jiffies
 * @again_ms: how long that is; longer each time
 */
struct dlend_edge {
	struct list_head node;
	struct dlend_edge_end s, t;
	unsigned int bar;
	struct dlend_p2p_wish want, have;
	enum dlend_p2p_route route;
	bool granted, lost, told;
	struct dlend_aperture *ap;
	struct dlend_slot *slot;
	u64 cookie;
	int err;
	unsigned long again;
	unsigned int again_ms;
};

static LIST_HEAD(dlend_edges);

/* The member at one end of an edge, if it still holds the lease that the edge knows. */
static struct dlend_p2p_member *dlend_edge_end_member(const struct dlend_edge_end *end)
{
	struct dlend_p2p_member *m = dlend_p2p_member_of(&end->addr);

	return m && m->dev.epoch == end->epoch ? m : NULL;
}

static bool dlend_edge_end_live(const struct dlend_edge_end *end)
{
	guard(mutex)(&dlend_p2p_lock);
	return dlend_edge_end_member(end);
}

/* Slots of edges that lead through this node */

/* When this returns, nothing gets through the slot any more. */
static void dlend_edge_close_slot(struct dlend_edge *e)
{
	lockdep_assert_held(&dlend_p2p_lock);
	if (e->slot)
		e->cookie = dlend_slot_quarantine(e->slot);
	e->slot = NULL;
}

/* @acked: the source's lender maps nothing in the slot. A new session releases all anyway. */
static void dlend_edge_release_slot(struct dlend_edge *e, bool acked)
{
	lockdep_assert_held(&dlend_p2p_lock);
	dlend_edge_close_slot(e);
	if (e->cookie && acked && dlend_session_live(&e->s.ref))
		dlend_slot_release(e->ap, e->cookie);
	e->cookie = 0;
	e->ap = NULL;
}

void dlend_p2p_fence(const struct dlend_addr *addr, u32 epoch)
{
	struct dlend_edge *e;

	guard(mutex)(&dlend_p2p_lock);
	list_for_each_entry(e, &dlend_edges, node)
		if ((dlend_addr_same(&e->s.addr, addr) && e->s.epoch == epoch) ||
		    (dlend_addr_same(&e->t.addr, addr) && e->t.epoch == epoch))
			dlend_edge_close_slot(e);
}
DLEND_EXPORT(dlend_p2p_fence);

static int dlend_edge_open_slot(struct dlend_edge *e)
{
	struct dlend_p2p_member *target;
	phys_addr_t phys;
	int ret;

	guard(mutex)(&dlend_p2p_lock);
	target = dlend_edge_end_member(&e->t);
	/* Under dlend_p2p_lock: a lease that ends later finds the slot (dlend_p2p_fence()). */
	if (!target || !dlend_session_live(&e->s.ref))
		return -ENOTCONN;
	phys = target->bar_phys[e->bar];
	e->ap = dlend_link_aperture(e->s.ref.link);
	if (!phys || !e->ap)
		return -ENOTCONN;
	e->slot = dlend_slot_alloc(e->ap, e->want.size, min_t(u64, e->want.size, SZ_1G), 0,
				   DLEND_SLOT_P2P);
	if (IS_ERR(e->slot)) {
		ret = PTR_ERR(e->slot);
		e->slot = NULL;
		return ret;
	}
	ret = dlend_slot_map_phys(e->slot, (struct dlend_piece) {
		.size = e->want.size,
		.phys = phys,
		.prot = DLEND_PROT_READ | DLEND_PROT_WRITE,
		.mmio = true,
	});
	if (!ret)
		return 0;
	/* No lender knows the slot: it can be used again at once. */
	dlend_slot_free(e->slot);
	e->slot = NULL;
	return ret;
}

/* Asking lenders; by the worker, without the lock */

static int dlend_edge_end_ask(const struct dlend_edge_end *end, struct dlend_msg *req)
{
	if (!end->ref.link)
		return -ENOTCONN;
	return dlend_link_call_in(&end->ref, req, NULL, 0);
}

static int dlend_edge_ask_source(struct dlend_edge *e, u16 type, const struct dlend_p2p_wish *wish)
{
	struct dlend_p_p2p *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, type, &e->s.addr, e->s.epoch, sizeof(*p));
	p->gpa = cpu_to_le64(wish->gpa);
	p->size = cpu_to_le64(wish->size);
	p->prot = cpu_to_le32(DLEND_PROT_READ | DLEND_PROT_WRITE);
	p->epoch = cpu_to_le32(e->t.epoch);
	p->lender = cpu_to_le16(e->t.addr.lender);
	p->bdf = cpu_to_le16(e->t.addr.bdf);
	p->bar = cpu_to_le16(e->bar);
	if (type == DLEND_MSG_P2P_MAP && e->route == DLEND_P2P_BORROWER) {
		p->flags = cpu_to_le32(DLEND_P2P_F_OFFSET);
		mutex_lock(&dlend_p2p_lock);
		p->offset = e->slot ? cpu_to_le64(e->slot->offset) : 0;
		mutex_unlock(&dlend_p2p_lock);
		if (!p->offset)
			return -ENOTCONN;
	}
	return dlend_edge_end_ask(&e->s, &req);
}

static int dlend_edge_ask_target(const struct dlend_edge *e, u16 type)
{
	struct dlend_p_p2p_grant *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, type, &e->t.addr, e->t.epoch, sizeof(*p));
	p->node = cpu_to_le16(e->s.addr.lender);
	p->bar = cpu_to_le16(e->bar);
	return dlend_edge_end_ask(&e->t, &req);
}

/* One grant serves all devices of a lender: does another device need it? */
static bool dlend_edge_grant_shared(const struct dlend_edge *e)
{
	const struct dlend_edge *other;

	guard(mutex)(&dlend_p2p_lock);
	list_for_each_entry(other, &dlend_edges, node)
		if (other != e && other->granted && other->bar == e->bar &&
		    dlend_addr_same(&other->t.addr, &e->t.addr) && other->t.epoch == e->t.epoch &&
		    other->s.addr.lender == e->s.addr.lender)
			return true;
	return false;
}

/* Give a grant back.  If the target's lease has ended, its grants have ended with it. */
static void dlend_edge_give_back(struct dlend_edge *e)
{
	if (!e->granted)
		return;
	if (dlend_edge_end_live(&e->t) && !dlend_edge_grant_shared(e))
		dlend_edge_ask_target(e, DLEND_MSG_P2P_UNGRANT);
	e->granted = false;
}

/* Room in windows */

/* The room that the way of an edge takes. Return: false if it takes none. */
static bool dlend_edge_room(const struct dlend_edge *e, struct dlend_p2p_booking *b)
{
	*b = (struct dlend_p2p_booking){
		.s = e->s.addr, .t = e->t.addr, .bar = e->bar, .bytes = e->want.size,
	};
	return dlend_p2p_booking_place(b, dlend_node_id(), e->route);
}

/* What was promised is booked already.  All else must not take what others were promised. */
static int dlend_edge_book(const struct dlend_edge *e, const struct dlend_p2p_fabric *fabric)
{
	struct dlend_p2p_member *source;
	struct dlend_p2p_booking want;

	if (!dlend_edge_room(e, &want))
		return 0;
	guard(mutex)(&dlend_p2p_lock);
	source = dlend_edge_end_member(&e->s);
	/* A device that has left its VM takes its bookings along. */
	if (!source || !dlend_edge_end_member(&e->t))
		return -ENOTCONN;
	want.party = source->party;
	if (dlend_p2p_booking_find(&dlend_p2p_bookings, &want))
		return 0;
	if (!dlend_p2p_booking_fits(&dlend_p2p_bookings, fabric, &want))
		return -ENOBUFS;
	return dlend_p2p_book(&want) ? 0 : -ENOMEM;
}

/* Nothing is mapped by this way any more: unless it was promised, others may have the room. */
static void dlend_edge_unbook(const struct dlend_edge *e)
{
	struct dlend_p2p_booking like, *b;

	if (!dlend_edge_room(e, &like))
		return;
	guard(mutex)(&dlend_p2p_lock);
	b = dlend_p2p_booking_find(&dlend_p2p_bookings, &like);
	if (b && !b->promised)
		dlend_p2p_unbook(b);
}

static void dlend_edge_put_off(struct dlend_edge *e, unsigned int ms)
{
	lockdep_assert_held(&dlend_p2p_lock);
	e->again_ms = ms;
	e->again = jiffies + msecs_to_jiffies(ms);
}

static void dlend_edge_unmap(struct dlend_edge *e)
{
	char name[DLEND_NAME_LEN];
	int ret = 0;

	/*
	 * If the source's lease is over, nothing is mapped under it any more.  But if a slot is in
	 * use, only the source's lender can say that nothing leads there: so ask it.  It is asked
	 * even if it has said that the mapping is lost: that may have been the one before this.
	 */
	if (dlend_edge_end_live(&e->s) || e->ap)
		ret = dlend_edge_ask_source(e, DLEND_MSG_P2P_UNMAP, &e->have);
	if (ret == -ENOENT || ret == -ESTALE || ret == -ENODEV)
		ret = 0;
	if (ret && ret != -ENOTCONN)
		dev_warn_ratelimited(dlend_link_dev(e->s.ref.link),
				     "node %u did not unmap a BAR of %s (%d): its part of the window stays reserved until the link restarts\n",
				     e->s.addr.lender, dlend_addr_name(&e->t.addr, name), ret);
	mutex_lock(&dlend_p2p_lock);
	dlend_edge_release_slot(e, !ret);
	mutex_unlock(&dlend_p2p_lock);
	dlend_edge_give_back(e);
	dlend_edge_unbook(e);
	trace_dlend_p2p(&e->s.addr, &e->t.addr, e->lost ? "lost" : "unmap", e->bar, e->route,
			e->have.gpa, e->have.size, ret);
	mutex_lock(&dlend_p2p_lock);
	e->err = e->lost ? -ECONNRESET : 0;
	if (e->lost)
		dlend_edge_put_off(e, DLEND_EDGE_AGAIN_LOST_MS);
	e->have.on = false;
	e->lost = false;
	mutex_unlock(&dlend_p2p_lock);
	dlend_session_drop(&e->s.ref);
	dlend_session_drop(&e->t.ref);
}

static int dlend_edge_try(struct dlend_edge *e, const struct dlend_p2p_fabric *fabric)
{
	int ret = dlend_edge_book(e, fabric);

	if (ret)
		return ret;
	if (e->route == DLEND_P2P_LENDERS) {
		ret = dlend_edge_ask_target(e, DLEND_MSG_P2P_GRANT);
		e->granted = !ret || ret == -ETIMEDOUT;
	} else if (e->route == DLEND_P2P_BORROWER) {
		ret = dlend_edge_open_slot(e);
	}
	if (!ret)
		ret = dlend_edge_ask_source(e, DLEND_MSG_P2P_MAP, &e->want);
	if (!ret)
		return 0;
	/* The lender may have mapped it, and only its answer is late. */
	if (ret == -ETIMEDOUT)
		dlend_edge_ask_source(e, DLEND_MSG_P2P_UNMAP, &e->want);
	mutex_lock(&dlend_p2p_lock);
	dlend_edge_release_slot(e, ret != -ETIMEDOUT);
	mutex_unlock(&dlend_p2p_lock);
	dlend_edge_give_back(e);
	dlend_edge_unbook(e);
	return ret;
}

/* Is another route worth a try after @err? Not if the address itself is the problem. */
static bool dlend_edge_worth_detour(int err)
{
	return err == -EHOSTUNREACH || err == -ENOSPC || err == -EDQUOT || err == -ENOBUFS ||
	       err == -ENOTCONN || err == -EAGAIN || err == -ERANGE;
}

static void dlend_edge_explain(const struct dlend_edge *e)
{
	char from[DLEND_NAME_LEN], to[DLEND_NAME_LEN];
	struct device *dev = dlend_link_dev(e->s.ref.link);
	const char *what, *todo;

	what = dlend_p2p_err_text(e->err, &todo);
	dev_warn(dev,
		 "%s does not reach BAR %u of %s at %#llx (%s, %d): %s; %s\n",
		 dlend_addr_name(&e->s.addr, from), e->bar, dlend_addr_name(&e->t.addr, to),
		 e->want.gpa, dlend_p2p_route_name(e->route), e->err, what, todo);
}

static bool dlend_edge_end_take(struct dlend_edge_end *end, u32 epoch)
{
	struct dlend_p2p_member *m;

	lockdep_assert_held(&dlend_p2p_lock);
	m = dlend_p2p_member_of(&end->addr);
	if (!m || m->dev.epoch != epoch || !m->ref.link)
		return false;
	end->ref = m->ref;
	dlend_link_get(end->ref.link);
	end->epoch = epoch;
	return true;
}

static int dlend_edge_take_ends(struct dlend_edge *e)
{
	int ret = 0;

	mutex_lock(&dlend_p2p_lock);
	e->lost = false;
	if (!dlend_edge_end_take(&e->s, e->want.source_epoch) ||
	    !dlend_edge_end_take(&e->t, e->want.target_epoch))
		ret = -ENOTCONN;
	mutex_unlock(&dlend_p2p_lock);
	return ret;
}

static void dlend_edge_map(struct dlend_edge *e, const struct dlend_p2p_fabric *fabric)
{
	struct dlend_p2p_wish want = e->want;
	enum dlend_p2p_route route = dlend_p2p_route(fabric, e->s.addr.lender, e->t.addr.lender);
	int ret = dlend_edge_take_ends(e);
	bool booked = false;

	while (!ret) {
		e->route = route;
		ret = dlend_edge_try(e, fabric);
		trace_dlend_p2p(&e->s.addr, &e->t.addr, "map", e->bar, e->route, want.gpa,
				want.size, ret);
		if (!ret || !dlend_edge_worth_detour(ret))
			break;
		booked = booked || ret == -ENOBUFS;
		route = dlend_p2p_detour(fabric, e->s.addr.lender, e->t.addr.lender, e->route);
		if (route == DLEND_P2P_NONE)
			break;
		ret = 0;
	}
	/* When another VM ends there is room, whatever the other ways lack. */
	if (ret && booked)
		ret = -ENOBUFS;
	mutex_lock(&dlend_p2p_lock);
	e->err = ret;
	e->have = want;
	e->have.on = !ret;
	if (ret)
		e->lost = false;
	dlend_edge_put_off(e, ret ? clamp(e->again_ms * 2, DLEND_EDGE_AGAIN_MIN_MS,
					  DLEND_EDGE_AGAIN_MAX_MS) : 0);
	mutex_unlock(&dlend_p2p_lock);
	/* Log it once, and only if it does not end by itself in a moment. */
	if (ret && e->s.ref.link && !e->told && ret != -ENOTCONN && ret != -ESTALE &&
	    (ret != -EAGAIN || e->again_ms > DLEND_EDGE_QUIET_MS)) {
		e->told = true;
		dlend_edge_explain(e);
	}
	if (ret) {
		dlend_session_drop(&e->s.ref);
		dlend_session_drop(&e->t.ref);
	}
}

/* The worker */

static struct dlend_edge *dlend_edge_find(const struct dlend_addr *s, const struct dlend_addr *t,
					  unsigned int bar)
{
	struct dlend_edge *e;

	lockdep_assert_held(&dlend_p2p_lock);
	list_for_each_entry(e, &dlend_edges, node)
		if (e->bar == bar && dlend_addr_same(&e->s.addr, s) &&
		    dlend_addr_same(&e->t.addr, t))
			return e;
	return NULL;
}

/* The device @party->of shall reach that BAR of the device @t: note how, as the plan says. */
static void dlend_edge_want(const struct dlend_p2p_party *party, unsigned int t, unsigned int bar)
{
	const struct dlend_p2p_dev *source = &party->dev[party->of], *target = &party->dev[t];
	struct dlend_p2p_wish wish;
	struct dlend_edge *e;

	if (dlend_p2p_want(party->dev, party->n, (struct dlend_p2p_way){ party->of, t, bar },
			   &wish) != DLEND_P2P_OK)
		return;
	e = dlend_edge_find(&source->addr, &target->addr, bar);
	if (!e) {
		e = kzalloc_obj(*e);
		if (!e)
			return;		/* the next change of any member tries again */
		e->s.addr = source->addr;
		e->t.addr = target->addr;
		e->bar = bar;
		list_add_tail(&e->node, &dlend_edges);
	}
	if (!dlend_p2p_wish_same(&e->want, &wish)) {
		e->told = false;
		e->again = jiffies;
		e->again_ms = 0;
	}
	e->want = wish;
}

/* Is it as it should be, or was it tried in vain? */
static bool dlend_edge_settled(const struct dlend_edge *e)
{
	switch (dlend_p2p_step(&e->want, &e->have)) {
	case DLEND_P2P_KEEP:
		return !e->lost;
	case DLEND_P2P_MAP:
		return e->again_ms;
	default:
		return false;
	}
}

/* Whoever waits until a device reaches all that it shall learns of it. */
static void dlend_edges_note_settled(void)
{
	struct dlend_p2p_member *m;
	struct dlend_edge *e;
	bool settled;

	lockdep_assert_held(&dlend_p2p_lock);
	list_for_each_entry(m, &dlend_p2p_members, node) {
		settled = true;
		list_for_each_entry(e, &dlend_edges, node)
			if (dlend_addr_same(&e->s.addr, &m->dev.addr))
				settled = settled && dlend_edge_settled(e);
		if (settled == m->settled)
			continue;
		WRITE_ONCE(m->settled, settled);
		if (settled)
			wake_up_all(m->wq);
	}
}

/* Find out what should be mapped, from what the members publish. */
static void dlend_edges_want(struct dlend_p2p_party *party)
{
	struct dlend_p2p_member *m;
	unsigned int t, bar;
	struct dlend_edge *e;

	list_for_each_entry(e, &dlend_edges, node)
		e->want.on = false;
	list_for_each_entry(m, &dlend_p2p_members, node) {
		dlend_p2p_collect(m, party);
		for (t = 0; t < party->n && party->of < party->n; t++)
			for (bar = 0; bar < DLEND_NUM_BARS; bar++)
				dlend_edge_want(party, t, bar);
	}
	dlend_p2p_changed = false;
}

/* Not at each step: it is long, and others wait for the lock. */
static void dlend_edges_plan(struct dlend_p2p_party *party)
{
	guard(mutex)(&dlend_p2p_lock);
	if (dlend_p2p_changed)
		dlend_edges_want(party);
	dlend_edges_note_settled();
}

/* The next edge that needs a step; @step (out): which.  Frees edges that nobody needs. */
static struct dlend_edge *dlend_edges_next(enum dlend_p2p_step *step)
{
	struct dlend_edge *e, *next;

	guard(mutex)(&dlend_p2p_lock);
	/* First unmap: an old mapping may be in the way of a new one. */
	list_for_each_entry_safe(e, next, &dlend_edges, node) {
		*step = e->lost ? DLEND_P2P_UNMAP : dlend_p2p_step(&e->want, &e->have);
		if (*step == DLEND_P2P_UNMAP)
			return e;
		if (!e->want.on) {
			list_del(&e->node);
			kfree(e);
		}
	}
	*step = DLEND_P2P_MAP;
	list_for_each_entry(e, &dlend_edges, node)
		if (dlend_p2p_step(&e->want, &e->have) == DLEND_P2P_MAP &&
		    time_after_eq(jiffies, e->again))
			return e;
	return NULL;
}

/* Milliseconds until something is tried again, 0: nothing is. */
static unsigned int dlend_edges_next_try_ms(void)
{
	unsigned int ms = 0, wait;
	struct dlend_edge *e;

	guard(mutex)(&dlend_p2p_lock);
	list_for_each_entry(e, &dlend_edges, node) {
		if (!e->want.on || e->have.on)
			continue;
		wait = time_after(e->again, jiffies) ? jiffies_to_msecs(e->again - jiffies) : 0;
		ms = min(ms ?: U32_MAX, max(wait, DLEND_EDGE_AGAIN_MIN_MS));
	}
	return ms;
}

static void dlend_edges_work(struct work_struct *work)
{
	struct dlend_p2p_party *party = kzalloc_obj(*party);
	struct dlend_p2p_fabric fabric;
	enum dlend_p2p_step step;
	struct dlend_edge *e;
	unsigned int ms;
	void *paths;

	while (party) {
		dlend_edges_plan(party);
		e = dlend_edges_next(&step);
		if (!e)
			break;
		if (step == DLEND_P2P_UNMAP) {
			dlend_edge_unmap(e);
			continue;
		}
		paths = dlend_p2p_paths_get(&fabric);
		dlend_edge_map(e, &fabric);
		kfree(paths);
	}
	ms = party ? dlend_edges_next_try_ms() : DLEND_EDGE_AGAIN_MIN_MS;
	if (ms)
		queue_delayed_work(dlend_p2p_wq, &dlend_p2p_dwork, msecs_to_jiffies(ms));
	kfree(party);
}

void dlend_p2p_note_lost(struct dlend_link *link, const struct dlend_addr *source, u32 epoch,
			 const struct dlend_p_p2p *p)
{
	struct dlend_addr target = dlend_p2p_target(p);
	struct dlend_edge *e;

	guard(mutex)(&dlend_p2p_lock);
	e = dlend_edge_find(source, &target, le16_to_cpu(p->bar));
	if (!e || e->s.ref.link != link || e->s.epoch != epoch ||
	    e->t.epoch != le32_to_cpu(p->epoch))
		return;
	e->lost = true;
	dlend_p2p_kick();
}

/* For people */

static int dlend_edge_emit(const struct dlend_p2p_party *party, unsigned int t, unsigned int bar,
			   char *buf, int at)
{
	const struct dlend_p2p_dev *target = &party->dev[t];
	char name[DLEND_NAME_LEN];
	struct dlend_p2p_wish wish;
	const struct dlend_edge *e;
	enum dlend_p2p_why why;

	why = dlend_p2p_want(party->dev, party->n, (struct dlend_p2p_way){ party->of, t, bar },
			     &wish);
	if (why == DLEND_P2P_NO_BAR)
		return 0;
	e = dlend_edge_find(&party->dev[party->of].addr, &target->addr, bar);
	at += sysfs_emit_at(buf, at, "%s bar%u %#llx %#llx ",
			    dlend_addr_name(&target->addr, name), bar, target->bar[bar].gpa,
			    target->bar[bar].size);
	if (e && e->have.on)
		return at + sysfs_emit_at(buf, at, "%s mapped\n", dlend_p2p_route_name(e->route));
	if (why != DLEND_P2P_OK)
		return at + sysfs_emit_at(buf, at, "none %s\n", dlend_p2p_why_text(why));
	if (e && e->err)
		return at + sysfs_emit_at(buf, at, "none error %d, %s\n", e->err,
					  dlend_p2p_err_text(e->err, NULL));
	return at + sysfs_emit_at(buf, at, "none soon\n");
}

ssize_t dlend_p2p_emit(struct dlend_p2p_member *m, char *buf)
{
	struct dlend_p2p_party *party = kzalloc_obj(*party);
	unsigned int t, bar;
	int at = 0, len;

	if (!party)
		return -ENOMEM;
	mutex_lock(&dlend_p2p_lock);
	if (m->joined)
		dlend_p2p_collect(m, party);
	for (t = 0; t < party->n && party->of < party->n; t++) {
		/* That a device reaches itself is no news. */
		for (bar = 0; bar < DLEND_NUM_BARS && t != party->of; bar++) {
			len = dlend_edge_emit(party, t, bar, buf, at);
			/* Whole lines only. */
			if (len < PAGE_SIZE - 1)
				at = max(at, len);
		}
	}
	mutex_unlock(&dlend_p2p_lock);
	kfree(party);
	return at;
}
DLEND_EXPORT(dlend_p2p_emit);

int dlend_p2p_init(void)
{
	INIT_DELAYED_WORK(&dlend_p2p_dwork, dlend_edges_work);
	/* Its mappings may be the path to a disk to which this host writes its memory out. */
	dlend_p2p_wq = alloc_ordered_workqueue("dlend-p2p", WQ_MEM_RECLAIM);
	return dlend_p2p_wq ? 0 : -ENOMEM;
}

void dlend_p2p_exit(void)
{
	dlend_p2p_kick();
	flush_delayed_work(&dlend_p2p_dwork);
	cancel_delayed_work_sync(&dlend_p2p_dwork);
	destroy_workqueue(dlend_p2p_wq);
	dlend_p2p_paths_exit();
}
