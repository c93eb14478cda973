// SPDX-License-Identifier: GPL-2.0
/*
 * Who was told of an extent of guest memory: see told.h.
 *
 * Pure logic: must not know messages, locks or the books.
 */
#include "told.h"

/* No lender that could still be asked may have it. */
static bool dlend_told_over(const struct dlend_told *told)
{
	return !(told->members & ~DLEND_TOLD_LOST);
}

bool dlend_told_due(const struct dlend_told *told, enum dlend_news news, u32 id)
{
	switch (news) {
	case DLEND_NEWS_GONE:
		return dlend_told_member(told, id);
	case DLEND_NEWS_UNSURE:
		return told->unsure & BIT(id);
	case DLEND_NEWS_NEW:
		return !dlend_told_member(told, id);
	}
	return false;
}

void dlend_told_ask(struct dlend_told *told, enum dlend_news news, u32 id)
{
	told->asked = true;
	if (news == DLEND_NEWS_NEW)
		told->members |= BIT(id);
}

bool dlend_told_answer(struct dlend_told *told, enum dlend_news news, u32 id, bool ok)
{
	if (!told->asked)
		return false;
	told->asked = false;
	if (news == DLEND_NEWS_NEW) {
		if (!ok)
			told->unsure |= BIT(id);
	} else if (ok) {
		told->members &= ~BIT(id);
		told->unsure &= ~BIT(id);
	}
	return dlend_told_over(told);
}

bool dlend_told_leave(struct dlend_told *told, u32 id, bool fenced)
{
	if (!fenced && dlend_told_member(told, id))
		told->members |= DLEND_TOLD_LOST;
	told->members &= ~BIT(id);
	told->unsure &= ~BIT(id);
	return dlend_told_over(told);
}
