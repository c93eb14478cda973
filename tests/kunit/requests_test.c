// SPDX-License-Identifier: GPL-2.0
/* Requests of a peer: order for each device, none between devices, bounds, repetitions. */
#include <kunit/test.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/byteorder.h>
#include <ntb/queue.h>

#define SESSION	7

static struct dlend_requests *new_queue(struct kunit *test)
{
	struct dlend_requests *q = kunit_kzalloc(test, sizeof(*q), GFP_KERNEL);
	struct dlend_request *r = kunit_kzalloc(test, DLEND_MAX_REQUESTS * sizeof(*r), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, q);
	KUNIT_ASSERT_NOT_NULL(test, r);
	dlend_requests_init(q);
	for (i = 0; i < DLEND_MAX_REQUESTS; i++)
		dlend_requests_give(q, &r[i]);
	return q;
}

/* A call (@id not 0) or a post about a device; @mark tells messages apart. */
static struct dlend_request *add(struct dlend_requests *q, u16 bdf, u32 id, u8 mark)
{
	struct dlend_msg msg = {
		.type = cpu_to_le16(DLEND_MSG_RESET),
		.id = cpu_to_le32(id),
		.lender = cpu_to_le16(2),
		.bdf = cpu_to_le16(bdf),
	};

	msg.payload[0] = mark;
	return dlend_requests_add(q, SESSION, &msg);
}

static void caught_up(struct kunit *test)
{
	struct dlend_requests *q = new_queue(test);
	struct dlend_msg msg = { .type = cpu_to_le16(DLEND_MSG_OFFER), .lender = cpu_to_le16(2) };
	struct dlend_request *call = add(q, 1, 1, 0), *news, *later;
	u64 arrived;

	news = dlend_requests_add(q, SESSION, &msg);
	arrived = q->arrived;
	msg.bdf = cpu_to_le16(8);
	later = dlend_requests_add(q, SESSION, &msg);
	KUNIT_ASSERT_NOT_NULL(test, call);
	KUNIT_ASSERT_NOT_NULL(test, news);
	KUNIT_ASSERT_NOT_NULL(test, later);
	KUNIT_EXPECT_FALSE(test, dlend_requests_caught_up(q, arrived, DLEND_TO_BORROWER));
	dlend_requests_done(q, news);
	/* Neither what came later nor what is for the other side counts. */
	KUNIT_EXPECT_TRUE(test, dlend_requests_caught_up(q, arrived, DLEND_TO_BORROWER));
	KUNIT_EXPECT_FALSE(test, dlend_requests_caught_up(q, q->arrived, DLEND_TO_BORROWER));
	KUNIT_EXPECT_FALSE(test, dlend_requests_caught_up(q, arrived, DLEND_TO_LENDER));
	dlend_requests_done(q, later);
	dlend_requests_done(q, call);
	KUNIT_EXPECT_TRUE(test, dlend_requests_caught_up(q, q->arrived, DLEND_TO_LENDER));
}

static void a_slow_device_holds_up_no_other(struct kunit *test)
{
	struct dlend_requests *q = new_queue(test);
	struct dlend_request *slow = add(q, 1, 1, 0), *r;
	u32 id;

	KUNIT_ASSERT_NOT_NULL(test, slow);
	for (id = 2; id < 1000; id++) {
		r = add(q, 2, id, 0);
		KUNIT_ASSERT_NOT_NULL(test, r);
		KUNIT_EXPECT_FALSE(test, r->refused);
		KUNIT_EXPECT_EQ(test, le32_to_cpu(r->msg.id), id);
		KUNIT_EXPECT_EQ(test, r->session, (u64)SESSION);
		KUNIT_EXPECT_NULL(test, dlend_requests_done(q, r));
	}
	KUNIT_EXPECT_FALSE(test, dlend_requests_caught_up(q, q->arrived, DLEND_TO_NOBODY));
	KUNIT_EXPECT_NULL(test, dlend_requests_done(q, slow));
	KUNIT_EXPECT_TRUE(test, dlend_requests_caught_up(q, q->arrived, DLEND_TO_NOBODY));
}

