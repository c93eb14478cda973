// SPDX-License-Identifier: GPL-2.0
/* An NTB that a link can use, and the same with one thing wrong at a time. */
#include <kunit/test.h>
#include <dlend/proto.h>
#include "ntb/fit.h"

#define DOORBELLS	0x3

static const struct dlend_fit good = {
	.peers = 1, .spads = DLEND_SPAD_COUNT, .doorbells = 0xffff, .translates = true,
};

/* Return: what dlend_fit_check() does, and its words hold @words. */
static int fit_check(struct kunit *test, const struct dlend_fit *fit, const char *words)
{
	char why[DLEND_FIT_WHY];
	int err = dlend_fit_check(fit, DOORBELLS, why);

	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(why, words), "\"%s\" in \"%s\"", words, why);
	KUNIT_EXPECT_EQ(test, !*words, !*why);
	/* All of it has to fit. */
	KUNIT_EXPECT_LT(test, strlen(why), DLEND_FIT_WHY - 1);
	return err;
}

static void fit_good(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, fit_check(test, &good, ""), 0);
}

static void fit_refused(struct kunit *test)
{
	struct dlend_fit fit = good;

	fit.crosslink = true;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "by a crosslink"), -EOPNOTSUPP);
	fit = good;
	fit.peers = 0;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "has 0 peers"), -EINVAL);
	fit.peers = 3;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "has 3 peers"), -EINVAL);
	fit = good;
	fit.spads--;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "scratchpads that the peer can"), -EINVAL);
	fit = good;
	fit.doorbells = 0xfffe;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "(valid: fffe)"), -EINVAL);
	fit = good;
	fit.translates = false;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "its own windows"), -EINVAL);
}

/* What can lock up the host is not used, until the administrator says so. */
static void fit_unsafe(struct kunit *test)
{
	struct dlend_fit fit = good;

	fit.db_unsafe = true;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "its doorbells can lock up this host (an"),
			-EOPNOTSUPP);
	fit.spad_unsafe = true;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "its doorbells and scratchpads can"),
			-EOPNOTSUPP);
	fit.db_unsafe = false;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "its scratchpads can"), -EOPNOTSUPP);
	fit.allow_unsafe = true;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "its scratchpads can lock up this host; it is"),
			0);
	fit.spads = 0;
	KUNIT_EXPECT_EQ(test, fit_check(test, &fit, "has fewer"), -EINVAL);
}

static struct kunit_case fit_cases[] = {
	KUNIT_CASE(fit_good),
	KUNIT_CASE(fit_refused),
	KUNIT_CASE(fit_unsafe),
	{}
};

static struct kunit_suite fit_suite = {
	.name = "dlend_fit",
	.test_cases = fit_cases,
};

kunit_test_suite(fit_suite);
