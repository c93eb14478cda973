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
 * What is let through already is fine.
 * Context: process, may sleep.
 * Return: 0; -EAGAIN try again; or it cannot use this link, and the log says why.
 */
int lend_admit(const struct lend_fn *fn, struct dlend_link *link);

/**
 * lend_admit_end - no link lets its requests pass any more, as far as links are up
 * @fn: (in) function that does no DMA any more
 *
 * Context: process, may sleep.
 */
void lend_admit_end(const struct lend_fn *fn);

#endif
