/* SPDX-License-Identifier: GPL-2.0 */
/* What user space hears of without asking. */
#ifndef DLEND_UEVENT_H
#define DLEND_UEVENT_H

struct device;

/*
 * What a peer or a guest can change is told this late, and no more often, as they may change it all
 * the time, and the queue of user space has events of other devices, too.
 */
#define DLEND_UEVENT_DELAY_MS	20

/**
 * dlend_uevent_state - tell user space of a new state: an event "change" with DLEND_STATE
 * @dev: (in) the device whose attribute "state" has changed
 * @state: (in) its first word
 *
 * An event may be lost, as all of the kernel's, if there is no memory for it.
 *
 * Context: process, may sleep.  No lock that a fence waits for.
 */
void dlend_uevent_state(struct device *dev, const char *state);

#endif
