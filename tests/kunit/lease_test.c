// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the lease (lender/lease_sm.c).
 *
 * The model check plays the world around the machine: two nodes that borrow, return, crash and
 * reboot, messages that come late, resets that fail, functions that are unbound, a guest that moves
 * from one node to the other; a group of two functions.  It visits every state that any sequence of
 * events can reach and tries every event in each of them, and then plays long random sequences with
 * epochs that wrap around.
 */
#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "lender/lease_sm.h"

#define NODES		3	/* 0 is nobody */
#define FUNCTIONS	2
#define MAX_WORLDS	1024
#define EVENTS		(2 * 2 * 3 * 3 * 2)	/* of each type: see nth_event() */
#define BASE_EPOCH	1000u

/**
 * struct world - the machine, and what is true around it
 * @access: functions that a node's device accesses reach, as bits
 * @prepared: epoch under which a node prepares itself to take over; 0: it does not
 * @runs: a node has a guest that uses the device; not while that guest stands still, quiet
 * @dirty: lent since the last good reset
 * @failed: the reset after a lease failed
 * @broken: the last reset of a function that nobody had failed
 */
struct world {
	struct lend_lease lease;
	u8 access[NODES];
	u32 prepared[NODES];
	bool runs[NODES];
	bool dirty;
	bool failed;
	bool broken;
};

static void world_init(struct world *w, u32 epoch)
{
	memset(w, 0, sizeof(*w));
	lend_lease_init(&w->lease, epoch);
}

static bool somebody_reaches(const struct world *w)
{
	return w->access[1] || w->access[2];
}

static int told(const struct world *w, u16 node, u16 keeper, u16 *who)
{
	const struct lend_for whom = { .node = node };

	return lend_lease_state_for(&w->lease, &whom, keeper, who);
}

/* A grant promises: nobody else has the device, and nothing of the last lease is left. */
static void check_grant(struct kunit *test, const struct world *w, const struct lend_event *ev,
			u32 before)
{
	KUNIT_EXPECT_FALSE(test, somebody_reaches(w));
	KUNIT_EXPECT_FALSE(test, w->dirty);
	KUNIT_EXPECT_FALSE(test, w->failed);
	KUNIT_EXPECT_FALSE(test, w->broken);
	KUNIT_EXPECT_TRUE(test, dlend_epoch_after(w->lease.epoch, before));
	KUNIT_EXPECT_NE(test, w->lease.epoch, 0u);
	KUNIT_EXPECT_EQ(test, w->lease.holder, ev->node);
}

static void check_join(struct kunit *test, const struct world *w, const struct lend_event *ev)
{
	KUNIT_EXPECT_EQ(test, w->lease.holder, ev->node);
	KUNIT_EXPECT_EQ(test, w->access[3 - ev->node], 0);
	KUNIT_EXPECT_EQ(test, w->access[ev->node] & BIT(ev->fn), 0u);
}

/* Who takes over is the one that prepared itself, and no guest runs. */
static void check_swap(struct kunit *test, const struct world *w, const struct lend_event *ev,
		       const struct lend_lease *before)
{
	KUNIT_EXPECT_FALSE(test, w->runs[1] || w->runs[2]);
	KUNIT_EXPECT_EQ(test, w->prepared[ev->node], ev->epoch);
	KUNIT_EXPECT_EQ(test, w->lease.epoch, ev->epoch);
	KUNIT_EXPECT_EQ(test, w->lease.holder, ev->node);
	KUNIT_EXPECT_TRUE(test, dlend_epoch_after(w->lease.epoch, before->epoch));
	KUNIT_EXPECT_EQ(test, w->access[ev->node], 0);
	KUNIT_EXPECT_EQ(test, memcmp(&before->move.token, &ev->token, sizeof(ev->token)), 0);
	KUNIT_EXPECT_TRUE(test, before->move.given);
}

/* Whoever reaches the device has it, as far as anybody is told. */
static void check_told(struct kunit *test, const struct world *w)
{
	for (u16 node = 1; node < NODES; node++) {
		u16 who;

		if (!w->access[node])
			continue;
		for (u16 hears = 0; hears < NODES; hears++) {
			KUNIT_EXPECT_EQ(test, told(w, hears, 0, &who), (int)DLEND_OFFER_HELD);
			KUNIT_EXPECT_EQ(test, who, node);
		}
	}
}

/*
 * A node may make requests exactly for the functions that it has access to, and for none that is
 * just being fenced.
 */
