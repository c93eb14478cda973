// SPDX-License-Identifier: GPL-2.0
/*
 * Wire format: making messages and judging those that a peer wrote, by the rules of each type
 * (msg_rules.c).
 *
 * Pure: no device, no lock, no state.  Knows what a well formed message is, but not whether a
 * lease, a slot or a handle in it exists: the files that keep these look it up.
 */
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/crc32.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <asm/byteorder.h>
#include <dlend/proto.h>

#include "msg_rules.h"

#define DLEND_WIRE_MAX_ERRNO	4095

int dlend_msg_payload_len(u16 type, bool reply)
{
	const struct dlend_msg_rule *rule = dlend_msg_rule_of(type);

	if (!rule)
		return -1;
	return reply ? rule->reply_len : rule->request_len;
}

enum dlend_msg_side dlend_msg_to(u16 type)
{
	const struct dlend_msg_rule *rule = dlend_msg_rule_of(type);

	return rule ? rule->to : DLEND_TO_NOBODY;
}

const char *dlend_msg_type_name(u16 type)
{
	const struct dlend_msg_rule *rule = dlend_msg_rule_of(type);

	return rule ? rule->name : "UNKNOWN";
}

/* The checksum covers the message as if the field itself were 0. */
static u32 dlend_msg_crc(const struct dlend_msg *msg)
{
	static const u8 zero[sizeof(msg->crc)];
	const u8 *raw = (const u8 *)msg;
	const size_t at = offsetof(struct dlend_msg, crc);
	u32 crc;

	crc = crc32_le(~0u, raw, at);
	crc = crc32_le(crc, zero, sizeof(zero));
	return crc32_le(crc, raw + at + sizeof(zero), sizeof(*msg) - at - sizeof(zero));
}

void dlend_msg_seal(struct dlend_msg *msg, u32 seq)
{
	msg->seq = cpu_to_le32(seq);
	msg->crc = cpu_to_le32(dlend_msg_crc(msg));
}

void *dlend_msg_init(struct dlend_msg *msg, u16 type, const struct dlend_addr *addr, u32 epoch,
		     u16 len)
{
	memset(msg, 0, sizeof(*msg));
	msg->type = cpu_to_le16(type);
	msg->epoch = cpu_to_le32(epoch);
	msg->len = cpu_to_le16(len);
	if (addr) {
		msg->bdf = cpu_to_le16(addr->bdf);
		msg->lender = cpu_to_le16(addr->lender);
	}
	return msg->payload;
}

/* Status: a reply's is 0 or a negative errno value, a request has none. */
static bool dlend_msg_status_ok(const struct dlend_msg *msg, bool reply)
{
	s32 status = (s32)le32_to_cpu(msg->status);

	return reply ? status <= 0 && status >= -DLEND_WIRE_MAX_ERRNO : !status;
}

static int dlend_msg_check_frame(const struct dlend_msg *msg, const char **why)
{
	const struct dlend_msg_rule *rule = dlend_msg_rule_of(le16_to_cpu(msg->type));
	u16 flags = le16_to_cpu(msg->flags);
	bool reply = flags & DLEND_MSG_F_REPLY, post;

	if (!rule) {
		*why = "type";
		return -EPROTO;
	}
	post = rule->reply_len == DLEND_NO_REPLY;
	if (flags & ~DLEND_MSG_F_REPLY || (reply && post)) {
		*why = "flags";
		return -EPROTO;
	}
	if (le16_to_cpu(msg->len) != (reply ? rule->reply_len : rule->request_len)) {
		*why = "len";
		return -EPROTO;
	}
	/* A post has no id; a reply without one answers nothing. */
	if (msg->id ? post : reply) {
		*why = "id";
		return -EINVAL;
	}
	if (msg->reserved) {
		*why = "reserved";
		return -EINVAL;
	}
	if (!dlend_msg_status_ok(msg, reply)) {
		*why = "status";
		return -EINVAL;
	}
	if (rule->about_device && !msg->lender) {
		*why = "lender";
		return -EINVAL;
	}
	return 0;
}

static int dlend_msg_check_payload(const struct dlend_msg *msg, const char **why)
{
	u16 type = le16_to_cpu(msg->type);
	bool reply = le16_to_cpu(msg->flags) & DLEND_MSG_F_REPLY;
	const char *(*check)(u16 type, const void *payload);
	unsigned int i;

	for (i = le16_to_cpu(msg->len); i < DLEND_MSG_PAYLOAD; i++) {
		if (msg->payload[i]) {
			*why = "padding";
			return -EINVAL;
		}
	}
	/* Nobody acts on the payload of a refusal, so it is not checked. */
	if (reply && msg->status)
		return 0;
	check = reply ? dlend_msg_rule_of(type)->check_reply : dlend_msg_rule_of(type)->check;
	*why = check ? check(type, msg->payload) : NULL;
	return *why ? -EINVAL : 0;
}

int dlend_msg_check(const struct dlend_msg *msg, u32 seq, const char **why)
{
	const char *ignored;
	int err;

	if (!why)
		why = &ignored;
	*why = NULL;
	if (le32_to_cpu(msg->crc) != dlend_msg_crc(msg)) {
		*why = "crc";
		return -EBADMSG;
	}
	if (le32_to_cpu(msg->seq) != seq) {
		*why = "seq";
		return -EBADMSG;
	}
	err = dlend_msg_check_frame(msg, why);
	return err ?: dlend_msg_check_payload(msg, why);
}

int dlend_offset_check(u64 offset, u64 size, u64 aperture)
{
	const u64 first = ALIGN(sizeof(struct dlend_ctrl), DLEND_WIRE_PAGE);

	if (!size || !IS_ALIGNED(offset, DLEND_WIRE_PAGE) || offset < first)
		return -ERANGE;
	return offset > aperture || size > aperture - offset ? -ERANGE : 0;
}

int dlend_version_pick(u32 mine, u32 peer)
{
	u16 my_min = mine >> 16, my_max = mine & U16_MAX;
	u16 peer_min = peer >> 16, peer_max = peer & U16_MAX;

	if (!peer_min || peer_min > peer_max)
		return -EPROTONOSUPPORT;
	if (max(my_min, peer_min) > min(my_max, peer_max))
		return -EPROTONOSUPPORT;
	return min(my_max, peer_max);
}
