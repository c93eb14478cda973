/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions on their way from their own drivers to dlend-lender. */
#ifndef DLEND_TOOL_MOVE_H
#define DLEND_TOOL_MOVE_H

#include "dlend.h"

/* One function on its way from its own driver to dlend-lender. */
struct move {
	struct device dev;
	char *driver;		/* that it had, NULL = none */
	char override[TEXT_MAX];
	bool overridden;
	bool stuck;		/* a driver holds it, and may go on to do so: touch nothing */
};

/**
 * move_plan - check that each of @bdf can be lent and is not in use
 * @bdf:	(in) addresses of all functions of a group
 *
 * Return: an array with one entry for each; exits with a message if one of them cannot be lent
 */
struct move *move_plan(const struct names *bdf);
/**
 * move_take - bind all of @move to dlend-lender
 * @move:	(in, out) what move_plan() returned
 * @count:	(in) number of its entries
 *
 * If one of them fails, all go back to the drivers that they had; then it exits with a message.
 */
void move_take(struct move *move, size_t count);

#endif