static void check_rights(struct kunit *test, const struct world *w)
{
	const struct lend_lease *l = &w->lease;

	KUNIT_EXPECT_FALSE(test, w->access[1] && w->access[2]);
	for (u16 node = 1; node < NODES; node++) {
		for (unsigned int fn = 0; fn < FUNCTIONS; fn++) {
			int want = w->access[node] & BIT(fn) && !l->reached ? 0 : -ESTALE;

			KUNIT_EXPECT_EQ(test, lend_lease_check(l, node, l->epoch, fn), want);
			KUNIT_EXPECT_EQ(test, lend_lease_check(l, node, l->epoch - 1, fn), -ESTALE);
			KUNIT_EXPECT_EQ(test, lend_lease_check(l, node, l->epoch + 1, fn), -ESTALE);
		}
	}
	for (u16 node = 1; node < NODES; node++) {
		u32 epoch = w->prepared[node];

		KUNIT_EXPECT_EQ(test, lend_lease_check_standby(l, node, epoch ?: l->last),
				epoch ? 0 : -ESTALE);
		KUNIT_EXPECT_FALSE(test, epoch && w->access[node]);
		KUNIT_EXPECT_FALSE(test, w->runs[node] && l->move.given);
	}
	if (l->state != DLEND_OFFER_HELD) {
		KUNIT_EXPECT_FALSE(test, somebody_reaches(w) && !l->reached);
		KUNIT_EXPECT_FALSE(test, w->prepared[1] || w->prepared[2]);
		KUNIT_EXPECT_NULL(test, memchr_inv(&l->move, 0, sizeof(l->move)));
	}
	if (w->failed || w->broken)
		KUNIT_EXPECT_NE(test, (int)l->state, (int)DLEND_OFFER_FREE);
}

/* Do what the state machine says, as lender/lease.c does. */
static void obey(struct world *w, const struct lend_event *ev, u32 todo)
{
	if (todo & (LEND_DO_GRANT | LEND_DO_JOIN)) {
		w->access[ev->node] |= BIT(ev->fn);
		w->dirty = true;
	}
	if (todo & LEND_DO_GRANT)
		w->runs[ev->node] = true;
	if (todo & LEND_DO_LEAVE)
		w->access[ev->node] &= ~BIT(ev->fn);
	/* After LEND_DO_FENCE there is an event of its own. */
	if (todo & (LEND_DO_PARK | LEND_DO_SWAP))
		memset(w->access, 0, sizeof(w->access));
	if (todo & (LEND_DO_FENCE | LEND_DO_PARK | LEND_DO_SWAP))
		memset(w->runs, 0, sizeof(w->runs));
	if (todo & (LEND_DO_DROP | LEND_DO_SWAP))
		memset(w->prepared, 0, sizeof(w->prepared));
	if (todo & LEND_DO_PREPARE)
		w->prepared[ev->node] = w->lease.move.epoch;
	if (todo & LEND_DO_SWAP) {
		w->access[ev->node] |= BIT(ev->fn);
		w->runs[ev->node] = true;
	}
}

/* What the holder of the device says of its guest. */
static void note_guest(struct world *w, const struct lend_event *ev)
{
	if (ev->type == LEND_EV_QUIESCED)
		w->runs[ev->node] = false;
	if (ev->type == LEND_EV_RUN)
		w->runs[ev->node] = true;
}

static int step(struct kunit *test, struct world *w, const struct lend_event *ev)
{
	struct lend_lease before = w->lease;
	u16 who, was_who;
	int was = told(w, 0, 0, &was_who), ret;
	u32 todo = ~0u;

	ret = lend_lease_step(&w->lease, ev, &todo);
	if (ret) {
		KUNIT_EXPECT_EQ(test, memcmp(&before, &w->lease, sizeof(before)), 0);
		KUNIT_EXPECT_EQ(test, todo, 0u);
	}
	if (!(todo & (LEND_DO_GRANT | LEND_DO_SWAP)))
		KUNIT_EXPECT_EQ(test, w->lease.epoch, before.epoch);
	KUNIT_EXPECT_FALSE(test, dlend_epoch_after(w->lease.epoch, w->lease.last));
	KUNIT_EXPECT_FALSE(test, dlend_epoch_after(before.last, w->lease.last));
	if (todo & LEND_DO_SWAP)
		check_swap(test, w, ev, &before);
	if (todo & LEND_DO_GRANT)
		check_grant(test, w, ev, before.epoch);
	if (todo & LEND_DO_JOIN)
		check_join(test, w, ev);
	if (!ret && ev->type == LEND_EV_CUT_OFF)
		memset(w->access, 0, sizeof(w->access));
	if (!ret && ev->type == LEND_EV_FENCED)
		w->dirty = false;
	if (!ret && ev->type == LEND_EV_FENCE_FAILED)
		w->failed = true;
	if (!ret && ev->type == LEND_EV_BROKEN)
		w->broken = true;
	if (!ret && ev->type == LEND_EV_OFFER)
		w->broken = false;
	if (!ret)
		note_guest(w, ev);
	if (told(w, 0, 0, &who) != was || who != was_who)
		KUNIT_EXPECT_TRUE(test, todo & LEND_DO_ANNOUNCE);
	obey(w, ev, todo);
	check_rights(test, w);
	check_told(test, w);
	return ret;
}

