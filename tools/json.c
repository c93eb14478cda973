// SPDX-License-Identifier: GPL-2.0-only
/*
 * What goes into JSON, and how it is printed; jansson does the rest.  Attributes hold what kernels
 * and peers put there, and jansson takes no text that is not UTF-8: bytes that are no ASCII
 * become '?'.
 */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

json_t *ascii_json(const char *s)
{
	char *copy = strdup(s);
	json_t *value;

	if (!copy)
		abort();
	for (char *c = copy; *c; c++)
		if ((unsigned char)*c >= 0x7f)
			*c = '?';
	value = json_string(copy);
	free(copy);
	return value;
}

static bool is_number(const char *s)
{
	size_t len;

	if (*s == '-')
		s++;
	len = strspn(s, "0123456789");
	/* JSON has no leading zeros; readers lose digits beyond 2^53, which 15 digits stay below */
	return len && !s[len] && len <= 15 && (len == 1 || s[0] != '0');
}

json_t *attr_json(const char *value)
{
	return is_number(value) ? json_integer(strtoll(value, NULL, 10)) : ascii_json(value);
}

void print_json(json_t *root)
{
	if (!root)
		abort();
	json_dumpf(root, stdout, opt.lines ? JSON_COMPACT : JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
}
