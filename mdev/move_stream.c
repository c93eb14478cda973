// SPDX-License-Identifier: GPL-2.0
/*
 * What a VMM carries from one host to the other: see move_stream.h.
 *
 * This file knows records.  It knows neither VFIO, nor who may take a device over.
 */
#include <linux/crc32.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include "mdev/move_stream.h"

#define DLEND_MOVE_MAGIC	0x564d4c44u	/* "DLMV" */
#define DLEND_MOVE_VERSION	1

/*
 * A stream begins with this header.
 * @length: bytes of the stream, with the header
 * @crc: crc32_le(~0) of all bytes behind the header
 */
struct dlend_move_header {
	__le32 magic;
	__le32 version;
	__le32 length;
	__le32 crc;
} __packed;

struct dlend_move_record {
	__le16 type;
	__le16 length;		/* bytes of the value, which follows */
} __packed;

enum dlend_move_type {
	DLEND_MOVE_DEVICE = 1,
	DLEND_MOVE_TOKEN,	/* only if the guest was using the device */
	DLEND_MOVE_CONFIG,
	DLEND_MOVE_TYPES
};

/* The value of a record DLEND_MOVE_DEVICE */
struct dlend_move_p_device {
	__le16 lender, bdf;
	__le16 vendor, product;
	__le32 snapshot_crc;
	__le16 clique;		/* 0xffff: none */
	__le16 reserved;
} __packed;

/* Write a record to @at.  Return: address behind the record. */
static void *dlend_move_add_record(void *at, u16 type, const void *value, u16 length)
{
	struct dlend_move_record *record = at;

	record->type = cpu_to_le16(type);
	record->length = cpu_to_le16(length);
	return memcpy(record + 1, value, length) + length;
}

size_t dlend_move_pack(const struct dlend_move_image *image, u8 *buf)
{
	const struct dlend_move_p_device device = {
		.lender = cpu_to_le16(image->device.addr.lender),
		.bdf = cpu_to_le16(image->device.addr.bdf),
		.vendor = cpu_to_le16(image->device.vendor),
		.product = cpu_to_le16(image->device.product),
		.snapshot_crc = cpu_to_le32(image->device.snapshot_crc),
		.clique = cpu_to_le16(image->device.clique),
	};
	struct dlend_move_header *header = (void *)buf;
	void *body = header + 1, *at;

	static_assert(sizeof(*header) + 3 * sizeof(struct dlend_move_record) + sizeof(device) +
		      DLEND_TOKEN_SIZE + DLEND_CFG_SIZE <= DLEND_MOVE_MAX);
	at = dlend_move_add_record(body, DLEND_MOVE_DEVICE, &device, sizeof(device));
	if (image->leased)
		at = dlend_move_add_record(at, DLEND_MOVE_TOKEN, image->token, DLEND_TOKEN_SIZE);
	at = dlend_move_add_record(at, DLEND_MOVE_CONFIG, image->cfg, DLEND_CFG_SIZE);
	header->magic = cpu_to_le32(DLEND_MOVE_MAGIC);
	header->version = cpu_to_le32(DLEND_MOVE_VERSION);
	header->length = cpu_to_le32(at - (void *)buf);
	header->crc = cpu_to_le32(crc32_le(~0, body, at - body));
	return at - (void *)buf;
}

int dlend_move_length(const u8 *buf, size_t actual, size_t *length)
{
	const struct dlend_move_header *header = (const void *)buf;

	*length = sizeof(*header);
	if (actual < sizeof(*header))
		return 0;
	if (le32_to_cpu(header->magic) != DLEND_MOVE_MAGIC ||
	    le32_to_cpu(header->version) != DLEND_MOVE_VERSION ||
	    le32_to_cpu(header->length) < sizeof(*header) ||
	    le32_to_cpu(header->length) > DLEND_MOVE_MAX)
		return -EBADMSG;
	*length = le32_to_cpu(header->length);
	return 0;
}

static int dlend_move_read_device(const struct dlend_move_p_device *p,
				  struct dlend_move_device *device)
{
	*device = (struct dlend_move_device){
		.addr = { .lender = le16_to_cpu(p->lender), .bdf = le16_to_cpu(p->bdf) },
		.vendor = le16_to_cpu(p->vendor),
		.product = le16_to_cpu(p->product),
		.snapshot_crc = le32_to_cpu(p->snapshot_crc),
		.clique = le16_to_cpu(p->clique),
	};
	return p->reserved ? -EINVAL : 0;
}

/* Read the value of a record of known type, whose length was checked.  Return: 0 or -EINVAL. */
static int dlend_move_read_value(u16 type, const u8 *value, struct dlend_move_image *image)
{
	switch (type) {
	case DLEND_MOVE_DEVICE:
		return dlend_move_read_device((const void *)value, &image->device);
	case DLEND_MOVE_TOKEN:
		memcpy(image->token, value, sizeof(image->token));
		image->leased = memchr_inv(image->token, 0, sizeof(image->token));
		return image->leased ? 0 : -EINVAL;
	default:
		memcpy(image->cfg, value, sizeof(image->cfg));
		return 0;
	}
}

/*
 * Read the record at @at.
 * @left: bytes of the stream from @at on
 * @seen: (in, out) a bit for each type of record that was read already
 * Return: length of the record with its type and length; -EINVAL; -EOPNOTSUPP the type is unknown.
 */
static int dlend_move_read_record(const u8 *at, size_t left, u32 *seen,
				  struct dlend_move_image *image)
{
	static const u16 lengths[DLEND_MOVE_TYPES] = {
		[DLEND_MOVE_DEVICE] = sizeof(struct dlend_move_p_device),
		[DLEND_MOVE_TOKEN] = DLEND_TOKEN_SIZE,
		[DLEND_MOVE_CONFIG] = DLEND_CFG_SIZE,
	};
	const struct dlend_move_record *record = (const void *)at;
	u16 type, length;

	if (left < sizeof(*record))
		return -EINVAL;
	type = le16_to_cpu(record->type);
	length = le16_to_cpu(record->length);
	if (length > left - sizeof(*record))
		return -EINVAL;
	if (type & DLEND_MOVE_MAY_SKIP)
		return sizeof(*record) + length;
	if (!type || type >= DLEND_MOVE_TYPES)
		return -EOPNOTSUPP;
	if (length != lengths[type] || *seen & BIT(type))
		return -EINVAL;
	*seen |= BIT(type);
	return dlend_move_read_value(type, (const u8 *)(record + 1), image) ?:
	       (int)sizeof(*record) + length;
}

int dlend_move_unpack(const u8 *buf, size_t length, struct dlend_move_image *image,
		      const char **why)
{
	const struct dlend_move_header *header = (const void *)buf;
	size_t at = sizeof(*header);
	u32 seen = 0;
	int ret;

	memset(image, 0, sizeof(*image));
	if (crc32_le(~0, buf + at, length - at) != le32_to_cpu(header->crc)) {
		*why = "it is damaged: its checksum is wrong";
		return -EBADMSG;
	}
	while (at < length) {
		ret = dlend_move_read_record(buf + at, length - at, &seen, image);
		if (ret == -EOPNOTSUPP)
			*why = "another version of dlend wrote it: install the same on both hosts";
		else if (ret < 0)
			*why = "a record of it makes no sense";
		if (ret < 0)
			return ret;
		at += ret;
	}
	if (!(seen & BIT(DLEND_MOVE_DEVICE)) || !(seen & BIT(DLEND_MOVE_CONFIG))) {
		*why = "a record is missing";
		return -EINVAL;
	}
	return 0;
}