/* The n-th of all events that make a difference; false when there are no more. */
static bool nth_event(unsigned int n, u32 epoch, struct lend_event *ev)
{
	static const int ages[] = { 0, -1, 1 };

	memset(ev, 0, sizeof(*ev));
	ev->type = n / EVENTS;
	ev->node = 1 + n % 2;
	ev->fn = n / 2 % 2;
	ev->epoch = epoch + ages[n / 4 % 3];
	ev->target = n / 12 % 3;
	ev->token.half[0] = 1 + n / 36 % 2;
	return ev->type < LEND_EVENT_TYPES;
}

static bool known(const struct world *all, unsigned int count, const struct world *w)
{
	for (unsigned int i = 0; i < count; i++)
		if (!memcmp(&all[i], w, sizeof(*w)))
			return true;
	return false;
}

/* Only differences of epochs matter: keep the number of states finite. */
static void forget_numbers(struct world *w)
{
	w->lease.epoch = BASE_EPOCH;
	w->lease.last = BASE_EPOCH;
	if (w->lease.move.epoch) {
		w->lease.move.epoch = BASE_EPOCH + 1;
		w->lease.last = BASE_EPOCH + 1;
	}
	for (u16 node = 1; node < NODES; node++)
		if (w->prepared[node])
			w->prepared[node] = BASE_EPOCH + 1;
}

static void lease_every_state(struct kunit *test)
{
	struct world *all = kunit_kzalloc(test, MAX_WORLDS * sizeof(*all), GFP_KERNEL);
	unsigned int count = 1, held = 0;
	struct lend_event ev;
	struct world w;

	KUNIT_ASSERT_NOT_NULL(test, all);
	world_init(&all[0], BASE_EPOCH);
	for (unsigned int i = 0; i < count; i++) {
		held += all[i].lease.state == DLEND_OFFER_HELD;
		for (unsigned int n = 0; nth_event(n, BASE_EPOCH, &ev); n++) {
			memcpy(&w, &all[i], sizeof(w));
			step(test, &w, &ev);
			forget_numbers(&w);
			if (known(all, count, &w))
				continue;
			KUNIT_ASSERT_LT(test, count, (unsigned int)MAX_WORLDS);
			memcpy(&all[count++], &w, sizeof(w));
		}
	}
	/*
	 * GONE new, GONE failed, each also with a broken function, GONE while the lease of node 1
	 * or 2 is being reset; FREE; RETURNING from one of two nodes; QUARANTINED because a
	 * function is broken, because the reset after a lease failed, or both; GONE or RETURNING
	 * while one of two nodes may still reach one function, the other, or both, or is told to
	 * have what was parked.
	 */
	KUNIT_EXPECT_EQ(test, count - held, 6u + 1 + 2 + 3 + 2 * 2 * (3 + 1));
	/*
	 * HELD by one of two nodes: with both functions, or with one of two that goes nowhere,
	 * while its guest runs or not; with one of two that may go to the other node, which has
	 * prepared itself or not, while its guest runs, stands still, or is given away by one of
	 * two tokens, with or without its holder.
	 */
	KUNIT_EXPECT_EQ(test, held, 2u * (2 + 2 * (2 + 2 * (2 + 2 * 2))));
}

