// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the borrower's plan (mdev/plan.c): what borrows and what does not, the order of
 * the steps, and that the steps lead from every state to an open gate.
 */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <mdev/plan.h>

struct plan_case {
	const char *name;
	struct dlend_situation now;
	struct dlend_state desired, actual;
	enum dlend_step step;
	bool settled;
};

#define OPEN	.open = true
#define HELD	.open = true, .leased = true
#define COMING	.open = true, .coming = true
#define MSIX	.irq_mode = DLEND_IRQ_MSIX, .irq_count = 64

static const struct plan_case cases[] = {
	{ "closed", { .touched = true }, { .bme = true }, {} },
	{ "opened", { OPEN }, {}, {} },
	/* A VMM's own set-up and its resets borrow nothing. */
	{ "interrupts set up", { OPEN }, { MSIX }, {} },
	{ "reset without a lease", { OPEN }, { .reset = 3 }, {} },
	{ "touched", { OPEN, .touched = true }, {}, {}, DLEND_STEP_BORROW },
	{ "bus master", { OPEN }, { .bme = true }, {}, DLEND_STEP_BORROW },
	{ "failed, no lease", { OPEN, .failed = true, .touched = true }, { .bme = true }, {} },
	{ "failed", { HELD, .failed = true }, { .bme = true }, { .bme = true },
	  DLEND_STEP_BME_OFF },
	{ "failed and quiet", { HELD, .failed = true }, { .bme = true, .reset = 1 }, {} },
	{ "held", { HELD }, {}, {}, DLEND_STEP_NONE, true },
	{ "reset before all", { HELD }, { .bme = true, .reset = 2, .build = 5, MSIX },
	  { .bme = true, .reset = 1 }, DLEND_STEP_RESET },
	{ "bus master off before interrupts", { HELD }, { MSIX }, { .bme = true },
	  DLEND_STEP_BME_OFF },
	/* What it does not have may be gone from the device. */
	{ "turned on before interrupts", { HELD }, { .bme = true, .enable = 1, .build = 1, MSIX },
	  {}, DLEND_STEP_ENABLE },
	{ "memory turned on", { HELD }, { .enable = 2 }, { .enable = 1 }, DLEND_STEP_ENABLE },
	{ "bus master off, and on again", { HELD }, { .bme = true, .enable = 1, .build = 1 },
	  { .bme = true, .build = 1 }, DLEND_STEP_ENABLE },
	{ "turned on, after a reset", { HELD }, { .reset = 1, .enable = 1 }, {}, DLEND_STEP_RESET },
	{ "interrupts before windows", { HELD }, { .bme = true, .build = 1, MSIX }, {},
	  DLEND_STEP_IRQ },
	{ "more vectors", { HELD }, { MSIX }, { .irq_mode = DLEND_IRQ_MSIX, .irq_count = 8 },
	  DLEND_STEP_IRQ },
	{ "the same vectors once more", { HELD }, { MSIX, .irq_turn = 1 }, { MSIX },
	  DLEND_STEP_IRQ },
	/* Wanted, not wanted and wanted again, while the lender still does the second. */
	{ "interrupt set-up under way", { HELD }, { MSIX },
	  { .irq_mode = DLEND_IRQ_UNKNOWN, .irq_count = 64 }, DLEND_STEP_IRQ },
	{ "windows before bus master", { HELD }, { .bme = true, .build = 1 }, {},
	  DLEND_STEP_BUILD },
	{ "no windows without bus master", { HELD }, { .build = 7, .rescan = 2 }, {},
	  DLEND_STEP_NONE, true },
	{ "windows stand", { HELD }, { .bme = true, .build = 1 }, { .build = 1 },
	  DLEND_STEP_BME_ON },
	{ "running", { HELD }, { .bme = true, .build = 1 }, { .bme = true, .build = 1 },
	  DLEND_STEP_NONE, true },
	{ "rebuild", { HELD }, { .bme = true, .build = 2 }, { .bme = true, .build = 1 },
	  DLEND_STEP_BUILD },
	{ "rescan, the gate open", { HELD }, { .bme = true, .rescan = 1 }, { .bme = true },
	  DLEND_STEP_BUILD, true },
	{ "RAM came, the gate shut", { HELD }, { .bme = true, .grow = 1 }, { .bme = true },
	  DLEND_STEP_BUILD },
	{ "RAM came, no bus master", { HELD }, { .grow = 1 }, {}, DLEND_STEP_NONE, true },
	{ "unmapping shuts the gate", { HELD, .unmapping = true }, { .bme = true },
	  { .bme = true } },
	{ "no bus master while unmapping", { HELD, .unmapping = true },
	  { .bme = true, .build = 1 }, { .build = 1 } },
	{ "unmapping without bus master", { HELD, .unmapping = true }, {}, {},
	  DLEND_STEP_NONE, true },
	{ "pinned in advance: borrow", { OPEN, .prepin = true }, {}, {}, DLEND_STEP_BORROW },
	{ "pinned in advance, closed", { .prepin = true }, {}, {} },
	{ "pinned in advance: build, the gate open", { HELD, .prepin = true }, { .build = 1 }, {},
	  DLEND_STEP_BUILD, true },
	{ "pinned in advance: no bus master of its own", { HELD, .prepin = true }, { .build = 1 },
	  { .build = 1 }, DLEND_STEP_NONE, true },
	{ "read requests before windows", { HELD }, { .bme = true, .build = 1, .readrq = 2 }, {},
	  DLEND_STEP_READRQ },
	{ "read requests, the gate open", { HELD }, { .bme = true, .readrq = 2 }, { .bme = true },
	  DLEND_STEP_READRQ, true },
	/* The VM moves away: it stands still, moves or goes on. */
	{ "named a node", { HELD }, { .move_to = 3 }, {}, DLEND_STEP_MOVE_TO, true },
	{ "named a node, no lease", { OPEN }, { .move_to = 3 }, {} },
	{ "named nobody any more", { HELD }, { }, { .move_to = 3 }, DLEND_STEP_MOVE_TO, true },
	{ "cut off, too", { HELD }, { .move_to = 3, .forced = true }, { .move_to = 3 },
	  DLEND_STEP_MOVE_TO, true },
	{ "stands still", { HELD }, { .bme = true, .quiesced = true }, { .bme = true },
	  DLEND_STEP_QUIESCE },
	{ "stands still, before interrupts", { HELD }, { .quiesced = true, MSIX }, {},
	  DLEND_STEP_QUIESCE },
	{ "stands still, after a reset", { HELD }, { .quiesced = true, .reset = 1 }, {},
	  DLEND_STEP_RESET },
	{ "still", { HELD }, { .bme = true, .build = 1, .quiesced = true, MSIX },
	 { .quiesced = true } },
	{ "still, and another node is named", { HELD }, { .quiesced = true, .move_to = 3 },
	  { .quiesced = true, .move_to = 2 }, DLEND_STEP_MOVE_TO },
	{ "still, without a lease", { OPEN, .touched = true }, { .bme = true, .quiesced = true },
	 {} },
	{ "goes on", { HELD }, { .bme = true }, { .quiesced = true }, DLEND_STEP_RUN },
	{ "goes on, failed", { HELD, .failed = true }, { .bme = true }, { .quiesced = true } },
	/* The VM comes: its memory first, nothing of the device. */
	{ "comes", { COMING }, { .bme = true, MSIX }, {}, DLEND_STEP_STANDBY },
	{ "comes, refused", { COMING, .refused = true, .touched = true }, { .bme = true }, {} },
	{ "comes: windows", { COMING, .leased = true }, { .build = 1, MSIX }, {},
	  DLEND_STEP_BUILD },
	{ "comes: windows stand", { COMING, .leased = true }, { .bme = true, .build = 1, MSIX },
	  { .build = 1 } },
	{ "has come", { COMING, .leased = true }, { .bme = true, .build = 1, .taken = true },
	  { .build = 1 }, DLEND_STEP_TAKE_OVER },
	{ "has come, before all", { COMING, .leased = true }, { .bme = true, .build = 1,
	  .taken = true, MSIX }, {}, DLEND_STEP_TAKE_OVER },
	{ "has come, the VM does not run yet", { HELD, .held = true },
	  { .bme = true, .build = 1, MSIX }, { .build = 1 }, DLEND_STEP_IRQ },
	{ "only the VM is waited for", { HELD, .held = true }, { .bme = true, .build = 1 },
	  { .build = 1 }, DLEND_STEP_NONE },
	{ "the VM runs", { HELD }, { .bme = true, .build = 1 }, { .build = 1 }, DLEND_STEP_BME_ON },
	{ "pinned in advance, failed", { OPEN, .failed = true, .prepin = true }, {}, {} },
};

