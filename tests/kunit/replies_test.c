// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of what replies mean (mdev/plan.c): long random walks of two hosts whose VMs use one
 * device in turn, with the lender's own state machine (lender/lease_sm.c) between them.
 *
 * Replies are late (the VMM goes on meanwhile), lost (the lender has done it, and the host does
 * not know), or those of a request that the lender has done twice.  A host asks one thing at a
 * time, and what it asks is done in that order, as over a link.  The steps are those of
 * plan.c; what vdev.c and move.c do around them is played here.
 */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <lender/lease_sm.h>
#include <mdev/plan.h>

#define HOSTS		2u
#define QUEUE		8u
#define RUNS		1000u
#define STEPS		1500u
#define READRQ		2u
#define PATIENCE	400u	/* rounds after which nothing may be left to do */

/* VFIO's states, as far as they matter. */
enum vm_state { RUNNING, P2P, STOP, RESUMING };

/* @step: or STEP_RETURN; @done: the lender has done it; @err, @drained: what it has answered */
struct request {
	enum dlend_step step;
	struct dlend_state asked;
	u32 epoch;
	struct lend_token token;
	bool done;
	int err;
	bool drained;
};

#define STEP_RETURN	100

/*
 * @first, @last: numbers of the requests that have arrived, and of all
 * @call: number of the one that the worker waits for; 0: none
 * @standby: the lease is one that was only prepared
 */
struct host {
	u16 node;
	struct dlend_situation now;
	struct dlend_state desired, actual;
	enum vm_state state;
	u32 epoch;
	bool standby, has_token, given;
	int told;
	struct lend_token token;
	struct request queue[QUEUE];
	u32 first, last, call;
};

struct world {
	struct host host[HOSTS];
	struct lend_lease lease;
	bool bme, busy, calm;
	/* What a VMM has read at STOP_COPY, and its host */
	struct lend_token stream;
	u16 stream_of;
	u32 seed, moves, late, lost, twice;
};

static u32 chance(struct world *w, u32 of)
{
	w->seed = w->seed * 1664525 + 1013904223;
	return (w->seed >> 8) % of;
}

static struct request *request(struct host *h, u32 number)
{
	return &h->queue[number % QUEUE];
}

static bool full(const struct host *h)
{
	return h->last - h->first >= QUEUE - 2;
}

static struct request *enqueue(struct host *h, enum dlend_step step)
{
	struct request *r = request(h, ++h->last);

	*r = (struct request){ .step = step, .asked = h->desired, .epoch = h->epoch,
			       .token = h->token };
	return r;
}

/* The lender */

/* A fence is over when the lender goes on. */
static int lender_step(struct world *w, const struct lend_event *ev)
{
	u32 todo, none;
	int ret = lend_lease_step(&w->lease, ev, &todo);

	if (todo & (LEND_DO_FENCE | LEND_DO_PARK | LEND_DO_SWAP))
		w->bme = false;
	if (todo & LEND_DO_FENCE) {
		struct lend_event forced = { .type = LEND_EV_CUT_OFF, .epoch = w->lease.epoch };

		lend_lease_step(&w->lease, &forced, &none);
	}
	return ret;
}

static int lender_event(struct world *w, struct host *h, const struct request *r,
			enum lend_event_type type)
{
	struct lend_event ev = { .type = type, .node = h->node, .epoch = r->epoch,
				 .target = r->asked.move_to, .token = r->token };
	int ret = lender_step(w, &ev);

	return ret == -EALREADY ? 0 : ret;
}

static void lender_fenced(struct world *w)
{
	struct lend_event ev = { .type = LEND_EV_FENCED, .epoch = w->lease.epoch };
	u32 todo;

	if (!lend_lease_step(&w->lease, &ev, &todo))
		w->busy = false;
}

