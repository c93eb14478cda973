/* SPDX-License-Identifier: GPL-2.0 */
/* Expansion ROM of a borrowed device, as a VMM reads it. */
#ifndef DLEND_MDEV_ROM_H
#define DLEND_MDEV_ROM_H

#include <linux/types.h>

struct dlend_vdev;

/**
 * dlend_rom_fetch - get the ROM from the lender; without it the device simply has none
 * @v: (in) vdev that is being created: nobody else knows it
 *
 * Context: process; waits for the lender.
 */
void dlend_rom_fetch(struct dlend_vdev *v);

/** dlend_rom_free - the vdev ends. Context: process. */
void dlend_rom_free(struct dlend_vdev *v);

/** dlend_rom_size - bytes of the region, as of open_device(); 0 = none. Context: any. */
u64 dlend_rom_size(const struct dlend_vdev *v);

/**
 * dlend_rom_read - read from the region; bytes behind the image read 0xff
 * @v: (in) vdev
 * @pos: (in) offset
 * @buf: (out) user memory
 * @count: (in) bytes of @buf
 *
 * Context: process. Return: bytes read, at least one; -EINVAL beyond the region; -EFAULT.
 */
ssize_t dlend_rom_read(const struct dlend_vdev *v, u64 pos, char __user *buf, size_t count);

#endif
