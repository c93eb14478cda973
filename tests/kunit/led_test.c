// SPDX-License-Identifier: GPL-2.0
/* Where the pages of a raw slot that was cut lead: notes of before, and what is mapped since. */
#include <kunit/test.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <iommu/led.h>

#define PAGES	64ul

static struct dlend_led *new_led(struct kunit *test)
{
	struct dlend_led *led = kunit_kzalloc(test, sizeof(*led), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, led);
	dlend_led_init(led);
	return led;
}

static void note(struct dlend_led *led, unsigned long first, unsigned long end, phys_addr_t phys)
{
	dlend_led_note(led, first, end, dlend_led_run(first, phys));
}

static void led_before(struct kunit *test)
{
	struct dlend_led *led = new_led(test);

	note(led, 2, 6, SZ_1G);
	note(led, 6, 7, SZ_64K);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, 0), 0);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, 2 * PAGE_SIZE), SZ_1G);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, 5 * PAGE_SIZE + 12), SZ_1G + 3 * PAGE_SIZE + 12);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, 6 * PAGE_SIZE), SZ_64K);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, 7 * PAGE_SIZE), 0);
	dlend_led_destroy(led);
}

static void led_runs(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, dlend_led_run(3, 0));
	KUNIT_EXPECT_PTR_EQ(test, dlend_led_run(0, SZ_1M), dlend_led_run(5, SZ_1M + 5 * PAGE_SIZE));
	KUNIT_EXPECT_PTR_NE(test, dlend_led_run(0, SZ_1M), dlend_led_run(5, SZ_1M + 6 * PAGE_SIZE));
	/* Memory below the slot's own offset, too. */
	KUNIT_EXPECT_PTR_EQ(test, dlend_led_run(SZ_1M, PAGE_SIZE),
			    dlend_led_run(SZ_1M + 1, 2 * PAGE_SIZE));
}

/* Drivers map and unmap with interrupts off. */
static void led_after(struct kunit *test)
{
	struct dlend_led *led = new_led(test);
	unsigned long flags;
	int err;

	note(led, 0, PAGES, SZ_1G);
	local_irq_save(flags);
	err = dlend_led_map(led, 4 * PAGE_SIZE, 2 * PAGE_SIZE, SZ_1M, GFP_ATOMIC);
	local_irq_restore(flags);
	KUNIT_ASSERT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, 4 * PAGE_SIZE), SZ_1M);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, 5 * PAGE_SIZE + 1), SZ_1M + PAGE_SIZE + 1);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, 6 * PAGE_SIZE), SZ_1G + 6 * PAGE_SIZE);
	local_irq_save(flags);
	dlend_led_unmap(led, 4 * PAGE_SIZE, PAGE_SIZE);
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, 5 * PAGE_SIZE), SZ_1M + PAGE_SIZE);
	dlend_led_unmap(led, 0, PAGES * PAGE_SIZE);
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&led->after), "notes stay after the last unmap");
	dlend_led_destroy(led);
}

static void led_nothing_before(struct kunit *test)
{
	struct dlend_led *led = new_led(test);

	KUNIT_ASSERT_EQ(test, dlend_led_map(led, SZ_2M, SZ_2M, SZ_1G, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, SZ_4M - 1), SZ_1G + SZ_2M - 1);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, SZ_4M), 0);
	dlend_led_unmap(led, SZ_2M, SZ_2M);
	KUNIT_EXPECT_EQ(test, dlend_led_phys(led, SZ_2M), 0);
	dlend_led_destroy(led);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(led_before),
	KUNIT_CASE(led_runs),
	KUNIT_CASE(led_after),
	KUNIT_CASE(led_nothing_before),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_led",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
