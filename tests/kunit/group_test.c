// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the rule for IOMMU groups (borrower/group.h): a group belongs to one user at a time,
 * and to nobody until its last user has returned all functions.
 */
#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <borrower/group.h>

static void group_admits(struct kunit *test)
{
	static const struct {
		struct dlend_group_fn other;
		int ret;
	} cases[] = {
		{ {}, 0 },
		{ { .same_user = true }, 0 },
		{ { .same_user = true, .leased = true, .leases = 1 }, 0 },
		{ { .same_user = true, .borrowing = true }, 0 },
		/* The lease is granted, but not noted yet. */
		{ { .same_user = true, .borrowing = true, .leases = 1 }, 0 },
		{ { .leased = true, .leases = 1 }, -EBUSY },
		{ { .borrowing = true }, -EBUSY },
		/* The user that had the other function has closed it. */
		{ { .leases = 1 }, -EAGAIN },
		{ { .same_user = true, .leases = 1 }, -EAGAIN },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, dlend_group_admits(cases[i].other), cases[i].ret,
				    "case %u", i);
}

static struct kunit_case group_cases[] = {
	KUNIT_CASE(group_admits),
	{}
};

static struct kunit_suite group_suite = {
	.name = "dlend_group",
	.test_cases = group_cases,
};

kunit_test_suite(group_suite);
