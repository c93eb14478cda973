// SPDX-License-Identifier: GPL-2.0
/* What a VMM carries along (mdev/move_stream.c): what is written is read, all else refused. */
#include <kunit/test.h>
#include <linux/crc32.h>
#include <linux/errno.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include "mdev/move_stream.h"

#define HEADER	16
#define RECORD	4
#define DEVICE	16	/* bytes of its value */

struct bed {
	struct dlend_move_image out, in;
	u8 buf[DLEND_MOVE_MAX];
	size_t length;
};

static struct bed *packed(struct kunit *test, bool leased)
{
	struct bed *bed = kunit_kzalloc(test, sizeof(*bed), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bed);
	bed->out.device.addr = (struct dlend_addr){ .lender = 2, .bdf = 0x3b00 };
	bed->out.device.vendor = 0x1b36;
	bed->out.device.product = 0x0010;
	bed->out.device.snapshot_crc = 0x12345678;
	bed->out.device.clique = -1;
	bed->out.leased = leased;
	if (leased)
		memset(bed->out.token, 7, sizeof(bed->out.token));
	for (unsigned int i = 0; i < DLEND_CFG_SIZE; i++)
		bed->out.cfg[i] = i * 5;
	bed->length = dlend_move_pack(&bed->out, bed->buf);
	return bed;
}

/* Make header and checksum right again. */
static void seal(struct bed *bed)
{
	put_unaligned_le32(bed->length, bed->buf + 8);
	put_unaligned_le32(crc32_le(~0, bed->buf + HEADER, bed->length - HEADER), bed->buf + 12);
}

static int unpack(struct kunit *test, struct bed *bed)
{
	const char *why = NULL;
	size_t length;
	int ret = dlend_move_length(bed->buf, bed->length, &length);

	if (ret)
		return ret;
	KUNIT_EXPECT_EQ(test, length, bed->length);
	ret = dlend_move_unpack(bed->buf, length, &bed->in, &why);
	KUNIT_EXPECT_EQ(test, !ret, !why);
	return ret;
}

/* Put @extra bytes of a record in front of all others. */
static void add_record(struct bed *bed, u16 type, u16 length)
{
	memmove(bed->buf + HEADER + RECORD + length, bed->buf + HEADER, bed->length - HEADER);
	memset(bed->buf + HEADER, 0xa5, RECORD + length);
	put_unaligned_le16(type, bed->buf + HEADER);
	put_unaligned_le16(length, bed->buf + HEADER + 2);
	bed->length += RECORD + length;
	seal(bed);
}

static void what_is_written_is_read(struct kunit *test)
{
	for (int leased = 0; leased < 2; leased++) {
		struct bed *bed = packed(test, leased);

		KUNIT_EXPECT_LE(test, bed->length, (size_t)DLEND_MOVE_MAX);
		KUNIT_EXPECT_EQ(test, unpack(test, bed), 0);
		KUNIT_EXPECT_EQ(test, memcmp(&bed->in, &bed->out, sizeof(bed->in)), 0);
	}
}

static void the_length_comes_first(struct kunit *test)
{
	struct bed *bed = packed(test, true);
	size_t length;

	for (size_t have = 0; have < bed->length; have++) {
		KUNIT_EXPECT_EQ(test, dlend_move_length(bed->buf, have, &length), 0);
		KUNIT_EXPECT_EQ(test, length, have < HEADER ? HEADER : bed->length);
	}
	put_unaligned_le32(DLEND_MOVE_MAX + 1, bed->buf + 8);
	KUNIT_EXPECT_EQ(test, dlend_move_length(bed->buf, HEADER, &length), -EBADMSG);
	put_unaligned_le32(HEADER - 1, bed->buf + 8);
	KUNIT_EXPECT_EQ(test, dlend_move_length(bed->buf, HEADER, &length), -EBADMSG);
	bed = packed(test, true);
	put_unaligned_le32(2, bed->buf + 4);
	KUNIT_EXPECT_EQ(test, dlend_move_length(bed->buf, HEADER, &length), -EBADMSG);
	bed = packed(test, true);
	bed->buf[0] ^= 1;
	KUNIT_EXPECT_EQ(test, dlend_move_length(bed->buf, HEADER, &length), -EBADMSG);
}

static void every_bit_counts(struct kunit *test)
{
	struct bed *bed = packed(test, true);

	for (size_t bit = 12 * 8; bit < bed->length * 8; bit += 7) {
		bed->buf[bit / 8] ^= 1 << bit % 8;
		KUNIT_EXPECT_EQ(test, unpack(test, bed), -EBADMSG);
		bed->buf[bit / 8] ^= 1 << bit % 8;
	}
	KUNIT_EXPECT_EQ(test, unpack(test, bed), 0);
}

static void unknown_records(struct kunit *test)
{
	struct bed *bed = packed(test, true);

	add_record(bed, DLEND_MOVE_MAY_SKIP | 9, 33);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), 0);
	KUNIT_EXPECT_EQ(test, memcmp(&bed->in, &bed->out, sizeof(bed->in)), 0);
	add_record(bed, 9, 33);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EOPNOTSUPP);
	bed = packed(test, true);
	add_record(bed, 0, 0);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EOPNOTSUPP);
}

static void records_that_lie(struct kunit *test)
{
	struct bed *bed = packed(test, true);

	/* Twice the same. */
	add_record(bed, 1, DEVICE);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EINVAL);
	/* Shorter than it must be, and longer than what is there. */
	bed = packed(test, true);
	put_unaligned_le16(DEVICE - 1, bed->buf + HEADER + 2);
	seal(bed);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EINVAL);
	put_unaligned_le16(0xffff, bed->buf + HEADER + 2);
	seal(bed);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EINVAL);
	/* A stream that ends within a record's head. */
	bed = packed(test, true);
	bed->length = HEADER + RECORD + DEVICE + 3;
	seal(bed);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EINVAL);
	/* No configuration space; nothing at all. */
	bed->length = HEADER + RECORD + DEVICE;
	seal(bed);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EINVAL);
	bed->length = HEADER;
	seal(bed);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EINVAL);
	/* A token that nobody could have given. */
	bed = packed(test, true);
	memset(bed->buf + HEADER + RECORD + DEVICE + RECORD, 0, DLEND_TOKEN_SIZE);
	seal(bed);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EINVAL);
	bed = packed(test, true);
	bed->buf[HEADER + RECORD + DEVICE - 1] = 1;
	seal(bed);
	KUNIT_EXPECT_EQ(test, unpack(test, bed), -EINVAL);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(what_is_written_is_read),
	KUNIT_CASE(the_length_comes_first),
	KUNIT_CASE(every_bit_counts),
	KUNIT_CASE(unknown_records),
	KUNIT_CASE(records_that_lie),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend-move-stream",
	.test_cases = cases,
};

kunit_test_suite(suite);
