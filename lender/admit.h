/* SPDX-License-Identifier: GPL-2.0 */
/* Links whose bridge passes the requests of those functions only that it was told of. */
#ifndef DLEND_LENDER_ADMIT_H
#define DLEND_LENDER_ADMIT_H

#include <linux/types.h>

struct dlend_link;
struct lend_fn;

/**
 * lend_admit - let requests of a function pass over a link
 * @fn: (in) function
 * @link: (in) link that is up
 *
 * What is let through already is fine, and a function that is not bound any more, too.
 * Context: process, may sleep.
 * Return: 0; -EAGAIN try again; or it cannot use this link, and the log says why.
 */
int lend_admit(const struct lend_fn *fn, struct dlend_link *link);

/**
 * lend_admit_end - a function is not bound any more: no link lets its requests pass
 *
 * Links are told soon; those that cannot be told now, again later.
 * Context: any.
 */
void lend_admit_end(void);

/** lend_admit_exit - try it for the last time. Context: process; no function is bound. */
void lend_admit_exit(void);

#endif
