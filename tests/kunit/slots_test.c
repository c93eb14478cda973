// SPDX-License-Identifier: GPL-2.0
/* Slot allocator against a model, quarantine, phases; and places for an aperture's base. */
#include <kunit/test.h>
#include <linux/string.h>
#include <linux/bits.h>
#include <linux/slab.h>
#include <linux/sizes.h>
#include <iommu/reserved.h>
#include <iommu/slots.h>

#define MIB		BIT_ULL(20)
#define MODEL_PAGES	4096
#define MAX_LIVE	64

struct world {
	struct dlend_slots s;
	u8 model[MODEL_PAGES];		/* 0 free, 1 used, 2 quarantined, 3 used and old */
	u32 seed;
};

static void free_slots(void *s)
{
	dlend_slots_exit(s);
}

static void sum(const struct dlend_slots *s, u64 *free, u64 *largest, u64 *quarantined)
{
	struct dlend_aperture_stat st = {};

	dlend_slots_sum(s, &st);
	*free = st.free;
	*largest = st.largest_free;
	*quarantined = st.quarantined;
}

static u64 bytes(const struct dlend_slots *s, unsigned int kind)
{
	struct dlend_aperture_stat st = {};

	dlend_slots_sum(s, &st);
	return st.bytes[kind];
}

static int get(struct kunit *test, struct dlend_slots *s, u64 size, u64 align, u64 phase,
	       struct dlend_slot **e)
{
	return dlend_slots_alloc(s, (struct dlend_slot_want){ size, align, phase }, e);
}

static struct world *new_world(struct kunit *test, u64 size)
{
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	KUNIT_ASSERT_EQ(test, dlend_slots_init(&w->s, size), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, free_slots, &w->s), 0);
	w->seed = 12345;
	return w;
}

static u32 rnd(struct world *w, u32 below)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return (w->seed >> 8) % below;
}

static void mark(struct kunit *test, struct world *w, const struct dlend_slot *e, u8 from,
		 u8 to)
{
	u64 page;

	for (page = e->offset >> 12; page < (e->offset + e->size) >> 12; page++) {
		KUNIT_ASSERT_EQ(test, w->model[page], from);
		w->model[page] = to;
	}
}

static void compare(struct kunit *test, struct world *w)
{
	u64 free, largest, quarantined, n[4] = {}, run = 0, best = 0;
	unsigned int i;

	for (i = 0; i < MODEL_PAGES; i++) {
		n[w->model[i]]++;
		run = w->model[i] ? 0 : run + 1;
		best = max(best, run);
	}
	sum(&w->s, &free, &largest, &quarantined);
	KUNIT_ASSERT_EQ(test, free, n[0] << 12);
	KUNIT_ASSERT_EQ(test, quarantined, n[2] << 12);
	KUNIT_ASSERT_EQ(test, largest, best << 12);
}

/* Is there really no place?  The model looks at every one. */
static bool model_fits(struct world *w, u64 size, u64 align, u64 phase)
{
	u64 at, i, pages = (size + 4095) >> 12;

	for (at = phase >> 12; at + pages <= MODEL_PAGES; at += align >> 12) {
		for (i = 0; i < pages && !w->model[at + i]; i++)
			;
		if (i == pages)
			return true;
	}
	return false;
}

static void against_a_model(struct kunit *test)
{
	struct world *w = new_world(test, MODEL_PAGES << 12);
	struct dlend_slot *live[MAX_LIVE] = {};
	u8 is;
	u64 size, align, phase;
	unsigned int round, i;
	int err;

	for (round = 0; round < 3000; round++) {
		i = rnd(w, MAX_LIVE);
		is = live[i] ? w->model[live[i]->offset >> 12] : 0;
		if (live[i] && rnd(w, 4)) {
			mark(test, w, live[i], is, 0);
			KUNIT_ASSERT_EQ(test, dlend_slots_free(&w->s, live[i]), 0);
			live[i] = NULL;
		} else if (live[i]) {
			mark(test, w, live[i], is, is == 3 ? 0 : 2);
			KUNIT_ASSERT_GT(test, dlend_slots_quarantine(&w->s, live[i]), 0ull);
			live[i] = NULL;
		} else {
			size = 1 + rnd(w, 200 << 12);
			align = 4096ull << rnd(w, 10);
			phase = (u64)rnd(w, align >> 12) << 12;
			err = get(test, &w->s, size, align, phase, &live[i]);
			if (err) {
				KUNIT_ASSERT_EQ(test, err, -ENOSPC);
				KUNIT_ASSERT_FALSE(test, model_fits(w, size, align, phase));
				continue;
			}
			KUNIT_ASSERT_EQ(test, live[i]->offset & (align - 1), phase);
			KUNIT_ASSERT_EQ(test, live[i]->size, (size + 4095) & ~4095ull);
			mark(test, w, live[i], 0, 1);
		}
		if (round % 500 == 499) {
			for (i = 0; i < MODEL_PAGES; i++)
				w->model[i] = w->model[i] % 2 ? 3 : 0;
			dlend_slots_release_all(&w->s);
		}
		compare(test, w);
	}
}