/* A request under a lease. */
static int lender_does(struct world *w, struct host *h, struct request *r)
{
	if (lend_lease_check(&w->lease, h->node, r->epoch, 0))
		return -ESTALE;
	/* What fails now and then, done or not. */
	if (!w->calm && r->step != DLEND_STEP_RUN && !chance(w, 50))
		return -EIO;
	switch (r->step) {
	case DLEND_STEP_RESET:
		w->bme = false;
		w->busy = false;
		return lender_event(w, h, r, LEND_EV_RUN);
	case DLEND_STEP_BME_ON:
	case DLEND_STEP_BME_OFF:
		w->bme = r->step == DLEND_STEP_BME_ON;
		/* What a guest gives up so is its own business. */
		w->busy = w->busy && w->bme;
		return 0;
	case DLEND_STEP_MOVE_TO:
		return lender_event(w, h, r, LEND_EV_MOVE_TO);
	case DLEND_STEP_QUIESCE:
		/* One that cannot transfer is silent. */
		r->drained = !w->busy || !w->bme;
		w->bme = false;
		return lender_event(w, h, r, LEND_EV_QUIESCED);
	case DLEND_STEP_RUN:
		return lender_event(w, h, r, LEND_EV_RUN);
	default:
		return 0;
	}
}

static void lender_do(struct world *w, struct host *h, struct request *r)
{
	switch ((int)r->step) {
	case DLEND_STEP_BORROW:
		r->err = lender_event(w, h, r, LEND_EV_BORROW);
		r->epoch = r->err ? 0 : w->lease.epoch;
		break;
	case DLEND_STEP_STANDBY:
		r->err = lender_event(w, h, r, LEND_EV_STANDBY);
		r->epoch = r->err ? 0 : w->lease.move.epoch;
		break;
	case DLEND_STEP_TAKE_OVER:
		r->err = lender_event(w, h, r, LEND_EV_TAKE_OVER);
		w->moves += !r->err;
		break;
	case STEP_RETURN:
		r->err = lender_event(w, h, r, LEND_EV_RETURN);
		break;
	case DLEND_STEP_BUILD:
		r->err = lend_lease_check(&w->lease, h->node, r->epoch, 0) &&
			 lend_lease_check_standby(&w->lease, h->node, r->epoch) ? -ESTALE : 0;
		break;
	default:
		r->err = lender_does(w, h, r);
		break;
	}
	if (r->err)
		r->drained = false;
	r->done = true;
}

/* The next request of a host arrives: those that may come again do so sometimes. */
static void lender_serve(struct world *w, struct host *h)
{
	struct request *r;

	if (h->first == h->last)
		return;
	r = request(h, ++h->first);
	lender_do(w, h, r);
	if (r->step != DLEND_STEP_BORROW && r->step != DLEND_STEP_TAKE_OVER && !w->calm &&
	    !chance(w, 8)) {
		/* The first answer counts. */
		struct request again = *r;

		lender_do(w, h, &again);
		w->twice++;
	}
}

/* A host's worker */

static void host_fail(struct host *h)
{
	h->now.failed = true;
}

static void host_drop(struct host *h)
{
	if (!h->now.leased)
		return;
	enqueue(h, (enum dlend_step)STEP_RETURN);
	h->now.leased = false;
}

/* The lease has ended without this host: it is told so, some time. */
static void host_lose(struct host *h)
{
	h->actual = (struct dlend_state){};
	if (!h->given)
		host_fail(h);
	host_drop(h);
}

static void host_begin(struct host *h)
{
	h->now.coming = false;
	h->has_token = false;
	h->desired.taken = false;
	h->desired.rescan++;
}

/* The reply of a host that asked for a lease. */
static void host_lease_asked(struct host *h, const struct request *r, int err, u32 epoch)
{
	bool wanted = h->now.open && dlend_reply_wanted(&h->desired, &r->asked);

	if (err) {
		if (wanted && h->now.coming)
			h->now.refused = true;
		else if (wanted && err != -EAGAIN)
			host_fail(h);
		return;
	}
	h->epoch = epoch;
	h->now.leased = true;
	h->standby = r->step == DLEND_STEP_STANDBY;
	if (wanted)
		dlend_reply_granted(&r->asked, &h->actual, READRQ);
	else
		host_drop(h);
}

