// SPDX-License-Identifier: GPL-2.0
/* Each offer state and interrupt mode has the name that scripts know; other numbers have none. */
#include <kunit/test.h>
#include <linux/string.h>
#include <dlend/names.h>

static void names_of_states(struct kunit *test)
{
	KUNIT_EXPECT_STREQ(test, dlend_offer_state_name(DLEND_OFFER_FREE), "free");
	KUNIT_EXPECT_STREQ(test, dlend_offer_state_name(DLEND_OFFER_HELD), "held");
	KUNIT_EXPECT_STREQ(test, dlend_offer_state_name(DLEND_OFFER_RETURNING), "returning");
	KUNIT_EXPECT_STREQ(test, dlend_offer_state_name(DLEND_OFFER_QUARANTINED), "quarantined");
	KUNIT_EXPECT_STREQ(test, dlend_offer_state_name(DLEND_OFFER_GONE), "gone");
	KUNIT_EXPECT_STREQ(test, dlend_offer_state_name(DLEND_OFFER_RESERVED), "reserved");
	KUNIT_EXPECT_STREQ(test, dlend_offer_state_name(DLEND_OFFER_KEPT), "kept");
	KUNIT_EXPECT_STREQ(test, dlend_offer_state_name(DLEND_OFFER_STATES), "unknown");
	KUNIT_EXPECT_STREQ(test, dlend_offer_state_name(U16_MAX), "unknown");
}

static void names_of_modes(struct kunit *test)
{
	KUNIT_EXPECT_STREQ(test, dlend_irq_mode_name(DLEND_IRQ_NONE), "none");
	KUNIT_EXPECT_STREQ(test, dlend_irq_mode_name(DLEND_IRQ_INTX), "intx");
	KUNIT_EXPECT_STREQ(test, dlend_irq_mode_name(DLEND_IRQ_MSI), "msi");
	KUNIT_EXPECT_STREQ(test, dlend_irq_mode_name(DLEND_IRQ_MSIX), "msix");
	KUNIT_EXPECT_STREQ(test, dlend_irq_mode_name(DLEND_IRQ_MODES), "unknown");
	KUNIT_EXPECT_STREQ(test, dlend_irq_mode_name(U32_MAX), "unknown");
}

static void every_number_has_a_name(struct kunit *test)
{
	for (u16 state = 0; state < DLEND_OFFER_STATES; state++)
		KUNIT_EXPECT_NOT_NULL(test, dlend_offer_state_name(state));
	for (u32 mode = 0; mode < DLEND_IRQ_MODES; mode++)
		KUNIT_EXPECT_NOT_NULL(test, dlend_irq_mode_name(mode));
}

static void names_of_nodes(struct kunit *test)
{
	char wire[DLEND_NODE_NAME_LEN] = "host-2.example_X", name[DLEND_NODE_NAME_LEN];

	dlend_name_read(name, wire);
	KUNIT_EXPECT_STREQ(test, name, "host-2.example_X");
	/* No control sequence, no quote, no letter that looks like another, no second line. */
	memcpy(wire, "a\x1b[2J\"\xc3\xa4\t\n\0hidden", 18);
	memset(name, 'x', sizeof(name));
	dlend_name_read(name, wire);
	KUNIT_EXPECT_STREQ(test, name, "a??2J?????");
	KUNIT_EXPECT_NULL(test, memchr_inv(name + 10, 0, sizeof(name) - 10));
	/* It need not end. */
	memset(wire, 'n', sizeof(wire));
	dlend_name_read(name, wire);
	KUNIT_EXPECT_EQ(test, strlen(name), DLEND_NODE_NAME_LEN - 1);
}

static struct kunit_case names_cases[] = {
	KUNIT_CASE(names_of_states),
	KUNIT_CASE(names_of_modes),
	KUNIT_CASE(every_number_has_a_name),
	KUNIT_CASE(names_of_nodes),
	{}
};

static struct kunit_suite names_suite = {
	.name = "dlend_names",
	.test_cases = names_cases,
};

kunit_test_suite(names_suite);
