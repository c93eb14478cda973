// SPDX-License-Identifier: GPL-2.0
/*
 * Tables that may stay: see touched.h.
 */
#include <linux/align.h>
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/alloc.h>
#include "touched.h"

#define DLEND_TOUCHED_SHIFT	21
#define DLEND_TOUCHED_BLOCKS	512u	/* of 2 MiB in 1 GiB, and entries of a table */

/* The tables of one GiB. */
struct dlend_touched_gib {
	struct list_head node;
	unsigned long number;
	unsigned long blocks[DLEND_TOUCHED_BLOCKS / BITS_PER_LONG];
};

void dlend_touched_init(struct dlend_touched *t)
{
	xa_init_flags(&t->gibs, XA_FLAGS_ACCOUNT);
	INIT_LIST_HEAD(&t->all);
	t->tables = 0;
}

void dlend_touched_free(struct dlend_touched *t)
{
	struct dlend_touched_gib *gib, *next;

	list_for_each_entry_safe(gib, next, &t->all, node) {
		xa_erase(&t->gibs, gib->number);
		kfree(gib);
	}
	INIT_LIST_HEAD(&t->all);
	t->tables = 0;
}

static int dlend_touched_gib_add(struct dlend_touched *t, unsigned long number,
				 struct dlend_touched_gib **out)
{
	struct dlend_touched_gib *gib = kzalloc_obj(*gib, GFP_KERNEL_ACCOUNT);
	int err;

	if (!gib)
		return -ENOMEM;
	gib->number = number;
	err = xa_err(xa_store(&t->gibs, number, gib, GFP_KERNEL_ACCOUNT));
	if (err) {
		kfree(gib);
		return err;
	}
	list_add_tail(&gib->node, &t->all);
	t->tables++;
	*out = gib;
	return 0;
}

static int dlend_touched_block(struct dlend_touched *t, u64 block, u64 most)
{
	unsigned long number = block / DLEND_TOUCHED_BLOCKS;
	struct dlend_touched_gib *gib = xa_load(&t->gibs, number);
	unsigned int bit = block % DLEND_TOUCHED_BLOCKS;
	int err;

	if (gib && test_bit(bit, gib->blocks))
		return 0;
	if (t->tables + (gib ? 1 : 2) > most)
		return -ENOSPC;
	err = gib ? 0 : dlend_touched_gib_add(t, number, &gib);
	if (err)
		return err;
	__set_bit(bit, gib->blocks);
	t->tables++;
	return 0;
}

static int dlend_touched_blocks(struct dlend_touched *t, u64 block, u64 end, u64 most)
{
	int err = 0;

	for (; block <= end && !err; block++) {
		err = dlend_touched_block(t, block, most);
		if (!(block % DLEND_TOUCHED_BLOCKS))
			cond_resched();
	}
	return err;
}

int dlend_touched_add(struct dlend_touched *t, u64 first, u64 last, bool pieces, u64 most)
{
	u64 block = first >> DLEND_TOUCHED_SHIFT, end = last >> DLEND_TOUCHED_SHIFT;
	int err = 0;

	if (pieces)
		return dlend_touched_blocks(t, block, end, most);
	if (!IS_ALIGNED(first, SZ_2M))
		err = dlend_touched_block(t, block, most);
	if (!err && !IS_ALIGNED(last + 1, SZ_2M))
		err = dlend_touched_block(t, end, most);
	return err;
}
