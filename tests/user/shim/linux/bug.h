/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/bug.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_BUG_H
#define SHIM_LINUX_BUG_H

#include <stdlib.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/printk.h>

/* Here a warning is a failure: abort, so that sanitizers and fuzzers show where. */
#define BUG()			abort()
#define BUG_ON(cond)		do { if (cond) BUG(); } while (0)
#define WARN(cond, fmt, ...) ({						\
	bool __warn = !!(cond);						\
	if (__warn) {							\
		fprintf(stderr, "WARN %s:%d: %s\n", __FILE__, __LINE__, #cond);	\
		abort();						\
	}								\
	__warn; })
#define WARN_ON(cond)		WARN(cond, "")
#define WARN_ON_ONCE(cond)	WARN(cond, "")
#define WARN_ONCE(cond, fmt, ...) WARN(cond, fmt)

#endif
