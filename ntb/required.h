/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the admin wants of which link, by the link's name: a link goes with the driver of its NTB,
 * and comes back with it; what the admin has said stays.
 */
#ifndef DLEND_NTB_REQUIRED_H
#define DLEND_NTB_REQUIRED_H

#include <linux/types.h>

/**
 * enum dlend_required_what - what can be said of a link
 * @DLEND_REQUIRED_PEER: node id of the other end; 0: any
 * @DLEND_REQUIRED_DIRECT: are direct interrupts allowed? 0 or 1
 * @DLEND_REQUIRED_NUM: how many there are
 */
enum dlend_required_what {
	DLEND_REQUIRED_PEER,
	DLEND_REQUIRED_DIRECT,
	DLEND_REQUIRED_NUM
};

/**
 * dlend_required_note - the admin has said it
 * @link: (in) name of the link
 * @what: (in) what of it
 * @value: (in) as @what has it
 *
 * Context: process, may sleep. Return: 0; -ENOMEM.
 */
int dlend_required_note(const char *link, enum dlend_required_what what, u16 value);

/**
 * dlend_required_of - what was said last of the link of that name
 * @link: (in) name of the link
 * @what: (in) what of it
 * @unless: (in) returned if nothing was said
 *
 * Context: process.
 */
u16 dlend_required_of(const char *link, enum dlend_required_what what, u16 unless);

/** dlend_required_forget - all of it. Context: process; there are no links any more. */
void dlend_required_forget(void);

#endif
