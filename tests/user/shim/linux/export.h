/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/export.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_EXPORT_H
#define SHIM_LINUX_EXPORT_H

#define EXPORT_SYMBOL(x)
#define EXPORT_SYMBOL_GPL(x)
#define EXPORT_SYMBOL_NS_GPL(x, ns)

#endif
