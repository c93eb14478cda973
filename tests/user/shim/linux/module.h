/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/module.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_MODULE_H
#define SHIM_LINUX_MODULE_H

#include <linux/export.h>
#include <linux/kernel.h>

#define MODULE_LICENSE(x)
#define MODULE_DESCRIPTION(x)
#define MODULE_AUTHOR(x)
#define MODULE_IMPORT_NS(x)
#define THIS_MODULE	NULL

#endif
