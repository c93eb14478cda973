// SPDX-License-Identifier: GPL-2.0-only
/*
 * What mdevctl asks of a type of ours (mdevctl(8), "Invoking external scripts"), called by
 * mdevctl.d/dlend: checks before anything is defined or started, attributes that a device has,
 * changes to one that exists.
 *
 * mdevctl itself makes the device, and writes each attribute of the definition to the file of that
 * name in the device's own directory; this only says whether that makes sense, and why not.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

#define DEPTH_MAX	32	/* of a definition; jansson itself goes down 2048 levels */
#define CALLOUT_FOREIGN	2	/* mdevctl: this type is not ours; anything else but 0 refuses */

struct request {
	const char *type, *event, *action, *state, *uuid, *parent;
};

struct attribute {
	const char *name, *value;	/* of a definition's JSON, which is never freed */
};

struct attributes {
	size_t count;
	struct attribute *entry;
};

static const struct {
	const char *name, *initial, *values;
} known[] = {
	{ "clique", "auto", "a number from 0 to 15, none, auto or always" },
	{ "prepin", "bme", "bme (pin when the guest wants DMA) or open (when the VM starts)" },
	{ "lowmem", "auto", "auto, or where RAM below 4 GiB ends: whole MiB from 1M to 4G" },
};

#define KNOWN	ARRAY_SIZE(known)

/* As the kernel takes it: digits, and a K, M or G. */
static bool lowmem_valid(const char *s)
{
	static const char units[] = "KMG";
	const char *unit;
	uint64_t bytes;
	char *end;

	if (!strcmp(s, "auto"))
		return true;
	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	bytes = strtoull(s, &end, 0);
	if (errno || bytes > 1ULL << 32)
		return false;
	unit = *end ? strchr(units, *end & ~0x20) : NULL;
	if (*end && (!unit || !*unit || end[1]))
		return false;
	if (unit)
		bytes <<= 10 * (unit - units + 1);
	return bytes >= 1 << 20 && bytes <= 1ULL << 32 && bytes % (1 << 20) == 0;
}

static bool value_valid(const char *name, const char *value)
{
	if (!strcmp(name, "clique"))
		return clique_valid(value) || !strcmp(value, "always");
	if (!strcmp(name, "prepin"))
		return !strcmp(value, "bme") || !strcmp(value, "open");
	return lowmem_valid(value);
}

static void check_attribute(const struct attribute *a)
{
	for (size_t i = 0; i < KNOWN; i++) {
		if (strcmp(a->name, known[i].name))
			continue;
		if (!value_valid(a->name, a->value))
			fail(EXIT_FAIL, text("%s=%s", a->name, a->value),
			     text("%s is %s", a->name, known[i].values), NULL);
		return;
	}
	fail(EXIT_FAIL, text("\"%s\" is no attribute of a dlend device", a->name),
	     "the attributes are clique, prepin and lowmem", NULL);
}

static bool add_attribute(struct attributes *a, const char *name, const char *value)
{
	if (!value || strlen(name) >= TEXT_MAX || strlen(value) >= TEXT_MAX)
		return false;
	a->entry = grow(a->entry, a->count, sizeof(*a->entry));
	a->entry[a->count++] = (struct attribute){ name, value };
	return true;
}

static bool is_deeper(json_t *value, int levels)
{
	const char *name;
	json_t *member;
	size_t i;

	if (!json_is_object(value) && !json_is_array(value))
		return false;
	if (!levels)
		return true;
	json_object_foreach(value, name, member) {
		if (is_deeper(member, levels - 1))
			return true;
	}
	json_array_foreach(value, i, member) {
		if (is_deeper(member, levels - 1))
			return true;
	}
	return false;
}

/* Reads "attrs" of a definition: an array of objects, each with one text.  Ignores the rest. */
static bool read_attributes(const char *text, struct attributes *a)
{
	json_t *definition = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	json_t *attrs = json_object_get(definition, "attrs"), *object, *value;
	const char *name;
	size_t i;

	if (!json_is_object(definition) || is_deeper(definition, DEPTH_MAX))
		return false;
	if (!attrs || json_is_null(attrs))
		return true;
	if (!json_is_array(attrs))
		return false;
	json_array_foreach(attrs, i, object) {
		if (!json_is_object(object))
			return false;
		json_object_foreach(object, name, value) {
			if (!add_attribute(a, name, json_string_value(value)))
				return false;
		}
	}
	return true;
}

static struct attributes check_definition(void)
{
	struct attributes a = { 0 };
	char *definition = read_all("/dev/stdin");

	if (definition && *strip_text(definition) && !read_attributes(definition, &a))
		fail(EXIT_FAIL, "the definition is not understood",
		     "it is no JSON as mdevctl writes it",
		     "See mdevctl(8), CONFIGURATION FILE FORMAT.");
	for (size_t i = 0; i < a.count; i++) {
		check_attribute(&a.entry[i]);
		for (size_t k = 0; k < i; k++)
			if (!strcmp(a.entry[k].name, a.entry[i].name))
				fail(EXIT_FAIL, text("%s is there twice", a.entry[i].name),
				     "each attribute can be set once",
				     "Remove one: mdevctl modify -u UUID --delattr --index=N");
	}
	return a;
}

