// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of what controllers' registers tell of commands that have not ended (mdev/outstanding.c).
 */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <mdev/outstanding.h>

#define AHCI	0x010601u
#define UFS	0x010901u

/* @value: of each register; @looked: beyond the end */
struct controller {
	struct dlend_registers r;
	u32 value[DLEND_OUTSTANDING_SIZE / 4];
	const struct dlend_controller_type *kind;
	bool looked;
};

static u32 read_register(const struct dlend_registers *r, u32 offset)
{
	struct controller *d = container_of((struct dlend_registers *)r, struct controller, r);

	d->looked |= offset + 4 > r->size || offset % 4;
	return d->value[offset / 4];
}

static struct controller *new_controller(struct kunit *test, u32 class, u64 size)
{
	struct controller *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, d);
	d->r = (struct dlend_registers){ size, read_register };
	d->kind = dlend_controller_type_of(class);
	KUNIT_ASSERT_NOT_NULL(test, d->kind);
	return d;
}

/* With this register as it is now: is it busy?  Without what was there before, it is not. */
static bool busy_with(struct kunit *test, struct controller *d, u32 offset, u32 value)
{
	u32 before = d->value[offset / 4];
	bool busy;

	d->value[offset / 4] = value;
	busy = d->kind->busy(&d->r);
	d->value[offset / 4] = before;
	KUNIT_EXPECT_FALSE(test, d->looked);
	return busy;
}

static void kinds(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, dlend_controller_type_of(AHCI)->bar, 5u);
	KUNIT_EXPECT_EQ(test, dlend_controller_type_of(UFS)->bar, 0u);
	/* What NVMe's registers say is not enough; a vendor's own say nothing to anybody else. */
	KUNIT_EXPECT_NULL(test, dlend_controller_type_of(0x010802));
	KUNIT_EXPECT_NULL(test, dlend_controller_type_of(0x010700));
	KUNIT_EXPECT_NULL(test, dlend_controller_type_of(0x010600));
}

/* Ports 0 and 5 have a drive, and run; 2 is there, and empty. */
static struct controller *new_ahci(struct kunit *test, u64 size)
{
	struct controller *d = new_controller(test, AHCI, size);

	d->value[0x04 / 4] = 0x80000002;
	d->value[0x0c / 4] = 0x25;
	for (u32 port = 0; port <= 5; port += 5) {
		d->value[(0x100 + port * 0x80 + 0x18) / 4] = 0x0000c017;
		d->value[(0x100 + port * 0x80 + 0x28) / 4] = 0x00000133;
	}
	d->value[(0x100 + 2 * 0x80 + 0x18) / 4] = 0x0000c017;
	return d;
}

static void ahci_commands(struct kunit *test)
{
	struct controller *d = new_ahci(test, 0x1000);

	KUNIT_EXPECT_FALSE(test, d->kind->busy(&d->r));
	/* Any command of any port, queued or not: CI, SACT. */
	for (u32 bit = 0; bit < 32; bit++) {
		KUNIT_EXPECT_TRUE(test, busy_with(test, d, 0x138, 1u << bit));
		KUNIT_EXPECT_TRUE(test, busy_with(test, d, 0x134, 1u << bit));
		KUNIT_EXPECT_TRUE(test, busy_with(test, d, 0x138 + 5 * 0x80, 1u << bit));
	}
	/* Of a port that has no drive, or that is not there. */
	KUNIT_EXPECT_FALSE(test, busy_with(test, d, 0x138 + 2 * 0x80, 1));
	KUNIT_EXPECT_FALSE(test, busy_with(test, d, 0x138 + 1 * 0x80, 1));
}

/* What has stopped waits for its driver. */
static void ahci_stopped(struct kunit *test)
{
	struct controller *d = new_ahci(test, 0x1000);

	d->value[0x138 / 4] = 0x10;
	KUNIT_EXPECT_TRUE(test, d->kind->busy(&d->r));
	for (u32 bit = 0; bit < 32; bit++)
		KUNIT_EXPECT_EQ(test, busy_with(test, d, 0x110, 1u << bit), bit < 27 || bit > 30);
	KUNIT_EXPECT_FALSE(test, busy_with(test, d, 0x118, 0x0000c016));
	KUNIT_EXPECT_FALSE(test, busy_with(test, d, 0x128, 0));
	KUNIT_EXPECT_FALSE(test, busy_with(test, d, 0x04, 2));
}

/* 32 ports in a BAR that has room for 30, and one that does not answer. */
static void ahci_ends(struct kunit *test)
{
	struct controller *d = new_ahci(test, 0x1000);

	d->value[0x0c / 4] = ~0u;
	KUNIT_EXPECT_FALSE(test, d->kind->busy(&d->r));
	KUNIT_EXPECT_FALSE(test, d->looked);
	d->r.size = DLEND_OUTSTANDING_SIZE;
	d->value[0x1098 / 4] = 1;
	d->value[0x10a8 / 4] = 3;
	KUNIT_EXPECT_TRUE(test, busy_with(test, d, 0x10b8, 1));
	memset(d->value, 0xff, sizeof(d->value));
	KUNIT_EXPECT_FALSE(test, d->kind->busy(&d->r));
}

static void ufs(struct kunit *test)
{
	struct controller *d = new_controller(test, UFS, 0x1000);

	d->value[0x34 / 4] = 1;
	d->value[0x60 / 4] = 1;
	d->value[0x80 / 4] = 1;
	KUNIT_EXPECT_FALSE(test, d->kind->busy(&d->r));
	KUNIT_EXPECT_TRUE(test, busy_with(test, d, 0x78, 1));
	d->value[0x58 / 4] = 1u << 31;
	KUNIT_EXPECT_TRUE(test, d->kind->busy(&d->r));
	KUNIT_EXPECT_FALSE(test, busy_with(test, d, 0x60, 0));
	KUNIT_EXPECT_FALSE(test, busy_with(test, d, 0x34, 0));
	memset(d->value, 0xff, sizeof(d->value));
	KUNIT_EXPECT_FALSE(test, d->kind->busy(&d->r));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(kinds),
	KUNIT_CASE(ahci_commands),
	KUNIT_CASE(ahci_stopped),
	KUNIT_CASE(ahci_ends),
	KUNIT_CASE(ufs),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_outstanding",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_DESCRIPTION("Suite of what controllers' registers tell dlend");
MODULE_LICENSE("GPL");
