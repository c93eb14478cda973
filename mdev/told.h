/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who was told of an extent of guest memory: what the lender of each member has mapped, or may
 * have.
 *
 * A member is the part that one lease (one borrowed device) has in the memory of its VM.  Members
 * have numbers, 0 to DLEND_TOLD_MAX - 1.  Each member's lender has an IOMMU domain of its own, and
 * hears of each extent by messages of its own.
 *
 * Pure logic: makes no messages and takes no locks.
 */
#ifndef DLEND_MDEV_TOLD_H
#define DLEND_MDEV_TOLD_H

#include <linux/bits.h>
#include <dlend/types.h>

/* How many members there can be; bit DLEND_TOLD_MAX of struct dlend_told.members is taken. */
#define DLEND_TOLD_MAX	31u

/* A member has left whose lender never said that it unmapped the extent. */
#define DLEND_TOLD_LOST	BIT(DLEND_TOLD_MAX)

/* What a message to a lender says of an extent. */
enum dlend_news {
	DLEND_NEWS_GONE,	/* unmap it: this node has it no more */
	DLEND_NEWS_UNSURE,	/* unmap it: nobody knows whether the lender got the last NEW */
	DLEND_NEWS_NEW		/* map it */
};

/**
 * struct dlend_told - who was told of one extent; all zero: nobody
 * @members: a bit for each member whose lender maps the extent, or may map it; DLEND_TOLD_LOST
 * @unsure: a bit for each of these members whose lender may have it or not: the answer to NEW did
 *	not come, or was an error
 * @asked: the extent is in the message that is under way
 */
struct dlend_told {
	u32 members, unsure;
	bool asked;
};

/**
 * dlend_told_anybody - may any lender have it, or have had it when its member left? Context: any.
 */
static inline bool dlend_told_anybody(const struct dlend_told *told)
{
	return told->members;
}

/** dlend_told_member - may the lender of member @id have it? Context: any. */
static inline bool dlend_told_member(const struct dlend_told *told, u32 id)
{
	return told->members & BIT(id);
}

/** dlend_told_lost - has a member left whose lender never gave it up? Context: any. */
static inline bool dlend_told_lost(const struct dlend_told *told)
{
	return told->members & DLEND_TOLD_LOST;
}

/**
 * dlend_told_due - must a lender hear some news?
 * @told: (in) who was told so far
 * @news: (in) what; DLEND_NEWS_GONE is asked only of an extent that has left the books
 * @id: (in) member whose lender is to be told
 *
 * Context: any. Return: true if it must.
 */
bool dlend_told_due(const struct dlend_told *told, enum dlend_news news, u32 id);

/**
 * dlend_told_ask - the extent goes into a message; from now on the lender may have heard of it
 * @told: (in, out) who was told so far
 * @news: (in) what the message says
 * @id: (in) member whose lender it goes to
 *
 * Context: any.
 */
void dlend_told_ask(struct dlend_told *told, enum dlend_news news, u32 id);

/**
 * dlend_told_answer - the message is over
 * @told: (in, out) who was told so far; left alone if the extent was in no message
 * @news: (in) what the message said
 * @id: (in) member whose lender it went to
 * @ok: (in) the lender has acknowledged it
 *
 * Context: any. Return: true if no member's lender can have the extent any more.
 */
bool dlend_told_answer(struct dlend_told *told, enum dlend_news news, u32 id, bool ok);

/**
 * dlend_told_leave - a member's lease is over
 * @told: (in, out) who was told so far
 * @id: (in) member
 * @fenced: (in) its lender has said that the device is returned.  If not, the device may reach the
 *	extent's slot until the session ends: DLEND_TOLD_LOST
 *
 * Context: any. Return: true if no other member's lender can have the extent.
 */
bool dlend_told_leave(struct dlend_told *told, u32 id, bool fenced);

#endif