/* mdevctl itself says "No available instances" or an errno.  This says who has the device. */
static void check_start(const struct request *req)
{
	struct names there = list_dir(text("%s/mdev_supported_types",
					   offer_directory(req->parent)));

	if (there.count && !names_have(&there, req->type))
		fail(EXIT_FAIL, text("%s cannot be used here", req->parent),
		     text("its type is %s, not %s", there.name[0], req->type),
		     text("mdevctl modify -u %s --type %s", req->uuid, there.name[0]));
	offer_check(req->parent, req->uuid);
}

/* The settings of a device that exists, without those that still have their initial value. */
static void show_attributes(const struct request *req)
{
	json_t *set = json_array();

	for (size_t i = 0; i < KNOWN; i++) {
		const char *value = attr(mdev_directory(req->uuid), known[i].name);

		if (*value && strcmp(value, known[i].initial))
			json_array_append_new(set, json_pack("{s:s}", known[i].name, value));
	}
	print_json(set);
}

static void show_capabilities(void)
{
	print_json(json_pack("{s:{s:i, s:[sssssss], s:[sssss]}}",
			     "supports",
			     "version", 2,
			     "actions", "start", "stop", "define", "undefine", "modify",
					"attributes", "capabilities",
			     "events", "pre", "post", "notify", "get", "live"));
}

/* A setting that the definition does not name goes back to its initial value. */
static const char *wanted_value(const struct attributes *a, size_t i)
{
	const char *value = known[i].initial;

	for (size_t k = 0; k < a->count; k++)
		if (!strcmp(a->entry[k].name, known[i].name))
			value = a->entry[k].value;
	return value;
}

static int write_setting(const char *dir, size_t i, const char *value)
{
	return write_text(text("%s/%s", dir, known[i].name), text("%s\n", value));
}

/*
 * Changes all settings or none, because mdevctl takes a refusal to mean that nothing changed.  No
 * file tells whether a VM has the device open, and the kernel then refuses some settings only.  So
 * if one of them is refused, those before it are written back.
 */
static void change_settings(const struct request *req, const struct attributes *a)
{
	const char *dir = mdev_directory(req->uuid), *was[KNOWN], *kept = "";
	size_t i;
	int err = 0;

	if (!path_exists(dir))
		fail(EXIT_NOT_FOUND, text("%s is not there", req->uuid), "it was not started",
		     NULL);
	for (i = 0; i < KNOWN; i++) {
		was[i] = attr(dir, known[i].name);
		if (!strcmp(was[i], wanted_value(a, i)))
			continue;
		err = write_setting(dir, i, wanted_value(a, i));
		if (err)
			break;
	}
	for (size_t k = i; err && k-- > 0;)
		if (strcmp(was[k], wanted_value(a, k)) && write_setting(dir, k, was[k]))
			kept = text("%s; %s is %s now", kept, known[k].name, wanted_value(a, k));
	if (err)
		fail(EXIT_FAIL, text("%s stays %s", known[i].name, was[i]),
		     text("%s%s", err == -EBUSY ? "a VM has the device open" : strerror(-err),
			  kept),
		     err == -EBUSY ? "Shut it down first, or leave out --live." : NULL);
}

/* In the order of mdevctl(8).  A request that is not listed here is allowed. */
static void answer_request(void *arg)
{
	const struct request *req = arg;
	struct attributes a;
	bool pre = !strcmp(req->event, "pre");

	if (!strcmp(req->event, "get")) {
		if (!strcmp(req->action, "capabilities"))
			show_capabilities();
		else if (!strcmp(req->action, "attributes"))
			show_attributes(req);
	} else if (!strcmp(req->event, "live") && !strcmp(req->action, "modify")) {
		a = check_definition();
		change_settings(req, &a);
	} else if (pre && (!strcmp(req->action, "define") || !strcmp(req->action, "modify"))) {
		check_definition();
	} else if (pre && !strcmp(req->action, "start")) {
		check_definition();
		check_start(req);
	}
}

int cmd_callout(int argc, char **argv)
{
	struct request req = { "", "", "", "", "", "" };
	const char **word[] = {
		['t'] = &req.type, ['e'] = &req.event, ['a'] = &req.action, ['s'] = &req.state,
		['u'] = &req.uuid, ['p'] = &req.parent
	};
	int c;

	while ((c = getopt(argc, argv, "t:e:a:s:u:p:")) != -1) {
		if (c == '?')
			return EXIT_FAIL;
		*word[c] = optarg;
	}
	if (strncmp(req.type, "dlend-", 6))
		return CALLOUT_FOREIGN;
	if (strchr(req.uuid, '/') || strchr(req.parent, '/') || strchr(req.type, '/'))
		return EXIT_FAIL;
	/* 2 would say that the type is not ours. */
	return attempt(answer_request, &req) ? EXIT_FAIL : EXIT_OK;
}
