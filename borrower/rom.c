// SPDX-License-Identifier: GPL-2.0
/*
 * The expansion ROM of an offered device, fetched from its lender piece by piece.
 *
 * The lender made a copy of it before it offered the device, so no lease is needed.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include "offer.h"

/* Fetch the piece at @at. @size (in, out): bytes of the whole image; 0: not known yet. */
static int dlend_rom_read_piece(struct dlend_offer *offer, struct dlend_link *link, u32 at,
				u32 *size, struct dlend_p_rom *piece)
{
	struct dlend_session_ref now = dlend_session_now(link);
	struct dlend_msg req, reply = {};
	struct dlend_p_u32 *p;
	int ret;

	p = dlend_msg_init(&req, DLEND_MSG_ROM_READ, &offer->addr, 0, sizeof(*p));
	p->value = cpu_to_le32(at);
	ret = dlend_link_call_in(&now, &req, &reply, 0);
	if (ret)
		return ret;
	memcpy(piece, reply.payload, sizeof(*piece));
	if (!*size)
		*size = le32_to_cpu(piece->size);
	/* The link has checked the message. Does it answer this request, and for the same image? */
	if (le32_to_cpu(piece->offset) != at || le32_to_cpu(piece->size) != *size)
		return -EBADMSG;
	return 0;
}

static int dlend_rom_read_all(struct dlend_offer *offer, struct dlend_link *link, u64 room,
			      u8 **image, u32 *size)
{
	struct dlend_p_rom piece;
	u32 at = 0;
	int ret;

	*size = 0;
	ret = dlend_rom_read_piece(offer, link, 0, size, &piece);
	if (ret)
		return ret;
	if (*size > room)
		return -EFBIG;
	*image = kvmalloc(*size, GFP_KERNEL_ACCOUNT);
	if (!*image)
		return -ENOMEM;
	for (;;) {
		memcpy(*image + at, piece.data, min_t(u32, *size - at, sizeof(piece.data)));
		at += sizeof(piece.data);
		if (at >= *size)
			return 0;
		ret = dlend_rom_read_piece(offer, link, at, size, &piece);
		if (ret)
			break;
	}
	kvfree(*image);
	*image = NULL;
	return ret;
}

int dlend_offer_read_rom(struct dlend_offer *offer, u8 **image, u32 *size)
{
	struct dlend_offer_info info;
	struct dlend_link *link;
	int ret;

	*image = NULL;
	dlend_offer_copy(offer, &info, NULL);
	if (!info.bar[DLEND_ROM_INDEX].size)
		return 0;
	link = dlend_offer_link(offer);
	if (!link)
		return -ENOTCONN;
	ret = dlend_rom_read_all(offer, link, info.bar[DLEND_ROM_INDEX].size, image, size);
	dlend_link_put(link);
	return ret;
}
DLEND_EXPORT(dlend_offer_read_rom);
