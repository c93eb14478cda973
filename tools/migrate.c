// SPDX-License-Identifier: GPL-2.0-only
/* dlend migrate: hands over to the program that drives libvirt and mdevctl on two hosts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dlend.h"

#define PROGRAM	"/usr/lib/dlend/migrate"

static const char *program(void)
{
	/* For tests, and to try one that is not installed */
	const char *other = getenv("DLEND_MIGRATE");

	return other && *other ? other : PROGRAM;
}

/* What --root was; each of the directories is below it. */
static const char *root(void)
{
	char *etc = path("%s", opt.etc);

	etc[strlen(etc) - strlen("/etc")] = '\0';
	return *etc ? etc : "/";
}

int cmd_migrate(int argc, char **argv)
{
	const char **words = calloc(argc + 4, sizeof(*words));
	size_t count = 0;

	if (!words)
		abort();
	if (opt.fake && !opt.run)
		fail(EXIT_USAGE, "migrate needs more than sysfs", NULL, "Use --root DIR.");
	words[count++] = "dlend migrate";
	if (opt.json)
		words[count++] = "--json";
	if (opt.fake) {
		words[count++] = "--root";
		words[count++] = root();
	}
	for (int i = 1; i < argc; i++)
		words[count++] = argv[i];
	execv(program(), (char *const *)words);
	fail(EXIT_FAIL, text("%s cannot be run", program()), strerror(errno),
	     errno == ENOENT ? "Is python3 installed, and dlend completely (make install)?" : NULL);
}
