// SPDX-License-Identifier: GPL-2.0-only
/*
 * What goes into JSON, and how it is printed; jansson does the rest.  Attributes hold what kernels
 * and peers put there, and jansson takes no text that is not UTF-8: bytes that are no ASCII
 * become '?'.
 */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

/* Of the documents of each verb. If one verb's is raised, it gets a column in verb.c. */
#define JSON_VERSION	1

json_t *ascii_json(const char *s)
{
	char *copy = text("%s", s ? s : "");

	for (char *c = copy; *c; c++)
		if ((unsigned char)*c >= 0x7f)
			*c = '?';
	return json_string(copy);
}

/* All other attributes are text, whatever they look like: a session may have no letters. */
static const char *const numbers[] = {
	"aperture_bytes", "aperture_free_bytes", "aperture_largest_free_bytes", "borrower", "epoch",
	"heartbeat_age_ms", "lender", "memory", "memory_sharers", "node_id", "peer_node",
	"required_peer", "version", "window_bytes"
};

json_t *attr_json(const char *name, const char *value)
{
	const char *s = value + (*value == '-');
	/* JSON has no leading zeros; readers lose digits beyond 2^53, which 15 digits stay below */
	bool number = is_digits(s) && strlen(s) <= 15 && (!s[1] || *s != '0');

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!strcmp(name, numbers[i]))
			return number ? json_integer(strtoll(value, NULL, 10)) : json_null();
	return ascii_json(value);
}

void print_json(json_t *root)
{
	if (!root)
		abort();
	json_dumpf(root, stdout, opt.lines ? JSON_COMPACT : JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
}

void print_document(json_t *root)
{
	json_t *document = json_pack("{s:s, s:i}", "verb", opt.verb, "version", JSON_VERSION);

	if (json_object_update(document, root))
		abort();
	json_decref(root);
	print_json(document);
}