static u32 next_random(u32 *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* What a guest that moves does next: by chance alone hardly any would arrive. */
static void move_on(const struct world *w, struct lend_event *ev)
{
	const struct lend_move *move = &w->lease.move;

	ev->type = !move->target ? LEND_EV_MOVE_TO : !move->standby ? LEND_EV_STANDBY :
		   move->given ? LEND_EV_TAKE_OVER :
		   move->quiesced ? LEND_EV_HAND_OVER : LEND_EV_QUIESCED;
	ev->node = w->lease.holder;
	ev->epoch = w->lease.epoch;
	ev->target = 3 - ev->node;
	if (ev->type == LEND_EV_STANDBY || ev->type == LEND_EV_TAKE_OVER)
		ev->node = 3 - ev->node;
	if (ev->type == LEND_EV_TAKE_OVER)
		ev->epoch = move->epoch;
}

static void lease_random(struct kunit *test)
{
	u32 seed = 42, grants = 0, moves = 0, last;
	struct lend_event ev;
	struct world w;

	for (unsigned int run = 0; run < 200; run++) {
		world_init(&w, run % 2 ? (u32)-3 : BASE_EPOCH);
		for (unsigned int i = 0; i < 2000; i++) {
			last = w.lease.epoch;
			nth_event(next_random(&seed) % (EVENTS * LEND_EVENT_TYPES), last, &ev);
			/* A reset fails seldom, or every run would end there. */
			if (ev.type == LEND_EV_FENCE_FAILED && next_random(&seed) % 16)
				ev.type = LEND_EV_FENCED;
			if (next_random(&seed) % 2)
				move_on(&w, &ev);
			/* The fence follows at once. */
			if (w.lease.reached)
				ev = (struct lend_event){ LEND_EV_CUT_OFF, .epoch = last };
			step(test, &w, &ev);
			grants += w.lease.epoch != last;
			moves += w.lease.epoch != last && ev.type == LEND_EV_TAKE_OVER;
		}
	}
	KUNIT_EXPECT_GT(test, grants, 1000u);
	KUNIT_EXPECT_GT(test, moves, 200u);
}

static int play(struct kunit *test, struct world *w, enum lend_event_type type, u16 node,
		unsigned int fn, u32 epoch)
{
	struct lend_event ev = { .type = type, .node = node, .fn = fn, .epoch = epoch };

	return step(test, w, &ev);
}

/* The device was fenced, and then reset. */
static int fenced(struct kunit *test, struct world *w, enum lend_event_type type)
{
	KUNIT_EXPECT_EQ(test, play(test, w, type, 0, 0, w->lease.epoch), -ESTALE);
	KUNIT_EXPECT_EQ(test, play(test, w, LEND_EV_CUT_OFF, 0, 0, w->lease.epoch), 0);
	return play(test, w, type, 0, 0, w->lease.epoch);
}

static void lease_second_borrower(struct kunit *test)
{
	struct world w;

	world_init(&w, BASE_EPOCH);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), -ENODEV);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_OFFER, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, w.lease.epoch, BASE_EPOCH + 1);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), -EBUSY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 1, 0), -EBUSY);
	KUNIT_EXPECT_EQ(test, w.lease.holder, 1);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), -EBUSY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, w.lease.epoch, BASE_EPOCH + 1);
}

static void lease_return_each(struct kunit *test)
{
	struct world w;
	u32 epoch;

	world_init(&w, BASE_EPOCH);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	play(test, &w, LEND_EV_BORROW, 1, 0, 0);
	play(test, &w, LEND_EV_BORROW, 1, 1, 0);
	epoch = w.lease.epoch;
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RETURN, 2, 0, epoch), -ESTALE);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RETURN, 1, 0, epoch - 1), -EALREADY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RETURN, 1, 0, epoch + 1), -ESTALE);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RETURN, 1, 0, epoch), 0);
	KUNIT_EXPECT_EQ(test, (int)w.lease.state, (int)DLEND_OFFER_HELD);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RETURN, 1, 0, epoch), -EALREADY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RETURN, 1, 1, epoch), 0);
	KUNIT_EXPECT_EQ(test, (int)w.lease.state, (int)DLEND_OFFER_RETURNING);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), -EAGAIN);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_FENCED, 0, 0, epoch - 1), -ESTALE);
	KUNIT_EXPECT_EQ(test, fenced(test, &w, LEND_EV_FENCED), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), 0);
	/* A late message of the first borrower changes nothing. */
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RETURN, 1, 0, epoch), -EALREADY);
	KUNIT_EXPECT_EQ(test, w.lease.holder, 2);
}

