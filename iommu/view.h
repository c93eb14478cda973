/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Views of an aperture: who hears what is mapped and unmapped in which part of it.
 *
 * Where the IOMMU of an NTB stands between an aperture and those who reach it, what is unmapped
 * there is out of reach.  On the lender itself nothing stands between, so whoever reaches a part
 * directly has a view of it, and gives up what is unmapped before the unmapping returns.
 *
 * Knows offsets only; what a view does with them is behind its ops.  The caller serialises.
 */
#ifndef DLEND_IOMMU_VIEW_H
#define DLEND_IOMMU_VIEW_H

#include <linux/list.h>
#include <linux/types.h>
#include <dlend/aperture.h>

/**
 * dlend_views_map - @piece was mapped: tell the views of it, each of its own part
 *
 * Return: 0, or the error of a view, and those that were told have been told to unmap it again.
 */
int dlend_views_map(struct list_head *views, const struct dlend_piece *piece);

/** dlend_views_unmap - @size bytes from @offset are going: nobody reaches them when this returns */
void dlend_views_unmap(struct list_head *views, u64 offset, u64 size);

/**
 * dlend_view_shrink - up to @share bytes at the end of @view are not reached by it any more
 *
 * It has unmapped them when it stops to hear of them, so that nobody who unmaps them in the
 * aperture can pass by it: the way in which a mirror leaves. Return: is any of it left?
 */
bool dlend_view_shrink(struct dlend_view *view, u64 share);

/** dlend_piece_clip - the part of @piece that lies in @offset..@offset + @size. Return: any? */
bool dlend_piece_clip(const struct dlend_piece *piece, u64 offset, u64 size,
		      struct dlend_piece *out);

#endif
