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

#define CALLOUT_FOREIGN	2	/* mdevctl: this type is not ours; anything else but 0 refuses */

struct request {
	const char *type, *event, *action, *state, *uuid, *parent;
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

static void check_attribute(const char *name, const char *value)
{
	for (size_t i = 0; i < KNOWN; i++) {
		if (strcmp(name, known[i].name))
			continue;
		if (!value_valid(name, value))
			fail(EXIT_FAIL, text("%s=%s", name, value),
			     text("%s is %s", name, known[i].values), NULL);
		return;
	}
	fail(EXIT_FAIL, text("\"%s\" is no attribute of a dlend device", name),
	     "the attributes are clique, prepin and lowmem", NULL);
}

__noreturn static void refuse_definition(void)
{
	fail(EXIT_FAIL, "the definition is not understood", "it is no JSON as mdevctl writes it",
	     "See mdevctl(8), CONFIGURATION FILE FORMAT.");
}

/* "attrs" of a definition: an array of objects, each with one text.  Ignores the rest. */
static json_t *read_attributes(const char *definition)
{
	json_t *read = json_loads(definition, JSON_REJECT_DUPLICATES, NULL);
	json_t *attrs = json_object_get(read, "attrs");

	if (!json_is_object(read) || (attrs && !json_is_null(attrs) && !json_is_array(attrs)))
		refuse_definition();
	return attrs;
}

/* Return: {name: value} of what the definition on standard input sets */
static json_t *check_definition(void)
{
	char *definition = read_all(NULL);
	json_t *set = json_object(), *object, *value;
	const char *name;
	size_t i;

	if (!definition || !*strip_text(definition))
		return set;
	json_array_foreach(read_attributes(definition), i, object) {
		if (!json_is_object(object))
			refuse_definition();
		json_object_foreach(object, name, value) {
			if (!json_is_string(value) || strlen(name) >= TEXT_MAX ||
			    json_string_length(value) >= TEXT_MAX)
				refuse_definition();
			check_attribute(name, json_string_value(value));
			if (json_object_get(set, name))
				fail(EXIT_FAIL, text("%s is there twice", name),
				     "each attribute can be set once",
				     "Remove one: mdevctl modify -u UUID --delattr --index=N");
			json_object_set(set, name, value);
		}
	}
	return set;
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
static const char *wanted_value(const json_t *set, size_t i)
{
	const char *value = json_string_value(json_object_get(set, known[i].name));

	return value ? value : known[i].initial;
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
static void change_settings(const struct request *req, const json_t *set)
{
	const char *dir = mdev_directory(req->uuid), *was[KNOWN], *kept = "";
	size_t i;
	int err = 0;

	if (!path_exists(dir))
		fail(EXIT_NOT_FOUND, text("%s is not there", req->uuid), "it was not started",
		     NULL);
	for (i = 0; i < KNOWN; i++) {
		was[i] = attr(dir, known[i].name);
		if (!strcmp(was[i], wanted_value(set, i)))
			continue;
		err = write_setting(dir, i, wanted_value(set, i));
		if (err)
			break;
	}
	for (size_t k = i; err && k-- > 0;)
		if (strcmp(was[k], wanted_value(set, k)) && write_setting(dir, k, was[k]))
			kept = text("%s; %s is %s now", kept, known[k].name, wanted_value(set, k));
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
	bool pre = !strcmp(req->event, "pre");

	if (!strcmp(req->event, "get")) {
		if (!strcmp(req->action, "capabilities"))
			show_capabilities();
		else if (!strcmp(req->action, "attributes"))
			show_attributes(req);
	} else if (!strcmp(req->event, "live") && !strcmp(req->action, "modify")) {
		change_settings(req, check_definition());
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
