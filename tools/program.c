// SPDX-License-Identifier: GPL-2.0-only
/* dlend bench, dlend migrate: hands over to the program that does it, on several hosts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dlend.h"

#define PROGRAMS	"/usr/lib/dlend"

static char *program(const char *verb)
{
	/* For tests, and to try programs that are not installed */
	const char *other = getenv("DLEND_PROGRAMS");

	return path("%s/%s", other && *other ? other : PROGRAMS, verb);
}

/* Each of the directories is below it. */
const char *root_directory(void)
{
	char *etc = path("%s", opt.etc);

	if (opt.fake && !opt.run)
		fail(EXIT_USAGE, text("%s needs more than sysfs", opt.verb), NULL,
		     "Use --root DIR.");
	etc[strlen(etc) - strlen("/etc")] = '\0';
	return *etc ? etc : "/";
}

int cmd_program(int argc, char **argv)
{
	const char **words = calloc(argc + 4, sizeof(*words));
	char *file = program(argv[0]);
	size_t count = 0;

	if (!words)
		abort();
	words[count++] = text("dlend %s", argv[0]);
	if (opt.json)
		words[count++] = "--json";
	if (opt.fake) {
		words[count++] = "--root";
		words[count++] = root_directory();
	}
	for (int i = 1; i < argc; i++)
		words[count++] = argv[i];
	execv(file, (char *const *)words);
	fail(EXIT_FAIL, text("%s cannot be run", file), strerror(errno),
	     errno == ENOENT ? "Is python3 installed, and dlend completely (make install)?" : NULL);
}
