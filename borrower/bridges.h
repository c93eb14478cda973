/* SPDX-License-Identifier: GPL-2.0 */
/* Where offered devices and the ends of links sit on their hosts: bridges, and root complexes. */
#ifndef DLEND_BORROWER_BRIDGES_H
#define DLEND_BORROWER_BRIDGES_H

#include <dlend/link.h>
#include <dlend/p2p_plan.h>
#include <dlend/root.h>

/**
 * dlend_bridges_emit - bridges as words, from the root on
 * @buf: (out) a page of sysfs
 * @at: (in) offset in it
 * @place: (in) bridges
 *
 * Context: any. Return: bytes written.
 */
int dlend_bridges_emit(char *buf, int at, const struct dlend_p_place *place);

/**
 * dlend_bridge_ends_emit - the known ends of links, a line each
 * @buf: (out) a page of sysfs
 *
 * Context: process; takes dlend_bridge_ends_lock. Return: bytes written.
 */
ssize_t dlend_bridge_ends_emit(char *buf);

/** dlend_bridge_ends_emit_roots - where these ends join root complexes; as there. */
ssize_t dlend_bridge_ends_emit_roots(char *buf);

/**
 * dlend_bridge_ends_islands - on which islands the known ends are
 * @ends: (out) room for @max of them
 * @max: (in) no more than these
 *
 * Context: process; takes dlend_bridge_ends_lock. Return: how many are written.
 */
unsigned int dlend_bridge_ends_islands(struct dlend_p2p_end *ends, unsigned int max);

/** dlend_place_emit_root - where @place joins the root complex; as dlend_bridges_emit(). */
int dlend_place_emit_root(char *buf, int at, const struct dlend_p_place *place);

/**
 * dlend_bridge_end_note - a node tells where one of its NTBs sits (DLEND_MSG_PLACE)
 * @link: (in) over which it tells
 * @addr: (in) the NTB
 * @place: (in) the node that the NTB leads to, and where the NTB is
 *
 * Context: process; takes dlend_bridge_ends_lock.
 */
void dlend_bridge_end_note(struct dlend_link *link, const struct dlend_addr *addr,
			   const struct dlend_p_place *place);

/** dlend_bridge_ends_forget - @link is down: forget what was told over it. Context: process. */
void dlend_bridge_ends_forget(struct dlend_link *link);

#endif
