// SPDX-License-Identifier: GPL-2.0
/* Views of an aperture: each hears of its own part, in its own offsets; a refusal undoes all. */
#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/string.h>
#include <iommu/maps.h>

#define PAGES	64		/* of the make-believe aperture; offsets are in pages here */

/* A notifier that remembers what is behind each of its pages; 0 = nothing. */
struct fake {
	struct dlend_notifier notifier;
	u64 phys[PAGES];
	int refuse;
	unsigned int maps, unmaps;
};

struct world {
	struct list_head notifiers;
	struct fake a, b, blind;
};

static int fake_map(struct dlend_notifier *notifier, u64 at, const struct dlend_piece *piece)
{
	struct fake *f = container_of(notifier, struct fake, notifier);
	u64 i;

	f->maps++;
	if (f->refuse)
		return f->refuse;
	for (i = 0; i < piece->size; i++)
		f->phys[at + i] = piece->phys + i;
	return 0;
}

static void fake_unmap(struct dlend_notifier *notifier, u64 at, u64 size)
{
	struct fake *f = container_of(notifier, struct fake, notifier);

	f->unmaps++;
	memset(&f->phys[at], 0, size * sizeof(f->phys[0]));
}

static const struct dlend_notifier_ops ops = { .map = fake_map, .unmap = fake_unmap };
static const struct dlend_notifier_ops blind_ops = { .unmap = fake_unmap };

static void add(struct world *w, struct fake *f, u64 offset, u64 size,
		const struct dlend_notifier_ops *o)
{
	f->notifier.offset = offset;
	f->notifier.size = size;
	f->notifier.ops = o;
	list_add_tail(&f->notifier.node, &w->notifiers);
}

/* Views: a of pages 10..29; b of 20..39; blind, which hears of unmaps only, of 0..63. */
static struct world *new_world(struct kunit *test)
{
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	INIT_LIST_HEAD(&w->notifiers);
	add(w, &w->blind, 0, PAGES, &blind_ops);
	add(w, &w->a, 10, 20, &ops);
	add(w, &w->b, 20, 20, &ops);
	return w;
}

static int map(struct world *w, u64 offset, u64 size)
{
	struct dlend_piece piece = { .offset = offset, .size = size, .phys = 1000 + offset };

	return dlend_notifiers_map(&w->notifiers, &piece);
}

/* The notifier has what was mapped in pages @from..@to - 1, and nothing else. */
static void expect(struct kunit *test, const struct fake *f, u64 from, u64 to)
{
	u64 i, offset;

	for (i = 0; i < f->notifier.size; i++) {
		offset = f->notifier.offset + i;
		KUNIT_EXPECT_EQ_MSG(test, f->phys[i],
				    offset >= from && offset < to ? 1000 + offset : 0ull,
				    "page %u", (unsigned int)offset);
	}
}

static void each_its_part(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, map(w, 5, 20), 0);
	expect(test, &w->a, 5, 25);
	expect(test, &w->b, 5, 25);
	KUNIT_EXPECT_EQ(test, w->a.maps, 1u);
	KUNIT_EXPECT_EQ(test, map(w, 25, 20), 0);
	expect(test, &w->a, 5, 45);
	expect(test, &w->b, 5, 45);
	dlend_notifiers_unmap(&w->notifiers, 0, 22);
	expect(test, &w->a, 22, 45);
	expect(test, &w->b, 22, 45);
	dlend_notifiers_unmap(&w->notifiers, 22, 100);
	expect(test, &w->a, 0, 0);
	expect(test, &w->b, 0, 0);
}

static void neighbours_are_not_told(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, map(w, 0, 10), 0);
	KUNIT_EXPECT_EQ(test, map(w, 40, 10), 0);
	dlend_notifiers_unmap(&w->notifiers, 0, 10);
	dlend_notifiers_unmap(&w->notifiers, 40, 10);
	KUNIT_EXPECT_EQ(test, w->a.maps + w->b.maps, 0u);
	KUNIT_EXPECT_EQ(test, w->a.unmaps + w->b.unmaps, 0u);
}

