// SPDX-License-Identifier: GPL-2.0
/*
 * How many messages that must arrive may wait for one peer: see notes.h.
 *
 * Knows neither peers nor messages.
 */
#include "lender/notes.h"

bool lend_notes_add(struct lend_notes *n, bool lost)
{
	if (!lost && n->all - n->lost == LEND_NOTES_MAX)
		return false;
	n->all++;
	n->lost += lost;
	return true;
}

void lend_notes_del(struct lend_notes *n, bool lost)
{
	n->all--;
	n->lost -= lost;
}
