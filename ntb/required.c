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

/* @peer: 0: any; @direct: as @direct_said */
struct dlend_required {
	struct list_head node;
	u16 peer;
	bool direct, direct_said;
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

int dlend_required_note_peer(const char *link, u16 node)
{
	struct dlend_required *r;

	guard(mutex)(&dlend_required_lock);
	r = dlend_required_get(link);
	if (!r)
		return -ENOMEM;
	r->peer = node;
	return 0;
}

int dlend_required_note_direct(const char *link, bool on)
{
	struct dlend_required *r;

	guard(mutex)(&dlend_required_lock);
	r = dlend_required_get(link);
	if (!r)
		return -ENOMEM;
	r->direct = on;
	r->direct_said = true;
	return 0;
}

bool dlend_required_direct(const char *link, bool unless)
{
	struct dlend_required *r;

	guard(mutex)(&dlend_required_lock);
	r = dlend_required_find(link);
	return r && r->direct_said ? r->direct : unless;
}

u16 dlend_required_peer(const char *link)
{
	struct dlend_required *r;

	guard(mutex)(&dlend_required_lock);
	r = dlend_required_find(link);
	return r ? r->peer : 0;
}

void dlend_required_forget(void)
{
	struct dlend_required *r, *next;

	list_for_each_entry_safe(r, next, &dlend_required_list, node)
		kfree(r);
	INIT_LIST_HEAD(&dlend_required_list);
}
