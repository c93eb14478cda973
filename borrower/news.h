/* SPDX-License-Identifier: GPL-2.0 */
/* News of lenders: the borrower's part of every link. */
#ifndef DLEND_BORROWER_NEWS_H
#define DLEND_BORROWER_NEWS_H

/** dlend_news_init - hear what lenders say from now on. Context: module init. Return: 0, -errno. */
int dlend_news_init(void);

/** dlend_news_exit - no link calls the borrower any more. Context: module exit. */
void dlend_news_exit(void);

#endif