KUNIT_ARRAY_PARAM_DESC(plan, cases, name);

/* May the guest's accesses go through, and may it read? */
static bool settled(struct dlend_situation now, const struct dlend_state *desired,
		    const struct dlend_state *actual)
{
	return dlend_plan(now, desired, actual).gate == DLEND_GATE_OPEN;
}

static bool readable(struct dlend_situation now, const struct dlend_state *desired,
		     const struct dlend_state *actual)
{
	return settled(now, desired, actual) || dlend_plan(now, desired,
							   actual).gate == DLEND_GATE_READ;
}

static void plan_one(struct kunit *test)
{
	const struct plan_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, dlend_plan(c->now, &c->desired, &c->actual).next, c->step);
	KUNIT_EXPECT_EQ(test, settled(c->now, &c->desired, &c->actual), c->settled);
}

/* Note a step as vdev.c does. */
static void do_step(enum dlend_step step, const struct dlend_state *desired,
		    struct dlend_state *actual)
{
	switch (step) {
	case DLEND_STEP_RESET:
		*actual = (struct dlend_state){ .reset = desired->reset, .enable = actual->enable,
					     .build = actual->build,
					     .rescan = actual->rescan,
					     .irq_turn = desired->irq_turn };
		break;
	case DLEND_STEP_BME_OFF:
		actual->bme = false;
		break;
	case DLEND_STEP_ENABLE:
		actual->enable = desired->enable;
		break;
	case DLEND_STEP_IRQ:
		actual->irq_mode = desired->irq_mode;
		actual->irq_count = desired->irq_count;
		actual->irq_turn = desired->irq_turn;
		break;
	case DLEND_STEP_READRQ:
		actual->readrq = desired->readrq;
		break;
	case DLEND_STEP_BUILD:
		actual->build = desired->build;
		actual->rescan = desired->rescan;
		actual->grow = desired->grow;
		break;
	case DLEND_STEP_BME_ON:
		actual->bme = true;
		break;
	case DLEND_STEP_MOVE_TO:
		actual->move_to = desired->move_to;
		actual->forced = desired->forced;
		break;
	case DLEND_STEP_QUIESCE:
		actual->quiesced = true;
		actual->bme = false;
		break;
	case DLEND_STEP_RUN:
		actual->quiesced = false;
		break;
	default:
		break;
	}
}