static void lease_failed_reset(struct kunit *test)
{
	struct world w;

	world_init(&w, BASE_EPOCH);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	play(test, &w, LEND_EV_BORROW, 1, 0, 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_LINK_LOST, 2, 0, 0), -EALREADY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_LINK_LOST, 1, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, fenced(test, &w, LEND_EV_FENCE_FAILED), 0);
	KUNIT_EXPECT_EQ(test, (int)w.lease.state, (int)DLEND_OFFER_QUARANTINED);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), -EIO);
	/* Not even when one function of the group is bound again. */
	play(test, &w, LEND_EV_UNBIND, 0, 0, 0);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), -EIO);
}

static void lease_unbind_while_held(struct kunit *test)
{
	struct world w;

	world_init(&w, BASE_EPOCH);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	play(test, &w, LEND_EV_BORROW, 1, 0, 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_UNBIND, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_OFFER, 0, 0, 0), -EAGAIN);
	KUNIT_EXPECT_EQ(test, fenced(test, &w, LEND_EV_FENCED), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_OFFER, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), 0);
}

static bool reserve(struct world *w, u16 node)
{
	const struct lend_for whom = { .node = node };

	return lend_lease_reserve(&w->lease, &whom);
}

/* Who has the group keeps it, and what was told of it is true for who hears it. */
static void lease_reserved(struct kunit *test)
{
	struct world w;
	u16 who;

	world_init(&w, BASE_EPOCH);
	KUNIT_EXPECT_TRUE(test, reserve(&w, 2));
	KUNIT_EXPECT_FALSE(test, reserve(&w, 2));
	KUNIT_EXPECT_EQ(test, told(&w, 1, 0, &who), (int)DLEND_OFFER_GONE);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, told(&w, 1, 0, &who), (int)DLEND_OFFER_RESERVED);
	KUNIT_EXPECT_EQ(test, who, 2);
	KUNIT_EXPECT_EQ(test, told(&w, 0, 0, &who), (int)DLEND_OFFER_RESERVED);
	KUNIT_EXPECT_EQ(test, told(&w, 2, 0, &who), (int)DLEND_OFFER_FREE);
	KUNIT_EXPECT_EQ(test, who, 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), -EBUSY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), 0);
	/* For somebody else from now on: it is taken from nobody. */
	KUNIT_EXPECT_TRUE(test, reserve(&w, 1));
	KUNIT_EXPECT_EQ(test, told(&w, 1, 0, &who), (int)DLEND_OFFER_HELD);
	KUNIT_EXPECT_EQ(test, who, 2);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 1, 0), 0);
	play(test, &w, LEND_EV_LINK_LOST, 2, 0, 0);
	/* Its guest takes the device's DMA for ended when it hears this: not before the fence. */
	KUNIT_EXPECT_EQ(test, told(&w, 2, 0, &who), (int)DLEND_OFFER_HELD);
	KUNIT_EXPECT_EQ(test, who, 2);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), -EAGAIN);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), -EAGAIN);
	play(test, &w, LEND_EV_CUT_OFF, 0, 0, w.lease.epoch);
	KUNIT_EXPECT_EQ(test, told(&w, 2, 0, &who), (int)DLEND_OFFER_RETURNING);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_CUT_OFF, 0, 0, w.lease.epoch), -ESTALE);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_FENCED, 0, 0, w.lease.epoch), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), -EBUSY);
	KUNIT_EXPECT_TRUE(test, reserve(&w, 0));
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), 0);
}

static int borrow_for(struct kunit *test, struct world *w, u16 node, u8 vm)
{
	struct lend_event ev = { .type = LEND_EV_BORROW, .node = node, .vm = { vm } };

	return step(test, w, &ev);
}

static void give_back(struct kunit *test, struct world *w, u16 node)
{
	KUNIT_EXPECT_EQ(test, play(test, w, LEND_EV_RETURN, node, 0, w->lease.epoch), 0);
	KUNIT_EXPECT_EQ(test, fenced(test, w, LEND_EV_FENCED), 0);
}

