// SPDX-License-Identifier: GPL-2.0-only
/* UUIDs, by which mediated devices are named. */
#include <ctype.h>
#include <stdlib.h>
#include <sys/random.h>

#include "dlend.h"

bool uuid_valid(const char *s)
{
	for (int i = 0; i < 36; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23 ? s[i] != '-' :
							     !isxdigit((unsigned char)s[i]))
			return false;
	return !s[36];
}

const char *uuid_parse(const char *s)
{
	char *uuid = path("%s", s);

	if (!uuid_valid(s))
		fail(EXIT_USAGE, text("\"%s\" is no UUID", s), NULL,
		     "dlend status lists those of the mediated devices.");
	for (char *c = uuid; *c; c++)
		*c = tolower((unsigned char)*c);	/* as the kernel has them */
	return uuid;
}

const char *uuid_new(void)
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		abort();
	b[6] = (b[6] & 0x0f) | 0x40;	/* version 4: random */
	b[8] = (b[8] & 0x3f) | 0x80;
	return text("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		    b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7],
		    b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}
