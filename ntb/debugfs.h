/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of links in debugfs; users of links find the directory by dlend_debugfs(). */
#ifndef DLEND_NTB_DEBUGFS_H
#define DLEND_NTB_DEBUGFS_H

struct dlend_link;

/** dlend_debugfs_init - make the directories, if there is debugfs. Context: process. */
void dlend_debugfs_init(void);

/** dlend_debugfs_exit - undo dlend_debugfs_init(). Context: process, may sleep. */
void dlend_debugfs_exit(void);

/** dlend_debugfs_add - make the file of a link. Context: process, may sleep. */
void dlend_debugfs_add(struct dlend_link *link);

/** dlend_debugfs_remove - undo dlend_debugfs_add(), and wait for readers. Context: the same. */
void dlend_debugfs_remove(struct dlend_link *link);

#endif