/* The reply of a step under a lease. */
static void host_note(struct host *h, const struct request *r, int err)
{
	const struct dlend_state *asked = &r->asked;
	bool fails = false;

	switch (r->step) {
	case DLEND_STEP_RESET:
		fails = dlend_reply_reset(&h->desired, asked, &h->actual, READRQ, err);
		h->given = h->given && err;
		break;
	case DLEND_STEP_BME_ON:
	case DLEND_STEP_BME_OFF:
		fails = dlend_reply_bus_master(&h->desired, asked, &h->actual,
					       r->step == DLEND_STEP_BME_ON, err);
		break;
	case DLEND_STEP_IRQ:
		fails = dlend_reply_irq(&h->desired, asked, &h->actual, err);
		break;
	case DLEND_STEP_READRQ:
		h->actual.readrq = asked->readrq;
		break;
	case DLEND_STEP_BUILD:
		if (err && h->now.coming)
			host_lose(h);
		fails = err;
		h->actual.build = asked->build;
		h->actual.rescan = asked->rescan;
		break;
	case DLEND_STEP_MOVE_TO:
		dlend_reply_named(&h->desired, asked, &h->actual, &h->told, err);
		break;
	case DLEND_STEP_QUIESCE:
		dlend_reply_quiesced(asked, &h->actual, r->drained, err);
		break;
	case DLEND_STEP_RUN:
		h->given = false;
		fails = dlend_reply_ran(&h->desired, asked, &h->actual, err);
		break;
	case DLEND_STEP_TAKE_OVER:
		dlend_reply_taken(&h->actual);
		host_begin(h);
		/* All that this lease is good for now is to be given back. */
		h->standby = false;
		fails = err;
		break;
	default:
		break;
	}
	if (fails)
		host_fail(h);
}

static void host_reply(struct world *w, struct host *h, bool in_time)
{
	struct request *r = request(h, h->call);
	bool asks = r->step == DLEND_STEP_BORROW || r->step == DLEND_STEP_STANDBY;
	u32 epoch = r->epoch;
	int err = r->err;

	if (!in_time) {
		w->late += !r->done;
		w->lost += r->done;
		err = -ETIMEDOUT;
	}
	h->call = 0;
	if (asks) {
		/* An answer that came too late may be a grant: the host gives it back unseen. */
		if (!in_time)
			enqueue(h, (enum dlend_step)STEP_RETURN)->epoch = r->done ? epoch : 0;
		host_lease_asked(h, r, err, epoch);
	} else if (h->now.leased && h->epoch == r->epoch) {
		if (!in_time)
			r->drained = false;
		host_note(h, r, err);
	}
}

static bool host_returning(struct host *h)
{
	for (u32 i = h->first + 1; i != h->last + 1; i++)
		if ((int)request(h, i)->step == STEP_RETURN)
			return true;
	return false;
}

/* Return: there was something to do. */
static bool host_work(struct host *h)
{
	enum dlend_step step;

	h->now.held = h->state != RUNNING;
	if (h->call || full(h))
		return false;
	step = dlend_plan(h->now, &h->desired, &h->actual).next;
	if (step == DLEND_STEP_NONE)
		return false;
	if ((step == DLEND_STEP_BORROW || step == DLEND_STEP_STANDBY) && host_returning(h))
		return false;
	if (step == DLEND_STEP_BME_OFF || step == DLEND_STEP_QUIESCE)
		h->actual.bme = false;
	if (step == DLEND_STEP_IRQ)
		h->actual.irq_mode = DLEND_IRQ_UNKNOWN;
	enqueue(h, step);
	h->call = h->last;
	return true;
}

/* Whoever has lost the device hears of it. */
static void host_news(struct world *w, struct host *h)
{
	bool mine = h->standby ? !lend_lease_check_standby(&w->lease, h->node, h->epoch) :
				 !lend_lease_check(&w->lease, h->node, h->epoch, 0);
	const struct request *r = request(h, h->call);

	/* It has taken over, and does not know yet. */
	if (h->standby && !lend_lease_check(&w->lease, h->node, h->epoch, 0))
		mine = true;
	if (h->call && r->step == DLEND_STEP_TAKE_OVER)
		mine = true;
	if (h->now.leased && !mine)
		host_lose(h);
}

/* A VMM, and its guest */

static void vmm_forget_move(struct host *h)
{
	h->now.coming = false;
	h->now.refused = false;
	h->has_token = false;
	h->given = false;
	h->desired.quiesced = false;
	h->desired.taken = false;
}

