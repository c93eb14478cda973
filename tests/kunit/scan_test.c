// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the scan for memory (mdev/scan.c), with a guest that is a list of ranges.  The pinner
 * answers as VFIO does, and notes every pin that stays.
 */
#include <kunit/test.h>
#include <linux/align.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "mdev/scan.h"

#define PAGE	4096ULL
#define KB(n)	((u64)(n) << 10)
#define MB(n)	((u64)(n) << 20)
#define GB(n)	((u64)(n) << 30)
#define RO	DLEND_PROT_READ
#define RW	(DLEND_PROT_READ | DLEND_PROT_WRITE)
#define MAX_RANGES	32
#define MAX_PINS	8192

struct range {
	u64 start, end;
	u32 prot;
};

struct guest {
	struct kunit *test;
	struct range ram[MAX_RANGES];
	unsigned int nr_ram;
	struct range pins[MAX_PINS];
	unsigned int nr_pins;
	u64 calls, failed;	/* pin calls */
	u64 fail_at;		/* a pin that touches this address ... */
	int fail_with;		/* ... fails with this */
	u64 stop_after;		/* pin calls, 0 = never */
	int hole_error;
	struct range bar[2];	/* mapped, but not with memory: a pin faults */
	struct dlend_range slot[MAX_RANGES];	/* where RAM may be, if the world knows */
	struct dlend_ranges slots;
	struct range unpinnable;	/* RAM at which a pin faults */
	u64 flapping;		/* a page that is there for a look only; 0: none */
};

/* The answer of a pinner that goes page by page. */
static int guest_check(struct guest *g, u64 gpa, u64 end, u32 prot)
{
	unsigned int i;

	while (gpa < end) {
		if (g->fail_with && g->fail_at >= gpa && g->fail_at < gpa + PAGE)
			return g->fail_with;
		for (i = 0; i < ARRAY_SIZE(g->bar); i++)
			if (gpa >= g->bar[i].start && gpa < g->bar[i].end)
				return -EFAULT;
		if (gpa >= g->unpinnable.start && gpa < g->unpinnable.end)
			return -EFAULT;
		for (i = 0; i < g->nr_ram; i++)
			if (gpa >= g->ram[i].start && gpa < g->ram[i].end)
				break;
		if (i == g->nr_ram)
			return g->hole_error;
		if (prot & ~g->ram[i].prot)
			return -EPERM;
		if (g->fail_with && g->fail_at > gpa)
			gpa = min(g->ram[i].end, g->fail_at);
		else
			gpa = g->ram[i].end;
	}
	return 0;
}

static int guest_try(void *ctx, u64 gpa, u32 npages, u32 prot)
{
	struct guest *g = ctx;
	u64 end = gpa + npages * PAGE;
	unsigned int i;
	int err;

	KUNIT_ASSERT_GE(g->test, npages, 1);
	KUNIT_ASSERT_LE(g->test, npages, DLEND_CHUNK_PAGES);
	KUNIT_ASSERT_EQ(g->test, gpa & (PAGE - 1), 0);
	/* Books of chunks rely on it: no pin crosses a 2 MiB boundary. */
	KUNIT_ASSERT_EQ(g->test, gpa / MB(2), (end - 1) / MB(2));
	KUNIT_ASSERT_LT_MSG(g->test, g->calls, 1000000, "the probe does not end");
	g->calls++;
	if (g->flapping && gpa == g->flapping)
		err = npages == 1 && prot == RO ? 0 : g->hole_error;
	else
		err = guest_check(g, gpa, end, prot);
	if (err) {
		g->failed++;
		return err;
	}
	for (i = 0; i < g->nr_pins; i++)
		KUNIT_ASSERT_FALSE_MSG(g->test, gpa < g->pins[i].end && g->pins[i].start < end,
				       "pinned twice at %#llx", gpa);
	return 0;
}

static int guest_pin(void *ctx, u64 gpa, u32 npages, u32 prot, bool try)
{
	struct guest *g = ctx;
	int err = guest_try(ctx, gpa, npages, prot);

	if (err || try)
		return err;
	KUNIT_ASSERT_LT(g->test, g->nr_pins, MAX_PINS);
	g->pins[g->nr_pins++] = (struct range){ gpa, gpa + npages * PAGE, prot };
	return 0;
}

