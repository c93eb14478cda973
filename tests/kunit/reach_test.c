// SPDX-License-Identifier: GPL-2.0
/*
 * A model of a VM with two devices, to which RAM is plugged in, and taken away again, while the
 * steps towards it fail at random.  It says after each event: for each block of RAM that the guest
 * may use, each device reaches it, or has stopped.  There is no third case, and no plug takes for
 * ever.
 *
 * What is looked at are the pure parts of which builds are made (the scan, the pin table, who was
 * told, the plan); the model puts them together as mdev/build.c and vdev.c do.
 */
#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <dlend/alloc.h>

#include "mdev/pinned.h"
#include "mdev/plan.h"
#include "mdev/scan.h"

#define BLOCKS		32u
#define BASE		(4ull << 30)	/* no chipset remaps here */
#define DEVICES		2u
#define EVENTS		4000u
#define REACH_MS	2000		/* as in vdev.c */
#define SETTLE_MS	60000
#define PLUG_MS		10000		/* as in guest_ram.c */

struct device {
	u32 id;
	struct dlend_state want, have;
	struct dlend_patience patience;
	bool dma, failed, lender[BLOCKS];	/* its lender maps it */
};

struct vm {
	struct kunit *test;
	struct dlend_pinned pinned;
	struct device dev[DEVICES];
	/* VFIO has mapped it; KVM has a slot; the guest may use it; a build has to look, or does */
	bool mapped[BLOCKS], slot[BLOCKS], usable[BLOCKS], due[BLOCKS], looks[BLOCKS];
	u32 seed, build;
	s64 now_ms;
	u64 lockable, window;		/* bytes */
	u32 silent;			/* of a hundred messages, so many have no answer */
	struct device *builder;
	bool announced;
	u32 reached, stopped;
};

static u32 pick(struct vm *vm, u32 below)
{
	vm->seed = vm->seed * 1664525u + 1013904223u;
	return (vm->seed >> 8) % below;
}

static u64 block_gpa(u32 block)
{
	return BASE + block * DLEND_CHUNK_BYTES;
}

static u32 block_of(u64 gpa)
{
	return (gpa - BASE) / DLEND_CHUNK_BYTES;
}

/* A device that wants memory has its gate shut, and builds. */
static void grow(struct vm *vm)
{
	u32 i;

	for (i = 0; i < DEVICES; i++)
		if (vm->dev[i].want.bme && !vm->dev[i].failed)
			vm->dev[i].want.grow++;
}

/* The guest, as the scan sees it */

static int vm_try(struct vm *vm, u64 gpa, u32 npages)
{
	if (gpa < BASE || block_of(gpa) >= BLOCKS || !vm->mapped[block_of(gpa)])
		return -EINVAL;
	if (vm->pinned.pinned_bytes + npages * DLEND_GUEST_PAGE > vm->lockable)
		return -ENOMEM;
	return 0;
}

static int vm_pin(void *ctx, u64 gpa, u32 npages, u32 prot, bool try)
{
	struct vm *vm = ctx;
	struct dlend_chunk *chunk;
	int err = vm_try(vm, gpa, npages);

	if (err || try)
		return err;
	if (!vm->announced)
		grow(vm);
	vm->announced = true;
	chunk = kzalloc_obj(*chunk);
	KUNIT_ASSERT_NOT_NULL(vm->test, chunk);
	chunk->gpa = gpa;
	chunk->npages = npages;
	chunk->prot = prot;
	chunk->build = vm->build;
	KUNIT_ASSERT_EQ(vm->test, dlend_pinned_add(&vm->pinned, chunk), 0);
	return 0;
}

static u64 vm_known(void *ctx, u64 gpa, u64 *next)
{
	struct vm *vm = ctx;

	return dlend_pinned_known(&vm->pinned, gpa, next);
}

static u64 vm_edge(void *ctx, u64 gpa, u64 end)
{
	return end;
}

static bool vm_is_ram(void *ctx, u64 gpa)
{
	return false;
}

/* Something more urgent, or a dma_unmap elsewhere. */
static bool vm_stop(void *ctx)
{
	return !pick(ctx, 100);
}

static const struct dlend_scan_ops vm_ops = {
	.pin = vm_pin,
	.known = vm_known,
	.edge = vm_edge,
	.is_ram = vm_is_ram,
	.stop = vm_stop,
};

/* A build */

