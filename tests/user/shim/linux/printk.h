/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/printk.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_PRINTK_H
#define SHIM_LINUX_PRINTK_H

#include <stdio.h>

#define KERN_ERR
#define KERN_WARNING
#define KERN_INFO
#define printk(fmt, ...)		fprintf(stderr, fmt, ##__VA_ARGS__)
#define pr_err(fmt, ...)		printk(fmt, ##__VA_ARGS__)
#define pr_warn(fmt, ...)		printk(fmt, ##__VA_ARGS__)
#define pr_notice(fmt, ...)		printk(fmt, ##__VA_ARGS__)
#define pr_info(fmt, ...)		printk(fmt, ##__VA_ARGS__)
#define pr_debug(fmt, ...)		do { } while (0)
#define pr_err_ratelimited		pr_err
#define pr_warn_ratelimited		pr_warn
#define pr_warn_once			pr_warn
#define pr_err_once			pr_err

#endif
