// SPDX-License-Identifier: GPL-2.0-only
/*
 * Just enough of a JSON reader for what mdevctl hands to a callout: the "attrs" of a definition,
 * an array of objects with one string each.  Everything else is read over.  The text is an admin's
 * file, so it may be anything: all of it is checked, and depth is bounded.
 */
#include <stdlib.h>
#include <string.h>

#include "callout.h"

#define DEPTH_MAX	32

struct reader {
	const char *at;
	int depth;
};

typedef bool (*member_fn)(struct reader *r, const char *key, void *arg);

static bool skip_value(struct reader *r);

static void blanks(struct reader *r)
{
	r->at += strspn(r->at, " \t\r\n");
}

static bool take(struct reader *r, char c)
{
	blanks(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

/* Escapes other than of ASCII become '?': no attribute of ours has any. */
static bool string(struct reader *r, char *to, size_t room)
{
	size_t len = 0;

	if (!take(r, '"'))
		return false;
	while (*r->at != '"') {
		char c = *r->at++;

		if ((unsigned char)c < 0x20)
			return false;	/* the end, too */
		if (c == '\\') {
			c = *r->at++;
			if (!c || !strchr("\"\\/bfnrtu", c))
				return false;
			if (c == 'u') {
				if (strspn(r->at, "0123456789abcdefABCDEF") < 4)
					return false;
				r->at += 4;
			}
			if (strchr("bfnrtu", c))
				c = '?';
		}
		if (to && len + 1 < room)
			to[len++] = c;
		else if (to)
			return false;
	}
	r->at++;
	if (to)
		to[len] = '\0';
	return true;
}

/* Calls @member for every value: in arrays with key NULL. */
static bool each(struct reader *r, char open, member_fn member, void *arg)
{
	char close = open == '{' ? '}' : ']', key[TEXT_MAX];
	bool ok = true;

	if (!take(r, open) || ++r->depth > DEPTH_MAX)
		return false;
	if (!take(r, close)) {
		do {
			if (open == '{')
				ok = string(r, key, sizeof(key)) && take(r, ':');
			ok = ok && member(r, open == '{' ? key : NULL, arg);
		} while (ok && take(r, ','));
		ok = ok && take(r, close);
	}
	r->depth--;
	return ok;
}

static bool skip_member(struct reader *r, const char *key, void *arg)
{
	(void)key;
	(void)arg;
	return skip_value(r);
}

static bool skip_value(struct reader *r)
{
	size_t len;

	blanks(r);
	if (*r->at == '{' || *r->at == '[')
		return each(r, *r->at, skip_member, NULL);
	if (*r->at == '"')
		return string(r, NULL, 0);
	len = strspn(r->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
	r->at += len;
	return len > 0;
}

static bool one_attribute(struct reader *r, const char *key, void *arg)
{
	struct attributes *a = arg;
	struct attribute *entry;

	a->entry = reallocarray(a->entry, a->count + 1, sizeof(*a->entry));
	if (!a->entry)
		abort();
	entry = &a->entry[a->count++];
	snprintf(entry->name, sizeof(entry->name), "%s", key);
	return string(r, entry->value, sizeof(entry->value));
}

static bool attribute_object(struct reader *r, const char *key, void *arg)
{
	(void)key;
	return each(r, '{', one_attribute, arg);
}

static bool definition_member(struct reader *r, const char *key, void *arg)
{
	if (strcmp(key, "attrs"))
		return skip_value(r);
	blanks(r);
	if (!strncmp(r->at, "null", 4))
		return skip_value(r);
	return each(r, '[', attribute_object, arg);
}

bool json_attributes(const char *definition, struct attributes *a)
{
	struct reader r = { .at = definition };

	if (!each(&r, '{', definition_member, a))
		return false;
	blanks(&r);
	return !*r.at;
}