static u64 guest_known(void *ctx, u64 gpa, u64 *next)
{
	struct guest *g = ctx;
	u64 end = 0;
	unsigned int i;

	*next = U64_MAX;
	for (i = 0; i < g->nr_pins; i++) {
		if (g->pins[i].start <= gpa && g->pins[i].end > gpa)
			end = g->pins[i].end;
		if (g->pins[i].start > gpa)
			*next = min(*next, g->pins[i].start);
	}
	return end;
}

static bool guest_stop(void *ctx)
{
	struct guest *g = ctx;

	return g->stop_after && g->calls >= g->stop_after;
}

static u64 guest_no_edge(void *ctx, u64 gpa, u64 end)
{
	return end;
}

static bool guest_is_no_ram(void *ctx, u64 gpa)
{
	return false;
}

static const struct dlend_scan_ops guest_ops = {
	.pin = guest_pin,
	.known = guest_known,
	.edge = guest_no_edge,
	.is_ram = guest_is_no_ram,
	.stop = guest_stop,
};

static bool guest_is_ram(void *ctx, u64 gpa)
{
	struct guest *g = ctx;

	return gpa >= g->unpinnable.start && gpa < g->unpinnable.end;
}

/* A VM whose memory slots are known. */
static const struct dlend_scan_ops slot_ops = {
	.pin = guest_pin,
	.known = guest_known,
	.edge = guest_no_edge,
	.is_ram = guest_is_ram,
	.stop = guest_stop,
};

static int run_ops(struct guest *g, const struct dlend_scan_ops *ops, u64 max)
{
	struct dlend_scan p = { .ops = ops, .ctx = g, .max = max };

	return dlend_scan_run(&p);
}

static int look_slots(struct guest *g, struct dlend_scan_turn *turn, u64 *found)
{
	struct dlend_scan p = { .ops = &slot_ops, .ctx = g, .where = &g->slots, .max = GB(100) };

	return dlend_scan_look(&p, turn, found);
}

static int look_anywhere(struct guest *g, struct dlend_scan_turn *turn, u64 *found)
{
	struct dlend_scan p = { .ops = &guest_ops, .ctx = g, .max = GB(128) };

	return dlend_scan_look(&p, turn, found);
}

static struct guest *guest_new(struct kunit *test)
{
	struct guest *g = kunit_kzalloc(test, sizeof(*g), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, g);
	g->test = test;
	g->hole_error = -EINVAL;
	g->slots.range = g->slot;
	return g;
}

static void add(struct guest *g, u64 start, u64 end, u32 prot)
{
	KUNIT_ASSERT_LT(g->test, g->nr_ram, MAX_RANGES);
	g->ram[g->nr_ram++] = (struct range){ start, end, prot };
}

/* VFIO unmaps a range: everything pinned there must go. */
static void take_away(struct guest *g, u64 start, u64 end)
{
	unsigned int i;

	for (i = g->nr_pins; i--;)
		if (g->pins[i].start < end && start < g->pins[i].end)
			g->pins[i] = g->pins[--g->nr_pins];
	for (i = g->nr_ram; i--;)
		if (g->ram[i].start < end && start < g->ram[i].end)
			g->ram[i] = g->ram[--g->nr_ram];
}

static int probe(struct guest *g)
{
	g->calls = 0;
	g->failed = 0;
	return dlend_scan_run(&(struct dlend_scan) {
		.ops = g->slots.count ? &slot_ops : &guest_ops,
		.ctx = g,
		.where = g->slots.count ? &g->slots : NULL,
		.max = GB(1024) * 64,
	});
}

static void add_slot(struct guest *g, u64 start, u64 end)
{
	KUNIT_ASSERT_LT(g->test, g->slots.count, MAX_RANGES);
	g->slot[g->slots.count++] = (struct dlend_range){ start, end };
}

