// SPDX-License-Identifier: GPL-2.0-only
/* Paths and attributes.  Knows nothing of devices. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dlend.h"

char *path(const char *fmt, ...)
{
	va_list args;
	char *p;

	va_start(args, fmt);
	if (vasprintf(&p, fmt, args) < 0)
		abort();
	va_end(args);
	return p;
}

bool path_exists(const char *p)
{
	return access(p, F_OK) == 0;
}

int read_text(char *text, const char *p)
{
	ssize_t got;
	int fd;

	text[0] = '\0';
	fd = open(p, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, text, TEXT_MAX - 1);
	if (got < 0) {
		got = -errno;
		close(fd);
		return got;
	}
	close(fd);
	text[got] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

const char *read_attr(char *text, const char *dir, const char *name)
{
	char *p = path("%s/%s", dir, name);

	read_text(text, p);
	free(p);
	/* Some attributes come from peers: they must not send control sequences to a terminal. */
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return text;
}

int write_text(const char *p, const char *text)
{
	int fd, err = 0;

	/* No O_CREAT: in a fake tree, too, files that sysfs does not have must not appear. */
	fd = open(p, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

char *read_all(const char *p)
{
	size_t room = 0, got;
	char *s = NULL;
	FILE *f = fopen(p, "re");

	if (!f)
		return NULL;
	got = getdelim(&s, &room, '\0', f) > 0 ? strlen(s) : 0;
	if (ferror(f)) {
		free(s);
		s = NULL;
	} else if (!got) {
		free(s);
		s = strdup("");
	}
	fclose(f);
	return s;
}

char *strip_text(char *s)
{
	size_t len;

	s += strspn(s, " \t\r\n");
	len = strlen(s);
	while (len && strchr(" \t\r\n", s[len - 1]))
		s[--len] = '\0';
	return s;
}

char *link_name(const char *p)
{
	char target[PATH_MAX];
	const char *last;
	ssize_t got;

	got = readlink(p, target, sizeof(target) - 1);
	if (got < 0)
		return NULL;
	target[got] = '\0';
	last = strrchr(target, '/');
	return strdup(last ? last + 1 : target);
}

char *real_path(const char *p)
{
	return realpath(p, NULL);
}

bool is_below(const char *p, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(p, dir, len) == 0 && p[len] == '/';
}

void names_add(struct names *n, const char *name)
{
	n->name = reallocarray(n->name, n->count + 1, sizeof(*n->name));
	if (!n->name)
		abort();
	n->name[n->count++] = strdup(name);
}

static int compare_names(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

struct names list_dir(const char *dir)
{
	struct names n = { 0 };
	struct dirent *entry;
	DIR *d = opendir(dir);

	if (!d)
		return n;
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.')
			names_add(&n, entry->d_name);
	closedir(d);
	if (n.count)
		qsort(n.name, n.count, sizeof(*n.name), compare_names);
	return n;
}

void names_free(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->name[i]);
	free(n->name);
	n->name = NULL;
	n->count = 0;
}

bool names_have(const struct names *n, const char *name)
{
	for (size_t i = 0; i < n->count; i++)
		if (!strcmp(n->name[i], name))
			return true;
	return false;
}