static struct dlend_state wish(unsigned int bits)
{
	return (struct dlend_state){
		.bme = bits & 1,
		.reset = bits >> 1 & 1,
		.build = bits >> 2 & 1,
		.rescan = bits >> 3 & 1,
		.grow = bits >> 3 & 1,
		.irq_mode = bits >> 4 & 1 ? DLEND_IRQ_MSIX : DLEND_IRQ_NONE,
		.irq_count = bits >> 4 & 1,
		.irq_turn = bits >> 3 & 1,
		.readrq = bits >> 5 & 1,
		.enable = bits >> 5 & 1,
	};
}

/* A few steps lead from every start to every wish, and to Bus Master Enable only with windows. */
static void plan_ends(struct kunit *test)
{
	struct dlend_situation now = { HELD };
	unsigned int i, steps;

	for (i = 0; i < 4096; i++) {
		struct dlend_state desired = wish(i & 63), actual = wish(i >> 6);
		enum dlend_step step;

		for (steps = 0; steps < 9; steps++) {
			step = dlend_plan(now, &desired, &actual).next;
			if (step == DLEND_STEP_NONE)
				break;
			/* An open gate lets reads pass. A build that gives way does so once. */
			if (settled(now, &desired, &actual))
				KUNIT_EXPECT_TRUE(test, readable(now, &desired, &actual));
			if (step == DLEND_STEP_BUILD)
				KUNIT_EXPECT_FALSE(test, dlend_plan(now, &desired, &actual).urgent);
			if (step == DLEND_STEP_BME_ON)
				KUNIT_EXPECT_EQ(test, actual.build, desired.build);
			do_step(step, &desired, &actual);
		}
		KUNIT_EXPECT_LE_MSG(test, steps, 7, "case %u", i);
		KUNIT_EXPECT_TRUE_MSG(test, settled(now, &desired, &actual), "case %u", i);
		KUNIT_EXPECT_EQ(test, actual.bme, desired.bme);
	}
}