static void vmm_open(struct host *h)
{
	h->desired = (struct dlend_state){ .vm = h->desired.vm + 1, .readrq = READRQ };
	h->actual = (struct dlend_state){ .readrq = READRQ };
	h->now = (struct dlend_situation){ .open = true };
	h->state = RUNNING;
	vmm_forget_move(h);
}

static void vmm_close(struct host *h)
{
	h->now.open = false;
	h->desired = (struct dlend_state){ .vm = h->desired.vm + 1 };
	host_drop(h);
}

static void vmm_reset(struct host *h)
{
	h->state = RUNNING;
	if (h->now.coming) {
		h->desired.vm++;
		host_drop(h);
	}
	vmm_forget_move(h);
	h->desired.bme = false;
	if (h->now.leased || h->call)
		h->desired.reset++;
	h->now.failed = false;
}

static void vmm_stand_still(struct host *h, bool still)
{
	if (still && h->desired.move_to == DLEND_NODE_NONE)
		return;
	if (h->desired.quiesced == still)
		return;
	h->desired.quiesced = still;
	h->desired.turn++;
	if (!still && h->given && !h->now.leased) {
		h->given = false;
		host_fail(h);
	}
}

static void vmm_stop(struct host *h)
{
	vmm_stand_still(h, true);
	h->state = STOP;
}

static void vmm_name(struct host *h, u16 node)
{
	h->desired.named++;
	h->told = 0;
	h->desired.move_to = node;
}

static void vmm_expect(struct host *h)
{
	h->desired.vm++;
	host_drop(h);
	h->now.coming = true;
	h->now.refused = false;
	h->has_token = false;
	h->desired.taken = false;
	h->desired.build++;
	h->state = RESUMING;
}

/* STOP -> RUNNING_P2P */
static void vmm_take(struct host *h)
{
	if (h->now.coming && h->has_token && h->now.leased) {
		h->desired.taken = true;
	} else if (h->now.coming) {
		if (h->has_token)
			host_fail(h);
		h->desired.vm++;
		host_drop(h);
		host_begin(h);
	}
	h->state = P2P;
}

/* STOP -> STOP_COPY, and back; its answer may be lost. */
static void vmm_hand_over(struct world *w, struct host *h)
{
	struct request r = { .epoch = h->epoch };
	bool may = dlend_plan_may_leave(&h->desired,
					&h->actual) && h->desired.move_to != DLEND_NODE_NONE;

	if (h->now.failed || !h->now.leased || !may || h->first != h->last)
		return;
	r.token.half[0] = 1 + chance(w, 1000000);
	if (lender_event(w, h, &r, LEND_EV_HAND_OVER) || !chance(w, 8))
		return;
	h->given = true;
	w->stream = r.token;
	w->stream_of = h->node;
}

/* All of the VM has come; or not. */
static void vmm_end_resuming(struct world *w, struct host *h)
{
	if (w->stream_of == h->node || !w->stream_of) {
		vmm_reset(h);
		return;
	}
	h->has_token = true;
	h->token = w->stream;
	h->state = STOP;
}

static void vmm_moves(struct world *w, struct host *h)
{
	switch (h->state) {
	case RUNNING:
		vmm_stand_still(h, true);
		h->state = P2P;
		break;
	case P2P:
		if (chance(w, 2)) {
			h->state = STOP;
			break;
		}
		vmm_stand_still(h, false);
		h->state = RUNNING;
		break;
	case STOP:
		if (!h->now.coming)
			vmm_hand_over(w, h);
		if (chance(w, 2))
			vmm_take(h);
		else if (!chance(w, 4))
			vmm_expect(h);
		break;
	case RESUMING:
		vmm_end_resuming(w, h);
		break;
	}
}

static void guest_acts(struct world *w, struct host *h)
{
	if (h->state != RUNNING)
		return;
	/* It runs before its device is here, and resets it. */
	if (h->now.coming) {
		h->desired.reset += !chance(w, 4);
		return;
	}
	switch (chance(w, 8)) {
	case 0:
		h->desired.bme = false;
		break;
	case 1:
		if (h->now.leased || h->call)
			h->desired.reset++;
		h->desired.bme = false;
		h->now.failed = false;
		break;
	case 2:
		h->desired.irq_mode = chance(w, 2) ? DLEND_IRQ_MSIX : DLEND_IRQ_NONE;
		h->desired.irq_count = h->desired.irq_mode == DLEND_IRQ_MSIX;
		break;
	default:
		if (!h->desired.bme)
			h->desired.build++;
		h->desired.bme = true;
		break;
	}
}

