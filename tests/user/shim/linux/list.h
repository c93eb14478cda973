/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/list.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_LIST_H
#define SHIM_LINUX_LIST_H

#include <linux/container_of.h>
#include <linux/types.h>

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head;
	head->prev = head;
}

static inline void __shim_insert(struct list_head *entry, struct list_head *prev,
				 struct list_head *next)
{
	entry->prev = prev;
	entry->next = next;
	prev->next = entry;
	next->prev = entry;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	__shim_insert(entry, head, head->next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	__shim_insert(entry, head->prev, head);
}

/* Poisoned, so that a second use is seen. */
static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	entry->next = (struct list_head *)0x100;
	entry->prev = (struct list_head *)0x122;
}

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}

static inline bool list_is_last(const struct list_head *entry, const struct list_head *head)
{
	return entry->next == head;
}

static inline bool list_is_first(const struct list_head *entry, const struct list_head *head)
{
	return entry->prev == head;
}

static inline bool list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

static inline void list_splice_tail_init(struct list_head *from, struct list_head *head)
{
	while (!list_empty(from))
		list_move_tail(from->next, head);
}

static inline void list_splice_init(struct list_head *from, struct list_head *head)
{
	while (!list_empty(from))
		list_move(from->prev, head);
}

#define list_entry(ptr, type, member)		container_of(ptr, type, member)
#define list_first_entry(head, type, member)	list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)	list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(pos, member)	list_entry((pos)->member.next, typeof(*(pos)), member)
#define list_prev_entry(pos, member)	list_entry((pos)->member.prev, typeof(*(pos)), member)
#define list_entry_is_head(pos, head, member)	(&(pos)->member == (head))

#define list_for_each(pos, head)						\
	for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
#define list_for_each_entry(pos, head, member)					\
	for ((pos) = list_first_entry(head, typeof(*(pos)), member);		\
	     !list_entry_is_head(pos, head, member);				\
	     (pos) = list_next_entry(pos, member))
#define list_for_each_entry_reverse(pos, head, member)				\
	for ((pos) = list_last_entry(head, typeof(*(pos)), member);		\
	     !list_entry_is_head(pos, head, member);				\
	     (pos) = list_prev_entry(pos, member))
#define list_for_each_entry_safe(pos, n, head, member)				\
	for ((pos) = list_first_entry(head, typeof(*(pos)), member),		\
	     (n) = list_next_entry(pos, member);				\
	     !list_entry_is_head(pos, head, member);				\
	     (pos) = (n), (n) = list_next_entry(n, member))
#define list_for_each_entry_from(pos, head, member)				\
	for (; !list_entry_is_head(pos, head, member);				\
	     (pos) = list_next_entry(pos, member))
#define list_for_each_entry_continue(pos, head, member)				\
	for ((pos) = list_next_entry(pos, member);				\
	     !list_entry_is_head(pos, head, member);				\
	     (pos) = list_next_entry(pos, member))
#define list_for_each_entry_continue_reverse(pos, head, member)			\
	for ((pos) = list_prev_entry(pos, member);				\
	     !list_entry_is_head(pos, head, member);				\
	     (pos) = list_prev_entry(pos, member))

#endif
