/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Setting up the hardware of a link: an aperture in which the peer's accesses arrive, a control
 * area in it, and the way to the peer's control area.
 *
 * Aperture and control area are made once and stay until the link is freed.
 */
#ifndef DLEND_NTB_SETUP_H
#define DLEND_NTB_SETUP_H

#include <linux/types.h>

struct dlend_link;
struct dlend_slot;

/**
 * struct dlend_setup - what set-up remembers; under state_lock
 * @ctrl_slot: slot of the control area
 * @aperture_err: why there is no aperture; only -EBUSY is tried again
 * @aperture_wait: milliseconds between two looks whether it can be made
 * @aperture_at: when this was last tried, or looked at, ms
 */
struct dlend_setup {
	struct dlend_slot *ctrl_slot;
	int aperture_err;
	unsigned int aperture_wait;
	u64 aperture_at;
};

/**
 * dlend_setup_prepare - make this node and its peer reach each other's control area
 * @link: link
 *
 * What is there already is left as it is; translation and doorbells are set each time, as hardware
 * can lose them.  link->error says what is missing.
 * Context: process, may sleep, under state_lock.
 * Return: 0, or -errno, to be tried again.
 */
int dlend_setup_prepare(struct dlend_link *link);

/**
 * dlend_setup_rest - nothing of this node is reached while the host sleeps
 * @link: link, without a session; dlend_setup_prepare() undoes this
 *
 * Context: process, may sleep, under state_lock.
 */
void dlend_setup_rest(struct dlend_link *link);

/**
 * dlend_setup_undo - nothing of this node is reached by the peer any more, for good
 * @link: link, without a session; the hardware goes away
 *
 * Context: process, may sleep, under state_lock.
 */
void dlend_setup_undo(struct dlend_link *link);

/**
 * dlend_setup_requesters_free - for how many PCI functions more this node's hardware has room, if
 *	only requests of some pass
 * @link: link, up or not
 *
 * Context: process, may sleep; takes state_lock.
 * Return: their number; -ENODATA requests of all pass; -ENODEV the hardware does not answer.
 */
int dlend_setup_requesters_free(struct dlend_link *link);

/**
 * dlend_setup_free - free control area and aperture
 * @link: link without references, so that no user has a slot
 *
 * Context: process, may sleep.
 */
void dlend_setup_free(struct dlend_link *link);

#endif
