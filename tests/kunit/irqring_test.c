// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupt ring: whatever the rate, the sum of what was delivered is the sum of what was fired.
 *
 * A producer that never waits, and a consumer that looks now and then; both on one memory.
 */
#include <kunit/test.h>
#include <linux/string.h>
#include <linux/slab.h>
#include <dlend/proto.h>
#include <ntb/irqscan.h>

#define SINKS	2

struct world {
	struct dlend_ctrl ctrl;
	u32 counter[SINKS][DLEND_MAX_VECTORS];
	u32 seen[SINKS][DLEND_MAX_VECTORS];
	u32 fired[SINKS][DLEND_MAX_VECTORS];
	u32 got[SINKS][DLEND_MAX_VECTORS];
	u32 calls, strangers;
	/* Fire this many while the scan is at its first entry. */
	u32 meanwhile;
};

static u32 prod(struct world *w)
{
	return le32_to_cpu(w->ctrl.irq_prod);
}

static void hint(struct world *w, u32 entry)
{
	w->ctrl.irq[prod(w) & (DLEND_IRQ_RING_SLOTS - 1)] = cpu_to_le32(entry);
	w->ctrl.irq_prod = cpu_to_le32(prod(w) + 1);
}

static void fire(struct world *w, u32 sink, u32 vector)
{
	w->fired[sink][vector]++;
	w->counter[sink][vector]++;
	hint(w, (sink + 1) << 16 | vector);
}

static void look_one(struct world *w, u32 sink, u32 vector)
{
	u32 fresh = dlend_irqscan_new(&w->seen[sink][vector], w->counter[sink][vector]);

	w->got[sink][vector] += fresh;
	w->calls += !!fresh;
}

static void op_look(void *ctx, u32 handle, u32 vector)
{
	struct world *w = ctx;
	u32 n = w->meanwhile;

	/* The producer overtakes us. */
	for (w->meanwhile = 0; n; n--)
		fire(w, n % SINKS, n % DLEND_MAX_VECTORS);
	if (handle < 1 || handle > SINKS || vector >= DLEND_MAX_VECTORS)
		w->strangers++;
	else
		look_one(w, handle - 1, vector);
}

static void op_look_all(void *ctx)
{
	u32 sink, vector;

	for (sink = 0; sink < SINKS; sink++)
		for (vector = 0; vector < DLEND_MAX_VECTORS; vector++)
			look_one(ctx, sink, vector);
}

static enum dlend_irqscan_end some(u32 *scan, struct world *w, u32 *budget)
{
	enum dlend_irqscan_end end = dlend_irqscan_some(scan, &w->ctrl, op_look, w, budget);

	if (end == DLEND_IRQSCAN_OVERRUN)
		op_look_all(w);
	return end;
}

/* Scan all. Return: was the ring overrun, so that every counter was looked at? */
static bool run(u32 *scan, struct world *w)
{
	u32 all = DLEND_IRQ_RING_SLOTS;

	return some(scan, w, &all) == DLEND_IRQSCAN_OVERRUN;
}

static void expect_all(struct kunit *test, struct world *w)
{
	KUNIT_EXPECT_EQ(test, memcmp(w->fired, w->got, sizeof(w->fired)), 0);
}

static struct world *new_world(struct kunit *test)
{
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	return w;
}

static void one_by_one(struct kunit *test)
{
	struct world *w = new_world(test);
	u32 scan = 0;
	u32 i;

	for (i = 0; i < 3 * DLEND_IRQ_RING_SLOTS; i++) {
		fire(w, i % SINKS, i % DLEND_MAX_VECTORS);
		KUNIT_ASSERT_FALSE(test, run(&scan, w));
	}
	KUNIT_EXPECT_EQ(test, w->calls, 3 * DLEND_IRQ_RING_SLOTS);
	expect_all(test, w);
}

/* Every vector of MSI-X at once: the ring holds them, no count is lost or doubled. */
static void burst_of_all_vectors(struct kunit *test)
{
	struct world *w = new_world(test);
	u32 scan = 0;
	u32 i;

	for (i = 0; i < DLEND_MAX_VECTORS; i++)
		fire(w, 0, i);
	for (i = 0; i < 100; i++)
		fire(w, 1, 7);
	KUNIT_EXPECT_FALSE(test, run(&scan, w));
	KUNIT_EXPECT_EQ(test, w->calls, DLEND_MAX_VECTORS + 1);
	expect_all(test, w);
	KUNIT_EXPECT_FALSE(test, run(&scan, w));
	KUNIT_EXPECT_EQ(test, w->calls, DLEND_MAX_VECTORS + 1);
}

