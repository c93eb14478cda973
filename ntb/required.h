/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which node the admin wants at the other end of which link, by the link's name: a link goes with
 * the driver of its NTB, and comes back with it; what the admin has said stays.
 */
#ifndef DLEND_NTB_REQUIRED_H
#define DLEND_NTB_REQUIRED_H

#include <linux/types.h>

/**
 * dlend_required_note - the admin has said it
 * @link: (in) name of the link
 * @node: (in) node id; 0: any
 *
 * Context: process, may sleep. Return: 0; -ENOMEM.
 */
int dlend_required_note(const char *link, u16 node);

/** dlend_required_of - what was said last of the link of that name; 0: any. Context: process. */
u16 dlend_required_of(const char *link);

/** dlend_required_forget - all of it. Context: process; there are no links any more. */
void dlend_required_forget(void);

#endif
