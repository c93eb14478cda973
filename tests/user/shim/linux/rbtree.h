/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/rbtree.h>: only what interval_tree_generic.h here uses. */
#ifndef SHIM_LINUX_RBTREE_H
#define SHIM_LINUX_RBTREE_H

#include <linux/types.h>

/* A list in order of the nodes' first addresses: slow, and simple enough to be right. */
struct rb_node {
	struct rb_node *next, *prev;
};

struct rb_root_cached {
	struct rb_node *first;
};

#define RB_ROOT_CACHED		((struct rb_root_cached) { NULL })
#define RB_EMPTY_ROOT(root)	(!(root)->first)

#endif