static void overrun(struct kunit *test)
{
	struct world *w = new_world(test);
	u32 scan = 0;
	u32 i;

	for (i = 0; i < 5 * DLEND_IRQ_RING_SLOTS + 3; i++)
		fire(w, i % SINKS, (i * 7) % DLEND_MAX_VECTORS);
	KUNIT_EXPECT_TRUE(test, run(&scan, w));
	expect_all(test, w);
	/* Exactly full: the entry after the index may be half way over an old one. */
	for (i = 0; i < DLEND_IRQ_RING_SLOTS; i++)
		fire(w, 0, i % DLEND_MAX_VECTORS);
	KUNIT_EXPECT_TRUE(test, run(&scan, w));
	expect_all(test, w);
}

/* The producer laps the reader between its two looks at the index. */
static void overtaken_while_reading(struct kunit *test)
{
	struct world *w = new_world(test);
	u32 scan = 0;
	u32 i;

	for (i = 0; i < 100; i++)
		fire(w, 0, i);
	w->meanwhile = DLEND_IRQ_RING_SLOTS;
	KUNIT_EXPECT_TRUE(test, run(&scan, w));
	/* The late interrupts ring the doorbell again. */
	run(&scan, w);
	expect_all(test, w);
}

static void across_the_wrap(struct kunit *test)
{
	struct world *w = new_world(test);
	u32 scan = (u32)-50;
	u32 i;

	w->ctrl.irq_prod = cpu_to_le32(-50);
	w->counter[0][3] = ~0u;
	w->seen[0][3] = ~0u;
	for (i = 0; i < 100; i++)
		fire(w, 0, 3);
	KUNIT_EXPECT_FALSE(test, run(&scan, w));
	KUNIT_EXPECT_EQ(test, w->calls, 1);
	expect_all(test, w);
}

static void lying_entries(struct kunit *test)
{
	struct world *w = new_world(test);
	u32 scan = 0;

	fire(w, 0, 1);
	hint(w, ~0u);
	hint(w, 1 << 16 | DLEND_MAX_VECTORS);
	fire(w, 1, 2);
	KUNIT_EXPECT_FALSE(test, run(&scan, w));
	KUNIT_EXPECT_EQ(test, w->strangers, 2);
	expect_all(test, w);
	/* An index that makes no sense is an overrun like any other. */
	w->ctrl.irq_prod = cpu_to_le32(prod(w) + 0x90000000u);
	KUNIT_EXPECT_TRUE(test, run(&scan, w));
	expect_all(test, w);
}

/* A scan in pieces of any size delivers the same, once, and no piece is too large. */
static void in_pieces(struct kunit *test)
{
	struct world *w = new_world(test);
	u32 scan = 0;
	enum dlend_irqscan_end end;
	u32 round, i, budget, was, seed = 7;

	for (round = 0; round < 300; round++) {
		seed = seed * 1664525u + 1013904223u;
		for (i = 0; i < (seed >> 8) % DLEND_IRQ_RING_SLOTS; i++)
			fire(w, i % SINKS, (i + seed) % DLEND_MAX_VECTORS);
		do {
			seed = seed * 1664525u + 1013904223u;
			budget = (seed >> 8) % 700;
			was = budget;
			end = some(&scan, w, &budget);
			KUNIT_ASSERT_LE(test, budget, was);
			KUNIT_ASSERT_TRUE(test, end != DLEND_IRQSCAN_MORE || !budget);
		} while (end == DLEND_IRQSCAN_MORE);
		KUNIT_ASSERT_EQ(test, end, DLEND_IRQSCAN_DONE);
		KUNIT_ASSERT_EQ(test, scan, prod(w));
		expect_all(test, w);
	}
}

/* The rest of a piece is overtaken before its turn. */
static void overtaken_between_pieces(struct kunit *test)
{
	struct world *w = new_world(test);
	u32 scan = 0;
	u32 i, budget = 10;

	for (i = 0; i < 100; i++)
		fire(w, 0, i);
	KUNIT_EXPECT_EQ(test, some(&scan, w, &budget), DLEND_IRQSCAN_MORE);
	for (i = 0; i < DLEND_IRQ_RING_SLOTS; i++)
		fire(w, 1, i % DLEND_MAX_VECTORS);
	budget = 10;
	KUNIT_EXPECT_EQ(test, some(&scan, w, &budget), DLEND_IRQSCAN_OVERRUN);
	expect_all(test, w);
}

