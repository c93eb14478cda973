// SPDX-License-Identifier: GPL-2.0
/*
 * What the admin has said of links: see required.h.
 */
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <dlend/compat.h>
#include "required.h"

/* @value: those that were @said */
struct dlend_required {
	struct list_head node;
	u16 value[DLEND_REQUIRED_NUM];
	bool said[DLEND_REQUIRED_NUM];
	char link[];
};

static DEFINE_MUTEX(dlend_required_lock);
static LIST_HEAD(dlend_required_list);

static struct dlend_required *dlend_required_find(const char *link)
{
	struct dlend_required *r;

	lockdep_assert_held(&dlend_required_lock);
	list_for_each_entry(r, &dlend_required_list, node)
		if (!strcmp(r->link, link))
			return r;
	return NULL;
}

static struct dlend_required *dlend_required_get(const char *link)
{
	struct dlend_required *r = dlend_required_find(link);

	if (r)
		return r;
	r = kzalloc(struct_size(r, link, strlen(link) + 1), GFP_KERNEL);
	if (!r)
		return NULL;
	memcpy(r->link, link, strlen(link));
	list_add(&r->node, &dlend_required_list);
	return r;
}

int dlend_required_note(const char *link, enum dlend_required_what what, u16 value)
{
	struct dlend_required *r;

	guard(mutex)(&dlend_required_lock);
	r = dlend_required_get(link);
	if (!r)
		return -ENOMEM;
	r->value[what] = value;
	r->said[what] = true;
	return 0;
}

u16 dlend_required_of(const char *link, enum dlend_required_what what, u16 unless)
{
	struct dlend_required *r;

	guard(mutex)(&dlend_required_lock);
	r = dlend_required_find(link);
	return r && r->said[what] ? r->value[what] : unless;
}

void dlend_required_forget(void)
{
	struct dlend_required *r, *next;

	list_for_each_entry_safe(r, next, &dlend_required_list, node)
		kfree(r);
	INIT_LIST_HEAD(&dlend_required_list);
}