/* Which steps a build gives way to, and when a guest may read. */
static void plan_urgent(struct kunit *test)
{
	static const struct {
		struct dlend_state desired, actual;
		bool urgent, readable;
	} list[] = {
		{ { .bme = true, .build = 2 }, { .bme = true }, false, true },
		{ { .bme = true, .rescan = 2 }, { .bme = true }, false, true },
		{ { .bme = true, .build = 1 }, { .build = 1 }, false, true },
		{ { .bme = true, .build = 2, .readrq = 3 }, { .bme = true }, false, true },
		{ { .bme = true, .build = 2, .reset = 1 }, { .bme = true }, true, false },
		{ { .build = 2, .reset = 1 }, {}, true, false },
		{ { .build = 2 }, { .bme = true }, true, true },
		{ { .bme = true, .build = 2, MSIX }, { .bme = true }, true, true },
		/* It may read ones until the lender has looked. */
		{ { .bme = true, .build = 2, .enable = 1 }, { .bme = true }, true, false },
	};
	struct dlend_situation now = { HELD }, failed = { HELD, .failed = true }, idle = { OPEN };

	for (unsigned int i = 0; i < ARRAY_SIZE(list); i++) {
		const struct dlend_state *desired = &list[i].desired, *actual = &list[i].actual;

		KUNIT_EXPECT_EQ_MSG(test, dlend_plan(now, desired, actual).urgent, list[i].urgent,
				    "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, readable(now, desired, actual), list[i].readable,
				    "case %u", i);
		KUNIT_EXPECT_FALSE(test, readable(failed, desired, actual));
		KUNIT_EXPECT_FALSE(test, readable(idle, desired, actual));
		KUNIT_EXPECT_FALSE(test, dlend_plan(idle, desired, actual).urgent);
	}
}