static void one_device_in_order(struct kunit *test)
{
	struct dlend_requests *q = new_queue(test);
	struct dlend_request *r = add(q, 1, 1, 0);
	u32 id;

	KUNIT_ASSERT_NOT_NULL(test, r);
	/* Calls and posts take turns. */
	for (id = 2; id <= 9; id++)
		KUNIT_EXPECT_NULL(test, add(q, 1, id & 1 ? id : 0, id));
	for (id = 2; id <= 9; id++) {
		r = dlend_requests_done(q, r);
		KUNIT_ASSERT_NOT_NULL(test, r);
		KUNIT_EXPECT_EQ(test, r->msg.payload[0], (u8)id);
	}
	KUNIT_EXPECT_NULL(test, dlend_requests_done(q, r));
}

/* The same bdf of two lenders is two devices. */
static void lenders_are_told_apart(struct kunit *test)
{
	struct dlend_requests *q = new_queue(test);
	struct dlend_msg msg = { .lender = cpu_to_le16(3), .bdf = cpu_to_le16(1) };

	KUNIT_EXPECT_NOT_NULL(test, add(q, 1, 1, 0));
	KUNIT_EXPECT_NOT_NULL(test, dlend_requests_add(q, SESSION, &msg));
}

/* On the lender's own host: its message to the borrower waits for no request of the borrower. */
static void directions_are_told_apart(struct kunit *test)
{
	struct dlend_requests *q = new_queue(test);
	struct dlend_request *slow = add(q, 1, 1, 0), *r;
	struct dlend_msg msg = {
		.type = cpu_to_le16(DLEND_MSG_STATE),
		.lender = cpu_to_le16(2),
		.bdf = cpu_to_le16(1),
	};

	KUNIT_ASSERT_NOT_NULL(test, slow);
	r = dlend_requests_add(q, SESSION, &msg);
	KUNIT_ASSERT_NOT_NULL(test, r);
	/* Each direction waits for its own requests. */
	KUNIT_EXPECT_NULL(test, add(q, 1, 2, 0));
	msg.payload[0] = 1;
	KUNIT_EXPECT_NULL(test, dlend_requests_add(q, SESSION, &msg));
	r = dlend_requests_done(q, r);
	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(r->msg.type), (u16)DLEND_MSG_STATE);
	r = dlend_requests_done(q, slow);
	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(r->msg.id), 2u);
}

static void a_flood_about_one_device(struct kunit *test)
{
	struct dlend_requests *q = new_queue(test);
	struct dlend_request *first = add(q, 1, 1, 0), *r, *refused[DLEND_MAX_REFUSALS];
	u32 id, i;

	for (id = 2; id <= DLEND_MAX_DEVICE_CALLS; id++)
		KUNIT_ASSERT_NULL(test, add(q, 1, id, 0));
	for (i = 0; i < DLEND_MAX_REFUSALS; i++) {
		KUNIT_ASSERT_TRUE(test, dlend_requests_room(q));
		refused[i] = add(q, 1, id++, 0);
		KUNIT_ASSERT_NOT_NULL(test, refused[i]);
		KUNIT_EXPECT_TRUE(test, refused[i]->refused);
	}
	KUNIT_EXPECT_FALSE(test, dlend_requests_room(q));
	/* A refusal that was sent starts no other request, and makes room. */
	for (i = 0; i < DLEND_MAX_REFUSALS; i++)
		KUNIT_EXPECT_NULL(test, dlend_requests_done(q, refused[i]));
	KUNIT_EXPECT_TRUE(test, dlend_requests_room(q));
	/* Another device does not notice. */
	r = add(q, 2, id, 0);
	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_FALSE(test, r->refused);
	/* A place that became free is given again. */
	r = dlend_requests_done(q, first);
	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(r->msg.id), 2u);
	KUNIT_EXPECT_NULL(test, add(q, 1, ++id, 0));
}

