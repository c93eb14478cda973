/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/seq_file.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_SEQ_FILE_H
#define SHIM_LINUX_SEQ_FILE_H

#include <stdio.h>

struct seq_file {
	char *buf;
	size_t size, count;
};

#define seq_printf(m, fmt, ...)									\
	((m)->count += snprintf((m)->buf + (m)->count, (m)->size - (m)->count, fmt, ##__VA_ARGS__))

#endif