/* What brings a VM to the other host: by chance alone hardly any would arrive. */
static void vmm_move_on(struct world *w, struct host *from, struct host *to)
{
	bool comes = to->now.open && to->now.coming && to->now.leased;

	if (!to->now.open)
		vmm_open(to);
	else if (from->desired.move_to != to->node && !from->given)
		vmm_name(from, to->node);
	else if (to->state == RUNNING && !to->now.coming)
		to->state = STOP;
	else if (to->state != RESUMING && to->state != STOP)
		vmm_reset(to);
	else if (to->state == STOP && to->has_token)
		vmm_take(to);
	else if (to->state == STOP)
		vmm_expect(to);
	else if (comes && from->given)
		vmm_end_resuming(w, to);
	else if (comes && from->state == RUNNING)
		vmm_stop(from);
	else if (comes && from->state == STOP)
		vmm_hand_over(w, from);
	else if (to->now.refused)
		vmm_expect(to);
}

/* Where the gate is open, the device gets work; it ends that, unless it is stopped. */
static void device_works(struct world *w)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		struct host *h = &w->host[i];

		if (w->bme && h->state == RUNNING && h->actual.bme && w->lease.holder == h->node &&
		    dlend_plan(h->now, &h->desired, &h->actual).gate == DLEND_GATE_OPEN)
			w->busy = true;
	}
	if (w->bme && !chance(w, 2))
		w->busy = false;
}

static void vmm_acts(struct world *w, struct host *h)
{
	u32 what = chance(w, 40);

	if (full(h) || full(&w->host[h == &w->host[0]]))
		return;
	if (h->now.coming && chance(w, 8))
		return;
	if (h->now.open && w->lease.holder == h->node && chance(w, 8)) {
		vmm_move_on(w, h, &w->host[h == &w->host[0]]);
		return;
	}
	if (!h->now.open) {
		if (what < 10)
			vmm_open(h);
		return;
	}
	if (!what)
		vmm_close(h);
	else if (what == 1)
		vmm_reset(h);
	else if (what < 6)
		vmm_name(h, chance(w, 5) ? 3 - h->node : DLEND_NODE_NONE);
	else if (what < 20)
		vmm_moves(w, h);
	else
		guest_acts(w, h);
}

/* The walk */

/* Whatever has come late, twice or not at all. */
static void check(struct kunit *test, struct world *w, u32 at)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		struct host *h = &w->host[i];

		/* What was only prepared is never taken for a lease. */
		if (h->now.leased && !h->now.coming)
			KUNIT_ASSERT_FALSE_MSG(test, h->standby, "step %u, node %u", at, h->node);
		/* And nobody leaves a device in the midst of its work. */
		if (h->now.leased && !h->now.failed && h->actual.quiesced && w->busy &&
		    !lend_lease_check(&w->lease, h->node, h->epoch, 0))
			KUNIT_ASSERT_FALSE_MSG(test, dlend_plan_may_leave(&h->desired, &h->actual),
					       "step %u, node %u", at, h->node);
	}
}

static void walk_step(struct world *w)
{
	struct host *h = &w->host[chance(w, HOSTS)];

	switch (chance(w, 8)) {
	case 0:
		vmm_acts(w, h);
		break;
	case 1:
		lender_serve(w, h);
		break;
	case 2:
	case 3:
		if (h->call && request(h, h->call)->done)
			host_reply(w, h, chance(w, 10));
		else if (h->call && !full(h) && !chance(w, 20))
			host_reply(w, h, false);
		break;
	case 4:
		host_news(w, h);
		break;
	case 5:
		lender_fenced(w);
		device_works(w);
		break;
	default:
		host_work(h);
		break;
	}
}

/* All that is under way arrives, and nobody wants anything new. Return: something happened. */
static bool walk_settle(struct world *w)
{
	struct lend_event ev = { .type = LEND_EV_EXPIRED, .epoch = w->lease.epoch };
	bool any = false;

	lender_step(w, &ev);
	lender_fenced(w);
	for (unsigned int i = 0; i < HOSTS; i++) {
		struct host *h = &w->host[i];

		while (h->first != h->last) {
			lender_serve(w, h);
			any = true;
		}
		if (h->call) {
			host_reply(w, h, true);
			any = true;
		}
		host_news(w, h);
		any |= host_work(h);
	}
	return any;
}