/* However often somebody asks: each period gives one budget, and a new period a new one. */
static void budget_of_a_period(struct kunit *test)
{
	u32 taken = 0, interrupts = 0, turn, i;
	struct dlend_budget b = {};

	for (i = 0; i < 10 * DLEND_BUDGET; i++) {
		turn = dlend_budget_turn(&b, 77);
		KUNIT_ASSERT_LE(test, turn, DLEND_BUDGET_TURN);
		dlend_budget_spend(&b, turn, 0, 4000000);
		taken += turn;
		interrupts += !!turn;
	}
	KUNIT_EXPECT_LE(test, taken + interrupts * DLEND_DOORBELL_COST, DLEND_BUDGET);
	KUNIT_EXPECT_GT(test, taken, DLEND_BUDGET / 2);
	KUNIT_EXPECT_TRUE(test, dlend_budget_over(&b, 77));
	KUNIT_EXPECT_EQ(test, dlend_budget_turn(&b, 78), DLEND_BUDGET_TURN);
	KUNIT_EXPECT_EQ(test, b.left, DLEND_BUDGET - DLEND_DOORBELL_COST);
}

/* However many hints there are: one interrupt looks at a part, and says that there are more. */
static void turn_of_an_interrupt(struct kunit *test)
{
	struct world *w = new_world(test);
	u32 scan = 0;
	struct dlend_budget b = {};
	u32 i, left;

	for (i = 0; i < DLEND_IRQ_RING_SLOTS - 1; i++)
		fire(w, 0, i % DLEND_MAX_VECTORS);
	left = dlend_budget_turn(&b, 1);
	KUNIT_EXPECT_EQ(test, some(&scan, w, &left), DLEND_IRQSCAN_MORE);
	KUNIT_EXPECT_EQ(test, scan, 256);
}

/* Each vector of each sink once, in pieces; sinks go and come while it walks. */
static void look_in_pieces(struct kunit *test)
{
	struct dlend_irqlook l = {};
	u32 first, n, next = 0, pieces = 0;

	for (; l.handle <= 3; pieces++) {
		n = dlend_irqlook_piece(&l, max(l.handle, 3ul), &first);
		KUNIT_ASSERT_EQ(test, first, next);
		KUNIT_ASSERT_LE(test, n, 256);
		next += n;
	}
	KUNIT_EXPECT_EQ(test, next, DLEND_MAX_VECTORS);
	KUNIT_EXPECT_EQ(test, pieces, DLEND_MAX_VECTORS / 256);
	KUNIT_EXPECT_EQ(test, dlend_irqlook_piece(&l, 5, &first), 256);
	KUNIT_EXPECT_EQ(test, first, 0);
	/* Sink 5 is gone. */
	KUNIT_EXPECT_EQ(test, dlend_irqlook_piece(&l, 9, &first), 256);
	KUNIT_EXPECT_EQ(test, first, 0);
	KUNIT_EXPECT_EQ(test, l.handle, 9);
	KUNIT_EXPECT_EQ(test, l.vector, 256);
}

/* Interrupts that take long use a part of the period, however few hints they look at. */
static void budget_of_time(struct kunit *test)
{
	const u64 period = 4000000;
	struct dlend_budget b = {};
	u64 ns, spent = 0;

	for (ns = 1000; ns <= 2 * period; ns *= 3) {
		KUNIT_EXPECT_EQ(test, dlend_budget_turn(&b, ns), DLEND_BUDGET_TURN);
		KUNIT_EXPECT_FALSE(test, dlend_budget_over(&b, ns));
		for (spent = 0; !dlend_budget_over(&b, ns); spent += ns) {
			KUNIT_ASSERT_LE(test, spent, period / DLEND_BUDGET_SHARE * 5 / 4);
			dlend_budget_spend(&b, 0, ns, period);
		}
		KUNIT_EXPECT_GE(test, spent, period / DLEND_BUDGET_SHARE);
		KUNIT_EXPECT_FALSE(test, dlend_budget_over(&b, ns + 1));
	}
	/* A clock that went wrong, or an interrupt that a hypervisor put aside. */
	dlend_budget_turn(&b, 1);
	dlend_budget_spend(&b, 0, ~0ull, period);
	KUNIT_EXPECT_TRUE(test, dlend_budget_over(&b, 1));
}

