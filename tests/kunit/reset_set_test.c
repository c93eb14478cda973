// SPDX-License-Identifier: GPL-2.0
/* Suite of functions that are reset together (lender/reset_set.h). */
#include <kunit/test.h>
#include <linux/kernel.h>

#include "lender/reset_set.h"

static void verdicts(struct kunit *test)
{
	static const struct {
		const char *what;
		struct lend_reset_set set;
		enum lend_reset_set_verdict verdict;
	} cases[] = {
		{ "nobody has one", { .bound = 3 }, LEND_RESET_SET_RESET },
		{ "one is not bound", { .bound = 1, .strangers = 1 }, LEND_RESET_SET_STRANGERS },
		{ "none is", { }, LEND_RESET_SET_STRANGERS },
		{ "one is used", { .bound = 3, .lent = 2 }, LEND_RESET_SET_IN_USE },
		{ "the other was asked for", { .bound = 3, .lent = 3, .asked = 1 },
		  LEND_RESET_SET_IN_USE },
		{ "both were", { .bound = 3, .lent = 3, .asked = 3 }, LEND_RESET_SET_RESET },
		{ "the only one that is lent was", { .bound = 7, .lent = 4, .asked = 4 },
		  LEND_RESET_SET_RESET },
		{ "asked for once, and returned since", { .bound = 3, .lent = 1, .asked = 2 },
		  LEND_RESET_SET_IN_USE },
		{ "both were, but a stranger is there", { .bound = 3, .strangers = 1, .lent = 3,
		  .asked = 3 }, LEND_RESET_SET_STRANGERS },
		{ "the last of 64 is used", { .bound = ~0ull, .lent = 1ull << 63,
		  .asked = ~0ull >> 1 }, LEND_RESET_SET_IN_USE },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, (int)lend_reset_set_judge(&cases[i].set),
				    (int)cases[i].verdict, "%s", cases[i].what);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(verdicts),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend-together",
	.test_cases = cases,
};

kunit_test_suite(suite);
