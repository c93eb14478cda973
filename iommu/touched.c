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

#define DLEND_TOUCHED_SMALL	21
#define DLEND_TOUCHED_LARGE	30
#define DLEND_TOUCHED_ENTRIES	512u	/* of a table */

/* Tables below one table. */
struct dlend_touched_node {
	struct list_head node;
	struct xarray *of;
	unsigned long number;
	unsigned long tables[DLEND_TOUCHED_ENTRIES / BITS_PER_LONG];
};

void dlend_touched_init(struct dlend_touched *t)
{
	xa_init_flags(&t->small, XA_FLAGS_ACCOUNT);
	xa_init_flags(&t->large, XA_FLAGS_ACCOUNT);
	INIT_LIST_HEAD(&t->all);
	t->tables = 0;
}

void dlend_touched_free(struct dlend_touched *t)
{
	struct dlend_touched_node *node, *next;

	list_for_each_entry_safe(node, next, &t->all, node) {
		xa_erase(node->of, node->number);
		kfree(node);
	}
	INIT_LIST_HEAD(&t->all);
	t->tables = 0;
}

static int dlend_touched_node_add(struct dlend_touched *t, struct xarray *of, unsigned long number,
				  struct dlend_touched_node **out)
{
	struct dlend_touched_node *node = kzalloc_obj(*node, GFP_KERNEL_ACCOUNT);
	int err;

	if (!node)
		return -ENOMEM;
	node->of = of;
	node->number = number;
	err = xa_err(xa_store(of, number, node, GFP_KERNEL_ACCOUNT));
	if (err) {
		kfree(node);
		return err;
	}
	list_add_tail(&node->node, &t->all);
	*out = node;
	return 0;
}

/* Table number @index of those of one size, which are in @of. */
static int dlend_touched_table(struct dlend_touched *t, struct xarray *of, u64 index, u64 most)
{
	unsigned long number = index / DLEND_TOUCHED_ENTRIES;
	struct dlend_touched_node *node = xa_load(of, number);
	unsigned int bit = index % DLEND_TOUCHED_ENTRIES;
	u64 more = 1;
	int err;

	if (node && test_bit(bit, node->tables))
		return 0;
	/* Tables of 512 GiB have no bit: there is one for each node of those of 1 GiB. */
	if (!node && of == &t->large)
		more++;
	if (t->tables + more > most)
		return -ENOSPC;
	err = node ? 0 : dlend_touched_node_add(t, of, number, &node);
	if (err)
		return err;
	__set_bit(bit, node->tables);
	t->tables += more;
	return 0;
}

static int dlend_touched_all(struct dlend_touched *t, u64 first, u64 last, u64 most)
{
	u64 i;
	int err = 0;

	for (i = first >> DLEND_TOUCHED_LARGE; i <= last >> DLEND_TOUCHED_LARGE && !err; i++)
		err = dlend_touched_table(t, &t->large, i, most);
	for (i = first >> DLEND_TOUCHED_SMALL; i <= last >> DLEND_TOUCHED_SMALL && !err; i++) {
		err = dlend_touched_table(t, &t->small, i, most);
		if (!(i % DLEND_TOUCHED_ENTRIES))
			cond_resched();
	}
	return err;
}

/* @at: the first or last address; @edge: the border, which may be in the middle of tables. */
static int dlend_touched_edge(struct dlend_touched *t, u64 at, u64 edge, u64 most)
{
	int err = 0;

	if (!IS_ALIGNED(edge, SZ_1G * (u64)DLEND_TOUCHED_ENTRIES))
		err = dlend_touched_table(t, &t->large, at >> DLEND_TOUCHED_LARGE, most);
	if (!err && !IS_ALIGNED(edge, SZ_2M))
		err = dlend_touched_table(t, &t->small, at >> DLEND_TOUCHED_SMALL, most);
	return err;
}

int dlend_touched_add(struct dlend_touched *t, u64 first, u64 last, bool pieces, u64 most)
{
	if (pieces)
		return dlend_touched_all(t, first, last, most);
	return dlend_touched_edge(t, first, first, most) ?:
	       dlend_touched_edge(t, last, last + 1, most);
}