/* A guest that runs has its device, or knows that it has not. */
static void check_end(struct kunit *test, struct world *w, struct host *h)
{
	if (!h->now.open || h->state != RUNNING || !h->desired.bme)
		return;
	KUNIT_ASSERT_FALSE_MSG(test, h->now.coming, "node %u waits for ever", h->node);
	if (h->now.failed)
		return;
	KUNIT_ASSERT_TRUE_MSG(test,
			      dlend_plan(h->now, &h->desired, &h->actual).gate == DLEND_GATE_OPEN,
			      "node %u: the gate is shut", h->node);
	KUNIT_ASSERT_EQ(test, lend_lease_check(&w->lease, h->node, h->epoch, 0), 0);
	KUNIT_ASSERT_TRUE_MSG(test, w->bme, "node %u: its device does nothing", h->node);
}

/* What was asked for before a reset fails, and the answer comes after it: it has its device. */
static void check_reset(struct kunit *test, struct world *w, struct host *h)
{
	unsigned int rounds = PATIENCE;

	if (!h->now.open || lend_lease_check(&w->lease, h->node, h->epoch, 0) || !h->now.leased)
		return;
	h->desired.irq_turn++;
	host_work(h);
	while (h->first != h->last)
		lender_serve(w, h);
	if (h->call)
		request(h, h->call)->err = -EIO;
	vmm_reset(h);
	h->desired.bme = true;
	h->desired.build++;
	while (walk_settle(w) && --rounds)
		;
	KUNIT_ASSERT_FALSE_MSG(test, h->now.failed, "node %u: dead after a reset", h->node);
}

static void walk_end(struct kunit *test, struct world *w)
{
	unsigned int rounds = PATIENCE;

	for (unsigned int i = 0; i < HOSTS; i++) {
		struct host *h = &w->host[i];

		/* A VMM lets its VM go on before the lender has answered. */
		if (h->now.open && h->state == STOP)
			vmm_take(h);
		if (h->now.open && h->state == P2P) {
			vmm_stand_still(h, false);
			h->state = RUNNING;
		}
	}
	while (walk_settle(w) && --rounds)
		;
	KUNIT_ASSERT_GT_MSG(test, rounds, 0u, "it asks without end");
	for (unsigned int i = 0; i < HOSTS; i++)
		check_end(test, w, &w->host[i]);
}

static void replies_walk(struct kunit *test)
{
	static struct world w;
	u32 seed = 7, moves = 0, late = 0, lost = 0, twice = 0;

	for (unsigned int run = 0; run < RUNS; run++) {
		struct lend_event offer = { .type = LEND_EV_OFFER };
		u32 todo;

		memset(&w, 0, sizeof(w));
		w.seed = seed += 1000003;
		for (unsigned int i = 0; i < HOSTS; i++)
			w.host[i].node = i + 1;
		lend_lease_init(&w.lease, 100);
		lend_lease_step(&w.lease, &offer, &todo);
		for (unsigned int at = 0; at < STEPS; at++) {
			walk_step(&w);
			check(test, &w, run * STEPS + at);
		}
		w.calm = true;
		if (run % 2)
			walk_end(test, &w);
		else
			check_reset(test, &w, &w.host[chance(&w, HOSTS)]);
		moves += w.moves;
		late += w.late;
		lost += w.lost;
		twice += w.twice;
	}
	KUNIT_EXPECT_GT(test, moves, RUNS / 4);
	KUNIT_EXPECT_GT(test, late, RUNS);
	KUNIT_EXPECT_GT(test, lost, RUNS);
	KUNIT_EXPECT_GT(test, twice, RUNS);
}