static void some_hear_of_unmaps_only(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, map(w, 0, PAGES), 0);
	KUNIT_EXPECT_EQ(test, w->blind.maps, 0u);
	KUNIT_EXPECT_EQ(test, w->blind.unmaps, 0u);
	dlend_notifiers_unmap(&w->notifiers, 50, 1);
	KUNIT_EXPECT_EQ(test, w->blind.unmaps, 1u);
}

/* The last notifier refuses: no notifier has the mapping then, and all keep what they had. */
static void refused(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, map(w, 10, 5), 0);
	w->b.refuse = -ENOMEM;
	KUNIT_EXPECT_EQ(test, map(w, 15, 20), -ENOMEM);
	expect(test, &w->a, 10, 15);
	expect(test, &w->b, 0, 0);
	KUNIT_EXPECT_EQ(test, w->blind.unmaps, 0u);
}

/* A notifier that grows, as a new one does, hears only of what is below its end. */
static void growing(struct kunit *test)
{
	struct world *w = new_world(test);

	w->a.notifier.size = 0;
	KUNIT_EXPECT_EQ(test, map(w, 10, 4), 0);
	KUNIT_EXPECT_EQ(test, w->a.maps, 0u);
	w->a.notifier.size = 6;
	KUNIT_EXPECT_EQ(test, map(w, 14, 8), 0);
	expect(test, &w->a, 14, 16);
}

/* A mirror shrinks in steps: it has unmapped what it does not hear of any more. */
static void shrinking(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, map(w, 0, PAGES), 0);
	KUNIT_EXPECT_TRUE(test, dlend_notifier_shrink(&w->a.notifier, 8));
	KUNIT_EXPECT_EQ(test, w->a.notifier.size, 12ull);
	KUNIT_EXPECT_EQ(test, w->a.phys[12], 0ull);
	KUNIT_EXPECT_EQ(test, w->a.phys[19], 0ull);
	KUNIT_EXPECT_EQ(test, w->a.phys[11], 1021ull);
	/* The rest of the notifier still hears of unmaps. */
	dlend_notifiers_unmap(&w->notifiers, 15, 15);
	KUNIT_EXPECT_EQ(test, w->a.phys[5], 0ull);
	KUNIT_EXPECT_TRUE(test, dlend_notifier_shrink(&w->a.notifier, 8));
	KUNIT_EXPECT_EQ(test, w->a.phys[4], 0ull);
	KUNIT_EXPECT_FALSE(test, dlend_notifier_shrink(&w->a.notifier, 8));
	w->a.notifier.size = 20;
	expect(test, &w->a, 0, 0);
}

static void clip(struct kunit *test)
{
	struct dlend_piece piece = { .offset = 10, .size = 10, .phys = 1000, .prot = 3,
				     .mmio = true, .cap = 7 }, out;

	KUNIT_EXPECT_FALSE(test, dlend_piece_clip(&piece, 0, 10, &out));
	KUNIT_EXPECT_FALSE(test, dlend_piece_clip(&piece, 20, 10, &out));
	KUNIT_EXPECT_FALSE(test, dlend_piece_clip(&piece, 15, 0, &out));
	KUNIT_EXPECT_TRUE(test, dlend_piece_clip(&piece, 12, 3, &out));
	KUNIT_EXPECT_EQ(test, out.offset, 12ull);
	KUNIT_EXPECT_EQ(test, out.size, 3ull);
	KUNIT_EXPECT_EQ(test, out.phys, 1002ull);
	KUNIT_EXPECT_EQ(test, out.prot, 3u);
	KUNIT_EXPECT_EQ(test, out.cap, 7ull);
	KUNIT_EXPECT_TRUE(test, out.mmio);
	KUNIT_EXPECT_TRUE(test, dlend_piece_clip(&piece, 0, 100, &out));
	KUNIT_EXPECT_EQ(test, out.offset, 10ull);
	KUNIT_EXPECT_EQ(test, out.size, 10ull);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(each_its_part),
	KUNIT_CASE(neighbours_are_not_told),
	KUNIT_CASE(some_hear_of_unmaps_only),
	KUNIT_CASE(refused),
	KUNIT_CASE(growing),
	KUNIT_CASE(shrinking),
	KUNIT_CASE(clip),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_notifier",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