static void best_fit(struct kunit *test)
{
	struct world *w = new_world(test, 64 * MIB);
	struct dlend_slot *e[6], *x;

	/* Holes of 8 and 2 MiB between slots. */
	KUNIT_ASSERT_EQ(test, get(test, &w->s, MIB, 0, 0, &e[0]), 0);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, 8 * MIB, 0, 0, &e[1]), 0);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, MIB, 0, 0, &e[2]), 0);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, 2 * MIB, 0, 0, &e[3]), 0);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, MIB, 0, 0, &e[4]), 0);
	KUNIT_EXPECT_EQ(test, e[0]->offset, 0ull);
	dlend_slots_free(&w->s, e[1]);
	dlend_slots_free(&w->s, e[3]);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, MIB, 0, 0, &x), 0);
	KUNIT_EXPECT_EQ(test, x->offset, 10 * MIB);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, 3 * MIB, 0, 0, &x), 0);
	KUNIT_EXPECT_EQ(test, x->offset, MIB);
}

static void double_free(struct kunit *test)
{
	struct world *w = new_world(test, 16 * MIB);
	struct dlend_slot *a, *b;
	u64 cookie;

	KUNIT_ASSERT_EQ(test, get(test, &w->s, MIB, 0, 0, &a), 0);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, MIB, 0, 0, &b), 0);
	cookie = dlend_slots_quarantine(&w->s, a);
	KUNIT_EXPECT_GT(test, cookie, 0ull);
	KUNIT_EXPECT_EQ(test, dlend_slots_free(&w->s, a), -EINVAL);
	KUNIT_EXPECT_EQ(test, dlend_slots_quarantine(&w->s, a), 0ull);
	KUNIT_EXPECT_EQ(test, dlend_slots_release(&w->s, cookie), 0);
	KUNIT_EXPECT_EQ(test, dlend_slots_release(&w->s, cookie), -ENOENT);
	KUNIT_EXPECT_EQ(test, dlend_slots_free(&w->s, a), -EINVAL);
	KUNIT_EXPECT_EQ(test, dlend_slots_release(&w->s, 0), -ENOENT);
}

/* A slot that a peer may still use is given to nobody else. */
static void quarantine_holds(struct kunit *test)
{
	struct world *w = new_world(test, 4 * MIB);
	struct dlend_slot *e, *x;
	u64 cookie;

	KUNIT_ASSERT_EQ(test, get(test, &w->s, 4 * MIB, 0, 0, &e), 0);
	cookie = dlend_slots_quarantine(&w->s, e);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 4096, 0, 0, &x), -ENOSPC);
	KUNIT_EXPECT_EQ(test, dlend_slots_release(&w->s, cookie + 1), -ENOENT);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 4096, 0, 0, &x), -ENOSPC);
	KUNIT_EXPECT_EQ(test, dlend_slots_release(&w->s, cookie), 0);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 4 * MIB, 0, 0, &x), 0);
}

/* A slot from before a new session needs no quarantine: nobody uses it, or could release it. */
static void too_late(struct kunit *test)
{
	struct world *w = new_world(test, 4 * MIB);
	struct dlend_slot *old, *e;
	u64 cookie, free, largest, quarantined;

	KUNIT_ASSERT_EQ(test, get(test, &w->s, MIB, 0, 0, &old), 0);
	dlend_slots_release_all(&w->s);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, MIB, 0, 0, &e), 0);
	KUNIT_EXPECT_EQ(test, e->offset, MIB);
	cookie = dlend_slots_quarantine(&w->s, old);
	KUNIT_EXPECT_GT(test, cookie, 0ull);
	sum(&w->s, &free, &largest, &quarantined);
	KUNIT_EXPECT_EQ(test, quarantined, 0ull);
	KUNIT_EXPECT_EQ(test, free, 3 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_slots_release(&w->s, cookie), -ENOENT);
	/* A slot of this session waits in quarantine, with a cookie of its own. */
	KUNIT_EXPECT_GT(test, dlend_slots_quarantine(&w->s, e), cookie);
	sum(&w->s, &free, &largest, &quarantined);
	KUNIT_EXPECT_EQ(test, quarantined, MIB);
}