/* Every page of RAM is pinned once, with its own rights, and nothing else is. */
static void expect_exact(struct guest *g)
{
	u64 ram = 0, pinned = 0;
	unsigned int i, k;

	for (i = 0; i < g->nr_ram; i++)
		ram += g->ram[i].end - g->ram[i].start;
	for (i = 0; i < g->nr_pins; i++) {
		u64 inside = 0;

		pinned += g->pins[i].end - g->pins[i].start;
		for (k = 0; k < g->nr_ram; k++) {
			u64 start = max(g->pins[i].start, g->ram[k].start);
			u64 end = min(g->pins[i].end, g->ram[k].end);

			if (start < end && g->ram[k].prot == g->pins[i].prot)
				inside += end - start;
		}
		KUNIT_EXPECT_EQ_MSG(g->test, inside, g->pins[i].end - g->pins[i].start,
				    "pin at %#llx", g->pins[i].start);
	}
	KUNIT_EXPECT_EQ(g->test, ram, pinned);
}

/* Landmarks up to 64 TiB, a handful of calls for each edge, a call for each read-only page. */
static void expect_bounded(struct guest *g)
{
	u64 readonly = 0;
	unsigned int i;

	for (i = 0; i < g->nr_ram; i++)
		if (g->ram[i].prot == RO)
			readonly += (g->ram[i].end - g->ram[i].start) / PAGE;
	KUNIT_EXPECT_LE(g->test, g->failed, 4200 + 16384 + 65536 + 64 * g->nr_ram + readonly);
}

/* A PC under SeaBIOS, as seen in one phase or another */

enum phase { PAM_ROM, PAM_SHADOW, PAM_DONE };

static void add_low(struct guest *g, u64 top, bool vga, enum phase phase)
{
	add(g, 0, vga ? KB(640) : KB(768), RW);
	switch (phase) {
	case PAM_ROM:		/* ROM shows through, read-only */
		add(g, KB(768), MB(1), RO);
		break;
	case PAM_SHADOW:	/* all of it writable */
		add(g, KB(768), MB(1), RW);
		break;
	case PAM_DONE:		/* locked but for what the BIOS keeps for itself */
		add(g, KB(768), KB(816), RO);
		add(g, KB(816), KB(832), RW);
		add(g, KB(832), KB(928), RO);
		add(g, KB(928), KB(960), RW);
		add(g, KB(960), MB(1), RO);
		break;
	}
	add(g, MB(1), top, RW);
}

struct scan_case {
	const char *name;
	u64 low;
	bool vga;
	enum phase phase;
	u64 high, dimm, dimm_size;
	u64 fb;			/* VGA's frame buffer */
	u64 flash;		/* bytes below 4 GiB */
	int hole_error;
};

static const struct scan_case cases[] = {
	{ .name = "small pc", .low = MB(256), .vga = true, .phase = PAM_ROM },
	{ .name = "small pc without VGA", .low = MB(256), .phase = PAM_DONE },
	{ .name = "odd end", .low = MB(256) + 5 * PAGE, .phase = PAM_DONE },
	{ .name = "q35", .low = GB(2), .vga = true, .phase = PAM_DONE, .high = GB(1) },
	{ .name = "pc", .low = GB(3), .vga = true, .phase = PAM_SHADOW, .high = GB(1) + MB(8) },
	{ .name = "DIMM after a gap", .low = GB(2), .phase = PAM_DONE, .high = MB(512),
	  .dimm = GB(5), .dimm_size = MB(256) },
	{ .name = "DIMM not on a GiB", .low = GB(2), .phase = PAM_DONE, .high = MB(512),
	  .dimm = GB(5) + MB(256), .dimm_size = MB(128) },
	{ .name = "DIMM above 1 TiB", .low = MB(64), .phase = PAM_DONE, .dimm = GB(1024),
	  .dimm_size = MB(128) },
	{ .name = "DIMM far up", .low = MB(64), .phase = PAM_DONE, .dimm = GB(5000),
	  .dimm_size = MB(128) },
	{ .name = "frame buffer", .low = MB(512), .vga = true, .phase = PAM_DONE,
	  .fb = 0xfd000000, .high = MB(64) },
	{ .name = "flash", .low = MB(512), .vga = true, .phase = PAM_DONE, .high = MB(64),
	  .flash = KB(256) },
	{ .name = "iommufd", .low = GB(2), .vga = true, .phase = PAM_DONE, .high = MB(64),
	  .hole_error = -ENOENT },
};