/* It goes with the VM: any node may borrow for that one, and no node for another, or for none. */
static void lease_reserved_for_vm(struct kunit *test)
{
	const struct lend_for whom = { .vm = { 7 } }, asks = { .node = 1, .vm = { 7 } };
	struct world w;
	u16 who;

	world_init(&w, BASE_EPOCH);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	KUNIT_EXPECT_TRUE(test, lend_lease_reserve(&w.lease, &whom));
	KUNIT_EXPECT_FALSE(test, lend_lease_reserve(&w.lease, &whom));
	KUNIT_EXPECT_EQ(test, told(&w, 1, 0, &who), (int)DLEND_OFFER_RESERVED);
	KUNIT_EXPECT_EQ(test, who, 0);
	KUNIT_EXPECT_EQ(test, lend_lease_state_for(&w.lease, &asks, 0, &who),
			(int)DLEND_OFFER_FREE);
	KUNIT_EXPECT_EQ(test, lend_lease_state_for(&w.lease, &asks, 2, &who),
			(int)DLEND_OFFER_KEPT);
	KUNIT_EXPECT_EQ(test, borrow_for(test, &w, 1, 8), -EBUSY);
	KUNIT_EXPECT_EQ(test, borrow_for(test, &w, 1, 0), -EBUSY);
	KUNIT_EXPECT_EQ(test, borrow_for(test, &w, 1, 7), 0);
	give_back(test, &w, 1);
	KUNIT_EXPECT_EQ(test, borrow_for(test, &w, 2, 8), -EBUSY);
	KUNIT_EXPECT_EQ(test, borrow_for(test, &w, 2, 7), 0);
	give_back(test, &w, 2);
	/* For a node instead: whatever VM it borrows for. */
	KUNIT_EXPECT_TRUE(test, reserve(&w, 1));
	KUNIT_EXPECT_EQ(test, borrow_for(test, &w, 2, 7), -EBUSY);
	KUNIT_EXPECT_EQ(test, borrow_for(test, &w, 1, 8), 0);
}

/* Another member of the set keeps a free group for its own borrower. */
static void lease_kept(struct kunit *test)
{
	struct lend_event ev = { .type = LEND_EV_BORROW, .node = 1, .keeper = 2 };
	struct world w;
	u16 who;

	world_init(&w, BASE_EPOCH);
	KUNIT_EXPECT_EQ(test, told(&w, 1, 2, &who), (int)DLEND_OFFER_GONE);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, told(&w, 1, 2, &who), (int)DLEND_OFFER_KEPT);
	KUNIT_EXPECT_EQ(test, who, 2);
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), -EBUSY);
	/* The administrator's word comes first. */
	reserve(&w, 3);
	KUNIT_EXPECT_EQ(test, told(&w, 1, 2, &who), (int)DLEND_OFFER_RESERVED);
	KUNIT_EXPECT_EQ(test, who, 3);
	reserve(&w, 1);
	KUNIT_EXPECT_EQ(test, told(&w, 1, 2, &who), (int)DLEND_OFFER_KEPT);
	KUNIT_EXPECT_EQ(test, who, 2);
	ev.keeper = 0;
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), 0);
	/* Who has it keeps it, also if another member went to another node. */
	KUNIT_EXPECT_EQ(test, told(&w, 1, 2, &who), (int)DLEND_OFFER_HELD);
	KUNIT_EXPECT_EQ(test, who, 1);
	ev.fn = 1;
	ev.keeper = 2;
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), 0);
}

/* Whom does the group of @w keep the others of its set for, as @node asks? */
static u16 keeps_for(const struct world *w, u16 node)
{
	struct lend_hold hold;

	lend_lease_hold(&w->lease, &hold);
	return lend_hold_keeper(&hold, node);
}

static void lease_keeps(struct kunit *test)
{
	struct world w;

	world_init(&w, BASE_EPOCH);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 1), 0);
	play(test, &w, LEND_EV_BORROW, 1, 0, 0);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 1), 0);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 2), 1);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 0), 1);
	/* It is fenced first: then the others may go to anybody. */
	play(test, &w, LEND_EV_LINK_LOST, 1, 0, 0);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 2), 1);
	play(test, &w, LEND_EV_CUT_OFF, 0, 0, w.lease.epoch);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 2), 0);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 0), 0);
}

/* A function is plugged in: no borrower loses what it has, and nobody gets the group afterwards. */
static void lease_incomplete(struct kunit *test)
{
	struct world w;

	world_init(&w, BASE_EPOCH);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_INCOMPLETE, 0, 0, 0), -EALREADY);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	play(test, &w, LEND_EV_BORROW, 1, 0, 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_INCOMPLETE, 0, 0, 0), -EALREADY);
	KUNIT_EXPECT_EQ(test, w.access[1], 1);
	play(test, &w, LEND_EV_RETURN, 1, 0, w.lease.epoch);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_INCOMPLETE, 0, 0, 0), -EALREADY);
	fenced(test, &w, LEND_EV_FENCED);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_INCOMPLETE, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), -ENODEV);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_OFFER, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), 0);
}

