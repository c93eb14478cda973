/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a VMM carries from one host to the other for a device that stays where it is: a stream of a
 * header, then records of type, length and value, all little endian.  A reader refuses a stream
 * with a record that it does not know, unless the writer says that the record may be left out
 * (DLEND_MOVE_MAY_SKIP).
 *
 * Pure logic: no device, no locks.  A stream comes from another host, and is not trusted.
 * Context of all functions: any.
 */
#ifndef DLEND_MDEV_MOVE_STREAM_H
#define DLEND_MDEV_MOVE_STREAM_H

#include <dlend/proto.h>
#include <dlend/types.h>

#define DLEND_MOVE_MAX		SZ_16K	/* bytes of a stream */
#define DLEND_MOVE_MAY_SKIP	0x8000	/* in a record's type */

/**
 * struct dlend_move_device - which device it is, and how it is shown
 * @addr: device
 * @vendor, @product: its ids
 * @snapshot_crc: crc32_le(~0) of its configuration space as the lender offers that
 * @clique: the clique that the guest sees, or DLEND_CFG_CLIQUE_NONE
 */
struct dlend_move_device {
	struct dlend_addr addr;
	u16 vendor, product;
	u32 snapshot_crc;
	s16 clique;
};

/**
 * struct dlend_move_image - a device as its guest on the old host has left it
 * @device: which device
 * @leased: the guest was using the device; if not, there is nothing to take over
 * @token: what the device is taken over with
 * @cfg: virtual configuration space
 */
struct dlend_move_image {
	struct dlend_move_device device;
	bool leased;
	u8 token[DLEND_TOKEN_SIZE];
	u8 cfg[DLEND_CFG_SIZE];
};

/**
 * dlend_move_pack - write a stream
 * @image: (in) device
 * @buf: (out) DLEND_MOVE_MAX bytes
 *
 * Return: length of the stream in bytes.
 */
size_t dlend_move_pack(const struct dlend_move_image *image, u8 *buf);

/**
 * dlend_move_length - say how long a stream will be, from its beginning
 * @buf: (in) its beginning
 * @actual: (in) bytes of it
 * @length: (out) bytes of the whole stream; of its header while that has not come
 *
 * Return: 0; -EBADMSG this is no such stream, or one of another version.
 */
int dlend_move_length(const u8 *buf, size_t actual, size_t *length);

/**
 * dlend_move_unpack - read a stream
 * @buf: (in) stream
 * @length: (in) as dlend_move_length() says
 * @image: (out) device
 * @why: (out) on error: what is wrong with it
 *
 * Return: 0; -EBADMSG the stream is damaged; -EINVAL a record makes no sense, or is missing;
 * -EOPNOTSUPP a record is not known here.
 */
int dlend_move_unpack(const u8 *buf, size_t length, struct dlend_move_image *image,
		      const char **why);

#endif