/*
 * Bytes are counted by kind, in quarantine, too: otherwise a peer that never says that it has
 * forgotten a slot would have the whole window in the end.
 */
static void bytes_of_a_kind(struct kunit *test)
{
	struct world *w = new_world(test, 8 * MIB);
	struct dlend_slot *e[4];
	struct dlend_slot_want want = {};
	unsigned int i;
	u64 cookie;

	for (i = 0; i < ARRAY_SIZE(e); i++) {
		want.size = MIB << (i / 2);
		want.kind = i & 1;
		KUNIT_ASSERT_EQ(test, dlend_slots_alloc(&w->s, want, &e[i]), 0);
	}
	KUNIT_EXPECT_EQ(test, bytes(&w->s, 0), 3 * MIB);
	KUNIT_EXPECT_EQ(test, bytes(&w->s, 1), 3 * MIB);
	KUNIT_EXPECT_EQ(test, bytes(&w->s, 2), 0ull);
	cookie = dlend_slots_quarantine(&w->s, e[1]);
	KUNIT_EXPECT_EQ(test, bytes(&w->s, 1), 3 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_slots_free(&w->s, e[0]), 0);
	KUNIT_EXPECT_EQ(test, bytes(&w->s, 0), 2 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_slots_release(&w->s, cookie), 0);
	KUNIT_EXPECT_EQ(test, bytes(&w->s, 1), 2 * MIB);
	KUNIT_EXPECT_GT(test, dlend_slots_quarantine(&w->s, e[3]), cookie);
	dlend_slots_release_all(&w->s);
	KUNIT_EXPECT_EQ(test, bytes(&w->s, 1), 0ull);
}

static void arguments(struct kunit *test)
{
	struct world *w = new_world(test, 4 * MIB);
	struct dlend_slot *e;

	KUNIT_EXPECT_EQ(test, get(test, &w->s, 0, 0, 0, &e), -EINVAL);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 4096, 12288, 0, &e), -EINVAL);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 4096, 8192, 8192, &e), -EINVAL);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 4096, 8192, 100, &e), -EINVAL);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, ~0ull, 0, 0, &e), -ENOSPC);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 4096, 1ull << 63, 0, &e), 0);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 4096, 1ull << 63, 1ull << 62, &e), -ENOSPC);
}

struct place {
	const char *name;
	struct dlend_span_want want;
	struct dlend_span busy[3];
	unsigned int count;
	u64 at;
	int err;
};

#define G	BIT_ULL(30)

static const struct place places[] = {
	{ "empty", { { 0, 256 * G - 1 }, G, G }, {}, 0, 0, 0 },
	{ "aligned up", { { 4096, 256 * G - 1 }, G, G }, {}, 0, G, 0 },
	{ "behind the MSI range", { { 0xfee00000, 256 * G - 1 }, G, G },
	  { { 0xfee00000, 0xfeefffff } }, 1, 4 * G, 0 },
	{ "between two windows", { { 4 * G, 256 * G - 1 }, 2 * G, 2 * G },
	  { { 8 * G, 9 * G - 1 }, { 4 * G, 5 * G } }, 2, 6 * G, 0 },
	{ "not in any order, overlapping", { { 0, 256 * G - 1 }, G, G },
	  { { 2 * G, 3 * G }, { 0, G + 5 }, { G, 2 * G } }, 3, 4 * G, 0 },
	{ "no room at the end", { { 0, 4 * G - 1 }, 2 * G, 2 * G },
	  { { G, 2 * G } }, 1, 0, -ENOSPC },
	{ "just fits", { { 0, 4 * G - 1 }, 2 * G, 2 * G }, { { G, 2 * G - 1 } }, 1, 2 * G, 0 },
	{ "larger than all", { { 0, G - 1 }, 2 * G, 4096 }, {}, 0, 0, -ENOSPC },
	{ "top of 64 bits is busy", { { ~0ull - G + 1, ~0ull }, 4096, 4096 },
	  { { ~0ull - G + 1, ~0ull } }, 1, 0, -ENOSPC },
	{ "alignment wraps", { { ~0ull - 4096, ~0ull }, 4096, G }, {}, 0, 0, -ENOSPC },
};

