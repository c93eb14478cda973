// SPDX-License-Identifier: GPL-2.0
/*
 * Expansion ROM of a lent device, as the VMM and the guest's firmware read it.
 *
 * A VMM reads the ROM when it starts, under its big lock, and nothing may be borrowed by that: the
 * lender made a copy before it offered the device, and this fetches it when the mdev is created.
 * Later reads are answered from memory.  A VMM's own romfile goes before it.
 *
 * Must not know leases.
 */
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include <dlend/compat.h>
#include "vdev.h"

/* One piece at @at. @size: of the whole, 0 = not known yet. Return: 0 or -errno. */
static int dlend_rom_piece(struct dlend_vdev *v, struct dlend_link *link, u32 at, u32 *size,
			   struct dlend_p_rom *piece)
{
	struct dlend_msg req, reply = {};
	struct dlend_p_u32 *p;
	int ret;

	p = dlend_msg_init(&req, DLEND_MSG_ROM_READ, &v->offer->addr, 0, sizeof(*p));
	p->value = cpu_to_le32(at);
	ret = dlend_link_call(link, &req, &reply, 0);
	if (ret)
		return ret;
	memcpy(piece, reply.payload, sizeof(*piece));
	if (!*size)
		*size = le32_to_cpu(piece->size);
	/* Checked by itself; here: is it what was asked for, and still the same ROM? */
	if (le32_to_cpu(piece->offset) != at || le32_to_cpu(piece->size) != *size)
		return -EBADMSG;
	return 0;
}

static int dlend_rom_load(struct dlend_vdev *v, struct dlend_link *link, u64 room)
{
	struct dlend_p_rom piece;
	u32 at, size = 0;
	int ret;

	ret = dlend_rom_piece(v, link, 0, &size, &piece);
	if (ret)
		return ret;
	if (size > room)
		return -EFBIG;
	v->rom = kvmalloc(size, GFP_KERNEL_ACCOUNT);
	if (!v->rom)
		return -ENOMEM;
	for (at = 0;;) {
		memcpy(v->rom + at, piece.data, min_t(u32, size - at, sizeof(piece.data)));
		at += sizeof(piece.data);
		if (at >= size)
			break;
		ret = dlend_rom_piece(v, link, at, &size, &piece);
		if (ret)
			goto err_free;
	}
	v->rom_size = size;
	return 0;

err_free:
	kvfree(v->rom);
	v->rom = NULL;
	return ret;
}

/**
 * dlend_rom_fetch - get the ROM from the lender; without it the device simply has none
 * @v: being created: nobody else knows it
 *
 * Context: process; waits for the lender, a message for 192 bytes.
 */
void dlend_rom_fetch(struct dlend_vdev *v)
{
	struct dlend_link *link;
	u64 room;
	int ret;

	mutex_lock(&dlend_offers_lock);
	room = v->offer->info.bar[DLEND_ROM_INDEX].size;
	mutex_unlock(&dlend_offers_lock);
	if (!room)
		return;
	link = dlend_offer_link(v->offer);
	ret = link ? dlend_rom_load(v, link, room) : -ENOTCONN;
	if (link)
		dlend_link_put(link);
	if (ret)
		dev_warn(dlend_vdev_dev(v), "no expansion ROM from node %u (%pe): create the mdev again, or give the VMM a romfile, if the firmware needs it\n",
			 v->offer->addr.lender, ERR_PTR(ret));
}

void dlend_rom_free(struct dlend_vdev *v)
{
	kvfree(v->rom);
}

/** dlend_rom_size - of the region, with the offer as of open_device(); 0 = none */
u64 dlend_rom_size(const struct dlend_vdev *v)
{
	u64 size = v->info.bar[DLEND_ROM_INDEX].size;

	/* The BAR has a register of its own kind, and bounds of its own (PCI 3.0 sec 6.2.5.2). */
	return v->rom && size >= max(v->rom_size, SZ_2K) && size <= SZ_16M ? size : 0;
}

/** dlend_rom_read - what is behind the image reads 0xff */
ssize_t dlend_rom_read(const struct dlend_vdev *v, u64 pos, char __user *buf, size_t count)
{
	u64 size = dlend_rom_size(v);
	u8 blank[256];

	if (pos >= size)
		return -EINVAL;
	count = min_t(u64, count, size - pos);
	if (pos < v->rom_size) {
		count = min_t(u64, count, v->rom_size - pos);
		return copy_to_user(buf, v->rom + pos, count) ? -EFAULT : count;
	}
	memset(blank, 0xff, sizeof(blank));
	count = min(count, sizeof(blank));
	return copy_to_user(buf, blank, count) ? -EFAULT : count;
}
