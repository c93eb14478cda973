/* SPDX-License-Identifier: GPL-2.0 */
/* The link of this node to itself; users open it by dlend_loop_open() (dlend/link.h). */
#ifndef DLEND_NTB_LOOP_H
#define DLEND_NTB_LOOP_H

/**
 * dlend_loop_exit - remove the link of this node to itself, if there is one
 *
 * No user of links is left, so only the link itself still rings doorbells, while it goes down.
 * Context: process, may sleep.
 */
void dlend_loop_exit(void);

#endif
