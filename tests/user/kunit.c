// SPDX-License-Identifier: GPL-2.0
/*
 * Runner of KUnit suites in user space: the suites linked in register themselves, their cases run
 * in order, and TAP comes out.  Knows nothing of what the suites test.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <kunit/test.h>

#define MAX_SUITES	32

/* Things that end with the case: memory (no @run) and actions. */
struct shim_action {
	struct shim_action *next;
	void (*run)(void *ctx);
	void *ctx;
};

static struct kunit_suite *suites[MAX_SUITES];
static unsigned int nr_suites, nr_lines, nr_failed;
static jmp_buf leave_case;

void shim_register(struct kunit_suite *suite)
{
	if (nr_suites == MAX_SUITES)
		abort();
	suites[nr_suites++] = suite;
}

int kunit_add_action(struct kunit *test, void (*action)(void *), void *ctx)
{
	struct shim_action *entry = malloc(sizeof(*entry));

	*entry = (struct shim_action){ test->actions, action, ctx };
	test->actions = entry;
	return 0;
}

void *kunit_kzalloc(struct kunit *test, size_t size, gfp_t gfp)
{
	void *ptr = calloc(1, size);

	kunit_add_action(test, free, ptr);
	return ptr;
}

/* Filled with rubbish, as the kernel's may be. */
void *kunit_kmalloc(struct kunit *test, size_t size, gfp_t gfp)
{
	void *ptr = kunit_kzalloc(test, size, gfp);

	return memset(ptr, 0xa5, size);
}

void kunit_kfree(struct kunit *test, const void *ptr)
{
	struct shim_action **link = &test->actions, *entry;

	while (*link && ((*link)->ctx != ptr || (*link)->run != free))
		link = &(*link)->next;
	entry = *link;
	if (!entry)
		abort();
	*link = entry->next;
	free(entry->ctx);
	free(entry);
}

static void say(const char *fmt, va_list args)
{
	vprintf(fmt, args);
	/* Kernel messages bring their newline. */
	if (!*fmt || fmt[strlen(fmt) - 1] != '\n')
		printf("\n");
}

void shim_say(const char *fmt, ...)
{
	va_list args;

	printf("# ");
	va_start(args, fmt);
	say(fmt, args);
	va_end(args);
}

void shim_fail(struct kunit *test, bool abort, const char *file, int line, const char *fmt, ...)
{
	va_list args;

	printf("# %s:%d: ", file, line);
	va_start(args, fmt);
	say(fmt, args);
	va_end(args);
	test->failed = true;
	if (abort)
		longjmp(leave_case, 1);
}

void shim_skip(struct kunit *test, bool leave, const char *fmt, ...)
{
	va_list args;

	printf("# ");
	va_start(args, fmt);
	say(fmt, args);
	va_end(args);
	test->skipped = true;
	if (leave)
		longjmp(leave_case, 1);
}

static void run_actions(struct kunit *test)
{
	while (test->actions) {
		struct shim_action *entry = test->actions;

		test->actions = entry->next;
		entry->run(entry->ctx);
		free(entry);
	}
}

static void run_one(struct kunit_suite *suite, struct kunit_case *kcase, const void *param,
		    int index, const char *desc)
{
	struct kunit test = { .name = kcase->name, .param_value = param, .param_index = index };

	if (!setjmp(leave_case)) {
		if (suite->init && suite->init(&test))
			test.failed = true;
		else
			kcase->run_case(&test);
	}
	/* exit() may assert as well. */
	if (!setjmp(leave_case) && suite->exit)
		suite->exit(&test);
	run_actions(&test);
	nr_failed += test.failed;
	printf("%sok %u - %s: %s%s%s%s\n", test.failed ? "not " : "", ++nr_lines, suite->name,
	       kcase->name, *desc ? ": " : "", desc, test.skipped ? " # SKIP" : "");
	fflush(stdout);
}

static void run_case(struct kunit_suite *suite, struct kunit_case *kcase)
{
	char desc[KUNIT_PARAM_DESC_SIZE] = "";
	const void *param = NULL;
	struct kunit test = { };
	int index = 0;

	if (!kcase->generate_params) {
		run_one(suite, kcase, NULL, 0, desc);
		return;
	}
	while ((param = kcase->generate_params(&test, param, desc)) != NULL) {
		char *hash;

		/* A '#' would be a TAP directive. */
		while ((hash = strchr(desc, '#')) != NULL)
			*hash = 'n';
		run_one(suite, kcase, param, index++, desc);
		desc[0] = 0;
	}
}

int main(void)
{
	struct kunit_case *kcase;
	unsigned int i;

	printf("TAP version 13\n");
	for (i = 0; i < nr_suites; i++) {
		if (suites[i]->suite_init && suites[i]->suite_init(suites[i])) {
			printf("Bail out! %s: suite_init failed\n", suites[i]->name);
			return 1;
		}
		for (kcase = suites[i]->test_cases; kcase->run_case; kcase++)
			run_case(suites[i], kcase);
		if (suites[i]->suite_exit)
			suites[i]->suite_exit(suites[i]);
	}
	printf("1..%u\n", nr_lines);
	if (!nr_lines) {
		printf("# no case ran\n");
		return 1;
	}
	return nr_failed ? 1 : 0;
}
