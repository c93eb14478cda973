/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/interval_tree_generic.h>: only what the pure sources use. */
#ifndef SHIM_LINUX_INTERVAL_TREE_GENERIC_H
#define SHIM_LINUX_INTERVAL_TREE_GENERIC_H

#include <linux/container_of.h>
#include <linux/rbtree.h>

#define INTERVAL_TREE_DEFINE(type, rb, num, subtree, start, end, how, prefix)		\
how void prefix ## _insert(type *node, struct rb_root_cached *root)			\
{											\
	struct rb_node **link = &root->first, *prev = NULL;				\
											\
	while (*link && start(container_of(*link, type, rb)) <= start(node)) {		\
		prev = *link;								\
		link = &prev->next;							\
	}										\
	node->subtree = end(node);							\
	node->rb.next = *link;								\
	node->rb.prev = prev;								\
	if (*link)									\
		(*link)->prev = &node->rb;						\
	*link = &node->rb;								\
}											\
											\
how void prefix ## _remove(type *node, struct rb_root_cached *root)			\
{											\
	if (node->rb.next)								\
		node->rb.next->prev = node->rb.prev;					\
	*(node->rb.prev ? &node->rb.prev->next : &root->first) = node->rb.next;		\
}											\
											\
how type *prefix ## _meets(struct rb_node *at, num first, num last)			\
{											\
	for (; at; at = at->next) {							\
		type *node = container_of(at, type, rb);				\
											\
		if (start(node) <= last && first <= end(node))				\
			return node;							\
	}										\
	return NULL;									\
}											\
											\
how type *prefix ## _iter_first(struct rb_root_cached *root, num first, num last)	\
{											\
	return prefix ## _meets(root->first, first, last);				\
}											\
											\
how type *prefix ## _iter_next(type *node, num first, num last)				\
{											\
	return prefix ## _meets(node->rb.next, first, last);				\
}

#endif
