// SPDX-License-Identifier: GPL-2.0-only
/* Numbers on the command line. */
#include <stdint.h>
#include <stdlib.h>

#include "dlend.h"

#define SECONDS_MAX	(365 * 24 * 3600)
#define COUNT_MAX	1000000000

int64_t parse_seconds(const char *option, const char *s)
{
	char *end;
	double seconds = strtod(s, &end);

	if (*s < '0' || *s > '9' || *end || !(seconds >= 0.001 && seconds <= SECONDS_MAX))
		fail(EXIT_USAGE, text("--%s %s", option, s), "that is no number of seconds",
		     text("Give one from 0.001 to %d.", SECONDS_MAX));
	return seconds * 1000;
}

unsigned long parse_count(const char *s, const char *of)
{
	char *end;
	unsigned long count = strtoul(s, &end, 10);

	if (*s < '0' || *s > '9' || *end || !count || count > COUNT_MAX)
		fail(EXIT_USAGE, text("--count %s", s), text("that is no number of %s", of),
		     text("Give one from 1 to %d.", COUNT_MAX));
	return count;
}
