// SPDX-License-Identifier: GPL-2.0-only
/* A mediated device of this host: where it is, what it was made of, and who has it. */
#include <libgen.h>
#include <stdlib.h>

#include "dlend.h"

char *mdev_directory(const char *uuid)
{
	return path("%s/bus/mdev/devices/%s", opt.sysfs, uuid);
}

const char *mdev_parent(const char *uuid)
{
	char *dir = mdev_directory(uuid), *where = real_path(dir);
	const char *parent = where ? text("%s", basename(dirname(where))) : "";

	free(where);
	free(dir);
	return parent;
}

/* What a VMM has open: the file of its group, or of its own. */
static struct names mdev_files(const char *dir)
{
	char *link = path("%s/iommu_group", dir), *group = link_name(link);
	char *own = path("%s/vfio-dev", dir);
	struct names all = list_dir(own), files = { 0 };

	if (group)
		names_add(&files, text("/dev/vfio/%s", group));
	for (size_t i = 0; i < all.count; i++)
		names_add(&files, text("/dev/vfio/devices/%s", all.name[i]));
	names_free(&all);
	free(own);
	free(group);
	free(link);
	return files;
}

const char *mdev_user(const char *dir, const char **vm)
{
	struct names files = mdev_files(dir);
	const char *user = find_user(&files, vm);

	names_free(&files);
	return user;
}