/* A rescan that fails and finds nothing changes nothing; RAM that is known is to be reached. */
static void plan_verdict(struct kunit *test)
{
	const struct dlend_state had = { .bme = true, .build = 3 };
	static const struct {
		u32 build, grow;	/* wanted at the end */
		int err;
		bool overdue;
		enum dlend_verdict verdict;
	} cases[] = {
		{ 3, 0, 0, false, DLEND_VERDICT_STANDS },
		{ 4, 1, 0, false, DLEND_VERDICT_STANDS },
		{ 3, 0, -ENOMEM, false, DLEND_VERDICT_KEEP },
		{ 3, 0, -ETIMEDOUT, true, DLEND_VERDICT_KEEP },
		{ 3, 0, -EOPNOTSUPP, false, DLEND_VERDICT_KEEP },
		{ 3, 0, -EAGAIN, false, DLEND_VERDICT_AGAIN },
		{ 3, 0, -EAGAIN, true, DLEND_VERDICT_KEEP },
		{ 3, 0, -ENOTCONN, false, DLEND_VERDICT_FAIL },
		/* RAM has come that is out of reach. */
		{ 3, 1, -ENOMEM, false, DLEND_VERDICT_AGAIN },
		{ 3, 1, -ENOSPC, false, DLEND_VERDICT_AGAIN },
		{ 3, 1, -ENOMEM, true, DLEND_VERDICT_FAIL },
		{ 3, 1, -ENOSPC, true, DLEND_VERDICT_FAIL },
		{ 3, 1, -EFAULT, true, DLEND_VERDICT_FAIL },
		{ 3, 1, -ETIMEDOUT, true, DLEND_VERDICT_FAIL },
		{ 3, 1, -EAGAIN, true, DLEND_VERDICT_FAIL },
		{ 3, 1, -ENOTCONN, false, DLEND_VERDICT_FAIL },
		/* Memory was taken away: the windows do not stand. */
		{ 4, 0, -ENOMEM, false, DLEND_VERDICT_FAIL },
		{ 4, 1, -ENOSPC, false, DLEND_VERDICT_FAIL },
		{ 4, 0, -EAGAIN, false, DLEND_VERDICT_AGAIN },
		{ 4, 0, -EAGAIN, true, DLEND_VERDICT_FAIL },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlend_state desired = had;

		desired.build = cases[i].build;
		desired.grow = cases[i].grow;
		desired.rescan++;
		KUNIT_EXPECT_EQ_MSG(test,
				    dlend_plan_verdict(&desired, &had, cases[i].err,
						       cases[i].overdue),
				    cases[i].verdict, "case %u", i);
	}
}

/* A plug waits for a device that may transfer, until all is reached or a loss is to be repaired. */
static void plan_behind(struct kunit *test)
{
	const struct dlend_state actual = { .bme = true, .build = 3, .grow = 1 };
	struct dlend_situation now = { HELD, .dma = true }, still = { HELD };
	struct dlend_state desired = actual;

	KUNIT_EXPECT_FALSE(test, dlend_plan(now, &desired, &actual).behind);
	desired.rescan++;
	KUNIT_EXPECT_FALSE(test, dlend_plan(now, &desired, &actual).behind);
	desired.grow++;
	KUNIT_EXPECT_TRUE(test, dlend_plan(now, &desired, &actual).behind);
	KUNIT_EXPECT_FALSE(test, dlend_plan(still, &desired, &actual).behind);
	desired.bme = false;
	KUNIT_EXPECT_TRUE(test, dlend_plan(now, &desired, &actual).behind);
	desired.build++;
	KUNIT_EXPECT_FALSE(test, dlend_plan(now, &desired, &actual).behind);
}

static void plan_patience(struct kunit *test)
{
	struct dlend_patience p = {};
	s64 ms;

	/* 200 GiB at 3 s for a GiB, asked every 10 s: never overdue. */
	for (ms = 0; ms < 600000; ms += 10000)
		KUNIT_EXPECT_FALSE(test, dlend_plan_overdue(&p, ms / 3000, ms, 60000));
	/* Memory that comes and goes is no progress. */
	for (; ms <= 650000; ms += 10000)
		KUNIT_EXPECT_FALSE(test, dlend_plan_overdue(&p, ms / 10000 % 2, ms, 60000));
	KUNIT_EXPECT_TRUE(test, dlend_plan_overdue(&p, 7, ms, 60000));
	p = (struct dlend_patience){};
	KUNIT_EXPECT_FALSE(test, dlend_plan_overdue(&p, 0, ms, 60000));

	KUNIT_EXPECT_FALSE(test, dlend_plan_gate_overdue(59999, 0, 0, 60000));
	KUNIT_EXPECT_TRUE(test, dlend_plan_gate_overdue(60000, 0, 0, 60000));
	KUNIT_EXPECT_FALSE(test, dlend_plan_gate_overdue(200000, 0, 199000, 60000));
	KUNIT_EXPECT_TRUE(test, dlend_plan_gate_overdue(259000, 0, 199000, 60000));
	/* The progress is of an earlier build. */
	KUNIT_EXPECT_FALSE(test, dlend_plan_gate_overdue(200000, 199000, 1000, 60000));
}

