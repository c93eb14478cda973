/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit in user space: enough of its interface to run the suites of tests/kunit unchanged under
 * sanitizers.  The runner is tests/user/kunit.c; the output is TAP, a line per case or parameter.
 */
#ifndef SHIM_KUNIT_TEST_H
#define SHIM_KUNIT_TEST_H

#include <stdio.h>
#include <string.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>

#define KUNIT_PARAM_DESC_SIZE	128

struct kunit {
	void *priv;
	const void *param_value;
	int param_index;
	const char *name;
	/* The runner's own. */
	bool failed, skipped;
	struct shim_action *actions;
};

typedef const void *(*kunit_generate_t)(struct kunit *test, const void *prev, char *desc);

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
	kunit_generate_t generate_params;
};

struct kunit_suite {
	const char name[256];
	int (*suite_init)(struct kunit_suite *suite);
	void (*suite_exit)(struct kunit_suite *suite);
	int (*init)(struct kunit *test);
	void (*exit)(struct kunit *test);
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(fn)			{ .run_case = fn, .name = #fn }
#define KUNIT_CASE_SLOW(fn)		KUNIT_CASE(fn)
#define KUNIT_CASE_PARAM(fn, gen)	{ .run_case = fn, .name = #fn, .generate_params = gen }

#define __SHIM_ARRAY_PARAM(name, array, describe)					\
	static const void *name##_gen_params(struct kunit *test, const void *prev,	\
					     char *desc)				\
	{										\
		typeof((array)[0]) *next = prev ? (typeof(next))prev + 1 : (array);	\
											\
		if (next - (array) >= (ptrdiff_t)ARRAY_SIZE(array))			\
			return NULL;							\
		describe;								\
		return next;								\
	}
#define KUNIT_ARRAY_PARAM(name, array, get_desc)					\
	__SHIM_ARRAY_PARAM(name, array, {						\
		void (*__describe)(typeof(next), char *) = get_desc;			\
		if (__describe)								\
			__describe(next, desc);						\
	})
#define KUNIT_ARRAY_PARAM_DESC(name, array, member)					\
	__SHIM_ARRAY_PARAM(name, array,							\
		snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s", next->member))

void shim_register(struct kunit_suite *suite);

#define __SHIM_CAT2(a, b)	a##b
#define __SHIM_CAT(a, b)	__SHIM_CAT2(a, b)
#define kunit_test_suites(...)								\
	static __attribute__((constructor)) void __SHIM_CAT(shim_suites_, __LINE__)(void) \
	{										\
		struct kunit_suite *suites[] = { __VA_ARGS__ };				\
		unsigned int i;								\
											\
		for (i = 0; i < ARRAY_SIZE(suites); i++)				\
			shim_register(suites[i]);					\
	}
#define kunit_test_suite(suite)	kunit_test_suites(&(suite))

/* Memory and actions end with the case. */
void *kunit_kmalloc(struct kunit *test, size_t size, gfp_t gfp);
void *kunit_kzalloc(struct kunit *test, size_t size, gfp_t gfp);
void kunit_kfree(struct kunit *test, const void *ptr);
int kunit_add_action(struct kunit *test, void (*action)(void *), void *ctx);
#define kunit_add_action_or_reset	kunit_add_action
#define kunit_kmalloc_array(test, n, size, gfp)	kunit_kmalloc(test, (n) * (size), gfp)
#define kunit_kcalloc(test, n, size, gfp)	kunit_kzalloc(test, (n) * (size), gfp)

/* Say what went wrong; @abort leaves the case. */
void shim_fail(struct kunit *test, bool abort, const char *file, int line, const char *fmt, ...)
	__printf(5, 6);
void shim_say(const char *fmt, ...) __printf(1, 2);
void shim_skip(struct kunit *test, bool leave, const char *fmt, ...) __printf(3, 4);

#define kunit_info(test, fmt, ...)	shim_say(fmt, ##__VA_ARGS__)
#define kunit_warn(test, fmt, ...)	shim_say(fmt, ##__VA_ARGS__)
#define kunit_err(test, fmt, ...)	shim_say(fmt, ##__VA_ARGS__)
#define kunit_log(lvl, test, fmt, ...)	shim_say(fmt, ##__VA_ARGS__)
#define kunit_skip(test, fmt, ...)	shim_skip(test, true, fmt, ##__VA_ARGS__)
#define kunit_mark_skipped(test, fmt, ...) shim_skip(test, false, fmt, ##__VA_ARGS__)

#define __SHIM_CHECK(test, abort, ok, what, fmt, ...) do {				\
	if (!(ok))									\
		shim_fail(test, abort, __FILE__, __LINE__, "%s " fmt, what, ##__VA_ARGS__); \
} while (0)

#define __SHIM_BINARY(test, abort, a, op, b, fmt, ...) do {				\
	typeof(a) __a = (a);								\
	typeof(b) __b = (b);								\
											\
	if (!(__a op __b))								\
		shim_fail(test, abort, __FILE__, __LINE__,				\
			  #a " " #op " " #b ": %#llx and %#llx " fmt,			\
			  (unsigned long long)__a, (unsigned long long)__b, ##__VA_ARGS__); \
} while (0)

#define __SHIM_PTR(test, abort, a, op, b, fmt, ...)					\
	__SHIM_BINARY(test, abort, (unsigned long)(a), op, (unsigned long)(b), fmt, ##__VA_ARGS__)

#define __SHIM_MEM(test, abort, a, b, n, op, fmt, ...)					\
	__SHIM_CHECK(test, abort, memcmp(a, b, n) op 0, #a " " #op " " #b, fmt, ##__VA_ARGS__)

#define __SHIM_STR(test, abort, a, b, op, fmt, ...) do {				\
	const char *__a = (a), *__b = (b);						\
											\
	__SHIM_CHECK(test, abort, strcmp(__a, __b) op 0, #a " " #op " " #b,		\
		     "\"%s\" and \"%s\" " fmt, __a, __b, ##__VA_ARGS__);		\
} while (0)

/* Generated once by a loop over the comparisons; as regular as it looks. */
#define KUNIT_EXPECT_EQ(t, a, b) __SHIM_BINARY(t, false, a, ==, b, "")
#define KUNIT_EXPECT_EQ_MSG(t, a, b, ...) __SHIM_BINARY(t, false, a, ==, b, __VA_ARGS__)
#define KUNIT_EXPECT_NE(t, a, b) __SHIM_BINARY(t, false, a, !=, b, "")
#define KUNIT_EXPECT_NE_MSG(t, a, b, ...) __SHIM_BINARY(t, false, a, !=, b, __VA_ARGS__)
#define KUNIT_EXPECT_LT(t, a, b) __SHIM_BINARY(t, false, a, <, b, "")
#define KUNIT_EXPECT_LT_MSG(t, a, b, ...) __SHIM_BINARY(t, false, a, <, b, __VA_ARGS__)
#define KUNIT_EXPECT_LE(t, a, b) __SHIM_BINARY(t, false, a, <=, b, "")
#define KUNIT_EXPECT_LE_MSG(t, a, b, ...) __SHIM_BINARY(t, false, a, <=, b, __VA_ARGS__)
#define KUNIT_EXPECT_GT(t, a, b) __SHIM_BINARY(t, false, a, >, b, "")
#define KUNIT_EXPECT_GT_MSG(t, a, b, ...) __SHIM_BINARY(t, false, a, >, b, __VA_ARGS__)
#define KUNIT_EXPECT_GE(t, a, b) __SHIM_BINARY(t, false, a, >=, b, "")
#define KUNIT_EXPECT_GE_MSG(t, a, b, ...) __SHIM_BINARY(t, false, a, >=, b, __VA_ARGS__)
#define KUNIT_EXPECT_PTR_EQ(t, a, b) __SHIM_PTR(t, false, a, ==, b, "")
#define KUNIT_EXPECT_PTR_EQ_MSG(t, a, b, ...) __SHIM_PTR(t, false, a, ==, b, __VA_ARGS__)
#define KUNIT_EXPECT_PTR_NE(t, a, b) __SHIM_PTR(t, false, a, !=, b, "")
#define KUNIT_EXPECT_PTR_NE_MSG(t, a, b, ...) __SHIM_PTR(t, false, a, !=, b, __VA_ARGS__)
#define KUNIT_EXPECT_MEMEQ(t, a, b, n) __SHIM_MEM(t, false, a, b, n, ==, "")
#define KUNIT_EXPECT_MEMEQ_MSG(t, a, b, n, ...) __SHIM_MEM(t, false, a, b, n, ==, __VA_ARGS__)
#define KUNIT_EXPECT_STREQ(t, a, b) __SHIM_STR(t, false, a, b, ==, "")
#define KUNIT_EXPECT_STREQ_MSG(t, a, b, ...) __SHIM_STR(t, false, a, b, ==, __VA_ARGS__)
#define KUNIT_EXPECT_MEMNEQ(t, a, b, n) __SHIM_MEM(t, false, a, b, n, !=, "")
#define KUNIT_EXPECT_MEMNEQ_MSG(t, a, b, n, ...) __SHIM_MEM(t, false, a, b, n, !=, __VA_ARGS__)
#define KUNIT_EXPECT_STRNEQ(t, a, b) __SHIM_STR(t, false, a, b, !=, "")
#define KUNIT_EXPECT_STRNEQ_MSG(t, a, b, ...) __SHIM_STR(t, false, a, b, !=, __VA_ARGS__)
#define KUNIT_EXPECT_TRUE(t, x) __SHIM_CHECK(t, false, x, "TRUE " #x, "")
#define KUNIT_EXPECT_TRUE_MSG(t, x, ...) __SHIM_CHECK(t, false, x, "TRUE " #x, __VA_ARGS__)
#define KUNIT_EXPECT_FALSE(t, x) __SHIM_CHECK(t, false, !(x), "FALSE " #x, "")
#define KUNIT_EXPECT_FALSE_MSG(t, x, ...) __SHIM_CHECK(t, false, !(x), "FALSE " #x, __VA_ARGS__)
#define KUNIT_EXPECT_NULL(t, x) __SHIM_CHECK(t, false, !(x), "NULL " #x, "")
#define KUNIT_EXPECT_NULL_MSG(t, x, ...) __SHIM_CHECK(t, false, !(x), "NULL " #x, __VA_ARGS__)
#define KUNIT_EXPECT_NOT_NULL(t, x) __SHIM_CHECK(t, false, x, "NOT_NULL " #x, "")
#define KUNIT_EXPECT_NOT_NULL_MSG(t, x, ...) __SHIM_CHECK(t, false, x, "NOT_NULL " #x, __VA_ARGS__)
#define KUNIT_EXPECT_NOT_ERR_OR_NULL(t, x) __SHIM_CHECK(t, false, !IS_ERR_OR_NULL(x), "NOT_ERR_OR_NULL " #x, "")
#define KUNIT_EXPECT_NOT_ERR_OR_NULL_MSG(t, x, ...) __SHIM_CHECK(t, false, !IS_ERR_OR_NULL(x), "NOT_ERR_OR_NULL " #x, __VA_ARGS__)
#define KUNIT_ASSERT_EQ(t, a, b) __SHIM_BINARY(t, true, a, ==, b, "")
#define KUNIT_ASSERT_EQ_MSG(t, a, b, ...) __SHIM_BINARY(t, true, a, ==, b, __VA_ARGS__)
#define KUNIT_ASSERT_NE(t, a, b) __SHIM_BINARY(t, true, a, !=, b, "")
#define KUNIT_ASSERT_NE_MSG(t, a, b, ...) __SHIM_BINARY(t, true, a, !=, b, __VA_ARGS__)
#define KUNIT_ASSERT_LT(t, a, b) __SHIM_BINARY(t, true, a, <, b, "")
#define KUNIT_ASSERT_LT_MSG(t, a, b, ...) __SHIM_BINARY(t, true, a, <, b, __VA_ARGS__)
#define KUNIT_ASSERT_LE(t, a, b) __SHIM_BINARY(t, true, a, <=, b, "")
#define KUNIT_ASSERT_LE_MSG(t, a, b, ...) __SHIM_BINARY(t, true, a, <=, b, __VA_ARGS__)
#define KUNIT_ASSERT_GT(t, a, b) __SHIM_BINARY(t, true, a, >, b, "")
#define KUNIT_ASSERT_GT_MSG(t, a, b, ...) __SHIM_BINARY(t, true, a, >, b, __VA_ARGS__)
#define KUNIT_ASSERT_GE(t, a, b) __SHIM_BINARY(t, true, a, >=, b, "")
#define KUNIT_ASSERT_GE_MSG(t, a, b, ...) __SHIM_BINARY(t, true, a, >=, b, __VA_ARGS__)
#define KUNIT_ASSERT_PTR_EQ(t, a, b) __SHIM_PTR(t, true, a, ==, b, "")
#define KUNIT_ASSERT_PTR_EQ_MSG(t, a, b, ...) __SHIM_PTR(t, true, a, ==, b, __VA_ARGS__)
#define KUNIT_ASSERT_PTR_NE(t, a, b) __SHIM_PTR(t, true, a, !=, b, "")
#define KUNIT_ASSERT_PTR_NE_MSG(t, a, b, ...) __SHIM_PTR(t, true, a, !=, b, __VA_ARGS__)
#define KUNIT_ASSERT_MEMEQ(t, a, b, n) __SHIM_MEM(t, true, a, b, n, ==, "")
#define KUNIT_ASSERT_MEMEQ_MSG(t, a, b, n, ...) __SHIM_MEM(t, true, a, b, n, ==, __VA_ARGS__)
#define KUNIT_ASSERT_STREQ(t, a, b) __SHIM_STR(t, true, a, b, ==, "")
#define KUNIT_ASSERT_STREQ_MSG(t, a, b, ...) __SHIM_STR(t, true, a, b, ==, __VA_ARGS__)
#define KUNIT_ASSERT_MEMNEQ(t, a, b, n) __SHIM_MEM(t, true, a, b, n, !=, "")
#define KUNIT_ASSERT_MEMNEQ_MSG(t, a, b, n, ...) __SHIM_MEM(t, true, a, b, n, !=, __VA_ARGS__)
#define KUNIT_ASSERT_STRNEQ(t, a, b) __SHIM_STR(t, true, a, b, !=, "")
#define KUNIT_ASSERT_STRNEQ_MSG(t, a, b, ...) __SHIM_STR(t, true, a, b, !=, __VA_ARGS__)
#define KUNIT_ASSERT_TRUE(t, x) __SHIM_CHECK(t, true, x, "TRUE " #x, "")
#define KUNIT_ASSERT_TRUE_MSG(t, x, ...) __SHIM_CHECK(t, true, x, "TRUE " #x, __VA_ARGS__)
#define KUNIT_ASSERT_FALSE(t, x) __SHIM_CHECK(t, true, !(x), "FALSE " #x, "")
#define KUNIT_ASSERT_FALSE_MSG(t, x, ...) __SHIM_CHECK(t, true, !(x), "FALSE " #x, __VA_ARGS__)
#define KUNIT_ASSERT_NULL(t, x) __SHIM_CHECK(t, true, !(x), "NULL " #x, "")
#define KUNIT_ASSERT_NULL_MSG(t, x, ...) __SHIM_CHECK(t, true, !(x), "NULL " #x, __VA_ARGS__)
#define KUNIT_ASSERT_NOT_NULL(t, x) __SHIM_CHECK(t, true, x, "NOT_NULL " #x, "")
#define KUNIT_ASSERT_NOT_NULL_MSG(t, x, ...) __SHIM_CHECK(t, true, x, "NOT_NULL " #x, __VA_ARGS__)
#define KUNIT_ASSERT_NOT_ERR_OR_NULL(t, x) __SHIM_CHECK(t, true, !IS_ERR_OR_NULL(x), "NOT_ERR_OR_NULL " #x, "")
#define KUNIT_ASSERT_NOT_ERR_OR_NULL_MSG(t, x, ...) __SHIM_CHECK(t, true, !IS_ERR_OR_NULL(x), "NOT_ERR_OR_NULL " #x, __VA_ARGS__)
#define KUNIT_FAIL(t, ...) __SHIM_CHECK(t, false, false, "FAIL", __VA_ARGS__)
#define KUNIT_FAIL_AND_ABORT(t, ...) __SHIM_CHECK(t, true, false, "FAIL", __VA_ARGS__)
#define KUNIT_SUCCEED(t) do { } while (0)

#endif