/* Nobody has the function, and its reset fails: all see that.  A good reset makes it free again. */
static void lease_broken(struct kunit *test)
{
	struct world w;

	world_init(&w, BASE_EPOCH);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BROKEN, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, (int)w.lease.state, (int)DLEND_OFFER_QUARANTINED);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), -EIO);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_OFFER, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), 0);
	/* A function that somebody has: the end of the lease decides, and for good. */
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BROKEN, 0, 0, 0), -EALREADY);
	play(test, &w, LEND_EV_REVOKE, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BROKEN, 0, 0, 0), -EALREADY);
	fenced(test, &w, LEND_EV_FENCE_FAILED);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_OFFER, 0, 0, 0), -EALREADY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), -EIO);
}

/* A guest moves: the holder owns the device until the other takes over, and nobody resets it. */
static void lease_moves(struct kunit *test)
{
	struct lend_event token = { .token = { { 1, 2 } } }, ev;
	struct world w;
	u32 epoch, next;

	world_init(&w, BASE_EPOCH);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	play(test, &w, LEND_EV_BORROW, 1, 0, 0);
	epoch = w.lease.epoch;
	/* Nobody prepares itself whom the holder has not named. */
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_STANDBY, 2, 0, 0), -EPERM);
	ev = (struct lend_event){ LEND_EV_MOVE_TO, .node = 1, .epoch = epoch, .target = 2 };
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_STANDBY, 2, 0, 0), 0);
	/* Its answer was lost: it begins anew, and what it had is nobody's. */
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_STANDBY, 2, 0, 0), 0);
	next = w.lease.move.epoch;
	KUNIT_EXPECT_EQ(test, next, epoch + 2);
	KUNIT_EXPECT_EQ(test, lend_lease_check_standby(&w.lease, 2, epoch + 1), -ESTALE);
	/* Not while the guest runs. */
	token.node = 1;
	token.epoch = epoch;
	token.type = LEND_EV_HAND_OVER;
	KUNIT_EXPECT_EQ(test, step(test, &w, &token), -EINPROGRESS);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_TAKE_OVER, 2, 0, next), -EINPROGRESS);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_QUIESCED, 1, 0, epoch), 0);
	KUNIT_EXPECT_EQ(test, step(test, &w, &token), 0);
	/* A wrong token; then the holder's guest goes on: the right one is worth nothing. */
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_TAKE_OVER, 2, 0, next), -EPERM);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RUN, 1, 0, epoch), 0);
	ev = token;
	ev.type = LEND_EV_TAKE_OVER;
	ev.node = 2;
	ev.epoch = next;
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), -EINPROGRESS);
	/* Once more; now the holder is gone before the other one has begun. */
	play(test, &w, LEND_EV_QUIESCED, 1, 0, epoch);
	KUNIT_EXPECT_EQ(test, step(test, &w, &token), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RETURN, 1, 0, epoch), 0);
	KUNIT_EXPECT_EQ(test, (int)w.lease.state, (int)DLEND_OFFER_HELD);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RUN, 1, 0, epoch), -ESTALE);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), -EAGAIN);
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), 0);
	KUNIT_EXPECT_EQ(test, w.lease.holder, 2);
	KUNIT_EXPECT_TRUE(test, w.dirty);
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), -ESTALE);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_EXPIRED, 0, 0, epoch), -EALREADY);
	/* What the old holder says late changes nothing. */
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RETURN, 1, 0, epoch), -EALREADY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_RUN, 1, 0, epoch), -ESTALE);
	KUNIT_EXPECT_EQ(test, w.lease.epoch, next);
}