/* What a reply comes to that meets other wishes than those that asked. */
static void replies_late(struct kunit *test)
{
	const struct dlend_state asked = { .bme = true, .quiesced = true, .move_to = 3, .named = 1,
					  .irq_mode = DLEND_IRQ_MSIX, .irq_count = 8 };
	struct dlend_state desired = asked, actual = { }, again;
	struct dlend_situation now = { .open = true, .leased = true };
	int told = 0;

	desired.vm++;
	KUNIT_EXPECT_TRUE(test, dlend_reply_wanted(&asked, &asked));
	KUNIT_EXPECT_FALSE(test, dlend_reply_wanted(&desired, &asked));

	/* It stood still, went on, and stands still again: it is stopped once more. */
	desired = asked;
	dlend_reply_quiesced(&asked, &actual, true, 0);
	KUNIT_EXPECT_TRUE(test, dlend_plan_may_leave(&desired, &actual));
	desired.turn += 2;
	KUNIT_EXPECT_FALSE(test, dlend_plan_may_leave(&desired, &actual));
	KUNIT_EXPECT_FALSE(test, dlend_plan(now, &desired, &actual).move_settled);

	/* It was stopped at work: that it is silent then does not mean that it is through. */
	dlend_reply_quiesced(&desired, &actual, false, 0);
	dlend_reply_quiesced(&desired, &actual, true, 0);
	KUNIT_EXPECT_FALSE(test, dlend_plan_may_leave(&desired, &actual));
	dlend_reply_ran(&desired, &desired, &actual, 0);
	dlend_reply_bus_master(&desired, &desired, &actual, true, 0);
	dlend_reply_quiesced(&desired, &actual, true, 0);
	KUNIT_EXPECT_TRUE(test, dlend_plan_may_leave(&desired, &actual));

	/* A reset that was asked for since mends what has failed. */
	desired = asked;
	KUNIT_EXPECT_TRUE(test, dlend_reply_irq(&desired, &asked, &actual, -EIO));
	KUNIT_EXPECT_TRUE(test, dlend_reply_bus_master(&desired, &asked, &actual, true, -EIO));
	KUNIT_EXPECT_TRUE(test, dlend_reply_reset(&desired, &asked, &actual, READRQ, -EIO));
	desired.reset++;
	KUNIT_EXPECT_FALSE(test, dlend_reply_irq(&desired, &asked, &actual, -EIO));
	KUNIT_EXPECT_FALSE(test, dlend_reply_bus_master(&desired, &asked, &actual, true, -EIO));
	KUNIT_EXPECT_FALSE(test, dlend_reply_reset(&desired, &asked, &actual, READRQ, -EIO));
	KUNIT_EXPECT_NE(test, actual.reset, desired.reset);
	/* So does another set-up. */
	desired = asked;
	desired.irq_count = 16;
	KUNIT_EXPECT_FALSE(test, dlend_reply_irq(&desired, &asked, &actual, -EIO));

	/* Who names a node learns how that went, and not how it went before. */
	desired = asked;
	desired.named++;
	KUNIT_EXPECT_FALSE(test, dlend_reply_named(&desired, &asked, &actual, &told, -EMLINK));
	KUNIT_EXPECT_EQ(test, told, 0);
	KUNIT_EXPECT_FALSE(test, dlend_plan(now, &desired, &actual).move_told);
	again = desired;
	KUNIT_EXPECT_TRUE(test, dlend_reply_named(&desired, &again, &actual, &told, -ETIMEDOUT));
	/* The lender may have taken it: it is told that nobody is meant, which changes nothing. */
	KUNIT_EXPECT_FALSE(test, dlend_plan(now, &desired, &actual).move_told);
	KUNIT_EXPECT_EQ(test, desired.move_to, DLEND_NODE_NONE);
	again = desired;
	KUNIT_EXPECT_FALSE(test, dlend_reply_named(&desired, &again, &actual, &told, 0));
	KUNIT_EXPECT_TRUE(test, dlend_plan(now, &desired, &actual).move_told);
	KUNIT_EXPECT_EQ(test, told, -ETIMEDOUT);
}

static struct kunit_case replies_cases[] = {
	KUNIT_CASE(replies_late),
	KUNIT_CASE(replies_walk),
	{}
};

static struct kunit_suite replies_suite = {
	.name = "dlend-replies",
	.test_cases = replies_cases,
};

kunit_test_suite(replies_suite);

MODULE_DESCRIPTION("Suite of what dlend's lenders reply");
MODULE_LICENSE("GPL");
