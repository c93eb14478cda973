/* SPDX-License-Identifier: GPL-2.0 */
/* What happens to links when the host goes to sleep, comes back, or goes down for good. */
#ifndef DLEND_NTB_PM_H
#define DLEND_NTB_PM_H

/** dlend_pm_init - be told by the kernel from now on. Context: process. Return: 0 or -errno. */
int dlend_pm_init(void);

/** dlend_pm_exit - undo dlend_pm_init(). Context: process, may sleep. */
void dlend_pm_exit(void);

/**
 * dlend_pm_asleep - is this host asleep, or about to be, or going down?
 *
 * To be asked for a link that is registered already. Context: any.
 */
bool dlend_pm_asleep(void);

#endif
