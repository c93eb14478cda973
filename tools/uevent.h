/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's events about devices: that there is something new to look at, not what. */
#ifndef DLEND_TOOL_UEVENT_H
#define DLEND_TOOL_UEVENT_H

#include <stdbool.h>
#include <stdint.h>

/** uevent_open - a socket to poll(2) for reading, or -1 if this process gets no events */
int uevent_open(void);
/** uevent_take - reads all that has come. Return: some of it is about what dlend shows */
bool uevent_take(int fd);
/** now_ms - time that only grows */
int64_t now_ms(void);
/**
 * uevent_wait - until @until (now_ms()), or until soon after an event
 * @fd: from uevent_open(); -1: there are none
 *
 * Ends the process if nobody reads its standard output any more.
 */
void uevent_wait(int fd, int64_t until);

#endif
