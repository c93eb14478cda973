// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of what an NVMe controller's queues tell (mdev/outstanding.c): a driver and a controller
 * that use two pairs of queues at random, as Linux numbers its commands, and otherwise.  Nothing is
 * taken for busy that is not; and what Linux waits for is nearly always found.
 */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <mdev/outstanding.h>

#define ENTRIES		16u
#define ADMIN		8u
#define TAGS		(ENTRIES - 1)
#define PAIRS		2u
#define MEMORY		0x8000u
#define ASQ		0x0000u
#define ACQ		0x1000u
#define SQ(i)		(0x2000u + (i) * 0x2000u)
#define CQ(i)		(0x3000u + (i) * 0x2000u)

/* @id: of the commands under way, by tag; @uses: how often a tag was used; @told: commands */
struct pair {
	u16 id[TAGS];
	bool in_flight[TAGS];
	u8 uses[TAGS];
	u32 next, told, fetched, ended, busy;
};

struct world {
	u8 memory[MEMORY];
	struct pair pair[PAIRS];
	u32 seed, admin;
	bool counts;
};

static u32 chance(struct world *w, u32 of)
{
	w->seed = w->seed * 1664525 + 1013904223;
	return (w->seed >> 8) % of;
}

static int read_memory(void *arg, u64 gpa, void *buf, size_t size)
{
	struct world *w = arg;

	if (gpa > MEMORY || size > MEMORY - gpa)
		return -EFAULT;
	memcpy(buf, w->memory + gpa, size);
	return 0;
}

static struct dlend_nvme controller(struct world *w)
{
	return (struct dlend_nvme){
		.cc = 1,
		.csts = 1,
		.aqa = (ADMIN - 1) << 16 | (ADMIN - 1),
		.asq = ASQ,
		.acq = ACQ,
		.read = read_memory,
		.arg = w,
	};
}

static void answer(u8 *cq, u32 entries, u32 ended, u32 head, u32 queue, u16 id)
{
	u8 *end = cq + ended % entries * 16;

	put_unaligned_le16(head, end + 8);
	put_unaligned_le16(queue, end + 10);
	put_unaligned_le16(id, end + 12);
	put_unaligned_le16(ended / entries % 2 ? 0 : 1, end + 14);
}

/* An administrator's command, and its end. */
static void administer(struct world *w, u8 opcode, u64 at, u32 dw10, u32 dw11)
{
	u8 *command = w->memory + ASQ + w->admin % ADMIN * 64;

	memset(command, 0, 64);
	command[0] = opcode;
	put_unaligned_le64(at, command + 24);
	put_unaligned_le32(dw10, command + 40);
	put_unaligned_le32(dw11, command + 44);
	answer(w->memory + ACQ, ADMIN, w->admin, (w->admin + 1) % ADMIN, 0, 0);
	w->admin++;
}

static void begin(struct world *w, u32 seed, bool counts)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->counts = counts;
	administer(w, 6, 0, 1, 0);
	for (u32 i = 0; i < PAIRS; i++) {
		administer(w, 5, CQ(i), (ENTRIES - 1) << 16 | (i + 1), i << 16 | 3);
		administer(w, 1, SQ(i), (ENTRIES - 1) << 16 | (i + 1), (i + 1) << 16 | 1);
	}
}

/* The next free tag: those of Linux go round. */
static int take_tag(struct pair *p)
{
	for (u32 i = 0; i < TAGS; i++) {
		u32 tag = (p->next + i) % TAGS;

		if (p->in_flight[tag])
			continue;
		p->next = tag + 1;
		return tag;
	}
	return -1;
}

static void tell(struct world *w, u32 i)
{
	struct pair *p = &w->pair[i];
	u8 *command = w->memory + SQ(i) + p->told % ENTRIES * 64;
	int tag = p->told - p->fetched < ENTRIES - 1 ? take_tag(p) : -1;

	if (tag < 0)
		return;
	p->id[tag] = (w->counts ? ++p->uses[tag] << 12 : 0) | tag;
	p->in_flight[tag] = true;
	p->busy++;
	memset(command, 0, 64);
	command[0] = 1 + chance(w, 2);
	put_unaligned_le16(p->id[tag], command + 2);
	p->told++;
}

