/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the admin wants of which link, by the link's name: a link goes with the driver of its NTB,
 * and comes back with it; what the admin has said stays.
 */
#ifndef DLEND_NTB_REQUIRED_H
#define DLEND_NTB_REQUIRED_H

#include <linux/types.h>

/**
 * dlend_required_note_peer - the admin has said which node is at the other end
 * @link: (in) name of the link
 * @node: (in) node id; 0: any
 *
 * Context: process, may sleep. Return: 0; -ENOMEM.
 */
int dlend_required_note_peer(const char *link, u16 node);

/** dlend_required_peer - what was said last of the link of that name; 0: any. Context: process. */
u16 dlend_required_peer(const char *link);

/**
 * dlend_required_note_direct - the admin has allowed direct interrupts, or forbidden them
 * @link: (in) name of the link
 * @on: (in) allowed
 *
 * Context: process, may sleep. Return: 0; -ENOMEM.
 */
int dlend_required_note_direct(const char *link, bool on);

/**
 * dlend_required_direct - what was said last of direct interrupts
 * @link: (in) name of the link
 * @unless: (in) returned if nothing was said
 *
 * Context: process.
 */
bool dlend_required_direct(const char *link, bool unless);

/** dlend_required_forget - all of it. Context: process; there are no links any more. */
void dlend_required_forget(void);

#endif