KUNIT_ARRAY_PARAM_DESC(scan, cases, name);

static void scan_exact(struct kunit *test)
{
	const struct scan_case *c = test->param_value;
	struct guest *g = guest_new(test);

	if (c->hole_error)
		g->hole_error = c->hole_error;
	add_low(g, c->low, c->vga, c->phase);
	if (c->fb)
		add(g, c->fb, c->fb + MB(16), RW);
	if (c->flash)
		add(g, GB(4) - c->flash, GB(4), RO);
	if (c->high)
		add(g, GB(4), GB(4) + c->high, RW);
	if (c->dimm)
		add(g, c->dimm, c->dimm + c->dimm_size, RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	expect_bounded(g);
	/* Again: nothing is new, nothing is pinned twice. */
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
}

/* A hole of one page, wherever it is. */
static void scan_one_page_hole(struct kunit *test)
{
	static const u64 at[] = {
		PAGE, KB(512), MB(1) + PAGE, MB(2) - PAGE, MB(2), MB(17) + 3 * PAGE,
		GB(4) + PAGE, GB(4) + MB(127), GB(4) + MB(128) - PAGE, GB(4) + MB(128),
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(at); i++) {
		struct guest *g = guest_new(test);
		u64 base = at[i] < GB(4) ? 0 : GB(4);

		add(g, base, at[i], RW);
		add(g, at[i] + PAGE, base + MB(300), RW);
		KUNIT_EXPECT_EQ(test, probe(g), 0);
		expect_exact(g);
	}
}

/* Low RAM goes and comes back whole, with another patchwork; high RAM is not touched. */
static void scan_firmware(struct kunit *test)
{
	static const enum phase phases[] = { PAM_ROM, PAM_SHADOW, PAM_DONE, PAM_SHADOW, PAM_DONE };
	struct guest *g = guest_new(test);
	unsigned int i;

	add(g, GB(4), GB(6), RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	for (i = 0; i < ARRAY_SIZE(phases); i++) {
		/* In between there is no low RAM at all. */
		take_away(g, 0, GB(4));
		KUNIT_EXPECT_EQ(test, probe(g), 0);
		expect_exact(g);
		add_low(g, MB(512), i != 1, phases[i]);
		KUNIT_EXPECT_EQ(test, probe(g), 0);
		expect_exact(g);
		/* Known memory costs no call: 2 GiB of high RAM are 1024 pins. */
		KUNIT_EXPECT_LT(test, g->calls - g->failed, 600);
	}
	/* TSEG is hidden, and shown again. */
	take_away(g, MB(1), GB(4));
	add(g, MB(1), MB(448), RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	add(g, MB(448), MB(512), RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	expect_bounded(g);
}

/* A hole before what is known already has become RAM. */
static void scan_before_known(struct kunit *test)
{
	struct guest *g = guest_new(test);

	add(g, 0, MB(3), RW);
	add(g, MB(8) + 7 * PAGE, MB(16), RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	add(g, MB(6) + 9 * PAGE, MB(8) + 7 * PAGE, RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
}

static u32 next_random(u32 *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* Ranges of any size; each lies on a landmark, and has its own rights. */
static void scan_random(struct kunit *test)
{
	u32 seed = 1, round;

	for (round = 0; round < 60; round++) {
		struct guest *g = guest_new(test);
		u64 pos = 0;

		while (pos < MB(900) && g->nr_ram < MAX_RANGES - 4) {
			u64 hole = next_random(&seed) % 3 ? next_random(&seed) % 5000 : 0;
			u64 start = pos + hole * PAGE;
			/* 1 MiB at least below 4 GiB always reaches a landmark. */
			u64 size = MB(1) + next_random(&seed) % 20000 * PAGE;

			add(g, start, start + size, next_random(&seed) % 4 ? RW : RO);
			pos = start + size;
		}
		add(g, GB(4), GB(4) + (1 + next_random(&seed) % 30000) * PAGE, RW);
		if (round % 2)
			g->hole_error = -ENOENT;
		KUNIT_ASSERT_EQ(test, probe(g), 0);
		expect_exact(g);
		expect_bounded(g);
	}
}

/* virtio-mem has unplugged two blocks between two landmarks, and what it left is probed anew. */
static void scan_islands(struct kunit *test)
{
	struct guest *g = guest_new(test);

	add(g, 0, GB(1), RW);
	add(g, GB(4), GB(5), RW);
	add(g, GB(5), GB(5) + MB(32), RW);
	add(g, GB(5) + MB(36), GB(5) + MB(64), RW);
	add(g, GB(5) + MB(68), GB(5) + MB(256), RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	/* The only block that is plugged, in the midst of its region. */
	g->nr_ram = 2;
	g->nr_pins = 0;
	add(g, GB(5) + MB(300), GB(5) + MB(301), RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	/* Blocks are found from a DIMM above them, too. */
	g->nr_pins = 0;
	add(g, GB(7), GB(7) + MB(128), RW);
	add(g, GB(7) - MB(77), GB(7) - MB(75), RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	/* Also from a DIMM that is known already, and far from all else. */
	add(g, GB(7) - MB(500), GB(7) - MB(499), RW);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
}

/* Blocks that virtio-mem has plugged, from @pos on to @end; @far: longest hole in MiB. */
static u64 add_blocks(struct guest *g, u32 *seed, u64 pos, u64 end, u32 far)
{
	while (pos < end && g->nr_ram < MAX_RANGES) {
		u64 start = pos + (1 + next_random(seed) % far) * MB(1);
		u64 size = (1 + next_random(seed) % 40) * MB(1);

		if (start + size > end)
			break;
		add(g, start, start + size, RW);
		pos = start + size;
	}
	return pos;
}

/* Some RAM is taken away, in blocks, and plugged in again elsewhere. */
static void move_blocks(struct guest *g, u32 *seed, u64 base, u64 end, u32 far)
{
	unsigned int i;

	for (i = g->nr_ram; i--;) {
		struct range r = g->ram[i];

		if (r.start < base || next_random(seed) % 2)
			continue;
		take_away(g, r.start, r.end);
		/* Its last block stays, in between. */
		if (next_random(seed) % 2)
			add(g, r.end - MB(1), r.end, RW);
	}
	if (g->nr_ram < MAX_RANGES - 2)
		add_blocks(g, seed, end, end + GB(1), far);
}

/* Islands smaller than the landmarks' distance, none of which need hold a landmark. */
static void scan_random_islands(struct kunit *test)
{
	u32 seed = 7, round;

	for (round = 0; round < 60; round++) {
		struct guest *g = guest_new(test);
		u64 base = round % 3 ? GB(4) : GB(2048), end;

		add(g, 0, GB(1), RW);
		add(g, base, base + next_random(&seed) % 300 * MB(1) + MB(1), RW);
		end = add_blocks(g, &seed, g->ram[1].end, base + GB(4), round % 2 ? 20 : 500);
		KUNIT_ASSERT_EQ(test, probe(g), 0);
		expect_exact(g);
		if (round % 2) {
			move_blocks(g, &seed, g->ram[1].end, end, 20);
			KUNIT_ASSERT_EQ(test, probe(g), 0);
			expect_exact(g);
		}
	}
}

/* With memory slots anywhere, and islands of a block in them: calls are for edges and holes. */
static void scan_random_slots(struct kunit *test)
{
	u32 seed = 11, round;

	for (round = 0; round < 60; round++) {
		struct guest *g = guest_new(test);
		u64 pos = GB(4) + next_random(&seed) % 100000 * PAGE, holes;
		unsigned int i;

		add_low(g, MB(300) + next_random(&seed) % 100000 * PAGE, true, PAM_DONE);
		for (i = 0; i < g->nr_ram; i++)
			add_slot(g, g->ram[i].start, g->ram[i].end);
		for (i = 0; i < 4; i++) {
			u64 end = pos + (1 + next_random(&seed) % 500) * MB(1);

			if (next_random(&seed) % 2)
				add(g, pos, pos + MB(1), RW);
			add_blocks(g, &seed, pos + MB(1), end, 100);
			add_slot(g, pos, end);
			pos = end + GB(next_random(&seed) % 5000);
		}
		for (i = 0, holes = 0; i < g->slots.count; i++)
			holes += g->slot[i].end - g->slot[i].start;
		for (i = 0; i < g->nr_ram; i++)
			holes -= g->ram[i].end - g->ram[i].start;
		KUNIT_ASSERT_EQ(test, probe(g), 0);
		expect_exact(g);
		KUNIT_EXPECT_LE(test, g->failed, holes / MB(1) + 100 + 32 * g->nr_ram);
		/* Memory that stands costs no calls but for its edges. */
		KUNIT_ASSERT_EQ(test, probe(g), 0);
		KUNIT_EXPECT_LE(test, g->calls, holes / MB(1) + 4 * g->nr_ram);
	}
}

/* All RAM in slots, as most VMs have it: calls are for memory and its edges, not for space. */
static void scan_slots_exact(struct kunit *test)
{
	struct guest *g = guest_new(test);
	unsigned int i;

	add_low(g, GB(2), true, PAM_DONE);
	add(g, GB(4), GB(5), RW);
	add(g, GB(9000) + PAGE, GB(9000) + MB(64), RW);
	add_slot(g, 0, KB(640));
	add_slot(g, KB(768), GB(2));
	for (i = g->nr_ram - 2; i < g->nr_ram; i++)
		add_slot(g, g->ram[i].start, g->ram[i].end);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	KUNIT_EXPECT_LT(test, g->failed, 200);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	KUNIT_EXPECT_EQ(test, g->calls, 0);
}

/* A look finds a block of virtio-mem: at once where memory ends, in some turns anywhere else. */
static void scan_look(struct kunit *test)
{
	struct dlend_scan_turn look = {};
	struct guest *g = guest_new(test);
	u64 found = 0, turns, pinned;

	add(g, 0, GB(1), RW);
	add(g, GB(4), GB(4) + MB(40), RW);
	add(g, GB(4) + MB(52), GB(4) + MB(60), RW);
	add_slot(g, 0, GB(1));
	add_slot(g, GB(4), GB(6));
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	pinned = g->nr_pins;
	for (turns = 0; turns < 50; turns++) {
		g->calls = 0;
		KUNIT_ASSERT_EQ(test, look_slots(g, &look, &found), 0);
		KUNIT_ASSERT_LE(test, g->calls, DLEND_SCAN_LOOK_CALLS);
		KUNIT_ASSERT_EQ(test, look.tried, g->calls);
	}
	add(g, GB(4) + MB(40), GB(4) + MB(44), RW);
	KUNIT_EXPECT_EQ(test, look_slots(g, &look, &found), 1);
	KUNIT_EXPECT_EQ(test, found, GB(4) + MB(40));
	/* It only tries. */
	KUNIT_EXPECT_EQ(test, g->nr_pins, pinned);
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	add(g, GB(5) + MB(333), GB(5) + MB(334), RW);
	for (turns = 0; !look_slots(g, &look, &found); turns++)
		KUNIT_ASSERT_LT(test, turns, 2048 / (DLEND_SCAN_LOOK_CALLS / 2) + 1);
	KUNIT_EXPECT_EQ(test, found, GB(5) + MB(333));
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	/* No hole, no call. */
	g->slots.count = 1;
	g->calls = 0;
	KUNIT_EXPECT_EQ(test, look_slots(g, &look, &found), 0);
	KUNIT_EXPECT_EQ(test, g->calls, 0);
	KUNIT_EXPECT_EQ(test, look.tried, 0);
	/* Without ranges: landmarks, in turn. */
	add(g, GB(32), GB(33), RW);
	for (turns = 0; !look_anywhere(g, &look, &found); turns++)
		KUNIT_ASSERT_LT(test, turns, (4096 + 1024) / (DLEND_SCAN_LOOK_CALLS / 2) + 1);
	KUNIT_EXPECT_EQ(test, found, GB(32));
	g->fail_at = GB(33) + MB(128);
	g->fail_with = -ENOMEM;
	look.inside = g->fail_at;
	KUNIT_EXPECT_EQ(test, look_anywhere(g, &look, &found), -ENOMEM);
}

/* Errors that are no edges end it; what is pinned is a start for the next probe. */
static void scan_abort(struct kunit *test)
{
	static const int errors[] = { -ENOMEM, -EBUSY, -ENODEV };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		struct guest *g = guest_new(test);

		add_low(g, MB(512), true, PAM_DONE);
		add(g, GB(4), GB(6), RW);
		g->fail_at = GB(5) + 77 * PAGE;
		g->fail_with = errors[i];
		KUNIT_EXPECT_EQ(test, probe(g), errors[i]);
		/* In the read-only patchwork as well. */
		take_away(g, 0, MB(512));
		add_low(g, MB(512), true, PAM_DONE);
		g->fail_at = KB(800);
		KUNIT_EXPECT_EQ(test, probe(g), errors[i]);
		g->fail_with = 0;
		KUNIT_EXPECT_EQ(test, probe(g), 0);
		expect_exact(g);
	}
}

/* BARs that the VMM has mapped, the borrowed device's own too, fault: they are holes. */
static void scan_bars(struct kunit *test)
{
	struct guest *g = guest_new(test);

	add_low(g, GB(2), true, PAM_DONE);
	add(g, GB(4), GB(5), RW);
	add(g, GB(6), GB(6) + MB(128), RW);
	/* On a landmark below 4 GiB, and right behind the end of high RAM, not even aligned. */
	g->bar[0] = (struct range){ GB(3), GB(3) + MB(256), RW };
	g->bar[1] = (struct range){ GB(5), GB(5) + MB(16) + PAGE, RW };
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
	/* Nothing new: what is known is walked past, and the BARs fault again. */
	KUNIT_EXPECT_EQ(test, probe(g), 0);
	expect_exact(g);
}

/* RAM that cannot be pinned at all (a file on a disk, secret memory) is not taken for a hole. */
static void scan_unpinnable(struct kunit *test)
{
	struct guest *g = guest_new(test);

	g->bar[0] = (struct range){ 0, GB(1), RW };
	KUNIT_EXPECT_EQ(test, probe(g), -EFAULT);
}

/* Nor is RAM taken for a hole elsewhere, if the world knows it; a BAR beside it is a hole. */
static void scan_unpinnable_node(struct kunit *test)
{
	static const u64 at[] = { MB(512), MB(512) + 3 * PAGE, GB(4), GB(4) + MB(2) + PAGE };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(at); i++) {
		struct guest *g = guest_new(test);

		add(g, 0, MB(512), RW);
		add(g, GB(4), GB(5), RW);
		add_slot(g, 0, GB(1));
		add_slot(g, GB(3), GB(3) + MB(16));
		add_slot(g, GB(4), GB(5));
		g->bar[0] = (struct range){ GB(3), GB(3) + MB(16), RW };
		KUNIT_EXPECT_EQ(test, probe(g), 0);
		expect_exact(g);
		g->nr_pins = 0;
		g->unpinnable = (struct range){ at[i], at[i] + MB(5), RW };
		KUNIT_EXPECT_EQ(test, probe(g), -EFAULT);
	}
}

static void scan_stop(struct kunit *test)
{
	u64 calls;

	for (calls = 1; calls < 400; calls += 7) {
		struct guest *g = guest_new(test);

		add_low(g, MB(256), true, PAM_DONE);
		add(g, GB(4), GB(5), RW);
		g->stop_after = calls;
		KUNIT_EXPECT_EQ(test, probe(g), -EINTR);
		KUNIT_EXPECT_EQ(test, g->calls, calls);
		g->stop_after = 0;
		KUNIT_EXPECT_EQ(test, probe(g), 0);
		expect_exact(g);
	}
}

/* Nothing at all, and the end of guest-physical space in the midst of RAM. */
static void scan_ends(struct kunit *test)
{
	struct guest *g = guest_new(test);

	KUNIT_EXPECT_EQ(test, probe(g), 0);
	KUNIT_EXPECT_EQ(test, g->nr_pins, 0);
	add(g, 0, GB(1), RW);
	KUNIT_EXPECT_EQ(test, run_ops(g, &guest_ops, MB(3) + PAGE + 5), 0);
	g->ram[0].end = MB(3) + PAGE;
	expect_exact(g);
}

/* A frame buffer in the PCI hole pins like RAM; the admin says where low RAM ends. */
#define SAID	(MB(64) + 3 * PAGE)	/* of 128 MiB: no landmark, in the midst of a chunk */

static int said_pin(void *ctx, u64 gpa, u32 npages, u32 prot, bool try)
{
	struct guest *g = ctx;

	return dlend_scan_excluded(SAID, gpa, npages) ? g->hole_error :
							  guest_pin(ctx, gpa, npages, prot, try);
}

static void scan_said(struct kunit *test)
{
	struct dlend_scan_ops said = guest_ops;
	struct guest *g = guest_new(test);

	said.pin = said_pin;
	add(g, 0, MB(128), RW);
	add(g, GB(3), GB(3) + MB(16), RW);
	add(g, GB(4), GB(4) + MB(64), RW);
	KUNIT_EXPECT_EQ(test, run_ops(g, &said, GB(8)), 0);
	g->ram[0].end = SAID;
	g->ram[1] = g->ram[2];
	g->nr_ram = 2;
	expect_exact(g);
	KUNIT_EXPECT_FALSE(test, dlend_scan_excluded(0, GB(3), 1));
	KUNIT_EXPECT_FALSE(test, dlend_scan_excluded(GB(4), GB(4) - PAGE, 1));
	KUNIT_EXPECT_FALSE(test, dlend_scan_excluded(GB(2), GB(4), 512));
	KUNIT_EXPECT_TRUE(test, dlend_scan_excluded(GB(2), GB(2) - PAGE, 2));
}

static u64 guest_edge(void *ctx, u64 gpa, u64 end)
{
	return min(end, ALIGN_DOWN(gpa, MB(1)) + MB(1));
}

/* No pin crosses an edge, and all is found as without them. */
static void scan_edges(struct kunit *test)
{
	struct dlend_scan_ops ops = guest_ops;
	struct guest *g = guest_new(test);
	unsigned int i;

	ops.edge = guest_edge;
	add(g, 0, KB(640), RW);
	add(g, KB(832), MB(1), RO);
	add(g, MB(1), MB(64) + KB(12), RW);
	KUNIT_EXPECT_EQ(test, run_ops(g, &ops, GB(4)), 0);
	for (i = 0; i < g->nr_pins; i++)
		KUNIT_EXPECT_EQ(test, g->pins[i].start / MB(1), (g->pins[i].end - 1) / MB(1));
	expect_exact(g);
}

/* A VMM that maps and unmaps a page all the time: the probe gives up, and is made again later. */
static void scan_flapping(struct kunit *test)
{
	struct guest *g = guest_new(test);

	add(g, 0, MB(1), RW);
	g->flapping = MB(8);
	KUNIT_EXPECT_EQ(test, run_ops(g, &guest_ops, GB(5)), -EINTR);
}

static struct kunit_case scan_cases[] = {
	KUNIT_CASE_PARAM(scan_exact, scan_gen_params),
	KUNIT_CASE(scan_one_page_hole),
	KUNIT_CASE(scan_firmware),
	KUNIT_CASE(scan_before_known),
	KUNIT_CASE(scan_random),
	KUNIT_CASE(scan_islands),
	KUNIT_CASE(scan_random_islands),
	KUNIT_CASE(scan_random_slots),
	KUNIT_CASE(scan_slots_exact),
	KUNIT_CASE(scan_look),
	KUNIT_CASE(scan_abort),
	KUNIT_CASE(scan_bars),
	KUNIT_CASE(scan_unpinnable),
	KUNIT_CASE(scan_unpinnable_node),
	KUNIT_CASE(scan_stop),
	KUNIT_CASE(scan_flapping),
	KUNIT_CASE(scan_ends),
	KUNIT_CASE(scan_said),
	KUNIT_CASE(scan_edges),
	{}
};

static struct kunit_suite scan_suite = {
	.name = "dlend-scan",
	.test_cases = scan_cases,
};

kunit_test_suite(scan_suite);

MODULE_DESCRIPTION("Suite of dlend's scan for memory");
MODULE_LICENSE("GPL");
