/* SPDX-License-Identifier: GPL-2.0 */
/* What is to be said of each type of message. Pure data: see ntb/proto.c. */
#ifndef DLEND_NTB_MSG_RULES_H
#define DLEND_NTB_MSG_RULES_H

#include <dlend/proto.h>

#define DLEND_WIRE_PAGE		4096ull
#define DLEND_NO_REPLY		(-1)

/**
 * struct dlend_msg_rule - all that is to be said of one type of message
 * @name: for logs and tracepoints
 * @to: who gets it
 * @request_len: bytes of a request's payload
 * @reply_len: bytes of a reply's payload; DLEND_NO_REPLY: a post, never answered
 * @about_device: it is about a device
 * @check: judges the fields of a request's payload; NULL: it has none to judge. Return: NULL, or
 *	what is wrong
 * @check_reply: the same of a reply's
 */
struct dlend_msg_rule {
	const char *name;
	enum dlend_msg_side to;
	int request_len;
	int reply_len;
	bool about_device;
	const char *(*check)(u16 type, const void *payload);
	const char *(*check_reply)(u16 type, const void *payload);
};

/**
 * dlend_msg_rule_of - the rule of a type of message
 * @type: (in) enum dlend_msg_type, not trusted
 *
 * Context: any. Return: the rule; NULL: there is no such type.
 */
const struct dlend_msg_rule *dlend_msg_rule_of(u16 type);

#endif
