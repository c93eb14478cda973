// SPDX-License-Identifier: GPL-2.0
/*
 * Expansion ROM of a lent device, as the VMM and the guest's firmware read it.
 *
 * A VMM reads the ROM when it starts, under its big lock, and that must not borrow the device.  So
 * the lender made a copy before it offered the device, and this file fetches the copy when the mdev
 * is created.  Later reads are answered from memory.  If the VMM has a romfile of its own, the
 * guest sees that one.
 *
 * Must not know leases.
 */
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include "rom.h"
#include "vdev.h"

#define DLEND_ROM_BLANK	256	/* bytes of 0xff that are copied at once */

void dlend_rom_fetch(struct dlend_vdev *v)
{
	int ret = dlend_offer_read_rom(v->claim.offer, &v->rom, &v->rom_size);

	if (ret)
		dev_warn(dlend_vdev_dev(v), "no expansion ROM from node %u (%pe): create the mdev again, or give the VMM a romfile, if the firmware needs it\n",
			 dlend_vdev_lender(v), ERR_PTR(ret));
}

void dlend_rom_free(struct dlend_vdev *v)
{
	kvfree(v->rom);
}

u64 dlend_rom_size(const struct dlend_vdev *v)
{
	u64 size = v->info.bar[DLEND_ROM_INDEX].size;

	/* An expansion ROM has its own kind of register, and bounds (PCI 3.0 sec 6.2.5.2). */
	return v->rom && size >= max(v->rom_size, SZ_2K) && size <= SZ_16M ? size : 0;
}

ssize_t dlend_rom_read(const struct dlend_vdev *v, u64 pos, char __user *buf, size_t count)
{
	u64 size = dlend_rom_size(v);
	u8 blank[DLEND_ROM_BLANK];

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
