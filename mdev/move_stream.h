/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a VMM carries from one host to the other when its VM moves and a borrowed device stays at
 * its lender: a stream of a header, then records of type, length and value, all little endian.  A
 * reader refuses a stream with a record of unknown type, unless the writer has marked the record as
 * one that may be skipped (DLEND_MOVE_MAY_SKIP).
 *
 * Pure logic: no device, no locks.  A stream comes from another host, and is not trusted.
 * Context of all functions: any.
 */
#ifndef DLEND_MDEV_MOVE_STREAM_H
#define DLEND_MDEV_MOVE_STREAM_H

#include <dlend/proto.h>
#include <dlend/types.h>

#define DLEND_MOVE_MAX		SZ_16K	/* the most bytes of a stream */
#define DLEND_MOVE_MAY_SKIP	0x8000	/* flag in a record's type */

/**
 * struct dlend_move_device - which device a guest uses, and how the guest sees it
 * @addr: the device: its lender and its bus, device and function there
 * @vendor: PCI vendor id
 * @product: PCI device id
 * @snapshot_crc: crc32_le(~0) of the configuration space that the lender has read and offers
 * @clique: clique that the guest sees, or DLEND_CFG_CLIQUE_NONE
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
 * @leased: the old host had a lease of the device; if not, there is nothing to take over
 * @token: token by which the lender lets the new host take the device over; all 0: not @leased
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
 * @buf: (out) room for DLEND_MOVE_MAX bytes
 *
 * Return: length of the stream in bytes.
 */
size_t dlend_move_pack(const struct dlend_move_image *image, u8 *buf);

/**
 * dlend_move_length - read from a stream's header how long the stream is
 * @buf: (in) beginning of the stream
 * @actual: (in) number of bytes in @buf
 * @length: (out) bytes of the whole stream, at most DLEND_MOVE_MAX; if @actual is less than a
 *	header, bytes of the header
 *
 * Return: 0; -EBADMSG this is no such stream, or one of another version.
 */
int dlend_move_length(const u8 *buf, size_t actual, size_t *length);

/**
 * dlend_move_unpack - read a stream
 * @buf: (in) stream
 * @length: (in) bytes of the stream.  The caller guarantees that dlend_move_length() has returned
 *	0 and this length for @buf, and that @buf has so many bytes; all else is checked here
 * @image: (out) device; of no use after an error
 * @why: (out) on error: what is wrong with the stream, a constant string
 *
 * Return: 0; -EBADMSG the stream is damaged; -EINVAL a record makes no sense, or is missing;
 * -EOPNOTSUPP a record is not known here.
 */
int dlend_move_unpack(const u8 *buf, size_t length, struct dlend_move_image *image,
		      const char **why);

#endif
