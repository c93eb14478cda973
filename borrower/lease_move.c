// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of a lease that moves from one node to another: see include/dlend/borrower.h.
 *
 * Must not know what a user does with the device, nor how users find each other.
 */
#include <linux/string.h>
#include <dlend/compat.h>
#include "lease.h"

/* The lender waits for the device, a second at most, and for a request of its own. */
#define DLEND_LEASE_QUIESCE_MS	5000

int dlend_lease_move_to(struct dlend_lease *lease, u16 node, bool cut)
{
	struct dlend_p_move_to *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, DLEND_MSG_MOVE_TO, &lease->addr, lease->epoch, sizeof(*p));
	p->node = cpu_to_le16(node);
	p->flags = cpu_to_le16(cut ? DLEND_MOVE_F_CUT : 0);
	return dlend_lease_call(lease, &req, NULL, 0);
}
DLEND_EXPORT(dlend_lease_move_to);

int dlend_lease_quiesce(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count,
			struct dlend_quiet *quiet)
{
	struct dlend_msg req, reply = {};
	const struct dlend_p_quiet *p = (void *)reply.payload;
	int pass = dlend_lease_irq_pass(lease, mode, count), ret;

	/* Whatever became of that, the device is stopped. */
	quiet->irqs_changed = pass != -EALREADY;
	dlend_msg_init(&req, DLEND_MSG_QUIESCE, &lease->addr, lease->epoch, 0);
	ret = dlend_lease_call(lease, &req, &reply, DLEND_LEASE_QUIESCE_MS);
	quiet->drained = !ret && (!pass || pass == -EALREADY) &&
			 (le32_to_cpu(p->flags) & DLEND_QUIET_F_DRAINED);
	quiet->waited_us = le32_to_cpu(p->waited_us);
	quiet->fired = le64_to_cpu(p->fired);
	return ret;
}
DLEND_EXPORT(dlend_lease_quiesce);

int dlend_lease_run(struct dlend_lease *lease)
{
	struct dlend_msg req;

	dlend_msg_init(&req, DLEND_MSG_RUN, &lease->addr, lease->epoch, 0);
	return dlend_lease_call(lease, &req, NULL, 0);
}
DLEND_EXPORT(dlend_lease_run);

int dlend_lease_hand_over(struct dlend_lease *lease, u8 token[DLEND_TOKEN_SIZE])
{
	struct dlend_msg req, reply = {};
	const struct dlend_p_token *p = (void *)reply.payload;
	int ret;

	dlend_msg_init(&req, DLEND_MSG_HAND_OVER, &lease->addr, lease->epoch, 0);
	ret = dlend_lease_call(lease, &req, &reply, 0);
	memcpy(token, p->token, DLEND_TOKEN_SIZE);
	return ret;
}
DLEND_EXPORT(dlend_lease_hand_over);

static const char *dlend_lease_taken_words(int err)
{
	switch (err) {
	case -EINPROGRESS:
		return "it is in use where it was";
	case -EPERM:
		return "it was handed over to somebody else";
	case -ESTALE:
		return "its lender has taken it back meanwhile";
	default:
		return "its lender could not change over";
	}
}

static int dlend_lease_ask_take(struct dlend_lease *lease, const u8 *token, u32 flags, char *why)
{
	struct dlend_p_take *p;
	struct dlend_msg req;
	int ret;

	p = dlend_msg_init(&req, DLEND_MSG_TAKE_OVER, &lease->addr, lease->epoch, sizeof(*p));
	memcpy(p->token, token, DLEND_TOKEN_SIZE);
	p->flags = cpu_to_le32(flags);
	ret = dlend_lease_call(lease, &req, NULL, 0);
	if (ret)
		strscpy(why, dlend_lease_taken_words(ret), DLEND_REASON_LEN);
	return ret;
}

int dlend_lease_may_take_over(struct dlend_lease *lease, const u8 token[DLEND_TOKEN_SIZE],
			      char *why)
{
	return dlend_lease_ask_take(lease, token, DLEND_TAKE_F_ASK, why);
}
DLEND_EXPORT(dlend_lease_may_take_over);

int dlend_lease_take_over(struct dlend_lease *lease, const u8 token[DLEND_TOKEN_SIZE], char *why)
{
	return dlend_lease_ask_take(lease, token, 0, why) ?: dlend_lease_open_bars(lease, why);
}
DLEND_EXPORT(dlend_lease_take_over);