static void place_desc(const struct place *p, char *desc)
{
	strscpy(desc, p->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(place, places, place_desc);

static void base_is_clear(struct kunit *test)
{
	const struct place *p = test->param_value;
	u64 at = 0;

	KUNIT_EXPECT_EQ(test, dlend_span_pick(p->busy, p->count, &p->want, &at), p->err);
	if (!p->err)
		KUNIT_EXPECT_EQ(test, at, p->at);
}

/* The peer's window is smaller than the aperture: no slot is made where it does not reach. */
static void limited(struct kunit *test)
{
	struct world *w = new_world(test, 16 * MIB);
	struct dlend_slot *first, *e;
	u64 free, largest, quarantined;

	KUNIT_ASSERT_EQ(test, get(test, &w->s, MIB, 0, 0, &first), 0);
	dlend_slots_limit(&w->s, 6 * MIB + 100);
	sum(&w->s, &free, &largest, &quarantined);
	KUNIT_EXPECT_EQ(test, free, 5 * MIB);
	KUNIT_EXPECT_EQ(test, largest, 5 * MIB);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 6 * MIB, 0, 0, &e), -ENOSPC);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, MIB, 8 * MIB, 0, &e), -ENOSPC);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, 5 * MIB, 0, 0, &e), 0);
	KUNIT_EXPECT_EQ(test, e->offset, MIB);
	KUNIT_EXPECT_EQ(test, get(test, &w->s, 4096, 0, 0, &e), -ENOSPC);
	/* The next peer's is larger again. */
	dlend_slots_limit(&w->s, ~0ull);
	KUNIT_ASSERT_EQ(test, get(test, &w->s, 10 * MIB, 0, 0, &e), 0);
	KUNIT_EXPECT_EQ(test, e->offset, 6 * MIB);
	/* A slot beyond a new limit stays, and is free when it is given back. */
	dlend_slots_limit(&w->s, 2 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_slots_free(&w->s, e), 0);
	sum(&w->s, &free, &largest, &quarantined);
	KUNIT_EXPECT_EQ(test, free, 0ull);
}

/* A share is whole pages, of what the peer reaches, and never more than all of it. */
static void share(struct kunit *test)
{
	struct world *w = new_world(test, 16 * MIB);

	KUNIT_EXPECT_EQ(test, dlend_slots_share(&w->s, 0), 0ull);
	KUNIT_EXPECT_EQ(test, dlend_slots_share(&w->s, 50), 8 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_slots_share(&w->s, 1), 40 * 4096ull);
	KUNIT_EXPECT_EQ(test, dlend_slots_share(&w->s, 100), 16 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_slots_share(&w->s, 5000), 16 * MIB);
	dlend_slots_limit(&w->s, 10 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_slots_share(&w->s, 25), 640 * 4096ull);
	dlend_slots_limit(&w->s, 4096);
	KUNIT_EXPECT_EQ(test, dlend_slots_share(&w->s, 99), 0ull);
}

/* USB and graphics with memory of the firmware's are lent, and a guest may have RAM there. */
static void relaxable(struct kunit *test)
{
	struct iommu_resv_region regions[] = {
		{ .start = 0x7b800000, .length = 0x800000, .type = IOMMU_RESV_DIRECT_RELAXABLE },
		{ .start = 0xfee00000, .length = 0x100000, .type = IOMMU_RESV_MSI },
		{ .start = 0x3a2dd000, .length = 0x1000, .type = IOMMU_RESV_DIRECT },
		{ .start = 0xfd00000000, .length = 0x300000000, .type = IOMMU_RESV_RESERVED },
		{ .start = 0x3a2f0000, .length = 0x20000, .type = IOMMU_RESV_DIRECT_RELAXABLE },
	};
	static const struct dlend_span want[] = {
		{ 0xfee00000, 0xfeefffff },
		{ 0x3a2dd000, 0x3a2ddfff },
		{ 0xfd00000000, 0xffffffffff },
	};
	struct dlend_span out[ARRAY_SIZE(regions)];
	LIST_HEAD(list);

	KUNIT_EXPECT_EQ(test, dlend_span_reserved(&list, out), 0u);
	for (unsigned int i = 0; i < ARRAY_SIZE(regions); i++)
		list_add_tail(&regions[i].list, &list);
	KUNIT_ASSERT_EQ(test, dlend_span_reserved(&list, out), ARRAY_SIZE(want));
	for (unsigned int i = 0; i < ARRAY_SIZE(want); i++) {
		KUNIT_EXPECT_EQ(test, out[i].first, want[i].first);
		KUNIT_EXPECT_EQ(test, out[i].last, want[i].last);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(relaxable),
	KUNIT_CASE(share),
	KUNIT_CASE(against_a_model),
	KUNIT_CASE(best_fit),
	KUNIT_CASE(double_free),
	KUNIT_CASE(quarantine_holds),
	KUNIT_CASE(too_late),
	KUNIT_CASE(bytes_of_a_kind),
	KUNIT_CASE(arguments),
	KUNIT_CASE(limited),
	KUNIT_CASE_PARAM(base_is_clear, place_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_slots",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
