/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/sort.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_SORT_H
#define SHIM_LINUX_SORT_H

#include <stdlib.h>

#define sort(base, n, size, cmp, swap)	qsort(base, n, size, cmp)

#endif
