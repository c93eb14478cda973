// SPDX-License-Identifier: GPL-2.0-only
/*
 * UUIDs, by which mediated devices are named; and a mediated device of this host: where it is, what
 * it was made of, and who has it.
 */
#include <ctype.h>
#include <libgen.h>
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
	char *uuid = text("%s", s);

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

char *mdev_directory(const char *uuid)
{
	return sys("bus/mdev/devices/%s", uuid);
}

const char *mdev_parent(const char *uuid)
{
	char *where = real_path(mdev_directory(uuid));

	return where ? basename(dirname(where)) : "";
}

/* What a VMM has open: the file of its group, or of its own. */
const char *mdev_user(const char *dir, const char **vm)
{
	struct names own = list_dir(text("%s/vfio-dev", dir)), files = { 0 };
	const char *group = link_name(dir, "iommu_group");

	if (group)
		names_add(&files, text("/dev/vfio/%s", group));
	for (size_t i = 0; i < own.count; i++)
		names_add(&files, text("/dev/vfio/devices/%s", own.name[i]));
	return find_user(&files, vm);
}

void fail_no_mdev(const char *uuid)
{
	fail(EXIT_NOT_FOUND, text("%s: no such mediated device", uuid),
	     "dlend has none of that UUID on this node", "dlend status lists them.");
}
