/* SPDX-License-Identifier: GPL-2.0 */
/* Folder lender/ in debugfs. */
#ifndef DLEND_LENDER_DEBUGFS_H
#define DLEND_LENDER_DEBUGFS_H

#include "lender/fn.h"

/**
 * lend_debugfs_faults - give a new function its injected faults: they hit its first reset, too
 * @fn: (in, out) function
 *
 * Context: any; before lend_debugfs_add().
 */
void lend_debugfs_faults(struct lend_fn *fn);

/** lend_debugfs_add - make the folder of @fn (in, out). Context: process. */
void lend_debugfs_add(struct lend_fn *fn);

/** lend_debugfs_remove - remove the folder of @fn (in). Context: process. */
void lend_debugfs_remove(struct lend_fn *fn);

/** lend_debugfs_init - make lender/ and lender/bind/. Context: process. */
void lend_debugfs_init(void);

/** lend_debugfs_exit - remove them. Context: process. */
void lend_debugfs_exit(void);

#endif