static void a_flood_about_many_devices(struct kunit *test)
{
	struct dlend_requests *q = new_queue(test);
	struct dlend_request *r;
	u32 n;

	for (n = 0; n < DLEND_MAX_CALLS; n++) {
		r = add(q, n, n + 1, 0);
		KUNIT_ASSERT_NOT_NULL(test, r);
		KUNIT_ASSERT_FALSE(test, r->refused);
	}
	r = add(q, n, n + 1, 0);
	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_TRUE(test, r->refused);
	/* Posts have places of their own. */
	for (n = 0; n < DLEND_MAX_POSTS; n++) {
		KUNIT_ASSERT_TRUE(test, dlend_requests_room(q));
		KUNIT_ASSERT_NOT_NULL(test, add(q, 1000 + n, 0, 0));
	}
	KUNIT_EXPECT_FALSE(test, dlend_requests_room(q));
}

static void repeated_posts(struct kunit *test)
{
	struct dlend_requests *q = new_queue(test);
	struct dlend_request *r = add(q, 1, 0, 1);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, r);
	/* The first one is running, and may have looked too early: one more is kept. */
	for (i = 0; i < 1000; i++)
		KUNIT_ASSERT_NULL(test, add(q, 1, 0, 1));
	KUNIT_EXPECT_EQ(test, q->posts, 2u);
	KUNIT_EXPECT_NULL(test, add(q, 1, 0, 2));
	KUNIT_EXPECT_NULL(test, add(q, 1, 0, 1));
	KUNIT_EXPECT_EQ(test, q->posts, 4u);
	/* A call is answered each time. */
	KUNIT_EXPECT_NULL(test, add(q, 1, 5, 1));
	KUNIT_EXPECT_NULL(test, add(q, 1, 6, 1));
	KUNIT_EXPECT_EQ(test, q->calls, 2u);
	r = dlend_requests_done(q, r);
	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_EQ(test, r->msg.payload[0], 1);
	r = dlend_requests_done(q, r);
	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_EXPECT_EQ(test, r->msg.payload[0], 2);
}

#define DEVICES	5

/* Random arrivals and ends against what each device must see: all of its own, in order. */
static void against_a_model(struct kunit *test)
{
	struct dlend_requests *q = new_queue(test);
	struct dlend_request *running[DEVICES] = {}, *r;
	u32 came[DEVICES] = {}, ended[DEVICES] = {}, seed = 4711, i, d, n;

	for (i = 0; i < 20000; i++) {
		seed = seed * 1664525u + 1013904223u;
		d = (seed >> 8) % DEVICES;
		if ((seed >> 20) % 2 && came[d] - ended[d] < DLEND_MAX_DEVICE_CALLS) {
			r = add(q, d, ++came[d], 0);
			KUNIT_ASSERT_EQ(test, !!r, !running[d]);
		} else if (running[d]) {
			r = dlend_requests_done(q, running[d]);
			ended[d]++;
			running[d] = NULL;
			KUNIT_ASSERT_EQ(test, !!r, ended[d] < came[d]);
		} else {
			continue;
		}
		if (!r)
			continue;
		KUNIT_ASSERT_FALSE(test, r->refused);
		KUNIT_ASSERT_EQ(test, le16_to_cpu(r->msg.bdf), (u16)d);
		KUNIT_ASSERT_EQ(test, le32_to_cpu(r->msg.id), ended[d] + 1);
		running[d] = r;
	}
	for (d = 0, n = 0; d < DEVICES; d++)
		n += came[d] - ended[d];
	KUNIT_EXPECT_EQ(test, q->calls, n);
	KUNIT_EXPECT_GT(test, ended[0], 1000u);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(caught_up),
	KUNIT_CASE(a_slow_device_holds_up_no_other),
	KUNIT_CASE(one_device_in_order),
	KUNIT_CASE(lenders_are_told_apart),
	KUNIT_CASE(directions_are_told_apart),
	KUNIT_CASE(a_flood_about_one_device),
	KUNIT_CASE(a_flood_about_many_devices),
	KUNIT_CASE(repeated_posts),
	KUNIT_CASE(against_a_model),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_requests",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