/* May configuration space be asked of the device itself? */
static void plan_live(struct kunit *test)
{
	static const struct {
		struct dlend_situation now;
		struct dlend_state desired, actual;
		enum dlend_live live;
	} rows[] = {
		{ { OPEN }, {}, {}, DLEND_LIVE_NO },
		{ { .leased = true }, { .reset = 1 }, {}, DLEND_LIVE_NO },
		{ { OPEN, .touched = true }, {}, {}, DLEND_LIVE_SOON },
		{ { OPEN }, { .bme = true }, {}, DLEND_LIVE_SOON },
		{ { OPEN, .failed = true }, { .bme = true }, {}, DLEND_LIVE_NO },
		{ { HELD }, {}, {}, DLEND_LIVE_NOW },
		{ { HELD, .unmapping = true }, { .bme = true, .build = 1, MSIX }, {},
		  DLEND_LIVE_NOW },
		{ { HELD }, { .enable = 1 }, {}, DLEND_LIVE_NOW },
		{ { HELD }, { .reset = 1 }, {}, DLEND_LIVE_RESET },
		{ { HELD, .failed = true }, {}, {}, DLEND_LIVE_NO },
		{ { HELD, .failed = true }, { .reset = 1 }, {}, DLEND_LIVE_NO },
		{ { HELD }, { .quiesced = true }, {}, DLEND_LIVE_NO },
		{ { HELD }, { .quiesced = true }, { .quiesced = true }, DLEND_LIVE_NO },
		{ { HELD }, {}, { .quiesced = true }, DLEND_LIVE_NO },
		{ { COMING }, { .bme = true }, {}, DLEND_LIVE_NO },
		{ { COMING, .leased = true }, {}, {}, DLEND_LIVE_NO },
		{ { HELD, .held = true }, {}, {}, DLEND_LIVE_NOW },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test, dlend_plan(rows[i].now, &rows[i].desired,
						     &rows[i].actual).live,
				    rows[i].live, "row %zu", i);
}

