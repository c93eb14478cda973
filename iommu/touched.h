/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Touched: how much memory the page tables of a domain may have taken by now.
 *
 * The kernel frees a page table only when a call unmaps all that it could map (Linux 7.2,
 * generic_pt/iommu_pt.h, __unmap_range()).  So whoever maps a page, unmaps it, and goes on at other
 * addresses, makes the tables of a domain grow for as long as the domain is there.  Pure: numbers.
 */
#ifndef DLEND_IOMMU_TOUCHED_H
#define DLEND_IOMMU_TOUCHED_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/xarray.h>

/**
 * struct dlend_touched - tables that may stay
 * @small: by address >> 30: which of the tables that map 2 MiB
 * @large: by address >> 39: which of the tables that map 1 GiB
 * @all: what both have, as a list
 * @tables: how many tables of 4 KiB these are, with those that map 512 GiB
 */
struct dlend_touched {
	struct xarray small, large;
	struct list_head all;
	u64 tables;
};

/** dlend_touched_init - no table. Context: any. */
void dlend_touched_init(struct dlend_touched *t);

/** dlend_touched_free - forget all of them. Context: process. */
void dlend_touched_free(struct dlend_touched *t);

/**
 * dlend_touched_add - a range is going to be mapped, and to be unmapped by one call
 * @t: tables
 * @first: (in) first address
 * @last: (in) last address
 * @pieces: (in) it is unmapped in pieces, by calls of their own; or this kernel frees no table
 * @most: (in) no more tables than this
 *
 * An address that was touched before costs nothing. If this fails, some of the range counts as
 * touched. Context: process, may sleep. Return: 0; -ENOSPC; -ENOMEM.
 */
int dlend_touched_add(struct dlend_touched *t, u64 first, u64 last, bool pieces, u64 most);

#endif