static void free_chunks(struct list_head *out)
{
	struct dlend_chunk *chunk, *tmp;

	list_for_each_entry_safe(chunk, tmp, out, node)
		kfree(chunk);
}

static void set_lender(struct device *d, const struct dlend_extent *extent, bool maps)
{
	u32 i;

	for (i = block_of(extent->gpa); i < block_of(dlend_extent_end(extent)); i++)
		d->lender[i] = maps;
}

/* Lenders are told that they are gone, sooner or later: what they have reaches nothing here. */
static void free_extents(struct vm *vm, struct list_head *dead)
{
	struct dlend_extent *extent, *tmp;

	list_for_each_entry_safe(extent, tmp, dead, node) {
		set_lender(&vm->dev[0], extent, false);
		set_lender(&vm->dev[1], extent, false);
		kfree(extent);
	}
}

static int search(struct vm *vm)
{
	struct dlend_ranges where = {};
	struct dlend_scan p = {
		.ops = &vm_ops, .ctx = vm, .where = &where, .max = block_gpa(BLOCKS),
	};
	int err = 0;
	u32 i;

	for (i = 0; i < BLOCKS && !err; i++)
		if (vm->slot[i] && vm->looks[i])
			err = dlend_ranges_add(&where, block_gpa(i), block_gpa(i + 1));
	KUNIT_ASSERT_EQ(vm->test, err, 0);
	err = dlend_scan_run(&p);
	dlend_ranges_clear(&where);
	if (err && err != -EINTR && !vm->announced)
		grow(vm);
	return err == -EINTR ? -EAGAIN : err;
}

static int form(struct vm *vm)
{
	LIST_HEAD(dead);

	dlend_pinned_settle(&vm->pinned, &dead);
	free_extents(vm, &dead);
	return pick(vm, 50) ? dlend_pinned_form(&vm->pinned, vm->build) : -ENOMEM;
}

static int map(struct vm *vm)
{
	struct dlend_chunk *chunk;
	u64 bytes = 0;

	for (chunk = dlend_pinned_find(&vm->pinned, 0); chunk;
	     chunk = dlend_pinned_next(&vm->pinned, chunk))
		bytes += chunk->mapped ? dlend_chunk_bytes(chunk) : 0;
	for (chunk = dlend_pinned_find(&vm->pinned, 0); chunk;
	     chunk = dlend_pinned_next(&vm->pinned, chunk)) {
		if (chunk->mapped)
			continue;
		bytes += dlend_chunk_bytes(chunk);
		if (bytes > vm->window)
			return -ENOSPC;
		chunk->mapped = true;
	}
	return 0;
}

static int tell(struct vm *vm, u32 id, enum dlend_change news)
{
	struct dlend_extent *extent;
	bool ok;
	u64 gpa = 0;

	while ((extent = dlend_pinned_next_extent(&vm->pinned, gpa))) {
		gpa = dlend_extent_end(extent);
		if (!dlend_acks_due(&extent->acks, news, id))
			continue;
		dlend_acks_ask(&extent->acks, news, id);
		ok = pick(vm, 100) >= vm->silent;
		dlend_acks_answer(&extent->acks, news, id, ok);
		if (!ok)
			return -ETIMEDOUT;
		set_lender(&vm->dev[id], extent, news == DLEND_CHANGE_NEW);
	}
	return 0;
}

static bool is_untold(const struct dlend_extent *extent, u32 unused)
{
	return !dlend_acks_any(&extent->acks);
}

static bool is_of_build(const struct dlend_extent *extent, u32 build)
{
	return extent->build == build;
}

static void undo(struct vm *vm, int err)
{
	LIST_HEAD(dead);
	LIST_HEAD(out);

	if (err == -EAGAIN) {
		dlend_pinned_kill_all(&vm->pinned, is_untold, 0, &dead);
	} else {
		dlend_pinned_kill_all(&vm->pinned, is_of_build, vm->build, &dead);
		dlend_pinned_take_build(&vm->pinned, vm->build, &out);
	}
	free_chunks(&out);
	free_extents(vm, &dead);
}

/* The other device's lender has not heard of all that stands. */
static bool others_due(struct vm *vm, const struct device *d)
{
	struct dlend_extent *extent;
	u64 gpa = 0;

	while ((extent = dlend_pinned_next_extent(&vm->pinned, gpa))) {
		if (!dlend_acks_member(&extent->acks, !d->id))
			return true;
		gpa = dlend_extent_end(extent);
	}
	return false;
}