#define SECOND_NS	1000000000ull

/*
 * For an hour, interrupts come without a break to some processors, which read if they may; each
 * read takes @ns.  Return: how much of the time of one processor that was, per mille.
 */
static u64 time_in_reads(u32 cpus, u64 ns)
{
	const u64 begin = 1ull << 40, end = begin + 3600 * SECOND_NS;
	struct dlend_readtime t = { .at = begin };
	u64 now = begin, busy = 0, wait;
	u32 i, n;

	while (now < end) {
		wait = dlend_readtime_wait(&t, now);
		if (wait) {
			now += wait;
			continue;
		}
		/* All of them have asked before the first one is through. */
		for (n = 1; n < cpus && !dlend_readtime_wait(&t, now); n++)
			;
		now += ns;
		for (i = 0; i < n; i++)
			dlend_readtime_spend(&t, ns);
		busy += n * ns;
	}
	return busy / ((now - begin) / 1000);
}

/* However long a read takes, a peer has a quarter of one processor, or less. */
static void share_of_time(struct kunit *test)
{
	static const u64 times[] = { 3000, 100000, 1000000, 4900000, 5100000, 20000000, 50000000 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(times); i++) {
		u64 one = time_in_reads(1, times[i]), many = time_in_reads(256, times[i]);

		KUNIT_EXPECT_LE(test, one, 251u);
		/* An hour may end in the midst of their reads. */
		KUNIT_EXPECT_LE(test, many, 255u);
		/* And not much less: what is not slow is not delayed. */
		KUNIT_EXPECT_GE(test, one, 190u);
	}
}

/* A window that is quick, and a processor that was put aside while it read. */
static void burst_and_debt(struct kunit *test)
{
	struct dlend_readtime t = {};
	u64 now = 1ull << 40;
	u32 i;

	KUNIT_EXPECT_EQ(test, dlend_readtime_wait(&t, now), 0u);
	for (i = 0; i < DLEND_READ_BURST_NS / 2000 - 1; i++)
		dlend_readtime_spend(&t, 2000);
	KUNIT_EXPECT_EQ(test, dlend_readtime_wait(&t, now), 0u);
	dlend_readtime_spend(&t, 2000);
	KUNIT_EXPECT_GT(test, dlend_readtime_wait(&t, now), 0u);
	/* Ten minutes are not paid for in full. */
	dlend_readtime_spend(&t, 600 * SECOND_NS);
	KUNIT_EXPECT_LE(test, dlend_readtime_wait(&t, now),
			(u64)DLEND_READ_SHARE * (DLEND_READ_DEBT_NS + 1));
	now += DLEND_READ_SHARE * (DLEND_READ_DEBT_NS + 1);
	/* Another processor's clock is behind. */
	KUNIT_EXPECT_EQ(test, dlend_readtime_wait(&t, now), 0u);
	KUNIT_EXPECT_EQ(test, dlend_readtime_wait(&t, now - 1000), 0u);
}

/* All ones mean that nobody answers, unless all ones were written there. */
static void nothing_there(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, dlend_irqscan_gone(~0u, 0));
	KUNIT_EXPECT_TRUE(test, dlend_irqscan_gone(~0u, ~0u - 1));
	KUNIT_EXPECT_FALSE(test, dlend_irqscan_gone(~0u, ~0u));
	KUNIT_EXPECT_FALSE(test, dlend_irqscan_gone(0, 0));
	KUNIT_EXPECT_FALSE(test, dlend_irqscan_gone(5, 7));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(one_by_one),
	KUNIT_CASE(burst_of_all_vectors),
	KUNIT_CASE(overrun),
	KUNIT_CASE(overtaken_while_reading),
	KUNIT_CASE(across_the_wrap),
	KUNIT_CASE(lying_entries),
	KUNIT_CASE(in_pieces),
	KUNIT_CASE(overtaken_between_pieces),
	KUNIT_CASE(budget_of_a_period),
	KUNIT_CASE(turn_of_an_interrupt),
	KUNIT_CASE(look_in_pieces),
	KUNIT_CASE(budget_of_time),
	KUNIT_CASE(share_of_time),
	KUNIT_CASE(burst_and_debt),
	KUNIT_CASE(nothing_there),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_irqring",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
