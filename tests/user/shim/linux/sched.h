/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/sched.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_SCHED_H
#define SHIM_LINUX_SCHED_H

#define cond_resched()		do { } while (0)

#endif
