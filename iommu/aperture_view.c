// SPDX-License-Identifier: GPL-2.0
/*
 * Views of an aperture.
 *
 * Pure: ranges of offsets and an ops table; no lock, no IOMMU.
 */
#include <linux/kernel.h>
#include <linux/minmax.h>
#include "aperture_view.h"

bool dlend_piece_clip(const struct dlend_piece *piece, u64 offset, u64 size,
		      struct dlend_piece *out)
{
	u64 from = max(piece->offset, offset);
	u64 to = min(piece->offset + piece->size, offset + size);

	if (from >= to)
		return false;
	*out = *piece;
	out->offset = from;
	out->size = to - from;
	out->phys += from - piece->offset;
	return true;
}

static void dlend_view_unmap(struct dlend_view *view, u64 offset, u64 size)
{
	u64 from = max(view->offset, offset);
	u64 to = min(view->offset + view->size, offset + size);

	if (from < to)
		view->ops->unmap(view, from - view->offset, to - from);
}

int dlend_views_map(struct list_head *views, const struct dlend_piece *piece)
{
	struct dlend_view *view;
	struct dlend_piece part;
	int err = 0;

	list_for_each_entry(view, views, node) {
		if (!view->ops->map || !dlend_piece_clip(piece, view->offset, view->size, &part))
			continue;
		err = view->ops->map(view, part.offset - view->offset, &part);
		if (err)
			break;
	}
	if (!err)
		return 0;
	/* The view that refused has nothing of the piece; those before it give it up again. */
	list_for_each_entry_continue_reverse(view, views, node)
		if (view->ops->map)
			dlend_view_unmap(view, piece->offset, piece->size);
	return err;
}

void dlend_views_unmap(struct list_head *views, u64 offset, u64 size)
{
	struct dlend_view *view;

	list_for_each_entry(view, views, node)
		dlend_view_unmap(view, offset, size);
}

bool dlend_view_shrink(struct dlend_view *view, u64 share)
{
	u64 size = view->size - min(view->size, share);

	if (size < view->size)
		view->ops->unmap(view, size, view->size - size);
	view->size = size;
	return size;
}