static int build(struct vm *vm, struct device *d)
{
	struct device *other = &vm->dev[!d->id];
	u32 i;
	int err;

	vm->build++;
	/* With the gate shut for its own device, only the other one need be told. */
	vm->announced = d->have.grow != d->want.grow && other->have.grow != other->want.grow;
	for (i = 0; i < BLOCKS; i++)
		vm->looks[i] = vm->due[i] || !d->have.bme;
	memset(vm->due, 0, sizeof(vm->due));
	err = search(vm) ?: form(vm) ?: map(vm) ?: tell(vm, d->id, DLEND_CHANGE_UNSURE) ?:
	      tell(vm, d->id, DLEND_CHANGE_NEW);
	if (err)
		undo(vm, err);
	for (i = 0; i < BLOCKS; i++)
		vm->due[i] |= err && vm->looks[i];
	if (!err && !vm->announced && others_due(vm, d) && other->want.bme && !other->failed)
		other->want.grow++;
	return err;
}

/* What its worker does */

static void note(struct vm *vm, struct device *d, const struct dlend_state *wish, int err)
{
	bool overdue = err && dlend_plan_overdue(&d->patience, vm->pinned.pinned_bytes, vm->now_ms,
						 err == -EAGAIN ? SETTLE_MS : REACH_MS);

	switch (dlend_plan_verdict(&d->want, &d->have, err, overdue)) {
	case DLEND_VERDICT_STANDS:
		d->have.build = wish->build;
		d->have.rescan = wish->rescan;
		d->have.grow = wish->grow;
		break;
	case DLEND_VERDICT_AGAIN:
		vm->now_ms += 100;
		return;
	case DLEND_VERDICT_KEEP:
		d->have.rescan = wish->rescan;
		break;
	case DLEND_VERDICT_FAIL:
		d->failed = true;
		break;
	}
	d->patience = (struct dlend_patience){};
}

/* Return: was there anything to do? */
static bool work(struct vm *vm, struct device *d)
{
	struct dlend_situation now = { .open = true, .leased = true, .failed = d->failed };
	struct dlend_state wish = d->want;

	switch (dlend_plan(now, &d->want, &d->have).next) {
	case DLEND_STEP_BUILD:
		note(vm, d, &wish, build(vm, d));
		return true;
	case DLEND_STEP_BME_ON:
		d->dma = true;
		d->have.bme = true;
		return true;
	case DLEND_STEP_BME_OFF:
		d->dma = false;
		d->have.bme = false;
		return true;
	default:
		return false;
	}
}

static void work_all(struct vm *vm)
{
	u32 steps = 0;

	while (work(vm, &vm->dev[0]) || work(vm, &vm->dev[1]))
		KUNIT_ASSERT_LT_MSG(vm->test, ++steps, 10000u, "no end");
}

/* The sentence */

static bool reaches(struct vm *vm, const struct device *d, u32 block)
{
	const struct dlend_chunk *chunk = dlend_pinned_find(&vm->pinned, block_gpa(block));

	return chunk && chunk->gpa <= block_gpa(block) &&
	       dlend_chunk_end(chunk) >= block_gpa(block + 1) && chunk->mapped && d->lender[block];
}

static void check(struct vm *vm, const char *what)
{
	u32 i, k;

	for (k = 0; k < DEVICES; k++) {
		const struct device *d = &vm->dev[k];

		for (i = 0; i < BLOCKS && d->dma; i++)
			KUNIT_ASSERT_TRUE_MSG(vm->test, !vm->usable[i] || reaches(vm, d, i),
					      "%s: device %u transfers, and does not reach block %u",
					      what, k, i);
	}
}

/* Events */

static bool behind(const struct vm *vm)
{
	struct dlend_situation now = {};
	u32 i;

	for (i = 0; i < DEVICES; i++) {
		now.dma = vm->dev[i].dma;
		if (dlend_plan(now, &vm->dev[i].want, &vm->dev[i].have).behind)
			return true;
	}
	return false;
}

