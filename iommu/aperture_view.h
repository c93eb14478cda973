/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Views of an aperture: each is told what is mapped and unmapped in its part of the aperture.
 *
 * A peer reaches an aperture through the IOMMU of the NTB, so what is unmapped there is out of its
 * reach.  On the loop no IOMMU stands between.  So each user that reaches a part directly has a
 * view of it, and gives up what is unmapped before the unmapping returns.
 *
 * Knows offsets only; what a view does with them is behind its ops.  The caller serialises.
 */
#ifndef DLEND_IOMMU_APERTURE_VIEW_H
#define DLEND_IOMMU_APERTURE_VIEW_H

#include <linux/list.h>
#include <linux/types.h>
#include <dlend/aperture.h>

/**
 * dlend_views_map - tell all views that something was mapped, each of its own part
 * @views: (in) list of struct dlend_view
 * @piece: (in) what was mapped, with its offset in the aperture
 *
 * Context: process, may sleep; the caller serialises.
 * Return: 0; or the error of a view: the views before it have been told to unmap it again.
 */
int dlend_views_map(struct list_head *views, const struct dlend_piece *piece);

/**
 * dlend_views_unmap - tell all views that something goes
 * @views: (in) list of struct dlend_view
 * @offset: (in) in the aperture, bytes
 * @size: (in) bytes
 *
 * Nobody reaches it through a view when this returns.
 * Context: process, may sleep; the caller serialises.
 */
void dlend_views_unmap(struct list_head *views, u64 offset, u64 size);

/**
 * dlend_view_shrink - let a view give up its end
 * @view: view
 * @share: (in) bytes to give up, at most
 *
 * The view unmaps them first, and is told nothing about them after that.  So if they are unmapped
 * in the aperture, too, either the view is told, or it does not reach them any more.
 * Context: process, may sleep; the caller serialises. Return: is any of it left?
 */
bool dlend_view_shrink(struct dlend_view *view, u64 share);

/**
 * dlend_piece_clip - the part of a piece that lies in a range
 * @piece: (in) piece
 * @offset: (in) beginning of the range, in the aperture, bytes
 * @size: (in) bytes of the range
 * @out: (out) that part
 *
 * Context: any. Return: is there any?
 */
bool dlend_piece_clip(const struct dlend_piece *piece, u64 offset, u64 size,
		      struct dlend_piece *out);

#endif
