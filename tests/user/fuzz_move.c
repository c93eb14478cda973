// SPDX-License-Identifier: GPL-2.0
/*
 * What a VMM carries along under fuzz: it comes from another host.  The sanitizers see reads
 * outside; what is taken must be what can be written.
 */
#include <errno.h>
#include <linux/crc32.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/unaligned.h>

#include "mdev/move_stream.h"
#include "fuzz.h"

static u8 room[DLEND_MOVE_MAX];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static struct dlend_move_image image = { .leased = true, .token = { 1 } };

	seed("leased", room, dlend_move_pack(&image, room));
	image.leased = false;
	seed("idle", room, dlend_move_pack(&image, room));
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct dlend_move_image image;
	const char *why = NULL;
	size_t length;
	u8 *buf;
	int ret;

	if (size > DLEND_MOVE_MAX || dlend_move_length(data, size, &length))
		return 0;
	MUST(length <= DLEND_MOVE_MAX);
	if (size < 16)
		return 0;
	/* Allocated by itself, so that a sanitizer sees a byte beyond; with a right checksum. */
	buf = malloc(length);
	memset(buf, 0, length);
	memcpy(buf, data, size < length ? size : length);
	put_unaligned_le32(crc32_le(~0, buf + 16, length - 16), buf + 12);
	ret = dlend_move_unpack(buf, length, &image, &why);
	MUST(!ret == !why);
	MUST(!ret || ret == -EINVAL || ret == -EOPNOTSUPP);
	if (!ret)
		MUST(dlend_move_pack(&image, room) <= DLEND_MOVE_MAX);
	free(buf);
	return 0;
}