/* Nobody takes over what was given away: it is reset, like anything that is returned. */
static void lease_move_expires(struct kunit *test)
{
	struct lend_event ev;
	struct world w;
	u32 epoch;

	world_init(&w, BASE_EPOCH);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	play(test, &w, LEND_EV_BORROW, 1, 1, 0);
	epoch = w.lease.epoch;
	ev = (struct lend_event){ LEND_EV_MOVE_TO, .node = 1, .fn = 1, .epoch = epoch,
				  .target = 1 };
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), -EINVAL);
	ev.target = 2;
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 1, 0, 0), -EBUSY);
	play(test, &w, LEND_EV_STANDBY, 2, 1, 0);
	play(test, &w, LEND_EV_QUIESCED, 1, 1, epoch);
	ev.type = LEND_EV_HAND_OVER;
	ev.token.half[1] = 7;
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_EXPIRED, 0, 0, epoch), -EALREADY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_LINK_LOST, 1, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_LINK_LOST, 1, 0, 0), -EALREADY);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_STANDBY_LOST, 2, 0, epoch + 1), 0);
	KUNIT_EXPECT_EQ(test, (int)w.lease.state, (int)DLEND_OFFER_HELD);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_EXPIRED, 0, 0, epoch), 0);
	KUNIT_EXPECT_EQ(test, (int)w.lease.state, (int)DLEND_OFFER_RETURNING);
	KUNIT_EXPECT_EQ(test, fenced(test, &w, LEND_EV_FENCED), 0);
	KUNIT_EXPECT_EQ(test, play(test, &w, LEND_EV_BORROW, 2, 0, 0), 0);
	/* The epoch of who never took over is nobody else's. */
	KUNIT_EXPECT_EQ(test, w.lease.epoch, epoch + 2);
}

/*
 * A VM moves from node 1 to node 2 with several members of a set.  For a while each node has some:
 * the one that is still to come keeps the rest for both, the one that has come for node 2 alone.
 */
static void lease_keeps_moving(struct kunit *test)
{
	struct lend_event ev;
	struct world w;
	u32 epoch;

	world_init(&w, BASE_EPOCH);
	play(test, &w, LEND_EV_OFFER, 0, 0, 0);
	play(test, &w, LEND_EV_BORROW, 1, 0, 0);
	epoch = w.lease.epoch;
	ev = (struct lend_event){ LEND_EV_MOVE_TO, .node = 1, .epoch = epoch, .target = 2 };
	step(test, &w, &ev);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 1), 0);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 2), 0);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 3), 1);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 0), 1);
	play(test, &w, LEND_EV_STANDBY, 2, 0, 0);
	play(test, &w, LEND_EV_QUIESCED, 1, 0, epoch);
	ev.type = LEND_EV_HAND_OVER;
	ev.token.half[0] = 7;
	step(test, &w, &ev);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 1), 0);
	/* The old node has gone: what it left waits for the other one. */
	play(test, &w, LEND_EV_RETURN, 1, 0, epoch);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 1), 2);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 2), 0);
	ev.type = LEND_EV_TAKE_OVER;
	ev.node = 2;
	ev.epoch = epoch + 1;
	KUNIT_EXPECT_EQ(test, step(test, &w, &ev), 0);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 1), 2);
	KUNIT_EXPECT_EQ(test, keeps_for(&w, 2), 0);
}

/* Epochs begin at the time of the clock, in any year, and above those of groups that are gone. */
static void lease_first_epoch(struct kunit *test)
{
	const s64 day = 86400, year = 365 * day;

	for (s64 seconds = -20 * year; seconds < 60 * year; seconds += year / 3) {
		u32 now = lend_epoch_first(0, seconds);

		KUNIT_EXPECT_TRUE(test, dlend_epoch_after(lend_epoch_first(0, seconds + day), now));
		KUNIT_EXPECT_EQ(test, lend_epoch_first(now + 1000, seconds), now + 1000);
		KUNIT_EXPECT_EQ(test, lend_epoch_first(now - 1000, seconds), now);
	}
}

static struct kunit_case lease_cases[] = {
	KUNIT_CASE(lease_every_state),
	KUNIT_CASE(lease_random),
	KUNIT_CASE(lease_second_borrower),
	KUNIT_CASE(lease_return_each),
	KUNIT_CASE(lease_failed_reset),
	KUNIT_CASE(lease_unbind_while_held),
	KUNIT_CASE(lease_reserved),
	KUNIT_CASE(lease_reserved_for_vm),
	KUNIT_CASE(lease_kept),
	KUNIT_CASE(lease_keeps),
	KUNIT_CASE(lease_incomplete),
	KUNIT_CASE(lease_broken),
	KUNIT_CASE(lease_moves),
	KUNIT_CASE(lease_move_expires),
	KUNIT_CASE(lease_keeps_moving),
	KUNIT_CASE(lease_first_epoch),
	{}
};

static struct kunit_suite lease_suite = {
	.name = "dlend-lease",
	.test_cases = lease_cases,
};

kunit_test_suite(lease_suite);