static void end_one(struct world *w, u32 i)
{
	struct pair *p = &w->pair[i];
	u32 tag = chance(w, TAGS);

	p->fetched = p->told;
	for (u32 n = 0; n < TAGS && !p->in_flight[tag]; n++)
		tag = (tag + 1) % TAGS;
	if (!p->in_flight[tag])
		return;
	p->in_flight[tag] = false;
	answer(w->memory + CQ(i), ENTRIES, p->ended++, p->fetched % ENTRIES, i + 1, p->id[tag]);
	p->busy--;
}

/* Return: of all times that the controller was busy, in percent, how often that was seen. */
static u32 play(struct kunit *test, struct world *w)
{
	struct dlend_nvme n = controller(w);
	u32 busy = 0, seen = 0;
	int ret;

	for (u32 at = 0; at < 4000; at++) {
		u32 i = chance(w, PAIRS);

		/* Sometimes there is less to do, so that all of it ends. */
		if (chance(w, 8) < (at / 64 % 2 ? 2 : 4))
			tell(w, i);
		else
			end_one(w, i);
		ret = dlend_nvme_busy(&n);
		KUNIT_ASSERT_GE(test, ret, 0);
		if (!w->pair[0].busy && !w->pair[1].busy)
			KUNIT_ASSERT_EQ_MSG(test, ret, 0, "seed %u, step %u", w->seed, at);
		busy += w->pair[0].busy || w->pair[1].busy;
		seen += ret;
	}
	return busy ? seen * 100 / busy : 100;
}

static void nvme_random(struct kunit *test)
{
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	for (u32 seed = 1; seed <= 60; seed++) {
		u32 least = seed & 1 ? 90 : 50;

		begin(w, seed, seed & 1);
		KUNIT_EXPECT_GE(test, play(test, w), least);
	}
}

/* One flush, and nothing else: at first, and when the queue has gone round. */
static void nvme_silent(struct kunit *test)
{
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct dlend_nvme n;

	KUNIT_ASSERT_NOT_NULL(test, w);
	begin(w, 1, true);
	n = controller(w);
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), 0);
	for (u32 i = 0; i < 5 * ENTRIES; i++) {
		tell(w, 1);
		/* For the last entry of the first round the next one is no help. */
		if (i != ENTRIES - 1)
			KUNIT_EXPECT_EQ_MSG(test, dlend_nvme_busy(&n), 1, "command %u", i);
		end_one(w, 1);
		KUNIT_EXPECT_EQ_MSG(test, dlend_nvme_busy(&n), 0, "command %u", i);
	}
}

/* What the queues cannot tell is said to be nothing, and nothing is read that is not there. */
static void nvme_unknown(struct kunit *test)
{
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct dlend_nvme n;

	KUNIT_ASSERT_NOT_NULL(test, w);
	begin(w, 1, true);
	n = controller(w);
	tell(w, 0);
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), 1);
	n.cc = 0;
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), 0);
	n = controller(w);
	n.csts = ~0u;
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), 0);
	n = controller(w);
	n.asq = MEMORY;
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), -EFAULT);
	/* A queue that is not in memory, beside the one that is. */
	n = controller(w);
	administer(w, 5, MEMORY, (ENTRIES - 1) << 16 | 2, 3);
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), 1);
	tell(w, 1);
	end_one(w, 0);
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), 0);
	/* The commands that made the queues are overwritten, or undone. */
	begin(w, 1, true);
	tell(w, 0);
	n = controller(w);
	administer(w, 0, 0, 1, 0);
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), 0);
	begin(w, 1, true);
	tell(w, 0);
	for (u32 i = 0; i < ADMIN; i++)
		administer(w, 2, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), 0);
	/* A controller that was reset: the queues are the same memory, only ends were cleared. */
	begin(w, 1, true);
	for (u32 i = 0; i < ENTRIES / 2; i++) {
		tell(w, 0);
		end_one(w, 0);
	}
	memset(w->memory + CQ(0), 0, ENTRIES * 16);
	KUNIT_EXPECT_EQ(test, dlend_nvme_busy(&n), 0);
}

static struct kunit_case nvme_cases[] = {
	KUNIT_CASE(nvme_random),
	KUNIT_CASE(nvme_silent),
	KUNIT_CASE(nvme_unknown),
	{}
};

static struct kunit_suite nvme_suite = {
	.name = "dlend-nvme",
	.test_cases = nvme_cases,
};

kunit_test_suite(nvme_suite);

MODULE_DESCRIPTION("Suite of what NVMe queues tell dlend");
MODULE_LICENSE("GPL");
