// SPDX-License-Identifier: GPL-2.0-only
/*
 * JSON on standard output.  Attributes hold what kernels and peers put there, so text is escaped
 * and bytes that are no ASCII become '?': the output is valid whatever comes.
 */
#include <ctype.h>
#include <string.h>

#include "dlend.h"

#define DEPTH_MAX	8

static int depth;
static bool filled[DEPTH_MAX];	/* something stands in this level already */

static void quote(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		unsigned char c = *s;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20)
			printf("\\u%04x", c);
		else
			putchar(c < 0x7f ? c : '?');
	}
	putchar('"');
}

static void start(const char *key)
{
	if (filled[depth])
		putchar(',');
	if (depth)
		printf("\n%*s", 2 * depth, "");
	filled[depth] = true;
	if (key) {
		quote(key);
		fputs(": ", stdout);
	}
}

void json_begin(const char *key, char bracket)
{
	start(key);
	putchar(bracket);
	filled[++depth] = false;
}

void json_end(char bracket)
{
	bool any = filled[depth--];

	if (any)
		printf("\n%*s", 2 * depth, "");
	putchar(bracket);
	if (!depth) {
		putchar('\n');
		filled[0] = false;
	}
}

void json_text(const char *key, const char *value)
{
	start(key);
	quote(value);
}

void json_number(const char *key, long long value)
{
	start(key);
	printf("%lld", value);
}

void json_bool(const char *key, bool value)
{
	start(key);
	fputs(value ? "true" : "false", stdout);
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

void json_attr(const char *key, const char *value)
{
	if (is_number(value)) {
		start(key);
		fputs(value, stdout);
	} else {
		json_text(key, value);
	}
}