static void plug_in(struct vm *vm)
{
	u32 first = pick(vm, BLOCKS), count = 1 + pick(vm, min(BLOCKS - first, 8u)), i;
	s64 begun = vm->now_ms;

	for (i = first; i < first + count; i++) {
		if (vm->slot[i])
			return;
	}
	for (i = first; i < first + count; i++) {
		vm->mapped[i] = true;
		vm->slot[i] = true;
		vm->due[i] = true;
	}
	grow(vm);
	/* The VMM's call does not return before. */
	while (behind(vm)) {
		check(vm, "while a VMM waits");
		vm->now_ms += 20;
		work(vm, &vm->dev[pick(vm, DEVICES)]);
		for (i = 0; i < DEVICES && vm->now_ms - begun > PLUG_MS; i++)
			vm->dev[i].failed = true;
		KUNIT_ASSERT_LT_MSG(vm->test, vm->now_ms - begun, 2 * PLUG_MS, "a VMM waits on");
	}
	for (i = first; i < first + count; i++)
		vm->usable[i] = true;
	for (i = 0; i < DEVICES; i++) {
		vm->reached += vm->dev[i].dma;
		vm->stopped += vm->dev[i].failed;
	}
}

/* The guest has given it up before. */
static void unplug(struct vm *vm)
{
	u32 first = pick(vm, BLOCKS), i;
	LIST_HEAD(out);
	LIST_HEAD(dead);

	for (i = first; i < BLOCKS && i < first + 6; i++) {
		vm->usable[i] = false;
		vm->mapped[i] = false;
		vm->slot[i] = false;
		vm->due[i] = true;
	}
	dlend_pinned_lose(&vm->pinned, block_gpa(first), block_gpa(i) - 1, vm->now_ms, &out);
	dlend_pinned_prune(&vm->pinned, block_gpa(first), block_gpa(i) - 1, &dead);
	free_chunks(&out);
	free_extents(vm, &dead);
}

static void toggle(struct device *d)
{
	d->want.bme = !d->want.bme;
	if (!d->want.bme)
		return;
	d->failed = false;
	d->want.build++;
}

static void rescan(struct vm *vm, struct device *d)
{
	memset(vm->due, 1, sizeof(vm->due));
	if (d->want.bme && !d->failed)
		d->want.rescan++;
}

/* From now on more or less is possible. */
static void change(struct vm *vm)
{
	vm->lockable = (pick(vm, 3) ? BLOCKS : 4 + pick(vm, BLOCKS)) * DLEND_CHUNK_BYTES;
	vm->window = (pick(vm, 3) ? BLOCKS : 4 + pick(vm, BLOCKS)) * DLEND_CHUNK_BYTES;
	vm->silent = pick(vm, 3) ? 0 : pick(vm, 101);
}

static void event(struct vm *vm)
{
	struct device *d = &vm->dev[pick(vm, DEVICES)];

	switch (pick(vm, 10)) {
	case 0:
	case 1:
	case 2:
	case 3:
		plug_in(vm);
		break;
	case 4:
	case 5:
		unplug(vm);
		break;
	case 6:
		toggle(d);
		/* Off counts when the device has stopped. */
		work_all(vm);
		break;
	case 7:
		rescan(vm, d);
		break;
	case 8:
		change(vm);
		break;
	default:
		work(vm, d);
	}
}

static void reach_model(struct kunit *test)
{
	struct vm *vm = kunit_kzalloc(test, sizeof(*vm), GFP_KERNEL);
	LIST_HEAD(dead);
	LIST_HEAD(out);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, vm);
	vm->test = test;
	vm->seed = 42;
	vm->dev[1].id = 1;
	vm->lockable = BLOCKS * DLEND_CHUNK_BYTES;
	vm->window = vm->lockable;
	dlend_pinned_init(&vm->pinned);
	for (i = 0; i < EVENTS; i++) {
		event(vm);
		check(vm, "after an event");
		vm->now_ms += 10;
	}
	KUNIT_EXPECT_GT(test, vm->reached, EVENTS / 20);
	KUNIT_EXPECT_GT(test, vm->stopped, EVENTS / 100);
	dlend_pinned_kill_all(&vm->pinned, NULL, 0, &dead);
	dlend_pinned_take_range(&vm->pinned, 0, U64_MAX, &out);
	free_chunks(&out);
	free_extents(vm, &dead);
}

static struct kunit_case reach_cases[] = {
	KUNIT_CASE(reach_model),
	{}
};

static struct kunit_suite reach_suite = {
	.name = "dlend-reach",
	.test_cases = reach_cases,
};

kunit_test_suite(reach_suite);

MODULE_DESCRIPTION("Model of RAM that is plugged into a VM with devices");
MODULE_LICENSE("GPL");