/* What others wait for, or look at, while the worker is at a step. */
static void plan_conditions(struct kunit *test)
{
	enum { QUIET = 1, LOOKS = 2, IRQ_BUSY = 4, MOVE_SETTLED = 8, MOVE_TOLD = 16, READY = 32 };
	static const struct {
		struct dlend_situation now;
		struct dlend_state desired, actual;
		enum dlend_gate gate;
		u32 bits;
	} rows[] = {
		{ { OPEN }, {}, {}, DLEND_GATE_SHUT, QUIET | MOVE_SETTLED | MOVE_TOLD },
		{ { OPEN }, { MSIX }, {}, DLEND_GATE_SHUT, QUIET | MOVE_SETTLED | MOVE_TOLD },
		{ { OPEN, .touched = true }, { MSIX }, {}, DLEND_GATE_SHUT,
		  QUIET | IRQ_BUSY | MOVE_SETTLED | MOVE_TOLD },
		{ { OPEN, .borrowing = true }, { MSIX }, {}, DLEND_GATE_SHUT,
		  QUIET | IRQ_BUSY | MOVE_SETTLED | MOVE_TOLD },
		{ { HELD }, { MSIX }, {}, DLEND_GATE_READ,
		  QUIET | IRQ_BUSY | MOVE_SETTLED | MOVE_TOLD },
		{ { HELD }, {}, {}, DLEND_GATE_OPEN, QUIET | MOVE_SETTLED | MOVE_TOLD | READY },
		{ { HELD, .failed = true }, { MSIX, .quiesced = true, .move_to = 3 }, {},
		  DLEND_GATE_DEAD, QUIET | MOVE_SETTLED | MOVE_TOLD },
		/* RAM is looked for first. */
		{ { HELD, .dma = true, .looking = true }, { .bme = true }, { .bme = true },
		  DLEND_GATE_READ, QUIET | MOVE_SETTLED | MOVE_TOLD | READY },
		/* It transfers, and has not stopped while it is to. */
		{ { HELD, .dma = true }, { .bme = true }, { .bme = true }, DLEND_GATE_OPEN,
		  QUIET | LOOKS | MOVE_SETTLED | MOVE_TOLD | READY },
		{ { HELD, .dma = true }, {}, { .bme = true }, DLEND_GATE_READ,
		  MOVE_SETTLED | MOVE_TOLD },
		{ { HELD, .dma = true }, {}, {}, DLEND_GATE_OPEN,
		  MOVE_SETTLED | MOVE_TOLD | READY },
		{ { HELD, .dma = true }, { .bme = true, .reset = 1 }, { .bme = true },
		  DLEND_GATE_SHUT, MOVE_SETTLED | MOVE_TOLD },
		{ { HELD, .dma = true }, { .bme = true, .build = 1 }, { .bme = true },
		  DLEND_GATE_READ, QUIET | MOVE_SETTLED | MOVE_TOLD },
		/* The VM stands still, and nothing is set up. */
		{ { HELD, .dma = true }, { .bme = true, .quiesced = true, .turn = 1, MSIX },
		  { .bme = true }, DLEND_GATE_READ, MOVE_TOLD },
		{ { HELD }, { .quiesced = true, .turn = 1, .move_to = 3 },
		  { .quiesced = true, .turn = 1 }, DLEND_GATE_READ, QUIET | MOVE_SETTLED },
		{ { COMING, .leased = true }, { .build = 1, MSIX }, {}, DLEND_GATE_SHUT,
		  QUIET | MOVE_SETTLED | MOVE_TOLD },
		{ { COMING, .leased = true }, { .build = 1, MSIX }, { .build = 1 },
		  DLEND_GATE_SHUT, QUIET | MOVE_SETTLED | MOVE_TOLD | READY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dlend_conditions is = dlend_plan(rows[i].now, &rows[i].desired,
							&rows[i].actual);
		u32 bits = (is.quiesced ? QUIET : 0) | (is.looks ? LOOKS : 0) |
			   (is.irq_busy ? IRQ_BUSY : 0) | (is.move_settled ? MOVE_SETTLED : 0) |
			   (is.move_told ? MOVE_TOLD : 0) | (is.ready ? READY : 0);

		KUNIT_EXPECT_EQ_MSG(test, is.gate, rows[i].gate, "row %zu", i);
		KUNIT_EXPECT_EQ_MSG(test, bits, rows[i].bits, "row %zu", i);
	}
}

static struct kunit_case plan_cases[] = {
	KUNIT_CASE_PARAM(plan_one, plan_gen_params),
	KUNIT_CASE(plan_ends),
	KUNIT_CASE(plan_urgent),
	KUNIT_CASE(plan_verdict),
	KUNIT_CASE(plan_behind),
	KUNIT_CASE(plan_patience),
	KUNIT_CASE(plan_live),
	KUNIT_CASE(plan_conditions),
	{}
};

static struct kunit_suite plan_suite = {
	.name = "dlend-plan",
	.test_cases = plan_cases,
};

kunit_test_suite(plan_suite);

MODULE_DESCRIPTION("Suite of dlend's borrowing steps");
MODULE_LICENSE("GPL");
