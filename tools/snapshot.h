/* SPDX-License-Identifier: GPL-2.0-only */
/* What can be seen of this node at one moment, and how two such moments differ. */
#ifndef DLEND_TOOL_SNAPSHOT_H
#define DLEND_TOOL_SNAPSHOT_H

#include "dlend.h"

#define VALUES_MAX	7

/**
 * struct thing - a link, an offer, a device
 * @kind: "link", "lent", "offer", "mdev", "attached"
 * @name: of all things of its kind, only this one has it
 * @key: names of its values; NULL after the last
 */
struct thing {
	const char *kind;
	char *name;
	const char *const *key;
	char *value[VALUES_MAX];
};

/** struct snapshot - things by kind, and in the order of their names */
struct snapshot {
	size_t count;
	struct thing *thing;
};

struct snapshot snapshot_take(void);
void snapshot_free(struct snapshot *s);

/** difference_fn - @before: NULL: it is new; @after: NULL: it is gone; or a value has changed */
typedef void (*difference_fn)(void *arg, const struct thing *before, const struct thing *after);
/** snapshot_compare - call @fn with @arg for each thing that is not the same in both */
void snapshot_compare(const struct snapshot *old, const struct snapshot *new, difference_fn fn,
		      void *arg);

#endif
