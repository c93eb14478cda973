/* SPDX-License-Identifier: GPL-2.0-only */
/* One finding of `dlend doctor`.  All its parts report through this; it calls none of them. */
#ifndef DLEND_TOOL_FINDING_H
#define DLEND_TOOL_FINDING_H

#include "dlend.h"

enum level {
	LEVEL_OK,
	LEVEL_WARN,		/* works, but less well or less safely than it could */
	LEVEL_FAIL,
};

/**
 * finding - print one line of the report, or keep it for findings_json(), and count it
 * @level:	(in) how bad it is
 * @check:	(in) name of the check, for scripts; it stays the same from version to version
 * @what:	(in) what was found
 * @fix:	(in) what to do about it, NULL if nothing
 */
void finding(enum level level, const char *check, const char *what, const char *fix);

/** findings_json - all of them so far, and how many there are of each level */
json_t *findings_json(void);

/** findings_count - how many findings of @level there were so far */
unsigned int findings_count(enum level level);

/** size_text - @bytes for people: 5368709120 is "5 GiB". Return: text that is never freed */
const char *size_text(unsigned long long bytes);

#endif
