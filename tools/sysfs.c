// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory, text, lists of names, and files.  Knows nothing of devices.
 *
 * A command runs for a moment, so nothing is freed before it ends.  A command that runs on drops
 * what each of its rounds has allocated.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dlend.h"

static struct {
	void **block;
	size_t count;
} memory;

static void *keep(void *block)
{
	memory.block = reallocarray(memory.block, memory.count + 1, sizeof(block));
	if (!memory.block || !block)
		abort();
	memory.block[memory.count++] = block;
	return block;
}

size_t memory_mark(void)
{
	return memory.count;
}

void memory_drop(size_t mark)
{
	while (memory.count > mark)
		free(memory.block[--memory.count]);
}

void *zeroed(size_t count, size_t size)
{
	return keep(calloc(count + 1, size));
}

void *grow(void *array, size_t count, size_t size)
{
	void *larger;

	/* It has become larger each time that the count was a power of two. */
	if (count & (count - 1))
		return array;
	larger = zeroed(2 * count + 1, size);
	if (count)
		memcpy(larger, array, count * size);
	return larger;
}

char *vtext(const char *fmt, va_list args)
{
	char *s;

	if (vasprintf(&s, fmt, args) < 0)
		abort();
	return keep(s);
}

char *text(const char *fmt, ...)
{
	va_list args;
	char *s;

	va_start(args, fmt);
	s = vtext(fmt, args);
	va_end(args);
	return s;
}

const char *join(const char *list, const char *word)
{
	return text("%s%s%s", list, *list ? ", " : "", word);
}

char *ascii(char *s)
{
	for (char *c = s; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
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

bool ends_with(const char *s, const char *end)
{
	size_t len = strlen(s), more = strlen(end);

	return len >= more && !strcmp(s + len - more, end);
}

bool is_digits(const char *s)
{
	return *s && !s[strspn(s, "0123456789")];
}

bool has_word(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = words; len && at && (at = strstr(at, word)); at += len)
		if ((at == words || strchr("\n ,", at[-1])) && strchr("\n ,", at[len]))
			return true;
	return false;
}

bool path_exists(const char *p)
{
	return access(p, F_OK) == 0;
}

char *read_line(const char *p)
{
	char line[TEXT_MAX];
	ssize_t got = -1;
	int fd;

	fd = open(p, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, line, TEXT_MAX - 1);
		close(fd);
	}
	if (got < 0)
		return NULL;
	line[got] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return text("%s", line);
}

char *attr(const char *dir, const char *name)
{
	char *line = read_line(text("%s/%s", dir, name));

	/* Some attributes come from peers: they must not send control sequences to a terminal. */
	return line ? ascii(line) : text("%s", "");
}

unsigned long long attr_number(const char *dir, const char *name)
{
	return strtoull(attr(dir, name), NULL, 0);
}

bool attr_is(const char *dir, const char *name, const char *value)
{
	return !strcmp(attr(dir, name), value);
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
	size_t room = 0;
	char *s = NULL;
	FILE *f = p ? fopen(p, "re") : stdin;
	bool failed;

	if (!f)
		return NULL;
	if (getdelim(&s, &room, '\0', f) <= 0) {
		free(s);
		s = strdup("");
	}
	failed = ferror(f);
	fclose(f);
	keep(s);
	return failed ? NULL : s;
}

char *next_line(char **rest)
{
	char *line;

	do
		line = *rest ? strsep(rest, "\n") : NULL;
	while (line && !*line);
	return line;
}

char *link_name(const char *dir, const char *name)
{
	char target[PATH_MAX];
	const char *last;
	ssize_t got;

	got = readlink(text("%s/%s", dir, name), target, sizeof(target) - 1);
	if (got < 0)
		return NULL;
	target[got] = '\0';
	last = strrchr(target, '/');
	return text("%s", last ? last + 1 : target);
}

char *real_path(const char *p)
{
	char *real = realpath(p, NULL);

	return real ? keep(real) : NULL;
}

bool is_below(const char *p, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(p, dir, len) == 0 && p[len] == '/';
}

void names_add(struct names *n, const char *name)
{
	n->name = grow(n->name, n->count, sizeof(*n->name));
	n->name[n->count++] = text("%s", name);
}

static int compare_names(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

void names_sort(struct names *n)
{
	if (n->count)
		qsort(n->name, n->count, sizeof(*n->name), compare_names);
}

struct names list_dir(const char *dir)
{
	struct names n = { .dir = dir };
	struct dirent *entry;
	DIR *d = opendir(dir);

	if (!d)
		return n;
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.')
			names_add(&n, entry->d_name);
	closedir(d);
	names_sort(&n);
	return n;
}

char *names_path(const struct names *n, size_t i)
{
	return text("%s/%s", n->dir, n->name[i]);
}

const char *names_text(const struct names *n)
{
	const char *all = "";

	for (size_t i = 0; i < n->count; i++)
		all = join(all, n->name[i]);
	return all;
}

bool names_have(const struct names *n, const char *name)
{
	for (size_t i = 0; i < n->count; i++)
		if (!strcmp(n->name[i], name))
			return true;
	return false;
}
