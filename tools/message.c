// SPDX-License-Identifier: GPL-2.0-only
/* What the command says when things go wrong: what, why, what to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

#define LONGEST	1000	/* characters of a part of a message */

/*
 * As a terminal can show it: what is no ASCII becomes '?', and of a text that is longer than people
 * read the middle is left out.  Arguments are in messages, and names that others chose.
 */
static const char *readable(const char *s)
{
	size_t len = s ? strlen(s) : 0;

	if (!s)
		return NULL;
	return ascii(len > LONGEST ? text("%.*s...%s", LONGEST / 2, s, s + len - LONGEST / 2) :
				     text("%s", s));
}

/* Where attempt() continues after a fail(). */
struct catcher {
	jmp_buf here;
	bool quiet;
};

static struct catcher *catcher;
static struct {
	const char *what, *why, *todo;
} caught;

json_t *attempt_json(int code)
{
	return json_pack("{s:i, s:o, s:o, s:o}", "code", code, "what", ascii_json(caught.what),
			 "why", ascii_json(caught.why), "todo", ascii_json(caught.todo));
}

void fail_again(int code)
{
	if (opt.json)
		print_document(json_pack("{s:o}", "error", attempt_json(code)));
	exit(code);
}

void fail(int code, const char *what, const char *why, const char *todo)
{
	caught.what = readable(what);
	caught.why = readable(why);
	caught.todo = readable(todo);
	if (!catcher || !catcher->quiet) {
		fprintf(stderr, "dlend: %s\n", attempt_failure());
		if (todo)
			fprintf(stderr, "  %s\n", caught.todo);
	}
	if (catcher)
		longjmp(catcher->here, code);
	fail_again(code);
}

void progress(const char *fmt, ...)
{
	va_list args;

	if (opt.json)
		return;
	va_start(args, fmt);
	fprintf(stderr, "%s\n", readable(vtext(fmt, args)));
	va_end(args);
}

static int catch_failure(void (*act)(void *arg), void *arg, bool quiet)
{
	struct catcher mine = { .quiet = quiet }, *outer = catcher;
	int code;

	code = setjmp(mine.here);
	if (!code) {
		catcher = &mine;
		act(arg);
	}
	catcher = outer;
	return code;
}

int attempt(void (*act)(void *arg), void *arg)
{
	return catch_failure(act, arg, false);
}

const char *attempt_quietly(void (*act)(void *arg), void *arg)
{
	if (!catch_failure(act, arg, true))
		return NULL;
	return caught.why ? caught.why : caught.what;
}

const char *attempt_failure(void)
{
	return text("%s%s%s", caught.what, caught.why ? ": " : "", caught.why ? caught.why : "");
}

const char *attempt_todo(void)
{
	return caught.todo;
}
