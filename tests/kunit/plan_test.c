// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the borrower's plan (mdev/plan.c): what borrows and what does not, the order of the
 * steps, and that from every state they lead to one in which the gate is open.
 */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <mdev/plan.h>

struct plan_case {
	const char *name;
	struct dlend_situation now;
	struct dlend_wish want, have;
	enum dlend_step step;
	bool settled;
};

#define OPEN	.open = true
#define HELD	.open = true, .leased = true
#define MSIX	.irq_mode = DLEND_IRQ_MSIX, .irq_count = 64

static const struct plan_case cases[] = {
	{ "closed", { .touched = true }, { .bme = true }, {} },
	{ "opened", { OPEN }, {}, {} },
	/* What a VMM sets up by itself, and resets, borrows nothing. */
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
	{ "interrupts before windows", { HELD }, { .bme = true, .build = 1, MSIX }, {},
	  DLEND_STEP_IRQ },
	{ "more vectors", { HELD }, { MSIX }, { .irq_mode = DLEND_IRQ_MSIX, .irq_count = 8 },
	  DLEND_STEP_IRQ },
	/* Wanted, unwanted and wanted again while the lender is still at the second. */
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
	{ "pinned in advance, failed", { OPEN, .failed = true, .prepin = true }, {}, {} },
};

KUNIT_ARRAY_PARAM_DESC(plan, cases, name);

static void plan_one(struct kunit *test)
{
	const struct plan_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, dlend_plan_step(c->now, &c->want, &c->have), c->step);
	KUNIT_EXPECT_EQ(test, dlend_plan_settled(c->now, &c->want, &c->have), c->settled);
}

/* As borrow.c notes what it did. */
static void do_step(enum dlend_step step, const struct dlend_wish *want, struct dlend_wish *have)
{
	switch (step) {
	case DLEND_STEP_RESET:
		*have = (struct dlend_wish){ .reset = want->reset, .build = want->build - 1,
					     .rescan = have->rescan };
		break;
	case DLEND_STEP_BME_OFF:
		have->bme = false;
		break;
	case DLEND_STEP_IRQ:
		have->irq_mode = want->irq_mode;
		have->irq_count = want->irq_count;
		break;
	case DLEND_STEP_BUILD:
		have->build = want->build;
		have->rescan = want->rescan;
		break;
	case DLEND_STEP_BME_ON:
		have->bme = true;
		break;
	default:
		break;
	}
}

static struct dlend_wish wish(unsigned int bits)
{
	return (struct dlend_wish){
		.bme = bits & 1,
		.reset = bits >> 1 & 1,
		.build = bits >> 2 & 1,
		.rescan = bits >> 3 & 1,
		.irq_mode = bits >> 4 & 1 ? DLEND_IRQ_MSIX : DLEND_IRQ_NONE,
		.irq_count = bits >> 4 & 1,
	};
}

/* Every start, every wish: a few steps, and the physical bit never before the windows. */
static void plan_ends(struct kunit *test)
{
	struct dlend_situation now = { HELD };
	unsigned int i, steps;

	for (i = 0; i < 1024; i++) {
		struct dlend_wish want = wish(i & 31), have = wish(i >> 5);
		enum dlend_step step;

		for (steps = 0; steps < 8; steps++) {
			step = dlend_plan_step(now, &want, &have);
			if (step == DLEND_STEP_NONE)
				break;
			if (step == DLEND_STEP_BME_ON)
				KUNIT_EXPECT_EQ(test, have.build, want.build);
			do_step(step, &want, &have);
		}
		KUNIT_EXPECT_LE_MSG(test, steps, 5, "case %u", i);
		KUNIT_EXPECT_TRUE_MSG(test, dlend_plan_settled(now, &want, &have), "case %u", i);
		KUNIT_EXPECT_EQ(test, have.bme, want.bme);
	}
}

/* A group is one VM's, and until what its last VM had of it is returned, nobody's. */
static void plan_beside(struct kunit *test)
{
	static const struct {
		struct dlend_beside other;
		int ret;
	} beside[] = {
		{ {}, 0 },
		{ { .same_vm = true }, 0 },
		{ { .same_vm = true, .leased = true, .leases = 1 }, 0 },
		{ { .same_vm = true, .borrowing = true }, 0 },
		/* Granted, not noted yet. */
		{ { .same_vm = true, .borrowing = true, .leases = 1 }, 0 },
		{ { .leased = true, .leases = 1 }, -EBUSY },
		{ { .borrowing = true }, -EBUSY },
		/* Closed by its VM, whatever VM that was, or removed. */
		{ { .leases = 1 }, -EAGAIN },
		{ { .same_vm = true, .leases = 1 }, -EAGAIN },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(beside); i++)
		KUNIT_EXPECT_EQ_MSG(test, dlend_plan_beside(beside[i].other), beside[i].ret,
				    "case %u", i);
}

static struct kunit_case plan_cases[] = {
	KUNIT_CASE_PARAM(plan_one, plan_gen_params),
	KUNIT_CASE(plan_ends),
	KUNIT_CASE(plan_beside),
	{}
};

static struct kunit_suite plan_suite = {
	.name = "dlend-plan",
	.test_cases = plan_cases,
};

kunit_test_suite(plan_suite);

MODULE_DESCRIPTION("Suite of dlend's borrowing steps");
MODULE_LICENSE("GPL");
